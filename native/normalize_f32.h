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

/* ---- Rows that are columns of a matrix, as those of batch norm of (N, C): each element is a segment, and those of
 * neighbouring rows lie together. NORM_WIDE vectors of rows at a time. */

#if defined(__wasm__)
enum { NORM_WIDE = 1 }; /* code is downloaded */
#define NORM_PART COMPACT
#else
enum { NORM_WIDE = 4 };
#define NORM_PART INLINE
#endif
enum { NORM_COLUMNS = NORM_WIDE * LANES, NORM_BLOCK = 128 }; /* elements that are added in float32 */

INLINE int are_columns(const rows *r)
{
    return r->length == 1 && r->row_stride == 1 && r->weight_row == 1 && !r->weight_segment &&
           r->weight_period >= r->rows;
}

/* Vector j of n rows, of which the last one may be a part. */
NORM_PART vfloat column_part(const float *p, int64_t j, int64_t n)
{
    return n >= NORM_COLUMNS ? vload(p + j * LANES) : vload_up_to(p + j * LANES, n > j * LANES ? n - j * LANES : 0);
}

NORM_PART void put_column_part(float *p, int64_t j, vfloat x, int64_t n)
{
    if (n >= NORM_COLUMNS)
        vstore(p + j * LANES, x);
    else if (n > j * LANES)
        vstore_up_to(p + j * LANES, x, n - j * LANES);
}

/* Of n <= NORM_COLUMNS rows, the sums of x - mean, or where there is g of g; and those of their products with the second
 * x - mean. */
COMPACT void column_sums(double *sums, double *products, const float *x, const float *g, const float *mean,
                         const rows *r, int64_t n)
{
    for (int i = 0; i < NORM_COLUMNS; i++)
        sums[i] = products[i] = 0;
    for (int64_t begin = 0; begin < r->segments; begin += NORM_BLOCK) {
        const int64_t end = begin + NORM_BLOCK < r->segments ? begin + NORM_BLOCK : r->segments;
        vfloat sum[NORM_WIDE] = {0}, product[NORM_WIDE] = {0};
        float part[2][NORM_COLUMNS];
        for (int64_t s = begin; s < end; s++) {
            const int64_t at = s * r->segment_stride;
            UNROLL for (int j = 0; j < NORM_WIDE; j++)
            {
                const vfloat centred = column_part(x + at, j, n) - vload(mean + j * LANES);
                const vfloat slope = g ? column_part(g + at, j, n) : centred;
                sum[j] += slope;
                product[j] = vfma(slope, centred, product[j]);
            }
        }
        UNROLL for (int j = 0; j < NORM_WIDE; j++)
        {
            vstore(part[0] + j * LANES, sum[j]);
            vstore(part[1] + j * LANES, product[j]);
        }
        for (int i = 0; i < NORM_COLUMNS; i++)
            sums[i] += part[0][i], products[i] += part[1][i];
    }
}

/* y = (x - mean) * factor + shift, or where there is g: g * factor + (x - mean) * turn + shift. */
COMPACT void column_results(float *y, const float *x, const float *g, const float *mean, const float *factor,
                            const float *turn, const float *shift, const rows *r, int64_t n)
{
    for (int64_t s = 0; s < r->segments; s++) {
        const int64_t at = s * r->segment_stride;
        UNROLL for (int j = 0; j < NORM_WIDE; j++)
        {
            const vfloat centred = column_part(x + at, j, n) - vload(mean + j * LANES),
                         start = vload(shift + j * LANES);
            const vfloat rest = g ? vfma(centred, vload(turn + j * LANES), start) : start;
            put_column_part(y + at, j, vfma(g ? column_part(g + at, j, n) : centred, vload(factor + j * LANES), rest),
                            n);
        }
    }
}

/* Rows first .. first + n - 1, n <= NORM_COLUMNS. */
COMPACT void normalize_columns(float *y, float *statistics, const float *x, const float *weight, const float *bias,
                               const rows *r, int64_t first, int64_t n, float epsilon)
{
    const double count = (double)r->segments;
    double sums[NORM_COLUMNS], squares[NORM_COLUMNS];
    float mean[NORM_COLUMNS] = {0}, factor[NORM_COLUMNS], shift[NORM_COLUMNS];
    if (r->centred)
        column_sums(sums, squares, x + first, NULL, mean, r, n);
    for (int i = 0; i < NORM_COLUMNS && r->centred; i++)
        mean[i] = (float)(sums[i] / count);
    column_sums(sums, squares, x + first, NULL, mean, r, n);
    for (int64_t i = 0; i < NORM_COLUMNS; i++) {
        const float variance = (float)(squares[i] / count);
        const moments m = {mean[i], variance, 1 / sqrt_scalar(variance + epsilon)};
        factor[i] = i < n && weight ? weight[first + i] * m.inverse : m.inverse;
        shift[i] = i < n && bias ? bias[first + i] : 0;
        if (i < n && statistics)
            memcpy(statistics + 3 * (first + i), &m, sizeof m);
    }
    column_results(y + first, x + first, NULL, mean, factor, NULL, shift, r, n);
}

/* The formulas are those of any_float.h. grad_x, or the weights' gradients. */
COMPACT void normalize_columns_backward(float *grad_x, float *grad_weight, float *grad_bias, const float *x,
                                        const float *statistics, const float *weight, const float *grad_y,
                                        const rows *r, int64_t first, int64_t n)
{
    const double count = (double)r->segments;
    double sums[NORM_COLUMNS], products[NORM_COLUMNS];
    float mean[NORM_COLUMNS] = {0}, factor[NORM_COLUMNS], turn[NORM_COLUMNS], shift[NORM_COLUMNS];
    for (int64_t i = 0; i < n; i++)
        mean[i] = statistics[3 * (first + i)];
    column_sums(sums, products, x + first, grad_y + first, mean, r, n);
    for (int64_t i = 0; i < NORM_COLUMNS; i++) {
        const float inverse = i < n ? statistics[3 * (first + i) + 2] : 0;
        factor[i] = i < n && weight ? weight[first + i] * inverse : inverse;
        turn[i] = (float)(-products[i] / count) * inverse * inverse * factor[i];
        shift[i] = r->centred ? (float)(-sums[i] / count) * factor[i] : 0;
        if (i < n && grad_weight)
            grad_weight[first + i] = (float)products[i] * inverse;
        if (i < n && grad_bias)
            grad_bias[first + i] = (float)sums[i];
    }
    if (grad_x)
        column_results(grad_x + first, x + first, grad_y + first, mean, factor, turn, shift, r, n);
}
