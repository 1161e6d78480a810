/* Attention over a KV cache, in one pass over the keys (online softmax: Milakov and Gimelshein, 2018; tiled as in
 * FlashAttention, Dao et al., 2022).
 *
 * The rows of a kv head are the queries that read it: for each token, the query heads of its group. A tile of rows
 * walks the visible keys in blocks; K and V are read once for each tile. A row's arithmetic does not depend on its
 * tile.
 */
#include "vmath.h"

enum {
    KEYS = 64,
    ROWS = 16,
    DECODE_ROWS = 4,
    SPACE = 4096
}; /* SPACE: floats of output that a tile keeps on the stack */

typedef struct tile {
    const float *q[ROWS];
    float *y[ROWS];
    int64_t visible[ROWS]; /* number of keys that the row attends to; does not decrease from row to row */
    int rows;
    int64_t head_dim, padded; /* padded: head_dim in whole vectors */
    float scale;
    float largest[ROWS], total[ROWS], correction[ROWS];
    float scores[ROWS][KEYS];
    float out[SPACE];
} tile;

#if LANES == 4
typedef vfloat four;
#else
typedef float four __attribute__((vector_size(16)));
#endif

/* Sums neighbouring quarters until four partial sums are left. */
INLINE four fold(vfloat a)
{
#if LANES == 16
    typedef float eight __attribute__((vector_size(32)));
    const eight half = __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7) +
                       __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
#elif LANES == 8
    return __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
#else
    return a;
#endif
}

/* The sums of four vectors. */
INLINE four sum_each(const vfloat *v)
{
    const four a = fold(v[0]), b = fold(v[1]), c = fold(v[2]), d = fold(v[3]);
    const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
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
    return keys < 0 ? 0 : keys < KEYS ? keys : KEYS;
}

/* A row never reads the values of a masked key: 0 * NaN would be NaN. */
static void add_values(tile *t, const float *v, int64_t block)
{
    int row = 0;
    for (; row + 4 <= t->rows; row += 4) {
        const int64_t shared = keys_of(t, row, block);
        add_values_four(t, row, v, shared);
        for (int r = row + 1; r < row + 4; r++)
            if (keys_of(t, r, block) > shared)
                add_values_one(t, r, v, shared, keys_of(t, r, block), 0);
    }
    for (; row < t->rows; row++)
        add_values_one(t, row, v, 0, keys_of(t, row, block), 1);
}

static void attend(tile *t, const float *k, const float *v)
{
    const int64_t dims = t->head_dim, last = t->visible[t->rows - 1];
    for (int64_t i = 0; i < t->rows * t->padded; i += LANES)
        vstore(t->out + i, vzero());
    for (int row = 0; row < t->rows; row++) {
        t->largest[row] = -INFINITE;
        t->total[row] = 0;
    }
    for (int64_t block = 0; block < last; block += KEYS) {
        score_block(t, k + block * dims, last - block < KEYS ? last - block : KEYS);
        for (int row = 0; row < t->rows; row++)
            weigh_row(t, row, keys_of(t, row, block));
        add_values(t, v + block * dims, block);
    }
    for (int row = 0; row < t->rows; row++) {
        const vfloat inverse = vsplat(1.0f / t->total[row]);
        for (int64_t d = 0; d < dims; d += LANES)
            vstore_up_to(t->y[row] + d, vload(t->out + row * t->padded + d) * inverse, dims - d);
    }
}

/* Units of work (kv head, tile of rows) are assigned in turn, because later rows attend to more keys. */
KERNEL(attention_f32)
{
    float *y = record->pointers[attention_f32_y];
    const float *q = record->pointers[attention_f32_q], *k = record->pointers[attention_f32_k],
                *v = record->pointers[attention_f32_v];
    const int64_t tokens = record->dims[attention_f32_tokens], heads = record->dims[attention_f32_heads],
                  kv_heads = record->dims[attention_f32_kv_heads];
    const int64_t dims = record->dims[attention_f32_head_dim], capacity = record->dims[attention_f32_capacity];
    const int64_t y_stride = record->dims[attention_f32_y_stride], q_stride = record->dims[attention_f32_q_stride],
                  causal = record->dims[attention_f32_causal];
    const int64_t padded = (dims + LANES - 1) / LANES * LANES;
    if (tokens <= 0 || heads <= 0 || dims <= 0)
        return KERNEL_OK;
    if (kv_heads <= 0 || heads % kv_heads || padded > SPACE)
        return KERNEL_BAD_ARGUMENT;
    const int64_t position = *(const int32_t *)record->pointers[attention_f32_position];
    if (position < 0 || position + tokens > capacity)
        return KERNEL_POSITION_RANGE;
    const int64_t group = heads / kv_heads, rows = tokens * group, most = tokens == 1 ? DECODE_ROWS : ROWS;
    const int64_t tile_rows = SPACE / padded < most ? SPACE / padded : most, tiles = (rows + tile_rows - 1) / tile_rows;
    tile t;
    t.head_dim = dims;
    t.padded = padded;
    t.scale = record->floats[attention_f32_scale];
    for (int64_t unit = worker; unit < kv_heads * tiles; unit += workers) {
        const int64_t kv_head = unit / tiles, first = unit % tiles * tile_rows;
        t.rows = (int)(rows - first < tile_rows ? rows - first : tile_rows);
        for (int row = 0; row < t.rows; row++) {
            const int64_t token = (first + row) / group, head = kv_head * group + (first + row) % group;
            t.q[row] = q + token * q_stride + head * dims;
            t.y[row] = y + token * y_stride + head * dims;
            t.visible[row] = position + (causal ? token + 1 : tokens);
        }
        attend(&t, k + kv_head * capacity * dims, v + kv_head * capacity * dims);
    }
    return KERNEL_OK;
}

KERNEL(cache_write_f32)
{
    float *cache = record->pointers[cache_write_f32_cache];
    const float *x = record->pointers[cache_write_f32_x];
    const int64_t tokens = record->dims[cache_write_f32_tokens], heads = record->dims[cache_write_f32_heads],
                  dims = record->dims[cache_write_f32_head_dim];
    const int64_t capacity = record->dims[cache_write_f32_capacity], x_stride = record->dims[cache_write_f32_x_stride];
    int64_t first, last;
    if (tokens <= 0 || heads <= 0 || dims <= 0)
        return KERNEL_OK;
    const int64_t position = *(const int32_t *)record->pointers[cache_write_f32_position];
    if (position < 0 || position + tokens > capacity)
        return KERNEL_POSITION_RANGE;
    worker_share(tokens * heads, 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const int64_t token = i / heads, head = i % heads;
        memcpy(cache + (head * capacity + position + token) * dims, x + token * x_stride + head * dims,
               (size_t)dims * sizeof *x);
    }
    return KERNEL_OK;
}
