/* Attention to a whole sequence in int8, for models with int8 weights. The sequence is packed once (layout: kernels.h).
 * The mean of the keys is subtracted, which does not change the softmax and makes the numbers smaller; each key has one
 * scale. Values have one scale for each column of KEYS keys. Queries are rounded when they are read, one scale per row.
 *
 * A tile of rows meets the keys KEYS at a time with an online softmax (attention.c). Within such a block a weight is a
 * whole number, 127 at the block's largest score: what lies far from a row's peak keeps its seven bits.
 */
#include "dot_u7.h"
#include "vmath.h"

/* Rows that use a vector of the sequence while it is in a register, and the number of bands; for a single row: LONE. */
#if U7_WORDS
enum { SUB = 2, WIDE = 1 };
#else
enum { SUB = 5, WIDE = 2 / PARTS };
#endif
enum { KEYS = ATTENTION_Q8_KEYS, MOST_DIMS = ATTENTION_Q8_DIMS, LONE = 4, GROUP = BAND * 4 };
enum { ROWS = 4 * SUB, LINES = 32 }; /* LINES: room for ROWS in whole vectors */

/* A vector of the sequence (PART_ROWS times 4 bytes) by four bytes of a row. Keys are signed but for the sets whose dot
 * takes unsigned x signed; what these must add to a key is its bias. */
#if U7_WORDS
typedef part packed;
typedef sums dots;
typedef step four_step;
INLINE dots dots_start(int32_t s) { return (dots){{s, 0, s, 0}, {s, 0, s, 0}}; }
INLINE part_sums dots_finish(dots s) { return sums_finish(s, NULL); }
INLINE void dots_in_order(dots *s) { sums_in_order(s); }
INLINE packed packed_load(const uint8_t *p) { return part_load((const int8_t *)p, NULL); }
INLINE four_step four_at(const u7_value *p) { return four_words(p); }
INLINE dots add_keys(dots to, packed k, four_step q) { return sums_add(to, k, q, NULL); }
INLINE dots add_values(dots to, packed v, four_step w) { return sums_add(to, v, w, NULL); }
#else
typedef part_bits packed;
typedef u7_sums dots;
typedef u7_step four_step;
INLINE dots dots_start(int32_t s) { return u7_start(s); }
INLINE part_sums dots_finish(dots s) { return u7_finish(s); }
INLINE void dots_in_order(dots *s) { (void)s; }
INLINE packed packed_load(const uint8_t *p) { return bits_load(p); }
INLINE four_step four_at(const u7_value *p) { return u7_step_at(p); }
INLINE dots add_keys(dots to, packed k, four_step q) { return u7_add(to, k, q); }
INLINE dots add_values(dots to, packed v, four_step w) { return u7_add(to, (part_bits)w, (four_step)v); }
#endif

/* How keys are rounded: to -levels .. levels, and what is added. Of seven bits where more would overflow. */
typedef struct key_way {
    float levels;
    int32_t bias;
} key_way;
INLINE key_way find_key_way(void)
{
#if U7_WORDS
    return (key_way){127, 0};
#elif defined(__AVX512VNNI__)
    return (key_way){127, 128};
#elif defined(__AVX2__)
    return (key_way){63, 64};
#elif defined(__wasm__)
    const dot_way way = find_dot_way();
    return way.two ? (key_way){63, 64} : (key_way){127, way.flip ? 128 : 0};
#else
    return (key_way){127, 0};
#endif
}

INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
INLINE int64_t group_bytes(int64_t dims) { return BAND * 4 + (dims + 3) / 4 * GROUP; }
INLINE int64_t block_bytes(int64_t dims) { return round_up(dims, BAND) * (4 + KEYS); }

/* to[i] = (x[i] - minus[i]) / scale, rounded, at most `levels`; returns the scale: NaN where a number is not finite. */
static float round_row(int32_t *to, const float *x, const float *minus, int64_t n, float levels)
{
    vint most = {0};
    union {
        int32_t bits;
        float value;
    } largest = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        const vfloat v = vload_up_to(x + i, n - i) - vload(minus + i);
        const vint bits = (vint)vabs(v), larger = bits > most;
        vstore((float *)to + i, v);
        most = (bits & larger) | (most & ~larger);
    }
    for (int i = 0; i < LANES; i++)
        largest.bits = most[i] > largest.bits ? most[i] : largest.bits;
    const int finite = largest.bits < 0x7f800000;
    const float scale = largest.value / levels, inverse = 1.0f / scale;
    if (!finite || !(inverse < 0x1p127f)) {
        memset(to, 0, (size_t)round_up(n, LANES) * sizeof *to);
        return finite ? 0.0f : __builtin_nanf("");
    }
    for (int64_t i = 0; i < n; i += LANES)
        vstore_int(to + i, vround_to_int(vload((float *)to + i) * vsplat(inverse)));
    return scale;
}

