/* Attention of whole sequences and its gradient.
 *
 * One unit of work is a batch entry and a kv head with the query heads that read it; its rows are (token, head of the
 * group). A block of BLOCK rows meets keys with scores turned (keys x rows): then the largest score and the sum of a
 * row run down vectors, and backward's five products take K, V, Q and the gradient as they lie. Nothing is saved
 * between forward and backward: the softmax of a block comes from its scores, which backward needs anyhow. A mask is
 * read where a block meets its keys, so no matrix of (tokens, keys) exists.
 *
 * With E = exp(scores - largest), sum L, G = grad_y / L: grad_v = E' G; H = G v'; grad_scores = E * (H - sum(E * H) /
 * L).
 */
#include "gemm.h"
#include "halves.h"

#if LANES == 16 || defined(__aarch64__)
enum { TILE = 8, WIDE = 3 }; /* registers: TILE rows of WIDE vectors */
#else
enum { TILE = 6, WIDE = 2 };
#endif
enum { BLOCK = ATTENTION_ROWS, KEY_UNIT = ATTENTION_KEY_UNIT, LARGEST_LANES = 16, KEYS = 48 };

#ifdef __wasm__
#define SOFTCAPPED(problem) 0 /* it would not fit into the size of what the page loads */
#else
#define SOFTCAPPED(problem) ((problem)->softcap != 0)
#endif

/* Columns of queries and keys, or of values: how many; those that are computed; how far rows lie apart. */
typedef struct columns {
    int64_t dims, width, padded;
} columns;

/* What is added to the scores: of kind MASK_BOOL 0 where it is true, else -inf. Strides in elements. */
enum { MASK_BOOL = KIND_BF16 + 1 };
typedef struct mask {
    const void *p;
    int kind;
    int64_t batch, head, token, key;
} mask;

/* What both kernels compute, from their slots. Inputs are of one kind (KIND_F32 ...), outputs as well. */
typedef struct problem {
    void *y;                        /* forward */
    void *grad_q, *grad_k, *grad_v; /* backward */
    const void *q, *k, *v, *grad_y;
    float *workspace;
    int64_t batch, tokens, keys, heads, kv_heads, head_dim, value_dim;
    int64_t q_batch, q_token, k_batch, k_token, v_batch, v_token;
    int64_t before, after; /* row t attends to the keys t - before .. t + after */
    int64_t workspaces;
    int kind;
    float scale, softcap;
    mask mask;
} problem;

typedef struct unit {
    const problem *of;
    int64_t keys, group; /* keys: those that some row attends to */
    columns key, value;
    int kind;
    const void *q, *grad_y; /* of this unit */
    int64_t q_token, y_token;
    float *k, *v, *grad_k, *grad_v;   /* (keys, padded), padding is zero */
    float *weights, *slopes;          /* (keys, BLOCK) */
    float *slants;                    /* (keys, BLOCK), with a softcap: its derivatives */
    float *queries, *gradients, *out; /* (BLOCK, padded): of one block; queries are scaled */
    float *turned;                    /* (padded, BLOCK) */
    int64_t first, rows;              /* the block: its rows */
    int64_t wide, tall;               /* rows that are computed: in whole vectors, in whole tiles */
    int64_t start, visible;           /* keys that its rows attend to, in whole tiles */
    int32_t seen[BLOCK]; /* keys that each row attends to, and masked keys before them; neither decreases */
    int32_t hidden[BLOCK];
    const char *mask_rows[BLOCK]; /* where the mask of each row begins */
    int shared_mask;              /* all rows have the same */
    float largest[BLOCK], inverse[BLOCK], delta[BLOCK];
} unit;

/* KIND_F32 ... of an element type, -1 for others. */
INLINE int kind_of(int64_t type)
{
    return type == TYPE_float32 ? KIND_F32 : type == TYPE_float16 ? KIND_F16 : type == TYPE_bfloat16 ? KIND_BF16 : -1;
}

INLINE int64_t kind_bytes(int kind) { return kind == KIND_F32 ? 4 : 2; }
INLINE const void *element_at(const void *p, int64_t index, int kind)
{
    return (const char *)p + index * kind_bytes(kind);
}

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

/* c (rows, width) = or += a * b (k, width); b and c have these columns, a any strides. */
INLINE void multiply(columns n, float *c, const float *a, int64_t a_row, int64_t a_step, const float *b, int64_t rows,
                     int64_t k, const int add)
{
    for (int64_t r = 0; r < rows; r += TILE, a += TILE * a_row, c += TILE * n.padded) {
        int64_t d = 0;
        for (; d + 2 * LANES <= n.width; d += 2 * LANES)
            multiply_part(c + d, a, a_row, a_step, b + d, n.padded, k, 2, add);
        if (d < n.width)
            multiply_part(c + d, a, a_row, a_step, b + d, n.padded, k, 1, add);
    }
}

/* (BLOCK, padded) = sum over the block's keys of weight * v. */
static __attribute__((noinline)) void mix_keys(const unit *u, columns n, float *out, const float *weights,
                                               const float *v)
{
    multiply(n, out, weights + u->start * BLOCK, 1, BLOCK, v + u->start * n.padded, u->tall, u->visible - u->start, 0);
}

