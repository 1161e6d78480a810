/* Attention over a KV cache, and writing to it.
 *
 * A few tokens: the keys are split among warps (flash-decoding; Dao, Haziza, Massa and Sizov, 2023), each of which has one
 * head, so that those of one token fill the card; the last of a head's joins their parts. More: tiles of 64 tokens
 * (flash_floats.h); of float16 and bfloat16 caches with queries and weights of the cache's type (flash_halves.h). A cache in
 * blocks is read through its table where it lies. */
#include "flash_floats.h"
#include "flash_halves.h"
#include "multiprocessors.h"
#include "positions.h"

enum { Q8_COLUMNS = 32 };

/* Bytes of a row of a cache, or 0 for a type that caches do not have. uint8 means q8_0: int8 numbers, then an f16 scale
 * for each Q8_COLUMNS of them. */
DEVICE int64_t row_bytes_of(int64_t type, int64_t dims)
{
    return type == TYPE_float32                            ? 4 * dims
           : type == TYPE_float16 || type == TYPE_bfloat16 ? 2 * dims
           : type == TYPE_uint8                            ? dims + PARTS(dims, Q8_COLUMNS) * 2
                                                           : 0;
}

DEVICE float cached_number(const char *row, int64_t column, int type, int64_t dims)
{
    if (type != TYPE_uint8)
        return load_float(row, column, type);
    const uint8_t *scale = (const uint8_t *)row + dims + column / Q8_COLUMNS * 2;
    return (float)((const int8_t *)row)[column] * f16_to_float((uint16_t)(scale[0] | scale[1] << 8));
}

/* Whether the parts of every text that it has come to lie in blocks of the cache; else that is reported. For whole warps. */
DEVICE bool are_in_blocks(const launch &record, int32_t *status, const int32_t *position, int64_t texts, int64_t tokens,
                          int64_t capacity, const int32_t *table, int64_t parts, int64_t blocks)
{
    bool outside = false;
#pragma unroll 1 /* without divisions, and no further than texts reach */
    for (int64_t text = 0; text < texts; text++) {
        const int64_t end = position[text] + tokens;
#pragma unroll 1
        for (int64_t part = LANE; part * capacity < end; part += 32) {
            const int32_t block = table[text * parts + part];
            outside = outside || block < 0 || block >= blocks;
        }
    }
    outside = __any_sync(EVERY_LANE, outside);
    if (outside)
        report(KERNEL_POSITION_RANGE);
    return !outside;
}

DEVICE bool can_attend(const launch &record, int32_t *status)
{
    const int64_t *d = record.dims, kv_heads = d[cached_attention_kv_heads];
    const int64_t heads = d[cached_attention_heads];
    const bool paged = record.pointers[cached_attention_table] != nullptr;
    if (kv_heads <= 0 || heads < 0 || (heads != kv_heads && heads % kv_heads) || d[cached_attention_head_dim] > 4096 ||
        !row_bytes_of(d[cached_attention_type], d[cached_attention_head_dim]) || d[cached_attention_window] < 0 ||
        (!paged && d[cached_attention_blocks])) {
        report(KERNEL_BAD_ARGUMENT);
        return false;
    }
    if (paged && d[cached_attention_blocks] <= 0) {
        report(KERNEL_POSITION_RANGE);
        return false;
    }
    return are_inside(record, status, (const int32_t *)record.pointers[cached_attention_position],
                      d[cached_attention_texts], d[cached_attention_tokens],
                      d[cached_attention_capacity] * (paged ? d[cached_attention_parts] : 1));
}

struct cached {
    const float *q, *slopes, *sinks;
    const int32_t *position, *table;
    const char *k, *v;
    float *y;
    int64_t texts, tokens, heads, kv_heads, group, dims, capacity, parts, y_stride, q_stride, window, row_bytes;
    int64_t blocks;
    float scale, softcap;
    uint32_t inverse; /* of a block's tokens */
    int type;
    bool causal;
};

DEVICE cached cached_of(const launch &record)
{
    const int64_t *d = record.dims;
    cached c;
    c.q = (const float *)record.pointers[cached_attention_q];
    c.slopes = (const float *)record.pointers[cached_attention_slopes];
    c.sinks = (const float *)record.pointers[cached_attention_sinks];
    c.position = (const int32_t *)record.pointers[cached_attention_position];
    c.k = (const char *)record.pointers[cached_attention_k];
    c.v = (const char *)record.pointers[cached_attention_v];
    c.y = (float *)record.pointers[cached_attention_y];
    c.texts = d[cached_attention_texts];
    c.tokens = d[cached_attention_tokens];
    c.heads = d[cached_attention_heads];
    c.kv_heads = d[cached_attention_kv_heads];
    c.group = small_quotient((int)c.heads, (int)c.kv_heads);
    c.dims = d[cached_attention_head_dim];
    c.capacity = d[cached_attention_capacity];
    c.table = (const int32_t *)record.pointers[cached_attention_table];
    c.parts = d[cached_attention_parts];
    c.blocks = d[cached_attention_blocks];
    c.inverse = c.table ? 0xffffffffu / (uint32_t)c.capacity : 0;
    c.y_stride = d[cached_attention_y_stride];
    c.q_stride = d[cached_attention_q_stride];
    c.window = d[cached_attention_window];
    c.type = (int)d[cached_attention_type];
    c.row_bytes = row_bytes_of(c.type, c.dims);
    c.softcap = record.floats[cached_attention_softcap];
    c.scale = record.floats[cached_attention_scale];
    if (c.softcap != 0)
        c.scale /= c.softcap;
    c.causal = d[cached_attention_causal] != 0;
    return c;
}

