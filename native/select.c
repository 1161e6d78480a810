/* Moving elements by condition and by index. Elements are copied as bytes; only operations that add, multiply or
 * compare use their values. */
#include "elements.h"
#include "halves.h"

#define BY_SIZE(bytes, DO)                                                                                             \
    if ((bytes) == 4)                                                                                                  \
        DO(any32)                                                                                                      \
    else if ((bytes) == 8)                                                                                             \
        DO(any64)                                                                                                      \
    else if ((bytes) == 2)                                                                                             \
        DO(any16)                                                                                                      \
    else                                                                                                               \
        DO(uint8_t)

static int is_size(int64_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }
static int is_index(int64_t type) { return type == TYPE_int64 || type == TYPE_int32; }

/* The type with that many bytes: for views whose elements are only copied. */
static int type_of_size(int64_t bytes)
{
    return bytes == 8 ? TYPE_int64 : bytes == 4 ? TYPE_int32 : bytes == 2 ? TYPE_int16 : TYPE_uint8;
}

/* ---- where */

enum { WHERE_RANK = 5 };

KERNEL(where)
{
    static const int64_t still[RANK];
    const int64_t *d = record->dims, *shape = d + where_shape0, bytes = d[where_element_bytes], rank = d[where_rank];
    const void *p = record->pointers[where_a], *q = record->pointers[where_b];
    char *y = record->pointers[where_y];
    int64_t first, last;
    view condition, a, b;
    if (!is_size(bytes) || rank > WHERE_RANK)
        return KERNEL_BAD_ARGUMENT;
    const int type = type_of_size(bytes);
    const int64_t count = view_of(&condition, record->pointers[where_condition], TYPE_bool, rank, shape, d + where_c0);
    if (count < 0)
        return KERNEL_BAD_ARGUMENT;
    view_of(&a, p ? p : d + where_a_bits, type, rank, shape, p ? d + where_a0 : still);
    view_of(&b, q ? q : d + where_b_bits, type, rank, shape, q ? d + where_b0 : still);
    worker_share(count, ELEMENT_SHARE, worker, workers, &first, &last);
    uint8_t chosen[PART];
    uint64_t left[PART], right[PART]; /* a number fills its part once: later parts are not longer */
    for (int64_t at = first; at < last; at += PART) {
        const int64_t n = last - at < PART ? last - at : PART;
        const uint8_t *c = read_bits(chosen, &condition, at, n, 1);
        const void *from = p || at == first ? read_bits(left, &a, at, n, bytes) : left;
        const void *other = q || at == first ? read_bits(right, &b, at, n, bytes) : right;
#define CHOOSE(type)                                                                                                   \
    {                                                                                                                  \
        type *to = (type *)(void *)y + at;                                                                             \
        const type *u = from, *v = other;                                                                              \
        for (int64_t i = 0; i < n; i++)                                                                                \
            to[i] = c[i] ? u[i] : v[i];                                                                                \
    }
        BY_SIZE(bytes, CHOOSE)
    }
    return KERNEL_OK;
}

/* ---- gather */

/* n <= PART indices: where they lie, or in `part`. */
static const int64_t *places_at(int64_t *part, const view *index, int64_t type, int64_t at, int64_t n)
{
    if (type == TYPE_int64)
        return read_bits(part, index, at, n, 8);
    read_integers(part, index, at, n);
    return part;
}