/* (keys, padded) += sum over the block's rows of weight * q. */
static __attribute__((noinline)) void mix_rows(const unit *u, columns n, float *out, const float *weights,
                                               const float *q)
{
    multiply(n, out + u->start * n.padded, weights + u->start * BLOCK, BLOCK, 1, q, u->visible - u->start, u->rows, 1);
}

/* Asks for the row of the next head, which lies beside this one. Rows of a head are too far apart for the hardware to
 * see that they will be read: without this, copying them costs as much as a product with them. */
INLINE void fetch_next(columns n, const void *from, int kind)
{
#ifndef __wasm__ /* which has no instruction for it */
    for (int64_t byte = 0; byte < n.dims * kind_bytes(kind); byte += 64)
        __builtin_prefetch((const char *)element_at(from, n.dims, kind) + byte, 0, 2);
#endif
}

/* A row of `dims` elements to one of `padded` floats, the rest zero; NULL: zeros. (memcpy would take longer.) */
COMPACT void gather_row(columns n, float *to, const void *from, float factor, int kind)
{
    fetch_next(n, from, kind);
    if (kind == KIND_F32)
        for (int64_t d = 0; d < n.padded; d += LANES)
            vstore(to + d, from && d < n.dims ? vload_up_to((const float *)from + d, n.dims - d) * factor : vzero());
    else
        for (int64_t d = 0; d < n.padded; d += LANES)
            vstore(to + d,
                   from && d < n.dims ? load_halves((const uint16_t *)from + d, n.dims - d, kind) * factor : vzero());
}

/* Writes a row, times a factor, to element `at` of `to`. */
COMPACT void put_row(columns n, void *to, int64_t at, const float *from, float factor, int kind)
{
    for (int64_t d = 0; d < n.dims; d += LANES)
        if (kind == KIND_F32)
            vstore_up_to((float *)to + at + d, vload(from + d) * factor, n.dims - d);
        else
            store_halves((uint16_t *)to + at + d, to_halves(vload(from + d) * factor, kind), n.dims - d);
}

INLINE int64_t row_place(const unit *u, columns n, int64_t row, int64_t token_stride)
{
    return (u->first + row) / u->group * token_stride + (u->first + row) % u->group * n.dims;
}

/* The block's rows of x, each times its factor, dense and turned. */
COMPACT void take_rows(unit *u, columns n, float *to, const void *x, int64_t token_stride, const float *factors)
{
    for (int64_t row = 0; row < u->wide; row++) {
        const void *from = row < u->rows ? element_at(x, row_place(u, n, row, token_stride), u->kind) : NULL;
        gather_row(n, to + row * n.padded, from, factors[row], u->kind);
    }
    for (int64_t row = 0; row < u->wide; row += 4)
        for (int64_t d = 0; d < n.dims; d += 4) {
            quad four[4];
            for (int i = 0; i < 4; i++)
                four[i] = quad_at(to, (row + i) * n.padded + d, KIND_F32);
            transpose4(&four[0], &four[1], &four[2], &four[3]);
            for (int i = 0; i < 4; i++)
                *(quad_unaligned *)(u->turned + (d + i) * BLOCK + row) = four[i];
        }
}

/* Writes the block's rows, each times its factor, to elements from `at` on. */
COMPACT void put_rows(const unit *u, columns n, void *to, int64_t at, int64_t token_stride, const float *from,
                      const float *factors)
{
    for (int64_t row = 0; row < u->rows; row++, from += n.padded)
        put_row(n, to, at + row_place(u, n, row, token_stride), from, factors[row], u->kind);
}

/* Masks
 * -------------------------------------------------------------------------------------------------------------- */

INLINE float mask_at(const char *row, int64_t key, int kind)
{
    if (kind == MASK_BOOL)
        return row[key] ? 0.0f : -INFINITE;
    return scalar_at(row, key, kind);
}

/* Four keys of a row whose keys lie side by side. */
static quad mask_quad(const char *row, int64_t key, int kind)
{
    typedef int32_t four_ints __attribute__((vector_size(16)));
    if (kind == KIND_F32)
        return quad_at(row, key, KIND_F32);
    if (kind == KIND_F16)
        return quad_at(row, key, KIND_F16);
    if (kind == KIND_BF16)
        return quad_at(row, key, KIND_BF16);
    const four_ints seen = {row[key], row[key + 1], row[key + 2], row[key + 3]};
    return (quad)((seen == 0) & (int32_t)0xff800000); /* -inf */
}

/* Adds the mask of keys first .. first + count - 1 to weights[i][row]; the keys lie side by side in it. */
COMPACT void add_mask_tiles(const unit *u, float *weights, int64_t first, int64_t count, int kind)
{
    for (int64_t row = 0; row < u->wide; row += 4)
        for (int64_t i = 0; i < count; i += 4) {
            quad four[4] = {{0}};
            for (int r = 0; r < 4; r++) {
                const char *from = u->mask_rows[row + r];
                if (i + 4 <= count)
                    four[r] = mask_quad(from, first + i, kind);
                else
                    for (int j = 0; i + j < count; j++)
                        four[r][j] = mask_at(from, first + i + j, kind);
            }
            transpose4(&four[0], &four[1], &four[2], &four[3]);
            for (int j = 0; j < 4 && i + j < count; j++)
                *(quad_unaligned *)(weights + (i + j) * BLOCK + row) += four[j];
        }
}

