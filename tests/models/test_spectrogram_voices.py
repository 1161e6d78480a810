"""SpeechT5 and its vocoder against transformers (make_golden_spectrogram_voices.py): names, frames, gradients, what is
written and its sound; the files, the task and the command.
"""

from __future__ import annotations

import asyncio
import base64
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio import read_wav
from pyapp.audio.speaking import speak
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.formats import write_npy
from pyapp.models.loading.voice import load_voice
from pyapp.models.speecht5 import renamed
from tests.models.seeded import direction, shown
from tests.models.small_models import golden_of, numbers
from tests.models.spectrogram_voice_configs import CONFIGS, OTHER, TEXT, frames, kept, voices, weights
from tests.models.voice_folders import write_folder

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
FOLDER = "golden_spectrogram_voices"
CLASSES = {"speecht5": "SpeechT5ForTextToSpeech", "vocoder": "SpeechT5HifiGan"}


@cache
def state_of(name: str) -> dict[str, pyapp.Tensor]:
    """The tensors of a file, as transformers names them."""
    return {key: pyapp.from_numpy(np.asarray(weights(key, shape))) for key, shape in shapes(name).items()}


def shapes(name: str) -> dict[str, tuple[int, ...]]:
    """Those of parameters and statistics."""
    expected = golden_of(FOLDER, name)
    own = {key: shape for key, (shape, *_) in expected.get("parameters", {}).items()}
    return {key: tuple(shape) for key, shape in (expected["tensors"] | own).items()}


def write(folder: Path, name: str = "speecht5", **config: Any) -> Path:
    """The folder of a model."""
    write_folder(folder, state_of(name), CONFIGS[name] | {"architectures": [CLASSES[name]]} | config)
    if name == "speecht5":
        (folder / "spm_char.model").write_bytes(base64.b64decode(golden_of(FOLDER, name)["letters"]))
        write_npy(folder / "speaker_embeddings.npy", pyapp.from_numpy(voices()))
    return folder


def keep(shape: tuple[int, ...]) -> pyapp.Tensor:
    return pyapp.from_numpy(kept(shape).copy())


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Path]:
    place = tmp_path_factory.mktemp("speecht5")
    folder, vocoder = write(place / "model"), write(place / "vocoder", "vocoder")
    return load_voice(folder, codec=vocoder), folder, vocoder


def test_frames_and_gradients(loaded: Any) -> None:
    expected, model = golden_of(FOLDER, "speecht5"), loaded[0].model.model
    stored = {renamed(key): shape for key, shape in shapes("speecht5").items()}
    assert {key: tuple(value.shape) for key, value in model.state_dict().items() if value.is_floating_point()} == stored
    ids = pyapp.tensor([TEXT, [*OTHER, *[1] * (len(TEXT) - len(OTHER))]], dtype="int32")
    model.requires_grad_()
    plain, refined, ends = model(
        ids, pyapp.from_numpy(frames()), pyapp.from_numpy(voices()), keep, (ids != 1).to("int32")
    )
    for name, values in (("plain", plain), ("refined", refined), ("ends", ends)):
        found = numbers(values) if name == "ends" else shown(numbers(values))
        np.testing.assert_allclose(found.reshape(-1), expected[name], **CLOSE, err_msg=name)
    for name, values in (("refined", refined), ("ends", ends)):
        way = pyapp.tensor(direction(name, tuple(values.shape)).astype(np.float32))
        (values * way).sum().backward(retain_graph=True)
    names = {renamed(key): key for key in expected["parameters"]}
    for key, parameter in model.named_parameters():
        grad = np.zeros(parameter.shape) if parameter.grad is None else numbers(parameter.grad)
        _, total, product = expected["parameters"][names[key]]
        found = [grad.sum(), (grad * direction(names[key], grad.shape)).sum()]
        np.testing.assert_allclose(found, [total, product], rtol=5e-3, atol=5e-3, err_msg=key)
    model.zero_grad()
    model.requires_grad_(False)


