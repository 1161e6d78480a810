"""The CUDA sources: which kernels they have, and how many blocks, threads and bytes of shared and scratch memory each
asks for. native/cuda/gpu.h explains the lines that this reads.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pyapp.dataclass import dataclass

from ...errors import KernelError
from ..native import ELEMENTS, FOLDER, SIGNATURES

SOURCES = FOLDER / "cuda"
_ADVICE = "Build the package again: `python native/build.py host` copies the sources"
_LINE = re.compile(r"^(KERNEL|STEP|SCRATCH|COUNTERS|VARIANT|OPERANDS)\(", re.MULTILINE)
_HIDDEN = re.compile(
    r"^(?!#|[ ]*/?[*]).*[^\w\n](?:KERNEL|STEP|SCRATCH|COUNTERS|VARIANT|OPERANDS)\(\w+,.*$", re.MULTILINE
)
_DEFINED = re.compile(r"^(?:KERNEL|STEP|AHEAD)\((\w+)", re.MULTILINE)
_BRACES = re.compile(r"[{}]|/\*.*?\*/|//[^\n]*", re.DOTALL)  # and comments, which may have some, too
_MACRO = re.compile(r"^#define (\w+)(?:\(([^)]*)\))?[ \t]+((?:.*\\\n)*.*)$", re.MULTILINE)
_FUNCTIONS = {
    "PARTS": lambda a, b: -(-a // b) if a >= 0 else -1, "MAX": max, "MIN": min,
    "CHOOSE": lambda condition, a, b: a if condition else b,
    "PRODUCT": lambda dims, rank, first: math.prod(dims[first : first + rank]) if 0 <= rank <= 6 else -1,
}  # fmt: skip
_TYPES = list(ELEMENTS)
_LAST = 99  # the number of the kernel itself among its steps
NO_VARIANT = (1 << 30) - 1  # a number that no variant has
MULTIPROCESSORS = 132  # of an H100: of which card a source is read, where that is not said (multiprocessors.h)

Number = Callable[[Sequence[int]], int]  # of a record's dims


@dataclass(frozen=True)
class Step:
    """One launch of a kernel: the function's name in the source `source`, and its numbers."""

    source: str
    function: str
    blocks: Number
    threads: int
    shared: Number


@dataclass(frozen=True)
class Plan:
    """The launches that run a kernel of kernels.h: a check, steps in their order, the kernel itself; and the scratch
    memory and the counters that they share. The check has nothing to do where the others have nothing to do."""

    check: Step | None
    steps: tuple[Step, ...]
    scratch: Number | None
    counters: Number | None = None
    variant: Number | None = None  # the kernel is compiled for each of these numbers by itself


def arguments_of(text: str, start: int) -> list[str]:
    """The arguments of the call whose parenthesis is before `start`."""
    depth, begin, found = 0, start, []
    for at in range(start, len(text)):
        letter = text[at]
        if letter in "([":
            depth += 1
        elif letter in ")]" and depth:
            depth -= 1
        elif letter in ",)" and not depth:
            found.append(" ".join(text[begin:at].split()))
            begin = at + 1
            if letter == ")":
                return found
    raise KernelError("a line of a CUDA source does not end", where=text[start - 30 : start + 50])


Macros = dict[str, tuple[list[str] | None, str]]  # the parameters of a #define, None without; and its text


def _macros(text: str) -> Macros:
    """What a text defines, but for what expressions have anyway."""
    found: Macros = {}
    for name, parameters, body in _MACRO.findall(re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)):
        if name not in _FUNCTIONS:
            names = [word.strip() for word in parameters.split(",")] if parameters else None
            found[name] = names, " ".join(body.replace("\\\n", " ").split())
    return found


def _expanded(expression: str, macros: Macros) -> str:
    """The expression without macros. Their bodies count as if they stood in parentheses."""
    for _ in range(100):
        match = next((m for m in re.finditer(r"[A-Za-z_]\w*", expression) if m[0] in macros), None)
        if match is None:
            return expression
        parameters, body = macros[match[0]]
        end = match.end()
        if parameters is not None:
            start = expression.index("(", end) + 1
            values = arguments_of(expression, start)
            end = _closing(expression, start)
            given = dict(zip(parameters, values, strict=True))
            body = re.sub(r"[A-Za-z_]\w*", lambda m, given=given: f"({given[m[0]]})" if m[0] in given else m[0], body)  # type: ignore[misc]
        expression = f"{expression[: match.start()]}({body}){expression[end:]}"
    raise KernelError("a macro of a CUDA source contains itself", where=expression[:80])


def _closing(text: str, start: int) -> int:
    """After the parenthesis that closes the one before `start`."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if not depth:
            return at + 1
    raise KernelError("a line of a CUDA source does not end", where=text[start:][:50])


def number_of(expression: str, kernel: str, macros: Macros) -> Number:
    """A function of a record's dims. KernelError for names that are not slots of the kernel."""
    dims = SIGNATURES[kernel].split("|")[1].split()
    expression = _expanded(expression, macros)

    def place(match: re.Match[str]) -> str:
        name = match[0]
        if name in _FUNCTIONS:
            return name
        if name == "dims":
            return "d"
        if name.startswith("TYPE_") and name[5:] in _TYPES:
            return str(_TYPES.index(name[5:]))
        if name not in dims:
            raise KernelError(f"{name!r} is not a dim of the kernel '{kernel}'", where="native/cuda")
        return f"d[{dims.index(name)}]"

    def product(match: re.Match[str]) -> str:
        return f"PRODUCT(dims, {match[1]}, {dims.index(match[2])})"  # of `rank` dims from one on

    python = re.sub(r"PRODUCT\((\w+), (\w+)\)", product, expression)
    python = re.sub(r"[A-Za-z_]\w*", place, python).replace("/", "//")
    made: Number = eval(compile(f"lambda d: {python}", f"<{kernel}>", "eval"), dict(_FUNCTIONS))
    return made


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    for match in _LINE.finditer(text):
        yield match[1], arguments_of(text, match.end())


