/* Block formats: to f32, rows of them by id, and packing into bands and back (layouts: block_types.h, bands.h). */
#if defined(__clang__) /* scale * number - minimum in two roundings, as in the definition */
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif
#include "bands.h"
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

/* The scales of eight runs and their minimums, a byte each: six bits each in twelve bytes, as q4_K and q5_K have them. */
typedef struct six_bit_scales {
    uint64_t scales, minimums;
} six_bit_scales;

INLINE six_bit_scales six_bits(const uint8_t *packed)
{
    const uint32_t first = four_bytes(packed), second = four_bytes(packed + 4), both = four_bytes(packed + 8);
    const uint32_t scales = (both & 0x0f0f0f0f) | (first >> 6 & 0x03030303) << 4;
    const uint32_t minimums = (both >> 4 & 0x0f0f0f0f) | (second >> 6 & 0x03030303) << 4;
    return (six_bit_scales){(first & 0x3f3f3f3f) | (uint64_t)scales << 32,
                            (second & 0x3f3f3f3f) | (uint64_t)minimums << 32};
}
/* Where a type keeps its bits in a row's block: the scale and perhaps the minimum of the block, the scales of its runs,
 * and planes of its numbers: in runs of 2^run bytes, each of which holds 2^(3 - bits) numbers of 2^bits bits that lie
 * 2^run apart, the lowest bits first. at 0 with run 0: no plane. */
typedef struct bit_plane {
    int at, run, bits;
} bit_plane;
typedef struct block_layout {
    int scale, minimum, scales;
    bit_plane low, high;
} block_layout;

INLINE block_layout layout_of(int64_t type)
{
    switch (type) {
    case Q4_0:
        return (block_layout){0, 0, 0, {2, 4, 2}, {0}};
    case Q4_1:
        return (block_layout){0, 2, 0, {4, 4, 2}, {0}};
    case Q5_0:
        return (block_layout){0, 0, 0, {6, 4, 2}, {2, 0, 0}};
    case Q5_1:
        return (block_layout){0, 2, 0, {8, 4, 2}, {4, 0, 0}};
    case Q2_K:
        return (block_layout){80, 82, 0, {16, 5, 1}, {0}};
    case Q3_K:
        return (block_layout){108, 0, 96, {32, 5, 1}, {0, 5, 0}};
    case Q4_K:
        return (block_layout){0, 2, 4, {16, 5, 2}, {0}};
    case Q5_K:
        return (block_layout){0, 2, 4, {48, 5, 2}, {16, 5, 0}};
    default: /* q6_K */
        return (block_layout){208, 0, 192, {0, 6, 2}, {128, 5, 1}};
    }
}

/* Columns c .. c + 3 of a plane, a byte each. A plane with runs of a byte has 32 bits. */
INLINE uint32_t plane_step(const uint8_t *block, bit_plane plane, int c)
{
    const int each = 3 - plane.bits, inside = c & ((1 << plane.run) - 1);
    const uint32_t mask = (1u << (1 << plane.bits)) - 1;
    if (plane.run == 0)
        return plane.at ? (four_bytes(block + plane.at) >> c & 15) * 0x00204081 & EACH_BYTE : 0;
    return four_bytes(block + plane.at + (c >> (plane.run + each) << plane.run) + inside) >>
               ((c >> plane.run & ((1 << each) - 1)) << plane.bits) &
           mask * EACH_BYTE;
}

/* The way back, into zeros. */
static void put_plane_step(uint8_t *block, bit_plane plane, int c, uint32_t numbers)
{
    const int each = 3 - plane.bits, inside = c & ((1 << plane.run) - 1);
    const uint32_t mask = (1u << (1 << plane.bits)) - 1;
    numbers &= mask * EACH_BYTE;
    if (plane.run)
        add_four_bytes(block + plane.at + (c >> (plane.run + each) << plane.run) + inside,
                       numbers << ((c >> plane.run & ((1 << each) - 1)) << plane.bits));
    else if (plane.at)
        add_four_bytes(block + plane.at, numbers * 0x10204080 >> 28 << c);
}

