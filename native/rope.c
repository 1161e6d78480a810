/* Rotary position embedding (Su et al., RoFormer, 2021). */
#include "vmath.h"

/* The even and the odd elements of two vectors that lie one after the other; the two that make these up again. */
#if LANES == 16
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define ZIP_FIRST(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_SECOND(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 8
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define ZIP_FIRST(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_SECOND(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define ZIP_FIRST(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_SECOND(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* Vectors at p and after it, of which n elements exist. */
INLINE void load_two(const float *p, int64_t n, vfloat *first, vfloat *second)
{
    *first = vload_up_to(p, n);
    *second = n > LANES ? vload_up_to(p + LANES, n - LANES) : vzero();
}

INLINE void turn(vfloat *a, vfloat *b, const float *table, int64_t n)
{
    vfloat first, second;
    load_two(table, n, &first, &second);
    const vfloat cosine = EVEN(first, second), sine = ODD(first, second), before = *a;
    *a = before * cosine - *b * sine;
    *b = before * sine + *b * cosine;
}

/* Pairs are neighbours. */
INLINE void rotate_pairs(float *y, const float *x, const float *table, int64_t dims)
{
    for (int64_t i = 0; i < dims; i += 2 * LANES) {
        vfloat first, second;
        load_two(x + i, dims - i, &first, &second);
        vfloat a = EVEN(first, second), b = ODD(first, second);
        turn(&a, &b, table + i, dims - i);
        vstore_up_to(y + i, ZIP_FIRST(a, b), dims - i);
        if (dims - i > LANES)
            vstore_up_to(y + i + LANES, ZIP_SECOND(a, b), dims - i - LANES);
    }
}

/* Pairs lie half a row apart. */
INLINE void rotate_halves(float *y, const float *x, const float *table, int64_t dims)
{
    const int64_t half = dims / 2;
    for (int64_t i = 0; i < half; i += LANES) {
        vfloat a = vload_up_to(x + i, half - i), b = vload_up_to(x + half + i, half - i);
        turn(&a, &b, table + 2 * i, dims - 2 * i);
        vstore_up_to(y + i, a, half - i);
        vstore_up_to(y + half + i, b, half - i);
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
    const int64_t start = position ? *position : 0;
    if (start < 0 || start + tokens > positions)
        return KERNEL_POSITION_RANGE;
    worker_share(tokens * heads, 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const int64_t token = row / heads, head = row % heads;
        const float *in = x + token * x_stride + head * dims, *angles = table + (start + token) * dims;
        float *out = y + token * y_stride + head * dims;
        if (record->dims[6])
            rotate_pairs(out, in, angles, dims);
        else
            rotate_halves(out, in, angles, dims);
    }
    return KERNEL_OK;
}
