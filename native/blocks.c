/* Block formats: to f32, rows of them by id, and packing into bands and back (layouts: block_types.h, bands.h). */
#if defined(__clang__) /* scale * number - minimum in two roundings, as in the definition */
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif
#include "bands.h"
#include "decode_blocks.h"

/* y = one row of `columns` values. */
static void decode_row(float *y, const uint8_t *blocks, int64_t row, int64_t columns, int64_t type, int packed)
{
    const block_type kind = type_of(type);
    const int64_t count = columns / kind.values, once = packed ? 1 : MOST_VALUES / kind.values;
    decoded block;
    for (int64_t k = 0; k < count; k += once, y += once * kind.values) {
        const int64_t some = count - k < once ? count - k : once;
        if (packed)
            decode_band_row(&block, blocks + (row / BAND * count + k) * band_bytes(type), type, (int)(row % BAND));
        else
            decode_blocks(&block, blocks + (row * count + k) * kind.nbytes, type, (int)(some * kind.values / BLOCK));
        for (int i = 0; i < some * kind.values; i++) {
            const int half = i / RUN % 2, run = i / BLOCK;
            const float product = block.scales[half][run] * (float)(block.numbers[i] - kind.bias);
            y[i] = kind.bias ? product : product - block.minimums[half][run];
        }
    }
}

INLINE int is_bad(int64_t type, int64_t columns, int64_t packed)
{
    const block_type kind = type_of(type);
    return kind.nbytes == 0 || (packed && band_bytes(type) == 0) || columns % kind.values;
}

KERNEL(unpack_blocks)
{
    float *y = record->pointers[unpack_blocks_y];
    const int64_t *d = record->dims, columns = d[unpack_blocks_columns], type = d[unpack_blocks_type],
                  packed = d[unpack_blocks_packed];
    int64_t first, last;
    if (d[unpack_blocks_rows] == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, packed))
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[unpack_blocks_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++)
        decode_row(y + row * columns, record->pointers[unpack_blocks_blocks], row, columns, type, packed != 0);
    return KERNEL_OK;
}

KERNEL(embedding_blocks)
{
    float *y = record->pointers[embedding_blocks_y];
    const int32_t *ids = record->pointers[embedding_blocks_ids];
    const int64_t *d = record->dims, columns = d[embedding_blocks_columns], vocabulary = d[embedding_blocks_vocabulary],
                  y_stride = d[embedding_blocks_y_stride], type = d[embedding_blocks_type],
                  packed = d[embedding_blocks_packed];
    int64_t first, last;
    if (d[embedding_blocks_tokens] == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, packed))
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[embedding_blocks_tokens], 1, worker, workers, &first, &last);
    for (int64_t t = first; t < last; t++) {
        if (ids[t] < 0 || ids[t] >= vocabulary)
            return KERNEL_INDEX_RANGE;
        decode_row(y + t * y_stride, record->pointers[embedding_blocks_w], ids[t], columns, type, packed != 0);
    }
    return KERNEL_OK;
}

/* 32 numbers into the nibbles of a band; and those of their two bits above, where `high` is given. */
static void pack_numbers(band_nibbles nibbles, uint8_t high[2][BAND][4], const uint8_t *n, int row)
{
    for (int i = 0; i < 16; i++) {
        nibbles[i / 4][row][i % 4] = (uint8_t)((n[i] & 15) | (n[i + 16] & 15) << 4);
        if (high && i / 4 % 2)
            high[i / 8][row][i % 4] |= (uint8_t)(n[i] >> 4 << 4 | n[i + 16] >> 4 << 6);
        else if (high)
            high[i / 8][row][i % 4] = (uint8_t)(n[i] >> 4 | n[i + 16] >> 4 << 2);
    }
}

