"""Gates and recurrent steps."""

from __future__ import annotations

from typing import Any

import pyapp
from pyapp import Tensor, nn, ops
from pyapp.engine.ops import recurrent
from pyapp.engine.ops.recurrences import advance_states
from pyapp.nn import functional as F
from pyapp.nn.parameter import skip_initialization

from ..call import Call, family
from ..operands import Draw


@family
def gated(d: Draw) -> Call:
    name = d.pick("silu_mul silu_mul glu scan geglu prelu".split())
    if name == "scan":
        shape = d.shape(3, 1000, empty=False)
        a, b = d.operand(shape, low=0.1, high=0.9), d.operand(shape)
        start, back = d.chance(0.4), d.chance(0.4)
        more = [d.operand((shape[0], *shape[2:]))] if start else []
        return Call(
            "linear_scan", [a, b, *more], lambda a, b, s=None: ops.linear_scan(a, b, s, back), details={"back": back}
        )
    if name == "prelu":
        shape = d.shape(2 + d.below(2), 1500, empty=False)
        return Call(name, [d.operand(shape), d.operand((shape[1],))], F.prelu)
    shape = d.shape(1 + d.below(3), 600)
    wide = (*shape[:-1], 2 * shape[-1])
    x = d.operand(wide)
    if name == "glu":
        return Call(name, [x], F.glu)
    if name == "geglu":
        return Call(name, [x], lambda x: x.chunk(2, -1)[0] * F.gelu(x.chunk(2, -1)[1]))
    return Call("silu_mul", [x], ops.silu_mul)


@family
def steps(d: Draw) -> Call:
    name = d.pick("lstm_steps gru_steps rnn_steps lstm_cell gru_cell LSTM GRU LSTMCell advance scan".split())
    batch, tokens, size, inputs = int(d.pick((1, 2, 3, 5))), int(d.pick((1, 2, 3, 7))), d.size(33), d.size(17)
    back = d.chance(0.4)
    if name == "lstm_cell":
        return Call(
            name,
            [d.operand((batch, 4 * size)), d.operand((batch, size))],
            lambda g, c: tuple(recurrent.lstm_cell(g, c)),
        )
    if name == "gru_cell":
        return Call(
            name,
            [d.operand((batch, 3 * size)), d.operand((batch, 3 * size)), d.operand((batch, size))],
            recurrent.gru_cell,
        )
    if name in ("lstm_steps", "gru_steps", "rnn_steps"):
        gates = {"l": 4, "g": 3, "r": 1}[name[0]]
        x, h, w = d.operand((tokens, batch, gates * size)), d.operand((batch, size)), d.operand((gates * size, size))
        if name[0] == "l":
            return Call(
                name,
                [x, h, d.operand((batch, size)), w],
                lambda x, h, c, w: recurrent.lstm_steps(x, h, c, w * 0.3, back),
            )
        if name[0] == "g":
            more = [d.operand((3 * size,))] if d.chance(0.5) else []
            return Call(name, [x, h, w, *more], lambda x, h, w, b=None: recurrent.gru_steps(x, h, w * 0.3, b, back))
        kind = str(d.pick(("tanh", "relu")))
        return Call(f"{name} {kind}", [x, h, w], lambda x, h, w: recurrent.rnn_steps(x, h, w * 0.1, kind, back))
    if name == "advance":
        channels, n = d.size(17), int(d.pick((1, 4, 8, 16)))
        state = d.operand((batch, channels, n), "float32", expands=False, joins=False)
        x, delta = (
            d.operand((batch, tokens, channels), "float32"),
            d.operand((batch, tokens, channels), "float32", 0.1, 0.9),
        )
        inward, outward = d.operand((batch, tokens, n), "float32"), d.operand((batch, tokens, n), "float32")
        decay = d.operand((channels, n), "float32", -1.0, -0.1)

        def advance(state: Tensor, *rest: Tensor) -> Any:
            return advance_states(state, *rest), state

        return Call(
            "advance_states",
            [state, x, delta, inward, outward, decay],
            advance,
            False,
            changed=0 if d.chance(0.5) else None,
        )
    if name in ("LSTM", "GRU", "LSTMCell"):
        gates = 3 if name == "GRU" else 4
        x = d.operand((batch, tokens, inputs) if name != "LSTMCell" else (batch, inputs))
        params = [
            d.operand((gates * size, inputs)),
            d.operand((gates * size, size)),
            d.operand((gates * size,)),
            d.operand((gates * size,)),
        ]
        first, two = d.chance(0.5), d.chance(0.3) and name != "LSTMCell"
        if two:
            params += [
                d.operand((gates * size, inputs)),
                d.operand((gates * size, size)),
                d.operand((gates * size,)),
                d.operand((gates * size,)),
            ]

        def layer(x: Tensor, *p: Tensor) -> Any:
            with skip_initialization():
                made = (
                    nn.LSTMCell(inputs, size)
                    if name == "LSTMCell"
                    else getattr(nn, name)(inputs, size, batch_first=first, bidirectional=two)
                )
            names = [n for n, _ in made.named_parameters()]
            y = pyapp.func.functional_call(made, {n: t * 0.3 for n, t in zip(names, p, strict=True)}, (x,))
            return y[0]

        return Call(name, [x, *params], layer, details={"batch_first": first, "two": two})
    shape = d.shape(3, 2000, empty=False)
    a, b = d.operand(shape, low=0.1, high=0.9), d.operand(shape)
    return Call("linear_scan", [a, b], lambda a, b: ops.linear_scan(a, b, None, back), details={"back": back})
