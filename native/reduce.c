/* Sums and largest elements of rows. */
#include "vmath.h"

enum {
    BLOCK = 4096,
    ROWS_AT_ONCE = 128,
    STRIP = 4
}; /* BLOCK: elements summed in f32 before the sum goes on in double */

static float sum_row(const float *x, int64_t columns)
{
    double total = 0;
    for (int64_t start = 0; start < columns; start += BLOCK) {
        const int64_t end = columns - start < BLOCK ? columns : start + BLOCK;
        vfloat sums[4] = {vzero(), vzero(), vzero(), vzero()};
        int64_t i = start;
        for (; i + 4 * LANES <= end; i += 4 * LANES)
            for (int j = 0; j < 4; j++)
                sums[j] += vload(x + i + j * LANES);
        for (; i < end; i += LANES)
            sums[0] += vload_up_to(x + i, end - i);
        total += vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    return (float)total;
}

KERNEL(sum_rows_f32)
{
    float *y = record->pointers[0];
    const float *x = record->pointers[1];
    int64_t first, last;
    worker_share(record->dims[0], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++)
        y[row] = sum_row(x + row * record->dims[2], record->dims[1]);
    return KERNEL_OK;
}

/* Sums of columns first .. first + n - 1, in a group of vectors; rows are added up in parts, and the parts in turn. */
INLINE void sum_strip(float *y, const float *x, int64_t rows, int64_t stride, int64_t n, const int vectors)
{
    vfloat totals[STRIP];
    for (int j = 0; j < vectors; j++)
        totals[j] = vzero();
    for (int64_t start = 0; start < rows; start += ROWS_AT_ONCE) {
        const int64_t end = rows - start < ROWS_AT_ONCE ? rows : start + ROWS_AT_ONCE;
        vfloat sums[STRIP];
        for (int j = 0; j < vectors; j++)
            sums[j] = vzero();
        for (int64_t row = start; row < end; row++)
            for (int j = 0; j < vectors; j++)
                sums[j] += vectors == 1 ? vload_up_to(x + row * stride, n) : vload(x + row * stride + j * LANES);
        for (int j = 0; j < vectors; j++)
            totals[j] += sums[j];
    }
    for (int j = 0; j < vectors; j++)
        vstore_up_to(y + j * LANES, totals[j], vectors == 1 ? n : LANES);
}

KERNEL(sum_columns_f32)
{
    float *y = record->pointers[0];
    const float *x = record->pointers[1];
    const int64_t rows = record->dims[0], stride = record->dims[2];
    int64_t first, last;
    worker_share(record->dims[1], 16, worker, workers, &first, &last);
    for (; first + STRIP * LANES <= last; first += STRIP * LANES)
        sum_strip(y + first, x + first, rows, stride, STRIP * LANES, STRIP);
    for (; first < last; first += LANES)
        sum_strip(y + first, x + first, rows, stride, last - first, 1);
    return KERNEL_OK;
}

/* The first of the largest elements; as in NumPy and torch, NaN counts as larger than everything. */
static int64_t largest_at(const float *x, int64_t columns)
{
    vint unordered = vsplat_int(0);
    int64_t i = 0;
    for (; i < columns; i += LANES) {
        const vfloat v = vload_up_to(x + i, columns - i);
        unordered |= v != v;
    }
    int32_t some = 0;
    for (int j = 0; j < LANES; j++)
        some |= unordered[j];
    const float largest = row_largest(x, columns);
    for (i = 0; i < columns; i++)
        if (some ? x[i] != x[i] : x[i] == largest)
            break;
    return i;
}

KERNEL(argmax_f32)
{
    int32_t *index = record->pointers[0];
    const float *x = record->pointers[1];
    const int64_t columns = record->dims[1];
    int64_t first, last;
    worker_share(record->dims[0], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last && columns > 0; row++)
        index[row] = (int32_t)largest_at(x + row * record->dims[2], columns);
    return KERNEL_OK;
}
