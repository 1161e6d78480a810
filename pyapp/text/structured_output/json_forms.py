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
from pyapp.text.structured_output.automata import (
    EMPTY,
    NFA_STATES,
    NOTHING,
    Either,
    Expression,
    Members,
    Repeat,
    Separated,
    both,
    compile_expression,
    explored,
    joined,
    least_states,
    literal,
    optional,
    too_large,
    without,
)
from pyapp.text.structured_output.json_schemas import (
    Schemas,
    Unsupported,
    is_a,
    is_annotation,
    is_list_of_texts,
    key_of,
)
from pyapp.text.structured_output.number_forms import (
    DIGITS,
    FRACTION,
    INTEGER,
    LARGEST,
    NATURAL,
    integers,
    multiples,
    with_decimals,
)
from pyapp.text.structured_output.string_forms import (
    FORMATS,
    any_character,
    any_string,
    of_format,
    of_lengths,
    quoted,
    spelled,
    string,
)
from pyapp.text.tokenization.patterns import Pattern

KEYWORDS = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}),
    "object": frozenset(
        "properties required additionalProperties patternProperties propertyNames minProperties maxProperties".split()
    ),
    "boolean": frozenset(),
    "null": frozenset(),
}
INSTEAD = {  # of keywords that are not supported
    "not": "Say what may come instead: enum, type, minimum, pattern …",
    "if": "Give anyOf with a schema for each case",
    "contains": "Put the item first with prefixItems",
    "dependentRequired": "Give anyOf with a schema for each case",
    "dependentSchemas": "Give anyOf with a schema for each case",
    "unevaluatedProperties": "Give additionalProperties: false",
    "unevaluatedItems": "Give items: false",
    "nullable": 'Give a type such as ["string", "null"]',
    "$dynamicRef": "Give $ref",
}
SHUFFLED = 6  # different items that come in any order; more come in the order of the schema
MOST_ITEMS = 300  # that are counted in an array
LAST_DIGIT, EXACT = Decimal(1).scaleb(-DIGITS), Context(prec=3 * DIGITS)
MOST_SCHEMAS = 20_000  # that are read: references to one another multiply
MOST_STATES = NFA_STATES  # of the strings and numbers that are read: others than these are refused before they take long
NESTING = 4  # of values of which the schema says nothing, and of a reference in itself

SPACE = optional(literal(" "))
COMMA = joined(literal(","), SPACE)
COLON = joined(literal(":"), SPACE)


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


def in_any_order(texts: list[str], least: int, most: int | None, where: str) -> Expression:
    """From `least` to `most` of these texts, each at most once."""
    data = [text.encode("utf-8", "surrogatepass") for text in texts]
    most = len(data) if most is None else most

    def steps(state: tuple[frozenset[int], bytes]) -> Iterable[tuple[int, int, tuple[frozenset[int], bytes]]]:
        used, read = state  # the complete ones, and what is read of the next one or the comma before it
        if read == b",":
            yield 0x20, 0x20, (used, b"")
            read = b""
        following: dict[int, tuple[frozenset[int], bytes]] = {}
        for index, text in enumerate(data):
            if index in used or not text.startswith(read):
                continue
            if len(text) > len(read):
                following[text[len(read)]] = (used, text[: len(read) + 1])
            elif len(used) + 1 < most:
                following[0x2C] = (used | {index}, b",")
        for byte, after in following.items():
            yield byte, byte, after

    def accepts(state: tuple[frozenset[int], bytes]) -> bool:
        used, read = state
        whole = any(index not in used and text == read for index, text in enumerate(data))
        return len(used) + 1 >= least and whole if read else not least and not used

    nothing: frozenset[int] = frozenset()
    return explored((nothing, b""), steps, accepts, where) if most else EMPTY


