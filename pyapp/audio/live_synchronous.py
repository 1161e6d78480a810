"""Transcribe live speech with models that hear a moment with each token that they write (Kyutai's, Voxtral Realtime):
what is written of a moment is final, so that each moment is read once.

The encoders hear an utterance again as it grows; they are small beside what writes, and an utterance is short.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

from pyapp.audio.activity import find_speech
from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.live_sound import MARGIN, LiveOptions, LiveSound
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.synchronous import SynchronousTranscription
from pyapp.audio.windows import checked
from pyapp.engine import no_grad
from pyapp.engine.lazy import np
from pyapp.events import Cancel, Doubt, Event, Partial, Segment
from pyapp.nn.audio.synchronous import Writer

BREATH = 0.3  # seconds of silence that end an utterance longer than LiveOptions.trim


class LiveSynchronousTranscriber(LiveSound):
    """As LiveTranscriber, by a SynchronousModel: Segment for words that are written, Partial for the one that is being
    written. An utterance ends with a pause, and at the latest after LiveOptions.longest seconds.
    """

    def __init__(
        self,
        model: Any,
        options: TranscribeOptions | None = None,
        live: LiveOptions | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        options = options or TranscribeOptions(temperature=0.0)
        super().__init__(live or LiveOptions(), cancel)
        self._written = SynchronousTranscription(model, np.zeros(0, np.float32), options, self._cancel, None, None)
        self._model, self._processor = model.model, model.processor
        longest = round((self._live.longest + 60) * SAMPLE_RATE)  # a push may be long
        self._longest = self._model.settled(self._processor, longest + self._model.behind(self._processor)) + 1
        self._writer: Writer | None = None  # of the utterance that goes on
        self._tokens: list[int] = []  # of it,
        self._told = 0  # the characters of it that are final,
        self._end = 0.0  # and until when, in seconds
        self._count = 0
        self._shown = ""

    @property
    def speaking(self) -> bool:
        """Whether an utterance has begun that no pause has ended yet."""
        return self._writer is not None

    def doubt(self) -> Doubt | None:
        """None: these models do not tell how sure they are."""
        return None

    def push(self, samples: Any) -> list[Event]:
        """As LiveTranscriber.push."""
        events: list[Event] = []
        samples, step = checked(samples), round(self._live.trim * SAMPLE_RATE)
        for at in range(0, len(samples), step):
            self._sound = np.concatenate([self._sound, samples[at : at + step]])
            if self._waiting >= max(self._live.interval, min(self._cost, self._live.trim)):
                events += self._look(False)
        return events

    def _look(self, finished: bool) -> Iterator[Event]:
        """Hears the sound that is new, and writes what is said."""
        self._heard_to = self._offset + len(self._sound)
        spans = find_speech(self._sound)
        if self._writer is None:
            if not spans:
                self._let_go(len(self._sound) - (0 if finished else round(MARGIN * SAMPLE_RATE)))
                return
            first = self._let_go(round((spans[0].start - MARGIN) * SAMPLE_RATE)) / SAMPLE_RATE
            self._writer = Writer(self._model, self._written.prompt, self._longest)
            self._end = self._offset / SAMPLE_RATE + spans[0].start - first
        else:
            first = 0.0
        length = len(self._sound) / SAMPLE_RATE
        quiet = length - (spans[-1].end - first if spans else 0.0)
        pause = self._live.pause if length < self._live.trim else min(BREATH, self._live.pause)
        ended = finished or quiet >= pause or length >= self._live.longest
        began = perf_counter()
        yield from self._write(ended, quiet)
        self._cost = perf_counter() - began

    def _write(self, ended: bool, quiet: float) -> Iterator[Event]:
        """Writes the moments that are settled; all of them if the utterance has `ended`. `quiet`: the seconds of
        silence at its end.
        """
        model, writer = self._model, self._writer
        assert writer is not None
        with no_grad():
            heard = model.heard(model.prepared(self._processor, self._sound).to(model.device))[0]  # (T, D)
        settled = heard.shape[0] if ended else min(heard.shape[0], model.settled(self._processor, len(self._sound)))
        if settled > writer.moments and (writer.moments or settled >= len(self._written.prompt)):
            for token in writer.written(heard.narrow(0, writer.moments, settled - writer.moments)):
                self._cancel.check()
                self._tokens.append(token)
        text = self._written.text(self._tokens)
        final = len(text) if ended else max(0, text.rfind(" "))
        if said := text[self._told : max(final, self._told)]:
            yield self._segment(said, max(self._end, self.seconds - quiet))
        self._told = max(final, self._told)
        rest = "" if ended else text[self._told :].rstrip("\ufffd")
        if ended:
            self._writer, self._tokens, self._told = None, [], 0
            self._let_go(len(self._sound))
        if rest != self._shown:
            self._shown = rest
            yield Partial(rest, self._end)

    def _segment(self, said: str, end: float) -> Segment:
        start, continues = self._end, self._told > 0
        self._end, self._count = end, self._count + 1
        text, times = said if continues else f" {said}", (round(start, 3), round(end, 3))
        return Segment(text, *times, self._count - 1, continues=continues or None)
