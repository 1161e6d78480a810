/* GGML's block types, row after row as files have them (layouts: ggml-common.h of https://github.com/ggml-org/ggml,
 * MIT). */
#ifndef PYAPP_BLOCK_TYPES_H
#define PYAPP_BLOCK_TYPES_H
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
    SMALL_BLOCK_BYTES = 36, /* of the largest block of 32 values */
};

/* The contents of one block; nbytes 0: an unknown type. */
typedef struct block_type {
    int values, nbytes, bias, runs16; /* runs16: two scales in 32 columns */
} block_type;

INLINE block_type type_of(int64_t code)
{
    switch (code) {
    case Q4_0:
        return LITERAL(block_type){32, 18, 8, 0};
    case Q4_1:
        return LITERAL(block_type){32, 20, 0, 0};
    case Q5_0:
        return LITERAL(block_type){32, 22, 16, 0};
    case Q5_1:
        return LITERAL(block_type){32, 24, 0, 0};
    case Q8_0:
        return LITERAL(block_type){32, 34, 128, 0};
    case Q8_1:
        return LITERAL(block_type){32, 36, 128, 0};
    case Q2_K:
        return LITERAL(block_type){256, 84, 0, 1};
    case Q3_K:
        return LITERAL(block_type){256, 110, 4, 1};
    case Q4_K:
        return LITERAL(block_type){256, 144, 0, 0};
    case Q5_K:
        return LITERAL(block_type){256, 176, 0, 0};
    case Q6_K:
        return LITERAL(block_type){256, 210, 32, 1};
    case Q8_K:
        return LITERAL(block_type){256, 292, 128, 0};
    case IQ4_NL:
        return LITERAL(block_type){32, 18, 128, 0};
    case IQ4_XS:
        return LITERAL(block_type){256, 136, 128, 0};
    case MXFP4:
        return LITERAL(block_type){32, 17, 12, 0};
    default:
        return LITERAL(block_type){1, 0, 0, 0};
    }
}

#endif
