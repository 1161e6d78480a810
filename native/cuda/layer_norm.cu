/* Layer normalization (Ba et al., 2016) of rows of float32. A block takes a row, or of
 * short rows a warp. */
#include "kept_row.h"

struct statistics {
    float mean, inverse;
};

template <bool OF_WARP, int FOURS = KEPT> DEVICE void layer_norm_row(const launch &record, int64_t row)
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
        kept_row<OF_WARP, FOURS> own, factors;
        own.load(x, columns);
        factors.load(weight, columns);
        for (float value : own.x)
            sum += value;
        const float mean = row_sum<OF_WARP>(sum) / (float)columns;
#pragma unroll
        for (int i = 0; i < 4 * FOURS; i++)
            square += own.place(i / 4) < columns ? (own.x[i] - mean) * (own.x[i] - mean) : 0.0f;
        const float inverse = 1.0f / sqrtf(row_sum<OF_WARP>(square) / (float)columns + epsilon);
#pragma unroll
        for (int i = 0; i < 4 * FOURS; i++)
            own.x[i] = (own.x[i] - mean) * inverse * factors.x[i];
        factors.load(bias, columns);
#pragma unroll
        for (int i = 0; i < 4 * FOURS; i++)
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

STEP(layer_norm_f32, 1, MANY_ROWS *PARTS(rows, 8), 256, 0)
{
    FOR_MANY_ROWS(record.dims[layer_norm_f32_rows], layer_norm_row);
}

KERNEL(layer_norm_f32, CHOOSE(MANY_ROWS > 0, 0, ROW_BLOCKS), 512, 0)
{
    if (record.dims[layer_norm_f32_columns] <= 0)
        return;
    FOR_ROWS(record.dims[layer_norm_f32_rows], record.dims[layer_norm_f32_columns], layer_norm_row);
}

/* With u = (x - mean) * inverse and h = weight * grad_y: grad_x = inverse * (h - mean(h) - u * mean(h * u)). */
template <bool OF_WARP, int FOURS = KEPT> DEVICE void layer_norm_gradient(const launch &record, int64_t row)
{
    const int64_t columns = record.dims[layer_norm_backward_f32_columns];
    const float *weight = (const float *)record.pointers[layer_norm_backward_f32_weight];
    const float *x = (const float *)record.pointers[layer_norm_backward_f32_x] + row * columns;
    const float *grad_y = (const float *)record.pointers[layer_norm_backward_f32_grad_y] + row * columns;
    float *grad_x = (float *)record.pointers[layer_norm_backward_f32_grad_x] + row * columns;
    statistics *of_rows = (statistics *)record.pointers[layer_norm_backward_f32_statistics];
    const float epsilon = record.floats[layer_norm_backward_f32_epsilon], share = 1.0f / (float)columns;
    float sum = 0, square = 0, total = 0, product = 0;
    if (can_keep((uint64_t)x | (uint64_t)grad_y | (uint64_t)grad_x | (uint64_t)weight, columns, columns)) {
        kept_row<OF_WARP, FOURS> u, h, factors;
        u.load(x, columns);
        h.load(grad_y, columns);
        factors.load(weight, columns);
        for (float value : u.x)
            sum += value;
        const float mean = row_sum<OF_WARP>(sum) * share;
#pragma unroll
        for (int i = 0; i < 4 * FOURS; i++) {
            u.x[i] = u.place(i / 4) < columns ? u.x[i] - mean : 0.0f;
            square += u.x[i] * u.x[i];
        }
        const float inverse = 1.0f / sqrtf(row_sum<OF_WARP>(square) * share + epsilon);
#pragma unroll
        for (int i = 0; i < 4 * FOURS; i++) {
            u.x[i] *= inverse;
            h.x[i] *= factors.x[i];
            total += h.x[i];
            product += h.x[i] * u.x[i];
        }
        total = row_sum<OF_WARP>(total) * share;
        product = row_sum<OF_WARP>(product) * share;
#pragma unroll
        for (int i = 0; i < 4 * FOURS; i++)
            h.x[i] = (h.x[i] - total - u.x[i] * product) * inverse;
        h.store(grad_x, columns);
        if (row_thread<OF_WARP>() == 0)
            of_rows[row] = statistics{mean, inverse};
        return;
    }
    FOR_ROW(i, columns) sum += x[i];
    const float mean = row_sum<OF_WARP>(sum) * share;
    FOR_ROW(i, columns) square += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1.0f / sqrtf(row_sum<OF_WARP>(square) * share + epsilon);
    FOR_ROW(i, columns)
    {
        const float h = weight[i] * grad_y[i];
        total += h;
        product += h * ((x[i] - mean) * inverse);
    }
    total = row_sum<OF_WARP>(total) * share;
    product = row_sum<OF_WARP>(product) * share;
    FOR_ROW(i, columns)
    grad_x[i] = (weight[i] * grad_y[i] - total - (x[i] - mean) * inverse * product) * inverse;
    if (row_thread<OF_WARP>() == 0)
        of_rows[row] = statistics{mean, inverse};
}

