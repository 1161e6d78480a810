/* Softmax and cross entropy of one row of logits by the threads of a block, for floats of 16 and 32 bits. The logits are
 * read once for the sum of exponentials, and once more for the result, then mostly from the cache. */
#ifndef PYAPP_ENTROPY_H
#define PYAPP_ENTROPY_H
#include "vectors.h"

/* The vectors of a row, of which the first begins `lead` elements behind the row. */
template <int BYTES> struct row_vectors {
    enum { WIDTH = VECTOR / BYTES };
    int64_t lead, count, rest;

    DEVICE_MEMBER row_vectors(const void *row, int64_t columns)
    {
        lead = MIN(columns, (int64_t)((0 - (uint64_t)row) & (VECTOR - 1)) / BYTES);
        count = (columns - lead) / WIDTH;
        rest = columns - count * WIDTH;
    }
    /* Element i of those before and after the vectors. */
    DEVICE_MEMBER int64_t place(int64_t i) const { return i < lead ? i : i + count * WIDTH; }
};

template <int BYTES> DEVICE float exp_for(float x) { return BYTES == 2 ? short_exp(x) : expf(x); }

/* The largest logit, and the sum of exp(logit - largest); NaN where a logit is. */
struct exponentials {
    float largest, sum;
};

template <int BYTES> DEVICE exponentials sum_exponentials(const void *row, int64_t columns, int type)
{
    constexpr int width = VECTOR / BYTES;
    const row_vectors<BYTES> parts(row, columns);
    const uint4 *in = (const uint4 *)((const uint8_t *)row + parts.lead * BYTES);
    float largest = -INFINITE, sum = 0;
    const auto add = [&](const float *values, int count) {
        float most = largest;
        for (int k = 0; k < count; k++)
            most = fmaxf(most, values[k]);
        const float shift = most == -INFINITE ? 0.0f : most; /* -infinity alone counts as 0 so far */
        if (most > largest) {
            sum *= exp_for<BYTES>(largest - shift);
            largest = most;
        }
        for (int k = 0; k < count; k++)
            sum += exp_for<BYTES>(values[k] - shift);
    };
    FOR_THREADS(i, parts.rest)
    {
        const float value = load_float(row, parts.place(i), type);
        add(&value, 1);
    }
    uint4 x[UNDER_WAY];
    for_vectors_of(
        threadIdx.x, blockDim.x, parts.count, [&](int u, int64_t i) { x[u] = in[i]; },
        [&](int u, int64_t) {
            float values[width];
            floats_of<BYTES>(values, x[u], type);
            add(values, width);
        });
    const float most = block_largest(largest);
    return exponentials{most, block_sum(largest == -INFINITE && sum == 0 ? 0.0f : sum * expf(largest - most))};
}

/* to[i] = f(row[i], i); `to` may be the row itself. */
template <int BYTES, class F> DEVICE void map_row(void *to, const void *row, int64_t columns, int type, F f)
{
    constexpr int width = VECTOR / BYTES;
    const row_vectors<BYTES> parts(row, columns), others(to, columns);
    const int64_t count = parts.lead == others.lead ? parts.count : 0;
    FOR_THREADS(i, columns - count * width)
    {
        const int64_t k = count ? parts.place(i) : i;
        store_float(to, k, type, f(load_float(row, k, type), k));
    }
    const uint4 *in = (const uint4 *)((const uint8_t *)row + parts.lead * BYTES);
    uint4 *out = (uint4 *)((uint8_t *)to + parts.lead * BYTES), x[UNDER_WAY];
    for_vectors_of(
        threadIdx.x, blockDim.x, count, [&](int u, int64_t i) { x[u] = in[i]; },
        [&](int u, int64_t i) {
            float values[width];
            floats_of<BYTES>(values, x[u], type);
#pragma unroll
            for (int k = 0; k < width; k++)
                values[k] = f(values[k], parts.lead + i * width + k);
            out[i] = vector_of<BYTES>(values, type);
        });
}

/* grad = each * (softmax(row) - one at `target`); grad may be the row itself. */
template <int BYTES>
DEVICE void entropy_gradient(void *grad, const void *row, int64_t columns, int type, exponentials of, int64_t target,
                             float each)
{
    const float factor = each / of.sum;
    map_row<BYTES>(grad, row, columns, type, [&](float logit, int64_t i) {
        return exp_for<BYTES>(logit - of.largest) * factor - (i == target ? each : 0.0f);
    });
}

/* Zeros, where a target is ignored. */
template <int BYTES> DEVICE void clear_row(void *grad, int64_t columns)
{
    const row_vectors<BYTES> parts(grad, columns);
    uint4 *to = (uint4 *)((uint8_t *)grad + parts.lead * BYTES), zeros;
    zeros.x = zeros.y = zeros.z = zeros.w = 0;
    FOR_THREADS(i, parts.rest)
    for (int k = 0; k < BYTES; k++)
        ((uint8_t *)grad)[parts.place(i) * BYTES + k] = 0;
    FOR_THREADS(i, parts.count) to[i] = zeros;
}
#endif
