/* Products of int8 weights in blocks and a few rows of int8 activations, as fast as the weights are read. A warp takes 16
 * outputs (two bands of 8) or 32, and of their columns a chunk at a time; the warps of a block share the chunks. Bands lie
 * in memory as tensor cores want the weights, so that a lane loads what it multiplies: 4 bytes of output LANE / 4, next to
 * those of the other lanes. It loads the next chunks while it multiplies one. The weights are decoded once for all rows; the
 * sums of whole numbers are exact. */
#ifndef PYAPP_INT8_ROWS_H
#define PYAPP_INT8_ROWS_H
#include "gated.h"
#include "int8_tiles.h"
#include "normed_row.h"
#include "quantize.h"
#include "read_once.h"

#define ROWS_WARPS 8
#define ROWS_KIND CHOOSE(rows > FEW_ROWS, 0, 1 + (rows > 8) + (rows > 16)) /* see int8_few_rows */
#define ROWS_BLOCKS PARTS(outputs, CHOOSE(rows <= 8, 16, CHOOSE(rows <= 16, 32, 16)))
enum { ROWS_THREADS = 32 * ROWS_WARPS, MOST_GATHERED = ROWS_WARPS * 2 * 16 * FEW_ROWS };

/* `value`, which in a variant (VARIANT in gpu.h) is this number of VARIED, so that the compiler knows it and leaves out what
 * other values need. */
#define KNOWN(number, value) (COMPILED(false) ? (value) : (number))

/* Four bytes that may lie anywhere, of memory that begins where four bytes do. */
DEVICE uint32_t word_at(const uint8_t *p)
{
#ifdef __CUDACC__
    const uint32_t *const at = (const uint32_t *)((uint64_t)p & ~(uint64_t)3);
    const int apart = (int)((uint64_t)p & 3) * 8;
    return apart ? __funnelshift_r(at[0], at[1], apart) : at[0];
#else
    return four_bytes(p);
#endif
}

/* Of the lanes that have the same output, the value of number `which`. */
template <class T> DEVICE T of_four(T value, int which) { return __shfl_sync(EVERY_LANE, value, (LANE & ~3) | which); }

/* ---- Weights. A source has
 *     CHUNK      runs of 32 columns that are loaded at a time
 *     AHEAD      for how many chunks ahead of the one that is multiplied, where a warp has 8 rows and 16 outputs
 *     WHOLE      whether rows have whole chunks
 *     HALVES     whether the first and the last 16 columns of a run have scales of their own
 *     MINIMUMS   whether minimums are subtracted
 *     raw        what a lane loads for 8 outputs and a chunk; columns 4 t .. and 4 t + 16 .. of output g (LANE 4 g + t)
 *     scales     of two runs t and t + 4 of these
 *     load(raw, band, chunk), numbers(words, raw, run), decode(scales, raw)
 * Loads past the last run may take any other run instead. */

template <int CHUNK, bool HALVES> struct run_scales {
    float scales[PARTS(CHUNK, 4)][HALVES ? 2 : 1], minimums[PARTS(CHUNK, 4)][HALVES ? 2 : 1];
};

/* linear_q8_0 and linear_q8_group: scales of 2 or of 4 bytes. */
template <int SCALE_BYTES> struct q8_source {
    static constexpr int CHUNK = 4, AHEAD = 2;
    static constexpr bool WHOLE = false, HALVES = false, MINIMUMS = false;
    const uint8_t *w;
    int64_t runs;

    struct raw {
        uint32_t words[CHUNK][2], scale;
    };
    DEVICE_MEMBER void load(raw &to, int64_t band, int64_t chunk) const
    {
        constexpr int BYTES = BAND * SCALE_BYTES + BAND_BYTES;
        const int g = LANE / 4, t = LANE % 4;
        const uint8_t *const own = w + band * runs * BYTES;
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            const int64_t run = MIN(chunk * CHUNK + i, runs - 1);
            const uint32_t *const words = (const uint32_t *)(own + run * BYTES + BAND * SCALE_BYTES) + t * BAND + g;
            to.words[i][0] = load_once(words);
            to.words[i][1] = load_once(words + 4 * BAND);
        }
        const uint8_t *const scale = own + MIN(chunk * CHUNK + t, runs - 1) * BYTES + g * SCALE_BYTES;
        to.scale = SCALE_BYTES == 2 ? (uint32_t)*(const uint16_t *)scale : *(const uint32_t *)scale;
    }
    DEVICE_MEMBER static void numbers(int to[2], const raw &from, int run)
    {
        to[0] = (int)from.words[run][0], to[1] = (int)from.words[run][1];
    }
    DEVICE_MEMBER static void decode(run_scales<CHUNK, HALVES> &to, const raw &from)
    {
        to.scales[0][0] = SCALE_BYTES == 2 ? f16_to_float((uint16_t)from.scale) : __int_as_float((int)from.scale);
    }
};

