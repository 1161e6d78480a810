/* y = x w^T (+ residual) with weights in float32 and 16-bit floats. A few rows of x: the weights are read once and side by
 * side, one row by a warp for each output, more by tensor cores. Many rows: tiles. Float32 x and 16-bit
 * weights: tensor cores take x as the sum of two or three bfloat16, which have 16 or 24 bits of it, and float16 weights as
 * the sum of two, which have all. */
#include "gated.h"
#include "multiprocessors.h"
#include "normed_row.h"
#include "positions.h"
#include "product.h"
#include "read_once.h"

#define FEW_ROWS 32
#define FEW_FLOAT_ROWS 8
#define FEW_SHARED CHOOSE(rows <= 1, 0, CHOOSE(rows <= 8, 73728, 98304))
#define PLAIN_BLOCKS PARTS(outputs, 8)
#define FEW_BLOCKS CHOOSE(rows <= 1, PLAIN_BLOCKS, CHOOSE(rows <= 8, PARTS(outputs, 16), PARTS(outputs, 32)))
#define FEW_FLOAT_KIND CHOOSE(rows > FEW_FLOAT_ROWS, 0, 1 + (rows > 1))
/* One row of so few outputs that a multiprocessor has two blocks of them at most: registers for loads take no room from others. */
#define IS_SHORT (outputs <= 2 * 8 * MULTIPROCESSORS)
#define FEW_KIND                                                                                                       \
    CHOOSE(rows > FEW_ROWS, 0, CHOOSE(rows > 1, 2 + (rows > 8) + (rows > 16), CHOOSE(IS_SHORT, SHORT_KIND, 1)))
#define SHORT_KIND 5
enum { FEW_WARPS = 8, PIECE = 8, PLAIN_AHEAD = 4, SHORT_AHEAD = 8 /* loads of a lane under way */ };

DEVICE bool is_aligned(const void *p, int64_t stride, int bytes)
{
    return (uint64_t)p % (4 * bytes) == 0 && stride % 4 == 0;
}

struct linear_task {
    void *y;
    const void *x, *w, *residual;
    int64_t rows, outputs, inputs, y_stride, x_stride, residual_stride;
};

template <int X> DEVICE void put(const linear_task &t, int64_t row, int64_t output, float sum)
{
    if (t.residual)
        sum += load_float(t.residual, row * t.residual_stride + output, X);
    store_float(t.y, row * t.y_stride + output, X, sum);
}

DEVICE linear_task task_of(const launch &record)
{
    const int64_t *d = record.dims;
    return linear_task{record.pointers[linear_f32_y],
                       record.pointers[linear_f32_x],
                       record.pointers[linear_f32_w],
                       record.pointers[linear_f32_residual],
                       d[linear_f32_rows],
                       d[linear_f32_outputs],
                       d[linear_f32_inputs],
                       d[linear_f32_y_stride],
                       d[linear_f32_x_stride],
                       d[linear_f32_residual_stride]};
}

/* What is read again, as early as it stands here: a plain load takes more registers in plain_rows. */
DEVICE uint4 load_again(const uint4 *p)
{
#ifdef __CUDACC__
    uint4 value;
    asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(p));
    return value;
#else
    return *p;
#endif
}

/* Eight elements as they are stored. */
template <int TYPE> struct piece {
    static constexpr int WORDS = TYPE == TYPE_float32 ? 8 : 4;
    uint32_t words[WORDS];

    DEVICE_MEMBER piece() = default;
    /* From shared memory, of 16 bits. */
    DEVICE_MEMBER explicit piece(const uint8_t *p)
    {
        const uint4 four = *(const uint4 *)p;
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    }
    /* From i on; zeros from `end` on. ALIGNED: pieces lie where 16 bytes do, and none goes past the end. ONCE: see
     * load_once. */
    template <bool ALIGNED, bool ONCE> DEVICE_MEMBER void load(const void *p, int64_t i, int64_t end)
    {
#pragma unroll
        for (int j = 0; j < WORDS; j++)
            words[j] = 0;
        if (ALIGNED && i < end) {
            const uint4 *const at = (const uint4 *)((const uint32_t *)p + i / PIECE * WORDS);
#pragma unroll
            for (int j = 0; j < WORDS / 4; j++) {
                const uint4 four = ONCE ? load_once(at + j) : load_again(at + j);
                words[4 * j] = four.x, words[4 * j + 1] = four.y, words[4 * j + 2] = four.z, words[4 * j + 3] = four.w;
            }
        }
#pragma unroll
        for (int j = 0; j < PIECE; j++)
            if (!ALIGNED && i + j < end) {
                if (TYPE == TYPE_float32)
                    words[j % WORDS] = ((const uint32_t *)p)[i + j];
                else
                    words[j / 2] |= (uint32_t)((const uint16_t *)p)[i + j] << j % 2 * 16;
            }
    }
    DEVICE_MEMBER float at(int j) const
    {
        return TYPE == TYPE_float32 ? __int_as_float((int)words[j % WORDS]) : half_of<TYPE>(words[j / 2], j % 2);
    }
};

