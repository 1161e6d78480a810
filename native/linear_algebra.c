/* Factors of matrices, and triangular systems. A worker has whole matrices, or columns of right-hand sides.
 *
 * Golub and Van Loan 2013, "Matrix Computations", 4th edition: 3.1 (triangular systems), 3.4 (LU with exchanges of rows), 4.2
 * (Cholesky), 5.2 (QR by Householder's reflectors), 8.3 (symmetric matrices: tridiagonal, then QL), 8.6 (singular values
 * by Jacobi's rotations). */
#if !defined(__wasm__) /* there NumPy computes them: code is downloaded */
#include "simd.h"

enum { MOST_ROWS = 64 /* of eigh and svd, which work on the stack */, SIDES = 64 /* that are solved together */ };

typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef double doubles __attribute__((vector_size(4 * LANES), aligned(8), may_alias));

#define NUMBER float
#define REGISTER floats
#define WIDTH LANES
#define ROOT __builtin_sqrtf
#define EPSILON 5.9604645e-8
#include "matrices.h"

#define NUMBER double
#define REGISTER doubles
#define WIDTH (LANES / 2)
#define ROOT __builtin_sqrt
#define EPSILON 1.1102230246251565e-16
#include "matrices.h"

/* The type is the first slot of each. */
static int is_double(const launch *record) { return record->dims[cholesky_type] == TYPE_float64; }

static int bad_type(const launch *record)
{
    return record->dims[cholesky_type] != TYPE_float32 && record->dims[cholesky_type] != TYPE_float64;
}

KERNEL(cholesky)
{
    const int64_t *d = record->dims, n = d[cholesky_n];
    int64_t first, last;
    if (!d[cholesky_batch] || !n)
        return KERNEL_OK;
    if (bad_type(record) || n < 0)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[cholesky_batch], 1, worker, workers, &first, &last);
    for (int64_t i = first * n * n; i < last * n * n; i += n * n) {
        void *const y = record->pointers[cholesky_y], *const x = record->pointers[cholesky_x];
        const int code = is_double(record) ? cholesky_of_double((double *)y + i, (double *)x + i, n)
                                           : cholesky_of_float((float *)y + i, (float *)x + i, n);
        if (code)
            return code;
    }
    return KERNEL_OK;
}

KERNEL(lu_factor)
{
    const int64_t *d = record->dims, rows = d[lu_factor_rows], columns = d[lu_factor_columns];
    const int64_t begin = d[lu_factor_begin], end = d[lu_factor_end], each = rows < columns ? rows : columns;
    const int bytes = is_double(record) ? 8 : 4;
    int64_t first, last;
    if (!d[lu_factor_batch])
        return KERNEL_OK;
    if (bad_type(record) || rows < 0 || columns < 0 || begin < 0 || end < begin || end > columns)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[lu_factor_batch], 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++) {
        char *const y = (char *)record->pointers[lu_factor_y] + i * rows * columns * bytes;
        const char *const x = record->pointers[lu_factor_x];
        int32_t *exchanges = record->pointers[lu_factor_exchanges], *order = record->pointers[lu_factor_order];
        if (exchanges) {
            exchanges += i * each;
            order += i * rows;
            for (int64_t row = 0; row < rows && !begin; row++)
                order[row] = (int32_t)row;
        }
        if (x)
            memcpy(y, x + i * rows * columns * bytes, (size_t)(rows * columns * bytes));
        if (bytes == 8)
            lu_of_double((double *)y, exchanges, order, rows, columns, begin, end);
        else
            lu_of_float((float *)y, exchanges, order, rows, columns, begin, end);
    }
    return KERNEL_OK;
}

KERNEL(qr)
{
    const int64_t *d = record->dims, rows = d[qr_rows], columns = d[qr_columns];
    int64_t first, last;
    if (!d[qr_batch] || !columns)
        return KERNEL_OK;
    if (bad_type(record) || columns < 0 || rows < columns)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[qr_batch], 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const int64_t to = i * (rows + columns) * columns, from = i * rows * columns;
        if (is_double(record))
            qr_of_double((double *)record->pointers[qr_y] + to, (double *)record->pointers[qr_x] + from,
                         (double *)record->pointers[qr_taus] + i * columns, rows, columns);
        else
            qr_of_float((float *)record->pointers[qr_y] + to, (float *)record->pointers[qr_x] + from,
                        (float *)record->pointers[qr_taus] + i * columns, rows, columns);
    }
    return KERNEL_OK;
}

