/* y = x w^T (+ residual) with weights in any of GGML's block types and int8 activations. A few rows: int8_rows.h; many:
 * int8_tiles.h. A part of y is scale_x * (scale * sum(w * x) - minimum * sum(x)) of its columns, both sums exact. */
#include "int8_rows.h"

template <class Source> DEVICE void linear_blocks_of(const launch &record, float *gathered, const Source &source)
{
    const int64_t *d = record.dims;
    const float *residual = (const float *)record.pointers[linear_blocks_residual];
    float *y = (float *)record.pointers[linear_blocks_y];
    const auto put = [&](int64_t row, int64_t output, float sum) {
        if (residual)
            sum += residual[row * d[linear_blocks_residual_stride] + output];
        y[row * d[linear_blocks_y_stride] + output] = sum;
    };
    int8_few_rows(gathered, source, (const activations *)record.pointers[linear_blocks_xq], d[linear_blocks_rows],
                  d[linear_blocks_outputs], source.runs, put);
}

/* Many rows are compiled once for all types. */
VARIANT(linear_blocks, CHOOSE(rows > FEW_ROWS, 0, 4 * type + ROWS_KIND))
#define LINEAR_BLOCKS_TYPE KNOWN(VARIED / 4, record.dims[linear_blocks_type])
#define OWN_ROW_TYPE KNOWN(VARIED - OWN_ROW_KIND, record.dims[quantize_linear_blocks_type])

/* What is not compiled is not made of the templates either, which takes most of the compiler's time. */
template <int64_t TYPE, class Source> DEVICE void linear_blocks_if(const launch &record, float *gathered, Source source)
{
    if constexpr (COMPILED(VARIED / 4 == TYPE))
        linear_blocks_of(record, gathered, source);
}
#define IN_BANDS(name, code, ...)                                                                                      \
    case code:                                                                                                         \
        linear_blocks_if<code>(record, gathered, band_source<code>{w, runs});                                          \
        break;
#define IN_ROWS(name, code)                                                                                            \
    case code:                                                                                                         \
        linear_blocks_if<code>(record, gathered, row_source<code>{w, runs, outputs});                                  \
        break;

DEVICE bool is_bad(const launch &record, int64_t type)
{
    const block_type kind = type_of(type);
    return kind.nbytes == 0 || record.dims[linear_blocks_inputs] % kind.values;
}

STEP(linear_blocks, 1, CHOOSE(rows <= FEW_ROWS, 0, PARTS(outputs, 64) * PARTS(rows, 128)), 256, 0)
{
    if (!COMPILED(VARIED == 0))
        return;
    __shared__ int8_tile tile;
    const int64_t *d = record.dims, type = d[linear_blocks_type], runs = d[linear_blocks_inputs] / BLOCK;
    const uint8_t *w = (const uint8_t *)record.pointers[linear_blocks_w];
    const float *residual = (const float *)record.pointers[linear_blocks_residual];
    if (is_bad(record, type)) {
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

/* Types that do not lie in bands lie in rows, eight of which have the bytes of a band. */
DEVICE void fetch_blocks_ahead(const void *w, int64_t type, int64_t inputs, int64_t rows, int64_t outputs)
{
    const block_type kind = type_of(type);
    if (kind.nbytes == 0)
        return;
    const int64_t blocks = inputs / kind.values;
    if (in_bands(type))
        fetch_bands_ahead(w, blocks * band_bytes(type), rows, outputs);
    else
        fetch_rows_ahead(w, blocks * kind.nbytes, (int64_t)blockIdx.x * 16, 16, outputs);
}

AHEAD(linear_blocks)
{
    const int64_t *d = record.dims;
    fetch_blocks_ahead(record.pointers[linear_blocks_w], LINEAR_BLOCKS_TYPE, d[linear_blocks_inputs],
                       d[linear_blocks_rows], d[linear_blocks_outputs]);
}
KERNEL(linear_blocks, CHOOSE(rows <= FEW_ROWS, ROWS_BLOCKS, 0), 256, 0)
{
    __shared__ float gathered[MOST_GATHERED];
    const int64_t runs = record.dims[linear_blocks_inputs] / BLOCK, outputs = record.dims[linear_blocks_outputs];
    const uint8_t *w = (const uint8_t *)record.pointers[linear_blocks_w];
    if (is_bad(record, LINEAR_BLOCKS_TYPE)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    switch (LINEAR_BLOCKS_TYPE) {
        BAND_TYPES(IN_BANDS)
        ROW_TYPES(IN_ROWS)
    }
}

_Static_assert((int)quantize_linear_blocks_epsilon == (int)quantize_linear_q8_0_epsilon &&
                   (int)quantize_linear_blocks_weight_type == (int)quantize_linear_q8_0_weight_type &&
                   (int)quantize_linear_blocks_xq == (int)quantize_linear_q8_0_xq,
               "the slots differ");
VARIANT(quantize_linear_blocks, OWN_ROW_KIND + type)

template <int64_t TYPE, class Source> DEVICE void own_row_if(const launch &record, activations *row, Source source)
{
    if constexpr (COMPILED(VARIED == OWN_ROW_KIND + TYPE))
        int8_own_row(record, row, source);
}
#define OWN_IN_BANDS(name, code, ...)                                                                                  \
    case code:                                                                                                         \
        own_row_if<code>(record, row, band_source<code>{w, runs});                                                     \
        break;
#define OWN_IN_ROWS(name, code)                                                                                        \
    case code:                                                                                                         \
        own_row_if<code>(record, row, row_source<code>{w, runs, outputs});                                             \
        break;

AHEAD(quantize_linear_blocks)
{
    const int64_t *d = record.dims;
    fetch_blocks_ahead(record.pointers[quantize_linear_blocks_w], OWN_ROW_TYPE, d[quantize_linear_blocks_inputs], 1,
                       d[quantize_linear_blocks_outputs]);
}
KERNEL(quantize_linear_blocks, OWN_ROW_BLOCKS, 256, OWN_ROW_SHARED)
{
    DYNAMIC_SHARED(activations, row);
    const int64_t *d = record.dims, type = OWN_ROW_TYPE, inputs = d[quantize_linear_blocks_inputs];
    const int64_t runs = inputs / BLOCK, outputs = d[quantize_linear_blocks_outputs];
    const uint8_t *w = (const uint8_t *)record.pointers[quantize_linear_blocks_w];
    const block_type kind = type_of(type);
    if (kind.nbytes == 0 || inputs % kind.values || is_bad_row(record)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    switch (type) {
        BAND_TYPES(OWN_IN_BANDS)
        ROW_TYPES(OWN_IN_ROWS)
    }
}
