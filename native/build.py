"""Builds the kernels: `python native/build.py host [--sanitize]` or `python native/build.py wasm`.

Needs a C compiler only (`CC`, `CFLAGS` are honoured). Imported by the wheel's build hook: `build_host(out)` and
`build_wasm(out)` return the files that they left in `out`; what is up to date is not built again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

NATIVE = Path(__file__).resolve().parent
DEFAULT_OUT = NATIVE.parent / "pyapp" / "_native"
SANITIZED_OUT = NATIVE.parent / "build" / "sanitized"
ONCE = ("run.c", "pool.c")  # every other source is a kernel source: compiled once for each instruction set

WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter"]
COMMON = ["-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden"]
COMMON += ["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]  # never -ffast-math: NaN and infinity count
HOST_SETS: dict[str, dict[str, list[str]]] = {
    "x86_64": {
        "baseline": ["-msse2"],
        "avx2": ["-mavx2", "-mfma", "-mf16c"],
        "avx512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mfma", "-mf16c"],
    },
    "aarch64": {"neon": []},
}
SANITIZE = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
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


Job = tuple[Path, str, list[str]]  # source, name of the object, its own flags


class BuildError(RuntimeError):
    """A tool is missing or a source does not compile; the text says which."""


def signature() -> str:
    """Hexadecimal FNV-1a 64 of kernels.h, as engine/native.py computes it."""
    value = 0xCBF29CE484222325
    for byte in (NATIVE / "kernels.h").read_bytes():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


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


def missing_kernels() -> list[str]:
    """Kernels of kernels.h that no source defines with KERNEL(name)."""
    names = re.findall(r"^\s+KERNEL\((\w+),", (NATIVE / "kernels.h").read_text(), re.MULTILINE)
    text = "\n".join(path.read_text() for path in NATIVE.glob("*.c"))
    defined = set(re.findall(r"^(?:\w+_)?KERNEL\((\w+)", text, re.MULTILINE))
    return [name for name in names if name not in defined]


def jobs_for(sets: dict[str, list[str]], once: Sequence[str]) -> list[Job]:
    """Every object of a library; BuildError when a kernel of kernels.h has no source."""
    if missing := missing_kernels():
        raise BuildError(f"no source defines {', '.join(missing)}")
    first = next(iter(sets.values()))
    shared = [f'-DPYAPP_SIGNATURE="{signature()}"', *(first if len(sets) == 1 else [])]
    jobs = [(NATIVE / name, Path(name).stem, shared) for name in once]
    sources = sorted(path for path in NATIVE.glob("*.c") if path.name not in ONCE)
    for name, flags in sets.items():
        jobs += [(source, f"{source.stem}-{name}", [*flags, f"-DINSTRUCTION_SET={name}"]) for source in sources]
    return jobs


def compile_all(compiler: Sequence[str], flags: Sequence[str], jobs: list[Job], folder: Path) -> list[str]:
    """Compiles into `folder`, a few at a time; the objects' paths."""

    def compile_one(job: Job) -> str:
        source, name, own = job
        target = folder / f"{name}.o"
        run([*compiler, *COMMON, *WARNINGS, f"-I{NATIVE}", *own, *flags, "-c", str(source), "-o", str(target)])
        return str(target)

    with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(compile_one, jobs))


def up_to_date(target: Path, key: str) -> bool:
    """True when target was built from the same sources with the same command lines; the key is kept beside it."""
    note = target.with_suffix(".key")
    return target.exists() and note.exists() and note.read_text() == key


