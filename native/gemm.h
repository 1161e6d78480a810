/* Matrix products of f32 in two ways, for matmul.c and linear.c:
 *
 * dots: both operands run along k; vectors run along k too, and each output ends in a horizontal sum. No packing, so it
 *   is used for few rows.
 * gemm: blocks of both operands are packed into small buffers on the stack (whatever their strides), vectors run along
 *   n. The way of many rows. (Goto, van de Geijn: Anatomy of high-performance matrix multiplication, 2008.)
 */
#ifndef PYAPP_GEMM_H
#define PYAPP_GEMM_H
#include "simd.h"

#if LANES == 16
enum { GEMM_ROWS = 12, GEMM_VECTORS = 2, GEMM_K = 256, GEMM_PANELS = 12, DOT_ROWS = 4, DOT_COLUMNS = 4 };
#elif LANES == 8
enum { GEMM_ROWS = 6, GEMM_VECTORS = 2, GEMM_K = 256, GEMM_PANELS = 16, DOT_ROWS = 4, DOT_COLUMNS = 2 };
#elif defined(__aarch64__)
enum { GEMM_ROWS = 6, GEMM_VECTORS = 4, GEMM_K = 128, GEMM_PANELS = 16, DOT_ROWS = 4, DOT_COLUMNS = 4 };
#elif defined(__SSE2__)
enum { GEMM_ROWS = 3, GEMM_VECTORS = 3, GEMM_K = 256, GEMM_PANELS = 10, DOT_ROWS = 4, DOT_COLUMNS = 2 };
#else
enum { GEMM_ROWS = 6, GEMM_VECTORS = 2, GEMM_K = 384, GEMM_PANELS = 48, DOT_ROWS = 4, DOT_COLUMNS = 2 };
#endif
/* Packed panels, PANEL * GEMM_K * GEMM_PANELS floats, lie on the stack: 0.6 MB at most. */

/* Whether rows of a that run along k are read in place: if the product can broadcast from memory, that is a tenth
 * faster than packing them. */
enum { GEMM_DIRECT = LANES >= 8 };
/* Rows a multiple of CROWDED floats apart share few lines of a cache; they are copied APART floats apart. */
enum { CROWDED = 1024, APART = GEMM_K + 16 };
enum { GEMM_FEW = LANES == 16 ? 4 : 3 }; /* rows at the lower end: they divide GEMM_ROWS */
enum { PANEL = GEMM_VECTORS * LANES, DOT_CHAINS = 4, DOT_GROUP_BYTES = 256 << 10 };
/* A line more than a panel: equal places of panels would share few lines of a cache, too. */
enum { PANEL_STEP = PANEL * GEMM_K + 16 };

/* c[i, j] = sum_k a[i, k] * b[k, j] (+ add[i, j] or row_add[i]). Strides in elements; c and add run along j. */
typedef struct product {
    float *c;
    const float *a; /* or f16, bf16: a_kind */
    const void *b;  /* f32, f16 or bf16 */
    const float *add;
    int64_t k, a_row, a_column, b_row, b_column, c_row, add_row;
    const float *row_add; /* instead of add: one number for each row of c */
    int a_kind;
} product;

typedef struct range {
    int64_t first, last;
} range;

/* gemm.c: to[i * width + j] = from[j * j_stride + i * k_stride], zero for j >= count; and the same for whole panels
 * whose rows are dense. */
#define pack_panel SUFFIXED(pack_panel)
#define pack_dense SUFFIXED(pack_dense)
void pack_panel(float *to, int width, const void *from, int64_t count, int64_t j_stride, int64_t k_stride, int64_t k,
                int kind);
void pack_dense(float *to, const float *from, int64_t panels, int64_t k_stride, int64_t k);

/* gemm.c: rows of c with the columns n .. end - 1, whose right operand is packed, for rows k .. k + depth - 1 of it. */
#define multiply_packed SUFFIXED(multiply_packed)
void multiply_packed(const product *p, range rows, int64_t n, int64_t end, int64_t k, int64_t depth,
                     const float *right);

