/* Packing int8 weights into bands, quantising weights and activations, and the inverses. Layouts and rounding: kernels.h.
 * A thread takes a block of 32 columns of a row. */
#include "quantize.h"
#include "weights.h"

enum { GGML_BLOCK_BYTES = 2 + BLOCK };

/* 32 columns of a row of x: scale = absmax / 127, to nearest, ties away from zero. A block with an infinity or NaN gets
 * zeros and a NaN scale. */
DEVICE float quantize_block(int8_t values[BLOCK], const void *x, int64_t at, int64_t left, int type, int32_t *sum)
{
    float part[BLOCK], most = 0;
    bool finite = true;
    for (int i = 0; i < BLOCK; i++) {
        part[i] = i < left ? load_float(x, at + i, type) : 0.0f;
        finite = finite && part[i] - part[i] == 0;
        most = fmaxf(most, fabsf(part[i]));
    }
    const float scale = most / 127.0f, inverse = 1.0f / scale;
    const bool usable = finite && inverse < 0x1p127f; /* not all zero, nor too small to divide by */
    *sum = 0;
    for (int i = 0; i < BLOCK; i++) {
        values[i] = usable ? (int8_t)(int)roundf(part[i] * inverse) : (int8_t)0;
        *sum += values[i];
    }
    return !finite ? NOT_A_NUMBER : usable ? scale : 0.0f;
}

/* Eight lanes take a block, four columns each. */
template <int TYPE> DEVICE void quantize(const launch &record)
{
    const int64_t *d = record.dims, columns = d[quantize_rows_columns], blocks = PARTS(columns, BLOCK);
    const int64_t stride = d[quantize_rows_x_stride], all = d[quantize_rows_rows] * blocks;
    const void *x = record.pointers[quantize_rows_x];
    const int bytes = TYPE == TYPE_float32 ? 4 : 2;
    const bool aligned = (uint64_t)x % (4 * bytes) == 0 && (stride | columns) % 4 == 0;
    activations *xq = (activations *)record.pointers[quantize_rows_xq];
    FOR_EACH_BLOCK(unit, PARTS(all, 16))
    {
        const int64_t i = unit * 16 + threadIdx.x / 8, row = quotient(i, blocks), block = i - row * blocks;
        const int64_t column = block * BLOCK + threadIdx.x % 8 * 4, at = row * stride + column;
        float four[4] = {0, 0, 0, 0};
        if (i < all && aligned && column < columns) {
            if (TYPE == TYPE_float32) {
                const float4 found = *(const float4 *)((const float *)x + at);
                four[0] = found.x, four[1] = found.y, four[2] = found.z, four[3] = found.w;
            } else {
                const uint2 found = *(const uint2 *)((const uint16_t *)x + at);
                const uint32_t pairs[2] = {found.x, found.y};
                for (int j = 0; j < 4; j++) {
                    const uint16_t half = (uint16_t)(pairs[j / 2] >> j % 2 * 16);
                    four[j] = load_float(&half, 0, TYPE);
                }
            }
        } else if (i < all)
            for (int j = 0; j < 4; j++)
                four[j] = column + j < columns ? load_float(x, at + j, TYPE) : 0.0f;
        quantize_four(xq + i, four, i < all);
    }
}

KERNEL(quantize_rows, PARTS(rows *PARTS(columns, 32), 16), 128, 0) { quantize<TYPE_float32>(record); }
KERNEL(quantize_rows_f16, PARTS(rows *PARTS(columns, 32), 16), 128, 0) { quantize<TYPE_float16>(record); }
KERNEL(quantize_rows_bf16, PARTS(rows *PARTS(columns, 32), 16), 128, 0) { quantize<TYPE_bfloat16>(record); }

/* Row `row`, which may be padding, of a block of a band, whose rows have these scales. */
DEVICE void put_block(void *packed, int64_t row, int64_t k, int64_t blocks, int scale_bytes, uint32_t scale,
                      const int8_t *values)
{
    uint8_t *block = (uint8_t *)packed + (row / BAND * blocks + k) * (BAND * scale_bytes + BAND_BYTES);
    for (int i = 0; i < scale_bytes; i++)
        block[row % BAND * scale_bytes + i] = (uint8_t)(scale >> 8 * i);
    for (int i = 0; i < BLOCK; i++)
        block[BAND * scale_bytes + i / 4 * BAND * 4 + row % BAND * 4 + i % 4] = (uint8_t)values[i];
}

