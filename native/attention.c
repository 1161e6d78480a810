/* Attention over a KV cache, in one pass over the keys (online softmax: Milakov and Gimelshein, 2018; tiled as in
 * FlashAttention, Dao et al., 2022).
 *
 * The rows of a kv head are the queries that read it: for each token, the query heads of its group. A tile of rows
 * walks the visible keys in blocks; K and V are read once for each tile. A row's arithmetic does not depend on its
 * tile. A cache of another type than f32 is decoded block by block.
 */
#include "halves.h"
#include "sums.h"

enum {
    KEYS = 64,
    ROWS = 16,
    DECODE_ROWS = 4,
    SPACE = 4096, /* floats of output that a tile keeps on the stack, and of decoded keys or values */
    Q8_COLUMNS = 32
};

typedef struct tile {
    const float *q[ROWS];
    float *y[ROWS];
    int64_t visible[ROWS]; /* the row attends to the keys hidden .. visible - 1; neither decreases from row to row */
    int64_t hidden[ROWS];
    float slope[ROWS], sink[ROWS];
    int rows, adjusted;                        /* adjusted: scores are more than scaled products */
    int64_t head_dim, padded, type, row_bytes; /* padded: head_dim in whole vectors */
    int64_t block;                             /* keys that are read at a time */
    const int32_t *places;                     /* where the text's parts of `capacity` tokens lie */
    int64_t kv_heads, kv_head, capacity;
    float scale, softcap;
    float largest[ROWS], total[ROWS], correction[ROWS];
    float scores[ROWS][KEYS];
    float out[SPACE], decoded[SPACE];
} tile;

/* Bytes of a row of a cache, or 0 for a type that caches do not have. uint8 means q8_0: int8 numbers, then an f16 scale
 * for each Q8_COLUMNS of them. */
INLINE int64_t row_bytes_of(int64_t type, int64_t dims)
{
    return type == TYPE_float32   ? 4 * dims
           : type == TYPE_float16 ? 2 * dims
           : type == TYPE_uint8   ? dims + (dims + Q8_COLUMNS - 1) / Q8_COLUMNS * 2
                                  : 0;
}

