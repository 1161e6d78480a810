/* Attention over a KV cache, and writing to it.
 *
 * A few tokens: the keys are split among blocks (flash-decoding; Dao, Haziza, Massa and Sizov, 2023), each of which has up
 * to HEADS_EACH heads that read the same keys; then the parts are joined. More: tiles of 64 tokens (flash.h), float16
 * caches by tensor cores, with queries and weights as float16. */
#include "flash_halves.h"
#include "positions.h"

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

DEVICE float cached_number(const char *row, int64_t column, int type, int64_t dims)
{
    if (type != TYPE_uint8)
        return load_float(row, column, type);
    const uint8_t *scale = (const uint8_t *)row + dims + column / Q8_COLUMNS * 2;
    return (float)((const int8_t *)row)[column] * f16_to_float((uint16_t)(scale[0] | scale[1] << 8));
}

/* Whether tokens at position[text] .. of every text lie within the cache, and so do the parts of the text up to there: as
 * are_inside. Without a table, a text is one part. */
DEVICE bool are_cached(const launch &record, int32_t *status, const int32_t *position, int64_t texts, int64_t tokens,
                       int64_t capacity, const int32_t *table, int64_t parts, int64_t blocks)
{
    if (!are_inside(record, status, position, texts, tokens, table ? capacity * parts : capacity))
        return false;
    bool outside = false;
    for (int64_t i = LANE; table && i < texts * parts; i += 32)
        if (i % parts * capacity < position[i / parts] + tokens)
            outside = outside || table[i] < 0 || table[i] >= blocks;
    outside = __any_sync(EVERY_LANE, outside);
    if (outside)
        report(KERNEL_POSITION_RANGE);
    return !outside;
}

/* The number of the cache's row for a position of a text; table may be NULL. */
DEVICE int64_t row_at(const int32_t *table, int64_t parts, int64_t text, int64_t kv_heads, int64_t kv_head,
                      int64_t capacity, int64_t position)
{
    const int64_t block = table ? table[text * parts + position / capacity] : text;
    return (block * kv_heads + kv_head) * capacity + (table ? position % capacity : position);
}

DEVICE bool can_attend(const launch &record, int32_t *status)
{
    const int64_t *d = record.dims, kv_heads = d[cached_attention_kv_heads];
    if (kv_heads <= 0 || d[cached_attention_heads] % kv_heads || d[cached_attention_head_dim] > 4096 ||
        !row_bytes_of(d[cached_attention_type], d[cached_attention_head_dim]) || d[cached_attention_window] < 0) {
        report(KERNEL_BAD_ARGUMENT);
        return false;
    }
    return are_cached(record, status, (const int32_t *)record.pointers[cached_attention_position],
                      d[cached_attention_texts], d[cached_attention_tokens], d[cached_attention_capacity],
                      (const int32_t *)record.pointers[cached_attention_table], d[cached_attention_parts],
                      d[cached_attention_blocks]);
}

struct cached {
    const float *q, *slopes;
    const int32_t *position, *table;
    const char *k, *v;
    float *y;
    int64_t texts, tokens, heads, kv_heads, group, dims, capacity, parts, y_stride, q_stride, window, row_bytes;
    float scale, softcap;
    int type;
    bool causal;
};

DEVICE cached cached_of(const launch &record)
{
    const int64_t *d = record.dims;
    cached c;
    c.q = (const float *)record.pointers[cached_attention_q];
    c.slopes = (const float *)record.pointers[cached_attention_slopes];
    c.position = (const int32_t *)record.pointers[cached_attention_position];
    c.k = (const char *)record.pointers[cached_attention_k];
    c.v = (const char *)record.pointers[cached_attention_v];
    c.y = (float *)record.pointers[cached_attention_y];
    c.texts = d[cached_attention_texts];
    c.tokens = d[cached_attention_tokens];
    c.heads = d[cached_attention_heads];
    c.kv_heads = d[cached_attention_kv_heads];
    c.group = c.heads / c.kv_heads;
    c.dims = d[cached_attention_head_dim];
    c.capacity = d[cached_attention_capacity];
    c.table = (const int32_t *)record.pointers[cached_attention_table];
    c.parts = d[cached_attention_parts];
    c.y_stride = d[cached_attention_y_stride];
    c.q_stride = d[cached_attention_q_stride];
    c.window = d[cached_attention_window];
    c.type = (int)d[cached_attention_type];
    c.row_bytes = row_bytes_of(c.type, c.dims);
    c.softcap = record.floats[cached_attention_softcap];
    c.scale = record.floats[cached_attention_scale] / (c.softcap != 0 ? c.softcap : 1.0f);
    c.causal = d[cached_attention_causal] != 0;
    return c;
}

