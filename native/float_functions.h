/* Functions of vectors of f32 beyond those of vmath.h, within 3 ulp. In wasm, where code is downloaded, vmath64.h serves
 * instead. Coefficients: our own minimax fits (Lawson 1961), rounded to f32.
 */
#ifndef PYAPP_FLOAT_FUNCTIONS_H
#define PYAPP_FLOAT_FUNCTIONS_H
#include "vmath.h"

/* A polynomial, lowest coefficient first. */
#define VHORNER(coefficients, z) vhorner(coefficients, (int)(sizeof(coefficients) / sizeof *(coefficients)), z)
INLINE vfloat vhorner(const float *coefficients, const int count, vfloat z)
{
    vfloat sum = vsplat(coefficients[count - 1]);
    for (int i = count - 2; i >= 0; i--)
        sum = vfma(sum, z, vsplat(coefficients[i]));
    return sum;
}

INLINE vfloat vwith_sign(vfloat size, vfloat sign)
{
    return (vfloat)(((vint)size & vsplat_int(INT32_MAX)) | ((vint)sign & vsplat_int(INT32_MIN)));
}

/* exp(x) - 1, from half of it: the power of two is in range wherever the result is. */
INLINE vfloat vexpm1(vfloat x)
{
    vfloat rounded, r;
    const vfloat q = exp_reduced(vclamp(x, -30.0f, 89.0f), &rounded, &r), less = vfma(q, r * r, r);
    const vfloat half = (vfloat)(((vuint)rounded - (vuint)vsplat_int(0x4b400000 - 126)) << 23);
    const vfloat value = vfma(less, half, half - 0.5f);
    return vwith_sign(value + value, x);
}

/* log(1 + x): what 1 + x loses is added to its logarithm. */
INLINE vfloat vlog1p(vfloat x)
{
    const vfloat u = 1.0f + x, value = vlog(u) + (x - (u - 1.0f)) / u;
    const vfloat inside = vselect((x < INFINITE) & (x != 0.0f), value, x);
    return vselect(x > -1.0f, inside, vselect(x == -1.0f, vsplat(-INFINITE), vsplat(__builtin_nanf(""))));
}

INLINE vfloat vexp2(vfloat x)
{
    const vfloat held = vclamp(x, -151.0f, 129.0f), magic = vsplat(12582912.0f), rounded = held + magic;
    const vfloat r = (held - (rounded - magic)) * 0.693147181f;
    static const float terms[] = {0.499999934f, 0.166665201f, 0.0416683942f, 0.00836878041f, 0.00138144669f};
    const vfloat mantissa = vfma(VHORNER(terms, r), r * r, r) + 1.0f;
    const vuint bias = (vuint)vsplat_int(127), n = (vuint)rounded - (vuint)vsplat_int(0x4b400000);
    const vuint half = (vuint)((vint)n >> 1); /* in two steps, as vexp */
    return mantissa * (vfloat)((half + bias) << 23) * (vfloat)((n - half + bias) << 23);
}

INLINE vfloat velu(vfloat x, float alpha)
{
    return vselect(x > 0.0f, x, vexpm1(vselect(x > 0.0f, vzero(), x)) * alpha);
}

/* x tanh(log(1 + e)) with e = exp(x) is x (e^2 + 2 e) / (e^2 + 2 e + 2) */
INLINE vfloat vmish(vfloat x)
{
    const vfloat e = vexp(vclamp(x, -104.0f, 20.0f)), n = e * (e + 2.0f);
    return x * (n / (n + 2.0f));
}

/* A polynomial near 0; beyond, 1 - exp of one. */
INLINE vfloat verf(vfloat x)
{
    static const float near[] = {0.12837916612625122f,  -0.37612631916999817f, 0.1128367930650711f,
                                 -0.02685849741101265f, 0.005198829807341099f, -0.0008118075202219188f,
                                 8.2674618170131e-05f};
    static const float far[] = {-0.12856106460094452f,   -0.6355825066566467f,   -0.1053449884057045f,
                                0.022760184481739998f,   -0.002982927020639181f, 6.855713581899181e-05f,
                                4.1880819480866194e-05f, -4.636155154003063e-06f};
    const vfloat size = vabs(x), t = vclamp(size, 0.0f, 4.0f);
    const vfloat beyond = 1.0f - vexp_negative(vfma(VHORNER(far, t), t, -t));
    const vfloat within = vfma(VHORNER(near, x * x), x, x);
    return vselect(size > 0.9375f, vwith_sign(beyond, x), within);
}

/* x times a polynomial in w = -log(1 - x^2), or in its root: form of Giles (2012). */
INLINE vfloat verfinv(vfloat x)
{
    static const float centre[] = {0.8862268924713135f,     0.23201382160186768f,     0.011548654176294804f,
                                   -0.0023342962376773357f, -0.00012748157314490527f, 4.456517126527615e-05f,
                                   3.983253918704577e-06f,  -1.9764645458053565e-06f, 2.2103085939306766e-07f,
                                   -8.791033678789972e-09f};
    static const float tail[] = {2.832976818084717f,      1.0016748905181885f,     0.0094450069591403f,
                                 -0.0076363906264305115f, 0.005689408164471388f,   -0.003601641394197941f,
                                 0.0014786472311243415f,  -4.867439201916568e-05f, -0.00030436087399721146f,
                                 0.00011009830632247031f};
    const vint inside = vabs(x) < 1.0f;
    const vfloat y = vselect(inside, x, vzero()), w = -vlog((1.0f - y) * (1.0f + y));
    const vfloat value = vselect(w < 5.0f, VHORNER(centre, w), VHORNER(tail, vsqrt(w) - 3.0f)) * y;
    const vfloat edge = vselect(vabs(x) == 1.0f, x * INFINITE, vsplat(__builtin_nanf("")));
    return vselect(inside, value, edge);
}

/* Towards 0: above 2^23 every float is whole. */
INLINE vfloat vtrunc(vfloat x)
{
    const vfloat size = vabs(x), cut = vfrom_int(vcut_to_int(vmin(size, vsplat(8388608.0f))));
    return vselect(size < 8388608.0f, vwith_sign(cut, x), x);
}

/* Halves to even. */
INLINE vfloat vround(vfloat x)
{
    const vfloat size = vabs(x), near = (size + 8388608.0f) - 8388608.0f;
    return vselect(size < 8388608.0f, vwith_sign(near, x), x);
}

INLINE vfloat vfloor(vfloat x)
{
    const vfloat cut = vtrunc(x);
    return vselect(cut > x, cut - 1.0f, cut);
}
#endif
