/* Sorting along a dim: stable, NaN last (first in descending order), by radix over keys whose unsigned order is the
 * requested one. A few of many are found by insertion into the best so far. */
#include "elements.h"

enum { SHORT = 48, BEST = 64 };

typedef struct entry {
    uint64_t key;
    int64_t index;
} entry;

/* -0 equals 0, and all NaN are equal. */
static uint64_t key_of_real(double x)
{
    uint64_t bits;
    if (x != x)
        return UINT64_MAX;
    x = x == 0 ? 0 : x;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

/* 32-bit keys if they can hold every value, which halves the passes. */
static uint64_t key_of_float(float x)
{
    uint32_t bits;
    if (x != x)
        return UINT32_MAX;
    x = x == 0 ? 0 : x;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? (uint32_t)~bits : bits | 1u << 31;
}

static void read_keys(entry *to, const view *line, int64_t first, int64_t n, uint64_t flip)
{
    for (int64_t at = 0; at < n; at += PART) {
        const int64_t some = n - at < PART ? n - at : PART;
        if (type_in(line->type, TYPES_HALF | BIT(TYPE_float32))) {
            float part[PART];
            const float *x = read_floats(part, line, first + at, some);
            for (int64_t i = 0; i < some; i++)
                to[at + i] = (entry){key_of_float(x[i]) ^ (uint32_t)flip, first + at + i};
        } else if (line->type == TYPE_float64) {
            double part[PART];
            read_doubles(part, line, first + at, some);
            for (int64_t i = 0; i < some; i++)
                to[at + i] = (entry){key_of_real(part[i]) ^ flip, first + at + i};
        } else {
            int64_t part[PART];
            const uint64_t top = (uint64_t)(line->type != TYPE_uint64) << 63;
            read_integers(part, line, first + at, some);
            for (int64_t i = 0; i < some; i++)
                to[at + i] = (entry){((uint64_t)part[i] ^ top) ^ flip, first + at + i};
        }
    }
}

static void insertion_sort(entry *x, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const entry moved = x[i];
        int64_t j = i;
        for (; j > 0 && x[j - 1].key > moved.key; j--)
            x[j] = x[j - 1];
        x[j] = moved;
    }
}

/* Returns where the result is: x or other. */
static entry *radix_sort(entry *x, entry *other, int64_t n)
{
    uint64_t differs = 0;
    for (int64_t i = 1; i < n; i++)
        differs |= x[i].key ^ x[0].key;
    for (int shift = 0; shift < 64; shift += 8) {
        int64_t starts[256] = {0}, sum = 0;
        if (!(differs >> shift & 255))
            continue;
        for (int64_t i = 0; i < n; i++)
            starts[x[i].key >> shift & 255]++;
        for (int i = 0; i < 256; i++) {
            const int64_t count = starts[i];
            starts[i] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            other[starts[x[i].key >> shift & 255]++] = x[i];
        entry *done = x;
        x = other;
        other = done;
    }
    return x;
}

/* The first `most` of the sorted line, at most BEST. */
static void best_of(entry *best, int64_t most, const view *line, int64_t length, uint64_t flip)
{
    int64_t found = 0;
    for (int64_t at = 0; at < length; at += BEST) {
        entry part[BEST];
        const int64_t n = length - at < BEST ? length - at : BEST;
        read_keys(part, line, at, n, flip);
        for (int64_t i = 0; i < n; i++) {
            if (found == most && part[i].key >= best[most - 1].key)
                continue;
            int64_t j = found < most ? found++ : most - 1;
            for (; j > 0 && best[j - 1].key > part[i].key; j--)
                best[j] = best[j - 1];
            best[j] = part[i];
        }
    }
}

KERNEL(sort)
{
    const int64_t *d = record->dims, outer = d[sort_outer], length = d[sort_length], inner = d[sort_inner];
    const int64_t count = d[sort_count];
    const uint64_t flip = d[sort_descending] ? UINT64_MAX : 0;
    if (outer <= 0 || length <= 0 || inner <= 0 || count <= 0)
        return outer < 0 || length < 0 || inner < 0 || count < 0 ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (!type_in(d[sort_type], TYPES_FLOAT | TYPES_INTEGER | BIT(TYPE_bool)) || count > length ||
        d[sort_workspaces] < 1)
        return KERNEL_BAD_ARGUMENT;
    const int type = (int)d[sort_type];
    const int64_t bytes = type_bytes(type), active = workers < d[sort_workspaces] ? workers : d[sort_workspaces];
    char *y = record->pointers[sort_y];
    int64_t *indices = record->pointers[sort_indices];
    entry best[BEST], *x = (entry *)record->pointers[sort_scratch] + 2 * length * worker;
    for (int64_t at = worker; worker < active && at < outer * inner; at += active) {
        const int64_t offset = at / inner * d[sort_x_outer] + at % inner * d[sort_x_inner];
        const view line = {(const char *)record->pointers[sort_x] + offset * bytes, type, 1, {length}, {d[sort_x_dim]}};
        const entry *sorted = best;
        if (count <= BEST && count < length / 4)
            best_of(best, count, &line, length, flip);
        else {
            read_keys(x, &line, 0, length, flip);
            if (length <= SHORT)
                insertion_sort(x, length);
            sorted = length <= SHORT ? x : radix_sort(x, x + length, length);
        }
        for (int64_t k = 0; k < count; k++) {
            const int64_t to = (at / inner * count + k) * inner + at % inner;
            if (indices)
                indices[to] = sorted[k].index;
            if (y)
                memcpy(y + to * bytes, line.p + sorted[k].index * d[sort_x_dim] * bytes, (size_t)bytes);
        }
    }
    return KERNEL_OK;
}
