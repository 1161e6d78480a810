"""Transcribe recordings with models that name a character or a piece of a word for each moment (wav2vec 2.0, HuBERT,
WavLM, Parakeet): greedily, in windows whose edges the next window hears again, with times of words.

A recording up to WINDOW is one window, as transformers hears it; of longer ones, each moment is taken from the window
that has most sound around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, fsum
from typing import Any

from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.mel import HOP
from pyapp.audio.sample_transcription import SampleTranscription
from pyapp.audio.word_times import Draft, WordTime
from pyapp.engine import no_grad
from pyapp.engine.lazy import np
from pyapp.events import Event
from pyapp.text.tokenization.ctc_tokenizer import Spoken

WINDOW, SIDE = 30.0, 5.0  # seconds that are heard together, and at each end again by the next window
PAUSE = 0.8  # seconds without a word that end a segment
LONGEST = 15.0  # seconds of a segment


class CharacterTranscription(SampleTranscription):
    """The state between windows, as pyapp.audio.transcribe.Transcription. Moments count from the start of a clip."""

    def __init__(self, loaded: Any, *args: Any, **options: Any) -> None:
        super().__init__(loaded, *args, **options)
        self._step: int = self._model.config.samples_per_moment
        self._words: list[WordTime] = []  # of the segment that has not ended

    def _hear_clip(self, begin: int, last: int | None) -> Iterator[Event]:
        yield from self._hear(begin, last)
        yield from self._end_segment()

    def _hear(self, begin: int, last: int | None) -> Iterator[Event]:
        """The windows from sample `begin` to `last`, or to the end of the recording."""
        window, side = (round(seconds * SAMPLE_RATE) // self._step * self._step for seconds in (WINDOW, SIDE))
        at, final = begin, False
        self._start()
        while not final:
            self._cancel.check()
            start = max(begin, at - side)
            wanted = start + window if last is None else min(start + window, last)
            whole = self._samples.reach(wanted + 1)
            stop = min(wanted, self._samples.total if self._samples.total is not None else wanted)
            final = not whole or wanted == last
            until = stop if final else stop - side
            self._listen(start, stop, at, until, final, begin)
            for word, own in self._ended(final):
                yield from self._add(word, own, begin)
            at = until
            yield self._progress(at, side)

    def _start(self) -> None:
        """Nothing was heard of a clip."""
        self._numbers: list[int] = []  # of the moments of words that have not ended
        self._chances: list[float] = []  # the logarithms of their probabilities
        self._first = 0  # of these moments

    def _listen(self, start: int, stop: int, at: int, until: int, final: bool, begin: int) -> None:
        """Keeps what is heard from sample `at` to `until` (all further ones if `final`) of the clip that begins at
        `begin`, of the sound from `start` to `stop`.
        """
        heard, sure = self._window(start, stop, at, until, final)
        self._numbers += heard
        self._chances += sure

    def _window(self, start: int, stop: int, at: int, until: int, final: bool) -> tuple[list[int], list[float]]:
        """The numbers of the moments from sample `at` to `until` (all further ones if `final`) and the logarithms of
        their probabilities, from the sound from `start` to `stop`.
        """
        skipped, count = (at - start) // self._step, (until - at) // self._step
        moments = self._model.encoder.moments(stop - start)
        if moments <= skipped:
            return [], []
        if self._detector is not None and not self._detector.spans(self._samples, start, stop):
            count = moments - skipped if final else count
            return [self._tokenizer.blank_number] * count, [0.0] * count
        with no_grad():
            logits = self._model(*self._prepared(start, stop))
            scores = logits[0].to("float32").log_softmax(-1).cpu().numpy()  # (T, V)
        scores = scores[skipped:] if final else scores[skipped : skipped + count]
        best = scores.argmax(-1)
        return best.tolist(), np.take_along_axis(scores, best[:, None], 1)[:, 0].tolist()

    def _prepared(self, start: int, stop: int) -> tuple[Any, Any]:
        """What the model hears of the samples from `start` to `stop`, and its mask."""
        values, mask = self._processor([self._samples.read(start, stop)])
        device = self._model.device
        return values.to(device), None if mask is None else mask.to(device)

    def _ended(self, final: bool) -> Iterator[tuple[Any, Sequence[float]]]:
        """The words that have ended, or all if the sound has, and the logarithms of the probabilities of their parts;
        they are forgotten.
        """
        numbers, chances, first = self._numbers, self._chances, self._first
        ready = len(numbers) if final else self._tokenizer.ended(numbers)
        for word in self._tokenizer.words(numbers[:ready], first):
            yield word, chances[word.first - first : word.end - first]
        self._numbers, self._chances, self._first = numbers[ready:], chances[ready:], first + ready

    def _add(self, word: Any, own: Sequence[float], begin: int) -> Iterator[Event]:
        """A word of the present segment, or of the next one."""
        start, end = ((begin + moment * self._step) / SAMPLE_RATE for moment in (word.first, word.end))
        found = WordTime(f" {word.text}", list(word.tokens), round(start, 3), round(end, 3), exp(fsum(own) / len(own)))
        words = self._words
        if words and (found.start - words[-1].end >= PAUSE or found.end - words[0].start > LONGEST):
            yield from self._end_segment()
        self._words.append(found)

    def _end_segment(self) -> Iterator[Event]:
        words, self._words = self._words, []
        if not words:
            return
        text, tokens = "".join(word.word for word in words), [token for word in words for token in word.tokens]
        seek = round(words[0].start * SAMPLE_RATE) // HOP
        yield from self._tell(Draft(seek, words[0].start, words[-1].end, text, tokens, words))


class TransducerTranscription(CharacterTranscription):
    """Transcription by a model that writes pieces of words one after another (models/parakeet.py): each window begins
    anew.
    """

    def _start(self) -> None:
        self._pieces: list[Any] = []  # of words that have not ended; their moments count from the start of the clip

    def _listen(self, start: int, stop: int, at: int, until: int, final: bool, begin: int) -> None:
        if self._model.encoder.moments(stop - start) < 1:
            return
        if self._detector is not None and not self._detector.spans(self._samples, start, stop):
            return
        with no_grad():
            heard = self._model.encode(*self._prepared(start, stop)).squeeze(0)  # (T, H)
        shift, first, last = ((sample - begin) // self._step for sample in (start, at, until))
        for piece in self._model.pieces(heard, self._cancel.check):
            if first <= piece.first + shift and (final or piece.first + shift < last):
                self._pieces.append(replace(piece, first=piece.first + shift, end=piece.end + shift))

    def _ended(self, final: bool) -> Iterator[tuple[Any, Sequence[float]]]:
        pieces = self._pieces
        begins = [i for i, piece in enumerate(pieces) if self._tokenizer.begins(piece.token)]
        ready = len(pieces) if final else begins[-1] if begins else 0
        chances = iter([piece.chance for piece in pieces[:ready]])
        for word in self._tokenizer.joined(Spoken("", p.first, p.end, (p.token,)) for p in pieces[:ready]):
            yield word, [next(chances) for _ in word.tokens]
        self._pieces = pieces[ready:]