/* As band_type_of, of a type that is known to the compiler. */
template <int64_t TYPE> struct banded;
#define BANDED_AS(name, code, large_, minimums_, halves_, nibbles_, two_bits_, one_bit_, six_bits_)                    \
    template <> struct banded<code> {                                                                                  \
        static constexpr int large = large_, minimums = minimums_, halves = halves_, nibbles = nibbles_,               \
                             two_bits = two_bits_, one_bit = one_bit_, six_bits = six_bits_;                           \
    };
BAND_TYPES(BANDED_AS)

/* The types of linear_blocks that lie in bands. */
template <int64_t TYPE> struct band_source {
    using type = banded<TYPE>;
    static constexpr int CHUNK = 8, AHEAD = type::nibbles && !type::two_bits && !type::one_bit ? 2 : 1;
    static constexpr bool WHOLE = type::large, HALVES = type::halves, MINIMUMS = type::minimums;
    static constexpr int PARTS_OF_RUN = HALVES ? 2 : 1;
    const uint8_t *w;
    int64_t runs;

    struct raw {
        uint32_t nibbles[type::nibbles ? CHUNK : 1], two_bits[type::two_bits ? CHUNK : 1],
            one_bit[type::one_bit ? CHUNK : 1], six_bits[type::six_bits ? CHUNK : 1][2];
        uint16_t scales[2], minimums[2];        /* of blocks */
        uint8_t own[2][PARTS_OF_RUN], least[2]; /* of runs, in large types */
    };
    DEVICE_MEMBER void load(raw &to, int64_t band, int64_t chunk) const
    {
        const band_type t = band_type_of(TYPE);
        const int row = LANE / 4, s = LANE % 4;
        const int64_t bytes = band_bytes(TYPE), blocks = type::large ? runs / CHUNK : runs;
        const uint8_t *const bands = w + band * blocks * bytes;
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            const uint8_t *const block = bands + (type::large ? chunk : MIN(chunk * CHUNK + i, runs - 1)) * bytes;
            const uint8_t *at = block + band_numbers(t, type::large ? i : 0) + 4 * row;
            if (type::nibbles)
                to.nibbles[i] = load_once((const uint32_t *)(at + s * BAND * 4));
            at += type::nibbles * NIBBLES;
            if (type::two_bits)
                to.two_bits[i] = load_once((const uint32_t *)(at + s / 2 * BAND * 4));
            at += type::two_bits * TWO_BITS;
            if (type::one_bit)
                to.one_bit[i] = load_once((const uint32_t *)at);
            if (type::six_bits) {
                at += s % 2 * BAND * 4;
                to.six_bits[i][0] = load_once((const uint32_t *)(at + s / 2 * (SIX_BITS / 3 * 2)));
                to.six_bits[i][1] = s < 2 ? load_once((const uint32_t *)(at + SIX_BITS / 3)) : 0;
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int run = s + 4 * i;
            const uint8_t *const block = bands + (type::large ? chunk : MIN(chunk * CHUNK + run, runs - 1)) * bytes;
            if (i == 0 || !type::large) {
                to.scales[i] = ((const uint16_t *)block)[row];
                if (type::minimums)
                    to.minimums[i] = ((const uint16_t *)(block + HALF_SCALES))[row];
            }
            if (type::large) {
                const uint8_t *const at = block + band_run(t, run) + row;
                for (int h = 0; h < PARTS_OF_RUN; h++)
                    to.own[i][h] = at[h * BAND];
                if (type::minimums && !type::halves)
                    to.least[i] = at[BAND];
            }
        }
    }
    DEVICE_MEMBER static void numbers(int to[2], const raw &from, int run)
    {
        const int s = LANE % 4, first = 4 * type::nibbles, second = first + 2 * type::two_bits;
        uint32_t low = 0, high = 0;
        if (type::six_bits) {
            const uint32_t own = from.six_bits[run][0], other = from.six_bits[run][1];
            const uint32_t above = of_four((own >> 2 & 48 * EACH_BYTE) | (other >> 4 & 12 * EACH_BYTE), s % 2);
            low = own & 63 * EACH_BYTE, high = s < 2 ? other & 63 * EACH_BYTE : above | (own >> 6 & 3 * EACH_BYTE);
        }
        if (type::nibbles) {
            low = from.nibbles[run] & 15 * EACH_BYTE;
            high = from.nibbles[run] >> 4 & 15 * EACH_BYTE;
        }
        if (type::two_bits) {
            const uint32_t four = from.two_bits[run] >> s % 2 * 4;
            low |= (four & 3 * EACH_BYTE) << first, high |= (four >> 2 & 3 * EACH_BYTE) << first;
        }
        if (type::one_bit) {
            const uint32_t eight = from.one_bit[run] >> s;
            low |= (eight & EACH_BYTE) << second, high |= (eight >> 4 & EACH_BYTE) << second;
        }
        const uint32_t sign = 0x80808080, bias = (uint32_t)type_of(TYPE).bias * EACH_BYTE;
        to[0] = (int)(bias ? ((low | sign) - bias) ^ sign : low); /* from each byte, borrowing from no other */
        to[1] = (int)(bias ? ((high | sign) - bias) ^ sign : high);
    }
    DEVICE_MEMBER static void decode(run_scales<CHUNK, HALVES> &to, const raw &from)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float d = f16_to_float(from.scales[type::large ? 0 : i]);
            const float m = type::minimums ? f16_to_float(from.minimums[type::large ? 0 : i]) : 0.0f;
            for (int h = 0; h < PARTS_OF_RUN; h++) {
                int scale = 1, minimum = -1;
                if (type::halves && type::minimums)
                    scale = from.own[i][h] & 15, minimum = from.own[i][h] >> 4;
                else if (type::halves)
                    scale = (int8_t)from.own[i][h];
                else if (type::large)
                    scale = from.own[i][h], minimum = from.least[i];
                to.scales[i][h] = d * (float)scale;
                to.minimums[i][h] = m * (float)minimum;
            }
        }
    }
};

