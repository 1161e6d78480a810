"""Training the embedded models on a device whose memory the host cannot see gives the losses that it gives on the
CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("PIL")
pytest.importorskip("rapidfuzz")

from pyapp.events import Cancel, Done, Event, Metric
from pyapp.recipes.reader import train_reader
from pyapp.recipes.story import train_story
from pyapp.recipes.story import training as story_training
from tests.recipes.reader.test_reader import SMALL as SMALL_READER
from tests.recipes.reader.test_reader import no_helpers, own_fonts  # noqa: F401 (used by name)
from tests.recipes.speech.test_training import trainer
from tests.recipes.story.test_training import SMALL as SMALL_STORY

from . import device as _device  # noqa: F401 (registers the mirror)

pytestmark = pytest.mark.native_only
STORY: dict[str, Any] = SMALL_STORY | {"steps": 4}
READER: dict[str, Any] = SMALL_READER | {"steps": 2, "held_out": 1, "language_lines": 50}


def numbers(events: Iterator[Event]) -> list[float]:
    """The losses of a training, and the other numbers that it tells but for its speed."""
    kept = list(events)
    assert isinstance(kept[-1], Done) and kept[-1].reason == "complete"
    timed = ("speed", "time_left", "threads")
    return [event.value for event in kept if isinstance(event, Metric) and event.name not in timed]


def test_a_story_model_goes_on_on_another_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story_training, "VOCABULARY_STORIES", 100)
    begun, stop = [], Cancel()
    for event in train_story(tmp_path / "card", device="mirror", cancel=stop, evaluate_every=2, **STORY):
        begun += [event.value] if isinstance(event, Metric) and event.name == "loss" else []
        if len(begun) == 2:
            stop.set()
    losses = numbers(train_story(tmp_path / "cpu", evaluate_every=2, **STORY))
    assert begun == losses[:2]
    rest = numbers(train_story(tmp_path / "card", evaluate_every=2, **STORY))  # on the CPU
    assert rest[-3:] == losses[-3:]
    for name in ("model.bin", "model-f32.bin"):
        assert (tmp_path / "card" / name).read_bytes() == (tmp_path / "cpu" / name).read_bytes()


@pytest.mark.usefixtures("own_fonts", "no_helpers")
def test_a_reader(tmp_path: Path) -> None:
    found = [numbers(train_reader(tmp_path / name, device=name, **READER)) for name in ("mirror", "cpu")]
    assert found[0] == found[1]


def test_steps_of_a_speech_model() -> None:
    found = []
    for device in ("mirror", "cpu"):
        learning = trainer(device=device)
        found.append([learning.step() for _ in range(3)])
    assert found[0] == found[1]
