"""Models that speak scripts, against transformers (make_golden_script_voices.py): the tensors of their files, the
vectors of a voice, states, and sound; their files in both forms, scripts, the task and the command.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio import read_wav, write_wav
from pyapp.audio.script_voice import SCHEDULE, ScriptVoice, passages
from pyapp.audio.speaking import speak
from pyapp.errors import ModelError, OptionError
from pyapp.models.diffusion.read_schedule import read_schedule
from pyapp.models.loading.voice import load_voice
from pyapp.models.vibevoice import renamed
from pyapp.nn.audio.causal_convolutions import PaddingCache
from tests.models.codec_configs import sound
from tests.models.script_voice_configs import (
    AFTER,
    AUTHORS,
    BEFORE,
    CONFIGS,
    GENERATION,
    MOST,
    NAMES,
    SAMPLES,
    weights,
)
from tests.models.seeded import shown
from tests.models.small_models import golden_in, numbers
from tests.models.test_described_voices import letters
from tests.models.voice_folders import drawn, voice_case, write_folder

CLOSE: Any = {"rtol": 2e-4, "atol": 2e-4}
RATE = 24000
golden = golden_in("golden_script_voices")


def write(folder: Path, name: str, salt: int = 7) -> Path:
    """The folder of a model, and a recording of a voice within it."""
    state = drawn(golden(name)["tensors"], partial(weights, salt=salt))
    write_folder(folder, state, CONFIGS[name], generation_config=GENERATION, tokenizer=letters())
    write_wav(folder / "voice.wav", sound(1, SAMPLES)[0, 0] / 4, RATE)
    return folder


case = voice_case(CONFIGS, write, golden, lambda folder: load_voice(folder, voices=folder / "voice.wav"))


def check(model: Any, expected: dict[str, Any]) -> None:
    """Voices, states and sound are those of transformers."""
    kind, config = read_schedule(SCHEDULE)
    recorded = np.pad(sound(1, SAMPLES)[0, 0], (0, -SAMPLES % model.config.acoustic.step))
    own = model.heard(pyapp.from_numpy(recorded).reshape(1, 1, -1))
    np.testing.assert_allclose(shown(numbers(own), 60), expected["voice"], **CLOSE)
    with pyapp.no_grad():
        x = model.embedded([BEFORE, own, AFTER])
        np.testing.assert_allclose(shown(numbers(model(x.unsqueeze(0))), 96), expected["states"], **CLOSE)
    steps, noise = GENERATION["num_diffusion_steps"], pyapp.linspace(-1, 1, 6).unsqueeze(0)
    found = [
        *model.written(x, MOST, lambda: noise, lambda: kind(config, int(steps)), GENERATION["guidance_scale"])
    ]  # fmt: skip
    tokens = expected["written"]
    assert [part is not None for part in found] == [token == 42 for token in tokens[:-1]] and tokens[-1] == 43
    samples = np.concatenate([numbers(part) for part in found if part is not None])
    np.testing.assert_allclose(shown(samples, 120), expected["sound"], **CLOSE)


def test_parity(case: Any) -> None:
    """Files give every parameter, and the model does what that of transformers does; parts of a sound are heard and
    made as the whole.
    """
    _, expected, loaded, _ = case
    model = loaded.model.model
    assert {*map(renamed, expected["tensors"])} == {name for name, _ in model.named_parameters()}
    check(model, expected)
    samples = pyapp.from_numpy(sound(1, 48)[:, :, :48].astype(np.float32))
    heard, made = PaddingCache(), PaddingCache()
    with pyapp.no_grad():
        whole = model.semantic_tokenizer_encoder(samples, 48)
        parts = [
            model.semantic_tokenizer_encoder.going_on(samples.narrow(2, first, count), heard)
            for first, count in ((0, 8), (8, 24), (32, 16))
        ]
        np.testing.assert_allclose(numbers(pyapp.cat(parts, 1)), numbers(whole), **CLOSE)
        vectors = pyapp.linspace(-1, 1, 30).reshape(1, 5, 6)
        parts = [model.audio_tower.decoder(vectors.narrow(1, first, 1), made) for first in range(5)]
        np.testing.assert_allclose(numbers(pyapp.cat(parts, 2)), numbers(model.audio_tower.decoder(vectors)), **CLOSE)


def test_the_authors_files(case: Any, tmp_path: Path) -> None:
    """Their names of tensors and fields."""

    def theirs(name: str) -> str:
        for old, new in NAMES:
            name = re.sub(old, new, name)
        return name

    name, expected, _, _ = case
    state = {theirs(key): value for key, value in drawn(expected["tensors"], weights).items()}
    assert "model.acoustic_tokenizer.decoder.upsample_layers.2.0.convtr.convtr.weight" in state
    assert "model.semantic_tokenizer.encoder.stages.1.0.mixer.conv.conv.conv.weight" in state
    folder = write_folder(tmp_path / "authors", state, AUTHORS, generation_config=GENERATION, tokenizer=letters())
    check(load_voice(folder).model.model, expected)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="tokenizer is missing"):
        load_voice(folder)


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says something to texts of a few letters."""
    return write(tmp_path_factory.mktemp("talker"), "vibevoice", salt=28)


