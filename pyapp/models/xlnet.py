"""XLNet (Yang et al. 2019, arXiv 1906.08237) as an encoder of whole texts: Transformer-XL's relative positions (Dai et
al. 2019, arXiv 1901.02860), and scores of whether two tokens are of the same text.

Parameters have the names of Hugging Face's files. The second stream of its training, and memories of earlier texts, are
not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log
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
    first_token,
    headed,
    last_token,
    one_label,
    visible_keys,
)
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter

from .loading.config import FileConfig, check_padding, read_config, require
from .loading.labels import Labelled

MODEL_TYPES = ("xlnet",)
BASE = "transformer"  # the encoder's name in files with a head
LONGEST = 1 << 16  # tokens; the positions have no limit
IGNORED = r"lm_loss\.(weight|bias)"
SUMMARIES = ("last", "first", "mean")


@dataclass(frozen=True)
class Config(Labelled, FileConfig):
    """The hyper-parameters, by the names of config.json. clamp_len: larger distances count as this one; files
    have -1 where there is none.
    """

    model_type = "xlnet"

    vocab_size: int
    d_model: int
    n_layer: int
    n_head: int
    d_inner: int
    ff_activation: str = "gelu"
    layer_norm_eps: float = 1e-12
    attn_type: str = "bi"
    bi_data: bool = False
    clamp_len: int | None = None
    summary_type: str = "last"
    summary_use_proj: bool = True
    summary_activation: str | None = "tanh"
    pad_token_id: int | None = 5
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.d_model % (2 * self.n_head) == 0, f"n_head {self.n_head} and 2 do not divide d_model {self.d_model}"
        )
        require(
            self.attn_type == "bi" and not self.bi_data,
            f"XLNet with attn_type {self.attn_type!r:.40}, bi_data {self.bi_data} is not known",
        )
        require(
            self.summary_type in SUMMARIES and self.summary_use_proj,
            f"XLNet with summary_type {self.summary_type!r:.40}, summary_use_proj {self.summary_use_proj} is not known",
        )
        check_padding(self.pad_token_id, self.vocab_size)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        clamp = values.get("clamp_len")
        none = type(clamp) is int and clamp <= 0
        return read_config(cls, {**values, "clamp_len": None if none else clamp})

    @property
    def hidden_size(self) -> int:
        """The width of the hidden states."""
        return self.d_model


class RelativeAttention(Module):
    """Attention whose scores are of the keys, of their distance, and of whether they are of the same text."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, heads = config.d_model, config.n_head
        self.heads, self.size = heads, width // heads
        for name in "qkvor":
            self.register_parameter(name, new_parameter(ops.zeros, width, heads, self.size))
        for name in ("r_r_bias", "r_s_bias", "r_w_bias"):
            self.register_parameter(name, new_parameter(ops.zeros, heads, self.size))
        self.seg_embed = new_parameter(ops.zeros, 2, heads, self.size)
        self.layer_norm = LayerNorm(width, config.layer_norm_eps)

    def projected(self, x: Tensor, name: str) -> Tensor:
        """(..., T, D) → (..., H, T, D / H)."""
        weight = getattr(self, name)
        y = x @ weight.reshape(weight.shape[0], -1)
        return y.reshape(*y.shape[:-1], self.heads, self.size).transpose(-2, -3)

    def forward(self, x: Tensor, mask: Tensor | None, distances: Tensor, other: Tensor | None) -> Tensor:
        """x (B, T, D), mask (B, 1, T, T), distances (2 T, D) of T to 1 - T, other (B, 1, T, T): 1 for tokens of
        different texts → (B, T, D).
        """
        tokens, scale = x.shape[1], self.size**-0.5
        q, k, v = (self.projected(x, name) for name in "qkv")  # (B, H, T, D / H)
        bias = [getattr(self, name).unsqueeze(1) for name in ("r_w_bias", "r_r_bias", "r_s_bias")]  # (H, 1, D / H)
        far = (q + bias[1]) @ self.projected(distances.to(q.dtype), "r").transpose(-1, -2)  # (B, H, T, 2 T)
        batch = far.shape[0]
        far = far.reshape(batch, self.heads, 2 * tokens, tokens).narrow(2, 1, 2 * tokens - 1)
        far = far.reshape(batch, self.heads, tokens, 2 * tokens - 1).narrow(3, 0, tokens)  # (B, H, T, T)
        if other is not None:
            texts = (q + bias[2]) @ self.seg_embed.permute(1, 2, 0)  # (B, H, T, 2)
            same, apart = texts.narrow(3, 0, 1), texts.narrow(3, 1, 1)
            far = far + same + (apart - same) * other
        added = far * scale
        if mask is not None:
            added = ops.where(mask, added, float("-inf"))
        y = ops.scaled_dot_product_attention(q + bias[0], k, v, added, scale=scale)  # (B, H, T, D / H)
        y = y.transpose(1, 2).reshape(*x.shape)
        return self.layer_norm(y @ self.o.reshape(self.o.shape[0], -1).T + x)


