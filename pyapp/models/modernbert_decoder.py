"""ModernBERT as a language model (Ettin: Weller et al. 2025, arXiv 2507.11412): ModernBERT's layers, whose tokens see
those before them.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, Linear, Module
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.encoders.decoder_encoders import DecoderEncoder
from pyapp.nn.encoders.encoders import Encoder, last_token
from pyapp.nn.encoders.modernbert import FeedForward, NormedEmbedding, Prediction, biased_norm
from pyapp.nn.layers.gated import activation_named

from .loading.config import DecoderConfig, check_padding, require
from .loading.labels import Labelled
from .loading.modernbert_config import SLIDING, check_layers, layers_and_angles

MODEL_TYPES = ("modernbert-decoder",)


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, DecoderConfig):
    """The fields of config.json. `local_attention` is twice the width of a window, which lies before a token."""

    model_type = "modernbert-decoder"
    defaults = {"max_position_embeddings": 8192, "tie_word_embeddings": True}

    intermediate_size: int
    layer_types: list[str]
    hidden_activation: str = "gelu"
    norm_eps: float = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    decoder_bias: bool = True
    classifier_bias: bool = False
    classifier_activation: str = "gelu"
    local_attention: int = 128
    pad_token_id: int | None = None
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers, and rotary parameters for each kind."""
        given = values["rope_parameters"]
        types, rotary = layers_and_angles({**values, "rope_parameters": {} if "rope_type" in given else given})
        heads = {"num_key_value_heads": values.get("num_attention_heads", 1)}  # whatever the file says
        return values | heads | {"layer_types": types, "rope_parameters": rotary}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers(self)
        check_padding(self.pad_token_id, self.vocab_size)
        require(self.local_attention >= 2, f"local_attention is {self.local_attention}, expected 2 or more")
        activation_named(self.hidden_activation)


class Attention(GroupedQueryAttention):
    """Self-attention, to all earlier tokens or within a window."""

    output = "Wo"
    tensor_parallel = {**GroupedQueryAttention.tensor_parallel, "Wo": ("inputs", "queries")}


class Block(Module):
    """Attention and a feed-forward part, each with a norm before it; the first layer's attention has none."""

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        super().__init__()
        kind = config.layer_types[layer]
        heads = config.heads(window=config.local_attention // 2 if kind == SLIDING else None)
        self.attn_norm = biased_norm(config) if layer else None
        self.attn = Attention(layer, config.hidden_size, heads, rotary[kind], bias=config.attention_bias)
        self.mlp_norm = biased_norm(config)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.attn(x if self.attn_norm is None else self.attn_norm(x), text, x)
        return self.mlp(self.mlp_norm(x), x)


class Stack(DecoderStack):
    """The decoder, whose words are normalised."""

    tokens, last_norm = "embeddings", "final_norm"

    def __init__(self, config: Config) -> None:
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in sorted({*config.layer_types})}
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config.vocab_size, config.hidden_size, blocks, biased_norm(config))
        self.embeddings = NormedEmbedding(config)

    @property
    def tensor_parallel(self) -> dict[str, tuple[str, ...]]:
        """Nothing of its own: `embeddings` says how its table is divided."""
        return {}

    @property
    def embedding(self) -> Embedding:
        found: Embedding = self.embeddings.tok_embeddings
        return found

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.embeddings(tokens)


class ModernBertDecoderForCausalLM(CausalLanguageModel):
    """The language model."""

    tensor_parallel = {"decoder": ("vocabulary",)}

    def __init__(self, config: Config) -> None:
        super().__init__(config, Stack(config))
        self.lm_head: Module = Prediction(config)
        self.decoder = Linear(config.hidden_size, config.vocab_size, bias=config.decoder_bias)
        if config.tie_word_embeddings:
            self.decoder.weight = self.embedding.weight

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return self.decoder(self.lm_head(self.stack.normalized(x)))


class ModernBertDecoderForSequenceClassification(DecoderEncoder):
    """Scores of the labels of a text, or of a pair of texts, of its last token."""

    def __init__(self, config: Config) -> None:
        super().__init__(ModernBertDecoderForCausalLM(config))
        self.add_module("head", Prediction(config))
        self.classifier = Linear(config.hidden_size, len(config.labels), bias=config.classifier_bias)

    @property
    def encoder(self) -> Encoder:
        """What reads the texts."""
        return self

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → logits (B, labels)."""
        x = last_token(super().forward(ids, attention_mask), attention_mask)
        return self.classifier(self.get_submodule("head")(x))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "causal-lm": ModernBertDecoderForCausalLM,
    "sequence-classification": ModernBertDecoderForSequenceClassification,
}
