"""Sampling and the peak: the kernels against the ops' definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, ops
from pyapp.engine import capture
from pyapp.engine.buffers import int32_tensor, reader, writer
from pyapp.engine.op import OPS
from pyapp.errors import KernelError

SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.7},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.0, "top_p": 0.6},
    {"temperature": 2.0, "min_p": 0.2},
    {"temperature": 1.0, "typical": 0.3},
    {"temperature": 2.0, "typical": 0.9, "top_p": 0.95},
    {"temperature": 0.9, "top_k": 30, "top_p": 0.9, "min_p": 0.02, "typical": 0.8, "penalty": 1.3},
]


def drawn(logits: Tensor, definition: bool, uniform: float, history: Tensor, **settings: Any) -> int:
    buffers = ops.SampleBuffers(logits.shape[0])
    if not definition:
        ops.start_sample(logits, buffers, uniform, history=history, history_count=3, **settings)
        return int(buffers.read_token())
    names = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical": 1.0, "penalty": 1.0} | settings
    run = OPS["_sample"].definition
    assert run is not None
    buffers.write_uniform(uniform)
    run(buffers.token, logits, buffers.uniform, buffers.candidates, history, 3, *names.values())
    return buffers.read_token()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_definition_draws_what_the_kernel_draws(settings: dict[str, Any]) -> None:
    logits = pyapp.randn(70, generator=pyapp.Generator(4)) * 2.0
    history = int32_tensor([3, 60, 3, 5])  # three of them count
    for uniform in np.linspace(0, 0.999, 60):
        found = [drawn(logits, definition, float(uniform), history, **settings) for definition in (False, True)]
        assert found[0] == found[1], uniform


def test_draws_from_the_same_memory_are_replayed() -> None:
    """A text's steps write one row of logits and draw from it: from the third draw on by a replay."""
    random = np.random.default_rng(8)
    logits, buffers = pyapp.zeros(300), ops.SampleBuffers(300)
    for step in range(20):
        values = random.normal(0, 3, 300).astype(np.float32)
        logits.assign(values.tolist())
        settings: dict[str, Any] = {} if step < 10 else {"temperature": 0.8, "top_k": 40}
        uniform = float(random.random())
        expected = ops.sample(pyapp.tensor(values), ops.SampleBuffers(300), uniform, **settings)
        assert ops.sample(logits, buffers, uniform, **settings) == expected, step
        assert (buffers.replay is not None) == (step % 10 > 0)
    assert buffers.replay is not None
    with pytest.raises(RuntimeError, match="capture"):
        capture(lambda: ops.start_sample(logits, buffers, 0.5, temperature=0.8, top_k=40))
    logits.assign([float("nan")] * 300)
    with pytest.raises(KernelError, match="sample"):
        ops.sample(logits, buffers, 0.5, temperature=0.8, top_k=40)
    logits.assign([0.0] * 123 + [9.0] + [0.0] * 176)
    assert ops.sample(logits, buffers, 0.5, temperature=0.8, top_k=1) == 123  # other settings
    assert ops.sample(pyapp.ones(5), buffers) == 0
    logits[7] = 1.0
    history = int32_tensor([123, 0])
    for count in (1, 2, 1):  # the number of ids changes: each draw is a call
        assert ops.sample(logits, buffers, penalty=100.0, history=history, history_count=count) == 7
        assert buffers.replay is None


def test_infinite_logits_by_definition() -> None:
    history = int32_tensor([0, 0, 0])
    ruled_out = pyapp.full((20,), float("-inf"))
    ruled_out[7] = 1.0
    assert drawn(ruled_out, True, 0.99, history, temperature=1.0) == 7
    for wrong in (pyapp.full((20,), float("-inf")), pyapp.full((20,), float("nan"))):
        for definition in (False, True):
            with pytest.raises(KernelError):
                drawn(wrong, definition, 0.5, history, temperature=1.0)


def test_peak_by_definition() -> None:
    logits = pyapp.randn(300, generator=pyapp.Generator(4))
    place, excess = int32_tensor([0]), pyapp.zeros(1)
    run = OPS["_peak"].definition
    assert run is not None
    run(place, excess, logits)
    index, total = ops.peak(logits)
    assert place.item() == index == int(logits.argmax().item())
    assert abs(logits[index].item() + excess.item() - total) < 1e-5


def test_what_python_reads_is_not_captured() -> None:
    logits, buffers = pyapp.randn(30), ops.SampleBuffers(30)
    for run in (lambda: ops.peak(logits), lambda: ops.start_sample(logits, buffers)):
        with pytest.raises(RuntimeError, match="capture"):
            capture(run)


def test_buffers_are_written_and_read_in_place() -> None:
    whole = int32_tensor([1, 2, 3])
    part = whole.narrow(0, 1, 2)
    write, read = writer(part), reader(whole.narrow(0, 2, 1))
    write(7, -8)
    assert whole.tolist() == [1, 7, -8] and read() == -8
    numbers = pyapp.zeros(2)
    writer(numbers)(0.5, 2)
    assert numbers.tolist() == [0.5, 2.0]
    with pytest.raises(Exception, match="pack_into|expected 2"):
        write(1)
    assert whole.tolist() == [1, 7, -8]
