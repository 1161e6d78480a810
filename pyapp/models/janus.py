"""Janus and Janus-Pro (Chen et al. 2025, arXiv 2501.17811), of which the part that sees is read, not the one that
draws; and DeepSeek-VL (Lu et al. 2024, arXiv 2403.05525): what SigLIP's tower sees, projected, stands before Llama.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import GELU, Linear, Module, ModuleList
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import PictureTextConfig
from .loading.towers_config import SiglipVisionConfig

MODEL_TYPES = ("janus", "deepseek_vl")
IMAGE_PROCESSOR = "Janus"  # of files that name none
DRAWING = r"(model\.)?(vqmodel|generation_embeddings|generation_aligner|generation_head)\..*"
IGNORED = rf"{picture_text.POOLING}|{DRAWING}"
TOKENS = {"janus": 100_581, "deepseek_vl": 100_015}
DEEPEST, WIDEST = 64, 1 << 20  # layers of the projector, numbers of a vector of the tower


@dataclass(frozen=True, kw_only=True)
class JanusVisionConfig(SiglipVisionConfig):
    """The fields of Janus's vision_config."""

    model_type = "janus_vision_model"
    image = 384

    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    hidden_act: str = "gelu"
    vision_use_head: bool = False
    mlp_ratio: float = 4.0
    projection_dim: int = 2048
    depth: int = 2
    attention_bias: bool = True
    use_qk_norm: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        width, ratio = values.get("hidden_size", 1024), values.get("mlp_ratio", 4.0)
        if type(width) is int and width <= WIDEST and type(ratio) in (int, float) and 0 < ratio <= 64:
            values = {**values, "intermediate_size": int(width * ratio)}
        return super().from_dict(values)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")
        require(self.depth <= DEEPEST, f"depth is {self.depth}, expected at most {DEEPEST}")
        require(not self.use_qk_norm, "use_qk_norm is true, expected false: no published model has such norms")
        require(self.attention_bias, "attention_bias is false, expected true")


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "janus"
    tower = "janus_vision_model"
    towers = {**picture_text.TOWERS, "janus_vision_model": JanusVisionConfig}
    token = ("image_token_id", TOKENS["janus"])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        kind, vision = values.get("model_type", cls.model_type), values.get("vision_config")
        require(kind in MODEL_TYPES, f"model_type is {kind!r:.60}, expected {' or '.join(MODEL_TYPES)}")
        if isinstance(vision, dict) and kind == "deepseek_vl":
            vision = {"model_type": "siglip_vision_model", **vision}
        tied = values.get("tie_word_embeddings", True)  # the usual case of these two
        given = {**values, "vision_config": vision, "tie_word_embeddings": tied}
        return super().from_dict({"image_token_id": TOKENS[kind], **given})

    def check(self) -> None:
        super().check()
        vision, width = self.vision_config, self.text_config.hidden_size
        made = vision.projection_dim if isinstance(vision, JanusVisionConfig) else width
        require(made == width, f"projection_dim is {made}, the text's hidden_size {width}")


class Aligner(Module):
    """Janus's projector, of `depth` layers."""

    def __init__(self, config: JanusVisionConfig) -> None:
        super().__init__()
        made = config.projection_dim
        self.activation = activation_named(config.hidden_act)
        self.fc1 = Linear(config.hidden_size, made)
        self.hidden_layers = ModuleList(Linear(made, made) for _ in range(1, config.depth))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, D)."""
        x = self.fc1(x)
        for layer in self.hidden_layers:
            x = layer(self.activation(x))
        return x


class TwoLayerAligner(Module):
    """DeepSeek-VL's projector."""

    def __init__(self, width: int, made: int) -> None:
        super().__init__()
        self.linear1, self.linear2 = Linear(width, made), Linear(made, made)
        self.activation = GELU()

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, D)."""
        return self.linear2(self.activation(self.linear1(x)))


class JanusForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    placeholder = part = "<image_placeholder>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        vision = config.vision_config
        self.vision_tower = VisionTower(vision, class_token=False)
        self.marked = isinstance(vision, JanusVisionConfig)
        self.multi_modal_projector = (
            Aligner(vision) if self.marked else TwoLayerAligner(vision.hidden_size, config.text_config.hidden_size)
        )

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        found = super().picture_text(rows, columns, size)
        return f"<begin_of_image>{found}<end_of_image>" if self.marked else found


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    name = picture_text.renamed(name).removeprefix("model.")
    if name.startswith("aligner."):
        return f"multi_modal_projector.{name.removeprefix('aligner.')}"
    return name.replace(".projection_layer.", ".out_proj.") if name.startswith("vision_tower.") else name


TASKS: Mapping[str, Any] = {picture_text.TASK: JanusForConditionalGeneration}