/* A row's block, as files have it, into its place in a band of zeros. */
INLINE void pack_block(uint8_t *to, const uint8_t *from, const band_type t, const block_layout *layout, int row)
{
    const six_bit_scales six = six_bits(from + layout->scales); /* of q4_K and q5_K */
    const uint8_t *own = from + layout->scales;
    const int low_bits = 1 << layout->low.bits;
    memcpy(to + 2 * row, from + layout->scale, 2);
    if (t.minimums)
        memcpy(to + HALF_SCALES + 2 * row, from + layout->minimum, 2);
    for (int run = 0; run < (t.large ? MOST_VALUES / BLOCK : 1); run++) {
        uint8_t *at = to + band_run(t, run) + row;
        if (t.halves && !t.minimums && !t.nibbles) /* q3_K: six bits */
            for (int j = 2 * run; j < 2 * run + 2; j++)
                at[j % 2 * BAND] =
                    (uint8_t)(((own[j % 8] >> j / 8 * 4 & 15) | (own[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32);
        else if (t.halves)
            at[0] = own[2 * run], at[BAND] = own[2 * run + 1];
        else if (t.large)
            at[0] = (uint8_t)(six.scales >> 8 * run), at[BAND] = (uint8_t)(six.minimums >> 8 * run);
        at = to + band_numbers(t, run) + 4 * row;
        for (int s = 0; s < 4; s++) {
            const int c = run * BLOCK + 4 * s;
            const four_and_four n = {plane_step(from, layout->low, c) | plane_step(from, layout->high, c) << low_bits,
                                     plane_step(from, layout->low, c + 16) | plane_step(from, layout->high, c + 16)
                                                                                 << low_bits};
            put_band_step(at, t, s, n);
        }
    }
}

static void unpack_q8_0_row(uint8_t *to, const q8_0_band *from, int row)
{
    memcpy(to, &from->scales[row], 2);
    for (int s = 0; s < STEPS; s++)
        memcpy(to + 2 + 4 * s, from->steps[s][row], 4);
}

/* The way back. */
static void unpack_block(uint8_t *to, const uint8_t *from, const band_type t, const block_layout *layout, int row)
{
    const int low_bits = 1 << layout->low.bits;
    uint8_t *own = to + layout->scales;
    memcpy(to + layout->scale, from + 2 * row, 2);
    if (t.minimums)
        memcpy(to + layout->minimum, from + HALF_SCALES + 2 * row, 2);
    for (int run = 0; run < (t.large ? MOST_VALUES / BLOCK : 1); run++) {
        const uint8_t *at = from + band_run(t, run) + row;
        if (t.halves && !t.minimums && !t.nibbles)
            for (int j = 2 * run; j < 2 * run + 2; j++) {
                const int six = at[j % 2 * BAND] + 32;
                own[j % 8] |= (uint8_t)((six & 15) << j / 8 * 4);
                own[8 + j % 4] |= (uint8_t)((six >> 4 & 3) << j / 4 * 2);
            }
        else if (t.halves)
            own[2 * run] = at[0], own[2 * run + 1] = at[BAND];
        else if (t.large && run < 4)
            own[run] |= at[0], own[run + 4] |= at[BAND];
        else if (t.large) {
            own[run - 4] |= (uint8_t)(at[0] >> 4 << 6), own[run] |= (uint8_t)(at[BAND] >> 4 << 6);
            own[run + 4] = (uint8_t)((at[0] & 15) | (at[BAND] & 15) << 4);
        }
        at = from + band_numbers(t, run) + 4 * row;
        for (int s = 0; s < 4; s++) {
            const four_and_four n = band_step(at, t, s);
            for (int h = 0; h < 2; h++) {
                const uint32_t four = h ? n.high : n.low;
                put_plane_step(to, layout->low, run * BLOCK + 16 * h + 4 * s, four);
                put_plane_step(to, layout->high, run * BLOCK + 16 * h + 4 * s, four >> low_bits);
            }
        }
    }
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