/* The types that lie as files have them, row after row. */
template <int64_t TYPE> struct row_source {
    static constexpr bool TABLE = TYPE == IQ4_NL || TYPE == IQ4_XS || TYPE == MXFP4;
    static constexpr int CHUNK = TABLE ? 8 : 4, AHEAD = 1;
    static constexpr bool WHOLE = false, HALVES = false, MINIMUMS = false;
    const uint8_t *w;
    int64_t runs, outputs;

    struct raw {
        uint32_t words[CHUNK][TABLE ? 1 : 2];
        float scales[PARTS(CHUNK, 4)];
    };
    DEVICE_MEMBER void load(raw &to, int64_t band, int64_t chunk) const
    {
        const block_type kind = type_of(TYPE);
        const int inner = kind.values / BLOCK;
        const int64_t row = MIN(band * BAND + LANE / 4, outputs - 1);
        const uint8_t *const own = w + row * (runs / inner) * kind.nbytes;
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            const int64_t run = MIN(chunk * CHUNK + i, runs - 1);
            const uint8_t *const at =
                own + run / inner * kind.nbytes + block_numbers(TYPE, (int)(run % inner)) + 4 * (LANE % 4);
            for (int h = 0; h < (TABLE ? 1 : 2); h++)
                to.words[i][h] = word_at(at + 16 * h);
        }
#pragma unroll
        for (int i = 0; i < PARTS(CHUNK, 4); i++) {
            const int64_t run = MIN(chunk * CHUNK + LANE % 4 + 4 * i, runs - 1);
            to.scales[i] = block_scale(own + run / inner * kind.nbytes, TYPE, (int)(run % inner));
        }
    }
    DEVICE_MEMBER static void numbers(int to[2], const raw &from, int run)
    {
        if (TABLE)
            look_up(to, TYPE == MXFP4 ? MXFP4_NUMBERS : IQ4_NUMBERS, from.words[run][0]);
        else
            to[0] = (int)from.words[run][0], to[1] = (int)from.words[run][TABLE ? 0 : 1];
    }
    DEVICE_MEMBER static void decode(run_scales<CHUNK, HALVES> &to, const raw &from)
    {
#pragma unroll
        for (int i = 0; i < PARTS(CHUNK, 4); i++)
            to.scales[i][0] = from.scales[i];
    }
};

/* ---- The product */

