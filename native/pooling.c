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

/* ---- Windows of float32 that follow one another along the last dim: `n` from window `at` on, an element of each at a
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

static void max_row(const window *w, const span *s, int64_t at, int64_t n)
{
    const geometry *g = w->geometry;
    const float *x = (const float *)w->x + w->plane;
    const int64_t stride = g->stride[2];
    float most[BLOCK];
    int32_t found[BLOCK]; /* in the plane */
    for (int o = 0; o < n; o++) {
        most[o] = -INFINITE;
        found[o] = -1;
    }
    for (int64_t i = 0; i < s[0].count; i++)
        for (int64_t j = 0; j < s[1].count; j++)
            for (int64_t k = 0, row = row_of(w, s, i, j); k < g->kernel[2]; k++) {
                const column c = column_of(g, at, k, n);
                for (int64_t o = c.begin; o < c.end; o++) {
                    const int64_t place = row + c.first + o * stride;
                    const float value = x[place];
                    const int more = (value > most[o]) | (value != value) | (found[o] < 0);
                    most[o] = more ? value : most[o];
                    found[o] = more ? (int32_t)place : found[o];
                }
            }
    for (int64_t o = 0; o < n; o++) {
        if (w->grad_x && found[o] >= 0)
            ((float *)w->grad_x)[w->plane + found[o]] += ((const float *)w->grad_y)[w->at + o];
        if (w->y)
            ((float *)w->y)[w->at + o] = most[o];
        if (w->indices)
            w->indices[w->at + o] = found[o];
    }
}

static void mean_row(const window *w, const span *s, int64_t at, int64_t n)
{
    const geometry *g = w->geometry;
    const float *x = (const float *)w->x + (w->x ? w->plane : 0);
    float *grad_x = (float *)w->grad_x + (w->grad_x ? w->plane : 0);
    const int64_t stride = g->stride[2];
    float total[BLOCK], divisor[BLOCK]; /* of gradients, `total` is what each element of a window gets */
    for (int64_t o = 0; o < n; o++) {
        const span last = span_of(g, 2, at + o);
        const int64_t elements = w->counted ? s[0].all * s[1].all * last.all : s[0].count * s[1].count * last.count;
        divisor[o] = (float)(w->divisor ? w->divisor : elements);
        total[o] = w->grad_x ? ((const float *)w->grad_y)[w->at + o] / divisor[o] : 0;
    }
    for (int64_t i = 0; i < s[0].count; i++)
        for (int64_t j = 0; j < s[1].count; j++)
            for (int64_t k = 0, row = row_of(w, s, i, j); k < g->kernel[2]; k++) {
                const column c = column_of(g, at, k, n);
                if (w->grad_x)
                    for (int64_t o = c.begin; o < c.end; o++)
                        grad_x[row + c.first + o * stride] += total[o];
                else
                    for (int64_t o = c.begin; o < c.end; o++)
                        total[o] += x[row + c.first + o * stride];
            }
    for (int64_t o = 0; o < n && w->y; o++)
        ((float *)w->y)[w->at + o] = total[o] / divisor[o];
}

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
    if (!type_in(dims[0], TYPES_FLOAT) || planes < 0)
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
    worker_share(planes, 1, worker, workers, &first, &last);
    if (w.grad_x && last > first)
        memset((char *)w.grad_x + first * elements * type_bytes(type), 0,
               (size_t)((last - first) * elements * type_bytes(type)));
    for (int64_t plane = first; plane < last; plane++) {
        span s[3];
        w.plane = plane * elements;
        w.at = plane * outputs;
        for (int64_t i = 0; i < g.out[0]; i++) {
            s[0] = span_of(&g, 0, i);
            for (int64_t j = 0; j < g.out[1]; j++) {
                s[1] = span_of(&g, 1, j);
                for (int64_t k = 0, n; in_rows && k < g.out[2]; k += n, w.at += n) {
                    n = g.out[2] - k < BLOCK ? g.out[2] - k : BLOCK;
                    (means ? mean_row : max_row)(&w, s, k, n);
                }
                for (int64_t k = 0; !in_rows && k < g.out[2]; k++, w.at++) {
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
