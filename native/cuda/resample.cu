/* Samples along a dim, each a sum of few elements with weights: pictures at another size, and their gradients. */
#include "gpu.h"

STEP(resample, 0, PARTS(MAX(out, entries), 256), 256, 0)
{
    const int64_t *d = record.dims, type = d[resample_type], out = d[resample_out], entries = d[resample_entries];
    const int32_t *starts = (const int32_t *)record.pointers[resample_starts];
    const int32_t *places = (const int32_t *)record.pointers[resample_places];
    if ((type != TYPE_float32 && type != TYPE_uint8) ||
        (type == TYPE_uint8 && (d[resample_precision] < 1 || d[resample_precision] > 30))) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    if (starts[0] != 0 || starts[out] != entries)
        report(KERNEL_INDEX_RANGE);
    FOR_EACH(o, out)
    if (starts[o + 1] < starts[o])
        report(KERNEL_INDEX_RANGE);
    FOR_EACH(k, entries)
    if (places[k] < 0 || places[k] >= d[resample_size])
        report(KERNEL_INDEX_RANGE);
}

KERNEL(resample, PARTS(MAX(outer, 0) * MAX(out, 0) * MAX(inner, 0), 256), 256, 0)
{
    const int64_t *d = record.dims, size = d[resample_size], out = d[resample_out], inner = d[resample_inner];
    const int32_t *starts = (const int32_t *)record.pointers[resample_starts];
    const int32_t *places = (const int32_t *)record.pointers[resample_places];
    const int precision = (int)d[resample_precision];
    if (failed)
        return;
    FOR_EACH(i, d[resample_outer] * out * inner)
    {
        const int64_t sample = quotient(i, inner), row = quotient(sample, out), o = sample - row * out;
        const int64_t from = row * size * inner + i - sample * inner;
        if (d[resample_type] == TYPE_float32) {
            const float *x = (const float *)record.pointers[resample_x] + from;
            const float *weights = (const float *)record.pointers[resample_weights];
            float sum = 0;
            for (int32_t k = starts[o]; k < starts[o + 1]; k++)
                sum = fmaf(weights[k], x[places[k] * inner], sum);
            ((float *)record.pointers[resample_y])[i] = sum;
        } else { /* in fixed point */
            const uint8_t *x = (const uint8_t *)record.pointers[resample_x] + from;
            const int32_t *weights = (const int32_t *)record.pointers[resample_weights];
            int32_t sum = 1 << (precision - 1);
            for (int32_t k = starts[o]; k < starts[o + 1]; k++)
                sum += weights[k] * x[places[k] * inner];
            sum >>= precision;
            ((uint8_t *)record.pointers[resample_y])[i] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
        }
    }
}
