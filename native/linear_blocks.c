/* y = x w^T (+ residual) with weights in any of GGML's block types and int8 activations, in three ways:
 *
 * stream: a few rows of x with a type of bands.h, whose bands are streamed and whose bits are taken apart in registers.
 * dots: a few rows of x with any other type (none of them has scales for 16 columns): 256 columns of one row of weights
 * are decoded at a time.
 * tiles: many rows of x: a tile of weights is decoded into bytes, which serve all rows of x.
 *
 * 32 columns add scale_x * (scale * sum((w - bias) * x) + minimum * sum(x)), both sums exact; where 256 columns share
 * scales, these multiply the sum of eight. stream and tiles do the same operations in the same order, so a row of x gives
 * the same bits whatever rows come with it.
 */
#include "bands.h"
#include "decode_blocks.h"
#include "dot_u7.h"

/* ROWS_EACH: workers share rows where each of them gets so many. Each then decodes all weights. */
enum { MOST_STREAMS = 3, ROWS_EACH = 96 };
/* STREAM_BLOCKS: how many blocks of activations are prepared at once. Most models have shorter rows, so their bands are
 * streamed whole: each piece of a band would begin with a wait for memory. */
enum { STREAM_BLOCKS = 512, GROUP_BYTES = 512 << 10 };
#if defined(__wasm__)
enum { DOT_ROWS = 1 };
#else
enum { DOT_ROWS = 3 };
#endif
enum { MOST_DOT_ROWS = 3, DOT_GROUPS = 16, GROUP_BLOCKS = MOST_VALUES / BLOCK };
/* CHUNK_BLOCKS: sums are added to y after so many blocks of 32 columns, in stream and in tiles alike, so that a row has
 * the same bits in both. */
enum { CHUNK_BLOCKS = 16 };
#if defined(__AVX512VNNI__)
enum { TILE_ROWS = 8, FEW_ROWS = 4, TILE_STRIPES = 8, STRIPES_AT_ONCE = 2 };
#elif LANES == 8
enum { TILE_ROWS = 4, FEW_ROWS = 4, TILE_STRIPES = 8, STRIPES_AT_ONCE = 2 };
#else
enum { TILE_ROWS = 4, FEW_ROWS = 4, TILE_STRIPES = 8, STRIPES_AT_ONCE = 1 };
#endif
enum { TILE_BANDS = TILE_STRIPES * STRIPE_BANDS };
#if defined(__wasm__)
#define UNROLL_HOST ROLLED /* where code is downloaded, it is not worth the length */
#else
#define UNROLL_HOST UNROLL
#endif

typedef struct task {
    band_output to;
    const activations *x;
    const uint8_t *w;
    int64_t rows, blocks, type, packed_bytes; /* of eight rows' blocks; 0: not in bands */
    block_type kind;
    int pairs; /* of U7_PAIRS 2: whether this machine's dots are made of pairs */
} task;

/* Whether numbers are larger than a dot takes. */
INLINE int is_wide(const block_type *kind) { return !U7_TAKES_U8 && kind->bias == 128; }

/* ---- streaming: one row of x */

/* Bands streamed side by side, and those of them that are added to at once. */
enum { STREAM_BANDS = BANDS_TOGETHER };
#if LANES == 16 || (defined(__wasm_simd128__) && !U7_WORDS)
enum { BANDS_AT_ONCE = 4 };
#elif U7_WORDS && !defined(__wasm__)
enum { BANDS_AT_ONCE = 1 };
#else
enum { BANDS_AT_ONCE = 2 };
#endif
/* Browsers have 15 registers. There, with pairs, 32 columns of one band are multiplied after those of another. The code is
 * repeated for each band: processors foresee the loads of an instruction that always reads the same stream. Without pairs,
 * types with two sums for each row need twice the registers. */
#if defined(__wasm_relaxed_simd__)
enum { FEW_REGISTERS = 1 };
#else
enum { FEW_REGISTERS = 0 };
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

/* 4 columns of rows from the planes of a run: step s = 2 u + i into `low`, step s + 4 into `high`. */
INLINE void load_numbers(part_bits *low, part_bits *high, const uint8_t *run, const band_type t, const int u,
                         const int i, const int p)
{
    const uint8_t *at = run + p * PART_BYTES;
    const int s = 2 * u + i;
    const int first = 4 * t.nibbles, second = first + 2 * t.two_bits; /* the lowest bits of the planes after nibbles */
    *low = *high = (part_bits){0};
    if (t.six_bits) {
        const uint8_t *own = at + i * BAND * 4;
        const part_bits a = bits_load(own), b = bits_load(own + SIX_BITS / 3), c = bits_load(own + SIX_BITS / 3 * 2);
        *low = (u ? c : a) & 63 * EACH_BYTE;
        *high = u ? SIX_BITS_ABOVE(a, b, c) : b & 63 * EACH_BYTE;
    }
    if (t.nibbles) {
        const part_bits both = bits_load(at + s * BAND * 4);
        *low = low_nibbles(both), *high = high_nibbles(both);
        at += NIBBLES;
    }
    if (t.two_bits) {
        const part_bits four = bits_load(at + u * BAND * 4);
        *low |= moved(four, 4 * i, 3 * EACH_BYTE, first);
        *high |= moved(four, 4 * i + 2, 3 * EACH_BYTE, first);
        at += TWO_BITS;
    }
    if (t.one_bit) {
        const part_bits eight = bits_load(at);
        *low |= moved(eight, s, EACH_BYTE, second), *high |= moved(eight, s + 4, EACH_BYTE, second);
    }
}

