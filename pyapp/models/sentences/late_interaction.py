"""Late interaction: a vector for each token of a text. The score of a query and a document is the sum, over the query's
tokens, of the largest product with a token of the document (ColBERT: Khattab and Zaharia 2020, arXiv 2004.12832;
ColBERTv2: Santhanam et al. 2022, arXiv 2112.01488).

Queries are filled up with [MASK] tokens, and each text begins with a token that says whether it is a query or a
document. The settings are those of sentence-transformers' MultiVectorEncoder, of PyLate and of Stanford's ColBERT.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError
from pyapp.nn import Module, ModuleList
from pyapp.nn.encoders.encoders import Encoder

from .embedding import Normalize, SentenceSettings, TextEmbedder

ROLES = ("query", "document")
QUERY_LENGTH = 32  # tokens of a query where a file says none
DOCUMENT_LENGTH = 180
LONGEST = 1 << 20  # tokens
WORDS = 1 << 16  # words that are left out
WHERE = "config_sentence_transformers.json"
METADATA = "artifact.metadata"  # of Stanford's ColBERT
# The names that PyLate's settings have at the top of config_sentence_transformers.json.
PYLATE = (
    "query_prefix", "document_prefix", "query_length", "document_length", "attend_to_expansion_tokens",
    "do_query_expansion", "skiplist_words",
)  # fmt: skip


@dataclass(frozen=True)
class Expansion:
    """How queries are filled up: to `length` tokens, which longer ones are cut to if it is `fixed`; whether other
    tokens see the added ones; and the added token (None: the mask).
    """

    length: int
    fixed: bool = True
    attend: bool = False
    token: str | None = None


@dataclass(frozen=True)
class LateInteraction:
    """How the texts of each role are read.

    prefixes: the token that is put after the first one, by role. lengths: the largest number of tokens, by role.
    skipped: words whose tokens count for nothing in texts of the roles `skipping`. kept: the only ids that count in
    documents; None: all.
    """

    prefixes: Mapping[str, str] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    expansion: Expansion | None = None
    skipped: tuple[str, ...] = ()
    skipping: tuple[str, ...] = ("document",)
    kept: tuple[int, ...] | None = None


class MultiVectorEmbedder(TextEmbedder):
    """An encoder and the parts over each of its tokens: texts become vectors of tokens."""

    def __init__(
        self, encoder: Encoder, parts: Sequence[Module], settings: SentenceSettings, form: LateInteraction
    ) -> None:
        super().__init__(encoder, settings)
        self.parts = ModuleList(parts)
        self.form = form

    def forward(self, ids: Tensor, attention_mask: Tensor, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → vectors (B, T, D)."""
        x: Tensor = self.encoder(ids, attention_mask, type_ids)
        for part in self.parts:
            x = part(x)
        return x

    def score(self, query: Tensor, documents: Tensor, counts: Tensor) -> Tensor:
        """How well documents (B, T, D) answer a query (Q, D) → (B,). counts (B, T): 0 for tokens that do not count."""
        found = max_similarity(query, documents, counts)
        return found / query.shape[0] if self.settings.similarity == "meanmaxsim" else found


def max_similarity(query: Tensor, documents: Tensor, counts: Tensor) -> Tensor:
    """The sum over the tokens of a query (Q, D) of the largest product with a token of each document (B, T, D) → (B,);
    counts (B, T): 0 for tokens that do not count. A document without tokens has the score 0.
    """
    products = documents @ query.T  # (B, T, Q)
    there = (counts != 0).unsqueeze(-1)  # (B, T, 1)
    best = ops.where(there, products, float("-inf")).amax(1)  # (B, Q)
    return ops.where(there.squeeze(-1).sum(1) > 0, best.sum(-1), 0.0)


# -- settings of files


def _length(value: Any, name: str, where: str) -> int:
    if type(value) is not int or not 1 <= value <= LONGEST:
        raise ModelError(f"{name} is {value!r:.40}, expected a number of tokens from 1 to {LONGEST:,}", where=where)
    return value


def _words(value: Any, name: str, where: str) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or len(found) > WORDS or not all(isinstance(word, str) for word in found):
        raise ModelError(f"{name} is not a list of words", where=where)
    return tuple(found)


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str) or len(value) > WORDS:
        raise ModelError(f"{name} is {value!r:.40}, expected a text", where=where)
    return value


