"""The settings of transcription: openai-whisper's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import isfinite
from numbers import Integral, Real
from typing import Any, TypeVar

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError, check_settings
from pyapp.text.languages import language_code

Number = TypeVar("Number", int, float)

TASKS = ("transcribe", "translate")
BEFORE_WORDS = "\"'“¿([{-"
BEHIND_WORDS = "\"'.。,，!！?？:：”)]}、"
LARGEST = 1 << 31
AUTO = "auto"
MOST_SPEAKERS = 100


@dataclass(frozen=True)
class TranscribeOptions:
    """openai-whisper's settings (https://github.com/openai/whisper, `transcribe` and `DecodingOptions`), times in
    seconds. OptionError, with the name of the setting, for an invalid value.

    - language: code or name; None: detected in the first window. task: "transcribe", or "translate" into English.
    - temperature: tried in this order until a window is neither too repetitive (compression_ratio_threshold) nor too
    unlikely (logprob_threshold, mean per token); None switches a test off.
    - no_speech_threshold: above it, and if too unlikely, a window is silence.
    - beam_size, patience, length_penalty: search at temperature 0 (None: greedy); best_of: samples at higher ones.
    - suppress_tokens: ids, comma-separated or a list, that are never chosen; -1 stands for the tokens that annotate
    sounds; an empty value allows control tokens too. suppress_blank: no empty start.
    - sample_len: tokens of a window (None: half the context); prefix: text that every window begins with.
    - initial_prompt: text before the first window, with carry_initial_prompt before each;
      condition_on_previous_text: the text so far is the prompt of the next window.
    - without_timestamps, max_initial_timestamp: of the first segment in a window.
    - word_timestamps, prepend_punctuations, append_punctuations: times of words, and the punctuation joined to a word.
    - clip_timestamps: start,end,start,... of the parts to transcribe; the last end may be left out.
    - hallucination_silence_threshold: with word times, longer silence around improbable words is skipped.
    - seed: of the samples.

    Not openai's, the first three as in faster-whisper:

    - language_detection_segments: windows that may be heard to detect the language. The first one where a language is
      more probable than language_detection_threshold decides; if there is none, the language that most windows have.
    - multilingual: the language is detected in each window.
    - skip_silence: windows begin where somebody speaks.
    - speakers: tell them apart, "auto" (or true) or how many there are; speaker_threshold: the cosine distance, 0 to 2,
      from which on two voices are two speakers (None: the default).
    """

    language: str | None = None
    task: str = "transcribe"
    temperature: float | Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    best_of: int | None = 5
    beam_size: int | None = None
    patience: float | None = None
    length_penalty: float | None = None
    sample_len: int | None = None
    suppress_tokens: str | Sequence[int] | None = "-1"
    suppress_blank: bool = True
    prefix: str | None = None
    initial_prompt: str | None = None
    carry_initial_prompt: bool = False
    condition_on_previous_text: bool = True
    compression_ratio_threshold: float | None = 2.4
    logprob_threshold: float | None = -1.0
    no_speech_threshold: float | None = 0.6
    without_timestamps: bool = False
    max_initial_timestamp: float | None = 1.0
    word_timestamps: bool = False
    prepend_punctuations: str = BEFORE_WORDS
    append_punctuations: str = BEHIND_WORDS
    clip_timestamps: str | Sequence[float] = "0"
    hallucination_silence_threshold: float | None = None
    seed: int = 0
    skip_silence: bool = False
    speakers: str | int | None = None
    speaker_threshold: float | None = None
    language_detection_segments: int = 1
    language_detection_threshold: float = 0.5
    multilingual: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise OptionError(f"there is no task {self.task!r:.40}", where="task", hint=f"Choose {' or '.join(TASKS)}")
        if self.language is not None:
            object.__setattr__(self, "language", language_code(self.language))
        object.__setattr__(self, "temperature", check_temperatures(self.temperature))
        for name, low, high in (("best_of", 1, 64), ("beam_size", 1, 64), ("sample_len", 1, LARGEST)):
            check(name, getattr(self, name), low, high, Integral)
        check("seed", self.seed, 0, (1 << 64) - 1, Integral, needed=True)
        check("language_detection_segments", self.language_detection_segments, 1, LARGEST, Integral, needed=True)
        check("language_detection_threshold", self.language_detection_threshold, 0, 1, needed=True)
        check("patience", self.patience, 0, 64)
        check("length_penalty", self.length_penalty, 0, 1)
        check("compression_ratio_threshold", self.compression_ratio_threshold, -LARGEST, LARGEST)
        check("logprob_threshold", self.logprob_threshold, -LARGEST, LARGEST)
        check("no_speech_threshold", self.no_speech_threshold, -1, LARGEST)
        check("max_initial_timestamp", self.max_initial_timestamp, 0, 30)
        check("hallucination_silence_threshold", self.hallucination_silence_threshold, 0, LARGEST)
        for name in ("initial_prompt", "prefix", "prepend_punctuations", "append_punctuations"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (value is None and name in ("initial_prompt", "prefix")):
                raise OptionError(f"must be text, not {value!r:.40}", where=name)
        for name in SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"must be true or false, not {getattr(self, name)!r:.40}", where=name)
        if self.multilingual and self.language is not None:
            what = "does not go with multilingual, which detects it in each window"
            raise OptionError(what, where="language", hint="Leave one out")
        if self.patience is not None and self.beam_size is None:
            raise OptionError("patience is part of a beam search", where="patience", hint="Give beam_size too")
        if self.patience is not None and round((self.beam_size or 0) * self.patience) < 1:
            raise OptionError("is too small for this beam_size", where="patience")
        if self.hallucination_silence_threshold is not None and not self.word_timestamps:
            raise OptionError("needs word_timestamps", where="hallucination_silence_threshold")
        object.__setattr__(self, "speakers", check_speakers(self.speakers))
        check("speaker_threshold", self.speaker_threshold, 0.01, 2)
        self.clips()
        self.suppressed()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TranscribeOptions:
        """From JSON values; unknown names are refused."""
        check_settings(values, (entry.name for entry in fields(cls)))
        return cls(**values)

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The temperatures to try, in order."""
        assert isinstance(self.temperature, tuple)
        return self.temperature

    def clips(self) -> list[tuple[float, float | None]]:
        """(start, end) of the parts to transcribe, in seconds; None: the end of the recording."""
        times: list[float] = numbers("clip_timestamps", self.clip_timestamps, float)
        if any(not isfinite(time) or time < 0 for time in times):
            raise OptionError("times must be 0 or more", where="clip_timestamps")
        points = times or [0.0]
        ends = [*points[1::2], None] if len(points) % 2 else points[1::2]
        clips = list(zip(points[::2], ends, strict=True))
        for start, end in clips:
            if end is not None and end <= start:
                raise OptionError(f"the part from {start:g} to {end:g} s has no length", where="clip_timestamps")
        return clips

    def suppressed(self) -> list[int] | None:
        """The ids in suppress_tokens, -1 included if given; None if nothing was given."""
        if self.suppress_tokens is None or not len(self.suppress_tokens):
            return None
        return numbers("suppress_tokens", self.suppress_tokens, int)


