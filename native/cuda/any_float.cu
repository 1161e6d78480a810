/* Softmax, normalization and cross entropy of every float type. float32, float16 and bfloat16 are computed in float32,
 * float64 in float64. The kernels for rows of float32 (norm.cu, layer_norm.cu, loss.cu) are faster. */
#include "entropy.h"

/* Numbers of the type in which is computed. */
DEVICE float load_as(const void *p, int64_t i, int type, float) { return load_float(p, i, type); }
DEVICE double load_as(const void *p, int64_t i, int, double) { return ((const double *)p)[i]; }
DEVICE void store_as(void *p, int64_t i, int type, float x) { store_float(p, i, type, x); }
DEVICE void store_as(void *p, int64_t i, int, double x) { ((double *)p)[i] = x; }
DEVICE float exp_of(float x) { return expf(x); }
DEVICE double exp_of(double x) { return exp(x); }
DEVICE float log_of(float x) { return logf(x); }
DEVICE double log_of(double x) { return log(x); }
DEVICE float root_of(float x) { return sqrtf(x); }
DEVICE double root_of(double x) { return sqrt(x); }
DEVICE bool is_float(int64_t type) { return type_in(type, TYPES_FLOAT); }

/* ---- softmax: a block for each line where lines are long and dense, else a thread for each */

struct lines {
    int64_t outer, count, inner;
    int type;
    bool log;
};

/* A dense line, by vectors. */
template <int BYTES> DEVICE void softmax_line(const lines &l, void *y, const void *x, int64_t line)
{
    const void *from = (const uint8_t *)x + line * l.count * BYTES;
    void *to = (uint8_t *)y + line * l.count * BYTES;
    const exponentials of = sum_exponentials<BYTES>(from, l.count, l.type);
    const float shift = of.largest + (l.log ? logf(of.sum) : 0), factor = 1 / of.sum;
    map_row<BYTES>(to, from, l.count, l.type, [&](float value, int64_t) {
        return l.log ? value - shift : exp_for<BYTES>(value - shift) * factor;
    });
}

template <class T> DEVICE void softmax_of(const lines &l, void *y, const void *x)
{
    const T zero = 0;
    const bool alone = l.inner == 1;
    if (alone && sizeof(T) == 4) {
        FOR_EACH_BLOCK(line, l.outer)
        if (l.type == TYPE_float32)
            softmax_line<4>(l, y, x, line);
        else
            softmax_line<2>(l, y, x, line);
        return;
    }
    FOR_EACH_BLOCK(unit, alone ? l.outer : PARTS(l.outer * l.inner, blockDim.x))
    {
        const int64_t line = alone ? unit : unit * blockDim.x + threadIdx.x;
        const int64_t at = line / l.inner * l.count * l.inner + line % l.inner;
        const int64_t first = alone ? threadIdx.x : 0, step = alone ? blockDim.x : 1;
        const bool there = line < l.outer * l.inner;
        T largest = (T)-INFINITE, sum = 0;
        for (int64_t i = first; i < l.count && there; i += step) {
            const T value = load_as(x, at + i * l.inner, l.type, zero);
            largest = value > largest ? value : largest;
        }
        largest = alone ? block_largest(largest) : largest;
        for (int64_t i = first; i < l.count && there; i += step)
            sum += exp_of(load_as(x, at + i * l.inner, l.type, zero) - largest);
        sum = alone ? block_sum(sum) : sum;
        const T shift = l.log ? log_of(sum) : zero, factor = 1 / sum;
        for (int64_t i = first; i < l.count && there; i += step) {
            const T centred = load_as(x, at + i * l.inner, l.type, zero) - largest;
            store_as(y, at + i * l.inner, l.type, l.log ? centred - shift : exp_of(centred) * factor);
        }
    }
}

