"""The fields of a JSON object that a client sent: each is checked, and the wrong one is named."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pyapp.formats.safe_json import parse_json

from .problems import Problem

T = TypeVar("T")
KINDS = {
    str: "a string", bool: "true or false", int: "a number", float: "a number", dict: "an object", list: "an array",
    type(None): "null",
}  # fmt: skip


def parse_object(data: bytes) -> dict[str, Any]:
    """The object of a request's body. Problem for anything else."""
    try:
        text = data.decode("utf-8-sig")  # files of Windows begin with a mark of their order of bytes
    except UnicodeDecodeError as error:
        raise Problem(f"the body is not UTF-8: byte {error.start} is wrong", code="invalid_utf8") from None
    try:
        found = parse_json(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        what = "a number has too many digits" if "int_max_str_digits" in str(error) else f"{error!s:.200}"
        raise Problem(f"the body is not valid JSON: {what}", code="invalid_json") from None
    if not isinstance(found, dict):
        raise Problem(f"the body must be an object, not {kind_of(found)}", code="invalid_json")
    return found


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def kind_of(value: Any) -> str:
    return KINDS.get(type(value), type(value).__name__)


def between(low: float, high: float) -> str:
    """The range of a number, in words."""
    if math.isinf(low) or math.isinf(high):
        return f"at most {high:,}" if math.isinf(low) else f"at least {low:,}"
    return f"from {low:,} to {high:,}"


class Fields:
    """The fields of an object. Every method takes a field's name and returns its value, or `default` where the field
    is missing or null; `end` refuses fields that nobody asked for. `path` is the name of the object in errors.
    """

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values, self._path = dict(values), path
        self._left = set(values)

    def name(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def wrong(self, name: str, what: str, code: str | None = None) -> Problem:
        return Problem(f"{self.name(name)}: {what}", param=self.name(name), code=code or "invalid_value")

    def given(self, name: str) -> bool:
        return self._values.get(name) is not None

    def has(self, name: str) -> bool:
        """Whether the field is there; it may be null."""
        return name in self._values

    def put(self, name: str, value: Any) -> None:
        """Gives a field another value, as if the client had sent it."""
        self._values[name] = value

    def any(self, name: str, default: Any = None) -> Any:
        self._left.discard(name)
        value = self._values.get(name)
        return default if value is None else value

    def _of(self, name: str, kinds: tuple[type, ...], wanted: str, default: Any) -> Any:
        value = self.any(name)
        if value is None:
            return default
        if type(value) not in kinds:
            found = f"{value!r:.40}" if type(value) is float else kind_of(value)
            raise self.wrong(name, f"must be {wanted}, not {found}", "invalid_type")
        return value

    def text(self, name: str, default: str | None = None, choices: Sequence[str] = ()) -> Any:
        value = self._of(name, (str,), "a string", default)
        if choices and value is not None and value not in choices:
            raise self.wrong(name, f"must be one of {', '.join(choices)}, not {value!r:.60}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self._of(name, (bool,), "true or false", default))

    def number(self, name: str, default: float | None = None, low: float = -math.inf, high: float = math.inf) -> Any:
        value = self._of(name, (int, float), "a number", default)
        if value is not None and not low <= value <= high:
            raise self.wrong(name, f"must be {between(low, high)}, not {value!r:.40}")
        return value

    def whole(self, name: str, default: int | None = None, low: float = -math.inf, high: float = math.inf) -> Any:
        value = self._of(name, (int,), "a whole number", default)
        if value is not None and not low <= value <= high:
            raise self.wrong(name, f"must be {between(low, high)}, not {value!r:.40}")
        return value

    def object(self, name: str) -> Fields | None:
        value = self._of(name, (dict,), "an object", None)
        return None if value is None else Fields(value, self.name(name))

    @property
    def parameters(self) -> Fields:
        """The object `parameters` of Hugging Face's interface; empty where there is none."""
        return self.object("parameters") or Fields({}, self.name("parameters"))

    def mapping(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._of(name, (dict,), "an object", None)
        return found

    def array(self, name: str, default: Any = None) -> Any:
        return self._of(name, (list,), "an array", default)

    def needed(self, name: str, value: T | None) -> T:
        """The value of a field. Problem where it is missing or null."""
        if value is None:
            raise self.missing(name)
        return value

    def needed_text(self, name: str, choices: Sequence[str] = ()) -> str:
        """As text. Problem without it."""
        return self.needed(name, self.text(name, choices=choices))

    def needed_object(self, name: str) -> Fields:
        """As object. Problem without it."""
        return self.needed(name, self.object(name))

    def needed_texts(self, name: str, most: int) -> list[str]:
        """As texts. Problem without them."""
        return self.needed(name, self.texts(name, most))

    def texts(self, name: str, most: int) -> list[str] | None:
        """A string or an array of strings, at most `most`."""
        value = self.any(name)
        if value is None:
            return None
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise self.wrong(name, "must be a string or an array of strings", "invalid_type")
        if len(found) > most:
            raise self.wrong(name, f"has {len(found):,} entries; {most:,} are allowed")
        return found

    def missing(self, name: str) -> Problem:
        full = self.name(name)
        return Problem(f"{full}: is missing", param=full, code="missing_required_parameter")

    def end(self, ignored: Iterable[str] = ()) -> None:
        """Problem for a field that was not asked for, is not among those without effect here, and is not null."""
        unknown = sorted(name for name in self._left - set(ignored) if self._values[name] is not None)
        if unknown:
            name = self.name(unknown[0])
            raise Problem(f"{name:.80}: there is no such field", param=name[:80], code="unknown_parameter")


def decoded(coded: str, fields: Fields, name: str) -> bytes:
    """The bytes of a file in base64, or in a data: URL of it, which the field `name` gave."""
    if coded[:5].lower() == "data:":
        coded = coded.partition(",")[2]
    try:
        return base64.b64decode(coded, validate=True)
    except ValueError:
        raise fields.wrong(name, "must be the bytes of a file in base64") from None
