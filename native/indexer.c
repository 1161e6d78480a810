/* The indexer of sparse attention: scores of the tokens before each, and the places of the largest. */
#if !defined(__wasm__) /* there the definition computes them: code is downloaded */
#include "halves.h"
#include "sums.h"

enum {
    TOKENS = 8, /* that share the keys of a piece */
    KEYS = 16,  /* of a piece: a multiple of GROUP */
    GROUP = 4,  /* keys whose products are computed together */
    DIMS = 512, /* at most */
    LEVELS = 3, /* a float's bits, in digits */
    DIGIT = 11
};

/* totals of GROUP keys (GROUP, dims): the sum over the heads of weight * max(q . key, 0). */
INLINE four group_scores(const float *q, const float *weights, const float *keys, int64_t heads, int64_t dims)
{
    four total = {0};
    for (int64_t h = 0; h < heads; h += 2) {
        const int64_t two = h + 1 < heads;
        const float *a = q + h * dims, *b = a + two * dims;
        vfloat sums[2 * GROUP];
        UNROLL for (int i = 0; i < 2 * GROUP; i++) sums[i] = vzero();
        int64_t d = 0;
        for (; d + LANES <= dims; d += LANES) {
            const vfloat left = vload(a + d), right = vload(b + d);
            UNROLL for (int i = 0; i < GROUP; i++)
            {
                const vfloat key = vload(keys + i * dims + d);
                sums[i] = vfma(left, key, sums[i]);
                sums[GROUP + i] = vfma(right, key, sums[GROUP + i]);
            }
        }
        if (d < dims) {
            const vfloat left = vload_part(a + d, dims - d), right = vload_part(b + d, dims - d);
            UNROLL for (int i = 0; i < GROUP; i++)
            {
                const vfloat key = vload_part(keys + i * dims + d, dims - d);
                sums[i] = vfma(left, key, sums[i]);
                sums[GROUP + i] = vfma(right, key, sums[GROUP + i]);
            }
        }
        const four one = sum_each(sums), other = sum_each(sums + GROUP);
        for (int i = 0; i < GROUP; i++) {
            total[i] += weights[h] * (one[i] > 0 ? one[i] : 0);
            total[i] += two ? weights[h + 1] * (other[i] > 0 ? other[i] : 0) : 0;
        }
    }
    return total;
}

/* The keys at the places first .. end - 1 as floats, and zeros up to KEYS. 0, or where a part lies outside the cache 1. */
INLINE int read_keys(float *to, const launch *record, int64_t first, int64_t end)
{
    const int64_t *d = record->dims, dims = d[indexer_scores_head_dim], capacity = d[indexer_scores_capacity];
    const int32_t *table = record->pointers[indexer_scores_table];
    for (int64_t place = first; place < end; place++, to += dims) {
        const int64_t block = table ? table[place / capacity] : 0;
        if (table && (block < 0 || block >= d[indexer_scores_blocks]))
            return 1;
        const int64_t at = (block * capacity + (table ? place % capacity : place)) * dims;
        if (d[indexer_scores_type] == TYPE_float32)
            memcpy(to, (const float *)record->pointers[indexer_scores_keys] + at, (size_t)dims * sizeof *to);
        else
            widen_row(to, (const uint16_t *)record->pointers[indexer_scores_keys] + at, dims, KIND_F16);
    }
    memset(to, 0, (size_t)((first + KEYS - end) * dims) * sizeof *to);
    return 0;
}

