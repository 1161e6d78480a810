"""The n-grams of the texts that are printed for the training, with which a reader decides what it does not see well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np
from pyapp.formats import write_safetensors
from pyapp.recipes.chooser import Chooser
from pyapp.recipes.reader.texts import line_text
from pyapp.text.generation.character_model import BORDER, KIND, STEP, letter, shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

LANGUAGE_FILE = "language.safetensors"
# The least count of n-grams of each length that are kept. With these, the file has 0.6 MB.
LEAST_LETTERS = (1, 1, 2, 3)
LEAST_SHAPES = (1, 1, 1, 3, 8)


def write_language(folder: Path, seed: int, lines: int) -> None:
    """Writes the model of characters of the texts of a seed into the reader's folder."""
    texts = [line_text(Chooser("language", seed, number), readable=True) for number in range(lines)]
    tensors: dict[str, Any] = {}
    metadata = {"kind": KIND}
    for part, symbol, least in (("letters", letter, LEAST_LETTERS), ("shapes", shape, LEAST_SHAPES)):
        symbols, tree = count_ngrams(texts, symbol, least)
        metadata[part] = symbols[1:]
        for level, fields in enumerate(tree, 1):
            tensors |= {f"{part}.{level}.{field}": values for field, values in fields.items()}
    write_safetensors(folder / LANGUAGE_FILE, tensors, metadata)


def count_ngrams(
    texts: Sequence[str], symbol: Callable[[str], str], least: Sequence[int]
) -> tuple[str, list[dict[str, NDArray[np.uint8]]]]:
    """The symbols of texts, the border first, and the tree of their n-grams as `NGrams` takes it. `least`: the counts
    from which n-grams of each length are kept. ValueError for more than 254 symbols.

    An n-gram's probability is (count + K p) / (n + k): n is how often its context is there, k how many symbols follow
    it, p the symbol's probability after a shorter context, and K is k and the counts of n-grams that are not kept.
    """
    characters = {character for text in texts for character in text}
    symbols = BORDER + "".join(sorted({symbol(character) for character in characters}))
    size = len(symbols)
    if size > 255:  # a byte tells a symbol, and how many n-grams go on with another one
        raise ValueError(f"{size - 1} different symbols are too many, at most 254 are possible")
    # All texts in a row, a border before and after each, as the numbers of symbols.
    stream = np.frombuffer((BORDER + (2 * BORDER).join(texts) + BORDER).encode("utf-32-le"), np.uint32)
    numbers = np.zeros(int(stream.max()) + 1, np.int64)
    for character in characters:
        numbers[ord(character)] = symbols.index(symbol(character))
    numbers = numbers[stream]  # (characters,)
    chances = np.bincount(numbers, minlength=size) + 0.5
    levels = [_Level(np.arange(size), chances / chances.sum())]
    for length in range(2, len(least) + 1):
        keys, counts = _counted(numbers, length, size)
        levels.append(_longer(levels, keys, counts, least[length - 1], size))
    return symbols, [_fields(level, after, size) for level, after in zip(levels, [*levels[1:], None], strict=True)]


class _Level:
    """The n-grams of one length: `keys` in order (their numbers as digits), the probability of the last symbol, and
    the weight of shorter ones after each.
    """

    def __init__(self, keys: NDArray[np.int64], chances: NDArray[np.float64]) -> None:
        self.keys, self.chances = keys, chances
        self.weights = np.ones(len(keys))

    def find(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Their places, and whether they are there."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return places, self.keys[places] == keys


def _counted(numbers: NDArray[np.int64], length: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The n-grams of a length and how often each is there; a border is the first or the last symbol of one."""
    count = len(numbers) - length + 1
    keys, inside = np.zeros(count, np.int64), np.ones(count, bool)
    for place in range(length):
        symbol = numbers[place : place + count]
        keys = keys * size + symbol
        if 0 < place < length - 1:
            inside &= symbol != 0
    if length == 2:
        inside &= (numbers[:-1] != 0) | (numbers[1:] != 0)  # the border between two texts
    found, counts = np.unique(keys[inside], return_counts=True)
    return found, counts


def _longer(
    levels: Sequence[_Level], keys: NDArray[np.int64], counts: NDArray[np.int64], least: int, size: int
) -> _Level:
    """The level of the next length; sets the weights of the contexts."""
    contexts, inverse = np.unique(keys // size, return_inverse=True)
    total, kinds = np.bincount(inverse, counts), np.bincount(inverse)
    _, known = levels[-1].find(keys // size)
    kept = known & (counts >= least)
    shared = kinds + np.bincount(inverse, np.where(kept, 0, counts))  # what shorter n-grams get
    shorter = _chances(levels, keys % size ** len(levels), size)
    chances = (counts + shared[inverse] * shorter) / (total + kinds)[inverse]
    places, known = levels[-1].find(contexts)
    levels[-1].weights[places[known]] = (shared / (total + kinds))[known]
    return _Level(keys[kept], chances[kept])


def _chances(levels: Sequence[_Level], keys: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """The probabilities of the last symbols of n-grams of the last level's length."""
    places, known = levels[-1].find(keys)
    found = np.where(known, levels[-1].chances[places], 0.0)
    if len(levels) > 1 and not known.all():
        missing = keys[~known]
        behind, seen = levels[-2].find(missing // size)
        weights = np.where(seen, levels[-2].weights[behind], 1.0)
        found[~known] = weights * _chances(levels[:-1], missing % size ** (len(levels) - 1), size)
    return found


def _fields(level: _Level, longer: _Level | None, size: int) -> dict[str, NDArray[np.uint8]]:
    found = {"symbols": (level.keys % size).astype(np.uint8), "costs": _costs(level.chances)}
    if longer is not None:
        parents, known = level.find(longer.keys // size)
        assert known.all()
        children = np.bincount(parents, minlength=len(level.keys))
        found |= {"backoffs": _costs(level.weights), "children": children.astype(np.uint8)}
    return found


def _costs(chances: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.rint(-np.log(chances) / STEP).clip(0, 255).astype(np.uint8)