/* Whether pieces of x and w lie where 16 bytes do. */
DEVICE bool has_aligned_pieces(const linear_task &t)
{
    return ((uint64_t)t.x | (uint64_t)t.w) % 16 == 0 && t.x_stride % PIECE == 0 && t.inputs % PIECE == 0;
}

/* X: the type of x, y and residual; W: of the weights. For rows from `first` on, up to ROWS. AHEAD pieces of the weights are
 * on their way at a time; their number changes no bit. */
template <int X, int W, int ROWS, bool ALIGNED, int AHEAD> DEVICE void plain_rows(const linear_task &t, int64_t first)
{
    FOR_EACH_BLOCK(block, PARTS(t.outputs, FEW_WARPS))
    {
        const int64_t output = block * FEW_WARPS + WARP, w_row = output * t.inputs;
        float sums[ROWS] = {0};
        if (output < t.outputs)
            for (int64_t start = PIECE * LANE; start < t.inputs; start += 32 * PIECE * AHEAD) {
                piece<W> w[AHEAD];
#pragma unroll
                for (int i = 0; i < AHEAD; i++)
                    w[i].template load<ALIGNED, true>(t.w, w_row + start + 32 * PIECE * i, w_row + t.inputs);
#pragma unroll
                for (int i = 0; i < AHEAD; i++) {
                    const int64_t k = start + 32 * PIECE * i;
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        if (first + r < t.rows) {
                            const int64_t x_row = (first + r) * t.x_stride;
                            piece<X> x;
                            x.template load<ALIGNED, false>(t.x, x_row + k, x_row + t.inputs);
#pragma unroll
                            for (int j = 0; j < PIECE; j++)
                                if (ALIGNED || k + j < t.inputs) /* 0 times what is not finite would be NaN */
                                    sums[r] += w[i].at(j) * x.at(j);
                        }
                }
            }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (first + r < t.rows) {
                const float sum = warp_reduce(sums[r], Sum());
                if (LANE == 0 && output < t.outputs)
                    put<X>(t, first + r, output, sum);
            }
    }
}

/* The sum of TERMS bfloat16 that eight elements are. */
template <int TYPE, int TERMS> struct terms {
    uint32_t pairs[TERMS][PIECE / 2];

    DEVICE_MEMBER terms(const piece<TYPE> &of)
    {
        if (TERMS == 1) { /* themselves, of 16 bits */
#pragma unroll
            for (int i = 0; i < PIECE / 2; i++)
                pairs[0][i] = of.words[i];
            return;
        }
#pragma unroll
        for (int i = 0; i < PIECE / 2; i++) {
            float low = of.at(2 * i), high = of.at(2 * i + 1);
#pragma unroll
            for (int term = 0; term < TERMS; term++) {
                pairs[term][i] = pair_of<TYPE_bfloat16>(low, high);
                low -= half_of<TYPE_bfloat16>(pairs[term][i], 0), high -= half_of<TYPE_bfloat16>(pairs[term][i], 1);
            }
        }
    }
};

/* One sum by plain arithmetic: an infinite number has terms whose sum is NaN. */
template <int X, int W> DEVICE float plain_sum(const linear_task &t, int64_t row, int64_t output)
{
    float sum = 0;
    for (int64_t k = 0; k < t.inputs; k++)
        sum += load_float(t.w, output * t.inputs + k, W) * load_float(t.x, row * t.x_stride + k, X);
    return sum;
}

/* Up to 8 * EIGHTS rows by tensor cores; W has 16 bits. A warp has TILES times 16 outputs, and of their columns COLUMNS at a
 * time, which are copied ahead to shared memory; the warps of a block share the columns. Of 32 columns, lane 4 g + t reads the
 * piece from column 8 t on of outputs g and g + 8 and of row g of x: other columns than the fragments name, but the same for
 * both. */
