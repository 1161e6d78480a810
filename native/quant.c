/* Block formats: packing int8 weights into bands, quantising weights and activations, and the inverses.
 * Layouts and rounding: kernels.h. GGML's q8_0 block: f16 scale, 32 int8. */
#include "halves.h"
#include "int8.h"

enum { GGML_BLOCK_BYTES = 2 + BLOCK };

INLINE int64_t blocks_of(int64_t columns) { return (columns + BLOCK - 1) / BLOCK; }
INLINE int64_t bands_of(int64_t rows) { return (rows + BAND - 1) / BAND; }

/* The first scale of the block that holds row `row`, and the weight of (row, first column of step s). */
INLINE uint8_t *block_at(uint8_t *packed, int64_t row, int64_t block, int64_t blocks, int64_t scale_bytes)
{
    return packed + (row / BAND * blocks + block) * (BAND * scale_bytes + BAND_BYTES);
}
INLINE uint8_t *values_at(uint8_t *block, int64_t row, int64_t scale_bytes)
{
    return block + BAND * scale_bytes + row % BAND * 4;
}

INLINE void put_values(uint8_t *block, int64_t row, int64_t scale_bytes, const int8_t values[BLOCK])
{
    uint8_t *to = values_at(block, row, scale_bytes);
    for (int s = 0; s < STEPS; s++)
        memcpy(to + s * BAND * 4, values + 4 * s, 4);
}

INLINE void get_values(const uint8_t *block, int64_t row, int64_t scale_bytes, int8_t values[BLOCK])
{
    const uint8_t *from = values_at((uint8_t *)block, row, scale_bytes);
    for (int s = 0; s < STEPS; s++)
        memcpy(values + 4 * s, from + s * BAND * 4, 4);
}

/* Rounds 32 values to values[i] = roundf(x[i] / scale) with scale = absmax / 127; returns the scale. A block with an
 * infinity or NaN gets zeros and a NaN scale, so that all results computed from it are NaN. */
INLINE float quantize_block(int8_t values[BLOCK], const float x[BLOCK], int32_t *sum)
{
    vint largest = {0};
    for (int i = 0; i < BLOCK; i += LANES)
        largest = vmax_int(largest, vload_int((const int32_t *)x + i) & 0x7fffffff);
    const union {
        int32_t bits;
        float value;
    } most = {vlargest_int(largest)};
    const int finite = most.bits < 0x7f800000;
    const float scale = most.value / 127.0f, inverse = 1.0f / scale;
    *sum = 0;
    if (!finite || !(inverse < 0x1p127f)) { /* all zero, or too small to divide by */
        memset(values, 0, BLOCK);
        return finite ? 0.0f : __builtin_nanf("");
    }
    vint total = {0};
    for (int i = 0; i < BLOCK; i += 16) {
        vint whole[16 / LANES];
        UNROLL for (int j = 0; j < 16 / LANES; j++)
        {
            const vfloat scaled = vload(x + i + j * LANES) * vsplat(inverse);
            const vint cut = vcut_to_int(scaled);
            const vfloat rest = scaled - vfrom_int(cut); /* exact; halves go away from zero */
            whole[j] = cut - (vint)(rest >= 0.5f) + (vint)(rest <= -0.5f);
            total += whole[j];
        }
        put_bytes(values + i, whole);
    }
    *sum = vsum_int(total);
    return scale;
}

/* 32 columns from `column` on, padded with zeros: x itself, or a copy in `padded`. */
INLINE const float *padded_block(const float *x, int64_t column, int64_t columns, float padded[BLOCK])
{
    if (column + BLOCK <= columns)
        return x + column;
    memset(padded, 0, BLOCK * sizeof *padded);
    memcpy(padded, x + column, (size_t)(columns - column) * sizeof *x);
    return padded;
}

