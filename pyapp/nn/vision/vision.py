"""The common parts of models that read pictures: patches, positions, the layer of the Vision Transformer, and heads.

Pictures are pixel_values (B, 3, H, W), as an image processor prepares them. An encoder of patches computes hidden
states (B, T, D): those of its special tokens, then those of the patches, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...engine import Device, Tensor, ops
from ...engine.user_errors import describe
from ...errors import InputError
from ..encoders.encoders import Intermediate, Pooler, SelfAttention, first_token
from ..layers.channel_normalization import BatchNorm2d
from ..layers.containers import ModuleDict, ModuleList
from ..layers.convolution import Conv2d
from ..layers.gated import activation_named
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter


def check_pictures(model: str, x: Tensor, channels: int, size: tuple[int, int] | None = None, least: int = 1) -> None:
    """InputError for pictures that are not (B, channels, H, W) of at least `least` pixels a side, or not of the
    model's only size.
    """
    if x.ndim != 4 or x.shape[0] < 1 or x.shape[1] != channels or min(x.shape[2:]) < least:
        raise InputError(f"{model}: pictures are (B, {channels}, H, W) from {least} pixels a side, not {describe(x)}")
    if size is not None and tuple(x.shape[2:]) != size:
        raise InputError(
            f"{model}: the pictures have {x.shape[2]} x {x.shape[3]} pixels, the model takes {size[0]} x {size[1]}: "
            "use the image processor of the model"
        )


class ImageModel(Module):
    """A model of pictures with `config`; `pixels` is the only size (height, width) that it takes, None: any."""

    config: Any

    @property
    def pixels(self) -> tuple[int, int] | None:
        """The only size (height, width) of pictures that the model takes."""
        return None

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return next(iter(self.parameters())).device


class PatchEmbeddings(Module):
    """Patches of a picture, each as one vector (Dosovitskiy et al. 2020, arXiv 2010.11929)."""

    def __init__(self, channels: int, width: int, patch: tuple[int, int]) -> None:
        super().__init__()
        self.projection = Conv2d(channels, width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, rows * columns, width)."""
        return as_sequence(self.projection(x))


def as_sequence(x: Tensor) -> Tensor:
    """(B, C, H, W) → (B, H * W, C)."""
    return x.reshape(x.shape[0], x.shape[1], x.shape[2] * x.shape[3]).transpose(1, 2)


def as_map(x: Tensor, rows: int, columns: int) -> Tensor:
    """(B, rows * columns, C) → (B, C, rows, columns)."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], rows, columns)


def squares(x: Tensor, side: int) -> Tensor:
    """Patches (B, rows, columns, D) → those of each square of `side` rows and columns (B, squares, side² D)."""
    count, rows, columns, width = x.shape
    high, wide = rows // side, columns // side
    x = x.reshape(count, high, side, wide, side, width).transpose(2, 3)
    return x.reshape(count, high * wide, side * side * width)


def over_channels(x: Tensor, norm: LayerNorm) -> Tensor:
    """The norm of each pixel's channels: x (B, C, H, W) → (B, C, H, W)."""
    return norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def norms_of_stages(widths: Mapping[int, int], epsilon: float) -> ModuleDict:
    """The norms of the maps of stages, whose widths are given by their numbers from 0, by their names: stage1 …"""
    return ModuleDict({f"stage{i + 1}": LayerNorm(width, epsilon) for i, width in widths.items()})


def token(width: int) -> Tensor:
    """The parameter (1, 1, width) of a token that stands before the patches."""
    return new_parameter(ops.zeros, 1, 1, width)


def with_tokens(x: Tensor, *tokens: Tensor) -> Tensor:
    """x (B, T, D) after tokens (1, 1, D) each → (B, len(tokens) + T, D)."""
    return ops.cat([*(own.expand(x.shape[0], 1, own.shape[2]) for own in tokens), x], 1)


def resized_positions(
    table: Tensor, before: int, after: int, grid: tuple[int, int], wanted: tuple[int, int], antialias: bool = False
) -> Tensor:
    """The positions (1, before + rows * columns + after, D) of patches in a grid, for another grid: those of the
    patches bicubically resampled, those of other tokens unchanged.
    """
    if grid == wanted:
        return table
    width = table.shape[2]
    patches = table.narrow(1, before, grid[0] * grid[1]).reshape(1, *grid, width).permute(0, 3, 1, 2)
    found = ops.interpolate(patches, size=wanted, mode="bicubic", align_corners=False, antialias=antialias)
    parts = [table.narrow(1, 0, before), as_sequence(found)]
    if after:
        parts.append(table.narrow(1, before + grid[0] * grid[1], after))
    return ops.cat(parts, 1)


