"""Masks of tokens against an automaton that is run token by token."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.kernels import INDEX_RANGE, OK, Kernels

STATES, COLUMNS, TOKENS = 5, 3, 200


def parts() -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    table = random.integers(-1, STATES, (STATES, COLUMNS)).astype(np.int32)
    table[2, 1] = STATES  # a number outside: refused, too
    lengths = random.integers(0, 5, TOKENS)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return {
        "table": table,
        "columns_of": random.integers(0, COLUMNS, 256).astype(np.uint8),
        "distance": np.array([2, 0, -1, 1, 3], np.int32),
        "bytes": random.integers(0, 256, int(offsets[-1])).astype(np.uint8),
        "offsets": offsets,
    }


def expected(given: dict[str, np.ndarray], state: int, budget: int) -> list[bool]:
    found = []
    for start, end in zip(given["offsets"], given["offsets"][1:], strict=False):
        here = state
        for byte in given["bytes"][start:end]:
            here = given["table"][here, given["columns_of"][byte]] if 0 <= here < STATES else -1
        found.append(bool(end > start and 0 <= here < STATES and 0 <= given["distance"][here] <= budget))
    return found


def run(kernels: Kernels, given: dict[str, np.ndarray], state: int, budget: int) -> tuple[int, np.ndarray]:
    mask = np.full(TOKENS, 7, np.uint8)
    dims = {"tokens": TOKENS, "states": STATES, "columns": COLUMNS, "size": given["bytes"].size}
    return kernels.run("token_mask", mask=mask, **given, **dims, state=state, budget=budget), mask


@pytest.mark.parametrize("budget", [-1, 0, 1, 2, 100])
@pytest.mark.parametrize("state", range(STATES))
def test_masks(kernels: Kernels, state: int, budget: int) -> None:
    given = parts()
    code, mask = run(kernels, given, state, budget)
    assert code == OK
    assert mask.tolist() == expected(given, state, budget)
    assert budget != 100 or state == 2 or 0 < mask.sum() < TOKENS


@pytest.mark.parametrize("wrong", [-1, 10_000])
def test_offsets_outside_are_refused(kernels: Kernels, wrong: int) -> None:
    given = parts()
    given["offsets"][100] = wrong
    assert run(kernels, given, 0, 100)[0] == INDEX_RANGE