/* Of the activations, which other kernels have made, or where OWN this block in shared memory: where it stands here, since a
 * plain load takes more registers. */
template <bool OWN> DEVICE int activation(const void *p)
{
#ifdef __CUDACC__
    int value;
    if (OWN)
        return *(const int *)p;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(p));
    return value;
#else
    return *(const int *)p;
#endif
}

/* TILES: of 16 outputs, for a warp; EIGHTS: of rows. put(row, output, sum) takes a sum. Where OWN, prepare() makes x while the
 * first weights are on their way. */
template <int TILES, int EIGHTS, bool OWN, class Source, class Put, class Prepare>
DEVICE void int8_rows(float *gathered, const Source &source, const activations *x, int64_t rows, int64_t outputs,
                      int64_t runs, Put put, Prepare prepare)
{
    constexpr int PARTS_OF_RUN = Source::HALVES ? 2 : 1, BANDS = 2 * TILES, ALL = TILES * EIGHTS * 128;
    constexpr int MOST_AHEAD = OWN || !Source::MINIMUMS ? 2 : 1; /* registers would not suffice for more */
    constexpr int AHEAD = TILES == 1 && EIGHTS == 1 ? MIN(Source::AHEAD, MOST_AHEAD) : 0;
    constexpr int LOADED = MAX(AHEAD, 1);
    const int g = LANE / 4, t = LANE % 4;
    const int64_t bands = PARTS(outputs, BAND), chunks = PARTS(runs, Source::CHUNK);
    int row_of_values[EIGHTS], row_of_sums[EIGHTS][2]; /* where they begin in x, in blocks */
#pragma unroll
    for (int n = 0; n < EIGHTS; n++) {
        row_of_values[n] = (int)(MIN(8 * n + g, rows - 1) * runs);
        row_of_sums[n][0] = (int)(MIN(8 * n + 2 * t, rows - 1) * runs);
        row_of_sums[n][1] = (int)(MIN(8 * n + 2 * t + 1, rows - 1) * runs);
    }
    bool prepared = !OWN;
    FOR_EACH_BLOCK(unit, PARTS(bands, BANDS))
    {
        float sums[TILES][EIGHTS][4] = {{{0}}};
        typename Source::raw next[LOADED][BANDS];
        const auto load = [&](typename Source::raw to[BANDS], int64_t chunk) {
#pragma unroll
            for (int b = 0; b < BANDS; b++)
                source.load(to[b], MIN(unit * BANDS + b, bands - 1), chunk);
        };
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (WARP + i * ROWS_WARPS < chunks)
                load(next[i], WARP + i * ROWS_WARPS);
        if (!prepared)
            prepare();
        prepared = true;
        /* What a lane has on its way covers the time of a load only with more than one chunk, where a multiprocessor has one
         * block: of q8_0 a block has 17 KB on its way for each. */
        const auto add = [&](int64_t chunk, typename Source::raw loaded[BANDS]) {
            if (!AHEAD)
                load(loaded, chunk);
            typename Source::raw now[BANDS];
            run_scales<Source::CHUNK, Source::HALVES> scales[BANDS];
#pragma unroll
            for (int b = 0; b < BANDS; b++) {
                now[b] = loaded[b];
                source.decode(scales[b], now[b]);
            }
            if (AHEAD && chunk + AHEAD * ROWS_WARPS < chunks)
                load(loaded, chunk + AHEAD * ROWS_WARPS);
            const activations *const own = x + chunk * Source::CHUNK;
#pragma unroll
            for (int run = 0; run < Source::CHUNK; run++) {
                const bool inside = Source::WHOLE || chunk * Source::CHUNK + run < runs;
                int words[EIGHTS][2];
                float x_scales[EIGHTS][2], x_sums[EIGHTS][2]; /* of rows 2 t and 2 t + 1 of eight */
#pragma unroll
                for (int n = 0; n < EIGHTS; n++) {
                    const bool there = inside && 8 * n + g < rows;
                    const int *const values = (const int *)own[row_of_values[n] + run].values;
                    words[n][0] = there ? activation<OWN>(values + t) : 0;
                    words[n][1] = there ? activation<OWN>(values + 4 + t) : 0;
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const bool is = inside && 8 * n + 2 * t + e < rows;
                        const activations *const other = own + row_of_sums[n][e] + run;
                        x_scales[n][e] = is ? __int_as_float(activation<OWN>(&other->scale)) : 0.0f;
                        x_sums[n][e] =
                            is && Source::MINIMUMS && !Source::HALVES ? (float)activation<OWN>(&other->sum) : 0.0f;
                    }
                }
#pragma unroll
                for (int m = 0; m < TILES; m++) {
                    int low[2], high[2];
                    source.numbers(low, now[2 * m], run);
                    source.numbers(high, now[2 * m + 1], run);
#pragma unroll
                    for (int h = 0; h < PARTS_OF_RUN; h++) {
                        float scale[2], least[2] = {0, 0};
#pragma unroll
                        for (int b = 0; b < 2; b++) {
                            scale[b] = of_four(scales[2 * m + b].scales[run / 4][h], run % 4);
                            if (Source::MINIMUMS)
                                least[b] = of_four(scales[2 * m + b].minimums[run / 4][h], run % 4);
                        }
                        const int a[4] = {low[h], high[h], low[1], high[1]}, ones[4] = {ONES, ONES, ONES, ONES};
#pragma unroll
                        for (int n = 0; n < EIGHTS; n++) {
                            const int b[2] = {words[n][h], words[n][1]};
                            int dots[4], totals[4];
                            multiply_byte_fragments<Source::HALVES>(dots, a, b);
                            if (Source::MINIMUMS && Source::HALVES)
                                multiply_byte_fragments<true>(totals, ones, b);
#pragma unroll
                            for (int e = 0; e < 4; e++) {
                                float part = scale[e / 2] * (float)dots[e];
                                if (Source::MINIMUMS)
                                    part -= least[e / 2] * (Source::HALVES ? (float)totals[e] : x_sums[n][e % 2]);
                                sums[m][n][e] += inside ? x_scales[n][e % 2] * part : 0.0f;
                            }
                        }
                    }
                }
            }
        };
        for (int64_t first = WARP; first < chunks; first += LOADED * ROWS_WARPS)
#pragma unroll
            for (int i = 0; i < LOADED; i++)
                if (first + i * ROWS_WARPS < chunks)
                    add(first + i * ROWS_WARPS, next[i]);
#pragma unroll
        for (int m = 0; m < TILES; m++)
#pragma unroll
            for (int n = 0; n < EIGHTS; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    gathered[WARP * ALL + (n * 8 + 2 * t + e % 2) * 16 * TILES + 16 * m + g + e / 2 * 8] =
                        sums[m][n][e];
        __syncthreads();
        FOR_THREADS(i, ALL)
        {
            const int64_t row = i / (16 * TILES), output = unit * 16 * TILES + i % (16 * TILES);
            if (row < rows && output < outputs) {
                float sum = 0;
                for (int warp = 0; warp < ROWS_WARPS; warp++)
                    sum += gathered[warp * ALL + i];
                put(row, output, sum);
            }
        }
        __syncthreads();
    }
}

