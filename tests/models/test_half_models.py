"""Models whose weights were all made float16 or bfloat16 by `model.to`: they read and write as in float32, roughly."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import CachedMemory
from pyapp.text.generation.session import Session
from tests.models import test_decoders, test_sequences
from tests.models.test_decoders import TEXT
from tests.together import check_each

# One of each kind of state: keys and values, latent vectors, those of parts, states, gates with exponents.
DECODERS = ("llama", "mistral4", "deepseek_v4", "glm_moe_dsa-sparse", "minimax", "rwkv6", "xlstm", "zaya")
NEAR = {"float16": 0.02, "bfloat16": 0.1}  # of the largest logit, on average: rounding may change an expert


@pytest.mark.parametrize("kind", NEAR)
def test_models_in_half_types_write(kind: str) -> None:
    def decoder(name: str) -> None:
        model = test_decoders.make(name, test_decoders.golden(name)["salt"])
        with pyapp.no_grad():
            exact = model(pyapp.tensor([TEXT], dtype="int32")).numpy()[0]
            model.to(kind)
            whole = model(pyapp.tensor([TEXT], dtype="int32"))[0].to("float32").numpy()
        session = Session(model, capacity=len(TEXT) + 1)
        logits = session.feed(TEXT[:-2])
        assert logits.dtype is pyapp.float32
        steps = [logits.numpy(), session.step(TEXT[-2]).numpy().copy(), session.step(TEXT[-1]).numpy()]
        scale = NEAR[kind] * np.abs(exact).max()
        assert np.abs(whole - exact).mean() < scale and np.abs(np.stack(steps) - exact[-3:]).mean() < scale

    def sequence(name: str) -> None:
        model, (ids, mask) = test_sequences.make(name), test_sequences.sources()
        texts = pyapp.tensor(test_sequences.TEXTS)
        with pyapp.no_grad():
            exact = model(ids, texts, mask).numpy()
            model.to(kind)
            memory = CachedMemory(model.encode(ids, mask), mask, 1, texts.shape[1])
            for step in range(2):
                found = model.decode(texts[:, step : step + 1], memory).to("float32").numpy()[:, 0]
                assert np.abs(found - exact[:, step]).mean() < NEAR[kind] * np.abs(exact).max()
                memory.advance()

    check_each(decoder, [(name,) for name in DECODERS])
    check_each(sequence, [(name,) for name in ("longt5_global", "t5gemma", "bart")])
