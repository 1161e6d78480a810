"""Derivatives of functions at given inputs, by torch.autograd.functional's names. `vectorize` and strategies have no
effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import func as _func
from ..engine.autograd import enable_grad, grad
from ..engine.ops import stack, zeros_like
from ..engine.tensor import Tensor
from ..engine.user_errors import describe

Inputs = Tensor | tuple[Tensor, ...]


def _settled(found: Any, create_graph: bool) -> Any:
    return found if create_graph else _func.tree_map(lambda x: x.detach(), found)


def _args(inputs: Inputs) -> tuple[Tensor, ...]:
    found = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    for x in found:
        if not isinstance(x, Tensor):
            raise TypeError(f"takes a tensor or a tuple of tensors, not {describe(x)}")
    return found


def _ready(inputs: Inputs, create_graph: bool) -> tuple[Tensor, ...]:
    """Detaches the inputs, unless `create_graph`: then results have a graph that leads to the inputs."""
    return tuple(x if create_graph else x.detach() for x in _args(inputs))


def _along(name: str, v: Any, like: Any, what: str) -> tuple[Tensor, ...]:
    """`v` in the shapes of `like`; by default 1 for one number."""
    shapes = _args(like)
    if v is None:
        if len(shapes) != 1 or shapes[0].numel() != 1:
            raise RuntimeError(f"{name}: give v, unless the {what} is one number")
        return (zeros_like(shapes[0]) + 1,)
    given = _args(v)
    if [x.shape for x in given] != [x.shape for x in shapes]:
        raise RuntimeError(f"{name}: v does not have the shapes of the {what}: {', '.join(map(describe, shapes))}")
    return given


def _strictly(name: str, func: Callable[..., Any], inputs: Inputs, twice: bool, vectorize: bool = False) -> None:
    """RuntimeError if an output of `func`, or with `twice` one of its gradients, is independent of an input."""
    if vectorize:
        raise RuntimeError(f"{name}: strict and vectorize are not supported together")
    leaves = [x.detach().requires_grad_() for x in _args(inputs)]
    with enable_grad():
        outputs = _args(func(*leaves))
    for out in outputs:
        found = _gradients(out, leaves)
        if any(gradient is None for gradient in found):
            raise RuntimeError(f"{name}: {describe(out)} does not depend on every input")
        if twice and not all(any(g is not None for g in _gradients(first, leaves)) for first in found):
            raise RuntimeError(f"{name}: the derivatives of {describe(out)} do not depend on every input")


def _gradients(out: Tensor, leaves: list[Tensor]) -> tuple[Any, ...]:
    if not out.requires_grad:
        return (None,) * len(leaves)
    return grad(out.sum(), leaves, allow_unused=True, retain_graph=True, create_graph=True)


def _number(name: str, func: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function, with a check that its value is one number."""

    def number(*args: Tensor) -> Tensor:
        value = func(*args)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise RuntimeError(f"{name}: the function must give one number, not {describe(value)}")
        return value.reshape(())

    return number


def _giving_tensors(name: str, func: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a check of what it gives."""

    def checked(*args: Tensor) -> Any:
        found = func(*args)
        parts = found if isinstance(found, tuple) else (found,)
        if not parts or not all(isinstance(part, Tensor) for part in parts):
            raise TypeError(f"{name}: the function gives a tensor or a tuple of tensors, not {describe(found)}")
        return found

    return checked


def jacobian(
    func: Callable[..., Any], inputs: Inputs, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Jacobian of `func` at `inputs`: a tensor of the shapes of output and input, one after the other; tuples of
    them for several outputs or inputs.
    """
    if strict:
        _strictly("jacobian", func, inputs, create_graph, vectorize)
    argnums: Any = 0 if isinstance(inputs, Tensor) else tuple(range(len(inputs)))
    found = _func.jacrev(_giving_tensors("jacobian", func), argnums)(*_ready(inputs, create_graph))
    return _settled(found, create_graph)


def hessian(
    func: Callable[..., Tensor], inputs: Inputs, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of `func`, whose value is one number."""
    if strict:
        _strictly("hessian", func, inputs, True, vectorize)
    argnums: Any = 0 if isinstance(inputs, Tensor) else tuple(range(len(inputs)))
    found = _func.hessian(_number("hessian", func), argnums)(*_ready(inputs, create_graph))
    return _settled(found, create_graph)


def vjp(
    func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(value, gradients of the inputs) with the weights `v` of the value's elements (default 1 for one element)."""
    if strict:
        _strictly("vjp", func, inputs, create_graph)
    value, pull = _func.vjp(func, *_ready(inputs, create_graph))
    found = pull(*_along("vjp", v, value, "output"))
    found = found[0] if isinstance(found, tuple) and isinstance(inputs, Tensor) else found
    return _settled(value, create_graph), _settled(found, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(value, derivative of the value along `v`)."""
    if strict:
        _strictly("jvp", func, inputs, create_graph)
    given = _ready(inputs, create_graph)
    value, moved = _func.jvp(func, given, _along("jvp", v, given, "input"))
    return _settled(value, create_graph), _settled(moved, create_graph)


def vhp(
    func: Callable[..., Tensor], inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(value, `v` times the matrix of second derivatives), of a function that gives one number."""
    if strict:
        _strictly("vhp", func, inputs, True)
    given = _ready(inputs, create_graph)
    along = _along("vhp", v, given, "input")
    first = _func.grad_and_value(_number("vhp", func), tuple(range(len(given))))
    (_, value), pull = _func.vjp(first, *given)
    found = pull((along, zeros_like(value)))
    return _settled(value, create_graph), _settled(found[0] if isinstance(inputs, Tensor) else found, create_graph)


hvp = vhp  # the matrix is symmetric

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def grads_of_rows(
    outputs: Any, inputs: Any, grad_outputs: Any, kept: bool, **settings: Any
) -> tuple[Tensor | None, ...]:
    """`grad` for each row of `grad_outputs`, stacked. `kept`: whether the graph stays after the last one."""
    weights = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or ())
    counts = {weight.shape[0] if isinstance(weight, Tensor) and weight.ndim else 0 for weight in weights}
    if len(counts) != 1 or not max(counts):
        raise ValueError(f"grad: the grad_outputs have {sorted(counts) or 'no'} rows, expected one number of them")
    count = counts.pop()
    rows = [
        grad(outputs, inputs, [weight.select(0, i) for weight in weights], kept or i + 1 < count, **settings)
        for i in range(count)
    ]
    return tuple(None if parts[0] is None else stack(list(parts)) for parts in zip(*rows, strict=True))
