"""Builds the kernels: `python native/build.py host [--sanitize]`, `… wasm` (for Pyodide) or `… pool` (for the page's
threads).

Needs a C compiler only (`CC`, `CFLAGS` are honoured); for Windows it is the one of PyPI's package ziglang, which also
builds for Windows elsewhere: `… host --system windows`. Imported by the wheel's build hook: `build_host(out)` and
`build_wasm(out)` return the files that they left in `out`; what is up to date is not built again. Objects are kept in
build/objects: after a change, the sources that it concerns are compiled.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

NATIVE = Path(__file__).resolve().parent
DEFAULT_OUT = NATIVE.parent / "pyapp" / "_native"
POOL_OUT = NATIVE.parent / "build" / "pool"
SANITIZED_OUT = NATIVE.parent / "build" / "sanitized"
OBJECTS = NATIVE.parent / "build" / "objects"
OBJECTS_DAYS = 7  # objects that no build has used for so long are deleted
TYPE_GROUPS = {
    "floats": ["float16", "bfloat16", "float32", "float64"],
    "integers": ["uint8", "int8", "int16", "int32", "int64"],
}  # words of OPCODE lines in kernels.h
# Sets whose code travels: compiled for size where that costs no time; with the flags that emcc adds to -Os.
DOWNLOADED: dict[str, list[str]] = {"simd128": ["-fno-inline-functions"], "relaxed": []}
_SMALL = "add_rows any_float binary blocks cast compute conv_transpose copy create ctc depthwise elements linear_scan"
_SMALL += " pooling random recurrent_cells reduce_angle scan select sort token_mask unary"
SMALL = tuple(f"{name}.c" for name in _SMALL.split())
MEDIUM = (
    "attention_train.c",
    "conv.c",
    "decode_blocks.c",
    "embedding.c",
    "gemm.c",
    "layer_norm.c",
    "loss.c",
    "norm.c",
    "quant.c",
    "reduce.c",
)  # -O3 makes them larger there, not faster
# Defined to the last bit, each product and sum rounded by itself. So LU has pivots of 0 where a matrix has rank 1, as
# in LAPACK. clang ignores a pragma for it beside -ffp-contract=fast.
UNFUSED = ("blocks.c", "quantize_blocks.c", "linear_algebra.c")
ONCE = ("run.c", "pool.c")
FOR_CUDA = (
    "kernels.h",
    "types.h",
    "activations.h",
    "int8.h",
    "block_types.h",
    "bands.h",
    "band_packing.h",
)  # headers of the C kernels
RUNNERS = (*ONCE, "pool_wasm.c")  # every other source is a kernel source: compiled once for each instruction set

WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter"]
COMMON = ["-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden"]
COMMON += ["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]  # never -ffast-math: NaN and infinity count
HOST_SETS: dict[str, dict[str, list[str]]] = {
    "x86_64": {
        "baseline": ["-msse2"],
        "avx2": ["-mavx2", "-mfma", "-mf16c"],
        "avx512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mfma", "-mf16c"],
    },
    "aarch64": {"neon": [], "dotprod": ["-march=armv8.2-a+dotprod"]},
}
SANITIZE = ["-g1", "-Og", "-fsanitize=address", "-fno-omit-frame-pointer"]
# Each check is a call, not code in place: compiling takes 42 CPU seconds, not 69, and the tests 39, not 32.
SANITIZE += ["--param=asan-instrumentation-with-call-threshold=0"]
# Undefined behaviour is the sources', whatever the registers' width: one set is enough. Without it, sources compile in
# half the time.
UNDEFINED = ["-fsanitize=undefined", "-fno-sanitize-recover=undefined"]
UNDEFINED += ["-fno-sanitize=null"]  # AddressSanitizer sees each use of one; the checks are a fifth of the compiling
LINK = {"linux": ["-shared", "-Wl,-z,nodelete"], "macos": ["-dynamiclib"], "windows": ["-shared", "-s"]}
EXPORTS = "run signature instruction_set allocate free set_threads threads flush_denormals cancel".split()
# LLVM 21 contracts c - a * b to a wrong instruction of relaxed SIMD; where fusing pays, the kernels ask for it (vfma).
WASM = ["-msimd128", "-mbulk-memory", "-ffp-contract=off"]
# Without loop strength reduction (as emcc does), which would hide the constant offsets of loads.
RELAXED_CLANG = [
    "--target=wasm32-unknown-emscripten",
    "-mrelaxed-simd",
    "-fno-stack-protector",
    "-mllvm",
    "-disable-lsr",
]
EMCC_LINK = ["-O1", "-sSIDE_MODULE=2", "-sEXPORTED_FUNCTIONS=" + ",".join("_pyapp_" + name for name in EXPORTS)]
EMCC_WITH_LLVM_17 = (3, 1, 40)
RELAXED_LINK = ["--shared", "--experimental-pic", "--no-entry", "--unresolved-symbols=import-dynamic", "--strip-all"]
RELAXED_LINK += ["--compress-relocations"]  # without the padding of addresses, 5 kB; emcc does it
# A module of its own over shared memory, which is created outside and grows to 4 GiB. 1 MiB of stack below all data, as
# natively; JavaScript gives each helper another. The linker leaves out what nobody exports or calls.
POOL = [*WASM, "-matomics", "-mmutable-globals", "-fno-PIC"]
POOL_LINK = ["--no-entry", "--import-memory", "--shared-memory", f"--max-memory={2**32}", "--stack-first"]
POOL_LINK += ["-z", f"stack-size={2**20}", "--strip-all", "--gc-sections", "--compress-relocations"]
POOL_EXPORTS = ["pool_run", "pool_help", "pool_lose", "pyapp_signature", "pyapp_instruction_set"]
POOL_EXPORTS += ["__stack_pointer", "__heap_base"]


Job = tuple[Path, str, list[str]]  # source, name of the object, its own flags


class BuildError(RuntimeError):
    """A tool is missing or a source does not compile; the text says which."""


def signature() -> str:
    """Hexadecimal CRC-32 of kernels.h, as engine/native.py computes it."""
    return f"{zlib.crc32((NATIVE / 'kernels.h').read_bytes()):08x}"


def run(command: Sequence[str]) -> str:
    """Runs a tool; its output, or BuildError with what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not installed (or not on PATH)") from None
    if done.returncode:
        raise BuildError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    sys.stderr.write(done.stderr)
    return done.stdout


