/* y = x w^T (+ residual) with int8 weights in bands and int8 activations. A few rows: int8_rows.h; many: int8_tiles.h. */
#include "int8_rows.h"

template <int SCALE_BYTES> DEVICE void linear_q8(const launch &record, float *gathered)
{
    const int64_t *d = record.dims, runs = PARTS(d[linear_q8_0_inputs], BLOCK);
    const float *residual = (const float *)record.pointers[linear_q8_0_residual];
    float *y = (float *)record.pointers[linear_q8_0_y];
    const auto put = [&](int64_t row, int64_t output, float sum) {
        if (residual)
            sum += residual[row * d[linear_q8_0_residual_stride] + output];
        y[row * d[linear_q8_0_y_stride] + output] = sum;
    };
    const q8_source<SCALE_BYTES> source{(const uint8_t *)record.pointers[linear_q8_0_w], runs};
    int8_few_rows(gathered, source, (const activations *)record.pointers[linear_q8_0_xq], d[linear_q8_0_rows],
                  d[linear_q8_0_outputs], runs, put);
}

template <int SCALE_BYTES> DEVICE void linear_q8_tiles(const launch &record, int8_tile *tile)
{
    const int64_t *d = record.dims, blocks = PARTS(d[linear_q8_0_inputs], BLOCK);
    const uint8_t *w = (const uint8_t *)record.pointers[linear_q8_0_w];
    const float *residual = (const float *)record.pointers[linear_q8_0_residual];
    const auto weights_of = [=](int64_t output, int64_t k, int s) {
        return q8_weights<SCALE_BYTES>(w, output, k, blocks, s);
    };
    const auto put = [&](int64_t row, int64_t output, float sum) {
        if (residual)
            sum += residual[row * d[linear_q8_0_residual_stride] + output];
        ((float *)record.pointers[linear_q8_0_y])[row * d[linear_q8_0_y_stride] + output] = sum;
    };
    int8_product<false>(tile, (const activations *)record.pointers[linear_q8_0_xq], d[linear_q8_0_rows],
                        d[linear_q8_0_outputs], blocks, weights_of, put);
}

VARIANT(linear_q8_0, ROWS_KIND)
VARIANT(linear_q8_group, ROWS_KIND)

STEP(linear_q8_0, 1, CHOOSE(rows <= FEW_ROWS, 0, PARTS(outputs, 64) * PARTS(rows, 128)), 256, 0)
{
    __shared__ int8_tile tile;
    if (COMPILED(VARIED == 0))
        linear_q8_tiles<2>(record, &tile);
}

STEP(linear_q8_group, 1, CHOOSE(rows <= FEW_ROWS, 0, PARTS(outputs, 64) * PARTS(rows, 128)), 256, 0)
{
    __shared__ int8_tile tile;
    if (COMPILED(VARIED == 0))
        linear_q8_tiles<4>(record, &tile);
}

#define FETCH_AHEAD(kernel, rows, bytes)                                                                               \
    fetch_bands_ahead(record.pointers[kernel##_w], PARTS(record.dims[kernel##_inputs], BLOCK) * bytes, rows,           \
                      record.dims[kernel##_outputs])

AHEAD(linear_q8_0) { FETCH_AHEAD(linear_q8_0, record.dims[linear_q8_0_rows], q8_0_bytes); }
KERNEL(linear_q8_0, CHOOSE(rows <= FEW_ROWS, ROWS_BLOCKS, 0), 256, 0)
{
    __shared__ float gathered[MOST_GATHERED];
    linear_q8<2>(record, gathered);
}

AHEAD(linear_q8_group) { FETCH_AHEAD(linear_q8_group, record.dims[linear_q8_group_rows], q8_group_bytes); }
KERNEL(linear_q8_group, CHOOSE(rows <= FEW_ROWS, ROWS_BLOCKS, 0), 256, 0)
{
    __shared__ float gathered[MOST_GATHERED];
    linear_q8<4>(record, gathered);
}

VARIANT(quantize_linear_q8_0, OWN_ROW_KIND)

AHEAD(quantize_linear_q8_0) { FETCH_AHEAD(quantize_linear_q8_0, 1, q8_0_bytes); }
KERNEL(quantize_linear_q8_0, OWN_ROW_BLOCKS, 256, OWN_ROW_SHARED)
{
    DYNAMIC_SHARED(activations, row);
    if (is_bad_row(record)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int64_t runs = PARTS(record.dims[quantize_linear_q8_0_inputs], BLOCK);
    if (COMPILED(VARIED == OWN_ROW_KIND))
        int8_own_row(record, row, q8_source<2>{(const uint8_t *)record.pointers[quantize_linear_q8_0_w], runs});
}
