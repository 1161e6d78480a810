/* Rows of float32 in the registers of the threads that share them, each read once: short rows have a warp each, long ones a
 * block. */
#ifndef PYAPP_KEPT_ROW_H
#define PYAPP_KEPT_ROW_H
#include "vectors.h"

enum { KEPT = 4 /* fours of a thread */, ROW_THREADS = 512, ROW_WARPS = ROW_THREADS / 32 };
#define WARP_COLUMNS 512
#define ROW_BLOCKS CHOOSE(columns <= WARP_COLUMNS, PARTS(rows, 16), rows)

/* OF_WARP: a warp has a row. */
template <bool OF_WARP> DEVICE int row_thread() { return OF_WARP ? LANE : (int)threadIdx.x; }
template <bool OF_WARP> DEVICE int row_threads() { return OF_WARP ? 32 : ROW_THREADS; }
/* In every thread of the row. */
template <bool OF_WARP> DEVICE float row_sum(float value)
{
    __shared__ float parts[ROW_WARPS];
    value = warp_reduce(value, Sum());
    if (OF_WARP)
        return value;
    if (LANE == 0)
        parts[WARP] = value;
    __syncthreads();
    value = warp_reduce(LANE < ROW_WARPS ? parts[LANE] : 0.0f, Sum());
    __syncthreads();
    return value;
}
#define FOR_ROW(i, columns) for (int64_t i = row_thread<OF_WARP>(); i < (int64_t)(columns); i += row_threads<OF_WARP>())

/* Whether rows of so many columns are kept: all of these pointers and strides, or'ed. */
DEVICE bool can_keep(uint64_t pointers, int64_t strides, int64_t columns)
{
    return pointers % 16 == 0 && (strides | columns) % 4 == 0 && columns <= KEPT * 4 * ROW_THREADS;
}

/* FOURS of them each thread has at most. */
template <bool OF_WARP, int FOURS = KEPT> struct kept_row {
    float x[4 * FOURS];

    DEVICE_MEMBER static int place(int i) { return 4 * (row_thread<OF_WARP>() + i * row_threads<OF_WARP>()); }
    /* Zeros past the end. */
    DEVICE_MEMBER void load(const float *p, int64_t columns)
    {
#pragma unroll
        for (int i = 0; i < FOURS; i++) {
            float4 four = {0, 0, 0, 0};
            if (place(i) < columns)
                four = *(const float4 *)(p + place(i));
            x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
        }
    }
    /* The same of 16-bit numbers. */
    DEVICE_MEMBER void load_halves(const uint16_t *p, int64_t columns, int type)
    {
#pragma unroll
        for (int i = 0; i < FOURS; i++) {
            uint2 four = {0, 0};
            if (place(i) < columns)
                four = *(const uint2 *)(p + place(i));
            float values[8];
            floats_of<2>(values, uint4{four.x, four.y, 0, 0}, type);
            for (int k = 0; k < 4; k++)
                x[4 * i + k] = values[k];
        }
    }
    DEVICE_MEMBER void store(float *p, int64_t columns) const
    {
#pragma unroll
        for (int i = 0; i < FOURS; i++)
            if (place(i) < columns)
                *(float4 *)(p + place(i)) = float4{x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]};
    }
};

/* Many rows of up to 1024 columns have a warp each, too, in blocks of 256 threads, whose registers hold them. */
#define MANY_ROWS CHOOSE(rows > 1000, CHOOSE(columns > WARP_COLUMNS, CHOOSE(columns <= 1024, 1, 0), 0), 0)
enum { MANY_KEPT = 8 };
#define FOR_MANY_ROWS(rows, row)                                                                                       \
    for (int64_t number = (int64_t)blockIdx.x * WARPS + WARP; number < (int64_t)(rows);                                \
         number += (int64_t)gridDim.x * WARPS)                                                                         \
    row<true, MANY_KEPT>(record, number)

/* row<OF_WARP>(number) for every row. */
#define FOR_ROWS(rows, columns, row)                                                                                   \
    if ((columns) <= WARP_COLUMNS)                                                                                     \
        for (int64_t number = (int64_t)blockIdx.x * WARPS + WARP; number < (int64_t)(rows);                            \
             number += (int64_t)gridDim.x * WARPS)                                                                     \
            row<true>(record, number);                                                                                 \
    else                                                                                                               \
        FOR_EACH_BLOCK(number, rows) row<false>(record, number)
#endif
