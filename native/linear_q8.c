/* Matrix x vector and matrix x matrix with int8 weights in packed bands (layout: kernels.h; arithmetic: int8.h).
 *
 * y[m, n] = sum over blocks of scale_w * scale_x * (exact int32 dot of 32 int8). Weights are read once for each tile of
 * TILE_ROWS rows; a group of bands that fits the second cache serves all rows before the next group is touched.
 */
#include "int8.h"

#if LANES == 16 /* 32 registers */
enum { TILE_ROWS = 4, TILE_BANDS = 4, VECTOR_BANDS = 4 };
#elif PART_ROWS == 8
enum { TILE_ROWS = 4, TILE_BANDS = 2, VECTOR_BANDS = 2 };
#else
enum { TILE_ROWS = 4, TILE_BANDS = 1, VECTOR_BANDS = 2 };
#endif
enum { TILE_BLOCKS = 128, GROUP_BYTES = 512 << 10 };

enum { MOST_BANDS = TILE_BANDS > VECTOR_BANDS ? TILE_BANDS : VECTOR_BANDS };

/* The arguments of a record, and the bands that this worker does. */
typedef struct task {
    band_output to;
    const activations *x;
    const uint8_t *w;
    int64_t rows, blocks;
} task;

/* Up to TILE_ROWS rows of x, ready, from block `first` on: `blocks` of them. */
typedef struct tile_input {
    const prepared *x[TILE_ROWS];
    int64_t row, first, blocks;
} tile_input;

INLINE int64_t block_bytes(const int half_scales) { return BAND_BYTES + BAND * (half_scales ? 2 : 4); }

/* Adds 4 columns of a block (weights at w) to the sums. */
INLINE void add_step(sums sum[TILE_ROWS][MOST_BANDS][PARTS], const uint8_t *w, int64_t band_stride,
                     const tile_input *in, int64_t k, int s, const int rows, const int bands, const dot_way *way)
{
    part weights[MOST_BANDS][PARTS];
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++) weights[b][p] =
        part_load((const int8_t *)w + s * BAND * 4 + b * band_stride + p * PART_BYTES, way);
    UNROLL for (int r = 0; r < rows; r++)
    {
        const step four = step_load(&in->x[r][k], s, way);
        UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++) sum[r][b][p] =
            sums_add(sum[r][b][p], weights[b][p], four, way);
        UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++) sums_in_order(&sum[r][b][p]);
    }
}

/* out[row][band] = sums over the blocks of `in`, for bands that lie band_stride bytes apart. */
INLINE void multiply_tile(float out[TILE_ROWS][MOST_BANDS][BAND], const uint8_t *w, int64_t band_stride,
                          const tile_input *in, const int rows, const int bands, const int half_scales,
                          const dot_way *way)
{
    const int64_t scale_bytes = half_scales ? 2 : 4;
    part_float total[TILE_ROWS][MOST_BANDS][PARTS] = {0};
    for (int64_t k = 0; k < in->blocks; k++, w += block_bytes(half_scales)) {
        sums sum[TILE_ROWS][MOST_BANDS][PARTS];
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < bands; b++)
            UNROLL for (int p = 0; p < PARTS; p++) sum[r][b][p] = sums_start(&in->x[r][k], way);
        UNROLL_SAFE for (int s = 0; s < STEPS; s += 2) UNROLL for (int i = 0; i < 2; i++)
            add_step(sum, w + BAND * scale_bytes, band_stride, in, k, s + i, rows, bands, way);
        UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
        {
            const uint8_t *at = w + b * band_stride + p * PART_ROWS * scale_bytes;
            const part_float scale = half_scales ? scales_load_f16(at) : scales_load_f32(at);
            UNROLL for (int r = 0; r < rows; r++) total[r][b][p] +=
                part_from_int(sums_finish(sum[r][b][p], way)) * (scale * part_splat(in->x[r][k].scale));
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < bands; b++)
            UNROLL for (int p = 0; p < PARTS; p++) *
        (part_unaligned *)&out[r][b][p * PART_ROWS] = total[r][b][p];
}

