/* Matrix x vector and matrix x matrix with int8 weights in packed bands (layout: kernels.h; arithmetic: int8.h).
 *
 * y[m, n] = sum over blocks of scale_w * scale_x * (exact int32 dot of 32 int8). Weights are read once for each tile of
 * TILE_ROWS rows; a group of bands that fits the second cache serves all rows before the next group is touched.
 */
#include "int8.h"

#if STRIPE_BANDS == 2 /* 32 registers of 64 bytes */
enum { TILE_ROWS = 8, TILE_BANDS = 4, FEW_ROWS = 4, FEW_BANDS = 4, VECTOR_BANDS = 4 };
#elif PART_ROWS == 8
enum { TILE_ROWS = 4, TILE_BANDS = 2, FEW_ROWS = 4, FEW_BANDS = 2, VECTOR_BANDS = 2 };
#else
enum { TILE_ROWS = 4, TILE_BANDS = 1, FEW_ROWS = 4, FEW_BANDS = 1, VECTOR_BANDS = 2 };
#endif
/* Where most code is downloaded: three rows are computed as four, and many rows ask in each block for the kind of its
 * scales, which they hardly feel. */
#if defined(__wasm_relaxed_simd__)
enum { HAS_THREE = 0, ONE_OF_SCALES = 1 };
#else
enum { HAS_THREE = 1, ONE_OF_SCALES = 0 };
#endif
/* LAST_BANDS: a band that is left over is multiplied as so many. The page then needs no code for a single band.
 * ROWS_EACH: workers share rows where each of them gets so many. Each then reads all weights; where workers share bands,
 * each prepares all rows. */
#if defined(__wasm__)
enum { GROUP_BYTES = 512 << 10, LAST_BANDS = VECTOR_BANDS, ROWS_EACH = 8 };
#else
enum { GROUP_BYTES = 256 << 10, LAST_BANDS = 1, ROWS_EACH = 64 }; /* GROUP_BYTES beside the group that is fetched */
#endif
/* How many blocks of each row are prepared at once, and of a single row: more, because each stream of weights begins with
 * a wait for memory. */
enum { TILE_BLOCKS = 128, VECTOR_BLOCKS = TILE_ROWS * TILE_BLOCKS };
enum { MOST_BANDS = FEW_BANDS > VECTOR_BANDS ? FEW_BANDS : VECTOR_BANDS, STRIPES = MOST_BANDS / STRIPE_BANDS };

/* The arguments of a record, and the bands of this worker. */
typedef struct task {
    band_output to;
    const activations *x;
    const uint8_t *w;
    int64_t rows, blocks;
    int half_scales;
    dot_way way;
} task;

/* Up to TILE_ROWS prepared rows of x: `blocks` blocks from `first` on (missing rows repeat the first); and the bands
 * for them. */
typedef struct tile_input {
    const prepared *x[TILE_ROWS];
    int64_t row, rows, first, blocks, band, last_band;
} tile_input;

INLINE int64_t block_bytes(const int half_scales) { return BAND_BYTES + BAND * (half_scales ? 2 : 4); }

typedef stripe_sums tile_sums[TILE_ROWS][STRIPES][STRIPE_PARTS];

/* Adds 4 columns of a block (weights at w) to the sums. */
INLINE void add_step(tile_sums sum, const uint8_t *w, int64_t band_stride, const prepared *const x[TILE_ROWS], int s,
                     const int rows, const int stripes, const dot_way *way)
{
    stripe weights[STRIPES][STRIPE_PARTS];
    UNROLL for (int b = 0; b < stripes; b++) UNROLL for (int p = 0; p < STRIPE_PARTS; p++) weights[b][p] = stripe_load(
        (const int8_t *)w + s * BAND * 4 + b * STRIPE_BANDS * band_stride + p * PART_BYTES, band_stride, way);
    UNROLL for (int r = 0; r < rows; r++)
    {
        const stripe_step four = stripe_step_load(x[r], s, way);
        UNROLL for (int b = 0; b < stripes; b++) UNROLL for (int p = 0; p < STRIPE_PARTS; p++) sum[r][b][p] =
            stripe_add(sum[r][b][p], weights[b][p], four, way);
        UNROLL for (int b = 0; b < stripes; b++) UNROLL for (int p = 0; p < STRIPE_PARTS; p++)
            stripe_in_order(&sum[r][b][p]);
    }
}

