/* Functions of one element, by opcode. Types: kernels.h. Floats of 16 and 32 bits go through vectors of f32 where
 * vmath.h has the function, else through doubles; integers are computed with 64 bits. */
#include "elements.h"
#include "vmath.h"
#include "vmath64.h"
#if !defined(__wasm__)
#include "float_functions.h"
#endif

#define NOINLINE static __attribute__((noinline))

/* ---- f32: n floats from x to y, which may be x; n is a multiple of LANES */

typedef void float_function(float *y, const float *x, int64_t n, float p, float q);
#define FLOAT_FUNCTION(name, expression)                                                                               \
    NOINLINE void name##_floats(float *y, const float *in, int64_t n, float p, float q)                                \
    {                                                                                                                  \
        (void)p, (void)q;                                                                                              \
        for (int64_t i = 0; i < n; i += LANES) {                                                                       \
            const vfloat x = vload(in + i);                                                                            \
            vstore(y + i, expression);                                                                                 \
        }                                                                                                              \
    }

/* Any n. */
static void run_floats(float_function *function, float *y, const float *x, int64_t n, float p, float q)
{
    const int64_t whole = n / LANES * LANES;
    function(y, x, whole, p, q);
    if (whole < n) {
        float part[LANES] = {0};
        memcpy(part, x + whole, (size_t)(n - whole) * sizeof *x);
        function(part, part, LANES, p, q);
        memcpy(y + whole, part, (size_t)(n - whole) * sizeof *y);
    }
}

INLINE vfloat vsplit_sign(vfloat x) { return (vfloat)((vint)x & vconstant(INT32_MIN)); }
INLINE vfloat vnegative(vfloat x) { return (vfloat)((vint)x ^ vconstant(INT32_MIN)); }
INLINE vfloat vsign(vfloat x)
{
    const vfloat one = (vfloat)((vint)vsplat(1.0f) | (vint)vsplit_sign(x));
    return vselect((x > 0.0f) | (x < 0.0f), one, vzero()); /* 0 for NaN, as in torch */
}
/* NaN is kept; elements at a limit become the limit */
INLINE vfloat vbetween(vfloat x, float low, float high)
{
    const vfloat raised = vselect(x < low, vsplat(low), x);
    return vselect(raised > high, vsplat(high), raised);
}
INLINE vfloat vgelu_tanh(vfloat x)
{
    return x * vsigmoid(x * vfma(x * x, vsplat(0.0713548162726f), vsplat(1.59576912161f)));
}

FLOAT_FUNCTION(neg, vnegative(x))
FLOAT_FUNCTION(abs, vabs(x))
FLOAT_FUNCTION(sign, vsign(x))
FLOAT_FUNCTION(square, x *x)
FLOAT_FUNCTION(sqrt, vsqrt(x))
FLOAT_FUNCTION(rsqrt, 1.0f / vsqrt(x))
FLOAT_FUNCTION(reciprocal, 1.0f / x)
FLOAT_FUNCTION(exp, vexp(x))
FLOAT_FUNCTION(log, vlog_any(x))
FLOAT_FUNCTION(sigmoid, vsigmoid(x))
FLOAT_FUNCTION(tanh, vtanh(x))
FLOAT_FUNCTION(silu, vsilu(x))
FLOAT_FUNCTION(gelu, vgelu(x))
FLOAT_FUNCTION(gelu_tanh, vgelu_tanh(x))
FLOAT_FUNCTION(relu, vselect((x > 0.0f) | (x != x), x, vzero()))
FLOAT_FUNCTION(leaky_relu, vselect(x > 0.0f, x, x *p))
FLOAT_FUNCTION(clamp, vbetween(x, p, q))
FLOAT_FUNCTION(hardsigmoid, vbetween(x + 3.0f, 0.0f, 6.0f) / 6.0f)
FLOAT_FUNCTION(hardswish, x *vbetween(x + 3.0f, 0.0f, 6.0f) / 6.0f)

#if !defined(__wasm__) /* there in doubles: code is downloaded */
FLOAT_FUNCTION(exp2, vexp2(x))
FLOAT_FUNCTION(expm1, vexpm1(x))
FLOAT_FUNCTION(log1p, vlog1p(x))
FLOAT_FUNCTION(erf, verf(x))
FLOAT_FUNCTION(erfinv, verfinv(x))
FLOAT_FUNCTION(elu, velu(x, p))
FLOAT_FUNCTION(mish, vmish(x))
FLOAT_FUNCTION(floor, vfloor(x))
FLOAT_FUNCTION(ceil, vnegative(vfloor(vnegative(x))))
FLOAT_FUNCTION(round, vround(x))
FLOAT_FUNCTION(trunc, vtrunc(x))
FLOAT_FUNCTION(frac, x - vtrunc(x))
#endif

