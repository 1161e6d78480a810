/* Attention of whole sequences in 16 bits for heads of 128, without a mask, by two warpgroups of a block (sm_90a). What it
 * computes is what flash_forward of flash_halves.h computes; the order of work is nearer to FlashAttention-3 (Shah et al. 2024,
 * arXiv 2407.08608).
 *
 * A block has 256 rows (queries), each warpgroup 128 of them as two tiles of 64. So what is loaded of the keys and values
 * serves twice as many rows as there: of the second cache's bandwidth it takes half. Keys and values have three places in
 * shared memory: while products read those of a tile, the next ones are on their way, and the last product of the tile before
 * may still run. So there is one barrier for 64 keys. Of a warpgroup, in this order, the products of its tiles 0 and 1:
 *     scores 0, scores 1 | weights 0, while scores 1 run | result 0 | weights 1, while result 0 runs | result 1
 * and the next scores 0 are asked for before result 1 is done. */
#include "flash_halves.h"

enum {
    PAIR_THREADS = 256,
    PAIR_ROWS = 256,
    GROUP_ROWS = 128,
    PAIR_DIMS = 128,
    STAGES = 3,
    STAGE = KEYS_EACH * PAIR_DIMS
};
/* The rows, STAGES times keys and values, and what first_tile skips. */
#define PAIR_SHARED (2 * 128 * (256 + 3 * 2 * 64) + 1024)

/* A thread may have all 255 registers: one block runs on a multiprocessor. */
#undef KERNEL
#define KERNEL(name, blocks, threads, shared)                                                                          \
    extern "C" __global__ void __launch_bounds__(threads, 1)                                                           \
        name(GRID_CONSTANT launch record, int32_t *status, unsigned char *)

/* A batch entry's head. */
struct pair_task {
    int tokens, keys;
    int64_t before, after, y_stride;
    float scale;
    halves_matrix q, k, v;
    uint16_t *y;
    float *numbers, *inverses; /* of the first query: what the gradient reads; NULL: not wanted */

    DEVICE_MEMBER pair_task(const launch &record, int64_t batch, int64_t head)
    {
        const int64_t *d = record.dims, heads = d[masked_attention_pairs_heads];
        const int64_t kv_head = head / (heads / d[masked_attention_pairs_kv_heads]);
        const int64_t all = d[masked_attention_pairs_batch] * heads * d[masked_attention_pairs_tokens];
        tokens = (int)d[masked_attention_pairs_tokens], keys = (int)d[masked_attention_pairs_keys];
        before = d[masked_attention_pairs_before], after = d[masked_attention_pairs_after];
        scale = record.floats[masked_attention_pairs_scale];
        q = of(record.pointers[masked_attention_pairs_q], d[masked_attention_pairs_q_batch],
               d[masked_attention_pairs_q_token], batch, head);
        k = of(record.pointers[masked_attention_pairs_k], d[masked_attention_pairs_k_batch],
               d[masked_attention_pairs_k_token], batch, kv_head);
        v = of(record.pointers[masked_attention_pairs_v], d[masked_attention_pairs_v_batch],
               d[masked_attention_pairs_v_token], batch, kv_head);
        y_stride = heads * PAIR_DIMS;
        y = (uint16_t *)record.pointers[masked_attention_pairs_y] + batch * tokens * y_stride + head * PAIR_DIMS;
        numbers = (float *)record.pointers[masked_attention_pairs_workspace];
        if (d[masked_attention_pairs_workspaces] != 2) /* KEPT of attention_train.cu */
            numbers = nullptr;
        if (numbers)
            numbers += (batch * heads + head) * tokens;
        inverses = numbers ? numbers + all : nullptr;
    }
    static DEVICE_MEMBER halves_matrix of(const void *p, int64_t batch_stride, int64_t stride, int64_t batch,
                                          int64_t head)
    {
        return halves_matrix{(const uint16_t *)p + batch * batch_stride + head * PAIR_DIMS, stride};
    }
    DEVICE_MEMBER int first_key(int row) const { return (int)smaller(row > before ? row - before : 0, keys); }
    DEVICE_MEMBER int last_key(int row) const { return after >= keys - 1 - row ? keys : (int)MAX(row + after + 1, 0); }
};

