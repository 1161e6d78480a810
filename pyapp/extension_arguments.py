"""The arguments of user-defined kernels: "tensors | sizes | floats", their C types, and what may be given for them."""

from __future__ import annotations

import ctypes
import operator
import re
from collections.abc import Sequence
from typing import Any

from .engine.dtype import DTYPES
from .engine.tensor import Tensor
from .engine.user_errors import describe

# The dtypes that a C type of a pointer's target can hold; `void` takes any.
_C_TYPES: dict[str, tuple[str, ...]] = {
    "float": ("float32",), "double": ("float64",), "_Float16": ("float16",), "__fp16": ("float16",),
    "__bf16": ("bfloat16",), "_Bool": ("bool",), "bool": ("bool",),
    "char": ("int8", "uint8", "bool"), "signed char": ("int8",), "int8_t": ("int8",),
    "unsigned char": ("uint8", "bool", "float8_e4m3fn", "float8_e5m2"),
    "uint8_t": ("uint8", "bool", "float8_e4m3fn", "float8_e5m2"),
    "short": ("int16",), "int16_t": ("int16",),
    "unsigned short": ("uint16", "float16", "bfloat16"), "uint16_t": ("uint16", "float16", "bfloat16"),
    "int": ("int32",), "int32_t": ("int32",), "unsigned": ("uint32",), "unsigned int": ("uint32",),
    "uint32_t": ("uint32",), "long long": ("int64",), "int64_t": ("int64",), "uint64_t": ("uint64",),
    "unsigned long long": ("uint64",),
}  # fmt: skip
_SIZE_TYPES = ("intptr_t", "ptrdiff_t", "ssize_t")
_SIZE_LIMIT = 1 << (8 * ctypes.sizeof(ctypes.c_ssize_t) - 1)


class Signature:
    """The names in a signature, and checks of what is given for them. `declared`: the C types by position, where the
    source is known."""

    def __init__(self, name: str, signature: str, declared: Sequence[str] | None = None) -> None:
        groups = [group.split() for group in signature.split("|")]
        if len(groups) != 3:
            raise ValueError(f"kernel {name}: the signature is 'tensors | sizes | floats', not {signature!r}")
        tensors, self.sizes, self.floats = groups
        self.name, self.signature = name, signature
        self.tensors = [text.partition(":")[0] for text in tensors]
        declared = _check_declaration(name, signature, [len(group) for group in groups], declared)
        self._dtypes = [
            _dtypes_of(name, text, declared[at] if declared else "float *") for at, text in enumerate(tensors)
        ]

    def parted(self, arguments: Sequence[Any]) -> tuple[Sequence[Any], list[int], list[float]]:
        """The tensors, sizes and floats. TypeError or ValueError for what does not fit."""
        count, sizes = len(self.tensors), len(self.sizes)
        if len(arguments) != count + sizes + len(self.floats):
            raise TypeError(f"kernel {self.name} takes ({self.signature}), got {len(arguments)} arguments")
        tensors = arguments[:count]
        for at, value in enumerate(tensors):
            self._check(at, value)
        return (
            tensors,
            [self._size(name, value) for name, value in zip(self.sizes, arguments[count:], strict=False)],
            [self._float(name, value) for name, value in zip(self.floats, arguments[count + sizes :], strict=True)],
        )

    def _check(self, at: int, value: Any) -> None:
        name, dtypes = self.tensors[at], self._dtypes[at]
        if value is None and name.endswith("?"):
            return
        if not isinstance(value, Tensor):
            raise TypeError(f"kernel {self.name}: {name} must be a tensor, got {describe(value)}")
        if dtypes is not None and value.dtype.name not in dtypes:
            raise TypeError(f"kernel {self.name}: {name} must be {' or '.join(dtypes)}, got {describe(value)}")
        if value.dtype.is_quantized:
            raise TypeError(f"kernel {self.name}: {name} is {describe(value)}: dequantize it first")
        if not value.is_contiguous():
            raise ValueError(
                f"kernel {self.name}: {name}, {describe(value)} with strides {value.strides}, is not dense; "
                "call contiguous() first"
            )

    def _size(self, name: str, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"kernel {self.name}: {name} must be a whole number, got {describe(value)}") from None
        if not -_SIZE_LIMIT <= number < _SIZE_LIMIT:
            raise ValueError(f"kernel {self.name}: {name} is {number:,}, which an intptr_t cannot hold")
        return number

    def _float(self, name: str, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"kernel {self.name}: {name} must be a number, got {describe(value)}") from None


def _dtypes_of(kernel: str, text: str, declared: str) -> tuple[str, ...] | None:
    """The dtypes that a tensor of the signature may have; None for all."""
    name, colon, wanted = text.partition(":")
    if colon:
        if wanted == "any":
            return None
        if wanted not in DTYPES:
            raise ValueError(f"kernel {kernel}: {name} has the unknown dtype {wanted!r}")
        return (wanted,)
    target = declared.removesuffix("*").strip()
    if target == "void":
        return None
    if target not in _C_TYPES:
        raise ValueError(
            f"kernel {kernel}: {name} points to {target!r}, whose dtype is not known: write it as '{name}:float32', "
            f"'{name}:int32' … or '{name}:any' in the signature"
        )
    return _C_TYPES[target]


def _check_declaration(
    name: str, signature: str, counts: Sequence[int], declared: Sequence[str] | None
) -> Sequence[str] | None:
    """ValueError if the C function does not match the signature."""
    if declared is None:
        return None
    tensors, sizes, _ = counts
    for at, kind in enumerate(declared):
        group = "a tensor" if at < tensors else "a size" if at < tensors + sizes else "a float"
        fits = {"a tensor": kind.endswith("*"), "a size": kind in _SIZE_TYPES, "a float": kind == "float"}[group]
        if at < sum(counts) and not fits:
            expected = {"a tensor": "a pointer", "a size": "intptr_t", "a float": "float"}[group]
            raise ValueError(
                f"kernel {name}: by the signature {signature!r}, argument {at + 1} is {group}, but the C function "
                f"takes {kind!r} there, not {expected}"
            )
    if len(declared) != sum(counts):
        raise ValueError(
            f"kernel {name}: the C function takes {len(declared)} arguments, the signature {signature!r} names "
            f"{sum(counts)}"
        )
    return declared


def c_type(argument: str) -> str:
    """The type of an argument without its name and qualifiers: "const float *restrict x" is "float *"."""
    words = re.findall(r"\w+|\*|\[", argument)
    pointers = sum(word in ("*", "[") for word in words)
    kept = [w for w in words if w.isidentifier() and w not in ("const", "restrict", "__restrict", "volatile", "static")]
    known = {word for names in (_C_TYPES, _SIZE_TYPES) for name in names for word in name.split()} | {"void"}
    if len(kept) > 1 and kept[-1] not in known:
        kept.pop()  # the argument's name
    return " ".join(kept) + " *" * pointers
