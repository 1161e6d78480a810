"""The texts that a scheduler has a language model write: what is asked for, and how far each has come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.events import Cancel, Event
from pyapp.nn.vision_language.picture_text import RotaryPosition
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler
from pyapp.text.pictures import Known
from pyapp.text.structured_output.structured import CompiledForm, TextForm

from .blocks import START, name_of
from .guessing import Guesses


@dataclass(eq=False)
class Text:
    """A text to be written: the tokens of its prompt, its settings, and where its events go.

    `emit` gets Tokens and, last, a Done or an Error; the engine's thread calls it. `stops` are the ids that end the
    text. `continuing`: the text follows other text, so that a space at its beginning is kept. Texts with a lower
    `priority` go first. `form`: the one that the options ask for, if it has been made (Scheduler.form_of). `scored`:
    the prompt's own tokens are reported too, once it was read, as an Item whose `tokens` are Tokens with their
    log-probabilities and so many of the likeliest ones in their places; the first token has none. `known`: the vectors
    of the text's pictures (pyapp/text/pictures.py).
    """

    ids: Sequence[int]
    options: SamplingOptions
    stops: frozenset[int]
    emit: Callable[[Event], None]
    continuing: bool = True
    cancel: Cancel = field(default_factory=Cancel)
    priority: int = 0
    form: CompiledForm | None = None
    scored: int | None = None
    known: Known = field(default_factory=dict)
    begun: float = field(default_factory=time.perf_counter)


class Writing:
    """A text and how far it has come.

    `known` are the tokens of its prompt and those that were chosen; the first `length` are in the cache, in `blocks`.
    `names` are the names of its full blocks. `prompt_end`: what is before it is read in passes, the rest in steps.
    """

    def __init__(self, text: Text) -> None:
        self.text = text
        self.known = list(text.ids)
        self.prompt_end = len(self.known)
        self.length = 0
        self.blocks: list[int] = []
        self.names: list[bytes] = []
        self.place: int | None = None  # among the rows of the step
        self.reused = 0
        self.first = True  # it has not given its memory back
        self.sampler: Sampler | None = None  # from here on: known when the text first runs
        self.guesses: Guesses | None = None
        self.words: Any = None
        # Those of a prompt with pictures, where they are not the places.
        self.rotary_positions: list[RotaryPosition] = []
        self.whole_prompt = False  # its tokens attend to each other
        self.form: TextForm | None = None
        self.most = 0
        # The log-probabilities of the prompt's tokens and of the likeliest ones, if they are asked for.
        self.scores: list[tuple[float | None, list[tuple[int, float]]]] = [(None, [])]

    @property
    def order(self) -> tuple[int, float]:
        """What is smaller goes first."""
        return self.text.priority, self.text.begun

    @property
    def root(self) -> bytes:
        """The name of what is before the first block: equal tokens have other keys where other pictures follow them,
        or another end of the prompt.
        """
        if self.whole_prompt:
            return name_of(START, self.text.ids)
        return repr(self.rotary_positions[:1]).encode() if self.rotary_positions else START

    @property
    def reading(self) -> bool:
        return self.length < self.prompt_end

    @property
    def scoring(self) -> bool:
        """Whether log-probabilities of the prompt's tokens are still to be found."""
        return self.text.scored is not None and len(self.scores) < len(self.text.ids)

    @property
    def prompt_left(self) -> int:
        """Tokens that are still to be read in passes."""
        return self.prompt_end - self.length


Piece = tuple[Writing, int]  # the next so many tokens of a prompt


@dataclass(frozen=True)
class Load:
    """What a scheduler does at the moment."""

    waiting: int
    running: int
    used_blocks: int
    kept_blocks: int
    blocks: int
