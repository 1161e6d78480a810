"""Programs for each element of some tensors: steps of optimisers, gradients of simple functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autocast import REGIONS
from ..dtype import float32
from ..element_programs import ElementProgram, HeldNumbers, Numbers
from ..op import op
from ..operands import is_half
from ..tensor import Tensor


@op()
def update_elements(first: Tensor, others: tuple[Tensor, ...], program: ElementProgram, numbers: Numbers) -> Tensor:
    """Writes what the program computes of the tensors (first, *others) and the numbers into these tensors; returns the
    first. To be called inside no_grad().

    The tensors are of one shape and dtype. Of those that are not written, some may be of one element.
    """
    tensors = (first, *others)
    values = numbers.each(first.device) if isinstance(numbers, HeldNumbers) else numbers
    for x, value in zip(tensors, program.function(*tensors, *values), strict=True):
        if value is not None:
            x.copy_(value)
    return first


@op()
def computed_elements(tensors: Sequence[Tensor], program: ElementProgram, numbers: tuple[float, ...]) -> Tensor:
    """What a program of element_function computes of tensors of one dtype, as a new tensor: of one shape, those after
    the first perhaps of one element. Of a half type in float32, rounded once, as torch's kernels do.
    """
    kind = tensors[0].dtype
    if is_half(tensors[0]) and all(x.dtype is kind for x in tensors):
        return computed_elements([x.to("float32") for x in tensors], program, numbers).to(kind)
    found: Tensor = program.function(None, *tensors, *numbers)[0]
    return found


def element_function(function: Callable[..., Any], tensors: int, numbers: int = 0) -> Callable[..., Tensor]:
    """A function of so many tensors of one shape, of which those after the first may have one element, and so many
    numbers, for one launch. `function` is written in the
    operators and methods of an ElementProgram. Its gradient is that of these operators.
    """

    def written(_: Any, *given: Any) -> tuple[Any, ...]:
        return (function(*given), *(None,) * tensors)

    program = ElementProgram(written, tensors + 1, numbers)

    def compute(*given: Any) -> Tensor:
        found: Tensor = computed_elements.call(list(given[:tensors]), program, given[tensors:])
        return found

    return compute


def element_update(function: Callable[..., Any], tensors: int, numbers: int) -> Callable[..., bool]:
    """What writes such a function of so many tensors and numbers into the first tensor, without a temporary one: for
    claims_in_place. The call returns False, and writes nothing, unless the tensors are of one shape, dense and float32.
    """

    def written(*given: Any) -> tuple[Any, ...]:
        return (function(*given), *(None,) * (tensors - 1))

    program = ElementProgram(written, tensors, numbers)

    def update(first: Tensor, *rest: Any) -> bool:
        others, values = rest[: tensors - 1], rest[tensors - 1 :]
        if first.dtype is not float32 or REGIONS.count or not first.is_contiguous():
            return False
        for value in values:
            if type(value) is not float and type(value) is not int:
                return False
        for x in others:
            if not isinstance(x, Tensor) or x.dtype is not float32 or x._shape != first._shape:
                return False
            if x.device is not first.device or not x.is_contiguous():
                return False
            if x._storage.address == first._storage.address and x.offset != first.offset:
                return False  # they may overlap
        update_elements.call(first, others, program, values)
        return True

    return update