#if U7_TWO_STEPS
/* load_numbers of the steps 2 u and 2 u + 1, and of those 4 after them. */
INLINE void load_two_steps(u7_two *low, u7_two *high, const uint8_t *at, const band_type t, const int u)
{
    const int first = 4 * t.nibbles, second = first + 2 * t.two_bits;
    *low = *high = (u7_two){0};
    if (t.six_bits) {
        const u7_two a = u7_two_load(at), b = u7_two_load(at + SIX_BITS / 3), c = u7_two_load(at + SIX_BITS / 3 * 2);
        *low = (u ? c : a) & 63 * EACH_BYTE;
        *high = u ? SIX_BITS_ABOVE(a, b, c) : b & 63 * EACH_BYTE;
    }
    if (t.nibbles) {
        const u7_two both = u7_two_load(at + 2 * u * BAND * 4);
        *low = both & 15 * EACH_BYTE, *high = both >> 4 & 15 * EACH_BYTE;
        at += NIBBLES;
    }
    if (t.two_bits) {
        const u7_two four = u7_two_shifted(at + u * BAND * 4, 0, 4);
        *low |= (four & 3 * EACH_BYTE) << first, *high |= (four >> 2 & 3 * EACH_BYTE) << first;
        at += TWO_BITS;
    }
    if (t.one_bit) {
        const u7_two eight = u7_two_shifted(at, 2 * u, 2 * u + 1);
        *low |= (eight & EACH_BYTE) << second, *high |= (eight >> 4 & EACH_BYTE) << second;
    }
}

/* 32 columns of bands that lie `stride` bytes apart, from their numbers on. All sums are in `low` but with halves. */
INLINE void add_run(run_sums *s, const uint8_t *w, int64_t stride, const ready *x, const int bands, const band_type t)
{
    u7_two low[BANDS_AT_ONCE], high[BANDS_AT_ONCE];
    UNROLL for (int b = 0; b < bands; b++) low[b] = u7_two_start(x->start[0]), high[b] = u7_two_start(x->start[1]);
    UNROLL for (int u = 0; u < 2; u++)
    {
        const u7_two first = u7_two_steps(x, 2 * u), last = u7_two_steps(x, 2 * u + 4);
        UNROLL for (int b = 0; b < bands; b++)
        {
            u7_two *end = t.halves ? &high[b] : &low[b], numbers, others;
            load_two_steps(&numbers, &others, w + b * stride, t, u);
            low[b] = u7_two_add(low[b], numbers, first);
            *end = u7_two_add(*end, others, last);
        }
    }
    UNROLL for (int b = 0; b < bands; b++)
    {
        s->low[b][0] = u7_two_finish(low[b]);
        s->high[b][0] = u7_two_finish(high[b]);
    }
}
#else
INLINE void add_run(run_sums *s, const uint8_t *w, int64_t stride, const ready *x, const int bands, const band_type t)
{
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        s->low[b][p] = u7_start(x->start[0]);
        s->high[b][p] = u7_start(x->start[1]);
    }
    UNROLL_SAFE for (int outer = 0; outer < 2; outer++) UNROLL for (int inner = 0; inner < 2; inner++)
    {
        const int u = t.six_bits ? inner : outer, i = t.six_bits ? outer : inner; /* what shares loads comes together */
        const u7_step first = u7_step_load(x, 2 * u + i), last = u7_step_load(x, 2 * u + i + 4);
        UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
        {
            const uint8_t *at = w + b * stride;
            if (t.two_bits || t.one_bit || t.six_bits) {
                u7_sums *end = t.halves ? &s->high[b][p] : &s->low[b][p];
                part_bits low, high;
                load_numbers(&low, &high, at, t, u, i, p);
                s->low[b][p] = u7_add(s->low[b][p], u7_part_of(low), first);
                *end = u7_add(*end, u7_part_of(high), last);
            } else
                s->low[b][p] =
                    u7_add_nibbles(s->low[b][p], bits_load(at + (2 * u + i) * BAND * 4 + p * PART_BYTES), first, last);
            u7_in_order(&s->low[b][p]);
        }
    }
}
#endif

/* Pairs of products: of the first and the last 16 columns, or all in `low`. */
typedef struct run_pairs {
    u7_pairs low[BANDS_AT_ONCE][PARTS], high[BANDS_AT_ONCE][PARTS];
} run_pairs;

/* Adds half of a run's steps, those that share loads; or begins with these. */
INLINE void add_pairs(run_pairs *to, const uint8_t *w, int64_t stride, const ready *x, const int half, const int begin,
                      const int bands, const band_type t)
{
    UNROLL for (int inner = 0; inner < 2; inner++)
    {
        const int u = t.six_bits ? inner : half, i = t.six_bits ? half : inner;
        const u7_step first = u7_step_load(x, 2 * u + i), last = u7_step_load(x, 2 * u + i + 4);
        UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
        {
            u7_pairs *low = &to->low[b][p], *high = &to->high[b][p];
            part_bits low_bits, high_bits;
            load_numbers(&low_bits, &high_bits, w + b * stride, t, u, i, p);
            const u7_pairs one = u7_pairs_of(u7_part_of(low_bits), first);
            const u7_pairs other = u7_pairs_of(u7_part_of(high_bits), last);
            *low = begin && inner == 0 ? one : u7_pairs_sum(*low, one);
            if (!t.halves)
                *low = u7_pairs_sum(*low, other);
            else
                *high = begin && inner == 0 ? other : u7_pairs_sum(*high, other);
        }
    }
}

