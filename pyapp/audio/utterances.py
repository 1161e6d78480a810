"""Transcribe recordings with models that write their text (Moonshine, Speech2Text), or language models that hear
(Voxtral, Qwen2-Audio, Granite Speech …): each utterance is heard by itself, from pause to pause.

The models tell no times: a segment has those of its utterance, and words have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyapp.audio.activity import EnergyDetector
from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.mel import HOP
from pyapp.audio.sample_transcription import SampleTranscription
from pyapp.audio.word_times import Draft
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.events import Event, Notice, Token
from pyapp.text.chat.chat_template import ChatTemplate, sources
from pyapp.text.generation.generate import generate_from
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from pyapp.text.languages import LANGUAGES
from pyapp.text.pictures import PictureSession, Recording, part_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW = 30.0  # seconds in which pauses are looked for
LONGEST = 20.0  # seconds of an utterance; a longer one is cut where it is quietest
QUIET = 5.0  # seconds before that, in which the quietest moment is looked for
MOMENT = 0.05  # seconds of sound whose loudness is compared
PAUSE = 0.8  # seconds without speech between two utterances
# A model that repeats itself is stopped. Speech has half as many tokens in languages with letters, as Moonshine's
# authors say; of Chinese and Japanese each syllable may be a token.
TOKENS_PER_SECOND = 13.0


class UtteranceTranscription(SampleTranscription):
    """The state between utterances, as pyapp.audio.transcribe.Transcription. What finds speech is EnergyDetector, where
    there is no `detector`. `longest`: seconds of an utterance; `pause`: seconds without speech between two.
    """

    longest, pause = LONGEST, PAUSE

    def __init__(self, loaded: Any, *args: Any, **options: Any) -> None:
        super().__init__(loaded, *args, **options)
        self._detector = self._detector or EnergyDetector()
        self._prepare(loaded)

    def _prepare(self, loaded: Any) -> None:
        """Sets how texts are written."""
        given = {"num_beams": self._options.beam_size, "forced_bos_token_id": self._first_token()}
        self._search = SearchOptions.from_files(loaded.config, loaded.generation, given)
        if hasattr(self._model, "prompt_tokens"):
            self._search = self._prompted(self._search)

    def _prompted(self, search: SearchOptions) -> SearchOptions:
        """The options with the tokens that say what is to be written. OptionError for a language that the model does
        not know.
        """
        names, model, language = self._tokenizer.special_names, self._model, self._options.language
        wanted = model.prompt_tokens(language, self._options.task)
        known = [code for code in LANGUAGES if f"<|{code}|>" in names]
        if language is not None and language not in known:
            raise OptionError(
                f"the model does not know {language!r:.40}", where="language", hint=f"Its languages: {', '.join(known)}"
            )
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ModelError(
                f"its tokenizer has no token {missing[0]}", hint="Give the tokenizer that belongs to the model"
            )
        ids = [self._tokenizer.encode(name, bos=False, eos=False)[-1] for name in wanted]
        first = [] if search.decoder_start_token_id == ids[0] else [search.decoder_start_token_id]
        return replace(search, decoder_start_token_id=ids[-1], prompt_ids=(*first, *ids[:-1]))

    def _first_token(self) -> int | None:
        """The token with which texts in the language that is asked for begin, of a model that writes several.
        OptionError for one that it does not write.
        """
        language, names = self._options.language, self._tokenizer.special_names
        if not hasattr(self._model, "language_token"):
            return None
        language = "en" if self._options.task == "translate" else language or self._model.usual_language
        if language is None:
            return None
        known = [code for code in LANGUAGES if self._model.language_token(code) in names]
        if not known:
            return None
        if language not in known:
            raise OptionError(
                f"the model writes no texts in {language!r:.40}", where="language",
                hint=f"Its languages: {', '.join(known)}",
            )  # fmt: skip
        [found] = self._tokenizer.encode(self._model.language_token(language), bos=False, eos=False)
        return int(found)

    def events(self) -> Iterator[Event]:
        """As transcribe_events; there are no Language, Partial and Doubt."""
        if self._options.word_timestamps:
            yield Notice("this model does not tell the times of words: there are those of segments alone")
        yield from super().events()

    def _hear_clip(self, begin: int, last: int | None) -> Iterator[Event]:
        at, final = begin, False
        while not final:
            self._cancel.check()
            wanted = at + round(WINDOW * SAMPLE_RATE)
            wanted = wanted if last is None else min(wanted, last)
            whole = self._samples.reach(wanted + 1)
            stop = wanted if whole or self._samples.total is None else max(at, min(wanted, self._samples.total))
            ends = not whole or wanted == last
            spoken, until = self._next(at, stop, ends)
            if spoken is not None:
                yield from self._write(*spoken)
            at, final = until, ends and until >= stop
            yield self._progress(at)

    def _next(self, at: int, stop: int, ends: bool) -> tuple[tuple[int, int] | None, int]:
        """The samples of the first utterance from sample `at` to `stop`, and where to go on. `ends`: there is no sound
        after `stop`.
        """
        assert self._detector is not None
        spans = self._detector.spans(self._samples, at, stop) if stop > at else []
        if not spans:
            return None, stop
        first = last = spans[0]
        for span in spans[1:]:
            if span.start - last.end >= self.pause or span.end - first.start > self.longest:
                break
            last = span
        start, end = (at + round(seconds * SAMPLE_RATE) for seconds in (first.start, last.end))
        longest = start + round(self.longest * SAMPLE_RATE)
        if end > longest:
            end = self._quietest(longest - round(min(QUIET, self.longest / 4) * SAMPLE_RATE), longest)
        elif not ends and at < start and stop - end < self.pause * SAMPLE_RATE:
            return None, start  # it may go on after `stop`
        return (start, end), end

    def _quietest(self, start: int, end: int) -> int:
        """The middle of the quietest moment between two samples."""
        step = round(MOMENT * SAMPLE_RATE)
        sound = self._samples.read(start, end)
        loud = np.square(sound[: len(sound) // step * step].reshape(-1, step)).sum(1)
        return start + int(loud.argmin()) * step + step // 2

    def _write(self, start: int, end: int) -> Iterator[Event]:
        """The segment of an utterance, if anything is written of it."""
        tokens = self._written(self._samples.read(start, end))
        text = self._text(tokens)
        if text:
            yield from self._tell(
                Draft(start // HOP, round(start / SAMPLE_RATE, 3), round(end / SAMPLE_RATE, 3), f" {text}", tokens), 0.0
            )

    def _text(self, tokens: list[int]) -> str:
        """What is said, of the tokens that the model wrote."""
        text: str = self._tokenizer.decode(tokens).strip()
        return text.upper() if self._tokenizer.settings.get("do_upper_case") is True else text

    def _written(self, samples: NDArray[np.float32]) -> list[int]:
        """The tokens of what is said in samples (N,)."""
        model = self._model
        if model.encoder.moments(len(samples)) < 1:
            return []
        values, mask = self._processor([samples])
        values, mask = values.to(model.device), None if mask is None else mask.to(model.device)
        options = self._search.within(most_tokens(samples) + 1)
        tokens: list[int] = []
        for found in search(model, values, mask, options):
            self._cancel.check()
            if found is not None:
                [tokens] = found
        return tokens


class PromptedTranscription(UtteranceTranscription):
    """Transcription by a language model that hears (nn.audio.sound_text): what it hears at once is as long as the
    stretches of its encoder, however many pauses there are.
    """

    def _prepare(self, loaded: Any) -> None:
        self.longest = min(WINDOW - 2, self._processor.stretch / SAMPLE_RATE)  # the window shows more, to cut well
        self.pause = self.longest / 4
        self._loaded = loaded
        part_tokens(loaded)  # refuses a tokenizer without them
        ends = {self._tokenizer.piece(token) for token in self._tokenizer.stop_ids}
        text = self._model.transcription_prompt(self._model.part, self._options.language, ends, self._conversation)
        before, after = text.split(self._model.part)
        self._prompt = tuple(self._tokenizer.encode(part, bos=False, eos=False) for part in (before, after))
        size = self._processor.size(round((self.longest + 1) * SAMPLE_RATE))  # cuts may be a sample longer
        most = self._model.tokens_in(0, 0, size) + sum(map(len, self._prompt)) + int(WINDOW * TOKENS_PER_SECOND)
        self._session = PictureSession(self._model, min(most, self._model.config.max_seq_len))

    def _conversation(self, said: str) -> str | None:
        """The text of a conversation in which the user says this; None: the files have no chat template."""
        if not sources(self._tokenizer.settings):
            return None
        return ChatTemplate(self._tokenizer).render([{"role": "user", "content": said}])

    def _text(self, tokens: list[int]) -> str:
        found: str = self._model.said(super()._text(tokens)).strip()
        return found

    def _written(self, samples: NDArray[np.float32]) -> list[int]:
        recording, session = Recording(self._loaded, samples, self._session.capacity), self._session
        for unseen in session.see([recording]):
            while not unseen.seen:
                unseen.look(self._cancel.check)
        ids = [*self._prompt[0], *recording.ids, *self._prompt[1]]
        session.reset()
        options = SamplingOptions(temperature=0.0, max_new_tokens=most_tokens(samples))
        tokens = []
        for event in generate_from(session, self._tokenizer, ids, options):
            self._cancel.check()
            if isinstance(event, Token) and event.id is not None:
                tokens.append(event.id)
        return tokens


def most_tokens(samples: NDArray[np.float32]) -> int:
    """The most tokens of what is said in samples (N,)."""
    return max(1, int(TOKENS_PER_SECOND * len(samples) / SAMPLE_RATE))
