/* Discrete Fourier transforms along a dim: passes by radices in shared memory, in an order that needs no reversal (Stockham,
 * 1966; see Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992, 1.7). A block has several transforms
 * side by side. A longer one is two rounds of shorter ones with factors between them (the four steps of Bailey, 1990; Van
 * Loan 3.3). A real transform of an even size is a complex one of half the size, of (even, odd) elements. All factors are
 * the record's roots: none is a product of others. */
#include "gpu.h"

#define BLOCK_LENGTH 4096 /* that a block transforms: two copies are 64 KiB, which each card has for a block */
#define MOST_LENGTH (1 << 20)
#define LENGTH MAX(1, CHOOSE(kind, size / 2, size))
#define COUNT (outer * inner)
/* Transforms side by side: an odd number, so that the elements of one lie in different banks of shared memory. */
#define SIDE_BY_SIDE(length, count) (2 * MIN(1024 / (length), (count) / 512) + 1)
#define SHARED_BYTES(length, lanes) (16 * (length) * (lanes))
#define OF_LONG(number) CHOOSE(LENGTH > BLOCK_LENGTH, number, 0)

enum { COMPLEX, REAL_TO_HALF, REAL_TO_WHOLE, HALF_TO_REAL };

struct alignas(8) complex {
    float re, im;
};

DEVICE complex plus(complex a, complex b) { return {a.re + b.re, a.im + b.im}; }
DEVICE complex minus(complex a, complex b) { return {a.re - b.re, a.im - b.im}; }
DEVICE complex times_minus_i(complex a) { return {a.im, -a.re}; }
DEVICE complex turned(complex a, float cosine, float sine) /* by -angle */
{
    return {fmaf(a.re, cosine, a.im * sine), fmaf(a.im, cosine, a.re * -sine)};
}

/* ---- Short transforms in registers */

DEVICE void four(complex *a)
{
    const complex even = plus(a[0], a[2]), odd = plus(a[1], a[3]);
    const complex rest = minus(a[0], a[2]), other = times_minus_i(minus(a[1], a[3]));
    a[0] = plus(even, odd), a[2] = minus(even, odd);
    a[1] = plus(rest, other), a[3] = minus(rest, other);
}

/* Of an odd number, by the sums and differences of pairs. turns (RADIX, 2): cos and sin of 2 pi i / RADIX */
template <int RADIX> DEVICE void odd_transform(complex *a, const float *turns)
{
    complex sums[RADIX / 2 + 1], rests[RADIX / 2 + 1];
    const complex first = a[0];
#pragma unroll
    for (int k = 1; k <= RADIX / 2; k++) {
        sums[k] = plus(a[k], a[RADIX - k]);
        rests[k] = minus(a[k], a[RADIX - k]);
        a[0] = plus(a[0], sums[k]);
    }
#pragma unroll
    for (int j = 1; j <= RADIX / 2; j++) {
        complex m = first, n = {0, 0};
#pragma unroll
        for (int k = 1; k <= RADIX / 2; k++) {
            const float cosine = turns[2 * (j * k % RADIX)], sine = turns[2 * (j * k % RADIX) + 1];
            m = {fmaf(sums[k].re, cosine, m.re), fmaf(sums[k].im, cosine, m.im)};
            n = {fmaf(rests[k].im, sine, n.re), fmaf(rests[k].re, -sine, n.im)};
        }
        a[j] = plus(m, n), a[RADIX - j] = minus(m, n);
    }
}

