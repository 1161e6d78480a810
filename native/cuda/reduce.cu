/* Reductions. A block makes one result of elements that follow one another, or 32 results side by side. */
#include "gpu.h"

enum { REDUCE_THREADS = 256 };

CONSTANT uint32_t reduce_types[] = REDUCE_TYPES;

/* What some elements of a line come to. index: of an extreme; -1: of no element yet. Of a variance: their mean, the sum
 * of squared distances from it, and their number. */
struct state {
    double real, squares;
    int64_t whole, index;
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

/* The states of all threads whose number has the same rest by `width`, in threads 0 .. width - 1. */
DEVICE state merge_block(int64_t opcode, bool real, state own, int width)
{
    __shared__ state states[REDUCE_THREADS];
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
        ((int64_t *)y)[at] = s.index;
    else if (real)
        store_double(y, at, y_type, s.real);
    else
        store_integer(y, at, y_type, s.whole);
}

KERNEL(reduce, outer *inner, 256, 0)
{
    const int64_t *d = record.dims, opcode = d[reduce_opcode], outer = d[reduce_outer], inner = d[reduce_inner];
    const int64_t reduced = d[reduce_reduced], x_outer = d[reduce_x_outer], x_reduced = d[reduce_x_reduced],
                  x_inner = d[reduce_x_inner];
    const void *x = record.pointers[reduce_x];
    void *y = record.pointers[reduce_y];
    const bool real = type_in(d[reduce_x_type], TYPES_FLOAT);
    if (opcode < 0 || opcode >= REDUCE_COUNT || !type_in(d[reduce_x_type], reduce_types[opcode]) ||
        !y_type_fits(opcode, d[reduce_y_type], d[reduce_x_type], real) || reduced < 0 ||
        (is_extreme(opcode) && !reduced)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)d[reduce_x_type], y_type = (int)d[reduce_y_type];
    const double correction = record.floats[reduce_correction];
    const bool across = inner > 1 && llabs(x_inner) < llabs(x_reduced);
    if (reduced <= 8 && outer * inner > 64) { /* a thread for each result */
        FOR_EACH(at, outer * inner)
        {
            const int64_t begin = at / inner * x_outer + at % inner * x_inner;
            state own = no_state(opcode);
            for (int64_t k = 0; k < reduced; k++)
                own = merged(opcode, real, own, state_of(opcode, real, x, begin + k * x_reduced, type, k));
            write_state(y, at, y_type, opcode, real, own, correction);
        }
        return;
    }
    const int width = across ? 32 : 1;
    const int64_t tiles = PARTS(inner, width);
    FOR_EACH_BLOCK(tile, outer * tiles)
    {
        const int64_t column = tile % tiles * width + (threadIdx.x & (width - 1));
        const int64_t begin = tile / tiles * x_outer + column * x_inner, step = REDUCE_THREADS / width;
        state own = no_state(opcode);
        if (column < inner)
            for (int64_t k = threadIdx.x / width; k < reduced; k += step)
                own = merged(opcode, real, own, state_of(opcode, real, x, begin + k * x_reduced, type, k));
        own = merge_block(opcode, real, own, width);
        if ((int)threadIdx.x < width && column < inner)
            write_state(y, tile / tiles * inner + column, y_type, opcode, real, own, correction);
    }
}

/* A warp for each row. */
KERNEL(sum_rows_f32, PARTS(rows, 8), 256, 0)
{
    const int64_t *d = record.dims, columns = d[sum_rows_f32_columns];
    FOR_EACH_BLOCK(block, PARTS(d[sum_rows_f32_rows], 8))
    {
        const int64_t row = block * 8 + WARP;
        const float *x = (const float *)record.pointers[sum_rows_f32_x] + row * d[sum_rows_f32_x_stride];
        double total = 0;
        if (row < d[sum_rows_f32_rows])
            for (int64_t i = LANE; i < columns; i += 32)
                total += x[i];
        total = warp_reduce(total, Sum());
        if (row < d[sum_rows_f32_rows] && LANE == 0)
            ((float *)record.pointers[sum_rows_f32_y])[row] = (float)total;
    }
}

/* A block for 32 columns: eight rows at a time. */
KERNEL(sum_columns_f32, PARTS(columns, 32), 256, 0)
{
    const int64_t *d = record.dims, columns = d[sum_columns_f32_columns];
    FOR_EACH_BLOCK(block, PARTS(columns, 32))
    {
        const int64_t column = block * 32 + LANE;
        const float *x = (const float *)record.pointers[sum_columns_f32_x] + column;
        state own = no_state(REDUCE_sum);
        if (column < columns)
            for (int64_t row = WARP; row < d[sum_columns_f32_rows]; row += 8)
                own.real += x[row * d[sum_columns_f32_x_stride]];
        own = merge_block(REDUCE_sum, true, own, 32);
        if (WARP == 0 && column < columns)
            ((float *)record.pointers[sum_columns_f32_y])[column] = (float)own.real;
    }
}

KERNEL(argmax_f32, rows, 256, 0)
{
    const int64_t *d = record.dims, columns = d[argmax_f32_columns];
    if (columns <= 0)
        return;
    FOR_EACH_BLOCK(row, d[argmax_f32_rows])
    {
        const float *x = (const float *)record.pointers[argmax_f32_x] + row * d[argmax_f32_x_stride];
        state own = no_state(REDUCE_argmax);
        FOR_THREADS(i, columns)
        own = merged(REDUCE_argmax, true, own, state_of(REDUCE_argmax, true, x, i, TYPE_float32, i));
        own = merge_block(REDUCE_argmax, true, own, 1);
        if (threadIdx.x == 0)
            ((int32_t *)record.pointers[argmax_f32_index])[row] = (int32_t)own.index;
    }
}
