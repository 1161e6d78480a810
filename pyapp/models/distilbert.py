"""DistilBERT (Sanh et al. 2019, arXiv 1910.01108): BERT with half of the layers, without token types and pooler.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    Chooser,
    Encoder,
    Headed,
    Layers,
    TokenLabelsHead,
    Words,
    attend_joined,
    first_token,
    headed,
    one_label,
    visible_keys,
)
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.joined import JoinedLinear

from .loading.config import FileConfig, check_divides, check_padding, require
from .loading.gguf import WITHOUT_TYPES, Gguf, encoder_settings
from .loading.labels import Labelled

EPSILON = 1e-12  # of all norms

MODEL_TYPES = ("distilbert",)
BASE = "distilbert"  # the encoder's name in files with a head


@dataclass(frozen=True)
class Config(Labelled, FileConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "distilbert"

    vocab_size: int
    dim: int
    n_layers: int
    n_heads: int
    hidden_dim: int
    activation: str = "gelu"
    max_position_embeddings: int = 512
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)
        check_divides(self, "n_heads", "dim")

    @property
    def hidden_size(self) -> int:
        """The width of the hidden states."""
        return self.dim


class Embeddings(Module):
    """The sum of a token's word and position, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.dim, config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, config.dim)
        self.LayerNorm = LayerNorm(config.dim, EPSILON)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) → (B, T, D)."""
        positions = ops.arange(ids.shape[1], dtype="int32", device=ids.device)  # (T,)
        return self.LayerNorm(self.word_embeddings(ids) + self.position_embeddings(positions))


class Attention(Module):
    """Multi-head attention of each text to itself."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.n_heads
        self.q_lin = Linear(config.dim, config.dim)
        self.k_lin = Linear(config.dim, config.dim)
        self.v_lin = Linear(config.dim, config.dim)
        self.out_lin = ResidualLinear(config.dim, config.dim)
        self.qkv = JoinedLinear("q_lin", "k_lin", "v_lin")

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → x + attention (B, T, D)."""
        return self.out_lin(attend_joined(self.qkv(self, x), self.heads, mask), x)


class FeedForward(Module):
    """Two linear layers with an activation between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.activation = activation_named(config.activation)
        self.lin1 = Linear(config.dim, config.hidden_dim)
        self.lin2 = ResidualLinear(config.hidden_dim, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → x + feed-forward (B, T, D)."""
        return self.lin2(self.activation(self.lin1(x)), x)


class Block(Module):
    """Attention and a feed-forward part, each followed by a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.sa_layer_norm = LayerNorm(config.dim, EPSILON)
        self.ffn = FeedForward(config)
        self.output_layer_norm = LayerNorm(config.dim, EPSILON)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.sa_layer_norm(self.attention(x, mask))
        return self.output_layer_norm(self.ffn(x))


class DistilBert(Encoder):
    """The encoder. It has no token types: those given are ignored."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = Embeddings(config)
        self.transformer = Layers(Block(config) for _ in range(config.n_layers))

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask)
        return self.transformer(self.embeddings(ids), visible_keys(attention_mask))


class DistilBertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__("distilbert", DistilBert(config))
        self.activation = activation_named(config.activation)
        self.vocab_transform = Linear(config.dim, config.dim)
        self.vocab_layer_norm = LayerNorm(config.dim, EPSILON)
        table = self.encoder.word_embeddings if config.tie_word_embeddings else None
        self.vocab_projector = Words(config.dim, config.vocab_size, table)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        x = self.vocab_layer_norm(self.activation(self.vocab_transform(x)))
        return self.vocab_projector(x)


class DistilBertForSequenceClassification(Headed):
    """Scores of the labels of a text, or of a pair of texts."""

    def __init__(self, config: Config) -> None:
        super().__init__("distilbert", DistilBert(config))
        self.pre_classifier = Linear(config.dim, config.dim)
        self.classifier = Linear(config.dim, len(config.labels))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        return self.classifier(ops.relu(self.pre_classifier(first_token(x))))


class DistilBertForMultipleChoice(Chooser, DistilBertForSequenceClassification):
    """Scores of several texts, of which one is right."""

    def __init__(self, config: Config) -> None:
        super().__init__(one_label(config))


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.activation == "gelu", f"llama.cpp has no DistilBERT with the activation {config.activation!r:.40}")
    return {"attention.layer_norm_epsilon": EPSILON}


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    epsilon = values.get("attention.layer_norm_epsilon", EPSILON)
    same = type(epsilon) in (int, float) and abs(epsilon - EPSILON) < 1e-3 * EPSILON
    require(same, f"a BERT without token types has the layer_norm_epsilon {EPSILON}, not {epsilon!r:.40}")
    return encoder_settings(found, values)


GGUF = Gguf(
    "bert",
    names={
        "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
        "embeddings.LayerNorm": "token_embd_norm",
        "transformer.layer.{}.attention.q_lin": "blk.{}.attn_q",
        "transformer.layer.{}.attention.k_lin": "blk.{}.attn_k",
        "transformer.layer.{}.attention.v_lin": "blk.{}.attn_v",
        "transformer.layer.{}.attention.out_lin": "blk.{}.attn_output",
        "transformer.layer.{}.sa_layer_norm": "blk.{}.attn_output_norm",
        "transformer.layer.{}.ffn.lin1": "blk.{}.ffn_up", "transformer.layer.{}.ffn.lin2": "blk.{}.ffn_down",
        "transformer.layer.{}.output_layer_norm": "blk.{}.layer_output_norm",
    },
    keys={
        "max_position_embeddings": "context_length", "dim": "embedding_length", "n_layers": "block_count",
        "hidden_dim": "feed_forward_length", "n_heads": "attention.head_count",
    },
    read=_from_gguf, write=_to_gguf, index=WITHOUT_TYPES.format("bert"),
)  # fmt: skip
TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": DistilBert,
    "masked-lm": DistilBertForMaskedLM,
    "sequence-classification": DistilBertForSequenceClassification,
    "token-classification": headed(TokenLabelsHead, BASE, DistilBert),
    "question-answering": headed(AnswersHead, BASE, DistilBert),
    "multiple-choice": DistilBertForMultipleChoice,
}
