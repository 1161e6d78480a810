/* What convolutions need beside matrix products. Windows of a sequence whose channels lie together are rows of a matrix
 * already, a stride apart; only their gradient has to be put together. */
#include "simd.h"

/* y[i] = sum of the windows that cover element i */
static void fold_element(float *y, const float *windows, const int64_t *d, int64_t i)
{
    const int64_t channels = d[2], size = d[3], stride = d[4], rows = d[6];
    for (int64_t c = 0; c < channels; c += LANES) {
        const int64_t n = channels - c;
        vfloat sum = vzero();
        for (int64_t j = 0; j < size && j <= i + d[5]; j++) {
            const int64_t row = (i + d[5] - j) / stride;
            if (row * stride != i + d[5] - j || row >= rows)
                continue;
            const float *p = windows + (row * size + j) * channels + c;
            sum += n >= LANES ? vload(p) : vload_part(p, n);
        }
        if (n >= LANES)
            vstore(y + c, sum);
        else
            vstore_part(y + c, sum, n);
    }
}

KERNEL(fold_f32)
{
    float *y = record->pointers[0];
    const float *windows = record->pointers[1];
    const int64_t *d = record->dims, length = d[1], channels = d[2];
    int64_t first, last;
    if (d[0] <= 0 || length <= 0 || channels <= 0)
        return KERNEL_OK;
    if (d[3] < 0 || d[4] < 1 || d[5] < 0 || d[6] < 0)
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[0] * length, 1, worker, workers, &first, &last);
    for (int64_t at = first; at < last; at++)
        fold_element(y + at * channels, windows + at / length * d[6] * d[3] * channels, d, at % length);
    return KERNEL_OK;
}
