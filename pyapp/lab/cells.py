"""Runs cells of Python one after the other, in one namespace: top-level await, the value of the last line, errors that
name the cell and its line.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import linecache
import os
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

from pyapp import __path__ as _package_path

from .advice import advice
from .answers import Answers, Ask
from .drawing import Drawing
from .image import image
from .output import Send, send_to, show_rest
from .stream import LONGEST_LINE, Printed, Stream
from .table import is_table, table

LIBRARY = str(Path(os.__file__).parent)
PACKAGE = str(Path(next(iter(_package_path))).resolve())
SUGGESTION = ". Did you "  # mean …, or forget to import …: of a traceback
LONGEST_VALUE = 20_000  # characters of a value that is shown
OUTER_FRAMES, INNER_FRAMES = 10, 20  # of a long traceback that are shown
IMAGE_SIDES = (8, 2048)  # arrays of bytes of these sizes are shown as images


class Session:
    """A namespace and its cells. `send(output)` gets what the cells show, `ask()` waits for a line for `input()`."""

    def __init__(self, send: Send, ask: Ask | None = None) -> None:
        self.send = send
        self._ask = ask
        self._module = types.ModuleType("__main__")
        self._module.__dict__["__builtins__"] = __builtins__
        self._files: set[str] = set()
        self._task: asyncio.Task[Any] | None = None

    @property
    def namespace(self) -> dict[str, Any]:
        return self._module.__dict__

    async def run(self, source: str, name: str) -> str:
        """Runs a cell. `name` is what errors call it, such as "3".

        Returns "complete", "failed" (the error was sent) or "stopped" (by KeyboardInterrupt, or `stop`).
        """
        filename = f"<cell {name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        self._files.add(filename)
        return await self._guarded(self._run(source, filename))

    async def call(self, function: Any, *args: Any) -> str:
        """Runs a function of a cell in the same way, and shows what it returns."""

        async def work() -> None:
            value = function(*args)
            self._show(await value if inspect.isawaitable(value) else value)

        return await self._guarded(work())

    def stop(self) -> None:
        """Ends a cell that waits (`await`). One that computes is ended by KeyboardInterrupt."""
        if self._task is not None:
            self._task.cancel()

    async def _guarded(self, work: Any) -> str:
        printed = Printed(self.send)
        out, err = Stream(printed, "stdout"), Stream(printed, "stderr")
        main, stdin, form = sys.modules.get("__main__"), sys.stdin, warnings.formatwarning
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                sys.modules["__main__"] = self._module
                if self._ask is not None:
                    sys.stdin = Answers(self._ask)
                send_to(self.send)
                warnings.formatwarning = self._warning
                self._task = asyncio.ensure_future(self._outcome(work))
                try:
                    return await self._task
                finally:
                    self._task = None
                    show_rest()
                    out.flush()
                    err.flush()
                    printed.flush()
        except (KeyboardInterrupt, asyncio.CancelledError):  # between two lines of this function
            return "stopped"
        finally:
            send_to(None)
            sys.stdin, warnings.formatwarning = stdin, form
            if main is not None:
                sys.modules["__main__"] = main

    async def _outcome(self, work: Any) -> str:
        """Catches all that a cell raises: the event loop ends at a KeyboardInterrupt or SystemExit of a task."""
        try:
            await work
        except (KeyboardInterrupt, asyncio.CancelledError):
            return "stopped"
        except SystemExit as error:
            if error.code not in (None, 0):
                print(f"The cell ended with exit code {error.code}.", file=sys.stderr)
        except MemoryError as error:
            hint = "Delete large variables (del name), use smaller batches, or restart Python."
            return self._failed(error, hint)
        except BaseException as error:
            return self._failed(error, advice(error))
        return "complete"

    def _warning(
        self, message: Any, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        """A warning of Python in words: where it was, if that was in a cell."""
        place = f"Cell {filename[6:-1]}, line {lineno}: " if filename in self._files else ""
        return f"{place}{category.__name__}: {message}\n"

    def _failed(self, error: BaseException, hint: str | None = None) -> str:
        sys.stdout.flush()
        sys.stderr.flush()
        self.send(self._error(error, hint))
        return "failed"

    async def _run(self, source: str, filename: str) -> None:
        for code, last in compiled(source, filename):
            value = eval(code, self.namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                value = await value
            if last:
                self._show(value)

    def _show(self, value: Any) -> None:
        """Shows the value of a cell's last line, unless it is None. `_` is its name afterwards."""
        if value is None or isinstance(value, Drawing):  # a field is shown already
            return
        self.namespace["_"] = value
        sys.stdout.flush()
        if is_table(value):
            table(value)
        elif is_picture(value):
            image(value)
        else:
            text = repr(value)
            if len(text) > LONGEST_VALUE:
                text = f"{text[:LONGEST_VALUE]}… ({len(text):,} characters)"
            self.send({"kind": "value", "text": text})

    def _error(self, error: BaseException, hint: str | None = None) -> dict[str, Any]:
        frames = [frame for frame in walk(error.__traceback__) if not hidden(frame[0], self._files)]
        cells: list[tuple[str | None, int | None]] = [(file, line) for file, line, _ in frames if file in self._files]
        if isinstance(error, SyntaxError) and error.filename in self._files:
            cells = [(error.filename, error.lineno or 1)]
        lines = ["Traceback (most recent call last):"] if frames else []
        left_out = range(OUTER_FRAMES, len(frames) - INNER_FRAMES)  # of a recursion without an end
        for i, (file, line, name) in enumerate(frames):
            if i in left_out:
                if i == left_out[0]:
                    lines.append(f"  … {len(left_out)} calls are left out …")
                continue
            place = f"Cell {file[6:-1]}" if file in self._files else f'File "{file}"'
            inside = "" if name == "<module>" else f", in {name}"
            lines.append(f"  {place}, line {line}{inside}")
            if source := linecache.getline(file, line).strip():
                lines.append(f"    {source[:LONGEST_LINE]}")
        told = traceback.TracebackException(type(error), error, error.__traceback__, lookup_lines=False, compact=True)
        said = "".join(told.format_exception_only()).rstrip()[:LONGEST_VALUE]
        if isinstance(error, NameError) and SUGGESTION in said:
            hint = None  # Python's own is better
        for file in self._files:
            said = said.replace(f'File "{file}"', f"Cell {file[6:-1]}")
        lines += said.split("\n")
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is not None:
            lines.append(f"  caused by {type(cause).__name__}: {cause}"[:1000])
        parts = error.exceptions[:INNER_FRAMES] if isinstance(error, BaseExceptionGroup) else ()
        lines += [f"  with {type(part).__name__}: {part}"[:1000] for part in parts]
        cell, where = cells[-1] if cells else (None, None)
        return {
            "kind": "error", "name": type(error).__name__, "text": "\n".join(lines), "hint": hint,
            "cell": cell[6:-1] if cell else None, "line": where,
        }  # fmt: skip