INLINE void widen_pairs(run_sums *s, const run_pairs *from, const int bands, const band_type t)
{
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        s->low[b][p] = u7_add_pairs(s->low[b][p], from->low[b][p]);
        if (t.halves)
            s->high[b][p] = u7_add_pairs(s->high[b][p], from->high[b][p]);
    }
}

/* add_run by pairs. */
INLINE void add_run_pairs(run_sums *s, const uint8_t *w, int64_t stride, const ready *x, const int bands,
                          const band_type t)
{
    const int bits = 4 * t.nibbles + 2 * t.two_bits + t.one_bit + 6 * t.six_bits;
    run_pairs pairs;
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        s->low[b][p] = u7_start(x->start[0]);
        s->high[b][p] = u7_start(x->start[1]);
    }
    if (bits > 4)
        UNROLL for (int half = 0; half < 2; half++)
        {
            add_pairs(&pairs, w, stride, x, half, 1, bands, t);
            widen_pairs(s, &pairs, bands, t);
        }
    else {
        add_pairs(&pairs, w, stride, x, 0, 1, bands, t);
        add_pairs(&pairs, w, stride, x, 1, 0, bands, t);
        widen_pairs(s, &pairs, bands, t);
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

/* Adds the products of a block: 32 columns, or 256. x: its blocks of 32. joined: of the scales of blocks of 32. */
INLINE void add_block(band_sums *total, scales_bits *joined, const uint8_t *w, int64_t stride, const ready *x,
                      const int64_t type, const int bands, const int pairs)
{
    const band_type t = band_type_of(type);
    const int runs = t.large ? MOST_VALUES / BLOCK : 1;
    run_sums s;
    band_sums sum[BANDS_AT_ONCE] = {0}, least[BANDS_AT_ONCE] = {0};
    for (int run = 0; run < runs; run++, x++) {
        UNROLL for (int b = 0; b < bands; b++)
            prefetch(w + b * stride + band_bytes(type) / runs * run + AHEAD, band_bytes(type) / runs);
        const int once = FEW_REGISTERS && pairs ? 1 : bands;
        UNROLL for (int b = 0; b < bands; b++)
        {
            const uint8_t *numbers = w + b * stride + band_numbers(t, run);
            if (b % once == 0) {
                if (pairs)
                    add_run_pairs(&s, numbers, stride, x, once, t);
                else
                    add_run(&s, numbers, stride, x, once, t);
            }
            run_factors f;
            if (t.large)
                load_factors(&f, w + b * stride + band_run(t, run), t);
            else
                scales_join(joined, w + b * stride);
            if (t.minimums && !t.large)
                scales_join(joined, w + b * stride + HALF_SCALES);
            UNROLL for (int p = 0; p < PARTS; p++)
            {
                const uint8_t *at = w + b * stride + p * PART_ROWS * 2;
                const part_float dot = floats_of(s.low[b % once][p]), scale = part_splat(x->scale);
                if (!t.large) {
                    total[b][p] = part_fma(dot, scales_load_small(at) * scale, total[b][p]);
                    if (t.minimums) {
                        const part_float least = scales_load_small(at + HALF_SCALES) * part_splat(1 / SCALES_UNIT);
                        total[b][p] = part_fma(least, part_splat(x->weighted[0]), total[b][p]);
                    }
                    continue;
                }
                sum[b][p] = part_fma(dot, f.scales[0][p] * scale, sum[b][p]);
                if (t.halves)
                    sum[b][p] = part_fma(floats_of(s.high[b % once][p]), f.scales[1][p] * scale, sum[b][p]);
                if (t.minimums)
                    least[b][p] = part_fma(f.minimums[0][p], part_splat(x->weighted[0]), least[b][p]);
                if (t.minimums && t.halves)
                    least[b][p] = part_fma(f.minimums[1][p], part_splat(x->weighted[1]), least[b][p]);
            }
        }
    }
    if (!t.large)
        return;
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        const uint8_t *at = w + b * stride + p * PART_ROWS * 2;
        total[b][p] = part_fma(scales_load_f16(at), sum[b][p], total[b][p]);
        if (t.minimums)
            total[b][p] = part_fma(scales_load_f16(at + HALF_SCALES), -least[b][p], total[b][p]);
    }
}

/* Adds to out[band] the sums over `blocks` blocks of 32 columns, of bands that lie `stride` bytes apart. Where blocks have
 * 32 columns, the scales of x are divided by SCALES_UNIT; if those of w are large, returns 1, and the sums may be wrong. */
typedef int stream_function(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x,
                            int64_t blocks);

INLINE int stream_bands(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x, int64_t blocks,
                        const int64_t type, const int bands, const int pairs)
{
    const band_type t = band_type_of(type);
    const int64_t step = t.large ? MOST_VALUES / BLOCK : 1, nbytes = band_bytes(type);
    const int most = FEW_REGISTERS && t.halves && !pairs ? 2 : BANDS_AT_ONCE, once = bands < most ? bands : most;
    scales_bits joined = {0};
    for (int64_t first = 0; first < blocks; first += CHUNK_BLOCKS) {
        const int64_t last = blocks - first < CHUNK_BLOCKS ? blocks : first + CHUNK_BLOCKS;
        band_sums total[STREAM_BANDS] = {0};
        for (int64_t k = first; k < last; k += step, w += nbytes)
            ROLLED for (int b = 0; b < bands; b += once)
                add_block(total + b, &joined, w + b * stride, stride, x + k, type, once, pairs);
        UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
        {
            part_unaligned *to = (part_unaligned *)&out[b][p * PART_ROWS];
            *to = *to + total[b][p];
        }
    }
    return !t.large && scales_are_large(joined);
}

