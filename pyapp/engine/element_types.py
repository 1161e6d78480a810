"""Element types and operation codes as records hold them (the ELEMENT and OPCODE lines of native/kernels.h)."""

from __future__ import annotations

import functools
import struct
from math import inf
from typing import Any, NamedTuple

from . import dtype as _dtype
from .dtype import DType
from .native import ELEMENTS, OPCODES

_NUMBER, _BITS = struct.Struct("d"), struct.Struct("q")
CODES = {_dtype.DTYPES[name]: code for code, name in enumerate(ELEMENTS)}
_FLOATS = (_dtype.float16, _dtype.bfloat16, _dtype.float32, _dtype.float64)
_INTEGERS = (_dtype.uint8, _dtype.int8, _dtype.int16, _dtype.int32, _dtype.int64)
_GROUPS = {"floats": _FLOATS, "integers": _INTEGERS, "every": tuple(CODES)}


class Opcode(NamedTuple):
    """One operation of a kernel: its code, the dtypes it takes, and the rule for the dtype of its result."""

    code: int
    types: frozenset[DType]
    result: str


@functools.cache
def opcodes(kernel: str) -> dict[str, Opcode]:
    """The operations of a kernel by name."""
    found = {}
    for code, (name, types, result) in enumerate(OPCODES[kernel]):
        taken = [d for word in types.split() for d in _GROUPS.get(word) or (_dtype.DTYPES[word],)]
        found[name] = Opcode(code, frozenset(taken), result)
    return found


def number_slot(value: Any, dtype: DType) -> int | None:
    """The value of a slot named `number`: the bits of a float64 for float types, else the integer; None where the dtype
    cannot hold it."""
    if dtype.is_floating_point:
        bits: int = _BITS.unpack(_NUMBER.pack(value))[0]
        return bits
    if dtype is _dtype.bool_:
        return int(value != 0)
    if isinstance(value, float) and not value.is_integer():
        return None
    number = int(value)
    low, high = _range_of(dtype)
    return number if low <= number < high else None


@functools.cache
def _range_of(dtype: DType) -> tuple[int, int]:
    """The smallest whole number of a dtype, and what follows its largest."""
    size = 8 * dtype.itemsize
    return (0, 2**size) if dtype.name[0] == "u" else (-(2 ** (size - 1)), 2 ** (size - 1))


# Ops that round a number beside tensors of 16 bits to their dtype, as torch's do on a CPU; others compute in float32.
ROUNDS_NUMBERS = frozenset("add sub pow fmod remainder eq ne lt le gt ge".split())


@functools.lru_cache(1024)
def rounded(number: float, dtype: DType) -> float:
    """A number in float16 or bfloat16."""
    try:
        if dtype is _dtype.float16:
            found: float = struct.unpack("e", struct.pack("e", number))[0]
        else:
            bits = element_bits(number, dtype)
            assert bits is not None
            found = struct.unpack("f", struct.pack("I", bits << 16))[0]
    except OverflowError:
        return inf if number > 0 else -inf
    return found


def element_bits(value: Any, dtype: DType) -> int | None:
    """The bytes of one element as a signed integer of 64 bits; None where the dtype cannot hold it."""
    if dtype is _dtype.bfloat16:
        bits = struct.unpack("I", struct.pack("f", value))[0]
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 if value == value else 0x7FC0
    try:
        if dtype.is_floating_point and not dtype.is_bits:
            data = struct.pack({2: "e", 4: "f", 8: "d"}[dtype.itemsize], value)
        elif dtype.is_bits:
            return None
        else:
            number = number_slot(value, dtype)
            if number is None:
                return None
            data = struct.pack(dtype.format, number)
    except OverflowError:
        return None
    return int.from_bytes(data.ljust(8, b"\0"), "little", signed=True)


def padded(values: tuple[int, ...], rank: int = 6) -> tuple[int, ...]:
    """Sizes or strides, with zeros after up to `rank`."""
    return values + (0,) * (rank - len(values))
