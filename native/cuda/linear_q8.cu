/* y = x w^T (+ residual) with int8 weights in bands and int8 activations. Many rows: int8_tiles.h. A few: a block of threads makes a band of eight outputs
 * for up to ROWS rows of x: its warps share the columns; a lane takes four of a block's 32 columns of one output at a time. */
#include "int8_tiles.h"

enum { ROWS = 4, SPLIT = 4 };

/* sums[r] of a lane: of its columns of output LANE % 8. In the end every lane of warp 0 has those of its output. */
DEVICE void finish(float sums[ROWS], float *part, const launch &record, int64_t band, int64_t first, int64_t rows,
                   int64_t outputs, int64_t y_stride, int64_t residual_stride)
{
    const int64_t output = band * BAND + LANE % BAND;
    for (int r = 0; r < ROWS; r++) {
        sums[r] += __shfl_xor_sync(EVERY_LANE, sums[r], 8);
        sums[r] += __shfl_xor_sync(EVERY_LANE, sums[r], 16);
        if (LANE < BAND)
            part[(WARP * ROWS + r) * BAND + LANE] = sums[r];
    }
    __syncthreads();
    const int r = LANE / BAND;
    if (WARP == 0 && first + r < rows && output < outputs) {
        float sum = 0;
        for (int warp = 0; warp < SPLIT; warp++)
            sum += part[(warp * ROWS + r) * BAND + LANE % BAND];
        const float *residual = (const float *)record.pointers[linear_q8_0_residual];
        if (residual)
            sum += residual[(first + r) * residual_stride + output];
        ((float *)record.pointers[linear_q8_0_y])[(first + r) * y_stride + output] = sum;
    }
    __syncthreads();
}

template <int SCALE_BYTES> DEVICE void linear_q8(const launch &record, float *part)
{
    const int64_t *d = record.dims, rows = d[linear_q8_0_rows], outputs = d[linear_q8_0_outputs];
    const int64_t blocks = PARTS(d[linear_q8_0_inputs], BLOCK), bands = PARTS(outputs, BAND);
    const activations *x = (const activations *)record.pointers[linear_q8_0_xq];
    const int64_t bytes = BAND * SCALE_BYTES + BAND_BYTES;
    FOR_EACH_BLOCK(unit, bands * PARTS(rows, ROWS))
    {
        const int64_t band = unit % bands, first = unit / bands * ROWS;
        const uint8_t *w = (const uint8_t *)record.pointers[linear_q8_0_w] + band * blocks * bytes;
        float sums[ROWS] = {0};
        for (int64_t k = WARP; k < blocks; k += SPLIT) {
            const uint8_t *block = w + k * bytes, *scale_at = block + LANE % BAND * SCALE_BYTES;
            const int *numbers = (const int *)(block + BAND * SCALE_BYTES); /* 16-byte aligned */
            const int low = numbers[LANE], high = numbers[32 + LANE];       /* steps LANE / 8 and 4 + LANE / 8 */
            const float scale = SCALE_BYTES == 2 ? f16_to_float(*(const uint16_t *)scale_at) : *(const float *)scale_at;
            for (int r = 0; r < ROWS; r++)
                if (first + r < rows) {
                    const activations *own = x + (first + r) * blocks + k;
                    const int *values = (const int *)own->values;
                    const int dot = __dp4a(high, values[4 + LANE / BAND], __dp4a(low, values[LANE / BAND], 0));
                    sums[r] += (float)dot * (scale * own->scale);
                }
        }
        finish(sums, part, record, band, first, rows, outputs, d[linear_q8_0_y_stride], d[linear_q8_0_residual_stride]);
    }
}

template <int SCALE_BYTES> DEVICE void linear_q8_tiles(const launch &record, int8_tile *tile)
{
    const int64_t *d = record.dims, blocks = PARTS(d[linear_q8_0_inputs], BLOCK);
    const uint8_t *w = (const uint8_t *)record.pointers[linear_q8_0_w];
    const float *residual = (const float *)record.pointers[linear_q8_0_residual];
    const auto weights_of = [=](int64_t output, int64_t k, int s) {
        const uint8_t *block = w + (output / BAND * blocks + k) * (BAND * SCALE_BYTES + BAND_BYTES);
        const uint8_t *scale_at = block + output % BAND * SCALE_BYTES;
        const int *numbers = (const int *)(block + BAND * SCALE_BYTES) + output % BAND;
        const float scale = SCALE_BYTES == 2 ? f16_to_float(*(const uint16_t *)scale_at) : *(const float *)scale_at;
        return weights{{numbers[s * BAND], numbers[(4 + s) * BAND]}, 0, {scale, scale}, {0, 0}};
    };
    const auto put = [&](int64_t row, int64_t output, float sum) {
        if (residual)
            sum += residual[row * d[linear_q8_0_residual_stride] + output];
        ((float *)record.pointers[linear_q8_0_y])[row * d[linear_q8_0_y_stride] + output] = sum;
    };
    int8_product<false>(tile, (const activations *)record.pointers[linear_q8_0_xq], d[linear_q8_0_rows],
                        d[linear_q8_0_outputs], blocks, weights_of, put);
}

STEP(linear_q8_0, 1, CHOOSE(rows <= FEW_ROWS, 0, PARTS(outputs, 64) * PARTS(rows, 128)), 256, 0)
{
    __shared__ int8_tile tile;
    linear_q8_tiles<2>(record, &tile);
}

STEP(linear_q8_group, 1, CHOOSE(rows <= FEW_ROWS, 0, PARTS(outputs, 64) * PARTS(rows, 128)), 256, 0)
{
    __shared__ int8_tile tile;
    linear_q8_tiles<4>(record, &tile);
}

KERNEL(linear_q8_0, CHOOSE(rows <= FEW_ROWS, PARTS(outputs, 8) * PARTS(rows, 4), 0), 128, 0)
{
    __shared__ float part[SPLIT * ROWS * BAND];
    linear_q8<2>(record, part);
}

KERNEL(linear_q8_group, CHOOSE(rows <= FEW_ROWS, PARTS(outputs, 8) * PARTS(rows, 4), 0), 128, 0)
{
    __shared__ float part[SPLIT * ROWS * BAND];
    linear_q8<4>(record, part);
}
