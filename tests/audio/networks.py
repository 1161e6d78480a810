"""Hand-made ONNX networks with the inputs and outputs of those for speech and for speakers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pyapp.formats.protobuf import bytes_field
from tests.onnx import builder as b

OLD, BATCHED = "old", "batched"


def speech_network(
    kind: str = "", *, input: str = "input", state: str = "state", width: int | str = "samples",
    state_shape: Sequence[int | str] | None = None, without_state: bool = False, root: bool = False,
    several: bool = False,
) -> bytes:  # fmt: skip
    """Speech is what has power: the probability is high from 1e-3 on. The state counts the chunks. `root`: its
    logarithm instead, which is not a number for silence after sound; `several`: a probability for each sample.
    """
    size = 64 if kind == OLD else 128
    states = ["h", "c"] if kind else [state]
    shapes = [state_shape or ([1, 1, size] if kind == BATCHED else [2, "batch", size])] * len(states)
    outputs = ["hn", "cn"] if kind else ["stateN"]
    columns = [576] if kind == BATCHED else [width]
    constants = [
        b.tensor("axes", np.array([1], np.int64)), b.tensor("least", np.float32(1e-3)),
        b.tensor("steep", np.float32(1e4)), b.tensor("one", np.float32(1)),
    ]  # fmt: skip
    nodes = [
        b.node("Mul", [input, input], ["power"]),
        b.node("ReduceMean", ["power", "axes"], ["mean"], keepdims=1),  # (batch, 1)
        b.node("Sub", ["mean", "least"], ["over"]),
        b.node("Sqrt", ["less"], ["probability"]) if root else b.node("Sigmoid", ["scaled"], ["probability"]),
        *(b.node("Add", [name, "one"], [after]) for name, after in zip(states, outputs, strict=True)),
    ]
    nodes.insert(
        3, b.node("Sub", ["least", "mean"], ["less"]) if root else b.node("Mul", ["over", "steep"], ["scaled"])
    )
    made = "power" if several else "probability"
    inputs = [b.value(input, ["batch", *columns])]
    inputs += [b.value(name, shape) for name, shape in zip(states, shapes, strict=True)]
    if kind != BATCHED:
        inputs.append(b.value("sr", [], "int64"))
    results = [b.value(made, ["batch", "n"])]
    results += [] if without_state else [b.value(name, shape) for name, shape in zip(outputs, shapes, strict=True)]
    return b.model(b.graph(nodes, inputs, results, constants))


def speaker_network(
    shape: Sequence[int | str] = ("batch", "frames", 80), *, input: str = "feats",
    metadata: Mapping[str, str] | None = None, element: str = "float32", wrong: str | None = None,
    second: bool = False, logits: bool = False, spectrum: bool = False,
) -> bytes:  # fmt: skip
    """The vector of filter banks is their mean over time, or with `spectrum` that of the square roots of the power; the
    vector of samples is their mean, and the mean of their squares.
    `wrong`: "nan" or "zero" vectors, or "frames": the input itself.
    """
    samples = len(shape) != 3 or shape[1] == 1
    axis, kept = len(shape) - 1 if samples else 1, int(len(shape) == 2)
    factor = np.float32(np.nan if wrong == "nan" else 0)
    constants = [b.tensor("axes", np.array([axis], np.int64)), b.tensor("factor", factor)]
    nodes = [b.node("ReduceMean", [input, "axes"], ["first" if samples else "mean"], keepdims=kept)]
    if spectrum:
        constants.append(b.tensor("half", np.float32(0.5)))
        nodes = [
            b.node("Mul", [input, "half"], ["root"]),
            b.node("Exp", ["root"], ["amplitude"]),
            b.node("ReduceMean", ["amplitude", "axes"], ["mean"], keepdims=0),
        ]
    if samples:
        nodes += [
            b.node("Mul", [input, input], ["squares"]),
            b.node("ReduceMean", ["squares", "axes"], ["second"], keepdims=kept),
            b.node("Concat", ["first", "second"], ["mean"], axis=-1),
        ]
    made = "mean"
    if wrong in ("nan", "zero"):
        nodes.append(b.node("Mul", ["mean", "factor"], ["wrong"]))
        made = "wrong"
    outputs = [b.value(input if wrong == "frames" else made, ["batch", "size"])]
    if logits:
        nodes.append(b.node("Identity", ["axes"], ["logits"]))
        outputs.insert(0, b.value("logits", [1], "int64"))
    inputs = [b.value(input, shape, element)] + ([b.value("length", [1], "int64")] if second else [])
    pairs = (bytes_field(14, bytes_field(1, key) + bytes_field(2, value)) for key, value in (metadata or {}).items())
    return b.model(b.graph(nodes, inputs, outputs, constants)) + b"".join(pairs)
