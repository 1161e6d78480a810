/* Depthwise convolution and its gradients: a thread for each output; a block for each weight. */
#include "gpu.h"

struct shape {
    int64_t batch, channels, multiplier, height, width, tall, wide, stride_y, stride_x, top, left, dilation_y,
        dilation_x, out_height, out_width;
};

/* The slots that all three kernels have. */
DEVICE shape shape_of(const int64_t *d)
{
    return shape{d[depthwise_f32_batch],        d[depthwise_f32_channels],   d[depthwise_f32_multiplier],
                 d[depthwise_f32_height],       d[depthwise_f32_width],      d[depthwise_f32_kernel_height],
                 d[depthwise_f32_kernel_width], d[depthwise_f32_stride_y],   d[depthwise_f32_stride_x],
                 d[depthwise_f32_top],          d[depthwise_f32_left],       d[depthwise_f32_dilation_y],
                 d[depthwise_f32_dilation_x],   d[depthwise_f32_out_height], d[depthwise_f32_out_width]};
}

DEVICE bool is_bad(const shape &s)
{
    return s.multiplier < 1 || s.height < 0 || s.width < 0 || s.tall < 1 || s.wide < 1 || s.stride_y < 1 ||
           s.stride_x < 1 || s.dilation_y < 1 || s.dilation_x < 1;
}

KERNEL(depthwise_f32, PARTS(batch *channels *MAX(multiplier, 1) * out_height * out_width, 128), 128, 0)
{
    const shape s = shape_of(record.dims);
    const float *bias = (const float *)record.pointers[depthwise_f32_bias];
    if (is_bad(s)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(at, s.batch * s.channels * s.multiplier * s.out_height * s.out_width)
    {
        const int64_t column = at % s.out_width, row = at / s.out_width % s.out_height;
        const int64_t plane = at / s.out_width / s.out_height, filter = plane % (s.channels * s.multiplier);
        const float *x = (const float *)record.pointers[depthwise_f32_x] + plane / s.multiplier * s.height * s.width;
        const float *weight = (const float *)record.pointers[depthwise_f32_weight] + filter * s.tall * s.wide;
        float sum = bias ? bias[filter] : 0.0f;
        for (int64_t p = 0; p < s.tall; p++) {
            const int64_t i = row * s.stride_y + p * s.dilation_y - s.top;
            for (int64_t q = 0; q < s.wide && i >= 0 && i < s.height; q++) {
                const int64_t j = column * s.stride_x + q * s.dilation_x - s.left;
                if (j >= 0 && j < s.width)
                    sum += weight[p * s.wide + q] * x[i * s.width + j];
            }
        }
        ((float *)record.pointers[depthwise_f32_y])[at] = sum;
    }
}

KERNEL(depthwise_input_backward_f32, PARTS(batch *channels *height *width, 128), 128, 0)
{
    const shape s = shape_of(record.dims);
    if (is_bad(s)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(at, s.batch * s.channels * s.height * s.width)
    {
        const int64_t column = at % s.width, row = at / s.width % s.height, plane = at / s.width / s.height;
        float sum = 0;
        for (int64_t m = 0; m < s.multiplier; m++) {
            const float *grad_y = (const float *)record.pointers[depthwise_input_backward_f32_grad_y] +
                                  (plane * s.multiplier + m) * s.out_height * s.out_width;
            const float *weight = (const float *)record.pointers[depthwise_input_backward_f32_weight] +
                                  (plane % s.channels * s.multiplier + m) * s.tall * s.wide;
            for (int64_t p = 0; p < s.tall; p++) {
                const int64_t above = row + s.top - p * s.dilation_y, i = above / s.stride_y;
                if (above < 0 || i * s.stride_y != above || i >= s.out_height)
                    continue;
                for (int64_t q = 0; q < s.wide; q++) {
                    const int64_t before = column + s.left - q * s.dilation_x, j = before / s.stride_x;
                    if (before >= 0 && j * s.stride_x == before && j < s.out_width)
                        sum += weight[p * s.wide + q] * grad_y[i * s.out_width + j];
                }
            }
        }
        ((float *)record.pointers[depthwise_input_backward_f32_grad_x])[at] = sum;
    }
}

KERNEL(depthwise_weight_backward_f32, MAX(channels *multiplier *kernel_height *kernel_width, MIN(channels, 1)), 128, 0)
{
    const shape s = shape_of(record.dims);
    if (is_bad(s)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int64_t plane_out = s.out_height * s.out_width;
    FOR_EACH_BLOCK(at, s.channels * s.multiplier * s.tall * s.wide)
    {
        const int64_t q = at % s.wide, p = at / s.wide % s.tall, filter = at / s.wide / s.tall;
        float sum = 0;
        FOR_THREADS(k, s.batch * plane_out)
        {
            const int64_t b = k / plane_out, row = k % plane_out / s.out_width, column = k % s.out_width;
            const int64_t i = row * s.stride_y + p * s.dilation_y - s.top,
                          j = column * s.stride_x + q * s.dilation_x - s.left;
            if (i >= 0 && i < s.height && j >= 0 && j < s.width)
                sum += ((const float *)record.pointers[depthwise_weight_backward_f32_x])
                           [((b * s.channels + filter / s.multiplier) * s.height + i) * s.width + j] *
                       ((const float *)record.pointers[depthwise_weight_backward_f32_grad_y])
                           [(b * s.channels * s.multiplier + filter) * plane_out + k % plane_out];
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0)
            ((float *)record.pointers[depthwise_weight_backward_f32_grad_weight])[at] = sum;
    }
}
