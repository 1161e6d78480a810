/* Kernels of training: cross entropy with its gradient, and AdamW (Loshchilov and Hutter, 2019). */
#include "gpu.h"
#include "entropy.h"
#include "indices.h"

/* Checks the targets, and counts those that are not ignored, in one block. */
DEVICE void count_targets(const launch &record, int32_t *status, unsigned char *scratch, const void *targets,
                          int64_t rows, int64_t columns, int64_t ignored, int64_t bytes, void *counted)
{
    int count = 0;
    bool bad = false;
    FOR_THREADS(row, are_index_bytes(bytes) ? rows : 0)
    {
        const int64_t target = index_at(targets, row, bytes);
        bad = bad || (target != ignored && (target < 0 || target >= columns));
        count += target != ignored;
    }
    if (rows && !are_index_bytes(bytes))
        report(KERNEL_BAD_ARGUMENT);
    else if (bad)
        report(KERNEL_INDEX_RANGE);
    count = block_sum(count);
    if (threadIdx.x == 0) {
        *(int32_t *)scratch = count;
        if (counted && !failed)
            *(float *)counted = (float)count;
    }
}

/* What a target's loss is multiplied with in the gradient. */
DEVICE float share_of(const void *scale, const unsigned char *scratch)
{
    const int count = *(const int32_t *)scratch;
    return (scale ? *(const float *)scale : 1.0f) / (float)(count ? count : 1);
}

