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
 *     PAGED, place(key)                      PAGED: a key and its value lie where `place` says, not `stride` apart
 *     first_key(row), last_key(row)          the row sees the keys first_key .. last_key - 1
 *     begin(row)                             the key to begin with where this is the first row: first_key(row) or before
 *     scale, plain                           plain: a score is product * scale, and scale > 0; else score(row, key, product)
 *     hides                                  whether score may hide a key (-INFINITE) that first_key and last_key do not
 *     load<DIMS, COUNT, SWIZZLED>(to, row)   COUNT rows as 16-bit numbers in shared memory (place_of_number)
 *     finish<DIMS>(row, there, base, inverse, out, h)    of a row the sums in out[n][2 h], out[n][2 h + 1], to be multiplied
 *                                            by `inverse`; and the power of 2 that its weights were divided by */
#ifndef PYAPP_FLASH_HALVES_H
#define PYAPP_FLASH_HALVES_H
#include "flash.h"
#include "warpgroups.h"

enum { HALVES_MOST = 256, KEYS_EACH = 64 };
#define PADDED_ROW(dims) ((dims) + 8) /* so that reads meet no bank of shared memory twice */
/* Vectors of a kernel are padded to 64, 128 or 256 numbers: class 1, 2 or 3. 0: these do not fit, or are float32. */
#define HALVES_CLASS(longest) CHOOSE(longest > 256, 0, CHOOSE(longest > 128, 3, CHOOSE(longest > 64, 2, 1)))
#define HALVES_PADDED(longest) CHOOSE(longest > 128, 256, CHOOSE(longest > 64, 128, 64))
/* Whether the forward pass is computed by warpgroups. In the emulator float16 is not, so that tests meet both ways. */
#ifdef __CUDACC__
#define BY_WARPGROUPS(type) (HAS_WARPGROUPS != 0)
#else
#define BY_WARPGROUPS(type) ((type) == TYPE_bfloat16)
#endif
/* Rows of a block: 128 where all are PLAIN and keep enough blocks busy, for so many units (batch entries' heads). */
#define HALVES_ROWS(units, rows, longest) CHOOSE(longest > 128, 64, CHOOSE(units * PARTS(rows, 128) > 256, 128, 64))
#define HALVES_TILES(units, rows, longest) (units * PARTS(rows, HALVES_ROWS(units, rows, longest)))

/* Keeps a number of a loop in a register. Where these are few, the compiler computes in each round again what it can. */
DEVICE void keep(int &number)
{
#ifdef __CUDACC__
    asm volatile("" : "+r"(number));
#endif
}

/* Rows of 16-bit numbers that lie `stride` apart. */
struct halves_matrix {
    const uint16_t *p;
    int64_t stride;
    DEVICE_MEMBER bool aligned(int columns) const
    {
        return (uint64_t)p % 16 == 0 && stride % 8 == 0 && columns % 8 == 0;
    }
};

/* Where a number of COUNT rows lies in shared memory. SWIZZLED: as warpgroups read it. */
template <int DIMS, int COUNT, bool SWIZZLED> DEVICE int place_of_number(int row, int column)
{
    return SWIZZLED ? swizzled(row, column, COUNT) : row * PADDED_ROW(DIMS) + column;
}

/* Rows that follow one another, `stride` apart. */
struct rows_in_order {
    static constexpr bool IN_BLOCKS = false;
    rows_in_order() = default;
    template <class Task> DEVICE_MEMBER explicit rows_in_order(const Task &) {}
    DEVICE_MEMBER void find(int, int) {}
};

/* Rows that lie anywhere among those of a matrix: Task::place(row) is the number of one there. It takes a while, and a warp
 * loads COUNT / 4 rows of a tile; so each lane finds the place of one of these, before they are needed, and asks the others. */
template <class Task, int DIMS, int COUNT> struct rows_in_blocks {
    static constexpr bool IN_BLOCKS = true;
    static constexpr int PIECES = DIMS / 8, TOGETHER = 32 / PIECES; /* rows that a warp loads at a time */
    const Task *task;
    uint32_t found;

    DEVICE_MEMBER explicit rows_in_blocks(const Task &of) : task(&of), found(0) {}
    /* For the tile of the rows from `first` on, those before `last`. */
    DEVICE_MEMBER void find(int first, int last)
    {
        const int own = LANE % (COUNT / 4), row = (own / TOGETHER * 4 + WARP) * TOGETHER + own % TOGETHER;
        if (first < last)
            found = (uint32_t)task->place(MIN(first + row, last - 1));
    }
    /* Of this lane's row of those that are loaded at the i-th time; for whole warps. */
    DEVICE_MEMBER uint32_t at_step(int i) const { return __shfl_sync(EVERY_LANE, found, i * TOGETHER + LANE / PIECES); }
};

template <class Task, int DIMS, int COUNT, bool PAGED> struct places_of {
    using type = rows_in_order;
};
template <class Task, int DIMS, int COUNT> struct places_of<Task, DIMS, COUNT, true> {
    using type = rows_in_blocks<Task, DIMS, COUNT>;
};

