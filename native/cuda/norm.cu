/* Root-mean-square normalization (Zhang and Sennrich, 2019), softmax and log_softmax, over the rows of a matrix. A block
 * takes a row, or of short rows a warp. */
#include "kept_row.h"
#include "quantize.h"

/* 1 / root mean square, in every thread. */
DEVICE float inverse_rms(const float *x, int64_t columns, float epsilon)
{
    float sum = 0;
    FOR_THREADS(i, columns) sum += x[i] * x[i];
    return 1.0f / sqrtf(block_sum(sum) / (float)columns + epsilon);
}

/* The blocks of 32 columns of a row, which lies in memory. */
template <bool OF_WARP> DEVICE void quantize_row(activations *to, const float *y, int64_t columns)
{
    const int64_t blocks = PARTS(columns, BLOCK);
    for (int64_t first = 4 * (row_thread<OF_WARP>() - LANE); first < columns; first += 4 * row_threads<OF_WARP>()) {
        const int64_t column = first + 4 * LANE, block = column / BLOCK;
        float four[4];
        for (int j = 0; j < 4; j++)
            four[j] = column + j < columns ? y[column + j] : 0.0f;
        quantize_four(to + block, four, block < blocks);
    }
}

/* Of rms_norm_f32 or, where the weights have an OFFSET, rms_norm_typed or, where QUANTIZED, rms_norm_quantize_rows: slots
 * that they share have the same numbers. */
template <bool OF_WARP, bool HALVES, bool QUANTIZED, bool OFFSET = true>
DEVICE void rms_norm_row(const launch &record, int64_t row)
{
    _Static_assert((int)rms_norm_typed_x_stride == (int)rms_norm_f32_x_stride, "the slots differ");
    _Static_assert((int)rms_norm_typed_type == (int)rms_norm_quantize_rows_type, "the slots differ");
    _Static_assert((int)rms_norm_typed_offset == (int)rms_norm_quantize_rows_offset, "the slots differ");
    const int64_t *d = record.dims, columns = d[rms_norm_f32_columns];
    const void *weight = record.pointers[rms_norm_f32_weight];
    const int type = HALVES ? (int)d[rms_norm_typed_type] : TYPE_float32;
    const float epsilon = record.floats[rms_norm_f32_epsilon];
    const float offset = OFFSET ? record.floats[rms_norm_typed_offset] : 0.0f;
    const float *x = (const float *)record.pointers[rms_norm_f32_x] + row * d[rms_norm_f32_x_stride];
    float *y = (float *)record.pointers[rms_norm_f32_y] + row * d[rms_norm_f32_y_stride], sum = 0;
    activations *xq =
        QUANTIZED ? (activations *)record.pointers[rms_norm_quantize_rows_xq] + row * PARTS(columns, BLOCK) : nullptr;
    if (can_keep((uint64_t)x | (uint64_t)y | (uint64_t)weight, d[rms_norm_f32_x_stride] | d[rms_norm_f32_y_stride],
                 columns)) {
        kept_row<OF_WARP> own, factors;
        own.load(x, columns);
        if (HALVES)
            factors.load_halves((const uint16_t *)weight, columns, type);
        else
            factors.load((const float *)weight, columns);
        for (float value : own.x)
            sum += value * value;
        const float inverse = 1.0f / sqrtf(row_sum<OF_WARP>(sum) / (float)columns + epsilon);
#pragma unroll
        for (int i = 0; i < 4 * KEPT; i++)
            own.x[i] = own.x[i] * inverse * (OFFSET ? factors.x[i] + offset : factors.x[i]);
        own.store(y, columns);
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const int place = own.place(i);
            if (QUANTIZED && place - 4 * LANE < columns) /* for the whole warp */
                quantize_four(xq + place / BLOCK, own.x + 4 * i, place / BLOCK * BLOCK < columns);
        }
        return;
    }
    FOR_ROW(i, columns) sum += x[i] * x[i];
    const float inverse = 1.0f / sqrtf(row_sum<OF_WARP>(sum) / (float)columns + epsilon);
    FOR_ROW(i, columns)
    {
        const float factor = load_float(weight, i, type);
        y[i] = x[i] * inverse * (OFFSET ? factor + offset : factor);
    }
    if (QUANTIZED) {
        if (OF_WARP)
            __syncwarp();
        else
            __syncthreads();
        quantize_row<OF_WARP>(xq, y, columns);
    }
}

template <bool OF_WARP> DEVICE void rms_norm_row_f32(const launch &record, int64_t row)
{
    rms_norm_row<OF_WARP, false, false, false>(record, row);
}
KERNEL(rms_norm_f32, ROW_BLOCKS, 512, 0)
{
    FOR_ROWS(record.dims[rms_norm_f32_rows], record.dims[rms_norm_f32_columns], rms_norm_row_f32);
}