KERNEL(indexer_scores)
{
    const int64_t *d = record->dims, tokens = d[indexer_scores_tokens], heads = d[indexer_scores_heads];
    const int64_t dims = d[indexer_scores_head_dim], length = d[indexer_scores_capacity] * d[indexer_scores_parts];
    const int64_t type = d[indexer_scores_type], count = d[indexer_scores_count];
    float keys[KEYS * DIMS];
    if (!tokens)
        return KERNEL_OK;
    if (tokens < 0 || heads < 0 || dims < 1 || dims > DIMS || length < 0 ||
        (type != TYPE_float32 && type != TYPE_float16))
        return KERNEL_BAD_ARGUMENT;
    const int64_t start = *(const int32_t *)record->pointers[indexer_scores_position] + d[indexer_scores_first];
    if (start < 0 || start + tokens > length)
        return KERNEL_POSITION_RANGE;
    const int64_t pieces = (start + tokens + KEYS - 1) / KEYS, all = (tokens + TOKENS - 1) / TOKENS * pieces;
    for (int64_t unit = worker; unit < all; unit += workers) { /* the later a token, the more keys it sees */
        const int64_t first = unit / pieces * TOKENS, last = first + TOKENS < tokens ? first + TOKENS : tokens;
        const int64_t at = unit % pieces * KEYS, seen = start + last, end = at + KEYS < seen ? at + KEYS : seen;
        if (at >= seen || seen <= count)
            continue;
        if (read_keys(keys, record, at, end))
            return KERNEL_INDEX_RANGE;
        for (int64_t t = first; t < last; t++) {
            float *y = (float *)record->pointers[indexer_scores_y] + t * length;
            const float *q = (const float *)record->pointers[indexer_scores_q] + t * heads * dims;
            const float *weights = (const float *)record->pointers[indexer_scores_weights] + t * heads;
            for (int64_t i = at; i < end; i += GROUP) {
                const four total = group_scores(q, weights, keys + (i - at) * dims, heads, dims);
                for (int j = 0; j < GROUP && i + j < end; j++)
                    y[i + j] = total[j];
            }
        }
    }
    return KERNEL_OK;
}

/* A float's bits, which order as the floats do; NaN is the largest, or the smallest. */
INLINE uint32_t ordered(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

/* The places of the `count` largest of `length` > count scores, in rising order; of equal ones the first. It finds the
 * smallest that belongs to them digit by digit. */
static void largest_places(int32_t *places, const float *scores, int64_t length, int64_t count)
{
    uint32_t found = 0, known = 0;
    int64_t left = count;
    for (int level = 0; level < LEVELS && left; level++) {
        const int shift = level + 1 < LEVELS ? 32 - (level + 1) * DIGIT : 0;
        const int bits = level + 1 < LEVELS ? DIGIT : 32 - level * DIGIT;
        int32_t counts[1 << DIGIT] = {0};
        for (int64_t i = 0; i < length; i++) {
            const uint32_t key = ordered(scores[i]);
            counts[key >> shift & ((1u << bits) - 1)] += ((key ^ found) & known) == 0;
        }
        int digit = (1 << bits) - 1;
        for (; counts[digit] < left; digit--)
            left -= counts[digit];
        found |= (uint32_t)digit << shift;
        known |= ((1u << bits) - 1) << shift;
    }
    for (int64_t i = 0, at = 0; at < count; i++) { /* `left` of those that equal the smallest belong to them */
        const uint32_t key = ordered(scores[i]);
        if (key > found || (key == found && left-- > 0))
            places[at++] = (int32_t)i;
    }
}

KERNEL(indexer_places)
{
    const int64_t *d = record->dims, tokens = d[indexer_places_tokens], length = d[indexer_places_length];
    const int64_t count = d[indexer_places_count];
    int64_t first, last;
    if (tokens < 0 || count < 0 || count > length)
        return KERNEL_BAD_ARGUMENT;
    if (!tokens)
        return KERNEL_OK;
    const int64_t start = *(const int32_t *)record->pointers[indexer_places_position] + d[indexer_places_first];
    if (start < 0 || start + tokens > length)
        return KERNEL_POSITION_RANGE;
    worker_share(tokens, 1, worker, workers, &first, &last);
    for (int64_t t = first; t < last; t++) {
        int32_t *places = (int32_t *)record->pointers[indexer_places_places] + t * count;
        if (start + t + 1 > count)
            largest_places(places, (const float *)record->pointers[indexer_places_scores] + t * length, start + t + 1,
                           count);
        else
            for (int64_t i = 0; i < count; i++)
                places[i] = (int32_t)i;
    }
    return KERNEL_OK;
}
#endif
