"""The profiler: what it records, its table, its files and its schedule."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp.engine import tracing
from pyapp.engine.autograd import Node
from pyapp.engine.launch import KERNELS, Graph
from pyapp.engine.op import OPS
from pyapp.engine.storage import Storage
from pyapp.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)


def keys(events: Any) -> set[str]:
    return {event.key for event in events}


def parents(event: Any) -> list[str]:
    found = []
    while event.cpu_parent is not None:
        event = event.cpu_parent
        found.append(event.key)
    return found


def test_what_is_recorded() -> None:
    x, w = pyapp.ones(40, 30), pyapp.ones(20, 30, requires_grad=True)
    with profile(record_shapes=True) as prof:
        with record_function("forward"):
            y = pyapp.nn.functional.linear(x, w).relu().sum()
        y.backward()
        time.sleep(0.01)  # outside of all events
    events = prof.events()
    relu = next(e for e in events if e.key == "relu")
    assert relu.input_shapes == [[40, 20]] and parents(relu) == ["forward"] and relu.kind == "op"
    kernels = [e for e in events if e.kind == "kernel"]
    assert kernels and all(e.key in KERNELS for e in kernels) and any("relu" in parents(e) for e in kernels)
    backward = [e.key for e in events if e.kind == "backward" and e.cpu_parent is None]
    assert backward == ["SumBackward0", "ReluBackward0", "LinearBackward0"]
    for event in events:
        assert event.cpu_time_total >= event.self_cpu_time_total >= 0 and event.time_range.start >= 0
        assert event.cpu_time_total == pytest.approx(event.time_range.elapsed_us())
        inside = sum(child.cpu_time_total for child in event.cpu_children)
        assert event.self_cpu_time_total == pytest.approx(event.cpu_time_total - inside, abs=1e-3)
    outermost = sum(e.cpu_time_total for e in events if e.cpu_parent is None)
    assert events.self_cpu_time_total == pytest.approx(outermost, rel=1e-6)
    assert prof.key_averages().total_average().count == len(events)


def test_a_slow_part_shows_its_time() -> None:
    with profile() as prof:
        with record_function("outer"):
            with record_function("slow"):
                time.sleep(0.05)
    slow, outer = (next(e for e in prof.key_averages() if e.key == key) for key in ("slow", "outer"))
    assert 45_000 < slow.self_cpu_time_total == slow.cpu_time and outer.cpu_time_total >= slow.cpu_time_total
    assert outer.self_cpu_time_total < 0.5 * slow.self_cpu_time_total


def test_sums_and_the_table() -> None:
    x = pyapp.ones(3, 4)
    with profile(record_shapes=True, profile_memory=True) as prof:
        for _ in range(3):
            x.exp()
        x[:2].exp().exp()
        x.add_(1.0)
    by_name = {e.key: e for e in prof.key_averages() if e.kind == "op"}
    assert by_name["exp"].count == 5 and by_name["add_"].count == 1 and by_name["exp"].input_shapes == []
    shaped = [e for e in prof.key_averages(group_by_input_shape=True) if e.key == "exp"]
    assert sorted((e.count, e.input_shapes) for e in shaped) == [(2, [[2, 4]]), (3, [[3, 4]])]
    # What an op made and nobody kept is given back outside of it.
    assert by_name["exp"].cpu_memory_usage == 3 * 48 + 2 * 32 and by_name["add_"].cpu_memory_usage == 0
    table = prof.key_averages(group_by_input_shape=True).table(sort_by="count", row_limit=2, header="A header")
    lines = table.splitlines()
    assert lines[0] == "A header" and "Self CPU %" in lines[2] and "Self CPU Mem" in lines[2]
    assert "Input Shapes" in lines[2] and len(lines) == 8 and lines[4].split()[0] in ("exp", *KERNELS)
    assert lines[-1].startswith("Self CPU time total: ")
    assert len({len(line) for line in lines[1:-1]}) == 1 and "exp" in str(prof.key_averages())
    assert len(prof.key_averages().table(row_limit=-1).splitlines()) == 5 + len(prof.key_averages())
    with pytest.raises(ValueError, match="table: sorts by count"):
        prof.key_averages().table(sort_by="speed")
    assert prof.key_averages().table(sort_by="self_cuda_time_total")


def test_memory_that_is_given_back() -> None:
    kept = pyapp.ones(1000)
    with profile(profile_memory=True) as prof:
        with record_function("makes"):
            more = kept + 1
        with record_function("frees"):
            del more, kept
    found = {e.key: e.cpu_memory_usage for e in prof.events() if e.kind == "user"}
    assert found == {"makes": 4000, "frees": -8000}


def test_nothing_is_left_behind() -> None:
    """What is changed while a profile records is as before afterwards, also after an error, and ops cost nothing."""
    tracing.import_every_op()
    x = pyapp.ones(3, requires_grad=True)

    def state() -> list[Any]:
        slot = vars(type(next(iter(KERNELS.values()))))["launch"]
        launches = []
        for kernel in KERNELS.values():
            try:
                launches.append(slot.__get__(kernel))
            except AttributeError:
                launches.append(None)
        ops = [part for op in OPS.values() for part in (op.claim, op.claim_in_place)]
        return [*launches, *ops, Node.gradients, Graph.replay, Storage.__init__, Storage.__del__]

    before = state()
    with pytest.raises(RuntimeError, match="they cannot be nested"):
        with profile(profile_memory=True):
            with profile():
                pass
    with pytest.raises(ZeroDivisionError):
        with profile(profile_memory=True):
            x.exp().sum().backward()
            raise ZeroDivisionError
    assert [a is b for a, b in zip(state(), before, strict=True)].count(False) == 0


def test_steps_of_a_schedule(tmp_path: Path) -> None:
    ends: list[tuple[int, set[str]]] = []
    x = pyapp.ones(2)

    def ready(prof: Any) -> None:
        ends.append((prof.step_num, {e.name for e in prof.events() if e.kind == "user"}))

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as prof:
        for k in range(12):
            with record_function(f"step {k}"):
                x.exp()
            prof.step()
    steps = {2, 3}, {6, 7}
    assert ends == [
        (first + 2, {name for k in own for name in (f"step {k}", f"ProfilerStep#{k}")})
        for own, first in zip(steps, (2, 6), strict=True)
    ]
    plan = schedule(wait=2, warmup=1, active=1, skip_first=3, skip_first_wait=1)
    assert [plan(k).name for k in range(9)] == [
        "NONE", "NONE", "NONE", "WARMUP", "RECORD_AND_SAVE", "NONE", "NONE", "WARMUP", "RECORD_AND_SAVE",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="active at least 1"):
        schedule(wait=0, warmup=0, active=0)
    # Without a schedule `step` changes nothing; an unfinished recording is complete at the end.
    with profile(on_trace_ready=ready) as prof:
        prof.step()
    assert len(ends) == 3 and prof.current_action is ProfilerAction.NONE


def test_recordings_that_are_added(tmp_path: Path) -> None:
    x = pyapp.ones(2)
    with profile(schedule=schedule(wait=1, warmup=0, active=1, repeat=2), acc_events=True) as prof:
        for _ in range(4):
            x.exp()
            prof.step()
    starts = [e.time_range.start for e in prof.events() if e.key == "exp"]
    assert len(starts) == 2 and starts == sorted(starts)
    assert [e.count for e in prof.key_averages() if e.key == "ProfilerStep*"] == [2]


def test_traces(tmp_path: Path) -> None:
    x = pyapp.ones(2, 3)
    handler = tensorboard_trace_handler(tmp_path / "log", worker_name="me", use_gzip=True)
    before = time.time()
    with profile(record_shapes=True, on_trace_ready=handler) as prof:
        with record_function("mine", "some arguments"):
            x.exp()
    prof.export_chrome_trace(tmp_path / "plain.json")
    (packed,) = (tmp_path / "log").iterdir()
    assert packed.name.startswith("me.") and packed.name.endswith(".pt.trace.json.gz")
    trace = json.loads((tmp_path / "plain.json").read_text())
    assert trace == json.loads(gzip.decompress(packed.read_bytes()))
    mine, op = (next(e for e in trace["traceEvents"] if e["name"] == name) for name in ("mine", "exp"))
    assert op["ph"] == "X" and op["cat"] == "cpu_op" and op["args"]["Input Dims"] == [[2, 3]]
    assert mine["cat"] == "user_annotation" and mine["args"]["Args"] == "some arguments"
    assert mine["ts"] <= op["ts"] and op["ts"] + op["dur"] <= mine["ts"] + mine["dur"] + 0.01
    assert abs(mine["ts"] / 1e6 - before) < 60


def test_replays_of_graphs() -> None:
    x = pyapp.ones(4)
    graph = pyapp.capture(lambda: x.exp() + 1)
    replay = graph.replay
    with profile() as prof:
        kept = graph.replay
        graph.replay()
    assert [e.key for e in prof.events()] == ["Graph.replay"]
    kept(), replay()
    assert len(prof.events()) == 1


def test_what_it_does_not_do_it_says() -> None:
    with pytest.raises(RuntimeError, match="nothing is recorded yet"):
        profile().key_averages()
    with pytest.warns(UserWarning, match="with_stack, with_flops: this is not recorded"):
        profile(with_stack=True, with_flops=True)
    with pytest.warns(UserWarning, match=r"a device \(CUDA\) is timed on the host"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    assert supported_activities() == {ProfilerActivity.CPU}
    calls = []

    @record_function("decorated")
    def double(x: Any) -> Any:
        calls.append(1)
        return x * 2

    assert double(3) == 6
    with profile() as prof:
        assert double(4) == 8
    assert keys(prof.events()) == {"decorated"} and calls == [1, 1]


def test_the_older_names() -> None:
    from pyapp.autograd import profiler

    x = pyapp.ones(2)
    with profiler.profile() as prof:
        x.exp()
    assert "exp" in prof.table(sort_by="cpu_time_total") and prof.total_average().key == "Total"
    assert prof.self_cpu_time_total == pytest.approx(prof.events().self_cpu_time_total)
    with profiler.profile(enabled=False) as off:
        x.exp()
    with pytest.raises(RuntimeError, match="nothing is recorded yet"):
        off.table()
