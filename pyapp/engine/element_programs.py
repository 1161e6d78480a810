"""Short programs for every element of a few tensors. One kernel runs them (compute_f32 of native/kernels.h).

A program is written as a function of tensors and numbers, in operators and in the methods abs, maximum, minimum, sign,
sqrt and where. The same function computes with tensors, where the kernel does not take them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .device import Device
from .dtype import float64, uint8
from .element_types import opcodes
from .native import SIGNATURES
from .storage import Storage
from .tensor import Tensor, make

_POINTERS, _DIMS, _ = (group.split() for group in SIGNATURES["compute_f32"].split("|"))
TENSORS = sum(name.startswith("x") for name in _POINTERS)
NUMBERS = sum(name.startswith("number") for name in _DIMS)
_TEMPORARIES = 8  # as native/compute.c has them


class _Value:
    """A stand-in for a tensor or number while a function is compiled: an input, or the result of an instruction."""

    def __init__(self, values: list[_Value], opcode: str = "", *operands: Any) -> None:
        self.values, self.opcode = values, opcode
        self.constant: float | None = None
        self.operands = [x if isinstance(x, _Value) else self._number(x) for x in operands]
        values.append(self)

    def _number(self, x: float) -> _Value:
        number = _Value(self.values)
        number.constant = float(x)
        return number

    def _with(self, opcode: str, *operands: Any) -> _Value:
        return _Value(self.values, opcode, *operands)

    def __add__(self, other: Any) -> _Value:
        return self._with("add", self, other)

    def __radd__(self, other: Any) -> _Value:
        return self._with("add", other, self)

    def __sub__(self, other: Any) -> _Value:
        return self._with("sub", self, other)

    def __rsub__(self, other: Any) -> _Value:
        return self._with("sub", other, self)

    def __mul__(self, other: Any) -> _Value:
        return self._with("mul", self, other)

    def __rmul__(self, other: Any) -> _Value:
        return self._with("mul", other, self)

    def __truediv__(self, other: Any) -> _Value:
        return self._with("div", self, other)

    def __rtruediv__(self, other: Any) -> _Value:
        return self._with("div", other, self)

    def __gt__(self, other: Any) -> _Value:
        return self._with("greater", self, other)

    def __lt__(self, other: Any) -> _Value:
        return self._with("greater", other, self)

    def __ne__(self, zero: object) -> Any:
        """self != 0, for `where` alone, which takes every number but 0 as true."""
        if zero != 0:
            raise ValueError("a program compares by != with 0 only")
        return self

    __hash__ = object.__hash__

    def abs(self) -> _Value:
        return self._with("abs", self)

    def maximum(self, other: Any) -> _Value:
        return self._with("maximum", self, other)

    def minimum(self, other: Any) -> _Value:
        return self._with("minimum", self, other)

    def sign(self) -> _Value:
        return self._with("sign", self)

    def sqrt(self) -> _Value:
        return self._with("sqrt", self)

    def where(self, condition: Any, other: Any) -> _Value:
        """self where the condition holds, else other."""
        return self._with("where", condition, self, other)


class HeldNumbers:
    """Numbers that kernels read from a device's memory (float64): those of a step in a Graph, which each replay writes
    anew. The memory stays where it is."""

    __slots__ = ("_on", "_packed", "values")

    def __init__(self, values: tuple[float, ...]) -> None:
        self.values = values
        self._on: dict[Device, Tensor] = {}
        self._packed = struct.Struct(f"{len(values)}d")

    def __len__(self) -> int:
        return len(self.values)

    def on(self, device: Device) -> Tensor:
        """The numbers (n,) in a device's memory."""
        found = self._on.get(device)
        if found is None:
            memory = Storage.outside_graphs(8 * len(self.values), device)
            found = self._on[device] = make(memory, (len(self.values),), (1,), float64)
            self._write(found)
        return found

    def _write(self, to: Tensor) -> None:
        to._storage.write(0, self._packed.pack(*self.values))

    def renew(self, values: tuple[float, ...]) -> None:
        """Other numbers, wherever they are held."""
        if values != self.values:
            self.values = values
            for tensor in self._on.values():
                self._write(tensor)

    def each(self, device: Device) -> tuple[Tensor, ...]:
        """Each number as a tensor (), for what is computed by ops."""
        held = self.on(device)
        return tuple(make(held._storage, (), (), float64, k) for k in range(len(self.values)))


Numbers: TypeAlias = tuple[float, ...] | HeldNumbers


