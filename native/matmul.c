/* Batched matrix products of f32, f16 and bf16 with any strides (other types: matmul_exact.c). */
#include "gemm.h"

enum { FEW_ROWS = 4 };

INLINE int few_rows(const product *p, int64_t m) { return p->a_column == 1 && p->b_row == 1 && m < FEW_ROWS; }

#if !defined(__wasm__) /* whose libraries are downloaded: they multiply these as any others */
enum { WIDTH = 4096, TOGETHER = 4 /* numbers of c that the first cache keeps, rows of b that are read side by side */ };

/* Up to FEW_ROWS rows of c from a b whose rows are dense: rows of b are read once, as they lie, and added to c. */
INLINE void add_rows(const product *p, int64_t first, int64_t width, int64_t k, const int rows, const int together)
{
    const float *b = (const float *)p->b + k * p->b_row + first;
    vfloat factors[FEW_ROWS][TOGETHER];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int t = 0; t < together; t++) factors[r][t] =
        vsplat(p->a[r * p->a_row + (k + t) * p->a_column]);
    for (int64_t j = 0; j < width; j += LANES) {
        const int64_t count = width - j < LANES ? width - j : LANES;
        vfloat right[TOGETHER];
        UNROLL for (int t = 0; t < together; t++) right[t] =
            count == LANES ? vload(b + t * p->b_row + j) : vload_part(b + t * p->b_row + j, count);
        UNROLL for (int r = 0; r < rows; r++)
        {
            float *c = p->c + r * p->c_row + first + j;
            vfloat sum = k == 0 ? vzero() : count == LANES ? vload(c) : vload_part(c, count);
            UNROLL for (int t = 0; t < together; t++) sum = vfma(factors[r][t], right[t], sum);
            if (count == LANES)
                vstore(c, sum);
            else
                vstore_part(c, sum, count);
        }
    }
}

INLINE void weighted_rows(const product *p, range columns, const int rows)
{
    const int64_t most = rows > 2 ? WIDTH / 4 : WIDTH / rows;
    for (int64_t first = columns.first; first < columns.last; first += most) {
        const int64_t width = columns.last - first < most ? columns.last - first : most;
        int64_t k = 0;
        for (; k + TOGETHER <= p->k; k += TOGETHER)
            add_rows(p, first, width, k, rows, TOGETHER);
        for (; k < p->k; k++)
            add_rows(p, first, width, k, rows, 1);
    }
}

static void weighted_rows_1(const product *p, range columns) { weighted_rows(p, columns, 1); }
static void weighted_rows_2(const product *p, range columns) { weighted_rows(p, columns, 2); }
static void weighted_rows_3(const product *p, range columns) { weighted_rows(p, columns, 3); }
static void weighted_rows_4(const product *p, range columns) { weighted_rows(p, columns, 4); }

/* Whether that was done: only where rows of b are dense, and there is something to sum. */
static int sum_weighted_rows(const product *p, int64_t m, range columns, int kind)
{
    if (kind != KIND_F32 || m > FEW_ROWS || p->b_column != 1 || p->b_row == 1 || p->k < 1)
        return 0;
    (m == 1 ? weighted_rows_1 : m == 2 ? weighted_rows_2 : m == 3 ? weighted_rows_3 : weighted_rows_4)(p, columns);
    return 1;
}
#else
static int sum_weighted_rows(const product *p, int64_t m, range columns, int kind) { return 0; }
#endif

/* Rows and columns of each batch item in range of `units` of one of the two, numbered through all items. */
static void multiply_items(const launch *record, const product *first, int64_t m, range units, int by_columns, int kind)
{
    const int64_t *d = record->dims, n = d[matmul_f32_n];
    const int64_t unit = by_columns ? PANEL : GEMM_ROWS, length = by_columns ? n : m, each = (length + unit - 1) / unit;
    for (int64_t u = units.first; u < units.last;) {
        const int64_t item = u / each, begin = u % each, left = units.last - u;
        const int64_t end = begin + left < each ? begin + left : each;
        const range cut = {begin * unit, end * unit < length ? end * unit : length}, rows = {0, m}, columns = {0, n};
        const int64_t element = kind == KIND_F32 ? 4 : 2;
        product p = *first;
        p.a = (const void *)((const char *)p.a + item * d[matmul_f32_a_batch] * element);
        p.b = (const char *)p.b + item * d[matmul_f32_b_batch] * element;
        p.c = (void *)((char *)p.c + item * d[matmul_f32_c_batch] * element);
        const int few = few_rows(&p, m);
        const range some_rows = by_columns ? rows : cut, some_columns = by_columns ? cut : columns;
        if (by_columns && sum_weighted_rows(&p, m, some_columns, kind)) {
            u += end - begin;
            continue;
        }
        if (kind != KIND_F32)
            multiply_halves(&p, some_rows, some_columns, kind, few);
        else
            (few ? dots_of : gemm_of)(&p, some_rows, some_columns, KIND_F32);
        u += end - begin;
    }
}

