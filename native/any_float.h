/* Softmax, normalization and cross entropy for one width of floats, included by any_float.c twice:
 *
 * real, vreal, COUNT: a number, a vector of them, and how many it holds. NAME(f) is f's name for this width.
 * load(p, i, n, type, rest): at most COUNT elements of any type of this width from element i on, `rest` for those past
 * n; store(p, i, x, n, type). splat, reduce_sum, reduce_largest, larger, vector_exp, vector_log and root say what they
 * do. */

/* ---- softmax of the middle dim of (outer, count, inner) */

/* Sums run along the vectors where inner is 1, else across them: vectors then hold neighbours of the last dim. */
COMPACT void NAME(softmax_line)(void *y, const void *x, int64_t at, int64_t count, int64_t inner, int64_t n, int type,
                                int log)
{
    const int64_t step = inner == 1 ? COUNT : 1, stride = inner;
    const real least = -(real)INFINITE;
    vreal largest = splat(least), sum = splat(0);
#define LEFT(i) (inner == 1 ? count - (i) : n)
    for (int64_t i = 0; i < count; i += step)
        largest = larger(largest, load(x, at + i * stride, LEFT(i), type, least));
    if (inner == 1)
        largest = splat(reduce_largest(largest));
    for (int64_t i = 0; i < count; i += step)
        sum += vector_exp(load(x, at + i * stride, LEFT(i), type, least) - largest);
    if (inner == 1)
        sum = splat(reduce_sum(sum));
    const vreal shift = log ? vector_log(sum) : splat(0), factor = 1 / sum;
    for (int64_t i = 0; i < count; i += step) {
        const vreal centred = load(x, at + i * stride, LEFT(i), type, least) - largest;
        store(y, at + i * stride, log ? centred - shift : vector_exp(centred) * factor, LEFT(i), type);
    }
}

COMPACT void NAME(softmax_line_backward)(void *grad_x, const void *y, const void *grad_y, int64_t at, int64_t count,
                                         int64_t inner, int64_t n, int type, int log)
{
    const int64_t step = inner == 1 ? COUNT : 1;
    vreal sum = splat(0);
    for (int64_t i = 0; i < count; i += step) {
        const vreal g = load(grad_y, at + i * inner, LEFT(i), type, 0);
        sum += log ? g : g * load(y, at + i * inner, LEFT(i), type, 0);
    }
    if (inner == 1)
        sum = splat(reduce_sum(sum));
    for (int64_t i = 0; i < count; i += step) {
        const vreal g = load(grad_y, at + i * inner, LEFT(i), type, 0), out = load(y, at + i * inner, LEFT(i), type, 0);
        store(grad_x, at + i * inner, log ? g - vector_exp(out) * sum : out * (g - sum), LEFT(i), type);
    }
#undef LEFT
}

/* ---- normalization */

typedef struct NAME(moments) {
    real mean, variance, inverse;
} NAME(moments);

/* Sums over a row of x, or of the squares of x - mean. */
COMPACT real NAME(row_sum)(const void *x, const rows *r, int64_t at, real mean, int square)
{
    real total = 0;
    for (int64_t s = 0; s < r->segments; s++, at += r->segment_stride) {
        vreal sum = splat(0);
        for (int64_t i = 0; i < r->length; i += COUNT) {
            const vreal centred = load(x, at + i, r->length - i, r->type, mean) - mean;
            sum += square ? centred * centred : centred;
        }
        total += reduce_sum(sum);
    }
    return total;
}

/* Weights of elements i .. of a segment, from `place` on; 1 and 0 where there are none. */
COMPACT vreal NAME(weights_at)(const void *weight, const rows *r, int64_t place, int64_t i, real none)
{
    if (!weight)
        return splat(none);
    if (r->weight_element)
        return load(weight, place + i, r->length - i, r->weight_type, 0);
    return splat(load(weight, place, 1, r->weight_type, 0)[0]);
}

COMPACT void NAME(normalize_row)(void *y, real *statistics, const void *x, const void *weight, const void *bias,
                                 const rows *r, int64_t row, real epsilon)
{
    int64_t at = row * r->row_stride, place = row % r->weight_period * r->weight_row;
    const real count = (real)(r->segments * r->length);
    const real mean = r->centred ? NAME(row_sum)(x, r, at, 0, 0) / count : 0;
    const real variance = NAME(row_sum)(x, r, at, mean, 1) / count, inverse = 1 / root(splat(variance + epsilon))[0];
    if (statistics) {
        const NAME(moments) m = {mean, variance, inverse};
        memcpy(statistics + 3 * row, &m, sizeof m);
    }
    for (int64_t s = 0; s < r->segments; s++, at += r->segment_stride, place += r->weight_segment)
        for (int64_t i = 0; i < r->length; i += COUNT) {
            const vreal u = (load(x, at + i, r->length - i, r->type, 0) - mean) * inverse;
            const vreal w = NAME(weights_at)(weight, r, place, i, 1), b = NAME(weights_at)(bias, r, place, i, 0);
            store(y, at + i, u * w + b, r->length - i, r->type);
        }
}

