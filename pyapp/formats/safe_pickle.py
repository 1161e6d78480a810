"""A pickle interpreter that can build plain data and nothing else.

It implements the opcodes that PyTorch's files need (protocols 2 to 5) and calls only the Builders and Classes in
`known`. Any other global is refused by name before it can be used. Python's `pickle` is not used.

Source of the format: Lib/pickletools.py of CPython (the opcodes' documentation).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from pyapp.errors import FileFormatError

from .source import ByteSource

OPERATIONS_LIMIT = 4_000_000  # a tensor takes about 30
# A pickle can be packed a thousand times smaller in its file, in which a tensor has 200 bytes: of small files fewer.
OPERATIONS_OF_ANY, OPERATIONS_PER_BYTE = 1 << 18, 16
MARKS_LIMIT = 1000  # of containers inside one another
# What calls may be given, in bytes and elements: a pickle that recalls a value could give the same one to each of them.
GIVEN_TO_ANY, GIVEN_PER_BYTE = 1 << 22, 8
_SIZED = (str, bytes, bytearray, list, tuple, dict, set)
TEXT_LIMIT = 1 << 26  # bytes of one string: NumPy arrays are stored in strings
INTEGER_BYTES = 16
DAMAGED = "The file is damaged: download or copy it again"
HINT = (
    "Load it where you trust it, and save only its state_dict, best as safetensors; `pyapp inspect` shows what it has"
)


class Builder:
    """An entry of `known` that a pickle may call with arguments."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call


class Class(Builder):
    """An entry of `known` of which a pickle may make objects, without arguments."""

    __slots__ = ()


class Stateful:
    """An object of a Builder that accepts a state afterwards; ValueError for a state that does not fit."""

    def set_state(self, state: Any) -> None:
        raise NotImplementedError


class Cursor:
    """Reads forward from byte `at` of a source, never past `end`, in windows of 64 KiB."""

    WINDOW = 1 << 16

    def __init__(self, source: ByteSource, at: int, end: int) -> None:
        self.source = source
        self.end = end
        self._begin = at  # of the window
        self._window = b""
        self._next = 0  # in the window

    @property
    def at(self) -> int:
        return self._begin + self._next

    def take(self, count: int) -> bytes:
        stop = self._next + count
        if stop > len(self._window):
            at = self.at
            if at + count > self.end:
                refuse(f"the pickle is truncated: {count:,} bytes are needed at byte {at:,}", self.source, DAMAGED)
            self._window = bytes(self.source.read(at, min(max(count, self.WINDOW), self.end - at)))
            self._begin, self._next, stop = at, 0, count
        piece = self._window[self._next : stop]
        self._next = stop
        return piece

    def line(self) -> str:
        """Text up to a line feed, which is dropped."""
        text = bytearray()
        while (byte := self.take(1)) != b"\n":
            text += byte
            if len(text) > 1000:
                refuse("the pickle has a name of more than 1,000 bytes", self.source)
        return text.decode("utf-8", "replace")


def refuse(what: str, source: ByteSource, hint: str = HINT) -> NoReturn:
    """Raises FileFormatError."""
    raise FileFormatError(what, where=source.name, hint=hint)


def hashes_well(value: Any) -> bool:
    """Whether the value's hash is quick to compute and not one that a file can give to many values: those of complex
    numbers and of integers beyond 64 bits would make a set of them take the square of its size.
    """
    return value is None or type(value) in (str, bool, bytes, float) or (type(value) is int and abs(value) < 1 << 63)