def read_kernels() -> dict[str, list[list[str]]]:
    """Kernel name to the names of its pointers, dims and floats, from the KERNEL and CUDA_KERNEL lines of kernels.h."""
    text = (NATIVE / "kernels.h").read_text("utf-8")
    found = re.findall(r'^(?:CUDA_)?KERNEL\((\w+),((?:\s*"[^"]*")+)\)', text, re.MULTILINE)
    signatures = {name: "".join(re.findall(r'"([^"]*)"', pieces)) for name, pieces in found}
    return {
        name: [[slot.rstrip("?") for slot in group.split()] for group in signature.split("|")]
        for name, signature in signatures.items()
    }


def cuda_kernels() -> list[str]:
    """The kernels that CUDA alone has: the CUDA_KERNEL lines of kernels.h."""
    return re.findall(r"^CUDA_KERNEL\((\w+),", (NATIVE / "kernels.h").read_text("utf-8"), re.MULTILINE)


def read_types() -> dict[str, int]:
    """Element type to its bytes, in the order of their codes, from the ELEMENT lines of kernels.h."""
    text = (NATIVE / "kernels.h").read_text("utf-8")
    return {name: int(size) for name, size in re.findall(r"^ELEMENT\((\w+), (\d+)\)", text, re.MULTILINE)}


