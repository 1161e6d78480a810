"""Optimisers by Keras' names, with its formulas and defaults. They follow a float or a schedule.

`keras.optimizers.schedules` has the schedules. Here are those that are made of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..engine import Tensor, float32, no_grad, ops
from ..engine.element_programs import ElementProgram, HeldNumbers
from ..engine.launch import recorder, run_at_replays, stop_capture
from ..engine.ops.element_updates import update_elements
from ..engine.storage import Storage
from ..engine.tensor import make
from ..train.floats import floatx
from . import schedules
from .importable import importable
from .lookup import Configured, Lookup, as_json
from .lookup import serialize as serialize
from .not_there import lacking
from .optimizer_base import Optimizer, paired, require_gradients
from .optimizer_numbers import Count, Setting, number_variable
from .optimizer_rules import (
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Ftrl,
    Lamb,
    Lion,
    Muon,
    Nadam,
    RMSprop,
    ScheduleFreeAdamW,
)

__all__ = [
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Lamb",
    "Lion",
    "LossScaleOptimizer",
    "MultiOptimizer",
    "Muon",
    "Nadam",
    "Optimizer",
    "OptimizerMap",
    "RMSprop",
    "ScheduleFreeAdamW",
    "schedules",
]


class LossScaleOptimizer(Optimizer):
    """Another optimiser for gradients of short floats: the loss is multiplied by a scale, which doubles after
    `dynamic_growth_steps` steps; steps whose gradients are not finite are left out, and halve it.

    A step in a Graph writes the weights and states back that it began with, if a gradient is not finite, and says so in
    `_finite`. The host reads that before the next step, or when it is asked for the scale or the number of steps.
    """

    def __init__(
        self, inner_optimizer: Any, initial_scale: float = 2.0**15, dynamic_growth_steps: int = 2000,
        name: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(0.0, name=name, **settings)
        if any(value is not None and value is not False and value != 0.99 for value in settings.values()):
            raise ValueError(f"LossScaleOptimizer: {', '.join(settings)} are settings of the inner optimiser")
        if dynamic_growth_steps < 1 or not initial_scale > 0:
            raise ValueError("LossScaleOptimizer: dynamic_growth_steps is at least 1, initial_scale positive")
        self._inner: Optimizer = get(inner_optimizer)
        self._inner.loss_scale_factor = None
        self.schedule = self._inner.schedule
        self.initial_scale, self.dynamic_growth_steps = float(initial_scale), dynamic_growth_steps
        self._scale, self._counter = self.initial_scale, 0
        self._held = HeldNumbers((self._scale,))  # of steps in Graphs
        self._finite: Tensor | None = None  # float32 (): 1 if the last step in a Graph changed the weights, else 0
        self._waits = False  # whether such a step has not been looked at

    def get_config(self) -> dict[str, Any]:
        return {**Configured.get_config(self), "name": self.name}

    def __getstate__(self) -> dict[str, Any]:
        self._look()
        return {**super().__getstate__(), "_held": None, "_finite": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._held = HeldNumbers((self._scale,))

    def _look(self) -> None:
        """Counts the last step of a Graph, or takes it back, if the host has not done so yet."""
        if self._waits:
            assert self._finite is not None
            self._waits = False
            finite = bool(self._finite.item())
            if not finite:
                self._inner.uncount()
            self._fit_scale(finite)

    def _fit_scale(self, finite: bool) -> None:
        """Changes the scale after a step, or after one that was left out."""
        self._counter = self._counter + 1 if finite else 0
        if not finite:
            self._scale /= 2
        elif self._counter == self.dynamic_growth_steps:
            self._counter, self._scale = 0, self._scale * 2

    @property
    def inner_optimizer(self) -> Optimizer:
        """The optimiser that makes the steps."""
        self._look()
        return self._inner

    @property
    def dynamic_scale(self) -> float:
        """What the loss of the next step is multiplied by."""
        self._look()
        return self._scale

    @dynamic_scale.setter
    def dynamic_scale(self, value: float) -> None:
        self._look()
        self._scale = value

    @property
    def step_counter(self) -> int:
        """How many steps were made since the scale has changed."""
        self._look()
        return self._counter

    @step_counter.setter
    def step_counter(self, value: int) -> None:
        self._look()
        self._counter = value

    @property
    def iterations(self) -> Count:
        """How many steps have changed the weights."""
        inner = self.__dict__.get("_inner")  # the constructor of the base has none yet
        if inner is None:
            return Count(self, 0)
        self._look()
        return Count(self, inner.iterations)

    @iterations.setter
    def iterations(self, value: int) -> None:
        if "_inner" in self.__dict__:
            self._look()
            self._inner.iterations = value

    @property
    def learning_rate(self) -> Setting:
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self.inner_optimizer.learning_rate = value

    @property
    def variables(self) -> list[Tensor]:
        """In Keras' order: two numbers that stay 0 (the steps and the learning rate are the inner optimiser's), the
        counter and the scale, then the variables of the inner optimiser."""

        def unused(value: Any) -> None:
            """What is assigned has no effect, as in Keras."""

        own = [
            number_variable(0, "int32", f"{self.name}/iteration", unused),
            number_variable(0.0, floatx(), f"{self.name}/learning_rate", unused),
        ]
        if self.built:
            own += [
                number_variable(
                    self.step_counter, "int32", f"{self.name}/step_counter", lambda n: setattr(self, "step_counter", n)
                ),
                number_variable(
                    self.dynamic_scale, "float32", f"{self.name}/dynamic_scale",
                    lambda scale: setattr(self, "dynamic_scale", scale),
                ),
            ]  # fmt: skip
        return [*own, *self.inner_optimizer.variables]

    def build(self, variables: Iterable[Tensor]) -> None:
        self._inner.build(variables)
        self._weights = self._inner._weights
        self.built = True

    def _prepare(self) -> None:
        """Before a step of a Graph: the scale is that after the last step."""
        self._look()
        self._held.renew((self._scale,))

    def _scale_of(self, x: Tensor) -> Any:
        """The scale for a product with x."""
        if recorder() is None:
            return self.dynamic_scale
        run_at_replays(self._prepare)
        return self._held.each(x.device)[0].to(x.dtype)

    def scale_loss(self, loss: Any) -> Any:
        return loss * self._scale_of(ops.as_tensor(loss))

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        weights = list(self._inner._weights if trainable_variables is None else trainable_variables)
        pairs = paired(self, grads, weights)
        require_gradients(self, pairs, weights)
        if not pairs:
            return
        every, weights = weights, [w for _, w in pairs]
        with no_grad():
            if self._inner.gradient_accumulation_steps:
                stop_capture("LossScaleOptimizer around an optimiser that gathers gradients: some steps change nothing")
            self.build(every)
            scale = self._scale_of(pairs[0][0])
            given = [g / scale for g, _ in pairs]
            if recorder() is None:
                finite = all(bool(g.isfinite().all()) for g, _ in pairs)
                if finite:
                    self._inner.apply(given, weights)
                self._fit_scale(finite)
                return
            # A finite number times 0 is 0, anything else is not a number; so are sums with it.
            zeros = sum(((g * 0.0).sum() for g, _ in pairs[1:]), (pairs[0][0] * 0.0).sum())
            if self._finite is None or self._finite.device is not zeros.device:
                self._finite = make(Storage.outside_graphs(4, zeros.device), (), (), float32)
            self._finite.copy_(zeros == 0.0)
            written = [*weights, *(state for weight in weights for state in self._inner._states(weight).values())]
            before = [x.clone() for x in written]
            self._inner.apply(given, weights)
            for x, old in zip(written, before, strict=True):
                flag = self._finite if x.dtype is float32 else self._finite.to(x.dtype)
                update_elements(x, (old, flag), _KEPT, ())
        run_at_replays(self._wait)

    def _wait(self) -> None:
        self._waits = True

    def finalize_variable_values(self, var_list: Iterable[Tensor]) -> None:
        self.inner_optimizer.finalize_variable_values(var_list)

    def state_dict(self) -> dict[str, Any]:
        inner = self.inner_optimizer.state_dict()
        scaling = {"dynamic_scale": self.dynamic_scale, "step_counter": self.step_counter}
        return {**inner, "scaling": {**inner["scaling"], **scaling}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.inner_optimizer.load_state_dict(state)
        scaling = state.get("scaling", {})
        self.dynamic_scale = float(scaling.get("dynamic_scale", self.initial_scale))
        self.step_counter = int(scaling.get("step_counter", 0))


_KEPT = ElementProgram(lambda x, old, finite: (x.where(finite != 0, old), None, None), 3, 0)


class OptimizerMap:
    """Optimisers by the paths of weights: a path itself, or a regular expression that it matches as a whole; others
    have `default_optimizer`."""

    keras_module = "keras.optimizers"

    def __init__(self, default_optimizer: Any, optimizer_map: Mapping[str, Any] | None = None) -> None:
        self.default_optimizer: Optimizer = get(default_optimizer)
        self._by_path: dict[str, Optimizer] = {}
        for key, value in (optimizer_map or {}).items():
            self[key] = value

    def __setitem__(self, key: str, optimizer: Any) -> None:
        if key in self._by_path:
            raise ValueError(f"OptimizerMap: {key!r} has an optimiser already")
        if isinstance(optimizer, (LossScaleOptimizer, MultiOptimizer)):
            raise ValueError(f"OptimizerMap: takes no {type(optimizer).__name__}")
        self._by_path[key] = get(optimizer)

    def __getitem__(self, path: str) -> Optimizer:
        if path in self._by_path:
            return self._by_path[path]
        found = [optimizer for pattern, optimizer in self._by_path.items() if re.fullmatch(pattern, path)]
        if len(found) > 1:
            raise ValueError(f"OptimizerMap: several patterns match {path!r}")
        return found[0] if found else self.default_optimizer

    def __len__(self) -> int:
        return len(self._by_path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_path)

    def values(self) -> list[Optimizer]:
        """The optimisers, without the default one."""
        return list(self._by_path.values())

    def __call__(self, variable: Tensor) -> Optimizer:
        return self[str(getattr(variable, "path", ""))]

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"default_optimizer": as_json(self.default_optimizer), "optimizer_map": as_json(self._by_path)}


class MultiOptimizer(Optimizer):
    """Several optimisers, each for some of the weights, which an OptimizerMap (or a function of a weight) chooses."""

    def __init__(self, optimizer_map: Any, loss_scale_factor: float | None = None, name: str | None = None) -> None:
        super().__init__(0.0, loss_scale_factor=loss_scale_factor, name=name)
        if isinstance(optimizer_map, Mapping):
            optimizer_map = OptimizerMap(**optimizer_map.get("config", optimizer_map))
        if not callable(optimizer_map):
            raise TypeError(f"MultiOptimizer: takes an OptimizerMap or a function, not {optimizer_map!r:.60}")
        self.optimizer_map = optimizer_map
        self.optimizers: list[Optimizer] = []

    def get_config(self) -> dict[str, Any]:
        return {**Configured.get_config(self), "name": self.name}

    @property
    def learning_rate(self) -> Setting:
        raise AttributeError("each of the optimisers of a MultiOptimizer has a learning rate of its own")

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        raise AttributeError("each of the optimisers of a MultiOptimizer has a learning rate of its own")

    def _groups(self, weights: Iterable[Tensor]) -> list[tuple[Optimizer, list[Tensor]]]:
        groups: dict[int, tuple[Optimizer, list[Tensor]]] = {}
        for weight in weights:
            chosen = self.optimizer_map(weight)
            groups.setdefault(id(chosen), (chosen, []))[1].append(weight)
        return list(groups.values())

    def build(self, variables: Iterable[Tensor]) -> None:
        for optimizer, weights in self._groups(variables):
            if all(optimizer is not known for known in self.optimizers):
                self.optimizers.append(optimizer)
            optimizer.build(weights)
            self._weights += [w for w in weights if all(w is not known for known in self._weights)]
        self.built = True

    @property
    def variables(self) -> list[Tensor]:
        return [state for optimizer in self.optimizers for state in optimizer.variables]

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        weights = list(self._weights if trainable_variables is None else trainable_variables)
        scale = self.loss_scale_factor
        by_weight = {id(w): g for g, w in zip(grads, weights, strict=True) if g is not None}
        self.build(w for w in weights if id(w) in by_weight)
        for optimizer, group in self._groups(w for w in weights if id(w) in by_weight):
            own = [by_weight[id(w)] for w in group]
            optimizer.apply(own if scale is None else [g / scale for g in own], group)
        self.iterations += 1
        recording = recorder()
        if recording is not None:
            recording.actions.append(self._count)

    def _count(self) -> None:
        self.iterations += 1

    def uncount(self) -> None:
        super().uncount()
        for optimizer in self.optimizers:
            optimizer.uncount()

    def finalize_variable_values(self, var_list: Iterable[Tensor]) -> None:
        for optimizer, weights in self._groups(var_list):
            optimizer.finalize_variable_values(weights)

    def _states(self, weight: Tensor) -> dict[str, Tensor]:
        chosen: Optimizer = self.optimizer_map(weight)
        return chosen._states(weight)

    def state_dict(self) -> dict[str, Any]:
        rates = [optimizer.state_dict()["learning_rate"] for optimizer in self.optimizers]
        return {**super().state_dict(), "learning_rate": None, "scaling": {"learning_rates": rates}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict({**state, "learning_rate": 0.0})
        rates = state.get("scaling", {}).get("learning_rates", [])
        for optimizer, rate in zip(self.optimizers, rates, strict=False):
            optimizer._rate = float(rate)
        for optimizer in self.optimizers:
            optimizer.iterations = self.iterations


_lookup = Lookup("optimizer", globals(), Optimizer, {name.lower(): name for name in __all__})
get, deserialize = _lookup.get, _lookup.deserialize
importable(__name__, schedules=schedules)


def __getattr__(name: str) -> Any:
    """The error for names that are not there, which says what to use instead of those of Keras."""
    raise lacking(__name__, name)
