/* Convolutions and pools of pictures whose channels lie together: (batch, height, width, channels). Windows are read in
 * place, by pointers to their pixels (Dukhan: The Indirect Convolution Algorithm, 2019, arXiv 1907.02129): nothing is
 * packed but the weights, once, by pack_convolution_f32. The page has no room for these kernels (absent.c). */
#include "vmath.h"

#if !defined(__wasm__)

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
    FEW_TILES = 40,
    CACHE_LINE = 16 /* floats */
};
enum { ZEROS = 2048 };
static const float zeros[ZEROS]; /* pixels outside of the picture */

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Outputs of panel `panel`, with the zeros that fill its last vector. */
INLINE int64_t panel_width(int64_t outputs, int64_t panel)
{
    return least(PANEL, (outputs - panel * PANEL + LANES - 1) / LANES * LANES);
}

/* Floats of the packed weights of a group, for each of its inner channels and taps. */
INLINE int64_t packed_width(int64_t outputs) { return (outputs + LANES - 1) / LANES * LANES; }

/* to: of each group, panels of at most PANEL outputs, each (taps, inner, width of the panel). */
KERNEL(pack_convolution_f32)
{
    const int64_t *d = record->dims, outputs = d[pack_convolution_f32_outputs], inner = d[pack_convolution_f32_inner],
                  taps = d[pack_convolution_f32_taps], panels = (outputs + PANEL - 1) / PANEL;
    int64_t first, last;
    worker_share(d[pack_convolution_f32_groups] * panels, 1, worker, workers, &first, &last);
    for (int64_t at = first; at < last; at++) {
        const int64_t begin = at % panels * PANEL, count = least(PANEL, outputs - begin),
                      width = panel_width(outputs, at % panels);
        const float *from = (const float *)record->pointers[pack_convolution_f32_weight] +
                            (at / panels * outputs + begin) * inner * taps;
        float *to = (float *)record->pointers[pack_convolution_f32_to] +
                    (at / panels * packed_width(outputs) + begin) * taps * inner;
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t i = 0; i < inner; i++, to += width)
                for (int64_t j = 0; j < width; j++)
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
    int64_t tail; /* columns of the last vector */
    float low, high;
    int finish;
} job;

/* The last vector of a row of a tile. Where that needs no branch, it may have fewer columns. */
INLINE vfloat load_tail(const float *p, int64_t tail)
{
#if LANES == 16
    return vload_up_to(p, tail);
#else
    (void)tail;
    return vload(p);
#endif
}

INLINE void store_tail(float *p, vfloat v, int64_t tail)
{
#if LANES == 16
    vstore_up_to(p, v, tail);
#else
    (void)tail;
    vstore(p, v);
#endif
}

/* Of more than ROWS rows, those that follow are the next tile's. */
INLINE void multiply_tile(const tile *t, const job *j, const int rows, const int vectors)
{
    enum { MOST = 2 * ROWS };
    vfloat sum[MOST][VECTORS];
    const float *weights = j->weights;
    const char *ahead = j->ahead;
    const int last = vectors - 1;
    UNROLL for (int r = 0; r < rows; r++) __builtin_prefetch(j->later + r * j->c_row);
    if (j->residual) /* what is only written may come late */
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = CACHE_LINE / LANES; v < vectors; v += CACHE_LINE / LANES)
                __builtin_prefetch(j->later + r * j->c_row + v * LANES);
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int v = 0; v < last; v++) sum[r][v] = vload(j->start + r * j->start_row + v * LANES);
        sum[r][last] = load_tail(j->start + r * j->start_row + last * LANES, j->tail);
    }
    const float *const *segment = t->pixels;
    const int64_t other = rows > ROWS ? t[1].pixels - t->pixels : 0;
    int64_t skip = j->k;
    if (skip >= t->depth)
        segment += skip / t->depth * ROWS, skip %= t->depth;
    for (int64_t left = j->end - j->k; left > 0; segment += ROWS, skip = 0) {
        const int64_t n = least(t->depth - skip, left);
        const float *a[MOST];
        left -= n;
        UNROLL for (int r = 0; r < rows; r++) a[r] = (r < ROWS ? segment[r] : segment[other + r - ROWS]) + skip;
        for (int64_t i = 0; i < n; i++, weights += vectors * LANES) {
            vfloat right[VECTORS];
            if (rows <= ROWS) { /* or the registers do not suffice */
                __builtin_prefetch(ahead);
                ahead += j->fetch;
            }
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
            UNROLL for (int r = 0; r < rows; r++)
            {
                const float *residual = j->residual + r * j->c_row;
                UNROLL for (int v = 0; v < last; v++) sum[r][v] += vload(residual + v * LANES);
                sum[r][last] += load_tail(residual + last * LANES, j->tail);
            }
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
            vclamp(sum[r][v], j->low, j->high);
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int v = 0; v < last; v++) vstore(j->c + r * j->c_row + v * LANES, sum[r][v]);
        store_tail(j->c + r * j->c_row + last * LANES, sum[r][last], j->tail);
    }
}