template <bool OF_WARP> DEVICE void rms_norm_row_typed(const launch &record, int64_t row)
{
    if (record.dims[rms_norm_typed_type] == TYPE_float32)
        rms_norm_row<OF_WARP, false, false>(record, row);
    else
        rms_norm_row<OF_WARP, true, false>(record, row);
}
KERNEL(rms_norm_typed, ROW_BLOCKS, 512, 0)
{
    if (!type_in(record.dims[rms_norm_typed_type], TYPES_HALF | BIT(TYPE_float32))) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_ROWS(record.dims[rms_norm_typed_rows], record.dims[rms_norm_typed_columns], rms_norm_row_typed);
}

/* The sum is read from memory, so that its product is rounded before. */
template <bool OF_WARP> DEVICE void rms_norm_added_row(const launch &record, int64_t row)
{
    _Static_assert((int)rms_norm_typed_type == (int)rms_norm_add_type &&
                       (int)rms_norm_typed_offset == (int)rms_norm_add_offset,
                   "the slots differ");
    const int64_t columns = record.dims[rms_norm_add_columns];
    rms_norm_row_typed<OF_WARP>(record, row);
    if (OF_WARP)
        __syncwarp();
    else
        __syncthreads();
    const float *y = (const float *)record.pointers[rms_norm_add_y] + row * record.dims[rms_norm_add_y_stride];
    const float *residual = (const float *)record.pointers[rms_norm_add_residual] + row * columns;
    float *sum = (float *)record.pointers[rms_norm_add_sum] + row * columns;
    FOR_ROW(i, columns) sum[i] = y[i] + residual[i];
}
KERNEL(rms_norm_add, ROW_BLOCKS, 512, 0)
{
    if (!type_in(record.dims[rms_norm_add_type], TYPES_HALF | BIT(TYPE_float32))) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_ROWS(record.dims[rms_norm_add_rows], record.dims[rms_norm_add_columns], rms_norm_added_row);
}

/* A warp has a head. */
KERNEL(normalize_heads, PARTS(rows *(heads + 2 * kv_heads), 8), 256, 0)
{
    const int64_t *d = record.dims, heads = d[normalize_heads_heads], kv_heads = d[normalize_heads_kv_heads];
    const int64_t each = heads + 2 * kv_heads, head_dim = d[normalize_heads_head_dim];
    const int64_t units = d[normalize_heads_rows] * each;
    const int type = (int)d[normalize_heads_type];
    const float epsilon = record.floats[normalize_heads_epsilon], offset = record.floats[normalize_heads_offset];
    if (!type_in(type, TYPES_HALF | BIT(TYPE_float32)) || heads < 0 || kv_heads < 0) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    for (int64_t unit = (int64_t)blockIdx.x * WARPS + WARP; unit < units; unit += (int64_t)gridDim.x * WARPS) {
        const int64_t row = quotient(unit, each), head = unit - row * each;
        const float *x =
            (const float *)record.pointers[normalize_heads_x] + row * d[normalize_heads_x_stride] + head * head_dim;
        float *y = (float *)record.pointers[normalize_heads_y] + unit * head_dim, sum = 0;
        if (head >= heads + kv_heads) {
            for (int64_t i = LANE; i < head_dim; i += 32)
                y[i] = x[i];
            continue;
        }
        const void *weight = record.pointers[head < heads ? normalize_heads_query_weight : normalize_heads_key_weight];
        for (int64_t i = LANE; i < head_dim; i += 32)
            sum += x[i] * x[i];
        const float inverse = 1.0f / sqrtf(warp_reduce(sum, Sum()) / (float)head_dim + epsilon);
        for (int64_t i = LANE; i < head_dim; i += 32)
            y[i] = x[i] * inverse * (load_float(weight, i, type) + offset);
    }
}

template <bool OF_WARP> DEVICE void rms_norm_quantized_row(const launch &record, int64_t row)
{
    if (record.dims[rms_norm_quantize_rows_type] == TYPE_float32)
        rms_norm_row<OF_WARP, false, true>(record, row);
    else
        rms_norm_row<OF_WARP, true, true>(record, row);
}
KERNEL(rms_norm_quantize_rows, ROW_BLOCKS, 512, 0)
{
    const int64_t *d = record.dims, type = d[rms_norm_quantize_rows_type];
    if (!type_in(type, TYPES_HALF | BIT(TYPE_float32))) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_ROWS(d[rms_norm_quantize_rows_rows], d[rms_norm_quantize_rows_columns], rms_norm_quantized_row);
}

/* Of each row to scratch memory; then grad_weight; then grad_x, which may be x or grad_y. */
SCRATCH(rms_norm_backward_f32, 4 * rows)
STEP(rms_norm_backward_f32, 1, rows, 128, 0)
{
    const int64_t columns = record.dims[rms_norm_backward_f32_columns];
    FOR_EACH_BLOCK(row, record.dims[rms_norm_backward_f32_rows])
    {
        const float *x = (const float *)record.pointers[rms_norm_backward_f32_x] + row * columns;
        const float inverse = inverse_rms(x, columns, record.floats[rms_norm_backward_f32_epsilon]);
        if (threadIdx.x == 0)
            ((float *)scratch)[row] = inverse;
    }
}

