/* From any element type to any other. */
#include "vectors.h"

KERNEL(cast, PARTS(PRODUCT(rank, shape0), 256), 256, 0)
{
    __shared__ views<1> of;
    const int64_t *d = record.dims, rank = d[cast_rank], *shape = d + cast_shape0;
    const int64_t *strides[1] = {d + cast_x0};
    const void *x = record.pointers[cast_x];
    void *y = record.pointers[cast_y];
    if (view_count(rank, 6, shape) < 0 || !is_type(d[cast_y_type]) || !is_type(d[cast_x_type])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int to = (int)d[cast_y_type], from = (int)d[cast_x_type];
    const uint32_t whole = TYPES_INTEGER | BIT(TYPE_bool);
    gather_dims(of, rank, shape, strides);
    FOR_EACH(i, of.count)
    {
        int64_t at;
        find(&at, i, of);
        if (!type_in(from, whole))
            store_double(y, i, to, load_double(x, at, from));
        else if (type_in(to, whole))
            store_integer(y, i, to, load_integer(x, at, from));
        else if (to == TYPE_float64)
            store_double(y, i, to, load_double(x, at, from));
        else { /* in one rounding to float32, as C does it */
            const int64_t value = load_integer(x, at, from);
            store_double(y, i, to, from == TYPE_uint64 ? (float)(uint64_t)value : (float)value);
        }
    }
}

/* Dense floats of 16 and 32 bits, the one to the other: four at a time where both are aligned. */
DEVICE void convert_dense(void *y, const void *x, int64_t count, int to, int from)
{
    const bool widens = to == TYPE_float32;
    const int64_t vectors = is_aligned(y) && is_aligned(x) ? count / 4 : 0;
    uint4 four[UNDER_WAY];
    for_vectors(
        vectors,
        [&](int u, int64_t i) {
            if (widens) {
                const uint2 half = ((const uint2 *)x)[i];
                four[u].x = half.x, four[u].y = half.y;
            } else
                four[u] = ((const uint4 *)x)[i];
        },
        [&](int u, int64_t i) {
            float values[8];
            if (widens) {
                floats_of<2>(values, four[u], from);
                ((uint4 *)y)[i] = vector_of<4>(values, to);
            } else {
                floats_of<4>(values, four[u], from);
                const uint4 halves = vector_of<2>(values, to);
                uint2 half;
                half.x = halves.x, half.y = halves.y;
                ((uint2 *)y)[i] = half;
            }
        });
    FOR_EACH(rest, count - 4 * vectors)
    {
        const int64_t i = 4 * vectors + rest;
        store_float(y, i, to, load_float(x, i, from));
    }
}

KERNEL(f16_to_f32, VECTOR_BLOCKS(count), 256, 0)
{
    convert_dense(record.pointers[f16_to_f32_y], record.pointers[f16_to_f32_x], record.dims[f16_to_f32_count],
                  TYPE_float32, TYPE_float16);
}

KERNEL(bf16_to_f32, VECTOR_BLOCKS(count), 256, 0)
{
    convert_dense(record.pointers[bf16_to_f32_y], record.pointers[bf16_to_f32_x], record.dims[bf16_to_f32_count],
                  TYPE_float32, TYPE_bfloat16);
}

KERNEL(f32_to_f16, VECTOR_BLOCKS(count), 256, 0)
{
    convert_dense(record.pointers[f32_to_f16_y], record.pointers[f32_to_f16_x], record.dims[f32_to_f16_count],
                  TYPE_float16, TYPE_float32);
}

KERNEL(f32_to_bf16, VECTOR_BLOCKS(count), 256, 0)
{
    convert_dense(record.pointers[f32_to_bf16_y], record.pointers[f32_to_bf16_x], record.dims[f32_to_bf16_count],
                  TYPE_bfloat16, TYPE_float32);
}
