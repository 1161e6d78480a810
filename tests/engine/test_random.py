"""Seeded random numbers: the same on every platform, and of the right distribution."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp import Generator

# Philox4x32-10, key (1, 0), counters 0 and 1: words >> 8, times 2^-24; from NumPy-free reference code in this file
M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85


def philox(counter: int, key: int) -> list[int]:
    """Four words of Philox4x32-10 (Salmon et al. 2011, section 3.3)."""
    c = [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = M0 * c[0], M1 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + W0) & 0xFFFFFFFF, (k1 + W1) & 0xFFFFFFFF
    return c


def test_reference_is_philox() -> None:
    """A known answer of Random123 (kat_vectors): philox4x32 10 of all zeros."""
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("seed", [0, 1, 2**40 + 3, 2**64 - 1])
def test_uniform_is_philox(seed: int) -> None:
    words = [w for i in range(5) for w in philox(i, seed)]
    expected = np.array([(w >> 8) * 2.0**-24 for w in words], np.float32)
    np.testing.assert_array_equal(pyapp.rand(18, generator=Generator(seed)).numpy(), expected[:18])


def test_drawing_goes_on() -> None:
    g = Generator(5)
    first, second = pyapp.rand(6, generator=g), pyapp.rand(6, generator=g)
    state = g.get_state()
    third = pyapp.rand(3, generator=g).tolist()
    g.set_state(state)
    assert pyapp.rand(3, generator=g).tolist() == third
    again = Generator(5)
    assert pyapp.rand(6, generator=again).tolist() == first.tolist() != second.tolist()
    pyapp.manual_seed(3)
    a = pyapp.randn(4).tolist()
    pyapp.manual_seed(3)
    assert pyapp.randn(4).tolist() == a


def test_normal_moments() -> None:
    x = pyapp.randn(100_000, generator=Generator(1)).numpy().astype("float64")
    assert (
        abs(x.mean()) < 0.01 and abs(x.std() - 1) < 0.01 and abs((x**3).mean()) < 0.03 and abs((x**4).mean() - 3) < 0.1
    )
    assert np.isfinite(x).all() and np.abs(x).max() < 7


def test_integers() -> None:
    x = pyapp.randint(-3, 4, (20_000,), generator=Generator(2)).numpy()
    counts = np.bincount(x + 3)
    assert len(counts) == 7 and x.dtype == np.int64 and abs(counts - 20_000 / 7).max() < 250
    assert sorted(pyapp.randperm(100, generator=Generator(0)).tolist()) == list(range(100))
    with pytest.raises(ValueError, match="no integer"):
        pyapp.randint(3, 3, (1,))


def test_multinomial() -> None:
    weights = pyapp.tensor([0.0, 1.0, 3.0])
    drawn = pyapp.multinomial(weights, 20_000, replacement=True, generator=Generator(4)).numpy()
    counts = np.bincount(drawn, minlength=3)
    assert counts[0] == 0 and abs(counts[2] / counts[1] - 3) < 0.2
    assert sorted(pyapp.multinomial(weights, 2, generator=Generator(0)).tolist()) == [1, 2]
    one = pyapp.multinomial(weights.expand(4000, 3), 1, generator=Generator(5))
    assert one.shape == (4000, 1) and abs((one == 2).sum().item() / (one == 1).sum().item() - 3) < 0.5
    with pytest.raises(ValueError, match="different indices"):
        pyapp.multinomial(weights, 3)
    with pytest.raises(ValueError, match="finite"):
        pyapp.multinomial(pyapp.tensor([float("nan"), 1.0]), 1)


def test_in_place_fills() -> None:
    x = pyapp.zeros(1000)
    x.uniform_(-2, -1, generator=Generator(0))
    assert -2 <= x.min().item() < -1.9 and -1.1 < x.max().item() < -1
    x.normal_(5, 0.1, generator=Generator(0))
    assert abs(x.mean().item() - 5) < 0.02


def test_fills_in_place_are_the_numbers_of_new_tensors() -> None:
    """Also where the memory has gaps, and of other dtypes."""
    for dtype in ("float32", "float16", "float64"):
        for x in (
            pyapp.ones(6, 5, dtype=dtype),
            pyapp.ones(5, 6, dtype=dtype).mT,
            pyapp.ones(6, 9, dtype=dtype)[:, :5],
        ):
            wanted = pyapp.rand(6, 5, generator=Generator(3)) * 3 - 2, pyapp.randn(6, 5, generator=Generator(4)) * 2 + 1
            version = x._version
            assert x.uniform_(-2, 1, generator=Generator(3)).tolist() == wanted[0].to(dtype).tolist()
            assert x.normal_(1, 2, generator=Generator(4)).tolist() == wanted[1].to(dtype).tolist()
            assert x._version >= version + 2
    with pytest.raises(RuntimeError, match="a leaf"):
        pyapp.ones(2, requires_grad=True).normal_()


def test_uniform_and_normal_take_torchs_names() -> None:
    assert pyapp.zeros(50).normal_(mean=100, std=0.0).tolist() == [100] * 50
    x = pyapp.zeros(50).uniform_(**{"from": 3, "to": 4})
    assert 3 <= x.min().item() and x.max().item() < 4


def test_a_generator_tells_and_draws_its_seed() -> None:
    generator = Generator().manual_seed(5)
    assert generator.initial_seed() == 5
    drawn = generator.seed()
    first = pyapp.rand(4, generator=generator)
    assert drawn == generator.initial_seed()
    assert first.equal(pyapp.rand(4, generator=Generator().manual_seed(drawn)))


def test_counts() -> None:
    """poisson and binomial: moments, shapes, dtypes, a seed, and what is refused."""
    rates = pyapp.tensor([[0.5], [20.0]]).expand(2, 20000)
    pyapp.manual_seed(3)
    drawn = pyapp.poisson(rates)
    assert drawn.dtype is rates.dtype and drawn.shape == rates.shape and bool((drawn == drawn.floor()).all())
    assert pyapp.allclose(drawn.mean(1), rates[:, 0], rtol=0.03) and pyapp.allclose(
        drawn.var(1), rates[:, 0], rtol=0.05
    )
    trials = pyapp.binomial(pyapp.full((20000,), 10.0), pyapp.tensor(0.3))
    assert trials.mean().item() == pytest.approx(3.0, rel=0.03) and trials.var().item() == pytest.approx(2.1, rel=0.05)
    first, second = (pyapp.poisson(rates, pyapp.Generator().manual_seed(5)) for _ in range(2))
    assert bool((first == second).all()) and not bool((first == drawn).all())
    assert pyapp.poisson(pyapp.ones(3, dtype="bfloat16")).dtype is pyapp.bfloat16
    for refused in (
        lambda: pyapp.poisson(pyapp.tensor([-1.0])), lambda: pyapp.binomial(pyapp.ones(1), pyapp.tensor([1.5])),
        lambda: pyapp.binomial(pyapp.ones(1), pyapp.tensor([0.5]).double()),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="means|probabilities"):
            refused()