def read_opcodes() -> dict[str, dict[str, tuple[list[str], str]]]:
    """Kernel to its operations in the order of their codes, each with (operand types, result): the OPCODE lines."""
    text = (NATIVE / "kernels.h").read_text("utf-8")
    found: dict[str, dict[str, tuple[list[str], str]]] = {}
    for kernel, name, types, result in re.findall(r'^OPCODE\((\w+), (\w+), "([^"]*)", "([^"]*)"\)', text, re.MULTILINE):
        words = [list(read_types()) if word == "every" else TYPE_GROUPS.get(word, [word]) for word in types.split()]
        found.setdefault(kernel, {})[name] = sum(words, []), result
    return found


def opcode_lines() -> list[str]:
    """For each kernel with opcodes: their names, the types of each as bits, and whether its result is bool."""
    lines, codes = [], {name: code for code, name in enumerate(read_types())}
    for kernel, operations in read_opcodes().items():
        prefix = kernel.upper()
        names = ", ".join(f"{prefix}_{name}" for name in operations)
        sets = ", ".join(hex(sum(1 << codes[name] for name in types)) for types, _ in operations.values())
        results = ", ".join(str(int(result == "bool")) for _, result in operations.values())
        lines.append(f"enum {{ {names}, {prefix}_COUNT }};")
        lines += [f"#define {prefix}_TYPES {{{sets}}}", f"#define {prefix}_RESULTS {{{results}}}"]
    return lines


def slots_header() -> str:
    """The text of slots.h: KERNELS(KERNEL, CUDA_KERNEL), which lists every kernel; a named index for each slot of each
    kernel; names for element types and opcodes.

    BuildError when a kernel names two of its slots alike.
    """
    lines = ["/* Made from kernels.h by build.py. */", "#ifndef PYAPP_SLOTS_H", "#define PYAPP_SLOTS_H"]
    types = read_types()
    lines.append(f"enum {{ {', '.join(f'TYPE_{name}' for name in types)}, TYPE_COUNT }};")
    lines.append(f"#define TYPE_BYTES {{{', '.join(map(str, types.values()))}}}")
    lines += opcode_lines()
    kernels = read_kernels()
    for kernel, groups in kernels.items():
        slots = [f"{kernel}_{name} = {index}" for group in groups for index, name in enumerate(group)]
        if len(set(sum(groups, []))) < len(slots):
            raise BuildError(f"kernels.h: {kernel} has two slots of one name")
        lines.append(f"enum {{ {', '.join(slots)} }};")
    only_cuda = cuda_kernels()
    listed = " ".join(f"{'CUDA_KERNEL' if name in only_cuda else 'KERNEL'}({name})" for name in kernels)
    return "\n".join([*lines, f"#define KERNELS(KERNEL, CUDA_KERNEL) {listed}", "#endif", ""])


def missing_kernels() -> list[str]:
    """Kernels of the library that no source defines with KERNEL(name)."""
    text = "\n".join(path.read_text("utf-8") for path in NATIVE.glob("*.c"))
    defined = set(re.findall(r"^(?:\w+_)?KERNEL\((\w+)", text, re.MULTILINE))
    return [name for name in read_kernels() if name not in defined and name not in cuda_kernels()]


def jobs_for(sets: dict[str, list[str]], once: Sequence[str]) -> list[Job]:
    """Every object of a library; BuildError when a kernel of kernels.h has no source."""
    if missing := missing_kernels():
        raise BuildError(f"no source defines {', '.join(missing)}")
    first = next(iter(sets.values()))
    shared = [f'-DPYAPP_SIGNATURE="{signature()}"', f"-DSETS(SET)={' '.join(f'SET({name})' for name in sets)}"]
    shared += first if len(sets) == 1 else []
    jobs = [(NATIVE / name, Path(name).stem, shared) for name in once]
    sources = sorted(path for path in NATIVE.glob("*.c") if path.name not in RUNNERS)
    for name, flags in sets.items():
        for source in sources:
            level = "-Os" if source.name in SMALL else "-O2" if source.name in MEDIUM else "-O3"
            size = [level, *(DOWNLOADED[name] if level == "-Os" else [])] if name in DOWNLOADED else []
            exact = ["-ffp-contract=off"] if source.name in UNFUSED else []
            jobs.append((source, f"{source.stem}-{name}", [*flags, f"-DINSTRUCTION_SET={name}", *size, *exact]))
    return jobs


