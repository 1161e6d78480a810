/* Pools: the largest element or the mean of windows, over one to three dims, and their gradients. */
#include "elements.h"
#include "vmath.h"

typedef struct geometry {
    int64_t size[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
} geometry;

/* The elements of a window along a dim that exist: `first`, `first` + `step` ...; `all` counts padding, too. */
typedef struct span {
    int64_t first, count, step, all;
} span;

/* A window: what it reads and writes, `plane` the first element of x, `at` the element of y. */
typedef struct window {
    const geometry *geometry;
    const void *x, *grad_y;
    void *y, *grad_x;
    int64_t *indices, plane, at, counted, divisor;
} window;

/* The smallest whole number that is not below n / step, for n >= 0. */
INLINE int64_t divided(int64_t n, int64_t step) { return step == 1 ? n : (n + step - 1) / step; }

INLINE span span_of(const geometry *g, int dim, int64_t at)
{
    const int64_t size = g->size[dim], kernel = g->kernel[dim], step = g->dilation[dim];
    if (kernel == 0) {
        const int64_t out = g->out[dim], first = at * size / out, end = ((at + 1) * size + out - 1) / out;
        return (span){first, end - first, 1, end - first};
    }
    const int64_t start = at * g->stride[dim] - g->pad[dim], most = size + g->pad[dim] - start;
    const int64_t missing = start < 0 ? divided(-start, step) : 0;
    const int64_t limit = start < size ? divided(size - start, step) : 0, end = limit < kernel ? limit : kernel;
    return (span){start + missing * step, end > missing ? end - missing : 0, step, most < kernel ? most : kernel};
}

INLINE double element_at(const void *p, int64_t i, int type)
{
    return type == TYPE_float64 ? ((const double *)p)[i] : scalar_at(p, i, type == TYPE_float16 ? KIND_F16 : KIND_BF16);
}

SMALL_CODE static void put_element(void *p, int64_t i, double x, int type)
{
    if (type == TYPE_float64)
        ((double *)p)[i] = x;
    else
        write_doubles(p, type, i, &x, 1);
}

/* The sum of n elements. */
INLINE float sum_float(const void *p, int64_t at, int64_t n)
{
    const float *x = (const float *)p + at;
    vfloat sum = vzero();
    float rest = 0;
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES)
        sum += vload(x + k);
    for (; k < n; k++)
        rest += x[k];
    return n >= LANES ? vsum(sum) + rest : rest;
}

SMALL_CODE static double sum_any(const void *p, int64_t at, int64_t n, int type)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += element_at(p, at + k, type);
    return sum;
}

#define real float
#define sum(p, i, n, type) sum_float(p, i, n)
#define NAME(f) f##_float
#define get(p, i, type) (((const float *)(p))[i])
#define put(p, i, x, type) ((void)(type), ((float *)(p))[i] = (x))
#include "pooling.h"
#undef real
#undef NAME
#undef get
#undef put
#undef sum

#define real double
#define sum(p, i, n, type) sum_any(p, i, n, type)
#define NAME(f) f##_any
#define get(p, i, type) element_at(p, i, type)
#define put(p, i, x, type) put_element(p, i, x, type)
#include "pooling.h"
#undef real
#undef NAME

/* ---- Windows of float32, double or int64 that follow one another along the last dim: `n` from window `at` on, an element of each at a
 * time. span s has the first two dims. */

enum { BLOCK = 64 };

/* Of element k of these windows: the place in its row of that of the first window, and which windows have it. */
typedef struct column {
    int64_t first, begin, end;
} column;

INLINE column column_of(const geometry *g, int64_t at, int64_t k, int64_t n)
{
    const int64_t first = at * g->stride[2] + k * g->dilation[2] - g->pad[2], left = g->size[2] - first;
    const int64_t end = left > 0 ? divided(left, g->stride[2]) : 0;
    return (column){first, first < 0 ? divided(-first, g->stride[2]) : 0, end < n ? end : n};
}

INLINE int64_t row_of(const window *w, const span *s, int64_t i, int64_t j)
{
    const geometry *g = w->geometry;
    return ((s[0].first + i * s[0].step) * g->size[1] + s[1].first + j * s[1].step) * g->size[2];
}

