"""ModernBERT (Warner et al. 2024, arXiv 2412.13663): an encoder with rotary positions, gated feed-forward parts, a norm
before each part, and attention within a window in two of three layers.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, Linear, Module, ModuleList, ResidualLinear
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.encoders.encoders import (
    Chooser,
    Encoder,
    Headed,
    Words,
    attend,
    first_token,
    mean_of_tokens,
    one_label,
    visible_keys,
)
from pyapp.nn.encoders.modernbert import FeedForward, NormedEmbedding, Prediction, biased_norm
from pyapp.nn.layers.gated import activation_named

from .loading.config import FileConfig, check_heads, check_padding, read_config, require
from .loading.gguf import ENCODER_KEYS, Gguf, encoder_settings
from .loading.labels import Labelled
from .loading.modernbert_config import FULL, SLIDING, THETA, check_layers, layers_and_angles

MODEL_TYPES = ("modernbert",)
BASE = "model"  # the encoder's name in files with a head


@dataclass(frozen=True)
class Config(Labelled, FileConfig):
    """The hyper-parameters, by the names of config.json. `local_attention` is the width of a window."""

    model_type = "modernbert"

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    layer_types: list[str]
    rope_parameters: dict[str, Any]
    hidden_activation: str = "gelu"
    max_position_embeddings: int = 8192
    norm_eps: float = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    decoder_bias: bool = True
    classifier_bias: bool = False
    classifier_activation: str = "gelu"
    classifier_pooling: str = "cls"
    local_attention: int = 128
    pad_token_id: int | None = None
    tie_word_embeddings: bool = True
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(
            self.hidden_size, self.num_attention_heads, self.num_attention_heads, None, self.max_position_embeddings
        )
        check_layers(self)
        require(
            self.classifier_pooling in ("cls", "mean"),
            f"classifier_pooling {self.classifier_pooling!r:.40} is not known",
        )
        check_padding(self.pad_token_id, self.vocab_size)
        activation_named(self.hidden_activation)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json, also of those that say global_attn_every_n_layers, global_rope_theta and
        local_rope_theta; other keys are ignored.
        """
        types, rotary = layers_and_angles(values)
        return read_config(cls, {**values, "layer_types": types, "rope_parameters": rotary})

    @property
    def head_dim(self) -> int:
        """Features of a head."""
        return self.hidden_size // self.num_attention_heads


class Attention(Module):
    """Multi-head attention with rotary positions, to the whole text or within a window."""

    def __init__(self, config: Config, kind: str) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.window = None if kind == FULL else config.local_attention // 2
        self.Wqkv = Linear(config.hidden_size, 3 * config.hidden_size, bias=config.attention_bias)
        self.Wo = ResidualLinear(config.hidden_size, config.hidden_size, bias=config.attention_bias)

    def forward(self, x: Tensor, residual: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """x and residual (B, T, D) → residual + attention (B, T, D)."""
        batch, tokens, width = x.shape
        qkv = self.Wqkv(x).reshape(batch, tokens, 3 * self.heads, width // self.heads)
        qk = ops.rope(qkv.narrow(2, 0, 2 * self.heads), table, interleaved=False)  # (B, T, 2 H, D / H)
        q, k = (qk.narrow(2, i * self.heads, self.heads) for i in range(2))
        v = qkv.narrow(2, 2 * self.heads, self.heads)
        return self.Wo(attend(q, k, v, mask, window=self.window), residual)


class Block(Module):
    """Attention and a feed-forward part, each with a norm before it; the first layer's attention has none."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.kind = config.layer_types[layer]
        self.attn_norm = biased_norm(config) if layer else None
        self.attn = Attention(config, self.kind)
        self.mlp_norm = biased_norm(config)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, mask: Tensor | None, tables: Mapping[str, Tensor]) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attn(x if self.attn_norm is None else self.attn_norm(x), x, mask, tables[self.kind])
        return self.mlp(self.mlp_norm(x), x)


class ModernBert(Encoder):
    """The encoder. It has no token types: those given are ignored."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = NormedEmbedding(config)
        self.layers = ModuleList(Block(config, i) for i in range(config.num_hidden_layers))
        self.final_norm = biased_norm(config)
        values = config.to_dict()
        self.rotary = {kind: RotaryTable(values, kind) for kind in sorted({*config.layer_types})}

    @property
    def word_embeddings(self) -> Embedding:
        return self.embeddings.tok_embeddings

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask)
        mask = visible_keys(attention_mask)
        tables = {kind: table.upto(ids.shape[1], self.device) for kind, table in self.rotary.items()}
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x, mask, tables)
        return self.final_norm(x)


class ModernBertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, ModernBert(config))
        self.add_module("head", Prediction(config))
        table = self.encoder.word_embeddings if config.tie_word_embeddings else None
        self.decoder = Words(config.hidden_size, config.vocab_size, table, bias=config.decoder_bias)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.decoder(self._modules["head"](x))


class ModernBertForTokenClassification(Headed):
    """Scores of the labels of each token."""

    def __init__(self, config: Config, outputs: int | None = None) -> None:
        super().__init__(BASE, ModernBert(config))
        self.add_module("head", Prediction(config))
        self.classifier = Linear(config.hidden_size, len(config.labels) if outputs is None else outputs)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, labels)."""
        return self.classifier(self._modules["head"](x))


class ModernBertForSequenceClassification(ModernBertForTokenClassification):
    """Scores of the labels of a text, or of a pair of texts."""

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        first = self.config.classifier_pooling == "cls"
        return super().scores(first_token(x) if first else mean_of_tokens(x, attention_mask), attention_mask)


def question_answering(config: Config) -> ModernBertForTokenClassification:
    """Scores of an answer's start and end at each token."""
    return ModernBertForTokenClassification(config, 2)


_PATTERN = "attention.sliding_window_pattern"


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    every, layers = values.get(_PATTERN, 3), found.get("num_hidden_layers")
    if isinstance(every, list):  # for each layer, whether it has a window
        found["layer_types"] = [SLIDING if windowed else FULL for windowed in every[:layers]]
    else:
        found["global_attn_every_n_layers"] = every
    local = {"rope_type": "default", "rope_theta": values.get("rope.freq_base_swa", THETA[SLIDING])}
    found["rope_parameters"] = {FULL: found["rope_parameters"], SLIDING: local}
    tensors = values["tensors"]
    biases = {"norm_bias": "output_norm", "attention_bias": "blk.0.attn_output", "mlp_bias": "blk.0.ffn_down"}
    return encoder_settings(found, values) | {name: f"{part}.bias" in tensors for name, part in biases.items()}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(
        config.hidden_activation == "gelu",
        f"llama.cpp has no ModernBERT with hidden_activation {config.hidden_activation!r:.40}",
    )
    full = [i for i, kind in enumerate(config.layer_types) if kind == FULL]
    every = full[1] if len(full) > 1 else config.num_hidden_layers
    require(
        config.layer_types == [SLIDING if i % every else FULL for i in range(config.num_hidden_layers)],
        "GGUF cannot say layer_types that do not repeat", "Write safetensors",
    )  # fmt: skip
    return {_PATTERN: every, "rope.freq_base_swa": float(config.rope_parameters[SLIDING]["rope_theta"])}


GGUF = Gguf(
    "modern-bert",
    names={
        "embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm",
        "layers.{}.attn_norm": "blk.{}.attn_norm", "layers.{}.attn.Wqkv": "blk.{}.attn_qkv",
        "layers.{}.attn.Wo": "blk.{}.attn_output", "layers.{}.mlp_norm": "blk.{}.ffn_norm",
        "layers.{}.mlp.Wi": "blk.{}.ffn_up", "layers.{}.mlp.Wo": "blk.{}.ffn_down", "final_norm": "output_norm",
    },
    keys=ENCODER_KEYS | {"local_attention": "attention.sliding_window", "norm_eps": "attention.layer_norm_epsilon"},
    read=_from_gguf, write=_to_gguf,
)  # fmt: skip


class ModernBertForMultipleChoice(Chooser, ModernBertForSequenceClassification):
    """Scores of several texts, of which one is right."""

    def __init__(self, config: Config) -> None:
        super().__init__(one_label(config))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": ModernBert,
    "masked-lm": ModernBertForMaskedLM,
    "sequence-classification": ModernBertForSequenceClassification,
    "token-classification": ModernBertForTokenClassification,
    "question-answering": question_answering,
    "multiple-choice": ModernBertForMultipleChoice,
}
