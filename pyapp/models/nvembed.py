"""NV-Embed (Lee et al. 2024, arXiv 2405.17428): Mistral whose tokens see the whole text, and a layer in which each
token attends to trained vectors before the tokens become one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import gelu, randn
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleDict, ModuleList
from pyapp.nn.encoders.decoder_encoders import DecoderEncoder
from pyapp.nn.encoders.encoders import Encoder, attend
from pyapp.nn.parameter import new_parameter

from .loading.architectures import architecture
from .loading.config import check_fields, object_of, read_config, require

MODEL_TYPES = ("nvembed",)
BASE = ""
LANGUAGE = "mistral"
WIDENING = 4  # of the gated feed-forward part


@dataclass(frozen=True, kw_only=True)
class Latents:
    """The fields of latent_attention_config: the number of trained vectors, and the heads that attend to them."""

    num_latents_value: int = 512
    num_cross_heads: int = 8
    cross_dim_head: int = 4096
    hidden_dim: int = 4096
    latent_dim: int = 4096

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("num_latents_value", "cross_dim_head", "latent_dim"):
            require(getattr(self, name) <= 1 << 16, f"{name} is {getattr(self, name):,}, expected at most 65,536")
        require(self.num_cross_heads <= 1 << 8, f"num_cross_heads is {self.num_cross_heads:,}, expected at most 256")
        require(self.hidden_dim == self.latent_dim, f"latent_dim {self.latent_dim} is not hidden_dim {self.hidden_dim}")


@dataclass(frozen=True)
class Config:
    """The configurations of the language model and of the layer after it, and `values`, the whole config.json."""

    text_config: Any
    latents: Latents
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that do not fit one another."""
        # The model's code attends to the whole text.
        text = {**object_of(values, "text_config"), "sliding_window": None}
        language = architecture(LANGUAGE).Config.from_dict(text)
        latents = read_config(Latents, object_of(values, "latent_attention_config"))
        require(
            latents.hidden_dim == language.hidden_size,
            f"hidden_dim {latents.hidden_dim} is not the language model's hidden_size {language.hidden_size}",
        )
        return cls(language, latents, dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "text_config": self.text_config.to_dict()}

    @property
    def vocab_size(self) -> int:
        """The tokens."""
        found: int = self.text_config.vocab_size
        return found


class LatentAttention(Module):
    """Each token attends to the trained vectors."""

    def __init__(self, sizes: Latents) -> None:
        super().__init__()
        inner = sizes.num_cross_heads * sizes.cross_dim_head
        self.heads = sizes.num_cross_heads
        self.to_q = Linear(sizes.latent_dim, inner, bias=False)
        self.to_kv = Linear(sizes.hidden_dim, 2 * inner, bias=False)
        self.to_out = Linear(inner, sizes.latent_dim, bias=False)

    def forward(self, x: Tensor, latents: Tensor) -> Tensor:
        """x (B, T, D), latents (L, D) → (B, T, D)."""
        keys = self.to_kv(latents)  # (L, 2 * inner)
        size = keys.shape[1] // (2 * self.heads)
        keys = keys.reshape(1, latents.shape[0], 2 * self.heads, size).expand(x.shape[0], -1, -1, -1)
        k, v = (keys.narrow(2, i * self.heads, self.heads) for i in range(2))  # (B, L, H, size)
        q = self.to_q(x).reshape(*x.shape[:2], self.heads, size)
        return self.to_out(attend(q, k, v, None))


class GatedWords(Module):
    """The feed-forward part, with a gate by GELU (Shazeer 2020, arXiv 2002.05202)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = ModuleDict(
            {"0": Linear(width, 2 * WIDENING * width), "2": Linear(WIDENING * width, width)}  # 1: the gate
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        both = self.net["0"](x)  # (B, T, 8 D)
        inner = both.shape[-1] // 2
        y: Tensor = self.net["2"](both.narrow(-1, 0, inner) * gelu(both.narrow(-1, inner, inner)))
        return y


class PreNorm(Module):
    """A part with a norm before it; `context`: and one of the vectors that it attends to."""

    def __init__(self, width: int, part: Module, context: int | None = None) -> None:
        super().__init__()
        self.fn = part
        self.norm = LayerNorm(width)
        self.norm_context = None if context is None else LayerNorm(context)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """x (B, T, D), context (L, D) → x with the part's result added (B, T, D)."""
        more = () if self.norm_context is None else (self.norm_context(context),)
        y: Tensor = self.fn(self.norm(x), *more) + x
        return y


class LatentLayer(Module):
    """The trained vectors, attention to them and the feed-forward part."""

    def __init__(self, sizes: Latents) -> None:
        super().__init__()
        width = sizes.latent_dim
        self.latents = new_parameter(randn, sizes.num_latents_value, width)
        self.cross_attend_blocks = ModuleList(
            [PreNorm(width, LatentAttention(sizes), sizes.hidden_dim), PreNorm(width, GatedWords(width))]
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        attention, words = self.cross_attend_blocks
        y: Tensor = words(attention(x, self.latents))
        return y


class NvEmbed(Encoder):
    """The states of the tokens after the layer of trained vectors."""

    adds_end = True

    def __init__(self, config: Config) -> None:
        super().__init__()
        language = architecture(LANGUAGE).TASKS["causal-lm"]
        reader = DecoderEncoder(language(config.text_config), both_ways=True)
        self.config, self.most = config, reader.most
        self._whole_text = reader.whole_text
        self.embedding_model = reader.get_submodule(reader.base_model_prefix)
        self.latent_attention_model = LatentLayer(config.latents)

    @property
    def word_embeddings(self) -> Embedding:
        found: Embedding = self.embedding_model.embedding
        return found

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → states (B, T, D). There are no token types: those given are ignored."""
        self.check(ids, attention_mask)
        x = self.embedding_model(ids, self._whole_text(ids.shape[1], attention_mask))  # (B, T, D)
        y: Tensor = self.latent_attention_model(self.embedding_model.normalized(x))
        return y


TASKS: Mapping[str, Callable[[Config], Module]] = {"features": NvEmbed}
