"""Values of a preprocessor_config.json: usual ones, and checks of those in files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from sys import float_info
from typing import Any, NoReturn

from pyapp.errors import ModelError

FILE = "preprocessor_config.json"
HINT = f"Give the {FILE} that belongs to the weights"
LARGEST = 1 << 14  # pixels of a side

# The means and the standard deviations of red, green and blue.
HALF, IMAGENET = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

# The forms of a size: the keys that it has.
BOTH_SIDES, SHORT_SIDE, LONG_SIDE = {"height", "width"}, {"shortest_edge"}, {"longest_edge"}
SHORT_AND_LONG, LARGEST_SIDES = {"shortest_edge", "longest_edge"}, {"max_height", "max_width"}


def square(side: int) -> dict[str, int]:
    """The size of a square, in pixels."""
    return {"height": side, "width": side}


def checked_size(name: str, found: Any, forms: Collection[Collection[str]], given: Any, most: int = LARGEST) -> Any:
    """A size as a mapping, without keys that are null. ModelError, which names what was `given`, if it has none of the
    forms, or a number is below 1 or above `most`.
    """
    found = {key: value for key, value in found.items() if value is not None} if isinstance(found, Mapping) else None
    plausible = found is not None and all(type(n) is int and 1 <= n <= most for n in found.values())
    if not plausible or set(found) not in forms:
        wrong(name, given, f"{' or '.join(' and '.join(sorted(form)) for form in forms)}, from 1 to {most:,}")
    return found


def size_of_sides(name: str, given: Any) -> dict[str, int]:
    """A size with a height and a width; older files have one number, or two. ModelError for others."""
    found = square(given) if type(given) is int else given
    if is_list(given) and len(given) == 2:
        found = dict(zip(("height", "width"), given, strict=True))
    return checked_size(name, found, [BOTH_SIDES], given)


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """ModelError if a setting is not a whole number from `least` to `most`."""
    if type(value) is not int or not least <= value <= most:
        wrong(name, value, f"a whole number from {least:,} to {most:,}")


def wrong(name: str, value: Any, expected: str) -> NoReturn:
    """Raises the ModelError for a setting that has another value than is expected."""
    raise ModelError(f"{name} is {value!r:.60}, expected {expected}", where=FILE, hint=HINT)


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number."""
    return type(value) in (int, float) and abs(value) <= float_info.max


def is_list(value: Any) -> bool:
    """Whether a value is a list, or a tuple."""
    return isinstance(value, list | tuple)
