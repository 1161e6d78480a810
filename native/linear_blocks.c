/* y = x w^T (+ residual) with weights in any of GGML's block types and int8 activations, in three ways:
 *
 * stream: a few rows of x with a type of bands.h, whose bands are streamed and whose bits are taken apart in registers.
 * dots: a few rows of x with any other type (none of them has scales for 16 columns): 256 columns of one row of weights are decoded at a time.
 * tiles: many rows of x: a tile of weights is decoded into bytes, which serve all rows of x.
 *
 * A block's part of y is scale_x * (scale * sum(w * x) - minimum * sum(x)), both sums exact; a bias counts as a
 * minimum.
 */
#include "bands.h"
#include "decode_blocks.h"
#include "dot_u7.h"

enum { FEW_ROWS = 3, STREAM_BLOCKS = 128 };
enum { MOST_DOT_ROWS = 4, DOT_ROWS = 4, DOT_GROUPS = 16, GROUP_BLOCKS = MOST_VALUES / BLOCK };
enum { TILE_ROWS = 4, TILE_BANDS = 8, TILE_BLOCKS = 16 };
#if defined(__wasm__)
#define DOT_UNROLL ROLLED
#else
#define DOT_UNROLL UNROLL
#endif
enum { TILE_AT_ONCE = LANES >= 8 ? 2 : 1 }; /* bands that share each load of activations */

typedef struct task {
    band_output to;
    const activations *x;
    const uint8_t *w;
    int64_t rows, blocks, type, packed_bytes; /* of eight rows' blocks; 0: not in bands */
    block_type kind;
} task;

/* Whether numbers are larger than a dot takes. */
INLINE int is_wide(const block_type *kind) { return !U7_TAKES_U8 && kind->bias == 128; }

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
#if defined(__wasm_relaxed_simd__) /* types with two sums for each row need twice the registers */
enum { HALVES_AT_ONCE = 2 };
#else
enum { HALVES_AT_ONCE = BANDS_AT_ONCE };
#endif
typedef part_float band_sums[PARTS];

typedef struct run_sums {
    u7_sums low[BANDS_AT_ONCE][PARTS], high[BANDS_AT_ONCE][PARTS]; /* of the first and the last 16 columns */
} run_sums;

/* Bits `from` .. of each byte, as many as the mask has, moved to bits `to` ..: by one shift where both are constants. */
INLINE part_bits moved(part_bits n, const int from, const uint32_t mask, const int to)
{
    if (__builtin_constant_p(from) && __builtin_constant_p(to))
        return (from >= to ? n >> (from - to) : n << (to - from)) & mask << to;
    return (n >> from & mask) << to;
}

/* 4 columns of rows from the planes of a run: step s into `low`, step s + 4 into `high`. */
INLINE void load_numbers(part_bits *low, part_bits *high, const uint8_t *run, const band_type t, const int s,
                         const int p)
{
    const uint8_t *at = run + p * PART_BYTES;
    const int first = 4 * t.nibbles, second = first + 2 * t.two_bits; /* the lowest bits of the planes after nibbles */
    *low = *high = (part_bits){0};
    if (t.nibbles) {
        const part_bits both = bits_load(at + s * BAND * 4);
        *low = low_nibbles(both), *high = high_nibbles(both);
        at += NIBBLES;
    }
    if (t.two_bits) {
        const part_bits four = bits_load(at + s / 2 * BAND * 4);
        *low |= moved(four, s % 2 * 4, 3 * EACH_BYTE, first);
        *high |= moved(four, s % 2 * 4 + 2, 3 * EACH_BYTE, first);
        at += TWO_BITS;
    }
    if (t.one_bit) {
        const part_bits eight = bits_load(at);
        *low |= moved(eight, s, EACH_BYTE, second), *high |= moved(eight, s + 4, EACH_BYTE, second);
    }
}

/* 32 columns of bands that lie `stride` bytes apart, from their numbers on. All sums are in `low` but with halves. */
INLINE void add_run(run_sums *s, const uint8_t *w, int64_t stride, const ready *x, const int bands, const band_type t)
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
            const uint8_t *at = w + b * stride;
            if (t.two_bits || t.one_bit) {
                u7_sums *end = t.halves ? &s->high[b][p] : &s->low[b][p];
                part_bits low, high;
                load_numbers(&low, &high, at, t, 2 * u + i, p);
                s->low[b][p] = u7_add(s->low[b][p], u7_part_of(low), first);
                *end = u7_add(*end, u7_part_of(high), last);
            } else
                s->low[b][p] =
                    u7_add_nibbles(s->low[b][p], bits_load(at + (2 * u + i) * BAND * 4 + p * PART_BYTES), first, last);
            u7_in_order(&s->low[b][p]);
        }
    }
}

