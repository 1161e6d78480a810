/* `normalize` and its gradient for rows of float32 whose segments have one weight each: group, instance and batch norm.
 * Included by any_float.c, whose own functions take every float type and layout. */

enum { NORM_CHAINS = 4 };

typedef moments_float moments;

/* The sum of n numbers, or of the squares of x - mean. */
static double segment_sum(const float *x, int64_t n, float mean, int square)
{
    vfloat sums[NORM_CHAINS] = {vzero(), vzero(), vzero(), vzero()};
    int64_t i = 0;
    for (; i + NORM_CHAINS * LANES <= n; i += NORM_CHAINS * LANES)
        for (int j = 0; j < NORM_CHAINS; j++) {
            const vfloat centred = vload(x + i + j * LANES) - mean;
            sums[j] = square ? vfma(centred, centred, sums[j]) : sums[j] + centred;
        }
    for (; i < n; i += LANES) {
        const vfloat centred = (n - i >= LANES ? vload(x + i) : vload_part_or(x + i, n - i, mean)) - mean;
        sums[0] = square ? vfma(centred, centred, sums[0]) : sums[0] + centred;
    }
    return vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

static float row_total(const float *x, const rows *r, float mean, int square)
{
    double total = 0;
    for (int64_t s = 0; s < r->segments; s++)
        total += segment_sum(x + s * r->segment_stride, r->length, mean, square);
    return (float)(total / (double)(r->segments * r->length));
}

static void normalize_row_f32(float *y, float *statistics, const float *x, const float *weight, const float *bias,
                              const rows *r, int64_t row, float epsilon)
{
    int64_t place = row % r->weight_period * r->weight_row;
    x += row * r->row_stride, y += row * r->row_stride;
    const float mean = r->centred ? row_total(x, r, 0, 0) : 0, variance = row_total(x, r, mean, 1),
                inverse = 1 / sqrt_scalar(variance + epsilon);
    if (statistics) {
        const moments m = {mean, variance, inverse};
        memcpy(statistics + 3 * row, &m, sizeof m);
    }
    for (int64_t s = 0; s < r->segments; s++, place += r->weight_segment) {
        const vfloat factor = vsplat(weight ? weight[place] * inverse : inverse),
                     shift = vsplat(bias ? bias[place] : 0);
        const float *in = x + s * r->segment_stride;
        float *out = y + s * r->segment_stride;
        for (int64_t i = 0; i < r->length; i += LANES) {
            const int64_t n = r->length - i;
            vstore_up_to(out + i, vfma(vload_up_to(in + i, n) - mean, factor, shift), n);
        }
    }
}

/* Adds the sums of g and of g * (x - mean) over n elements. */
static void slope_sums(const float *x, const float *g, int64_t n, float mean, float *sum, float *product)
{
    vfloat sums[2] = {vzero(), vzero()}, products[2] = {vzero(), vzero()};
    for (int64_t i = 0; i < n; i += LANES) {
        const int odd = (int)(i / LANES & 1);
        const vfloat slope = vload_up_to(g + i, n - i);
        sums[odd] += slope;
        products[odd] =
            vfma(slope, (n - i >= LANES ? vload(x + i) : vload_part_or(x + i, n - i, mean)) - mean, products[odd]);
    }
    *sum = vsum(sums[0] + sums[1]);
    *product = vsum(products[0] + products[1]);
}

/* The formula is that of any_float.h. */
static void normalize_row_f32_backward(float *grad_x, const float *x, const float *statistics, const float *weight,
                                       const float *grad_y, const rows *r, int64_t row)
{
    const int64_t first = row % r->weight_period * r->weight_row;
    const double count = (double)(r->segments * r->length);
    moments m;
    double total = 0, slope = 0;
    memcpy(&m, statistics + 3 * row, sizeof m);
    x += row * r->row_stride, grad_x += row * r->row_stride, grad_y += row * r->row_stride;
    for (int64_t s = 0; s < r->segments; s++) {
        const int64_t at = s * r->segment_stride;
        const double own = weight ? weight[first + s * r->weight_segment] : 1;
        float sum, product;
        slope_sums(x + at, grad_y + at, r->length, m.mean, &sum, &product);
        total += own * sum, slope += own * product;
    }
    const vfloat shift = vsplat(r->centred ? (float)(-total / count) * m.inverse : 0),
                 turn = vsplat((float)(-slope / count) * m.inverse * m.inverse * m.inverse);
    for (int64_t s = 0; s < r->segments; s++) {
        const int64_t at = s * r->segment_stride;
        const vfloat factor = vsplat(m.inverse * (weight ? weight[first + s * r->weight_segment] : 1));
        for (int64_t i = at; i < at + r->length; i += LANES) {
            const int64_t n = at + r->length - i;
            const vfloat centred = vload_up_to(x + i, n) - m.mean;
            vstore_up_to(grad_x + i, vfma(vload_up_to(grad_y + i, n), factor, vfma(centred, turn, shift)), n);
        }
    }
}
