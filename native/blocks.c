/* Block formats: to f32, rows of them by id, and packing into bands (layouts: blocks.h, kernels.h). */
#if defined(__clang__) /* scale * number - minimum in two roundings, as the definition has it */
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif
#include "blocks.h"

/* y = one row of `columns` values. */
static void decode_row(float *y, const uint8_t *blocks, int64_t row, int64_t columns, int64_t type, int packed)
{
    const block_type kind = type_of(type);
    const int64_t count = columns / kind.values;
    decoded block;
    for (int64_t k = 0; k < count; k++) {
        if (packed)
            decode_band_row(&block, blocks + (row / BAND * count + k) * kind.packed_bytes, type, (int)(row % BAND));
        else
            decode_block(&block, blocks + (row * count + k) * kind.nbytes, type);
        for (int i = 0; i < kind.values; i++) {
            const float product = block.scales[i / RUN] * (float)(block.numbers[i] - kind.bias);
            y[k * kind.values + i] = kind.bias ? product : product - block.minimums[i / RUN];
        }
    }
}

INLINE int is_bad(int64_t type, int64_t columns, int64_t packed)
{
    const block_type kind = type_of(type);
    return kind.nbytes == 0 || (packed && kind.packed_bytes == 0) || columns % kind.values;
}

KERNEL(unpack_blocks)
{
    float *y = record->pointers[0];
    const int64_t *d = record->dims, columns = d[1], type = d[2], packed = d[3];
    int64_t first, last;
    if (d[0] == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, packed))
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[0], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++)
        decode_row(y + row * columns, record->pointers[1], row, columns, type, packed != 0);
    return KERNEL_OK;
}

KERNEL(embedding_blocks)
{
    float *y = record->pointers[0];
    const int32_t *ids = record->pointers[2];
    const int64_t *d = record->dims, columns = d[1], vocabulary = d[2], y_stride = d[3], type = d[4], packed = d[5];
    int64_t first, last;
    if (d[0] == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, packed))
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[0], 1, worker, workers, &first, &last);
    for (int64_t t = first; t < last; t++) {
        if (ids[t] < 0 || ids[t] >= vocabulary)
            return KERNEL_INDEX_RANGE;
        decode_row(y + t * y_stride, record->pointers[1], ids[t], columns, type, packed != 0);
    }
    return KERNEL_OK;
}

INLINE uint32_t four(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, 4);
    return value;
}

INLINE void put_four(uint8_t *p, uint32_t value) { memcpy(p, &value, 4); }

/* 32 numbers below 16 into the nibbles of a band; those of their two bits above too, where `high` is given. */
static void pack_numbers(uint8_t *low, uint8_t *high, const uint8_t *numbers, int row)
{
    for (int pair = 0; pair < 4; pair++) {
        const uint32_t first = four(numbers + 4 * pair), second = four(numbers + 16 + 4 * pair);
        uint8_t *at = low + pair * BAND * 4 + row * 4, *above = high + pair / 2 * BAND * 4 + row * 4;
        put_four(at, (first & 0x0f0f0f0f) | (second & 0x0f0f0f0f) << 4);
        if (high) {
            const uint32_t bits = (first >> 4 & 0x03030303) | (second >> 4 & 0x03030303) << 2;
            put_four(above, pair % 2 ? four(above) | bits << 4 : bits);
        }
    }
}

/* A row's block, as files have it, into its place in a band. */
static void pack_block(uint8_t *to, const uint8_t *from, int64_t type, int row)
{
    decoded block;
    if (type == Q4_0) {
        memcpy(to + 2 * row, from, 2);
        for (int pair = 0; pair < 4; pair++)
            memcpy(to + 2 * BAND + pair * BAND * 4 + row * 4, from + 2 + 4 * pair, 4);
        return;
    }
    decode_block(&block, from, type);
    memcpy(to + 2 * row, from + (type == Q4_K ? 0 : 208), 2);
    if (type == Q4_K)
        memcpy(to + 2 * BAND + 2 * row, from + 2, 2);
    for (int run = 0; run < 8; run++) {
        uint8_t *at = to + (type == Q4_K ? 4 * BAND + run * Q4_K_RUN : 2 * BAND + run * Q6_K_RUN);
        if (type == Q4_K)
            six_bits(from + 4, run, at + row, at + BAND + row);
        else
            at[row] = from[192 + 2 * run], at[BAND + row] = from[193 + 2 * run];
        pack_numbers(at + 2 * BAND, type == Q4_K ? NULL : at + 2 * BAND + PACKED_NIBBLES, block.numbers + 32 * run,
                     row);
    }
}

/* blocks: as files have them, row after row; columns must be whole blocks. Rows past the last are zero. */
KERNEL(pack_blocks)
{
    uint8_t *packed = record->pointers[0];
    const uint8_t *from = record->pointers[1];
    const int64_t rows = record->dims[0], columns = record->dims[1], type = record->dims[2];
    const block_type kind = type_of(type);
    int64_t first, last;
    if (rows == 0)
        return KERNEL_OK;
    if (is_bad(type, columns, 1))
        return KERNEL_BAD_ARGUMENT;
    const int64_t count = columns / kind.values;
    worker_share((rows + BAND - 1) / BAND, 1, worker, workers, &first, &last);
    for (int64_t band = first; band < last; band++)
        for (int64_t k = 0; k < count; k++) {
            uint8_t *to = packed + (band * count + k) * kind.packed_bytes;
            if ((band + 1) * BAND > rows)
                memset(to, 0, (size_t)kind.packed_bytes);
            for (int row = 0; row < BAND && band * BAND + row < rows; row++)
                pack_block(to, from + ((band * BAND + row) * count + k) * kind.nbytes, type, row);
        }
    return KERNEL_OK;
}