KERNEL(gather)
{
    const int64_t *d = record->dims, bytes = d[gather_element_bytes], rank = d[gather_rank], dim = d[gather_dim];
    const int64_t size = d[gather_size];
    int64_t strides[RANK], first, last;
    view x, index;
    if (!is_size(bytes) || rank < 0 || rank > RANK || dim < 0 || dim >= rank)
        return KERNEL_BAD_ARGUMENT;
    memcpy(strides, d + gather_x0, sizeof strides);
    const int64_t stride = strides[dim];
    strides[dim] = 0;
    const int64_t count = view_of(&index, record->pointers[gather_index], d[gather_index_type], rank, d + gather_shape0,
                                  d + gather_index0);
    if (count <= 0)
        return count ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (!is_index(d[gather_index_type]))
        return KERNEL_BAD_ARGUMENT;
    view_of(&x, record->pointers[gather_x], type_of_size(bytes), rank, d + gather_shape0, strides);
    worker_share(count, ELEMENT_SHARE, worker, workers, &first, &last);
    for (int64_t at = first; at < last;) {
        int64_t n = last - at < PART ? last - at : PART, step, part[PART];
        const int64_t offset = next_run(&x, at, &n, &step);
        const int64_t *places = places_at(part, &index, d[gather_index_type], at, n);
        uint64_t outside = 0;
        for (int64_t i = 0; i < n; i++)
            outside |= (uint64_t)places[i] >= (uint64_t)size;
        if (outside)
            return KERNEL_INDEX_RANGE;
#define GATHER(type)                                                                                                   \
    {                                                                                                                  \
        const type *from = (const type *)(const void *)x.p + offset;                                                   \
        type *to = (type *)record->pointers[gather_y] + at;                                                            \
        if (step == 0 && stride == 1)                                                                                  \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = from[places[i]];                                                                               \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = from[i * step + places[i] * stride];                                                           \
    }
        BY_SIZE(bytes, GATHER)
        at += n;
    }
    return KERNEL_OK;
}

/* ---- Combining a written value with the old one */

#define COMBINE(type, wide, IS_NAN)                                                                                    \
    {                                                                                                                  \
        type *to = (type *)y + at;                                                                                     \
        const type *from = source;                                                                                     \
        switch (opcode) {                                                                                              \
        case SCATTER_add:                                                                                              \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = (type)((wide)to[i] + (wide)from[i]);                                                           \
            break;                                                                                                     \
        case SCATTER_multiply:                                                                                         \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = (type)((wide)to[i] * (wide)from[i]);                                                           \
            break;                                                                                                     \
        case SCATTER_maximum:                                                                                          \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = from[i] > to[i] || IS_NAN(from[i]) ? from[i] : to[i];                                          \
            break;                                                                                                     \
        case SCATTER_minimum:                                                                                          \
            for (int64_t i = 0; i < n; i++)                                                                            \
                to[i] = from[i] < to[i] || IS_NAN(from[i]) ? from[i] : to[i];                                          \
            break;                                                                                                     \
        }                                                                                                              \
        return;                                                                                                        \
    }
#define IS_NAN(x) ((x) != (x))
#define NEVER(x) 0

static __attribute__((noinline)) void combine_floats(void *y, const void *source, int64_t n, int64_t opcode)
{
    const int64_t at = 0;
    COMBINE(float, float, IS_NAN)
}

static __attribute__((noinline)) void combine_integers(void *y, const void *source, int64_t n, int64_t opcode)
{
    const int64_t at = 0;
    COMBINE(int64_t, uint64_t, NEVER)
}

/* n <= PART dense elements: y = y and source, by opcode, in the type's own arithmetic. Halves round once, integers
 * wrap. */
