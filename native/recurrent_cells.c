/* Steps of an LSTM (Hochreiter and Schmidhuber, 1997) and of a GRU (Cho et al., 2014), and their gradients. The loops are not
 * unrolled: a step is short, and the products between steps take most of the time. */
#include "simd.h"

#include "vmath.h"

enum { SHARE = 64 }; /* elements: the shares of workers are multiples of it */

#ifdef __wasm__ /* code that travels: one copy of each */
#define ONE_COPY static __attribute__((noinline))
#else
#define ONE_COPY INLINE
#endif
ONE_COPY vfloat load(const float *p, int64_t n) { return vload_up_to(p, n); }
ONE_COPY void store(float *p, vfloat x, int64_t n) { vstore_up_to(p, x, n); }
ONE_COPY vfloat sigmoid(vfloat x) { return vsigmoid(x); }
ONE_COPY vfloat hyperbolic_tangent(vfloat x) { return vtanh(x); }

/* Columns of a row, of matrices that `record` points to. */
typedef struct piece {
    const launch *record;
    int64_t row, columns, at, n; /* at: of its first element in a matrix of rows and columns; n: how many it has */
} piece;

/* Where the piece begins in a matrix with so many parts of `columns` elements in a row; NULL where there is none. */
ONE_COPY float *part(const piece *p, int slot, int64_t parts)
{
    void *const *const all = p->record->pointers;
    float *const x = all[slot];
    return x ? x + p->at + (parts - 1) * p->row * p->columns : NULL;
}

/* The pieces of a worker. All kernels here have the dims rows and columns. */
ONE_COPY int32_t each_piece(const launch *record, int32_t worker, int32_t workers, void (*compute)(const piece *))
{
    const int64_t rows = record->dims[lstm_cell_f32_rows], columns = record->dims[lstm_cell_f32_columns];
    int64_t at, last;
    if (rows <= 0 || columns <= 0)
        return KERNEL_OK;
    worker_share(rows * columns, SHARE, worker, workers, &at, &last);
    while (at < last) {
        const int64_t row = at / columns, end = (row + 1) * columns;
        const piece p = {record, row, columns, at, (end < last ? end : last) - at};
        compute(&p);
        at += p.n;
    }
    return KERNEL_OK;
}

/* The four gates of a piece, in place. */
ONE_COPY float *activate(const piece *p, int slot)
{
    float *const gates = part(p, slot, 4);
    ROLLED
    for (int gate = 0; gate < 4; gate++) {
        ROLLED
        for (int64_t i = 0; i < p->n; i += LANES) {
            float *const x = gates + gate * p->columns + i;
            const vfloat before = load(x, p->n - i);
            store(x, gate == 2 ? hyperbolic_tangent(before) : sigmoid(before), p->n - i);
        }
    }
    return gates;
}

static void lstm_piece(const piece *p)
{
    const float *const gates = activate(p, lstm_cell_f32_gates), *const before = part(p, lstm_cell_f32_c_before, 1);
    float *const h = part(p, lstm_cell_f32_h, 1), *const c = part(p, lstm_cell_f32_c, 1);
    ROLLED
    for (int64_t i = 0; i < p->n; i += LANES) {
        const int64_t n = p->n - i;
        const float *const own = gates + i;
        const vfloat kept = load(own + p->columns, n) * load(before + i, n);
        const vfloat now = vfma(load(own, n), load(own + 2 * p->columns, n), kept);
        store(c + i, now, n);
        store(h + i, load(own + 3 * p->columns, n) * hyperbolic_tangent(now), n);
    }
}

KERNEL(lstm_cell_f32) { return each_piece(record, worker, workers, lstm_piece); }

/* Zeros where there is nothing. */
ONE_COPY vfloat load_any(const float *x, int64_t i, int64_t n) { return x ? load(x + i, n) : vzero(); }