/* log(1 + exp(p x)) / p, but x where p x > q: max(p x, 0) + log(1 + e) with e = exp(-|p x|), and what 1 + e loses */
NOINLINE void softplus_floats(float *y, const float *in, int64_t n, float p, float q)
{
    for (int64_t at = 0; at < n; at += PART, in += PART, y += PART) {
        const int64_t some = n - at < PART ? n - at : PART;
        float exps[PART], logs[PART];
        for (int64_t i = 0; i < some; i += LANES)
            vstore(exps + i, vnegative(vabs(vload(in + i) * p)));
        exp_floats(exps, exps, some, 0, 0);
        for (int64_t i = 0; i < some; i += LANES)
            vstore(logs + i, vload(exps + i) + 1.0f);
        log_floats(logs, logs, some, 0, 0);
        for (int64_t i = 0; i < some; i += LANES) {
            const vfloat x = vload(in + i), scaled = x * p, e = vload(exps + i), u = e + 1.0f;
            const vfloat value = vselect(scaled > 0.0f, scaled, vzero()) + (vload(logs + i) + (e - (u - 1.0f)) / u);
            vstore(y + i, vselect(scaled > q, x, value / p));
        }
    }
}
NOINLINE void logsigmoid_floats(float *y, const float *x, int64_t n, float p, float q)
{
    (void)p, (void)q;
    softplus_floats(y, x, n, -1, INFINITE);
}

#define FLOATS(name) [UNARY_##name] = name##_floats
static float_function *const float_functions[UNARY_COUNT] = {
    FLOATS(neg),        FLOATS(abs),       FLOATS(sign),       FLOATS(square),  FLOATS(sqrt),        FLOATS(rsqrt),
    FLOATS(reciprocal), FLOATS(exp),       FLOATS(log),        FLOATS(sigmoid), FLOATS(tanh),        FLOATS(silu),
    FLOATS(gelu),       FLOATS(gelu_tanh), FLOATS(relu),       FLOATS(clamp),   FLOATS(hardsigmoid), FLOATS(hardswish),
    FLOATS(leaky_relu), FLOATS(softplus),  FLOATS(logsigmoid),
#if !defined(__wasm__)
    FLOATS(exp2),       FLOATS(expm1),     FLOATS(log1p),      FLOATS(erf),     FLOATS(erfinv),      FLOATS(elu),
    FLOATS(mish),       FLOATS(floor),     FLOATS(ceil),       FLOATS(round),   FLOATS(trunc),       FLOATS(frac),
#endif
};

/* ---- doubles: PART of them in place, also those beyond the last */

typedef void double_function(double *x, int64_t n, double p, double q);
#define DOUBLE_FUNCTION(name, expression)                                                                              \
    NOINLINE void name##_doubles(double *part, int64_t n, double p, double q)                                          \
    {                                                                                                                  \
        (void)p, (void)q;                                                                                              \
        ROLLED for (int64_t i = 0; i < n; i += DLANES)                                                                 \
        {                                                                                                              \
            const vdouble x = dload(part + i);                                                                         \
            dstore(part + i, expression);                                                                              \
        }                                                                                                              \
    }

INLINE vdouble dnegative(vdouble x) { return (vdouble)((vlong)x ^ INT64_MIN); }
INLINE vdouble dsign(vdouble x) { return dselect((x > 0.0) | (x < 0.0), dcopysign(dsplat(1.0), x), dsplat(0.0)); }
INLINE vdouble dgelu_tanh(vdouble x) { return x * dsigmoid(x * (1.5957691216057308 + 0.07135481627159798 * x * x)); }
INLINE vdouble delu(vdouble x, double alpha)
{
    return dselect(x > 0.0, x, dexpm1(dselect(x > 0.0, dsplat(0.0), x)) * alpha);
}
INLINE vdouble dscaled_softplus(vdouble x, double beta, double threshold)
{
    const vdouble scaled = x * beta;
    return dselect(scaled > threshold, x, dsoftplus(scaled) / beta);
}
INLINE vdouble dmish(vdouble x) { return x * dtanh(dsoftplus(x)); }
/* sin(pi x) / (pi x) */
INLINE vdouble dsinc(vdouble x)
{
    const vdouble angle = x * D_PI;
    return dselect(x == 0.0, dsplat(1.0), dsin(angle) / angle);
}

