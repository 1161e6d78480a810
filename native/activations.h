/* Quantised activations, and the sizes of blocks and bands: for the kernels of every device. */
#ifndef PYAPP_ACTIVATIONS_H
#define PYAPP_ACTIVATIONS_H
#include <stdint.h>

/* LITERAL(type){...}: a value, in C and in CUDA's C++. */
#ifdef __cplusplus
#define LITERAL(type) type
#else
#define LITERAL(type) (type)
#endif

enum { BAND = 8, BLOCK = 32, STEPS = BLOCK / 4, BAND_BYTES = BAND * BLOCK };

/* A block of quantised activations, as quantize_rows writes it. */
typedef struct activations {
    int8_t values[BLOCK];
    float scale;
    int32_t sum;
} activations;
#endif
