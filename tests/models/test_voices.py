"""Models that speak, against transformers (make_golden_voices.py): names, hidden states, durations, samples without and
with noise, a batch with padding, and gradients; and their files.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.models._index import MODEL_TYPES
from tests.models.seeded import direction, shown, voice_weights
from tests.models.voice_configs import CONFIGS, SPEAKER, TEXTS, noise

FOLDER = Path(__file__).with_name("golden_voices")
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
TASK = "text-to-speech"


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def make(name: str, **changed: Any) -> Any:
    """The model of a configuration, with its seeded weights."""
    config = CONFIGS[name] | changed
    module = importlib.import_module(f"pyapp.models.{MODEL_TYPES[config['model_type']]}")
    model = module.TASKS[TASK](module.Config.from_dict(config)).eval()
    with pyapp.no_grad():
        for key, value in model.state_dict().items():
            value.copy_(pyapp.from_numpy(voice_weights(key, tuple(value.shape))))
    return model


def numbers(x: pyapp.Tensor) -> np.ndarray:
    return np.asarray(x.detach().cpu().numpy(), np.float64)


def drawn(shape: tuple[int, ...]) -> pyapp.Tensor:
    return pyapp.from_numpy(noise(shape))


def batch() -> tuple[pyapp.Tensor, pyapp.Tensor]:
    """The texts, and their mask."""
    longest = max(map(len, TEXTS))
    ids = [[*text, *[0] * (longest - len(text))] for text in TEXTS]
    return pyapp.tensor(ids), pyapp.tensor([[int(i < len(text)) for i in range(longest)] for text in TEXTS])


def speaker_of(name: str) -> int | None:
    return SPEAKER if CONFIGS[name].get("num_speakers", 1) > 1 else None


@pytest.fixture(scope="module", params=CONFIGS)
def case(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], Any]:
    return request.param, golden(request.param), make(request.param)


def is_of_training(name: str) -> bool:
    return name.startswith(("posterior_encoder.", "duration_predictor.post_"))


def test_names_and_shapes(case: Any) -> None:
    _, expected, model = case
    found = {key: list(parameter.shape) for key, parameter in model.named_parameters()}
    assert found == {k: shape for k, (shape, *_) in expected["parameters"].items() if not is_of_training(k)}
    assert {*model.state_dict()} == {*found}


def test_what_a_text_sounds_like(case: Any) -> None:
    """Hidden states, means and log-variances of a batch with padding."""
    _, expected, model = case
    with pyapp.no_grad():
        text = model.read(*batch())
    for key in ("hidden", "means", "log_variances"):
        found = numbers(getattr(text, key).transpose(1, 2))
        np.testing.assert_allclose(shown(found, 200), expected[key], **CLOSE, err_msg=key)


@pytest.mark.parametrize("run", ["batch", "noisy", "slow", "quiet"])
def test_durations_and_samples(case: Any, run: str) -> None:
    name, expected, model = case
    expected = expected[run]
    ids, mask = batch() if run == "batch" else (pyapp.tensor([TEXTS[0]]), None)
    speaker = model.speaker(None if run == "quiet" else speaker_of(name))
    config = model.config
    scales = (0.0, 0.0) if run == "quiet" else (config.noise_scale_duration, config.noise_scale)
    with pyapp.no_grad():
        text = model.read(ids, mask)
        durations = model.durations(
            text, drawn((len(ids), 2, ids.shape[1])) * scales[0], speaker, 0.7 if run == "slow" else None
        )
        assert durations == expected["durations"]
        frames, lengths = model.frames(text, durations, lambda shape: drawn(shape) * scales[1], speaker)
        np.testing.assert_allclose(shown(numbers(frames), 200), expected["frames"], **CLOSE)
        assert [count * model.decoder.frame_samples for count in lengths] == expected["lengths"]
        samples = model.decoder(frames, speaker)
    np.testing.assert_allclose(shown(numbers(samples), 400), expected["samples"], **CLOSE)
    parts = [*model.decoder.in_windows(frames, speaker, window=7)]
    assert len(parts) > 1
    np.testing.assert_allclose(numbers(pyapp.cat(parts, 1)), numbers(samples), atol=2e-6)


def test_forward(case: Any) -> None:
    name, expected, model = case
    with pyapp.no_grad():
        samples, lengths = model(*batch(), speaker_of(name), noise=drawn)
        slow, _ = model(pyapp.tensor([TEXTS[0]]), None, speaker_of(name), 0.7, noise=drawn)
        quiet, _ = model(pyapp.tensor([TEXTS[0]]), noise_scale=0.0, noise_scale_duration=0.0, noise=drawn)
    assert lengths == expected["batch"]["lengths"]
    for found, run in ((samples, "batch"), (slow, "slow"), (quiet, "quiet")):
        np.testing.assert_allclose(shown(numbers(found), 400), expected[run]["samples"], **CLOSE)


def test_gradients(case: Any) -> None:
    _, expected, model = case
    model.requires_grad_()
    model.zero_grad()
    samples, _ = model(pyapp.tensor([TEXTS[0]]), noise_scale=0.0, noise_scale_duration=0.0, noise=drawn)
    np.testing.assert_allclose(shown(numbers(samples), 400), expected["quiet"]["samples"], **CLOSE)
    along = pyapp.from_numpy(direction("samples", tuple(samples.shape)).astype(np.float32))
    (samples * along).sum().backward()
    for key, parameter in model.named_parameters():
        grad = numbers(parameter.grad) if parameter.grad is not None else np.zeros(parameter.shape)
        _, total, product = expected["parameters"][key]
        found = [grad.sum(), (grad * direction(key, grad.shape)).sum()]
        scale = max(1.0, abs(grad).max() * 20)
        np.testing.assert_allclose(found, [total, product], rtol=5e-3, atol=5e-3 * scale, err_msg=key)
    model.zero_grad()
    model.requires_grad_(False)
