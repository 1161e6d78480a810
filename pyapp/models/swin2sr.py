"""Swin2SR (Conde et al. 2022, arXiv 2209.11345): larger pictures, or cleaner ones. Layers of Swin V2, each group of
them with a filter and a residual, between a first filter and those that make the pixels.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, LayerNorm, LeakyReLU, Module, ModuleList, Sequential
from pyapp.nn.vision.vision import ImageModel, PatchEmbeddings, as_map, check_pictures
from pyapp.nn.vision.windows import PostNormWindowLayer

from .loading.config import DEEPEST, FileConfig, require
from .loading.pictures_config import PATCHES, WIDEST, check_numbers, pair

MODEL_TYPES = ("swin2sr",)
IMAGE_PROCESSOR = "Swin2SR"  # of files that name none
BASE = ""
IGNORED = r".*\.relative_(coords_table|position_index)|.*attn_mask"  # computed here
FEATURES = 64  # of the filters that make the pixels
MEAN = 0.4488, 0.4371, 0.4040  # of the colours of the pictures of the training
UPSAMPLERS = ("pixelshuffle", "pixelshuffle_aux", "pixelshuffledirect", "nearest+conv", "")
CONNECTIONS = ("1conv", "3conv")


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    image_size: tuple[int, int] = (64, 64)
    patch_size: tuple[int, int] = (1, 1)
    num_channels: int = 3
    num_channels_out: int = 3
    embed_dim: int = 180
    depths: tuple[int, ...] = (6, 6, 6, 6, 6, 6)
    num_heads: tuple[int, ...] = (6, 6, 6, 6, 6, 6)
    window_size: int = 8
    mlp_ratio: float = 2.0
    qkv_bias: bool = True
    hidden_act: str = "gelu"
    use_absolute_embeddings: bool = False
    layer_norm_eps: float = 1e-5
    upscale: int = 2
    img_range: float = 1.0
    resi_connection: str = "1conv"
    upsampler: str = "pixelshuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("depths", self.depths, DEEPEST)
        check_numbers("num_heads", self.num_heads, 1 << 12, count=len(self.depths))
        width, scale = self.embed_dim, self.upscale
        require(width <= WIDEST, f"embed_dim is {width:,}, expected at most {WIDEST:,}")
        for heads in self.num_heads:
            require(width % heads == 0, f"{heads} num_heads do not divide embed_dim {width}")
        require(self.window_size <= 256, f"window_size is {self.window_size:,}, expected at most 256")
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")
        require(self.img_range > 0, f"img_range is {self.img_range}, expected a number above 0")
        for name in ("num_channels", "num_channels_out"):
            require(getattr(self, name) == 3, f"{name} is {getattr(self, name)}: pictures here have three channels")
        require(self.patch_size == (1, 1), f"patch_size is {self.patch_size}: patches here are single pixels")
        require(not self.use_absolute_embeddings, "use_absolute_embeddings is true: there are no such positions here")
        require(min(self.image_size) ** 2 <= PATCHES, f"image_size {self.image_size} is too large")
        require(self.resi_connection in CONNECTIONS, f"resi_connection is {self.resi_connection!r:.40}")
        require(self.upsampler in UPSAMPLERS, f"upsampler is {self.upsampler!r:.40}, which is not known")
        known = {"nearest+conv": (4,), "": (1,), "pixelshuffledirect": (2, 3, 4, 8)}.get(self.upsampler, (2, 3, 4, 8))
        require(scale in known, f"upscale is {scale}, expected {', '.join(map(str, known))} of {self.upsampler!r}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. upsampler: null, "" and "none" are one."""
        sides = {"image_size": pair(values, "image_size", 64), "patch_size": pair(values, "patch_size", 1)}
        given = {**values, **sides}
        if given.get("num_channels_out") is None:
            given["num_channels_out"] = given.get("num_channels", 3)
        if "upsampler" in given and given["upsampler"] in (None, "none"):
            given["upsampler"] = ""
        return super().from_dict(given)


class Group(Module):
    """Layers, a filter and a residual around them."""

    def __init__(self, config: Config, depth: int, heads: int) -> None:
        super().__init__()
        width = config.embed_dim
        window = min(config.image_size[0], config.window_size)
        shifts = config.image_size[0] > window
        own = replace(config, window_size=window)
        self.layers = ModuleList(PostNormWindowLayer(own, width, heads, shifts and i % 2 > 0) for i in range(depth))
        self.conv: Module = Conv2d(width, width, 3, padding=1)
        if config.resi_connection == "3conv":
            inner, slope = width // 4, 0.2
            self.conv = Sequential(
                Conv2d(width, inner, 3, padding=1), LeakyReLU(slope), Conv2d(inner, inner, 1), LeakyReLU(slope),
                Conv2d(inner, width, 3, padding=1),
            )  # fmt: skip
        self.patch_embed = PatchEmbeddings(width, width, config.patch_size)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) → (B, H * W, D)."""
        y = x
        for layer in self.layers:
            y = layer(y, size)
        return self.patch_embed(self.conv(as_map(y, *size))) + x


class Body(Module):
    """The features of a picture: a filter, the groups, and a filter with a residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.embed_dim
        self.first_convolution = Conv2d(config.num_channels, width, 3, padding=1)
        self.embeddings = Module()
        self.embeddings.patch_embeddings = PatchEmbeddings(width, width, config.patch_size)
        self.embeddings.patch_embeddings.layernorm = LayerNorm(width)
        self.encoder = Module()
        self.encoder.stages = ModuleList(
            Group(config, depth, heads) for depth, heads in zip(config.depths, config.num_heads, strict=True)
        )
        self.layernorm = LayerNorm(width, config.layer_norm_eps)
        self.conv_after_body = Conv2d(width, width, 3, padding=1)

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels (B, 3, H, W), H and W in whole windows → (B, D, H, W)."""
        first = self.first_convolution(pixels)
        size = (first.shape[2], first.shape[3])
        patches = self.embeddings.patch_embeddings
        x = patches.layernorm(patches(first))  # (B, H * W, D)
        for group in self.encoder.stages:
            x = group(x, size)
        return self.conv_after_body(as_map(self.layernorm(x), *size)) + first


class Steps(Module):
    """Larger maps: each step doubles the sides, or one makes them three times as long."""

    def __init__(self, scale: int) -> None:
        super().__init__()
        self.steps = [("convolution", 3)] if scale == 3 else [
            (f"convolution_{i}", 2) for i in range(scale.bit_length() - 1)
        ]  # fmt: skip
        for name, step in self.steps:
            self.add_module(name, Conv2d(FEATURES, step * step * FEATURES, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, F, H, W) → (B, F, scale * H, scale * W)."""
        for name, step in self.steps:
            x = ops.pixel_shuffle(self._modules[name](x), step)
        return x


