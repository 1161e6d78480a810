"""Whisper's encoder and decoder against openai-whisper and transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pyapp
from pyapp import ops
from pyapp.errors import ModelError
from pyapp.models.whisper import Config, Whisper
from pyapp.models.whisper.weights import fill, parts, unfused
from tests.models.whisper_model import CONFIGS, SMALL, inputs, weights

GOLDEN = np.load(Path(__file__).parent / "golden_whisper.npz")


def make(config: Config, dtype: str | None = None) -> Whisper:
    values = weights(config)
    model = Whisper.empty(config)
    fill(model, values, lambda name: pyapp.tensor(values[name]), dtype)
    return model


def data(config: Config) -> tuple[pyapp.Tensor, pyapp.Tensor]:
    mel, tokens = inputs(config)
    return pyapp.from_numpy(mel), pyapp.from_numpy(tokens)


@pytest.mark.parametrize("name", CONFIGS)
def test_encoder_and_decoder_are_those_of_the_references(name: str) -> None:
    model, (mel, tokens) = make(CONFIGS[name]), data(CONFIGS[name])
    with pyapp.no_grad():
        audio, logits = model.encode(mel), model(mel, tokens)
    np.testing.assert_allclose(audio.numpy(), GOLDEN[f"{name}.audio"], atol=1e-4, rtol=0)
    np.testing.assert_allclose(logits.numpy(), GOLDEN[f"{name}.logits"], atol=1e-4, rtol=0)
    np.testing.assert_allclose(logits.numpy(), GOLDEN[f"{name}.transformers"], atol=1e-4, rtol=0)


def test_gradients_are_those_of_openai() -> None:
    model, (mel, tokens) = make(SMALL).requires_grad_(), data(SMALL)
    logits = model(mel, tokens)
    loss = ops.cross_entropy(logits[:, :-1].reshape(-1, SMALL.n_vocab), tokens[:, 1:].reshape(-1))
    loss.backward()
    assert abs(loss.item() - GOLDEN["small.loss"]) < 1e-5
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        found = parameter.grad.numpy().astype(np.float64)
        for part, grad in zip(parts(name), np.split(found, len(parts(name))), strict=True):
            if part:
                expected = GOLDEN[f"small.grad.{part}"]
                np.testing.assert_allclose(
                    grad.reshape(len(grad), -1).sum(1), expected, atol=2e-4, rtol=1e-5, err_msg=part
                )
            else:
                assert not grad.any(), f"{name}: a key's bias is not a parameter of the model"


def test_tensors_come_out_as_they_went_in() -> None:
    values, found = weights(SMALL), dict(unfused(make(SMALL)))
    assert found.pop("encoder.positional_embedding").shape == (SMALL.n_audio_ctx, SMALL.n_audio_state)
    assert found.keys() == values.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value.numpy(), values[name], err_msg=name)


def test_shorter_clips_see_the_first_positions() -> None:
    model, (mel, _) = make(SMALL), data(SMALL)
    with pyapp.no_grad():
        short = model.encode(mel[:, :, :10].contiguous())
    assert short.shape == (2, 5, SMALL.n_audio_state)
    assert np.isfinite(short.numpy()).all()


def test_wrong_arguments() -> None:
    model, (mel, tokens) = make(SMALL), data(SMALL)
    with pytest.raises(ValueError, match=r"takes \(B, 8, F\) with an even number of frames F up to 24"):
        model.encode(mel[:, :, :9])
    with pytest.raises(ValueError, match="takes tokens"):
        model.decode(tokens[:1], model.encode(mel))
    with pytest.raises(ModelError, match="n_text_head 5 do not fit"):
        Config.from_dict(SMALL.to_dict() | {"n_text_head": 5})
    with pytest.raises(ModelError, match="n_audio_state 32 and n_text_state 64 differ"):
        Config.from_dict(SMALL.to_dict() | {"n_text_state": 64})
    with pytest.raises(ModelError, match="n_vocab is missing"):
        Config.from_dict({key: value for key, value in SMALL.to_dict().items() if key != "n_vocab"})


def test_missing_and_misshapen_tensors_are_named() -> None:
    values = weights(SMALL)
    name = "decoder.blocks.1.cross_attn.value.weight"
    with pytest.raises(ModelError, match=f"no tensor '{name}'"):
        fill(Whisper.empty(SMALL), values.keys() - {name}, lambda n: pyapp.tensor(values[n]))
    with pytest.raises(ModelError, match=f"{name} has the shape \\(32, 31\\)"):
        wrong = values | {name: values[name][:, 1:]}
        fill(Whisper.empty(SMALL), values, lambda n: pyapp.tensor(wrong[n]))
    with pytest.raises(ModelError, match="'int4'"):
        make(SMALL, "int4")


def test_training_learns() -> None:
    """A new model, whose keys stay without a bias."""
    pyapp.manual_seed(0)
    model, (mel, tokens) = Whisper(SMALL), data(SMALL)
    losses = []
    optimizer = pyapp.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(25):
        optimizer.zero_grad()
        logits = model(mel, tokens[:, :-1])
        loss = ops.cross_entropy(logits.reshape(-1, SMALL.n_vocab), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    block = model.decoder.blocks[0]
    assert not block.attn.qkv.bias.detach().numpy()[32:64].any() and block.attn.qkv.bias.detach().numpy().any()
