/* Attention of whole sequences and its gradient. Nothing is saved between forward and backward.
 *
 * With P = softmax(scores), G = grad_y and delta = sum(G * y): grad_v = P' G, grad_scores = P * (G v' - delta). Backward
 * first makes the largest score, the sum and delta of each row, in scratch memory; then a block takes a row of grad_q, and
 * then one a row of grad_k and grad_v. */
#include "attend.h"

enum { NUMBERS = 3 }; /* of a row: its largest score, 1 / sum, delta */

struct problem {
    const void *q, *k, *v, *mask, *grad_y;
    int64_t batch, tokens, keys, heads, kv_heads, head_dim, value_dim;
    int64_t q_batch, q_token, k_batch, k_token, v_batch, v_token, before, after;
    int64_t mask_batch, mask_head, mask_token, mask_key;
    int64_t workspaces;
    int type, mask_type;
    float scale;
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
    p.scale = record.floats[masked_attention_scale];
    return p;
}

DEVICE bool is_bad(const problem &p)
{
    const uint32_t kinds = TYPES_HALF | BIT(TYPE_float32);
    return p.kv_heads <= 0 || p.heads % p.kv_heads || p.keys <= 0 || p.head_dim <= 0 || p.value_dim <= 0 ||
           p.workspaces <= 0 || !type_in(p.type, kinds) || !type_in(p.mask_type, kinds | BIT(TYPE_bool)) ||
           p.head_dim > 4096 || p.value_dim > 4096;
}

/* A row: batch entry, token, head; and where its parts lie. */
struct place {
    int64_t batch, token, head, kv_head, q, y, k, v;
};

DEVICE place row_at(const problem &p, int64_t batch, int64_t token, int64_t head)
{
    const int64_t kv_head = head / (p.heads / p.kv_heads);
    return place{batch,
                 token,
                 head,
                 kv_head,
                 batch * p.q_batch + token * p.q_token + head * p.head_dim,
                 ((batch * p.tokens + token) * p.heads + head) * p.value_dim,
                 batch * p.k_batch + kv_head * p.head_dim,
                 batch * p.v_batch + kv_head * p.value_dim};
}

DEVICE place row_of(const problem &p, int64_t i)
{
    return row_at(p, i / (p.heads * p.tokens), i / p.heads % p.tokens, i % p.heads);
}

/* Keys first .. last - 1 are near enough to a row. */
DEVICE int64_t first_key(const problem &p, int64_t token) { return token > p.before ? token - p.before : 0; }
DEVICE int64_t last_key(const problem &p, int64_t token)
{
    const int64_t last = p.after >= p.keys - 1 - token ? p.keys : token + p.after + 1;
    return last > 0 ? last : 0;
}

/* A score with what the mask adds; -inf where the row does not see the key. */
DEVICE float masked(const problem &p, const place &row, int64_t key, float score)
{
    if (!p.mask)
        return score;
    const int64_t at = row.batch * p.mask_batch + row.head * p.mask_head + row.token * p.mask_token + key * p.mask_key;
    if (p.mask_type == TYPE_bool)
        return ((const uint8_t *)p.mask)[at] ? score : -INFINITE;
    return score + load_float(p.mask, at, p.mask_type);
}

DEVICE float score_of(const problem &p, const place &row, const float *query, int64_t key)
{
    float sum = 0;
    for (int64_t i = 0; i < p.head_dim; i++)
        sum += query[i] * load_float(p.k, row.k + key * p.k_token + i, p.type);
    return masked(p, row, key, seen(sum * p.scale));
}

DEVICE float value_of(const problem &p, const place &row, int64_t key, int64_t column)
{
    return load_float(p.v, row.v + key * p.v_token + column, p.type);
}

DEVICE void load_row(float *to, const void *from, int64_t at, int64_t columns, int type)
{
    FOR_THREADS(i, columns) to[i] = load_float(from, at + i, type);
    __syncthreads();
}

