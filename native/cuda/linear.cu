/* y = x w^T (+ residual) with weights in float32 and 16-bit floats. A few rows of x: a warp for each output, so that the
 * weights are read once and side by side. More: tiles. */
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

template <int X, int W> DEVICE void linear(const launch &record, tile *left, tile *right)
{
    const int64_t *d = record.dims;
    const linear_task t = {record.pointers[linear_f32_y],
                           record.pointers[linear_f32_x],
                           record.pointers[linear_f32_w],
                           record.pointers[linear_f32_residual],
                           d[linear_f32_rows],
                           d[linear_f32_outputs],
                           d[linear_f32_inputs],
                           d[linear_f32_y_stride],
                           d[linear_f32_x_stride],
                           d[linear_f32_residual_stride]};
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

#define LINEAR(x, w)                                                                                                   \
    {                                                                                                                  \
        __shared__ tile left, right;                                                                                   \
        linear<TYPE_##x, TYPE_##w>(record, &left, &right);                                                             \
    }

KERNEL(linear_f32, CHOOSE(rows <= 8, PARTS(outputs, 8), PARTS(rows, 64) * PARTS(outputs, 64)), 256, 0)
{
    LINEAR(float32, float32);
}

KERNEL(linear_f16, CHOOSE(rows <= 8, PARTS(outputs, 8), PARTS(rows, 64) * PARTS(outputs, 64)), 256, 0)
{
    LINEAR(float32, float16);
}

KERNEL(linear_bf16, CHOOSE(rows <= 8, PARTS(outputs, 8), PARTS(rows, 64) * PARTS(outputs, 64)), 256, 0)
{
    LINEAR(float32, bfloat16);
}

KERNEL(linear_f16_f16, CHOOSE(rows <= 8, PARTS(outputs, 8), PARTS(rows, 64) * PARTS(outputs, 64)), 256, 0)
{
    LINEAR(float16, float16);
}

KERNEL(linear_bf16_bf16, CHOOSE(rows <= 8, PARTS(outputs, 8), PARTS(rows, 64) * PARTS(outputs, 64)), 256, 0)
{
    LINEAR(bfloat16, bfloat16);
}
