"""The special tokens around one text and around a pair, as the `post_processor` of a tokenizer.json describes them.

A template is a list of parts: a `Part` with ids stands for special tokens, one without for a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.formats.safe_json import malformed

LARGEST_ID = 1 << 22  # larger ids are not plausible, and a list of them would waste memory
PARTS_LIMIT = 64  # of a template, and special tokens in all of them: each could repeat the text


@dataclass(frozen=True)
class Part:
    """Special tokens (`ids`), or the text number `text` (0 or 1) of the input; `type_id` is the type of its tokens."""

    type_id: int
    ids: tuple[int, ...] = ()
    text: int | None = None


FIRST, SECOND = Part(0, text=0), Part(1, text=1)


@dataclass(frozen=True)
class PostProcessor:
    """`single` is the template of one text, `pair` that of two."""

    single: tuple[Part, ...] = (FIRST,)
    pair: tuple[Part, ...] = (FIRST, SECOND)

    def added(self, pair: bool) -> int:
        """The number of special tokens."""
        return sum(len(part.ids) for part in (self.pair if pair else self.single))

    @property
    def front(self) -> list[int]:
        """The ids before a single text."""
        return [number for part in self.single[: self._place()] for number in part.ids]

    @property
    def behind(self) -> list[int]:
        """The ids after a single text."""
        return [number for part in self.single[self._place() :] for number in part.ids]

    def _place(self) -> int:
        return next((index for index, part in enumerate(self.single) if part.text is not None), len(self.single))

    def with_front(self, ids: Sequence[int]) -> PostProcessor:
        """The same with `ids` before each text that has special tokens before it, or before each if none has."""
        return PostProcessor(_with_front(self.single, tuple(ids)), _with_front(self.pair, tuple(ids)))

    def with_behind(self, ids: Sequence[int]) -> PostProcessor:
        """The same with `ids` after each text that has special tokens after it, or after each if none has."""
        turned = PostProcessor(self.single[::-1], self.pair[::-1]).with_front(ids)
        return PostProcessor(turned.single[::-1], turned.pair[::-1])


def _with_front(parts: tuple[Part, ...], ids: tuple[int, ...]) -> tuple[Part, ...]:
    """One template with other special tokens before its first text; before every text if it had none."""
    place = next((index for index, part in enumerate(parts) if part.text is not None), len(parts))
    if not place:
        return tuple(item for part in parts for item in _with(part, ids))
    if ids:
        return (replace(parts[0], ids=ids, text=None), *parts[place:])
    dropped = {part.ids for part in parts[:place]}
    following = (*parts[1:], None)
    return tuple(
        part
        for index, (part, after) in enumerate(zip(parts, following, strict=True))
        if index >= place and not (part.ids in dropped and after is not None and after.text is not None)
    )


def _with(part: Part, ids: tuple[int, ...]) -> tuple[Part, ...]:
    """A part, and special tokens of its type before it if it is a text."""
    return (Part(part.type_id, ids), part) if ids and part.text is not None else (part,)


def read_post_processor(
    settings: Mapping[str, Any] | None, number_of: Mapping[str, int], where: str = "tokenizer.json"
) -> PostProcessor:
    """From the `post_processor` of a tokenizer.json; `number_of` gives the ids of tokens that the template only names.

    FileFormatError for a malformed one.
    """
    try:
        return _read(settings, number_of)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise malformed("tokenizer.json: its post_processor", error, where) from error


def _read(settings: Mapping[str, Any] | None, number_of: Mapping[str, int]) -> PostProcessor:
    kind = settings.get("type") if settings else None
    if settings is None or kind == "ByteLevel":
        return PostProcessor()
    if kind == "Sequence":
        found = [_read(entry, number_of) for entry in settings["processors"]]
        found = [one for one in found if one != PostProcessor()]
        if len(found) > 1:
            raise ValueError("two of its steps add special tokens")
        return found[0] if found else PostProcessor()
    if kind in ("BertProcessing", "RobertaProcessing"):
        cls, sep = ((_id(settings[role][1]),) for role in ("cls", "sep"))
        single = (Part(0, cls), FIRST, Part(0, sep))
        if kind == "BertProcessing":
            return PostProcessor(single, (*single, SECOND, Part(1, sep)))
        return PostProcessor(single, (*single, Part(0, sep), Part(0, text=1), Part(0, sep)))
    given = {name: tuple(map(_id, entry["ids"])) for name, entry in (settings.get("special_tokens") or {}).items()}
    parts = [tuple(_part(entry, given, number_of) for entry in settings.get(name) or ()) for name in ("single", "pair")]
    for name, template in zip(("single", "pair"), parts, strict=True):
        count = sum(max(1, len(part.ids)) for part in template)
        if count > PARTS_LIMIT:
            raise ValueError(f"its template {name!r} has {count:,} parts and tokens, expected at most {PARTS_LIMIT}")
    return PostProcessor(parts[0] or (FIRST,), parts[1] or (FIRST, SECOND))


def _part(entry: Mapping[str, Any], given: Mapping[str, tuple[int, ...]], number_of: Mapping[str, int]) -> Part:
    if "Sequence" in entry:
        settings = entry["Sequence"]
        return Part(_type_id(settings), text={"A": 0, "B": 1}[settings.get("id", "A")])
    name = entry["SpecialToken"]["id"]
    ids = given[name] if name in given else (number_of[name],)
    return Part(_type_id(entry["SpecialToken"]), ids)


def _type_id(settings: Mapping[str, Any]) -> int:
    value = settings.get("type_id", 0)
    if type(value) is not int or not 0 <= value <= 255:
        raise TypeError(f"{value!r:.60} is not a type id")
    return value


def _id(value: Any) -> int:
    if type(value) is not int or not 0 <= value < LARGEST_ID:
        raise TypeError(f"{value!r:.60} is not a token's number")
    return value
