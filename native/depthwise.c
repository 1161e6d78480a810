/* Depthwise convolution in two dims and its gradients: every channel has separate small filters.
 *
 * A tile of a channel's plane is copied to the stack, with zeros for the padding. Elements a stride apart are adjacent
 * in the copy: it has one plane for each remainder ("phase") of the rows and columns divided by the strides. Then every
 * tap of the filter is one offset, and the outputs of all rows are one long row, so that vectors can cross the ends of
 * rows. One dim is a plane of height 1. */
#include "vmath.h"

enum {
    SOURCE = 20480, /* floats of a tile's copy */
    RESULT = 8192,  /* and of its outputs, or of their gradient */
    SLACK = 128,    /* floats that are read or written past the last output */
    TAPS = 1024,    /* at most; larger ones use the slow path */
    VECTORS = 4,    /* outputs that are summed side by side */
    CHAINS = 5,     /* taps whose gradients are */
    PHASES = 4096   /* of an input; more use the slow path */
};

/* One dim of a convolution: output o and tap k meet the input at o * stride + k * dilation - before. With
 * input + before = quotient * stride + phase, tap k meets phase k * dilation % stride at quotient o + k * dilation /
 * stride. */
typedef struct axis {
    int64_t size, out, taps, stride, before, dilation;
    int64_t reach;  /* the quotient of the last tap */
    int64_t phases; /* number of phases: 0 .. phases - 1 */
} axis;

typedef struct shape {
    int64_t batch, channels, multiplier; /* `multiplier` outputs for each channel */
    axis y, x;
    int64_t phases, tile_rows, tile_columns, pitch; /* pitch: columns of a row of the copy */
    int slow;                                       /* the filter is too large for the stack */
} shape;

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The three kernels have the same dims. */
COMPACT int read_shape(shape *s, const int64_t *d)
{
    *s = (shape){.batch = d[depthwise_f32_batch],
                 .channels = d[depthwise_f32_channels],
                 .multiplier = d[depthwise_f32_multiplier]};
    s->y = (axis){.size = d[depthwise_f32_height],
                  .out = d[depthwise_f32_out_height],
                  .taps = d[depthwise_f32_kernel_height],
                  .stride = d[depthwise_f32_stride_y],
                  .before = d[depthwise_f32_top],
                  .dilation = d[depthwise_f32_dilation_y]};
    s->x = (axis){.size = d[depthwise_f32_width],
                  .out = d[depthwise_f32_out_width],
                  .taps = d[depthwise_f32_kernel_width],
                  .stride = d[depthwise_f32_stride_x],
                  .before = d[depthwise_f32_left],
                  .dilation = d[depthwise_f32_dilation_x]};
    axis *const axes[2] = {&s->y, &s->x};
    for (int i = 0; i < 2; i++) {
        axis *a = axes[i];
        if (a->taps < 1 || a->stride < 1 || a->dilation < 1 || a->size < 0 || a->out < 0)
            return KERNEL_BAD_ARGUMENT;
        a->reach = (a->taps - 1) * a->dilation / a->stride;
        a->phases = a->dilation == 1 && a->taps < a->stride ? a->taps : a->stride;
    }
    return s->multiplier < 1 ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
}

/* Tiles of at most `rows` x `columns` quotients of which `phases` planes fit on the stack. */
COMPACT void choose_tile(shape *s, int64_t rows, int64_t columns, int64_t phases)
{
    const int64_t high = 1 + s->y.reach;
    s->phases = phases;
    s->tile_columns = smaller(columns, smaller(SOURCE / phases / high, RESULT) - s->x.reach);
    s->slow = s->y.taps * s->x.taps > TAPS || s->tile_columns < smaller(columns, LANES);
    s->pitch = s->tile_columns + s->x.reach;
    if (!s->slow)
        s->tile_rows = smaller(rows, smaller(RESULT / s->pitch, SOURCE / phases / s->pitch - s->y.reach));
}

/* The last vector of a row overlaps the one before, so that no single elements are left. */
INLINE void copy_row(float *to, const float *from, int64_t n)
{
    int64_t i = 0;
    if (n < LANES)
        for (; i < n; i++)
            to[i] = from[i];
    for (; i < n; i += LANES)
        vstore(to + smaller(i, n - LANES), vload(from + smaller(i, n - LANES)));
}

