/* Operations of two operands, by opcode, broadcast by strides. Types: kernels.h. Arithmetic of 16- and 32-bit floats
 * goes through vectors of f32, other functions through doubles; integers are computed with 64 bits. */
#include "arithmetic.h"
#include "elements.h"
#include "vmath.h"
#include "vmath64.h"

static const uint32_t binary_types[] = BINARY_TYPES, binary_results[] = BINARY_RESULTS;

#define NOINLINE static __attribute__((noinline))
#define EACH(opcode, type, expression)                                                                                 \
    case BINARY_##opcode:                                                                                              \
        ROLLED for (int64_t i = 0; i < n; i++)                                                                         \
        {                                                                                                              \
            const type a = left[i], b = right[i];                                                                      \
            y[i] = expression;                                                                                         \
        }                                                                                                              \
        break;

/* ---- f32: n is a multiple of LANES; y may be an operand */

#define EACH_FLOAT(opcode)                                                                                             \
    case BINARY_##opcode:                                                                                              \
        for (int64_t i = 0; i < n; i += LANES) {                                                                       \
            vstore(y + i, vector_##opcode(vload(left + i), vload(right + i)));                                         \
        }                                                                                                              \
        break;

static int has_floats(int64_t opcode)
{
#define IS(name) || opcode == BINARY_##name
    return 0 VECTOR_ARITHMETIC(IS);
}

NOINLINE void floats(int64_t opcode, float *y, const float *left, const float *right, int64_t n)
{
    switch (opcode) {
        VECTOR_ARITHMETIC(EACH_FLOAT)
    }
}

/* ---- doubles: n is a multiple of DLANES; y may be an operand */

#define EACH_DOUBLE(opcode, expression)                                                                                \
    case BINARY_##opcode:                                                                                              \
        ROLLED for (int64_t i = 0; i < n; i += DLANES)                                                                 \
        {                                                                                                              \
            const vdouble a = dload(left + i), b = dload(right + i);                                                   \
            dstore(y + i, expression);                                                                                 \
        }                                                                                                              \
        break;

/* a - b trunc(a / b), exactly */
static double exact_fmod(double a, double b)
{
    const uint64_t fraction = 0x000fffffffffffff, hidden = 0x0010000000000000;
    const double size = __builtin_fabs(a), by = __builtin_fabs(b);
    uint64_t x, y;
    if (!(size < D_INFINITE) || !(by > 0))
        return D_NAN;
    if (size < by)
        return a;
    memcpy(&x, &size, sizeof x);
    memcpy(&y, &by, sizeof y);
    int64_t exponent = (int64_t)(x >> 52), least = (int64_t)(y >> 52);
    x = exponent ? (x & fraction) | hidden : x;
    y = least ? (y & fraction) | hidden : y;
    exponent = exponent ? exponent : 1, least = least ? least : 1;
    x %= y;
    for (int64_t left = exponent - least; left > 0 && x; left -= 11) {
        x = (x << (left < 11 ? left : 11)) % y;
    }
    if (!x)
        return __builtin_copysign(0.0, a);
    const int zeros = __builtin_clzll(x) - 11; /* back to a double: x * 2^(least - 1075) */
    const int64_t shift = zeros < least - 1 ? zeros : least - 1;
    x <<= shift;
    least -= shift;
    x = x & hidden ? (x & fraction) | (uint64_t)least << 52 : x;
    double rest;
    memcpy(&rest, &x, sizeof rest);
    return __builtin_copysign(rest, a);
}

/* The sign of the divisor, as in Python and torch. */
static double remainder_of(double a, double b)
{
    const double rest = exact_fmod(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

static double floor_of_quotient(double a, double b)
{
    if (b == 0)
        return a / b;
    const double rest = exact_fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0))
        quotient -= 1;
    if (quotient == 0)
        return __builtin_copysign(0.0, a / b);
    const double down = __builtin_floor(quotient);
    return quotient - down > 0.5 ? down + 1 : down;
}

/* fmod, remainder and floor_divide of numbers with 24 bits: where the quotient is below 2^28, its product with b has at
 * most 53 bits, so that vectors of doubles are exact. */
NOINLINE void float_remainders(int64_t opcode, double *y, const double *left, const double *right, int64_t n)
{
    for (int64_t i = 0; i < n; i += DLANES) {
        const vdouble a = dload(left + i), b = dload(right + i), quotient = a / b, whole = dtrunc(quotient);
        const vdouble rest = dselect(whole == 0.0, a, dcopysign(a - whole * b, a));
        const vlong below = (rest != 0.0) & ((b < 0.0) ^ (rest < 0.0)), small = dabs(quotient) < 0x1p28;
        const vdouble down = whole - dselect(below, dsplat(1.0), dsplat(0.0));
        dstore(y + i, opcode == BINARY_fmod        ? rest
                      : opcode == BINARY_remainder ? dselect(below, rest + b, rest)
                                                   : dselect(down == 0.0, dcopysign(down, quotient), down));
        for (int lane = 0; lane < DLANES; lane++)
            if (!small[lane])
                y[i + lane] = opcode == BINARY_fmod        ? exact_fmod(a[lane], b[lane])
                              : opcode == BINARY_remainder ? remainder_of(a[lane], b[lane])
                                                           : floor_of_quotient(a[lane], b[lane]);
    }
}

/* The neighbour of a towards b among doubles, or among floats. */
static double next_after(double a, double b, int type)
{
    if (a != a || b != b || a == b)
        return a == b ? b : a + b;
    if (type == TYPE_float32) {
        const float from = (float)a;
        int32_t bits;
        float to;
        memcpy(&bits, &from, sizeof bits);
        if (a == 0)
            bits = b > 0 ? 1 : INT32_MIN + 1;
        else
            bits += (b > a) == (a > 0) ? 1 : -1;
        memcpy(&to, &bits, sizeof to);
        return to;
    }
    int64_t bits;
    double to;
    memcpy(&bits, &a, sizeof bits);
    if (a == 0)
        bits = b > 0 ? 1 : INT64_MIN + 1;
    else
        bits += (b > a) == (a > 0) ? 1 : -1;
    memcpy(&to, &bits, sizeof to);
    return to;
}

#if !defined(__wasm__)
/* dpow of two floats, to which less is exact enough: a logarithm of one double, an exponential of nine terms, and one power of
 * two, since a float is 0 or infinite long before it is out of range. Floats are no subnormal doubles. */
INLINE vdouble dpow_of_floats(vdouble x, vdouble y)
{
    static const double terms[] = {0.5,
                                   0.16666666666666666,
                                   0.041666666666666664,
                                   0.008333333333333333,
                                   0.001388888888888889,
                                   0.0001984126984126984,
                                   2.48015873015873e-05,
                                   2.7557319223985893e-06};
    const vdouble size = dabs(x), half = y * 0.5;
    const vlong whole = dtrunc(y) == y, odd = whole & (dtrunc(half) != half);
    const vlong bits = (vlong)((vulong)size - 0x3fe6a09e667f3bcd); /* the root of a half */
    const vdouble k = (vdouble)((bits >> 52) + D_MAGIC_BITS) - D_MAGIC;
    const vdouble f = (vdouble)((bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0;
    const vdouble logarithm = dlog_edges(size, k * D_LN2 + (f + dlog_rest(f)));
    const vdouble power = dclamp(y * logarithm, -200.0, 200.0), rounded = power * 1.4426950408889634 + D_MAGIC;
    const vdouble r = power - (rounded - D_MAGIC) * D_LN2;
    vdouble value = (r * r * HORNER(terms, r) + r + 1.0) * dpower_of_two(rounded);
    value = (vdouble)((vlong)value ^ (dsign_bit(x) & odd));
    value = dselect((x < 0.0) & ~whole & (size < D_INFINITE), dsplat(D_NAN), value);
    return dselect((y == 0.0) | (x == 1.0) | ((x == -1.0) & (dabs(y) == D_INFINITE)), dsplat(1.0), value);
}
#endif

INLINE vdouble dxlogy(vdouble a, vdouble b) { return dselect((a == 0.0) & (b == b), dsplat(0.0), a * dlog(b)); }
INLINE vdouble dlarger(vdouble a, vdouble b) { return dselect((a > b) | (a != a), a, b); }
INLINE vdouble dsmaller(vdouble a, vdouble b) { return dselect((a < b) | (a != a), a, b); }

NOINLINE void doubles(int64_t opcode, double *y, const double *left, const double *right, int64_t n, int type)
{
    switch (opcode) {
        EACH_DOUBLE(add, a + b)
        EACH_DOUBLE(sub, a - b)
        EACH_DOUBLE(mul, a * b)
        EACH_DOUBLE(div, a / b)
        EACH_DOUBLE(maximum, dlarger(a, b))
        EACH_DOUBLE(minimum, dsmaller(a, b))
        EACH_DOUBLE(fmax, dselect(a != a, b, dselect(b != b, a, dlarger(a, b))))
        EACH_DOUBLE(fmin, dselect(a != a, b, dselect(b != b, a, dsmaller(a, b))))
#if defined(__wasm__)
        EACH_DOUBLE(pow, dpow(a, b))
#else
    case BINARY_pow:
        for (int64_t i = 0; i < n; i += DLANES) {
            const vdouble a = dload(left + i), b = dload(right + i);
            dstore(y + i, type == TYPE_float64 ? dpow(a, b) : dpow_of_floats(a, b));
        }
        break;
#endif
        EACH_DOUBLE(atan2, datan2(a, b))
        EACH_DOUBLE(hypot, dhypot(a, b))
        EACH_DOUBLE(copysign, dcopysign(a, b))
        EACH_DOUBLE(logaddexp, dlogaddexp(a, b))
        EACH_DOUBLE(xlogy, dxlogy(a, b))
        EACH_DOUBLE(ldexp, a * dexp2(b))
        EACH(fmod, double, exact_fmod(a, b))
        EACH(remainder, double, remainder_of(a, b))
        EACH(floor_divide, double, floor_of_quotient(a, b))
        EACH(nextafter, double, next_after(a, b, type))
    }
}

/* ---- integers and bool */

static int64_t integer_power(int64_t a, int64_t b)
{
    uint64_t base = (uint64_t)a, power = 1;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b; b >>= 1, base *= base)
        power *= b & 1 ? base : 1;
    return (int64_t)power;
}

/* Divisors are not 0. -1 is handled separately: the negative of the smallest integer does not exist. */
static int64_t floor_quotient(int64_t a, int64_t b)
{
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t cut_remainder(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static int64_t floor_remainder(int64_t a, int64_t b)
{
    const int64_t rest = cut_remainder(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static int64_t shifted_left(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); }
static int64_t shifted_right(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }

NOINLINE void integers(int64_t opcode, int64_t *y, const int64_t *left, const int64_t *right, int64_t n)
{
    switch (opcode) {
        EACH(add, int64_t, (int64_t)((uint64_t)a + (uint64_t)b))
        EACH(sub, int64_t, (int64_t)((uint64_t)a - (uint64_t)b))
        EACH(mul, int64_t, (int64_t)((uint64_t)a * (uint64_t)b))
        EACH(maximum, int64_t, a > b ? a : b)
        EACH(minimum, int64_t, a < b ? a : b)
        EACH(fmax, int64_t, a > b ? a : b)
        EACH(fmin, int64_t, a < b ? a : b)
        EACH(pow, int64_t, integer_power(a, b))
        EACH(floor_divide, int64_t, floor_quotient(a, b))
        EACH(remainder, int64_t, floor_remainder(a, b))
        EACH(fmod, int64_t, cut_remainder(a, b))
        EACH(bitwise_and, int64_t, a &b)
        EACH(bitwise_or, int64_t, a | b)
        EACH(bitwise_xor, int64_t, a ^ b)
        EACH(bitwise_left_shift, int64_t, shifted_left(a, b))
        EACH(bitwise_right_shift, int64_t, shifted_right(a, b))
    }
}

/* ---- comparisons and logical operations, with bool results */

#define QUESTIONS(name, type)                                                                                          \
    NOINLINE void name(int64_t opcode, uint8_t *y, const type *left, const type *right, int64_t n)                     \
    {                                                                                                                  \
        switch (opcode) {                                                                                              \
            EACH(eq, type, a == b)                                                                                     \
            EACH(ne, type, a != b)                                                                                     \
            EACH(lt, type, a < b)                                                                                      \
            EACH(le, type, a <= b)                                                                                     \
            EACH(gt, type, a > b)                                                                                      \
            EACH(ge, type, a >= b)                                                                                     \
            EACH(logical_and, type, (a != 0) & (b != 0))                                                               \
            EACH(logical_or, type, (a != 0) | (b != 0))                                                                \
            EACH(logical_xor, type, (a != 0) ^ (b != 0))                                                               \
        }                                                                                                              \
    }
QUESTIONS(float_questions, float)
QUESTIONS(double_questions, double)
QUESTIONS(integer_questions, int64_t)

/* ---- bytes and integers of 32 and 64 bits in their own type, from where they lie to where they go, on processors: in wasm,
 * where code is downloaded, they go through parts of 64 bits as the others do */

#if !defined(__wasm__)
#define OWN_INTEGERS(name, type, wide)                                                                                 \
    QUESTIONS(name##_questions, type)                                                                                  \
    NOINLINE int name(int64_t opcode, void *to, const void *p, const void *q, int64_t n)                               \
    {                                                                                                                  \
        type *y = to;                                                                                                  \
        const type *left = p, *right = q;                                                                              \
        if (binary_results[opcode]) {                                                                                  \
            name##_questions(opcode, to, left, right, n);                                                              \
            return 1;                                                                                                  \
        }                                                                                                              \
        switch (opcode) {                                                                                              \
            EACH(add, type, (type)((wide)a + (wide)b))                                                                 \
            EACH(sub, type, (type)((wide)a - (wide)b))                                                                 \
            EACH(mul, type, (type)((wide)a * (wide)b))                                                                 \
            EACH(maximum, type, a > b ? a : b)                                                                         \
            EACH(minimum, type, a < b ? a : b)                                                                         \
            EACH(bitwise_and, type, (type)(a & b))                                                                     \
            EACH(bitwise_or, type, (type)(a | b))                                                                      \
            EACH(bitwise_xor, type, (type)(a ^ b))                                                                     \
        default:                                                                                                       \
            return 0;                                                                                                  \
        }                                                                                                              \
        return 1;                                                                                                      \
    }
OWN_INTEGERS(unsigned_bytes, uint8_t, uint32_t)
OWN_INTEGERS(signed_bytes, int8_t, uint32_t)
OWN_INTEGERS(words, int32_t, uint32_t)
OWN_INTEGERS(long_words, int64_t, uint64_t)

enum { OWN_TYPES = BIT(TYPE_bool) | BIT(TYPE_uint8) | BIT(TYPE_int8) | BIT(TYPE_int32) | BIT(TYPE_int64) };

/* Operations of bool as logical ones; BINARY_COUNT: the others. A bool is true where its byte is not 0. */
static int64_t logical_of(int64_t opcode)
{
    switch (opcode) {
    case BINARY_logical_and:
    case BINARY_bitwise_and:
    case BINARY_mul:
        return BINARY_logical_and;
    case BINARY_logical_or:
    case BINARY_bitwise_or:
    case BINARY_add:
        return BINARY_logical_or;
    case BINARY_logical_xor:
    case BINARY_bitwise_xor:
        return BINARY_logical_xor;
    default:
        return BINARY_COUNT;
    }
}

/* PART times a number in the type of the other operand, where that holds it; else NULL. */
static const void *own_numbers(int64_t *to, int type, int64_t whole)
{
    const int64_t least = type == TYPE_int8 ? INT8_MIN : type == TYPE_int32 ? INT32_MIN : 0;
    const int64_t most = type == TYPE_int8 ? INT8_MAX : type == TYPE_int32 ? INT32_MAX : type == TYPE_uint8 ? 255 : 1;
    if (!type_in(type, OWN_TYPES) || (type != TYPE_int64 && (whole < least || whole > most)))
        return NULL;
    for (int64_t i = 0; i < PART; i++)
        write_integers(to, type, i, &whole, 1);
    return to;
}

/* floor_divide, remainder and fmod of numbers below 2^31 by quotients of doubles, which are exact to the whole number: a
 * processor divides vectors of them. 0 where a number is larger or a divisor is 0. */
NOINLINE int small_divisions(int64_t opcode, int64_t *y, const int64_t *left, const int64_t *right, int64_t n)
{
    uint64_t sizes = 0, zeros = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t a = (uint64_t)left[i], b = (uint64_t)right[i];
        sizes |= (left[i] < 0 ? -a : a) | (right[i] < 0 ? -b : b);
        zeros |= !b;
    }
    if (sizes >> 31 || zeros)
        return 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t a = (int32_t)left[i], b = (int32_t)right[i];
        const int32_t quotient = (int32_t)((double)a / (double)b),
                      rest = (int32_t)((uint32_t)a - (uint32_t)quotient * (uint32_t)b);
        const int32_t below = (rest != 0) & ((rest ^ b) < 0);
        y[i] = opcode == BINARY_floor_divide ? quotient - below
               : opcode == BINARY_remainder  ? rest + (-below & b)
                                             : rest;
    }
    return 1;
}

/* `a_numbers` or `b_numbers`: what stands in the place of that operand, else NULL. 0 where the operation or the type has
 * no kernel here. */
static int own_part(void *y, int64_t opcode, int type, const view *a, const view *b, const void *a_numbers,
                    const void *b_numbers, int64_t at, int64_t n)
{
    int64_t left[PART] __attribute__((aligned(64))), right[PART] __attribute__((aligned(64)));
    if (!type_in(type, OWN_TYPES) || (!a_numbers && a->type != type) || (!b_numbers && b->type != type))
        return 0;
    const int64_t bytes = type_bytes(type);
    const void *p = a_numbers ? a_numbers : read_bits(left, a, at, n, bytes);
    const void *q = b_numbers ? b_numbers : read_bits(right, b, at, n, bytes);
    char *to = (char *)y + at * (binary_results[opcode] ? 1 : bytes);
    switch (type) {
    case TYPE_bool:
        opcode = logical_of(opcode);
        if (opcode == BINARY_COUNT)
            return 0;
        unsigned_bytes_questions(opcode, (uint8_t *)to, p, q, n);
        return 1;
    case TYPE_uint8:
        return unsigned_bytes(opcode, to, p, q, n);
    case TYPE_int8:
        return signed_bytes(opcode, to, p, q, n);
    case TYPE_int64:
        return long_words(opcode, to, p, q, n);
    default:
        return words(opcode, to, p, q, n);
    }
}
#endif

/* ---- kernel */

static int is_division(int64_t opcode)
{
    return opcode == BINARY_floor_divide || opcode == BINARY_remainder || opcode == BINARY_fmod;
}

/* Parts of `count` elements from `at` on, in the form that the operation needs; unused lanes are 1, a valid divisor. */
static void float_part(void *y, int64_t opcode, int type, const view *a, const view *b, int64_t at, int64_t n)
{
    float left[PART], right[PART];
    const float *p = read_floats(left, a, at, n), *q = read_floats(right, b, at, n);
    if (binary_results[opcode]) {
        float_questions(opcode, (uint8_t *)y + at, p, q, n);
        return;
    }
    const int64_t whole = type == TYPE_float32 ? n / LANES * LANES : 0;
    if (whole)
        floats(opcode, (float *)y + at, p, q, whole);
    if (whole < n) {
        float rest_left[PART], rest_right[PART];
        const int64_t rest = n - whole;
        memcpy(rest_left, p + whole, (size_t)rest * sizeof *p);
        memcpy(rest_right, q + whole, (size_t)rest * sizeof *q);
        ROLLED for (int64_t i = rest; i % LANES; i++) rest_left[i] = rest_right[i] = 1;
        floats(opcode, rest_left, rest_left, rest_right, (rest + LANES - 1) / LANES * LANES);
        write_floats(y, type, at + whole, rest_left, rest);
    }
}

static void double_part(void *y, int64_t opcode, int type, const view *a, const view *b, int64_t at, int64_t n)
{
    double left[PART], right[PART];
#if !defined(__wasm__)
    if (type == TYPE_float64 && n % DLANES == 0 && a->type == type && b->type == type) { /* where they lie */
        const double *p = read_bits(left, a, at, n, sizeof *p), *q = read_bits(right, b, at, n, sizeof *q);
        if (binary_results[opcode])
            double_questions(opcode, (uint8_t *)y + at, p, q, n);
        else
            doubles(opcode, (double *)y + at, p, q, n, type);
        return;
    }
#endif
    read_doubles(left, a, at, n);
    read_doubles(right, b, at, n);
    if (binary_results[opcode]) {
        double_questions(opcode, (uint8_t *)y + at, left, right, n);
        return;
    }
    int64_t filled = n;
    ROLLED for (; filled % DLANES; filled++) left[filled] = right[filled] = 1;
    if (is_division(opcode) && type != TYPE_float64)
        float_remainders(opcode, left, left, right, filled);
    else
        doubles(opcode, left, left, right, filled, type);
    write_doubles(y, type, at, left, n);
}

static int integer_part(void *y, int64_t opcode, int type, const view *a, const view *b, int64_t at, int64_t n)
{
    int64_t left[PART], right[PART];
    read_integers(left, a, at, n);
    read_integers(right, b, at, n);
    if (binary_results[opcode]) {
        integer_questions(opcode, (uint8_t *)y + at, left, right, n);
        return KERNEL_OK;
    }
    if (is_division(opcode)) {
#if !defined(__wasm__)
        if (type != TYPE_uint64 && small_divisions(opcode, left, left, right, n)) {
            write_integers(y, type, at, left, n);
            return KERNEL_OK;
        }
#endif
        for (int64_t i = 0; i < n; i++)
            if (!right[i])
                return KERNEL_DIVISION_BY_ZERO;
    }
    integers(opcode, left, left, right, n);
    write_integers(y, type, at, left, n);
    return KERNEL_OK;
}

KERNEL(binary)
{
    static const int64_t still[RANK];
    const int64_t *d = record->dims, opcode = d[binary_opcode], rank = d[binary_rank], *shape = d + binary_shape0;
    const void *left = record->pointers[binary_a], *right = record->pointers[binary_b];
    const int type = (int)d[binary_type];
    double real;
    float single;
    int64_t first, last, whole = d[binary_number];
    view a, b;
    if (opcode < 0 || opcode >= BINARY_COUNT || !type_in(d[binary_type], binary_types[opcode]))
        return KERNEL_BAD_ARGUMENT;
    memcpy(&real, &whole, sizeof real);
    single = (float)real;
    const int is_float = type_in(type, TYPES_FLOAT);
    const void *number = type == TYPE_float64 ? (void *)&real : is_float ? (void *)&single : (void *)&whole;
    const int number_type = type == TYPE_float64 ? type : is_float ? TYPE_float32 : TYPE_int64;
    const int64_t count =
        view_of(&a, left ? left : number, left ? type : number_type, rank, shape, left ? d + binary_a0 : still);
    if (count < 0 ||
        view_of(&b, right ? right : number, right ? type : number_type, rank, shape, right ? d + binary_b0 : still) < 0)
        return KERNEL_BAD_ARGUMENT;
#if !defined(__wasm__)
    int64_t kept[PART] __attribute__((aligned(64)));
    const void *a_numbers = left ? NULL : own_numbers(kept, type, whole);
    const void *b_numbers = right ? NULL : own_numbers(kept, type, whole);
#endif
    worker_share(count, ELEMENT_SHARE, worker, workers, &first, &last);
    const int as_floats = is_float && type != TYPE_float64 && (has_floats(opcode) || binary_results[opcode]);
    /* Parts that end where a long row does are read where they lie. */
    const int64_t row_a = a.rank ? a.size[a.rank - 1] : count, row_b = b.rank ? b.size[b.rank - 1] : count;
    const int64_t row = row_a < row_b ? row_a : row_b;
    for (int64_t at = first, n; at < last; at += n) {
        n = last - at < PART ? last - at : PART;
        if (row >= ELEMENT_SHARE && row - at % row < n)
            n = row - at % row;
        if (as_floats && type == TYPE_float32 && row > PART) { /* longer parts where both lie together */
            int64_t run_a = last - at, run_b = last - at, step_a, step_b;
            next_run(&a, at, &run_a, &step_a);
            next_run(&b, at, &run_b, &step_b);
            if (step_a == 1 && step_b == 1)
                n = run_a < run_b ? run_a : run_b;
        }
        if (as_floats)
            float_part(record->pointers[binary_y], opcode, type, &a, &b, at, n);
        else if (is_float)
            double_part(record->pointers[binary_y], opcode, type, &a, &b, at, n);
#if !defined(__wasm__)
        else if (own_part(record->pointers[binary_y], opcode, type, &a, &b, a_numbers, b_numbers, at, n))
            continue;
#endif
        else if (integer_part(record->pointers[binary_y], opcode, type, &a, &b, at, n))
            return KERNEL_DIVISION_BY_ZERO;
    }
    return KERNEL_OK;
}
