/* Discrete Fourier transforms along a dim. Lanes are transforms (fourier_passes.h); a real transform of an even size is a
 * complex one of half the size, of (even, odd) elements.
 */
#if !defined(__wasm__) /* there NumPy computes them: code is downloaded */
#define LARGEST_RADIX 13
#include "fourier_passes.h"

enum { COMPLEX, REAL_TO_HALF, REAL_TO_WHOLE, HALF_TO_REAL };

typedef struct places {
    int64_t outer, inner, step; /* strides, in elements */
} places;

typedef struct fourier {
    int64_t kind, inverse, count, inner, size;
    places x, y;
    const float *from;
    float *to, scale, middle;
    stages s;
} fourier;

/* Where the lanes' transforms begin, in elements; beyond the last one: that one again. */
static void begin_of(int64_t at[LANES], const fourier *f, const places *p, int64_t first)
{
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t row = first + lane < f->count ? first + lane : f->count - 1;
        at[lane] = row / f->inner * p->outer + row % f->inner * p->inner;
    }
}
static int are_neighbours(const int64_t at[LANES])
{
    int apart = 0;
    for (int lane = 1; lane < LANES; lane++)
        apart |= at[lane] != at[0] + lane;
    return !apart;
}

/* Floats 0 .. n - 1 of each lane's elements, which have `parts` floats each, to vectors; float i goes to i ^ swap. */
static void gather(float *to, const fourier *f, int64_t first, int64_t n, int64_t parts, int64_t swap)
{
    int64_t at[LANES], i = 0;
    begin_of(at, f, &f->x, first);
    if (f->x.step == 1) {
        for (; i + 4 <= n; i += 4)
            for (int lane = 0; lane < LANES; lane += 4) {
                quad four[4];
                UNROLL for (int j = 0; j < 4; j++) four[j] = quad_at(f->from + parts * at[lane + j], i, KIND_F32);
                transpose4(&four[0], &four[1], &four[2], &four[3]);
                UNROLL for (int j = 0; j < 4; j++) * (quad_unaligned *)(to + ((i + j) ^ swap) * LANES + lane) = four[j];
            }
    } else if (are_neighbours(at) && parts == 2) {
        for (; i < n; i += 2) {
            const float *from = f->from + 2 * (at[0] + i / 2 * f->x.step);
            for (int lane = 0; lane < LANES; lane++) {
                to[(i ^ swap) * LANES + lane] = from[2 * lane];
                to[((i + 1) ^ swap) * LANES + lane] = from[2 * lane + 1];
            }
        }
    } else if (are_neighbours(at)) {
        for (; i < n; i++)
            vstore(to + (i ^ swap) * LANES, vload(f->from + at[0] + i * f->x.step));
    }
    for (; i < n; i++)
        for (int lane = 0; lane < LANES; lane++)
            to[(i ^ swap) * LANES + lane] = f->from[parts * (at[lane] + i / parts * f->x.step) + i % parts];
}

/* The other way, of the first `lanes` lanes. */
static void scatter(const float *from, const fourier *f, int64_t first, int64_t n, int64_t parts, int64_t swap,
                    int lanes)
{
    int64_t at[LANES], i = 0;
    begin_of(at, f, &f->y, first);
    if (f->y.step == 1 && lanes == LANES) {
        for (; i + 4 <= n; i += 4)
            for (int lane = 0; lane < LANES; lane += 4) {
                quad four[4];
                UNROLL for (int j = 0; j < 4; j++) four[j] = quad_at(from + ((i + j) ^ swap) * LANES, lane, KIND_F32);
                transpose4(&four[0], &four[1], &four[2], &four[3]);
                UNROLL for (int j = 0; j < 4; j++) * (quad_unaligned *)(f->to + parts * at[lane + j] + i) = four[j];
            }
    } else if (lanes == LANES && are_neighbours(at) && parts == 2) {
        for (; i < n; i += 2) {
            float *to = f->to + 2 * (at[0] + i / 2 * f->y.step);
            for (int lane = 0; lane < LANES; lane++) {
                to[2 * lane] = from[(i ^ swap) * LANES + lane];
                to[2 * lane + 1] = from[((i + 1) ^ swap) * LANES + lane];
            }
        }
    } else if (lanes == LANES && are_neighbours(at)) {
        for (; i < n; i++)
            vstore(f->to + at[0] + i * f->y.step, vload(from + (i ^ swap) * LANES));
    }
    for (; i < n; i++)
        for (int lane = 0; lane < lanes; lane++)
            f->to[parts * (at[lane] + i / parts * f->y.step) + i % parts] = from[(i ^ swap) * LANES + lane];
}

static int radix_of(int64_t length)
{
    static const int radices[] = {4, 2, 3, 5, 7, 11, 13};
    for (int i = 0; i < 7; i++)
        if (length % radices[i] == 0)
            return radices[i];
    return 0;
}

static void all_passes(stages *s, int64_t length)
{
    for (int64_t step = 1; length > 1;) {
        const int radix = radix_of(length);
        switch (radix) {
        case 2:
            pass(s, length, step, 2);
            break;
        case 3:
            pass(s, length, step, 3);
            break;
        case 4:
            pass(s, length, step, 4);
            break;
        case 5:
            pass(s, length, step, 5);
            break;
        case 7:
            pass(s, length, step, 7);
            break;
        case 11:
            pass(s, length, step, 11);
            break;
        default:
            pass(s, length, step, 13);
            break;
        }
        length /= radix;
        step *= radix;
    }
}

/* Frequency k of a spectrum, made from z[k] and z[half - k] of the transform of half the size: even + root * odd; and
 * frequency half - k. */