/* out[row][band] = sums over the blocks of `in`, for bands that lie band_stride bytes apart. Returns 1 where the sums of a
 * single row may be wrong, because scales of w are large (int8.h). */
INLINE int multiply_tile(float out[TILE_ROWS][MOST_BANDS][BAND], const uint8_t *w, int64_t band_stride,
                         const tile_input *in, const int rows, const int bands, const int half_scales,
                         const dot_way *way)
{
    const int64_t scale_bytes = half_scales ? 2 : 4;
    const int stripes = (bands + STRIPE_BANDS - 1) / STRIPE_BANDS;
    stripe_float total[TILE_ROWS][STRIPES][STRIPE_PARTS] = {0};
    scales_bits joined = {0};
    const prepared *x[TILE_ROWS]; /* the block of each row */
    UNROLL for (int r = 0; r < rows; r++) x[r] = in->x[r];
    for (int64_t k = 0; k < in->blocks; k++, w += block_bytes(half_scales)) {
        tile_sums sum;
        if (rows == 1)
            UNROLL for (int b = 0; b < bands; b++) prefetch(w + b * band_stride + AHEAD, block_bytes(half_scales));
        else /* the bands after these */
            UNROLL for (int b = 0; b < bands; b++) prefetch(w + (b + bands) * band_stride, block_bytes(half_scales));
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < stripes; b++)
            UNROLL for (int p = 0; p < STRIPE_PARTS; p++) sum[r][b][p] = stripe_start(x[r], way);
        if (way->two && rows > 1) /* two unrolled steps would be more than registers hold */
            ROLLED for (int s = 0; s < STEPS; s++)
                add_step(sum, w + BAND * scale_bytes, band_stride, x, s, rows, stripes, way);
        else
            UNROLL_SAFE for (int s = 0; s < STEPS; s += 2) UNROLL for (int i = 0; i < 2; i++)
                add_step(sum, w + BAND * scale_bytes, band_stride, x, s + i, rows, stripes, way);
        UNROLL for (int b = 0; b < stripes; b++) UNROLL for (int p = 0; p < STRIPE_PARTS; p++)
        {
            const uint8_t *at = w + b * STRIPE_BANDS * band_stride + p * PART_ROWS * scale_bytes;
            const stripe_float scale = !half_scales ? stripe_scales_f32(at, band_stride)
                                       : rows == 1  ? stripe_scales_small(at, band_stride)
                                                    : stripe_scales_f16(at, band_stride);
            if (half_scales && rows == 1 && p == 0)
                scales_join(&joined, at);
            UNROLL for (int r = 0; r < rows; r++) total[r][b][p] =
                stripe_fma(stripe_finish(sum[r][b][p], way), scale * stripe_splat(x[r]->scale), total[r][b][p]);
        }
        UNROLL for (int r = 0; r < rows; r++) x[r]++;
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < stripes; b++)
            UNROLL for (int p = 0; p < STRIPE_PARTS; p++) *
        (stripe_unaligned *)&out[r][b * STRIPE_BANDS][p * PART_ROWS] = total[r][b][p];
    return half_scales && scales_are_large(joined);
}

/* The bands for the rows of one tile, more than one. */
INLINE void multiply_bands(const task *t, const tile_input *in, const int rows, const int half_scales, const int two)
{
    const dot_way way = {two, t->way.flip, t->way.start};
    const int64_t bytes = block_bytes(half_scales), band_bytes = t->blocks * bytes;
    const int bands = rows <= FEW_ROWS ? FEW_BANDS : TILE_BANDS;
    float out[TILE_ROWS][MOST_BANDS][BAND];
    int64_t band = in->band;
    for (; band + bands <= in->last_band; band += bands) {
        multiply_tile(out, t->w + band * band_bytes + in->first * bytes, band_bytes, in, rows, bands, half_scales,
                      &way);
        for (int r = 0; r < in->rows; r++)
            store_bands(&t->to, out[r][0], in->row + r, band, bands, in->first == 0);
    }
    for (; band < in->last_band; band++) {
        multiply_tile(out, t->w + band * band_bytes + in->first * bytes, 0, in, rows, 1, half_scales, &way);
        for (int r = 0; r < in->rows; r++)
            store_bands(&t->to, out[r][0], in->row + r, band, 1, in->first == 0);
    }
}

