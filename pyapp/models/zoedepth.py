"""ZoeDepth (Bhat et al. 2023, arXiv 2302.12288): BEiT's states become maps that are fused (DPT, Ranftl et al. 2021,
arXiv 2103.13413), and a head finds, at each pixel, the centres of bins of depth and how probable each is: their mean is
the depth in metres. A model of several heads chooses one for each picture.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import Conv2d, LayerNorm, Linear, Module, ModuleDict, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.vision.beit import BeitEmbeddings, BeitEncoder
from pyapp.nn.vision.fused_maps import ReadoutNeck
from pyapp.nn.vision.vision import ImageModel, check_pictures

from .loading.config import require
from .loading.pictures_config import (
    WIDEST,
    BeitConfig,
    PictureConfig,
    backbone_of,
    check_factors,
    check_numbers,
    from_start,
)

MODEL_TYPES = ("zoedepth",)
IMAGE_PROCESSOR = "ZoeDepth"  # of files that name none
BASE = ""
IGNORED = r"backbone\.embeddings\.mask_token|.*relative_position_index|.*\.k_(idx|minus_1)"  # computed, or unread
STRENGTH = 300  # how much a centre moves less to a far attractor
MAPS = 4  # of which the bins are read
ATTRACTORS = 16  # of a head of several
DEEPEST = 64
BOTTLENECK, SEEDS, PROJECTED = (2, 4), 256, 128  # of one head, and of several


@dataclass(frozen=True, kw_only=True)
class Backbone(BeitConfig):
    """The encoder that the model sees by."""

    model_type = "beit"
    image = 384


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    backbone: Backbone
    out_indices: tuple[int, ...]  # after how many layers of the backbone its states are read
    hidden_act: str = "gelu"
    readout_type: str = "project"
    reassemble_factors: tuple[float, ...] = (4, 2, 1, 0.5)
    neck_hidden_sizes: tuple[int, ...] = (96, 192, 384, 768)
    fusion_hidden_size: int = 256
    head_in_index: int = 0
    use_batch_norm_in_fusion_residual: bool = False
    use_bias_in_fusion_residual: bool | None = None
    num_relative_features: int = 32
    add_projection: bool = False
    bottleneck_features: int = 256
    num_attractors: tuple[int, ...] = (16, 8, 4, 1)
    bin_embedding_dim: int = 128
    attractor_kind: str = "mean"
    min_temp: float = 0.0212
    max_temp: float = 50.0
    bin_centers_type: str = "softplus"
    bin_configurations: tuple[dict[str, Any], ...] = ()
    num_patch_transformer_layers: int | None = None
    patch_transformer_hidden_size: int | None = None
    patch_transformer_intermediate_size: int | None = None
    patch_transformer_num_attention_heads: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("out_indices", self.out_indices, self.backbone.num_hidden_layers, least=0, count=MAPS)
        check_numbers("neck_hidden_sizes", self.neck_hidden_sizes, WIDEST, count=MAPS)
        check_factors(self.reassemble_factors, MAPS)
        check_numbers("num_attractors", self.num_attractors, 256, count=MAPS)
        for name in ("fusion_hidden_size", "num_relative_features", "bottleneck_features", "bin_embedding_dim"):
            check_numbers(name, [getattr(self, name)], WIDEST, least=2)
        width = self.bottleneck_features
        require(width == self.fusion_hidden_size, f"bottleneck_features is {width}, not that of fusion_hidden_size")
        require(0 <= self.head_in_index < MAPS, f"head_in_index is {self.head_in_index}, of {MAPS} maps")
        require(self.readout_type == "project", f"readout_type {self.readout_type!r:.60} is not supported")
        require(not self.add_projection, "add_projection is not supported")
        for name, known in (("attractor_kind", ("mean", "sum")), ("bin_centers_type", ("softplus", "normed"))):
            given = getattr(self, name)
            require(given in known, f"{name} is {given!r:.60}, expected {' or '.join(known)}")
        require(0 < self.min_temp <= self.max_temp, f"the temperatures are {self.min_temp} to {self.max_temp}")
        bins = self.bin_configurations
        require(1 <= len(bins) <= 8, f"there are {len(bins)} bin_configurations, expected 1 to 8")
        names = [own.get("name") if isinstance(own, dict) else None for own in bins]
        for own, given_name in zip(bins, names, strict=True):
            numbers = [own.get(key) if isinstance(own, dict) else None for key in ("n_bins", "min_depth", "max_depth")]
            count, least, most = numbers
            plausible = type(count) is int and 2 <= count <= 1024 and all(type(n) in (int, float) for n in numbers)
            require(plausible and 0 < least < most < 1e6, f"bin_configurations has {own!r:.80}")  # type: ignore[operator]
            named = isinstance(given_name, str) and given_name.isidentifier() and names.count(given_name) == 1
            require(len(bins) == 1 or named, f"the bins have the name {given_name!r:.60}")
        if len(bins) > 1:
            require(len(bins) == 2, f"a model of {len(bins)} heads is not supported")
            layers = self.num_patch_transformer_layers
            require(layers in range(4, DEEPEST + 1), f"num_patch_transformer_layers is {layers}, expected 4 or more")
            inside, heads = self.patch_transformer_hidden_size, self.patch_transformer_num_attention_heads
            require(inside == PROJECTED, f"patch_transformer_hidden_size is {inside}, expected {PROJECTED}")
            require(heads is not None and heads > 0 and PROJECTED % heads == 0,
                    f"patch_transformer_num_attention_heads is {heads}")  # fmt: skip
            inner = self.patch_transformer_intermediate_size
            require(inner is not None and inner <= WIDEST, f"patch_transformer_intermediate_size is {inner}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones than BEiT."""
        own, _ = backbone_of(values, "beit")
        backbone = Backbone.from_dict(own)
        layers, named = backbone.num_hidden_layers, own.get("out_features")
        stages = {"stem": 0} | {f"stage{i}": i for i in range(1, layers + 1)}
        if isinstance(named, list):
            require(all(isinstance(name, str) and name in stages for name in named), f"out_features is {named!r:.60}")
            given: Any = [stages[name] for name in named]
        else:
            given = own.get("out_indices")
            require(isinstance(given, list | tuple), f"out_indices is {given!r:.60}, expected a list")
        found = {**values, "backbone": backbone, "out_indices": tuple(from_start(i, layers + 1) for i in given)}
        bins = values.get("bin_configurations") or [{"n_bins": 64, "min_depth": 0.001, "max_depth": 10.0}]
        require(isinstance(bins, list | tuple), f"bin_configurations is {bins!r:.60}, expected a list")
        found["bin_configurations"] = tuple(bins)
        found["head_in_index"] = from_start(values.get("head_in_index", -1), MAPS)
        return super().from_dict(found)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        indices = own.pop("out_indices")
        del own["backbone"]
        return own | {"backbone_config": self.backbone.to_dict() | {"out_indices": indices}}

    @property
    def metric(self) -> bool:
        """Whether depths are metres, and not nearness in a unit of each picture."""
        return True


