/* Samples along a dim, each a sum of few elements with weights: pictures at another size, and their gradients. */
#if !defined(__wasm__) /* there products with matrices compute it: code is downloaded */
#include "vmath.h"

enum { ROWS = 8 }; /* that are computed together where the elements of a row are one behind the other */

typedef uint8_t vbytes __attribute__((vector_size(LANES)));

/* Sample o is the sum of elements places[k] times weights[k], starts[o] <= k < starts[o + 1]. */
typedef struct sampling {
    const int32_t *starts, *places;
    const void *weights;
    int64_t size, out, inner;
    int precision;
} sampling;

static int is_valid(const sampling *s, int64_t entries)
{
    int beyond = s->starts[0] != 0 || s->starts[s->out] != entries;
    for (int64_t o = 0; o < s->out; o++)
        beyond |= s->starts[o + 1] < s->starts[o];
    for (int64_t k = 0; k < entries; k++)
        beyond |= s->places[k] < 0 || s->places[k] >= s->size;
    return !beyond;
}

/* Of bytes, from a sum in fixed point. */
INLINE uint8_t byte_of(int32_t sum, int precision)
{
    const int32_t whole = sum >> precision;
    return (uint8_t)(whole < 0 ? 0 : whole > 255 ? 255 : whole);
}

INLINE vbytes bytes_of(vint sum, int precision)
{
    sum >>= precision;
    sum &= ~(sum < 0);
    const vint large = sum > 255;
    return __builtin_convertvector((sum & ~large) | (vsplat_int(255) & large), vbytes);
}

