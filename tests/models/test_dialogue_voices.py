"""Models that speak dialogues, against transformers (make_golden_dialogue_voices.py): names, logits, gradients, the
codes that they write, after a recording too, and sound; their files, the task and the command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio import read_wav
from pyapp.audio.dialogue_voice import DialogueTokens, DialogueVoice, chosen, passages
from pyapp.audio.speaking import speak
from pyapp.errors import ModelError, OptionError
from pyapp.models.loading.voice import load_voice
from pyapp.nn import functional
from tests.models.codec_configs import sound
from tests.models.dialogue_voice_configs import (
    CODEC,
    CODES,
    CONFIGS,
    GENERATION,
    HEARD,
    QUANTISED,
    SAMPLES,
    SHOWN,
    TEXT,
    TEXTS,
)
from tests.models.seeded import codec_weights, draw, shown
from tests.models.small_models import check_gradients, golden_in, numbers, seeded_model, shapes_in, shapes_of
from tests.models.voice_folders import drawn, voice_case, write_folder

CLOSE: Any = {"rtol": 1e-4, "atol": 1e-4}
golden = golden_in("golden_dialogue_voices")


def write(folder: Path, name: str, **config: Any) -> Path:
    """The folder of a model, with tensors as transformers names them, and one of its codec within it."""
    codec = seeded_model(CODEC, "audio-codec", codec_weights)
    write_folder(folder / "codec", dict(codec.named_parameters()), CODEC)
    state = drawn(shapes_in(golden(name)), draw)
    return write_folder(folder, state, CONFIGS[name] | config, generation_config=GENERATION)


case = voice_case(CONFIGS, write, golden, lambda folder: load_voice(folder, codec=folder / "codec"))


def test_parity(case: Any) -> None:
    """Files give every parameter; logits, gradients, codes and sound are those of transformers."""
    _, expected, loaded, _ = case
    voice: DialogueVoice = loaded.model
    model = voice.model
    assert shapes_of(model) == shapes_in(expected)
    assert list(loaded.tokenizer.read(TEXT).ids) == expected["tokens"]
    greedy = DialogueVoice(model, voice.codec, GENERATION)
    for what, turns in (("written", []), ("written on", [(HEARD, sound(1, SAMPLES)[0, 0])])):
        greedy.turns = []
        for turn in turns:
            greedy.hear(*turn)
        *steps, codes = greedy.written(DialogueTokens().read(TEXT).ids, lambda scores: int(scores.argmax()))
        assert steps == [None] * len(steps) and codes is not None and codes[0].tolist() == expected[what]
        found = np.concatenate([*greedy._sound(codes)])
        np.testing.assert_allclose(shown(found, 60), expected[f"sound of {what}"], **CLOSE)
    model.requires_grad_()
    logits = model(pyapp.tensor(TEXTS[:1]), pyapp.tensor(CODES))
    both = model(pyapp.tensor(TEXTS), pyapp.tensor(CODES * 2), pyapp.tensor(SHOWN))
    np.testing.assert_allclose(shown(numbers(logits), 100), expected["logits"], **CLOSE)
    np.testing.assert_allclose(shown(numbers(both), 100), expected["logits of two"], **CLOSE)
    flat = logits.reshape(-1, logits.shape[-1])
    wanted = pyapp.arange(flat.shape[0], dtype="int64") % flat.shape[1]
    check_gradients(model, functional.cross_entropy(flat, wanted, reduction="sum"), expected)


def test_speech(case: Any) -> None:
    """The same with the same seed; another one with another, or after a turn; the most likely one without noise."""
    _, _, loaded, _ = case
    found, rate = speak(loaded, TEXT, {"seed": 4})
    assert rate == 1600 and len(found) and np.array_equal(found, speak(loaded, TEXT, {"seed": 4})[0])
    assert not np.array_equal(found, speak(loaded, TEXT, {"seed": 5})[0])
    calm, other = (speak(loaded, "it", {"noise": 0, "seed": seed})[0] for seed in (1, 2))
    assert np.array_equal(calm, other)
    loaded.model.hear(HEARD, sound(1, SAMPLES)[0, 0])
    assert not np.array_equal(found, speak(loaded, TEXT, {"seed": 4})[0])
    loaded.model.turns *= 3
    with pytest.raises(OptionError, match="too long"):
        speak(loaded, "it")
    loaded.model.turns = []
    for options, told in (({"rate": 2}, "its own"), ({"phonemes": True}, "letters"), ({"speaker": 1}, "one voice")):
        with pytest.raises(OptionError, match=told):
            speak(loaded, "it", options)
    with pytest.raises(OptionError, match="bytes"):
        speak(loaded, "a" * 200)


def test_passages_and_choices() -> None:
    """Sentences are joined, and each passage says who speaks; few codes have the wanted probability together."""
    assert passages(["On.", "[S2] Es.", "So."]) == ["[S1] On. [S2] Es. So."]
    assert passages(["a" * 200, "[S2] " + "b" * 200, "c" * 10, "d" * 300]) == [
        "[S1] " + "a" * 200, "[S2] " + "b" * 200 + " " + "c" * 10, "[S2] " + "d" * 300
    ]  # fmt: skip
    scores = np.log(np.array([0.1, 0.5, 0.25, 0.15], np.float32))
    found = {mass: {chosen(scores, 1.0, 4, mass, i / 100) for i in range(100)} for mass in (0.4, 0.6, 0.9, 1.0)}
    assert found == {0.4: {1}, 0.6: {1, 2}, 0.9: {1, 2, 3}, 1.0: {0, 1, 2, 3}}
    assert {chosen(scores, 1.0, 2, 1.0, i / 100) for i in range(100)} == {1, 2} and chosen(scores, 0, 4, 1, 0.9) == 1


@pytest.mark.native_only
def test_the_command(case: Any, tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    file, folder = tmp_path / "speech.wav", case[3]
    arguments = ["speak", TEXT, "-m", str(folder), "--codec", str(folder / "codec"), "-o", str(file)]
    found = testing.CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert found.return_value == 0 and read_wav(file)[1] == 1600, found.output


DECODER, ENCODER = CONFIGS["dia"]["decoder_config"], CONFIGS["dia"]["encoder_config"]
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"encoder_config": None}, "encoder_config"), ({"delay_pattern": [0, 2]}, "delay_pattern"),
    ({"delay_pattern": [1, 2, 3]}, "delay_pattern"), ({"delay_pattern": [0, 2, 1 << 20]}, "delay_pattern"),
    ({"decoder_config": DECODER | {"cross_hidden_size": 24}}, "cross_hidden_size is 24"),
    ({"decoder_config": DECODER | {"num_key_value_heads": 3}}, "num_key_value_heads"),
    ({"decoder_config": DECODER | {"cross_num_key_value_heads": 3}}, "cross_num_key_value_heads"),
    ({"decoder_config": DECODER | {"eos_token_id": 18}}, "codes of the end"),
    ({"decoder_config": DECODER | {"bos_token_id": 30}}, "bos_token_id"),
    ({"eos_token_id": 15}, "the codec has 3"), ({"encoder_config": ENCODER | {"head_dim": 5}}, "rotated"),
    ({"encoder_config": ENCODER | {"num_hidden_layers": 1 << 30}}, "layers"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", "dia", **changed)
    with pytest.raises(ModelError, match=told):
        load_voice(folder, codec=folder / "codec")
    with pytest.raises(ModelError, match="has its own voices"):  # a file that would not be read
        load_voice(folder, codec=folder / "codec", voices=folder / "model.safetensors")


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, case: Any) -> None:
    _, _, loaded, folder = case
    model, found = loaded.model.model, load_voice(folder, codec=folder / "codec", dtype="q8_0").model.model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    with pyapp.no_grad():
        expected, other = (numbers(one(pyapp.tensor(TEXTS[:1]), pyapp.tensor(CODES))) for one in (model, found))
    assert np.abs(other - expected).mean() < 0.06 * expected.std()
    for wrong in ({"top_p": -1}, {"temperature": "hot"}):
        with pytest.raises(ModelError, match=next(iter(wrong))):
            DialogueVoice(model, loaded.model.codec, GENERATION | wrong)
