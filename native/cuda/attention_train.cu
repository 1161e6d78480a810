/* Attention of whole sequences and its gradient (flash.h). Nothing is saved between forward and backward.
 *
 * With P = softmax(scores), G = grad_y and delta = sum(G * y): grad_v = P' G, grad_scores = P * (G v' - delta). Backward
 * makes y and the largest score and sum of each row again, in scratch memory, then delta, then each gradient. */
#include "flash_halves.h"

enum { NUMBERS = 3 }; /* of a query: its largest score, 1 / sum, delta */

struct problem {
    const void *q, *k, *v, *mask, *grad_y;
    float *numbers;
    int64_t batch, tokens, keys, heads, kv_heads, head_dim, value_dim;
    int64_t q_batch, q_token, k_batch, k_token, v_batch, v_token, before, after;
    int64_t mask_batch, mask_head, mask_token, mask_key;
    int64_t workspaces;
    int type, mask_type;
    float scale, softcap; /* with a softcap, scale is divided by it */
};

DEVICE problem problem_of(const launch &record, int first)
{
    const int64_t *d = record.dims;
    problem p;
    p.q = record.pointers[first];
    p.k = record.pointers[first + 1];
    p.v = record.pointers[first + 2];
    p.grad_y = nullptr;
    p.mask = nullptr;
    p.numbers = nullptr;
    p.batch = d[masked_attention_batch];
    p.tokens = d[masked_attention_tokens];
    p.keys = d[masked_attention_keys];
    p.heads = d[masked_attention_heads];
    p.kv_heads = d[masked_attention_kv_heads];
    p.head_dim = d[masked_attention_head_dim];
    p.value_dim = d[masked_attention_value_dim];
    p.q_batch = d[masked_attention_q_batch];
    p.q_token = d[masked_attention_q_token];
    p.k_batch = d[masked_attention_k_batch];
    p.k_token = d[masked_attention_k_token];
    p.v_batch = d[masked_attention_v_batch];
    p.v_token = d[masked_attention_v_token];
    p.before = d[masked_attention_before];
    p.after = d[masked_attention_after];
    p.mask_batch = d[masked_attention_mask_batch];
    p.mask_head = d[masked_attention_mask_head];
    p.mask_token = d[masked_attention_mask_token];
    p.mask_key = d[masked_attention_mask_key];
    p.workspaces = d[masked_attention_workspaces];
    p.type = (int)d[masked_attention_type];
    p.mask_type = (int)d[masked_attention_mask_type];
    p.softcap = record.floats[masked_attention_softcap];
    p.scale = record.floats[masked_attention_scale] / (p.softcap != 0 ? p.softcap : 1.0f);
    return p;
}

DEVICE bool is_bad(const problem &p)
{
    const uint32_t kinds = TYPES_HALF | BIT(TYPE_float32);
    return p.kv_heads <= 0 || p.heads % p.kv_heads || p.keys <= 0 || p.head_dim <= 0 || p.value_dim <= 0 ||
           p.workspaces <= 0 || !type_in(p.type, kinds) || !type_in(p.mask_type, kinds | BIT(TYPE_bool)) ||
           p.head_dim > 4096 || p.value_dim > 4096;
}

DEVICE int64_t q_at(const problem &p, int64_t batch, int64_t token, int64_t head)
{
    return batch * p.q_batch + token * p.q_token + head * p.head_dim;
}
DEVICE int64_t k_at(const problem &p, int64_t batch, int64_t key, int64_t kv_head)
{
    return batch * p.k_batch + key * p.k_token + kv_head * p.head_dim;
}
DEVICE int64_t v_at(const problem &p, int64_t batch, int64_t key, int64_t kv_head)
{
    return batch * p.v_batch + key * p.v_token + kv_head * p.value_dim;
}
DEVICE int64_t query_row(const problem &p, int64_t batch, int64_t token, int64_t head)
{
    return (batch * p.tokens + token) * p.heads + head;
}

