"""A line in the terminal (or a notebook's output) that shows how far a pass over the data is."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

WIDTH = 20  # of the bar
INTERVAL = 0.1  # seconds between two drawings


_logger: list[logging.Logger] = []  # at most one: where progress goes instead of the terminal


def set_logger(name: str | None) -> None:
    """Progress goes to the logger of this name from now on, one line for each pass; None: it is printed."""
    _logger[:] = [] if name is None else [logging.getLogger(name)]


def is_logged() -> bool:
    """Whether progress goes to a logger."""
    return bool(_logger)


def say(text: str) -> None:
    """Prints or logs a line."""
    if _logger:
        _logger[0].info(text)
    else:
        print(text)


def duration(seconds: float) -> str:
    """1:02:03, 2:03, 12s, 34ms, 56us."""
    if seconds >= 60:
        minutes, rest = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
    if seconds >= 1:
        return f"{seconds:.0f}s"
    return f"{seconds * 1e3:.0f}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}us"


def shown(value: Any) -> str:
    """A number as Keras prints it; of several (a metric of each class) the mean."""
    if not isinstance(value, (int, float)):
        value = sum(value) / len(value)
    return f"{value:.4f}" if abs(value) >= 1e-3 else f"{value:.4e}"  # Keras has 0.001 as float32, which is larger


class ProgressBar:
    """`update(step, logs)` redraws the line; `finish` draws the end. verbose 1: a bar, 2: one line at the end."""

    def __init__(
        self, target: int | None, verbose: int, stream: TextIO | None = None, interval: float = INTERVAL
    ) -> None:
        self.target, self.stream = target, stream or sys.stdout
        self.interval = interval
        self.verbose = 2 if verbose and _logger else verbose
        self.began = self.drawn = time.perf_counter()
        self.step = 0
        self._length = 0

    def due(self) -> bool:
        """Whether a drawing now would be seen."""
        return self.verbose == 1 and time.perf_counter() - self.drawn >= self.interval

    def update(self, step: int, logs: Mapping[str, Any], finished: bool = False) -> None:
        self.step = step
        if not self.verbose or (self.verbose == 2 and not finished) or not (finished or self.due()):
            return
        now = time.perf_counter()
        self.drawn, passed = now, now - self.began
        numbers = "".join(f" - {name}: {shown(value)}" for name, value in logs.items())
        each = f"{duration(passed / max(step, 1))}/step"
        target = self.target if self.target is not None else step if finished else None
        counted = f"{step}/{'Unknown' if target is None else target}"
        if self.verbose == 2:
            self._write(f"{counted} - {passed:.0f}s - {each}{numbers}\n")
            return
        full = WIDTH if target in (None, 0) else WIDTH * step // max(target or 1, 1)
        remaining = "" if target is None or finished else f" {duration(passed / max(step, 1) * (target - step))}"
        when = f" {passed:.0f}s" if finished else remaining
        line = f"{counted} {'━' * full}{' ' * (WIDTH - full)}{when} {each}{numbers}"
        padding = " " * max(self._length - len(line), 0)
        self._length = len(line)
        self._write("\r" + line + padding + ("\n" if finished else ""))

    def _write(self, text: str) -> None:
        if _logger:
            say(text.strip())
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except UnicodeEncodeError:
            self.stream.write(text.replace("━", "="))
