/* Pooling over up to three dims: a thread for each window; of gradients, a thread for each input, which sums over the
 * windows that it is in, in their order. */
#include "gpu.h"

struct geometry {
    int64_t size[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
};

/* Elements first, first + step .. of a dim: `count` of them exist, `all` would with the padding. */
struct span {
    int64_t first, count, step, all;
};

DEVICE span span_of(const geometry &g, int d, int64_t window)
{
    if (!g.kernel[d]) { /* parts of the dim */
        const int64_t first = window * g.size[d] / g.out[d], last = PARTS((window + 1) * g.size[d], g.out[d]);
        return span{first, last - first, 1, last - first};
    }
    const int64_t start = window * g.stride[d] - g.pad[d], step = g.dilation[d];
    const int64_t skipped = start < 0 ? PARTS(-start, step) : 0;
    const int64_t first = start + skipped * step, end = start + g.kernel[d] * step;
    const int64_t limit = end < g.size[d] ? end : g.size[d];
    const int64_t padded = g.size[d] + g.pad[d], last = start + g.kernel[d] < padded ? start + g.kernel[d] : padded;
    return span{first, first < limit ? PARTS(limit - first, step) : 0, step, last - start};
}

/* The slots that all four kernels have. */
DEVICE bool read(const int64_t *d, geometry *g, int64_t *elements, int64_t *outputs)
{
    *elements = *outputs = 1;
    for (int i = 0; i < 3; i++) {
        const int64_t *at = d + max_pool_size0 + i;
        g->size[i] = at[0];
        g->out[i] = at[3];
        g->kernel[i] = at[6];
        g->stride[i] = at[9];
        g->pad[i] = at[12];
        g->dilation[i] = at[15];
        *elements *= g->size[i];
        *outputs *= g->out[i];
        if (g->size[i] < 0 || g->out[i] < 0 || g->kernel[i] < 0 || g->stride[i] < 1 || g->pad[i] < 0 ||
            g->dilation[i] < 1 || (g->out[i] && !g->size[i]))
            return false;
    }
    return type_in(d[max_pool_type], TYPES_FLOAT) && d[max_pool_planes] >= 0;
}

/* The three spans of window `at` of a plane. */
DEVICE void spans_of(const geometry &g, int64_t at, span s[3])
{
    for (int d = 2; d >= 0; d--) {
        s[d] = span_of(g, d, at % g.out[d]);
        at /= g.out[d];
    }
}

/* Where the largest element of a window is in its plane: the first of equal ones, but the last NaN; -1 for none. */
DEVICE int64_t largest(const void *x, int64_t plane, const geometry &g, const span s[3], int type)
{
    double most = -INFINITY;
    if (!s[0].count || !s[1].count || !s[2].count)
        return -1;
    int64_t found = (s[0].first * g.size[1] + s[1].first) * g.size[2] + s[2].first;
    for (int64_t i = 0; i < s[0].count; i++)
        for (int64_t j = 0; j < s[1].count; j++)
            for (int64_t k = 0; k < s[2].count; k++) {
                const int64_t at = ((s[0].first + i * s[0].step) * g.size[1] + s[1].first + j * s[1].step) * g.size[2] +
                                   s[2].first + k * s[2].step;
                const double value = load_double(x, plane + at, type);
                if (value > most || value != value) {
                    most = value;
                    found = at;
                }
            }
    return found;
}

DEVICE double divisor_of(const span s[3], int64_t counted, int64_t divisor)
{
    if (divisor)
        return (double)divisor;
    return (double)(counted ? s[0].all * s[1].all * s[2].all : s[0].count * s[1].count * s[2].count);
}

KERNEL(max_pool, PARTS(planes *out0 *out1 *out2, 128), 128, 0)
{
    geometry g;
    int64_t elements, outputs;
    if (!read(record.dims, &g, &elements, &outputs)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)record.dims[max_pool_type];
    const void *x = record.pointers[max_pool_x];
    FOR_EACH(i, record.dims[max_pool_planes] * outputs)
    {
        span s[3];
        spans_of(g, i % outputs, s);
        const int64_t plane = i / outputs * elements, at = largest(x, plane, g, s, type);
        if (record.pointers[max_pool_y])
            store_double(record.pointers[max_pool_y], i, type, at < 0 ? -INFINITY : load_double(x, plane + at, type));
        if (record.pointers[max_pool_indices])
            ((int64_t *)record.pointers[max_pool_indices])[i] = at;
    }
}

KERNEL(avg_pool, PARTS(planes *out0 *out1 *out2, 128), 128, 0)
{
    geometry g;
    int64_t elements, outputs;
    if (!read(record.dims, &g, &elements, &outputs)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)record.dims[avg_pool_type];
    FOR_EACH(at, record.dims[avg_pool_planes] * outputs)
    {
        span s[3];
        double total = 0;
        spans_of(g, at % outputs, s);
        for (int64_t i = 0; i < s[0].count; i++)
            for (int64_t j = 0; j < s[1].count; j++)
                for (int64_t k = 0; k < s[2].count; k++)
                    total +=
                        load_double(record.pointers[avg_pool_x],
                                    at / outputs * elements +
                                        ((s[0].first + i) * g.size[1] + s[1].first + j) * g.size[2] + s[2].first + k,
                                    type);
        store_double(record.pointers[avg_pool_y], at, type,
                     total / divisor_of(s, record.dims[avg_pool_counted], record.dims[avg_pool_divisor]));
    }
}

/* The first and the last window along a dim that an element may be in. */
DEVICE void windows_of(const geometry &g, int d, int64_t element, int64_t *first, int64_t *last)
{
    if (!g.kernel[d]) {
        *first = element * g.out[d] / g.size[d];
        *last = *first;
        while (*first > 0 && PARTS(*first * g.size[d], g.out[d]) > element)
            --*first;
        while (*last + 1 < g.out[d] && (*last + 1) * g.size[d] / g.out[d] <= element)
            ++*last;
        return;
    }
    const int64_t reach = (g.kernel[d] - 1) * g.dilation[d], low = element + g.pad[d] - reach;
    *first = low <= 0 ? 0 : PARTS(low, g.stride[d]);
    *last = (element + g.pad[d]) / g.stride[d];
    *last = *last < g.out[d] ? *last : g.out[d] - 1;
}

/* The gradient of element `place` of a plane. means: of avg_pool. */
DEVICE double gradient(const geometry &g, const void *x, const void *grad_y, int64_t plane, int64_t outputs_at,
                       int64_t place, int type, bool means, int64_t counted, int64_t divisor)
{
    int64_t first[3], last[3],
        at[3] = {place / g.size[2] / g.size[1], place / g.size[2] % g.size[1], place % g.size[2]};
    double sum = 0;
    for (int d = 0; d < 3; d++)
        windows_of(g, d, at[d], &first[d], &last[d]);
    for (int64_t i = first[0]; i <= last[0]; i++)
        for (int64_t j = first[1]; j <= last[1]; j++)
            for (int64_t k = first[2]; k <= last[2]; k++) {
                const int64_t window[3] = {i, j, k}, output = (i * g.out[1] + j) * g.out[2] + k;
                span s[3];
                bool inside = true;
                for (int d = 0; d < 3; d++) {
                    s[d] = span_of(g, d, window[d]);
                    const int64_t behind = at[d] - s[d].first;
                    inside = inside && behind >= 0 && behind % s[d].step == 0 && behind / s[d].step < s[d].count;
                }
                if (!inside || (!means && largest(x, plane, g, s, type) != place))
                    continue;
                const double value = load_double(grad_y, outputs_at + output, type);
                sum += means ? value / divisor_of(s, counted, divisor) : value;
            }
    return sum;
}

KERNEL(max_pool_backward, PARTS(planes *size0 *size1 *size2, 128), 128, 0)
{
    geometry g;
    int64_t elements, outputs;
    if (!read(record.dims, &g, &elements, &outputs)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)record.dims[max_pool_backward_type];
    FOR_EACH(i, record.dims[max_pool_backward_planes] * elements)
    store_double(record.pointers[max_pool_backward_grad_x], i, type,
                 gradient(g, record.pointers[max_pool_backward_x], record.pointers[max_pool_backward_grad_y],
                          i / elements * elements, i / elements * outputs, i % elements, type, false, 0, 0));
}

KERNEL(avg_pool_backward, PARTS(planes *size0 *size1 *size2, 128), 128, 0)
{
    geometry g;
    int64_t elements, outputs;
    if (!read(record.dims, &g, &elements, &outputs)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)record.dims[avg_pool_backward_type];
    FOR_EACH(i, record.dims[avg_pool_backward_planes] * elements)
    store_double(record.pointers[avg_pool_backward_grad_x], i, type,
                 gradient(g, nullptr, record.pointers[avg_pool_backward_grad_y], i / elements * elements,
                          i / elements * outputs, i % elements, type, true, record.dims[avg_pool_backward_counted],
                          record.dims[avg_pool_backward_divisor]));
}
