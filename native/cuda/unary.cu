/* Functions of one element, by opcode. Types: kernels.h. Floats of 16 and 32 bits are computed in float32 where CUDA's
 * function is exact enough, else in float64; integers with 64 bits. */
#include "vectors.h"

CONSTANT uint32_t unary_types[] = UNARY_TYPES, unary_results[] = UNARY_RESULTS;

/* ---- float32 */

DEVICE float softplus_float(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
/* The largest of x and low, and of these the smallest with high, which counts where low is above it; NaN stays. */
DEVICE float between(float x, float low, float high)
{
    const float raised = x < low ? low : x;
    return raised > high ? high : raised;
}

/* x / 2 erfc(-x / sqrt(2)). Far below 0 the rounding of the argument would cost digits: its rest times the slope is
 * subtracted. */
DEVICE float gelu_float(float x)
{
    const float t = -x * 0.707106769f;
    float part = erfcf(t);
    if (fabsf(t) < 12)
        part -= 1.12837917f * expf(-t * t) * (fmaf(-x, 0.707106769f, -t) - x * 1.21016175e-8f);
    return 0.5f * x * part;
}

/* Whether `floats` has the operation. */
DEVICE bool has_float(int64_t opcode)
{
    switch (opcode) {
    case UNARY_erfinv:
    case UNARY_lgamma:
    case UNARY_digamma:
    case UNARY_trigamma:
    case UNARY_i0:
    case UNARY_sinc:
    case UNARY_acosh: /* cancellation near 1 */
    case UNARY_atanh:
    case UNARY_asinh:
    case UNARY_mish:
    case UNARY_tan:
    case UNARY_erfc:
        return false;
    }
    return true;
}

DEVICE float floats(int64_t opcode, float x, float p, float q)
{
    switch (opcode) {
    case UNARY_neg:
        return -x;
    case UNARY_abs:
        return fabsf(x);
    case UNARY_sign:
        return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f;
    case UNARY_square:
        return x * x;
    case UNARY_relu:
        return x > 0 || x != x ? x : 0.0f;
    case UNARY_sqrt:
        return sqrtf(x);
    case UNARY_rsqrt:
        return 1.0f / sqrtf(x);
    case UNARY_reciprocal:
        return 1.0f / x;
    case UNARY_exp:
        return expf(x);
    case UNARY_exp2:
        return exp2f(x);
    case UNARY_expm1:
        return expm1f(x);
    case UNARY_log:
        return logf(x);
    case UNARY_log2:
        return log2f(x);
    case UNARY_log10:
        return log10f(x);
    case UNARY_log1p:
        return log1pf(x);
    case UNARY_sin:
        return sinf(x);
    case UNARY_cos:
        return cosf(x);
    case UNARY_asin:
        return asinf(x);
    case UNARY_acos:
        return acosf(x);
    case UNARY_atan:
        return atanf(x);
    case UNARY_sinh:
        return sinhf(x);
    case UNARY_cosh:
        return coshf(x);
    case UNARY_tanh:
        return tanhf(x);
    case UNARY_sigmoid:
        return 1.0f / (1.0f + expf(-x));
    case UNARY_logsigmoid:
        return -softplus_float(-x);
    case UNARY_silu:
        return x / (1.0f + expf(-x));
    case UNARY_gelu:
        return gelu_float(x);
    case UNARY_gelu_tanh: /* 0.5 (1 + tanh(y)) is a sigmoid of 2 y */
        return x / (1.0f + expf(-x * (1.59576912161f + 0.0713548162726f * x * x)));
    case UNARY_leaky_relu:
        return x > 0 ? x : x * p;
    case UNARY_elu:
        return x > 0 ? x : expm1f(x) * p;
    case UNARY_softplus:
        return x * p > q ? x : softplus_float(x * p) / p;
    case UNARY_clamp:
        return between(x, p, q);
    case UNARY_hardsigmoid:
        return between(x + 3.0f, 0.0f, 6.0f) / 6.0f;
    case UNARY_hardswish:
        return x * between(x + 3.0f, 0.0f, 6.0f) / 6.0f;
    case UNARY_erf:
        return erff(x);
    case UNARY_floor:
        return floorf(x);
    case UNARY_ceil:
        return ceilf(x);
    case UNARY_round:
        return rintf(x);
    case UNARY_trunc:
        return truncf(x);
    case UNARY_frac:
        return x - truncf(x);
    }
    return NOT_A_NUMBER;
}

/* ---- float64 */

DEVICE double softplus_double(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
DEVICE double within(double x, double low, double high)
{
    const double raised = x < low ? low : x;
    return raised > high ? high : raised;
}

/* Abramowitz and Stegun 6.3 and 6.4: the asymptotic series from 12 on, recurrence below, reflection left of 0. */
#define PI 3.14159265358979323846
DEVICE double digamma_double(double x)
{
    double sum = 0;
    if (x == 0)
        return copysign(INFINITY, -x);
    if (x < 0) {
        const double rest = x - trunc(x);
        if (rest == 0)
            return NAN;
        sum = -PI / tan(PI * rest);
        x = 1 - x;
    }
    for (; x < 12; x += 1)
        sum -= 1 / x;
    const double y = 1 / (x * x);
    const double series =
        y *
        (1.0 / 12 -
         y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y * (1.0 / 12)))))));
    return sum + log(x) - 0.5 / x - series;
}

