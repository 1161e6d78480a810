/* Between f32 and the 16-bit formats; narrowing rounds to nearest, ties to even. */
#include "vmath.h"

enum { SHARE = 64 };

typedef uint16_t vhalf __attribute__((vector_size(2 * LANES)));
typedef vfloat widen_function(const uint16_t *x);
typedef vuint narrow_function(vfloat x);

INLINE int widen(widen_function *function, const launch *record, int worker, int workers)
{
    float *y = record->pointers[0];
    const uint16_t *x = record->pointers[1];
    int64_t first, last, i;
    worker_share(record->dims[0], SHARE, worker, workers, &first, &last);
    for (i = first; i + LANES <= last; i += LANES)
        vstore(y + i, function(x + i));
    if (i < last) {
        uint16_t part[LANES] = {0};
        memcpy(part, x + i, (size_t)(last - i) * sizeof *x);
        vstore_part(y + i, function(part), last - i);
    }
    return KERNEL_OK;
}

INLINE int narrow(narrow_function *function, const launch *record, int worker, int workers)
{
    uint16_t *y = record->pointers[0];
    const float *x = record->pointers[1];
    int64_t first, last;
    worker_share(record->dims[0], SHARE, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i += LANES) {
        const int64_t n = last - i < LANES ? last - i : LANES;
        const vhalf half = __builtin_convertvector(function(vload_up_to(x + i, n)), vhalf);
        memcpy(y + i, &half, (size_t)n * sizeof *y);
    }
    return KERNEL_OK;
}

INLINE vuint select_bits(vint mask, vuint a, vuint b) { return (a & (vuint)mask) | (b & ~(vuint)mask); }

INLINE vuint to_f16(vfloat x)
{
    const vuint sign = ((vuint)x >> 16) & 0x8000u, bits = (vuint)x & 0x7fffffffu;
    const vint magnitude = (vint)bits;
    /* adding 0.5 leaves the subnormal half's bits, rounded, at the bottom of the sum */
    const vuint subnormal = (vuint)((vfloat)bits + 0.5f) - 0x3f000000u;
    const vuint normal = (bits - (112u << 23) + 0xfffu + ((bits >> 13) & 1u)) >> 13;
    const vuint nan = 0x7e00u | ((bits >> 13) & 0x3ffu);
    vuint half = select_bits(magnitude < 0x38800000, subnormal, normal);
    half = select_bits(magnitude >= 0x47800000, (vuint)vsplat_int(0x7c00), half);
    return select_bits(magnitude > 0x7f800000, nan, half) | sign;
}

INLINE vuint to_bf16(vfloat x)
{
    const vuint bits = (vuint)x;
    const vuint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return select_bits(x == x, rounded, (bits >> 16) | 0x40u);
}

#define WIDEN_KERNEL(name, function)                                                                                   \
    KERNEL(name) { return widen(function, record, worker, workers); }
#define NARROW_KERNEL(name, function)                                                                                  \
    KERNEL(name) { return narrow(function, record, worker, workers); }

WIDEN_KERNEL(f16_to_f32, vload_f16)
WIDEN_KERNEL(bf16_to_f32, vload_bf16)
NARROW_KERNEL(f32_to_f16, to_f16)
NARROW_KERNEL(f32_to_bf16, to_bf16)
