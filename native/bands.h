/* Bands: 8 rows of weights side by side, so that one load of a vector holds 4 columns of several rows. A packed matrix
 * is its bands one after the other, a band its blocks; rows are padded to 8 with zeros. These structs are the layout.
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

/* 32 columns: the low nibbles of pair p are columns 4 p .., the high ones columns 16 + 4 p ... */
typedef uint8_t band_nibbles[4][BAND][4];

typedef struct PACKED q4_0_band {
    uint16_t scales[BAND];
    band_nibbles nibbles;
} q4_0_band;

/* 256 columns. Scales and minimums of a run have six bits. */
typedef struct PACKED q4_K_band {
    uint16_t scales[BAND], minimums[BAND];
    struct {
        uint8_t scales[BAND], minimums[BAND];
        band_nibbles nibbles;
    } runs[MOST_VALUES / BLOCK];
} q4_K_band;

/* 256 columns. scales: of the first and of the last 16 of a run. two_bits[u], from the lowest bits: above columns 8 u
 * .., 16 + 8 u .., 8 u + 4 .. and 20 + 8 u ... */
typedef struct PACKED q6_K_band {
    uint16_t scales[BAND];
    struct {
        int8_t scales[2][BAND];
        band_nibbles nibbles;
        uint8_t two_bits[2][BAND][4];
    } runs[MOST_VALUES / BLOCK];
} q6_K_band;

#define CHECK_BYTES(type, nbytes) _Static_assert(sizeof(type##_band) == nbytes, "kernels.h and bands.h differ");
BANDED(CHECK_BYTES)

/* Where a run of 32 columns begins: 16 bytes (of q4_0: the scales of the rows), then the nibbles, then perhaps
 * two_bits. */
enum { RUN_NIBBLES = 2 * BAND, RUN_TWO_BITS = RUN_NIBBLES + sizeof(band_nibbles) };
_Static_assert(offsetof(q4_0_band, nibbles) == RUN_NIBBLES, "a run of q4_0");
_Static_assert(offsetof(q4_K_band, runs[0].nibbles) - offsetof(q4_K_band, runs) == RUN_NIBBLES, "a run of q4_K");
_Static_assert(offsetof(q6_K_band, runs[0].two_bits) - offsetof(q6_K_band, runs) == RUN_TWO_BITS, "a run of q6_K");

INLINE const uint8_t *band_run(const uint8_t *block, const int64_t type, int run)
{
    if (type == Q4_0)
        return block;
    return type == Q4_K ? (const uint8_t *)&((const q4_K_band *)block)->runs[run]
                        : (const uint8_t *)&((const q6_K_band *)block)->runs[run];
}

/* Bytes of eight rows' blocks packed by pack_blocks; 0 for types that it does not pack. */
INLINE int64_t band_bytes(int64_t type)
{
    switch (type) {
    case Q4_0:
        return sizeof(q4_0_band);
    case Q4_K:
        return sizeof(q4_K_band);
    case Q6_K:
        return sizeof(q6_K_band);
    default:
        return 0;
    }
}
#endif
