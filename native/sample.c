/* The next token: repetition penalty (Keskar et al., CTRL, 2019), temperature, top-k, top-p (Holtzman et al., 2020), min-p
 * (Nguyen et al., 2024) and typical sampling (Meister et al., 2023), in this order, as the logits processors of Hugging
 * Face transformers.
 *
 * Each of them keeps a prefix of the candidates in descending order, and the draw asks for the smallest prefix of some
 * mass. So nothing is sorted: candidates below a threshold are dropped, quickselect finds the end of the prefix among
 * the few that are left. Ties go to the lower id; masses are doubles, summed in an order that is the same on every
 * platform.
 */
#include "vmath.h"

enum { CHUNKS = 512, SEARCHED = 512 };

typedef struct candidates {
    float *values; /* logits, later weights relative to the largest */
    int32_t *ids;
    int64_t count;
} candidates;

static void swap_candidates(candidates *c, int64_t i, int64_t j)
{
    const float value = c->values[i];
    const int32_t id = c->ids[i];
    c->values[i] = c->values[j];
    c->ids[i] = c->ids[j];
    c->values[j] = value;
    c->ids[j] = id;
}

static int precedes(const candidates *c, int64_t i, int64_t j)
{
    return c->values[i] > c->values[j] || (c->values[i] == c->values[j] && c->ids[i] < c->ids[j]);
}

/* Median of three candidates of low .. high - 1, taken pseudo-randomly: no order of the logits is a bad one. */
static int64_t choose_pivot(const candidates *c, int64_t low, int64_t high, uint64_t *state)
{
    int64_t at[3];
    for (int i = 0; i < 3; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        at[i] = low + (int64_t)((*state >> 33) % (uint64_t)(high - low));
    }
    if (precedes(c, at[0], at[1]))
        return precedes(c, at[1], at[2]) ? at[1] : precedes(c, at[0], at[2]) ? at[2] : at[0];
    return precedes(c, at[0], at[2]) ? at[0] : precedes(c, at[1], at[2]) ? at[2] : at[1];
}

/* Moves what precedes the pivot before it. Returns where the pivot ends up; adds the mass before it to *mass. */
static int64_t partition(candidates *c, int64_t low, int64_t high, int64_t pivot, int counting, double *mass)
{
    int64_t end = low;
    swap_candidates(c, pivot, high - 1);
    for (int64_t i = low; i < high - 1; i++) {
        const int first = precedes(c, i, high - 1);
        *mass += first ? (counting ? 1.0 : (double)c->values[i]) : 0.0;
        swap_candidates(c, i, end); /* branch-free: end is unchanged if the candidate does not belong */
        end += first;
    }
    swap_candidates(c, end, high - 1);
    return end;
}

/* Puts the smallest prefix in descending order whose mass reaches the goal (passes it, when strict) at the front, its
 * last candidate at its end, and returns its length, at least 1. The mass of a candidate is its value, or 1. */
static __attribute__((noinline)) int64_t select_prefix(candidates *c, double goal, int counting, int strict)
{
    int64_t low = 0, high = c->count;
    double before = 0;
    uint64_t state = 1;
    while (high - low > 1) {
        double mass = before;
        const int64_t end = partition(c, low, high, choose_pivot(c, low, high, &state), counting, &mass);
        const double with_pivot = mass + (counting ? 1.0 : (double)c->values[end]);
        if (strict ? mass > goal : mass >= goal) {
            high = end;
        } else if (strict ? with_pivot > goal : with_pivot >= goal) {
            return end + 1;
        } else {
            before = with_pivot;
            low = end + 1;
        }
    }
    return high > 1 ? high : 1;
}

/* Drops the candidates below the threshold; the order of the others stays. */
static __attribute__((noinline)) void keep_at_least(candidates *c, float threshold)
{
    int64_t kept = 0;
    for (int64_t start = 0; start < c->count; start += 64) {
        const int64_t end = c->count - start < 64 ? c->count : start + 64;
        if (row_largest(c->values + start, end - start) < threshold)
            continue;
        for (int64_t i = start; i < end; i++) {
            const float value = c->values[i];
            c->ids[kept] = c->ids[i];
            c->values[kept] = value;
            kept += value >= threshold;
        }
    }
    c->count = kept;
}

