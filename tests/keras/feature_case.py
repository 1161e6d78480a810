"""keras.utils.FeatureSpace and layers with vocabularies: what Keras 3 on TensorFlow gives, and files of it.

KERAS_BACKEND=tensorflow python -m tests.keras.feature_case (needs keras and tensorflow) writes golden_features.zip.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).with_name("golden_features.zip")


def columns() -> dict[str, Any]:
    random = np.random.RandomState(0)
    return {
        "plain": random.randn(20).astype("float32"), "normal": random.randn(20).astype("float32") * 3 + 1,
        "scaled": random.randn(20).astype("float32"), "ranges": random.randn(20).astype("float32"),
        "class": random.randint(0, 5, 20), "colour": np.array(["red", "green", "blue"])[random.randint(0, 3, 20)],
        "number": random.randint(0, 1000, 20), "word": np.array(["a", "bb", "ccc"])[random.randint(0, 3, 20)],
    }  # fmt: skip


def spaces(keras: Any) -> list[Any]:
    space = keras.utils.FeatureSpace
    features = {
        "plain": "float", "normal": "float_normalized", "scaled": space.float_rescaled(scale=2.0, offset=1.0),
        "ranges": space.float_discretized(num_bins=4), "class": "integer_categorical",
        "colour": space.string_categorical(num_oov_indices=2), "number": space.integer_hashed(num_bins=5),
        "word": "string_hashed",
    }  # fmt: skip
    crosses = [("class", "colour"), space.cross(("number", "class"), crossing_dim=8)]
    by_name = {
        "colour": space.string_categorical(output_mode="int"), "normal": space.float_normalized(),
        "class": space.integer_categorical(output_mode="int", max_tokens=4),
    }  # fmt: skip
    cross = space.cross(("colour", "class"), 32, output_mode="int")
    return [
        space(features, crosses=crosses, crossing_dim=6, hashing_dim=4),
        space(by_name, crosses=[cross], output_mode="dict"),
    ]


def numbers_of(keras: Any, data: Any, dataset: Any) -> list[Any]:
    """What the spaces give for columns, with unknown words too, and for one row."""
    found = []
    unknown = {**data, "colour": np.array(["pink", "cyan", "red", "x"] * 5), "class": np.arange(20)}
    for space in spaces(keras):
        space.adapt(dataset)
        row = {key: column[0].item() if column.dtype.kind != "U" else str(column[0]) for key, column in data.items()}
        for given in (data, unknown, row):
            made = space({key: given[key] for key in space.features})
            made = made if isinstance(made, dict) else {"all": made}
            found.append({key: np.asarray(value, "float64").round(5).tolist() for key, value in made.items()})
    return found


def texts(keras: Any) -> Any:
    """A model of layers that have learned, and its inputs."""
    layers = keras.layers
    some, padded = layers.TextVectorization(output_mode="tf_idf"), layers.TextVectorization(output_sequence_length=4)
    lookup, bins, normal = layers.StringLookup(), layers.Discretization(num_bins=3), layers.Normalization()
    for layer in (some, padded):
        layer.adapt(["a b c", "a b", "a"])
    lookup.adapt(["x", "y", "y"])
    normal.adapt(np.arange(6.0).reshape(3, 2))
    bins.adapt(np.arange(9.0))
    text, two = keras.Input((1,), dtype="string"), keras.Input((2,))
    outputs = [some(text), padded(text), lookup(text), normal(two), bins(two)]
    return keras.Model([text, two], outputs), [np.array([["a z"], ["y"]]), np.array([[1.0, 2.0], [3.0, 4.0]])]


def main() -> None:
    import keras
    import tensorflow as tf

    from tests.keras.make_golden_files import repacked

    data = columns()
    dataset = tf.data.Dataset.from_tensor_slices(data)
    found = numbers_of(keras, data, dataset)
    space = spaces(keras)[0]
    space.adapt(dataset)
    model, (text, numbers) = texts(keras)
    outputs = [np.asarray(one).tolist() for one in model.predict([tf.constant(text), numbers], verbose=0)]
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(GOLDEN, "w", zipfile.ZIP_DEFLATED) as golden:
        for name, one in (("features", space), ("texts", model)):
            one.save(Path(folder) / f"{name}.keras")
            golden.writestr(zipfile.ZipInfo(f"{name}.keras"), repacked(Path(folder) / f"{name}.keras"))
        golden.writestr(zipfile.ZipInfo("numbers.json"), json.dumps([found, outputs]), zipfile.ZIP_DEFLATED, 9)
    print(GOLDEN.stat().st_size, "bytes")


def read_golden() -> tuple[Any, dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(GOLDEN.read_bytes())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(files["numbers.json"]), files


if __name__ == "__main__":
    main()
