"""Checkpoints: an interrupted training continues with the same bits, and an unusable file gives a clear error."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyapp import nn
from pyapp.engine import Tensor
from pyapp.engine.ops.random import default_generator
from pyapp.errors import FileFormatError, PyappError, StorageFullError
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.optim import SGD, Adafactor, Optimizer
from pyapp.optim.lr_scheduler import StepLR
from pyapp.train import checkpoints
from pyapp.train.trainer import Trainer
from tests.train.small import small_trainer, weights


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_restored_training_goes_on_bit_by_bit(tmp_path: Path, dropout: float) -> None:
    path, before = tmp_path / "checkpoint", default_generator.get_state()
    try:
        default_generator.manual_seed(3)
        whole = small_trainer(dropout=dropout)
        for _ in range(6):
            whole.step()
        default_generator.manual_seed(3)
        first = small_trainer(dropout=dropout)
        for _ in range(3):
            first.step()
        first.held_out.append((3, 1.25))
        checkpoints.save(path, first, {})
        default_generator.manual_seed(77)
        second = small_trainer(seed=99, dropout=dropout)
        checkpoints.restore(path, second)
        for _ in range(3):
            second.step()
    finally:
        default_generator.set_state(before)
    assert weights(whole) == weights(second)
    assert whole.losses == second.losses
    assert second.held_out == [(3, 1.25)]
    assert whole.batches.position == second.batches.position


def test_a_checkpoint_of_step_zero(tmp_path: Path) -> None:
    first, second = small_trainer(), small_trainer(seed=99)
    checkpoints.save(tmp_path / "checkpoint", first, {})
    checkpoints.restore(tmp_path / "checkpoint", second)
    assert first.step() == second.step()


class Regression:
    """(x, y) pairs; any model with a batch norm, whose running means no optimiser knows."""

    position = 0

    def batch(self) -> tuple[Tensor, Tensor]:
        self.position += 1
        x = Tensor.from_buffer(b"", (0,), "float32").new_ones((4, 3)) * float(self.position)
        return x + Tensor.from_buffer(bytes(range(48)), (4, 3), "float32"), x[:, :1]


def squared_error(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, float]:
    loss = (model(batch[0]) - batch[1]).square().mean()
    return loss, float(loss.item())


@pytest.mark.parametrize("make", [lambda p: SGD(p, lr=0.01, momentum=0.9), lambda p: Adafactor(p, lr=0.01)])
def test_any_optimizer_and_buffers_are_kept(tmp_path: Path, make: Callable[..., Optimizer]) -> None:
    def trainer() -> Trainer:
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        model.load_state_dict({name: value * 0 + 0.1 for name, value in model.state_dict().items()})
        optimizer = make(model.parameters())
        return Trainer(model, Regression(), squared_error, optimizer, StepLR(optimizer, 2))

    whole, part, rest = trainer(), trainer(), trainer()
    for _ in range(6):
        whole.step()
    for _ in range(3):
        part.step()
    checkpoints.save(tmp_path / "checkpoint", part, {})
    checkpoints.restore(tmp_path / "checkpoint", rest)
    for _ in range(3):
        rest.step()
    assert rest.losses == whole.losses and rest.losses[0] != rest.losses[-1]
    assert {k: v.tolist() for k, v in rest.model.state_dict().items()} == {
        k: v.tolist() for k, v in whole.model.state_dict().items()
    }


@pytest.mark.native_only
def test_a_full_disk_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint"
    trainer = small_trainer()
    trainer.step()
    checkpoints.save(path, trainer, {})
    before = path.read_bytes()
    trainer.step()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFullError, match="disk is full"):
        checkpoints.save(path, trainer, {})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


def refused(path: Path, words: str) -> None:
    """Both ways to read the file explain the error and the remedy; neither asks the user to download the file."""
    for read in (lambda: checkpoints.restore(path, small_trainer()), lambda: checkpoints.check_settings(path, {})):
        with pytest.raises(FileFormatError, match=words) as caught:
            read()
        assert caught.value.where == str(path)
        assert "Delete this file to start the training again" in (caught.value.hint or "")
        assert "download" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 5, 100, -100])
def test_a_damaged_checkpoint_is_called_so(tmp_path: Path, size: int) -> None:
    path = tmp_path / "checkpoint"
    checkpoints.save(path, small_trainer(), {})
    path.write_bytes(path.read_bytes()[:size])
    refused(path, "checkpoint of this training is damaged")


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_safetensors(path, {"model.weight": Tensor.from_buffer(bytes(8), (2,), "float32")}, {})
    refused(path, "not the checkpoint of a training|does not continue this training")


def test_another_model_is_refused(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "checkpoint", small_trainer(width=16), {})
    with pytest.raises(FileFormatError, match="does not continue"):
        checkpoints.restore(tmp_path / "checkpoint", small_trainer())


@pytest.mark.parametrize(
    "damage",
    [
        {"losses": None}, {"losses": ["x"]}, {"position": "x"}, {"held_out": [[1]]}, {"optimizer": {"99": {}}},
        {"optimizer": []}, {"schedule": {}}, {"random": 3}, {"position": float("inf")},
        {"optimizer": {"0": {"step": float("nan")}}}, {"optimizer": {"0": {"step": 10**400}}},
    ],
)  # fmt: skip
def test_a_state_that_cannot_be_is_refused(tmp_path: Path, damage: dict[str, object]) -> None:
    path, trainer = tmp_path / "checkpoint", small_trainer()
    trainer.step()
    checkpoints.save(path, trainer, {})
    with open_checkpoint(path) as checkpoint:
        tensors = {name: checkpoint.read(name) for name in checkpoint.tensors}
        state = json.loads(checkpoint.metadata["training"]) | damage
    write_safetensors(path, tensors, {"settings": "{}", "training": json.dumps(state)})
    with pytest.raises(FileFormatError, match="does not continue this training"):
        checkpoints.restore(path, small_trainer())


def test_a_deep_state_is_refused(tmp_path: Path) -> None:
    """The texts of the metadata are JSON within JSON."""
    path = tmp_path / "checkpoint"
    deep = "[" * 100_000
    write_safetensors(
        path, {"model.weight": Tensor.from_buffer(bytes(4), (1,), "float32")}, {"settings": deep, "training": deep}
    )
    refused(path, "not the checkpoint of a training|does not continue this training")


def test_other_settings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoints.save(path, small_trainer(), {"steps": 20, "seed": 1})
    checkpoints.check_settings(path, {"steps": 20, "seed": 1})
    with pytest.raises(PyappError, match="steps 20 there, 30 here"):
        checkpoints.check_settings(path, {"steps": 30, "seed": 1})