class ElementProgram:
    """`function` takes so many tensors (at most six) and numbers, and returns the new value of each tensor; None for
    those that stay.

    ValueError where it needs more tensors, numbers or values at a time than a launch record holds, or where it uses a
    tensor after it has computed that tensor's new value.
    """

    def __init__(self, function: Callable[..., Sequence[Any]], tensors: int, numbers: int) -> None:
        self.function, self.tensors, self.numbers = function, tensors, numbers
        self._code: bytes | None = None
        self._on: dict[Device, Tensor] = {}
        self._constants: list[float] = []
        self._written: tuple[int, ...] = ()
        self._slots: tuple[tuple[float, ...] | None, tuple[int, ...]] = None, ()

    @property
    def code(self) -> bytes:
        """The instructions, as kernels.h describes them."""
        if self._code is None:
            self._code = self._compile()
        return self._code

    @property
    def written(self) -> tuple[int, ...]:
        """Which tensors the program writes."""
        return self._written if self._code is not None or self.code else ()

    def on(self, device: Device) -> Tensor:
        """The instructions in a device's memory."""
        found = self._on.get(device)
        if found is None:
            found = make(Storage.of_bytes(self.code, device), (len(self.code),), (1,), uint8)
            self._on[device] = found
        return found

    def slots(self, numbers: Numbers) -> tuple[int, ...]:
        """The numbers (0 for those that are held elsewhere) and the function's own constants, as the slots of a launch
        record have them."""
        if isinstance(numbers, HeldNumbers):
            numbers = (0.0,) * len(numbers)
        held, slots = self._slots
        if held != numbers:
            every = (*numbers, *self._constants)
            bits = struct.unpack(f"{len(every)}q", struct.pack(f"{len(every)}d", *every))
            slots = bits + (0,) * (NUMBERS - len(bits))
            self._slots = numbers, slots
        return slots

    def _compile(self) -> bytes:
        name = self.function.__name__
        inputs: list[_Value] = []
        for _ in range(self.tensors + self.numbers):
            _Value(inputs)
        values = list(inputs)
        for value in inputs:
            value.values = values
        given = self.function(*inputs)
        tensors, numbers = inputs[: self.tensors], inputs[self.tensors :]
        results = {id(value): k for k, value in enumerate(given) if value is not None}
        if len(given) != self.tensors or not results:
            raise ValueError(f"{name}: returns the new value of each of {self.tensors} tensors, or None")
        self._written = tuple(sorted(results.values()))
        steps = _fused([value for value in values if value.opcode], results)
        numbers += [value for value in values if value.constant is not None]
        self._constants = [value.constant for value in numbers if value.constant is not None]
        if len(tensors) > TENSORS or len(numbers) > NUMBERS:
            raise ValueError(f"{name}: takes up to {TENSORS} tensors and {NUMBERS} numbers")
        places = {id(value): k for k, value in enumerate(tensors)}
        places |= {id(value): TENSORS + _TEMPORARIES + k for k, value in enumerate(numbers)}
        last_use = {id(x): at for at, step in enumerate(steps) for x in step.operands}
        free, code = list(range(TENSORS, TENSORS + _TEMPORARIES)), bytearray()
        for at, step in enumerate(steps):
            operands = [places[id(x)] for x in step.operands]
            for x in {id(x): x for x in step.operands}.values():
                if x.opcode and last_use[id(x)] == at and id(x) not in results:
                    free.append(places[id(x)])
            if id(step) in results:
                place = results[id(step)]
                if last_use.get(id(tensors[place]), -1) > at:
                    raise ValueError(f"{name}: argument {place} is used after its new value")
            elif free:
                place = free.pop()
            else:
                raise ValueError(f"{name}: needs more than {_TEMPORARIES} values at a time")
            places[id(step)] = place
            code += bytes(
                [opcodes("compute_f32")[step.opcode].code, place, *operands, *operands[:1] * (3 - len(operands))]
            )
        if not results.keys() <= {id(step) for step in steps}:
            raise ValueError(f"{name}: every result must be computed, None stands for what stays")
        return bytes(code)


def _fused(steps: list[_Value], results: dict[int, int]) -> list[_Value]:
    """The instructions that results need, in order; a product that only a sum uses is one with the sum."""
    needed = set(results)
    uses: dict[int, int] = {}
    for step in reversed(steps):
        if id(step) in needed:
            for x in step.operands:
                needed.add(id(x))
                uses[id(x)] = uses.get(id(x), 0) + 1
    gone = set()
    for step in steps:
        if step.opcode == "add" and id(step) in needed:
            for k, x in enumerate(step.operands):
                if x.opcode == "mul" and uses[id(x)] == 1 and id(x) not in results:
                    step.opcode, step.operands = "multiply_add", [*x.operands, step.operands[1 - k]]
                    gone.add(id(x))
                    break
    return [step for step in steps if id(step) in needed and id(step) not in gone]