/* to (rows, pitch): x (height, width) at rows y, y + y_step, ... and columns left, left + x_step, ... (`columns` of
 * them, then zeros); zero outside of x. */
static __attribute__((noinline)) void gather(float *to, int64_t rows, int64_t columns, int64_t pitch, const float *x,
                                             int64_t height, int64_t width, int64_t y, int64_t y_step, int64_t left,
                                             int64_t x_step)
{
    int64_t first = left < 0 ? (x_step - 1 - left) / x_step : 0;
    int64_t last = left < width ? (width - left + x_step - 1) / x_step : 0;
    last = last < columns ? last : columns;
    first = first < last ? first : last;
    for (int64_t r = 0; r < rows; r++, y += y_step, to += pitch) {
        const int inside = y >= 0 && y < height;
        for (int64_t c = 0; c < (inside ? first : pitch); c++)
            to[c] = 0;
        if (!inside)
            continue;
        const float *from = x + y * width + left;
        if (x_step == 1)
            copy_row(to + first, from + first, last - first);
        else {
            int64_t c = first;
            for (; x_step == 2 && c + LANES < last; c += LANES) /* not the last one: what follows it may not be ours */
                vstore(to + c, EVEN(vload(from + 2 * c), vload(from + 2 * c + LANES)));
            for (; c < last; c++)
                to[c] = from[c * x_step];
        }
        for (int64_t c = last; c < pitch; c++)
            to[c] = 0;
    }
}

/* The taps of a filter (or those of one phase): where they lie in the copy. */
typedef struct filter {
    int64_t count, offsets[TAPS];
    float weights[TAPS];
} filter;

INLINE void filter_vectors(float *to, const float *from, const filter *f, float start, const int vectors, int add)
{
    vfloat sums[VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) sums[v] = add ? vload(to + v * LANES) : vsplat(start);
    for (int64_t t = 0; t < f->count; t++) {
        const vfloat weight = vsplat(f->weights[t]);
        const float *at = from + f->offsets[t];
        UNROLL for (int v = 0; v < vectors; v++) sums[v] = vfma(weight, vload(at + v * LANES), sums[v]);
    }
    UNROLL for (int v = 0; v < vectors; v++) vstore(to + v * LANES, sums[v]);
}

/* to[i] = start (or, with `add`, to[i]) + sum over taps of weight * from[offset + i], i < n and some more. */
static __attribute__((noinline)) void apply(float *to, const float *from, const filter *f, int64_t n, float start,
                                            int add)
{
    int64_t i = 0;
    for (; i + (VECTORS - 1) * LANES < n; i += VECTORS * LANES)
        filter_vectors(to + i, from + i, f, start, VECTORS, add);
    for (; i < n; i += LANES)
        filter_vectors(to + i, from + i, f, start, 1, add);
}

/* Copies what the outputs from row `top` and column `left` on (rows x columns of them) read. */
COMPACT void take_tile(float *source, const shape *s, const float *x, int64_t top, int64_t left, int64_t rows)
{
    for (int64_t p = 0; p < s->phases; p++) {
        const int64_t py = p / s->x.phases, px = p % s->x.phases, high = rows + s->y.reach;
        float *to = source + p * (s->tile_rows + s->y.reach) * s->pitch;
        gather(to, high, s->pitch, s->pitch, x, s->y.size, s->x.size, top * s->y.stride + py - s->y.before, s->y.stride,
               left * s->x.stride + px - s->x.before, s->x.stride);
        vstore(to + high * s->pitch, vzero()); /* finite values, because the last vector reads past the end */
    }
}

/* Where the taps of a filter lie in a tile that take_tile copied. */
COMPACT void place_taps(filter *f, const shape *s)
{
    f->count = 0;
    for (int64_t ky = 0; ky < s->y.taps; ky++)
        for (int64_t kx = 0; kx < s->x.taps; kx++) {
            const int64_t y = ky * s->y.dilation, x = kx * s->x.dilation;
            const int64_t phase = y % s->y.stride * s->x.phases + x % s->x.stride;
            f->offsets[f->count++] =
                (phase * (s->tile_rows + s->y.reach) + y / s->y.stride) * s->pitch + x / s->x.stride;
        }
}

