"""What all models of keras.applications share: their arguments, how a picture comes in, the classes, the weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import config, layers
from ..models import Model
from ..symbolic_tensors import Input, KerasTensor
from ..utils import get_source_inputs
from ..web_files import get_file

GOOGLE = "https://storage.googleapis.com/tensorflow/keras-applications/"


class Published(NamedTuple):
    """Where published weights are: the addresses of the files with the classes and without, and their hashes."""

    with_top: str
    hash_with_top: str | None
    without_top: str
    hash_without_top: str | None


def usual_files(folder: str, name: str, hashes: tuple[str, str], address: str = GOOGLE) -> Published:
    """Files with the usual names of Keras' authors."""
    start = f"{address}{folder}/{name}_weights_tf_dim_ordering_tf_kernels"
    return Published(f"{start}.h5", hashes[0], f"{start}_notop.h5", hashes[1])


def channel_axis() -> int:
    """The dim of the channels of a batch."""
    return 1 if config.image_data_format() == "channels_first" else -1


def shape_of(side: int, channels: int) -> tuple[int, int, int]:
    """The shape of a square picture."""
    return (channels, side, side) if channel_axis() == 1 else (side, side, channels)


def sides(x: Any) -> tuple[int | None, int | None]:
    """Height and width of a batch of pictures or of a shape without the batch."""
    shape = tuple(x.shape)
    return shape[2:4] if channel_axis() == 1 else shape[1:3]


def channels(x: Any) -> int:
    """The number of channels of a batch of pictures."""
    return int(x.shape[channel_axis()])


def padding_before(x: Any, kernel: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The padding of a convolution with stride 2 that gives half the size, rounded up."""
    half = kernel // 2
    return tuple((half - (1 - side % 2 if side is not None else 1), half) for side in sides(x))  # type: ignore[return-value]


def scaled_channels(count: float, divisor: int = 8, least: int | None = None) -> int:
    """A multiple of the divisor near `count`, and not less than 0.9 of it (Howard et al. 2017, arXiv 1704.04861)."""
    found = max(least or divisor, int(count + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * count else found


class Frame:
    """The arguments that all applications take. ValueError for those that do not fit together.

    include_top: with the classes. weights: None (random), "imagenet" (the published ones, which are downloaded once) or
    the path of a file. input_tensor: a KerasTensor to begin with; input_shape: of a picture, which may have None for
    the sides without the classes. pooling: None, "avg" or "max", without the classes.
    """

    def __init__(
        self, name: str | None, include_top: bool, weights: Any, input_tensor: Any, input_shape: Any, pooling: Any,
        classes: int, classifier_activation: Any, *, size: int = 224, least: int = 32, any_size: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.include_top, self.weights, self.pooling = name, include_top, weights, pooling
        self.classes, self.activation = classes, classifier_activation
        published = weights == "imagenet"
        if weights is not None and not published and not os.path.exists(weights):
            raise ValueError(f"{name}: weights are None, 'imagenet' or the path of a file, not {weights!r:.200}")
        if published and include_top and classes != 1000:
            raise ValueError(f"{name}: the published weights have 1000 classes, not {classes}: use include_top=False")
        if published and include_top and classifier_activation not in ("softmax", None):
            raise ValueError(f"{name}: with published weights, classifier_activation is 'softmax' or None")
        if pooling not in (None, "avg", "max"):
            raise ValueError(f"{name}: pooling is None, 'avg' or 'max', not {pooling!r}")
        if input_tensor is not None and not isinstance(input_tensor, KerasTensor):
            raise ValueError(f"{name}: input_tensor is what keras.Input gives, not {type(input_tensor).__name__}")
        if input_shape is None and input_tensor is not None:
            input_shape = tuple(input_tensor.shape[1:])
        shape = self._shape(input_shape, size, least, published, any_size)
        self.picture = Input(shape=shape) if input_tensor is None else input_tensor
        self.source = self.picture if input_tensor is None else get_source_inputs(input_tensor)

    def _shape(self, given: Any, size: int, least: int, published: bool, any_size: bool) -> tuple[int | None, ...]:
        usual = shape_of(size, 3)
        if given is None:
            if self.include_top and not any_size:
                return usual
            return (3, None, None) if channel_axis() == 1 else (None, None, 3)
        shape = tuple(given)
        if len(shape) != 3:
            raise ValueError(f"{self.name}: input_shape has three numbers, such as {usual}, not {given!r:.80}")
        depth = shape[0] if channel_axis() == 1 else shape[-1]
        places = shape[1:] if channel_axis() == 1 else shape[:-1]
        if published and depth != 3:
            raise ValueError(f"{self.name}: the published weights are for 3 channels, not {depth}")
        if published and self.include_top and not any_size and shape != usual:
            raise ValueError(f"{self.name}: published weights with classes are for {usual}, not {shape}")
        if any(side is not None and side < least for side in places):
            raise ValueError(f"{self.name}: pictures have at least {least} x {least} pixels, not {places}")
        if self.include_top and not any_size and None in places:
            raise ValueError(f"{self.name}: with include_top, input_shape needs the sides of the pictures, not {shape}")
        return shape

    def pooled(self, x: Any, **names: str) -> Any:
        """Without the classes: the mean or the largest value of each channel, or all of them."""
        if self.pooling == "avg":
            return layers.GlobalAveragePooling2D(name=names.get("avg"))(x)
        return layers.GlobalMaxPooling2D(name=names.get("max"))(x) if self.pooling == "max" else x

    def classified(self, x: Any, mean: str | None = "avg_pool", largest: str | None = "max_pool", **dense: Any) -> Any:
        """The mean of each channel and the classes; without include_top as `pooled`, with the names of the layers."""
        if not self.include_top:
            return self.pooled(x, **{kind: name for kind, name in (("avg", mean), ("max", largest)) if name})
        x = layers.GlobalAveragePooling2D(name=mean)(x)
        return self.predicted(x, **dense)

    def predicted(self, x: Any, name: str = "predictions", **dense: Any) -> Any:
        """The probabilities of the classes."""
        return layers.Dense(self.classes, activation=self.activation, name=name, **dense)(x)

    def model(self, x: Any, files: Callable[[], Published]) -> Model:
        """The model that ends in x, with the weights that were asked for."""
        model = Model(self.source, x, name=self.name)
        if self.weights == "imagenet":
            found = files()
            address = found.with_top if self.include_top else found.without_top
            of_file = found.hash_with_top if self.include_top else found.hash_without_top
            model.load_weights(get_file(origin=address, cache_subdir="models", file_hash=of_file))
        elif self.weights is not None:
            model.load_weights(self.weights)
        return model


def application(make: Callable[[Frame], Model], name: str, summary: str, **sizes: Any) -> Callable[..., Model]:
    """The function of a model whose arguments are the usual ones. `make` gets the Frame."""

    def build(
        include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
        pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax", name: str = name,
    ) -> Model:  # fmt: skip
        return make(
            Frame(
                name, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, **sizes
            )
        )

    build.__doc__ = f"{summary} The arguments are those of `Frame`."
    return build