/* Adds the mask to the scores of keys first .. first + count - 1. */
COMPACT void add_mask(const unit *u, float *weights, int64_t first, int64_t count)
{
    const mask *m = &u->of->mask;
    const int64_t key = m->key;
    count = first + count <= u->keys ? count : u->keys - first; /* beyond: masked for all rows */
    if (u->shared_mask) {
        for (int64_t i = 0; i < count; i++) {
            const vfloat add = vsplat(mask_at(u->mask_rows[0], (first + i) * key, m->kind));
            for (int64_t row = 0; row < u->wide; row += LANES)
                vstore(weights + i * BLOCK + row, vload(weights + i * BLOCK + row) + add);
        }
    } else if (key != 1) {
        for (int64_t row = 0; row < u->wide; row++)
            for (int64_t i = 0; i < count; i++)
                weights[i * BLOCK + row] += mask_at(u->mask_rows[row], (first + i) * key, m->kind);
    } else
        add_mask_tiles(u, weights, first, count, m->kind);
}

/* Sets the block: its rows, and the keys that they attend to. */
COMPACT void set_block(unit *u, int64_t first)
{
    const problem *p = u->of;
    const int64_t rows = p->tokens * u->group - first;
    float scales[BLOCK];
    u->first = first;
    u->rows = rows < BLOCK ? rows : BLOCK;
    u->wide = round_up(u->rows, WIDE * LANES);
    u->tall = round_up(u->rows, TILE);
    for (int64_t row = 0; row < BLOCK; row++) {
        const int64_t at = first + (row < u->rows ? row : u->rows - 1), token = at / u->group;
        const int64_t seen = token + p->after + 1, hidden = token - p->before;
        u->seen[row] = (int32_t)(seen < 0 ? 0 : seen < u->keys ? seen : u->keys);
        u->hidden[row] = (int32_t)(hidden < 0 ? 0 : hidden < u->keys ? hidden : u->keys);
        scales[row] = p->scale;
    }
    u->visible = round_up(u->seen[BLOCK - 1], TILE);
    u->start = u->hidden[0] < u->seen[BLOCK - 1] ? u->hidden[0] / TILE * TILE : u->visible;
    take_rows(u, u->key, u->queries, u->q, u->q_token, scales);
}

/* Where the mask of each row of the block begins, for the unit of this batch entry and kv head. */
COMPACT void set_mask(unit *u, int64_t batch, int64_t kv_head)
{
    const mask *m = &u->of->mask;
    const int64_t bytes = m->kind == MASK_BOOL ? 1 : kind_bytes(m->kind);
    for (int64_t row = 0; row < BLOCK; row++) {
        const int64_t at = u->first + (row < u->rows ? row : u->rows - 1);
        const int64_t place =
            batch * m->batch + (kv_head * u->group + at % u->group) * m->head + at / u->group * m->token;
        u->mask_rows[row] = (const char *)m->p + place * bytes;
    }
    u->shared_mask = m->token == 0 && (m->head == 0 || u->group == 1);
}

/* Keys at the end that are masked for all rows, such as padding, need no work. */
COMPACT void leave_out_padding(unit *u, int64_t batch, int64_t kv_head)
{
    if (!u->of->mask.p)
        return;
    u->first = 0;
    u->rows = 1;
    set_mask(u, batch, kv_head);
    while (u->shared_mask && u->keys > 0 &&
           mask_at(u->mask_rows[0], (u->keys - 1) * u->of->mask.key, u->of->mask.kind) == -INFINITE)
        u->keys--;
}

/* weights[key][row] = k . q, -inf for masked keys; and the largest of each row. */
static __attribute__((noinline)) void score(unit *u)
{
    for (int64_t row = 0; row < u->wide; row += WIDE * LANES) {
        vfloat largest[WIDE];
        for (int j = 0; j < WIDE; j++)
            largest[j] = vsplat(-INFINITE);
        for (int64_t key = u->start; key < u->visible; key += TILE) {
            vfloat sums[TILE][WIDE] = {0};
            multiply_tile(sums, u->k + key * u->key.padded, u->key.padded, 1, u->turned + row, BLOCK, u->key.dims,
                          WIDE);
            const int masked = key + TILE > u->seen[row] || key < u->hidden[row + WIDE * LANES - 1];
            UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < WIDE; j++)
            {
                const vint at = vsplat_int((int32_t)key + r);
                if (masked)
                    sums[r][j] = vselect((vload_int(u->seen + row + j * LANES) > at) &
                                             (vload_int(u->hidden + row + j * LANES) <= at),
                                         sums[r][j], vsplat(-INFINITE));
                largest[j] = vmax(largest[j], sums[r][j]);
                vstore(u->weights + (key + r) * BLOCK + row + j * LANES, sums[r][j]);
            }
        }
        for (int j = 0; j < WIDE; j++)
            vstore(u->largest + row + j * LANES, largest[j]);
    }
}

/* Puts the softcap on the scores of keys first .. first + count - 1, as far as they are seen, and its derivatives, from
 * 1 - tanh(x)^2 = 1 / cosh(x)^2 without cancellation, into `slants`. */
