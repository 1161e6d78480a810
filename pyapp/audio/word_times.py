"""Times of words: dynamic time warping along the decoder's attention to the sound.

Source: the behaviour of https://github.com/openai/whisper (MIT); time warping after Sakoe and Chiba (1978).
The attention of some heads follows the sound along the text. The negated mean of their attention, normalised and
smoothed, is a cost matrix of tokens and times. The cheapest monotonic path through it gives the time of each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.decoding import SpeechModel
from pyapp.audio.mel import HOP
from pyapp.audio.options import TranscribeOptions
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.text.tokenization.whisper_tokenizer import WhisperTokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.engine.tensor import Tensor

FRAMES_PER_TOKEN = 2  # the encoder halves the frames
POSITIONS_PER_SECOND = SAMPLE_RATE // (HOP * FRAMES_PER_TOKEN)
SMOOTHING = 7  # positions of the median
SENTENCE_ENDS = ".。!！?？"
LONGEST_MEDIAN = 0.7  # seconds
TWICE = 2


@dataclass
class WordTime:
    """A word with its space, its tokens, and its times in seconds."""

    word: str
    tokens: list[int]
    start: float
    end: float
    probability: float

    @property
    def duration(self) -> float:
        return self.end - self.start


@dataclass
class Draft:
    """A segment that is not final yet; times in seconds, `seek` the frame at which its window begins. `speaker` is the
    name of who says it, if the speakers are told apart.
    """

    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    words: list[WordTime] = field(default_factory=list)
    speaker: str | None = None


def add_word_times(
    drafts: Sequence[Draft],
    model: SpeechModel,
    tokenizer: WhisperTokenizer,
    audio: Tensor,
    frames: int,
    language: str | None,
    options: TranscribeOptions,
    last_speech: float,
) -> None:
    """Adds words to the segments of one window, and adjusts the times of the segments to them.

    `audio` is the encoded window (1, n_ctx, state) with `frames` frames of sound; `last_speech` is the end of the
    previous speech.
    """
    if not drafts:
        return
    if frames < FRAMES_PER_TOKEN:  # nothing can have been said in so little sound
        for draft in drafts:
            draft.end = draft.start
        return
    texts = [[token for token in draft.tokens if token < tokenizer.eot] for draft in drafts]
    words = align(model, tokenizer, [token for text in texts for token in text], audio, frames, language, options.task)
    durations = sorted(word.duration for word in words if word.duration)
    middle = (durations[(len(durations) - 1) // 2] + durations[len(durations) // 2]) / 2 if durations else 0.0
    median = min(LONGEST_MEDIAN, middle)
    if durations:
        shorten_at_sentence_ends(words, TWICE * median)
    merge_punctuation(words, options.prepend_punctuations, options.append_punctuations)
    offset = drafts[0].seek * HOP / SAMPLE_RATE
    rest = iter(words)
    for draft, text in zip(drafts, texts, strict=True):
        count = 0
        while count < len(text) and (word := next(rest, None)) is not None:
            count += len(word.tokens)
            if word.word:
                word.start, word.end = round(offset + word.start, 2), round(offset + word.end, 2)
                draft.words.append(word)
        if draft.words:
            fit(draft, median, last_speech)
            last_speech = draft.end


def align(
    model: SpeechModel,
    tokenizer: WhisperTokenizer,
    tokens: Sequence[int],
    audio: Tensor,
    frames: int,
    language: str | None,
    task: str = "transcribe",
) -> list[WordTime]:
    """The words of text `tokens`, with times from the beginning of the window."""
    if not tokens or frames < FRAMES_PER_TOKEN:
        return []
    begin = tokenizer.sot_sequence(language, task)
    given = [*begin, tokenizer.no_timestamps, *tokens, tokenizer.eot]
    logits, attention = model.cross_attention(given, audio)  # (T, V), (layers, heads, T, n_ctx) before the softmax
    predicted = as_array(logits)[len(begin) : len(begin) + len(tokens), : tokenizer.eot]
    probabilities = token_probabilities(predicted, tokens)
    cost = -attention_of_heads(model, as_array(attention), frames // FRAMES_PER_TOKEN)[len(begin) : -1]
    token_index, position = cheapest_path(cost)
    steps = np.flatnonzero(np.diff(token_index, prepend=-1))
    starts = position[steps] / POSITIONS_PER_SECOND  # of each token, and of the end
    words, parts = tokenizer.split_to_words([*tokens, tokenizer.eot], language)
    if len(words) < 2:
        return []
    found, first = [], 0
    for word, part in zip(words[:-1], parts[:-1], strict=True):
        last = first + len(part)
        probability = float(np.mean(probabilities[first:last]))
        found.append(WordTime(word, list(part), float(starts[first]), float(starts[last]), probability))
        first = last
    return found


def as_array(values: Any) -> Any:
    """A Tensor's values as an array; an array unchanged."""
    return values.numpy() if hasattr(values, "numpy") else np.asarray(values)