SWITCHES = (
    "suppress_blank", "carry_initial_prompt", "condition_on_previous_text", "without_timestamps", "word_timestamps",
    "skip_silence", "multilingual",
)  # fmt: skip


def check(name: str, value: object, low: float, high: float, kind: Any = Real, needed: bool = False) -> None:
    """OptionError unless `value` is a number of this kind from `low` to `high`, or None if that is allowed."""
    if value is None and not needed:
        return
    if not isinstance(value, kind) or isinstance(value, bool) or not low <= value <= high:
        whole = "a whole number" if kind is Integral else "a number"
        raise OptionError(f"must be {whole} from {low:g} to {high:g}, not {value!r:.40}", where=name)


def check_speakers(value: object) -> str | int | None:
    """ "auto", a number of speakers, or None."""
    if value is None or value is False:
        return None
    if value is True or value == AUTO:
        return AUTO
    if isinstance(value, str) and value.isdecimal() and len(value) <= len(str(MOST_SPEAKERS)):
        value = int(value)
    if not isinstance(value, Integral) or not 1 <= int(value) <= MOST_SPEAKERS:
        hint = f"Give {AUTO}, or how many there are"
        raise OptionError(
            f"must be {AUTO} or from 1 to {MOST_SPEAKERS}, not {value!r:.40}", where="speakers", hint=hint
        )
    return int(value)


def check_temperatures(value: object) -> tuple[float, ...]:
    found = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    for temperature in found:
        check("temperature", temperature, 0, 100, needed=True)
    if not found:
        raise OptionError("needs at least one value", where="temperature")
    return found


def numbers(name: str, value: str | Sequence[Number], kind: type[Number]) -> list[Number]:
    """The numbers in a comma-separated text or a sequence; OptionError for anything else."""
    entries: Any = value
    if isinstance(value, str):
        entries = value.split(",") if value.strip() else []
    try:
        found = [kind(entry) for entry in entries]
        if not isinstance(value, str) and any(
            isinstance(entry, (bool, str)) or entry != kind(entry) for entry in value
        ):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"must be numbers with commas between, not {value!r:.40}", where=name) from None
    return found
