/* The states and outputs of Mamba's layers: a thread for each channel. */
#include "gpu.h"

KERNEL(selective_scan_f32, PARTS(MAX(1, texts *channels), 64), 64, 0)
{
    const int64_t *d = record.dims, tokens = d[selective_scan_f32_tokens], channels = d[selective_scan_f32_channels];
    const int64_t size = d[selective_scan_f32_size], texts = d[selective_scan_f32_texts];
    const float *x = (const float *)record.pointers[selective_scan_f32_x];
    const float *steps = (const float *)record.pointers[selective_scan_f32_steps];
    const float *decays = (const float *)record.pointers[selective_scan_f32_decay];
    if (texts < 0 || tokens < 0 || channels < 0 || size < 0)
        return report(KERNEL_BAD_ARGUMENT);
    FOR_EACH(i, texts * channels)
    {
        const int64_t text = i / channels, channel = i % channels;
        float *state = (float *)record.pointers[selective_scan_f32_state] + i * size;
        const float *decay = decays + channel * size;
        const float *inward = (const float *)record.pointers[selective_scan_f32_inward] + text * tokens * size;
        const float *outward = (const float *)record.pointers[selective_scan_f32_outward] + text * tokens * size;
        for (int64_t t = 0; t < tokens; t++, inward += size, outward += size) {
            const int64_t at = (text * tokens + t) * channels + channel;
            const float step = steps[at], added = step * x[at];
            float sum = 0;
            for (int64_t n = 0; n < size; n++) {
                state[n] = expf(step * decay[n]) * state[n] + added * inward[n];
                sum += state[n] * outward[n];
            }
            ((float *)record.pointers[selective_scan_f32_y])[at] = sum;
        }
    }
}