/* For all threads of the block: COUNT rows, of which `there` are there and the others zeros. A thread copies some of them from
 * `from` on, 16 bytes of each, to `to`: of_thread says where both begin. */
template <int COUNT> DEVICE void load_by_pair(uint16_t *to, const uint16_t *from, int stride, int there)
{
    constexpr int PIECES = PAIR_DIMS / 8, STEP = PAIR_THREADS / PIECES;
    static_assert(STEP % 8 == 0, "all rows of a thread are swizzled alike");
    const int row = (int)threadIdx.x / PIECES;
#pragma unroll
    for (int i = 0; i < COUNT / STEP; i++) {
        start_copy(to, from, row + i * STEP < there);
        from += (int64_t)STEP * stride;
        to += STEP * SWIZZLED_COLUMNS;
    }
}
template <int COUNT> DEVICE int of_thread()
{
    return place_of_number<PAIR_DIMS, COUNT, true>((int)threadIdx.x / (PAIR_DIMS / 8),
                                                   (int)threadIdx.x % (PAIR_DIMS / 8) * 8);
}
DEVICE const uint16_t *of_thread(const halves_matrix &of, int first)
{
    return of.p + (first + (int)threadIdx.x / (PAIR_DIMS / 8)) * of.stride + (int)threadIdx.x % (PAIR_DIMS / 8) * 8;
}

/* The largest or the sum of 16 numbers of a row: four chains, each of which waits for itself alone. */
template <class F> DEVICE float among_16(const float scores[8][4], int h, F combine)
{
    float found[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        found[i] = combine(scores[i / 2][2 * h + i % 2], scores[2 + i / 2][2 * h + i % 2]);
#pragma unroll
    for (int i = 8; i < 16; i++)
        found[i % 4] = combine(found[i % 4], scores[i / 2][2 * h + i % 2]);
    return combine(combine(found[0], found[1]), combine(found[2], found[3]));
}

/* The results of rows row0 .. row0 + PAIR_ROWS - 1. */
template <int TYPE> DEVICE void attend_pair(const pair_task &task, int row0, uint16_t *shared)
{
    __shared__ uint8_t odd[2][KEYS_EACH]; /* of a tile and the next: keys whose values are not all finite */
    uint16_t *const rows = first_tile(shared), *const keys = rows + PAIR_ROWS * PAIR_DIMS;
    uint16_t *const values = keys + STAGES * STAGE;
    const shared_factor row_factor(rows, 16), key_factor(keys, 16), value_factor(values, KEYS_EACH * 128);
    const int group = __shfl_sync(EVERY_LANE, WARP / 4, 0); /* so that the compiler sees that lanes have the same */
    const int own0 = row0 + GROUP_ROWS * group;
    const int end = MIN(row0 + PAIR_ROWS, task.tokens), own_end = MIN(own0 + GROUP_ROWS, task.tokens);
    const int first = task.first_key(row0), last = task.last_key(end - 1);
    const int all_first = task.first_key(end - 1), all_last = task.last_key(row0); /* what all rows see */
    const int own_first = task.first_key(MAX(own_end - 1, 0)),
              own_last = task.last_key(own0); /* all of the warpgroup's */
    const float factor = task.scale * LOG2_E; /* of a score, for a power of 2 */
    float scores[2][8][4], out[2][PAIR_DIMS / 8][4], total[2][2], base[2][2];
    const auto row_of = [&](int m, int h) { return own0 + 64 * m + 16 * (WARP % 4) + LANE / 4 + 8 * h; };
    /* Makes scores weights. */
    const auto weigh = [&](int m, int start) {
        float most[2];
        bool rises = false;
        if (start < own_first || start + KEYS_EACH > own_last)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int row = row_of(m, h);
                const bool there = row < task.tokens;
                const int from = there ? task.first_key(row) - start : KEYS_EACH;
                const int to = there ? task.last_key(row) - start : 0;
#pragma unroll
                for (int i = 0; i < 16; i++) {
                    const int key = i / 2 * 8 + LANE % 4 * 2 + i % 2;
                    if (key < from || key >= to)
                        scores[m][i / 2][2 * h + i % 2] = -INFINITE;
                }
            }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float largest = among_16(scores[m], h, [](float a, float b) { return fmaxf(a, b); });
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
                for (int n = 0; n < PAIR_DIMS / 8; n++)
                    out[m][n][2 * h] *= correction, out[m][n][2 * h + 1] *= correction;
            }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float least = base[m][h] == -INFINITE ? 0.0f : base[m][h];
#pragma unroll
            for (int i = 0; i < 16; i++) {
                float &score = scores[m][i / 2][2 * h + i % 2];
                score = power_of_2(score * factor - least);
            }
            total[m][h] += among_16(scores[m], h, Sum());
        }
    };
    uint32_t odd_rows = 0; /* of this lane's rows, those that see odd keys: a bit for each m and h */
    const auto note_odd = [&](int m, uint64_t any_odd) {
        if (any_odd)
            for (int h = 0; h < 2; h++)
                odd_rows |= (uint32_t)sees_odd<KEYS_EACH>(scores[m], h, any_odd) << (2 * m + h);
    };