static __attribute__((noinline)) void combine(void *y, int64_t at, const void *source, int64_t n, int64_t opcode,
                                              int type)
{
    if (opcode == SCATTER_set) {
        const int64_t bytes = type_bytes(type);
        char *to = (char *)y + at * bytes;
        if (n == 1 && bytes == 4)
            *(any32 *)(void *)to = *(const any32 *)source;
        else if (n == 1 && bytes == 8)
            *(any64 *)(void *)to = *(const any64 *)source;
        else
            memcpy(to, source, (size_t)(n * bytes));
        return;
    }
    if (type == TYPE_float32)
        COMBINE(float, float, IS_NAN)
    if (type == TYPE_float64)
        COMBINE(double, double, IS_NAN)
    if (type == TYPE_int64)
        COMBINE(int64_t, uint64_t, NEVER)
    if (type == TYPE_int32)
        COMBINE(int32_t, uint32_t, NEVER)
#if !defined(__wasm__) /* code is downloaded */
    if (type == TYPE_uint8)
        COMBINE(uint8_t, uint32_t, NEVER)
    if (type == TYPE_int8)
        COMBINE(int8_t, uint32_t, NEVER)
    if (type == TYPE_int16)
        COMBINE(int16_t, uint32_t, NEVER)
    if (n == 1 && opcode == SCATTER_add && type_in(type, TYPES_HALF)) {
        const int kind = type == TYPE_float16 ? KIND_F16 : KIND_BF16;
        const float sum = scalar_at(y, at, kind) + scalar_at(source, 0, kind);
        ((uint16_t *)y)[at] = (uint16_t)to_halves(vsplat(sum), kind)[0];
        return;
    }
#endif
    const view old = {(char *)y + at * type_bytes(type), type, 1, {n}, {1}}, new = {source, type, 1, {n}, {1}};
    if (type_in(type, TYPES_HALF)) {
        float both[2][PART];
        void *const left = both[0];
        memcpy(left, read_floats(both[1], &old, 0, n), (size_t)n * sizeof(float));
        combine_floats(left, read_floats(both[1], &new, 0, n), n, opcode);
        write_floats(y, type, at, left, n);
    } else {
        int64_t both[2][PART];
        read_integers(both[0], &old, 0, n);
        read_integers(both[1], &new, 0, n);
        combine_integers(both[0], both[1], n, opcode);
        write_integers(y, type, at, both[0], n);
    }
}

/* A number's bits (of a float64 for float types) as an element of a type. */
static void write_number(void *element, int type, const int64_t *bits)
{
    double real;
    memcpy(&real, bits, sizeof real);
    if (type_in(type, TYPES_FLOAT))
        write_doubles(element, type, 0, &real, 1);
    else
        write_integers(element, type, 0, bits, 1);
}

enum { SCATTER_RANK = 4, SIDE_BY_SIDE = 16 };
static const uint32_t scatter_types[] = SCATTER_TYPES;

#if !defined(__wasm__)
/* A value and the one that is written over it, by an opcode after SCATTER_add; as COMBINE. */
INLINE float combined(float old, float value, int64_t opcode)
{
    if (opcode == SCATTER_multiply)
        return old * value;
    const int better = opcode == SCATTER_maximum ? value > old : value < old;
    return better | (value != value) ? value : old;
}

/* Lines low .. high - 1 of those that lie side by side along the last dim, from element `base` of y, entry `places` of the
 * index and the values at `from`: they advance together, so that memory is written row by row. */
