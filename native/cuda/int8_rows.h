/* Products of int8 weights in blocks and a few rows of int8 activations, as fast as the weights are read. A warp takes 16
 * outputs (two bands of 8) or 32, and of their columns a chunk at a time; the warps of a block share the chunks. Chunks are
 * copied to shared memory as they are, some of them ahead of what is multiplied, so that enough is always under way. Bands lie
 * as tensor cores want the weights: lane 4 g + t reads columns 4 t .. of output g beside those of the other lanes. The
 * weights are decoded once for all rows; the sums of whole numbers are exact. */
#ifndef PYAPP_INT8_ROWS_H
#define PYAPP_INT8_ROWS_H
#include "int8_tiles.h"

#define ROWS_WARPS 8
#define ROWS_KIND CHOOSE(rows > FEW_ROWS, 0, 1 + (rows > 8) + (rows > 16)) /* see int8_few_rows */
#define ROWS_BLOCKS PARTS(outputs, CHOOSE(rows <= 8, 16, CHOOSE(rows <= 16, 32, 16)))
#define ROWS_SHARED CHOOSE(rows <= 8, 73728, 98304)
enum { ROWS_THREADS = 32 * ROWS_WARPS, MOST_AHEAD = 4 };

/* Copies `pieces` times 16 bytes to shared memory by the lanes of a warp. */
DEVICE void copy_pieces(uint8_t *to, const uint8_t *from, int pieces)
{
    for (int i = LANE; i < pieces; i += 32)
#if HAS_TENSOR_CORES
        start_copy(to + 16 * i, from + 16 * i, true);
#else
        *(uint4 *)(to + 16 * i) = *(const uint4 *)(from + 16 * i);
#endif
}

/* Four bytes that may lie anywhere in shared memory. */
DEVICE uint32_t word_at(const uint8_t *p)
{
#ifdef __CUDACC__
    const uint32_t *const at = (const uint32_t *)((uint64_t)p & ~(uint64_t)3);
    return __funnelshift_r(at[0], at[1], (int)((uint64_t)p & 3) * 8);
#else
    return four_bytes(p);
#endif
}

/* ---- Weights. A source has
 *     CHUNK      runs of 32 columns that are copied at a time
 *     BYTES      of eight outputs and a chunk in shared memory
 *     WHOLE      whether rows have whole chunks
 *     HALVES     whether the first and the last 16 columns of a run have scales of their own
 *     MINIMUMS   whether minimums are subtracted
 *     fetch(to, band, chunk)    copies of eight outputs
 *     own(to, band, chunk)      where output g lies in them, for lane 4 g + t: `at`
 *     numbers(words, at, run)   columns 4 t .. and 4 t + 16 .. of a run of the chunk
 *     scale(at, run, half), minimum(at, run, half) */

/* What lies in bands: blocks of `inner` runs and BLOCK_BYTES each. */
template <int CHUNK, int INNER, int BLOCK_BYTES> struct bands_source {
    static constexpr int BYTES = CHUNK / INNER * BLOCK_BYTES;
    const uint8_t *w;
    int64_t runs;

    DEVICE_MEMBER void fetch(uint8_t *to, int64_t band, int64_t chunk) const
    {
        const int64_t all = runs / INNER * BLOCK_BYTES, first = chunk * BYTES;
        copy_pieces(to, w + band * all + first, (int)(MIN(all - first, BYTES) / 16));
    }
    DEVICE_MEMBER static const uint8_t *own(const uint8_t *to, int64_t, int64_t) { return to; }
};

