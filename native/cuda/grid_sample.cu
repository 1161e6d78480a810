/* Pictures sampled at places of a grid (Jaderberg et al. 2015, arXiv 1506.02025). The gradients are those of the definition:
 * several samples add to an element, in one order. */
#include "gpu.h"

enum { ZEROS = 0, BORDER = 1, CHANNELS = 8 /* of a thread, at one place */ }; /* padding 2: reflection */
enum { MOST = 1 << 24 }; /* rows, and columns: float32 tells so many whole numbers apart */

/* -1 .. 1 to a position among `size` elements. */
DEVICE float position(float at, int64_t size, int64_t padding, bool corners)
{
    const float most = (float)(size - 1);
    float x = corners ? (at + 1) * (most / 2) : ((at + 1) * (float)size - 1) * 0.5f;
    if (padding > BORDER) {
        const float low = corners ? 0 : -0.5f, span = corners ? most : (float)size;
        if (span == 0)
            x = x * 0;
        else {
            const float far = fabsf(x - low), extra = fmodf(far, span), flips = floorf(far / span);
            x = floorf(flips / 2) * 2 != flips ? span - extra + low : extra + low;
        }
    }
    if (padding >= BORDER)
        x = x >= 0 ? (x <= most ? x : most) : 0; /* NaN: 0 */
    return x;
}

KERNEL(grid_sample_f32,
       CHOOSE(MIN(MIN(batch, channels), points) < 0, -1, PARTS(batch *PARTS(channels, 8) * points, 128)), 128, 0)
{
    const int64_t *d = record.dims, channels = d[grid_sample_f32_channels], points = d[grid_sample_f32_points];
    const int64_t height = d[grid_sample_f32_height], width = d[grid_sample_f32_width];
    const int64_t padding = d[grid_sample_f32_padding], groups = PARTS(channels, CHANNELS);
    const bool corners = d[grid_sample_f32_corners] != 0;
    if (height < 1 || width < 1 || height > MOST || width > MOST || height > INT32_MAX / width || padding < ZEROS ||
        padding > BORDER + 1) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[grid_sample_f32_batch] * groups * points)
    {
        const int64_t group = quotient(i, points), point = i - group * points, image = quotient(group, groups);
        const int64_t channel = (group - image * groups) * CHANNELS;
        const float *at = (const float *)record.pointers[grid_sample_f32_grid] + 2 * (image * points + point);
        const float column = position(at[0], width, padding, corners), row = position(at[1], height, padding, corners);
        const bool nearest = d[grid_sample_f32_nearest] != 0;
        const float left = nearest ? rintf(column) : floorf(column), top = nearest ? rintf(row) : floorf(row);
        const float right = column - left, below = row - top;
        const float shares[4] = {(1 - below) * (1 - right), (1 - below) * right, below * (1 - right), below * right};
        int32_t places[4];
        float inside[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float y = top + (float)(k / 2), x = left + (float)(k % 2);
            const bool there = y >= 0 && y <= (float)(height - 1) && x >= 0 && x <= (float)(width - 1);
            places[k] = there ? (int32_t)y * (int32_t)width + (int32_t)x : 0;
            inside[k] = there ? 1.0f : 0.0f;
        }
        for (int64_t c = channel; c < MIN(channel + CHANNELS, channels); c++) {
            const float *x =
                (const float *)record.pointers[grid_sample_f32_x] + (image * channels + c) * height * width;
            float y = x[places[0]] * inside[0];
            if (!nearest)
                y = (y * shares[0] + x[places[1]] * inside[1] * shares[1]) +
                    (x[places[2]] * inside[2] * shares[2] + x[places[3]] * inside[3] * shares[3]);
            ((float *)record.pointers[grid_sample_f32_y])[(image * channels + c) * points + point] = y;
        }
    }
}