/* Keeps the k largest. The k-th largest of the maxima of many chunks is a threshold that few others pass. */
static void keep_top(candidates *c, int64_t k)
{
    float maxima[CHUNKS];
    int32_t numbers[CHUNKS];
    candidates chunks = {maxima, numbers, 0};
    const int64_t width = c->count / CHUNKS < 16 ? 16 : (c->count + CHUNKS - 1) / CHUNKS;
    for (int64_t start = 0; start < c->count; start += width) {
        numbers[chunks.count] = (int32_t)chunks.count;
        maxima[chunks.count++] = row_largest(c->values + start, c->count - start < width ? c->count - start : width);
    }
    if (k <= chunks.count)
        keep_at_least(c, maxima[select_prefix(&chunks, (double)k, 1, 0) - 1]);
    c->count = select_prefix(c, (double)k, 1, 0);
}

/* Sum of the weights that are at least the threshold, always in eight lanes: the same on every platform. */
static __attribute__((noinline)) double mass_at_least(const candidates *c, float threshold)
{
    typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
    typedef int32_t mask __attribute__((vector_size(32)));
    typedef double sums __attribute__((vector_size(64)));
    sums lanes = {0};
    int64_t i = 0;
    for (; i + 8 <= c->count; i += 8) {
        const eight values = *(const eight *)(c->values + i);
        lanes += __builtin_convertvector((eight)((mask)values & (values >= threshold)), sums);
    }
    for (; i < c->count; i++)
        lanes[i % 8] += c->values[i] >= threshold ? (double)c->values[i] : 0.0;
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/* Values become exp((value - largest) / temperature); an infinite largest value takes all. */
static void to_weights(candidates *c, float largest, float temperature)
{
    for (int64_t i = 0; i < c->count; i += LANES) {
        const int64_t n = c->count - i;
        const vfloat value = vload_up_to(c->values + i, n), shifted = (value - largest) / temperature;
        vstore_up_to(c->values + i, vexp_negative(vselect(value == largest, vzero(), shifted)), n);
    }
}

/* select_prefix by weight, after thresholds have fallen until enough passes, to `floor` at most. */
static __attribute__((noinline)) int64_t select_mass(candidates *c, double goal, float floor, int strict)
{
    float threshold = 0.125f;
    while (threshold > floor && mass_at_least(c, threshold) <= goal)
        threshold *= 0.125f;
    keep_at_least(c, threshold > floor ? threshold : floor);
    return select_prefix(c, goal, 0, strict);
}

static SMALL_CODE int has_nan(const float *x, int64_t n)
{
    vint unordered = vsplat_int(0);
    for (int64_t i = 0; i < n; i += LANES) {
        const vfloat value = vload_up_to(x + i, n - i);
        unordered |= value != value;
    }
    return vsum_int(unordered) != 0;
}

/* Copies the logits and applies the penalty, once for each id of the history. */
static int prepare(candidates *c, const float *logits, const int32_t *history, int64_t history_count, float penalty)
{
    memcpy(c->values, logits, (size_t)c->count * sizeof *logits);
    for (int64_t i = 0; i < c->count; i++)
        c->ids[i] = (int32_t)i;
    for (int64_t i = 0; i < history_count; i++) {
        const int32_t id = history[i];
        if (id < 0 || id >= c->count)
            return KERNEL_INDEX_RANGE;
        c->values[id] = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
    }
    return KERNEL_OK;
}

/* Keeps the smallest set of candidates whose mass reaches the share `typical`, those first whose surprise -log p is closest
 * to the entropy. |-log p - entropy| <= d is a window of weights around exp(sum p log w): d is found by bisection. */
static __attribute__((noinline)) void keep_typical(candidates *c, double typical)
{
    double sum = 0, mean = 0;
    for (int64_t i = 0; i < c->count; i++) {
        const double weight = c->values[i];
        sum += weight;
        mean += weight > 0 ? weight * log_scalar(c->values[i]) : 0.0;
    }
    const float center = (float)(mean / sum);
    float narrow = 0.0f, wide = 256.0f, low = 0.0f, high = 2.0f;
    for (int step = 0; step < 48; step++) {
        const float middle = narrow + (wide - narrow) * 0.5f;
        const float from = vexp(vsplat(center - middle))[0], to = vexp(vsplat(center + middle))[0];
        double mass = 0;
        for (int64_t i = 0; i < c->count; i++)
            mass += c->values[i] >= from && c->values[i] <= to ? (double)c->values[i] : 0.0;
        if (mass >= typical * sum) {
            wide = middle;
            low = from;
            high = to;
        } else {
            narrow = middle;
        }
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < c->count; i++) {
        const float value = c->values[i];
        c->ids[kept] = c->ids[i];
        c->values[kept] = value;
        kept += value >= low && value <= high;
    }
    c->count = kept;
}

/* The draw, from weights; returns the place of the chosen candidate. */
static int64_t draw(candidates *c, float top_p, float min_p, float typical, double uniform)
{
    const float smallest = 1.4e-45f, floor = min_p > smallest ? min_p < 1.0f ? min_p : 1.0f : smallest;
    if (top_p > 0 && top_p < 1)
        c->count = select_mass(c, mass_at_least(c, smallest) * top_p, floor, 0);
    if (typical > 0 && typical < 1) {
        keep_at_least(c, floor);
        keep_typical(c, typical);
    }
    return select_mass(c, mass_at_least(c, floor) * uniform, floor, 1) - 1;
}

/* The first of the largest logits. They are read once: what is found in a block is looked for there only. */
static int find_largest(int32_t *token, const float *logits, int64_t vocabulary)
{
    float largest = -INFINITE;
    int64_t place = 0;
    for (int64_t start = 0; start < vocabulary; start += SEARCHED) {
        const int64_t count = vocabulary - start < SEARCHED ? vocabulary - start : SEARCHED;
        if (has_nan(logits + start, count))
            return KERNEL_BAD_ARGUMENT;
        const float found = row_largest(logits + start, count);
        if (found > largest)
            largest = found, place = start;
    }
    if (largest == -INFINITE) /* every token is ruled out */
        return KERNEL_BAD_ARGUMENT;
    while (logits[place] != largest)
        place++;
    *token = (int32_t)place;
    return KERNEL_OK;
}

KERNEL(sample_f32)
{
    const float *logits = record->pointers[sample_f32_logits], *uniform = record->pointers[sample_f32_uniform];
    const int64_t vocabulary = record->dims[sample_f32_vocabulary], top_k = record->dims[sample_f32_top_k];
    const float temperature = record->floats[sample_f32_temperature], penalty = record->floats[sample_f32_penalty];
    int32_t *token = record->pointers[sample_f32_token];
    if (worker || vocabulary <= 0)
        return KERNEL_OK;
    candidates c = {record->pointers[sample_f32_candidates],
                    (int32_t *)record->pointers[sample_f32_candidates] + vocabulary, vocabulary};
    if (!(penalty > 0) || temperature != temperature || vocabulary > INT32_MAX)
        return KERNEL_BAD_ARGUMENT;
    const int32_t *history = record->pointers[sample_f32_history];
    const int64_t history_count = history ? record->dims[sample_f32_history_count] : 0;
    if (temperature > 0 || history_count > 0) { /* else the largest of the logits themselves is asked for */
        if (has_nan(logits, vocabulary))
            return KERNEL_BAD_ARGUMENT;
        const int code = prepare(&c, logits, history, history_count, penalty);
        if (code)
            return code;
        logits = c.values;
    }
    if (!(temperature > 0))
        return find_largest(token, logits, vocabulary);
    const float largest = row_largest(logits, vocabulary);
    if (largest == -INFINITE) /* every token is ruled out */
        return KERNEL_BAD_ARGUMENT;
    if (!(uniform[0] >= 0 && uniform[0] < 1))
        return KERNEL_BAD_ARGUMENT;
    if (top_k > 0 && top_k < vocabulary)
        keep_top(&c, top_k);
    to_weights(&c, largest, temperature);
    const float top_p = record->floats[sample_f32_top_p], min_p = record->floats[sample_f32_min_p];
    const float typical = (float)record->dims[sample_f32_typical] * 0x1p-24f;
    *token = c.ids[draw(&c, top_p, min_p, typical, uniform[0])];
    return KERNEL_OK;
}
