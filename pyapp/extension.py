"""Kernels of one's own: C functions, compiled by the system's compiler, or given as a side module in the page.

    kernels = load("rms_norm.c", rms_norm="y x weight | rows columns | epsilon")
    kernels.rms_norm(y, x, weight, rows, columns, 1e-5)

calls `int rms_norm(float *y, const float *x, const float *weight, intptr_t rows, intptr_t columns, float epsilon)`.
See docs/custom_ops.md.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .engine.launch import capturing, record_call
from .engine.native import IN_BROWSER
from .engine.op import describe, op
from .engine.ops.base import definition_gradient
from .engine.tensor import Tensor
from .errors import KernelError

HOST_FLAGS = ["-std=gnu11", "-O3", "-march=native", "-fPIC", "-shared", "-ffp-contract=fast", "-fno-math-errno"]
WASM_FLAGS = ["-std=gnu11", "-O3", "-fPIC", "-msimd128", "-mbulk-memory", "-ffp-contract=fast", "-fno-math-errno"]


class Kernel:
    """A C function of tensors, then whole numbers (`intptr_t`), then `float`s, which the signature names: "tensors |
    sizes | floats". Calling it checks the arguments; a tensor is given as the address of its first element, and must be
    dense; a name that ends in "?" may be None. Inside `capture` the call becomes part of the Graph.
    """

    def __init__(self, name: str, signature: str, function: Any, where: str) -> None:
        groups = [group.split() for group in signature.split("|")]
        if len(groups) != 3:
            raise ValueError(f"kernel {name}: the signature is 'tensors | sizes | floats', not {signature!r}")
        self.name, self.signature, self.where = name, signature, where
        self.tensors, self.sizes, self.floats = groups
        self._function = function
        function.restype = ctypes.c_int
        function.argtypes = (
            [ctypes.c_void_p] * len(self.tensors)
            + [ctypes.c_ssize_t] * len(self.sizes)
            + [ctypes.c_float] * len(self.floats)
        )

    def __call__(self, *arguments: Any) -> None:
        """Runs it. TypeError or ValueError for arguments that do not fit; KernelError when it does not return 0."""
        count = len(self.tensors)
        if len(arguments) != count + len(self.sizes) + len(self.floats):
            raise TypeError(f"kernel {self.name} takes ({self.signature}), got {len(arguments)} arguments")
        addresses = [self._address(name, value) for name, value in zip(self.tensors, arguments[:count], strict=True)]
        values = (*addresses, *arguments[count:])

        def run() -> None:
            status = self._function(*values)
            if status:
                raise KernelError(f"status {status}", where=f"kernel {self.name} of {self.where}")

        run()
        if capturing():
            record_call(self.name, run)

    def _address(self, name: str, value: Any) -> int:
        if value is None and name.endswith("?"):
            return 0
        if not isinstance(value, Tensor):
            raise TypeError(f"kernel {self.name}: {name} must be a tensor, got {describe(value)}")
        if not value.is_contiguous():
            raise ValueError(
                f"kernel {self.name}: {name}, {describe(value)} with strides {value.strides}, is not dense; "
                "call contiguous() first"
            )
        return value.address

    def __repr__(self) -> str:
        return f"<kernel {self.name}({self.signature}) of {self.where}>"


class Kernels:
    """The kernels of one library, as attributes."""

    def __init__(self, path: Path, signatures: dict[str, str]) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise KernelError(f"the kernels do not load: {error}", where=str(path)) from error
        self.path = path
        for name, signature in signatures.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise KernelError(f"there is no function {name!r}", where=str(path)) from None
            setattr(self, name, Kernel(name, signature, function, path.name))

    def __getattr__(self, name: str) -> Kernel:
        raise AttributeError(f"no kernel {name!r} was named in load()")


def load(source: str | os.PathLike[str], **signatures: str) -> Kernels:
    """The kernels of a C source, compiled now unless that was done before, or of a library that is there already.

    In the page the side module that lies beside the source, `NAME.wasm.so` (see build_side_module), is taken instead.
    `signatures`: name of a function="tensors | sizes | floats". KernelError without compiler, library or function.
    """
    path = Path(source)
    if path.suffix == ".c":
        path = side_module_path(path) if IN_BROWSER else build(path)
    if not path.is_file():
        hint = "Build it with `python -m pyapp.extension SOURCE.c`" if IN_BROWSER else None
        raise KernelError("the kernels are not there", where=str(path), hint=hint)
    return Kernels(path, signatures)


def side_module_path(source: Path) -> Path:
    """Where the page looks for the kernels of a source."""
    return source.with_suffix(".wasm.so")


def _run(command: list[str], source: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise KernelError(
            f"no compiler: {command[0]} was not found", where=str(source), hint="Install one, or set CC"
        ) from None
    if done.returncode:
        raise KernelError(f"it does not compile: {done.stderr.strip()[-2000:]}", where=str(source))


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pyapp" / "extensions"


def build(source: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Path:
    """Compiles a C source for this machine with `CC` (cc) and `CFLAGS`; the library's path, in the user's cache or
    `folder`. The same source and flags are compiled once. KernelError without a compiler, or with its complaints.
    """
    path = Path(source)
    if not path.is_file():
        raise KernelError("the source is not there", where=str(path))
    command = [*shlex.split(os.environ.get("CC", "cc")), *HOST_FLAGS, *shlex.split(os.environ.get("CFLAGS", ""))]
    digest = hashlib.sha256(
        repr((command, platform.node(), platform.machine())).encode() + path.read_bytes()
    ).hexdigest()[:16]
    target = Path(folder or _cache()) / f"{path.stem}-{digest}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            built = Path(scratch) / target.name
            _run([*command, str(path), "-o", str(built), "-lm"], path)
            os.replace(built, target)  # in one step: a reader never sees half of it
    return target


def _functions(source: Path) -> list[str]:
    """Names of the functions that a C source defines and exports."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", source.read_text(), flags=re.DOTALL)
    return re.findall(r"^int\s+(\w+)\s*\([^;{]*\)\s*\{", text, flags=re.MULTILINE)


