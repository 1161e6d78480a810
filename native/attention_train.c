/* Attention of whole sequences and its gradient.
 *
 * One unit of work is a batch entry and a kv head with the query heads that read it; its rows are (token, head of the
 * group). A block of BLOCK rows meets keys with scores turned (keys x rows): then the largest score and the sum of a row
 * run down vectors, and backward's five products take K, V, Q and the gradient as they lie. Nothing is saved between
 * forward and backward: the softmax of a block comes from its scores, which backward needs anyhow.
 *
 * With E = exp(scores - largest), sum L, G = grad_y / L: grad_v = E' G; H = G v'; grad_scores = E * (H - sum(E * H) / L).
 */
#include "gemm.h"
#include "vmath.h"

#if LANES == 16 || defined(__aarch64__)
enum { TILE = 8, WIDE = 3 }; /* registers: TILE rows of WIDE vectors */
#else
enum { TILE = 6, WIDE = 2 };
#endif
enum { BLOCK = ATTENTION_ROWS, KEY_UNIT = ATTENTION_KEY_UNIT, LARGEST_LANES = 16, KEYS = 48 };

typedef struct unit {
    int64_t tokens, keys, group, dims, causal;
    int64_t padded, width; /* row stride of everything below that has head_dim columns; columns that are computed */
    const float *q, *grad_y;
    int64_t q_token, y_token;
    float *k, *v, *grad_k, *grad_v;   /* (keys, padded), padding is zero */
    float *weights, *slopes;          /* (keys, BLOCK) */
    float *queries, *gradients, *out; /* (BLOCK, padded): of one block; queries are scaled */
    float *turned;                    /* (padded, BLOCK) */
    float scale;
    int64_t first, rows, visible; /* the block: its rows; keys that its last row sees */
    int32_t seen[BLOCK];          /* keys that each row sees, never falling */
    float largest[BLOCK], inverse[BLOCK], delta[BLOCK];
} unit;

INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* sums[r][.] += sum_i a[r * a_row + i * a_step] * b[i * b_row + .] */
INLINE void multiply_tile(vfloat sums[TILE][WIDE], const float *a, int64_t a_row, int64_t a_step, const float *b,
                          int64_t b_row, int64_t k, const int vectors)
{
    for (int64_t i = 0; i < k; i++, a += a_step, b += b_row) {
        vfloat right[WIDE];
        UNROLL for (int j = 0; j < vectors; j++) right[j] = vload(b + j * LANES);
        UNROLL for (int r = 0; r < TILE; r++)
        {
            const vfloat left = vsplat(a[r * a_row]);
            UNROLL for (int j = 0; j < vectors; j++) sums[r][j] = vfma(left, right[j], sums[r][j]);
        }
    }
}

INLINE void multiply_part(float *c, const float *a, int64_t a_row, int64_t a_step, const float *b, int64_t row,
                          int64_t k, const int vectors, const int add)
{
    vfloat sums[TILE][WIDE] = {0};
    if (add)
        UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < vectors; j++) sums[r][j] =
            vload(c + r * row + j * LANES);
    multiply_tile(sums, a, a_row, a_step, b, row, k, vectors);
    UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < vectors; j++)
        vstore(c + r * row + j * LANES, sums[r][j]);
}

/* c (rows, width) = or += a * b (k, width); b and c have `padded` columns, a any strides. */
INLINE void multiply(const unit *u, float *c, const float *a, int64_t a_row, int64_t a_step, const float *b,
                     int64_t rows, int64_t k, const int add)
{
    for (int64_t r = 0; r < rows; r += TILE, a += TILE * a_row, c += TILE * u->padded) {
        int64_t d = 0;
        for (; d + 2 * LANES <= u->width; d += 2 * LANES)
            multiply_part(c + d, a, a_row, a_step, b + d, u->padded, k, 2, add);
        if (d < u->width)
            multiply_part(c + d, a, a_row, a_step, b + d, u->padded, k, 1, add);
    }
}

/* (BLOCK, padded) = sum over keys of weight * v. */
static void mix_keys(const unit *u, float *out, const float *weights, const float *v)
{
    multiply(u, out, weights, 1, BLOCK, v, BLOCK, u->visible, 0);
}

/* (keys, padded) += sum over the block's rows of weight * q. */
static void mix_rows(const unit *u, float *out, const float *weights, const float *q)
{
    multiply(u, out, weights, BLOCK, 1, q, u->visible, BLOCK, 1);
}

