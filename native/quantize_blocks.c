/* Quantises weights to GGML's block types, as pyapp/engine/blocks/ does in NumPy, bit for bit: its modules say what is
 * searched, and why. Sums have its order, and no product is fused with a sum. The page has no room for it (absent.c).
 *
 * 16 runs of 16 or 32 values lie side by side, so that each lane of a vector has a run of its own and a sum needs no other
 * lane. What belongs to a block stands in the lanes of all its runs. */
#include "block_types.h"
#include "vmath64.h"

#if !defined(__wasm__)

enum { SIDE = 16, LONGEST = 32, HALVES = LANES / DLANES };
typedef float lanes[SIDE] __attribute__((aligned(64)));
typedef float numbers[LONGEST][SIDE] __attribute__((aligned(64)));

/* The values of SIDE runs, and the weights of their errors. Functions take the length of a run, and the runs of a
 * block. */
typedef struct group {
    numbers x, weight;
} group;

/* The search tries `count` shifts from first to last. */
typedef struct search {
    double first, last;
    int count;
} search;

INLINE float shifted(const search *s, int i, double number)
{
    return (float)(number + (s->first + (s->last - s->first) * i / (s->count - 1)));
}

INLINE vint is_finite(vfloat x) { return vabs(x) < vsplat(__builtin_inff()); }
INLINE vfloat finite_or_zero(vfloat x) { return (vfloat)((vint)x & is_finite(x)); }
INLINE vfloat quotient(vfloat a, vfloat b) { return finite_or_zero(a / b); }

/* The nearest whole number from low to high, of a finite x. */
INLINE vfloat nearest(vfloat x, vfloat low, vfloat high)
{
    const vfloat magic = vsplat(12582912.0f); /* 1.5 * 2^23 */
    return (vmin(vmax(x, low), high) + magic) - magic;
}

INLINE vfloat not_negative(vfloat x) { return (vfloat)((vint)x & ((x > vzero()) | (x != x))); } /* NaN stays */
/* x rounded to f16. */
INLINE vfloat half(vfloat x)
{
    const vuint halves = vto_f16(x);
    uint16_t part[LANES];
    for (int i = 0; i < LANES; i++)
        part[i] = (uint16_t)halves[i];
    return vload_f16(part);
}

/* Of the runs' sums, the first half and the second half are added until one is left for each block. */
static void sum_of_blocks(lanes sums, const int runs)
{
    for (int block = 0; block < SIDE; block += runs) {
        for (int count = runs / 2; count; count /= 2)
            for (int i = 0; i < count; i++)
                sums[block + i] += sums[block + i + count];
        for (int i = 1; i < runs; i++)
            sums[block + i] = sums[block];
    }
}

/* The first of the values of each run that are farthest from zero. */
INLINE vfloat extreme_of(const numbers x, int v, const int length)
{
    vfloat found = vload(x[0] + v), most = vabs(found);
    for (int i = 1; i < length; i++) {
        const vfloat value = vload(x[i] + v), size = vabs(value);
        const vint farther = size > most;
        found = vselect(farther, value, found);
        most = vselect(farther, size, most);
    }
    return found;
}

/* The same of the runs' scales, for each block. */
static void extreme_of_blocks(lanes to, const lanes from, const int runs)
{
    for (int block = 0; block < SIDE; block += runs) {
        float found = from[block];
        for (int i = 1; i < runs; i++)
            if (__builtin_fabsf(from[block + i]) > __builtin_fabsf(found))
                found = from[block + i];
        for (int i = 0; i < runs; i++)
            to[block + i] = found;
    }
}

static void largest_of_blocks(lanes to, const lanes from, const int runs)
{
    for (int block = 0; block < SIDE; block += runs) {
        float found = from[block];
        for (int i = 1; i < runs; i++)
            found = from[block + i] > found ? from[block + i] : found;
        for (int i = 0; i < runs; i++)
            to[block + i] = found;
    }
}

INLINE vdouble widen(vfloat x, int part)
{
    typedef float few __attribute__((vector_size(4 * DLANES)));
    few own;
    memcpy(&own, (const char *)&x + part * (int)sizeof own, sizeof own);
    return __builtin_convertvector(own, vdouble);
}

INLINE vfloat narrow(const vdouble x[HALVES])
{
    typedef float few __attribute__((vector_size(4 * DLANES)));
    vfloat result;
    UNROLL for (int part = 0; part < HALVES; part++)
    {
        const few own = __builtin_convertvector(x[part], few);
        memcpy((char *)&result + part * (int)sizeof own, &own, sizeof own);
    }
    return result;
}

/* The factors of a and b whose sum is nearest to x, from the sums of the products of the three. */
INLINE void solve_pair(vfloat aa, vfloat ab, vfloat bb, vfloat ax, vfloat bx, vfloat *of_a, vfloat *of_b)
{
    const vfloat alone = quotient(ax, aa);
    vdouble first[HALVES], second[HALVES];
    UNROLL for (int part = 0; part < HALVES; part++)
    {
        const vdouble a = widen(aa, part), c = widen(ab, part), b = widen(bb, part), p = widen(ax, part),
                      q = widen(bx, part);
        const vdouble determinant = a * b - c * c;
        const vlong clear = determinant > dsplat(1e-6) * a * b;
        const vdouble safe = dselect(clear, determinant, dsplat(1.0));
        first[part] = dselect(clear, (b * p - c * q) / safe, widen(alone, part));
        second[part] = (vdouble)((vlong)((a * q - c * p) / safe) & clear);
    }
    *of_a = narrow(first);
    *of_b = narrow(second);
}

