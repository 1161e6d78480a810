"""What voices of several networks have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError

from .windows import checked

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ENDED: Any = object()  # there are no more parts


def finite(values: NDArray[np.float32], what: str = "samples") -> NDArray[np.float32]:
    """These numbers, which a model has computed. ModelError for NaN and infinity."""
    if not np.isfinite(values).all():
        raise ModelError(f"the model computes NaN or infinite {what}", hint="Take a model whose weights are whole")
    return values


def joined(sentences: Sequence[str], most: int) -> list[str]:
    """Neighbouring sentences joined while they are about `most` characters together at most."""
    found: list[str] = []
    for sentence in sentences:
        if found and len(found[-1]) + len(sentence) < most:
            found[-1] += f" {sentence}"
        else:
            found.append(sentence)
    return found


def samples_of(steps: Iterator[Tensor | None]) -> Iterator[NDArray[np.float32] | None]:
    """The samples (N,) of a network's parts (1, N), each when it is made, and None before each step of the network.
    ModelError for NaN and infinity.
    """
    while True:
        yield None
        with no_grad():  # which ends before others run
            part = next(steps, _ENDED)
        if part is _ENDED:
            return
        if part is not None:
            yield finite(part[0].cpu().numpy())


class Voice:
    """Base of a voice: `model` is the network that reads texts."""

    model: Any

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.model.device
        return found

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        found: int = self.model.sample_rate
        return found

    def recorded(self, samples: Any) -> Tensor:
        """Samples (N,) of a recording at the model's rate → float32 (1, 1, N). OptionError for other shapes, for none,
        and for NaN and infinity.
        """
        found = checked(samples)
        if not len(found):
            raise OptionError("the recording has no samples", where="samples")
        return ops.from_numpy(found).reshape(1, 1, -1).to(self.device)
