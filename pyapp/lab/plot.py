"""Curves of a cell. They can grow while a model trains."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from pyapp.train.callbacks import Callback, Logs

from .output import in_page, new_id, show, show_later

MOST_CURVES = 12
MOST_POINTS = 4000  # of a curve on the screen; of more, every second one is dropped
INTERVAL = 0.2  # seconds between two drawings of curves that grow


def plot(*values: Any, title: str = "", x_label: str = "", y_label: str = "", points: bool = False) -> None:
    """Shows curves: plot(y), plot(x, y), plot({"sine": y1, "cosine": y2}) or plot(x, {"sine": y1, …}).

    Curves are lists, arrays or tensors of one dimension, all of the length of `x`. `points` draws dots, not lines.
    """
    if not 1 <= len(values) <= 2:
        raise TypeError(f"plot: takes y, or x and y, not {len(values)} values")
    given = values[-1]
    named = given if isinstance(given, Mapping) else {"": given}
    curves = {str(name): numbers(curve, f"curve {str(name) or 'y'!r}") for name, curve in named.items()}
    if not 1 <= len(curves) <= MOST_CURVES:
        raise ValueError(f"plot: 1 to {MOST_CURVES} curves, not {len(curves)}")
    length = len(next(iter(curves.values())))
    given_x = numbers(values[0], "x") if len(values) == 2 else [float(i) for i in range(length)]
    for name, curve in curves.items():
        if len(curve) != len(given_x):
            raise ValueError(f"plot: curve {name or 'y'!r} has {len(curve)} points, and x has {len(given_x)}")
    places = sorted((value, i) for i, value in enumerate(given_x) if value is not None)
    x = [value for value, _ in places]
    curves = {name: [curve[i] for _, i in places] for name, curve in curves.items()}
    send_curves(None, x, curves, title, x_label, y_label, points)


class Curves:
    """Curves that grow. `add(step, loss=0.3, accuracy=0.8)` adds a point to each; `levels` are horizontal lines.

    The drawing follows at most five times a second, and when the cell ends; `draw()` draws at once.
    """

    def __init__(self, title: str = "", x_label: str = "step", y_label: str = "") -> None:
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.x: list[float] = []
        self.curves: dict[str, list[float | None]] = {}
        self._id = new_id()
        self._drawn = -math.inf
        self._every, self._seen = 1, 0

    def add(self, step: float, **values: float) -> None:
        """Adds the values of a step, which is larger than those before."""
        if self.x and not step > self.x[-1]:
            raise ValueError(f"Curves: the steps grow; {step} comes after {self.x[-1]:g}")
        self._seen += 1
        if self._seen % self._every and self.x:
            return
        self.x.append(float(step))
        for name in values:
            if name not in self.curves:
                if len(self.curves) == MOST_CURVES:
                    raise ValueError(f"Curves: {MOST_CURVES} curves at most")
                self.curves[name] = [None] * (len(self.x) - 1)
        for name, curve in self.curves.items():
            curve.append(finite(values[name]) if name in values else None)
        if len(self.x) > MOST_POINTS:
            self._thin()
        if in_page() and time.perf_counter() - self._drawn >= INTERVAL:
            self.draw()
        elif in_page():
            show_later(self._id, self.draw)

    def _thin(self) -> None:
        self._every *= 2
        self.x = self.x[::2]
        self.curves = {name: curve[::2] for name, curve in self.curves.items()}

    def draw(self) -> None:
        """Shows the curves as they are now."""
        self._drawn = time.perf_counter()
        show_later(self._id, None)
        if self.x:
            send_curves(self._id, self.x, self.curves, self.title, self.x_label, self.y_label, False)


class TrainingCurves(Callback):
    """A callback for `fit` that shows the losses and metrics of each epoch while it trains:
    model.fit(x, y, epochs=10, verbose=0, callbacks=[lab.TrainingCurves()]). Losses and metrics have a drawing each.
    """

    def __init__(self) -> None:
        self._drawings: dict[str, Curves] = {}
        self._epochs = 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._drawings = {}
        self._epochs = int(self.params.get("epochs") or 0)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        groups: dict[str, dict[str, float]] = {}
        for name, value in (logs or {}).items():
            if isinstance(value, (int, float)) and name != "learning_rate":
                groups.setdefault(name.removeprefix("val_"), {})[name] = value
        for name, values in groups.items():
            if name not in self._drawings:
                self._drawings[name] = Curves(name, "epoch")
            self._drawings[name].add(epoch + 1, **values)

    def on_train_end(self, logs: Logs | None = None) -> None:
        for curves in self._drawings.values():
            curves.draw()


def numbers(values: Any, what: str) -> list[float | None]:
    """A curve as a list; NaN and infinities become None, which leaves a gap."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().tolist()
    elif hasattr(values, "tolist"):
        values = values.tolist()
    try:
        return [finite(value) for value in values]
    except (TypeError, ValueError) as error:
        raise TypeError(f"plot: {what} is a list of numbers: {error}") from None


def finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def send_curves(
    identity: str | None, x: list[float], curves: Mapping[str, list[float | None]], title: str, x_label: str,
    y_label: str, points: bool,
) -> None:  # fmt: skip
    step = max(1, math.ceil(len(x) / MOST_POINTS))
    output = {
        "kind": "plot", "id": identity, "title": title, "x_label": x_label, "y_label": y_label, "points": points,
        "x": x[::step], "curves": [{"name": name, "y": curve[::step]} for name, curve in curves.items()],
    }  # fmt: skip
    show(output, summary(title, x_label, x, curves))


def summary(title: str, x_label: str, x: list[float], curves: Mapping[str, list[float | None]]) -> str:
    """The curves in words: for prints, and for those who do not see the drawing."""
    told = []
    for name, curve in curves.items():
        there = [value for value in curve if value is not None]
        if there:
            ends = f"from {there[0]:.4g} to {there[-1]:.4g}"
            told.append(f"{name or 'y'} {ends} (lowest {min(there):.4g}, highest {max(there):.4g})")
    span = f"{x_label or 'x'} {x[0]:g} to {x[-1]:g}" if x else "no points"
    return f"[curves{': ' + title if title else ''}, {span}; {'; '.join(told) or 'no values'}]"