/* linear_q8_0 and linear_q8_group: scales of 2 or of 4 bytes. */
template <int SCALE_BYTES> struct q8_source : bands_source<4, 1, BAND * SCALE_BYTES + BAND_BYTES> {
    static constexpr int CHUNK = 4, RUN = BAND * SCALE_BYTES + BAND_BYTES;
    static constexpr bool WHOLE = false, HALVES = false, MINIMUMS = false;

    DEVICE_MEMBER static void numbers(int to[2], const uint8_t *at, int run)
    {
        const int *const words = (const int *)(at + run * RUN + BAND * SCALE_BYTES) + LANE % 4 * BAND + LANE / 4;
        to[0] = words[0], to[1] = words[4 * BAND];
    }
    DEVICE_MEMBER static float scale(const uint8_t *at, int run, int)
    {
        const uint8_t *const own = at + run * RUN + LANE / 4 * SCALE_BYTES;
        return SCALE_BYTES == 2 ? f16_to_float(*(const uint16_t *)own) : *(const float *)own;
    }
    DEVICE_MEMBER static float minimum(const uint8_t *, int, int) { return 0; }
};

/* As band_type_of, of a type that is known to the compiler. */
template <int64_t TYPE> struct banded;
#define BANDED_AS(name, code, large_, minimums_, halves_, nibbles_, two_bits_, one_bit_)                               \
    template <> struct banded<code> {                                                                                  \
        static constexpr int large = large_, minimums = minimums_, halves = halves_, bytes = name##_bytes;             \
    };
BAND_TYPES(BANDED_AS)

/* The types of linear_blocks that lie in bands. */
template <int64_t TYPE> struct band_source : bands_source<8, banded<TYPE>::large ? 8 : 1, banded<TYPE>::bytes> {
    using type = banded<TYPE>;
    static constexpr int CHUNK = 8;
    static constexpr bool WHOLE = type::large, HALVES = type::halves, MINIMUMS = type::minimums;

    /* Of the chunk at `at`: the block of a run, and the number of the run in it. */
    DEVICE_MEMBER static const uint8_t *block_of(const uint8_t *at, int run)
    {
        return at + (type::large ? 0 : run * type::bytes);
    }
    DEVICE_MEMBER static int run_of(int run) { return type::large ? run : 0; }

    DEVICE_MEMBER static void numbers(int to[2], const uint8_t *at, int run)
    {
        const band_type t = band_type_of(TYPE);
        const uint8_t *const own = block_of(at, run) + band_numbers(t, run_of(run)) + LANE / 4 * 4;
        const four_and_four n = band_step(own, t, LANE % 4);
        const uint32_t sign = 0x80808080, bias = (uint32_t)type_of(TYPE).bias * EACH_BYTE;
        to[0] = (int)(bias ? ((n.low | sign) - bias) ^ sign : n.low); /* from each byte, borrowing from no other */
        to[1] = (int)(bias ? ((n.high | sign) - bias) ^ sign : n.high);
    }
    DEVICE_MEMBER static float scale(const uint8_t *at, int run, int half)
    {
        const uint8_t *const block = block_of(at, run);
        const float d = f16_to_float(((const uint16_t *)block)[LANE / 4]);
        if (!type::large)
            return d;
        const uint8_t own = block[band_run(band_type_of(TYPE), run_of(run)) + LANE / 4 + half * BAND];
        return d * (float)(!type::halves ? own : type::minimums ? own & 15 : (int)(int8_t)own);
    }
    DEVICE_MEMBER static float minimum(const uint8_t *at, int run, int half)
    {
        if (!type::minimums)
            return 0;
        const uint8_t *const block = block_of(at, run);
        const float m = f16_to_float(((const uint16_t *)(block + HALF_SCALES))[LANE / 4]);
        if (!type::large)
            return -m;
        const uint8_t *const own = block + band_run(band_type_of(TYPE), run_of(run)) + LANE / 4;
        return m * (float)(type::halves ? own[half * BAND] >> 4 : own[BAND]);
    }
};

/* The types that lie as files have them, row after row: a row's part of a chunk may begin at any byte, and what is copied is
 * the 16 bytes that each of its bytes lies in. */
