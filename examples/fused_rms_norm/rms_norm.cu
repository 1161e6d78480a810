/* rms_norm(x + residual) * weight and its gradient, as rms_norm.c: a block of 128 threads for each row. */
#include <stdint.h>

/* The sum over all threads of a block, in all of them. */
__device__ static float block_sum(float value)
{
    __shared__ float parts[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int apart = 16; apart; apart /= 2)
        value += __shfl_xor_sync(0xffffffff, value, apart);
    if (lane == 0)
        parts[warp] = value;
    __syncthreads();
    value = 0;
    for (int i = 0; i < warps; i++)
        value += parts[i];
    __syncthreads();
    return value;
}

extern "C" __global__ void add_rms_norm(float *y, const float *x, const float *residual, const float *weight,
                                        intptr_t rows, intptr_t columns, float epsilon)
{
    for (intptr_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const intptr_t at = row * columns;
        float squares = 0;
        for (intptr_t i = threadIdx.x; i < columns; i += blockDim.x) {
            const float sum = x[at + i] + residual[at + i];
            squares += sum * sum;
        }
        const float scale = rsqrtf(block_sum(squares) / (float)columns + epsilon);
        for (intptr_t i = threadIdx.x; i < columns; i += blockDim.x)
            y[at + i] = (x[at + i] + residual[at + i]) * scale * weight[i];
    }
}

/* grad_scaled: the gradient of weight from each row, (rows, columns). */
extern "C" __global__ void add_rms_norm_backward(float *grad_sum, float *grad_scaled, const float *x,
                                                 const float *residual, const float *weight, const float *grad_y,
                                                 intptr_t rows, intptr_t columns, float epsilon)
{
    for (intptr_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const intptr_t at = row * columns;
        float squares = 0, products = 0;
        for (intptr_t i = threadIdx.x; i < columns; i += blockDim.x) {
            const float sum = x[at + i] + residual[at + i];
            squares += sum * sum;
            products += sum * weight[i] * grad_y[at + i];
        }
        const float scale = rsqrtf(block_sum(squares) / (float)columns + epsilon);
        const float shared = block_sum(products) * scale * scale / (float)columns;
        for (intptr_t i = threadIdx.x; i < columns; i += blockDim.x) {
            const float sum = x[at + i] + residual[at + i];
            grad_scaled[at + i] = grad_y[at + i] * sum * scale;
            grad_sum[at + i] = scale * (weight[i] * grad_y[at + i] - sum * shared);
        }
    }
}
