"""Funnel-Transformer (Dai et al. 2020, arXiv 2006.03236): blocks of layers, each over half the tokens of the one
before; a decoder repeats the last states for each token again. Attention is Transformer-XL's (Dai et al. 2019, arXiv
1901.02860).

Parameters have the names of Hugging Face's files.
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
    Words,
    first_token,
    headed,
    one_label,
    visible_keys,
)
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.positions.sinusoids import MAX_TIMESCALE

from .loading.config import DEEPEST, FileConfig, check_padding, require
from .loading.labels import Labelled

MODEL_TYPES = ("funnel",)
BASE = "funnel"  # the encoder's name in files with a head
LONGEST = 1 << 16  # tokens; the positions have no limit
OF_BOTH = 2  # the type of the first token, which is of both texts of a pair
MOST_BLOCKS = 16
KINDS = {"pooling_type": ("mean", "max"), "attention_type": ("relative_shift", "factorized")}


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, FileConfig):
    """The hyper-parameters, by the names of config.json. block_repeats: how often each layer of a block is applied.
    Both forms of attention_type give the same scores.
    """

    model_type = "funnel"

    vocab_size: int
    block_sizes: list[int] | tuple[int, ...] = (4, 4, 4)
    block_repeats: list[int] | tuple[int, ...] | None = None
    num_decoder_layers: int = 2
    d_model: int = 768
    n_head: int = 12
    d_head: int = 64
    d_inner: int = 3072
    hidden_act: str = "gelu_new"
    layer_norm_eps: float = 1e-9
    pooling_type: str = "mean"
    attention_type: str = "relative_shift"
    separate_cls: bool = True
    truncate_seq: bool = True
    pool_q_only: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = None
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("block_sizes", "repeats"):
            counts = getattr(self, name)
            require(
                1 <= len(counts) <= MOST_BLOCKS and all(type(one) is int and one >= 1 for one in counts),
                f"{name} is {list(counts)!r:.60}, expected 1 to {MOST_BLOCKS} whole numbers above 0",
            )
        layers = sum(size * times for size, times in zip(self.block_sizes, self.repeats, strict=False))
        require(
            len(self.repeats) == len(self.block_sizes) and layers <= DEEPEST,
            f"block_repeats {list(self.repeats)!r:.60} do not fit block_sizes {list(self.block_sizes)!r:.60}",
        )
        for name, known in KINDS.items():
            require(getattr(self, name) in known, f"{name} is {getattr(self, name)!r:.40}, expected {known}")
        require(self.d_model % 2 == 0, f"d_model is {self.d_model}, expected an even number")
        check_padding(self.pad_token_id, self.vocab_size)

    @property
    def hidden_size(self) -> int:
        """The width of the hidden states."""
        return self.d_model

    @property
    def repeats(self) -> list[int] | tuple[int, ...]:
        """How often each layer of a block is applied."""
        return [1] * len(self.block_sizes) if self.block_repeats is None else self.block_repeats


@dataclass(frozen=True)
class Places:
    """Where the tokens of a block are in the text: the first at `first`, the others `step` apart from it; and the token
    of the text (T,) whose type each has, and which of them are not padding (B, T), None: all.
    """

    first: int
    step: int
    tokens: Tensor
    mask: Tensor | None

    @property
    def count(self) -> int:
        """T."""
        return self.tokens.shape[0]


class Embeddings(Module):
    """The vectors of words, normalised; positions and types are in the scores of attention."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.layer_norm = LayerNorm(config.d_model, config.layer_norm_eps)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) → (B, T, D)."""
        return self.layer_norm(self.word_embeddings(ids))


