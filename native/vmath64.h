/* Functions of vectors of doubles. They serve f64, and every f32 and 16-bit function that has no version in vmath.h.
 *
 * Built from + - * / and square roots alone, so host and wasm agree to the last bit or two. Within 4 ulp unless said
 * otherwise. Coefficients: Taylor series, or our own Chebyshev fits in 60 digits, rounded to f64. Where a sum is split
 * into high and low parts, every product of a high part is exact, so it does not matter whether the machine fuses it.
 */
#ifndef PYAPP_VMATH64_H
#define PYAPP_VMATH64_H
#include "simd.h"

enum { DLANES = LANES / 2 };
typedef double vdouble __attribute__((vector_size(4 * LANES)));
typedef int64_t vlong __attribute__((vector_size(4 * LANES)));
typedef uint64_t vulong __attribute__((vector_size(4 * LANES))); /* for bits whose sums may wrap */

#define D_PI 3.141592653589793
#define D_LN2 0.6931471805599453
#define D_INFINITE __builtin_inf()
#define D_NAN __builtin_nan("")
/* Called, not inlined: code is downloaded, and a call costs little beside these. */
#define SHARED static __attribute__((noinline, unused))
#define HORNER(coefficients, z) horner(coefficients, (int)(sizeof(coefficients) / sizeof *(coefficients)), z)

INLINE vdouble dsplat(double x) { return x + (vdouble){0}; }
INLINE vdouble dload(const double *p)
{
    vdouble x;
    memcpy(&x, p, sizeof x);
    return x;
}
INLINE void dstore(double *p, vdouble x) { memcpy(p, &x, sizeof x); }
INLINE vdouble dselect(vlong mask, vdouble a, vdouble b) { return (vdouble)(((vlong)a & mask) | ((vlong)b & ~mask)); }
INLINE vlong dsign_bit(vdouble x) { return (vlong)x & INT64_MIN; }
INLINE vdouble dabs(vdouble x) { return (vdouble)((vlong)x & INT64_MAX); }
INLINE vdouble dcopysign(vdouble x, vdouble sign) { return (vdouble)(((vlong)x & INT64_MAX) | dsign_bit(sign)); }
INLINE vdouble dclamp(vdouble x, double low, double high) /* NaN stays */
{
    const vdouble a = dselect(x < low, dsplat(low), x);
    return dselect(a > high, dsplat(high), a);
}

INLINE vdouble dsqrt(vdouble x)
{
#if defined(__wasm_simd128__)
    return (vdouble)wasm_f64x2_sqrt((v128_t)x);
#elif LANES == 16
    return (vdouble)_mm512_sqrt_pd((__m512d)x);
#elif LANES == 8
    return (vdouble)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
    return (vdouble)_mm_sqrt_pd((__m128d)x);
#else
    return (vdouble)vsqrtq_f64((float64x2_t)x);
#endif
}

/* A polynomial, lowest coefficient first; unrolled where `count` is a constant. */
INLINE vdouble horner(const double *coefficients, const int count, vdouble z)
{
    vdouble sum = dsplat(coefficients[count - 1]);
    ROLLED for (int i = count - 2; i >= 0; i--) sum = sum * z + coefficients[i];
    return sum;
}

/* Rounding: above 2^52 every double is whole. */
INLINE vdouble dround(vdouble x) /* halves to even */
{
    const vdouble size = dabs(x), near = (size + 4503599627370496.0) - 4503599627370496.0;
    return dselect(size < 4503599627370496.0, dcopysign(near, x), x);
}
INLINE vdouble dtrunc(vdouble x)
{
    const vdouble size = dabs(x), near = (size + 4503599627370496.0) - 4503599627370496.0;
    const vdouble cut = near - dselect(near > size, dsplat(1.0), dsplat(0.0));
    return dselect(size < 4503599627370496.0, dcopysign(cut, x), x);
}
INLINE vdouble dfloor(vdouble x)
{
    const vdouble cut = dtrunc(x);
    return dselect(cut > x, cut - 1.0, cut);
}
INLINE vdouble dceil(vdouble x) { return (vdouble)((vlong)dfloor((vdouble)((vlong)x ^ INT64_MIN)) ^ INT64_MIN); }

