/* The functions of two or three elements that NumPy computes for the CPU: pyapp/engine/ops/elementwise (special.py,
 * incomplete_gamma.py) has the same formulas, of NIST's Digital Library of Mathematical Functions (DLMF), and their limits. */
#include "gpu.h"

#define PI 3.14159265358979323846
#define SQRT_2_PI 2.5066282746310005
enum { TERMS = 2000, SHIFT = 10, TEMME = 24, MANY = 10000 };

CONSTANT uint32_t special_types[] = SPECIAL_TYPES;

DEVICE double polynomial(const double *terms, int count, double x)
{
    double sum = 0;
    for (int n = count - 1; n >= 0; n--)
        sum = sum * x + terms[n];
    return sum;
}

/* Where the normal distribution's mass is p: Newton's steps on the logarithm of the mass in the tails, from the first terms of
 * its asymptotic series (DLMF 7.17.3); else Halley's steps, from Abramowitz and Stegun 26.2.23. */
DEVICE double ndtri(double p)
{
    const double low = p < 0.5 ? p : 1 - p, t = sqrt(-2 * log(low));
    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    if (low < 0.02) {
        double z = (log(t) + 0.9189385332046727) / t - t;
        for (int step = 0; step < 5; step++) {
            const double mass = 0.5 * erfc(z * -0.7071067811865476);
            z -= (log(mass) - log(low)) * mass * SQRT_2_PI * exp(0.5 * z * z);
        }
        return p < 0.5 ? z : -z;
    }
    double z = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
    z = p < 0.5 ? z : -z;
    for (int step = 0; step < 3; step++) {
        const double move = (0.5 * erf(z * 0.7071067811865476) - (p - 0.5)) * SQRT_2_PI * exp(0.5 * z * z);
        z -= move / (1 + 0.5 * z * move);
    }
    return z;
}

/* ---- Incomplete gamma functions */

/* P(a, x) by its series, for x < a + 1 (DLMF 8.11.4). */
DEVICE double below(double a, double x)
{
    double term = 1 / a, total = term;
    for (int n = 1; n < TERMS && term > total * 1e-17; n++) {
        term *= x / (a + n);
        total += term;
    }
    return total * exp(a * log(x) - x - lgamma(a));
}

/* Q(a, x) by its continued fraction after Lentz, for x >= a + 1 (DLMF 8.9.2). */
DEVICE double above(double a, double x)
{
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int n = 1; n < TERMS; n++) {
        const double step = -n * (n - a);
        b += 2;
        d = 1 / (step * d + b);
        c = b + step / c;
        h *= d * c;
        if (!(fabs(d * c - 1) > 1e-16))
            break;
    }
    return h * exp(a * log(x) - x - lgamma(a));
}

/* For large a: Temme's uniform expansion (DLMF 8.12.3, 8.12.4, 8.12.7). */
DEVICE double uniform(double a, double x, bool upper, const double *terms)
{
    const double near = (x - a) / a;
    double tail = 0;
    for (int n = 13; n > 1; n--)
        tail = 1.0 / n - near * tail;
    const double square = fabs(near) < 0.02 ? near * near * tail : near - log1p(near);
    const double eta = copysign(sqrt(2 * square), near), small = fmin(fmax(eta, -1.0), 1.0);
    double sum = 0;
    for (int k = 2; k >= 0; k--)
        sum = sum / a + polynomial(terms + k * TEMME, TEMME, small);
    const double rest = exp(-a * square) / (SQRT_2_PI * sqrt(a)) * sum, side = upper ? 1 : -1;
    return 0.5 * erfc(side * eta * sqrt(a / 2)) + side * rest;
}

DEVICE double incomplete_gamma(double a, double x, bool upper, const double *terms)
{
    const bool endless_a = a == INFINITY, endless_x = x == INFINITY;
    if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (endless_a && endless_x))
        return NAN;
    if (x == 0 || endless_a)
        return upper ? 1 : 0;
    if (a == 0 || endless_x)
        return upper ? 0 : 1;
    if (a >= MANY)
        return uniform(a, x, upper, terms);
    if (x < a + 1)
        return upper ? 1 - below(a, x) : below(a, x);
    return upper ? above(a, x) : 1 - above(a, x);
}

/* ---- The zeta function and the derivatives of digamma */

