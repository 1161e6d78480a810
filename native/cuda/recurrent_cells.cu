/* Steps of an LSTM (Hochreiter and Schmidhuber, 1997) and of a GRU (Cho et al., 2014), and their gradients. A thread takes a
 * column of a row. */
#include "gpu.h"

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
DEVICE float any(const float *x, int64_t i) { return x ? x[i] : 0.0f; }
#define POINTER(slot) ((float *)record.pointers[slot])

/* The gates of a column, in place. */
struct lstm_gates {
    float take, forget, cell, out;
    float *at;
    int64_t columns;

    DEVICE_MEMBER lstm_gates(float *gates, int64_t i, int64_t columns)
        : at(gates + i / columns * 4 * columns + i % columns), columns(columns)
    {
        take = sigmoid(at[0]), forget = sigmoid(at[columns]);
        cell = tanhf(at[2 * columns]), out = sigmoid(at[3 * columns]);
    }
    DEVICE_MEMBER void store(float a, float b, float c, float d) const
    {
        at[0] = a, at[columns] = b, at[2 * columns] = c, at[3 * columns] = d;
    }
};

KERNEL(lstm_cell_f32, PARTS(rows *columns, 128), 128, 0)
{
    const int64_t columns = record.dims[lstm_cell_f32_columns];
    FOR_EACH(i, record.dims[lstm_cell_f32_rows] * columns)
    {
        const lstm_gates g(POINTER(lstm_cell_f32_gates), i, columns);
        const float c = g.take * g.cell + g.forget * POINTER(lstm_cell_f32_c_before)[i];
        g.store(g.take, g.forget, g.cell, g.out);
        POINTER(lstm_cell_f32_c)[i] = c;
        POINTER(lstm_cell_f32_h)[i] = g.out * tanhf(c);
    }
}

KERNEL(lstm_cell_backward_f32, PARTS(rows *columns, 128), 128, 0)
{
    const int64_t columns = record.dims[lstm_cell_backward_f32_columns];
    float *const grad_c = POINTER(lstm_cell_backward_f32_grad_c);
    FOR_EACH(i, record.dims[lstm_cell_backward_f32_rows] * columns)
    {
        const lstm_gates g(POINTER(lstm_cell_backward_f32_gates), i, columns);
        const float high = tanhf(POINTER(lstm_cell_backward_f32_c)[i]);
        const float of_h =
            any(POINTER(lstm_cell_backward_f32_grad_h), i) + any(POINTER(lstm_cell_backward_f32_later_h), i);
        const float of_c =
            of_h * g.out * (1.0f - high * high) + grad_c[i] + any(POINTER(lstm_cell_backward_f32_later_c), i);
        g.store(of_c * g.cell * (g.take * (1.0f - g.take)),
                of_c * POINTER(lstm_cell_backward_f32_c_before)[i] * (g.forget * (1.0f - g.forget)),
                of_c * g.take * (1.0f - g.cell * g.cell), of_h * high * (g.out * (1.0f - g.out)));
        grad_c[i] = of_c * g.forget;
    }
}

struct gru_gates {
    float reset, update, own, fresh; /* own: what `reset` multiplies */

    DEVICE_MEMBER gru_gates(const float *x, const float *hidden, int64_t columns)
    {
        reset = sigmoid(x[0] + hidden[0]), update = sigmoid(x[columns] + hidden[columns]);
        own = hidden[2 * columns];
        fresh = tanhf(reset * own + x[2 * columns]);
    }
};

KERNEL(gru_cell_f32, PARTS(rows *columns, 128), 128, 0)
{
    const int64_t columns = record.dims[gru_cell_f32_columns];
    FOR_EACH(i, record.dims[gru_cell_f32_rows] * columns)
    {
        const int64_t at = i / columns * 3 * columns + i % columns;
        const gru_gates g(POINTER(gru_cell_f32_x) + at, POINTER(gru_cell_f32_hidden) + at, columns);
        POINTER(gru_cell_f32_h)[i] = g.update * (POINTER(gru_cell_f32_h_before)[i] - g.fresh) + g.fresh;
    }
}

KERNEL(gru_cell_backward_f32, PARTS(rows *columns, 128), 128, 0)
{
    const int64_t columns = record.dims[gru_cell_backward_f32_columns];
    float *const grad_before = POINTER(gru_cell_backward_f32_grad_before);
    FOR_EACH(i, record.dims[gru_cell_backward_f32_rows] * columns)
    {
        const int64_t at = i / columns * 3 * columns + i % columns;
        float *const hidden = POINTER(gru_cell_backward_f32_hidden) + at;
        float *const grad_x = POINTER(gru_cell_backward_f32_grad_x) + at;
        const gru_gates g(POINTER(gru_cell_backward_f32_x) + at, hidden, columns);
        const float of_h = any(POINTER(gru_cell_backward_f32_grad_h), i) + grad_before[i];
        const float of_fresh = of_h * (1.0f - g.update) * (1.0f - g.fresh * g.fresh);
        const float of_reset = of_fresh * g.own * (g.reset * (1.0f - g.reset));
        const float of_update =
            of_h * (POINTER(gru_cell_backward_f32_h_before)[i] - g.fresh) * (g.update * (1.0f - g.update));
        grad_x[0] = hidden[0] = of_reset;
        grad_x[columns] = hidden[columns] = of_update;
        grad_x[2 * columns] = of_fresh;
        hidden[2 * columns] = of_fresh * g.reset;
        grad_before[i] = of_h * g.update;
    }
}