#pragma unroll
    for (int m = 0; m < 2; m++) {
        for (int h = 0; h < 2; h++)
            total[m][h] = 0, base[m][h] = -INFINITE;
#pragma unroll
        for (int i = 0; i < PAIR_DIMS / 2; i++)
            out[m][i / 4][i % 4] = 0;
    }
    __syncthreads();                                          /* the block's tile before is done */
    uint16_t *const own_keys = keys + of_thread<KEYS_EACH>(); /* STAGES * STAGE before the values */
    const int k_stride = (int)task.k.stride, v_stride = (int)task.v.stride;
    const uint16_t *k = of_thread(task.k, first), *v = of_thread(task.v, first);
    const auto load = [&](int stage, int there) {
        load_by_pair<KEYS_EACH>(own_keys + stage, k, k_stride, there);
        load_by_pair<KEYS_EACH>(own_keys + STAGES * STAGE + stage, v, v_stride, there);
        k += (int64_t)KEYS_EACH * k_stride, v += (int64_t)KEYS_EACH * v_stride;
    };
    if (first < last) {
        load_by_pair<PAIR_ROWS>(rows + of_thread<PAIR_ROWS>(), of_thread(task.q, row0), (int)task.q.stride,
                                task.tokens - row0);
        load(0, last - first);
        end_copies();
    }
    int stage = 0; /* where the tile's keys and values begin, in numbers */
    for (int start = first, parity = 0; start < last; start += KEYS_EACH, parity ^= 1) {
        const bool careful = start < all_first || start + KEYS_EACH > all_last; /* in every thread of the block */
        if (careful && (int)threadIdx.x < KEYS_EACH)
            odd[parity][threadIdx.x] = 0;
        wait_for_copies<0>();
        show_to_products();
        __syncthreads(); /* the tile is there, and no product reads the one before the last */
        const int next = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
        if (start + KEYS_EACH < last)
            load(next, last - start - KEYS_EACH);
        end_copies();
        uint64_t any_odd = 0;
        if (careful) {
            if (group == 0) /* clean_rows is for 128 threads */
                clean_rows<TYPE, PAIR_DIMS, KEYS_EACH, true>(values + stage, odd[parity]);
            show_to_products();
            __syncthreads();
            any_odd = bits_of(odd[parity], KEYS_EACH);
        }
        begin_products();
        multiply_swizzled<TYPE, PAIR_DIMS, PAIR_ROWS, KEYS_EACH>(scores[0], row_factor, GROUP_ROWS * group, key_factor,
                                                                 stage);
        end_products();
        multiply_swizzled<TYPE, PAIR_DIMS, PAIR_ROWS, KEYS_EACH>(scores[1], row_factor, GROUP_ROWS * group + 64,
                                                                 key_factor, stage);
        end_products();
#pragma unroll
        for (int m = 0; m < 2; m++) {
            wait_for_products<1>(); /* scores m */
            weigh(m, start);
            note_odd(m, any_odd);
            add_swizzled<TYPE, PAIR_DIMS, KEYS_EACH>(out[m], scores[m], value_factor, stage);
        }
        wait_for_products<0>();
        stage = next;
    }
    add_odd<2, PAIR_DIMS>(out, odd_rows, PAIR_DIMS, [&](int m, int h, int column) {
        const int row = row_of(m, h);
        float found = 0;
#pragma unroll 1
        for (int key = task.first_key(row); key < task.last_key(row); key++) {
            const float number = load_float(task.v.p, key * task.v.stride + column, TYPE);
            found += number - number != 0 ? number : 0.0f;
        }
        return found;
    });
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = row_of(m, h);
            const float sum = among<4>(total[m][h], Sum());
            if (row >= task.tokens)
                continue;
            float inverse = sum != 0 ? 1.0f / sum : 0.0f;
            /* A row whose every score is -inf is NaN, one that sees nothing 0. */
            if (base[m][h] == -INFINITE && task.first_key(row) < task.last_key(row))
                inverse = NOT_A_NUMBER;
            if (task.numbers && LANE % 4 == 0) {
                task.numbers[row] = inverse == 0 ? INFINITE : base[m][h] - log2f(inverse);
                task.inverses[row] = inverse;
            }
            store_row<TYPE, PAIR_DIMS>(task.y + row * task.y_stride, PAIR_DIMS, inverse, out[m], h);
        }
}

