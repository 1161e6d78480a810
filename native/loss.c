/* Kernels of training: cross entropy with its gradient, and AdamW (Loshchilov and Hutter, 2019). */
#include "vmath.h"

/* Loss of one row unless `loss` is 0, and its gradient (softmax - one-hot) * scale unless grad is NULL; grad may be the
 * logits. */
INLINE float row_loss(float *grad, const float *logits, int64_t columns, int64_t target, float scale, int loss)
{
    const float largest = row_largest(logits, columns), shifted = logits[target] - largest;
    const float total = exp_row(grad, logits, columns, largest);
    if (grad) {
        const vfloat factor = vsplat(scale / total);
        for (int64_t i = 0; i < columns; i += LANES)
            vstore_up_to(grad + i, vload_up_to(grad + i, columns - i) * factor, columns - i);
        grad[target] -= scale;
    }
    return loss ? log_scalar(total) - shifted : 0;
}

INLINE int index_loss(const launch *record, int worker, int workers, const int of_scores)
{
    float *loss = record->pointers[cross_entropy_f32_loss], *grad = record->pointers[cross_entropy_f32_grad_logits],
          *counted = record->pointers[cross_entropy_f32_count];
    const float *logits = record->pointers[cross_entropy_f32_logits],
                *scale = record->pointers[cross_entropy_f32_scale];
    const void *targets = record->pointers[cross_entropy_f32_targets];
    const int64_t rows = record->dims[cross_entropy_f32_rows], columns = record->dims[cross_entropy_f32_columns],
                  ignored = record->dims[cross_entropy_f32_ignore_index],
                  target_bytes = record->dims[cross_entropy_f32_target_bytes];
    int64_t first, last, count = 0;
    if (rows && target_bytes != 4 && target_bytes != 8)
        return KERNEL_BAD_ARGUMENT;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t target = index_at(targets, row, target_bytes);
        if (target != ignored && (target < 0 || target >= columns))
            return KERNEL_INDEX_RANGE;
        count += target != ignored;
    }
    if (counted && worker == 0)
        *counted = (float)count;
    const float each = (scale ? *scale : 1.0f) / (float)(count ? count : 1);
    worker_share(rows, 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const int64_t target = index_at(targets, row, target_bytes);
        float *out = grad ? grad + row * columns : NULL, of_row = 0;
        if (grad && (of_scores || target == ignored))
            memset(out, 0, (size_t)columns * sizeof *out);
        if (target != ignored && of_scores) {
            of_row = loss ? -logits[row * columns + target] : 0; /* a gradient alone comes with any scores' memory */
            if (grad)
                out[target] = -each;
        } else if (target != ignored) {
            of_row = row_loss(out, logits + row * columns, columns, target, each, loss != NULL);
        }
        if (loss)
            loss[row] = of_row;
    }
    return KERNEL_OK;
}

KERNEL(cross_entropy_f32) { return index_loss(record, worker, workers, 0); }
#if !defined(__wasm__)
KERNEL(nll_loss_f32) { return index_loss(record, worker, workers, 1); }
#endif

#if !defined(__wasm__) /* there a copy with the classes last, and cross_entropy_f32: code is downloaded */
/* LANES places or less of an image, of which each class is a plane `places` long. */
INLINE vfloat places_loss(float *grad, const float *logits, int64_t classes, int64_t places, int64_t n,
                          const int64_t target[LANES], vint kept, float scale)
{
    vfloat largest = vsplat(-INFINITE), total = vzero();
    float own[LANES] = {0};
    for (int64_t k = 0; k < classes; k++)
        largest = vmax(vload_up_to(logits + k * places, n), largest);
    for (int64_t k = 0; k < classes; k++) {
        const vfloat e = vexp_negative(vload_up_to(logits + k * places, n) - largest);
        if (grad)
            vstore_up_to(grad + k * places, e, n);
        total += e;
    }
    for (int64_t lane = 0; lane < n; lane++)
        own[lane] = logits[target[lane] * places + lane];
    const vfloat factor = scale / total;
    for (int64_t k = 0; k < classes && grad; k++)
        vstore_up_to(grad + k * places, vselect(kept, vload_up_to(grad + k * places, n) * factor, vzero()), n);
    for (int64_t lane = 0; lane < n && grad; lane++)
        grad[target[lane] * places + lane] -= kept[lane] ? scale : 0;
    return vselect(kept, vlog(total) - (vload(own) - largest), vzero());
}