/* Keys first .. last - 1 are near enough to a token; likewise tokens to a key. */
DEVICE int64_t first_key(const problem &p, int64_t token) { return token > p.before ? token - p.before : 0; }
DEVICE int64_t last_key(const problem &p, int64_t token)
{
    return p.after >= p.keys - 1 - token ? p.keys : MAX(token + p.after + 1, 0);
}
DEVICE int64_t first_token(const problem &p, int64_t key) { return key > p.after ? key - p.after : 0; }
DEVICE int64_t last_token(const problem &p, int64_t key)
{
    return p.before >= p.tokens - 1 - key ? p.tokens : MAX(key + p.before + 1, 0);
}

/* A score with what the mask adds; -inf where the token does not see the key. */
DEVICE float masked(const problem &p, int64_t batch, int64_t head, int64_t token, int64_t key, float score)
{
    if (!p.mask)
        return score;
    const int64_t at = batch * p.mask_batch + head * p.mask_head + token * p.mask_token + key * p.mask_key;
    if (p.mask_type == TYPE_bool)
        return ((const uint8_t *)p.mask)[at] ? score : -INFINITE;
    return score + load_float(p.mask, at, p.mask_type);
}

/* tanh(x) within 1e-7, in few instructions because loops over it are unrolled; and its derivative. */
DEVICE float capped(float x)
{
    const float e = exponential(-2 * fabsf(x)), tanh = (1 - e) / (1 + e);
    return x < 0 ? -tanh : tanh;
}
DEVICE float slope_of_capped(float x)
{
    const float e = exponential(-2 * fabsf(x));
    return 4 * e / ((1 + e) * (1 + e));
}

enum pass { FORWARD, AGAIN, GRAD_Q, GRAD_K, GRAD_V }; /* AGAIN: forward, to scratch memory */

