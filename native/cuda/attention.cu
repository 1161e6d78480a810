/* Attention over a KV cache, and writing to it. A block takes a row: a token and a head. */
#include "attend.h"

enum { Q8_COLUMNS = 32 };

/* Bytes of a row of a cache, or 0 for a type that caches do not have. uint8 means q8_0: int8 numbers, then an f16 scale
 * for each Q8_COLUMNS of them. */
DEVICE int64_t row_bytes_of(int64_t type, int64_t dims)
{
    return type == TYPE_float32   ? 4 * dims
           : type == TYPE_float16 ? 2 * dims
           : type == TYPE_uint8   ? dims + PARTS(dims, Q8_COLUMNS) * 2
                                  : 0;
}

DEVICE float cached(const char *row, int64_t column, int type, int64_t dims)
{
    if (type != TYPE_uint8)
        return load_float(row, column, type);
    const uint8_t *scale = (const uint8_t *)row + dims + column / Q8_COLUMNS * 2;
    return (float)((const int8_t *)row)[column] * f16_to_float((uint16_t)(scale[0] | scale[1] << 8));
}

/* Whether tokens at position[text] .. of every text lie within the cache, and so do the parts of the text up to there. */
DEVICE void check_positions(const launch &record, int32_t *status, const int32_t *position, int64_t texts,
                            int64_t tokens, int64_t capacity, const int32_t *table, int64_t parts, int64_t blocks)
{
    FOR_EACH(text, texts)
    {
        const int64_t end = position[text] + tokens;
        if (position[text] < 0 || end > capacity * parts)
            report(KERNEL_POSITION_RANGE);
        else
            for (int64_t part = 0; table && part * capacity < end; part++)
                if (table[text * parts + part] < 0 || table[text * parts + part] >= blocks)
                    report(KERNEL_POSITION_RANGE);
    }
}

/* The number of the cache's row for a position of a text; table may be NULL. */
DEVICE int64_t row_at(const int32_t *table, int64_t parts, int64_t text, int64_t kv_heads, int64_t kv_head,
                      int64_t capacity, int64_t position)
{
    const int64_t block = table ? table[text * parts + position / capacity] : text;
    return (block * kv_heads + kv_head) * capacity + position % capacity;
}

STEP(cached_attention, 0, PARTS(texts, 256), 256, 0)
{
    const int64_t *d = record.dims, kv_heads = d[cached_attention_kv_heads];
    if (kv_heads <= 0 || d[cached_attention_heads] % kv_heads || d[cached_attention_head_dim] > 4096 ||
        !row_bytes_of(d[cached_attention_type], d[cached_attention_head_dim]) || d[cached_attention_window] < 0)
        report(KERNEL_BAD_ARGUMENT);
    else
        check_positions(record, status, (const int32_t *)record.pointers[cached_attention_position],
                        d[cached_attention_texts], d[cached_attention_tokens], d[cached_attention_capacity],
                        (const int32_t *)record.pointers[cached_attention_table],
                        record.pointers[cached_attention_table] ? d[cached_attention_parts] : 1,
                        d[cached_attention_blocks]);
}

