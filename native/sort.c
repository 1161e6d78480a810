/* Sorting along a dim: stable, NaN last (first in descending order), by radix over keys whose unsigned order is the
 * requested one. To find the first few of many, only what may be among them is collected, and sorted now and then. */
#include "elements.h"

enum { SHORT = 48, PIECE = 64, FEW = 16 };
#define TYPES_FLOAT32 (TYPES_HALF | BIT(TYPE_float32)) /* whose keys have 32 bits */

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
        if (type_in(line->type, TYPES_FLOAT32)) {
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

/* Sorts by the bytes of the keys from bit `shift` up to bit `end`, keeping the order of those that are equal there.
 * Returns where the result is: x or other. */
static entry *sort_by_bytes(entry *x, entry *other, int64_t n, uint64_t differs, int shift, int end)
{
    for (; shift < end; shift += 8) {
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

/* Whether few entries, which are sorted by the bits from `shift` on, are equal in these. */
static int nearly_sorted(const entry *x, int64_t n, int shift)
{
    int64_t run = 0, pairs = 0;
    for (int64_t i = 1; i < n; i++) {
        run = x[i].key >> shift == x[i - 1].key >> shift ? run + 1 : 0;
        pairs += run;
    }
    return pairs < 4 * n;
}

/* Returns where the result is: x or other. */
static entry *sort_entries(entry *x, entry *other, int64_t n)
{
    uint64_t differs = 0;
    int end = 0;
    if (n <= SHORT) {
        insertion_sort(x, n);
        return x;
    }
    for (int64_t i = 1; i < n; i++)
        differs |= x[i].key ^ x[0].key;
    while (end < 64 && differs >> end)
        end += 8;
    const int bits = n < 1 << 13 ? 16 : n < 1 << 21 ? 24 : 32; /* that tell most of n scattered keys apart */
    if (end > bits + 8) {
        entry *const nearly = sort_by_bytes(x, other, n, differs, end - bits, end);
        if (nearly_sorted(nearly, n, end - bits)) {
            insertion_sort(nearly, n);
            return nearly;
        }
        other = nearly == x ? other : x;
        x = nearly;
    }
    return sort_by_bytes(x, other, n, differs, 0, end);
}

/* Whether one of the elements from `at` on may come before one with the value `last`. */
static int may_come_before(const view *line, int64_t at, int64_t n, float last, int descending)
{
    float part[PIECE];
    int any = 0;
    if (!type_in(line->type, TYPES_FLOAT32))
        return 1;
    const float *x = read_floats(part, line, at, n), sign = descending ? 1 : -1;
    for (int64_t i = 0; i < n; i++)
        any |= !(x[i] * sign <= last * sign);
    return any;
}

#if !defined(__wasm__)
/* The first `count` entries of the sorted line, each put among those that are known. other has room for PIECE entries,
 * or for all of the line. */
static const entry *few_of(entry *x, entry *other, int64_t count, const view *line, uint64_t flip, int descending)
{
    const int64_t length = line->size[0];
    float last = 0;
    read_keys(x, line, 0, count, flip);
    insertion_sort(x, count);
    for (int64_t at = count, n; at < length; at += n) {
        n = length - at < PIECE ? length - at : PIECE;
        if (type_in(line->type, TYPES_FLOAT32))
            last = *read_floats(&last, line, x[count - 1].index, 1);
        if (!may_come_before(line, at, n, last, descending))
            continue;
        read_keys(other, line, at, n, flip);
        for (int64_t i = 0; i < n; i++) {
            int64_t j = count - 1;
            if (other[i].key >= x[j].key) /* equal elements that come later are not among the first */
                continue;
            for (; j > 0 && x[j - 1].key > other[i].key; j--)
                x[j] = x[j - 1];
            x[j] = other[i];
        }
    }
    return x;
}
#endif

/* The first `count` entries of the sorted line. x and other have room for `room` entries: for all of the line, or for
 * PIECE more than `count`. */
static const entry *first_of(entry *x, entry *other, int64_t room, int64_t count, const view *line, int descending)
{
    const uint64_t flip = descending ? UINT64_MAX : 0;
    const int64_t length = line->size[0];
    int64_t found = room, at = room;
#if !defined(__wasm__)
    if (count <= FEW && count < length)
        return few_of(x, other, count, line, flip, descending);
#endif
    read_keys(x, line, 0, room, flip);
    for (;;) {
        entry *const sorted = sort_entries(x, other, found);
        float last = 0;
        if (at >= length)
            return sorted;
        other = sorted == x ? other : x;
        x = sorted;
        found = count;
        if (type_in(line->type, TYPES_FLOAT32))
            last = *read_floats(&last, line, x[count - 1].index, 1);
        for (int64_t n; at < length && found + PIECE <= room; at += n) {
            n = length - at < PIECE ? length - at : PIECE;
            if (!may_come_before(line, at, n, last, descending))
                continue;
            const entry *const read = x + found;
            read_keys(x + found, line, at, n, flip);
            for (int64_t i = 0; i < n; i++)
                if (read[i].key < x[count - 1].key) /* equal elements that come later are not among the first */
                    x[found++] = read[i];
        }
    }
}

KERNEL(sort)
{
    const int64_t *d = record->dims, outer = d[sort_outer], length = d[sort_length], inner = d[sort_inner];
    const int64_t count = d[sort_count];
    if (outer <= 0 || length <= 0 || inner <= 0 || count <= 0)
        return outer < 0 || length < 0 || inner < 0 || count < 0 ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (!type_in(d[sort_type], TYPES_FLOAT | TYPES_INTEGER | BIT(TYPE_bool)) || count > length ||
        d[sort_workspaces] < 1)
        return KERNEL_BAD_ARGUMENT;
    const int type = (int)d[sort_type];
    const int64_t bytes = type_bytes(type), active = workers < d[sort_workspaces] ? workers : d[sort_workspaces];
    char *y = record->pointers[sort_y];
    int64_t *indices = record->pointers[sort_indices];
    const int64_t room = length < 2 * (count + PIECE) ? length : 2 * (count + PIECE);
    entry *x = (entry *)record->pointers[sort_scratch] + 2 * room * worker;
    for (int64_t at = worker; worker < active && at < outer * inner; at += active) {
        const int64_t offset = at / inner * d[sort_x_outer] + at % inner * d[sort_x_inner];
        const view line = {(const char *)record->pointers[sort_x] + offset * bytes, type, 1, {length}, {d[sort_x_dim]}};
        const entry *sorted = first_of(x, x + room, room, count, &line, d[sort_descending] != 0);
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
