/* Connectionist temporal classification (Graves et al. 2006) with its gradient, by the forward-backward algorithm; as
 * native/ctc.c. A block of threads takes a sample, and all states of a time at once. */
#include "gpu.h"

#define NEVER (-1e30f) /* stands for log(0): adding to it changes nothing and gives no NaN */

STEP(ctc_f32, 0, PARTS(count *most, 256), 256, 0)
{
    const int64_t *d = record.dims, most = d[ctc_f32_most];
    const int32_t *labels = (const int32_t *)record.pointers[ctc_f32_labels];
    FOR_EACH(i, d[ctc_f32_count] * most)
    if (i % most < ((const int32_t *)record.pointers[ctc_f32_lengths])[i / most] &&
        (labels[i] < 0 || labels[i] >= d[ctc_f32_classes]))
        report(KERNEL_INDEX_RANGE);
}

struct sample {
    const float *log_probs; /* at time 0 */
    const int32_t *labels;
    int64_t step, states, blank, room; /* step: between two times; room: between two rows of states */
};

DEVICE int64_t class_of(const sample &p, int64_t s) { return s & 1 ? p.labels[s >> 1] : p.blank; }
DEVICE float score_of(const sample &p, int64_t time, int64_t s)
{
    const float x = p.log_probs[time * p.step + class_of(p, s)];
    return x > NEVER ? x : NEVER;
}

/* Whether a path may go from state s - 2 to s: between two different labels. */
DEVICE bool skips(const sample &p, int64_t s)
{
    return s >= 3 && s & 1 && p.labels[s >> 1] != p.labels[(s >> 1) - 1];
}

/* A state's score at a time, from the same state and one or two before (after: by = 1) at the time before. */
DEVICE float advanced(const sample &p, const float *from, int64_t time, int64_t s, int64_t by)
{
    const int64_t one = s + by, two = s + 2 * by;
    const float stay = from[s], a = one >= 0 && one < p.states ? from[one] : NEVER;
    const float b = two >= 0 && two < p.states && skips(p, by < 0 ? s : two) ? from[two] : NEVER;
    const float top = fmaxf(fmaxf(stay, a), b);
    return fmaxf(score_of(p, time, s) + top + logf(expf(stay - top) + expf(a - top) + expf(b - top)), NEVER);
}

/* Subtracts the largest element from a row; returns it. All threads of the block. */
DEVICE float level(float *row, int64_t states, float largest)
{
    const float top = block_largest(largest);
    if (!(top > NEVER / 2))
        return 0;
    FOR_THREADS(s, states) row[s] -= top;
    __syncthreads();
    return top;
}

