/* Power spectra and log-mel spectrograms. A block takes a frame: each thread sums the Fourier transform of some bins, which
 * for windows of a few hundred samples costs a card less than a transform in several passes. */
#include "gpu.h"

enum { MOST = 512 };

DEVICE bool is_bad(int64_t size)
{
    int64_t rest = size / 2;
    if (size < 2 || size > MOST || size % 2)
        return true;
    while (rest % 2 == 0 || rest % 5 == 0)
        rest /= rest % 2 == 0 ? 2 : 5;
    return rest != 1;
}

/* power[bin] of a window; `windowed` and `power` are shared. */
DEVICE void transform(float *windowed, float *power, const float *samples, const float *roots, int64_t size)
{
    FOR_THREADS(i, size) windowed[i] = samples[i] * (0.5f - 0.5f * roots[2 * i]); /* Hann */
    __syncthreads();
    FOR_THREADS(bin, size / 2 + 1)
    {
        float re = 0, im = 0;
        int64_t turn = 0; /* bin * i % size */
        for (int64_t i = 0; i < size; i++) {
            re += windowed[i] * roots[2 * turn];
            im -= windowed[i] * roots[2 * turn + 1];
            turn += bin;
            turn = turn >= size ? turn - size : turn;
        }
        power[bin] = re * re + im * im;
    }
    __syncthreads();
}

KERNEL(power_spectrum_f32, frames, 128, 0)
{
    __shared__ float windowed[MOST], power[MOST / 2 + 1];
    const int64_t *d = record.dims, size = d[power_spectrum_f32_size];
    if (is_bad(size)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH_BLOCK(frame, d[power_spectrum_f32_frames])
    {
        transform(windowed, power,
                  (const float *)record.pointers[power_spectrum_f32_samples] + frame * d[power_spectrum_f32_hop],
                  (const float *)record.pointers[power_spectrum_f32_roots], size);
        FOR_THREADS(bin, size / 2 + 1)
        ((float *)record.pointers[power_spectrum_f32_y])[bin * d[power_spectrum_f32_y_stride] + frame] = power[bin];
        __syncthreads();
    }
}

STEP(log_mel_f32, 0, PARTS(mels, 128), 128, 0)
{
    const int64_t size = record.dims[log_mel_f32_size], bins = size / 2 + 1;
    const int32_t *ranges = (const int32_t *)record.pointers[log_mel_f32_ranges];
    if (is_bad(size)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(mel, record.dims[log_mel_f32_mels])
    if (ranges[2 * mel] < 0 || ranges[2 * mel] > ranges[2 * mel + 1] || ranges[2 * mel + 1] > bins)
        report(KERNEL_INDEX_RANGE);
}

KERNEL(log_mel_f32, frames, 128, 0)
{
    __shared__ float windowed[MOST], power[MOST / 2 + 1];
    const int64_t *d = record.dims, size = d[log_mel_f32_size], bins = size / 2 + 1;
    const int32_t *ranges = (const int32_t *)record.pointers[log_mel_f32_ranges];
    const float *filters = (const float *)record.pointers[log_mel_f32_filters];
    const float smallest = record.floats[log_mel_f32_smallest];
    if (failed)
        return;
    FOR_EACH_BLOCK(frame, d[log_mel_f32_frames])
    {
        transform(windowed, power, (const float *)record.pointers[log_mel_f32_samples] + frame * d[log_mel_f32_hop],
                  (const float *)record.pointers[log_mel_f32_roots], size);
        FOR_THREADS(mel, d[log_mel_f32_mels])
        {
            float sum = 0;
            for (int64_t bin = ranges[2 * mel]; bin < ranges[2 * mel + 1]; bin++)
                sum += power[bin] * filters[mel * bins + bin];
            sum = sum < smallest ? smallest : sum; /* NaN stays */
            ((float *)record.pointers[log_mel_f32_y])[mel * d[log_mel_f32_y_stride] + frame] = log10f(sum);
        }
        __syncthreads();
    }
}