DOUBLE_FUNCTION(neg, dnegative(x))
DOUBLE_FUNCTION(abs, dabs(x))
DOUBLE_FUNCTION(sign, dsign(x))
DOUBLE_FUNCTION(square, x *x)
DOUBLE_FUNCTION(sqrt, dsqrt(x))
DOUBLE_FUNCTION(rsqrt, 1.0 / dsqrt(x))
DOUBLE_FUNCTION(reciprocal, 1.0 / x)
DOUBLE_FUNCTION(exp, dexp(x))
DOUBLE_FUNCTION(exp2, dexp2(x))
DOUBLE_FUNCTION(expm1, dexpm1(x))
DOUBLE_FUNCTION(log, dlog(x))
DOUBLE_FUNCTION(log2, dlog2(x))
DOUBLE_FUNCTION(log10, dlog10(x))
DOUBLE_FUNCTION(log1p, dlog1p(x))
DOUBLE_FUNCTION(sin, dsin(x))
DOUBLE_FUNCTION(cos, dcos(x))
DOUBLE_FUNCTION(tan, dtan(x))
DOUBLE_FUNCTION(asin, dasin(x))
DOUBLE_FUNCTION(acos, dacos(x))
DOUBLE_FUNCTION(atan, datan(x))
DOUBLE_FUNCTION(sinh, dsinh(x))
DOUBLE_FUNCTION(cosh, dcosh(x))
DOUBLE_FUNCTION(tanh, dtanh(x))
DOUBLE_FUNCTION(asinh, dasinh(x))
DOUBLE_FUNCTION(acosh, dacosh(x))
DOUBLE_FUNCTION(atanh, datanh(x))
DOUBLE_FUNCTION(sinc, dsinc(x))
DOUBLE_FUNCTION(sigmoid, dsigmoid(x))
DOUBLE_FUNCTION(logsigmoid, -dsoftplus(dnegative(x)))
DOUBLE_FUNCTION(silu, x / (1.0 + dexp(-x)))
DOUBLE_FUNCTION(gelu, x * (0.5 * derfc(x * -0.7071067811865476)))
DOUBLE_FUNCTION(gelu_tanh, dgelu_tanh(x))
DOUBLE_FUNCTION(relu, dselect((x > 0.0) | (x != x), x, dsplat(0.0)))
DOUBLE_FUNCTION(leaky_relu, dselect(x > 0.0, x, x *p))
DOUBLE_FUNCTION(clamp, dclamp(x, p, q))
DOUBLE_FUNCTION(elu, delu(x, p))
DOUBLE_FUNCTION(softplus, dscaled_softplus(x, p, q))
DOUBLE_FUNCTION(mish, dmish(x))
DOUBLE_FUNCTION(hardsigmoid, dclamp(x + 3.0, 0.0, 6.0) / 6.0)
DOUBLE_FUNCTION(hardswish, x *dclamp(x + 3.0, 0.0, 6.0) / 6.0)
DOUBLE_FUNCTION(erf, derf(x))
DOUBLE_FUNCTION(erfc, derfc(x))
DOUBLE_FUNCTION(erfinv, derfinv(x))
DOUBLE_FUNCTION(lgamma, dlgamma(x))
DOUBLE_FUNCTION(digamma, ddigamma(x))
DOUBLE_FUNCTION(trigamma, dtrigamma(x))
DOUBLE_FUNCTION(i0, di0(x))
DOUBLE_FUNCTION(floor, dfloor(x))
DOUBLE_FUNCTION(ceil, dceil(x))
DOUBLE_FUNCTION(round, dround(x))
DOUBLE_FUNCTION(trunc, dtrunc(x))
DOUBLE_FUNCTION(frac, x - dtrunc(x))