/* The sum of 1 / (z + k)^s for s > 1 and z > 0, the tail by Euler and Maclaurin (DLMF 25.11.43). */
DEVICE double zeta_positive(double s, double z)
{
    /* Bernoulli's numbers over factorials: B2 / 2!, B4 / 4!, ... */
    const double parts[] = {1.0 / 12,
                            -1.0 / 720,
                            1.0 / 30240,
                            -1.0 / 1209600,
                            1.0 / 47900160,
                            -691.0 / 1307674368000.0,
                            1.0 / 74724249600.0,
                            -3617.0 / 10670622842880000.0};
    double total = 0, rising = s;
    for (int k = 0; k < SHIFT; k++, z += 1)
        total += pow(z, -s);
    total += pow(z, 1 - s) / (s - 1) + 0.5 * pow(z, -s);
    for (int k = 0; k < 8; k++) {
        total += parts[k] * rising * pow(z, -(s + 2 * k + 1));
        rising *= (s + 2 * k + 1) * (s + 2 * k + 2);
    }
    return total;
}

/* Hurwitz' function; for q <= 0 the terms below 0 are added, which whole s alone allow. */
DEVICE double zeta(double s, double q)
{
    if (s == 1)
        return INFINITY;
    if (s < 1)
        return NAN;
    if (q <= 0 && q == floor(q))
        return INFINITY;
    const double count = q <= 0 && s == floor(s) && q > -MANY ? floor(-q) + 1 : 0;
    double sum = q + count > 0 ? zeta_positive(s, q + count) : NAN;
    for (int k = 0; k < (int)count; k++)
        sum += pow(q + k, -s);
    return sum;
}

/* Left of 0 by reflection (DLMF 5.15.6). */
DEVICE double polygamma(double x, int order, const double *cotangent)
{
    double size = order % 2 ? 1 : -1;
    if (x != x)
        return x;
    const double fraction = x - rint(x), sign = size;
    if (!(x > 0) && (fraction == 0 || x == -INFINITY))
        return sign * INFINITY;
    for (int k = 2; k <= order; k++)
        size *= k;
    const double found = size * zeta_positive(order + 1.0, x > 0 ? x : 1 - x);
    if (x > 0)
        return found;
    return -sign * found - pow(PI, order + 1.0) * polynomial(cotangent, order + 2, 1 / tan(PI * fraction));
}

/* ---- Whole numbers */

DEVICE uint64_t common_divisor(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        const uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

DEVICE int64_t common_multiple(int64_t a, int64_t b)
{
    const uint64_t divisor = common_divisor(a, b), x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    return divisor ? (int64_t)(x / divisor * (b < 0 ? 0 - (uint64_t)b : (uint64_t)b)) : 0;
}

KERNEL(special, PARTS(count, 256), 256, 0)
{
    const int64_t *d = record.dims, opcode = d[special_opcode], type = d[special_type], order = d[special_order];
    const void *a = record.pointers[special_a], *b = record.pointers[special_b];
    const double *table = (const double *)record.pointers[special_table];
    void *y = record.pointers[special_y];
    const bool takes_two =
        opcode >= SPECIAL_gcd || opcode == SPECIAL_zeta || opcode == SPECIAL_igamma || opcode == SPECIAL_igammac;
    if (opcode < 0 || opcode >= SPECIAL_COUNT || type < 0 || type >= TYPE_COUNT ||
        !(special_types[opcode] >> type & 1) || (takes_two && !b) ||
        (opcode == SPECIAL_polygamma && (!table || order < 1 || order > 101)) ||
        ((opcode == SPECIAL_igamma || opcode == SPECIAL_igammac) && !table)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[special_count])
    {
        if (opcode >= SPECIAL_gcd) {
            const int64_t m = load_integer(a, i, (int)type), n = load_integer(b, i, (int)type);
            const int64_t found = opcode == SPECIAL_gcd ? (int64_t)common_divisor(m, n) : common_multiple(m, n);
            store_integer(y, i, (int)type, found);
            continue;
        }
        const double x = load_double(a, i, (int)type), other = takes_two ? load_double(b, i, (int)type) : 0;
        double found = x;
        int exponent = 0;
        switch (opcode) {
        case SPECIAL_ndtri:
            found = ndtri(x);
            break;
        case SPECIAL_igamma:
        case SPECIAL_igammac:
            found = incomplete_gamma(x, other, opcode == SPECIAL_igammac, table);
            break;
        case SPECIAL_polygamma:
            found = polygamma(x, (int)order, table);
            break;
        case SPECIAL_zeta:
            found = zeta(x, other);
            break;
        default:
            if (fabs(x) < INFINITY)
                found = frexp(x, &exponent);
        }
        if (opcode == SPECIAL_exponent)
            ((int32_t *)y)[i] = exponent;
        else
            store_double(y, i, (int)type, found);
    }
}