@functools.cache
def identity(*compiler: str) -> str:
    """What a compiler says of its version: another one makes other objects, and brings other system headers."""
    return run([*compiler, "--version"])


def with_headers(source: Path, generated: dict[str, str]) -> dict[str, str]:
    """Name to text of a source and of all headers of ours that it includes; `generated` are those of no file."""
    texts: dict[str, str] = {}
    names = [source.name]
    while names:
        name = names.pop()
        if name not in texts:
            texts[name] = generated[name] if name in generated else (source.parent / name).read_text("utf-8")
            names += re.findall(r'^\s*#\s*include\s+"([^"]+)"', texts[name], re.MULTILINE)
    return texts


def compile_all(compiler: Sequence[str], flags: Sequence[str], jobs: list[Job], folder: Path) -> list[str]:
    """The objects' paths. Those that are not in OBJECTS are compiled, a few at a time, with `folder` for headers.

    An object is named by the hash of all that makes it: the compiler, the flags, the source and its headers.
    """
    generated = {"slots.h": slots_header()}
    for header, text in generated.items():
        (folder / header).write_text(text, "utf-8")
    OBJECTS.mkdir(parents=True, exist_ok=True)

    def compile_one(job: Job) -> str:
        source, name, own = job
        command = [*compiler, *COMMON, *WARNINGS, f"-I{NATIVE}", *own, *flags, "-c", str(source)]
        parts = (command, identity(*compiler), sorted(with_headers(source, generated).items()))
        target = OBJECTS / f"{name}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}.o"
        try:
            os.utime(target)
        except FileNotFoundError:
            run([*command, f"-I{folder}", "-o", str(folder / target.name)])
            place(folder / target.name, target)
        return str(target)

    with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        objects = list(pool.map(compile_one, jobs))
    for old in OBJECTS.glob("*.o"):
        if old.stat().st_mtime < time.time() - OBJECTS_DAYS * 86400:
            old.unlink(missing_ok=True)
    return objects


def up_to_date(target: Path, key: str) -> bool:
    """True when target was built from the same sources with the same command lines; the key is kept beside it."""
    note = target.with_suffix(".key")
    return target.exists() and note.exists() and note.read_text() == key


