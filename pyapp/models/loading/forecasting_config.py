"""What configurations of models that forecast series share, and the fields that PatchTST and PatchTSMixer do."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.forecasting import DISTRIBUTIONS

from .config import FileConfig, require

LONGEST = 1 << 16  # values of a series that are read, or of a forecast
MOST_SERIES = 1 << 12  # that are read together
MOST_SAMPLES = 1 << 14
MOST_PATCHES = 1 << 13
SCALERS = {"std": "std", "mean": "mean", None: "none", False: "none"}


def check_count(name: str, value: Any, most: int, least: int = 1) -> None:
    """ModelError unless a number is whole and plausible."""
    plausible = type(value) is int and least <= value <= most
    require(plausible, f"{name} is {value!r:.60}, expected a whole number from {least} to {most:,}")


def check_levels(levels: object) -> None:
    """ModelError unless `quantiles` are 1 to 99 ascending levels between 0 and 1."""
    numbers = list(levels) if isinstance(levels, list | tuple) else []
    plausible = 1 <= len(numbers) <= 99 and all(type(x) is float and 0 < x < 1 for x in numbers)
    plausible = plausible and all(a < b for a, b in zip(numbers, numbers[1:], strict=False))
    require(plausible, f"quantiles is {levels!r:.60}, expected 1 to 99 ascending numbers between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class PatchedSeriesConfig(FileConfig):
    """The fields of both."""

    num_input_channels: int = 1
    context_length: int = 32
    patch_length: int = 1
    patch_stride: int = 1
    prediction_length: int = 24
    norm_eps: float = 1e-5
    scaling: Any | None = "std"
    loss: str | None = "mse"
    distribution_output: str = "student_t"
    num_parallel_samples: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (
            ("num_input_channels", MOST_SERIES), ("context_length", LONGEST), ("patch_length", LONGEST),
            ("patch_stride", LONGEST), ("prediction_length", LONGEST), ("num_parallel_samples", MOST_SAMPLES),
        ):  # fmt: skip
            check_count(name, getattr(self, name), most)
        require(
            self.patch_length < self.context_length,
            f"patch_length {self.patch_length} is not less than context_length {self.context_length}",
        )
        require(self.patches <= MOST_PATCHES, f"{self.patches:,} patches, expected at most {MOST_PATCHES:,}")
        scales = isinstance(self.scaling, bool) or (isinstance(self.scaling, str | None) and self.scaling in SCALERS)
        require(scales, f"scaling {self.scaling!r:.40} is not known")
        require(self.loss in ("mse", "nll"), f"loss {self.loss!r:.40} is not known")
        if self.loss == "nll":
            known = f"distribution_output {self.distribution_output!r:.40} is not known"
            require(self.distribution_output in DISTRIBUTIONS, known)

    @property
    def patches(self) -> int:
        """The patches of a series."""
        return (self.context_length - self.patch_length) // self.patch_stride + 1

    @property
    def scaler(self) -> str:
        """How series are scaled, as pyapp.nn.forecasting.scaled names it."""
        return self.when_true if self.scaling is True else SCALERS[self.scaling]

    @property
    def when_true(self) -> str:
        """What a scaling of true means."""
        return "mean"

    @property
    def distribution(self) -> str | None:
        """The distribution of the forecast; None: the forecast is made of numbers."""
        return None if self.loss == "mse" else self.distribution_output
