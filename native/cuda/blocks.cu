/* Block formats: to float32, rows of them by id, and packing into bands and back (layouts: block_types.h, bands.h). */
#include "weights.h"

#include "band_packing.h"

/* packed: the type must be one of bands. */
DEVICE bool is_bad(int64_t type, int64_t columns, bool packed)
{
    const block_type kind = type_of(type);
    return kind.nbytes == 0 || (packed && !in_bands(type)) || columns % kind.values;
}

KERNEL(unpack_blocks, PARTS(rows *columns, 256), 256, 0)
{
    const int64_t *d = record.dims, columns = d[unpack_blocks_columns], type = d[unpack_blocks_type];
    if (is_bad(type, columns, false)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[unpack_blocks_rows] * columns)
    ((float *)record.pointers[unpack_blocks_y])[i] =
        weight_at((const uint8_t *)record.pointers[unpack_blocks_blocks], type, i / columns, i % columns, columns);
}

KERNEL(embedding_blocks, PARTS(tokens *columns, 256), 256, 0)
{
    const int64_t *d = record.dims, columns = d[embedding_blocks_columns], type = d[embedding_blocks_type];
    if (is_bad(type, columns, false)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[embedding_blocks_tokens] * columns)
    {
        const int32_t id = ((const int32_t *)record.pointers[embedding_blocks_ids])[i / columns];
        if (id < 0 || id >= d[embedding_blocks_vocabulary])
            report(KERNEL_INDEX_RANGE);
        else
            ((float *)record.pointers[embedding_blocks_y])[i / columns * d[embedding_blocks_y_stride] + i % columns] =
                weight_at((const uint8_t *)record.pointers[embedding_blocks_w], type, id, i % columns, columns);
    }
}

/* A thread for each block of a band. Rows past the last are zero. */
KERNEL(pack_blocks, PARTS(PARTS(rows, 8) * PARTS(columns, 32), 64), 64, 0)
{
    const int64_t *d = record.dims, rows = d[pack_blocks_rows], columns = d[pack_blocks_columns],
                  type = d[pack_blocks_type];
    if (is_bad(type, columns, true)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int64_t count = columns / type_of(type).values, nbytes = band_bytes(type), each = type_of(type).nbytes;
    const block_layout layout = layout_of(type);
    FOR_EACH(i, PARTS(rows, BAND) * count)
    {
        uint8_t *to = (uint8_t *)record.pointers[pack_blocks_packed] + i * nbytes;
        memset(to, 0, (size_t)nbytes);
        for (int row = 0; row < BAND && i / count * BAND + row < rows; row++)
            pack_block(to,
                       (const uint8_t *)record.pointers[pack_blocks_blocks] +
                           ((i / count * BAND + row) * count + i % count) * each,
                       band_type_of(type), &layout, row);
    }
}

KERNEL(unpack_bands, PARTS(rows *PARTS(columns, 32), 64), 64, 0)
{
    const int64_t *d = record.dims, columns = d[unpack_bands_columns], type = d[unpack_bands_type];
    if (is_bad(type, columns, type != Q8_0)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const block_type kind = type_of(type);
    const int64_t count = columns / kind.values, nbytes = type == Q8_0 ? (int64_t)sizeof(q8_0_band) : band_bytes(type);
    const block_layout layout = layout_of(type);
    FOR_EACH(i, d[unpack_bands_rows] * count)
    {
        const int64_t row = i / count;
        uint8_t *to = (uint8_t *)record.pointers[unpack_bands_blocks] + i * kind.nbytes;
        const uint8_t *from =
            (const uint8_t *)record.pointers[unpack_bands_packed] + (row / BAND * count + i % count) * nbytes;
        memset(to, 0, (size_t)kind.nbytes);
        if (type == Q8_0)
            unpack_q8_0_row(to, (const q8_0_band *)from, (int)(row % BAND));
        else
            unpack_block(to, from, band_type_of(type), &layout, (int)(row % BAND));
    }
}
