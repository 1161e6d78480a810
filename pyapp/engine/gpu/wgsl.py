"""The WebGPU sources (native/webgpu): which kernels they have, and the WGSL text of a kernel for one kind of record.

native/webgpu/common.wgsl explains the lines that this reads.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from pyapp.dataclass import dataclass

from ...errors import KernelError
from ..native import DIMS, ELEMENTS, FLOATS, FOLDER, OPCODES, POINTER_BYTES, POINTERS, SIGNATURES
from .sources import Number, arguments_of, number_of

SOURCES = FOLDER / "webgpu"
COMMON = "common"
MOST_GROUPS = 65535  # of a start, along a dimension
_ADVICE = "Build the package again: `python native/build.py wasm` copies the sources"
BETWEEN = "between"  # the pointer of the memory that a kernel's steps leave for those after them
_KERNEL = re.compile(r"^(?:KERNEL|STEP|ALSO)\(", re.MULTILINE)
_LIMIT = re.compile(r"^(TAKES|ATOMIC|BETWEEN|USES)\(", re.MULTILINE)
_OWN = re.compile(r"^(?:fn element\(|MAIN \{)", re.MULTILINE)  # what no other kernel uses
_OPCODES_OF = {"unary_strided": "unary", "index_put": "scatter"}  # as kernels.h says of them
_DIMS_AT = 2 + POINTERS * POINTER_BYTES // 4  # words in front of a record's dims in wasm, where a pointer is a word
_FLOATS_AT = _DIMS_AT + 2 * DIMS
BETWEEN_AT = _FLOATS_AT + FLOATS  # the word of a start behind the record
_BYTES = {"bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "bfloat16": 2}


def _element_bytes(name: str) -> int:
    return _BYTES.get(name) or int(re.sub(r"\D", "", name)) // 8


ELEMENT_BYTES = [_element_bytes(name) for name in ELEMENTS]


@dataclass(frozen=True)
class Program:
    """A text of a source that is run for the records of a kernel. `groups`: of `threads` threads, for a record.
    `constants`: dims, or numbers computed of them, that its text contains, so that each set of them is a text of its
    own. `takes`: not 0 for records that it computes; None: all. `atomic`: not 0 for records in which threads write
    parts of the same word. `steps`: what runs before it; `between`: the bytes that these leave for those after them."""

    kernel: str
    groups: Number
    threads: int
    constants: dict[str, Number]
    takes: Number | None
    atomic: Number | None
    shared: str
    body: str
    steps: tuple[Program, ...] = ()
    between: Number | None = None

    @functools.cached_property
    def slots(self) -> list[str]:
        """The names of its pointers: the kernel's, and `between` where it has that."""
        names = [slot.rstrip("?") for slot in SIGNATURES[self.kernel].split("|")[0].split()]
        return names + [BETWEEN] * (re.search(rf"\b{BETWEEN}_\w+\(", self.body) is not None)

    @functools.cached_property
    def written(self) -> tuple[bool, ...]:
        """For each pointer, whether it writes there."""
        return tuple(re.search(rf"\b{slot}_put\w*\(|\bDENSE\({slot},", self.body) is not None for slot in self.slots)


def _text(path: Path) -> str:
    """A source without its comments."""
    return re.sub(r" *//.*$", "", path.read_text("utf-8"), flags=re.MULTILINE)


