/* From any element type to any other. */
#include "gpu.h"

KERNEL(cast, PARTS(PRODUCT(rank, shape0), 256), 256, 0)
{
    const int64_t *d = record.dims, rank = d[cast_rank], *shape = d + cast_shape0;
    const int64_t count = view_count(rank, 6, shape);
    const void *x = record.pointers[cast_x];
    void *y = record.pointers[cast_y];
    if (count < 0 || !is_type(d[cast_y_type]) || !is_type(d[cast_x_type])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int to = (int)d[cast_y_type], from = (int)d[cast_x_type];
    const uint32_t whole = TYPES_INTEGER | BIT(TYPE_bool);
    FOR_EACH(i, count)
    {
        const int64_t at = offset_of(i, rank, shape, d + cast_x0);
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

KERNEL(f16_to_f32, PARTS(count, 256), 256, 0)
{
    FOR_EACH(i, record.dims[f16_to_f32_count])
    ((float *)record.pointers[f16_to_f32_y])[i] = load_float(record.pointers[f16_to_f32_x], i, TYPE_float16);
}

KERNEL(bf16_to_f32, PARTS(count, 256), 256, 0)
{
    FOR_EACH(i, record.dims[bf16_to_f32_count])
    ((float *)record.pointers[bf16_to_f32_y])[i] = load_float(record.pointers[bf16_to_f32_x], i, TYPE_bfloat16);
}

KERNEL(f32_to_f16, PARTS(count, 256), 256, 0)
{
    FOR_EACH(i, record.dims[f32_to_f16_count])
    store_float(record.pointers[f32_to_f16_y], i, TYPE_float16, ((const float *)record.pointers[f32_to_f16_x])[i]);
}

KERNEL(f32_to_bf16, PARTS(count, 256), 256, 0)
{
    FOR_EACH(i, record.dims[f32_to_bf16_count])
    store_float(record.pointers[f32_to_bf16_y], i, TYPE_bfloat16, ((const float *)record.pointers[f32_to_bf16_x])[i]);
}
