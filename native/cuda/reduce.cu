/* Reductions of lines. Where a line's elements follow one another, a warp takes a line, or a block a long one; where those
 * of neighbouring lines do ("across"), a block takes 32, 64 or 128 lines side by side. Few long lines are divided among
 * blocks, whose states a second kernel joins. */
#include "vectors.h"

enum { REDUCE_THREADS = 256 };

/* How the work is divided, in what C and Python share. */
#define THREAD_LINE 8  /* a thread takes lines of so many elements, where there are many; */
#define WARP_LINE 2048 /* a warp takes these */
#define LINE_THREADS(reduced, lines)                                                                                   \
    CHOOSE(reduced > WARP_LINE, 256, CHOOSE(reduced > THREAD_LINE, 32, CHOOSE(lines > 64, 1, 32)))
#define REDUCE_TILE(inner) CHOOSE(inner > 64, 128, CHOOSE(inner > 32, 64, 32))
#define REDUCE_TILES(outer, inner, across) CHOOSE(across, outer *PARTS(inner, REDUCE_TILE(inner)), outer *inner)
/* 264 blocks run at once on a card with 132 multiprocessors; a few more would wait for all of them. */
#define REDUCE_SPLITS(outer, reduced, inner, across)                                                                   \
    MAX(1, MIN(264 / MAX(1, REDUCE_TILES(outer, inner, across)), reduced / CHOOSE(across, 64, 4096)))
#define REDUCE_BLOCKS(splits, outer, reduced, inner, across)                                                           \
    CHOOSE(CHOOSE(reduced > THREAD_LINE, across, 0), splits *REDUCE_TILES(outer, inner, 1),                            \
           PARTS(splits *outer *inner *LINE_THREADS(reduced, outer *inner), 256))
#define JOIN_BLOCKS(splits, lines) CHOOSE(splits > 1, CHOOSE(lines > 31, PARTS(lines, 32), lines), 0)
#define REDUCE_SCRATCH(splits, results) CHOOSE(splits > 1, splits * results * 32, 0)
#define SIZE(x) MAX(x, 0 - (x))
#define ACROSS(inner, x_reduced, x_inner) CHOOSE(inner > 1, CHOOSE(SIZE(x_inner) < SIZE(x_reduced), 1, 0), 0)

CONSTANT uint32_t reduce_types[] = REDUCE_TYPES;

/* What some elements of a line come to. index: of an extreme; -1: of no element yet. Of a variance: their mean, the sum
 * of squared distances from it, and their number. */
struct state {
    double real, squares;
    int64_t whole, index;
};
_Static_assert(sizeof(state) == 32, "REDUCE_SCRATCH");

struct reduction {
    int64_t opcode;
    const void *x;
    int type;
    bool real, across;
    int64_t outer, reduced, inner, x_outer, x_reduced, x_inner, splits;
    void *y;
    int y_type;
    double correction;

    /* Where line `line` begins. */
    DEVICE_MEMBER int64_t begin(int64_t line) const
    {
        return inner == 1 ? line * x_outer : line / inner * x_outer + line % inner * x_inner;
    }
};

DEVICE bool is_extreme(int64_t opcode) { return opcode >= REDUCE_max; }

DEVICE state no_state(int64_t opcode)
{
    const int one = opcode == REDUCE_prod || opcode == REDUCE_all;
    const state s = {(double)one, 0, one, -1};
    return s;
}

/* Two states of one line. NaN is the largest and the smallest; of equal elements the first counts. */
DEVICE state merged(int64_t opcode, bool real, state a, state b)
{
    if (is_extreme(opcode)) {
        if (a.index < 0 || b.index < 0)
            return a.index < 0 ? b : a;
        const bool largest = opcode == REDUCE_max || opcode == REDUCE_argmax;
        if (real && (a.real != a.real || b.real != b.real)) {
            if (a.real != a.real && b.real != b.real)
                return a.index < b.index ? a : b;
            return a.real != a.real ? a : b;
        }
        const bool equal = real ? a.real == b.real : a.whole == b.whole;
        const bool second =
            real ? (largest ? b.real > a.real : b.real < a.real) : (largest ? b.whole > a.whole : b.whole < a.whole);
        return second || (equal && b.index < a.index) ? b : a;
    }
    switch (opcode) {
    case REDUCE_var: /* Chan, Golub and LeVeque, 1979 */
        if (a.whole && b.whole) {
            const double apart = b.real - a.real, share = (double)b.whole / (double)(a.whole + b.whole);
            a.squares += b.squares + apart * apart * share * (double)a.whole;
            a.real += apart * share;
            a.whole += b.whole;
        } else if (b.whole)
            a = b;
        break;
    case REDUCE_sum:
    case REDUCE_sum_squares:
        a.real += b.real;
        a.whole = (int64_t)((uint64_t)a.whole + (uint64_t)b.whole);
        break;
    case REDUCE_prod:
        a.real *= b.real;
        a.whole = (int64_t)((uint64_t)a.whole * (uint64_t)b.whole);
        break;
    case REDUCE_any:
        a.real = a.real != 0 || b.real != 0;
        a.whole = a.whole != 0 || b.whole != 0;
        break;
    default: /* all */
        a.real = a.real != 0 && b.real != 0;
        a.whole = a.whole != 0 && b.whole != 0;
    }
    return a;
}

