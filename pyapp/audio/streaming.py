"""Transcribe live speech: words on which two decodings of the same sound agree are final.

Source: Macháček, Dabre, Bojar: Turning Whisper into Real-Time Transcription System (2023), LocalAgreement-2. The sound
since the last final word is decoded repeatedly as it grows. The common prefix of two successive decodings is final and
never changes; the other words are shown as provisional. After a pause everything before it is final.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from pyapp.audio.activity import Span, find_speech
from pyapp.audio.confidence import Confidence, GuessLimits, is_guess
from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.live_sound import MARGIN, LiveOptions, LiveSound
from pyapp.audio.live_words import LiveWord, common, known, live_word, widened
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.transcribe import ModelWithTokenizer, transcribe_events
from pyapp.audio.windows import checked
from pyapp.engine.lazy import np
from pyapp.errors import ModelError
from pyapp.events import Cancel, Doubt, Event, Language, Partial, Segment
from pyapp.text.tokenization.whisper_tokenizer import SECONDS_PER_TIME

REPEATED = 5  # words from before its beginning that a decoding may repeat, if a rest of their sound is left
PROMPT_CHARACTERS = 200
BACK = 0.1  # largest difference of a word's times between two decodings, in seconds
RIPE = 0.2  # seconds of sound after a word before it can be final
SHORTEST = 0.1  # seconds; a word that the decoding gave less gets USUAL, as far as there is room
USUAL = 0.3
LONGEST_SENTENCE = 15.0  # seconds: a longer one continues in a segment of its own


class LiveTranscriber(LiveSound):
    """Transcribes sound as it arrives. Events: Segment for final words, Partial for the others, Language.

    `push` decodes when there is enough new sound, and blocks meanwhile; `finish` makes the rest final. Memory does not
    grow with the length of the stream. A Segment has the new final words of one sentence; if the sentence began in the
    segment before, `continues` is True. `options` are those of a recording; `word_timestamps` is always on, and
    clip_timestamps, skip_silence, and initial_prompt after the first words have no effect.
    """

    def __init__(
        self,
        model: ModelWithTokenizer,
        options: TranscribeOptions | None = None,
        live: LiveOptions | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        options = options or TranscribeOptions(temperature=0.0)
        if getattr(model, "processor", None) is not None:
            raise ModelError("this model hears whole recordings only", hint="Choose a Whisper model for live speech")
        window = model.model.config.n_audio_ctx * SECONDS_PER_TIME
        super().__init__(live or LiveOptions.for_window(window), cancel)
        self._model = model
        self._options = replace(
            options,
            word_timestamps=True,
            without_timestamps=False,
            clip_timestamps="0",
            skip_silence=False,
            language_detection_segments=1,
            multilingual=False,
        )
        self._hypothesis: list[LiveWord] = []  # of the last decoding, not final
        self._final_end = 0.0
        self._final: list[LiveWord] = []  # the last final words,
        self._gone = 0  # number of them whose sound is dropped
        self._prompt = ""  # the text of these
        self._count = 0
        self._sentence: float | None = None  # the start of the sentence that goes on
        self._utterance: list[LiveWord] = []  # its final words
        self._confidence, self._limits = Confidence(), GuessLimits.of(model.model)
        self._language: str | None = None
        self._shown = ""

    @property
    def speaking(self) -> bool:
        """Whether an utterance has begun that no pause has ended yet."""
        return bool(self._utterance or self._hypothesis)

    def doubt(self) -> Doubt | None:
        """The warning if what was said so far may be a guess; call it after `finish`."""
        return self._confidence.doubt()

    def push(self, samples: Any) -> list[Event]:
        """Takes mono float32 (samples,) at 16 kHz and returns the new events, often none."""
        self._sound = np.concatenate([self._sound, checked(samples)])
        # A model that takes longer than the interval gets more sound per decoding, so that it keeps up.
        return list(self._look(False)) if self._waiting >= max(self._live.interval, self._cost) else []

    def _look(self, finished: bool) -> Iterator[Event]:
        """Decodes the sound since the last final word and returns the new events."""
        self._heard_to = self._offset + len(self._sound)
        spans = find_speech(self._sound)
        if not spans:
            yield from self._commit(self._hypothesis)
            keep = 0 if finished else int(MARGIN * SAMPLE_RATE)
            self._let_go(len(self._sound) - keep)
            self._end_utterance()
        else:
            quiet = len(self._sound) / SAMPLE_RATE - spans[-1].end
            ended = finished or quiet >= self._live.pause
            yield from self._agree(spans, ended)
        yield from self._show()

    def _agree(self, spans: Sequence[Span], ended: bool) -> Iterator[Event]:
        """Decodes, and makes the words final on which the last two decodings agree; all words if the utterance
        `ended`.
        """
        began = perf_counter()
        first = max(0, int((spans[0].start - MARGIN) * SAMPLE_RATE))
        self._let_go(first)
        words, language = self._decode()
        words = [self._without_silence(word, spans, first) for word in words if word.text.strip()]
        words = words[known(self._final, self._gone, words) :]
        self._cost = perf_counter() - began
        if language is not None:
            yield language
        if ended:
            yield from self._commit(words)
            self._let_go(int((spans[-1].end - first / SAMPLE_RATE) * SAMPLE_RATE))
            self._end_utterance()
            return
        agreed = min(common(self._hypothesis, words), self._spoken(words))
        yield from self._commit(words[:agreed])
        self._hypothesis = words[agreed:]
        yield from self._stay_short()

    def _end_utterance(self) -> None:
        """Forgets the words, but not those of the sound that is left: in noise the model hears the beginning of the
        next utterance before `find_speech` does, and will hear it again.
        """
        self._hypothesis = []
        begin = self._offset / SAMPLE_RATE
        self._forget(next((number for number, word in enumerate(self._final) if word.start >= begin), len(self._final)))
        self._sentence = None
        if not self._utterance:
            return
        words = [{"probability": word.probability} for word in self._utterance]
        logprob = sum(word.logprob for word in self._utterance) / len(words)
        text = "".join(word.text for word in self._utterance)
        self._confidence.add(text, is_guess(words, logprob, self._limits))
        self._utterance = []

    def _spoken(self, words: Sequence[LiveWord]) -> int:
        """The number of words that ended some time ago. A word at the end of the sound may be incomplete or guessed."""
        now = self._offset / SAMPLE_RATE + len(self._sound) / SAMPLE_RATE - RIPE
        return next((number for number, word in enumerate(words) if word.end > now), len(words))

    def _stay_short(self) -> Iterator[Event]:
        """Drops the sound of final words; with too much sound, makes words final without agreement."""
        length = len(self._sound) / SAMPLE_RATE
        begin = self._offset / SAMPLE_RATE
        if length > self._live.longest and self._final_end - begin < length - self._live.trim:
            limit = begin + length - self._live.trim / 2
            old = [word for word in self._hypothesis if word.end <= limit]
            self._hypothesis = self._hypothesis[len(old) :]
            yield from self._commit(old)
            self._final_end = max(self._final_end, limit)
        if length > self._live.trim:
            self._let_go(int((self._final_end - begin) * SAMPLE_RATE))

    def _decode(self) -> tuple[list[LiveWord], Language | None]:
        """The words of the kept sound, and its language if it is new."""
        begin = self._offset / SAMPLE_RATE + BACK
        held = (number for number, word in enumerate(self._final) if number >= self._gone and word.end > begin)
        self._forget(next(held, len(self._final)))
        options = replace(
            self._options,
            language=self._language or self._options.language,
            initial_prompt=self._prompt or self._options.initial_prompt,
        )
        offset, heard = self._offset / SAMPLE_RATE, None
        words: list[LiveWord] = []
        for event in transcribe_events(self._model, self._sound, options, self._cancel):
            if isinstance(event, Language):
                heard = event
            elif isinstance(event, Segment):
                words += [live_word(word, offset, event.avg_logprob) for word in event.words or ()]
        return words, self._settle(heard, bool(words))

    def _forget(self, count: int) -> None:
        """Records that the sound of the first `count` words in _final is dropped. Only these words become the model's
        prompt: words in both prompt and sound may be left out or repeated.
        """
        gone = "".join(word.text for word in self._final[self._gone : count])
        self._prompt = (self._prompt + gone)[-PROMPT_CHARACTERS:]
        self._final = self._final[max(0, count - REPEATED) :]
        self._gone = min(count, REPEATED)

    def _settle(self, heard: Language | None, spoken: bool) -> Language | None:
        """Fixes the language after the first words."""
        if heard is None or not spoken or self._language is not None:
            return None
        self._language = heard.code
        return heard

    def _without_silence(self, word: LiveWord, spans: Sequence[Span], let_go: int) -> LiveWord:
        """Moves the ends of words out of the silence around speech; `spans` were computed before `let_go` samples were
        dropped. A decoding of the very beginning of a word may end it before the speech: such a word still goes on.
        """
        offset = (self._offset - let_go) / SAMPLE_RATE
        heard = [(offset + span.start, offset + span.end) for span in spans]
        if not any(start <= word.start < end for start, end in heard):
            starts = [start for start, _ in heard if word.start < start]
            return replace(word, start=starts[0], end=max(word.end, starts[0] + USUAL)) if starts else word
        quiet = max(end for start, end in heard if start < word.end or start <= word.start)
        return replace(word, end=max(min(word.end, quiet), min(word.end, word.start + USUAL)))

    def _commit(self, words: Sequence[LiveWord]) -> Iterator[Event]:
        """Makes words final, as one segment for each sentence."""
        before, first = self._final_end, 0
        times = widened([self._timed(word) for word in words], before, SHORTEST)
        for last, word in enumerate(words, 1):
            if word.ends_sentence or last == len(words):
                yield self._segment(words[first:last], times[first:last])
                first = last
        self._final += words
        self._utterance += words

    def _segment(self, words: Sequence[LiveWord], times: Sequence[Mapping[str, Any]]) -> Segment:
        begin, end = times[0]["start"], times[-1]["end"]
        continues = self._sentence is not None and end - self._sentence <= LONGEST_SENTENCE
        if not continues:
            self._sentence = begin
        if words[-1].ends_sentence:
            self._sentence = None
        self._count += 1
        text = "".join(word.text for word in words)
        return Segment(
            text, begin, end, self._count - 1, avg_logprob=words[-1].logprob, words=tuple(times),
            continues=continues or None,
        )  # fmt: skip

    def _timed(self, word: LiveWord) -> dict[str, Any]:
        """The word with times after the final words. It has a length, if the stream has room for it."""
        start = max(word.start, self._final_end)
        end = max(start, word.end)
        if end - start < SHORTEST:
            start = max(self._final_end, end - USUAL)
            end = min(max(end, start + SHORTEST), max(end, self.seconds))
        self._final_end = end
        return {"word": word.text, "start": start, "end": end, "probability": word.probability}

    def _show(self) -> Iterator[Event]:
        """A Partial of the words that are not final, if they changed."""
        text = "".join(word.text for word in self._hypothesis)
        if text != self._shown:
            self._shown = text
            yield Partial(text, self._hypothesis[0].start if self._hypothesis else self._final_end)