/* Copies a row's block, in the layout of files, to its place in a band. */
static void pack_block(uint8_t *to, const uint8_t *from, int64_t type, int row)
{
    q4_0_band *small = (void *)to;
    q4_K_band *four = (void *)to;
    q6_K_band *six = (void *)to;
    decoded block;
    if (type == Q4_0) {
        memcpy(&small->scales[row], from, 2);
        for (int pair = 0; pair < 4; pair++)
            memcpy(small->nibbles[pair][row], from + 2 + 4 * pair, 4);
        return;
    }
    decode_blocks(&block, from, type, 8);
    if (type == Q4_K) {
        const six_bit_scales packed = six_bits(from + 4);
        memcpy(&four->scales[row], from, 2);
        memcpy(&four->minimums[row], from + 2, 2);
        for (int run = 0; run < 8; run++) {
            four->runs[run].scales[row] = (uint8_t)(packed.scales >> 8 * run);
            four->runs[run].minimums[row] = (uint8_t)(packed.minimums >> 8 * run);
            pack_numbers(four->runs[run].nibbles, NULL, block.numbers + 32 * run, row);
        }
        return;
    }
    memcpy(&six->scales[row], from + 208, 2);
    for (int run = 0; run < 8; run++) {
        for (int h = 0; h < 2; h++)
            six->runs[run].scales[h][row] = (int8_t)from[192 + 2 * run + h];
        pack_numbers(six->runs[run].nibbles, six->runs[run].two_bits, block.numbers + 32 * run, row);
    }
}

/* The inverse. */
static void unpack_block(uint8_t *to, const uint8_t *from, int64_t type, int row)
{
    const q8_0_band *bytes = (const void *)from;
    const q4_0_band *small = (const void *)from;
    const q4_K_band *four = (const void *)from;
    const q6_K_band *six = (const void *)from;
    decoded block;
    const uint8_t *n = block.numbers;
    if (type == Q8_0 || type == Q4_0) {
        memcpy(to, &bytes->scales[row], 2);
        for (int s = 0; s < (type == Q8_0 ? STEPS : 4); s++)
            memcpy(to + 2 + 4 * s, type == Q8_0 ? (const void *)bytes->steps[s][row] : small->nibbles[s][row], 4);
        return;
    }
    decode_band_row(&block, from, type, row);
    if (type == Q4_K) {
        memcpy(to, &four->scales[row], 2);
        memcpy(to + 2, &four->minimums[row], 2);
        for (int i = 0; i < 4; i++) {
            const int scale = four->runs[i + 4].scales[row], minimum = four->runs[i + 4].minimums[row];
            to[4 + i] = (uint8_t)(four->runs[i].scales[row] | scale >> 4 << 6);
            to[8 + i] = (uint8_t)(four->runs[i].minimums[row] | minimum >> 4 << 6);
            to[12 + i] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
        }
        for (int i = 0; i < 128; i++)
            to[16 + i] = (uint8_t)(n[i / 32 * 64 + i % 32] | n[i / 32 * 64 + 32 + i % 32] << 4);
        return;
    }
    for (int i = 0; i < 128; i++)
        to[i] = (uint8_t)((n[i / 64 * 128 + i % 64] & 15) | (n[i / 64 * 128 + 64 + i % 64] & 15) << 4);
    for (int i = 0; i < 64; i++) {
        const uint8_t *at = n + i / 32 * 128 + i % 32;
        to[128 + i] = (uint8_t)(at[0] >> 4 | at[32] >> 4 << 2 | at[64] >> 4 << 4 | at[96] >> 4 << 6);
    }
    for (int i = 0; i < 16; i++)
        to[192 + i] = (uint8_t)six->runs[i / 2].scales[i % 2][row];
    memcpy(to + 208, &six->scales[row], 2);
}

/* blocks: in the layout of files, row by row; columns must be whole blocks. Rows past the last are zero. */
KERNEL(pack_blocks)
{
    uint8_t *packed = record->pointers[pack_blocks_packed];
    const uint8_t *from = record->pointers[pack_blocks_blocks];
    const int64_t rows = record->dims[pack_blocks_rows], columns = record->dims[pack_blocks_columns],
                  type = record->dims[pack_blocks_type];
    const block_type kind = type_of(type);
    int64_t first, last;
    if (rows == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, 1))
        return KERNEL_BAD_ARGUMENT;
    const int64_t count = columns / kind.values, nbytes = band_bytes(type);
    worker_share((rows + BAND - 1) / BAND, 1, worker, workers, &first, &last);
    for (int64_t band = first; band < last; band++)
        for (int64_t k = 0; k < count; k++) {
            uint8_t *to = packed + (band * count + k) * nbytes;
            if ((band + 1) * BAND > rows)
                memset(to, 0, (size_t)nbytes);
            for (int row = 0; row < BAND && band * BAND + row < rows; row++)
                pack_block(to, from + ((band * BAND + row) * count + k) * kind.nbytes, type, row);
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
    worker_share(rows, 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++)
        for (int64_t k = 0; k < count; k++)
            unpack_block(blocks + (row * count + k) * kind.nbytes, packed + (row / BAND * count + k) * nbytes, type,
                         (int)(row % BAND));
    return KERNEL_OK;
}
