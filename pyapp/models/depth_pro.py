"""Depth Pro (Bochkovskii et al. 2024, arXiv 2410.02073): DINOv2 sees a picture in pieces of several scales and as a
whole, the maps are fused and read as the inverse depth of each pixel, and a third encoder finds the angle of view,
which makes metres of them.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, log2, pi
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Conv2d, ConvTranspose2d, Identity, Linear, Module, ModuleList
from pyapp.nn.vision.fused_maps import ResidualFilters
from pyapp.nn.vision.scaled_vision import ScaledEncoder
from pyapp.nn.vision.vision import ImageModel, as_map, check_pictures

from .loading.config import require
from .loading.pictures_config import SIDE_LIMIT, WIDEST, PictureConfig, ScaledConfig, check_numbers

MODEL_TYPES = ("depth_pro",)
IMAGE_PROCESSOR = "DepthPro"  # of files that name none
BASE = ""
IGNORED = r"(.*\.)?embeddings\.mask_token"  # of the first training
PARTS = ("image_model_config", "patch_model_config", "fov_model_config")
INNER = 32  # channels before the depth
TOGETHER = 5  # pieces that are computed at once
INVERSE = 1e-4, 1e4  # the least and the largest inverse depth, in 1 / metre


@dataclass(frozen=True, kw_only=True)
class Encoder(ScaledConfig):
    """An encoder that the model sees by."""

    model_type = "dinov2"


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    image_model: Encoder
    patch_model: Encoder
    fov_model: Encoder
    fusion_hidden_size: int = 256
    patch_size: int = 384  # pixels of a piece's side
    intermediate_hook_ids: tuple[int, ...] = (11, 5)
    intermediate_feature_dims: tuple[int, ...] = (256, 256)
    scaled_images_ratios: tuple[float, ...] = (0.25, 0.5, 1)
    scaled_images_overlap_ratios: tuple[float, ...] = (0.0, 0.5, 0.25)
    scaled_images_feature_dims: tuple[int, ...] = (1024, 1024, 512)
    merge_padding_value: int = 3
    use_batch_norm_in_fusion_residual: bool = False
    use_bias_in_fusion_residual: bool | None = True
    use_fov_model: bool = False
    num_fov_head_layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.patch_size <= SIDE_LIMIT, f"patch_size is {self.patch_size:,}")
        ratios, count = self.scaled_images_ratios, len(self.scaled_images_ratios)
        plausible = 1 <= count <= 8 and all(type(n) in (int, float) and 1 / 64 <= n <= 1 for n in ratios)
        require(
            plausible and list(ratios) == sorted(ratios), f"scaled_images_ratios is {ratios!r:.60}, expected rising"
        )
        overlaps = self.scaled_images_overlap_ratios
        plausible = len(overlaps) == count and all(type(n) in (int, float) and 0 <= n <= 0.9 for n in overlaps)
        require(plausible, f"scaled_images_overlap_ratios is {overlaps!r:.60}, expected {count} numbers up to 0.9")
        require(self.patch_size * (1 - max(overlaps)) >= 1, f"patch_size is {self.patch_size}")
        check_numbers("scaled_images_feature_dims", self.scaled_images_feature_dims, WIDEST, count=count)
        hooks, layers = self.intermediate_hook_ids, self.patch_model.num_hidden_layers
        check_numbers("intermediate_hook_ids", hooks, layers - 1, least=0)
        check_numbers("intermediate_feature_dims", self.intermediate_feature_dims, WIDEST, count=len(hooks))
        check_numbers("fusion_hidden_size", [self.fusion_hidden_size], WIDEST, least=2)
        check_numbers("num_fov_head_layers", [self.num_fov_head_layers], 8, least=0)
        require(self.fusion_hidden_size >> self.num_fov_head_layers > 0, "num_fov_head_layers is too large")
        require(self.merge_padding_value <= 64, f"merge_padding_value is {self.merge_padding_value:,}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other encoders than DINOv2."""
        found = dict(values)
        for name in PARTS:
            own = values.get(name)
            own = {} if own is None else own
            require(isinstance(own, dict), f"{name} is {own!r:.60}, expected the configuration of an encoder")
            kind = own.get("model_type", "dinov2")
            require(kind == "dinov2", f"the encoder {kind!r:.60} is not known", "Known: dinov2")
            size = values.get("patch_size", cls.patch_size)
            found[name.removesuffix("_config")] = Encoder.from_dict({**own, "image_size": size})
        return super().from_dict(found)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        for name in PARTS:
            del own[name.removesuffix("_config")]
            own[name] = getattr(self, name.removesuffix("_config")).to_dict()
        return own

    @property
    def metric(self) -> bool:
        """Whether depths are metres, and not nearness in a unit of each picture."""
        return self.use_fov_model


