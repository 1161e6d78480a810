"""Thoughts before an answer: models that reason write them between two tags.

Qwen, DeepSeek, SmolLM and others use `<think>` and `</think>`; some templates write the first tag into the prompt.
"""

from __future__ import annotations

THINKING_TAGS = {
    "<think>": "</think>",
    "[THINK]": "[/THINK]",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<thinking>": "</thinking>",
}


def open_tag(prompt: str) -> str | None:
    """The tag at the end of a prompt whose thoughts the model goes on to write; None if there is none."""
    text = prompt.rstrip()
    return next((tag for tag in THINKING_TAGS if text.endswith(tag)), None)


class ThinkingSplitter:
    """Divides text that arrives in parts into thoughts and answer.

    Thoughts stand before the answer only: a tag inside an answer is text. White space next to the tags is left out.
    `prompt` is the text before: thoughts that it begins are recognised.
    """

    def __init__(self, prompt: str = "") -> None:
        opened = open_tag(prompt)
        self._end: str | None = THINKING_TAGS[opened] if opened else None
        self._answering = False
        self._fresh = True  # nothing was given out since the last tag
        self._held = ""

    @property
    def thinking(self) -> bool:
        """Whether the text that comes next is a thought."""
        return self._end is not None

    def push(self, text: str) -> tuple[str, str]:
        """(thoughts, answer) that this text adds; what may be the beginning of a tag waits."""
        self._held += text
        thoughts = ""
        if self._end is None and not self._answering:
            self._begin()
        if self._end is not None:
            thoughts = self._think()
        return thoughts, self._answer() if self._answering else ""

    def finish(self) -> tuple[str, str]:
        """What was held back when the text ended."""
        held, self._held = self._held, ""
        return (held.rstrip(), "") if self._end is not None else ("", held)

    def _begin(self) -> None:
        """Looks for an opening tag at the beginning."""
        text = self._held.lstrip()
        for tag, end in THINKING_TAGS.items():
            if text.startswith(tag):
                self._end, self._held = end, text[len(tag) :]
                return
        self._answering = bool(text) and not any(tag.startswith(text) for tag in THINKING_TAGS)
        self._fresh = not self._answering  # an answer without thoughts keeps its white space

    def _think(self) -> str:
        assert self._end is not None
        self._strip()
        place = self._held.find(self._end)
        if place >= 0:
            found, self._held = self._held[:place].rstrip(), self._held[place + len(self._end) :]
            self._end, self._answering, self._fresh = None, True, True
            return found
        keep = next(
            (length for length in range(min(len(self._held), len(self._end) - 1), 0, -1)
             if self._end.startswith(self._held[-length:])), 0,
        )  # fmt: skip
        ready = self._held[: len(self._held) - keep].rstrip()
        self._held = self._held[len(ready) :]
        return ready

    def _answer(self) -> str:
        self._strip()
        found, self._held = self._held, ""
        return found

    def _strip(self) -> None:
        """Removes white space after a tag."""
        if self._fresh:
            self._held = self._held.lstrip()
            self._fresh = not self._held
