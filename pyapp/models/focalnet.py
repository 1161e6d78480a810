"""FocalNet (Yang et al. 2022, arXiv 2203.11926): stages of patches, each of which is multiplied by what filters of ever
larger fields see around it.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import GELU, Conv2d, LayerNorm, Linear, Module, ModuleList, Sequential
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageHead, ImageModel, check_pictures, mean_of_patches

from .loading.config import require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers, pair

MODEL_TYPES = ("focalnet",)
IMAGE_PROCESSOR = "Bit"  # of files that name none
BASE = "focalnet"  # the encoder's name in files with a head
IGNORED = r"(focalnet\.)?embeddings\.mask_token"  # of the first training
FURTHER = 2  # pixels that each filter's side is longer than that before it


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    patch_size: tuple[int, int]
    embed_dim: int = 96
    use_conv_embed: bool = False
    depths: tuple[int, ...] = (2, 2, 6, 2)
    focal_levels: tuple[int, ...] = (2, 2, 2, 2)
    focal_windows: tuple[int, ...] = (3, 3, 3, 3)
    hidden_act: str = "gelu"
    mlp_ratio: float = 4.0
    use_layerscale: bool = False
    use_post_layernorm: bool = False
    use_post_layernorm_in_modulation: bool = False
    normalize_modulator: bool = False
    layer_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("depths", self.depths, 1 << 10)
        check_numbers("focal_levels", self.focal_levels, 64, count=len(self.depths))
        check_numbers("focal_windows", self.focal_windows, 255, count=len(self.depths))
        require(all(side % 2 for side in self.focal_windows), f"focal_windows is {self.focal_windows}, of even sides")
        require(self.hidden_size <= WIDEST, f"embed_dim {self.embed_dim:,} with {len(self.depths)} stages is too wide")
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "patch_size": pair(values, "patch_size", 4)})

    @property
    def hidden_size(self) -> int:
        """The width of the last stage."""
        return self.embed_dim << len(self.depths) - 1


class Patches(Module):
    """Patches of a picture or a map, with zeros after its end, or a filter over it."""

    def __init__(self, config: Config, before: int, width: int, sides: tuple[int, int], first: bool) -> None:
        super().__init__()
        self.sides = sides
        if config.use_conv_embed:
            self.projection = Conv2d(before, width, *((7, 4, 2) if first else (3, 2, 1)))
        else:
            self.projection = Conv2d(before, width, sides, sides)
        self.norm = None if first else LayerNorm(width, config.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, H', W', width)."""
        below, right = (-side % step for side, step in zip(x.shape[2:], self.sides, strict=True))
        x = ops.pad(x, [0, right, 0, below]) if below or right else x
        x = self.projection(x).permute(0, 2, 3, 1)
        return x if self.norm is None else self.norm(x)


class Modulation(Module):
    """Each place times a projection of what filters see around it, and of the mean of all places."""

    def __init__(self, config: Config, width: int, levels: int, window: int) -> None:
        super().__init__()
        self.levels, self.divisor = levels, levels + 1 if config.normalize_modulator else 1
        self.projection_in = Linear(width, 2 * width + levels + 1)
        self.projection_context = Conv2d(width, width, 1)
        self.projection_out = Linear(width, width)
        sides = [window + FURTHER * level for level in range(levels)]
        self.focal_layers = ModuleList(
            Sequential(Conv2d(width, width, side, padding=side // 2, groups=width, bias=False), GELU())
            for side in sides
        )
        late = config.use_post_layernorm_in_modulation
        self.layernorm = LayerNorm(width, config.layer_norm_eps) if late else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, H, W, D) → (B, H, W, D)."""
        width = x.shape[3]
        whole = self.projection_in(x).permute(0, 3, 1, 2)
        own, around = whole.narrow(1, 0, width), whole.narrow(1, width, width)
        found: Tensor | None = None
        for level, layer in enumerate(self.focal_layers):
            around = layer(around)
            part = around * whole.narrow(1, 2 * width + level, 1)
            found = part if found is None else found + part
        mean = ops.gelu(around.mean((2, 3), keepdim=True)) * whole.narrow(1, 2 * width + self.levels, 1)
        found = mean if found is None else found + mean
        found = found if self.divisor == 1 else found / self.divisor
        x = (own * self.projection_context(found)).permute(0, 2, 3, 1)
        return self.projection_out(x if self.layernorm is None else self.layernorm(x))


class Layer(Module):
    """Modulation and a feed-forward part, each with a norm before or after it, and a residual."""

    def __init__(self, config: Config, width: int, stage: int) -> None:
        super().__init__()
        self.late, epsilon = config.use_post_layernorm, config.layer_norm_eps
        self.norm1, self.norm2 = LayerNorm(width, epsilon), LayerNorm(width, epsilon)
        self.modulation = Modulation(config, width, config.focal_levels[stage], config.focal_windows[stage])
        self.mlp = FeedForward(width, int(width * config.mlp_ratio), config.hidden_act)
        scaled = config.use_layerscale
        self.gamma_1, self.gamma_2 = (new_parameter(ops.ones, width) if scaled else None for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, H, W, D) → (B, H, W, D)."""
        for part, norm, scale in (
            (self.modulation, self.norm1, self.gamma_1), (self.mlp, self.norm2, self.gamma_2),
        ):  # fmt: skip
            y = norm(part(x)) if self.late else part(norm(x))
            x = x + (y if scale is None else y * scale)
        return x


class FocalNet(ImageModel):
    """The encoder, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.embed_dim
        self.embeddings = Module()
        self.embeddings.patch_embeddings = Patches(config, config.num_channels, width, config.patch_size, True)
        self.embeddings.norm = LayerNorm(width, config.layer_norm_eps)
        self.encoder = Module()
        self.encoder.stages = ModuleList()
        for i, depth in enumerate(config.depths):
            stage = Module()
            stage.layers = ModuleList(Layer(config, width, i) for _ in range(depth))
            stage.downsample = None
            if i + 1 < len(config.depths):
                stage.downsample = Patches(config, width, 2 * width, (2, 2), False)
                width *= 2
            self.encoder.stages.append(stage)
        self.layernorm = LayerNorm(width, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, places, D)."""
        check_pictures("FocalNet", pixel_values, self.config.num_channels)
        x = self.embeddings.norm(self.embeddings.patch_embeddings(pixel_values))
        for stage in self.encoder.stages:
            for layer in stage.layers:
                x = layer(x)
            if stage.downsample is not None:
                x = stage.downsample(x.permute(0, 3, 1, 2))
        return self.layernorm(x.flatten(1, 2))


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    return ImageHead(BASE, FocalNet(config), config.hidden_size, len(config.labels), mean_of_patches)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": FocalNet,
    "image-classification": image_classification,
}