/* A row of `dims` floats to one of `padded`, the rest zero; NULL: zeros. (A vector or two: memcpy takes longer.) */
INLINE void gather_row(const unit *u, float *to, const float *from, float factor)
{
    for (int64_t d = 0; d < u->padded; d += LANES)
        vstore(to + d, from && d < u->dims ? vload_up_to(from + d, u->dims - d) * factor : vzero());
}

INLINE int64_t row_place(const unit *u, int64_t row, int64_t token_stride)
{
    return (u->first + row) / u->group * token_stride + (u->first + row) % u->group * u->dims;
}

/* The block's rows of x, each times its factor, dense and turned. */
static void take_rows(unit *u, float *to, const float *x, int64_t token_stride, const float *factors)
{
    for (int64_t row = 0; row < BLOCK; row++)
        gather_row(u, to + row * u->padded, row < u->rows ? x + row_place(u, row, token_stride) : NULL, factors[row]);
    for (int64_t row = 0; row < BLOCK; row += 4)
        for (int64_t d = 0; d < u->dims; d += 4) {
            quad four[4];
            for (int i = 0; i < 4; i++)
                four[i] = quad_at(to, (row + i) * u->padded + d, KIND_F32);
            transpose4(&four[0], &four[1], &four[2], &four[3]);
            for (int i = 0; i < 4; i++)
                *(quad_unaligned *)(u->turned + (d + i) * BLOCK + row) = four[i];
        }
}

/* Writes the block's rows, each times its factor, to x. */
static void put_rows(const unit *u, float *x, int64_t token_stride, const float *from, const float *factors)
{
    for (int64_t row = 0; row < u->rows; row++, from += u->padded) {
        float *to = x + row_place(u, row, token_stride);
        for (int64_t d = 0; d < u->dims; d += LANES)
            vstore_up_to(to + d, vload(from + d) * factors[row], u->dims - d);
    }
}

/* weights[key][row] = k . q, -inf where the row does not see the key; and the largest of each row. */
static void score(unit *u)
{
    for (int64_t row = 0; row < BLOCK; row += WIDE * LANES) {
        vfloat largest[WIDE];
        for (int j = 0; j < WIDE; j++)
            largest[j] = vsplat(-INFINITE);
        for (int64_t key = 0; key < u->visible; key += TILE) {
            vfloat sums[TILE][WIDE] = {0};
            multiply_tile(sums, u->k + key * u->padded, u->padded, 1, u->turned + row, BLOCK, u->dims, WIDE);
            const int masked = key + TILE > u->seen[row];
            UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < WIDE; j++)
            {
                if (masked)
                    sums[r][j] = vselect(vload_int(u->seen + row + j * LANES) > vsplat_int((int32_t)key + r),
                                         sums[r][j], vsplat(-INFINITE));
                largest[j] = vmax(largest[j], sums[r][j]);
                vstore(u->weights + (key + r) * BLOCK + row + j * LANES, sums[r][j]);
            }
        }
        for (int j = 0; j < WIDE; j++)
            vstore(u->largest + row + j * LANES, largest[j]);
    }
}

/* weights = exp(weights - largest), and one over their sum. */
static void weigh(unit *u)
{
    for (int64_t row = 0; row < BLOCK; row += LANES) {
        const vfloat largest = vload(u->largest + row);
        vfloat sum = vzero();
        for (int64_t key = 0; key < u->visible; key++) {
            float *at = u->weights + key * BLOCK + row;
            const vfloat weight = vexp_negative(vload(at) - largest);
            vstore(at, weight);
            sum += weight;
        }
        vstore(u->inverse + row, 1.0f / sum);
    }
}

/* slopes = weights * (v . g - their weighted mean). */
static void slope(unit *u)
{
    for (int64_t row = 0; row < BLOCK; row += WIDE * LANES) {
        vfloat delta[WIDE] = {0};
        for (int64_t key = 0; key < u->visible; key += TILE) {
            vfloat sums[TILE][WIDE] = {0};
            multiply_tile(sums, u->v + key * u->padded, u->padded, 1, u->turned + row, BLOCK, u->dims, WIDE);
            UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < WIDE; j++)
            {
                const int64_t at = (key + r) * BLOCK + row + j * LANES;
                delta[j] = vfma(vload(u->weights + at), sums[r][j], delta[j]);
                vstore(u->slopes + at, sums[r][j]);
            }
        }
        for (int j = 0; j < WIDE; j++)
            vstore(u->delta + row + j * LANES, delta[j] * vload(u->inverse + row + j * LANES));
    }
    for (int64_t i = 0; i < u->visible * BLOCK; i += BLOCK)
        for (int64_t row = 0; row < BLOCK; row += LANES)
            vstore(u->slopes + i + row,
                   vload(u->weights + i + row) * (vload(u->slopes + i + row) - vload(u->delta + row)));
}