/* COUNT rows from `first` on, those before `last`, with `columns` numbers, padded with zeros to DIMS. */
template <int DIMS, int COUNT, bool SWIZZLED = false, class Places = rows_in_order>
DEVICE void load_rows(uint16_t *to, const halves_matrix &of, int first, int last, int columns, bool aligned,
                      const Places &places = Places())
{
    const int there = MIN(last - first, COUNT);
    if (aligned) {
        constexpr int PIECES = DIMS / 8, STEP = FLASH_THREADS / PIECES;
        const int row = (int)threadIdx.x / PIECES, column = (int)threadIdx.x % PIECES * 8;
        const uint16_t *from = of.p + column;
        if constexpr (!Places::IN_BLOCKS)
            from += (first + row) * of.stride;
        const auto copy = [&](int inside, bool whole) {
            /* All rows of a thread are swizzled alike, but for steps of 4 rows. */
            uint16_t *own = to + place_of_number<DIMS, COUNT, SWIZZLED>(row, column);
#pragma unroll
            for (int i = 0; i < COUNT / STEP; i++) {
                if (SWIZZLED && STEP % 8)
                    own = to + place_of_number<DIMS, COUNT, SWIZZLED>(row + i * STEP, column);
                if constexpr (Places::IN_BLOCKS)
                    start_copy(own, from + (uint64_t)places.at_step(i) * (uint32_t)of.stride,
                               whole || row + i * STEP < inside);
                else {
                    start_copy(own, from, whole || row + i * STEP < inside);
                    from += STEP * of.stride;
                }
                own += STEP * (SWIZZLED ? SWIZZLED_COLUMNS : PADDED_ROW(DIMS));
            }
        };
        if (there == COUNT && columns == DIMS) /* most tiles: nothing to ask of each row */
            copy(COUNT, true);
        else
            copy(column < columns ? there : 0, false);
        return;
    }
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < COUNT * DIMS; i += FLASH_THREADS) {
        const int row = i / DIMS, column = i % DIMS;
        uint16_t number = 0;
        if (row < there && column < columns) {
            if constexpr (Places::IN_BLOCKS)
                number = of.p[places.task->place(first + row) * of.stride + column];
            else
                number = of.p[(first + row) * of.stride + column];
        }
        to[place_of_number<DIMS, COUNT, SWIZZLED>(row, column)] = number;
    }
}

/* sums (16 TILES, OTHERS) += a (16 TILES, DIMS) times the transposed b (OTHERS, DIMS). Every 16 rows of a lie APART. */
template <int TYPE, int DIMS, int TILES, int OTHERS, int APART>
DEVICE void multiply_rows(float sums[TILES][OTHERS / 8][4], const uint16_t *a, const uint16_t *b)
{
    constexpr int WIDTH = PADDED_ROW(DIMS);
    const uint16_t *row = a + LANE % 16 * WIDTH + LANE / 16 * 8;
    const uint16_t *other = b + (LANE / 16 * 8 + LANE % 8) * WIDTH + LANE / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < DIMS; k += 16) {
        uint32_t x[TILES][4], y[4];
#pragma unroll
        for (int m = 0; m < TILES; m++)
            load_matrices<false>(x[m], row + APART * m * WIDTH + k);
#pragma unroll
        for (int n = 0; n < OTHERS / 16; n++) {
            load_matrices<false>(y, other + 16 * n * WIDTH + k);
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                multiply_fragments<TYPE>(sums[m][2 * n], x[m], y);
                multiply_fragments<TYPE>(sums[m][2 * n + 1], x[m], y + 2);
            }
        }
    }
}

/* Takes what is not finite out of COUNT rows in shared memory, by all threads, and notes in which rows it was (odd: or NULL).
 * A weight of 0 times what is not finite would be NaN. */
template <int TYPE, int DIMS, int COUNT, bool SWIZZLED = false> DEVICE void clean_rows(uint16_t *rows, uint8_t *odd)
{
    const uint32_t exponents = TYPE == TYPE_float16 ? 0x7c007c00u : 0x7f807f80u;
    const uint32_t least = TYPE == TYPE_float16 ? 0x04000400u : 0x00800080u; /* adds to a 1 in the sign's place */
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < COUNT * DIMS / 2; i += FLASH_THREADS) {
        const int row = i / (DIMS / 2);
        uint32_t *const at = (uint32_t *)(rows + place_of_number<DIMS, COUNT, SWIZZLED>(row, i % (DIMS / 2) * 2));
        const uint32_t pair = *at, found = ((pair & exponents) + least) & 0x80008000u;
        if (!found)
            continue;
        *at = pair & (found >> 31 ? 0x0000ffffu : ~0u) & (found & 0x8000u ? 0xffff0000u : ~0u);
        if (odd)
            odd[row] = 1;
    }
}

/* Whether a row with these weights has one for an odd other. odd: a bit for each of OTHERS. */
template <int OTHERS> DEVICE bool sees_odd(const float weights[OTHERS / 8][4], int h, uint64_t odd)
{
    bool sees = false;
#pragma unroll
    for (int i = 0; i < OTHERS / 4; i++)
        sees = sees || ((odd >> (i / 2 * 8 + LANE % 4 * 2 + i % 2) & 1) && weights[i / 2][2 * h + i % 2] != 0);
    return sees;
}

