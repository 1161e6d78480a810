/* Sorting and top-k along a dim. A block sorts a tile of a line in shared memory; tiles of long lines are merged, four runs
 * at a time, by a kernel for each pass, or for few results the first ones of all tiles are sorted once more. */
#include "gpu.h"

enum { SORT_THREADS = 512, FAN = 4 };

/* What C and Python share: the bytes of an entry, the entries of a tile, and whether the tiles' first results make up a tile
 * at most. Types of 8 bytes are WIDE. */
#define WIDE CHOOSE(type == TYPE_float64, 1, CHOOSE(type == TYPE_int64, 1, CHOOSE(type == TYPE_uint64, 1, 0)))
#define ENTRY (8 + 8 * WIDE)
#define TILE (4096 / (1 + WIDE))
#define TILES PARTS(length, TILE)
#define IS_LONG CHOOSE(length > TILE, 1, 0)
#define IS_TOP CHOOSE(length > TILE, CHOOSE(TILES * count > TILE, 0, 1), 0)
#define IS_MERGED (IS_LONG - IS_TOP)

/* The order of keys is that of the values; NaN is the largest. The index follows the key, so that no two are equal. */
typedef uint64_t narrow; /* 32 bits each */
struct wide {
    uint64_t key, index;
};

DEVICE bool is_before(narrow a, narrow b) { return a < b; }
DEVICE bool is_before(const wide &a, const wide &b) { return a.key < b.key || (a.key == b.key && a.index < b.index); }
DEVICE int64_t index_of(narrow entry) { return (int64_t)(entry & 0xffffffffu); }
DEVICE int64_t index_of(const wide &entry) { return (int64_t)entry.index; }

DEVICE void make_entry(narrow *entry, const void *x, int64_t at, int64_t index, int type, uint64_t flip)
{
    uint32_t key;
    if (type_in(type, TYPES_FLOAT)) {
        const float value = load_float(x, at, type) + 0.0f; /* -0 is 0 */
        const uint32_t bits = (uint32_t)__float_as_int(value);
        key = value != value ? ~0u : bits >> 31 ? ~bits : bits | 1u << 31;
    } else
        key = (uint32_t)load_integer(x, at, type) ^
              (type_in(type, BIT(TYPE_int8) | BIT(TYPE_int16) | BIT(TYPE_int32)) ? 1u << 31 : 0);
    *entry = (uint64_t)(key ^ (uint32_t)flip) << 32 | (uint32_t)index;
}

DEVICE void make_entry(wide *entry, const void *x, int64_t at, int64_t index, int type, uint64_t flip)
{
    uint64_t key;
    if (type == TYPE_float64) {
        const double value = ((const double *)x)[at] + 0.0;
        const uint64_t bits = (uint64_t)__double_as_longlong(value);
        key = value != value ? ~(uint64_t)0 : bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
    } else
        key = (uint64_t)load_integer(x, at, type) ^ (type == TYPE_uint64 ? 0 : (uint64_t)1 << 63);
    entry->key = key ^ flip;
    entry->index = (uint64_t)index;
}

struct sorting {
    int64_t lines, length, inner, count, x_outer, x_dim, x_inner, tiles;
    int type;
    uint64_t flip;
    const void *x;
    void *y;
    int64_t *indices;

    DEVICE_MEMBER sorting(const launch &record)
    {
        const int64_t *d = record.dims;
        type = (int)d[sort_type];
        length = d[sort_length];
        inner = d[sort_inner];
        lines = d[sort_outer] * inner;
        count = d[sort_count];
        x_outer = d[sort_x_outer];
        x_dim = d[sort_x_dim];
        x_inner = d[sort_x_inner];
        tiles = TILES;
        flip = d[sort_descending] ? ~(uint64_t)0 : 0;
        x = record.pointers[sort_x];
        y = record.pointers[sort_y];
        indices = (int64_t *)record.pointers[sort_indices];
    }
    DEVICE_MEMBER int64_t begin(int64_t line) const { return line / inner * x_outer + line % inner * x_inner; }
    /* Result k of a line, which was at `index`. */
    DEVICE_MEMBER void write(int64_t line, int64_t k, int64_t index) const
    {
        const int64_t to = (line / inner * count + k) * inner + line % inner;
        if (indices)
            indices[to] = index;
        if (y)
            copy_element(y, to, x, begin(line) + index * x_dim, type_bytes(type));
    }
};

