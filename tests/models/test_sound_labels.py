"""Models that name what a recording is of, against transformers (make_golden_sound_labels.py): names, what is made of
samples, logits, padding and gradients; their files, the task, the pipeline and the command.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio import write_wav
from pyapp.audio.processors.banks import FilterBankProcessor, PairedBankProcessor
from pyapp.audio.processors.samples import SampleProcessor
from pyapp.errors import InputError, ModelError
from pyapp.events import Error, Item, Notice
from pyapp.models.loading.sound_labels import TASK, load_sound_classifier
from pyapp.nn import functional
from tests.models.seeded import shown, sound_weights
from tests.models.small_models import check_gradients, numbers, parity_case, shapes_in, shapes_of
from tests.models.sound_configs import recording
from tests.models.sound_label_configs import CLASSES, CONFIGS, LABEL, QUANTISED, SAMPLES
from tests.models.voice_folders import write_folder

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
golden, make, case = parity_case("golden_sound_labels", CONFIGS, TASK, sound_weights)


def processor_of(name: str) -> Any:
    kinds = {"spectrogram": FilterBankProcessor, "wav2vec2-bert-weighted": PairedBankProcessor}
    kind: Any = kinds.get(name, SampleProcessor)
    return kind.from_settings(golden(name)["settings"])


def write(folder: Path, name: str, state: dict[str, Any], **config: Any) -> Path:
    """The folder of a model."""
    named = {"architectures": [CLASSES[name]]}
    return write_folder(folder, state, CONFIGS[name] | named | config, preprocessor_config=golden(name)["settings"])


def test_names_and_shapes(case: Any) -> None:
    _, expected, model = case
    assert shapes_of(model) == shapes_in(expected)


def test_logits_alone_and_with_padding(case: Any) -> None:
    name, expected, model = case
    processor = processor_of(name)
    with pyapp.no_grad():
        np.testing.assert_allclose(
            numbers(model(processor([recording(SAMPLES[0])])[0]))[0], expected["logits"], **CLOSE
        )
        values, mask = processor([recording(count) for count in SAMPLES])
        np.testing.assert_allclose(shown(numbers(values), 100), expected["input"], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(numbers(model(values, mask)).reshape(-1), expected["padded"], **CLOSE)


def test_gradients(case: Any) -> None:
    name, expected, model = case
    model.requires_grad_()
    model.zero_grad()
    loss = functional.cross_entropy(model(processor_of(name)([recording(SAMPLES[0])])[0]), pyapp.tensor([LABEL]))
    check_gradients(model, loss, expected, atol=2e-3)


def test_folders_load_and_label(case: Any, tmp_path: Path) -> None:
    """The task, the pipeline and the command, with the labels of the logits."""
    name, _, model = case
    folder = write(tmp_path / "model", name, dict(model.state_dict()))
    file = tmp_path / "sound.wav"
    write_wav(file, recording(SAMPLES[0]), 16000)
    loaded = load_sound_classifier(folder)
    samples = next(iter(pyapp.audio.open_audio(file)))
    with pyapp.no_grad():
        chances = model(loaded.processor([samples])[0]).softmax(-1)[0].tolist()
    expected = sorted(zip(model.config.labels, chances, strict=True), key=lambda pair: -pair[1])
    labels = pyapp.pipeline("audio-classification", str(folder))(str(file), top=2)
    assert [entry["label"] for entry in labels] == [label for label, _ in expected[:2]]
    np.testing.assert_allclose([entry["score"] for entry in labels], [chance for _, chance in expected[:2]], rtol=1e-5)
    assert pyapp.pipeline("audio-classification", loaded)([str(file), file], top=2) == [labels, labels]
    assert len(pyapp.pipeline("audio-classification", loaded)(samples)) == len(expected)

    async def run() -> list[Any]:
        return [event async for event in tasks.classify_sounds([file, np.zeros(12000, np.float32)], model=loaded)]

    events = asyncio.run(run())
    assert [len(event.values["labels"]) for event in events if isinstance(event, Item)] == [3, 3]
    assert any(isinstance(event, Notice) and "0.5 seconds" in event.what for event in events) == (name == "spectrogram")


@pytest.mark.native_only
def test_the_command(tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    folder = write(tmp_path / "model", "wav2vec2", dict(make("wav2vec2").state_dict()))
    file = str(tmp_path / "sound.wav")
    write_wav(file, recording(SAMPLES[0]), 16000)
    runner = testing.CliRunner()
    found = runner.invoke(cli, ["classify-sound", file, "-m", str(folder), "--top", "1"], standalone_mode=False)
    best = pyapp.pipeline("audio-classification", str(folder))(file)[0]
    assert found.stdout == f"{best['label']} {best['score']:.4f}\t{file}\n"
    missing = runner.invoke(cli, ["classify-sound", "none.wav", "-m", str(folder)], standalone_mode=False)
    assert missing.stdout == "" and "none.wav" in missing.stderr


def test_too_short_and_too_long(tmp_path: Path) -> None:
    loaded = load_sound_classifier(write(tmp_path, "wav2vec2", dict(make("wav2vec2").state_dict())))

    async def run(sound: Any) -> Any:
        return [event async for event in tasks.classify_sounds([sound], model=loaded)][-1]

    for count, told in ((5, "too short"), (301 * 16000, "more than 300 seconds")):
        event = asyncio.run(run(np.zeros(count, np.float32)))
        assert isinstance(event, Error) and told in str(event)


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    model = make(name)
    values, mask = processor_of(name)([recording(SAMPLES[0])])
    found = load_sound_classifier(write(tmp_path, name, dict(model.state_dict())), dtype="q8_0").model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    with pyapp.no_grad():
        expected = numbers(model(values, mask))
        assert np.abs(numbers(found(values, mask)) - expected).mean() < 0.1 * np.abs(expected).mean()


HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("wav2vec2", {"classifier_proj_size": 1 << 30}, "classifier_proj_size"),
    ("wav2vec2", {"id2label": {"5": "a"}}, "id2label"), ("spectrogram", {"num_attention_heads": 5}, "divide"),
    ("spectrogram", {"max_length": 1 << 30}, "max_length"), ("spectrogram", {"patch_size": 40}, "patch_size"),
    ("spectrogram", {"max_length": 1 << 14, "num_mel_bins": 1 << 14, "time_stride": 1}, "patches"),
    ("wav2vec2", {"architectures": ["Wav2Vec2ForCTC"]}, "speech-recognition"),
    ("spectrogram", {"max_length": 60}, "50 frames"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "told"), HOSTILE)
def test_hostile_configurations(name: str, changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    state = dict(make(name, **changed).state_dict()) if "50 frames" in told else {"a": pyapp.ones(1)}
    with pytest.raises(ModelError, match=told):
        load_sound_classifier(write(tmp_path, name, state, **changed))


def test_wrong_settings_and_inputs(tmp_path: Path) -> None:
    for settings in ({"max_length": 0}, {"num_mel_bins": "x"}, {"std": 0}, {"mean": None}, {"sampling_rate": 8000}):
        with pytest.raises(ModelError):
            FilterBankProcessor.from_settings(settings)
    assert FilterBankProcessor.from_settings({"do_normalize": False}) == FilterBankProcessor()
    with pytest.raises(InputError, match="spectrograms"):
        make("spectrogram")(pyapp.zeros(1, 40, 24))
