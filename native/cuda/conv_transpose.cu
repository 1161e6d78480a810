/* Transposed convolution: a thread for each output, over the inputs that reach it. */
#include "gpu.h"

KERNEL(conv_transpose_f32, PARTS(batch *groups *outputs *out_height *out_width, 128), 128, 0)
{
    const int64_t *d = record.dims, groups = d[conv_transpose_f32_groups], inputs = d[conv_transpose_f32_inputs],
                  outputs = d[conv_transpose_f32_outputs], height = d[conv_transpose_f32_height],
                  width = d[conv_transpose_f32_width], tall = d[conv_transpose_f32_kernel_height],
                  wide = d[conv_transpose_f32_kernel_width], stride_y = d[conv_transpose_f32_stride_y],
                  stride_x = d[conv_transpose_f32_stride_x], out_height = d[conv_transpose_f32_out_height],
                  out_width = d[conv_transpose_f32_out_width], dilation_y = d[conv_transpose_f32_dilation_y],
                  dilation_x = d[conv_transpose_f32_dilation_x];
    const float *bias = (const float *)record.pointers[conv_transpose_f32_bias];
    if (inputs < 0 || height < 0 || width < 0 || tall < 1 || wide < 1 || stride_y < 1 || stride_x < 1 ||
        dilation_y < 1 || dilation_x < 1) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(at, d[conv_transpose_f32_batch] * groups * outputs * out_height * out_width)
    {
        const int64_t column = at % out_width, row = at / out_width % out_height;
        const int64_t output = at / out_width / out_height % outputs, item = at / out_width / out_height / outputs;
        const float *x = (const float *)record.pointers[conv_transpose_f32_x] + item * inputs * height * width;
        const float *weight = (const float *)record.pointers[conv_transpose_f32_weight] +
                              (item % groups * inputs * outputs + output) * tall * wide;
        float sum = bias ? bias[item % groups * outputs + output] : 0.0f;
        for (int64_t p = 0; p < tall; p++) {
            const int64_t above = row + d[conv_transpose_f32_top] - p * dilation_y, i = above / stride_y;
            if (above < 0 || i * stride_y != above || i >= height)
                continue;
            for (int64_t q = 0; q < wide; q++) {
                const int64_t before = column + d[conv_transpose_f32_left] - q * dilation_x, j = before / stride_x;
                if (before < 0 || j * stride_x != before || j >= width)
                    continue;
                for (int64_t c = 0; c < inputs; c++)
                    sum += weight[(c * outputs * tall + p) * wide + q] * x[(c * height + i) * width + j];
            }
        }
        ((float *)record.pointers[conv_transpose_f32_y])[at] = sum;
    }
}
