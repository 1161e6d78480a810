/* Linear recurrences along a dim, for many lines at once. */
#include "simd.h"

enum { COLUMNS = 256 }; /* that a worker takes together: their last values stay in a cache */

KERNEL(linear_scan_f32)
{
    const int64_t *d = record->dims, outer = d[linear_scan_f32_outer], length = d[linear_scan_f32_length];
    const int64_t inner = d[linear_scan_f32_inner], tiles = (inner + COLUMNS - 1) / COLUMNS;
    const int64_t step = d[linear_scan_f32_reversed] ? -inner : inner;
    const float *start = record->pointers[linear_scan_f32_start];
    int64_t first, last;
    if (outer < 0 || length < 0 || inner < 0)
        return KERNEL_BAD_ARGUMENT;
    worker_share(outer * tiles, 1, worker, workers, &first, &last);
    for (int64_t tile = first; tile < last; tile++) {
        const int64_t line = tile / tiles, column = tile % tiles * COLUMNS;
        const int64_t n = inner - column < COLUMNS ? inner - column : COLUMNS;
        int64_t at = line * length * inner + column + (step < 0 ? (length - 1) * inner : 0);
        const float *before = start ? start + line * inner + column : NULL;
        for (int64_t t = 0; t < length; t++, at += step) {
            float *y = (float *)record->pointers[linear_scan_f32_y] + at;
            const float *a = (const float *)record->pointers[linear_scan_f32_a] + at;
            const float *b = (const float *)record->pointers[linear_scan_f32_b] + at;
            int64_t i = 0;
            ROLLED
            for (; i + LANES <= n; i += LANES)
                vstore(y + i, vfma(vload(a + i), before ? vload(before + i) : vzero(), vload(b + i)));
            ROLLED
            for (; i < n; i++)
                y[i] = a[i] * (before ? before[i] : 0) + b[i];
            before = y;
        }
    }
    return KERNEL_OK;
}