/* Keys first_key .. last_key - 1 are those that a token of a text sees. */
DEVICE int64_t last_key(const cached &c, int64_t text, int64_t token)
{
    return c.position[text] + (c.causal ? token + 1 : c.tokens);
}
DEVICE int64_t first_key(const cached &c, int64_t last) { return c.window && last > c.window ? last - c.window : 0; }

/* Where a key's row begins in a cache, in bytes. */
DEVICE int64_t place_of(const cached &c, int64_t text, int64_t head, int64_t key)
{
    return row_at(c.table, c.parts, text, c.kv_heads, head / c.group, c.capacity, key) * c.row_bytes;
}

DEVICE float score_of(const cached &c, float product, float slope, int64_t key, int64_t last)
{
    float score = product * c.scale;
    if (c.softcap != 0)
        score = c.softcap * tanhf(score);
    return seen(score + slope * (float)(key - (last - 1)));
}

/* ---- A few tokens */

enum { HEADS_EACH = 4, PIECE = 8, SPLIT_KEYS = 128, VALUE_COLUMNS = 256 };
enum { GATHERED = FLASH_THREADS * HEADS_EACH * PIECE, SCORES = HEADS_EACH * SPLIT_KEYS };

#define FEW_TOKENS 8
/* Blocks that a token's heads are cut into besides the keys, and parts that the keys are cut into. */
#define HEAD_UNITS (texts * tokens * kv_heads * PARTS(heads, MAX(kv_heads, 1) * 4))
#define SPLITS MAX(1, MIN(PARTS(capacity, 256), MIN(64, 1024 / MAX(1, HEAD_UNITS))))

/* Columns first .. first + 7 of a row. `aligned`: the row begins where 16 bytes (q8_0: 8) do, and has whole pieces. */
template <int TYPE> DEVICE void load_piece(float to[PIECE], const char *row, int64_t first, int64_t dims, bool aligned)
{
    if (!aligned) {
        for (int i = 0; i < PIECE; i++)
            to[i] = first + i < dims ? cached_number(row, first + i, TYPE, dims) : 0.0f;
    } else if (TYPE == TYPE_float32) {
        const float4 low = __ldg((const float4 *)(row + 4 * first)),
                     high = __ldg((const float4 *)(row + 4 * first) + 1);
        to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
        to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
    } else if (TYPE == TYPE_float16) {
        const uint4 eight = __ldg((const uint4 *)(row + 2 * first));
        const uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
        for (int i = 0; i < PIECE; i++)
            to[i] = half_of<TYPE_float16>(pairs[i / 2], i % 2);
    } else {
        const uint2 eight = __ldg((const uint2 *)(row + first));
        const float scale = f16_to_float(__ldg((const uint16_t *)(row + dims + first / Q8_COLUMNS * 2)));
        for (int i = 0; i < PIECE; i++)
            to[i] = scale * (float)(int8_t)((i < 4 ? eight.x : eight.y) >> i % 4 * 8);
    }
}

/* A part of the keys for HEADS heads of one token from `head` on, and the values' columns from `column0` on. To
 * scratch, for each head: the largest score, the sum, and the sums of the values. */
