"""Token ids of texts and pairs with their masks, types and offsets; truncation and padding.

The rules are those of Hugging Face's tokenizers (https://huggingface.co/docs/tokenizers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError
from pyapp.text.tokenization.post_processor import PostProcessor

Truncation = Literal["longest_first", "only_first", "only_second"]
Padding = Literal["longest", "max_length"]
Side = Literal["left", "right"]
TRUNCATIONS = ("longest_first", "only_first", "only_second")
PADDINGS = ("longest", "max_length")
SIDES = ("left", "right")
LENGTH_LIMIT = 1 << 24  # tokens of one text after padding
Span = tuple[int, int]


@dataclass
class Encoding:
    """One text or pair: lists with an entry for each token.

    `ids`; `type_ids` (0 for the first text, usually 1 for the second); `attention_mask` (0 for padding); `texts` (0 or
    1: the text that a token belongs to, None for special tokens and padding); `offsets` (the characters [start, end) of
    that text, (0, 0) for special tokens), or None unless they were requested. `cut`: how many tokens truncation left
    out.
    """

    ids: list[int]
    type_ids: list[int]
    attention_mask: list[int]
    texts: list[int | None]
    offsets: list[Span] | None = None
    cut: int = 0

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class BatchEncoding:
    """The fields of `Encoding` for several texts: a list for each text. With padding they all have one length."""

    ids: list[list[int]] = field(default_factory=list)
    type_ids: list[list[int]] = field(default_factory=list)
    attention_mask: list[list[int]] = field(default_factory=list)
    texts: list[list[int | None]] = field(default_factory=list)
    offsets: list[list[Span]] | None = None
    cut: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, encodings: Sequence[Encoding]) -> BatchEncoding:
        offsets = [one.offsets for one in encodings if one.offsets is not None]
        return cls(
            [one.ids for one in encodings],
            [one.type_ids for one in encodings],
            [one.attention_mask for one in encodings],
            [one.texts for one in encodings],
            offsets if encodings and len(offsets) == len(encodings) else None,
            [one.cut for one in encodings],
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Encoding:
        offsets = None if self.offsets is None else self.offsets[index]
        found = Encoding(self.ids[index], self.type_ids[index], self.attention_mask[index], self.texts[index], offsets)
        found.cut = self.cut[index]
        return found


@dataclass
class Tokens:
    """The tokens of one text, without special tokens around it."""

    ids: Sequence[int]
    offsets: Sequence[Span] | None = None

    def keep(self, count: int, side: Side) -> Tokens:
        """The first `count` tokens, or the last ones if `side`, where tokens are removed, is "left"."""
        kept = slice(0, count) if side == "right" else slice(len(self.ids) - count, None)
        return Tokens(self.ids[kept], None if self.offsets is None else self.offsets[kept])


def join(texts: Sequence[Tokens], template: PostProcessor, add_special_tokens: bool = True) -> Encoding:
    """The tokens of one or two texts with the special tokens of the template."""
    found = Encoding([], [], [], [])
    spans: list[Span] = []
    for part in template.pair if len(texts) == 2 else template.single:
        if part.text is None:
            ids: Sequence[int] = part.ids if add_special_tokens else ()
            spans += [(0, 0)] * len(ids)
        else:
            ids = texts[part.text].ids
            spans += texts[part.text].offsets or ()
        found.ids += ids
        found.type_ids += [part.type_id] * len(ids)
        found.texts += [part.text] * len(ids)
    found.attention_mask = [1] * len(found.ids)
    if all(text.offsets is not None for text in texts):
        found.offsets = spans
    return found


def truncate(texts: Sequence[Tokens], room: int, rule: Truncation, side: Side) -> list[Tokens]:
    """The texts with at most `room` tokens together. OptionError where the rule cannot do that."""
    counts = [len(text.ids) for text in texts]
    excess = sum(counts) - room
    if excess <= 0:
        return list(texts)
    if rule == "longest_first":
        counts = _shares(counts, room)
    else:
        which = 0 if rule == "only_first" else 1
        if which >= len(texts):
            raise OptionError(f"truncation {rule!r} needs a pair of texts", where="truncation")
        counts[which] -= excess
        if counts[which] < (0 if len(texts) == 1 else 1):
            raise OptionError(
                f"{rule!r} cannot remove {excess:,} tokens from a text of {counts[which] + excess:,}",
                where="truncation", hint='Give a larger max_length, or truncation="longest_first"',
            )  # fmt: skip
    return [text.keep(count, side) for text, count in zip(texts, counts, strict=True)]


def _shares(counts: Sequence[int], room: int) -> list[int]:
    """The lengths of one or two texts with `room` tokens together: the longer one is shortened first."""
    if len(counts) == 1:
        return [room]
    short, long = min(counts), max(counts)
    long = short if short > room else max(short, room - short)
    if short + long > room:
        short = room // 2
        long = short + room % 2
    return [short, long] if counts[0] <= counts[1] else [long, short]


def pad(encoding: Encoding, length: int, pad_id: int, pad_type_id: int, side: Side) -> Encoding:
    """The encoding with padding tokens up to `length`; one that is longer stays as it is."""
    count = length - len(encoding.ids)
    if count <= 0:
        return encoding

    def padded(values: list[Any], value: Any) -> list[Any]:
        return values + [value] * count if side == "right" else [value] * count + values

    return Encoding(
        padded(encoding.ids, pad_id),
        padded(encoding.type_ids, pad_type_id),
        padded(encoding.attention_mask, 0),
        padded(encoding.texts, None),
        None if encoding.offsets is None else padded(encoding.offsets, (0, 0)),
        encoding.cut,
    )


def checked_choice(name: str, value: Any, choices: Sequence[str], default: str) -> Any:
    """None for False or None, `default` for True, else one of `choices`. OptionError otherwise."""
    if value is None or value is False:
        return None
    if value is True:
        return default
    if value not in choices:
        raise OptionError(f"{value!r:.60} is not one of {', '.join(map(repr, choices))}", where=name)
    return value


def checked_length(name: str, value: Any) -> int | None:
    """A number of tokens, or None. OptionError otherwise."""
    if value is None:
        return None
    if type(value) is not int or not 0 < value <= LENGTH_LIMIT:
        raise OptionError(f"{value!r:.60} is not a number of tokens from 1 to {LENGTH_LIMIT:,}", where=name)
    return value