template <class T> DEVICE void softmax_gradient(const lines &l, void *grad_x, const void *y, const void *grad_y)
{
    const T zero = 0;
    const bool alone = l.inner == 1;
    FOR_EACH_BLOCK(unit, alone ? l.outer : PARTS(l.outer * l.inner, blockDim.x))
    {
        const int64_t line = alone ? unit : unit * blockDim.x + threadIdx.x;
        const int64_t at = line / l.inner * l.count * l.inner + line % l.inner;
        const int64_t first = alone ? threadIdx.x : 0, step = alone ? blockDim.x : 1;
        const bool there = line < l.outer * l.inner;
        T sum = 0;
        for (int64_t i = first; i < l.count && there; i += step) {
            const T g = load_as(grad_y, at + i * l.inner, l.type, zero);
            sum += l.log ? g : g * load_as(y, at + i * l.inner, l.type, zero);
        }
        sum = alone ? block_sum(sum) : sum;
        for (int64_t i = first; i < l.count && there; i += step) {
            const T g = load_as(grad_y, at + i * l.inner, l.type, zero),
                    out = load_as(y, at + i * l.inner, l.type, zero);
            store_as(grad_x, at + i * l.inner, l.type, l.log ? g - exp_of(out) * sum : out * (g - sum));
        }
    }
}

DEVICE lines lines_of(const int64_t *d)
{
    return lines{d[softmax_outer], d[softmax_count], d[softmax_inner], (int)d[softmax_type], d[softmax_log] != 0};
}

KERNEL(softmax, CHOOSE(inner == 1, outer, PARTS(outer *inner, 128)), 128, 0)
{
    const lines l = lines_of(record.dims);
    if (!is_float(record.dims[softmax_type]))
        report(KERNEL_BAD_ARGUMENT);
    else if (l.type == TYPE_float64)
        softmax_of<double>(l, record.pointers[softmax_y], record.pointers[softmax_x]);
    else
        softmax_of<float>(l, record.pointers[softmax_y], record.pointers[softmax_x]);
}

KERNEL(softmax_backward, CHOOSE(inner == 1, outer, PARTS(outer *inner, 128)), 128, 0)
{
    const lines l = lines_of(record.dims);
    void *grad_x = record.pointers[softmax_backward_grad_x];
    const void *y = record.pointers[softmax_backward_y], *grad_y = record.pointers[softmax_backward_grad_y];
    if (!is_float(record.dims[softmax_backward_type]))
        report(KERNEL_BAD_ARGUMENT);
    else if (l.type == TYPE_float64)
        softmax_gradient<double>(l, grad_x, y, grad_y);
    else
        softmax_gradient<float>(l, grad_x, y, grad_y);
}

/* ---- normalization: a block for each row, or for each weight */

enum { WEIGHT_WARPS = 8 }; /* of a block of normalize_weights_backward */

struct rows {
    int64_t rows, segments, length, row_stride, segment_stride;
    int64_t weight_period, weight_row, weight_segment, weight_element;
    bool centred;
    int type, weight_type;

    /* Where element i of a row lies, of segments * length; and its weight. */
    DEVICE_MEMBER int64_t place(int64_t row, int64_t i) const
    {
        return segments == 1 ? row * row_stride + i : row * row_stride + i / length * segment_stride + i % length;
    }
    DEVICE_MEMBER int64_t weight(int64_t row, int64_t i) const
    {
        const int64_t of_row = weight_row ? row % weight_period * weight_row : 0;
        return segments == 1 ? of_row + i * weight_element
                             : of_row + i / length * weight_segment + i % length * weight_element;
    }
};

/* The slots that all three kernels have. */
DEVICE rows rows_of(const int64_t *d)
{
    rows r;
    r.rows = d[normalize_rows];
    r.segments = d[normalize_segments];
    r.length = d[normalize_length];
    r.row_stride = d[normalize_row_stride];
    r.segment_stride = d[normalize_segment_stride];
    r.weight_period = d[normalize_weight_period] > 0 ? d[normalize_weight_period] : 1;
    r.weight_row = d[normalize_weight_row];
    r.weight_segment = d[normalize_weight_segment];
    r.weight_element = d[normalize_weight_element];
    r.centred = false;
    r.type = r.weight_type = 0;
    return r;
}