/* What a block computes for one batch entry and head: of the queries, or of the keys for GRAD_K and GRAD_V. */
template <int ELEMENTS, int PASS> struct whole_attention {
    static constexpr bool ONLINE = PASS == FORWARD || PASS == AGAIN, SECOND = PASS == GRAD_Q || PASS == GRAD_K;
    static constexpr bool OF_KEYS = PASS == GRAD_K || PASS == GRAD_V;
    static constexpr int TYPE = ELEMENTS, TERMS = 1;
    const problem &p;
    void *to;            /* y or a gradient */
    float *again;        /* y in float32 */
    int64_t batch, head; /* OF_KEYS: the first head of the group */
    int64_t kv_head, own_head, rows, depth, second_depth, columns, segments;
    halves_matrix rows_first, rows_second, others_first, others_second, values;

    DEVICE_MEMBER whole_attention(const problem &of, void *y, float *scratch, int64_t batch_, int64_t head_)
        : p(of), to(y), again(scratch), batch(batch_), own_head(head_)
    {
        const int64_t group = p.heads / p.kv_heads;
        kv_head = OF_KEYS ? own_head : own_head / group;
        head = OF_KEYS ? own_head * group : own_head;
        segments = OF_KEYS ? group : 1;
        rows = OF_KEYS ? p.keys : p.tokens;
        depth = p.head_dim;
        second_depth = p.value_dim;
        columns = SECOND ? p.head_dim : p.value_dim;
        const uint16_t *q = (const uint16_t *)p.q, *k = (const uint16_t *)p.k, *v = (const uint16_t *)p.v;
        const halves_matrix queries = {q + q_at(p, batch, 0, head), p.q_token};
        const halves_matrix grads = {(const uint16_t *)p.grad_y + query_row(p, batch, 0, head) * p.value_dim,
                                     p.heads * p.value_dim};
        const halves_matrix keys = {k + k_at(p, batch, 0, kv_head), p.k_token};
        const halves_matrix of_values = {v + v_at(p, batch, 0, kv_head), p.v_token};
        rows_first = OF_KEYS ? keys : queries;
        rows_second = OF_KEYS ? of_values : grads;
        others_first = OF_KEYS ? queries : keys;
        others_second = OF_KEYS ? grads : of_values;
        values = PASS == GRAD_V ? grads : SECOND ? others_first : of_values;
    }
    DEVICE_MEMBER void select(int64_t segment)
    {
        if (OF_KEYS && segment) {
            head++;
            others_first.p += p.head_dim;
            others_second.p += p.value_dim;
            values.p += columns;
        }
    }
    DEVICE_MEMBER void range(int64_t row, int64_t last_row, int64_t *first, int64_t *last) const
    {
        *first = OF_KEYS ? first_token(p, row) : first_key(p, row);
        *last = OF_KEYS ? last_token(p, last_row) : last_key(p, last_row);
    }
    DEVICE_MEMBER bool whole(int64_t row, int64_t last_row, int64_t other, int64_t last_other) const
    {
        if (p.mask)
            return false;
        return OF_KEYS ? first_token(p, last_row) <= other && last_other < last_token(p, row)
                       : first_key(p, last_row) <= other && last_other < last_key(p, row);
    }
    DEVICE_MEMBER float score(int64_t row, int64_t other, float product, bool sees_all) const
    {
        const int64_t token = OF_KEYS ? other : row, key = OF_KEYS ? row : other;
        if (!sees_all && (key < first_key(p, token) || key >= last_key(p, token)))
            return -INFINITE;
        const float scaled = product * p.scale;
        const float found = seen(p.softcap != 0 ? p.softcap * capped(scaled) : scaled);
        return sees_all ? found : masked(p, batch, head, token, key, found);
    }
    DEVICE_MEMBER float weight(int64_t row, int64_t other, float score, float product, float second) const
    {
        const float *own = p.numbers + NUMBERS * query_row(p, batch, OF_KEYS ? other : row, head);
        const float weight = exponential(score - own[0]) * own[1];
        if (PASS == GRAD_V)
            return weight;
        float factor = p.scale;
        if (p.softcap != 0)
            factor *= p.softcap * slope_of_capped(product * p.scale);
        return weight * (second - own[2]) * factor;
    }
    template <bool OF_SECOND> DEVICE_MEMBER float query_at(int64_t token, int64_t column) const
    {
        return OF_SECOND ? load_float(p.grad_y, query_row(p, batch, token, head) * p.value_dim + column, p.type)
                         : load_float(p.q, q_at(p, batch, token, head) + column, p.type);
    }
    template <bool OF_SECOND> DEVICE_MEMBER float key_at(int64_t key, int64_t column) const
    {
        return OF_SECOND ? load_float(p.v, v_at(p, batch, key, kv_head) + column, p.type)
                         : load_float(p.k, k_at(p, batch, key, kv_head) + column, p.type);
    }
    template <bool OF_SECOND> DEVICE_MEMBER float row_at(int64_t row, int64_t column) const
    {
        return OF_KEYS ? key_at<OF_SECOND>(row, column) : query_at<OF_SECOND>(row, column);
    }
    template <bool OF_SECOND> DEVICE_MEMBER float other_at(int64_t other, int64_t column) const
    {
        return OF_KEYS ? query_at<OF_SECOND>(other, column) : key_at<OF_SECOND>(other, column);
    }
    DEVICE_MEMBER float value_at(int64_t other, int64_t column) const
    {
        return PASS == GRAD_V ? query_at<true>(other, column)
               : SECOND       ? other_at<false>(other, column)
                              : key_at<true>(other, column);
    }
    DEVICE_MEMBER void state(int64_t row, const softmax_state &s) const
    {
        if (PASS != AGAIN)
            return;
        float *own = p.numbers + NUMBERS * query_row(p, batch, row, head);
        own[0] = s.largest;
        own[1] = s.inverse();
    }
    DEVICE_MEMBER void result(int64_t row, int64_t column, float value) const
    {
        const int64_t at = OF_KEYS ? ((batch * p.keys + row) * p.kv_heads + kv_head) * columns + column
                                   : query_row(p, batch, row, head) * columns + column;
        if (PASS == AGAIN)
            again[at] = value;
        else
            store_float(to, at, p.type, value);
    }
};

