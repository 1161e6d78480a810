"""Sampling against a definition that sorts everything, and that definition against transformers' logits processors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.native.checks import normal
from tests.native.kernels import BAD_ARGUMENT, INDEX_RANGE, OK, Kernels

UNTOUCHED = -77


@dataclass(frozen=True)
class Options:
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0
    typical: int = 0  # in units of 2^-24


OPTIONS = [
    Options(),
    Options(temperature=0.7),
    Options(temperature=3.0, penalty=1.3),
    Options(top_k=1),
    Options(top_k=5),
    Options(top_k=40, temperature=0.8),
    Options(top_k=10_000),
    Options(top_p=0.9),
    Options(top_p=0.5, temperature=2.0),
    Options(top_p=1e-6),
    Options(top_p=0.0),
    Options(min_p=0.05),
    Options(min_p=1.0),
    Options(top_k=50, top_p=0.95, min_p=0.02, temperature=0.9, penalty=1.2),
    Options(top_p=0.99, min_p=0.3),
    Options(typical=1 << 22),
    Options(typical=15 << 20, temperature=2.0),
    Options(typical=3 << 22, top_k=50, top_p=0.95, min_p=0.02, temperature=0.9, penalty=1.2),
]


def candidates(logits: np.ndarray, options: Options, history: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Ids that may be drawn and their probabilities, in descending order; ties by lower id."""
    x = logits.astype(np.float64)
    seen = np.unique(np.array(history, int))
    x[seen] = np.where(x[seen] < 0, x[seen] * options.penalty, x[seen] / options.penalty)
    order = np.lexsort((np.arange(x.size), -x))
    if options.top_k:
        order = order[: options.top_k]
    weights = np.exp((x[order] - x.max()) / options.temperature)
    kept = len(order)
    if 0 < options.top_p < 1:
        kept = int(np.searchsorted(np.cumsum(weights), options.top_p * weights.sum())) + 1
    kept = min(kept, max(1, int((weights >= options.min_p).sum())))
    order, p = order[:kept], weights[:kept] / weights[:kept].sum()
    if options.typical:
        surprise = -np.log(np.maximum(p, 1e-300))
        away = np.abs(surprise - (p * surprise).sum())
        nearest = np.argsort(away, kind="stable")
        count = int(np.searchsorted(np.cumsum(p[nearest]), options.typical / 2**24)) + 1
        places = np.sort(nearest[:count])
        order, p = order[places], p[places] / p[places].sum()
    return order, p


def sample(
    kernels: Kernels, logits: np.ndarray, options: Options, uniform: float = 0.0, history: list[int] | None = None
) -> tuple[int, int]:
    """The kernel's code and the token."""
    token = np.array([UNTOUCHED], np.int32)
    scratch = np.full(2 * logits.size, 0x7FC00000, np.uint32)
    seen = np.array(history or [], np.int32)
    draw = np.array([uniform], np.float32)
    arrays: dict[str, Any] = {
        "token": token,
        "logits": logits,
        "uniform": draw,
        "candidates": scratch,
        "history": seen if history else None,
    }
    code = kernels.run("sample_f32", **arrays, vocabulary=logits.size, history_count=seen.size, **vars(options))
    return code, int(token[0])


def check(kernels: Kernels, logits: np.ndarray, options: Options, history: list[int]) -> None:
    """Draws in the middle of the interval of each of the first candidates, and of some later ones, must hit them."""
    ids, probabilities = candidates(logits, options, history)
    middles = np.cumsum(probabilities) - probabilities / 2
    places = {*range(min(len(ids), 12)), *np.linspace(0, len(ids) - 1, 12).astype(int)}
    for place in places:
        if probabilities[place] > 1e-5:  # the draw has 24 bits, weights have 24
            assert sample(kernels, logits, options, middles[place], history) == (OK, ids[place]), (place, len(ids))
    assert sample(kernels, logits, options, 0.0, history) == (OK, ids[0])
    last = sample(kernels, logits, options, 1 - 2**-24, history)[1]
    assert last in ids and (probabilities[list(ids).index(last) :].sum() < 1e-5 or last == ids[-1])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("vocabulary", [1, 3, 4, 31, 33, 512, 3000])
def test_draws_walk_the_candidates(kernels: Kernels, vocabulary: int, options: Options) -> None:
    history = [0, vocabulary // 2, 0, vocabulary - 1]
    check(kernels, normal(vocabulary, scale=3), options, history)
    check(kernels, np.sort(normal(vocabulary, seed=9, scale=3)), options, history)


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[5], OPTIONS[7], OPTIONS[13]], ids=str)
def test_large_vocabularies(kernels: Kernels, options: Options) -> None:
    check(kernels, normal(32_000, scale=3), options, [3, 31_999])
    check(kernels, normal(151_936, seed=5, scale=0.5), options, [])


