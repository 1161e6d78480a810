"""The stress of English words in phonemes: ˈ before the vowel with the first stress, ˌ with the second."""

from __future__ import annotations

import re

FIRST, SECOND = "ˈ", "ˌ"
VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")
CONSONANTS = frozenset("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ")
LONG = frozenset("AIOQWYʤʧ")  # one sign, two sounds
_MARKS = re.compile(f"[{FIRST}{SECOND}]")


def unstressed(phonemes: str) -> str:
    """The phonemes without stress."""
    return _MARKS.sub("", phonemes)


def weakened(phonemes: str) -> str:
    """The phonemes with second stress in place of the first, if there is a first one."""
    return unstressed_second(phonemes).replace(FIRST, SECOND) if FIRST in phonemes else phonemes


def unstressed_second(phonemes: str) -> str:
    return phonemes.replace(SECOND, "")


def stressed(phonemes: str, mark: str) -> str:
    """The phonemes with a stress on the first vowel, where a word has none."""
    if _MARKS.search(phonemes):
        return phonemes
    at = next((at for at, sound in enumerate(phonemes) if sound in VOWELS), None)
    return phonemes if at is None else phonemes[:at] + mark + phonemes[at:]


def emphasised(phonemes: str) -> str:
    """The phonemes with a first stress, as in words of capitals."""
    if FIRST in phonemes:
        return phonemes
    return phonemes.replace(SECOND, FIRST) if SECOND in phonemes else stressed(phonemes, FIRST)


def weight(phonemes: str) -> int:
    """How long a part of a word sounds."""
    return sum(2 if sound in LONG else 1 for sound in phonemes)


def joined(parts: list[tuple[str, str]]) -> str:
    """The phonemes of a word of several parts, each (letters, phonemes): where most have the first stress, the lightest
    lose it.
    """
    sounding = [at for at, (_, phonemes) in enumerate(parts) if phonemes]
    phonemes = [sounds for _, sounds in parts]
    strong = sum(FIRST in phonemes[at] for at in sounding)
    lighter: list[int] = []
    if len(sounding) == 2 and len(parts[sounding[0]][0]) == 1:
        lighter = [sounding[1]]
    elif len(sounding) > 1 and strong > (len(sounding) + 1) // 2:
        order = sorted(sounding, key=lambda at: (FIRST in phonemes[at], weight(phonemes[at]), at))
        lighter = order[: len(sounding) // 2]
    for at in lighter:
        phonemes[at] = weakened(phonemes[at])
    return "".join(phonemes)
