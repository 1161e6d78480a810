"""Callbacks that write files: TensorBoard's events, and the state of a training that is interrupted."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import keras
from pyapp.errors import FileFormatError
from pyapp.formats import tfevents
from pyapp.train.callbacks import weight_pictures
from pyapp.utils.tensorboard import SummaryWriter
from tests.train.make_golden_events import DISTRIBUTIONS, EVENTS, GOLDEN, PICTURE, PICTURES, WALL_TIME

X = np.random.default_rng(0).normal(size=(40, 6)).astype("float32")
Y = (X.sum(1) > 0).astype("int64")


def test_event_files_are_those_of_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tfevents.crc32c(b"123456789") == 0xE3069283 and tfevents.crc32c(bytes(32)) == 0x8A9136AA
    monkeypatch.setattr(tfevents.time, "time", lambda: WALL_TIME)
    monkeypatch.setattr(tfevents, "encode_png", lambda pixels: PICTURE)
    writer = tfevents.EventWriter(tmp_path)
    for step, values in EVENTS:
        writer.write(step, values)
    for step, name, numbers in DISTRIBUTIONS:
        writer.write_histogram(step, name, np.array(numbers, "float32"))
    for step, name, shape in PICTURES:
        writer.write_pictures(step, name, np.arange(np.prod(shape)).astype("uint8").reshape(shape))
    writer.close()
    # Step 0 is protobuf's default, which its own writer leaves out.
    expected = bytes.fromhex(json.loads(GOLDEN.read_text()))
    found = list(records(writer.path.read_bytes()))
    assert [r.replace(b"\x10\x00", b"", 1) if k == 1 else r for k, r in enumerate(found)] == list(records(expected))
    assert writer.path.read_bytes().endswith(expected[-40:])


def records(data: bytes) -> Any:
    """The messages of a file; their checksums are right."""
    while data:
        (length,) = struct.unpack_from("<Q", data)
        message, data = data[12 : 12 + length], data[16 + length :]
        assert len(message) == length
        yield message


def small(seed: int = 1, first: bool = True) -> Any:
    pyapp.manual_seed(seed)
    shape = [keras.Input((6,))] if first else []
    dropout = keras.layers.Dropout(0.3, seed=5)
    model = keras.Sequential([*shape, keras.layers.Dense(8, activation="relu"), dropout, keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


def test_tensorboard(tmp_path: Path) -> None:
    log = keras.callbacks.TensorBoard(tmp_path, update_freq=2)
    history = small().fit(X, Y, epochs=2, batch_size=10, validation_split=0.25, verbose=0, callbacks=[log]).history
    (train,), (held_out,) = (list((tmp_path / name).iterdir()) for name in ("train", "validation"))
    data, other = train.read_bytes(), held_out.read_bytes()
    for value in history["loss"]:
        assert b"\x0a\x0aepoch_loss\x15" + struct.pack("<f", value) in data
    for value in history["val_accuracy"]:
        assert b"\x0a\x0eepoch_accuracy\x15" + struct.pack("<f", value) in other
    assert data.count(b"batch_loss") == 3 and data.count(b"epoch_learning_rate") == 2 and b"val_" not in other
    with pytest.raises(ValueError, match="embeddings_freq is not supported"):
        keras.callbacks.TensorBoard(tmp_path, embeddings_freq=1)


def test_tensorboard_has_the_weights(tmp_path: Path) -> None:
    keras.utils.clear_session()
    log = keras.callbacks.TensorBoard(tmp_path, histogram_freq=2, write_images=True, write_steps_per_second=True)
    small().fit(X, Y, epochs=3, batch_size=10, verbose=0, callbacks=[log])
    data = next((tmp_path / "train").iterdir()).read_bytes()
    names = [f"{layer}/{name}/{kind}" for layer in ("dense", "dense_1") for name in ("kernel", "bias")
             for kind in ("histogram", "image")]  # fmt: skip
    assert {name: data.count(name.encode()) for name in names} == dict.fromkeys(names, 2)  # of the epochs 0 and 2
    assert data.count(b"epoch_steps_per_second") == 3 and data.count(b"\x89PNG") == 8
    assert weight_pictures(np.zeros((6, 8))).shape == (1, 6, 8, 1) and weight_pictures(np.zeros(4)).shape == (
        1,
        4,
        1,
        1,
    )
    assert weight_pictures(np.zeros((8, 6))).shape == (1, 6, 8, 1) and weight_pictures(np.zeros((3, 3, 2, 5))) is None
    assert weight_pictures(np.zeros((3, 2, 5))).shape == (5, 3, 2, 1)


def test_a_summary_writer_writes_what_tensorboard_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures: list[Any] = []
    monkeypatch.setattr(tfevents, "encode_png", lambda pixels: pictures.append(pixels) or PICTURE)
    planes = np.arange(24, dtype="uint8").reshape(2, 3, 2, 2)  # (N, C, H, W)
    with SummaryWriter(tmp_path / "log") as writer:
        writer.add_scalar("loss", pyapp.tensor([0.5]), 3)
        writer.add_scalar("rate", 1)
        writer.add_histogram("weights", pyapp.ones(2, 3), global_step=2)
        writer.add_images("planes", pyapp.tensor(planes), 1)
        writer.add_image("grey", np.zeros((2, 5), "uint8"), dataformats="HW")
        writer.add_scalars("both", {"train": 1.5, "test": 2.5}, 4)
        (path,) = (one for one in (tmp_path / "log").iterdir() if one.is_file())
        data = path.read_bytes()  # before the file is closed
        with pytest.raises(ValueError, match="has 2 numbers, not one"):
            writer.add_scalar("loss", [1.0, 2.0])
        with pytest.raises(ValueError, match="channels, not 2"):
            writer.add_image("odd", np.zeros((2, 4, 4)))
        with pytest.raises(ValueError, match="does not order"):
            writer.add_image("odd", np.zeros((4, 4)))
    found = list(records(data))[1:]
    assert [b"loss\x15" + struct.pack("<f", 0.5) in found[0], b"\x10\x03" in found[0]] == [True, True]
    assert b"rate\x15" + struct.pack("<f", 1) in found[1] and b"histograms" in found[2] and b"images" in found[3]
    np.testing.assert_array_equal(np.stack(pictures[:2]), planes.transpose(0, 2, 3, 1))
    assert pictures[2].shape == (2, 5, 1) and writer.get_logdir() == str(tmp_path / "log")
    for name, value in (("train", 1.5), ("test", 2.5)):
        (inside,) = (tmp_path / "log" / f"both_{name}").iterdir()
        assert b"both\x15" + struct.pack("<f", value) in inside.read_bytes()


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("first", [True, False])
def test_an_interrupted_training_gives_the_result_of_one_run(tmp_path: Path, first: bool) -> None:
    def train(model: Any, *callbacks: Any) -> Any:
        return model.fit(X, Y, epochs=5, batch_size=16, verbose=0, callbacks=list(callbacks)).history["loss"]

    whole = small(first=first)
    losses = train(whole)

    def stop(batch: int, logs: Any) -> None:
        steps.append(batch)
        if len(steps) == 8:  # in the middle of epoch 3
            raise Interrupted

    steps: list[int] = []
    with pytest.raises(Interrupted):
        train(
            small(first=first), keras.callbacks.BackupAndRestore(tmp_path),
            keras.callbacks.LambdaCallback(on_train_batch_end=stop),
        )  # fmt: skip
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    resumed = small(seed=9, first=first)
    found = train(resumed, keras.callbacks.BackupAndRestore(tmp_path))
    assert found == losses[2:]
    assert all((a == b).all() for a, b in zip(resumed.get_weights(), whole.get_weights(), strict=True))
    assert not list(tmp_path.iterdir())  # it is done


def test_backups_that_do_not_fit(tmp_path: Path) -> None:
    keep = keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)
    small().fit(X, Y, epochs=1, verbose=0, callbacks=[keep])
    other = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
    other.compile("adam", "mse")
    with pytest.raises(ValueError, match="has 4 weights, sequential.* has 2"):
        other.fit(X, Y, epochs=2, verbose=0, callbacks=[keep])
    note = tmp_path / "training_metadata.json"
    for text in ("{", "{}", '{"epoch": 0, "file": "../x", "random": [1, 2]}'):
        note.write_text(text)
        with pytest.raises(FileFormatError, match="Delete the folder to start again"):
            small().fit(X, Y, epochs=2, verbose=0, callbacks=[keep])
    with pytest.raises(ValueError, match="save_freq is 'epoch'"):
        keras.callbacks.BackupAndRestore(tmp_path, save_freq=5)
