/* y = x w^T (+ residual) with weights in float32 and 16-bit floats. A few rows of x: a warp for each output, so that the
 * weights are read once and side by side. More: tiles. Float32 x and 16-bit weights: tensor cores take x as the sum of two
 * bfloat16, which have 16 bits of it, and float16 weights as the sum of two, which have all. */
#include "product.h"

enum { FEW = 8, OUTPUTS = TILE_THREADS / 32 };

/* Four elements from i on, with one load where they are aligned. */
template <int TYPE> DEVICE void load_four(float to[4], const void *p, int64_t i, bool aligned)
{
    if (TYPE == TYPE_float32 && aligned) {
        const float4 four = *(const float4 *)((const float *)p + i);
        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else if (aligned) {
        const uint2 four = *(const uint2 *)((const uint16_t *)p + i);
        const uint16_t halves[4] = {(uint16_t)four.x, (uint16_t)(four.x >> 16), (uint16_t)four.y,
                                    (uint16_t)(four.y >> 16)};
        for (int j = 0; j < 4; j++)
            to[j] = load_float(halves, j, TYPE);
    } else
        for (int j = 0; j < 4; j++)
            to[j] = load_float(p, i + j, TYPE);
}

DEVICE bool is_aligned(const void *p, int64_t stride, int bytes)
{
    return (uint64_t)p % (4 * bytes) == 0 && stride % 4 == 0;
}

struct linear_task {
    void *y;
    const void *x, *w, *residual;
    int64_t rows, outputs, inputs, y_stride, x_stride, residual_stride;
};

template <int X> DEVICE void put(const linear_task &t, int64_t row, int64_t output, float sum)
{
    if (t.residual)
        sum += load_float(t.residual, row * t.residual_stride + output, X);
    store_float(t.y, row * t.y_stride + output, X, sum);
}

/* X: the type of x, y and residual; W: of the weights. */
template <int X, int W> DEVICE void few_rows(const linear_task &t)
{
    const bool aligned_x = is_aligned(t.x, t.x_stride, X == TYPE_float32 ? 4 : 2);
    const bool aligned_w = is_aligned(t.w, t.inputs, W == TYPE_float32 ? 4 : 2);
    const int64_t whole = t.inputs / 4 * 4;
    FOR_EACH_BLOCK(block, PARTS(t.outputs, OUTPUTS))
    {
        const int64_t output = block * OUTPUTS + WARP;
        float sums[FEW] = {0};
        if (output < t.outputs) {
            for (int64_t k = 4 * LANE; k < whole; k += 128) {
                float w[4], x[4];
                load_four<W>(w, t.w, output * t.inputs + k, aligned_w);
                for (int r = 0; r < FEW; r++)
                    if (r < t.rows) {
                        load_four<X>(x, t.x, r * t.x_stride + k, aligned_x);
                        sums[r] += w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
                    }
            }
            for (int64_t k = whole + LANE; k < t.inputs; k += 32)
                for (int r = 0; r < FEW; r++)
                    if (r < t.rows)
                        sums[r] += load_float(t.w, output * t.inputs + k, W) * load_float(t.x, r * t.x_stride + k, X);
        }
        for (int r = 0; r < FEW; r++)
            if (r < t.rows) {
                const float sum = warp_reduce(sums[r], Sum());
                if (LANE == 0 && output < t.outputs)
                    put<X>(t, r, output, sum);
            }
    }
}

DEVICE linear_task task_of(const launch &record)
{
    const int64_t *d = record.dims;
    return linear_task{record.pointers[linear_f32_y],
                       record.pointers[linear_f32_x],
                       record.pointers[linear_f32_w],
                       record.pointers[linear_f32_residual],
                       d[linear_f32_rows],
                       d[linear_f32_outputs],
                       d[linear_f32_inputs],
                       d[linear_f32_y_stride],
                       d[linear_f32_x_stride],
                       d[linear_f32_residual_stride]};
}

template <int X, int W> DEVICE void linear(const launch &record, tile *left, tile *right)
{
    const linear_task t = task_of(record);
    if (t.rows <= FEW) {
        few_rows<X, W>(t);
        return;
    }
    const int64_t across = PARTS(t.outputs, TILE);
    FOR_EACH_BLOCK(unit, PARTS(t.rows, TILE) * across)
    {
        const int64_t m = unit / across * TILE, n = unit % across * TILE;
        float sums[4][4];
        tile_product<X, W>(sums, left, right, matrix{t.x, t.x_stride, 1}, m, t.rows, matrix{t.w, t.inputs, 1}, n,
                           t.outputs, t.inputs);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                const int64_t row = m + row_in_tile<X, W>(i, j), column = n + column_in_tile<X, W>(i, j);
                if (row < t.rows && column < t.outputs)
                    put<X>(t, row, column, sums[i][j]);
            }
    }
}