#define real float
#define LEAST -INFINITE
#define is_nan(x) ((x) != (x))
#define NAME(f) f##_float
#include "pooling_rows.h"
#if !defined(__wasm__)
#define real double
#define LEAST -__builtin_inf()
#define is_nan(x) ((x) != (x))
#define NAME(f) f##_double
#include "pooling_rows.h"
#define real int64_t
#define LEAST INT64_MIN
#define is_nan(x) 0
#define NAME(f) f##_int64
#include "pooling_rows.h"
#endif

/* ---- The largest elements of float32 windows, LANES windows at a time, whichever rows they are in. */

INLINE vfloat vload_places(const float *x, vint places)
{
#if LANES == 16
    return (vfloat)_mm512_i32gather_ps((__m512i)places, x, 4);
#elif LANES == 8
    return (vfloat)_mm256_i32gather_ps(x, (__m256i)places, 4);
#else
    return (vfloat){x[places[0]], x[places[1]], x[places[2]], x[places[3]]};
#endif
}

/* The first elements of BLOCK windows: the coordinates, which padding may be below zero, and the place in the plane. */
typedef struct starts {
    int32_t coordinate[3][BLOCK], place[BLOCK];
} starts;

/* The next BLOCK windows from `digits` on; after the last one of the plane, the first again. Numbers beyond int32 wrap
 * around: then an element is wrong, but in the plane. */
static void find_starts(starts *s, int64_t *digits, const geometry *g, const int32_t *steps)
{
    for (int o = 0; o < BLOCK; o++) {
        uint32_t place = 0;
        for (int d = 0; d < 3; d++) {
            const uint32_t start = (uint32_t)(digits[d] * g->stride[d] - g->pad[d]);
            s->coordinate[d][o] = (int32_t)start;
            place += start * (uint32_t)steps[d];
        }
        s->place[o] = (int32_t)place;
        for (int d = 2; d >= 0 && ++digits[d] == g->out[d]; d--)
            digits[d] = 0;
    }
}

/* LANES windows from the o-th of a block on: their largest elements, and where these are in the plane x (-1: there is
 * none). */
COMPACT vfloat largest_of(const float *x, const geometry *g, const int32_t *steps, const starts *s, int64_t o,
                          int padded, vint *places)
{
    vfloat most = vsplat(-INFINITE);
    vint found = vsplat_int(-1);
    for (int64_t i = 0; i < g->kernel[0]; i++)
        for (int64_t j = 0; j < g->kernel[1]; j++)
            for (int64_t k = 0; k < g->kernel[2]; k++) {
                const int64_t tap[] = {i * g->dilation[0], j * g->dilation[1], k * g->dilation[2]};
                vint here =
                    vload_int(s->place + o) + vsplat_int((int32_t)(tap[0] * steps[0] + tap[1] * steps[1] + tap[2]));
                vint exists = vsplat_int(-1);
                for (int d = 0; padded && d < 3; d++) {
                    const vint at = vload_int(s->coordinate[d] + o) + vsplat_int((int32_t)tap[d]);
                    exists &= (at >= 0) & (at < vsplat_int((int32_t)g->size[d]));
                }
                here &= exists;
                const vfloat value = vload_places(x, here);
                const vint more = ((value > most) | (value != value) | (found < 0)) & exists;
                most = vselect(more, value, most);
                found = (here & more) | (found & ~more);
            }
    *places = found;
    return most;
}

static void max_planes(const window *w, int64_t first, int64_t last, int64_t elements, int64_t outputs)
{
    const geometry *g = w->geometry;
    const int32_t steps[] = {(int32_t)(g->size[1] * g->size[2]), (int32_t)g->size[2], 1};
    int64_t digits[3] = {0};
    int padded = 0;
    for (int d = 0; d < 3; d++)
        padded |= g->pad[d] || (g->out[d] - 1) * g->stride[d] + (g->kernel[d] - 1) * g->dilation[d] >= g->size[d];
    for (int64_t at = 0; at < outputs; at += BLOCK) {
        const int64_t n = outputs - at < BLOCK ? outputs - at : BLOCK;
        starts s;
        find_starts(&s, digits, g, steps);
        for (int64_t plane = first; plane < last; plane++) {
            const float *x = (const float *)w->x + plane * elements;
            const int64_t to = plane * outputs + at;
            for (int64_t o = 0; o < n; o += LANES) {
                int32_t places[LANES];
                vint found;
                const vfloat most = largest_of(x, g, steps, &s, o, padded, &found);
                const int64_t count = n - o < LANES ? n - o : LANES;
                if (w->y)
                    vstore_up_to((float *)w->y + to + o, most, n - o);
                if (!w->indices && !w->grad_x)
                    continue;
                vstore_int(places, found);
                for (int64_t i = 0; i < count; i++) {
                    if (w->indices)
                        w->indices[to + o + i] = places[i];
                    if (w->grad_x && places[i] >= 0)
                        ((float *)w->grad_x)[plane * elements + places[i]] += ((const float *)w->grad_y)[to + o + i];
                }
            }
        }
    }
}

