/* c = a b for float64 and integers: a thread for each result. */
#include "gpu.h"

/* Whether there is a result i; its place in c, and the first elements of its row and column. */
struct places {
    int64_t c, a, b;
};

DEVICE places places_of(const int64_t *d, int64_t i)
{
    const int64_t columns = d[matmul_f64_n], rows = d[matmul_f64_m];
    const int64_t column = i % columns, row = i / columns % rows, batch = i / columns / rows;
    return places{batch * d[matmul_f64_c_batch] + row * d[matmul_f64_c_row] + column,
                  batch * d[matmul_f64_a_batch] + row * d[matmul_f64_a_row],
                  batch * d[matmul_f64_b_batch] + column * d[matmul_f64_b_column]};
}

KERNEL(matmul_f64, PARTS(batch *m *n, 128), 128, 0)
{
    const int64_t *d = record.dims;
    const double *a = (const double *)record.pointers[matmul_f64_a], *b = (const double *)record.pointers[matmul_f64_b];
    FOR_EACH(i, d[matmul_f64_batch] * d[matmul_f64_m] * d[matmul_f64_n])
    {
        const places at = places_of(d, i);
        double sum = 0;
        for (int64_t k = 0; k < d[matmul_f64_k]; k++)
            sum += a[at.a + k * d[matmul_f64_a_column]] * b[at.b + k * d[matmul_f64_b_row]];
        ((double *)record.pointers[matmul_f64_c])[at.c] = sum;
    }
}

KERNEL(matmul_integer, PARTS(batch *m *n, 128), 128, 0)
{
    const int64_t *d = record.dims, bytes = d[matmul_integer_element_bytes];
    const int type = bytes == 8 ? TYPE_uint64 : bytes == 4 ? TYPE_uint32 : bytes == 2 ? TYPE_uint16 : TYPE_uint8;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[matmul_integer_batch] * d[matmul_integer_m] * d[matmul_integer_n])
    {
        const places at = places_of(d, i);
        uint64_t sum = 0;
        for (int64_t k = 0; k < d[matmul_integer_k]; k++)
            sum +=
                (uint64_t)load_integer(record.pointers[matmul_integer_a], at.a + k * d[matmul_integer_a_column], type) *
                (uint64_t)load_integer(record.pointers[matmul_integer_b], at.b + k * d[matmul_integer_b_row], type);
        store_integer(record.pointers[matmul_integer_c], at.c, type, (int64_t)sum);
    }
}
