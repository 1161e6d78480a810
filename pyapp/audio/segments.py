"""Cut the tokens of a window into segments at their times.

Source: the behaviour of https://github.com/openai/whisper (MIT).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyapp.audio.windows import FRAMES_PER_SECOND
from pyapp.audio.word_times import FRAMES_PER_TOKEN, Draft
from pyapp.text.tokenization.whisper_tokenizer import SECONDS_PER_TIME, WhisperTokenizer


def is_time(token: int, tokenizer: WhisperTokenizer) -> bool:
    return token >= tokenizer.timestamp_begin


def cut_segments(tokens: Sequence[int], tokenizer: WhisperTokenizer, seek: int, size: int) -> tuple[list[Draft], int]:
    """(segments, frames to advance) for the tokens of a window of `size` frames that begins at frame `seek`.

    A segment ends between two adjacent times. Text after the last such place was cut off by the window and is decoded
    again from there, unless a single time at the end of the tokens means that nothing follows.
    """
    times = [is_time(token, tokenizer) for token in tokens]
    offset = seek / FRAMES_PER_SECOND

    def draft(part: Sequence[int], start: float, end: float) -> Draft:
        return Draft(seek, start, end, tokenizer.decode(part), list(part))

    cuts = [index for index in range(1, len(tokens)) if times[index - 1] and times[index]]
    if not cuts:
        duration = size / FRAMES_PER_SECOND
        last = next((token for token in reversed(tokens) if is_time(token, tokenizer)), tokenizer.timestamp_begin)
        if last != tokenizer.timestamp_begin:
            duration = (last - tokenizer.timestamp_begin) * SECONDS_PER_TIME
        return [draft(tokens, offset, offset + duration)], size
    complete = times[-2:] == [False, True]
    if complete:
        cuts.append(len(tokens))
    drafts = []
    for first, last in zip([0, *cuts], cuts, strict=False):
        start, end = (tokens[place] - tokenizer.timestamp_begin for place in (first, last - 1))
        part = tokens[first:last]
        drafts.append(draft(part, offset + start * SECONDS_PER_TIME, offset + end * SECONDS_PER_TIME))
    moved = (tokens[cuts[-1] - 1] - tokenizer.timestamp_begin) * FRAMES_PER_TOKEN
    return drafts, size if complete else moved


def last_end(drafts: Sequence[Draft]) -> float | None:
    """The end of the last word, or without words of the last segment; None if there is none."""
    if not drafts:
        return None
    return next((draft.words[-1].end for draft in reversed(drafts) if draft.words), drafts[-1].end)