DEVICE state state_of(int64_t opcode, bool real, const void *x, int64_t at, int type, int64_t k)
{
    state s = {0, 0, opcode == REDUCE_var, k};
    if (real) {
        s.real = load_double(x, at, type);
        s.real = opcode == REDUCE_sum_squares ? s.real * s.real : s.real;
    } else
        s.whole = load_integer(x, at, type);
    return s;
}

DEVICE bool is_sum(int64_t opcode) { return opcode == REDUCE_sum || opcode == REDUCE_sum_squares; }

/* The states of all threads whose number has the same rest by `width`, in threads 0 .. width - 1. */
DEVICE state merge_block(int64_t opcode, bool real, state own, int width)
{
    __shared__ state states[REDUCE_THREADS];
    if (is_sum(opcode) && real) {
        double *const sums = (double *)states;
        if (width == 1) {
            own.real = block_sum(own.real);
            return own;
        }
        sums[threadIdx.x] = own.real;
        __syncthreads();
        if ((int)threadIdx.x < width)
            for (int i = threadIdx.x + width; i < REDUCE_THREADS; i += width)
                own.real += sums[i];
        __syncthreads();
        return own;
    }
    states[threadIdx.x] = own;
    __syncthreads();
    for (int half = REDUCE_THREADS / 2; half >= width; half /= 2) {
        if ((int)threadIdx.x < half)
            states[threadIdx.x] = merged(opcode, real, states[threadIdx.x], states[threadIdx.x + half]);
        __syncthreads();
    }
    own = states[threadIdx.x];
    __syncthreads();
    return own;
}

/* Of all lanes, in lane 0. */
DEVICE state merge_warp(int64_t opcode, bool real, state own)
{
    for (int apart = 16; apart; apart >>= 1) {
        state other = own;
        other.real = __shfl_xor_sync(EVERY_LANE, own.real, apart);
        if (!real || opcode == REDUCE_var)
            other.whole = __shfl_xor_sync(EVERY_LANE, own.whole, apart);
        if (opcode == REDUCE_var)
            other.squares = __shfl_xor_sync(EVERY_LANE, own.squares, apart);
        if (is_extreme(opcode))
            other.index = __shfl_xor_sync(EVERY_LANE, own.index, apart);
        /* in the order of the lanes, or two of them would round a variance otherwise */
        own = LANE & apart ? merged(opcode, real, other, own) : merged(opcode, real, own, other);
    }
    return own;
}

/* ---- What one thread of `threads` makes of elements first .. last - 1 of a line */

/* Of any types and strides. */
DEVICE state any_part(const reduction &r, int64_t begin, int64_t first, int64_t last, int thread, int threads)
{
    state own = no_state(r.opcode);
    for (int64_t k = first + thread; k < last; k += threads)
        own = merged(r.opcode, r.real, own, state_of(r.opcode, r.real, r.x, begin + k * r.x_reduced, r.type, k));
    return own;
}

