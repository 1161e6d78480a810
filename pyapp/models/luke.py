"""LUKE (Yamada et al. 2020, arXiv 2010.01057): RoBERTa that also reads entities, the things that a text names. What
looks at a word and what looks at an entity have queries of their own. A text without entities is read as by RoBERTa.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Embedding, LayerNorm, Linear, Module
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEncoder,
    BertLayers,
    PooledClassifierHead,
    SelfAttention,
    TokenLabelsHead,
    choosing,
    headed,
    visible_keys,
)  # fmt: skip

from .loading.config import require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("luke",)
BASE = "luke"  # the encoder's name in files with a head
PADDING = 0  # the entity that no word attends to


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json. The first `pad_token_id` + 1 positions are of padding."""

    model_type = "luke"

    entity_vocab_size: int = 500_000
    entity_emb_size: int = 256
    use_entity_aware_attention: bool = True
    type_vocab_size: int = 2
    pad_token_id: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.pad_token_id < self.max_position_embeddings - 1,
            f"pad_token_id {self.pad_token_id} leaves no positions of {self.max_position_embeddings}",
        )


class EntityEmbeddings(Module):
    """The sum of an entity's vector, the mean of its words' positions, and its type, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, narrow = config.hidden_size, config.entity_emb_size
        self.entity_embeddings = Embedding(config.entity_vocab_size, narrow, PADDING)
        self.entity_embedding_dense = None if narrow == width else Linear(narrow, width, bias=False)
        self.position_embeddings = Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = Embedding(config.type_vocab_size, width)
        self.LayerNorm = LayerNorm(width, config.layer_norm_eps)

    def forward(self, entities: Tensor, positions: Tensor) -> Tensor:
        """entities (B, E), positions (B, E, M) with -1 where an entity has fewer words → (B, E, D)."""
        x = self.entity_embeddings(entities)
        if self.entity_embedding_dense is not None:
            x = self.entity_embedding_dense(x)
        real = (positions >= 0).to(x.dtype).unsqueeze(-1)  # (B, E, M, 1)
        places = (self.position_embeddings(positions.clamp(min=0)) * real).sum(-2)  # (B, E, D)
        types = self.token_type_embeddings(ops.zeros(1, dtype="int32", device=x.device))
        return self.LayerNorm(x + places / real.sum(-2).clamp(min=1.0) + types)


class EntityAttention(SelfAttention):
    """Self-attention of words and the entities behind them, with queries by what looks and what is looked at."""

    def __init__(self, config: Config) -> None:
        width = config.hidden_size
        super().__init__(width, config.num_attention_heads)
        self.aware = config.use_entity_aware_attention
        if self.aware:
            self.w2e_query = Linear(width, width)
            self.e2w_query = Linear(width, width)
            self.e2e_query = Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None, entities: int = 0) -> Tensor:
        """x (B, T, D), of which the last `entities` are entities → (B, T, D)."""
        if not (self.aware and entities):
            return super().forward(x, mask)
        batch, tokens, width = x.shape
        words, heads = tokens - entities, self.heads
        of_words, of_entities = x.narrow(1, 0, words), x.narrow(1, words, entities)
        to_words = ops.cat([self.query(of_words), self.e2w_query(of_entities)], 1)  # (B, T, D)
        to_entities = ops.cat([self.w2e_query(of_words), self.e2e_query(of_entities)], 1)  # (B, T, D)
        # A query has a part for each kind of key, and a key zeros in the part of the other kind.
        keys = self.key(x)
        empty = ops.zeros_like(keys)
        is_word = (ops.arange(tokens, dtype="int32", device=x.device) < words).reshape(1, tokens, 1)
        parts = [(to_words, ops.where(is_word, keys, empty)), (to_entities, ops.where(is_word, empty, keys))]
        q, k = (
            ops.cat([part.reshape(batch, tokens, heads, width // heads) for part in side], -1).transpose(1, 2)
            for side in zip(*parts, strict=True)
        )  # (B, H, T, 2 D / H)
        v = self.value(x).reshape(batch, tokens, heads, width // heads).transpose(1, 2)
        y = ops.scaled_dot_product_attention(q, k, v, mask, scale=(width // heads) ** -0.5)
        return y.transpose(1, 2).reshape(batch, tokens, width)


class Luke(BertEncoder):
    """The encoder; with `pooler`, also a layer over the first token."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__(config, pooler, skips_padding=True)
        self.entity_embeddings = EntityEmbeddings(config)

    def layers(self, config: Config) -> Module:
        """The layers."""
        return BertLayers(config, EntityAttention)

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None,
        entities: Tensor | None = None, positions: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """ids (B, T) → hidden states (B, T, D) of the words. The entities that the texts name are as in `read`."""
        if entities is None or positions is None:
            return super().forward(ids, attention_mask, type_ids)
        return self.read(ids, entities, positions, attention_mask, type_ids)[0]

    def read(
        self, ids: Tensor, entities: Tensor, positions: Tensor, attention_mask: Tensor | None = None,
        type_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """ids (B, T), entities (B, E), 0 for padding, and positions (B, E, M), the places of each entity's words in
        its text, -1 behind the last one → hidden states of the words (B, T, D) and of the entities (B, E, D).
        """
        self.check(ids, attention_mask, type_ids)
        if entities.ndim != 2 or positions.ndim != 3 or positions.shape[:2] != entities.shape:
            raise ArgumentError(
                f"Luke: entities are (B, E) and positions (B, E, M), not {describe(entities)} and {describe(positions)}"
            )
        words, count = ids.shape[1], entities.shape[1]
        seen = ops.ones_like(ids) if attention_mask is None else attention_mask
        mask = visible_keys(ops.cat([seen != 0, entities != PADDING], 1))
        x = ops.cat([self.embeddings(ids, type_ids), self.entity_embeddings(entities, positions)], 1)  # (B, T + E, D)
        x = self.encoder(x, mask, count)
        return x.narrow(1, 0, words), x.narrow(1, words, count)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Luke,
    "sequence-classification": headed(PooledClassifierHead, BASE, Luke),
    "token-classification": headed(TokenLabelsHead, BASE, Luke, pooler=False),
    "question-answering": headed(AnswersHead, BASE, Luke, pooler=False),
    "multiple-choice": choosing(BASE, Luke),
}