KERNEL(masked_attention, batch *tokens *heads, 128, 4 * (head_dim + 4 * value_dim))
{
    DYNAMIC_SHARED(float, shared);
    problem p = problem_of(record, masked_attention_q);
    p.mask = record.pointers[masked_attention_mask];
    void *y = record.pointers[masked_attention_y];
    if (is_bad(p)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    float *query = shared, *out = shared + p.head_dim;
    FOR_EACH_BLOCK(i, p.batch * p.tokens * p.heads)
    {
        const place row = row_of(p, i);
        load_row(query, p.q, row.q, p.head_dim, p.type);
        attend(
            out, p.value_dim, first_key(p, row.token), last_key(p, row.token),
            [&](int64_t key) { return score_of(p, row, query, key); },
            [&](int64_t key, int64_t column) { return value_of(p, row, key, column); },
            [&](int64_t column, float value) { store_float(y, row.y + column, p.type, value); });
    }
}

DEVICE problem backward_problem(const launch &record)
{
    problem p = problem_of(record, masked_attention_backward_q);
    p.mask = record.pointers[masked_attention_backward_mask];
    p.grad_y = record.pointers[masked_attention_backward_grad_y];
    return p;
}

SCRATCH(masked_attention_backward, 12 * batch * tokens * heads)
STEP(masked_attention_backward, 1, batch *tokens *heads, 128, 4 * (head_dim + 4 * value_dim))
{
    DYNAMIC_SHARED(float, shared);
    const problem p = backward_problem(record);
    if (is_bad(p)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    float *query = shared, *out = shared + p.head_dim, *numbers = (float *)scratch;
    FOR_EACH_BLOCK(i, p.batch * p.tokens * p.heads)
    {
        const place row = row_of(p, i);
        float delta = 0;
        load_row(query, p.q, row.q, p.head_dim, p.type);
        const softmax_state all = attend(
            out, p.value_dim, first_key(p, row.token), last_key(p, row.token),
            [&](int64_t key) { return score_of(p, row, query, key); },
            [&](int64_t key, int64_t column) { return value_of(p, row, key, column); },
            [&](int64_t column, float value) { delta += value * load_float(p.grad_y, row.y + column, p.type); });
        delta = block_sum(delta);
        if (threadIdx.x == 0) {
            numbers[NUMBERS * i] = all.largest;
            numbers[NUMBERS * i + 1] = all.total != 0 ? 1.0f / all.total : 0.0f;
            numbers[NUMBERS * i + 2] = delta;
        }
    }
}

/* The weight P of a key in a row, and the gradient of its score; 0 where the row does not see it. */
struct slope {
    float weight, gradient;
};

DEVICE slope slope_of(const problem &p, const place &row, const float *numbers, const float *query, const float *grad,
                      int64_t key)
{
    const float *own = numbers + NUMBERS * ((row.batch * p.tokens + row.token) * p.heads + row.head);
    const float score = score_of(p, row, query, key);
    if (score == -INFINITE)
        return slope{0, 0};
    const float weight = expf(score - own[0]) * own[1];
    float product = 0;
    for (int64_t i = 0; i < p.value_dim; i++)
        product += grad[i] * value_of(p, row, key, i);
    return slope{weight, weight * (product - own[2])};
}

/* grad_q: a lane takes a key, then a column. */
STEP(masked_attention_backward, 2, batch *tokens *heads, 128, 4 * (head_dim + value_dim + 4 * head_dim))
{
    DYNAMIC_SHARED(float, shared);
    const problem p = backward_problem(record);
    const float *numbers = (const float *)scratch;
    if (failed)
        return;
    float *query = shared, *grad = query + p.head_dim, *out = grad + p.value_dim, *own = out + WARP * p.head_dim;
    FOR_EACH_BLOCK(i, p.batch * p.tokens * p.heads)
    {
        const place row = row_of(p, i);
        load_row(query, p.q, row.q, p.head_dim, p.type);
        load_row(grad, p.grad_y, row.y, p.value_dim, p.type);
        for (int64_t column = LANE; column < p.head_dim; column += 32)
            own[column] = 0;
        const int64_t last = last_key(p, row.token);
        for (int64_t start = first_key(p, row.token) + 32 * WARP; start < last; start += 32 * WARPS) {
            const int64_t key = start + LANE;
            const float gradient = key < last ? slope_of(p, row, numbers, query, grad, key).gradient : 0.0f;
            for (int k = 0; k < 32; k++) {
                const float each = __shfl_sync(EVERY_LANE, gradient, k) * p.scale;
                if (each != 0)
                    for (int64_t column = LANE; column < p.head_dim; column += 32)
                        own[column] += each * load_float(p.k, row.k + (start + k) * p.k_token + column, p.type);
            }
        }
        __syncthreads();
        FOR_THREADS(column, p.head_dim)
        {
            float sum = 0;
            for (int w = 0; w < ATTEND_WARPS; w++)
                sum += out[w * p.head_dim + column];
            store_float(record.pointers[masked_attention_backward_grad_q],
                        ((row.batch * p.tokens + row.token) * p.heads + row.head) * p.head_dim + column, p.type, sum);
        }
        __syncthreads();
    }
}

/* grad_k and grad_v of a key: a lane takes a row of those that may see it, then a column. */
KERNEL(masked_attention_backward, CHOOSE(tokens *heads > 0, batch *keys *kv_heads, 0), 128, 16 * (head_dim + value_dim))
{
    DYNAMIC_SHARED(float, shared);
    const problem p = backward_problem(record);
    const float *numbers = (const float *)scratch;
    if (failed)
        return;
    const int64_t group = p.heads / p.kv_heads, width = p.head_dim + p.value_dim;
    const int64_t grad_v = p.batch * p.keys * p.kv_heads * p.head_dim;
    float *own = shared + WARP * width;
    FOR_EACH_BLOCK(i, p.batch * p.keys * p.kv_heads)
    {
        const int64_t kv_head = i % p.kv_heads, key = i / p.kv_heads % p.keys, batch = i / p.kv_heads / p.keys;
        const int64_t first = key > p.after ? key - p.after : 0;
        const int64_t last = p.before < p.tokens - 1 - key ? (key + p.before + 1) * group : p.tokens * group;
        for (int64_t column = LANE; column < width; column += 32)
            own[column] = 0;
        for (int64_t start = first * group + 32 * WARP; start < last; start += 32 * WARPS) {
            const int64_t number = start + LANE;
            const bool there = number < last;
            const place row =
                row_at(p, batch, there ? number / group : 0, kv_head * group + (there ? number % group : 0));
            slope s = {0, 0};
            if (there) {
                const float *of = numbers + NUMBERS * ((row.batch * p.tokens + row.token) * p.heads + row.head);
                float sum = 0, product = 0;
                for (int64_t c = 0; c < p.head_dim; c++)
                    sum += load_float(p.q, row.q + c, p.type) * load_float(p.k, row.k + key * p.k_token + c, p.type);
                const float score = masked(p, row, key, seen(sum * p.scale));
                for (int64_t c = 0; c < p.value_dim; c++)
                    product += load_float(p.grad_y, row.y + c, p.type) * value_of(p, row, key, c);
                if (score != -INFINITE) {
                    s.weight = expf(score - of[0]) * of[1];
                    s.gradient = s.weight * (product - of[2]) * p.scale;
                }
            }
            for (int k = 0; k < 32; k++) {
                const float weight = __shfl_sync(EVERY_LANE, s.weight, k);
                const float gradient = __shfl_sync(EVERY_LANE, s.gradient, k);
                if (weight == 0)
                    continue;
                const int64_t q = __shfl_sync(EVERY_LANE, row.q, k), y = __shfl_sync(EVERY_LANE, row.y, k);
                for (int64_t column = LANE; column < width; column += 32)
                    own[column] += column < p.head_dim ? gradient * load_float(p.q, q + column, p.type)
                                                       : weight * load_float(p.grad_y, y + column - p.head_dim, p.type);
            }
        }
        __syncthreads();
        FOR_THREADS(column, width)
        {
            float sum = 0;
            for (int w = 0; w < ATTEND_WARPS; w++)
                sum += shared[w * width + column];
            const int64_t to =
                column < p.head_dim ? i * p.head_dim + column : grad_v + i * p.value_dim + column - p.head_dim;
            store_float(record.pointers[masked_attention_backward_grad_kv], to, p.type, sum);
        }
        __syncthreads();
    }
}