/* Each size is a function of its own, or the sums would not stay in registers. Rows of one vector are too few sums to
 * keep the multipliers busy: two tiles are computed together. */
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
TILE(12, 1)
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

/* The tile for `columns` outputs; where load_tail needs them, the last vector has all its columns, by way of a copy. */
static __attribute__((noinline)) void multiply_columns(const tile *t, const job *j, int64_t columns)
{
    tile_function *const function = tile_functions[(columns - 1) / LANES][t->tall - 1];
    if (LANES == 16 || columns % LANES == 0) {
        function(t, j);
        return;
    }
    float sums[ROWS][PANEL] = {0};
    job part = *j;
    part.c = sums[0], part.c_row = PANEL, part.finish = 0;
    part.start = sums[0], part.start_row = PANEL;
    for (int64_t r = 0; r < t->tall; r++)
        for (int64_t i = 0; i < columns; i++)
            sums[r][i] = j->start[r * j->start_row + i];
    function(t, &part);
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

/* Whether each window is the pixel at the place of its output. */
INLINE int covers_pixels(const axis *a)
{
    return a->taps == 1 && a->stride == 1 && a->before == 0 && a->out == a->size;
}

/* Whether the window from `start` on lies in the picture along an axis. */
INLINE int lies_inside(const axis *a, int64_t start)
{
    return start >= 0 && start + (a->taps - 1) * a->dilation < a->size;
}

/* Rows of a tile, of those that are left: the last two are about equal. */
INLINE int64_t tile_height(int64_t left) { return left >= 2 * ROWS ? ROWS : left > ROWS ? (left + 1) / 2 : left; }

/* A row of the outputs: its place, and the picture that its window lies in. */
typedef struct place {
    int64_t column, line;
    const float *picture;
} place;

INLINE void step_on(place *p, const convolution *c, int64_t rows)
{
    p->column += rows;
    if (p->column < c->x.out)
        return;
    p->line += p->column / c->x.out, p->column %= c->x.out;
    p->picture += p->line / c->y.out * c->y.size * c->x.size * c->groups * c->inner, p->line %= c->y.out;
}

/* A tile whose windows lie in the picture, and its rows in one line; the pointers behind its own. Segments are as long
 * as can be. */
INLINE const float **place_inside(tile *t, const float **pixels, const convolution *c, const place *p)
{
    const int64_t channels = c->groups * c->inner, stride = c->x.stride * channels;
    const int joined = c->x.dilation == 1 && c->groups == 1;
    const float *start = p->picture + (start_of(&c->y, p->line) * c->x.size + start_of(&c->x, p->column)) * channels;
    t->depth = joined ? c->x.taps * c->inner : c->inner;
    for (int64_t i = 0; i < c->y.taps; i++, start += c->y.dilation * c->x.size * channels)
        for (int64_t k = 0; k < (joined ? 1 : c->x.taps); k++, pixels += ROWS)
            for (int64_t r = 0; r < t->tall; r++)
                pixels[r] = start + k * c->x.dilation * channels + r * stride;
    return pixels;
}

/* A tile anywhere: a tap that is outside of the picture meets zeros. */
static const float **place_anywhere(tile *t, const float **pixels, const convolution *c, const place *p)
{
    const int64_t channels = c->groups * c->inner;
    place places[ROWS] = {*p};
    for (int64_t r = 1; r < t->tall; r++)
        places[r] = places[r - 1], step_on(&places[r], c, 1);
    t->depth = c->inner;
    for (int64_t i = 0; i < c->y.taps; i++)
        for (int64_t k = 0; k < c->x.taps; k++, pixels += ROWS)
            for (int64_t r = 0; r < t->tall; r++) {
                const int64_t y = start_of(&c->y, places[r].line) + i * c->y.dilation,
                              x = start_of(&c->x, places[r].column) + k * c->x.dilation;
                const int there = y >= 0 && y < c->y.size && x >= 0 && x < c->x.size;
                pixels[r] = there ? places[r].picture + (y * c->x.size + x) * channels : zeros;
            }
    return pixels;
}

/* The tiles of rows first .. last - 1 of the outputs for a group; returns how many. */
static int64_t place_tiles(tile *tiles, const float **pixels, const convolution *c, const float *x, int64_t group,
                           int64_t first, int64_t last)
{
    place p = {0, 0, x + group * c->inner};
    int64_t found = 0;
    if (covers_pixels(&c->y) && covers_pixels(&c->x)) {
        for (int64_t row = first, tall; row < last; row += tall, found++, pixels += ROWS) {
            tall = tile_height(last - row);
            tiles[found] = (tile){row, tall, c->inner, pixels};
            for (int64_t r = 0; r < tall; r++)
                pixels[r] = p.picture + (row + r) * c->groups * c->inner;
        }
        return found;
    }
    step_on(&p, c, first);
    for (int64_t row = first, tall; row < last; row += tall, found++) {
        tall = tile_height(last - row);
        tile *t = &tiles[found];
        *t = (tile){row, tall, 0, pixels};
        const int inside = p.column + tall <= c->x.out && lies_inside(&c->y, start_of(&c->y, p.line)) &&
                           lies_inside(&c->x, start_of(&c->x, p.column)) &&
                           lies_inside(&c->x, start_of(&c->x, p.column + tall - 1));
        pixels = inside ? place_inside(t, pixels, c, &p) : place_anywhere(t, pixels, c, &p);
        step_on(&p, c, tall);
    }
    return found;
}

/* Whether some window reaches over the edge of the picture. */
INLINE int goes_outside(const axis *a)
{
    return !lies_inside(a, start_of(a, 0)) || !lies_inside(a, start_of(a, a->out - 1));
}

/* What a convolution is of, and where its rows from `row` on go. */
typedef struct product {
    const float *x, *weights, *bias, *residual;
    float *y;
    int64_t row;
    float low, high;
} product;

/* Outputs of a group: the tiles of some rows for the panels first .. last - 1. */
static void multiply_tiles(const product *p, const convolution *c, const tile *tiles, int64_t count, int64_t group,
                           int64_t first, int64_t last)
{
    const int64_t channels = c->groups * c->outputs, blocks = (c->k + BLOCK_K - 1) / BLOCK_K;
    for (int64_t panel = first; panel < last; panel++) {
        const int64_t begin = group * c->outputs + panel * PANEL, columns = least(PANEL, c->outputs - panel * PANEL);
        const int64_t width = panel_width(c->outputs, panel);
        const float *packed = p->weights + (group * packed_width(c->outputs) + panel * PANEL) * c->k;
        const int pairs = width == LANES && (LANES == 16 || columns == LANES);
        float start[PANEL] = {0};
        for (int64_t i = 0; p->bias && i < columns; i++)
            start[i] = p->bias[begin + i];
        for (int64_t b = 0; b < blocks; b++) {
            job j = {.k = c->k * b / blocks, .end = c->k * (b + 1) / blocks, .c_row = channels};
            j.tail = columns - (width - LANES);
            j.finish = b == blocks - 1, j.weights = packed + j.k * width;
            j.low = p->low, j.high = p->high;
            const int64_t bytes = (j.end - j.k) * width * 4, distance = 1 + 64 / (j.end - j.k);
            j.fetch = count <= FEW_TILES ? width * 4 / count : 0;
            for (int64_t t = 0, done; t < count; t += done) {
                const int64_t at = (tiles[t].row - p->row) * channels + begin,
                              later = (tiles[least(t + distance, count - 1)].row - p->row) * channels + begin;
                const int two =
                    pairs && t + 1 < count && tiles[t + 1].tall == ROWS && tiles[t].depth == tiles[t + 1].depth;
                done = 1 + two;
                j.ahead = (const char *)(packed + j.end * width) + (j.fetch ? bytes * t / count : 0);
                j.c = p->y + at, j.residual = p->residual ? p->residual + at : NULL;
                j.start = b ? j.c : start, j.start_row = b ? channels : 0;
                j.later = (p->residual ? p->residual : p->y) + later;
                if (two)
                    tile_12_1(&tiles[t], &j);
                else
                    multiply_columns(&tiles[t], &j, columns);
            }
        }
    }
}

/* Rows row .. last_row - 1 of the outputs for some panels of each group. */
static void multiply_rows(const product *p, const convolution *c, int64_t row, int64_t last_row, int64_t panel,
                          int64_t last_panel)
{
    const float *pixels[POINTERS];
    tile tiles[TILES];
    /* blocks of about equal size: each reads all weights */
    const int64_t taps = c->y.taps * c->x.taps,
                  fitting = least(BLOCK_BYTES / 4 / (c->groups * c->inner), POINTERS / taps) / ROWS,
                  room = most(least(fitting, TILES), 1) * ROWS, blocks = (last_row - row + room - 1) / room,
                  block = ((last_row - row + blocks - 1) / blocks + ROWS - 1) / ROWS * ROWS;
    for (; row < last_row; row += block)
        for (int64_t group = 0; group < c->groups; group++) {
            const int64_t count = place_tiles(tiles, pixels, c, p->x, group, row, least(row + block, last_row));
            multiply_tiles(p, c, tiles, count, group, panel, last_panel);
        }
}

/* Whether multiply_rows can do it; k is set. */
static int is_possible(convolution *c)
{
    const int64_t taps = c->y.taps * c->x.taps;
    c->k = taps * c->inner;
    return taps >= 1 && taps <= POINTERS / ROWS && c->inner >= 1 && c->y.stride >= 1 && c->x.stride >= 1 &&
           (c->inner <= ZEROS || !(goes_outside(&c->y) || goes_outside(&c->x)));
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
    const product p = {
        .x = record->pointers[convolution_channels_last_f32_x],
        .weights = record->pointers[convolution_channels_last_f32_weights],
        .bias = record->pointers[convolution_channels_last_f32_bias],
        .residual = record->pointers[convolution_channels_last_f32_residual],
        .y = record->pointers[convolution_channels_last_f32_y],
        .low = record->floats[convolution_channels_last_f32_low],
        .high = record->floats[convolution_channels_last_f32_high],
    };
    const int64_t total = d[convolution_channels_last_f32_batch] * c.y.out * c.x.out,
                  panels = (c.outputs + PANEL - 1) / PANEL;
    int64_t row = 0, last_row = total, panel = 0, last_panel = panels;
    if (total <= 0 || c.groups <= 0 || c.outputs <= 0)
        return KERNEL_OK;
    if (!is_possible(&c))
        return KERNEL_BAD_ARGUMENT;
    if (total / ROWS >= panels)
        worker_share(total, ROWS, worker, workers, &row, &last_row);
    else
        worker_share(panels, 1, worker, workers, &panel, &last_panel);
    if (row < last_row)
        multiply_rows(&p, &c, row, last_row, panel, last_panel);
    return KERNEL_OK;
}

/* ---- Every channel by itself */

/* Outputs of a row that share weights, for kernels of at most MOST_BESIDE; vectors of channels of one output. */
enum { BESIDE = 4, MOST_BESIDE = 5, CHANNELS = 4 };

/* A row of outputs: taps first .. last - 1 along y meet the picture. */
typedef struct line {
    float *y;
    const float *x, *weight, *bias;            /* x: the row of the first tap */
    int64_t channels, first, last, row, y_row; /* row: floats from one tap to the next along y; y_row: of outputs */
    int64_t turn, ring;                        /* rows from the tap `turn` on lie `ring` rows before */
    float low, high;
} line;

/* The row that the tap first + i along y meets. */
INLINE const float *row_of(const line *l, int64_t i) { return l->x + (i < l->turn ? i : i - l->ring) * l->row; }

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
            pixels[i][at] = left + at < 0 || left + at >= size ? zeros : row_of(l, i) + (left + at) * l->channels;
    for (; c + LANES <= l->channels; c += LANES) {
        const vfloat start = l->bias ? vload(l->bias + c) : vzero();
        vfloat sum[BESIDE];
        UNROLL for (int o = 0; o < BESIDE; o++) sum[o] = start;
        const float *weight = l->weight + l->first * kernel * l->channels + c;
        for (int64_t i = 0; i < rows; i++, weight += kernel * l->channels) {
            const float *x = row_of(l, i) + left * l->channels + c;
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

/* Outputs out .. end - 1, whole groups of BESIDE, whose windows of 3 x 3 lie in the picture. Every vector of channels
 * goes along the row, so that its weights stay in registers. Returns the first channel that is left over. */
INLINE int64_t convolve_inside(const line *l, int64_t out, int64_t end, int64_t left, const int stride)
{
    enum { KERNEL_SIZE = 3 };
    const int columns = (BESIDE - 1) * stride + KERNEL_SIZE;
    int64_t c = 0;
    for (; c + LANES <= l->channels; c += LANES) {
        const vfloat start = l->bias ? vload(l->bias + c) : vzero();
        const float *x[KERNEL_SIZE];
        vfloat w[KERNEL_SIZE][KERNEL_SIZE];
        UNROLL for (int i = 0; i < KERNEL_SIZE; i++) x[i] = row_of(l, i) + left * l->channels + c;
        UNROLL for (int i = 0; i < KERNEL_SIZE; i++) UNROLL for (int k = 0; k < KERNEL_SIZE; k++) w[i][k] =
            vload(l->weight + (i * KERNEL_SIZE + k) * l->channels + c);
        for (int64_t o = out; o < end; o += BESIDE) {
            vfloat sum[BESIDE];
            UNROLL for (int b = 0; b < BESIDE; b++) sum[b] = start;
            UNROLL for (int i = 0; i < KERNEL_SIZE; i++)
            {
                UNROLL for (int at = 0; at < columns; at++)
                {
                    const vfloat pixel = vload(x[i] + at * l->channels);
                    UNROLL for (int b = 0; b < BESIDE; b++) if (at >= b * stride && at < b * stride + KERNEL_SIZE)
                        sum[b] = vfma(w[i][at - b * stride], pixel, sum[b]);
                }
            }
            /* what the next row of outputs reads and writes */
            if (stride == 1 && !l->ring)
                UNROLL for (int at = 0; at < BESIDE; at++)
                    __builtin_prefetch(x[KERNEL_SIZE - 1] + l->row + at * l->channels);
            UNROLL for (int b = 0; b < BESIDE; b++)
            {
                float *y = l->y + (o + b) * l->channels + c;
                if (stride == 1)
                    __builtin_prefetch(y + l->y_row, 1);
                vstore(y, vclamp(sum[b], l->low, l->high));
            }
            UNROLL for (int i = 0; i < KERNEL_SIZE; i++) x[i] += BESIDE * stride * l->channels;
        }
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
                const float *x = row_of(l, i - l->first) + (left + k * dilation) * l->channels + c;
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
    const int64_t rows = l->last - l->first, wide = (BESIDE - 1) * stride + kernel;
    for (int64_t out = 0, end; out < x->out; out = end) {
        end = out + 1;
        if (!kernel || x->out < BESIDE || rows > MOST_BESIDE || l->channels > ZEROS) {
            convolve_one(l, x, out, 0);
            continue;
        }
        out = least(out, x->out - BESIDE); /* the last ones are computed twice */
        end = out + BESIDE;
        const int64_t left = start_of(x, out);
        int64_t done;
        if (left < 0 || left + wide > x->size)
            done = convolve_beside(l, out, left, x->size, kernel, stride, 1);
        else if (kernel != 3 || rows != kernel)
            done = convolve_beside(l, out, left, x->size, kernel, stride, 0);
        else {
            while (end + BESIDE <= x->out && start_of(x, end) + wide <= x->size)
                end += BESIDE;
            done = convolve_inside(l, out, end, left, stride);
        }
        for (int64_t o = out; done < l->channels && o < end; o++)
            convolve_one(l, x, o, done);
    }
}

/* Which taps along y meet the picture. */
INLINE void find_taps(line *l, const axis *y, int64_t top)
{
    l->first = top < 0 ? (y->dilation - 1 - top) / y->dilation : 0;
    l->last = least(y->taps, top < y->size ? (y->size - top + y->dilation - 1) / y->dilation : 0);
}

static void convolve_channels(const line *l, const axis *x)
{
    const int64_t kind = x->dilation == 1 && x->stride <= 2 ? x->taps * 10 + x->stride : 0;
    if (kind == 31)
        convolve_line(l, x, 3, 1);
    else if (kind == 32)
        convolve_line(l, x, 3, 2);
    else if (kind == 51)
        convolve_line(l, x, 5, 1);
    else if (kind == 52)
        convolve_line(l, x, 5, 2);
    else
        convolve_line(l, x, 0, 0);
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
              .turn = INT64_MAX,
              .low = record->floats[depthwise_channels_last_f32_low],
              .high = record->floats[depthwise_channels_last_f32_high]};
    int64_t first, last;
    if (d[depthwise_channels_last_f32_batch] <= 0 || l.channels <= 0)
        return KERNEL_OK;
    if (y.stride < 1 || x.stride < 1 || y.dilation < 1 || x.dilation < 1)
        return KERNEL_BAD_ARGUMENT;
    l.row = y.dilation * x.size * l.channels, l.y_row = x.out * l.channels;
    worker_share(d[depthwise_channels_last_f32_batch] * y.out, 1, worker, workers, &first, &last);
    for (int64_t at = first; at < last; at++) {
        const int64_t top = start_of(&y, at % y.out), picture = at / y.out;
        find_taps(&l, &y, top);
        l.x = (const float *)record->pointers[depthwise_channels_last_f32_x] +
              (picture * y.size + top + l.first * y.dilation) * x.size * l.channels;
        l.y = (float *)record->pointers[depthwise_channels_last_f32_y] + at * l.y_row;
        convolve_channels(&l, &x);
    }
    return KERNEL_OK;
}

/* A convolution, and every channel of its result by itself: of that result, a worker keeps as many lines in its scratch
 * as the second kernel is high. */
KERNEL(expanded_depthwise_channels_last_f32)
{
    const int64_t *d = record->dims;
    convolution c = {
        .y = {d[expanded_depthwise_channels_last_f32_height], d[expanded_depthwise_channels_last_f32_middle_height],
              d[expanded_depthwise_channels_last_f32_kernel_height], d[expanded_depthwise_channels_last_f32_stride_y],
              d[expanded_depthwise_channels_last_f32_top], 1},
        .x = {d[expanded_depthwise_channels_last_f32_width], d[expanded_depthwise_channels_last_f32_middle_width],
              d[expanded_depthwise_channels_last_f32_kernel_width], d[expanded_depthwise_channels_last_f32_stride_x],
              d[expanded_depthwise_channels_last_f32_left], 1},
        .groups = 1,
        .inner = d[expanded_depthwise_channels_last_f32_inner],
        .outputs = d[expanded_depthwise_channels_last_f32_channels],
    };
    const axis y = {c.y.out,
                    d[expanded_depthwise_channels_last_f32_out_height],
                    d[expanded_depthwise_channels_last_f32_depth_height],
                    d[expanded_depthwise_channels_last_f32_depth_stride_y],
                    d[expanded_depthwise_channels_last_f32_depth_top],
                    1};
    const axis x = {c.x.out,
                    d[expanded_depthwise_channels_last_f32_out_width],
                    d[expanded_depthwise_channels_last_f32_depth_width],
                    d[expanded_depthwise_channels_last_f32_depth_stride_x],
                    d[expanded_depthwise_channels_last_f32_depth_left],
                    1};
    const int64_t shares = least(workers, d[expanded_depthwise_channels_last_f32_workspaces]),
                  panels = (c.outputs + PANEL - 1) / PANEL, row = x.size * c.outputs; /* floats of a line */
    product p = {.x = record->pointers[expanded_depthwise_channels_last_f32_x],
                 .weights = record->pointers[expanded_depthwise_channels_last_f32_weights],
                 .bias = record->pointers[expanded_depthwise_channels_last_f32_bias]};
    p.low = record->floats[expanded_depthwise_channels_last_f32_low];
    p.high = record->floats[expanded_depthwise_channels_last_f32_high];
    line l = {.channels = c.outputs,
              .weight = record->pointers[expanded_depthwise_channels_last_f32_depth_weight],
              .bias = record->pointers[expanded_depthwise_channels_last_f32_depth_bias],
              .row = row};
    l.low = record->floats[expanded_depthwise_channels_last_f32_depth_low];
    l.high = record->floats[expanded_depthwise_channels_last_f32_depth_high];
    l.y_row = x.out * c.outputs, l.ring = y.taps;
    if (d[expanded_depthwise_channels_last_f32_batch] <= 0 || c.outputs <= 0)
        return KERNEL_OK;
    if (!is_possible(&c) || y.stride < 1 || x.stride < 1 || y.taps < 1 || shares < 1)
        return KERNEL_BAD_ARGUMENT;
    if (worker >= shares)
        return KERNEL_OK;
    float *lines = (float *)record->pointers[expanded_depthwise_channels_last_f32_scratch] +
                   worker * y.taps * row; /* the line n of a picture lies at n % y.taps */
    int64_t first, last, next = 0;        /* the line of this picture that comes next */
    worker_share(d[expanded_depthwise_channels_last_f32_batch] * y.out, 1, worker, (int)shares, &first, &last);
    for (int64_t at = first; at < last; at++) {
        const int64_t top = start_of(&y, at % y.out), picture = at / y.out;
        find_taps(&l, &y, top);
        if (at == first || at % y.out == 0)
            next = 0;
        for (next = most(next, top + l.first); next < top + l.last; next++) {
            p.row = (picture * c.y.out + next) * c.x.out;
            p.y = lines + next % y.taps * row;
            multiply_rows(&p, &c, p.row, p.row + c.x.out, 0, panels);
        }
        const int64_t slot = most(top + l.first, 0) % y.taps;
        l.x = lines + slot * row, l.turn = y.taps - slot;
        l.y = (float *)record->pointers[expanded_depthwise_channels_last_f32_y] + at * l.y_row;
        convolve_channels(&l, &x);
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