static void weigh(group *g, const numbers importance, const int power, const int length, const int runs)
{
    lanes mean;
    for (int v = 0; v < SIDE; v += LANES) {
        vfloat sum[2] = {vzero(), vzero()};
        for (int i = 0; i < length; i += 2)
            UNROLL for (int k = 0; k < 2; k++)
            {
                const vfloat x = vload(g->x[i + k] + v);
                sum[k] += x * x;
            }
        vstore(mean + v, sum[0] + sum[1]);
    }
    sum_of_blocks(mean, runs);
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat own = vload(mean + v) / vsplat((float)(length * runs)), root = vsqrt(own);
        for (int i = 0; i < length; i++) {
            const vfloat x = vload(g->x[i] + v), square = x * x;
            vstore(g->weight[i] + v, importance   ? vload(importance[i] + v) * vsqrt(vsplat(2.0f) * own + square)
                                     : power == 1 ? vabs(x) + root
                                                  : square + vsplat(0.1f) * own);
        }
    }
}

/* The scales of the runs with which numbers from lowest to -lowest - 1 are nearest to the values. */
static void symmetric_scale(const group *g, lanes scales, const int lowest, const search s, const int length)
{
    const vfloat low = vsplat((float)lowest), high = vsplat((float)(-lowest - 1));
    for (int v = 0; v < SIDE; v += LANES) {
        vfloat weighted[LONGEST], best = vzero(), best_gain = vzero();
        const vfloat extreme = extreme_of(g->x, v, length);
        for (int i = 0; i < length; i++)
            weighted[i] = vload(g->weight[i] + v) * vload(g->x[i] + v);
        for (int shift = 0; shift < s.count; shift++) {
            const vfloat factor = quotient(vsplat(shifted(&s, shift, lowest)), extreme);
            vfloat along[2] = {vzero(), vzero()}, second[2] = {vzero(), vzero()};
            for (int i = 0; i < length; i += 2)
                UNROLL for (int k = 0; k < 2; k++)
                {
                    const vfloat number = nearest(vload(g->x[i + k] + v) * factor, low, high);
                    along[k] += weighted[i + k] * number;
                    second[k] += vload(g->weight[i + k] + v) * number * number;
                }
            const vfloat sum = along[0] + along[1], scale = quotient(sum, second[0] + second[1]), gain = scale * sum;
            const vint better = gain > best_gain;
            best = vselect(better, scale, best);
            best_gain = vselect(better, gain, best_gain);
        }
        vstore(scales + v, best);
    }
}

/* The scales and minimums of the runs with which numbers from 0 to `levels` are nearest to the values. */
static void affine_scale(const group *g, lanes scales, lanes minimums, const int levels, const search s,
                         const int length)
{
    const vfloat high = vsplat((float)levels), magic = vsplat(12582912.0f), two = vsplat(2.0f);
    for (int v = 0; v < SIDE; v += LANES) {
        vfloat above[LONGEST], weighted[LONGEST], low = vload(g->x[0] + v), most = low;
        for (int i = 1; i < length; i++) {
            low = vmin(low, vload(g->x[i] + v));
            most = vmax(most, vload(g->x[i] + v));
        }
        low = vmin(low, vzero()) + vzero(); /* -0 becomes 0 */
        const vfloat span = most - low;
        const vint sound = is_finite(span); /* or all numbers are 0 */
        vfloat totals[2] = {vzero(), vzero()}, moments[2] = {vzero(), vzero()};
        for (int i = 0; i < length; i += 2)
            UNROLL for (int k = 0; k < 2; k++)
            {
                const vfloat x = vload(g->x[i + k] + v), weight = vload(g->weight[i + k] + v);
                above[i + k] = (vfloat)((vint)(x - low) & sound);
                weighted[i + k] = weight * x;
                totals[k] += weight;
                moments[k] += weight * x;
            }
        const vfloat total = totals[0] + totals[1], moment = moments[0] + moments[1];
        vfloat best = vzero(), minimum = vzero() - low, best_gain = low * (two * moment - low * total);
        for (int shift = 0; shift < s.count; shift++) {
            const vfloat factor = quotient(vsplat(shifted(&s, shift, levels)), span);
            vfloat firsts[2] = {vzero(), vzero()}, seconds[2] = {vzero(), vzero()}, alongs[2] = {vzero(), vzero()};
            for (int i = 0; i < length; i += 2)
                UNROLL for (int k = 0; k < 2; k++)
                {
                    const vfloat number = (vmin(above[i + k] * factor, high) + magic) - magic;
                    const vfloat scaled = vload(g->weight[i + k] + v) * number;
                    firsts[k] += scaled;
                    seconds[k] += scaled * number;
                    alongs[k] += weighted[i + k] * number;
                }
            const vfloat first = firsts[0] + firsts[1], second = seconds[0] + seconds[1], along = alongs[0] + alongs[1];
            vfloat scale, offset;
            solve_pair(second, first, total, along, moment, &scale, &offset);
            scale = vselect(offset > vzero(), quotient(along, second), scale);
            offset = (vfloat)((vint)offset & ~(offset >= vzero())); /* NaN stays */
            const vfloat gain = two * (scale * along + offset * moment) -
                                (scale * scale * second + two * scale * offset * first + offset * offset * total);
            const vint better = (gain > best_gain) & (scale >= vzero());
            best = vselect(better, scale, best);
            minimum = vselect(better, vzero() - offset, minimum);
            best_gain = vselect(better, gain, best_gain);
        }
        vstore(scales + v, not_negative(best));
        vstore(minimums + v, minimum);
    }
}

