/* Fourier transforms whose lanes are transforms, so that each is ordinary arithmetic without shuffles: passes by radices in
 * an order that needs no reversal (Stockham, 1966; see Cooley and Tukey, 1965).
 */
#ifndef PYAPP_FOURIER_PASSES_H
#define PYAPP_FOURIER_PASSES_H
#include "simd.h"

#ifndef LARGEST_RADIX
#define LARGEST_RADIX 5
#endif

typedef struct stages {
    const float *roots; /* (size, 2): cos and sin of 2 pi i / size */
    int64_t size;
    vfloat *now, *next; /* (length, 2): real and imaginary parts */
} stages;

typedef struct complex_vector {
    vfloat re, im;
} complex_vector;

INLINE complex_vector plus(complex_vector a, complex_vector b) { return (complex_vector){a.re + b.re, a.im + b.im}; }
INLINE complex_vector minus(complex_vector a, complex_vector b) { return (complex_vector){a.re - b.re, a.im - b.im}; }
INLINE complex_vector times_minus_i(complex_vector a) { return (complex_vector){a.im, -a.re}; }

/* a + f b + g c, for numbers f and g */
INLINE complex_vector mix(complex_vector a, float f, complex_vector b, float g, complex_vector c)
{
    return (complex_vector){vfma(c.re, vsplat(g), vfma(b.re, vsplat(f), a.re)),
                            vfma(c.im, vsplat(g), vfma(b.im, vsplat(f), a.im))};
}

/* The transform of an odd number of numbers in place, by the sums and differences of pairs. turns (radix, 2): cos and sin
 * of 2 pi i / radix */
INLINE void odd_transform(complex_vector *a, const float *turns, const int radix)
{
    complex_vector sums[LARGEST_RADIX], rests[LARGEST_RADIX], done[LARGEST_RADIX];
    done[0] = a[0];
    UNROLL for (int k = 1; k <= radix / 2; k++)
    {
        sums[k] = plus(a[k], a[radix - k]);
        rests[k] = minus(a[k], a[radix - k]);
        done[0] = plus(done[0], sums[k]);
    }
    UNROLL for (int j = 1; j <= radix / 2; j++)
    {
        complex_vector m = a[0], n = {vzero(), vzero()};
        UNROLL for (int k = 1; k <= radix / 2; k++)
        {
            const vfloat cosine = vsplat(turns[2 * (j * k % radix)]), sine = vsplat(turns[2 * (j * k % radix) + 1]);
            m = (complex_vector){vfma(sums[k].re, cosine, m.re), vfma(sums[k].im, cosine, m.im)};
            n = (complex_vector){vfma(rests[k].im, sine, n.re), vfma(rests[k].re, -sine, n.im)};
        }
        done[j] = plus(m, n), done[radix - j] = minus(m, n);
    }
    UNROLL for (int k = 0; k < radix; k++) a[k] = done[k];
}

/* The transform of `radix` numbers in place. */
INLINE void small_transform(complex_vector *a, const float *turns, const int radix)
{
    if (radix == 2) {
        const complex_vector sum = plus(a[0], a[1]);
        a[1] = minus(a[0], a[1]);
        a[0] = sum;
    } else if (radix == 4) {
        const complex_vector even = plus(a[0], a[2]), odd = plus(a[1], a[3]);
        const complex_vector rest = minus(a[0], a[2]), turned = times_minus_i(minus(a[1], a[3]));
        a[0] = plus(even, odd), a[2] = minus(even, odd);
        a[1] = plus(rest, turned), a[3] = minus(rest, turned);
    } else if (radix == 5) { /* cos and sin of 72 and 144 degrees */
        const float c1 = 0.309016994f, c2 = -0.809016994f, s1 = 0.951056516f, s2 = 0.587785252f;
        const complex_vector none = {vzero(), vzero()};
        const complex_vector sum1 = plus(a[1], a[4]), sum2 = plus(a[2], a[3]);
        const complex_vector rest1 = minus(a[1], a[4]), rest2 = minus(a[2], a[3]);
        const complex_vector m1 = mix(a[0], c1, sum1, c2, sum2), m2 = mix(a[0], c2, sum1, c1, sum2);
        const complex_vector n1 = times_minus_i(mix(none, s1, rest1, s2, rest2));
        const complex_vector n2 = times_minus_i(mix(none, s2, rest1, -s1, rest2));
        a[0] = plus(a[0], plus(sum1, sum2));
        a[1] = plus(m1, n1), a[4] = minus(m1, n1);
        a[2] = plus(m2, n2), a[3] = minus(m2, n2);
    } else {
        odd_transform(a, turns, radix);
    }
}

/* One pass over `count` numbers, of which transforms of length `length` are left, `step` of them side by side. */
INLINE void pass(stages *t, int64_t length, int64_t step, const int radix)
{
    const int64_t parts = length / radix, root_step = t->size / length;
    float turns[2 * LARGEST_RADIX];
    for (int k = 0; k < 2 * radix && radix % 2 && radix != 5; k++)
        turns[k] = t->roots[t->size / radix * (k / 2) * 2 + k % 2];
    for (int64_t p = 0; p < parts; p++) {
        float cosine[LARGEST_RADIX], sine[LARGEST_RADIX];
        for (int k = 1; k < radix; k++) {
            const float *root = t->roots + 2 * (root_step * p * k % t->size);
            cosine[k] = root[0], sine[k] = root[1];
        }
        for (int64_t q = 0; q < step; q++) {
            complex_vector a[LARGEST_RADIX];
            UNROLL for (int k = 0; k < radix; k++)
            {
                const vfloat *from = t->now + 2 * (q + step * (p + parts * k));
                a[k] = (complex_vector){from[0], from[1]};
            }
            small_transform(a, turns, radix);
            UNROLL for (int k = 0; k < radix; k++)
            {
                vfloat *to = t->next + 2 * (q + step * (radix * p + k));
                to[0] = k && p ? vfma(a[k].re, vsplat(cosine[k]), a[k].im * sine[k]) : a[k].re;
                to[1] = k && p ? vfma(a[k].im, vsplat(cosine[k]), a[k].re * -sine[k]) : a[k].im;
            }
        }
    }
    vfloat *done = t->now;
    t->now = t->next;
    t->next = done;
}

#endif