template <int RADIX> DEVICE void small_transform(complex *a, const float *turns)
{
    if constexpr (RADIX == 2) {
        const complex sum = plus(a[0], a[1]);
        a[1] = minus(a[0], a[1]);
        a[0] = sum;
    } else if constexpr (RADIX == 4) {
        four(a);
    } else if constexpr (RADIX == 8) {
        const float half = 0.707106781f; /* cos and sin of 45 degrees */
        complex sums[4], rests[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            sums[k] = plus(a[k], a[k + 4]);
            rests[k] = minus(a[k], a[k + 4]);
        }
        rests[1] = {(rests[1].re + rests[1].im) * half, (rests[1].im - rests[1].re) * half};
        rests[2] = times_minus_i(rests[2]);
        rests[3] = {(rests[3].im - rests[3].re) * half, (rests[3].re + rests[3].im) * -half};
        four(sums);
        four(rests);
#pragma unroll
        for (int k = 0; k < 4; k++)
            a[2 * k] = sums[k], a[2 * k + 1] = rests[k];
    } else {
        odd_transform<RADIX>(a, turns);
    }
}

/* ---- Transforms in shared memory */

DEVICE int radix_of(int length)
{
    return length % 8 == 0    ? 8
           : length % 4 == 0  ? 4
           : length % 2 == 0  ? 2
           : length % 3 == 0  ? 3
           : length % 5 == 0  ? 5
           : length % 7 == 0  ? 7
           : length % 11 == 0 ? 11
           : length % 13 == 0 ? 13
                              : 0;
}

/* One pass over elements of which transforms of RADIX * parts are left, `step` of them side by side. */
template <int RADIX>
DEVICE void pass(complex *to, const complex *from, const float *roots, int size, int parts, int step)
{
    const int count = parts * step, root_step = size / (RADIX * parts);
    float turns[2 * RADIX];
#pragma unroll
    for (int k = 0; k < 2 * RADIX; k++)
        turns[k] = RADIX % 2 ? roots[size / RADIX * (k / 2) * 2 + k % 2] : 0;
    FOR_THREADS(i, count)
    {
        const int at = (int)i, p = at / step, q = at - p * step;
        complex a[RADIX];
#pragma unroll
        for (int k = 0; k < RADIX; k++)
            a[k] = from[at + count * k];
        small_transform<RADIX>(a, turns);
#pragma unroll
        for (int k = 0; k < RADIX; k++) {
            const float *root = roots + 2 * root_step * p * k;
            to[q + step * (RADIX * p + k)] = k ? turned(a[k], root[0], root[1]) : a[k];
        }
    }
    __syncthreads();
}

/* Transforms of `length`, `lanes` side by side, from `now`, with `next` to work in. Returns where the results are. All
 * threads come; `now` is complete. */
DEVICE const complex *all_passes(complex *now, complex *next, const float *roots, int size, int length, int lanes)
{
    for (int left = length, step = lanes; left > 1;) {
        const int radix = radix_of(left), parts = left / radix;
        switch (radix) {
        case 2:
            pass<2>(next, now, roots, size, parts, step);
            break;
        case 3:
            pass<3>(next, now, roots, size, parts, step);
            break;
        case 4:
            pass<4>(next, now, roots, size, parts, step);
            break;
        case 5:
            pass<5>(next, now, roots, size, parts, step);
            break;
        case 7:
            pass<7>(next, now, roots, size, parts, step);
            break;
        case 8:
            pass<8>(next, now, roots, size, parts, step);
            break;
        case 11:
            pass<11>(next, now, roots, size, parts, step);
            break;
        default:
            pass<13>(next, now, roots, size, parts, step);
        }
        complex *const done = next;
        next = now;
        now = done;
        left = parts;
        step *= radix;
    }
    return now;
}

/* ---- What comes in and what goes out */

struct places {
    int64_t outer, inner, step; /* strides, in elements */
};

struct fourier {
    const float *from, *roots;
    float *to, scale, middle, sign; /* sign: of imaginary parts, -1 for the transform with exp(+...) */
    int64_t kind, inner, count;
    int size, length; /* of the complex transform: size or its half */
    places x, y;
};