/* ---- exp and log */

#define D_MAGIC 6755399441055744.0 /* 1.5 * 2^52: adding it leaves the nearest integer in the low bits */
#define D_MAGIC_BITS 0x4338000000000000

/* 2^n for the integer in the low bits of `rounded`, -1022 <= n <= 1023 */
SHARED vdouble dpower_of_two(vdouble rounded) { return (vdouble)(((vulong)rounded - (D_MAGIC_BITS - 1023)) << 52); }

/* x = n ln 2 + r: returns exp(r) - 1 - r; `rounded` holds n. |x| < 2000. */
INLINE vdouble dexp_reduced(vdouble x, vdouble low, vdouble *rounded, vdouble *r)
{
    static const double terms[] = {0.5,
                                   0.16666666666666666,
                                   0.041666666666666664,
                                   0.008333333333333333,
                                   0.001388888888888889,
                                   0.0001984126984126984,
                                   2.48015873015873e-05,
                                   2.7557319223985893e-06,
                                   2.755731922398589e-07,
                                   2.505210838544172e-08,
                                   2.08767569878681e-09,
                                   1.6059043836821613e-10};
    *rounded = x * 1.4426950408889634 + D_MAGIC;
    const vdouble n = *rounded - D_MAGIC;
    *r = ((x - n * 0.6931471803691238) - n * 1.9082149292705877e-10) + low;
    return *r * *r * HORNER(terms, *r);
}

/* exp(x + low), low being small */
SHARED vdouble dexp_of_sum(vdouble x, vdouble low)
{
    vdouble rounded, r;
    const vdouble e = dexp_reduced(dclamp(x, -750.0, 711.0), low, &rounded, &r);
    const vdouble n = rounded - D_MAGIC, half = n * 0.5 + D_MAGIC; /* 2^n in two steps, or it would be out of range */
    return (e + r + 1.0) * dpower_of_two(half) * dpower_of_two((n - (half - D_MAGIC)) + D_MAGIC);
}
INLINE vdouble dexp(vdouble x) { return dexp_of_sum(x, dsplat(0.0)); }

INLINE vdouble dexp2(vdouble x)
{
    const vdouble within = dclamp(x, -1080.0, 1025.0), n = dround(within), r = within - n;
    const vdouble half = n * 0.5 + D_MAGIC;
    return dexp(r * D_LN2) * dpower_of_two(half) * dpower_of_two((n - (half - D_MAGIC)) + D_MAGIC);
}

SHARED vdouble dexpm1(vdouble x)
{
    vdouble rounded, r;
    const vdouble e = dexp_reduced(dclamp(x, -60.0, 700.0), dsplat(0.0), &rounded, &r);
    const vdouble scale = dpower_of_two(rounded), value = scale * (e + r) + (scale - 1.0);
    return dselect(dabs(x) < 1e-300, x, dselect(x > 690.0, dexp(x), value));
}

