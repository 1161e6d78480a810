/* Rounds rows that were computed in float32 to 16 bits, with 16-bit rows that are added to them. */
#include "vectors.h"

DEVICE void add_rows(const launch &record, int type)
{
    const int64_t *d = record.dims, columns = d[add_rows_f16_columns], stride = d[add_rows_f16_residual_stride];
    const int64_t count = d[add_rows_f16_rows] * columns;
    const uint16_t *residual = (const uint16_t *)record.pointers[add_rows_f16_residual];
    const float *x = (const float *)record.pointers[add_rows_f16_x];
    uint16_t *y = (uint16_t *)record.pointers[add_rows_f16_y];
    /* Where element i of x has its residual. */
    const auto place = [&](int64_t i) {
        const int64_t row = i <= INT32_MAX ? (uint32_t)i / (uint32_t)columns : i / columns;
        return row * stride + (i - row * columns);
    };
    const bool fours = (columns | (residual ? stride : 0)) % 4 == 0;
    const int64_t vectors = fours && is_aligned(x) && is_aligned(y) && is_aligned(residual) ? count / 4 : 0;
    FOR_EACH(i, vectors)
    {
        const float4 in = ((const float4 *)x)[i];
        float sum[8] = {in.x, in.y, in.z, in.w, 0, 0, 0, 0};
        if (residual) {
            const uint2 more = *(const uint2 *)(residual + place(4 * i));
            float values[8];
            floats_of<2>(values, uint4{more.x, more.y, 0, 0}, type);
            for (int k = 0; k < 4; k++)
                sum[k] += values[k];
        }
        const uint4 halves = vector_of<2>(sum, type);
        ((uint2 *)y)[i] = uint2{halves.x, halves.y};
    }
    FOR_EACH(rest, count - 4 * vectors)
    {
        const int64_t i = 4 * vectors + rest;
        store_float(y, i, type, residual ? x[i] + load_float(residual, place(i), type) : x[i]);
    }
}

KERNEL(add_rows_f16, PARTS(rows *columns, 1024), 256, 0) { add_rows(record, TYPE_float16); }
KERNEL(add_rows_bf16, PARTS(rows *columns, 1024), 256, 0) { add_rows(record, TYPE_bfloat16); }
