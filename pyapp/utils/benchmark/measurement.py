"""What was measured: times of one statement, and what they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, floor, isfinite, log10
from typing import Any

from ...dataclass import dataclass
from ...engine.lazy import np

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_NAMES = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
# As in torch: a spread of the middle half above a tenth of the median is told, above a quarter as a strong one.
WARN_OF_SPREAD, STRONG_SPREAD = 0.1, 0.25
_CLOCK = 25e-9  # seconds by which a clock may be wrong at best
_NORMAL_90 = 1.645  # of the normal distribution, 90% lie within so many deviations


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which `t` seconds are a number from 1 to 1000, and its seconds."""
    fitting = [unit for unit, size in UNITS.items() if t >= size]
    unit = fitting[-1] if fitting else "ns"
    return unit, UNITS[unit]


def unit_to_english(u: str) -> str:
    """ "us" → "microsecond"."""
    return _NAMES[u]


def trim_sigfig(x: float, n: int) -> float:
    """x rounded to n significant figures."""
    if n < 1 or n != int(n):
        raise ValueError(f"trim_sigfig: {n} is not a number of figures")
    if x == 0 or not isfinite(x):
        return x
    scale = 10.0 ** (floor(log10(abs(x))) + 1 - n)
    return float(round(x / scale) * scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each element once, in the order in which they come."""
    return list(dict.fromkeys(elements))


@dataclass(frozen=True)
class TaskSpec:
    """What is measured."""

    stmt: str
    setup: str = ""
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, else the statement where it is one line, with the sub-label."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{_indented(self.stmt)}"

    @property
    def setup_str(self) -> str:
        """The setup, for reading."""
        if not self.setup or self.setup == "pass":
            return ""
        return f"setup:\n{_indented(self.setup)}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup."""
        return "\n".join(part for part in (self.title, self.description or "", self.setup_str) if part)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())


class Measurement:
    """Times of a statement: `raw_times` are the seconds of measurements, each of `number_per_run` runs."""

    def __init__(
        self, number_per_run: int, raw_times: list[float], task_spec: TaskSpec, metadata: dict[Any, Any] | None = None
    ) -> None:
        self.number_per_run, self.raw_times, self.task_spec, self.metadata = (
            number_per_run,
            list(raw_times),
            task_spec,
            metadata,
        )

    def __getattr__(self, name: str) -> Any:
        """The attributes of the task."""
        if name.startswith("_") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of a run, of each measurement."""
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def median(self) -> float:
        """Seconds of a run."""
        return float(np.median(self._some()))

    @property
    def mean(self) -> float:
        """Seconds of a run."""
        return float(np.mean(self._some()))

    @property
    def iqr(self) -> float:
        """Seconds from the 25th to the 75th percentile of the times."""
        low, high = np.percentile(self._some(), (25, 75))
        return float(high - low)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median mean something, 1 to 5: by the interval in which the mean of the middle half
        of the times lies with 90%, which is at least what a clock can tell."""
        times = sorted(self._some())
        middle = times[len(times) // 4 : max(ceil(3 * len(times) / 4), 1)]
        interval = max(_NORMAL_90 * float(np.std(middle)) / len(middle) ** 0.5, _CLOCK)
        return min(5, max(1, floor(log10(self.median / interval)) if self.median > 0 else 1))

    @property
    def has_warnings(self) -> bool:
        """Whether the spread of the times is above a tenth of the median."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = WARN_OF_SPREAD) -> bool:
        """Whether the spread of the middle half of the times is below this share of the median."""
        return self.iqr / self.median < threshold if self.median > 0 else True

    @property
    def title(self) -> str:
        """That of the task."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """That of the task; by default "Unspecified env"."""
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """The name of its row in a table: the sub-label, else the statement."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, with the times of all of its measurements."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).append(one)
        return [Measurement(1, [t for one in group for t in one.times], task) for task, group in groups.items()]

    def _some(self) -> list[float]:
        if not self.raw_times:
            raise RuntimeError("Measurement: there are no times")
        return self.times

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        figures = self.significant_figures
        lines = [f"<Measurement of {self.task_spec.summarize()}"]
        several = len(self.raw_times) > 1
        lines.append(f"  {'Median: ' if several else ''}{self.median / size:.2f} {unit}")
        if several and len(self.raw_times) >= 4:
            low, high = np.percentile(self.times, (25, 75))
            lines.append(
                f"  IQR:    {self.iqr / size:.2f} {unit} ({trim_sigfig(low / size, figures):g} to "
                f"{trim_sigfig(high / size, figures):g})"
            )
        runs = f"{self.number_per_run} {'runs' if self.number_per_run > 1 else 'run'}"
        per = " per measurement" if several else ""
        lines.append(
            f"  {len(self.raw_times)} measurement{'s' * several}, {runs}{per}, {self.task_spec.num_threads} "
            f"thread{'s' * (self.task_spec.num_threads > 1)}"
        )
        if self.has_warnings:
            much = "could indicate system fluctuation"
            if not self.meets_confidence(STRONG_SPREAD):
                much = "suggests significant environmental influence"
            lines.append(
                f"  WARNING: Interquartile range is {self.iqr / self.median:.1%} of the median measurement.\n"
                f"           This {much}."
            )
        return "\n".join(lines) + ">"


Callback = Callable[[int, float], Any]  # runs of a measurement, its seconds
