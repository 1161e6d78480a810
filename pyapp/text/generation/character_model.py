"""How probable a text is, character by character: n-grams of letters without regard to case, and of the shapes (small,
capital, digit) that characters have.

The probabilities are those of Witten and Bell's smoothing (1991, https://doi.org/10.1109/18.87000), kept as a tree of
n-grams with back-off weights (Katz 1987, https://doi.org/10.1109/TASSP.1987.1165125), each in one byte. A file is
safetensors: for each of "letters" and "shapes" and each length of n-grams the uint8 tensors PART.N.symbols,
PART.N.costs, and but for the longest PART.N.backoffs and PART.N.children; the symbols are in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from math import exp, log
from typing import TYPE_CHECKING, Any

from pyapp.errors import FileFormatError
from pyapp.formats import ByteSource, open_checkpoint

if TYPE_CHECKING:
    import os

BORDER = "\n"  # before the first character of a text, and after the last; its symbol has number 0
STEP = 0.07  # nats of a unit of costs
DIGIT, SMALL, CAPITAL = "0", "a", "A"  # the symbols of digits, and of letters' shapes
LONGEST = 12  # of n-grams
PARTS = ("letters", "shapes")
KIND = "pyapp.character_model"  # in the metadata of its files


def letter(character: str) -> str:
    """The symbol of a character among the letters: small, and one for all digits."""
    if character.isascii():
        return DIGIT if character.isdigit() else character.lower()
    small = character.lower()
    return small if len(small) == 1 else character


def shape(character: str) -> str:
    """The symbol of a character's shape: other characters than digits and letters are their own."""
    if character.isascii() and character.isdigit():
        return DIGIT
    if has_case(character):
        return SMALL if character == character.lower() else CAPITAL
    return character


def has_case(character: str) -> bool:
    return character.lower() != character.upper()


class NGrams:
    """The probabilities of symbols after other symbols.

    `symbols`: those with a number, the border first. `tree`: for n-grams of each length, in the order of their symbols,
    "symbols" (the number of the last one), "costs" (minus its logarithm in units of STEP), "backoffs" (minus the
    logarithm of the weight of shorter n-grams after it) and "children" (how many longer ones begin with it).
    """

    def __init__(self, symbols: str, tree: list[Mapping[str, bytes]]) -> None:
        self.symbols = symbols
        self.order = len(tree)
        self._numbers = {symbol: number for number, symbol in enumerate(symbols)}
        self._symbols = [level["symbols"] for level in tree]
        self._costs = [level["costs"] for level in tree]
        self._backoffs = [level["backoffs"] for level in tree[:-1]]
        self._ends = [[0, *accumulate(level["children"])] for level in tree[:-1]]

    def number(self, symbol: str) -> int:
        """A symbol's number, -1 for one that is not known."""
        return self._numbers.get(symbol, -1)

    def log_probability(self, before: str, symbol: str) -> float:
        """The log-probability in nats of a symbol after others; for a symbol that is not known, the least there is."""
        number = self.number(symbol)
        if number < 0:
            return -255 * STEP
        numbers = [self.number(one) for one in before[max(0, len(before) - self.order + 1) :]]
        known = max((i + 1 for i, one in enumerate(numbers) if one < 0), default=0)
        context, cost = bytes(numbers[known:]), 0
        for first in range(len(context) + 1):
            found = self._place(context[first:] + bytes((number,)))
            if found >= 0:
                return -STEP * (cost + self._costs[len(context) - first][found])
            behind = self._place(context[first:]) if first < len(context) else -1
            cost += self._backoffs[len(context) - first - 1][behind] if behind >= 0 else 0
        return -255 * STEP

    def _place(self, numbers: bytes) -> int:
        """The place of an n-gram among those of its length, -1 if there is none."""
        first, last, place = 0, len(self._symbols[0]), -1
        for level, number in enumerate(numbers):
            place = self._symbols[level].find(number, first, last)
            if place < 0:
                return -1
            if level + 1 < len(numbers):
                first, last = self._ends[level][place], self._ends[level][place + 1]
        return place


class CharacterModel:
    """The probability of the next character of a text."""

    def __init__(self, letters: NGrams, shapes: NGrams) -> None:
        self.letters, self.shapes = letters, shapes
        self.context = max(letters.order, shapes.order) - 1  # characters that matter for the next one

    def log_probability(self, before: str, character: str) -> float:
        """The log-probability in nats after the characters `before`, which begin with BORDER at the beginning of a
        text.
        """
        before = before[max(0, len(before) - self.context) :]
        symbol = letter(character)
        found = self.letters.log_probability("".join(map(letter, before)), symbol)
        if symbol == DIGIT:
            return found - log(10)
        if has_case(character):
            shapes = "".join(map(shape, before))
            chances = {one: exp(self.shapes.log_probability(shapes, one)) for one in (SMALL, CAPITAL)}
            found += log(chances[shape(character)] / sum(chances.values()))
        return found


def read_character_model(file: str | os.PathLike[str] | ByteSource) -> CharacterModel:
    """The model of a file. FileFormatError for one that is damaged, or something else."""
    with open_checkpoint(file) as checkpoint:
        where = checkpoint.source.name
        if checkpoint.metadata.get("kind") != KIND:
            raise FileFormatError(f"is not a model of characters: its metadata have no kind {KIND!r}", where=where)
        return CharacterModel(*(_read_part(checkpoint, part, where) for part in PARTS))


def _read_part(checkpoint: Any, part: str, where: str) -> NGrams:
    symbols = BORDER + checkpoint.metadata.get(part, "")
    if not 1 < len(symbols) <= 256 or len(set(symbols)) != len(symbols):
        raise FileFormatError(f"the symbols of {part} are not 1 to 255 different ones", where=where)
    order = len({name.rpartition(".")[0] for name in checkpoint.tensors if name.startswith(f"{part}.")})
    if not 0 < order <= LONGEST:
        raise FileFormatError(f"{part} has n-grams of {order} lengths, expected 1 to {LONGEST}", where=where)
    tree: list[Mapping[str, bytes]] = []
    for level in range(1, order + 1):
        fields = ("symbols", "costs") if level == order else ("symbols", "costs", "backoffs", "children")
        found = {}
        for field in fields:
            name = f"{part}.{level}.{field}"
            info = checkpoint.tensors.get(name)
            if info is None or info.dtype != "uint8" or len(info.shape) != 1:
                raise FileFormatError(f"has no row of bytes {name}", where=where)
            found[field] = bytes(checkpoint.read_bytes(name))
        count = len(symbols) if level == 1 else sum(tree[-1]["children"])
        if any(len(data) != count for data in found.values()):
            raise FileFormatError(f"the n-grams of length {level} of {part} are not {count:,}", where=where)
        if max(found["symbols"], default=0) >= len(symbols):
            raise FileFormatError(f"an n-gram of {part} has a symbol that is not there", where=where)
        tree.append(found)
    if tree[0]["symbols"] != bytes(range(len(symbols))):
        raise FileFormatError(f"the n-grams of length 1 of {part} are not its symbols", where=where)
    return NGrams(symbols, tree)