/* Sets the block; `visible` is rounded up to whole tiles, where weights are zero. */
static void set_block(unit *u, int64_t first)
{
    float scales[BLOCK];
    u->first = first;
    u->rows = u->tokens * u->group - first < BLOCK ? u->tokens * u->group - first : BLOCK;
    for (int64_t row = 0; row < BLOCK; row++) {
        const int64_t token = (first + (row < u->rows ? row : u->rows - 1)) / u->group;
        u->seen[row] = (int32_t)(u->causal ? u->keys - u->tokens + token + 1 : u->keys);
        scales[row] = u->scale;
    }
    u->visible = round_up(u->seen[BLOCK - 1], TILE);
    take_rows(u, u->queries, u->q, u->q_token, scales);
}

/* Forward --------------------------------------------------------------------------------------------------------------
 *
 * Needs no weights afterwards, so it meets the keys KEYS at a time and keeps all it touches in the first cache: what was
 * summed so far shrinks by `correction` where a larger score turns up (Milakov and Gimelshein, 2018; Dao et al., 2022). */

/* Keys as panels: for TILE keys, for each column, one element of each. */
static void pack_keys(unit *u, const float *k, int64_t key_stride)
{
    for (int64_t key = 0; key < round_up(u->keys, TILE); key += TILE)
        pack_panel(u->k + key * u->dims, TILE, k + key * key_stride, u->keys - key < TILE ? u->keys - key : TILE,
                   key_stride, 1, u->dims, KIND_F32);
}

/* Out of line: inlined beside other code, the sums would not stay in registers. */
static __attribute__((noinline)) void score_tile(float *weights, const float *k, const float *turned, int64_t dims)
{
    vfloat sums[TILE][WIDE] = {0};
    multiply_tile(sums, k, 1, TILE, turned, BLOCK, dims, WIDE);
    UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < WIDE; j++)
        vstore(weights + r * BLOCK + j * LANES, sums[r][j]);
}

/* weights[i][row] = k . q for keys first .. first + count - 1, -inf where the row does not see the key. */
static void score_keys(unit *u, int64_t first, int64_t count)
{
    for (int64_t row = 0; row < BLOCK; row += WIDE * LANES)
        for (int64_t i = 0; i < count; i += TILE) {
            score_tile(u->weights + i * BLOCK + row, u->k + (first + i) * u->dims, u->turned + row, u->dims);
            if (first + i + TILE <= u->seen[row])
                continue;
            for (int64_t at = row; at < row + WIDE * LANES; at++)
                for (int r = 0; r < TILE; r++)
                    if (first + i + r >= u->seen[at])
                        u->weights[(i + r) * BLOCK + at] = -INFINITE;
        }
}

/* LANES rows of weigh_keys, whose largest score rises from *before to `largest`. */
static __attribute__((noinline)) void weigh_column(float *weights, int64_t count, float *before, vfloat largest,
                                                   float *sums, float *correction)
{
    const vfloat reference = vselect(largest == -INFINITE, vzero(), largest); /* nothing yet: 0, not NaN */
    const vfloat shrink = vexp_negative(vload(before) - reference);
    vfloat sum = vzero();
    for (int64_t i = 0; i < count; i++, weights += BLOCK) {
        const vfloat weight = vexp_negative(vload(weights) - reference);
        vstore(weights, weight);
        sum += weight;
    }
    vstore(correction, shrink);
    vstore(sums, vfma(vload(sums), shrink, sum));
    vstore(before, largest);
}

/* Turns the scores of `count` keys into weights, and adds them to the sums. */
static void weigh_keys(unit *u, int64_t count, float sums[BLOCK], float correction[BLOCK])
{
    for (int64_t row = 0; row < BLOCK; row += WIDE * LANES) {
        vfloat largest[WIDE];
        UNROLL for (int j = 0; j < WIDE; j++) largest[j] = vload(u->largest + row + j * LANES);
        for (int64_t i = 0; i < count; i++) /* side by side: each waits for the one before */
            UNROLL for (int j = 0; j < WIDE; j++) largest[j] =
                vmax(largest[j], vload(u->weights + i * BLOCK + row + j * LANES));
        UNROLL for (int j = 0; j < WIDE; j++)
            weigh_column(u->weights + row + j * LANES, count, u->largest + row + j * LANES, largest[j],
                         sums + row + j * LANES, correction + row + j * LANES);
    }
}