/* ---- Blocks of 256 values */

/* value = d * scale * number - m * minimum, and the error of each block. */
typedef struct affine_fit {
    lanes d, m, scales, minimums, error;
    numbers number;
} affine_fit;

static void affine_numbers(affine_fit *f, const group *g, const int levels, const int length, const int runs)
{
    const vfloat high = vsplat((float)levels);
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat wide = vload(f->d + v) * vload(f->scales + v), low = vload(f->m + v) * vload(f->minimums + v);
        vfloat error[2] = {vzero(), vzero()};
        for (int i = 0; i < length; i += 2)
            UNROLL for (int k = 0; k < 2; k++)
            {
                const vfloat x = vload(g->x[i + k] + v), number = nearest(quotient(x + low, wide), vzero(), high);
                const vfloat off = wide * number - low - x;
                vstore(f->number[i + k] + v, number);
                error[k] += vload(g->weight[i + k] + v) * (off * off);
            }
        vstore(f->error + v, error[0] + error[1]);
    }
    sum_of_blocks(f->error, runs);
}

/* For each block, the fit with the smaller error. */
static void choose(affine_fit *best, const affine_fit *f, const int length)
{
    for (int v = 0; v < SIDE; v += LANES) {
        const vint better = vload(f->error + v) < vload(best->error + v);
#define CHOOSE(field) vstore(best->field + v, vselect(better, vload(f->field + v), vload(best->field + v)))
        CHOOSE(d), CHOOSE(m), CHOOSE(scales), CHOOSE(minimums), CHOOSE(error);
        for (int i = 0; i < length; i++)
            CHOOSE(number[i]);
    }
}

/* The factors of a = of_a * number and b = -of_b that give the values, for each run or, if `whole`, for each block. */
static void fit(const group *g, const numbers number, const lanes of_a, const lanes of_b, lanes first, lanes second,
                const int whole, const int length, const int runs)
{
    lanes sums[5];
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat factor = vload(of_a + v), b = -vload(of_b + v);
        vfloat sum[5][2] = {{vzero()}};
        for (int i = 0; i < length; i += 2)
            UNROLL for (int k = 0; k < 2; k++)
            {
                const vfloat x = vload(g->x[i + k] + v), weight = vload(g->weight[i + k] + v),
                             a = factor * vload(number[i + k] + v), wa = weight * a, wb = weight * b;
                sum[0][k] += wa * a;
                sum[1][k] += wa * b;
                sum[2][k] += wb * b;
                sum[3][k] += wa * x;
                sum[4][k] += wb * x;
            }
        for (int s = 0; s < 5; s++)
            vstore(sums[s] + v, sum[s][0] + sum[s][1]);
    }
    for (int s = 0; s < 5 && whole; s++)
        sum_of_blocks(sums[s], runs);
    for (int v = 0; v < SIDE; v += LANES) {
        vfloat of_first, of_second;
        solve_pair(vload(sums[0] + v), vload(sums[1] + v), vload(sums[2] + v), vload(sums[3] + v), vload(sums[4] + v),
                   &of_first, &of_second);
        vstore(first + v, of_first);
        vstore(second + v, of_second);
    }
}

static void affine_blocks(affine_fit *best, const group *g, const int levels, const int scale_levels, const search s,
                          const int length, const int runs)
{
    const vfloat most = vsplat((float)scale_levels);
    affine_fit next;
    lanes scale, minimum;
    affine_scale(g, scale, minimum, levels, s, length);
    largest_of_blocks(best->d, scale, runs);
    largest_of_blocks(best->m, minimum, runs);
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat d = half(vload(best->d + v) / most), m = half(vload(best->m + v) / most);
        vstore(best->d + v, d);
        vstore(best->m + v, m);
        vstore(best->scales + v, nearest(quotient(vload(scale + v), d), vzero(), most));
        vstore(best->minimums + v, nearest(quotient(vload(minimum + v), m), vzero(), most));
    }
    affine_numbers(best, g, levels, length, runs);
    for (int round = 0; round < 2; round++) {
        fit(g, best->number, best->d, best->m, scale, minimum, 0, length, runs);
        for (int v = 0; v < SIDE; v += LANES) {
            vstore(next.d + v, vload(best->d + v));
            vstore(next.m + v, vload(best->m + v));
            vstore(next.scales + v, nearest(finite_or_zero(vload(scale + v)), vzero(), most));
            vstore(next.minimums + v, nearest(finite_or_zero(vload(minimum + v)), vzero(), most));
        }
        affine_numbers(&next, g, levels, length, runs);
        choose(best, &next, length);
        fit(g, best->number, best->scales, best->minimums, scale, minimum, 1, length, runs);
        for (int v = 0; v < SIDE; v += LANES) {
            vstore(next.d + v, half(not_negative(vload(scale + v))));
            vstore(next.m + v, half(not_negative(vload(minimum + v))));
            vstore(next.scales + v, vload(best->scales + v));
            vstore(next.minimums + v, vload(best->minimums + v));
        }
        affine_numbers(&next, g, levels, length, runs);
        choose(best, &next, length);
    }
}