static __attribute__((noinline)) void scatter_beside(const launch *record, int64_t base, int64_t places,
                                                     const char *from, int64_t low, int64_t high)
{
    const int64_t *d = record->dims, last = d[scatter_rank] - 1, dim = d[scatter_dim], opcode = d[scatter_opcode];
    const int64_t length = d[scatter_shape0 + dim], y_step = d[scatter_y0 + dim];
    const int64_t index_step = d[scatter_index0 + dim], index_beside = d[scatter_index0 + last];
    const int has_values = record->pointers[scatter_source] != 0, wide = d[scatter_index_type] == TYPE_int64;
    const int64_t source_step = has_values ? d[scatter_source0 + dim] : 0;
    const int64_t source_beside = has_values ? d[scatter_source0 + last] : 0;
    const void *index = record->pointers[scatter_index];
    const int type = (int)d[scatter_type];
    const int64_t bytes = type_bytes(type);
    for (int64_t k = 0; k < length; k++) {
#define PLACE(j)                                                                                                       \
    (wide ? ((const int64_t *)index)[places + k * index_step + (j) * index_beside]                                     \
          : ((const int32_t *)index)[places + k * index_step + (j) * index_beside])
#define EACH_LINE(type, operator)                                                                                      \
    {                                                                                                                  \
        type *y = (type *)record->pointers[scatter_y] + base;                                                          \
        const type *values = (const type *)(const void *)from + k * source_step;                                       \
        for (int64_t j = low; j < high; j++)                                                                           \
            y[PLACE(j) * y_step + j] operator values[j * source_beside];                                               \
        continue;                                                                                                      \
    }
        if (opcode == SCATTER_set && bytes == 4)
            EACH_LINE(any32, =)
        if (opcode == SCATTER_set && bytes == 8)
            EACH_LINE(any64, =)
        if (opcode == SCATTER_set && bytes == 2)
            EACH_LINE(any16, =)
        if (opcode == SCATTER_set)
            EACH_LINE(uint8_t, =)
        if (opcode == SCATTER_add && type == TYPE_float32)
            EACH_LINE(float, +=)
        if (opcode == SCATTER_add && type == TYPE_float64)
            EACH_LINE(double, +=)
        if (opcode == SCATTER_add && type == TYPE_int64)
            EACH_LINE(any64, +=)
        if (opcode == SCATTER_add && type == TYPE_int32)
            EACH_LINE(any32, +=)
        if (opcode >= SCATTER_multiply && type == TYPE_float32) {
            float *y = (float *)record->pointers[scatter_y] + base;
            const float *values = (const float *)(const void *)from + k * source_step;
            for (int64_t j = low; j < high; j++) {
                float *to = y + PLACE(j) * y_step + j;
                *to = combined(*to, values[j * source_beside], opcode);
            }
            continue;
        }
        for (int64_t j = low; j < high; j++)
            combine(record->pointers[scatter_y], base + PLACE(j) * y_step + j,
                    from + (k * source_step + j * source_beside) * bytes, 1, opcode, type);
#undef PLACE
#undef EACH_LINE
    }
}

/* The float32 values of one line, from `from`, combined with y at the places low .. high - 1. A function of its own: inside
 * `scatter` it costs the other loops a tenth of their speed. */
static __attribute__((noinline)) void combine_line(const launch *record, int64_t base, int64_t places, const char *from,
                                                   int64_t low, int64_t high)
{
    const int64_t *d = record->dims, dim = d[scatter_dim], opcode = d[scatter_opcode];
    const int64_t y_step = d[scatter_y0 + dim], index_step = d[scatter_index0 + dim];
    const int64_t source_step = record->pointers[scatter_source] ? d[scatter_source0 + dim] : 0;
    const int wide = d[scatter_index_type] == TYPE_int64;
    const void *index = record->pointers[scatter_index];
    const float *values = (const float *)(const void *)from;
    float *y = (float *)record->pointers[scatter_y] + base;
    for (int64_t k = 0; k < d[scatter_shape0 + dim]; k++) {
        const int64_t at = places + k * index_step;
        const int64_t place = wide ? ((const int64_t *)index)[at] : ((const int32_t *)index)[at];
        if (place >= low && place < high)
            y[place * y_step] = combined(y[place * y_step], values[k * source_step], opcode);
    }
}
#endif

/* Lines along the dim are independent and divided among the workers; if there are too few, each worker writes its own
 * range of positions along the dim. */
