/* Attention by tiles, in the manner of FlashAttention-2 (Dao, 2023): scores are never stored, and an online softmax
 * (Milakov and Gimelshein, 2018) corrects sums when a larger score comes.
 *
 * One loop serves the forward pass and each gradient. A block of threads has 64 rows and up to 128 columns of a result:
 *
 *     result (rows, columns) = sum over others of weight(row, other) * value(other, column)
 *     weight = f(row vector . other vector [, second row vector . second other vector])
 *
 * Forward: rows are queries, others keys, weights a softmax. Gradients: grad_q has rows of queries and others keys; grad_k
 * and grad_v have rows of keys and others queries. Vectors may be of any length: longer ones are taken in pieces.
 *
 * flash_halves computes with tensor cores, flash_floats in float32. Both take a Task:
 *     ONLINE            whether the weights are a softmax over the others, which is then made on the way
 *     SECOND            whether weights need the second product
 *     rows, depth, second_depth, columns     sizes
 *     segments, select(segment)   the others are so many sequences, taken one after the other
 *     range(row, last_row, first, last)      others that any of these rows may see: first .. last - 1
 *     whole(row, last_row, other, last_other)    whether all of these rows see all of these others, unmasked
 *     score(row, other, product, whole)      -INFINITE where the row does not see the other
 *     weight(row, other, score, second)      not ONLINE
 *     result(row, column, value)
 *     state(row, largest, total)             ONLINE, once for each row
 * flash_halves also TYPE, TERMS and matrices (rows_first, others_first, rows_second, others_second, values);
 * flash_floats row_at<second>(row, column), other_at<second>(other, column), value_at(other, column). */
#ifndef PYAPP_FLASH_H
#define PYAPP_FLASH_H
#include "tensor_cores.h"

enum { FLASH_ROWS = 64, FLASH_COLUMNS = 128, FLASH_THREADS = 128 };
enum { HALVES_OTHERS = 64, HALVES_DEPTH = 128 };
enum { FLOATS_OTHERS = 32, FLOATS_DEPTH = 64, FLOATS_ROW = FLOATS_DEPTH + 4, WEIGHTS_ROW = FLOATS_OTHERS + 4 };
enum { VALUES_ROW = FLASH_COLUMNS + 4 };

/* What a score of -inf of an other that the row sees becomes. A row that sees only such others gives NaN. */
#define LOWEST __int_as_float((int)0xff7ffffeu) /* no mask has it: the lowest number ends in ff */
DEVICE float seen(float score) { return score == -INFINITE ? LOWEST : score; }
#define LOG2_E 1.44269504f
DEVICE float exponential(float x) { return exp2f(x * LOG2_E); }

/* Of a row: the largest score, and the sum of exp(score - largest). */
struct softmax_state {
    float largest, total;

    /* Takes a larger score; returns the factor for what was summed before. */
    DEVICE_MEMBER float raise(float score)
    {
        const float next = Larger()(largest, score);
        const float factor = largest == -INFINITE ? 0.0f : exponential(largest - next);
        largest = next;
        total *= factor;
        return factor;
    }
    DEVICE_MEMBER float weight(float score) const { return score == -INFINITE ? 0.0f : exponential(score - largest); }
    /* What a sum of weighted values is multiplied by in the end. */
    DEVICE_MEMBER float inverse() const
    {
        return largest == LOWEST ? NOT_A_NUMBER : total != 0 ? 1.0f / total : 0.0f; /* NaN stays */
    }
};

/* Between `width` neighbouring lanes. */
template <int WIDTH, class F> DEVICE float among(float value, F combine)
{
    for (int apart = WIDTH / 2; apart; apart >>= 1)
        value = combine(value, __shfl_xor_sync(EVERY_LANE, value, apart));
    return value;
}

DEVICE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- Tensor cores. Warps have 16 rows each; lane 4 g + t has rows g and g + 8. */

#define HALVES_ROW(columns) (MIN(128, PARTS(columns, 16) * 16) + 8) /* so that reads meet no bank twice */

/* Rows of 16-bit numbers that lie `stride` apart. */
struct halves_matrix {
    const uint16_t *p;
    int64_t stride;
    DEVICE_MEMBER bool aligned(int columns) const
    {
        return (uint64_t)p % 16 == 0 && stride % 8 == 0 && columns % 8 == 0;
    }
};

