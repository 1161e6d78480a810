/* Sums of four vectors at a time. */
#ifndef PYAPP_SUMS_H
#define PYAPP_SUMS_H
#include "simd.h"

#if LANES == 4
typedef vfloat four;
#else
typedef float four __attribute__((vector_size(16)));
#endif

/* Sums neighbouring quarters until four partial sums are left. */
INLINE four fold(vfloat a)
{
#if LANES == 16
    typedef float eight __attribute__((vector_size(32)));
    const eight half = __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7) +
                       __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
#elif LANES == 8
    return __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
#else
    return a;
#endif
}

/* The sums of four vectors. */
INLINE four sum_each(const vfloat *v)
{
    const four a = fold(v[0]), b = fold(v[1]), c = fold(v[2]), d = fold(v[3]);
    const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
#endif