KERNEL(cross_entropy_planes_f32)
{
    float *loss = record->pointers[cross_entropy_planes_f32_loss];
    float *grad = record->pointers[cross_entropy_planes_f32_grad_logits];
    float *counted = record->pointers[cross_entropy_planes_f32_count];
    const float *logits = record->pointers[cross_entropy_planes_f32_logits];
    const float *scale = record->pointers[cross_entropy_planes_f32_scale];
    const void *targets = record->pointers[cross_entropy_planes_f32_targets];
    const int64_t *d = record->dims, batch = d[cross_entropy_planes_f32_batch];
    const int64_t classes = d[cross_entropy_planes_f32_classes], places = d[cross_entropy_planes_f32_places];
    const int64_t ignored = d[cross_entropy_planes_f32_ignore_index];
    const int64_t target_bytes = d[cross_entropy_planes_f32_target_bytes];
    int64_t first, last, count = 0;
    if (batch < 0 || classes < 0 || places < 0 || (batch && target_bytes != 4 && target_bytes != 8))
        return KERNEL_BAD_ARGUMENT;
    for (int64_t i = 0; i < batch * places; i++) {
        const int64_t target = index_at(targets, i, target_bytes);
        if (target != ignored && (target < 0 || target >= classes))
            return KERNEL_INDEX_RANGE;
        count += target != ignored;
    }
    if (counted && worker == 0)
        *counted = (float)count;
    if (!classes)
        return KERNEL_OK;
    const float each = (scale ? *scale : 1.0f) / (float)(count ? count : 1);
    const int64_t pieces = (places + LANES - 1) / LANES;
    worker_share(batch * pieces, 1, worker, workers, &first, &last);
    for (int64_t piece = first; piece < last; piece++) {
        const int64_t image = piece / pieces, at = piece % pieces * LANES;
        const int64_t n = places - at < LANES ? places - at : LANES, begin = image * classes * places + at;
        int64_t own[LANES] = {0};
        vint kept = vsplat_int(0);
        for (int64_t lane = 0; lane < n; lane++) {
            own[lane] = index_at(targets, image * places + at + lane, target_bytes);
            kept[lane] = own[lane] == ignored ? 0 : -1;
            own[lane] = kept[lane] ? own[lane] : 0;
        }
        const vfloat found =
            places_loss(grad ? grad + begin : NULL, logits + begin, classes, places, n, own, kept, each);
        if (loss)
            vstore_up_to(loss + image * places + at, found, n);
    }
    return KERNEL_OK;
}
#endif

typedef struct adamw_settings {
    float rate, beta1, beta2, epsilon, weight_decay, correction1, correction2; /* the corrections: 1 - beta^t */
} adamw_settings;

KERNEL(adamw_f32)
{
    float *parameter = record->pointers[adamw_f32_parameter], *m = record->pointers[adamw_f32_m],
          *v = record->pointers[adamw_f32_v];
    const float *grad = record->pointers[adamw_f32_grad];
    double n[7];
    int64_t first, last;
    if (record->dims[adamw_f32_count] <= 0)
        return KERNEL_OK;
    const void *numbers = record->pointers[adamw_f32_numbers];
    memcpy(n, numbers ? numbers : &record->dims[adamw_f32_number0], sizeof n);
    const adamw_settings s = {(float)n[0], (float)n[1], (float)n[2], (float)n[3],
                              (float)n[4], (float)n[5], (float)n[6]};
    const vfloat step = vsplat(s.rate / s.correction1), keep = vsplat(1.0f - s.rate * s.weight_decay);
    const vfloat scale = vsplat(1.0f / sqrt_scalar(s.correction2)), epsilon = vsplat(s.epsilon); /* of the root */
    worker_share(record->dims[adamw_f32_count], 64, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i += LANES) {
        const int64_t n = last - i;
        const vfloat g = vload_up_to(grad + i, n);
        const vfloat mean = vload_up_to(m + i, n) * s.beta1 + g * (1.0f - s.beta1);
        const vfloat square = vload_up_to(v + i, n) * s.beta2 + g * g * (1.0f - s.beta2);
        vstore_up_to(m + i, mean, n);
        vstore_up_to(v + i, square, n);
        const vfloat update = step * mean / (vsqrt(square) * scale + epsilon);
        vstore_up_to(parameter + i, vload_up_to(parameter + i, n) * keep - update, n);
    }
    return KERNEL_OK;
}