/* 64 rows from `first` on of `rows`, columns start .. of `columns`, padded with zeros to `padded` columns. */
DEVICE void load_tile(uint16_t *to, int width, halves_matrix of, int64_t first, int64_t rows, int64_t start,
                      int64_t columns, int padded)
{
    const uint16_t *from = of.p + first * of.stride + start;
    const int there = (int)smaller(rows - first, FLASH_ROWS), inside = (int)smaller(columns - start, padded);
    if ((uint64_t)from % 16 == 0 && of.stride % 8 == 0 && inside % 8 == 0) {
        const int pieces = padded / 8;
        for (int i = (int)threadIdx.x; i < FLASH_ROWS * pieces; i += FLASH_THREADS) {
            const int r = i / pieces, c = i % pieces * 8;
            const bool is_there = r < there && c < inside;
            start_copy(to + r * width + c, is_there ? from + r * of.stride + c : of.p, is_there);
        }
        return;
    }
    for (int i = (int)threadIdx.x; i < FLASH_ROWS * padded; i += FLASH_THREADS) {
        const int r = i / padded, c = i % padded;
        to[r * width + c] = r < there && c < inside ? from[r * of.stride + c] : (uint16_t)0;
    }
}

/* sums (16, 64) += a (16, depth) times the transposed b (64, depth). */
template <int TYPE>
DEVICE void multiply_tiles(float sums[8][4], const uint16_t *a, const uint16_t *b, int depth, int width)
{
    const uint16_t *row = a + LANE % 16 * width + LANE / 16 * 8;
    const uint16_t *other = b + (LANE / 16 * 8 + LANE % 8) * width + LANE / 8 % 2 * 8;
    for (int k = 0; k < depth; k += 16) {
        uint32_t x[4], y[4];
        load_matrices<false>(x, row + k);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            load_matrices<false>(y, other + 16 * n * width + k);
            multiply_fragments<TYPE>(sums[2 * n], x, y);
            multiply_fragments<TYPE>(sums[2 * n + 1], x, y + 2);
        }
    }
}

template <int TYPE> DEVICE uint32_t ones_where(uint32_t low, uint32_t high)
{
    const uint32_t one = TYPE == TYPE_float16 ? 0x3c00u : 0x3f80u;
    return (low ? one : 0) | (high ? one << 16 : 0);
}

/* out (16, columns) += weights (16, 64) times v (64, columns). CAREFUL: what is not finite in v counts for rows whose
 * weight is not 0 alone, and makes them NaN. */
template <int TYPE, int TERMS, bool CAREFUL>
DEVICE void add_weighted(float out[16][4], const float weights[8][4], const uint16_t *v, int columns, int width)
{
    const uint16_t *row = v + LANE % 16 * width + LANE / 16 * 8;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t p[TERMS][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *w = weights[2 * k + i / 2] + i % 2 * 2;
            p[0][i] = pair_of<TYPE>(w[0], w[1]);
            if (TERMS == 2)
                p[TERMS - 1][i] = pair_of<TYPE>(w[0] - half_of<TYPE>(p[0][i], 0), w[1] - half_of<TYPE>(p[0][i], 1));
        }
#pragma unroll
        for (int n = 0; n < 8; n++) {
            if (16 * n >= columns)
                continue; /* of all lanes */
            uint32_t y[4];
            load_matrices<true>(y, row + 16 * k * width + 16 * n);
            if (CAREFUL) {
                uint32_t odd[4], any = 0;
                for (int i = 0; i < 4; i++)
                    any |= odd[i] = not_finite<TYPE>(y[i]);
                if (__any_sync(EVERY_LANE, any != 0)) {
                    uint32_t sees[4];
                    float hits[2][4] = {{0}};
                    for (int i = 0; i < 4; i++) {
                        y[i] &= ~odd[i];
                        odd[i] = ones_where<TYPE>(odd[i] & 0xffffu, odd[i] >> 16);
                        sees[i] = ones_where<TYPE>(p[0][i] & 0x7fffu, p[0][i] >> 16 & 0x7fffu);
                    }
                    multiply_fragments<TYPE>(hits[0], sees, odd);
                    multiply_fragments<TYPE>(hits[1], sees, odd + 2);
                    for (int i = 0; i < 8; i++)
                        if (hits[i / 4][i % 4] > 0)
                            out[2 * n + i / 4][i % 4] = NOT_A_NUMBER;
                }
            }
#pragma unroll
            for (int term = 0; term < TERMS; term++) {
                multiply_fragments<TYPE>(out[2 * n], p[term], y);
                multiply_fragments<TYPE>(out[2 * n + 1], p[term], y + 2);
            }
        }
    }
}

