/* Running sums, products and extremes along a dim: in float64 or int64, rounded where they are written. */
#include "gpu.h"

enum { SCAN_THREADS = 128, SHORT = 64 };

CONSTANT uint32_t scan_types[] = SCAN_TYPES;

struct state {
    double real;
    int64_t whole, index; /* index: of an extreme; -1: of no element yet */
};

DEVICE double log_of_sum(double a, double b)
{
    const double larger = fmax(a, b);
    if (a != a || b != b)
        return a + b;
    return a == b ? a + 0.69314718055994530942 : larger + log1p(exp(-fabs(a - b)));
}

/* A state and one that follows it. Of equal elements the last counts; the first NaN stays the extreme. */
DEVICE state merged(int64_t opcode, bool real, state a, state b)
{
    if (a.index < 0 || b.index < 0)
        return a.index < 0 ? b : a;
    switch (opcode) {
    case SCAN_cumsum:
        b.real = a.real + b.real;
        b.whole = (int64_t)((uint64_t)a.whole + (uint64_t)b.whole);
        return b;
    case SCAN_cumprod:
        b.real = a.real * b.real;
        b.whole = (int64_t)((uint64_t)a.whole * (uint64_t)b.whole);
        return b;
    case SCAN_logcumsumexp:
        b.real = log_of_sum(a.real, b.real);
        return b;
    }
    const bool largest = opcode == SCAN_cummax;
    if (!real)
        return (largest ? b.whole >= a.whole : b.whole <= a.whole) ? b : a;
    return b.real != b.real || (largest ? b.real >= a.real : b.real <= a.real) ? b : a;
}

struct line {
    const void *x;
    void *y;
    int64_t *indices;
    int64_t opcode, from, step, to, inner; /* elements of x lie `step` apart, those of y `inner` */
    int type, y_type;
    bool real;
};

/* Elements first .. last - 1 behind a state; writes them where `writes`. */
DEVICE state run(const line &l, state s, int64_t first, int64_t last, bool writes)
{
    for (int64_t k = first; k < last; k++) {
        state next = {0, 0, k};
        if (l.real)
            next.real = load_double(l.x, l.from + k * l.step, l.type);
        else
            next.whole = load_integer(l.x, l.from + k * l.step, l.type);
        s = merged(l.opcode, l.real, s, next);
        if (!writes)
            continue;
        if (l.real)
            store_double(l.y, l.to + k * l.inner, l.y_type, s.real);
        else
            store_integer(l.y, l.to + k * l.inner, l.y_type, s.whole);
        if (l.indices)
            l.indices[l.to + k * l.inner] = s.index;
    }
    return s;
}

/* A thread for each short line, a block for each long one: its threads take pieces, and begin again behind the pieces
 * before. */
KERNEL(scan, CHOOSE(length <= 64, PARTS(outer *inner, 128), outer *inner), 128, 0)
{
    __shared__ state pieces[SCAN_THREADS];
    const int64_t *d = record.dims, opcode = d[scan_opcode], length = d[scan_length], inner = d[scan_inner];
    if (length < 0)
        report(KERNEL_BAD_ARGUMENT);
    if (length <= 0)
        return;
    if (opcode < 0 || opcode >= SCAN_COUNT || !type_in(d[scan_type], scan_types[opcode])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const bool picks = opcode == SCAN_cummax || opcode == SCAN_cummin;
    line l = {record.pointers[scan_x],
              record.pointers[scan_y],
              picks ? (int64_t *)record.pointers[scan_indices] : nullptr,
              opcode,
              0,
              d[scan_x_dim],
              0,
              inner,
              (int)d[scan_type],
              0,
              type_in(d[scan_type], TYPES_FLOAT)};
    l.y_type = l.real || picks ? l.type : TYPE_int64;
    const state none = {0, 0, -1};
    if (length <= SHORT) {
        FOR_EACH(i, d[scan_outer] * inner)
        {
            l.from = i / inner * d[scan_x_outer] + i % inner * d[scan_x_inner];
            l.to = i / inner * length * inner + i % inner;
            run(l, none, 0, length, true);
        }
        return;
    }
    const int64_t piece = PARTS(length, SCAN_THREADS), first = piece * threadIdx.x;
    const int64_t last = first + piece < length ? first + piece : length;
    FOR_EACH_BLOCK(i, d[scan_outer] * inner)
    {
        l.from = i / inner * d[scan_x_outer] + i % inner * d[scan_x_inner];
        l.to = i / inner * length * inner + i % inner;
        pieces[threadIdx.x] = run(l, none, first, last, false);
        __syncthreads();
        state before = none;
        for (int t = 0; t < (int)threadIdx.x; t++)
            before = merged(opcode, l.real, before, pieces[t]);
        run(l, before, first, last, true);
        __syncthreads();
    }
}
