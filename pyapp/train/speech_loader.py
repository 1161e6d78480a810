"""Batches of windows, made by helper processes while the model learns."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyapp.train.speech_windows import Example, WindowMaker

TAKES = 2
"""Speaking costs more than recording: the same speech is recorded twice, in two rooms and noises."""
BLOCK = 64  # windows; within one, all first takes come before the second ones
AHEAD = 56  # windows that helpers may make before they are asked for


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the training: from the share `begin` of all windows on they are `seconds` long, and `clear` or not."""

    begin: float
    seconds: float
    clear: bool = False


class SpeechLoader:
    """The windows of a training of `total` windows; `position` is the number of the next one, and the whole state.

    Short windows first: the decoder must find out that it can listen, which takes it long in long ones.
    """

    def __init__(self, maker: WindowMaker, stages: Sequence[Stage], total: int, helpers: int = 1) -> None:
        self._maker = maker
        self._stages = stages
        self._total = total
        self._position = 0
        self._ready: dict[int, Future[list[Example]]] = {}
        self._pool = None
        if helpers and sys.platform != "emscripten":
            # Processes, because threads would keep the interpreter from the model; spawned, because kernels may have
            # threads, with which a process must not fork.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(helpers, context, _begin, (maker,))

    @property
    def position(self) -> int:
        return self._position

    @position.setter
    def position(self, value: int) -> None:
        self._forget()
        self._position = value

    def batch(self, rows: int) -> list[Example]:
        """The next `rows` windows: of one length, within a stage."""
        if self._pool is not None:
            for index in range(self._position, min(self._total, self._position + rows + AHEAD)):
                self._start(place_of(index)[0])
        found = []
        for index in range(self._position, self._position + rows):
            speech, take = place_of(index)
            self._start(speech)
            found.append(self._ready[speech].result()[take])
            if take == TAKES - 1:
                del self._ready[speech]
        self._position += rows
        return found

    def stage(self, speech: int) -> Stage:
        """That of speech number `speech`."""
        share = speech * TAKES // BLOCK * BLOCK / self._total
        return [stage for stage in self._stages if stage.begin <= share][-1]

    def close(self) -> None:
        """Ends the helpers."""
        self._forget()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _start(self, speech: int) -> None:
        if speech in self._ready:
            return
        stage = self.stage(speech)
        arguments = (speech, stage.seconds, TAKES, stage.clear)
        if self._pool is not None:
            self._ready[speech] = self._pool.submit(_examples, *arguments)
        else:
            made: Future[list[Example]] = Future()
            made.set_result(self._maker.examples(*arguments))
            self._ready[speech] = made

    def _forget(self) -> None:
        for future in self._ready.values():
            future.cancel()
        self._ready.clear()


def place_of(index: int) -> tuple[int, int]:
    """(number of the speech, which take of it) of the window `index`."""
    block, rest = divmod(index, BLOCK)
    take, number = divmod(rest, BLOCK // TAKES)
    return block * (BLOCK // TAKES) + number, take


_maker: WindowMaker | None = None  # of a helper


def _begin(maker: WindowMaker) -> None:
    global _maker
    _maker = maker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training, which ends its helpers itself


def _examples(*arguments: Any) -> list[Example]:
    assert _maker is not None
    return _maker.examples(*arguments)