/* For up to FEW_ROWS rows. Variants by ROWS_KIND have no more registers than they need. */
template <class Source, class Put>
DEVICE void int8_few_rows(float *gathered, const Source &source, const activations *x, int64_t rows, int64_t outputs,
                          int64_t runs, Put put)
{
    const int kind = ROWS_KIND;
    const auto nothing = [] {};
    if constexpr (COMPILED(VARIED % 4 == 1)) {
        if (kind == 1)
            int8_rows<1, 1, false>(gathered, source, x, rows, outputs, runs, put, nothing);
    }
    if constexpr (COMPILED(VARIED % 4 == 2)) {
        if (kind == 2)
            int8_rows<2, 2, false>(gathered, source, x, rows, outputs, runs, put, nothing);
    }
    if constexpr (COMPILED(VARIED % 4 == 3)) {
        if (kind == 3)
            int8_rows<1, 4, false>(gathered, source, x, rows, outputs, runs, put, nothing);
    }
}

/* The weights that a block of int8_few_rows begins with, whose bands have so many bytes. */
DEVICE void fetch_bands_ahead(const void *w, int64_t band_bytes, int64_t rows, int64_t outputs)
{
    const int bands = (rows > 8 && rows <= 16 ? 32 : 16) / BAND;
    fetch_rows_ahead(w, band_bytes, (int64_t)blockIdx.x * bands, bands, PARTS(outputs, BAND));
}

/* ---- One row, which each block quantises itself, after what may come before that: quantize_linear_q8_0 and
 * quantize_linear_blocks, whose slots have the same numbers */

