"""The fields of config.json that models of pictures share."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, ClassVar

from pyapp.dataclass import dataclass
from pyapp.nn.vision.vision import divisible

from .config import DEEPEST, FileConfig, as_object, check_depth, check_divides, object_of, require
from .labels import Labelled

SIDE_LIMIT = 1 << 14  # pixels
PATCHES = 1 << 20  # of a picture
WIDEST = 1 << 16  # channels
EFFICIENT_LAST = 1280  # channels of EfficientNet's last filter


def pair(values: Mapping[str, Any], name: str, default: Any) -> tuple[int, int]:
    """A field that is one number for height and width, or two numbers. ModelError for anything else."""
    given = values.get(name)
    given = default if given is None else given
    found = (given, given) if type(given) is int else tuple(given) if isinstance(given, list | tuple) else ()
    plausible = len(found) == 2 and all(type(side) is int and 1 <= side <= SIDE_LIMIT for side in found)
    require(plausible, f"{name} is {given!r:.60}, expected a number of pixels from 1 to {SIDE_LIMIT:,}, or two")
    return found[0], found[1]


def _sizes(values: Mapping[str, Any], image: Any, patch: Any) -> dict[str, tuple[int, int]]:
    """image_size and patch_size; the usual ones where the file says nothing."""
    return {"image_size": pair(values, "image_size", image), "patch_size": pair(values, "patch_size", patch)}


def check_numbers(name: str, given: Any, most: int, least: int = 1, count: int | None = None) -> None:
    """ModelError unless a field is a list of whole numbers from `least` to `most`: `count` of them, None: up to 16."""
    plausible = all(type(n) is int and least <= n <= most for n in given)
    plausible = plausible and (1 <= len(given) <= 16 if count is None else len(given) == count)
    many = "up to 16" if count is None else str(count)
    require(plausible, f"{name} is {given!r:.60}, expected {many} whole numbers from {least} to {most:,}")


def from_start(given: Any, count: int) -> Any:
    """The number of one of `count`, which is counted from the end if it is below 0."""
    return given + count if type(given) is int and given < 0 else given


def check_factors(factors: Any, count: int) -> None:
    """ModelError unless reassemble_factors says how much larger, or smaller, each of `count` maps becomes."""
    numbers = [value if type(value) in (int, float) else 0 for value in factors]
    sizes = [factor if factor >= 1 else 1 / factor if factor else 0 for factor in numbers]
    whole = len(sizes) == count and all(1 <= size <= 16 and size == int(size) for size in sizes)
    require(whole, f"reassemble_factors is {factors!r:.60}, expected {count} of 16, 15 … 1, 1/2 … 1/16")


def check_stages(widths: Any, depths: Any, stages: int | None = None) -> None:
    """ModelError unless hidden_sizes and depths say the channels and layers of the same stages, of which there are
    `stages` if the file says their number.
    """
    check_numbers("hidden_sizes", widths, WIDEST)
    check_numbers("depths", depths, DEEPEST)
    require(len(depths) == len(widths), f"there are {len(depths)} depths and {len(widths)} hidden_sizes")
    require(stages in (None, len(depths)), f"num_encoder_blocks is {stages}, depths has {len(depths)} numbers")


def backbone_of(values: Mapping[str, Any], *known: str, usual: str | None = None) -> tuple[dict[str, Any], str]:
    """The object backbone_config of a config.json, and the architecture that it names, by default `usual` or the first
    one that is known. ModelError for another one, and where there is no such object.
    """
    own = object_of(values, "backbone_config")
    kind = own.get("model_type", usual or known[0])
    require(kind in known, f"the backbone {kind!r:.60} is not known", f"Known: {', '.join(known)}")
    return own, kind


@dataclass(frozen=True, kw_only=True)
class PictureConfig(Labelled, FileConfig):
    """The fields of all models of pictures."""

    num_channels: int = 3
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_channels <= 1 << 10, f"num_channels is {self.num_channels:,}, expected at most 1,024")


@dataclass(frozen=True, kw_only=True)
class PatchConfig(PictureConfig):
    """The fields of a Vision Transformer."""

    image: ClassVar[Any] = 224  # the usual image_size
    patch: ClassVar[Any] = 16

    image_size: tuple[int, int]
    patch_size: tuple[int, int]
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    qkv_bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divides(self, "num_attention_heads", "hidden_size")
        rows, columns = self.grid
        require(rows >= 1 and columns >= 1, f"patch_size {self.patch_size} is larger than image_size {self.image_size}")
        require(rows * columns <= PATCHES, f"{rows:,} x {columns:,} patches are too many")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, **_sizes(values, cls.image, cls.patch)})

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of patches of a picture."""
        return self.image_size[0] // self.patch_size[0], self.image_size[1] // self.patch_size[1]

    @property
    def patches(self) -> int:
        """The number of patches of a picture."""
        return self.grid[0] * self.grid[1]


