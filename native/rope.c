/* Rotary position embedding (Su et al., RoFormer, 2021). */
#include "simd.h"

enum { PAIRS = 32 }; /* rotated at a time, by way of the stack: y may be x, and the compiler need not fear it */

INLINE void rotate(float *y, const float *x, const float *table, int64_t pairs, int64_t step, int64_t apart)
{
    float first[PAIRS], second[PAIRS];
    for (int64_t i = 0; i < pairs; i++) {
        const float a = x[i * step], b = x[i * step + apart], cosine = table[2 * i], sine = table[2 * i + 1];
        first[i] = a * cosine - b * sine;
        second[i] = a * sine + b * cosine;
    }
    for (int64_t i = 0; i < pairs; i++) {
        y[i * step] = first[i];
        y[i * step + apart] = second[i];
    }
}

KERNEL(rope_f32)
{
    float *y = record->pointers[0];
    const float *x = record->pointers[1], *table = record->pointers[2];
    const int32_t *position = record->pointers[3];
    const int64_t tokens = record->dims[0], heads = record->dims[1], dims = record->dims[2];
    const int64_t y_stride = record->dims[3], x_stride = record->dims[4], positions = record->dims[5];
    int64_t first, last;
    if (tokens <= 0 || heads <= 0 || dims <= 0)
        return KERNEL_OK;
    if (dims % 2)
        return KERNEL_BAD_ARGUMENT;
    const int64_t start = position ? *position : 0, half = dims / 2;
    if (start < 0 || start + tokens > positions)
        return KERNEL_POSITION_RANGE;
    worker_share(tokens * heads, 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const int64_t token = row / heads, head = row % heads;
        const float *in = x + token * x_stride + head * dims, *angles = table + (start + token) * dims;
        float *out = y + token * y_stride + head * dims;
        for (int64_t i = 0; i < half; i += PAIRS) {
            const int64_t pairs = half - i < PAIRS ? half - i : PAIRS;
            if (record->dims[6])
                rotate(out + 2 * i, in + 2 * i, angles + 2 * i, pairs, 2, 1);
            else
                rotate(out + i, in + i, angles + 2 * i, pairs, 1, half);
        }
    }
    return KERNEL_OK;
}