/* With u = (x - mean) * inverse and h = weight * grad_y: grad_x = inverse * (h - mean(h) - u * mean(h * u)). */
COMPACT void NAME(normalize_row_backward)(void *grad_x, const void *x, const real *statistics, const void *weight,
                                          const void *grad_y, const rows *r, int64_t row)
{
    const int64_t start = row * r->row_stride, first = row % r->weight_period * r->weight_row;
    NAME(moments) m;
    real total = 0, slope = 0;
    memcpy(&m, statistics + 3 * row, sizeof m);
    for (int write = 0; write < 2; write++) {
        int64_t at = start, place = first;
        for (int64_t s = 0; s < r->segments; s++, at += r->segment_stride, place += r->weight_segment) {
            vreal sum = splat(0), product = splat(0);
            for (int64_t i = 0; i < r->length; i += COUNT) {
                const int64_t n = r->length - i;
                const vreal u = (load(x, at + i, n, r->type, m.mean) - m.mean) * m.inverse;
                const vreal h = load(grad_y, at + i, n, r->type, 0) * NAME(weights_at)(weight, r, place, i, 1);
                if (write)
                    store(grad_x, at + i, (h - total - u * slope) * m.inverse, n, r->type);
                sum += h;
                product += h * u;
            }
            if (!write)
                total += reduce_sum(sum), slope += reduce_sum(product);
        }
        const real count = (real)(r->segments * r->length);
        if (!write)
            total = r->centred ? total / count : 0, slope /= count;
    }
}

/* The contribution of piece s of a row to the gradients of the weights, from element `skip` of the piece on. */
COMPACT void NAME(add_piece)(vreal *weight_sum, vreal *bias_sum, const void *x, const real *statistics,
                             const void *grad_y, const rows *r, int64_t row, int64_t s, int64_t skip, int64_t length)
{
    const int64_t at = row * r->row_stride + s * r->segment_stride + skip;
    NAME(moments) m;
    memcpy(&m, statistics + 3 * row, sizeof m);
    for (int64_t i = 0; i < length; i += COUNT) {
        const vreal g = load(grad_y, at + i, length - i, r->type, 0);
        *weight_sum += g * ((load(x, at + i, length - i, r->type, m.mean) - m.mean) * m.inverse);
        *bias_sum += g;
    }
}

/* grad_weight and grad_bias of weights first .. first + n - 1: n > 1 only if each element has a separate weight, shared
 * by all rows. Else a weight belongs to one segment, or to all, of every weight_period-th row. */
COMPACT void NAME(normalize_weights)(real *grad_weight, real *grad_bias, const void *x, const real *statistics,
                                     const void *grad_y, const rows *r, int64_t first, int64_t n)
{
    vreal weight_sum = splat(0), bias_sum = splat(0);
    for (int64_t row = 0; r->weight_element && row < r->rows; row++)
        NAME(add_piece)(&weight_sum, &bias_sum, x, statistics, grad_y, r, row, 0, first, n);
    for (int64_t of = 0; !r->weight_element && of < r->weight_period; of++) {
        const int64_t beyond = first - of * r->weight_row, step = r->weight_segment;
        const int64_t begin = step ? beyond / step : 0, end = step ? begin + 1 : r->segments;
        if (beyond < 0 || beyond != begin * step || begin >= r->segments)
            continue;
        for (int64_t row = of; row < r->rows; row += r->weight_period)
            for (int64_t s = begin; s < end; s++)
                NAME(add_piece)(&weight_sum, &bias_sum, x, statistics, grad_y, r, row, s, 0, r->length);
    }
    for (int64_t i = 0; i < n; i++) {
        grad_weight[first + i] = r->weight_element ? weight_sum[i] : reduce_sum(weight_sum);
        if (grad_bias)
            grad_bias[first + i] = r->weight_element ? bias_sum[i] : reduce_sum(bias_sum);
    }
}

/* ---- cross entropy */

/* Loss of a row, or its gradient times `scale` where grad is given. */
COMPACT real NAME(row_loss)(void *grad, const void *logits, const real *weights, int64_t row, int64_t columns,
                            int64_t target, int type, real smoothing, real scale)
{
    const int64_t at = row * columns;
    const real least = -(real)INFINITE, share = smoothing / (real)columns;
    const real own = (1 - smoothing) * (weights ? weights[target] : 1);
    vreal most = splat(least), total = splat(0), weight_sum = splat(0), shifted_sum = splat(0);
    for (int64_t i = 0; i < columns; i += COUNT)
        most = larger(most, load(logits, at + i, columns - i, type, least));
    const real largest = reduce_largest(most);
    for (int64_t i = 0; i < columns; i += COUNT)
        total += vector_exp(load(logits, at + i, columns - i, type, least) - largest);
    const real sum = reduce_sum(total), log_sum = vector_log(splat(sum))[0];
    for (int64_t i = 0; share != 0 && i < columns; i += COUNT) {
        const vreal w = weights ? load(weights, i, columns - i, WIDE, 0) : splat(1);
        weight_sum += w;
        shifted_sum += w * (load(logits, at + i, columns - i, type, largest) - largest);
    }
    const real all = weights ? reduce_sum(weight_sum) : (real)columns;
    if (!grad) {
        const real own_logit = load(logits, at + target, 1, type, 0)[0] - largest;
        return own * (log_sum - own_logit) + (share != 0 ? share * (all * log_sum - reduce_sum(shifted_sum)) : 0);
    }
    for (int64_t i = 0; i < columns; i += COUNT) {
        const vreal p = vector_exp(load(logits, at + i, columns - i, type, least) - largest) / sum;
        vreal slope = p * (own + share * all);
        if (share != 0)
            slope -= share * (weights ? load(weights, i, columns - i, WIDE, 0) : splat(1));
        if (target >= i && target < i + COUNT)
            slope[target - i] -= own;
        store(grad, at + i, slope * scale, columns - i, type);
    }
    return 0;
}