template <int TYPE, int HEADS>
DEVICE void attend_part(const cached &c, float *shared, float *scratch, int64_t text, int64_t token, int64_t head,
                        int heads, int64_t split, int64_t splits, int64_t column0)
{
    float *const query = shared, *const gathered = query + HEADS_EACH * PARTS(c.dims, PIECE) * PIECE;
    float *const scores = gathered + GATHERED;
    __shared__ float factors[HEADS_EACH];
    constexpr int UNROLLED = HEADS == 1 ? 4 : 2; /* loads of a thread under way */
    const int64_t padded = PARTS(c.dims, PIECE) * PIECE, row = text * c.tokens + token;
    const int64_t last = last_key(c, text, token), first = first_key(c, last);
    const int64_t each = PARTS(PARTS(last - first, splits), SPLIT_KEYS) * SPLIT_KEYS;
    const int64_t from = first + split * each, to = smaller(from + each, last);
    const int unit = TYPE == TYPE_uint8 ? 8 : 16;
    const bool aligned =
        (uint64_t)c.k % unit == 0 && (uint64_t)c.v % unit == 0 && c.row_bytes % unit == 0 && c.dims % PIECE == 0;
    FOR_THREADS(i, HEADS * padded)
    {
        const int64_t h = i / padded, column = i % padded;
        query[i] = h < heads && column < c.dims ? c.q[row * c.q_stride + (head + h) * c.dims + column] : 0.0f;
    }
    int lanes = 1; /* that share a key */
    while (lanes < 32 && lanes * PIECE < c.dims)
        lanes *= 2;
    int value_lanes = 1;
    while (value_lanes < 32 && value_lanes * PIECE < c.dims - column0)
        value_lanes *= 2;
    const int keys = FLASH_THREADS / lanes, own_key = (int)threadIdx.x / lanes, own_piece = (int)threadIdx.x % lanes;
    const int groups = FLASH_THREADS / value_lanes, group = (int)threadIdx.x / value_lanes;
    const int64_t column = column0 + (int)threadIdx.x % value_lanes * PIECE;
    float sums[HEADS][PIECE] = {{0}};
    softmax_state state = {-INFINITE, 0}; /* warp h: of head h */
    __syncthreads();
    for (int64_t start = from; start < to; start += SPLIT_KEYS) {
        for (int pass = 0; pass < SPLIT_KEYS; pass += UNROLLED * keys) {
            float products[UNROLLED][HEADS] = {{0}};
            for (int64_t at = own_piece * PIECE; at < PARTS(c.dims, lanes * PIECE) * lanes * PIECE;
                 at += lanes * PIECE) {
                float x[UNROLLED][PIECE];
#pragma unroll
                for (int u = 0; u < UNROLLED; u++) {
                    const int64_t key = start + pass + u * keys + own_key;
                    if (key < to && at < c.dims && pass + u * keys < SPLIT_KEYS)
                        load_piece<TYPE>(x[u], c.k + place_of(c, text, head, key), at, c.dims, aligned);
                    else
                        for (int i = 0; i < PIECE; i++)
                            x[u][i] = 0;
                }
                if (at < c.dims)
#pragma unroll
                    for (int h = 0; h < HEADS; h++) {
                        const four_floats low(query + h * padded + at), high(query + h * padded + at + 4);
#pragma unroll
                        for (int u = 0; u < UNROLLED; u++)
#pragma unroll
                            for (int i = 0; i < 4; i++)
                                products[u][h] += low.x[i] * x[u][i] + high.x[i] * x[u][i + 4];
                    }
            }
#pragma unroll
            for (int u = 0; u < UNROLLED; u++)
#pragma unroll
                for (int h = 0; h < HEADS; h++) {
                    float product = products[u][h];
                    for (int apart = lanes / 2; apart; apart >>= 1)
                        product += __shfl_xor_sync(EVERY_LANE, product, apart);
                    const int place = pass + u * keys + own_key;
                    if (own_piece == 0 && place < SPLIT_KEYS) {
                        const int64_t key = start + place;
                        const float slope = c.slopes && h < heads ? c.slopes[head + h] : 0.0f;
                        scores[h * SPLIT_KEYS + place] =
                            key < to && h < heads ? score_of(c, product, slope, key, last) : -INFINITE;
                    }
                }
        }
        __syncthreads();
        if (WARP < HEADS) {
            float *const own = scores + WARP * SPLIT_KEYS;
            float most = -INFINITE, total = 0;
            for (int i = LANE; i < SPLIT_KEYS; i += 32)
                most = Larger()(most, own[i]);
            const float factor = state.raise(among<32>(most, Larger()));
            for (int i = LANE; i < SPLIT_KEYS; i += 32) {
                own[i] = state.weight(own[i]);
                total += own[i];
            }
            state.total += among<32>(total, Sum());
            if (LANE == 0)
                factors[WARP] = factor;
        }
        __syncthreads();
#pragma unroll
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < PIECE; i++)
                sums[h][i] *= factors[h];
        if (column < c.dims)
            for (int pass = group; pass < SPLIT_KEYS && start + pass < to; pass += UNROLLED * groups) {
                float x[UNROLLED][PIECE];
#pragma unroll
                for (int u = 0; u < UNROLLED; u++) {
                    const int64_t key = start + pass + u * groups;
                    if (key < to && pass + u * groups < SPLIT_KEYS)
                        load_piece<TYPE>(x[u], c.v + place_of(c, text, head, key), column, c.dims, aligned);
                    else
                        for (int i = 0; i < PIECE; i++)
                            x[u][i] = 0;
                }
#pragma unroll
                for (int u = 0; u < UNROLLED; u++)
#pragma unroll
                    for (int h = 0; h < HEADS; h++) {
                        const int place = pass + u * groups;
                        const float weight = place < SPLIT_KEYS ? scores[h * SPLIT_KEYS + place] : 0.0f;
#pragma unroll
                        for (int i = 0; i < PIECE; i++)
                            sums[h][i] += weight * x[u][i];
                    }
            }
        __syncthreads();
    }
