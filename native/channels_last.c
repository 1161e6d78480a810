/* Convolutions and pools of pictures whose channels lie together: (batch, height, width, channels). Windows are read in
 * place, by pointers to their pixels (Dukhan: The Indirect Convolution Algorithm, 2019, arXiv 1907.02129): nothing is
 * packed but the weights, once, by pack_convolution_f32. The page has no room for these kernels. */
#include "vmath.h"

#if defined(__wasm__)
#define ABSENT(name, count)                                                                                            \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        const int64_t *d = record->dims;                                                                               \
        return d[name##_##count] ? KERNEL_BAD_ARGUMENT : KERNEL_OK;                                                    \
    }
ABSENT(pack_convolution_f32, groups)
ABSENT(convolution_channels_last_f32, batch)
ABSENT(depthwise_channels_last_f32, batch)
ABSENT(pool_channels_last_f32, batch)
#else

/* A tile of outputs, ROWS pixels x VECTORS vectors of channels, stays in registers. BLOCK_K: how many products are
 * added before the next tile, so that their weights stay in the first cache. BLOCK_BYTES of pixels stay in the second.
 * POINTERS to pixels lie on the stack. */
#if LANES == 16 || defined(__aarch64__)
enum { VECTORS = 4 };
#else
enum { VECTORS = 2 };
#endif
enum {
    ROWS = 6,
    PANEL = VECTORS * LANES,
    BLOCK_K = 384,
    BLOCK_BYTES = 192 << 10,
    POINTERS = 3072,
    TILES = 64,
    FEW_TILES = 40
};
enum { ZEROS = 2048 };
static const float zeros[ZEROS]; /* pixels outside of the picture */

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* to: of each group, panels of PANEL outputs, each (taps, inner, PANEL); the last one is filled with zeros. */
KERNEL(pack_convolution_f32)
{
    const int64_t *d = record->dims, outputs = d[pack_convolution_f32_outputs], inner = d[pack_convolution_f32_inner],
                  taps = d[pack_convolution_f32_taps], panels = (outputs + PANEL - 1) / PANEL;
    int64_t first, last;
    worker_share(d[pack_convolution_f32_groups] * panels, 1, worker, workers, &first, &last);
    for (int64_t at = first; at < last; at++) {
        const int64_t begin = at % panels * PANEL, count = least(PANEL, outputs - begin);
        const float *from = (const float *)record->pointers[pack_convolution_f32_weight] +
                            (at / panels * outputs + begin) * inner * taps;
        float *to = (float *)record->pointers[pack_convolution_f32_to] + at * taps * inner * PANEL;
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t i = 0; i < inner; i++, to += PANEL)
                for (int64_t j = 0; j < PANEL; j++)
                    to[j] = j < count ? from[(j * inner + i) * taps + tap] : 0.0f;
    }
    return KERNEL_OK;
}

/* Up to ROWS pixels of outputs that follow one another: the pixels of their windows, ROWS pointers for each segment.
 * A segment is what lies together in memory: the channels of a tap, or of all taps of a row. */
typedef struct tile {
    int64_t row, tall, depth; /* depth: floats of a segment */
    const float *const *pixels;
} tile;

/* What a tile becomes: c = start + products k .. end - 1, and with `finish` also + residual, within the limits. */
typedef struct job {
    float *c;
    const float *start, *residual, *weights;
    const float *later; /* what a tile reads and writes soon */
    const char *ahead;  /* weights that are used soon, fetched `fetch` bytes at a time */
    int64_t fetch;
    int64_t c_row, start_row, k, end;
    float low, high;
    int finish;
} job;

