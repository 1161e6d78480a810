/* exp, log, sine and cosine of vectors, and functions built from them. They use only + - * /, so host and wasm agree to
 * the last bit or two. Coefficients: our minimax fits (Remez), rounded to f32.
 */
#ifndef PYAPP_VMATH_H
#define PYAPP_VMATH_H
#include "simd.h"

#define INFINITE __builtin_inff()

/* x = n ln 2 + r with |r| <= ln 2 / 2: returns (exp(r) - 1 - r) / r^2, and n in the low bits of *rounded. */
INLINE vfloat exp_reduced(vfloat x, vfloat *rounded, vfloat *r)
{
    const vfloat magic = vnumber(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer, left in the low bits */
    *rounded = vfma(x, vnumber(1.44269504f), magic);
    const vfloat power = *rounded - magic;
    *r = vfma(power, vnumber(-0.693359375f), x); /* ln 2 in two parts: the first product is exact */
    *r = vfma(power, vnumber(2.12194440e-4f), *r);
    vfloat q = vnumber(0.00138144669f);
    q = vfma(q, *r, vnumber(0.00836878041f));
    q = vfma(q, *r, vnumber(0.0416683942f));
    q = vfma(q, *r, vnumber(0.166665201f));
    return vfma(q, *r, vnumber(0.499999934f));
}

/* Within 1 ulp for every x, subnormal results too; exp(-inf) = 0, exp(inf) = inf, NaN stays NaN. */
INLINE vfloat vexp(vfloat x)
{
    vfloat rounded, r;
    const vfloat q = exp_reduced(vclamp(x, -104.0f, 89.0f), &rounded, &r);
    const vfloat mantissa = vfma(q, r * r, r) + vnumber(1.0f);
    /* 2^n in two steps, because it may be out of range where the result is not */
    const vuint bias = (vuint)vconstant(127);
    const vuint n = (vuint)rounded - (vuint)vconstant(0x4b400000), half = (vuint)((vint)n >> 1);
    return mantissa * (vfloat)((half + bias) << 23) * (vfloat)((n - half + bias) << 23);
}

/* Within 2 ulp for x <= 0, but 0 where that would be subnormal: half the work. */
INLINE vfloat vexp_negative(vfloat x)
{
    vfloat rounded, r;
    const vfloat q = exp_reduced(x, &rounded, &r), one = vnumber(1.0f), mantissa = vfma(vfma(q, r, one), r, one);
    return (vfloat)(((vuint)mantissa + ((vuint)rounded << 23)) & ~(vuint)(x < vnumber(-87.0f)));
}

/* Natural logarithm within 2 ulp, for x normal and positive, infinite or NaN. */
INLINE vfloat vlog(vfloat x)
{
    const vuint offset = (vuint)x - 0x3f3504f3u; /* bits of sqrt(1/2): the mantissa lands in sqrt(1/2) .. sqrt(2) */
    const vfloat exponent = vfrom_int((vint)offset >> 23);
    const vfloat f = (vfloat)((offset & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    const vfloat s = f / (f + 2.0f), z = s * s, half_square = f * f * 0.5f; /* log(1 + f) = 2 atanh(s) */
    vfloat p = vsplat(0.222222222f);
    p = vfma(p, z, vsplat(0.285714286f));
    p = vfma(p, z, vsplat(0.4f));
    p = vfma(p, z, vsplat(0.666666667f));
    const vfloat small = vfma(exponent, vsplat(-2.12194440e-4f), vfma(s, vfma(p, z, half_square), -half_square));
    return vselect(x < INFINITE, vfma(exponent, vsplat(0.693359375f), f + small), x);
}

/* Natural logarithm within 2 ulp for every x: of 0 -inf, of less NaN. */
INLINE vfloat vlog_any(vfloat x)
{
    const vint small = x < 1.17549435e-38f; /* subnormal, 0 or negative */
    const vfloat y = vlog(vselect(small, x * 33554432.0f, x)) - vselect(small, vsplat(17.3286795f), vzero());
    return vselect(x > 0.0f, y, vselect(x == 0.0f, vsplat(-INFINITE), vsplat(__builtin_nanf(""))));
}

/* Hyperbolic tangent within 3 ulp for every x: e / (e + 2) with e = exp(2 |x|) - 1. */
INLINE vfloat vtanh(vfloat x)
{
    const vfloat one = vnumber(1.0f);
    const vint sign = (vint)x & vconstant(INT32_MIN);
    vfloat rounded, r;
    const vfloat q = exp_reduced(vclamp((vfloat)((vint)x ^ sign) * 2.0f, 0.0f, 20.0f), &rounded, &r);
    const vfloat scale = (vfloat)(((vuint)rounded - (vuint)vconstant(0x4b400000 - 127)) << 23); /* 2^n */
    const vfloat e = vfma(vfma(q, r * r, r), scale, scale - one);
    return (vfloat)((vint)(e / (e + 2.0f)) | sign);
}

/* sine and cosine of 2 pi x for 0 <= x <= 1. */
INLINE void vsincos_turns(vfloat x, vfloat *sine, vfloat *cosine)
{
    const vint quarter = vround_to_int(x * 4.0f);
    const vfloat r = x - vfrom_int(quarter) * 0.25f, z = r * r; /* exact; -1/8 .. 1/8 */
    vfloat s = vsplat(-75.4007746f), c = vsplat(59.2193911f);
    s = vfma(s, z, vsplat(81.5925283f));
    s = vfma(s, z, vsplat(-41.3416625f));
    s = vfma(s, z, vsplat(6.28318529f)) * r;
    c = vfma(c, z, vsplat(-85.4428243f));
    c = vfma(c, z, vsplat(64.9393160f));
    c = vfma(c, z, vsplat(-19.7392086f));
    c = vfma(c, z, vsplat(1.0f));
    const vint swap = -(quarter & 1);
    const vuint sine_sign = ((vuint)quarter & 2u) << 30, cosine_sign = ((vuint)(quarter + 1) & 2u) << 30;
    *sine = (vfloat)((vuint)vselect(swap, c, s) ^ sine_sign);
    *cosine = (vfloat)((vuint)vselect(swap, s, c) ^ cosine_sign);
}

/* exp(-x^2 / 2), and the share of the standard normal distribution below x (within 1e-6 of itself, 1e-5 far below 0):
 * exp(-z^2 / 2) times a polynomial in 1 / (1 + 0.3 z) for z = |x| (form of Hastings, 1955; our own fit). */
INLINE vfloat vnormal_below(vfloat x, vfloat *bell)
{
    const vfloat one = vnumber(1.0f), z = (vfloat)((vint)x & vconstant(0x7fffffff)),
                 t = one / vfma(z, vnumber(0.3f), one);
    vfloat p = vnumber(0.0356749296f);
    p = vfma(p, t, vnumber(-0.157203645f));
    p = vfma(p, t, vnumber(0.206354365f));
    p = vfma(p, t, vnumber(-0.0536843315f));
    p = vfma(p, t, vnumber(0.128561944f));
    p = vfma(p, t, vnumber(0.0999134108f));
    p = vfma(p, t, vnumber(0.120753966f));
    p = vfma(p, t, vnumber(0.119629301f));
    *bell = vexp_negative(x * x * vnumber(-0.5f)); /* without subnormals, each of which takes a hundred cycles */
    const vfloat beyond = p * t * *bell;
    return vselect(x < vzero(), beyond, one - beyond);
}

INLINE vfloat vgelu(vfloat x)
{
    vfloat bell;
    return x * vnormal_below(x, &bell);
}

INLINE vfloat vsigmoid(vfloat x) { return 1.0f / (1.0f + vexp(-x)); }
INLINE vfloat vsilu(vfloat x) { return x / (1.0f + vexp(-x)); }

INLINE float exp_scalar(float x) { return vexp(vsplat(x))[0]; }
INLINE float log_scalar(float x) { return vlog(vsplat(x))[0]; }
INLINE float sqrt_scalar(float x) { return vsqrt(vsplat(x))[0]; }

/* At most LANES elements: what is left at the end of a row. */
INLINE vfloat vload_up_to(const float *p, int64_t n) { return n >= LANES ? vload(p) : vload_part(p, n); }
INLINE void vstore_up_to(float *p, vfloat v, int64_t n)
{
    if (n >= LANES)
        vstore(p, v);
    else
        vstore_part(p, v, n);
}

/* As vload_part, with `rest` in the lanes that are not loaded. */
INLINE vfloat vload_part_or(const float *p, int64_t n, float rest)
{
    float part[LANES];
    vstore(part, vsplat(rest));
    for (int64_t i = 0; i < n; i++)
        part[i] = p[i];
    return vload(part);
}

/* Largest element of a row; -inf for an empty one. NaN may be passed over. */
INLINE float row_largest(const float *x, int64_t n)
{
    vfloat a = vsplat(-INFINITE), b = a;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a = vmax(a, vload(x + i));
        b = vmax(b, vload(x + i + LANES));
    }
    a = vmax(a, b);
    for (; i + LANES <= n; i += LANES)
        a = vmax(a, vload(x + i));
    if (i < n)
        a = vmax(a, vload_part_or(x + i, n - i, -INFINITE));
    return vlargest(a);
}

/* out = exp(x - largest), where out is given; returns the sum. */
INLINE float exp_row(float *out, const float *x, int64_t n, float largest)
{
    vfloat sums[2] = {vzero(), vzero()};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int j = 0; j < 2; j++) {
            const vfloat e = vexp_negative(vload(x + i + j * LANES) - largest);
            if (out)
                vstore(out + i + j * LANES, e);
            sums[j] += e;
        }
    for (; i < n; i += LANES) {
        const vfloat e =
            vexp_negative((n - i >= LANES ? vload(x + i) : vload_part_or(x + i, n - i, -INFINITE)) - largest);
        if (out)
            vstore_up_to(out + i, e, n - i);
        sums[0] += e;
    }
    return vsum(sums[0] + sums[1]);
}
#endif
