"""EuroBERT (Boizard et al. 2025, arXiv 2503.05500): Llama's blocks as an encoder: tokens attend to the whole text.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import GatedFeedForward, Linear, Module, RMSNorm
from pyapp.nn.encoders.encoders import (
    Headed,
    TokenLabelsHead,
    Words,
    first_token,
    headed,
    mean_of_tokens,
)
from pyapp.nn.encoders.rotary_encoder import NormFirstRotaryEncoder, RotaryAttention
from pyapp.nn.layers.gated import activation_named

from .loading.config import DecoderConfig, check_padding, require
from .loading.gguf import NAMES, Gguf, biases, encoder_settings
from .loading.labels import Labelled

MODEL_TYPES = ("eurobert",)
BASE = "model"  # the encoder's name in files with a head
POOLING = ("bos", "mean", "late")


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, DecoderConfig):
    """The fields of config.json. classifier_pooling: what a label's score is of: the first token, the mean of all, or
    the mean of all tokens' scores.
    """

    model_type = "eurobert"
    defaults = {"max_position_embeddings": 8192, "pad_token_id": 128001}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    pad_token_id: int | None = None
    classifier_pooling: str = "late"
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)
        pooling = self.classifier_pooling
        require(pooling in POOLING, f"classifier_pooling is {pooling!r:.40}, expected one of {', '.join(POOLING)}")


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = RotaryAttention(size, config.heads(), config.attention_bias)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.self_attn(self.input_layernorm(x), mask, table, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class EuroBert(NormFirstRotaryEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        blocks = (Block(config) for _ in range(config.num_hidden_layers))
        super().__init__(config, blocks, RMSNorm(config.hidden_size, config.rms_norm_eps))


class EuroBertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, EuroBert(config))
        table = self.encoder.word_embeddings if config.tie_word_embeddings else None
        self.lm_head = Words(config.hidden_size, config.vocab_size, table, bias=config.mlp_bias)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.lm_head(x)


class EuroBertForSequenceClassification(Headed):
    """Scores of the labels of a text, or of a pair of texts."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, EuroBert(config))
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.classifier = Linear(config.hidden_size, len(config.labels))
        self.activation = activation_named("gelu")

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        pooling = self.config.classifier_pooling
        if pooling == "bos":
            x = first_token(x)
        elif pooling == "mean":
            x = mean_of_tokens(x, attention_mask)
        logits = self.classifier(self.activation(self.dense(x)))
        return mean_of_tokens(logits, attention_mask) if pooling == "late" else logits


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return encoder_settings({"pad_token_id": None} | biases(found, values), values)


def _to_gguf(config: Config) -> dict[str, Any]:
    require(not (config.attention_bias or config.mlp_bias), "llama.cpp has no EuroBERT with biases")
    return {}


GGUF = Gguf(
    "eurobert", read=_from_gguf, write=_to_gguf, unsaid=("classifier_pooling",),
    names={ours.removeprefix("model."): theirs for ours, theirs in NAMES.items()},
)  # fmt: skip
TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": EuroBert,
    "masked-lm": EuroBertForMaskedLM,
    "sequence-classification": EuroBertForSequenceClassification,
    "token-classification": headed(TokenLabelsHead, BASE, EuroBert),
}