/* Adds to the sums of rows that see odd others what is not finite of these: each number to its own column. odd_rows: a bit for
 * each m and h of this lane's rows. After all products, where a row's own infinities and NaN come a second time: they change
 * nothing. odd_sum(m, h, column): the sum of what is not finite there. The sums pass through memory, so that this code, which
 * runs once in a while, is short and takes no registers from the rest. */
template <int TILES, int COLUMNS, class Odd>
DEVICE void add_odd(float out[TILES][COLUMNS / 8][4], uint32_t odd_rows, int columns, const Odd &odd_sum)
{
    if (!__any_sync(EVERY_LANE, odd_rows != 0))
        return;
    odd_rows |= __shfl_xor_sync(EVERY_LANE, odd_rows, 1);
    odd_rows |= __shfl_xor_sync(EVERY_LANE, odd_rows, 2);
    float sums[TILES * COLUMNS / 2];
#pragma unroll
    for (int i = 0; i < TILES * COLUMNS / 2; i++)
        sums[i] = out[i / (COLUMNS / 2)][i / 4 % (COLUMNS / 8)][i % 4];
#pragma unroll 1
    for (int i = 0; i < TILES * COLUMNS / 2; i++) {
        const int m = i / (COLUMNS / 2), h = i / 2 % 2, column = i / 4 % (COLUMNS / 8) * 8 + LANE % 4 * 2 + i % 2;
        if (column < columns && (odd_rows >> (2 * m + h) & 1))
            sums[i] += odd_sum(m, h, column);
    }
#pragma unroll
    for (int i = 0; i < TILES * COLUMNS / 2; i++)
        out[i / (COLUMNS / 2)][i / 4 % (COLUMNS / 8)][i % 4] = sums[i];
}

/* The bits of `count` notes. */
DEVICE uint64_t bits_of(const uint8_t *odd, int count)
{
    const uint32_t low = __ballot_sync(EVERY_LANE, LANE < count && odd[LANE] == 1);
    const uint32_t high = __ballot_sync(EVERY_LANE, LANE + 32 < count && odd[LANE + 32] == 1);
    return (uint64_t)high << 32 | low;
}

/* Weights as the first factor of a product: each pair of fragments of sums is a fragment of 16 columns. */
template <int TYPE> DEVICE void weights_of(uint32_t to[4], const float low[4], const float high[4])
{
    to[0] = pair_of<TYPE>(low[0], low[1]);
    to[1] = pair_of<TYPE>(low[2], low[3]);
    to[2] = pair_of<TYPE>(high[0], high[1]);
    to[3] = pair_of<TYPE>(high[2], high[3]);
}

/* out (16 TILES, COLUMNS) += weights (16 TILES, OTHERS) times v (OTHERS, COLUMNS of DIMS). */
template <int TYPE, int DIMS, int COLUMNS, int TILES, int OTHERS>
DEVICE void add_values(float out[TILES][COLUMNS / 8][4], const float weights[TILES][OTHERS / 8][4], const uint16_t *v)
{
    const uint16_t *row = v + LANE % 16 * PADDED_ROW(DIMS) + LANE / 16 * 8;
#pragma unroll
    for (int k = 0; k < OTHERS / 16; k++) {
        uint32_t p[TILES][4], y[4];
#pragma unroll
        for (int m = 0; m < TILES; m++)
            weights_of<TYPE>(p[m], weights[m][2 * k], weights[m][2 * k + 1]);
#pragma unroll
        for (int n = 0; n < COLUMNS / 16; n++) {
            load_matrices<true>(y, row + 16 * k * PADDED_ROW(DIMS) + 16 * n);
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                multiply_fragments<TYPE>(out[m][2 * n], p[m], y);
                multiply_fragments<TYPE>(out[m][2 * n + 1], p[m], y + 2);
            }
        }
    }
}

/* sums (64, 64) = rows `row` .. row + 63 of a (ROWS, DIMS) times the transposed b (OTHERS, DIMS), which begins b_first numbers
 * into its factor; both as warpgroups read them. */
template <int TYPE, int DIMS, int ROWS, int OTHERS>
DEVICE void multiply_swizzled(float sums[8][4], const shared_factor &a, int row, const shared_factor &b,
                              int b_first = 0)
{
#pragma unroll
    for (int k = 0; k < DIMS / 16; k++)
        multiply_shared<TYPE>(sums, a, row * 64 + k / 4 * ROWS * 64 + k % 4 * 16, b,
                              b_first + k / 4 * OTHERS * 64 + k % 4 * 16, k > 0);
}

/* out (64, COLUMNS) += weights (64, 64) times v (OTHERS, COLUMNS), which begins v_first numbers into its factor, as a group of
 * products. */
