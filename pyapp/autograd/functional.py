"""Derivatives of functions at given inputs, by torch.autograd.functional's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import func as _func
from ..engine.ops import zeros_like
from ..engine.tensor import Tensor

Inputs = Tensor | tuple[Tensor, ...]


def _settled(found: Any, create_graph: bool) -> Any:
    return found if create_graph else _func._mapped(lambda x: x.detach(), found)


def _args(inputs: Inputs) -> tuple[Tensor, ...]:
    return (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)


def _ready(inputs: Inputs, create_graph: bool) -> tuple[Tensor, ...]:
    """Without `create_graph` results have no graph; with it, one that leads to the inputs."""
    return tuple(x if create_graph else x.detach() for x in _args(inputs))


def jacobian(
    func: Callable[..., Any], inputs: Inputs, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Jacobian of `func` at `inputs`: a tensor of the shapes of output and input, one after the other; tuples of
    them for several outputs or inputs.
    """
    argnums: Any = 0 if isinstance(inputs, Tensor) else tuple(range(len(inputs)))
    return _settled(_func.jacrev(func, argnums)(*_ready(inputs, create_graph)), create_graph)


def hessian(
    func: Callable[..., Tensor], inputs: Inputs, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of `func`, which gives one number."""
    argnums: Any = 0 if isinstance(inputs, Tensor) else tuple(range(len(inputs)))

    def number(*args: Tensor) -> Tensor:
        value = func(*args)
        if value.numel() != 1:
            raise RuntimeError(f"hessian: takes functions that give one number, not {value.numel()}")
        return value.reshape(())

    return _settled(_func.hessian(number, argnums)(*_ready(inputs, create_graph)), create_graph)


def vjp(
    func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(value, gradients of the inputs) where the value's elements weigh `v` (1 for one element)."""
    value, pull = _func.vjp(func, *_ready(inputs, create_graph))
    found = pull(zeros_like(value) + 1 if v is None else v)
    found = found[0] if isinstance(inputs, Tensor) else found
    return _settled(value, create_graph), _settled(found, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(value, its derivative along `v`)."""
    given = _ready(inputs, create_graph)
    along = tuple(zeros_like(x) + 1 for x in given) if v is None else _args(v)
    value, moved = _func.jvp(func, given, along)
    return _settled(value, create_graph), _settled(moved, create_graph)


def vhp(
    func: Callable[..., Tensor], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(value, `v` times the matrix of second derivatives), of a function that gives one number."""
    given = _ready(inputs, create_graph)
    along = tuple(zeros_like(x) + 1 for x in given) if v is None else _args(v)
    every = tuple(range(len(given)))
    _, pull = _func.vjp(_func.grad(func, every), *given)
    found = pull(along)
    value = _settled(func(*given), create_graph)
    return value, _settled(found[0] if isinstance(inputs, Tensor) else found, create_graph)


hvp = vhp  # the matrix is symmetric

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