class RelativeAttention(Module):
    """Attention whose scores are of the keys, of their distance, and of whether they are of the same text."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, heads, size = config.d_model, config.n_head, config.d_head
        self.heads, self.size, self.separate = heads, size, config.separate_cls
        self.q_head = Linear(width, heads * size, bias=False)
        self.k_head = Linear(width, heads * size)
        self.v_head = Linear(width, heads * size)
        for name in ("r_w_bias", "r_r_bias", "r_s_bias"):
            self.register_parameter(name, new_parameter(ops.zeros, heads, size))
        self.r_kernel = new_parameter(ops.zeros, width, heads, size)
        self.seg_embed = new_parameter(ops.zeros, 2, heads, size)
        self.post_proj = ResidualLinear(heads * size, width)
        self.layer_norm = LayerNorm(width, config.layer_norm_eps)

    def forward(self, x: Tensor, seen: Tensor, near: Places, far: Places, types: Tensor) -> Tensor:
        """x (B, T, D) at `near` attends to seen (B, S, D) at `far`; types (B, tokens) of the text → (B, T, D)."""
        scale = self.size**-0.5
        q, k, v = (
            layer(part).reshape(*part.shape[:2], self.heads, self.size).transpose(1, 2)
            for layer, part in ((self.q_head, x), (self.k_head, seen), (self.v_head, seen))
        )  # (B, H, T or S, size)
        bias = [getattr(self, name).unsqueeze(1) for name in ("r_w_bias", "r_r_bias", "r_s_bias")]  # (H, 1, size)
        added = self._of_distances(q + bias[1], near, far) + self._of_texts(q + bias[2], near, far, types)
        if self.separate:  # the first token is nowhere, and of every text
            apart = [ops.arange(place.count, dtype="int32", device=x.device) > 0 for place in (near, far)]
            added = added * apart[0].unsqueeze(1).logical_and(apart[1]).to(added.dtype)
        added = added * scale
        shown = visible_keys(far.mask)
        if shown is not None:
            added = ops.where(shown, added, float("-inf"))
        y = ops.scaled_dot_product_attention(q + bias[0], k, v, added, scale=scale)  # (B, H, T, size)
        return self.layer_norm(self.post_proj(y.transpose(1, 2).reshape(*x.shape[:2], -1), x))

    def _of_distances(self, q: Tensor, near: Places, far: Places) -> Tensor:
        """The scores (B, H, T, S) of distances from queries q (B, H, T, size)."""
        (batch, heads, rows, _), columns = q.shape, far.count
        stride = near.step // far.step  # 1, or 2 where the queries are half as many
        most = near.first - far.first + stride * rows * far.step
        least = near.first - (far.first + (columns - 1) * far.step)
        steps = ops.arange(most, least - 1, -far.step, dtype="float32", device=q.device)  # (M,)
        weight = self.r_kernel.reshape(self.r_kernel.shape[0], -1)
        keys = (
            (_encoded(steps, weight.shape[0]).to(weight.dtype) @ weight).reshape(-1, heads, self.size).transpose(0, 1)
        )  # (H, M, size)
        count = keys.shape[1]
        # A query's own row begins `stride` further left than the one before it.
        x = (q @ keys.transpose(1, 2)).reshape(batch, heads, count, rows).narrow(2, stride, count - stride)
        return x.reshape(batch, heads, rows, count - stride).narrow(3, 0, columns)

    def _of_texts(self, q: Tensor, near: Places, far: Places, types: Tensor) -> Tensor:
        """The scores (B, H, T, S) of whether a key is of the query's text, of queries q (B, H, T, size)."""
        found = q @ self.seg_embed.permute(1, 2, 0)  # (B, H, T, 2)
        apart, same = found.narrow(3, 0, 1), found.narrow(3, 1, 1)
        rows, columns = (ops.index_select(types, 1, place.tokens) for place in (near, far))
        rows, columns = rows.unsqueeze(2), columns.unsqueeze(1)
        alike = (rows == columns).logical_or(rows == OF_BOTH).logical_or(columns == OF_BOTH)  # (B, T, S)
        return apart + (same - apart) * alike.to(q.dtype).unsqueeze(1)


