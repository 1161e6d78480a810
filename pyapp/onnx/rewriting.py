"""The steps of a graph while patterns in them are replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf, isclose
from typing import Any

from pyapp.engine import Tensor

from .registry import internal
from .steps import Eager, Step
from .values import scalar


class Graph:
    """The steps, and who makes and takes each value."""

    def __init__(
        self, steps: list[Eager], env: dict[str, Any], fixed: set[str], outputs: set[str], layouts: dict[str, Any]
    ) -> None:
        self.steps, self.env, self.fixed, self.outputs, self.layouts = steps, env, fixed, outputs, layouts
        self.made: dict[str, Any] = {}  # new constants
        self.index()

    def index(self) -> None:
        self.maker = {name: item for item in self.steps for name in item.step.outputs if name}
        self.uses = Counter(name for item in self.steps for name in (*item.step.inputs, *item.step.captures) if name)

    def number(self, name: str) -> float | None:
        """The number of a constant of one element."""
        value = self.made.get(name, self.env.get(name)) if name in self.fixed or name in self.made else None
        return float(scalar(value)) if isinstance(value, Tensor) and value.numel() == 1 else None

    def is_number(self, name: str, wanted: float) -> bool:
        found = self.number(name)
        return found is not None and isclose(found, wanted, rel_tol=1e-4)

    def made_by(self, name: str, op: str, single: bool = True) -> Eager | None:
        """The step that makes a value, if it is of an operator; `single`: and only one step takes the value."""
        item = self.maker.get(name)
        if item is None or item.step.operator.name != op or (single and (self.uses[name] != 1 or name in self.outputs)):
            return None
        return item

    def taker(self, name: str) -> Eager | None:
        """The only step that takes a value."""
        if self.uses[name] != 1 or name in self.outputs:
            return None
        return next((item for item in self.steps if name in item.step.inputs), None)

    def other(self, item: Eager, name: str) -> str:
        """The other input of an operator of two."""
        first, second = item.step.inputs
        return second if first == name else first

    def constant_and(self, item: Eager, wanted: float | None = None) -> tuple[str, float] | None:
        """(the other input, the number) of an operator of two whose one input is a number."""
        for at in (1, 0):
            found = self.number(item.step.inputs[at])
            if found is not None and (wanted is None or isclose(found, wanted, rel_tol=1e-4)):
                return item.step.inputs[1 - at], found
        return None

    def limits(self, item: Eager) -> tuple[float, float] | None:
        """Between which numbers a Relu or Clip holds its input, if they are known."""
        step = item.step
        if step.operator.name == "Relu":
            return 0.0, inf
        if step.operator.name != "Clip":
            return None
        if len(step.inputs) == 1:
            low, high = (step.settings.get(name) for name in ("min", "max"))
        else:
            given = [*step.inputs[1:], ""][:2]
            low, high = (self.number(name) if name else None for name in given)
            if any(name and bound is None for name, bound in zip(given, (low, high), strict=True)):
                return None
        limits = -inf if low is None else low, inf if high is None else high
        return limits if limits[0] <= limits[1] else None

    def replace(
        self, last: Eager, gone: list[Eager], function: Callable[..., Any], inputs: list[str], **settings: Any
    ) -> None:
        """One step in the place of the last one of a pattern."""
        dead = {id(item) for item in gone}
        made = Step(internal(function), last.step.title, inputs, last.step.outputs[:1], settings, {}, [])
        new = Eager(made, {}, False)
        self.steps = [new if item is last else item for item in self.steps if item is last or id(item) not in dead]
        self.index()