/* Of each type: for STREAM_BANDS bands and for LAST_BANDS, which is the same where code is downloaded. */
#define STREAM_FUNCTION(name, code, ...)                                                                               \
    static int stream_##name(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x,          \
                             int64_t blocks)                                                                           \
    {                                                                                                                  \
        return stream_bands(out, w, stride, x, blocks, code, STREAM_BANDS, U7_PAIRS == 1);                             \
    }
BAND_TYPES(STREAM_FUNCTION)
#if defined(__wasm__)
enum { LAST_BANDS = STREAM_BANDS };
#define STREAM_LAST(name) stream_##name
#else
enum { LAST_BANDS = 1 };
#define STREAM_LAST_FUNCTION(name, code, ...)                                                                          \
    static int stream_last_##name(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x,     \
                                  int64_t blocks)                                                                      \
    {                                                                                                                  \
        return stream_bands(out, w, stride, x, blocks, code, LAST_BANDS, U7_PAIRS == 1);                               \
    }
BAND_TYPES(STREAM_LAST_FUNCTION)
#define STREAM_LAST(name) stream_last_##name
#endif
#if U7_PAIRS == 2 /* for the types that models come in most */
#define PAIRS_TYPES(TYPE)                                                                                              \
    TYPE(q4_0, Q4_0) TYPE(q5_0, Q5_0) TYPE(q5_1, Q5_1) TYPE(q4_K, Q4_K) TYPE(q5_K, Q5_K) TYPE(q6_K, Q6_K)
#define STREAM_PAIRS_FUNCTION(name, code, ...)                                                                         \
    static int stream_pairs_##name(float out[STREAM_BANDS][BAND], const uint8_t *w, int64_t stride, const ready *x,    \
                                   int64_t blocks)                                                                     \
    {                                                                                                                  \
        return stream_bands(out, w, stride, x, blocks, code, STREAM_BANDS, 1);                                         \
    }
PAIRS_TYPES(STREAM_PAIRS_FUNCTION)
#else
#define PAIRS_TYPES(TYPE)
#endif
#define STREAM_CASE(name, code, ...)                                                                                   \
    case code:                                                                                                         \
        return last ? STREAM_LAST(name) : stream_##name;
#define STREAM_PAIRS_CASE(name, code)                                                                                  \
    case code:                                                                                                         \
        return stream_pairs_##name;

static stream_function *stream_function_of(int64_t type, int last, int pairs)
{
    switch (pairs ? type : -1) {
        PAIRS_TYPES(STREAM_PAIRS_CASE)
    default:
        break;
    }
    switch (type) {
        BAND_TYPES(STREAM_CASE)
    default:
        return NULL;
    }
}

/* What a band of a row y is before the sums of a chunk are added: as store_band has it. */
SMALL_CODE static void start_band(float out[BAND], const band_output *to, int64_t band, int first)
{
    const float *from = first ? to->residual : to->y;
    if (from && (band + 1) * BAND <= to->outputs)
        memcpy(out, from + band * BAND, BAND * sizeof *out);
    else
        for (int i = 0; i < BAND; i++)
            out[i] = from && band * BAND + i < to->outputs ? from[band * BAND + i] : 0;
}

