/* Operations on two elements, by opcode. Types: kernels.h. */
#include "vectors.h"

CONSTANT uint32_t binary_types[] = BINARY_TYPES, binary_results[] = BINARY_RESULTS;

/* ---- doubles; floats of 32 and 16 bits as well, where one rounding of the result is right */

/* The sign of the divisor, as in Python and torch. */
DEVICE double remainder_of(double a, double b)
{
    const double rest = fmod(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

DEVICE double floor_of_quotient(double a, double b)
{
    if (b == 0)
        return a / b;
    const double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(0.0, a / b);
    const double down = floor(quotient);
    return quotient - down > 0.5 ? down + 1 : down;
}

DEVICE double log_of_sum(double a, double b)
{
    const double larger = fmax(a, b), apart = fabs(a - b);
    if (a != a || b != b)
        return a + b;
    return a == b ? a + 0.69314718055994530942 : larger + log1p(exp(-apart));
}

DEVICE double doubles(int64_t opcode, double a, double b, int type)
{
    switch (opcode) {
    case BINARY_add:
        return a + b;
    case BINARY_sub:
        return a - b;
    case BINARY_mul:
        return a * b;
    case BINARY_div:
        return a / b;
    case BINARY_floor_divide:
        return floor_of_quotient(a, b);
    case BINARY_remainder:
        return remainder_of(a, b);
    case BINARY_fmod:
        return fmod(a, b);
    case BINARY_pow:
        return pow(a, b);
    case BINARY_maximum:
        return a > b || a != a ? a : b;
    case BINARY_minimum:
        return a < b || a != a ? a : b;
    case BINARY_fmax:
        return a != a ? b : b != b ? a : a > b ? a : b;
    case BINARY_fmin:
        return a != a ? b : b != b ? a : a < b ? a : b;
    case BINARY_atan2:
        return atan2(a, b);
    case BINARY_hypot:
        return hypot(a, b);
    case BINARY_copysign:
        return copysign(a, b);
    case BINARY_logaddexp:
        return log_of_sum(a, b);
    case BINARY_xlogy:
        return a == 0 && b == b ? 0.0 : a * log(b);
    case BINARY_ldexp:
        return a * exp2(b);
    case BINARY_nextafter:
        return type == TYPE_float32 ? (double)nextafterf((float)a, (float)b) : nextafter(a, b);
    }
    return NAN;
}

/* The most frequent operations of float32, and of 16 bits, in float32, on `count` elements. */
#define EACH(expression)                                                                                               \
    _Pragma("unroll") for (int k = 0; k < COUNT; k++)                                                                  \
    {                                                                                                                  \
        const float a = left[k], b = right[k];                                                                         \
        y[k] = expression;                                                                                             \
    }                                                                                                                  \
    return true;
template <int COUNT> DEVICE bool floats(int64_t opcode, const float *left, const float *right, float *y)
{
    switch (opcode) {
    case BINARY_add:
        EACH(a + b)
    case BINARY_sub:
        EACH(a - b)
    case BINARY_mul:
        EACH(a * b)
    case BINARY_div:
        EACH(a / b)
    case BINARY_maximum:
        EACH(a > b || a != a ? a : b)
    case BINARY_minimum:
        EACH(a < b || a != a ? a : b)
    }
    return false;
}

/* ---- integers: divisors are not 0. -1 is handled separately: the negative of the smallest integer does not exist. */

DEVICE int64_t integer_power(int64_t a, int64_t b)
{
    uint64_t base = (uint64_t)a, power = 1;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b; b >>= 1, base *= base)
        power *= b & 1 ? base : 1;
    return (int64_t)power;
}

DEVICE int64_t cut_remainder(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

DEVICE int64_t integers(int64_t opcode, int64_t a, int64_t b)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (opcode) {
    case BINARY_add:
        return (int64_t)(x + y);
    case BINARY_sub:
        return (int64_t)(x - y);
    case BINARY_mul:
        return (int64_t)(x * y);
    case BINARY_maximum:
    case BINARY_fmax:
        return a > b ? a : b;
    case BINARY_minimum:
    case BINARY_fmin:
        return a < b ? a : b;
    case BINARY_pow:
        return integer_power(a, b);
    case BINARY_floor_divide:
        return b == -1 ? (int64_t)(0 - x) : a / b - (a % b != 0 && (a < 0) != (b < 0));
    case BINARY_remainder: {
        const int64_t rest = cut_remainder(a, b);
        return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case BINARY_fmod:
        return cut_remainder(a, b);
    case BINARY_bitwise_and:
        return a & b;
    case BINARY_bitwise_or:
        return a | b;
    case BINARY_bitwise_xor:
        return a ^ b;
    case BINARY_bitwise_left_shift:
        return b < 0 || b > 63 ? 0 : (int64_t)(x << b);
    default: /* bitwise_right_shift */
        return a >> (b < 0 || b > 63 ? 63 : b);
    }
}

template <class T> DEVICE bool question(int64_t opcode, T a, T b)
{
    switch (opcode) {
    case BINARY_eq:
        return a == b;
    case BINARY_ne:
        return a != b;
    case BINARY_lt:
        return a < b;
    case BINARY_le:
        return a <= b;
    case BINARY_gt:
        return a > b;
    case BINARY_ge:
        return a >= b;
    case BINARY_logical_and:
        return a != 0 && b != 0;
    case BINARY_logical_or:
        return a != 0 || b != 0;
    default: /* logical_xor */
        return (a != 0) != (b != 0);
    }
}

/* Vectors of float32 or 16 bits, by an operation of `floats`; returns how many elements they have. */
template <int BYTES>
DEVICE int64_t float_vectors(const views<2> &of, int64_t opcode, int type, void *y, const void *left, const void *right,
                             float number)
{
    constexpr int width = VECTOR / BYTES;
    const void *operands[2] = {left, right};
    const int64_t vectors = is_aligned(y) ? vectors_in(of, operands, width) : 0;
    const bool dense = of.rank == 1;
    float same[width];
    for (int k = 0; k < width; k++)
        same[k] = number;
    const uint4 numbers = vector_of<BYTES>(same, type);
    uint4 a[UNDER_WAY], b[UNDER_WAY];
    for_vectors(
        vectors,
        [&](int u, int64_t i) {
            int64_t at[2] = {of.strides[0][0] * i * width, of.strides[1][0] * i * width};
            if (!dense)
                find(at, i * width, of);
            a[u] = left ? vector_at<BYTES>(left, at[0], of.strides[0][0]) : numbers;
            b[u] = right ? vector_at<BYTES>(right, at[1], of.strides[1][0]) : numbers;
        },
        [&](int u, int64_t i) {
            float x[width], z[width], result[width];
            floats_of<BYTES>(x, a[u], type);
            floats_of<BYTES>(z, b[u], type);
            floats<width>(opcode, x, z, result);
            ((uint4 *)y)[i] = vector_of<BYTES>(result, type);
        });
    return vectors * width;
}

/* The same for questions, which every element answers with a byte. */
template <int BYTES>
DEVICE int64_t question_vectors(const views<2> &of, int64_t opcode, int type, void *y, const void *left,
                                const void *right, float number)
{
    constexpr int width = VECTOR / BYTES;
    const void *operands[2] = {left, right};
    const int64_t vectors = is_aligned(y) ? vectors_in(of, operands, width) : 0;
    float same[width];
    for (int k = 0; k < width; k++)
        same[k] = number;
    const uint4 numbers = vector_of<BYTES>(same, type);
    uint4 a[UNDER_WAY], b[UNDER_WAY];
    for_vectors(
        vectors,
        [&](int u, int64_t i) {
            int64_t at[2];
            find(at, i * width, of);
            a[u] = left ? vector_at<BYTES>(left, at[0], of.strides[0][0]) : numbers;
            b[u] = right ? vector_at<BYTES>(right, at[1], of.strides[1][0]) : numbers;
        },
        [&](int u, int64_t i) {
            float x[width], z[width];
            uint32_t words[2] = {0, 0};
            floats_of<BYTES>(x, a[u], type);
            floats_of<BYTES>(z, b[u], type);
#pragma unroll
            for (int k = 0; k < width; k++)
                words[k / 4] |= (uint32_t)question(opcode, x[k], z[k]) << k % 4 * 8;
            if (width == 4)
                ((uint32_t *)y)[i] = words[0];
            else
                ((uint2 *)y)[i] = uint2{words[0], words[1]};
        });
    return vectors * width;
}

DEVICE bool has_floats(int64_t opcode)
{
    const float x[1] = {1};
    float y[1];
    return floats<1>(opcode, x, x, y);
}

KERNEL(binary, VECTOR_BLOCKS(PRODUCT(rank, shape0)), 256, 0)
{
    __shared__ views<2> of;
    const int64_t *d = record.dims, opcode = d[binary_opcode], rank = d[binary_rank], *shape = d + binary_shape0;
    const void *left = record.pointers[binary_a], *right = record.pointers[binary_b];
    void *y = record.pointers[binary_y];
    const int64_t whole = d[binary_number];
    if (view_count(rank, 6, shape) < 0 || opcode < 0 || opcode >= BINARY_COUNT ||
        !type_in(d[binary_type], binary_types[opcode])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)d[binary_type];
    const bool wide = type == TYPE_float64, real = type_in(type, TYPES_FLOAT), asks = binary_results[opcode];
    const bool divides = opcode == BINARY_floor_divide || opcode == BINARY_remainder || opcode == BINARY_fmod;
    const double number = real ? (wide ? real_of(whole) : (double)(float)real_of(whole)) : 0;
    const int64_t *strides[2] = {left ? d + binary_a0 : nullptr, right ? d + binary_b0 : nullptr};
    gather_dims(of, rank, shape, strides);
    int64_t done = 0;
    if (real && !wide && asks)
        done = type == TYPE_float32 ? question_vectors<4>(of, opcode, type, y, left, right, (float)number)
                                    : question_vectors<2>(of, opcode, type, y, left, right, (float)number);
    else if (real && !wide && has_floats(opcode))
        done = type == TYPE_float32 ? float_vectors<4>(of, opcode, type, y, left, right, (float)number)
                                    : float_vectors<2>(of, opcode, type, y, left, right, (float)number);
    FOR_EACH(rest, of.count - done)
    {
        const int64_t i = done + rest;
        int64_t at[2];
        find(at, i, of);
        if (real && !wide) {
            const float a = left ? load_float(left, at[0], type) : (float)number;
            const float b = right ? load_float(right, at[1], type) : (float)number;
            float result;
            if (asks)
                ((uint8_t *)y)[i] = question(opcode, a, b);
            else if (floats<1>(opcode, &a, &b, &result))
                store_float(y, i, type, result);
            else
                store_double(y, i, type, doubles(opcode, a, b, type));
        } else if (real) {
            const double a = left ? ((const double *)left)[at[0]] : number;
            const double b = right ? ((const double *)right)[at[1]] : number;
            if (asks)
                ((uint8_t *)y)[i] = question(opcode, a, b);
            else
                ((double *)y)[i] = doubles(opcode, a, b, type);
        } else {
            const int64_t a = left ? load_integer(left, at[0], type) : whole;
            const int64_t b = right ? load_integer(right, at[1], type) : whole;
            if (asks)
                ((uint8_t *)y)[i] = question(opcode, a, b);
            else if (divides && b == 0)
                report(KERNEL_DIVISION_BY_ZERO);
            else
                store_integer(y, i, type, integers(opcode, a, b));
        }
    }
}
