/* The states and outputs of Mamba's layers. */
#include "vmath.h"

#if !defined(__wasm__) /* see absent.c */
/* The tokens of one channel. */
INLINE void scan_channel(const launch *record, int64_t text, int64_t channel)
{
    const int64_t *d = record->dims, tokens = d[selective_scan_f32_tokens], channels = d[selective_scan_f32_channels];
    const int64_t size = d[selective_scan_f32_size];
    float *state = (float *)record->pointers[selective_scan_f32_state] + (text * channels + channel) * size;
    const float *decay = (const float *)record->pointers[selective_scan_f32_decay] + channel * size;
    const float *inward = (const float *)record->pointers[selective_scan_f32_inward] + text * tokens * size;
    const float *outward = (const float *)record->pointers[selective_scan_f32_outward] + text * tokens * size;
    for (int64_t t = 0; t < tokens; t++, inward += size, outward += size) {
        const int64_t at = (text * tokens + t) * channels + channel;
        const float step = ((const float *)record->pointers[selective_scan_f32_steps])[at];
        const vfloat steps = vsplat(step);
        const vfloat added = vsplat(step * ((const float *)record->pointers[selective_scan_f32_x])[at]);
        vfloat sum = vzero();
        int64_t n = 0;
        for (; n + LANES <= size; n += LANES) {
            const vfloat kept = vexp(steps * vload(decay + n)) * vload(state + n);
            const vfloat now = vfma(added, vload(inward + n), kept);
            vstore(state + n, now);
            sum = vfma(now, vload(outward + n), sum);
        }
        if (n < size) {
            const vfloat kept = vexp(steps * vload_part(decay + n, size - n)) * vload_part(state + n, size - n);
            const vfloat now = vfma(added, vload_part(inward + n, size - n), kept);
            vstore_part(state + n, now, size - n);
            sum = vfma(now, vload_part(outward + n, size - n), sum);
        }
        ((float *)record->pointers[selective_scan_f32_y])[at] = vsum(sum);
    }
}

KERNEL(selective_scan_f32)
{
    const int64_t *d = record->dims, channels = d[selective_scan_f32_channels];
    int64_t first, last;
    if (d[selective_scan_f32_texts] < 0 || d[selective_scan_f32_tokens] < 0 || channels < 0 ||
        d[selective_scan_f32_size] < 0)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[selective_scan_f32_texts] * channels, 16, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++)
        scan_channel(record, i / channels, i % channels);
    return KERNEL_OK;
}
#endif