class Shuffled(Module):
    """Pixels of features that steps make larger. `helped`: a first result of the small size is between, and the picture
    itself, which bicubic interpolation has made larger, is added.
    """

    def __init__(self, config: Config, helped: bool) -> None:
        super().__init__()
        self.conv_before_upsample = Conv2d(config.embed_dim, FEATURES, 3, padding=1)
        self.helped = helped
        if helped:
            self.conv_bicubic = Conv2d(config.num_channels, FEATURES, 3, padding=1)
            self.conv_aux = Conv2d(FEATURES, config.num_channels, 3, padding=1)
            self.conv_after_aux = Sequential(Conv2d(config.num_channels, FEATURES, 3, padding=1), LeakyReLU())
        self.upsample = Steps(config.upscale)
        self.final_convolution = Conv2d(FEATURES, config.num_channels_out, 3, padding=1)

    def forward(self, x: Tensor, larger: Tensor | None) -> Tensor:
        """x (B, D, H, W), larger (B, 3, h, w) → (B, 3, scale * H, scale * W); with `larger` (B, 3, h, w)."""
        x = ops.leaky_relu(self.conv_before_upsample(x))
        if larger is None:
            return self.final_convolution(self.upsample(x))
        x = self.upsample(self.conv_after_aux(self.conv_aux(x)))
        high, wide = larger.shape[2:]
        return self.final_convolution(x[:, :, :high, :wide] + self.conv_bicubic(larger))


class Direct(Module):
    """Pixels by one filter, of light models."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.scale = config.upscale
        self.conv = Conv2d(config.embed_dim, config.upscale**2 * config.num_channels_out, 3, padding=1)

    def forward(self, x: Tensor, larger: Tensor | None) -> Tensor:
        """x (B, D, H, W) → (B, 3, scale * H, scale * W)."""
        return ops.pixel_shuffle(self.conv(x), self.scale)


class Nearest(Module):
    """Pixels of features that are repeated and filtered twice, of models for real pictures."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.conv_before_upsample = Conv2d(config.embed_dim, FEATURES, 3, padding=1)
        self.conv_up1, self.conv_up2, self.conv_hr = (Conv2d(FEATURES, FEATURES, 3, padding=1) for _ in range(3))
        self.final_convolution = Conv2d(FEATURES, config.num_channels_out, 3, padding=1)

    def forward(self, x: Tensor, larger: Tensor | None) -> Tensor:
        """x (B, D, H, W) → (B, 3, 4 * H, 4 * W)."""
        x = ops.leaky_relu(self.conv_before_upsample(x))
        for step in (self.conv_up1, self.conv_up2):
            x = ops.leaky_relu(step(ops.interpolate(x, scale_factor=2, mode="nearest")), 0.2)
        return self.final_convolution(ops.leaky_relu(self.conv_hr(x), 0.2))


class Swin2SR(ImageModel):
    """Pictures to larger ones."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.swin2sr = Body(config)
        kind = config.upsampler
        if kind in ("pixelshuffle", "pixelshuffle_aux"):
            self.upsample: Module = Shuffled(config, kind == "pixelshuffle_aux")
        elif kind:
            self.upsample = Nearest(config) if kind == "nearest+conv" else Direct(config)
        else:
            self.final_convolution = Conv2d(config.embed_dim, config.num_channels_out, 3, padding=1)

    @property
    def scale(self) -> int:
        """How many times as long the sides become."""
        return self.config.upscale

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) from 0 to 1 → (B, 3, scale * H, scale * W)."""
        config, scale, window = self.config, self.config.upscale, self.config.window_size
        check_pictures("Swin2SR", pixel_values, config.num_channels)
        high, wide = pixel_values.shape[2:]
        below, right = -high % window, -wide % window
        check_pictures("Swin2SR", pixel_values, config.num_channels, least=1 + max(below, right))
        mean = ops.tensor(MEAN, dtype=pixel_values.dtype, device=pixel_values.device).reshape(1, 3, 1, 1)
        padded = ops.pad(pixel_values, (0, right, 0, below), "reflect") if below or right else pixel_values
        x = self.swin2sr((padded - mean) * config.img_range)  # (B, D, H', W')
        if not config.upsampler:
            x = pixel_values + self.final_convolution(x)[:, :, :high, :wide]
        else:
            larger = None
            if config.upsampler == "pixelshuffle_aux":
                size = high * scale, wide * scale
                larger = ops.interpolate(pixel_values, size=size, mode="bicubic", align_corners=False)
            x = self.upsample(x, larger)
        return (x / config.img_range + mean)[:, :, : high * scale, : wide * scale]


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-to-image": Swin2SR}
