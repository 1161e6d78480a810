"""Timer: measures a statement."""

from __future__ import annotations

import sys
import textwrap
import time
import timeit
from typing import Any

from ...engine import get_num_threads, set_num_threads
from ...engine.device import wait_for_devices
from ...engine.lazy import np
from .measurement import Callback, Measurement, TaskSpec


def timer() -> float:
    """Seconds of a clock, when everything has run on every device that is in use."""
    wait_for_devices()
    return time.perf_counter()


class Timer:
    """Measures the Python statement `stmt`: `Timer("x + y", globals={"x": x, "y": y}).blocked_autorange()`.

    `setup` runs before each measurement, untimed, `global_setup` once. The statements see `globals`, and `pyapp`, which
    is also `torch` there. `num_threads` are the threads of the kernels meanwhile. `label`, `sub_label`, `description`
    and `env` name the measurement in a table of Compare. The clock waits for devices other than the CPU.
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Any = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1, language: str = "python",
    ) -> None:  # fmt: skip
        if not isinstance(stmt, str) or not isinstance(setup, str):
            raise TypeError("Timer: stmt and setup are texts")
        if str(language).lower() not in ("python", "py"):
            raise NotImplementedError(f"Timer: measures Python, not {language!r}")
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip() or "pass"
        package = sys.modules[__name__.partition(".")[0]]
        names = {"pyapp": package, "torch": package, **(globals or {})}
        if global_setup:
            exec(compile(textwrap.dedent(global_setup), "<global_setup>", "exec"), names)
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._task = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _time(self, number: int) -> float:
        """Seconds of `number` runs."""
        return max(self._timer.timeit(number), 1e-9)  # a coarse clock may say that no time has passed

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of `number` runs, after a hundredth as many, at least two, that do not count."""
        with _Threads(self._task.num_threads):
            self._time(max(number // 100, 2))
            return self._measured(number, [self._time(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """NotImplementedError, as in torch: use blocked_autorange, which chooses the numbers."""
        raise NotImplementedError("Timer.repeat: use blocked_autorange()")

    def _block(self, min_run_time: float) -> int:
        """How many runs take so long that starting and stopping the clock is below a ten thousandth of it, and a
        thousandth of the whole time at least."""
        overhead = float(np.median([self._time(0) for _ in range(5)]))
        number = 1
        while True:
            spent = self._time(number)
            if spent > min_run_time or (overhead / spent <= 1e-4 and spent >= min_run_time / 1000):
                return number
            number *= 10

    def blocked_autorange(self, callback: Callback | None = None, min_run_time: float = 0.2) -> Measurement:
        """Measurements until `min_run_time` seconds were measured. Each is of as many runs as make the clock's own time
        small. `callback(runs, seconds)` is called after each.
        """
        with _Threads(self._task.num_threads):
            number = self._block(min_run_time)
            times: list[float] = []
            while not times or sum(times) < min_run_time:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
            return self._measured(number, times)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callback | None = None,
    ) -> Measurement:  # fmt: skip
        """Measurements until their middle half spreads over less than `threshold` of the median, of which there are
        then more than three and `min_run_time` seconds at least; or until `max_run_time` seconds were measured.
        """
        with _Threads(self._task.num_threads):
            number = self._block(0.05)
            times: list[float] = []
            while True:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
                found, spent = self._measured(number, times), sum(times)
                enough = len(times) > 3 and spent > min_run_time and found.meets_confidence(threshold)
                if enough or spent >= max_run_time:
                    return found


class _Threads:
    """A context in which kernels have so many threads."""

    def __init__(self, count: int) -> None:
        self.count, self.before = count, get_num_threads()

    def __enter__(self) -> None:
        set_num_threads(self.count)

    def __exit__(self, *_: object) -> None:
        set_num_threads(self.before)