/* LANES int8, widened. */
INLINE vfloat vload_i8(const int8_t *p)
{
#if LANES == 16
    return vfrom_int((vint)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
#elif LANES == 8
    return vfrom_int((vint)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
#else
    typedef int8_t four_bytes __attribute__((vector_size(4)));
    four_bytes bytes;
    memcpy(&bytes, p, 4);
    return vfrom_int(__builtin_convertvector(bytes, vint));
#endif
}

static __attribute__((noinline)) void decode_q8(float *to, const char *from, int64_t rows, int64_t dims,
                                                int64_t row_bytes)
{
    for (; rows > 0; rows--, from += row_bytes)
        for (int64_t d = 0; d < dims; d += Q8_COLUMNS) {
            const int64_t columns = dims - d < Q8_COLUMNS ? dims - d : Q8_COLUMNS;
            const int8_t *numbers = (const int8_t *)from + d;
            int8_t rest[Q8_COLUMNS] = {0};
            uint16_t half;
            memcpy(&half, from + dims + d / Q8_COLUMNS * 2, 2);
            const vfloat scale = vsplat(f16_to_float(half));
            if (columns == Q8_COLUMNS)
                UNROLL for (int i = 0; i < Q8_COLUMNS; i += LANES) vstore(to + i, vload_i8(numbers + i) * scale);
            else {
                memcpy(rest, numbers, (size_t)columns);
                for (int i = 0; i < columns; i += LANES)
                    vstore_up_to(to + i, vload_i8(rest + i) * scale, columns - i);
            }
            to += columns;
        }
}

/* The number of the cache's row for a position of a text whose parts lie at `places`. */
INLINE int64_t row_at(const int32_t *places, int64_t kv_heads, int64_t kv_head, int64_t capacity, int64_t position)
{
    return (places[position / capacity] * kv_heads + kv_head) * capacity + position % capacity;
}

/* Keys (or values) first .. first + count - 1 as floats; they lie in one part of the cache. */
INLINE const float *cache_rows(tile *t, const char *cache, int64_t first, int64_t count)
{
    const char *from = cache + row_at(t->places, t->kv_heads, t->kv_head, t->capacity, first) * t->row_bytes;
    if (t->type == TYPE_float32)
        return (const float *)from;
    if (t->type == TYPE_float16)
        widen_row(t->decoded, (const uint16_t *)from, count * t->head_dim, KIND_F16);
    else
        decode_q8(t->decoded, from, count, t->head_dim, t->row_bytes);
    return t->decoded;
}

/* scores[0 .. rows - 1][0 .. 3] of four keys; `rows` is a constant wherever this is called. */
INLINE void score_four(tile *t, int row, const int rows, const float *const *k, int64_t key)
{
    vfloat sums[2][4] = {{vzero(), vzero(), vzero(), vzero()}, {vzero(), vzero(), vzero(), vzero()}};
    const int64_t dims = t->head_dim;
    int64_t d = 0;
    for (; d + LANES <= dims; d += LANES)
        for (int j = 0; j < 4; j++) {
            const vfloat key_part = vload(k[j] + d);
            for (int r = 0; r < rows; r++)
                sums[r][j] = vfma(vload(t->q[row + r] + d), key_part, sums[r][j]);
        }
    if (d < dims)
        for (int j = 0; j < 4; j++) {
            const vfloat key_part = vload_part(k[j] + d, dims - d);
            for (int r = 0; r < rows; r++)
                sums[r][j] = vfma(vload_part(t->q[row + r] + d, dims - d), key_part, sums[r][j]);
        }
    for (int r = 0; r < rows; r++) {
        const four scaled = sum_each(sums[r]) * t->scale;
        memcpy(t->scores[row + r] + key, &scaled, sizeof scaled);
    }
}

static void score_block(tile *t, const float *k, int64_t keys)
{
    for (int64_t key = 0; key < keys; key += 4) {
        const float *four_keys[4];
        for (int64_t j = 0; j < 4; j++) /* beyond the last key: the last one again, ignored */
            four_keys[j] = k + (key + j < keys ? key + j : keys - 1) * t->head_dim;
        int row = 0;
        for (; row + 2 <= t->rows; row += 2)
            score_four(t, row, 2, four_keys, key);
        if (row < t->rows)
            score_four(t, row, 1, four_keys, key);
    }
}

/* The soft cap, the slope over distances, and the window, for scores of keys from `block` on. */
SMALL_CODE static void adjust_scores(tile *t, int64_t block, int64_t keys)
{
    float order[LANES];
    for (int i = 0; i < LANES; i++)
        order[i] = (float)i;
    for (int row = 0; row < t->rows; row++) {
        float *scores = t->scores[row];
        for (int64_t i = 0; i < keys; i += LANES) {
            vfloat score = vload(scores + i);
            if (t->softcap != 0)
                score = vtanh(score) * t->softcap;
            const vfloat apart = vload(order) + (float)(block + i - (t->visible[row] - 1));
            vstore(scores + i, vfma(apart, vsplat(t->slope[row]), score));
        }
        for (int64_t i = 0; i < keys && block + i < t->hidden[row]; i++)
            scores[i] = -INFINITE;
    }
}

/* Turns the first `keys` scores of a row into weights relative to the largest score so far. */
INLINE void weigh_row(tile *t, int row, int64_t keys)
{
    float *scores = t->scores[row];
    for (; keys % LANES; keys++) /* whole vectors: the rest weighs nothing */
        scores[keys] = -INFINITE;
    const float block = row_largest(scores, keys), before = t->largest[row];
    const float largest = block > before ? block : before;
    const float reference = largest == -INFINITE ? 0.0f : largest; /* all -inf so far: weights are 0, not NaN */
    vfloat sum = vzero();
    for (int64_t i = 0; i < keys; i += LANES) {
        const vfloat weight = vexp_negative(vload(scores + i) - reference);
        vstore(scores + i, weight);
        sum += weight;
    }
    t->correction[row] = before == reference ? 1.0f : exp_scalar(before - reference);
    t->total[row] = t->total[row] * t->correction[row] + vsum(sum);
    t->largest[row] = largest;
}

/* out = out * correction + sum over keys of weight * V, for `rows` rows and `width` vectors; both are constants. */
INLINE void add_values_part(tile *t, int row, const int rows, const float *v, int64_t d, const int width, int64_t from,
                            int64_t to, int correct)
{
    vfloat sums[4][8];
    const int64_t dims = t->head_dim;
    float *out = t->out + row * t->padded + d;
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < width; j++)
            sums[r][j] = vload(out + r * t->padded + j * LANES) * (correct ? t->correction[row + r] : 1.0f);
    for (int64_t key = from; key < to; key++)
        for (int j = 0; j < width; j++) {
            const float *p = v + key * dims + d + j * LANES;
            const vfloat value = width == 1 ? vload_up_to(p, dims - d) : vload(p);
            for (int r = 0; r < rows; r++)
                sums[r][j] = vfma(vsplat(t->scores[row + r][key]), value, sums[r][j]);
        }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < width; j++)
            vstore(out + r * t->padded + j * LANES, sums[r][j]);
}