INLINE void multiply_rows(const task *t, const tile_input *in, const int half_scales, const int two)
{
    if ((ONE_OF_SCALES || half_scales) && in->rows == 2)
        multiply_bands(t, in, 2, half_scales, two);
    else if ((ONE_OF_SCALES || half_scales) && HAS_THREE && in->rows == 3)
        multiply_bands(t, in, 3, half_scales, two);
    else if (TILE_ROWS == FEW_ROWS || in->rows <= FEW_ROWS) /* possibly with missing rows: beams often have few rows */
        multiply_bands(t, in, FEW_ROWS, half_scales, two);
    else
        multiply_bands(t, in, TILE_ROWS, half_scales, two);
}

/* Out of line, because browsers compile whole functions well, once these have run for a while: the products of one
 * token do not wait for code that only prompts need. */
typedef void multiply_function(const task *t, const tile_input *in);
#define APART static __attribute__((noinline)) void
APART halves_rows(const task *t, const tile_input *in) { multiply_rows(t, in, ONE_OF_SCALES ? t->half_scales : 1, 0); }
APART halves_rows_two(const task *t, const tile_input *in)
{
    multiply_rows(t, in, ONE_OF_SCALES ? t->half_scales : 1, 1);
}
#if defined(__wasm_relaxed_simd__)
#define floats_rows halves_rows
#define floats_rows_two halves_rows_two
#else
APART floats_rows(const task *t, const tile_input *in) { multiply_rows(t, in, 0, 0); }
APART floats_rows_two(const task *t, const tile_input *in) { multiply_rows(t, in, 0, 1); }
#endif

/* `bands` bands from `band` on, `far` apart (0: one band), for a single row. Sums go to y after TILE_BLOCKS, as those of
 * more rows do, so that a row has the same bits in any company. */
INLINE void multiply_streams(const task *t, const tile_input *in, int64_t band, int64_t far, const int bands,
                             const int half_scales, const dot_way *way)
{
    const int64_t bytes = block_bytes(half_scales), band_bytes = t->blocks * bytes;
    const uint8_t *w = t->w + band * band_bytes + in->first * bytes;
    float out[TILE_ROWS][MOST_BANDS][BAND];
    for (int64_t k = 0; k < in->blocks; k += TILE_BLOCKS) {
        const int64_t left = in->blocks - k;
        const prepared *x = in->x[0] + k;
        tile_input piece = {.x = {x, x, x, x}, .row = in->row, .rows = 1, .first = in->first + k};
        piece.blocks = left < TILE_BLOCKS ? left : TILE_BLOCKS;
        const int large = multiply_tile(out, w + k * bytes, far * band_bytes, &piece, 1, bands, half_scales, way);
        for (int b = 0; b < (far ? bands : 1); b++) {
            piece.band = band + b * far, piece.last_band = piece.band + 1;
            if (large)
                (way->two ? halves_rows_two : halves_rows)(t, &piece);
            else
                store_bands(&t->to, out[0][b], in->row, piece.band, 1, piece.first == 0);
        }
    }
}

/* The bands for a single row, in streams far apart, which is faster for memory. */
INLINE void multiply_row(const task *t, const tile_input *in, const int half_scales, const int two)
{
    const dot_way way = {two, t->way.flip, t->way.start};
    const int64_t all = in->last_band - in->band, far = all / VECTOR_BANDS, left = all % VECTOR_BANDS;
    const int same = (int)LAST_BANDS == (int)VECTOR_BANDS; /* bands that are left over run the same code */
    for (int64_t i = 0; i < far + (same ? left : 0); i++) {
        const int alone = same && i >= far;
        multiply_streams(t, in, alone ? in->last_band - left + i - far : in->band + i, alone ? 0 : far, VECTOR_BANDS,
                         half_scales, &way);
    }
    for (int64_t band = in->last_band - left; band < in->last_band && !same; band++)
        multiply_streams(t, in, band, 0, 1, half_scales, &way);
}

