/* Rows of f16 and bf16: widened to f32, and back (rounded as vto_f16 and vto_bf16 do). */
#ifndef PYAPP_HALVES_H
#define PYAPP_HALVES_H
#include "vmath.h"

typedef uint16_t vhalf __attribute__((vector_size(2 * LANES)));

/* The first n elements, at most LANES. */
INLINE void store_halves(uint16_t *y, vuint halves, int64_t n)
{
    const vhalf half = __builtin_convertvector(halves, vhalf);
    if (n >= LANES)
        memcpy(y, &half, sizeof half);
    else
        memcpy(y, &half, (size_t)n * sizeof *y);
}

INLINE vuint to_halves(vfloat x, const int kind) { return kind == KIND_F16 ? vto_f16(x) : vto_bf16(x); }

INLINE vfloat load_halves(const uint16_t *x, int64_t n, const int kind)
{
    uint16_t part[LANES] = {0};
    if (n >= LANES)
        return vload_at(x, 0, kind);
    memcpy(part, x, (size_t)n * sizeof *x);
    return vload_at(part, 0, kind);
}

/* cast.c: what is left of a row. */
#define widen_rest SUFFIXED(widen_rest)
void widen_rest(float *y, const uint16_t *x, int64_t n, int kind);

INLINE void widen_row(float *y, const uint16_t *x, int64_t columns, const int kind)
{
    int64_t i = 0;
    for (; i + LANES <= columns; i += LANES)
        vstore(y + i, vload_at(x + i, 0, kind));
    widen_rest(y + i, x + i, columns - i, kind);
}

/* y = x + add, rounded once; add may be NULL. */
INLINE void narrow_row(uint16_t *y, const float *x, const uint16_t *add, int64_t columns, const int kind)
{
    for (int64_t i = 0; i < columns; i += LANES) {
        const int64_t n = columns - i < LANES ? columns - i : LANES;
        vfloat sum = vload_up_to(x + i, n);
        if (add)
            sum += load_halves(add + i, n, kind);
        store_halves(y + i, to_halves(sum, kind), n);
    }
}
#endif