@dataclass(frozen=True, kw_only=True)
class PooledConfig(PatchConfig):
    """The fields of a Vision Transformer with a layer over its class token."""

    pooler_output_size: int | None = None
    pooler_act: str = "tanh"


@dataclass(frozen=True, kw_only=True)
class ScaledConfig(PatchConfig):
    """The fields of DINOv2's encoder."""

    patch = 14

    layer_norm_eps: float = 1e-6
    mlp_ratio: float = 4
    use_swiglu_ffn: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")

    @property
    def inner(self) -> int:
        """The width of the feed-forward part."""
        return int(self.hidden_size * self.mlp_ratio)

    @property
    def registers(self) -> int:
        """The tokens between the class token and the patches, which only keep what is of no place."""
        return 0


@dataclass(frozen=True, kw_only=True)
class BeitConfig(PatchConfig):
    """The fields of BEiT's encoder."""

    use_absolute_position_embeddings: bool = False
    use_relative_position_bias: bool = False
    use_shared_relative_position_bias: bool = False
    use_mean_pooling: bool = True
    layer_scale_init_value: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        biased = self.use_relative_position_bias or self.use_shared_relative_position_bias
        require(
            not biased or self.grid[0] == self.grid[1],
            f"BEiT with a grid of {self.grid[0]} x {self.grid[1]} patches and relative positions is not supported",
        )


@dataclass(frozen=True, kw_only=True)
class WindowConfig(PictureConfig):
    """The fields of Swin, and of encoders like it."""

    post_norm: ClassVar[bool] = False  # whether its layers are Swin V2's

    image_size: tuple[int, int]
    patch_size: tuple[int, int]
    embed_dim: int = 96
    depths: tuple[int, ...] = (2, 2, 6, 2)
    num_heads: tuple[int, ...] = (3, 6, 12, 24)
    window_size: int = 7
    mlp_ratio: float = 4.0
    qkv_bias: bool = True
    hidden_act: str = "gelu"
    use_absolute_embeddings: bool = False
    layer_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("depths", self.depths, DEEPEST)
        check_numbers("num_heads", self.num_heads, 1 << 12, count=len(self.depths))
        require(self.window_size <= 256, f"window_size is {self.window_size:,}, expected at most 256")
        require(self.hidden_size <= WIDEST, f"embed_dim is {self.embed_dim:,}: the last stage is too wide")
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")
        for stage, heads in enumerate(self.num_heads):
            width = self.embed_dim << stage
            require(width % heads == 0, f"{heads} num_heads do not divide the width {width} of stage {stage + 1}")
        rows, columns = self.grid
        require(1 <= rows * columns <= PATCHES, f"{rows:,} x {columns:,} patches are too many, or none")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, **_sizes(values, 224, 4)})

    @property
    def hidden_size(self) -> int:
        """The width of the last stage."""
        return self.embed_dim << (len(self.depths) - 1)

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of patches of a picture."""
        return self.image_size[0] // self.patch_size[0], self.image_size[1] // self.patch_size[1]


@dataclass(frozen=True, kw_only=True)
class SwinBackbone(WindowConfig):
    """The fields of backbone_config of a Swin."""

    model_type = "swin"

    @classmethod
    def part_of(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, which has the backbone's in its backbone_config. ModelError for other
        backbones, and for one of whose stages not all are read.
        """
        own, _ = backbone_of(values, cls.model_type)
        backbone = cls.from_dict(own)
        stages = [f"stage{i + 1}" for i in range(len(backbone.depths))]
        given = own.get("out_features", stages)
        require(given == stages, f"out_features is {given!r:.80}, expected all stages: {', '.join(stages)}")
        return backbone