KERNEL(pack_keys_q8)
{
    const int64_t *d = record->dims, tokens = d[pack_keys_q8_tokens], dims = d[pack_keys_q8_head_dim],
                  stride = d[pack_keys_q8_x_stride];
    const int64_t head_bytes = (tokens + BAND - 1) / BAND * group_bytes(dims);
    const key_way way = find_key_way();
    float mean[MOST_DIMS];
    int32_t numbers[MOST_DIMS];
    if (dims > MOST_DIMS)
        return KERNEL_BAD_ARGUMENT;
    for (int64_t head = worker; head < d[pack_keys_q8_heads] && dims > 0; head += workers) {
        uint8_t *to = (uint8_t *)record->pointers[pack_keys_q8_packed] + head * head_bytes;
        const float *x = (const float *)record->pointers[pack_keys_q8_x] + head * dims;
        memset(mean, 0, sizeof mean);
        memset(numbers, 0, sizeof numbers);
        for (int64_t token = 0; token < tokens; token++)
            for (int64_t i = 0; i < dims; i += LANES)
                vstore(mean + i, vload(mean + i) + vload_up_to(x + token * stride + i, dims - i));
        for (int64_t i = 0; i < dims; i += LANES)
            vstore(mean + i, vload(mean + i) / vsplat((float)tokens));
        for (int64_t key = 0; key < round_up(tokens, BAND); key++) {
            uint8_t *group = to + key / BAND * group_bytes(dims);
            float scale = 0;
            if (key < tokens)
                scale = round_row(numbers, x + key * stride, mean, dims, way.levels);
            memcpy(group + key % BAND * 4, &scale, 4);
            for (int64_t i = 0; i < dims; i += 16) {
                vint n[16 / LANES];
                int8_t bytes[16];
                for (int p = 0; p < 16 / LANES; p++)
                    n[p] = vload_int(numbers + i + p * LANES);
                put_bytes(bytes, n);
                for (int j = 0; j < 16; j++) /* may wrap round: unsigned from here on */
                    bytes[j] = (int8_t)(bytes[j] + way.bias);
                for (int64_t j = 0; j < 16 && i + j < dims; j += 4)
                    memcpy(group + BAND * 4 + (i + j) / 4 * GROUP + key % BAND * 4, bytes + j, 4);
            }
        }
    }
    return KERNEL_OK;
}

/* LANES columns (`columns` of them real, `width` with room) of a block of values: their scales, and for each four keys
 * four bytes of each column. */
INLINE void pack_columns(uint8_t *to, const float *x, int64_t stride, int64_t keys, int64_t columns, int64_t width,
                         int64_t row_bytes)
{
    vint most = {0};
    for (int64_t key = 0; key < keys; key++) {
        const vint bits = (vint)vabs(vload_up_to(x + key * stride, columns)), larger = bits > most;
        most = (bits & larger) | (most & ~larger);
    }
    const vint finite = most < vsplat_int(0x7f800000);
    const vfloat scale = (vfloat)most / vsplat(127.0f), inverse = 1.0f / scale;
    const vint usable = finite & (vint)(inverse < vsplat(0x1p127f));
    const vfloat shown = (vfloat)((vint)scale & usable);
    vstore_up_to((float *)to, vselect(finite, shown, vsplat(__builtin_nanf(""))), width);
    for (int64_t key = 0; key < KEYS; key += 4) {
        vint four = {0};
        for (int64_t j = 0; j < 4 && key + j < keys; j++) {
            const vfloat v = vload_up_to(x + (key + j) * stride, columns) * inverse;
            four |= (vround_to_int(v) & usable & 255) << (int)(8 * j);
        }
        to += row_bytes;
        vstore_up_to((float *)to, (vfloat)four, width);
    }
}

