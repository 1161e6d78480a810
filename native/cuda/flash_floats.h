/* flash_floats by tensor cores (tf32.h), where cards have them; the tasks are those of flash.h.
 *
 * A warp has 16 rows: of a tile 16 x 32 scores and 16 x 128 sums in registers. The order in which numbers of a sum are taken
 * is free, so where the instruction has the columns t and t + 4 of 8, lane 4 g + t has 2 t and 2 t + 1: it loads neighbours
 * at once, and weights are factors of the next product in the registers where they were made.
 *
 * Tensor cores cut what they add to a sum off instead of rounding it. So the products of a tile's values are summed by
 * themselves, and their sums added in float32 (Ootomo and Yokota, 2022).
 *
 * Numbers that are not ordinary (tf32.h) take plain arithmetic, which shows what is not finite as it is: for scores their
 * tiles do, for sums only their own products. */
#ifndef PYAPP_FLASH_FLOATS_H
#define PYAPP_FLASH_FLOATS_H
#include "flash.h"
#include "tf32.h"

/* Rows up to TERMS_DEPTH long stay in shared memory, and the others' values take the place of the others. So many numbers
 * apart, 8-byte loads by a half of a warp meet no bank of memory twice. */
enum { TERMS_DEPTH = 128, TERMS_ROW = TERMS_DEPTH + 8 };

/* Whether a tile of them has a number that is not ordinary. Tiles are numbered, so that the note of one need not be erased
 * before the next is loaded. */
struct odd_tile {
    int *note, number;
    /* By one thread, before a barrier. */
    DEVICE_MEMBER void begin() const { *note = 0; }
    /* By all threads, as they load the next tile. */
    DEVICE_MEMBER void found(bool odd)
    {
        number++;
        if (odd)
            *note = number;
    }
    /* After a barrier. */
    DEVICE_MEMBER bool is_odd() const { return *note == number; }
};

struct two_floats {
    float x, y;
    DEVICE_MEMBER explicit two_floats(const float *from)
    {
        const uint2 two = *(const uint2 *)from;
        x = __int_as_float((int)two.x), y = __int_as_float((int)two.y);
    }
};

/* sums (16, 32) += a warp's rows times the transposed others, of `depth` columns, which is whole eights. */
DEVICE void multiply_ordinary(float sums[4][4], const float *rows, const float *others, int depth)
{
    const int g = LANE / 4, t = LANE % 4;
    rows += g * TERMS_ROW + 2 * t, others += g * TERMS_ROW + 2 * t;
#pragma unroll 2
    for (int k = 0; k < depth; k += 8) {
        const two_floats low(rows + k), high(rows + 8 * TERMS_ROW + k);
        const tf32_terms a[4] = {tf32_terms(low.x), tf32_terms(high.x), tf32_terms(low.y), tf32_terms(high.y)};
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const two_floats other(others + 8 * n * TERMS_ROW + k);
            const tf32_terms b[2] = {tf32_terms(other.x), tf32_terms(other.y)};
            multiply_terms(sums[n], a, b);
        }
    }
}
/* The same of any numbers. */
DEVICE void multiply_odd(float sums[4][4], const float *rows, const float *others, int depth)
{
    const int g = LANE / 4, t = LANE % 4;
#pragma unroll 1
    for (int k = 0; k < depth; k++) {
        const float low = rows[g * TERMS_ROW + k], high = rows[(g + 8) * TERMS_ROW + k];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float other = others[(i / 2 * 8 + 2 * t + i % 2) * TERMS_ROW + k];
            sums[i / 2][i % 2] += low * other;
            sums[i / 2][2 + i % 2] += high * other;
        }
    }
}

/* out (16, 128) += weights (16, 32) times values of `columns` columns. ODD: of those that are ordinary, and 0 for others. */
template <bool ODD>
DEVICE void add_ordinary(float out[16][4], const float weights[4][4], const float *values, int columns)
{
    const auto terms = [](float x) { return tf32_terms(ODD && !is_ordinary(x) ? 0.0f : x); };
    tf32_terms a[4][4];
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[k][i] = terms(weights[k][i % 2 * 2 + i / 2]);
    values += LANE % 4 * 2 * VALUES_ROW + LANE / 4;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (32 * j >= columns)
            continue;
        float sums[4][4] = {{0}};
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const float *const value = values + 8 * k * VALUES_ROW + 32 * j + 8 * n;
                const tf32_terms b[2] = {terms(value[0]), terms(value[VALUES_ROW])};
                multiply_terms(sums[n], a[k], b);
            }