def test_ties_go_to_the_lower_id(kernels: Kernels) -> None:
    logits = np.zeros(1000, np.float32)
    for place in (0, 1, 499, 998, 999):
        assert sample(kernels, logits, Options(), (place + 0.5) / 1000) == (OK, place)
        assert sample(kernels, logits, Options(top_k=100), (place // 10 + 0.5) / 100) == (OK, place // 10)
        assert sample(kernels, logits, Options(top_p=0.25), (place // 4 + 0.5) / 250) == (OK, place // 4)
    assert sample(kernels, logits, Options(temperature=0)) == (OK, 0)


def test_frequencies(kernels: Kernels) -> None:
    logits = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))
    uniforms = np.random.default_rng(1).random(2_000, np.float32)
    drawn = np.array([sample(kernels, logits, Options(), u)[1] for u in uniforms])
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / drawn.size, [0.1, 0.4, 0.2, 0.3], atol=0.04)


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_greedy_is_argmax_after_the_penalty(kernels: Kernels, temperature: float) -> None:
    logits = normal(1003)
    best = np.argsort(-logits)[:2]
    assert sample(kernels, logits, Options(temperature)) == (OK, best[0])
    assert sample(kernels, logits, Options(temperature, penalty=100.0), 0.0, [int(best[0])] * 3) == (OK, best[1])
    assert sample(kernels, -np.abs(logits) - 1, Options(temperature, penalty=1e-3), 0.0, [700]) == (OK, 700)


@pytest.mark.parametrize("place", [0, 1, 511, 512, 513, 1023, 1024, 1300, 1536])
def test_greedy_takes_the_first_of_the_largest(kernels: Kernels, place: int) -> None:
    logits = normal(1537)
    logits[place:] = np.where(np.arange(1537 - place) % 3, logits[place:], np.float32(9))
    assert sample(kernels, logits, Options(temperature=0), np.nan) == (OK, place)  # the draw is not looked at


def test_tiny_temperature_is_greedy(kernels: Kernels) -> None:
    logits = normal(333)
    assert sample(kernels, logits, Options(temperature=1e-30), 0.999) == (OK, int(logits.argmax()))


def test_infinite_logits(kernels: Kernels) -> None:
    ruled_out = np.full(100, -np.inf, np.float32)
    ruled_out[[17, 60]] = 1.0
    for options in (Options(), Options(top_k=50), Options(top_p=0.9), Options(top_k=2)):
        assert sample(kernels, ruled_out, options, 0.0) == (OK, 17)
        assert sample(kernels, ruled_out, options, 1 - 2**-24) == (OK, 60)
    certain = normal(100)
    certain[[5, 42]] = np.inf
    assert sample(kernels, certain, Options(), 0.25) == (OK, 5)
    assert sample(kernels, certain, Options(), 0.75) == (OK, 42)
    assert sample(kernels, np.full(10, -np.inf, np.float32), Options()) == (BAD_ARGUMENT, UNTOUCHED)


@pytest.mark.parametrize("place", [0, 31, 32])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_is_refused(kernels: Kernels, place: int, temperature: float) -> None:
    logits = normal(33)
    logits[place] = np.nan
    assert sample(kernels, logits, Options(temperature, top_k=3)) == (BAD_ARGUMENT, UNTOUCHED)


def test_bad_settings_are_refused(kernels: Kernels) -> None:
    logits = normal(33)
    for uniform in (-0.1, 1.0, np.nan):
        assert sample(kernels, logits, Options(), uniform) == (BAD_ARGUMENT, UNTOUCHED)
    for options in (Options(penalty=0.0), Options(penalty=np.nan), Options(temperature=np.nan)):
        assert sample(kernels, logits, options) == (BAD_ARGUMENT, UNTOUCHED)
    for wrong in (-1, 33):
        assert sample(kernels, logits, Options(), 0.0, [1, wrong]) == (INDEX_RANGE, UNTOUCHED)


def test_logits_stay(kernels: Kernels) -> None:
    logits = normal(512)
    before = logits.copy()
    sample(kernels, logits, OPTIONS[13], 0.4, [3, 4])
    assert logits.tobytes() == before.tobytes()


@pytest.mark.native_only
@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_definition_keeps_what_transformers_keeps(options: Options) -> None:
    torch = pytest.importorskip("torch")
    process = pytest.importorskip("transformers.generation.logits_process")
    logits, history = normal(2000, scale=3), [3, 3, 1999, 7]
    warpers = [process.TemperatureLogitsWarper(options.temperature)]
    if options.penalty != 1:
        warpers.insert(0, process.RepetitionPenaltyLogitsProcessor(options.penalty))
    if options.top_k:
        warpers.append(process.TopKLogitsWarper(options.top_k))
    if 0 < options.top_p < 1:
        warpers.append(process.TopPLogitsWarper(options.top_p))
    if options.min_p:
        warpers.append(process.MinPLogitsWarper(options.min_p))
    if options.typical:
        warpers.append(process.TypicalLogitsWarper(options.typical / 2**24))
    scores = process.LogitsProcessorList(warpers)(torch.tensor([history]), torch.tensor(logits[None].copy()))
    expected = torch.softmax(scores[0].double(), -1).numpy()
    ids, probabilities = candidates(logits, options, history)
    assert set(ids) == set(np.flatnonzero(expected))
    np.testing.assert_allclose(probabilities, expected[ids], rtol=1e-4)
