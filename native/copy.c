/* copy_strided: any view to any view of the same shape, in tiles, so that a transposition uses whole cache lines. */
#include "simd.h"

enum { RANK = 6, TILE = 32, RUN = 4096 };

typedef struct axis {
    int64_t size, to, from; /* strides in elements */
    int64_t step, tiles;    /* of the tiles along this axis */
} axis;

/* Drops axes of size 1 and merges neighbours that are contiguous in both views. Returns the number of axes left. */
static int simplify(const int64_t *shape, const int64_t *to, const int64_t *from, int rank, axis *axes)
{
    int count = 0;
    for (int i = 0; i < rank; i++) {
        if (shape[i] == 1)
            continue;
        axis *previous = axes + count - 1;
        if (count && previous->to == to[i] * shape[i] && previous->from == from[i] * shape[i])
            *previous = (axis){previous->size * shape[i], to[i], from[i], 1, 1};
        else
            axes[count++] = (axis){shape[i], to[i], from[i], 1, 1};
    }
    if (!count)
        axes[count++] = (axis){1, 1, 1, 1, 1};
    return count;
}

static int64_t magnitude(int64_t value) { return value < 0 ? -value : value; }

#define COPY_AS(type)                                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                                    \
    ((type *)to)[i * to_step] = ((const type *)from)[i * from_step]

typedef uint16_t any16 __attribute__((may_alias));
typedef uint32_t any32 __attribute__((may_alias));
typedef uint64_t any64 __attribute__((may_alias));

/* For a few vectors a call takes longer than this loop, above all in browsers. */
static void copy_dense(char *to, const char *from, int64_t bytes)
{
    enum { SHORT = 512, STEP = 16 };
    if (bytes > SHORT) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    int64_t i = 0;
    for (; i + STEP <= bytes; i += STEP)
        memcpy(to + i, from + i, STEP);
    for (; i + 4 <= bytes; i += 4)
        memcpy(to + i, from + i, 4);
    for (; i < bytes; i++)
        to[i] = from[i];
}

static void copy_row(char *to, const char *from, int64_t n, int64_t to_step, int64_t from_step, int64_t bytes)
{
    if (to_step == 1 && from_step == 1)
        copy_dense(to, from, n * bytes);
    else if (bytes == 4)
        COPY_AS(any32);
    else if (bytes == 8)
        COPY_AS(any64);
    else if (bytes == 2)
        COPY_AS(any16);
    else if (bytes == 1)
        COPY_AS(char);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * to_step * bytes, from + i * from_step * bytes, (size_t)bytes);
}

/* Cuts the axes into tiles: runs if the same axis is the fast one in both views, squares if two different ones are. */
static int64_t cut(axis *axes, int count, int *inner, int *across)
{
    *inner = 0;
    *across = 0;
    for (int i = 1; i < count; i++) {
        if (magnitude(axes[i].to) <= magnitude(axes[*inner].to))
            *inner = i;
        if (magnitude(axes[i].from) <= magnitude(axes[*across].from))
            *across = i;
    }
    axes[*across].step = axes[*inner].step = TILE;
    if (*across == *inner || magnitude(axes[*inner].from) <= 1) { /* runs, and as many as make a long one together */
        axes[*across].step = 1;
        axes[*inner].step = RUN;
        *across = *inner != count - 1 ? count - 1 : count > 1 ? count - 2 : *inner;
        if (*across != *inner)
            axes[*across].step = axes[*inner].size < RUN ? RUN / axes[*inner].size : 1;
    }
    int64_t total = 1;
    for (int i = 0; i < count; i++) {
        axes[i].tiles = (axes[i].size + axes[i].step - 1) / axes[i].step;
        total *= axes[i].tiles;
    }
    return total;
}

static int64_t extent(const axis *along, int64_t start)
{
    return along->size - start < along->step ? along->size - start : along->step;
}

static void copy_tile(char *to, const char *from, const axis *axes, int count, int inner, int across, int64_t tile,
                      int64_t bytes)
{
    int64_t inner_start = 0, across_start = 0;
    for (int i = count - 1; i >= 0; i--) {
        const int64_t start = tile % axes[i].tiles * axes[i].step;
        tile /= axes[i].tiles;
        to += start * axes[i].to * bytes;
        from += start * axes[i].from * bytes;
        if (i == inner)
            inner_start = start;
        if (i == across)
            across_start = start;
    }
    const int64_t n = extent(axes + inner, inner_start);
    const int64_t rows = inner == across ? 1 : extent(axes + across, across_start);
    for (int64_t row = 0; row < rows; row++)
        copy_row(to + row * axes[across].to * bytes, from + row * axes[across].from * bytes, n, axes[inner].to,
                 axes[inner].from, bytes);
}

KERNEL(copy_strided)
{
    const int64_t bytes = record->dims[copy_strided_element_bytes], rank = record->dims[copy_strided_rank];
    const int64_t *shape = record->dims + copy_strided_shape0;
    axis axes[RANK];
    if (bytes < 1 || rank < 0 || rank > RANK)
        return KERNEL_BAD_ARGUMENT;
    for (int64_t i = 0; i < rank; i++)
        if (shape[i] <= 0)
            return shape[i] ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    const int count =
        simplify(shape, record->dims + copy_strided_to0, record->dims + copy_strided_from0, (int)rank, axes);
    int inner, across;
    int64_t first, last;
    worker_share(cut(axes, count, &inner, &across), 1, worker, workers, &first, &last);
    for (int64_t tile = first; tile < last; tile++)
        copy_tile(record->pointers[copy_strided_to], record->pointers[copy_strided_from], axes, count, inner, across,
                  tile, bytes);
    return KERNEL_OK;
}
