"""New values of tensors, element by element, by a program: steps of optimisers."""

from __future__ import annotations

from ..element_programs import ElementProgram, HeldNumbers, Numbers
from ..op import op
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
