/* The packed method of gemm.h: packing, and products of packed panels. */
#include "gemm.h"
#include "halves.h"

/* `rows` rows that run along k, 2 or 4, as columns of a panel. */
INLINE void turn_rows(float *to, const int width, const void *from, int64_t first, int64_t stride, int64_t k,
                      const int rows, const int kind)
{
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
        quad part[4];
        UNROLL for (int q = 0; q < 4; q++) part[q] = quad_at(from, first + q % rows * stride + i, kind);
        transpose4(&part[0], &part[1], &part[2], &part[3]);
        UNROLL for (int q = 0; q < 4; q++) memcpy(to + (i + q) * width, &part[q], (size_t)rows * sizeof *to);
    }
    for (; i < k; i++)
        for (int q = 0; q < rows; q++)
            to[i * width + q] = scalar_at(from, first + q * stride + i, kind);
}

#if LANES == 16
/* Whole vectors of rows that run along k, as columns of a panel; the next ones come from memory meanwhile, as no
 * processor foresees so many streams. The number of rows that it has done. */
INLINE int64_t turn_lanes(float *to, const void *from, int64_t count, int64_t stride, int64_t k, const int kind)
{
    const int64_t bytes = kind == KIND_F32 ? 4 : 2;
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) {
        int64_t i = 0;
        for (; i + LANES <= k; i += LANES) {
            vint rows[LANES];
            UNROLL for (int q = 0; q < LANES; q++)
            {
                __builtin_prefetch((const char *)from + ((j + LANES + q) * stride + i) * bytes);
                rows[q] = (vint)vload_at(from, (j + q) * stride + i, kind);
            }
            transpose_lanes(rows);
            UNROLL for (int q = 0; q < LANES; q++) vstore_int((int32_t *)to + (i + q) * PANEL + j, rows[q]);
        }
        for (; i < k; i++)
            for (int q = 0; q < LANES; q++)
                to[i * PANEL + j + q] = scalar_at(from, (j + q) * stride + i, kind);
    }
    return j;
}
#else
INLINE int64_t turn_lanes(float *to, const void *from, int64_t count, int64_t stride, int64_t k, const int kind)
{
    return 0;
}
#endif

/* to[i * width + j] = from[j * j_stride + i * k_stride], zero for j >= count. */
INLINE void pack_panel_of(float *to, const int width, const void *from, int64_t count, int64_t j_stride,
                          int64_t k_stride, int64_t k, const int kind)
{
    int64_t j = 0;
    if (count < width)
        memset(to, 0, (size_t)(k * width) * sizeof *to);
    if (j_stride == 1 && k_stride != 1) {
        j = count / 4 * 4;
        for (int64_t i = 0; i < k; i++)
            for (int64_t q = 0; q < j; q += 4)
                *(quad_unaligned *)(to + i * width + q) = quad_at(from, q + i * k_stride, kind);
    } else if (k_stride == 1) {
        if (width == PANEL)
            j = turn_lanes(to, from, count, j_stride, k, kind);
        for (; j + 4 <= count; j += 4)
            turn_rows(to + j, width, from, j * j_stride, j_stride, k, 4, kind);
        for (; j + 2 <= count; j += 2) /* left operands */
            turn_rows(to + j, width, from, j * j_stride, j_stride, k, 2, kind);
    }
    for (; j < count; j++)
        for (int64_t i = 0; i < k; i++)
            to[i * width + j] = scalar_at(from, j * j_stride + i * k_stride, kind);
}

__attribute__((noinline)) void pack_panel(float *to, int width, const void *from, int64_t count, int64_t j_stride,
                                          int64_t k_stride, int64_t k, int kind)
{
    if (kind == KIND_F32)
        pack_panel_of(to, width, from, count, j_stride, k_stride, k, KIND_F32);
    else if (kind == KIND_F16)
        pack_panel_of(to, width, from, count, j_stride, k_stride, k, KIND_F16);
    else
        pack_panel_of(to, width, from, count, j_stride, k_stride, k, KIND_BF16);
}

