"""Transcribe recordings of any length to segments with times; windows, fallbacks, prompts and seeks as in
openai-whisper.

Source: Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision (2022), section 4.5, and what
https://github.com/openai/whisper (MIT) does. Segments are reported as soon as their window is decoded, and only the
sound of the window is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from math import ceil, floor
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from pyapp.audio.activity import EnergyDetector, Span, SpeechDetector
from pyapp.audio.confidence import HOT, Confidence, GuessLimits, is_guess
from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.decoding import Decoded, SpeechModel, WindowDecoder, detect_language
from pyapp.audio.encoding import WindowEncoder
from pyapp.audio.hallucinations import first_made_up, is_odd, with_words
from pyapp.audio.mel import HOP
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.segments import cut_segments, is_time, last_end
from pyapp.audio.windows import FRAMES_PER_SECOND, MelWindows
from pyapp.audio.word_times import FRAMES_PER_TOKEN, Draft, add_word_times
from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Event, Language, Metric, Partial, Progress, Segment
from pyapp.text.generation.sampling import Uniform
from pyapp.text.tokenization.whisper_tokenizer import SECONDS_PER_TIME, WhisperTokenizer

if TYPE_CHECKING:
    from pyapp.audio.turns import Turns
    from pyapp.engine.tensor import Tensor

SHORTEST_SKIP = 1.0  # seconds of silence that justify a window of another length


class ModelWithTokenizer(Protocol):
    """A speech model and its tokenizer, as returned by pyapp.models.load_speech_model."""

    @property
    def model(self) -> Any: ...
    @property
    def tokenizer(self) -> WhisperTokenizer: ...


def transcribe_events(
    model: ModelWithTokenizer,
    audio: Any,
    options: TranscribeOptions | None = None,
    cancel: Cancel | None = None,
    *,
    detector: SpeechDetector | None = None,
    turns: Turns | None = None,
    encoder: WindowEncoder | None = None,
) -> Iterator[Event]:
    """Transcribes mono float32 (samples,) at 16 kHz, or an iterable of such blocks in bounded memory. A `detector` of
    speech lets windows begin where somebody speaks; `turns` say who: a segment ends where the speaker changes between
    words with times. An `encoder` is shared with other recordings (`encoder_of`): before each window there is a
    Progress, after which others that come to theirs are encoded with it.

    Yields Language, Partial (the text of the window that is being decoded), Segment, Progress in seconds, and at the
    end Doubt if the text may be a guess, Metric ("speed", seconds of sound per second), and Done with text, language,
    duration, task and segments as in openai's JSON; `guess` is the Doubt's share. Raises OptionError for a setting that
    does not fit the model or for bad samples, Cancelled. Models that hear samples (pyapp.audio.characters and
    pyapp.audio.utterances) have no `encoder`.
    """
    options = options or TranscribeOptions()
    if detector is None and options.skip_silence:
        detector = EnergyDetector()
    if getattr(model, "processor", None) is not None:
        from pyapp.audio.characters import CharacterTranscription, TransducerTranscription
        from pyapp.audio.synchronous import SynchronousTranscription
        from pyapp.audio.utterances import PromptedTranscription, UtteranceTranscription
        from pyapp.nn.audio.synchronous import SynchronousModel
        from pyapp.nn.sequence_to_sequence.sequence_to_sequence import SequenceToSequence

        kind: Any = UtteranceTranscription if isinstance(model.model, SequenceToSequence) else CharacterTranscription
        kind = PromptedTranscription if hasattr(model.model, "transcription_prompt") else kind
        kind = TransducerTranscription if hasattr(model.model, "pieces") else kind
        kind = SynchronousTranscription if isinstance(model.model, SynchronousModel) else kind
        return kind(model, audio, options, cancel or Cancel(), detector, turns).events()
    return Transcription(model, audio, options, cancel or Cancel(), detector, turns, encoder).events()


def frames_of(model: Any) -> int:
    """The frames in a window of a speech model."""
    return FRAMES_PER_TOKEN * int(model.config.n_audio_ctx)


def encoder_of(loaded: ModelWithTokenizer) -> WindowEncoder:
    """An encoder that recordings share which are transcribed at the same time."""
    return WindowEncoder(loaded.model, frames_of(loaded.model))


class Transcription:
    """The state between windows. Positions are in frames of 10 ms from the beginning of the recording."""

    def __init__(
        self, loaded: ModelWithTokenizer, audio: Any, options: TranscribeOptions, cancel: Cancel,
        detector: SpeechDetector | None, turns: Turns | None, encoder: WindowEncoder | None,
    ) -> None:  # fmt: skip
        self._model: SpeechModel = loaded.model
        self._tokenizer, self._options, self._cancel = loaded.tokenizer, options, cancel
        self._detector, self._turns = detector, turns
        check_options(options, self._tokenizer, self._model.config.n_text_ctx)
        self._window = frames_of(self._model)
        self._shares_encoder = encoder is not None
        self._encoder = encoder or encoder_of(loaded)
        self._mel = MelWindows(audio, self._model.config.n_mels)
        self._language = options.language if self._tokenizer.multilingual else "en"
        self._main_language: str | None = None  # the chosen one, or the one that was heard at first
        self._draw = Uniform(options.seed).draw
        self._first: Tensor | None = None  # the window from 0, if it was encoded to detect the language
        self._seek = 0
        self._last_speech = 0.0  # seconds
        self._segments: list[Segment] = []
        self._confidence = Confidence()
        self._limits = GuessLimits.of(self._model)
        self._tokens: list[int] = []  # the initial prompt and all text
        self._prompt_from = 0
        initial = options.initial_prompt
        self._initial = [] if initial is None else self._tokenizer.encode(" " + initial.strip())
        self._tokens.extend(self._initial)

    def events(self) -> Iterator[Event]:
        began = perf_counter()
        yield from self._hear_language()
        assert self._language is not None
        self._main_language = self._language
        self._decoder = self._decoder_of(self._language)
        for start, end in self._options.clips():
            last = None if end is None else round(end * FRAMES_PER_SECOND)
            self._seek = round(start * FRAMES_PER_SECOND)
            while (size := self._size(last)) > 0:
                self._cancel.check()
                if self._detector is None or (size := self._go_to_speech(self._detector, size, last)):
                    yield from self._next_window(size)
                yield self._progress()
                self._mel.forget(self._seek)
        total = self._mel.samples.total
        duration = self._seconds_done() if total is None else total / SAMPLE_RATE
        results = self._results(duration)
        if (doubt := self._confidence.doubt()) is not None:
            yield doubt
            results["guess"] = doubt.share
        yield Metric("speed", duration / max(perf_counter() - began, 1e-9), "x real time")
        yield Done("complete", results)

    def _results(self, duration: float) -> dict[str, Any]:
        return {
            "text": self._tokenizer.decode(self._tokens[len(self._initial) :]),
            "language": self._main_language,
            "duration": duration,
            "task": self._options.task,
            "segments": [as_openai(segment) for segment in self._segments],
        }

    def _duration(self) -> float | None:
        """Seconds in the recording, None while unknown."""
        return None if self._mel.frames is None else self._mel.frames / FRAMES_PER_SECOND

    def _seconds_done(self) -> float:
        return min(self._seek, self._mel.frames or self._seek) / FRAMES_PER_SECOND

    def _progress(self) -> Progress:
        return Progress("transcribing", self._seconds_done(), self._duration(), "seconds")

    def _hear_language(self) -> Iterator[Event]:
        if self._language is not None:
            yield Language(self._language)
            return
        found: dict[str, list[float]] = {}  # how probable each language was in the windows that seem to have it
        for begin in range(0, self._options.language_detection_segments * self._window, self._window):
            if begin and self._mel.holds(begin + self._window) <= begin:
                break
            audio = yield from self._encode(self._mel.read(begin, begin + self._window))
            shares = detect_language(self._model, self._tokenizer, audio)
            if not begin and self._size(None) == self._window:  # a short recording is padded with zeros, not silence
                self._first = audio
            heard = max(shares, key=shares.__getitem__)
            found.setdefault(heard, []).append(shares[heard])
            if shares[heard] > self._options.language_detection_threshold:
                found = {heard: [shares[heard]]}
                break
        self._language = max(found, key=lambda code: len(found[code]))
        yield Language(self._language, max(found[self._language]))

    def _decoder_of(self, language: str) -> WindowDecoder:
        """What decodes windows in a language."""
        return WindowDecoder(self._model, self._tokenizer, self._options, language, self._draw)

    def _hear_change(self, audio: Tensor) -> Iterator[Event]:
        """Takes the language of an encoded window (1, n_ctx, state), and tells it if it is another one."""
        shares = detect_language(self._model, self._tokenizer, audio)
        heard = max(shares, key=shares.__getitem__)
        if heard != self._language:
            self._language, self._decoder = heard, self._decoder_of(heard)
            yield Language(heard, shares[heard])

    def _size(self, last: int | None) -> int:
        """The number of frames of the window at the present position, before `last` and the recording's end."""
        end = self._seek + self._window
        return self._mel.holds(end if last is None else min(end, last)) - self._seek

    def _encode(self, mel: Any) -> Generator[Event, None, Tensor]:
        """mel (n_mels, frames) → audio (1, n_ctx, state). Where the encoder is shared, others can put their windows
        beside this one before it is computed.
        """
        window = self._encoder.put(mel)
        try:
            if self._shares_encoder:
                yield self._progress()
                self._cancel.check()
            return window.take()
        finally:
            self._encoder.drop(window)

    def _go_to_speech(self, detector: SpeechDetector, size: int, last: int | None) -> int:
        """Moves to the start of speech in the next `size` frames, and returns the number of frames to decode from
        there. Without speech it moves past them and returns 0.
        """
        spans = self._speech(detector, size)
        if spans and spans[0].start > SHORTEST_SKIP:
            self._seek += floor(spans[0].start * FRAMES_PER_SECOND)
            size = self._size(last)
            spans = self._speech(detector, size)
        if not spans:
            self._seek += size
            return 0
        silence = size / FRAMES_PER_SECOND - spans[-1].end
        return ceil(spans[-1].end * FRAMES_PER_SECOND) if silence > SHORTEST_SKIP else size

    def _speech(self, detector: SpeechDetector, size: int) -> list[Span]:
        """The speech in the next `size` frames."""
        return detector.spans(self._mel.samples, self._seek * HOP, (self._seek + size) * HOP)

    def _next_window(self, size: int) -> Iterator[Event]:
        """Decodes `size` frames from the present position, and moves on."""
        begin = self._seek
        audio, self._first = self._first, None
        if audio is None or (begin, size) != (0, self._window):
            audio = yield from self._encode(self._mel.read(begin, begin + size))
        if self._options.multilingual:
            yield from self._hear_change(audio)
        result = yield from self._decode_with_fallback(audio)
        if self._is_silence(result):
            self._seek += size
            return
        drafts, moved = cut_segments(result.tokens, self._tokenizer, begin, size)
        self._seek += moved
        kept = True
        if self._options.word_timestamps:
            options, language = self._options, self._language
            add_word_times(drafts, self._model, self._tokenizer, audio, size, language, options, self._last_speech)
            kept = self._seek_by_words(drafts, result.tokens, begin, size)
        if self._seek <= begin:  # advance in any case
            self._seek = begin + size
        if kept:
            yield from self._keep(drafts, result)

    def _prompt(self) -> list[int]:
        """The prompt: the text before the window."""
        if not self._options.carry_initial_prompt:
            return self._tokens[self._prompt_from :]
        room = self._model.config.n_text_ctx // 2 - 1 - len(self._initial)
        return self._initial + self._tokens[max(len(self._initial), self._prompt_from) :][-room:]

    def _decode_with_fallback(self, audio: Tensor) -> Generator[Event, None, Decoded]:
        """Tries the temperatures in order until the text is neither too repetitive nor too unlikely."""
        options, prompt = self._options, self._prompt()
        for temperature in options.temperatures:
            result = yield from self._decode(audio, prompt, temperature)
            unlikely = options.logprob_threshold is not None and result.avg_logprob < options.logprob_threshold
            ratio = options.compression_ratio_threshold
            repetitive = ratio is not None and result.compression_ratio > ratio
            silent = options.no_speech_threshold is not None and result.no_speech_prob > options.no_speech_threshold
            if not (repetitive or unlikely) or (silent and unlikely):
                break
        return result

    def _decode(self, audio: Tensor, prompt: list[int], temperature: float) -> Generator[Event, None, Decoded]:
        """One attempt; yields its text as it grows."""
        shown = ""
        attempt = self._decoder.decode(audio, prompt, temperature, self._cancel)
        while True:
            try:
                tokens = next(attempt)
            except StopIteration as finished:
                result: Decoded = finished.value
                return result
            text = self._tokenizer.decode(tokens).rstrip("\ufffd")
            if text != shown:
                shown = text
                first = tokens[0] - self._tokenizer.timestamp_begin if is_time(tokens[0], self._tokenizer) else 0
                yield Partial(text, self._seek / FRAMES_PER_SECOND + first * SECONDS_PER_TIME)

    def _is_silence(self, result: Decoded) -> bool:
        options = self._options
        if options.no_speech_threshold is None or result.no_speech_prob <= options.no_speech_threshold:
            return False
        return options.logprob_threshold is None or result.avg_logprob <= options.logprob_threshold

    def _seek_by_words(self, drafts: list[Draft], tokens: list[int], begin: int, size: int) -> bool:
        """Moves to the end of the last word, and past silence with hallucinated words, which are dropped from `drafts`.
        False if the whole window must be decoded again from a later position.
        """
        offset, full_end = begin / FRAMES_PER_SECOND, (begin + self._window) / FRAMES_PER_SECOND
        threshold = self._options.hallucination_silence_threshold
        end = last_end(drafts)
        open_ended = [is_time(token, self._tokenizer) for token in tokens[-2:]] != [False, True]
        if open_ended and end is not None and end > offset:
            self._seek = round(end * FRAMES_PER_SECOND)
            if threshold is not None and full_end - end <= threshold:
                self._seek = begin + size
        if threshold is not None:
            first = with_words(drafts)
            if first is not None and is_odd(first) and first.start - offset > threshold:
                self._seek = begin + round((first.start - offset) * FRAMES_PER_SECOND)
                return False
            window = (offset, offset + size / FRAMES_PER_SECOND, full_end)
            made_up = first_made_up(drafts, window, self._last_speech, threshold)
            if made_up is not None:
                self._seek_past(drafts[made_up], offset, threshold)
                del drafts[made_up:]
        end = last_end(drafts)
        if end is not None:
            self._last_speech = end
        return True

    def _seek_past(self, draft: Draft, offset: float, threshold: float) -> None:
        """Moves to the start of a hallucinated segment, or to the end if only silence is left."""
        self._seek = round(max(offset + 1, draft.start) * FRAMES_PER_SECOND)
        frames = self._mel.holds(ceil((draft.end + threshold) * FRAMES_PER_SECOND) + 1)
        if frames / FRAMES_PER_SECOND - draft.end < threshold:
            self._seek = frames

    def _keep(self, drafts: list[Draft], result: Decoded) -> Iterator[Event]:
        """Reports the segments and stores them; segments without text or length are stored with empty text."""
        if self._turns is not None:
            first_time = self._tokenizer.timestamp_begin
            drafts = [part for draft in drafts for part in self._turns.parts(draft, first_time)]
        parts = []
        for draft in drafts:
            words = [word for word in draft.words if word.word]
            if draft.start == draft.end or not draft.text.strip():
                draft.text, draft.tokens, words = "", [], []
            parts.append(
                [
                    {"word": word.word, "start": word.start, "end": word.end, "probability": word.probability}
                    | ({} if draft.speaker is None else {"speaker": draft.speaker})
                    for word in words
                ]
            )
        guess = is_guess(
            [word for times in parts for word in times], result.avg_logprob, self._limits,
            temperature=result.temperature, compression_ratio=result.compression_ratio,
            no_speech_prob=result.no_speech_prob,
        )  # fmt: skip
        for draft, times in zip(drafts, parts, strict=True):
            self._confidence.add(draft.text, guess)
            segment = Segment(
                draft.text, draft.start, draft.end, len(self._segments), draft.seek, tuple(draft.tokens),
                result.temperature, result.avg_logprob, result.compression_ratio, result.no_speech_prob,
                tuple(times) if self._options.word_timestamps else None, guess or None,
                speaker=draft.speaker,
            )  # fmt: skip
            self._segments.append(segment)
            self._tokens.extend(draft.tokens)
            if segment.text:
                yield segment
        if not self._options.condition_on_previous_text or result.temperature > HOT:
            self._prompt_from = len(self._tokens)


def as_openai(segment: Segment) -> dict[str, Any]:
    """The segment as in openai's JSON."""
    return {name: value for name, value in segment.to_dict().items() if name not in ("type", "guess", "continues")}


def check_options(options: TranscribeOptions, tokenizer: WhisperTokenizer, context: int) -> None:
    """OptionError for settings that the model does not have."""
    if not tokenizer.multilingual:
        if options.language not in (None, "en"):
            raise OptionError(
                f"this model only knows English, not {options.language!r}", where="language",
                hint="Take a multilingual model (one without .en)",
            )  # fmt: skip
        if options.multilingual:
            raise OptionError("this model only knows English", where="multilingual", hint="Take a multilingual model")
        if options.task != "transcribe":
            raise OptionError("this model does not translate", where="task", hint="Take a multilingual model")
    elif options.language is not None:
        tokenizer.language_token(options.language)
    if options.sample_len is not None and options.sample_len > context:
        raise OptionError(f"must be at most {context} for this model", where="sample_len")
