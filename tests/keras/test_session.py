"""keras.config, keras.tree, keras.utils: settings, nested values, files, objects as JSON, and what is refused."""

from __future__ import annotations

import copy
import gzip
import io
import json
import logging
import shutil
import tarfile
import wave
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import keras, onnx
from pyapp.errors import DownloadError, FileFormatError
from tests.keras.scripts import numbers, start
from tests.together import check_each

layers, utils, tree = keras.layers, keras.utils, keras.tree


def small(**settings: Any) -> Any:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation="softmax")])
    start(model)
    model.compile("sgd", "sparse_categorical_crossentropy", **settings)
    return model


def test_settings_have_their_effect(caplog: Any, capsys: Any) -> None:
    config = keras.config
    x, y = numbers(24, 4, 3)
    try:
        config.set_image_data_format("channels_first")
        assert layers.Conv2D(2, 3)(np.zeros((1, 3, 5, 6), "float32")).shape == (1, 2, 3, 4)
        saved = layers.MaxPooling2D().get_config()
        others = [(kind, kind().get_config()) for kind in (layers.GlobalMaxPooling2D, layers.Flatten)]
        others.append((layers.SpatialDropout2D, layers.SpatialDropout2D(0.5).get_config()))
        assert layers.Flatten()(np.arange(6.0).reshape(1, 2, 3)).tolist() == [[0, 3, 1, 4, 2, 5]]
        config.set_image_data_format("channels_last")
        assert layers.MaxPooling2D.from_config(saved)(np.zeros((1, 3, 4, 4), "float32")).shape == (1, 3, 2, 2)
        assert all(kind.from_config(given).data_format == "channels_first" for kind, given in others)
        config.set_max_epochs(2)
        config.set_max_steps_per_epoch(1)
        model = small()
        history = model.fit(x, y, batch_size=8, epochs=5, verbose=0)
        assert history.epoch == [0, 1] and model.optimizer.iterations == 2
        assert len(model.predict(x, batch_size=8, verbose=0)) == 8
        config.set_max_epochs(None)
        config.set_max_steps_per_epoch(None)
        config.disable_interactive_logging()
        with caplog.at_level(logging.INFO, "pyapp.keras"):
            model.fit(x, y, epochs=1)
        assert "1/1 - " in caplog.text and "loss: " in caplog.text and capsys.readouterr().out == ""
        config.enable_flash_attention()
        with pytest.raises(ValueError, match="flash attention has no dropout"):
            layers.MultiHeadAttention(2, 3, dropout=0.1)
    finally:
        config.set_image_data_format("channels_last")
        config.set_max_epochs(None)
        config.set_max_steps_per_epoch(None)
        config.enable_interactive_logging()
        config.disable_flash_attention()
    small().predict(x)
    assert "1/1" in capsys.readouterr().out


def test_an_exported_model_computes_the_same(tmp_path: Path, capsys: Any) -> None:
    inputs = keras.Input((4, 4, 1), name="picture")
    hidden = layers.Dropout(0.5)(layers.BatchNormalization()(layers.Conv2D(3, 2)(inputs)))
    model = keras.Model(inputs, layers.Dense(2, activation="softmax")(layers.Flatten()(hidden)))
    x = np.random.RandomState(0).rand(2, 4, 4, 1).astype("float32")
    model.export(
        tmp_path / "model.onnx", format="onnx", input_signature=[keras.InputSpec(shape=(2, 4, 4, 1), name="x")]
    )
    assert "x (2, 4, 4, 1)" in capsys.readouterr().out
    exported = onnx.load(tmp_path / "model.onnx")
    np.testing.assert_allclose(exported(pyapp.tensor(x)).numpy(), model.predict(x, verbose=0), rtol=1e-5, atol=1e-6)
    model.export(tmp_path / "any.onnx", format="onnx", verbose=False)
    assert not capsys.readouterr().out
    exported = onnx.load(tmp_path / "any.onnx")
    assert exported.inputs[0].type.shape == ("batch", 4, 4, 1)
    for count in (1, 2):
        found = exported(picture=pyapp.tensor(x[:count]))
        np.testing.assert_allclose(found.numpy(), model.predict(x[:count], verbose=0), rtol=1e-5, atol=1e-6)