/* value = d * scale * number */
typedef struct symmetric_fit {
    lanes d, scales, error;
    numbers number;
} symmetric_fit;

static void symmetric_numbers(symmetric_fit *f, const group *g, const int lowest, const int length, const int runs)
{
    const vfloat low = vsplat((float)lowest), high = vsplat((float)(-lowest - 1));
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat wide = vload(f->d + v) * vload(f->scales + v);
        vfloat error[2] = {vzero(), vzero()};
        for (int i = 0; i < length; i += 2)
            UNROLL for (int k = 0; k < 2; k++)
            {
                const vfloat x = vload(g->x[i + k] + v), number = nearest(quotient(x, wide), low, high);
                const vfloat off = wide * number - x;
                vstore(f->number[i + k] + v, number);
                error[k] += vload(g->weight[i + k] + v) * (off * off);
            }
        vstore(f->error + v, error[0] + error[1]);
    }
    sum_of_blocks(f->error, runs);
}

/* The d of each block that gives the values by least squares, rounded to f16. */
static void fit_blocks(lanes d, const group *g, const numbers number, const lanes scales, const int length,
                       const int runs)
{
    lanes alongs, seconds;
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat scale = vload(scales + v);
        vfloat along[2] = {vzero(), vzero()}, second[2] = {vzero(), vzero()};
        for (int i = 0; i < length; i += 2)
            UNROLL for (int k = 0; k < 2; k++)
            {
                const vfloat step = scale * vload(number[i + k] + v), scaled = vload(g->weight[i + k] + v) * step;
                along[k] += scaled * vload(g->x[i + k] + v);
                second[k] += scaled * step;
            }
        vstore(alongs + v, along[0] + along[1]);
        vstore(seconds + v, second[0] + second[1]);
    }
    sum_of_blocks(alongs, runs);
    sum_of_blocks(seconds, runs);
    for (int v = 0; v < SIDE; v += LANES)
        vstore(d + v, half(quotient(vload(alongs + v), vload(seconds + v))));
}

/* d from the scales of the runs, the farthest of which becomes `lowest`; then the scales as whole numbers. */
static void scales_of_runs(lanes d, lanes scales, const int lowest, const int runs)
{
    const vfloat low = vsplat((float)lowest), high = vsplat((float)(-lowest - 1));
    extreme_of_blocks(d, scales, runs);
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat own = half(vload(d + v) / low);
        vstore(d + v, own);
        vstore(scales + v, nearest(quotient(vload(scales + v), own), low, high));
    }
}

static void symmetric_blocks(symmetric_fit *best, const group *g, const int lowest, const int scale_lowest,
                             const int length, const int runs)
{
    symmetric_fit next;
    symmetric_scale(g, best->scales, lowest, LITERAL(search){-0.9, 0.9, 19}, length);
    scales_of_runs(best->d, best->scales, scale_lowest, runs);
    memcpy(next.scales, best->scales, sizeof next.scales);
    symmetric_numbers(best, g, lowest, length, runs);
    for (int round = 0; round < 2; round++) {
        fit_blocks(next.d, g, best->number, best->scales, length, runs);
        symmetric_numbers(&next, g, lowest, length, runs);
        for (int v = 0; v < SIDE; v += LANES) {
            const vint better = vload(next.error + v) < vload(best->error + v);
            vstore(best->d + v, vselect(better, vload(next.d + v), vload(best->d + v)));
            vstore(best->error + v, vselect(better, vload(next.error + v), vload(best->error + v)));
            for (int i = 0; i < length; i++)
                vstore(best->number[i] + v, vselect(better, vload(next.number[i] + v), vload(best->number[i] + v)));
        }
    }
}

/* ---- Bytes of blocks */

INLINE void put_half(uint8_t *to, float x)
{
    const uint16_t bits = float_to_f16(x);
    memcpy(to, &bits, 2);
}

/* The inverse of reading a plane (layout.spread): each `run` bytes hold 8 / bits runs of `run` numbers, the first in the
 * lowest bits. Of the numbers, the bits from `from` on. */
static void put_plane(uint8_t *to, const uint8_t *number, const int count, const int run, const int bits,
                      const int from)
{
    const int each = 8 / bits, mask = (1 << bits) - 1;
    for (int first = 0; first < count; first += run * each, to += run)
        for (int i = 0; i < run; i++) {
            int packed = 0;
            UNROLL for (int k = 0; k < each; k++) packed |= (number[first + k * run + i] >> from & mask) << k * bits;
            to[i] = (uint8_t)packed;
        }
}

/* The numbers of the block in lanes first .. first + runs - 1, in order, plus `bias`. */
static void numbers_in_order(uint8_t *to, const numbers number, int first, float bias, const int length, const int runs)
{
    for (int run = 0; run < runs; run++)
        for (int i = 0; i < length; i++)
            to[run * length + i] = (uint8_t)(int)(number[i][first + run] + bias);
}