enum { MIXED_ROWS = 128, MIXED_OUTPUTS = 64, MIXED_PIECE = 8 };

struct alignas(16) mixed_tile {
    int odd; /* whether something was not finite: it counts in products of first terms alone */
    alignas(16) uint16_t x[2][MIXED_ROWS][HALF_ROW],
        w[2][MIXED_OUTPUTS][HALF_ROW]; /* [0]: the first terms, [1]: the second */
};

DEVICE void put_terms(uint16_t *first, uint16_t *second, float x, int *odd)
{
    const uint16_t half = float_to_bf16(x);
    *first = half;
    *second = x - x == 0 ? float_to_bf16(x - bf16_to_float(half)) : (uint16_t)0;
    if (x - x != 0)
        *odd = 1;
}

DEVICE void leave_finite(uint32_t *pairs)
{
    for (int i = 0; i < 4; i++)
        pairs[i] &= ~not_finite<TYPE_bfloat16>(pairs[i]);
}

/* For many rows. W: the type of the weights. */
template <int W> DEVICE void mixed_product(const launch &record, mixed_tile *tile)
{
    const linear_task t = task_of(record);
    const bool aligned_x = is_aligned(t.x, t.x_stride, 4), aligned_w = is_aligned(t.w, t.inputs, 2);
    const int64_t down = PARTS(t.rows, MIXED_ROWS), across = PARTS(t.outputs, MIXED_OUTPUTS);
    const int row0 = WARP / 2 * 32, output0 = WARP % 2 * 32, g = LANE / 4, l = LANE % 4;
    FOR_EACH_BLOCK(unit, down * across)
    {
        const int64_t m = unit % down * MIXED_ROWS, n = unit / down * MIXED_OUTPUTS;
        float sums[2][4][4] = {{{0}}}, x[4][4], w[2][4];
        /* Four columns of four rows of x and two of w, for the next step. */
        const auto load = [&](int64_t start) {
            const int64_t k = start + threadIdx.x % MIXED_PIECE * 4;
            for (int i = 0; i < 4; i++) {
                const int64_t row = m + threadIdx.x / MIXED_PIECE + 32 * i;
                if (row < t.rows && k + 4 <= t.inputs)
                    load_four<TYPE_float32>(x[i], t.x, row * t.x_stride + k, aligned_x);
                else
                    for (int j = 0; j < 4; j++)
                        x[i][j] = row < t.rows && k + j < t.inputs ? ((const float *)t.x)[row * t.x_stride + k + j] : 0;
            }
            for (int i = 0; i < 2; i++) {
                const int64_t output = n + threadIdx.x / MIXED_PIECE + 32 * i;
                if (output < t.outputs && k + 4 <= t.inputs)
                    load_four<W>(w[i], t.w, output * t.inputs + k, aligned_w);
                else
                    for (int j = 0; j < 4; j++)
                        w[i][j] = output < t.outputs && k + j < t.inputs ? load_float(t.w, output * t.inputs + k + j, W)
                                                                         : 0.0f;
            }
        };
        if (threadIdx.x == 0)
            tile->odd = 0;
        __syncthreads();
        load(0);
        for (int64_t start = 0; start < t.inputs; start += HALF_DEPTH) {
            const int r = (int)threadIdx.x / MIXED_PIECE, c = (int)threadIdx.x % MIXED_PIECE * 4;
            for (int j = 0; j < 4; j++) {
                for (int i = 0; i < 4; i++)
                    put_terms(&tile->x[0][r + 32 * i][c + j], &tile->x[1][r + 32 * i][c + j], x[i][j], &tile->odd);
                for (int i = 0; i < 2; i++)
                    put_terms(&tile->w[0][r + 32 * i][c + j], &tile->w[1][r + 32 * i][c + j], w[i][j], &tile->odd);
            }
            __syncthreads();
            const bool odd = tile->odd != 0;
            if (start + HALF_DEPTH < t.inputs)
                load(start + HALF_DEPTH);
#pragma unroll
            for (int k = 0; k < HALF_DEPTH; k += 16) {
                uint32_t b[3][2][4]; /* first terms, second, finite first; pair of eights of outputs */
                for (int j = 0; j < 2; j++) {
                    const int output = output0 + 16 * j + LANE / 16 * 8 + LANE % 8, column = k + LANE / 8 % 2 * 8;
                    load_matrices<false>(b[0][j], &tile->w[0][output][column]);
                    if (W == TYPE_float16)
                        load_matrices<false>(b[1][j], &tile->w[1][output][column]);
                    for (int e = 0; e < 4; e++)
                        b[2][j][e] = b[0][j][e];
                    if (odd)
                        leave_finite(b[2][j]);
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    uint32_t first[4], second[4], finite[4];
                    const int row = row0 + 16 * i + LANE % 16, column = k + LANE / 16 * 8;
                    load_matrices<false>(first, &tile->x[0][row][column]);
                    load_matrices<false>(second, &tile->x[1][row][column]);
                    for (int e = 0; e < 4; e++)
                        finite[e] = first[e];
                    if (odd)
                        leave_finite(finite);
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        multiply_fragments<TYPE_bfloat16>(sums[i][j], second, b[2][j / 2] + j % 2 * 2);
                        if (W == TYPE_float16)
                            multiply_fragments<TYPE_bfloat16>(sums[i][j], finite, b[1][j / 2] + j % 2 * 2);
                        multiply_fragments<TYPE_bfloat16>(sums[i][j], first, b[0][j / 2] + j % 2 * 2);
                    }
                }
            }
            __syncthreads();
        }
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 4; j++)
                for (int e = 0; e < 4; e++) {
                    const int64_t row = m + row0 + 16 * i + g + e / 2 * 8;
                    const int64_t output = n + output0 + 8 * j + 2 * l + e % 2;
                    if (row < t.rows && output < t.outputs)
                        put<TYPE_float32>(t, row, output, sums[i][j][e]);
                }
    }
}

