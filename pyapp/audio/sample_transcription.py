"""What transcriptions by models have in common that hear samples: clips, segments with their speakers, results."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum, log
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.windows import Samples
from pyapp.audio.word_times import Draft
from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Event, Metric, Progress, Segment

if TYPE_CHECKING:
    from pyapp.audio.activity import SpeechDetector
    from pyapp.audio.options import TranscribeOptions
    from pyapp.audio.turns import Turns

NO_TIMES = 1 << 62  # a number above those of all tokens
SMALLEST = 1e-30  # a probability whose logarithm is taken
HINT = "Choose a Whisper model for it"


class SampleTranscription:
    """A transcription; subclasses write `_hear_clip`. `loaded` has `model`, `tokenizer` and `processor`.

    Settings of Whisper's search, prompts and thresholds mean nothing here; OptionError for those that ask for another
    text: translation, prompts and prefixes.
    """

    def __init__(
        self, loaded: Any, audio: Any, options: TranscribeOptions, cancel: Cancel,
        detector: SpeechDetector | None = None, turns: Turns | None = None,
    ) -> None:  # fmt: skip
        if options.task != "transcribe" and not getattr(loaded.model, "translates", False):
            raise OptionError("this model does not translate", where="task", hint=HINT)
        for name in ("initial_prompt", "prefix"):
            if getattr(options, name) is not None:
                raise OptionError("this model takes no text before what it hears", where=name, hint=HINT)
        self._model, self._tokenizer, self._processor = loaded.model, loaded.tokenizer, loaded.processor
        self._options, self._cancel, self._detector, self._turns = options, cancel, detector, turns
        self._samples = Samples(audio)
        self._heard = 0  # samples
        self._segments: list[Segment] = []

    def events(self) -> Iterator[Event]:
        """As transcribe_events; there are no Language, Partial and Doubt."""
        began = perf_counter()
        for start, end in self._options.clips():
            last = None if end is None else round(end * SAMPLE_RATE)
            yield from self._hear_clip(round(start * SAMPLE_RATE), last)
        total = self._samples.total
        duration = (self._heard if total is None else total) / SAMPLE_RATE
        yield Metric("speed", duration / max(perf_counter() - began, 1e-9), "x real time")
        segments = [
            {name: value for name, value in segment.to_dict().items() if name not in ("type", "guess", "continues")}
            for segment in self._segments
        ]
        text = "".join(segment.text for segment in self._segments)
        language = self._options.language
        yield Done(
            "complete",
            {"text": text, "language": language, "duration": duration, "task": "transcribe", "segments": segments},
        )

    def _hear_clip(self, begin: int, last: int | None) -> Iterator[Event]:
        """The sound from sample `begin` to `last`, or to the end of the recording."""
        raise NotImplementedError

    def _progress(self, at: int, kept: int = 0) -> Progress:
        """The sound before sample `at` was heard; the last `kept` samples of it are heard again."""
        self._heard = at
        self._samples.forget(at - kept)
        total = self._samples.total
        return Progress("transcribing", at / SAMPLE_RATE, None if total is None else total / SAMPLE_RATE, "seconds")

    def _tell(self, draft: Draft, sure: float | None = None) -> Iterator[Event]:
        """A segment, or its parts by speakers. `sure`: its mean log-probability; None: that of its words."""
        for part in [draft] if self._turns is None else self._turns.parts(draft, NO_TIMES):
            told = [
                {"word": word.word, "start": word.start, "end": word.end, "probability": word.probability}
                | ({} if part.speaker is None else {"speaker": part.speaker})
                for word in part.words
            ]
            logs = [log(max(word.probability, SMALLEST)) for word in part.words]
            segment = Segment(
                part.text, part.start, part.end, len(self._segments), part.seek, tuple(part.tokens),
                avg_logprob=fsum(logs) / len(logs) if sure is None else sure,
                words=tuple(told) if self._options.word_timestamps and told else None, speaker=part.speaker,
            )  # fmt: skip
            self._segments.append(segment)
            yield segment
