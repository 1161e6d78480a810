/* Matrix products of f32 in two ways, for matmul.c and linear.c:
 *
 * dots: both operands run along k; vectors run along k too, and each output ends in a horizontal sum. No packing, so it
 *   is the way of few rows.
 * gemm: blocks of both operands are packed into small buffers on the stack (whatever their strides), vectors run along
 *   n. The way of many rows. (Goto, van de Geijn: Anatomy of high-performance matrix multiplication, 2008.)
 */
#ifndef PYAPP_GEMM_H
#define PYAPP_GEMM_H
#include "simd.h"

#if LANES == 16
enum { GEMM_ROWS = 12, GEMM_VECTORS = 2, GEMM_K = 128, GEMM_PANELS = 8, DOT_ROWS = 4, DOT_COLUMNS = 4 };
#elif LANES == 8
enum { GEMM_ROWS = 6, GEMM_VECTORS = 2, GEMM_K = 128, GEMM_PANELS = 16, DOT_ROWS = 4, DOT_COLUMNS = 2 };
#elif defined(__aarch64__)
enum { GEMM_ROWS = 6, GEMM_VECTORS = 4, GEMM_K = 128, GEMM_PANELS = 16, DOT_ROWS = 4, DOT_COLUMNS = 4 };
#elif defined(__SSE2__)
enum { GEMM_ROWS = 3, GEMM_VECTORS = 3, GEMM_K = 256, GEMM_PANELS = 10, DOT_ROWS = 4, DOT_COLUMNS = 2 };
#else
enum { GEMM_ROWS = 6, GEMM_VECTORS = 2, GEMM_K = 256, GEMM_PANELS = 16, DOT_ROWS = 4, DOT_COLUMNS = 2 };
#endif
/* Whether rows of a that run along k are read where they lie: where the product itself can broadcast from memory, that is
 * a tenth faster than packing them. */
enum { GEMM_DIRECT = LANES >= 8 };
enum { PANEL = GEMM_VECTORS * LANES, DOT_CHAINS = 4, DOT_GROUP_BYTES = 256 << 10 };

/* c[i, j] = sum_k a[i, k] * b[k, j] (+ add[i, j]). Strides in elements; c and add run along j. */
typedef struct product {
    float *c;
    const float *a;
    const void *b; /* f32, f16 or bf16 */
    const float *add;
    int64_t k, a_row, a_column, b_row, b_column, c_row, add_row;
} product;

typedef struct range {
    int64_t first, last;
} range;

/* to[k * width + j] = from[j * j_stride + k * k_stride], zero for j >= count. */
static __attribute__((noinline)) void pack_panel(float *to, const int width, const void *from, int64_t count,
                                                 int64_t j_stride, int64_t k_stride, int64_t k, const int kind)
{
    int64_t j = 0;
    if (count < width)
        memset(to, 0, (size_t)(k * width) * sizeof *to);
    if (j_stride == 1 && k_stride != 1) {
        for (; j + 4 <= count; j += 4)
            for (int64_t i = 0; i < k; i++)
                *(quad_unaligned *)(to + i * width + j) = quad_at(from, j + i * k_stride, kind);
    } else if (k_stride == 1) {
        for (; j + 4 <= count; j += 4) {
            int64_t i = 0;
            for (; i + 4 <= k; i += 4) {
                quad rows[4];
                UNROLL for (int q = 0; q < 4; q++) rows[q] = quad_at(from, (j + q) * j_stride + i, kind);
                transpose4(&rows[0], &rows[1], &rows[2], &rows[3]);
                UNROLL for (int q = 0; q < 4; q++) * (quad_unaligned *)(to + (i + q) * width + j) = rows[q];
            }
            for (; i < k; i++)
                for (int q = 0; q < 4; q++)
                    to[i * width + j + q] = scalar_at(from, (j + q) * j_stride + i, kind);
        }
    }
    for (; j < count; j++)
        for (int64_t i = 0; i < k; i++)
            to[i * width + j] = scalar_at(from, j * j_stride + i * k_stride, kind);
}