template <int TYPE, int COLUMNS, int OTHERS>
DEVICE void add_swizzled(float out[COLUMNS / 8][4], const float weights[8][4], const shared_factor &v, int v_first = 0)
{
    uint32_t p[4][4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        weights_of<TYPE>(p[k], weights[2 * k], weights[2 * k + 1]);
    begin_products();
#pragma unroll
    for (int k = 0; k < 4; k++)
        multiply_shared_columns<TYPE, COLUMNS>(out, p[k], v, v_first + 16 * k * 64, OTHERS);
    end_products();
}

/* A score as a power of 2. Numbers near the lowest, which masks are made of, stay finite. */
DEVICE float in_powers_of_2(float score) { return score > LOWEST ? fmaxf(score * LOG2_E, -0x1.fffp127f) : score; }

/* So much may a row's largest score grow until what is summed is corrected: weights are then up to 2^8. */
#define MOST_RISE 8.0f

/* The results of rows row0 .. row0 + ROWS - 1. shared: HALVES_SHARED(DIMS) bytes. */
#define HALVES_SHARED(longest) (2 * (CHOOSE(longest > 128, 64, 128) + 128) * (PADDED_ROW(HALVES_PADDED(longest))))
template <class Task, int DIMS, bool PLAIN, int ROWS>
DEVICE void flash_forward(const Task &task, int row0, uint16_t *shared)
{
    constexpr int TYPE = Task::TYPE, TILES = ROWS / 64, WIDTH = PADDED_ROW(DIMS);
    constexpr bool GROUPS = BY_WARPGROUPS(TYPE);
    __shared__ uint8_t odd[KEYS_EACH]; /* keys whose values are not all finite */
    if (GROUPS)
        shared = first_tile(shared);
    uint16_t *const rows = shared, *const keys = rows + ROWS * (GROUPS ? DIMS : WIDTH);
    uint16_t *const values = keys + KEYS_EACH * (GROUPS ? DIMS : WIDTH);
    /* Of keys as the second factor tiles are read row by row, of values column by column: there they lie apart. */
    const shared_factor row_factor(rows, 16), key_factor(keys, 16), value_factor(values, KEYS_EACH * 128);
    enum { KEYS_ALIGNED = 1, VALUES_ALIGNED = 2 };
    int aligned =
        (task.keys.aligned(task.depth) ? KEYS_ALIGNED : 0) | (task.values.aligned(task.columns) ? VALUES_ALIGNED : 0);
    const int end = MIN(row0 + ROWS, task.rows), last = task.last_key(end - 1);
    const int first = task.begin(row0);
    int all_first = task.first_key(end - 1), all_last = task.last_key(row0); /* what all rows see */
    keep(aligned), keep(all_first), keep(all_last);
    const bool idle = !GROUPS && row0 + WARP * 16 >= task.rows;
    const float factor = PLAIN ? task.scale * LOG2_E : 1.0f; /* of a score, for a power of 2 */
    float scores[TILES][8][4], out[TILES][DIMS / 8][4], total[TILES][2], base[TILES][2];
    const auto row_of = [&](int m, int h) { return row0 + 64 * m + 16 * WARP + LANE / 4 + 8 * h; };
    /* Makes scores weights. */
    const auto weigh = [&](int m, int start) {
        float most[2];
        bool rises = false;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = row_of(m, h);
            if (!PLAIN || start < all_first || start + KEYS_EACH > all_last) {
                const bool there = row < task.rows;
                const int from = there ? task.first_key(row) - start : KEYS_EACH;
                const int to = there ? task.last_key(row) - start : 0;
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
            most[h] = fmaxf(largest, __shfl_xor_sync(EVERY_LANE, largest, 2)) * factor;
            rises = rises || most[h] > base[m][h] + MOST_RISE;
        }
        if (__any_sync(EVERY_LANE, rises))
#pragma unroll
            for (int h = 0; h < 2; h++) { /* of a row that rises itself: its result depends on no other row */
                const float next = most[h] > base[m][h] + MOST_RISE ? most[h] : base[m][h];
                const float correction = base[m][h] == -INFINITE ? 0.0f : power_of_2(base[m][h] - next);
                base[m][h] = next;
                total[m][h] *= correction;
#pragma unroll
                for (int n = 0; n < DIMS / 8; n++)
                    out[m][n][2 * h] *= correction, out[m][n][2 * h + 1] *= correction;
            }
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
    };
    uint32_t odd_rows = 0; /* of this lane's rows, those that see odd keys: a bit for each m and h */
    const auto note_odd = [&](int m, uint64_t any_odd) {
        if (any_odd)
            for (int h = 0; h < 2; h++)
                odd_rows |= (uint32_t)sees_odd<KEYS_EACH>(scores[m], h, any_odd) << (2 * m + h);
    };
#pragma unroll
    for (int m = 0; m < TILES; m++) {
        for (int h = 0; h < 2; h++)
            total[m][h] = 0, base[m][h] = -INFINITE;
#pragma unroll
        for (int i = 0; i < DIMS / 2; i++)
            out[m][i / 4][i % 4] = 0;
    }
    typename places_of<Task, DIMS, KEYS_EACH, Task::PAGED>::type places(task);
    places.find(first, last);
    __syncthreads(); /* the block's tile before is done */
    if (first < last) {
        task.template load<DIMS, ROWS, GROUPS>(rows, row0);
        load_rows<DIMS, KEYS_EACH, GROUPS>(keys, task.keys, first, last, task.depth, aligned & KEYS_ALIGNED, places);
        end_copies();
    }
    for (int start = first; start < last; start += KEYS_EACH) {
        const bool careful = task.hides || start < all_first || start + KEYS_EACH > all_last;
        uint64_t any_odd = 0;
        /* Values are there, keys are read. */
        const auto change = [&] {
            wait_for_copies<0>();
            show_to_products();
            __syncthreads();
            if (start + KEYS_EACH < last)
                load_rows<DIMS, KEYS_EACH, GROUPS>(keys, task.keys, start + KEYS_EACH, last, task.depth,
                                                   aligned & KEYS_ALIGNED, places);
            end_copies();
            if (!careful)
                return;
            clean_rows<TYPE, DIMS, KEYS_EACH, GROUPS>(values, odd);
            show_to_products();
            __syncthreads();
            any_odd = bits_of(odd, KEYS_EACH);
        };
        wait_for_copies<0>();
        show_to_products();
        __syncthreads();
        load_rows<DIMS, KEYS_EACH, GROUPS>(values, task.values, start, last, task.columns, aligned & VALUES_ALIGNED,
                                           places);
        end_copies();
        places.find(start + KEYS_EACH, last); /* while products of this tile are computed */
        if (careful && (int)threadIdx.x < KEYS_EACH)
            odd[threadIdx.x] = 0;
        if constexpr (GROUPS) { /* products of one tile run while weights of the other are made */
            begin_products();
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                multiply_swizzled<TYPE, DIMS, ROWS, KEYS_EACH>(scores[m], row_factor, 64 * m, key_factor);
                end_products();
            }
            wait_for_products<TILES - 1>();
            weigh(0, start);
            wait_for_products<0>();
            change();
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                if (m)
                    weigh(m, start);
                note_odd(m, any_odd);
                add_swizzled<TYPE, DIMS, KEYS_EACH>(out[m], scores[m], value_factor);
            }
            wait_for_products<0>();
        } else {
            if (!idle) {
#pragma unroll
                for (int i = 0; i < 32 * TILES; i++)
                    scores[i / 32][i / 4 % 8][i % 4] = 0;
                multiply_rows<TYPE, DIMS, TILES, KEYS_EACH, 64>(scores, rows + WARP * 16 * WIDTH, keys);
            }
            change();
            if (idle)
                continue;
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                weigh(m, start);
                note_odd(m, any_odd);
            }
            add_values<TYPE, DIMS, DIMS, TILES, KEYS_EACH>(out, scores, values);
        }
    }
    add_odd<TILES, DIMS>(out, odd_rows, task.columns, [&](int m, int h, int column) {
        const int row = row_of(m, h);
        float found = 0;
#pragma unroll 1
        for (int key = task.first_key(row); key < task.last_key(row); key++) {
            int64_t at = key;
            if constexpr (Task::PAGED)
                at = task.place(key);
            const float number = load_float(task.values.p, at * task.values.stride + column, TYPE);
            if (number - number != 0 && (PLAIN || task.score(row, key, 0.0f) != -INFINITE))
                found += number;
        }
        return found;
    });
