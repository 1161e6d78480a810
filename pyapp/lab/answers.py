"""`input()` in cells: the page shows a field below the cell, and Python waits for the line that is written there."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

Ask = Callable[[], "str | None"]


class Answers(io.TextIOBase):
    """Standard input of a cell. `ask()` waits for a line; it returns None if the reader stops the cell.

    What was answered is printed, so that it stays below the cell. KeyboardInterrupt if the cell is stopped.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._rest = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
        """The next line with its "\\n", or `size` characters of it."""
        if not self._rest:
            sys.stdout.flush()
            sys.stderr.flush()
            line = self._ask()
            if line is None:
                raise KeyboardInterrupt
            print(line)
            self._rest = f"{line}\n"
        end = len(self._rest) if size is None or size < 0 else size
        line, self._rest = self._rest[:end], self._rest[end:]
        return line

    def read(self, size: int | None = -1) -> str:
        """At most `size` characters of the next line. ValueError for the whole input, which has no end here."""
        if size is None or size < 0:
            raise ValueError("the input of a cell has no end: read a line, by input() or sys.stdin.readline()")
        return self.readline(size)
