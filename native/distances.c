/* Distances of all pairs of rows, and their gradient. */
#if !defined(__wasm__) /* there the definition computes them: code is downloaded */
#include "vmath.h"

enum { EUCLIDEAN, TAXICAB, CHEBYSHEV };

/* What a difference adds to a distance: its square or its size, of which the sum or the largest counts. */
INLINE vfloat joined(vfloat sum, vfloat difference, const int norm)
{
    if (norm == EUCLIDEAN)
        return vfma(difference, difference, sum);
    return norm == TAXICAB ? sum + vabs(difference) : vmaximum(sum, vabs(difference));
}

INLINE float distance(const float *a, const float *b, int64_t columns, const int norm)
{
    vfloat sums[2] = {vzero(), vzero()};
    int64_t i = 0;
    for (; i + 2 * LANES <= columns; i += 2 * LANES)
        for (int j = 0; j < 2; j++)
            sums[j] = joined(sums[j], vload(a + i + j * LANES) - vload(b + i + j * LANES), norm);
    for (; i < columns; i += LANES)
        sums[0] = joined(sums[0], vload_up_to(a + i, columns - i) - vload_up_to(b + i, columns - i), norm);
    if (norm == CHEBYSHEV) {
        const vfloat most = vmaximum(sums[0], sums[1]);
        float found = most[0];
        for (int lane = 1; lane < LANES; lane++)
            found = most[lane] > found || most[lane] != most[lane] ? most[lane] : found;
        return found;
    }
    const float sum = vsum(sums[0] + sums[1]);
    return norm == EUCLIDEAN ? sqrt_scalar(sum) : sum;
}

static int bad_record(const int64_t *d)
{
    return d[distances_f32_batch] < 0 || d[distances_f32_rows] < 0 || d[distances_f32_others] < 0 ||
           d[distances_f32_columns] < 0 || d[distances_f32_norm] < EUCLIDEAN || d[distances_f32_norm] > CHEBYSHEV;
}

KERNEL(distances_f32)
{
    const int64_t *d = record->dims, rows = d[distances_f32_rows], others = d[distances_f32_others];
    const int64_t columns = d[distances_f32_columns], norm = d[distances_f32_norm];
    int64_t first, last;
    if (bad_record(d))
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[distances_f32_batch] * rows, 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const float *a = (const float *)record->pointers[distances_f32_a] + row * columns;
        const float *b = (const float *)record->pointers[distances_f32_b] + row / rows * others * columns;
        float *y = (float *)record->pointers[distances_f32_y] + row * others;
        for (int64_t i = 0; i < others; i++, b += columns)
            y[i] = norm == EUCLIDEAN ? distance(a, b, columns, EUCLIDEAN)
                   : norm == TAXICAB ? distance(a, b, columns, TAXICAB)
                                     : distance(a, b, columns, CHEBYSHEV);
    }
    return KERNEL_OK;
}

/* grad_a += factor (a - b), or the sign of that */
INLINE void add_slopes(float *grad, const float *a, const float *b, int64_t columns, float factor, const int norm)
{
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t n = columns - i;
        const vfloat apart = vload_up_to(a + i, n) - vload_up_to(b + i, n), sum = vload_up_to(grad + i, n);
        const vfloat one = (vfloat)(((vint)apart & vsplat_int(INT32_MIN)) | (vint)vsplat(1.0f));
        const vfloat slope = norm == EUCLIDEAN ? apart : vselect(apart == 0.0f, vzero(), one);
        vstore_up_to(grad + i, vfma(slope, vsplat(factor), sum), n);
    }
}

KERNEL(distances_backward_f32)
{
    const int64_t *d = record->dims, rows = d[distances_f32_rows], others = d[distances_f32_others];
    const int64_t columns = d[distances_f32_columns], norm = d[distances_f32_norm];
    int64_t first, last;
    if (bad_record(d) || norm == CHEBYSHEV)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[distances_f32_batch] * rows, 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const float *a = (const float *)record->pointers[distances_backward_f32_a] + row * columns;
        const float *b = (const float *)record->pointers[distances_backward_f32_b] + row / rows * others * columns;
        const float *y = (const float *)record->pointers[distances_backward_f32_y] + row * others;
        const float *g = (const float *)record->pointers[distances_backward_f32_grad_y] + row * others;
        float *grad = (float *)record->pointers[distances_backward_f32_grad_a] + row * columns;
        memset(grad, 0, (size_t)columns * sizeof *grad);
        for (int64_t i = 0; i < others; i++, b += columns)
            if (norm == TAXICAB)
                add_slopes(grad, a, b, columns, g[i], TAXICAB);
            else if (y[i] != 0)
                add_slopes(grad, a, b, columns, g[i] / y[i], EUCLIDEAN);
    }
    return KERNEL_OK;
}
#endif
