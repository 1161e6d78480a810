/* y = x w^T (+ residual) with weights in any of GGML's block types and int8 activations.
 *
 * A few rows of x with q4_0, q4_K or q6_K: the bands are streamed, and their bits come apart in registers. All else: a
 * tile of weights is decoded into bytes, which then serve all rows of x. A block's part of y is
 * scale_x * (scale * sum(w * x) - minimum * sum(x)), both sums exact; a bias counts as a minimum.
 */
#include "blocks.h"
#include "dot_u7.h"

enum { FEW_ROWS = 3, STREAM_BLOCKS = 128, TILE_ROWS = 4, TILE_BANDS = 8, TILE_BLOCKS = 16 };
enum { TILE_AT_ONCE = LANES >= 8 ? 2 : 1 }; /* bands that share each load of activations */

typedef struct task {
    band_output to;
    const activations *x;
    const uint8_t *w;
    int64_t rows, blocks, type;
    block_type kind;
} task;

/* ---- streaming: one row of x */

/* Bands streamed side by side, and those of them that are added to at once. */
enum { STREAM_BANDS = 4 };
#if LANES == 16 || (defined(__wasm_simd128__) && !U7_WORDS)
enum { BANDS_AT_ONCE = 4 };
#elif U7_WORDS && !defined(__wasm__)
enum { BANDS_AT_ONCE = 1 };
#else
enum { BANDS_AT_ONCE = 2 };
#endif
typedef part_float band_sums[PARTS];

typedef struct run_sums {
    u7_sums low[BANDS_AT_ONCE][PARTS], high[BANDS_AT_ONCE][PARTS]; /* of the first and the last 16 columns */
} run_sums;

/* 32 columns of bands that lie `stride` bytes apart: nibbles, and with `six` the two bits above them, for which all sums
 * stay apart; without, they are in `low`. */
INLINE void add_run(run_sums *s, const uint8_t *w, int64_t stride, const ready *x, const int bands, const int six)
{
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        s->low[b][p] = u7_start(x->start[0]);
        s->high[b][p] = u7_start(x->start[1]);
    }
    UNROLL_SAFE for (int u = 0; u < 2; u++) UNROLL for (int i = 0; i < 2; i++)
    {
        const u7_step first = u7_step_load(x, 2 * u + i), last = u7_step_load(x, 2 * u + i + 4);
        UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
        {
            const uint8_t *at = w + b * stride + p * PART_BYTES;
            const part_bits both = bits_load(at + (2 * u + i) * BAND * 4);
            if (six) {
                const part_bits above = bits_load(at + PACKED_NIBBLES + u * BAND * 4);
                const part_bits low = low_nibbles(both) | ((i ? above : above << 4) & 0x30303030);
                const part_bits high = high_nibbles(both) | ((i ? above >> 2 : above << 2) & 0x30303030);
                s->low[b][p] = u7_add(s->low[b][p], u7_part_of(low), first);
                s->high[b][p] = u7_add(s->high[b][p], u7_part_of(high), last);
            } else
                s->low[b][p] = u7_add_nibbles(s->low[b][p], both, first, last);
            u7_in_order(&s->low[b][p]);
        }
    }
}

INLINE part_float floats_of(u7_sums s) { return part_from_int(u7_finish(s)); }