#define DOUBLES(name) [UNARY_##name] = name##_doubles
static double_function *const double_functions[UNARY_COUNT] = {
    DOUBLES(neg),         DOUBLES(abs),        DOUBLES(sign),    DOUBLES(square),     DOUBLES(sqrt),
    DOUBLES(rsqrt),       DOUBLES(reciprocal), DOUBLES(exp),     DOUBLES(exp2),       DOUBLES(expm1),
    DOUBLES(log),         DOUBLES(log2),       DOUBLES(log10),   DOUBLES(log1p),      DOUBLES(sin),
    DOUBLES(cos),         DOUBLES(tan),        DOUBLES(asin),    DOUBLES(acos),       DOUBLES(atan),
    DOUBLES(sinh),        DOUBLES(cosh),       DOUBLES(tanh),    DOUBLES(asinh),      DOUBLES(acosh),
    DOUBLES(atanh),       DOUBLES(sinc),       DOUBLES(sigmoid), DOUBLES(silu),       DOUBLES(gelu),
    DOUBLES(gelu_tanh),   DOUBLES(relu),       DOUBLES(clamp),   DOUBLES(elu),        DOUBLES(mish),
    DOUBLES(softplus),    DOUBLES(erf),        DOUBLES(erfc),    DOUBLES(erfinv),     DOUBLES(lgamma),
    DOUBLES(digamma),     DOUBLES(trigamma),   DOUBLES(i0),      DOUBLES(floor),      DOUBLES(ceil),
    DOUBLES(round),       DOUBLES(trunc),      DOUBLES(frac),    DOUBLES(logsigmoid), DOUBLES(hardswish),
    DOUBLES(hardsigmoid), DOUBLES(leaky_relu)};

/* ---- integers and bool */

#define EACH_INTEGER(name, type, wide, expression)                                                                     \
    case UNARY_##name:                                                                                                 \
        ROLLED for (int64_t i = 0; i < n; i++)                                                                         \
        {                                                                                                              \
            const wide x = (wide)from[i];                                                                              \
            y[i] = (type)(expression);                                                                                 \
        }                                                                                                              \
        break;
/* y may be from */
#define INTEGERS(function, type, wide)                                                                                 \
    NOINLINE void function(int64_t opcode, type *y, const type *from, int64_t n)                                       \
    {                                                                                                                  \
        switch (opcode) {                                                                                              \
            EACH_INTEGER(neg, type, wide, -x)                                                                          \
            EACH_INTEGER(abs, type, wide, (type)x < 0 ? -x : x)                                                        \
            EACH_INTEGER(sign, type, wide, (wide)(((type)x > 0) - ((type)x < 0)))                                      \
            EACH_INTEGER(square, type, wide, x *x)                                                                     \
            EACH_INTEGER(relu, type, wide, (type)x > 0 ? x : 0)                                                        \
            EACH_INTEGER(bitwise_not, type, wide, ~x)                                                                  \
        }                                                                                                              \
    }
INTEGERS(integers, int64_t, uint64_t)
#if !defined(__wasm__)
INTEGERS(words, int32_t, uint32_t)
#endif

/* ---- predicates, with bool results */

#define EACH_QUESTION(name, expression)                                                                                \
    case UNARY_##name:                                                                                                 \
        ROLLED for (int64_t i = 0; i < n; i++)                                                                         \
        {                                                                                                              \
            const double x = part[i];                                                                                  \
            y[i] = expression;                                                                                         \
        }                                                                                                              \
        break;

NOINLINE void questions(int64_t opcode, uint8_t *y, const double *part, int64_t n)
{
    switch (opcode) {
        EACH_QUESTION(isnan, x != x)
        EACH_QUESTION(isinf, x == D_INFINITE || x == -D_INFINITE)
        EACH_QUESTION(isfinite, x - x == 0)
        EACH_QUESTION(isposinf, x == D_INFINITE)
        EACH_QUESTION(isneginf, x == -D_INFINITE)
        EACH_QUESTION(signbit, __builtin_signbit(x) != 0)
        EACH_QUESTION(logical_not, x == 0)
    }
}

/* ---- kernels */

static const uint32_t unary_types[] = UNARY_TYPES, unary_results[] = UNARY_RESULTS;