class Encoder(Module):
    """BEiT, whose states are read between its layers."""

    def __init__(self, config: Backbone) -> None:
        super().__init__()
        self.embeddings = BeitEmbeddings(config)
        self.encoder = BeitEncoder(config)

    def forward(self, pixel_values: Tensor, grid: tuple[int, int]) -> list[Tensor]:
        """pixel_values (B, C, H, W) → the states (B, 1 + patches, D) before the layers, and after each."""
        return self.encoder.states(self.embeddings(pixel_values, grid), grid)


def resized(x: Tensor, like: Tensor) -> Tensor:
    """x (B, C, H, W), as large as `like`."""
    found: Tensor = ops.interpolate(x, size=tuple(like.shape[2:]), mode="bilinear", align_corners=True)
    return found


class TwoFilters(Module):
    """Two layers at each pixel, with an activation between them."""

    def __init__(self, before: int, inner: int, width: int) -> None:
        super().__init__()
        self.conv1 = Conv2d(before, inner, 1)
        self.conv2 = Conv2d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, before, H, W) → (B, width, H, W)."""
        return self.conv2(ops.relu(self.conv1(x)))


class Seeds(TwoFilters):
    """The first centres of the bins; `normed`: between the least and the largest depth."""

    def __init__(self, config: Config, inner: int, bins: Mapping[str, Any]) -> None:
        super().__init__(config.bottleneck_features, inner, bins["n_bins"])
        self.normed = config.bin_centers_type == "normed"

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → centres (B, bins, H, W); normed: from 0 to 1."""
        x = super().forward(x)
        if not self.normed:
            return ops.softplus(x)
        widths = ops.relu(x) + 1e-3
        widths = widths / widths.sum(1, True)
        return widths.cumsum(1) - widths / 2


