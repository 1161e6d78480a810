/* Copies, fills, binary operations of float32 with short records, and activations with their gradients. */
#include "gpu.h"

KERNEL(copy_bytes, PARTS(bytes, 4096), 256, 0)
{
    uint8_t *to = (uint8_t *)record.pointers[copy_bytes_to];
    const uint8_t *from = (const uint8_t *)record.pointers[copy_bytes_from];
    const int64_t bytes = record.dims[copy_bytes_bytes];
    const int64_t whole = (((uint64_t)to | (uint64_t)from) & 7) ? 0 : bytes / 8;
    FOR_EACH(i, whole)((uint64_t *)to)[i] = ((const uint64_t *)from)[i];
    FOR_EACH(i, bytes - 8 * whole) to[8 * whole + i] = from[8 * whole + i];
}

KERNEL(fill_f32, PARTS(count, 256), 256, 0)
{
    float *y = (float *)record.pointers[fill_f32_y];
    FOR_EACH(i, record.dims[fill_f32_count]) y[i] = record.floats[fill_f32_value];
}

/* ---- Binary operations: element i of an operand is p[i / repeat % period] */

DEVICE float operand(const float *p, float number, int64_t i, int64_t period, int64_t repeat)
{
    if (!p)
        return number;
    if (repeat > 1)
        i = i <= INT32_MAX && repeat <= INT32_MAX ? (uint32_t)i / (uint32_t)repeat : i / repeat;
    if (i >= period)
        i = i <= INT32_MAX ? (uint32_t)i % (uint32_t)period : i % period;
    return p[i];
}

#define BINARY(expression)                                                                                             \
    {                                                                                                                  \
        const int64_t *d = record.dims;                                                                                \
        float *y = (float *)record.pointers[add_f32_y];                                                                \
        const float number = record.floats[add_f32_number];                                                            \
        if (d[add_f32_a_period] < 1 || d[add_f32_b_period] < 1 ||                                                      \
            (!record.pointers[add_f32_a] && d[add_f32_a_period] != 1) ||                                               \
            (!record.pointers[add_f32_b] && d[add_f32_b_period] != 1)) {                                               \
            report(KERNEL_BAD_ARGUMENT);                                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        FOR_EACH(i, d[add_f32_count])                                                                                  \
        {                                                                                                              \
            const float a = operand((const float *)record.pointers[add_f32_a], number, i, d[add_f32_a_period],         \
                                    d[add_f32_a_repeat]);                                                              \
            const float b = operand((const float *)record.pointers[add_f32_b], number, i, d[add_f32_b_period],         \
                                    d[add_f32_b_repeat]);                                                              \
            y[i] = expression;                                                                                         \
        }                                                                                                              \
    }

KERNEL(add_f32, PARTS(count, 256), 256, 0) { BINARY(a + b); }

KERNEL(sub_f32, PARTS(count, 256), 256, 0) { BINARY(a - b); }

KERNEL(mul_f32, PARTS(count, 256), 256, 0) { BINARY(a * b); }

KERNEL(div_f32, PARTS(count, 256), 256, 0) { BINARY(a / b); }

KERNEL(maximum_f32, PARTS(count, 256), 256, 0) { BINARY(a > b || a != a ? a : b); }

KERNEL(minimum_f32, PARTS(count, 256), 256, 0) { BINARY(a < b || a != a ? a : b); }

/* ---- Gradients of activations */

KERNEL(gelu_backward_f32, PARTS(count, 256), 256, 0)
{
    float *grad_x = (float *)record.pointers[gelu_backward_f32_grad_x];
    const float *in = (const float *)record.pointers[gelu_backward_f32_x];
    const float *grad_y = (const float *)record.pointers[gelu_backward_f32_grad_y];
    FOR_EACH(i, record.dims[gelu_backward_f32_count])
    {
        const float x = in[i];
        grad_x[i] = grad_y[i] * (0.5f * erfcf(x * -0.70710678118f) + x * 0.398942280f * expf(-0.5f * x * x));
    }
}

/* ---- Gated activation (Shazeer, GLU Variants Improve Transformer, 2020) */

DEVICE float silu_mul(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }

/* A thread takes four columns. */
KERNEL(silu_mul_f32, PARTS(rows *PARTS(columns, 4), 128), 128, 0)
{
    const int64_t *d = record.dims, columns = d[silu_mul_f32_columns], fours = PARTS(columns, 4);
    const int64_t x_stride = d[silu_mul_f32_x_stride], y_stride = d[silu_mul_f32_y_stride];
    float *y = (float *)record.pointers[silu_mul_f32_y];
    const float *x = (const float *)record.pointers[silu_mul_f32_x];
    const bool aligned = ((uint64_t)x | (uint64_t)y) % 16 == 0 && (columns | x_stride | y_stride) % 4 == 0;
    FOR_EACH(i, d[silu_mul_f32_rows] * fours)
    {
        const int64_t row = quotient(i, fours);
        const int64_t column = 4 * (i - row * fours);
        const float *gate = x + row * x_stride + column, *up = gate + columns;
        float *to = y + row * y_stride + column;
        if (aligned) {
            const float4 a = *(const float4 *)gate, b = *(const float4 *)up;
            *(float4 *)to = float4{silu_mul(a.x, b.x), silu_mul(a.y, b.y), silu_mul(a.z, b.z), silu_mul(a.w, b.w)};
        } else
            for (int j = 0; j < 4 && column + j < columns; j++)
                to[j] = silu_mul(gate[j], up[j]);
    }
}

KERNEL(silu_mul_backward_f32, PARTS(rows *columns, 256), 256, 0)
{
    const int64_t columns = record.dims[silu_mul_backward_f32_columns];
    float *grad_x = (float *)record.pointers[silu_mul_backward_f32_grad_x];
    const float *x = (const float *)record.pointers[silu_mul_backward_f32_x];
    const float *grad_y = (const float *)record.pointers[silu_mul_backward_f32_grad_y];
    FOR_EACH(i, record.dims[silu_mul_backward_f32_rows] * columns)
    {
        const int64_t row = i / columns, at = row * 2 * columns + (i - row * columns);
        const float gate = x[at], up = x[at + columns], grad = grad_y[i], s = 1.0f / (1.0f + expf(-gate));
        grad_x[at] = grad * up * (s * (1.0f + gate * (1.0f - s)));
        grad_x[at + columns] = grad * (gate * s);
    }
}