SCRATCH(ctc_f32, 4 * count * room)
KERNEL(ctc_f32, count, 128, 0)
{
    const int64_t *d = record.dims, steps = d[ctc_f32_steps], count = d[ctc_f32_count], classes = d[ctc_f32_classes];
    if (failed)
        return;
    FOR_EACH_BLOCK(n, count)
    {
        float *loss = (float *)record.pointers[ctc_f32_loss] + n, *grad = (float *)record.pointers[ctc_f32_grad];
        const int64_t length = ((const int32_t *)record.pointers[ctc_f32_lengths])[n],
                      times = ((const int32_t *)record.pointers[ctc_f32_times])[n];
        const sample p = {(const float *)record.pointers[ctc_f32_log_probs] + n * classes,
                          (const int32_t *)record.pointers[ctc_f32_labels] + n * d[ctc_f32_most],
                          count * classes,
                          2 * length + 1,
                          d[ctc_f32_blank],
                          d[ctc_f32_room] / (steps + 7)};
        const int64_t last = p.states - 1;
        float *const alpha = (float *)scratch + n * d[ctc_f32_room], *const betas = alpha + steps * p.room;
        int32_t *const same = (int32_t *)(betas + 2 * p.room); /* the next state with the same label */
        if (grad) {
            grad += n * classes;
            FOR_THREADS(i, steps * classes) grad[i / classes * p.step + i % classes] = 0;
        }
        if (times <= 0) {
            if (threadIdx.x == 0)
                *loss = length ? INFINITE : 0.0f;
            continue;
        }
        double under = 0; /* the offset of alpha */
        int broken = 0;
        for (int64_t t = 0; t < times; t++) {
            const float *before = alpha + (grad ? t - 1 : (t + 1) & 1) * p.room;
            float *row = alpha + (grad ? t : t & 1) * p.room, largest = -INFINITE;
            FOR_THREADS(s, p.states)
            {
                const float x = p.log_probs[t * p.step + class_of(p, s)];
                broken |= x != x;
                row[s] = t ? advanced(p, before, t, s, -1) : s < 2 ? score_of(p, 0, s) : NEVER;
                largest = fmaxf(largest, row[s]);
            }
            under += level(row, p.states, largest);
        }
        const float *row = alpha + (grad ? times - 1 : (times - 1) & 1) * p.room;
        const float one = row[last], two = last ? row[last - 1] : NEVER, top = fmaxf(one, two);
        float found = INFINITE;
        if (block_sum(broken))
            found = NOT_A_NUMBER;
        else if (top > NEVER / 2)
            found = (float)-(under + top + logf(expf(one - top) + expf(two - top)));
        if (threadIdx.x == 0)
            *loss = found;
        if (grad && !(found < INFINITE)) { /* without paths there is no posterior */
            __syncthreads();
            FOR_THREADS(i, times * classes) grad[i / classes * p.step + i % classes] = NOT_A_NUMBER;
            __syncthreads();
            continue;
        }
        FOR_THREADS(s, grad ? p.states : 0)
        {
            same[s] = 0; /* the last; with bit 30: not the first */
            if (s & 1) {
                int64_t next = s + 2;
                while (next < p.states && p.labels[next >> 1] != p.labels[s >> 1])
                    next += 2;
                same[s] = next < p.states ? (int32_t)next : 0;
                for (int64_t earlier = 1; earlier < s; earlier += 2)
                    if (p.labels[earlier >> 1] == p.labels[s >> 1])
                        same[s] |= 1 << 30;
            }
        }
        __syncthreads();
        for (int64_t t = times - 1; grad && t >= 0; t--) {
            float *const beta = betas + (t & 1) * p.room, *const after = betas + ((t + 1) & 1) * p.room;
            float *const share = alpha + t * p.room;
            float largest = -INFINITE, blanks = 0, total = 0;
            FOR_THREADS(s, p.states)
            {
                beta[s] = t < times - 1 ? advanced(p, after, t, s, 1) : s >= last - 1 ? score_of(p, t, s) : NEVER;
                largest = fmaxf(largest, beta[s]);
            }
            level(beta, p.states, largest);
            largest = -INFINITE;
            FOR_THREADS(s, p.states)
            {
                share[s] += beta[s] - score_of(p, t, s);
                largest = fmaxf(largest, share[s]);
            }
            largest = block_largest(largest);
            FOR_THREADS(s, p.states)
            {
                share[s] = expf(share[s] - largest);
                total += share[s];
                blanks += s & 1 ? 0.0f : share[s];
            }
            total = block_sum(total);
            blanks = block_sum(blanks);
            FOR_THREADS(s, p.states)
            {
                if (s % 2 == 0 || same[s] & 1 << 30)
                    continue;
                float sum = share[s];
                for (int64_t next = same[s]; next; next = same[next] & ~(1 << 30))
                    sum += share[next];
                grad[t * p.step + p.labels[s >> 1]] -= sum / total;
            }
            __syncthreads();
            if (threadIdx.x == 0)
                grad[t * p.step + p.blank] -= blanks / total;
            __syncthreads();
        }
        __syncthreads();
    }
}
