"""The speech model that comes with pyapp: it is what its card says, and writes down its samples."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.audio import load_speech
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.streaming import LiveTranscriber
from pyapp.audio.transcribe import transcribe_events
from pyapp.events import Done, Doubt, Segment
from pyapp.models import LoadedSpeechModel, load_speech_model
from pyapp.recipes.speech.evaluation import TIMES
from pyapp.recipes.speech.grammar.sentences import vocabulary, words
from tests.audio.sounds import babble, noise
from tests.together import fewer_in_browser

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "web" / "models" / "speech"
CARD = FOLDER / "README.md"
ROLES = {
    "model": "model.safetensors",
    "config": "config.json",
    "tokenizer": "tokenizer.json",
    "generation_config": "generation_config.json",
}
SAMPLES = {
    "station.wav": ["Two tickets to Rome, please.", "The train from Berlin arrives at half past eight."],
    "weather.wav": [
        "There will be snow in the west next Friday.",
        "The temperature is minus twenty eight degrees.",
    ],
    "market.wav": [
        "I would like eight bottles of water.",
        "How much is the yellow ticket?",
        "Five dollars and ninety six cents.",
    ],
}


@pytest.fixture(scope="module")
def loaded() -> LoadedSpeechModel:
    return load_speech_model({role: (FOLDER / name).read_bytes() for role, name in ROLES.items()})


def transcribe(loaded: LoadedSpeechModel, path: Path) -> list[Segment]:
    events = list(transcribe_events(loaded, load_speech(path), TranscribeOptions()))
    assert isinstance(events[-1], Done)
    return [event for event in events if isinstance(event, Segment)]


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_gives_its_text(loaded: LoadedSpeechModel, name: str) -> None:
    segments = transcribe(loaded, FOLDER / "samples" / name)
    assert [segment.text.strip() for segment in segments] == SAMPLES[name]
    times = [time for segment in segments for time in (segment.start, segment.end)]
    assert times == sorted(times)


def test_files_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 3_000_000


def test_the_card_counts_the_words() -> None:
    told = re.search(r"about (\d+) different words", CARD.read_text(encoding="utf-8"))
    assert told is not None and abs(int(told[1]) - len(vocabulary())) <= 5
    assert {word for texts in SAMPLES.values() for text in texts for word in words(text)} <= vocabulary()


@pytest.mark.native_only
def test_the_card_takes_new_figures() -> None:
    from scripts.speech_card import written

    card = CARD.read_text(encoding="utf-8")
    figures = {"seen voices, clean": 0.1234, TIMES: 0.5, "live, anything": 1.0}
    changed = written(card, figures, {"seen voices, clean": 0.01}, 7)
    assert (
        "| --- | --- | --- |\n| seen voices, clean | 12.3 % | 1.0 % |\n| live, anything | 100.0 % |  |\n\n" in changed
    )
    assert "are 7 clips" in changed and "sentences was 0.50 s" in changed
    assert card.split("## How good it is")[0] == changed.split("## How good it is")[0]


@pytest.mark.native_only
def test_the_registry_knows_its_files_and_samples() -> None:
    entries = json.loads((ROOT / "pyapp" / "registry.json").read_text(encoding="utf-8"))["models"]
    entry = next(entry for entry in entries if entry["id"] == "speech")
    assert (entry["kind"], entry["task"]) == ("embedded", "transcribe")
    for file in entry["files"]:
        data = (ROOT / "web" / file["path"]).read_bytes()
        assert (file["size"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    listed = {Path(sample["path"]).name: sample["text"] for sample in entry["samples"]}
    assert listed == {name: " ".join(texts) for name, texts in SAMPLES.items()}
    assert all((ROOT / "web" / sample["path"]).is_file() for sample in entry["samples"])


@pytest.mark.native_only
def test_it_is_found_by_its_name() -> None:
    pytest.importorskip("tokenizers")
    segments = transcribe(load_speech_model("speech"), FOLDER / "samples" / "station.wav")
    assert "".join(segment.text for segment in segments).strip() == " ".join(SAMPLES["station.wav"])


def live(loaded: LoadedSpeechModel, samples: Any) -> tuple[list[Segment], Doubt | None]:
    transcriber = LiveTranscriber(loaded)
    events = [event for at in range(0, len(samples), 8000) for event in transcriber.push(samples[at : at + 8000])]
    events += transcriber.finish()
    return [event for event in events if isinstance(event, Segment)], transcriber.doubt()


@pytest.mark.parametrize("kind", ["babble", "sample"])
def test_it_says_what_is_a_guess(loaded: LoadedSpeechModel, kind: str) -> None:
    samples = babble() if kind == "babble" else load_speech(FOLDER / "samples" / "weather.wav")
    guess = kind == "babble"
    events = list(transcribe_events(loaded, samples, TranscribeOptions(word_timestamps=True)))
    segments = [event for event in events if isinstance(event, Segment)]
    assert segments and all(bool(segment.guess) == guess for segment in segments)
    assert any(isinstance(event, Doubt) for event in events) == guess
    assert isinstance(events[-1], Done) and ("guess" in events[-1].results) == guess
    assert (live(loaded, samples)[1] is not None) == guess


@pytest.mark.parametrize("lead", fewer_in_browser([0.63, 0.0]))
def test_live_speech_gives_what_the_file_gives(loaded: LoadedSpeechModel, lead: float) -> None:
    """Sentence by sentence, no word twice, and no word without a length."""
    clip = load_speech(FOLDER / "samples" / "station.wav")
    samples = np.concatenate([np.zeros(int(lead * 16_000), np.float32), clip])
    segments, _ = live(loaded, samples + noise(len(samples) / 16_000, 0.002)[: len(samples)])
    sentences: list[str] = []
    for segment in segments:
        if segment.continues:
            sentences[-1] += segment.text
        else:
            sentences.append(segment.text)
    assert [sentence.strip() for sentence in sentences] == SAMPLES["station.wav"]
    heard = [word for segment in segments for word in segment.words or ()]
    assert all(word["end"] - word["start"] > 0.01 for word in heard)
    assert all(a["end"] <= b["start"] + 1e-9 for a, b in zip(heard, heard[1:], strict=False))
