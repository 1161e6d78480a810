/* A row's block, as files have it, to its place in a band and back: for the kernels of every device. */
#ifndef PYAPP_BAND_PACKING_H
#define PYAPP_BAND_PACKING_H
#include "bands.h"

#ifdef __cplusplus
#define BAND_FUNCTION INLINE
#else
#define BAND_FUNCTION static /* code that is downloaded is not repeated */
#endif

/* The scales of eight runs and their minimums, a byte each: six bits each in twelve bytes, as q4_K and q5_K have them. */
typedef struct six_bit_scales {
    uint64_t scales, minimums;
} six_bit_scales;

INLINE six_bit_scales six_bits(const uint8_t *packed)
{
    const uint32_t first = four_bytes(packed), second = four_bytes(packed + 4), both = four_bytes(packed + 8);
    const uint32_t scales = (both & 0x0f0f0f0f) | (first >> 6 & 0x03030303) << 4;
    const uint32_t minimums = (both >> 4 & 0x0f0f0f0f) | (second >> 6 & 0x03030303) << 4;
    return LITERAL(six_bit_scales){(first & 0x3f3f3f3f) | (uint64_t)scales << 32,
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
        return LITERAL(block_layout){0, 0, 0, {2, 4, 2}, {0}};
    case Q4_1:
        return LITERAL(block_layout){0, 2, 0, {4, 4, 2}, {0}};
    case Q5_0:
        return LITERAL(block_layout){0, 0, 0, {6, 4, 2}, {2, 0, 0}};
    case Q5_1:
        return LITERAL(block_layout){0, 2, 0, {8, 4, 2}, {4, 0, 0}};
    case Q2_K:
        return LITERAL(block_layout){80, 82, 0, {16, 5, 1}, {0}};
    case Q3_K:
        return LITERAL(block_layout){108, 0, 96, {32, 5, 1}, {0, 5, 0}};
    case Q4_K:
        return LITERAL(block_layout){0, 2, 4, {16, 5, 2}, {0}};
    case Q5_K:
        return LITERAL(block_layout){0, 2, 4, {48, 5, 2}, {16, 5, 0}};
    default: /* q6_K */
        return LITERAL(block_layout){208, 0, 192, {0, 6, 2}, {128, 5, 1}};
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
BAND_FUNCTION void put_plane_step(uint8_t *block, bit_plane plane, int c, uint32_t numbers)
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
        if (t.halves && t.one_bit) /* q3_K: six bits */
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

BAND_FUNCTION void unpack_q8_0_row(uint8_t *to, const q8_0_band *from, int row)
{
    memcpy(to, &from->scales[row], 2);
    for (int s = 0; s < STEPS; s++)
        memcpy(to + 2 + 4 * s, from->steps[s][row], 4);
}

/* The way back. */
BAND_FUNCTION void unpack_block(uint8_t *to, const uint8_t *from, const band_type t, const block_layout *layout,
                                int row)
{
    const int low_bits = 1 << layout->low.bits;
    uint8_t *own = to + layout->scales;
    memcpy(to + layout->scale, from + 2 * row, 2);
    if (t.minimums)
        memcpy(to + layout->minimum, from + HALF_SCALES + 2 * row, 2);
    for (int run = 0; run < (t.large ? MOST_VALUES / BLOCK : 1); run++) {
        const uint8_t *at = from + band_run(t, run) + row;
        if (t.halves && t.one_bit)
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
#endif