/* A merge sort by one block: sorts n entries of `from`, with as much memory at `other`; returns which of the two has them. before(a, b): whether a
 * comes first; no two entries are equal. Each thread finds the places of its entries in the run beside theirs. */
template <class Entry, class Before> DEVICE Entry *block_sort(Entry *from, Entry *other, int64_t n, Before before)
{
    for (int64_t width = 1; width < n; width *= 2) {
        FOR_THREADS(i, n)
        {
            const Entry own = from[i];
            const int64_t start = i / (2 * width) * (2 * width), middle = start + width < n ? start + width : n;
            const int64_t end = start + 2 * width < n ? start + 2 * width : n;
            const bool left = i < middle;
            int64_t low = left ? middle : start, high = left ? end : middle;
            const int64_t first = low;
            while (low < high) {
                const int64_t at = (low + high) / 2;
                if (before(from[at], own))
                    low = at + 1;
                else
                    high = at;
            }
            other[start + (i - (left ? start : middle)) + (low - first)] = own;
        }
        __syncthreads();
        Entry *const done = other;
        other = from;
        from = done;
    }
    return from;
}

template <class Entry> DEVICE Entry *sort_in(Entry *memory, int64_t n)
{
    __syncthreads();
    return block_sort(memory, memory + n, n, [](const Entry &a, const Entry &b) { return is_before(a, b); });
}

/* The tiles of long lines: the sorted entries, of the first results alone where that is enough. */
template <class Entry> DEVICE void sort_tiles(const launch &record, unsigned char *scratch, bool top)
{
    DYNAMIC_SHARED(Entry, memory);
    const sorting s(record);
    const int64_t length = s.length, type = s.type;
    FOR_EACH_BLOCK(at, s.lines * s.tiles)
    {
        const int64_t line = at / s.tiles, first = at % s.tiles * TILE, n = MIN(TILE, length - first);
        FOR_THREADS(i, n)
        make_entry(memory + i, s.x, s.begin(line) + (first + i) * s.x_dim, first + i, s.type, s.flip);
        const Entry *sorted = sort_in(memory, n);
        Entry *to = (Entry *)scratch + line * length + first;
        FOR_THREADS(i, top ? MIN(n, s.count) : n) to[i] = sorted[i];
        __syncthreads();
    }
}

/* Merges FAN runs of `width` entries each: a thread counts, for its entry, those of the other runs that come before. */
template <class Entry> DEVICE void merge_runs(const launch &record, unsigned char *scratch, int pass)
{
    const sorting s(record);
    const int64_t type = s.type, all = s.lines * s.length, width = (int64_t)TILE << 2 * pass;
    const Entry *from = (const Entry *)scratch + (pass & 1 ? all : 0);
    Entry *to = (Entry *)scratch + (pass & 1 ? 0 : all);
    FOR_EACH(i, all)
    {
        const int64_t place = i % s.length, line = i - place, start = place / (FAN * width) * (FAN * width);
        const Entry own = from[i];
        int64_t rank = place - start - (place - start) / width * width;
        for (int run = 0; run < FAN; run++) {
            const int64_t first = start + run * width;
            int64_t low = first, high = MIN(first + width, s.length);
            if (run == (place - start) / width)
                continue;
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (is_before(from[line + middle], own))
                    low = middle + 1;
                else
                    high = middle;
            }
            rank += MAX(low - first, 0);
        }
        to[line + start + rank] = own;
    }
}

/* Lines of one tile, and the first results of several. */
template <class Entry> DEVICE void sort_lines(const launch &record, const unsigned char *scratch, bool top)
{
    DYNAMIC_SHARED(Entry, memory);
    const sorting s(record);
    const int64_t length = s.length, type = s.type, each = top ? MIN(s.count, TILE) : length;
    const int64_t rest = length - (s.tiles - 1) * TILE; /* of the last tile */
    const int64_t n = top ? (s.tiles - 1) * each + MIN(each, rest) : length;
    FOR_EACH_BLOCK(line, s.lines)
    {
        const Entry *of_tiles = (const Entry *)scratch + line * length;
        FOR_THREADS(i, n)
        {
            if (top)
                memory[i] = of_tiles[i / each * TILE + i % each];
            else
                make_entry(memory + i, s.x, s.begin(line) + i * s.x_dim, i, s.type, s.flip);
        }
        const Entry *sorted = sort_in(memory, n);
        FOR_THREADS(k, s.count) s.write(line, k, index_of(sorted[k]));
        __syncthreads();
    }
}