/* Adds the products of a block: 32 columns of q4_0, 256 of the others. x: its blocks of 32. */
INLINE void add_block(band_sums *total, const uint8_t *w, int64_t stride, const ready *x, const int64_t type,
                      const int bands)
{
    run_sums s;
    band_sums sum[BANDS_AT_ONCE] = {0}, least[BANDS_AT_ONCE] = {0};
    for (int run = 0; run < (type == Q4_0 ? 1 : 8); run++, x++) {
        const uint8_t *at =
            type == Q4_0 ? w : w + (type == Q4_K ? 4 * BAND + run * Q4_K_RUN : 2 * BAND + run * Q6_K_RUN);
        add_run(&s, at + 2 * BAND, stride, x, bands, type == Q6_K);
        UNROLL for (int b = 0; b < bands; b++)
        {
            part_float first[PARTS], last[PARTS];
            if (type == Q4_K)
                floats_of_u8(first, at + b * stride), floats_of_u8(last, at + b * stride + BAND);
            else if (type == Q6_K)
                floats_of_i8(first, at + b * stride), floats_of_i8(last, at + b * stride + BAND);
            UNROLL for (int p = 0; p < PARTS; p++)
            {
                const part_float dot = floats_of(s.low[b][p]), scale = part_splat(x->scale);
                if (type == Q4_0)
                    sum[b][p] = dot * scale;
                else
                    sum[b][p] = part_fma(dot, first[p] * scale, sum[b][p]);
                if (type == Q4_K)
                    least[b][p] = part_fma(last[p], part_splat(x->weighted[0]), least[b][p]);
                else if (type == Q6_K)
                    sum[b][p] = part_fma(floats_of(s.high[b][p]), last[p] * scale, sum[b][p]);
            }
        }
    }
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        const uint8_t *at = w + b * stride + p * PART_ROWS * 2;
        total[b][p] = part_fma(scales_load_f16(at), sum[b][p], total[b][p]);
        if (type == Q4_K)
            total[b][p] -= scales_load_f16(at + 2 * BAND) * least[b][p];
    }
}

/* out[band] = sums over `blocks` blocks of 32 columns, of bands that lie `stride` bytes apart. */
INLINE void stream_bands(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x,
                         int64_t blocks, const int64_t type, const int bands)
{
    const int64_t step = type == Q4_0 ? 1 : 8, nbytes = type_of(type).packed_bytes;
    band_sums total[STREAM_BANDS] = {0};
    const int once = bands < BANDS_AT_ONCE ? bands : BANDS_AT_ONCE;
    for (int64_t k = 0; k < blocks; k += step, w += nbytes)
        for (int b = 0; b < bands; b += once)
            add_block(total + b, w + b * stride, stride, x + k, type, once);
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++) *
        (part_unaligned *)&out[b][p * PART_ROWS] = total[b][p];
}

/* One row of x through bands first .. last - 1, in far streams: memory likes that better. */
INLINE void stream(const task *t, int64_t row, int64_t first, int64_t last, const int64_t type)
{
    ready x[STREAM_BLOCKS];
    float out[STREAM_BANDS][BAND];
    const int64_t values = t->kind.values / BLOCK, band_bytes = t->blocks / values * t->kind.packed_bytes;
    const int64_t far = (last - first) / STREAM_BANDS;
    for (int64_t start = 0; start < t->blocks; start += STREAM_BLOCKS) {
        const int64_t left = t->blocks - start, blocks = left < STREAM_BLOCKS ? left : STREAM_BLOCKS;
        const uint8_t *w = t->w + start / values * t->kind.packed_bytes;
        for (int64_t k = 0; k < blocks; k++)
            make_ready(&x[k], t->x + row * t->blocks + start + k, t->kind.bias, t->kind.runs16);
        for (int64_t band = first; band < first + far; band++) {
            stream_bands(out, w + band * band_bytes, far * band_bytes, x, blocks, type, STREAM_BANDS);
            for (int b = 0; b < STREAM_BANDS; b++)
                store_band(&t->to, out[b], row, band + b * far, start == 0);
        }
        for (int64_t band = first + STREAM_BANDS * far; band < last; band++) {
            stream_bands(out, w + band * band_bytes, 0, x, blocks, type, 1);
            store_band(&t->to, out[0], row, band, start == 0);
        }
    }
}

/* ---- tiles: any type, many rows of x */

/* 32 columns of a band as bytes 0 .. 255, in steps of 4 columns as kernels.h has them; the bias is in the minimums. */
typedef struct tile_block {
    uint8_t numbers[BAND_BYTES];
    float scales[2][BAND], minimums[2][BAND];
} tile_block;