def _read(path: Path) -> dict[str, Program]:
    text = _text(path)
    starts = [line.start() for line in _KERNEL.finditer(text)]
    shared, sections, made = text[: starts[0]] if starts else text, dict[str, str](), dict[str, Program]()
    steps: list[Program] = []  # of the kernel that comes next
    for start, end in pairwise([*starts, len(text)]):
        section = text[start:end]
        name, *rest = arguments_of(section, section.index("(") + 1)
        if name not in SIGNATURES:
            raise KernelError(f"{name!r} is not a kernel of kernels.h", where=str(path))
        if section.startswith("ALSO"):
            own = "\n".join(line for line in section.splitlines() if _LIMIT.match(line))
            section = sections.get(rest[0], "").replace(rest[0], name)
            for pair in rest[1:]:
                before, _, after = pair.partition(" => ")
                if before not in section:
                    raise KernelError(f"{name!r}: {rest[0]!r} has no {before!r}", where=str(path))
                section = section.replace(before, after)
            section += f"{own}\n"
        if any(step.kernel != name for step in steps):
            raise KernelError(f"{name!r} stands between {steps[0].kernel!r} and its steps", where=str(path))
        program = _program(name, section, shared, sections, tuple(steps))
        if section.startswith("STEP"):
            steps.append(program)
        else:
            sections[name], made[name], steps = section, program, []
    return made


def _program(name: str, section: str, shared: str, sections: dict[str, str], steps: tuple[Program, ...]) -> Program:
    _, groups, threads, *constants = arguments_of(section, section.index("(") + 1)

    def computed(expression: str) -> Number:
        return number_of(_with_opcodes(expression, name), name, {})

    limits = {line[1]: arguments_of(section, line.end())[1] for line in _LIMIT.finditer(section)}
    numbers = {line: computed(expression) for line, expression in limits.items() if line != "USES"}
    pairs = (constant.partition("=") for constant in constants)
    constant_numbers = {slot.strip(): computed(value or slot) for slot, _, value in pairs}
    body = _body_of(section)
    if "USES" in limits:
        body = _OWN.split(_body_of(sections.get(limits["USES"], "\n")))[0] + body
    whole = not section.startswith("STEP")
    return Program(
        name, computed(groups), int(threads), constant_numbers, numbers.get("TAKES"), numbers.get("ATOMIC"), shared,
        body, steps if whole else (), numbers.get("BETWEEN"),
    )  # fmt: skip


def _body_of(section: str) -> str:
    return re.sub(rf"{_LIMIT.pattern}.*$", "", section[section.index("\n") :], flags=re.MULTILINE)


def _with_opcodes(text: str, kernel: str) -> str:
    """The text with numbers instead of OP_exp and so on: the operations of the kernel."""
    codes = {name: code for code, (name, *_) in enumerate(OPCODES.get(_OPCODES_OF.get(kernel, kernel), {}))}
    return re.sub(r"\bOP_(\w+)", lambda match: str(codes[match[1]]), text)


@functools.cache
def programs() -> dict[str, Program]:
    """Every kernel that has a WebGPU source. KernelError where the sources are not there or do not fit kernels.h."""
    if not SOURCES.is_dir():
        raise KernelError("the WebGPU sources are not there", where=str(SOURCES), hint=_ADVICE)
    found: dict[str, Program] = {}
    for path in sorted(SOURCES.glob("*.wgsl")):
        found.update(_read(path))
    return found


@functools.cache
def _common() -> str:
    return _text(SOURCES / f"{COMMON}.wgsl")


def _constant(slot: str) -> str:
    """The name of a constant: "type" is a word of WGSL."""
    return "type_" if slot == "type" else slot


def _word(at: int) -> str:
    return f"P[{at // 4}][{at % 4}]"