INLINE part_float floats_of(u7_sums s) { return part_from_int(u7_finish(s)); }

/* The factors of a run's sums: of the first and of the last 16 columns, or of all; and of its minimums. */
typedef struct run_factors {
    part_float scales[2][PARTS], minimums[2][PARTS];
} run_factors;

INLINE void load_factors(run_factors *to, const uint8_t *at, const band_type t)
{
    if (t.halves && t.minimums) {
        floats_of_nibbles(to->scales[0], to->minimums[0], at);
        floats_of_nibbles(to->scales[1], to->minimums[1], at + BAND);
    } else if (t.halves) {
        floats_of_i8(to->scales[0], at);
        floats_of_i8(to->scales[1], at + BAND);
    } else {
        floats_of_u8(to->scales[0], at);
        floats_of_u8(to->minimums[0], at + BAND);
    }
}

/* Adds the products of a block: 32 columns, or 256. x: its blocks of 32. */
INLINE void add_block(band_sums *total, const uint8_t *w, int64_t stride, const ready *x, const band_type t,
                      const int bands)
{
    run_sums s;
    band_sums sum[BANDS_AT_ONCE] = {0}, least[BANDS_AT_ONCE] = {0};
    for (int run = 0; run < (t.large ? MOST_VALUES / BLOCK : 1); run++, x++) {
        add_run(&s, w + band_numbers(t, run), stride, x, bands, t);
        UNROLL for (int b = 0; b < bands; b++)
        {
            run_factors f;
            if (t.large)
                load_factors(&f, w + b * stride + band_run(t, run), t);
            UNROLL for (int p = 0; p < PARTS; p++)
            {
                const part_float dot = floats_of(s.low[b][p]), scale = part_splat(x->scale);
                if (t.large)
                    sum[b][p] = part_fma(dot, f.scales[0][p] * scale, sum[b][p]);
                else
                    sum[b][p] = dot * scale;
                if (t.halves)
                    sum[b][p] = part_fma(floats_of(s.high[b][p]), f.scales[1][p] * scale, sum[b][p]);
                if (t.minimums && !t.large)
                    least[b][p] = part_splat(-x->weighted[0]);
                else if (t.minimums)
                    least[b][p] = part_fma(f.minimums[0][p], part_splat(x->weighted[0]), least[b][p]);
                if (t.minimums && t.halves)
                    least[b][p] = part_fma(f.minimums[1][p], part_splat(x->weighted[1]), least[b][p]);
            }
        }
    }
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        const uint8_t *at = w + b * stride + p * PART_ROWS * 2;
        total[b][p] = part_fma(scales_load_f16(at), sum[b][p], total[b][p]);
        if (t.minimums)
            total[b][p] -= scales_load_f16(at + HALF_SCALES) * least[b][p];
    }
}

/* out[band] = sums over `blocks` blocks of 32 columns, of bands that lie `stride` bytes apart. */
typedef void stream_function(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x,
                             int64_t blocks);

INLINE void stream_bands(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x,
                         int64_t blocks, const int64_t type, const int bands)
{
    const band_type t = band_type_of(type);
    const int64_t step = t.large ? MOST_VALUES / BLOCK : 1, nbytes = band_bytes(type);
    band_sums total[STREAM_BANDS] = {0};
    const int most = t.halves ? HALVES_AT_ONCE : BANDS_AT_ONCE, once = bands < most ? bands : most;
    for (int64_t k = 0; k < blocks; k += step, w += nbytes)
        for (int b = 0; b < bands; b += once)
            add_block(total + b, w + b * stride, stride, x + k, t, once);
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++) *
        (part_unaligned *)&out[b][p * PART_ROWS] = total[b][p];
}

/* Of each type: for STREAM_BANDS bands and for LAST_BANDS, which is the same where code is downloaded. */
#define STREAM_FUNCTION(name, code, ...)                                                                               \
    static void stream_##name(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x,         \
                              int64_t blocks)                                                                          \
    {                                                                                                                  \
        stream_bands(out, w, stride, x, blocks, code, STREAM_BANDS);                                                   \
    }