KERNEL(cached_attention, texts *tokens *heads, 128, 4 * 5 * head_dim)
{
    DYNAMIC_SHARED(float, shared);
    const int64_t *d = record.dims, tokens = d[cached_attention_tokens], heads = d[cached_attention_heads],
                  kv_heads = d[cached_attention_kv_heads], dims = d[cached_attention_head_dim],
                  window = d[cached_attention_window];
    const int type = (int)d[cached_attention_type];
    const int64_t row_bytes = row_bytes_of(type, dims), capacity = d[cached_attention_capacity],
                  parts = d[cached_attention_parts];
    const int32_t *table = (const int32_t *)record.pointers[cached_attention_table];
    const float *slopes = (const float *)record.pointers[cached_attention_slopes];
    const float softcap = record.floats[cached_attention_softcap];
    const float scale = record.floats[cached_attention_scale] / (softcap != 0 ? softcap : 1.0f);
    float *query = shared, *out = shared + dims;
    if (failed)
        return;
    FOR_EACH_BLOCK(i, d[cached_attention_texts] * tokens * heads)
    {
        const int64_t head = i % heads, token = i / heads, text = token / tokens;
        const int64_t visible = ((const int32_t *)record.pointers[cached_attention_position])[text] +
                                (d[cached_attention_causal] ? token % tokens + 1 : tokens);
        const int64_t hidden = window && visible > window ? visible - window : 0;
        const int64_t kv_head = head / (heads / kv_heads);
        const char *k = (const char *)record.pointers[cached_attention_k];
        const char *v = (const char *)record.pointers[cached_attention_v];
        const float *q =
            (const float *)record.pointers[cached_attention_q] + token * d[cached_attention_q_stride] + head * dims;
        float *y = (float *)record.pointers[cached_attention_y] + token * d[cached_attention_y_stride] + head * dims;
        const float slope = slopes ? slopes[head] : 0.0f;
        FOR_THREADS(column, dims) query[column] = q[column];
        __syncthreads();
        attend(
            out, dims, hidden, visible,
            [=](int64_t key) {
                const char *row = k + row_at(table, parts, text, kv_heads, kv_head, capacity, key) * row_bytes;
                float sums[4] = {0}, sum;
                for (int64_t column = 0; column < dims; column++)
                    sums[column % 4] += query[column] * cached(row, column, type, dims);
                sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) * scale;
                if (softcap != 0)
                    sum = softcap * tanhf(sum);
                return seen(sum + slope * (float)(key - (visible - 1)));
            },
            [=](int64_t key, int64_t column) {
                const int64_t row = row_at(table, parts, text, kv_heads, kv_head, capacity, key);
                return cached(v + row * row_bytes, column, type, dims);
            },
            [=](int64_t column, float value) { y[column] = value; });
    }
}

STEP(cache_write, 0, PARTS(texts, 256), 256, 0)
{
    const int64_t *d = record.dims;
    if (!row_bytes_of(d[cache_write_type], d[cache_write_head_dim]))
        report(KERNEL_BAD_ARGUMENT);
    else
        check_positions(record, status, (const int32_t *)record.pointers[cache_write_position], d[cache_write_texts],
                        d[cache_write_tokens], d[cache_write_capacity],
                        (const int32_t *)record.pointers[cache_write_table],
                        record.pointers[cache_write_table] ? d[cache_write_parts] : 1, d[cache_write_blocks]);
}

/* A warp for each 32 columns of a row. */
KERNEL(cache_write, PARTS(texts *tokens *heads *PARTS(head_dim, 32), 4), 128, 0)
{
    const int64_t *d = record.dims, tokens = d[cache_write_tokens], heads = d[cache_write_heads],
                  dims = d[cache_write_head_dim], pieces = PARTS(dims, 32);
    const int type = (int)d[cache_write_type];
    const int64_t row_bytes = row_bytes_of(type, dims), units = d[cache_write_texts] * tokens * heads * pieces;
    if (failed)
        return;
    FOR_EACH_BLOCK(block, PARTS(units, 4))
    {
        const int64_t unit = block * 4 + WARP, row = unit / pieces, token = row / heads, text = token / tokens;
        const int64_t column = unit % pieces * 32 + LANE;
        const bool there = unit < units && column < dims;
        const float *x =
            (const float *)record.pointers[cache_write_x] + token * d[cache_write_x_stride] + row % heads * dims;
        const float value = there ? x[column] : 0.0f;
        char *to = (char *)record.pointers[cache_write_cache];
        if (unit < units)
            to += row_at((const int32_t *)record.pointers[cache_write_table], d[cache_write_parts], text, heads,
                         row % heads, d[cache_write_capacity],
                         ((const int32_t *)record.pointers[cache_write_position])[text] + token % tokens) *
                  row_bytes;
        if (type != TYPE_uint8) {
            if (there)
                store_float(to, column, type, value);
            continue;
        }
        const bool finite = __all_sync(EVERY_LANE, value - value == 0); /* rounded as ggml rounds q8_0 */
        const float scale = finite ? warp_reduce(fabsf(value), Larger()) / 127.0f : NOT_A_NUMBER;
        const float inverse = scale > 1e-30f ? 1.0f / scale : 0.0f;
        if (there)
            ((int8_t *)to)[column] = finite ? (int8_t)(int)roundf(value * inverse) : (int8_t)0;
        if (there && LANE == 0) {
            const uint16_t half = float_to_f16(scale);
            to[dims + column / Q8_COLUMNS * 2] = (char)(half & 255);
            to[dims + column / Q8_COLUMNS * 2 + 1] = (char)(half >> 8);
        }
    }
}