/* One output of a filter too large for the stack. */
COMPACT float slow_output(const shape *s, const float *x, const float *weight, int64_t top, int64_t left)
{
    float sum = 0;
    for (int64_t ky = 0; ky < s->y.taps; ky++) {
        const int64_t y = top * s->y.stride + ky * s->y.dilation - s->y.before;
        for (int64_t kx = 0; y >= 0 && y < s->y.size && kx < s->x.taps; kx++) {
            const int64_t at = left * s->x.stride + kx * s->x.dilation - s->x.before;
            if (at >= 0 && at < s->x.size)
                sum += weight[ky * s->x.taps + kx] * x[y * s->x.size + at];
        }
    }
    return sum;
}

/* y (batch, channels * multiplier, out) of x (batch, channels, size). Units of work are planes of x. */
KERNEL(depthwise_f32)
{
    shape s;
    filter f;
    float source[SOURCE + SLACK], result[RESULT + SLACK];
    int64_t unit, last;
    const float *bias = record->pointers[depthwise_f32_bias];
    if (record->dims[depthwise_f32_batch] <= 0 || record->dims[depthwise_f32_channels] <= 0)
        return KERNEL_OK;
    const int code = read_shape(&s, record->dims);
    if (code || s.y.out == 0 || s.x.out == 0)
        return code;
    choose_tile(&s, s.y.out, s.x.out, s.y.phases * s.x.phases);
    if (!s.slow)
        place_taps(&f, &s);
    worker_share(s.batch * s.channels, 1, worker, workers, &unit, &last);
    for (; unit < last; unit++) {
        const float *x = (const float *)record->pointers[depthwise_f32_x] + unit * s.y.size * s.x.size;
        const int64_t channel = unit % s.channels * s.multiplier;
        float *y = (float *)record->pointers[depthwise_f32_y] + unit * s.multiplier * s.y.out * s.x.out;
        if (s.slow)
            for (int64_t i = 0; i < s.multiplier * s.y.out * s.x.out; i++) {
                const int64_t m = channel + i / (s.y.out * s.x.out), at = i % (s.y.out * s.x.out);
                const float *weight = (const float *)record->pointers[depthwise_f32_weight] + m * s.y.taps * s.x.taps;
                y[i] = slow_output(&s, x, weight, at / s.x.out, at % s.x.out) + (bias ? bias[m] : 0.0f);
            }
        for (int64_t top = 0; !s.slow && top < s.y.out; top += s.tile_rows)
            for (int64_t left = 0; left < s.x.out; left += s.tile_columns) {
                const int64_t rows = smaller(s.tile_rows, s.y.out - top);
                const int64_t columns = smaller(s.tile_columns, s.x.out - left);
                take_tile(source, &s, x, top, left, rows);
                for (int64_t m = 0; m < s.multiplier; m++) {
                    memcpy(f.weights, (const float *)record->pointers[depthwise_f32_weight] + (channel + m) * f.count,
                           (size_t)f.count * sizeof *f.weights);
                    apply(result, source, &f, (rows - 1) * s.pitch + columns, bias ? bias[channel + m] : 0.0f, 0);
                    for (int64_t r = 0; r < rows; r++)
                        copy_row(y + (m * s.y.out + top + r) * s.x.out + left, result + r * s.pitch, columns);
                }
            }
    }
    return KERNEL_OK;
}

/* The taps that reach one phase of the input, in a tile of the outputs' gradient: element q of the phase meets output
 * q - k * dilation / stride. */
COMPACT void place_taps_back(filter *f, const shape *s, int64_t py, int64_t px, const float *weight)
{
    f->count = 0;
    for (int64_t ky = 0; ky < s->y.taps; ky++)
        for (int64_t kx = 0; kx < s->x.taps; kx++) {
            const int64_t y = ky * s->y.dilation, x = kx * s->x.dilation;
            if (y % s->y.stride != py || x % s->x.stride != px)
                continue;
            f->offsets[f->count] = (s->y.reach - y / s->y.stride) * s->pitch + s->x.reach - x / s->x.stride;
            f->weights[f->count++] = weight[ky * s->x.taps + kx];
        }
}

COMPACT float slow_input(const shape *s, const float *grad_y, const float *weight, int64_t row, int64_t column)
{
    float sum = 0;
    for (int64_t ky = 0; ky < s->y.taps; ky++) {
        const int64_t y = row + s->y.before - ky * s->y.dilation;
        if (y < 0 || y % s->y.stride || y / s->y.stride >= s->y.out)
            continue;
        for (int64_t kx = 0; kx < s->x.taps; kx++) {
            const int64_t x = column + s->x.before - kx * s->x.dilation;
            if (x >= 0 && x % s->x.stride == 0 && x / s->x.stride < s->x.out)
                sum += weight[ky * s->x.taps + kx] * grad_y[y / s->y.stride * s->x.out + x / s->x.stride];
        }
    }
    return sum;
}