STEP(layer_norm_backward_f32, 1, MANY_ROWS *PARTS(rows, 8), 256, 0)
{
    FOR_MANY_ROWS(record.dims[layer_norm_backward_f32_rows], layer_norm_gradient);
}

KERNEL(layer_norm_backward_f32, CHOOSE(MANY_ROWS > 0, 0, ROW_BLOCKS), 512, 0)
{
    if (record.dims[layer_norm_backward_f32_columns] <= 0)
        return;
    FOR_ROWS(record.dims[layer_norm_backward_f32_rows], record.dims[layer_norm_backward_f32_columns],
             layer_norm_gradient);
}

/* The gradients of the weights: a block sums 128 columns of some rows, and the kernel itself adds up those sums. */
#define ROW_PARTS MAX(1, MIN(PARTS(512, MAX(1, PARTS(columns, 128))), rows / 64))

/* Four columns, as zeros where the row has ended. */
DEVICE float4 four_of_row(const float *row, int64_t column, int64_t columns, bool aligned)
{
    if (aligned && column < columns)
        return *(const float4 *)(row + column);
    float x[4];
    for (int k = 0; k < 4; k++)
        x[k] = column + k < columns ? row[column + k] : 0.0f;
    return float4{x[0], x[1], x[2], x[3]};
}

SCRATCH(layer_norm_weights_backward_f32, ROW_PARTS *columns * 8)
STEP(layer_norm_weights_backward_f32, 1, PARTS(columns, 128) * ROW_PARTS, 256, 0)
{
    __shared__ float4 sums[2][8][32];
    const int64_t rows = record.dims[layer_norm_weights_backward_f32_rows],
                  columns = record.dims[layer_norm_weights_backward_f32_columns];
    const float *x = (const float *)record.pointers[layer_norm_weights_backward_f32_x];
    const float *grad_y = (const float *)record.pointers[layer_norm_weights_backward_f32_grad_y];
    const statistics *of_rows = (const statistics *)record.pointers[layer_norm_weights_backward_f32_statistics];
    const int64_t parts = ROW_PARTS, each = PARTS(rows, parts);
    const bool aligned = columns % 4 == 0 && ((uint64_t)x | (uint64_t)grad_y) % 16 == 0;
    FOR_EACH_BLOCK(block, PARTS(columns, 128) * parts)
    {
        const int64_t part = block % parts, column = block / parts * 128 + 4 * LANE;
        const int64_t last = MIN(rows, (part + 1) * each);
        float4 of_weight = {0, 0, 0, 0}, of_bias = {0, 0, 0, 0};
#pragma unroll 4
        for (int64_t row = part * each + WARP; row < last; row += 8) {
            const float4 g = four_of_row(grad_y + row * columns, column, columns, aligned);
            const float4 in = four_of_row(x + row * columns, column, columns, aligned);
            const statistics s = of_rows[row];
            of_weight.x += g.x * ((in.x - s.mean) * s.inverse);
            of_weight.y += g.y * ((in.y - s.mean) * s.inverse);
            of_weight.z += g.z * ((in.z - s.mean) * s.inverse);
            of_weight.w += g.w * ((in.w - s.mean) * s.inverse);
            of_bias.x += g.x;
            of_bias.y += g.y;
            of_bias.z += g.z;
            of_bias.w += g.w;
        }
        sums[0][WARP][LANE] = of_weight;
        sums[1][WARP][LANE] = of_bias;
        __syncthreads();
        const int which = (int)threadIdx.x / 128, place = (int)threadIdx.x % 128;
        float total = 0;
        for (int warp = 0; warp < 8; warp++)
            total += ((const float *)sums[which][warp])[place];
        if (block / parts * 128 + place < columns)
            ((float *)scratch)[(part * 2 + which) * columns + block / parts * 128 + place] = total;
        __syncthreads();
    }
}

KERNEL(layer_norm_weights_backward_f32, PARTS(columns, 16), 256, 0)
{
    __shared__ float sums[8][32];
    const int64_t rows = record.dims[layer_norm_weights_backward_f32_rows],
                  columns = record.dims[layer_norm_weights_backward_f32_columns], parts = ROW_PARTS;
    FOR_EACH_BLOCK(block, PARTS(columns, 16))
    {
        const int64_t which = LANE / 16, column = block * 16 + LANE % 16;
        float total = 0;
        if (column < columns)
            for (int64_t part = WARP; part < parts; part += 8)
                total += ((const float *)scratch)[(part * 2 + which) * columns + column];
        sums[WARP][LANE] = total;
        __syncthreads();
        if (WARP == 0 && column < columns) {
            for (int warp = 1; warp < 8; warp++)
                total += sums[warp][LANE];
            ((float *)record.pointers[which ? layer_norm_weights_backward_f32_grad_bias
                                            : layer_norm_weights_backward_f32_grad_weight])[column] = total;
        }
        __syncthreads();
    }
}
