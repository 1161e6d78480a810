"""English numbers in words."""

from __future__ import annotations

import re

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
SCALES = ("", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion")
LARGEST = 1000 ** len(SCALES)
ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
ORDINAL = ("st", "nd", "rd", "th")
CURRENCIES = {"$": ("dollar", "cent"), "£": ("pound", "pence"), "€": ("euro", "cent")}
NUMBER = re.compile(
    r"(?P<minus>-)?(?P<whole>\d{1,3}(,\d{3})+|\d+)?(?P<decimals>\.\d+)?(?P<ending>st|nd|rd|th|'?s)?", re.IGNORECASE
)


def cardinal(number: int) -> list[str]:
    """ "two hundred five": the words of a number from 0 on; digit by digit from 10 ** 21 on."""
    if number >= LARGEST:
        return digits(str(number))
    if number < 20:
        return [ONES[number]]
    if number < 100:
        return [TENS[number // 10], *(cardinal(number % 10) if number % 10 else [])]
    if number < 1000:
        return [*cardinal(number // 100), "hundred", *(cardinal(number % 100) if number % 100 else [])]
    scale = next(n for n in range(len(SCALES), 0, -1) if number >= 1000**n)
    high, low = divmod(number, 1000**scale)
    return [*cardinal(high), SCALES[scale], *(cardinal(low) if low else [])]


def ordinal(number: int) -> list[str]:
    """ "twenty first"."""
    *before, last = cardinal(number)
    return [*before, ORDINALS.get(last) or (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")]


def year(number: int) -> list[str]:
    """ "nineteen eighty four", "two thousand five", "nineteen oh five", "nineteen hundred"."""
    high, low = divmod(number, 100)
    if not high or (high % 10 == 0 and low < 10):
        return cardinal(number)
    if low < 10:
        return [*cardinal(high), *(["oh", *cardinal(low)] if low else ["hundred"])]
    return cardinal(high) + cardinal(low)


def digits(text: str) -> list[str]:
    """One digit after the other."""
    return [ONES[int(digit)] for digit in text]


def code(text: str) -> list[str]:
    """Digits after letters, as in B52 or A380: in pairs, or one after the other."""
    if len(text) > 3 or (text.startswith("0") and len(text) > 1):
        return digits(text)
    if len(text) < 3 or text.endswith("00"):
        return cardinal(int(text))
    return [*cardinal(int(text[0])), *(["oh"] if text[1] == "0" else []), *cardinal(int(text[1:]))]


def amount(whole: int, part: str, currency: str) -> list[str]:
    """ "three dollars and fifty cents"; `part` has the digits after the point, two or none."""
    large, small = CURRENCIES[currency]
    cents = int(part or "0")
    words = [*cardinal(whole), large if whole == 1 else f"{large}s"] if whole or not cents else []
    if not cents:
        return words
    unit = small if cents == 1 or small == "pence" else f"{small}s"
    return [*words, *(["and"] if words else []), *cardinal(cents), unit]


def spoken(text: str, currency: str = "") -> tuple[list[str], bool] | None:
    """The words of a number as it is written, and whether they stand in the plural (1980s); None: it is no number."""
    match = NUMBER.fullmatch(text)
    if match is None or not (match["whole"] or match["decimals"]):
        return None
    whole, part = (match["whole"] or "").replace(",", ""), (match["decimals"] or "")[1:]
    ending = (match["ending"] or "").lower()
    words = ["minus"] if match["minus"] else []
    if currency and len(part) in (0, 2):
        return [*words, *amount(int(whole or "0"), part, currency)], False
    if ending in ORDINAL and whole and not part:
        words += ordinal(int(whole))
    elif part:
        words += [*(cardinal(int(whole)) if whole else []), "point", *digits(part)]
    elif whole.startswith("0") and len(whole) > 1:
        words += digits(whole)
    elif len(whole) == 4 and "," not in text:
        words += year(int(whole))
    else:
        words += cardinal(int(whole))
    if currency:
        words.append(f"{CURRENCIES[currency][0]}s")
    return words, ending in ("s", "'s")
