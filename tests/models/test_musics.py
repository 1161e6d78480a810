"""Models that make music, against transformers (make_golden_musics.py): names, logits, the codes that they write with
guidance and without, sound, and gradients; their files, the task and the command.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio import read_wav, write_wav
from pyapp.audio.chroma import loudest_notes
from pyapp.audio.composing import ComposeOptions, written_codes
from pyapp.errors import ModelError, OptionError
from pyapp.events import Error, Progress, Sound
from pyapp.models.loading.by_task import load_task_model
from pyapp.nn import functional
from tests.models.music_configs import CODES, CONFIGS, GUIDANCE, IDS, MELODY, MOMENTS, QUANTISED, tune
from tests.models.seeded import music_weights, shown
from tests.models.small_models import check_gradients, numbers, parity_case, shapes_in, shapes_of
from tests.models.test_listeners import tokenizer_file
from tests.models.voice_folders import write_folder

TASK = "text-to-audio"
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
golden, make, case = parity_case("golden_musics", CONFIGS, TASK, music_weights)


def loaded_of(model: Any) -> Any:
    """The model with a tokenizer that gives IDS for every text."""
    tokenizer = SimpleNamespace(max_length=None, encode_batch=lambda texts, **_: [SimpleNamespace(ids=IDS)])
    return SimpleNamespace(name="music", model=model, tokenizer=tokenizer, generation={})


def write(folder: Path, name: str, state: dict[str, Any], **config: Any) -> Path:
    """The folder of a model, with a tokenizer of 40 tokens."""
    kind = "MusicgenMelody" if "melody" in name else "Musicgen"
    named = {"architectures": [f"{kind}ForConditionalGeneration"]}
    return write_folder(folder, state, CONFIGS[name] | named | config, tokenizer=tokenizer_file(40))


def test_names_and_shapes(case: Any) -> None:
    _, expected, model = case
    assert shapes_of(model) == shapes_in(expected)


def test_logits_of_codes(case: Any) -> None:
    _, expected, model = case
    with pyapp.no_grad():
        found = numbers(model(pyapp.tensor([IDS]), pyapp.tensor(CODES)))
    np.testing.assert_allclose(shown(found, 100), expected["logits"], **CLOSE)


def test_codes_and_sound(case: Any) -> None:
    _, expected, model = case
    for number, guidance in enumerate((GUIDANCE, 1.0)):
        options = ComposeOptions(temperature=0, guidance=guidance)
        *steps, codes = written_codes(loaded_of(model), "any", MOMENTS, options)
        assert codes is not None and codes.tolist() == expected["written"][number]
        assert steps == [None] * (MOMENTS + len(CODES) - 1)
        with pyapp.no_grad():
            np.testing.assert_allclose(shown(numbers(model.sound(codes)), 60), expected["sounds"][number], **CLOSE)


def test_melodies(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, model = golden("musicgen_melody"), make("musicgen_melody")
    notes = functional.one_hot(pyapp.tensor([MELODY], dtype="int64"), 12).float()
    with pyapp.no_grad():
        found = numbers(model(pyapp.tensor([IDS]), pyapp.tensor(CODES), melody=notes))
    np.testing.assert_allclose(shown(found, 100), expected["with_melody"], **CLOSE)
    heard = [loudest_notes(*tune(rate)).tolist() for rate in (32000, 16000)]
    assert heard == expected["notes"] and len({*heard[0]}) > 2
    monkeypatch.setattr("pyapp.audio.composing.loudest_notes", lambda *_: np.array(MELODY))
    options = ComposeOptions(temperature=0, guidance=GUIDANCE)
    *_, codes = written_codes(loaded_of(model), "any", MOMENTS, options, np.zeros(9, np.float32))
    assert codes is not None and codes.tolist() == expected["written"][2] != expected["written"][0]
    with pytest.raises(OptionError, match="follows no melody"):
        [*written_codes(loaded_of(make("musicgen")), "any", MOMENTS, options, np.zeros(9, np.float32))]


def test_gradients(case: Any) -> None:
    _, expected, model = case
    model.requires_grad_()
    model.zero_grad()
    logits = model(pyapp.tensor([IDS]), pyapp.tensor([row[:-1] for row in CODES]))
    wanted = pyapp.tensor([min(code, 15) for row in CODES for code in row[1:]])
    loss = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted, reduction="sum")
    check_gradients(model, loss, expected)


def test_what_is_drawn() -> None:
    """The same with the same seed, from the best codes only; the codes of a higher temperature vary more."""
    loaded = loaded_of(make("musicgen"))

    def codes(**options: Any) -> Any:
        return [*written_codes(loaded, "any", MOMENTS, ComposeOptions(**options))][-1].tolist()

    assert codes(seed=4) == codes(seed=4) != codes(seed=5)
    assert codes(top_k=1, seed=9) == codes(temperature=0)
    assert len({*map(str, codes(temperature=100)[0][0])}) > len({*map(str, codes(temperature=0)[0][0])})


def test_folders_the_task_and_its_errors(case: Any, tmp_path: Path) -> None:
    name, _, model = case
    folder = write(tmp_path, name, dict(model.state_dict()))
    loaded = load_task_model(folder, TASK)

    async def run(text: str, source: Any = None, **options: Any) -> list[Any]:
        return [event async for event in tasks.compose(text, options, model=source or loaded)]

    events = asyncio.run(run("aa ab", str(folder), seconds=0.1))
    [sound] = [event for event in events if isinstance(event, Sound)]
    assert sound.rate == 1600 and abs(sound.end - 0.1) < 0.01 and len(sound.pcm) == 2 * round(sound.end * 1600)
    assert [event.done for event in events if isinstance(event, Progress) and event.what == "composing"][-1] == 22
    for text, options, told in ((" ", {}, "says nothing"), ("aa", {"seconds": 3}, "at most 0.3 seconds"),
                                ("aa", {"speed": 1}, "no such"), ("aa", {"guidance": 0}, "guidance")):  # fmt: skip
        event = asyncio.run(run(text, **options))[-1]
        assert isinstance(event, Error) and told in str(event)


@pytest.mark.native_only
@pytest.mark.parametrize("name", ["musicgen", "musicgen_melody"])
def test_the_command(name: str, tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    folder = write(tmp_path / "model", name, dict(make(name).state_dict()))
    file, sung = tmp_path / "music.wav", tmp_path / "sung.wav"
    write_wav(sung, *tune(8000))
    more = ["--melody", str(sung)] if "melody" in name else []
    found = testing.CliRunner().invoke(
        cli, ["compose", "aa", "-m", str(folder), "-o", str(file), "--seconds", "0.2", *more], standalone_mode=False
    )
    samples, rate = read_wav(file)
    assert found.stdout == f"{file}\n" and rate == 1600 and samples.shape[0] == 320 and "of music in" in found.stderr


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    model = make(name)
    found = load_task_model(write(tmp_path, name, dict(model.state_dict())), TASK, dtype="q8_0").model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    with pyapp.no_grad():
        ids, codes = pyapp.tensor([IDS]), pyapp.tensor(CODES)
        expected = numbers(model(ids, codes))
        assert np.abs(numbers(found(ids, codes)) - expected).mean() < 0.06 * expected.std()


SMALL = CONFIGS["musicgen"]
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"text_encoder": None}, "text_encoder"), ({"audio_encoder": {"model_type": "t5"}}, "not known for audio-codec"),
    ({"decoder": SMALL["decoder"] | {"audio_channels": 2}}, "channels"),
    ({"decoder": SMALL["decoder"] | {"num_codebooks": 4}}, "the codec has 3"),
    ({"decoder": SMALL["decoder"] | {"num_attention_heads": 3}}, "3 heads"),
    ({"decoder": SMALL["decoder"] | {"max_position_embeddings": 1 << 23}}, "max_position_embeddings"),
    ({"decoder": SMALL["decoder"] | {"pad_token_id": 90}}, "pad_token_id"),
    ({"model_type": "musicgen_melody", "num_chroma": 0}, "num_chroma"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        load_task_model(write(tmp_path, "musicgen", {"a": pyapp.ones(1)}, **changed), TASK)


def test_wrong_options() -> None:
    for options in ({"seconds": 0}, {"seconds": 1e9}, {"seed": -1}, {"temperature": float("nan")}, {"top_k": 0}):
        with pytest.raises(OptionError):
            ComposeOptions.from_dict(options)