@dataclass(frozen=True, kw_only=True)
class ConvNextConfig(PictureConfig):
    """The fields of ConvNeXt."""

    response_norms: ClassVar[bool] = False  # whether layers normalise their responses

    patch_size: int = 4
    hidden_sizes: tuple[int, ...] = (96, 192, 384, 768)
    depths: tuple[int, ...] = (3, 3, 9, 3)
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths)
        require(self.patch_size <= 1 << 10, f"patch_size is {self.patch_size:,}, expected at most 1,024")

    @property
    def scales(self) -> bool:
        """Whether layers are scaled."""
        return False


@dataclass(frozen=True, kw_only=True)
class ResidualConfig(PictureConfig):
    """The fields of ResNet, and of models that see by one."""

    reduction: ClassVar[int] = 4  # of the channels inside a bottleneck
    pooled_shortcuts: ClassVar[bool] = False

    embedding_size: int = 64
    hidden_sizes: tuple[int, ...] = (256, 512, 1024, 2048)
    depths: tuple[int, ...] = (3, 4, 6, 3)
    layer_type: str = "bottleneck"
    hidden_act: str = "relu"
    downsample_in_first_stage: bool = False
    downsample_in_bottleneck: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths)
        require(self.layer_type in ("basic", "bottleneck"), f"layer_type is {self.layer_type!r:.60}")
        require(self.embedding_size <= WIDEST, f"embedding_size is {self.embedding_size:,}")
        narrow = self.layer_type == "bottleneck" and min(self.hidden_sizes) < self.reduction
        require(not narrow, f"hidden_sizes {list(self.hidden_sizes)} are too small for bottlenecks")


@dataclass(frozen=True, kw_only=True)
class EfficientNetConfig(PictureConfig):
    """The fields of EfficientNet. last_filter: whether a filter comes after the blocks."""

    last_filter: ClassVar[bool] = True

    width_coefficient: float = 2.0
    depth_coefficient: float = 3.1
    depth_divisor: int = 8
    kernel_sizes: tuple[int, ...] = (3, 3, 5, 3, 5, 5, 3)
    in_channels: tuple[int, ...] = (32, 16, 24, 40, 80, 112, 192)
    out_channels: tuple[int, ...] = (16, 24, 40, 80, 112, 192, 320)
    depthwise_padding: tuple[int, ...] = ()
    strides: tuple[int, ...] = (1, 2, 2, 2, 1, 2, 1)
    num_block_repeats: tuple[int, ...] = (1, 2, 2, 3, 3, 4, 1)
    expand_ratios: tuple[int, ...] = (1, 6, 6, 6, 6, 6, 6)
    squeeze_expansion_ratio: float = 0.25
    hidden_act: str = "swish"
    hidden_dim: int = 2560
    pooling_type: str = "mean"
    batch_norm_eps: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        stages = len(self.in_channels)
        for name, most in (
            ("in_channels", WIDEST), ("out_channels", WIDEST), ("kernel_sizes", 64), ("strides", 2),
            ("num_block_repeats", 64), ("expand_ratios", 64),
        ):  # fmt: skip
            check_numbers(name, getattr(self, name), most, count=stages)
        require(1 <= stages <= 16, f"in_channels has {stages} numbers, expected 1 to 16")
        for name in ("width_coefficient", "depth_coefficient", "squeeze_expansion_ratio"):
            value = getattr(self, name)
            require(0 < value <= 16, f"{name} is {value}, expected a number above 0, at most 16")
        check_numbers("depthwise_padding", self.depthwise_padding, 1 << 16, 0, len(self.depthwise_padding))
        require(self.depth_divisor <= 1 << 10, f"depth_divisor is {self.depth_divisor:,}, expected at most 1,024")
        check_depth(sum(map(self.depth, range(stages))))
        require(self.pooling_type in ("mean", "max"), f"pooling_type is {self.pooling_type!r:.60}")
        width = self.channels(EFFICIENT_LAST if self.last_filter else self.out_channels[-1])
        require(self.hidden_dim == width, f"hidden_dim is {self.hidden_dim}, the width_coefficient makes {width}")

    def channels(self, usual: int) -> int:
        """The channels of a layer that has `usual` ones where width_coefficient is 1."""
        return divisible(usual * self.width_coefficient, self.depth_divisor, self.depth_divisor)

    def depth(self, stage: int) -> int:
        """The blocks of a stage."""
        return ceil(self.depth_coefficient * self.num_block_repeats[stage])