static void put_affine(uint8_t *to, const affine_fit *f, int first, const int type)
{
    const int length = type == Q2_K ? 16 : 32, runs = MOST_VALUES / length;
    uint8_t number[MOST_VALUES], scales[SIDE], minimums[SIDE];
    numbers_in_order(number, f->number, first, 0, length, runs);
    for (int i = 0; i < runs; i++) {
        scales[i] = (uint8_t)(int)f->scales[first + i];
        minimums[i] = (uint8_t)(int)f->minimums[first + i];
    }
    put_half(to + (type == Q2_K ? 80 : 0), f->d[first]);
    put_half(to + (type == Q2_K ? 82 : 2), f->m[first]);
    if (type == Q2_K) {
        for (int i = 0; i < runs; i++)
            to[i] = (uint8_t)(scales[i] | minimums[i] << 4);
        put_plane(to + 16, number, MOST_VALUES, 32, 2, 0);
        return;
    }
    for (int i = 0; i < 4; i++) { /* six bits each */
        to[4 + i] = (uint8_t)(scales[i] | (scales[4 + i] & 0x30) << 2);
        to[8 + i] = (uint8_t)(minimums[i] | (minimums[4 + i] & 0x30) << 2);
        to[12 + i] = (uint8_t)((scales[4 + i] & 15) | (minimums[4 + i] & 15) << 4);
    }
    put_plane(to + (type == Q5_K ? 48 : 16), number, MOST_VALUES, 32, 4, 0);
    if (type == Q5_K)
        put_plane(to + 16, number, MOST_VALUES, 32, 1, 4);
}

static void put_symmetric(uint8_t *to, const symmetric_fit *f, int first, const int type)
{
    uint8_t number[MOST_VALUES], scales[SIDE];
    numbers_in_order(number, f->number, first, type == Q3_K ? 4 : 32, 16, 16);
    for (int i = 0; i < SIDE; i++)
        scales[i] = (uint8_t)((int)f->scales[first + i] + (type == Q3_K ? 32 : 0));
    if (type == Q3_K) {
        put_plane(to, number, MOST_VALUES, 32, 1, 2);
        put_plane(to + 32, number, MOST_VALUES, 32, 2, 0);
        put_plane(to + 96, scales, SIDE, 8, 4, 0);
        put_plane(to + 104, scales, SIDE, 4, 2, 4);
        put_half(to + 108, f->d[first]);
        return;
    }
    put_plane(to, number, MOST_VALUES, 64, 4, 0);
    put_plane(to + 128, number, MOST_VALUES, 32, 2, 4);
    memcpy(to + 192, scales, SIDE);
    put_half(to + 208, f->d[first]);
}

/* ---- Types with 32 values in a block: a block is a run */

/* The inverse of a scale; 0 for 0, infinite for a tiny one. */
INLINE vfloat inverse(vfloat scale) { return (vfloat)((vint)(vsplat(1.0f) / scale) & (scale != vzero())); }

/* q4_0 to q5_1 without importance: as the gguf package does. */
static void simple_numbers(numbers number, lanes d, lanes m, const numbers x, const int levels, const int minimums)
{
    for (int v = 0; v < SIDE; v += LANES) {
        vfloat lowest = vload(x[0] + v), highest = lowest, scale = extreme_of(x, v, BLOCK);
        for (int i = 1; i < BLOCK; i++) { /* the first of equal ones */
            const vfloat value = vload(x[i] + v);
            lowest = vselect(value < lowest, value, lowest);
            highest = vselect(value > highest, value, highest);
        }
        scale = minimums ? (highest - lowest) / vsplat((float)(levels - 1)) : scale / vsplat((float)(-levels / 2));
        const vfloat factor = inverse(scale), add = vsplat(minimums ? 0.5f : (float)(levels / 2) + 0.5f);
        for (int i = 0; i < BLOCK; i++) {
            const vfloat value = vload(x[i] + v);
            const vfloat exact = finite_or_zero((minimums ? value - lowest : value) * factor + add);
            const vfloat held = vmin(vmax(exact, vzero()), vsplat((float)(levels - 1)));
            vstore(number[i] + v, vfrom_int(vcut_to_int(held)));
        }
        vstore(d + v, scale);
        vstore(m + v, lowest);
    }
}

/* The same types with importance. */
static void weighted_numbers(numbers number, lanes d, lanes m, const group *g, const int levels, const int minimums)
{
    const int middle = levels / 2;
    if (minimums)
        affine_scale(g, d, m, levels - 1, LITERAL(search){-1.0, 1.0, 21}, BLOCK);
    else
        symmetric_scale(g, d, -middle, LITERAL(search){-0.9, 0.9, 19}, BLOCK);
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat scale = half(vload(d + v)), minimum = minimums ? half(vload(m + v)) : vzero();
        const vfloat low = minimums ? vzero() : vsplat((float)-middle),
                     high = vsplat((float)(minimums ? levels - 1 : middle - 1));
        for (int i = 0; i < BLOCK; i++) {
            const vfloat x = vload(g->x[i] + v);
            const vfloat nearby = nearest(quotient(minimums ? x + minimum : x, scale), low, high);
            vstore(number[i] + v, minimums ? nearby : nearby + vsplat((float)middle));
        }
        vstore(d + v, scale);
        vstore(m + v, -minimum);
    }
}

static void put_few_bits(uint8_t *to, const numbers number, float d, float m, int first, const int levels,
                         const int minimums)
{
    uint8_t own[BLOCK];
    numbers_in_order(own, number, first, 0, BLOCK, 1);
    put_half(to, d);
    if (minimums)
        put_half(to + 2, m);
    to += minimums ? 4 : 2;
    if (levels == 32) {
        put_plane(to, own, BLOCK, 1, 1, 4);
        to += 4;
    }
    put_plane(to, own, BLOCK, 16, 4, 0);
}

