"""UltraBERT (DMIS Lab 2026, https://huggingface.co/dmis-lab/UltraBERT-150M): Llama's blocks as an encoder, with
attention within a window, and rotary positions of its own, in two of three layers.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, GatedFeedForward, Linear, Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    Headed,
    TokenLabelsHead,
    Words,
    first_token,
    headed,
    mean_of_tokens,
)  # fmt: skip
from pyapp.nn.encoders.rotary_encoder import NormFirstRotaryEncoder, RotaryAttention

from .loading.config import FULL, SLIDING, DecoderConfig, check_padding, layer_types, require
from .loading.labels import Labelled

MODEL_TYPES = ("ultrabert",)
BASE = "model"  # the encoder's name in files with a head
THETA = {SLIDING: 10_000.0, FULL: 2_560_000.0}  # of the rotary positions that a config.json leaves out


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, DecoderConfig):
    """The fields of config.json. sliding_window: how far away tokens are to which one attends in layers with a
    window. classifier_pooling: what a text's labels are scores of: its first token, or the mean of all.
    """

    model_type = "ultrabert"
    defaults = {"max_position_embeddings": 32768, "pad_token_id": 0}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int = 128
    layer_types: list[str]
    prediction_head_size: int = 768
    pad_token_id: int | None = None
    classifier_pooling: str = "cls"
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, also of those that say a window and a base of rotary angles by layer."""
        windows, bases = values.get("attention_windows"), values.get("rope_theta")
        own: dict[str, Any] = {}
        if windows is not None:
            known = isinstance(windows, list) and all(one is None or type(one) is int for one in windows)
            require(known, f"attention_windows is {windows!r:.60}, expected a number or null for each layer")
            own["sliding_window"] = next((one for one in windows if one), values.get("sliding_window", 128))
            own["layer_types"] = values.get("layer_types") or [SLIDING if one else FULL for one in windows]
        if isinstance(bases, list):
            own["rope_theta"] = None
        kinds = own.get("layer_types", values.get("layer_types")) or []
        if values.get("rope_parameters") is None:
            theta = THETA | (dict(zip(kinds, bases, strict=False)) if isinstance(bases, list) else {})
            own["rope_parameters"] = {
                kind: {"rope_type": "default", "rope_theta": theta[kind]} for kind in (SLIDING, FULL)
            }
        return super().from_dict({**values, **own})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers."""
        rotary = values["rope_parameters"]
        both = {SLIDING: rotary, FULL: rotary} if "rope_type" in rotary else rotary
        kinds = layer_types(values, lambda layer: (layer + 1) % 3 != 0)
        return values | {"layer_types": kinds, "rope_parameters": both}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)
        missing = {*self.layer_types} - {*self.rope_parameters}
        require(not missing, f"rope_parameters has none of {', '.join(sorted(missing))}")
        pooling = self.classifier_pooling
        require(pooling in ("cls", "mean"), f"classifier_pooling is {pooling!r:.40}, expected cls or mean")


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, kind: str) -> None:
        super().__init__()
        size, epsilon, self.kind = config.hidden_size, config.rms_norm_eps, kind
        heads = config.heads(window=config.sliding_window if kind == SLIDING else None)
        self.self_attn = RotaryAttention(size, heads, config.attention_bias)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, mask: Tensor | None, tables: Mapping[str, Tensor]) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.self_attn(self.input_layernorm(x), mask, tables[self.kind], x)
        return self.mlp(self.post_attention_layernorm(x), x)


class UltraBert(NormFirstRotaryEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        blocks = (Block(config, kind) for kind in config.layer_types)
        super().__init__(config, blocks, RMSNorm(config.hidden_size, config.rms_norm_eps))

    def rotary_tables(self) -> dict[str, RotaryTable]:
        return {kind: RotaryTable(self.config.to_dict(), kind) for kind in sorted({*self.config.layer_types})}

    def tables(self, length: int) -> dict[str, Tensor]:
        return {kind: table.upto(length, self.device) for kind, table in self.rotary.items()}


class Prediction(Module):
    """Scores of all words after two linear layers with activations."""

    def __init__(self, config: Config, table: Embedding | None) -> None:
        super().__init__()
        self.linear1 = Linear(config.hidden_size, config.prediction_head_size, bias=False)
        self.linear2 = Linear(config.prediction_head_size, config.hidden_size, bias=False)
        self.decoder = Words(config.hidden_size, config.vocab_size, table, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, V)."""
        return self.decoder(ops.gelu(self.linear2(ops.gelu(self.linear1(x), "tanh")), "tanh"))


class UltraBertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, UltraBert(config))
        table = self.encoder.word_embeddings if config.tie_word_embeddings else None
        self.add_module("head", Prediction(config, table))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        found: Tensor = self._modules["head"](x)
        return found


class UltraBertForSequenceClassification(TokenLabelsHead):
    """Scores of the labels of a text, or of a pair of texts."""

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        first = self.config.classifier_pooling == "cls"
        return super().scores(first_token(x) if first else mean_of_tokens(x, attention_mask), attention_mask)


def renamed(name: str) -> str:
    """The parameter of a file's tensor: files call the encoder ultrabert, and the last layer of the head for words
    cls.
    """
    if name.startswith("cls."):
        return f"head.decoder.{name.removeprefix('cls.')}"
    return f"{BASE}.{name.removeprefix('ultrabert.')}" if name.startswith("ultrabert.") else name


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": UltraBert,
    "masked-lm": UltraBertForMaskedLM,
    "sequence-classification": headed(UltraBertForSequenceClassification, BASE, UltraBert),
    "token-classification": headed(TokenLabelsHead, BASE, UltraBert),
    "question-answering": headed(AnswersHead, BASE, UltraBert),
}
