/* Power spectra of windows of sound, and Whisper's logarithmic mel spectrum.
 *
 * Lanes are windows. A real transform of `size` is a complex one of half the size, of (even, odd) samples, taken apart
 * afterwards; that one goes by radices 5, 4 and 2.
 */
#include "fourier_passes.h"
#include "vmath.h"

enum { MOST = 512 };

typedef struct transform {
    const float *samples;
    int64_t frames, hop;
    stages s;
    vfloat memory[2][MOST];
    vfloat power[MOST / 2 + 1];
} transform;

/* Windows first .. first + LANES - 1 times the periodic Hann window; beyond the last window: that one again. */
static void take_windows(transform *t, int64_t first)
{
    float *to = (float *)t->memory[0];
    for (int lane = 0; lane < LANES; lane += 4) {
        const float *from[4];
        for (int j = 0; j < 4; j++) {
            const int64_t frame = first + lane + j < t->frames ? first + lane + j : t->frames - 1;
            from[j] = t->samples + frame * t->hop;
        }
        int64_t i = 0;
        for (; i + 4 <= t->s.size; i += 4) {
            quad four[4];
            UNROLL for (int j = 0; j < 4; j++) four[j] = quad_at(from[j], i, KIND_F32);
            transpose4(&four[0], &four[1], &four[2], &four[3]);
            UNROLL for (int j = 0; j < 4; j++) * (quad_unaligned *)(to + (i + j) * LANES + lane) = four[j];
        }
        for (; i < t->s.size; i++)
            for (int j = 0; j < 4; j++)
                to[i * LANES + lane + j] = from[j][i];
    }
    for (int64_t i = 0; i < t->s.size; i++)
        t->memory[0][i] *= 0.5f - 0.5f * t->s.roots[2 * i];
    t->s.now = t->memory[0];
    t->s.next = t->memory[1];
}

/* power[0 .. size / 2] of LANES windows. */
static void transform_windows(transform *t, int64_t first)
{
    const int64_t half = t->s.size / 2;
    take_windows(t, first);
    for (int64_t length = half, step = 1; length > 1;) {
        const int radix = length % 5 == 0 ? 5 : length % 4 == 0 ? 4 : 2;
        if (radix == 5)
            pass(&t->s, length, step, 5);
        else if (radix == 4)
            pass(&t->s, length, step, 4);
        else
            pass(&t->s, length, step, 2);
        length /= radix;
        step *= radix;
    }
    for (int64_t k = 0; 2 * k <= half; k++) {
        const vfloat *a = t->s.now + 2 * k, *b = t->s.now + 2 * (k ? half - k : 0);
        const vfloat even_re = a[0] + b[0], even_im = a[1] - b[1], odd_re = a[1] + b[1], odd_im = b[0] - a[0];
        const float cosine = t->s.roots[2 * k], sine = t->s.roots[2 * k + 1];
        const vfloat re = vfma(odd_re, vsplat(cosine), odd_im * sine);
        const vfloat im = vfma(odd_im, vsplat(cosine), odd_re * -sine);
        const vfloat high_re = even_re - re, high_im = even_im - im, low_re = even_re + re, low_im = even_im + im;
        t->power[half - k] = vfma(high_re, high_re, high_im * high_im) * 0.25f;
        t->power[k] = vfma(low_re, low_re, low_im * low_im) * 0.25f;
    }
}

/* From a record whose second and third pointers are samples and roots, and whose dims begin with frames, hop, size. */
static int begin(transform *t, const launch *record)
{
    t->samples = record->pointers[log_mel_f32_samples];
    t->s.roots = record->pointers[log_mel_f32_roots];
    t->frames = record->dims[log_mel_f32_frames];
    t->hop = record->dims[log_mel_f32_hop];
    t->s.size = record->dims[log_mel_f32_size];
    int64_t rest = t->s.size / 2;
    if (t->s.size < 2 || t->s.size > MOST || t->s.size % 2)
        return KERNEL_BAD_ARGUMENT;
    while (rest % 2 == 0 || rest % 5 == 0)
        rest /= rest % 2 == 0 ? 2 : 5;
    return rest == 1 ? KERNEL_OK : KERNEL_BAD_ARGUMENT;
}

KERNEL(power_spectrum_f32)
{
    float *y = record->pointers[power_spectrum_f32_y];
    const int64_t y_stride = record->dims[power_spectrum_f32_y_stride];
    int64_t first, last;
    transform t;
    if (record->dims[power_spectrum_f32_frames] <= 0)
        return KERNEL_OK;
    if (begin(&t, record))
        return KERNEL_BAD_ARGUMENT;
    worker_share(t.frames, LANES, worker, workers, &first, &last);
    for (int64_t frame = first; frame < last; frame += LANES) {
        transform_windows(&t, frame);
        for (int64_t bin = 0; 2 * bin <= t.s.size; bin++)
            vstore_up_to(y + bin * y_stride + frame, t.power[bin], last - frame);
    }
    return KERNEL_OK;
}

KERNEL(log_mel_f32)
{
    float *y = record->pointers[log_mel_f32_y];
    const float *filters = record->pointers[log_mel_f32_filters];
    const int32_t *ranges = record->pointers[log_mel_f32_ranges];
    const int64_t mels = record->dims[log_mel_f32_mels], y_stride = record->dims[log_mel_f32_y_stride];
    int64_t first, last;
    transform t;
    if (record->dims[log_mel_f32_frames] <= 0 || mels <= 0)
        return KERNEL_OK;
    if (begin(&t, record))
        return KERNEL_BAD_ARGUMENT;
    const int64_t bins = t.s.size / 2 + 1;
    for (int64_t mel = 0; mel < mels; mel++)
        if (ranges[2 * mel] < 0 || ranges[2 * mel] > ranges[2 * mel + 1] || ranges[2 * mel + 1] > bins)
            return KERNEL_INDEX_RANGE;
    worker_share(t.frames, LANES, worker, workers, &first, &last);
    for (int64_t frame = first; frame < last; frame += LANES) {
        transform_windows(&t, frame);
        for (int64_t mel = 0; mel < mels; mel++) {
            vfloat sum = vzero();
            for (int64_t bin = ranges[2 * mel]; bin < ranges[2 * mel + 1]; bin++)
                sum = vfma(t.power[bin], vsplat(filters[mel * bins + bin]), sum);
            const vfloat floor = vsplat(record->floats[log_mel_f32_smallest]);
            const vfloat held = vselect(sum < floor, floor, sum); /* NaN stays */
            vstore_up_to(y + mel * y_stride + frame, vlog(held) * 0.434294482f, last - frame);
        }
    }
    return KERNEL_OK;
}
