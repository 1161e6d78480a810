/* Block formats: to f32, rows of them by id, and packing into bands and back (layouts: block_types.h, bands.h). */
#include "band_packing.h"
#include "decode_blocks.h"

/* y = one row of `columns` values. */
static void decode_row(float *y, const uint8_t *blocks, int64_t row, int64_t columns, int64_t type)
{
    const int64_t nbytes = band_bytes(type);
    const block_type kind = type_of(type);
    const int64_t count = columns / kind.values, once = nbytes ? 1 : MOST_VALUES / kind.values;
    decoded block;
    for (int64_t k = 0; k < count; k += once, y += once * kind.values) {
        const int64_t some = count - k < once ? count - k : once;
        if (nbytes)
            decode_band_row(&block, blocks + (row / BAND * count + k) * nbytes, type, (int)(row % BAND));
        else
            decode_blocks(&block, blocks + (row * count + k) * kind.nbytes, type, (int)(some * kind.values / BLOCK));
        for (int i = 0; i < some * kind.values; i++) {
            const int half = i / RUN % 2, run = i / BLOCK;
            const float product = block.scales[half][run] * (float)(block.numbers[i] - kind.bias);
            y[i] = kind.bias ? product : product - block.minimums[half][run];
        }
    }
}

/* packed: the type must be one of bands. */
INLINE int is_bad(int64_t type, int64_t columns, int packed)
{
    const block_type kind = type_of(type);
    return kind.nbytes == 0 || (packed && band_bytes(type) == 0) || columns % kind.values;
}

KERNEL(unpack_blocks)
{
    float *y = record->pointers[unpack_blocks_y];
    const int64_t *d = record->dims, columns = d[unpack_blocks_columns], type = d[unpack_blocks_type];
    int64_t first, last;
    if (d[unpack_blocks_rows] == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, 0))
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[unpack_blocks_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++)
        decode_row(y + row * columns, record->pointers[unpack_blocks_blocks], row, columns, type);
    return KERNEL_OK;
}

KERNEL(embedding_blocks)
{
    float *y = record->pointers[embedding_blocks_y];
    const int32_t *ids = record->pointers[embedding_blocks_ids];
    const int64_t *d = record->dims, columns = d[embedding_blocks_columns], vocabulary = d[embedding_blocks_vocabulary],
                  y_stride = d[embedding_blocks_y_stride], type = d[embedding_blocks_type];
    int64_t first, last;
    if (d[embedding_blocks_tokens] == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, 0))
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[embedding_blocks_tokens], 1, worker, workers, &first, &last);
    for (int64_t t = first; t < last; t++) {
        if (ids[t] < 0 || ids[t] >= vocabulary)
            return KERNEL_INDEX_RANGE;
        decode_row(y + t * y_stride, record->pointers[embedding_blocks_w], ids[t], columns, type);
    }
    return KERNEL_OK;
}

/* Bands first .. last - 1; from: `count` blocks of each of the rows. */
INLINE void pack_bands(uint8_t *packed, const uint8_t *from, int64_t rows, int64_t count, int64_t first, int64_t last,
                       const int64_t type)
{
    const int64_t nbytes = band_bytes(type), row_bytes = count * type_of(type).nbytes;
    const block_layout layout = layout_of(type);
    for (int64_t band = first; band < last; band++)
        for (int64_t k = 0; k < count; k++) {
            uint8_t *to = packed + (band * count + k) * nbytes;
            memset(to, 0, (size_t)nbytes);
            for (int row = 0; row < BAND && band * BAND + row < rows; row++)
                pack_block(to, from + (band * BAND + row) * row_bytes + k * type_of(type).nbytes, band_type_of(type),
                           &layout, row);
        }
}

/* blocks: in the layout of files, row by row; columns must be whole blocks. Rows past the last are zero. */
KERNEL(pack_blocks)
{
    uint8_t *packed = record->pointers[pack_blocks_packed];
    const uint8_t *from = record->pointers[pack_blocks_blocks];
    const int64_t rows = record->dims[pack_blocks_rows], columns = record->dims[pack_blocks_columns],
                  type = record->dims[pack_blocks_type];
    int64_t first, last;
    if (rows == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, 1))
        return KERNEL_BAD_ARGUMENT;
    worker_share((rows + BAND - 1) / BAND, 1, worker, workers, &first, &last);
#define PACK(name, code, ...)                                                                                          \
    case code:                                                                                                         \
        pack_bands(packed, from, rows, columns / type_of(code).values, first, last, code);                             \
        break;
    switch (type) {
        BAND_TYPES(PACK)
    }
    return KERNEL_OK;
}

KERNEL(unpack_bands)
{
    uint8_t *blocks = record->pointers[unpack_bands_blocks];
    const uint8_t *packed = record->pointers[unpack_bands_packed];
    const int64_t rows = record->dims[unpack_bands_rows], columns = record->dims[unpack_bands_columns],
                  type = record->dims[unpack_bands_type];
    const block_type kind = type_of(type);
    int64_t first, last;
    if (rows == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, type != Q8_0))
        return KERNEL_BAD_ARGUMENT;
    const int64_t count = columns / kind.values, nbytes = type == Q8_0 ? (int64_t)sizeof(q8_0_band) : band_bytes(type);
    const block_layout layout = layout_of(type);
    worker_share(rows, 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++)
        for (int64_t k = 0; k < count; k++) {
            uint8_t *to = blocks + (row * count + k) * kind.nbytes;
            const uint8_t *from = packed + (row / BAND * count + k) * nbytes;
            memset(to, 0, (size_t)kind.nbytes);
            if (type == Q8_0)
                unpack_q8_0_row(to, (const void *)from, (int)(row % BAND));
            else
                unpack_block(to, from, band_type_of(type), &layout, (int)(row % BAND));
        }
    return KERNEL_OK;
}