static void add_values_one(tile *t, int row, const float *v, int64_t from, int64_t to, int correct)
{
    int64_t d = 0;
    for (; d + 8 * LANES <= t->head_dim; d += 8 * LANES)
        add_values_part(t, row, 1, v, d, 8, from, to, correct);
    for (; d + 4 * LANES <= t->head_dim; d += 4 * LANES)
        add_values_part(t, row, 1, v, d, 4, from, to, correct);
    for (; d + 2 * LANES <= t->head_dim; d += 2 * LANES)
        add_values_part(t, row, 1, v, d, 2, from, to, correct);
    for (; d < t->head_dim; d += LANES)
        add_values_part(t, row, 1, v, d, 1, from, to, correct);
}

static void add_values_four(tile *t, int row, const float *v, int64_t keys)
{
    int64_t d = 0;
    for (; d + 2 * LANES <= t->head_dim; d += 2 * LANES)
        add_values_part(t, row, 4, v, d, 2, 0, keys, 1);
    for (; d < t->head_dim; d += LANES)
        add_values_part(t, row, 4, v, d, 1, 0, keys, 1);
}

INLINE int64_t keys_of(const tile *t, int row, int64_t block)
{
    const int64_t keys = t->visible[row] - block;
    return keys < 0 ? 0 : keys < t->block ? keys : t->block;
}

/* A row never reads the values of a masked key: 0 * NaN would be NaN. */
static void add_values(tile *t, const float *v, int64_t block)
{
    int row = 0;
    for (; row + 4 <= t->rows && t->hidden[row + 3] <= block; row += 4) {
        const int64_t shared = keys_of(t, row, block);
        add_values_four(t, row, v, shared);
        for (int r = row + 1; r < row + 4; r++)
            if (keys_of(t, r, block) > shared)
                add_values_one(t, r, v, shared, keys_of(t, r, block), 0);
    }
    for (; row < t->rows; row++)
        add_values_one(t, row, v, t->hidden[row] > block ? t->hidden[row] - block : 0, keys_of(t, row, block), 1);
}

static void attend(tile *t, const char *k, const char *v)
{
    const int64_t dims = t->head_dim, last = t->visible[t->rows - 1];
    for (int64_t i = 0; i < t->rows * t->padded; i += LANES)
        vstore(t->out + i, vzero());
    for (int row = 0; row < t->rows; row++) {
        t->largest[row] = t->sink[row];
        t->total[row] = t->sink[row] != -INFINITE;
    }
    for (int64_t block = t->hidden[0] / t->block * t->block; block < last; block += t->block) {
        const int64_t count = last - block < t->block ? last - block : t->block;
        score_block(t, cache_rows(t, k, block, count), count);
        if (t->adjusted)
            adjust_scores(t, block, count);
        for (int row = 0; row < t->rows; row++)
            weigh_row(t, row, keys_of(t, row, block));
        add_values(t, cache_rows(t, v, block, count), block);
    }
    for (int row = 0; row < t->rows; row++) {
        const vfloat inverse = vsplat(1.0f / t->total[row]);
        for (int64_t d = 0; d < dims; d += LANES)
            vstore_up_to(t->y[row] + d, vload(t->out + row * t->padded + d) * inverse, dims - d);
    }
}

