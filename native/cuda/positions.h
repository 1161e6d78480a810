/* Positions of texts in a cache or a table. */
#ifndef PYAPP_POSITIONS_H
#define PYAPP_POSITIONS_H
#include "gpu.h"

/* a / b of numbers that are not negative; b is often 1. */
DEVICE int small_quotient(int a, int b) { return b == 1 ? a : (int)((uint32_t)a / (uint32_t)b); }

/* Whether tokens at position[text] .. of every text lie within the cache; else that is reported. For whole warps: every
 * kernel looks for itself, since a launch that only looks takes as long as a small kernel. It looks before it asks whether
 * something has failed: warps of a block must not find that at different times. */
DEVICE bool are_inside(const launch &record, int32_t *status, const int32_t *position, int64_t texts, int64_t tokens,
                       int64_t capacity)
{
    bool outside = false;
#pragma unroll 1 /* short code: it runs once, and is loaded first */
    for (int64_t text = LANE; text < texts; text += 32)
        outside = outside || position[text] < 0 || position[text] + tokens > capacity;
    outside = __any_sync(EVERY_LANE, outside);
    if (outside)
        report(KERNEL_POSITION_RANGE);
    return !outside;
}
#endif
