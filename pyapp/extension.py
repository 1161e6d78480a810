"""User-defined kernels: C functions, compiled by the system's compiler, or loaded from a side module in the page.

    kernels = load("rms_norm.c", rms_norm="y x weight | rows columns | epsilon")
    kernels.rms_norm(y, x, weight, rows, columns, 1e-5)

calls `int rms_norm(float *y, const float *x, const float *weight, intptr_t rows, intptr_t columns, float epsilon)`.
See docs/custom_ops.md.
"""

from __future__ import annotations

import ctypes
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .engine.launch import capturing, record_call
from .engine.native import IN_BROWSER
from .engine.op import Op
from .engine.ops.composite_gradient import definition_gradient
from .engine.tensor import Tensor
from .engine.user_errors import describe
from .errors import KernelError
from .extension_arguments import Signature, c_type
from .extension_cuda import CudaKernels

WINDOWS_COMPILER = [sys.executable, "-m", "ziglang", "cc"]  # the extra "windows"
HOST_FLAGS = ["-std=gnu11", "-O3", "-march=native", "-fPIC", "-shared", "-ffp-contract=fast", "-fno-math-errno"]
WASM_FLAGS = ["-std=gnu11", "-O3", "-fPIC", "-msimd128", "-mbulk-memory", "-ffp-contract=fast", "-fno-math-errno"]


def op(vjp: Any = None, saves: str = "inputs", name: str | None = None, method: bool = False) -> Any:
    """Makes an op of a definition in other ops, as `pyapp.engine.op.op`, whose kernels and gradients are checked: a
    kernel returns a tensor (or NotImplemented), a gradient one tensor, or None, for each argument, of its shape.
    """

    def wrap(function: Any) -> _CheckedOp:
        made = _CheckedOp(name or function.__name__, function, None, saves, False, function.__module__)
        made.__doc__ = function.__doc__
        if vjp is not None:
            made.gradient(vjp)
        if method:
            setattr(Tensor, made.name, made)
        return made

    return wrap


class _CheckedOp(Op):
    """An op with user-defined kernels and gradient."""

    def kernel(self, device: str) -> Any:
        register = super().kernel(device)

        def checked(function: Any) -> Any:
            @functools.wraps(function)
            def run(*args: Any, **kwargs: Any) -> Any:
                result = function(*args, **kwargs)
                if result is not NotImplemented and not isinstance(result, Tensor):
                    raise TypeError(
                        f"{self.name}: its {device} kernel returned {describe(result)}; it must return a tensor, or "
                        "NotImplemented for arguments that it does not take"
                    )
                return result

            register(run)
            return function

        return checked

    def gradient(self, vjp: Any) -> Any:
        @functools.wraps(vjp)
        def checked(grad: Any, output: Any, *args: Any) -> tuple[Any, ...]:
            return _checked_gradients(self.name, vjp(grad, output, *args), args)

        super().gradient(checked)
        return vjp