KERNEL(pack_values_q8)
{
    const int64_t *d = record->dims, tokens = d[pack_values_q8_tokens], dims = d[pack_values_q8_head_dim],
                  stride = d[pack_values_q8_x_stride], padded = round_up(dims, BAND);
    const int64_t blocks = (tokens + KEYS - 1) / KEYS;
    if (dims > MOST_DIMS)
        return KERNEL_BAD_ARGUMENT;
    for (int64_t i = worker; i < d[pack_values_q8_heads] * blocks; i += workers) {
        const int64_t first = i % blocks * KEYS, keys = tokens - first < KEYS ? tokens - first : KEYS;
        uint8_t *to = (uint8_t *)record->pointers[pack_values_q8_packed] + i * block_bytes(dims);
        const float *x = (const float *)record->pointers[pack_values_q8_x] + i / blocks * dims + first * stride;
        for (int64_t c = 0; c < padded; c += LANES)
            pack_columns(to + 4 * c, x + c, stride, keys, dims - c < 0 ? 0 : dims - c, padded - c, 4 * padded);
    }
    return KERNEL_OK;
}

typedef struct tile {
    int rows; /* whole SUBs, or one; the last row is repeated */
    int64_t dims;
    int32_t start[ROWS];
    float factor[ROWS]; /* times a score: the exponent of two */
    float largest[LINES], total[LINES], peak[LINES], sum[LINES], correction[LINES];
    u7_value queries[ROWS][MOST_DIMS], weights[ROWS][KEYS];
    float scores[ROWS][KEYS], out[ROWS][MOST_DIMS];
} tile;

INLINE void take_row(tile *t, int row, const float *q, float scale, int32_t bias)
{
    static const float zeros[MOST_DIMS];
    int32_t numbers[MOST_DIMS] = {0}, sum = 0;
    const float step = round_row(numbers, q, zeros, t->dims, 127) * scale * 1.44269504f;
    for (int64_t i = 0; i < round_up(t->dims, 4); i++) {
        t->queries[row][i] = (u7_value)numbers[i];
        sum += numbers[i];
    }
    t->start[row] = -bias * sum;
    t->factor[row] = step > 1e-30f || step != step ? step : 1e-30f; /* never 0: it meets -inf */
    t->largest[row] = -INFINITE;
    t->total[row] = 0;
}

/* Scores of `rows` rows and `groups` groups of BAND keys; both are constants wherever this is called. */
INLINE void score_groups(tile *t, int row, const int rows, const uint8_t *k, const int groups, int64_t key)
{
    dots sums[SUB][LONE][PARTS];
    const int64_t bytes = group_bytes(t->dims), steps = (t->dims + 3) / 4;
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int g = 0; g < groups; g++) UNROLL for (int p = 0; p < PARTS; p++)
        sums[r][g][p] = dots_start(t->start[row + r]);
    const uint8_t *at = k + BAND * 4;
    const u7_value *q = t->queries[row];
    for (int64_t s = 0; s < steps; s++, at += GROUP, q += 4) {
        packed keys[LONE][PARTS];
        UNROLL for (int g = 0; g < groups; g++) UNROLL for (int p = 0; p < PARTS; p++) keys[g][p] =
            packed_load(at + g * bytes + p * PART_BYTES);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const four_step four = four_at(q + r * MOST_DIMS);
            UNROLL for (int g = 0; g < groups; g++) UNROLL for (int p = 0; p < PARTS; p++) sums[r][g][p] =
                add_keys(sums[r][g][p], keys[g][p], four);
            UNROLL for (int g = 0; g < groups; g++) UNROLL for (int p = 0; p < PARTS; p++)
                dots_in_order(&sums[r][g][p]);
        }
    }
    UNROLL for (int g = 0; g < groups; g++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        const part_float scale = scales_load_f32(k + g * bytes + p * PART_ROWS * 4);
        UNROLL for (int r = 0; r < rows; r++) * (part_unaligned *)&t->scores[row + r][key + g * BAND + p * PART_ROWS] =
            part_from_int(dots_finish(sums[r][g][p])) * scale;
    }
}

INLINE void score_rows(tile *t, int row, const int rows, const uint8_t *k, const int groups, int64_t count)
{
    int64_t key = 0;
    for (; key + (groups - 1) * BAND < count; key += groups * BAND)
        score_groups(t, row, rows, k + key / BAND * group_bytes(t->dims), groups, key);
    for (; groups > 1 && key < count; key += BAND)
        score_groups(t, row, rows, k + key / BAND * group_bytes(t->dims), 1, key);
}

