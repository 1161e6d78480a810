"""JSON Schemas (draft 2020-12) by themselves: where a reference points, the schema of the values that fit two schemas,
and whether two schemas can fit one value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

ANNOTATIONS = frozenset(
    "title description default examples $schema $id $comment $defs definitions deprecated readOnly writeOnly".split()
)
NUMBERS = frozenset({"integer", "number"})
MOST_STEPS = 16  # references and alternatives in one another, until a comparison gives up


class Unsupported(ValueError):
    """What these functions cannot do, in words."""


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


def pointed(root: Any, target: Any) -> Any:
    """What the reference `target` means in the schema `root`."""
    if not isinstance(target, str) or not target.startswith("#"):
        raise Unsupported(f"{target!r:.60} does not point into this schema")
    found = root
    for part in target[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, Mapping) and part in found:
            found = found[part]
        else:
            raise Unsupported(f"{target!r:.60} is missing")
    return found


# -- the values that fit two schemas


def both(root: Any, one: Any, other: Any, steps: int = MOST_STEPS) -> Any:
    """The schema of the values that fit two schemas. Unsupported for keywords that cannot be joined."""
    for this, that in ((one, other), (other, one)):
        if this is True or this == {}:
            return that
        if this is False:
            return False
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        raise Unsupported(f"{next(x for x in (one, other) if not isinstance(x, Mapping))!r:.40} is no schema")
    if not steps:
        raise Unsupported("references that contain themselves are not supported here")
    one, other = ({name: given for name, given in part.items() if name not in ANNOTATIONS} for part in (one, other))
    for this, that in ((one, other), (other, one)):
        if "$ref" in this:
            rest = {name: given for name, given in this.items() if name != "$ref"}
            return both(root, both(root, pointed(root, this["$ref"]), rest, steps - 1), that, steps - 1)
        if "allOf" in this:
            found: Any = {name: given for name, given in this.items() if name != "allOf"}
            for option in [*this["allOf"], that] if isinstance(this["allOf"], list) else []:
                found = both(root, found, option, steps - 1)
            return found
        for name in ("anyOf", "oneOf"):
            if name in this and not (that.keys() <= {"type"}):
                options = this[name]
                if this.keys() != {name} or not isinstance(options, list):
                    raise Unsupported(f"{name!r} with other keywords is not supported here")
                return {name: [both(root, option, that, steps - 1) for option in options]}
            if name in this:
                return {name: [both(root, option, that, steps - 1) for option in this[name]]}
    if values := [part for part in (one, other) if {"const", "enum"} & part.keys()]:
        return _of_values(values, one, other)
    found = {}
    for name in {**one, **other}:
        if name in ("properties", "required", "additionalProperties"):
            continue
        if name not in one or name not in other:
            found[name] = one[name] if name in one else other[name]
        else:
            found[name] = _joined(root, name, one[name], other[name], steps)
    if found.get("type") == []:
        return False
    if {"properties", "required", "additionalProperties"} & {*one, *other}:
        found |= _members(root, one, other, steps)
    return found


def _of_values(values: list[Any], one: Mapping[str, Any], other: Mapping[str, Any]) -> Any:
    """Two lists of values, or one and a type."""
    plain = {name for part in (one, other) for name in part} - {"const", "enum", "type"}
    if plain:
        raise Unsupported(f"{min(plain)!r:.40} beside const and enum is not supported")
    lists = [[part["const"]] if "const" in part else part["enum"] for part in values]
    if not all(isinstance(found, list) for found in lists):
        raise Unsupported("enum must be a list")
    kept = [value for value in lists[0] if all(_key(value) in map(_key, found) for found in lists)]
    for part in (one, other):
        if "type" in part:
            types = [part["type"]] if isinstance(part["type"], str) else part["type"]
            kept = [value for value in kept if any(is_a(value, kind) for kind in types)]
    return {"enum": kept} if kept else False


def _key(value: Any) -> str:
    """Equal for equal JSON values: 1 and 1.0 are one number, 1 and true are not equal."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def _joined(root: Any, name: str, one: Any, other: Any, steps: int) -> Any:
    """A keyword that both schemas have."""
    choose: dict[str, Callable[[Any, Any], Any]] = {
        "minimum": max, "exclusiveMinimum": max, "minLength": max, "minItems": max,
        "maximum": min, "exclusiveMaximum": min, "maxLength": min, "maxItems": min,
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
        kinds = [[part] if isinstance(part, str) else part for part in (one, other)]
        kept = [kind for kind in kinds[0] if kind in kinds[1]]
        if any("number" in part for part in kinds) and "integer" in {*kinds[0], *kinds[1]} and "integer" not in kept:
            kept.append("integer")
        return kept
    if name == "items":
        return both(root, one, other, steps - 1)
    raise Unsupported(f"the keyword {name!r:.40} is in several schemas at once, which is not supported")


def _members(root: Any, one: Mapping[str, Any], other: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """The keywords of objects: a property of one schema is an additional property of the other."""
    parts = [part.get("properties", {}) for part in (one, other)]
    rests = [part.get("additionalProperties", True) for part in (one, other)]
    needed = [part.get("required", []) for part in (one, other)]
    if not all(isinstance(part, Mapping) for part in parts) or not all(isinstance(part, list) for part in needed):
        raise Unsupported("properties must be objects, required lists")
    required = list(dict.fromkeys([*needed[0], *needed[1]]))
    properties = {}
    for name in {**parts[0], **parts[1]}:
        found = both(root, parts[0].get(name, rests[0]), parts[1].get(name, rests[1]), steps - 1)
        if found is False and name in required:
            raise Unsupported(f"the required {name!r:.40} is not among the properties of all")
        if found is not False:
            properties[name] = found
    rest = both(root, rests[0], rests[1], steps - 1)
    return {"properties": properties, "required": required, "additionalProperties": rest}


# -- whether two schemas can fit one value


def exclude_each_other(root: Any, one: Any, other: Any, steps: int = MOST_STEPS) -> bool:
    """Whether it is certain that no value fits both schemas: their types, their constants, or a required property's
    schemas differ.
    """
    if one is False or other is False:
        return True
    if not steps or not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return False
    for this, that in ((one, other), (other, one)):
        if "$ref" in this:
            try:
                found = pointed(root, this["$ref"])
            except Unsupported:
                return False
            return exclude_each_other(root, found, that, steps - 1)
        for name, every in (("anyOf", all), ("oneOf", all), ("allOf", any)):
            if isinstance(this.get(name), list):
                return every(exclude_each_other(root, option, that, steps - 1) for option in this[name])
    values = [_values(part) for part in (one, other)]
    types = [_types(part) for part in (one, other)]
    if values[0] is not None and values[1] is not None:
        return not {_key(value) for value in values[0]} & {_key(value) for value in values[1]}
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
        return any(
            isinstance(name, str) and name in needed[1] and all(name in part for part in properties)
            and exclude_each_other(root, properties[0][name], properties[1][name], steps - 1)
            for name in needed[0]
        )  # fmt: skip
    return False


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    """The only values that fit, where the schema lists them."""
    found = [schema["const"]] if "const" in schema else schema.get("enum")
    return found if isinstance(found, list) else None


def _types(schema: Mapping[str, Any]) -> set[str] | None:
    """The types that fit, where the schema says them; of an object without a type too."""
    given = schema.get("type", "object" if "properties" in schema else None)
    found = [given] if isinstance(given, str) else given
    return set(found) if isinstance(found, list) and all(isinstance(kind, str) for kind in found) else None
