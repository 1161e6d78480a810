"""Models on a device whose memory the host cannot see give the bits that they give on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.models.llama2c import Config, Llama2c
from pyapp.models.whisper import Whisper
from pyapp.nn import Module
from pyapp.text.generate import Session
from pyapp.text.options import SamplingOptions
from pyapp.text.sampling import Sampler
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
        found += [session.step([9, 8, 7]).copy(), session.step([1, 2, 3]).copy()]
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
