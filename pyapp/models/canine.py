"""CANINE (Clark et al. 2021, arXiv 2103.06874): an encoder of characters without a vocabulary. Their numbers in Unicode
are hashed to vectors; a first layer attends within parts of the text, a convolution makes one molecule of several
characters, BERT's layers attend between molecules, and a last layer gives each character its state.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv1d, Embedding, LayerNorm, Module
from pyapp.nn.encoders.block_attention import in_whole_blocks
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertLayer,
    BertLayers,
    Chooser,
    Encoder,
    Layers,
    PooledClassifierHead,
    Pooler,
    SelfAttention,
    TokenLabelsHead,
    attend_joined,
    choosing,
    headed,
    visible_keys,
)  # fmt: skip
from pyapp.nn.layers.gated import activation_named

from .loading.config import FLOAT_LIMIT, require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("canine",)
BASE = "canine"  # the encoder's name in files with a head
PRIMES = (31, 43, 59, 61, 73, 97, 103, 113, 137, 149, 157, 173, 181, 193, 211, 223)  # of the hash functions
CHARACTERS = 0x110000  # of Unicode
WIDEST = 1 << 10  # characters of a molecule
MOST_BUCKETS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json. What a file does not say is that of canine-s."""

    model_type = "canine"

    vocab_size: int = CHARACTERS
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 16384
    type_vocab_size: int = 16
    pad_token_id: int | None = 0
    downsampling_rate: int = 4
    upsampling_kernel_size: int = 4
    num_hash_functions: int = 8
    num_hash_buckets: int = 16384
    local_transformer_stride: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        functions = self.num_hash_functions
        require(
            functions <= len(PRIMES) and self.hidden_size % functions == 0,
            f"num_hash_functions is {functions}, expected up to {len(PRIMES)} that divide hidden_size "
            f"{self.hidden_size}",
        )
        buckets = max(self.num_hash_buckets, self.max_position_embeddings)
        require(
            buckets == self.num_hash_buckets <= MOST_BUCKETS,
            f"num_hash_buckets is {self.num_hash_buckets:,}, expected {self.max_position_embeddings:,}, the positions, "
            f"to {MOST_BUCKETS:,}",
        )
        for name in ("downsampling_rate", "upsampling_kernel_size"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}, expected up to {WIDEST:,}")


