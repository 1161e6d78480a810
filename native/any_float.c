/* Softmax, normalization and cross entropy of every float type. float32, float16 and bfloat16 are computed in float32,
 * float64 in float64; any_float.h has the formulas, which are compiled once for each of the two. The kernels for rows
 * of float32 (norm.c, layer_norm.c, loss.c) are faster. */
#include "halves.h"
#include "vmath64.h"

/* The layout of the rows of a normalization and of their weights: see kernels.h. */
typedef struct rows {
    int64_t rows, segments, length, row_stride, segment_stride;
    int64_t weight_period, weight_row, weight_segment, weight_element, centred;
    int type, weight_type; /* KIND_F32 ..., or WIDE */
} rows;

enum { WIDE = -1 }; /* the type of the computation: float32 for 16-bit floats, float64 for float64 */

COMPACT vfloat load_floats(const void *p, int64_t i, int64_t n, int kind, float rest)
{
    float part[LANES];
    if (n >= LANES)
        return kind <= KIND_F32 ? vload((const float *)p + i) : vload_at(p, i, kind);
    for (int64_t j = 0; j < LANES; j++)
        part[j] = j < n ? scalar_at(p, i + j, kind <= KIND_F32 ? KIND_F32 : kind) : rest;
    return vload(part);
}

COMPACT void store_floats(void *p, int64_t i, vfloat x, int64_t n, int kind)
{
    if (kind <= KIND_F32)
        vstore_up_to((float *)p + i, x, n);
    else
        store_halves((uint16_t *)p + i, to_halves(x, kind), n);
}

COMPACT vdouble load_doubles(const void *p, int64_t i, int64_t n, double rest)
{
    double part[DLANES];
    if (n >= DLANES)
        return dload((const double *)p + i);
    for (int64_t j = 0; j < DLANES; j++)
        part[j] = j < n ? ((const double *)p)[i + j] : rest;
    return dload(part);
}

COMPACT void store_doubles(void *p, int64_t i, vdouble x, int64_t n)
{
    memcpy((double *)p + i, &x, (size_t)(n < DLANES ? n : DLANES) * sizeof(double));
}

COMPACT double sum_doubles(vdouble x)
{
    double sum = 0;
    for (int i = 0; i < DLANES; i++)
        sum += x[i];
    return sum;
}

