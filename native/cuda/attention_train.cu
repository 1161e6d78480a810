/* Attention of whole sequences and its gradient (flash_halves.h, flash_floats.h).
 *
 * With P = softmax(scores), G = grad_y and delta = sum(G * y): grad_v = P' G, grad_scores = P * (G v' - delta). Backward
 * needs two numbers of each query's softmax, and delta. Where `workspaces` is KEPT, workspace is what lies behind y, after a
 * multiple of 16 bytes: tensor cores leave those numbers there. Else backward computes y again in scratch memory. */
#include "flash_floats.h"
#include "flash_halves.h"

enum { KEPT = 2 };

struct problem {
    const void *q, *k, *v, *mask, *grad_y;
    float *numbers, *deltas; /* of each query; numbers NULL: not wanted */
    const void *y;           /* KEPT */
    int64_t batch, tokens, keys, heads, kv_heads, head_dim, value_dim;
    int64_t q_batch, q_token, k_batch, k_token, v_batch, v_token, before, after;
    int64_t mask_batch, mask_head, mask_token, mask_key;
    int64_t workspaces, plain;
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
    p.numbers = p.deltas = nullptr;
    p.y = nullptr;
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
    p.plain = d[masked_attention_plain];
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
           p.workspaces <= 0 || (p.plain && (p.mask || p.softcap != 0 || !(p.scale > 0))) || !type_in(p.type, kinds) ||
           !type_in(p.mask_type, kinds | BIT(TYPE_bool)) || p.head_dim > 4096 || p.value_dim > 4096 ||
           p.tokens > INT32_MAX / 2 || p.keys > INT32_MAX / 2;
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

/* What a block computes for one batch entry and head in float32: of the queries, or of the keys for GRAD_K and GRAD_V. */
template <int PASS> struct whole_attention {
    static constexpr bool ONLINE = PASS == FORWARD || PASS == AGAIN, SECOND = PASS == GRAD_Q || PASS == GRAD_K;
    static constexpr bool OF_KEYS = PASS == GRAD_K || PASS == GRAD_V, SINKS = false;
    const problem &p;
    void *to;            /* y or a gradient */
    float *again;        /* y in float32 */
    int64_t batch, head; /* OF_KEYS: the first head of the group */
    int64_t kv_head, own_head, rows, depth, second_depth, columns, segments;
    bool fours; /* of all vectors: float32, in whole fours that begin where 16 bytes do */

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
        fours =
            p.type == TYPE_float32 && ((uint64_t)p.q | (uint64_t)p.k | (uint64_t)p.v | (uint64_t)p.grad_y) % 16 == 0 &&
            (p.q_batch | p.q_token | p.k_batch | p.k_token | p.v_batch | p.v_token | p.head_dim | p.value_dim) % 4 == 0;
    }
    DEVICE_MEMBER void select(int64_t segment) { head += OF_KEYS && segment; }
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
    template <bool OF_SECOND> DEVICE_MEMBER const float *query_floats(int64_t token) const
    {
        return !fours      ? nullptr
               : OF_SECOND ? (const float *)p.grad_y + query_row(p, batch, token, head) * p.value_dim
                           : (const float *)p.q + q_at(p, batch, token, head);
    }
    template <bool OF_SECOND> DEVICE_MEMBER const float *key_floats(int64_t key) const
    {
        return !fours      ? nullptr
               : OF_SECOND ? (const float *)p.v + v_at(p, batch, key, kv_head)
                           : (const float *)p.k + k_at(p, batch, key, kv_head);
    }
    template <bool OF_SECOND> DEVICE_MEMBER const float *row_floats(int64_t row) const
    {
        return OF_KEYS ? key_floats<OF_SECOND>(row) : query_floats<OF_SECOND>(row);
    }
    template <bool OF_SECOND> DEVICE_MEMBER const float *other_floats(int64_t other) const
    {
        return OF_KEYS ? query_floats<OF_SECOND>(other) : key_floats<OF_SECOND>(other);
    }
    DEVICE_MEMBER const float *value_floats(int64_t other) const
    {
        return PASS == GRAD_V ? query_floats<true>(other)
               : SECOND       ? other_floats<false>(other)
                              : key_floats<true>(other);
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

/* A batch entry and head by tensor cores. */
template <int ELEMENTS> struct halves_problem {
    static constexpr int TYPE = ELEMENTS;
    const problem &p;
    int64_t batch, head, kv_head; /* OF_KEYS: the first head of the group */
    halves_matrix queries, keys, values, grads;
    float scale;
    bool hides;

    DEVICE_MEMBER halves_problem(const problem &of, int64_t batch_, int64_t head_)
        : p(of), batch(batch_), head(head_), kv_head(head_ / (of.heads / of.kv_heads)), scale(of.scale), hides(of.mask)
    {
        queries = halves_matrix{(const uint16_t *)p.q + q_at(p, batch, 0, head), p.q_token};
        keys = halves_matrix{(const uint16_t *)p.k + k_at(p, batch, 0, kv_head), p.k_token};
        values = halves_matrix{(const uint16_t *)p.v + v_at(p, batch, 0, kv_head), p.v_token};
        grads = halves_matrix{(const uint16_t *)p.grad_y + query_row(p, batch, 0, head) * p.value_dim,
                              p.heads * p.value_dim};
    }
    DEVICE_MEMBER int first_key(int row) const { return (int)smaller(::first_key(p, row), p.keys); }
    DEVICE_MEMBER int last_key(int row) const { return (int)::last_key(p, row); }
    DEVICE_MEMBER int first_token(int row) const { return (int)smaller(::first_token(p, row), p.tokens); }
    DEVICE_MEMBER int last_token(int row) const { return (int)::last_token(p, row); }
    DEVICE_MEMBER float score(int64_t of_head, int row, int key, float product) const
    {
        const float scaled = product * p.scale;
        return masked(p, batch, of_head, row, key, seen(p.softcap != 0 ? p.softcap * capped(scaled) : scaled));
    }
    /* Those of the first query. */
    DEVICE_MEMBER float *numbers_of(int64_t of_head) const
    {
        return p.numbers + (batch * p.heads + of_head) * p.tokens;
    }
    DEVICE_MEMBER float *deltas_of(int64_t of_head) const { return p.deltas + (batch * p.heads + of_head) * p.tokens; }
    DEVICE_MEMBER int64_t numbers_apart() const { return p.batch * p.heads * p.tokens; }
};

/* For flash_forward. AGAIN: to each query's numbers alone. */
template <int ELEMENTS, int PASS, bool PLAIN> struct halves_forward : halves_problem<ELEMENTS> {
    using base_class = halves_problem<ELEMENTS>;
    using base_class::p;
    static constexpr bool PAGED = false;
    DEVICE_MEMBER int begin(int row) const { return this->first_key(row); }
    uint16_t *y;
    int rows, depth, columns;

    DEVICE_MEMBER halves_forward(const problem &of, void *to, int64_t batch, int64_t head)
        : base_class(of, batch, head), y((uint16_t *)to), rows((int)of.tokens), depth((int)of.head_dim),
          columns((int)of.value_dim)
    {
    }
    template <int DIMS, int COUNT, bool SWIZZLED> DEVICE_MEMBER void load(uint16_t *to, int row) const
    {
        load_rows<DIMS, COUNT, SWIZZLED>(to, this->queries, row, rows, depth, this->queries.aligned(depth));
    }
    DEVICE_MEMBER float score(int row, int key, float product) const
    {
        return base_class::score(this->head, row, key, product);
    }
    template <int DIMS>
    DEVICE_MEMBER void finish(int row, bool there, float base, float inverse, const float out[DIMS / 8][4], int h) const
    {
        float *const own = this->numbers_of(this->head) + row;
        if (there && p.numbers && LANE % 4 == 0) {
            own[0] = !PLAIN ? base : inverse == 0 ? INFINITE : base - log2f(inverse);
            own[this->numbers_apart()] = inverse;
        }
        if (PASS == FORWARD) {
            if (there)
                store_row<ELEMENTS, DIMS>(y + query_row(p, this->batch, row, this->head) * columns, columns, inverse,
                                          out, h);
            return;
        }
        float delta = 0;
#pragma unroll
        for (int i = 0; i < DIMS / 4; i++) {
            const int column = i / 2 * 8 + LANE % 4 * 2 + i % 2;
            if (there && column < columns)
                delta +=
                    out[i / 2][2 * h + i % 2] * load_float(this->grads.p, row * this->grads.stride + column, ELEMENTS);
        }
        delta = among<4>(delta, Sum()) * inverse;
        if (there && LANE % 4 == 0)
            this->deltas_of(this->head)[row] = delta;
    }
};

/* For flash_gradient. */
template <int ELEMENTS, bool KEYS> struct halves_gradient : halves_problem<ELEMENTS> {
    static constexpr bool OF_KEYS = KEYS;
    using base_class = halves_problem<ELEMENTS>;
    using base_class::p;
    uint16_t *to, *second_to;
    const float *numbers, *deltas;
    int64_t first_step, second_step, segment_numbers, all_numbers;
    int rows, depth, second_depth, segments;
    halves_matrix rows_first, rows_second, others_first, others_second;

    DEVICE_MEMBER halves_gradient(const problem &of, void *grad, void *second_grad, int64_t batch, int64_t head)
        : base_class(of, batch, head), to((uint16_t *)grad), second_to((uint16_t *)second_grad),
          numbers(this->numbers_of(head)), deltas(this->deltas_of(head)), first_step(of.head_dim),
          second_step(of.value_dim), segment_numbers(of.tokens), all_numbers(this->numbers_apart()),
          rows((int)(KEYS ? of.keys : of.tokens)), depth((int)of.head_dim), second_depth((int)of.value_dim),
          segments(KEYS ? (int)(of.heads / of.kv_heads) : 1)
    {
        rows_first = KEYS ? this->keys : this->queries;
        rows_second = KEYS ? this->values : this->grads;
        others_first = KEYS ? this->queries : this->keys;
        others_second = KEYS ? this->grads : this->values;
    }
    DEVICE_MEMBER int first_other(int row) const { return KEYS ? this->first_token(row) : this->first_key(row); }
    DEVICE_MEMBER int last_other(int row) const { return KEYS ? this->last_token(row) : this->last_key(row); }
    DEVICE_MEMBER void weigh(int segment, int row, int other, float &weight, float &grad, const float *own) const
    {
        const float product = weight;
        const float score = base_class::score(this->head + segment, KEYS ? other : row, KEYS ? row : other, product);
        float factor = p.scale;
        if (p.softcap != 0)
            factor *= p.softcap * slope_of_capped(product * p.scale);
        weight = score == -INFINITE ? 0.0f : power_of_2(in_powers_of_2(score) - own[0]) * own[1];
        grad = score == -INFINITE ? 0.0f : weight * (grad - own[2]) * factor;
    }
    DEVICE_MEMBER uint16_t *grad(int row) const
    {
        return to + (KEYS ? (this->batch * p.keys + row) * p.kv_heads + this->kv_head
                          : query_row(p, this->batch, row, this->head)) *
                        depth;
    }
    DEVICE_MEMBER uint16_t *second_grad(int row) const
    {
        return second_to + ((this->batch * p.keys + row) * p.kv_heads + this->kv_head) * second_depth;
    }
};

/* Whether tensor cores compute it, and how: see HALVES_CLASS. */
#define TILE_CLASS CHOOSE(type == TYPE_float32, 0, HALVES_CLASS(MAX(head_dim, value_dim)))
#define LONGEST MAX(head_dim, value_dim)
#define TILE_VARIANT (8 * type + CHOOSE(TILE_CLASS == 0, 0, 2 * TILE_CLASS + CHOOSE(plain, 1, 0)))
VARIANT(masked_attention, TILE_VARIANT)
VARIANT(masked_attention_backward, TILE_VARIANT)
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

DEVICE int64_t class_of(const problem &p)
{
    const int64_t type = p.type, head_dim = p.head_dim, value_dim = p.value_dim;
    return HAS_TENSOR_CORES ? TILE_CLASS : 0;
}

/* Runs CALL<type, dims, plain>(...) for what tensor cores compute. With `plain` and without in one kernel, the compiler spills
 * what both need. */
#define FOR_HALVES_AS(kind, number, dims, is_plain, call, ...)                                                         \
    if (HAS_TENSOR_CORES && COMPILED(VARIED == 8 * TYPE_##kind + 2 * number + is_plain) && p.type == TYPE_##kind &&    \
        class_of(p) == number && (p.plain != 0) == is_plain)                                                           \
        call<TYPE_##kind, dims, is_plain>(__VA_ARGS__);
#define FOR_HALVES_OF(kind, call, ...)                                                                                 \
    FOR_HALVES_AS(kind, 1, 64, false, call, __VA_ARGS__)                                                               \
    FOR_HALVES_AS(kind, 1, 64, true, call, __VA_ARGS__)                                                                \
    FOR_HALVES_AS(kind, 2, 128, false, call, __VA_ARGS__)                                                              \
    FOR_HALVES_AS(kind, 2, 128, true, call, __VA_ARGS__)                                                               \
    FOR_HALVES_AS(kind, 3, 256, false, call, __VA_ARGS__)                                                              \
    FOR_HALVES_AS(kind, 3, 256, true, call, __VA_ARGS__)
#define FOR_HALVES(call, ...)                                                                                          \
    FOR_HALVES_OF(float16, call, __VA_ARGS__)                                                                          \
    FOR_HALVES_OF(bfloat16, call, __VA_ARGS__)
#define COMPILED_FLOATS COMPILED(!HAS_TENSOR_CORES || VARIED / 2 % 4 == 0)

template <int TYPE, int DIMS, bool PLAIN, int PASS, int ROWS>
DEVICE void attend_tiles(const problem &p, void *y, float *shared)
{
    using Task = halves_forward<TYPE, PASS, PLAIN>;
    const int64_t units = p.batch * p.heads, tiles = PARTS(p.tokens, ROWS);
    FOR_EACH_BLOCK(i, units * tiles)
    {
        const unit_and_tile at(i, units, tiles, true);
        const Task task(p, y, at.unit / p.heads, at.unit % p.heads);
        flash_forward<Task, DIMS, PLAIN, ROWS>(task, (int)at.tile * ROWS, (uint16_t *)shared);
    }
}
template <int TYPE, int DIMS, bool PLAIN, int PASS> DEVICE void attend_halves(const problem &p, void *y, float *shared)
{
    const int64_t units = p.batch * p.heads;
    if constexpr (PLAIN && DIMS <= 128)
        if (HALVES_ROWS(units, p.tokens, DIMS) == 128)
            return attend_tiles<TYPE, DIMS, PLAIN, PASS, 128>(p, y, shared);
    attend_tiles<TYPE, DIMS, PLAIN, PASS, 64>(p, y, shared);
}
template <int TYPE, int DIMS, bool PLAIN> DEVICE void forward_halves(const problem &p, void *y, float *shared)
{
    attend_halves<TYPE, DIMS, PLAIN, FORWARD>(p, y, shared);
}
template <int TYPE, int DIMS, bool PLAIN> DEVICE void halves_again(const problem &p, float *shared)
{
    attend_halves<TYPE, DIMS, PLAIN, AGAIN>(p, nullptr, shared);
}

/* deltas of ROWS queries, of what is KEPT: two threads or one for each. */
template <int TYPE, int DIMS, int ROWS> DEVICE void make_deltas(const problem &p, int64_t batch, int64_t head, int row0)
{
    constexpr int EACH = FLASH_THREADS / ROWS, COLUMNS = DIMS / EACH;
    const int row = row0 + (int)threadIdx.x / EACH, first = (int)threadIdx.x % EACH * COLUMNS;
    const int64_t at = query_row(p, batch, row, head) * p.value_dim + first;
    const uint16_t *const y = (const uint16_t *)p.y + at, *const grad = (const uint16_t *)p.grad_y + at;
    const int count = row < p.tokens ? (int)smaller(p.value_dim - first, COLUMNS) : 0;
    float delta = 0;
    if (p.value_dim % 8 == 0 && ((uint64_t)p.y | (uint64_t)p.grad_y) % 16 == 0) {
#pragma unroll 8
        for (int i = 0; i < count; i += 8) {
            const uint4 a = *(const uint4 *)(y + i), b = *(const uint4 *)(grad + i);
            const uint32_t x[4] = {a.x, a.y, a.z, a.w}, g[4] = {b.x, b.y, b.z, b.w};
            for (int e = 0; e < 8; e++)
                delta += half_of<TYPE>(x[e / 2], e % 2) * half_of<TYPE>(g[e / 2], e % 2);
        }
    } else
        for (int i = 0; i < count; i++)
            delta += load_float(y, i, TYPE) * load_float(grad, i, TYPE);
    if (EACH == 2)
        delta += __shfl_xor_sync(EVERY_LANE, delta, 1);
    if (row < p.tokens && first == 0)
        p.deltas[(batch * p.heads + head) * p.tokens + row] = delta;
    __syncthreads();
}

template <int TYPE, int DIMS, bool PLAIN, bool OF_KEYS>
DEVICE void gradient_of_halves(const problem &p, void *grad, void *second_grad, float *shared)
{
    constexpr int ROWS = GRADIENT_ROWS(TYPE, DIMS, OF_KEYS, PLAIN), COLUMNS = GRADIENT_COLUMNS(DIMS, OF_KEYS);
    using Task = halves_gradient<TYPE, OF_KEYS>;
    const int64_t heads = OF_KEYS ? p.kv_heads : p.heads, rows = OF_KEYS ? p.keys : p.tokens;
    const int64_t units = p.batch * heads, tiles = PARTS(rows, ROWS), chunks = DIMS / COLUMNS;
    FOR_EACH_BLOCK(i, units * tiles * chunks)
    {
        const unit_and_tile at(i / chunks, units, tiles, !OF_KEYS);
        const Task task(p, grad, second_grad, at.unit / heads, at.unit % heads * (OF_KEYS ? p.heads / p.kv_heads : 1));
        if (!OF_KEYS && p.y)
            make_deltas<TYPE, DIMS, ROWS>(p, task.batch, task.head, (int)at.tile * ROWS);
        flash_gradient<Task, DIMS, PLAIN>(task, (int)at.tile * ROWS, (int)(i % chunks) * COLUMNS, (uint16_t *)shared);
    }
}
template <int TYPE, int DIMS, bool PLAIN> DEVICE void grad_q_of_halves(const problem &p, void *grad_q, float *shared)
{
    gradient_of_halves<TYPE, DIMS, PLAIN, false>(p, grad_q, nullptr, shared);
}
template <int TYPE, int DIMS, bool PLAIN>
DEVICE void grad_kv_of_halves(const problem &p, void *grad_k, void *grad_v, float *shared)
{
    gradient_of_halves<TYPE, DIMS, PLAIN, true>(p, grad_k, grad_v, shared);
}

/* ---- Float32, and 16 bits where tensor cores do not compute them */

#define FLOAT_BLOCKS(rows, heads, columns) batch *heads *PARTS(rows, 64) * MAX(1, PARTS(columns, 128))
DEVICE float *floats_again(const problem &p) { return p.numbers + NUMBERS * p.batch * p.tokens * p.heads; }

/* delta of a tile's queries: a warp for each. */
DEVICE void make_delta(const problem &p, int64_t batch, int64_t head, int64_t row0)
{
    for (int64_t row = row0 + WARP; row < smaller(row0 + FLASH_ROWS, p.tokens); row += WARPS) {
        const int64_t i = query_row(p, batch, row, head);
        const float *y = floats_again(p) + i * p.value_dim;
        float delta = 0;
        for (int64_t column = LANE; column < p.value_dim; column += 32)
            delta += y[column] * load_float(p.grad_y, i * p.value_dim + column, p.type);
        delta = warp_reduce(delta, Sum());
        if (LANE == 0)
            p.numbers[NUMBERS * i + 2] = delta;
    }
    __syncthreads();
}

template <int PASS> DEVICE void attend(const problem &p, void *to, float *shared)
{
    const bool of_keys = PASS == GRAD_K || PASS == GRAD_V;
    const int64_t heads = of_keys ? p.kv_heads : p.heads, tiles = PARTS(of_keys ? p.keys : p.tokens, FLASH_ROWS);
    const int64_t chunks = PARTS(PASS == GRAD_Q || PASS == GRAD_K ? p.head_dim : p.value_dim, FLASH_COLUMNS);
    FOR_EACH_BLOCK(i, p.batch * heads * tiles * chunks)
    {
        const int64_t chunk = i % chunks, at = i / chunks % tiles, unit = i / chunks / tiles;
        const int64_t row = (of_keys ? at : tiles - 1 - at) * FLASH_ROWS; /* causal: the longest first */
        whole_attention<PASS> task(p, to, floats_again(p), unit / heads, unit % heads);
        if (PASS == GRAD_Q)
            make_delta(p, unit / heads, unit % heads, row);
        flash_floats(task, row, chunk * FLASH_COLUMNS, shared);
    }
}

/* ---- Kernels */

KERNEL(masked_attention,
       CHOOSE(TILE_CLASS == 0, FLOAT_BLOCKS(tokens, heads, value_dim), HALVES_TILES((batch * heads), tokens, LONGEST)),
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
    if (p.workspaces == KEPT && class_of(p))
        p.numbers = (float *)record.pointers[masked_attention_workspace];
    if (COMPILED_FORWARD) {
        FOR_HALVES(forward_halves, p, y, shared)
        if (COMPILED_FLOATS && class_of(p) == 0)
            attend<FORWARD>(p, y, shared);
    }
}

DEVICE problem backward_problem(const launch &record, unsigned char *scratch)
{
    problem p = problem_of(record, masked_attention_backward_q);
    p.mask = record.pointers[masked_attention_backward_mask];
    p.grad_y = record.pointers[masked_attention_backward_grad_y];
    p.numbers = (float *)scratch;
    p.deltas = p.numbers + 2 * p.batch * p.tokens * p.heads;
    if (p.workspaces == KEPT && class_of(p)) {
        char *const kept = (char *)record.pointers[masked_attention_backward_workspace];
        p.numbers = (float *)kept;
        p.y = kept - PARTS(2 * p.batch * p.tokens * p.heads * p.value_dim, 16) * 16;
    }
    return p;
}

/* NUMBERS of each query, then y. */
SCRATCH(masked_attention_backward, 4 * batch * tokens * heads * (3 + MAX(value_dim, 0)))
STEP(masked_attention_backward, 1,
     CHOOSE(TILE_CLASS == 0, FLOAT_BLOCKS(tokens, heads, value_dim),
            CHOOSE(workspaces == 2, 0, HALVES_TILES((batch * heads), tokens, LONGEST))),
     128, CHOOSE(TILE_CLASS == 0, FLOATS_SHARED, MAX(FLOATS_SHARED, HALVES_SHARED(LONGEST))))
{
    DYNAMIC_SHARED(float, shared);
    const problem p = backward_problem(record, scratch);
    if (is_bad(p)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    if (COMPILED_BACKWARD) {
        FOR_HALVES(halves_again, p, shared)
        if (COMPILED_FLOATS && class_of(p) == 0)
            attend<AGAIN>(p, nullptr, shared);
    }
}

STEP(masked_attention_backward, 2,
     CHOOSE(TILE_CLASS == 0, FLOAT_BLOCKS(tokens, heads, head_dim), batch *heads *PARTS(tokens, 64)), 128,
     CHOOSE(TILE_CLASS == 0, FLOATS_SHARED, MAX(FLOATS_SHARED, GRADIENT_SHARED(LONGEST, 0))))
{
    DYNAMIC_SHARED(float, shared);
    const problem p = backward_problem(record, scratch);
    void *const grad_q = record.pointers[masked_attention_backward_grad_q];
    if (is_bad(p)) { /* where no step came before */
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    if (!failed && COMPILED_BACKWARD) {
        FOR_HALVES(grad_q_of_halves, p, grad_q, shared)
        if (COMPILED_FLOATS && class_of(p) == 0)
            attend<GRAD_Q>(p, grad_q, shared);
    }
}

KERNEL(masked_attention_backward,
       CHOOSE(tokens *heads > 0,
              CHOOSE(TILE_CLASS == 0, FLOAT_BLOCKS(keys, kv_heads, LONGEST),
                     batch *kv_heads *PARTS(keys, 64) * CHOOSE(TILE_CLASS == 3, 2, 1)),
              0),
       128, CHOOSE(TILE_CLASS == 0, FLOATS_SHARED, MAX(FLOATS_SHARED, GRADIENT_SHARED(LONGEST, 1))))
{
    DYNAMIC_SHARED(float, shared);
    const problem p = backward_problem(record, scratch);
    if (failed)
        return;
    char *const grad_k = (char *)record.pointers[masked_attention_backward_grad_kv];
    char *const grad_v = grad_k + p.batch * p.keys * p.kv_heads * p.head_dim * type_bytes(p.type);
    if (COMPILED_BACKWARD) {
        FOR_HALVES(grad_kv_of_halves, p, grad_k, grad_v, shared)
        if (COMPILED_FLOATS && class_of(p) == 0) {
            attend<GRAD_K>(p, grad_k, shared);
            attend<GRAD_V>(p, grad_v, shared);
        }
    }
}
