"""Models that write the vectors of a codec, against transformers (make_golden_latent_voices.py): the tensors of their
files, the vectors of a voice, states, ends, the vectors that are written, and sound; their files, the task and the
command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio import read_wav, write_wav
from pyapp.audio.latent_voice import CapitalTokens, LatentVoice
from pyapp.audio.speaking import speak
from pyapp.errors import ModelError, OptionError
from pyapp.models.loading.codec import load_codec
from pyapp.models.loading.voice import load_voice
from pyapp.models.pocket_tts import Config
from pyapp.models.pocket_tts_audio_tokenizer import Config as CodecConfig
from tests.models.codec_configs import sound
from tests.models.latent_voice_configs import (
    AFTER,
    CODEC,
    CONFIGS,
    GENERATION,
    IDS,
    QUANTISED,
    SAMPLES,
    of_codec,
    weights,
)
from tests.models.seeded import shown
from tests.models.small_models import golden_in, numbers
from tests.models.test_described_voices import letters
from tests.models.voice_folders import drawn, voice_case, write_folder

CLOSE: Any = {"rtol": 2e-4, "atol": 2e-4}
golden = golden_in("golden_latent_voices")


def write(folder: Path, name: str, **config: Any) -> Path:
    """The folder of a model, with tensors as transformers names them, one of its codec and a recording within it."""
    shapes = ({key: shape for key, shape in golden(name)[part].items() if shape} for part in ("tensors", "codec"))
    model, codec = (drawn(own, values) for own, values in zip(shapes, (weights, of_codec), strict=True))
    write_folder(folder / "codec", codec, CODEC)
    write_folder(folder, model, CONFIGS[name] | config, generation_config=GENERATION, tokenizer=letters())
    write_wav(folder / "voice.wav", sound(1, SAMPLES)[0, 0] / 4, 1600)
    return folder


case = voice_case(
    CONFIGS, write, golden, lambda folder: load_voice(folder, codec=folder / "codec", voices=folder / "voice.wav")
)


def test_parity(case: Any) -> None:
    """Files give every parameter; voices, states, what is written and its sound are those of transformers."""
    _, expected, loaded, _ = case
    voice: LatentVoice = loaded.model
    model = voice.model
    number = voice.hear(sound(1, SAMPLES)[0, 0])
    own = voice.voices[number]
    np.testing.assert_allclose(shown(numbers(own), 60), expected["voice"], **CLOSE)
    with pyapp.no_grad():
        latents = pyapp.linspace(-1, 1, 18).reshape(3, 6)
        states, ends = model(model.embedded(IDS, own, latents))
    np.testing.assert_allclose(shown(numbers(states), 96), expected["states"], **CLOSE)
    np.testing.assert_allclose(numbers(ends).reshape(-1), expected["ends"], **CLOSE)
    frames = [*voice.written(IDS, own, lambda: pyapp.zeros(6), AFTER)]
    assert len(frames) == expected["frames"]
    written = pyapp.stack(frames)
    scores = [
        end for _, end in model.written(IDS, own, len(frames), lambda: pyapp.zeros(6), GENERATION["num_flow_steps"])
    ]
    np.testing.assert_allclose(scores, expected["scores"], **CLOSE)
    with pyapp.no_grad():
        made = model.latents(written)
        np.testing.assert_allclose(shown(numbers(made), 60), expected["latents"], **CLOSE)
        np.testing.assert_allclose(shown(numbers(voice.codec(made.unsqueeze(0))[0, 0]), 60), expected["sound"], **CLOSE)
        faded = numbers(voice.sound(written))  # eight samples become louder
        np.testing.assert_allclose(
            faded[:8], numbers(voice.codec(made.unsqueeze(0))[0, 0])[:8] * np.arange(8) / 7, **CLOSE
        )
        whole, _ = model(model.embedded(IDS, own, written[:2]))  # what is cached is as the whole
        again = model.flow_head.drawn(pyapp.zeros(1, 6), whole[:, -1], GENERATION["num_flow_steps"])
    np.testing.assert_allclose(numbers(again[0]), numbers(frames[2]), **CLOSE)
    del voice.voices[number]


def test_speech(case: Any, tmp_path: Path) -> None:
    """The same with the same seed; another one in another voice; a voice of a file of vectors."""
    _, _, loaded, folder = case
    found, rate = speak(loaded, "it is so", {"seed": 4})
    assert rate == 1600 and len(found) and np.array_equal(found, speak(loaded, "it is so", {"seed": 4})[0])
    assert not np.array_equal(found, speak(loaded, "it is so", {"seed": 5})[0])
    calm, other = (speak(loaded, "it", {"noise": 0, "seed": seed})[0] for seed in (1, 2))
    assert np.array_equal(calm, other)
    np.save(tmp_path / "voice.npy", numbers(loaded.model.voices[0]).astype(np.float32))
    again = load_voice(folder, codec=folder / "codec", voices=tmp_path / "voice.npy")
    assert np.array_equal(found, speak(again, "it is so", {"seed": 4})[0])
    assert again.model.hear(sound(1, SAMPLES)[0, 0] / 9) == 1 and again.speakers == 2
    assert not np.array_equal(found, speak(again, "it is so", {"seed": 4, "speaker": 1})[0])
    for options, told in (({"rate": 2}, "its own"), ({"phonemes": True}, "letters"), ({"speaker": 1}, "one voice")):
        with pytest.raises(OptionError, match=told):
            speak(loaded, "it", options)
    with pytest.raises(OptionError, match="has heard none"):
        speak(load_voice(folder, codec=folder / "codec"), "it")
    with pytest.raises(OptionError, match="60 seconds"):
        loaded.model.hear(np.zeros(1600 * 61, np.float32))
    for wrong, told in (([], "no samples"), (np.full(9, np.nan), "finite"), ("x", "mono"), ([[1.0, 2.0]], "mono")):
        with pytest.raises(OptionError, match=told):
            loaded.model.hear(wrong)
    np.save(tmp_path / "voice.npy", np.zeros((3, 5), np.float32))
    with pytest.raises(ModelError, match="a voice is"):
        load_voice(folder, codec=folder / "codec", voices=tmp_path / "voice.npy")

    class Words:
        def encode(self, text: str, **options: Any) -> list[int]:
            return [*text.encode()]

    for text, wanted in ((" it is", "It is."), ("On!", "On!"), ("a", "A.")):
        assert bytes(CapitalTokens(Words()).read(text).ids).decode() == wanted


@pytest.mark.native_only
def test_the_command(case: Any, tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    file, folder = tmp_path / "speech.wav", case[3]
    parts = ["--codec", str(folder / "codec"), "--voices", str(folder / "voice.wav"), "-o", str(file)]
    found = testing.CliRunner().invoke(cli, ["speak", "it is", "-m", str(folder), *parts], standalone_mode=False)
    assert found.return_value == 0 and read_wav(file)[1] == 1600, found.output


FLOW = CONFIGS["pocket"]["flow_head_config"]
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"flow_head_config": 3}, "flow_head_config"), ({"flow_head_config": FLOW | {"flow_type": "x"}}, "flow_type"),
    ({"flow_head_config": FLOW | {"latent_dim": 5}}, "latent_dim of flow"), ({"audio_bos_token_id": 44}, "audio_bos"),
    ({"flow_head_config": FLOW | {"condition_dim": 5}}, "condition_dim"), ({"num_key_value_heads": 3}, "num_key_value"),
    ({"flow_head_config": FLOW | {"frequency_embedding_size": 7}}, "even"), ({"frame_rate": 0.0}, "frame_rate"),
    ({"hidden_size": 1 << 30}, "hidden_size"), ({"head_dim": 7}, "rotated"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        Config.from_dict(CONFIGS["pocket"] | changed)


def test_codecs(tmp_path: Path) -> None:
    """One without an encoder makes sound only; impossible ones are refused."""
    folder = write(tmp_path / "model", "pocket") / "codec"
    (folder / "config.json").write_text(json.dumps(CODEC | {"encoder_config": None}))
    codec = load_codec(folder, task="audio-latents").model
    with pyapp.no_grad():
        assert codec(pyapp.zeros(1, 2, 6)).shape == (1, 1, 32)
    with pytest.raises(ModelError, match="no encoder"):
        codec.encode(pyapp.zeros(1, 1, 32))
    for changed, told in (({"decoder_config": None}, "decoder_config"), ({"num_key_value_heads": 1}, "num_key_value"),
                          ({"upsample_groups": 5}, "upsample_groups"), ({"audio_channels": 2}, "audio_channels"),
                          ({"latent_dim": 1 << 20}, "latent_dim")):  # fmt: skip
        with pytest.raises(ModelError, match=told):
            CodecConfig.from_dict(CODEC | changed)


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", name)
    model, *others = (
        load_voice(folder, codec=folder / "codec", dtype=dtype).model.model for dtype in (None, "q8_0", "bfloat16")
    )
    voice = pyapp.linspace(-1, 1, 18).reshape(3, 6)
    with pyapp.no_grad():
        expected = numbers(model(model.embedded(IDS, voice))[0])
        for other in others:
            found = numbers(other(other.embedded(IDS, voice))[0])
            assert np.abs(found - expected).mean() < 0.06 * expected.std()
    for wrong in ({"temperature": -1}, {"num_flow_steps": 0}, {"eos_threshold": "x"}):
        with pytest.raises(ModelError, match=next(iter(wrong))):
            LatentVoice(model, load_codec(folder / "codec", task="audio-latents").model, None, GENERATION | wrong)