/* Float32 rows as two terms of 16 bits: row = scale * (high + low), with a power of two for each row. */
template <class Task>
DEVICE void load_two_terms(const Task &task, uint16_t *high, uint16_t *low, float *scales, int width, int64_t row0,
                           int64_t start, int padded)
{
    for (int r = WARP * 16; r < WARP * 16 + 16; r++) {
        const bool there = row0 + r < task.rows;
        float most = 0;
        for (int64_t c = LANE; c < task.depth && there; c += 32)
            most = fmaxf(most, fabsf(task.template row_at<false>(row0 + r, c)));
        most = among<32>(most, Larger());
        const int exponent = most > 0 && most < INFINITE ? (__float_as_int(most) >> 23) - 127 : 0;
        const float scale = __int_as_float((exponent < -100 ? 27 : exponent > 100 ? 227 : exponent + 127) << 23);
        if (LANE == 0)
            scales[r] = scale;
        for (int c = LANE; c < padded; c += 32) {
            const float x =
                there && start + c < task.depth ? task.template row_at<false>(row0 + r, start + c) / scale : 0.0f;
            const uint16_t half = float_to_f16(x);
            high[r * width + c] = half;
            low[r * width + c] = x - x == 0 ? float_to_f16(x - f16_to_float(half)) : (uint16_t)0;
        }
    }
}

template <class Task> struct row_loader {
    static constexpr int TERMS = Task::TERMS;
    DEVICE_MEMBER static void load(const Task &task, uint16_t *to, float *scales, int width, int64_t row0,
                                   int64_t start, int padded)
    {
        if constexpr (TERMS == 2)
            load_two_terms(task, to, to + FLASH_ROWS * width, scales, width, row0, start, padded);
        else
            load_tile(to, width, task.rows_first, row0, task.rows, start, task.depth, padded);
    }
};

DEVICE int padded_depth(int64_t depth, int64_t start)
{
    return (int)PARTS(smaller(depth - start, HALVES_DEPTH), 16) * 16;
}

/* The tile from row `row0` and column `column0` on. shared: 64 rows of HALVES_ROW for each of the rows' terms, the others
 * and the values, and with SECOND for the second rows and others too; the values then need none where they are the others
 * themselves, `values_are_others`. */
