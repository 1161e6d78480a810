/* copy_strided: any view to any view of the same shape, in tiles, so that a transposition uses whole cache lines. */
#include "simd.h"

enum { RANK = 6, TILE = 32, RUN = 4096 };

typedef struct axis {
    int64_t size, to, from;       /* strides in elements */
    int64_t step, tiles, tile;    /* elements of a tile along this axis; how many tiles; which one */
    ptrdiff_t to_tile, from_tile; /* bytes from one tile to the next */
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
            *previous = (axis){.size = previous->size * shape[i], .to = to[i], .from = from[i], .step = 1};
        else
            axes[count++] = (axis){.size = shape[i], .to = to[i], .from = from[i], .step = 1};
    }
    if (!count)
        axes[count++] = (axis){.size = 1, .to = 1, .from = 1, .step = 1};
    return count;
}

static int64_t magnitude(int64_t value) { return value < 0 ? -value : value; }

#define COPY_AS(type)                                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                                    \
    ((type *)to)[i * to_step] = ((const type *)from)[i * from_step]

typedef uint8_t any8;
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

/* One element n times, or n elements backwards. The compiler makes vectors where it knows the step. */
#define REPEAT_OR_REVERSE(type)                                                                                        \
    static void repeat_or_reverse_##type(void *target, const void *source, int64_t n, int step)                        \
    {                                                                                                                  \
        type *to = target;                                                                                             \
        const type *from = source;                                                                                     \
        if (step)                                                                                                      \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = from[-i];                                                                                      \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = *from;                                                                                         \
    }
REPEAT_OR_REVERSE(any32)
#if !defined(__wasm__) /* there the others as any step: code is downloaded */
REPEAT_OR_REVERSE(any8)
REPEAT_OR_REVERSE(any16)
REPEAT_OR_REVERSE(any64)

/* Every second element of 4 bytes. Reads no further than the last of them. */
static void copy_every_second(any32 *to, const any32 *from, int64_t n)
{
    typedef uint32_t words __attribute__((vector_size(16)));
    typedef uint32_t words_unaligned __attribute__((vector_size(16), aligned(4), may_alias));
    int64_t i = 0;
    for (; i + 8 < n; i += 8)
        for (int half = 0; half < 8; half += 4) {
            const words a = *(const words_unaligned *)(from + 2 * (i + half));
            const words b = *(const words_unaligned *)(from + 2 * (i + half) + 4);
            *(words_unaligned *)(to + i + half) = __builtin_shufflevector(a, b, 0, 2, 4, 6);
        }
    for (; i < n; i++)
        to[i] = from[2 * i];
}
#endif