# Of timm's ResNets, which some files name only: layer_type and depths.
TIMM_RESNETS = {
    "resnet18": ("basic", (2, 2, 2, 2)), "resnet34": ("basic", (3, 4, 6, 3)), "resnet26": ("bottleneck", (2, 2, 2, 2)),
    "resnet50": ("bottleneck", (3, 4, 6, 3)), "resnet101": ("bottleneck", (3, 4, 23, 3)),
    "resnet152": ("bottleneck", (3, 8, 36, 3)),
}  # fmt: skip
WIDTHS = {"basic": (64, 128, 256, 512), "bottleneck": (256, 512, 1024, 2048)}


@dataclass(frozen=True, kw_only=True)
class Backbone(ResidualConfig):
    """The ResNet that a detector sees by."""

    model_type = "resnet"


def read_backbone(values: Mapping[str, Any]) -> Backbone:
    """The ResNet of a detector's config.json, described by backbone_config or by a name of timm's. ModelError for
    others.
    """
    given = values.get("backbone_config")
    own: Mapping[str, Any] = given if isinstance(given, dict) else {}
    kind = own.get("model_type", "timm_backbone" if given is None else None)
    if kind == "resnet":
        found = Backbone.from_dict(own)
        stages, last = len(found.depths), own.get("out_features")
        whole = last is None or (isinstance(last, list) and last[-1:] == [f"stage{stages}"])
        require(whole, f"out_features of the backbone is {last!r:.60}: only its last stage is supported")
        return found
    name = own.get("backbone") or values.get("backbone") or "resnet50"
    known = kind == "timm_backbone" and isinstance(name, str) and name.split(".")[0] in TIMM_RESNETS
    require(known, f"the backbone {name if kind == 'timm_backbone' else kind!r:.60} is not known",
            f"Known: resnet as Hugging Face's, and timm's {', '.join(TIMM_RESNETS)}")  # fmt: skip
    dilated = values.get("dilation") is True or own.get("output_stride") not in (None, 32)
    require(not dilated, "a backbone with dilation is not supported")
    layer_type, depths = TIMM_RESNETS[name.split(".")[0]]
    channels = own.get("num_channels", values.get("num_channels", 3))
    return Backbone(num_channels=channels, layer_type=layer_type, depths=depths, hidden_sizes=WIDTHS[layer_type])


def stages_of(own: Mapping[str, Any], count: int, usual: tuple[int, ...]) -> tuple[int, ...]:
    """Those of a backbone's `count` stages, from 0, whose maps are read: its out_features, or its out_indices, which
    count the stem too. ModelError for others.
    """
    given = own.get("out_features")
    if given is None:
        numbers = own.get("out_indices") or [i + 1 for i in usual]
        whole = isinstance(numbers, list | tuple) and all(type(n) is int for n in numbers)
        require(whole, f"out_indices of the backbone is {numbers!r:.60}, expected whole numbers")
        given = [f"stage{n + count + 1 if n < 0 else n}" for n in numbers]
    known = {f"stage{i + 1}": i for i in range(count)}
    fits = isinstance(given, list | tuple) and all(isinstance(name, str) and name in known for name in given)
    stages = tuple(known[name] for name in given) if fits else ()
    fits = len(stages) >= 1 and list(stages) == sorted(set(stages))
    require(fits, f"out_features of the backbone is {given!r:.60}, expected some of {', '.join(known)}")
    return stages