def _given(values: Mapping[str, Any], names: Mapping[str, str], where: str) -> dict[str, int]:
    """The lengths by role of the fields that are there: `names` by role."""
    return {
        role: _length(values[name], name, where) for role, name in names.items() if values.get(name) is not None
    }  # fmt: skip


def from_encoder(limits: Mapping[str, Any], mask: Mapping[str, Any] | None) -> LateInteraction:
    """From the settings of a MultiVectorEncoder: of sentence_bert_config.json, and of its MultiVectorMask's
    config.json. ModelError for wrong ones.
    """
    where = "sentence_bert_config.json"
    lengths = _given(limits, {"query": "query_length", "document": "document_length"}, where)
    asked, expansion = limits.get("query_expansion"), None
    if asked is not None:
        strategy = asked.get("strategy") if isinstance(asked, Mapping) else None
        if strategy not in ("fixed", "min"):
            raise ModelError(f"query_expansion is {asked!r:.80}", where=where, hint='Its strategy is "fixed" or "min"')
        token = asked.get("token")
        expansion = Expansion(
            _length(asked.get("length"), "query_expansion's length", where), strategy == "fixed",
            asked.get("attend") is True, None if token is None else _text(token, "query_expansion's token", where),
        )  # fmt: skip
    found = LateInteraction(lengths=lengths, expansion=expansion)
    if mask is None:
        return found
    where = "MultiVectorMask"
    kept = mask.get("keep_only_token_ids")
    if kept is not None and (
        not isinstance(kept, list) or len(kept) > WORDS or any(type(one) is not int or one < 0 for one in kept)
    ):
        raise ModelError("keep_only_token_ids is not a list of ids", where=where)
    tasks = mask.get("skiplist_tasks")
    return LateInteraction(
        lengths=lengths, expansion=expansion, skipped=_words(mask.get("skiplist_words") or [], "skiplist_words", where),
        skipping=("document",) if tasks is None else _words(tasks, "skiplist_tasks", where),
        kept=None if not kept else tuple(kept),
    )  # fmt: skip


def from_pylate(values: Mapping[str, Any]) -> LateInteraction:
    """From PyLate's settings in config_sentence_transformers.json. ModelError for wrong ones."""
    names = {"query": "query_prefix", "document": "document_prefix"}
    usual = {"query": "[Q] ", "document": "[D] "}
    prefixes = {
        role: usual[role] if values.get(name) is None else _text(values[name], name, WHERE)
        for role, name in names.items()
    }
    lengths = {"query": QUERY_LENGTH, "document": DOCUMENT_LENGTH} | _given(
        values, {"query": "query_length", "document": "document_length"}, WHERE
    )
    expands = values.get("do_query_expansion") is not False
    words = values.get("skiplist_words")
    return LateInteraction(
        prefixes, lengths,
        Expansion(lengths["query"], attend=values.get("attend_to_expansion_tokens") is True) if expands else None,
        tuple(string.punctuation) if words is None else _words(words, "skiplist_words", WHERE),
    )  # fmt: skip


def from_stanford(values: Mapping[str, Any]) -> LateInteraction:
    """From the settings in Stanford's artifact.metadata. ModelError for wrong ones."""
    names = {"query": ("query_token_id", "[unused0]"), "document": ("doc_token_id", "[unused1]")}
    prefixes = {role: _text(values.get(name) or usual, name, METADATA) for role, (name, usual) in names.items()}
    lengths = {"query": QUERY_LENGTH} | _given(values, {"query": "query_maxlen", "document": "doc_maxlen"}, METADATA)
    return LateInteraction(
        prefixes, lengths, Expansion(lengths["query"], attend=bool(values.get("attend_to_mask_tokens"))),
        tuple(string.punctuation) if values.get("mask_punctuation", True) else (),
    )  # fmt: skip


def with_normalizing(parts: Sequence[Module]) -> list[Module]:
    """The parts of older folders, which do not list that vectors get the length 1."""
    return [*parts, *([] if any(isinstance(part, Normalize) for part in parts) else [Normalize()])]
