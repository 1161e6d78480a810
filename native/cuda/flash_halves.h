/* Attention of 16-bit numbers by tensor cores, in the manner of FlashAttention-2 (Dao, 2023; the online softmax is that of
 * Milakov and Gimelshein, 2018).
 *
 * A block of threads has as many rows (queries) as 4 warps hold in registers, and goes over their keys 64 at a time: scores
 * are products of the rows with the keys, and results sums of the values with the scores' exponentials. While it computes
 * with the keys, the values are on their way to shared memory, and the next keys while it computes with the values. A warp
 * has 16 rows, or 32, so that what it loads of the keys serves twice; lane 4 g + t has the rows g and g + 8 of 16.
 *
 * Vectors have up to DIMS numbers; shorter ones are padded with zeros. A Task says what is computed:
 *     TYPE                                   of the keys and values
 *     rows, depth, columns                   how many; numbers of a key, and of a value
 *     keys, values                           halves_matrix
 *     first_key(row), last_key(row)          the row sees the keys first_key .. last_key - 1
 *     scale, plain                           plain: a score is product * scale, and scale > 0; else score(row, key, product)
 *     hides                                  whether score may hide a key (-INFINITE) that first_key and last_key do not
 *     load<DIMS, COUNT>(to, row)             COUNT rows as 16-bit numbers in shared memory, PADDED_ROW(DIMS) apart
 *     finish<DIMS>(row, there, base, inverse, out, h)    of a row the sums in out[n][2 h], out[n][2 h + 1], to be multiplied
 *                                            by `inverse`; and the power of 2 that its weights were divided by */
#ifndef PYAPP_FLASH_HALVES_H
#define PYAPP_FLASH_HALVES_H
#include "flash.h"

enum { HALVES_MOST = 256, KEYS_EACH = 64 };
#define PADDED_ROW(dims) ((dims) + 8) /* so that reads meet no bank of shared memory twice */
/* Vectors of a kernel are padded to 64, 128 or 256 numbers: class 1, 2 or 3. 0: these do not fit, or are float32. */
#define HALVES_CLASS(longest) CHOOSE(longest > 256, 0, CHOOSE(longest > 128, 3, CHOOSE(longest > 64, 2, 1)))
#define HALVES_PADDED(longest) CHOOSE(longest > 128, 256, CHOOSE(longest > 64, 128, 64))
/* Rows of a block. What is not PLAIN needs more registers for each. */
#define FORWARD_ROWS(dims, plain) ((dims) > 128 || !(plain) ? 64 : 128)
#define HALVES_ROWS(longest) CHOOSE(longest > 128, 64, 128)

/* COUNT rows from `first` on, those before `last`, with `columns` numbers, padded with zeros to DIMS. */
template <int DIMS, int COUNT>
DEVICE void load_rows(uint16_t *to, const halves_matrix &of, int first, int last, int columns, bool aligned)
{
    const int there = MIN(last - first, COUNT);
    if (aligned) {
        constexpr int PIECES = DIMS / 8, STEP = FLASH_THREADS / PIECES;
        const int row = (int)threadIdx.x / PIECES, column = (int)threadIdx.x % PIECES * 8;
        const int inside = column < columns ? there : 0;
        const uint16_t *from = of.p + (first + row) * of.stride + column;
        uint16_t *own = to + row * PADDED_ROW(DIMS) + column;
#pragma unroll
        for (int i = 0; i < COUNT / STEP; i++) {
            start_copy(own, from, row + i * STEP < inside);
            own += STEP * PADDED_ROW(DIMS);
            from += STEP * of.stride;
        }
        return;
    }
    for (int i = (int)threadIdx.x; i < COUNT * DIMS; i += FLASH_THREADS) {
        const int row = i / DIMS, column = i % DIMS;
        to[row * PADDED_ROW(DIMS) + column] =
            row < there && column < columns ? of.p[(first + row) * of.stride + column] : (uint16_t)0;
    }
}