BAND_TYPES(STREAM_FUNCTION)
#if defined(__wasm__)
enum { LAST_BANDS = STREAM_BANDS };
#define STREAM_CASE(name, code, ...)                                                                                   \
    case code:                                                                                                         \
        return stream_##name;
#else
enum { LAST_BANDS = 1 };
#define STREAM_LAST_FUNCTION(name, code, ...)                                                                          \
    static void stream_last_##name(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x,    \
                                   int64_t blocks)                                                                     \
    {                                                                                                                  \
        stream_bands(out, w, stride, x, blocks, code, LAST_BANDS);                                                     \
    }
BAND_TYPES(STREAM_LAST_FUNCTION)
#define STREAM_CASE(name, code, ...)                                                                                   \
    case code:                                                                                                         \
        return last ? stream_last_##name : stream_##name;
#endif

static stream_function *stream_function_of(int64_t type, int last)
{
    switch (type) {
        BAND_TYPES(STREAM_CASE)
    default:
        return NULL;
    }
}

/* One row of x through bands first .. last - 1, in far streams: memory likes that better. */
static void stream(const task *t, int64_t row, int64_t first, int64_t last)
{
    ready x[STREAM_BLOCKS];
    float out[STREAM_BANDS][BAND];
    stream_function *const several = stream_function_of(t->type, 0), *const single = stream_function_of(t->type, 1);
    const int64_t values = t->kind.values / BLOCK, bytes = t->blocks / values * t->packed_bytes;
    const int64_t far = (last - first) / STREAM_BANDS;
    for (int64_t start = 0; start < t->blocks; start += STREAM_BLOCKS) {
        const int64_t left = t->blocks - start, blocks = left < STREAM_BLOCKS ? left : STREAM_BLOCKS;
        const uint8_t *w = t->w + start / values * t->packed_bytes;
        for (int64_t k = 0; k < blocks; k++)
            make_ready(&x[k], t->x + row * t->blocks + start + k, t->kind.bias, t->kind.runs16);
        for (int64_t band = first; band < first + far; band++) {
            several(out, w + band * bytes, far * bytes, x, blocks);
            for (int b = 0; b < STREAM_BANDS; b++)
                store_band(&t->to, out[b], row, band + b * far, start == 0);
        }
        for (int64_t band = first + STREAM_BANDS * far; band < last; band++) {
            single(out, w + band * bytes, 0, x, blocks);
            store_band(&t->to, out[0], row, band, start == 0);
        }
    }
}

/* ---- dots: types that are not in bands, a few rows of x */

/* 256 columns of a row of x; a scale, and scale * sum, for each 16 of them, as in `decoded`. */
typedef struct dot_input {
    u7_value values[MOST_VALUES];
    float scales[2][GROUP_BLOCKS], weighted[2][GROUP_BLOCKS];
} dot_input;

/* A row of x with a row of weights: the partial sums, and the amount to subtract. */
typedef struct dot_sums {
    part_float total;
    vfloat least;
} dot_sums;

static void prepare_dots(dot_input *to, const activations *x, int64_t blocks)
{
    memset(to[(blocks - 1) / GROUP_BLOCKS].scales, 0, sizeof to->scales + sizeof to->weighted);
    for (int64_t k = 0; k < blocks; k++, x++)
        for (int h = 0; h < 2; h++) {
            dot_input *group = to + k / GROUP_BLOCKS;
            const int i = k % GROUP_BLOCKS;
            u7_put_row(group->values + i * BLOCK + h * RUN, x->values + h * RUN);
            group->scales[h][i] = x->scale;
            group->weighted[h][i] = x->scale * (float)sum_of_16(x->values + h * RUN);
        }
}

INLINE float part_sum(part_float s)
{
    float sum = 0;
    for (int i = 0; i < PART_ROWS; i++)
        sum += s[i];
    return sum;
}

/* Adds 32 columns. wide: numbers up to 255, in two halves. */
INLINE part_float dot_block(part_float total, const uint8_t *numbers, const u7_value *x, float factor, int i,
                            const int wide)
{
    part_sums sum = {0};
    UNROLL for (int p = 0; p < PARTS; p++)
    {
        const part_bits w = bits_load(numbers + i * BLOCK + p * PART_BYTES);
        const u7_step row = u7_row_load(x + i * BLOCK + p * PART_BYTES);
        part_sums each = u7_finish(u7_add(u7_start(0), u7_part_of(wide ? w >> 1 & 0x7f7f7f7f : w), row));
        if (wide)
            each = u7_finish(u7_add(each + each, u7_part_of(w & 0x01010101), row));
        sum += each;
    }
    return part_fma(part_from_int(sum), part_splat(factor), total);
}