/* Vectors of elements that follow one another, float32 or 16 bits. */
template <int BYTES>
DEVICE state dense_part(const reduction &r, int64_t begin, int64_t first, int64_t last, int thread, int threads)
{
    constexpr int width = VECTOR / BYTES;
    const uint8_t *p = (const uint8_t *)r.x + (begin + first) * BYTES;
    const int64_t count = MAX(last - first, 0);
    const int64_t lead = MIN(count, (int64_t)((0 - (uint64_t)p) & (VECTOR - 1)) / BYTES);
    const int64_t vectors = (count - lead) / width;
    const uint4 *in = (const uint4 *)(p + lead * BYTES);
    if (!is_sum(r.opcode) && !is_extreme(r.opcode) && r.opcode != REDUCE_var)
        return any_part(r, begin, first, last, thread, threads);
    state own = no_state(r.opcode);
    for (int64_t i = thread; i < count - vectors * width; i += threads) { /* before and after the vectors */
        const int64_t k = first + (i < lead ? i : i + vectors * width);
        own = merged(r.opcode, true, own, state_of(r.opcode, true, r.x, begin + k, r.type, k));
    }
    uint4 x[UNDER_WAY];
    const auto load = [&](int u, int64_t i) { x[u] = in[i]; };
    if (r.opcode == REDUCE_sum || r.opcode == REDUCE_sum_squares) {
        const bool squares = r.opcode == REDUCE_sum_squares;
        for_vectors_of(thread, threads, vectors, load, [&](int u, int64_t) {
            float values[width], sum = 0;
            floats_of<BYTES>(values, x[u], r.type);
#pragma unroll
            for (int k = 0; k < width; k++)
                sum += squares ? values[k] * values[k] : values[k];
            own.real += sum;
        });
    } else if (r.opcode == REDUCE_var) { /* from the thread's first element, whose distance is part of the result */
        double shift = 0, sum = 0, squares = 0;
        int64_t seen = 0;
        for_vectors_of(thread, threads, vectors, load, [&](int u, int64_t) {
            float values[width];
            floats_of<BYTES>(values, x[u], r.type);
            shift = seen ? shift : values[0];
            seen += width;
#pragma unroll
            for (int k = 0; k < width; k++) {
                const double apart = values[k] - shift;
                sum += apart;
                squares += apart * apart;
            }
        });
        if (seen) {
            const state found = {shift + sum / (double)seen,
                                 fmax(squares - sum * sum / (double)seen, 0.0) + (sum - sum), seen, 0};
            own = merged(r.opcode, true, own, found);
        }
    } else if (r.opcode == REDUCE_max || r.opcode == REDUCE_min) {
        const bool largest = r.opcode == REDUCE_max;
        float best = largest ? -INFINITE : INFINITE;
        for_vectors_of(thread, threads, vectors, load, [&](int u, int64_t) {
            float values[width];
            floats_of<BYTES>(values, x[u], r.type);
#pragma unroll
            for (int k = 0; k < width; k++) {
                const bool better = largest ? values[k] > best : values[k] < best;
                best = better || values[k] != values[k] ? values[k] : best;
            }
        });
        const state found = {best, 0, 0, thread < vectors ? first : -1}; /* its place does not count */
        own = merged(r.opcode, true, own, found);
    } else { /* the places of extremes */
        const bool largest = r.opcode == REDUCE_argmax;
        float best = 0;
        int64_t at = -1;
        for_vectors_of(thread, threads, vectors, load, [&](int u, int64_t i) {
            float values[width];
            floats_of<BYTES>(values, x[u], r.type);
#pragma unroll
            for (int k = 0; k < width; k++)
                if (at < 0 || (largest ? values[k] > best : values[k] < best) ||
                    (values[k] != values[k] && best == best)) {
                    best = values[k];
                    at = i * width + k;
                }
        });
        const state found = {best, 0, 0, at < 0 ? -1 : first + lead + at};
        own = merged(r.opcode, true, own, found);
    }
    return own;
}

DEVICE state line_part(const reduction &r, int64_t line, int64_t first, int64_t last, int thread, int threads)
{
    const int64_t begin = r.begin(line);
    if (r.x_reduced == 1 && r.y_type != TYPE_float64 && r.type == TYPE_float32)
        return dense_part<4>(r, begin, first, last, thread, threads);
    if (r.x_reduced == 1 && r.y_type != TYPE_float64 && type_in(r.type, TYPES_HALF))
        return dense_part<2>(r, begin, first, last, thread, threads);
    return any_part(r, begin, first, last, thread, threads);
}

DEVICE bool y_type_fits(int64_t opcode, int64_t y_type, int64_t x_type, bool real)
{
    if (opcode == REDUCE_argmax || opcode == REDUCE_argmin)
        return y_type == TYPE_int64;
    if (opcode == REDUCE_any || opcode == REDUCE_all)
        return y_type == TYPE_bool;
    if (opcode == REDUCE_max || opcode == REDUCE_min)
        return y_type == x_type;
    return real ? type_in(y_type, TYPES_FLOAT) : y_type == TYPE_int64;
}

