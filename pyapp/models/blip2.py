"""BLIP-2 (Li et al. 2023, arXiv 2301.12597) with a decoder such as OPT: learned queries ask what a Vision Transformer
has seen, layer by layer, and their answers stand before the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.blip import BlipVision
from pyapp.nn.encoders import Intermediate, NormedResidual
from pyapp.nn.parameter import new_parameter
from pyapp.nn.picture_text import PictureTextModel
from pyapp.nn.vision import check_pictures

from .loading import picture_text
from .loading.config import check_fields, read_config, require
from .loading.picture_text import PictureTextConfig
from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("blip-2",)
IMAGE_PROCESSOR = "Blip"  # of files that name none
renamed = picture_text.renamed


@dataclass(frozen=True, kw_only=True)
class TowerConfig(PatchConfig):
    """The fields of vision_config."""

    model_type = "blip_2_vision_model"
    patch = 14

    hidden_size: int = 1408
    intermediate_size: int = 6144
    num_hidden_layers: int = 39
    num_attention_heads: int = 16
    layer_norm_eps: float = 1e-6


@dataclass(frozen=True, kw_only=True)
class QueryConfig:
    """The fields of qformer_config."""

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    cross_attention_frequency: int = 2

    def __post_init__(self) -> None:
        check_fields(self)
        width, heads = self.hidden_size, self.num_attention_heads
        require(width % heads == 0, f"num_attention_heads {heads} does not divide hidden_size {width}")
        require(self.num_hidden_layers <= 1 << 10, f"a Q-Former of {self.num_hidden_layers:,} layers")


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "blip-2"
    text = "opt"
    tower = "blip_2_vision_model"
    towers = {"blip_2_vision_model": TowerConfig}
    token = ("image_token_index", 50265)

    def check(self) -> None:
        super().check()
        count, own = self.values.get("num_query_tokens", 32), self.values.get("qformer_config")
        require(
            type(count) is int and 1 <= count <= 1 << 14, f"num_query_tokens is {count!r:.60}, expected 1 to 16,384"
        )
        require(own is None or isinstance(own, dict), f"qformer_config is {own!r:.60}, expected an object")
        texts = isinstance(own, dict) and own.get("use_qformer_text_input")
        require(not texts, "use_qformer_text_input is true, which is InstructBLIP's, expected false")
        assert self.queries

    @property
    def queries(self) -> QueryConfig:
        """The configuration of what asks."""
        found: QueryConfig = read_config(QueryConfig, self.values.get("qformer_config") or {})
        return found

    @property
    def count(self) -> int:
        """The number of queries."""
        found: int = self.values.get("num_query_tokens", 32)
        return found


class QueryAttention(Module):
    """Attention of queries to each other, or to a picture; the residual and the norm."""

    def __init__(self, config: QueryConfig, source_width: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.attention = Module()
        self.attention.query = Linear(width, width)
        self.attention.key, self.attention.value = (Linear(source_width, width) for _ in range(2))
        self.output = NormedResidual(width, width, config.layer_norm_eps)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """x (B, N, D), source (B, S, W) → (B, N, D)."""
        parts = self.attention
        q, k, v = (
            part(y).reshape(*y.shape[:2], self.heads, -1)
            for part, y in ((parts.query, x), (parts.key, source), (parts.value, source))
        )  # (B, N or S, H, D / H)
        return self.output(ops.attention(q, k, v, causal=False).reshape(x.shape), x)


class QueryLayer(Module):
    """Queries attend to each other and, in every other layer, to the picture; then a feed-forward part."""

    def __init__(self, config: QueryConfig, source_width: int, asks: bool) -> None:
        super().__init__()
        self.attention = QueryAttention(config, config.hidden_size)
        self.crossattention = QueryAttention(config, source_width) if asks else None
        self.intermediate_query = Intermediate(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.output_query = NormedResidual(config.intermediate_size, config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """x (B, N, D), source (B, S, W) → (B, N, D)."""
        x = self.attention(x, x)
        x = x if self.crossattention is None else self.crossattention(x, source)
        return self.output_query(self.intermediate_query(x), x)


class Projector(Module):
    """The queries' answers, in the text's size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        own = config.queries
        self.query_tokens = new_parameter(ops.zeros, 1, config.count, own.hidden_size)
        self.qformer = Module()
        self.qformer.layernorm = LayerNorm(own.hidden_size, own.layer_norm_eps)
        self.qformer.encoder = Module()
        self.qformer.encoder.layer = ModuleList(
            QueryLayer(own, config.vision_config.hidden_size, layer % own.cross_attention_frequency == 0)
            for layer in range(own.num_hidden_layers)
        )
        self.language_projection = Linear(own.hidden_size, config.text_config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """A picture's states x (B, S, W) → (B, N, D)."""
        queries = self.query_tokens.to(x.dtype).expand(x.shape[0], *self.query_tokens.shape[1:])
        queries = self.qformer.layernorm(queries)
        for layer in self.qformer.encoder.layer:
            queries = layer(queries, x)
        return self.language_projection(queries)


class Blip2ForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    prompt_form = ("</s>", "")

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = BlipVision(config.vision_config)
        self.multi_modal_projector = Projector(config)

    @property
    def picture_tokens(self) -> int:
        found: int = self.config.count
        return found

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        tower = self.config.vision_config
        check_pictures("BLIP-2", pixel_values, tower.num_channels, tower.image_size)
        return self.multi_modal_projector(self.vision_tower(pixel_values))


TASKS: Mapping[str, Any] = {picture_text.TASK: Blip2ForConditionalGeneration}