/* 32 columns of a packed band, whose nibbles lie in the order of a tile. */
INLINE void unpack_numbers(uint8_t numbers[BAND_BYTES], const uint8_t *w, const int six)
{
    const uint8_t *above = w + PACKED_NIBBLES;
    for (int i = 0; i < PACKED_NIBBLES; i++)
        numbers[i] = w[i] & 15, numbers[PACKED_NIBBLES + i] = w[i] >> 4;
    for (int p = 0; six && p < 4; p++, numbers += BAND * 4)
        for (int i = 0; i < BAND * 4; i++) {
            const int four = above[p / 2 * BAND * 4 + i] >> p % 2 * 4;
            numbers[i] |= (uint8_t)((four & 3) << 4), numbers[PACKED_NIBBLES + i] |= (uint8_t)((four & 12) << 2);
        }
}

/* The same blocks of a packed band as decode_tile's. */
static void unpack_tile(tile_block *to, const task *t, int64_t band, int64_t first, int64_t blocks)
{
    const int64_t inner = t->kind.values / BLOCK, type = t->type;
    const uint8_t *w = t->w + (band * t->blocks + first) / inner * t->kind.packed_bytes;
    for (int64_t k = 0; k < blocks; k++, to++) {
        const int run = (int)(k % inner);
        const uint8_t *at =
            type == Q4_0 ? w : w + (type == Q4_K ? 4 * BAND + run * Q4_K_RUN : 2 * BAND + run * Q6_K_RUN);
        part_float factors[2][PARTS];
        if (type == Q4_K)
            floats_of_u8(factors[0], at), floats_of_u8(factors[1], at + BAND);
        else if (type == Q6_K)
            floats_of_i8(factors[0], at), floats_of_i8(factors[1], at + BAND);
        for (int p = 0; p < PARTS; p++)
            for (int h = 0; h < 2; h++) {
                const part_float scale = scales_load_f16(w + 2 * p * PART_ROWS);
                part_float scales = scale, minimums = part_splat(0);
                if (type == Q4_K) {
                    scales = scale * factors[0][p];
                    minimums = scales_load_f16(w + 2 * BAND + 2 * p * PART_ROWS) * factors[1][p];
                } else if (type == Q6_K)
                    scales = scale * factors[h][p];
                *(part_unaligned *)&to->scales[h][p * PART_ROWS] = scales;
                *(part_unaligned *)&to->minimums[h][p * PART_ROWS] =
                    minimums + scales * part_splat((float)t->kind.bias);
            }
        unpack_numbers(to->numbers, at + 2 * BAND, type == Q6_K);
        if (run == inner - 1)
            w += t->kind.packed_bytes;
    }
}

/* Blocks first .. first + blocks - 1 (of 32 columns) of a band. */
static void decode_tile(tile_block *to, const task *t, int64_t band, int64_t first, int64_t blocks)
{
    const int64_t inner = t->kind.values / BLOCK, count = t->blocks / inner;
    decoded block;
    for (int row = 0; row < BAND; row++)
        for (int64_t k = first / inner; k < (first + blocks) / inner; k++) {
            if (band * BAND + row >= t->to.outputs)
                memset(&block, 0, sizeof block);
            else
                decode_block(&block, t->w + ((band * BAND + row) * count + k) * t->kind.nbytes, t->type);
            for (int64_t i = 0; i < inner; i++) {
                tile_block *at = to + k * inner - first + i;
                for (int s = 0; s < STEPS; s++)
                    memcpy(at->numbers + s * BAND * 4 + row * 4, block.numbers + i * BLOCK + 4 * s, 4);
                for (int h = 0; h < 2; h++) {
                    const float scale = block.scales[2 * i + h];
                    at->scales[h][row] = scale;
                    at->minimums[h][row] = block.minimums[2 * i + h] + scale * (float)t->kind.bias;
                }
            }
        }
}