def test_an_exported_recurrent_model_takes_texts_of_any_length(tmp_path: Path) -> None:
    words = keras.Input((None,), dtype="int32")
    hidden = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(layers.Embedding(9, 4)(words))
    states = layers.LSTM(3, return_state=True)(layers.GRU(3, return_sequences=True)(hidden))
    model = keras.Model(words, layers.Concatenate()([*states, layers.GlobalAveragePooling1D()(hidden)]))
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    exported = onnx.load(tmp_path / "model.onnx")
    for shape in ((1, 3), (4, 7)):
        x = np.random.RandomState(0).randint(1, 9, shape).astype("int32")
        np.testing.assert_allclose(exported(pyapp.tensor(x)).numpy(), model.predict(x, verbose=0), rtol=1e-4, atol=1e-5)


def test_what_is_not_there_is_refused() -> None:
    lstm = layers.LSTM(2, stateful=True)

    def two_batches(size: int) -> None:
        lstm(np.ones((size, 3, 4), "float32"))

    def refused(_: str, words: str, call: Any) -> None:
        with pytest.raises((NotImplementedError, ValueError, TypeError), match=words):
            call()

    check_each(refused, [
        ("backends", "no backend 'jax'", lambda: keras.config.set_backend("jax")),
        ("code in files", "trust a file by itself", keras.config.enable_unsafe_deserialization),
        ("distribution", "pyapp.distributed", lambda: keras.distribution.DataParallel()),
        ("a spec", "takes inputs of 3 dims", lambda: Specified()(np.zeros((2, 3), "float32"))),
        ("old names", r"no weights alone.*\.weights\.h5", lambda: small().save_weights("model.h5")),
        ("formats", 'needs TensorFlow: pass format="onnx"', lambda: small().export("model")),
        ("no format", "Keras has tf_saved_model", lambda: small().export("model", format="zip")),
        ("an operation's name", "a text without slashes", lambda: keras.Operation(name="a/b")),
        ("sparse outputs", "dense, as in Keras on torch", lambda: layers.Discretization([0.0], sparse=True)),
        ("sparse numbers", "dense, as in Keras on torch", lambda: layers.StringLookup(sparse=True)),
        ("few weights", r"an array for each of \[kernel \(", lambda: small().set_weights([np.zeros(2)])),
        ("another weight", r"\(kernel\) has the shape", lambda: small().set_weights([np.zeros(2), np.zeros(2)])),
        ("sequences", "keeps the states of 2 sequences, got 3", lambda: [two_batches(size) for size in (2, 3)]),
        ("an axis", "axis -1 has the size 3", lambda: Specified()(np.zeros((2, 3, 4), "float32"))),
    ])  # fmt: skip
    assert keras.distribution.get_device_count("cpu") == 1


class Specified(layers.Layer):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.input_spec = keras.InputSpec(ndim=3, axes={-1: 3})

    def call(self, inputs: Any) -> Any:
        return inputs


def test_nested_values() -> None:
    nested = {"b": [1, (2, None)], "a": 3}
    assert tree.flatten(nested) == [3, 1, 2, None] and tree.flatten(None) == [None]
    assert tree.flatten_with_path({"b": [1, 2], "a": 3}) == [(("a",), 3), (("b", 0), 1), (("b", 1), 2)]
    assert tree.map_structure(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 5, "b": [6]}) == {"a": 6, "b": [8]}
    assert tree.pack_sequence_as({"b": [0, 0], "a": 0}, [1, 2, 3]) == {"b": [2, 3], "a": 1}
    assert tree.lists_to_tuples({"a": [1, [2, 3]]}) == {"a": (1, (2, 3))}
    assert tree.map_structure_up_to([1, 2], lambda x: x, [[1, 2], {"a": 3}]) == [[1, 2], {"a": 3}]
    assert tree.map_shape_structure(len, {"a": (1, 2), "b": [(3, None, 4)]}) == {"a": 2, "b": [3]}
    assert tree.traverse(lambda x: "L" if isinstance(x, list) else None, {"a": [1], "b": 2}) == {"a": "L", "b": 2}
    with pytest.raises(ValueError, match="structures differ"):
        tree.assert_same_structure([1, 2], [1, (2,)])


