"""The JSON texts of a JSON Schema as an expression over bytes (https://json-schema.org, draft 2020-12).

A subset of the schema language, documented in docs/generation.md; other keywords are refused by name, never ignored.
The texts are a subset of those that the schema allows, so that every one of them fits it: properties come in the
schema's order and no others come, there is at most one space after a comma and a colon, numbers have at most fifteen
digits before and after the point.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal
from functools import cache
from typing import Any

from pyapp.errors import OptionError
from pyapp.text.automata import (
    EMPTY,
    LAST_CHARACTER,
    NFA_STATES,
    NOTHING,
    Byte,
    Either,
    Expression,
    Members,
    Ranges,
    Repeat,
    Separated,
    both,
    characters,
    common,
    joined,
    literal,
    optional,
    others,
    too_large,
)
from pyapp.text.json_schemas import Schemas, Unsupported, is_a, is_annotation, is_list_of_texts
from pyapp.text.number_forms import (
    DIGIT,
    DIGITS,
    FRACTION,
    INTEGER,
    LARGEST,
    NATURAL,
    integers,
    multiples,
    with_decimals,
)
from pyapp.text.patterns import Pattern

KEYWORDS = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "boolean": frozenset(),
    "null": frozenset(),
}
MOST_ITEMS = 300  # that are counted in an array
LAST_DIGIT, EXACT = Decimal(1).scaleb(-DIGITS), Context(prec=3 * DIGITS)
MOST_SCHEMAS = 20_000  # that are read: each needs states, and references to one another multiply
NESTING = 4  # of values of which the schema says nothing, and of a reference in itself
DATE = r"[12]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
HOST = r"[a-z0-9]{1,20}(-[a-z0-9]{1,20})?(\.[a-z0-9]{1,20}(-[a-z0-9]{1,20})?){0,2}\.[a-z]{2,12}"
CLOCK = r"\d{1,4}H(\d{1,2}M(\d{1,2}S)?)?|\d{1,4}M(\d{1,2}S)?|\d{1,4}S"
OCTET = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
FORMATS = {
    "date": DATE,
    "time": TIME,
    "date-time": f"({DATE})T{TIME}",
    "uuid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "ipv4": rf"{OCTET}(\.{OCTET}){{3}}",
    "ipv6": r"[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}",
    "hostname": HOST,
    "email": rf"[a-z0-9]{{1,20}}([._+-][a-z0-9]{{1,20}}){{0,2}}@{HOST}",
    "uri": rf"https?://{HOST}(:[1-9]\d{{1,3}})?(/[A-Za-z0-9._~-]*)*(\?[A-Za-z0-9=&._~-]+)?",
    "duration": rf"P(\d{{1,4}}W|\d{{1,4}}D(T({CLOCK}))?|T({CLOCK}))",
}
SHORT = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 0x22: '"', 0x5C: "\\"}
ESCAPED: Ranges = [(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)]

SPACE = optional(literal(" "))
COMMA = joined(literal(","), SPACE)
COLON = joined(literal(":"), SPACE)
HEX = Either((DIGIT, Byte(0x41, 0x46), Byte(0x61, 0x66)))


def _any_of(letters: str) -> Expression:
    return Either(tuple(literal(letter) for letter in letters))


def quoted(ranges: Iterable[tuple[int, int]]) -> Expression:
    """One character of these inside a JSON string: as itself, or escaped where JSON demands it."""
    ranges = list(ranges)
    escaped = [code for low, high in common(ranges, ESCAPED) for code in range(low, high + 1)]
    spelled = [literal(f"\\{SHORT[code]}" if code in SHORT else f"\\u{code:04x}") for code in escaped]
    return Either((characters(common(ranges, others(ESCAPED))), *spelled))


def any_character() -> Expression:
    """Any character inside a JSON string: as itself, or by one of the escapes of one letter."""
    return Either((characters(others(ESCAPED)), joined(literal("\\"), _any_of('"\\/bfnrt'))))


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


def any_string() -> Expression:
    return string(Repeat(any_spelling(), 0, None))


@cache
def any_value(nesting: int = NESTING) -> Expression:
    """Any JSON value, with arrays and objects in one another to a depth of `nesting`."""
    scalars = (any_string(), joined(INTEGER, FRACTION), literal("true"), literal("false"), literal("null"))
    if not nesting:
        return Either(scalars)
    inner = any_value(nesting - 1)
    return Either((*scalars, array(inner), mapping(inner)))


def array(item: Expression) -> Expression:
    return joined(literal("["), optional(Separated(item, COMMA)), literal("]"))


def mapping(value: Expression) -> Expression:
    """An object of any keys."""
    return joined(literal("{"), optional(Separated(joined(any_string(), COLON, value), COMMA)), literal("}"))


class Schema:
    """The expression of a schema. OptionError, with the keyword's place, for what is not supported."""

    def __init__(self, schema: Any, where: str = "json_schema") -> None:
        self._root, self._where = schema, where
        self._schemas = Schemas(schema)
        self._read = 0
        self._open: list[str] = []  # the references that are being followed
        self._known: dict[tuple[str, ...], Expression] = {}  # by the reference and those that are open

    def expression(self) -> Expression:
        return self.value(self._root, "#")

    def value(self, schema: Any, place: str) -> Expression:
        self._read += 1
        if self._read > MOST_SCHEMAS:
            raise too_large(self._where)
        if schema is True or schema == {}:
            return any_value()
        if schema is False:
            return NOTHING
        if not isinstance(schema, Mapping):
            raise self._error(f"{schema!r:.40} is no schema", place)
        asked = {name: given for name, given in schema.items() if not is_annotation(name, given)}
        if not asked:
            return any_value()
        if "allOf" in asked:
            return self._together(asked, place)
        for name in ("$ref", "anyOf", "oneOf", "const", "enum"):
            if name in asked:
                if asked.keys() - {name} - ({"type"} if name in ("const", "enum") else set()):
                    rest = {other: given for other, given in asked.items() if other != name}
                    return self._together({"allOf": [{name: asked[name]}], **rest}, place)
                return self._special(name, asked, place)
        return self._typed(asked, place)

    def _special(self, name: str, asked: Mapping[str, Any], place: str) -> Expression:
        given, place = asked[name], f"{place}/{name}"
        if name == "$ref":
            return self._reference(given, place)
        if name == "const":
            return self._constants([given], asked, place)
        if not isinstance(given, list) or not given:
            raise self._error("must be a list that is not empty", place)
        if name == "enum":
            return self._constants(given, asked, place)
        if name == "oneOf":
            self._check_one(given, place)
        return Either(tuple([self.value(option, f"{place}/{index}") for index, option in enumerate(given)]))

    def _check_one(self, options: list[Any], place: str) -> None:
        """Refuses options of which two could fit one value."""
        for index, option in enumerate(options):
            for other in range(index):
                try:
                    apart = self._schemas.exclude_each_other(options[other], option)
                except Unsupported as error:
                    raise self._error(str(error), place) from None
                if not apart:
                    raise self._error(
                        f"{other} and {index} may both fit a value", place,
                        "Give anyOf, or options that differ in their type or in a required property with a const",
                    )  # fmt: skip

    def _together(self, asked: Mapping[str, Any], place: str) -> Expression:
        """allOf, and what stands beside it, as one schema."""
        options = asked["allOf"]
        if not isinstance(options, list) or not options:
            raise self._error("must be a list that is not empty", f"{place}/allOf")
        rest = {name: given for name, given in asked.items() if name != "allOf"}
        options = [*options, rest] if rest else options
        if len(options) == 1:  # a reference may contain itself
            return self.value(options[0], f"{place}/allOf/0")
        try:
            schema: Any = True
            for option in options:
                schema = self._schemas.both(schema, option)
        except Unsupported as error:
            raise self._error(str(error), f"{place}/allOf") from None
        return self.value(schema, f"{place}/allOf")

    def _reference(self, target: Any, place: str) -> Expression:
        """The value that a reference points to; nothing in the NESTING-th one of itself."""
        try:
            found = self._schemas.pointed(target)
        except Unsupported as error:
            raise self._error(str(error), place) from None
        if self._open.count(target) >= NESTING:
            return NOTHING
        key = (target, *sorted(self._open))
        known = self._known.get(key)
        if known is None:
            self._open.append(target)
            try:
                known = self._known[key] = self.value(found, target)
            finally:
                self._open.pop()
        return known

    def _constants(self, values: list[Any], asked: Mapping[str, Any], place: str) -> Expression:
        if "type" in asked:
            types = self._types(asked, place)
            values = [value for value in values if any(is_a(value, kind) for kind in types)]
        try:
            texts = [json.dumps(value, ensure_ascii=False, allow_nan=False) for value in values]
        except (TypeError, ValueError) as error:
            raise self._error(f"not a JSON value: {error}", place) from None
        if not texts:
            raise self._error("no value has the type", place)
        if sum(map(len, texts)) > NFA_STATES:
            raise too_large(f"{self._where}: {place}")
        return Either(tuple(literal(text) for text in texts))

    def _types(self, asked: Mapping[str, Any], place: str) -> list[str]:
        """The types in `type`; without it, those to which the keywords belong."""
        given = asked.get(
            "type", [kind for kind, known in KEYWORDS.items() if known & asked.keys() and kind != "integer"]
        )
        types = [given] if isinstance(given, str) else given
        if not isinstance(types, list) or not all(isinstance(kind, str) and kind in KEYWORDS for kind in types):
            raise self._error(f"unknown type {given!r:.60}", place)
        return types

    def _typed(self, asked: Mapping[str, Any], place: str) -> Expression:
        types = self._types(asked, place)
        known = frozenset({"type"}).union(*(KEYWORDS[kind] for kind in types))
        for name in asked:
            if name not in known:
                raise self._error(f"the keyword {name!r:.40} is not supported here", place)
        if "number" in types:  # which the whole numbers are part of
            types = [kind for kind in types if kind != "integer"]
        return Either(tuple([getattr(self, f"_{kind}")(asked, place) for kind in types]))

    def _null(self, asked: Mapping[str, Any], place: str) -> Expression:
        return literal("null")

    def _boolean(self, asked: Mapping[str, Any], place: str) -> Expression:
        return Either((literal("true"), literal("false")))

    def _number(self, asked: Mapping[str, Any], place: str) -> Expression:
        if not KEYWORDS["number"] & asked.keys():
            return joined(INTEGER, FRACTION)
        low, high, open_low, open_high = self._bounds(asked, place)
        if low == 0 and not open_low and asked.keys() <= {"type", "minimum"}:
            return joined(NATURAL, FRACTION)
        places = DIGITS
        if "multipleOf" in asked:
            step = self._decimal(asked["multipleOf"], f"{place}/multipleOf")
            if step > 0 and step == int(step):
                return self._integer(asked, place)
            if step not in (Decimal(1).scaleb(-digits) for digits in range(1, DIGITS + 1)):
                raise self._error("must be a whole number from 1, or 0.1, 0.01 …", f"{place}/multipleOf")
            places = -step.adjusted()
        return with_decimals(places, low, high, open_low, open_high)

    def _integer(self, asked: Mapping[str, Any], place: str) -> Expression:
        if not KEYWORDS["integer"] & asked.keys():
            return INTEGER
        low, high, open_low, open_high = self._bounds(asked, place)
        least = -LARGEST if low is None else math.floor(low) + 1 if open_low else math.ceil(low)
        most = LARGEST if high is None else math.ceil(high) - 1 if open_high else math.floor(high)
        if least > most:
            raise self._error("no whole number lies within the limits", place)
        if "multipleOf" not in asked:
            return integers(least, most)
        step = self._decimal(asked["multipleOf"], f"{place}/multipleOf")
        if step <= 0 or step != int(step):
            raise self._error("must be a whole number from 1", f"{place}/multipleOf")
        return multiples(int(step), least, most, f"{self._where}: {place}")

    def _bounds(self, asked: Mapping[str, Any], place: str) -> tuple[Decimal | None, Decimal | None, bool, bool]:
        """The lowest and the highest number, and whether they are outside."""
        found: list[tuple[Decimal | None, bool]] = []
        for plain, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
            given = [
                (sign * self._decimal(asked[name], f"{place}/{name}"), name == exclusive)
                for name in (plain, exclusive)
                if name in asked
            ]
            bound, is_open = max(given) if given else (None, False)
            found.append((None if bound is None else sign * bound, is_open))
        (low, open_low), (high, open_high) = found
        return low, high, open_low, open_high

    def _decimal(self, number: Any, place: str) -> Decimal:
        fits = isinstance(number, int | float) and not isinstance(number, bool) and abs(number) <= LARGEST
        value = Decimal(str(number)) if fits else Decimal(0)
        if not fits or value != value.quantize(LAST_DIGIT, context=EXACT):
            raise self._error(f"must be a number of at most {DIGITS} digits before and after the point", place)
        return value

    def _string(self, asked: Mapping[str, Any], place: str) -> Expression:
        contents: list[Expression] = []
        if "pattern" in asked:
            pattern, where = asked["pattern"], f"{self._where}: {place}/pattern"
            if not isinstance(pattern, str):
                raise self._error("must be a text", f"{place}/pattern")
            contents.append(Pattern(pattern, where, quoted).inside())
        if "format" in asked:
            if asked["format"] not in FORMATS:
                known = ", ".join(FORMATS)
                raise self._error(f"unknown format {asked['format']!r:.40}", f"{place}/format", f"Known are {known}")
            contents.append(Pattern(FORMATS[asked["format"]], self._where, quoted).whole())
        least, most = self._counts(asked, "minLength", "maxLength", place)
        if not contents:
            if (least, most) == (0, None):
                return any_string()
            return string(Repeat(any_character(), least, most))  # few states for each character
        where = f"{self._where}: {place}"
        if (least, most) != (0, None):
            character = quoted([(0, LAST_CHARACTER)])  # as patterns spell it
            contents.append(Repeat(both(character, character, where), least, most))
        found = contents[0]
        for other in contents[1:]:
            found = both(found, other, where)
        return string(found)

    def _array(self, asked: Mapping[str, Any], place: str) -> Expression:
        least, most = self._counts(asked, "minItems", "maxItems", place)
        first = asked.get("prefixItems", [])
        if not isinstance(first, list):
            raise self._error("must be a list", f"{place}/prefixItems")
        parts = [self.value(part, f"{place}/prefixItems/{index}") for index, part in enumerate(first)]
        if asked.get("items", True) is False:
            most = len(parts) if most is None else min(most, len(parts))
            item: Expression = EMPTY
        elif most is None or most > len(parts):
            item = self.value(asked.get("items", True), f"{place}/items")
        if most is not None and least > most:
            raise self._error(f"from {least} to {most} items do not exist", place)
        if not parts and most is None and least <= 1:
            several: Expression = Separated(item, COMMA)
            return joined(literal("["), several if least else optional(several), literal("]"))
        # Items in order: one may be missing only if all that follow are, too.
        count = max(least, len(parts)) if most is None else most
        if count > MOST_ITEMS:
            raise too_large(f"{self._where}: {place}")
        items = [parts[index] if index < len(parts) else item for index in range(count)]
        tail: Expression = EMPTY if most is not None else Repeat(joined(COMMA, item), 0, None)
        for index in reversed(range(count)):
            here = joined(COMMA, items[index], tail) if index else joined(items[index], tail)
            tail = here if index < least else optional(here)
        return joined(literal("["), tail, literal("]"))

    def _object(self, asked: Mapping[str, Any], place: str) -> Expression:
        properties, required = asked.get("properties", {}), asked.get("required", [])
        more = asked.get("additionalProperties", True)
        if not isinstance(properties, Mapping) or not is_list_of_texts(required):
            raise self._error("properties must be an object, required a list of texts", place)
        missing = [name for name in required if name not in properties]
        if missing and more is False:
            raise self._error(f"the required {missing[0]!r:.40} is not among the properties", f"{place}/required")
        properties = {**properties, **dict.fromkeys(missing, more)}
        if not properties:
            if more is False:
                return literal("{}")
            return mapping(self.value(more, f"{place}/additionalProperties"))
        needed = frozenset(required)
        parts = []
        for name, schema in properties.items():
            value = self.value(schema, f"{place}/properties/{name}")
            parts.append((joined(literal(json.dumps(name, ensure_ascii=False)), COLON, value), name in needed))
        return joined(literal("{"), Members(tuple(parts), COMMA), literal("}"))

    def _counts(self, asked: Mapping[str, Any], least: str, most: str, place: str) -> tuple[int, int | None]:
        low, high = asked.get(least, 0), asked.get(most)
        for name, value in ((least, low), (most, high)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise self._error("must be a whole number from 0", f"{place}/{name}")
        if high is not None and low > high:
            raise self._error(f"{low} is more than {most}, {high}", f"{place}/{least}")
        return low, high

    def _error(self, what: str, place: str, hint: str | None = None) -> OptionError:
        return OptionError(f"{place}: {what}", where=self._where, hint=hint)
