/* Rows of a table by id, as they are or (of 16-bit tables) widened to float32. Ids are checked before anything is
 * written. */
#include "indices.h"
#include "vectors.h"

DEVICE void check_ids(const launch &record, int32_t *status, const void *ids, int64_t tokens, int64_t vocabulary,
                      int64_t id_bytes)
{
    if (!are_index_bytes(id_bytes)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, tokens)
    {
        const int64_t id = index_at(ids, i, id_bytes);
        if (id < 0 || id >= vocabulary)
            report(KERNEL_INDEX_RANGE);
    }
}

STEP(embedding_copy, 0, PARTS(tokens, 256), 256, 0)
{
    const int64_t *d = record.dims;
    if (d[embedding_copy_element_bytes] < 1)
        report(KERNEL_BAD_ARGUMENT);
    else
        check_ids(record, status, record.pointers[embedding_copy_ids], d[embedding_copy_tokens],
                  d[embedding_copy_vocabulary], d[embedding_copy_id_bytes]);
}

KERNEL(embedding_copy, PARTS(tokens *columns, 1024), 256, 0)
{
    const int64_t *d = record.dims, bytes = d[embedding_copy_element_bytes], columns = d[embedding_copy_columns];
    const int64_t row_bytes = columns * bytes, y_bytes = d[embedding_copy_y_stride] * bytes;
    const int64_t id_bytes = d[embedding_copy_id_bytes];
    const uint8_t *w = (const uint8_t *)record.pointers[embedding_copy_w];
    uint8_t *y = (uint8_t *)record.pointers[embedding_copy_y];
    if (failed)
        return;
    if (is_aligned(w) && is_aligned(y) && (row_bytes | y_bytes) % VECTOR == 0) {
        const int64_t vectors = row_bytes / VECTOR;
        FOR_EACH(i, d[embedding_copy_tokens] * vectors)
        {
            const int64_t token = i <= INT32_MAX ? (uint32_t)i / (uint32_t)vectors : i / vectors;
            const int64_t id = index_at(record.pointers[embedding_copy_ids], token, id_bytes), at = i - token * vectors;
            ((uint4 *)(y + token * y_bytes))[at] = ((const uint4 *)(w + id * row_bytes))[at];
        }
        return;
    }
    FOR_EACH(i, d[embedding_copy_tokens] * columns)
    {
        const int64_t id = index_at(record.pointers[embedding_copy_ids], i / columns, id_bytes);
        copy_element(y, i / columns * d[embedding_copy_y_stride] + i % columns, w, id * columns + i % columns, bytes);
    }
}

STEP(embedding_bag_f32, 0, PARTS(MAX(tokens, bags), 256), 256, 0)
{
    const int64_t *d = record.dims, bags = d[embedding_bag_f32_bags], tokens = d[embedding_bag_f32_tokens];
    const int64_t *starts = (const int64_t *)record.pointers[embedding_bag_f32_starts];
    check_ids(record, status, record.pointers[embedding_bag_f32_ids], tokens, d[embedding_bag_f32_vocabulary],
              d[embedding_bag_f32_id_bytes]);
    if (!starts && tokens % bags)
        report(KERNEL_BAD_ARGUMENT);
    FOR_EACH(bag, starts ? bags : 0)
    if (starts[bag] < (bag ? starts[bag - 1] : 0) || starts[bag] > tokens)
        report(KERNEL_INDEX_RANGE);
}

KERNEL(embedding_bag_f32, CHOOSE(MIN(bags, columns) < 0, -1, PARTS(bags *columns, 128)), 128, 0)
{
    const int64_t *d = record.dims, bags = d[embedding_bag_f32_bags], tokens = d[embedding_bag_f32_tokens];
    const int64_t columns = d[embedding_bag_f32_columns];
    const int64_t *starts = (const int64_t *)record.pointers[embedding_bag_f32_starts];
    const float *w = (const float *)record.pointers[embedding_bag_f32_w];
    if (failed)
        return;
    FOR_EACH(i, bags * columns)
    {
        const int64_t bag = quotient(i, columns), column = i - bag * columns, each = tokens / bags;
        const int64_t from = starts ? starts[bag] : bag * each;
        const int64_t to = !starts ? from + each : bag + 1 < bags ? starts[bag + 1] : tokens;
        const float scale = d[embedding_bag_f32_mean] && to > from ? 1.0f / (float)(to - from) : 1.0f;
        float sum = 0;
#pragma unroll 4
        for (int64_t t = from; t < to; t++)
            sum += w[index_at(record.pointers[embedding_bag_f32_ids], t, d[embedding_bag_f32_id_bytes]) * columns +
                     column];
        ((float *)record.pointers[embedding_bag_f32_y])[i] = sum * scale;
    }
}

