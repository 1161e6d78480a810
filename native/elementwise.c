/* Copies, fills, binary operations of f32 with short records, and activations with their gradients. */
#include "arithmetic.h"
#include "vmath.h"

enum { SHARE = 64 }; /* elements: the shares of workers are multiples of it, a few cache lines */

KERNEL(copy_bytes)
{
    int64_t first, last;
    if (record->dims[copy_bytes_bytes] <= 0)
        return KERNEL_OK;
    worker_share(record->dims[copy_bytes_bytes], 4096, worker, workers, &first, &last);
    if (first < last)
        memcpy((char *)record->pointers[copy_bytes_to] + first, (const char *)record->pointers[copy_bytes_from] + first,
               (size_t)(last - first));
    return KERNEL_OK;
}

KERNEL(fill_f32)
{
    float *y = record->pointers[fill_f32_y];
    const float value = record->floats[fill_f32_value];
    int64_t first, last;
    worker_share(record->dims[fill_f32_count], SHARE, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i += LANES)
        vstore_up_to(y + i, vsplat(value), last - i);
    return KERNEL_OK;
}

/* Binary operations ------------------------------------------------------------------------------------------------ */

typedef vfloat binary_function(vfloat a, vfloat b);

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

/* Operands whose element i is p[i / repeat % period], and which elements are a worker's. The place of the present element
 * in p, and how many of the next ones are this one, or lie behind it, are counted: divisions take longer than short runs. */
typedef struct operand {
    const float *p;
    int64_t period, repeat, place, left;
    int walks;
} operand;

typedef struct binary_walk {
    operand a, b;
    int64_t at, last;
} binary_walk;

/* A run of n elements from y on, in which each operand advances or is constant. */
typedef struct binary_part {
    float *y;
    const float *a, *b;
    int64_t n;
    int a_walks, b_walks;
} binary_part;

INLINE void operand_begin(operand *o, int64_t at)
{
    o->walks = o->repeat <= 1 && o->period > 1;
    if (!o->walks && o->period == 1)
        o->repeat = INT64_MAX;
    else if (o->repeat < 1)
        o->repeat = 1;
    o->place = at / o->repeat % o->period;
    o->left = o->walks ? o->period - o->place : o->repeat - at % o->repeat;
}

SMALL_CODE static int binary_begin(binary_walk *walk, const launch *record, int worker, int workers)
{
    const int64_t *d = record->dims;
    const float *a = record->pointers[add_f32_a], *b = record->pointers[add_f32_b];
    *walk =
        (binary_walk){.a = {.p = a ? a : record->floats, .period = d[add_f32_a_period], .repeat = d[add_f32_a_repeat]},
                      .b = {.p = b ? b : record->floats, .period = d[add_f32_b_period], .repeat = d[add_f32_b_repeat]}};
    if (d[add_f32_count] <= 0)
        return KERNEL_OK;
    if (d[add_f32_a_period] < 1 || d[add_f32_b_period] < 1 || (!a && d[add_f32_a_period] != 1) ||
        (!b && d[add_f32_b_period] != 1))
        return KERNEL_BAD_ARGUMENT;
    worker_share(d[add_f32_count], SHARE, worker, workers, &walk->at, &walk->last);
    operand_begin(&walk->a, walk->at);
    operand_begin(&walk->b, walk->at);
    return KERNEL_OK;
}

/* The next run; 0 after the last. */
SMALL_CODE static int binary_next(binary_part *part, binary_walk *walk, float *y)
{
    operand *const both[2] = {&walk->a, &walk->b};
    int64_t n = walk->last - walk->at;
    if (n <= 0)
        return 0;
    for (int i = 0; i < 2; i++)
        n = both[i]->left < n ? both[i]->left : n;
    *part = (binary_part){.y = y + walk->at,
                          .a = walk->a.p + walk->a.place,
                          .b = walk->b.p + walk->b.place,
                          .n = n,
                          .a_walks = walk->a.walks,
                          .b_walks = walk->b.walks};
    walk->at += n;
    for (int i = 0; i < 2; i++) {
        operand *const o = both[i];
        o->left -= n;
        o->place += o->walks ? n : !o->left;
        if (!o->left)
            o->left = o->walks ? o->period : o->repeat;
        if (o->place >= o->period)
            o->place = 0;
    }
    return 1;
}

INLINE int binary(binary_function *operation, const launch *record, int worker, int workers)
{
    binary_walk walk;
    binary_part part;
    const int code = binary_begin(&walk, record, worker, workers);
    while (code == KERNEL_OK && binary_next(&part, &walk, record->pointers[add_f32_y])) {
        if (part.a_walks && part.b_walks)
            binary_run(operation, part.y, part.a, part.b, part.n, 1, 1);
        else if (part.a_walks)
            binary_run(operation, part.y, part.a, part.b, part.n, 1, 0);
        else
            binary_run(operation, part.y, part.a, part.b, part.n, 0, part.b_walks);
    }
    return code;
}

#define BINARY_KERNEL(name, operation)                                                                                 \
    KERNEL(name) { return binary(operation, record, worker, workers); }

BINARY_KERNEL(add_f32, vector_add)
BINARY_KERNEL(sub_f32, vector_sub)
BINARY_KERNEL(mul_f32, vector_mul)
BINARY_KERNEL(div_f32, vector_div)
BINARY_KERNEL(maximum_f32, vector_maximum)
BINARY_KERNEL(minimum_f32, vector_minimum)

/* Gated activation (Shazeer, GLU Variants Improve Transformer, 2020) ----------------------------------------------- */

KERNEL(silu_mul_f32)
{
    float *y = record->pointers[silu_mul_f32_y];
    const float *x = record->pointers[silu_mul_f32_x];
    const int64_t rows = record->dims[silu_mul_f32_rows], columns = record->dims[silu_mul_f32_columns];
    const int64_t y_stride = record->dims[silu_mul_f32_y_stride], x_stride = record->dims[silu_mul_f32_x_stride];
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
    float *grad_x = record->pointers[silu_mul_backward_f32_grad_x];
    const float *x = record->pointers[silu_mul_backward_f32_x],
                *grad_y = record->pointers[silu_mul_backward_f32_grad_y];
    const int64_t rows = record->dims[silu_mul_backward_f32_rows],
                  columns = record->dims[silu_mul_backward_f32_columns];
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
            const vfloat s = vsigmoid(gate); /* one division for both: a division costs more than the exponential */
            vstore_up_to(grad_x + gate_at + i, grad * up * (s * vfma(gate, 1.0f - s, vsplat(1.0f))), n);
            vstore_up_to(grad_x + up_at + i, grad * (gate * s), n);
        }
        at += length;
    }
    return KERNEL_OK;
}
