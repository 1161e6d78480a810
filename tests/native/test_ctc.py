"""Connectionist temporal classification against sums over all paths, and against the recursion in float64."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.kernels import INDEX_RANGE, Kernels, unaligned

WORKSPACES = 2


def up(size: int) -> int:
    return -(-size // 16) * 16


def case(log_probs: np.ndarray, labels: list[list[int]], times: list[int], blank: int = 0) -> dict[str, Any]:
    """The arguments for samples whose targets are lists of labels; scratch has not a float more than it must."""
    steps, count, classes = log_probs.shape
    most = max(map(len, labels), default=0)
    room = (steps + 7) * (up(2 * most + 1) + 32)
    return {
        "loss": np.full(count, 7, np.float32), "grad": np.full(log_probs.shape, 7, np.float32),
        "log_probs": unaligned(log_probs),
        "labels": np.array([row + [0] * (most - len(row)) for row in labels], np.int32).reshape(count, most),
        "times": np.array(times, np.int32), "lengths": np.array([len(row) for row in labels], np.int32),
        "scratch": np.empty(WORKSPACES * room, np.float32), "steps": steps, "count": count, "classes": classes,
        "most": most, "blank": blank, "room": room, "workspaces": WORKSPACES,
    }  # fmt: skip


def scores(steps: int, count: int, classes: int, scale: float = 1.0, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((steps, count, classes)) * scale
    return (x - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)) - x.max(-1, keepdims=True)).astype(
        np.float32
    )


def every_path(log_probs: np.ndarray, label: list[int], blank: int) -> tuple[float, np.ndarray]:
    """(T, C), one target: the loss and its gradient by looking at all C^T paths."""
    total, shares = 0.0, np.zeros(log_probs.shape)
    steps, classes = log_probs.shape
    for path in itertools.product(range(classes), repeat=steps):
        if [k for k, _ in itertools.groupby(path) if k != blank] == label:
            chance = np.exp(sum(float(log_probs[t, k]) for t, k in enumerate(path)))
            total += chance
            shares[np.arange(steps), path] += chance
    return -np.log(total), -shares / total


@pytest.mark.parametrize("label", [[], [1], [2, 1], [1, 1], [2, 2, 1], [1, 2, 1]])
@pytest.mark.parametrize("blank", [0, 3])
def test_all_paths_are_counted(kernels: Kernels, label: list[int], blank: int) -> None:
    log_probs = scores(5, 1, 4)
    arguments = case(log_probs, [label], [5], blank)
    run_checked(kernels, "ctc_f32", "loss", "grad", **arguments)
    loss, grad = every_path(log_probs[:, 0], label, blank)
    assert arguments["loss"][0] == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(arguments["grad"][:, 0], grad, atol=2e-6)


def sum_of_powers(ways: list[float]) -> float:
    """log(sum(exp(ways)))."""
    largest = max(ways)
    return largest if largest == -math.inf else largest + math.log(sum(math.exp(way - largest) for way in ways))


def recursion(log_probs: np.ndarray, label: list[int]) -> float:
    """The loss by the forward recursion in float64; the blank is 0."""
    states = [0] + [k for one in label for k in (one, 0)]
    alpha = [-math.inf] * len(states)
    for t, row in enumerate(log_probs.astype(np.float64).tolist()):
        before, alpha = alpha, []
        for s, k in enumerate(states):
            if t == 0:
                alpha.append(row[k] if s < 2 else -math.inf)
                continue
            ways = [before[s], *before[max(s - 1, 0) : s]]
            if s > 2 and s % 2 and k != states[s - 2]:
                ways.append(before[s - 2])
            alpha.append(row[k] + sum_of_powers(ways))
    return -sum_of_powers(alpha[-2:])


@cache
def long_case(steps: int, lengths: tuple[int, ...], scale: float) -> Any:
    """Scores, labels, their times; for each target the loss and the slopes of its first and last score by differences.
    Once for all libraries.
    """
    log_probs = scores(steps, len(lengths), 9, scale)
    draw = np.random.default_rng(2)
    labels = [draw.integers(1, 9, length).tolist() for length in lengths]
    times = [steps, max(1, steps - 3), steps]
    losses, slopes = [], []
    for n, (label, time) in enumerate(zip(labels, times, strict=True)):
        losses.append(recursion(log_probs[:time, n], label))
        for t, k in ((0, label[0] if label else 0), (time - 1, 0)):
            either = [log_probs[:time, n].astype(np.float64) for _ in range(2)]
            either[0][t, k] += 1e-3
            either[1][t, k] -= 1e-3
            slopes.append(((t, n, k), (recursion(either[0], label) - recursion(either[1], label)) / 2e-3))
    return log_probs, labels, times, losses, slopes


@pytest.mark.parametrize(
    "steps, lengths, scale", [(1, (1, 0, 1), 1.0), (40, (7, 8, 15), 3.0), (150, (60, 16, 31), 20.0)]
)
def test_long_targets(kernels: Kernels, steps: int, lengths: tuple[int, ...], scale: float) -> None:
    log_probs, labels, times, losses, slopes = long_case(steps, lengths, scale)
    arguments = case(log_probs, labels, times)
    run_checked(kernels, "ctc_f32", "loss", "grad", **arguments)
    assert arguments["loss"] == pytest.approx(losses, rel=2e-6)
    for n, time in enumerate(times):
        grad = arguments["grad"][:, n]
        np.testing.assert_allclose(grad[:time].sum(-1), -1, atol=2e-6)  # some state at each time
        assert not grad[time:].any() and (grad <= 0).all()
    for place, slope in slopes:
        assert arguments["grad"][place] == pytest.approx(slope, abs=3e-4)
    alone = case(log_probs, labels, times) | {"grad": None}
    run_checked(kernels, "ctc_f32", "loss", **alone)
    assert alone["loss"].tobytes() == arguments["loss"].tobytes()


def test_blanks_among_the_labels(kernels: Kernels) -> None:
    """They are labels like others, between two blanks, as in torch: a path may skip these."""
    log_probs, labels = scores(9, 2, 4), [[1, 0, 2], [0, 0, 3]]
    arguments = case(log_probs, labels, [9, 8])
    run_checked(kernels, "ctc_f32", "loss", "grad", **arguments)
    for n, time in enumerate((9, 8)):
        assert arguments["loss"][n] == pytest.approx(recursion(log_probs[:time, n], labels[n]), rel=1e-6)
        np.testing.assert_allclose(arguments["grad"][:time, n].sum(-1), -1, atol=2e-6)


def test_targets_that_do_not_fit(kernels: Kernels) -> None:
    """Too long for the time, no time at all, or impossible: inf, and no number for a gradient."""
    log_probs = scores(4, 5, 3)
    log_probs[:, 3, 1] = -np.inf
    log_probs[2, 4, 0] = np.nan
    arguments = case(log_probs, [[1, 1, 1], [1], [], [1], [1]], [4, 0, 0, 4, 4])
    run_checked(kernels, "ctc_f32", "loss", "grad", **arguments)
    assert arguments["loss"].tolist()[:4] == [np.inf, np.inf, 0, np.inf] and np.isnan(arguments["loss"][4])
    grad = arguments["grad"]
    assert np.isnan(grad[:, [0, 3, 4]]).all() and not grad[:, [1, 2]].any()


def test_labels_outside_the_classes_are_refused(kernels: Kernels) -> None:
    for wrong in (-1, 3):
        assert kernels.run("ctc_f32", **case(scores(4, 2, 3), [[1], [2, wrong]], [4, 4])) == INDEX_RANGE
    assert kernels.run("ctc_f32", **case(scores(4, 0, 3), [], [])) == 0
