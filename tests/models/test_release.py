"""A model's memory is free as soon as nothing uses the model: the next one needs it. Python's garbage collector may run
much later, and a page's memory never shrinks. So nothing that computes with a model may be part of a reference cycle.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import pytest

import pyapp
from pyapp.engine import capture, no_grad
from pyapp.models.llama2c import Config, Llama2c
from pyapp.text.generation.generate import Session
from pyapp.text.generation.several import Lanes
from tests.models.test_whisper import make
from tests.models.test_whisper_session import encoded
from tests.models.whisper_model import DEEP


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """Python frees what has no references any more, and nothing else."""
    gc.disable()
    yield
    gc.enable()


def story_model() -> Llama2c:
    return Llama2c(Config(dim=16, hidden_dim=16, n_layers=1, n_heads=2, n_kv_heads=1, vocab_size=32, max_seq_len=16))


def by_steps(model: Llama2c) -> Session:
    session = Session(model)
    session.feed([1, 2])
    for token in (3, 4):
        session.step(token)
    return session


def by_several_tokens(model: Llama2c) -> Session:
    session = by_steps(model)
    for _ in range(2):
        session.read([5, 6])
    return session


def several_texts(model: Llama2c) -> Lanes:
    lanes = Lanes(model, 2, 16)
    lanes.first.feed([1, 2])
    lanes.branch([0, 0])
    for _ in range(2):
        lanes.step([3, 4])
    return lanes


@pytest.mark.parametrize("work", [by_steps, by_several_tokens, several_texts])
def test_a_language_model_that_has_written(work: Callable[[Llama2c], Any]) -> None:
    model = story_model()
    using = work(model)
    gone = [ref(model), ref(model.layers[0]), ref(using)]
    del model, using
    assert [it() for it in gone] == [None] * 3


def test_a_speech_model_that_has_heard() -> None:
    model = make(DEEP)
    audio = encoded(model)
    for rows in (1, 2):  # closed sessions are kept for the next window
        for _ in range(2):
            with model.new_session(audio, rows) as session:
                session.feed([3, 7])
                for token in (1, 40):
                    session.step([token] * rows)
    gone = [ref(model), ref(model.decoder), ref(model.encoder), ref(session)]
    del model, session
    assert [it() for it in gone] == [None] * 4


def test_an_object_that_keeps_the_graph_of_its_method() -> None:
    class Doubling:
        def __init__(self) -> None:
            self.x = pyapp.tensor([1.0, 2.0])
            with no_grad():
                self.graph = capture(self.run)

        def run(self) -> pyapp.Tensor:
            return self.x + self.x

    kept = Doubling()
    kept.x.assign([3.0, 4.0])
    assert kept.graph.replay().tolist() == [6.0, 8.0]
    gone = ref(kept)
    del kept
    assert gone() is None
