/* The next token: repetition penalty (Keskar et al., CTRL, 2019), temperature, top-k, top-p (Holtzman et al., 2020), min-p
 * (Nguyen et al., 2024) and typical sampling (Meister et al., 2023), in this order, as the logits processors of Hugging
 * Face transformers. Tokens have an order: by falling values, then by id. Each setting keeps those up to one of them,
 * and the draw ends at one. One block finds these places digit by digit, with the sums of weights for each digit, and
 * never sorts. Weights are whole multiples of 2^-44 of the largest: their sums do not depend on the order of additions. */
#include "gpu.h"

enum { DIGITS = 2048, UNIT_BITS = 44, AHEAD = 8 /* loads of a thread under way */, FEW_ALIKE = 64 };

/* The last token that is kept, or drawn. */
struct place {
    uint32_t key;
    int64_t id;
};

/* Larger for larger values; the same for both zeros. */
DEVICE uint32_t key_of(float x)
{
    const uint32_t bits = (uint32_t)__float_as_int(x + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

struct drawing {
    const float *values;
    int64_t vocabulary;
    float largest, temperature, floor, low, high; /* kept weights: at least the floor, low .. high */
    place last;
    float steps; /* of distance in a difference of 1 */

    DEVICE_MEMBER int distance(float value) const
    {
        const float away = (largest - value) * steps;
        return away < (float)(DIGITS - 1) ? DIGITS - 1 - (int)away : 0;
    }

    DEVICE_MEMBER float weight(float value) const
    {
        return value == largest ? 1.0f : expf((value - largest) / temperature);
    }
    DEVICE_MEMBER bool has(int64_t id, float value, float weight) const
    {
        const uint32_t key = key_of(value);
        return (key > last.key || (key == last.key && id <= last.id)) && weight >= floor && weight >= low &&
               weight <= high;
    }
    /* Units of a kept token; 0 for others. */
    DEVICE_MEMBER unsigned long long units(int64_t id, float value) const
    {
        const float own = weight(value);
        return has(id, value, own) ? (unsigned long long)((double)own * (double)(1ull << UNIT_BITS)) : 0;
    }
    DEVICE_MEMBER unsigned long long one(int64_t id, float value) const
    {
        return has(id, value, weight(value)) ? 1 : 0;
    }
};

/* f(id, value) of every token, whose values are loaded some at a time: one block has no others to wait beside. */
template <class F> DEVICE void for_each_value(const float *values, int64_t count, F f)
{
    for (int64_t base = threadIdx.x; base < count; base += (int64_t)blockDim.x * AHEAD) {
        float part[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int64_t i = base + (int64_t)u * blockDim.x;
            part[u] = i < count ? values[i] : 0.0f;
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int64_t i = base + (int64_t)u * blockDim.x;
            if (i < count)
                f(i, part[u]);
        }
    }
}

/* The sum of f(id, value), in every thread. */
template <class T, class F> DEVICE T total_of(const drawing &d, F f)
{
    T sum = 0;
    for_each_value(d.values, d.vocabulary, [&](int64_t i, float value) { sum += f(i, value); });
    return block_sum(sum);
}

/* The first of `digits` sums, from the last on, with which `before` and those behind it exceed the goal; *before becomes
 * what comes before it. -1 where there is none. By every thread; *found is in shared memory. */
DEVICE int digit_of(const unsigned long long *sums, int digits, unsigned long long goal, unsigned long long *before,
                    int64_t *found)
{
    if (WARP == 0) { /* lane 0 has the last digits */
        const int each = digits / 32, top = digits - 1 - LANE * each;
        unsigned long long own = 0, above = *before;
        for (int i = 0; i < each; i++)
            own += sums[top - i];
        int lane = -1;
        for (int from = 0; from < 32; from++) {
            const unsigned long long part = __shfl_sync(EVERY_LANE, own, from);
            if (lane < 0 && above + part > goal)
                lane = from;
            if (lane < 0)
                above += part;
        }
        __syncwarp();
        if (LANE == 0 && lane < 0)
            *found = -1;
        if (LANE == lane) {
            int i = 0;
            while (above + sums[top - i] <= goal)
                above += sums[top - i++];
            *found = top - i;
            *before = above;
        }
    }
    __syncthreads();
    const int digit = (int)*found;
    __syncthreads();
    return digit;
}

/* The sums of amount(id, value) by distance. The distance of a value from the largest in equal steps is the first digit by
 * which tokens are told apart: values spread over it, so that few threads meet at one sum; they do not over the leading bits of
 * a float. Returns the sum of all, in every thread. */
template <class F> DEVICE unsigned long long sum_by_distance(const drawing &d, unsigned long long *near, F amount)
{
    FOR_THREADS(i, DIGITS) near[i] = 0;
    __syncthreads();
    for_each_value(d.values, d.vocabulary, [&](int64_t i, float value) {
        const unsigned long long own = amount(i, value);
        if (own)
            atomicAdd(&near[d.distance(value)], own);
    });
    __syncthreads();
    unsigned long long sum = 0;
    FOR_THREADS(i, DIGITS) sum += near[i];
    return block_sum(sum);
}

/* The token with which the sum of amount(id, value), in the order of the tokens, first exceeds the goal; `otherwise` where it
 * does not. near: of sum_by_distance, which may count tokens behind that one that `amount` no longer has. *up_to becomes
 * the sum with the token. */
template <class F>
DEVICE place find(const drawing &d, const unsigned long long *near, unsigned long long goal, place otherwise, F amount,
                  unsigned long long *up_to)
{
    __shared__ unsigned long long sums[DIGITS], before;
    __shared__ int64_t found;
    __shared__ int32_t same[FEW_ALIKE];
    __shared__ int alike;
    uint32_t known = 0, mask = 0;
    if (threadIdx.x == 0)
        before = 0; /* of the tokens that come before those with the known digits */
    __syncthreads();
    const int distance = digit_of(near, DIGITS, goal, &before, &found);
    if (distance < 0)
        return otherwise;
    for (int step = 0; step < 3; step++) { /* digits of 11, 11 and 10 bits of the value */
        const int shift = step == 2 ? 0 : 21 - 11 * step;
        const uint32_t digits = step == 2 ? DIGITS / 2 : DIGITS;
        FOR_THREADS(i, DIGITS) sums[i] = 0;
        __syncthreads();
        for_each_value(d.values, d.vocabulary, [&](int64_t i, float value) {
            if (d.distance(value) != distance)
                return;
            const uint32_t key = key_of(value);
            const unsigned long long own = (key & mask) == known ? amount(i, value) : 0;
            if (own)
                atomicAdd(&sums[key >> shift & (digits - 1)], own);
        });
        __syncthreads();
        const int digit = digit_of(sums, (int)digits, goal, &before, &found);
        if (digit < 0)
            return otherwise;
        known |= (uint32_t)digit << shift;
        mask |= (digits - 1) << shift;
    }
    /* Among the tokens with this value by id. */
    const int64_t piece = PARTS(d.vocabulary, blockDim.x);
    sums[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        alike = 0;
    __syncthreads();
    for_each_value(d.values, d.vocabulary, [&](int64_t i, float value) {
        const unsigned long long own = key_of(value) == known ? amount(i, value) : 0;
        if (!own)
            return;
        const int at = atomicAdd(&alike, 1);
        if (at < FEW_ALIKE)
            same[at] = (int32_t)i;
        atomicAdd(&sums[i / piece], own);
    });
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned long long sum = before;
        int64_t id = -1;
        if (alike <= FEW_ALIKE)
            while (sum <= goal) { /* the next id */
                int64_t next = d.vocabulary;
                for (int k = 0; k < alike; k++)
                    next = same[k] > id && same[k] < next ? same[k] : next;
                id = next;
                sum += amount(id, d.values[id]);
            }
        else {
            int64_t thread = 0;
            while (sum + sums[thread] <= goal)
                sum += sums[thread++];
            for (id = thread * piece - 1; sum <= goal;) {
                id++;
                sum += key_of(d.values[id]) == known ? amount(id, d.values[id]) : 0;
            }
        }
        before = sum;
        found = id;
    }
    __syncthreads();
    const place result = {known, found};
    *up_to = before;
    __syncthreads();
    return result;
}

/* Keeps the tokens whose surprise -log p is closest to the entropy, as many as have the share `typical`: a window of
 * weights, found by bisection. */
DEVICE void keep_typical(drawing &d, double typical)
{
    const double sum = total_of<double>(d, [&](int64_t i, float value) {
        const float own = d.weight(value);
        return d.has(i, value, own) ? (double)own : 0.0;
    });
    const double mean = total_of<double>(d, [&](int64_t i, float value) {
        const float own = d.weight(value);
        return own > 0 && d.has(i, value, own) ? (double)own * (double)logf(own) : 0.0;
    });
    const float center = (float)(mean / sum);
    float narrow = 0, wide = 256, low = 0, high = 2;
    for (int step = 0; step < 48; step++) {
        const float middle = narrow + (wide - narrow) * 0.5f, from = expf(center - middle), to = expf(center + middle);
        const double mass = total_of<double>(d, [&](int64_t i, float value) {
            const float own = d.weight(value);
            return own >= from && own <= to && d.has(i, value, own) ? (double)own : 0.0;
        });
        if (mass >= typical * sum) {
            wide = middle;
            low = from;
            high = to;
        } else
            narrow = middle;
    }
    d.low = low;
    d.high = high;
}

KERNEL(sample_f32, MIN(vocabulary, 1), 512, 0)
{
    const float *logits = (const float *)record.pointers[sample_f32_logits],
                *uniform = (const float *)record.pointers[sample_f32_uniform];
    const int32_t *history = (const int32_t *)record.pointers[sample_f32_history];
    const int64_t vocabulary = record.dims[sample_f32_vocabulary], top_k = record.dims[sample_f32_top_k];
    const float temperature = record.floats[sample_f32_temperature], penalty = record.floats[sample_f32_penalty];
    int bad = !(penalty > 0) || temperature != temperature || vocabulary > INT32_MAX, wrong_id = 0;
    float largest = -INFINITE;
    drawing d = {logits, vocabulary, 0, temperature, 0, 0, INFINITE, {0, vocabulary}, 0};
    if (history && record.dims[sample_f32_history_count] > 0) { /* a copy that changes */
        float *const changed = (float *)record.pointers[sample_f32_candidates];
        FOR_THREADS(i, vocabulary) changed[i] = logits[i];
        __syncthreads();
        FOR_THREADS(i, record.dims[sample_f32_history_count])
        {
            const int32_t id = history[i];
            if (id < 0 || id >= vocabulary)
                wrong_id = 1;
            else
                changed[id] = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
        }
        __syncthreads();
        d.values = changed;
    }
    int64_t lowest = vocabulary; /* id of the largest */
    for_each_value(d.values, vocabulary, [&](int64_t i, float value) {
        bad |= value != value;
        lowest = value > largest ? i : lowest; /* a thread's ids rise */
        largest = fmaxf(largest, value);
    });
    const float own = largest;
    d.largest = largest = block_largest(largest);
    bad = block_sum(bad) || largest == -INFINITE || (temperature > 0 && !(uniform[0] >= 0 && uniform[0] < 1));
    wrong_id = block_sum(wrong_id);
    if (bad || wrong_id) {
        if (threadIdx.x == 0)
            report(bad ? KERNEL_BAD_ARGUMENT : KERNEL_INDEX_RANGE);
        return;
    }
    int32_t *token = (int32_t *)record.pointers[sample_f32_token];
    lowest = -block_largest(own == largest ? -lowest : -vocabulary);
    if (temperature <= 0) {
        if (threadIdx.x == 0)
            *token = (int32_t)lowest;
        return;
    }
    const place first = {key_of(largest), lowest};
    bool counting = top_k > 0 && top_k < vocabulary;
    const auto amount = [&](int64_t i, float value) { return counting ? d.one(i, value) : d.units(i, value); };
    __shared__ unsigned long long near[DIGITS];
    const float width = 40.0f * temperature; /* e^-40 is no unit */
    d.steps = width < 1e30f && width > 1e-30f ? DIGITS / width : 0.0f;
    unsigned long long sum;
    if (counting) {
        sum_by_distance(d, near, amount);
        d.last = find(d, near, (unsigned long long)top_k - 1, d.last, amount, &sum);
        counting = false;
    }
    const float top_p = record.floats[sample_f32_top_p], min_p = record.floats[sample_f32_min_p];
    const float typical = (float)record.dims[sample_f32_typical] * 0x1p-24f, smallest = 1.4e-45f;
    sum = sum_by_distance(d, near, amount);
    if (top_p > 0 && top_p < 1) {
        const double goal = (double)sum * top_p;
        d.last = find(d, near, goal < 1 ? 0 : (unsigned long long)ceil(goal) - 1, d.last, amount, &sum);
    }
    d.floor = min_p > smallest ? (min_p < 1.0f ? min_p : 1.0f) : smallest;
    if (typical > 0 && typical < 1)
        keep_typical(d, typical);
    if (min_p > smallest || (typical > 0 && typical < 1))
        sum = sum_by_distance(d, near, amount);
    const place drawn = find(d, near, (unsigned long long)((double)sum * (double)uniform[0]), first, amount, &sum);
    if (threadIdx.x == 0)
        *token = (int32_t)drawn.id;
}