SMALL_CODE static void end_band(const band_output *to, const float out[BAND], int64_t band)
{
    float *y = to->y + band * BAND;
    const int64_t count = to->outputs - band * BAND;
    if (count >= BAND)
        memcpy(y, out, BAND * sizeof *y);
    else
        for (int i = 0; i < count; i++)
            y[i] = out[i];
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
        UNROLL_HOST for (int i = 0; i < GROUP_BLOCKS; i += 2)
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
    if (DOT_ROWS == 1 || rows == 1)
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

/* 32 columns of a stripe's bands as bytes 0 .. 255: in steps of 4 columns, of one band after the other. scales and
 * minimums are of the first and the last 16 columns, or [0] of all. Types of 256 columns have, in the first of their
 * blocks, the scale and the minimum that these are multiples of. */
enum { STRIPE_WIDTH = STRIPE_BANDS * BAND };
typedef struct tile_block {
    uint8_t numbers[STRIPE_BANDS * BAND_BYTES];
    float scales[2][STRIPE_WIDTH], minimums[2][STRIPE_WIDTH], whole[2][STRIPE_WIDTH];
} tile_block;

/* The numbers of step s of a stripe's band. */
INLINE uint8_t *step_of(tile_block *to, int s, int band) { return to->numbers + (s * STRIPE_BANDS + band) * BAND * 4; }

INLINE void put_parts(float *to, const part_float from[PARTS])
{
    UNROLL for (int p = 0; p < PARTS; p++) * (part_unaligned *)(to + p * PART_ROWS) = from[p];
}

INLINE void put_halves(float *to, const uint8_t *from)
{
    UNROLL for (int p = 0; p < PARTS; p++) * (part_unaligned *)(to + p * PART_ROWS) =
        scales_load_f16(from + 2 * p * PART_ROWS);
}

/* Blocks first .. first + blocks - 1 (of 32 columns) of a packed band, which is the stripe's at `place`. */
INLINE void unpack_tile_of(tile_block *to, const task *t, int64_t band, int place, int64_t first, int64_t blocks,
                           const int64_t type)
{
    const band_type kind = band_type_of(type);
    const int64_t inner = kind.large ? MOST_VALUES / BLOCK : 1, nbytes = band_bytes(type);
    const int64_t band_stride = t->blocks / inner * nbytes;
    const uint8_t *w = t->w + (band * t->blocks + first) / inner * nbytes;
    for (int64_t k = 0; k < blocks; k++, to++) {
        const int run = kind.large ? (int)(k % inner) : 0;
        prefetch(w + band_stride + nbytes / inner * run, nbytes / inner); /* the band after this */
        const uint8_t *numbers = w + band_numbers(kind, run);
        float *own = kind.large ? to->whole[0] : to->scales[0];
        if (kind.large) {
            run_factors f;
            load_factors(&f, w + band_run(kind, run), kind);
            UNROLL for (int h = 0; h < 1 + kind.halves; h++)
            {
                put_parts(to->scales[h] + place * BAND, f.scales[h]);
                if (kind.minimums)
                    put_parts(to->minimums[h] + place * BAND, f.minimums[h]);
            }
        }
        if (run == 0) {
            put_halves(own + place * BAND, w);
            if (kind.minimums)
                put_halves((kind.large ? to->whole[1] : to->minimums[0]) + place * BAND, w + HALF_SCALES);
            else if (!kind.large)
                memset(to->minimums[0] + place * BAND, 0, BAND * sizeof(float));
        }
        UNROLL_HOST for (int s = 0; s < 4; s++) UNROLL for (int p = 0; p < PARTS; p++)
        {
            part_bits low, high;
            load_numbers(&low, &high, numbers, kind, s / 2, s % 2, p);
            *(part_bits_unaligned *)(step_of(to, s, place) + p * PART_BYTES) = low;
            *(part_bits_unaligned *)(step_of(to, s + 4, place) + p * PART_BYTES) = high;
        }
        if (!kind.large || run == inner - 1)
            w += nbytes;
    }
}

static void unpack_tile(tile_block *to, const task *t, int64_t band, int place, int64_t first, int64_t blocks)
{
#define UNPACK(name, code, ...)                                                                                        \
    case code:                                                                                                         \
        unpack_tile_of(to, t, band, place, first, blocks, code);                                                       \
        break;
    switch (t->type) {
        BAND_TYPES(UNPACK)
    }
}

/* The same blocks of a band of a type that lies row after row. */
static void decode_tile(tile_block *to, const task *t, int64_t band, int place, int64_t first, int64_t blocks)
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
                UNROLL for (int s = 0; s < STEPS; s++)
                    memcpy(step_of(to + k + i, s, place) + row * 4, group.numbers + i * BLOCK + 4 * s, 4);
                to[k + i].scales[0][place * BAND + row] = group.scales[0][i];
                to[k + i].minimums[0][place * BAND + row] = 0;
            }
        }
}

#if defined(__wasm_relaxed_simd__)
enum { STEPS_AT_ONCE = 1 };
#else
enum { STEPS_AT_ONCE = 2 };
#endif
typedef u7_stripe_sums tile_sums[TILE_ROWS][STRIPES_AT_ONCE][STRIPE_PARTS];
typedef stripe_float tile_floats[TILE_ROWS][STRIPES_AT_ONCE][STRIPE_PARTS];

/* What a tile is made of, known at compile time. wide: numbers up to 255 for a dot that takes 127, in two halves. */
typedef struct tile_kind {
    int large, minimums, halves, wide;
} tile_kind;

