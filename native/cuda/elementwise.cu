/* Copies, fills, binary operations of float32 with short records, and activations with their gradients. */
#include "gated.h"
#include "quantize.h"
#include "vectors.h"

KERNEL(copy_bytes, PARTS(bytes, 16384), 256, 0)
{
    uint8_t *to = (uint8_t *)record.pointers[copy_bytes_to];
    const uint8_t *from = (const uint8_t *)record.pointers[copy_bytes_from];
    const int64_t bytes = record.dims[copy_bytes_bytes];
    const int64_t vectors = is_aligned(to) && is_aligned(from) ? bytes / VECTOR : 0;
    uint4 x[UNDER_WAY];
    for_vectors(
        vectors, [&](int u, int64_t i) { x[u] = ((const uint4 *)from)[i]; },
        [&](int u, int64_t i) { ((uint4 *)to)[i] = x[u]; });
    FOR_EACH(i, bytes - VECTOR * vectors) to[VECTOR * vectors + i] = from[VECTOR * vectors + i];
}

KERNEL(fill_f32, VECTOR_BLOCKS(count), 256, 0)
{
    float *y = (float *)record.pointers[fill_f32_y];
    const int64_t count = record.dims[fill_f32_count], vectors = is_aligned(y) ? count / 4 : 0;
    const float value = record.floats[fill_f32_value], values[4] = {value, value, value, value};
    const uint4 four = vector_of<4>(values, TYPE_float32);
    for_vectors(vectors, [](int, int64_t) {}, [&](int, int64_t i) { ((uint4 *)y)[i] = four; });
    FOR_EACH(i, count - 4 * vectors) y[4 * vectors + i] = value;
}

/* ---- Binary operations: element i of an operand is p[i / repeat % period] */

struct operand {
    const float *p; /* NULL: a number */
    float number;
    int64_t period, repeat;

    DEVICE_MEMBER int64_t place(int64_t i) const
    {
        if (repeat > 1)
            i = i <= INT32_MAX && repeat <= INT32_MAX ? (uint32_t)i / (uint32_t)repeat : i / repeat;
        if (i >= period)
            i = i <= INT32_MAX ? (uint32_t)i % (uint32_t)period : i % period;
        return i;
    }
    DEVICE_MEMBER float one(int64_t i) const { return p ? p[place(i)] : number; }
    /* Whether each four elements from a multiple of four on are one, or lie side by side. */
    DEVICE_MEMBER bool is_one() const { return !p || period == 1 || repeat > 1; }
    DEVICE_MEMBER bool has_fours(int64_t count) const
    {
        if (!p || period == 1)
            return true;
        return repeat > 1 ? repeat % 4 == 0 : is_aligned(p) && (period % 4 == 0 || period >= count);
    }
    DEVICE_MEMBER float4 four(int64_t i) const
    {
        if (!is_one())
            return *(const float4 *)(p + place(i));
        const float x = one(i);
        float4 all;
        all.x = all.y = all.z = all.w = x;
        return all;
    }
};