/* x = 2^k (1 + f), 1 + f in sqrt(1/2) .. sqrt(2), for x positive and finite; *k as a double */
INLINE vdouble dlog_reduced(vdouble x, vdouble *k)
{
    const vlong tiny = x < 2.2250738585072014e-308;
    const vlong bits = (vlong)((vulong)dselect(tiny, x * 18014398509481984.0, x) - 0x3fe6a09e667f3bcd);
    *k = (vdouble)((bits >> 52) + D_MAGIC_BITS) - D_MAGIC - dselect(tiny, dsplat(54.0), dsplat(0.0));
    return (vdouble)((bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0;
}

/* log(1 + f) - f */
INLINE vdouble dlog_rest(vdouble f)
{
    static const double terms[] = {0.666666666666667,   0.3999999999989945,  0.28571428626001427, 0.22222211130560726,
                                   0.18182889433757515, 0.15331711346672997, 0.14616576421644387};
    const vdouble s = f / (f + 2.0), z = s * s, half_square = f * f * 0.5;
    return s * (z * HORNER(terms, z) + half_square) - half_square;
}

/* The logarithm of any x, given `value` for positive and finite x. */
INLINE vdouble dlog_edges(vdouble x, vdouble value)
{
    const vdouble at_zero = dselect(x == 0.0, dsplat(-D_INFINITE), dsplat(D_NAN));
    return dselect(x > 0.0, dselect(x < D_INFINITE, value, x), at_zero);
}

SHARED vdouble dlog(vdouble x)
{
    vdouble k;
    const vdouble f = dlog_reduced(x, &k);
    return dlog_edges(x, k * 0.6931471803691238 + (f + (dlog_rest(f) + k * 1.9082149292705877e-10)));
}
INLINE vdouble dlog2(vdouble x)
{
    vdouble k;
    const vdouble f = dlog_reduced(x, &k);
    return dlog_edges(x, k + (f + dlog_rest(f)) * 1.4426950408889634);
}
INLINE vdouble dlog10(vdouble x)
{
    vdouble k;
    const vdouble f = dlog_reduced(x, &k);
    return dlog_edges(x,
                      k * 0.3010299955494702 + ((f + dlog_rest(f)) * 0.4342944819032518 + k * 1.1451100898021838e-10));
}
SHARED vdouble dlog1p(vdouble x)
{
    const vdouble sum = x + 1.0, lost = dselect(dabs(x) < 9007199254740992.0, x - (sum - 1.0), dsplat(0.0));
    const vdouble value = dlog(sum) + dselect(sum > 0.0, lost / sum, dsplat(0.0));
    return dselect(dabs(x) < 1e-17, x, value);
}

/* ---- Circular functions */

/* reduce_angle.c: x = n pi / 2 + (*high + *low) for finite |x| >= 2^19; returns n modulo 4. */
#define reduce_angle SUFFIXED(reduce_angle)
int reduce_angle(double x, double *high, double *low);

typedef struct angle {
    vdouble high, low; /* -pi / 4 .. pi / 4 */
    vlong quarter;     /* the last two bits count */
} angle;

INLINE angle dreduce(vdouble x)
{
    angle a;
    const vdouble rounded = x * 0.6366197723675814 + D_MAGIC, n = rounded - D_MAGIC;
    const vdouble most = x - n * 1.5707963267341256, part = n * 6.077100506303966e-11; /* 33 bits of pi / 2 each */
    const vdouble rest = most - part, back = most - rest;
    const vdouble low = (back - part) - n * 2.0222662487959506e-21;
    a.high = rest + low;
    a.low = low - (a.high - rest);
    a.quarter = (vlong)rounded;
    const vdouble size = dabs(x);
    const vlong large = ~(size < 524288.0); /* or NaN */
    int64_t some = 0;
    for (int i = 0; i < DLANES; i++)
        some |= large[i];
    for (int i = 0; some && i < DLANES; i++)
        if (large[i]) {
            double parts[2] = {D_NAN, 0.0};
            if (size[i] < D_INFINITE)
                a.quarter[i] = reduce_angle(x[i], &parts[0], &parts[1]);
            a.high[i] = parts[0], a.low[i] = parts[1];
        }
    return a;
}

INLINE vdouble dsin_part(angle a)
{
    static const double terms[] = {-0.16666666666666666,  0.008333333333330948,    -0.00019841269836758574,
                                   2.755731610255244e-06, -2.5051131845003624e-08, 1.5918129294866608e-10};
    const vdouble z = a.high * a.high;
    return a.high + (a.high * z * HORNER(terms, z) + a.low * (1.0 - 0.5 * z));
}
INLINE vdouble dcos_part(angle a)
{
    static const double terms[] = {0.041666666666666664,    -0.0013888888888887398, 2.480158729876569e-05,
                                   -2.7557317271729793e-07, 2.08761462684032e-09,   -1.1382632425521717e-11};
    const vdouble z = a.high * a.high, half = 0.5 * z, most = 1.0 - half;
    return most + (((1.0 - most) - half) + (z * z * HORNER(terms, z) - a.high * a.low));
}
/* sin(x + turn pi / 2) */
SHARED vdouble dsin_turned(vdouble x, int turn)
{
    const angle a = dreduce(x);
    const vlong quarter = a.quarter + turn;
    const vdouble value = dselect(-(quarter & 1), dcos_part(a), dsin_part(a));
    const vdouble turned = (vdouble)((vulong)value ^ ((vulong)(quarter & 2) << 62));
    return turn ? turned : dselect(dabs(x) < 1e-8, x, turned); /* -0 stays */
}
INLINE vdouble dsin(vdouble x) { return dsin_turned(x, 0); }
INLINE vdouble dcos(vdouble x) { return dsin_turned(x, 1); }
SHARED vdouble dtan(vdouble x)
{
    const angle a = dreduce(x);
    const vdouble s = dsin_part(a), c = dcos_part(a);
    const vlong odd = -(a.quarter & 1);
    const vdouble value = dselect(odd, -c, s) / dselect(odd, s, c);
    return dselect(dabs(x) < 1e-8, x, value);
}

/* atan for 0 <= x <= 1 */
SHARED vdouble datan_unit(vdouble x)
{
    static const double terms[] = {-0.3333333333333333,  0.1999999999999552,  -0.14285714284666542, 0.11111111015256361,
                                   -0.09090904578123903, 0.07692183190826087, -0.06664511447381948, 0.0585814891280221,
                                   -0.0508544973794026,  0.03923165829558719, -0.01917688711906226};
    const vlong far = x > 0.41421356237309503;
    const vdouble u = dselect(far, (x - 1.0) / (x + 1.0), x), z = u * u;
    const vdouble bend = u * z * HORNER(terms, z);
    return dselect(far, 0.7853981633974483 + (u + (bend + 3.061616997868383e-17)), u + bend);
}
INLINE vdouble datan(vdouble x)
{
    const vdouble size = dabs(x);
    const vlong far = size > 1.0;
    const vdouble a = datan_unit(dselect(far, 1.0 / size, size));
    return dcopysign(dselect(far, 1.5707963267948966 - (a - 6.123233995736766e-17), a), x);
}
INLINE vdouble datan2(vdouble y, vdouble x)
{
    const vdouble tall = dabs(y), wide = dabs(x);
    const vlong steep = tall > wide;
    const vdouble small = dselect(steep, wide, tall), large = dselect(steep, tall, wide);
    const vdouble ratio = dselect(large == 0.0, dsplat(0.0), dselect(small == D_INFINITE, dsplat(1.0), small / large));
    vdouble a = datan_unit(ratio);
    a = dselect(steep, 1.5707963267948966 - (a - 6.123233995736766e-17), a);
    a = dselect((vlong)x < 0, D_PI - (a - 1.2246467991473532e-16), a);
    return dselect((x != x) | (y != y), x + y, dcopysign(a, y));
}

/* asin(x) - x for |x| <= 1/2, from z = x * x */
SHARED vdouble dasin_rest(vdouble x, vdouble z)
{
    static const double terms[] = {0.1666666666666665,   0.07500000000020764,   0.044642857103423646,
                                   0.03038194736709848,  0.02237204763174451,   0.017355259955786323,
                                   0.013929652902326633, 0.011875494382636922,  0.0078029494773533175,
                                   0.01603551434914882,  -0.010749050339697808, 0.028169218060881414};
    return x * z * HORNER(terms, z);
}
INLINE vdouble dasin(vdouble x)
{
    const vdouble size = dabs(x);
    const vlong far = size > 0.5;
    const vdouble z = dselect(far, 0.5 - 0.5 * size, size * size), u = dselect(far, dsqrt(z), size);
    const vdouble rest = dasin_rest(u, z);
    return dcopysign(dselect(far, 1.5707963267948966 - (2.0 * (u + rest) - 6.123233995736766e-17), u + rest), x);
}
INLINE vdouble dacos(vdouble x)
{
    const vdouble size = dabs(x);
    const vlong far = size > 0.5;
    const vdouble z = dselect(far, 0.5 - 0.5 * size, x * x), u = dselect(far, dsqrt(z), x), rest = dasin_rest(u, z);
    const vdouble near = 1.5707963267948966 - (u + (rest - 6.123233995736766e-17)), twice = 2.0 * (u + rest);
    return dselect(far, dselect(x > 0.0, twice, D_PI - (twice - 1.2246467991473532e-16)), near);
}

/* ---- Hyperbolic functions */

INLINE vdouble dsinh(vdouble x)
{
    const vdouble size = dabs(x), e = dexpm1(dclamp(size, 0.0, 700.0)), half = dexp(size * 0.5);
    const vdouble near = 0.5 * (e + e / (e + 1.0));
    return dcopysign(dselect(size > 22.0, (0.5 * half) * half, dselect(size < 1e-9, size, near)), x);
}
INLINE vdouble dcosh(vdouble x)
{
    const vdouble size = dabs(x), e = dexp(dclamp(size, 0.0, 700.0)), half = dexp(size * 0.5);
    return dselect(size > 22.0, (0.5 * half) * half, 0.5 * (e + 1.0 / e));
}
SHARED vdouble dtanh(vdouble x)
{
    const vdouble size = dabs(x), e = dexpm1(2.0 * dclamp(size, 0.0, 30.0));
    return dcopysign(e / (e + 2.0), x);
}
INLINE vdouble dasinh(vdouble x)
{
    const vdouble size = dabs(x), within = dclamp(size, 0.0, 1e8), square = within * within;
    const vdouble near = dlog1p(within + square / (1.0 + dsqrt(square + 1.0)));
    return dcopysign(dselect(size > 1e8, dlog(size) + D_LN2, near), x);
}
INLINE vdouble dacosh(vdouble x)
{
    const vdouble t = dselect(x > 1e8, dsplat(1.0), x - 1.0), near = dlog1p(t + dsqrt(2.0 * t + t * t));
    return dselect(x > 1e8, dlog(x) + D_LN2, dselect(x < 1.0, dsplat(D_NAN), near));
}
INLINE vdouble datanh(vdouble x)
{
    const vdouble size = dabs(x);
    return dcopysign(0.5 * dlog1p(2.0 * size / (1.0 - size)), x);
}

/* ---- Powers */

INLINE vdouble dhigh_part(vdouble x) { return (vdouble)((vlong)x & (int64_t)0xfffffffff8000000); } /* 26 bits */

/* |x|^y, with log |x| as a sum of two: pow(x, y) as in C, without the sign. */
SHARED vdouble dpow(vdouble x, vdouble y)
{
    static const double terms[] = {0.666666666666667,   0.3999999999989945,  0.28571428626001427, 0.22222211130560726,
                                   0.18182889433757515, 0.15331711346672997, 0.14616576421644387};
    const vdouble size = dabs(x);
    vdouble k;
    const vdouble f = dlog_reduced(size, &k), d = f + 2.0, d_lost = f - (d - 2.0);
    const vdouble s = f / d, z = s * s, s_high = dhigh_part(s), d_high = dhigh_part(d);
    const vdouble s_low = ((f - s_high * d_high) - s_high * ((d - d_high) + d_lost)) / d;
    const vdouble a = k * 0.6931471803691238, b = 2.0 * s_high, sum = a + b;
    const vdouble lost = dselect(k == 0.0, dsplat(0.0), (a - sum) + b);
    const vdouble rest = lost + (2.0 * s_low + (s * z * HORNER(terms, z) + k * 1.9082149292705877e-10));
    const vdouble log_high = sum + rest, log_low = rest - (log_high - sum);
    const vdouble l = dhigh_part(log_high), l_low = (log_high - l) + log_low;
    const vdouble p = dhigh_part(y), p_low = y - p;
    const vdouble most = p * l, less = y * l_low + p_low * l;
    const vdouble edge = y * dlog_edges(size, log_high);
    const vlong plain = dabs(edge) < 760.0;
    vdouble value = dexp_of_sum(dselect(plain, most, dsplat(0.0)), dselect(plain, less, dsplat(0.0)));
    value = dselect(plain, value, dselect(edge > 0.0, dsplat(D_INFINITE), dselect(edge < 0.0, dsplat(0.0), edge)));
    const vdouble half = y * 0.5;
    const vlong whole = dtrunc(y) == y, odd = whole & (dtrunc(half) != half);
    value = (vdouble)((vlong)value ^ (dsign_bit(x) & odd));
    value = dselect((x < 0.0) & ~whole & (size < D_INFINITE), dsplat(D_NAN), value);
    const vlong one = (y == 0.0) | (x == 1.0) | ((x == -1.0) & (dabs(y) == D_INFINITE));
    return dselect(one, dsplat(1.0), value);
}

INLINE vdouble dhypot(vdouble x, vdouble y)
{
    const vdouble a = dabs(x), b = dabs(y), large = dselect(a > b, a, b);
    const vdouble scale =
        dselect(large > 1e150, dsplat(0x1p-600), dselect(large < 1e-150, dsplat(0x1p600), dsplat(1.0)));
    const vdouble u = a * scale, v = b * scale, value = dsqrt(u * u + v * v) / scale;
    return dselect((a == D_INFINITE) | (b == D_INFINITE), dsplat(D_INFINITE), value);
}
SHARED vdouble dlogaddexp(vdouble a, vdouble b)
{
    const vdouble large = dselect((a > b) | (a != a), a, b), distance = dabs(a - b);
    const vdouble value = large + dlog1p(dexp(-distance));
    return dselect(a == b, a + D_LN2, dselect((a != a) | (b != b), a + b, value));
}

/* ---- Activations */

INLINE vdouble dsigmoid(vdouble x) { return 1.0 / (1.0 + dexp(-x)); }
INLINE vdouble dsoftplus(vdouble x) /* log(1 + exp(x)) */
{
    return dselect(x > 0.0, x, dsplat(0.0)) + dlog1p(dexp(-dabs(x))) + dselect(x != x, x, dsplat(0.0));
}

/* ---- Error function and its inverse */

/* exp(x^2) erfc(x) for x >= 1: (1 + 2 x) times it is a polynomial in (x - 2) / (x + 2); form of Shepherd and
 * Laframboise (1981). */
INLINE vdouble derfc_scaled(vdouble x)
{
    static const double terms[] = {1.2769783815525286,      -0.09276382658574643,   -0.1660303976152916,
                                   0.16405128003354974,     -0.05422000099183531,   -0.008034015090587798,
                                   0.008722653874698595,    0.0012713392433843854,  -0.001456814271180623,
                                   -0.0004543455351509939,  0.00020637822149981584, 0.00015107564016054502,
                                   -1.6571714133519987e-06, -3.645881562633798e-05, -1.264958894410426e-05,
                                   2.6207170218885253e-06,  4.095199987620248e-06,  5.80025633254813e-06,
                                   -4.932202912193733e-06,  3.409811378870917e-07,  2.9925223269288193e-07};
    return HORNER(terms, (x - 2.0) / (x + 2.0)) / (1.0 + 2.0 * x);
}
INLINE vdouble derf_near(vdouble x) /* |x| <= 1 */
{
    static const double terms[] = {1.1283791670955126,      -0.37612638903183543,   0.11283791670945006,
                                   -0.02686617064323777,    0.0052239776071164225,  -0.0008548325975389692,
                                   0.00012055294904839707,  -1.492473690741966e-05, 1.6447424703317362e-06,
                                   -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10};
    return x * HORNER(terms, x * x);
}
SHARED vdouble derfc_far(vdouble x) /* 1 <= x <= 28 */
{
    const vdouble high = (vdouble)((vlong)x & (int64_t)0xffffffff00000000); /* its square is exact */
    return derfc_scaled(x) * dexp_of_sum(-high * high, (high - x) * (high + x));
}
SHARED vdouble derfc(vdouble x)
{
    const vdouble size = dabs(x), far = derfc_far(dclamp(size, 1.0, 28.0));
    return dselect(size > 1.0, dselect(x < 0.0, 2.0 - far, far), 1.0 - derf_near(x));
}
SHARED vdouble derf(vdouble x)
{
    const vdouble size = dabs(x), far = 1.0 - derfc_far(dclamp(size, 1.0, 28.0));
    return dselect(size > 1.0, dcopysign(far, x), derf_near(x));
}

/* Winitzki's approximation, then Halley's steps. Outside -1 .. 1: infinite at +-1, else NaN. */
SHARED vdouble derfinv(vdouble y)
{
    const vdouble size = dabs(y), inside = dselect(size < 1.0, size, dsplat(0.0)), left = 1.0 - inside;
    const vdouble tail = dlog(left * (1.0 + inside)), centre = 4.330746750799873 + tail * 0.5;
    const vdouble root = dsqrt(centre * centre - tail * 6.802721088435375) - centre;
    vdouble x = dsqrt(dselect(root > 0.0, root, dsplat(0.0)));
    ROLLED for (int i = 0; i < 3; i++)
    {
        const vdouble error =
            dselect(size < 0.7, derf(x) - inside, left - derfc(x)); /* the form that keeps its digits */
        const vdouble step = error * (0.886226925452758 * dexp(x * x));
        x = x - step / (1.0 + x * step);
    }
    x = dselect(size < 1e-9, inside * 0.886226925452758, x);
    return dcopysign(dselect(size < 1.0, x, dselect(size == 1.0, dsplat(D_INFINITE), dsplat(D_NAN))), y);
}

/* ---- Gamma: Stirling's series (NIST DLMF 5.11.1) after a shift to x >= 10; x < 1/2 by reflection (DLMF 5.5.3). */

enum { GAMMA_SHIFT = 10 };

/* pi times the distance to the nearest integer, for the reflections */
INLINE vdouble dpi_fraction(vdouble x) { return D_PI * dselect(dabs(x) < D_INFINITE, x - dround(x), dsplat(0.0)); }

/* Within 1e-15 of itself or of 1, whichever is larger. */
SHARED vdouble dlgamma(vdouble x)
{
    static const double terms[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                   1.0 / 1188, -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400};
    const vlong below = x < 0.5;
    const vdouble mirrored = dselect(below, 1.0 - x, x);
    const vlong small = mirrored < (double)GAMMA_SHIFT;
    vdouble product = dsplat(1.0);
    ROLLED for (int k = 0; k < GAMMA_SHIFT; k++) product *= dselect(small, mirrored + (double)k, dsplat(1.0));
    const vdouble z = dselect(small, mirrored + (double)GAMMA_SHIFT, mirrored), inverse = 1.0 / z;
    const vdouble series = inverse * HORNER(terms, inverse * inverse);
    vdouble value = (z - 0.5) * dlog(z) - z + 0.9189385332046728 + series - dlog(product);
    value = dselect(mirrored == D_INFINITE, mirrored, value);
    const vdouble reflected = 1.1447298858494002 - dlog(dabs(dsin(dpi_fraction(x)))) - value;
    value = dselect((x == 1.0) | (x == 2.0), dsplat(0.0), value);
    return dselect(x == -D_INFINITE, dsplat(D_INFINITE), dselect(below, reflected, value));
}

/* Derivative of lgamma (DLMF 5.11.2, 5.5.4). */
SHARED vdouble ddigamma(vdouble x)
{
    static const double terms[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                   1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};
    const vlong below = x < 0.5;
    vdouble z = dselect(below, 1.0 - x, x), value = dsplat(0.0);
    ROLLED for (int k = 0; k < GAMMA_SHIFT; k++)
    {
        const vlong small = z < (double)GAMMA_SHIFT;
        value -= dselect(small, 1.0 / z, dsplat(0.0));
        z = dselect(small, z + 1.0, z);
    }
    const vdouble inverse = 1.0 / z, square = inverse * inverse;
    value += dlog(z) - 0.5 * inverse - square * HORNER(terms, square);
    const vdouble fraction = x - dround(x);
    const vdouble reflected = dselect(fraction == 0.0, dsplat(D_NAN), value - D_PI / dtan(D_PI * fraction));
    return dselect(x == 0.0, dcopysign(dsplat(D_INFINITE), -x), dselect(below, reflected, value));
}

/* Derivative of digamma (DLMF 5.15.8, 5.15.6). */
SHARED vdouble dtrigamma(vdouble x)
{
    static const double terms[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                   5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
    const vlong below = x < 0.5;
    vdouble z = dselect(below, 1.0 - x, x), value = dsplat(0.0);
    ROLLED for (int k = 0; k < GAMMA_SHIFT; k++)
    {
        const vlong small = z < (double)GAMMA_SHIFT;
        value += dselect(small, 1.0 / (z * z), dsplat(0.0));
        z = dselect(small, z + 1.0, z);
    }
    const vdouble inverse = 1.0 / z, square = inverse * inverse;
    value += inverse + 0.5 * square + inverse * square * HORNER(terms, square);
    const vdouble sine = dsin(dpi_fraction(x)), ratio = D_PI / sine;
    return dselect(below, ratio * ratio - value, value);
}

/* ---- The modified Bessel function of order 0 (DLMF 10.25.2, 10.40.1) */

SHARED vdouble di0(vdouble x)
{
    static const double near[] = {1.0,
                                  1.0,
                                  0.25,
                                  0.027777777777777776,
                                  0.001736111111111111,
                                  6.944444444444444e-05,
                                  1.9290123456790124e-06,
                                  3.936759889140842e-08,
                                  6.151187326782565e-10,
                                  7.594058428126624e-12,
                                  7.594058428126623e-14,
                                  6.276081345559193e-16,
                                  4.358389823304995e-18,
                                  2.5789288895295828e-20,
                                  1.3157800456783586e-22,
                                  5.8479113141260385e-25,
                                  2.2843403570804838e-27,
                                  7.904291893012054e-30,
                                  2.4395962632753253e-32,
                                  6.757884385804225e-35,
                                  1.6894710964510564e-37,
                                  3.8310002187098785e-40,
                                  7.915289708078262e-43};
    static const double far[] = {
        0.39894228040143287,    0.0062334731311223576,  0.00043829109778941767, 5.7068261953161605e-05,
        1.0946459250260159e-05, 2.397889509811473e-06,  4.761314977650564e-06,  -2.8574102320656276e-05,
        0.00015582495910500428, -0.0006209193582823229, 0.0018571856343099278,  -0.0041843684977983875,
        0.007087877214838403,   -0.008938392517350088,  0.008232028285355892,   -0.005356404793897017,
        0.002325384959189235,   -0.0006031383290216117, 7.062034443072514e-05};
    const vdouble size = dabs(x), within = dclamp(size, 0.0, 8.0), beyond = dclamp(size, 8.0, 1e300);
    const vdouble half = dexp(0.5 * beyond), scaled = HORNER(far, 8.0 / beyond) / dsqrt(beyond);
    return dselect(size > 8.0, half * scaled * half, HORNER(near, within * within * 0.25));
}
#endif