def _encoded(places: Tensor, width: int) -> Tensor:
    """Sines, then cosines of places (N,) at falling frequencies → (N, width)."""
    powers = ops.arange(width // 2, dtype="float32", device=places.device) / (width // 2)
    angles = places.unsqueeze(1) * (powers * -log(MAX_TIMESCALE)).exp()  # (N, width / 2)
    return ops.cat([angles.sin(), angles.cos()], -1)


class FeedForward(Module):
    """layer_norm(x + linear_2(activation(linear_1(x))))."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.linear_1 = Linear(config.d_model, config.d_inner)
        self.linear_2 = ResidualLinear(config.d_inner, config.d_model)
        self.layer_norm = LayerNorm(config.d_model, config.layer_norm_eps)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return self.layer_norm(self.linear_2(self.activation(self.linear_1(x)), x))


class Layer(Module):
    """Attention and a feed-forward part."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = RelativeAttention(config)
        self.ffn = FeedForward(config)

    def forward(self, x: Tensor, seen: Tensor, near: Places, far: Places, types: Tensor) -> Tensor:
        """x (B, T, D), seen (B, S, D) → (B, T, D)."""
        return self.ffn(self.attention(x, seen, near, far, types))


class Blocks(Module):
    """The blocks, each over half the tokens of the one before."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.blocks = ModuleList(ModuleList(Layer(config) for _ in range(size)) for size in config.block_sizes)

    def forward(self, x: Tensor, places: Places, types: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, T, D) at the places of a text → the states of the first block (B, T, D), and of the last one."""
        config, first = self.config, x
        for number, (block, times) in enumerate(zip(self.blocks, config.repeats, strict=True)):
            query, here = x, places
            if number and x.shape[1] > (2 if config.separate_cls else 1):
                query, here = self._halved(x), self._half_as_many(places)
                if not config.pool_q_only:
                    x, places = query, here
            for layer in block:
                for _ in range(times):
                    x = query = layer(query, x, here, places, types)
                    places = here
            first = first if number else x
        return first, x

    def _paired(self, x: Tensor) -> Tensor:
        """x (B, T, ...) with the first token twice and an even number of tokens (B, 2 N, ...)."""
        if self.config.separate_cls:
            rest = x.narrow(1, 0, x.shape[1] - 1) if self.config.truncate_seq else x
            x = ops.cat([x.narrow(1, 0, 1), rest], 1)
        return x if x.shape[1] % 2 == 0 else ops.cat([x, x.narrow(1, x.shape[1] - 1, 1)], 1)

    def _halved(self, x: Tensor) -> Tensor:
        """x (B, T, D) → the mean or the largest of neighbours (B, N, D)."""
        pairs = self._paired(x).unflatten(1, (-1, 2))  # (B, N, 2, D)
        return pairs.mean(2) if self.config.pooling_type == "mean" else pairs.amax(2)

    def _half_as_many(self, places: Places) -> Places:
        """The places of the tokens of the next block. One of which a part is padding counts as padding."""
        mask = None if places.mask is None else self._paired(places.mask).unflatten(1, (-1, 2)).amin(2)
        tokens = self._paired(places.tokens.unsqueeze(0)).unflatten(1, (-1, 2)).select(2, 0).squeeze(0)
        first = places.first - (places.step if self.config.separate_cls else 0)
        return Places(first, 2 * places.step, tokens, mask)


class Upsampling(Module):
    """The decoder: layers over the states of the last block, repeated for each token, and of the first one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.layers = ModuleList(Layer(config) for _ in range(config.num_decoder_layers))

    def forward(self, last: Tensor, first: Tensor, places: Places, types: Tensor) -> Tensor:
        """last (B, N, D), first (B, T, D) → (B, T, D)."""
        x = self._repeated(last, first.shape[1]) + first
        for layer in self.layers:
            x = layer(x, x, places, places, types)
        return x

    def _repeated(self, x: Tensor, tokens: int) -> Tensor:
        """x (B, N, D) → (B, tokens, D); the first token stays one of its own."""
        config = self.config
        times = 2 ** (len(config.block_sizes) - 1)
        if times == 1:
            return x
        alone = 1 if config.separate_cls else 0
        rest = ops.repeat_interleave(x.narrow(1, alone, x.shape[1] - alone), times, 1)
        if alone and config.truncate_seq:
            rest = ops.pad(rest, (0, 0, 0, times - 1))
        return ops.cat([x.narrow(1, 0, alone), rest.narrow(1, 0, tokens - alone)], 1)


class Funnel(Encoder):
    """The encoder; `whole`: with its decoder, so that each token has a state."""

    pooling = "cls"
    hides_padding = False  # neighbours share a state

    def __init__(self, config: Config, whole: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = LONGEST
        self.embeddings = Embeddings(config)
        self.encoder = Blocks(config)
        self.decoder = Upsampling(config) if whole else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D), or (B, N, D) of the last block."""
        self.check(ids, attention_mask, type_ids)
        types = ops.zeros(*ids.shape, dtype="int32", device=ids.device) if type_ids is None else type_ids
        tokens = ops.arange(ids.shape[1], dtype="int32", device=ids.device)
        places = Places(0, 1, tokens, None if attention_mask is None else (attention_mask != 0).to("int32"))
        first, x = self.encoder(self.embeddings(ids), places, types)
        return x if self.decoder is None else self.decoder(x, first, places, types)


class FunnelForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        encoder = Funnel(config)
        super().__init__(BASE, encoder)
        table = encoder.word_embeddings if config.tie_word_embeddings else None
        self.lm_head = Words(config.d_model, config.vocab_size, table)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.lm_head(x)


class Classifier(Module):
    """linear_out(tanh(linear_hidden(x)))."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.linear_hidden = Linear(width, width)
        self.linear_out = Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D) → logits (B, labels)."""
        return self.linear_out(self.linear_hidden(x).tanh())


class FunnelForSequenceClassification(Headed):
    """Scores of the labels of a text, or of a pair of texts, from the first state of the last block."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, Funnel(config, whole=False))
        self.classifier = Classifier(config.d_model, len(config.labels))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, N, D) → logits (B, labels)."""
        return self.classifier(first_token(x))


class FunnelForMultipleChoice(Chooser, FunnelForSequenceClassification):
    """Scores of several texts, of which one is right."""

    def __init__(self, config: Any) -> None:
        super().__init__(one_label(config))


class Replaced(Module):
    """dense_prediction(activation(dense(x))): whether a token was replaced."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = Linear(config.d_model, config.d_model)
        self.dense_prediction = Linear(config.d_model, 1)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T)."""
        return self.dense_prediction(self.activation(self.dense(x))).squeeze(-1)


class FunnelForPreTraining(Headed):
    """The discriminator: above 0 where a token was probably replaced."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, Funnel(config))
        self.discriminator_predictions = Replaced(config)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T)."""
        return self.discriminator_predictions(x)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Funnel,
    "masked-lm": FunnelForMaskedLM,
    "replaced-tokens": FunnelForPreTraining,
    "sequence-classification": FunnelForSequenceClassification,
    "token-classification": headed(TokenLabelsHead, BASE, Funnel),
    "question-answering": headed(AnswersHead, BASE, Funnel),
    "multiple-choice": FunnelForMultipleChoice,
}