DEVICE bool types_fit(int64_t type, int64_t weight_type)
{
    return is_float(type) && is_float(weight_type) && (type == TYPE_float64) == (weight_type == TYPE_float64);
}

template <class T> DEVICE void normalize_rows_of(const launch &record, const rows &r, T epsilon)
{
    const void *x = record.pointers[normalize_x], *weight = record.pointers[normalize_weight],
               *bias = record.pointers[normalize_bias];
    T *statistics = (T *)record.pointers[normalize_statistics];
    const int64_t count = r.segments * r.length;
    const T zero = 0;
    FOR_EACH_BLOCK(row, r.rows)
    {
        T sum = 0, square = 0;
        if (r.centred)
            FOR_THREADS(i, count) sum += load_as(x, r.place(row, i), r.type, zero);
        const T mean = r.centred ? block_sum(sum) / (T)count : zero;
        FOR_THREADS(i, count)
        {
            const T centred = load_as(x, r.place(row, i), r.type, zero) - mean;
            square += centred * centred;
        }
        const T variance = block_sum(square) / (T)count, inverse = 1 / root_of(variance + epsilon);
        if (statistics && threadIdx.x == 0) {
            statistics[3 * row] = mean;
            statistics[3 * row + 1] = variance;
            statistics[3 * row + 2] = inverse;
        }
        FOR_THREADS(i, count)
        {
            const int64_t at = r.place(row, i), of = r.weight(row, i);
            T value = (load_as(x, at, r.type, zero) - mean) * inverse;
            if (weight)
                value *= load_as(weight, of, r.weight_type, zero);
            if (bias)
                value += load_as(bias, of, r.weight_type, zero);
            store_as(record.pointers[normalize_y], at, r.type, value);
        }
    }
}

