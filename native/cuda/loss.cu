/* Kernels of training: cross entropy with its gradient, and AdamW (Loshchilov and Hutter, 2019). */
#include "gpu.h"

/* Checks the targets, and counts those that are not ignored, in one block. */
SCRATCH(cross_entropy_f32, 8)
STEP(cross_entropy_f32, 1, 1, 256, 0)
{
    const int64_t *d = record.dims, ignored = d[cross_entropy_f32_ignore_index];
    const int32_t *targets = (const int32_t *)record.pointers[cross_entropy_f32_targets];
    float *counted = (float *)record.pointers[cross_entropy_f32_count];
    int count = 0;
    bool bad = false;
    FOR_THREADS(row, d[cross_entropy_f32_rows])
    {
        const int32_t target = targets[row];
        bad = bad || (target != ignored && (target < 0 || target >= d[cross_entropy_f32_columns]));
        count += target != ignored;
    }
    if (bad)
        report(KERNEL_INDEX_RANGE);
    count = block_sum(count);
    if (threadIdx.x == 0) {
        *(int32_t *)scratch = count;
        if (counted && !failed)
            *counted = (float)count;
    }
}

KERNEL(cross_entropy_f32, rows, 128, 0)
{
    const int64_t *d = record.dims, columns = d[cross_entropy_f32_columns];
    const float *scale = (const float *)record.pointers[cross_entropy_f32_scale];
    float *loss = (float *)record.pointers[cross_entropy_f32_loss];
    if (failed)
        return;
    const int count = *(const int32_t *)scratch;
    const float each = (scale ? *scale : 1.0f) / (float)(count ? count : 1);
    FOR_EACH_BLOCK(row, d[cross_entropy_f32_rows])
    {
        const float *logits = (const float *)record.pointers[cross_entropy_f32_logits] + row * columns;
        float *grad = (float *)record.pointers[cross_entropy_f32_grad_logits];
        const int64_t target = ((const int32_t *)record.pointers[cross_entropy_f32_targets])[row];
        grad = grad ? grad + row * columns : nullptr;
        if (target == d[cross_entropy_f32_ignore_index]) {
            if (grad)
                FOR_THREADS(i, columns) grad[i] = 0;
            if (loss && threadIdx.x == 0)
                loss[row] = 0;
            continue;
        }
        float largest = -INFINITE, total = 0;
        FOR_THREADS(i, columns) largest = fmaxf(largest, logits[i]);
        largest = block_largest(largest);
        FOR_THREADS(i, columns) total += expf(logits[i] - largest);
        total = block_sum(total);
        const float own = logits[target] - largest;
        __syncthreads(); /* grad may be the logits */
        if (grad)
            FOR_THREADS(i, columns)
        grad[i] = expf(logits[i] - largest) * (each / total) - (i == target ? each : 0.0f);
        if (loss && threadIdx.x == 0)
            loss[row] = logf(total) - own;
    }
}

KERNEL(adamw_f32, PARTS(count, 256), 256, 0)
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
    FOR_EACH(i, record.dims[adamw_f32_count])
    {
        const float g = grad[i];
        const float mean = m[i] * beta1 + g * (1.0f - beta1), square = v[i] * beta2 + g * g * (1.0f - beta2);
        m[i] = mean;
        v[i] = square;
        parameter[i] = parameter[i] * keep - step * mean / (sqrtf(square) / root + epsilon);
    }
}
