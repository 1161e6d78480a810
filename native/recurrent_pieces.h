/* Steps of an LSTM and of a GRU, and their gradients, of pieces of rows, for one type. The including file defines NUMBER (the
 * type), VECTOR and WIDTH (of it), LOAD(p, n) and STORE(p, x, n) of up to n numbers, SIGMOID, TANH and FMA. Slots are
 * those of f32, as all types have the same. */
#define load JOIN(load, NUMBER)
#define store JOIN(store, NUMBER)
#define sigmoid JOIN(sigmoid, NUMBER)
#define hyperbolic_tangent JOIN(hyperbolic_tangent, NUMBER)
#define part JOIN(part, NUMBER)
#define activate JOIN(activate, NUMBER)
#define lstm_piece JOIN(lstm_piece, NUMBER)
#define load_any JOIN(load_any, NUMBER)
#define lstm_backward_piece JOIN(lstm_backward_piece, NUMBER)
#define gated JOIN(gated, NUMBER)
#define gates_of JOIN(gates_of, NUMBER)
#define gru_piece JOIN(gru_piece, NUMBER)
#define gru_backward_piece JOIN(gru_backward_piece, NUMBER)

ONE_COPY VECTOR load(const NUMBER *p, int64_t n) { return LOAD(p, n); }
ONE_COPY void store(NUMBER *p, VECTOR x, int64_t n) { STORE(p, x, n); }
ONE_COPY VECTOR sigmoid(VECTOR x) { return SIGMOID(x); }
ONE_COPY VECTOR hyperbolic_tangent(VECTOR x) { return TANH(x); }

/* Where the piece begins in a matrix with so many parts of `columns` elements in a row; NULL where there is none. */
ONE_COPY NUMBER *part(const piece *p, int slot, int64_t parts)
{
    void *const *const all = p->record->pointers;
    NUMBER *const x = all[slot];
    return x ? x + p->at + (parts - 1) * p->row * p->columns : NULL;
}

/* The four gates of a piece, in place. */
ONE_COPY NUMBER *activate(const piece *p, int slot)
{
    NUMBER *const gates = part(p, slot, 4);
    ROLLED
    for (int gate = 0; gate < 4; gate++) {
        ROLLED
        for (int64_t i = 0; i < p->n; i += WIDTH) {
            NUMBER *const x = gates + gate * p->columns + i;
            const VECTOR before = load(x, p->n - i);
            store(x, gate == 2 ? hyperbolic_tangent(before) : sigmoid(before), p->n - i);
        }
    }
    return gates;
}

static void lstm_piece(const piece *p)
{
    const NUMBER *const gates = activate(p, lstm_cell_f32_gates), *const before = part(p, lstm_cell_f32_c_before, 1);
    NUMBER *const h = part(p, lstm_cell_f32_h, 1), *const c = part(p, lstm_cell_f32_c, 1);
    ROLLED
    for (int64_t i = 0; i < p->n; i += WIDTH) {
        const int64_t n = p->n - i;
        const NUMBER *const own = gates + i;
        const VECTOR kept = load(own + p->columns, n) * load(before + i, n);
        const VECTOR now = FMA(load(own, n), load(own + 2 * p->columns, n), kept);
        store(c + i, now, n);
        store(h + i, load(own + 3 * p->columns, n) * hyperbolic_tangent(now), n);
    }
}

/* Zeros where there is nothing. */
ONE_COPY VECTOR load_any(const NUMBER *x, int64_t i, int64_t n) { return x ? load(x + i, n) : (VECTOR){0}; }