template <int X, int W, int TILES, int EIGHTS> DEVICE void fragment_rows(const linear_task &t, uint8_t *shared)
{
    constexpr int ALL = TILES * EIGHTS * 128, COLUMNS = 64, PITCH = 2 * COLUMNS + 64; /* no bank twice */
    constexpr int STAGE = 16 * TILES * PITCH,
                  STAGES = (EIGHTS == 1 ? 73728 : 98304) / FEW_WARPS / STAGE; /* of FEW_SHARED */
    constexpr int TYPE = X == W ? W : TYPE_bfloat16;
    constexpr int X_TERMS = X == W ? 1 : EIGHTS == 1 ? 3 : 2, W_TERMS = W == TYPE ? 1 : 2;
    const int g = LANE / 4, place = LANE % 4 * PIECE;
    const int64_t chunks = PARTS(t.inputs, COLUMNS);
    uint8_t *const stages = shared + WARP * STAGES * STAGE;
    float *const gathered = (float *)shared; /* after the stages */
    FOR_EACH_BLOCK(unit, PARTS(t.outputs, 16 * TILES))
    {
        float sums[TILES][EIGHTS][4] = {{{0}}};
        const auto fetch = [&](int stage, int64_t chunk) {
            if (chunk < chunks)
#pragma unroll
                for (int i = LANE; i < 16 * TILES * COLUMNS / PIECE; i += 32) {
                    const int row = i / (COLUMNS / PIECE), piece = i % (COLUMNS / PIECE);
                    const int64_t output = MIN(unit * 16 * TILES + row, t.outputs - 1),
                                  k = chunk * COLUMNS + piece * PIECE;
                    start_copy(stages + stage * STAGE + row * PITCH + piece * 16,
                               (const uint16_t *)t.w + output * t.inputs + MIN(k, t.inputs - PIECE), k < t.inputs);
                }
            end_copies();
        };
        for (int stage = 0; stage < STAGES - 1; stage++)
            fetch(stage, WARP + stage * FEW_WARPS);
        int stage = 0;
        for (int64_t chunk = WARP; chunk < chunks; chunk += FEW_WARPS) {
            wait_for_copies<STAGES - 2>();
            __syncwarp();
            fetch(stage == 0 ? STAGES - 1 : stage - 1, chunk + (STAGES - 1) * FEW_WARPS); /* where the lanes are done */
            const uint8_t *const at = stages + stage * STAGE + g * PITCH + 2 * place;
            stage = stage == STAGES - 1 ? 0 : stage + 1;
#pragma unroll
            for (int c = 0; c < COLUMNS; c += 32) {
                piece<X> own[EIGHTS];
#pragma unroll
                for (int n = 0; n < EIGHTS; n++) {
                    const int64_t x_row = (8 * n + g) * t.x_stride;
                    own[n].template load<true, false>(t.x, x_row + chunk * COLUMNS + c + place,
                                                      8 * n + g < t.rows ? x_row + t.inputs : 0);
                }
#pragma unroll
                for (int m = 0; m < TILES; m++) {
                    const terms<W, W_TERMS> low(piece<W>(at + 16 * m * PITCH + 2 * c)),
                        high(piece<W>(at + (16 * m + 8) * PITCH + 2 * c));
#pragma unroll
                    for (int n = 0; n < EIGHTS; n++) {
                        const terms<X, X_TERMS> x(own[n]);
#pragma unroll
                        for (int i = X_TERMS - 1; i >= 0; i--)
#pragma unroll
                            for (int j = W_TERMS - 1; j >= 0; j--)
                                if (i + j < MAX(X_TERMS, W_TERMS))
#pragma unroll
                                    for (int h = 0; h < 4; h += 2) {
                                        const uint32_t a[4] = {low.pairs[j][h], high.pairs[j][h], low.pairs[j][h + 1],
                                                               high.pairs[j][h + 1]};
                                        multiply_fragments<TYPE>(sums[m][n], a, x.pairs[i] + h);
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
                    gathered[WARP * ALL + (8 * n + LANE % 4 * 2 + e % 2) * 16 * TILES + 16 * m + g + e / 2 * 8] =
                        sums[m][n][e];
        __syncthreads();
        FOR_THREADS(i, ALL)
        {
            const int64_t row = i / (16 * TILES), output = unit * 16 * TILES + i % (16 * TILES);
            if (row < t.rows && output < t.outputs) {
                float sum = 0;
                for (int warp = 0; warp < FEW_WARPS; warp++)
                    sum += gathered[warp * ALL + i];
                put<X>(t, row, output, X != W && sum != sum ? plain_sum<X, W>(t, row, output) : sum);
            }
        }
        __syncthreads();
    }
}

template <int X, int W, int ROWS, int AHEAD = PLAIN_AHEAD> DEVICE void plain_groups(const linear_task &t)
{
    const bool aligned = has_aligned_pieces(t);
    for (int64_t first = 0; first < t.rows; first += ROWS)
        if (aligned)
            plain_rows<X, W, ROWS, true, AHEAD>(t, first);
        else
            plain_rows<X, W, ROWS, false, PLAIN_AHEAD>(t, first);
}

/* Up to FEW_ROWS rows. Variants by FEW_KIND have no more registers than they need. */
template <int X, int W> DEVICE void few_rows(const linear_task &t, uint8_t *shared)
{
    const int64_t rows = t.rows, outputs = t.outputs;
    const int kind = W == TYPE_float32 ? FEW_FLOAT_KIND : FEW_KIND;
    if (COMPILED(VARIED == 1) && kind == 1)
        plain_groups<X, W, 1>(t);
    else if (W != TYPE_float32 && COMPILED(VARIED == SHORT_KIND) && kind == SHORT_KIND)
        plain_groups<X, W, 1, SHORT_AHEAD>(t);
    else if (COMPILED(VARIED > 1 && VARIED < SHORT_KIND) &&
             (W == TYPE_float32 || !HAS_TENSOR_CORES || !has_aligned_pieces(t)))
        plain_groups<X, W, W == TYPE_float32 ? FEW_FLOAT_ROWS : 4>(t);
    else if (W != TYPE_float32 && COMPILED(VARIED == 2) && kind == 2)
        fragment_rows<X, W, 1, 1>(t, shared);
    else if (W != TYPE_float32 && COMPILED(VARIED == 3) && kind == 3)
        fragment_rows<X, W, 2, 2>(t, shared);
    else if (W != TYPE_float32 && COMPILED(VARIED == 4) && kind == 4)
        fragment_rows<X, W, 2, 4>(t, shared);
}

template <int X, int W> DEVICE void linear(const launch &record, tile *left, tile *right)
{
    const linear_task t = task_of(record);
    const int64_t across = PARTS(t.outputs, TILE);
    FOR_EACH_BLOCK(unit, PARTS(t.rows, TILE) * across)
    {
        const int64_t m = unit / across * TILE, n = unit % across * TILE;
        float sums[4][4];
        tile_product<X, W>(sums, left, right, matrix{t.x, t.x_stride, 1}, m, t.rows, matrix{t.w, t.inputs, 1}, n,
                           t.outputs, t.inputs);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                const int64_t row = m + row_in_tile<X, W>(i, j), column = n + column_in_tile<X, W>(i, j);
                if (row < t.rows && column < t.outputs)
                    put<X>(t, row, column, sums[i][j]);
            }
    }
}

enum { MIXED_ROWS = 128, MIXED_OUTPUTS = 64, MIXED_PIECE = 8 };

struct alignas(16) mixed_tile {
    int odd; /* whether something was not finite: it counts in products of first terms alone */
    alignas(16) uint16_t x[2][MIXED_ROWS][HALF_ROW],
        w[2][MIXED_OUTPUTS][HALF_ROW]; /* [0]: the first terms, [1]: the second */
};

DEVICE void put_terms(uint16_t *first, uint16_t *second, float x, int *odd)
{
    const uint16_t half = float_to_bf16(x);
    *first = half;
    *second = x - x == 0 ? float_to_bf16(x - bf16_to_float(half)) : (uint16_t)0;
    if (x - x != 0)
        *odd = 1;
}

DEVICE void leave_finite(uint32_t *pairs)
{
    for (int i = 0; i < 4; i++)
        pairs[i] &= ~not_finite<TYPE_bfloat16>(pairs[i]);
}

/* For many rows. W: the type of the weights. */
template <int W> DEVICE void mixed_product(const launch &record, mixed_tile *tile)
{
    const linear_task t = task_of(record);
    const bool aligned_x = is_aligned(t.x, t.x_stride, 4), aligned_w = is_aligned(t.w, t.inputs, 2);
    const int64_t down = PARTS(t.rows, MIXED_ROWS), across = PARTS(t.outputs, MIXED_OUTPUTS);
    const int row0 = WARP / 2 * 32, output0 = WARP % 2 * 32, g = LANE / 4, l = LANE % 4;
    FOR_EACH_BLOCK(unit, down * across)
    {
        const int64_t m = unit % down * MIXED_ROWS, n = unit / down * MIXED_OUTPUTS;
        float sums[2][4][4] = {{{0}}}, x[4][4], w[2][4];
        /* Four columns of four rows of x and two of w, for the next step. */
        const auto load = [&](int64_t start) {
            const int64_t k = start + threadIdx.x % MIXED_PIECE * 4;
            for (int i = 0; i < 4; i++) {
                const int64_t row = m + threadIdx.x / MIXED_PIECE + 32 * i;
                if (row < t.rows && k + 4 <= t.inputs)
                    load_four<TYPE_float32>(x[i], t.x, row * t.x_stride + k, aligned_x);
                else
                    for (int j = 0; j < 4; j++)
                        x[i][j] = row < t.rows && k + j < t.inputs ? ((const float *)t.x)[row * t.x_stride + k + j] : 0;
            }
            for (int i = 0; i < 2; i++) {
                const int64_t output = n + threadIdx.x / MIXED_PIECE + 32 * i;
                if (output < t.outputs && k + 4 <= t.inputs)
                    load_four<W>(w[i], t.w, output * t.inputs + k, aligned_w);
                else
                    for (int j = 0; j < 4; j++)
                        w[i][j] = output < t.outputs && k + j < t.inputs ? load_float(t.w, output * t.inputs + k + j, W)
                                                                         : 0.0f;
            }
        };
        if (threadIdx.x == 0)
            tile->odd = 0;
        __syncthreads();
        load(0);
        for (int64_t start = 0; start < t.inputs; start += HALF_DEPTH) {
            const int r = (int)threadIdx.x / MIXED_PIECE, c = (int)threadIdx.x % MIXED_PIECE * 4;
            for (int j = 0; j < 4; j++) {
                for (int i = 0; i < 4; i++)
                    put_terms(&tile->x[0][r + 32 * i][c + j], &tile->x[1][r + 32 * i][c + j], x[i][j], &tile->odd);
                for (int i = 0; i < 2; i++)
                    put_terms(&tile->w[0][r + 32 * i][c + j], &tile->w[1][r + 32 * i][c + j], w[i][j], &tile->odd);
            }
            __syncthreads();
            const bool odd = tile->odd != 0;
            if (start + HALF_DEPTH < t.inputs)
                load(start + HALF_DEPTH);
#pragma unroll
            for (int k = 0; k < HALF_DEPTH; k += 16) {
                uint32_t b[3][2][4]; /* first terms, second, finite first; pair of eights of outputs */
                for (int j = 0; j < 2; j++) {
                    const int output = output0 + 16 * j + LANE / 16 * 8 + LANE % 8, column = k + LANE / 8 % 2 * 8;
                    load_matrices<false>(b[0][j], &tile->w[0][output][column]);
                    if (W == TYPE_float16)
                        load_matrices<false>(b[1][j], &tile->w[1][output][column]);
                    for (int e = 0; e < 4; e++)
                        b[2][j][e] = b[0][j][e];
                    if (odd)
                        leave_finite(b[2][j]);
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    uint32_t first[4], second[4], finite[4];
                    const int row = row0 + 16 * i + LANE % 16, column = k + LANE / 16 * 8;
                    load_matrices<false>(first, &tile->x[0][row][column]);
                    load_matrices<false>(second, &tile->x[1][row][column]);
                    for (int e = 0; e < 4; e++)
                        finite[e] = first[e];
                    if (odd)
                        leave_finite(finite);
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        multiply_fragments<TYPE_bfloat16>(sums[i][j], second, b[2][j / 2] + j % 2 * 2);
                        if (W == TYPE_float16)
                            multiply_fragments<TYPE_bfloat16>(sums[i][j], finite, b[1][j / 2] + j % 2 * 2);
                        multiply_fragments<TYPE_bfloat16>(sums[i][j], first, b[0][j / 2] + j % 2 * 2);
                    }
                }
            }
            __syncthreads();
        }
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 4; j++)
                for (int e = 0; e < 4; e++) {
                    const int64_t row = m + row0 + 16 * i + g + e / 2 * 8;
                    const int64_t output = n + output0 + 8 * j + 2 * l + e % 2;
                    if (row < t.rows && output < t.outputs)
                        put<TYPE_float32>(t, row, output, sums[i][j][e]);
                }
    }
}

#define MIXED(type)                                                                                                    \
    {                                                                                                                  \
        if (!COMPILED(VARIED == 0))                                                                                    \
            return;                                                                                                    \
        if (HAS_TENSOR_CORES) {                                                                                        \
            __shared__ mixed_tile mixed;                                                                               \
            mixed_product<TYPE_##type>(record, &mixed);                                                                \
        } else {                                                                                                       \
            __shared__ tile left, right;                                                                               \
            linear<TYPE_float32, TYPE_##type>(record, &left, &right);                                                  \
        }                                                                                                              \
    }

VARIANT(linear_f32, FEW_FLOAT_KIND)
VARIANT(linear_f16, FEW_KIND)
VARIANT(linear_bf16, FEW_KIND)
VARIANT(linear_f16_f16, FEW_KIND)
VARIANT(linear_bf16_bf16, FEW_KIND)

#define TILED(limit) CHOOSE(rows <= limit, 0, PARTS(rows, 64) * PARTS(outputs, 64))
#define MIXED_TILED CHOOSE(rows <= FEW_ROWS, 0, PARTS(rows, 128) * PARTS(outputs, 64))

STEP(linear_f16, 1, MIXED_TILED, 256, 0) { MIXED(float16); }

STEP(linear_bf16, 1, MIXED_TILED, 256, 0) { MIXED(bfloat16); }

#define LINEAR(x, w)                                                                                                   \
    {                                                                                                                  \
        __shared__ tile left, right;                                                                                   \
        if (COMPILED(VARIED == 0))                                                                                     \
            linear<TYPE_##x, TYPE_##w>(record, &left, &right);                                                         \
    }

STEP(linear_f32, 1, TILED(FEW_FLOAT_ROWS), 256, 0) { LINEAR(float32, float32); }

STEP(linear_f16_f16, 1, TILED(FEW_ROWS), 256, 0) { LINEAR(float16, float16); }

STEP(linear_bf16_bf16, 1, TILED(FEW_ROWS), 256, 0) { LINEAR(bfloat16, bfloat16); }

/* The weights that a block of few_rows begins with, of so many bytes. */
DEVICE void fetch_weights_ahead(const launch &record, int bytes)
{
    const linear_task t = task_of(record);
    const int each = t.rows <= (bytes == 4 ? FEW_FLOAT_ROWS : 1) ? FEW_WARPS : t.rows <= 8 ? 16 : 32;
    fetch_rows_ahead(t.w, t.inputs * bytes, (int64_t)blockIdx.x * each, each, t.outputs);
}

AHEAD(linear_f32) { fetch_weights_ahead(record, 4); }
KERNEL(linear_f32, CHOOSE(rows <= FEW_FLOAT_ROWS, PLAIN_BLOCKS, 0), 256, 0)
{
    few_rows<TYPE_float32, TYPE_float32>(task_of(record), nullptr);
}

#define FEW(x, w)                                                                                                      \
    {                                                                                                                  \
        DYNAMIC_SHARED(uint8_t, shared);                                                                               \
        few_rows<TYPE_##x, TYPE_##w>(task_of(record), shared);                                                         \
    }

AHEAD(linear_f16) { fetch_weights_ahead(record, 2); }
KERNEL(linear_f16, CHOOSE(rows <= FEW_ROWS, FEW_BLOCKS, 0), 256, FEW_SHARED) { FEW(float32, float16); }

AHEAD(linear_bf16) { fetch_weights_ahead(record, 2); }
KERNEL(linear_bf16, CHOOSE(rows <= FEW_ROWS, FEW_BLOCKS, 0), 256, FEW_SHARED) { FEW(float32, bfloat16); }

AHEAD(linear_f16_f16) { fetch_weights_ahead(record, 2); }
KERNEL(linear_f16_f16, CHOOSE(rows <= FEW_ROWS, FEW_BLOCKS, 0), 256, FEW_SHARED) { FEW(float16, float16); }

AHEAD(linear_bf16_bf16) { fetch_weights_ahead(record, 2); }
KERNEL(linear_bf16_bf16, CHOOSE(rows <= FEW_ROWS, FEW_BLOCKS, 0), 256, FEW_SHARED) { FEW(bfloat16, bfloat16); }

/* ---- A row with the norm before it and the gated activation behind it: rms_norm_linear */

#define TYPES_FUSED (TYPES_HALF | BIT(TYPE_float32))
#define FUSED_UNITS CHOOSE(outputs > 65536, 16, CHOOSE(outputs > 8192, 2, 1)) /* of a block, which norms the row once */
#define FUSED_KIND 8                                                          /* FEW_KIND has less */
#define FUSED_BLOCKS PARTS(CHOOSE(gated > 0, outputs / 2, outputs), 8 * FUSED_UNITS)

/* In shared memory, of a row in pieces of eight: the fours that begin them, then the others, so that lanes side by side read
 * fours side by side. */
DEVICE int64_t place_of_four(int64_t four, int64_t inputs) { return four % 2 * (inputs / 2) + four / 2 * 4; }

/* Writes the row's norm to shared memory; the first block to memory, too. */
DEVICE void norm_to(float *shared, const launch &record)
{
    const int64_t inputs = record.dims[rms_norm_linear_inputs];
    float4 *const normed = (float4 *)record.pointers[rms_norm_linear_normed];
    norm_row((const float4 *)record.pointers[rms_norm_linear_x], record.pointers[rms_norm_linear_weight],
             (int)record.dims[rms_norm_linear_weight_type], inputs, record.floats[rms_norm_linear_epsilon],
             [&](int64_t four, const float y[4]) {
                 if (4 * four >= inputs)
                     return;
                 const float4 all = {y[0], y[1], y[2], y[3]};
                 *(float4 *)(shared + place_of_four(four, inputs)) = all;
                 if (blockIdx.x == 0)
                     normed[four] = all;
             });
    __syncthreads();
}

/* What rms_norm_linear_rotate does with its outputs, which are queries, keys and values. The outputs of a pair that is
 * rotated come from warps side by side: number 2 i + 1 of a head is not its column, but the other one of pair i. */
struct rotation {
    int64_t heads, kv_heads, head_dim, rotated;
    bool interleaved;

    DEVICE_MEMBER explicit rotation(const launch &record)
    {
        const int64_t *d = record.dims;
        heads = d[rms_norm_linear_rotate_heads], kv_heads = d[rms_norm_linear_rotate_kv_heads];
        head_dim = d[rms_norm_linear_rotate_head_dim], rotated = d[rms_norm_linear_rotate_rotated];
        interleaved = d[rms_norm_linear_rotate_interleaved] != 0;
    }
    /* The head of a number, and what it is in that. */
    DEVICE_MEMBER int64_t head_of(int64_t number, int64_t *own) const
    {
        const int64_t head = quotient(number, head_dim);
        *own = number - head * head_dim;
        return head;
    }
    DEVICE_MEMBER bool turns(int64_t head, int64_t own) const { return head < heads + kv_heads && own < rotated; }
    DEVICE_MEMBER int64_t column_of(int64_t head, int64_t own) const
    {
        return interleaved || !turns(head, own) ? own : own / 2 + own % 2 * (rotated / 2);
    }
    DEVICE_MEMBER int64_t output_of(int64_t number) const
    {
        int64_t own;
        const int64_t head = head_of(number, &own);
        return number - own + column_of(head, own);
    }
};

/* The cosine (x) and sine (y) of a number's pair, at a place of the text. */
DEVICE float2 angle_of(const launch &record, const rotation &turned, int64_t number, int64_t place)
{
    int64_t own;
    const float *const table = (const float *)record.pointers[rms_norm_linear_rotate_table];
    const bool turns = turned.turns(turned.head_of(number, &own), own);
    return turns ? *(const float2 *)(table + place * turned.rotated + own / 2 * 2) : float2{0, 0};
}

/* Writes the output `sum` of a number, beside which `other` is that of the number that differs in the last bit: a query
 * rotated, keys and values as they are, and to the cache with the keys rotated. Outside of the cache (place < 0), or after
 * something has failed, the output alone. */
DEVICE void put_rotated(const launch &record, const rotation &turned, int64_t number, float sum, float other,
                        float2 angle, int64_t place)
{
    const int64_t *d = record.dims;
    int64_t own;
    const int64_t head = turned.head_of(number, &own), column = turned.column_of(head, own);
    const bool query = head < turned.heads, value = head >= turned.heads + turned.kv_heads;
    float low = sum, high = sum;
    if (turned.turns(head, own)) { /* as in rotate_and_write, which must give the same bits */
        const float a = own % 2 ? other : sum, b = own % 2 ? sum : other, cosine = angle.x, sine = angle.y;
        low = a * cosine - b * sine, high = a * sine + b * cosine;
    }
    const float made = own % 2 ? high : low;
    ((float *)record.pointers[rms_norm_linear_rotate_y])[number - own + column] = query && place >= 0 ? made : sum;
    if (query || place < 0)
        return;
    char *const keys = (char *)record.pointers[rms_norm_linear_rotate_keys];
    const int64_t row = head - turned.heads - (value ? turned.kv_heads : 0);
    store_float(keys + (value ? d[rms_norm_linear_rotate_values_after] : 0),
                (row * d[rms_norm_linear_rotate_capacity] + place) * turned.head_dim + column,
                (int)d[rms_norm_linear_rotate_cache_type], made);
}

/* A warp has an output, or where GATED its gate and what that multiplies; ROTATED: see put_rotated. The sums are those of
 * plain_rows. */
template <int W, bool GATED, bool ROTATED> DEVICE void fused_row(const launch &record, int32_t *status, float *normed)
{
    constexpr int ROWS = GATED ? 2 : 1;
    __shared__ float beside[FEW_WARPS];
    const int64_t inputs = record.dims[rms_norm_linear_inputs], all = record.dims[rms_norm_linear_outputs];
    const int64_t outputs = all / ROWS;
    const void *const weights = record.pointers[rms_norm_linear_w];
    float *const y = (float *)record.pointers[rms_norm_linear_y];
    const rotation turned(record); /* numbers of another kernel, unless ROTATED */
    const auto row_of = [&](int64_t number) { return ROTATED ? turned.output_of(number) : number; };
    piece<W> w[ROWS][PLAIN_AHEAD];
    const auto load = [&](int64_t output, int64_t start) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int i = 0; i < PLAIN_AHEAD; i++) {
                const int64_t row = (output + r * outputs) * inputs;
                w[r][i].template load<true, true>(weights, row + start + 32 * PIECE * i, row + inputs);
            }
    };
    bool loaded = blockIdx.x * FEW_WARPS + WARP < outputs;
    if (loaded) /* they are on their way while the row is normed */
        load(row_of(blockIdx.x * FEW_WARPS + WARP), PIECE * LANE);
    int64_t place = -1;
    if (ROTATED) {
        const int32_t *const position = (const int32_t *)record.pointers[rms_norm_linear_rotate_position];
        const int64_t capacity = record.dims[rms_norm_linear_rotate_capacity];
        const int64_t positions = record.dims[rms_norm_linear_rotate_positions];
        const bool stop = failed;
        const int64_t limit = record.pointers[rms_norm_linear_rotate_table] ? MIN(capacity, positions) : capacity;
        if (are_inside(record, status, position, 1, 1, limit) && !stop)
            place = *position;
    }
    norm_to(normed, record);
    FOR_EACH_BLOCK(block, PARTS(outputs, FEW_WARPS))
    {
        const int64_t output = block * FEW_WARPS + WARP;
        float sums[ROWS] = {0};
        float2 angle = {0, 0};
        if (ROTATED && output < outputs && place >= 0) /* it comes while weights do */
            angle = angle_of(record, turned, output, place);
        if (output < outputs)
            for (int64_t start = PIECE * LANE; start < inputs; start += 32 * PIECE * PLAIN_AHEAD) {
                if (!loaded)
                    load(row_of(output), start);
                loaded = false;
#pragma unroll
                for (int i = 0; i < PLAIN_AHEAD; i++) {
                    const int64_t k = start + 32 * PIECE * i;
                    if (k < inputs) {
                        float x[PIECE];
                        load_four<TYPE_float32>(x, normed, k / 2, true);
                        load_four<TYPE_float32>(x + 4, normed, inputs / 2 + k / 2, true);
#pragma unroll
                        for (int r = 0; r < ROWS; r++)
#pragma unroll
                            for (int j = 0; j < PIECE; j++)
                                sums[r] += w[r][i].at(j) * x[j];
                    }
                }
            }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            sums[r] = warp_reduce(sums[r], Sum());
        if (ROTATED) {
            if (LANE == 0)
                beside[WARP] = sums[0];
            __syncthreads();
            if (LANE == 0 && output < outputs)
                put_rotated(record, turned, output, sums[0], beside[WARP ^ 1], angle, place);
            __syncthreads(); /* before others' sums come there */
        } else if (LANE == 0 && output < outputs) {
            for (int r = 0; r < ROWS; r++)
                y[output + r * outputs] = sums[r];
            if (GATED)
                ((float *)record.pointers[rms_norm_linear_activated])[output] = silu_mul(sums[0], sums[ROWS - 1]);
        }
    }
}