/* Adds one step of weights. */
INLINE void tile_step(tile_sums sum, tile_sums ones, const tile_block *w, const ready *const x[TILE_ROWS], int64_t k,
                      int s, const int rows, const int stripes, const int wide)
{
    u7_stripe numbers[STRIPES_AT_ONCE][STRIPE_PARTS], low[STRIPES_AT_ONCE][STRIPE_PARTS];
    UNROLL for (int b = 0; b < stripes; b++) UNROLL for (int p = 0; p < STRIPE_PARTS; p++)
    {
        const u7_stripe bits =
            u7_stripe_load(w[b * CHUNK_BLOCKS].numbers + s * STRIPE_BANDS * BAND * 4 + p * PART_BYTES);
        numbers[b][p] = bits;
        if (wide) {
            numbers[b][p] = bits >> 1 & 0x7f7f7f7f;
            low[b][p] = bits & 0x01010101;
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        const u7_stripe_step four = u7_stripe_step_load(&x[r][k], s);
        UNROLL for (int b = 0; b < stripes; b++) UNROLL for (int p = 0; p < STRIPE_PARTS; p++)
        {
            sum[r][b][p] = u7_stripe_add(sum[r][b][p], numbers[b][p], four);
            if (wide)
                ones[r][b][p] = u7_stripe_add(ones[r][b][p], low[b][p], four);
            u7_stripe_in_order(&sum[r][b][p]);
        }
    }
}

#if U7_PAIRS
/* Adds two steps of weights by pairs. Two pairs of numbers up to 63 fit 16 bits. */
INLINE void tile_pairs(tile_sums sum, tile_sums ones, const tile_block *w, const ready *const x[TILE_ROWS], int64_t k,
                       int s, const int rows, const int stripes, const int wide)
{
    UNROLL for (int r = 0; r < rows; r++)
    {
        const u7_step first = u7_step_load(&x[r][k], s), next = u7_step_load(&x[r][k], s + 1);
        UNROLL for (int b = 0; b < stripes; b++) UNROLL for (int p = 0; p < STRIPE_PARTS; p++)
        {
            const uint8_t *at = w[b * CHUNK_BLOCKS].numbers + s * BAND * 4 + p * PART_BYTES;
            const part_bits one = bits_load(at), other = bits_load(at + BAND * 4);
            if (wide) {
                sum[r][b][p] = u7_add_pairs(sum[r][b][p], u7_pairs_of(one >> 1 & 0x7f7f7f7f, first));
                sum[r][b][p] = u7_add_pairs(sum[r][b][p], u7_pairs_of(other >> 1 & 0x7f7f7f7f, next));
            }
            const part_bits mask = bits_constant(wide ? 0x01010101 : 0xffffffff);
            u7_sums *to = wide ? &ones[r][b][p] : &sum[r][b][p];
            *to = u7_add_pairs(*to, u7_pairs_sum(u7_pairs_of(wide ? one & mask : one, first),
                                                 u7_pairs_of(wide ? other & mask : other, next)));
        }
    }
}
#endif

INLINE stripe_float stripe_at(const float *p) { return *(const stripe_unaligned *)p; }

/* Adds a block of 32 columns to sum, and its minimums to least. */
INLINE void tile_run(tile_floats sum, tile_floats least, const tile_block *w, const ready *const x[TILE_ROWS],
                     int64_t k, const int rows, const int stripes, const tile_kind t, const int pairs)
{
    UNROLL_HOST for (int h = 0; h < 1 + t.halves; h++)
    {
        tile_sums dots, ones;
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < stripes; b++)
            UNROLL for (int p = 0; p < STRIPE_PARTS; p++)
        {
            ones[r][b][p] = u7_stripe_start(x[r][k].start[h]);
            dots[r][b][p] = t.wide ? u7_stripe_start(0) : ones[r][b][p];
        }
#if U7_PAIRS
        if (pairs)
            UNROLL_HOST for (int s = 0; s < STEPS / (1 + t.halves); s += 2)
                tile_pairs(dots, ones, w, x, k, h * STEPS / 2 + s, rows, stripes, t.wide);
#endif
        if (!pairs)
            UNROLL_HOST for (int s = 0; s < STEPS / (1 + t.halves); s += STEPS_AT_ONCE)
                UNROLL for (int i = 0; i < STEPS_AT_ONCE; i++)
                    tile_step(dots, ones, w, x, k, h * STEPS / 2 + s + i, rows, stripes, t.wide);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const ready *in = &x[r][k];
            const stripe_float scale = stripe_splat(in->scale), weighted = stripe_splat(in->weighted[h]);
            UNROLL for (int b = 0; b < stripes; b++) UNROLL for (int p = 0; p < STRIPE_PARTS; p++)
            {
                const tile_block *at = w + b * CHUNK_BLOCKS;
                const stripe_float scales = stripe_at(at->scales[h] + p * PART_ROWS);
                const stripe_float minimums = stripe_at(at->minimums[h] + p * PART_ROWS);
                if (t.wide)
                    dots[r][b][p] += dots[r][b][p] + ones[r][b][p];
                const stripe_float dot = u7_stripe_floats(dots[r][b][p]);
                sum[r][b][p] = stripe_fma(dot, scales * scale, sum[r][b][p]);
                if (t.minimums && t.large)
                    least[r][b][p] = stripe_fma(minimums, weighted, least[r][b][p]);
                else if (t.minimums)
                    sum[r][b][p] = stripe_fma(minimums, weighted, sum[r][b][p]);
            }
        }
    }
}