@dataclass(frozen=True, kw_only=True)
class DetectorConfig(PictureConfig):
    """The fields of DETR, and of models like it."""

    backbone: Backbone
    num_queries: int = 100
    d_model: int = 256
    encoder_layers: int = 6
    encoder_attention_heads: int = 8
    encoder_ffn_dim: int = 2048
    decoder_layers: int = 6
    decoder_attention_heads: int = 8
    decoder_ffn_dim: int = 2048
    activation_function: str = "relu"
    position_embedding_type: str = "sine"
    auxiliary_loss: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            require(self.d_model % heads == 0, f"{heads} heads do not divide d_model {self.d_model}")
        require(self.d_model % 4 == 0, f"d_model is {self.d_model}, expected a multiple of 4")
        require(self.d_model <= WIDEST, f"d_model is {self.d_model:,}")
        check_depth(max(self.encoder_layers, self.decoder_layers))
        require(self.num_queries <= 1 << 14, f"{self.num_queries:,} queries are too many")
        kind = self.position_embedding_type
        require(kind == "sine", f"position_embedding_type is {kind!r:.60}, only 'sine' is supported")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "backbone": read_backbone(values)})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        del own["backbone"]
        return own | {"backbone_config": self.backbone.to_dict()}


QUERIES, GROUPS, POINTS = 1 << 14, 256, 64  # of GroupedDetectorConfig


@dataclass(frozen=True, kw_only=True)
class GroupedDetectorConfig(PictureConfig):
    """The fields of LW-DETR and RF-DETR, whose parts are in nn.vision.grouped_queries."""

    backbone: ClassVar[type[ScaledConfig]]  # the class of backbone_config

    backbone_config: ScaledConfig
    d_model: int = 256
    hidden_expansion: float = 0.5
    c2f_num_blocks: int = 3
    activation_function: str = "silu"
    decoder_layers: int = 3
    decoder_ffn_dim: int = 2048
    decoder_n_points: int = 4
    decoder_self_attention_heads: int = 8
    decoder_cross_attention_heads: int = 16
    decoder_activation_function: str = "relu"
    num_queries: int = 300
    group_detr: int = 13

    def __post_init__(self) -> None:
        super().__post_init__()
        width = self.d_model
        check_numbers("d_model and decoder_ffn_dim", (width, self.decoder_ffn_dim), WIDEST)
        check_depth(max(self.decoder_layers, self.c2f_num_blocks))
        check_numbers("num_queries", [self.num_queries], QUERIES)
        check_numbers("group_detr", [self.group_detr], GROUPS)
        check_numbers("decoder_n_points", [self.decoder_n_points], POINTS)
        for heads in (self.decoder_self_attention_heads, self.decoder_cross_attention_heads):
            require(width % heads == 0 and width % 4 == 0, f"{heads} heads do not divide d_model {width}")
        require(0 < self.hidden_expansion <= 16, f"hidden_expansion is {self.hidden_expansion}")
        require(self.inner >= 1, f"hidden_expansion {self.hidden_expansion} leaves no channels of {width}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones."""
        own, _ = backbone_of(values, cls.backbone.model_type)
        bias = values.get("attention_bias", True)
        require(bias is True, f"models of the architecture {cls.model_type!r} have biases in attention")
        return super().from_dict({**values, "backbone_config": cls.backbone.from_dict(own)})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"backbone_config": self.backbone_config.to_dict()}

    @property
    def inner(self) -> int:
        """The channels inside the layer that joins the maps."""
        return int(self.d_model * self.hidden_expansion)


METHODS = ("default", "discrete")  # how RT-DETR v2 reads points of maps