def token_probabilities(logits: NDArray[np.float32], tokens: Sequence[int]) -> NDArray[np.float32]:
    """The probability (N,) of each of `tokens` under logits (N, V)."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    chosen: NDArray[np.float32] = weights[np.arange(len(tokens)), np.array(tokens, np.int64)] / weights.sum(axis=1)
    return chosen


def attention_of_heads(model: SpeechModel, scores: NDArray[np.float32], positions: int) -> NDArray[np.float32]:
    """The mean attention (T, positions) of the heads that follow the sound, from scores (layers, heads, T, n_ctx), or
    from those of the selected heads (N, T, n_ctx).
    """
    wanted = list(scores)
    if scores.ndim == 4:
        layers, heads = scores.shape[:2]
        upper = [(layer, head) for layer in range(layers // 2, layers) for head in range(heads)]
        wanted = [scores[layer, head] for layer, head in model.alignment_heads or upper]
    total = np.zeros((scores.shape[-2], positions), np.float32)
    for head in wanted:
        weights = np.exp(head[:, :positions] - head[:, :positions].max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):  # a single position has no deviation
            normal = (weights - weights.mean(axis=0)) / weights.std(axis=0)
        total += median_filter(normal)
    return total / np.float32(len(wanted))


def median_filter(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The median of SMOOTHING neighbours along the rows of x (T, N), mirrored at the ends."""
    half = SMOOTHING // 2
    if x.shape[1] <= half:
        return x
    padded = np.pad(x, ((0, 0), (half, half)), mode="reflect")
    around = [padded[:, shift : shift + x.shape[1]].copy() for shift in range(SMOOTHING)]
    for low, high in MEDIAN_OF_SEVEN:  # exchanges that move the median to the middle
        around[low], around[high] = np.minimum(around[low], around[high]), np.maximum(around[low], around[high])
    return around[half]


# N. Devillard, Fast median search (1998): 13 comparisons leave the median of seven in place 3.
MEDIAN_OF_SEVEN = (
    (0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6), (2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4),
)  # fmt: skip


def cheapest_path(cost: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows, columns) of the cheapest monotonic path through cost (N, M) from one corner to the other.

    One anti-diagonal is computed at a time. Sums are float32 and ties go to the previous column, as in openai-whisper,
    so that near ties are decided the same way.
    """
    rows, columns = cost.shape
    skewed = np.full((rows + columns - 1, rows), np.inf)  # [i + j, i]
    for row in range(rows):
        skewed[row : row + columns, row] = cost[row]
    steps = np.full((rows + columns - 1, rows), 2, np.int8)
    # sums of the last two diagonals, at [i + 1]; the corner before the first cell costs nothing
    before_last = np.full(rows + 1, np.inf, np.float32)
    last = before_last.copy()
    before_last[0] = 0
    for diagonal in range(rows + columns - 1):
        both, up, left = before_last[:-1], last[:-1], last[1:]
        step = np.where((both < up) & (both < left), 0, np.where((up < both) & (up < left), 1, 2))
        best = np.where(step == 0, both, np.where(step == 1, up, left))
        current = np.full(rows + 1, np.inf, np.float32)
        current[1:] = skewed[diagonal] + best
        steps[diagonal] = step
        before_last, last = last, current
    return trace_back(steps, rows, columns)


def trace_back(steps: NDArray[np.int8], rows: int, columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cells of the path, from the predecessor of each: 0 diagonal, 1 the previous row, 2 the previous column."""
    row, column = rows - 1, columns - 1
    path = []
    while row >= 0 and column >= 0:
        path.append((row, column))
        step = steps[row + column, row] if row and column else 1 if row else 2
        row -= step != 2
        column -= step != 1
    found = np.array(path[::-1], np.int64)
    return found[:, 0], found[:, 1]


def merge_punctuation(words: list[WordTime], opening: str, closing: str) -> None:
    """Joins opening punctuation to the next word and closing punctuation to the previous one; the joined entries become
    empty.
    """
    following = len(words) - 1
    for index in range(len(words) - 2, -1, -1):
        sign = words[index]
        if sign.word.startswith(" ") and sign.word.strip() in opening:
            words[following].word = sign.word + words[following].word
            words[following].tokens = sign.tokens + words[following].tokens
            sign.word, sign.tokens = "", []
        else:
            following = index
    previous = 0
    for index in range(1, len(words)):
        sign = words[index]
        if not words[previous].word.endswith(" ") and sign.word in closing:
            words[previous].word += sign.word
            words[previous].tokens = words[previous].tokens + sign.tokens
            sign.word, sign.tokens = "", []
        else:
            previous = index


def shorten_at_sentence_ends(words: Sequence[WordTime], longest: float) -> None:
    """Shortens words at the end or the beginning of a sentence that are longer than `longest`: they contain a pause."""
    for previous, word in zip(words, words[1:], strict=False):
        if word.duration > longest:
            if word.word in SENTENCE_ENDS:
                word.end = word.start + longest
            elif previous.word in SENTENCE_ENDS:
                word.start = word.end - longest


def fit(draft: Draft, median: float, last_speech: float) -> None:
    """Removes pauses from the first and the last word of a segment, and sets the segment's times to those of its words,
    unless the model's times show that a word is too long.
    """
    words, longest = draft.words, TWICE * median
    first, last = words[0], words[-1]
    second = words[1] if len(words) > 1 else None
    too_long = first.duration > longest or (second is not None and second.end - first.start > TWICE * longest)
    if first.end - last_speech > 4 * median and too_long:
        if second is not None and second.duration > longest:
            first.end = second.start = max(second.end / 2, second.end - longest)
        first.start = max(0.0, first.end - longest)
    if draft.start < first.end and draft.start - 0.5 > first.start:
        first.start = max(0.0, min(first.end - median, draft.start))
    else:
        draft.start = first.start
    if draft.end > last.start and draft.end + 0.5 < last.end:
        last.end = max(last.start + median, draft.end)
    else:
        draft.end = last.end
