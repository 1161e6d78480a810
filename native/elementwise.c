/* Copies, conversions between float formats, and functions of single elements. */
#include "vmath.h"

enum { SHARE = 64 }; /* elements: shares of workers are cut at multiples of it, a few cache lines */

KERNEL(copy_bytes)
{
    int64_t first, last;
    if (record->dims[0] <= 0)
        return KERNEL_OK;
    worker_share(record->dims[0], 4096, worker, workers, &first, &last);
    if (first < last)
        memcpy((char *)record->pointers[0] + first, (const char *)record->pointers[1] + first, (size_t)(last - first));
    return KERNEL_OK;
}

KERNEL(fill_f32)
{
    float *y = record->pointers[0];
    const float value = record->floats[0];
    int64_t first, last;
    worker_share(record->dims[0], SHARE, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i += LANES)
        vstore_up_to(y + i, vsplat(value), last - i);
    return KERNEL_OK;
}

/* Binary operations ------------------------------------------------------------------------------------------------ */

typedef vfloat binary_function(vfloat a, vfloat b);
typedef vfloat unary_function(vfloat x);

/* n elements; a step of 0 repeats the first element of a or b, 1 walks. */
INLINE void binary_run(binary_function *operation, float *y, const float *a, const float *b, int64_t n, int a_step,
                       int b_step)
{
    const vfloat a_first = vsplat(a[0]), b_first = vsplat(b[0]);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore(y + i, operation(a_step ? vload(a + i) : a_first, b_step ? vload(b + i) : b_first));
    if (i < n)
        vstore_part(y + i,
                    operation(a_step ? vload_part(a + i, n - i) : a_first, b_step ? vload_part(b + i, n - i) : b_first),
                    n - i);
}

/* Operands whose element i is p[i / repeat % period], and which elements are a worker's. */
typedef struct operand {
    const float *p;
    int64_t period, repeat;
} operand;

typedef struct binary_walk {
    operand a, b;
    int64_t at, last;
} binary_walk;

/* A run of n elements from y on, for which each operand walks or stays. */
typedef struct binary_part {
    float *y;
    const float *a, *b;
    int64_t n;
    int a_walks, b_walks;
} binary_part;

static int binary_begin(binary_walk *walk, const launch *record, int worker, int workers)
{
    const int64_t *d = record->dims;
    const float *a = record->pointers[1], *b = record->pointers[2];
    *walk = (binary_walk){{a ? a : record->floats, d[1], d[3]}, {b ? b : record->floats, d[2], d[4]}, 0, 0};
    if (d[0] <= 0)
        return KERNEL_OK;
    if (d[1] < 1 || d[2] < 1 || (!a && d[1] != 1) || (!b && d[2] != 1))
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[0], SHARE, worker, workers, &walk->at, &walk->last);
    return KERNEL_OK;
}

/* Where element `at` of an operand lies; cuts n to what lies in one run. */
static const float *operand_at(const operand *o, int64_t at, int64_t *n, int *walks)
{
    int64_t left = *n;
    *walks = o->repeat <= 1 && o->period > 1;
    if (o->repeat > 1) {
        left = o->repeat - at % o->repeat;
        at /= o->repeat;
    } else if (o->period > 1)
        left = o->period - at % o->period;
    *n = left < *n ? left : *n;
    return o->p + (o->period > 1 ? at % o->period : 0);
}

/* The next run; 0 after the last. */
static __attribute__((noinline)) int binary_next(binary_part *part, binary_walk *walk, float *y)
{
    part->n = walk->last - walk->at;
    if (part->n <= 0)
        return 0;
    part->y = y + walk->at;
    part->a = operand_at(&walk->a, walk->at, &part->n, &part->a_walks);
    part->b = operand_at(&walk->b, walk->at, &part->n, &part->b_walks);
    walk->at += part->n;
    return 1;
}

INLINE int binary(binary_function *operation, const launch *record, int worker, int workers)
{
    binary_walk walk;
    binary_part part;
    const int code = binary_begin(&walk, record, worker, workers);
    while (code == KERNEL_OK && binary_next(&part, &walk, record->pointers[0])) {
        if (part.a_walks && part.b_walks)
            binary_run(operation, part.y, part.a, part.b, part.n, 1, 1);
        else if (part.a_walks)
            binary_run(operation, part.y, part.a, part.b, part.n, 1, 0);
        else
            binary_run(operation, part.y, part.a, part.b, part.n, 0, part.b_walks);
    }
    return code;
}

