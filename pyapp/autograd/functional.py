"""Derivatives of functions as tensors, by torch.autograd.functional's names: Jacobians, Hessians, and their products
with vectors. `vectorize` and strategies are accepted, and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine.autograd import enable_grad, grad
from ..engine.op import describe
from ..engine.ops import reshape, stack
from ..engine.tensor import Tensor

Function = Callable[..., Any]


def _as_tuple(name: str, what: str, value: Any) -> tuple[Tensor, ...]:
    found = (value,) if isinstance(value, Tensor) else tuple(value)
    for tensor in found:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: {what} are tensors, not {describe(tensor)}")
    return found


def _leaves(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """The inputs as the function gets them: with a place in the graph when that is recorded, else apart from it."""
    if create_graph:
        return tuple(x.view(x.shape) if x.requires_grad else x.detach().requires_grad_() for x in inputs)
    return tuple(x.detach().requires_grad_() for x in inputs)


def _back(value: tuple[Any, ...], like: Any) -> Any:
    return value[0] if isinstance(like, Tensor) else value


def _zeros(gradients: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.new_zeros(x.shape) if g is None else g for g, x in zip(gradients, inputs, strict=True))


def _products(
    outputs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], v: tuple[Tensor, ...], create_graph: bool
) -> tuple[Tensor, ...]:
    """vᵀ J; zeros where an output depends on no input."""
    pairs = [(out, weight) for out, weight in zip(outputs, v, strict=True) if out.requires_grad]
    if not pairs:
        return _zeros([None] * len(inputs), inputs)
    roots, weights = zip(*pairs, strict=True)
    found = grad(roots, inputs, weights, retain_graph=True, create_graph=create_graph, allow_unused=True)
    return _zeros(found, inputs)


def _vectors(name: str, v: Any, like: tuple[Tensor, ...], what: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{name}: give v, unless the {what} is one number")
        return (like[0].new_ones(like[0].shape),)
    found = _as_tuple(name, "v", v)
    if [t.shape for t in found] != [t.shape for t in like]:
        raise RuntimeError(f"{name}: v does not have the shapes of the {what}: {', '.join(map(describe, like))}")
    return found


def jacobian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """d func(*inputs) / d inputs: for each output and input a tensor of both shapes, one behind the other; one tensor
    for one of each. With `strict`, RuntimeError where an output does not depend on an input."""
    given = _leaves(_as_tuple("jacobian", "inputs", inputs), create_graph)
    with enable_grad():
        result = func(*given)
        outputs = _as_tuple("jacobian", "outputs", result)
        rows = tuple(_rows(out, given, create_graph, strict) for out in outputs)
    return _back(tuple(_back(row, inputs) for row in rows), result)


def _rows(out: Tensor, inputs: tuple[Tensor, ...], create_graph: bool, strict: bool) -> tuple[Tensor, ...]:
    found: list[list[Tensor]] = [[] for _ in inputs]
    flat = out.reshape(-1)
    for i in range(out.numel()):
        gradients: Any = [None] * len(inputs)
        if out.requires_grad:
            gradients = grad(flat[i], inputs, retain_graph=True, create_graph=create_graph, allow_unused=True)
        if strict and any(g is None for g in gradients):
            raise RuntimeError(f"jacobian: {describe(out)} does not depend on every input")
        for rows, gradient in zip(found, _zeros(gradients, inputs), strict=True):
            rows.append(gradient)
    return tuple(
        reshape(stack(rows), (*out.shape, *x.shape)) if rows else x.new_zeros((*out.shape, *x.shape))
        for rows, x in zip(found, inputs, strict=True)
    )


def hessian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of a function that gives one number: for each pair of inputs a tensor of both shapes."""

    def first(*given: Tensor) -> Any:
        out = _one_number("hessian", func(*given))
        gradients: Any = [None] * len(given)
        if out.requires_grad:
            gradients = grad(out, given, create_graph=True, allow_unused=True)
        return _back(_zeros(gradients, given), inputs)

    return jacobian(first, inputs, create_graph, strict)


def _one_number(name: str, out: Any) -> Tensor:
    if not isinstance(out, Tensor) or out.numel() != 1:
        raise RuntimeError(f"{name}: the function must give one number, not {describe(out)}")
    return out.reshape(())


def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), vᵀ J): v has the outputs' shapes."""
    given = _leaves(_as_tuple("vjp", "inputs", inputs), create_graph)
    with enable_grad():
        result = func(*given)
        outputs = _as_tuple("vjp", "outputs", result)
        found = _products(outputs, given, _vectors("vjp", v, outputs, "output"), create_graph)
    return _settled(result, create_graph), _back(tuple(_settled(g, create_graph) for g in found), inputs)


def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), J v): v has the inputs' shapes. Computed as the gradient of vᵀ J for v."""
    given = _leaves(_as_tuple("jvp", "inputs", inputs), create_graph)
    along = _vectors("jvp", v, given, "input")
    with enable_grad():
        result = func(*given)
        outputs = _as_tuple("jvp", "outputs", result)
        weights = tuple(out.new_zeros(out.shape).requires_grad_() for out in outputs)
        transposed = _products(outputs, given, weights, True)
        found = _products(transposed, weights, along, create_graph)
    return _settled(result, create_graph), _back(tuple(_settled(g, create_graph) for g in found), result)


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), vᵀ H) of a function that gives one number."""
    given = _leaves(_as_tuple("vhp", "inputs", inputs), create_graph)
    along = _vectors("vhp", v, given, "input")
    with enable_grad():
        out = _one_number("vhp", func(*given))
        first = _products((out,), given, (out.new_ones(()),), True)
        found = _products(first, given, along, create_graph)
    return _settled(out, create_graph), _back(tuple(_settled(g, create_graph) for g in found), inputs)


def hvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), H v): a Hessian is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)


def _settled(value: Any, create_graph: bool) -> Any:
    if create_graph:
        return value
    return value.detach() if isinstance(value, Tensor) else tuple(x.detach() for x in value)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