def as_grid(x: Tensor) -> Tensor:
    """Hidden states (B, 1 + side * side, D) → (B, D, side, side)."""
    side = int((x.shape[1] - 1) ** 0.5)
    return as_map(x.narrow(1, x.shape[1] - side * side, side * side), side, side)


def pieces_of(x: Tensor, size: int, overlap: float) -> Tensor:
    """The pieces (N * B, C, size, size) of pictures (B, C, H, W), row by row, each of all pictures."""
    height, width = x.shape[2:]
    step = int(size * (1 - overlap))
    places = [(i, j) for i in range(0, height - size + 1, step) for j in range(0, width - size + 1, step)]
    return ops.cat([x[:, :, i : i + size, j : j + size] for i, j in places])


def merged(x: Tensor, batch: int, padding: int) -> Tensor:
    """Maps of pieces (N * B, D, h, w) → (B, D, H, W), without `padding` places where pieces overlap."""
    count = x.shape[0] // batch
    side, size = int(count**0.5), x.shape[2]
    padding = 0 if count < 4 else min(size // 4, padding)
    if side == 1:
        return x
    rows = []
    for i in range(side):
        row = []
        for j in range(side):
            own = x.narrow(0, batch * (i * side + j), batch)
            low, high, left, right = (0 if edge else padding for edge in (i == 0, i == side - 1, j == 0, j == side - 1))
            row.append(own[:, :, low : size - high, left : size - right])
        rows.append(ops.cat(row, 3))
    return ops.cat(rows, 2)


def resized(x: Tensor, size: Sequence[int]) -> Tensor:
    """x (B, C, H, W) → (B, C, *size)."""
    found: Tensor = ops.interpolate(x, size=tuple(size), mode="bilinear", align_corners=False)
    return found


def least_map(config: Config, height: int, width: int) -> tuple[int, int]:
    """The rows and columns of the coarsest map of a picture."""
    out = config.image_model.grid[0]
    halvings = int(log2(width / out))
    return height // 2**halvings, width // 2**halvings


class PatchEncoder(Module):
    """The maps of a picture's pieces."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = ScaledEncoder(config.patch_model)

    def forward(self, pixel_values: Tensor, base: tuple[int, int]) -> list[Tensor]:
        """pixel_values (B, C, H, W) → of each scale a map (B, D, rows, columns), twice as large as the one before,
        then those of the layers between, as large as the last.
        """
        config, batch = self.config, pixel_values.shape[0]
        ratios, scales = config.scaled_images_ratios, []
        for ratio, overlap in zip(ratios, config.scaled_images_overlap_ratios, strict=True):
            x = pixel_values
            if ratio != 1:
                x = ops.interpolate(x, scale_factor=ratio, mode="bilinear", align_corners=False)
            scales.append(pieces_of(x, config.patch_size, overlap))
        pieces = ops.cat(scales[::-1])
        last, between = [], [[] for _ in config.intermediate_hook_ids]  # type: list[Tensor], list[list[Tensor]]
        for first in range(0, pieces.shape[0], TOGETHER):
            states = self.model.states(pieces.narrow(0, first, min(TOGETHER, pieces.shape[0] - first)))
            last.append(self.model.layernorm(states[-1]))
            for found, i in zip(between, config.intermediate_hook_ids, strict=True):
                found.append(states[i + 1])
        all_last, at, found = ops.cat(last), pieces.shape[0], []
        for i, (ratio, own) in enumerate(zip(ratios, scales, strict=True)):
            at -= own.shape[0]
            map_ = merged(as_grid(all_last.narrow(0, at, own.shape[0])), batch, int(config.merge_padding_value / ratio))
            found.append(resized(map_, [side << i for side in base]))
        largest, padding = [side << (len(ratios) - 1) for side in base], int(config.merge_padding_value / ratios[-1])
        for layer in between:
            own = ops.cat(layer).narrow(0, 0, scales[-1].shape[0])
            found.append(resized(merged(as_grid(own), batch, padding), largest))
        return found


class ImageEncoder(Module):
    """The map of a whole picture."""

    def __init__(self, config: Encoder, neck: int | None = None) -> None:
        super().__init__()
        self.side = config.image_size
        self.model = ScaledEncoder(config)
        self.neck = None if neck is None else Linear(config.hidden_size, neck)

    def forward(self, pixel_values: Tensor, base: tuple[int, int]) -> Tensor:
        """pixel_values (B, C, H, W) → (B, D, *base)."""
        x = self.model(resized(pixel_values, self.side))
        return resized(as_grid(x if self.neck is None else self.neck(x)), base)


class Upsample(Module):
    """A projection, if there is one, and layers that each double a map's sides."""

    def __init__(self, before: int, between: int, width: int, count: int, projected: bool = True) -> None:
        super().__init__()
        self.layers = ModuleList([Conv2d(before, between, 1, bias=False)] if projected else [])
        for i in range(count):
            self.layers.append(ConvTranspose2d(between if i == 0 else width, width, 2, stride=2, bias=not projected))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, width, H << count, W << count)."""
        for layer in self.layers:
            x = layer(x)
        return x


class Neck(Module):
    """Maps of the encoders → those that are fused, from the coarsest on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        widths, width, inner = (
            config.scaled_images_feature_dims,
            config.fusion_hidden_size,
            config.patch_model.hidden_size,
        )
        whole = config.image_model.hidden_size
        self.feature_upsample = Module()
        self.feature_upsample.image_block = Upsample(whole, whole, widths[0], 1, projected=False)
        self.feature_upsample.scaled_images = ModuleList(Upsample(inner, own, own, 1) for own in widths)
        self.feature_upsample.intermediate = ModuleList(
            Upsample(inner, own if i else width, own, 2 + i) for i, own in enumerate(config.intermediate_feature_dims)
        )
        self.fuse_image_with_low_res = Conv2d(2 * widths[0], widths[0], 1)
        self.feature_projection = Module()
        every = [*widths, *config.intermediate_feature_dims]
        self.feature_projection.projections = ModuleList(
            Identity() if i == len(every) - 1 and own == width else Conv2d(own, width, 3, padding=1, bias=False)
            for i, own in enumerate(every)
        )

    def forward(self, whole: Tensor, maps: list[Tensor]) -> list[Tensor]:
        """The picture's map and those of its pieces (B, D, rows, columns) → maps (B, C, H, W)."""
        upsample = self.feature_upsample
        layers = [*upsample.scaled_images, *upsample.intermediate]
        found = [layer(x) for layer, x in zip(layers, maps, strict=True)]
        found[0] = self.fuse_image_with_low_res(ops.cat([found[0], upsample.image_block(whole)], 1))
        return [layer(x) for layer, x in zip(self.feature_projection.projections, found, strict=True)]