def _checked_gradients(name: str, found: Any, args: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients of an op's arguments. TypeError or ValueError if they are not valid gradients."""
    if not isinstance(found, tuple | list):
        raise TypeError(
            f"{name}: its gradient returned {describe(found)}; it must return a tuple, aligned with its arguments"
        )
    if any(gradient is not None for gradient in found[len(args) :]):  # None for defaults that were not given
        raise ValueError(f"{name}: its gradient returned {len(found)} gradients for {len(args)} arguments")
    for at, (gradient, value) in enumerate(zip(found, args, strict=False), 1):
        if gradient is None:
            continue
        if not isinstance(gradient, Tensor):
            raise TypeError(f"{name}: gradient {at} is {describe(gradient)}, expected a tensor or None")
        if isinstance(value, Tensor) and gradient.shape != value.shape:
            raise ValueError(f"{name}: gradient {at} is {describe(gradient)}, but argument {at} is {describe(value)}")
    return tuple(found[: len(args)])


class Kernel(Signature):
    """A C function of tensors, then whole numbers (`intptr_t`), then `float`s, which the signature names: "tensors |
    sizes | floats". Calling it checks the arguments. A tensor is passed as the address of its first element, and must
    be dense and on the CPU; a name that ends in "?" may be None. Inside `capture` the call becomes part of the Graph.

    A tensor must have the dtype in the signature ("ids:int32"), else a dtype that fits the function's C type if the
    source is known (`declared`: C types by position), else float32. `:any` accepts every dtype.
    """

    def __init__(
        self, name: str, signature: str, function: Any, where: str, declared: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, signature, declared)
        self.where = where
        self._function = function
        function.restype = ctypes.c_int
        function.argtypes = (
            [ctypes.c_void_p] * len(self.tensors)
            + [ctypes.c_ssize_t] * len(self.sizes)
            + [ctypes.c_float] * len(self.floats)
        )

    def __call__(self, *arguments: Any) -> None:
        """Runs the function. TypeError or ValueError for arguments that do not fit; KernelError if it does not return
        0.
        """
        tensors, sizes, floats = self.parted(arguments)
        values = (*map(self._address, self.tensors, tensors), *sizes, *floats)

        def run() -> None:
            status = self._function(*values)
            if status:
                raise KernelError(f"status {status}", where=f"kernel {self.name} of {self.where}")

        run()
        if capturing():
            record_call(run, tuple(tensor for tensor in tensors if tensor is not None))

    def _address(self, name: str, value: Tensor | None) -> int:
        if value is None:
            return 0
        if not value.device.backend.host_visible:
            raise ValueError(f"kernel {self.name}: {name}, {describe(value)}, is not on the CPU; call .to('cpu') first")
        return int(value.address)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({self.signature}) of {self.where}>"


def _declarations(source: Path) -> dict[str, list[str]]:
    """The types of the arguments of the functions that a C source exports, by name: "float *", "intptr_t" …"""
    try:
        text = source.read_text("utf-8", "replace")
    except OSError:
        return {}
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    found = {}
    for name, arguments in re.findall(r"^int\s+(\w+)\s*\(([^;{()]*)\)\s*\{", text, flags=re.MULTILINE):
        types = [] if arguments.strip() in ("", "void") else [c_type(part) for part in arguments.split(",")]
        found[name] = types
    return found


class Kernels:
    """The kernels of one library, as attributes."""

    def __init__(self, path: Path, signatures: dict[str, str], source: Path | None = None) -> None:
        declared = _declarations(source) if source is not None else {}
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
            setattr(self, name, Kernel(name, signature, function, path.name, declared.get(name)))

    def __getattr__(self, name: str) -> Kernel:
        raise AttributeError(f"no kernel {name!r} was named in load()")


def load(source: str | os.PathLike[str], **signatures: str) -> Any:
    """The kernels of a C source, which is compiled unless it was before, or of a compiled library: a Kernels. Those of
    a CUDA source, NAME.cu, are compiled for a card when they are first called: a CudaKernels.

    In the page the side module beside the source, `NAME.wasm.so` (see build_side_module), is loaded instead.
    `signatures`: name of a function="tensors | sizes | floats". KernelError without compiler, library or function.
    """
    path = Path(source)
    if path.suffix == ".cu":
        return CudaKernels(path, signatures)
    written = path if path.suffix == ".c" else None
    if written is not None:
        path = side_module_path(path) if IN_BROWSER else build(path)
    if not path.is_file():
        hint = "Build it with `python -m pyapp.extension SOURCE.c`" if IN_BROWSER else None
        raise KernelError("the kernels are not there", where=str(path), hint=hint)
    return Kernels(path, signatures, written)


def side_module_path(source: Path) -> Path:
    """The path of the page's side module for a source."""
    return source.with_suffix(".wasm.so")


def _run(command: list[str], source: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except FileNotFoundError:
        raise KernelError(
            f"no compiler: {command[0]} was not found", where=str(source), hint="Install one, or set CC"
        ) from None
    except OSError as error:
        raise KernelError(
            f"the compiler {command[0]} does not run ({error.strerror})", where=str(source), hint="Check CC"
        ) from error
    if done.returncode:
        raise KernelError(f"it does not compile: {done.stderr.strip()[-2000:]}", where=str(source))


def _words(variable: str, default: str = "") -> list[str]:
    """The words of an environment variable, split as by a shell. KernelError for unbalanced quotes, or no words."""
    text = os.environ.get(variable, default)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise KernelError(
            f"{text!r} cannot be cut into words ({error})", where=variable, hint="Check its quotes"
        ) from None
    if default and not words:
        raise KernelError("it names no compiler", where=variable, hint=f"Unset it, or set it to {default}")
    return words


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pyapp" / "extensions"


def build(source: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Path:
    """Compiles a C source for this machine with `CC` (cc; on Windows the one of the package ziglang) and `CFLAGS`; the
    library's path, in the user's cache or `folder`. The same source and flags are compiled once. KernelError without a
    compiler, or with its complaints.
    """
    path = Path(source)
    if not path.is_file():
        raise KernelError("there is no such source file", where=str(path))
    compiler = WINDOWS_COMPILER if sys.platform == "win32" and "CC" not in os.environ else _words("CC", "cc")
    command = [*compiler, *HOST_FLAGS, *_words("CFLAGS")]
    digest = hashlib.sha256(
        repr((command, platform.node(), platform.machine())).encode() + path.read_bytes()
    ).hexdigest()[:16]
    target = Path(folder or _cache()) / f"{path.stem}-{digest}.so"
    if not target.exists():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch = tempfile.TemporaryDirectory(dir=target.parent)
        except OSError as error:
            if folder is not None:
                raise
            return build(source, _own_folder(error))
        with scratch:
            built = Path(scratch.name) / target.name
            # An absolute path: a path that begins with "-" would be an option.
            _run([*command, str(path.absolute()), "-o", str(built), "-lm"], path)
            os.replace(built, target)  # atomic: readers never see a partial file
    return target


_folder: tempfile.TemporaryDirectory[str] | None = None


def _own_folder(why: OSError) -> str:
    """A temporary folder of this process for libraries, if the user's cache is not writable. KernelError if there is
    none.
    """
    global _folder
    if _folder is None:
        try:
            _folder = tempfile.TemporaryDirectory(prefix="pyapp-extensions-")
        except OSError:
            raise KernelError(
                f"the cache cannot be written to ({why.strerror})",
                where=str(_cache()),
                hint="Set XDG_CACHE_HOME to a folder that you may write to",
            ) from why
    return _folder.name


def _functions(source: Path) -> list[str]:
    """Names of the functions that a C source defines and exports."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", source.read_text("utf-8", "replace"), flags=re.DOTALL)
    return re.findall(r"^int\s+(\w+)\s*\([^;{]*\)\s*\{", text, flags=re.MULTILINE)


def build_side_module(source: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> Path:
    """Compiles a C source for the page: a WebAssembly side module, `NAME.wasm.so` beside it or `target`, with clang and
    wasm-ld of LLVM 17 or newer, or with `EMCC` (emcc). It may call Pyodide's C library. KernelError without
    these tools.
    """
    path = Path(source)
    out = Path(target or side_module_path(path)).absolute()
    found = [v for v in range(30, 16, -1) if shutil.which(f"clang-{v}") and shutil.which(f"wasm-ld-{v}")]
    names = _functions(path)
    headers = _emscripten_headers()
    if found and headers:
        with tempfile.TemporaryDirectory() as scratch:
            compiled = str(Path(scratch) / "kernels.o")
            flags = ["--target=wasm32-unknown-emscripten", "-fno-stack-protector", *WASM_FLAGS]
            _run([f"clang-{found[0]}", *flags, "-isystem", headers, "-c", str(path.absolute()), "-o", compiled], path)
            link = ["--shared", "--experimental-pic", "--no-entry", "--unresolved-symbols=import-dynamic"]
            exports = [f"--export={name}" for name in names]
            _run([f"wasm-ld-{found[0]}", *link, "--strip-all", *exports, compiled, "-o", str(out)], path)
        return out
    exported = "-sEXPORTED_FUNCTIONS=" + ",".join("_" + name for name in names)
    emcc = _words("EMCC", "emcc")
    _run([*emcc, *WASM_FLAGS, "-sSIDE_MODULE=2", exported, str(path.absolute()), "-o", str(out)], path)
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


__all__ = [
    "CudaKernels",
    "Kernel",
    "Kernels",
    "build",
    "build_side_module",
    "definition_gradient",
    "load",
    "op",
    "side_module_path",
]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