KERNEL(scatter)
{
    static const int64_t still[RANK];
    const int64_t *d = record->dims, opcode = d[scatter_opcode], rank = d[scatter_rank], dim = d[scatter_dim];
    const int64_t size = d[scatter_size], *shape = d + scatter_shape0;
    const void *values = record->pointers[scatter_source];
    int64_t lines[SCATTER_RANK], first, last, low = 0, high = size;
    uint64_t number;
    view index, source, y_lines;
    if (opcode < 0 || opcode >= SCATTER_COUNT || !type_in(d[scatter_type], scatter_types[opcode]) || rank < 1 ||
        rank > SCATTER_RANK || dim < 0 || dim >= rank)
        return KERNEL_BAD_ARGUMENT;
    const int type = (int)d[scatter_type];
    const int64_t count =
        view_of(&index, record->pointers[scatter_index], d[scatter_index_type], rank, shape, d + scatter_index0);
    if (count <= 0)
        return count ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (!is_index(d[scatter_index_type]))
        return KERNEL_BAD_ARGUMENT;
    write_number(&number, type, d + scatter_number);
    view_of(&source, values ? values : &number, type, rank, shape, values ? d + scatter_source0 : still);
    for (int64_t at = 0; at < count; at += PART) { /* every worker checks all of them first */
        int64_t part[PART];
        const int64_t n = count - at < PART ? count - at : PART;
        const int64_t *places = places_at(part, &index, d[scatter_index_type], at, n);
        uint64_t outside = 0;
        for (int64_t i = 0; i < n; i++)
            outside |= (uint64_t)places[i] >= (uint64_t)size;
        if (outside)
            return KERNEL_INDEX_RANGE;
    }
    memcpy(lines, shape, sizeof lines);
    const int64_t length = shape[dim], y_step = d[scatter_y0 + dim], index_step = d[scatter_index0 + dim];
    const int64_t source_step = values ? d[scatter_source0 + dim] : 0, bytes = type_bytes(type);
    const int wide = d[scatter_index_type] == TYPE_int64;
    lines[dim] = 1; /* what is left has one element for each line */
    const int64_t line_count = view_of(&y_lines, record->pointers[scatter_y], type, rank, lines, d + scatter_y0);
    view_of(&index, record->pointers[scatter_index], d[scatter_index_type], rank, lines, d + scatter_index0);
    view_of(&source, source.p, type, rank, lines, values ? d + scatter_source0 : still);
#if !defined(__wasm__)
    const int64_t beside = shape[rank - 1];
    if (dim < rank - 1 && d[scatter_y0 + rank - 1] == 1 && beside >= SIDE_BY_SIDE * (int64_t)workers) {
        worker_share(beside, 16, worker, workers, &low, &high);
        for (int64_t line = 0; line < line_count; line += beside) {
            int64_t one = 1, ignored;
            const int64_t base = next_run(&y_lines, line, &one, &ignored);
            const int64_t places = next_run(&index, line, &one, &ignored);
            scatter_beside(record, base, places, source.p + next_run(&source, line, &one, &ignored) * bytes, low, high);
        }
        return KERNEL_OK;
    }
#endif
    if (line_count >= workers)
        worker_share(line_count, 1, worker, workers, &first, &last);
    else {
        first = 0, last = line_count;
        worker_share(size, 1, worker, workers, &low, &high);
    }
    for (int64_t line = first; line < last; line++) {
        int64_t one = 1, ignored;
        const int64_t base = next_run(&y_lines, line, &one, &ignored);
        const int64_t places = next_run(&index, line, &one, &ignored);
        const char *from = source.p + next_run(&source, line, &one, &ignored) * bytes;
#define PLACE                                                                                                          \
    (wide ? ((const int64_t *)(const void *)index.p)[places + k * index_step]                                          \
          : ((const int32_t *)(const void *)index.p)[places + k * index_step])
#define EACH_PLACE(type, operator)                                                                                     \
    {                                                                                                                  \
        type *y = (type *)record->pointers[scatter_y] + base;                                                          \
        const type *values = (const type *)(const void *)from;                                                         \
        for (int64_t k = 0; k < length; k++) {                                                                         \
            const int64_t place = PLACE;                                                                               \
            if (place >= low && place < high)                                                                          \
                y[place * y_step] operator values[k * source_step];                                                    \
        }                                                                                                              \
        continue;                                                                                                      \
    }
        if (opcode == SCATTER_set && bytes == 4)
            EACH_PLACE(any32, =)
        if (opcode == SCATTER_add && type == TYPE_float32)
            EACH_PLACE(float, +=)
#if !defined(__wasm__)
        if (opcode == SCATTER_set && bytes == 8)
            EACH_PLACE(any64, =)
        if (opcode == SCATTER_set && bytes == 2)
            EACH_PLACE(any16, =)
        if (opcode == SCATTER_set)
            EACH_PLACE(uint8_t, =)
        if (opcode == SCATTER_add && type == TYPE_float64)
            EACH_PLACE(double, +=)
        if (opcode == SCATTER_add && type == TYPE_int64)
            EACH_PLACE(any64, +=)
        if (opcode == SCATTER_add && type == TYPE_int32)
            EACH_PLACE(any32, +=)
        if (opcode >= SCATTER_multiply && type == TYPE_float32) {
            combine_line(record, base, places, from, low, high);
            continue;
        }
#endif
        for (int64_t k = 0; k < length; k++, from += source_step * bytes) {
            const int64_t place = PLACE;
            if (place >= low && place < high)
                combine(record->pointers[scatter_y], base + place * y_step, from, 1, opcode, type);
        }
    }
    return KERNEL_OK;
}

