"""What cells print: sent line by line, and bounded, so that an endless loop fills no memory.

The first lines are all sent at once. After that only the newest ones are kept, and sent ten times a second. So is a
line that is written anew after "\\r", such as a bar of progress: it counts as one.
"""

from __future__ import annotations

import io
import re
import time
from collections import deque

from .output import Send

HEAD_LINES = 2_000
TAIL_LINES = 200
LONGEST_LINE = 10_000  # characters; the rest of a line is left out
COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # commands to terminals: colours, moves of the cursor
INTERVAL = 0.1  # seconds between two messages after the first lines


class Printed:
    """The lines of a cell, of both streams, in their order."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._sent = 0
        self._left_out = 0
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._told = 0.0
        self.open: Stream | None = None  # the stream with the beginning of a line
        self._changed = False
        self._again: tuple[str, str] | None = None  # a line that is written anew, and its stream

    def add(self, stream: str, text: str) -> None:
        """Adds a line, or a part of one. "\\r" at its beginning: in place of the line that has not ended."""
        if self._again and (self._again[0] != stream or text[0] != "\r"):
            self._put(*self._again)
        self._again = None
        if text[0] != "\r" or text[-1] == "\n":
            return self._put(stream, text)
        self._again = (stream, text)
        if time.perf_counter() - self._told >= INTERVAL:
            self.flush()

    def _put(self, stream: str, text: str) -> None:
        if self._sent < HEAD_LINES:
            self._sent += text[0] != "\r"
            self._send({"kind": "text", "stream": stream, "text": text})
            return
        if text[0] == "\r" and self._tail and self._tail[-1][-1:] != "\n":
            self._tail.pop()
        self._left_out += len(self._tail) == TAIL_LINES
        self._tail.append(text.removeprefix("\r"))
        self._changed = True
        if time.perf_counter() - self._told >= INTERVAL:
            self.flush()

    def flush(self) -> None:
        """Sends the newest lines, if there are any that were not sent."""
        now = time.perf_counter()
        again, self._again = self._again, None
        if again:
            if self._sent < HEAD_LINES:
                self._told = now
            self._put(*again)
        if not self._changed:
            return
        self._changed = False
        self._told = now
        self._send({"kind": "tail", "id": "tail", "left_out": self._left_out, "text": "".join(self._tail)})


class Stream(io.TextIOBase):
    """Standard output or standard error of a cell."""

    def __init__(self, printed: Printed, name: str) -> None:
        self._printed, self._name, self._line = printed, name, ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        before = self._printed.open
        if before is not None and before is not self:
            before.flush()
        *whole, rest = text.split("\n")
        for line in whole:
            self._printed.add(self._name, self._shortened((self._line + line).rstrip("\r")) + "\n")
            self._line = ""
        if len(self._line) <= LONGEST_LINE or "\r" in rest:
            self._line += rest
        self._printed.open = self if self._line else None
        if "\r" in self._line[:-1]:  # at the end, a line may end with "\r\n"
            self.flush()  # bars of progress are seen at once
        return len(text)

    def flush(self) -> None:
        if self._line:
            self._printed.add(self._name, self._shortened(self._line))
            self._line = ""

    def _shortened(self, line: str) -> str:
        if "\x1b" in line:
            line = COLOURS.sub("", line)
        line = line[max(line.rfind("\r"), 0) :]  # what is written over it is not seen
        return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "…"
