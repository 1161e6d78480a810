/* y = x w^T (+ residual) with weights in any of GGML's block types and int8 activations. A few rows: as linear_q8.cu. A lane's
 * part of y is scale_x * (scale * sum(w * x) - minimum * sum(x)) of its columns, both sums exact; a bias counts as a minimum. */
#include "int8_tiles.h"

enum { ROWS = 4, SPLIT = 4 };

template <int64_t TYPE> DEVICE void linear_blocks_of(const launch &record, float *part)
{
    const int64_t *d = record.dims, rows = d[linear_blocks_rows], outputs = d[linear_blocks_outputs];
    const int64_t runs = d[linear_blocks_inputs] / BLOCK, bands = PARTS(outputs, BAND);
    const activations *x = (const activations *)record.pointers[linear_blocks_xq];
    const uint8_t *w = (const uint8_t *)record.pointers[linear_blocks_w];
    const float *residual = (const float *)record.pointers[linear_blocks_residual];
    const int s = LANE / BAND;
    FOR_EACH_BLOCK(unit, bands * PARTS(rows, ROWS))
    {
        const int64_t first = unit / bands * ROWS, output = unit % bands * BAND + LANE % BAND;
        float sums[ROWS] = {0};
        if (output < outputs)
            for (int64_t k = WARP; k < runs; k += SPLIT) {
                const weights four = weights_at(w, TYPE, output, k, runs, s);
                const float least[2] = {four.minimums[0] + four.scales[0] * (float)four.bias,
                                        four.minimums[1] + four.scales[1] * (float)four.bias};
                for (int r = 0; r < ROWS; r++)
                    if (first + r < rows) {
                        const activations *own = x + (first + r) * runs + k;
                        const int *values = (const int *)own->values;
                        const int low = values[s], high = values[4 + s];
                        const float a = four.scales[0] * (float)__dp4a(four.numbers[0], low, 0) -
                                        least[0] * (float)__dp4a(low, (int)ONES, 0);
                        const float b = four.scales[1] * (float)__dp4a(four.numbers[1], high, 0) -
                                        least[1] * (float)__dp4a(high, (int)ONES, 0);
                        sums[r] += own->scale * (a + b);
                    }
            }
        for (int r = 0; r < ROWS; r++) {
            sums[r] += __shfl_xor_sync(EVERY_LANE, sums[r], 8);
            sums[r] += __shfl_xor_sync(EVERY_LANE, sums[r], 16);
            if (LANE < BAND)
                part[(WARP * ROWS + r) * BAND + LANE] = sums[r];
        }
        __syncthreads();
        const int r = LANE / BAND;
        if (WARP == 0 && first + r < rows && output < outputs) {
            float sum = residual ? residual[(first + r) * d[linear_blocks_residual_stride] + output] : 0.0f;
            for (int warp = 0; warp < SPLIT; warp++)
                sum += part[(warp * ROWS + r) * BAND + LANE % BAND];
            ((float *)record.pointers[linear_blocks_y])[(first + r) * d[linear_blocks_y_stride] + output] = sum;
        }
        __syncthreads();
    }
}

#define OF_TYPE(code)                                                                                                  \
    case code:                                                                                                         \
        linear_blocks_of<code>(record, part);                                                                          \
        break;

DEVICE bool is_bad(const launch &record)
{
    const block_type kind = type_of(record.dims[linear_blocks_type]);
    return kind.nbytes == 0 || record.dims[linear_blocks_inputs] % kind.values;
}

STEP(linear_blocks, 1, CHOOSE(rows <= FEW_ROWS, 0, PARTS(outputs, 64) * PARTS(rows, 128)), 256, 0)
{
    __shared__ int8_tile tile;
    const int64_t *d = record.dims, type = d[linear_blocks_type], runs = d[linear_blocks_inputs] / BLOCK;
    const uint8_t *w = (const uint8_t *)record.pointers[linear_blocks_w];
    const float *residual = (const float *)record.pointers[linear_blocks_residual];
    if (is_bad(record)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const auto weights_of = [=](int64_t output, int64_t k, int s) { return weights_at(w, type, output, k, runs, s); };
    const auto put = [&](int64_t row, int64_t output, float sum) {
        if (residual)
            sum += residual[row * d[linear_blocks_residual_stride] + output];
        ((float *)record.pointers[linear_blocks_y])[row * d[linear_blocks_y_stride] + output] = sum;
    };
    const activations *x = (const activations *)record.pointers[linear_blocks_xq];
    if (type_of(type).runs16)
        int8_product<true>(&tile, x, d[linear_blocks_rows], d[linear_blocks_outputs], runs, weights_of, put);
    else
        int8_product<false>(&tile, x, d[linear_blocks_rows], d[linear_blocks_outputs], runs, weights_of, put);
}

KERNEL(linear_blocks, CHOOSE(rows <= FEW_ROWS, PARTS(outputs, 8) * PARTS(rows, 4), 0), 128, 0)
{
    __shared__ float part[SPLIT * ROWS * BAND];
    if (is_bad(record)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    switch (record.dims[linear_blocks_type]) {
        OF_TYPE(Q4_0)
        OF_TYPE(Q4_1)
        OF_TYPE(Q5_0)
        OF_TYPE(Q5_1)
        OF_TYPE(Q2_K)
        OF_TYPE(Q3_K)
        OF_TYPE(Q4_K)
        OF_TYPE(Q5_K)
        OF_TYPE(Q6_K)
        OF_TYPE(Q8_0)
        OF_TYPE(Q8_1)
        OF_TYPE(Q8_K)
        OF_TYPE(IQ4_NL)
        OF_TYPE(IQ4_XS)
        OF_TYPE(MXFP4)
    }
}