#if !defined(__wasm__) /* where code must be short, max_planes does it */
/* ---- The same for windows that follow one another in a row: their elements k are evenly apart, and no place has to be
 * gathered. */

enum { COLUMNS_KNOWN = 64 };

/* Elements begin .. end - 1 of LANES, `stride` apart, from element `at` of x on, which has `total`; the others are any. */
INLINE vfloat vload_line(const float *x, int64_t at, int64_t total, int64_t stride, int64_t begin, int64_t end)
{
    if (stride == 1 && at >= 0 && at + LANES <= total)
        return vload(x + at);
    if (stride == 2 && at >= 0 && at + 2 * LANES <= total)
        return EVEN(vload(x + at), vload(x + at + LANES));
    float part[LANES] = {0};
    for (int64_t o = begin; o < end; o++)
        part[o] = x[at + o * stride];
    return vload(part);
}

/* Of up to LANES windows of a row, whose spans in the first two dims are s: the largest elements, and if `placed` where
 * these are in the plane (-1: there is none). columns has element k of them. */
INLINE vfloat largest_in_line(const window *w, const span *s, const column *columns, int64_t n, int64_t total,
                              vint *places, const int placed)
{
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const geometry *g = w->geometry;
    const vint lane = vload_int(numbers), steps = lane * vsplat_int((int32_t)g->stride[2]);
    vfloat most = vsplat(-INFINITE);
    vint found = vsplat_int(-1);
    for (int64_t i = 0; i < s[0].count; i++)
        for (int64_t j = 0; j < s[1].count; j++)
            for (int64_t k = 0, row = row_of(w, s, i, j); k < g->kernel[2]; k++) {
                const column c = columns[k];
                if (c.begin >= c.end)
                    continue;
                const vfloat value = vload_line(w->x, w->plane + row + c.first, total, g->stride[2], c.begin, c.end);
                vint more = (value > most) | (value != value);
                if (placed)
                    more |= found < 0;
                if (c.begin > 0 || c.end < n)
                    more &= (lane >= (int32_t)c.begin) & (lane < (int32_t)c.end);
                most = vselect(more, value, most);
                if (placed)
                    found = ((vsplat_int((int32_t)(row + c.first)) + steps) & more) | (found & ~more);
            }
    *places = found;
    return most;
}

static void max_lines(window *w, int64_t first, int64_t last, int64_t elements, int64_t outputs, int64_t total)
{
    const geometry *g = w->geometry;
    const int64_t taps = g->kernel[2], known = taps <= COLUMNS_KNOWN ? COLUMNS_KNOWN / taps : 0; /* vectors of a row */
    const int placed = w->indices || w->grad_x;
    column columns[COLUMNS_KNOWN], own[COLUMNS_KNOWN];
    for (int64_t v = 0; v < known && v * LANES < g->out[2]; v++)
        for (int64_t k = 0; k < taps; k++)
            columns[v * taps + k] =
                column_of(g, v * LANES, k, g->out[2] - v * LANES < LANES ? g->out[2] - v * LANES : LANES);
    for (int64_t plane = first; plane < last; plane++) {
        w->plane = plane * elements;
        int64_t to = plane * outputs;
        for (int64_t line = 0; line < g->out[0] * g->out[1]; line++) {
            const span s[2] = {span_of(g, 0, line / g->out[1]), span_of(g, 1, line % g->out[1])};
            for (int64_t at = 0, n; at < g->out[2]; at += n, to += n) {
                n = g->out[2] - at < LANES ? g->out[2] - at : LANES;
                const column *these = columns + at / LANES * taps;
                if (at / LANES >= known) {
                    for (int64_t k = 0; k < taps; k++)
                        own[k] = column_of(g, at, k, n);
                    these = own;
                }
                vint found;
                const vfloat most = placed ? largest_in_line(w, s, these, n, total, &found, 1)
                                           : largest_in_line(w, s, these, n, total, &found, 0);
                if (w->y)
                    vstore_up_to((float *)w->y + to, most, n);
                if (!placed)
                    continue;
                int32_t places[LANES];
                vstore_int(places, found);
                for (int64_t o = 0; o < n && w->indices; o++)
                    w->indices[to + o] = places[o];
                float *grad_x = (float *)w->grad_x + (w->grad_x ? w->plane : 0);
                for (int64_t o = 0; o < n && w->grad_x; o++)
                    if (places[o] >= 0)
                        grad_x[places[o]] += ((const float *)w->grad_y)[to + o];
            }
        }
    }
}

