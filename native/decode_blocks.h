/* Weights of every block type, decoded into the same thing: numbers 0 .. 255 and, for each 16 of them, a scale and a
 * minimum: value = scale * (number - bias) - minimum, with one bias for each type (block_types.h).
 */
#ifndef PYAPP_DECODE_BLOCKS_H
#define PYAPP_DECODE_BLOCKS_H
#include "block_types.h"

/* Up to 256 columns of one row, in runs of 32: scales[h][run] and minimums[h][run] are those of a run's first (h = 0)
 * and last (h = 1) 16 columns. */
typedef struct decoded {
    uint8_t numbers[MOST_VALUES];
    float scales[2][MOST_VALUES / BLOCK], minimums[2][MOST_VALUES / BLOCK];
} decoded;

/* decode_blocks: 32 * runs columns of blocks in the layout of files; types with blocks of 256 values need runs = 8.
 * Past the last run, scales and minimums are unused, but finite.
 * decode_band_row: one row of a block of a band. */
#define decode_blocks SUFFIXED(decode_blocks)
#define decode_band_row SUFFIXED(decode_band_row)
void decode_blocks(decoded *to, const uint8_t *from, int64_t type, int runs);
void decode_band_row(decoded *to, const uint8_t *from, int64_t type, int row);

INLINE uint32_t four_bytes(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, 4);
    return value;
}

/* The scales of eight runs and their minimums, a byte each, from six bits each in twelve bytes, as in q4_K and q5_K. */
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
#endif