/* Whether tokens at position[text] .. of every text lie within the cache, and so do the parts of the text up to there. */
SMALL_CODE static int within(const int32_t *position, int64_t texts, int64_t tokens, int64_t capacity,
                             const int32_t *table, int64_t parts, int64_t blocks)
{
    if (parts <= 0 || capacity <= 0)
        return 0;
    for (int64_t text = 0; text < texts; text++) {
        const int64_t end = position[text] + tokens;
        if (position[text] < 0 || end > capacity * parts)
            return 0;
        for (int64_t part = 0; table && part * capacity < end; part++)
            if (table[text * parts + part] < 0 || table[text * parts + part] >= blocks)
                return 0;
    }
    return 1;
}

/* Units of work (text, kv head, tile of rows) are assigned in turn, because later rows attend to more keys. */
KERNEL(cached_attention)
{
    const int64_t *d = record->dims;
    float *y = record->pointers[cached_attention_y];
    const float *q = record->pointers[cached_attention_q], *slopes = record->pointers[cached_attention_slopes],
                *sinks = record->pointers[cached_attention_sinks];
    const char *k = record->pointers[cached_attention_k], *v = record->pointers[cached_attention_v];
    const int32_t *position = record->pointers[cached_attention_position];
    const int64_t texts = d[cached_attention_texts], tokens = d[cached_attention_tokens],
                  heads = d[cached_attention_heads], kv_heads = d[cached_attention_kv_heads];
    const int64_t dims = d[cached_attention_head_dim], capacity = d[cached_attention_capacity];
    const int64_t y_stride = d[cached_attention_y_stride], q_stride = d[cached_attention_q_stride],
                  causal = d[cached_attention_causal], window = d[cached_attention_window];
    const int64_t padded = (dims + LANES - 1) / LANES * LANES;
    if (texts <= 0 || tokens <= 0 || heads <= 0 || dims <= 0)
        return KERNEL_OK;
    tile t;
    t.type = d[cached_attention_type];
    t.row_bytes = row_bytes_of(t.type, dims);
    if (kv_heads <= 0 || heads % kv_heads || padded > SPACE || !t.row_bytes || window < 0)
        return KERNEL_BAD_ARGUMENT;
    const int32_t *table = record->pointers[cached_attention_table];
    const int64_t parts = table ? d[cached_attention_parts] : 1;
    if (!within(position, texts, tokens, capacity, table, parts, d[cached_attention_blocks]))
        return KERNEL_POSITION_RANGE;
    const int64_t group = heads / kv_heads, rows = tokens * group, most = tokens == 1 ? DECODE_ROWS : ROWS;
    const int64_t tile_rows = SPACE / padded < most ? SPACE / padded : most, tiles = (rows + tile_rows - 1) / tile_rows;
    const float softcap = record->floats[cached_attention_softcap], scale = record->floats[cached_attention_scale];
    t.head_dim = dims;
    t.padded = padded;
    t.block = t.type == TYPE_float32 || SPACE / dims > KEYS ? KEYS : SPACE / dims;
    for (; table && capacity % t.block; t.block--) /* what is read at a time lies in one part */
        ;
    t.kv_heads = kv_heads;
    t.capacity = capacity;
    t.softcap = softcap;
    t.scale = softcap != 0 ? scale / softcap : scale;
    t.adjusted = softcap != 0 || slopes || window;
    for (int64_t unit = worker; unit < texts * kv_heads * tiles; unit += workers) {
        const int64_t cache = unit / tiles, first = unit % tiles * tile_rows; /* cache: text and kv head */
        const int64_t text = cache / kv_heads, kv_head = cache % kv_heads;
        const int32_t own = (int32_t)text;
        t.places = table ? table + text * parts : &own;
        t.kv_head = kv_head;
        t.rows = (int)(rows - first < tile_rows ? rows - first : tile_rows);
        for (int row = 0; row < t.rows; row++) {
            const int64_t token = (first + row) / group, head = kv_head * group + (first + row) % group;
            t.q[row] = q + (text * tokens + token) * q_stride + head * dims;
            t.y[row] = y + (text * tokens + token) * y_stride + head * dims;
            t.visible[row] = position[text] + (causal ? token + 1 : tokens);
            t.hidden[row] = window && t.visible[row] > window ? t.visible[row] - window : 0;
            t.slope[row] = slopes ? slopes[head] : 0.0f;
            t.sink[row] = sinks ? sinks[head] : -INFINITE;
        }
        attend(&t, k, v);
    }
    return KERNEL_OK;
}