/* Bands first .. last - 1 for the rows of one tile. A lone row walks through far streams: memory likes that better. */
INLINE void multiply_bands(const task *t, const tile_input *in, int64_t first, int64_t last, const int rows,
                           const int half_scales, const dot_way *way)
{
    const int64_t bytes = block_bytes(half_scales), band_bytes = t->blocks * bytes;
    const int bands = rows == 1 ? VECTOR_BANDS : TILE_BANDS;
    const int64_t tiles = (last - first) / bands, far = rows == 1 ? tiles : 1, near = rows == 1 ? 1 : bands;
    float out[TILE_ROWS][MOST_BANDS][BAND];
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t band = first + i * near;
        multiply_tile(out, t->w + band * band_bytes + in->first * bytes, far * band_bytes, in, rows, bands, half_scales,
                      way);
        for (int r = 0; r < rows; r++)
            for (int b = 0; b < bands; b++)
                store_band(&t->to, out[r][b], in->row + r, band + b * far, in->first == 0);
    }
    for (int64_t band = first + tiles * bands; band < last; band++) {
        multiply_tile(out, t->w + band * band_bytes + in->first * bytes, 0, in, rows, 1, half_scales, way);
        for (int r = 0; r < rows; r++)
            store_band(&t->to, out[r][0], in->row + r, band, in->first == 0);
    }
}

INLINE void prepare_rows(tile_input *in, prepared *buffer, const task *t, int rows, const dot_way *way)
{
    for (int r = 0; r < rows; r++) {
        const activations *from = t->x + (in->row + r) * t->blocks + in->first;
#if PREPARED_IN_PLACE
        (void)buffer;
        in->x[r] = from;
#else
        in->x[r] = buffer + r * in->blocks;
        for (int64_t k = 0; k < in->blocks; k++)
            prepare(buffer + r * in->blocks + k, &from[k], way);
#endif
    }
}

INLINE void multiply_group(const task *t, int64_t first, int64_t last, const int half_scales, const dot_way *way)
{
    prepared buffer[PREPARED_IN_PLACE ? 1 : TILE_ROWS * TILE_BLOCKS];
    for (int64_t row = 0; row < t->rows; row += TILE_ROWS)
        for (int64_t block = 0; block < t->blocks; block += TILE_BLOCKS) {
            const int rows = t->rows - row < TILE_ROWS ? (int)(t->rows - row) : TILE_ROWS;
            const int64_t left = t->blocks - block;
            tile_input in = {{0}, row, block, left < TILE_BLOCKS ? left : TILE_BLOCKS};
            prepare_rows(&in, buffer, t, rows, way);
            switch (rows) {
            case 4:
                multiply_bands(t, &in, first, last, 4, half_scales, way);
                break;
            case 3:
                multiply_bands(t, &in, first, last, 3, half_scales, way);
                break;
            case 2:
                multiply_bands(t, &in, first, last, 2, half_scales, way);
                break;
            default:
                multiply_bands(t, &in, first, last, 1, half_scales, way);
            }
        }
}

INLINE int linear_q8(const launch *record, int worker, int workers, const int half_scales)
{
    const int64_t *d = record->dims, outputs = d[1], blocks = (d[2] + BLOCK - 1) / BLOCK;
    const band_output to = {record->pointers[0], record->pointers[3], outputs, d[3], d[4]};
    const task t = {to, record->pointers[1], record->pointers[2], d[0], blocks};
    const int64_t bands = (outputs + BAND - 1) / BAND;
    int64_t first, last;
    worker_share(bands, 1, worker, workers, &first, &last);
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
    const dot_way way = find_dot_way();
    for (int64_t band = first; band < last; band += group) {
        const int64_t end = band + group < last ? band + group : last;
        if (way.two)
            multiply_group(&t, band, end, half_scales, &(const dot_way){1, 0, 0});
        else
            multiply_group(&t, band, end, half_scales, &(const dot_way){0, way.flip, way.start});
    }
    return KERNEL_OK;
}

KERNEL(linear_q8_0) { return linear_q8(record, worker, workers, 1); }
KERNEL(linear_q8_group) { return linear_q8(record, worker, workers, 0); }