/* False for a bad record. */
DEVICE bool read_record(fourier *f, const launch &record)
{
    const int64_t *d = record.dims, kind = d[fourier_f32_kind], size = d[fourier_f32_size];
    const int64_t length = kind ? size / 2 : size;
    if (kind < COMPLEX || kind > HALF_TO_REAL || size < 1 || (kind && size % 2) || length > MOST_LENGTH ||
        d[fourier_f32_workspaces] < 1)
        return false;
    int left = (int)length;
    while (left > 1 && radix_of(left))
        left /= radix_of(left);
    f->from = (const float *)record.pointers[fourier_f32_x];
    f->roots = (const float *)record.pointers[fourier_f32_roots];
    f->to = (float *)record.pointers[fourier_f32_y];
    f->scale = record.floats[fourier_f32_scale];
    f->middle = kind == REAL_TO_WHOLE ? 1 : record.floats[fourier_f32_middle];
    f->sign = d[fourier_f32_inverse] ? -1.0f : 1.0f;
    f->kind = kind;
    f->inner = d[fourier_f32_inner];
    f->count = d[fourier_f32_outer] * f->inner;
    f->size = (int)size;
    f->length = (int)length;
    f->x = {d[fourier_f32_x_outer], d[fourier_f32_x_inner], d[fourier_f32_x_step]};
    f->y = {d[fourier_f32_y_outer], d[fourier_f32_y_inner], d[fourier_f32_y_step]};
    return left == 1;
}

DEVICE int64_t begin_of(const fourier &f, const places &p, int64_t row)
{
    const int64_t outer = quotient(row, f.inner);
    return outer * p.outer + (row - outer * f.inner) * p.inner;
}

/* Frequency k of the first half of those of a real signal. */
DEVICE complex half_spectrum(const fourier &f, const float *x, int k)
{
    const float *at = x + 2 * k * f.x.step;
    if (k == 0 || k == f.length)
        return {at[0], 0};
    return {f.middle * at[0], f.middle * at[1]};
}

/* Element k of the complex transform of a row. */
DEVICE complex element(const fourier &f, int64_t row, int k)
{
    const float *x = f.from + begin_of(f, f.x, row) * (f.kind == COMPLEX || f.kind == HALF_TO_REAL ? 2 : 1);
    if (f.kind == COMPLEX) {
        const float *at = x + 2 * k * f.x.step;
        return {at[0], f.sign * at[1]};
    }
    if (f.kind != HALF_TO_REAL)
        return {x[2 * k * f.x.step], x[(2 * k + 1) * f.x.step]};
    /* The even elements of the signal are the transform of a + conj(b), the odd ones that of (a - conj(b)) turned. */
    const complex a = half_spectrum(f, x, k), b = half_spectrum(f, x, f.length - k);
    const complex even = {a.re + b.re, a.im - b.im},
                  odd = turned({a.re - b.re, a.im + b.im}, f.roots[2 * k], -f.roots[2 * k + 1]);
    return {even.re - odd.im, -(even.im + odd.re)}; /* conjugated, for the transform with exp(+...) */
}

/* Element k of what the complex transform of a row gives, where that is nearly the result. */
DEVICE void put(const fourier &f, int64_t row, int k, complex z)
{
    float *y = f.to + begin_of(f, f.y, row) * (f.kind == COMPLEX ? 2 : 1);
    if (f.kind == COMPLEX) {
        float *at = y + 2 * k * f.y.step;
        at[0] = f.scale * z.re, at[1] = f.scale * (f.sign * z.im);
    } else {
        y[2 * k * f.y.step] = f.scale * z.re, y[(2 * k + 1) * f.y.step] = f.scale * -z.im;
    }
}

