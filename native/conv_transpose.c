/* Transposed convolution in two dims, which is also the gradient of a convolution in its input. For a run of pixels a
 * matrix product computes the contributions of every tap of every output channel; they are added to the outputs while
 * they are in the cache (col2im; Chellapilla et al., 2006). One dim is a plane of height 1. */
#include "gemm.h"
#include "vmath.h"

enum { PRODUCTS = 32768, PIXELS = 512 }; /* floats on the stack; pixels of a stretch at most */

typedef struct axis {
    int64_t size, out, taps, stride, before,
        dilation; /* element i and tap k meet output i * stride + k * dilation - before */
} axis;

typedef struct shape {
    int64_t batch, groups, inputs, outputs; /* channels of a group */
    axis y, x;
} shape;

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Elements first .. last - 1 of an axis whose outputs exist, for one tap. */
INLINE void visible(const axis *a, int64_t tap, int64_t *first, int64_t *last)
{
    const int64_t shift = tap * a->dilation - a->before, step = a->stride;
    *first = shift < 0 ? (step - 1 - shift) / step : 0;
    *last = a->out > shift ? (a->out - shift + step - 1) / step : 0;
}

/* y[i * step] += from[i] for first <= i < last */
INLINE void add_run(float *y, const float *from, int64_t first, int64_t last, int64_t step)
{
    int64_t i = first;
    if (step == 1)
        for (; i + LANES <= last; i += LANES)
            vstore(y + i, vload(y + i) + vload(from + i));
    for (; i < last; i++)
        y[i * step] += from[i];
}

/* The same for two taps side by side at a stride of 2: their outputs alternate. */
static void add_pair(float *y, const float *even, const float *odd, const int64_t first[2], const int64_t last[2])
{
    const int64_t begin = larger(first[0], first[1]), end = smaller(last[0], last[1]);
    int64_t i = begin;
    for (; i + LANES <= end; i += LANES) {
        const vfloat a = vload(even + i), b = vload(odd + i);
        vstore(y + 2 * i, vload(y + 2 * i) + ZIP_FIRST(a, b));
        vstore(y + 2 * i + LANES, vload(y + 2 * i + LANES) + ZIP_SECOND(a, b));
    }
    add_run(y, even, first[0], smaller(begin, last[0]), 2);
    add_run(y, even, larger(i, first[0]), last[0], 2);
    add_run(y + 1, odd, first[1], smaller(begin, last[1]), 2);
    add_run(y + 1, odd, larger(i, first[1]), last[1], 2);
}

/* Adds rows q .. end - 1 of the products, `apart` floats apart and numbered through output channels and taps, of pixels
 * from `pixel` on. */
SMALL_CODE static void fold_rows(const shape *s, float *y, const float *products, int64_t apart, int64_t q, int64_t end,
                                 int64_t pixel, int64_t pixels)
{
    const int64_t taps = s->y.taps * s->x.taps, width = s->x.size;
    for (int64_t two; q < end; q += two, products += two * apart) {
        const int64_t ky = q % taps / s->x.taps, kx = q % s->x.taps, shift = kx * s->x.dilation - s->x.before;
        int64_t begin = pixel % width, seen_first[2], seen_last[2];
        two = s->x.stride == 2 && s->x.dilation == 1 && kx + 1 < s->x.taps && q + 1 < end ? 2 : 1;
        for (int i = 0; i < two; i++)
            visible(&s->x, kx + i, &seen_first[i], &seen_last[i]);
        for (int64_t row = pixel / width, at = pixel; at < pixel + pixels; row++, begin = 0) {
            const int64_t stop = smaller(width, begin + pixel + pixels - at);
            const int64_t to = row * s->y.stride + ky * s->y.dilation - s->y.before;
            const float *from = products + row * width - pixel;
            int64_t first[2], last[2];
            at += stop - begin;
            if (to < 0 || to >= s->y.out)
                continue;
            float *line = y + (q / taps * s->y.out + to) * s->x.out + shift;
            for (int i = 0; i < two; i++)
                first[i] = larger(begin, seen_first[i]), last[i] = smaller(stop, seen_last[i]);
            if (two == 2)
                add_pair(line, from, from + apart, first, last);
            else
                add_run(line, from, first[0], last[0], s->x.stride);
        }
    }
}

/* The pixels of small planes, which alone fill no wide panel, as columns: of images that lie `image` floats apart. */
enum { TOGETHER = LANES >= 8 };

typedef struct pixels {
    int64_t plane, image;
} pixels;

INLINE void copy_floats(float *to, const float *from, int64_t count)
{
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        *(quad_unaligned *)(to + i) = *(const quad_unaligned *)(from + i);
    for (; i < count; i++)
        to[i] = from[i];
}

INLINE void pack_pixels(float *to, const product *p, const void *source, int64_t n, int64_t end, int64_t k,
                        int64_t depth, const int kind)
{
    const pixels *of = source;
    for (int64_t j = n; j < end; j += PANEL, to += PANEL_STEP) {
        if (end - j < PANEL)
            memset(to, 0, (size_t)(depth * PANEL) * sizeof *to);
        for (int64_t c = 0, count; c < PANEL && j + c < end; c += count) {
            const int64_t at = (j + c) % of->plane;
            const float *from = (const float *)p->b + (j + c) / of->plane * of->image + k * p->b_row + at;
            count = smaller(smaller(of->plane - at, PANEL - c), end - j - c);
            for (int64_t i = 0; i < depth; i++, from += p->b_row)
                copy_floats(to + i * PANEL + c, from, count);
        }
    }
}