#pragma unroll
        for (int i = 0; i < 16; i++)
            out[4 * j + i / 4][i % 4] += sums[i / 4][i % 4];
    }
}

/* Adds the products that have a number which is not ordinary, each to its own column; the others' sums stay as they would be
 * without it. whole: a weight of 0 does not hide what is not finite. */
DEVICE void add_odd_products(float out[16][4], const float weights[4][4], const float *values, int columns, bool whole)
{
    const auto product = [whole](float weight, float value) {
        return (is_ordinary(weight) && is_ordinary(value)) || (weight == 0 && !whole) ? 0.0f : weight * value;
    };
#pragma unroll
    for (int k = 0; k < 8; k++) /* others 8 (k / 2) + 2 p + k % 2 */
#pragma unroll 1
        for (int p = 0; p < 4; p++) {
            const float low = __shfl_sync(EVERY_LANE, weights[k / 2][k % 2], LANE / 4 * 4 + p);
            const float high = __shfl_sync(EVERY_LANE, weights[k / 2][2 + k % 2], LANE / 4 * 4 + p);
            const float *const other = values + (k / 2 * 8 + 2 * p + k % 2) * VALUES_ROW + LANE % 4 * 2;
#pragma unroll
            for (int n = 0; n < 16; n++) {
                if (8 * n >= columns)
                    continue;
                const two_floats value(other + 8 * n);
                out[n][0] += product(low, value.x);
                out[n][1] += product(low, value.y);
                out[n][2] += product(high, value.x);
                out[n][3] += product(high, value.y);
            }
        }
}

/* sums (16, 32) += the product of a warp's rows and others of the task, in pieces of TERMS_DEPTH columns. Without load_rows the
 * rows are there from before, and odd_rows says whether they, or the others that came with them, are not ordinary. */
template <bool SECOND, class Task>
DEVICE void multiply_tiles(const Task &task, float sums[4][4], float *rows, float *others, odd_tile &odd,
                           bool &odd_rows, bool load_rows, int64_t row0, int64_t start, int64_t last, int64_t depth)
{
    for (int64_t at = 0; at < depth; at += TERMS_DEPTH) {
        const int there = (int)smaller(depth - at, TERMS_DEPTH);
        bool found = false;
        if (load_rows)
            found = load_floats<FLASH_ROWS, TERMS_DEPTH, TERMS_ROW, 8>(
                rows, row0, task.rows, there,
                [&](int64_t row) {
                    const float *const floats = task.template row_floats<SECOND>(row);
                    return floats ? floats + at : floats;
                },
                [&](int64_t row, int column) { return task.template row_at<SECOND>(row, at + column); });
        found = load_floats<FLOATS_OTHERS, TERMS_DEPTH, TERMS_ROW, 8>(
                    others, start, last, there,
                    [&](int64_t other) {
                        const float *const floats = task.template other_floats<SECOND>(other);
                        return floats ? floats + at : floats;
                    },
                    [&](int64_t other, int column) { return task.template other_at<SECOND>(other, at + column); }) ||
                found;
        odd.found(found);
        __syncthreads();
        const bool is_odd = odd.is_odd();
        odd_rows = load_rows ? is_odd : odd_rows;
        if (row0 + WARP * 16 < task.rows) {
            const float *const own = rows + WARP * 16 * TERMS_ROW;
            if (is_odd || odd_rows)
                multiply_odd(sums, own, others, there);
            else
                multiply_ordinary(sums, own, others, (int)PARTS(there, 8) * 8);
        }
        __syncthreads();
    }
}

