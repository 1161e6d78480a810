"""A small `train_story` end to end: its files, and that interruptions do not change them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("PIL")

from pyapp.errors import FileFormatError, OptionError, PyappError
from pyapp.events import Cancel, Done, Event, Metric, Notice, Progress
from pyapp.formats import open_checkpoint
from pyapp.models import load_model
from pyapp.recipes.story import train_story
from pyapp.recipes.story import training as story_training

pytestmark = pytest.mark.native_only

SMALL: dict[str, Any] = {
    "steps": 24, "rows": 2, "dim": 32, "hidden_dim": 64, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1,
    "vocab_size": 420, "length": 32, "held_out": 6, "seed": 5,
}  # fmt: skip
SCRIPT = """
import sys, time
from pyapp.recipes.story import training as story_training
story_training.VOCABULARY_STORIES = 100
for event in story_training.train_story(sys.argv[1], save_every=2, evaluate_every=6, **{settings}):
    print(event.to_dict(), flush=True)
    time.sleep(0.004)  # or a fast machine ends before it is killed
"""


@pytest.fixture(autouse=True)
def few_stories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story_training, "VOCABULARY_STORIES", 100)


def train(folder: Path, **settings: Any) -> list[Event]:
    return list(train_story(folder, save_every=2, evaluate_every=6, **{**SMALL, **settings}))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """A training that nothing interrupted."""
    folder = tmp_path_factory.mktemp("finished")
    before, story_training.VOCABULARY_STORIES = story_training.VOCABULARY_STORIES, 100
    try:
        return folder, train(folder)
    finally:
        story_training.VOCABULARY_STORIES = before


def test_events(finished: tuple[Path, list[Event]]) -> None:
    events = finished[1]
    steps = [event.done for event in events if isinstance(event, Progress) and event.what == "training"]
    assert steps == list(range(1, 25))
    names = {event.name for event in events if isinstance(event, Metric)}
    assert names >= {"loss", "held_out_loss", "speed", "time_left"}
    held_out = [event.value for event in events if isinstance(event, Metric) and event.name == "held_out_loss"]
    assert len(held_out) == 4 and held_out == sorted(held_out, reverse=True)
    done = events[-1]
    assert isinstance(done, Done) and done.reason == "complete"
    losses = done.results["held_out_losses"]
    assert set(losses) == {"float32", "int8", "trigram"}
    assert losses["int8"]["nats_per_token"] == pytest.approx(losses["float32"]["nats_per_token"], rel=0.01)
    assert losses["float32"]["nats_per_byte"] < losses["float32"]["nats_per_token"]
    assert done.results["tokens"] == 24 * 2 * 32


def test_files(finished: tuple[Path, list[Event]]) -> None:
    folder = finished[0]
    assert sorted(entry.name for entry in folder.iterdir()) == [
        "checkpoint.safetensors", "loss.png", "model-f32.bin", "model.bin", "tokenizer.bin", "tokenizer.json",
    ]  # fmt: skip
    with open_checkpoint(folder / "model.bin") as checkpoint:
        assert checkpoint.format == "llama2.c v2"
        assert checkpoint.metadata["tied"] == "true"
    loaded = load_model(folder / "model.bin")
    assert loaded.tokenizer.decode(loaded.tokenizer.encode("Once upon a time")) == "Once upon a time"


def test_a_finished_training_is_not_repeated(finished: tuple[Path, list[Event]]) -> None:
    before = (finished[0] / "model.bin").read_bytes()
    again = train(finished[0])
    assert not any(isinstance(event, Progress) and event.what == "training" for event in again)
    assert again[-1] == finished[1][-1]
    assert (finished[0] / "model.bin").read_bytes() == before


def same_weights(one: Path, other: Path) -> bool:
    with open_checkpoint(one / "checkpoint.safetensors") as a, open_checkpoint(other / "checkpoint.safetensors") as b:
        assert a.metadata == b.metadata
        assert set(a.tensors) == set(b.tensors)
        return all(a.read(name).numpy().tobytes() == b.read(name).numpy().tobytes() for name in a.tensors)


def test_killed_again_and_again(tmp_path: Path, finished: tuple[Path, list[Event]]) -> None:
    """kill -9 at three moments; the last run ends as if nothing had happened."""
    command = [sys.executable, "-c", SCRIPT.replace("{settings}", repr(SMALL)), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for moment in (3, 8, 13):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        for line in process.stdout:
            if f"'done': {moment}," in line:
                break
        time.sleep(0.0005 * moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    output = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    assert "'done': 1," not in output  # it did not begin again
    assert "'done': 24," in output
    assert same_weights(tmp_path, finished[0])
    for name in ("model.bin", "model-f32.bin", "tokenizer.bin", "tokenizer.json"):
        assert (tmp_path / name).read_bytes() == (finished[0] / name).read_bytes()


def test_cancelled_and_continued(tmp_path: Path, finished: tuple[Path, list[Event]]) -> None:
    cancel = Cancel()
    events = []
    for event in train_story(tmp_path, save_every=100, evaluate_every=6, cancel=cancel, **SMALL):
        events.append(event)
        if isinstance(event, Progress) and event.what == "training" and event.done == 7:
            cancel.set()
    done = events[-1]
    assert isinstance(done, Done) and done.reason == "cancelled"
    assert done.results["step"] == 7 and "again" in done.results["resume"]
    assert isinstance(train(tmp_path)[-1], Done)
    assert same_weights(tmp_path, finished[0])


def test_without_pillow_there_is_no_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before the first step, not after the last; with Pillow, the same command draws the curve."""
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "PIL", None)
        without.setitem(sys.modules, "PIL.Image", None)
        events = train(tmp_path, steps=3)
    kinds = [type(event) for event in events]
    notice = events[kinds.index(Notice)]
    assert isinstance(notice, Notice) and "Pillow is missing" in notice.what and "pyapp[train]" in (notice.hint or "")
    assert kinds.index(Notice) < kinds.index(Metric)
    assert isinstance(events[-1], Done) and events[-1].reason == "complete"
    assert (tmp_path / "model.bin").exists() and not (tmp_path / "loss.png").exists()
    events = train(tmp_path, steps=3)
    assert (tmp_path / "loss.png").exists() and not any(isinstance(event, Notice) for event in events)