/* Whether windows are the most usual ones: 2 x 2 side by side, without padding; and fill whole vectors, rows of half a
 * vector two at a time. */
static int are_pairs(const geometry *g)
{
    for (int d = 1; d < 3; d++)
        if (g->kernel[d] != 2 || g->stride[d] != 2 || g->pad[d] || g->dilation[d] != 1 || 2 * g->out[d] > g->size[d])
            return 0;
    if (g->size[0] != 1 || g->out[0] != 1 || g->kernel[0] != 1 || g->pad[0])
        return 0;
    return g->out[2] % LANES == 0 || (2 * g->out[2] == LANES && g->size[2] == LANES && g->out[1] % 2 == 0);
}

/* LANES windows, the first of which begins at `start` of the plane; the other half of their elements lies `next`
 * behind. `at`: the first output. */
INLINE void max_of_pairs(const window *w, int64_t start, int64_t next, int64_t at, int half)
{
    const int64_t width = w->geometry->size[2];
    const float *x = (const float *)w->x + w->plane + start;
    const vfloat above[2] = {vload(x), vload(x + next)}, below[2] = {vload(x + width), vload(x + width + next)};
    const vfloat taps[4] = {EVEN(above[0], above[1]), ODD(above[0], above[1]), EVEN(below[0], below[1]),
                            ODD(below[0], below[1])};
    vfloat most = taps[0], parts[4];
    vint tap = vsplat_int(0);
    UNROLL for (int t = 1; t < 4; t++)
    {
        const vint more = (taps[t] > most) | (taps[t] != taps[t]);
        most = vselect(more, taps[t], most);
        tap = (vsplat_int(t) & more) | (tap & ~more);
    }
    if (w->y)
        vstore((float *)w->y + at, most);
    if (w->indices) {
        int32_t taps_of[LANES];
        vstore_int(taps_of, tap);
        UNROLL for (int i = 0; i < LANES; i++) w->indices[at + i] =
            start + 2 * i + (half && 2 * i >= LANES ? width : 0) + taps_of[i] % 2 + taps_of[i] / 2 * width;
    }
    if (w->grad_x) {
        float *to = (float *)w->grad_x + w->plane + start;
        const vint share = (vint)vload((const float *)w->grad_y + at);
        UNROLL for (int t = 0; t < 4; t++) parts[t] = (vfloat)(share & (tap == vsplat_int(t)));
        vstore(to, ZIP_FIRST(parts[0], parts[1]));
        vstore(to + next, ZIP_SECOND(parts[0], parts[1]));
        vstore(to + width, ZIP_FIRST(parts[2], parts[3]));
        vstore(to + width + next, ZIP_SECOND(parts[2], parts[3]));
    }
}

static void max_pairs(window *w, int64_t first, int64_t last, int64_t elements, int64_t outputs)
{
    const int64_t width = w->geometry->size[2], rows = w->geometry->out[1], columns = w->geometry->out[2];
    for (int64_t plane = first; plane < last; plane++) {
        w->plane = plane * elements;
        if (columns < LANES)
            for (int64_t i = 0; i < rows; i += 2)
                max_of_pairs(w, 2 * i * width, 2 * width, plane * outputs + i * columns, 1);
        else
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < columns; j += LANES)
                    max_of_pairs(w, 2 * (i * width + j), LANES, plane * outputs + i * columns + j, 0);
    }
}
#endif

#if defined(__wasm__)
enum { TYPES_POOLED = TYPES_FLOAT };
#else
enum { TYPES_POOLED = TYPES_FLOAT | BIT(TYPE_int64) };
#endif