static double number_at(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int unary_run(void *y, const view *x, int64_t opcode, int64_t count, double p, double q, int worker, int workers)
{
    int64_t first, last;
    const int type = x->type;
    const int floats = type_in(type, TYPES_HALF | BIT(TYPE_float32)) && float_functions[opcode];
    worker_share(count, ELEMENT_SHARE, worker, workers, &first, &last);
    if (floats && type == TYPE_float32 && (x->rank == 0 || (x->rank == 1 && x->stride[0] == 1))) {
        if (first < last)
            run_floats(float_functions[opcode], (float *)y + first, (const float *)(const void *)x->p + first,
                       last - first, (float)p, (float)q);
        return KERNEL_OK;
    }
    for (int64_t at = first, n; at < last; at += n) {
        if (floats && type == TYPE_float32) { /* rows are read where they lie, and results go where they belong */
            int64_t step, offset;
            n = last - at;
            offset = next_run(x, at, &n, &step);
            if (step == 1 && n >= ELEMENT_SHARE) {
                run_floats(float_functions[opcode], (float *)y + at, (const float *)(const void *)x->p + offset, n,
                           (float)p, (float)q);
                continue;
            }
        }
        n = last - at < PART ? last - at : PART;
        if (type == TYPE_bool && (opcode == UNARY_bitwise_not || opcode == UNARY_logical_not)) {
            uint8_t part[PART];
            const uint8_t *from = read_bits(part, x, at, n, 1);
            for (int64_t i = 0; i < n; i++)
                ((uint8_t *)y)[at + i] = !from[i];
        } else if (floats) {
            float part[PART];
            run_floats(float_functions[opcode], part, read_floats(part, x, at, n), n, (float)p, (float)q);
            write_floats(y, type, at, part, n);
#if !defined(__wasm__)
        } else if (double_functions[opcode] && type == TYPE_float64 && n % DLANES == 0) { /* where they go */
            double *part = (double *)y + at;
            read_doubles(part, x, at, n);
            double_functions[opcode](part, n, p, q);
#endif
        } else if (double_functions[opcode] && type_in(type, TYPES_FLOAT)) {
            double part[PART];
            read_doubles(part, x, at, n);
            ROLLED for (int64_t i = n; i % DLANES; i++) part[i] = 0;
            double_functions[opcode](part, n, p, q);
            write_doubles(y, type, at, part, n);
        } else if (unary_results[opcode]) {
            double part[PART];
            read_doubles(part, x, at, n);
            questions(opcode, (uint8_t *)y + at, part, n);
#if !defined(__wasm__)
        } else if (type == TYPE_int64 || type == TYPE_int32) { /* from where they lie to where they go */
            int64_t part[PART];
            if (type == TYPE_int64)
                integers(opcode, (int64_t *)y + at, read_bits(part, x, at, n, 8), n);
            else
                words(opcode, (int32_t *)y + at, read_bits(part, x, at, n, 4), n);
#endif
        } else {
            int64_t part[PART];
            read_integers(part, x, at, n);
            integers(opcode, part, part, n);
            write_integers(y, type, at, part, n);
        }
    }
    return KERNEL_OK;
}

static int is_unary(int64_t opcode, int64_t type)
{
    return opcode >= 0 && opcode < UNARY_COUNT && type_in(type, unary_types[opcode]);
}

KERNEL(unary)
{
    const int64_t *d = record->dims, count = d[unary_count];
    const view x = {record->pointers[unary_x], (int)d[unary_type], 1, {count}, {1}};
    if (count <= 0)
        return count ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (!is_unary(d[unary_opcode], d[unary_type]))
        return KERNEL_BAD_ARGUMENT;
    return unary_run(record->pointers[unary_y], &x, d[unary_opcode], count, number_at(d[unary_first]),
                     number_at(d[unary_second]), worker, workers);
}

KERNEL(unary_strided)
{
    const int64_t *d = record->dims;
    view x;
    const int64_t count = view_of(&x, record->pointers[unary_strided_x], d[unary_strided_type], d[unary_strided_rank],
                                  d + unary_strided_shape0, d + unary_strided_x0);
    if (count <= 0)
        return count ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (!is_unary(d[unary_strided_opcode], d[unary_strided_type]))
        return KERNEL_BAD_ARGUMENT;
    return unary_run(record->pointers[unary_strided_y], &x, d[unary_strided_opcode], count,
                     number_at(d[unary_strided_first]), number_at(d[unary_strided_second]), worker, workers);
}

/* ---- The most frequent ones, with short records */

INLINE int dense(float_function *function, const launch *record, int worker, int workers)
{
    int64_t first, last;
    worker_share(record->dims[exp_f32_count], ELEMENT_SHARE, worker, workers, &first, &last);
    if (first < last)
        run_floats(function, (float *)record->pointers[exp_f32_y] + first,
                   (const float *)record->pointers[exp_f32_x] + first, last - first, 0, 0);
    return KERNEL_OK;
}

#define UNARY_KERNEL(name, function)                                                                                   \
    KERNEL(name) { return dense(function, record, worker, workers); }

UNARY_KERNEL(exp_f32, exp_floats)
UNARY_KERNEL(silu_f32, silu_floats)
UNARY_KERNEL(sigmoid_f32, sigmoid_floats)
UNARY_KERNEL(tanh_f32, tanh_floats)
UNARY_KERNEL(log_f32, log_floats)
UNARY_KERNEL(sqrt_f32, sqrt_floats)
UNARY_KERNEL(abs_f32, abs_floats)
UNARY_KERNEL(gelu_f32, gelu_floats) /* Hendrycks and Gimpel, 2016; the exact form */
