"""Timer, Measurement and Compare."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest

import pyapp
from pyapp.utils.benchmark import (
    Compare,
    Measurement,
    TaskSpec,
    Timer,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)
from pyapp.utils.benchmark import timer as seconds
from tests.together import IN_BROWSER


class Clock:
    """A clock that goes on by what statements add to it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, time: float) -> None:
        self.now += time


def test_a_number_of_runs() -> None:
    clock, runs = Clock(), []
    timer = Timer(
        "spend(0.5); runs.append(1)", "spend(100)", "import math\nhalf = math.floor(0.5)", clock,
        {"spend": clock.spend, "runs": runs}, label="waits", sub_label="half", description="now",
    )  # fmt: skip
    found = timer.timeit(300)
    assert found.raw_times == [150.0] and found.times == [0.5] and found.number_per_run == 300 and len(runs) == 303
    assert found.title == "waits: half" and found.as_row_name == "half" and found.description == "now"
    assert "500.00 ms" in repr(found) and "1 measurement, 300 runs, 1 thread" in repr(found)
    assert pickle.loads(pickle.dumps(found)).median == 0.5


def test_measurements_of_as_many_runs_as_it_takes() -> None:
    clock, seen = Clock(), []
    found = Timer("spend(1e-5)", timer=clock, globals={"spend": clock.spend}).blocked_autorange(
        lambda runs, time: seen.append((runs, time)), min_run_time=0.1
    )
    assert found.number_per_run == 10 and found.median == pytest.approx(1e-5) and sum(found.raw_times) >= 0.1
    assert [time for _, time in seen] == found.raw_times and found.iqr < 1e-9 and not found.has_warnings
    slow = Timer("spend(3)", timer=clock, globals={"spend": clock.spend}).blocked_autorange()
    assert slow.number_per_run == 1 and slow.times == [pytest.approx(3.0)]


def test_measurements_until_they_agree() -> None:
    clock = Clock()
    spent = iter([0.06, *[0.1, 0.2, 0.3, 0.1], *[0.1] * 20])
    found = Timer(
        "spend(next(spent))", timer=clock, globals={"spend": clock.spend, "spent": spent}
    ).adaptive_autorange()
    assert 4 < len(found.times) < 15 and found.meets_confidence(0.1)
    wild = iter([0.06, *[1.0, 3.0] * 20])
    found = Timer("spend(next(wild))", timer=clock, globals={"spend": clock.spend, "wild": wild}).adaptive_autorange(
        max_run_time=9.5
    )
    assert 9.5 <= sum(found.raw_times) < 13 and found.has_warnings and "significant environmental" in repr(found)


def test_real_statements() -> None:
    threads = pyapp.get_num_threads()
    seen: list[int] = []
    x = pyapp.ones(10)
    timer = Timer(
        "seen.append(pyapp.get_num_threads()); torch.add(x, y)",
        "y = x + 1",
        globals={"x": x, "seen": seen},
        num_threads=2,
    )
    found = timer.timeit(50)
    assert found.median > 0 and set(seen) == {1 if IN_BROWSER else 2} and pyapp.get_num_threads() == threads
    before = time.perf_counter()
    assert seconds() >= before
    with pytest.raises(NotImplementedError, match="measures Python, not 'c'"):
        Timer("x", language="c++"[:1])
    with pytest.raises(NotImplementedError, match="use blocked_autorange"):
        timer.repeat()
    with pytest.raises(SyntaxError):
        Timer("1 +")


def measured(times: list[float], sub_label: str = "", description: str = "", **more: Any) -> Measurement:
    task = TaskSpec("stmt", "pass", "", "label", sub_label or None, description or None, **more)
    return Measurement(2, [2 * time for time in times], task)


def test_what_times_tell() -> None:
    """The numbers are those of torch.utils.benchmark's Measurement."""
    found = measured([1.0, 1.1, 1.2, 1.05, 0.9, 3.0])
    assert (found.median, found.mean, found.iqr) == pytest.approx((1.075, 1.375, 0.1625))
    assert found.significant_figures == 1 and found.has_warnings and not found.meets_confidence(0.05)
    same = measured([2e-6] * 10)
    assert same.significant_figures == 1 and same.iqr == 0 and same.meets_confidence(0.05)
    assert measured([1e-3, 1.2e-3, 1.1e-3, 1.15e-3]).median == pytest.approx(1.125e-3)
    assert measured([0.5] * 9).significant_figures == 5
    assert trim_sigfig(12345.678, 3) == 12300 and trim_sigfig(0.0012345, 2) == pytest.approx(0.0012)
    assert [select_unit(t)[0] for t in (3e-10, 3e-9, 3e-5, 0.5, 90)] == ["ns", "ns", "us", "ms", "s"]
    assert unit_to_english("us") == "microsecond" and ordered_unique([3, 1, 3, 2, 1]) == [3, 1, 2]
    (merged,) = Measurement.merge([found, found])
    assert merged.times == found.times * 2 and merged.number_per_run == 1
    with pytest.raises(RuntimeError, match="there are no times"):
        Measurement(1, [], found.task_spec).median  # noqa: B018
    with pytest.raises(AttributeError):
        found.colour  # noqa: B018


def test_tables() -> None:
    table = Compare([
        measured([1.5e-5] * 9, "small", "ours"), measured([4.5e-5] * 9, "small", "theirs"),
        measured([1.25e-3] * 9, "large", "ours"), measured([9e-4, 1e-3, 2e-3] * 3, "large", "theirs"),
        measured([6e-4] * 9, "large", "ours", num_threads=4),
    ])  # fmt: skip
    assert str(table).splitlines() == [
        "[------------ label ------------]",
        "             |   ours   |  theirs",
        "1 threads: ----------------------",
        "      small  |    15.0  |    45.0",
        "      large  |  1250.0  |  1000.0",
        "4 threads: ----------------------",
        "      large  |   600.0  |        ",
        "",
        "Times are in microseconds (us).",
    ]
    table.trim_significant_figures()
    table.highlight_warnings()
    table.colorize()
    text = str(table)
    assert "(! 110%)" in text and "\033[92m\033[1m" in text and "\033[91m" in text and " 15.0 " not in text
    with pytest.raises(ValueError, match="takes Measurements, not int"):
        table.extend_results([3])  # type: ignore[list-item]