static __attribute__((noinline)) void cap_scores(const unit *u, float *weights, float *slants, int64_t count)
{
    const vfloat softcap = vsplat(u->of->softcap), inverse = 1.0f / softcap;
    for (int64_t i = 0; i < count * BLOCK; i += BLOCK)
        for (int64_t row = i; row < i + u->wide; row += LANES) {
            const vfloat score = vload(weights + row), x = score * inverse;
            if (slants) {
                const vfloat e = vexp_negative(vmin(x, -x)), cosh = (1.0f + e * e) * 0.5f;
                vstore(slants + row, e * e / (cosh * cosh));
            }
            vstore(weights + row, vselect(score == -INFINITE, score, vtanh(x) * softcap));
        }
}

/* The largest score of each row after masking. */
COMPACT void find_largest(unit *u)
{
    for (int64_t row = 0; row < u->wide; row += LANES) {
        vfloat largest = vsplat(-INFINITE);
        for (int64_t key = u->start; key < u->visible; key++)
            largest = vmax(largest, vload(u->weights + key * BLOCK + row));
        vstore(u->largest + row, largest);
    }
}

/* One over the sum of weights of LANES rows; 0 for a row with all keys masked. If the scores themselves are all -inf,
 * the softmax is NaN. */
INLINE vfloat inverse_of(const unit *u, int64_t row, vfloat sum)
{
    const vint nothing = vload_int(u->seen + row) <= vload_int(u->hidden + row);
    const vint zero = (sum == 0.0f) & (u->of->mask.p ? vsplat_int(-1) : nothing);
    return vselect(zero, vzero(), 1.0f / sum);
}

/* weights = exp(weights - largest), and one over their sum. */
static __attribute__((noinline)) void weigh(unit *u)
{
    for (int64_t row = 0; row < u->wide; row += LANES) {
        const vfloat most = vload(u->largest + row), largest = vselect(most == -INFINITE, vzero(), most);
        vfloat sum = vzero();
        for (int64_t key = u->start; key < u->visible; key++) {
            float *at = u->weights + key * BLOCK + row;
            const vfloat weight = vexp_negative(vload(at) - largest);
            vstore(at, weight);
            sum += weight;
        }
        vstore(u->inverse + row, inverse_of(u, row, sum));
    }
}