DEVICE void write_state(void *y, int64_t at, int y_type, int64_t opcode, bool real, state s, double correction)
{
    if (opcode == REDUCE_var)
        s.real = s.squares / ((double)s.whole - correction) + (s.real - s.real); /* NaN if an element is infinite */
    if (opcode == REDUCE_argmax || opcode == REDUCE_argmin)
        store_integer(y, at, y_type, s.index);
    else if (real)
        store_double(y, at, y_type, s.real);
    else
        store_integer(y, at, y_type, s.whole);
}

/* A state of a line, of part `split`: kept for `join`, or if it is the only one written. */
DEVICE void finish(const reduction &r, int64_t line, int64_t split, state own, void *scratch)
{
    if (r.splits > 1)
        ((state *)scratch)[split * r.outer * r.inner + line] = own;
    else
        write_state(r.y, line, r.y_type, r.opcode, r.real, own, r.correction);
}

/* ---- Lines side by side: tiles of them */

/* The states of lines column .. column + width - 1 of a tile, by vectors; of sums, and of extremes without their places.
 * Threads with the same columns take rows in turn. */
template <int BYTES>
DEVICE void tile_of_vectors(const reduction &r, int64_t start, int tile, int64_t first, int64_t last, double *results)
{
    constexpr int width = VECTOR / BYTES;
    const int lanes = tile / width, lane = (int)threadIdx.x % lanes, groups = REDUCE_THREADS / lanes;
    const bool squares = r.opcode == REDUCE_sum_squares, largest = r.opcode == REDUCE_max, sums = !is_extreme(r.opcode);
    const uint8_t *p = (const uint8_t *)r.x + (start + lane * width) * BYTES;
    uint4 x[UNDER_WAY];
    double *own = results + (int)threadIdx.x / lanes * tile + lane; /* column k of the thread lies k * lanes further */
    float part[width];
    int held = 0;
    bool is_first = true;
    const auto keep = [&] {
#pragma unroll
        for (int k = 0; k < width; k++) {
            own[k * lanes] = is_first ? part[k] : own[k * lanes] + part[k];
            part[k] = 0;
        }
        is_first = false;
        held = 0;
    };
#pragma unroll
    for (int k = 0; k < width; k++)
        part[k] = sums ? 0.0f : largest ? -INFINITE : INFINITE;
    for_vectors_of(
        first + (int)threadIdx.x / lanes, groups, last,
        [&](int u, int64_t row) { x[u] = *(const uint4 *)(p + row * r.x_reduced * BYTES); },
        [&](int u, int64_t) {
            float values[width];
            floats_of<BYTES>(values, x[u], r.type);
            if (sums) {
#pragma unroll
                for (int k = 0; k < width; k++)
                    part[k] += squares ? values[k] * values[k] : values[k];
                if (++held == 256) /* so many are added in float32 */
                    keep();
            } else
#pragma unroll
                for (int k = 0; k < width; k++) {
                    const bool better = largest ? values[k] > part[k] : values[k] < part[k];
                    part[k] = better || values[k] != values[k] ? values[k] : part[k];
                }
        });
    keep();
    __syncthreads();
}

DEVICE void reduce_tile(const reduction &r, int64_t at, void *scratch)
{
    __shared__ double results[REDUCE_THREADS * 8];
    const int tile = REDUCE_TILE(r.inner);
    const int64_t tiles = PARTS(r.inner, tile), split = at % r.splits, column = at / r.splits % tiles * tile;
    const int64_t outer = at / r.splits / tiles, start = outer * r.x_outer + column * r.x_inner;
    const int64_t each = PARTS(r.reduced, r.splits), first = split * each, last = MIN(first + each, r.reduced);
    const int bytes = (int)type_bytes(r.type), width = VECTOR / bytes;
    const bool fits = r.x_inner == 1 && column + tile <= r.inner && r.x_reduced % width == 0 &&
                      is_aligned((const uint8_t *)r.x + start * bytes);
    const bool simple = is_sum(r.opcode) || r.opcode == REDUCE_max || r.opcode == REDUCE_min;
    if (fits && simple && r.y_type != TYPE_float64 && type_in(r.type, TYPES_HALF | BIT(TYPE_float32))) {
        if (bytes == 4)
            tile_of_vectors<4>(r, start, tile, first, last, results);
        else
            tile_of_vectors<2>(r, start, tile, first, last, results);
        const int lanes = tile / width, groups = REDUCE_THREADS / lanes;
        const int own_column = (int)threadIdx.x % lanes * width + (int)threadIdx.x / lanes;
        if ((int)threadIdx.x < tile) {
            state own = no_state(r.opcode);
            for (int g = 0; g < groups; g++) {
                const state one = {results[g * tile + threadIdx.x], 0, 0, 0};
                own = merged(r.opcode, true, own, one);
            }
            finish(r, outer * r.inner + column + own_column, split, own, scratch);
        }
        __syncthreads();
        return;
    }
    for (int beside = 0; beside < tile; beside += 32) {
        const int64_t own_column = column + beside + LANE, line = outer * r.inner + own_column;
        state own = no_state(r.opcode);
        if (own_column < r.inner)
            own = any_part(r, r.begin(line), first, last, WARP, REDUCE_THREADS / 32);
        own = merge_block(r.opcode, r.real, own, 32);
        if (WARP == 0 && own_column < r.inner)
            finish(r, line, split, own, scratch);
    }
}

