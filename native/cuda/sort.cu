/* Sorting and top-k along a dim: a block for each line, at most SORT_LINES at a time. */
#include "sorting.h"

enum { SORT_LINES = 256 }; /* as in the two lines that read it */

/* key: in the order of the values; index: where the value was. */
struct entry {
    uint64_t key;
    int64_t index;
};

/* The keys of numbers are in their order; NaN is the largest. */
DEVICE uint64_t key_of(const void *x, int64_t at, int type)
{
    if (!type_in(type, TYPES_FLOAT))
        return (uint64_t)load_integer(x, at, type) ^ (type == TYPE_uint64 ? 0 : (uint64_t)1 << 63);
    const double value = load_double(x, at, type) + 0.0; /* -0 is 0 */
    const uint64_t bits = (uint64_t)__double_as_longlong(value);
    if (value != value)
        return ~(uint64_t)0;
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

SCRATCH(sort, 32 * length * MIN(outer * inner, 256))
KERNEL(sort, CHOOSE(MIN(count, length) < 0, -1, MIN(outer *inner, 256)), 256, 0)
{
    const int64_t *d = record.dims, length = d[sort_length], inner = d[sort_inner], count = d[sort_count];
    if (!type_in(d[sort_type], TYPES_FLOAT | TYPES_INTEGER | BIT(TYPE_bool)) || count > length ||
        d[sort_workspaces] < 1) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)d[sort_type];
    const uint64_t flip = d[sort_descending] ? ~(uint64_t)0 : 0;
    entry *const memory = (entry *)scratch + 2 * length * blockIdx.x;
    int64_t *indices = (int64_t *)record.pointers[sort_indices];
    FOR_EACH_BLOCK(line, d[sort_outer] * inner)
    {
        const int64_t from = line / inner * d[sort_x_outer] + line % inner * d[sort_x_inner];
        FOR_THREADS(i, length)
        {
            memory[i].key = key_of(record.pointers[sort_x], from + i * d[sort_x_dim], type) ^ flip;
            memory[i].index = i;
        }
        __syncthreads();
        const entry *sorted = block_sort(memory, memory + length, length, [](const entry &a, const entry &b) {
            return a.key < b.key || (a.key == b.key && a.index < b.index);
        });
        FOR_THREADS(k, count)
        {
            const int64_t to = (line / inner * count + k) * inner + line % inner;
            if (indices)
                indices[to] = sorted[k].index;
            if (record.pointers[sort_y])
                copy_element(record.pointers[sort_y], to, record.pointers[sort_x],
                             from + sorted[k].index * d[sort_x_dim], type_bytes(type));
        }
        __syncthreads();
    }
}