/* Keys first_key .. last_key - 1 are those that a token of a text sees. */
DEVICE int64_t last_key(const cached &c, int64_t text, int64_t token)
{
    return c.position[text] + (c.causal ? token + 1 : c.tokens);
}
DEVICE int64_t first_key(const cached &c, int64_t last) { return c.window && last > c.window ? last - c.window : 0; }

/* The part that a key lies in. */
DEVICE int part_of(const cached &c, int key)
{
    const int part = (int)((uint64_t)(uint32_t)key * c.inverse >> 32); /* or 1 less than it is */
    return part + (key - part * (int)c.capacity >= (int)c.capacity);
}

/* The number of the cache's row for a key of a text; -1 where the table names no block of the cache. */
template <bool PAGED> DEVICE int64_t row_of(const cached &c, int64_t text, int64_t kv_head, int key)
{
    if (!PAGED)
        return (text * c.kv_heads + kv_head) * c.capacity + key;
    const int part = part_of(c, key);
    const int32_t block = c.table[text * c.parts + part];
    return (uint32_t)block < c.blocks ? (block * c.kv_heads + kv_head) * c.capacity + key - part * c.capacity : -1;
}

DEVICE float score_of(const cached &c, float product, float slope, int64_t key, int64_t last)
{
    float score = product * c.scale;
    if (c.softcap != 0)
        score = c.softcap * tanhf(score);
    return seen(score + slope * (float)(key - (last - 1)));
}

/* ---- A few tokens: a part of the keys of one head for a warp, whose code is short, since a step's kernels run it once */

enum { PIECE = 8, PART_COLUMNS = 32 * PIECE, PART_WARPS = 4 };

#define MOST_PARTS 64
#define FEWEST_KEYS 32 /* of a part: what a warp loads at a time, or twice that */
#define FEW_TOKENS 8
#define FILLING (8 * MULTIPROCESSORS) /* warps: two blocks for each multiprocessor */
/* Parts that the keys are cut into at most: by the heads of one token. Not by how many texts or tokens there are, whose
 * results would depend on their company; nor by the cache's capacity, which is another where the cache lies in blocks. */
#define SPLITS MIN(PARTS(FILLING, MAX(1, heads)), MOST_PARTS)
/* So many of them are there. */
#define PARTS_THERE MAX(1, MIN(SPLITS, PARTS(capacity *MAX(1, parts), FEWEST_KEYS)))
/* So many parts a warp takes one after the other, where the card is full anyway: that changes no result. */
#define ALL_PARTS (texts * tokens * heads * PARTS_THERE)
#define PARTS_EACH CHOOSE(ALL_PARTS > 4 * FILLING, 4, CHOOSE(ALL_PARTS > 2 * FILLING, 2, 1))

/* Columns first .. first + 7 of a row, as stored; zeros where they are not there. ALIGNED: rows begin
 * where 16 bytes (q8_0: 8) do, and have whole pieces. */
template <int TYPE, bool ALIGNED> struct stored_piece {
    static constexpr int WORDS = TYPE == TYPE_float32 ? 8 : TYPE == TYPE_uint8 ? 2 : 4;
    uint32_t words[WORDS];
    float scale;

    DEVICE_MEMBER void load(const char *row, int first, int dims, bool there)
    {
        scale = 0;
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            words[i] = 0;
        if (ALIGNED && TYPE == TYPE_uint8) {
            if (there) {
                const uint2 eight = *(const uint2 *)(row + first);
                words[0] = eight.x, words[1] = eight.y;
            }
        } else if (ALIGNED) {
#pragma unroll
            for (int i = 0; i < WORDS / 4; i++)
                if (there) {
                    const uint4 four = *((const uint4 *)(row + WORDS / 2 * first) + i);
                    words[4 * i] = four.x, words[(4 * i + 1) % WORDS] = four.y;
                    words[(4 * i + 2) % WORDS] = four.z, words[(4 * i + 3) % WORDS] = four.w;
                }
        } else {
#pragma unroll
            for (int i = 0; i < PIECE; i++)
                if (there && first + i < dims) {
                    if (TYPE == TYPE_float32)
                        words[i % WORDS] = ((const uint32_t *)row)[first + i];
                    else if (TYPE != TYPE_uint8)
                        words[i / 2 % WORDS] |= (uint32_t)((const uint16_t *)row)[first + i] << i % 2 * 16;
                    else
                        words[i / 4 % WORDS] |= (uint32_t)((const uint8_t *)row)[first + i] << i % 4 * 8;
                }
        }
        if (TYPE == TYPE_uint8 && there) {
            const uint8_t *const at = (const uint8_t *)row + dims + first / Q8_COLUMNS * 2;
            scale = f16_to_float(ALIGNED ? *(const uint16_t *)at : (uint16_t)(at[0] | at[1] << 8));
        }
    }
    DEVICE_MEMBER float at(int i) const
    {
        return TYPE == TYPE_float32 ? __int_as_float((int)words[i % WORDS])
               : TYPE != TYPE_uint8 ? half_of<TYPE>(words[i / 2 % WORDS], i % 2)
                                    : scale * (float)(int8_t)(words[i / 4 % WORDS] >> i % 4 * 8);
    }
};

/* LANES lanes share a key, which has up to LANES pieces, and load LOADS keys at a time. */
DEVICE int lanes_of(int64_t dims) { return dims <= 64 ? 8 : dims <= 128 ? 16 : 32; }
#define LOADS_OF(type) ((type) == TYPE_float32 ? 4 : 8)

