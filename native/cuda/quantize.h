/* Quantising activations: see quantize_rows in kernels.h. */
#ifndef PYAPP_QUANTIZE_H
#define PYAPP_QUANTIZE_H
#include "gpu.h"

/* A block of 32 columns, of which eight lanes side by side have four each. All lanes of a warp come here; those that are not
 * `inside` write nothing. */
DEVICE void quantize_four(activations *to, const float four[4], bool inside)
{
    float most = fmaxf(fmaxf(fabsf(four[0]), fabsf(four[1])), fmaxf(fabsf(four[2]), fabsf(four[3])));
    int odd = 0; /* whether something is not finite */
    for (int j = 0; j < 4; j++)
        odd |= !(four[j] - four[j] == 0);
    for (int apart = 4; apart; apart >>= 1) {
        most = fmaxf(most, __shfl_xor_sync(EVERY_LANE, most, apart));
        odd |= __shfl_xor_sync(EVERY_LANE, odd, apart);
    }
    float scale = most / 127.0f;
    const float inverse = 1.0f / scale;
    const bool usable = !odd && inverse < 0x1p127f; /* not all zero, nor too small to divide by */
    scale = odd ? NOT_A_NUMBER : usable ? scale : 0.0f;
    uint32_t numbers = 0;
    int32_t sum = 0;
    for (int j = 0; j < 4; j++) {
        const int8_t number = usable ? (int8_t)(int)roundf(four[j] * inverse) : (int8_t)0;
        numbers |= (uint32_t)(uint8_t)number << 8 * j;
        sum += number;
    }
    for (int apart = 4; apart; apart >>= 1)
        sum += __shfl_xor_sync(EVERY_LANE, sum, apart);
    if (inside) {
        ((uint32_t *)to->values)[LANE % 8] = numbers;
        if (LANE % 8 == 0)
            to->scale = scale, to->sum = sum;
    }
}
#endif
