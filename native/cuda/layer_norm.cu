/* Layer normalization (Ba et al., 2016) of rows of float32. A block takes a row, or of
 * short rows a warp; or 32 columns of the weights' gradients. */
#include "kept_row.h"

struct statistics {
    float mean, inverse;
};

DEVICE statistics row_statistics(const float *x, int64_t columns, float epsilon)
{
    float sum = 0, square = 0;
    FOR_THREADS(i, columns) sum += x[i];
    const float mean = block_sum(sum) / (float)columns;
    FOR_THREADS(i, columns) square += (x[i] - mean) * (x[i] - mean);
    return statistics{mean, 1.0f / sqrtf(block_sum(square) / (float)columns + epsilon)};
}

template <bool OF_WARP> DEVICE void layer_norm_row(const launch &record, int64_t row)
{
    const int64_t *d = record.dims, columns = d[layer_norm_f32_columns];
    const float *weight = (const float *)record.pointers[layer_norm_f32_weight];
    const float *bias = (const float *)record.pointers[layer_norm_f32_bias];
    const float *x = (const float *)record.pointers[layer_norm_f32_x] + row * d[layer_norm_f32_x_stride];
    float *y = (float *)record.pointers[layer_norm_f32_y] + row * d[layer_norm_f32_y_stride];
    const float epsilon = record.floats[layer_norm_f32_epsilon];
    float sum = 0, square = 0;
    if (can_keep((uint64_t)x | (uint64_t)y | (uint64_t)weight | (uint64_t)bias,
                 d[layer_norm_f32_x_stride] | d[layer_norm_f32_y_stride], columns)) {
        kept_row<OF_WARP> own, factors;
        own.load(x, columns);
        factors.load(weight, columns);
        for (float value : own.x)
            sum += value;
        const float mean = row_sum<OF_WARP>(sum) / (float)columns;
#pragma unroll
        for (int i = 0; i < 4 * KEPT; i++)
            square += own.place(i / 4) < columns ? (own.x[i] - mean) * (own.x[i] - mean) : 0.0f;
        const float inverse = 1.0f / sqrtf(row_sum<OF_WARP>(square) / (float)columns + epsilon);
#pragma unroll
        for (int i = 0; i < 4 * KEPT; i++)
            own.x[i] = (own.x[i] - mean) * inverse * factors.x[i];
        factors.load(bias, columns);
#pragma unroll
        for (int i = 0; i < 4 * KEPT; i++)
            own.x[i] += factors.x[i];
        own.store(y, columns);
        return;
    }
    FOR_ROW(i, columns) sum += x[i];
    const float mean = row_sum<OF_WARP>(sum) / (float)columns;
    FOR_ROW(i, columns) square += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1.0f / sqrtf(row_sum<OF_WARP>(square) / (float)columns + epsilon);
    FOR_ROW(i, columns) y[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
}

KERNEL(layer_norm_f32, ROW_BLOCKS, 256, 0)
{
    if (record.dims[layer_norm_f32_columns] <= 0)
        return;
    FOR_ROWS(record.dims[layer_norm_f32_rows], record.dims[layer_norm_f32_columns], layer_norm_row);
}

/* With u = (x - mean) * inverse and h = weight * grad_y: grad_x = inverse * (h - mean(h) - u * mean(h * u)). */
KERNEL(layer_norm_backward_f32, rows, 128, 0)
{
    const int64_t columns = record.dims[layer_norm_backward_f32_columns];
    const float *weight = (const float *)record.pointers[layer_norm_backward_f32_weight];
    if (columns <= 0)
        return;
    FOR_EACH_BLOCK(row, record.dims[layer_norm_backward_f32_rows])
    {
        const float *x = (const float *)record.pointers[layer_norm_backward_f32_x] + row * columns;
        const float *grad_y = (const float *)record.pointers[layer_norm_backward_f32_grad_y] + row * columns;
        float *grad_x = (float *)record.pointers[layer_norm_backward_f32_grad_x] + row * columns;
        const statistics s = row_statistics(x, columns, record.floats[layer_norm_backward_f32_epsilon]);
        if (threadIdx.x == 0)
            ((statistics *)record.pointers[layer_norm_backward_f32_statistics])[row] = s;
        float sum = 0, product = 0;
        FOR_THREADS(i, columns)
        {
            const float h = weight[i] * grad_y[i];
            sum += h;
            product += h * ((x[i] - s.mean) * s.inverse);
        }
        const float mean = block_sum(sum) / (float)columns, slope = block_sum(product) / (float)columns;
        FOR_THREADS(i, columns)
        {
            const float h = weight[i] * grad_y[i], u = (x[i] - s.mean) * s.inverse;
            grad_x[i] = (h - mean - u * slope) * s.inverse;
        }
    }
}

KERNEL(layer_norm_weights_backward_f32, PARTS(columns, 32), 256, 0)
{
    __shared__ float parts[2][8][32];
    const int64_t rows = record.dims[layer_norm_weights_backward_f32_rows],
                  columns = record.dims[layer_norm_weights_backward_f32_columns];
    const float *x = (const float *)record.pointers[layer_norm_weights_backward_f32_x];
    const float *grad_y = (const float *)record.pointers[layer_norm_weights_backward_f32_grad_y];
    const statistics *of_rows = (const statistics *)record.pointers[layer_norm_weights_backward_f32_statistics];
    FOR_EACH_BLOCK(block, PARTS(columns, 32))
    {
        const int64_t column = block * 32 + LANE;
        float weight_sum = 0, bias_sum = 0;
        for (int64_t row = WARP; row < rows && column < columns; row += 8) {
            const float g = grad_y[row * columns + column];
            weight_sum += g * ((x[row * columns + column] - of_rows[row].mean) * of_rows[row].inverse);
            bias_sum += g;
        }
        parts[0][WARP][LANE] = weight_sum;
        parts[1][WARP][LANE] = bias_sum;
        __syncthreads();
        if (WARP == 0 && column < columns) {
            for (int i = 1; i < 8; i++)
                weight_sum += parts[0][i][LANE], bias_sum += parts[1][i][LANE];
            ((float *)record.pointers[layer_norm_weights_backward_f32_grad_weight])[column] = weight_sum;
            ((float *)record.pointers[layer_norm_weights_backward_f32_grad_bias])[column] = bias_sum;
        }
        __syncthreads();
    }
}