/* q8_0 and q8_1. */
static void byte_numbers(numbers number, lanes d, const numbers x)
{
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat scale = vabs(extreme_of(x, v, BLOCK)) / vsplat(127.0f), factor = inverse(scale);
        for (int i = 0; i < BLOCK; i++) {
            const vfloat exact = finite_or_zero(vload(x[i] + v) * factor);
            const vint cut = vcut_to_int(exact);
            const vfloat rest = exact - vfrom_int(cut); /* exact; halves go away from zero */
            const vint whole = cut - (vint)(rest >= vsplat(0.5f)) + (vint)(rest <= vsplat(-0.5f));
            vstore(number[i] + v, vmin(vmax(vfrom_int(whole), vsplat(-127.0f)), vsplat(127.0f)));
        }
        vstore(d + v, scale);
    }
}

static void put_int8(uint8_t *to, const numbers number, float d, int first, int type)
{
    float sum = 0;
    put_half(to, d);
    to += type == Q8_1 ? 4 : 2;
    for (int i = 0; i < BLOCK; i++) {
        to[i] = (uint8_t)(int)number[i][first];
        sum += number[i][first];
    }
    if (type == Q8_1)
        put_half(to - 2, d * sum);
}

/* ---- Types whose numbers select uneven values */

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* The index of the nearest of these values; of two as near, the lower one. */
INLINE vint closest(vfloat x)
{
    vint index = vsplat_int(0);
    for (int i = 0; i < 15; i++)
        index -= (vint)(x > vsplat((float)(iq4_values[i] + iq4_values[i + 1]) * 0.5f));
    return index;
}

INLINE vfloat values_at(const float *table, vint index)
{
    vfloat found;
    for (int i = 0; i < LANES; i++)
        found[i] = table[index[i]];
    return found;
}

/* As symmetric_scale: those that map the extreme value to both ends of the table, and near them. */
static void uneven_scale(const group *g, lanes scales)
{
    float near[256], table[16]; /* of the whole numbers -128 .. 127, and of the indices */
    for (int i = 0; i < 16; i++)
        table[i] = iq4_values[i];
    for (int i = 0; i < 256; i += LANES) {
        vfloat whole;
        for (int k = 0; k < LANES; k++)
            whole[k] = (float)(i + k - 128);
        vstore(near + i, values_at(table, closest(whole)));
    }
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat extreme = extreme_of(g->x, v, BLOCK);
        vfloat best = vzero(), best_gain = vzero();
        for (int t = 0; t < 18; t++) {
            const int target = t < 15 ? iq4_values[0] - 7 + t : iq4_values[15] + 9 * (t - 16);
            const vfloat factor = quotient(vsplat((float)target), extreme);
            vfloat along[2] = {vzero(), vzero()}, second[2] = {vzero(), vzero()};
            for (int i = 0; i < BLOCK; i += 2)
                UNROLL for (int k = 0; k < 2; k++)
                {
                    const vfloat x = vload(g->x[i + k] + v),
                                 whole = nearest(x * factor, vsplat(-128.0f), vsplat(127.0f));
                    const vfloat number = values_at(near, vcut_to_int(whole) + vsplat_int(128)),
                                 scaled = vload(g->weight[i + k] + v) * number;
                    along[k] += scaled * x;
                    second[k] += scaled * number;
                }
            const vfloat sum = along[0] + along[1], scale = quotient(sum, second[0] + second[1]), gain = scale * sum;
            const vint better = gain > best_gain;
            best = vselect(better, scale, best);
            best_gain = vselect(better, gain, best_gain);
        }
        vstore(scales + v, best);
    }
}

/* The indices of the values nearest to x / (d * scale); or, if `values`, the values themselves. */
static void uneven_numbers(numbers number, const group *g, const lanes d, const lanes scales, const int values)
{
    float table[16];
    for (int i = 0; i < 16; i++)
        table[i] = iq4_values[i];
    for (int v = 0; v < SIDE; v += LANES) {
        const vfloat wide = scales ? vload(d + v) * vload(scales + v) : vload(d + v);
        for (int i = 0; i < BLOCK; i++) {
            const vint index = closest(quotient(vload(g->x[i] + v), wide));
            vstore(number[i] + v, values ? values_at(table, index) : vfrom_int(index));
        }
    }
}

/* The exponent is that of the largest value minus 2, the exponent of the largest number of E2M1. */
static void put_mxfp4(uint8_t *to, const numbers x, int first)
{
    static const double between[7] = {0.5, 1.5, 2.5, 3.5, 5, 7, 10}; /* numbers are doubled */
    uint8_t own[BLOCK];
    union {
        float value;
        uint32_t bits;
    } largest = {0};
    for (int i = 0; i < BLOCK; i++) {
        const float size = __builtin_fabsf(x[i][first]);
        largest.value = size > largest.value ? size : largest.value;
    }
    const int biased = (int)(largest.bits >> 23), exponent = biased > 2 ? biased - 2 : 0;
    const union {
        uint64_t bits;
        double value;
    } power = {(uint64_t)(1023 + 128 - exponent) << 52};
    for (int i = 0; i < BLOCK; i++) {
        const double number = (double)x[i][first] * power.value, size = __builtin_fabs(number);
        int index = 0;
        UNROLL for (int k = 0; k < 7; k++) index += between[k] < size;
        own[i] = (uint8_t)(index | (number < 0 && index ? 8 : 0));
    }
    to[0] = (uint8_t)exponent;
    put_plane(to + 1, own, BLOCK, 16, 4, 0);
}