template <class Task> DEVICE void flash_halves(Task &task, int64_t row0, int64_t column0, uint16_t *shared)
{
    __shared__ float scales[FLASH_ROWS];
    const int64_t last_row = smaller(row0 + FLASH_ROWS, task.rows) - 1;
    const bool one_piece = task.depth <= HALVES_DEPTH;
    const bool shares = Task::SECOND && one_piece; /* values are the others */
    const int width = (int)HALVES_ROW(task.depth), second_width = (int)HALVES_ROW(task.second_depth);
    const int own_width = (int)HALVES_ROW(task.columns), columns = padded_depth(task.columns, column0);
    uint16_t *const rows = shared, *const others = rows + Task::TERMS * FLASH_ROWS * width;
    uint16_t *const second_rows = others + HALVES_OTHERS * width, *const second_others =
                                                                      second_rows +
                                                                      (Task::SECOND ? FLASH_ROWS * second_width : 0);
    uint16_t *const values = second_others + (Task::SECOND ? HALVES_OTHERS * second_width : 0);
    const bool idle = row0 + WARP * 16 >= task.rows;
    float out[16][4] = {{0}};
    softmax_state states[2] = {{-INFINITE, 0}, {-INFINITE, 0}};
    bool loaded = false;
    for (int64_t segment = 0; segment < task.segments; segment++) {
        int64_t first, last;
        task.select(segment);
        task.range(row0, last_row, &first, &last);
        if (first >= last)
            continue;
        const int deep = padded_depth(task.depth, 0);
        if (!loaded || !one_piece)
            row_loader<Task>::load(task, rows, scales, width, row0, 0, deep);
        loaded = true;
        load_tile(others, width, task.others_first, first, last, 0, task.depth, deep);
        end_copies();
        for (int64_t start = first; start < last; start += HALVES_OTHERS) {
            const int64_t last_other = smaller(start + HALVES_OTHERS, last) - 1;
            const bool whole = task.whole(row0, last_row, start, last_other);
            float scores[8][4] = {{0}}, second[8][4] = {{0}};
            if (!shares)
                load_tile(values, own_width, task.values, start, last, column0, task.columns, columns);
            end_copies();
            wait_for_copies<1>();
            __syncthreads();
            for (int64_t at = 0;;) {
                const int depth = padded_depth(task.depth, at);
                for (int term = 0; term < Task::TERMS && !idle; term++)
                    multiply_tiles<Task::TYPE>(scores, rows + (term * FLASH_ROWS + WARP * 16) * width, others, depth,
                                               width);
                at += HALVES_DEPTH;
                if (at >= task.depth)
                    break;
                __syncthreads();
                row_loader<Task>::load(task, rows, scales, width, row0, at, padded_depth(task.depth, at));
                load_tile(others, width, task.others_first, start, last, at, task.depth, padded_depth(task.depth, at));
                end_copies();
                wait_for_copies<0>();
                __syncthreads();
            }
            if constexpr (Task::SECOND) {
                for (int64_t at = 0; at < task.second_depth; at += HALVES_DEPTH) {
                    const int depth = padded_depth(task.second_depth, at);
                    if (at)
                        __syncthreads();
                    load_tile(second_rows, second_width, task.rows_second, row0, task.rows, at, task.second_depth,
                              depth);
                    load_tile(second_others, second_width, task.others_second, start, last, at, task.second_depth,
                              depth);
                    end_copies();
                    wait_for_copies<0>();
                    __syncthreads();
                    if (!idle)
                        multiply_tiles<Task::TYPE>(second, second_rows + WARP * 16 * second_width, second_others, depth,
                                                   second_width);
                }
            }
            __syncthreads(); /* others are read */
            const auto load_next = [&] {
                if (start + HALVES_OTHERS < last) {
                    if (!one_piece)
                        row_loader<Task>::load(task, rows, scales, width, row0, 0, deep);
                    load_tile(others, width, task.others_first, start + HALVES_OTHERS, last, 0, task.depth, deep);
                }
                end_copies();
            };
            if (!shares)
                load_next();
            if (!idle) {
#pragma unroll
                for (int i = 0; i < 32; i++) {
                    const int64_t row = row0 + WARP * 16 + LANE / 4 + i % 4 / 2 * 8;
                    const int64_t other = start + i / 4 * 8 + LANE % 4 * 2 + i % 2;
                    float &score = scores[i / 4][i % 4];
                    if (Task::TERMS == 2)
                        score *= scales[WARP * 16 + LANE / 4 + i % 4 / 2 * 8];
                    const float product = score;
                    score = row < task.rows && other < last ? task.score(row, other, product, whole) : -INFINITE;
                    if constexpr (!Task::ONLINE) {
                        score =
                            score == -INFINITE ? 0.0f : task.weight(row, other, score, product, second[i / 4][i % 4]);
                    }
                }
                if constexpr (Task::ONLINE) {
                    for (int h = 0; h < 2; h++) {
                        float most = -INFINITE;
                        for (int i = 0; i < 16; i++)
                            most = Larger()(most, scores[i / 2][2 * h + i % 2]);
                        const float factor = states[h].raise(among<4>(most, Larger()));
                        for (int i = 0; i < 16; i++) {
                            float &score = scores[i / 2][2 * h + i % 2];
                            score = states[h].weight(score);
                            states[h].total += score;
                        }
                        for (int n = 0; n < 16; n++)
                            out[n][2 * h] *= factor, out[n][2 * h + 1] *= factor;
                    }
                }
            }
            if (!shares) {
                wait_for_copies<1>();
                __syncthreads();
            }
            const uint16_t *const from = shares ? others + column0 : values;
            if (!idle && whole)
                add_weighted<Task::TYPE, Task::TERMS, false>(out, scores, from, columns, shares ? width : own_width);
            else if (!idle)
                add_weighted<Task::TYPE, Task::TERMS, true>(out, scores, from, columns, shares ? width : own_width);
            __syncthreads();
            if (shares)
                load_next();
        }
        wait_for_copies<0>();
        __syncthreads();
    }
    if (idle)
        return;
    float factors[2] = {1, 1};
    if constexpr (Task::ONLINE) {
        for (int h = 0; h < 2; h++) {
            const int64_t row = row0 + WARP * 16 + LANE / 4 + 8 * h;
            states[h].total = among<4>(states[h].total, Sum());
            factors[h] = states[h].inverse();
            if (LANE % 4 == 0 && row < task.rows && column0 == 0)
                task.state(row, states[h]);
        }
    }
#pragma unroll
    for (int i = 0; i < 64; i++) {
        const int64_t row = row0 + WARP * 16 + LANE / 4 + i % 4 / 2 * 8;
        const int64_t column = column0 + i / 4 * 8 + LANE % 4 * 2 + i % 2;
        if (row < task.rows && column < task.columns)
            task.result(row, column, out[i / 4][i % 4] * factors[i % 4 / 2]);
    }
}

