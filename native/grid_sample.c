/* Pictures sampled at places of a grid (Jaderberg et al. 2015, arXiv 1506.02025), and the gradients. */
#if !defined(__wasm__) /* there the definition computes it: code is downloaded */
#include "simd.h"

enum { POINTS = 64, ZEROS = 0, BORDER = 1 }; /* 2: reflection */
enum { MOST = 1 << 24 };                     /* rows, and columns: float32 tells so many whole numbers apart */

typedef struct sampling {
    int64_t batch, channels, height, width, points;
    int nearest, padding, corners;
} sampling;

/* Of up to POINTS places: four neighbours, and the shares of the lower ones in both directions. */
typedef struct places {
    int32_t at[4][POINTS];
    float inside[4][POINTS], x[POINTS], y[POINTS]; /* x, y: distance from the upper left neighbour */
    float x_slope[POINTS], y_slope[POINTS];        /* of a position in its coordinate */
} places;

INLINE float whole_below(float x) /* x without what comes after the point, towards minus infinity; large ones stay */
{
    if (!(x > -8388608.0f && x < 8388608.0f))
        return x;
    const float cut = (float)(int32_t)x;
    return cut > x ? cut - 1 : cut;
}

INLINE float nearest_whole(float x) /* halves to even */
{
    const float size = x < 0 ? -x : x, near = (size + 8388608.0f) - 8388608.0f;
    return !(size < 8388608.0f) ? x : x < 0 ? -near : near;
}

/* -1 .. 1 to a position among `size` elements. */
INLINE float position(float at, int64_t size, const sampling *s, float *slope)
{
    const float most = (float)(size - 1);
    float scale = s->corners ? most / 2 : (float)size / 2;
    float x = s->corners ? (at + 1) * scale : ((at + 1) * (float)size - 1) * 0.5f;
    if (s->padding > BORDER) {
        const float low = s->corners ? 0 : -0.5f, span = s->corners ? most : (float)size;
        if (span == 0) {
            x = x * 0;
            scale = 0;
        } else {
            const float size_of = x - low < 0 ? low - x : x - low, flips = whole_below(size_of / span);
            const float extra = (float)__builtin_fmod((double)size_of, (double)span);
            const int odd = whole_below(flips / 2) * 2 != flips;
            scale *= (x - low < 0) != odd ? -1 : 1;
            x = odd ? span - extra + low : extra + low;
        }
    }
    if (s->padding >= BORDER) {
        if (!(x >= 0 && x <= most))
            scale = 0;
        x = x >= 0 ? (x <= most ? x : most) : 0; /* NaN: 0 */
    }
    *slope = scale;
    return x;
}

INLINE void neighbour(places *p, const sampling *s, int64_t i, int k, float row, float column)
{
    const int inside = row >= 0 && row <= (float)(s->height - 1) && column >= 0 && column <= (float)(s->width - 1);
    p->at[k][i] = inside ? (int32_t)row * (int32_t)s->width + (int32_t)column : 0;
    p->inside[k][i] = inside ? 1 : 0;
}

/* n places, from pairs (x, y). Where there are fewer than POINTS, the others are outside. */
static void find_places(places *p, const sampling *s, const float *grid, int64_t n)
{
    for (int64_t i = 0; i < POINTS; i++) {
        const float x = i < n ? position(grid[2 * i], s->width, s, &p->x_slope[i]) : -9;
        const float y = i < n ? position(grid[2 * i + 1], s->height, s, &p->y_slope[i]) : -9;
        if (s->nearest) {
            neighbour(p, s, i, 0, nearest_whole(y), nearest_whole(x));
            continue;
        }
        const float left = whole_below(x), top = whole_below(y);
        p->x[i] = x - left;
        p->y[i] = y - top;
        for (int k = 0; k < 4; k++)
            neighbour(p, s, i, k, top + (float)(k / 2), left + (float)(k % 2));
    }
}

static int read_record(sampling *s, const int64_t *d)
{
    *s = (sampling){.batch = d[grid_sample_f32_batch],
                    .channels = d[grid_sample_f32_channels],
                    .height = d[grid_sample_f32_height],
                    .width = d[grid_sample_f32_width],
                    .points = d[grid_sample_f32_points],
                    .nearest = d[grid_sample_f32_nearest] != 0,
                    .padding = (int)d[grid_sample_f32_padding],
                    .corners = d[grid_sample_f32_corners] != 0};
    if (s->batch <= 0 || s->channels <= 0 || s->points <= 0)
        return s->batch < 0 || s->channels < 0 || s->points < 0 ? KERNEL_BAD_ARGUMENT : -1;
    return s->height < 1 || s->width < 1 || s->height > MOST || s->width > MOST || s->height > INT32_MAX / s->width ||
                   d[grid_sample_f32_padding] < ZEROS || d[grid_sample_f32_padding] > BORDER + 1
               ? KERNEL_BAD_ARGUMENT
               : KERNEL_OK;
}