static void put_q8_k(uint8_t *to, const float *x)
{
    float extreme = x[0];
    for (int i = 1; i < MOST_VALUES; i++)
        extreme = __builtin_fabsf(x[i]) > __builtin_fabsf(extreme) ? x[i] : extreme;
    const float scale = extreme / -127.0f;
    memcpy(to, &scale, 4);
    for (int run = 0; run < SIDE; run++) {
        int16_t sum = 0;
        for (int i = 0; i < RUN; i += LANES) {
            const vfloat exact = quotient(vload(x + run * RUN + i), vsplat(scale));
            const vint number = vcut_to_int(nearest(exact, vsplat(-127.0f), vsplat(127.0f)));
            for (int k = 0; k < LANES; k++) {
                to[4 + run * RUN + i + k] = (uint8_t)number[k];
                sum = (int16_t)(sum + number[k]);
            }
        }
        memcpy(to + 4 + MOST_VALUES + 2 * run, &sum, 2);
    }
}

/* ---- Groups of blocks of each type */

typedef struct task {
    uint8_t *blocks;
    const float *x, *importance;
    int64_t count; /* blocks of a row */
} task;

/* `count` blocks from block `first` on, and zeros. */
static void load_group(numbers to, const float *from, int64_t count, const int length, const int runs)
{
    for (int run = 0; run < SIDE; run++)
        for (int i = 0; i < length; i++)
            to[i][run] = run / runs < count ? from[run * length + i] : 0.0f;
}

static void load_importance(numbers to, const task *t, int64_t first, const int length, const int runs)
{
    for (int block = 0; block < SIDE / runs; block++) {
        const float *from = t->importance + (first + block) % t->count * length * runs;
        for (int run = 0; run < runs; run++)
            for (int i = 0; i < length; i++)
                to[i][block * runs + run] = from[run * length + i];
    }
}

/* power: of the weights' growth; 0 without weights. */
static void load(group *g, const task *t, int64_t first, int64_t count, const int power, const int length,
                 const int runs)
{
    load_group(g->x, t->x + first * length * runs, count, length, runs);
    if (power == 0)
        return;
    if (t->importance) {
        numbers importance;
        load_importance(importance, t, first, length, runs);
        weigh(g, importance, power, length, runs);
    } else
        weigh(g, NULL, power, length, runs);
}

typedef void group_function(const task *t, int64_t first, int64_t count);

#define AFFINE(name, code, levels, scale_levels, from, to, tries, length)                                              \
    static void name(const task *t, int64_t first, int64_t count)                                                      \
    {                                                                                                                  \
        enum { RUNS = MOST_VALUES / length };                                                                          \
        group g;                                                                                                       \
        affine_fit fitted;                                                                                             \
        load(&g, t, first, count, 1, length, RUNS);                                                                    \
        affine_blocks(&fitted, &g, levels, scale_levels, LITERAL(search){from, to, tries}, length, RUNS);              \
        for (int b = 0; b < count; b++)                                                                                \
            put_affine(t->blocks + (first + b) * type_of(code).nbytes, &fitted, b * RUNS, code);                       \
    }
AFFINE(group_q2_k, Q2_K, 3, 15, -0.5, 1.0, 16, 16)
AFFINE(group_q4_k, Q4_K, 15, 63, -1.0, 1.0, 21, 32)
AFFINE(group_q5_k, Q5_K, 31, 63, -0.5, 1.0, 16, 32)

#define SYMMETRIC(name, code, lowest, scale_lowest)                                                                    \
    static void name(const task *t, int64_t first, int64_t count)                                                      \
    {                                                                                                                  \
        group g;                                                                                                       \
        symmetric_fit fitted;                                                                                          \
        load(&g, t, first, count, 2, RUN, SIDE);                                                                       \
        symmetric_blocks(&fitted, &g, lowest, scale_lowest, RUN, SIDE);                                                \
        put_symmetric(t->blocks + first * type_of(code).nbytes, &fitted, 0, code);                                     \
    }
SYMMETRIC(group_q3_k, Q3_K, -4, -32)
SYMMETRIC(group_q6_k, Q6_K, -32, -128)

#define FEW_BITS(name, code, levels, minimums)                                                                         \
    static void name(const task *t, int64_t first, int64_t count)                                                      \
    {                                                                                                                  \
        group g;                                                                                                       \
        lanes d, m;                                                                                                    \
        numbers number;                                                                                                \
        load(&g, t, first, count, t->importance != NULL, BLOCK, 1);                                                    \
        if (t->importance)                                                                                             \
            weighted_numbers(number, d, m, &g, levels, minimums);                                                      \
        else                                                                                                           \
            simple_numbers(number, d, m, g.x, levels, minimums);                                                       \
        for (int b = 0; b < count; b++)                                                                                \
            put_few_bits(t->blocks + (first + b) * type_of(code).nbytes, number, d[b], m[b], b, levels, minimums);     \
    }
