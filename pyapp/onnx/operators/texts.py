"""Texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.text.tokenization.pattern_limits import danger

from ..registry import operator
from ..values import ForeignArray, array_of, check_room, made_of, text


def _texts(x: Any) -> Any:
    if not isinstance(x, ForeignArray) or x.element != "string":
        raise TypeError("expected texts")
    return x.array


@operator("StringConcat")
def string_concat(a: Any, b: Any) -> ForeignArray:
    longest = sum(max(map(len, _texts(x).reshape(-1)), default=0) for x in (a, b))
    check_room((*np.broadcast_shapes(a.shape, b.shape), longest + 64), "the texts", 1)
    return ForeignArray("string", np.asarray(_texts(a) + _texts(b), object))


@operator("StringSplit")
def string_split(x: Any, *, delimiter: bytes = b"", maxsplit: int | None = None) -> Any:
    """(…) → the parts (…, most parts), empty where there are fewer, and their counts (…)."""
    sign = text(delimiter) or None
    parts = [
        t.split(sign, -1 if maxsplit is None else maxsplit) if t or sign is None else [] for t in _texts(x).reshape(-1)
    ]
    most = max((len(p) for p in parts), default=0)
    table = np.array([[*p, *[""] * (most - len(p))] for p in parts], object).reshape(*x.shape, most)
    return ForeignArray("string", table), made_of(np.array([len(p) for p in parts], np.int64).reshape(x.shape))


@operator("StringNormalizer")
def string_normalizer(
    x: Any, *, case_change_action: bytes = b"NONE", is_case_sensitive: int = 0, locale: bytes = b"",
    stopwords: Any = None,
) -> ForeignArray:  # fmt: skip
    """Texts (C,) or (1, C) without the stopwords, in upper or lower case; one empty text if none is left."""
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    change = changes[text(case_change_action)]
    stops = {text(word) for word in stopwords or ()}
    if not is_case_sensitive:
        stops = {word.lower() for word in stops}
    kept = [t for t in _texts(x).reshape(-1) if (t if is_case_sensitive else t.lower()) not in stops]
    found = np.array([change(t) for t in kept] or [""], object)
    return ForeignArray("string", found if x.ndim == 1 else found[None])


@operator("RegexFullMatch")
def regex_full_match(x: Any, *, pattern: bytes) -> Tensor:
    """Whether each text is the pattern as a whole. A pattern that could take forever is refused."""
    reason = danger(text(pattern))
    if reason is not None:
        raise ValueError(f"the pattern {text(pattern)!r:.80} {reason}: a search with it could take forever")
    try:
        compiled = re.compile(text(pattern))
    except re.error as error:
        raise ValueError(f"the pattern {text(pattern)!r} is broken: {error}") from None
    return made_of(np.array([compiled.fullmatch(t) is not None for t in _texts(x).reshape(-1)], bool).reshape(x.shape))


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(
    x: Any, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: bytes, ngram_counts: list[int],
    ngram_indexes: list[int], pool_int64s: Any = None, pool_strings: Any = None, weights: Any = None,
) -> Tensor:  # fmt: skip
    """How often n-grams of a pool occur in sequences (C,) or (N, C), with gaps of up to `max_skip_count`."""
    pool = [text(word) for word in pool_strings] if pool_strings else list(pool_int64s or ())
    places: dict[tuple[Any, ...], int] = {}
    begins = [*ngram_counts, len(pool)]
    for n, (begin, end) in enumerate(zip(begins, begins[1:], strict=False), 1):
        for start in range(begin, end, n):
            if min_gram_length <= n <= max_gram_length:
                places[tuple(pool[start : start + n])] = len(places)
            else:
                places[None, n, start] = len(places)  # it counts as a place, and never occurs
    rows = array_of(x)
    rows = rows[None] if rows.ndim == 1 else rows
    check_room((len(rows), max(ngram_indexes) + 1), "TfIdfVectorizer", 8)
    found = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    for row, items in enumerate(rows):
        for n in range(max(1, min_gram_length), min(max_gram_length, len(ngram_counts), len(items)) + 1):
            for gap in range(1, (min(max_skip_count, len(items)) + 1 if n > 1 else 1) + 1):
                for start in range(len(items) - gap * (n - 1)):
                    at = places.get(tuple(items[start : start + gap * n : gap].tolist()))
                    if at is not None:
                        found[row, ngram_indexes[at]] += 1
    factors = np.ones(found.shape[1], np.float32)
    if weights:
        factors[ngram_indexes] = weights
    kind = text(mode)
    if kind == "IDF":
        found = (found > 0) * factors
    elif kind == "TFIDF":
        found = found * factors
    return made_of(found if array_of(x).ndim > 1 else found[0], "float32")