INLINE void mix_part(float *out, int64_t padded, const float *weights, const float *v, int64_t count,
                     const float *correction, const int vectors)
{
    vfloat sums[TILE][WIDE] = {0};
    UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < vectors; j++) sums[r][j] =
        vload(out + r * padded + j * LANES) * correction[r];
    multiply_tile(sums, weights, 1, BLOCK, v, padded, count, vectors);
    UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < vectors; j++)
        vstore(out + r * padded + j * LANES, sums[r][j]);
}

static __attribute__((noinline)) void mix_wide(float *out, int64_t padded, const float *weights, const float *v,
                                               int64_t count, const float *correction)
{
    mix_part(out, padded, weights, v, count, correction, WIDE);
}

static __attribute__((noinline)) void mix_one(float *out, int64_t padded, const float *weights, const float *v,
                                              int64_t count, const float *correction)
{
    mix_part(out, padded, weights, v, count, correction, 1);
}

/* out = out * correction + weights * v */
static void mix_values(unit *u, const float *v, int64_t count, const float correction[BLOCK])
{
    for (int64_t row = 0; row < BLOCK; row += TILE) {
        float *out = u->out + row * u->padded;
        int64_t d = 0;
        for (; d + WIDE * LANES <= u->width; d += WIDE * LANES)
            mix_wide(out + d, u->padded, u->weights + row, v + d, count, correction + row);
        for (; d < u->width; d += LANES)
            mix_one(out + d, u->padded, u->weights + row, v + d, count, correction + row);
    }
}

/* The rows from `first` to `last`, which are whole blocks. */
static void forward_rows(unit *u, float *y, int64_t first, int64_t last)
{
    float sums[BLOCK], correction[BLOCK];
    for (; first < last; first += BLOCK) {
        set_block(u, first);
        memset(u->out, 0, (size_t)(BLOCK * u->padded) * sizeof(float));
        for (int row = 0; row < BLOCK; row++) {
            sums[row] = 0;
            u->largest[row] = -INFINITE;
        }
        for (int64_t key = 0; key < u->visible; key += KEYS) {
            const int64_t count = u->visible - key < KEYS ? u->visible - key : KEYS;
            score_keys(u, key, count);
            weigh_keys(u, count, sums, correction);
            mix_values(u, u->v + key * u->padded, count, correction);
        }
        for (int row = 0; row < BLOCK; row++)
            u->inverse[row] = 1.0f / sums[row];
        put_rows(u, y, u->y_token, u->out, u->inverse);
    }
}

/* Backward ----------------------------------------------------------------------------------------------------------- */

static void backward_unit(unit *u, float *grad_q)
{
    float scales[BLOCK];
    for (int row = 0; row < BLOCK; row++)
        scales[row] = u->scale;
    memset(u->grad_k, 0, (size_t)(round_up(u->keys, KEY_UNIT) * u->padded) * sizeof(float));
    memset(u->grad_v, 0, (size_t)(round_up(u->keys, KEY_UNIT) * u->padded) * sizeof(float));
    for (int64_t first = 0; first < u->tokens * u->group; first += BLOCK) {
        set_block(u, first);
        score(u);
        weigh(u);
        take_rows(u, u->gradients, u->grad_y, u->y_token, u->inverse);
        slope(u);
        mix_rows(u, u->grad_v, u->weights, u->gradients);
        mix_rows(u, u->grad_k, u->slopes, u->queries);
        mix_keys(u, u->out, u->slopes, u->k);
        put_rows(u, grad_q, u->y_token, u->out, scales);
    }
}

/* Shared by both kernels: sizes, strides and the workspace of this worker. Dims are in the order of kernels.h. */
static void begin_worker(unit *u, const launch *record, float *workspace, int worker)
{
    const int64_t *d = record->dims;
    u->tokens = d[1];
    u->keys = d[2];
    u->group = d[3] / d[4];
    u->dims = d[5];
    u->q_token = d[7];
    u->y_token = d[3] * d[5];
    u->causal = d[12];
    u->scale = record->floats[0];
    u->padded = round_up(u->dims, LARGEST_LANES);
    u->width = round_up(u->dims, LANES);
    const int64_t keys = round_up(u->keys, KEY_UNIT), by_key = keys * u->padded, by_row = BLOCK * u->padded;
    float *at = workspace + worker * (4 * (by_key + by_row) + 2 * BLOCK * keys);
    float **parts[] = {&u->k, &u->v, &u->grad_k, &u->grad_v, &u->queries, &u->gradients, &u->out, &u->turned};
    for (int i = 0; i < 8; i++) {
        *parts[i] = at;
        at += i < 4 ? by_key : by_row;
    }
    u->weights = at;
    u->slopes = at + BLOCK * keys;
}