/* ---- All of a reduction, or with `splits` the states of its parts */

/* Lines by one thread each, by a warp, or by a block. */
DEVICE void reduce_lines(const reduction &r, void *scratch)
{
    const int64_t lines = r.outer * r.inner, each = PARTS(r.reduced, r.splits);
    const int threads = LINE_THREADS(r.reduced, lines), beside = REDUCE_THREADS / threads;
    FOR_EACH_BLOCK(block, PARTS(lines * r.splits, beside))
    {
        const int64_t at = block * beside + threadIdx.x / threads, line = at / r.splits, first = at % r.splits * each;
        const int thread = (int)threadIdx.x % threads;
        state own = no_state(r.opcode);
        if (line < lines)
            own = line_part(r, line, first, MIN(first + each, r.reduced), thread, threads);
        if (threads > 32)
            own = merge_block(r.opcode, r.real, own, 1);
        else if (threads > 1)
            own = merge_warp(r.opcode, r.real, own);
        if (line < lines && thread == 0)
            finish(r, line, at % r.splits, own, scratch);
    }
}

DEVICE void reduce_all(const reduction &r, void *scratch)
{
    if (r.across && r.reduced > THREAD_LINE)
        FOR_EACH_BLOCK(at, r.splits * REDUCE_TILES(r.outer, r.inner, 1)) reduce_tile(r, at, scratch);
    else
        reduce_lines(r, scratch);
}

/* The results from the states of the parts. */
DEVICE void join(const reduction &r, const void *scratch)
{
    const int64_t lines = r.outer * r.inner;
    const int width = lines > 31 ? 32 : 1;
    FOR_EACH_BLOCK(block, PARTS(lines, width))
    {
        const int64_t line = block * width + threadIdx.x % width;
        state own = no_state(r.opcode);
        if (line < lines)
            for (int64_t split = threadIdx.x / width; split < r.splits; split += REDUCE_THREADS / width)
                own = merged(r.opcode, r.real, own, ((const state *)scratch)[split * lines + line]);
        own = merge_block(r.opcode, r.real, own, width);
        if ((int)threadIdx.x < width && line < lines)
            write_state(r.y, line, r.y_type, r.opcode, r.real, own, r.correction);
    }
}

/* ---- kernels */

DEVICE bool reduction_of(const launch &record, reduction *r)
{
    const int64_t *d = record.dims, opcode = d[reduce_opcode], x_type = d[reduce_x_type];
    const bool real = type_in(x_type, TYPES_FLOAT);
    if (opcode < 0 || opcode >= REDUCE_COUNT || !type_in(x_type, reduce_types[opcode]) ||
        !y_type_fits(opcode, d[reduce_y_type], x_type, real) || d[reduce_reduced] < 0 ||
        (is_extreme(opcode) && !d[reduce_reduced]))
        return false;
    r->opcode = opcode;
    r->x = record.pointers[reduce_x];
    r->type = (int)x_type;
    r->real = real;
    r->outer = d[reduce_outer];
    r->reduced = d[reduce_reduced];
    r->inner = d[reduce_inner];
    r->x_outer = d[reduce_x_outer];
    r->x_reduced = d[reduce_x_reduced];
    r->x_inner = d[reduce_x_inner];
    r->y = record.pointers[reduce_y];
    r->y_type = (int)d[reduce_y_type];
    r->correction = record.floats[reduce_correction];
    r->across = ACROSS(r->inner, r->x_reduced, r->x_inner);
    r->splits = REDUCE_SPLITS(r->outer, r->reduced, r->inner, r->across);
    return true;
}