/* `panels` whole panels with dense rows, as most right operands have: row by row, in the order of memory. */
void pack_dense(float *to, const float *from, int64_t panels, int64_t k_stride, int64_t k)
{
    for (int64_t i = 0; i < k; i++, to += PANEL, from += k_stride)
        for (int64_t q = 0; q < panels; q++)
            UNROLL for (int v = 0; v < GEMM_VECTORS; v++)
                vstore(to + q * PANEL_STEP + v * LANES, vload(from + q * PANEL + v * LANES));
}

/* `rows` rows of `vectors` vectors of one panel: c = add + a * b, for packed b (k x PANEL) and a with any strides. */
INLINE void multiply_panel(float *c, int64_t c_row, const float *add, int64_t add_row, const float *a, int64_t a_row,
                           int64_t a_step, const float *b, int64_t k, const int rows, const int vectors)
{
    vfloat sum[GEMM_ROWS][GEMM_VECTORS] = {0};
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
        __builtin_prefetch(add + r * add_row + v * LANES);
    for (int64_t i = 0; i < k; i++, a += a_step, b += PANEL) {
        vfloat right[GEMM_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) right[v] = vload(b + v * LANES);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const vfloat left = vsplat(a[r * a_row]);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = vfma(left, right[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
        vstore(c + r * c_row + v * LANES, vload(add + r * add_row + v * LANES) + sum[r][v]);
}

/* Kept out of line: inlined beside other code, the sums would not stay in registers. `panels` of b, one beside the
 * other. */
static __attribute__((noinline)) void multiply_whole(float *c, int64_t c_row, const float *add, int64_t add_row,
                                                     int64_t add_step, const float *a, const float *b, int64_t k,
                                                     int64_t panels)
{
    for (; panels > 0; panels--, c += PANEL, add += add_step, b += PANEL_STEP)
        multiply_panel(c, c_row, add, add_row, a, 1, GEMM_ROWS, b, k, GEMM_ROWS, GEMM_VECTORS);
}
static __attribute__((noinline)) void multiply_direct(float *c, int64_t c_row, const float *add, int64_t add_row,
                                                      const float *a, int64_t a_row, const float *b, int64_t k)
{
    multiply_panel(c, c_row, add, add_row, a, a_row, 1, b, k, GEMM_ROWS, GEMM_VECTORS);
}
/* The first vector of each row. */
static __attribute__((noinline)) void multiply_narrow(float *c, int64_t c_row, const float *add, int64_t add_row,
                                                      const float *a, int64_t a_row, const float *b, int64_t k)
{
    multiply_panel(c, c_row, add, add_row, a, a_row, 1, b, k, GEMM_ROWS, 1);
}
static __attribute__((noinline)) void multiply_few(float *c, int64_t c_row, const float *add, int64_t add_row,
                                                   const float *a, int64_t a_row, int64_t a_step, const float *b,
                                                   int64_t k)
{
    multiply_panel(c, c_row, add, add_row, a, a_row, a_step, b, k, GEMM_FEW, GEMM_VECTORS);
}

/* A left operand, in place or packed: then row is 1 and step GEMM_ROWS. */
typedef struct left_rows {
    const float *first;
    int64_t row, step;
} left_rows;

/* What is added to c; `step` to its right for the next panel. */
typedef struct addend {
    const float *first;
    int64_t row, step;
} addend;

/* rows x columns of c, at most GEMM_ROWS x PANEL, that are not a whole tile of packed rows. */
INLINE void multiply_block(float *c, int64_t c_row, addend add, left_rows a, const float *b, int64_t k, int64_t rows,
                           int64_t columns)
{
    static const float zeros[PANEL];
    const float *plus = add.first;
    const int64_t plus_row = add.row;
    if (rows == GEMM_ROWS && columns >= PANEL && a.step == 1) {
        multiply_direct(c, c_row, plus, plus_row, a.first, a.row, b, k);
        return;
    }
    for (int64_t r = 0, tall; r < rows; r += tall) {
        float sum[GEMM_ROWS][PANEL];
        const float *first = a.first + r * a.row;
        tall = GEMM_FEW;
        if (GEMM_DIRECT && rows == GEMM_ROWS && a.step == 1) {
            tall = GEMM_ROWS;
            if (columns <= LANES)
                multiply_narrow(sum[0], PANEL, zeros, 0, first, a.row, b, k);
            else
                multiply_direct(sum[0], PANEL, zeros, 0, first, a.row, b, k);
        } else if (r + GEMM_FEW <= rows && columns >= PANEL && (a.step == 1 || rows <= GEMM_ROWS - GEMM_FEW)) {
            multiply_few(c + r * c_row, c_row, plus + r * plus_row, plus_row, first, a.row, a.step, b, k);
            continue;
        } else if (a.step != 1 &&
                   rows > GEMM_ROWS - GEMM_FEW) { /* packed, with zeros where rows are missing: once over all of them */
            tall = GEMM_ROWS;
            multiply_whole(sum[0], PANEL, zeros, 0, 0, first, b, k, 1);
        } else
            multiply_few(sum[0], PANEL, zeros, 0, first, a.row, a.step, b, k);
        for (int64_t i = 0; i < tall && r + i < rows; i++)
            for (int64_t j = 0; j < PANEL && j < columns; j++)
                c[(r + i) * c_row + j] = plus[(r + i) * plus_row + j] + sum[i][j];
    }
}

/* Prefetches a part of the next rows of a during the product: hardware does not, as they are far apart. */
INLINE void fetch_ahead(const float *a, int64_t a_row, int64_t rows, int64_t depth, int64_t share, int64_t shares)
{
    for (int64_t i = depth * share / shares / 16 * 16; i < depth * (share + 1) / shares; i += 16)
        for (int64_t r = 0; r < rows; r++)
            __builtin_prefetch(a + r * a_row + i);
}

static __attribute__((noinline)) void widen(float *to, const uint16_t *from, int64_t count, int kind)
{
    if (kind == KIND_F16)
        widen_row(to, from, count, KIND_F16);
    else
        widen_row(to, from, count, KIND_BF16);
}

static __attribute__((noinline)) void narrow(uint16_t *to, const float *from, const uint16_t *add, int64_t count,
                                             int kind)
{
    if (kind == KIND_F16)
        narrow_row(to, from, add, count, KIND_F16);
    else
        narrow_row(to, from, add, count, KIND_BF16);
}

/* How many tiles of rows that lie side by side are packed together: each line of their memory is read once then. */
enum { TOGETHER = 4 };

/* `tiles` tiles of a left operand whose rows lie side by side, a whole vector at a time: what is too much is overwritten
 * by the next column of the tile. */
static __attribute__((noinline)) void pack_tiles(float *to, const float *from, int64_t k_stride, int64_t k,
                                                 int64_t tiles)
{
    for (int64_t i = 0; i < k; i++, to += GEMM_ROWS, from += k_stride)
        for (int64_t t = 0; t < tiles; t++)
            UNROLL for (int q = 0; q < GEMM_ROWS; q += LANES)
                vstore(to + t * GEMM_ROWS * APART + q, vload(from + t * GEMM_ROWS + q));
}

/* Rows of c with the columns n .. end - 1, whose right operand is packed, for rows k .. k + depth - 1 of it. */
void multiply_packed(const product *p, range rows, int64_t n, int64_t end, int64_t k, int64_t depth, const float *right)
{
    static const float zeros[PANEL];
    float packed[TOGETHER * GEMM_ROWS * APART], row_add[GEMM_ROWS][PANEL];
    const float *first = packed;
    int64_t ready = 0; /* tiles that are packed and not used */
    const float *add = k ? p->c : p->add;
    const int64_t add_row = k ? p->c_row : p->add_row, panels = (end - n + PANEL - 1) / PANEL;
    for (int64_t i = rows.first; i < rows.last; i += GEMM_ROWS) {
        const int64_t left = rows.last - i, tall = left < GEMM_ROWS ? left : GEMM_ROWS;
        const int64_t next = left - tall < GEMM_ROWS ? left - tall : GEMM_ROWS;
        const int64_t a_at = i * p->a_row + k * p->a_column;
        left_rows a = {p->a + a_at, p->a_row, 1};
        const uint16_t *halves = (const void *)p->a;
        if (GEMM_DIRECT && p->a_row == 1 && p->a_kind == KIND_F32 && (ready > 0 || left >= GEMM_ROWS + LANES)) {
            if (!ready) {
                ready = (left - LANES) / GEMM_ROWS < TOGETHER ? (left - LANES) / GEMM_ROWS : TOGETHER;
                pack_tiles(packed, a.first, p->a_column, depth, ready);
                first = packed;
            }
            a = (left_rows){first, 1, GEMM_ROWS};
            first += GEMM_ROWS * APART;
            ready--;
        } else if (!GEMM_DIRECT || tall % GEMM_FEW || p->a_column != 1 || !p->a_row) {
            pack_panel(packed, GEMM_ROWS, p->a_kind == KIND_F32 ? (const void *)a.first : halves + a_at, tall, p->a_row,
                       p->a_column, depth, p->a_kind);
            a = (left_rows){packed, 1, GEMM_ROWS};
        } else if (p->a_kind != KIND_F32) {
            for (int64_t r = 0; r < tall; r++)
                widen(packed + r * APART, halves + a_at + r * p->a_row, depth, p->a_kind);
            a = (left_rows){packed, APART, 1};
        } else if (p->a_row % CROWDED == 0) {
            for (int64_t r = 0; r < tall; r++)
                memcpy(packed + r * APART, a.first + r * a.row, (size_t)depth * sizeof *packed);
            a = (left_rows){packed, APART, 1};
        }
        addend plus = {zeros, 0, 0};
        if (k == 0 && p->row_add) {
            for (int64_t r = 0; r < tall; r++)
                UNROLL for (int v = 0; v < GEMM_VECTORS; v++) vstore(row_add[r] + v * LANES, vsplat(p->row_add[i + r]));
            plus = (addend){row_add[0], PANEL, 0};
        } else if (add)
            plus = (addend){add + i * add_row + n, add_row, PANEL};
        int64_t j = n;
        if (a.step != 1 && tall == GEMM_ROWS) {
            const int64_t whole = (end - n) / PANEL;
            multiply_whole(p->c + i * p->c_row + n, p->c_row, plus.first, plus.row, plus.step, a.first, right, depth,
                           whole);
            j += whole * PANEL;
            plus.first += whole * plus.step;
        }
        for (; j < end; j += PANEL, plus.first += plus.step) {
            if (a.step == 1 && p->a_kind == KIND_F32)
                fetch_ahead(p->a + (i + GEMM_ROWS) * p->a_row + k, p->a_row, next, depth, (j - n) / PANEL, panels);
            multiply_block(p->c + i * p->c_row + j, p->c_row, plus, a, right + (j - n) / PANEL * PANEL_STEP, depth,
                           tall, end - j);
        }
    }
}

/* Each number of rows and each kind is a function of its own, because browsers compile whole functions well, once these
 * have run for a while: the products of one token do not wait for code that only prompts or other kinds need. */
typedef void dot_function(const product *p, int64_t i, range columns);
#define DOTS(name, rows, kind)                                                                                         \
    static __attribute__((noinline)) void name(const product *p, int64_t i, range columns)                             \
    {                                                                                                                  \
        dot_rows(p, i, columns, rows, kind);                                                                           \
    }
#define DOTS_OF_KIND(name, kind)                                                                                       \
    DOTS(name##_1, 1, kind) DOTS(name##_2, 2, kind) DOTS(name##_3, 3, kind) DOTS(name##_4, 4, kind)
_Static_assert(DOT_ROWS == 4, "there is a function for each number of rows");
DOTS_OF_KIND(dots_f32, KIND_F32)
DOTS_OF_KIND(dots_f16, KIND_F16)
DOTS_OF_KIND(dots_bf16, KIND_BF16)

/* The block of c at rows x columns; a_column and b_row are 1. */
void dots_of(const product *p, range rows, range columns, int kind)
{
    static dot_function *const functions[][DOT_ROWS] = {
        [KIND_F32] = {dots_f32_1, dots_f32_2, dots_f32_3, dots_f32_4},
        [KIND_F16] = {dots_f16_1, dots_f16_2, dots_f16_3, dots_f16_4},
        [KIND_BF16] = {dots_bf16_1, dots_bf16_2, dots_bf16_3, dots_bf16_4},
    };
    const int64_t row_bytes = p->k * (kind == KIND_F32 ? 4 : 2) + 1;
    int64_t group = DOT_GROUP_BYTES / row_bytes / DOT_COLUMNS * DOT_COLUMNS;
    if (rows.last - rows.first <= DOT_ROWS)
        group = columns.last - columns.first;
    if (group < DOT_COLUMNS)
        group = DOT_COLUMNS;
    for (int64_t j = columns.first; j < columns.last; j += group) {
        const range some = {j, j + group < columns.last ? j + group : columns.last};
        for (int64_t i = rows.first; i < rows.last; i += DOT_ROWS) {
            const int64_t left = rows.last - i;
            functions[kind][left < DOT_ROWS ? left - 1 : DOT_ROWS - 1](p, i, some);
        }
    }
}

void gemm_of(const product *p, range rows, range columns, int kind) { gemm(p, rows, columns, pack_matrix, NULL, kind); }

/* Rows and columns of c whose sums are kept in f32 before they are rounded; WIDE_K elements of a row of a are widened
 * at once for dots. */
enum { STAGE_ROWS = 192, STAGE_COLUMNS = 128 / PANEL * PANEL, WIDE_K = 4096 };

/* Up to DOT_ROWS rows, `columns` columns: stage = a * b. */
static void dot_halves(float *stage, const product *p, int64_t rows, int64_t columns, int kind)
{
    float wide[DOT_ROWS * WIDE_K];
    product part = {.c = stage, .a = wide, .b_row = 1, .b_column = p->b_column, .c_row = columns, .a_row = WIDE_K};
    part.a_column = 1, part.add_row = columns;
    if (kind == KIND_BF16 && dots_bf16(stage, p, rows, columns))
        return;
    for (int64_t k = 0; k < p->k || k == 0; k += WIDE_K) {
        part.k = p->k - k < WIDE_K ? p->k - k : WIDE_K;
        part.b = (const uint16_t *)p->b + k;
        part.add = k ? stage : NULL;
        for (int64_t r = 0; r < rows; r++)
            widen(wide + r * WIDE_K, (const uint16_t *)(const void *)p->a + r * p->a_row + k, part.k, kind);
        dots_of(&part, (range){0, rows}, (range){0, columns}, kind);
    }
}

void multiply_halves(const product *p, range rows, range columns, int kind, int few)
{
    float stage[STAGE_ROWS * STAGE_COLUMNS];
    const uint16_t *a = (const void *)p->a, *b = p->b, *add = (const void *)p->add;
    uint16_t *c = (void *)p->c;
    if (kind == KIND_BF16 && !few && multiply_bf16(p, rows, columns))
        return;
    /* dots: a group of columns stays in the second cache for all rows; few rows see all columns once */
    int64_t wide = few ? DOT_GROUP_BYTES / (2 * p->k + 1) / DOT_COLUMNS * DOT_COLUMNS : STAGE_COLUMNS;
    if (few && (rows.last - rows.first <= DOT_ROWS || wide > STAGE_ROWS * STAGE_COLUMNS / DOT_ROWS))
        wide = STAGE_ROWS * STAGE_COLUMNS / DOT_ROWS;
    if (wide < DOT_COLUMNS)
        wide = DOT_COLUMNS;
    const int64_t tall = few ? DOT_ROWS : STAGE_ROWS;
    for (int64_t j = columns.first; j < columns.last; j += wide)
        for (int64_t i = rows.first; i < rows.last; i += tall) {
            const int64_t width = columns.last - j < wide ? columns.last - j : wide;
            const int64_t height = rows.last - i < tall ? rows.last - i : tall;
            product part = *p;
            part.a = (const void *)(a + i * p->a_row);
            part.b = b + j * p->b_column;
            part.c = stage, part.c_row = width, part.add = NULL, part.a_kind = kind;
            if (few)
                dot_halves(stage, &part, height, width, kind);
            else
                gemm_of(&part, (range){0, height}, (range){0, width}, kind);
            for (int64_t r = 0; r < height; r++)
                narrow(c + (i + r) * p->c_row + j, stage + r * width, add ? add + (i + r) * p->add_row + j : NULL,
                       width, kind);
        }
}