#pragma unroll
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < PIECE; i++)
            gathered[((int64_t)group * HEADS + h) * value_lanes * PIECE + (int)threadIdx.x % value_lanes * PIECE + i] =
                sums[h][i];
    __syncthreads();
    float *const out = scratch + ((row * c.heads + head) * splits + split) * (c.dims + 2);
    FOR_THREADS(i, HEADS * value_lanes * PIECE)
    {
        const int64_t h = i / (value_lanes * PIECE), at = column0 + i % (value_lanes * PIECE);
        float sum = 0;
        for (int g = 0; g < groups; g++)
            sum += gathered[(int64_t)g * HEADS * value_lanes * PIECE + i];
        if (h < heads && at < c.dims)
            out[h * splits * (c.dims + 2) + 2 + at] = sum;
    }
    if (WARP < heads && LANE == 0 && column0 == 0) {
        out[WARP * splits * (c.dims + 2)] = state.largest;
        out[WARP * splits * (c.dims + 2) + 1] = state.total;
    }
    __syncthreads();
}

#define TILE_CLASS CHOOSE(type == TYPE_float16, HALVES_CLASS(head_dim), 0)
VARIANT(cached_attention, 8 * type + 2 * TILE_CLASS + (tokens <= FEW_TOKENS))
#define COMPILED_TYPE(type) COMPILED(VARIED / 8 == TYPE_##type)

