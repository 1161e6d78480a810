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
from pyapp.formats import tensorboard_plugins as plugins
from pyapp.formats import tfevents
from pyapp.train.callbacks import weight_pictures
from pyapp.utils import tensorboard
from pyapp.utils.module_graph import module_graph
from pyapp.utils.tensorboard import SummaryWriter
from tests.train import make_golden_events as given
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
    step, name, text = given.TEXT
    writer.write_summary(step, plugins.text_value(name, text))
    curve = plugins.pr_curve(given.LABELS, given.PREDICTIONS, given.THRESHOLDS, given.WEIGHTS)
    writer.write_summary(5, plugins.pr_curve_value("curve", curve))
    for part in plugins.hparams_values(given.SETTINGS, given.METRICS, given.CHOICES):
        writer.write_summary(6, part)
    writer.write_graph(plugins.graph_def([plugins.GraphNode(*node) for node in given.NODES]))
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


def test_a_summary_writer_and_plugins(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("notes", "*text*", 3)
        writer.add_pr_curve("curve", pyapp.tensor([True, False]), pyapp.tensor([0.75, 0.25]), 1, num_thresholds=5)
        rows = [np.arange(3.0)] * 6
        writer.add_pr_curve_raw("raw", *rows, global_step=2, num_thresholds=3)
        writer.add_hparams(
            {"rate": pyapp.tensor(0.5), "size": 3, "none": None}, {"loss": 0.25}, {"size": [3, 4]}, "first"
        )
        for call, error, text in (
            (lambda: writer.add_pr_curve("c", [1], [0.5, 0.25]), ValueError, "1 labels and 2 predictions"),
            (lambda: writer.add_pr_curve("c", [1], [0.5], num_thresholds=1), ValueError, "2 thresholds or more"),
            (lambda: writer.add_hparams([1], {}), TypeError, "are dicts"),  # type: ignore[arg-type]
            (lambda: writer.add_hparams({"a": [1]}, {}), ValueError, "'a' is a text, a bool or a number"),
            (lambda: writer.add_hparams({"a": 1}, {}, {"a": ["x"]}), TypeError, "a list of values like"),
            (lambda: writer.add_graph(3), TypeError, "add_graph: takes a module, not 3"),
        ):
            with pytest.raises(error, match=text):
                call()
    (path,) = (one for one in tmp_path.iterdir() if one.is_file())
    text, curve, raw = list(records(path.read_bytes()))[1:]
    assert b"notes/text_summary" in text and b"*text*" in text and b"\x10\x03" in text
    values = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]], "<f4")
    assert values.tobytes() in curve and np.stack(rows).astype("<f4").tobytes() in raw
    (inside,) = (tmp_path / "first").iterdir()
    start, loss = list(records(inside.read_bytes()))[2::2]
    assert b"session_start_info" in start and b"\x11" + struct.pack("<d", 0.5) in start and b"none" not in start
    assert b"loss\x15" + struct.pack("<f", 0.25) in loss


