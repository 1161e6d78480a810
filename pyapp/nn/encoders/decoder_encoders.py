"""Decoder-only language models as encoders: their last hidden states, a score of the last token for each label
(AutoModelForSequenceClassification), and the logits of two words as a score (sentence-transformers' LogitScore).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine import Device, Tensor, ops
from ...errors import ModelError
from ..decoders.decoder import CausalLanguageModel, RotaryTable, WholeText
from ..heads import Heads, split_heads
from ..layers.embedding import Embedding
from ..layers.linear import Linear
from ..module import Module
from .encoders import Encoder, attend, last_token


class BothWaysText(WholeText):
    """Whole texts whose tokens see those before and after them; in a layer with a window, those that are nearer than
    it.
    """

    def attention(self, layer: int, qkv: Tensor, heads: Heads, rotary: RotaryTable | None) -> Tensor:
        if heads.softcap is not None or heads.slopes is not None:
            raise ModelError("attention in both directions with soft caps or biases is not known")
        q, k, v = split_heads(qkv, heads)  # (B, T, H, D), (B, T, KV, D)
        if rotary is not None:
            table = rotary.upto(self.length, qkv.device)
            q, k = (ops.rope(x, table, interleaved=heads.interleaved) for x in (q, k))
        window = None if heads.window is None else heads.window - 1
        if heads.sinks is not None:
            sides = None if window is None else (window, window)
            y = ops.attention(q, k, v, False, heads.scale, sides, mask=self.mask, sinks=heads.sinks)  # (B, T, H, D)
            return y.reshape(*qkv.shape[:-1], heads.heads * heads.head_dim)
        if heads.kv_heads != heads.heads and (self.mask is not None or window is not None):
            k, v = (x.repeat_interleave(heads.heads // heads.kv_heads, 2) for x in (k, v))  # (B, T, H, D)
        return attend(q, k, v, self.mask, heads.scale, window)


class DecoderEncoder(Encoder):
    """A language model without its head: the states after its last norm. `both_ways`: tokens see the whole text."""

    pooling = "lasttoken"

    def __init__(self, model: CausalLanguageModel, both_ways: bool = False) -> None:
        super().__init__()
        self.config = model.config
        self.most: int = model.config.max_seq_len
        self.base_model_prefix = model.base_model_prefix
        self.add_module(self.base_model_prefix, model.stack)
        self.whole_text = BothWaysText if both_ways else model.whole_text

    @property
    def word_embeddings(self) -> Embedding:
        found: Embedding = self.get_submodule(self.base_model_prefix).embedding
        return found

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D). There are no token types: those given are ignored."""
        self.check(ids, attention_mask)
        stack: Any = self.get_submodule(self.base_model_prefix)
        found: Tensor = stack.normalized(stack(ids, self.whole_text(ids.shape[1], attention_mask)))
        return found


class LabelledConfig:
    """A configuration with the names of labels."""

    def __init__(self, config: Any, labels: Sequence[str]) -> None:
        self.labels, self._config = tuple(labels), config

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # while it is copied
            raise AttributeError(name)
        return getattr(self._config, name)


class DecoderClassifier(DecoderEncoder):
    """Scores of the labels of a text, or of a pair of texts, of its last token."""

    def __init__(self, model: CausalLanguageModel, labels: Sequence[str], both_ways: bool = False) -> None:
        super().__init__(model, both_ways)
        self.config = LabelledConfig(model.config, labels)
        self.score = Linear(self.word_embeddings.embedding_dim, len(labels), bias=False)

    @property
    def encoder(self) -> Encoder:
        """What reads the texts."""
        return self

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → logits (B, labels)."""
        return self.score(last_token(super().forward(ids, attention_mask), attention_mask))


class DecoderTokenClassifier(DecoderClassifier):
    """Scores of the labels of each token."""

    def __init__(self, model: CausalLanguageModel, labels: Sequence[str], both_ways: bool = False) -> None:
        super().__init__(model, labels, both_ways)
        self.score = Linear(self.word_embeddings.embedding_dim, len(labels))

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → logits (B, T, labels)."""
        return self.score(DecoderEncoder.forward(self, ids, attention_mask))


class LogitRanker(Module):
    """A language model whose logits of a word after a text are the text's score: that of the id `true`, less that of
    `false` if there is one.
    """

    def __init__(self, model: CausalLanguageModel, true: int, false: int | None) -> None:
        super().__init__()
        if max(true, false or 0) >= model.config.vocab_size:
            raise ModelError(
                f"the model has {model.config.vocab_size:,} tokens, its score is that of {true} and {false}"
            )
        self.config = model.config
        self.most: int = model.config.max_seq_len
        self.model = model
        self.true, self.false = true, false

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.model.device

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → scores (B, 1)."""
        model = self.model
        x = model.stack(ids, model.whole_text(ids.shape[1], attention_mask))  # (B, T, D)
        logits = model.head(last_token(x, attention_mask))  # (B, V)
        found = logits.narrow(1, self.true, 1)
        return found if self.false is None else found - logits.narrow(1, self.false, 1)
