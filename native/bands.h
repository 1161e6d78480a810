/* Bands: 8 rows of weights side by side, so that one load of a vector holds 4 columns of several rows. A packed matrix is
 * its bands one after the other, a band its blocks; rows are padded to 8 with zeros. What follows is the layout.
 */
#ifndef PYAPP_BANDS_H
#define PYAPP_BANDS_H
#include "block_types.h"

#define PACKED __attribute__((packed))

/* 32 columns: step s holds columns 4 s .. of each row. q8_group: with f32 scales. */
typedef struct PACKED q8_0_band {
    uint16_t scales[BAND];
    int8_t steps[STEPS][BAND][4];
} q8_0_band;
typedef struct PACKED q8_group_band {
    float scales[BAND];
    int8_t steps[STEPS][BAND][4];
} q8_group_band;

/* The types that linear_blocks wants in bands: an f16 scale for each row of a block and, with `minimums`, as many f16
 * minimums; then its runs of 32 columns. A run of a type of 256 columns begins with 16 bytes for its own scales:
 *   q4_K q5_K  the scales of the rows, then their minimums
 *   q3_K q6_K  int8, those of the first 16 columns, then those of the last 16 (`halves`)
 *   q2_K       the same, of four bits, each with a minimum above
 * Then come the numbers of a run, their bits in up to three planes, the lowest bits first. Columns 4 s .. of the rows are
 * step s, s = 2 u + i:
 *   nibbles   [4][BAND][4]  low: step s, high: step s + 4
 *   two_bits  [2][BAND][4]  [u], from the lowest bits: steps 2 u, 2 u + 4, 2 u + 1, 2 u + 5
 *   one_bit   [BAND][4]     bit s: step s
 * Six bits (of q6_K) lie in one plane, which takes fewest operations to take apart:
 *   six_bits  [3][2][BAND][4]  the low bits of [v][i]: steps i, i + 4, i + 2; the two above, from the highest: step i + 6
 */
typedef struct band_type {
    int large, minimums, halves, nibbles, two_bits, one_bit, six_bits;
} band_type;

#define BAND_TYPES(TYPE)                                                                                               \
    TYPE(q4_0, Q4_0, 0, 0, 0, 1, 0, 0, 0)                                                                              \
    TYPE(q4_1, Q4_1, 0, 1, 0, 1, 0, 0, 0)                                                                              \
    TYPE(q5_0, Q5_0, 0, 0, 0, 1, 0, 1, 0)                                                                              \
    TYPE(q5_1, Q5_1, 0, 1, 0, 1, 0, 1, 0)                                                                              \
    TYPE(q2_K, Q2_K, 1, 1, 1, 0, 1, 0, 0)                                                                              \
    TYPE(q3_K, Q3_K, 1, 0, 1, 0, 1, 1, 0)                                                                              \
    TYPE(q4_K, Q4_K, 1, 1, 0, 1, 0, 0, 0)                                                                              \
    TYPE(q5_K, Q5_K, 1, 1, 0, 1, 0, 1, 0)                                                                              \
    TYPE(q6_K, Q6_K, 1, 0, 1, 0, 0, 0, 1)

enum { NIBBLES = BAND * 16, TWO_BITS = BAND * 8, ONE_BIT = BAND * 4, SIX_BITS = BAND * 24 };
enum { HALF_SCALES = BAND * 2, RUN_SCALES = BAND * 2 };
#define RUN_BYTES(large, nibbles, two_bits, one_bit, six_bits)                                                         \
    ((large) * RUN_SCALES + (nibbles) * NIBBLES + (two_bits) * TWO_BITS + (one_bit) * ONE_BIT + (six_bits) * SIX_BITS)
#define BAND_BLOCK_BYTES(large, minimums, nibbles, two_bits, one_bit, six_bits)                                        \
    ((1 + (minimums)) * HALF_SCALES +                                                                                  \
     ((large) ? MOST_VALUES / BLOCK : 1) * RUN_BYTES(large, nibbles, two_bits, one_bit, six_bits))
#define NAME_BYTES(name, code, large, minimums, halves, nibbles, two_bits, one_bit, six_bits)                          \
    name##_bytes = BAND_BLOCK_BYTES(large, minimums, nibbles, two_bits, one_bit, six_bits),
enum { BAND_TYPES(NAME_BYTES) q8_0_bytes = sizeof(q8_0_band), q8_group_bytes = sizeof(q8_group_band) };
#define CHECK_BYTES(type, nbytes) _Static_assert(type##_bytes == nbytes, "kernels.h and bands.h differ");
BANDED(CHECK_BYTES)

INLINE band_type band_type_of(int64_t code)
{
#define CASE_OF(name, code, large, minimums, halves, nibbles, two_bits, one_bit, six_bits)                             \
    case code:                                                                                                         \
        return LITERAL(band_type){large, minimums, halves, nibbles, two_bits, one_bit, six_bits};
    switch (code) {
        BAND_TYPES(CASE_OF)
    default:
        return LITERAL(band_type){0, 0, 0, 0, 0, 0, 0};
    }
#undef CASE_OF
}

