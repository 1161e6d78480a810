"""Models that name characters, trained on recordings and texts: losses and new vocabularies against transformers, the
files, and what is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rapidfuzz")

from pyapp.audio import write_wav
from pyapp.cli import run as run_command
from pyapp.errors import FileFormatError, ModelError, OptionError
from pyapp.events import Done, Notice
from pyapp.formats import open_checkpoint
from pyapp.models.loading.speech import load_speech_model
from pyapp.nn.audio.spec_augment import SpecAugment
from pyapp.recipes.finetune import CharacterSettings, characters
from pyapp.recipes.finetune.characters import CharacterTraining, Heard, LoadedCharacters, new_characters
from pyapp.text.tokenization.ctc_tokenizer import CTCTokenizer
from tests.models import bank_sound_configs as banks
from tests.models import parakeet_configs as parakeets
from tests.models import test_bank_sounds, test_parakeets, test_sounds
from tests.models.parakeet_configs import sounds
from tests.models.sound_configs import SAMPLES, VOCABULARY, recording
from tests.models.spec_augment_cases import HIDDEN, MODELS, SEED
from tests.models.test_sounds import golden, make, write
from tests.models.test_spec_augment import GOLDEN
from tests.recipes.finetune.hearing_cases import IGNORED, TEXTS
from tests.recipes.finetune.interrupted import write_lines
from tests.recipes.finetune.test_pictures import run

pytestmark = pytest.mark.native_only
HEARING = json.loads(Path(__file__).with_name("golden_hearing.json").read_text())
LONGER = {"conv_stride": [5, 4, 4]}  # a moment has 80 samples
TONES = {"a": 400, "b": 1500, "e": 3500}
SPOKEN = ("Ab be", "ba", "eb ab a", "bab")


def spoken(text: str) -> Any:
    """A tone of 15 ms for each letter, and silence."""
    times = np.arange(240) / 16000
    parts = [np.pad(0.4 * np.sin(2 * np.pi * TONES.get(letter, 0) * times), (0, 80)) for letter in text.lower()]
    sound = np.concatenate(parts)
    return (sound + np.random.default_rng(len(text)).normal(0, 0.01, len(sound))).astype(np.float32)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings, a file that names them, an encoder without a head, and a model with characters."""
    folder = tmp_path_factory.mktemp("characters")
    for number, text in enumerate(SPOKEN):
        write_wav(folder / f"{number}.wav", spoken(text), 16000)
    write_wav(folder / "long.wav", np.zeros(16000 * 30 + 1, np.float32), 16000)
    data(folder / "data.jsonl", SPOKEN)
    state = make("wav2vec2-large", **LONGER).state_dict()
    write(folder / "own", "wav2vec2-large", dict(state), **LONGER)
    state = {name: value for name, value in state.items() if not name.startswith("lm_head")}
    base = write(folder / "base", "wav2vec2-large", state, architectures=["Wav2Vec2ForPreTraining"], **LONGER)
    for name in ("vocab.json", "preprocessor_config.json"):
        (base / name).unlink()
    return folder


def data(path: Path, texts: Iterable[str], *more: tuple[str, str]) -> Path:
    rows = [(f"{number}.wav", text) for number, text in enumerate(texts)]
    return write_lines(path, [{"audio": name, "text": text} for name, text in (*rows, *more)])