/* ---- Several index tensors at once */

enum { INDICES = 4 };

typedef struct selection {
    const int64_t *index[INDICES];
    const int64_t *size, *stride;
    int64_t negative; /* whether indices below 0 count from the end */
} selection;

/* Offset of the block that entry n selects; -1 where an index is out of range. */
INLINE int64_t selected(const selection *s, int64_t n, int64_t *first)
{
    int64_t offset = 0;
    for (int i = 0; i < INDICES; i++) {
        if (!s->index[i])
            continue;
        int64_t place = s->index[i][n];
        if (place < 0 && s->negative)
            place += s->size[i];
        if (place < 0 || place >= s->size[i])
            return -1;
        if (i == 0)
            *first = place;
        offset += place * s->stride[i];
    }
    return offset;
}

/* Copies the blocks at `offsets` one behind the other. */
static void copy_blocks(char *to, const char *x, const int64_t *offsets, int64_t n, int64_t bytes, int64_t inner)
{
#define COPY(type)                                                                                                     \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            ((type *)(void *)to)[i] = ((const type *)(const void *)x)[offsets[i]];                                     \
    }
#define COPY_FEW(type)                                                                                                 \
    {                                                                                                                  \
        type *copy = (type *)(void *)to;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t k = 0; k < inner; k++)                                                                        \
                *copy++ = ((const type *)(const void *)x)[offsets[i] + k];                                             \
    }
    if (inner == 1)
        BY_SIZE(bytes, COPY)
#if !defined(__wasm__) /* code is downloaded */
    else if (inner < 8)
        BY_SIZE(bytes, COPY_FEW)
#endif
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * inner * bytes, x + offsets[i] * bytes, (size_t)(inner * bytes));
}

KERNEL(index_get)
{
    const int64_t *d = record->dims, bytes = d[index_get_element_bytes], count = d[index_get_count];
    const int64_t inner = d[index_get_inner], outer = d[index_get_outer];
    selection s = {{0}, d + index_get_size0, d + index_get_stride0, d[index_get_negative]};
    int64_t first = 0, last = outer, from = 0, to = count, ignored;
    for (int i = 0; i < INDICES; i++)
        s.index[i] = record->pointers[index_get_index0 + i];
    if (outer <= 0 || count <= 0 || inner * bytes == 0)
        return KERNEL_OK;
    if (!is_size(bytes) || inner < 0)
        return KERNEL_BAD_ARGUMENT;
    if (outer < workers)
        worker_share(count, 1, worker, workers, &from, &to);
    else
        worker_share(outer, 1, worker, workers, &first, &last);
    for (int64_t at = from; at < to; at += PART) { /* the places of a part serve every outer index */
        const int64_t n = to - at < PART ? to - at : PART;
        int64_t offsets[PART];
        for (int64_t i = 0; i < n; i++) {
            offsets[i] = selected(&s, at + i, &ignored);
            if (offsets[i] < 0)
                return KERNEL_INDEX_RANGE;
        }
        for (int64_t o = first; o < last; o++)
            copy_blocks((char *)record->pointers[index_get_y] + (o * count + at) * inner * bytes,
                        (const char *)record->pointers[index_get_x] + o * d[index_get_x_outer] * bytes, offsets, n,
                        bytes, inner);
    }
    return KERNEL_OK;
}

