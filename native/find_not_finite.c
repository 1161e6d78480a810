/* The parts of a weight that have a NaN or an infinity, which are the numbers with all bits of the exponent. The page has
 * no room for it (absent.c). */
#include "simd.h"

#if !defined(__wasm__)
#define HAS(type, mask)                                                                                                \
    {                                                                                                                  \
        const type *x = (const type *)from + first;                                                                    \
        type found = 0;                                                                                                \
        for (int64_t i = 0; i < length; i++)                                                                           \
            found |= (type)((x[i] & mask) == mask);                                                                    \
        return found != 0;                                                                                             \
    }

static uint8_t has_not_finite(const void *from, int64_t first, int64_t length, int64_t type)
{
    switch (type) {
    case TYPE_float16:
        HAS(uint16_t, 0x7c00)
    case TYPE_bfloat16:
        HAS(uint16_t, 0x7f80)
    case TYPE_float32:
        HAS(uint32_t, 0x7f800000)
    default:
        HAS(uint64_t, 0x7ff0000000000000)
    }
}

KERNEL(find_not_finite)
{
    const int64_t *d = record->dims, count = d[find_not_finite_count], part = d[find_not_finite_part],
                  type = d[find_not_finite_type];
    uint8_t *found = record->pointers[find_not_finite_found];
    int64_t first, last;
    if (count == 0)
        return KERNEL_OK;
    if (part < 1 || (type != TYPE_float16 && type != TYPE_bfloat16 && type != TYPE_float32 && type != TYPE_float64))
        return KERNEL_BAD_ARGUMENT;
    worker_share((count + part - 1) / part, 1, worker, workers, &first, &last);
    for (; first < last; first++) {
        const int64_t left = count - first * part;
        found[first] =
            has_not_finite(record->pointers[find_not_finite_x], first * part, left < part ? left : part, type);
    }
    return KERNEL_OK;
}
#endif
