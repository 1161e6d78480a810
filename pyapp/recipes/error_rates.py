"""How many characters or words of texts are wrong."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from importlib.util import find_spec

from pyapp.errors import PyappError

MISSING, INSTALL = "the Python package `jiwer` is missing", "pip install 'pyapp[train]'"
UNSAID = re.compile(r"[<\[][^>\]]*[>\]]"), re.compile(r"\([^)]+?\)")  # [music], (laughs)


def can_compare() -> bool:
    """Whether the library rapidfuzz is installed, which jiwer brings."""
    return find_spec("rapidfuzz") is not None


def error_rate(said: Sequence[Sequence[Hashable]], found: Sequence[Sequence[Hashable]]) -> float:
    """The error rate over all texts, each a text of characters or a list of words: (substitutions + deletions +
    insertions) / what was said. PyappError without the library rapidfuzz, which jiwer brings.
    """
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise PyappError(MISSING, hint=INSTALL) from error
    wrong = sum(Levenshtein.distance(one, other) for one, other in zip(said, found, strict=True))
    return wrong / max(1, sum(map(len, said)))


def compared(text: str) -> str:
    """A text as transcripts are compared, without case, punctuation, symbols and what stands in brackets: that of
    openai-whisper's BasicTextNormalizer (https://github.com/openai/whisper, MIT), but for combining marks, which stay:
    the vowels of many scripts are such marks.
    """
    kept = text.lower()
    for pattern in UNSAID:
        kept = pattern.sub("", kept)
    signs = unicodedata.normalize("NFKC", kept)
    return " ".join("".join(" " if unicodedata.category(sign)[0] in "SP" else sign for sign in signs).lower().split())