static void lstm_backward_piece(const piece *p)
{
    NUMBER *const gates = activate(p, lstm_cell_backward_f32_gates);
    NUMBER *const grad_c = part(p, lstm_cell_backward_f32_grad_c, 1);
    const NUMBER *const c = part(p, lstm_cell_backward_f32_c, 1);
    const NUMBER *const before = part(p, lstm_cell_backward_f32_c_before, 1);
    const NUMBER *const grad_h = part(p, lstm_cell_backward_f32_grad_h, 1);
    const NUMBER *const later_h = part(p, lstm_cell_backward_f32_later_h, 1);
    const NUMBER *const later_c = part(p, lstm_cell_backward_f32_later_c, 1);
    ROLLED
    for (int64_t i = 0; i < p->n; i += WIDTH) {
        const int64_t n = p->n - i;
        NUMBER *const own = gates + i;
        const VECTOR take = load(own, n), forget = load(own + p->columns, n);
        const VECTOR cell = load(own + 2 * p->columns, n), out = load(own + 3 * p->columns, n);
        const VECTOR high = hyperbolic_tangent(load(c + i, n));
        const VECTOR of_h = load_any(grad_h, i, n) + load_any(later_h, i, n);
        const VECTOR of_c = FMA(of_h * out, (NUMBER)1 - high * high, load(grad_c + i, n)) + load_any(later_c, i, n);
        store(own, of_c * cell * (take * ((NUMBER)1 - take)), n);
        store(own + p->columns, of_c * load(before + i, n) * (forget * ((NUMBER)1 - forget)), n);
        store(own + 2 * p->columns, of_c * take * ((NUMBER)1 - cell * cell), n);
        store(own + 3 * p->columns, of_h * high * (out * ((NUMBER)1 - out)), n);
        store(grad_c + i, of_c * forget, n);
    }
}

/* A GRU's gates and new value. */
typedef struct gated {
    VECTOR reset, update, own, fresh; /* own: what `reset` multiplies */
} gated;

ONE_COPY void gates_of(gated *to, const NUMBER *x, const NUMBER *hidden, int64_t columns, int64_t n)
{
    to->reset = sigmoid(load(x, n) + load(hidden, n));
    to->update = sigmoid(load(x + columns, n) + load(hidden + columns, n));
    to->own = load(hidden + 2 * columns, n);
    to->fresh = hyperbolic_tangent(FMA(to->reset, to->own, load(x + 2 * columns, n)));
}

static void gru_piece(const piece *p)
{
    const NUMBER *const x = part(p, gru_cell_f32_x, 3), *const hidden = part(p, gru_cell_f32_hidden, 3);
    const NUMBER *const before = part(p, gru_cell_f32_h_before, 1);
    NUMBER *const h = part(p, gru_cell_f32_h, 1);
    ROLLED
    for (int64_t i = 0; i < p->n; i += WIDTH) {
        const int64_t n = p->n - i;
        gated g;
        gates_of(&g, x + i, hidden + i, p->columns, n);
        store(h + i, FMA(g.update, load(before + i, n) - g.fresh, g.fresh), n);
    }
}

static void gru_backward_piece(const piece *p)
{
    const NUMBER *const x = part(p, gru_cell_backward_f32_x, 3);
    const NUMBER *const before = part(p, gru_cell_backward_f32_h_before, 1);
    const NUMBER *const grad_h = part(p, gru_cell_backward_f32_grad_h, 1);
    NUMBER *const hidden = part(p, gru_cell_backward_f32_hidden, 3);
    NUMBER *const grad_x = part(p, gru_cell_backward_f32_grad_x, 3);
    NUMBER *const grad_before = part(p, gru_cell_backward_f32_grad_before, 1);
    ROLLED
    for (int64_t i = 0; i < p->n; i += WIDTH) {
        const int64_t n = p->n - i;
        gated g;
        gates_of(&g, x + i, hidden + i, p->columns, n);
        const VECTOR of_h = load_any(grad_h, i, n) + load(grad_before + i, n);
        const VECTOR of_fresh = of_h * ((NUMBER)1 - g.update) * ((NUMBER)1 - g.fresh * g.fresh);
        const VECTOR of_reset = of_fresh * g.own * (g.reset * ((NUMBER)1 - g.reset));
        const VECTOR of_update = of_h * (load(before + i, n) - g.fresh) * (g.update * ((NUMBER)1 - g.update));
        const VECTOR grads[3] = {of_reset, of_update, of_fresh};
        ROLLED
        for (int gate = 0; gate < 3; gate++) {
            store(grad_x + gate * p->columns + i, grads[gate], n);
            store(hidden + gate * p->columns + i, gate == 2 ? of_fresh * g.reset : grads[gate], n);
        }
        store(grad_before + i, of_h * g.update, n);
    }
}

#undef load
#undef store
#undef sigmoid
#undef hyperbolic_tangent
#undef part
#undef activate
#undef lstm_piece
#undef load_any
#undef lstm_backward_piece
#undef gated
#undef gates_of
#undef gru_piece
#undef gru_backward_piece
#undef NUMBER
#undef VECTOR
#undef WIDTH
#undef LOAD
#undef STORE
#undef SIGMOID
#undef TANH
#undef FMA
