"""Models that label the moments of a recording, against transformers (make_golden_speakers.py): names, logits, padding
and gradients; their folders, the task and its command.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, tasks
from pyapp.audio import write_wav
from pyapp.audio.processors.banks import PairedBankProcessor
from pyapp.audio.processors.samples import SampleProcessor
from pyapp.errors import ModelError
from pyapp.events import Error, Item
from pyapp.formats import write_safetensors
from pyapp.models.loading.sound_labels import MOMENTS as TASK
from pyapp.models.loading.sound_labels import load_sound_classifier
from tests.models.bank_sound_configs import SETTINGS
from tests.models.seeded import sound_weights
from tests.models.small_models import along, check_gradients, numbers, parity_case, shapes_of
from tests.models.sound_configs import recording
from tests.models.speaker_configs import MOMENTS, SAMPLES, samples

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}
golden, make, case = parity_case("golden_moments", MOMENTS, TASK, sound_weights)


def write(folder: Path, kind: str = "Wav2Vec2ConformerForAudioFrameClassification") -> Path:
    write_safetensors(folder / "model.safetensors", dict(make("conformer").state_dict()))
    (folder / "config.json").write_text(json.dumps(MOMENTS["conformer"] | {"architectures": [kind]}))
    (folder / "preprocessor_config.json").write_text(json.dumps({"do_normalize": True}))
    return folder


def test_logits_and_gradients(case: Any) -> None:
    name, expected, model = case
    assert shapes_of(model) == {key: shape for key, (shape, *_) in expected["parameters"].items()}
    banks = name == "wav2vec2-bert"
    processor: Any = PairedBankProcessor.from_settings(SETTINGS) if banks else SampleProcessor(masks=True)
    values, _ = processor([recording(samples(name)[0])])
    model.requires_grad_()
    found = model(values)
    np.testing.assert_allclose(numbers(found).reshape(-1), expected["vectors"], **CLOSE)
    loss = along(found, "vectors")
    check_gradients(model, loss, expected, atol=1e-2)
    with pyapp.no_grad():
        batch = processor([recording(count) for count in samples(name)])
        np.testing.assert_allclose(numbers(model(*batch)).reshape(-1), expected["padded"], **CLOSE)


def test_the_task_says_when_labels_hold(tmp_path: Path) -> None:
    folder = str(write(tmp_path))
    with pyapp.no_grad():
        logits = make("conformer")(SampleProcessor()([recording(SAMPLES[0])])[0])[0]
        chances = numbers(logits.sigmoid())  # (T, 3)
        middle = float(np.median(chances))

    async def run(sound: Any, **options: Any) -> list[Any]:
        return [event async for event in tasks.label_moments([sound], model=folder, **options)]

    events = asyncio.run(run(recording(SAMPLES[0]), threshold=middle))
    [parts] = [event.values["labels"] for event in events if isinstance(event, Item)]
    step = make("conformer").config.samples_per_moment / 16000
    shown = np.zeros(chances.shape, bool)
    for part in parts:
        column, (first, end) = "Ada Bob Cleo".split().index(part["label"]), (part["start"] / step, part["end"] / step)
        shown[round(first) : round(end), column] = True
        assert abs(part["score"] - chances[round(first) : round(end), column].mean()) < 1e-4
    assert (shown == (chances >= middle)).all() and 0 < shown.sum() < shown.size
    assert [part["start"] for part in parts] == sorted(part["start"] for part in parts)
    for sound, options, message in ((recording(9), {}, "too short"), (recording(900), {"threshold": 1}, "threshold")):
        last = asyncio.run(run(sound, **options))[-1]
        assert isinstance(last, Error) and message in str(last)
    with pytest.raises(ModelError, match="audio-classification"):
        load_sound_classifier(write(tmp_path, "Wav2Vec2ConformerForSequenceClassification"), moments=True)


def test_block_types() -> None:
    model = make("wav2vec2-weighted", hidden_size=32, intermediate_size=64)
    values, _ = SampleProcessor()([recording(SAMPLES[0])])
    with pyapp.no_grad():
        exact = numbers(model(values))
        assert nn.quantize(model, "q8_0")
        assert 0 < np.abs(numbers(model(values)) - exact).max() < 0.2 * np.abs(exact).max()


@pytest.mark.native_only
def test_the_command(tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    folder, file = write(tmp_path), tmp_path / "a.wav"
    write_wav(str(file), recording(SAMPLES[0]), 16000)
    found = testing.CliRunner().invoke(cli, ["label-sound", str(file), "-m", str(folder), "--threshold", "0.01"])
    assert found.exit_code == 0 and all(len(line.split("\t")) == 5 for line in found.stdout.splitlines())
    assert {line.split("\t")[2] for line in found.stdout.splitlines()} <= {"Ada", "Bob", "Cleo"} and found.stdout
