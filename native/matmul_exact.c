/* Batched matrix products of f64 and integers, with any strides. Integers wrap as their type does: sums are made in 32
 * or 64 bits, whose low bits are those of any smaller type. */
#include "simd.h"

enum { EXACT_ROWS = 4, EXACT_VECTORS = 2, EXACT_K = 128, EXACT_PANELS = LANES == 16 ? 8 : 16 };

/* c = a * b, elements of `bytes` bytes; strides in elements; c runs along its columns. */
typedef struct exact_product {
    void *c;
    const void *a, *b;
    int64_t k, a_row, a_column, b_row, b_column, c_row, bytes;
} exact_product;

INLINE uint64_t integer_at(const void *p, int64_t index, int64_t bytes)
{
    switch (bytes) {
    case 1:
        return ((const uint8_t *)p)[index];
    case 2:
        return ((const uint16_t *)p)[index];
    case 4:
        return ((const uint32_t *)p)[index];
    default:
        return ((const uint64_t *)p)[index];
    }
}

INLINE void put_integer(void *p, int64_t index, int64_t bytes, uint64_t value)
{
    switch (bytes) {
    case 1:
        ((uint8_t *)p)[index] = (uint8_t)value;
        break;
    case 2:
        ((uint16_t *)p)[index] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)p)[index] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)p)[index] = value;
    }
}

#define ELEMENT double
#define NAME multiply_f64
#define LOAD(p, index, bytes) ((const double *)(p))[index]
#define STORE(p, index, bytes, value) ((double *)(p))[index] = (value)
#include "blocked_product.h"

#define ELEMENT uint32_t
#define NAME multiply_32
#define LOAD(p, index, bytes) (uint32_t)integer_at(p, index, bytes)
#define STORE(p, index, bytes, value) put_integer(p, index, bytes, value)
#include "blocked_product.h"

#define ELEMENT uint64_t
#define NAME multiply_64
#define LOAD(p, index, bytes) ((const uint64_t *)(p))[index]
#define STORE(p, index, bytes, value) ((uint64_t *)(p))[index] = (value)
#include "blocked_product.h"

typedef void multiply_function(const exact_product *p, int64_t first_row, int64_t last_row, int64_t first_column,
                               int64_t last_column);

/* The larger of m and n is shared out, numbered through all batch items. */
static void multiply_shares(const launch *record, int worker, int workers, multiply_function *multiply, int64_t bytes)
{
    const int64_t *d = record->dims, m = d[matmul_f64_m], n = d[matmul_f64_n];
    const int by_columns = n >= m;
    const int64_t length = by_columns ? n : m, unit = by_columns ? 16 : EXACT_ROWS, each = (length + unit - 1) / unit;
    int64_t first, last;
    if (m == 0 || n == 0)
        return;
    worker_share(d[matmul_f64_batch] * each, 1, worker, workers, &first, &last);
    while (first < last) {
        const int64_t item = first / each, begin = first % each * unit;
        const int64_t next = (item + 1) * each < last ? (item + 1) * each : last;
        const int64_t stop = (next - item * each) * unit, end = stop < length ? stop : length;
        const exact_product p = {.c = (char *)record->pointers[matmul_f64_c] + item * d[matmul_f64_c_batch] * bytes,
                                 .a = (char *)record->pointers[matmul_f64_a] + item * d[matmul_f64_a_batch] * bytes,
                                 .b = (char *)record->pointers[matmul_f64_b] + item * d[matmul_f64_b_batch] * bytes,
                                 .k = d[matmul_f64_k],
                                 .a_row = d[matmul_f64_a_row],
                                 .a_column = d[matmul_f64_a_column],
                                 .b_row = d[matmul_f64_b_row],
                                 .b_column = d[matmul_f64_b_column],
                                 .c_row = d[matmul_f64_c_row],
                                 .bytes = bytes};
        if (by_columns)
            multiply(&p, 0, m, begin, end);
        else
            multiply(&p, begin, end, 0, n);
        first = next;
    }
}

KERNEL(matmul_f64)
{
    multiply_shares(record, worker, workers, multiply_f64, 8);
    return KERNEL_OK;
}

KERNEL(matmul_integer)
{
    const int64_t bytes = record->dims[matmul_integer_element_bytes];
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return KERNEL_BAD_ARGUMENT;
    multiply_shares(record, worker, workers, bytes == 8 ? multiply_64 : multiply_32, bytes);
    return KERNEL_OK;
}
