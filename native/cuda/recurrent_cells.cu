/* Steps of an LSTM (Hochreiter and Schmidhuber, 1997) and of a GRU (Cho et al., 2014), and their gradients, in float32 and
 * float64, whose slots are the same. A thread takes a column of a row. */
#include "gpu.h"

DEVICE float exponential(float x) { return expf(x); }
DEVICE double exponential(double x) { return exp(x); }
DEVICE float hyperbolic(float x) { return tanhf(x); }
DEVICE double hyperbolic(double x) { return tanh(x); }
template <class T> DEVICE T sigmoid(T x) { return 1 / (1 + exponential(-x)); }
template <class T> DEVICE T any(const T *x, int64_t i) { return x ? x[i] : 0; }
#define POINTER(slot) ((T *)record.pointers[slot])

/* The gates of a column, in place. */
template <class T> struct lstm_gates {
    T take, forget, cell, out;
    T *at;
    int64_t columns;

    DEVICE_MEMBER lstm_gates(T *gates, int64_t i, int64_t columns)
        : at(gates + i / columns * 4 * columns + i % columns), columns(columns)
    {
        take = sigmoid(at[0]), forget = sigmoid(at[columns]);
        cell = hyperbolic(at[2 * columns]), out = sigmoid(at[3 * columns]);
    }
    DEVICE_MEMBER void store(T a, T b, T c, T d) const
    {
        at[0] = a, at[columns] = b, at[2 * columns] = c, at[3 * columns] = d;
    }
};

template <class T> DEVICE void lstm_cell(const launch &record)
{
    const int64_t columns = record.dims[lstm_cell_f32_columns];
    FOR_EACH(i, record.dims[lstm_cell_f32_rows] * columns)
    {
        const lstm_gates<T> g(POINTER(lstm_cell_f32_gates), i, columns);
        const T c = g.take * g.cell + g.forget * POINTER(lstm_cell_f32_c_before)[i];
        g.store(g.take, g.forget, g.cell, g.out);
        POINTER(lstm_cell_f32_c)[i] = c;
        POINTER(lstm_cell_f32_h)[i] = g.out * hyperbolic(c);
    }
}

template <class T> DEVICE void lstm_cell_backward(const launch &record)
{
    const int64_t columns = record.dims[lstm_cell_backward_f32_columns];
    T *const grad_c = POINTER(lstm_cell_backward_f32_grad_c);
    FOR_EACH(i, record.dims[lstm_cell_backward_f32_rows] * columns)
    {
        const lstm_gates<T> g(POINTER(lstm_cell_backward_f32_gates), i, columns);
        const T high = hyperbolic(POINTER(lstm_cell_backward_f32_c)[i]);
        const T of_h = any(POINTER(lstm_cell_backward_f32_grad_h), i) + any(POINTER(lstm_cell_backward_f32_later_h), i);
        const T of_c = of_h * g.out * (1 - high * high) + grad_c[i] + any(POINTER(lstm_cell_backward_f32_later_c), i);
        g.store(of_c * g.cell * (g.take * (1 - g.take)),
                of_c * POINTER(lstm_cell_backward_f32_c_before)[i] * (g.forget * (1 - g.forget)),
                of_c * g.take * (1 - g.cell * g.cell), of_h * high * (g.out * (1 - g.out)));
        grad_c[i] = of_c * g.forget;
    }
}

template <class T> struct gru_gates {
    T reset, update, own, fresh; /* own: what `reset` multiplies */

    DEVICE_MEMBER gru_gates(const T *x, const T *hidden, int64_t columns)
    {
        reset = sigmoid(x[0] + hidden[0]), update = sigmoid(x[columns] + hidden[columns]);
        own = hidden[2 * columns];
        fresh = hyperbolic(reset * own + x[2 * columns]);
    }
};

template <class T> DEVICE void gru_cell(const launch &record)
{
    const int64_t columns = record.dims[gru_cell_f32_columns];
    FOR_EACH(i, record.dims[gru_cell_f32_rows] * columns)
    {
        const int64_t at = i / columns * 3 * columns + i % columns;
        const gru_gates<T> g(POINTER(gru_cell_f32_x) + at, POINTER(gru_cell_f32_hidden) + at, columns);
        POINTER(gru_cell_f32_h)[i] = g.update * (POINTER(gru_cell_f32_h_before)[i] - g.fresh) + g.fresh;
    }
}

template <class T> DEVICE void gru_cell_backward(const launch &record)
{
    const int64_t columns = record.dims[gru_cell_backward_f32_columns];
    T *const grad_before = POINTER(gru_cell_backward_f32_grad_before);
    FOR_EACH(i, record.dims[gru_cell_backward_f32_rows] * columns)
    {
        const int64_t at = i / columns * 3 * columns + i % columns;
        T *const hidden = POINTER(gru_cell_backward_f32_hidden) + at;
        T *const grad_x = POINTER(gru_cell_backward_f32_grad_x) + at;
        const gru_gates<T> g(POINTER(gru_cell_backward_f32_x) + at, hidden, columns);
        const T of_h = any(POINTER(gru_cell_backward_f32_grad_h), i) + grad_before[i];
        const T of_fresh = of_h * (1 - g.update) * (1 - g.fresh * g.fresh);
        const T of_reset = of_fresh * g.own * (g.reset * (1 - g.reset));
        const T of_update = of_h * (POINTER(gru_cell_backward_f32_h_before)[i] - g.fresh) * (g.update * (1 - g.update));
        grad_x[0] = hidden[0] = of_reset;
        grad_x[columns] = hidden[columns] = of_update;
        grad_x[2 * columns] = of_fresh;
        hidden[2 * columns] = of_fresh * g.reset;
        grad_before[i] = of_h * g.update;
    }
}

KERNEL(lstm_cell_f32, PARTS(rows *columns, 128), 128, 0) { lstm_cell<float>(record); }
KERNEL(lstm_cell_f64, PARTS(rows *columns, 128), 128, 0) { lstm_cell<double>(record); }
KERNEL(lstm_cell_backward_f32, PARTS(rows *columns, 128), 128, 0) { lstm_cell_backward<float>(record); }
KERNEL(lstm_cell_backward_f64, PARTS(rows *columns, 128), 128, 0) { lstm_cell_backward<double>(record); }
KERNEL(gru_cell_f32, PARTS(rows *columns, 128), 128, 0) { gru_cell<float>(record); }
KERNEL(gru_cell_f64, PARTS(rows *columns, 128), 128, 0) { gru_cell<double>(record); }
KERNEL(gru_cell_backward_f32, PARTS(rows *columns, 128), 128, 0) { gru_cell_backward<float>(record); }
KERNEL(gru_cell_backward_f64, PARTS(rows *columns, 128), 128, 0) { gru_cell_backward<double>(record); }