#if !defined(__wasm__)
enum { TINY = 64 }; /* multiply-adds of an item that take less time than the preparation of a large product */

/* Batches of tiny products: rotations of points and their like. Items of one size are loops that the compiler unrolls. */
INLINE void tiny_items(const launch *record, range items, int64_t m, int64_t n, int64_t k)
{
    const int64_t *d = record->dims;
    const int64_t a_row = d[matmul_f32_a_row], a_column = d[matmul_f32_a_column];
    const int64_t b_row = d[matmul_f32_b_row], b_column = d[matmul_f32_b_column], c_row = d[matmul_f32_c_row];
    for (int64_t item = items.first; item < items.last; item++) {
        const float *a = (const float *)record->pointers[matmul_f32_a] + item * d[matmul_f32_a_batch];
        const float *b = (const float *)record->pointers[matmul_f32_b] + item * d[matmul_f32_b_batch];
        float *c = (float *)record->pointers[matmul_f32_c] + item * d[matmul_f32_c_batch];
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                float sum = 0;
                for (int64_t step = 0; step < k; step++)
                    sum += a[i * a_row + step * a_column] * b[step * b_row + j * b_column];
                c[i * c_row + j] = sum;
            }
    }
}

static void tiny_products(const launch *record, range items)
{
    const int64_t *d = record->dims, m = d[matmul_f32_m], n = d[matmul_f32_n], k = d[matmul_f32_k];
    if (k == 3 && m == 3 && n == 3)
        tiny_items(record, items, 3, 3, 3);
    else if (k == 4 && m == 4 && n == 4)
        tiny_items(record, items, 4, 4, 4);
    else if (k == 2 && m == 2 && n == 2)
        tiny_items(record, items, 2, 2, 2);
    else if (k == 3 && m == 1)
        tiny_items(record, items, 1, n, 3);
    else
        tiny_items(record, items, m, n, k);
}
#endif

static int matmul(const launch *record, int worker, int workers, int kind)
{
    const int64_t *d = record->dims, n = d[matmul_f32_n], k = d[matmul_f32_k];
    int64_t batch = d[matmul_f32_batch], m = d[matmul_f32_m];
    const product p = {.c = record->pointers[matmul_f32_c],
                       .a = record->pointers[matmul_f32_a],
                       .b = record->pointers[matmul_f32_b],
                       .k = k,
                       .a_row = d[matmul_f32_a_row],
                       .a_column = d[matmul_f32_a_column],
                       .b_row = d[matmul_f32_b_row],
                       .b_column = d[matmul_f32_b_column],
                       .c_row = d[matmul_f32_c_row]};
    if (batch == 0 || m == 0 || n == 0)
        return KERNEL_OK;
#if !defined(__wasm__)
    if (kind == KIND_F32 && batch > 1 && m <= TINY && n <= TINY && k <= TINY && m * n * k <= TINY) {
        range items;
        worker_share(batch, 1, worker, workers, &items.first, &items.last);
        tiny_products(record, items);
        return KERNEL_OK;
    }
#endif
    /* Items that lie one after the other and share their right operand are one matrix: it is packed once. */
    if (d[matmul_f32_b_batch] == 0 && d[matmul_f32_a_batch] == m * p.a_row && d[matmul_f32_c_batch] == m * p.c_row &&
        !few_rows(&p, m)) {
        m *= batch;
        batch = 1;
    }
    const int by_columns = n >= m;
    const int64_t unit = by_columns ? PANEL : GEMM_ROWS, length = by_columns ? n : m;
    range units;
    worker_share(batch * ((length + unit - 1) / unit), 1, worker, workers, &units.first, &units.last);
    multiply_items(record, &p, m, units, by_columns, kind);
    return KERNEL_OK;
}

KERNEL(matmul_f32) { return matmul(record, worker, workers, KIND_F32); }
KERNEL(matmul_f16) { return matmul(record, worker, workers, KIND_F16); }
KERNEL(matmul_bf16) { return matmul(record, worker, workers, KIND_BF16); }