def test_the_graph_of_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Net(pyapp.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = pyapp.nn.Sequential(pyapp.nn.Linear(3, 4), pyapp.nn.BatchNorm1d(4), pyapp.nn.ReLU())

        def forward(self, x: Any, y: Any) -> Any:
            return {"sum": self.layers(x) + y, "y": y}

    net = Net()
    mean = net.layers[1].running_mean.clone()
    nodes = {node.name: node for node in module_graph(net, (pyapp.ones(2, 3), pyapp.ones(4)))}
    linear, relu = (nodes[f"Net/Sequential[layers]/{part}"] for part in ("Linear[0]/linear", "ReLU[2]/relu"))
    layer = "Net/Sequential[layers]/Linear[0]"
    assert linear.inputs == ["input/input_0", f"{layer}/weight", f"{layer}/bias"] and linear.shape == (2, 4)
    assert nodes[f"{layer}/weight"].op == "Parameter" and relu.inputs[0].startswith(
        "Net/Sequential[layers]/BatchNorm1d[1]/"
    )
    assert nodes["Net/add"].inputs == [relu.name, "input/input_1"]
    assert nodes["output/output_0"].inputs == ["Net/add"] and nodes["output/output_1"].inputs == ["input/input_1"]
    assert all(name in nodes for node in nodes.values() for name in node.inputs)
    # The module is as before.
    assert net.training and net.layers[1].training and net.layers[1].running_mean.tolist() == mean.tolist()
    assert all(p.requires_grad for p in net.parameters()) and not any(m._hooks for m in net.modules())
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(net, [pyapp.ones(2, 3), pyapp.ones(4)], verbose=True)
    assert f"{linear.name}: linear" in capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    assert plugins.graph_def(list(nodes.values())) in list(records(path.read_bytes()))[1]


def test_embeddings_for_the_projector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures: list[Any] = []
    monkeypatch.setattr(tensorboard, "encode_png", lambda pixels: pictures.append(pixels) or PICTURE)
    points, colours = (
        pyapp.tensor([[1.0, 2.5], [3.0, 4.0], [5.0, 6.0]]),
        np.arange(36, dtype="uint8").reshape(3, 3, 2, 2),
    )
    writer = SummaryWriter(tmp_path)
    writer.add_embedding(points, ["a", "b", 3], colours, 7, "first/one")
    writer.add_embedding(points.numpy(), [["x", 1], ["y", 2], ["z", 3]], metadata_header=["name", "n"])
    folder = tmp_path / "00007" / "first%2fone"
    assert (folder / "tensors.tsv").read_text() == "1.0\t2.5\n3.0\t4.0\n5.0\t6.0\n"
    assert (folder / "metadata.tsv").read_text() == "a\nb\n3\n" and (folder / "sprite.png").read_bytes() == PICTURE
    whole = pictures[0]
    assert whole.shape == (4, 4, 3) and not whole[2:, 2:].any()
    np.testing.assert_array_equal(whole[2:, :2], colours[2].transpose(1, 2, 0))
    assert (tmp_path / "00000" / "default" / "metadata.tsv").read_text() == "name\tn\nx\t1\ny\t2\nz\t3\n"
    assert (
        (tmp_path / "projector_config.pbtxt").read_text()
        == """embeddings {
  tensor_name: "first/one:00007"
  tensor_path: "00007/first%2fone/tensors.tsv"
  metadata_path: "00007/first%2fone/metadata.tsv"
  sprite {
    image_path: "00007/first%2fone/sprite.png"
    single_image_dim: 2
    single_image_dim: 2
  }
}
embeddings {
  tensor_name: "default:00000"
  tensor_path: "00000/default/tensors.tsv"
  metadata_path: "00000/default/metadata.tsv"
}
"""
    )
    for call, text in (
        (lambda: writer.add_embedding(points[0]), r"takes a matrix, not the shape \(2,\)"),
        (lambda: writer.add_embedding(points, ["a"]), "1 labels for 3 points"),
        (lambda: writer.add_embedding(points, None, colours[:2]), "2 pictures for 3 points"),
        (lambda: writer.add_embedding(points, None, colours[:, :1]), r"pictures are \(N, 3, H, W\)"),
        (lambda: writer.add_embedding(points, [["a"]] * 3, metadata_header=["a", "b"]), "do not have the columns a, b"),
    ):
        with pytest.raises(ValueError, match=text):
            call()


def test_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures: list[Any] = []
    monkeypatch.setattr(tfevents, "encode_png", lambda pixels: pictures.append(pixels) or PICTURE)

    class Figure:
        """What add_figure uses of matplotlib's."""

        dpi, cleared = 100, 0

        def __init__(self) -> None:
            self.canvas = self

        def get_width_height(self) -> tuple[int, int]:
            return 3, 2

        def savefig(self, file: Any, format: str, dpi: int) -> None:
            assert (format, dpi) == ("rgba", 100)
            file.write(bytes(range(24)))

        def clear(self) -> None:
            self.cleared += 1

    figure = Figure()
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("one", figure, 1)
        writer.add_figure("two", [figure, figure], close=False)
    assert len(pictures) == 3 and figure.cleared == 1
    np.testing.assert_array_equal(pictures[0], np.arange(24).reshape(2, 3, 4)[..., :3])


def test_times_and_names_of_event_files(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, filename_suffix=".mine", purge_step=7) as writer:
        writer.add_scalar("a", 1.0, 8, walltime=1234.5)
        writer.add_histogram("b", [1.0], 8, walltime=1234.5)
        writer.add_image("c", np.zeros((1, 2, 2)), 8, 1234.5)
        writer.add_text("d", "text", 8, 1234.5)
        writer.add_pr_curve("e", [1], [0.5], 8, walltime=1234.5)
        writer.add_scalars("f", {"g": 1.0}, 8, 1234.5)
    (path,) = (one for one in tmp_path.iterdir() if one.is_file())
    assert path.name.endswith(".mine") and next((tmp_path / "f_g").iterdir()).name.endswith(".mine")
    purge, *events = list(records(path.read_bytes()))[1:]
    assert purge[9:] == b"\x10\x07\x3a\x02\x08\x01"
    inside = list(records(next((tmp_path / "f_g").iterdir()).read_bytes()))[2:]
    assert len(events) == 5 and {e[:9] for e in (*events, *inside)} == {b"\x09" + struct.pack("<d", 1234.5)}


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
    assert not tmp_path.exists()  # it is done: as in Keras the folder goes, too


def test_an_interrupted_training_counts_on(tmp_path: Path) -> None:
    """What the other callbacks count goes on: when to stop, when to lower the rate, which model is the best so far."""

    def train(model: Any, place: Path, *more: Any) -> Any:
        follow = {"monitor": "loss", "min_delta": 0.5}  # more than the loss falls: the first epoch stays the best
        listeners = [
            keras.callbacks.BackupAndRestore(place / "kept"),  # wherever it stands, it keeps what the others have done
            keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True, **follow),
            keras.callbacks.ReduceLROnPlateau(patience=3, **follow),
            keras.callbacks.ModelCheckpoint(place / "best.keras", monitor="lr", mode="min", save_best_only=True),
            keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(lr=abs(epoch - 1))),
            *more,
        ]
        listeners[3], listeners[4] = listeners[4], listeners[3]
        return model.fit(X, Y, epochs=20, batch_size=16, verbose=0, callbacks=listeners)

    def stop(epoch: int, logs: Any) -> None:
        if epoch == 3:
            raise Interrupted

    whole = small()
    train(whole, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(small(), tmp_path / "parts", keras.callbacks.LambdaCallback(on_epoch_begin=stop))
    best = (tmp_path / "parts/best.keras").read_bytes()
    resumed = small(seed=9)
    later = train(resumed, tmp_path / "parts", keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: None))
    assert later.epoch == [3, 4]
    assert all((a == b).all() for a, b in zip(resumed.get_weights(), whole.get_weights(), strict=True))
    assert float(resumed.optimizer.learning_rate) == float(whole.optimizer.learning_rate) < 0.01
    assert (tmp_path / "parts/best.keras").read_bytes() == best
    assert not (tmp_path / "parts/kept").exists()


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