enum { BEFORE_NOTHING, BEFORE_RMS_NORM, BEFORE_SILU_MUL }; /* the dim `before` */
#define OWN_ROW_KIND 1024                                  /* and more: not those of other kernels */
#define OWN_ROW_UNITS CHOOSE(outputs > 65536, 16, CHOOSE(outputs > 8192, 2, 1)) /* of 16 outputs for a block */
#define OWN_ROW_BLOCKS PARTS(outputs, 16 * OWN_ROW_UNITS)
#define OWN_ROW_SHARED (40 * PARTS(inputs, 32))
enum { OWN_ROW_GATHERED = ROWS_WARPS * 128, MOST_OWN_INPUTS = 32768 };

/* The row to shared memory; the first block also writes what the kernels before would have. */
DEVICE void prepare_row(activations *shared, const launch &record)
{
    const int64_t *d = record.dims, inputs = d[quantize_linear_q8_0_inputs];
    const int64_t before = d[quantize_linear_q8_0_before];
    const float *const x = (const float *)record.pointers[quantize_linear_q8_0_x];
    float *const made = (float *)record.pointers[quantize_linear_q8_0_made];
    activations *const xq = (activations *)record.pointers[quantize_linear_q8_0_xq];
    const auto put = [&](int64_t four, const float y[4]) {
        const int64_t block = four / (BLOCK / 4);
        quantize_four(shared + block, y, BLOCK * block < inputs);
        if (made && blockIdx.x == 0)
            for (int j = 0; j < 4 && 4 * four + j < inputs; j++)
                made[4 * four + j] = y[j];
    };
    if (before == BEFORE_RMS_NORM)
        norm_row((const float4 *)x, record.pointers[quantize_linear_q8_0_weight],
                 (int)d[quantize_linear_q8_0_weight_type], inputs, record.floats[quantize_linear_q8_0_epsilon], put);
    else {
        const bool aligned = (uint64_t)x % 16 == 0 && inputs % 4 == 0;
        for (int64_t first = (int64_t)threadIdx.x - LANE; 4 * first < inputs; first += ROWS_THREADS) {
            const int64_t column = 4 * (first + LANE);
            float own[4] = {0, 0, 0, 0}, up[4] = {0, 0, 0, 0};
            for (int part = 0; part < (before == BEFORE_SILU_MUL ? 2 : 1); part++) {
                float *const to = part ? up : own;
                const float *const from = x + part * inputs + column;
                if (aligned && column < inputs) {
                    const float4 four = *(const float4 *)from;
                    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
                } else
                    for (int j = 0; j < 4 && column + j < inputs; j++)
                        to[j] = from[j];
            }
            if (before == BEFORE_SILU_MUL)
                for (int j = 0; j < 4; j++)
                    own[j] = silu_mul(own[j], up[j]);
            put(first + LANE, own);
        }
    }
    __syncthreads();
    if (blockIdx.x == 0)
        FOR_THREADS(i, PARTS(inputs, BLOCK) * (sizeof(activations) / 4))((int *)xq)[i] = ((const int *)shared)[i];
}

template <class Source> DEVICE void int8_own_row(const launch &record, activations *row, const Source &source)
{
    __shared__ float gathered[OWN_ROW_GATHERED];
    const float *const residual = (const float *)record.pointers[quantize_linear_q8_0_residual];
    float *const y = (float *)record.pointers[quantize_linear_q8_0_y];
    const auto put = [&](int64_t, int64_t output, float sum) { y[output] = residual ? sum + residual[output] : sum; };
    int8_rows<1, 1, true>(gathered, source, row, 1, record.dims[quantize_linear_q8_0_outputs], source.runs, put,
                          [&] { prepare_row(row, record); });
}

/* Whether the row has sizes or places that prepare_row does not take. */
DEVICE bool is_bad_row(const launch &record)
{
    const int64_t *d = record.dims, inputs = d[quantize_linear_q8_0_inputs], before = d[quantize_linear_q8_0_before];
    const uint64_t places =
        (uint64_t)record.pointers[quantize_linear_q8_0_x] | (uint64_t)record.pointers[quantize_linear_q8_0_weight];
    if (inputs > MOST_OWN_INPUTS || before < BEFORE_NOTHING || before > BEFORE_SILU_MUL)
        return true;
    return before == BEFORE_RMS_NORM && (places % 16 || inputs % 4 || inputs <= 512 || inputs > MOST_NORMED ||
                                         !type_in(d[quantize_linear_q8_0_weight_type], TYPES_HALF | BIT(TYPE_float32)));
}
#endif