template <int64_t TYPE> struct row_source {
    static constexpr bool TABLE = TYPE == IQ4_NL || TYPE == IQ4_XS || TYPE == MXFP4;
    static constexpr int CHUNK = 8;
    static constexpr int INNER = TYPE == Q8_K || TYPE == IQ4_XS ? 8 : 1;
    static constexpr int BLOCK_BYTES = TYPE == Q8_0     ? 34
                                       : TYPE == Q8_1   ? 36
                                       : TYPE == Q8_K   ? 292
                                       : TYPE == IQ4_NL ? 18
                                       : TYPE == IQ4_XS ? 136
                                                        : 17;
    static constexpr int PART = CHUNK / INNER * BLOCK_BYTES, ROW = 16 * ((PART + 34) / 16 | 1); /* no bank twice */
    static constexpr int BYTES = 8 * ROW;
    static constexpr bool WHOLE = INNER == CHUNK, HALVES = false, MINIMUMS = false;
    const uint8_t *w;
    int64_t runs, outputs;

    DEVICE_MEMBER const uint8_t *row_at(int64_t row) const
    {
        return w + MIN(row, outputs - 1) * (runs / INNER * BLOCK_BYTES);
    }
    DEVICE_MEMBER void fetch(uint8_t *to, int64_t band, int64_t chunk) const
    {
        const int64_t all = runs / INNER * BLOCK_BYTES, first = chunk * PART, part = MIN(all - first, PART);
        for (int row = 0; row < BAND; row++) {
            const uint8_t *const from = row_at(band * BAND + row) + first;
            const int before = (int)((uint64_t)from % 16);
            copy_pieces(to + row * ROW, from - before, (int)(before + part + 15) / 16);
        }
    }
    DEVICE_MEMBER const uint8_t *own(const uint8_t *to, int64_t band, int64_t chunk) const
    {
        return to + LANE / 4 * ROW + (uint64_t)(row_at(band * BAND + LANE / 4) + chunk * PART) % 16;
    }
    DEVICE_MEMBER static void numbers(int to[2], const uint8_t *at, int run)
    {
        const uint8_t *const words = at + run / INNER * BLOCK_BYTES + block_numbers(TYPE, run % INNER) + LANE % 4 * 4;
        if (TABLE)
            look_up(to, TYPE == MXFP4 ? MXFP4_NUMBERS : IQ4_NUMBERS, word_at(words));
        else
            to[0] = (int)word_at(words), to[1] = (int)word_at(words + 16);
    }
    DEVICE_MEMBER static float scale(const uint8_t *at, int run, int)
    {
        return block_scale(at + run / INNER * BLOCK_BYTES, TYPE, run % INNER);
    }
    DEVICE_MEMBER static float minimum(const uint8_t *, int, int) { return 0; }
};

/* ---- The product */

/* TILES: of 16 outputs, for a warp; EIGHTS: of rows; MOST_BYTES: shared memory for a warp. put(row, output, sum) takes a
 * sum. */