static void copy_row(char *to, const char *from, int64_t n, int64_t to_step, int64_t from_step, int64_t bytes)
{
    if (to_step == 1 && from_step == 1) {
        copy_dense(to, from, n * bytes);
        return;
    }
    if (to_step == 1 && (from_step == 0 || from_step == -1)) {
        if (bytes == 4) {
            repeat_or_reverse_any32(to, from, n, (int)from_step);
            return;
        }
#if !defined(__wasm__)
        if (bytes == 1 || bytes == 2 || bytes == 8) {
            (bytes == 1   ? repeat_or_reverse_any8
             : bytes == 2 ? repeat_or_reverse_any16
                          : repeat_or_reverse_any64)(to, from, n, (int)from_step);
            return;
        }
#endif
    }
#if !defined(__wasm__)
    if (bytes == 4 && to_step == 1 && from_step == 2) {
        copy_every_second((any32 *)to, (const any32 *)from, n);
        return;
    }
#endif
    if (bytes == 4)
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

#if defined(__wasm__)
enum { TURNS = 0 }; /* the code would take longer to download than it saves */
#else
enum { TURNS = 1 };
#endif

/* Elements of 4 bytes, transposed: to[r * to_row + i] = from[r + i * from_row] for `rows` x n elements. */
static void turn(any32 *to, const any32 *from, int64_t rows, int64_t n, ptrdiff_t to_row, ptrdiff_t from_row)
{
    if (n < 4) { /* along the longer axis */
        for (int64_t i = 0; i < n; i++)
            copy_row((char *)(to + i), (const char *)(from + i * from_row), rows, to_row, 1, 4);
        return;
    }
    for (int64_t tall; rows > 0; rows -= tall, to += 4 * to_row, from += 4) {
        any32 *target = to;
        const any32 *source = from;
        int64_t left = n;
        tall = rows < 4 ? rows : 4;
        for (; tall == 4 && left >= 4; left -= 4, target += 4, source += 4 * from_row) {
            quad part[4];
            for (int q = 0; q < 4; q++)
                part[q] = *(const quad_unaligned *)(source + q * from_row);
            transpose4(&part[0], &part[1], &part[2], &part[3]);
            for (int q = 0; q < 4; q++)
                *(quad_unaligned *)(target + q * to_row) = part[q];
        }
        for (int q = 0; q < tall; q++)
            copy_row((char *)(target + q * to_row), (const char *)(source + q), left, 1, from_row, 4);
    }
}

#if !defined(__wasm__)
/* The same of 1 and 2 bytes: squares of `side` rows, of which each round brings two elements side / 2 rows apart side by
 * side. */
#define TURN(name, element, side, rounds, FIRST, SECOND)                                                               \
    typedef element name##_row __attribute__((vector_size(16)));                                                       \
    typedef element name##_unaligned __attribute__((vector_size(16), aligned(1), may_alias));                          \
    static void turn_##name(void *target, const void *source, int64_t rows, int64_t n, ptrdiff_t to_row,               \
                            ptrdiff_t from_row)                                                                        \
    {                                                                                                                  \
        element *to = target;                                                                                          \
        const element *from = source;                                                                                  \
        int64_t row = 0;                                                                                               \
        for (; row + side <= rows; row += side) {                                                                      \
            int64_t i = 0;                                                                                             \
            for (; i + side <= n; i += side) {                                                                         \
                name##_row a[side], b[side];                                                                           \
                for (int j = 0; j < side; j++)                                                                         \
                    a[j] = *(const name##_unaligned *)(from + row + (i + j) * from_row);                               \
                for (int round = 0; round < rounds; round++) {                                                         \
                    UNROLL for (int j = 0; j < side / 2; j++)                                                          \
                    {                                                                                                  \
                        b[2 * j] = FIRST(a[j], a[j + side / 2]);                                                       \
                        b[2 * j + 1] = SECOND(a[j], a[j + side / 2]);                                                  \
                    }                                                                                                  \
                    memcpy(a, b, sizeof a);                                                                            \
                }                                                                                                      \
                for (int j = 0; j < side; j++)                                                                         \
                    *(name##_unaligned *)(to + (row + j) * to_row + i) = a[j];                                         \
            }                                                                                                          \
            for (int j = 0; j < side; j++)                                                                             \
                copy_row((char *)(to + (row + j) * to_row + i), (const char *)(from + row + j + i * from_row), n - i,  \
                         1, from_row, sizeof *to);                                                                     \
        }                                                                                                              \
        for (; row < rows; row++)                                                                                      \
            copy_row((char *)(to + row * to_row), (const char *)(from + row), n, 1, from_row, sizeof *to);             \
    }
#define FIRST_EIGHT(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define LAST_EIGHT(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define FIRST_FOUR(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LAST_FOUR(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
TURN(bytes, any8, 16, 4, FIRST_EIGHT, LAST_EIGHT)
TURN(halves, any16, 8, 3, FIRST_FOUR, LAST_FOUR)
#endif

/* The elements of the present tile along an axis. */
static int64_t extent(const axis *along)
{
    const int64_t left = along->size - along->tile * along->step;
    return left < along->step ? left : along->step;
}

KERNEL(copy_strided)
{
    const int64_t bytes = record->dims[copy_strided_element_bytes], rank = record->dims[copy_strided_rank];
    const int64_t *shape = record->dims + copy_strided_shape0;
    char *to = record->pointers[copy_strided_to];
    const char *from = record->pointers[copy_strided_from];
    axis axes[RANK];
    if (bytes < 1 || rank < 0 || rank > RANK)
        return KERNEL_BAD_ARGUMENT;
    for (int64_t i = 0; i < rank; i++)
        if (shape[i] <= 0)
            return shape[i] ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    const int count =
        simplify(shape, record->dims + copy_strided_to0, record->dims + copy_strided_from0, (int)rank, axes);
    int in, over;
    int64_t first, last;
    worker_share(cut(axes, count, &in, &over), 1, worker, workers, &first, &last);
    const axis *inner = axes + in, *across = axes + over;
    int64_t rest = first;
    for (int i = count - 1; i >= 0; i--) {
        axis *a = &axes[i];
        a->tile = rest % a->tiles;
        a->to_tile = a->step * a->to * bytes;
        a->from_tile = a->step * a->from * bytes;
        to += a->tile * a->to_tile;
        from += a->tile * a->from_tile;
        rest /= a->tiles;
    }
    for (; first < last; first++) {
        const int64_t n = extent(inner), rows = in == over ? 1 : extent(across);
        if (TURNS && bytes == 4 && in != over && inner->to == 1 && across->from == 1)
            turn((any32 *)to, (const any32 *)from, rows, n, across->to, inner->from);
#if !defined(__wasm__)
        else if (bytes < 3 && in != over && inner->to == 1 && across->from == 1)
            (bytes == 1 ? turn_bytes : turn_halves)(to, from, rows, n, across->to, inner->from);
#endif
        else
            for (int64_t row = 0; row < rows; row++)
                copy_row(to + row * across->to * bytes, from + row * across->from * bytes, n, inner->to, inner->from,
                         bytes);
        for (int i = count - 1; i >= 0; i--) { /* the next tile */
            axis *a = &axes[i];
            const ptrdiff_t tiles = ++a->tile < a->tiles ? 1 : 1 - a->tiles;
            to += tiles * a->to_tile;
            from += tiles * a->from_tile;
            if (tiles == 1)
                break;
            a->tile = 0;
        }
    }
    return KERNEL_OK;
}