/* sums (16 TILES, 64) += a (16 TILES, DIMS) times the transposed b (64, DIMS). */
template <int TYPE, int DIMS, int TILES>
DEVICE void multiply_rows(float sums[TILES][8][4], const uint16_t *a, const uint16_t *b)
{
    constexpr int WIDTH = PADDED_ROW(DIMS);
    const uint16_t *row = a + LANE % 16 * WIDTH + LANE / 16 * 8;
    const uint16_t *other = b + (LANE / 16 * 8 + LANE % 8) * WIDTH + LANE / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < DIMS; k += 16) {
        uint32_t x[TILES][4], y[4];
#pragma unroll
        for (int m = 0; m < TILES; m++)
            load_matrices<false>(x[m], row + 16 * m * WIDTH + k);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            load_matrices<false>(y, other + 16 * n * WIDTH + k);
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                multiply_fragments<TYPE>(sums[m][2 * n], x[m], y);
                multiply_fragments<TYPE>(sums[m][2 * n + 1], x[m], y + 2);
            }
        }
    }
}

/* Takes what is not finite out of y, two fragments of values; rows with a weight for it become NaN. */
template <int TYPE> DEVICE void take_odd_out(float sums[2][4], const uint32_t weights[4], uint32_t y[4])
{
    uint32_t odd[4], any = 0;
    for (int i = 0; i < 4; i++)
        any |= odd[i] = not_finite<TYPE>(y[i]);
    if (!__any_sync(EVERY_LANE, any != 0))
        return;
    uint32_t sees[4];
    float hits[2][4] = {{0}};
    for (int i = 0; i < 4; i++) {
        y[i] &= ~odd[i];
        odd[i] = ones_where<TYPE>(odd[i] & 0xffffu, odd[i] >> 16);
        sees[i] = ones_where<TYPE>(weights[i] & 0x7fffu, weights[i] >> 16 & 0x7fffu);
    }
    multiply_fragments<TYPE>(hits[0], sees, odd);
    multiply_fragments<TYPE>(hits[1], sees, odd + 2);
    for (int i = 0; i < 8; i++)
        if (hits[i / 4][i % 4] > 0)
            sums[i / 4][i % 4] = NOT_A_NUMBER;
}

/* Weights as the first factor of a product: each pair of fragments of sums is a fragment of 16 columns. */
template <int TYPE> DEVICE void weights_of(uint32_t to[4], const float low[4], const float high[4])
{
    to[0] = pair_of<TYPE>(low[0], low[1]);
    to[1] = pair_of<TYPE>(low[2], low[3]);
    to[2] = pair_of<TYPE>(high[0], high[1]);
    to[3] = pair_of<TYPE>(high[2], high[3]);
}

/* out (16 TILES, DIMS) += weights (16 TILES, 64) times v (64, DIMS). CAREFUL: what is not finite in v counts for rows alone
 * whose weight is not 0. */
template <int TYPE, int DIMS, int TILES, bool CAREFUL>
DEVICE void add_values(float out[TILES][DIMS / 8][4], const float weights[TILES][8][4], const uint16_t *v)
{
    const uint16_t *row = v + LANE % 16 * PADDED_ROW(DIMS) + LANE / 16 * 8;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t p[TILES][4], y[4];
#pragma unroll
        for (int m = 0; m < TILES; m++)
            weights_of<TYPE>(p[m], weights[m][2 * k], weights[m][2 * k + 1]);
#pragma unroll
        for (int n = 0; n < DIMS / 16; n++) {
            load_matrices<true>(y, row + 16 * k * PADDED_ROW(DIMS) + 16 * n);
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                if (CAREFUL) {
                    uint32_t kept[4] = {y[0], y[1], y[2], y[3]};
                    take_odd_out<TYPE>(out[m] + 2 * n, p[m], kept);
                    multiply_fragments<TYPE>(out[m][2 * n], p[m], kept);
                    multiply_fragments<TYPE>(out[m][2 * n + 1], p[m], kept + 2);
                } else {
                    multiply_fragments<TYPE>(out[m][2 * n], p[m], y);
                    multiply_fragments<TYPE>(out[m][2 * n + 1], p[m], y + 2);
                }
            }
        }
    }
}

/* A score as a power of 2. Numbers near the lowest, which masks are made of, stay finite. */
DEVICE float in_powers_of_2(float score) { return score > LOWEST ? fmaxf(score * LOG2_E, -0x1.fffp127f) : score; }

/* So much may a row's largest score grow until what is summed is corrected: weights are then up to 2^8. */
#define MOST_RISE 8.0f