#pragma unroll
    for (int m = 0; m < TILES && !idle; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = row_of(m, h);
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

/* ---- Gradients
 *
 * A block has rows: queries, of which it computes grad_q, or keys, of which it computes grad_k and grad_v (OF_KEYS). It goes
 * over the others, in steps of GRADIENT_OTHERS, and makes the weights again from what the forward pass left of each query:
 *     result (rows, columns) = sum over the others of grad_score(row, other) * other vector (of the query or key)
 *     grad_v = sum over the others of weight(row, other) * grad_y of the other
 * Of the others two matrices are in shared memory: first ones (the keys, or the queries) and second ones (the values, or
 * grad_y). The next first ones have a place of their own; the next second ones are loaded while products with the first ones
 * are computed. A Task says:
 *     TYPE, OF_KEYS, rows, depth, second_depth, scale, hides      as above; second_depth: of a value
 *     rows_first, rows_second, others_first, others_second        halves_matrix
 *     segments, first_step, second_step      heads whose queries share a key follow one another, so far apart
 *     numbers, all_numbers, deltas, segment_numbers    of query i of a segment: numbers[segment * segment_numbers + i], the
 *                                            second one all_numbers further, and deltas[segment * segment_numbers + i]
 *     first_other(row), last_other(row)
 *     weigh(segment, row, other, weight, grad, numbers)    not PLAIN: makes the product and the second product the weight,
 *                                            0 where the row does not see the other, and the score's gradient
 *     grad(row), second_grad(row)            where results go */
enum { NUMBERS = 3 }; /* of a query: the power of 2 of its sum, if PLAIN, else of its largest score; 1 / sum; delta */
#define GRADIENT_BY_WARPGROUPS(type, dims) (BY_WARPGROUPS(type) && (dims) <= 128)
#define GRADIENT_ROWS(type, dims, of_keys, plain)                                                                      \
    ((dims) > 128 || (of_keys) || ((dims) > 64 && !(plain)) || GRADIENT_BY_WARPGROUPS(type, dims) ? 64 : 128)
#define GRADIENT_OTHERS(type, dims, of_keys, plain)                                                                    \
    ((dims) > 128 ? 16 : GRADIENT_BY_WARPGROUPS(type, dims) ? 64 : ((dims) > 64 && !(of_keys)) || !plain ? 32 : 64)
#define GRADIENT_SHARED(longest, of_keys)                                                                              \
    (2 *                                                                                                               \
         (2 * CHOOSE(longest > 128, 64, CHOOSE(of_keys, 64, 128)) +                                                    \
          3 * CHOOSE(longest > 128, 16, CHOOSE(longest > 64, CHOOSE(of_keys, 64, 32), 64))) *                          \
         (PADDED_ROW(HALVES_PADDED(longest))) +                                                                        \
     CHOOSE(of_keys, 2 * 3 * 4 * 64, 0))
#define GRADIENT_COLUMNS(dims, of_keys) ((dims) > 128 && (of_keys) ? 128 : (dims))

template <class Task, int DIMS, bool PLAIN>
DEVICE void flash_gradient(const Task &task, int row0, int column0, uint16_t *shared)
{
    constexpr bool OF_KEYS = Task::OF_KEYS;
    constexpr int TYPE = Task::TYPE, ROWS = GRADIENT_ROWS(TYPE, DIMS, OF_KEYS, PLAIN), TILES = ROWS / 64;
    constexpr int OTHERS = GRADIENT_OTHERS(TYPE, DIMS, OF_KEYS, PLAIN), COLUMNS = GRADIENT_COLUMNS(DIMS, OF_KEYS);
    constexpr bool GROUPS = GRADIENT_BY_WARPGROUPS(TYPE, DIMS);
    constexpr int WIDTH = GROUPS ? DIMS : PADDED_ROW(DIMS);
    if (GROUPS)
        shared = first_tile(shared);
    uint16_t *const rows = shared, *const second_rows = rows + ROWS * WIDTH, *const others = second_rows + ROWS * WIDTH;
    uint16_t *const second_others = others + 2 * OTHERS * WIDTH;
    const shared_factor row_factor(rows, 16), second_row_factor(second_rows, 16);
    const shared_factor others_factor(others, 16), second_factor(second_others, 16);
    const shared_factor others_columns(others, OTHERS * 128), second_columns(second_others, OTHERS * 128);
    __shared__ uint8_t odd[64];                 /* second others that are not all finite */
    __shared__ uint8_t odd_rows[FLASH_THREADS]; /* of each thread, as in flash_forward */
    odd_rows[threadIdx.x] = 0;
    float *const numbers = (float *)(second_others + OTHERS * WIDTH); /* OF_KEYS: of the others, twice */
    enum { FIRST_ALIGNED = 1, SECOND_ALIGNED = 2 };
    int aligned = (task.others_first.aligned(task.depth) && task.first_step % 8 == 0 ? FIRST_ALIGNED : 0) |
                  (task.others_second.aligned(task.second_depth) && task.second_step % 8 == 0 ? SECOND_ALIGNED : 0);
    const int end = MIN(row0 + ROWS, task.rows), first = task.first_other(row0), last = task.last_other(end - 1);
    const int own0 = row0 + WARP * 16 * TILES, own_end = MIN(own0 + 16 * TILES, task.rows);
    const bool idle = !GROUPS && own0 >= own_end;
    int block_first = task.first_other(end - 1), block_last = task.last_other(row0); /* what all rows see */
    keep(aligned), keep(block_first), keep(block_last);
    const int own_first = idle ? 0 : task.first_other(own0), own_last = idle ? 0 : task.last_other(own_end - 1);
    const int all_first = idle ? 0 : task.first_other(own_end - 1), all_last = idle ? 0 : task.last_other(own0);
    const int each = first < last ? PARTS(last - first, OTHERS) : 0, steps = each * task.segments;
    const float factor = task.scale * LOG2_E;
    float out[TILES][COLUMNS / 8][4], second_out[OF_KEYS ? TILES : 1][OF_KEYS ? COLUMNS / 8 : 1][4];
    float of_row[TILES][2][NUMBERS];
    const auto number_at = [&](int64_t query, int i) {
        return i == 2 ? task.deltas[query] : task.numbers[query + i * task.all_numbers];
    };
#pragma unroll
    for (int m = 0; m < TILES; m++) {
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++)
            out[m][i / 4][i % 4] = 0;
#pragma unroll
        for (int i = 0; i < COLUMNS / 2 && OF_KEYS; i++)
            second_out[m][i / 4][i % 4] = 0;
#pragma unroll
        for (int i = 0; i < 2 * NUMBERS && !OF_KEYS; i++) {
            const int row = own0 + 16 * m + LANE / 4 + i / NUMBERS * 8;
            of_row[m][i / NUMBERS][i % NUMBERS] = row < task.rows ? number_at(row, i % NUMBERS) : 0.0f;
        }
    }
    int segment = 0, start = first, next_segment = 0, next_start = first; /* of a step, and of the one that is loaded */
    const auto load_first = [&](int step) {
        const halves_matrix of = {task.others_first.p + next_segment * task.first_step, task.others_first.stride};
        load_rows<DIMS, OTHERS, GROUPS>(others + step % 2 * OTHERS * WIDTH, of, next_start, last, task.depth,
                                        aligned & FIRST_ALIGNED);
    };
    const auto load_second = [&] {
        const halves_matrix of = {task.others_second.p + next_segment * task.second_step, task.others_second.stride};
        load_rows<DIMS, OTHERS, GROUPS>(second_others, of, next_start, last, task.second_depth,
                                        aligned & SECOND_ALIGNED);
    };
    /* Number i of an other, by the thread of that other. */
    const auto number_of = [&](int step, int i) {
        if (!OF_KEYS || step >= steps || (int)threadIdx.x >= OTHERS)
            return 0.0f;
        const int other = next_start + (int)threadIdx.x;
        return other < last ? number_at(next_segment * task.segment_numbers + other, i) : 0.0f;
    };
    const auto keep_number = [&](int step, int i, float number) {
        if (OF_KEYS && (int)threadIdx.x < OTHERS)
            numbers[(step % 2 * NUMBERS + i) * OTHERS + (int)threadIdx.x] = number;
    };
    __syncthreads(); /* the block's tile before is done */
    if (steps) {
        load_rows<DIMS, ROWS, GROUPS>(rows, task.rows_first, row0, task.rows, task.depth,
                                      task.rows_first.aligned(task.depth));
        load_rows<DIMS, ROWS, GROUPS>(second_rows, task.rows_second, row0, task.rows, task.second_depth,
                                      task.rows_second.aligned(task.second_depth));
        load_first(0);
        load_second();
        end_copies();
        for (int i = 0; i < NUMBERS; i++)
            keep_number(0, i, number_of(0, i));
    }
    for (int step = 0; step < steps; step++) {
        segment = next_segment, start = next_start;
        next_start += OTHERS;
        if (OF_KEYS && next_start >= last)
            next_start = first, next_segment++;
        const int these_first = step % 2 * OTHERS * WIDTH;
        uint16_t *const these = others + these_first;
        wait_for_copies<0>();
        show_to_products();
        __syncthreads();
        if (step + 1 < steps)
            load_first(step + 1);
        end_copies();
        float next[NUMBERS];
        for (int i = 0; i < NUMBERS; i++)
            next[i] = number_of(step + 1, i);
        /* In every lane of a warp. */
        const bool here = GROUPS || (start < own_last && start + OTHERS > own_first);
        const bool whole = all_first <= start && start + OTHERS <= all_last;
        float weights[TILES][OTHERS / 8][4], grads[TILES][OTHERS / 8][4];
        const bool careful = task.hides || start < block_first || start + OTHERS > block_last; /* in every thread */
        if (here) {
            if constexpr (GROUPS) {
                begin_products();
                multiply_swizzled<TYPE, DIMS, ROWS, OTHERS>(weights[0], row_factor, 0, others_factor, these_first);
                end_products();
                multiply_swizzled<TYPE, DIMS, ROWS, OTHERS>(grads[0], second_row_factor, 0, second_factor);
                end_products();
                wait_for_products<1>();
            } else {
#pragma unroll
                for (int i = 0; i < OTHERS / 2 * TILES; i++)
                    weights[i / (OTHERS / 2)][i / 4 % (OTHERS / 8)][i % 4] =
                        grads[i / (OTHERS / 2)][i / 4 % (OTHERS / 8)][i % 4] = 0;
                multiply_rows<TYPE, DIMS, TILES, OTHERS, 16>(weights, rows + WARP * 16 * TILES * WIDTH, these);
                multiply_rows<TYPE, DIMS, TILES, OTHERS, 16>(grads, second_rows + WARP * 16 * TILES * WIDTH,
                                                             second_others);
            }
            const auto number = [&](int m, int i, int k) {
                return OF_KEYS ? numbers[(step % 2 * NUMBERS + k) * OTHERS + i / 4 * 8 + LANE % 4 * 2 + i % 2]
                               : of_row[m][i % 4 / 2][k];
            };
            if (PLAIN)
#pragma unroll
                for (int m = 0; m < TILES; m++)
#pragma unroll
                    for (int i = 0; i < OTHERS / 2; i++) {
                        float &weight = weights[m][i / 4][i % 4];
                        weight = power_of_2(weight * factor - number(m, i, 0));
                    }
            if (GROUPS)
                wait_for_products<0>();
#pragma unroll
            for (int m = 0; m < TILES; m++)
#pragma unroll
                for (int i = 0; i < OTHERS / 2; i++) {
                    const int row = own0 + 16 * m + LANE / 4 + i % 4 / 2 * 8;
                    const int other = start + i / 4 * 8 + LANE % 4 * 2 + i % 2;
                    float &weight = weights[m][i / 4][i % 4], &grad = grads[m][i / 4][i % 4];
                    const float own[NUMBERS] = {number(m, i, 0), number(m, i, 1), number(m, i, 2)};
                    if (PLAIN)
                        grad = weight * (grad - own[2]);
                    else if (row < task.rows && other < last)
                        task.weigh(segment, row, other, weight, grad, own);
                    else
                        weight = grad = 0;
                }
            if (!whole)
#pragma unroll
                for (int m = 0; m < TILES; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const int row = own0 + 16 * m + LANE / 4 + 8 * h;
                        const int from = row < task.rows ? task.first_other(row) - start : OTHERS;
                        const int to = row < task.rows ? task.last_other(row) - start : 0;
#pragma unroll
                        for (int i = 0; i < OTHERS / 4; i++) {
                            const int at = i / 2 * 8 + LANE % 4 * 2 + i % 2;
                            if (at < from || at >= to)
                                weights[m][i / 2][2 * h + i % 2] = grads[m][i / 2][2 * h + i % 2] = 0;
                        }
                    }
        }
        if (careful) {
            if ((int)threadIdx.x < OTHERS)
                odd[threadIdx.x] = 0;
            __syncthreads();
            /* Where the first ones are odd, gradients of scores are NaN or 0: their sums need no note. */
            clean_rows<TYPE, DIMS, OTHERS, GROUPS>(these, nullptr);
            if (OF_KEYS)
                clean_rows<TYPE, DIMS, OTHERS, GROUPS>(second_others, odd);
            show_to_products();
            __syncthreads();
            const uint64_t any_odd = OF_KEYS ? bits_of(odd, OTHERS) : 0;
            if (any_odd && here)
                for (int i = 0; i < 2 * TILES; i++)
                    odd_rows[threadIdx.x] |= (uint8_t)(sees_odd<OTHERS>(weights[i / 2], i % 2, any_odd) << i);
        }
        if constexpr (GROUPS) {
            if constexpr (OF_KEYS)
                add_swizzled<TYPE, COLUMNS, OTHERS>(second_out[0], weights[0], second_columns);
            add_swizzled<TYPE, COLUMNS, OTHERS>(out[0], grads[0], others_columns, these_first);
            wait_for_products<1>();
        } else if constexpr (OF_KEYS) {
            if (here)
                add_values<TYPE, DIMS, COLUMNS, TILES, OTHERS>(second_out, weights, second_others + column0);
        }
        for (int i = 0; i < NUMBERS; i++)
            keep_number(step + 1, i, next[i]);
        __syncthreads();
        if (step + 1 < steps)
            load_second();
        end_copies();
        if constexpr (GROUPS)
            wait_for_products<0>();
        else if (here)
            add_values<TYPE, DIMS, COLUMNS, TILES, OTHERS>(out, grads, these + column0);
    }
    if (idle)
        return;
    if constexpr (OF_KEYS)
        add_odd<TILES, COLUMNS>(
            second_out, odd_rows[threadIdx.x], task.second_depth - column0, [&](int m, int h, int column) {
                const int row = own0 + 16 * m + LANE / 4 + 8 * h;
                float found = 0;
#pragma unroll 1
                for (int segment = 0; segment < task.segments; segment++)
#pragma unroll 1
                    for (int other = task.first_other(row); other < task.last_other(row); other++) {
                        const uint16_t *const from = task.others_second.p + segment * task.second_step;
                        const float number =
                            load_float(from, other * task.others_second.stride + column0 + column, TYPE);
                        found +=
                            number - number != 0 ? number : 0.0f; /* what a mask hides too: to ask takes registers */
                    }
                return found;
            });
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = own0 + 16 * m + LANE / 4 + 8 * h;
            if (row >= task.rows)
                continue;
            if (task.depth > column0)
                store_row<TYPE, COLUMNS>(task.grad(row) + column0, task.depth - column0, PLAIN ? task.scale : 1.0f,
                                         out[m], h);
            if constexpr (OF_KEYS)
                if (task.second_depth > column0)
                    store_row<TYPE, COLUMNS>(task.second_grad(row) + column0, task.second_depth - column0, 1.0f,
                                             second_out[m], h);
        }
}

/* Units are batch entries' heads. Blocks begin with the most work: of the rows that see the most where attention is causal,
 * the last queries and the first keys, of as many units as the cache of the card keeps the others of. */
enum { UNITS_TOGETHER = 16 };
struct unit_and_tile {
    int64_t unit, tile;
    DEVICE_MEMBER unit_and_tile(int64_t i, int64_t units, int64_t tiles, bool last_first)
    {
        const int64_t group = i / (UNITS_TOGETHER * tiles), first = group * UNITS_TOGETHER;
        const int64_t together = smaller(units - first, UNITS_TOGETHER), at = i - first * tiles;
        unit = first + at % together;
        tile = last_first ? tiles - 1 - at / together : at / together;
    }
};
#endif