def test_what_is_written_and_its_sound(loaded: Any) -> None:
    expected, voice = golden_of(FOLDER, "speecht5"), loaded[0].model
    with pyapp.no_grad():
        spectrogram = voice.refined([*voice.written(TEXT, 1, keep)])  # (1, bins, F)
        [sound] = [part for part in voice.vocoder.in_windows(voice.vocoder.prepared(spectrogram)) if part is not None]
    assert [spectrogram.shape[2], spectrogram.shape[1]] == expected["frames"]
    np.testing.assert_allclose(shown(numbers(spectrogram[0].transpose(0, 1))), expected["written"], **CLOSE)
    np.testing.assert_allclose(shown(numbers(sound[0]), 64), expected["sound"], **CLOSE)


def test_texts_are_spoken(loaded: Any, tmp_path: Path) -> None:
    """Letters that are not known are left out and told; a seed speaks alike; wrong settings and files are refused."""
    found, folder, vocoder = loaded
    assert found.speakers == 2 and found.model.sample_rate == 16000
    assert found.tokenizer.read("Heta  eta  .").ids == (*golden_of(FOLDER, "speecht5")["ids"], 2)
    read = found.tokenizer.read("H7eta etz")
    assert read.ids == (4, 12, 5, 6, 7, 4, 5, 6, 2) and read.unknown == ("7", "z")
    first, rate = speak(found, "Hi.", {"speaker": 1, "seed": 3})
    assert rate == 16000 and len(first) and len(first) % 16 == 0
    np.testing.assert_array_equal(first, speak(found, "Hi.", {"speaker": 1, "seed": 3})[0])
    for options, told in (({"speaker": 2}, "voices 0 to 1"), ({"rate": 2.0}, "rate"), ({"phonemes": True}, "letters")):
        with pytest.raises(OptionError, match=told):
            speak(found, "Hi.", options)
    with pytest.raises(ArgumentError, match="S from 1"):
        found.model.model.encode(pyapp.zeros(1, 99, dtype="int32"))
    one = tmp_path / "one.npy"
    write_npy(one, pyapp.from_numpy(voices()[0]))
    assert load_voice(folder, codec=vocoder, voices=one).speakers == 1
    write_npy(one, pyapp.zeros(4))
    with pytest.raises(ModelError, match="5 numbers"):
        load_voice(folder, codec=vocoder, voices=one)
    with pytest.raises(ModelError, match="made for text-to-speech|vocoder"):
        load_voice(folder, codec=folder)
    (bare := write(tmp_path / "bare")).joinpath("speaker_embeddings.npy").unlink()
    with pytest.raises(ModelError, match="voice of a vector"):
        load_voice(bare, codec=vocoder)

    async def run() -> list[Any]:
        stream = tasks.speak("Hi. Hi.", {"speaker": 1}, model=str(folder), codec=str(vocoder))
        return [event async for event in stream]

    assert asyncio.run(run())[-1].results["sentences"] == 2


@pytest.mark.native_only
def test_the_command(loaded: Any, tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    _, folder, vocoder = loaded
    output, vectors = tmp_path / "sound.wav", folder / "speaker_embeddings.npy"
    asked = ["speak", "Hi.", "-m", str(folder), "--codec", str(vocoder), "--voices", str(vectors), "-o", str(output)]
    result = testing.CliRunner().invoke(cli, asked, standalone_mode=False)
    assert result.return_value == 0, result.output
    assert len(read_wav(output)[0])


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"encoder_attention_heads": 3}, "divide"), ({"speech_decoder_postnet_kernel": 4}, "kernel"),
    ({"speech_decoder_prenet_dropout": 1.0}, "dropout"), ({"encoder_layers": 1 << 20}, "encoder_layers"),
    ({"max_text_positions": 1 << 30}, "max_text_positions"), ({"num_mel_bins": 1 << 30}, "num_mel_bins"),
    ({"pad_token_id": 99}, "pad_token_id"), ({"layer_norm_eps": 1e-6}, "layer_norm_eps"),
]  # fmt: skip


def test_hostile_configurations(loaded: Any, tmp_path: Path) -> None:
    for changed, told in HOSTILE:
        with pytest.raises(ModelError, match=told):
            load_voice(write(tmp_path / "model", **changed), codec=loaded[2])
    for changed, told in (({"upsample_rates": [4]}, "entries"), ({"model_in_dim": 7}, "shape|bins|7")):
        with pytest.raises(ModelError, match=told):
            load_voice(loaded[1], codec=write(tmp_path / "vocoder", "vocoder", **changed))