/* Combines the blocks at `offsets` of one outer index with the source's `entries`. */
static void put_blocks(const launch *record, const view *source, int64_t o, const int64_t *offsets,
                       const int64_t *entries, int64_t n)
{
    const int64_t *d = record->dims, opcode = d[index_put_opcode], inner = d[index_put_inner];
    const int64_t outer_step = d[index_put_source_outer], step = d[index_put_source_count];
    const int type = (int)d[index_put_type];
    if (inner == 1 && type == TYPE_float32 && (opcode == SCATTER_add || opcode == SCATTER_set)) {
        float *y = (float *)record->pointers[index_put_y] + o * d[index_put_y_outer];
        const float *from = (const float *)(const void *)source->p + o * outer_step;
        for (int64_t i = 0; i < n; i++)
            y[offsets[i]] = from[entries[i] * step] + (opcode == SCATTER_add ? y[offsets[i]] : -0.0f);
        return;
    }
#if !defined(__wasm__) /* code is downloaded */
    if (type == TYPE_float32 && opcode == SCATTER_add && d[index_put_source_inner] == 1) {
        for (int64_t k = 0; k < n; k++) {
            float *y = (float *)record->pointers[index_put_y] + o * d[index_put_y_outer] + offsets[k];
            const float *from = (const float *)(const void *)source->p + o * outer_step + entries[k] * step;
            for (int64_t i = 0; i < inner; i++)
                y[i] += from[i];
        }
        return;
    }
#endif
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < inner; i += PART) {
            const int64_t some = inner - i < PART ? inner - i : PART;
            uint64_t part[PART];
            const void *from =
                read_bits(part, source, (o * d[index_put_count] + entries[k]) * inner + i, some, type_bytes(type));
            combine(record->pointers[index_put_y], o * d[index_put_y_outer] + offsets[k] + i, from, some, opcode, type);
        }
}

/* Each worker writes the entries whose first index lies in its own range. */
KERNEL(index_put)
{
    const int64_t *d = record->dims, opcode = d[index_put_opcode], count = d[index_put_count],
                  inner = d[index_put_inner], outer = d[index_put_outer];
    selection s = {{0}, d + index_put_size0, d + index_put_stride0, 1};
    int64_t low, high, place = 0;
    for (int i = 0; i < INDICES; i++)
        s.index[i] = record->pointers[index_put_index0 + i];
    if (outer <= 0 || count <= 0 || inner <= 0)
        return KERNEL_OK;
    if (opcode < 0 || opcode >= SCATTER_COUNT || !type_in(d[index_put_type], scatter_types[opcode]) || !s.index[0])
        return KERNEL_BAD_ARGUMENT;
    const int64_t sizes[] = {outer, count, inner};
    view source;
    view_of(&source, record->pointers[index_put_source], (int)d[index_put_type], 3, sizes, d + index_put_source_outer);
    for (int64_t n = 0; n < count; n++)
        if (selected(&s, n, &place) < 0)
            return KERNEL_INDEX_RANGE;
    worker_share(s.size[0], 1, worker, workers, &low, &high);
    for (int64_t at = 0; at < count; at += PART) { /* the places of a part serve every outer index */
        const int64_t end = count - at < PART ? count : at + PART;
        int64_t offsets[PART], entries[PART], n = 0;
        for (int64_t entry = at; entry < end; entry++) {
            const int64_t offset = selected(&s, entry, &place);
            if (place >= low && place < high) {
                offsets[n] = offset;
                entries[n++] = entry;
            }
        }
        for (int64_t o = 0; o < outer; o++)
            put_blocks(record, &source, o, offsets, entries, n);
    }
    return KERNEL_OK;
}
