"""How many characters or words of texts are wrong."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pyapp.errors import PyappError


def error_rate(said: Sequence[Sequence[Hashable]], found: Sequence[Sequence[Hashable]]) -> float:
    """The error rate over all texts, each a text of characters or a list of words: (substitutions + deletions +
    insertions) / what was said. PyappError without the library rapidfuzz, which jiwer brings.
    """
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise PyappError("the Python package `jiwer` is missing", hint="pip install 'pyapp[train]'") from error
    wrong = sum(Levenshtein.distance(one, other) for one, other in zip(said, found, strict=True))
    return wrong / max(1, sum(map(len, said)))
