"""JSON Schemas (draft 2020-12) by themselves: where a reference points, the schema of the values that fit two schemas,
and whether two schemas can fit one value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

ANNOTATIONS = frozenset(
    "title description default examples $schema $id $comment $defs definitions deprecated readOnly writeOnly "
    "discriminator example externalDocs xml propertyOrdering".split()  # OpenAPI's, and Google's
)
# `format` of texts and numbers that says how they are stored or shown, and not what they are.
SHOWN_AS = frozenset("password binary byte int32 int64 float double decimal".split())
NUMBERS = frozenset({"integer", "number"})
MEMBERS = frozenset({"properties", "required", "additionalProperties"})
MOST_STEPS = 16  # references and alternatives in one another, until a comparison gives up
MOST_VISITS = 20_000  # pairs of schemas that are compared: alternatives in one another multiply


class Unsupported(ValueError):
    """What these functions cannot do, in words."""


def is_annotation(name: str, given: Any) -> bool:
    """Whether a keyword with this value says nothing of the values that fit."""
    if name == "format":
        return isinstance(given, str) and given in SHOWN_AS
    return name in ANNOTATIONS or name.startswith("x-") or (name == "uniqueItems" and given is False)


def is_a(value: Any, kind: str) -> bool:
    """Whether a JSON value has a type."""
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "array": list, "object": dict}.get(kind, ()))


class Schemas:
    """The schemas inside `root`, to which their references point."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._visits = 0

    def pointed(self, target: Any) -> Any:
        """What the reference `target` means. Unsupported where it points elsewhere."""
        if not isinstance(target, str) or not target.startswith("#"):
            raise Unsupported(f"{target!r:.60} does not point into this schema")
        found = self._root
        for part in target[1:].split("/")[1:]:
            part = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and part.isdecimal() and len(part) < 10 and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, Mapping) and part in found:
                found = found[part]
            else:
                raise Unsupported(f"{target!r:.60} is missing")
        return found

    def listed(self, schema: Any, steps: int = MOST_STEPS) -> list[Any] | None:
        """The different values that fit, where the schema or what it points to lists them; else None."""
        if not steps or not isinstance(schema, Mapping):
            return None
        asked = {name: given for name, given in schema.items() if not is_annotation(name, given)}
        if asked.keys() == {"$ref"}:
            return self.listed(self.pointed(asked["$ref"]), steps - 1)
        if asked.keys() == {"type"}:
            kinds: dict[str, list[Any]] = {"boolean": [False, True], "null": [None]}
            return kinds.get(str(asked["type"]))
        values = _values(asked)
        if values is None or asked.keys() - {"type", "const", "enum"} or len(asked.keys() & {"const", "enum"}) > 1:
            return None
        if "type" in asked:
            values = [value for value in values if any(is_a(value, kind) for kind in _type_names(asked["type"]))]
        return list({key_of(value): value for value in values}.values())

    def _visit(self) -> None:
        self._visits += 1
        if self._visits > MOST_VISITS:
            raise Unsupported("the alternatives and references are too many to compare")

    # -- the values that fit two schemas

    def both(self, one: Any, other: Any, steps: int = MOST_STEPS) -> Any:
        """The schema of the values that fit two schemas. Unsupported for keywords that cannot be joined."""
        self._visit()
        for this, that in ((one, other), (other, one)):
            if this is True or this == {}:
                return that
            if this is False:
                return False
        if not isinstance(one, Mapping) or not isinstance(other, Mapping):
            raise Unsupported(f"{next(x for x in (one, other) if not isinstance(x, Mapping))!r:.40} is not a schema")
        if not steps:
            raise Unsupported("references that contain themselves are not supported here")
        one, other = (
            {name: given for name, given in part.items() if not is_annotation(name, given)} for part in (one, other)
        )
        for this, that in ((one, other), (other, one)):
            if "$ref" in this:
                rest = {name: given for name, given in this.items() if name != "$ref"}
                return self.both(self.both(self.pointed(this["$ref"]), rest, steps - 1), that, steps - 1)
            if "allOf" in this:
                found: Any = {name: given for name, given in this.items() if name != "allOf"}
                for option in [*_list(this, "allOf"), that]:
                    found = self.both(found, option, steps - 1)
                return found
            for name in ("anyOf", "oneOf"):
                if name in this:
                    rest = {key: given for key, given in this.items() if key != name}
                    that = self.both(rest, that, steps - 1)
                    return {name: [self.both(option, that, steps - 1) for option in _list(this, name)]}
        if values := [part for part in (one, other) if {"const", "enum"} & part.keys()]:
            return _of_values(values, one, other)
        found = {}
        for name in {**one, **other}:
            if name in MEMBERS:
                continue
            if name not in one or name not in other:
                found[name] = one[name] if name in one else other[name]
            else:
                found[name] = self._joined(name, one[name], other[name], steps)
        if found.get("type") == []:
            return False
        if MEMBERS & {*one, *other}:
            found |= self._members(one, other, steps)
        return found

    def _joined(self, name: str, one: Any, other: Any, steps: int) -> Any:
        """A keyword that both schemas have."""
        choose: dict[str, Callable[[Any, Any], Any]] = {
            "minimum": max, "exclusiveMinimum": max, "minLength": max, "minItems": max, "minProperties": max,
            "maximum": min, "exclusiveMaximum": min, "maxLength": min, "maxItems": min, "maxProperties": min,
        }  # fmt: skip
        if one == other:
            return one
        try:
            if name in choose:
                return choose[name](one, other)
            if name == "multipleOf":
                return math.lcm(one, other)
        except TypeError:
            raise Unsupported(f"{name} must be a number") from None
        if name == "type":
            kinds = [_type_names(part) for part in (one, other)]
            kept = [kind for kind in kinds[0] if kind in kinds[1]]
            for mine, others in (kinds, reversed(kinds)):
                if "integer" in mine and "number" in others and "integer" not in kept:
                    kept.append("integer")
            return kept
        if name == "items":
            return self.both(one, other, steps - 1)
        raise Unsupported(f"the keyword {name!r:.40} is in several schemas at once, which is not supported")

    def _members(self, one: Mapping[str, Any], other: Mapping[str, Any], steps: int) -> dict[str, Any]:
        """The keywords of objects: a property of one schema is an additional property of the other."""
        if any("patternProperties" in part or "propertyNames" in part for part in (one, other)):
            raise Unsupported("patternProperties and propertyNames cannot be joined with another schema's properties")
        parts = [part.get("properties", {}) for part in (one, other)]
        rests = [part.get("additionalProperties", True) for part in (one, other)]
        needed = [part.get("required", []) for part in (one, other)]
        if not all(isinstance(part, Mapping) for part in parts) or not all(map(is_list_of_texts, needed)):
            raise Unsupported("properties must be objects, required lists of texts")
        required = list(dict.fromkeys([*needed[0], *needed[1]]))
        properties = {}
        for name in {**parts[0], **parts[1]}:
            found = self.both(parts[0].get(name, rests[0]), parts[1].get(name, rests[1]), steps - 1)
            if found is False and name in required:
                raise Unsupported(f"the required {name!r:.40} is not among the properties of all")
            if found is not False:
                properties[name] = found
        rest = self.both(rests[0], rests[1], steps - 1)
        return {"properties": properties, "required": required, "additionalProperties": rest}

    # -- whether two schemas can fit one value

    def exclude_each_other(self, one: Any, other: Any, steps: int = MOST_STEPS) -> bool:
        """Whether it is certain that no value fits both schemas: their types, their constants, or a required
        property's schemas differ.
        """
        self._visit()
        if one is False or other is False:
            return True
        if not steps or not isinstance(one, Mapping) or not isinstance(other, Mapping):
            return False
        for this, that in ((one, other), (other, one)):
            if "$ref" in this:
                try:
                    found = self.pointed(this["$ref"])
                except Unsupported:
                    return False
                return self.exclude_each_other(found, that, steps - 1)
            for name, every in (("anyOf", all), ("oneOf", all), ("allOf", any)):
                if isinstance(this.get(name), list):
                    return every(self.exclude_each_other(option, that, steps - 1) for option in this[name])
        values = [_values(part) for part in (one, other)]
        types = [_types(part) for part in (one, other)]
        if values[0] is not None and values[1] is not None:
            return not {key_of(value) for value in values[0]} & {key_of(value) for value in values[1]}
        for listed, kinds in ((values[0], types[1]), (values[1], types[0])):
            if listed is not None:
                return kinds is not None and not any(is_a(value, kind) for value in listed for kind in kinds)
        if types[0] is None or types[1] is None:
            return False
        if not types[0] & types[1]:
            return not (types[0] & NUMBERS and types[1] & NUMBERS)
        if types[0] & types[1] == {"object"}:
            needed = [part.get("required", []) for part in (one, other)]
            properties = [part.get("properties", {}) for part in (one, other)]
            if not all(map(is_list_of_texts, needed)) or not all(isinstance(part, Mapping) for part in properties):
                return False
            return any(
                name in needed[1] and all(name in part for part in properties)
                and self.exclude_each_other(properties[0][name], properties[1][name], steps - 1)
                for name in needed[0]
            )  # fmt: skip
        return False