def text_of(
    program: Program, constants: Sequence[int], memory: Sequence[int | None], kinds: str, atomic: bool, dots: bool
) -> str:
    """The WGSL text of a program. `constants`: the values of its constants. `memory`: for each of its slots, in which
    buffer it is, None where it is absent; `kinds`: for each buffer "w" where the kernel writes, else "r". `dots`:
    whether the browser has products of four bytes."""
    name, slots = program.kernel, program.slots
    pointers, dims, floats = (group.split() for group in SIGNATURES[name].split("|"))
    text = [
        "@group(0) @binding(0) var<uniform> P: array<vec4<u32>, 16>;",
        "@group(0) @binding(1) var<storage, read_write> status: array<atomic<u32>, 4>;",
        f"const THREADS = {program.threads};",
        f"fn fail(code: u32) {{ atomicMax(&status[0], code | ({list(SIGNATURES).index(name)}u << 8u)); }}",
    ]
    for at, kind in enumerate(kinds):
        mode, element = ("read_write", "atomic<u32>" if atomic else "u32") if kind == "w" else ("read", "u32")
        text.append(f"@group(1) @binding({at}) var<storage, {mode}> m{at}: array<{element}>;")
    for at, (slot, buffer, written) in enumerate(zip(slots, memory, program.written, strict=True)):
        writes = written if buffer is None else kinds[buffer] == "w"
        text.append(_accessors(slot, BETWEEN_AT if slot == BETWEEN else 2 + at, buffer, writes, atomic and writes))
    for slot, value in zip(program.constants, constants, strict=True):
        text.append(f"const {_constant(slot)}: i32 = {value};")
        if slot.endswith("type"):
            text.append(f"const {slot}_bytes: i32 = {ELEMENT_BYTES[value] if 0 <= value < len(ELEMENT_BYTES) else 0};")
    for slot in pointers:
        if slot.endswith("?"):
            text.append(f"const {slot[:-1]}_given = {str(memory[pointers.index(slot)] is not None).lower()};")
    dot = "return dot4I8Packed(a, b);" if dots else "let x = bytes_of(a) * bytes_of(b); return x.x + x.y + x.z + x.w;"
    text += [_common(), f"fn dot_bytes(a: u32, b: u32) -> i32 {{ {dot} }}", program.shared]
    text.append(_body(program, dims, floats))
    return _with_opcodes(re.sub(r"\bTYPE_(\w+)", lambda match: str(ELEMENTS.index(match[1])), "\n".join(text)), name)


def _accessors(slot: str, at: int, buffer: int | None, writes: bool, atomic: bool) -> str:
    """What reads and writes at a pointer, whose place is word `at`: elements counted from it, `raw` words of the whole
    buffer."""
    start, m = _word(at), f"m{buffer}"
    atomic = atomic and buffer is not None
    load = "0u" if buffer is None else f"atomicLoad(&{m}[w])" if atomic else f"{m}[w]"
    text = f"""fn {slot}_raw(w: u32) -> u32 {{ return {load}; }}
fn {slot}_off() -> u32 {{ return {start}; }}
fn {slot}_u(i: i32) -> u32 {{ return {slot}_raw(({start} >> 2u) + u32(i)); }}
fn {slot}_i(i: i32) -> i32 {{ return i32({slot}_u(i)); }}
fn {slot}_f(i: i32) -> f32 {{ return bitcast<f32>({slot}_u(i)); }}
fn {slot}_h(i: i32) -> u32 {{
  let b = {start} + 2u * u32(i);
  return ({slot}_raw(b >> 2u) >> ((b & 2u) * 8u)) & 0xffffu;
}}
fn {slot}_b(i: i32) -> u32 {{
  let b = {start} + u32(i);
  return ({slot}_raw(b >> 2u) >> ((b & 3u) * 8u)) & 0xffu;
}}
fn {slot}_el(i: i32, bytes: i32) -> vec2<u32> {{
  switch bytes {{
    case 8: {{ return vec2<u32>({slot}_u(2 * i), {slot}_u(2 * i + 1)); }}
    case 4: {{ return vec2<u32>({slot}_u(i), 0u); }}
    case 2: {{ return vec2<u32>({slot}_h(i), 0u); }}
    default: {{ return vec2<u32>({slot}_b(i), 0u); }}
  }}
}}"""
    if not writes:
        return text
    store = "" if buffer is None else f"atomicStore(&{m}[w], v);" if atomic else f"{m}[w] = v;"
    text += f"""
fn {slot}_put_raw(w: u32, v: u32) {{ {store} }}
fn {slot}_put_u(i: i32, v: u32) {{ {slot}_put_raw(({start} >> 2u) + u32(i), v); }}
fn {slot}_put(i: i32, v: f32) {{ {slot}_put_u(i, bitcast<u32>(v)); }}"""
    if atomic:
        text += f"""
fn {slot}_put_part(b: u32, mask: u32, v: u32) {{
  let s = (b & 3u) * 8u;
  atomicAnd(&{m}[b >> 2u], ~(mask << s));
  atomicOr(&{m}[b >> 2u], (v & mask) << s);
}}
fn {slot}_put_el(i: i32, bytes: i32, v: vec2<u32>) {{
  switch bytes {{
    case 8: {{ {slot}_put_u(2 * i, v.x); {slot}_put_u(2 * i + 1, v.y); }}
    case 4: {{ {slot}_put_u(i, v.x); }}
    case 2: {{ {slot}_put_part({start} + 2u * u32(i), 0xffffu, v.x); }}
    default: {{ {slot}_put_part({start} + u32(i), 0xffu, v.x); }}
  }}
}}"""
    else:
        text += f"""
fn {slot}_put_el(i: i32, bytes: i32, v: vec2<u32>) {{
  if (bytes == 8) {{ {slot}_put_u(2 * i, v.x); {slot}_put_u(2 * i + 1, v.y); }} else {{ {slot}_put_u(i, v.x); }}
}}"""
    return text