FEW_BITS(group_q4_0, Q4_0, 16, 0)
FEW_BITS(group_q4_1, Q4_1, 16, 1)
FEW_BITS(group_q5_0, Q5_0, 32, 0)
FEW_BITS(group_q5_1, Q5_1, 32, 1)

INLINE void group_bytes(const task *t, int64_t first, int64_t count, const int type)
{
    numbers x, number;
    lanes d;
    load_group(x, t->x + first * BLOCK, count, BLOCK, 1);
    byte_numbers(number, d, x);
    for (int b = 0; b < count; b++)
        put_int8(t->blocks + (first + b) * type_of(type).nbytes, number, d[b], b, type);
}

static void group_q8_0(const task *t, int64_t first, int64_t count) { group_bytes(t, first, count, Q8_0); }
static void group_q8_1(const task *t, int64_t first, int64_t count) { group_bytes(t, first, count, Q8_1); }

static void group_q8_k(const task *t, int64_t first, int64_t count)
{
    (void)count; /* one */
    put_q8_k(t->blocks + first * type_of(Q8_K).nbytes, t->x + first * MOST_VALUES);
}

static void group_iq4_nl(const task *t, int64_t first, int64_t count)
{
    group g;
    lanes d;
    numbers number;
    load(&g, t, first, count, 2, BLOCK, 1);
    uneven_scale(&g, d);
    for (int v = 0; v < SIDE; v += LANES)
        vstore(d + v, half(vload(d + v)));
    uneven_numbers(number, &g, d, NULL, 0);
    for (int b = 0; b < count; b++) {
        uint8_t own[BLOCK], *to = t->blocks + (first + b) * type_of(IQ4_NL).nbytes;
        numbers_in_order(own, number, b, 0, BLOCK, 1);
        put_half(to, d[b]);
        put_plane(to + 2, own, BLOCK, 16, 4, 0);
    }
}

static void group_iq4_xs(const task *t, int64_t first, int64_t count)
{
    enum { RUNS = MOST_VALUES / BLOCK };
    group g;
    lanes d, scales;
    numbers number;
    load(&g, t, first, count, 2, BLOCK, RUNS);
    uneven_scale(&g, scales);
    scales_of_runs(d, scales, -32, RUNS);
    for (int round = 0; round < 2; round++) {
        uneven_numbers(number, &g, d, scales, 1);
        fit_blocks(d, &g, number, scales, BLOCK, RUNS);
    }
    uneven_numbers(number, &g, d, scales, 0);
    for (int b = 0; b < count; b++) {
        uint8_t own[MOST_VALUES], six[RUNS], *to = t->blocks + (first + b) * type_of(IQ4_XS).nbytes;
        for (int i = 0; i < RUNS; i++)
            six[i] = (uint8_t)((int)scales[b * RUNS + i] + 32);
        numbers_in_order(own, number, b * RUNS, 0, BLOCK, RUNS);
        put_half(to, d[b * RUNS]);
        put_plane(to + 2, six, RUNS, 1, 2, 4);
        put_plane(to + 4, six, RUNS, 1, 4, 0);
        put_plane(to + 8, own, MOST_VALUES, 16, 4, 0);
    }
}

static void group_mxfp4(const task *t, int64_t first, int64_t count)
{
    numbers x;
    load_group(x, t->x + first * BLOCK, count, BLOCK, 1);
    for (int b = 0; b < count; b++)
        put_mxfp4(t->blocks + (first + b) * type_of(MXFP4).nbytes, x, b);
}

/* What quantises a group of blocks of a type, and how many blocks these are. */
static group_function *function_of(int64_t type, int *together)
{
    *together = SIDE;
    switch (type) {
    case Q4_0:
        return group_q4_0;
    case Q4_1:
        return group_q4_1;
    case Q5_0:
        return group_q5_0;
    case Q5_1:
        return group_q5_1;
    case Q8_0:
        return group_q8_0;
    case Q8_1:
        return group_q8_1;
    case IQ4_NL:
        return group_iq4_nl;
    case MXFP4:
        return group_mxfp4;
    }
    *together = 2;
    switch (type) {
    case Q4_K:
        return group_q4_k;
    case Q5_K:
        return group_q5_k;
    case IQ4_XS:
        return group_iq4_xs;
    }
    *together = 1;
    switch (type) {
    case Q2_K:
        return group_q2_k;
    case Q3_K:
        return group_q3_k;
    case Q6_K:
        return group_q6_k;
    case Q8_K:
        return group_q8_k;
    }
    return NULL;
}

KERNEL(quantize_blocks)
{
    const int64_t rows = record->dims[quantize_blocks_rows], columns = record->dims[quantize_blocks_columns],
                  type = record->dims[quantize_blocks_type];
    int together;
    int64_t first, last;
    if (rows == 0 || columns == 0)
        return KERNEL_OK;
    group_function *const quantize = function_of(type, &together);
    if (!quantize || columns % type_of(type).values)
        return KERNEL_BAD_ARGUMENT;
    const task t = {record->pointers[quantize_blocks_blocks], record->pointers[quantize_blocks_x],
                    record->pointers[quantize_blocks_importance], columns / type_of(type).values};
    worker_share(rows * t.count, together, worker, workers, &first, &last);
    for (; first < last; first += together)
        quantize(&t, first, last - first < together ? last - first : together);
    return KERNEL_OK;
}
#endif
