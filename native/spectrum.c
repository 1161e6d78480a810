/* Power spectra of windows of sound, and Whisper's logarithmic mel spectrum.
 *
 * Lanes are windows, so that a transform is ordinary arithmetic without shuffles. A real transform of `size` is a complex
 * one of half the size, of (even, odd) samples, taken apart afterwards; that one goes by radices 5, 4 and 2 in an order
 * that needs no reversal (Stockham, 1966; see Cooley and Tukey, 1965).
 */
#include "vmath.h"

enum { MOST = 512 };

typedef struct transform {
    const float *samples;
    const float *roots; /* (size, 2): cos and sin of 2 pi i / size */
    int64_t frames, hop, size;
    vfloat *now, *next; /* (size / 2, 2): real and imaginary parts */
    vfloat memory[2][MOST];
    vfloat power[MOST / 2 + 1];
} transform;

typedef struct complex_vector {
    vfloat re, im;
} complex_vector;

INLINE complex_vector plus(complex_vector a, complex_vector b) { return (complex_vector){a.re + b.re, a.im + b.im}; }
INLINE complex_vector minus(complex_vector a, complex_vector b) { return (complex_vector){a.re - b.re, a.im - b.im}; }
INLINE complex_vector times_minus_i(complex_vector a) { return (complex_vector){a.im, -a.re}; }

/* a + f b + g c, for numbers f and g */
INLINE complex_vector mix(complex_vector a, float f, complex_vector b, float g, complex_vector c)
{
    return (complex_vector){vfma(c.re, vsplat(g), vfma(b.re, vsplat(f), a.re)),
                            vfma(c.im, vsplat(g), vfma(b.im, vsplat(f), a.im))};
}

/* The transform of `radix` numbers in place. */
INLINE void small_transform(complex_vector *a, const int radix)
{
    if (radix == 2) {
        const complex_vector sum = plus(a[0], a[1]);
        a[1] = minus(a[0], a[1]);
        a[0] = sum;
    } else if (radix == 4) {
        const complex_vector even = plus(a[0], a[2]), odd = plus(a[1], a[3]);
        const complex_vector rest = minus(a[0], a[2]), turned = times_minus_i(minus(a[1], a[3]));
        a[0] = plus(even, odd), a[2] = minus(even, odd);
        a[1] = plus(rest, turned), a[3] = minus(rest, turned);
    } else { /* 5: cos and sin of 72 and 144 degrees */
        const float c1 = 0.309016994f, c2 = -0.809016994f, s1 = 0.951056516f, s2 = 0.587785252f;
        const complex_vector none = {vzero(), vzero()};
        const complex_vector sum1 = plus(a[1], a[4]), sum2 = plus(a[2], a[3]);
        const complex_vector rest1 = minus(a[1], a[4]), rest2 = minus(a[2], a[3]);
        const complex_vector m1 = mix(a[0], c1, sum1, c2, sum2), m2 = mix(a[0], c2, sum1, c1, sum2);
        const complex_vector n1 = times_minus_i(mix(none, s1, rest1, s2, rest2));
        const complex_vector n2 = times_minus_i(mix(none, s2, rest1, -s1, rest2));
        a[0] = plus(a[0], plus(sum1, sum2));
        a[1] = plus(m1, n1), a[4] = minus(m1, n1);
        a[2] = plus(m2, n2), a[3] = minus(m2, n2);
    }
}

/* One pass over `count` numbers, of which transforms of length `length` are left, `step` of them side by side. */
INLINE void pass(transform *t, int64_t length, int64_t step, const int radix)
{
    const int64_t parts = length / radix, root_step = t->size / length;
    for (int64_t p = 0; p < parts; p++) {
        float cosine[5], sine[5];
        for (int k = 1; k < radix; k++) {
            const float *root = t->roots + 2 * (root_step * p * k % t->size);
            cosine[k] = root[0], sine[k] = root[1];
        }
        for (int64_t q = 0; q < step; q++) {
            complex_vector a[5];
            UNROLL for (int k = 0; k < radix; k++)
            {
                const vfloat *from = t->now + 2 * (q + step * (p + parts * k));
                a[k] = (complex_vector){from[0], from[1]};
            }
            small_transform(a, radix);
            UNROLL for (int k = 0; k < radix; k++)
            {
                vfloat *to = t->next + 2 * (q + step * (radix * p + k));
                to[0] = k && p ? vfma(a[k].re, vsplat(cosine[k]), a[k].im * sine[k]) : a[k].re;
                to[1] = k && p ? vfma(a[k].im, vsplat(cosine[k]), a[k].re * -sine[k]) : a[k].im;
            }
        }
    }
    vfloat *done = t->now;
    t->now = t->next;
    t->next = done;
}

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
        for (; i + 4 <= t->size; i += 4) {
            quad four[4];
            UNROLL for (int j = 0; j < 4; j++) four[j] = quad_at(from[j], i, KIND_F32);
            transpose4(&four[0], &four[1], &four[2], &four[3]);
            UNROLL for (int j = 0; j < 4; j++) * (quad_unaligned *)(to + (i + j) * LANES + lane) = four[j];
        }
        for (; i < t->size; i++)
            for (int j = 0; j < 4; j++)
                to[i * LANES + lane + j] = from[j][i];
    }
    for (int64_t i = 0; i < t->size; i++)
        t->memory[0][i] *= 0.5f - 0.5f * t->roots[2 * i];
    t->now = t->memory[0];
    t->next = t->memory[1];
}

/* power[0 .. size / 2] of LANES windows. */
static void transform_windows(transform *t, int64_t first)
{
    const int64_t half = t->size / 2;
    take_windows(t, first);
    for (int64_t length = half, step = 1; length > 1;) {
        const int radix = length % 5 == 0 ? 5 : length % 4 == 0 ? 4 : 2;
        if (radix == 5)
            pass(t, length, step, 5);
        else if (radix == 4)
            pass(t, length, step, 4);
        else
            pass(t, length, step, 2);
        length /= radix;
        step *= radix;
    }
    for (int64_t k = 0; 2 * k <= half; k++) {
        const vfloat *a = t->now + 2 * k, *b = t->now + 2 * (k ? half - k : 0);
        const vfloat even_re = a[0] + b[0], even_im = a[1] - b[1], odd_re = a[1] + b[1], odd_im = b[0] - a[0];
        const float cosine = t->roots[2 * k], sine = t->roots[2 * k + 1];
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
    t->roots = record->pointers[log_mel_f32_roots];
    t->frames = record->dims[log_mel_f32_frames];
    t->hop = record->dims[log_mel_f32_hop];
    t->size = record->dims[log_mel_f32_size];
    int64_t rest = t->size / 2;
    if (t->size < 2 || t->size > MOST || t->size % 2)
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
        for (int64_t bin = 0; 2 * bin <= t.size; bin++)
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
    const int64_t bins = t.size / 2 + 1;
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