_MAIN = """@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) lid: u32, @builtin(workgroup_id) wid: vec3<u32>,
        @builtin(num_workgroups) many: vec3<u32>) {
  let tid = i32(lid);
  let gid = i32(wid.x + wid.y * many.x);
  let own = gid * THREADS + tid;
  let total = i32(many.x * many.y) * THREADS;
"""
# Elements of a dense result, given by `element(i)`: a thread writes whole words, so that none is written by two.
_DENSE = """if (BYTES >= 4) {
    for (var i = own; i < COUNT; i += total) { Y_put_el(i, BYTES, element(i)); }
  } else {
    let each = 4 / BYTES;
    let skipped = i32(Y_off() & 3u) / BYTES;
    for (var w = own; w < (skipped + COUNT + each - 1) / each; w += total) {
      var value = 0u; var mask = 0u;
      for (var k = 0; k < each; k++) {
        let i = w * each + k - skipped;
        if (i >= 0 && i < COUNT) {
          let low = select(0xffffu, 0xffu, BYTES == 1);
          value |= (element(i).x & low) << u32(k * BYTES * 8);
          mask |= low << u32(k * BYTES * 8);
        }
      }
      let at = (Y_off() >> 2u) + u32(w);
      Y_put_raw(at, (Y_raw(at) & ~mask) | value);
    }
  }"""


def _body(program: Program, dims: list[str], floats: list[str]) -> str:
    """The kernel's own text with the words of the record instead of the names of dims and floats."""
    text = program.body
    text = re.sub(r"^MAIN \{\n", lambda _: _MAIN, text, flags=re.MULTILINE)
    text = re.sub(
        r"FOR_EACH\((\w+), (.*)\) \{$", r"for (var \1 = own; \1 < (\2); \1 += total) {", text, flags=re.MULTILINE
    )
    text = re.sub(
        r"DENSE\((\w+), (\w+), (.*)\);$",
        lambda m: _DENSE.replace("Y_", f"{m[1]}_").replace("BYTES", m[2]).replace("COUNT", m[3]),
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r"\bSIX\((\w+)\)", lambda m: f"array<i32, 6>({', '.join(f'{m[1]}{k}' for k in range(6))})", text)
    values = {slot: f"i32({_word(_DIMS_AT + 2 * at)})" for at, slot in enumerate(dims)}
    values |= {f"{slot}_high": _word(_DIMS_AT + 2 * at + 1) for at, slot in enumerate(dims)}
    values |= {f"{slot}_low": _word(_DIMS_AT + 2 * at) for at, slot in enumerate(dims)}
    values |= {slot: f"bitcast<f32>({_word(_FLOATS_AT + at)})" for at, slot in enumerate(floats)}
    for slot in program.constants:
        values[slot] = _constant(slot)
    return re.sub(r"(?<![.\w])[A-Za-z_]\w*", lambda match: values.get(match[0], match[0]), text)