COMPACT double largest_double(vdouble x)
{
    double largest = x[0];
    for (int i = 1; i < DLANES; i++)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

#define real float
#define vreal vfloat
#define COUNT LANES
#define NAME(f) f##_float
#define load(p, i, n, type, rest) load_floats(p, i, n, type, rest)
#define store(p, i, x, n, type) store_floats(p, i, x, n, type)
#define splat(x) vsplat(x)
#define reduce_sum(x) vsum(x)
#define reduce_largest(x) vlargest(x)
#define larger(a, b) vmax(a, b)
#define vector_exp(x) vexp_negative(x)
#define vector_log(x) vlog(x)
#define root(x) vsqrt(x)
#include "any_float.h"
#undef real
#undef vreal
#undef COUNT
#undef NAME
#undef load
#undef store
#undef splat
#undef reduce_sum
#undef reduce_largest
#undef larger
#undef vector_exp
#undef vector_log
#undef root

COMPACT vdouble exp_doubles(vdouble x) { return dexp(x); }
COMPACT vdouble log_doubles(vdouble x) { return dlog(x); }

#define real double
#define vreal vdouble
#define COUNT DLANES
#define NAME(f) f##_double
#define load(p, i, n, type, rest) load_doubles(p, i, n, rest)
#define store(p, i, x, n, type) store_doubles(p, i, x, n)
#define splat(x) dsplat(x)
#define reduce_sum(x) sum_doubles(x)
#define reduce_largest(x) largest_double(x)
#define larger(a, b) dselect((a) > (b), a, b)
#define vector_exp(x) exp_doubles(x)
#define vector_log(x) log_doubles(x)
#define root(x) dsqrt(x)
#include "any_float.h"

#include "normalize_f32.h"

INLINE int kind_of(int64_t type)
{
    return type == TYPE_float32 ? KIND_F32 : type == TYPE_float16 ? KIND_F16 : type == TYPE_bfloat16 ? KIND_BF16 : -1;
}
INLINE int is_float(int64_t type) { return type == TYPE_float64 || kind_of(type) >= 0; }

/* ---- softmax. A unit of work is one vector of neighbours of the last dim, along the middle dim. */

_Static_assert((int)softmax_outer == (int)softmax_backward_outer && (int)softmax_type == (int)softmax_backward_type,
               "the dims of softmax and its gradient differ");

COMPACT int softmax_lines(const launch *record, void *to, const void *from, const void *grad_y, int worker, int workers)
{
    const int64_t *d = record->dims, outer = d[softmax_outer], count = d[softmax_count], inner = d[softmax_inner];
    const int double_width = d[softmax_type] == TYPE_float64, kind = kind_of(d[softmax_type]);
    const int64_t width = inner == 1 ? 1 : double_width ? DLANES : LANES, strips = (inner + width - 1) / width;
    const int log = (int)d[softmax_log];
    int64_t unit, last;
    if (outer <= 0 || count <= 0 || inner <= 0)
        return KERNEL_OK;
    if (!is_float(d[softmax_type]))
        return KERNEL_BAD_ARGUMENT;
    worker_share(outer * strips, 1, worker, workers, &unit, &last);
    for (; unit < last; unit++) {
        const int64_t column = unit % strips * width, at = unit / strips * count * inner + column;
        const int64_t n = inner - column;
        if (double_width && grad_y)
            softmax_line_backward_double(to, from, grad_y, at, count, inner, n, kind, log);
        else if (double_width)
            softmax_line_double(to, from, at, count, inner, n, kind, log);
        else if (grad_y)
            softmax_line_backward_float(to, from, grad_y, at, count, inner, n, kind, log);
        else
            softmax_line_float(to, from, at, count, inner, n, kind, log);
    }
    return KERNEL_OK;
}

KERNEL(softmax)
{
    return softmax_lines(record, record->pointers[softmax_y], record->pointers[softmax_x], NULL, worker, workers);
}

KERNEL(softmax_backward)
{
    return softmax_lines(record, record->pointers[softmax_backward_grad_x], record->pointers[softmax_backward_y],
                         record->pointers[softmax_backward_grad_y], worker, workers);
}

/* ---- normalization. Units of work are rows, or weights. */

_Static_assert((int)normalize_rows == (int)normalize_weights_backward_rows &&
                   (int)normalize_weight_element == (int)normalize_weights_backward_weight_element &&
                   (int)normalize_weight_type == (int)normalize_backward_weight_type,
               "the dims of normalize and its gradients differ");

/* The slots that all three kernels have. */
COMPACT rows read_rows(const int64_t *d)
{
    return (rows){.rows = d[normalize_rows],
                  .segments = d[normalize_segments],
                  .length = d[normalize_length],
                  .row_stride = d[normalize_row_stride],
                  .segment_stride = d[normalize_segment_stride],
                  .weight_period = d[normalize_weight_period] > 0 ? d[normalize_weight_period] : 1,
                  .weight_row = d[normalize_weight_row],
                  .weight_segment = d[normalize_weight_segment],
                  .weight_element = d[normalize_weight_element]};
}

/* Whether normalize_f32.h has what computes these rows. */
INLINE int are_plain(const rows *r, int64_t type)
{
    return type == TYPE_float32 && r->weight_type == KIND_F32 && !r->weight_element;
}

INLINE int is_empty(const rows *r) { return r->rows <= 0 || r->segments <= 0 || r->length <= 0; }

/* float64 rows need float64 weights, and other rows must not have them. */
INLINE int types_fit(int64_t type, int64_t weight_type)
{
    return is_float(type) && is_float(weight_type) && (type == TYPE_float64) == (weight_type == TYPE_float64);
}

KERNEL(normalize)
{
    const int64_t *d = record->dims, type = d[normalize_type];
    void *y = record->pointers[normalize_y], *statistics = record->pointers[normalize_statistics];
    const void *x = record->pointers[normalize_x], *weight = record->pointers[normalize_weight],
               *bias = record->pointers[normalize_bias];
    const double epsilon = (double)record->floats[normalize_epsilon] + record->floats[normalize_epsilon_rest];
    rows r = read_rows(d);
    int64_t row, last;
    if (is_empty(&r))
        return KERNEL_OK;
    if (!types_fit(type, d[normalize_weight_type]))
        return KERNEL_BAD_ARGUMENT;
    r.centred = d[normalize_centred];
    r.type = kind_of(type);
    r.weight_type = kind_of(d[normalize_weight_type]);
    const int columns = are_plain(&r, type) && are_columns(&r);
    worker_share(r.rows, columns ? LANES : 1, worker, workers, &row, &last);
    for (; columns && row < last; row += NORM_COLUMNS)
        normalize_columns(y, statistics, x, weight, bias, &r, row,
                          last - row < NORM_COLUMNS ? last - row : NORM_COLUMNS, (float)epsilon);
    for (; row < last; row++)
        if (are_plain(&r, type))
            normalize_row_f32(y, statistics, x, weight, bias, &r, row, (float)epsilon);
        else if (type == TYPE_float64)
            normalize_row_double(y, statistics, x, weight, bias, &r, row, epsilon);
        else
            normalize_row_float(y, statistics, x, weight, bias, &r, row, (float)epsilon);
    return KERNEL_OK;
}

KERNEL(normalize_backward)
{
    const int64_t *d = record->dims, type = d[normalize_backward_type];
    void *grad_x = record->pointers[normalize_backward_grad_x];
    const void *x = record->pointers[normalize_backward_x],
               *statistics = record->pointers[normalize_backward_statistics],
               *weight = record->pointers[normalize_backward_weight],
               *grad_y = record->pointers[normalize_backward_grad_y];
    rows r = read_rows(d);
    int64_t row, last;
    if (is_empty(&r))
        return KERNEL_OK;
    if (!types_fit(type, d[normalize_backward_weight_type]))
        return KERNEL_BAD_ARGUMENT;
    r.centred = d[normalize_backward_centred];
    r.type = kind_of(type);
    r.weight_type = kind_of(d[normalize_backward_weight_type]);
    const int columns = are_plain(&r, type) && are_columns(&r);
    worker_share(r.rows, columns ? LANES : 1, worker, workers, &row, &last);
    for (; columns && row < last; row += NORM_COLUMNS)
        normalize_columns_backward(grad_x, NULL, NULL, x, statistics, weight, grad_y, &r, row,
                                   last - row < NORM_COLUMNS ? last - row : NORM_COLUMNS);
    for (; row < last; row++)
        if (are_plain(&r, type))
            normalize_row_f32_backward(grad_x, x, statistics, weight, grad_y, &r, row);
        else if (type == TYPE_float64)
            normalize_row_backward_double(grad_x, x, statistics, weight, grad_y, &r, row);
        else
            normalize_row_backward_float(grad_x, x, statistics, weight, grad_y, &r, row);
    return KERNEL_OK;
}

KERNEL(normalize_weights_backward)
{
    const int64_t *d = record->dims, type = d[normalize_weights_backward_type];
    void *grad_weight = record->pointers[normalize_weights_backward_grad_weight],
         *grad_bias = record->pointers[normalize_weights_backward_grad_bias];
    const void *x = record->pointers[normalize_weights_backward_x],
               *statistics = record->pointers[normalize_weights_backward_statistics],
               *grad_y = record->pointers[normalize_weights_backward_grad_y];
    rows r = read_rows(d);
    int64_t first, last;
    if (d[normalize_weights_backward_weights] <= 0)
        return KERNEL_OK;
    if (!is_float(type) || (r.weight_element && (r.segments > 1 || r.weight_row)))
        return KERNEL_BAD_ARGUMENT;
    r.type = kind_of(type);
    if (is_empty(&r))
        r.rows = 0;
    worker_share(d[normalize_weights_backward_weights], 16, worker, workers, &first, &last);
    if (type == TYPE_float32 && are_columns(&r) && !r.weight_element && r.rows == d[normalize_weights_backward_weights])
        for (; first < last; first += NORM_COLUMNS)
            normalize_columns_backward(NULL, grad_weight, grad_bias, x, statistics, NULL, grad_y, &r, first,
                                       last - first < NORM_COLUMNS ? last - first : NORM_COLUMNS);
    while (first < last) {
        const int64_t width = type == TYPE_float64 ? DLANES : LANES, left = last - first;
        const int64_t n = !r.weight_element ? 1 : left < width ? left : width;
        if (type == TYPE_float64)
            normalize_weights_double(grad_weight, grad_bias, x, statistics, grad_y, &r, first, n);
        else
            normalize_weights_float(grad_weight, grad_bias, x, statistics, grad_y, &r, first, n);
        first += n;
    }
    return KERNEL_OK;
}

/* ---- cross entropy. Units of work are rows. */

_Static_assert((int)cross_entropy_rows == (int)cross_entropy_backward_rows &&
                   (int)cross_entropy_target_type == (int)cross_entropy_backward_target_type,
               "the dims of cross_entropy and its gradient differ");

INLINE int64_t target_at(const void *targets, int64_t row, int64_t type)
{
    return type == TYPE_int64 ? ((const int64_t *)targets)[row] : ((const int32_t *)targets)[row];
}

/* Zero for the row of a target that is ignored. */
COMPACT void clear_row(void *p, int64_t row, int64_t columns, int64_t type)
{
    const int64_t bytes = columns * (type == TYPE_float64 ? 8 : type == TYPE_float32 ? 4 : 2);
    memset((char *)p + row * bytes, 0, (size_t)bytes);
}

COMPACT int entropy_rows(const launch *record, void *loss, void *row_weights, void *grad, const void *grad_loss,
                         const void *logits, const void *targets, const void *class_weights, float smoothing,
                         int worker, int workers)
{
    const int64_t *d = record->dims, rows = d[cross_entropy_rows], columns = d[cross_entropy_columns];
    const int64_t type = d[cross_entropy_type], target_type = d[cross_entropy_target_type];
    int64_t row, last;
    if (rows <= 0)
        return KERNEL_OK;
    if (!is_float(type) || (target_type != TYPE_int32 && target_type != TYPE_int64))
        return KERNEL_BAD_ARGUMENT;
    for (row = 0; row < rows; row++) {
        const int64_t target = target_at(targets, row, target_type);
        if (target != d[cross_entropy_ignore_index] && (target < 0 || target >= columns))
            return KERNEL_INDEX_RANGE;
    }
    worker_share(rows, 1, worker, workers, &row, &last);
    for (; row < last; row++) {
        const int64_t target = target_at(targets, row, target_type);
        const int counts = target != d[cross_entropy_ignore_index];
        if (grad && !counts)
            clear_row(grad, row, columns, type);
        if (type == TYPE_float64) {
            const double scale = grad ? ((const double *)grad_loss)[row] : 0;
            const double found =
                counts ? row_loss_double(grad, logits, class_weights, row, columns, target, 0, smoothing, scale) : 0;
            if (loss)
                ((double *)loss)[row] = found;
            if (row_weights)
                ((double *)row_weights)[row] = !counts         ? 0
                                               : class_weights ? ((const double *)class_weights)[target]
                                                               : 1;
        } else {
            const float scale = grad ? ((const float *)grad_loss)[row] : 0;
            const float found = counts ? row_loss_float(grad, logits, class_weights, row, columns, target,
                                                        kind_of(type), smoothing, scale)
                                       : 0;
            if (loss)
                ((float *)loss)[row] = found;
            if (row_weights)
                ((float *)row_weights)[row] = !counts ? 0 : class_weights ? ((const float *)class_weights)[target] : 1;
        }
    }
    return KERNEL_OK;
}

KERNEL(cross_entropy)
{
    return entropy_rows(record, record->pointers[cross_entropy_loss], record->pointers[cross_entropy_weights], NULL,
                        NULL, record->pointers[cross_entropy_logits], record->pointers[cross_entropy_targets],
                        record->pointers[cross_entropy_class_weights], record->floats[cross_entropy_smoothing], worker,
                        workers);
}

KERNEL(cross_entropy_backward)
{
    return entropy_rows(
        record, NULL, NULL, record->pointers[cross_entropy_backward_grad_logits],
        record->pointers[cross_entropy_backward_grad_loss], record->pointers[cross_entropy_backward_logits],
        record->pointers[cross_entropy_backward_targets], record->pointers[cross_entropy_backward_class_weights],
        record->floats[cross_entropy_backward_smoothing], worker, workers);
}

/* ---- gradients of activations */

INLINE vfloat vgelu_slope(vfloat x)
{
    vfloat bell;
    const vfloat below = vnormal_below(x, &bell);
    return vfma(x * 0.398942280f, bell, below);
}
/* The derivative of an activation. The tanh of gelu is a sigmoid: 0.5 (1 + tanh(y)) = sigmoid(2 y). */
COMPACT vfloat slope_of(int64_t opcode, vfloat x)
{
    if (opcode == ACTIVATION_BACKWARD_gelu)
        return vgelu_slope(x);
    const int by_tanh = opcode == ACTIVATION_BACKWARD_gelu_tanh;
    const vfloat one = vnumber(1.0f), cube = by_tanh ? x * x * vnumber(0.0713548163f) : vzero(),
                 scale = by_tanh ? vnumber(1.59576912f) : one, z = x * (cube + scale),
                 far = vexp_negative((vfloat)((vint)z | vconstant(INT32_MIN))), near = one / (one + far),
                 bend = far * near * near, more = x * bend * (cube + cube + cube + scale),
                 share = vselect(z < vzero(), far * near, near);
    return share + vselect(bend > vzero(), more, bend); /* without infinity * 0 far out */
}

KERNEL(activation_backward)
{
    const int64_t *d = record->dims, opcode = d[activation_backward_opcode], type = d[activation_backward_type];
    void *grad_x = record->pointers[activation_backward_grad_x];
    const void *x = record->pointers[activation_backward_x], *grad_y = record->pointers[activation_backward_grad_y];
    const int kind = type == TYPE_float16 ? KIND_F16 : type == TYPE_bfloat16 ? KIND_BF16 : KIND_F32;
    const int64_t count = d[activation_backward_count];
    int64_t first, last;
    if (count == 0)
        return KERNEL_OK;
    if (count < 0 || (uint64_t)opcode >= ACTIVATION_BACKWARD_COUNT || (kind == KIND_F32 && type != TYPE_float32))
        return KERNEL_BAD_ARGUMENT;
    worker_share(count, LANES, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i += LANES) {
        const int64_t n = last - i;
        const vfloat slope = slope_of(opcode, load_floats(x, i, n, kind, 0));
        store_floats(grad_x, i, load_floats(grad_y, i, n, kind, 0) * slope, n, kind);
    }
    return KERNEL_OK;
}
