"""Detect hallucinated words: improbable, very short or very long, with silence around them.

Source: the behaviour of https://github.com/openai/whisper (MIT), `hallucination_silence_threshold`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyapp.audio.options import BEFORE_WORDS, BEHIND_WORDS
from pyapp.audio.word_times import Draft, WordTime

IMPROBABLE = 0.15
SHORT, LONG = 0.133, 2.0  # seconds
WORDS_LOOKED_AT = 8
SURE = 3.0
PUNCTUATION = BEFORE_WORDS + BEHIND_WORDS
EDGE = 2.0  # seconds at both ends of a window that count as silence


def oddness(word: WordTime) -> float:
    """A score of how unlikely the word is; 0 for an ordinary word."""
    short, long = max(0.0, SHORT - word.duration) * 15, max(0.0, word.duration - LONG)
    return (word.probability < IMPROBABLE) + short + long


def is_odd(draft: Draft | None) -> bool:
    """Whether a segment's first words are so odd that it may be a hallucination."""
    if draft is None or not draft.words:
        return False
    words = [word for word in draft.words if word.word not in PUNCTUATION][:WORDS_LOOKED_AT]
    score = sum(map(oddness, words))
    return score >= SURE or score + 0.01 >= len(words)


def with_words(drafts: Sequence[Draft]) -> Draft | None:
    """The first segment that has words."""
    return next((draft for draft in drafts if draft.words), None)


def first_made_up(
    drafts: Sequence[Draft], window: tuple[float, float, float], last_speech: float, threshold: float
) -> int | None:
    """The first odd segment with silence or odd segments on both sides, None if there is none.

    `window`: its beginning, the end of its sound, and the end of its full length, in seconds. Silence lasts at least
    `threshold` seconds.
    """
    begin, sound_end, full_end = window
    end_before = last_speech
    for index, draft in enumerate(drafts):
        if not draft.words:
            continue
        if is_odd(draft):
            following = with_words(drafts[index + 1 :])
            next_start = following.words[0].start if following else sound_end
            silent_before = (
                draft.start - end_before > threshold or draft.start < threshold or draft.start - begin < EDGE
            )
            silent_behind = next_start - draft.end > threshold or is_odd(following) or full_end - draft.end < EDGE
            if silent_before and silent_behind:
                return index
        end_before = draft.end
    return None