DEVICE bool is_plain(const problem &p) { return !p.mask && p.softcap == 0 && p.scale > 0; }

/* What a block computes of the queries of one batch entry and head, by tensor cores. */
template <int ELEMENTS, int PASS> struct halves_forward {
    static constexpr int TYPE = ELEMENTS;
    const problem &p;
    void *y;
    int64_t batch, head;
    int rows, depth, columns;
    halves_matrix queries, keys, values;
    float scale;
    bool hides;

    DEVICE_MEMBER halves_forward(const problem &of, void *to, int64_t batch_, int64_t head_)
        : p(of), y(to), batch(batch_), head(head_), rows((int)of.tokens), depth((int)of.head_dim),
          columns((int)of.value_dim), scale(of.scale)
    {
        const int64_t kv_head = head / (p.heads / p.kv_heads);
        queries = halves_matrix{(const uint16_t *)p.q + q_at(p, batch, 0, head), p.q_token};
        keys = halves_matrix{(const uint16_t *)p.k + k_at(p, batch, 0, kv_head), p.k_token};
        values = halves_matrix{(const uint16_t *)p.v + v_at(p, batch, 0, kv_head), p.v_token};
        hides = p.mask;
    }
    DEVICE_MEMBER int first_key(int row) const { return (int)::first_key(p, row); }
    DEVICE_MEMBER int last_key(int row) const { return (int)::last_key(p, row); }
    template <int DIMS, int COUNT> DEVICE_MEMBER void load(uint16_t *to, int row) const
    {
        load_rows<DIMS, COUNT>(to, queries, row, rows, depth, queries.aligned(depth));
    }
    DEVICE_MEMBER float score(int row, int key, float product) const
    {
        const float scaled = product * p.scale;
        return masked(p, batch, head, row, key, seen(p.softcap != 0 ? p.softcap * capped(scaled) : scaled));
    }
    template <int DIMS>
    DEVICE_MEMBER void finish(int row, bool there, float base, float inverse, const float out[DIMS / 8][4], int h) const
    {
        uint16_t *const to = (uint16_t *)y + query_row(p, batch, row, head) * columns;
        if (there)
            store_row<TYPE, DIMS>(to, columns, inverse, out, h);
    }
};

#define WHOLE_BLOCKS(rows, heads, columns) batch *heads *PARTS(rows, 64) * MAX(1, PARTS(columns, 128))
#define FORWARD_SHARED                                                                                                 \
    MAX(FLOATS_SHARED, CHOOSE(type == TYPE_float32, 0, 128 * (2 * (HALVES_ROW(head_dim)) + HALVES_ROW(value_dim))))
#define GRADIENT_SHARED                                                                                                \
    MAX(FLOATS_SHARED, CHOOSE(type == TYPE_float32, 0,                                                                 \
                              128 * (2 * (HALVES_ROW(head_dim)) + 2 * (HALVES_ROW(value_dim)) +                        \
                                     CHOOSE(head_dim > 128, HALVES_ROW(head_dim), 0))))

#define TILE_CLASS CHOOSE(type == TYPE_float32, 0, HALVES_CLASS(MAX(head_dim, value_dim)))
VARIANT(masked_attention, 4 * type + TILE_CLASS)
VARIANT(masked_attention_backward, type)
#define COMPILED_TYPE(type) COMPILED(VARIED == TYPE_##type)
#ifdef ONLY_masked_attention
#define COMPILED_BACKWARD 0
#else
#define COMPILED_BACKWARD 1
#endif
#ifdef ONLY_masked_attention_backward
#define COMPILED_FORWARD 0
#else
#define COMPILED_FORWARD 1
#endif