def test_folders_of_texts_and_sounds(tmp_path: Path) -> None:
    for name, text in (("neg/a.txt", "bad film"), ("neg/b.txt", "very bad"), ("pos/c.txt", "good film")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    texts = utils.text_dataset_from_directory(tmp_path, batch_size=2, shuffle=False, label_mode="binary")
    (x, y), (rest, _) = texts
    assert x.tolist() == ["bad film", "very bad"] and y.tolist() == [[0], [0]] and rest.tolist() == ["good film"]
    words = layers.TextVectorization(output_sequence_length=3)
    words.adapt(utils.text_dataset_from_directory(tmp_path, label_mode=None, verbose=False))
    assert words.get_vocabulary() == ["", "[UNK]", "film", "bad", "very", "good"]
    assert texts.map(lambda x, y: (words(x), y))[0][0].tolist() == [[3, 2, 0], [4, 3, 0]]
    pairs = layers.TextVectorization(ngrams=2, output_mode="count")
    pairs.adapt(["the cat sat", "the cat ran"])
    assert pairs.get_vocabulary() == ["[UNK]", "the cat", "the", "cat", "sat", "ran", "cat sat", "cat ran"]
    assert pairs(["the cat"]).tolist() == [[0, 1, 1, 1, 0, 0, 0, 0]]
    (tmp_path / "pos/d.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(FileFormatError, match="not text in UTF-8"):
        list(utils.text_dataset_from_directory(tmp_path, shuffle=False, verbose=False))
    for name, samples in (("neg/a.wav", [0, 16384, -32768]), ("pos/b.wav", [8192])):
        with wave.open(str(tmp_path / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(np.array(samples, "<i2").tobytes())
    sounds, y = utils.audio_dataset_from_directory(tmp_path, shuffle=False, verbose=False)[0]
    assert sounds[..., 0].tolist() == [[0, 0.5, -1], [0.25, 0, 0]] and y.tolist() == [0, 1]
    (tmp_path / "neg/a.wav").write_bytes(b"RIFF")
    with pytest.raises(FileFormatError, match="no WAV file"):
        list(utils.audio_dataset_from_directory(tmp_path, shuffle=False, verbose=False))


def test_files_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "datasets"
    folder.mkdir()
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("inner/a.txt", "hello")
    found = utils.get_file(origin="https://example.invalid/data.zip", cache_dir=tmp_path)
    assert found == str(folder / "data.zip")
    place = utils.get_file("data.zip", "https://example.invalid/data.zip", extract=True, cache_dir=tmp_path)
    assert (Path(place) / "inner/a.txt").read_text() == "hello"
    with pytest.raises(ValueError, match="is a SHA-256 or an MD5"):
        utils.get_file("a", "https://example.invalid/a", file_hash="12", cache_dir=tmp_path)
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(1 << 20))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 19))
    with pytest.raises(FileFormatError, match=r"bomb\.zip would unpack to 1,048,576 bytes, the disk has 524,288 free"):
        utils.get_file("bomb.zip", "https://example.invalid/bomb.zip", extract=True, cache_dir=tmp_path)
    assert not list(folder.glob("bomb_extracted*"))
    (folder / "broken.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(FileFormatError, match=r"broken\.zip is not an archive"):
        utils.get_file("broken.zip", "https://example.invalid/broken.zip", extract=True, cache_dir=tmp_path)
    with pytest.raises(ValueError, match="is not the name of a file"):
        utils.get_file("../a", "https://example.invalid/a", cache_dir=tmp_path)


@pytest.mark.native_only  # it asks for an address
def test_a_file_stays_until_another_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.hub.http.RETRY_SECONDS", 0.01)
    place = tmp_path / "datasets" / "a.txt"
    place.parent.mkdir()
    place.write_text("old")
    for given in ({"force_download": True}, {"file_hash": "0" * 64}):
        with pytest.raises(DownloadError):
            utils.get_file("a.txt", "http://127.0.0.1:9/a.txt", cache_dir=tmp_path, **given)
        assert place.read_text() == "old" and [path.name for path in place.parent.glob("a.txt*")] == ["a.txt"]


def test_damaged_archives_of_the_cache(tmp_path: Path) -> None:
    """Links that lead nowhere or out of the folder, unknown packings, names that are no text, and no files."""

    def unpacked(data: bytes) -> list[str]:
        place = tmp_path / "datasets" / "data.bin"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
        found = Path(utils.get_file("data.bin", "https://example.invalid/data.bin", extract=True, cache_dir=tmp_path))
        names = sorted(path.name for path in found.iterdir())
        shutil.rmtree(found)
        return names

    def tar(name: str, link: str | None = None) -> bytes:
        member = tarfile.TarInfo(name)
        if link is not None:
            member.type, member.linkname = tarfile.LNKTYPE, link
        return member.tobuf() + bytes(1024)

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", "hello")
    whole = file.getvalue()
    entry = whole.index(b"PK\x01\x02")  # of the list at the end: flags, packing and name follow
    assert unpacked(whole) == ["a"] and unpacked(tar("a")) == ["a"] == unpacked(gzip.compress(tar("a")))
    assert unpacked(b"PK\x05\x06" + bytes(18)) == [] == unpacked(bytes(1024))
    for data in (
        tar("a", "nowhere"), tar("../a"), tar("a", "../../a"), tar("a")[:-1400], gzip.compress(tar("a"))[:-20],
        whole[: entry + 10] + b"\x63" + whole[entry + 11 :],
        whole[: entry + 9] + b"\x08" + whole[entry + 10 : -23] + b"\xff" + whole[-22:],
    ):  # fmt: skip
        with pytest.raises(FileFormatError, match=r"data\.bin"):
            unpacked(data)
        assert [path.name for path in (tmp_path / "datasets").iterdir() if path.is_dir()] == []


def test_pictures_as_files(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    x = (np.arange(24).reshape(2, 4, 3) * 10).astype("float32")
    utils.save_img(tmp_path / "a.png", x, scale=False)
    assert (utils.img_to_array(utils.load_img(tmp_path / "a.png")) == x).all()
    grey = utils.load_img(tmp_path / "a.png", color_mode="grayscale", target_size=(4, 8))
    assert utils.img_to_array(grey).shape == (4, 8, 1)
    assert keras.preprocessing.image.smart_resize(x, (2, 2)).shape == (2, 2, 3)


def test_objects_as_json() -> None:
    saving = keras.saving
    chain = layers.Pipeline([layers.Dense(2, kernel_regularizer="l2"), layers.Dropout(0.1)])
    config = saving.serialize_keras_object({"layer": chain, "sizes": [1, 2], "rate": keras.optimizers.SGD(0.5)})
    again = saving.deserialize_keras_object(config)
    assert [type(layer).__name__ for layer in again["layer"].layers] == ["Dense", "Dropout"]
    assert again["layer"].get_config() == chain.get_config() and again["rate"].learning_rate == 0.5
    with pytest.raises(ValueError, match="'Unknown' is not known"):
        saving.deserialize_keras_object({"class_name": "Unknown", "config": {}})
    left, right = utils.split_dataset({"a": np.arange(10), "b": np.arange(10) * 2}, left_size=0.3)
    assert left["b"].tolist() == [0, 2, 4] and len(right["a"]) == 7


def test_a_clone_takes_other_layers() -> None:
    inputs = keras.Input((4,))
    shared = layers.Dense(4, activation="relu")
    model = keras.Model(inputs, layers.Dense(2)(shared(shared(inputs)) + inputs))

    def other(layer: Any) -> Any:
        config = layer.get_config()
        return type(layer).from_config({**config, "activation": "tanh"} if "activation" in config else config)

    clone = keras.models.clone_model(model, clone_function=other)
    clone.set_weights(model.get_weights())
    assert len(clone.weights) == 4 and abs(clone.predict(np.ones((1, 4)), verbose=0)).max() < 10
    lines: list[str] = []
    keras.Sequential([model, layers.Dense(1)]).summary(print_fn=lines.append, expand_nested=True, show_trainable=True)
    rows = []
    model.summary(print_fn=rows.append, layer_range=["dense.*", "dense.*"])
    assert "Trainable" in lines[0] and rows[0].count("(Dense)") == 2


def test_averages_take_the_weights_places() -> None:
    x, y = numbers(24, 4, 3)
    model = small()
    model.compile(keras.optimizers.SGD(0.3, use_ema=True, ema_momentum=0.9), "sparse_categorical_crossentropy")
    swap = keras.callbacks.SwapEMAWeights()
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    model.fit(x, y, batch_size=8, epochs=1, verbose=0, validation_data=(x, y), callbacks=[swap])
    averages = [average.numpy().copy() for _, average in model.optimizer.averages()]
    for weight, average in zip(model.get_weights(), averages, strict=True):  # fit ends with them
        np.testing.assert_array_equal(weight, average)
    with pytest.raises(ValueError, match="keeps no averages"):
        small().evaluate(x, y, verbose=0, callbacks=[keras.callbacks.SwapEMAWeights()])


def test_small_helpers(capsys: Any) -> None:
    random = keras.random
    drawn = random.beta((4000,), 2.0, 3.0, seed=1)
    np.testing.assert_allclose([drawn.mean().item(), drawn.var().item()], [0.4, 0.04], rtol=0.05)
    assert (random.beta((4,), 2.0, 3.0, seed=1) == drawn[:4]).all()
    np.testing.assert_allclose(random.gamma((4000,), 3.0, seed=2).mean().item(), 3.0, rtol=0.05)
    np.testing.assert_allclose(random.binomial((4000,), 10, 0.3, seed=3).mean().item(), 3.0, rtol=0.05)
    rows = np.arange(12, dtype="float32").reshape(4, 3)
    words = layers.Embedding(4, 3, weights=[rows])
    assert words(np.array([2])).tolist() == [[6, 7, 8]]
    assert layers.Embedding.from_config(words.get_config()).output_dim == 3
    with pytest.raises(ValueError, match=r"weights have the shape \(4, 3\), not \(5, 3\)"):
        layers.Embedding(5, 3, weights=rows)(np.array([1]))
    limits = keras.initializers.GlorotUniform(seed=1, input_axes=[0], output_axes=[1, 2])((10, 20, 3))
    assert abs(limits).max().item() == pytest.approx((6 / 70) ** 0.5, rel=0.02)
    counts = layers.CategoryEncoding(3, output_mode="count")(np.array([[0, 2, 2]]), count_weights=[[0.5, 1.0, 2.0]])
    assert counts.tolist() == [[0.5, 0, 3]]
    bar = utils.Progbar(4, stateful_metrics=["last"])
    bar.update(2, [("loss", 1.0), ("last", 5.0)])
    bar.add(2, [("loss", 3.0), ("last", 7.0)])
    assert "4/4" in (shown := capsys.readouterr().out) and "loss: 2.0000 - last: 7.0000" in shown
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    assert [x.name for x in utils.get_source_inputs(layers.Add()([a * 2, b]))] == ["a", "b"]
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.learning_rate.assign(0.25)
    assert optimizer.learning_rate == 0.25 == optimizer.get_config()["learning_rate"]
    diverging = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
    diverging.compile(keras.optimizers.SGD(1e30), "mse")
    with pytest.raises(RuntimeError, match="Batch .: Invalid loss"):
        stop = keras.callbacks.TerminateOnNaN(raise_error=True)
        diverging.fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=2, epochs=4, verbose=0, callbacks=[stop])
    double = keras.losses.MeanSquaredError(dtype="float64")([[1.0]], [[3.0]])
    assert double.dtype.name == "float64" and double.item() == 4
    weighted = layers.TextVectorization(vocabulary=["a", "b"], idf_weights=[0.5, 0.7], output_mode="tf_idf")
    np.testing.assert_allclose(weighted(["a b b z"]).tolist(), [[0.6, 0.5, 1.4]], rtol=1e-6)
    model = keras.Model(a, [layers.Dense(1, name="one")(a), layers.Dense(2, name="two")(a)])
    model.compile("sgd", [None, "mse"])
    history = model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0).history
    assert list(history) == ["loss"]
    before = keras.ops.convert_to_numpy(model.weights[0])
    kept = before.copy()
    model.fit(np.ones((4, 3)), np.zeros((4, 2)), verbose=0)
    model.set_weights([weight + 1 for weight in model.get_weights()])
    assert (before == kept).all()


def test_floats_have_the_dtype_that_is_set() -> None:
    def name(x: Any) -> str:
        return str(x.dtype).rpartition(".")[2]

    keras.utils.clear_session()
    x = np.arange(24.0).reshape(6, 4)
    try:
        keras.config.set_floatx("float64")
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3, "relu"), layers.Dense(1, "sigmoid")])
        model.compile("adam", "mse", metrics=["mae", keras.metrics.AUC()])
        model.fit(x, x[:, 0] > 3, batch_size=3, epochs=3, verbose=0)
        assert {name(w) for w in (*model.weights, *model.optimizer.variables[1:])} == {"float64"}
        assert model.compiled_step == "captured" and model.predict(x, verbose=0).dtype == "float64"
        made = (keras.Input((3,)), keras.ops.zeros(2), keras.ops.convert_to_tensor([0.1]), keras.random.normal((2,)))
        assert {name(one) for one in made} == {"float64"}
        assert float(made[2][0]) == 0.1  # not that of float32
        assert keras.losses.MeanSquaredError()(np.float32([1, 2]), np.float32([0.1, 0.7])).dtype.name == "float64"
        assert keras.metrics.Mean().dtype == layers.Dense(2).dtype == keras.backend.standardize_dtype(None) == "float64"
        keras.config.set_dtype_policy("float32")
        assert layers.Dense(2).dtype == "float32"  # the policy goes first
        keras.utils.clear_session()
        assert layers.Dense(2).dtype == "float64" == keras.backend.floatx()
        with pytest.raises(ValueError, match="it is bfloat16"):
            keras.config.set_floatx("int32")
    finally:
        keras.config.set_floatx("float32")
    assert layers.Dense(2).dtype == "float32"


