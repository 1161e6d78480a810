"""Gradient checkpointing, by Keras' names: what a layer or a function computes on the way is freed, and the backward
pass computes it again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from ..engine import Tensor, is_grad_enabled
from ..engine.recompute import checkpoint
from .call_state import STATE
from .structures import flatten, map_structure
from .symbolic_tensors import KerasTensor

__all__ = ["RematScope", "remat"]

_MODES = ("full", "activations", "larger_than", "list_of_layers", None)


def remat(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose intermediate values are computed again in the backward pass."""

    @functools.wraps(f)
    def again(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(f, *args, **kwargs)

    return again


class RematScope:
    """Layers that are made inside are computed again in the backward pass. `mode`: "full" all of them, "activations"
    their activations alone, "larger_than" those whose outputs have more than `output_size_threshold` elements,
    "list_of_layers" those with `layer_names`; None none of them.
    """

    def __init__(
        self, mode: str | None = "full", output_size_threshold: int = 1024, layer_names: Iterable[str] | None = None
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"RematScope: mode is one of {', '.join(map(repr, _MODES))}, not {mode!r}")
        self.mode, self.output_size_threshold = mode, output_size_threshold
        self.layer_names = list(layer_names or [])
        self._before: list[Any] = []

    def __enter__(self) -> RematScope:
        self._before.append(STATE.remat)
        STATE.remat = self
        return self

    def __exit__(self, *_: object) -> None:
        STATE.remat = self._before.pop()

    def run(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`layer.call` as the scope says in which the layer was made."""
        call: Callable[..., Any] = layer.call
        if not is_grad_enabled():
            return call(*args, **kwargs)
        if self.mode == "full" or (self.mode == "list_of_layers" and layer.name in self.layer_names):
            return checkpoint(call, *args, **kwargs)
        if self.mode == "larger_than" and self._is_large(layer, args, kwargs):
            return checkpoint(call, *args, **kwargs)
        activation = getattr(layer, "activation", None)
        if self.mode != "activations" or activation is None:
            return call(*args, **kwargs)
        layer.__dict__["activation"] = remat(activation)
        try:
            return call(*args, **kwargs)
        finally:
            layer.__dict__["activation"] = activation

    def _is_large(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        shapes = tuple(tuple(leaf.shape) for leaf in flatten([list(args), kwargs]) if isinstance(leaf, Tensor))
        known = layer.__dict__.setdefault("_sizes_of_outputs", {})
        if shapes not in known:

            def symbol(leaf: Any) -> Any:
                return KerasTensor(leaf.shape, leaf.dtype.name) if isinstance(leaf, Tensor) else leaf

            found = layer.compute_output_spec(*map_structure(symbol, args), **map_structure(symbol, kwargs))
            known[shapes] = sum(prod(leaf.shape) for leaf in flatten(found))
        return bool(known[shapes] > self.output_size_threshold)