static void begin_unit(unit *u, const launch *record, int64_t index, const float *q, const float *k, const float *v,
                       int panels)
{
    const int64_t *d = record->dims, batch = index / d[4], kv_head = index % d[4], keys = round_up(u->keys, KEY_UNIT);
    u->q = q + batch * d[6] + kv_head * u->group * u->dims;
    k += batch * d[8] + kv_head * u->dims;
    v += batch * d[10] + kv_head * u->dims;
    if (panels)
        pack_keys(u, k, d[9]);
    for (int64_t key = 0; key < keys; key++) {
        if (!panels)
            gather_row(u, u->k + key * u->padded, key < u->keys ? k + key * d[9] : NULL, 1.0f);
        gather_row(u, u->v + key * u->padded, key < u->keys ? v + key * d[11] : NULL, 1.0f);
    }
}

/* OK where there is something to do; else *nothing is set, or the code says what is wrong. */
static int check(const launch *record, int *nothing)
{
    const int64_t *d = record->dims;
    *nothing = d[0] <= 0 || d[1] <= 0 || d[3] <= 0 || d[5] <= 0;
    if (*nothing)
        return KERNEL_OK;
    return d[4] <= 0 || d[3] % d[4] || d[2] <= 0 || (d[12] && d[2] < d[1]) || d[13] <= 0 ? KERNEL_BAD_ARGUMENT
                                                                                         : KERNEL_OK;
}

KERNEL(attention_train_f32)
{
    const int64_t *d = record->dims, tokens = d[1], kv_heads = d[4], active = workers < d[13] ? workers : d[13];
    unit u;
    int nothing;
    const int code = check(record, &nothing);
    if (code || nothing || worker >= active)
        return code;
    begin_worker(&u, record, record->pointers[4], worker);
    /* Where there are fewer units than workers, several share one unit's blocks. */
    const int64_t units = d[0] * kv_heads, rows = tokens * u.group, blocks = (rows + BLOCK - 1) / BLOCK;
    const int64_t wanted = active == 1 ? 1 : (2 * active + units - 1) / units,
                  parts = wanted < blocks ? wanted : blocks;
    for (int64_t i = worker; i < units * parts; i += active) {
        const int64_t index = i / parts, part = i % parts, last = blocks * (part + 1) / parts * BLOCK;
        begin_unit(&u, record, index, record->pointers[1], record->pointers[2], record->pointers[3], 1);
        forward_rows(&u,
                     (float *)record->pointers[0] + index / kv_heads * tokens * u.y_token +
                         index % kv_heads * u.group * u.dims,
                     blocks * part / parts * BLOCK, last < rows ? last : rows);
    }
    return KERNEL_OK;
}

KERNEL(attention_train_backward_f32)
{
    const int64_t *d = record->dims, tokens = d[1], kv_heads = d[4], active = workers < d[13] ? workers : d[13];
    float *grad_q = record->pointers[0], *grad_k = record->pointers[1], *grad_v = record->pointers[2];
    unit u;
    int nothing;
    const int code = check(record, &nothing);
    if (code || nothing || worker >= active)
        return code;
    begin_worker(&u, record, record->pointers[7], worker);
    for (int64_t i = worker; i < d[0] * kv_heads; i += active) {
        const int64_t batch = i / kv_heads, kv_head = i % kv_heads;
        const int64_t rows_at = batch * tokens * u.y_token + kv_head * u.group * u.dims;
        u.grad_y = (const float *)record->pointers[6] + rows_at;
        begin_unit(&u, record, i, record->pointers[3], record->pointers[4], record->pointers[5], 0);
        backward_unit(&u, grad_q + rows_at);
        for (int64_t key = 0; key < u.keys; key++) {
            const int64_t to = ((batch * u.keys + key) * kv_heads + kv_head) * u.dims;
            for (int64_t j = 0; j < u.dims; j += LANES) {
                vstore_up_to(grad_k + to + j, vload(u.grad_k + key * u.padded + j), u.dims - j);
                vstore_up_to(grad_v + to + j, vload(u.grad_v + key * u.padded + j), u.dims - j);
            }
        }
    }
    return KERNEL_OK;
}
