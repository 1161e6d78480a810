"""The texts of a model that writes by masked diffusion: they take turns, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from pyapp.errors import OptionError
from pyapp.events import Done, Draft, Error, Event, Progress, Token
from pyapp.tasks import error_event
from pyapp.text.generation.denoising import check_followed, denoise
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.session import LanguageModel, Session, capacity_of
from pyapp.text.tokenization.tokenizer import Tokenizer

from .limits import Limits
from .writing import Load, Text


class Denoiser(Limits):
    """Up to `rows` texts of at most `context` tokens are written at once; a step is of one of them. All methods but
    `load`, `form_of` and `check_text` belong to the engine's thread.
    """

    cache_nbytes = 0

    def __init__(
        self, model: LanguageModel, tokenizer: Tokenizer, *, rows: int = 16, context: int | None = None
    ) -> None:  # fmt: skip
        super().__init__(model, tokenizer)
        self.capacity = capacity_of(model, context)
        self.most_texts = rows
        self.waiting: list[Text] = []  # in order
        self._running: list[tuple[Text, Iterator[Event]]] = []
        self.prompt_tokens = self.new_tokens = self.steps = 0

    @property
    def load(self) -> Load:
        """There are no blocks of a cache."""
        return Load(len(self.waiting), len(self._running), 0, 0, 0)

    def form_of(self, options: SamplingOptions) -> None:
        """OptionError: these models write no form."""
        check_followed(options)

    def add(self, text: Text) -> None:
        self.waiting.append(text)
        self.waiting.sort(key=lambda text: text.priority)

    def turn(self) -> bool:
        """A step of a text. Whether there is more to do."""
        while self.waiting and len(self._running) < self.most_texts:
            text = self.waiting.pop(0)
            self.prompt_tokens += len(text.ids)
            self._running.append((text, self._events(text)))
        if not self._running:
            return False
        text, events = self._running.pop(0)
        try:
            for event in events:
                if isinstance(event, Draft):  # the end of a step
                    self._running.append((text, events))
                    break
                if not isinstance(event, Progress):
                    self._tell(text, event)
        except Exception as error:  # of this text alone: a setting that does not apply, NaN …
            text.emit(error_event(error))
        self.steps += 1
        return bool(self.waiting or self._running)

    def fail(self, error: Exception) -> None:
        """Ends all texts with an error."""
        event = error_event(error)
        for text in [*self.waiting, *(text for text, _ in self._running)]:
            text.emit(event)
        self.waiting.clear()
        self._running.clear()

    def _events(self, text: Text) -> Iterator[Event]:
        if text.scored is not None:
            raise OptionError("a model that writes by masked diffusion gives no log-probabilities", where="logprobs")
        session = Session(self.model, self.capacity)
        yield from denoise(
            session, self.tokenizer, text.ids, text.options, text.cancel, None, text.continuing, text.stops
        )  # fmt: skip

    def _tell(self, text: Text, event: Event) -> None:
        if isinstance(event, Token):
            self.new_tokens += event.id is not None
        if isinstance(event, Token | Done | Error):
            text.emit(event)
