"""Models of recordings and texts, against transformers (make_golden_sound_matches.py): spectrograms, names, logits,
vectors and gradients; their files, the tasks and the commands.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio import write_wav
from pyapp.audio.processors.decibels import DecibelProcessor
from pyapp.errors import ArgumentError, ModelError
from pyapp.events import Error, Item, Notice
from pyapp.models.loading.sound_labels import MATCHING, load_sound_matcher
from pyapp.nn import functional
from tests.models.seeded import shown, sound_weights
from tests.models.small_models import check_gradients, golden_of, numbers, seeded_model, shapes_in, shapes_of
from tests.models.sound_configs import recording
from tests.models.sound_match_configs import CONFIGS, FUSED, FUSED_SAMPLES, QUANTISED, SAMPLES, SETTINGS, TEXTS
from tests.models.test_listeners import tokenizer_file
from tests.models.voice_folders import write_folder
from tests.together import collect

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def make(name: str) -> Any:
    """The model of a configuration, with its seeded weights."""
    return seeded_model(CONFIGS[name], MATCHING, sound_weights)


def write(folder: Path, name: str, state: dict[str, Any], settings: Any = None, **config: Any) -> Path:
    """The folder of a model, with a tokenizer of 40 tokens."""
    files = {"preprocessor_config": settings or SETTINGS, "tokenizer": tokenizer_file(40)}
    return write_folder(folder, state, CONFIGS[name] | {"architectures": ["ClapModel"]} | config, **files)


def inputs(name: str) -> tuple[pyapp.Tensor, pyapp.Tensor, pyapp.Tensor]:
    """Spectrograms, and texts with their mask."""
    settings, counts = (FUSED, FUSED_SAMPLES) if name == "clap-fused" else (SETTINGS, SAMPLES)
    longest = max(map(len, TEXTS))
    ids = pyapp.tensor([[*text, *[1] * (longest - len(text))] for text in TEXTS])
    processor = replace(DecibelProcessor.from_settings(settings), fused=name == "clap-fused")
    return processor([recording(count) for count in counts])[0], ids, ids != 1


@pytest.mark.parametrize("name", CONFIGS)
def test_parity(name: str) -> None:
    model, expected = make(name), golden_of("golden_sound_matches", name)
    assert shapes_of(model) == shapes_in(expected)
    features, ids, mask = inputs(name)
    np.testing.assert_allclose(shown(numbers(features), 80), expected["input"], rtol=1e-3, atol=1e-3)
    with pyapp.no_grad():
        for found, wanted in (
            (model.sound_features(features), "sounds"),
            (model.text_features(ids, mask), "texts"),
        ):
            found = numbers(found / (found * found).sum(1, keepdim=True).sqrt())
            np.testing.assert_allclose(found.reshape(-1), expected[wanted], **CLOSE)
    model.requires_grad_()
    logits = model(features, ids, mask)
    np.testing.assert_allclose(numbers(logits).reshape(-1), expected["logits"], **CLOSE)
    check_gradients(model, functional.cross_entropy(logits, pyapp.tensor([0, 1])), expected)


def test_tasks_and_folders(tmp_path: Path) -> None:
    model = make("clap")
    folder = write(tmp_path / "model", "clap", dict(model.state_dict()))
    file = tmp_path / "sound.wav"
    write_wav(file, recording(SAMPLES[0]), 48000)
    loaded = load_sound_matcher(folder)
    [samples] = pyapp.audio.open_audio(file, to_rate=48000)
    labels = ["aa ab", "ac", "ad ae af"]

    with pyapp.no_grad():
        sound = model.sound_features(loaded.processor([samples])[0])
        rows = [loaded.tokenizer.encode(f"ah {label}") for label in labels]
        texts = pyapp.cat([model.text_features(pyapp.tensor([row])) for row in rows])
        chances = model.scores(sound, texts).softmax(-1)[0].tolist()
    expected = sorted(zip(labels, chances, strict=True), key=lambda pair: -pair[1])
    found = pyapp.pipeline(MATCHING, str(folder))(str(file), labels, template="ah {}")
    assert [entry["label"] for entry in found] == [label for label, _ in expected]
    np.testing.assert_allclose([entry["score"] for entry in found], [chance for _, chance in expected], rtol=1e-4)
    sounds = [file, np.zeros(40000, np.float32)]
    events = collect(tasks.match_sounds(sounds, labels, model=loaded, template="ah {}"))
    items = [event for event in events if isinstance(event, Item)]
    assert items[0].values["labels"] == found and len(items) == 2
    assert any(isinstance(event, Notice) and "first 2.0 seconds" in event.what for event in events)
    events = collect(tasks.embed_sounds(file, ["aa ab"], model=loaded))
    vectors = np.array([event.values["embedding"] for event in events if isinstance(event, Item)])
    unit = numbers(sound[0]) / np.linalg.norm(numbers(sound[0]))
    np.testing.assert_allclose(vectors[0], unit, rtol=1e-4, atol=1e-5)
    assert vectors.shape == (2, 12) and events[-1].results == {"count": 2, "dimensions": 12}
    for wrong in ({"labels": [" "]}, {"labels": ["a"], "template": "no place"}):
        assert isinstance(collect(tasks.match_sounds([file], model=loaded, **wrong))[-1], Error)


def test_fused_recordings_are_heard_whole(tmp_path: Path) -> None:
    model, file = make("clap-fused"), tmp_path / "sound.wav"
    loaded = load_sound_matcher(write(tmp_path / "model", "clap-fused", dict(model.state_dict()), FUSED))
    write_wav(file, recording(FUSED_SAMPLES[1]), 48000)
    samples = np.concatenate([*pyapp.audio.open_audio(file, to_rate=48000)])

    async def run() -> list[Any]:
        return [event async for event in tasks.embed_sounds([file], model=loaded)]

    events = asyncio.run(run())
    [found] = [event.values["embedding"] for event in events if isinstance(event, Item)]
    assert not any(isinstance(event, Notice) for event in events) and len(samples) == FUSED_SAMPLES[1]
    with pyapp.no_grad():
        expected = numbers(model.sound_features(DecibelProcessor(64, 2, 50.0, fused=True)([samples])[0])[0])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.native_only
def test_the_commands(tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    folder = write(tmp_path / "model", "clap", dict(make("clap").state_dict()))
    file = str(tmp_path / "sound.wav")
    write_wav(file, recording(SAMPLES[0]), 48000)
    runner = testing.CliRunner()
    options = [file, "-m", str(folder)]
    found = runner.invoke(cli, ["classify-sound", *options, "--labels", "aa, ab", "--top", "1"], standalone_mode=False)
    best = pyapp.pipeline(MATCHING, str(folder))(file, ["aa", "ab"])[0]
    assert found.stdout == f"{best['label']} {best['score']:.4f}\t{file}\n"
    found = runner.invoke(cli, ["embed-sound", *options, "--text", "ac"], standalone_mode=False)
    assert [len(json.loads(line)) for line in found.stdout.splitlines()] == [12, 12]
    found = runner.invoke(cli, ["classify-sound", *options, "--template", "{}"])
    assert found.exit_code == 2 and "--labels" in found.output


AUDIO = CONFIGS["clap"]["audio_config"]
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"audio_config": AUDIO | {"enable_fusion": True, "fusion_type": "channel_map"}}, "fusion"),
    ({"audio_config": 3}, "audio_config"), ({"audio_config": AUDIO | {"aff_block_r": 99}}, "aff_block_r"),
    ({"audio_config": AUDIO | {"num_attention_heads": [3, 4]}}, "3 heads"), ({"projection_dim": 1 << 20}, "projection"),
    ({"audio_config": AUDIO | {"spec_size": 60}}, "spec_size"), ({"audio_config": AUDIO | {"depths": [2]}}, "depths"),
    ({"audio_config": AUDIO | {"window_size": 16}}, "window_size"),
    ({"audio_config": AUDIO | {"hidden_size": 16}}, "hidden"),
    ({"text_config": CONFIGS["clap"]["text_config"] | {"pad_token_id": 99}}, "pad_token_id"),
    ({"settings": SETTINGS | {"max_length_s": 9}}, "frames"),
    ({"settings": SETTINGS | {"hop_length": 3}}, "hop_length"),
    ({"settings": SETTINGS | {"sampling_rate": 16000}}, "48 kHz|48,000"),
    ({"settings": SETTINGS | {"frequency_max": 10}}, "Hz"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    state = dict(make("clap").state_dict()) if "settings" in changed else {"a": pyapp.ones(1)}
    with pytest.raises(ModelError, match=told):
        load_sound_matcher(write(tmp_path / "model", "clap", state, **changed))


def test_wrong_spectrograms() -> None:
    model = make("clap")
    for shape in ((1, 1, 10, 8), (1, 1, 300, 16), (1, 4, 10, 16)):
        with pytest.raises(ArgumentError, match="spectrograms"):
            model.audio_model.audio_encoder.folded(pyapp.zeros(*shape))


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    model = make(name)
    found = load_sound_matcher(write(tmp_path / "model", name, dict(model.state_dict())), dtype="q8_0").model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    features, ids, mask = inputs(name)
    with pyapp.no_grad():
        for expected, other in (
            (model.sound_features(features), found.sound_features(features)),
            (model.text_features(ids, mask), found.text_features(ids, mask)),
        ):
            assert np.abs(numbers(other) - numbers(expected)).mean() < 0.06 * numbers(expected).std()
