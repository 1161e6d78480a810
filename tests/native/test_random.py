"""Philox4x32-10: the generator's published test vectors, and the kernels against a Python implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.kernels import SIZES, Kernels

COUNTS = [*SIZES, 63, 64, 65, 1001]
SEEDS = [(0, 0), (1, 0), (-1, 5), (2**63 - 1, 2**32 - 3), (12345678901234, 2**40)]
KNOWN = [  # counter, key, output: "philox 4x32 10" in Random123's kat_vectors
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Salmon et al. (2011), figure 2: four words from a counter of four words and a key of two."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def words(count: int, seed: int, offset: int) -> list[int]:
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    found: list[int] = []
    for block in range(-(-count // 4)):
        counter = offset + block
        found += philox([counter & 0xFFFFFFFF, counter >> 32 & 0xFFFFFFFF, 0, 0], key)
    return found


@pytest.mark.parametrize("counter, key, output", KNOWN)
def test_definition_gives_the_published_vectors(counter: str, key: str, output: str) -> None:
    parsed = [[int(word, 16) for word in text.split()] for text in (counter, key, output)]
    assert philox(parsed[0], parsed[1]) == parsed[2]


def test_uniform_gives_the_published_vector(kernels: Kernels) -> None:
    y = np.empty(4, np.float32)
    run_checked(kernels, "random_uniform", "y", y=y, count=4, seed=0, offset=0)
    np.testing.assert_array_equal(y * 2**24, [int(word, 16) >> 8 for word in KNOWN[0][2].split()])


@pytest.mark.parametrize("seed, offset", SEEDS)
@pytest.mark.parametrize("count", COUNTS)
def test_uniform(kernels: Kernels, count: int, seed: int, offset: int) -> None:
    y = np.full(count + 1, -1, np.float32)
    run_checked(kernels, "random_uniform", "y", y=y, count=count, seed=seed, offset=offset)
    expected = [(word >> 8) * 2.0**-24 for word in words(count, seed, offset)[:count]]
    np.testing.assert_array_equal(y, np.array([*expected, -1], np.float32))


@pytest.mark.parametrize("seed, offset", SEEDS)
@pytest.mark.parametrize("count", COUNTS)
def test_normal(kernels: Kernels, count: int, seed: int, offset: int) -> None:
    y = np.full(count + 1, -99, np.float32)
    run_checked(kernels, "random_normal", "y", y=y, count=count, seed=seed, offset=offset)
    expected: list[float] = []
    drawn = iter(words(count, seed, offset))
    for first, second in zip(drawn, drawn, strict=True):
        radius = math.sqrt(-2 * math.log(((first >> 8) + 1) * 2.0**-24))
        turn = 2 * math.pi * (second >> 8) * 2.0**-24
        expected += [radius * math.cos(turn), radius * math.sin(turn)]
    np.testing.assert_allclose(y, [*expected[:count], -99], rtol=2e-6, atol=5e-7)


def test_seed_and_offset_in_memory(kernels: Kernels) -> None:
    expected, y = np.empty(70, np.float32), np.empty(70, np.float32)
    for name in ("random_uniform", "random_normal"):
        run_checked(kernels, name, "y", y=expected, count=70, seed=9, offset=12)
        run_checked(kernels, name, "y", y=y, count=70, seed=1, offset=7, state=np.array([9, 5], np.int64))
        np.testing.assert_array_equal(y, expected)


def test_moments(kernels: Kernels) -> None:
    y = np.empty(1_000_000, np.float32)
    run_checked(kernels, "random_normal", "y", y=y, count=y.size, seed=42)
    wide = y.astype(np.float64)
    assert abs(wide.mean()) < 4e-3 and abs(wide.var() - 1) < 6e-3 and abs((wide**4).mean() - 3) < 0.05
    run_checked(kernels, "random_uniform", "y", y=y, count=y.size, seed=42)
    assert y.min() >= 0 and y.max() < 1 and abs(y.mean(dtype=np.float64) - 0.5) < 2e-3