/* Keys of a part of the keys of a head: whole tiles of a warp. */
DEVICE int part_keys(const cached &c, int keys)
{
    const int tile = 32 / lanes_of(c.dims) * LOADS_OF(c.type);
    const int64_t heads = c.heads;
    const int splits = (int)SPLITS, least = small_quotient(keys + splits - 1, splits);
    return MAX(FEWEST_KEYS,
               (least + tile - 1) & ~(tile - 1)); /* a tile is a power of two, and no more than FEWEST_KEYS */
}

/* What a part leaves: the largest score, the sum of the weights, two numbers that nothing reads, the sums of the columns. */
#define PART_FLOATS(dims) (4 + 4 * PARTS(dims, 4))
#define JOINED 16 /* parts that a warp loads at a time, and so many columns of them */
#define JOIN_COLUMNS(dims) MIN(128, 4 * PARTS(dims, 4))
enum { FIRST_SUM = 4 };

/* Keys from .. to - 1 of a token that sees those before `last`, for one head, by a warp. To `out`: the largest score, the sum of
 * the weights, and the sums of the values' columns from column0 on. Each lane has the same columns of keys and values: the
 * loads of both are under way at the same time, and scores never leave the registers. LONG: for heads of more pieces than
 * lanes. ALIGNED: pieces are. PAGED: keys lie in blocks; each lane finds the place of one of the next keys. False where the
 * table names no block. */
template <int TYPE, int LANES, bool LONG, bool ALIGNED, bool PAGED>
DEVICE bool attend_part(const cached &c, float *out, int64_t row, int64_t text, int64_t head, int from, int to,
                        int last, int column0)
{
    constexpr int ABREAST = 32 / LANES, LOADS = LOADS_OF(TYPE), TOGETHER = ABREAST * LOADS;
    const int own = LANE / LANES, place = LANE % LANES * PIECE, column = column0 + place, dims = (int)c.dims;
    const int64_t kv_head = small_quotient((int)head, (int)c.group);
    const int64_t cache = row_of<false>(c, text, kv_head, 0); /* without a table */
    const auto find = [&](int start) { return row_of<PAGED>(c, text, kv_head, MIN(start + LANE % TOGETHER, to - 1)); };
    int64_t found = PAGED ? find(from) : 0;
    const float *const q = c.q + row * c.q_stride + head * c.dims;
    const float slope = c.slopes ? c.slopes[head] : 0.0f;
    float query[PIECE], sums[PIECE] = {0};
    softmax_state state = {-INFINITE, 0};
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        query[i] = !LONG && place + i < dims ? q[place + i] : 0.0f;
#pragma unroll 1
    for (int start = from; start < to; start += TOGETHER) {
        stored_piece<TYPE, ALIGNED> keys[LOADS], values[LOADS];
        float scores[LOADS], most = -INFINITE;
        const int64_t rows = found;
        if (PAGED) {
            if (__any_sync(EVERY_LANE, rows < 0))
                return false;
            found = find(start + TOGETHER);
        }
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            const int key = start + u * ABREAST + own;
            const bool there = key < to;
            const int64_t row_number = PAGED ? __shfl_sync(EVERY_LANE, rows, u * ABREAST + own) : cache + key;
            const int64_t at = row_number * c.row_bytes;
            if (LONG) {
                scores[u] = 0;
                for (int first = place; first < dims; first += PART_COLUMNS) {
                    keys[u].load(c.k + at, first, dims, there);
                    for (int i = 0; i < PIECE && first + i < dims; i++)
                        scores[u] += q[first + i] * keys[u].at(i);
                }
            } else
                keys[u].load(c.k + at, place, dims, there && place < dims);
            values[u].load(c.v + at, column, dims, there && column < dims);
        }
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            float product = LONG ? scores[u] : 0.0f;
            if (!LONG)
#pragma unroll
                for (int i = 0; i < PIECE; i++)
                    product += query[i] * keys[u].at(i);
            scores[u] = among<LANES>(product, Sum()) * c.scale;
        }
        if (c.softcap != 0)
#pragma unroll
            for (int u = 0; u < LOADS; u++)
                scores[u] = c.softcap * tanhf(scores[u]);
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            const int key = start + u * ABREAST + own;
            scores[u] = key < to ? seen(scores[u] + slope * (float)(key - (last - 1))) : -INFINITE;
            most = Larger()(most, scores[u]);
        }
#pragma unroll
        for (int apart = 16; apart >= LANES; apart >>= 1)
            most = Larger()(most, __shfl_xor_sync(EVERY_LANE, most, apart));
        const float factor = state.raise(most);
#pragma unroll
        for (int i = 0; i < PIECE; i++)
            sums[i] *= factor;
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            const float weight = state.weight(scores[u]);
            state.total += weight;
#pragma unroll
            for (int i = 0; i < PIECE; i++)
                sums[i] += weight * values[u].at(i);
        }
    }
#pragma unroll
    for (int apart = 16; apart >= LANES; apart >>= 1) {
        state.total += __shfl_xor_sync(EVERY_LANE, state.total, apart);
#pragma unroll
        for (int i = 0; i < PIECE; i++)
            sums[i] += __shfl_xor_sync(EVERY_LANE, sums[i], apart);
    }
    if (LANE == 0 && column0 == 0)
        out[0] = state.largest, out[1] = state.total;
#pragma unroll
    for (int i = 0; i < PIECE; i += 4)
        if (own == 0 && column + i < dims) /* fours have room */
            *(float4 *)(out + FIRST_SUM + column + i) = float4{sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
    return true;
}

