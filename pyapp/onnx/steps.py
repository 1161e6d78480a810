"""The steps of a program: nodes that are ready to run, with the graphs that they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.budget import OverBudget
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OperationError

from .registry import Operator
from .values import MORE_MEMORY, made_of

_MISTAKES = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    ArithmeticError,
    AttributeError,
    NotImplementedError,
    OperationError,
)
Plans = dict  # how a graph runs, by the kinds of its inputs


class Runnable(Protocol):
    """A graph of a node, as `program.Program` is."""

    name: str
    inputs: list[str]
    outputs: list[str]
    captures: list[str]
    output_types: list[Any]
    device: Any

    def run(self, given: dict[str, Any], known: frozenset[str], plans: Any) -> list[Any]: ...


@dataclass
class Step:
    """A node that is ready to run."""

    operator: Operator
    title: str
    inputs: list[str]
    outputs: list[str]
    settings: dict[str, Any]
    bodies: Mapping[str, Runnable]
    captures: list[str]
    last_uses: list[str] = field(default_factory=list)  # values that no later step takes
    device: Any = None  # where its results belong; None: the CPU
    places: Mapping[str, str] = field(default_factory=dict)  # where captured values are if not under their own names

    def call(self, env: dict[str, Any], known: Any, plans: dict[str, Plans]) -> tuple[Any, ...]:
        """The results of the node; `plans` keeps those of its graphs."""
        settings = self.settings
        if self.bodies:
            settings = dict(settings)
            for name, body in self.bodies.items():
                places = {captured: self.places.get(captured, captured) for captured in body.captures}
                settings[name] = Body(body, places, env, known, plans.setdefault(name, Plans()))
        try:
            found = self.operator.function(*[env[name] if name else None for name in self.inputs], **settings)
        except ModelError:
            raise
        except OverBudget as error:
            raise ModelError(f"{self.title}: {error}", hint=MORE_MEMORY) from error
        except MemoryError as error:
            raise MemoryError(f"{self.title}: there is no memory for its result, or on the way to it") from error
        except _MISTAKES as error:
            what = getattr(error, "message", None) or str(error) or type(error).__name__
            raise ModelError(f"{self.title}: {what}") from error
        found = found if isinstance(found, tuple) else (found,)
        return found if self.device is None else tuple(placed(value, self.device) for value in found)


def placed(value: Any, device: Any) -> Any:
    """A value on a device: what operators compute on the host (shapes, masks) begins on the CPU."""
    if isinstance(value, Tensor):
        return value if value.device is device else value.to(device)
    return [placed(part, device) for part in value] if isinstance(value, list) else value


class Body:
    """A graph within a node. `places` says under which names of `env` the values are that it takes from around it;
    those in `known` stay the same."""

    def __init__(
        self, program: Runnable, places: dict[str, str], env: dict[str, Any], known: Any, plans: Plans
    ) -> None:
        self._program, self._plans = program, plans
        self._captured = {name: env[place] for name, place in places.items()}
        self._known = frozenset(name for name, place in places.items() if place in known)
        self.outputs = len(program.outputs)

    def __call__(self, *inputs: Any) -> list[Any]:
        names = self._program.inputs
        if len(inputs) != len(names):
            raise ValueError(f"its graph {self._program.name!r} has {len(names)} inputs, it gets {len(inputs)}")
        if self._program.device is not None:
            inputs = tuple(placed(value, self._program.device) for value in inputs)
        return self._program.run(self._captured | dict(zip(names, inputs, strict=True)), self._known, self._plans)

    def empty(self, output: int) -> Any:
        """The empty stack of an output that has no results."""
        kind = self._program.output_types[output]
        sizes = [size if isinstance(size, int) else 0 for size in kind.shape or ()]
        return made_of(np.zeros([0, *sizes], np.float32), kind.element or "float32")


class Eager:
    """A step that runs as it is."""

    def __init__(self, step: Step, plans: dict[str, Any], host: bool) -> None:
        self.step, self.plans, self.host = step, plans, host

    def run(self, env: dict[str, Any], known: Any) -> None:
        step = self.step
        for name, value in zip(step.outputs, step.call(env, known, self.plans), strict=False):
            if name:
                env[name] = value
        for name in step.last_uses:
            if name not in known:
                env.pop(name, None)