class PlacedPatches(Module):
    """The class token, if there is one, and the patches, with their positions."""

    def __init__(self, config: Any, with_class: bool = True) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width) if with_class else None
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + with_class, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + patches, D), or (B, patches, D) without a class token."""
        x = self.patch_embeddings(pixel_values)
        return (x if self.cls_token is None else with_tokens(x, self.cls_token)) + self.position_embeddings


def mean_of_places(x: Tensor) -> Tensor:
    """x (B, C, H, W) → (B, C)."""
    return x.mean((2, 3))


def mean_of_patches(x: Tensor) -> Tensor:
    """x (B, T, D) → (B, D)."""
    return x.mean(1)


def divisible(channels: float, divisor: int, least: int) -> int:
    """`channels` rounded to a multiple of `divisor`: at least `least`, at most a tenth less."""
    found = max(least, int(channels + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * channels else found


class TensorflowConv2d(Conv2d):
    """A filter of (B, C, H, W) with the zeros of TensorFlow's padding SAME around, of which the larger half is at the
    end: the output has H / stride rows, rounded up.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input (B, C, H, W) → (B, O, H / stride, W / stride), rounded up."""
        sides = []
        numbers = zip(input.shape[2:], self.kernel_size, self.stride, self.dilation, strict=True)
        for side, kernel, stride, dilation in numbers:
            missing = max(0, kernel - (side % stride or stride))
            sides.append((missing // 2 * dilation, (missing - missing // 2) * dilation))
        return ops.conv2d(input, self.weight, self.bias, self.stride, tuple(sides), self.dilation, self.groups)


class ConvolutionNorm(Module):
    """A filter, the norm of batches, an activation (None: none). tensorflow: padded as TensorFlow does."""

    def __init__(
        self, before: int, width: int, kernel: int, stride: int = 1, activation: str | None = None, groups: int = 1,
        dilation: int = 1, epsilon: float = 1e-5, tensorflow: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        padding = 0 if tensorflow else (kernel - 1) // 2 * dilation
        kind = TensorflowConv2d if tensorflow else Conv2d
        self.convolution = kind(before, width, kernel, stride, padding, dilation, groups, bias=False)
        self.normalization: Module = BatchNorm2d(width, epsilon)
        self.activation = None if activation is None else activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        x = self.normalization(self.convolution(x))
        return x if self.activation is None else self.activation(x)


class FrozenBatchNorm2d(Module):
    """The norm of batches (B, C, H, W) with the statistics, weights and biases of its first training, which no training
    changes.
    """

    def __init__(self, channels: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        for name, make in (("weight", ops.ones), ("bias", ops.zeros)):
            self.register_buffer(name, make(channels))
        for name, make in (("running_mean", ops.zeros), ("running_var", ops.ones)):
            self.register_buffer(name, make(channels))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return ops.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.epsilon)


def freeze_norms(module: Module) -> None:
    """Replaces the norms of batches of a network's filters by frozen ones."""
    for part in module.modules():
        if isinstance(part, ConvolutionNorm) and isinstance(part.normalization, BatchNorm2d):
            part.normalization = FrozenBatchNorm2d(part.normalization.num_features, part.normalization.eps)


class LayerScale(Module):
    """x times a vector (Touvron et al. 2021, arXiv 2103.17239), called lambda1 in files."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lambda1 = new_parameter(ops.ones, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., width)."""
        return x * self.lambda1


class PatchAttention(Module):
    """Self-attention and its output projection, under the names of the Vision Transformer's files."""

    def __init__(self, width: int, heads: int, bias: bool = True, key_bias: bool | None = None) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads, bias, key_bias)
        self.output = Module()
        self.output.dense = ResidualLinear(width, width)

    def forward(self, x: Tensor, residual: Tensor | None, mask: Tensor | None = None) -> Tensor:
        """x (B, T, D), mask (1 or B, H, T, T) floats to add to the scores → residual + attention (B, T, D)."""
        return self.output.dense(self.attention(x, mask), residual)


class PatchLayer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it, under the names of the
    Vision Transformer's files.
    """

    def __init__(
        self, width: int, heads: int, inner: int, activation: str, epsilon: float, bias: bool = True,
        key_bias: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention = PatchAttention(width, heads, bias, key_bias)
        self.intermediate = Intermediate(width, inner, activation)
        self.output = Module()
        self.output.dense = ResidualLinear(inner, width)
        self.layernorm_before = LayerNorm(width, epsilon)
        self.layernorm_after = LayerNorm(width, epsilon)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(self.layernorm_before(x), x, mask)
        return self.output.dense(self.intermediate(self.layernorm_after(x)), x)


class PatchLayers(Module):
    """The layers of an encoder, one after the other."""

    def __init__(
        self, layers: int, width: int, heads: int, inner: int, activation: str, epsilon: float, bias: bool = True,
        key_bias: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (width, heads, inner, activation, epsilon, bias, key_bias)
        self.layer = ModuleList(PatchLayer(*sizes) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        for layer in self.layer:
            x = layer(x)
        return x


class VisionEncoder(ImageModel):
    """The Vision Transformer over `embeddings` of pictures; with `pooler`, also the layer over the class token, which
    features of whole pictures read.
    """

    def __init__(self, config: Any, embeddings: Module, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.embeddings = embeddings
        self.encoder = PatchLayers(
            config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.intermediate_size,
            config.hidden_act, config.layer_norm_eps, config.qkv_bias,
        )  # fmt: skip
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.pooler: Pooler | None = None
        if pooler:
            self.pooler = Pooler(config.hidden_size, config.pooler_output_size, config.pooler_act)

    @property
    def pixels(self) -> tuple[int, int]:
        found: tuple[int, int] = self.config.image_size
        return found

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, T, D)."""
        check_pictures(type(self).__name__, pixel_values, self.config.num_channels, self.pixels)
        return self.layernorm(self.encoder(self.embeddings(pixel_values)))


class ImageHead(ImageModel):
    """An encoder of pictures under `name`, and a head: `read` makes the features (B, F) of the encoder's output, the
    layer `classifier` the logits of the labels.
    """

    def __init__(
        self, name: str, encoder: ImageModel, features: int, labels: int, read: Callable[[Tensor], Tensor] = first_token
    ) -> None:
        super().__init__()
        self.name, self.config, self.read = name, encoder.config, read
        self.add_module(name, encoder)
        self.classifier: Module = Linear(features, labels)

    @property
    def encoder(self) -> ImageModel:
        """The encoder below the head."""
        found = self._modules[self.name]
        assert isinstance(found, ImageModel)
        return found

    @property
    def pixels(self) -> tuple[int, int] | None:
        return self.encoder.pixels

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        return self.classifier(self.read(self.encoder(pixel_values)))
