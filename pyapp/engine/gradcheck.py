"""gradcheck, gradgradcheck: gradients against differences of values, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .autograd import enable_grad, grad, no_grad
from .lazy import np
from .ops.complex_numbers import view_as_real
from .ops.random import Generator, randn
from .tensor import Tensor
from .user_errors import describe


class GradcheckError(RuntimeError):
    """A gradient that is not that of differences."""


def _outputs(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    found = function(*inputs)
    found = [found] if isinstance(found, Tensor) else list(found)
    return [_parts(t) for t in found if isinstance(t, Tensor) and t.dtype.has_gradient]


def _parts(x: Tensor) -> Tensor:
    """The parts of complex numbers, which gradcheck takes for inputs and outputs of their own."""
    return view_as_real(x) if x.dtype.is_complex else x


def _numeric(function: Callable[..., Any], inputs: Sequence[Any], which: int, eps: float) -> list[Any]:
    """d(output)/d(input `which`) of each output, (elements of the input, elements of the output), by differences."""
    values = inputs[which].detach().clone()
    moved = list(inputs)
    moved[which] = values
    rows: list[list[Any]] = []
    flat = _parts(values).reshape(-1)
    with no_grad():
        for i in range(flat.numel()):
            before = float(flat[i])
            ends = []
            for step in (eps, -eps):
                flat[i] = before + step
                ends.append(
                    [t.detach().numpy().astype(np.float64).reshape(-1).copy() for t in _outputs(function, moved)]
                )
            flat[i] = before
            rows.append([(a - b) / (2 * eps) for a, b in zip(*ends, strict=True)])
    return [np.stack(column) for column in zip(*rows, strict=True)]


def _analytic(output: Tensor, inputs: Sequence[Tensor], create_graph: bool) -> list[Any]:
    """d(output)/d(input) of each input, by one backward walk for each element of the output."""
    rows = []
    for i in range(output.numel()):
        seed = output.new_zeros(output.numel())
        seed[i] = 1.0
        found = grad(output, inputs, [seed.reshape(output._shape)], retain_graph=True, materialize_grads=True)
        rows.append([_parts(g.detach()).numpy().astype(np.float64).reshape(-1) for g in found if g is not None])
    return [np.stack(column, 1) for column in zip(*rows, strict=True)]


def _given(inputs: Tensor | Sequence[Any]) -> tuple[tuple[Any, ...], list[int]]:
    """(the inputs, the places of those that require a gradient)."""
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    return given, [i for i, t in enumerate(given) if isinstance(t, Tensor) and t.requires_grad]


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` with respect to the float64 and complex128 inputs that require them are right,
    element by element, to atol + rtol |difference quotient|; else RuntimeError, or False.

    torch's other arguments choose ways of checking: here every element is checked in one way, which includes them, as
    forward mode and vmap are made of the gradients that are checked.
    """
    given, places = _given(inputs)
    if not places:
        raise ValueError("gradcheck: no input requires a gradient")
    for i in places:
        if given[i].dtype.part.name != "float64":
            raise ValueError(f"gradcheck: input {i} must be float64 or complex128, got {describe(given[i])}")
    with enable_grad():
        outputs = _outputs(func, given)
        analytic = [_analytic(t, [given[i] for i in places], False) if t.requires_grad else None for t in outputs]
    for n, place in enumerate(places):
        if not given[place].numel():
            continue
        for k, numeric in enumerate(_numeric(func, given, place, eps)):
            row = analytic[k]
            found = row[n] if row else np.zeros_like(numeric)
            if not np.allclose(found, numeric, rtol=rtol, atol=atol, equal_nan=True):
                if not raise_exception:
                    return False
                worst = np.unravel_index(np.nanargmax(np.abs(found - numeric)), numeric.shape)
                raise GradcheckError(
                    f"gradcheck: Jacobian mismatch for output {k} with respect to input {place}: d(output {k}, element "
                    f"{int(worst[1])}) / d(input {place}, element {int(worst[0])}) is {found[worst]:.9g}, by "
                    f"differences {numeric[worst]:.9g}"
                )
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """gradcheck of the gradients themselves: of what create_graph records. torch's other arguments as in gradcheck."""
    given, places = _given(inputs)
    weights = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or ())
    if not weights:
        generator = Generator(0)
        outputs = [t for t in _outputs(func, given) if t.requires_grad]
        weights = [randn(t._shape, generator=generator, dtype="float64").requires_grad_() for t in outputs]

    def first(*every: Any) -> tuple[Tensor, ...]:
        own, seeds = every[: len(given)], every[len(given) :]
        with enable_grad():
            own = tuple(
                t.detach().requires_grad_() if i in places and not t.requires_grad else t for i, t in enumerate(own)
            )
            outputs = [t for t in _outputs(func, own) if t.requires_grad]
            found = grad(
                outputs, [own[i] for i in places], seeds, create_graph=True, materialize_grads=True
            )  # fmt: skip
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first, (*given, *weights), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )  # fmt: skip