/* ---- Float32. Thread (y, x) of (16, 8) has rows 4 y .. 4 y + 3, others x + 8 j, columns 4 x + 32 j .. */

struct four_floats {
    float x[4];
    DEVICE_MEMBER explicit four_floats(const float *from)
    {
        const float4 four = *(const float4 *)from;
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    }
};

/* sums (4, 4) += the product of the task's rows and others, in pieces of FLOATS_DEPTH columns. */
template <bool SECOND, class Task>
DEVICE void multiply_floats(const Task &task, float sums[4][4], float *a, float *b, int64_t row0, int64_t start,
                            int64_t last, int64_t depth)
{
    const int y = (int)threadIdx.x / 8, x = (int)threadIdx.x % 8;
    for (int64_t at = 0; at < depth; at += FLOATS_DEPTH) {
        const int there = (int)smaller(depth - at, FLOATS_DEPTH), padded = (int)PARTS(there, 4) * 4;
        for (int i = (int)threadIdx.x; i < FLASH_ROWS * padded; i += FLASH_THREADS) {
            const int r = i / padded, c = i % padded;
            a[r * FLOATS_ROW + c] =
                row0 + r < task.rows && c < there ? task.template row_at<SECOND>(row0 + r, at + c) : 0.0f;
        }
        for (int i = (int)threadIdx.x; i < FLOATS_OTHERS * padded; i += FLASH_THREADS) {
            const int r = i / padded, c = i % padded;
            b[r * FLOATS_ROW + c] =
                start + r < last && c < there ? task.template other_at<SECOND>(start + r, at + c) : 0.0f;
        }
        __syncthreads();
        if (row0 + WARP * 16 < task.rows)
            for (int k = 0; k < padded; k += 4)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const four_floats other(b + (x + 8 * j) * FLOATS_ROW + k);
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const four_floats row(a + (4 * y + i) * FLOATS_ROW + k);
#pragma unroll
                        for (int e = 0; e < 4; e++)
                            sums[i][j] += row.x[e] * other.x[e];
                    }
                }
        __syncthreads();
    }
}