def build_key(*settings: object) -> str:
    digest = hashlib.sha256(repr(settings).encode())
    for path in sorted([*NATIVE.glob("*.c"), *NATIVE.glob("*.h"), Path(__file__)]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def place(built: Path, target: Path) -> None:
    """Copies a file into place in one step, so that a reader never sees half of it."""
    staged = target.with_suffix(f".new{os.getpid()}")
    shutil.copyfile(built, staged)
    os.replace(staged, target)


def finish(built: Path, target: Path, key: str) -> None:
    """The library, in its place, with its key beside it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    place(built, target)
    target.with_suffix(".key").write_text(key)


def copy_header(out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    header = out / "kernels.h"
    if not header.exists() or header.read_bytes() != (NATIVE / "kernels.h").read_bytes():
        shutil.copyfile(NATIVE / "kernels.h", header)
    return header


def write_declarations(out: Path) -> list[Path]:
    """For the page: kernels.h without its comments, of which it would download 11 kB, and signature() beside it, since
    Python takes a fiftieth of a second there to compute it.
    """
    out.mkdir(parents=True, exist_ok=True)
    text = re.sub(r"/\*.*?\*/", "", (NATIVE / "kernels.h").read_text("utf-8"), flags=re.DOTALL)
    texts = {"declarations.h": re.sub(r"\s*\n", "\n", text), "kernels.signature": signature()}
    for name, text in texts.items():
        (out / name).write_text(text, "utf-8")
    return [out / name for name in texts]


def copy_cuda(out: Path) -> list[Path]:
    """Copies the CUDA sources, and the headers that they include, to `out`/cuda: they are compiled where they run."""
    folder = out / "cuda"
    folder.mkdir(parents=True, exist_ok=True)
    sources = [*(NATIVE / "cuda").glob("*.cu"), *(NATIVE / "cuda").glob("*.h"), *(NATIVE / name for name in FOR_CUDA)]
    texts = {path.name: path.read_text("utf-8") for path in sources} | {"slots.h": slots_header()}
    for old in folder.iterdir():
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        target = folder / name
        if not target.exists() or target.read_text("utf-8") != text:
            target.write_text(text, "utf-8")
    return sorted(folder / name for name in texts)


def copy_webgpu(out: Path) -> list[Path]:
    """Copies the WebGPU sources to `out`/webgpu: browsers compile them."""
    folder = out / "webgpu"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(NATIVE / "webgpu", folder)
    return sorted(folder.iterdir())


def machine_runs(flags: Sequence[str]) -> bool:
    """Whether this machine has the instructions that these flags allow; True where Linux does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return True
    line = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return line is None or {flag.removeprefix("-m") for flag in flags} <= set(line[1].replace("_", "").split())


def sanitized(sets: dict[str, list[str]]) -> list[Job]:
    """The jobs with both sanitizers for the first set, and with AddressSanitizer for the widest that this machine runs.
    The others have the same sources, and compiling takes a minute.
    """
    first = next(iter(sets))
    widest = [name for name, flags in sets.items() if machine_runs(flags)][-1]
    jobs = jobs_for({name: sets[name] for name in dict.fromkeys((first, widest))}, ONCE)
    both, suffix = [*SANITIZE, *UNDEFINED], None if widest == first else f"-{widest}"
    return [
        (source, name, [*own, *(SANITIZE if suffix and name.endswith(suffix) else both)]) for source, name, own in jobs
    ]


def this_machine() -> str:
    """The kind of processor to build for, by Linux' name."""
    if "arm64" in os.environ.get("ARCHFLAGS", ""):  # cibuildwheel cross-compiles on macOS this way
        return "aarch64"
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def this_system() -> str:
    return {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")


def host_compiler(machine: str | None, system: str) -> list[str]:
    """The usual compiler: `cc`, Debian's for another kind of processor, `machine`, or zig's clang for Windows.

    GCC for Windows places vectors of 32 bytes on the stack at addresses that are multiples of 16 only, which crashes
    (its bug 54412). Visual C++ lacks the vector types that the kernels use.
    """
    if system == "windows":
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine or this_machine()}-windows-gnu"]
    return ["cc" if machine is None else f"{machine}-linux-gnu-gcc"]


def build_host(
    out: Path | str = DEFAULT_OUT, sanitize: bool = False, machine: str | None = None, system: str | None = None
) -> list[Path]:
    """Builds libpyapp.so for this machine's kind of processor and system into `out`, with kernels.h and the CUDA
    sources; for another kind, `machine`, or another system, "windows", with the compiler that is there for it.

    Raises BuildError without a compiler, on a failing source, or on a processor that simd.h does not know.
    """
    system = system or this_system()
    usual = host_compiler(machine, system)
    machine = machine or this_machine()
    known = HOST_SETS if system != "windows" else ["x86_64"]  # zig names the sets of ARM otherwise
    if machine not in known:
        raise BuildError(f"no kernels for {machine} on {system}: there are some for {', '.join(known)}")
    compiler = shlex.split(os.environ["CC"]) if "CC" in os.environ else usual
    if shutil.which(compiler[0]) is None:
        raise BuildError(
            f"the kernels need a C compiler, and there is no {compiler[0]}: install one (on Debian: apt install gcc "
            "libc6-dev), name one in the variable CC, or install a wheel that another machine made (make wheel)"
        )
    flags = shlex.split(os.environ.get("ARCHFLAGS", "")) + shlex.split(os.environ.get("CFLAGS", ""))
    flags += ["-pthread"]
    if system == "windows":
        flags += ["-Wno-dll-attribute-on-redeclaration"]  # kernels.h declares for all systems what run.c exports
    link = shlex.split(os.environ.get("LDFLAGS", "")) + LINK[system]
    target, key = Path(out) / "libpyapp.so", build_key(compiler, flags, link, machine)
    header = copy_header(Path(out))
    if not up_to_date(target, key):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            jobs = sanitized(HOST_SETS[machine]) if sanitize else jobs_for(HOST_SETS[machine], ONCE)
            objects = compile_all(compiler, flags, jobs, folder)
            link += [*SANITIZE, *UNDEFINED] if sanitize else []
            run([*compiler, *flags, *objects, *link, "-o", str(folder / "libpyapp.so"), "-lm"])
            finish(folder / "libpyapp.so", target, key)
    return [target, header, *copy_cuda(Path(out))]


def emcc_command() -> list[str]:
    return shlex.split(os.environ.get("EMCC", "emcc"))


@functools.cache
def emcc_compiler() -> list[str]:
    """The clang that emcc runs for a source, with emcc's flags: emcc itself takes a third of a second more, for each of
    80 sources. emcc, where it is chosen from outside or does not say which clang that is.
    """
    if "EMCC" in os.environ or "PYODIDE" in os.environ:
        return emcc_command()
    try:
        root, version = (run(["em-config", name]).strip() for name in ("LLVM_ROOT", "LLVM_ADD_VERSION"))
    except BuildError:
        return emcc_command()
    clang = shutil.which(f"{root}/clang-{version}" if version.isdecimal() else f"{root}/clang")
    return [clang, *shlex.split(run([*emcc_command(), "--cflags"]))] if clang else emcc_command()


def link_with_emcc(objects: Sequence[str], flags: Sequence[str], target: Path) -> None:
    extra = shlex.split(os.environ.get("LDFLAGS", "")) if "PYODIDE" in os.environ else []  # set by `pyodide build`
    run([*emcc_command(), *objects, *EMCC_LINK, *flags, *extra, "-o", str(target)])


def build_simd128(out: Path) -> Path:
    """Builds libpyapp_simd.wasm with emcc: for every browser with WebAssembly SIMD."""
    target, key = out / "libpyapp_simd.wasm", build_key(emcc_command(), emcc_compiler())
    if not up_to_date(target, key):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            objects = compile_all(emcc_compiler(), WASM, jobs_for({"simd128": []}, ["run.c"]), folder)
            link_with_emcc(objects, WASM, folder / "simd.so")
            finish(folder / "simd.so", target, key)
    return target


def newest(tool: str) -> str | None:
    """The tool with the highest version of 17 and above, as Debian names them; None without one."""
    found = [name for version in range(30, 16, -1) if (name := shutil.which(f"{tool}-{version}"))]
    return found[0] if found else None


def relaxed_tools() -> tuple[list[str], list[str], list[str]] | None:
    """(compiler, flags, linker): clang and wasm-ld of LLVM 17 or newer, or an emcc that has them; None without."""
    clang, linker = newest("clang"), newest("wasm-ld")
    if clang and linker:
        headers = Path(run(["em-config", "CACHE"]).strip()) / "sysroot" / "include"
        return [clang], [*RELAXED_CLANG, *WASM, "-isystem", str(headers)], [linker]
    version = re.search(r"(\d+)\.(\d+)\.(\d+)", run([*emcc_command(), "--version"]))
    if version and tuple(map(int, version.groups())) >= EMCC_WITH_LLVM_17:
        return emcc_command(), [*WASM, "-mrelaxed-simd"], []
    return None


def build_relaxed(out: Path) -> Path | None:
    """Builds libpyapp_relaxed.wasm, for browsers with relaxed SIMD; None (with a message) without tools for it."""
    tools = relaxed_tools()
    if tools is None:
        print(
            "native: no clang and wasm-ld of LLVM 17 or newer: libpyapp_relaxed.wasm is left out (the page is slower)",
            file=sys.stderr,
        )
        return None
    compiler, flags, linker = tools
    target, key = out / "libpyapp_relaxed.wasm", build_key(tools)
    if not up_to_date(target, key):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            objects = compile_all(compiler, flags, jobs_for({"relaxed": []}, ["run.c"]), folder)
            built = folder / "relaxed.so"
            if linker:
                exports = [f"--export=pyapp_{name}" for name in EXPORTS]
                run([*linker, *RELAXED_LINK, *exports, *objects, "-o", str(built)])
            else:
                link_with_emcc(objects, flags, built)
            finish(built, target, key)
    return target


def build_wasm(out: Path | str = DEFAULT_OUT) -> list[Path]:
    """Builds libpyapp_simd.wasm and, where the tools allow, libpyapp_relaxed.wasm into `out`, with their declarations
    beside them.

    Raises BuildError without Emscripten or on a failing source.
    """
    out = Path(out)
    built = [*write_declarations(out), build_simd128(out), build_relaxed(out), *copy_webgpu(out)]
    return [path for path in built if path]


def build_pool(out: Path | str = POOL_OUT) -> list[Path]:
    """Builds pool_relaxed.wasm and pool_simd.wasm into `out`: the kernels and pool_wasm.c, for the page's threads.

    Returns none (with a message) without wasm-ld of LLVM 17 or newer. Raises BuildError on a failing source.
    """
    linker, tools = newest("wasm-ld"), relaxed_tools()
    if linker is None or tools is None:
        print("native: no wasm-ld of LLVM 17 or newer: the page computes on one thread", file=sys.stderr)
        return []
    built = []
    # emcc's clang compiles simd128: clang 19 crashes on some of these sources.
    for name, set_name, (compiler, flags, _) in (
        ("pool_relaxed.wasm", "relaxed", tools),
        ("pool_simd.wasm", "simd128", (emcc_compiler(), [], [])),
    ):
        target, key = Path(out) / name, build_key(compiler, flags, linker, POOL, POOL_LINK, POOL_EXPORTS)
        if not up_to_date(target, key):
            with tempfile.TemporaryDirectory() as folder_name:
                folder = Path(folder_name)
                jobs = jobs_for({set_name: []}, ["pool_wasm.c"])
                objects = compile_all(compiler, [*flags, *POOL], jobs, folder)
                exports = [f"--export={name}" for name in POOL_EXPORTS]
                run([linker, *POOL_LINK, *exports, *objects, "-o", str(folder / name)])
                finish(folder / name, target, key)
        built.append(target)
    return built


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=["host", "wasm", "pool"])
    parser.add_argument("--out", type=Path, help="folder for the libraries")
    parser.add_argument(
        "--sanitize", action="store_true", help="host with AddressSanitizer and UBSan, into build/sanitized"
    )
    parser.add_argument("--machine", help="host with another kind of processor, as aarch64")
    parser.add_argument("--system", choices=[*LINK], help="host of another system, as windows")
    arguments = parser.parse_args()
    try:
        if arguments.target == "wasm":
            built = build_wasm(arguments.out or DEFAULT_OUT)
        elif arguments.target == "pool":
            built = build_pool(arguments.out or POOL_OUT)
        else:
            out = arguments.out or (SANITIZED_OUT if arguments.sanitize else DEFAULT_OUT)
            built = build_host(out, arguments.sanitize, arguments.machine, arguments.system)
    except BuildError as error:
        print(f"native: {error}", file=sys.stderr)
        return 1
    for path in built:
        print(f"{path} ({path.stat().st_size:,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