#define BINARY_KERNEL(name, expression)                                                                                \
    INLINE vfloat name##_vector(vfloat a, vfloat b) { return expression; }                                             \
    KERNEL(name) { return binary(name##_vector, record, worker, workers); }

BINARY_KERNEL(add_f32, a + b)
BINARY_KERNEL(sub_f32, a - b)
BINARY_KERNEL(mul_f32, a *b)
BINARY_KERNEL(div_f32, a / b)
BINARY_KERNEL(maximum_f32, vselect((a > b) | (a != a), a, b)) /* NaN if either is */
BINARY_KERNEL(minimum_f32, vselect((a < b) | (a != a), a, b))

/* Functions of one element ----------------------------------------------------------------------------------------- */

INLINE int unary(unary_function *function, const launch *record, int worker, int workers)
{
    float *y = record->pointers[0];
    const float *x = record->pointers[1];
    int64_t first, last, i;
    worker_share(record->dims[0], SHARE, worker, workers, &first, &last);
    for (i = first; i + LANES <= last; i += LANES)
        vstore(y + i, function(vload(x + i)));
    if (i < last)
        vstore_part(y + i, function(vload_part(x + i, last - i)), last - i);
    return KERNEL_OK;
}

#define UNARY_KERNEL(name, function)                                                                                   \
    KERNEL(name) { return unary(function, record, worker, workers); }

UNARY_KERNEL(exp_f32, vexp)
UNARY_KERNEL(silu_f32, vsilu)
UNARY_KERNEL(sigmoid_f32, vsigmoid)
UNARY_KERNEL(tanh_f32, vtanh)
UNARY_KERNEL(log_f32, vlog_any)
UNARY_KERNEL(sqrt_f32, vsqrt)
UNARY_KERNEL(abs_f32, vabs)
UNARY_KERNEL(gelu_f32, vgelu) /* Hendrycks and Gimpel, 2016; the exact form */

KERNEL(gelu_backward_f32)
{
    float *grad_x = record->pointers[0];
    const float *x = record->pointers[1], *grad_y = record->pointers[2];
    int64_t first, last;
    worker_share(record->dims[0], SHARE, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i += LANES) {
        const int64_t n = last - i;
        const vfloat in = vload_up_to(x + i, n);
        vfloat bell;
        const vfloat below = vnormal_below(in, &bell);
        vstore_up_to(grad_x + i, vload_up_to(grad_y + i, n) * vfma(in * 0.398942280f, bell, below), n);
    }
    return KERNEL_OK;
}

/* Gated activation of Shazeer, GLU Variants Improve Transformer (2020) ------------------------------------------------ */

KERNEL(silu_mul_f32)
{
    float *y = record->pointers[0];
    const float *x = record->pointers[1];
    const int64_t rows = record->dims[0], columns = record->dims[1];
    const int64_t y_stride = record->dims[2], x_stride = record->dims[3];
    int64_t first, last;
    if (rows <= 0 || columns <= 0)
        return KERNEL_OK;
    worker_share(rows * columns, SHARE, worker, workers, &first, &last);
    for (int64_t at = first; at < last;) {
        const int64_t row = at / columns, from = at % columns;
        const int64_t n = columns - from < last - at ? columns - from : last - at;
        const float *gate = x + row * x_stride + from, *up = gate + columns;
        float *out = y + row * y_stride + from;
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES)
            vstore(out + i, vsilu(vload(gate + i)) * vload(up + i));
        if (i < n)
            vstore_part(out + i, vsilu(vload_part(gate + i, n - i)) * vload_part(up + i, n - i), n - i);
        at += n;
    }
    return KERNEL_OK;
}

KERNEL(silu_mul_backward_f32)
{
    float *grad_x = record->pointers[0];
    const float *x = record->pointers[1], *grad_y = record->pointers[2];
    const int64_t rows = record->dims[0], columns = record->dims[1];
    int64_t first, last;
    if (rows <= 0 || columns <= 0)
        return KERNEL_OK;
    worker_share(rows * columns, SHARE, worker, workers, &first, &last);
    for (int64_t at = first; at < last;) {
        const int64_t row = at / columns, from = at % columns;
        const int64_t length = columns - from < last - at ? columns - from : last - at;
        const int64_t gate_at = 2 * row * columns + from, up_at = gate_at + columns;
        for (int64_t i = 0; i < length; i += LANES) {
            const int64_t n = length - i;
            const vfloat gate = vload_up_to(x + gate_at + i, n), up = vload_up_to(x + up_at + i, n);
            const vfloat grad = vload_up_to(grad_y + at + i, n);
            const vfloat s = vsigmoid(gate); /* one division for both: they cost more than the exponential */
            vstore_up_to(grad_x + gate_at + i, grad * up * (s * vfma(gate, 1.0f - s, vsplat(1.0f))), n);
            vstore_up_to(grad_x + up_at + i, grad * (gate * s), n);
        }
        at += length;
    }
    return KERNEL_OK;
}