typedef u7_sums tile_sums[TILE_ROWS][TILE_AT_ONCE][PARTS];

/* Adds one step of weights; `wide`: numbers up to 255, in two halves where an instruction takes only 127. */
INLINE void tile_step(tile_sums sum, tile_sums ones, const tile_block *w, const ready *const x[TILE_ROWS], int64_t k,
                      int s, const int rows, const int bands, const int wide)
{
    u7_part numbers[TILE_AT_ONCE][PARTS], low[TILE_AT_ONCE][PARTS];
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        const part_bits bits = bits_load(w[b * TILE_BLOCKS].numbers + s * BAND * 4 + p * PART_BYTES);
        numbers[b][p] = u7_part_of(wide ? bits >> 1 & 0x7f7f7f7f : bits);
        low[b][p] = u7_part_of(bits & 0x01010101);
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        const u7_step four = u7_step_load(&x[r][k], s);
        UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
        {
            sum[r][b][p] = u7_add(sum[r][b][p], numbers[b][p], four);
            if (wide)
                ones[r][b][p] = u7_add(ones[r][b][p], low[b][p], four);
            u7_in_order(&sum[r][b][p]);
        }
    }
}

/* out[row][band] = sums over the blocks of tiles, which bands have one after the other. halves 2: scales for each 16
 * columns. */
INLINE void multiply_tile(float out[TILE_ROWS][TILE_AT_ONCE][BAND], const tile_block *w,
                          const ready *const x[TILE_ROWS], int64_t blocks, const int rows, const int bands,
                          const int halves, const int wide)
{
    part_float total[TILE_ROWS][TILE_AT_ONCE][PARTS] = {0};
    for (int64_t k = 0; k < blocks; k++, w++)
        for (int h = 0; h < halves; h++) {
            tile_sums sum, ones;
            UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < bands; b++)
                UNROLL for (int p = 0; p < PARTS; p++) sum[r][b][p] = ones[r][b][p] = u7_start(0);
            UNROLL_SAFE for (int s = 0; s < STEPS / halves; s++)
                tile_step(sum, ones, w, x, k, h * STEPS / 2 + s, rows, bands, wide);
            UNROLL for (int r = 0; r < rows; r++)
            {
                const ready *in = &x[r][k];
                const part_float weighted = part_splat(-in->weighted[h]);
                UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
                {
                    const tile_block *at = w + b * TILE_BLOCKS;
                    const part_float scale = *(const part_unaligned *)&at->scales[h][p * PART_ROWS];
                    const part_float minimum = *(const part_unaligned *)&at->minimums[h][p * PART_ROWS];
                    part_float dot = floats_of(sum[r][b][p]);
                    if (wide)
                        dot = dot * part_splat(2) + floats_of(ones[r][b][p]);
                    total[r][b][p] = part_fma(dot, scale * part_splat(in->scale), total[r][b][p]);
                    total[r][b][p] = part_fma(minimum, weighted, total[r][b][p]);
                }
            }
        }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < bands; b++)
            UNROLL for (int p = 0; p < PARTS; p++) *
        (part_unaligned *)&out[r][b][p * PART_ROWS] = total[r][b][p];
}

static void multiply_rows(float out[TILE_ROWS][TILE_AT_ONCE][BAND], const tile_block *w,
                          const ready *const x[TILE_ROWS], int64_t blocks, const block_type *kind)
{
    if (kind->bias == 128)
        multiply_tile(out, w, x, blocks, TILE_ROWS, TILE_AT_ONCE, 1, 1);
    else if (kind->runs16)
        multiply_tile(out, w, x, blocks, TILE_ROWS, TILE_AT_ONCE, 2, 0);
    else
        multiply_tile(out, w, x, blocks, TILE_ROWS, TILE_AT_ONCE, 1, 0);
}