#define DIMS_KIND ((head_dim > 64) + (head_dim > 128) + (head_dim > 256))
#define FEW_KIND CHOOSE(tokens <= FEW_TOKENS, 1 + DIMS_KIND, 0)
#define TILE_CLASS                                                                                                     \
    CHOOSE(type == TYPE_float16, HALVES_CLASS(head_dim), CHOOSE(type == TYPE_bfloat16, HALVES_CLASS(head_dim), 0))
#define TILE_KIND CHOOSE(TILE_CLASS == 0, 0, 8 + TILE_CLASS)
VARIANT(cached_attention, 32 * type + CHOOSE(blocks > 0, 16, 0) + CHOOSE(tokens <= FEW_TOKENS, FEW_KIND, TILE_KIND))
#define COMPILED_TYPE(type) COMPILED(VARIED / 32 == TYPE_##type)
#define COMPILED_PAGED COMPILED(VARIED / 16 % 2 == 1)
#define COMPILED_IN_ORDER COMPILED(VARIED / 16 % 2 == 0)
#define COMPILED_KIND(kind) COMPILED(VARIED % 16 == (kind))
#define COMPILED_FEW COMPILED(VARIED % 16 >= 1 && VARIED % 16 <= 8)

template <int TYPE, bool PAGED>
DEVICE bool attend_few_of(const cached &c, float *out, int64_t row, int64_t text, int64_t head, int from, int to,
                          int last, int column0)
{
    const int64_t head_dim = c.dims;
    const int kind = DIMS_KIND, bytes = TYPE == TYPE_uint8 ? 8 : 16;
    const bool aligned = ((uint64_t)c.k | (uint64_t)c.v | (uint64_t)c.row_bytes) % bytes == 0 && c.dims % PIECE == 0;
#define ATTEND(lanes, is_long)                                                                                         \
    return aligned ? attend_part<TYPE, lanes, is_long, true, PAGED>(c, out, row, text, head, from, to, last, column0)  \
                   : attend_part<TYPE, lanes, is_long, false, PAGED>(c, out, row, text, head, from, to, last, column0)
    if (COMPILED_KIND(1) && kind == 0)
        ATTEND(8, false);
    if (COMPILED_KIND(2) && kind == 1)
        ATTEND(16, false);
    if (COMPILED_KIND(3) && kind == 2)
        ATTEND(32, false);
    if (COMPILED_KIND(4) && kind == 3)
        ATTEND(32, true);
    return true;
}

template <bool PAGED>
DEVICE bool attend_few(const cached &c, float *out, int64_t row, int64_t text, int64_t head, int from, int to, int last,
                       int column0)
{
    if (COMPILED_TYPE(float16) && c.type == TYPE_float16)
        return attend_few_of<TYPE_float16, PAGED>(c, out, row, text, head, from, to, last, column0);
    if (COMPILED_TYPE(bfloat16) && c.type == TYPE_bfloat16)
        return attend_few_of<TYPE_bfloat16, PAGED>(c, out, row, text, head, from, to, last, column0);
    if (COMPILED_TYPE(float32) && c.type == TYPE_float32)
        return attend_few_of<TYPE_float32, PAGED>(c, out, row, text, head, from, to, last, column0);
    if (COMPILED_TYPE(uint8) && c.type == TYPE_uint8)
        return attend_few_of<TYPE_uint8, PAGED>(c, out, row, text, head, from, to, last, column0);
    return true;
}

/* Joins the parts of a head, `used` of them, by a warp. Each lane has columns of four, and shared memory for JOINED parts of
 * them, so that loads under way take no registers from the rest of the kernel. */
