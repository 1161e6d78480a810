"""Models that make a vector of a voice, against transformers (make_golden_speakers.py): names, vectors, padding and
gradients; their folders, the task, block types and configurations that cannot be.
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
from pyapp.audio.processors.banks import PairedBankProcessor
from pyapp.audio.processors.samples import SampleProcessor
from pyapp.errors import InputError, ModelError
from pyapp.events import Error, Item
from pyapp.formats import write_safetensors
from pyapp.models.loading.sound_labels import VOICES, load_sound_embedder
from tests.models.bank_sound_configs import SETTINGS
from tests.models.seeded import sound_weights
from tests.models.small_models import along, check_gradients, numbers, parity_case, shapes_of
from tests.models.sound_configs import recording
from tests.models.speaker_configs import CLASSES, CONFIGS, SAMPLES, samples

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}
golden, make, case = parity_case("golden_speakers", CONFIGS, VOICES, sound_weights)


def write(folder: Path, name: str, **config: Any) -> Path:
    """The folder of a model, with what training compared vectors with."""
    folder.mkdir(exist_ok=True)
    more = {"classifier.weight": pyapp.zeros(10, 10), "objective.weight": pyapp.zeros(10, 3)}
    write_safetensors(folder / "model.safetensors", dict(make(name).state_dict()) | more)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name] | {"architectures": [CLASSES[name]]} | config))
    (folder / "preprocessor_config.json").write_text(json.dumps({"do_normalize": True}))
    return folder


def test_vectors_and_gradients(case: Any) -> None:
    name, expected, model = case
    kept = {key: shape for key, (shape, *_) in expected["parameters"].items() if not key.startswith(("cl", "ob"))}
    assert shapes_of(model) == kept
    banks = name == "wav2vec2-bert"
    processor: Any = PairedBankProcessor.from_settings(SETTINGS) if banks else SampleProcessor(masks=True)
    values, _ = processor([recording(samples(name)[0])])
    model.requires_grad_()
    found = model(values)
    np.testing.assert_allclose(numbers(found).reshape(-1), expected["vectors"], **CLOSE)
    check_gradients(model, along(found, "vectors"), expected, atol=1e-2)
    with pyapp.no_grad():
        batch = processor([recording(count) for count in samples(name)])
        np.testing.assert_allclose(numbers(model(*batch)).reshape(-1), expected["padded"], **CLOSE)


def test_folders_and_the_task(tmp_path: Path) -> None:
    told: list[Any] = []
    loaded = load_sound_embedder(write(tmp_path, "wavlm"), report=told.append, dtype="q8_0")
    assert any(parameter.dtype.is_quantized for parameter in loaded.model.parameters())
    assert not [event for event in told if "not used" in getattr(event, "what", "")]

    async def run(sounds: list[Any], **options: Any) -> list[Any]:
        return [event async for event in tasks.embed_sounds(sounds, model=str(tmp_path), **options)]

    events = asyncio.run(run([recording(count) for count in SAMPLES]))
    vectors = np.array([event.values["embedding"] for event in events if isinstance(event, Item)])
    assert vectors.shape == (2, 10) and events[-1].results == {"count": 2, "dimensions": 10}
    np.testing.assert_allclose(np.square(vectors).sum(1), 1.0, rtol=1e-5)
    wanted = np.array(golden("wavlm")["vectors"])
    np.testing.assert_allclose(vectors[0], wanted / np.linalg.norm(wanted), rtol=1e-3, atol=1e-4)
    for sounds, options, message in (
        ([recording(90)], {}, "too short"), ([recording(900)], {"texts": ["a dog"]}, "reads none"),
    ):  # fmt: skip
        last = asyncio.run(run(sounds, **options))[-1]
        assert isinstance(last, Error) and message in str(last)


def test_what_cannot_be(tmp_path: Path) -> None:
    changes: tuple[dict[str, Any], ...] = (
        {"tdnn_dim": []}, {"tdnn_dim": [12, 20]}, {"tdnn_kernel": [3, 0, 1]}, {"tdnn_dilation": "far"},
        {"xvector_output_dim": 1 << 30}, {"architectures": ["WavLMForCTC"]},
    )  # fmt: skip
    for changed in changes:
        with pytest.raises(ModelError, match=next(iter(changed)) if "arch" not in str(changed) else "speech"):
            load_sound_embedder(write(tmp_path, "wavlm", **changed))
    with pytest.raises(InputError, match="of the batch is too short"):
        make("wavlm")(pyapp.zeros(1, 900), pyapp.tensor([[1] * 90 + [0] * 810]))
