"""Models with a head over pieces of words for each moment, against transformers (make_golden_piece_heads.py): the
tensors of their files, what is prepared of recordings, logits and padding; transcription.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.errors import ArgumentError, InputError, ModelError
from pyapp.events import Done, Segment
from pyapp.formats import write_safetensors
from pyapp.models.loading.speech import load_speech_model
from tests.models.parakeet_configs import sounds
from tests.models.piece_head_configs import CONFIGS, QUANTISED, SAMPLES, SETTINGS
from tests.models.seeded import shown, sound_weights
from tests.models.small_models import golden_in, module_for, numbers
from tests.models.test_parakeets import VOCABULARY
from tests.models.test_sound_texts import run

CLOSE: Any = {"rtol": 1e-4, "atol": 1e-4}
golden = golden_in("golden_piece_heads")


def write(folder: Path, name: str, **config: Any) -> Path:
    """The folder of a model, with tensors as transformers names them."""
    folder.mkdir(exist_ok=True)
    tensors = golden(name)["tensors"].items()
    own = {key: pyapp.from_numpy(np.asarray(sound_weights(key, tuple(shape)))) for key, shape in tensors}
    write_safetensors(folder / "model.safetensors", own)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name] | config))
    (folder / "tokenizer.json").write_text(json.dumps(VOCABULARY))
    (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS[name]))
    return folder


@pytest.fixture(scope="module", params=CONFIGS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    folder = write(tmp_path_factory.mktemp("model"), request.param)
    return request.param, load_speech_model(folder), folder


def test_logits_and_padding_are_those_of_transformers(case: Any) -> None:
    name, loaded, _ = case
    expected, counts = golden(name), SAMPLES[name]
    values, mask = loaded.processor([sounds(count) for count in counts])
    np.testing.assert_allclose(shown(numbers(values)), expected["input"], **CLOSE)
    with pyapp.no_grad():
        logits = numbers(loaded.model(*loaded.processor([sounds(counts[0])])))
        both = numbers(loaded.model(values, mask))
    np.testing.assert_allclose(shown(logits, 96), expected["logits"], **CLOSE)
    np.testing.assert_allclose(shown(both[:, : both.shape[1] // 2], 96), expected["padded"], **CLOSE)
    assert loaded.model.encoder.moments(counts[0]) == logits.shape[1] and loaded.model.encoder.moments(20) == 0
    with pytest.raises((ArgumentError, InputError)):
        loaded.model(values[:, :2])


def test_transcription(case: Any) -> None:
    """A recording has the pieces of its moments; gradients reach all weights."""
    name, loaded, _ = case
    samples = np.concatenate([sounds(40000)] * 2)
    events = asyncio.run(run(tasks.transcribe(samples, {"word_timestamps": True}, model=loaded)))
    with pyapp.no_grad():
        best = numbers(loaded.model(*loaded.processor([samples])))[0].argmax(-1).tolist()
    words = loaded.tokenizer.words(best)
    told = [word for event in events if isinstance(event, Segment) for word in event.words or ()]
    assert isinstance(events[-1], Done) and [word["word"].strip() for word in told] == [word.text for word in words]
    model = loaded.model.requires_grad_()
    model(*loaded.processor([samples[:9000]])).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.zero_grad()
    model.requires_grad_(False)


def test_block_quantised_and_short_floats(case: Any) -> None:
    name, loaded, folder = case
    assert name in QUANTISED
    inputs = loaded.processor([sounds(SAMPLES[name][0])])
    with pyapp.no_grad():
        expected = numbers(loaded.model(*inputs))
        for dtype, most in (("q8_0", 0.06), ("bfloat16", 0.06), ("float16", 0.01)):
            found = load_speech_model(folder, dtype=dtype).model
            assert np.abs(numbers(found(*inputs)) - expected).mean() < most * expected.std()


AUDIO, ENCODER = CONFIGS["omniasr"]["audio_config"], CONFIGS["lasr"]["encoder_config"]
HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("omniasr", {"audio_config": None}, "audio_config"), ("omniasr", {"blank_token_id": 12}, "blank_token_id"),
    ("omniasr", {"audio_config": AUDIO | {"conv_dim": [16, 24]}}, "different numbers"),
    ("omniasr", {"audio_config": AUDIO | {"num_attention_heads": 5}}, "divide"),
    ("lasr", {"encoder_config": 3}, "encoder_config"), ("lasr", {"pad_token_id": 12}, "pad_token_id"),
    ("lasr", {"encoder_config": ENCODER | {"conv_residual_weights": [1]}}, "conv_residual_weights"),
    ("lasr", {"encoder_config": ENCODER | {"hidden_size": 1 << 20}}, "hidden_size"),
    ("lasr", {"encoder_config": ENCODER | {"num_attention_heads": 16}}, "rotated"),
    ("lasr", {"encoder_config": ENCODER | {"hidden_act": "exec"}}, "activation"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "told"), HOSTILE)
def test_hostile_configurations(name: str, changed: dict[str, Any], told: str) -> None:
    module = module_for(CONFIGS[name])
    with pytest.raises(ModelError, match=told):
        module.TASKS["speech-recognition"](module.Config.from_dict(CONFIGS[name] | changed))