#define COUNT_TARGETS(name, rows, columns)                                                                             \
    count_targets(record, status, scratch, record.pointers[name##_targets], rows, columns,                             \
                  record.dims[name##_ignore_index], record.dims[name##_target_bytes], record.pointers[name##_count])

SCRATCH(cross_entropy_f32, 8)
STEP(cross_entropy_f32, 1, 1, 256, 0)
{
    COUNT_TARGETS(cross_entropy_f32, record.dims[cross_entropy_f32_rows], record.dims[cross_entropy_f32_columns]);
}

KERNEL(cross_entropy_f32, rows, 512, 0)
{
    const int64_t *d = record.dims, columns = d[cross_entropy_f32_columns];
    float *loss = (float *)record.pointers[cross_entropy_f32_loss];
    if (failed)
        return;
    const float each = share_of(record.pointers[cross_entropy_f32_scale], scratch);
    FOR_EACH_BLOCK(row, d[cross_entropy_f32_rows])
    {
        const float *logits = (const float *)record.pointers[cross_entropy_f32_logits] + row * columns;
        float *grad = (float *)record.pointers[cross_entropy_f32_grad_logits];
        const int64_t target =
            index_at(record.pointers[cross_entropy_f32_targets], row, d[cross_entropy_f32_target_bytes]);
        grad = grad ? grad + row * columns : nullptr;
        if (target == d[cross_entropy_f32_ignore_index]) {
            if (grad)
                clear_row<4>(grad, columns);
            if (loss && threadIdx.x == 0)
                loss[row] = 0;
            continue;
        }
        const float own = logits[target];
        const exponentials of = sum_exponentials<4>(logits, columns, TYPE_float32); /* a barrier: grad may be logits */
        if (grad)
            entropy_gradient<4>(grad, logits, columns, TYPE_float32, of, target, each);
        if (loss && threadIdx.x == 0)
            loss[row] = logf(of.sum) - (own - of.largest);
    }
}

SCRATCH(nll_loss_f32, 8)
STEP(nll_loss_f32, 1, 1, 256, 0)
{
    COUNT_TARGETS(nll_loss_f32, record.dims[nll_loss_f32_rows], record.dims[nll_loss_f32_columns]);
}

KERNEL(nll_loss_f32, PARTS(rows *MAX(columns, 1), 256), 256, 0)
{
    const int64_t *d = record.dims, columns = d[nll_loss_f32_columns], ignored = d[nll_loss_f32_ignore_index];
    const void *targets = record.pointers[nll_loss_f32_targets];
    const float *scores = (const float *)record.pointers[nll_loss_f32_scores];
    float *loss = (float *)record.pointers[nll_loss_f32_loss];
    float *grad = (float *)record.pointers[nll_loss_f32_grad_scores];
    if (failed)
        return;
    const float each = share_of(record.pointers[nll_loss_f32_scale], scratch);
    FOR_EACH(row, loss ? d[nll_loss_f32_rows] : 0)
    {
        const int64_t target = index_at(targets, row, d[nll_loss_f32_target_bytes]);
        loss[row] = target == ignored ? 0.0f : -scores[row * columns + target];
    }
    FOR_EACH(i, grad ? d[nll_loss_f32_rows] * columns : 0)
    {
        const int64_t row = quotient(i, columns), target = index_at(targets, row, d[nll_loss_f32_target_bytes]);
        grad[i] = target != ignored && target == i - row * columns ? -each : 0.0f;
    }
}

SCRATCH(cross_entropy_planes_f32, 8)
STEP(cross_entropy_planes_f32, 1, 1, 256, 0)
{
    const int64_t *d = record.dims;
    COUNT_TARGETS(cross_entropy_planes_f32, d[cross_entropy_planes_f32_batch] * d[cross_entropy_planes_f32_places],
                  d[cross_entropy_planes_f32_classes]);
}

/* A thread has a place, whose classes lie `places` apart: neighbours read neighbours. */
KERNEL(cross_entropy_planes_f32, CHOOSE(MIN(MIN(batch, classes), places) < 0, -1, PARTS(batch *places, 128)), 128, 0)
{
    const int64_t *d = record.dims, classes = d[cross_entropy_planes_f32_classes];
    const int64_t places = d[cross_entropy_planes_f32_places];
    float *loss = (float *)record.pointers[cross_entropy_planes_f32_loss];
    if (failed || !classes)
        return;
    const float each = share_of(record.pointers[cross_entropy_planes_f32_scale], scratch);
    FOR_EACH(i, d[cross_entropy_planes_f32_batch] * places)
    {
        const int64_t image = quotient(i, places), begin = image * classes * places + i - image * places;
        const int64_t target =
            index_at(record.pointers[cross_entropy_planes_f32_targets], i, d[cross_entropy_planes_f32_target_bytes]);
        const bool kept = target != d[cross_entropy_planes_f32_ignore_index];
        const float *x = (const float *)record.pointers[cross_entropy_planes_f32_logits] + begin;
        float *grad = (float *)record.pointers[cross_entropy_planes_f32_grad_logits];
        const float own = kept ? x[target * places] : 0.0f;
        float largest = -INFINITE, total = 0;
        for (int64_t k = 0; k < classes; k++)
            largest = Larger()(largest, x[k * places]);
        for (int64_t k = 0; k < classes; k++)
            total += expf(x[k * places] - largest);
        for (int64_t k = 0; k < classes && grad; k++) { /* grad may be the logits */
            const float part = expf(x[k * places] - largest) / total;
            grad[begin + k * places] = kept ? (part - (k == target ? 1.0f : 0.0f)) * each : 0.0f;
        }
        if (loss)
            loss[i] = kept ? logf(total) - (own - largest) : 0.0f;
    }
}

KERNEL(adamw_f32, PARTS(count, 1024), 256, 0)
{
    float *parameter = (float *)record.pointers[adamw_f32_parameter], *m = (float *)record.pointers[adamw_f32_m],
          *v = (float *)record.pointers[adamw_f32_v];
    const float *grad = (const float *)record.pointers[adamw_f32_grad];
    const double *numbers = (const double *)record.pointers[adamw_f32_numbers];
    float n[7];
    for (int i = 0; i < 7; i++)
        n[i] = (float)(numbers ? numbers[i] : real_of(record.dims[adamw_f32_number0 + i]));
    const float rate = n[0], beta1 = n[1], beta2 = n[2], epsilon = n[3], decay = n[4];
    const float step = rate / n[5], keep = 1.0f - rate * decay, root = sqrtf(n[6]);
    const auto update = [&](float &p, float &mean, float &square, float g) {
        mean = mean * beta1 + g * (1.0f - beta1);
        square = square * beta2 + g * g * (1.0f - beta2);
        p = p * keep - step * mean / (sqrtf(square) / root + epsilon);
    };
    const int64_t count = record.dims[adamw_f32_count];
    const bool aligned = is_aligned(parameter) && is_aligned(m) && is_aligned(v) && is_aligned(grad);
    const int64_t vectors = aligned ? count / 4 : 0;
    FOR_EACH(i, vectors)
    {
        float4 p = ((float4 *)parameter)[i], mean = ((float4 *)m)[i], square = ((float4 *)v)[i];
        const float4 g = ((const float4 *)grad)[i];
        update(p.x, mean.x, square.x, g.x);
        update(p.y, mean.y, square.y, g.y);
        update(p.z, mean.z, square.z, g.z);
        update(p.w, mean.w, square.w, g.w);
        ((float4 *)m)[i] = mean;
        ((float4 *)v)[i] = square;
        ((float4 *)parameter)[i] = p;
    }
    FOR_EACH(rest, count - 4 * vectors)
    {
        const int64_t i = 4 * vectors + rest;
        update(parameter[i], m[i], v[i], grad[i]);
    }
}
