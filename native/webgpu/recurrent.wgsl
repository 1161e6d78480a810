// Steps of an LSTM (Hochreiter and Schmidhuber 1997) and of a GRU (Cho et al. 2014), and their gradients. A thread takes a
// column of a row.

KERNEL(lstm_cell_f32, MIN(PARTS(rows * columns, 256), 16384), 256)
MAIN {
  FOR_EACH(i, rows * columns) {
    let at = i / columns * 4 * columns + i % columns;
    let take = sigmoid(gates_f(at));
    let forget = sigmoid(gates_f(at + columns));
    let cell = tanh_of(gates_f(at + 2 * columns));
    let out = sigmoid(gates_f(at + 3 * columns));
    let new_c = take * cell + forget * c_before_f(i);
    gates_put(at, take);
    gates_put(at + columns, forget);
    gates_put(at + 2 * columns, cell);
    gates_put(at + 3 * columns, out);
    c_put(i, new_c);
    h_put(i, out * tanh_of(new_c));
  }
}

KERNEL(lstm_cell_backward_f32, MIN(PARTS(rows * columns, 256), 16384), 256)
MAIN {
  FOR_EACH(i, rows * columns) {
    let at = i / columns * 4 * columns + i % columns;
    let take = sigmoid(gates_f(at));
    let forget = sigmoid(gates_f(at + columns));
    let cell = tanh_of(gates_f(at + 2 * columns));
    let out = sigmoid(gates_f(at + 3 * columns));
    let high = tanh_of(c_f(i));
    var of_h = 0.0;
    if (grad_h_given) { of_h += grad_h_f(i); }
    if (later_h_given) { of_h += later_h_f(i); }
    var of_c = of_h * out * (1.0 - high * high) + grad_c_f(i);
    if (later_c_given) { of_c += later_c_f(i); }
    gates_put(at, of_c * cell * (take * (1.0 - take)));
    gates_put(at + columns, of_c * c_before_f(i) * (forget * (1.0 - forget)));
    gates_put(at + 2 * columns, of_c * take * (1.0 - cell * cell));
    gates_put(at + 3 * columns, of_h * high * (out * (1.0 - out)));
    grad_c_put(i, of_c * forget);
  }
}

KERNEL(gru_cell_f32, MIN(PARTS(rows * columns, 256), 16384), 256)
MAIN {
  FOR_EACH(i, rows * columns) {
    let at = i / columns * 3 * columns + i % columns;
    let reset = sigmoid(x_f(at) + hidden_f(at));
    let update = sigmoid(x_f(at + columns) + hidden_f(at + columns));
    let fresh = tanh_of(reset * hidden_f(at + 2 * columns) + x_f(at + 2 * columns));
    h_put(i, update * (h_before_f(i) - fresh) + fresh);
  }
}

KERNEL(gru_cell_backward_f32, MIN(PARTS(rows * columns, 256), 16384), 256)
MAIN {
  FOR_EACH(i, rows * columns) {
    let at = i / columns * 3 * columns + i % columns;
    let reset = sigmoid(x_f(at) + hidden_f(at));
    let update = sigmoid(x_f(at + columns) + hidden_f(at + columns));
    let own = hidden_f(at + 2 * columns);
    let fresh = tanh_of(reset * own + x_f(at + 2 * columns));
    var of_h = grad_before_f(i);
    if (grad_h_given) { of_h += grad_h_f(i); }
    let of_fresh = of_h * (1.0 - update) * (1.0 - fresh * fresh);
    let of_reset = of_fresh * own * (reset * (1.0 - reset));
    let of_update = of_h * (h_before_f(i) - fresh) * (update * (1.0 - update));
    grad_x_put(at, of_reset);
    hidden_put(at, of_reset);
    grad_x_put(at + columns, of_update);
    hidden_put(at + columns, of_update);
    grad_x_put(at + 2 * columns, of_fresh);
    hidden_put(at + 2 * columns, of_fresh * reset);
    grad_before_put(i, of_h * update);
  }
}
