/* Products of bf16 by the instruction of newer x86 processors that multiplies pairs of them and adds to f32. Blocks of
 * both operands are packed as pairs along k, so a pair takes the place of a float of gemm.c.
 *
 * Subnormal numbers count as zeros there, as in torch.
 */
#include "gemm.h"
#include "halves.h"

#if BF16_DOTS
/* Pairs of a block; panels and rows of the sums that lie on the stack until they are rounded, at most STAGE of them. */
enum { PAIRS = 256, MOST_PANELS = 8, MOST_ROWS = 384, STAGE = 192 * MOST_PANELS * PANEL, SPREAD = PAIRS + 16 };

/* `tall` <= GEMM_ROWS rows of one panel: c (+)= a * b, for packed pairs b (pairs x PANEL). */
WITH_BF16_DOTS static inline __attribute__((always_inline)) void multiply_pairs(float *c, int64_t c_row, int more,
                                                                                const uint32_t *a, const int a_row,
                                                                                const int a_step, const uint32_t *b,
                                                                                int64_t pairs, const int tall)
{
    vfloat sum[GEMM_ROWS][GEMM_VECTORS];
    UNROLL for (int r = 0; r < tall; r++) UNROLL for (int v = 0; v < GEMM_VECTORS; v++) sum[r][v] =
        more ? vload(c + r * c_row + v * LANES) : vzero();
    for (int64_t i = 0; i < pairs; i++, a += a_step, b += PANEL) {
        vint right[GEMM_VECTORS];
        UNROLL for (int v = 0; v < GEMM_VECTORS; v++) right[v] = vload_int((const int32_t *)b + v * LANES);
        UNROLL for (int r = 0; r < tall; r++)
        {
            const vint left = vsplat_int((int32_t)a[r * a_row]);
            UNROLL for (int v = 0; v < GEMM_VECTORS; v++) sum[r][v] = vdot_bf16(left, right[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < tall; r++) UNROLL for (int v = 0; v < GEMM_VECTORS; v++)
        vstore(c + r * c_row + v * LANES, sum[r][v]);
}

/* `panels` of b, one beside the other; a function for each number of rows, whose pairs lie one after the other or
 * beside each other. */
typedef void tile_function(float *, int64_t, int, const uint32_t *, const uint32_t *, int64_t, int64_t);
#define TILES(name, a_row, a_step, tall)                                                                               \
    WITH_BF16_DOTS static __attribute__((noinline)) void name(float *c, int64_t c_row, int more, const uint32_t *a,    \
                                                              const uint32_t *b, int64_t pairs, int64_t panels)        \
    {                                                                                                                  \
        for (; panels > 0; panels--, c += PANEL, b += PAIRS * PANEL)                                                   \
            multiply_pairs(c, c_row, more, a, a_row, a_step, b, pairs, tall);                                          \
    }
TILES(along_4, SPREAD, 1, 4)
TILES(along_8, SPREAD, 1, 8)
TILES(along_12, SPREAD, 1, 12)
TILES(beside_4, 1, GEMM_ROWS, 4)
TILES(beside_8, 1, GEMM_ROWS, 8)
TILES(beside_12, 1, GEMM_ROWS, 12)
_Static_assert(GEMM_ROWS == 12, "there are functions for each number of rows");

INLINE uint32_t pair_at(const uint16_t *from, int64_t step, int64_t k, int64_t depth)
{
    return from[k * step] | (k + 1 < depth ? (uint32_t)from[(k + 1) * step] << 16 : 0);
}

/* Pairs of the rows k and k + 1, 2 * LANES columns wide at most: to[j]; a second row of zeros if it is NULL. */
INLINE void join_rows(uint32_t *to, const uint16_t *first, const uint16_t *second, int64_t count)
{
    for (int64_t j = 0; j < count; j += LANES) {
        const uint32_t mask = count - j < LANES ? (1u << (count - j)) - 1 : 0xffff;
        const vuint low = vload_u16_part(first + j, mask);
        const vuint high = second ? vload_u16_part(second + j, mask) : (vuint){0};
        vstore_int((int32_t *)to + j, (vint)(low | high << 16));
    }
}

/* One panel, of `count` columns; `depth` rows. */
static void pack_right_pairs(uint32_t *to, const uint16_t *from, int64_t count, int64_t row, int64_t column,
                             int64_t depth)
{
    if (count < PANEL)
        memset(to, 0, (size_t)((depth + 1) / 2 * PANEL) * sizeof *to);
    if (row == 1)
        for (int64_t j = 0; j < count; j += LANES)
            for (int64_t k = 0; k < depth; k += 2 * LANES) {
                vint rows[LANES];
                const uint32_t mask = depth - k < 2 * LANES ? (1u << (depth - k)) - 1 : 0xffffffff;
                UNROLL for (int q = 0; q < LANES; q++)
                {
                    __builtin_prefetch(from + (j + LANES + q) * column + k);
                    rows[q] = j + q < count ? vload_pairs_part(from + (j + q) * column + k, mask) : (vint){0};
                }
                transpose_lanes(rows);
                for (int q = 0; q < LANES && k + 2 * q < depth; q++)
                    vstore_int((int32_t *)to + (k / 2 + q) * PANEL + j, rows[q]);
            }
    else if (column == 1)
        for (int64_t k = 0; k < depth; k += 2)
            join_rows(to + k / 2 * PANEL, from + k * row, k + 1 < depth ? from + (k + 1) * row : NULL, count);
    else
        for (int64_t k = 0; k < depth; k += 2)
            for (int64_t j = 0; j < count; j++)
                to[k / 2 * PANEL + j] = pair_at(from + j * column, row, k, depth);
}

/* `tall` rows of a left operand; whether they lie beside each other. */
static int pack_left_pairs(uint32_t *to, const uint16_t *from, int64_t tall, int64_t row, int64_t column, int64_t depth)
{
    if (row == 1 && column != 1 && tall == GEMM_ROWS) {
        for (int64_t k = 0; k < depth; k += 2)
            join_rows(to + k / 2 * GEMM_ROWS, from + k * column, k + 1 < depth ? from + (k + 1) * column : NULL,
                      GEMM_ROWS);
        return 1;
    }
    for (int64_t r = 0; r < GEMM_ROWS; r++, to += SPREAD) {
        if (r >= tall)
            memset(to, 0, (size_t)((depth + 1) / 2) * sizeof *to);
        else if (column == 1) {
            to[depth / 2] = 0;
            memcpy(to, from + r * row, (size_t)depth * sizeof *from);
        } else
            for (int64_t k = 0; k < depth; k += 2)
                to[k / 2] = pair_at(from + r * row, column, k, depth);
    }
    return 0;
}

/* stage (height x width, width a multiple of PANEL) = a * b. */
static void multiply_stage(float *stage, const uint16_t *a, const uint16_t *b, const product *p, int64_t height,
                           int64_t columns, int64_t width)
{
    static tile_function *const functions[2][3] = {{along_4, along_8, along_12}, {beside_4, beside_8, beside_12}};
    uint32_t right[MOST_PANELS * PAIRS * PANEL], left[GEMM_ROWS * SPREAD + LANES];
    for (int64_t k = 0; k < p->k || k == 0; k += 2 * PAIRS) {
        const int64_t depth = p->k - k < 2 * PAIRS ? p->k - k : 2 * PAIRS;
        for (int64_t j = 0; j < columns; j += PANEL)
            pack_right_pairs(right + j * PAIRS, b + k * p->b_row + j * p->b_column,
                             columns - j < PANEL ? columns - j : PANEL, p->b_row, p->b_column, depth);
        for (int64_t i = 0; i < height; i += GEMM_ROWS) {
            const int64_t tall = height - i < GEMM_ROWS ? height - i : GEMM_ROWS;
            const int beside =
                pack_left_pairs(left, a + i * p->a_row + k * p->a_column, tall, p->a_row, p->a_column, depth);
            functions[beside][(tall - 1) / 4](stage + i * width, width, k > 0, left, right, (depth + 1) / 2,
                                              width / PANEL);
        }
    }
}

int multiply_bf16(const product *p, range rows, range columns)
{
    float stage[STAGE + GEMM_ROWS * MOST_PANELS * PANEL];
    const uint16_t *a = (const void *)p->a, *b = p->b, *add = (const void *)p->add;
    uint16_t *c = (void *)p->c;
    const int64_t total = rows.last - rows.first, parts = (total + MOST_ROWS - 1) / MOST_ROWS;
    if (!machine_has_bf16_dots())
        return 0;
    const int64_t most = (total + parts - 1) / (parts ? parts : 1),
                  tall = (most + GEMM_ROWS - 1) / GEMM_ROWS * GEMM_ROWS;
    const int64_t fitting = tall ? STAGE / tall / PANEL : 1,
                  wide = (fitting < MOST_PANELS ? fitting : MOST_PANELS) * PANEL;
    for (int64_t i = rows.first; i < rows.last; i += tall)
        for (int64_t j = columns.first; j < columns.last; j += wide) {
            const int64_t height = rows.last - i < tall ? rows.last - i : tall;
            const int64_t some = columns.last - j < wide ? columns.last - j : wide;
            const int64_t width = (some + PANEL - 1) / PANEL * PANEL;
            multiply_stage(stage, a + i * p->a_row, b + j * p->b_column, p, height, some, width);
            for (int64_t r = 0; r < height; r++)
                narrow_row(c + (i + r) * p->c_row + j, stage + r * width, add ? add + (i + r) * p->add_row + j : NULL,
                           some, KIND_BF16);
        }
    return 1;
}

/* `tall` <= DOT_ROWS rows of a with DOT_COLUMNS rows of b, all along k: to[r * width + column]. */
WITH_BF16_DOTS static inline __attribute__((always_inline)) void dot_pairs(float *to, int64_t width, const uint16_t *a,
                                                                           int64_t a_row, const uint16_t *const *b,
                                                                           int64_t k, int64_t columns, const int tall)
{
    vfloat sum[LANES] = {0}; /* row by row */
    for (int64_t i = 0; i < k; i += 2 * LANES) {
        const uint32_t mask = k - i < 2 * LANES ? (1u << (k - i)) - 1 : 0xffffffff;
        vint right[DOT_COLUMNS];
        UNROLL for (int c = 0; c < DOT_COLUMNS; c++) right[c] = vload_pairs_part(b[c] + i, mask);
        UNROLL for (int r = 0; r < tall; r++)
        {
            const vint left = vload_pairs_part(a + r * a_row + i, mask);
            UNROLL for (int c = 0; c < DOT_COLUMNS; c++) sum[r * DOT_COLUMNS + c] =
                vdot_bf16(left, right[c], sum[r * DOT_COLUMNS + c]);
        }
    }
    vint rows[LANES];
    UNROLL for (int i = 0; i < LANES; i++) rows[i] = (vint)sum[i];
    transpose_lanes(rows);
    vfloat total = vzero();
    UNROLL for (int i = 0; i < LANES; i++) total += (vfloat)rows[i];
    for (int r = 0; r < tall; r++)
        for (int c = 0; c < columns; c++)
            to[r * width + c] = total[r * DOT_COLUMNS + c];
}

typedef void dots_function(float *, int64_t, const uint16_t *, int64_t, const uint16_t *const *, int64_t, int64_t);
#define DOTS(tall)                                                                                                     \
    WITH_BF16_DOTS static                                                                                              \
        __attribute__((noinline)) void dots_##tall(float *to, int64_t width, const uint16_t *a, int64_t a_row,         \
                                                   const uint16_t *const *b, int64_t k, int64_t columns)               \
    {                                                                                                                  \
        dot_pairs(to, width, a, a_row, b, k, columns, tall);                                                           \
    }
DOTS(1)
DOTS(2)
DOTS(3)
DOTS(4)
_Static_assert(DOT_ROWS *DOT_COLUMNS == LANES, "a vector has the sums of a tile");

/* Up to DOT_ROWS rows, all along k. */
int dots_bf16(float *stage, const product *p, int64_t rows, int64_t columns)
{
    static dots_function *const functions[DOT_ROWS] = {dots_1, dots_2, dots_3, dots_4};
    const uint16_t *a = (const void *)p->a, *b = p->b;
    if (!machine_has_bf16_dots())
        return 0;
    for (int64_t j = 0; j < columns; j += DOT_COLUMNS) {
        const uint16_t *some[DOT_COLUMNS];
        for (int c = 0; c < DOT_COLUMNS; c++) /* past the end, the last one again */
            some[c] = b + (j + c < columns ? j + c : columns - 1) * p->b_column;
        functions[rows - 1](stage + j, columns, a, p->a_row, some, p->k,
                            columns - j < DOT_COLUMNS ? columns - j : DOT_COLUMNS);
    }
    return 1;
}
#endif
