/* Products of int8 activations and weights in blocks for many rows: tiles of 128 rows and 64 outputs, whose sums of whole
 * numbers tensor cores make exactly; each block of 32 columns is then scaled in float32. The weights are decoded once for
 * 128 rows. */
#ifndef PYAPP_INT8_TILES_H
#define PYAPP_INT8_TILES_H
#include "tensor_cores.h"
#include "weights.h"

#define FEW_ROWS 32 /* for so many, weights are read as they come: int8_rows.h */
enum { INT8_ROWS = 128, INT8_OUTPUTS = 64, INT8_THREADS = 256, INT8_STAGE = 2 /* blocks of 32 columns */ };
enum { INT8_STRIDE = 12 /* words of a row of a block: reads meet no bank twice */, ONES = 0x01010101 };

struct int8_tile {
    int x[INT8_STAGE][INT8_ROWS][INT8_STRIDE], w[INT8_STAGE][INT8_OUTPUTS][INT8_STRIDE];
    float x_scales[INT8_STAGE][INT8_ROWS],
        x_sums[INT8_STAGE][INT8_ROWS][2]; /* [2]: of the first 16 columns, the last */
    float w_scales[INT8_STAGE][INT8_OUTPUTS][2], w_least[INT8_STAGE][INT8_OUTPUTS][2];
};

/* sums (16, 8) = a (16 rows) times b (8 rows), of 32 columns, or where HALF of 16, of which a has two words and b one. Lanes as
 * in multiply_fragments, with four bytes for a pair (PTX ISA, mma.m16n8k32 and m16n8k16 of s8). */
template <bool HALF> DEVICE void multiply_byte_fragments(int sums[4], const int a[4], const int b[2])
{
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
#ifndef __CUDACC__
    emulator_multiply_bytes(sums, a, b, HALF ? 1 : 2);
#elif HAS_TENSOR_CORES
    if (HALF)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    else
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else /* sm_75 has the quarters of these alone, whose lanes are the same (PTX ISA, mma.m8n8k16 of s8) */
#pragma unroll
    for (int k = 0; k < (HALF ? 1 : 2); k++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                         : "+r"(sums[2 * i]), "+r"(sums[2 * i + 1])
                         : "r"(a[2 * k + i]), "r"(b[k]));
#endif
}

/* The same from shared memory, from word `first` of a block on. */
template <bool HALF>
DEVICE void multiply_bytes(int sums[4], const int (*x)[INT8_STRIDE], const int (*w)[INT8_STRIDE], int first)
{
    const int g = LANE / 4, t = LANE % 4;
    const int a[4] = {x[g][first + t], x[g + 8][first + t], HALF ? 0 : x[g][4 + t], HALF ? 0 : x[g + 8][4 + t]};
    const int b[2] = {w[g][first + t], HALF ? 0 : w[g][4 + t]};
    multiply_byte_fragments<HALF>(sums, a, b);
}

/* The tiles of y (rows, outputs). weights(output, k, s): four and four columns of block k. HALVES: whether the first and the
 * last 16 columns have scales of their own. put(row, output, sum) takes a sum. */
template <bool HALVES, class Weights, class Put>
DEVICE void int8_product(int8_tile *tile, const activations *x, int64_t rows, int64_t outputs, int64_t blocks,
                         Weights weights_of, Put put)
{
    constexpr int PARTS_OF_BLOCK = HALVES ? 2 : 1;
    const int64_t down = PARTS(rows, INT8_ROWS), across = PARTS(outputs, INT8_OUTPUTS);
    const int row0 = WARP / 2 * 32, output0 = WARP % 2 * 32, g = LANE / 4, t = LANE % 4;
    FOR_EACH_BLOCK(unit, down * across)
    {
        const int64_t m = unit % down * INT8_ROWS, n = unit / down * INT8_OUTPUTS;
        float sums[2][4][4] = {{{0}}};
        for (int64_t start = 0; start < blocks; start += INT8_STAGE) {
            for (int i = (int)threadIdx.x; i < INT8_STAGE * INT8_ROWS * 8; i += INT8_THREADS) {
                const int stage = i / (INT8_ROWS * 8), r = i / 8 % INT8_ROWS, word = i % 8;
                const bool there = m + r < rows && start + stage < blocks;
                const activations *own = x + (m + r) * blocks + start + stage;
                const int four = there ? ((const int *)own->values)[word] : 0;
                int sum = __dp4a(four, (int)ONES, 0);
                sum += __shfl_xor_sync(EVERY_LANE, sum, 1);
                sum += __shfl_xor_sync(EVERY_LANE, sum, 2);
                tile->x[stage][r][word] = four;
                if (word % 4 == 0)
                    tile->x_sums[stage][r][word / 4] = (float)sum;
                if (word == 0)
                    tile->x_scales[stage][r] = there ? own->scale : 0.0f;
            }
            for (int i = (int)threadIdx.x; i < INT8_STAGE * INT8_OUTPUTS * 4; i += INT8_THREADS) {
                const int stage = i / (INT8_OUTPUTS * 4), r = i % INT8_OUTPUTS, s = i / INT8_OUTPUTS % 4;
                weights four = {{0, 0}, 0, {0, 0}, {0, 0}};
                if (n + r < outputs && start + stage < blocks)
                    four = weights_of(n + r, start + stage, s);
                for (int h = 0; h < 2; h++) {
                    tile->w[stage][r][4 * h + s] = four.numbers[h];
                    if (s == 0) {
                        tile->w_scales[stage][r][h] = four.scales[h];
                        tile->w_least[stage][r][h] = four.minimums[h] + four.scales[h] * (float)four.bias;
                    }
                }
            }
            __syncthreads();
            for (int stage = 0; stage < INT8_STAGE; stage++)
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
#pragma unroll
                        for (int h = 0; h < PARTS_OF_BLOCK; h++) {
                            int dots[4];
                            multiply_bytes<HALVES>(dots, tile->x[stage] + row0 + 16 * i,
                                                   tile->w[stage] + output0 + 8 * j, 4 * h);
#pragma unroll
                            for (int e = 0; e < 4; e++) {
                                const int r = row0 + 16 * i + g + e / 2 * 8, c = output0 + 8 * j + 2 * t + e % 2;
                                const float sum = HALVES ? tile->x_sums[stage][r][h]
                                                         : tile->x_sums[stage][r][0] + tile->x_sums[stage][r][1];
                                sums[i][j][e] +=
                                    tile->x_scales[stage][r] *
                                    (tile->w_scales[stage][c][h] * (float)dots[e] - tile->w_least[stage][c][h] * sum);
                            }
                        }
            __syncthreads();
        }
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 4; j++)
                for (int e = 0; e < 4; e++) {
                    const int64_t row = m + row0 + 16 * i + g + e / 2 * 8;
                    const int64_t output = n + output0 + 8 * j + 2 * t + e % 2;
                    if (row < rows && output < outputs)
                        put(row, output, sums[i][j][e]);
                }
    }
}
#endif
