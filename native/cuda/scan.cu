/* Running sums, products and extremes along a dim: in float64 or int64, rounded where they are written. */
#include "gpu.h"

enum { SCAN_THREADS = 256, SHORT = 64, EACH = 8, SCAN_TILE = SCAN_THREADS * EACH };

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

/* What one element is. */
DEVICE state element(const line &l, int64_t k)
{
    state own = {0, 0, k};
    if (l.real)
        own.real = load_double(l.x, l.from + k * l.step, l.type);
    else
        own.whole = load_integer(l.x, l.from + k * l.step, l.type);
    return own;
}

DEVICE void write_state(const line &l, int64_t k, const state &s)
{
    if (l.real)
        store_double(l.y, l.to + k * l.inner, l.y_type, s.real);
    else
        store_integer(l.y, l.to + k * l.inner, l.y_type, s.whole);
    if (l.indices)
        l.indices[l.to + k * l.inner] = s.index;
}

/* The state of a lane `by` before this one. */
DEVICE state state_before(const state &s, int by)
{
    return state{__shfl_up_sync(EVERY_LANE, s.real, by), __shfl_up_sync(EVERY_LANE, s.whole, by),
                 __shfl_up_sync(EVERY_LANE, s.index, by)};
}

/* A long line by a block: tiles one after another. Their elements are read and written side by side, and pass through
 * shared memory to threads that take EACH of them that follow one another. */
DEVICE void scan_line(const line &l, int64_t length)
{
    __shared__ int64_t values[EACH][SCAN_THREADS + 1], indices[EACH][SCAN_THREADS + 1];
    __shared__ state of_warps[SCAN_THREADS / 32];
    const state none = {0, 0, -1};
    state before = none; /* of all tiles so far */
    for (int64_t start = 0; start < length; start += SCAN_TILE) {
        for (int i = threadIdx.x; i < SCAN_TILE; i += SCAN_THREADS)
            if (start + i < length) {
                const state own = element(l, start + i);
                values[i % EACH][i / EACH] = l.real ? __double_as_longlong(own.real) : own.whole;
            }
        __syncthreads();
        state own = none, found[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int64_t k = start + (int64_t)threadIdx.x * EACH + e;
            if (k < length) {
                const int64_t bits = values[e][threadIdx.x];
                const state next = {l.real ? real_of(bits) : 0, l.real ? 0 : bits, k};
                own = merged(l.opcode, l.real, own, next);
            }
            found[e] = own;
        }
        state sum = own; /* of the lanes up to this one */
        for (int by = 1; by < 32; by *= 2) {
            const state earlier = state_before(sum, by);
            if (LANE >= by)
                sum = merged(l.opcode, l.real, earlier, sum);
        }
        if (LANE == 31)
            of_warps[WARP] = sum;
        state own_before = state_before(sum, 1);
        own_before = LANE ? own_before : none;
        __syncthreads();
        state earlier = before; /* what comes before this warp, then before this thread */
        for (int w = 0; w < SCAN_THREADS / 32; w++) {
            if (w == WARP)
                own_before = merged(l.opcode, l.real, earlier, own_before);
            earlier = merged(l.opcode, l.real, earlier, of_warps[w]);
        }
        before = earlier;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const state s = merged(l.opcode, l.real, own_before, found[e]);
            values[e][threadIdx.x] = l.real ? __double_as_longlong(s.real) : s.whole;
            indices[e][threadIdx.x] = s.index;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < SCAN_TILE; i += SCAN_THREADS)
            if (start + i < length) {
                const int64_t bits = values[i % EACH][i / EACH];
                write_state(l, start + i, state{l.real ? real_of(bits) : 0, bits, indices[i % EACH][i / EACH]});
            }
        __syncthreads();
    }
}

/* A thread for each short line, a block for each long one. */
KERNEL(scan, CHOOSE(length <= 64, PARTS(outer *inner, 256), outer *inner), 256, 0)
{
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
    if (length <= SHORT) {
        FOR_EACH(i, d[scan_outer] * inner)
        {
            state own = {0, 0, -1};
            l.from = i / inner * d[scan_x_outer] + i % inner * d[scan_x_inner];
            l.to = i / inner * length * inner + i % inner;
            for (int64_t k = 0; k < length; k++) {
                own = merged(opcode, l.real, own, element(l, k));
                write_state(l, k, own);
            }
        }
        return;
    }
    FOR_EACH_BLOCK(i, d[scan_outer] * inner)
    {
        l.from = i / inner * d[scan_x_outer] + i % inner * d[scan_x_inner];
        l.to = i / inner * length * inner + i % inner;
        scan_line(l, length);
    }
}