/* Frequency k of a real row, 0 .. length, from elements k and length - k of the transform of its (even, odd) elements. */
DEVICE void put_real(const fourier &f, int64_t row, int k, complex a, complex b)
{
    const complex even = {0.5f * (a.re + b.re), 0.5f * (a.im - b.im)},
                  odd = {0.5f * (a.im + b.im), 0.5f * (b.re - a.re)};
    const complex z = plus(even, turned(odd, f.roots[2 * k], f.roots[2 * k + 1]));
    const bool between = k > 0 && k < f.length;
    const float factor = between ? f.scale * f.middle : f.scale, re = factor * z.re;
    const float im = between ? factor * (f.sign * z.im) : 0;
    float *y = f.to + 2 * begin_of(f, f.y, row), *at = y + 2 * k * f.y.step;
    at[0] = re, at[1] = im;
    if (f.kind == REAL_TO_WHOLE && between) {
        at = y + 2 * (f.size - k) * f.y.step;
        at[0] = re, at[1] = -im;
    }
}

/* ---- Transforms longer than a block has room for: `first` times `second` elements. The scratch memory has a row of `length`
 * for each, and where real ones are taken apart another. */

DEVICE void split(int length, int *first, int *second)
{
    const int radices[] = {13, 11, 7, 5, 3, 2};
    *first = *second = 1;
    for (int i = 0; i < 6; i++)
        for (; length % radices[i] == 0; length /= radices[i])
            *(*first < *second ? first : second) *= radices[i];
}

SCRATCH(fourier_f32, OF_LONG(8 * COUNT * LENGTH * (1 + CHOOSE(kind % 3, 1, 0))))

