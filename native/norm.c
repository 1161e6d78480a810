/* Root-mean-square normalisation (Zhang and Sennrich, 2019), softmax and log_softmax, over the rows of a matrix. */
#include "vmath.h"

/* sum_i a[i] * b[i] */
INLINE float dot(const float *a, const float *b, int64_t n)
{
    vfloat sums[4] = {vzero(), vzero(), vzero(), vzero()};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++)
            sums[j] = vfma(vload(a + i + j * LANES), vload(b + i + j * LANES), sums[j]);
    for (; i + LANES <= n; i += LANES)
        sums[0] = vfma(vload(a + i), vload(b + i), sums[0]);
    if (i < n)
        sums[1] = vfma(vload_part(a + i, n - i), vload_part(b + i, n - i), sums[1]);
    return vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* 1 / root mean square */
INLINE float inverse_rms(const float *x, int64_t n, float epsilon)
{
    return 1.0f / sqrt_scalar(dot(x, x, n) / (float)n + epsilon);
}

KERNEL(rms_norm_f32)
{
    float *y = record->pointers[rms_norm_f32_y];
    const float *x = record->pointers[rms_norm_f32_x], *weight = record->pointers[rms_norm_f32_weight];
    const int64_t columns = record->dims[rms_norm_f32_columns], y_stride = record->dims[rms_norm_f32_y_stride],
                  x_stride = record->dims[rms_norm_f32_x_stride];
    int64_t first, last;
    worker_share(record->dims[rms_norm_f32_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last && columns > 0; row++) {
        const float *in = x + row * x_stride;
        float *out = y + row * y_stride;
        const vfloat inverse = vsplat(inverse_rms(in, columns, record->floats[rms_norm_f32_epsilon]));
        for (int64_t i = 0; i < columns; i += LANES) {
            const int64_t n = columns - i;
            vstore_up_to(out + i, vload_up_to(in + i, n) * inverse * vload_up_to(weight + i, n), n);
        }
    }
    return KERNEL_OK;
}

/* grad_x of one row: inverse * (w g - x inverse^2 mean(w g x)) */
INLINE void rms_norm_row_backward(float *grad_x, const float *x, const float *weight, const float *grad_y,
                                  int64_t columns, float inverse)
{
    vfloat sum = vzero();
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t n = columns - i;
        sum = vfma(vload_up_to(x + i, n), vload_up_to(weight + i, n) * vload_up_to(grad_y + i, n), sum);
    }
    const vfloat mean = vsplat(vsum(sum) / (float)columns * inverse * inverse), scale = vsplat(inverse);
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t n = columns - i;
        const vfloat direct = vload_up_to(weight + i, n) * vload_up_to(grad_y + i, n);
        vstore_up_to(grad_x + i, (direct - vload_up_to(x + i, n) * mean) * scale, n);
    }
}

/* A worker takes a share of the rows of grad_x and a share of the columns of grad_weight, which sums over all rows. */
KERNEL(rms_norm_backward_f32)
{
    float *grad_x = record->pointers[rms_norm_backward_f32_grad_x],
          *grad_weight = record->pointers[rms_norm_backward_f32_grad_weight];
    const float *x = record->pointers[rms_norm_backward_f32_x],
                *weight = record->pointers[rms_norm_backward_f32_weight],
                *grad_y = record->pointers[rms_norm_backward_f32_grad_y];
    const int64_t rows = record->dims[rms_norm_backward_f32_rows],
                  columns = record->dims[rms_norm_backward_f32_columns];
    int64_t first_row, last_row, first, last;
    if (columns <= 0)
        return KERNEL_OK;
    if (grad_x == x || grad_x == grad_y) { /* in place: no other worker may still read */
        if (worker)
            return KERNEL_OK;
        workers = 1;
    }
    worker_share(rows, 1, worker, workers, &first_row, &last_row);
    worker_share(columns, 16, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++)
        grad_weight[i] = 0;
    for (int64_t row = 0; row < rows; row++) {
        const float *in = x + row * columns, *grad = grad_y + row * columns;
        const float inverse = inverse_rms(in, columns, record->floats[rms_norm_backward_f32_epsilon]);
        for (int64_t i = first; i < last; i += LANES) {
            const int64_t n = last - i;
            const vfloat share = vload_up_to(in + i, n) * inverse * vload_up_to(grad + i, n);
            vstore_up_to(grad_weight + i, vload_up_to(grad_weight + i, n) + share, n);
        }
        if (row >= first_row && row < last_row)
            rms_norm_row_backward(grad_x + row * columns, in, weight, grad, columns, inverse);
    }
    return KERNEL_OK;
}

KERNEL(softmax_f32)
{
    float *y = record->pointers[softmax_f32_y];
    const float *x = record->pointers[softmax_f32_x];
    const int64_t columns = record->dims[softmax_f32_columns], y_stride = record->dims[softmax_f32_y_stride],
                  x_stride = record->dims[softmax_f32_x_stride];
    int64_t first, last;
    worker_share(record->dims[softmax_f32_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last && columns > 0; row++) {
        const float *in = x + row * x_stride;
        float *out = y + row * y_stride;
        const vfloat inverse = vsplat(1.0f / exp_row(out, in, columns, row_largest(in, columns)));
        for (int64_t i = 0; i < columns; i += LANES)
            vstore_up_to(out + i, vload_up_to(out + i, columns - i) * inverse, columns - i);
    }
    return KERNEL_OK;
}

KERNEL(softmax_backward_f32)
{
    float *grad_x = record->pointers[softmax_backward_f32_grad_x];
    const float *y = record->pointers[softmax_backward_f32_y], *grad_y = record->pointers[softmax_backward_f32_grad_y];
    const int64_t columns = record->dims[softmax_backward_f32_columns];
    int64_t first, last;
    worker_share(record->dims[softmax_backward_f32_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last && columns > 0; row++) {
        const float *out = y + row * columns, *grad = grad_y + row * columns;
        const vfloat mean = vsplat(dot(out, grad, columns));
        for (int64_t i = 0; i < columns; i += LANES) {
            const int64_t n = columns - i;
            const vfloat share = vload_up_to(out + i, n) * (vload_up_to(grad + i, n) - mean);
            vstore_up_to(grad_x + row * columns + i, share, n);
        }
    }
    return KERNEL_OK;
}

KERNEL(log_softmax_f32)
{
    float *y = record->pointers[log_softmax_f32_y];
    const float *x = record->pointers[log_softmax_f32_x];
    const int64_t columns = record->dims[log_softmax_f32_columns], y_stride = record->dims[log_softmax_f32_y_stride],
                  x_stride = record->dims[log_softmax_f32_x_stride];
    int64_t first, last;
    worker_share(record->dims[log_softmax_f32_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last && columns > 0; row++) {
        const float *in = x + row * x_stride;
        const float largest = row_largest(in, columns), log_total = log_scalar(exp_row(NULL, in, columns, largest));
        for (int64_t i = 0; i < columns; i += LANES) {
            const vfloat shifted = vload_up_to(in + i, columns - i) - largest;
            vstore_up_to(y + row * y_stride + i, shifted - log_total, columns - i);
        }
    }
    return KERNEL_OK;
}
