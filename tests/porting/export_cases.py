"""Exported programs, for `cases`."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np


def _rows(t: Any, *shape: int, seed: int = 0) -> Any:
    return t.from_numpy(np.random.RandomState(seed).randn(*shape).astype("float32"))


def _filled(t: Any, model: Any) -> Any:
    with t.no_grad():
        for name, value in model.named_parameters():
            value.copy_(_rows(t, *value.shape, seed=sum(name.encode())))
    return model


def _branching(t: Any) -> Any:
    """A module with conditions and loops of sizes, dtypes, settings and its mode."""

    class Branching(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = t.nn.ModuleList(t.nn.Linear(4, 4) for _ in range(2))
            self.norm, self.drop = t.nn.BatchNorm1d(4), t.nn.Dropout(0.5)
            self.register_buffer("shift", t.ones(4))
            self.scale = t.full((1,), 2.0)

        def forward(self, x: Any, k: float = 2.0, *, y: Any = None, pair: Any = None) -> Any:
            batch, width = x.shape
            for layer in self.layers:
                x = t.tanh(layer(x))
            if width % 2 == 0 and x.dtype == t.float32 and len(x.shape) == 2:
                x = self.drop(self.norm(x)) + self.shift
            if y is not None:
                x = x + y
            x = t.nn.functional.dropout(x, 0.5, self.training).reshape(batch, -1)
            more = None if pair is None else pair[0] + pair[1]["q"]
            return {"out": x * k + self.scale, "parts": [x * 2, x.relu()], "more": more}

    return _filled(t, Branching())


def _kinds(*calls: Any) -> list[str]:
    """The kinds of Python's errors that calls raise."""
    usual = ("NotImplementedError", "RuntimeError", "ValueError", "TypeError", "AssertionError")
    found = []
    for call in calls:
        try:
            call()
            found.append("none")
        except Exception as error:
            found.append(next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in usual))
    return found


def _exported(t: Any) -> list[Any]:
    make = import_module(f"{t.__name__}.export")
    model, x = _branching(t).eval(), _rows(t, 3, 4)
    given = {"y": _rows(t, 3, 4, seed=1), "pair": (_rows(t, 2), {"q": _rows(t, 2, seed=1)})}
    exported = make.export(model, (x,), given)
    program = exported.module()
    model.train()  # which the program does not follow
    found = program(x, **given)
    found["out"].sum().backward()
    signature = exported.graph_signature
    return [
        found["out"], found["parts"], found["more"], list(signature.user_inputs), len(signature.user_outputs),
        list(signature.parameters), sorted(exported.state_dict), model.layers[0].weight.grad,
        *_kinds(
            lambda: program(_rows(t, 5, 4), **given), lambda: program(x), lambda: program(x, 3.0, **given),
            lambda: program(x, z=1, **given), lambda: program(x[0], **given), lambda: exported(x),
            lambda: program.train(), lambda: program.eval(),
        ),
    ]  # fmt: skip


def _of_several_sizes(t: Any) -> list[Any]:
    make = import_module(f"{t.__name__}.export")
    model, batch = _branching(t).eval(), make.Dim("batch", min=1, max=8)
    settings = {"dynamic_shapes": {"x": {0: batch}, "y": {0: batch}}}
    program = make.export(model, (_rows(t, 3, 4),), {"y": _rows(t, 3, 4)}, **settings).module()
    plain = make.export(t.nn.ReLU(), (_rows(t, 3, 2),), dynamic_shapes=({0: make.Dim.DYNAMIC},)).module()

    class ByValue(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    return [
        program(_rows(t, 5, 4), y=_rows(t, 5, 4))["out"], plain(_rows(t, 6, 2)),
        *_kinds(
            lambda: program(_rows(t, 9, 4), y=_rows(t, 9, 4)), lambda: program(_rows(t, 5, 4), y=_rows(t, 4, 4)),
            lambda: program(_rows(t, 5, 5), y=_rows(t, 5, 5)), lambda: make.export(ByValue(), (t.ones(3),)),
            lambda: make.export(lambda x: x, (t.ones(1),)), lambda: make.export(model, t.ones(3, 4)),
            lambda: make.export(model, (t.ones(1), 1.0, t.ones(1))),
            lambda: make.export(model, (t.ones(3, 4),), dynamic_shapes={"q": {0: batch}}),
            lambda: make.export(t.nn.ReLU(), (t.ones(9, 4),), dynamic_shapes=({0: batch},)),
            lambda: make.export(model, (t.ones(3, 4),), {"y": t.ones(1, 4)}, **settings),
        ),
    ]  # fmt: skip


def _writing(t: Any) -> list[Any]:
    """Modules whose forward writes to a buffer, and to an attribute."""

    class Counting(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", t.zeros(1))

        def forward(self, *xs: Any) -> Any:
            self.count.add_(1)
            return xs[0] * xs[1] + self.count

    class Keeping(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            self.last = x * 2
            return self.last

    make = import_module(f"{t.__name__}.export")
    keeping, counting, length = Keeping(), Counting(), make.Dim("length")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the program does not assign the attribute
        kept = make.export(keeping, (t.ones(3),)).module()
    sizes = (({0: length}, {0: length}),)
    counted = make.export(counting, (t.ones(2), t.ones(2)), dynamic_shapes=sizes).module()
    left = counting.count.clone()
    every = [counted(t.ones(3), t.ones(3)), counted(t.ones(1), t.ones(1)), kept(t.zeros(3))]
    return [left, *every, type(vars(keeping).get("last")).__name__ == "Proxy"]


def calls() -> dict[str, Any]:
    """The cases by name."""
    return {
        "exported": _exported,
        "exported for several sizes": _of_several_sizes,
        "exported with what it writes": _writing,
    }