def read_source(path: Path, multiprocessors: int = MULTIPROCESSORS) -> dict[str, Plan]:
    """The kernels of one source, but for what makes operands, for a card with so many multiprocessors."""
    steps: dict[str, dict[int, Step]] = {}
    asked: dict[str, dict[str, Number]] = {"SCRATCH": {}, "COUNTERS": {}, "VARIANT": {}}
    text = path.read_text("utf-8")
    if hidden := _HIDDEN.search(text):
        raise KernelError("a kernel does not begin its line", where=str(path), hint=hidden[0][:80])
    macros = _macros("\n".join([*_included(text, path.parent).values(), text]))
    macros["MULTIPROCESSORS"] = None, str(multiprocessors)
    for kind, (name, *rest) in _lines(text):
        if name not in SIGNATURES:
            raise KernelError(f"{name!r} is not a kernel of kernels.h", where=str(path))
        if kind == "OPERANDS":
            continue
        if kind in asked:
            asked[kind][name] = number_of(rest[0], name, macros)
            continue
        number = int(rest.pop(0)) if kind == "STEP" else _LAST
        blocks, threads, shared = rest
        function = f"{name}_step{number}" if kind == "STEP" else name
        step = Step(path.stem, function, number_of(blocks, name, macros), int(threads), number_of(shared, name, macros))
        steps.setdefault(name, {})[number] = step
    return {
        name: Plan(
            found.get(0),
            tuple(found[number] for number in sorted(found) if number),
            *(numbers.get(name) for numbers in asked.values()),
        )
        for name, found in steps.items()
    }


@functools.cache
def plans(multiprocessors: int = MULTIPROCESSORS) -> dict[str, Plan]:
    """Every kernel that has a CUDA source, for a card with so many multiprocessors. KernelError where the sources are
    not there or do not fit kernels.h.
    """
    if not SOURCES.is_dir():
        raise KernelError("the CUDA sources are not there", where=str(SOURCES), hint=_ADVICE)
    found: dict[str, Plan] = {}
    for path in sorted(SOURCES.glob("*.cu")):
        found.update(read_source(path, multiprocessors))
    return found


@functools.cache
def operands() -> dict[str, dict[str, Step]]:
    """By kernel and slot: what makes a 16-bit operand for NVIDIA's library of products."""
    found: dict[str, dict[str, Step]] = {}
    for path in sorted(SOURCES.glob("*.cu")):
        text = path.read_text("utf-8")
        macros: Macros | None = None
        for kind, parts in _lines(text):
            if kind != "OPERANDS":
                continue
            if macros is None:
                macros = _macros("\n".join([*_included(text, path.parent).values(), text]))
            name, slot, blocks, threads = parts
            step = Step(
                path.stem, f"{name}_operand_{slot}", number_of(blocks, name, macros), int(threads), lambda dims: 0
            )
            found.setdefault(name, {})[slot] = step
    return found


def all_steps() -> list[Step]:
    """Every launch that a source defines."""
    found = [step for plan in plans().values() for step in (plan.check, *plan.steps) if step is not None]
    return [*found, *(step for made in operands().values() for step in made.values())]


@functools.cache
def varied() -> frozenset[str]:
    """The sources that have kernels with variants."""
    return frozenset(
        path.stem for path in SOURCES.glob("*.cu") if re.search(r"^VARIANT\(", path.read_text("utf-8"), re.MULTILINE)
    )


@functools.cache
def headers(folder: Path = SOURCES) -> dict[str, str]:
    """The headers that the sources include, by name."""
    return {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.h"))}


def text_of(source: str, kernel: str = "", variant: int = 0, multiprocessors: int = MULTIPROCESSORS) -> str:
    """The text of one source; with a kernel, as that alone is compiled for one of its variants; NO_VARIANT: without
    any. For a card with so many multiprocessors."""
    text = (SOURCES / f"{source}.cu").read_text("utf-8")
    if multiprocessors != MULTIPROCESSORS and "multiprocessors.h" in _included(text, SOURCES):
        text = f"#define MULTIPROCESSORS {multiprocessors}\n{text}"
    if not kernel:
        return f"#define VARIED {variant}\n{text}" if variant else text
    return f"#define VARIED {variant}\n#define ONLY_{kernel}\n{_alone(text, kernel)}"


def _alone(text: str, kernel: str) -> str:
    """A source without its other kernels, whose lines are empty."""
    found, done = "", 0
    for match in _DEFINED.finditer(text):
        if match[1] == kernel:
            continue
        begin = _closing(text, text.index("(", match.start()) + 1)
        end = _end_of_body(text, begin)
        found += text[done : match.start()] + "\n" * text.count("\n", match.start(), end)
        done = end
    return found + text[done:]


def _end_of_body(text: str, begin: int) -> int:
    """After the braces that follow."""
    depth = 0
    for match in _BRACES.finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if match[0] == "}" and not depth:
            return match.end()
    raise KernelError("a kernel of a CUDA source does not end", where=text[begin:][:50])


def headers_of(source: str) -> dict[str, str]:
    """The headers that a source includes, and those that they include."""
    return _included(text_of(source), SOURCES)


def _included(text: str, folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    texts = [text]
    while texts:
        for name in re.findall(r'^#include "([^"]+)"', texts.pop(), re.MULTILINE):
            if name not in found and name in headers(folder):
                found[name] = headers(folder)[name]
                texts.append(found[name])
    return found