APART halves_row(const task *t, const tile_input *in) { multiply_row(t, in, 1, 0); }
APART halves_row_two(const task *t, const tile_input *in) { multiply_row(t, in, 1, 1); }
APART floats_row(const task *t, const tile_input *in) { multiply_row(t, in, 0, 0); }
APART floats_row_two(const task *t, const tile_input *in) { multiply_row(t, in, 0, 1); }

APART prepare_rows(tile_input *in, prepared *buffer, const task *t)
{
    for (int r = 0; r < in->rows; r++) {
        const activations *from = t->x + (in->row + r) * t->blocks + in->first;
#if PREPARED_IN_PLACE
        (void)buffer;
        in->x[r] = from;
#else
        in->x[r] = buffer + r * in->blocks;
        for (int64_t k = 0; k < in->blocks; k++)
            prepare(buffer + r * in->blocks + k, &from[k], &t->way);
#endif
    }
    for (int64_t r = in->rows; r < TILE_ROWS; r++)
        in->x[r] = in->x[0];
}

/* Bands first .. last - 1 for all rows. */
INLINE void multiply_group(const task *t, int64_t first, int64_t last, const int two)
{
    prepared buffer[PREPARED_IN_PLACE ? 1 : TILE_ROWS * TILE_BLOCKS];
    for (int64_t row = 0; row < t->rows; row += TILE_ROWS)
        for (int64_t block = 0, most; block < t->blocks; block += most) {
            const int64_t rows = t->rows - row, blocks = t->blocks - block;
            tile_input in = {{0}, row, rows < TILE_ROWS ? rows : TILE_ROWS, block, 0, first, last};
            most = rows == 1 ? VECTOR_BLOCKS : TILE_BLOCKS;
            in.blocks = blocks < most ? blocks : most;
            prepare_rows(&in, buffer, t);
            if (t->half_scales && in.rows == 1)
                (two ? halves_row_two : halves_row)(t, &in);
            else if (t->half_scales)
                (two ? halves_rows_two : halves_rows)(t, &in);
            else if (in.rows == 1)
                (two ? floats_row_two : floats_row)(t, &in);
            else
                (two ? floats_rows_two : floats_rows)(t, &in);
        }
}

static int linear_q8(const launch *record, int worker, int workers, const int half_scales)
{
    const int64_t *d = record->dims, outputs = d[linear_q8_0_outputs],
                  blocks = (d[linear_q8_0_inputs] + BLOCK - 1) / BLOCK;
    const band_output to = {record->pointers[linear_q8_0_y], record->pointers[linear_q8_0_residual], outputs,
                            d[linear_q8_0_y_stride], d[linear_q8_0_residual_stride]};
    const band_share mine = share_bands(to, record->pointers[linear_q8_0_xq], d[linear_q8_0_rows], blocks, TILE_ROWS,
                                        ROWS_EACH, worker, workers);
    const int64_t first = mine.first, last = mine.last;
    const dot_way way = find_dot_way();
    const task t = {mine.to, mine.x, record->pointers[linear_q8_0_w], mine.rows, blocks, half_scales, way};
    if (blocks == 0) { /* an empty sum */
        for (int64_t row = 0; row < t.rows; row++)
            for (int64_t band = first; band < last; band++)
                store_band(&t.to, (const float[BAND]){0}, row, band, 1);
        return KERNEL_OK;
    }
    int64_t group = GROUP_BYTES / (blocks * block_bytes(half_scales)) / MOST_BANDS * MOST_BANDS;
    if (t.rows <= TILE_ROWS)
        group = last - first;
    if (group < MOST_BANDS)
        group = MOST_BANDS;
    for (int64_t band = first; band < last; band += group) {
        const int64_t end = band + group < last ? band + group : last;
        if (way.two) /* known at compile time if there is only one method */
            multiply_group(&t, band, end, 1);
        else
            multiply_group(&t, band, end, 0);
    }
    return KERNEL_OK;
}

KERNEL(linear_q8_0) { return linear_q8(record, worker, workers, 1); }
KERNEL(linear_q8_group) { return linear_q8(record, worker, workers, 0); }
