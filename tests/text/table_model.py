"""A model whose logits are a formula of the last two tokens: the reference programs compute the same ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.dtype import float32
from pyapp.nn.decoders.caches import decoder_cache

VOCABULARY = 24
EOS = 2


def logit(token: int, following: int) -> float:
    """Of `following` after `token`."""
    return 3 * math.sin(1 + 1.7 * token * following + 0.31 * following * following) + (1.5 if following == EOS else 0)


@dataclass
class Config:
    vocab_size: int
    max_seq_len: int


class TableModel:
    """A row of a table for each token. It remembers nothing; `passes` has the number of tokens of each pass."""

    def __init__(self, max_seq_len: int = 64) -> None:
        self.config = Config(VOCABULARY, max_seq_len)
        self.passes: list[int] = []
        self.table = Tensor.from_buffer(bytes(4 * VOCABULARY**2), (VOCABULARY, VOCABULARY), float32)
        self.table.assign([logit(a, b) for a in range(VOCABULARY) for b in range(VOCABULARY)])

    def new_cache(self, capacity: int | None = None, dtype: Any = "float32", texts: int | None = None) -> Any:
        return decoder_cache(texts, 1, 1, capacity or self.config.max_seq_len, 1)

    def forward_cached(self, tokens: Tensor, position: Tensor, cache: Any, last_only: bool = True) -> Tensor:
        self.passes.append(tokens.numel())
        return ops.embedding(self.table, tokens.narrow(0, tokens.shape[0] - 1, 1) if last_only else tokens)


class TableTokenizer:
    """Tokens of one letter; `EOS` ends a text."""

    vocab_size, bos_id, eos_ids = VOCABULARY, 1, frozenset({EOS})
    stop_ids = frozenset({EOS})
    letters = "\0\1\2" + "abcdefghijklmnopqrstuvwxyz"[: VOCABULARY - 3]

    def encode(self, text: str, eos: bool | None = None) -> list[int]:
        return [1, *map(self.letters.index, text)]

    def token_bytes(self, token: int) -> bytes:
        return self.letters[token].encode() if token > EOS else b""

    def joiner(self, continuing: bool = False) -> Any:
        class Joiner:
            push = staticmethod(self.token_bytes)

        return Joiner()
