"""The gated delta rule: chunks of tokens against its recurrence, token by token (arXiv 2412.06464, equation 10)."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp.nn.recurrent.delta_rule import gated_delta_rule

B, T, GROUPS, HEADS, WIDTH, SIZE = 2, 133, 2, 4, 6, 5  # two whole chunks and a part


def recurrence(state: np.ndarray, *inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    query, key, value, rate, decay = (x.astype(np.float64) for x in inputs)
    query, key = (x.reshape(B, T, GROUPS, WIDTH).repeat(HEADS // GROUPS, 2) for x in (query, key))
    query, key = (x / np.sqrt(np.square(x).sum(-1, keepdims=True) + 1e-6) for x in (query, key))
    value, found = value.reshape(B, T, HEADS, SIZE), []
    for t in range(T):
        state = state * np.exp(decay[:, t].reshape(B, HEADS, -1, 1))
        missing = value[:, t] - np.einsum("bhk,bhkv->bhv", key[:, t], state)
        state = state + np.einsum("bhk,bhv->bhkv", key[:, t], missing * rate[:, t, :, None])
        found.append(np.einsum("bhk,bhkv->bhv", query[:, t], state) / np.sqrt(WIDTH))
    return np.stack(found, 1).reshape(B, T, HEADS * SIZE), state


@pytest.mark.parametrize("decays", [1, WIDTH])  # of a head: one, or one for each feature of its key (arXiv 2510.26692)
def test_chunks_are_the_recurrence(decays: int) -> None:
    random = np.random.default_rng(0)
    shapes = ((GROUPS * WIDTH,), (GROUPS * WIDTH,), (HEADS * SIZE,), (HEADS,), (HEADS * decays,))
    inputs = [random.standard_normal((B, T, *shape)).astype(np.float32) for shape in shapes]
    inputs[1][:, 5:90] = inputs[1][:, 5:6]  # a key many times over, where a rounded inverse would be far off
    inputs[3], inputs[4] = 1 / (1 + np.exp(-inputs[3])), -np.exp(inputs[4] - 3)
    start = random.standard_normal((B, HEADS, WIDTH, SIZE)).astype(np.float32)
    wanted, last = recurrence(start, *inputs)
    found, state = gated_delta_rule(pyapp.tensor(start), *map(pyapp.tensor, inputs), groups=GROUPS)
    np.testing.assert_allclose(found.numpy(), wanted, atol=2e-5)
    np.testing.assert_allclose(state.numpy(), last, atol=2e-5)
    cut = [pyapp.tensor(x[:, :70]) for x in inputs], [pyapp.tensor(x[:, 70:]) for x in inputs]
    first, between = gated_delta_rule(pyapp.tensor(start), *cut[0], groups=GROUPS)
    second, state = gated_delta_rule(between, *cut[1], groups=GROUPS)
    np.testing.assert_allclose(pyapp.cat([first, second], 1).numpy(), wanted, atol=2e-5)
