"""The fields of config.json that models of pictures and texts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import isqrt
from typing import Any, ClassVar

from pyapp.dataclass import dataclass

from .config import as_object, check_divides, check_fields, read_config, require
from .labels import labels_of
from .pictures_config import PATCHES, WIDEST, PatchConfig, PictureConfig, check_numbers, pair


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """The fields of the part for texts. A model sets its own defaults."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    hidden_act: str
    layer_norm_eps: float

    def __post_init__(self) -> None:
        check_fields(self)
        check_divides(self, "num_attention_heads", "hidden_size")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class ClipTextConfig(TextConfig):
    """The fields of CLIP's part for texts."""

    vocab_size: int = 49408
    hidden_size: int = 512
    intermediate_size: int = 2048
    num_hidden_layers: int = 12
    num_attention_heads: int = 8
    max_position_embeddings: int = 77
    hidden_act: str = "quick_gelu"
    layer_norm_eps: float = 1e-5
    eos_token_id: int = 49407


@dataclass(frozen=True, kw_only=True)
class ClipVisionConfig(PatchConfig):
    """The fields of CLIP's part for pictures."""

    model_type = "clip_vision_model"
    patch = 32

    hidden_act: str = "quick_gelu"
    layer_norm_eps: float = 1e-5


@dataclass(frozen=True, kw_only=True)
class SiglipVisionConfig(PatchConfig):
    """The fields of SigLIP's part for pictures."""

    model_type = "siglip_vision_model"

    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    vision_use_head: bool = True


@dataclass(frozen=True, kw_only=True)
class NaflexVisionConfig(SiglipVisionConfig):
    """The fields of SigLIP 2's part for pictures of any shape, which has positions of a square of num_patches."""

    model_type = "siglip2_vision_model"

    num_patches: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        count = self.num_patches
        require(isqrt(count) ** 2 == count <= PATCHES, f"num_patches is {count:,}, expected a square")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        count, (high, wide) = values.get("num_patches", 256), pair(values, "patch_size", cls.patch)
        side = isqrt(count) if type(count) is int and 0 < count <= PATCHES else 1
        return super().from_dict({**values, "image_size": [side * high, side * wide]})


@dataclass(frozen=True, kw_only=True)
class Aimv2VisionConfig(PatchConfig):
    """The fields of AIMv2's part for pictures."""

    model_type = "aimv2_vision_model"
    patch = 14

    hidden_size: int = 1024
    intermediate_size: int = 2816
    num_hidden_layers: int = 24
    num_attention_heads: int = 8
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-5
    qkv_bias: bool = False
    mlp_bias: bool = False
    use_head: bool = True
    is_native: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.is_native or self.hidden_size % 4 == 0,
                f"is_native with a hidden_size of {self.hidden_size}, expected a multiple of 4")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PixtralVisionConfig(PatchConfig):
    """The fields of Pixtral's tower; image_size is that of the largest pictures."""

    model_type = "pixtral"
    image = 1024

    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    rope_theta: float = 10000.0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        rotary = as_object(values.get("rope_parameters") or {}, "rope_parameters")
        theta = {"rope_theta": rotary["rope_theta"]} if "rope_theta" in rotary else {}
        found = super().from_dict({**values, **theta})
        size = values.get("head_dim")
        require(
            size in (None, found.hidden_size // found.num_attention_heads),
            f"head_dim is {size!r:.60}, expected that of {found.num_attention_heads} heads of {found.hidden_size}",
        )
        return found

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.hidden_size // self.num_attention_heads
        require(size % 4 == 0, f"heads of {size} columns, expected a multiple of 4")
        require(0 < self.rope_theta <= 1e12, f"rope_theta is {self.rope_theta!r:.60}")
        require(max(self.patch_size) <= 256, f"patch_size is {self.patch_size}, expected at most 256")
        require(self.patch_size[0] == self.patch_size[1], f"patch_size is {self.patch_size}, expected a square")


@dataclass(frozen=True, kw_only=True)
class SamVisionConfig(PatchConfig):
    """The fields of SAM's part for pictures."""

    model_type = "sam_vision_model"
    image = 1024

    layer_norm_eps: float = 1e-6
    output_channels: int = 256
    mlp_ratio: float = 4.0
    mlp_dim: int | None = None
    use_abs_pos: bool = True
    use_rel_pos: bool = True
    window_size: int = 14
    global_attn_indexes: tuple[int, ...] = (2, 5, 8, 11)
    num_pos_feats: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("global_attn_indexes", self.global_attn_indexes, 1 << 10, least=0)
        for name, most in (("output_channels", WIDEST), ("window_size", 256), ("num_pos_feats", WIDEST)):
            require(getattr(self, name) <= most, f"{name} is {getattr(self, name):,}, expected at most {most:,}")
        require(self.grid[0] == self.grid[1], f"SAM with a grid of {self.grid[0]} x {self.grid[1]} is not supported")
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}")

    @property
    def inner(self) -> int:
        """The width inside a layer's feed-forward part."""
        return int(self.hidden_size * self.mlp_ratio) if self.mlp_dim is None else self.mlp_dim


class TwoTowers:
    """What configurations of a part for texts and a part for pictures say of these."""

    text_config: Any
    vision_config: Any

    @property
    def vocab_size(self) -> int:
        """The tokens of texts."""
        found: int = self.text_config.vocab_size
        return found

    @property
    def num_channels(self) -> int:
        """The channels of pictures."""
        found: int = self.vision_config.num_channels
        return found


@dataclass(frozen=True)
class TowersConfig(TwoTowers):
    """The configurations of both parts, and `values`, the whole object of the config.json."""

    model_type: ClassVar[str]
    text_class: ClassVar[Any]
    vision_class: ClassVar[type[PictureConfig]]

    text_config: Any
    vision_config: Any
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        """ModelError for values that cannot be; a model has its own (without this one the decorator calls none)."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. Older files have the parts' own values in
        text_config_dict and vision_config_dict.
        """
        parts = {}
        for name in ("text_config", "vision_config"):
            own = values.get(f"{name}_dict")
            own = values.get(name) if own is None else own
            parts[name] = as_object({} if own is None else own, name)
        return cls(
            read_config(cls.text_class, parts["text_config"]),
            cls.vision_class.from_dict(parts["vision_config"]),
            dict(values),
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the outputs of a classifier of pictures."""
        return labels_of(self.values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        kind = self.values.get("model_type", self.model_type)
        own = {"model_type": kind, "text_config": self.text_config.to_dict()}
        return {**self.values, **own, "vision_config": self.vision_config.to_dict()}


@dataclass(frozen=True)
class ProjectedConfig(TowersConfig):
    """As TowersConfig, of models with projections into a common space. `usual_width`: its numbers where the file says
    none.
    """

    usual_width: ClassVar[int] = 512

    @property
    def projection_dim(self) -> int:
        """The numbers of a vector. ModelError for an implausible one."""
        found = self.values.get("projection_dim", self.usual_width)
        require(type(found) is int and 1 <= found <= WIDEST, f"projection_dim is {found!r:.60}")
        return int(found)