INLINE void multiply_tile(const tile *t, const job *j, const int rows, const int vectors)
{
    vfloat sum[ROWS][VECTORS];
    const float *weights = j->weights;
    const char *ahead = j->ahead;
    UNROLL for (int r = 0; r < rows; r++) __builtin_prefetch(j->later + r * j->c_row);
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
        vload(j->start + r * j->start_row + v * LANES);
    const float *const *segment = t->pixels;
    int64_t skip = j->k;
    if (skip >= t->depth)
        segment += skip / t->depth * ROWS, skip %= t->depth;
    for (int64_t left = j->end - j->k; left > 0; segment += ROWS, skip = 0) {
        const int64_t n = least(t->depth - skip, left);
        const float *a[ROWS];
        left -= n;
        UNROLL for (int r = 0; r < rows; r++) a[r] = segment[r] + skip;
        for (int64_t i = 0; i < n; i++, weights += PANEL) {
            vfloat right[VECTORS];
            __builtin_prefetch(ahead);
            ahead += j->fetch;
            UNROLL for (int v = 0; v < vectors; v++) right[v] = vload(weights + v * LANES);
            UNROLL for (int r = 0; r < rows; r++)
            {
                const vfloat pixel = vsplat(a[r][i]);
                UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = vfma(pixel, right[v], sum[r][v]);
            }
        }
    }
    if (j->finish) {
        if (j->residual)
            UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) sum[r][v] +=
                vload(j->residual + r * j->c_row + v * LANES);
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
            vclamp(sum[r][v], j->low, j->high);
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
        vstore(j->c + r * j->c_row + v * LANES, sum[r][v]);
}

/* Each size is a function of its own, or the sums would not stay in registers. */
typedef void tile_function(const tile *t, const job *j);
#define TILE(rows, vectors)                                                                                            \
    static __attribute__((noinline)) void tile_##rows##_##vectors(const tile *t, const job *j)                         \
    {                                                                                                                  \
        multiply_tile(t, j, rows, vectors);                                                                            \
    }
#define TILES_OF(vectors)                                                                                              \
    TILE(1, vectors) TILE(2, vectors) TILE(3, vectors) TILE(4, vectors) TILE(5, vectors) TILE(6, vectors)
