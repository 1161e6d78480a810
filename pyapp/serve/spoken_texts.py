"""The texts of answers that were spoken, to which later requests of a conversation refer by the ids of the sound."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

from .problems import Problem

SECONDS = 3600  # that a text is kept
MOST_KEPT = 16 << 20  # bytes of the texts together
BYTES_OF_ENTRY = 256


class SpokenTexts:
    """The texts of spoken answers by their ids, with which later requests refer to them."""

    def __init__(self, seconds: float = SECONDS, most: int = MOST_KEPT) -> None:
        self._seconds, self._most = seconds, most
        self._kept: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._bytes = 0

    def add(self, id: str, text: str) -> int:
        """Keeps a text; the time at which it is forgotten at the latest, in seconds since 1970."""
        ends = time.time() + self._seconds
        self._kept[id] = ends, text
        self._bytes += len(text.encode("utf-8", "replace")) + BYTES_OF_ENTRY
        while self._bytes > self._most or next(iter(self._kept.values()), (ends,))[0] < time.time():
            self._drop()
        return int(ends)

    def _drop(self) -> None:
        _, (_, text) = self._kept.popitem(last=False)
        self._bytes -= len(text.encode("utf-8", "replace")) + BYTES_OF_ENTRY

    def find(self, id: Any, param: str) -> str:
        """The text of a spoken answer. Problem 404 if it is not here any longer."""
        ends, text = self._kept.get(id, (0.0, "")) if isinstance(id, str) else (0.0, "")
        if ends < time.time():
            raise Problem(
                f"{param}: the spoken answer {id!r:.80} is not here (any longer): send its transcript as content",
                status=404, param=param, code="audio_not_found",
            )  # fmt: skip
        return text

    def told(self, message: Any) -> Any:
        """A message of the assistant that refers to a spoken answer, with its text; others as they are."""
        if not isinstance(message, dict) or message.get("role") != "assistant" or message.get("audio") is None:
            return message
        audio = message["audio"]
        if not isinstance(audio, dict) or "id" not in audio:
            raise Problem("messages: audio must be an object with an id", param="messages", code="invalid_type")
        others = {name: value for name, value in message.items() if name != "audio"}
        return {**others, "content": others.get("content") or self.find(audio["id"], "messages")}