def test_a_config_holds_values_until_it_is_frozen() -> None:
    config = utils.Config(rate=0.1, layers=2)
    config.name = "small"
    config["seed"] = 3
    assert (config.rate, config["name"], config.get("none", 5), "seed" in config) == (0.1, "small", 5, True)
    assert list(config) == ["layers", "name", "rate", "seed"] and len(config) == 4
    assert config.to_json() == '{"rate": 0.1, "layers": 2, "name": "small", "seed": 3}'
    del config["seed"]
    assert config.pop("layers") == 2 and config.as_dict() == {"rate": 0.1, "name": "small"}
    config.freeze()
    assert config.frozen and copy.deepcopy(config).rate == 0.1
    for change in (lambda: setattr(config, "rate", 1), lambda: config.update(rate=1), lambda: config.pop("rate")):
        with pytest.raises(ValueError, match="frozen"):
            change()
    with pytest.raises(AttributeError, match="there is 'rate'"):
        _ = config.rates
    with pytest.raises(AttributeError, match="not a name of a value"):
        config.keys = 3
    config.unfreeze()
    config.update(rate=0.2)
    assert dict(config.items()) == {"rate": 0.2, "name": "small"}


def test_callbacks_always_get_logs() -> None:
    """As in Keras: methods and functions of one's own need no default for `logs`."""
    seen: list[str] = []

    class Own(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any) -> None:
            seen.append(f"train {logs}")

        def on_train_batch_begin(self, batch: int, logs: Any) -> None:
            seen.append(f"batch {batch} {logs}")

        def on_predict_begin(self, logs: Any) -> None:
            seen.append(f"predict {logs}")

        def on_predict_end(self, logs: Any) -> None:
            seen.append(f"end {logs}")

    model = keras.Sequential([layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((4, 2), "f4")
    told = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: seen.append(f"epoch {epoch} {logs}"))
    model.fit(x, x[:, :1], callbacks=[Own(), told], verbose=0)
    model.predict(x, callbacks=[Own()], verbose=0)
    assert seen == ["train {}", "epoch 0 {}", "batch 0 {}", "predict {}", "end {}"]


def test_the_first_value_of_a_monitor_is_the_best_so_far() -> None:
    """Also NaN: the learning rate falls after the second epoch, as in Keras."""
    model = keras.Sequential([layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    x, rates = np.full((4, 2), np.nan, "f4"), []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: rates.append(float(model.optimizer.learning_rate))
    )
    falls = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=0)
    model.fit(x, x[:, :1], epochs=3, callbacks=[falls, watch], verbose=0)
    assert rates == [1.0, 0.5, 0.25]


def test_what_is_no_layer_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="takes layers and modules"):
        keras.Sequential([1])
    with pytest.raises(ValueError, match="symbolic tensors"):
        keras.Model(1, 2)
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\)"):
        layers.Add()([np.ones((2, 3), "f4"), np.ones((2, 4), "f4")])


