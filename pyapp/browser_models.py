"""The files of the page's models, which are JavaScript objects of the worker, and how models are loaded from them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any

from pyapp import tasks
from pyapp.errors import FileFormatError
from pyapp.events import Cancel, Event
from pyapp.formats.source import check_range
from pyapp.tasks.core import Result
from pyapp.tasks.keeper import keeper

_host: Any = None


def read_by(host: Any) -> None:
    """Stores the worker's functions, of which `readInto(source, view, offset)` reads into memory: whether it could."""
    global _host
    _host = host


def bytes_of(buffer: Any) -> memoryview:
    """A copy of a JavaScript buffer of bytes. MemoryError where there is no room: there Pyodide's own copies
    overwrite other memory.
    """
    data = bytearray(buffer.byteLength)
    buffer.assign_to(data)
    return memoryview(data)


class PageSource:
    """A pyapp.formats ByteSource over a JavaScript object with `name`, `size`, `read(offset, length)` and
    `readInto(bytes, offset)`: a File, or a file the browser keeps. `read_into` copies straight into WebAssembly memory.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self.name: str = source.name
        self.size: int = int(source.size)

    def read(self, offset: int, length: int) -> memoryview:
        check_range(self, offset, length)
        found = self._source.read(offset, length)
        if found is None:
            raise self._gone()
        return bytes_of(found).toreadonly()

    def read_into(self, offset: int, view: memoryview) -> None:
        check_range(self, offset, len(view))
        if len(view) and not _host.readInto(self._source, view, offset):
            raise self._gone()

    def _gone(self) -> FileFormatError:
        hint = "It has been changed, moved or deleted since it was chosen. Choose it again"
        return FileFormatError("this file could not be read", where=self.name, hint=hint)

    def close(self) -> None:
        """The worker closes it."""


class NetworkSource(PageSource):
    """An ONNX network; `key` identifies it."""

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.key: str = source.key


def sources_of(params: Any) -> dict[str, PageSource]:
    """A model's files by role."""
    return {role: PageSource(source) for role, source in params.sources.object_entries()}


def named_files(params: Any) -> dict[str, PageSource]:
    """A model's files by their paths in its folder."""
    sources = params.sources.object_values()
    return {source.path: PageSource(source) for source in sources}


def text_files(params: Any) -> tuple[Any, PageSource | None]:
    """What the loader of language models takes: the weights and the tokenizer by role, or all files by name."""
    sources = sources_of(params)
    if sources.keys() <= {"model", "tokenizer"}:
        return sources["model"], sources.get("tokenizer")
    return named_files(params), None


_dtypes: dict[str, str | None] = {}  # by the key of a model: what quick_dtype has found


def dtype_of(params: Any, files: Iterable[PageSource]) -> str | None:
    """The type to convert a model's matrices to while they are read; None: as in the file."""
    if params.precision != "fast":
        return None
    from pyapp.models.loading.precision import quick_dtype

    key: str = params.key
    if key not in _dtypes:
        weights = max(files, key=lambda file: file.size)
        _dtypes[key] = quick_dtype(weights)
    return _dtypes[key]


def settings_of(params: Any) -> dict[str, Any]:
    """`key`, and `dtype` if the matrices are converted: arguments of tasks."""
    dtype = dtype_of(params, sources_of(params).values())
    return {"key": params.key} | ({} if dtype is None else {"dtype": dtype})


async def loaded(task: str, params: Any, cancel: Cancel) -> AsyncGenerator[Event | Result[Any], None]:
    """The events of loading a model, if it is not loaded yet, and the model."""
    settings = settings_of(params)
    tokenizer = None
    if task == "generate":
        source, tokenizer = text_files(params)
    else:
        source = sources_of(params) if task == "transcribe" else named_files(params)
    if task == "embed":
        settings.setdefault("dtype", None)  # its loader always has one
    async with aclosing(keeper.get(task, source, tokenizer, settings.pop("key"), cancel, **settings)) as events:
        async for event in events:
            yield event


@tasks.task
async def with_model(task: str, params: Any, cancel: Cancel, work: Callable[[Any], tasks.Events]) -> tasks.Events:
    """The events of loading, then those of `work(model)`."""
    async with aclosing(loaded(task, params, cancel)) as events:
        async for event in events:
            if not isinstance(event, Result):
                yield event
                continue
            async with aclosing(work(event.value)) as working:
                async for made in working:
                    yield made