/* Adds up to 256 columns. Their sums are made apart, so that one group does not wait for the one before. */
INLINE void dot_group(dot_sums *to, const decoded *w, const dot_input *x, int blocks, float bias, const int wide)
{
    float factors[2 * GROUP_BLOCKS];
    part_float even = {0}, odd = {0};
    vfloat least = {0};
    UNROLL for (int i = 0; i < 2 * GROUP_BLOCKS; i += LANES)
    {
        const vfloat scales = vload(w->scales[0] + i), minimums = scales * vsplat(bias);
        vstore(factors + i, scales * vload(x->scales[0] + i));
        least = vfma(minimums, vload(x->weighted[0] + i), least);
    }
    __asm__ volatile("" : : "r"(factors) : "memory"); /* read from memory: GCC would broadcast from registers, slowly */
    if (blocks == GROUP_BLOCKS)
        DOT_UNROLL for (int i = 0; i < GROUP_BLOCKS; i += 2)
        {
            even = dot_block(even, w->numbers, x->values, factors[i], i, wide);
            odd = dot_block(odd, w->numbers, x->values, factors[i + 1], i + 1, wide);
        }
    else
        ROLLED for (int i = 0; i < blocks; i++) even = dot_block(even, w->numbers, x->values, factors[i], i, wide);
    to->least += least;
    to->total += even + odd;
}

/* out[r] = the product of a row of weights, from w on, with rows of x that lie DOT_GROUPS apart. */
INLINE void dot_row(float out[DOT_ROWS], const task *t, const uint8_t *w, const dot_input *x, const int rows,
                    int64_t blocks, const int wide)
{
    const int64_t nbytes = MOST_VALUES / t->kind.values * t->kind.nbytes;
    const float bias = (float)t->kind.bias;
    dot_sums sums[DOT_ROWS];
    decoded group;
    for (int r = 0; r < rows; r++)
        sums[r] = (dot_sums){0};
    for (int64_t k = 0; k < blocks; k += GROUP_BLOCKS, x++, w += nbytes) {
        const int some = blocks - k < GROUP_BLOCKS ? (int)(blocks - k) : GROUP_BLOCKS;
        decode_blocks(&group, w, t->type, some);
        for (int r = 0; r < rows; r++)
            dot_group(&sums[r], &group, x + r * DOT_GROUPS, some, bias, wide);
    }
    for (int r = 0; r < rows; r++)
        out[r] = part_sum(sums[r].total) - vsum(sums[r].least);
}

/* Selects the code for a type; one row of x keeps its sums in registers. */
INLINE void dot_rows(float out[DOT_ROWS], const task *t, const uint8_t *w, const dot_input *x, int rows, int64_t blocks,
                     const int wide)
{
    if (rows == 1)
        dot_row(out, t, w, x, 1, blocks, wide);
    else
        dot_row(out, t, w, x, rows, blocks, wide);
}

/* Rows first .. first + rows - 1 of x, at most DOT_ROWS, with the weights of bands first_band .. last_band - 1. */
static void dots(const task *t, int64_t first, int rows, int64_t first_band, int64_t last_band)
{
    dot_input x[DOT_ROWS * DOT_GROUPS];
    float out[BAND][DOT_ROWS], sum[BAND];
    const int64_t inner = t->kind.values / BLOCK, row_bytes = t->blocks / inner * t->kind.nbytes;
    for (int64_t start = 0; start < t->blocks; start += DOT_GROUPS * GROUP_BLOCKS) {
        const int64_t left = t->blocks - start;
        const int64_t blocks = left < DOT_GROUPS * GROUP_BLOCKS ? left : DOT_GROUPS * GROUP_BLOCKS;
        for (int r = 0; r < rows; r++)
            prepare_dots(x + r * DOT_GROUPS, t->x + (first + r) * t->blocks + start, blocks);
        for (int64_t band = first_band; band < last_band; band++) {
            for (int i = 0; i < BAND && band * BAND + i < t->to.outputs; i++) {
                const uint8_t *w = t->w + (band * BAND + i) * row_bytes + start / inner * t->kind.nbytes;
                if (is_wide(&t->kind))
                    dot_rows(out[i], t, w, x, rows, blocks, 1);
                else
                    dot_rows(out[i], t, w, x, rows, blocks, 0);
            }
            for (int r = 0; r < rows; r++) {
                for (int i = 0; i < BAND; i++)
                    sum[i] = out[i][r];
                store_band(&t->to, sum, first + r, band, start == 0);
            }
        }
    }
}

