/* Attention by tiles in float32 (flash_floats.h says how it is computed), in the manner of FlashAttention-2 (Dao, 2023): scores are never stored, and an online softmax
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
 * A Task says:
 *     ONLINE            whether the weights are a softmax over the others, which is then made on the way
 *     SECOND            whether weights need the second product
 *     SINKS, sink       ONLINE: whether exp(sink) is added to the sum that weights are divided by
 *     rows, depth, second_depth, columns     sizes
 *     segments, select(segment)   the others are so many sequences, taken one after the other
 *     range(row, last_row, first, last)      others that any of these rows may see: first .. last - 1
 *     whole(row, last_row, other, last_other)    whether all of these rows see all of these others, unmasked
 *     score(row, other, product, whole)      -INFINITE where the row does not see the other
 *     weight(row, other, score, product, second)   not ONLINE
 *     result(row, column, value)
 *     state(row, largest, total)             ONLINE, once for each row
 *     row_at<second>(row, column), other_at<second>(other, column), value_at(other, column)
 *     row_floats<second>(row), other_floats<second>(other), value_floats(other)    where these numbers lie, if they are
 *                       float32, in whole fours that begin where 16 bytes do; else NULL, for all rows or others */
#ifndef PYAPP_FLASH_H
#define PYAPP_FLASH_H
#include "tf32.h"

enum { FLASH_ROWS = 64, FLASH_COLUMNS = 128, FLASH_THREADS = 128 };
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
    /* Adds a score, to a whole total, in the end. */
    DEVICE_MEMBER void add(float score) { total += weight(score); }
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

/* ---- By plain arithmetic; flash_floats.h has it by tensor cores. Thread (y, x) of (16, 8) has rows 4 y .. 4 y + 3, others x + 8 j, columns 4 x + 32 j .. */

struct four_floats {
    float x[4];
    DEVICE_MEMBER explicit four_floats(const float *from)
    {
        const float4 four = *(const float4 *)from;
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    }
};

/* COUNT rows of up to COLUMNS numbers to shared memory, those from `first` on and before `last`; zeros in place of others, and
 * up to a whole number of times WHOLE. floats(row): where they lie, or NULL; number(row, column). Whether this thread met a
 * number that is not ordinary (tf32.h). */
template <int COUNT, int COLUMNS, int WIDTH, int WHOLE, class Floats, class Number>
DEVICE bool load_floats(float *to, int64_t first, int64_t last, int columns, Floats floats, Number number)
{
    const int padded = PARTS(columns, WHOLE) * WHOLE;
    bool odd = false;
    if (floats(first)) {
        constexpr int THREADS = COLUMNS / 4;
        const int column = (int)threadIdx.x % THREADS * 4;
#pragma unroll 4
        for (int r = (int)threadIdx.x / THREADS; r < COUNT; r += FLASH_THREADS / THREADS) {
            float4 four = {0, 0, 0, 0};
            if (first + r < last && column < columns)
                four = *(const float4 *)(floats(first + r) + column);
            odd = odd || !is_ordinary(four.x) || !is_ordinary(four.y) || !is_ordinary(four.z) || !is_ordinary(four.w);
            if (column < padded)
                *(float4 *)(to + r * WIDTH + column) = four;
        }
        return odd;
    }
    for (int i = (int)threadIdx.x; i < COUNT * padded; i += FLASH_THREADS) {
        const int r = i / padded, c = i % padded;
        const float own = first + r < last && c < columns ? number(first + r, c) : 0.0f;
        odd = odd || !is_ordinary(own);
        to[r * WIDTH + c] = own;
    }
    return odd;
}

/* sums (4, 4) += the product of the task's rows and others, in pieces of FLOATS_DEPTH columns. */
template <bool SECOND, class Task>
DEVICE void multiply_floats(const Task &task, float sums[4][4], float *a, float *b, int64_t row0, int64_t start,
                            int64_t last, int64_t depth)
{
    const int y = (int)threadIdx.x / 8, x = (int)threadIdx.x % 8;
    for (int64_t at = 0; at < depth; at += FLOATS_DEPTH) {
        const int there = (int)smaller(depth - at, FLOATS_DEPTH), padded = (int)PARTS(there, 4) * 4;
        load_floats<FLASH_ROWS, FLOATS_DEPTH, FLOATS_ROW, 4>(
            a, row0, task.rows, there,
            [&](int64_t row) {
                const float *const floats = task.template row_floats<SECOND>(row);
                return floats ? floats + at : floats;
            },
            [&](int64_t row, int column) { return task.template row_at<SECOND>(row, at + column); });
        load_floats<FLOATS_OTHERS, FLOATS_DEPTH, FLOATS_ROW, 4>(
            b, start, last, there,
            [&](int64_t other) {
                const float *const floats = task.template other_floats<SECOND>(other);
                return floats ? floats + at : floats;
            },
            [&](int64_t other, int column) { return task.template other_at<SECOND>(other, at + column); });
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
template <class Task> DEVICE void flash_by_threads(Task &task, int64_t row0, int64_t column0, float *shared)
{
    float *const a = shared, *const b = a + FLASH_ROWS * FLOATS_ROW, *const values = b + FLOATS_OTHERS * FLOATS_ROW;
    float *const weights = values + FLOATS_OTHERS * VALUES_ROW;
    static_assert(4 * (FLASH_ROWS * (FLOATS_ROW + WEIGHTS_ROW) + FLOATS_OTHERS * (FLOATS_ROW + VALUES_ROW)) ==
                      FLOATS_SHARED,
                  "the shared memory");
    const int y = (int)threadIdx.x / 8, x = (int)threadIdx.x % 8;
    const int64_t last_row = smaller(row0 + FLASH_ROWS, task.rows) - 1;
    const int columns = (int)smaller(task.columns - column0, FLASH_COLUMNS);
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
            load_floats<FLOATS_OTHERS, FLASH_COLUMNS, VALUES_ROW, 4>(
                values, start, last, columns,
                [&](int64_t other) {
                    const float *const floats = task.value_floats(other);
                    return floats ? floats + column0 : floats;
                },
                [&](int64_t other, int column) { return task.value_at(other, column0 + column); });
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
            if constexpr (Task::SINKS)
                states[i].add(task.sink);
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