DEVICE void widen_rows(const launch &record, int type)
{
    const int64_t *d = record.dims, columns = d[embedding_f16_columns];
    FOR_EACH(i, d[embedding_f16_tokens] * columns)
    {
        const int64_t id = ((const int32_t *)record.pointers[embedding_f16_ids])[i / columns];
        ((float *)record.pointers[embedding_f16_y])[i / columns * d[embedding_f16_y_stride] + i % columns] =
            load_float(record.pointers[embedding_f16_w], id * columns + i % columns, type);
    }
}

STEP(embedding_f16, 0, PARTS(tokens, 256), 256, 0)
{
    check_ids(record, status, record.pointers[embedding_f16_ids], record.dims[embedding_f16_tokens],
              record.dims[embedding_f16_vocabulary], 4);
}

KERNEL(embedding_f16, PARTS(tokens *columns, 256), 256, 0)
{
    if (!failed)
        widen_rows(record, TYPE_float16);
}

STEP(embedding_bf16, 0, PARTS(tokens, 256), 256, 0)
{
    check_ids(record, status, record.pointers[embedding_bf16_ids], record.dims[embedding_bf16_tokens],
              record.dims[embedding_bf16_vocabulary], 4);
}

KERNEL(embedding_bf16, PARTS(tokens *columns, 256), 256, 0)
{
    if (!failed)
        widen_rows(record, TYPE_bfloat16);
}

STEP(embedding_backward_f32, 0, PARTS(tokens, 256), 256, 0)
{
    check_ids(record, status, record.pointers[embedding_backward_f32_ids], record.dims[embedding_backward_f32_tokens],
              record.dims[embedding_backward_f32_vocabulary], record.dims[embedding_backward_f32_id_bytes]);
}

/* The gradient of the table. Tokens are put in the order of their ids, those of one id in their own order, by 8 bits of
 * the id at a time: a block for each value of them looks at all tokens. Then the rows of gradients are added in pieces of
 * PIECE tokens, and what pieces have of an id that has begun before them is added last. */
#define PIECE 16
#define SUMS_BYTES (PARTS(tokens, PIECE) * PARTS(columns, 4) * 16) /* a row for each piece; the two orders follow it */

SCRATCH(embedding_backward_f32, SUMS_BYTES + 8 * tokens)

struct embedding_gradient {
    int64_t tokens, columns, vocabulary, id_bytes;
    const void *ids;
    const float *grad_y;
    float *grad_w, *sums;
    int32_t *orders[2];
    bool aligned;

    DEVICE_MEMBER embedding_gradient(const launch &record, unsigned char *scratch)
    {
        tokens = record.dims[embedding_backward_f32_tokens];
        columns = record.dims[embedding_backward_f32_columns];
        vocabulary = record.dims[embedding_backward_f32_vocabulary];
        id_bytes = record.dims[embedding_backward_f32_id_bytes];
        ids = record.pointers[embedding_backward_f32_ids];
        grad_y = (const float *)record.pointers[embedding_backward_f32_grad_y];
        grad_w = (float *)record.pointers[embedding_backward_f32_grad_w];
        sums = (float *)scratch;
        orders[0] = (int32_t *)(scratch + SUMS_BYTES);
        orders[1] = orders[0] + tokens;
        aligned = columns % 4 == 0 && ((uint64_t)grad_y | (uint64_t)grad_w) % 16 == 0;
    }
    DEVICE_MEMBER int32_t id(int64_t token) const { return (int32_t)index_at(ids, token, id_bytes); }
    /* The tokens in the order of their ids: after two steps, or three. */
    DEVICE_MEMBER const int32_t *order() const { return orders[vocabulary > 65536 ? 0 : 1]; }
};

DEVICE void order_tokens(const embedding_gradient &e, int32_t *to, const int32_t *from, int shift)
{
    __shared__ int counts[8];
    FOR_EACH_BLOCK(value, 256)
    {
        int64_t at = 0;
        for (int64_t i = threadIdx.x; i < e.tokens; i += 256)
            at += (e.id(i) >> shift & 255) < value;
        at = block_sum(at);
        for (int64_t start = 0; start < e.tokens; start += 256) {
            const int64_t i = start + threadIdx.x;
            const int32_t token = i >= e.tokens ? 0 : from ? from[i] : (int32_t)i;
            const bool own = i < e.tokens && (e.id(token) >> shift & 255) == value;
            const uint32_t lanes = __ballot_sync(EVERY_LANE, own);
            if (LANE == 0)
                counts[WARP] = __popc(lanes);
            __syncthreads();
            int before = __popc(lanes & ((1u << LANE) - 1)), all = 0;
            for (int warp = 0; warp < 8; warp++) {
                before += warp < WARP ? counts[warp] : 0;
                all += counts[warp];
            }
            if (own)
                to[at + before] = token;
            at += all;
            __syncthreads();
        }
    }
}

STEP(embedding_backward_f32, 1, CHOOSE(tokens > 0, 256, 0), 256, 0)
{
    const embedding_gradient e(record, scratch);
    if (!failed)
        order_tokens(e, e.orders[0], nullptr, 0);
}