/* ---- tiles: any type, many rows of x */

/* 32 columns of a band as bytes 0 .. 255, in steps of 4 columns as kernels.h has them; the bias is in the minimums. */
typedef struct tile_block {
    uint8_t numbers[BAND_BYTES];
    float scales[2][BAND], minimums[2][BAND];
} tile_block;

/* 32 columns of a packed band, whose steps lie in the order of a tile. */
INLINE void unpack_numbers(uint8_t numbers[BAND_BYTES], const uint8_t *run, const band_type t)
{
    if (!t.two_bits && !t.one_bit) { /* in vectors as long as the compiler has */
        for (int i = 0; i < NIBBLES; i++)
            numbers[i] = run[i] & 15, numbers[NIBBLES + i] = run[i] >> 4;
        return;
    }
    UNROLL for (int s = 0; s < 4; s++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        uint8_t *at = numbers + s * BAND * 4 + p * PART_BYTES;
        part_bits low, high;
        load_numbers(&low, &high, run, t, s, p);
        *(part_bits_unaligned *)at = low;
        *(part_bits_unaligned *)(at + NIBBLES) = high;
    }
}

/* The same blocks of a packed band as decode_tile's. */
INLINE void unpack_tile_of(tile_block *to, const task *t, int64_t band, int64_t first, int64_t blocks,
                           const band_type kind)
{
    const int64_t inner = t->kind.values / BLOCK;
    const uint8_t *w = t->w + (band * t->blocks + first) / inner * t->packed_bytes;
    for (int64_t k = 0; k < blocks; k++, to++) {
        const int run = (int)(k % inner);
        run_factors f;
        if (kind.large)
            load_factors(&f, w + band_run(kind, run), kind);
        for (int p = 0; p < PARTS; p++)
            for (int h = 0; h < 2; h++) {
                const int half = kind.halves ? h : 0;
                part_float scales = scales_load_f16(w + 2 * p * PART_ROWS), minimums = part_splat(0);
                if (kind.minimums)
                    minimums = scales_load_f16(w + HALF_SCALES + 2 * p * PART_ROWS);
                if (kind.large)
                    scales *= f.scales[half][p];
                if (kind.minimums)
                    minimums = kind.large ? minimums * f.minimums[half][p] : -minimums;
                *(part_unaligned *)&to->scales[h][p * PART_ROWS] = scales;
                *(part_unaligned *)&to->minimums[h][p * PART_ROWS] =
                    minimums + scales * part_splat((float)t->kind.bias);
            }
        unpack_numbers(to->numbers, w + band_numbers(kind, run), kind);
        if (run == inner - 1)
            w += t->packed_bytes;
    }
}

static void unpack_tile(tile_block *to, const task *t, int64_t band, int64_t first, int64_t blocks)
{
#define UNPACK(name, code, ...)                                                                                        \
    case code:                                                                                                         \
        unpack_tile_of(to, t, band, first, blocks, band_type_of(code));                                                \
        break;
    switch (t->type) {
        BAND_TYPES(UNPACK)
    }
}

/* Blocks first .. first + blocks - 1 (of 32 columns) of a band. */
static void decode_tile(tile_block *to, const task *t, int64_t band, int64_t first, int64_t blocks)
{
    const int64_t inner = t->kind.values / BLOCK, row_bytes = t->blocks / inner * t->kind.nbytes;
    const uint8_t *w = t->w + band * BAND * row_bytes + first / inner * t->kind.nbytes;
    decoded group;
    for (int row = 0; row < BAND; row++, w += row_bytes)
        for (int64_t k = 0; k < blocks; k += GROUP_BLOCKS) {
            const int some = blocks - k < GROUP_BLOCKS ? (int)(blocks - k) : GROUP_BLOCKS;
            if (band * BAND + row >= t->to.outputs)
                memset(&group, 0, sizeof group);
            else
                decode_blocks(&group, w + k / inner * t->kind.nbytes, t->type, some);
            for (int i = 0; i < some; i++) {
                tile_block *at = to + k + i;
                UNROLL for (int s = 0; s < STEPS; s++)
                    memcpy(at->numbers + s * BAND * 4 + row * 4, group.numbers + i * BLOCK + 4 * s, 4);
                for (int h = 0; h < 2; h++) {
                    const float scale = group.scales[h][i];
                    at->scales[h][row] = scale;
                    at->minimums[h][row] = scale * (float)t->kind.bias;
                }
            }
        }
}

