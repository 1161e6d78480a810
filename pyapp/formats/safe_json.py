"""Parse JSON with a limit on its nesting: json.loads recurses, and in a browser that overflows the worker's stack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyapp.errors import FileFormatError

DEEPEST, PASSES = 200, 64
MOST_VALUES = 1 << 20
FEW = 4  # passes that clear most files
CHUNK = 1 << 16  # bytes that are split at a time
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def parse_json(text: str | bytes, **options: Any) -> Any:
    """As json.loads with these options. ValueError for text that is not JSON, and for JSON that is nested
    too deeply.
    """
    check_nesting(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def malformed(kind: str, error: Exception, where: str) -> FileFormatError:
    """The error for a JSON document of a kind: `error`, which was raised, says what is missing or has another form."""
    if isinstance(error, KeyError):
        what = f"it has no {error.args[0]!r:.60}"
    else:
        what = f"{error!s:.100}" if isinstance(error, ValueError) else f"a part has another form ({error!s:.100})"
    return FileFormatError(
        f"not a usable {kind}: {what}", where=where, hint="Take the file of the model's own repository again"
    )


def json_object(text: str) -> dict[str, Any]:
    """The JSON object in a text; an empty one if the text is not a JSON object. Numbers that JSON lacks may be objects,
    as transformers 5 writes them: {"__float__": "Infinity"}.
    """
    try:
        value = parse_json(text, object_hook=_number_or_object)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _number_or_object(value: dict[str, Any]) -> Any:
    if len(value) == 1 and value.get("__float__") in ("Infinity", "-Infinity", "NaN"):
        return float(value["__float__"])
    return value


def object_problem(text: str) -> str:
    """Why json_object gives no values of a text."""
    try:
        value = parse_json(text)
    except ValueError as error:
        return f"it is not valid JSON: {error!s:.200}"
    return "it is empty" if value == {} else "a JSON object is expected"


def check_values(value: object) -> None:
    """ValueError for lists and mappings that are nested deeper than DEEPEST, or are too many to write as JSON: such as
    those that contain themselves.
    """
    waiting, count = [(value, 0)], 0
    while waiting:
        found, depth = waiting.pop()
        inner = found.values() if isinstance(found, Mapping) else found if isinstance(found, list | tuple) else ()
        if inner and depth >= DEEPEST:
            raise ValueError("it is nested too deeply")
        count += len(inner)
        if count > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} values")
        waiting += [(part, depth + 1) for part in inner]


def check_nesting(data: bytes) -> None:
    """ValueError for JSON that is nested much deeper than DEEPEST. Anything else passes, valid or not."""
    # The quick count includes brackets inside strings. If it is too high, the count is repeated without strings.
    if _unmatched(data, FEW) <= DEEPEST or _unmatched(data := _outside_strings(data), PASSES) <= DEEPEST:
        return
    depth = 0
    for bracket in data.translate(None, delete=_NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")


def _outside_strings(data: bytes) -> bytes:
    """The data without the text between quotes. Takes no more memory than the data."""
    data = data.replace(rb"\\", b"").replace(rb"\"", b"")  # the remaining quotes begin or end a string
    inside, kept = 0, bytearray()
    for at in range(0, len(data), CHUNK):
        pieces = data[at : at + CHUNK].split(b'"')
        kept += b"".join(pieces[inside::2])
        inside ^= len(pieces) - 1 & 1
    return bytes(kept)


def _unmatched(data: bytes, passes: int) -> int:
    """The number of brackets left after removing matching pairs, from the inside out, `passes` times."""
    brackets = data.translate(None, delete=_NO_BRACKETS)
    for _ in range(passes):
        rest = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(rest) == len(brackets):
            break
        brackets = rest
    return len(brackets)