/* Bytes of eight rows' blocks as pack_blocks packs them; 0 where it leaves a type as it is. */
INLINE int64_t band_bytes(int64_t code)
{
    const band_type t = band_type_of(code);
    return t.nibbles + t.two_bits + t.six_bits
               ? BAND_BLOCK_BYTES(t.large, t.minimums, t.nibbles, t.two_bits, t.one_bit, t.six_bits)
               : 0;
}

/* Where run `run` of a block begins: its scales, or where a block is one run its numbers; and the numbers. */
INLINE int64_t band_run(const band_type t, int run)
{
    return (1 + t.minimums) * HALF_SCALES + run * RUN_BYTES(t.large, t.nibbles, t.two_bits, t.one_bit, t.six_bits);
}
INLINE int64_t band_numbers(const band_type t, int run) { return band_run(t, run) + t.large * RUN_SCALES; }

INLINE uint32_t four_bytes(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, 4);
    return value;
}

/* The numbers of a row in steps s (low) and s + 4 (high) of a run, a byte each; at: its first in the run. */
typedef struct four_and_four {
    uint32_t low, high;
} four_and_four;
enum { EACH_BYTE = 0x01010101 };

/* Of three vectors of six_bits: the fourth number, of which each has two bits. */
#define SIX_BITS_ABOVE(a, b, c) (((a) >> 2 & 48 * EACH_BYTE) | ((b) >> 4 & 12 * EACH_BYTE) | ((c) >> 6 & 3 * EACH_BYTE))

INLINE four_and_four band_step(const uint8_t *at, const band_type t, int s)
{
    const int first = 4 * t.nibbles, second = first + 2 * t.two_bits; /* the lowest bits of the planes after nibbles */
    four_and_four n = {0, 0};
    if (t.six_bits) {
        const uint8_t *const own = at + s % 2 * BAND * 4;
        const uint32_t a = four_bytes(own), b = four_bytes(own + SIX_BITS / 3), c = four_bytes(own + SIX_BITS / 3 * 2);
        n.low = (s < 2 ? a : c) & 63 * EACH_BYTE, n.high = s < 2 ? b & 63 * EACH_BYTE : SIX_BITS_ABOVE(a, b, c);
    }
    if (t.nibbles) {
        const uint32_t both = four_bytes(at + s * BAND * 4);
        n.low = both & 15 * EACH_BYTE, n.high = both >> 4 & 15 * EACH_BYTE;
        at += NIBBLES;
    }
    if (t.two_bits) {
        const uint32_t four = four_bytes(at + s / 2 * BAND * 4) >> s % 2 * 4;
        n.low |= (four & 3 * EACH_BYTE) << first, n.high |= (four >> 2 & 3 * EACH_BYTE) << first;
        at += TWO_BITS;
    }
    if (t.one_bit) {
        const uint32_t eight = four_bytes(at) >> s;
        n.low |= (eight & EACH_BYTE) << second, n.high |= (eight >> 4 & EACH_BYTE) << second;
    }
    return n;
}

INLINE void add_four_bytes(uint8_t *to, uint32_t bits)
{
    bits |= four_bytes(to);
    memcpy(to, &bits, 4);
}

/* The way back, into zeros. */
INLINE void put_band_step(uint8_t *at, const band_type t, int s, four_and_four n)
{
    if (t.six_bits) {
        uint8_t *const own = at + s % 2 * BAND * 4;
        add_four_bytes(own, s < 2 ? n.low : (n.high & 48 * EACH_BYTE) << 2);
        add_four_bytes(own + SIX_BITS / 3, s < 2 ? n.high : (n.high & 12 * EACH_BYTE) << 4);
        add_four_bytes(own + SIX_BITS / 3 * 2, s < 2 ? 0 : n.low | (n.high & 3 * EACH_BYTE) << 6);
    }
    if (t.nibbles) {
        const uint32_t both = (n.low & 15 * EACH_BYTE) | (n.high & 15 * EACH_BYTE) << 4;
        memcpy(at + s * BAND * 4, &both, 4);
        n.low = n.low >> 4 & 15 * EACH_BYTE, n.high = n.high >> 4 & 15 * EACH_BYTE;
        at += NIBBLES;
    }
    if (t.two_bits) {
        add_four_bytes(at + s / 2 * BAND * 4, ((n.low & 3 * EACH_BYTE) | (n.high & 3 * EACH_BYTE) << 2) << s % 2 * 4);
        n.low = n.low >> 2 & EACH_BYTE, n.high = n.high >> 2 & EACH_BYTE;
        at += TWO_BITS;
    }
    if (t.one_bit)
        add_four_bytes(at, ((n.low & EACH_BYTE) | (n.high & EACH_BYTE) << 4) << s);
}
#endif