def compiled(source: str, filename: str) -> Iterator[tuple[CodeType, bool]]:
    """The code of a cell: all statements, then the last line if it is an expression (True).

    A semicolon at the end hides its value, as in other notebooks.
    """
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(source, filename, "exec", flags | ast.PyCF_ONLY_AST)
    assert isinstance(tree, ast.Module)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    if tree.body:
        yield compile(tree, filename, "exec", flags), False
    if last is not None:
        yield compile(last, filename, "eval", flags), True


def walk(trace: TracebackType | None) -> Iterator[tuple[str, int, str]]:
    """(file, line, function) of each frame, the outermost first."""
    for frame, line in traceback.walk_tb(trace):
        yield frame.f_code.co_filename, line, frame.f_code.co_name


def hidden(file: str, cells: set[str]) -> bool:
    """Whether a frame says nothing to the reader: those of pyapp, of other libraries, and of Python's own."""
    return file not in cells and (file.startswith((PACKAGE, LIBRARY, "<")) or "/site-packages/" in file)


def is_picture(value: Any) -> bool:
    """Whether a value is shown as an image: an array of bytes (H, W), (H, W, 3) or (H, W, 4)."""
    shape = tuple(getattr(value, "shape", ()))
    if str(getattr(value, "dtype", "")) not in ("uint8", "pyapp.uint8") or len(shape) not in (2, 3):
        return False
    low, high = IMAGE_SIDES
    return (len(shape) == 2 or shape[2] in (3, 4)) and all(low <= side <= high for side in shape[:2])