/* shared: FLOATS_SHARED bytes. */
template <class Task> DEVICE void flash_by_tensor_cores(Task &task, int64_t row0, int64_t column0, float *shared)
{
    float *const rows = shared, *const others = rows + FLASH_ROWS * TERMS_ROW, *const values = others;
    static_assert(4 * (FLASH_ROWS + FLOATS_OTHERS) * TERMS_ROW <= FLOATS_SHARED && VALUES_ROW <= TERMS_ROW,
                  "the shared memory");
    __shared__ int note;
    odd_tile odd = {&note, 0};
    const int t = LANE % 4, row_of_lane = WARP * 16 + LANE / 4;
    const int64_t last_row = smaller(row0 + FLASH_ROWS, task.rows) - 1;
    const int columns = (int)smaller(task.columns - column0, FLASH_COLUMNS);
    const bool idle = row0 + WARP * 16 >= task.rows;
    const bool keep = !Task::SECOND && task.depth <= TERMS_DEPTH;
    float out[16][4] = {{0}};
    softmax_state states[2] = {{-INFINITE, 0}, {-INFINITE, 0}}; /* of the rows g and g + 8 */
    if (threadIdx.x == 0)
        odd.begin();
    __syncthreads();
    for (int64_t segment = 0; segment < task.segments; segment++) {
        int64_t first, last;
        bool odd_rows = false;
        task.select(segment);
        task.range(row0, last_row, &first, &last);
        for (int64_t start = first; start < last; start += FLOATS_OTHERS) {
            const int64_t last_other = smaller(start + FLOATS_OTHERS, last) - 1;
            const bool whole = task.whole(row0, last_row, start, last_other);
            float scores[4][4] = {{0}}, second[4][4] = {{0}};
            multiply_tiles<false>(task, scores, rows, others, odd, odd_rows, !keep || start == first, row0, start, last,
                                  task.depth);
            if constexpr (Task::SECOND)
                multiply_tiles<true>(task, second, rows, others, odd, odd_rows, true, row0, start, last,
                                     task.second_depth);
            odd.found(load_floats<FLOATS_OTHERS, FLASH_COLUMNS, VALUES_ROW, 8>(
                values, start, last, columns,
                [&](int64_t other) {
                    const float *const floats = task.value_floats(other);
                    return floats ? floats + column0 : floats;
                },
                [&](int64_t other, int column) { return task.value_at(other, column0 + column); }));
            bool odd_weights = false;
            if (!idle)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int64_t row = row0 + row_of_lane + 8 * h;
                    float most = -INFINITE;
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        const int64_t other = start + i / 2 * 8 + 2 * t + i % 2;
                        float &score = scores[i / 2][2 * h + i % 2];
                        const float product = score;
                        score = row < task.rows && other < last ? task.score(row, other, product, whole) : -INFINITE;
                        if constexpr (!Task::ONLINE) {
                            score = score == -INFINITE
                                        ? 0.0f
                                        : task.weight(row, other, score, product, second[i / 2][2 * h + i % 2]);
                        }
                        most = Larger()(most, score);
                    }
                    if constexpr (Task::ONLINE) {
                        const float factor = states[h].raise(among<4>(most, Larger()));
#pragma unroll
                        for (int i = 0; i < 32; i++)
                            out[i / 2][2 * h + i % 2] *= factor;
                    }
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        float &score = scores[i / 2][2 * h + i % 2];
                        if constexpr (Task::ONLINE) {
                            score = states[h].weight(score);
                            states[h].total += score;
                        }
                        odd_weights = odd_weights || !is_ordinary(score);
                    }
                }
            __syncthreads();
            if (!idle) {
                if (odd.is_odd() || __any_sync(EVERY_LANE, odd_weights)) {
                    add_ordinary<true>(out, scores, values, columns);
                    add_odd_products(out, scores, values, columns, whole);
                } else
                    add_ordinary<false>(out, scores, values, columns);
            }
            __syncthreads();
        }
    }
    if (idle)
        return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int64_t row = row0 + row_of_lane + 8 * h;
        float factor = 1;
        if constexpr (Task::ONLINE) {
            states[h].total = among<4>(states[h].total, Sum());
            if constexpr (Task::SINKS)
                states[h].add(task.sink);
            factor = states[h].inverse();
            if (t == 0 && row < task.rows && column0 == 0)
                task.state(row, states[h]);
        }
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int64_t column = column0 + i / 2 * 8 + 2 * t + i % 2;
            if (row < task.rows && column < task.columns)
                task.result(row, column, out[i / 2][2 * h + i % 2] * factor);
        }
    }
}

/* The results of rows row0 .. and columns column0 .. In the emulator some sizes take plain arithmetic, so that tests meet both
 * ways. shared: FLOATS_SHARED bytes. */
template <class Task> DEVICE void flash_floats(Task &task, int64_t row0, int64_t column0, float *shared)
{
#ifndef __CUDACC__
    if (task.depth % 16 == 1)
        return flash_by_threads(task, row0, column0, shared);
#endif
    if constexpr (HAS_TENSOR_CORES)
        flash_by_tensor_cores(task, row0, column0, shared);
    else
        flash_by_threads(task, row0, column0, shared);
}
#endif