@dataclass(frozen=True, kw_only=True)
class RealTimeDetectorConfig(PictureConfig):
    """The fields of RT-DETR, and of models like it, which add `decoder_n_points`."""

    backbone: Any
    stages: tuple[int, ...]  # of the backbone, whose maps are read
    batch_norm_eps: float = 1e-5
    layer_norm_eps: float = 1e-5
    encoder_hidden_dim: int = 256
    encoder_layers: int = 1
    encoder_ffn_dim: int = 1024
    encoder_attention_heads: int = 8
    encode_proj_layers: tuple[int, ...] = (2,)
    positional_encoding_temperature: int = 10000
    encoder_activation_function: str = "gelu"
    activation_function: str = "silu"
    hidden_expansion: float = 1.0
    d_model: int = 256
    num_queries: int = 300
    decoder_ffn_dim: int = 1024
    decoder_layers: int = 6
    decoder_attention_heads: int = 8
    decoder_activation_function: str = "relu"
    decoder_offset_scale: float = 0.5
    decoder_method: str = METHODS[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.decoder_method in METHODS, f"decoder_method is {self.decoder_method!r:.60}")
        require(0 < self.decoder_offset_scale <= 64, f"decoder_offset_scale is {self.decoder_offset_scale}")
        for name, width in (("encoder_hidden_dim", self.encoder_hidden_dim), ("d_model", self.d_model)):
            require(width <= WIDEST and width % 4 == 0, f"{name} is {width:,}, expected a multiple of 4")
        for heads, width in (
            (self.encoder_attention_heads, self.encoder_hidden_dim), (self.decoder_attention_heads, self.d_model),
        ):  # fmt: skip
            require(width % heads == 0, f"{heads} heads do not divide the width {width}")
        check_numbers("encode_proj_layers", self.encode_proj_layers, len(self.stages) - 1, least=0)
        check_depth(max(self.encoder_layers, self.decoder_layers))
        require(self.num_queries <= 1 << 14, f"{self.num_queries:,} queries are too many")
        require(0 < self.hidden_expansion <= 16, f"hidden_expansion is {self.hidden_expansion}")

    @classmethod
    def read(cls, values: Mapping[str, Any], backbone: type[PictureConfig], level_fields: tuple[str, ...]) -> Any:
        """From the object of a config.json whose backbone has these fields, and whose level_fields name the number of
        maps. ModelError for what is not supported.
        """
        own = as_object(values.get("backbone_config") or {}, "backbone_config")
        kind = own.get("model_type", backbone.model_type)
        known = kind == backbone.model_type
        require(known, f"the backbone {kind!r:.60} is not known", f"Known: {backbone.model_type}")
        found = backbone.from_dict(own)
        stages = stages_of(own, len(found.depths), (1, 2, 3))
        for name, wanted in (("normalize_before", False), ("learn_initial_query", False), ("eval_size", None)):
            given = values.get(name, wanted)
            require(given in (None, wanted), f"{cls.model_type} with {name} {given!r:.60} is not supported")
        for name in level_fields:
            levels = values.get(name, len(stages))
            require(levels == len(stages), f"{name} is {levels!r:.60}, the backbone has {len(stages)} maps")
        return super().from_dict({**values, "backbone": found, "stages": stages})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        del own["backbone"], own["stages"]
        names = [f"stage{i + 1}" for i in self.stages]
        backbone = self.backbone.to_dict() | {"out_features": names}
        return own | {"backbone_config": backbone, "num_feature_levels": len(names)}