def test_a_damaged_checkpoint(tmp_path: Path, finished: tuple[Path, list[Event]]) -> None:
    """The error comes at once, and names the file and a way out."""
    checkpoint = tmp_path / "checkpoint.safetensors"
    data = (finished[0] / checkpoint.name).read_bytes()
    checkpoint.write_bytes(data[: len(data) // 2])
    with pytest.raises(FileFormatError, match="checkpoint of this training is damaged") as caught:
        train(tmp_path)
    assert caught.value.where == str(checkpoint) and "Delete this file" in (caught.value.hint or "")
    assert "download" not in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == [checkpoint.name]
    checkpoint.unlink()
    assert isinstance(train(tmp_path, steps=2)[-1], Done)


@pytest.mark.parametrize("option", ["evaluate_every", "save_every"])
def test_intervals_are_at_least_one_step(tmp_path: Path, option: str) -> None:
    with pytest.raises(OptionError, match="at least 1"):
        list(train_story(tmp_path, **{**SMALL, option: 0}))


def test_other_settings_in_the_same_folder(finished: tuple[Path, list[Event]]) -> None:
    with pytest.raises(PyappError, match="seed 5 there, 6 here"):
        train(finished[0], seed=6)


@pytest.mark.parametrize(
    "settings", [{"steps": 0}, {"rate": 0}, {"rate": 2.0}, {"length": 3}, {"vocab_size": 10}, {"colour": 1}]
)
def test_bad_settings(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        train(tmp_path / "never", **settings)
    assert not (tmp_path / "never").exists()


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(PyappError, match="cannot write"):
        train(tmp_path / "file")
    with pytest.raises(PyappError, match="cannot write"):
        train(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "x"


def test_a_folder_without_the_right_to_write(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PyappError, match="cannot write"):
            train(tmp_path / "below")
    finally:
        tmp_path.chmod(0o700)
