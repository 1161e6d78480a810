"""Steps of optimisers that have a kernel of their own."""

from __future__ import annotations

from typing import NamedTuple

from ..device import Device
from ..dtype import float32
from ..op import op
from ..tensor import Tensor
from .create import tensor


class AdamWNumbers(NamedTuple):
    """The numbers of step t, in the order of the kernel's settings."""

    rate: float
    beta1: float
    beta2: float
    epsilon: float
    decay: float
    mean_correction: float  # 1 - beta1^t
    square_correction: float  # 1 - beta2^t


class AdamWSettings:
    """The numbers of a step, and the tensor (7,) float32 that kernels read them from, which stays the same."""

    def __init__(self) -> None:
        self.numbers: AdamWNumbers | None = None
        self._tensors: dict[str, tuple[AdamWNumbers, Tensor]] = {}  # by device, with what they hold

    def on(self, device: Device) -> Tensor:
        """The numbers as a tensor on a device; written only if they have changed."""
        numbers, place = self.numbers, str(device)
        assert numbers is not None
        held = self._tensors.get(place)
        if held is not None and held[0] == numbers:
            return held[1]
        written = tensor(numbers, dtype=float32, device=device)
        if held is not None:
            written = held[1].copy_(written)
        self._tensors[place] = numbers, written
        return written


@op()
def adamw_step(
    parameter: Tensor, mean: Tensor, squares: Tensor, grad: Tensor, settings: AdamWSettings, largest: Tensor | None
) -> Tensor:
    """One step of Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101), in place; returns
    the parameter. To be called inside no_grad().

    parameter, mean and squares (the moving means of the gradient and of its square) and grad are of one shape.
    `largest`, for AMSGrad (Reddi et al. 2018, arXiv 1904.09237): the largest squares so far, which take their place.
    """
    numbers = settings.numbers
    assert numbers is not None
    if numbers.decay:
        parameter.mul_(1 - numbers.rate * numbers.decay)
    mean.add_((grad - mean).mul_(1 - numbers.beta1))
    squares.mul_(numbers.beta2).add_((grad * grad).mul_(1 - numbers.beta2))
    if largest is not None:
        squares = largest.copy_(largest.maximum(squares))
    root = squares.sqrt().div_(numbers.square_correction**0.5).add_(numbers.epsilon)
    return parameter.sub_((mean / root).mul_(numbers.rate / numbers.mean_correction))