/* Rounds a row as ggml rounds q8_0. What is not finite makes the scale NaN. */
SMALL_CODE static void encode_q8(char *to, const float *x, int64_t dims)
{
    typedef int8_t vbyte __attribute__((vector_size(LANES)));
    for (int64_t first = 0; first < dims; first += Q8_COLUMNS) {
        const int64_t end = dims - first < Q8_COLUMNS ? dims : first + Q8_COLUMNS;
        union {
            int32_t bits;
            float value;
        } largest = {0};
        for (int64_t d = first; d < end; d++) {
            int32_t bits;
            memcpy(&bits, x + d, 4);
            bits &= 0x7fffffff;
            largest.bits = bits > largest.bits ? bits : largest.bits;
        }
        const int finite = largest.bits < 0x7f800000;
        const float scale = finite ? largest.value / 127.0f : __builtin_nanf("");
        const float inverse = scale > 1e-30f ? 1.0f / scale : 0.0f;
        const uint16_t half = float_to_f16(scale);
        for (int64_t d = first; d < end; d += LANES) {
            const int64_t n = end - d < LANES ? end - d : LANES;
            const vbyte bytes =
                __builtin_convertvector(vround_to_int(vload_up_to(x + d, n) * inverse) & (finite ? -1 : 0), vbyte);
            memcpy(to + d, &bytes, (size_t)n);
        }
        memcpy(to + dims + first / Q8_COLUMNS * 2, &half, 2);
    }
}

KERNEL(cache_write)
{
    const int64_t *d = record->dims;
    const float *x = record->pointers[cache_write_x];
    const int32_t *position = record->pointers[cache_write_position];
    const int64_t texts = d[cache_write_texts], tokens = d[cache_write_tokens], heads = d[cache_write_heads],
                  dims = d[cache_write_head_dim], type = d[cache_write_type];
    const int64_t capacity = d[cache_write_capacity], row_bytes = row_bytes_of(type, dims);
    const int32_t *table = record->pointers[cache_write_table];
    const int64_t parts = table ? d[cache_write_parts] : 1;
    int64_t first, last;
    if (texts <= 0 || tokens <= 0 || heads <= 0 || dims <= 0)
        return KERNEL_OK;
    if (!row_bytes)
        return KERNEL_BAD_ARGUMENT;
    if (!within(position, texts, tokens, capacity, table, parts, d[cache_write_blocks]))
        return KERNEL_POSITION_RANGE;
    worker_share(texts * tokens * heads, 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const int64_t token = i / heads, text = token / tokens;
        const int32_t own = (int32_t)text, *places = table ? table + text * parts : &own;
        const float *from = x + token * d[cache_write_x_stride] + i % heads * dims;
        char *to = (char *)record->pointers[cache_write_cache] +
                   row_at(places, heads, i % heads, capacity, position[text] + token % tokens) * row_bytes;
        if (type == TYPE_float32)
            memcpy(to, from, (size_t)row_bytes);
        else if (type == TYPE_float16)
            narrow_row((uint16_t *)to, from, NULL, dims, KIND_F16);
        else
            encode_q8(to, from, dims);
    }
    return KERNEL_OK;
}