class Fusion(Module):
    """A finer map joins the result of the coarser ones, which then, unless it is the last, grows."""

    def __init__(self, config: Config, grows: bool) -> None:
        super().__init__()
        width, normed = config.fusion_hidden_size, config.use_batch_norm_in_fusion_residual
        bias = config.use_bias_in_fusion_residual
        self.residual_layer1, self.residual_layer2 = (
            ResidualFilters(width, normed, not normed if bias is None else bias) for _ in range(2)
        )
        self.deconv = ConvTranspose2d(width, width, 2, stride=2, bias=False) if grows else None
        self.projection = Conv2d(width, width, 1)

    def forward(self, x: Tensor, before: Tensor | None) -> Tensor:
        """x (B, C, H, W), before of the same shape → (B, C, 2 H, 2 W), or (B, C, H, W)."""
        x = x if before is None else before + self.residual_layer1(x)
        x = self.residual_layer2(x)
        return self.projection(x if self.deconv is None else self.deconv(x))


class AngleOfView(Module):
    """The angle that the width of a picture spans."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, count = config.fusion_hidden_size, config.num_fov_head_layers
        self.side = config.image_model.grid[0]
        self.fov_encoder = ImageEncoder(config.fov_model, width // 2)
        self.conv = Conv2d(width, width // 2, 3, stride=2, padding=1)
        self.head = Module()
        self.head.layers = ModuleList()
        for i in range(count):
            before, after = (ceil(width / 2 ** (i + n)) for n in (1, 2))
            self.head.layers.append(Conv2d(before, after, 3, stride=2, padding=1))
            self.head.layers.append(Module())  # an activation
        last = int((self.side - 1) / 2**count + 1)
        self.head.layers.append(Conv2d(ceil(width / 2 ** (count + 1)), 1, last))

    def forward(self, pixel_values: Tensor, features: Tensor, base: tuple[int, int]) -> Tensor:
        """pixel_values (B, C, H, W), the coarsest map that is fused (B, D, rows, columns) → degrees (B,)."""
        x = self.fov_encoder(pixel_values, base) + ops.relu(self.conv(features))
        x = resized(x, (self.side, self.side))
        layers = list(self.head.layers)
        for layer in layers[:-1:2]:
            x = ops.relu(layer(x))
        return layers[-1](x).reshape(-1)


class DepthPro(ImageModel):
    """The inverse depth of square pictures, which `distances` makes metres of."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.depth_pro = Module()
        self.depth_pro.encoder = Module()
        self.depth_pro.encoder.patch_encoder = PatchEncoder(config)
        self.depth_pro.encoder.image_encoder = ImageEncoder(config.image_model)
        self.depth_pro.neck = Neck(config)
        count = len(config.intermediate_hook_ids) + len(config.scaled_images_ratios)
        self.fusion_stage = Module()
        self.fusion_stage.intermediate = ModuleList(Fusion(config, True) for _ in range(count - 1))
        self.fusion_stage.final = Fusion(config, False)
        width = config.fusion_hidden_size
        self.head = Module()
        self.head.layers = ModuleList([
            Conv2d(width, width // 2, 3, padding=1), ConvTranspose2d(width // 2, width // 2, 2, stride=2),
            Conv2d(width // 2, INNER, 3, padding=1), Module(), Conv2d(INNER, 1, 1),
        ])  # fmt: skip
        self.fov_model = AngleOfView(config) if config.use_fov_model else None

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, H) → (B, H', W'): inverse depths in 1 / metre, or in a unit of each picture."""
        config = self.config
        check_pictures("Depth Pro", pixel_values, config.image_model.num_channels)
        height, width = pixel_values.shape[2:]
        least = ceil(config.patch_size / config.scaled_images_ratios[0])
        if height != width or height < least:
            raise InputError(f"Depth Pro: takes squares from {least} pixels a side, not {describe(pixel_values)}")
        base = least_map(config, height, width)
        encoder = self.depth_pro.encoder
        maps = encoder.patch_encoder(pixel_values, base)
        features = self.depth_pro.neck(encoder.image_encoder(pixel_values, base), maps)
        x: Tensor | None = None
        for own, layer in zip(features, [*self.fusion_stage.intermediate, self.fusion_stage.final], strict=True):
            x = layer(own, x)
        first, double, second, _, last = self.head.layers
        x = ops.relu(last(ops.relu(second(double(first(x)))))).squeeze(1)  # (B, H', W')
        if self.fov_model is None:
            return x
        angle = self.fov_model(pixel_values, features[0].detach(), base).reshape(-1, 1, 1) * (pi / 360)
        return x * (2 * angle.sin() / angle.cos())

    def distances(self, found: Tensor) -> Tensor:
        """Inverse depths, in the size that is asked for → metres; nearness stays."""
        return 1 / found.clamp(*INVERSE) if self.config.metric else found


TASKS: Mapping[str, Callable[[Config], Module]] = {"depth-estimation": DepthPro}