static void multiply_row(float out[TILE_ROWS][TILE_AT_ONCE][BAND], const tile_block *w, const ready *const x[TILE_ROWS],
                         int64_t blocks, const block_type *kind)
{
    if (kind->bias == 128)
        multiply_tile(out, w, x, blocks, 1, 1, 1, 1);
    else if (kind->runs16)
        multiply_tile(out, w, x, blocks, 1, 1, 2, 0);
    else
        multiply_tile(out, w, x, blocks, 1, 1, 1, 0);
}

/* Bands first .. first + bands - 1 with all rows of x. */
static void multiply_bands(const task *t, int64_t first, int bands)
{
    tile_block tile[TILE_BANDS][TILE_BLOCKS];
    ready x[TILE_ROWS][TILE_BLOCKS];
    float out[TILE_ROWS][TILE_AT_ONCE][BAND];
    for (int64_t start = 0; start < t->blocks; start += TILE_BLOCKS) {
        const int64_t left = t->blocks - start, blocks = left < TILE_BLOCKS ? left : TILE_BLOCKS;
        for (int b = 0; b < bands; b++)
            (t->kind.packed_bytes ? unpack_tile : decode_tile)(tile[b], t, first + b, start, blocks);
        if (bands % TILE_AT_ONCE)
            memcpy(tile[bands], tile[bands - 1], sizeof tile[0]);
        for (int64_t row = 0; row < t->rows; row += TILE_ROWS) {
            const int rows = t->rows - row < TILE_ROWS ? (int)(t->rows - row) : TILE_ROWS;
            const ready *in[TILE_ROWS];
            for (int r = 0; r < TILE_ROWS; r++) {
                in[r] = x[r < rows ? r : 0]; /* rows that are not there repeat the first */
                for (int64_t k = 0; r < rows && k < blocks; k++)
                    make_ready(&x[r][k], t->x + (row + r) * t->blocks + start + k, 0, t->kind.runs16);
            }
            const int once = rows == 1 ? 1 : TILE_AT_ONCE; /* the copy of a band is left */
            for (int b = 0; b < bands; b += once) {
                (rows == 1 ? multiply_row : multiply_rows)(out, tile[b], in, blocks, &t->kind);
                for (int r = 0; r < rows; r++)
                    for (int i = 0; i < once && b + i < bands; i++)
                        store_band(&t->to, out[r][i], row + r, first + b + i, start == 0);
            }
        }
    }
}

KERNEL(linear_blocks)
{
    const int64_t *d = record->dims, outputs = d[1], type = d[5];
    const band_output to = {record->pointers[0], record->pointers[3], outputs, d[3], d[4]};
    const task t = {to, record->pointers[1], record->pointers[2], d[0], d[2] / BLOCK, type, type_of(type)};
    int64_t first, last;
    if (t.rows == 0 || outputs == 0)
        return KERNEL_OK;
    if (t.kind.nbytes == 0 || d[2] % t.kind.values)
        return KERNEL_BAD_ARGUMENT;
    worker_share((outputs + BAND - 1) / BAND, 1, worker, workers, &first, &last);
    if (t.blocks == 0) { /* an empty sum */
        for (int64_t row = 0; row < t.rows; row++)
            for (int64_t band = first; band < last; band++)
                store_band(&t.to, (const float[BAND]){0}, row, band, 1);
        return KERNEL_OK;
    }
    if (t.kind.packed_bytes && t.rows <= FEW_ROWS) {
        for (int64_t row = 0; row < t.rows; row++)
            switch (type) {
            case Q4_0:
                stream(&t, row, first, last, Q4_0);
                break;
            case Q4_K:
                stream(&t, row, first, last, Q4_K);
                break;
            default:
                stream(&t, row, first, last, Q6_K);
            }
        return KERNEL_OK;
    }
    for (int64_t band = first; band < last; band += TILE_BANDS)
        multiply_bands(&t, band, last - band < TILE_BANDS ? (int)(last - band) : TILE_BANDS);
    return KERNEL_OK;
}