/* `rows` rows of one panel: c = add + a * b, for packed b (k x PANEL) and a with any strides. */
INLINE void multiply_panel(float *c, int64_t c_row, const float *add, int64_t add_row, const float *a, int64_t a_row,
                           int64_t a_step, const float *b, int64_t k, const int rows)
{
    vfloat sum[GEMM_ROWS][GEMM_VECTORS] = {0};
    for (int64_t i = 0; i < k; i++, a += a_step, b += PANEL) {
        vfloat right[GEMM_VECTORS];
        UNROLL for (int v = 0; v < GEMM_VECTORS; v++) right[v] = vload(b + v * LANES);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const vfloat left = vsplat(a[r * a_row]);
            UNROLL for (int v = 0; v < GEMM_VECTORS; v++) sum[r][v] = vfma(left, right[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < GEMM_VECTORS; v++)
        vstore(c + r * c_row + v * LANES, vload(add + r * add_row + v * LANES) + sum[r][v]);
}

/* Kept out of line: inlined beside other code, the sums would not stay in registers. */
static __attribute__((noinline)) void multiply_whole(float *c, int64_t c_row, const float *add, int64_t add_row,
                                                     const float *a, const float *b, int64_t k)
{
    multiply_panel(c, c_row, add, add_row, a, 1, GEMM_ROWS, b, k, GEMM_ROWS);
}
static __attribute__((noinline)) void multiply_direct(float *c, int64_t c_row, const float *add, int64_t add_row,
                                                      const float *a, int64_t a_row, const float *b, int64_t k)
{
    multiply_panel(c, c_row, add, add_row, a, a_row, 1, b, k, GEMM_ROWS);
}
static __attribute__((noinline)) void multiply_three(float *c, const float *add, const float *a, const float *b,
                                                     int64_t k)
{
    multiply_panel(c, PANEL, add, 0, a, 1, GEMM_ROWS, b, k, 3);
}

/* rows x columns of c, at most GEMM_ROWS x PANEL. Rows of a are a_row apart where the block is whole; 0: a is packed. */
INLINE void multiply_block(float *c, int64_t c_row, const float *add, int64_t add_row, const float *a, int64_t a_row,
                           const float *b, int64_t k, int64_t rows, int64_t columns)
{
    static const float zeros[PANEL];
    if (rows == GEMM_ROWS && columns >= PANEL) {
        if (a_row)
            multiply_direct(c, c_row, add ? add : zeros, add ? add_row : 0, a, a_row, b, k);
        else
            multiply_whole(c, c_row, add ? add : zeros, add ? add_row : 0, a, b, k);
        return;
    }
    float sum[GEMM_ROWS][PANEL];
    for (int64_t r = 0; r < rows; r += 3)
        multiply_three(sum[r], zeros, a + r, b, k);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < PANEL && j < columns; j++)
            c[r * c_row + j] = (add ? add[r * add_row + j] : 0.0f) + sum[r][j];
}

/* The block of c at rows x columns. */
INLINE void gemm(const product *p, range rows, range columns, const int kind)
{
    float right[GEMM_PANELS * PANEL * GEMM_K], left[GEMM_ROWS * GEMM_K];
    const int64_t element = kind == KIND_F32 ? 4 : 2;
    for (int64_t n = columns.first; n < columns.last; n += GEMM_PANELS * PANEL)
        for (int64_t k = 0; k < p->k || k == 0; k += GEMM_K) {
            const int64_t depth = p->k - k < GEMM_K ? p->k - k : GEMM_K;
            const int64_t end = n + GEMM_PANELS * PANEL < columns.last ? n + GEMM_PANELS * PANEL : columns.last;
            for (int64_t j = n; j < end; j += PANEL)
                pack_panel(right + (j - n) * GEMM_K, PANEL,
                           (const char *)p->b + (k * p->b_row + j * p->b_column) * element,
                           end - j < PANEL ? end - j : PANEL, p->b_column, p->b_row, depth, kind);
            const float *add = k ? p->c : p->add;
            const int64_t add_row = k ? p->c_row : p->add_row;
            for (int64_t i = rows.first; i < rows.last; i += GEMM_ROWS) {
                const int64_t tall = rows.last - i < GEMM_ROWS ? rows.last - i : GEMM_ROWS;
                const float *a = p->a + i * p->a_row + k * p->a_column;
                const int whole = tall == GEMM_ROWS && (end - n) % PANEL == 0;
                const int direct = GEMM_DIRECT && whole && p->a_column == 1 && p->a_row;
                if (!direct)
                    pack_panel(left, GEMM_ROWS, a, tall, p->a_row, p->a_column, depth, KIND_F32);
                for (int64_t j = n; j < end; j += PANEL)
                    multiply_block(p->c + i * p->c_row + j, p->c_row, add ? add + i * add_row + j : NULL, add_row,
                                   direct ? a : left, direct ? p->a_row : 0, right + (j - n) * GEMM_K, depth, tall,
                                   end - j);
            }
        }
}

/* out[r][c] = dot of row r of a with row c of b, rows a_row and b_row apart. */
INLINE void dot_tile(float out[DOT_ROWS][DOT_COLUMNS], const float *a, int64_t a_row, const void *b, int64_t b_first,
                     int64_t b_row, int64_t k, const int rows, const int columns, const int kind)
{
    const int chains = rows == 1 ? DOT_CHAINS : 1;
    vfloat sum[DOT_ROWS][DOT_COLUMNS][DOT_CHAINS] = {0};
    int64_t i = 0;
    for (; i + chains * LANES <= k; i += chains * LANES)
        UNROLL for (int h = 0; h < chains; h++)
        {
            vfloat right[DOT_COLUMNS];
            UNROLL for (int c = 0; c < columns; c++) right[c] = vload_at(b, b_first + c * b_row + i + h * LANES, kind);
            UNROLL for (int r = 0; r < rows; r++)
            {
                const vfloat left = vload(a + r * a_row + i + h * LANES);
                UNROLL for (int c = 0; c < columns; c++) sum[r][c][h] = vfma(left, right[c], sum[r][c][h]);
            }
        }
    for (; i < k; i += LANES) {
        const int64_t count = k - i < LANES ? k - i : LANES;
        UNROLL for (int c = 0; c < columns; c++)
        {
            float part[LANES] = {0};
            for (int64_t j = 0; j < count; j++)
                part[j] = scalar_at(b, b_first + c * b_row + i + j, kind);
            UNROLL for (int r = 0; r < rows; r++)
            {
                const vfloat left = count == LANES ? vload(a + r * a_row + i) : vload_part(a + r * a_row + i, count);
                sum[r][c][0] = vfma(left, vload(part), sum[r][c][0]);
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int c = 0; c < columns; c++)
    {
        for (int h = 1; h < chains; h++)
            sum[r][c][0] += sum[r][c][h];
        out[r][c] = vsum(sum[r][c][0]);
    }
}

/* Rows i .. i + rows - 1 of a with rows `columns` of b. */
INLINE void dot_rows(const product *p, int64_t i, range columns, const int rows, const int kind)
{
    /* A lone row is bound by memory, which likes few streams that lie far apart: first and second half of the rows. */
    const int wide = rows == 1 ? 2 : DOT_COLUMNS;
    const int64_t tiles = (columns.last - columns.first) / wide, far = rows == 1 ? tiles : 1,
                  near = rows == 1 ? 1 : wide;
    const float *a = p->a + i * p->a_row;
    float out[DOT_ROWS][DOT_COLUMNS];
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t j = columns.first + t * near;
        dot_tile(out, a, p->a_row, p->b, j * p->b_column, far * p->b_column, p->k, rows, wide, kind);
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int c = 0; c < wide; c++)
        {
            const int64_t at = j + c * far;
            p->c[(i + r) * p->c_row + at] = (p->add ? p->add[(i + r) * p->add_row + at] : 0.0f) + out[r][c];
        }
    }
    for (int64_t j = columns.first + tiles * wide; j < columns.last; j++) {
        dot_tile(out, a, p->a_row, p->b, j * p->b_column, 0, p->k, rows, 1, kind);
        for (int r = 0; r < rows; r++)
            p->c[(i + r) * p->c_row + j] = (p->add ? p->add[(i + r) * p->add_row + j] : 0.0f) + out[r][0];
    }
}

/* The block of c at rows x columns; a_column and b_row are 1. */
INLINE void dots(const product *p, range rows, range columns, const int kind)
{
    const int64_t row_bytes = p->k * (kind == KIND_F32 ? 4 : 2) + 1;
    int64_t group = DOT_GROUP_BYTES / row_bytes / DOT_COLUMNS * DOT_COLUMNS;
    if (rows.last - rows.first <= DOT_ROWS)
        group = columns.last - columns.first;
    if (group < DOT_COLUMNS)
        group = DOT_COLUMNS;
    for (int64_t j = columns.first; j < columns.last; j += group) {
        const range some = {j, j + group < columns.last ? j + group : columns.last};
        for (int64_t i = rows.first; i < rows.last; i += DOT_ROWS)
            switch (rows.last - i) {
            case 1:
                dot_rows(p, i, some, 1, kind);
                break;
            case 2:
                dot_rows(p, i, some, 2, kind);
                break;
            case 3:
                dot_rows(p, i, some, 3, kind);
                break;
            default:
                dot_rows(p, i, some, DOT_ROWS, kind);
            }
    }
}
#endif
