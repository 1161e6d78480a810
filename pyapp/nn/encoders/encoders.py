"""The common parts of encoders: self-attention of whole texts, the parts of BERT's layer, and heads for labels.

An encoder computes hidden states (B, T, D) of tokens (B, T). `attention_mask` (B, T) is 0 where a token is padding,
which no token attends to. Dropout is not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...engine import Device, Tensor, ops
from ...engine.user_errors import describe
from ...errors import ArgumentError, InputError
from ..layers.containers import ModuleList
from ..layers.embedding import Embedding
from ..layers.gated import activated, activation_named
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter


def visible_keys(attention_mask: Tensor | None) -> Tensor | None:
    """(B, T) numbers, 0 for padding → (B, 1, 1, T) bool, True where a key is a token; None: everywhere."""
    if attention_mask is None:
        return None
    return (attention_mask != 0).reshape(attention_mask.shape[0], 1, 1, attention_mask.shape[1])


def until(ends: Sequence[int], most: int, device: Device) -> Tensor:
    """(B, most) bool: the places before the end of each row."""
    return ops.arange(most, dtype="int32", device=device) < ops.tensor(
        list(ends), dtype="int32", device=device
    ).unsqueeze(1)


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None = None, window: int | None = None,
    causal: bool = False,
) -> Tensor:  # fmt: skip
    """Attention of q (B, T, H, D) to all of k and v (B, S, H, D) → (B, T, H * D). mask: broadcasts to (B, H, T, S),
    bool (True: visible) or floats that are added to the scores. window: only to keys at most so far away. causal, with
    neither of them: only to keys up to its own place.
    """
    if mask is None and window is None:
        y = ops.attention(q, k, v, causal, scale)  # (B, T, H, D)
    else:
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = ops.scaled_dot_product_attention(q, k, v, mask, scale=scale, window=window)
        y = y.transpose(1, 2)  # (B, T, H, D)
    return y.reshape(*y.shape[:2], y.shape[2] * y.shape[3])


def attend_joined(
    qkv: Tensor, heads: int, mask: Tensor | None, scale: float | None = None, causal: bool = False
) -> Tensor:
    """Attention of [q, k, v] (B, T, 3 * H * D) within each text → (B, T, H * D), as `attend`."""
    batch, tokens, width = qkv.shape
    x = qkv.reshape(batch, tokens, 3 * heads, width // (3 * heads))
    q, k, v = (x.narrow(2, i * heads, heads) for i in range(3))  # (B, T, H, D)
    return attend(q, k, v, mask, scale, causal=causal)


def positions_from(ids: Tensor, padding: int) -> Tensor:
    """The positions (B, T) of RoBERTa: the tokens that are not padding count from `padding` + 1, padding has
    `padding`.
    """
    own = (ids != padding).to("int32")
    return own.cumsum(1).to("int32") * own + padding


def as_bias(mask: Tensor | None, bias: Tensor) -> Tensor:
    """Floats to add to the scores: `bias` (1, H, T, S), minus infinity where the mask (B, 1, 1, S) hides a key."""
    return bias if mask is None else ops.where(mask, bias, float("-inf"))


class Encoder(Module):
    """An encoder. A subclass sets `config`, `most`, the largest number of tokens of a text, and `embeddings`, or has
    `word_embeddings` of its own. `pooling`: how the tokens become one vector where no file says it.
    `adds_special_tokens`: whether texts are read with the tokenizer's special tokens around them. `adds_end`: whether
    the tokenizer's end of texts is written after each. `hides_padding`: whether a text has the same states beside a
    longer one.
    """

    config: Any
    most: int
    pooling = "mean"
    adds_special_tokens = True
    adds_end = False
    hides_padding = True

    @property
    def word_embeddings(self) -> Embedding:
        """The table of tokens."""
        found: Embedding = self.embeddings.word_embeddings
        return found

    @property
    def device(self) -> Device:
        """The device on which the encoder computes."""
        return self.word_embeddings.weight.device

    def check(self, ids: Tensor, attention_mask: Tensor | None, type_ids: Tensor | None = None) -> None:
        """InputError for ids that are not (B, T) with T from 1 to `most`, and for a mask or type ids of another
        shape.
        """
        if ids.ndim != 2 or not 1 <= ids.shape[1] <= self.most:
            raise InputError(f"{type(self).__name__}: ids are (B, T) with T from 1 to {self.most}, not {describe(ids)}")
        for name, given in (("attention_mask", attention_mask), ("type_ids", type_ids)):
            if given is not None and given.shape != ids.shape:
                raise ArgumentError(f"{type(self).__name__}: {name} is {describe(given)}, the ids {describe(ids)}")


# -- BERT's layer (Devlin et al. 2018, arXiv 1810.04805): a norm after each residual


class SelfAttention(Module):
    """Multi-head attention of each text, or each picture's patches, to itself."""

    def __init__(self, width: int, heads: int, bias: bool = True, key_bias: bool | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(width, width, bias)
        self.key = Linear(width, width, bias if key_bias is None else key_bias)
        self.value = Linear(width, width, bias)
        self.joined = JoinedLinear("query", "key", "value")

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return attend_joined(self.joined(self, x), self.heads, mask)


class BertEmbeddings(Module):
    """The sum of a token's word, position and type, normalised. `config` has BERT's fields.

    width: of the vectors; None: hidden_size. more: positions beyond those of max_position_embeddings. skips_padding:
    the positions are RoBERTa's (`positions_from`).
    """

    def __init__(
        self, config: Any, width: int | None = None, *, more: int = 0, skips_padding: bool = False
    ) -> None:  # fmt: skip
        super().__init__()
        width = config.hidden_size if width is None else width
        self.skipped = config.pad_token_id if skips_padding else None
        self.word_scale: float | None = None  # of the words' vectors, in models that scale them
        self.word_embeddings = Embedding(config.vocab_size, width, config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings + more, width, self.skipped)
        types = config.type_vocab_size  # 0: tokens have no types
        self.token_type_embeddings: Embedding | None = Embedding(types, width) if types else None
        self.LayerNorm = LayerNorm(width, config.layer_norm_eps)

    def forward(self, ids: Tensor, type_ids: Tensor | None, positions: Tensor | None = None) -> Tensor:
        """ids and type_ids (B, T) → (B, T, width). positions (B, T): None, from the first token on."""
        return self.LayerNorm(self.summed(ids, type_ids, positions))

    def summed(self, ids: Tensor, type_ids: Tensor | None, positions: Tensor | None = None) -> Tensor:
        """As `forward`, before the norm."""
        if positions is None:
            counted = ops.arange(ids.shape[1], dtype="int32", device=ids.device)  # (T,)
            positions = counted if self.skipped is None else positions_from(ids, self.skipped)  # (B, T)
        words = self.word_embeddings(ids)  # (B, T, width)
        x = words if self.word_scale is None else words * self.word_scale
        if self.token_type_embeddings is not None:
            types = ops.zeros(1, dtype="int32", device=ids.device) if type_ids is None else type_ids
            x = x + self.token_type_embeddings(types)
        return x + self.position_embeddings(positions)


class NormedResidual(Module):
    """LayerNorm(residual + dense(x))."""

    def __init__(self, inputs: int, width: int, epsilon: float) -> None:
        super().__init__()
        self.dense = ResidualLinear(inputs, width)
        self.LayerNorm = LayerNorm(width, epsilon)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x (..., inputs), residual (..., width) → (..., width)."""
        return self.LayerNorm(self.dense(x, residual))


class Intermediate(Module):
    """A linear layer and an activation."""

    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.dense = Linear(width, inner)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., inner)."""
        return activated(self.dense, x, self.activation)


class BertAttention(Module):
    """Self-attention, its output projection, the residual and the norm. `own`: the self-attention, x (B, T, D), a mask
    and what else the layer is given → (B, T, D).
    """

    def __init__(self, own: Module, width: int, epsilon: float) -> None:
        super().__init__()
        self.add_module("self", own)
        self.output = NormedResidual(width, width, epsilon)

    def forward(self, x: Tensor, mask: Tensor | None, *more: Any) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.output(self._modules["self"](x, mask, *more), x)


class BertLayer(Module):
    """Attention and a feed-forward part, each followed by a residual and a norm. `config` has BERT's fields, parameters
    have BERT's names. `own`: the self-attention, if it is another one than BERT's.
    """

    def __init__(self, config: Any, own: Module | None = None) -> None:
        super().__init__()
        width, inner, epsilon = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        own = SelfAttention(width, config.num_attention_heads) if own is None else own
        self.attention = BertAttention(own, width, epsilon)
        self.intermediate = Intermediate(width, inner, config.hidden_act)
        self.output = NormedResidual(inner, width, epsilon)

    def forward(self, x: Tensor, mask: Tensor | None, *more: Any) -> Tensor:
        """x (B, T, D) → (B, T, D). `more` is for the self-attention."""
        x = self.attention(x, mask, *more)
        return self.output(self.intermediate(x), x)


class Layers(Module):
    """The layers of an encoder, one after the other."""

    def __init__(self, layers: Iterable[Module]) -> None:
        super().__init__()
        self.layer = ModuleList(layers)

    def forward(self, x: Tensor, mask: Tensor | None, *more: Any) -> Tensor:
        """x (B, T, D) → (B, T, D). `more` is for each layer."""
        for layer in self.layer:
            x = layer(x, mask, *more)
        return x


class BertLayers(Layers):
    """The layers of BERT. `own` makes a layer's self-attention, if it is another one than BERT's."""

    def __init__(self, config: Any, own: Callable[[Any], Module] | None = None) -> None:
        super().__init__(
            BertLayer(config, None if own is None else own(config)) for _ in range(config.num_hidden_layers)
        )


class NarrowEncoder(Encoder):
    """BERT's encoder over embeddings that may be narrower than its layers (ELECTRA's). `config` has BERT's fields and
    embedding_size.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = BertEmbeddings(config, config.embedding_size)
        narrow = config.embedding_size != config.hidden_size
        self.embeddings_project = Linear(config.embedding_size, config.hidden_size) if narrow else None
        self.encoder = self.layers(config)

    def layers(self, config: Any) -> Module:
        """The layers."""
        return BertLayers(config)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        x = self.embeddings(ids, type_ids)  # (B, T, embedding_size)
        if self.embeddings_project is not None:
            x = self.embeddings_project(x)
        return self.encoder(x, visible_keys(attention_mask))


class BertEncoder(Encoder):
    """BERT's encoder; with `pooler`, also the layer over the first token that some heads read. `config` has BERT's
    fields. `skips_padding`: the positions are RoBERTa's.
    """

    def __init__(self, config: Any, pooler: bool = True, skips_padding: bool = False) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings - (config.pad_token_id + 1 if skips_padding else 0)
        self.embeddings = BertEmbeddings(config, skips_padding=skips_padding)
        self.encoder = self.layers(config)
        self.pooler: Pooler | None = Pooler(config.hidden_size) if pooler else None

    def layers(self, config: Any) -> Module:
        """The layers."""
        return BertLayers(config)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        return self.encoder(self.embeddings(ids, type_ids), visible_keys(attention_mask))


class Pooler(Module):
    """activation(dense(x)) of a text's first token. `outputs` is their number P; None: as many as inputs."""

    def __init__(self, width: int, outputs: int | None = None, activation: str = "tanh") -> None:
        super().__init__()
        self.dense = Linear(width, width if outputs is None else outputs)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, P)."""
        return self.activation(self.dense(first_token(x)))


def first_token(x: Tensor) -> Tensor:
    """x (B, T, D) → (B, D)."""
    return x.narrow(1, 0, 1).squeeze(1)


def last_token(x: Tensor, attention_mask: Tensor | None) -> Tensor:
    """The last token of each text that is not padding: x (B, T, D) → (B, D)."""
    if attention_mask is None:
        return x.narrow(1, x.shape[1] - 1, 1).squeeze(1)
    places = ops.arange(1, x.shape[1] + 1, dtype="int32", device=x.device)  # (T,)
    last = ((attention_mask != 0).to("int32") * places).argmax(1)  # (B,)
    index = last.to("int64").reshape(-1, 1, 1).expand(x.shape[0], 1, x.shape[2])
    return ops.gather(x, 1, index).squeeze(1)


def mean_of_tokens(x: Tensor, attention_mask: Tensor | None) -> Tensor:
    """The mean of the tokens of each text that are not padding: x (B, T, D) → (B, D)."""
    if attention_mask is None:
        return x.mean(1)
    weight = attention_mask.to(x.dtype).unsqueeze(-1)  # (B, T, 1)
    return (x * weight).sum(1) / weight.sum(1)


# -- heads


class Transform(Module):
    """LayerNorm(activation(dense(x))), before the scores of masked words; `norm` is the norm's name."""

    def __init__(self, width: int, outputs: int, activation: str, epsilon: float, norm: str = "LayerNorm") -> None:
        super().__init__()
        self.dense = Linear(width, outputs)
        self.norm = norm
        self.add_module(norm, LayerNorm(outputs, epsilon))
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., outputs)."""
        return self._modules[self.norm](self.activation(self.dense(x)))


class Words(Linear):
    """Scores of all words: x (..., D) → (..., V). With a `table` of words (V, D), the weight is that table."""

    def __init__(self, width: int, words: int, table: Embedding | None, bias: bool = True) -> None:
        super().__init__(width, words, bias)
        if table is not None:
            self.weight = table.weight


class Predictions(Module):
    """Scores of all words: those of a transform of the hidden states to `width` (BERT's head, by its names)."""

    def __init__(self, config: Any, width: int, table: Embedding | None) -> None:
        super().__init__()
        self.transform = Transform(config.hidden_size, width, config.hidden_act, config.layer_norm_eps)
        self.bias = new_parameter(ops.zeros, config.vocab_size)
        self.decoder = Words(width, config.vocab_size, table)
        self.decoder.bias = self.bias

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, V)."""
        return self.decoder(self.transform(x))


class NormedWords(Module):
    """Scores of all words: those of layer_norm(gelu(dense(x))) (RoBERTa's head)."""

    def __init__(self, width: int, words: int, epsilon: float, table: Embedding | None) -> None:
        super().__init__()
        self.dense = Linear(width, width)
        self.layer_norm = LayerNorm(width, epsilon)
        self.bias = new_parameter(ops.zeros, words)
        self.decoder = Words(width, words, table)
        self.decoder.bias = self.bias

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, V)."""
        return self.decoder(self.layer_norm(ops.gelu(self.dense(x))))


class DenseClassifier(Module):
    """out_proj(activation(dense(x))) of a text's first token."""

    def __init__(self, width: int, labels: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.dense = Linear(width, width)
        self.out_proj = Linear(width, labels)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        return self.out_proj(self.activation(self.dense(first_token(x))))


class Headed(Module):
    """An encoder with a head. `name` is the encoder's name in files; a subclass adds the head's layers and writes
    `scores`.
    """

    def __init__(self, name: str, encoder: Encoder) -> None:
        super().__init__()
        self.name = name
        self.config = encoder.config
        self.add_module(name, encoder)

    @property
    def encoder(self) -> Encoder:
        """The encoder below the head."""
        found = self._modules[self.name]
        assert isinstance(found, Encoder)
        return found

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.encoder.device

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Hidden states (B, T, D) → logits."""
        raise NotImplementedError

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None, *page: Tensor | None
    ) -> Tensor:
        """ids (B, T) → logits: of masked words (B, T, V), of a text's labels (B, labels), of each token's labels (B, T,
        labels), or scores of an answer's start and end (B, T, 2). page: the boxes of the words and the picture, which
        encoders of pages read (nn/vision/page_encoder.py).
        """
        return self.scores(self.encoder(ids, attention_mask, type_ids, *page), attention_mask)


class LinearHead(Headed):
    """An encoder and a linear layer over each token. `names` are those of the two parts in files."""

    def __init__(self, names: tuple[str, str], encoder: Encoder, width: int, outputs: int) -> None:
        super().__init__(names[0], encoder)
        self.last = names[1]
        self.add_module(self.last, Linear(width, outputs))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, outputs)."""
        return self._modules[self.last](x)


class TokenLabelsHead(LinearHead):
    """An encoder and scores of the labels of each token."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        super().__init__((name, "classifier"), encoder, encoder.config.hidden_size, len(encoder.config.labels))


class AnswersHead(LinearHead):
    """An encoder and scores of an answer's start and end at each token."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        super().__init__((name, "qa_outputs"), encoder, encoder.config.hidden_size, 2)


class PredictionsHead(Headed):
    """An encoder with BERT's head: scores of the words that may stand at each token. width: features of the table of
    words, if they are others than the encoder's.
    """

    def __init__(self, name: str, encoder: Encoder, width: int | None = None) -> None:
        super().__init__(name, encoder)
        config = encoder.config
        self.cls = Module()
        table = encoder.word_embeddings if config.tie_word_embeddings else None
        self.cls.predictions = Predictions(config, config.hidden_size if width is None else width, table)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.cls.predictions(x)


class GeneratorHead(Headed):
    """An encoder with the head of ELECTRA's generator: scores of the words that may stand at each token."""

    def __init__(self, name: str, encoder: NarrowEncoder) -> None:
        super().__init__(name, encoder)
        config = encoder.config
        self.generator_predictions = Transform(config.hidden_size, config.embedding_size, "gelu", config.layer_norm_eps)
        table = encoder.word_embeddings if config.tie_word_embeddings else None
        self.generator_lm_head = Words(config.embedding_size, config.vocab_size, table)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.generator_lm_head(self.generator_predictions(x))


class PooledClassifierHead(Headed):
    """An encoder with a pooler and BERT's head: scores of the labels of a text, or of a pair of texts."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        super().__init__(name, encoder)
        self.classifier = Linear(encoder.config.hidden_size, len(encoder.config.labels))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        return self.classifier(self.encoder.pooler(x))


class Chooser(Headed):
    """Base of the heads for multiple choice, before that of a text's only label: scores of several texts, of which one
    is right.
    """

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None, *page: Tensor | None
    ) -> Tensor:
        """ids (B, C, T), the attention mask and the types alike → scores of the C texts (B, C)."""
        if ids.ndim != 3:
            raise ArgumentError(f"ids are (B, C, T), C texts of which one is chosen, not {tuple(ids.shape)}")
        flat = (None if x is None else x.flatten(0, 1) for x in (ids, attention_mask, type_ids, *page))
        return super().forward(*flat).reshape(ids.shape[:2])  # type: ignore[arg-type]


def one_label(config: Any) -> Any:
    """The configuration of an encoder that scores texts by one number."""
    return replace(config, id2label=None, num_labels=1)


class PooledChoiceHead(Chooser, PooledClassifierHead):
    """An encoder with a pooler, whose configuration has one label: scores of several texts, of which one is right."""


class ActivatedChoiceHead(Chooser):
    """An encoder and two layers over the first token, with an activation between them: scores of several texts, of
    which one is right. layer: the first one's name in files, a part's inside another.
    """

    def __init__(self, name: str, encoder: Encoder, layer: str, activation: str) -> None:
        super().__init__(name, encoder)
        width = encoder.config.hidden_size
        self.layer, inner = layer, layer.rpartition(".")[2]
        place: Module = self
        if inner != layer:
            place = Module()
            self.add_module(layer.rpartition(".")[0], place)
        place.add_module(inner, Linear(width, width))
        self.activation = activation_named(activation)
        self.classifier = Linear(width, 1)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → scores (B, 1)."""
        first = self.get_submodule(self.layer)
        return self.classifier(self.activation(first(first_token(x))))


class LastChoiceHead(Chooser):
    """An encoder and a layer over the last token, padding or not, as transformers has it: scores of several texts, of
    which one is right.
    """

    def __init__(self, name: str, encoder: Encoder) -> None:
        super().__init__(name, encoder)
        self.classifier = Linear(encoder.config.hidden_size, 1)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → scores (B, 1)."""
        return self.classifier(last_token(x, None))


class NormedWordsHead(Headed):
    """An encoder with RoBERTa's head: scores of the words that may stand at each token."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        super().__init__(name, encoder)
        config = encoder.config
        table = encoder.word_embeddings if config.tie_word_embeddings else None
        self.lm_head = NormedWords(config.hidden_size, config.vocab_size, config.layer_norm_eps, table)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.lm_head(x)


class DenseClassifierHead(Headed):
    """An encoder with RoBERTa's head: scores of the labels of a text, or of a pair of texts. activation: that of the
    head, if it is another than the configuration's `hidden_act`.
    """

    def __init__(self, name: str, encoder: Encoder, activation: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__(name, encoder)
        config = encoder.config
        activation = activation_named(config.hidden_act) if activation is None else activation
        self.classifier = DenseClassifier(config.hidden_size, len(config.labels), activation)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        return self.classifier(x)


def headed(
    head: Callable[..., Headed], name: str | None, encoder: Callable[..., Encoder], *more: Any, **parts: Any
) -> Callable[[Any], Headed]:
    """What makes an encoder with a head from a configuration, for the TASKS of a model. name: the encoder's name in
    files; None: the configuration's `base`. more: further arguments of the head; parts: those of the encoder.
    """

    def made(config: Any) -> Headed:
        return head(config.base if name is None else name, encoder(config, **parts), *more)

    return made


def choosing(
    name: str | None, encoder: Callable[..., Encoder], head: Callable[..., Headed] = PooledChoiceHead, *more: Any
) -> Callable[[Any], Headed]:
    """As `headed`, with a head for multiple choice."""
    return lambda config: headed(head, name, encoder, *more)(one_label(config))
