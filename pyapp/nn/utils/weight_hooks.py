"""weight_norm and spectral_norm in torch's older form, with the names of older checkpoints: <name>_g and <name>_v;
<name>_orig, <name>_u and <name>_v. The tensor is computed before each call of the module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Tensor
from ..module import Module
from ..parameter import Parameter
from .parametrizations import _SpectralNorm, _WeightNorm, spectral_dim

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]

Compute = Callable[[Any], Tensor]  # the tensor, from the module


class _BeforeCall:
    """The hook that computes the tensor; classes can be pickled with a module."""

    def __init__(self, name: str, compute: Compute) -> None:
        self.name, self.compute = name, compute

    def __call__(self, owner: Module, _: Any) -> None:
        object.__setattr__(owner, self.name, self.compute(owner))


def _install(kind: str, module: Module, name: str, parts: dict[str, Tensor], compute: Compute) -> Module:
    if name not in module._parameters:
        raise ValueError(f"{kind}: {type(module).__name__} has no parameter {name!r}, or it is computed already")
    delattr(module, name)
    for part, value in parts.items():
        setattr(module, part, Parameter(value))
    first = compute(module)  # of a spectral norm without its graph, as in torch: the module can be copied before a call
    object.__setattr__(module, name, first if kind == "weight_norm" else first.detach())
    handle = module.register_forward_pre_hook(_BeforeCall(name, compute))
    module.__dict__.setdefault("_computed", {})[kind, name] = (handle, tuple(parts), compute)
    return module


def _remove(kind: str, module: Module, name: str, *more: str) -> Module:
    found = module.__dict__.get("_computed", {}).pop((kind, name), None)
    if found is None:
        raise ValueError(f"remove_{kind}: {name!r} of {type(module).__name__} has none")
    handle, parts, compute = found
    handle.remove()
    value = compute(module).detach()
    for part in (*parts, *more):
        delattr(module, part)
    setattr(module, name, Parameter(value.clone()))
    return module


class _Scaled:
    """The tensor from its norms and its direction."""

    def __init__(self, made: _WeightNorm, g: str, v: str) -> None:
        self.made, self.g, self.v = made, g, v

    def __call__(self, owner: Module) -> Tensor:
        computed: Tensor = self.made(getattr(owner, self.g), getattr(owner, self.v))
        return computed


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Trains a tensor's norms along `dim`, <name>_g, and its direction, <name>_v, separately."""
    made = _WeightNorm(dim)
    g, v = (f"{name}_{part}" for part in "gv")
    norms, direction = made.right_inverse(getattr(module, name).detach())
    parts = {g: norms, v: direction.clone()}
    return _install("weight_norm", module, name, parts, _Scaled(made, g, v))


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Makes the tensor an ordinary parameter again."""
    return _remove("weight_norm", module, name)


class _OlderSpectralNorm(_SpectralNorm):
    u_first = False


class _Divided:
    """The tensor divided by its norm, whose vectors are buffers of the module."""

    def __init__(self, made: _OlderSpectralNorm, name: str) -> None:
        self.made, self.name = made, name

    def __call__(self, owner: Module) -> Tensor:
        made, name = self.made, self.name
        made.train(owner.training)
        made._u, made._v = getattr(owner, f"{name}_u"), getattr(owner, f"{name}_v")
        computed: Tensor = made(getattr(owner, f"{name}_orig"))
        return computed


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides a tensor, <name>_orig, by its largest singular value."""
    weight = getattr(module, name).detach()
    made = _OlderSpectralNorm(weight, n_power_iterations, spectral_dim(module, dim), eps)
    module.register_buffer(f"{name}_u", made._u)
    module.register_buffer(f"{name}_v", made._v)
    return _install("spectral_norm", module, name, {f"{name}_orig": weight.clone()}, _Divided(made, name))


def remove_spectral_norm(module: Module, name: str = "weight") -> Any:
    """Makes the tensor an ordinary parameter again."""
    return _remove("spectral_norm", module, name, f"{name}_u", f"{name}_v")