#define OF_REDUCE REDUCE_SPLITS(outer, reduced, inner, ACROSS(inner, x_reduced, x_inner))

SCRATCH(reduce, REDUCE_SCRATCH(OF_REDUCE, outer *inner))
STEP(reduce, 1, REDUCE_BLOCKS(OF_REDUCE, outer, reduced, inner, ACROSS(inner, x_reduced, x_inner)), 256, 0)
{
    reduction r;
    if (reduction_of(record, &r))
        reduce_all(r, scratch);
    else
        report(KERNEL_BAD_ARGUMENT);
}

KERNEL(reduce, JOIN_BLOCKS(OF_REDUCE, outer *inner), 256, 0)
{
    reduction r;
    if (!failed && reduction_of(record, &r))
        join(r, scratch);
}

/* Of rows of float32, with a short record: a line has a row's elements (inner is 1) or a column's. */
DEVICE reduction short_reduction(const launch &record, int64_t opcode, int64_t outer, int64_t reduced, int64_t inner,
                                 int64_t x_outer, int64_t x_reduced)
{
    reduction r;
    r.opcode = opcode;
    r.x = record.pointers[sum_rows_f32_x];
    r.type = TYPE_float32;
    r.real = true;
    r.outer = outer;
    r.reduced = reduced;
    r.inner = inner;
    r.x_outer = x_outer;
    r.x_reduced = x_reduced;
    r.x_inner = 1;
    r.y = record.pointers[sum_rows_f32_y];
    r.y_type = opcode == REDUCE_sum ? TYPE_float32 : TYPE_int32;
    r.correction = 0;
    r.across = ACROSS(inner, x_reduced, 1);
    r.splits = REDUCE_SPLITS(outer, reduced, inner, r.across);
    return r;
}

#define OF_ROWS REDUCE_SPLITS(rows, columns, 1, 0)

DEVICE reduction sum_of_rows(const launch &record)
{
    const int64_t *d = record.dims;
    return short_reduction(record, REDUCE_sum, d[sum_rows_f32_rows], d[sum_rows_f32_columns], 1,
                           d[sum_rows_f32_x_stride], 1);
}

SCRATCH(sum_rows_f32, REDUCE_SCRATCH(OF_ROWS, rows))
STEP(sum_rows_f32, 1, REDUCE_BLOCKS(OF_ROWS, rows, columns, 1, 0), 256, 0) { reduce_all(sum_of_rows(record), scratch); }

KERNEL(sum_rows_f32, JOIN_BLOCKS(OF_ROWS, rows), 256, 0) { join(sum_of_rows(record), scratch); }

DEVICE reduction largest_of_rows(const launch &record)
{
    const int64_t *d = record.dims;
    return short_reduction(record, REDUCE_argmax, d[argmax_f32_rows], d[argmax_f32_columns], 1, d[argmax_f32_x_stride],
                           1);
}

SCRATCH(argmax_f32, REDUCE_SCRATCH(OF_ROWS, rows))
STEP(argmax_f32, 1, CHOOSE(columns > 0, REDUCE_BLOCKS(OF_ROWS, rows, columns, 1, 0), 0), 256, 0)
{
    reduce_all(largest_of_rows(record), scratch);
}

KERNEL(argmax_f32, JOIN_BLOCKS(OF_ROWS, rows), 256, 0) { join(largest_of_rows(record), scratch); }

#define OF_COLUMNS REDUCE_SPLITS(1, rows, columns, ACROSS(columns, x_stride, 1))

DEVICE reduction sum_of_columns(const launch &record)
{
    const int64_t *d = record.dims;
    return short_reduction(record, REDUCE_sum, 1, d[sum_columns_f32_rows], d[sum_columns_f32_columns], 0,
                           d[sum_columns_f32_x_stride]);
}

SCRATCH(sum_columns_f32, REDUCE_SCRATCH(OF_COLUMNS, columns))
STEP(sum_columns_f32, 1, REDUCE_BLOCKS(OF_COLUMNS, 1, rows, columns, ACROSS(columns, x_stride, 1)), 256, 0)
{
    reduce_all(sum_of_columns(record), scratch);
}

KERNEL(sum_columns_f32, JOIN_BLOCKS(OF_COLUMNS, columns), 256, 0) { join(sum_of_columns(record), scratch); }
