"""XLM (Conneau and Lample 2019, arXiv 1901.07291) and FlauBERT (Le et al. 2019, arXiv 1912.05372): encoders whose files
keep the parts of all layers in lists, and whose padding is zeros in every layer. Files for several languages have a
table of them, which counts only for texts whose language is given: here it is not.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList, ResidualLinear
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    Chooser,
    Encoder,
    Headed,
    TokenLabelsHead,
    Words,
    attend,
    first_token,
    headed,
    visible_keys,
)
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.joined import JoinedLinear

from .loading.config import FileConfig, check_divides, check_padding, read_config, require
from .loading.labels import Labelled

MODEL_TYPES = ("xlm", "flaubert")
BASE = "transformer"  # the encoder's name in files with a head
IGNORED = r"(transformer\.)?position_ids"
# Fields that older files call otherwise.
NAMES = {"n_words": "vocab_size", "pad_index": "pad_token_id"}


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, FileConfig):
    """The hyper-parameters, by the names of config.json. pre_norm: norms stand before attention and feed-forward parts
    (a FlauBERT's).
    """

    model_type = MODEL_TYPES[0]

    vocab_size: int
    emb_dim: int = 2048
    n_layers: int = 12
    n_heads: int = 16
    gelu_activation: bool = True
    causal: bool = False
    pre_norm: bool = False
    n_langs: int = 1
    use_lang_emb: bool = True
    max_position_embeddings: int = 512
    layer_norm_eps: float = 1e-12
    summary_activation: str | None = None
    pad_token_id: int | None = 2
    tie_word_embeddings: bool = True
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.emb_dim <= 1 << 16, f"emb_dim is {self.emb_dim:,}, expected at most 65,536")
        check_divides(self, "n_heads", "emb_dim")
        require(self.n_langs <= 1 << 12, f"n_langs is {self.n_langs:,}, expected at most 4,096")
        check_padding(self.pad_token_id, self.vocab_size)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored. ModelError for what is not supported."""
        given = {NAMES[name]: value for name, value in values.items() if name in NAMES} | dict(values)
        usual = {"asm": False, "is_encoder": True, "summary_type": "first", "summary_use_proj": True}
        for name, wanted in (usual | {"summary_proj_to_labels": True}).items():
            own = values.get(name, wanted)
            require(own == wanted, f"XLM with {name} {own!r:.40} is not known, expected {wanted!r}")
        french = values.get("model_type") == FlaubertConfig.model_type
        return read_config(FlaubertConfig, given) if french else read_config(cls, {**given, "pre_norm": False})

    @property
    def hidden_size(self) -> int:
        """The width of the hidden states."""
        return self.emb_dim


class FlaubertConfig(Config):
    """As Config, of FlauBERT."""

    model_type = MODEL_TYPES[1]


class Attention(Module):
    """Attention of the tokens of a text to each other, or only to those before them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.emb_dim
        self.heads, self.causal = config.n_heads, config.causal
        self.q_lin, self.k_lin, self.v_lin = (Linear(width, width) for _ in range(3))
        self.out_lin = ResidualLinear(width, width)
        self.joined = JoinedLinear("q_lin", "k_lin", "v_lin")

    def forward(self, x: Tensor, residual: Tensor, mask: Tensor | None) -> Tensor:
        """x and residual (B, T, D), mask (B, 1, 1, T) → residual + attention (B, T, D)."""
        qkv = self.joined(self, x).reshape(*x.shape[:2], 3 * self.heads, x.shape[2] // self.heads)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads) for i in range(3))  # (B, T, H, D / H)
        # Padding is after a text, so that no token of a causal model sees it.
        return self.out_lin(attend(q, k, v, None if self.causal else mask, causal=self.causal), residual)


class XLM(Encoder):
    """The encoder."""

    pooling = "cls"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        width, layers, epsilon = config.emb_dim, range(config.n_layers), config.layer_norm_eps
        self.position_embeddings = Embedding(config.max_position_embeddings, width)
        several = config.n_langs > 1 and config.use_lang_emb
        self.lang_embeddings = Embedding(config.n_langs, width) if several else None
        self.embeddings = Embedding(config.vocab_size, width, config.pad_token_id)
        self.layer_norm_emb = LayerNorm(width, epsilon)
        kind = "gelu" if config.gelu_activation else "relu"
        self.attentions = ModuleList(Attention(config) for _ in layers)
        self.layer_norm1 = ModuleList(LayerNorm(width, epsilon) for _ in layers)
        self.ffns = ModuleList(FeedForward(width, 4 * width, kind, names=("lin1", "lin2")) for _ in layers)
        self.layer_norm2 = ModuleList(LayerNorm(width, epsilon) for _ in layers)

    @property
    def word_embeddings(self) -> Embedding:
        return self.embeddings

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D); type_ids (B, T) are not read."""
        self.check(ids, attention_mask, type_ids)
        mask = visible_keys(attention_mask)
        x = self.embeddings(ids) + self.position_embeddings(ops.arange(ids.shape[1], dtype="int32", device=ids.device))
        x = self.layer_norm_emb(x)
        kept = None if attention_mask is None else (attention_mask != 0).to(x.dtype).unsqueeze(2)  # (B, T, 1)
        x = x if kept is None else x * kept
        parts = zip(self.attentions, self.layer_norm1, self.ffns, self.layer_norm2, strict=True)
        for attention, first, feed_forward, second in parts:
            if self.config.pre_norm:
                x = attention(first(x), x, mask)
                x = feed_forward(second(x), x)
            else:
                x = first(attention(x, x, mask))
                x = second(feed_forward(x, x))
            x = x if kept is None else x * kept
        return x


class XLMWithWords(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        encoder = XLM(config)
        super().__init__(BASE, encoder)
        table = encoder.embeddings if config.tie_word_embeddings else None
        self.pred_layer = Module()
        self.pred_layer.proj = Words(config.emb_dim, config.vocab_size, table)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.pred_layer.proj(x)


class XLMForSequenceClassification(Headed):
    """Scores of the labels of a text, or of a pair of texts, of its first token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, XLM(config))
        self.sequence_summary = Module()
        self.sequence_summary.summary = Linear(config.emb_dim, len(config.labels))
        self.activation = activation_named(config.summary_activation or "linear")

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        return self.activation(self.sequence_summary.summary(first_token(x)))


class XLMForMultipleChoice(Chooser, XLMForSequenceClassification):
    """Scores of several texts, of which one is right, by the scores of their labels."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.logits_proj = Linear(len(config.labels), 1)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → scores (B, 1)."""
        return self.logits_proj(super().scores(x, attention_mask))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": XLM,
    "masked-lm": XLMWithWords,
    "sequence-classification": XLMForSequenceClassification,
    "token-classification": headed(TokenLabelsHead, BASE, XLM),
    "question-answering": headed(AnswersHead, BASE, XLM),
    "multiple-choice": XLMForMultipleChoice,
}