DEVICE double trigamma_double(double x)
{
    double sum = 0, sign = 1;
    if (x < 0.5) {
        const double sine = sin(PI * (x - floor(x)));
        sum = PI * PI / (sine * sine);
        sign = -1;
        x = 1 - x;
    }
    double own = 0;
    for (; x < 12; x += 1)
        own += 1 / (x * x);
    const double y = 1 / (x * x);
    own +=
        (1 + 0.5 / x +
         y * (1.0 / 6 -
              y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * (5.0 / 66 - y * (691.0 / 2730 - y * (7.0 / 6)))))))) /
        x;
    return sum + sign * own;
}

/* The power series; for large arguments the asymptotic one (Abramowitz and Stegun 9.6.10, 9.7.1). */
DEVICE double i0_double(double x)
{
    x = fabs(x);
    if (x < 25) {
        double term = 1, sum = 1;
        for (int k = 1; k < 80; k++) {
            term *= x * x / (4.0 * k * k);
            sum += term;
        }
        return sum;
    }
    double term = 1, sum = 1;
    for (int k = 1; k < 24; k++) {
        term *= (2.0 * k - 1) * (2.0 * k - 1) / (8.0 * k * x);
        sum += term;
    }
    const double half = exp(x / 2); /* exp(x) overflows earlier than the result */
    return x > 720 ? half * (sum / sqrt(2 * PI * x)) * half : exp(x) * sum / sqrt(2 * PI * x);
}

/* A rational first guess (Giles, Approximating the erfinv function, 2012), then Newton's and Halley's steps. */
DEVICE double erfinv_double(double x)
{
    if (!(fabs(x) < 1))
        return fabs(x) == 1 ? copysign(INFINITY, x) : NAN;
    double w = -log((1 - x) * (1 + x)), y;
    if (w < 5) {
        w -= 2.5;
        y = 2.81022636e-08;
        y = 3.43273939e-07 + y * w;
        y = -3.5233877e-06 + y * w;
        y = -4.39150654e-06 + y * w;
        y = 0.00021858087 + y * w;
        y = -0.00125372503 + y * w;
        y = -0.00417768164 + y * w;
        y = 0.246640727 + y * w;
        y = 1.50140941 + y * w;
    } else {
        w = sqrt(w) - 3;
        y = -0.000200214257;
        y = 0.000100950558 + y * w;
        y = 0.00134934322 + y * w;
        y = -0.00367342844 + y * w;
        y = 0.00573950773 + y * w;
        y = -0.0076224613 + y * w;
        y = 0.00943887047 + y * w;
        y = 1.00167406 + y * w;
        y = 2.83297682 + y * w;
    }
    y *= x;
    for (int step = 0; step < 2; step++) {
        const double error = fabs(x) < 0.5 ? erf(y) - x : copysign(1.0, x) * ((1 - fabs(x)) - erfc(fabs(y)));
        const double move = error / (1.1283791670955126 * exp(-y * y));
        y -= move / (1 + y * move);
    }
    return y;
}