VARIANT(rms_norm_linear, FUSED_KIND + 2 * type + CHOOSE(gated > 0, 1, 0))

#define FUSED(w)                                                                                                       \
    case TYPE_##w:                                                                                                     \
        if (COMPILED(VARIED == FUSED_KIND + 2 * TYPE_##w) && !gated)                                                   \
            fused_row<TYPE_##w, false, false>(record, status, normed);                                                 \
        if (COMPILED(VARIED == FUSED_KIND + 2 * TYPE_##w + 1) && gated)                                                \
            fused_row<TYPE_##w, true, false>(record, status, normed);                                                  \
        break;

AHEAD(rms_norm_linear)
{
    const int64_t *d = record.dims;
    const int gated = d[rms_norm_linear_gated] != 0, bytes = d[rms_norm_linear_type] == TYPE_float32 ? 4 : 2;
    const int64_t outputs = d[rms_norm_linear_outputs] >> gated, pitch = d[rms_norm_linear_inputs] * bytes;
    const char *const w = (const char *)record.pointers[rms_norm_linear_w];
    for (int part = 0; part <= gated; part++)
        fetch_rows_ahead(w + part * outputs * pitch, pitch, (int64_t)blockIdx.x * FEW_WARPS, FEW_WARPS, outputs);
}
/* Whether sizes, types or places are none that fused_row takes; `pointers`: how many begin where 16 bytes do. */
DEVICE bool is_bad_fused(const launch &record, int pointers)
{
    const int64_t *d = record.dims, inputs = d[rms_norm_linear_inputs];
    uint64_t all = 0;
    for (int i = 0; i < pointers; i++)
        all |= (uint64_t)record.pointers[i];
    return !type_in(d[rms_norm_linear_weight_type], TYPES_FUSED) || !type_in(d[rms_norm_linear_type], TYPES_FUSED) ||
           all % 16 || inputs % PIECE || inputs <= 512 || inputs > MOST_NORMED;
}

KERNEL(rms_norm_linear, FUSED_BLOCKS, 256, 4 * inputs)
{
    DYNAMIC_SHARED(float, normed);
    const int64_t *d = record.dims;
    const bool gated = d[rms_norm_linear_gated] != 0;
    if (is_bad_fused(record, rms_norm_linear_normed + 1)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    switch (d[rms_norm_linear_type]) {
        FUSED(float32)
        FUSED(float16)
        FUSED(bfloat16)
    }
}

/* ---- The same of queries, keys and values, which it rotates and writes to the cache: rms_norm_linear_rotate, whose first
 * slots have the numbers of rms_norm_linear's */
_Static_assert(rms_norm_linear_rotate_normed == rms_norm_linear_normed &&
                   rms_norm_linear_rotate_type == rms_norm_linear_type &&
                   rms_norm_linear_rotate_epsilon == rms_norm_linear_epsilon,
               "fused_row names the slots of rms_norm_linear");

#define ROTATED_KIND 64 /* and more: not those of other kernels */
VARIANT(rms_norm_linear_rotate, ROTATED_KIND + type)

#define ROTATED(w)                                                                                                     \
    case TYPE_##w:                                                                                                     \
        if (COMPILED(VARIED == ROTATED_KIND + TYPE_##w))                                                               \
            fused_row<TYPE_##w, false, true>(record, status, normed);                                                  \
        break;

AHEAD(rms_norm_linear_rotate)
{
    const int64_t *d = record.dims,
                  pitch = d[rms_norm_linear_inputs] * (d[rms_norm_linear_type] == TYPE_float32 ? 4 : 2);
    const int64_t number = (int64_t)blockIdx.x * FEW_WARPS + threadIdx.x;
    const char *const w = (const char *)record.pointers[rms_norm_linear_w];
    if (threadIdx.x < FEW_WARPS && number < d[rms_norm_linear_outputs])
        fetch_ahead(w + rotation(record).output_of(number) * pitch, MIN(pitch, AHEAD_BYTES / FEW_WARPS));
}
KERNEL(rms_norm_linear_rotate, PARTS(outputs, 8 * FUSED_UNITS), 256, 4 * inputs)
{
    DYNAMIC_SHARED(float, normed);
    const int64_t *d = record.dims, head_dim = d[rms_norm_linear_rotate_head_dim];
    const int64_t heads = d[rms_norm_linear_rotate_heads], kv_heads = d[rms_norm_linear_rotate_kv_heads];
    const int64_t rotated = d[rms_norm_linear_rotate_rotated];
    if (is_bad_fused(record, rms_norm_linear_normed + 1) || head_dim <= 0 || head_dim % 2 || heads < 0 ||
        kv_heads < 0 || (heads + 2 * kv_heads) * head_dim != d[rms_norm_linear_outputs] || rotated < 0 || rotated % 2 ||
        rotated > head_dim || (rotated && !record.pointers[rms_norm_linear_rotate_table]) ||
        !type_in(d[rms_norm_linear_rotate_cache_type], TYPES_FUSED)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    switch (d[rms_norm_linear_type]) {
        ROTATED(float32)
        ROTATED(float16)
        ROTATED(bfloat16)
    }
}