/* Rows of `size` elements to rows of `out`, `count` of them: of ROWS rows at a time each weight is read once. */
#define ROWS_OF(type, element, number, begin, finish)                                                                  \
    INLINE void some_rows_of_##type(element *y, const element *x, const sampling *s, const int rows)                   \
    {                                                                                                                  \
        const number *weights = s->weights;                                                                            \
        for (int64_t o = 0; o < s->out; o++) {                                                                         \
            number sum[ROWS];                                                                                          \
            UNROLL for (int row = 0; row < rows; row++) sum[row] = begin;                                              \
            for (int32_t k = s->starts[o]; k < s->starts[o + 1]; k++) {                                                \
                const element *at = x + s->places[k];                                                                  \
                const number weight = weights[k];                                                                      \
                UNROLL for (int row = 0; row < rows; row++) sum[row] += weight * (number)at[row * s->size];            \
            }                                                                                                          \
            UNROLL for (int row = 0; row < rows; row++) y[row * s->out + o] = finish(sum[row]);                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void rows_of_##type(element *y, const element *x, const sampling *s, int64_t count)                         \
    {                                                                                                                  \
        for (; count >= ROWS; count -= ROWS, x += ROWS * s->size, y += ROWS * s->out)                                  \
            some_rows_of_##type(y, x, s, ROWS);                                                                        \
        for (; count > 0; count--, x += s->size, y += s->out)                                                          \
            some_rows_of_##type(y, x, s, 1);                                                                           \
    }

#define SAME(sum) (sum)
#define AS_BYTE(sum) byte_of(sum, s->precision)
ROWS_OF(f32, float, float, 0, SAME)
ROWS_OF(u8, uint8_t, int32_t, 1 << (s->precision - 1), AS_BYTE)

/* A sample of `inner` neighbours. */
static void sample_f32(float *y, const float *x, const sampling *s, int64_t o)
{
    const float *weights = s->weights;
    const int64_t inner = s->inner;
    int64_t i = 0;
    for (; i + 4 * LANES <= inner; i += 4 * LANES) {
        vfloat sum[4] = {vzero(), vzero(), vzero(), vzero()};
        for (int32_t k = s->starts[o]; k < s->starts[o + 1]; k++) {
            const float *at = x + s->places[k] * inner + i;
            const vfloat weight = vsplat(weights[k]);
            UNROLL for (int j = 0; j < 4; j++) sum[j] = vfma(weight, vload(at + j * LANES), sum[j]);
        }
        UNROLL for (int j = 0; j < 4; j++) vstore(y + i + j * LANES, sum[j]);
    }
    for (; i < inner; i += LANES) {
        vfloat sum = vzero();
        for (int32_t k = s->starts[o]; k < s->starts[o + 1]; k++)
            sum = vfma(vsplat(weights[k]), vload_up_to(x + s->places[k] * inner + i, inner - i), sum);
        vstore_up_to(y + i, sum, inner - i);
    }
}

static void sample_u8(uint8_t *y, const uint8_t *x, const sampling *s, int64_t o)
{
    const int32_t *weights = s->weights;
    const int64_t inner = s->inner;
    int64_t i = 0;
    for (; i + LANES <= inner; i += LANES) {
        vint sum = vsplat_int(1 << (s->precision - 1));
        for (int32_t k = s->starts[o]; k < s->starts[o + 1]; k++) {
            vbytes bytes;
            memcpy(&bytes, x + s->places[k] * inner + i, sizeof bytes);
            sum += vsplat_int(weights[k]) * __builtin_convertvector(bytes, vint);
        }
        const vbytes bytes = bytes_of(sum, s->precision);
        memcpy(y + i, &bytes, sizeof bytes);
    }
    for (; i < inner; i++) {
        int32_t sum = 1 << (s->precision - 1);
        for (int32_t k = s->starts[o]; k < s->starts[o + 1]; k++)
            sum += weights[k] * x[s->places[k] * inner + i];
        y[i] = byte_of(sum, s->precision);
    }
}

/* A sample of 2 to 4 neighbours, such as the colours of a pixel, in each of PIXELS rows, after which four bytes may be
 * read. Where it is not the last of its row, four bytes are written. */
enum { PIXELS = LANES / 4 };
typedef uint32_t vpixels __attribute__((vector_size(LANES)));

static void pixels_u8(uint8_t *y, const uint8_t *x, const sampling *s, int64_t o)
{
    const int32_t *weights = s->weights;
    const int64_t row = s->size * s->inner, bytes = o + 1 < s->out ? 4 : s->inner;
    vint sum = vsplat_int(1 << (s->precision - 1));
    for (int32_t k = s->starts[o]; k < s->starts[o + 1]; k++) {
        const uint8_t *at = x + s->places[k] * s->inner;
        vpixels pixels;
        UNROLL for (int j = 0; j < PIXELS; j++)
        {
            uint32_t pixel;
            memcpy(&pixel, at + j * row, sizeof pixel);
            pixels[j] = pixel;
        }
        sum += vsplat_int(weights[k]) * __builtin_convertvector((vbytes)pixels, vint);
    }
    const vpixels found = (vpixels)bytes_of(sum, s->precision);
    UNROLL for (int j = 0; j < PIXELS; j++)
    {
        const uint32_t pixel = found[j];
        memcpy(y + (j * s->out + o) * s->inner, &pixel, (size_t)bytes);
    }
}

KERNEL(resample)
{
    const int64_t *d = record->dims, outer = d[resample_outer], type = d[resample_type];
    const sampling s = {record->pointers[resample_starts],
                        record->pointers[resample_places],
                        record->pointers[resample_weights],
                        d[resample_size],
                        d[resample_out],
                        d[resample_inner],
                        (int)d[resample_precision]};
    const void *x = record->pointers[resample_x];
    void *y = record->pointers[resample_y];
    int64_t first, last;
    if (outer <= 0 || s.out <= 0 || s.inner <= 0)
        return KERNEL_OK;
    if ((type != TYPE_float32 && type != TYPE_uint8) || (type == TYPE_uint8 && (s.precision < 1 || s.precision > 30)))
        return KERNEL_BAD_ARGUMENT;
    if (!is_valid(&s, d[resample_entries]))
        return KERNEL_INDEX_RANGE;
    if (s.inner == 1) {
        worker_share(outer, ROWS, worker, workers, &first, &last);
        if (type == TYPE_float32)
            rows_of_f32((float *)y + first * s.out, (const float *)x + first * s.size, &s, last - first);
        else
            rows_of_u8((uint8_t *)y + first * s.out, (const uint8_t *)x + first * s.size, &s, last - first);
        return KERNEL_OK;
    }
    if (type == TYPE_uint8 && s.inner <= 4 && s.inner * s.size >= 4) {
        worker_share(outer, PIXELS, worker, workers, &first, &last);
        for (int64_t row = first; row < last;) {
            const int64_t n = row + PIXELS <= last && row + PIXELS < outer ? PIXELS : 1;
            const uint8_t *from = (const uint8_t *)x + row * s.size * s.inner;
            for (int64_t o = 0; o < s.out; o++)
                if (n == PIXELS && row + PIXELS < outer)
                    pixels_u8((uint8_t *)y + row * s.out * s.inner, from, &s, o);
                else
                    sample_u8((uint8_t *)y + (row * s.out + o) * s.inner, from, &s, o);
            row += n;
        }
        return KERNEL_OK;
    }
    worker_share(outer * s.out, 1, worker, workers, &first, &last);
    for (int64_t sample = first; sample < last; sample++) {
        const int64_t row = sample / s.out, o = sample % s.out, from = row * s.size * s.inner, to = sample * s.inner;
        if (type == TYPE_float32)
            sample_f32((float *)y + to, (const float *)x + from, &s, o);
        else
            sample_u8((uint8_t *)y + to, (const uint8_t *)x + from, &s, o);
    }
    return KERNEL_OK;
}
#endif