static void take_apart(const fourier *f, vfloat *to)
{
    const int64_t half = f->size / 2;
    for (int64_t k = 0; 2 * k <= half; k++) {
        const vfloat *a = f->s.now + 2 * k, *b = f->s.now + 2 * (k ? half - k : 0);
        const vfloat even_re = a[0] + b[0], even_im = a[1] - b[1], odd_re = a[1] + b[1], odd_im = b[0] - a[0];
        const float cosine = f->s.roots[2 * k], sine = f->s.roots[2 * k + 1];
        const vfloat re = vfma(odd_re, vsplat(cosine), odd_im * sine),
                     im = vfma(odd_im, vsplat(cosine), odd_re * -sine);
        const float factor = 0.5f * f->scale * (k ? f->middle : 1);
        vfloat *low = to + 2 * k, *high = to + 2 * (half - k);
        high[0] = (even_re - re) * factor, high[1] = (im - even_im) * factor;
        low[0] = (even_re + re) * factor, low[1] = (even_im + im) * factor;
    }
    to[1] = to[2 * half + 1] = vzero();
}

/* The other way: the numbers whose transform of half the size is that of the real signal. */
static void put_together(const fourier *f, const vfloat *from, vfloat *to)
{
    const int64_t half = f->size / 2;
    for (int64_t k = 0; k < half; k++) {
        const vfloat *a = from + 2 * k, *b = from + 2 * (half - k);
        const float cosine = f->s.roots[2 * k], sine = f->s.roots[2 * k + 1];
        const float factor = f->scale * (k ? f->middle : 1);
        const vfloat a_im = k ? a[1] : vzero(), b_im = k ? b[1] : vzero();
        const vfloat even_re = a[0] + b[0], even_im = a_im - b_im, odd_re = a[0] - b[0], odd_im = a_im + b_im;
        const vfloat re = vfma(odd_re, vsplat(cosine), odd_im * -sine),
                     im = vfma(odd_im, vsplat(cosine), odd_re * sine);
        to[2 * k + 1] = (even_re - im) * factor,
                   to[2 * k] = (even_im + re) * factor; /* swapped: the transform is inverse */
    }
}

/* LANES transforms from number `first` on. */
static void transform_lanes(fourier *f, int64_t first)
{
    const int64_t n = f->size, half = n / 2, rest = f->count - first, swap = f->inverse != 0;
    const int lanes = rest < LANES ? (int)rest : LANES;
    vfloat *const a = f->s.now, *const b = f->s.next;
    if (f->kind == COMPLEX) {
        gather((float *)a, f, first, 2 * n, 2, swap);
        all_passes(&f->s, n);
        if (f->scale != 1)
            for (int64_t i = 0; i < 2 * n; i++)
                f->s.now[i] *= f->scale;
        scatter((const float *)f->s.now, f, first, 2 * n, 2, swap, lanes);
    } else if (f->kind == HALF_TO_REAL) {
        gather((float *)b, f, first, n + 2, 2, 0);
        put_together(f, b, a);
        all_passes(&f->s, half);
        scatter((const float *)f->s.now, f, first, n, 1, 1, lanes);
    } else {
        gather((float *)a, f, first, n, 1, 0);
        all_passes(&f->s, half);
        vfloat *to = f->s.next;
        take_apart(f, to);
        if (f->kind == REAL_TO_WHOLE)
            for (int64_t k = half + 1; k < n; k++)
                to[2 * k] = to[2 * (n - k)], to[2 * k + 1] = -to[2 * (n - k) + 1];
        const int64_t floats = f->kind == REAL_TO_WHOLE ? 2 * n : n + 2;
        for (int64_t k = 0; swap && k < floats / 2; k++)
            to[2 * k + 1] = -to[2 * k + 1];
        scatter((const float *)to, f, first, floats, 2, 0, lanes);
    }
    f->s.now = a;
    f->s.next = b;
}

KERNEL(fourier_f32)
{
    const int64_t *d = record->dims, outer = d[fourier_f32_outer], inner = d[fourier_f32_inner];
    const int64_t size = d[fourier_f32_size], kind = d[fourier_f32_kind], workspaces = d[fourier_f32_workspaces];
    if (outer <= 0 || inner <= 0)
        return outer < 0 || inner < 0 ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (kind < COMPLEX || kind > HALF_TO_REAL || size < 1 || (kind && size % 2) || workspaces < 1)
        return KERNEL_BAD_ARGUMENT;
    int64_t left = kind ? size / 2 : size;
    while (left > 1 && radix_of(left))
        left /= radix_of(left);
    if (left > 1)
        return KERNEL_BAD_ARGUMENT;
    vfloat *memory = (vfloat *)record->pointers[fourier_f32_workspace] + (4 * size + 4) * worker;
    fourier f = {.kind = kind,
                 .inverse = d[fourier_f32_inverse],
                 .count = outer * inner,
                 .inner = inner,
                 .size = size,
                 .x = {d[fourier_f32_x_outer], d[fourier_f32_x_inner], d[fourier_f32_x_step]},
                 .y = {d[fourier_f32_y_outer], d[fourier_f32_y_inner], d[fourier_f32_y_step]},
                 .from = record->pointers[fourier_f32_x],
                 .to = record->pointers[fourier_f32_y],
                 .scale = record->floats[fourier_f32_scale],
                 .middle = kind == REAL_TO_WHOLE ? 1 : record->floats[fourier_f32_middle],
                 .s = {record->pointers[fourier_f32_roots], size, memory, memory + 2 * size + 2}};
    const int64_t groups = (f.count + LANES - 1) / LANES, active = workers < workspaces ? workers : workspaces;
    for (int64_t group = worker; worker < active && group < groups; group += active)
        transform_lanes(&f, group * LANES);
    return KERNEL_OK;
}
#endif