def test_metrics_of_functions_have_the_names_of_keras() -> None:
    def ownError(y_true: Any, y_pred: Any) -> Any:
        return keras.ops.mean(keras.ops.abs(y_true - y_pred), axis=-1)

    keras.utils.clear_session()
    model = keras.Sequential([layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[ownError, lambda t, p: p, keras.metrics.MeanMetricWrapper(ownError)])
    found = model.fit(np.ones((4, 2), "f4"), np.ones((4, 1), "f4"), verbose=0).history
    assert sorted(found) == ["lambda", "loss", "mean_metric_wrapper", "own_error"]


def test_results_of_metrics_are_tensors() -> None:
    """As Keras has them; what `fit` and `evaluate` report are plain numbers, or lists of them."""
    mean, score = keras.metrics.Mean(name="m"), keras.metrics.F1Score(name="f1")
    result = mean([1.0, 2.0])
    assert isinstance(result, pyapp.Tensor) and result.dtype == pyapp.float32 and result.shape == ()
    assert float(result) == 1.5 and result.numpy() == np.float32(1.5) and result > 1.4 and f"{result:.2f}" == "1.50"
    assert mean.result() == pytest.approx(1.5) and float(keras.metrics.Mean().result()) == 0.0
    assert [v.path for v in mean.variables] == ["m/total", "m/count"]
    truth = np.eye(3, dtype="f4")[[0, 1, 2, 1]]
    assert score(truth, truth[[0, 1, 1, 1]]).numpy() == pytest.approx([1.0, 0.8, 0.0], abs=1e-6)
    model = keras.Sequential([layers.Dense(3, activation="softmax")])
    model.compile("sgd", "mse", metrics=["mae", keras.metrics.F1Score(name="f1")])
    history = model.fit(np.ones((4, 2), "f4"), truth, verbose=0).history
    assert all(type(history[name][0]) is float for name in ("loss", "mae")) and type(history["f1"][0]) is list
    assert {type(value) for value in model.get_metrics_result().values()} == {pyapp.Tensor}
    found = model.evaluate(np.ones((4, 2), "f4"), truth, verbose=0, return_dict=True)
    assert type(found["loss"]) is float and len(found["f1"]) == 3


def test_weights_without_names_have_those_of_keras() -> None:
    class Own(layers.Layer):
        def build(self, shape: Any) -> None:
            self.a = self.add_weight((shape[-1], 3))
            self.b = self.add_weight((3,), name="b")
            self.c = self.add_weight((3,))
            self.d = keras.Variable(np.ones(2, "f4"))

        def call(self, x: Any) -> Any:
            return keras.ops.matmul(x, self.a) + self.b + self.c

    class Count(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__(name="count")
            self.calls = self.add_weight(shape=())

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.calls.assign_add(1.0)

        def result(self) -> Any:
            return self.calls

    keras.utils.clear_session()
    layer = Own(name="own")
    layer(np.ones((2, 4), "f4"))
    paths = ["own/variable", "own/b", "own/variable_1", "own/variable_2"]
    assert [weight.path for weight in layer.weights] == paths
    assert [weight.name for weight in layer.weights] == [path[4:] for path in paths]
    assert keras.Variable(1.0).path == "variable_3" and Count().variables[0].path == "count/variable_4"


def test_objects_are_described_as_in_keras() -> None:
    saving = keras.saving
    dense = layers.Dense(3, activation="relu", kernel_regularizer="l2", name="d")
    described = saving.serialize_keras_object(dense)
    policy = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}, "registered_name": None}
    wanted = {"module": "keras.layers", "class_name": "Dense", "registered_name": None}
    assert {key: described[key] for key in wanted} == wanted
    config = described["config"]
    assert list(config)[:4] == ["name", "trainable", "dtype", "units"] and config["dtype"] == policy
    assert config["kernel_initializer"]["module"] == "keras.initializers"
    assert config["kernel_initializer"]["class_name"] == "GlorotUniform"
    assert config["kernel_regularizer"]["config"] == {"l2": 0.01}
    assert layers.deserialize(described).get_config() == config
    same_names = (
        keras.metrics.AUC(name="a"), keras.metrics.MeanSquaredError(), keras.losses.MeanSquaredError(),
        keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 9)), keras.initializers.Orthogonal(gain=2.0),
        keras.constraints.MaxNorm(3), layers.Bidirectional(layers.GRU(2)), layers.GroupQueryAttention(2, 4, 2),
        keras.Sequential([keras.Input((3,)), layers.Dense(2)]),
    )  # fmt: skip
    for one in same_names:
        written = saving.serialize_keras_object(one)
        again = saving.deserialize_keras_object(json.loads(json.dumps(written)))
        assert type(again) is type(one) and saving.serialize_keras_object(again) == written