STEP(rms_norm_backward_f32, 2, PARTS(columns, 32), 256, 0)
{
    __shared__ float parts[8][32];
    const int64_t rows = record.dims[rms_norm_backward_f32_rows], columns = record.dims[rms_norm_backward_f32_columns];
    const float *x = (const float *)record.pointers[rms_norm_backward_f32_x];
    const float *grad_y = (const float *)record.pointers[rms_norm_backward_f32_grad_y];
    FOR_EACH_BLOCK(block, PARTS(columns, 32))
    {
        const int64_t column = block * 32 + LANE;
        float sum = 0;
        for (int64_t row = WARP; row < rows && column < columns; row += 8)
            sum += x[row * columns + column] * ((float *)scratch)[row] * grad_y[row * columns + column];
        parts[WARP][LANE] = sum;
        __syncthreads();
        if (WARP == 0 && column < columns) {
            for (int i = 1; i < 8; i++)
                sum += parts[i][LANE];
            ((float *)record.pointers[rms_norm_backward_f32_grad_weight])[column] = sum;
        }
        __syncthreads();
    }
}

/* inverse * (w g - x inverse^2 mean(w g x)) */
KERNEL(rms_norm_backward_f32, rows, 128, 0)
{
    const int64_t columns = record.dims[rms_norm_backward_f32_columns];
    const float *weight = (const float *)record.pointers[rms_norm_backward_f32_weight];
    FOR_EACH_BLOCK(row, record.dims[rms_norm_backward_f32_rows])
    {
        const float *x = (const float *)record.pointers[rms_norm_backward_f32_x] + row * columns;
        const float *grad_y = (const float *)record.pointers[rms_norm_backward_f32_grad_y] + row * columns;
        float *grad_x = (float *)record.pointers[rms_norm_backward_f32_grad_x] + row * columns;
        const float inverse = ((const float *)scratch)[row];
        float sum = 0;
        FOR_THREADS(i, columns) sum += x[i] * weight[i] * grad_y[i];
        const float mean = block_sum(sum) / (float)columns * inverse * inverse;
        FOR_THREADS(i, columns) grad_x[i] = (weight[i] * grad_y[i] - x[i] * mean) * inverse;
    }
}

DEVICE float row_largest(const float *x, int64_t columns)
{
    float largest = -INFINITE;
    FOR_THREADS(i, columns) largest = fmaxf(largest, x[i]);
    return block_largest(largest);
}

DEVICE float row_total(const float *x, int64_t columns, float largest)
{
    float sum = 0;
    FOR_THREADS(i, columns) sum += expf(x[i] - largest);
    return block_sum(sum);
}

KERNEL(softmax_f32, rows, 128, 0)
{
    const int64_t *d = record.dims, columns = d[softmax_f32_columns];
    FOR_EACH_BLOCK(row, d[softmax_f32_rows])
    {
        const float *x = (const float *)record.pointers[softmax_f32_x] + row * d[softmax_f32_x_stride];
        float *y = (float *)record.pointers[softmax_f32_y] + row * d[softmax_f32_y_stride];
        const float largest = row_largest(x, columns), inverse = 1.0f / row_total(x, columns, largest);
        FOR_THREADS(i, columns) y[i] = expf(x[i] - largest) * inverse;
    }
}

KERNEL(softmax_backward_f32, rows, 128, 0)
{
    const int64_t columns = record.dims[softmax_backward_f32_columns];
    FOR_EACH_BLOCK(row, record.dims[softmax_backward_f32_rows])
    {
        const float *y = (const float *)record.pointers[softmax_backward_f32_y] + row * columns;
        const float *grad_y = (const float *)record.pointers[softmax_backward_f32_grad_y] + row * columns;
        float *grad_x = (float *)record.pointers[softmax_backward_f32_grad_x] + row * columns, sum = 0;
        FOR_THREADS(i, columns) sum += y[i] * grad_y[i];
        const float mean = block_sum(sum);
        FOR_THREADS(i, columns) grad_x[i] = y[i] * (grad_y[i] - mean);
    }
}

KERNEL(log_softmax_f32, rows, 128, 0)
{
    const int64_t *d = record.dims, columns = d[log_softmax_f32_columns];
    FOR_EACH_BLOCK(row, d[log_softmax_f32_rows])
    {
        const float *x = (const float *)record.pointers[log_softmax_f32_x] + row * d[log_softmax_f32_x_stride];
        float *y = (float *)record.pointers[log_softmax_f32_y] + row * d[log_softmax_f32_y_stride];
        const float largest = row_largest(x, columns), log_total = logf(row_total(x, columns, largest));
        FOR_THREADS(i, columns) y[i] = x[i] - largest - log_total;
    }
}