INLINE int quantize_rows(const launch *record, int worker, int workers, const int kind)
{
    activations *xq = record->pointers[quantize_rows_xq];
    const char *x = record->pointers[quantize_rows_x];
    const int64_t *d = record->dims, columns = d[quantize_rows_columns], x_stride = d[quantize_rows_x_stride],
                  blocks = blocks_of(columns), element = kind == KIND_F32 ? 4 : 2;
    int64_t first, last;
    worker_share(d[quantize_rows_rows] * blocks, 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++) {
        float padded[BLOCK];
        const char *row = x + i / blocks * x_stride * element;
        const int64_t column = i % blocks * BLOCK, left = columns - column;
        const float *from = padded;
        if (kind == KIND_F32)
            from = padded_block((const float *)(const void *)row, column, columns, padded);
        else
            for (int64_t j = 0; j < BLOCK; j += LANES)
                vstore(padded + j, j < left
                                       ? load_halves((const uint16_t *)(const void *)row + column + j, left - j, kind)
                                       : vzero());
        xq[i].scale = quantize_block(xq[i].values, from, &xq[i].sum);
    }
    return KERNEL_OK;
}

KERNEL(quantize_rows) { return quantize_rows(record, worker, workers, KIND_F32); }
/* In the page, activations are float32 as a rule. */
COMPACT int quantize_f16(const launch *record, int worker, int workers)
{
    return quantize_rows(record, worker, workers, KIND_F16);
}
COMPACT int quantize_bf16(const launch *record, int worker, int workers)
{
    return quantize_rows(record, worker, workers, KIND_BF16);
}
KERNEL(quantize_rows_f16) { return quantize_f16(record, worker, workers); }
KERNEL(quantize_rows_bf16) { return quantize_bf16(record, worker, workers); }

COMPACT int quantize_bands(const launch *record, int worker, int workers)
{
    uint8_t *packed = record->pointers[quantize_q8_0_packed];
    const float *x = record->pointers[quantize_q8_0_x];
    const int64_t *d = record->dims, rows = d[quantize_q8_0_rows], columns = d[quantize_q8_0_columns],
                  x_stride = d[quantize_q8_0_x_stride], blocks = blocks_of(columns);
    int64_t first, last;
    worker_share(bands_of(rows), 1, worker, workers, &first, &last);
    for (int64_t row = first * BAND; row < last * BAND; row++)
        for (int64_t k = 0; k < blocks; k++) {
            uint8_t *block = block_at(packed, row, k, blocks, 2);
            float padded[BLOCK];
            int8_t values[BLOCK] = {0};
            int32_t sum;
            uint16_t scale = 0;
            if (row < rows)
                scale = float_to_f16(
                    quantize_block(values, padded_block(x + row * x_stride, k * BLOCK, columns, padded), &sum));
            memcpy(block + row % BAND * 2, &scale, 2);
            put_values(block, row, 2, values);
        }
    return KERNEL_OK;
}

KERNEL(quantize_q8_0) { return quantize_bands(record, worker, workers); }

/* blocks: GGML's, row after row; columns must be whole blocks. */
KERNEL(pack_q8_0)
{
    uint8_t *packed = record->pointers[pack_q8_0_packed];
    const uint8_t *from = record->pointers[pack_q8_0_blocks];
    const int64_t rows = record->dims[pack_q8_0_rows], columns = record->dims[pack_q8_0_columns],
                  blocks = blocks_of(columns);
    int64_t first, last;
    if (columns % BLOCK)
        return KERNEL_BAD_ARGUMENT;
    worker_share(bands_of(rows), 1, worker, workers, &first, &last);
    for (int64_t row = first * BAND; row < last * BAND; row++)
        for (int64_t k = 0; k < blocks; k++) {
            uint8_t source[GGML_BLOCK_BYTES] = {0}, *block = block_at(packed, row, k, blocks, 2);
            if (row < rows)
                memcpy(source, from + (row * blocks + k) * GGML_BLOCK_BYTES, GGML_BLOCK_BYTES);
            memcpy(block + row % BAND * 2, source, 2);
            put_values(block, row, 2, (const int8_t *)source + 2);
        }
    return KERNEL_OK;
}

