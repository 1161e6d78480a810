"""The training loop: it learns, and gives the same weights whatever happens to it."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.engine import get_num_threads, set_num_threads
from pyapp.engine.ops.random import Generator
from pyapp.errors import FileFormatError, PyappError, StorageFullError
from pyapp.models.llama2c import Config, Llama2c
from pyapp.train.loop import IGNORED, Recipe, Trainer, nats, same_settings, to_batch

CONFIG = Config(32, 64, 2, 4, 2, 40, 24)


class Counting:
    """Rows that count upwards from a random start: a rule that can be learnt."""

    def __init__(self) -> None:
        self.position = 0

    def batch(self, rows: int) -> list[list[int]]:
        found = []
        for _ in range(rows):
            start = int(np.random.default_rng(self.position).integers(2, 38))
            found.append([2 + (start + i) % 38 for i in range(CONFIG.max_seq_len + 1)])
            self.position += 1
        return found


def make(steps: int = 60, seed: int = 7, **settings: Any) -> Trainer:
    recipe = Recipe(steps, rows=4, rate=1e-2, warmup=5, **settings)
    return Trainer(Llama2c(CONFIG, generator=Generator(seed)), Counting(), recipe)


def weights(trainer: Trainer) -> bytes:
    return b"".join(p.detach().numpy().tobytes() for p in trainer.model.parameters())


def test_it_learns() -> None:
    trainer = make()
    first = trainer.step()
    while trainer.step_count < 60:
        last = trainer.step()
    assert first == pytest.approx(np.log(40), rel=0.1)
    assert last < 0.25


def test_the_same_seed_gives_the_same_weights() -> None:
    found = []
    for seed in (7, 7, 8):
        trainer = make(seed=seed)
        for _ in range(4):
            trainer.step()
        found.append(weights(trainer))
    assert found[0] == found[1] != found[2]


@pytest.mark.native_only
def test_the_number_of_threads_makes_no_difference() -> None:
    before, found = get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            trainer = make()
            for _ in range(3):
                trainer.step()
            found.append(weights(trainer))
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_a_restored_training_goes_on_bit_by_bit(tmp_path: Path) -> None:
    whole, first, second = make(), make(), make(seed=99)
    for _ in range(3):
        whole.step()
        first.step()
    first.held_out.append((3, 1.25))
    first.save(tmp_path / "checkpoint", {"settings": "{}"})
    second.restore(tmp_path / "checkpoint")
    for _ in range(3):
        assert whole.step() == second.step()
    assert weights(whole) == weights(second)
    assert whole.losses == second.losses
    assert second.held_out == [(3, 1.25)]
    assert whole.loader.position == second.loader.position


def test_a_checkpoint_of_step_zero(tmp_path: Path) -> None:
    first, second = make(), make(seed=99)
    first.save(tmp_path / "checkpoint", {})
    second.restore(tmp_path / "checkpoint")
    assert first.step() == second.step()


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint"
    trainer = make()
    trainer.step()
    trainer.save(path, {})
    before = path.read_bytes()
    trainer.step()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFullError, match="disk is full"):
        trainer.save(path, {})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


def test_another_model_is_refused(tmp_path: Path) -> None:
    trainer = make()
    trainer.save(tmp_path / "checkpoint", {})
    deeper = Config(32, 64, 3, 4, 2, 40, 24)
    other = Trainer(Llama2c(deeper, generator=Generator(1)), Counting(), Recipe(10))
    with pytest.raises(FileFormatError, match="does not continue"):
        other.restore(tmp_path / "checkpoint")


def test_a_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    trainer = make()
    trainer.save(path, {})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileFormatError):
        trainer.restore(path)


def test_other_settings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    make().save(path, {"settings": '{"steps": 20, "seed": 1}'})
    same_settings(path, "settings", {"steps": 20, "seed": 1})
    with pytest.raises(PyappError, match="steps 20 there, 30 here"):
        same_settings(path, "settings", {"steps": 30, "seed": 1})


def test_a_loss_that_is_no_number_stops_the_training() -> None:
    trainer = make()
    with np.errstate(all="ignore"):
        next(iter(trainer.model.parameters())).detach().numpy()[...] = np.nan
        with pytest.raises(PyappError, match="loss became nan"):
            trainer.step()


def test_gradients_are_clipped() -> None:
    """AdamW divides by the gradient's size, so a limit shows in its moments only."""
    trainer = make(clip=1e-3)
    trainer.step()
    squares = [entry["exp_avg"].numpy() / 0.1 for entry in trainer.optimizer.state.values()]
    norm = np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in squares))
    assert norm == pytest.approx(1e-3, rel=1e-3)


def test_norms_do_not_decay() -> None:
    groups = make().optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert all(p.ndim == 2 for p in groups[0]["params"])
    assert all(p.ndim == 1 for p in groups[1]["params"])


def test_short_rows_are_filled_with_ignored_targets() -> None:
    inputs, targets = to_batch([[1, 2, 3], [1, 5]])
    assert inputs.tolist() == [[1, 2], [1, 0]]
    assert targets.tolist() == [[2, 3], [5, IGNORED]]


def test_evaluation_counts_every_token_once() -> None:
    trainer = make()
    rows = [[1, 5, 6, 7], [1, 9], [1, 3, 4], [1, 2, 3, 4, 5]]
    parts = [nats(trainer.model, [row]) for row in rows]
    for batch in (1, 2, 3, 4):
        total, count = nats(trainer.model, rows, batch)
        assert count == 10
        assert total == pytest.approx(sum(part for part, _ in parts), rel=1e-5)
