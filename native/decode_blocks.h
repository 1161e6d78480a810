/* Weights of every block type, decoded into the same thing: numbers 0 .. 255 and, for each 16 of them, a scale and, in
 * types of bands.h, a minimum: value = scale * (number - bias) - minimum, with one bias for each type (block_types.h).
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

/* decode_blocks: 32 * runs columns of blocks that lie row after row, without minimums; types with blocks of 256 values
 * take runs = 8 only. Past the last run, scales are of no consequence, but finite.
 * decode_band_row: one row of a block of a band. */
#define decode_blocks SUFFIXED(decode_blocks)
#define decode_band_row SUFFIXED(decode_band_row)
void decode_blocks(decoded *to, const uint8_t *from, int64_t type, int runs);
void decode_band_row(decoded *to, const uint8_t *from, int64_t type, int row);
#endif
