/* Linear recurrences along a dim: a thread for each line. */
#include "gpu.h"

KERNEL(linear_scan_f32, PARTS(MAX(1, outer *inner), 64), 64, 0)
{
    const int64_t *d = record.dims, length = d[linear_scan_f32_length], inner = d[linear_scan_f32_inner];
    const float *a = (const float *)record.pointers[linear_scan_f32_a],
                *b = (const float *)record.pointers[linear_scan_f32_b];
    const float *start = (const float *)record.pointers[linear_scan_f32_start];
    float *y = (float *)record.pointers[linear_scan_f32_y];
    if (d[linear_scan_f32_outer] < 0 || length < 0 || inner < 0)
        return report(KERNEL_BAD_ARGUMENT);
    FOR_EACH(i, d[linear_scan_f32_outer] * inner)
    {
        const int64_t first = (i / inner * length) * inner + i % inner;
        float before = start ? start[i] : 0;
        for (int64_t t = 0; t < length; t++) {
            const int64_t at = first + (d[linear_scan_f32_reversed] ? length - 1 - t : t) * inner;
            before = a[at] * before + b[at];
            y[at] = before;
        }
    }
}