template <int TILES, int EIGHTS, int MOST_BYTES, class Source, class Put>
DEVICE void int8_rows(uint8_t *shared, const Source &source, const activations *x, int64_t rows, int64_t outputs,
                      int64_t runs, Put put)
{
    constexpr int PARTS_OF_RUN = Source::HALVES ? 2 : 1, BANDS = 2 * TILES, ALL = TILES * EIGHTS * 128;
    constexpr int STAGE = BANDS * Source::BYTES, STAGES = HAS_TENSOR_CORES ? MIN(MOST_AHEAD, MOST_BYTES / STAGE) : 1;
    static_assert(STAGES >= 1, "a chunk fits the shared memory");
    const int g = LANE / 4, t = LANE % 4;
    const int64_t bands = PARTS(outputs, BAND), chunks = PARTS(runs, Source::CHUNK);
    uint8_t *const stages = shared + WARP * STAGES * STAGE;
    float *const gathered = (float *)shared;           /* after the stages */
    int row_of_values[EIGHTS], row_of_sums[EIGHTS][2]; /* where they begin in x, in blocks */
#pragma unroll
    for (int n = 0; n < EIGHTS; n++) {
        row_of_values[n] = (int)(MIN(8 * n + g, rows - 1) * runs);
        row_of_sums[n][0] = (int)(MIN(8 * n + 2 * t, rows - 1) * runs);
        row_of_sums[n][1] = (int)(MIN(8 * n + 2 * t + 1, rows - 1) * runs);
    }
    FOR_EACH_BLOCK(unit, PARTS(bands, BANDS))
    {
        float sums[TILES][EIGHTS][4] = {{{0}}};
        const auto fetch = [&](int stage, int64_t chunk) {
            if (chunk < chunks)
                for (int b = 0; b < BANDS; b++)
                    source.fetch(stages + stage * STAGE + b * Source::BYTES, MIN(unit * BANDS + b, bands - 1), chunk);
            end_copies();
        };
        for (int stage = 0; stage < STAGES - 1; stage++)
            fetch(stage, WARP + stage * ROWS_WARPS);
        int stage = 0;
        for (int64_t chunk = WARP; chunk < chunks; chunk += ROWS_WARPS) {
            if (STAGES == 1) {
                __syncwarp();
                fetch(0, chunk);
            }
            wait_for_copies<MAX(0, STAGES - 2)>();
            __syncwarp();
            if (STAGES > 1) /* to where the lanes are done */
                fetch(stage == 0 ? STAGES - 1 : stage - 1, chunk + (STAGES - 1) * ROWS_WARPS);
            const uint8_t *at[BANDS];
#pragma unroll
            for (int b = 0; b < BANDS; b++)
                at[b] = source.own(stages + stage * STAGE + b * Source::BYTES, MIN(unit * BANDS + b, bands - 1), chunk);
            stage = stage == STAGES - 1 ? 0 : stage + 1;
            const activations *const own = x + chunk * Source::CHUNK;
#pragma unroll 2 /* more would take registers that other warps need */
            for (int run = 0; run < Source::CHUNK; run++) {
                const bool inside = Source::WHOLE || chunk * Source::CHUNK + run < runs;
                int words[EIGHTS][2];
                float x_scales[EIGHTS][2], x_sums[EIGHTS][2]; /* of rows 2 t and 2 t + 1 of eight */
#pragma unroll
                for (int n = 0; n < EIGHTS; n++) {
                    const bool there = inside && 8 * n + g < rows;
                    const int *const values = (const int *)own[row_of_values[n] + run].values;
                    words[n][0] = there ? __ldg(values + t) : 0;
                    words[n][1] = there ? __ldg(values + 4 + t) : 0;
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const bool is = inside && 8 * n + 2 * t + e < rows;
                        const activations *const other = own + row_of_sums[n][e] + run;
                        x_scales[n][e] = is ? __ldg(&other->scale) : 0.0f;
                        x_sums[n][e] = is && Source::MINIMUMS && !Source::HALVES ? (float)__ldg(&other->sum) : 0.0f;
                    }
                }
#pragma unroll
                for (int m = 0; m < TILES; m++) {
                    int low[2], high[2];
                    source.numbers(low, at[2 * m], run);
                    source.numbers(high, at[2 * m + 1], run);
#pragma unroll
                    for (int h = 0; h < PARTS_OF_RUN; h++) {
                        float scale[2], least[2];
#pragma unroll
                        for (int b = 0; b < 2; b++) {
                            scale[b] = source.scale(at[2 * m + b], run, h);
                            least[b] = source.minimum(at[2 * m + b], run, h);
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
        }
        wait_for_copies<0>();
        __syncthreads();
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
DEVICE void int8_few_rows(uint8_t *shared, const Source &source, const activations *x, int64_t rows, int64_t outputs,
                          int64_t runs, Put put)
{
    constexpr int FEW = 73728 / ROWS_WARPS, MORE = 98304 / ROWS_WARPS; /* of ROWS_SHARED */
    constexpr int TILES = 2 * 4 * Source::BYTES <= MORE ? 2 : 1;
    const int kind = ROWS_KIND;
    if (COMPILED(VARIED % 4 == 1) && kind == 1)
        int8_rows<1, 1, FEW>(shared, source, x, rows, outputs, runs, put);
    else if (COMPILED(VARIED % 4 == 2) && kind == 2)
        int8_rows<TILES, 2, MORE>(shared, source, x, rows, outputs, runs, put);
    else if (COMPILED(VARIED % 4 == 3) && kind == 3)
        int8_rows<1, 4, MORE>(shared, source, x, rows, outputs, runs, put);
}
#endif
