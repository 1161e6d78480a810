"""Moving averages of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..engine import no_grad
from ..engine.op import describe
from .module import Module


class ExponentialMovingAverage:
    """Averages of a module's trainable parameters: after `update()` each is decay * average + (1 - decay) * parameter.

    With `warmup` the decay begins lower, min(decay, (1 + n) / (10 + n)) at update n, so that the start is soon
    forgotten. `with average.applied():` the module computes with the averages; afterwards it has its own values again.
    """

    def __init__(self, module: Module, decay: float = 0.999, warmup: bool = False) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ExponentialMovingAverage: decay must be in [0, 1), got {decay}")
        self.decay = decay
        self.warmup = warmup
        self.count = 0
        self._parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self.averages = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    def update(self) -> None:
        """After each step of the optimiser."""
        self.count += 1
        decay = min(self.decay, (1 + self.count) / (10 + self.count)) if self.warmup else self.decay
        with no_grad():
            for name, parameter in self._parameters.items():
                average = self.averages[name]
                average.copy_(average + (parameter.detach() - average) * (1 - decay))

    def copy_to(self) -> None:
        """Writes the averages into the module."""
        with no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(self.averages[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the module has the averages."""
        own = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self.copy_to()
        try:
            yield
        finally:
            with no_grad():
                for name, parameter in self._parameters.items():
                    parameter.copy_(own[name])

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "decay": self.decay, "averages": dict(self.averages)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what state_dict gave; tensors are copied. ValueError where names or shapes differ."""
        found = state["averages"]
        if found.keys() != self.averages.keys():
            raise ValueError(f"load_state_dict: averages of {sorted(found)}, the module has {sorted(self.averages)}")
        for name, own in self.averages.items():
            if found[name].shape != own.shape:
                raise ValueError(f"load_state_dict: {name} is {describe(found[name])}, the module's {describe(own)}")
        self.count, self.decay = int(state["count"]), float(state["decay"])
        self.averages = {name: found[name].detach().clone() for name in self.averages}
