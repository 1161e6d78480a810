"""A training in a folder: when it saves, that it has the folder for itself, and that a checkpoint will fit."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyapp.dataclass import dataclass
from pyapp.errors import PyappError, StorageFullError
from pyapp.events import Cancel, Progress
from pyapp.train import checkpoints, folders, resumable
from pyapp.train.resumable import ResumableTraining

from .small import small_trainer, weights

locking = pytest.mark.skipif(sys.platform in ("win32", "emscripten"), reason="this system has no such locks")


@dataclass(frozen=True)
class Settings:
    steps: int = 6
    seed: int = 1


class Counting(ResumableTraining):
    title = "Counting"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Settings())
        self.trainer = small_trainer(6)

    def held_out_loss(self) -> float:
        return 0.0

    def export(self) -> None:
        (self.folder / "weights").write_bytes(weights(self.trainer))

    def results(self) -> dict[str, Any]:
        return {}


def saved_steps(folder: Path, monkeypatch: pytest.MonkeyPatch, stop: int = 0) -> Iterator[int]:
    """The steps at which a training that asks for a checkpoint every 100 steps saves one; stopped after some."""
    steps: list[int] = []
    save = checkpoints.save

    def counted(path: Path, trainer: Any, settings: Any) -> None:
        steps.append(trainer.step_count)
        save(path, trainer, settings)

    monkeypatch.setattr(checkpoints, "save", counted)
    for event in Counting(folder).run(100, 100, Cancel()):
        if isinstance(event, Progress) and event.what == "training" and event.done == stop:
            break  # as if it were killed
    yield from steps
    monkeypatch.setattr(checkpoints, "save", save)


def test_it_saves_at_the_latest_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*saved_steps(tmp_path / "whole", monkeypatch)] == [6]
    monkeypatch.setattr(resumable, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(resumable, "SAVE_SHARE", float("inf"))
    assert [*saved_steps(tmp_path / "parts", monkeypatch, stop=4)] == [0, 1, 2, 3]
    assert [*saved_steps(tmp_path / "parts", monkeypatch)] == [3, 4, 5, 6]
    assert (tmp_path / "whole/weights").read_bytes() == (tmp_path / "parts/weights").read_bytes()


@locking
def test_two_trainings_do_not_use_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "FREED_SECONDS", 0.0)
    first = Counting(tmp_path).run(100, 100, Cancel())
    next(first)
    with pytest.raises(PyappError, match="another training uses this folder") as caught:
        next(Counting(tmp_path).run(100, 100, Cancel()))
    assert "give another folder" in (caught.value.hint or "")
    first.close()
    assert [*Counting(tmp_path).run(100, 100, Cancel())]


def test_a_checkpoint_that_will_not_fit_is_told_after_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = Counting(tmp_path)
    assert [*done.run(100, 100, Cancel())]
    tensors = checkpoints.size_of(done.trainer)
    assert tensors < done.checkpoint.stat().st_size < tensors + 10_000
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=tensors - 1))
    late = Counting(tmp_path / "new")
    with pytest.raises(StorageFullError, match=r"has 0\.1 MB, and the disk has 0\.1 MB left"):
        list(late.run(100, 100, Cancel()))
    assert late.trainer.step_count == 1