INLINE int64_t floor_div(int64_t a, int64_t b) { return (a < 0 ? a - b + 1 : a) / b; }

/* Writes quotients top .. and left .. of a phase to the plane. */
COMPACT void scatter(float *plane, const shape *s, const float *result, int64_t top, int64_t left, int64_t rows,
                     int64_t columns, int64_t py, int64_t px)
{
    const int64_t x = left * s->x.stride + px - s->x.before, step = s->x.stride;
    const int64_t begin = x < 0 ? (step - 1 - x) / step : 0;
    const int64_t end = smaller(columns, floor_div(s->x.size - 1 - x, step) + 1);
    for (int64_t r = 0; r < rows; r++, result += s->pitch) {
        const int64_t y = (top + r) * s->y.stride + py - s->y.before;
        float *to = plane + y * s->x.size + x;
        if (y < 0 || y >= s->y.size || begin >= end)
            continue;
        if (step == 1)
            copy_row(to + begin, result + begin, end - begin);
        else
            for (int64_t c = begin; c < end; c++)
                to[c * step] = result[c];
    }
}

/* grad_x (batch, channels, size) of grad_y (batch, channels * multiplier, out). Units of work are planes of x. */
KERNEL(depthwise_input_backward_f32)
{
    shape s;
    filter f;
    float source[SOURCE + SLACK], result[RESULT + SLACK];
    int64_t unit, last_unit;
    if (record->dims[depthwise_input_backward_f32_batch] <= 0 ||
        record->dims[depthwise_input_backward_f32_channels] <= 0)
        return KERNEL_OK;
    const int code = read_shape(&s, record->dims);
    if (code || s.y.size == 0 || s.x.size == 0)
        return code;
    const int64_t first_y = floor_div(s.y.before, s.y.stride), first_x = floor_div(s.x.before, s.x.stride);
    const int64_t end_y = floor_div(s.y.before + s.y.size - 1, s.y.stride) + 1;
    const int64_t end_x = floor_div(s.x.before + s.x.size - 1, s.x.stride) + 1;
    choose_tile(&s, end_y - first_y, end_x - first_x, 1);
    s.slow |= s.y.stride > PHASES || s.x.stride > PHASES / s.y.stride;
    worker_share(s.batch * s.channels, 1, worker, workers, &unit, &last_unit);
    for (; unit < last_unit; unit++) {
        const int64_t taps = s.y.taps * s.x.taps, outputs = s.y.out * s.x.out, inputs = s.y.size * s.x.size;
        const float *grad_y =
            (const float *)record->pointers[depthwise_input_backward_f32_grad_y] + unit * s.multiplier * outputs;
        const float *weight = (const float *)record->pointers[depthwise_input_backward_f32_weight] +
                              unit % s.channels * s.multiplier * taps;
        float *grad_x = (float *)record->pointers[depthwise_input_backward_f32_grad_x] + unit * inputs;
        for (int64_t i = 0; s.slow && i < inputs; i++) {
            grad_x[i] = 0;
            for (int64_t m = 0; m < s.multiplier; m++)
                grad_x[i] += slow_input(&s, grad_y + m * outputs, weight + m * taps, i / s.x.size, i % s.x.size);
        }
        for (int64_t top = first_y; !s.slow && top < end_y; top += s.tile_rows)
            for (int64_t left = first_x; left < end_x; left += s.tile_columns) {
                const int64_t rows = smaller(s.tile_rows, end_y - top);
                const int64_t columns = smaller(s.tile_columns, end_x - left);
                for (int64_t p = 0; p < s.y.stride * s.x.stride; p++)
                    for (int64_t m = 0; m < s.multiplier; m++) {
                        if (p == 0 || s.multiplier > 1)
                            gather(source, rows + s.y.reach, s.pitch, s.pitch, grad_y + m * outputs, s.y.out, s.x.out,
                                   top - s.y.reach, 1, left - s.x.reach, 1);
                        place_taps_back(&f, &s, p / s.x.stride, p % s.x.stride, weight + m * taps);
                        apply(result, source, &f, (rows - 1) * s.pitch + columns, 0.0f, m > 0);
                        if (m + 1 == s.multiplier)
                            scatter(grad_x, &s, result, top, left, rows, columns, p / s.x.stride, p % s.x.stride);
                    }
            }
    }
    return KERNEL_OK;
}

