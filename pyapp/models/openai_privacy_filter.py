"""OpenAI's privacy filter (2026): gpt-oss's blocks as an encoder, whose tokens see those near them on both sides, and a
label of each token: whether it is part of a name, an address, a secret …

Parameters have the names of Hugging Face's files, which have each matrix of the experts transposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, ModuleList, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, SinkAttention
from pyapp.nn.encoders.decoder_encoders import BothWaysText
from pyapp.nn.encoders.encoders import Encoder, LinearHead
from pyapp.nn.layers.experts import ClampedExperts, RoutedFeedForward, Router

from .loading.config import DecoderConfig, check_choice, check_padding, require
from .loading.labels import Labelled
from .loading.stored import Stored
from .loading.stored_experts import experts_transposed, with_experts_transposed

MODEL_TYPES = ("openai_privacy_filter",)
BASE = "model"  # the encoder's name in files with a head
SPANS = (
    "account_number", "private_address", "private_date", "private_email", "private_person", "private_phone",
    "private_url", "secret",
)  # fmt: skip
# The labels where a config.json names none: a token outside of spans, one that begins, goes on, ends, or is a span.
LABELS = ("O", *(f"{place}-{span}" for span in SPANS for place in "BIES"))
YARN = {
    "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    "original_max_position_embeddings": 4096,
}  # fmt: skip  # where config.json says nothing


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, DecoderConfig):
    """The fields of config.json. sliding_window: the tokens on each side that a token sees."""

    model_type = "openai_privacy_filter"
    defaults = {"max_position_embeddings": 131072, "num_key_value_heads": 2, "head_dim": 64, "pad_token_id": 199999}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    attention_bias: bool = True
    sliding_window: int = 128
    num_local_experts: int = 128
    num_experts_per_tok: int = 4
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0
    pad_token_id: int | None = None
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_local_experts)
        check_padding(self.pad_token_id, self.vocab_size)
        require(self.swiglu_limit > 0, f"swiglu_limit is {self.swiglu_limit}, expected a number above 0")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        given = any(values.get(name) is not None for name in ("rope_parameters", "rope_scaling", "rope_theta"))
        return super().from_dict(values if given else {**values, "rope_parameters": YARN})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the names of the labels, if the file has none and no other number of them."""
        named = values.get("id2label") is not None or values.get("num_labels") not in (None, len(LABELS))
        return values if named else values | {"id2label": {str(i): name for i, name in enumerate(LABELS)}}


class Block(PreNormBlock):
    """Attention and a mixture of experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, count = config.hidden_size, config.rms_norm_eps, config.num_local_experts
        heads = config.heads(interleaved=True, window=config.sliding_window + 1)
        attention = SinkAttention(layer, size, heads, rotary, bias=config.attention_bias)
        experts = ClampedExperts(size, config.intermediate_size, count, config.swiglu_alpha, config.swiglu_limit)
        feed_forward = RoutedFeedForward(Router(size, count, config.num_experts_per_tok, bias=True), experts, "router")
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class PrivacyFilter(Encoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.most = config, config.max_position_embeddings
        rotary = RotaryTable(config.to_dict())
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = ModuleList(Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    @property
    def word_embeddings(self) -> Embedding:
        return self.embed_tokens

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D). There are no token types: those given are ignored."""
        self.check(ids, attention_mask)
        text, x = BothWaysText(ids.shape[1], attention_mask), self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, text)
        return self.norm(x)

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of the parameters, such as their values or gradients, as Hugging Face's files have
        them.
        """
        return with_experts_transposed(tensors)


class PrivacyFilterForTokenClassification(LinearHead):
    """Scores of the labels of each token."""

    def __init__(self, config: Config) -> None:
        super().__init__((BASE, "score"), PrivacyFilter(config), config.hidden_size, len(config.labels))

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """As PrivacyFilter.exported."""
        return with_experts_transposed(tensors)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the experts: each matrix transposed."""
    shapes = {name: tuple(info.shape) for name, info in tensors.items()}
    found: dict[str, Stored] = {}
    for base in ("", f"{BASE}."):
        place = base + "layers.{}.mlp.experts"
        sizes = config.hidden_size, config.intermediate_size
        found |= experts_transposed(shapes, place, range(config.num_hidden_layers), *sizes)
    return found


TASKS = {"features": PrivacyFilter, "token-classification": PrivacyFilterForTokenClassification}
