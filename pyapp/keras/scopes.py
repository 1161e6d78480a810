"""`keras.name_scope` and `keras.device`: what is made inside has a longer path, or is on a device.
`keras.StatelessScope`: variables have other values inside."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyapp

from ..engine import Device, Tensor, no_grad, ops
from ..train.stateless import SCOPES, geometry
from ..train.variable import Variable
from .call_state import STATE


class name_scope:
    """Inside, the paths of layers and variables that are made begin with this name. ValueError for a name with a slash,
    or for none."""

    def __init__(self, name: str, caller: Any = None) -> None:
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"name_scope: takes a name without slashes, not {name!r:.60}")
        self.name = name
        self._before: list[Any] = []

    def __enter__(self) -> name_scope:
        self._before.append(STATE.scope)
        STATE.scope = (*STATE.scope, SimpleNamespace(name=self.name))
        return self

    def __exit__(self, *_: Any) -> None:
        STATE.scope = self._before.pop()


class StatelessScope:
    """Inside, variables have the values of `state_mapping`, pairs of a variable and a value, and what is written to any
    variable is forgotten at the end: `get_current_value` tells it, inside and afterwards. With `collect_losses`,
    `losses` has what layers added. `initialize_variables` is accepted: variables have values when they are made.

    No gradients are recorded inside; `stateless_call` has them. ValueError for a value of another shape.
    """

    def __init__(
        self, state_mapping: Any = None, collect_losses: bool = False, initialize_variables: bool = True
    ) -> None:
        self.collect_losses, self.initialize_variables = collect_losses, initialize_variables
        self.losses: list[Any] = []
        self._given: list[tuple[Variable, Tensor]] = []
        for variable, value in state_mapping or ():
            if not isinstance(variable, Variable):
                raise ValueError(f"StatelessScope: takes pairs of a variable and a value, got {variable!r:.60}")
            tensor = ops.as_tensor(value).to(dtype=variable.dtype, device=variable.device)
            if tensor.shape != variable.shape:
                raise ValueError(f"StatelessScope: {variable.path} has the shape {variable.shape}, not {tensor.shape}")
            self._given.append((variable, tensor.detach().clone()))
        self._own: dict[int, tuple[Variable, Any]] = {}  # the variables that are changed, and where their values lie
        self._found: dict[int, Tensor] = {}  # the values at the end
        self._around: Any = None

    def __enter__(self) -> StatelessScope:
        self._around, SCOPES.current = SCOPES.current, self
        self._no_grad = no_grad()
        self._no_grad.__enter__()
        for variable, value in self._given:
            self._put(variable, value.clone())
        return self

    def __exit__(self, *details: Any) -> None:
        self._found = {key: variable.detach() for key, (variable, _) in self._own.items()}
        for variable, place in self._own.values():
            variable.point_to(*place)
        self._own.clear()
        self._no_grad.__exit__(*details)
        SCOPES.current = self._around

    def _put(self, variable: Variable, value: Tensor) -> None:
        self._own.setdefault(id(variable), (variable, geometry(variable)))
        variable.point_to(*geometry(value))

    def take(self, variable: Variable) -> None:
        """Gives a variable that is about to be written memory for the time of the scope."""
        if id(variable) not in self._own:
            self._put(variable, variable.detach().clone())

    def add_loss(self, loss: Any) -> None:
        """Adds to `losses`, if they are collected."""
        if self.collect_losses:
            self.losses.append(loss)

    def add_update(self, update: Any) -> None:
        """Writes a value, given with its variable as a pair."""
        variable, value = update
        variable.assign(value)

    def get_current_value(self, variable: Any) -> Tensor | None:
        """The value of a variable inside, or at the end; None for one that has its own all the time."""
        if id(variable) in self._own:
            return variable.detach().clone()
        return self._found.get(id(variable))


def device(device_name: Any) -> Device:
    """A device as a context manager, in which tensors and weights are made there: "cpu", "gpu:0", "cuda:0"."""
    name = str(device_name).lower()
    kind, _, index = name.partition(":")
    if kind == "cpu":
        return pyapp.device("cpu")
    return pyapp.device(f"cuda:{index or 0}") if kind == "gpu" else pyapp.device(name)
