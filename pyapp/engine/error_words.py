"""The words of errors: what Python and NumPy say of arguments in the words of this package, and calls as source text.

user_errors.py imports this file when it words an error: the page fetches it with its later parts.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable
from typing import Any

from .device import Device
from .dtype import DType
from .tensor import Tensor

# What NumPy says of arrays that no memory holds.
TOO_LARGE = re.compile(r"^(?:array is too big|Maximum allowed (?:dimension|size)|Unable to allocate)")
# "softmax: ", of an operation inside; "softmax() ", of Python where arguments do not fit; a function inside of another.
PREFIX = re.compile(r"^(?:[A-Za-z_][\w.]*(?:\(\))?: |(?:[\w.]|<\w+>)+\(\) )")
_NO_TENSOR = re.compile(r"^'(\w+)' object has no attribute '\w+'$")
# What Python and NumPy say of arguments that are of another kind, in the words of this package.
_PLAIN = (
    (r"^'(\w+)' object is not iterable$", r"takes a list or tuple where it got \1"),
    (r"^'(\w+)' object is not subscriptable$", r"takes a list or tuple where it got \1"),
    (r"^'(\w+)' object cannot be interpreted as an integer$", r"takes a whole number where it got \1"),
    (r"^invalid literal for int\(\) with base 10: (.*)$", r"takes a whole number where it got \1"),
    (r"^(?:argument )?must be .*real number, not '?(\w+)'?$", r"takes a number where it got \1"),
    (r"^could not convert string to float: (.*)$", r"takes a number where it got \1"),
    (r"^'\W+' not supported between instances of '(\w+)' and '(\w+)'$", r"cannot compare \1 with \2"),
    (r"^unsupported operand type\(s\) for .+: '(\w+)' and '(\w+)'$", r"cannot combine \1 with \2"),
    (r"^unhashable type: '(\w+)'$", r"does not take a \1 there"),
    (r"^(?:tuple|list) index out of range$", "there is no such dim, or too few dims or values"),
    (r"^(?:not enough|too many) values to unpack.*$", "there are too few or too many dims or values"),
    (r"^Python int too large to convert to C \w+$", "a number does not fit into 64 bits"),
    (r"^Python integer (-?\d+) out of bounds for (\w+)$", r"\1 does not fit into \2"),
    (r"^(?:float |integer )?(?:division|modulo|division or modulo) by zero$", "divides by zero"),
    (r"^The truth value of an (?:empty )?array .*$", "takes one number where it got several, or none"),
    (r"^shape mismatch: value array of shape (\(.*\)) could not be broadcast to indexing result of shape (\(.*?\))",
     r"values of shape \1 do not fit places of shape \2"),
    (r"^ufunc '\w+' (?:not supported|did not contain) .*$|^The DType .* could not be promoted .*$",
     "does not exist for these dtypes"),
    (r"^axis -?\d+ is out of bounds for array of dimension (\d+)$", r"there is no such dim: there are \1"),
    (r"^cannot reshape array of size (\d+) into shape (.*)$", r"\1 elements do not fit the shape \2"),
    (r"^index (-?\d+) is out of bounds for axis (\d+) with size (\d+)",
     r"index \1 is out of bounds for dimension \2 with size \3"),
    (r"^arrays used as indices must be of integer \(or boolean\) type",
     "tensors used as indices must be of integers or bools"),
    (r"^boolean index did not match indexed array along axis (\d+); size of axis is (\d+) but size of corresponding "
     r"boolean axis is (\d+)",
     r"the shape of the mask does not match the shape of the indexed tensor: at dim \1 the mask has \3 elements, the "
     r"tensor \2"),
    (r"^array is not broadcastable to correct shape$", "the shapes do not fit together"),
    (r"^object of too small depth for desired array$", "takes tensors with at least one dim"),
)  # fmt: skip
_LONGEST_CALL = 400


def plain(error: Exception) -> str:
    """What an error of Python's or NumPy's says, in the words of this package."""
    if isinstance(error, KeyError):
        return f"there is no {error}"
    stranger = _NO_TENSOR.match(str(error))
    if stranger and stranger[1] != "Tensor":
        return f"takes a tensor where it got a {stranger[1]}"
    text = PREFIX.sub("", str(error), count=1)
    for told, words in _PLAIN:
        text = re.sub(told, words, text)
    return text or type(error).__name__


def described_call(name: str, args: Iterable[Any], kwargs: dict[str, Any], ranges: bool = False) -> str:
    """The call as source text, with tensors as their dtype, shape and device; with `ranges` the least and the greatest
    number too of those that may be indices."""

    def told(value: Any) -> str:
        text = _brief(value)
        if (
            not ranges
            or not isinstance(value, Tensor)
            or not value.numel()
            or value.device.type != "cpu"
            or not value.dense
        ):
            return text
        return text if value.dtype.category != 1 else f"{text} from {value.min().item()} to {value.max().item()}"

    given = [told(value) for value in args] + [f"{key}={told(value)}" for key, value in kwargs.items()]
    text = ", ".join(given)
    return f"{name}({text if len(text) <= _LONGEST_CALL else text[:_LONGEST_CALL] + ' ...'})"


def described(value: object) -> str:
    """An argument in an error message: a tensor's dtype, shape and device, anything else itself."""
    if isinstance(value, Tensor):
        kind = "" if value.dense else "distributed " if hasattr(type(value), "placements") else "sparse "
        return f"{kind}{value.dtype.name}{list(value.shape)} on {value.device}"
    try:
        return repr(value)
    except RecursionError:  # lists in lists
        return reprlib.repr(value)


def _brief(value: Any, depth: int = 0) -> str:
    if isinstance(value, Tensor):
        return described(value)
    if isinstance(value, (list, tuple)) and depth < 3:
        shown = [_brief(part, depth + 1) for part in value[:6]] + ["..."] * (len(value) > 6)
        return ("[{}]" if isinstance(value, list) else "({})" if len(value) != 1 else "({},)").format(", ".join(shown))
    if isinstance(value, (str, int, float, bool, type(None), slice)) or depth >= 3:
        text = (
            (reprlib.repr(value) if isinstance(value, (list, tuple)) else repr(value))[:80]
            if not isinstance(value, str)
            else repr(value[:60])
        )
        return text
    if isinstance(value, (DType, Device)):
        return str(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} {value.dtype}{list(value.shape)}"
    return getattr(value, "__name__", None) or f"<{type(value).__name__}>"