SCRATCH(cached_attention, CHOOSE(tokens <= FEW_TOKENS, 4 * texts * tokens * heads * SPLITS * (head_dim + 2), 0))
STEP(cached_attention, 1, CHOOSE(tokens <= FEW_TOKENS, HEAD_UNITS *SPLITS *PARTS(head_dim, 256), 0), 128,
     4 * (4 * 8 * PARTS(head_dim, 8) + 4096 + 512))
{
    DYNAMIC_SHARED(float, shared);
    if (!can_attend(record, status) || failed || !COMPILED(VARIED % 2))
        return;
    const cached c = cached_of(record);
    const int64_t texts = c.texts, tokens = c.tokens, heads = c.heads, kv_heads = c.kv_heads, capacity = c.capacity;
    const int64_t splits = SPLITS, chunks = PARTS(c.dims, VALUE_COLUMNS), units = PARTS(c.group, HEADS_EACH);
    FOR_EACH_BLOCK(i, texts * tokens * kv_heads * units * splits * chunks)
    {
        const int64_t unit = i % units, kv_head = i / units % kv_heads, split = i / units / kv_heads % splits;
        const int64_t rest = i / units / kv_heads / splits, chunk = rest % chunks, row = rest / chunks;
        const int64_t head = kv_head * c.group + unit * HEADS_EACH;
        const int heads_here = (int)smaller(c.group - unit * HEADS_EACH, HEADS_EACH);
#define PART(type, heads)                                                                                              \
    attend_part<TYPE_##type, heads>(c, shared, (float *)scratch, row / tokens, row % tokens, head, heads_here, split,  \
                                    splits, chunk * VALUE_COLUMNS)
        if (COMPILED_TYPE(float16) && c.type == TYPE_float16)
            heads_here == 1 ? PART(float16, 1) : PART(float16, HEADS_EACH);
        else if (COMPILED_TYPE(float32) && c.type == TYPE_float32)
            heads_here == 1 ? PART(float32, 1) : PART(float32, HEADS_EACH);
        else if (COMPILED_TYPE(uint8))
            heads_here == 1 ? PART(uint8, 1) : PART(uint8, HEADS_EACH);
    }
}

STEP(cached_attention, 2, CHOOSE(tokens <= FEW_TOKENS, texts *tokens *heads, 0), 128, 0)
{
    __shared__ float weights[64];
    if (!can_attend(record, status) || failed || !COMPILED(VARIED % 2))
        return;
    const cached c = cached_of(record);
    const int64_t texts = c.texts, tokens = c.tokens, heads = c.heads, kv_heads = c.kv_heads, capacity = c.capacity;
    const int64_t splits = SPLITS, step = c.dims + 2;
    FOR_EACH_BLOCK(i, texts * tokens * heads)
    {
        const float *parts = (const float *)scratch + i * splits * step;
        softmax_state all = {-INFINITE, 0};
        for (int64_t s = 0; s < splits; s++)
            all.largest = Larger()(all.largest, parts[s * step]);
        FOR_THREADS(s, splits)
        weights[s] = all.weight(parts[s * step]);
        __syncthreads();
        for (int64_t s = 0; s < splits; s++)
            all.total += weights[s] != 0 ? weights[s] * parts[s * step + 1] : 0.0f;
        const float factor = all.inverse();
        FOR_THREADS(column, c.dims)
        {
            float sum = 0;
            for (int64_t s = 0; s < splits; s++)
                sum += weights[s] != 0 ? weights[s] * parts[s * step + 2 + column] : 0.0f;
            c.y[i / heads * c.y_stride + i % heads * c.dims + column] = sum * factor;
        }
        __syncthreads();
    }
}

/* ---- Tiles of tokens */

/* Of a text and head; what flash_floats and flash_forward ask for. */
struct prompt {
    static constexpr bool ONLINE = true, SECOND = false;
    static constexpr int TYPE = TYPE_float16;
    const cached &c;
    int64_t text, head;
    int rows, depth, second_depth, columns, segments;
    float slope, scale;
    halves_matrix keys, values; /* of a float16 cache without a table */
    bool hides;