DEVICE void join_parts(float *y, const float *parts, int used, int dims, float sink, float *shared,
                       const int32_t *status)
{
    const bool stop = failed; /* with the loads that follow, and after what other warps have reported */
    constexpr int EACH_LANE = PARTS(MOST_PARTS, 32);
    const int step = PART_FLOATS(dims), columns = JOIN_COLUMNS(dims);
    const auto load = [&](int first, int column) {
#pragma unroll
        for (int i = 0; i < JOINED; i++)
            if (first + i < used && column < dims) {
                float *const to = shared + i * columns + 4 * LANE;
                const float *const from = parts + (first + i) * step + FIRST_SUM + column;
                if (HAS_TENSOR_CORES)
                    start_copy(to, from, true);
                else
                    *(float4 *)to = *(const float4 *)from;
            }
        end_copies();
    };
    load(0, 4 * LANE); /* while the weights come */
    float most[EACH_LANE], weights[EACH_LANE], largest = -INFINITE;
    softmax_state all = {0, 0};
#pragma unroll
    for (int k = 0; k < EACH_LANE; k++) {
        const int part = LANE + 32 * k;
        most[k] = part < used ? parts[part * step] : -INFINITE;
        weights[k] = part < used ? parts[part * step + 1] : 0.0f; /* their sum; below it becomes their factor */
        largest = Larger()(largest, most[k]);
    }
    all.largest = warp_reduce(largest, Larger());
#pragma unroll
    for (int k = 0; k < EACH_LANE; k++) {
        const float weight = all.weight(most[k]);
        all.total += weight != 0 ? weight * weights[k] : 0.0f;
        weights[k] = weight;
    }
    all.total = warp_reduce(all.total, Sum());
    all.add(sink);
    const float factor = all.inverse();
#pragma unroll 1
    for (int base = 0; base < dims; base += columns) {
        const int column = base + 4 * LANE;
        float sums[4] = {0};
#pragma unroll 1
        for (int first = 0; first < used; first += JOINED) {
            if (base || first)
                load(first, column);
            wait_for_copies<0>(); /* a lane reads what it has copied */
#pragma unroll 4
            for (int i = 0; i < JOINED; i++) {
                /* All JOINED parts lie in one of the two. */
                const float weight =
                    __shfl_sync(EVERY_LANE, first < 32 ? weights[0] : weights[EACH_LANE - 1], (first + i) % 32);
                if (first + i < used && weight != 0 && column < dims) {
                    const float4 own = *(const float4 *)(shared + i * columns + 4 * LANE);
                    sums[0] += weight * own.x, sums[1] += weight * own.y;
                    sums[2] += weight * own.z, sums[3] += weight * own.w;
                }
            }
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (column + e < dims && !stop)
                y[column + e] = sums[e] * factor;
    }
}

SCRATCH(cached_attention, CHOOSE(tokens <= FEW_TOKENS, 4 * ALL_PARTS * PART_FLOATS(head_dim), 0))
COUNTERS(cached_attention, CHOOSE(tokens <= FEW_TOKENS, texts *tokens *heads, 0))
STEP(cached_attention, 1,
     CHOOSE(tokens <= FEW_TOKENS, PARTS(texts *tokens *heads *PARTS(PARTS_THERE, PARTS_EACH) * PARTS(head_dim, 256), 4),
            0),
     128, 4 * 4 * JOINED * JOIN_COLUMNS(head_dim))
{
    DYNAMIC_SHARED(float, shared);
    const bool failed_before = failed; /* this load and that of the position wait together */
    if (!can_attend(record, status) || !COMPILED_FEW)
        return;
    const bool stop =
        __any_sync(EVERY_LANE, failed_before); /* another warp may report meanwhile: all must be counted */
    const cached c = cached_of(record);
    const int64_t texts = c.texts, tokens = c.tokens, heads = c.heads, capacity = c.capacity, parts = c.parts;
    /* All below 2^31: the scratch memory has more bytes. */
    const int there = (int)PARTS_THERE, together = (int)PARTS_EACH, groups = (there + together - 1) / together;
    const int chunks = (int)PARTS(c.dims, PART_COLUMNS), units = (int)(texts * tokens * heads) * groups * chunks;
    /* One loop over the parts of all units: a loop of its own for those of a unit takes a third more registers. */
    for (int step = ((int)blockIdx.x * PART_WARPS + WARP) * together; step < units * together;) {
        const int unit = step / together, place = step % together; /* a power of two */
        step += place + 1 < together ? 1 : 1 + ((int)gridDim.x * PART_WARPS - 1) * together;
        /* Warps of a block have heads side by side, which share keys. */
        const int others = small_quotient(unit, (int)heads), head = unit - others * (int)heads;
        const int rest = small_quotient(others, groups), group = others - rest * groups;
        const int row = small_quotient(rest, chunks), column0 = (rest - row * chunks) * PART_COLUMNS;
        const int text = small_quotient(row, (int)tokens), number = row * (int)heads + head;
        const int last = (int)last_key(c, text, row - text * tokens), first = (int)first_key(c, last);
        const int each = part_keys(c, last - first), used = small_quotient(last - first + each - 1, each);
        const int part = group * together + place, from = first + part * each;
        if (part >= used)
            continue;
        const int to = MIN(from + each, last);
        float *const own = (float *)scratch + (int64_t)number * there * PART_FLOATS(c.dims);
        float *const out = own + part * PART_FLOATS(c.dims);
        bool right = true;
        if (COMPILED_PAGED && c.table && !stop)
            right = attend_few<true>(c, out, row, text, head, from, to, last, column0);
        else if (COMPILED_IN_ORDER && !stop)
            right = attend_few<false>(c, out, row, text, head, from, to, last, column0);
        if (!right)
            report(KERNEL_POSITION_RANGE);
        if (place + 1 < together && part + 1 < used)
            continue;
        if (is_last(scratch, number, (uint32_t)(small_quotient(used + together - 1, together) * chunks)))
            join_parts(c.y + row * c.y_stride + head * c.dims, own, used, (int)c.dims,
                       c.sinks ? c.sinks[head] : -INFINITE, shared + WARP * JOINED * JOIN_COLUMNS((int)c.dims), status);
    }
}

/* ---- Tiles of tokens */

/* Of a text and head; what flash_floats and flash_forward ask for. ELEMENTS: those of a cache of 16 bits. */
template <int ELEMENTS, bool IN_BLOCKS> struct prompt {
    static constexpr bool ONLINE = true, SECOND = false, SINKS = true;
    static constexpr bool PAGED = IN_BLOCKS;
    static constexpr int TYPE = ELEMENTS;
    const cached &c;
    int64_t text, head;
    const int32_t *own_table; /* PAGED: of the text */
    int64_t first_row;        /* of the key and value head; PAGED: its number */
    int rows, depth, second_depth, columns, segments;
    float slope, sink, scale;             /* sink: -INFINITE without sinks */
    halves_matrix keys, values;           /* of a cache of 16 bits */
    bool hides, query_fours, cache_fours; /* fours: float32, in whole fours that begin where 16 bytes do */

    DEVICE_MEMBER prompt(const cached &of, int64_t text_, int64_t head_)
        : c(of), text(text_), head(head_), rows((int)of.tokens), depth((int)of.dims), second_depth(0),
          columns((int)of.dims), segments(1), scale(of.scale), hides(false)
    {
        const int64_t kv_head = head / c.group;
        own_table = PAGED ? c.table + text * c.parts : nullptr;
        first_row = PAGED ? kv_head : row_of<false>(c, text, kv_head, 0);
        slope = c.slopes ? c.slopes[head] : 0.0f;
        sink = c.sinks ? c.sinks[head] : -INFINITE;
        const int64_t first = PAGED ? 0 : first_row * c.dims;
        keys = halves_matrix{(const uint16_t *)c.k + first, c.dims};
        values = halves_matrix{(const uint16_t *)c.v + first, c.dims};
        query_fours = (uint64_t)c.q % 16 == 0 && (c.q_stride | c.dims) % 4 == 0;
        cache_fours = c.type == TYPE_float32 && ((uint64_t)c.k | (uint64_t)c.v) % 16 == 0 && c.dims % 4 == 0;
    }
    /* The number of a key's row, of a cache whose table is right. */
    DEVICE_MEMBER int64_t place(int key) const
    {
        if (!PAGED)
            return first_row + key;
        const int part = part_of(c, key);
        const uint32_t block = (uint32_t)own_table[part], capacity = (uint32_t)c.capacity; /* all below 2^32 */
        return (block * (uint32_t)c.kv_heads + (uint32_t)first_row) * capacity +
               ((uint32_t)key - (uint32_t)part * capacity);
    }
    DEVICE_MEMBER void select(int64_t) const {}
    /* In blocks keys are taken together however a prompt is cut, so that its rows do not depend on that. */
    DEVICE_MEMBER int begin(int64_t row) const
    {
        return !PAGED ? first_key(row) : c.window ? first_key(row) & ~(KEYS_EACH - 1) : 0;
    }
    DEVICE_MEMBER int last_key(int64_t row) const { return (int)::last_key(c, text, row); }
    DEVICE_MEMBER int first_key(int64_t row) const { return (int)::first_key(c, ::last_key(c, text, row)); }
    DEVICE_MEMBER void range(int64_t row, int64_t last_row, int64_t *first, int64_t *last) const
    {
        *first = first_key(row) / FLOATS_OTHERS * FLOATS_OTHERS; /* so that results do not depend on the first row */
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
        return cached_number(c.k + place((int)other) * c.row_bytes, column, c.type, c.dims);
    }
    DEVICE_MEMBER float value_at(int64_t other, int64_t column) const
    {
        return cached_number(c.v + place((int)other) * c.row_bytes, column, c.type, c.dims);
    }
    template <bool> DEVICE_MEMBER const float *row_floats(int64_t row) const
    {
        return query_fours ? query(row) : nullptr;
    }
    template <bool> DEVICE_MEMBER const float *other_floats(int64_t other) const
    {
        return cache_fours ? (const float *)c.k + place((int)other) * c.dims : nullptr;
    }
    DEVICE_MEMBER const float *value_floats(int64_t other) const
    {
        return cache_fours ? (const float *)c.v + place((int)other) * c.dims : nullptr;
    }
    DEVICE_MEMBER void state(int64_t, const softmax_state &) const {}
    DEVICE_MEMBER void result(int64_t row, int64_t column, float value) const { own_y(row)[column] = value; }

    /* Rows as numbers of 16 bits, which those that are too large are clamped to. */
    template <int DIMS, int COUNT, bool SWIZZLED> DEVICE_MEMBER void load(uint16_t *to, int row0) const
    {
        const float most = ELEMENTS == TYPE_float16 ? 65504.0f : 0x1.fep127f;
#pragma unroll 4
        for (int i = (int)threadIdx.x; i < COUNT * DIMS / 4; i += FLASH_THREADS) {
            const int row = i / (DIMS / 4), column = i % (DIMS / 4) * 4;
            float x[4] = {0, 0, 0, 0};
            if (query_fours && row0 + row < rows && column < depth) {
                const four_floats four(query(row0 + row) + column);
                for (int e = 0; e < 4; e++)
                    x[e] = four.x[e];
            } else if (row0 + row < rows) {
                for (int e = 0; e < 4; e++)
                    x[e] = column + e < depth ? query(row0 + row)[column + e] : 0.0f;
            }
            for (int e = 0; e < 4; e++)
                x[e] = x[e] - x[e] == 0 ? fminf(fmaxf(x[e], -most), most) : x[e];
            *(uint2 *)(to + place_of_number<DIMS, COUNT, SWIZZLED>(row, column)) =
                uint2{pair_of<TYPE>(x[0], x[1]), pair_of<TYPE>(x[2], x[3])};
        }
    }
    template <int DIMS>
    DEVICE_MEMBER void finish(int row, bool there, float base, float inverse, const float out[DIMS / 8][4], int h) const
    {
        if (!there)
            return;
        if (sink != -INFINITE)
            inverse = 1.0f / (1.0f / inverse + exp2f(sink * LOG2_E - base));
        float *const to = own_y(row);
#pragma unroll
        for (int n = 0; n < DIMS / 8; n++)
            for (int e = 0; e < 2; e++)
                if (8 * n + LANE % 4 * 2 + e < columns)
                    to[8 * n + LANE % 4 * 2 + e] = out[n][2 * h + e] * inverse;
    }
};

template <class Task, int DIMS, bool PLAIN, int ROWS> DEVICE void attend_tiles(const cached &c, uint16_t *shared)
{
    const int64_t units = c.texts * c.heads, tiles = PARTS(c.tokens, ROWS);
    FOR_EACH_BLOCK(i, units * tiles)
    {
        const unit_and_tile at(i, units, tiles, true);
        const Task task(c, at.unit / c.heads, at.unit % c.heads);
        flash_forward<Task, DIMS, PLAIN, ROWS>(task, (int)at.tile * ROWS, shared);
    }
}
template <class Task, int DIMS, bool PLAIN> DEVICE void attend_halves(const cached &c, uint16_t *shared)
{
    const int64_t units = c.texts * c.heads;
    if constexpr (PLAIN && DIMS <= 128)
        if (HALVES_ROWS(units, c.tokens, DIMS) == 128)
            return attend_tiles<Task, DIMS, PLAIN, 128>(c, shared);
    attend_tiles<Task, DIMS, PLAIN, 64>(c, shared);
}
/* By tensor cores. */
template <int TYPE, bool PAGED> DEVICE void attend_halves(const cached &c, uint16_t *shared)
{
    const bool plain = !c.slopes && c.softcap == 0 && c.scale > 0;
#define HALVES(number, longest)                                                                                        \
    if (COMPILED_KIND(8 + number) && c.dims <= longest)                                                                \
        return plain ? attend_halves<prompt<TYPE, PAGED>, longest, true>(c, shared)                                    \
                     : attend_halves<prompt<TYPE, PAGED>, longest, false>(c, shared);
    HALVES(1, 64)
    HALVES(2, 128)
    HALVES(3, 256)
}
/* In float32. */
template <bool PAGED> DEVICE void attend_floats(const cached &c, float *shared)
{
    const int64_t tiles = PARTS(c.tokens, FLASH_ROWS), chunks = PARTS(c.dims, FLASH_COLUMNS);
    FOR_EACH_BLOCK(i, c.texts * c.heads * tiles * chunks)
    {
        const int64_t chunk = i % chunks, tile = tiles - 1 - i / chunks % tiles, unit = i / chunks / tiles;
        prompt<TYPE_float16, PAGED> task(c, unit / c.heads, unit % c.heads); /* the longest first */
        flash_floats(task, tile * FLASH_ROWS, chunk * FLASH_COLUMNS, shared);
    }
}
template <bool PAGED> DEVICE void attend_prompts(const cached &c, float *shared)
{
#if HAS_TENSOR_CORES
    if (COMPILED(VARIED % 16 > 8) && c.dims <= HALVES_MOST) {
        if (COMPILED_TYPE(float16) && c.type == TYPE_float16)
            return attend_halves<TYPE_float16, PAGED>(c, (uint16_t *)shared);
        if (COMPILED_TYPE(bfloat16) && c.type == TYPE_bfloat16)
            return attend_halves<TYPE_bfloat16, PAGED>(c, (uint16_t *)shared);
    }
    if (COMPILED_KIND(0))
#endif
        attend_floats<PAGED>(c, shared);
}

KERNEL(cached_attention,
       CHOOSE(tokens <= FEW_TOKENS, 0,
              CHOOSE(TILE_CLASS == 0, texts *heads *PARTS(tokens, 64) * PARTS(head_dim, 128),
                     HALVES_TILES((texts * heads), tokens, head_dim))),
       128, MAX(FLOATS_SHARED, CHOOSE(TILE_CLASS == 0, 0, HALVES_SHARED(head_dim))))
{
    DYNAMIC_SHARED(float, shared);
    if (!can_attend(record, status) || failed || !COMPILED(VARIED % 16 == 0 || VARIED % 16 > 8))
        return;
    const cached c = cached_of(record);
    if (COMPILED_PAGED && c.table) {
        /* Of all texts: blocks of threads must not find at different times that one is wrong. */
        if (c.blocks * c.kv_heads * c.capacity > UINT32_MAX) /* the number of a row */
            report(KERNEL_BAD_ARGUMENT);
        else if (are_in_blocks(record, status, c.position, c.texts, c.tokens, c.capacity, c.table, c.parts, c.blocks))
            attend_prompts<true>(c, shared);
    } else if (COMPILED_IN_ORDER)
        attend_prompts<false>(c, shared);
}

/* ---- Writing to a cache: a warp has 32 columns of a row */

/* Texts whose tokens are written. */
struct written {
    const int32_t *position, *table;
    int64_t texts, tokens, heads, dims, capacity, parts, blocks, row_bytes;
    int type;

    /* How far texts may reach. */
    DEVICE_MEMBER int64_t limit() const { return table ? capacity * parts : capacity; }
    /* The row for a token of all and a head; NULL, and that is reported, where the table names no block. For whole warps. */
    DEVICE_MEMBER char *row(const launch &record, int32_t *status, char *cache, int64_t token, int64_t head) const
    {
        const int64_t text = quotient(token, tokens), place = position[text] + token - text * tokens;
        const int64_t part = table ? quotient(place, capacity) : 0, own = table ? table[text * parts + part] : text;
        if (table && (own < 0 || own >= blocks)) {
            report(KERNEL_POSITION_RANGE);
            return nullptr;
        }
        return cache + ((own * heads + head) * capacity + place - part * capacity) * row_bytes;
    }
    /* Each lane's number to a column of a row. */
    DEVICE_MEMBER void store(char *to, int64_t column, float value) const
    {
        const bool there = column < dims;
        if (type != TYPE_uint8) {
            if (there)
                store_float(to, column, type, value);
            return;
        }
        const bool finite = __all_sync(EVERY_LANE, value - value == 0); /* rounded as ggml rounds q8_0 */
        const float scale = finite ? warp_reduce(fabsf(value), Larger()) / 127.0f : NOT_A_NUMBER;
        const float inverse = scale > 1e-30f ? 1.0f / scale : 0.0f;
        if (there)
            ((int8_t *)to)[column] = finite ? (int8_t)(int)roundf(value * inverse) : (int8_t)0;
        /* Through a shuffle: where a byte of a float16 is stored, ptxas 13.0 stores the number converted to a byte. */
        const int half = __shfl_sync(EVERY_LANE, (int)float_to_f16(scale), 0);
        if (there && LANE == 0) {
            to[dims + column / Q8_COLUMNS * 2] = (char)(half & 255);
            to[dims + column / Q8_COLUMNS * 2 + 1] = (char)(half >> 8);
        }
    }
};
/* Of a record of `kernel`; table_slot and heads_slot are the names of two slots. */
#define WRITTEN(kernel, table_slot, heads_slot)                                                                        \
    written                                                                                                            \
    {                                                                                                                  \
        (const int32_t *)record.pointers[kernel##_position], (const int32_t *)record.pointers[kernel##_##table_slot],  \
            record.dims[kernel##_texts], record.dims[kernel##_tokens], record.dims[kernel##_##heads_slot],             \
            record.dims[kernel##_head_dim], record.dims[kernel##_capacity], record.dims[kernel##_parts],               \
            record.dims[kernel##_blocks], row_bytes_of(record.dims[kernel##_type], record.dims[kernel##_head_dim]),    \
            (int)record.dims[kernel##_type]                                                                            \
    }

VARIANT(cache_write, 8) /* none of what cached_attention compiles */

KERNEL(cache_write, PARTS(texts *tokens *heads *PARTS(head_dim, 32), 4), 128, 0)
{
    const written to = WRITTEN(cache_write, table, heads);
    const int64_t pieces = PARTS(to.dims, 32), units = to.texts * to.tokens * to.heads * pieces;
    if (!to.row_bytes) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const bool stop = failed;
    FOR_EACH_BLOCK(block, PARTS(units, 4))
    {
        const int64_t unit = block * 4 + WARP, row = quotient(unit, pieces), token = quotient(row, to.heads);
        const int64_t head = row - token * to.heads, column = (unit - row * pieces) * 32 + LANE;
        if (unit >= units)
            return;
        const float *const x =
            (const float *)record.pointers[cache_write_x] + token * record.dims[cache_write_x_stride] + head * to.dims;
        const float value = column < to.dims ? x[column] : 0.0f;
        /* After this load, so that it and those of the check wait together. Another warp may report meanwhile. */
        if (!are_inside(record, status, to.position, to.texts, to.tokens, to.limit()) || __any_sync(EVERY_LANE, stop))
            return;
        char *const at = to.row(record, status, (char *)record.pointers[cache_write_cache], token, head);
        if (!at)
            return;
        to.store(at, column, value);
    }
}

VARIANT(rotate_and_write, 8)
/* Warps of a token: for 32 pairs of a query each, then for 32 columns of a key, then of a value. */
#define QUERY_PIECES PARTS(head_dim, 64)
#define COLUMN_PIECES PARTS(head_dim, 32)
#define TOKEN_PIECES (heads * QUERY_PIECES + 2 * kv_heads * COLUMN_PIECES)

KERNEL(rotate_and_write, PARTS(texts *tokens *TOKEN_PIECES, 4), 128, 0)
{
    const int64_t *d = record.dims, heads = d[rotate_and_write_heads], head_dim = d[rotate_and_write_head_dim];
    const int64_t rotated = d[rotate_and_write_rotated], kv_heads = d[rotate_and_write_kv_heads];
    const bool interleaved = d[rotate_and_write_interleaved] != 0;
    const float *const table = (const float *)record.pointers[rotate_and_write_table];
    const written to = WRITTEN(rotate_and_write, block_table, kv_heads);
    if (!to.row_bytes || rotated % 2 || rotated < 0 || rotated > head_dim || (!table && rotated)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int64_t each = TOKEN_PIECES, units = to.texts * to.tokens * each;
    const int64_t limit = table ? MIN(to.limit(), d[rotate_and_write_positions]) : to.limit();
    const bool stop = failed;
    FOR_EACH_BLOCK(block, PARTS(units, 4))
    {
        const int64_t unit = block * 4 + WARP, token = quotient(unit, each), at = unit - token * each;
        if (unit >= units)
            return;
        const bool query = at < heads * QUERY_PIECES;
        const int64_t own = query ? at : at - heads * QUERY_PIECES, pieces = query ? QUERY_PIECES : COLUMN_PIECES;
        const int64_t head = quotient(own, pieces), number = (own - head * pieces) * 32 + LANE;
        const bool key = !query && head < kv_heads;
        /* Of a query a pair, of a key a column and the pair that it belongs to, of a value a column. */
        const bool turned = query ? 2 * number < rotated : key && number < rotated;
        const int64_t pair = query         ? number
                             : interleaved ? number / 2
                                           : number - (number < rotated / 2 ? 0 : rotated / 2);
        const int64_t first = interleaved ? 2 * pair : pair, second = interleaved ? first + 1 : pair + rotated / 2;
        float *const x = (float *)record.pointers[rotate_and_write_qkv] + token * d[rotate_and_write_stride] +
                         (query ? head : heads + head) * head_dim;
        const float a = turned ? x[first] : !query && number < head_dim ? x[number] : 0.0f;
        const float b = turned ? x[second] : 0.0f;
        const int64_t text = quotient(token, to.tokens), place = to.position[text] + token - text * to.tokens;
        /* As in cache_write. */
        if (!are_inside(record, status, to.position, to.texts, to.tokens, limit) || __any_sync(EVERY_LANE, stop))
            return;
        const float cosine = turned ? table[place * rotated + 2 * pair] : 0.0f;
        const float sine = turned ? table[place * rotated + 2 * pair + 1] : 0.0f;
        const float low = a * cosine - b * sine, high = a * sine + b * cosine;
        if (query) {
            if (turned)
                x[first] = low, x[second] = high;
            continue;
        }
        char *const cache = (char *)record.pointers[key ? rotate_and_write_keys : rotate_and_write_values];
        char *const row = to.row(record, status, cache, token, key ? head : head - kv_heads);
        if (!row)
            return;
        to.store(row, number, !turned ? a : number == first ? low : high);
    }
}
