/* Attention of one row by a block of threads: an online softmax (Milakov and Gimelshein, 2018). Each warp takes 32 keys at
 * a time, a lane a key; then the lanes take columns of the values. In the end the warps' results are joined. */
#ifndef PYAPP_ATTEND_H
#define PYAPP_ATTEND_H
#include "gpu.h"

enum { ATTEND_THREADS = 128, ATTEND_WARPS = ATTEND_THREADS / 32 };

/* What score(key) gives for -inf of a key that the row sees. A row that sees only such keys gives NaN. */
#define LOWEST __int_as_float((int)0xff7ffffeu) /* no mask has it: the lowest number ends in ff */
DEVICE float seen(float score) { return score == -INFINITE ? LOWEST : score; }

/* The largest score of a row, and the sum of exp(score - largest). */
struct softmax_state {
    float largest, total;
};

DEVICE softmax_state no_scores() { return softmax_state{-INFINITE, 0}; }

/* Keys first .. last - 1: score(key) and value(key, column) give what belongs to a key; -inf is a key that the row does
 * not see. out: of this warp, `columns` sums, at first 0. */
template <class Score, class Value>
DEVICE void attend_part(softmax_state *s, float *out, int64_t columns, int64_t first, int64_t last, Score score,
                        Value value)
{
    for (int64_t start = first + 32 * WARP; start < last; start += 32 * WARPS) {
        const int64_t key = start + LANE;
        const float own = key < last ? score(key) : -INFINITE;
        const float largest = Larger()(s->largest, warp_reduce(own, Larger()));
        if (largest == -INFINITE)
            continue;
        const float weight = expf(own - largest), correction = expf(s->largest - largest);
        s->total = s->total * correction + warp_reduce(weight, Sum());
        s->largest = largest;
        for (int64_t column = LANE; column < columns; column += 32)
            out[column] *= correction;
        for (int i = 0; i < 32; i++) {
            const float each = __shfl_sync(EVERY_LANE, weight, i);
            if (each != 0)
                for (int64_t column = LANE; column < columns; column += 32)
                    out[column] += each * value(start + i, column);
        }
    }
}

/* The state of all warps. states: ATTEND_WARPS of them, shared. */
DEVICE softmax_state join(softmax_state own, softmax_state *states)
{
    if (LANE == 0)
        states[WARP] = own;
    __syncthreads();
    softmax_state all = no_scores();
    for (int w = 0; w < ATTEND_WARPS; w++)
        all.largest = Larger()(all.largest, states[w].largest);
    for (int w = 0; w < ATTEND_WARPS && all.largest != -INFINITE; w++)
        all.total += states[w].total * expf(states[w].largest - all.largest);
    if (all.largest == LOWEST)
        all.total = NOT_A_NUMBER;
    return all;
}

/* A row: out is ATTEND_WARPS * columns floats of shared memory. result(column, y) takes the result; 0 where the row sees
 * no key. Returns the state, in every thread. */
template <class Score, class Value, class Result>
DEVICE softmax_state attend(float *out, int64_t columns, int64_t first, int64_t last, Score score, Value value,
                            Result result)
{
    __shared__ softmax_state states[ATTEND_WARPS];
    softmax_state own = no_scores();
    for (int64_t column = LANE; column < columns; column += 32)
        out[WARP * columns + column] = 0;
    attend_part(&own, out + WARP * columns, columns, first, last, score, value);
    const softmax_state all = join(own, states);
    FOR_THREADS(column, columns)
    {
        float sum = 0;
        for (int w = 0; w < ATTEND_WARPS && all.largest != -INFINITE; w++)
            sum += out[w * columns + column] * expf(states[w].largest - all.largest);
        result(column, all.total > 0 ? sum / all.total : all.total != all.total ? all.total : 0.0f);
    }
    __syncthreads();
    return all;
}
#endif