class FeedForward(Module):
    """layer_norm(x + layer_2(activation(layer_1(x))))."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layer_norm = LayerNorm(config.d_model, config.layer_norm_eps)
        self.layer_1 = Linear(config.d_model, config.d_inner)
        self.layer_2 = ResidualLinear(config.d_inner, config.d_model)
        self.activation = activation_named(config.ff_activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return self.layer_norm(self.layer_2(self.activation(self.layer_1(x)), x))


class Layer(Module):
    """Attention and a feed-forward part."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.rel_attn = RelativeAttention(config)
        self.ff = FeedForward(config)

    def forward(self, x: Tensor, mask: Tensor | None, distances: Tensor, other: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.ff(self.rel_attn(x, mask, distances, other))


class XLNet(Encoder):
    """The encoder."""

    pooling = "lasttoken"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = LONGEST
        self.word_embedding = Embedding(config.vocab_size, config.d_model)
        self.mask_emb = new_parameter(ops.zeros, 1, 1, config.d_model)  # of the second stream
        self.layer = ModuleList(Layer(config) for _ in range(config.n_layer))

    @property
    def word_embeddings(self) -> Embedding:
        return self.word_embedding

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        tokens, clamp = ids.shape[1], self.config.clamp_len
        places = ops.arange(tokens, -tokens, -1, dtype="float32", device=ids.device)  # (2 T,)
        places = places if clamp is None else places.clamp(-clamp, clamp)
        distances = _encoded(places, self.config.d_model)
        mask = visible_keys(attention_mask)
        if mask is not None:  # padding sees itself
            own = ops.arange(tokens, dtype="int32", device=ids.device)
            mask = mask | (own.unsqueeze(0) == own.unsqueeze(1))  # (B, 1, T, T)
        other = None
        if type_ids is not None:
            other = (type_ids.unsqueeze(1) != type_ids.unsqueeze(2)).to("float32").unsqueeze(1)  # (B, 1, T, T)
        x = self.word_embedding(ids)
        for layer in self.layer:
            x = layer(x, mask, distances, other)
        return x


def _encoded(places: Tensor, width: int) -> Tensor:
    """Sines, then cosines of places (N,) at falling frequencies → (N, width)."""
    powers = ops.arange(0, width, 2, dtype="float32", device=places.device) / width
    angles = places.unsqueeze(1) * (powers * -log(10000.0)).exp()  # (N, width / 2)
    return ops.cat([angles.sin(), angles.cos()], -1)


class XLNetForSequenceClassification(Headed):
    """Scores of the labels of a text, or of a pair of texts, of its last token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, XLNet(config))
        self.sequence_summary = Module()
        self.sequence_summary.summary = Linear(config.d_model, config.d_model)
        self.logits_proj = Linear(config.d_model, len(config.labels))
        self.activation = activation_named(config.summary_activation or "linear")

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        kind = self.config.summary_type
        if kind == "mean":
            x = x.mean(1)
        else:
            x = first_token(x) if kind == "first" else last_token(x, attention_mask)
        return self.logits_proj(self.activation(self.sequence_summary.summary(x)))


class XLNetForMultipleChoice(Chooser, XLNetForSequenceClassification):
    """Scores of several texts, of which one is right."""

    def __init__(self, config: Config) -> None:
        super().__init__(one_label(config))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": XLNet,
    "sequence-classification": XLNetForSequenceClassification,
    "token-classification": headed(TokenLabelsHead, BASE, XLNet),
    "question-answering": headed(AnswersHead, BASE, XLNet),
    "multiple-choice": XLNetForMultipleChoice,
}
