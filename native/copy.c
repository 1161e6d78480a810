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

/* Elements of 4 bytes, transposed: to[r * to_row + i] = from[r + i * from_row] for `rows` x n elements. */
static void turn(any32 *to, const any32 *from, int64_t rows, int64_t n, int64_t to_row, int64_t from_row)
{
    for (int64_t r = 0; r < rows; r += 4) {
        const int64_t tall = rows - r < 4 ? rows - r : 4;
        int64_t i = 0;
        for (; tall == 4 && i + 4 <= n; i += 4) {
            quad part[4];
            for (int q = 0; q < 4; q++)
                part[q] = *(const quad_unaligned *)(from + r + (i + q) * from_row);
            transpose4(&part[0], &part[1], &part[2], &part[3]);
            for (int q = 0; q < 4; q++)
                *(quad_unaligned *)(to + (r + q) * to_row + i) = part[q];
        }
        for (int64_t q = 0; q < tall; q++)
            for (int64_t j = i; j < n; j++)
                to[(r + q) * to_row + j] = from[r + q + j * from_row];
    }
}

/* A tile: its number along each axis, and where it begins. */
typedef struct place {
    char *to;
    const char *from;
    int64_t tile[RANK];
} place;

/* Moves the place by some tiles along an axis. */
static void move(place *at, const axis *along, int64_t tiles, int64_t bytes)
{
    at->to += tiles * along->step * along->to * bytes;
    at->from += tiles * along->step * along->from * bytes;
}

static int64_t extent(const axis *along, int64_t tile)
{
    const int64_t start = tile * along->step;
    return along->size - start < along->step ? along->size - start : along->step;
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
    place at = {record->pointers[copy_strided_to], record->pointers[copy_strided_from], {0}};
    const int turned = bytes == 4 && inner != across && axes[inner].to == 1 && axes[across].from == 1;
    int64_t rest = first;
    for (int i = count - 1; i >= 0; i--) {
        at.tile[i] = rest % axes[i].tiles;
        rest /= axes[i].tiles;
        move(&at, &axes[i], at.tile[i], bytes);
    }
    for (; first < last; first++) {
        const int64_t n = extent(&axes[inner], at.tile[inner]);
        const int64_t rows = inner == across ? 1 : extent(&axes[across], at.tile[across]);
        if (turned)
            turn((any32 *)at.to, (const any32 *)at.from, rows, n, axes[across].to, axes[inner].from);
        for (int64_t row = 0; row < rows && !turned; row++)
            copy_row(at.to + row * axes[across].to * bytes, at.from + row * axes[across].from * bytes, n,
                     axes[inner].to, axes[inner].from, bytes);
        for (int i = count - 1; i >= 0; i--) {
            if (++at.tile[i] < axes[i].tiles) {
                move(&at, &axes[i], 1, bytes);
                break;
            }
            move(&at, &axes[i], 1 - axes[i].tiles, bytes);
            at.tile[i] = 0;
        }
    }
    return KERNEL_OK;
}