template <int PASS> DEVICE void attend(const problem &p, void *to, float *again, float *shared)
{
    const bool of_keys = PASS == GRAD_K || PASS == GRAD_V;
    const int64_t heads = of_keys ? p.kv_heads : p.heads, tiles = PARTS(of_keys ? p.keys : p.tokens, FLASH_ROWS);
    const int64_t chunks = PARTS(PASS == GRAD_Q || PASS == GRAD_K ? p.head_dim : p.value_dim, FLASH_COLUMNS);
    FOR_EACH_BLOCK(i, p.batch * heads * tiles * chunks)
    {
        const int64_t chunk = i % chunks, at = i / chunks % tiles, unit = i / chunks / tiles;
        const int64_t row = (of_keys ? at : tiles - 1 - at) * FLASH_ROWS; /* causal: the longest first */
#define TILE_OF(type, function, memory)                                                                                \
    {                                                                                                                  \
        whole_attention<type, PASS> task(p, to, again, unit / heads, unit % heads);                                    \
        function(task, row, chunk *FLASH_COLUMNS, memory);                                                             \
    }
        if (HAS_TENSOR_CORES && COMPILED_TYPE(float16) && p.type == TYPE_float16)
            TILE_OF(TYPE_float16, flash_halves, (uint16_t *)shared)
        else if (HAS_TENSOR_CORES && COMPILED_TYPE(bfloat16) && p.type == TYPE_bfloat16)
            TILE_OF(TYPE_bfloat16, flash_halves, (uint16_t *)shared)
        else if (!HAS_TENSOR_CORES || COMPILED_TYPE(float32))
            TILE_OF(TYPE_float32, flash_floats, shared)
    }
}

template <class Task, int DIMS, bool PLAIN> DEVICE void attend_halves(const problem &p, void *y, uint16_t *shared)
{
    constexpr int ROWS = FORWARD_ROWS(DIMS, PLAIN);
    const int64_t units = p.batch * p.heads, tiles = PARTS(p.tokens, ROWS);
    FOR_EACH_BLOCK(i, units * tiles)
    {
        const unit_and_tile at(i, units, tiles);
        const Task task(p, y, at.unit / p.heads, at.unit % p.heads);
        flash_forward<Task, DIMS, PLAIN>(task, (int)at.tile * ROWS, shared);
    }
}

