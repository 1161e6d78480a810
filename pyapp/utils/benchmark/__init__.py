"""Times of statements, by torch.utils.benchmark's names."""

from .compare import Compare
from .measurement import Measurement, TaskSpec, ordered_unique, select_unit, trim_sigfig, unit_to_english
from .timer import Timer, timer

__all__ = [
    "Compare", "Measurement", "TaskSpec", "Timer", "ordered_unique", "select_unit", "timer", "trim_sigfig",
    "unit_to_english",
]  # fmt: skip