KERNEL(eigh)
{
    const int64_t *d = record->dims, n = d[eigh_n];
    int64_t first, last;
    if (!d[eigh_batch] || !n)
        return KERNEL_OK;
    if (bad_type(record) || n < 0 || n > MOST_ROWS)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[eigh_batch], 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const int64_t to = i * (n + 1) * n, from = i * n * n;
        if (is_double(record))
            eigh_of_double((double *)record->pointers[eigh_y] + to, (double *)record->pointers[eigh_x] + from,
                           (double *)record->pointers[eigh_vectors] + from, n);
        else
            eigh_of_float((float *)record->pointers[eigh_y] + to, (float *)record->pointers[eigh_x] + from,
                          (float *)record->pointers[eigh_vectors] + from, n);
    }
    return KERNEL_OK;
}

KERNEL(svd)
{
    const int64_t *d = record->dims, n = d[svd_n], with_vectors = d[svd_vectors];
    int64_t first, last;
    if (!d[svd_batch] || !n)
        return KERNEL_OK;
    if (bad_type(record) || n < 0 || n > MOST_ROWS)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[svd_batch], 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const int64_t to = i * (with_vectors ? (2 * n + 1) * n : n), from = i * n * n;
        if (is_double(record))
            svd_of_double((double *)record->pointers[svd_y] + to, (double *)record->pointers[svd_x] + from,
                          (double *)record->pointers[svd_rotated] + from, n, (int)with_vectors);
        else
            svd_of_float((float *)record->pointers[svd_y] + to, (float *)record->pointers[svd_x] + from,
                         (float *)record->pointers[svd_rotated] + from, n, (int)with_vectors);
    }
    return KERNEL_OK;
}

KERNEL(solve_triangular)
{
    const int64_t *d = record->dims, n = d[solve_triangular_n], columns = d[solve_triangular_columns];
    const int64_t begin = d[solve_triangular_begin], end = d[solve_triangular_end];
    const int64_t row = d[solve_triangular_a_row], column = d[solve_triangular_a_column];
    const int64_t pieces = (columns + SIDES - 1) / SIDES, bytes = is_double(record) ? 8 : 4;
    const int upper = d[solve_triangular_upper] != 0, unit = (int)d[solve_triangular_unit];
    const int32_t *const order = record->pointers[solve_triangular_order];
    const int64_t start = upper ? n - end : begin; /* 0 in the first launch, which moves b to y */
    int64_t first, last;
    if (!d[solve_triangular_batch] || !n || !columns)
        return KERNEL_OK;
    if (bad_type(record) || n < 0 || columns < 0 || begin < 0 || end > n || begin > end)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[solve_triangular_batch] * pieces, 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const int64_t matrix = i / pieces, at = i % pieces * SIDES;
        const int64_t wide = columns - at < SIDES ? columns - at : SIDES;
        char *const y = (char *)record->pointers[solve_triangular_y] + (matrix * n * columns + at) * bytes;
        const char *const b = (char *)record->pointers[solve_triangular_b] + (matrix * n * columns + at) * bytes;
        const char *const a =
            (char *)record->pointers[solve_triangular_a] + matrix * d[solve_triangular_a_batch] * bytes;
        for (int64_t r = 0; r < n && !start && y != b; r++) {
            const int64_t from = order ? order[matrix * n + r] : r;
            if (from < 0 || from >= n)
                return KERNEL_INDEX_RANGE;
            memcpy(y + r * columns * bytes, b + from * columns * bytes, (size_t)(wide * bytes));
        }
        const int code = bytes == 8 ? solve_of_double((double *)y, columns, (const double *)a, row, column, n, wide,
                                                      upper, unit, begin, end)
                                    : solve_of_float((float *)y, columns, (const float *)a, row, column, n, wide, upper,
                                                     unit, begin, end);
        if (code)
            return code;
    }
    return KERNEL_OK;
}
#endif