/* quants: rows x columns int8; scales: one f32 for each `group` of them. No block of 32 columns may span two groups. */
KERNEL(pack_q8_group)
{
    uint8_t *packed = record->pointers[pack_q8_group_packed];
    const int8_t *quants = record->pointers[pack_q8_group_quants];
    const float *scales = record->pointers[pack_q8_group_scales];
    const int64_t rows = record->dims[pack_q8_group_rows], columns = record->dims[pack_q8_group_columns],
                  group = record->dims[pack_q8_group_group], blocks = blocks_of(columns);
    int64_t first, last;
    if (rows == 0 || columns == 0)
        return KERNEL_OK;
    if (group <= 0 || !((columns % BLOCK == 0 && group % BLOCK == 0) || group % columns == 0))
        return KERNEL_BAD_ARGUMENT;
    worker_share(bands_of(rows), 1, worker, workers, &first, &last);
    for (int64_t row = first * BAND; row < last * BAND; row++)
        for (int64_t k = 0; k < blocks; k++) {
            uint8_t *block = block_at(packed, row, k, blocks, 4);
            const int64_t at = row * columns + k * BLOCK, left = columns - k * BLOCK;
            int8_t values[BLOCK] = {0};
            float scale = 0;
            if (row < rows) {
                memcpy(values, quants + at, (size_t)(left < BLOCK ? left : BLOCK));
                scale = scales[at / group];
            }
            memcpy(block + row % BAND * 4, &scale, 4);
            put_values(block, row, 4, values);
        }
    return KERNEL_OK;
}

INLINE void unpack_row(float *y, const uint8_t *packed, int64_t row, int64_t columns, int64_t scale_bytes)
{
    const int64_t blocks = blocks_of(columns);
    for (int64_t k = 0; k < blocks; k++) {
        const uint8_t *block = block_at((uint8_t *)packed, row, k, blocks, scale_bytes),
                      *at = block + row % BAND * scale_bytes;
        const int64_t left = columns - k * BLOCK;
        int8_t values[BLOCK];
        float scale;
        uint16_t half;
        memcpy(scale_bytes == 2 ? (void *)&half : (void *)&scale, at, (size_t)scale_bytes);
        if (scale_bytes == 2)
            scale = f16_to_float(half);
        get_values(block, row, scale_bytes, values);
        for (int64_t i = 0; i < BLOCK && i < left; i++)
            y[k * BLOCK + i] = (float)values[i] * scale;
    }
}

INLINE int unpack(const launch *record, int worker, int workers, int64_t scale_bytes)
{
    float *y = record->pointers[unpack_q8_0_y];
    const int64_t columns = record->dims[unpack_q8_0_columns];
    int64_t first, last;
    worker_share(record->dims[unpack_q8_0_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++)
        unpack_row(y + row * columns, record->pointers[unpack_q8_0_packed], row, columns, scale_bytes);
    return KERNEL_OK;
}

INLINE int embedding(const launch *record, int worker, int workers, int64_t scale_bytes)
{
    float *y = record->pointers[embedding_q8_0_y];
    const int32_t *ids = record->pointers[embedding_q8_0_ids];
    const int64_t *d = record->dims, columns = d[embedding_q8_0_columns], vocabulary = d[embedding_q8_0_vocabulary],
                  y_stride = d[embedding_q8_0_y_stride];
    int64_t first, last;
    worker_share(d[embedding_q8_0_tokens], 1, worker, workers, &first, &last);
    for (int64_t t = first; t < last; t++) {
        if (ids[t] < 0 || ids[t] >= vocabulary)
            return KERNEL_INDEX_RANGE;
        unpack_row(y + t * y_stride, record->pointers[embedding_q8_0_w], ids[t], columns, scale_bytes);
    }
    return KERNEL_OK;
}

KERNEL(unpack_q8_0) { return unpack(record, worker, workers, 2); }
KERNEL(unpack_q8_group) { return unpack(record, worker, workers, 4); }
KERNEL(embedding_q8_0) { return embedding(record, worker, workers, 2); }
KERNEL(embedding_q8_group) { return embedding(record, worker, workers, 4); }