    DEVICE_MEMBER prompt(const cached &of, int64_t text_, int64_t head_)
        : c(of), text(text_), head(head_), rows((int)of.tokens), depth((int)of.dims), second_depth(0),
          columns((int)of.dims), segments(1), scale(of.scale), hides(false)
    {
        const int64_t cache = (text * c.kv_heads + head / c.group) * c.capacity * c.row_bytes;
        slope = c.slopes ? c.slopes[head] : 0.0f;
        keys = halves_matrix{(const uint16_t *)(c.k + cache), c.dims};
        values = halves_matrix{(const uint16_t *)(c.v + cache), c.dims};
    }
    DEVICE_MEMBER void select(int64_t) const {}
    DEVICE_MEMBER int last_key(int64_t row) const { return (int)::last_key(c, text, row); }
    DEVICE_MEMBER int first_key(int64_t row) const { return (int)::first_key(c, ::last_key(c, text, row)); }
    DEVICE_MEMBER void range(int64_t row, int64_t last_row, int64_t *first, int64_t *last) const
    {
        *first = first_key(row);
        *last = last_key(last_row);
    }
    DEVICE_MEMBER bool whole(int64_t row, int64_t last_row, int64_t other, int64_t last_other) const
    {
        return last_other < last_key(row) && other >= first_key(last_row);
    }
    DEVICE_MEMBER float score(int64_t row, int64_t other, float product) const
    {
        return score_of(c, product, slope, other, last_key(row));
    }
    DEVICE_MEMBER float score(int64_t row, int64_t other, float product, bool sees_all) const
    {
        if (!sees_all && (other >= last_key(row) || other < first_key(row)))
            return -INFINITE;
        return score(row, other, product);
    }
    DEVICE_MEMBER float weight(int64_t, int64_t, float, float) const { return 0; }
    DEVICE_MEMBER const float *query(int64_t row) const
    {
        return c.q + (text * c.tokens + row) * c.q_stride + head * c.dims;
    }
    DEVICE_MEMBER float *own_y(int64_t row) const { return c.y + (text * c.tokens + row) * c.y_stride + head * c.dims; }
    template <bool> DEVICE_MEMBER float row_at(int64_t row, int64_t column) const { return query(row)[column]; }
    template <bool> DEVICE_MEMBER float other_at(int64_t other, int64_t column) const
    {
        return cached_number(c.k + place_of(c, text, head, other), column, c.type, c.dims);
    }
    DEVICE_MEMBER float value_at(int64_t other, int64_t column) const
    {
        return cached_number(c.v + place_of(c, text, head, other), column, c.type, c.dims);
    }
    DEVICE_MEMBER void state(int64_t, const softmax_state &) const {}
    DEVICE_MEMBER void result(int64_t row, int64_t column, float value) const { own_y(row)[column] = value; }

    /* Rows as float16, which numbers that are too large are clamped to. */
    template <int DIMS, int COUNT, bool SWIZZLED> DEVICE_MEMBER void load(uint16_t *to, int row0) const
    {
        const bool aligned = (uint64_t)c.q % 16 == 0 && c.q_stride % 4 == 0 && c.dims % 4 == 0;
#pragma unroll 4
        for (int i = (int)threadIdx.x; i < COUNT * DIMS / 4; i += FLASH_THREADS) {
            const int row = i / (DIMS / 4), column = i % (DIMS / 4) * 4;
            float x[4] = {0, 0, 0, 0};
            if (aligned && row0 + row < rows && column < depth) {
                const four_floats four(query(row0 + row) + column);
                for (int e = 0; e < 4; e++)
                    x[e] = four.x[e];
            } else if (row0 + row < rows) {
                for (int e = 0; e < 4; e++)
                    x[e] = column + e < depth ? query(row0 + row)[column + e] : 0.0f;
            }
            for (int e = 0; e < 4; e++)
                x[e] = x[e] - x[e] == 0 ? fminf(fmaxf(x[e], -65504.0f), 65504.0f) : x[e];
            *(uint2 *)(to + place_of_number<DIMS, COUNT, SWIZZLED>(row, column)) =
                uint2{pair_of<TYPE>(x[0], x[1]), pair_of<TYPE>(x[2], x[3])};
        }
    }
    template <int DIMS>
    DEVICE_MEMBER void finish(int row, bool there, float, float inverse, const float out[DIMS / 8][4], int h) const
    {
        if (!there)
            return;
        float *const to = own_y(row);
#pragma unroll
        for (int n = 0; n < DIMS / 8; n++)
            for (int e = 0; e < 2; e++)
                if (8 * n + LANE % 4 * 2 + e < columns)
                    to[8 * n + LANE % 4 * 2 + e] = out[n][2 * h + e] * inverse;
    }
};