DEVICE double doubles(int64_t opcode, double x, double p, double q)
{
    switch (opcode) {
    case UNARY_neg:
        return -x;
    case UNARY_abs:
        return fabs(x);
    case UNARY_sign:
        return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0;
    case UNARY_square:
        return x * x;
    case UNARY_relu:
        return x > 0 || x != x ? x : 0.0;
    case UNARY_sqrt:
        return sqrt(x);
    case UNARY_rsqrt:
        return 1.0 / sqrt(x);
    case UNARY_reciprocal:
        return 1.0 / x;
    case UNARY_exp:
        return exp(x);
    case UNARY_exp2:
        return exp2(x);
    case UNARY_expm1:
        return expm1(x);
    case UNARY_log:
        return log(x);
    case UNARY_log2:
        return log2(x);
    case UNARY_log10:
        return log10(x);
    case UNARY_log1p:
        return log1p(x);
    case UNARY_sin:
        return sin(x);
    case UNARY_cos:
        return cos(x);
    case UNARY_tan:
        return tan(x);
    case UNARY_asin:
        return asin(x);
    case UNARY_acos:
        return acos(x);
    case UNARY_atan:
        return atan(x);
    case UNARY_sinh:
        return sinh(x);
    case UNARY_cosh:
        return cosh(x);
    case UNARY_tanh:
        return tanh(x);
    case UNARY_asinh:
        return asinh(x);
    case UNARY_acosh:
        return acosh(x);
    case UNARY_atanh:
        return atanh(x);
    case UNARY_sinc:
        return x == 0 ? 1.0 : sin(PI * x) / (PI * x);
    case UNARY_sigmoid:
        return 1.0 / (1.0 + exp(-x));
    case UNARY_logsigmoid:
        return -softplus_double(-x);
    case UNARY_silu:
        return x / (1.0 + exp(-x));
    case UNARY_gelu:
        return x * (0.5 * erfc(x * -0.7071067811865476));
    case UNARY_gelu_tanh:
        return x / (1.0 + exp(-x * (1.5957691216057308 + 0.07135481627159798 * x * x)));
    case UNARY_leaky_relu:
        return x > 0 ? x : x * p;
    case UNARY_elu:
        return x > 0 ? x : expm1(x) * p;
    case UNARY_softplus:
        return x * p > q ? x : softplus_double(x * p) / p;
    case UNARY_mish:
        return x * tanh(softplus_double(x));
    case UNARY_clamp:
        return within(x, p, q);
    case UNARY_hardsigmoid:
        return within(x + 3.0, 0.0, 6.0) / 6.0;
    case UNARY_hardswish:
        return x * within(x + 3.0, 0.0, 6.0) / 6.0;
    case UNARY_erf:
        return erf(x);
    case UNARY_erfc:
        return erfc(x);
    case UNARY_erfinv:
        return erfinv_double(x);
    case UNARY_lgamma:
        return lgamma(x);
    case UNARY_digamma:
        return digamma_double(x);
    case UNARY_trigamma:
        return trigamma_double(x);
    case UNARY_i0:
        return i0_double(x);
    case UNARY_floor:
        return floor(x);
    case UNARY_ceil:
        return ceil(x);
    case UNARY_round:
        return rint(x);
    case UNARY_trunc:
        return trunc(x);
    case UNARY_frac:
        return x - trunc(x);
    }
    return NAN;
}

/* ---- integers and bool; predicates */