/* shared: FLOATS_SHARED bytes. */
#define FLOATS_SHARED 52224
template <class Task> DEVICE void flash_floats(Task &task, int64_t row0, int64_t column0, float *shared)
{
    float *const a = shared, *const b = a + FLASH_ROWS * FLOATS_ROW, *const values = b + FLOATS_OTHERS * FLOATS_ROW;
    float *const weights = values + FLOATS_OTHERS * VALUES_ROW;
    static_assert(4 * (FLASH_ROWS * (FLOATS_ROW + WEIGHTS_ROW) + FLOATS_OTHERS * (FLOATS_ROW + VALUES_ROW)) ==
                      FLOATS_SHARED,
                  "the shared memory");
    const int y = (int)threadIdx.x / 8, x = (int)threadIdx.x % 8;
    const int64_t last_row = smaller(row0 + FLASH_ROWS, task.rows) - 1;
    const int columns = (int)smaller(task.columns - column0, FLASH_COLUMNS), padded = (int)PARTS(columns, 4) * 4;
    const bool idle = row0 + WARP * 16 >= task.rows;
    float out[4][4][4] = {{{0}}}; /* row, j, column */
    softmax_state states[4] = {{-INFINITE, 0}, {-INFINITE, 0}, {-INFINITE, 0}, {-INFINITE, 0}};
    for (int64_t segment = 0; segment < task.segments; segment++) {
        int64_t first, last;
        task.select(segment);
        task.range(row0, last_row, &first, &last);
        for (int64_t start = first; start < last; start += FLOATS_OTHERS) {
            const int64_t last_other = smaller(start + FLOATS_OTHERS, last) - 1;
            const bool whole = task.whole(row0, last_row, start, last_other);
            float scores[4][4] = {{0}}, second[4][4] = {{0}};
            for (int i = (int)threadIdx.x; i < FLOATS_OTHERS * padded; i += FLASH_THREADS) {
                const int r = i / padded, c = i % padded;
                values[r * VALUES_ROW + c] =
                    start + r < last && c < columns ? task.value_at(start + r, column0 + c) : 0.0f;
            }
            multiply_floats<false>(task, scores, a, b, row0, start, last, task.depth);
            if constexpr (Task::SECOND)
                multiply_floats<true>(task, second, a, b, row0, start, last, task.second_depth);
            if (!idle)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int64_t row = row0 + 4 * y + i;
                    float most = -INFINITE;
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const int64_t other = start + x + 8 * j;
                        float &score = scores[i][j];
                        const float product = score;
                        score = row < task.rows && other < last ? task.score(row, other, product, whole) : -INFINITE;
                        if constexpr (!Task::ONLINE) {
                            score = score == -INFINITE ? 0.0f : task.weight(row, other, score, product, second[i][j]);
                        }
                        most = Larger()(most, score);
                    }
                    if constexpr (Task::ONLINE) {
                        const float factor = states[i].raise(among<8>(most, Larger()));
                        for (int e = 0; e < 16; e++)
                            out[i][e / 4][e % 4] *= factor;
                        for (int j = 0; j < 4; j++) {
                            scores[i][j] = states[i].weight(scores[i][j]);
                            states[i].total += scores[i][j];
                        }
                    }
                    for (int j = 0; j < 4; j++)
                        weights[(4 * y + i) * WEIGHTS_ROW + x + 8 * j] = scores[i][j];
                }
            __syncwarp();
            if (!idle)
                for (int k = 0; k < FLOATS_OTHERS; k += 4) {
                    float w[4][4];
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const four_floats four(weights + (4 * y + i) * WEIGHTS_ROW + k);
                        for (int e = 0; e < 4; e++)
                            w[i][e] = four.x[e];
                    }
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        if (32 * j >= columns)
                            continue;
#pragma unroll
                        for (int e = 0; e < 4; e++) {
                            const four_floats value(values + (k + e) * VALUES_ROW + 4 * x + 32 * j);
#pragma unroll
                            for (int i = 0; i < 4; i++)
#pragma unroll
                                for (int c = 0; c < 4; c++) /* a weight of 0 hides what is not finite */
                                    out[i][j][c] += whole || w[i][e] != 0 ? w[i][e] * value.x[c] : 0.0f;
                        }
                    }
                }
            __syncthreads();
        }
    }
    if (idle)
        return;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int64_t row = row0 + 4 * y + i;
        float factor = 1;
        if constexpr (Task::ONLINE) {
            states[i].total = among<8>(states[i].total, Sum());
            factor = states[i].inverse();
            if (x == 0 && row < task.rows && column0 == 0)
                task.state(row, states[i]);
        }
#pragma unroll
        for (int e = 0; e < 16; e++) {
            const int64_t column = column0 + 4 * x + e / 4 * 32 + e % 4;
            if (row < task.rows && column < task.columns)
                task.result(row, column, out[i][e / 4][e % 4] * factor);
        }
    }
}
#endif