template <class Compute> DEVICE void binary_floats(const launch &record, int32_t *status, Compute compute)
{
    const int64_t *d = record.dims, count = d[add_f32_count];
    const operand left = {(const float *)record.pointers[add_f32_a], record.floats[add_f32_number], d[add_f32_a_period],
                          d[add_f32_a_repeat]};
    const operand right = {(const float *)record.pointers[add_f32_b], record.floats[add_f32_number],
                           d[add_f32_b_period], d[add_f32_b_repeat]};
    float *y = (float *)record.pointers[add_f32_y];
    if (left.period < 1 || right.period < 1 || (!left.p && left.period != 1) || (!right.p && right.period != 1)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int64_t vectors = is_aligned(y) && left.has_fours(count) && right.has_fours(count) ? count / 4 : 0;
    float4 a[UNDER_WAY], b[UNDER_WAY];
    for_vectors(
        vectors,
        [&](int u, int64_t i) {
            a[u] = left.four(4 * i);
            b[u] = right.four(4 * i);
        },
        [&](int u, int64_t i) {
            float4 four;
            four.x = compute(a[u].x, b[u].x);
            four.y = compute(a[u].y, b[u].y);
            four.z = compute(a[u].z, b[u].z);
            four.w = compute(a[u].w, b[u].w);
            ((float4 *)y)[i] = four;
        });
    FOR_EACH(rest, count - 4 * vectors)
    {
        const int64_t i = 4 * vectors + rest;
        y[i] = compute(left.one(i), right.one(i));
    }
}

#define BINARY(expression) binary_floats(record, status, [](float a, float b) { return expression; })

KERNEL(add_f32, VECTOR_BLOCKS(count), 256, 0) { BINARY(a + b); }

KERNEL(sub_f32, VECTOR_BLOCKS(count), 256, 0) { BINARY(a - b); }

KERNEL(mul_f32, VECTOR_BLOCKS(count), 256, 0) { BINARY(a * b); }

KERNEL(div_f32, VECTOR_BLOCKS(count), 256, 0) { BINARY(a / b); }

KERNEL(maximum_f32, VECTOR_BLOCKS(count), 256, 0) { BINARY(a > b || a != a ? a : b); }

KERNEL(minimum_f32, VECTOR_BLOCKS(count), 256, 0) { BINARY(a < b || a != a ? a : b); }

/* ---- Gated activation: gated.h */

/* A thread takes four columns, of rows of `fours` of them. xq: of silu_mul_quantize_rows. */
template <bool QUANTIZED> DEVICE void silu_mul_rows(const launch &record, int64_t fours, activations *xq)
{
    _Static_assert((int)silu_mul_f32_x_stride == (int)silu_mul_quantize_rows_x_stride, "the slots differ");
    const int64_t *d = record.dims, columns = d[silu_mul_f32_columns], all = d[silu_mul_f32_rows] * fours;
    const int64_t x_stride = d[silu_mul_f32_x_stride], y_stride = d[silu_mul_f32_y_stride];
    float *y = (float *)record.pointers[silu_mul_f32_y];
    const float *x = (const float *)record.pointers[silu_mul_f32_x];
    const bool aligned = ((uint64_t)x | (uint64_t)y) % 16 == 0 && (columns | x_stride | y_stride) % 4 == 0;
    FOR_EACH_BLOCK(block, PARTS(all, 128))
    {
        const int64_t i = block * 128 + threadIdx.x, row = quotient(MIN(i, all - 1), fours);
        const int64_t column = 4 * (i - row * fours);
        const float *gate = x + row * x_stride + column, *up = gate + columns;
        float *to = y + row * y_stride + column, four[4] = {0, 0, 0, 0};
        if (i < all && aligned && column < columns) {
            const float4 a = *(const float4 *)gate, b = *(const float4 *)up;
            four[0] = silu_mul(a.x, b.x), four[1] = silu_mul(a.y, b.y);
            four[2] = silu_mul(a.z, b.z), four[3] = silu_mul(a.w, b.w);
            *(float4 *)to = float4{four[0], four[1], four[2], four[3]};
        } else if (i < all)
            for (int j = 0; j < 4 && column + j < columns; j++)
                to[j] = four[j] = silu_mul(gate[j], up[j]);
        if (QUANTIZED)
            quantize_four(xq + i / 8, four, i < all);
    }
}

KERNEL(silu_mul_f32, PARTS(rows *PARTS(columns, 4), 128), 128, 0)
{
    silu_mul_rows<false>(record, PARTS(record.dims[silu_mul_f32_columns], 4), nullptr);
}

/* Rows have whole blocks of 32 columns. */
KERNEL(silu_mul_quantize_rows, PARTS(rows *PARTS(columns, 32), 16), 128, 0)
{
    const int64_t blocks = PARTS(record.dims[silu_mul_quantize_rows_columns], BLOCK);
    silu_mul_rows<true>(record, 8 * blocks, (activations *)record.pointers[silu_mul_quantize_rows_xq]);
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
