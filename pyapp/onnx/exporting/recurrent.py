"""How recurrent layers, and linear recurrences, are written as ONNX's operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import empty
from pyapp.errors import ModelError

from .graph import Graph, Info, Node, Written
from .operators import WRITERS, Part, writes

__all__ = ["WRITERS"]  # of all ops


def _reordered(array: Any, order: Sequence[int]) -> Any:
    """(1, gates * H, …) from (gates * H, …), with the gates in another order."""
    parts = np.split(array, len(order))
    return np.concatenate([parts[k] for k in order])[None]


class _InputShare:
    """What a recurrent op gets: x (T, B, gates * H), the share of the inputs in the gates. Where linear and adding a
    bias have made it, they become a part of the recurrent operator; `addends` is the number of biases."""

    def __init__(self, g: Graph, x: Tensor, addends: int) -> None:
        self.name, self.weight, self.biases = g.named(x), None, list[Tensor]()
        name = self.name
        for _ in range(addends):
            node = g.maker(name)
            bias = g.tensors.get(node.inputs[1]) if node is not None and node.operator == "Add" else None
            if node is None or bias is None or tuple(bias.shape) != (x.shape[-1],):
                break
            self.biases.append(bias)
            name = node.inputs[0]
        node = g.maker(name)
        turned = g.maker(node.inputs[1]) if node is not None and node.operator == "MatMul" else None
        weight = g.tensors.get(turned.inputs[0]) if turned is not None and turned.operator == "Transpose" else None
        if node is None or weight is None or weight.ndim != 2 or weight.dtype.is_quantized:
            self.biases = []
            return
        self.name, self.weight = node.inputs[0], weight


def _recurrent(
    g: Graph, operator: str, x: Tensor, states: Sequence[Tensor], weight: Tensor, bias: Tensor | None,
    order: Sequence[int], reverse: bool, addends: int, outputs: int, **settings: Any,
) -> list[str] | None:  # fmt: skip
    """A recurrent operator over all steps; the names of its outputs, of which the first is Y (T, B, H)."""
    if x.dtype.name != "float32" or weight.dtype.is_quantized or g.is_computed(weight):
        return None
    hidden = weight.shape[1]
    share = _InputShare(g, x, addends)
    own = np.eye(x.shape[-1], dtype="float32") if share.weight is None else share.weight.detach().cpu().numpy()
    zeros = np.zeros(x.shape[-1], "float32")
    of_inputs = sum((one.detach().cpu().numpy() for one in share.biases), zeros)
    of_states = zeros if bias is None else bias.detach().cpu().numpy()
    weights = (own, weight.detach().cpu().numpy())
    inputs = [share.name, *(g.array(_reordered(w, order), "float32") for w in weights)]
    both = np.concatenate([_reordered(b, order) for b in (of_inputs, of_states)], -1)
    axis = g.array([0])
    inputs += [g.array(both, "float32"), "", *(g.node("Unsqueeze", [g.named(state), axis]) for state in states)]
    settings["direction"] = "reverse" if reverse else "forward"
    names = g.nodes_of(operator, inputs, outputs, hidden_size=hidden, **settings)
    return [g.node("Squeeze", [names[0], g.array([1])]), *names[1:]]


@writes("lstm_steps")
def _lstm_steps(
    g: Graph, y: Tensor, x: Tensor, h: Tensor, c: Tensor, weight: Tensor, reverse: bool = False
) -> str | None:
    """ONNX gives h after each step, c after the last one alone, of y (2, T, B, H). Its gates are input, output, forget,
    cell.
    """
    names = _recurrent(g, "LSTM", x, [h, c], weight, None, (0, 3, 1, 2), reverse, 2, 3)
    if names is None:
        return None
    states = _LstmStates(g, names[0], names[2], reverse)
    g.parts[names[0]] = states.taken
    g.shapes[names[0]] = tuple(y.shape[1:])
    return names[0]


class _LstmStates:
    """h after each step (T, B, H), and c after the last one (1, B, H)."""

    def __init__(self, g: Graph, steps: str, cell: str, reverse: bool) -> None:
        self._g, self._steps, self._cell, self._reverse = g, steps, cell, reverse

    def _is_last(self, part: Part, dim: int) -> bool:
        last = 0 if self._reverse else part.sizes[dim] - 1
        return (part.starts[dim], part.ends[dim]) == (last, last + 1)

    def taken(self, part: Part) -> str:
        """A part of (2, T, B, H): h, c, or both after the last step."""
        g = self._g
        if not all(map(part.is_whole, (2, 3))):
            raise self._refusal()
        if part.result == [1, 2, 3] and part.is_whole(1):
            if part.starts[0] == 0:
                return g.node("Identity", [self._steps])
            cells = g.node("Identity", [self._cell])
            g.parts[cells], g.shapes[cells] = self._cells_taken, (1, *part.sizes[2:])
            return cells
        last_of_both = [[0, 2, 3], [0, 1, 3]] if part.sizes[1:3] == (1, 1) else [[0, 2, 3]]  # of size 1, either dim
        if part.result in last_of_both and part.is_whole(0) and self._is_last(part, 1):
            last = g.node("Gather", [self._steps, g.array([0 if self._reverse else -1])], axis=0)
            return g.node("Concat", [last, self._cell], axis=0)
        raise self._refusal()

    def _cells_taken(self, part: Part) -> str:
        """A part of c (T, B, H): that after the last step."""
        if not self._is_last(part, 0) or not all(map(part.is_whole, (1, 2))):
            raise self._refusal()
        if part.result == [1, 2]:
            return self._g.node("Squeeze", [self._cell, self._g.array([0])])
        if part.result == [0, 1, 2]:
            return self._g.node("Identity", [self._cell])
        raise self._refusal()

    @staticmethod
    def _refusal() -> ModelError:
        return ModelError(
            "a part of an LSTM's states is read that ONNX does not give", hint="Read its outputs, or the last state"
        )


@writes("gru_steps")
def _gru_steps(
    g: Graph, y: Tensor, x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None = None, reverse: bool = False
) -> str | None:
    """The gates of ONNX are update, reset, new."""
    names = _recurrent(g, "GRU", x, [h], weight, bias, (1, 0, 2), reverse, 1, 1, linear_before_reset=1)
    return None if names is None else names[0]


@writes("rnn_steps")
def _rnn_steps(
    g: Graph, y: Tensor, x: Tensor, h: Tensor, weight: Tensor, activation: str = "tanh", reverse: bool = False
) -> str | None:
    names = _recurrent(g, "RNN", x, [h], weight, None, (0,), reverse, 2, 1, activations=[activation.capitalize()])
    return None if names is None else names[0]


@cache
def _step(kind: str, nodes: str, inputs: str, outputs: str) -> Written:
    """A step of a Scan. `nodes`: "result = Operator(input, …)" by line; `inputs`: their names, each with its number of
    dims, "a:3"; `outputs`: names of results, the states first.
    """
    graph = Graph({}, 0)
    for line in filter(None, map(str.strip, nodes.splitlines())):
        result, call = line.split(" = ")
        operator, names = call.rstrip(")").split("(")
        graph.add(Node(operator, [f"scan_{name}" for name in names.split(", ")], [f"scan_{result}"], {}))
    ranks = {name: int(rank) for name, rank in (one.split(":") for one in f"{inputs} {outputs}".split())}

    def info(name: str) -> Info:
        sizes = [f"scan_{name}_dim_{dim}" for dim in range(ranks[name])]
        return f"scan_{name}", empty((1,) * ranks[name], dtype=kind), sizes

    given, found = ([info(one.split(":")[0]) for one in names.split()] for names in (inputs, outputs))
    return Written(graph, given, found)


def _scanned(
    g: Graph, step: Written, states: Sequence[str], inputs: Sequence[str], axis: int, reverse: bool = False
) -> list[str]:
    """The last states, and the results of all steps along an axis of the inputs."""
    results = len(step.outputs) - len(states)
    direction = [int(reverse)]
    return g.nodes_of(
        "Scan", [*states, *inputs], len(step.outputs), body=step, num_scan_inputs=len(inputs),
        scan_input_axes=[axis] * len(inputs), scan_output_axes=[axis] * results,
        scan_input_directions=direction * len(inputs), scan_output_directions=direction * results,
    )  # fmt: skip


@writes("linear_scan")
def _linear_scan(g: Graph, y: Tensor, a: Tensor, b: Tensor, start: Tensor | None = None, reverse: bool = False) -> str:
    """Step by step, for any number of steps."""
    shape, rank = (y.shape[0], *y.shape[2:]), y.ndim - 1
    first = g.node("Expand", [g.operand(0.0, y.dtype), g.array(list(shape))]) if start is None else g.named(start)
    nodes = """
        kept = Mul(a, before)
        after = Add(kept, b)
        y = Identity(after)
    """
    step = _step(y.dtype.name, nodes, f"before:{rank} a:{rank} b:{rank}", f"after:{rank} y:{rank}")
    return _scanned(g, step, [first], [g.named(a), g.named(b)], 1, reverse)[1]


@writes("_decayed_peaks")
def _decayed_peaks(g: Graph, y: Tensor, start: Tensor, keys: Tensor, decay: Tensor) -> str:
    """y (B, T + 1, C): start (B, 1, C), then the larger of the one before, plus decay (C,), and a key (B, T, C)."""
    nodes = """
        later = Add(before, decay)
        after = Max(later, key)
        same = Identity(decay)
        y = Identity(after)
    """
    step = _step(y.dtype.name, nodes, "before:2 decay:1 key:2", "after:2 same:1 y:2")
    first = g.node("Squeeze", [g.named(start), g.array([1])])
    found = _scanned(g, step, [first, g.named(decay)], [g.named(keys)], 1)[2]
    return g.node("Concat", [g.named(start), found], axis=1)


def _matrices(g: Graph, nodes: str, state: Tensor, rows: dict[str, str], columns: dict[str, str], kind: str) -> str:
    """[outputs, last state] (B, H, T + K, V) of a step from `before` (B, H, K, V) to `after`, with the output `row`
    (B, H, 1, V). The step's inputs are rows (B, H, 1, ·) or columns (B, H, ·, 1) of results (B, H, T, ·).
    """
    turned = {name: g.node("Unsqueeze", [of, g.array([3])]) for name, of in rows.items()}
    turned |= {name: g.node("Unsqueeze", [of, g.array([4])]) for name, of in columns.items()}
    step = _step(kind, nodes, " ".join(f"{name}:4" for name in ("before", *turned)), "after:4 row:4")
    last, outputs = _scanned(g, step, [g.named(state)], list(turned.values()), 2)
    return g.node("Concat", [g.node("Squeeze", [outputs, g.array([3])]), last], axis=2)


@writes("_delta_rule")
def _delta_rule(
    g: Graph, y: Tensor, state: Tensor, query: Tensor, key: Tensor, value: Tensor, rate: Tensor, decay: Tensor
) -> str:  # fmt: skip
    """Of nn/recurrent/delta_rule.py."""
    nodes = """
        kept = Mul(before, decay)
        seen = MatMul(key, kept)
        missing = Sub(value, seen)
        added = Mul(written, missing)
        after = Add(kept, added)
        row = MatMul(query, after)
    """
    names = {"query": g.named(query), "key": g.named(key), "value": g.named(value)}
    written = g.node("Mul", [g.named(key), g.named(rate)])
    columns = {"written": written, "decay": g.node("Exp", [g.named(decay)])}
    return _matrices(g, nodes, state, names, columns, y.dtype.name)


@writes("_general_rule")
def _general_rule(
    g: Graph, y: Tensor, state: Tensor, query: Tensor, decay: Tensor, key: Tensor, value: Tensor, removed: Tensor,
    written: Tensor,
) -> str:  # fmt: skip
    """Of nn/recurrent/delta_rule.py."""
    nodes = """
        kept = Mul(before, decay)
        seen = MatMul(removed, before)
        taken = Mul(written, seen)
        given = Mul(key, value)
        change = Sub(given, taken)
        after = Add(kept, change)
        row = MatMul(query, after)
    """
    rows = {"query": g.named(query), "value": g.named(value), "removed": g.named(removed)}
    columns = {"key": g.named(key), "written": g.named(written), "decay": g.node("Exp", [g.named(decay)])}
    return _matrices(g, nodes, state, rows, columns, y.dtype.name)


@writes("_decayed_rule")
def _decayed_rule(
    g: Graph, y: Tensor, state: Tensor, query: Tensor, decay: Tensor, key: Tensor, value: Tensor
) -> str:  # fmt: skip
    """Of nn/recurrent/rwkv.py."""
    nodes = """
        row = MatMul(query, before)
        kept = Mul(before, decay)
        added = Mul(key, value)
        after = Add(kept, added)
    """
    rows = {"query": g.named(query), "value": g.named(value)}
    columns = {"key": g.named(key), "decay": g.node("Exp", [g.named(decay)])}
    return _matrices(g, nodes, state, rows, columns, y.dtype.name)