#define ENTRIES(vectors)                                                                                               \
    {tile_1_##vectors, tile_2_##vectors, tile_3_##vectors, tile_4_##vectors, tile_5_##vectors, tile_6_##vectors}
TILES_OF(1)
TILES_OF(2)
#if LANES == 16 || defined(__aarch64__)
TILES_OF(3)
TILES_OF(4)
#endif
static tile_function *const tile_functions[VECTORS][ROWS] = {
    ENTRIES(1),
    ENTRIES(2),
#if LANES == 16 || defined(__aarch64__)
    ENTRIES(3),
    ENTRIES(4),
#endif
};

/* The same where the last vector is not whole: by way of a copy. */
static __attribute__((noinline)) void multiply_edge(const tile *t, const job *j, int64_t columns)
{
    float sums[ROWS][PANEL] = {0};
    job part = *j;
    part.c = sums[0], part.c_row = PANEL, part.finish = 0;
    part.start = sums[0], part.start_row = PANEL;
    for (int64_t r = 0; r < t->tall; r++)
        for (int64_t i = 0; i < columns; i++)
            sums[r][i] = j->start[r * j->start_row + i];
    tile_functions[(columns - 1) / LANES][t->tall - 1](t, &part);
    for (int64_t r = 0; r < t->tall; r++)
        for (int64_t i = 0; i < columns; i += LANES) {
            const int64_t n = columns - i;
            vfloat y = vload(sums[r] + i);
            if (j->finish && j->residual)
                y += vload_up_to(j->residual + r * j->c_row + i, n);
            vstore_up_to(j->c + r * j->c_row + i, j->finish ? vclamp(y, j->low, j->high) : y, n);
        }
}

typedef struct axis {
    int64_t size, out, taps, stride, before, dilation;
} axis;

/* Where pixel `out` meets the input at its first tap. */
INLINE int64_t start_of(const axis *a, int64_t out) { return out * a->stride - a->before; }

typedef struct convolution {
    axis y, x;
    int64_t groups, inner, outputs, k;
} convolution;

/* A pixel of the outputs: where its window begins in the picture, and that picture. */
typedef struct window {
    int64_t top, left;
    const float *picture;
} window;

/* The tiles of rows first .. last - 1 of the outputs for a group; returns how many. */
static int64_t place_tiles(tile *tiles, const float **pixels, const convolution *c, const float *x, int64_t group,
                           int64_t first, int64_t last)
{
    const int64_t channels = c->groups * c->inner, together = c->x.taps * c->inner,
                  picture = c->y.size * c->x.size * channels, line = first / c->x.out;
    const int joined = c->x.dilation == 1 && c->groups == 1 && together <= ZEROS;
    int64_t found = 0, column = first % c->x.out, above = line % c->y.out;
    x += group * c->inner + line / c->y.out * picture;
    for (int64_t row = first, tall; row < last; row += tall, found++) {
        const int64_t left = last - row;
        window windows[ROWS];
        int inside = joined;
        tall = left >= 2 * ROWS ? ROWS : left > ROWS ? (left + 1) / 2 : left;
        for (int64_t r = 0; r < tall; r++) {
            windows[r] = (window){start_of(&c->y, above), start_of(&c->x, column), x};
            inside = inside && windows[r].left >= 0 && windows[r].left + c->x.taps <= c->x.size;
            if (++column < c->x.out)
                continue;
            column = 0;
            if (++above == c->y.out)
                above = 0, x += picture;
        }
        tiles[found] = (tile){row, tall, inside ? together : c->inner, pixels};
        for (int64_t i = 0; i < c->y.taps; i++)
            for (int64_t k = 0; k < (inside ? 1 : c->x.taps); k++, pixels += ROWS)
                for (int64_t r = 0; r < tall; r++) {
                    const window *w = &windows[r];
                    const int64_t y = w->top + i * c->y.dilation, at = w->left + k * c->x.dilation;
                    const int missing = y < 0 || y >= c->y.size || at < 0 || at >= c->x.size;
                    pixels[r] = missing ? zeros : w->picture + (y * c->x.size + at) * channels;
                }
    }
    return found;
}

/* Whether some window reaches over the edge of the picture. */
INLINE int goes_outside(const axis *a)
{
    return a->before > 0 || start_of(a, a->out - 1) + (a->taps - 1) * a->dilation >= a->size;
}

/* Outputs of a group: the tiles of some rows for the panels first .. last - 1. */
static void multiply_tiles(const launch *record, const convolution *c, const tile *tiles, int64_t count, int64_t group,
                           int64_t first, int64_t last)
{
    const int64_t channels = c->groups * c->outputs, blocks = (c->k + BLOCK_K - 1) / BLOCK_K,
                  panels = (c->outputs + PANEL - 1) / PANEL;
    const float *bias = record->pointers[convolution_channels_last_f32_bias],
                *residual = record->pointers[convolution_channels_last_f32_residual],
                *weights = record->pointers[convolution_channels_last_f32_weights];
    float *y = record->pointers[convolution_channels_last_f32_y];
    for (int64_t panel = first; panel < last; panel++) {
        const int64_t begin = group * c->outputs + panel * PANEL, columns = least(PANEL, c->outputs - panel * PANEL);
        const float *packed = weights + (group * panels + panel) * c->k * PANEL;
        float start[PANEL] = {0};
        for (int64_t i = 0; bias && i < columns; i++)
            start[i] = bias[begin + i];
        for (int64_t b = 0; b < blocks; b++) {
            job j = {.k = c->k * b / blocks, .end = c->k * (b + 1) / blocks, .c_row = channels};
            j.finish = b == blocks - 1, j.weights = packed + j.k * PANEL;
            j.low = record->floats[convolution_channels_last_f32_low];
            j.high = record->floats[convolution_channels_last_f32_high];
            const int64_t bytes = (j.end - j.k) * PANEL * 4, distance = 1 + 64 / (j.end - j.k);
            j.fetch = count <= FEW_TILES ? PANEL * 4 / count : 0;
            for (int64_t t = 0; t < count; t++) {
                const int64_t at = tiles[t].row * channels + begin;
                j.ahead = (const char *)(packed + j.end * PANEL) + (j.fetch ? bytes * t / count : 0);
                j.c = y + at, j.residual = residual ? residual + at : NULL;
                j.start = b ? j.c : start, j.start_row = b ? channels : 0;
                j.later = (residual ? residual : y) + tiles[least(t + distance, count - 1)].row * channels + begin;
                if (columns % LANES)
                    multiply_edge(&tiles[t], &j, columns);
                else
                    tile_functions[columns / LANES - 1][tiles[t].tall - 1](&tiles[t], &j);
            }
        }
    }
}

KERNEL(convolution_channels_last_f32)
{
    const int64_t *d = record->dims;
    convolution c = {
        .y = {d[convolution_channels_last_f32_height], d[convolution_channels_last_f32_out_height],
              d[convolution_channels_last_f32_kernel_height], d[convolution_channels_last_f32_stride_y],
              d[convolution_channels_last_f32_top], d[convolution_channels_last_f32_dilation_y]},
        .x = {d[convolution_channels_last_f32_width], d[convolution_channels_last_f32_out_width],
              d[convolution_channels_last_f32_kernel_width], d[convolution_channels_last_f32_stride_x],
              d[convolution_channels_last_f32_left], d[convolution_channels_last_f32_dilation_x]},
        .groups = d[convolution_channels_last_f32_groups],
        .inner = d[convolution_channels_last_f32_inner],
        .outputs = d[convolution_channels_last_f32_outputs],
    };
    const int64_t taps = c.y.taps * c.x.taps, total = d[convolution_channels_last_f32_batch] * c.y.out * c.x.out,
                  panels = (c.outputs + PANEL - 1) / PANEL;
    int64_t row = 0, last_row = total, panel = 0, last_panel = panels;
    if (total <= 0 || c.groups <= 0 || c.outputs <= 0)
        return KERNEL_OK;
    if (taps < 1 || taps > POINTERS / ROWS || c.inner < 1 || c.y.stride < 1 || c.x.stride < 1 ||
        (c.inner > ZEROS && (goes_outside(&c.y) || goes_outside(&c.x))))
        return KERNEL_BAD_ARGUMENT;
    c.k = taps * c.inner;
    if (total / ROWS >= panels)
        worker_share(total, ROWS, worker, workers, &row, &last_row);
    else
        worker_share(panels, 1, worker, workers, &panel, &last_panel);
    if (row >= last_row)
        return KERNEL_OK;
    const float *pixels[POINTERS];
    tile tiles[TILES];
    /* blocks of about equal size: each reads all weights */
    const int64_t fitting = least(BLOCK_BYTES / 4 / (c.groups * c.inner), POINTERS / taps) / ROWS,
                  room = most(least(fitting, TILES), 1) * ROWS, blocks = (last_row - row + room - 1) / room,
                  block = ((last_row - row + blocks - 1) / blocks + ROWS - 1) / ROWS * ROWS;
    for (; row < last_row; row += block)
        for (int64_t group = 0; group < c.groups; group++) {
            const int64_t count = place_tiles(tiles, pixels, &c, record->pointers[convolution_channels_last_f32_x],
                                              group, row, least(row + block, last_row));
            multiply_tiles(record, &c, tiles, count, group, panel, last_panel);
        }
    return KERNEL_OK;
}

/* ---- Every channel by itself */

/* Outputs of a row that share weights, for kernels of at most MOST_BESIDE; vectors of channels of one output. */
enum { BESIDE = 4, MOST_BESIDE = 5, CHANNELS = 4 };

/* A row of outputs: taps first .. last - 1 along y meet the picture. */
typedef struct line {
    float *y;
    const float *x, *weight, *bias;     /* x: the row of the first tap */
    int64_t channels, first, last, row; /* row: floats from one tap to the next along y */
    float low, high;
} line;

/* BESIDE outputs, for kernels and strides along x that are constants; without dilation along x. `edge`: some windows
 * reach over the edge of the picture, whose width is `size`; there are at most ZEROS channels then. Returns the first
 * channel that is left over. */
INLINE int64_t convolve_beside(const line *l, int64_t out, int64_t left, int64_t size, const int kernel,
                               const int stride, const int edge)
{
    enum { COLUMNS = (BESIDE - 1) * 2 + MOST_BESIDE };
    const float *pixels[MOST_BESIDE][COLUMNS];
    const int columns = (BESIDE - 1) * stride + kernel;
    const int64_t rows = l->last - l->first;
    int64_t c = 0;
    for (int64_t i = 0; edge && i < rows; i++)
        for (int64_t at = 0; at < columns; at++)
            pixels[i][at] = left + at < 0 || left + at >= size ? zeros : l->x + i * l->row + (left + at) * l->channels;
    for (; c + LANES <= l->channels; c += LANES) {
        const vfloat start = l->bias ? vload(l->bias + c) : vzero();
        vfloat sum[BESIDE];
        UNROLL for (int o = 0; o < BESIDE; o++) sum[o] = start;
        const float *x = l->x + left * l->channels + c, *weight = l->weight + l->first * kernel * l->channels + c;
        for (int64_t i = 0; i < rows; i++, x += l->row, weight += kernel * l->channels) {
            vfloat w[MOST_BESIDE];
            UNROLL for (int k = 0; k < kernel; k++) w[k] = vload(weight + k * l->channels);
            UNROLL for (int at = 0; at < columns; at++)
            {
                const vfloat pixel = vload(edge ? pixels[i][at] + c : x + at * l->channels);
                UNROLL for (int o = 0; o < BESIDE; o++) if (at >= o * stride && at < o * stride + kernel) sum[o] =
                    vfma(w[at - o * stride], pixel, sum[o]);
            }
        }
        UNROLL for (int o = 0; o < BESIDE; o++)
            vstore(l->y + (out + o) * l->channels + c, vclamp(sum[o], l->low, l->high));
    }
    return c;
}

/* One output from channel `from` on, of which only some taps along x meet the picture. */
static __attribute__((noinline)) void convolve_one(const line *l, const axis *x_axis, int64_t out, int64_t from)
{
    const int64_t left = start_of(x_axis, out), dilation = x_axis->dilation;
    const int64_t begin = left < 0 ? (dilation - 1 - left) / dilation : 0;
    const int64_t end = least(x_axis->taps, left < x_axis->size ? (x_axis->size - left + dilation - 1) / dilation : 0);
    for (int64_t c = from, n; c < l->channels; c += n) {
        n = c + CHANNELS * LANES <= l->channels ? CHANNELS * LANES : least(LANES, l->channels - c);
        vfloat sum[CHANNELS] = {0};
        if (l->bias)
            for (int64_t v = 0; v * LANES < n; v++)
                sum[v] = vload_up_to(l->bias + c + v * LANES, n - v * LANES);
        for (int64_t i = l->first; i < l->last; i++)
            for (int64_t k = begin; k < end; k++) {
                const float *x = l->x + (i - l->first) * l->row + (left + k * dilation) * l->channels + c;
                const float *weight = l->weight + (i * x_axis->taps + k) * l->channels + c;
                if (n == CHANNELS * LANES)
                    UNROLL for (int v = 0; v < CHANNELS; v++) sum[v] =
                        vfma(vload(weight + v * LANES), vload(x + v * LANES), sum[v]);
                else
                    sum[0] = vfma(vload_up_to(weight, n), vload_up_to(x, n), sum[0]);
            }
        for (int64_t v = 0; v * LANES < n; v++)
            vstore_up_to(l->y + out * l->channels + c + v * LANES, vclamp(sum[v], l->low, l->high), n - v * LANES);
    }
}

INLINE void convolve_line(const line *l, const axis *x, const int kernel, const int stride)
{
    for (int64_t out = 0; out < x->out;) {
        if (!kernel || x->out < BESIDE || l->last - l->first > MOST_BESIDE || l->channels > ZEROS) {
            convolve_one(l, x, out++, 0);
            continue;
        }
        out = least(out, x->out - BESIDE); /* the last ones are computed twice */
        const int64_t left = start_of(x, out), last = left + (BESIDE - 1) * stride + kernel;
        const int64_t done = left >= 0 && last <= x->size ? convolve_beside(l, out, left, x->size, kernel, stride, 0)
                                                          : convolve_beside(l, out, left, x->size, kernel, stride, 1);
        for (int64_t o = 0; done < l->channels && o < BESIDE; o++)
            convolve_one(l, x, out + o, done);
        out += BESIDE;
    }
}

KERNEL(depthwise_channels_last_f32)
{
    const int64_t *d = record->dims;
    const axis y = {d[depthwise_channels_last_f32_height],        d[depthwise_channels_last_f32_out_height],
                    d[depthwise_channels_last_f32_kernel_height], d[depthwise_channels_last_f32_stride_y],
                    d[depthwise_channels_last_f32_top],           d[depthwise_channels_last_f32_dilation_y]};
    const axis x = {d[depthwise_channels_last_f32_width],        d[depthwise_channels_last_f32_out_width],
                    d[depthwise_channels_last_f32_kernel_width], d[depthwise_channels_last_f32_stride_x],
                    d[depthwise_channels_last_f32_left],         d[depthwise_channels_last_f32_dilation_x]};
    line l = {.channels = d[depthwise_channels_last_f32_channels],
              .weight = record->pointers[depthwise_channels_last_f32_weight],
              .bias = record->pointers[depthwise_channels_last_f32_bias],
              .low = record->floats[depthwise_channels_last_f32_low],
              .high = record->floats[depthwise_channels_last_f32_high]};
    int64_t first, last;
    if (d[depthwise_channels_last_f32_batch] <= 0 || l.channels <= 0)
        return KERNEL_OK;
    if (y.stride < 1 || x.stride < 1 || y.dilation < 1 || x.dilation < 1)
        return KERNEL_BAD_ARGUMENT;
    l.row = y.dilation * x.size * l.channels;
    worker_share(d[depthwise_channels_last_f32_batch] * y.out, 1, worker, workers, &first, &last);
    const int64_t kind = x.dilation == 1 && x.stride <= 2 ? x.taps * 10 + x.stride : 0;
    for (int64_t at = first; at < last; at++) {
        const int64_t top = start_of(&y, at % y.out), picture = at / y.out;
        l.first = top < 0 ? (y.dilation - 1 - top) / y.dilation : 0;
        l.last = least(y.taps, top < y.size ? (y.size - top + y.dilation - 1) / y.dilation : 0);
        l.x = (const float *)record->pointers[depthwise_channels_last_f32_x] +
              (picture * y.size + top + l.first * y.dilation) * x.size * l.channels;
        l.y = (float *)record->pointers[depthwise_channels_last_f32_y] + at * x.out * l.channels;
        if (kind == 31)
            convolve_line(&l, &x, 3, 1);
        else if (kind == 32)
            convolve_line(&l, &x, 3, 2);
        else if (kind == 51)
            convolve_line(&l, &x, 5, 1);
        else if (kind == 52)
            convolve_line(&l, &x, 5, 2);
        else
            convolve_line(&l, &x, 0, 0);
    }
    return KERNEL_OK;
}

/* ---- Pools */

/* y: the largest element or, with `mean`, the mean of each window; elements outside are no part of it, but count for
 * the mean with `whole`. */
KERNEL(pool_channels_last_f32)
{
    const int64_t *d = record->dims, channels = d[pool_channels_last_f32_channels];
    const int mean = d[pool_channels_last_f32_mean] != 0, whole = d[pool_channels_last_f32_whole] != 0;
    const axis y = {d[pool_channels_last_f32_height],        d[pool_channels_last_f32_out_height],
                    d[pool_channels_last_f32_kernel_height], d[pool_channels_last_f32_stride_y],
                    d[pool_channels_last_f32_top],           1};
    const axis x = {d[pool_channels_last_f32_width],        d[pool_channels_last_f32_out_width],
                    d[pool_channels_last_f32_kernel_width], d[pool_channels_last_f32_stride_x],
                    d[pool_channels_last_f32_left],         1};
    int64_t at, last;
    if (d[pool_channels_last_f32_batch] <= 0 || channels <= 0)
        return KERNEL_OK;
    if (y.stride < 1 || x.stride < 1)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[pool_channels_last_f32_batch] * y.out * x.out, 1, worker, workers, &at, &last);
    for (; at < last; at++) {
        const int64_t top = start_of(&y, at / x.out % y.out), left = start_of(&x, at % x.out);
        const int64_t up = most(top, 0), down = least(top + y.taps, y.size), begin = most(left, 0),
                      end = least(left + x.taps, x.size);
        const int64_t counted = whole ? y.taps * x.taps : (down - up) * (end - begin);
        const float *from =
            (const float *)record->pointers[pool_channels_last_f32_x] + at / x.out / y.out * y.size * x.size * channels;
        float *to = (float *)record->pointers[pool_channels_last_f32_y] + at * channels;
        for (int64_t c = 0; c < channels; c += LANES) {
            const int64_t n = channels - c;
            vfloat found = vsplat(mean ? 0.0f : -__builtin_inff());
            for (int64_t i = up; i < down; i++)
                for (int64_t k = begin; k < end; k++) {
                    const vfloat v = vload_up_to(from + (i * x.size + k) * channels + c, n);
                    found = mean ? found + v : vmaximum(v, found);
                }
            vstore_up_to(to + c, mean ? found / (float)counted : found, n);
        }
    }
    return KERNEL_OK;
}
#endif
