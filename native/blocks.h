/* GGML's block types (layouts: ggml-common.h of https://github.com/ggml-org/ggml, MIT), row after row as files have them,
 * and the bands that q4_0, q4_K and q6_K are repacked into, so that a part of eight rows is one load (kernels.h).
 *
 * Every block comes apart into the same thing: numbers 0 .. 255 and, for each 16 of them, a scale and a minimum:
 * value = scale * (number - bias) - minimum, with one bias for the type.
 */
#ifndef PYAPP_BLOCKS_H
#define PYAPP_BLOCKS_H
#include "int8.h"

/* Types by GGML's codes. */
enum {
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q8_1 = 9,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    Q8_K = 15,
    IQ4_NL = 20,
    IQ4_XS = 23,
    MXFP4 = 39
};

enum {
    MOST_VALUES = 256,
    RUN = 16,
    PACKED_NIBBLES = BAND * BLOCK / 2,
    Q4_K_RUN = 2 * BAND + PACKED_NIBBLES,
    Q6_K_RUN = 2 * BAND + PACKED_NIBBLES + PACKED_NIBBLES / 2
};

typedef struct decoded {
    uint8_t numbers[MOST_VALUES];
    float scales[MOST_VALUES / RUN], minimums[MOST_VALUES / RUN];
} decoded;

/* What one block holds; nbytes 0: an unknown type. packed_bytes: of a block of eight rows; 0 where there are no bands. */
typedef struct block_type {
    int values, nbytes, packed_bytes, bias, runs16; /* runs16: two scales in 32 columns */
} block_type;

INLINE block_type type_of(int64_t code)
{
    switch (code) {
    case Q4_0:
        return (block_type){32, 18, 2 * BAND + PACKED_NIBBLES, 8, 0};
    case Q4_1:
        return (block_type){32, 20, 0, 0, 0};
    case Q5_0:
        return (block_type){32, 22, 0, 16, 0};
    case Q5_1:
        return (block_type){32, 24, 0, 0, 0};
    case Q8_0:
        return (block_type){32, 34, 0, 128, 0};
    case Q8_1:
        return (block_type){32, 36, 0, 128, 0};
    case Q2_K:
        return (block_type){256, 84, 0, 0, 1};
    case Q3_K:
        return (block_type){256, 110, 0, 4, 1};
    case Q4_K:
        return (block_type){256, 144, 4 * BAND + 8 * Q4_K_RUN, 0, 0};
    case Q5_K:
        return (block_type){256, 176, 0, 0, 0};
    case Q6_K:
        return (block_type){256, 210, 2 * BAND + 8 * Q6_K_RUN, 32, 1};
    case Q8_K:
        return (block_type){256, 292, 0, 128, 0};
    case IQ4_NL:
        return (block_type){32, 18, 0, 128, 0};
    case IQ4_XS:
        return (block_type){256, 136, 0, 128, 0};
    case MXFP4:
        return (block_type){32, 17, 0, 12, 0};
    default:
        return (block_type){1, 0, 0, 0, 0};
    }
}

INLINE float half_at(const uint8_t *p)
{
    uint16_t half;
    memcpy(&half, p, 2);
    return f16_to_float(half);
}

/* The scale and minimum, six bits each in twelve bytes, of run i of 32 in q4_K and q5_K. */
INLINE void six_bits(const uint8_t *packed, int i, uint8_t *scale, uint8_t *minimum)
{
    if (i < 4) {
        *scale = packed[i] & 63, *minimum = packed[i + 4] & 63;
    } else {
        *scale = (uint8_t)((packed[i + 4] & 15) | packed[i - 4] >> 6 << 4);
        *minimum = (uint8_t)(packed[i + 4] >> 4 | packed[i] >> 6 << 4);
    }
}

/* A block as files have it; and one row of a block of a band. */
#define decode_block SUFFIXED(decode_block)
#define decode_band_row SUFFIXED(decode_band_row)
void decode_block(decoded *to, const uint8_t *from, int64_t type);
void decode_band_row(decoded *to, const uint8_t *from, int64_t type, int row);
#endif
