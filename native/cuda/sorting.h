/* A merge sort by one block of threads, in global memory. */
#ifndef PYAPP_SORTING_H
#define PYAPP_SORTING_H
#include "gpu.h"

/* Sorts n entries of `from`, with as much memory at `other`; returns which of the two has them. before(a, b): whether a
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
#endif