KERNEL(normalize, rows, 128, 0)
{
    const int64_t *d = record.dims;
    const double epsilon = (double)record.floats[normalize_epsilon] + record.floats[normalize_epsilon_rest];
    rows r = rows_of(d);
    if (r.segments <= 0 || r.length <= 0)
        return;
    if (!types_fit(d[normalize_type], d[normalize_weight_type])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    r.centred = d[normalize_centred];
    r.type = (int)d[normalize_type];
    r.weight_type = (int)d[normalize_weight_type];
    if (r.type == TYPE_float64)
        normalize_rows_of<double>(record, r, epsilon);
    else
        normalize_rows_of<float>(record, r, (float)epsilon);
}

/* With u = (x - mean) * inverse and h = weight * grad_y: grad_x = inverse * (h - mean(h) - u * mean(h * u)). */
template <class T> DEVICE void normalize_gradient(const launch &record, const rows &r)
{
    const void *x = record.pointers[normalize_backward_x], *weight = record.pointers[normalize_backward_weight],
               *grad_y = record.pointers[normalize_backward_grad_y];
    const T *statistics = (const T *)record.pointers[normalize_backward_statistics];
    const int64_t count = r.segments * r.length;
    const T zero = 0;
    FOR_EACH_BLOCK(row, r.rows)
    {
        const T mean = statistics[3 * row], inverse = statistics[3 * row + 2];
        T total = 0, slope = 0;
        for (int write = 0; write < 2; write++) {
            FOR_THREADS(i, count)
            {
                const int64_t at = r.place(row, i);
                const T u = (load_as(x, at, r.type, zero) - mean) * inverse;
                T h = load_as(grad_y, at, r.type, zero);
                if (weight)
                    h *= load_as(weight, r.weight(row, i), r.weight_type, zero);
                if (write)
                    store_as(record.pointers[normalize_backward_grad_x], at, r.type, (h - total - u * slope) * inverse);
                else
                    total += h, slope += h * u;
            }
            if (!write) {
                total = block_sum(total) / (T)count;
                slope = block_sum(slope) / (T)count;
                total = r.centred ? total : zero;
            }
        }
    }
}

KERNEL(normalize_backward, rows, 128, 0)
{
    const int64_t *d = record.dims;
    rows r = rows_of(d);
    if (r.segments <= 0 || r.length <= 0)
        return;
    if (!types_fit(d[normalize_backward_type], d[normalize_backward_weight_type])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    r.centred = d[normalize_backward_centred];
    r.type = (int)d[normalize_backward_type];
    r.weight_type = (int)d[normalize_backward_weight_type];
    if (r.type == TYPE_float64)
        normalize_gradient<double>(record, r);
    else
        normalize_gradient<float>(record, r);
}

/* The sums for weight `of` over the elements of rows first, first + step .. and segments begin .. end - 1, where elements
 * i lie from `skip` on. */
template <class T>
DEVICE void add_weight(T *weight_sum, T *bias_sum, const launch &record, const rows &r, int64_t first, int64_t step,
                       int64_t begin, int64_t end, int64_t skip, int64_t length)
{
    const void *x = record.pointers[normalize_weights_backward_x],
               *grad_y = record.pointers[normalize_weights_backward_grad_y];
    const T *statistics = (const T *)record.pointers[normalize_weights_backward_statistics];
    const T zero = 0;
    const int64_t segments = end - begin, count = first < r.rows ? PARTS(r.rows - first, step) * segments * length : 0;
    FOR_THREADS(i, count)
    {
        const int64_t row = first + i / (segments * length) * step, segment = begin + i / length % segments;
        const int64_t at = row * r.row_stride + segment * r.segment_stride + skip + i % length;
        const T g = load_as(grad_y, at, r.type, zero);
        *weight_sum += g * ((load_as(x, at, r.type, zero) - statistics[3 * row]) * statistics[3 * row + 2]);
        *bias_sum += g;
    }
}

/* Each element of a row has a weight of its own, shared by all rows: a block sums 32 of them side by side. */
template <class T> DEVICE void weights_of_elements(const launch &record, const rows &r, int64_t rows)
{
    __shared__ T sums[2][WEIGHT_WARPS][32];
    const void *x = record.pointers[normalize_weights_backward_x],
               *grad_y = record.pointers[normalize_weights_backward_grad_y];
    const T *statistics = (const T *)record.pointers[normalize_weights_backward_statistics];
    T *grad_weight = (T *)record.pointers[normalize_weights_backward_grad_weight];
    T *grad_bias = (T *)record.pointers[normalize_weights_backward_grad_bias];
    const int64_t weights = record.dims[normalize_weights_backward_weights];
    const T zero = 0;
    FOR_EACH_BLOCK(block, PARTS(weights, 32))
    {
        const int64_t of = block * 32 + LANE;
        T weight_sum = 0, bias_sum = 0;
#pragma unroll 4
        for (int64_t row = of < weights ? WARP : rows; row < rows; row += WEIGHT_WARPS) {
            const T g = load_as(grad_y, row * r.row_stride + of, r.type, zero);
            const T u = load_as(x, row * r.row_stride + of, r.type, zero) - statistics[3 * row];
            weight_sum += g * (u * statistics[3 * row + 2]);
            bias_sum += g;
        }
        sums[0][WARP][LANE] = weight_sum;
        sums[1][WARP][LANE] = bias_sum;
        __syncthreads();
        if (WARP == 0 && of < weights) {
            for (int warp = 1; warp < WEIGHT_WARPS; warp++) {
                weight_sum += sums[0][warp][LANE];
                bias_sum += sums[1][warp][LANE];
            }
            grad_weight[of] = weight_sum;
            if (grad_bias)
                grad_bias[of] = bias_sum;
        }
        __syncthreads();
    }
}

template <class T> DEVICE void normalize_weights_gradient(const launch &record, const rows &r)
{
    T *grad_weight = (T *)record.pointers[normalize_weights_backward_grad_weight];
    T *grad_bias = (T *)record.pointers[normalize_weights_backward_grad_bias];
    const bool empty = r.rows <= 0 || r.segments <= 0 || r.length <= 0;
    if (r.weight_element) {
        weights_of_elements<T>(record, r, empty ? 0 : r.rows);
        return;
    }
    FOR_EACH_BLOCK(of, record.dims[normalize_weights_backward_weights])
    {
        T weight_sum = 0, bias_sum = 0;
        for (int64_t group = 0; !empty && group < r.weight_period; group++) {
            const int64_t beyond = of - group * r.weight_row, step = r.weight_segment;
            const int64_t begin = step ? beyond / step : 0, end = step ? begin + 1 : r.segments;
            if (beyond >= 0 && beyond == begin * step && begin < r.segments)
                add_weight<T>(&weight_sum, &bias_sum, record, r, group, r.weight_period, begin, end, 0, r.length);
        }
        weight_sum = block_sum(weight_sum);
        bias_sum = block_sum(bias_sum);
        if (threadIdx.x == 0) {
            grad_weight[of] = weight_sum;
            if (grad_bias)
                grad_bias[of] = bias_sum;
        }
    }
}

KERNEL(normalize_weights_backward, weights, 256, 0)
{
    const int64_t *d = record.dims;
    rows r = rows_of(d);
    if (!is_float(d[normalize_weights_backward_type]) || (r.weight_element && (r.segments > 1 || r.weight_row))) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    r.type = (int)d[normalize_weights_backward_type];
    if (r.type == TYPE_float64)
        normalize_weights_gradient<double>(record, r);
    else
        normalize_weights_gradient<float>(record, r);
}

/* ---- cross entropy: a block for each row. Targets are checked before anything is written. */

DEVICE void check_targets(const launch &record, int32_t *status, const void *targets)
{
    const int64_t *d = record.dims, target_type = d[cross_entropy_target_type];
    if (!is_float(d[cross_entropy_type]) || !type_in(target_type, BIT(TYPE_int32) | BIT(TYPE_int64))) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(row, d[cross_entropy_rows])
    {
        const int64_t target = load_integer(targets, row, (int)target_type);
        if (target != d[cross_entropy_ignore_index] && (target < 0 || target >= d[cross_entropy_columns]))
            report(KERNEL_INDEX_RANGE);
    }
}

/* A row without weights of classes and smoothing, faster; returns whether it was one. */
DEVICE bool plain_row(const launch &record, float *loss, float *row_weights, void *grad, const float *grad_loss,
                      const void *logits, int64_t row, int64_t target, const float *weights, float smoothing)
{
    const int64_t columns = record.dims[cross_entropy_columns];
    const int type = (int)record.dims[cross_entropy_type], bytes = (int)type_bytes(type);
    const void *own = (const uint8_t *)logits + row * columns * bytes;
    if (weights || smoothing != 0)
        return false;
    const float at_target = load_float(own, target, type);
    const exponentials of =
        bytes == 4 ? sum_exponentials<4>(own, columns, type) : sum_exponentials<2>(own, columns, type);
    if (grad && bytes == 4)
        entropy_gradient<4>((float *)grad + row * columns, own, columns, type, of, target, grad_loss[row]);
    else if (grad)
        entropy_gradient<2>((uint16_t *)grad + row * columns, own, columns, type, of, target, grad_loss[row]);
    else if (threadIdx.x == 0) {
        loss[row] = logf(of.sum) - (at_target - of.largest);
        if (row_weights)
            row_weights[row] = 1;
    }
    return true;
}
DEVICE bool plain_row(const launch &, double *, double *, void *, const double *, const void *, int64_t, int64_t,
                      const double *, double)
{
    return false;
}

/* The losses, or with `grad` the gradients. */
template <class T>
DEVICE void entropy_rows(const launch &record, T *loss, T *row_weights, void *grad, const T *grad_loss,
                         const void *logits, const void *targets, const T *weights, T smoothing)
{
    const int64_t *d = record.dims, columns = d[cross_entropy_columns];
    const int type = (int)d[cross_entropy_type];
    const T zero = 0, share = smoothing / (T)columns;
    FOR_EACH_BLOCK(row, d[cross_entropy_rows])
    {
        const int64_t target = load_integer(targets, row, (int)d[cross_entropy_target_type]), at = row * columns;
        if (target == d[cross_entropy_ignore_index]) {
            if (grad)
                FOR_THREADS(i, columns) store_as(grad, at + i, type, zero);
            if (threadIdx.x == 0 && loss)
                loss[row] = 0;
            if (threadIdx.x == 0 && row_weights)
                row_weights[row] = 0;
            continue;
        }
        if (plain_row(record, loss, row_weights, grad, grad_loss, logits, row, target, weights, smoothing))
            continue;
        const T of_target = weights ? weights[target] : (T)1, own = (1 - smoothing) * of_target;
        T largest = (T)-INFINITE, sum = 0, weight_sum = 0, shifted_sum = 0;
        FOR_THREADS(i, columns)
        {
            const T value = load_as(logits, at + i, type, zero);
            largest = value > largest ? value : largest;
        }
        largest = block_largest(largest);
        FOR_THREADS(i, columns)
        {
            const T shifted = load_as(logits, at + i, type, zero) - largest, w = weights ? weights[i] : (T)1;
            sum += exp_of(shifted);
            weight_sum += w;
            shifted_sum += share != 0 ? w * shifted : zero;
        }
        sum = block_sum(sum);
        weight_sum = block_sum(weight_sum);
        shifted_sum = block_sum(shifted_sum);
        const T log_sum = log_of(sum);
        if (grad) {
            FOR_THREADS(i, columns)
            {
                const T p = exp_of(load_as(logits, at + i, type, zero) - largest) / sum;
                T slope = p * (own + share * weight_sum) - share * (weights ? weights[i] : (T)1);
                slope -= i == target ? own : zero;
                store_as(grad, at + i, type, slope * grad_loss[row]);
            }
        } else if (threadIdx.x == 0) {
            const T own_logit = load_as(logits, at + target, type, zero) - largest;
            loss[row] =
                own * (log_sum - own_logit) + (share != 0 ? share * (weight_sum * log_sum - shifted_sum) : zero);
            if (row_weights)
                row_weights[row] = of_target;
        }
    }
}

STEP(cross_entropy, 0, PARTS(rows, 256), 256, 0)
{
    check_targets(record, status, record.pointers[cross_entropy_targets]);
}

KERNEL(cross_entropy, rows, 512, 0)
{
    const void *logits = record.pointers[cross_entropy_logits], *targets = record.pointers[cross_entropy_targets];
    void *loss = record.pointers[cross_entropy_loss], *of_rows = record.pointers[cross_entropy_weights];
    const void *weights = record.pointers[cross_entropy_class_weights];
    const float smoothing = record.floats[cross_entropy_smoothing];
    if (failed)
        return;
    if (record.dims[cross_entropy_type] == TYPE_float64)
        entropy_rows<double>(record, (double *)loss, (double *)of_rows, nullptr, nullptr, logits, targets,
                             (const double *)weights, (double)smoothing);
    else
        entropy_rows<float>(record, (float *)loss, (float *)of_rows, nullptr, nullptr, logits, targets,
                            (const float *)weights, smoothing);
}

STEP(cross_entropy_backward, 0, PARTS(rows, 256), 256, 0)
{
    check_targets(record, status, record.pointers[cross_entropy_backward_targets]);
}

KERNEL(cross_entropy_backward, rows, 512, 0)
{
    void *grad = record.pointers[cross_entropy_backward_grad_logits];
    const void *grad_loss = record.pointers[cross_entropy_backward_grad_loss],
               *logits = record.pointers[cross_entropy_backward_logits],
               *targets = record.pointers[cross_entropy_backward_targets],
               *weights = record.pointers[cross_entropy_backward_class_weights];
    const float smoothing = record.floats[cross_entropy_backward_smoothing];
    if (failed)
        return;
    if (record.dims[cross_entropy_backward_type] == TYPE_float64)
        entropy_rows<double>(record, nullptr, nullptr, grad, (const double *)grad_loss, logits, targets,
                             (const double *)weights, (double)smoothing);
    else
        entropy_rows<float>(record, nullptr, nullptr, grad, (const float *)grad_loss, logits, targets,
                            (const float *)weights, smoothing);
}

/* ---- Gradients of activations */

/* The sigmoid, of a result with so many bytes. */
template <int BYTES> DEVICE float sigmoid_of(float x)
{
    return BYTES == 2 ? short_quotient(1.0f, 1.0f + short_exp(-x)) : 1.0f / (1.0f + expf(-x));
}

template <int BYTES> DEVICE float slope_of(int64_t opcode, float x)
{
    const float square = x * x;
    if (opcode == ACTIVATION_BACKWARD_gelu)
        return 0.5f * erfcf(x * -0.70710678118f) + x * 0.398942280f * expf(-0.5f * square);
    if (opcode == ACTIVATION_BACKWARD_silu) {
        const float share = sigmoid_of<BYTES>(x);
        return share * (1.0f + x * (1.0f - share));
    }
    /* 0.5 (1 + tanh(y)) is a sigmoid of 2 y */
    const float share = sigmoid_of<BYTES>(x * (1.59576912161f + 0.0713548162726f * square));
    const float bend = share * (1.0f - share);
    return share + (bend > 0 ? x * bend * (1.59576912161f + 0.214064448818f * square) : bend);
}

template <int BYTES>
DEVICE void slopes(int64_t opcode, int type, int64_t count, void *grad_x, const void *x, const void *grad_y)
{
    constexpr int width = VECTOR / BYTES;
    const int64_t vectors = is_aligned(grad_x) && is_aligned(x) && is_aligned(grad_y) ? count / width : 0;
    uint4 in[UNDER_WAY], grad[UNDER_WAY];
    for_vectors(
        vectors,
        [&](int u, int64_t i) {
            in[u] = ((const uint4 *)x)[i];
            grad[u] = ((const uint4 *)grad_y)[i];
        },
        [&](int u, int64_t i) {
            float at[width], g[width];
            floats_of<BYTES>(at, in[u], type);
            floats_of<BYTES>(g, grad[u], type);
#pragma unroll
            for (int k = 0; k < width; k++)
                g[k] *= slope_of<BYTES>(opcode, at[k]);
            ((uint4 *)grad_x)[i] = vector_of<BYTES>(g, type);
        });
    FOR_EACH(rest, count - width * vectors)
    {
        const int64_t i = width * vectors + rest;
        store_float(grad_x, i, type, load_float(grad_y, i, type) * slope_of<BYTES>(opcode, load_float(x, i, type)));
    }
}

CONSTANT uint32_t activation_types[] = ACTIVATION_BACKWARD_TYPES;

KERNEL(activation_backward, VECTOR_BLOCKS(count), 256, 0)
{
    const int64_t *d = record.dims, opcode = d[activation_backward_opcode], count = d[activation_backward_count];
    void *grad_x = record.pointers[activation_backward_grad_x];
    const void *x = record.pointers[activation_backward_x], *grad_y = record.pointers[activation_backward_grad_y];
    if (opcode < 0 || opcode >= ACTIVATION_BACKWARD_COUNT ||
        !type_in(d[activation_backward_type], activation_types[opcode])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)d[activation_backward_type];
    if (type == TYPE_float32)
        slopes<4>(opcode, type, count, grad_x, x, grad_y);
    else
        slopes<2>(opcode, type, count, grad_x, x, grad_y);
}