def test_scopes_clones_and_shapes_of_layers() -> None:
    keras.utils.clear_session()
    with keras.name_scope("outer"), keras.name_scope("inner"):
        dense = layers.Dense(3, name="dense")
        dense.build((None, 4))
        variable = keras.Variable(1.0, name="v")
    assert dense.kernel.path == "outer/inner/dense/kernel" and variable.path == "outer/inner/v"
    assert keras.Variable(1.0, name="w").path == "w"
    with pytest.raises(ValueError, match="takes a name without slashes, not 'a/b'"):
        keras.name_scope("a/b")
    with keras.device("cpu:0"):
        assert str(keras.ops.zeros(2).device) == "cpu"
    other = layers.Dense(3)
    assert other.get_build_config() is None
    other.build_from_config(json.loads(json.dumps(dense.get_build_config())))
    assert other.built and other.kernel.shape == (4, 3)
    assert dense.compute_output_spec(keras.Input((4,))).shape == (None, 3)
    initial = keras.initializers.HeNormal(seed=3)
    assert initial.clone() is not initial and initial.clone().get_config() == initial.get_config()
    dense.seen = keras.metrics.Mean(name="seen")
    dense.seen.update_state(3.0)
    assert dense.metrics == [dense.seen] and len(dense.metrics_variables) == 2
    symbol = keras.Input((2, 1), batch_size=3)
    assert symbol.reshape((2, 3)).shape == (2, 3) and symbol.squeeze(2).shape == (3, 2)
    for wrong in (np.asarray, float, int):
        with pytest.raises(ValueError, match="has no value yet"):
            wrong(symbol)