template <int DIMS, bool PLAIN, int ROWS> DEVICE void attend_tiles(const cached &c, uint16_t *shared)
{
    const int64_t units = c.texts * c.heads, tiles = PARTS(c.tokens, ROWS);
    FOR_EACH_BLOCK(i, units * tiles)
    {
        const unit_and_tile at(i, units, tiles, true);
        const prompt task(c, at.unit / c.heads, at.unit % c.heads);
        flash_forward<prompt, DIMS, PLAIN, ROWS>(task, (int)at.tile * ROWS, shared);
    }
}
template <int DIMS, bool PLAIN> DEVICE void attend_halves(const cached &c, uint16_t *shared)
{
    const int64_t units = c.texts * c.heads;
    if constexpr (PLAIN && DIMS <= 128)
        if (HALVES_ROWS(units, c.tokens, DIMS) == 128)
            return attend_tiles<DIMS, PLAIN, 128>(c, shared);
    attend_tiles<DIMS, PLAIN, 64>(c, shared);
}

KERNEL(cached_attention,
       CHOOSE(tokens <= FEW_TOKENS, 0,
              CHOOSE(TILE_CLASS == 0, texts *heads *PARTS(tokens, 64) * PARTS(head_dim, 128),
                     HALVES_TILES((texts * heads), tokens, head_dim))),
       128, MAX(FLOATS_SHARED, CHOOSE(TILE_CLASS == 0, 0, HALVES_SHARED(head_dim))))
{
    DYNAMIC_SHARED(float, shared);
    if (!can_attend(record, status) || failed || !COMPILED(VARIED % 2 == 0))
        return;
    const cached c = cached_of(record);
#if HAS_TENSOR_CORES
    if (COMPILED(VARIED / 2 % 4) && c.type == TYPE_float16 && c.dims <= HALVES_MOST && !c.table) {
        const bool plain = !c.slopes && c.softcap == 0 && c.scale > 0;
#define HALVES(number, longest)                                                                                        \
    if (COMPILED(VARIED / 2 % 4 == number) && c.dims <= longest)                                                       \
        return plain ? attend_halves<longest, true>(c, (uint16_t *)shared)                                             \
                     : attend_halves<longest, false>(c, (uint16_t *)shared);
        HALVES(1, 64)
        HALVES(2, 128)
        HALVES(3, 256)
    }
#endif
    /* Rows in blocks have no common distance, which copies of whole tiles need. */
    const int64_t tiles = PARTS(c.tokens, FLASH_ROWS), chunks = PARTS(c.dims, FLASH_COLUMNS);
    FOR_EACH_BLOCK(i, c.texts * c.heads * tiles * chunks)
    {
        const int64_t chunk = i % chunks, tile = tiles - 1 - i / chunks % tiles, unit = i / chunks / tiles;
        prompt task(c, unit / c.heads, unit % c.heads); /* the longest first */
        flash_floats(task, tile * FLASH_ROWS, chunk * FLASH_COLUMNS, shared);
    }
}

/* A warp for each 32 columns of a row. */
KERNEL(cache_write, PARTS(texts *tokens *heads *PARTS(head_dim, 32), 4), 128, 0)
{
    const int64_t *d = record.dims, tokens = d[cache_write_tokens], heads = d[cache_write_heads],
                  dims = d[cache_write_head_dim], pieces = PARTS(dims, 32);
    const int type = (int)d[cache_write_type];
    const int64_t row_bytes = row_bytes_of(type, dims), units = d[cache_write_texts] * tokens * heads * pieces;
    if (!row_bytes) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int32_t *const table = (const int32_t *)record.pointers[cache_write_table];
    if (!are_cached(record, status, (const int32_t *)record.pointers[cache_write_position], d[cache_write_texts],
                    tokens, d[cache_write_capacity], table, d[cache_write_parts], d[cache_write_blocks]) ||
        failed)
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