STEP(embedding_backward_f32, 2, CHOOSE(tokens > 0, 256, 0), 256, 0)
{
    const embedding_gradient e(record, scratch);
    if (!failed)
        order_tokens(e, e.orders[1], e.orders[0], 8);
}

STEP(embedding_backward_f32, 3, CHOOSE(tokens > 0, CHOOSE(vocabulary > 65536, 256, 0), 0), 256, 0)
{
    const embedding_gradient e(record, scratch);
    if (!failed)
        order_tokens(e, e.orders[0], e.orders[1], 16);
}

STEP(embedding_backward_f32, 4, PARTS(vocabulary *columns, 2048), 256, 0)
{
    const embedding_gradient e(record, scratch);
    const int64_t count = e.vocabulary * e.columns, vectors = is_aligned(e.grad_w) ? count / 4 : 0;
    if (failed)
        return;
    FOR_EACH(i, vectors)((float4 *)e.grad_w)[i] = float4{0, 0, 0, 0};
    FOR_EACH(i, count - 4 * vectors) e.grad_w[4 * vectors + i] = 0;
}

DEVICE float4 four_at(const float *p, int count, bool aligned)
{
    if (aligned)
        return *(const float4 *)p;
    float x[4] = {0, 0, 0, 0};
    for (int k = 0; k < count; k++)
        x[k] = p[k];
    return float4{x[0], x[1], x[2], x[3]};
}

DEVICE void store_four(float *p, float4 x, int count, bool aligned)
{
    const float values[4] = {x.x, x.y, x.z, x.w};
    if (aligned)
        *(float4 *)p = x;
    else
        for (int k = 0; k < count; k++)
            p[k] = values[k];
}

DEVICE float4 sum_of(float4 a, float4 b) { return float4{a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

STEP(embedding_backward_f32, 5, PARTS(PARTS(tokens, PIECE) * PARTS(columns, 4), 256), 256, 0)
{
    const embedding_gradient e(record, scratch);
    const int32_t *order = e.order();
    const int64_t fours = PARTS(e.columns, 4);
    if (failed)
        return;
    FOR_EACH(at, PARTS(e.tokens, PIECE) * fours)
    {
        const int64_t piece = at / fours, column = at % fours * 4, first = piece * PIECE;
        const int count = (int)MIN(PIECE, e.tokens - first), width = (int)MIN(4, e.columns - column);
        float4 x[PIECE], sum = {0, 0, 0, 0};
        int32_t id[PIECE];
#pragma unroll
        for (int k = 0; k < PIECE; k++)
            if (k < count) {
                const int32_t token = order[first + k];
                id[k] = e.id(token);
                x[k] = four_at(e.grad_y + token * e.columns + column, width, e.aligned);
            }
        bool begins = first == 0 || e.id(order[first - 1]) != id[0];
#pragma unroll
        for (int k = 0; k < PIECE; k++)
            if (k < count) {
                sum = sum_of(sum, x[k]);
                if (k + 1 == count || id[k + 1] != id[k]) {
                    if (begins)
                        store_four(e.grad_w + id[k] * e.columns + column, sum, width, e.aligned);
                    else
                        ((float4 *)e.sums)[at] = sum;
                    sum = float4{0, 0, 0, 0};
                    begins = true;
                }
            }
    }
}

/* Adds what later pieces have of an id to its row; the first piece of an id does so. */
KERNEL(embedding_backward_f32, PARTS(PARTS(tokens, PIECE) * PARTS(columns, 4), 256), 256, 0)
{
    const embedding_gradient e(record, scratch);
    const int32_t *order = e.order();
    const int64_t fours = PARTS(e.columns, 4), pieces = PARTS(e.tokens, PIECE);
    if (failed)
        return;
    FOR_EACH(at, (pieces - 1) * fours)
    {
        const int64_t piece = at / fours, column = at % fours * 4, last = piece * PIECE + PIECE - 1;
        const int32_t id = e.id(order[last]);
        const bool begins = piece == 0 || e.id(order[piece * PIECE - 1]) != id;
        if (!begins || e.id(order[last + 1]) != id)
            continue;
        int64_t end = piece + 2, high = pieces; /* behind the pieces that have more of it */
        while (end < high) {
            const int64_t middle = (end + high) / 2;
            if (e.id(order[middle * PIECE]) == id)
                end = middle + 1;
            else
                high = middle;
        }
        float *row = e.grad_w + id * e.columns + column;
        const int width = (int)MIN(4, e.columns - column);
        float4 sum = four_at(row, width, e.aligned);
#pragma unroll 8
        for (int64_t more = piece + 1; more < end; more++)
            sum = sum_of(sum, ((const float4 *)e.sums)[more * fours + at % fours]);
        store_four(row, sum, width, e.aligned);
    }
}