class Attractors(TwoFilters):
    """Points of depth that move the centres of bins to them."""

    def __init__(self, config: Config, count: int) -> None:
        self.normed, self.mean, self.count = config.bin_centers_type == "normed", config.attractor_kind == "mean", count
        super().__init__(config.bin_embedding_dim, config.bin_embedding_dim, count * (2 if self.normed else 1))

    def forward(self, x: Tensor, centres: Tensor | None = None, before: Tensor | None = None) -> Tensor:
        """x (B, E, H, W), the centres (B, bins, h, w) and embeddings (B, E, h, w) of the coarser map → new centres
        (B, bins, H, W).
        """
        assert centres is not None and before is not None
        y = super().forward(x + resized(before, x))
        points = ops.relu(y)[:, ::2] + 1e-3 if self.normed else ops.softplus(y)  # (B, attractors, H, W)
        centres = resized(centres, x)
        moved = centres * 0
        for i in range(self.count):
            apart = points[:, i : i + 1] - centres
            moved = moved + apart / (1 + STRENGTH * apart.square())
        return centres + (moved / self.count if self.mean else moved)


class Mixture(Module):
    """How probable each bin is: a binomial distribution with a temperature."""

    def __init__(self, config: Config, features: int, bins: int, factor: int) -> None:
        super().__init__()
        before = features + config.bin_embedding_dim
        self.mlp = ModuleList([
            Conv2d(before, before // factor, 1), Module(), Conv2d(before // factor, 4, 1)
        ])  # fmt: skip
        self.least, self.most, self.bins = config.min_temp, config.max_temp, bins
        n, k = bins - 1 + 1e-7, np.arange(bins) + 1e-7
        ways = n * log(n) - k * np.log(k) - (n - k) * np.log(n - k + 1e-7)  # by Stirling's formula
        self._ways: Any = ways.astype("float32").reshape(1, -1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, bins, H, W), whose sum is 1."""
        y = ops.softplus(self.mlp[2](ops.gelu(self.mlp[0](x)))) + 1e-4
        chance = y[:, :1] / (y[:, :1] + y[:, 1:2])  # (B, 1, H, W)
        temperature = (self.most - self.least) * (y[:, 2:3] / (y[:, 2:3] + y[:, 3:])) + self.least
        numbers = ops.arange(self.bins, dtype="float32", device=x.device).reshape(1, -1, 1, 1)
        scores = ops.tensor(self._ways, device=x.device) + numbers * chance.clamp(1e-4, 1.0).log()
        scores = scores + (self.bins - 1 - numbers) * (1 - chance).clamp(1e-4, 1.0).log()
        return (scores / temperature).softmax(1)


class MetricHead(Module):
    """The depth of each pixel, by bins. A model of several heads has these parts for each, by its name."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.several = config, len(config.bin_configurations) > 1
        width, embedded, several = config.bottleneck_features, config.bin_embedding_dim, self.several
        seeds, inner = (embedded // 2, embedded // 2) if several else (SEEDS, PROJECTED)
        self.conv2 = Conv2d(width, width, 1)
        self.seed_projector = TwoFilters(width, inner, embedded)
        self.projectors = ModuleList(TwoFilters(config.fusion_hidden_size, inner, embedded) for _ in range(MAPS))
        features = config.num_relative_features + (not several)
        parts = {
            own.get("name", ""): (
                Seeds(config, seeds, own),
                ModuleList(Attractors(config, ATTRACTORS if several else n) for n in config.num_attractors),
                Mixture(config, features, own["n_bins"], BOTTLENECK[several]),
            )
            for own in config.bin_configurations
        }
        if several:
            self.seed_bin_regressors = ModuleDict({name: part[0] for name, part in parts.items()})
            self.attractors: Module = ModuleDict({name: part[1] for name, part in parts.items()})
            self.conditional_log_binomial: Module = ModuleDict({name: part[2] for name, part in parts.items()})
            self.patch_transformer = PatchTransformer(config)
            self.mlp_classifier = Module()
            self.mlp_classifier.linear1 = Linear(PROJECTED, PROJECTED)
            self.mlp_classifier.linear2 = Linear(PROJECTED, len(parts))
        else:
            [(self.seed_bin_regressor, self.attractors, self.conditional_log_binomial)] = parts.values()

    def _chosen(self, x: Tensor) -> tuple[Mapping[str, Any], Any, Any, Any]:
        """The bins and the parts that the pictures of x (B, C, H, W) have."""
        bins = self.config.bin_configurations
        if not self.several:
            return bins[0], self.seed_bin_regressor, self.attractors, self.conditional_log_binomial
        found, mlp = self.patch_transformer(x), self.mlp_classifier
        scores = mlp.linear2(ops.relu(mlp.linear1(found))).sum(0).tolist()
        own = bins[scores.index(max(scores))]
        parts: Any = (self.seed_bin_regressors, self.attractors, self.conditional_log_binomial)
        return own, *(part[own["name"]] for part in parts)

    def forward(self, features: Tensor, coarsest: Tensor, maps: list[Tensor], nearness: Tensor) -> Tensor:
        """features (B, F, H, W), coarsest (B, C, h, w), maps (B, C, H', W') from the coarsest on, nearness (B, 1, H, W)
        → depths (B, H, W).
        """
        x = self.conv2(coarsest)
        own, seeds, attractors, mixture = self._chosen(x)
        centres, before = seeds(x), self.seed_projector(x)
        for project, attract, map_ in zip(self.projectors, attractors, maps, strict=True):
            embedded = project(map_)
            centres, before = attract(embedded, centres, before), embedded
        if self.config.bin_centers_type == "normed":
            least, most = own["min_depth"], own["max_depth"]
            centres = ops.sort(centres * (most - least) + least, dim=1)[0].clamp(least, most)
        if not self.several:
            features = ops.cat([features, resized(nearness, features)], 1)
        chances = mixture(ops.cat([features, resized(before, features)], 1))
        return (chances * resized(centres, chances)).sum(1)


class PatchLayer(Module):
    """Attention and a feed-forward part, each with a residual and a norm after it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.patch_transformer_num_attention_heads or 1
        self.self_attn = Module()
        for name in ("query", "key", "value", "out_proj"):
            self.self_attn.add_module(name, Linear(PROJECTED, PROJECTED))
        inner = config.patch_transformer_intermediate_size or 1
        self.linear1, self.linear2 = Linear(PROJECTED, inner), Linear(inner, PROJECTED)
        self.norm1, self.norm2 = LayerNorm(PROJECTED), LayerNorm(PROJECTED)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        own = self.self_attn
        q, k, v = (part(x).reshape(*x.shape[:2], self.heads, -1) for part in (own.query, own.key, own.value))
        x = self.norm1(x + own.out_proj(attend(q, k, v, None)))
        return self.norm2(x + self.linear2(ops.relu(self.linear1(x))))


class PatchTransformer(Module):
    """What a picture is like as a whole."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embedding_convPxP = Conv2d(config.bottleneck_features, PROJECTED, 1)
        self.transformer_encoder = ModuleList(
            PatchLayer(config) for _ in range(config.num_patch_transformer_layers or 0)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, D)."""
        x = ops.pad(self.embedding_convPxP(x).flatten(2), (1, 0)).transpose(1, 2)  # (B, 1 + H * W, D)
        angles = np.arange(x.shape[1])[:, None] * 10000.0 ** (-np.arange(0, PROJECTED, 2) / PROJECTED)
        waves = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype("float32")
        x = x + ops.tensor(waves, device=x.device)
        for layer in self.transformer_encoder[:MAPS]:
            x = layer(x)
        return x[:, 0]


class ZoeDepth(ImageModel):
    """The depth of pictures of any size from one patch on, in metres."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.backbone = Encoder(config.backbone)
        self.neck = ReadoutNeck(config, config.backbone.hidden_size)
        width = config.fusion_hidden_size
        self.relative_head = Module()
        self.relative_head.conv1 = Conv2d(width, width // 2, 3, padding=1)
        self.relative_head.conv2 = Conv2d(width // 2, config.num_relative_features, 3, padding=1)
        self.relative_head.conv3 = Conv2d(config.num_relative_features, 1, 1)
        self.metric_head = MetricHead(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → depths (B, H', W') of whole patches. Models of several heads take the same one
        for all pictures.
        """
        backbone, head = self.config.backbone, self.relative_head
        check_pictures("ZoeDepth", pixel_values, backbone.num_channels, least=max(backbone.patch_size))
        grid = pixel_values.shape[2] // backbone.patch_size[0], pixel_values.shape[3] // backbone.patch_size[1]
        states = self.backbone(pixel_values, grid)
        filtered = self.neck.read([states[i] for i in self.config.out_indices], grid)
        maps = self.neck.fused(filtered)
        x = head.conv1(maps[self.config.head_in_index])
        x = ops.interpolate(x, size=tuple(2 * n for n in x.shape[2:]), mode="bilinear", align_corners=True)
        features = ops.relu(head.conv2(x))
        return self.metric_head(features, filtered[0], maps, ops.relu(head.conv3(features)))


TASKS: Mapping[str, Callable[[Config], Module]] = {"depth-estimation": ZoeDepth}
