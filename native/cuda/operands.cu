/* Operands of 16 bits for NVIDIA's library, which has no products of float32 and 16 bits, or of weights in blocks: `scratch` is
 * where the operand goes. Rows of x are rounded to the type of the weights. Weights in blocks become float16, a slice of the
 * outputs at a time: its first output is the record's last dim, `outputs` is how many it has.
 * Finite numbers beyond float16 become its largest. */
#include "weights.h"

enum { FIRST_OUTPUT = LAUNCH_DIMS - 1, PIECE = 8 /* elements that a thread stores at a time */ };
#define OPERAND_ROW(inputs) (PARTS(inputs, 32) * 32) /* elements that rows are apart */

template <int TYPE> DEVICE uint32_t narrow(float low, float high)
{
    if (TYPE == TYPE_bfloat16)
        return float_to_bf16(low) | (uint32_t)float_to_bf16(high) << 16;
    low = low - low == 0 ? fminf(fmaxf(low, -65504.0f), 65504.0f) : low;
    high = high - high == 0 ? fminf(fmaxf(high, -65504.0f), 65504.0f) : high;
    return float_to_f16(low) | (uint32_t)float_to_f16(high) << 16;
}

template <int TYPE> DEVICE void narrow_rows(const launch &record, uint16_t *to)
{
    const int64_t *d = record.dims, inputs = d[linear_f32_inputs], stride = d[linear_f32_x_stride],
                  pieces = OPERAND_ROW(inputs) / PIECE;
    const float *x = (const float *)record.pointers[linear_f32_x];
    FOR_EACH(i, d[linear_f32_rows] * pieces)
    {
        const int64_t row = i / pieces, column = i % pieces * PIECE;
        const float *from = x + row * stride + column;
        float part[PIECE];
        if (column + PIECE <= inputs && (uint64_t)from % 16 == 0) {
            const float4 low = *(const float4 *)from, high = *(const float4 *)(from + 4);
            part[0] = low.x, part[1] = low.y, part[2] = low.z, part[3] = low.w;
            part[4] = high.x, part[5] = high.y, part[6] = high.z, part[7] = high.w;
        } else
            for (int j = 0; j < PIECE; j++)
                part[j] = column + j < inputs ? from[j] : 0.0f;
        *(uint4 *)(to + row * OPERAND_ROW(inputs) + column) =
            uint4{narrow<TYPE>(part[0], part[1]), narrow<TYPE>(part[2], part[3]), narrow<TYPE>(part[4], part[5]),
                  narrow<TYPE>(part[6], part[7])};
    }
}

OPERANDS(linear_f16, x, PARTS(rows *OPERAND_ROW(inputs), 2048), 256)
{
    narrow_rows<TYPE_float16>(record, (uint16_t *)scratch);
}

OPERANDS(linear_bf16, x, PARTS(rows *OPERAND_ROW(inputs), 2048), 256)
{
    narrow_rows<TYPE_bfloat16>(record, (uint16_t *)scratch);
}

/* Four lanes have a block of 32 columns. */
DEVICE void widen_activations(const launch &record, uint16_t *to)
{
    const int64_t blocks = PARTS(record.dims[linear_q8_0_inputs], BLOCK);
    const activations *xq = (const activations *)record.pointers[linear_q8_0_xq];
    FOR_EACH(i, record.dims[linear_q8_0_rows] * blocks * 4)
    {
        const activations *own = xq + i / 4;
        const int8_t *values = own->values + i % 4 * PIECE;
        const float scale = own->scale;
        uint32_t pairs[4];
        for (int j = 0; j < 4; j++)
            pairs[j] = narrow<TYPE_float16>(scale * (float)values[2 * j], scale * (float)values[2 * j + 1]);
        *(uint4 *)(to + i * PIECE) = uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
    }
}

/* A warp has a row of eight blocks of 32 columns; the eight rows of a block of threads lie in one band. */
template <class Weights> DEVICE void widen_weights(const launch &record, uint16_t *to, Weights weights_of)
{
    const int64_t *d = record.dims, blocks = PARTS(d[linear_q8_0_inputs], BLOCK), across = PARTS(blocks, 8);
    FOR_EACH_BLOCK(unit, PARTS(d[linear_q8_0_outputs], BAND) * across)
    {
        const int64_t row = unit / across * BAND + WARP, k = unit % across * 8 + LANE / 4;
        const int s = LANE % 4;
        if (row >= d[linear_q8_0_outputs] || k >= blocks)
            continue;
        const weights four = weights_of(d[FIRST_OUTPUT] + row, k, s);
        for (int h = 0; h < 2; h++) {
            float part[4];
            for (int j = 0; j < 4; j++)
                part[j] = four.scales[h] * (float)((int8_t)(four.numbers[h] >> 8 * j) - four.bias) - four.minimums[h];
            *(uint2 *)(to + (row * blocks + k) * BLOCK + 16 * h + 4 * s) =
                uint2{narrow<TYPE_float16>(part[0], part[1]), narrow<TYPE_float16>(part[2], part[3])};
        }
    }
}

template <int SCALE_BYTES> DEVICE void widen_q8(const launch &record, uint16_t *to)
{
    const int64_t blocks = PARTS(record.dims[linear_q8_0_inputs], BLOCK);
    const uint8_t *w = (const uint8_t *)record.pointers[linear_q8_0_w];
    widen_weights(record, to,
                  [=](int64_t output, int64_t k, int s) { return q8_weights<SCALE_BYTES>(w, output, k, blocks, s); });
}

OPERANDS(linear_q8_0, xq, PARTS(rows *OPERAND_ROW(inputs), 2048), 256)
{
    widen_activations(record, (uint16_t *)scratch);
}

OPERANDS(linear_q8_group, xq, PARTS(rows *OPERAND_ROW(inputs), 2048), 256)
{
    widen_activations(record, (uint16_t *)scratch);
}

OPERANDS(linear_blocks, xq, PARTS(rows *OPERAND_ROW(inputs), 2048), 256)
{
    widen_activations(record, (uint16_t *)scratch);
}

OPERANDS(linear_q8_0, w, PARTS(outputs, 8) * PARTS(inputs, 256), 256) { widen_q8<2>(record, (uint16_t *)scratch); }

OPERANDS(linear_q8_group, w, PARTS(outputs, 8) * PARTS(inputs, 256), 256) { widen_q8<4>(record, (uint16_t *)scratch); }

OPERANDS(linear_blocks, w, PARTS(outputs, 8) * PARTS(inputs, 256), 256)
{
    const int64_t *d = record.dims, type = d[linear_blocks_type], blocks = d[linear_blocks_inputs] / BLOCK;
    const uint8_t *w = (const uint8_t *)record.pointers[linear_blocks_w];
    if (type_of(type).nbytes == 0 || d[linear_blocks_inputs] % type_of(type).values) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
#define WIDEN_TYPE(name, code, ...)                                                                                    \
    case code:                                                                                                         \
        widen_weights(record, (uint16_t *)scratch,                                                                     \
                      [=](int64_t output, int64_t k, int s) { return weights_at(w, code, output, k, blocks, s); });    \
        break;
    switch (type) {
        BAND_TYPES(WIDEN_TYPE)
        ROW_TYPES(WIDEN_TYPE)
    }
}
