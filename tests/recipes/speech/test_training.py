"""The speech model's training: it learns, interruptions do not change it, and its result is a Whisper model.

A hum takes the place of espeak-ng, so that nothing but the engine is needed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.engine.ops.random import Generator
from pyapp.errors import OptionError, PyappError
from pyapp.events import Cancel, Done, Event, Metric, Progress
from pyapp.formats import open_checkpoint
from pyapp.models.whisper import Config, Whisper
from pyapp.recipes.prepared_batches import Stage
from pyapp.recipes.speech import train_speech, training, voices, windows
from pyapp.recipes.speech.grammar.sentences import training_sentences
from pyapp.recipes.speech.letters import Speller
from pyapp.recipes.speech.loader import SpeechLoader
from pyapp.recipes.speech.training import initialize, rates, speech_trainer
from pyapp.recipes.speech.windows import Lesson, WindowMaker
from pyapp.recipes.spelling import spelling_loss
from pyapp.train import checkpoints
from pyapp.train.trainer import Trainer
from tests.recipes.speech.parts import LetterTokens, hum

pytestmark = pytest.mark.native_only  # the page has no recipes
SMALL: dict[str, Any] = {
    "steps": 20, "state": 32, "heads": 2, "audio_layers": 1, "text_layers": 1, "pieces": 320, "seconds": 3.0,
    "held_out": 2, "seed": 5, "rate": 3e-3,
}  # fmt: skip


def trainer(steps: int = 30, device: str = "cpu") -> Trainer:
    """Without libraries: letters are tokens, a hum is speech, and all work is in this thread."""
    tokens = LetterTokens(150)
    config = Config(80, 150, 32, 2, 1, tokens.size, 448, 32, 2, 1)
    model = Whisper(config, initialize=False)
    initialize(model, Generator(3))
    maker = WindowMaker(3, tokens, 448, training_sentences, speaker=hum)  # type: ignore[arg-type]
    loader = SpeechLoader(maker, (Stage(0, Lesson(1.2, 4, clear=True)),), helpers=0)
    return speech_trainer(Speller(model, Generator(4)).to(device), loader, steps, 4e-3)


def weights(trainer: Trainer) -> bytes:
    return b"".join(parameter.detach().numpy().tobytes() for parameter in trainer.model.parameters())


def test_it_learns() -> None:
    learning = trainer()
    first = learning.step()
    while learning.step_count < 30:
        learning.step()
    assert sum(learning.losses[-5:]) / 5 < 0.75 * first


def test_the_rate_falls_twice() -> None:
    rate = rates(160, warmup=3)
    assert rate(0) == 1 / 3 and rate(2) == 1
    assert rate(99) < 0.06 and rate(100) == 0.4 and rate(159) < 0.03
    assert all(rate(step) > rate(step + 1) for step in (*range(3, 99), *range(100, 159)))


def test_the_loss_of_spelling_is_in_nats_per_letter() -> None:
    """Two ways to hear "a" in two positions with even odds: (a, a), (a, blank), (blank, a)."""
    from pyapp.engine import ops

    scores = np.full((2, 3, 29), -np.inf, np.float32)
    scores[:, :, [0, 2]] = np.log(0.5)  # blank or "a"
    loss = spelling_loss(ops.from_numpy(scores), [[2], []], [2, 1])
    assert float(loss.item()) == pytest.approx(-np.log(3 / 4) - np.log(1 / 2), rel=1e-5)


def test_an_interruption_changes_no_bit(tmp_path: Path) -> None:
    whole = trainer()
    for _ in range(6):
        whole.step()
    part = trainer()
    for _ in range(3):
        part.step()
    checkpoints.save(tmp_path / "c.safetensors", part, {})
    rest = trainer()
    checkpoints.restore(tmp_path / "c.safetensors", rest)
    for _ in range(3):
        rest.step()
    assert rest.losses == whole.losses
    assert weights(rest) == weights(whole)


# -- the command's whole way


@pytest.fixture
def without_program(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("PIL")
    monkeypatch.setattr(windows, "speak", hum)
    monkeypatch.setattr(training, "check_program", lambda: None)
    monkeypatch.setattr(training, "VOCABULARY_SENTENCES", 300)


def train(folder: Path, **settings: Any) -> list[Event]:
    return list(train_speech(folder, save_every=4, evaluate_every=10, **{**SMALL, **settings}))


@pytest.mark.usefixtures("without_program")
def test_training_from_end_to_end(tmp_path: Path) -> None:
    events = train(tmp_path / "whole")
    steps = [event.done for event in events if isinstance(event, Progress) and event.what == "training"]
    assert steps == list(range(1, 21))
    assert {event.name for event in events if isinstance(event, Metric)} >= {"loss", "held_out_loss", "time_left"}
    done = events[-1]
    assert (
        isinstance(done, Done)
        and done.reason == "complete"
        and done.results["windows"] == 6 + 4 * 6 + 3 * 3 + 4 * 2 + 8 * 2
    )
    assert sorted(entry.name for entry in (tmp_path / "whole").iterdir()) == [
        "checkpoint.safetensors", "config.json", "generation_config.json", "loss.png", "model.safetensors",
        "preprocessor_config.json", "tokenizer.json",
    ]  # fmt: skip
    cancel = Cancel()
    for event in train_speech(tmp_path / "parts", cancel=cancel, save_every=100, evaluate_every=10, **SMALL):
        if isinstance(event, Progress) and event.what == "training" and event.done == 7:
            cancel.set()
    assert isinstance(event, Done) and event.reason == "cancelled" and event.results["step"] == 7
    assert train(tmp_path / "parts")[-1].to_dict()["held_out_loss"] == done.results["held_out_loss"]
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with pytest.raises(PyappError, match="seed 5 there, 6 here"):
        train(tmp_path / "parts", seed=6)


@pytest.mark.usefixtures("without_program")
def test_the_model_is_written_as_transformers_has_it(tmp_path: Path) -> None:
    train(tmp_path, steps=2)
    config = json.loads((tmp_path / "config.json").read_text())
    document = json.loads((tmp_path / "tokenizer.json").read_text())
    ids = {entry["content"]: entry["id"] for entry in document["added_tokens"]}
    assert config["model_type"] == "whisper" and config["max_source_positions"] == 150
    assert config["vocab_size"] == max(ids.values()) + 1 == 320 + 9 + 151
    assert ids["<|3.00|>"] == config["vocab_size"] - 1 and ids["<|endoftext|>"] == config["eos_token_id"] == 320
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        tensors = checkpoint.tensors
        assert tensors["model.decoder.embed_tokens.weight"].shape == (480, 32)
        assert tensors["model.encoder.layers.0.self_attn.q_proj.bias"].dtype == "float16"
        assert tensors["model.encoder.layers.0.self_attn.q_proj.weight"].dtype == "q8_0"
        assert "model.encoder.layers.0.self_attn.k_proj.bias" not in tensors
        assert all(info.shape for info in tensors.values())


@pytest.mark.parametrize("settings", [{"steps": 0}, {"rate": 0}, {"pieces": 10}, {"seconds": 60}, {"colour": 1}])
def test_bad_settings(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        train(tmp_path / "never", **settings)
    assert not (tmp_path / "never").exists()


def test_without_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PyappError, match="espeak-ng is missing") as caught:
        train(tmp_path / "out")
    assert "apt install espeak-ng" in (caught.value.hint or "")


def test_the_command_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyapp.cli import run

    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["train", "speech", "--out-dir", str(tmp_path / "out"), "--steps", "3"]) == 1
    told = capsys.readouterr().err
    assert "espeak-ng is missing" in told and "apt install espeak-ng" in told


# -- voices


needs_espeak = pytest.mark.skipif(
    not any(Path(folder, voices.PROGRAM).exists() for folder in os.environ.get("PATH", "").split(os.pathsep)),
    reason="needs espeak-ng",
)


def test_a_synthesiser_that_does_not_answer_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, patience = tmp_path / "asked", 2
    script = f"#!/bin/sh\necho x >> {asked}\n[ $(wc -l < {asked}) -gt {patience} ] && exec echo spoken\nexec sleep 60\n"
    (tmp_path / voices.PROGRAM).write_text(script)
    (tmp_path / voices.PROGRAM).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(voices, "TIME_LIMIT", 0.5)
    assert voices.run([voices.PROGRAM], "Hello.").stdout == b"spoken\n"
    asked.unlink()
    monkeypatch.setattr(voices, "ATTEMPTS", patience)
    with pytest.raises(PyappError, match=r"did not answer within 0.5 s, 2 times"):
        voices.run([voices.PROGRAM], "Hello.")


@needs_espeak
def test_voices_speak() -> None:
    assert len(voices.ACCENTS) * len(voices.SEEN) >= 40
    assert not set(voices.SEEN) & set(voices.UNSEEN)
    found = []
    for accent, variant in zip(voices.ACCENTS, ("", "m5", "f5", "Andy", "grandpa"), strict=True):
        samples = voices.speak("Two tickets to Berlin, please.", voices.Voice(accent, variant, 160, 50))
        assert 1.0 < len(samples) / 16_000 < 4.0 and samples.dtype == np.float32
        assert np.sqrt(np.mean(samples.astype(np.float64) ** 2)) == pytest.approx(0.1, rel=1e-3)
        assert min(abs(samples[0]), abs(samples[-1])) > 0
        found.append(samples.tobytes())
    assert len(set(found)) == 5
    with pytest.raises(PyappError, match="cannot speak with the voice xx-none"):
        voices.speak("Yes.", voices.Voice("xx-none", "", 160, 50))