class Embeddings(Module):
    """The sum of a character's hashed vectors, its position and its type, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.functions, self.buckets, width = config.num_hash_functions, config.num_hash_buckets, config.hidden_size
        for i in range(self.functions):
            self.add_module(f"HashBucketCodepointEmbedder_{i}", Embedding(self.buckets, width // self.functions))
        self.char_position_embeddings = Embedding(self.buckets, width)
        self.token_type_embeddings = Embedding(config.type_vocab_size, width)
        self.LayerNorm = LayerNorm(width, config.layer_norm_eps)

    def hashed(self, function: int) -> Embedding:
        """The table of a hash function."""
        found: Embedding = self._modules[f"HashBucketCodepointEmbedder_{function}"]
        return found

    def forward(self, ids: Tensor, type_ids: Tensor | None) -> Tensor:
        """ids and type_ids (B, T) → (B, T, D)."""
        parts = [self.hashed(i)(((ids + 1) * PRIMES[i]).remainder(self.buckets)) for i in range(self.functions)]
        places = ops.arange(ids.shape[1], dtype="int32", device=ids.device)
        types = ops.zeros(1, dtype="int32", device=ids.device) if type_ids is None else type_ids
        x = ops.cat(parts, 2) + self.token_type_embeddings(types)
        return self.LayerNorm(x + self.char_position_embeddings(places))


class LocalAttention(SelfAttention):
    """Self-attention of each part of `size` tokens to itself."""

    def __init__(self, width: int, heads: int, size: int) -> None:
        super().__init__(width, heads)
        self.size = size

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T) → (B, T, D)."""
        batch, tokens, width = x.shape
        size = min(self.size, tokens)
        hidden = None
        if mask is not None:  # where a part has padding only, all of it is seen alike, as in transformers
            hidden = ops.where(mask, 0.0, -6e4 if x.dtype.itemsize == 2 else -FLOAT_LIMIT).to(x.dtype)
        x, real = in_whole_blocks(x, None, size)
        if real is not None:
            known = 0.0 if hidden is None else ops.pad(hidden, (0, x.shape[1] - tokens))
            hidden = ops.where(real, known, float("-inf")).to(x.dtype)
        rows = batch * (x.shape[1] // size)
        hidden = None if hidden is None else hidden.reshape(rows, 1, 1, size)
        found = attend_joined(self.joined(self, x.reshape(rows, size, width)), self.heads, hidden)
        return found.reshape(batch, x.shape[1], width).narrow(1, 0, tokens)


class Convolved(Module):
    """A convolution along the text and an activation: x (B, T, D) → (B, T', D). The norm is for what follows."""

    def __init__(self, config: Config, inputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = Conv1d(inputs, config.hidden_size, kernel, stride)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, inputs) → (B, T', D)."""
        return self.activation(self.conv(x.transpose(1, 2))).transpose(1, 2)


class Canine(Encoder):
    """The encoder; with `pooler`, also the layer over the first molecule, which the head of texts' labels reads."""

    hides_padding = False  # characters and molecules at a text's end see what follows

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        width, heads, self.rate = config.hidden_size, config.num_attention_heads, config.downsampling_rate
        self.char_embeddings = Embeddings(config)
        local = LocalAttention(width, heads, config.local_transformer_stride)
        self.initial_char_encoder = Layers([BertLayer(config, local)])
        self.chars_to_molecules = Convolved(config, width, self.rate, self.rate)
        self.encoder = BertLayers(config)
        self.projection = Convolved(config, 2 * width, config.upsampling_kernel_size, 1)
        self.final_char_encoder = Layers([BertLayer(config)])
        self.pooler: Pooler | None = Pooler(width) if pooler else None

    @property
    def word_embeddings(self) -> Embedding:
        """The table of the first hash function."""
        return self.char_embeddings.hashed(0)

    def read(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """ids (B, T), T at least the characters of a molecule → their states before the molecules (B, T, D), the
        molecules' states (B, M, D), and which characters are seen (B, 1, 1, T).
        """
        mask = visible_keys(attention_mask)
        characters = self.initial_char_encoder(self.char_embeddings(ids, type_ids), mask)
        # The first character is the first molecule; to make room for it, the last molecule is left out.
        made = self.chars_to_molecules(characters)  # (B, M, D)
        count = made.shape[1]
        joined = ops.cat([characters.narrow(1, 0, 1), made.narrow(1, 0, count - 1)], 1)
        seen = None
        if mask is not None:  # a molecule is seen where one of the characters at its own place is
            within = mask.to("int32").narrow(3, 0, count * self.rate).reshape(ids.shape[0], 1, 1, count, self.rate)
            seen = within.amax(4) != 0
        return characters, self.encoder(self.chars_to_molecules.LayerNorm(joined), seen), mask

    def padded(self, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        """Ids, mask and types (B, T) of texts with fewer characters than a molecule has, filled up to that."""
        ids = given[0]
        assert ids is not None
        more = self.rate - ids.shape[1]
        if more <= 0:
            return given
        mask = ops.ones(*ids.shape, dtype="int32", device=ids.device) if given[1] is None else given[1]
        return tuple(None if part is None else ops.pad(part, (0, more)) for part in (ids, mask, given[2]))

    def molecules(self, ids: Tensor, attention_mask: Tensor | None, type_ids: Tensor | None) -> Tensor:
        """ids (B, T) → the molecules' states (B, M, D)."""
        self.check(ids, attention_mask, type_ids)
        return self.read(*self.padded(ids, attention_mask, type_ids))[1]  # type: ignore[arg-type]

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        full = self.padded(ids, attention_mask, type_ids)
        characters, molecules, mask = self.read(*full)  # type: ignore[arg-type]
        length, last = characters.shape[1], molecules.shape[1] - 1
        own = ops.tensor([min(1 + i // self.rate, last) for i in range(length)], device=ids.device)
        x = ops.cat([characters, molecules[:, own]], 2).transpose(1, 2)  # (B, 2 D, T)
        more = self.config.upsampling_kernel_size - 1
        projected = self.projection(ops.pad(x, (more // 2, more - more // 2)).transpose(1, 2))
        return self.final_char_encoder(self.projection.LayerNorm(projected), mask).narrow(1, 0, ids.shape[1])


class SequenceClassifier(PooledClassifierHead):
    """Scores of the labels of a text, or of a pair of texts, of the first molecule; the last layer is not read."""

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None, *page: Tensor | None
    ) -> Tensor:
        """ids (B, T) → (B, labels)."""
        encoder = self.encoder
        assert isinstance(encoder, Canine)
        return self.scores(encoder.molecules(ids, attention_mask, type_ids), attention_mask)


class Choice(Chooser, SequenceClassifier):
    """Scores of several texts, of which one is right."""


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Canine,
    "sequence-classification": headed(SequenceClassifier, BASE, Canine),
    "token-classification": headed(TokenLabelsHead, BASE, Canine),
    "question-answering": headed(AnswersHead, BASE, Canine),
    "multiple-choice": choosing(BASE, Canine, Choice),
}
