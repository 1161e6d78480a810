"""What prepares data: vocabularies, ranges, windows of series, folders of pictures, random tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyapp import keras

layers, utils = keras.layers, keras.utils


def test_a_vocabulary_numbers_texts() -> None:
    layer = layers.StringLookup()
    layer.adapt(["b", "a", "b", "c", "c", "b"])
    assert layer.get_vocabulary() == ["[UNK]", "b", "c", "a"]
    assert layer([["a", "b"], ["zebra", "c"]]).tolist() == [[3, 1], [0, 2]]
    back = layers.StringLookup(vocabulary=layer.get_vocabulary(), invert=True)
    assert back(np.array([3, 0, 1])).tolist() == ["a", "[UNK]", "b"]
    masked = layers.StringLookup(vocabulary=["a", "b"], mask_token="")
    assert masked(["", "b", "other"]).tolist() == [0, 3, 1]
    known = layers.StringLookup(vocabulary=["a", "b"], num_oov_indices=0, output_mode="multi_hot")
    assert known([["b", "b"], ["a", "b"]]).tolist() == [[0, 1], [1, 1]]
    with pytest.raises(ValueError, match="'c' is not in the vocabulary"):
        known([["c"]])
    with pytest.raises(ValueError, match="'a' stands twice"):
        layers.StringLookup(vocabulary=["a", "a"])
    with pytest.raises(ValueError, match="has no vocabulary: call adapt"):
        layers.StringLookup()(["a"])


def test_a_vocabulary_of_numbers_and_ranges() -> None:
    layer = layers.IntegerLookup(vocabulary=[10, 20], output_mode="count")
    assert layer([[10, 20, 20, 5]]).tolist() == [[1, 1, 2]]
    assert layers.IntegerLookup(vocabulary=[10, 20], num_oov_indices=2)([10, 7, 8]).tolist() == [2, 1, 0]
    ranges = layers.Discretization(bin_boundaries=[0.0, 1.0, 2.0])
    assert ranges([[-1.0, 0.5, 1.0, 7.0]]).tolist() == [[0, 1, 2, 3]]
    measured = layers.Discretization(num_bins=4)
    measured.adapt(np.arange(100.0))
    assert np.bincount(measured(np.arange(100.0)).tolist()).tolist() == [24, 25, 25, 26]


def test_windows_of_a_series() -> None:
    series = np.arange(20.0).reshape(10, 2)
    source = utils.timeseries_dataset_from_array(series, np.arange(10), 3, sampling_rate=2, batch_size=4)
    (x, y), (rest, _) = source[0], source[1]
    assert len(source) == 2 and x.shape == (4, 3, 2) and rest.shape == (2, 3, 2)
    assert x[1, :, 0].tolist() == [2, 6, 10] and y.tolist() == [0, 1, 2, 3]
    model = keras.Sequential([keras.Input((3, 2)), layers.Flatten(), layers.Dense(1)])
    model.compile("sgd", "mse")
    assert len(model.fit(source, epochs=2, verbose=0).history["loss"]) == 2
    with pytest.raises(ValueError, match="sequence_length is 1 … 10, got 11"):
        utils.timeseries_dataset_from_array(series, None, 11)


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    for name, shade in (("cats", 10), ("dogs", 200)):
        (tmp_path / name).mkdir()
        for k in range(3):
            pillow.fromarray(np.full((6, 4, 3), shade + k, "uint8")).save(tmp_path / name / f"{k}.png")
    source = utils.image_dataset_from_directory(tmp_path, image_size=(3, 3), batch_size=4, shuffle=False)
    x, y = source[0]
    assert source.class_names == ["cats", "dogs"] and x.shape == (4, 3, 3, 3) and y.tolist() == [0, 0, 0, 1]
    assert float(x[3].mean()) == pytest.approx(200)
    both = utils.image_dataset_from_directory(
        tmp_path, image_size=(3, 3), validation_split=0.34, subset="both", seed=1, label_mode="binary"
    )
    assert [len(part.file_paths) for part in both] == [4, 2] and both[0][0][1].shape == (4, 1)
    assert not set(both[0].file_paths) & set(both[1].file_paths)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        utils.image_dataset_from_directory(tmp_path / "none")


def test_pictures_change_in_training_alone() -> None:
    x = np.random.RandomState(0).rand(8, 6, 6, 1).astype("float32")
    flip = layers.RandomFlip("horizontal", seed=3)
    turned = flip(x).numpy()  # called alone: as in training
    flipped = [bool((turned[k] == x[k, :, ::-1]).all()) for k in range(8)]
    assert 0 < sum(flipped) < 8
    assert all((turned[k] == x[k]).all() for k in range(8) if not flipped[k])
    model = keras.Sequential([keras.Input((6, 6, 1)), layers.RandomTranslation(0.3, 0.3), layers.Flatten()])
    assert (model.predict(x, verbose=0) == x.reshape(8, -1)).all()
    crop = layers.RandomCrop(3, 4, seed=1)
    assert crop(x, training=True).shape == (8, 3, 4, 1)
    fitted = layers.Resizing(3, 4, crop_to_aspect_ratio=True)(x).numpy()
    assert (crop(x, training=False).numpy() == fitted).all()  # as Keras' documents say
    with pytest.raises(ValueError, match="takes pictures"):
        layers.Resizing(3, 3)(x[..., 0, 0])


def test_random_tensors_and_variables() -> None:
    seeds = keras.random.SeedGenerator(1)
    first, second = (keras.random.normal((3,), seed=seeds).numpy() for _ in range(2))
    assert (first != second).all() and (keras.random.normal((3,), seed=1).numpy() == first).all()
    assert keras.random.randint((50,), 2, 4, seed=0).numpy().min() == 2

    class Counted(keras.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.scale = keras.Variable(np.ones(2, "float32"))
            self.count = keras.Variable(0.0, trainable=False)

        def call(self, x: object, training: bool = False) -> object:
            if training:
                self.count.assign_add(1.0)
            return x * self.scale  # type: ignore[operator]

    model = keras.Sequential([keras.Input((2,)), Counted()])
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 2), "float32"), np.zeros((8, 2), "float32"), batch_size=2, epochs=2, verbose=0)
    assert len(model.trainable_variables) == 1 and len(model.non_trainable_variables) == 1
    assert float(model.layers[0].count) == 8 and float(model.layers[0].scale[0]) < 1


def test_what_was_learned_is_in_the_configuration() -> None:
    for layer, data in (
        (keras.layers.StringLookup(mask_token="[M]"), ["a", "b", "b"]),
        (keras.layers.IntegerLookup(output_mode="tf_idf"), np.array([[5, 7], [7, 8]])),
        (keras.layers.TextVectorization(output_mode="tf_idf"), ["a b", "b c"]),
        (keras.layers.Discretization(num_bins=3), np.arange(9.0)),
    ):
        layer.adapt(data)
        again = type(layer).from_config(layer.get_config())
        np.testing.assert_array_equal(np.asarray(again(data)), np.asarray(layer(data)))