DEVICE int64_t integers(int64_t opcode, int64_t value, bool is_bool)
{
    const uint64_t x = (uint64_t)value;
    switch (opcode) {
    case UNARY_neg:
        return (int64_t)(0 - x);
    case UNARY_abs:
        return (int64_t)(value < 0 ? 0 - x : x);
    case UNARY_sign:
        return (value > 0) - (value < 0);
    case UNARY_square:
        return (int64_t)(x * x);
    case UNARY_relu:
        return value > 0 ? value : 0;
    default: /* bitwise_not */
        return is_bool ? !value : ~value;
    }
}

DEVICE bool question(int64_t opcode, double x)
{
    switch (opcode) {
    case UNARY_isnan:
        return x != x;
    case UNARY_isinf:
        return x == INFINITY || x == -INFINITY;
    case UNARY_isfinite:
        return x - x == 0;
    case UNARY_isposinf:
        return x == INFINITY;
    case UNARY_isneginf:
        return x == -INFINITY;
    case UNARY_signbit:
        return __double_as_longlong(x) < 0;
    default: /* logical_not */
        return x == 0;
    }
}

/* ---- kernels */

/* The operations that are taken by vectors. Each has a loop of its own: the rest would only make the code large. */
#define EACH(name)                                                                                                     \
    case UNARY_##name:                                                                                                 \
        _Pragma("unroll") for (int k = 0; k < COUNT; k++) x[k] = floats(UNARY_##name, x[k], p, q);                     \
        return true;
#define EACH_SHORT(name, expression)                                                                                   \
    case UNARY_##name:                                                                                                 \
        _Pragma("unroll") for (int k = 0; k < COUNT; k++)                                                              \
        {                                                                                                              \
            const float z = x[k];                                                                                      \
            x[k] = expression;                                                                                         \
        }                                                                                                              \
        return true;
template <int COUNT, int BYTES> DEVICE bool vector_floats(int64_t opcode, float *x, float p, float q)
{
    if (BYTES == 2) /* of 16 bits */
        switch (opcode) {
            EACH_SHORT(exp, short_exp(z))
            EACH_SHORT(sigmoid, short_quotient(1.0f, 1.0f + short_exp(-z)))
            EACH_SHORT(silu, short_quotient(z, 1.0f + short_exp(-z)))
            EACH_SHORT(gelu_tanh, short_quotient(z, 1.0f + short_exp(-z * (1.59576912161f + 0.0713548162726f * z * z))))
        }
    switch (opcode) {
        EACH(neg)
        EACH(abs)
        EACH(square)
        EACH(relu)
        EACH(sqrt)
        EACH(rsqrt)
        EACH(reciprocal)
        EACH(exp)
        EACH(log)
        EACH(tanh)
        EACH(sigmoid)
        EACH(silu)
        EACH(gelu)
        EACH(gelu_tanh)
        EACH(leaky_relu)
        EACH(clamp)
    }
    return false;
}

/* Dense vectors; returns how many elements they have. */
template <int BYTES>
DEVICE int64_t unary_vectors(int64_t opcode, int type, int64_t count, void *y, const void *x, float p, float q)
{
    constexpr int width = VECTOR / BYTES;
    float probe[1] = {1};
    const bool fits = is_aligned(y) && is_aligned(x) && vector_floats<1, BYTES>(opcode, probe, p, q);
    const int64_t vectors = fits ? count / width : 0;
    uint4 in[UNDER_WAY];
    for_vectors(
        vectors, [&](int u, int64_t i) { in[u] = ((const uint4 *)x)[i]; },
        [&](int u, int64_t i) {
            float values[width];
            floats_of<BYTES>(values, in[u], type);
            vector_floats<width, BYTES>(opcode, values, p, q);
            ((uint4 *)y)[i] = vector_of<BYTES>(values, type);
        });
    return vectors * width;
}

/* Element `to` of y from element `from` of x. */
DEVICE void one(void *y, int64_t to, const void *x, int64_t from, int64_t opcode, int type, double p, double q)
{
    if (unary_results[opcode])
        ((uint8_t *)y)[to] = question(opcode, load_double(x, from, type));
    else if (type_in(type, TYPES_HALF | BIT(TYPE_float32)) && has_float(opcode))
        store_float(y, to, type, floats(opcode, load_float(x, from, type), (float)p, (float)q));
    else if (type_in(type, TYPES_FLOAT))
        store_double(y, to, type, doubles(opcode, load_double(x, from, type), p, q));
    else
        store_integer(y, to, type, integers(opcode, load_integer(x, from, type), type == TYPE_bool));
}

DEVICE bool is_unary(int64_t opcode, int64_t type)
{
    return opcode >= 0 && opcode < UNARY_COUNT && type_in(type, unary_types[opcode]);
}

KERNEL(unary, VECTOR_BLOCKS(count), 256, 0)
{
    const int64_t *d = record.dims, opcode = d[unary_opcode], count = d[unary_count];
    void *y = record.pointers[unary_y];
    const void *x = record.pointers[unary_x];
    if (!is_unary(opcode, d[unary_type])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const double p = real_of(d[unary_first]), q = real_of(d[unary_second]);
    const int type = (int)d[unary_type];
    int64_t done = 0;
    if (type == TYPE_float32)
        done = unary_vectors<4>(opcode, type, count, y, x, (float)p, (float)q);
    else if (type_in(type, TYPES_HALF))
        done = unary_vectors<2>(opcode, type, count, y, x, (float)p, (float)q);
    FOR_EACH(rest, count - done) one(y, done + rest, x, done + rest, opcode, type, p, q);
}

KERNEL(unary_strided, PARTS(PRODUCT(rank, shape0), 256), 256, 0)
{
    __shared__ views<1> of;
    const int64_t *d = record.dims, *shape = d + unary_strided_shape0, rank = d[unary_strided_rank];
    const int64_t *strides[1] = {d + unary_strided_x0};
    if (!is_unary(d[unary_strided_opcode], d[unary_strided_type]) || view_count(rank, 6, shape) < 0) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const double p = real_of(d[unary_strided_first]), q = real_of(d[unary_strided_second]);
    gather_dims(of, rank, shape, strides);
    FOR_EACH(i, of.count)
    {
        int64_t at;
        find(&at, i, of);
        one(record.pointers[unary_strided_y], i, record.pointers[unary_strided_x], at, d[unary_strided_opcode],
            (int)d[unary_strided_type], p, q);
    }
}

/* The most frequent ones on dense float32, with a short record. */
DEVICE void short_record(const launch &record, int64_t opcode)
{
    float *y = (float *)record.pointers[exp_f32_y];
    const float *x = (const float *)record.pointers[exp_f32_x];
    const int64_t count = record.dims[exp_f32_count];
    const int64_t done = unary_vectors<4>(opcode, TYPE_float32, count, y, x, 0, 0);
    FOR_EACH(rest, count - done) y[done + rest] = floats(opcode, x[done + rest], 0, 0);
}

KERNEL(exp_f32, VECTOR_BLOCKS(count), 256, 0) { short_record(record, UNARY_exp); }
KERNEL(log_f32, VECTOR_BLOCKS(count), 256, 0) { short_record(record, UNARY_log); }
KERNEL(sqrt_f32, VECTOR_BLOCKS(count), 256, 0) { short_record(record, UNARY_sqrt); }
KERNEL(abs_f32, VECTOR_BLOCKS(count), 256, 0) { short_record(record, UNARY_abs); }
KERNEL(sigmoid_f32, VECTOR_BLOCKS(count), 256, 0) { short_record(record, UNARY_sigmoid); }
KERNEL(tanh_f32, VECTOR_BLOCKS(count), 256, 0) { short_record(record, UNARY_tanh); }
KERNEL(silu_f32, VECTOR_BLOCKS(count), 256, 0) { short_record(record, UNARY_silu); }
KERNEL(gelu_f32, VECTOR_BLOCKS(count), 256, 0) { short_record(record, UNARY_gelu); }
