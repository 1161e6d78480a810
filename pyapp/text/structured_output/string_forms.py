"""Strings of JSON as expressions over bytes: what stands between the quotation marks, its spellings, and the formats of
JSON Schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from pyapp.text.structured_output.automata import (
    LAST_CHARACTER,
    Byte,
    Either,
    Expression,
    Ranges,
    Repeat,
    both,
    characters,
    common,
    compile_expression,
    joined,
    literal,
    others,
)
from pyapp.text.structured_output.number_forms import DIGIT
from pyapp.text.tokenization.patterns import Pattern

HEX = Either((DIGIT, Byte(0x41, 0x46), Byte(0x61, 0x66)))
DATE = r"[12]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
HOST = r"[a-z0-9]{1,20}(-[a-z0-9]{1,20})?(\.[a-z0-9]{1,20}(-[a-z0-9]{1,20})?){0,2}\.[a-z]{2,12}"
CLOCK = r"\d{1,4}H(\d{1,2}M(\d{1,2}S)?)?|\d{1,4}M(\d{1,2}S)?|\d{1,4}S"
OCTET = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
SHORT_HOST = r"[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?(\.[a-z0-9]{1,8}){0,2}\.[a-z]{2,5}"
SHORT_ADDRESS = len("https://") + 8 + 2 * 9 + 6 + len(":8080/?")  # the characters of an address with such a host

LONGEST_PATH = 500  # characters, where the length of an address is limited


def _address(host: str, count: str) -> str:
    """An address of the web with `count` characters in its path and in its query, as patterns count."""
    return rf"https?://{host}(:[1-9]\d{{1,3}})?(/[A-Za-z0-9._~/-]{count})?(\?[A-Za-z0-9=&._~-]{count})?"


FORMATS = {
    "date": DATE,
    "time": TIME,
    "date-time": f"({DATE})T{TIME}",
    "uuid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "ipv4": rf"{OCTET}(\.{OCTET}){{3}}",
    "ipv6": r"[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}",
    "hostname": HOST,
    "email": rf"[a-z0-9]{{1,20}}([._+-][a-z0-9]{{1,20}}){{0,2}}@{HOST}",
    "uri": _address(HOST, "*"),
    "duration": rf"P(\d{{1,4}}W|\d{{1,4}}D(T({CLOCK}))?|T({CLOCK}))",
}
SHORT = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 0x22: '"', 0x5C: "\\"}
ESCAPED: Ranges = [(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)]


def _any_of(letters: str) -> Expression:
    return Either(tuple(literal(letter) for letter in letters))


def quoted(ranges: Iterable[tuple[int, int]]) -> Expression:
    """One character of these inside a JSON string: as itself, or escaped where JSON demands it."""
    ranges = list(ranges)
    escaped = [code for low, high in common(ranges, ESCAPED) for code in range(low, high + 1)]
    short = characters([(ord(SHORT[code]),) * 2 for code in escaped if code in SHORT])
    long: dict[int, list[int]] = {}  # the last hexadecimal digits by the one before: few states for many characters
    for code in escaped:
        if code not in SHORT:
            long.setdefault(code >> 4, []).append(ord(f"{code & 15:x}"))
    numbered = [
        joined(literal(f"u00{first:x}"), characters([(last, last) for last in lasts])) for first, lasts in long.items()
    ]
    plain = characters(common(ranges, others(ESCAPED)))
    return Either((plain, joined(literal("\\"), Either((short, *numbered))))) if escaped else plain


@cache
def any_character() -> Expression:
    """Any character inside a JSON string: as itself, or by one of the escapes of one letter."""
    return Either((characters(others(ESCAPED)), joined(literal("\\"), _any_of('"\\/bfnrt'))))


@cache
def any_spelling() -> Expression:
    """Any character inside a JSON string, with every escape that JSON knows; the two halves of a pair are one."""
    low_half = joined(literal("\\u"), _any_of("dD"), _any_of("cdefCDEF"), HEX, HEX)
    after_u = (
        joined(Either((DIGIT, _any_of("abcefABCEF"))), HEX, HEX, HEX),
        joined(_any_of("dD"), Byte(0x30, 0x37), HEX, HEX),
        joined(_any_of("dD"), _any_of("89abAB"), HEX, HEX, low_half),
    )
    escapes = Either((_any_of('"\\/bfnrt'), joined(literal("u"), Either(after_u))))
    return Either((characters(others(ESCAPED)), joined(literal("\\"), escapes)))


def string(content: Expression) -> Expression:
    return joined(literal('"'), content, literal('"'))


@cache
def any_string() -> Expression:
    return string(Repeat(any_spelling(), 0, None))


def spelled(text: str) -> Expression:
    """One string in all its spellings: each character as itself or by any of its escapes."""
    parts: list[Expression] = []
    for character in text:
        units = character.encode("utf-16-be", "surrogatepass")
        codes = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
        escape = joined(*(joined(literal("\\u"), *map(_either_case, code)) for code in codes))
        options = [] if ord(character) < 0x20 or character in '"\\' else [literal(character)]
        if ord(character) in SHORT or character == "/":
            options.append(literal(f"\\{SHORT.get(ord(character), '/')}"))
        parts.append(Either((*options, escape)))
    return string(joined(*parts))


def _either_case(digit: str) -> Expression:
    return Either(tuple(literal(letter) for letter in {digit, digit.upper()}))


def of_format(name: str, least: int, most: int | None, where: str) -> Expression:
    """The inside of the strings of a format, from `least` to `most` characters."""
    pattern = FORMATS[name]
    if name == "uri" and most is not None and most >= SHORT_ADDRESS:
        count = min((most - SHORT_ADDRESS) // 2, LONGEST_PATH)
        pattern = _address(SHORT_HOST, f"{{0,{count}}}")  # few states, and never too long
    return of_lengths(Pattern(pattern, where, quoted).whole(), least, most, where)


def of_lengths(content: Expression, least: int, most: int | None, where: str) -> Expression:
    """The texts of `content`, which spells characters as `quoted` does, that have so many characters."""
    if least or most is not None:
        # A character is a byte or more.
        shortest, longest = compile_expression(content, where).lengths()
        least = 0 if least == 1 <= shortest else least
        most = None if most is not None and longest is not None and longest <= most else most
    if not least and most is None:
        return content
    character = quoted([(0, LAST_CHARACTER)])
    return both(content, Repeat(both(character, character, where), least, most), where)