/* slopes = weights * (v . g - their weighted mean), with a softcap times its derivatives. */
static __attribute__((noinline)) void slope(unit *u)
{
    for (int64_t row = 0; row < u->wide; row += WIDE * LANES) {
        vfloat delta[WIDE] = {0};
        for (int64_t key = u->start; key < u->visible; key += TILE) {
            vfloat sums[TILE][WIDE] = {0};
            multiply_tile(sums, u->v + key * u->value.padded, u->value.padded, 1, u->turned + row, BLOCK, u->value.dims,
                          WIDE);
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
    for (int64_t i = u->start * BLOCK; i < u->visible * BLOCK; i += BLOCK)
        for (int64_t row = 0; row < u->wide; row += LANES)
            vstore(u->slopes + i + row,
                   vload(u->weights + i + row) * (vload(u->slopes + i + row) - vload(u->delta + row)));
    for (int64_t i = u->start * BLOCK; SOFTCAPPED(u->of) && i < u->visible * BLOCK; i += BLOCK)
        for (int64_t row = 0; row < u->wide; row += LANES)
            vstore(u->slopes + i + row, vload(u->slopes + i + row) * vload(u->slants + i + row));
}

/* Forward
 * --------------------------------------------------------------------------------------------------------------
 *
 * Needs no weights afterwards, so it reads the keys KEYS at a time and its working set stays in the first cache. A
 * larger score scales the sums so far by `correction` (Milakov and Gimelshein, 2018; Dao et al., 2022). */

/* Keys as panels: for TILE keys, for each column, one element of each. */
COMPACT void pack_keys(unit *u, const void *k, int64_t key_stride)
{
    for (int64_t key = 0; key < round_up(u->keys, TILE); key += TILE)
        pack_panel(u->k + key * u->key.dims, TILE, element_at(k, key * key_stride, u->kind),
                   u->keys - key < TILE ? u->keys - key : TILE, key_stride, 1, u->key.dims, u->kind);
}

/* Out of line: inlined beside other code, the sums would not stay in registers. Tiles of keys, one after the other. */
static __attribute__((noinline)) void score_tiles(float *weights, const float *k, const float *turned, int64_t dims,
                                                  int64_t tiles)
{
    for (; tiles > 0; tiles--, weights += TILE * BLOCK, k += TILE * dims) {
        vfloat sums[TILE][WIDE] = {0};
        multiply_tile(sums, k, 1, TILE, turned, BLOCK, dims, WIDE);
        UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < WIDE; j++)
            vstore(weights + r * BLOCK + j * LANES, sums[r][j]);
    }
}

/* weights[i][row] = k . q for keys first .. first + count - 1, -inf for masked keys. */
COMPACT void score_keys(unit *u, int64_t first, int64_t count)
{
    for (int64_t row = 0; row < u->wide; row += WIDE * LANES) {
        score_tiles(u->weights + row, u->k + first * u->key.dims, u->turned + row, u->key.dims, count / TILE);
        for (int64_t at = row; first + count > u->seen[row] && at < row + WIDE * LANES; at++)
            for (int64_t i = u->seen[at] > first ? u->seen[at] - first : 0; i < count; i++)
                u->weights[i * BLOCK + at] = -INFINITE;
        for (int64_t at = row; first < u->hidden[row + WIDE * LANES - 1] && at < row + WIDE * LANES; at++)
            for (int64_t i = 0; i < count && first + i < u->hidden[at]; i++)
                u->weights[i * BLOCK + at] = -INFINITE;
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
static __attribute__((noinline)) void weigh_keys(unit *u, int64_t count, float sums[BLOCK], float correction[BLOCK])
{
    for (int64_t row = 0; row < u->wide; row += WIDE * LANES) {
        vfloat largest[WIDE];
        UNROLL for (int j = 0; j < WIDE; j++) largest[j] = vload(u->largest + row + j * LANES);
        for (int64_t i = 0; i < count; i++) /* interleaved, because each sum waits for the one before */
            UNROLL for (int j = 0; j < WIDE; j++) largest[j] =
                vmax(largest[j], vload(u->weights + i * BLOCK + row + j * LANES));
        UNROLL for (int j = 0; j < WIDE; j++)
            weigh_column(u->weights + row + j * LANES, count, u->largest + row + j * LANES, largest[j],
                         sums + row + j * LANES, correction + row + j * LANES);
    }
}

/* Columns of `vectors` vectors, from `first` on as long as they fit; returns where they end. */
INLINE int64_t mix_part(float *out, int64_t padded, const float *weights, const float *v, int64_t count,
                        const float *correction, int64_t first, int64_t width, const int vectors)
{
    for (; first + vectors * LANES <= width; first += vectors * LANES) {
        vfloat sums[TILE][WIDE] = {0};
        UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < vectors; j++) sums[r][j] =
            vload(out + r * padded + first + j * LANES) * correction[r];
        multiply_tile(sums, weights, 1, BLOCK, v + first, padded, count, vectors);
        UNROLL for (int r = 0; r < TILE; r++) UNROLL for (int j = 0; j < vectors; j++)
            vstore(out + r * padded + first + j * LANES, sums[r][j]);
    }
    return first;
}

static __attribute__((noinline)) int64_t mix_wide(float *out, int64_t padded, const float *weights, const float *v,
                                                  int64_t count, const float *correction, int64_t width)
{
    return mix_part(out, padded, weights, v, count, correction, 0, width, WIDE);
}

static __attribute__((noinline)) void mix_rest(float *out, int64_t padded, const float *weights, const float *v,
                                               int64_t count, const float *correction, int64_t first, int64_t width)
{
    mix_part(out, padded, weights, v, count, correction, first, width, 1);
}

/* out = out * correction + weights * v */
COMPACT void mix_values(unit *u, const float *v, int64_t count, const float correction[BLOCK])
{
    for (int64_t row = 0; row < u->tall; row += TILE) {
        const columns n = u->value;
        float *out = u->out + row * n.padded;
        const int64_t done = mix_wide(out, n.padded, u->weights + row, v, count, correction + row, n.width);
        if (done < n.width)
            mix_rest(out, n.padded, u->weights + row, v, count, correction + row, done, n.width);
    }
}

/* The rows from `first` to `last`, which are whole blocks, of the unit whose outputs begin at element `at` of y. */
COMPACT void forward_rows(unit *u, int64_t batch, int64_t kv_head, int64_t at, int64_t first, int64_t last)
{
    float sums[BLOCK], correction[BLOCK];
    for (; first < last; first += BLOCK) {
        set_block(u, first);
        if (u->of->mask.p)
            set_mask(u, batch, kv_head);
        memset(u->out, 0, (size_t)(u->tall * u->value.padded) * sizeof(float));
        for (int row = 0; row < BLOCK; row++) {
            sums[row] = 0;
            u->largest[row] = -INFINITE;
        }
        for (int64_t key = u->start; key < u->visible; key += KEYS) {
            const int64_t count = u->visible - key < KEYS ? u->visible - key : KEYS;
            score_keys(u, key, count);
            if (SOFTCAPPED(u->of))
                cap_scores(u, u->weights, NULL, count);
            if (u->of->mask.p)
                add_mask(u, u->weights, key, count);
            weigh_keys(u, count, sums, correction);
            mix_values(u, u->v + key * u->value.padded, count, correction);
        }
        for (int row = 0; row < BLOCK; row += LANES)
            vstore(u->inverse + row, inverse_of(u, row, vload(sums + row)));
        put_rows(u, u->value, u->of->y, at, u->y_token, u->out, u->inverse);
    }
}

/* Few rows
 * --------------------------------------------------------------------------------------------------------------
 *
 * The step of a decoder, or a query of a picture: keys and values are read once, as they lie. In a block nearly all of the
 * rows would be computed for nothing. */

#ifndef __wasm__ /* it would not fit into the size of what the page loads */
enum { FEW_ROWS = 8 };

/* scores[i] = k[first + i] . q; both q and scores have room for whole vectors. */
static __attribute__((noinline)) void score_row(float *scores, const float *q, const float *k, int64_t k_token,
                                                int64_t dims, int64_t count)
{
    for (int64_t i = 0; i < count; i += 4) {
        const float *at[4];
        vfloat sums[4] = {vzero(), vzero(), vzero(), vzero()};
        int64_t d = 0;
        for (int j = 0; j < 4; j++) /* beyond the last key: the last one again */
            at[j] = k + (i + j < count ? i + j : count - 1) * k_token;
        for (; d + LANES <= dims; d += LANES)
            for (int j = 0; j < 4; j++)
                sums[j] = vfma(vload(q + d), vload(at[j] + d), sums[j]);
        if (d < dims)
            for (int j = 0; j < 4; j++)
                sums[j] = vfma(vload(q + d), vload_up_to(at[j] + d, dims - d), sums[j]);
        for (int j = 0; j < 4; j++)
            scores[i + j] = vsum(sums[j]);
    }
}

/* Adds the mask of keys first .. first + count - 1 to the scores of a row. */
static __attribute__((noinline)) void mask_row(float *scores, const char *row, int64_t key, int kind, int64_t first,
                                               int64_t count)
{
    if (kind == MASK_BOOL && key == 1)
        for (int64_t i = 0; i < count; i++)
            scores[i] = row[first + i] ? scores[i] : -INFINITE;
    else if (kind == KIND_F32 && key == 1)
        for (int64_t i = 0; i < count; i++)
            scores[i] += ((const float *)row)[first + i];
    else
        for (int64_t i = 0; i < count; i++)
            scores[i] += mask_at(row, (first + i) * key, kind);
}

/* out = the sum over `count` keys of weight * v. */
static __attribute__((noinline)) void mix_row(float *out, const float *weights, const float *v, int64_t v_token,
                                              int64_t dims, int64_t count)
{
    int64_t d = 0;
    for (; d + 4 * LANES <= dims; d += 4 * LANES) {
        vfloat sums[4] = {vzero(), vzero(), vzero(), vzero()};
        for (int64_t i = 0; i < count; i++)
            for (int j = 0; j < 4; j++)
                sums[j] = vfma(vsplat(weights[i]), vload(v + i * v_token + d + j * LANES), sums[j]);
        for (int j = 0; j < 4; j++)
            vstore(out + d + j * LANES, sums[j]);
    }
    for (; d < dims; d += LANES) {
        vfloat sums[2] = {vzero(), vzero()};
        for (int64_t i = 0; i < count; i++)
            sums[i % 2] = vfma(vsplat(weights[i]), vload_up_to(v + i * v_token + d, dims - d), sums[i % 2]);
        vstore(out + d, sums[0] + sums[1]);
    }
}

/* All rows of a unit whose outputs begin at element `at` of y. */
static void few_rows(unit *u, int64_t batch, int64_t kv_head, int64_t at)
{
    const problem *p = u->of;
    const mask *m = &p->mask;
    const int64_t bytes = m->kind == MASK_BOOL ? 1 : kind_bytes(m->kind);
    const float *k = (const float *)p->k + batch * p->k_batch + kv_head * p->head_dim;
    const float *v = (const float *)p->v + batch * p->v_batch + kv_head * p->value_dim;
    const float *q = (const float *)p->q + batch * p->q_batch + kv_head * u->group * p->head_dim;
    float *scores = u->weights;
    for (int64_t row = 0; row < p->tokens * u->group; row++) {
        const int64_t token = row / u->group, head = row % u->group, after = token + p->after + 1;
        const int64_t first = token > p->before ? token - p->before : 0;
        const char *mask = m->p ? (const char *)m->p + bytes * (batch * m->batch + token * m->token +
                                                                (kv_head * u->group + head) * m->head)
                                : NULL;
        int64_t last = after < p->keys ? after : p->keys;
        while (mask && last > first && mask_at(mask, (last - 1) * m->key, m->kind) == -INFINITE)
            last--; /* such as padding */
        const int64_t count = last > first ? last - first : 0;
        float largest = -INFINITE;
        gather_row(u->key, u->queries, q + token * p->q_token + head * p->head_dim, p->scale, KIND_F32);
        score_row(scores, u->queries, k + first * p->k_token, p->k_token, p->head_dim, count);
        for (int64_t i = count; i % LANES; i++)
            scores[i] = -INFINITE;
        for (int64_t i = 0; SOFTCAPPED(p) && i < count; i += LANES) {
            const vfloat score = vload(scores + i);
            vstore(scores + i, vselect(score == -INFINITE, score, vtanh(score / vsplat(p->softcap)) * p->softcap));
        }
        if (mask)
            mask_row(scores, mask, m->key, m->kind, first, count);
        if (count)
            largest = row_largest(scores, round_up(count, LANES));
        const float reference = largest == -INFINITE ? 0 : largest;
        vfloat sum = vzero();
        for (int64_t i = 0; i < count; i += LANES) {
            const vfloat weight = vexp_negative(vload(scores + i) - reference);
            vstore(scores + i, weight);
            sum += weight;
        }
        const float total = vsum(sum);
        mix_row(u->out, scores, v + first * p->v_token, p->v_token, p->value_dim, count);
        put_row(u->value, p->y, at + token * u->y_token + head * p->value_dim, u->out,
                total == 0 && (mask || !count) ? 0 : 1 / total, KIND_F32);
    }
}
#endif

/* Backward
 * ----------------------------------------------------------------------------------------------------------- */

COMPACT void backward_unit(unit *u, int64_t batch, int64_t kv_head, int64_t at)
{
    const problem *p = u->of;
    const int64_t keys = round_up(p->keys, KEY_UNIT);
    float scales[BLOCK];
    for (int row = 0; row < BLOCK; row++)
        scales[row] = p->scale;
    memset(u->grad_k, 0, (size_t)(keys * u->key.padded) * sizeof(float));
    memset(u->grad_v, 0, (size_t)(keys * u->value.padded) * sizeof(float));
    for (int64_t first = 0; first < p->tokens * u->group; first += BLOCK) {
        set_block(u, first);
        score(u);
        if (SOFTCAPPED(p))
            cap_scores(u, u->weights + u->start * BLOCK, u->slants + u->start * BLOCK, u->visible - u->start);
        if (p->mask.p) {
            set_mask(u, batch, kv_head);
            add_mask(u, u->weights + u->start * BLOCK, u->start, u->visible - u->start);
        }
        if (p->mask.p || SOFTCAPPED(p))
            find_largest(u);
        weigh(u);
        take_rows(u, u->value, u->gradients, u->grad_y, u->y_token, u->inverse);
        slope(u);
        mix_rows(u, u->value, u->grad_v, u->weights, u->gradients);
        mix_rows(u, u->key, u->grad_k, u->slopes, u->queries);
        mix_keys(u, u->key, u->out, u->slopes, u->k);
        put_rows(u, u->key, p->grad_q, at, p->heads * p->head_dim, u->out, scales);
    }
    for (int64_t key = 0; key < p->keys; key++) {
        const int64_t row = (batch * p->keys + key) * p->kv_heads + kv_head;
        put_row(u->key, p->grad_k, row * p->head_dim, u->grad_k + key * u->key.padded, 1.0f, u->kind);
        put_row(u->value, p->grad_v, row * p->value_dim, u->grad_v + key * u->value.padded, 1.0f, u->kind);
    }
}

/* The kernels
 * ---------------------------------------------------------------------------------------------------------- */

/* Sizes and the workspace of this worker. */
COMPACT void begin_worker(unit *u, const problem *p, int worker)
{
    u->of = p;
    u->kind = p->kind;
    u->group = p->heads / p->kv_heads;
    u->q_token = p->q_token;
    u->y_token = p->heads * p->value_dim;
    u->key = (columns){p->head_dim, round_up(p->head_dim, LANES), round_up(p->head_dim, LARGEST_LANES)};
    u->value = (columns){p->value_dim, round_up(p->value_dim, LANES), round_up(p->value_dim, LARGEST_LANES)};
    const int64_t padded = u->key.padded > u->value.padded ? u->key.padded : u->value.padded;
    const int64_t keys = round_up(p->keys, KEY_UNIT), by_key = keys * padded, by_row = BLOCK * padded;
    float *at = p->workspace + worker * (4 * (by_key + by_row) + (SOFTCAPPED(p) ? 3 : 2) * BLOCK * keys);
    float **parts[] = {&u->k, &u->v, &u->grad_k, &u->grad_v, &u->queries, &u->gradients, &u->out, &u->turned};
    for (int i = 0; i < 8; i++) {
        *parts[i] = at;
        at += i < 4 ? by_key : by_row;
    }
    u->weights = at;
    u->slopes = at + BLOCK * keys;
    if (SOFTCAPPED(p))
        u->slants = at + 2 * BLOCK * keys;
}

/* Loads the keys and values of a batch entry and kv head: keys unchanged, or as panels. */
COMPACT void begin_unit(unit *u, int64_t batch, int64_t kv_head, int panels)
{
    const problem *p = u->of;
    const void *k = element_at(p->k, batch * p->k_batch + kv_head * p->head_dim, p->kind);
    const void *v = element_at(p->v, batch * p->v_batch + kv_head * p->value_dim, p->kind);
    u->q = element_at(p->q, batch * p->q_batch + kv_head * u->group * p->head_dim, p->kind);
    u->keys = p->keys;
    leave_out_padding(u, batch, kv_head);
    if (panels)
        pack_keys(u, k, p->k_token);
    for (int64_t key = 0; key < round_up(u->keys, KEY_UNIT); key++) {
        const int exists = key < u->keys;
        if (!panels)
            gather_row(u->key, u->k + key * u->key.padded, exists ? element_at(k, key * p->k_token, p->kind) : NULL,
                       1.0f, p->kind);
        gather_row(u->value, u->v + key * u->value.padded, exists ? element_at(v, key * p->v_token, p->kind) : NULL,
                   1.0f, p->kind);
    }
}

/* OK if there is work; else *nothing is set, or the code is the error. */
COMPACT int check(const problem *p, int *nothing)
{
    *nothing = p->batch <= 0 || p->tokens <= 0 || p->heads <= 0 || (p->head_dim <= 0 && p->value_dim <= 0);
    if (*nothing)
        return KERNEL_OK;
    return p->kv_heads <= 0 || p->heads % p->kv_heads || p->keys <= 0 || p->head_dim <= 0 || p->value_dim <= 0 ||
                   p->workspaces <= 0 || p->kind < 0 || p->mask.kind < 0 || (p->softcap != 0 && !SOFTCAPPED(p))
               ? KERNEL_BAD_ARGUMENT
               : KERNEL_OK;
}

COMPACT int forward(const problem *p, int worker, int workers)
{
    const int64_t active = workers < p->workspaces ? workers : p->workspaces;
    unit u;
    int nothing;
    const int code = check(p, &nothing);
    if (code || nothing || worker >= active)
        return code;
    begin_worker(&u, p, worker);
    /* With fewer units than workers, several workers share one unit's blocks. */
    const int64_t units = p->batch * p->kv_heads, rows = p->tokens * u.group, blocks = (rows + BLOCK - 1) / BLOCK;
    const int64_t wanted = active == 1 ? 1 : (2 * active + units - 1) / units,
                  parts = wanted < blocks ? wanted : blocks;
    for (int64_t i = worker; i < units * parts; i += active) {
        const int64_t index = i / parts, part = i % parts, last = blocks * (part + 1) / parts * BLOCK;
        const int64_t batch = index / p->kv_heads, kv_head = index % p->kv_heads;
        const int64_t at = batch * p->tokens * u.y_token + kv_head * u.group * p->value_dim;
#ifndef __wasm__
        if (rows <= FEW_ROWS && p->kind == KIND_F32) {
            few_rows(&u, batch, kv_head, at);
            continue;
        }
#endif
        begin_unit(&u, batch, kv_head, 1);
        forward_rows(&u, batch, kv_head, at, blocks * part / parts * BLOCK, last < rows ? last : rows);
    }
    return KERNEL_OK;
}

COMPACT int backward(const problem *p, int worker, int workers)
{
    const int64_t active = workers < p->workspaces ? workers : p->workspaces;
    unit u;
    int nothing;
    const int code = check(p, &nothing);
    if (code || nothing || worker >= active)
        return code;
    begin_worker(&u, p, worker);
    for (int64_t i = worker; i < p->batch * p->kv_heads; i += active) {
        const int64_t batch = i / p->kv_heads, kv_head = i % p->kv_heads, head = kv_head * u.group;
        const int64_t token = batch * p->tokens;
        u.grad_y = element_at(p->grad_y, (token * p->heads + head) * p->value_dim, p->kind);
        begin_unit(&u, batch, kv_head, 0);
        backward_unit(&u, batch, kv_head, (token * p->heads + head) * p->head_dim);
    }
    return KERNEL_OK;
}

/* Both kernels have the same dims, so one set of names serves. */
_Static_assert((int)masked_attention_v_token == (int)masked_attention_backward_v_token &&
                   (int)masked_attention_workspaces == (int)masked_attention_backward_workspaces,
               "the dims of masked_attention and its gradient differ");

COMPACT problem masked_problem(const launch *record)
{
    const int64_t *d = record->dims;
    return (problem){.batch = d[masked_attention_batch],
                     .tokens = d[masked_attention_tokens],
                     .keys = d[masked_attention_keys],
                     .heads = d[masked_attention_heads],
                     .kv_heads = d[masked_attention_kv_heads],
                     .head_dim = d[masked_attention_head_dim],
                     .value_dim = d[masked_attention_value_dim],
                     .q_batch = d[masked_attention_q_batch],
                     .q_token = d[masked_attention_q_token],
                     .k_batch = d[masked_attention_k_batch],
                     .k_token = d[masked_attention_k_token],
                     .v_batch = d[masked_attention_v_batch],
                     .v_token = d[masked_attention_v_token],
                     .before = d[masked_attention_before],
                     .after = d[masked_attention_after],
                     .kind = kind_of(d[masked_attention_type]),
                     .mask = {.kind = d[masked_attention_mask_type] == TYPE_bool
                                          ? MASK_BOOL
                                          : kind_of(d[masked_attention_mask_type]),
                              .batch = d[masked_attention_mask_batch],
                              .head = d[masked_attention_mask_head],
                              .token = d[masked_attention_mask_token],
                              .key = d[masked_attention_mask_key]},
                     .workspaces = d[masked_attention_workspaces],
                     .scale = record->floats[masked_attention_scale],
                     .softcap = record->floats[masked_attention_softcap]};
}

KERNEL(masked_attention)
{
    problem p = masked_problem(record);
    p.y = record->pointers[masked_attention_y];
    p.q = record->pointers[masked_attention_q];
    p.k = record->pointers[masked_attention_k];
    p.v = record->pointers[masked_attention_v];
    p.mask.p = record->pointers[masked_attention_mask];
    p.workspace = record->pointers[masked_attention_workspace];
    return forward(&p, worker, workers);
}

KERNEL(masked_attention_backward)
{
    problem p = masked_problem(record);
    p.grad_q = record->pointers[masked_attention_backward_grad_q];
    p.grad_k = record->pointers[masked_attention_backward_grad_kv];
    p.grad_v = (char *)p.grad_k + p.batch * p.keys * p.kv_heads * p.head_dim * kind_bytes(p.kind);
    p.q = record->pointers[masked_attention_backward_q];
    p.k = record->pointers[masked_attention_backward_k];
    p.v = record->pointers[masked_attention_backward_v];
    p.grad_y = record->pointers[masked_attention_backward_grad_y];
    p.mask.p = record->pointers[masked_attention_backward_mask];
    p.workspace = record->pointers[masked_attention_backward_workspace];
    return backward(&p, worker, workers);
}
