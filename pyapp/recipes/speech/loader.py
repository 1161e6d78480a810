"""Batches of windows, made by helper processes during training."""

from __future__ import annotations

from collections.abc import Sequence

from pyapp.recipes.prepared_batches import PreparedLoader, Stage, stage_at
from pyapp.recipes.speech.windows import Example, Lesson, WindowMaker

SPREAD = 8  # batches between two takes of the same speech
AHEAD = 32  # batches that helpers may make ahead
MOST_ROWS = 64

Takes = list[list[Example]]  # [take][row]


class SpeechLoader(PreparedLoader[tuple[int, int], Takes]):
    """The batches of a training: takes of speeches, by stage and the number of the speech in it.

    Short windows come first: with whole sentences the decoder takes very long to learn to attend to the sound.
    """

    def __init__(self, maker: WindowMaker, stages: Sequence[Stage[Lesson]], helpers: int = 1) -> None:
        super().__init__(helpers, _begin, maker)
        self._maker = maker
        self._stages = stages

    def batch(self) -> list[Example]:
        """The next batch; its lesson says how many rows it has."""
        if self._pool is not None:
            for number in range(self._position, self._position + AHEAD):
                self._speak(number)
        stage, speech, take = self.place(self._position)
        self._speak(self._position)
        takes = self._ready[stage, speech].result()
        if take == len(takes) - 1:
            del self._ready[stage, speech]
        self._position += 1
        return takes[take]

    def place(self, number: int) -> tuple[int, int, int]:
        """(stage, number of the speech in it, which take of it) of the batch `number`."""
        stage = stage_at(self._stages, number)
        group, rest = divmod(number - self._stages[stage].begin, SPREAD * self._stages[stage].lesson.takes)
        take, place = divmod(rest, SPREAD)
        return stage, group * SPREAD + place, take

    def _speak(self, number: int) -> None:
        stage, speech, _ = self.place(number)
        if (stage, speech) in self._ready:
            return
        lesson = self._stages[stage].lesson
        if self._pool is not None:
            self._start((stage, speech), _speech, speech, lesson)
        else:
            self._start((stage, speech), make_takes, self._maker, speech, lesson)


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