/* The dims of every kernel here begin with the type, the number of planes and the geometry. */
static int pool(const int64_t *dims, window w, int means, int worker, int workers)
{
    const int type = (int)dims[0];
    const int64_t planes = dims[1];
    geometry g;
    int64_t first, last, elements = 1, outputs = 1;
    memcpy(&g, dims + 2, sizeof g);
    if (!planes)
        return KERNEL_OK;
    if (!type_in(dims[0], TYPES_POOLED) || planes < 0)
        return KERNEL_BAD_ARGUMENT;
    for (int d = 0; d < 3; d++) {
        if (g.size[d] < 0 || g.out[d] < 0 || g.kernel[d] < 0 || g.stride[d] < 1 || g.pad[d] < 0 || g.dilation[d] < 1 ||
            (g.out[d] && !g.size[d]))
            return KERNEL_BAD_ARGUMENT;
        elements *= g.size[d];
        outputs *= g.out[d];
    }
    w.geometry = &g;
    const int in_rows = type == TYPE_float32 && g.kernel[2] && elements <= INT32_MAX;
    if (type == TYPE_int64 && (means || !g.kernel[2] || w.grad_x))
        return KERNEL_BAD_ARGUMENT;
    worker_share(planes, 1, worker, workers, &first, &last);
    if (w.grad_x && last > first)
        memset((char *)w.grad_x + first * elements * type_bytes(type), 0,
               (size_t)((last - first) * elements * type_bytes(type)));
    void (*row)(const window *, const span *, int64_t, int64_t) = in_rows && means ? mean_row_float : NULL;
#if !defined(__wasm__)
    if (in_rows && !means && are_pairs(&g)) {
        max_pairs(&w, first, last, elements, outputs);
        return KERNEL_OK;
    }
    if (in_rows && !means && g.kernel[2] <= COLUMNS_KNOWN) {
        max_lines(&w, first, last, elements, outputs, planes * elements);
        return KERNEL_OK;
    }
    if (type == TYPE_float64 && g.kernel[2])
        row = means ? mean_row_double : max_row_double;
    if (type == TYPE_int64)
        row = max_row_int64;
#endif
    if (in_rows && !row && g.kernel[0] && g.kernel[1]) {
        max_planes(&w, first, last, elements, outputs);
        return KERNEL_OK;
    }
    for (int64_t plane = first; plane < last; plane++) {
        span s[3];
        w.plane = plane * elements;
        w.at = plane * outputs;
        for (int64_t i = 0; i < g.out[0]; i++) {
            s[0] = span_of(&g, 0, i);
            for (int64_t j = 0; j < g.out[1]; j++) {
                s[1] = span_of(&g, 1, j);
                for (int64_t k = 0, n; row && k < g.out[2]; k += n, w.at += n) {
                    n = g.out[2] - k < BLOCK ? g.out[2] - k : BLOCK;
                    row(&w, s, k, n);
                }
                for (int64_t k = 0; !row && k < g.out[2]; k++, w.at++) {
                    s[2] = span_of(&g, 2, k);
                    if (type == TYPE_float32)
                        (means ? mean_window_float : max_window_float)(&w, s, type);
                    else
                        (means ? mean_window_any : max_window_any)(&w, s, type);
                }
            }
        }
    }
    return KERNEL_OK;
}

KERNEL(max_pool)
{
    const window w = {.x = record->pointers[max_pool_x],
                      .y = record->pointers[max_pool_y],
                      .indices = record->pointers[max_pool_indices]};
    return pool(record->dims + max_pool_type, w, 0, worker, workers);
}

KERNEL(max_pool_backward)
{
    const window w = {.x = record->pointers[max_pool_backward_x],
                      .grad_y = record->pointers[max_pool_backward_grad_y],
                      .grad_x = record->pointers[max_pool_backward_grad_x]};
    return pool(record->dims + max_pool_backward_type, w, 0, worker, workers);
}

KERNEL(avg_pool)
{
    const window w = {.x = record->pointers[avg_pool_x],
                      .y = record->pointers[avg_pool_y],
                      .counted = record->dims[avg_pool_counted],
                      .divisor = record->dims[avg_pool_divisor]};
    return pool(record->dims + avg_pool_type, w, 1, worker, workers);
}

KERNEL(avg_pool_backward)
{
    const window w = {.grad_y = record->pointers[avg_pool_backward_grad_y],
                      .grad_x = record->pointers[avg_pool_backward_grad_x],
                      .counted = record->dims[avg_pool_backward_counted],
                      .divisor = record->dims[avg_pool_backward_divisor]};
    return pool(record->dims + avg_pool_backward_type, w, 1, worker, workers);
}
