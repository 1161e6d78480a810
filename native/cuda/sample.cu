/* The next token: repetition penalty (Keskar et al., CTRL, 2019), temperature, top-k, top-p (Holtzman et al., 2020), min-p
 * (Nguyen et al., 2024) and typical sampling (Meister et al., 2023), in this order, as the logits processors of Hugging
 * Face transformers. One block sorts the candidates in descending order, ties by id; then each setting keeps a part of
 * them. */
#include "sorting.h"

enum { SAMPLE_THREADS = 256 };

struct candidate {
    float value; /* a logit, later a weight relative to the largest */
    int32_t id;
};

/* The sum of f(i) over the candidates, in every thread. */
template <class F> DEVICE double total_of(int64_t count, F f)
{
    double sum = 0;
    FOR_THREADS(i, count) sum += f(i);
    return block_sum(sum);
}

/* The length of the shortest prefix whose mass reaches the goal (passes it, when strict), at least 1; `count` where none
 * does. The threads take pieces that follow one another. */
DEVICE int64_t prefix(const candidate *c, int64_t count, double goal, bool strict)
{
    __shared__ double sums[SAMPLE_THREADS];
    __shared__ int64_t found;
    const int64_t piece = PARTS(count, SAMPLE_THREADS), first = piece * threadIdx.x;
    const int64_t last = first + piece < count ? first + piece : count;
    double sum = 0;
    for (int64_t i = first; i < last; i++)
        sum += c[i].value;
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double mass = 0;
        int t = 0;
        found = count;
        for (; t < SAMPLE_THREADS - 1 && !(strict ? mass + sums[t] > goal : mass + sums[t] >= goal); t++)
            mass += sums[t];
        for (int64_t i = piece * t; i < count; i++) { /* by another order of additions it may end a piece later */
            mass += c[i].value;
            if (strict ? mass > goal : mass >= goal) {
                found = i + 1;
                break;
            }
        }
    }
    __syncthreads();
    const int64_t length = found;
    __syncthreads();
    return length > 1 ? length : 1;
}

/* How many candidates are at least the threshold: they are in descending order. */
DEVICE int64_t at_least(const candidate *c, int64_t count, float threshold)
{
    int64_t some = 0;
    FOR_THREADS(i, count) some += c[i].value >= threshold;
    return block_sum(some);
}

/* The candidates whose surprise -log p is closest to the entropy, as many as have the share `typical`: a window of
 * weights, found by bisection. They lie side by side, from *first on. */
DEVICE int64_t keep_typical(const candidate *c, int64_t count, double typical, int64_t *first)
{
    const double sum = total_of(count, [=](int64_t i) { return (double)c[i].value; });
    const double mean = total_of(
        count, [=](int64_t i) { return c[i].value > 0 ? (double)c[i].value * (double)logf(c[i].value) : 0.0; });
    const float center = (float)(mean / sum);
    float narrow = 0, wide = 256, low = 0, high = 2;
    for (int step = 0; step < 48; step++) {
        const float middle = narrow + (wide - narrow) * 0.5f, from = expf(center - middle), to = expf(center + middle);
        const double mass = total_of(
            count, [=](int64_t i) { return c[i].value >= from && c[i].value <= to ? (double)c[i].value : 0.0; });
        if (mass >= typical * sum) {
            wide = middle;
            low = from;
            high = to;
        } else
            narrow = middle;
    }
    int64_t above = 0;
    FOR_THREADS(i, count) above += c[i].value > high;
    *first = block_sum(above);
    return at_least(c, count, low) - *first;
}

SCRATCH(sample_f32, 8 * vocabulary)
KERNEL(sample_f32, MIN(vocabulary, 1), 256, 0)
{
    const float *logits = (const float *)record.pointers[sample_f32_logits],
                *uniform = (const float *)record.pointers[sample_f32_uniform];
    const int32_t *history = (const int32_t *)record.pointers[sample_f32_history];
    const int64_t vocabulary = record.dims[sample_f32_vocabulary], top_k = record.dims[sample_f32_top_k];
    const float temperature = record.floats[sample_f32_temperature], penalty = record.floats[sample_f32_penalty];
    candidate *c = (candidate *)record.pointers[sample_f32_candidates];
    int bad = !(penalty > 0) || temperature != temperature || vocabulary > INT32_MAX, wrong_id = 0;
    float largest = -INFINITE;
    FOR_THREADS(i, vocabulary)
    {
        bad |= logits[i] != logits[i];
        c[i] = candidate{logits[i], (int32_t)i};
    }
    __syncthreads();
    if (history)
        FOR_THREADS(i, record.dims[sample_f32_history_count])
        {
            const int32_t id = history[i];
            if (id < 0 || id >= vocabulary)
                wrong_id = 1;
            else
                c[id].value = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
        }
    __syncthreads();
    FOR_THREADS(i, vocabulary) largest = fmaxf(largest, c[i].value);
    largest = block_largest(largest);
    bad = block_sum(bad) || largest == -INFINITE || (temperature > 0 && !(uniform[0] >= 0 && uniform[0] < 1));
    wrong_id = block_sum(wrong_id);
    if (bad || wrong_id) {
        if (threadIdx.x == 0)
            report(bad ? KERNEL_BAD_ARGUMENT : KERNEL_INDEX_RANGE);
        return;
    }
    int32_t *token = (int32_t *)record.pointers[sample_f32_token];
    if (temperature <= 0) {
        int64_t place = vocabulary;
        FOR_THREADS(i, vocabulary)
        place = c[i].value == largest && i < place ? i : place;
        place = -block_largest(-place);
        if (threadIdx.x == 0)
            *token = (int32_t)place;
        return;
    }
    c = block_sort(c, (candidate *)scratch, vocabulary, [](const candidate &a, const candidate &b) {
        return a.value > b.value || (a.value == b.value && a.id < b.id);
    });
    int64_t count = top_k > 0 && top_k < vocabulary ? top_k : vocabulary;
    FOR_THREADS(i, count) c[i].value = c[i].value == largest ? 1.0f : expf((c[i].value - largest) / temperature);
    __syncthreads();
    const float top_p = record.floats[sample_f32_top_p], min_p = record.floats[sample_f32_min_p];
    const float typical = (float)record.dims[sample_f32_typical] * 0x1p-24f, smallest = 1.4e-45f;
    const float floor = min_p > smallest ? (min_p < 1.0f ? min_p : 1.0f) : smallest;
    const int64_t high_enough = at_least(c, count, floor);
    if (top_p > 0 && top_p < 1) {
        const double goal = total_of(count, [=](int64_t i) { return (double)c[i].value; }) * top_p;
        count = prefix(c, high_enough, goal, false);
    } else
        count = high_enough;
    if (typical > 0 && typical < 1) {
        int64_t first;
        count = keep_typical(c, count, typical, &first);
        c += first;
    }
    const double mass = total_of(count, [=](int64_t i) { return (double)c[i].value; });
    const int64_t drawn = prefix(c, count, mass * uniform[0], true) - 1;
    if (threadIdx.x == 0)
        *token = c[drawn].id;
}