typedef u7_sums tile_sums[TILE_ROWS][TILE_AT_ONCE][PARTS];

/* Adds one step of weights; `wide`: numbers up to 255, in two halves. */
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
    if (is_wide(kind))
        multiply_tile(out, w, x, blocks, TILE_ROWS, TILE_AT_ONCE, 1, 1);
    else if (kind->runs16)
        multiply_tile(out, w, x, blocks, TILE_ROWS, TILE_AT_ONCE, 2, 0);
    else
        multiply_tile(out, w, x, blocks, TILE_ROWS, TILE_AT_ONCE, 1, 0);
}

static void multiply_row(float out[TILE_ROWS][TILE_AT_ONCE][BAND], const tile_block *w, const ready *const x[TILE_ROWS],
                         int64_t blocks, const block_type *kind)
{
    if (is_wide(kind))
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
            (t->packed_bytes ? unpack_tile : decode_tile)(tile[b], t, first + b, start, blocks);
        if (bands % TILE_AT_ONCE)
            memcpy(tile[bands], tile[bands - 1], sizeof tile[0]);
        for (int64_t row = 0; row < t->rows; row += TILE_ROWS) {
            const int rows = t->rows - row < TILE_ROWS ? (int)(t->rows - row) : TILE_ROWS;
            const ready *in[TILE_ROWS];
            for (int r = 0; r < TILE_ROWS; r++) {
                in[r] = x[r < rows ? r : 0]; /* missing rows repeat the first */
                for (int64_t k = 0; r < rows && k < blocks; k++)
                    make_ready(&x[r][k], t->x + (row + r) * t->blocks + start + k, 0, t->kind.runs16);
            }
            const int once = rows == 1 ? 1 : TILE_AT_ONCE; /* the band is already in the copy */
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
    const int64_t *d = record->dims, outputs = d[linear_blocks_outputs], type = d[linear_blocks_type];
    const band_output to = {record->pointers[linear_blocks_y], record->pointers[linear_blocks_residual], outputs,
                            d[linear_blocks_y_stride], d[linear_blocks_residual_stride]};
    const task t = {to,
                    record->pointers[linear_blocks_xq],
                    record->pointers[linear_blocks_w],
                    d[linear_blocks_rows],
                    d[linear_blocks_inputs] / BLOCK,
                    type,
                    band_bytes(type),
                    type_of(type)};
    int64_t first, last;
    if (t.rows == 0 || outputs == 0)
        return KERNEL_OK;
    if (t.kind.nbytes == 0 || d[linear_blocks_inputs] % t.kind.values)
        return KERNEL_BAD_ARGUMENT;
    worker_share((outputs + BAND - 1) / BAND, 1, worker, workers, &first, &last);
    if (t.blocks == 0) { /* an empty sum */
        for (int64_t row = 0; row < t.rows; row++)
            for (int64_t band = first; band < last; band++)
                store_band(&t.to, (const float[BAND]){0}, row, band, 1);
        return KERNEL_OK;
    }
    if (t.packed_bytes && t.rows <= FEW_ROWS) {
        for (int64_t row = 0; row < t.rows; row++)
            stream(&t, row, first, last);
        return KERNEL_OK;
    }
    if (!t.packed_bytes && t.rows <= MOST_DOT_ROWS) {
        for (int64_t row = 0; row < t.rows; row += DOT_ROWS)
            dots(&t, row, t.rows - row < DOT_ROWS ? (int)(t.rows - row) : DOT_ROWS, first, last);
        return KERNEL_OK;
    }
    for (int64_t band = first; band < last; band += TILE_BANDS)
        multiply_bands(&t, band, last - band < TILE_BANDS ? (int)(last - band) : TILE_BANDS);
    return KERNEL_OK;
}