STEP(fourier_f32, 1, OF_LONG(PARTS(COUNT *LENGTH, 2048)), 256, SHARED_BYTES(BLOCK_LENGTH, 1))
{
    DYNAMIC_SHARED(complex, shared);
    fourier f;
    int first, second;
    if (!read_record(&f, record)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    split(f.length, &first, &second);
    const int lanes = MIN(SIDE_BY_SIDE(first, 1 << 20), second), groups = PARTS(second, lanes);
    FOR_EACH_BLOCK(group, f.count * groups)
    {
        const int64_t row = group / groups;
        const int begin = (int)(group - row * groups) * lanes;
        FOR_THREADS(i, first * lanes)
        {
            const int k = (int)i / lanes, column = begin + (int)i - k * lanes;
            shared[i] = column < second ? element(f, row, k * second + column) : complex{0, 0};
        }
        __syncthreads();
        const complex *done = all_passes(shared, shared + first * lanes, f.roots, f.size, first, lanes);
        complex *to = (complex *)scratch + row * f.length;
        FOR_THREADS(i, first * lanes)
        {
            const int k = (int)i / lanes, column = begin + (int)i - k * lanes;
            const float *root = f.roots + 2 * (f.size / f.length) * (k * column);
            if (column < second)
                to[k * second + column] = turned(done[i], root[0], root[1]);
        }
        __syncthreads();
    }
}

STEP(fourier_f32, 2, OF_LONG(PARTS(COUNT *LENGTH, 2048)), 256, SHARED_BYTES(BLOCK_LENGTH, 1))
{
    DYNAMIC_SHARED(complex, shared);
    fourier f;
    int first, second;
    if (failed || !read_record(&f, record))
        return;
    split(f.length, &first, &second);
    const int lanes = MIN(SIDE_BY_SIDE(second, 1 << 20), first), groups = PARTS(first, lanes);
    FOR_EACH_BLOCK(group, f.count * groups)
    {
        const int64_t row = group / groups;
        const int begin = (int)(group - row * groups) * lanes;
        const complex *from = (const complex *)scratch + row * f.length;
        FOR_THREADS(i, second * lanes)
        {
            const int lane = (int)i / second, k = (int)i - lane * second;
            shared[k * lanes + lane] = begin + lane < first ? from[(begin + lane) * second + k] : complex{0, 0};
        }
        __syncthreads();
        const complex *done = all_passes(shared, shared + second * lanes, f.roots, f.size, second, lanes);
        complex *to = (complex *)scratch + (f.count + row) * f.length;
        FOR_THREADS(i, second * lanes)
        {
            const int k = (int)i / lanes, at = begin + (int)i - k * lanes;
            if (at >= first)
                continue;
            if (f.kind == COMPLEX || f.kind == HALF_TO_REAL)
                put(f, row, k * first + at, done[i]);
            else
                to[k * first + at] = done[i];
        }
        __syncthreads();
    }
}

/* ---- The others, and the last step of long real ones */

KERNEL(fourier_f32,
       CHOOSE(LENGTH > BLOCK_LENGTH, CHOOSE(kind % 3, PARTS(COUNT *LENGTH, 256), 0),
              PARTS(COUNT, SIDE_BY_SIDE(LENGTH, COUNT))),
       256, CHOOSE(LENGTH > BLOCK_LENGTH, 0, SHARED_BYTES(LENGTH, SIDE_BY_SIDE(LENGTH, COUNT))))
{
    DYNAMIC_SHARED(complex, shared);
    fourier f;
    if (failed)
        return;
    if (!read_record(&f, record)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int length = f.length, frequencies = length + 1;
    if (length > BLOCK_LENGTH) {
        FOR_EACH(i, f.count * frequencies)
        {
            const int64_t row = quotient(i, frequencies);
            const int k = (int)(i - row * frequencies);
            const complex *z = (const complex *)scratch + (f.count + row) * length;
            put_real(f, row, k, z[k < length ? k : 0], z[k ? length - k : 0]);
        }
        return;
    }
    const int lanes = (int)SIDE_BY_SIDE(length, f.count);
    const bool is_real = f.kind == REAL_TO_HALF || f.kind == REAL_TO_WHOLE;
    FOR_EACH_BLOCK(group, PARTS(f.count, lanes))
    {
        const int64_t begin = group * lanes;
        FOR_THREADS(i, length * lanes)
        { /* neighbours in memory by neighbouring threads */
            const int lane = f.x.step == 1 ? (int)i / length : (int)i % lanes;
            const int k = f.x.step == 1 ? (int)i - lane * length : (int)i / lanes;
            shared[k * lanes + lane] = begin + lane < f.count ? element(f, begin + lane, k) : complex{0, 0};
        }
        __syncthreads();
        const complex *done = all_passes(shared, shared + length * lanes, f.roots, f.size, length, lanes);
        const int results = is_real ? frequencies : length;
        FOR_THREADS(i, results * lanes)
        {
            const int lane = f.y.step == 1 ? (int)i / results : (int)i % lanes;
            const int k = f.y.step == 1 ? (int)i - lane * results : (int)i / lanes;
            if (begin + lane >= f.count)
                continue;
            if (is_real)
                put_real(f, begin + lane, k, done[(k < length ? k : 0) * lanes + lane],
                         done[(k ? length - k : 0) * lanes + lane]);
            else
                put(f, begin + lane, k, done[k * lanes + lane]);
        }
        __syncthreads();
    }
}

/* ---- For transforms of other lengths (pyapp/engine/claims/fourier.py) */

KERNEL(multiply_complex_f32, PARTS(outer *y_size *inner, 256), 256, 0)
{
    const int64_t *d = record.dims, x_size = d[multiply_complex_f32_x_size], y_size = d[multiply_complex_f32_y_size];
    const int64_t inner = d[multiply_complex_f32_inner];
    const float *x = (const float *)record.pointers[multiply_complex_f32_x];
    const float *factors = (const float *)record.pointers[multiply_complex_f32_factors];
    float *y = (float *)record.pointers[multiply_complex_f32_y], scale = record.floats[multiply_complex_f32_scale];
    FOR_EACH(i, d[multiply_complex_f32_outer] * y_size * inner)
    {
        const int64_t row = quotient(i, inner), column = i - row * inner, group = quotient(row, y_size);
        const int64_t k = row - group * y_size, at = (group * x_size + k) * inner + column;
        complex z = {0, 0};
        if (k < x_size)
            z = turned({x[2 * at], x[2 * at + 1]}, factors[2 * k], -factors[2 * k + 1]);
        y[2 * i] = scale * z.re;
        y[2 * i + 1] = scale * z.im;
    }
}