/* Out of line, because its panels and those of gemm_of would lie on the stack together. */
static __attribute__((noinline)) void multiply_pixels(const product *p, range rows, range columns, const pixels *of)
{
    gemm(p, rows, columns, pack_pixels, of, KIND_F32);
}

/* Output channels first .. last - 1 of one group, of some images; x and y are those of the first one. */
COMPACT void transpose_channels(const shape *s, float *y, const float *x, const float *weight, const float *bias,
                                int64_t first, int64_t last, int64_t images)
{
    float products[PRODUCTS];
    const int64_t taps = s->y.taps * s->x.taps, plane = s->y.size * s->x.size, outputs = s->y.out * s->x.out;
    const int64_t x_image = s->groups * s->inputs * plane, y_image = s->groups * s->outputs * outputs;
    const int64_t each = larger(1, smaller(plane, PIXELS)), rows = PRODUCTS / (images * each);
    const pixels of = {plane, x_image};
    for (int64_t image = 0; image < images; image++)
        for (int64_t c = first; c < last; c++)
            for (int64_t i = 0; i < outputs; i++)
                y[image * y_image + c * outputs + i] = bias ? bias[c] : 0.0f;
    for (int64_t pixel = 0; pixel < plane; pixel += each)
        for (int64_t q = first * taps; q < last * taps; q += rows) {
            const int64_t n = smaller(each, plane - pixel), end = smaller(q + rows, last * taps);
            const range all = {0, end - q}, columns = {0, images * n};
            const product p = {.c = products,
                               .a = weight + q,
                               .b = x + pixel,
                               .k = s->inputs,
                               .a_row = 1,
                               .a_column = s->outputs * taps,
                               .b_row = plane,
                               .b_column = 1,
                               .c_row = images * n};
            if (!TOGETHER || images == 1)
                gemm_of(&p, all, columns, KIND_F32);
            else
                multiply_pixels(&p, all, columns, &of);
            for (int64_t image = 0; image < images; image++)
                fold_rows(s, y + image * y_image, products + image * n, images * n, q, end, pixel, n);
        }
}

/* Units of work are output channels, numbered through all groups and batch entries, or as many entries together as
 * have the pixels of a stretch. */
KERNEL(conv_transpose_f32)
{
    const int64_t *d = record->dims;
    const shape s = {.batch = d[conv_transpose_f32_batch],
                     .groups = d[conv_transpose_f32_groups],
                     .inputs = d[conv_transpose_f32_inputs],
                     .outputs = d[conv_transpose_f32_outputs],
                     .y = {.size = d[conv_transpose_f32_height],
                           .out = d[conv_transpose_f32_out_height],
                           .taps = d[conv_transpose_f32_kernel_height],
                           .stride = d[conv_transpose_f32_stride_y],
                           .before = d[conv_transpose_f32_top],
                           .dilation = d[conv_transpose_f32_dilation_y]},
                     .x = {.size = d[conv_transpose_f32_width],
                           .out = d[conv_transpose_f32_out_width],
                           .taps = d[conv_transpose_f32_kernel_width],
                           .stride = d[conv_transpose_f32_stride_x],
                           .before = d[conv_transpose_f32_left],
                           .dilation = d[conv_transpose_f32_dilation_x]}};
    const int64_t plane = s.y.size * s.x.size, out = s.y.out * s.x.out, taps = s.y.taps * s.x.taps;
    int64_t first, last;
    if (s.batch <= 0 || s.groups <= 0 || s.outputs <= 0 || out <= 0)
        return KERNEL_OK;
    if (s.inputs < 0 || plane < 0 || s.y.taps < 1 || s.x.taps < 1 || s.y.stride < 1 || s.x.stride < 1 ||
        s.y.dilation < 1 || s.x.dilation < 1)
        return KERNEL_BAD_ARGUMENT;
    const int64_t shared = workers == 1 ? s.batch : s.batch * s.groups * s.outputs / (2 * workers);
    const int64_t images = larger(1, smaller(s.batch, smaller(shared, TOGETHER && plane ? PIXELS / plane : 1)));
    worker_share((s.batch + images - 1) / images * s.groups * s.outputs, 1, worker, workers, &first, &last);
    while (first < last) {
        const int64_t item = first / s.outputs, group = item % s.groups, begin = first % s.outputs;
        const int64_t end = smaller(s.outputs, begin + last - first), image = item / s.groups * images;
        const float *bias = record->pointers[conv_transpose_f32_bias];
        transpose_channels(
            &s, (float *)record->pointers[conv_transpose_f32_y] + (image * s.groups + group) * s.outputs * out,
            (const float *)record->pointers[conv_transpose_f32_x] + (image * s.groups + group) * s.inputs * plane,
            (const float *)record->pointers[conv_transpose_f32_weight] + group * s.inputs * s.outputs * taps,
            bias ? bias + group * s.outputs : NULL, begin, end, smaller(images, s.batch - image));
        first += end - begin;
    }
    return KERNEL_OK;
}
