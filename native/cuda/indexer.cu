/* The indexer of sparse attention: scores of the tokens before each, and the places of the largest. How much of a cache is
 * used is read from the position, in the card's memory: blocks ask for its capacity, and take what is there. */
#include "gpu.h"

/* A block computes the scores of KEYS keys for a token: ROWS heads at a time, STEP dims at a time. A thread has 4 heads and
 * 4 keys; a row of the block's parts begins APART floats behind the one before, so that banks differ. */
enum { KEYS = 64, ROWS = 64, STEP = 32, APART = 68, MOST_DIMS = 512 };

/* Row `place` of the keys; -1 where the table leads outside the cache. */
DEVICE int64_t row_of(const launch &record, int64_t place)
{
    const int64_t *d = record.dims, capacity = d[indexer_scores_capacity];
    const int32_t *table = (const int32_t *)record.pointers[indexer_scores_table];
    if (!table)
        return place;
    const int64_t block = table[quotient(place, capacity)];
    if (block < 0 || block >= d[indexer_scores_blocks])
        return -1;
    return block * capacity + place - quotient(place, capacity) * capacity;
}

KERNEL(indexer_scores, CHOOSE(tokens > 0, MIN(tokens *PARTS(MAX(parts *capacity, 1), 64), 65536), tokens), 256, 0)
{
    /* (dim, head), (dim, key): a thread reads 4 of each, 16 bytes */
    __shared__ float4 left_part[STEP * APART / 4], right_part[STEP * APART / 4];
    float *const left = (float *)left_part, *const right = (float *)right_part;
    __shared__ int64_t rows[KEYS];
    const int64_t *d = record.dims, tokens = d[indexer_scores_tokens], heads = d[indexer_scores_heads];
    const int64_t dims = d[indexer_scores_head_dim], count = d[indexer_scores_count];
    const int64_t length = d[indexer_scores_parts] * d[indexer_scores_capacity];
    const int type = (int)d[indexer_scores_type];
    if (tokens < 0 || heads < 0 || dims < 1 || dims > MOST_DIMS || length < 0 ||
        (type != TYPE_float32 && type != TYPE_float16)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int64_t start = *(const int32_t *)record.pointers[indexer_scores_position] + d[indexer_scores_first];
    if (start < 0 || start + tokens > length) {
        report(KERNEL_POSITION_RANGE);
        return;
    }
    const int64_t pieces = PARTS(start + tokens, KEYS);
    const int own_head = threadIdx.x / 16 * 4, own_key = threadIdx.x % 16 * 4;
    FOR_EACH_BLOCK(unit, tokens * pieces)
    {
        const int64_t t = quotient(unit, pieces), at = (unit - t * pieces) * KEYS, seen = start + t + 1;
        if (at >= seen || seen <= count)
            continue; /* all threads of the block */
        const float *q = (const float *)record.pointers[indexer_scores_q] + t * heads * dims;
        const float *weights = (const float *)record.pointers[indexer_scores_weights] + t * heads;
        __syncthreads();
        if (threadIdx.x < KEYS) {
            const int64_t row = at + threadIdx.x < seen ? row_of(record, at + threadIdx.x) : 0;
            rows[threadIdx.x] = row;
            if (row < 0)
                report(KERNEL_INDEX_RANGE);
        }
        __syncthreads();
        float totals[4] = {0, 0, 0, 0}; /* of the thread's keys, over its heads */
        for (int64_t head = 0; head < heads; head += ROWS) {
            float sums[4][4] = {};
            for (int64_t from = 0; from < dims; from += STEP) {
                __syncthreads(); /* the block has read the parts before */
#pragma unroll
                for (int i = 0; i < ROWS * STEP / 256; i++) { /* neighbours read neighbouring dims */
                    const int row = (int)(threadIdx.x / STEP) + i * (256 / STEP), k = (int)(threadIdx.x % STEP);
                    const bool inside = from + k < dims;
                    left[k * APART + row] = inside && head + row < heads ? q[(head + row) * dims + from + k] : 0.0f;
                    right[k * APART + row] =
                        inside && at + row < seen && rows[row] >= 0
                            ? load_float(record.pointers[indexer_scores_keys], rows[row] * dims + from + k, type)
                            : 0.0f;
                }
                __syncthreads();
#pragma unroll 8
                for (int k = 0; k < STEP; k++) {
                    const float4 a = *(const float4 *)(left + k * APART + own_head);
                    const float4 b = *(const float4 *)(right + k * APART + own_key);
                    const float x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
                    for (int i = 0; i < 4; i++)
#pragma unroll
                        for (int j = 0; j < 4; j++)
                            sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
                }
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float weight = head + own_head + i < heads ? weights[head + own_head + i] : 0.0f;
#pragma unroll
                for (int j = 0; j < 4; j++)
                    totals[j] += weight * (sums[i][j] > 0 ? sums[i][j] : 0.0f);
            }
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 4; j++) /* (16 of heads, key) */
            left[threadIdx.x / 16 * APART + own_key + j] = totals[j];
        __syncthreads();
        if (threadIdx.x < KEYS && at + threadIdx.x < seen) {
            float total = 0;
            for (int i = 0; i < 16; i++)
                total += left[i * APART + threadIdx.x];
            ((float *)record.pointers[indexer_scores_y])[t * length + at + threadIdx.x] = total;
        }
    }
}

/* A float's bits, which order as the floats do; NaN is the largest, or the smallest. */
DEVICE uint32_t ordered(float x)
{
    const uint32_t bits = (uint32_t)__float_as_int(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

enum { DIGITS = 2048, CHOOSERS = 512, AHEAD = 8 /* loads of a thread under way */ };

/* f(score, place) for the scores first .. last - 1, `apart` apart, some of which are loaded at a time. */
template <class F> DEVICE void for_scores(const float *scores, int64_t first, int64_t last, int64_t apart, F f)
{
    for (int64_t base = first; base < last; base += apart * AHEAD) {
        float part[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            part[u] = base + u * apart < last ? scores[base + u * apart] : 0.0f;
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (base + u * apart < last)
                f(part[u], base + u * apart);
    }
}

/* A block finds the places of a token: the smallest score that belongs to them digit by digit, then in rising order those of
 * larger ones and the first of equal ones. */
KERNEL(indexer_places, MAX(tokens, -1), 512, 0)
{
    __shared__ int counts[DIGITS], digit, rest, larger[CHOOSERS / 32], equal[CHOOSERS / 32];
    const int64_t *d = record.dims, tokens = d[indexer_places_tokens], length = d[indexer_places_length];
    const int64_t count = d[indexer_places_count];
    if (count < 0 || count > length) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int64_t start = *(const int32_t *)record.pointers[indexer_places_position] + d[indexer_places_first];
    if (start < 0 || start + tokens > length) {
        report(KERNEL_POSITION_RANGE);
        return;
    }
    FOR_EACH_BLOCK(t, tokens)
    {
        const float *scores = (const float *)record.pointers[indexer_places_scores] + t * length;
        int32_t *places = (int32_t *)record.pointers[indexer_places_places] + t * count;
        const int64_t seen = start + t + 1;
        if (seen <= count) {
            FOR_THREADS(i, count) places[i] = (int32_t)i;
            continue;
        }
        uint32_t found = 0, known = 0;
        int64_t left = count; /* of the scores with the known digits, so many belong to the places */
        for (int level = 0; level < 3; level++) { /* digits of 11, 11 and 10 bits */
            const int shift = level == 2 ? 0 : 21 - 11 * level, digits = level == 2 ? DIGITS / 2 : DIGITS;
            __syncthreads();
            FOR_THREADS(i, DIGITS) counts[i] = 0;
            __syncthreads();
            for_scores(scores, threadIdx.x, seen, blockDim.x, [&](float score, int64_t) {
                const uint32_t key = ordered(score);
                if (((key ^ found) & known) == 0)
                    atomicAdd(&counts[key >> shift & (uint32_t)(digits - 1)], 1);
            });
            __syncthreads();
            if (WARP == 0) { /* lane 0 has the last digits */
                const int each = digits / 32, top = digits - 1 - LANE * each;
                int64_t own = 0, above = 0;
                for (int i = 0; i < each; i++)
                    own += counts[top - i];
                int lane = -1;
                for (int from = 0; from < 32; from++) {
                    const int64_t part = __shfl_sync(EVERY_LANE, own, from);
                    if (lane < 0 && above + part >= left)
                        lane = from;
                    if (lane < 0)
                        above += part;
                }
                if (LANE == lane) {
                    int i = 0;
                    while (above + counts[top - i] < left)
                        above += counts[top - i++];
                    digit = top - i;
                    rest = (int)(left - above);
                }
            }
            __syncthreads();
            found |= (uint32_t)digit << shift;
            known |= (uint32_t)(digits - 1) << shift;
            left = rest;
        }
        /* Each warp has some scores in a row: it counts what belongs to the places, and writes them behind those of the
         * warps before. */
        const int64_t each = PARTS(seen, blockDim.x) * 32, first = WARP * each, last = MIN(first + each, seen);
        int more = 0, same = 0;
        for_scores(scores, first + LANE, last, 32, [&](float score, int64_t) {
            const uint32_t key = ordered(score);
            more += key > found;
            same += key == found;
        });
        more = warp_reduce(more, Sum());
        same = warp_reduce(same, Sum());
        if (LANE == 0)
            larger[WARP] = more, equal[WARP] = same;
        __syncthreads();
        more = same = 0;
        for (int i = 0; i < WARP; i++)
            more += larger[i], same += equal[i];
        for (int64_t base = first; base < last; base += 32 * AHEAD) {
            float part[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                part[u] = base + 32 * u + LANE < last ? scores[base + 32 * u + LANE] : 0.0f;
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                const int64_t i = base + 32 * u + LANE;
                const uint32_t key = ordered(part[u]), before = (1u << LANE) - 1;
                const bool is_larger = i < last && key > found, is_equal = i < last && key == found;
                const uint32_t all_larger = __ballot_sync(EVERY_LANE, is_larger);
                const uint32_t all_equal = __ballot_sync(EVERY_LANE, is_equal);
                const int64_t equals = same + __popc(all_equal & before);
                const int64_t at = more + __popc(all_larger & before) + MIN(equals, left);
                if (is_larger || (is_equal && equals < left))
                    places[at] = (int32_t)i;
                more += __popc(all_larger);
                same += __popc(all_equal);
            }
        }
        __syncthreads();
    }
}