#define MIXED(type)                                                                                                    \
    {                                                                                                                  \
        if (HAS_TENSOR_CORES) {                                                                                        \
            __shared__ mixed_tile mixed;                                                                               \
            mixed_product<TYPE_##type>(record, &mixed);                                                                \
        } else {                                                                                                       \
            __shared__ tile left, right;                                                                               \
            linear<TYPE_float32, TYPE_##type>(record, &left, &right);                                                  \
        }                                                                                                              \
    }

STEP(linear_f16, 1, CHOOSE(rows <= 8, 0, PARTS(rows, 128) * PARTS(outputs, 64)), 256, 0) { MIXED(float16); }

STEP(linear_bf16, 1, CHOOSE(rows <= 8, 0, PARTS(rows, 128) * PARTS(outputs, 64)), 256, 0) { MIXED(bfloat16); }

#define LINEAR(x, w)                                                                                                   \
    {                                                                                                                  \
        __shared__ tile left, right;                                                                                   \
        linear<TYPE_##x, TYPE_##w>(record, &left, &right);                                                             \
    }

KERNEL(linear_f32, CHOOSE(rows <= 8, PARTS(outputs, 8), PARTS(rows, 64) * PARTS(outputs, 64)), 256, 0)
{
    LINEAR(float32, float32);
}

KERNEL(linear_f16, CHOOSE(rows <= 8, PARTS(outputs, 8), 0), 256, 0)
{
    few_rows<TYPE_float32, TYPE_float16>(task_of(record));
}

KERNEL(linear_bf16, CHOOSE(rows <= 8, PARTS(outputs, 8), 0), 256, 0)
{
    few_rows<TYPE_float32, TYPE_bfloat16>(task_of(record));
}

KERNEL(linear_f16_f16, CHOOSE(rows <= 8, PARTS(outputs, 8), PARTS(rows, 64) * PARTS(outputs, 64)), 256, 0)
{
    LINEAR(float16, float16);
}

KERNEL(linear_bf16_bf16, CHOOSE(rows <= 8, PARTS(outputs, 8), PARTS(rows, 64) * PARTS(outputs, 64)), 256, 0)
{
    LINEAR(bfloat16, bfloat16);
}