static __attribute__((noinline)) void score_some(tile *t, int row, const uint8_t *k, int64_t count)
{
    score_rows(t, row, SUB, k, WIDE, count);
}
static __attribute__((noinline)) void score_one(tile *t, const uint8_t *k, int64_t count)
{
    score_rows(t, 0, 1, k, LONE, count);
}

/* 2^x to the nearest integer for x <= 7; before rounding within 0.2 % of itself. Our minimax fit. */
INLINE vint whole_power(vfloat x)
{
    const vfloat magic = vnumber(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer, left in the low bits */
    x = vmax(x, vnumber(-20.0f));
    const vfloat rounded = x + magic, f = x - (rounded - magic);
    const vfloat p = vfma(vfma(f, vnumber(0.23842882f), vnumber(0.7034481f)), f, vnumber(1.0004432f));
    const vfloat power = (vfloat)((vint)p + ((vint)rounded << 23));
#if defined(__wasm_relaxed_simd__) /* one instruction less than rounding */
    return vcut_to_int(power + vnumber(0.5f));
#else
    return vround_to_int(power);
#endif
}

/* 16 whole numbers that fit. */
INLINE void put_weights(u7_value *to, const vint n[16 / LANES])
{
#if U7_WORDS
    typedef u7_value some __attribute__((vector_size(LANES * sizeof(u7_value)), aligned(1), may_alias));
    for (int i = 0; i < 16 / LANES; i++)
        *(some *)(to + i * LANES) = __builtin_convertvector(n[i], some);
#else
    put_bytes(to, n);
#endif
}

/* Turns the scores of a block into weights 0 .. 127, and rescales the sums so far to match. */
static void weigh(tile *t, int64_t count)
{
    const int64_t whole = round_up(count, 16);
    for (int row = 0; row < t->rows; row++) {
        float *scores = t->scores[row];
        for (int64_t i = count; i < whole; i++)
            scores[i] = -INFINITE;
        t->peak[row] = row_largest(scores, whole) * t->factor[row];
        const vfloat factor = vsplat(t->factor[row]), add = vsplat(6.9886847f - t->peak[row]); /* log2(127) */
        vint sum = {0};
        for (int64_t i = 0; i < whole; i += 16) {
            vint n[16 / LANES];
            UNROLL for (int j = 0; j < 16 / LANES; j++)
            {
                n[j] = whole_power(vfma(vload(scores + i + j * LANES), factor, add));
                sum += n[j];
            }
            put_weights(t->weights[row] + i, n);
        }
        t->sum[row] = vsum(vfrom_int(sum));
    }
    for (int row = 0; row < t->rows; row += LANES) {
        const vfloat ln2 = vsplat(0.693147181f), before = vload(t->largest + row), peak = vload(t->peak + row);
        const vfloat largest = vmax(before, peak);
        const vfloat correction = vexp_negative((before - largest) * ln2),
                     worth = vexp_negative((peak - largest) * ln2);
        vstore(t->largest + row, largest);
        vstore(t->correction + row, correction);
        vstore(t->peak + row, worth);
        vstore(t->total + row, vfma(vload(t->total + row), correction, vload(t->sum + row) * worth));
    }
}

/* out = out * correction + weights * values, for `rows` rows and `bands` times BAND columns. */
INLINE void mix_columns(tile *t, int row, const int rows, const uint8_t *v, int64_t column, const int bands,
                        int64_t count)
{
    dots sums[SUB][LONE][PARTS];
    const int64_t row_bytes = 4 * round_up(t->dims, BAND), steps = (count + 3) / 4;
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
        sums[r][b][p] = dots_start(0);
    const uint8_t *at = v + row_bytes + 4 * column;
    const u7_value *weights = t->weights[row];
    for (int64_t s = 0; s < steps; s++, at += row_bytes, weights += 4) {
        packed values[LONE][PARTS];
        UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++) values[b][p] =
            packed_load(at + b * GROUP + p * PART_BYTES);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const four_step four = four_at(weights + r * KEYS);
            UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++) sums[r][b][p] =
                add_values(sums[r][b][p], values[b][p], four);
            UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++) dots_in_order(&sums[r][b][p]);
        }
    }
    UNROLL for (int b = 0; b < bands; b++) UNROLL for (int p = 0; p < PARTS; p++)
    {
        const int64_t c = column + b * BAND + p * PART_ROWS;
        const part_float scale = scales_load_f32(v + 4 * c);
        UNROLL for (int r = 0; r < rows; r++)
        {
            part_unaligned *out = (part_unaligned *)&t->out[row + r][c];
            *out = *out * part_splat(t->correction[row + r]) +
                   part_from_int(dots_finish(sums[r][b][p])) * (scale * part_splat(t->peak[row + r]));
        }
    }
}

