"""Stretches of time and of features that training hides at random (SpecAugment, Park et al. 2019, arXiv 1904.08779), as
transformers draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...dataclass import dataclass
from ...engine import Tensor, ops
from ...engine.lazy import np
from ...errors import ModelError
from ..module import Module
from ..parameter import Parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST = 1 << 16  # steps of a stretch, and stretches


@dataclass(frozen=True)
class Spans:
    """Which stretches of an axis are hidden: `length` steps each; so many that they would be the share `probability` of
    the axis if none overlapped, but at least `least` where these fit.
    """

    probability: float
    length: int = 10
    least: int = 0

    def drawn(self, counts: Sequence[int], size: int, random: np.random.RandomState) -> NDArray[np.bool_]:
        """(B, size) bool, True where a row is hidden: starts are drawn from its first `counts` steps, without
        repetition. A row that is shorter than a stretch stays whole. One draw rounds the numbers of stretches of all
        rows. The same numbers of `random` give the masks of transformers' `_compute_mask_indices`.
        """
        found = np.zeros((len(counts), size), bool)
        if self.length > size:
            return found
        rounding = random.rand()
        wanted = [self._stretches(count, size, rounding) for count in (size, *counts)]
        if not wanted[0]:
            return found
        for row, (count, stretches) in enumerate(zip(counts, wanted[1:], strict=True)):
            places = count - self.length + 1
            if places > 0:
                for start in random.choice(places, stretches, replace=False):
                    found[row, start : start + self.length] = True
        return found

    def _stretches(self, count: int, size: int, rounding: float) -> int:
        """How many stretches `count` of `size` steps get."""
        wanted = max(int(self.probability * count / self.length + rounding), self.least)
        return max(0, min(wanted, size // self.length, count - self.length + 1))


def _own_random() -> np.random.RandomState:
    """Random numbers that pyapp's default generator determines, so that a training can be continued."""
    return np.random.RandomState(int(ops.randint(0, 1 << 31, (1,)).item()))


@dataclass(frozen=True)
class SpecAugment:
    """The stretches of time and of features that are hidden, and where their random numbers come from."""

    time: Spans
    features: Spans
    random: Callable[[], np.random.RandomState] = _own_random

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], where: str = "config.json") -> SpecAugment | None:
        """From the fields mask_… of the object of a config.json; None if these hide nothing. ModelError for other
        values than numbers in their limits.
        """
        time, features = _spans(settings, "time", 0.05, 2, where), _spans(settings, "feature", 0.0, 0, where)
        return cls(time, features) if time.probability > 0 or features.probability > 0 else None

    def masks(self, counts: Sequence[int], size: int, features: int) -> tuple[Any, Any]:
        """What to hide of rows of `counts` of `size` steps: (B, size) and (B, features) bool arrays; None for an axis
        of which nothing is hidden.
        """
        random = self.random()
        time = self.time.drawn(counts, size, random) if self.time.probability > 0 else None
        whole = [features] * len(counts)
        return time, self.features.drawn(whole, features, random) if self.features.probability > 0 else None

    def __call__(self, x: Tensor, counts: Sequence[int], instead: Tensor) -> Tensor:
        """x (B, T, D), of whose rows the first `counts` steps are heard → (B, T, D) with the vector `instead` (D,) at
        hidden times, and 0 in hidden features.
        """
        time, features = self.masks(counts, x.shape[1], x.shape[2])
        if time is not None:
            x = ops.where(ops.from_numpy(time).to(x.device).unsqueeze(2), instead.to(x.dtype), x)
        if features is not None:
            x = ops.where(ops.from_numpy(features).to(x.device).unsqueeze(1), 0.0, x)
        return x


class MaskedEncoder(Module):
    """Base of encoders whose vectors are hidden at random in training, if `hide_in_training` was called."""

    config: Any
    masked_spec_embed: Tensor
    masking: SpecAugment | None = None

    def hide_in_training(self, masking: SpecAugment | None) -> None:
        """Hides stretches in training mode from now on; None: none. What stands for hidden moments is a parameter,
        which is new if the file had none.
        """
        if masking is not None and "masked_spec_embed" not in self._parameters:
            device = next(self.parameters()).device
            self.masked_spec_embed = Parameter(ops.rand(self.config.hidden_size).to(device), requires_grad=False)
        self.masking = masking

    def partly_hidden(self, x: Tensor, heard: Tensor | None) -> Tensor:
        """x (B, T, D), heard (B, T), not 0 where a moment is not padding → (B, T, D). Padding is not hidden;
        transformers forgets that for HuBERT and SEW.
        """
        if self.masking is None or not self.training:
            return x
        counts = [x.shape[1]] * x.shape[0] if heard is None else heard.to("int32").sum(1).tolist()
        return self.masking(x, [int(count) for count in counts], self.masked_spec_embed)


def _spans(settings: Mapping[str, Any], axis: str, probability: float, least: int, where: str) -> Spans:
    """The fields of an axis of the object of a config.json; where they are missing, transformers' values."""
    share = settings.get(f"mask_{axis}_prob", probability)
    if type(share) not in (int, float) or not 0 <= share <= 1:
        raise ModelError(f"mask_{axis}_prob is {share!r:.40}, expected a number from 0 to 1", where=where)
    found = []
    for name, first, usual in ((f"mask_{axis}_length", 1, 10), (f"mask_{axis}_min_masks", 0, least)):
        value = settings.get(name, usual)
        if type(value) is not int or not first <= value <= LONGEST:
            raise ModelError(f"{name} is {value!r:.40}, expected a whole number of {first} to {LONGEST:,}", where=where)
        found.append(value)
    return Spans(float(share), *found)