#define LONGEST MAX(head_dim, value_dim)
KERNEL(masked_attention,
       CHOOSE(TILE_CLASS == 0, WHOLE_BLOCKS(tokens, heads, value_dim),
              batch *heads *PARTS(tokens, HALVES_ROWS(LONGEST))),
       128, CHOOSE(TILE_CLASS == 0, FLOATS_SHARED, MAX(FLOATS_SHARED, HALVES_SHARED(LONGEST))))
{
    DYNAMIC_SHARED(float, shared);
    problem p = problem_of(record, masked_attention_q);
    p.mask = record.pointers[masked_attention_mask];
    if (is_bad(p)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    void *const y = record.pointers[masked_attention_y];
    const int type = p.type;
    const int64_t head_dim = p.head_dim, value_dim = p.value_dim;
#define HALVES(kind, dims, number)                                                                                     \
    if (COMPILED(VARIED == 4 * TYPE_##kind + number) && p.type == TYPE_##kind && TILE_CLASS == number)                 \
        is_plain(p) ? attend_halves<halves_forward<TYPE_##kind, FORWARD>, dims, true>(p, y, (uint16_t *)shared)        \
                    : attend_halves<halves_forward<TYPE_##kind, FORWARD>, dims, false>(p, y, (uint16_t *)shared);
#if HAS_TENSOR_CORES
    if (COMPILED_FORWARD) {
        HALVES(float16, 64, 1)
        HALVES(float16, 128, 2)
        HALVES(float16, 256, 3)
        HALVES(bfloat16, 64, 1)
        HALVES(bfloat16, 128, 2)
        HALVES(bfloat16, 256, 3)
    }
#endif
    if (COMPILED_FORWARD && COMPILED(!HAS_TENSOR_CORES || VARIED % 4 == 0) && (!HAS_TENSOR_CORES || TILE_CLASS == 0))
        attend<FORWARD>(p, y, nullptr, shared);
}

DEVICE problem backward_problem(const launch &record, unsigned char *scratch)
{
    problem p = problem_of(record, masked_attention_backward_q);
    p.mask = record.pointers[masked_attention_backward_mask];
    p.grad_y = record.pointers[masked_attention_backward_grad_y];
    p.numbers = (float *)scratch;
    return p;
}

/* NUMBERS of each query, then y. */
SCRATCH(masked_attention_backward, 4 * batch * tokens * heads * (3 + MAX(value_dim, 0)))
STEP(masked_attention_backward, 1, WHOLE_BLOCKS(tokens, heads, value_dim), 128, FORWARD_SHARED)
{
    DYNAMIC_SHARED(float, shared);
    const problem p = backward_problem(record, scratch);
    if (is_bad(p)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    if (COMPILED_BACKWARD)
        attend<AGAIN>(p, nullptr, p.numbers + NUMBERS * p.batch * p.tokens * p.heads, shared);
}

/* delta: a warp for each query. */
STEP(masked_attention_backward, 2, PARTS(batch *tokens *heads, 4), 128, 0)
{
    const problem p = backward_problem(record, scratch);
    if (failed)
        return;
    const int64_t queries = p.batch * p.tokens * p.heads;
    FOR_EACH_BLOCK(block, PARTS(queries, 4))
    {
        const int64_t i = 4 * block + WARP;
        const float *y = p.numbers + NUMBERS * queries + i * p.value_dim;
        float delta = 0;
        for (int64_t column = LANE; column < p.value_dim && i < queries; column += 32)
            delta += y[column] * load_float(p.grad_y, i * p.value_dim + column, p.type);
        delta = warp_reduce(delta, Sum());
        if (LANE == 0 && i < queries)
            p.numbers[NUMBERS * i + 2] = delta;
    }
}

STEP(masked_attention_backward, 3, WHOLE_BLOCKS(tokens, heads, head_dim), 128, GRADIENT_SHARED)
{
    DYNAMIC_SHARED(float, shared);
    if (!failed && COMPILED_BACKWARD)
        attend<GRAD_Q>(backward_problem(record, scratch), record.pointers[masked_attention_backward_grad_q], nullptr,
                       shared);
}

STEP(masked_attention_backward, 4, CHOOSE(tokens *heads > 0, WHOLE_BLOCKS(keys, kv_heads, head_dim), 0), 128,
     GRADIENT_SHARED)
{
    DYNAMIC_SHARED(float, shared);
    if (!failed && COMPILED_BACKWARD)
        attend<GRAD_K>(backward_problem(record, scratch), record.pointers[masked_attention_backward_grad_kv], nullptr,
                       shared);
}

KERNEL(masked_attention_backward, CHOOSE(tokens *heads > 0, WHOLE_BLOCKS(keys, kv_heads, value_dim), 0), 128,
       FORWARD_SHARED)
{
    DYNAMIC_SHARED(float, shared);
    const problem p = backward_problem(record, scratch);
    if (failed)
        return;
    char *const grad_kv = (char *)record.pointers[masked_attention_backward_grad_kv];
    if (COMPILED_BACKWARD)
        attend<GRAD_V>(p, grad_kv + p.batch * p.keys * p.kv_heads * p.head_dim * type_bytes(p.type), nullptr, shared);
}