# -- parts of a schema

VALUES = frozenset("const enum default example examples".split())  # keywords that have values, not schemas
NAMED = frozenset("properties patternProperties dependentSchemas $defs definitions".split())  # schemas by names


def moved(schema: Any, place: str) -> Any:
    """A whole schema as a part of another at `place` ("#/properties/a"): its references point to the same schemas."""
    if isinstance(schema, list):
        return [moved(part, place) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for name, given in schema.items():
        if name == "$ref" and isinstance(given, str) and (given == "#" or given.startswith("#/")):
            found[name] = place + given[1:]
        elif name in NAMED and isinstance(given, Mapping):
            found[name] = {key: moved(part, place) for key, part in given.items()}
        else:
            found[name] = given if name in VALUES else moved(given, place)
    return found


def _list(schema: Mapping[str, Any], name: str) -> list[Any]:
    found = schema[name]
    if not isinstance(found, list):
        raise Unsupported(f"{name} must be a list")
    return found


def is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _type_names(given: Any) -> list[str]:
    """What `type` says, as a list."""
    found = [given] if isinstance(given, str) else given
    if not is_list_of_texts(found):
        raise Unsupported(f"{given!r:.40} is not a type")
    return list(found)


def _of_values(values: list[Any], one: Mapping[str, Any], other: Mapping[str, Any]) -> Any:
    """Two lists of values, or one and a type."""
    plain = {name for part in (one, other) for name in part} - {"const", "enum", "type"}
    if plain:
        raise Unsupported(f"{min(plain)!r:.40} beside const and enum is not supported")
    lists = [
        [part["const"]] if name == "const" else _list(part, "enum")
        for part in values for name in ("const", "enum") if name in part
    ]  # fmt: skip
    known = [{key_of(value) for value in found} for found in lists]
    kept = [value for value in lists[0] if all(key_of(value) in keys for keys in known)]
    for part in (one, other):
        if "type" in part:
            kept = [value for value in kept if any(is_a(value, kind) for kind in _type_names(part["type"]))]
    return {"enum": kept} if kept else False


def key_of(value: Any) -> str:
    """Equal for equal JSON values: 1 and 1.0 are one number, 1 and true are not equal."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    """The only values that fit, where the schema lists them."""
    found = [schema["const"]] if "const" in schema else schema.get("enum")
    return found if isinstance(found, list) else None


def _types(schema: Mapping[str, Any]) -> set[str] | None:
    """The types that fit, where the schema says them; of an object without a type too."""
    given = schema.get("type", "object" if "properties" in schema else None)
    found = [given] if isinstance(given, str) else given
    return set(found) if is_list_of_texts(found) else None
