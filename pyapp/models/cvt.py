"""CvT (Wu et al. 2021, arXiv 2103.15808): stages of patches that overlap, with filters before each attention, whose
keys and values are of a coarser map, and a token in the last stage.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import BatchNorm2d, Conv2d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.vision.vision import ImageModel, as_map, as_sequence, check_pictures, token, with_tokens

from .loading.config import require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers

MODEL_TYPES = ("cvt",)
IMAGE_PROCESSOR = "ConvNext"  # of files that name none
BASE = "cvt"  # the encoder's name in files with a head
EPSILON = 1e-5  # of all norms; the layer_norm_eps of files says nothing
FILTERED = "dw_bn"  # the method of projection that files of Hugging Face's can have


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json: a number for each stage."""

    model_type = MODEL_TYPES[0]

    patch_sizes: tuple[int, ...] = (7, 3, 3)
    patch_stride: tuple[int, ...] = (4, 2, 2)
    patch_padding: tuple[int, ...] = (2, 1, 1)
    embed_dim: tuple[int, ...] = (64, 192, 384)
    num_heads: tuple[int, ...] = (1, 3, 6)
    depth: tuple[int, ...] = (1, 2, 10)
    mlp_ratio: tuple[float, ...] = (4.0, 4.0, 4.0)
    qkv_bias: tuple[bool, ...] = (True, True, True)
    cls_token: tuple[bool, ...] = (False, False, True)
    qkv_projection_method: tuple[str, ...] = (FILTERED, FILTERED, FILTERED)
    kernel_qkv: tuple[int, ...] = (3, 3, 3)
    padding_kv: tuple[int, ...] = (1, 1, 1)
    stride_kv: tuple[int, ...] = (2, 2, 2)
    padding_q: tuple[int, ...] = (1, 1, 1)
    stride_q: tuple[int, ...] = (1, 1, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        stages = len(self.depth)
        check_numbers("depth", self.depth, 1 << 10)
        for name, most, least in (
            ("patch_sizes", 64, 1), ("patch_stride", 64, 1), ("patch_padding", 64, 0), ("embed_dim", WIDEST, 1),
            ("num_heads", 1 << 12, 1), ("kernel_qkv", 63, 1), ("padding_kv", 64, 0), ("stride_kv", 64, 1),
            ("padding_q", 64, 0), ("stride_q", 64, 1),
        ):  # fmt: skip
            check_numbers(name, getattr(self, name), most, least=least, count=stages)
        for name in ("mlp_ratio", "qkv_bias", "cls_token", "qkv_projection_method"):
            given = getattr(self, name)
            require(len(given) == stages, f"{name} has {len(given)} stages, and depth {stages}")
        require(bool(self.cls_token[-1]), "the last stage has no cls_token, which scores are read at")
        for i, (width, heads) in enumerate(zip(self.embed_dim, self.num_heads, strict=True)):
            require(width % heads == 0, f"{heads} num_heads do not divide the embed_dim {width} of stage {i + 1}")
            require(0 < self.mlp_ratio[i] <= 64, f"mlp_ratio is {self.mlp_ratio[i]} in stage {i + 1}")
            require(
                not self.cls_token[i] or width == self.embed_dim[-1],
                f"stage {i + 1} has a cls_token of {self.embed_dim[-1]} numbers, and an embed_dim of {width}",
            )
            require(
                self.qkv_projection_method[i] == FILTERED,
                f"qkv_projection_method is {self.qkv_projection_method[i]!r:.60}, expected {FILTERED!r}",
            )
            require(
                self.stride_q[i] == 1 and self.kernel_qkv[i] == 2 * self.padding_q[i] + 1,
                f"kernel_qkv {self.kernel_qkv[i]}, padding_q {self.padding_q[i]} and stride_q {self.stride_q[i]} of "
                f"stage {i + 1} change the size of the map",
            )


class Patches(Module):
    """Patches that overlap, and their norm."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        before, width = (config.num_channels, *config.embed_dim)[stage], config.embed_dim[stage]
        self.convolution_embeddings = Module()
        self.convolution_embeddings.projection = Conv2d(
            before, width, config.patch_sizes[stage], config.patch_stride[stage], config.patch_padding[stage]
        )
        self.convolution_embeddings.normalization = LayerNorm(width, EPSILON)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """x (B, C, H, W) → (B, H' * W', D), and (H', W')."""
        x = self.convolution_embeddings.projection(x)
        size = int(x.shape[2]), int(x.shape[3])
        return self.convolution_embeddings.normalization(as_sequence(x)), size


class Projection(Module):
    """A filter of each channel and its norm."""

    def __init__(self, width: int, kernel: int, stride: int, padding: int) -> None:
        super().__init__()
        self.convolution_projection = Module()
        self.convolution_projection.convolution = Conv2d(
            width, width, kernel, stride, padding, groups=width, bias=False
        )
        self.convolution_projection.normalization = BatchNorm2d(width, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, H' * W', D)."""
        part = self.convolution_projection
        return as_sequence(part.normalization(part.convolution(x)))


class Attention(Module):
    """Attention of each place, and of the token, to the token and the places of a coarser map."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        width, kernel, bias = config.embed_dim[stage], config.kernel_qkv[stage], config.qkv_bias[stage]
        self.heads, self.with_token = config.num_heads[stage], config.cls_token[stage]
        self.scale = width**-0.5  # the model's own: of the whole width, not of a head's
        for name in ("query", "key", "value"):
            stride, padding = (
                (config.stride_q[stage], config.padding_q[stage])
                if name == "query"
                else (config.stride_kv[stage], config.padding_kv[stage])
            )
            self.add_module(f"convolution_projection_{name}", Projection(width, kernel, stride, padding))
            self.add_module(f"projection_{name}", Linear(width, width, bias))

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        first = x.narrow(1, 0, 1) if self.with_token else None
        places = as_map(x if first is None else x.narrow(1, 1, x.shape[1] - 1), *size)
        found: list[Tensor] = []
        for name in ("query", "key", "value"):
            y = self._modules[f"convolution_projection_{name}"](places)
            y = self._modules[f"projection_{name}"](y if first is None else with_tokens(y, first))
            found.append(y.reshape(*y.shape[:2], self.heads, -1))
        q, k, v = found
        return attend(q, k, v, None, self.scale)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        width = config.embed_dim[stage]
        inner = int(width * config.mlp_ratio[stage])
        self.layernorm_before, self.layernorm_after = LayerNorm(width, EPSILON), LayerNorm(width, EPSILON)
        self.attention = Module()
        self.attention.attention = Attention(config, stage)
        self.attention.output = Module()
        self.attention.output.dense = ResidualLinear(width, width)
        self.intermediate, self.output = Module(), Module()
        self.intermediate.dense, self.output.dense = Linear(width, inner), ResidualLinear(inner, width)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention.output.dense(self.attention.attention(self.layernorm_before(x), size), x)
        return self.output.dense(self.intermediate.dense(self.layernorm_after(x)).gelu(), x)


class Stage(Module):
    """Patches and their layers."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        self.cls_token = token(config.embed_dim[-1]) if config.cls_token[stage] else None
        self.embedding = Patches(config, stage)
        self.layers = ModuleList(Layer(config, stage) for _ in range(config.depth[stage]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """x (B, C, H, W) → the map (B, D, H', W'), and the token (B, 1, D) of a stage that has one."""
        x, size = self.embedding(x)
        x = x if self.cls_token is None else with_tokens(x, self.cls_token)
        for layer in self.layers:
            x = layer(x, size)
        if self.cls_token is None:
            return as_map(x, *size), None
        return as_map(x.narrow(1, 1, x.shape[1] - 1), *size), x.narrow(1, 0, 1)


class CvT(ImageModel):
    """The encoder, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = Module()
        self.encoder.stages = ModuleList(Stage(config, i) for i in range(len(config.depth)))

    def seen(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        """pixel_values (B, C, H, W) → features of places (B, D, H', W'), and the token (B, 1, D)."""
        least = self.config.patch_sizes[0] - 2 * self.config.patch_padding[0]
        check_pictures("CvT", pixel_values, self.config.num_channels, least=max(1, least))
        x, first = pixel_values, None
        for stage in self.encoder.stages:
            x, first = stage(x)
        assert first is not None  # the configuration asks for it
        return x, first

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features of places (B, D, H', W')."""
        return self.seen(pixel_values)[0]


class CvTHead(ImageModel):
    """Scores of the labels of a picture, read at the token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.cvt = CvT(config)
        width = config.embed_dim[-1]
        self.layernorm = LayerNorm(width, EPSILON)
        self.classifier = Linear(width, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        return self.classifier(self.layernorm(self.cvt.seen(pixel_values)[1])[:, 0])


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": CvT,
    "image-classification": CvTHead,
}