/* Whether all numbers of 64 rows in shared memory are finite. */
template <int TYPE, int DIMS> DEVICE bool all_finite(const uint16_t *of)
{
    const uint32_t exponents = TYPE == TYPE_float16 ? 0x7c007c00u : 0x7f807f80u;
    const uint32_t least = TYPE == TYPE_float16 ? 0x04000400u : 0x00800080u; /* adds to a 1 in the sign's place */
    uint32_t found = 0;
    for (int i = LANE; i < 64 * DIMS / 8; i += 32) {
        const uint4 eight = *(const uint4 *)(of + i / (DIMS / 8) * PADDED_ROW(DIMS) + i % (DIMS / 8) * 8);
        found |= ((eight.x & exponents) + least) | ((eight.y & exponents) + least);
        found |= ((eight.z & exponents) + least) | ((eight.w & exponents) + least);
    }
    return !__any_sync(EVERY_LANE, found & 0x80008000u);
}

/* The results of rows row0 .. row0 + FORWARD_ROWS(DIMS, PLAIN) - 1. shared: HALVES_SHARED(DIMS) bytes. */
#define HALVES_SHARED(longest) (2 * (HALVES_ROWS(longest) + 128) * (PADDED_ROW(HALVES_PADDED(longest))))
template <class Task, int DIMS, bool PLAIN> DEVICE void flash_forward(const Task &task, int row0, uint16_t *shared)
{
    constexpr int ROWS = FORWARD_ROWS(DIMS, PLAIN), TILES = ROWS / 64, WIDTH = PADDED_ROW(DIMS);
    uint16_t *const rows = shared, *const keys = rows + ROWS * WIDTH, *const values = keys + KEYS_EACH * WIDTH;
    const bool keys_aligned = task.keys.aligned(task.depth), values_aligned = task.values.aligned(task.columns);
    const int end = MIN(row0 + ROWS, task.rows), first = task.first_key(row0), last = task.last_key(end - 1);
    const int own0 = row0 + WARP * 16 * TILES, own_end = MIN(own0 + 16 * TILES, task.rows);
    const bool idle = own0 >= own_end;
    const int own_first = idle ? 0 : task.first_key(own0), own_last = idle ? 0 : task.last_key(own_end - 1);
    const int all_first = idle ? 0 : task.first_key(own_end - 1), all_last = idle ? 0 : task.last_key(own0);
    const float factor = PLAIN ? task.scale * LOG2_E : 1.0f; /* of a score, for a power of 2 */
    float out[TILES][DIMS / 8][4], total[TILES][2], base[TILES][2];
#pragma unroll
    for (int m = 0; m < TILES; m++) {
        for (int h = 0; h < 2; h++)
            total[m][h] = 0, base[m][h] = -INFINITE;
#pragma unroll
        for (int i = 0; i < DIMS / 2; i++)
            out[m][i / 4][i % 4] = 0;
    }
    __syncthreads(); /* the block's tile before is done */
    if (first < last) {
        task.template load<DIMS, ROWS>(rows, row0);
        load_rows<DIMS, KEYS_EACH>(keys, task.keys, first, last, task.depth, keys_aligned);
        end_copies();
    }
    for (int start = first; start < last; start += KEYS_EACH) {
        wait_for_copies<0>();
        __syncthreads();
        load_rows<DIMS, KEYS_EACH>(values, task.values, start, last, task.columns, values_aligned);
        end_copies();
        const bool here = start < own_last && start + KEYS_EACH > own_first; /* in every lane of a warp */
        const bool whole = all_first <= start && start + KEYS_EACH <= all_last;
        float scores[TILES][8][4];
        if (here) {
#pragma unroll
            for (int i = 0; i < 32 * TILES; i++)
                scores[i / 32][i / 4 % 8][i % 4] = 0;
            multiply_rows<Task::TYPE, DIMS, TILES>(scores, rows + WARP * 16 * TILES * WIDTH, keys);
        }
        wait_for_copies<0>();
        __syncthreads();
        if (start + KEYS_EACH < last) {
            load_rows<DIMS, KEYS_EACH>(keys, task.keys, start + KEYS_EACH, last, task.depth, keys_aligned);
            end_copies();
        }
        if (!here)
            continue;
        float most[TILES][2];
        bool rises = false;
#pragma unroll
        for (int m = 0; m < TILES; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int row = own0 + 16 * m + LANE / 4 + 8 * h;
                if (!whole || !PLAIN) {
                    const bool there = row < task.rows;
                    const int from = there ? MAX(task.first_key(row) - start, 0) : KEYS_EACH;
                    const int to = there ? MIN(task.last_key(row) - start, KEYS_EACH) : 0;
#pragma unroll
                    for (int i = 0; i < 16; i++) {
                        const int key = i / 2 * 8 + LANE % 4 * 2 + i % 2;
                        float &score = scores[m][i / 2][2 * h + i % 2];
                        if (key < from || key >= to)
                            score = -INFINITE;
                        else if (!PLAIN)
                            score = in_powers_of_2(task.score(row, start + key, score));
                    }
                }
                float largest = scores[m][0][2 * h];
#pragma unroll
                for (int i = 1; i < 16; i++)
                    largest = fmaxf(largest, scores[m][i / 2][2 * h + i % 2]);
                largest = fmaxf(largest, __shfl_xor_sync(EVERY_LANE, largest, 1));
                most[m][h] = fmaxf(largest, __shfl_xor_sync(EVERY_LANE, largest, 2)) * factor;
                rises = rises || most[m][h] > base[m][h] + MOST_RISE;
            }
        if (__any_sync(EVERY_LANE, rises))
#pragma unroll
            for (int m = 0; m < TILES; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float next = fmaxf(base[m][h], most[m][h]);
                    const float correction = base[m][h] == -INFINITE ? 0.0f : power_of_2(base[m][h] - next);
                    base[m][h] = next;
                    total[m][h] *= correction;
#pragma unroll
                    for (int n = 0; n < DIMS / 8; n++)
                        out[m][n][2 * h] *= correction, out[m][n][2 * h + 1] *= correction;
                }
#pragma unroll
        for (int m = 0; m < TILES; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float least = base[m][h] == -INFINITE ? 0.0f : base[m][h];
#pragma unroll
                for (int i = 0; i < 16; i++) {
                    float &score = scores[m][i / 2][2 * h + i % 2];
                    score = power_of_2(score * factor - least);
                    total[m][h] += score;
                }
            }
        if ((whole && !task.hides) || all_finite<Task::TYPE, DIMS>(values))
            add_values<Task::TYPE, DIMS, TILES, false>(out, scores, values);
        else
            add_values<Task::TYPE, DIMS, TILES, true>(out, scores, values);
    }
    if (idle)
        return;
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = own0 + 16 * m + LANE / 4 + 8 * h;
            const float sum = among<4>(total[m][h], Sum());
            const bool there = row < task.rows;
            /* A row whose every score is -inf is NaN, one that sees nothing 0. */
            const bool none = base[m][h] == (PLAIN ? -INFINITE : LOWEST);
            float inverse = sum != 0 ? 1.0f / sum : 0.0f;
            if (there && none && task.first_key(row) < task.last_key(row))
                inverse = NOT_A_NUMBER;
            task.template finish<DIMS>(row, there, base[m][h], inverse, out[m], h);
        }
}

