/* Batched matrix products of f32 with any strides. */
#include "gemm.h"

enum { FEW_ROWS = 4 };

/* Rows and columns of each batch item in range of `units` of one of the two, numbered through all items. */
INLINE void multiply_items(const launch *record, const product *first, range units, int by_columns)
{
    const int64_t *d = record->dims, m = d[1], n = d[2];
    const int64_t unit = by_columns ? PANEL : GEMM_ROWS, length = by_columns ? n : m, each = (length + unit - 1) / unit;
    for (int64_t u = units.first; u < units.last;) {
        const int64_t item = u / each, begin = u % each, left = units.last - u;
        const int64_t end = begin + left < each ? begin + left : each;
        const range cut = {begin * unit, end * unit < length ? end * unit : length}, rows = {0, m}, columns = {0, n};
        product p = *first;
        p.a += item * d[4];
        p.b = (const float *)p.b + item * d[7];
        p.c += item * d[10];
        if (p.a_column == 1 && p.b_row == 1 && m < FEW_ROWS)
            dots_f32(&p, by_columns ? rows : cut, by_columns ? cut : columns);
        else
            gemm_f32(&p, by_columns ? rows : cut, by_columns ? cut : columns);
        u += end - begin;
    }
}

KERNEL(matmul_f32)
{
    const int64_t *d = record->dims, batch = d[0], m = d[1], n = d[2], k = d[3];
    const product p = {
        record->pointers[0], record->pointers[1], record->pointers[2], NULL, k, d[5], d[6], d[8], d[9], d[11], 0, NULL};
    if (m == 0 || n == 0)
        return KERNEL_OK;
    const int by_columns = n >= m;
    const int64_t unit = by_columns ? PANEL : GEMM_ROWS, length = by_columns ? n : m;
    range units;
    worker_share(batch * ((length + unit - 1) / unit), 1, worker, workers, &units.first, &units.last);
    multiply_items(record, &p, units, by_columns);
    return KERNEL_OK;
}