@pytest.mark.parametrize("name", MODELS)
def test_losses(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of transformers in training, with the same hidden stretches; the first layers are not trained."""
    more, texts = MODELS[name]
    if name in banks.CONFIGS:
        heard, by = [sounds(count) for count in banks.SAMPLES], test_bank_sounds
    else:
        heard, by = [recording(count) for count in SAMPLES], test_sounds
    folder = by.write(tmp_path / "model", name, dict(by.make(name, **HIDDEN).state_dict()), **HIDDEN | more)
    rows = [Heard(Path(str(number)), "", tuple(text)) for number, text in enumerate(texts)]
    monkeypatch.setattr(characters, "samples_of", lambda path: heard[int(path.name)])  # files lose their offset
    found = load_speech_model(folder)
    loaded = LoadedCharacters(found.model, found.tokenizer, found.processor, HIDDEN | more, {}, {})
    losses = {field: value for field, value in more.items() if field.startswith("ctc")}
    settings = CharacterSettings(str(folder), "", steps=1, **losses)
    settings.mask(loaded.model, loaded.settings)
    masking = loaded.model.encoder.masking
    assert isinstance(masking, SpecAugment)
    training = CharacterTraining(tmp_path / "out", settings, loaded, {}, rows, rows)
    loaded.model.encoder.hide_in_training(replace(masking, random=lambda: np.random.RandomState(SEED)))
    loss = training.loss(training.outputs(loaded.model, rows), rows)
    assert float(loss.item()) == pytest.approx(GOLDEN["models"][name]["loss"], rel=1e-4)
    trained = {key for key, value in loaded.model.named_parameters() if value.requires_grad}
    assert {".feature_extractor." in key for key in trained} == {False} and any("lm_head" in key for key in trained)


def test_pieces_of_words(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parakeet: the loss of transformers; the folder has all of its files."""
    folder = test_parakeets.write(tmp_path / "model", "ctc", dict(test_parakeets.make("ctc").state_dict()))
    write_wav(tmp_path / "0.wav", sounds(parakeets.SAMPLES[0]), 16000)
    file = data(tmp_path / "data.jsonl", ["soes e"], ("0.wav", "so x!"))
    assert run_command(["finetune", str(folder), str(file), "-o", str(tmp_path / "out"), "--eval", str(file)]) == 0
    told = " ".join("".join(capsys.readouterr()).split())
    assert "lacks these characters of the texts: ! x" in told and "nats per token" in told
    expected = test_parakeets.golden("ctc")
    with open_checkpoint(tmp_path / "out" / "model.safetensors") as found:
        assert {*found.tensors} == {*expected["parameters"], *expected["state"]}
    loaded = load_speech_model(tmp_path / "out")
    assert loaded.tokenizer.encode("soes e") == parakeets.LABELS
    loaded = load_speech_model(folder)
    settings = CharacterSettings(str(folder), "", steps=1, ctc_loss_reduction="sum")
    own = LoadedCharacters(loaded.model, loaded.tokenizer, loaded.processor, {}, {}, {})
    rows = [Heard(tmp_path / "0.wav", "", tuple(parakeets.LABELS))]
    training = CharacterTraining(tmp_path / "loss", settings, own, {}, rows, [])
    monkeypatch.setattr(characters, "samples_of", lambda path: sounds(parakeets.SAMPLES[0]))  # without rounding
    loss = training.loss(training.outputs(loaded.model, rows), rows)
    assert float(loss.item()) == pytest.approx(expected["loss"], rel=1e-4)
    with pytest.raises(OptionError, match="new_vocabulary: a model of pieces of words keeps its own"):
        run(folder, file, tmp_path / "out", new_vocabulary=True)


def test_new_characters() -> None:
    """The vocabulary and the labels of transformers' recipe."""
    chosen = CharacterSettings("", "", ignored_characters=IGNORED)
    texts = [chosen.read(text) for text in TEXTS]
    vocabulary = new_characters([text.lower() for text in texts], "")
    assert vocabulary == HEARING["vocabulary"] and [*vocabulary] == [*sorted(vocabulary, key=vocabulary.__getitem__)]
    tokenizer = CTCTokenizer.from_files(vocabulary, {"unk_token": "[UNK]", "pad_token": "[PAD]"})
    fitted = [tokenizer.fitted(text) for text in texts]
    assert [tokenizer.encode(text) for text in fitted] == HEARING["labels"]
    assert tokenizer.missing("[PAD]|é a") == {*"[PAD]|é"} and tokenizer.encode("é|") == []
    assert CTCTokenizer.from_files(VOCABULARY).fitted(" it's\tnoon ") == "IT'S NOON"


def test_a_new_vocabulary_is_learnt(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same after a break, with all tensors of transformers' class, read by the command that transcribes."""
    given: dict[str, Any] = {"rate": 1e-2, "rows": 4, "steps": 40, "evaluate_every": 40, "spec_augment": False}
    done = run(place / "base", place / "data.jsonl", tmp_path / "out", held_out_data=place / "data.jsonl", **given)[-1]
    assert isinstance(done, Done) and done.results["unit"] == "nats/character"
    assert done.results["held_out_character_error_rate"] == done.results["held_out_word_error_rate"] == 0.0
    run(place / "base", place / "data.jsonl", tmp_path / "parts", 3, held_out_data=place / "data.jsonl", **given)
    run(place / "base", place / "data.jsonl", tmp_path / "parts", held_out_data=place / "data.jsonl", **given)
    whole, parts = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("out", "parts"))
    assert whole == parts
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["Wav2Vec2ForCTC"] and config["apply_spec_augment"] is False
    assert (config["vocab_size"], config["pad_token_id"], config["ctc_loss_reduction"]) == (6, 5, "mean")
    prepares = json.loads((tmp_path / "out" / "preprocessor_config.json").read_text())
    assert prepares["return_attention_mask"] is True  # its norms are those of layers
    kept = ".feature_extractor."
    with (
        open_checkpoint(tmp_path / "out" / "model.safetensors") as found,
        open_checkpoint(place / "base" / "model.safetensors") as before,
    ):
        expected = golden("wav2vec2-large")
        assert {*found.tensors} == {*expected["parameters"], *expected["state"]}
        for name in before.tensors:
            same = np.array_equal(found.read(name).numpy(), before.read(name).numpy())
            assert same == (kept in f".{name}"), name
    assert run_command(["transcribe", str(place / "0.wav"), "--model", str(tmp_path / "out"), "-f", "txt"]) == 0
    assert capsys.readouterr().out.strip() == "ab be"


def test_what_is_left_out(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a model with characters: capitals, which the texts become."""
    file = data(
        place / "more.jsonl", ("Not a", "a", "é at 7", "a" * 12), ("long.wav", "one"), ("1.wav", ""), ("2.wav", " \t")
    )
    out = str(tmp_path / "out")
    command = ["finetune", str(place / "own"), str(file), "-o", out, "--steps", "2", "--eval", str(file)]
    assert run_command(command) == 0
    told = " ".join("".join(capsys.readouterr()).split())
    for expected in (
        "the vocabulary lacks these characters of the texts: 7 É",
        "1 recording is said with characters that the vocabulary lacks, and left out",
        "1 recording is too short for the text", "1 recording is longer than 30 s", "2 recordings are without a text",
        "of the held-out texts,", "try it: pyapp transcribe RECORDING",
    ):  # fmt: skip
        assert expected in told
    assert json.loads((tmp_path / "out" / "vocab.json").read_text()) == VOCABULARY
    found = run(place / "own", place / "data.jsonl", tmp_path / "new", steps=1, new_vocabulary=True)
    assert isinstance(found[-1], Done) and not [event for event in found if "characters" in getattr(event, "what", "")]
    assert [*json.loads((tmp_path / "new" / "vocab.json").read_text())] == ["|", "a", "b", "e", "[UNK]", "[PAD]"]


def test_long_recordings_are_cut(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(characters, "LONGEST", 0.1)
    times = ((0, 0.04, "ea"), (0.06, 0.1, "ae"), (0.12, 0.14, "a"))
    parts = [{"start": start, "end": end, "text": text} for start, end, text in times]
    lines = [{"audio": "2.wav", "segments": parts}, {"audio": "2.wav", "text": SPOKEN[2]}]
    events = run(place / "own", write_lines(place / "cut.jsonl", lines), tmp_path / "out", steps=1)
    assert isinstance(events[-1], Done) and events[-1].results["examples"] == 2
    told = next(event for event in events if isinstance(event, Notice) and "left out" in event.what)
    assert told.what == "1 recording is longer than 0.1 s and without segments, and left out"
    assert told.hint is not None and told.hint.startswith("Give segments instead of the text")


def test_what_is_refused(place: Path, tmp_path: Path) -> None:
    refused: list[tuple[type[Exception], str, Any, dict[str, Any]]] = [
        (FileFormatError, "none of its recordings can be learnt: 4 recordings are without", ["", " ", "", ""], {}),
        (OptionError, "ctc_loss_reduction: is 'none', expected mean or sum", SPOKEN, {"ctc_loss_reduction": "none"}),
        (OptionError, "language: unknown setting of this training", SPOKEN, {"language": "en"}),
    ]  # fmt: skip
    for kind, told, texts, settings in refused:
        with pytest.raises(kind, match=told):
            run(place / "own", data(place / "wrong.jsonl", texts), tmp_path / "out", **settings)
    file = place / "own" / "tokenizer_config.json"
    for words, told in (
        ({"tokenizer_class": "Wav2Vec2PhonemeCTCTokenizer"}, "phonemes"), ({"pad_token": "<unk>"}, "another blank"),
    ):  # fmt: skip
        file.write_text(json.dumps(words))
        with pytest.raises(ModelError, match=told):
            run(place / "own", place / "data.jsonl", tmp_path / "out")
    file.unlink()
    with pytest.raises(OptionError, match="Give a folder .* or a file that names recordings"):
        run(place / "own", tmp_path, tmp_path / "out", held_out_data=place / "data.jsonl")