/* A row's sums as 16-bit numbers. */
template <int TYPE, int DIMS>
DEVICE void store_row(uint16_t *to, int columns, float factor, const float out[DIMS / 8][4], int h)
{
    const bool pairs = columns % 2 == 0 && (uint64_t)to % 4 == 0;
#pragma unroll
    for (int n = 0; n < DIMS / 8; n++) {
        const int column = 8 * n + LANE % 4 * 2;
        const uint32_t pair = pair_of<TYPE>(out[n][2 * h] * factor, out[n][2 * h + 1] * factor);
        if (pairs && column < columns)
            *(uint32_t *)(to + column) = pair;
        else if (!pairs && column < columns) {
            to[column] = (uint16_t)pair;
            if (column + 1 < columns)
                to[column + 1] = (uint16_t)(pair >> 16);
        }
    }
}

/* Units are batch entries' heads. Blocks begin with the most work: with the last rows, which see the most keys where
 * attention is causal, of as many units as the cache of the card keeps the keys of. */
enum { UNITS_TOGETHER = 16 };
struct unit_and_tile {
    int64_t unit, tile;
    DEVICE_MEMBER unit_and_tile(int64_t i, int64_t units, int64_t tiles)
    {
        const int64_t group = i / (UNITS_TOGETHER * tiles), first = group * UNITS_TOGETHER;
        const int64_t together = smaller(units - first, UNITS_TOGETHER), at = i - first * tiles;
        unit = first + at % together;
        tile = tiles - 1 - at / together;
    }
};
#endif