def test_speech(case: Any, talker: Path) -> None:
    """The same with the same seed, and another one with another, in another voice or none."""
    folder, silent = talker, case[2]
    loaded = load_voice(folder, voices=folder / "voice.wav")
    with pytest.raises(ModelError, match="says nothing"):
        speak(silent, "it is so")
    found, rate = speak(loaded, "it is so", {"seed": 4})
    assert rate == RATE and len(found) and np.array_equal(found, speak(loaded, "it is so", {"seed": 4})[0])
    assert not np.array_equal(found, speak(loaded, "it is so", {"seed": 5})[0])
    calm, other = (speak(loaded, "it", {"noise": 0, "seed": seed})[0] for seed in (1, 2))
    assert np.array_equal(calm, other)
    alone = load_voice(folder)
    assert alone.speakers == 1 and not np.array_equal(found, speak(alone, "it is so", {"seed": 4})[0])
    voice: ScriptVoice = loaded.model
    assert voice.hear(sound(1, SAMPLES)[0, 0] / 9) == 1 and loaded.speakers == 2
    one, two = (speak(loaded, "it is so", {"seed": 4, "speaker": speaker})[0] for speaker in (0, 1))
    assert np.array_equal(found, one) and not np.array_equal(one, two[: len(one)])
    del voice.voices[1]
    for options, told in (({"rate": 2}, "its own"), ({"phonemes": True}, "letters"), ({"speaker": 1}, "one voice")):
        with pytest.raises(OptionError, match=told):
            speak(loaded, "it", options)
    for text, told in (("Speaker 1: a\nSpeaker 9: b", "up to 4 speakers"), ("a" * 400, "too long")):
        with pytest.raises(OptionError, match=told):
            speak(loaded, text)
    with pytest.raises(OptionError, match="60 seconds"):
        voice.hear(np.zeros(RATE * 61, np.float32))


def test_scripts(case: Any) -> None:
    """Lines begin with their speakers, counted from 0; voices stand before them."""
    assert passages(["On.", "Go."]) == ["Speaker 0: On. Go."]
    assert passages(["Speaker 1: On.", "Go.", "speaker 2 : Es.", "So.", "Speaker 1: Ja."]) == [
        "Speaker 0: On. Go.\nSpeaker 1: Es. So.\nSpeaker 0: Ja."
    ]
    long = passages(["Speaker 3: " + "a" * 900, "b" * 900])
    assert [script[:12] for script in long] == ["Speaker 0: a", "Speaker 0: b"]
    voice: ScriptVoice = case[2].model
    ids = case[2].tokenizer.read("Speaker 0: on\nSpeaker 1: es").ids
    words, parts = voice._tokens.words, voice.prompt(ids, voice.voices * 2)
    texts = [words.decode(list(part)) for part in parts if not isinstance(part, pyapp.Tensor)]
    assert len(parts) == 2 + 3 * 2 + 1 and parts[3] is voice.voices[0]
    assert parts[2][-1] == parts[-1][-1] == 40 and parts[4][0] == 41
    assert "voices" not in texts[0] and "oice input" in texts[1] and texts[-1].count("peaker") == 2


@pytest.mark.native_only
def test_the_command(talker: Path, tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    file, folder = tmp_path / "speech.wav", talker
    arguments = ["speak", "it is", "-m", str(folder), "--voices", str(folder / "voice.wav"), "-o", str(file)]
    found = testing.CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert found.return_value == 0 and read_wav(file)[1] == RATE, found.output


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"text_config": None}, "text_config"), ({"audio_config": []}, "audio_config"),
    ({"audio_token_id": 44}, "audio_token_id"), ({"eos_token_id": "x"}, "eos_token_id"),
    ({"diffusion_head_config": {"frequency_embedding_size": 15}}, "frequency_embedding_size"),
    ({"diffusion_head_config": {"head_layers": 2, "head_ffn_ratio": "3"}}, "head_ffn_ratio"),
    ({"diffusion_head_config": {"num_hidden_layers": 1 << 30}}, "layers"),
    ({"audio_config": {"downsampling_ratios": [2, 5], "depths": [1, 1, 1]}}, "moments"),
    ({"audio_config": {"encoder_depths": "3-x"}}, "encoder_depths"), ({"audio_config": {"depths": -1}}, "depths"),
    ({"audio_config": {"encoder_ratios": [4, 2], "decoder_ratios": [2, 4], "depths": [1, 1, 1]}}, "decoder_ratios"),
]  # fmt: skip


def test_hostile_configurations(case: Any, tmp_path: Path) -> None:
    name, _, _, folder = case
    for changed, told in HOSTILE:
        (folder / "config.json").write_text(json.dumps(CONFIGS[name] | changed))
        with pytest.raises(ModelError, match=told):
            load_voice(folder)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
    for wrong in ({"guidance_scale": "x"}, {"num_diffusion_steps": 0}, {"noise_scheduler_class": "None"}):
        (folder / "generation_config.json").write_text(json.dumps(GENERATION | wrong))
        with pytest.raises(ModelError, match=next(iter(wrong)) if "noise" not in str(wrong) else "schedule"):
            load_voice(folder)
    (folder / "generation_config.json").write_text(json.dumps(GENERATION))
    model, *others = (load_voice(folder, dtype=dtype).model.model for dtype in (None, "q8_0", "bfloat16"))
    with pyapp.no_grad():
        expected = numbers(model(model.embedded([BEFORE, AFTER]).unsqueeze(0)))
        for other in others:
            found = numbers(other(other.embedded([BEFORE, AFTER]).unsqueeze(0)))
            assert np.abs(found - expected).mean() < 0.06 * expected.std()