@dataclass(frozen=True, kw_only=True)
class HGNetConfig(PictureConfig):
    """The fields of PP-HGNet V2, and of models that see by one. Those with `stage_` have a value for each stage."""

    model_type = "hgnet_v2"

    hidden_act: str = "relu"
    stem_channels: tuple[int, ...] = (3, 32, 48)
    stem_strides: tuple[int, ...] = (2, 1, 1, 2, 1)
    stage_in_channels: tuple[int, ...] = (48, 128, 512, 1024)
    stage_mid_channels: tuple[int, ...] = (48, 96, 192, 384)
    stage_out_channels: tuple[int, ...] = (128, 512, 1024, 2048)
    stage_num_blocks: tuple[int, ...] = (1, 1, 3, 1)
    stage_downsample: tuple[bool, ...] = (False, True, True, True)
    stage_downsample_strides: tuple[int, ...] = (2, 2, 2, 2)
    stage_light_block: tuple[bool, ...] = (False, False, True, True)
    stage_kernel_size: tuple[int, ...] = (3, 3, 5, 5)
    stage_numb_of_layers: tuple[int, ...] = (6, 6, 6, 6)
    use_learnable_affine_block: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("stem_channels", self.stem_channels, WIDEST, count=3)
        check_numbers("stem_strides", self.stem_strides, 4, count=5)
        check_numbers("stage_out_channels", self.stage_out_channels, WIDEST, least=2)
        count = len(self.stage_out_channels)
        for name, most in (
            ("stage_in_channels", WIDEST), ("stage_mid_channels", WIDEST), ("stage_num_blocks", DEEPEST),
            ("stage_downsample_strides", 4), ("stage_kernel_size", 64), ("stage_numb_of_layers", DEEPEST),
        ):  # fmt: skip
            check_numbers(name, getattr(self, name), most, count=count)
        for name in ("stage_downsample", "stage_light_block"):
            given = getattr(self, name)
            fits = len(given) == count and all(type(value) is bool for value in given)
            require(fits, f"{name} is {given!r:.60}, expected {count} of true and false")
        # The filters of 2 x 2 keep the sides, and their output stands beside a pool's.
        require(self.stem_channels[1] > 1 and tuple(self.stem_strides[1:3]) == (1, 1),
                f"stem_channels {list(self.stem_channels)} with stem_strides {list(self.stem_strides)}")  # fmt: skip
        require(self.stem_channels[0] == self.num_channels, f"stem_channels starts with {self.stem_channels[0]:,}, "
                f"num_channels is {self.num_channels:,}")  # fmt: skip
        before = (self.stem_channels[2], *self.stage_out_channels[:-1])
        require(tuple(self.stage_in_channels) == before, f"stage_in_channels is {list(self.stage_in_channels)}, "
                f"but the parts before the stages have {list(before)} channels")  # fmt: skip
        require(all(kernel % 2 for kernel in self.stage_kernel_size),
                f"stage_kernel_size is {list(self.stage_kernel_size)}, expected odd numbers")  # fmt: skip

    @property
    def depths(self) -> tuple[int, ...]:
        """The blocks of each stage."""
        return self.stage_num_blocks

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        sizes = {"hidden_sizes": [*self.stage_out_channels], "embedding_size": self.stem_channels[2]}
        return super().to_dict() | sizes | {"depths": [*self.depths]}  # which transformers reads too


@dataclass(frozen=True, kw_only=True)
class PyramidConfig(PictureConfig):
    """The fields of models whose stages attend to a coarser picture."""

    depths: tuple[int, ...] = (2, 2, 2, 2)
    sr_ratios: tuple[int, ...] = (8, 4, 2, 1)
    hidden_sizes: tuple[int, ...] = (32, 64, 160, 256)
    patch_sizes: tuple[int, ...] = (7, 3, 3, 3)
    strides: tuple[int, ...] = (4, 2, 2, 2)
    num_attention_heads: tuple[int, ...] = (1, 2, 5, 8)
    mlp_ratios: tuple[int, ...] = (4, 4, 4, 4)
    num_encoder_blocks: int | None = None
    hidden_act: str = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths, self.num_encoder_blocks)
        for name, most in (
            ("sr_ratios", 64), ("patch_sizes", 64), ("strides", 64), ("num_attention_heads", 1 << 12),
            ("mlp_ratios", 64),
        ):  # fmt: skip
            check_numbers(name, getattr(self, name), most, count=len(self.depths))
        for width, heads in zip(self.hidden_sizes, self.num_attention_heads, strict=True):
            require(width % heads == 0, f"{heads} num_attention_heads do not divide the hidden size {width}")

    @property
    def steps(self) -> tuple[int, ...]:
        """How many places of each stage, down and across, become one of its coarser picture."""
        return self.sr_ratios

    @property
    def least(self) -> int:
        """The fewest pixels of a picture's side with which the coarser picture of each stage has a place."""
        found = stride = 1
        for further, step in zip(self.strides, self.steps, strict=True):
            stride *= further
            found = max(found, stride * step)
        return found