template <class Entry> DEVICE void write_merged(const launch &record, const unsigned char *scratch)
{
    const sorting s(record);
    const int64_t type = s.type, all = s.lines * s.length;
    int passes = 0;
    while ((int64_t)TILE << 2 * passes < s.length)
        passes++;
    const Entry *sorted = (const Entry *)scratch + (passes & 1 ? all : 0);
    FOR_EACH(i, s.lines * s.count)
    {
        const int64_t line = i / s.count, k = i % s.count;
        s.write(line, k, index_of(sorted[line * s.length + k]));
    }
}

DEVICE bool can_sort(const launch &record, int32_t *status)
{
    const int64_t *d = record.dims;
    const bool can = type_in(d[sort_type], TYPES_FLOAT | TYPES_INTEGER | BIT(TYPE_bool)) &&
                     d[sort_count] <= d[sort_length] && d[sort_workspaces] >= 1;
    if (!can)
        report(KERNEL_BAD_ARGUMENT);
    return can;
}

DEVICE bool is_wide(const launch &record)
{
    const int64_t type = record.dims[sort_type];
    return WIDE;
}

#define SORT_SHARED (2 * ENTRY * MIN(length, TILE))
SCRATCH(sort, CHOOSE(length > TILE, 2 * ENTRY * length * outer * inner, 0))
STEP(sort, 1, CHOOSE(length > TILE, outer *inner *TILES, 0), 512, SORT_SHARED)
{
    const int64_t *d = record.dims, length = d[sort_length], type = d[sort_type], count = d[sort_count];
    const bool top = IS_TOP;
    if (!can_sort(record, status))
        return;
    if (is_wide(record))
        sort_tiles<wide>(record, scratch, top);
    else
        sort_tiles<narrow>(record, scratch, top);
}

DEVICE void merge_pass(const launch &record, int32_t *status, unsigned char *scratch, int pass)
{
    if (failed)
        return;
    if (is_wide(record))
        merge_runs<wide>(record, scratch, pass);
    else
        merge_runs<narrow>(record, scratch, pass);
}

/* `merged`: runs of how many entries there are. */
#define MERGE_BLOCKS(merged) CHOOSE(length > (merged), IS_MERGED * PARTS(outer * inner * length, 512), 0)
STEP(sort, 2, MERGE_BLOCKS(TILE), 512, 0) { merge_pass(record, status, scratch, 0); }
STEP(sort, 3, MERGE_BLOCKS(4 * TILE), 512, 0) { merge_pass(record, status, scratch, 1); }
STEP(sort, 4, MERGE_BLOCKS(16 * TILE), 512, 0) { merge_pass(record, status, scratch, 2); }
STEP(sort, 5, MERGE_BLOCKS(64 * TILE), 512, 0) { merge_pass(record, status, scratch, 3); }
STEP(sort, 6, MERGE_BLOCKS(256 * TILE), 512, 0) { merge_pass(record, status, scratch, 4); }
STEP(sort, 7, MERGE_BLOCKS(1024 * TILE), 512, 0) { merge_pass(record, status, scratch, 5); }
STEP(sort, 8, MERGE_BLOCKS(4096 * TILE), 512, 0) { merge_pass(record, status, scratch, 6); }
STEP(sort, 9, MERGE_BLOCKS(16384 * TILE), 512, 0) { merge_pass(record, status, scratch, 7); }
STEP(sort, 10, MERGE_BLOCKS(65536 * TILE), 512, 0) { merge_pass(record, status, scratch, 8); }
STEP(sort, 11, MERGE_BLOCKS(262144 * TILE), 512, 0) { merge_pass(record, status, scratch, 9); }

KERNEL(sort, CHOOSE(MIN(count, length) < 0, -1, CHOOSE(IS_MERGED > 0, PARTS(outer *inner *count, 512), outer *inner)),
       512, CHOOSE(IS_MERGED > 0, 0, SORT_SHARED))
{
    const int64_t *d = record.dims, length = d[sort_length], type = d[sort_type], count = d[sort_count];
    const bool top = IS_TOP, merged = IS_MERGED;
    if (failed || !can_sort(record, status))
        return;
    if (is_wide(record) && merged)
        write_merged<wide>(record, scratch);
    else if (is_wide(record))
        sort_lines<wide>(record, scratch, top);
    else if (merged)
        write_merged<narrow>(record, scratch);
    else
        sort_lines<narrow>(record, scratch, top);
}
