"""Batches of windows, made by helper processes during training."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Future

from pyapp.dataclass import dataclass
from pyapp.recipes.helpers import helper_pool, interrupts_blocked
from pyapp.recipes.speech.windows import Example, Lesson, WindowMaker

SPREAD = 8  # batches between two takes of the same speech
AHEAD = 32  # batches that helpers may make ahead
MOST_ROWS = 64

Takes = list[list[Example]]  # [take][row]


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the training: from the batch `begin` on, batches are of this lesson."""

    begin: int
    lesson: Lesson


class SpeechLoader:
    """The batches of a training, made by `helpers` processes, or in this process if there are none. `position` is the
    number of the next batch, and the whole state.

    Short windows come first: with whole sentences the decoder takes very long to learn to attend to the sound.
    """

    def __init__(self, maker: WindowMaker, stages: Sequence[Stage], helpers: int = 1) -> None:
        self._maker = maker
        self._stages = stages
        self._position = 0
        self._ready: dict[tuple[int, int], Future[Takes]] = {}
        self._pool = None
        if helpers and sys.platform != "emscripten":
            self._pool = helper_pool(helpers, _begin, maker)

    @property
    def position(self) -> int:
        return self._position

    @position.setter
    def position(self, value: int) -> None:
        self._forget()
        self._position = value

    def batch(self) -> list[Example]:
        """The next batch; its lesson says how many rows it has."""
        if self._pool is not None:
            for number in range(self._position, self._position + AHEAD):
                self._start(number)
        stage, speech, take = self.place(self._position)
        self._start(self._position)
        takes = self._ready[stage, speech].result()
        if take == len(takes) - 1:
            del self._ready[stage, speech]
        self._position += 1
        return takes[take]

    def place(self, number: int) -> tuple[int, int, int]:
        """(stage, number of the speech in it, which take of it) of the batch `number`."""
        stage = max(index for index, stage in enumerate(self._stages) if stage.begin <= number)
        group, rest = divmod(number - self._stages[stage].begin, SPREAD * self._stages[stage].lesson.takes)
        take, place = divmod(rest, SPREAD)
        return stage, group * SPREAD + place, take

    def close(self) -> None:
        """Ends the helpers."""
        self._forget()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _start(self, number: int) -> None:
        stage, speech, _ = self.place(number)
        if (stage, speech) in self._ready:
            return
        lesson = self._stages[stage].lesson
        if self._pool is not None:
            with interrupts_blocked():  # a process that starts here inherits it
                self._ready[stage, speech] = self._pool.submit(_speech, speech, lesson)
        else:
            made: Future[Takes] = Future()
            made.set_result(make_takes(self._maker, speech, lesson))
            self._ready[stage, speech] = made

    def _forget(self) -> None:
        for future in self._ready.values():
            future.cancel()
        self._ready.clear()


def make_takes(maker: WindowMaker, speech: int, lesson: Lesson) -> Takes:
    """The windows of one batch, in every take."""
    rows = [maker.examples(speech * MOST_ROWS + row, lesson) for row in range(lesson.rows)]
    return [list(take) for take in zip(*rows, strict=True)]


_maker: WindowMaker | None = None  # of a helper


def _begin(maker: WindowMaker) -> None:
    global _maker
    _maker = maker


def _speech(speech: int, lesson: Lesson) -> Takes:
    assert _maker is not None
    return make_takes(_maker, speech, lesson)
