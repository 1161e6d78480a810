/* Layer normalisation (Ba, Kiros and Hinton, 2016) over the rows of a matrix, and its gradient. */
#include "vmath.h"

enum { CHAINS = 4, COLUMNS_AT_ONCE = 64 / LANES };

typedef struct statistics {
    float mean, inverse; /* of the standard deviation */
} statistics;

INLINE float row_mean(const float *x, int64_t n)
{
    vfloat sums[CHAINS] = {vzero(), vzero(), vzero(), vzero()};
    int64_t i = 0;
    for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
        for (int j = 0; j < CHAINS; j++)
            sums[j] += vload(x + i + j * LANES);
    for (; i < n; i += LANES)
        sums[0] += vload_up_to(x + i, n - i);
    return vsum((sums[0] + sums[1]) + (sums[2] + sums[3])) / (float)n;
}

/* Two walks: the squares are of what is left without the mean, so that a large mean costs no digits. */
INLINE statistics row_statistics(const float *x, int64_t n, float epsilon)
{
    const float mean = row_mean(x, n);
    vfloat sums[CHAINS] = {vzero(), vzero(), vzero(), vzero()};
    int64_t i = 0;
    for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
        for (int j = 0; j < CHAINS; j++) {
            const vfloat centred = vload(x + i + j * LANES) - mean;
            sums[j] = vfma(centred, centred, sums[j]);
        }
    for (; i < n; i += LANES) {
        const vfloat centred = (n - i >= LANES ? vload(x + i) : vload_part_or(x + i, n - i, mean)) - mean;
        sums[0] = vfma(centred, centred, sums[0]);
    }
    const float variance = vsum((sums[0] + sums[1]) + (sums[2] + sums[3])) / (float)n;
    return (statistics){mean, 1.0f / sqrt_scalar(variance + epsilon)};
}

KERNEL(layer_norm_f32)
{
    float *y = record->pointers[layer_norm_f32_y];
    const float *x = record->pointers[layer_norm_f32_x], *weight = record->pointers[layer_norm_f32_weight],
                *bias = record->pointers[layer_norm_f32_bias];
    const int64_t columns = record->dims[layer_norm_f32_columns], y_stride = record->dims[layer_norm_f32_y_stride],
                  x_stride = record->dims[layer_norm_f32_x_stride];
    int64_t first, last;
    worker_share(record->dims[layer_norm_f32_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last && columns > 0; row++) {
        const float *in = x + row * x_stride;
        float *out = y + row * y_stride;
        const statistics s = row_statistics(in, columns, record->floats[layer_norm_f32_epsilon]);
        const vfloat mean = vsplat(s.mean), inverse = vsplat(s.inverse);
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES)
            vstore(out + i, vfma((vload(in + i) - mean) * inverse, vload(weight + i), vload(bias + i)));
        if (i < columns) {
            const int64_t n = columns - i;
            const vfloat normal = (vload_part(in + i, n) - mean) * inverse;
            vstore_part(out + i, vfma(normal, vload_part(weight + i, n), vload_part(bias + i, n)), n);
        }
    }
    return KERNEL_OK;
}

/* With u = (x - mean) * inverse and h = weight * grad_y: grad_x = inverse * (h - mean(h) - u * mean(h * u)). */
INLINE void row_backward(float *grad_x, const float *x, const float *weight, const float *grad_y, int64_t columns,
                         statistics s)
{
    vfloat sum = vzero(), product = vzero();
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t n = columns - i;
        const vfloat h = vload_up_to(weight + i, n) * vload_up_to(grad_y + i, n);
        sum += h;
        product = vfma(h, (vload_up_to(x + i, n) - s.mean) * s.inverse, product); /* beyond the end h is 0 */
    }
    const vfloat mean = vsplat(vsum(sum) / (float)columns), slope = vsplat(vsum(product) / (float)columns);
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t n = columns - i;
        const vfloat h = vload_up_to(weight + i, n) * vload_up_to(grad_y + i, n);
        const vfloat u = (vload_up_to(x + i, n) - s.mean) * s.inverse;
        vstore_up_to(grad_x + i, (h - mean - u * slope) * s.inverse, n);
    }
}

KERNEL(layer_norm_backward_f32)
{
    float *grad_x = record->pointers[layer_norm_backward_f32_grad_x];
    statistics *of_rows = record->pointers[layer_norm_backward_f32_statistics];
    const float *x = record->pointers[layer_norm_backward_f32_x],
                *weight = record->pointers[layer_norm_backward_f32_weight],
                *grad_y = record->pointers[layer_norm_backward_f32_grad_y];
    const int64_t columns = record->dims[layer_norm_backward_f32_columns];
    int64_t first, last;
    worker_share(record->dims[layer_norm_backward_f32_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last && columns > 0; row++) {
        const int64_t at = row * columns;
        const statistics s = row_statistics(x + at, columns, record->floats[layer_norm_backward_f32_epsilon]);
        of_rows[row] = s;
        row_backward(grad_x + at, x + at, weight, grad_y + at, columns, s);
    }
    return KERNEL_OK;
}

/* A worker takes a share of the columns, in strips that stay in registers. */
KERNEL(layer_norm_weights_backward_f32)
{
    float *grad_weight = record->pointers[layer_norm_weights_backward_f32_grad_weight],
          *grad_bias = record->pointers[layer_norm_weights_backward_f32_grad_bias];
    const float *x = record->pointers[layer_norm_weights_backward_f32_x],
                *grad_y = record->pointers[layer_norm_weights_backward_f32_grad_y];
    const statistics *of_rows = record->pointers[layer_norm_weights_backward_f32_statistics];
    const int64_t rows = record->dims[layer_norm_weights_backward_f32_rows],
                  columns = record->dims[layer_norm_weights_backward_f32_columns];
    int64_t first, last;
    worker_share(columns, 16, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i += LANES) {
        const int64_t n = last - i;
        vfloat weight_sum = vzero(), bias_sum = vzero();
        for (int64_t row = 0; row < rows; row++) {
            const vfloat grad = vload_up_to(grad_y + row * columns + i, n);
            const vfloat centred = vload_up_to(x + row * columns + i, n) - of_rows[row].mean;
            weight_sum = vfma(grad, centred * of_rows[row].inverse, weight_sum);
            bias_sum += grad;
        }
        vstore_up_to(grad_weight + i, weight_sum, n);
        vstore_up_to(grad_bias + i, bias_sum, n);
    }
    return KERNEL_OK;
}