INLINE void mix_rows(tile *t, int row, const int rows, const uint8_t *v, const int bands, int64_t count)
{
    int64_t column = 0;
    for (; column + (bands - 1) * BAND < t->dims; column += bands * BAND)
        mix_columns(t, row, rows, v, column, bands, count);
    for (; bands > 1 && column < t->dims; column += BAND)
        mix_columns(t, row, rows, v, column, 1, count);
}

static __attribute__((noinline)) void mix_some(tile *t, int row, const uint8_t *v, int64_t count)
{
    mix_rows(t, row, SUB, v, WIDE, count);
}
static __attribute__((noinline)) void mix_one(tile *t, const uint8_t *v, int64_t count)
{
    mix_rows(t, 0, 1, v, LONE, count);
}

static void attend(tile *t, const uint8_t *k, const uint8_t *v, int64_t keys)
{
    memset(t->out, 0, (size_t)t->rows * sizeof t->out[0]);
    for (int64_t key = 0; key < keys; key += KEYS) {
        const int64_t count = keys - key < KEYS ? keys - key : KEYS;
        const uint8_t *block = k + key / BAND * group_bytes(t->dims), *values = v + key / KEYS * block_bytes(t->dims);
        if (t->rows == 1)
            score_one(t, block, count);
        for (int row = 0; row + SUB <= t->rows; row += SUB)
            score_some(t, row, block, count);
        weigh(t, count);
        if (t->rows == 1)
            mix_one(t, values, count);
        for (int row = 0; row + SUB <= t->rows; row += SUB)
            mix_some(t, row, values, count);
    }
}

/* Units of work are (kv head, tile of the rows that read it), as in attention_f32. */
KERNEL(attention_q8)
{
    float *y = record->pointers[attention_q8_y];
    const float *q = record->pointers[attention_q8_q];
    const int64_t *d = record->dims, tokens = d[attention_q8_tokens], heads = d[attention_q8_heads],
                  kv_heads = d[attention_q8_kv_heads], dims = d[attention_q8_head_dim], keys = d[attention_q8_keys];
    const int64_t y_stride = d[attention_q8_y_stride], q_stride = d[attention_q8_q_stride];
    if (tokens <= 0 || heads <= 0 || dims <= 0)
        return KERNEL_OK;
    if (kv_heads <= 0 || heads % kv_heads || dims > MOST_DIMS || keys <= 0)
        return KERNEL_BAD_ARGUMENT;
    const int64_t key_bytes = (keys + BAND - 1) / BAND * group_bytes(dims);
    const int64_t value_bytes = (keys + KEYS - 1) / KEYS * block_bytes(dims);
    const int64_t group = heads / kv_heads, rows = tokens * group, tiles = (rows + ROWS - 1) / ROWS;
    const int32_t bias = find_key_way().bias;
    tile t;
    t.dims = dims;
    for (int64_t unit = worker; unit < kv_heads * tiles; unit += workers) {
        const int64_t kv_head = unit / tiles, first = unit % tiles * ROWS;
        const int64_t real = rows - first < ROWS ? rows - first : ROWS;
        t.rows = (int)(real == 1 ? 1 : round_up(real, SUB));
        for (int row = 0; row < t.rows; row++) {
            const int64_t at = first + (row < real ? row : real - 1);
            take_row(&t, row, q + at / group * q_stride + (kv_head * group + at % group) * dims,
                     record->floats[attention_q8_scale], bias);
        }
        attend(&t, (const uint8_t *)record->pointers[attention_q8_k] + kv_head * key_bytes,
               (const uint8_t *)record->pointers[attention_q8_v] + kv_head * value_bytes, keys);
        for (int64_t row = 0; row < real; row++) {
            float *to = y + (first + row) / group * y_stride + (kv_head * group + (first + row) % group) * dims;
            for (int64_t i = 0; i < dims; i += LANES)
                vstore_up_to(to + i, vload(t.out[row] + i) / vsplat(t.total[row]), dims - i);
        }
    }
    return KERNEL_OK;
}