/* sums[t] += sum over i < n of a[i] * b[offsets[t] + i], for `count` (a constant) taps; past the end a is zero. */
INLINE void correlate(float *sums, const float *a, const float *b, const int64_t *offsets, int64_t n, const int count)
{
    vfloat totals[CHAINS] = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        const vfloat left = vload(a + i);
        UNROLL for (int t = 0; t < count; t++) totals[t] = vfma(left, vload(b + offsets[t] + i), totals[t]);
    }
    UNROLL for (int t = 0; t < count; t++) sums[t] += vsum(totals[t]);
}

COMPACT void slow_weights(float *grad, const shape *s, const float *x, const float *grad_y)
{
    for (int64_t tap = 0; tap < s->y.taps * s->x.taps; tap++)
        for (int64_t at = 0; at < s->y.out * s->x.out; at++) {
            const int64_t ky = tap / s->x.taps * s->y.dilation, kx = tap % s->x.taps * s->x.dilation;
            const int64_t row = at / s->x.out * s->y.stride + ky - s->y.before;
            const int64_t column = at % s->x.out * s->x.stride + kx - s->x.before;
            if (row >= 0 && row < s->y.size && column >= 0 && column < s->x.size)
                grad[tap] += grad_y[at] * x[row * s->x.size + column];
        }
}

/* grad_weight (channels * multiplier, taps): a sum over the batch. Units of work are channels. */
KERNEL(depthwise_weight_backward_f32)
{
    shape s;
    filter f;
    float source[SOURCE + SLACK], result[RESULT + SLACK];
    int64_t channel, last;
    if (record->dims[depthwise_weight_backward_f32_channels] <= 0)
        return KERNEL_OK;
    const int code = read_shape(&s, record->dims);
    if (code)
        return code;
    choose_tile(&s, s.y.out, s.x.out, s.y.phases * s.x.phases);
    if (!s.slow)
        place_taps(&f, &s);
    worker_share(s.channels, 1, worker, workers, &channel, &last);
    for (; channel < last; channel++) {
        const int64_t taps = s.y.taps * s.x.taps, outputs = s.y.out * s.x.out;
        float *grad =
            (float *)record->pointers[depthwise_weight_backward_f32_grad_weight] + channel * s.multiplier * taps;
        for (int64_t i = 0; i < s.multiplier * taps; i++)
            grad[i] = 0;
        for (int64_t b = 0; b < s.batch && outputs > 0; b++) {
            const int64_t plane = b * s.channels + channel;
            const float *x =
                (const float *)record->pointers[depthwise_weight_backward_f32_x] + plane * s.y.size * s.x.size;
            const float *grad_y =
                (const float *)record->pointers[depthwise_weight_backward_f32_grad_y] + plane * s.multiplier * outputs;
            for (int64_t m = 0; s.slow && m < s.multiplier; m++)
                slow_weights(grad + m * taps, &s, x, grad_y + m * outputs);
            for (int64_t top = 0; !s.slow && top < s.y.out; top += s.tile_rows)
                for (int64_t left = 0; left < s.x.out; left += s.tile_columns) {
                    const int64_t rows = smaller(s.tile_rows, s.y.out - top);
                    const int64_t columns = smaller(s.tile_columns, s.x.out - left), n = (rows - 1) * s.pitch + columns;
                    take_tile(source, &s, x, top, left, rows);
                    for (int64_t m = 0; m < s.multiplier; m++) {
                        float *sums = grad + m * taps;
                        int64_t t = 0;
                        gather(result, rows, columns, s.pitch, grad_y + m * outputs, s.y.out, s.x.out, top, 1, left, 1);
                        vstore(result + rows * s.pitch, vzero());
                        for (; t + CHAINS <= taps; t += CHAINS)
                            correlate(sums + t, result, source, f.offsets + t, n, CHAINS);
                        for (; t + 2 <= taps; t += 2)
                            correlate(sums + t, result, source, f.offsets + t, n, 2);
                        if (t < taps)
                            correlate(sums + t, result, source, f.offsets + t, n, 1);
                    }
                }
        }
    }
    return KERNEL_OK;
}