def build_key(*settings: object) -> str:
    digest = hashlib.sha256(repr(settings).encode())
    for path in sorted([*NATIVE.glob("*.c"), *NATIVE.glob("*.h"), Path(__file__)]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def finish(built: Path, target: Path, key: str) -> Path:
    """Moves the library into place in one step, so that a reader never sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_suffix(f".new{os.getpid()}")
    shutil.copyfile(built, staged)
    os.replace(staged, target)
    target.with_suffix(".key").write_text(key)
    return target


def copy_header(out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    header = out / "kernels.h"
    if not header.exists() or header.read_bytes() != (NATIVE / "kernels.h").read_bytes():
        shutil.copyfile(NATIVE / "kernels.h", header)
    return header


def build_host(out: Path | str = DEFAULT_OUT, sanitize: bool = False) -> list[Path]:
    """Builds libpyapp.so for this machine's kind of processor into `out`, with kernels.h beside it.

    Raises BuildError without a compiler, on a failing source, or on a processor that simd.h does not know.
    """
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if "arm64" in os.environ.get("ARCHFLAGS", ""):  # cibuildwheel cross-compiles on macOS this way
        machine = "aarch64"
    if machine not in HOST_SETS:
        raise BuildError(f"no kernels for {machine}: native/simd.h knows {', '.join(HOST_SETS)}")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = shlex.split(os.environ.get("ARCHFLAGS", "")) + shlex.split(os.environ.get("CFLAGS", ""))
    flags += ["-pthread"] + (SANITIZE if sanitize else [])
    link = shlex.split(os.environ.get("LDFLAGS", ""))
    link += ["-dynamiclib"] if sys.platform == "darwin" else ["-shared", "-Wl,-z,nodelete"]
    target, key = Path(out) / "libpyapp.so", build_key(compiler, flags, link, machine)
    header = copy_header(Path(out))
    if not up_to_date(target, key):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            objects = compile_all(compiler, flags, jobs_for(HOST_SETS[machine], ONCE), folder)
            run([*compiler, *flags, *objects, *link, "-o", str(folder / "libpyapp.so"), "-lm"])
            finish(folder / "libpyapp.so", target, key)
    return [target, header]


def emcc_command() -> list[str]:
    return shlex.split(os.environ.get("EMCC", "emcc"))


def link_with_emcc(objects: Sequence[str], flags: Sequence[str], target: Path) -> None:
    extra = shlex.split(os.environ.get("LDFLAGS", "")) if "PYODIDE" in os.environ else []  # set by `pyodide build`
    run([*emcc_command(), *objects, *EMCC_LINK, *flags, *extra, "-o", str(target)])


def build_simd128(out: Path) -> Path:
    """Builds libpyapp_simd.so with emcc: for every browser with WebAssembly SIMD."""
    target, key = out / "libpyapp_simd.so", build_key(emcc_command())
    if not up_to_date(target, key):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            objects = compile_all(emcc_command(), WASM, jobs_for({"simd128": []}, ["run.c"]), folder)
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
    """Builds libpyapp_relaxed.so, for browsers with relaxed SIMD; None (with a message) without tools for it."""
    tools = relaxed_tools()
    if tools is None:
        print(
            "native: no clang and wasm-ld of LLVM 17 or newer: libpyapp_relaxed.so is left out (the page is slower)",
            file=sys.stderr,
        )
        return None
    compiler, flags, linker = tools
    target, key = out / "libpyapp_relaxed.so", build_key(tools)
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
    """Builds libpyapp_simd.so and, where the tools allow, libpyapp_relaxed.so into `out`, with kernels.h beside them.

    Raises BuildError without Emscripten or on a failing source.
    """
    out = Path(out)
    built = [copy_header(out), build_simd128(out), build_relaxed(out)]
    return [path for path in built if path]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=["host", "wasm"])
    parser.add_argument("--out", type=Path, help="folder for the libraries")
    parser.add_argument(
        "--sanitize", action="store_true", help="host with AddressSanitizer and UBSan, into build/sanitized"
    )
    arguments = parser.parse_args()
    try:
        if arguments.target == "wasm":
            built = build_wasm(arguments.out or DEFAULT_OUT)
        else:
            out = arguments.out or (SANITIZED_OUT if arguments.sanitize else DEFAULT_OUT)
            built = build_host(out, arguments.sanitize)
    except BuildError as error:
        print(f"native: {error}", file=sys.stderr)
        return 1
    for path in built:
        print(f"{path} ({path.stat().st_size:,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