/* out[row] = sums over the blocks of tiles, which stripes have one after the other. */
typedef float tile_out[TILE_ROWS][STRIPES_AT_ONCE * STRIPE_WIDTH];
INLINE void multiply_tile(tile_out out, const tile_block *w, const ready *const x[TILE_ROWS], int64_t blocks,
                          const int rows, const int stripes, const tile_kind t, const int pairs)
{
    tile_floats total = {0};
    for (int64_t k = 0; k < blocks; k += t.large ? GROUP_BLOCKS : 1, w += t.large ? GROUP_BLOCKS : 1) {
        tile_floats sum = {0}, least = {0};
        if (!t.large) {
            tile_run(total, least, w, x, k, rows, stripes, t, pairs);
            continue;
        }
        for (int run = 0; run < GROUP_BLOCKS; run++)
            tile_run(sum, least, w + run, x, k + run, rows, stripes, t, pairs);
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < stripes; b++)
            UNROLL for (int p = 0; p < STRIPE_PARTS; p++)
        {
            const tile_block *at = w + b * CHUNK_BLOCKS;
            total[r][b][p] = stripe_fma(stripe_at(at->whole[0] + p * PART_ROWS), sum[r][b][p], total[r][b][p]);
            if (t.minimums)
                total[r][b][p] = stripe_fma(stripe_at(at->whole[1] + p * PART_ROWS), -least[r][b][p], total[r][b][p]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < stripes; b++)
            UNROLL for (int p = 0; p < STRIPE_PARTS; p++) *
        (stripe_unaligned *)&out[r][b * STRIPE_WIDTH + p * PART_ROWS] = total[r][b][p];
}

typedef void tile_function(tile_out out, const tile_block *w, const ready *const x[TILE_ROWS], int64_t blocks);
/* large, minimums, halves, wide */
#if defined(__wasm__) /* code is downloaded: types without minimums have zeros */
#define TILE_KINDS(KIND)                                                                                               \
    KIND(small_minimums, 0, 1, 0, 0)                                                                                   \
    KIND(small_wide, 0, 0, 0, 1)                                                                                       \
    KIND(large_minimums, 1, 1, 0, 0)                                                                                   \
    KIND(large_halves, 1, 0, 1, 0)                                                                                     \
    KIND(large_halves_minimums, 1, 1, 1, 0)
#else
#define TILE_KINDS(KIND)                                                                                               \
    KIND(small, 0, 0, 0, 0)                                                                                            \
    KIND(small_minimums, 0, 1, 0, 0)                                                                                   \
    KIND(small_wide, 0, 0, 0, 1)                                                                                       \
    KIND(large_minimums, 1, 1, 0, 0)                                                                                   \
    KIND(large_halves, 1, 0, 1, 0)                                                                                     \
    KIND(large_halves_minimums, 1, 1, 1, 0)
#endif

#define TILE_FUNCTION(variant, name, rows, pairs, ...)                                                                 \
    static void variant##_##name(tile_out out, const tile_block *w, const ready *const x[TILE_ROWS], int64_t blocks)   \
    {                                                                                                                  \
        multiply_tile(out, w, x, blocks, rows, STRIPES_AT_ONCE, (tile_kind){__VA_ARGS__}, pairs);                      \
    }
#define MANY_FUNCTION(name, ...) TILE_FUNCTION(many, name, TILE_ROWS, U7_PAIRS == 1, __VA_ARGS__)
TILE_KINDS(MANY_FUNCTION)
#if STRIPE_BANDS == 2
#define FEW_FUNCTION(name, ...) TILE_FUNCTION(few, name, FEW_ROWS, 0, __VA_ARGS__)
TILE_KINDS(FEW_FUNCTION)
#define TILE_OF(name) few ? few_##name : many_##name
#else
#define TILE_OF(name) many_##name
#endif
#if U7_PAIRS == 2
TILE_FUNCTION(pairs, small_minimums, TILE_ROWS, 1, 0, 1, 0, 0)
TILE_FUNCTION(pairs, large_minimums, TILE_ROWS, 1, 1, 1, 0, 0)
TILE_FUNCTION(pairs, large_halves, TILE_ROWS, 1, 1, 0, 1, 0)
#endif

static tile_function *tile_function_of(const task *t, int few)
{
    const band_type kind = band_type_of(t->type);
    (void)few;
#if U7_PAIRS == 2
    if (t->pairs && !is_wide(&t->kind) && !(kind.halves && kind.minimums))
        return kind.halves ? pairs_large_halves : kind.large ? pairs_large_minimums : pairs_small_minimums;
#endif
    if (is_wide(&t->kind))
        return TILE_OF(small_wide);
    if (kind.halves)
        return kind.minimums ? TILE_OF(large_halves_minimums) : TILE_OF(large_halves);
    if (kind.large)
        return TILE_OF(large_minimums);
#if !defined(__wasm__)
    if (!kind.minimums)
        return TILE_OF(small);
#endif
    return TILE_OF(small_minimums);
}

/* Rows 0 .. rows - 1 of x, blocks `begin` .. end - 1, with bands first .. first + bands - 1, at most TILE_STRIPES stripes. */
static void multiply_bands(const task *t, int64_t rows, int64_t begin, int64_t end, int64_t first, int bands)
{
    tile_block tile[TILE_STRIPES + STRIPES_AT_ONCE - 1][CHUNK_BLOCKS];
    ready x[TILE_ROWS][CHUNK_BLOCKS];
    tile_out out;
    const int stripes = (bands + STRIPE_BANDS - 1) / STRIPE_BANDS;
    tile_function *const many = tile_function_of(t, 0), *const few = tile_function_of(t, 1);
    if (bands % (STRIPE_BANDS * STRIPES_AT_ONCE)) /* nothing, in what is computed with the last band */
        memset(tile[bands / STRIPE_BANDS], 0, STRIPES_AT_ONCE * sizeof tile[0]);
    for (int64_t start = begin; start < end; start += CHUNK_BLOCKS) {
        const int64_t left = end - start, blocks = left < CHUNK_BLOCKS ? left : CHUNK_BLOCKS;
        for (int b = 0; b < bands; b++)
            (t->packed_bytes ? unpack_tile : decode_tile)(tile[b / STRIPE_BANDS], t, first + b, b % STRIPE_BANDS, start,
                                                          blocks);
        for (int64_t row = 0; row < rows; row += TILE_ROWS) {
            const int some = rows - row < TILE_ROWS ? (int)(rows - row) : TILE_ROWS;
            const int once = STRIPES_AT_ONCE;
            const ready *in[TILE_ROWS];
            for (int r = 0; r < TILE_ROWS; r++) {
                in[r] = x[r < some ? r : 0]; /* missing rows repeat the first */
                for (int64_t k = 0; r < some && k < blocks; k++)
                    make_ready(&x[r][k], t->x + (row + r) * t->blocks + start + k, t->kind.bias, t->kind.runs16);
            }
            for (int b = 0; b < stripes; b += once) {
                const int wide = (b + once) * STRIPE_BANDS < bands ? once * STRIPE_BANDS : bands - b * STRIPE_BANDS;
                (some <= FEW_ROWS ? few : many)(out, tile[b], in, blocks);
                for (int r = 0; r < some; r++)
                    store_bands(&t->to, out[r], row + r, first + b * STRIPE_BANDS, wide, start == 0);
            }
        }
    }
}

/* One row of x through bands first .. last - 1, in far streams: memory likes that better. Bands whose scales are large go
 * through tiles, and all of them if a scale of x would be too large in SCALES_UNIT. */
static void stream(const task *t, int64_t row, int64_t first, int64_t last)
{
    ready x[STREAM_BLOCKS];
    float out[STREAM_BANDS][BAND];
    stream_function *const several = stream_function_of(t->type, 0, t->pairs);
    stream_function *const single = stream_function_of(t->type, 1, t->pairs);
    const int64_t values = t->kind.values / BLOCK, bytes = t->blocks / values * t->packed_bytes;
    const int64_t far = (last - first) / STREAM_BANDS, alone = (last - first) % STREAM_BANDS;
    task own = *t;
    own.x += row * t->blocks, own.to = output_from(t->to, row);
    for (int64_t start = 0; start < t->blocks; start += STREAM_BLOCKS) {
        const int64_t left = t->blocks - start, blocks = left < STREAM_BLOCKS ? left : STREAM_BLOCKS;
        const uint8_t *w = t->w + start / values * t->packed_bytes;
        int large = 0;
        for (int64_t k = 0; k < blocks; k++) {
            make_ready(&x[k], own.x + start + k, t->kind.bias, t->kind.runs16);
            if (SCALES_UNIT != 1 && values == 1) {
                large |= !(x[k].scale < 0x1p16f);
                x[k].scale *= 1 / SCALES_UNIT;
            }
        }
        for (int64_t i = 0; i < far + alone; i++) {
            const int some = i < far ? STREAM_BANDS : 1;
            const int64_t band = i < far ? first + i : last - alone + i - far;
            for (int b = 0; b < some; b++)
                start_band(out[b], &own.to, band + b * far, start == 0);
            const int wrong = large || (i < far ? several(out, w + band * bytes, far * bytes, x, blocks)
                                                : single(out, w + band * bytes, 0, x, blocks));
            for (int b = 0; b < some; b++)
                if (wrong)
                    multiply_bands(&own, 1, start, start + blocks, band + b * far, 1);
                else
                    end_band(&own.to, out[b], band + b * far);
        }
    }
}

KERNEL(linear_blocks)
{
    const int64_t *d = record->dims, outputs = d[linear_blocks_outputs], type = d[linear_blocks_type];
    const int64_t blocks = d[linear_blocks_inputs] / BLOCK;
    const band_output to = {record->pointers[linear_blocks_y], record->pointers[linear_blocks_residual], outputs,
                            d[linear_blocks_y_stride], d[linear_blocks_residual_stride]};
    const band_share mine = share_bands(to, record->pointers[linear_blocks_xq], d[linear_blocks_rows], blocks,
                                        TILE_ROWS, ROWS_EACH, worker, workers);
    const int64_t first = mine.first, last = mine.last;
    const task t = {mine.to,          mine.x,        record->pointers[linear_blocks_w],
                    mine.rows,        blocks,        type,
                    band_bytes(type), type_of(type), find_dot_way().two};
    if (t.rows == 0 || outputs == 0)
        return KERNEL_OK;
    if (t.kind.nbytes == 0 || d[linear_blocks_inputs] % t.kind.values)
        return KERNEL_BAD_ARGUMENT;
    if (t.blocks == 0) { /* an empty sum */
        for (int64_t row = 0; row < t.rows; row++)
            for (int64_t band = first; band < last; band++)
                store_band(&t.to, (const float[BAND]){0}, row, band, 1);
        return KERNEL_OK;
    }
    if (!t.packed_bytes && t.rows <= MOST_DOT_ROWS) {
        for (int64_t row = 0; row < t.rows; row += DOT_ROWS)
            dots(&t, row, t.rows - row < DOT_ROWS ? (int)(t.rows - row) : DOT_ROWS, first, last);
        return KERNEL_OK;
    }
    /* Rows that are streamed: all of few, and one that a tile would be padded for. */
    const int alone = t.rows <= MOST_STREAMS ? (int)t.rows : TILE_ROWS == 4 && t.rows % TILE_ROWS == 1;
    const int64_t lone = t.packed_bytes ? alone : 0;
    for (int64_t band = first; band < last && lone < t.rows; band += TILE_BANDS)
        multiply_bands(&t, t.rows - lone, 0, t.blocks, band,
                       last - band < TILE_BANDS ? (int)(last - band) : TILE_BANDS);
    /* Bands that stay in the second cache, for all the rows. */
    const int64_t bytes = t.packed_bytes ? t.blocks / (t.kind.values / BLOCK) * t.packed_bytes : 1;
    const int64_t fitting = GROUP_BYTES / bytes / STREAM_BANDS * STREAM_BANDS;
    const int64_t group = lone == 1 ? last - first : fitting ? fitting : STREAM_BANDS;
    for (int64_t band = first; band < last; band += group)
        for (int64_t row = t.rows - lone; row < t.rows; row++)
            stream(&t, row, band, last - band < group ? last : band + group);
    return KERNEL_OK;
}
