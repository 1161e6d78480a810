"""Options and their errors, the draws, and the sampler's treatment of logits."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from pyapp.engine.dtype import float32
from pyapp.engine.tensor import Tensor
from pyapp.errors import ModelError, OptionError
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler, Uniform


def logits_of(*values: float) -> Tensor:
    tensor = Tensor.from_buffer(bytes(4 * len(values)), (len(values),), float32)
    view = tensor.data_view()
    for index, value in enumerate(values):
        view[index] = value
    return tensor


def draws(options: SamplingOptions, logits: Tensor, count: int) -> list[int]:
    sampler = Sampler(options, logits.shape[0], 1)
    return [sampler.sample(logits) for _ in range(count)]


def test_uniform_draws() -> None:
    """The words are Philox4x32-10's for counter and key 0, from the test vectors of the Random123 library."""
    uniform = Uniform(0)
    assert [uniform.draw() for _ in range(2)] == [(0x6627E8D5 >> 8) / 2**24, (0xE169C58D >> 8) / 2**24]
    values = [Uniform(5).draw() for _ in range(3)]
    assert values[0] == values[1] == values[2]
    assert Uniform((1 << 64) - 1).draw() != values[0]
    many = Uniform(123)
    numbers = [many.draw() for _ in range(4000)]
    assert all(0 <= number < 1 for number in numbers)
    assert abs(sum(numbers) / 4000 - 0.5) < 0.02


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", -1, "from 0 to 100, not -1"),
        ("temperature", math.nan, "not nan"),
        ("temperature", "hot", "a number"),
        ("temperature", True, "not True"),
        ("top_k", 1.5, "a whole number"),
        ("top_k", -1, "from 0"),
        ("top_p", 1.01, "from 0 to 1"),
        ("min_p", -0.1, "from 0 to 1"),
        ("repetition_penalty", 0, "from 0.01"),
        ("seed", -1, "from 0"),
        ("seed", 1 << 64, "from 0"),
        ("max_new_tokens", -1, "from 0"),
        ("stop", [""], "at least one character"),
        ("stop", 7, "at least one character"),
    ],
)
def test_options_out_of_range(name: str, value: object, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        SamplingOptions.from_dict({name: value})
    assert caught.value.where == name


def test_options_from_json() -> None:
    options = SamplingOptions.from_dict({"temperature": 1, "stop": ["a", "b"], "max_new_tokens": None})
    assert options.stop == ("a", "b") and options.max_new_tokens is None and not options.greedy
    assert SamplingOptions(stop="end").stop == ("end",)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="temperatur.*Settings are: temperature, top_k"):
        SamplingOptions.from_dict({"temperatur": 1})


def test_greedy_takes_the_likeliest() -> None:
    assert draws(SamplingOptions(temperature=0), logits_of(0.5, 3, -1, 2.9), 3) == [1, 1, 1]


def test_the_seed_decides() -> None:
    logits = logits_of(*[math.sin(n) for n in range(50)])
    first = draws(SamplingOptions(seed=11, top_p=1), logits, 30)
    assert first == draws(SamplingOptions(seed=11, top_p=1), logits, 30)
    assert first != draws(SamplingOptions(seed=12, top_p=1), logits, 30)
    drawn = {Sampler(SamplingOptions(), 2, 1).seed for _ in range(4)}
    assert len(drawn) == 4 and max(drawn) < 1 << 53


def test_temperature_follows_the_probabilities() -> None:
    counts = Counter(draws(SamplingOptions(temperature=0.5, top_p=1, seed=1), logits_of(0, 0.5, 1), 4000))
    weights = [math.exp(2 * value) for value in (0, 0.5, 1)]
    for token, weight in enumerate(weights):
        assert abs(counts[token] / 4000 - weight / sum(weights)) < 0.03


def test_filters() -> None:
    logits = logits_of(0, 1, 2, 3, 4)
    for options, allowed in (
        ({"top_k": 2}, {3, 4}),
        ({"top_p": 0.7}, {3, 4}),
        ({"top_p": 0}, {4}),
        ({"min_p": 0.3}, {3, 4}),
        ({}, {0, 1, 2, 3, 4}),
    ):
        chosen = draws(SamplingOptions.from_dict({"temperature": 1, "top_p": 1, "seed": 3} | options), logits, 600)
        assert set(chosen) == allowed, options


def test_repetition_penalty() -> None:
    sampler = Sampler(SamplingOptions(temperature=0, repetition_penalty=2), 3, limit=4)
    logits = logits_of(1.0, 1.5, -3.0)
    assert sampler.sample(logits) == 1
    sampler.accept([1, 1, 2])
    assert sampler.sample(logits) == 0
    sampler.accept([0])
    assert sampler.sample(logits) == 1


def test_logits_that_are_no_numbers() -> None:
    for temperature in (0, 1):
        sampler = Sampler(SamplingOptions(temperature=temperature), 3, 1)
        with pytest.raises(ModelError, match="NaN.*weights are damaged"):
            sampler.sample(logits_of(1, math.nan, 2))