KERNEL(grid_sample_f32)
{
    sampling s;
    places p;
    const int wrong = read_record(&s, record->dims);
    if (wrong)
        return wrong < 0 ? KERNEL_OK : wrong;
    const int64_t area = s.height * s.width, pieces = (s.points + POINTS - 1) / POINTS;
    int64_t first, last;
    worker_share(s.batch * pieces, 1, worker, workers, &first, &last);
    for (int64_t piece = first; piece < last; piece++) {
        const int64_t image = piece / pieces, start = piece % pieces * POINTS;
        const int64_t n = s.points - start < POINTS ? s.points - start : POINTS;
        float shares[4][POINTS];
        find_places(&p, &s, (const float *)record->pointers[grid_sample_f32_grid] + 2 * (image * s.points + start), n);
        for (int64_t i = 0; i < POINTS && !s.nearest; i++) {
            shares[0][i] = (1 - p.y[i]) * (1 - p.x[i]), shares[1][i] = (1 - p.y[i]) * p.x[i];
            shares[2][i] = p.y[i] * (1 - p.x[i]), shares[3][i] = p.y[i] * p.x[i];
        }
        for (int64_t channel = 0; channel < s.channels; channel++) {
            const int64_t plane = image * s.channels + channel;
            const float *x = (const float *)record->pointers[grid_sample_f32_x] + plane * area;
            float out[POINTS];
            if (s.nearest)
                for (int i = 0; i < POINTS; i++)
                    out[i] = x[p.at[0][i]] * p.inside[0][i];
            else
                for (int i = 0; i < POINTS; i++)
                    out[i] = ((x[p.at[0][i]] * p.inside[0][i]) * shares[0][i] +
                              (x[p.at[1][i]] * p.inside[1][i]) * shares[1][i]) +
                             ((x[p.at[2][i]] * p.inside[2][i]) * shares[2][i] +
                              (x[p.at[3][i]] * p.inside[3][i]) * shares[3][i]);
            memcpy((float *)record->pointers[grid_sample_f32_y] + plane * s.points + start, out,
                   (size_t)n * sizeof *out);
        }
    }
    return KERNEL_OK;
}

/* Workers own planes of grad_x, so that each element is added up in one order; and pieces of the grid. */
KERNEL(grid_sample_backward_f32)
{
    sampling s;
    places p;
    const int wrong = read_record(&s, record->dims);
    if (wrong)
        return wrong < 0 ? KERNEL_OK : wrong;
    const float *grid = record->pointers[grid_sample_backward_f32_grid],
                *g = record->pointers[grid_sample_backward_f32_grad_y];
    const float *x = record->pointers[grid_sample_backward_f32_x];
    float *grad_x = record->pointers[grid_sample_backward_f32_grad_x];
    float *grad_grid = record->pointers[grid_sample_backward_f32_grad_grid];
    const int64_t area = s.height * s.width, pieces = (s.points + POINTS - 1) / POINTS;
    int64_t first, last;
    worker_share(grad_x ? s.batch * s.channels : 0, 1, worker, workers, &first, &last);
    if (first < last)
        memset(grad_x + first * area, 0, (size_t)((last - first) * area) * sizeof *grad_x);
    for (int64_t image = 0; image < s.batch && first < last; image++) {
        const int64_t from = first > image * s.channels ? first : image * s.channels;
        const int64_t to = last < (image + 1) * s.channels ? last : (image + 1) * s.channels;
        for (int64_t start = 0; start < s.points && from < to; start += POINTS) {
            const int64_t n = s.points - start < POINTS ? s.points - start : POINTS;
            find_places(&p, &s, grid + 2 * (image * s.points + start), n);
            for (int64_t plane = from; plane < to; plane++) {
                float *sums = grad_x + plane * area;
                const float *out = g + plane * s.points + start;
                for (int64_t i = 0; i < n; i++) {
                    if (s.nearest) {
                        sums[p.at[0][i]] += p.inside[0][i] > 0 ? out[i] : 0;
                        continue;
                    }
                    const float low = out[i] * p.y[i], high = out[i] * (1 - p.y[i]), right = p.x[i], left = 1 - p.x[i];
                    sums[p.at[0][i]] += p.inside[0][i] > 0 ? high * left : 0;
                    sums[p.at[1][i]] += p.inside[1][i] > 0 ? high * right : 0;
                    sums[p.at[2][i]] += p.inside[2][i] > 0 ? low * left : 0;
                    sums[p.at[3][i]] += p.inside[3][i] > 0 ? low * right : 0;
                }
            }
        }
    }
    worker_share(grad_grid ? s.batch * pieces : 0, 1, worker, workers, &first, &last);
    for (int64_t piece = first; piece < last; piece++) {
        const int64_t image = piece / pieces, start = piece % pieces * POINTS;
        const int64_t n = s.points - start < POINTS ? s.points - start : POINTS;
        float slopes[2][POINTS] = {{0}, {0}};
        find_places(&p, &s, grid + 2 * (image * s.points + start), n);
        for (int64_t channel = 0; channel < s.channels && !s.nearest; channel++) {
            const int64_t plane = image * s.channels + channel;
            const float *of = x + plane * area;
            float out[POINTS] = {0};
            memcpy(out, g + plane * s.points + start, (size_t)n * sizeof *out);
            for (int i = 0; i < POINTS; i++) {
                const float a = of[p.at[0][i]] * p.inside[0][i], b = of[p.at[1][i]] * p.inside[1][i];
                const float c = of[p.at[2][i]] * p.inside[2][i], d = of[p.at[3][i]] * p.inside[3][i];
                slopes[0][i] += out[i] * ((b - a) * (1 - p.y[i]) + (d - c) * p.y[i]);
                slopes[1][i] += out[i] * ((c - a) * (1 - p.x[i]) + (d - b) * p.x[i]);
            }
        }
        for (int64_t i = 0; i < n; i++) {
            float *to = grad_grid + 2 * (image * s.points + start + i);
            to[0] = slopes[0][i] * p.x_slope[i];
            to[1] = slopes[1][i] * p.y_slope[i];
        }
    }
    return KERNEL_OK;
}
#endif