static void lstm_backward_piece(const piece *p)
{
    float *const gates = activate(p, lstm_cell_backward_f32_gates);
    float *const grad_c = part(p, lstm_cell_backward_f32_grad_c, 1);
    const float *const c = part(p, lstm_cell_backward_f32_c, 1);
    const float *const before = part(p, lstm_cell_backward_f32_c_before, 1);
    const float *const grad_h = part(p, lstm_cell_backward_f32_grad_h, 1);
    const float *const later_h = part(p, lstm_cell_backward_f32_later_h, 1);
    const float *const later_c = part(p, lstm_cell_backward_f32_later_c, 1);
    ROLLED
    for (int64_t i = 0; i < p->n; i += LANES) {
        const int64_t n = p->n - i;
        float *const own = gates + i;
        const vfloat take = load(own, n), forget = load(own + p->columns, n);
        const vfloat cell = load(own + 2 * p->columns, n), out = load(own + 3 * p->columns, n);
        const vfloat high = hyperbolic_tangent(load(c + i, n));
        const vfloat of_h = load_any(grad_h, i, n) + load_any(later_h, i, n);
        const vfloat of_c = vfma(of_h * out, 1.0f - high * high, load(grad_c + i, n)) + load_any(later_c, i, n);
        store(own, of_c * cell * (take * (1.0f - take)), n);
        store(own + p->columns, of_c * load(before + i, n) * (forget * (1.0f - forget)), n);
        store(own + 2 * p->columns, of_c * take * (1.0f - cell * cell), n);
        store(own + 3 * p->columns, of_h * high * (out * (1.0f - out)), n);
        store(grad_c + i, of_c * forget, n);
    }
}

KERNEL(lstm_cell_backward_f32) { return each_piece(record, worker, workers, lstm_backward_piece); }

/* A GRU's gates and new value. */
typedef struct gated {
    vfloat reset, update, own, fresh; /* own: what `reset` multiplies */
} gated;

ONE_COPY void gates_of(gated *to, const float *x, const float *hidden, int64_t columns, int64_t n)
{
    to->reset = sigmoid(load(x, n) + load(hidden, n));
    to->update = sigmoid(load(x + columns, n) + load(hidden + columns, n));
    to->own = load(hidden + 2 * columns, n);
    to->fresh = hyperbolic_tangent(vfma(to->reset, to->own, load(x + 2 * columns, n)));
}

static void gru_piece(const piece *p)
{
    const float *const x = part(p, gru_cell_f32_x, 3), *const hidden = part(p, gru_cell_f32_hidden, 3);
    const float *const before = part(p, gru_cell_f32_h_before, 1);
    float *const h = part(p, gru_cell_f32_h, 1);
    ROLLED
    for (int64_t i = 0; i < p->n; i += LANES) {
        const int64_t n = p->n - i;
        gated g;
        gates_of(&g, x + i, hidden + i, p->columns, n);
        store(h + i, vfma(g.update, load(before + i, n) - g.fresh, g.fresh), n);
    }
}

KERNEL(gru_cell_f32) { return each_piece(record, worker, workers, gru_piece); }

static void gru_backward_piece(const piece *p)
{
    const float *const x = part(p, gru_cell_backward_f32_x, 3);
    const float *const before = part(p, gru_cell_backward_f32_h_before, 1);
    const float *const grad_h = part(p, gru_cell_backward_f32_grad_h, 1);
    float *const hidden = part(p, gru_cell_backward_f32_hidden, 3);
    float *const grad_x = part(p, gru_cell_backward_f32_grad_x, 3);
    float *const grad_before = part(p, gru_cell_backward_f32_grad_before, 1);
    ROLLED
    for (int64_t i = 0; i < p->n; i += LANES) {
        const int64_t n = p->n - i;
        gated g;
        gates_of(&g, x + i, hidden + i, p->columns, n);
        const vfloat of_h = load_any(grad_h, i, n) + load(grad_before + i, n);
        const vfloat of_fresh = of_h * (1.0f - g.update) * (1.0f - g.fresh * g.fresh);
        const vfloat of_reset = of_fresh * g.own * (g.reset * (1.0f - g.reset));
        const vfloat of_update = of_h * (load(before + i, n) - g.fresh) * (g.update * (1.0f - g.update));
        const vfloat grads[3] = {of_reset, of_update, of_fresh};
        ROLLED
        for (int gate = 0; gate < 3; gate++) {
            store(grad_x + gate * p->columns + i, grads[gate], n);
            store(hidden + gate * p->columns + i, gate == 2 ? of_fresh * g.reset : grads[gate], n);
        }
        store(grad_before + i, of_h * g.update, n);
    }
}

KERNEL(gru_cell_backward_f32) { return each_piece(record, worker, workers, gru_backward_piece); }
