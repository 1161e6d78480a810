"""Which use of an English word its neighbours suggest: a noun, a verb or an adjective. Enough to tell "a record" from
"to record"; not a parser.
"""

from __future__ import annotations

from collections.abc import Container

_DETERMINERS = frozenset(
    "a an the this that these those my your his her its our their some any no every each another which what whose "
    "one two three four five six seven eight nine ten many few several more most such".split()
)
_PREPOSITIONS = frozenset(
    "of in on at by for with from into onto over under about after before between through during without within "
    "against among around behind beside near off per than like as".split()
)
_BEFORE_VERBS = frozenset(
    "to will would can could shall should may might must do does did don't doesn't didn't won't wouldn't can't "
    "couldn't shouldn't cannot let's please i you we they who he she it and never always often not i'll you'll we'll "
    "they'll he'll she'll it'll".split()
)
_PLAIN = frozenset("to will would can could shall should may might must do does did not please let's".split())
_PERFECT = frozenset("have has had having been be is are was were being 've 's i've you've we've they've it's".split())
_BE = frozenset(
    "am is are was were be been being very so too quite more most less seems looks feels it's that's".split()
)
_PAST = frozenset("yesterday ago last had was were did once then".split())


def use(earlier: str, before: str, after: str, words: Container[str], uses: Container[str]) -> str:
    """The use among `uses` of a word between two others ("" where there is none), all in small letters. `earlier`: the
    word before the one before; `words`: those of the sentence.
    """
    if before in _DETERMINERS:
        adjective = "ADJ" in uses and after.isalpha() and after not in _PREPOSITIONS | _PERFECT | {"and", "or", "to"}
        return "ADJ" if adjective else "NOUN"
    if before in _PERFECT and "VBN" in uses:
        return "VBN"
    if before in _BE and "ADJ" in uses:
        return "ADJ"
    if before in _BEFORE_VERBS:
        plain = before in _PLAIN or earlier in _PLAIN  # "can read", "did you read"
        return "VBD" if "VBD" in uses and not plain and _past(words) else "VERB"
    if before in _PREPOSITIONS:
        return "ADJ" if "ADJ" in uses and after.isalpha() and after not in _PREPOSITIONS else "NOUN"
    return "VERB" if not before and after in _DETERMINERS else "DEFAULT"


def _past(words: Container[str]) -> bool:
    return any(word in words for word in _PAST)