class Schema:
    """The expression of a schema. OptionError, with the keyword's place, for what is not supported."""

    def __init__(self, schema: Any, where: str = "json_schema") -> None:
        self._root, self._where = schema, where
        self._schemas = Schemas(schema)
        self._read = self._states = 0
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
            raise self._error(f"{schema!r:.40} is not a schema", place)
        asked = {name: given for name, given in schema.items() if not is_annotation(name, given)}
        if not asked:
            return any_value()
        if "not" in asked:
            return self._except(asked, place)
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

    def _except(self, asked: Mapping[str, Any], place: str) -> Expression:
        """A schema without the values, or the types, that `not` lists."""
        denied, rest = asked["not"], {name: given for name, given in asked.items() if name != "not"}
        only_type = isinstance(denied, Mapping) and denied.keys() == {"type"}
        kinds = self._types(denied, f"{place}/not") if only_type else []
        known, values = self._listed(rest, place), [] if kinds else self._listed(denied, f"{place}/not")
        if values is None:
            raise self._error("only const, enum or type are supported here", f"{place}/not", INSTEAD["not"])
        keys = set(map(key_of, values))
        if known is not None:
            left = [value for value in known if key_of(value) not in keys and not any(is_a(value, k) for k in kinds)]
            return self._constants(left, {}, place) if left else NOTHING
        if beside := rest.keys() & {"$ref", "allOf", "anyOf", "oneOf"}:
            raise self._error(f"not supported beside {min(beside)}", f"{place}/not", "Put it into each of the schemas")
        types = self._types(rest, place) if rest else [kind for kind in KEYWORDS if kind != "integer"]
        self._check_keywords(rest, types, place)
        found: list[Expression] = []
        for kind in types:
            here = [value for value in values if is_a(value, kind)]
            if kind in kinds or (kind == "integer" and "number" in kinds):
                continue
            if kind == "number" and "integer" in kinds:
                raise self._error("numbers that are not whole are not a type", f"{place}/not", INSTEAD["not"])
            if kind in ("boolean", "null"):
                left = [value for value in ([None] if kind == "null" else [False, True]) if key_of(value) not in keys]
                found += [literal(json.dumps(value)) for value in left]
                continue
            expression = self._typed(
                {**{name: rest[name] for name in rest if name in KEYWORDS[kind]}, "type": kind}, place
            )
            if here and kind == "string":
                expression = without(expression, Either(tuple(map(spelled, here))), f"{self._where}: {place}")
            elif here and kind == "integer":
                texts = [text for value in here for text in ([str(int(value))] if value else ["0", "-0"])]
                expression = without(expression, Either(tuple(map(literal, texts))), f"{self._where}: {place}")
            elif here:
                raise self._error(f"values of type {kind} cannot be left out", f"{place}/not", INSTEAD["not"])
            found.append(expression)
        return Either(tuple(found))

    def _listed(self, schema: Any, place: str) -> list[Any] | None:
        try:
            return self._schemas.listed(schema)
        except Unsupported as error:
            raise self._error(str(error), place) from None

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
        texts = self._texts(values, place)
        if not texts:
            raise self._error("no value has the type", place)
        return Either(tuple(literal(text) for text in texts))

    def _texts(self, values: list[Any], place: str) -> list[str]:
        """The JSON of constants."""
        try:
            texts = [json.dumps(value, ensure_ascii=False, allow_nan=False) for value in values]
        except (TypeError, ValueError) as error:
            raise self._error(f"not a JSON value: {error}", place) from None
        if sum(map(len, texts)) > NFA_STATES:
            raise too_large(f"{self._where}: {place}")
        return texts

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
        self._check_keywords(asked, types, place)
        if "number" in types:  # which the whole numbers are part of
            types = [kind for kind in types if kind != "integer"]
        return Either(tuple([self._of_kind(kind, asked, place) for kind in types]))

    def _of_kind(self, kind: str, asked: Mapping[str, Any], place: str) -> Expression:
        found: Expression = getattr(self, f"_{kind}")(asked, place)
        if kind in ("string", "number", "integer"):
            self._states += least_states(found)
            if self._states > MOST_STATES:
                raise too_large(self._where)
        return found

    def _check_keywords(self, asked: Mapping[str, Any], types: list[str], place: str) -> None:
        known = frozenset({"type"}).union(*(KEYWORDS[kind] for kind in types))
        for name in asked:
            if name not in known:
                raise self._error(f"the keyword {name!r:.40} is not supported here", place, INSTEAD.get(name))

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
        where = f"{self._where}: {place}"
        least, most = self._counts(asked, "minLength", "maxLength", place)
        contents: list[Expression] = []
        if "format" in asked:
            if not isinstance(asked["format"], str) or asked["format"] not in FORMATS:
                known = ", ".join(FORMATS)
                raise self._error(f"unknown format {asked['format']!r:.40}", f"{place}/format", f"Known are {known}")
            contents.append(of_format(asked["format"], least, most, where))
        if "pattern" in asked:
            pattern = self._pattern(asked["pattern"], f"{place}/pattern").inside()
            contents.append(pattern if contents else of_lengths(pattern, least, most, where))
        if contents:
            return string(contents[0] if len(contents) == 1 else both(contents[0], contents[1], where))
        if (least, most) == (0, None):
            return any_string()
        return string(Repeat(any_character(), least, most))  # few states for each character

    def _pattern(self, pattern: Any, place: str) -> Pattern:
        if not isinstance(pattern, str):
            raise self._error("must be a text", place)
        return Pattern(pattern, f"{self._where}: {place}", quoted)

    def _array(self, asked: Mapping[str, Any], place: str) -> Expression:
        least, most = self._counts(asked, "minItems", "maxItems", place)
        first = asked.get("prefixItems", [])
        if not isinstance(first, list):
            raise self._error("must be a list", f"{place}/prefixItems")
        parts = [self.value(part, f"{place}/prefixItems/{index}") for index, part in enumerate(first)]
        if asked.get("uniqueItems") is not None and most != 1:
            return self._distinct(asked, least, most, place)
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

    def _distinct(self, asked: Mapping[str, Any], least: int, most: int | None, place: str) -> Expression:
        """An array of items that all differ, of a list of values."""
        values = self._listed(asked.get("items", True), f"{place}/items")
        if asked["uniqueItems"] is not True or asked.get("prefixItems") or values is None:
            raise self._error(
                "items that differ are supported for a list of values only", f"{place}/uniqueItems",
                "Give items an enum, or leave uniqueItems out and remove what is double afterwards",
            )  # fmt: skip
        if least > len(values):
            raise self._error(f"{least} different items do not exist", f"{place}/minItems")
        texts = self._texts(values, place)
        if len(texts) > SHUFFLED:  # the orders of many are too many
            return joined(
                literal("["), Members(tuple((literal(text), False) for text in texts), COMMA, least, most), literal("]")
            )
        return joined(literal("["), in_any_order(texts, least, most, f"{self._where}: {place}"), literal("]"))

    def _object(self, asked: Mapping[str, Any], place: str) -> Expression:
        properties, required = asked.get("properties", {}), asked.get("required", [])
        more, patterns = asked.get("additionalProperties", True), asked.get("patternProperties", {})
        if not isinstance(properties, Mapping) or not is_list_of_texts(required) or not isinstance(patterns, Mapping):
            raise self._error("properties and patternProperties must be objects, required a list of texts", place)
        least, most = self._counts(asked, "minProperties", "maxProperties", place)
        if "propertyNames" in asked:
            properties, patterns, more = self._named(asked["propertyNames"], properties, patterns, more, place)
        keys = {pattern: self._pattern(pattern, f"{place}/patternProperties").inside() for pattern in patterns}
        automata = {pattern: compile_expression(key, f"{self._where}: {place}") for pattern, key in keys.items()}
        missing = [name for name in required if name not in properties]
        names = dict(properties)
        for name in [*names, *missing]:
            inside = json.dumps(name, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
            fitting = [patterns[pattern] for pattern in patterns if automata[pattern].matches(inside)]
            if name not in names and not fitting and more is False:
                raise self._error(f"the required {name!r:.40} is not among the properties", f"{place}/required")
            try:
                for schema in fitting:
                    names[name] = self._schemas.both(names.get(name, True), schema)
            except Unsupported as error:
                raise self._error(str(error), f"{place}/properties/{name}") from None
            names.setdefault(name, more)
        if not names and not patterns and more is not False:
            value = self.value(more, f"{place}/additionalProperties")
            return self._entries(joined(any_string(), COLON, value), least, most, place)
        needed = frozenset(required)
        parts = []
        for name, schema in names.items():
            value = self.value(schema, f"{place}/properties/{name}")
            parts.append((joined(literal(json.dumps(name, ensure_ascii=False)), COLON, value), name in needed))
        if not patterns:
            return joined(literal("{"), Members(tuple(parts), COMMA, least, most), literal("}"))
        if parts and (least > len(needed) or most is not None):
            raise self._error(
                "minProperties and maxProperties are not supported for both properties and patternProperties", place,
                "Leave them out, or name all properties",
            )  # fmt: skip
        entries: list[Expression] = []
        for pattern, key in keys.items():  # names that fit one pattern, and are not properties
            rest = [string(keys[other]) for other in keys if other != pattern]
            rest += [literal(json.dumps(name, ensure_ascii=False)) for name in names]
            found = without(string(key), Either(tuple(rest)), f"{self._where}: {place}") if rest else string(key)
            entries.append(
                joined(found, COLON, self.value(patterns[pattern], f"{place}/patternProperties/{pattern:.40}"))
            )
        if not parts:
            return self._entries(Either(tuple(entries)), least, most, place)
        parts.append((Separated(Either(tuple(entries)), COMMA), False))
        return joined(literal("{"), Members(tuple(parts), COMMA), literal("}"))

    def _named(
        self, names: Any, properties: Mapping[str, Any], patterns: Mapping[str, Any], more: Any, place: str
    ) -> tuple[Mapping[str, Any], Mapping[str, Any], Any]:
        """properties, patternProperties and additionalProperties, where `propertyNames` says which names may come."""
        values = self._listed(names, f"{place}/propertyNames")
        if values is not None and not patterns:
            known = [value for value in values if isinstance(value, str)]
            return {name: properties.get(name, more) for name in known}, {}, False
        asked = {name: given for name, given in names.items() if name != "type"} if isinstance(names, Mapping) else {}
        if asked.keys() == {"pattern"} and not properties and not patterns:
            return {}, {asked["pattern"]: more}, False
        if not asked and isinstance(names, Mapping) and names.get("type") == "string":
            return properties, patterns, more
        raise self._error(
            "only an enum or a pattern without other properties are supported", f"{place}/propertyNames",
            "Name the properties, or give patternProperties",
        )  # fmt: skip

    def _entries(self, entry: Expression, least: int, most: int | None, place: str) -> Expression:
        """An object of entries of any names. A name may come twice and then counts once."""
        if least > 1:
            raise self._error(
                "more than 1 is not supported for properties of any names", f"{place}/minProperties",
                "Name the properties, or give an array with minItems",
            )  # fmt: skip
        if most is None:
            several: Expression = Separated(entry, COMMA)
        elif most > MOST_ITEMS:
            raise too_large(f"{self._where}: {place}")
        else:
            several = joined(entry, Repeat(joined(COMMA, entry), 0, most - 1)) if most else NOTHING
        return joined(literal("{"), several if least else optional(several), literal("}"))

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
