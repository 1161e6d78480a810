/* Rounds rows that were computed in float32 to 16 bits. */
#include "gpu.h"

DEVICE void add_rows(const launch &record, int type)
{
    const int64_t *d = record.dims, columns = d[add_rows_f16_columns];
    const void *residual = record.pointers[add_rows_f16_residual];
    FOR_EACH(i, d[add_rows_f16_rows] * columns)
    {
        float sum = ((const float *)record.pointers[add_rows_f16_x])[i];
        if (residual)
            sum += load_float(residual, i / columns * d[add_rows_f16_residual_stride] + i % columns, type);
        store_float(record.pointers[add_rows_f16_y], i, type, sum);
    }
}

KERNEL(add_rows_f16, PARTS(rows *columns, 256), 256, 0) { add_rows(record, TYPE_float16); }
KERNEL(add_rows_bf16, PARTS(rows *columns, 256), 256, 0) { add_rows(record, TYPE_bfloat16); }