class Machine:
    """Interprets one pickle. `known` maps "module.name" to plain values and Builders; `persistent` converts a
    persistent id (a tuple) to a value. `versions` gets, by the id of a state_dict, this dict and its `_metadata`: the
    versions of the modules' states. `file_bytes`: the size of the file that the pickle is in.
    """

    def __init__(
        self, cursor: Cursor, known: Mapping[str, Any], persistent: Callable[[Any], Any],
        versions: dict[int, tuple[Any, Any]] | None = None, file_bytes: int = 0,
    ) -> None:  # fmt: skip
        self.operations = min(OPERATIONS_LIMIT, OPERATIONS_OF_ANY + OPERATIONS_PER_BYTE * file_bytes)
        self.versions = {} if versions is None else versions
        self.given = 0  # to calls, in bytes and elements
        self.cursor = cursor
        self.known = known
        self.persistent = persistent
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []  # the stacks below each mark
        self.memo: dict[int, Any] = {}
        self._made: list[Any] = []  # lists and dicts, and tuples of tuples
        self._heights: dict[int, int] = {}  # of tuples of tuples, by their identity

    def run(self) -> Any:
        """The value. FileFormatError for damaged, unknown or too large content."""
        try:
            value = self._value()
            if _nests_deeply(value):
                self.refuse("has containers that are nested too deeply")
        except FileFormatError:
            for container in self._made:  # Python in a browser ends where it frees containers that are nested deeply
                if type(container) is not tuple:
                    container.clear()
            raise
        return value

    def _value(self) -> Any:
        for _ in range(self.operations):
            code = self.cursor.take(1)
            if code == b".":
                value = self.pop()
                if self.stack or self.marked:
                    self.refuse("leaves values behind")
                return value
            handler = _HANDLERS.get(code)
            if handler is None:
                self.refuse(f"uses the opcode {code!r}, which no file of tensors needs")
            handler(self)
        self.refuse(f"has more than {self.operations:,} operations, which is too much for its file")

    def refuse(self, what: str) -> NoReturn:
        refuse(f"the pickle {what} (before byte {self.cursor.at:,})", self.cursor.source)

    def pop(self) -> Any:
        if not self.stack:
            self.refuse("takes a value where there is none")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            self.refuse(f"needs a {kind.__name__} where there is none")
        return self.stack[-1]

    def made(self, container: Any) -> Any:
        """Notes a new container. FileFormatError for tuples that are nested too deeply."""
        if type(container) is tuple:
            inner = [self._heights.get(id(part), 0) for part in container if type(part) is tuple]
            if not inner:
                return container
            height = self._heights[id(container)] = 1 + max(inner)
            if height > MARKS_LIMIT:
                self.refuse("has containers that are nested too deeply")
        self._made.append(container)
        return container

    def pop_mark(self) -> list[Any]:
        if not self.marked:
            self.refuse("takes values down to a mark where there is none")
        items, self.stack = self.stack, self.marked.pop()
        return items

    def unsigned(self, count: int) -> int:
        return int.from_bytes(self.cursor.take(count), "little")

    def sized(self, count: int) -> bytes:
        """Bytes after their length, which has `count` bytes."""
        length = self.unsigned(count)
        if length > TEXT_LIMIT:
            self.refuse(f"has a string of {length:,} bytes")
        return self.cursor.take(length)

    def text(self, count: int) -> str:
        try:
            return self.sized(count).decode("utf-8")
        except UnicodeDecodeError:
            self.refuse("has a string that is not UTF-8")

    def integer(self, count: int) -> int:
        length = self.unsigned(count)
        if length > INTEGER_BYTES:
            self.refuse(f"has an integer of {length:,} bytes")
        return int.from_bytes(self.cursor.take(length), "little", signed=True)

    def find(self, module: Any, name: Any) -> Any:
        if type(module) is not str or type(name) is not str:  # never written out: a list may hold itself many times
            self.refuse("asks for something whose name is not a text")
        full = f"{module[:200]}.{name[:200]}"[:200]
        if full not in self.known:
            self.refuse(f"asks for {full}, which is neither a tensor nor plain data, so it is not run")
        return self.known[full]

    def count_given(self, values: Any) -> None:
        """Counts what a call or an object gets, before it makes a copy."""
        self.given += sum(len(value) for value in values if type(value) in _SIZED)
        if self.given > GIVEN_TO_ANY + GIVEN_PER_BYTE * self.cursor.at:
            self.refuse("gives the same values to its calls too often")

    def set_items(self, target: dict[Any, Any], items: list[Any]) -> None:
        if len(items) % 2:
            self.refuse("has a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self.key(key)] = value

    def key(self, key: Any) -> Any:
        """Checks a dictionary key. Nested tuples are refused, too."""
        if not hashes_well(key):
            self.refuse(f"has a dictionary key of the type {type(key).__name__}")
        return key


def _inside(value: Any) -> Iterable[Any]:
    """The values in a container, or those that an object is made of."""
    if type(value) in (list, tuple):
        return value
    return (value if type(value) is dict else vars(value) if isinstance(value, Stateful) else {}).values()


def _nests_deeply(value: Any) -> bool:
    """Whether containers are nested more than MARKS_LIMIT deep."""
    heights: dict[int, int] = {}  # 0 while one is entered, as it may hold itself
    path: list[list[Any]] = [[value, iter(_inside(value)), 0]]  # what is left of each, and its height so far
    while path:
        entry = path[-1]
        for part in entry[1]:
            known = heights.get(id(part))
            if known is not None:
                entry[2] = max(entry[2], known + 1)
            elif inner := _inside(part):
                heights[id(part)] = 0
                path.append([part, iter(inner), 0])
                break
        else:
            path.pop()
            heights[id(entry[0])] = entry[2]
            if path:
                path[-1][2] = max(path[-1][2], entry[2] + 1)
        if max(len(path), entry[2]) > MARKS_LIMIT:
            return True
    return False


def _push(make: Callable[[Machine], Any]) -> Callable[[Machine], None]:
    def handler(m: Machine) -> None:
        value = make(m)  # before reading m.stack, which a mark replaces
        m.stack.append(value)

    return handler


def _ignore(count: int) -> Callable[[Machine], None]:
    def handler(m: Machine) -> None:
        m.cursor.take(count)

    return handler


def _protocol(m: Machine) -> None:
    version = m.unsigned(1)
    if not 2 <= version <= 5:
        m.refuse(f"has the protocol {version}, expected 2 to 5")


def _mark(m: Machine) -> None:
    if len(m.marked) >= MARKS_LIMIT:
        m.refuse("has containers that are nested too deeply")
    m.marked.append(m.stack)
    m.stack = []


def _tuple(count: int) -> Callable[[Machine], None]:
    def handler(m: Machine) -> None:
        items = [m.pop() for _ in range(count)]
        m.stack.append(m.made(tuple(reversed(items))))

    return handler


def _append(m: Machine) -> None:
    value = m.pop()
    m.top(list).append(value)


def _appends(m: Machine) -> None:
    items = m.pop_mark()
    m.top(list).extend(items)


def _set_item(m: Machine) -> None:
    value, key = m.pop(), m.pop()
    m.set_items(m.top(dict), [key, value])


def _set_items(m: Machine) -> None:
    items = m.pop_mark()
    m.set_items(m.top(dict), items)


def _new_dict(m: Machine) -> None:
    items = m.pop_mark()
    m.stack.append(m.made({}))
    m.set_items(m.stack[-1], items)


def _put(size: int) -> Callable[[Machine], None]:
    def handler(m: Machine) -> None:
        key = m.unsigned(size)
        m.memo[key] = m.pop()
        m.stack.append(m.memo[key])

    return handler


def _memoize(m: Machine) -> None:
    value = m.pop()
    m.memo[len(m.memo)] = value
    m.stack.append(value)


def _get(size: int) -> Callable[[Machine], None]:
    def handler(m: Machine) -> None:
        key = m.unsigned(size)
        if key not in m.memo:
            m.refuse(f"recalls the value {key}, which it never stored")
        m.stack.append(m.memo[key])

    return handler


def _stack_global(m: Machine) -> None:
    name, module = m.pop(), m.pop()
    m.stack.append(m.find(module, name))


def _reduce(m: Machine) -> None:
    arguments, function = m.pop(), m.pop()
    if not isinstance(function, Builder) or type(arguments) is not tuple:
        m.refuse("calls something that is not a function")
    m.count_given(arguments)
    try:
        found = function.call(*arguments)
        m.stack.append(m.made(found) if type(found) in (list, dict) else found)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        if isinstance(error, FileFormatError):
            raise
        m.refuse(f"calls {function.name} with arguments that do not fit it")


def _new_object(m: Machine) -> None:
    arguments, kind = m.pop(), m.pop()
    if not isinstance(kind, Class) or arguments != ():
        m.refuse("makes an object of something that is not a class")
    m.stack.append(kind.call())


def _build(m: Machine) -> None:
    """BUILD. Of the attributes of an OrderedDict a state_dict's versions are kept. A Stateful object gets all."""
    state = m.pop()
    target = m.stack[-1] if m.stack else None
    if isinstance(target, Stateful):
        m.count_given(state if type(state) is tuple else ())
        try:
            target.set_state(state)
        except ValueError as error:
            m.refuse(f"sets a state that does not fit ({error})")
        return
    if type(state) is not dict:
        m.refuse("sets attributes from something that is not a dict")
    owner = m.top(dict)
    if "_metadata" in state:
        m.versions[id(owner)] = owner, state["_metadata"]


_HANDLERS: dict[bytes, Callable[[Machine], None]] = {
    b"\x80": _protocol,
    b"\x95": _ignore(8),  # the length of a frame
    b"(": _mark,
    b"0": lambda m: _drop(m.pop()),
    b"1": lambda m: _drop(m.pop_mark()),
    b"N": _push(lambda m: None),
    b"\x88": _push(lambda m: True),
    b"\x89": _push(lambda m: False),
    b"J": _push(lambda m: int.from_bytes(m.cursor.take(4), "little", signed=True)),
    b"K": _push(lambda m: m.unsigned(1)),
    b"M": _push(lambda m: m.unsigned(2)),
    b"\x8a": _push(lambda m: m.integer(1)),
    b"\x8b": _push(lambda m: m.integer(4)),
    b"G": _push(lambda m: struct.unpack(">d", m.cursor.take(8))[0]),
    b"X": _push(lambda m: m.text(4)),
    b"\x8c": _push(lambda m: m.text(1)),
    b"\x8d": _push(lambda m: m.text(8)),
    b"U": _push(lambda m: m.sized(1).decode("latin-1")),  # strings of Python 2
    b"T": _push(lambda m: m.sized(4).decode("latin-1")),
    b"C": _push(lambda m: m.sized(1)),
    b"B": _push(lambda m: m.sized(4)),
    b"\x8e": _push(lambda m: m.sized(8)),
    b"\x96": _push(lambda m: m.sized(8)),  # a bytearray
    b"]": _push(lambda m: m.made([])),
    b"l": _push(lambda m: m.made(m.pop_mark())),
    b"a": _append,
    b"e": _appends,
    b"}": _push(lambda m: m.made({})),
    b"d": _new_dict,
    b"s": _set_item,
    b"u": _set_items,
    b")": _push(lambda m: ()),
    b"t": _push(lambda m: m.made(tuple(m.pop_mark()))),
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"q": _put(1),
    b"r": _put(4),
    b"\x94": _memoize,
    b"h": _get(1),
    b"j": _get(4),
    b"c": _push(lambda m: m.find(m.cursor.line(), m.cursor.line())),
    b"\x93": _stack_global,
    b"R": _reduce,
    b"\x81": _new_object,
    b"b": _build,
    b"Q": _push(lambda m: m.persistent(m.pop())),
}


def _drop(_: object) -> None:
    """POP and POP_MARK: drops the value."""