/* gemm.c: both methods for matrices b of a kind. multiply_halves: a, b, c and add are all of one 16-bit kind; sums are
 * made in f32 and rounded once. `few`: by dots. */
#define dots_of SUFFIXED(dots_of)
#define gemm_of SUFFIXED(gemm_of)
#define multiply_halves SUFFIXED(multiply_halves)
void dots_of(const product *p, range rows, range columns, int kind);
void gemm_of(const product *p, range rows, range columns, int kind);
void multiply_halves(const product *p, range rows, range columns, int kind, int few);

/* bf16_dots.c: multiply_halves of bf16, where this machine has an instruction for it; whether it does. dots_bf16: up to
 * DOT_ROWS rows by dots, in f32: stage (rows x columns). */
#if BF16_DOTS
#define multiply_bf16 SUFFIXED(multiply_bf16)
#define dots_bf16 SUFFIXED(dots_bf16)
int multiply_bf16(const product *p, range rows, range columns);
int dots_bf16(float *stage, const product *p, int64_t rows, int64_t columns);
#else
INLINE int multiply_bf16(const product *p, range rows, range columns) { return 0; }
INLINE int dots_bf16(float *stage, const product *p, int64_t rows, int64_t columns) { return 0; }
#endif

/* Packs columns n .. end - 1 of rows k .. k + depth - 1 of a right operand into panels, PANEL_STEP floats apart. */
typedef void pack_right(float *to, const product *p, const void *source, int64_t n, int64_t end, int64_t k,
                        int64_t depth, const int kind);

INLINE void pack_matrix(float *to, const product *p, const void *source, int64_t n, int64_t end, int64_t k,
                        int64_t depth, const int kind)
{
    const int64_t whole = (end - n) / PANEL, element = kind == KIND_F32 ? 4 : 2;
    const char *from = (const char *)p->b + k * p->b_row * element;
    int64_t j = n;
    if (kind == KIND_F32 && p->b_column == 1 && p->b_row != 1) {
        pack_dense(to, (const float *)from + n, whole, p->b_row, depth);
        j += whole * PANEL;
    }
    for (; j < end; j += PANEL)
        pack_panel(to + (j - n) / PANEL * PANEL_STEP, PANEL, from + j * p->b_column * element,
                   end - j < PANEL ? end - j : PANEL, p->b_column, p->b_row, depth, kind);
}

/* The block of c at rows x columns. */
INLINE void gemm(const product *p, range rows, range columns, pack_right *pack, const void *source, const int kind)
{
    float right[GEMM_PANELS * PANEL_STEP + PANEL]; /* packing may write past the last row */
    for (int64_t n = columns.first; n < columns.last; n += GEMM_PANELS * PANEL)
        for (int64_t k = 0; k < p->k || k == 0; k += GEMM_K) {
            const int64_t depth = p->k - k < GEMM_K ? p->k - k : GEMM_K;
            const int64_t end = n + GEMM_PANELS * PANEL < columns.last ? n + GEMM_PANELS * PANEL : columns.last;
            pack(right, p, source, n, end, k, depth, kind);
            multiply_packed(p, rows, n, end, k, depth, right);
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
        const int64_t count = k - i < LANES ? k - i : LANES, element = kind == KIND_F32 ? 4 : 2;
        UNROLL for (int c = 0; c < columns; c++)
        {
            uint8_t part[4 * LANES] = {0};
            memcpy(part, (const char *)b + (b_first + c * b_row + i) * element, (size_t)(count * element));
            UNROLL for (int r = 0; r < rows; r++)
            {
                const vfloat left = count == LANES ? vload(a + r * a_row + i) : vload_part(a + r * a_row + i, count);
                sum[r][c][0] = vfma(left, vload_at(part, 0, kind), sum[r][c][0]);
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
    /* A single row is bound by memory, which prefers few streams far apart: first and second half of the rows. */
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
#endif
