"""Models on a device whose memory the host cannot see give the bits that they give on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.events import Done, Token
from pyapp.models.llama2c import Config, Llama2c
from pyapp.models.whisper import Whisper
from pyapp.nn import Module
from pyapp.text.generation.generate import Session, generate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler
from pyapp.text.generation.several import generate_several
from tests.models.test_whisper import make
from tests.models.whisper_model import CONFIGS, inputs

from . import device as _device  # noqa: F401 (registers the mirror)

TEXT = [3, 7, 1, 40]


def move(model: Module) -> None:
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.to("mirror")


def story(model: Llama2c) -> list[Any]:
    """Logits and drawn tokens, by Graph, with every sampling setting."""
    session = Session(model)
    options = SamplingOptions(seed=1, top_k=20, top_p=0.9, min_p=0.01, repetition_penalty=1.2)
    sampler = Sampler(options, 80, 40, session.device)
    logits, found = session.feed(TEXT), []
    sampler.accept(TEXT)
    for _ in range(6):
        token = sampler.sample(logits)
        sampler.accept([token])
        found += [list(logits.read_values()), token]
        logits = session.step(token)
    return found


def test_llama2c_decodes_by_graph() -> None:
    pyapp.manual_seed(0)
    model = Llama2c(Config(dim=48, hidden_dim=96, n_layers=2, n_heads=6, n_kv_heads=3, vocab_size=80, max_seq_len=32))
    expected = story(model)
    move(model)
    assert str(model.device) == "mirror" and story(model) == expected


def heard(model: Whisper, mel: pyapp.Tensor, eager: bool) -> list[np.ndarray]:
    """Audio, logits of a beam whose rows are reordered, and the scores of word times."""
    with pyapp.no_grad():
        audio = model.encode(mel)
    with model.new_session(audio, 3, eager=eager) as session:
        found = [session.feed([3, 7, 1]), session.step([4, 5, 6]).copy()]
        session.reorder([1, 2, 1])
        found += [session.step([9, 8, 7]).copy(), session.step([1, 2, 3])]
        assert all(logits.flags.writeable for logits in found), "the rules of tokens write into them"
    return [audio.to("cpu").numpy(), *found, *model.cross_attention(TEXT, audio)]


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("dtype", [None, "float16", "q8_0"])
def test_whisper_encodes_and_decodes(dtype: str | None, eager: bool) -> None:
    model = make(CONFIGS["small"], dtype)
    mel = pyapp.from_numpy(inputs(model.config)[0][:1])
    expected = heard(model, mel, eager)
    move(model)
    for found, wanted in zip(heard(model, mel.to("mirror"), eager), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


class Letters:
    """A tokenizer of 80 letters; token 2 ends a text."""

    vocab_size, bos_id, eos_ids, stop_ids = 80, 1, frozenset({2}), frozenset({2})

    def encode(self, text: str, eos: bool | None = None) -> list[int]:
        return [1, *(ord(letter) - 45 for letter in text)]

    def token_bytes(self, token: int) -> bytes:
        return bytes([token + 45]) if token > 2 else b""

    def joiner(self, continuing: bool = False) -> Any:
        class Joiner:
            push = staticmethod(self.token_bytes)

        return Joiner()


def settings_of_generation(model: Llama2c) -> list[Any]:
    """What the settings give that need more than the sampling kernel."""
    words: Any = Letters()
    common = {"seed": 3, "top_p": 1.0, "temperature": 1.0, "max_new_tokens": 14}
    found: list[Any] = []
    for settings in (
        {"regex": "[a-f]{3}(gh|[i-p]+)", "typical_p": 0.9},
        {"frequency_penalty": 1.0, "logit_bias": {5: 2.0}, "repetition_penalty": 1.3, "no_repeat_ngram": 2},
        {"logprobs": 2},
        {"lookup": 3, "rolling": True, "max_new_tokens": 40, "temperature": 0.0},
    ):
        options = SamplingOptions.from_dict(common | settings)
        found += [e.to_dict() for e in generate(Session(model), words, "abcab", options) if isinstance(e, Token)]
    for settings in ({"samples": 2}, {"beams": 3, "samples": 3}):
        events = list(generate_several(model, words, "abc", SamplingOptions.from_dict(common | settings)))
        found += [event.results["texts"] for event in events if isinstance(event, Done)]
    return found


def test_settings_of_generation() -> None:
    pyapp.manual_seed(0)
    model = Llama2c(Config(dim=48, hidden_dim=96, n_layers=2, n_heads=6, n_kv_heads=3, vocab_size=80, max_seq_len=32))
    expected = settings_of_generation(model)
    move(model)
    assert settings_of_generation(model) == expected and len(expected) > 40
