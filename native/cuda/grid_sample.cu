/* Pictures sampled at places of a grid (Jaderberg et al. 2015, arXiv 1506.02025), and the gradients. */
#include "gpu.h"

enum { ZEROS = 0, BORDER = 1, CHANNELS = 8 /* of a thread, at one place */ }; /* padding 2: reflection */
enum { MOST = 1 << 24 }; /* rows, and columns: float32 tells so many whole numbers apart */

/* -1 .. 1 to a position among `size` elements; and how fast it moves. */
DEVICE float position(float at, int64_t size, int64_t padding, bool corners, float &slope)
{
    const float most = (float)(size - 1);
    slope = corners ? most / 2 : (float)size / 2;
    float x = corners ? (at + 1) * (most / 2) : ((at + 1) * (float)size - 1) * 0.5f;
    if (padding > BORDER) {
        const float low = corners ? 0 : -0.5f, span = corners ? most : (float)size;
        if (span == 0)
            x = x * 0, slope = 0;
        else {
            const float far = fabsf(x - low), extra = fmodf(far, span), flips = floorf(far / span);
            const bool turned = floorf(flips / 2) * 2 != flips;
            slope = (x - low < 0) != turned ? -slope : slope;
            x = turned ? span - extra + low : extra + low;
        }
    }
    if (padding >= BORDER) {
        slope = x >= 0 && x <= most ? slope : 0.0f;
        x = x >= 0 ? (x <= most ? x : most) : 0; /* NaN: 0 */
    }
    return x;
}

/* Where a point lies: its upper left neighbour (nearest: the only one), and the shares of the lower and the right ones. */
struct place {
    float top, left, below, right, row_slope, column_slope;

    DEVICE_MEMBER place(const float *at, const int64_t *d)
    {
        const int64_t padding = d[grid_sample_f32_padding];
        const bool corners = d[grid_sample_f32_corners] != 0, nearest = d[grid_sample_f32_nearest] != 0;
        const float column = position(at[0], d[grid_sample_f32_width], padding, corners, column_slope);
        const float row = position(at[1], d[grid_sample_f32_height], padding, corners, row_slope);
        left = nearest ? rintf(column) : floorf(column), top = nearest ? rintf(row) : floorf(row);
        right = nearest ? 0.0f : column - left, below = nearest ? 0.0f : row - top;
    }
};

/* Where neighbour k of a point lies in a plane; -1 outside. */
DEVICE int32_t neighbour(float top, float left, int k, int64_t height, int64_t width)
{
    const float y = top + (float)(k / 2), x = left + (float)(k % 2);
    const bool there = y >= 0 && y <= (float)(height - 1) && x >= 0 && x <= (float)(width - 1);
    return there ? (int32_t)y * (int32_t)width + (int32_t)x : -1;
}
/* The share that neighbour k has. */
DEVICE float share_of(float below, float right, int k)
{
    return (k / 2 ? below : 1 - below) * (k % 2 ? right : 1 - right);
}

DEVICE bool is_wrong(const int64_t *d)
{
    const int64_t height = d[grid_sample_f32_height], width = d[grid_sample_f32_width];
    return height < 1 || width < 1 || height > MOST || width > MOST || height > INT32_MAX / width ||
           d[grid_sample_f32_padding] < ZEROS || d[grid_sample_f32_padding] > BORDER + 1;
}

KERNEL(grid_sample_f32,
       CHOOSE(MIN(MIN(batch, channels), points) < 0, -1, PARTS(batch *PARTS(channels, 8) * points, 128)), 128, 0)
{
    const int64_t *d = record.dims, channels = d[grid_sample_f32_channels], points = d[grid_sample_f32_points];
    const int64_t height = d[grid_sample_f32_height], width = d[grid_sample_f32_width];
    const int64_t groups = PARTS(channels, CHANNELS);
    if (is_wrong(d)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[grid_sample_f32_batch] * groups * points)
    {
        const int64_t group = quotient(i, points), point = i - group * points, image = quotient(group, groups);
        const int64_t channel = (group - image * groups) * CHANNELS;
        const place at((const float *)record.pointers[grid_sample_f32_grid] + 2 * (image * points + point), d);
        int32_t places[4];
        float inside[4], shares[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int32_t found = neighbour(at.top, at.left, k, height, width);
            places[k] = MAX(found, 0);
            inside[k] = found < 0 ? 0.0f : 1.0f;
            shares[k] = share_of(at.below, at.right, k);
        }
        for (int64_t c = channel; c < MIN(channel + CHANNELS, channels); c++) {
            const float *x =
                (const float *)record.pointers[grid_sample_f32_x] + (image * channels + c) * height * width;
            float y = x[places[0]] * inside[0];
            if (!d[grid_sample_f32_nearest])
                y = (y * shares[0] + x[places[1]] * inside[1] * shares[1]) +
                    (x[places[2]] * inside[2] * shares[2] + x[places[3]] * inside[3] * shares[3]);
            ((float *)record.pointers[grid_sample_f32_y])[(image * channels + c) * points + point] = y;
        }
    }
}

