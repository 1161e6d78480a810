"""What prepares data: vocabularies, ranges, windows of series, folders of pictures, random tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import keras
from tests.together import check_each

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


def test_boxes_move_as_the_pixels_do() -> None:
    """A bright rectangle in a dark picture is where its box says, after each layer."""
    made: list[tuple[str, Any]] = [
        ("mirrored", layers.RandomFlip(seed=1, bounding_box_format="rel_xyxy")),
        ("a part", layers.RandomCrop(14, 15, seed=2, bounding_box_format="yxyx")),
        ("a part of a small picture", layers.RandomCrop(40, 64, seed=2, bounding_box_format="xywh")),
        ("the middle", layers.CenterCrop(13, 16, bounding_box_format="center_xywh")),
        ("of the proportions", layers.Resizing(40, 64, crop_to_aspect_ratio=True, bounding_box_format="xyxy")),
        ("with borders", layers.Resizing(60, 54, pad_to_aspect_ratio=True, bounding_box_format="xyxy")),
    ]
    images = np.zeros((6, 20, 18, 1), "float32")
    corners = np.array([[[4 + k, 6, 9 + k, 12 + k % 2], [0, 0, 0, 0]] for k in range(6)], "float32")
    for picture, ((left, top, right, bottom), _) in zip(images, corners.astype(int), strict=True):
        picture[top:bottom, left:right] = 1

    def check(_: str, layer: Any, first: bool) -> None:
        if first:
            layer = type(layer)(**{**layer._arguments, "data_format": "channels_first"})
        convert, form = keras.utils.bounding_boxes.convert_format, layer.bounding_box_format
        labels = np.tile(np.array([[3, -1]]), (6, 1))
        boxes = {"boxes": convert(corners, "xyxy", form, height=20, width=18), "labels": labels}
        given = images.transpose(0, 3, 1, 2) if first else images
        found = layer({"images": given, "bounding_boxes": boxes}, training=True)
        pixels = found["images"].numpy()
        pixels = pixels[:, 0] if first else pixels[..., 0]
        height, width = pixels.shape[1:]
        moved = convert(found["bounding_boxes"]["boxes"], form, "xyxy", height=height, width=width).numpy()
        for picture, box, label in zip(pixels, moved, found["bounding_boxes"]["labels"].numpy(), strict=True):
            rows, columns = np.nonzero(picture > 0.5)
            bright = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] if len(rows) else [0] * 4
            assert label[0] == (3 if len(rows) else -1) and label[1] == -1
            if len(rows):
                np.testing.assert_allclose(box[0], bright, atol=0.51 if height > 20 else 1e-4)
        np.testing.assert_array_equal(moved[:, 1], 0)

    check_each(check, [(f"{name} {first}", layer, first) for name, layer in made for first in (False, True)])
    single = layers.CenterCrop(10, 10, bounding_box_format="xyxy")
    alone = {"images": images[0], "bounding_boxes": {"boxes": corners[0], "labels": np.array([3, -1])}}
    assert single(alone)["bounding_boxes"]["boxes"].tolist()[0] == [0, 1, 5, 7]


ONE = np.ones((1, 4), "float32")


def test_boxes_that_do_not_fit_are_refused() -> None:
    boxes = {"boxes": np.ones((1, 2, 4), "float32"), "labels": np.zeros((1, 2), "int64")}
    both = {"images": np.ones((1, 6, 6, 3), "float32"), "bounding_boxes": boxes}
    tools = keras.utils.bounding_boxes

    def refused(_: str, words: str, call: Any) -> None:
        with pytest.raises((ValueError, NotImplementedError), match=words):
            call()

    check_each(refused, [
        ("no format", "give the layer bounding_box_format", lambda: layers.RandomFlip()(both)),
        ("a format", "bounding_box_format is one of", lambda: layers.RandomFlip(bounding_box_format="corners")),
        ("a layer", "do not move", lambda: layers.RandomRotation(0.1, bounding_box_format="xyxy")),
        ("another format", "a format is one of", lambda: tools.convert_format(boxes, "xyxy", "yx")),
        ("no size", "takes the height and the width", lambda: tools.convert_format(boxes, "xyxy", "rel_xyxy")),
        ("no boxes", r"takes boxes \(…, 4\)", lambda: tools.convert_format(np.ones((2, 3)), "xyxy", "xywh")),
        ("many dims", r"takes boxes \(N, 4\)", lambda: tools.compute_iou(np.ones((1, 1, 2, 4)), ONE, "xyxy")),
        ("an encoding", "deltas are those of", lambda: tools.encode_box_to_deltas([], [], "xyxy", "xyxy", "xyxy")),
    ])  # fmt: skip


def test_a_mean_and_variance_that_are_given_hold_for_vectors() -> None:
    layer = layers.Normalization(mean=0.5, variance=4.0)
    assert layer(np.array([0.5, 2.5], "float32")).tolist() == [0.0, 1.0]
    assert layer(np.array([4.5], "float32")).tolist() == [2.0]


def test_the_mean_of_a_normalization_has_the_shape_of_inputs() -> None:
    """Shapes of Keras 3.15."""
    data = np.arange(12.0).reshape(3, 2, 2)
    for axis, shape in ((-1, (1, 1, 2)), (None, (1, 1, 1)), ((1, 2), (1, 2, 2))):
        layer = layers.Normalization(axis=axis)
        assert layer.mean is None
        layer.adapt(data)
        kept = tuple(size for size in shape if size > 1)
        assert (tuple(layer.mean.shape), tuple(layer.variance.shape)) == (shape, shape)
        assert [(weight.name, tuple(weight.shape)) for weight in layer.weights] == [
            ("mean", kept), ("variance", kept), ("count", ()),
        ]  # fmt: skip
    assert layer.mean.tolist() == [[[4.0, 5.0], [6.0, 7.0]]]


def test_a_weight_may_bear_the_name_of_a_property() -> None:
    class Doubled(layers.Layer):
        def build(self, shape: Any) -> None:
            self.own = self.add_weight(shape=(shape[-1], 2), initializer="ones", name="kernel")

        @property
        def kernel(self) -> Any:
            return self.own * 2

        def call(self, x: Any) -> Any:
            return keras.ops.matmul(x, self.kernel)

    layer = Doubled()
    assert layer(np.ones((1, 3), "float32")).tolist() == [[6.0, 6.0]]
    assert [weight.name for weight in layer.weights] == ["kernel"]


def test_classes_beyond_the_encoding_are_errors() -> None:
    for mode in ("one_hot", "multi_hot", "count"):
        layer = layers.CategoryEncoding(3, output_mode=mode)
        assert layer(np.array([[0], [-1]])).tolist() == [[1, 0, 0], [0, 0, 0]]
        with pytest.raises(RuntimeError, match="class 5 is not below num_tokens, 3"):
            layer(np.array([[0], [5]]))