def build_side_module(source: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> Path:
    """Compiles a C source for the page: a WebAssembly side module, `NAME.wasm.so` beside it or `target`, with clang and
    wasm-ld of LLVM 17 or newer, or with `EMCC` (emcc). It may call the C library as Pyodide has it. KernelError without
    these tools.
    """
    path = Path(source)
    out = Path(target or side_module_path(path))
    found = [v for v in range(30, 16, -1) if shutil.which(f"clang-{v}") and shutil.which(f"wasm-ld-{v}")]
    names = _functions(path)
    headers = _emscripten_headers()
    if found and headers:
        with tempfile.TemporaryDirectory() as scratch:
            compiled = str(Path(scratch) / "kernels.o")
            flags = ["--target=wasm32-unknown-emscripten", "-fno-stack-protector", *WASM_FLAGS]
            _run([f"clang-{found[0]}", *flags, "-isystem", headers, "-c", str(path), "-o", compiled], path)
            link = ["--shared", "--experimental-pic", "--no-entry", "--unresolved-symbols=import-dynamic"]
            exports = [f"--export={name}" for name in names]
            _run([f"wasm-ld-{found[0]}", *link, "--strip-all", *exports, compiled, "-o", str(out)], path)
        return out
    exported = "-sEXPORTED_FUNCTIONS=" + ",".join("_" + name for name in names)
    emcc = shlex.split(os.environ.get("EMCC", "emcc"))
    _run([*emcc, *WASM_FLAGS, "-sSIDE_MODULE=2", exported, str(path), "-o", str(out)], path)
    return out


def _emscripten_headers() -> str | None:
    """The folder of Emscripten's C headers."""
    tool = shutil.which("em-config")
    if tool is None:
        return None
    done = subprocess.run([tool, "CACHE"], capture_output=True, text=True)
    folder = Path(done.stdout.strip()) / "sysroot" / "include"
    return str(folder) if folder.is_dir() else None


def main(arguments: list[str]) -> int:
    """python -m pyapp.extension SOURCE.c ...: writes the side modules for the page."""
    if not arguments:
        print(main.__doc__, file=sys.stderr)
        return 2
    try:
        for source in arguments:
            print(build_side_module(source))
    except KernelError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


__all__ = ["Kernel", "Kernels", "build", "build_side_module", "definition_gradient", "load", "op", "side_module_path"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
