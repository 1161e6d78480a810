"""Texts of models whose layers carry states: what goes back in a text reads it again, and nothing else changes."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from pyapp.engine import Tensor, no_grad
from pyapp.engine.ops import tensor
from pyapp.errors import ArgumentError, OptionError
from pyapp.events import Done, Token
from pyapp.nn.recurrent.hybrid import HybridCache
from pyapp.nn.recurrent.recurrent import StateCache
from pyapp.text.generation.generate import Session, generate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.several import generate_several
from pyapp.text.generation.speculation import DraftModel
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.models.test_decoders import make
from tests.text.parrot import make_vocabulary

STATES = ("mamba", "mamba2")
NAMES = (*STATES, "lfm2", "recurrent_gemma")  # the last two attend, too
TOKENIZER = Tokenizer.from_llama2c(*make_vocabulary())
PROMPT = "once upon a time there was a dog, once upon a time there was"


def model_of(name: str, salt: int = 0) -> Any:
    return make(name, salt, vocab_size=TOKENIZER.vocab_size, max_position_embeddings=400)


def ids_of(events: Any) -> list[int]:
    return [event.id for event in events if isinstance(event, Token) and event.id is not None]


def close(x: Tensor, y: Tensor) -> None:
    np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_text_goes_back(name: str) -> None:
    model = model_of(name)
    session, ids = Session(model, 300), [3 + 7 * i % 90 for i in range(200)]
    session.feed(ids[:5])
    for token in ids[5:9]:
        session.step(token)
    assert session.reuse([*ids[:7], 1]) == 5 and session.tokens == ids[:5]  # to where the prompt ended
    close(session.feed(ids[5:9]), Session(model, 300).feed(ids[:9]).clone())
    session.rewind(7)  # before that: from the beginning
    assert session.tokens == ids[:7]
    close(session.step(ids[7]), Session(model, 300).feed(ids[:8]).clone())
    close(session.continue_from(ids), Session(model, 300).continue_from(ids).clone())
    session.reset()
    close(session.feed(ids[:3]), Session(model, 300).feed(ids[:3]).clone())


@pytest.mark.parametrize("name", NAMES)
def test_a_long_text_is_that_of_its_tokens_one_by_one(name: str) -> None:
    """Tokens of several chunks that are read at once, in passes, and token by token."""
    model, ids = model_of(name), [(3 + 7 * i + i * i % 11) % 300 for i in range(150)]
    with no_grad():
        whole = model(tensor([ids], dtype="int32"))[0]
    session = Session(model, 300)
    close(whole[149], session.continue_from(ids))
    session.reset()
    for token in ids:
        last = session.step(token)
    close(whole[149], last)


@pytest.mark.parametrize("name", NAMES)
def test_guesses_change_no_token(name: str) -> None:
    model = model_of(name)
    plain = SamplingOptions(temperature=0, max_new_tokens=40)
    expected = ids_of(generate(Session(model, 200), TOKENIZER, PROMPT, plain))
    guessing = SamplingOptions(temperature=0, max_new_tokens=40, lookup=4)
    events = list(generate(Session(model, 200), TOKENIZER, PROMPT, guessing))
    assert ids_of(events) == expected and len(expected) == 40
    other = model_of(name, 1)  # mostly wrong, as are the guesses of the text itself
    for draft in (model, other):
        events = list(generate(Session(model, 200), TOKENIZER, PROMPT, plain, drafter=DraftModel(Session(draft, 200))))
        done = events[-1]
        assert ids_of(events) == expected and isinstance(done, Done) and done.results["guessed_tokens"] > 20


@pytest.mark.parametrize("name", NAMES)
def test_samples_and_beams(name: str) -> None:
    model = model_of(name)
    options = SamplingOptions(max_new_tokens=12, samples=3, seed=5)
    texts = {number: [] for number in range(3)}  # type: ignore[var-annotated]
    for event in generate_several(model, TOKENIZER, PROMPT, options):
        if isinstance(event, Token) and event.id is not None:
            texts[event.sample].append(event.id)  # type: ignore[index]
    for number in range(3):
        alone = SamplingOptions(max_new_tokens=12, seed=5 + number)
        assert texts[number] == ids_of(generate(Session(model, 200), TOKENIZER, PROMPT, alone))
    beams = SamplingOptions(max_new_tokens=8, beams=4, temperature=0)
    done = list(generate_several(model, TOKENIZER, PROMPT, beams))[-1]
    assert isinstance(done, Done)
    found = done.results["texts"][0]
    session = Session(model, 200)
    logits, total = session.continue_from(TOKENIZER.encode(PROMPT, eos=False)), 0.0
    for token in found["tokens"]:
        total += float(logits.log_softmax(-1).numpy()[token])
        logits = session.step(token)
    assert abs(total / len(found["tokens"]) - found["score"]) < 1e-4


def test_a_model_that_draws_new_weights() -> None:
    """What softplus makes of the biases of the steps is between 0.001 and 0.1, and states decay by 1 … N."""
    for name in STATES:
        module = importlib.import_module(f"pyapp.models.{name}")
        config = make(name, 0).config
        mixer = module.TASKS["causal-lm"](config).backbone.layers[0].mixer
        bias = mixer.dt_proj.bias if name == "mamba" else mixer.dt_bias
        steps = bias.detach().softplus().numpy()
        assert 0.00099 < steps.min() < steps.max() < 0.1001
        decay = np.exp(mixer.A_log.detach().numpy()).reshape(-1)
        np.testing.assert_allclose(decay[:4], np.arange(1, 5), rtol=1e-5)


def test_gates_of_recurrences_that_are_drawn() -> None:
    """A new recurrence keeps 0.9 to 0.999 of its state, with its gate open."""
    module = importlib.import_module("pyapp.models.recurrent_gemma")
    recurrence = module.TASKS["causal-lm"](make("recurrent_gemma", 0).config).model.layers[0].temporal_block.rg_lru
    kept = (recurrence.recurrent_param.detach().softplus() * -module.DECAY).exp().numpy() ** (1 / module.DECAY)
    assert 0.899 < kept.min() < kept.max() < 1 and recurrence.input_gate_weight.abs().max() > 0


def test_what_a_state_cannot_do_is_refused() -> None:
    with pytest.raises(ArgumentError, match="HybridCache"):
        HybridCache([None, None], 2, 4, 10)
    cache = StateCache([[(3, 2), (4,)]], 10, 3)
    assert cache.nbytes == 4 * 3 * 10
    for wrong in (lambda: cache.text(3), lambda: cache.first(4), lambda: cache.reorder([0, 1]),
                  lambda: cache.paged(1, 0, 4, 4), lambda: cache.paged(1, 4, 4, 4).packed([(1, 1)], [0]),
                  lambda: cache.paged(1, 4, 4, 4).packed([(0, 2)], [2]), lambda: StateCache([], 0)):  # fmt: skip
        with pytest.raises(ArgumentError, match="StateCache"):
            wrong()
    with pytest.raises(OptionError, match="cache_type"):
        Session(model_of("mamba"), 10, cache_type="f16")
