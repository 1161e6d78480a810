"""ConvNeXt (Liu et al. 2022, arXiv 2201.03545): blocks of a convolution of each channel alone and two linear layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import initializers, layers
from ..models import Model, Sequential
from .building import GOOGLE, Frame, Published, channel_axis, channels
from .imagenet_utils import decode_predictions, preprocess_as

__all__ = [
    "ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtSmall", "ConvNeXtTiny", "ConvNeXtXLarge", "decode_predictions",
    "preprocess_input",
]  # fmt: skip

preprocess_input = preprocess_as(None)
_SIZES = {
    "tiny": ((3, 3, 9, 3), 96), "small": ((3, 3, 27, 3), 96), "base": ((3, 3, 27, 3), 128),
    "large": ((3, 3, 27, 3), 192), "xlarge": ((3, 3, 27, 3), 256),
}  # fmt: skip
_HASHES = {
    "tiny": (
        "8ae6e78ce2933352b1ef4008e6dd2f17bc40771563877d156bc6426c7cf503ff",
        "d547c096cabd03329d7be5562c5e14798aa39ed24b474157cef5e85ab9e49ef1",
    ),
    "small": (
        "ce1277d8f1ee5a0ef0e171469089c18f5233860ceaf9b168049cb9263fd7483c",
        "6fc8009faa2f00c1c1dfce59feea9b0745eb260a7dd11bee65c8e20843da6eab",
    ),
    "base": (
        "52cbb006d3dadd03f6e095a8ca1aca47aecdd75acb4bc74bce1f5c695d0086e6",
        "40a20c5548a5e9202f69735ecc06c990e6b7c9d2de39f0361e27baeb24cb7c45",
    ),
    "large": (
        "070c5ed9ed289581e477741d3b34beffa920db8cf590899d6d2c67fba2a198a6",
        "96f02b6f0753d4f543261bc9d09bed650f24dd6bc02ddde3066135b63d23a1cd",
    ),
    "xlarge": (
        "c1f5ccab661354fc3a79a10fa99af82f0fbf10ec65cb894a3ae0815f17a889ee",
        "de3f8a54174130e0cecdc71583354753d557fcf1f4487331558e2a16ba0cfe05",
    ),
}
_MEANS, _VARIANCES = (123.675, 116.28, 103.53), (58.395**2, 57.12**2, 57.375**2)


class LayerScale(layers.Layer):
    """x times a vector that is learnt, small at first (Touvron et al. 2021, arXiv 2103.17239)."""

    probe_scale = 1

    def __init__(self, init_values: float, projection_dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.init_values, self.projection_dim = init_values, projection_dim

    def build(self, _: Any) -> None:
        self.gamma = self.add_weight(
            (self.projection_dim,), initializers.Constant(self.init_values), trainable=True, name="gamma"
        )

    def call(self, x: Any) -> Any:
        return x * self.gamma

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "init_values": self.init_values, "projection_dim": self.projection_dim}


def _norm(name: str | None = None) -> Any:
    return layers.LayerNormalization(epsilon=1e-6, name=name)


def _block(x: Any, width: int, name: str) -> Any:
    y = layers.Conv2D(width, 7, padding="same", groups=width, name=f"{name}_depthwise_conv")(x)
    y = _norm(f"{name}_layernorm")(y)
    y = layers.Dense(4 * width, name=f"{name}_pointwise_conv_1")(y)
    y = layers.Activation("gelu", name=f"{name}_gelu")(y)
    y = layers.Dense(width, name=f"{name}_pointwise_conv_2")(y)
    y = LayerScale(1e-6, width, name=f"{name}_layer_scale")(y)
    return x + layers.Activation("linear", name=f"{name}_identity")(y)


def _convnext(size: str) -> Callable[..., Model]:
    depths, first = _SIZES[size]

    def build(
        include_top: bool = True, include_preprocessing: bool = True, weights: Any = "imagenet",
        input_tensor: Any = None, input_shape: Any = None, pooling: str | None = None, classes: int = 1000,
        classifier_activation: Any = "softmax", name: str = f"convnext_{size}",
    ) -> Model:  # fmt: skip
        if channel_axis() == 1:
            raise ValueError(f"{name}: pictures have the channels last: keras.config.set_image_data_format")
        frame = Frame(name, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation)
        x = frame.picture
        if include_preprocessing and channels(x) == 3:
            x = layers.Normalization(mean=_MEANS, variance=_VARIANCES, name=f"{name}_prestem_normalization")(x)
        for stage, count in enumerate(depths):
            width = first << stage
            if stage == 0:
                parts = [layers.Conv2D(width, 4, strides=4, name=f"{name}_stem_conv"), _norm(f"{name}_stem_layernorm")]
                x = Sequential(parts, name=f"{name}_stem")(x)
            else:
                of_stage = f"{name}_downsampling"
                parts = [
                    _norm(f"{of_stage}_layernorm_{stage - 1}"),
                    layers.Conv2D(width, 2, strides=2, name=f"{of_stage}_conv_{stage - 1}"),
                ]
                x = Sequential(parts, name=f"{of_stage}_block_{stage - 1}")(x)
            for i in range(count):
                x = _block(x, width, f"{name}_stage_{stage}_block_{i}")
        if include_top:
            x = layers.GlobalAveragePooling2D(name=f"{name}_head_gap")(x)
            x = frame.predicted(_norm(f"{name}_head_layernorm")(x), name=f"{name}_head_dense")
        else:
            x = _norm()(frame.pooled(x))
        start, hashes = f"{GOOGLE}convnext/convnext_{size}", _HASHES[size]
        return frame.model(x, lambda: Published(f"{start}.h5", hashes[0], f"{start}_notop.h5", hashes[1]))

    build.__doc__ = f"ConvNeXt {size}. The arguments are those of `Frame`, and whether it prepares pictures."
    return build


ConvNeXtTiny, ConvNeXtSmall, ConvNeXtBase, ConvNeXtLarge, ConvNeXtXLarge = map(_convnext, _SIZES)