/* grad_grid: a thread for each point. */
STEP(grid_sample_backward_f32, 1, CHOOSE(MIN(MIN(batch, channels), points) < 0, -1, PARTS(batch *points, 128)), 128, 0)
{
    const int64_t *d = record.dims, channels = d[grid_sample_f32_channels], points = d[grid_sample_f32_points];
    const int64_t height = d[grid_sample_f32_height], width = d[grid_sample_f32_width];
    float *const to = (float *)record.pointers[grid_sample_backward_f32_grad_grid];
    if (is_wrong(d)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, to ? d[grid_sample_f32_batch] * points : 0)
    {
        const int64_t image = quotient(i, points), point = i - image * points;
        const place at((const float *)record.pointers[grid_sample_backward_f32_grid] + 2 * i, d);
        const float *x = (const float *)record.pointers[grid_sample_backward_f32_x] + image * channels * height * width;
        const float *g =
            (const float *)record.pointers[grid_sample_backward_f32_grad_y] + image * channels * points + point;
        int32_t places[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            places[k] = neighbour(at.top, at.left, k, height, width);
        float across = 0, down = 0;
        if (!d[grid_sample_f32_nearest])
#pragma unroll 4
            for (int64_t c = 0; c < channels; c++, x += height * width, g += points) {
                float near[4];
#pragma unroll
                for (int k = 0; k < 4; k++)
                    near[k] = x[MAX(places[k], 0)] * (places[k] < 0 ? 0.0f : 1.0f);
                across += *g * ((near[1] - near[0]) * (1 - at.below) + (near[3] - near[2]) * at.below);
                down += *g * ((near[2] - near[0]) * (1 - at.right) + (near[3] - near[1]) * at.right);
            }
        to[2 * i] = across * at.column_slope;
        to[2 * i + 1] = down * at.row_slope;
    }
}

/* grad_x. A warp has so many numbers in shared memory: some elements of a plane, of up to CHANNELS channels. It looks at all
 * points, 32 at a time, and adds those that lie there one after the other, so that sums have one order: a lane for each
 * neighbour and channel. */
#define OF_WARP 1536
#define ELEMENTS(channels) (OF_WARP / MAX(1, MIN(channels, 8)))

KERNEL(grid_sample_backward_f32,
       CHOOSE(MIN(MIN(MIN(batch, channels), points), MIN(height, width)) < 0, -1,
              PARTS(batch *PARTS(channels, 8) * PARTS(height * width, ELEMENTS(channels)), 8)),
       256, 4 * 8 * OF_WARP)
{
    DYNAMIC_SHARED(float, shared);
    const int64_t *d = record.dims, channels = d[grid_sample_f32_channels], points = d[grid_sample_f32_points];
    const int64_t height = d[grid_sample_f32_height], width = d[grid_sample_f32_width], area = height * width;
    const int elements = (int)(ELEMENTS(channels)), neighbours = d[grid_sample_f32_nearest] ? 1 : 4;
    const int64_t groups = PARTS(channels, CHANNELS), parts = PARTS(area, elements);
    const int k = LANE % 4, own_channel = LANE / 4;
    float *const to = (float *)record.pointers[grid_sample_backward_f32_grad_x], *const sums = shared + WARP * OF_WARP;
    if (failed || !to)
        return;
    for (int64_t i = (int64_t)blockIdx.x * WARPS + WARP; i < d[grid_sample_f32_batch] * groups * parts;
         i += (int64_t)gridDim.x * WARPS) {
        const int64_t group = i / parts, first = i % parts * elements, image = group / groups;
        const int64_t channel0 = group % groups * CHANNELS;
        const int there = (int)MIN(area - first, elements), of_channels = (int)MIN(channels - channel0, CHANNELS);
        const float *const grid = (const float *)record.pointers[grid_sample_backward_f32_grid] + 2 * image * points;
        const float *const g = (const float *)record.pointers[grid_sample_backward_f32_grad_y] +
                               (image * channels + channel0 + MIN(own_channel, of_channels - 1)) * points;
        for (int e = LANE; e < of_channels * elements; e += 32)
            sums[e] = 0;
        __syncwarp();
        for (int64_t start = 0; start < points; start += 32) {
            const int64_t point = MIN(start + LANE, points - 1);
            const place at(grid + 2 * point, d);
            bool here = false;
            for (int n = 0; n < neighbours; n++) {
                const int64_t found = neighbour(at.top, at.left, n, height, width) - first;
                here = here || (found >= 0 && found < there);
            }
            for (uint32_t left = __ballot_sync(EVERY_LANE, here && start + LANE < points); left; left &= left - 1) {
                const int lane = __ffs((int)left) - 1;
                const float top = __shfl_sync(EVERY_LANE, at.top, lane), side = __shfl_sync(EVERY_LANE, at.left, lane);
                const float below = __shfl_sync(EVERY_LANE, at.below, lane);
                const float right = __shfl_sync(EVERY_LANE, at.right, lane);
                const int32_t found = neighbour(top, side, k, height, width);
                const int64_t place = found - first;
                if (found >= 0 && place >= 0 && place < there && k < neighbours && own_channel < of_channels)
                    sums[own_channel * elements + place] += share_of(below, right, k) * g[start + lane];
                __syncwarp();
            }
        }
        for (int e = LANE; e < of_channels * there; e += 32)
            to[(image * channels + channel0 + e / there) * area + first + e % there] =
                sums[e / there * elements + e % there];
        __syncwarp();
    }
}
