/* Rows of f16 and bf16: widened to f32, and back (rounded as vto_f16 and vto_bf16 do). */
#ifndef PYAPP_HALVES_H
#define PYAPP_HALVES_H
#include "vmath.h"

typedef uint16_t vhalf __attribute__((vector_size(2 * LANES)));

/* The first n <= LANES elements. */
INLINE void store_halves(uint16_t *y, vuint halves, int64_t n)
{
    const vhalf half = __builtin_convertvector(halves, vhalf);
    memcpy(y, &half, (size_t)n * sizeof *y);
}

INLINE vfloat load_halves(const uint16_t *x, int64_t n, const int kind)
{
    uint16_t part[LANES] = {0};
    if (n >= LANES)
        return vload_at(x, 0, kind);
    memcpy(part, x, (size_t)n * sizeof *x);
    return vload_at(part, 0, kind);
}

INLINE void widen_row(float *y, const uint16_t *x, int64_t columns, const int kind)
{
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t n = columns - i < LANES ? columns - i : LANES;
        vstore_up_to(y + i, load_halves(x + i, n, kind), n);
    }
}

/* y = x + add, rounded once; add may be NULL. */
INLINE void narrow_row(uint16_t *y, const float *x, const uint16_t *add, int64_t columns, const int kind)
{
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t n = columns - i < LANES ? columns - i : LANES;
        vfloat sum = vload_up_to(x + i, n);
        if (add)
            sum += load_halves(add + i, n, kind);
        store_halves(y + i, kind == KIND_F16 ? vto_f16(sum) : vto_bf16(sum), n);
    }
}
#endif