DEVICE bool is_wrong(const launch &record)
{
    const int64_t *d = record.dims;
    const uint64_t places = (uint64_t)record.pointers[masked_attention_pairs_q] |
                            (uint64_t)record.pointers[masked_attention_pairs_k] |
                            (uint64_t)record.pointers[masked_attention_pairs_v];
    const int64_t strides = d[masked_attention_pairs_q_batch] | d[masked_attention_pairs_q_token] |
                            d[masked_attention_pairs_k_batch] | d[masked_attention_pairs_k_token] |
                            d[masked_attention_pairs_v_batch] | d[masked_attention_pairs_v_token];
    const int64_t strides_of_tokens =
        d[masked_attention_pairs_q_token] | d[masked_attention_pairs_k_token] | d[masked_attention_pairs_v_token];
    const int64_t heads = d[masked_attention_pairs_heads], kv_heads = d[masked_attention_pairs_kv_heads];
    return !HAS_WARPGROUPS || kv_heads <= 0 || heads % kv_heads || d[masked_attention_pairs_keys] <= 0 ||
           d[masked_attention_pairs_head_dim] != PAIR_DIMS || d[masked_attention_pairs_value_dim] != PAIR_DIMS ||
           places % 16 != 0 || strides % 8 != 0 || record.pointers[masked_attention_pairs_mask] ||
           !d[masked_attention_pairs_plain] || !type_in((int)d[masked_attention_pairs_type], TYPES_HALF) ||
           (uint64_t)strides_of_tokens > INT32_MAX || d[masked_attention_pairs_tokens] > INT32_MAX / 2 ||
           d[masked_attention_pairs_keys] > INT32_MAX / 2;
}

KERNEL(masked_attention_pairs, CHOOSE(MIN(batch, MIN(heads, tokens)) < 0, -1, batch *heads *PARTS(tokens, 256)), 256,
       PAIR_SHARED)
{
    DYNAMIC_SHARED(uint16_t, shared);
    wait_for_kernels();
    if (is_wrong(record)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int64_t heads = record.dims[masked_attention_pairs_heads];
    const int64_t units = record.dims[masked_attention_pairs_batch] * heads;
    const int64_t tiles = PARTS(record.dims[masked_attention_pairs_tokens], PAIR_ROWS);
    FOR_EACH_BLOCK(i, units * tiles)
    {
        const unit_and_tile at(i, units, tiles, true);
        const pair_task task(record, at.unit / heads, at.unit % heads);
        if (record.dims[masked_attention_pairs_type] == TYPE_bfloat16)
            attend_pair<TYPE_bfloat16>(task, (int)at.tile * PAIR_ROWS, shared);
        else
            attend_pair<TYPE_float16>(task, (int)at.tile * PAIR_ROWS, shared);
    }
}