KERNEL(quantize_q8_0, PARTS(PARTS(rows, 8) * 8 * PARTS(columns, 32), 128), 128, 0)
{
    const int64_t *d = record.dims, rows = d[quantize_q8_0_rows], columns = d[quantize_q8_0_columns];
    const int64_t blocks = PARTS(columns, BLOCK);
    FOR_EACH(i, PARTS(rows, BAND) * BAND * blocks)
    {
        const int64_t row = i / blocks, column = i % blocks * BLOCK;
        int8_t values[BLOCK] = {0};
        int32_t sum;
        uint32_t scale = 0;
        if (row < rows)
            scale = float_to_f16(quantize_block(values, record.pointers[quantize_q8_0_x],
                                                row * d[quantize_q8_0_x_stride] + column, columns - column,
                                                TYPE_float32, &sum));
        put_block(record.pointers[quantize_q8_0_packed], row, i % blocks, blocks, 2, scale, values);
    }
}

KERNEL(pack_q8_0, PARTS(PARTS(rows, 8) * 8 * PARTS(columns, 32), 128), 128, 0)
{
    const int64_t *d = record.dims, rows = d[pack_q8_0_rows], blocks = d[pack_q8_0_columns] / BLOCK;
    if (d[pack_q8_0_columns] % BLOCK) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, PARTS(rows, BAND) * BAND * blocks)
    {
        const uint8_t *from = (const uint8_t *)record.pointers[pack_q8_0_blocks] + i * GGML_BLOCK_BYTES;
        const int8_t none[BLOCK] = {0};
        const bool there = i / blocks < rows;
        put_block(record.pointers[pack_q8_0_packed], i / blocks, i % blocks, blocks, 2,
                  there ? (uint32_t)(from[0] | from[1] << 8) : 0, there ? (const int8_t *)from + 2 : none);
    }
}

KERNEL(pack_q8_group, PARTS(PARTS(rows, 8) * 8 * PARTS(columns, 32), 128), 128, 0)
{
    const int64_t *d = record.dims, rows = d[pack_q8_group_rows], columns = d[pack_q8_group_columns],
                  group = d[pack_q8_group_group], blocks = PARTS(columns, BLOCK);
    if (group <= 0 || !((columns % BLOCK == 0 && group % BLOCK == 0) || group % columns == 0)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, PARTS(rows, BAND) * BAND * blocks)
    {
        const int64_t row = i / blocks, column = i % blocks * BLOCK, at = row * columns + column;
        int8_t values[BLOCK] = {0};
        uint32_t scale = 0;
        if (row < rows) {
            for (int64_t j = 0; j < BLOCK && column + j < columns; j++)
                values[j] = ((const int8_t *)record.pointers[pack_q8_group_quants])[at + j];
            scale = (uint32_t)__float_as_int(((const float *)record.pointers[pack_q8_group_scales])[at / group]);
        }
        put_block(record.pointers[pack_q8_group_packed], row, i % blocks, blocks, 4, scale, values);
    }
}

DEVICE void unpack(const launch &record, int scale_bytes)
{
    const int64_t columns = record.dims[unpack_q8_0_columns];
    FOR_EACH(i, record.dims[unpack_q8_0_rows] * columns)
    ((float *)record.pointers[unpack_q8_0_y])[i] = q8_weight_at((const uint8_t *)record.pointers[unpack_q8_0_packed],
                                                                i / columns, i % columns, columns, scale_bytes);
}

DEVICE void embed(const launch &record, int32_t *status, int scale_bytes)
{
    const int64_t *d = record.dims, columns = d[embedding_q8_0_columns];
    FOR_EACH(i, d[embedding_q8_0_tokens] * columns)
    {
        const int32_t id = ((const int32_t *)record.pointers[embedding_q8_0_ids])[i / columns];
        if (id < 0 || id >= d[embedding_q8_0_vocabulary])
            report(KERNEL_INDEX_RANGE);
        else
            ((float *)record.pointers[embedding_q8_0_y])[i / columns * d[embedding_q8_0_y_stride] + i % columns] =
                q8_weight_at((const uint8_t *)record.pointers[embedding_q8_0_w], id, i % columns, columns, scale_bytes);
    }
}

KERNEL(unpack_q8_0, PARTS(rows *columns, 256), 256, 0) { unpack(record, 2); }
KERNEL(unpack_q8_group, PARTS(rows *columns, 256), 256, 0) { unpack(record, 4); }
KERNEL(embedding_q8_0, PARTS(tokens *columns, 256), 256, 0) { embed(record, status, 2); }
KERNEL(embedding_q8_group, PARTS(tokens *columns, 256), 256, 0) { embed(record, status, 4); }
