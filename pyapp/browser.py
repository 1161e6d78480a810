"""The page's adapter: answers requests of the worker (web/modules/worker/python.js) with the events of pyapp.tasks.

Runs in Pyodide. Byte sources, the tokenizer library and the channel to the page are JavaScript objects of the worker.
Writing a story does not import NumPy.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from pyapp import tasks
from pyapp.engine.devices import pool
from pyapp.engine.lazy import np
from pyapp.engine.native import instruction_set, library
from pyapp.errors import Cancelled
from pyapp.events import Cancel, Done, Event, Metric, Partial, Thought, Token
from pyapp.formats.source import check_range
from pyapp.late_linalg import defer_linalg
from pyapp.tasks.core import Result
from pyapp.tasks.keeper import keeper
from pyapp.text.charsmap import take_charsmap
from pyapp.text.tokenizer import set_backend_factory

__all__ = ["cancel", "install", "instruction_set", "run", "sha256"]

# Seconds for which events are collected before they are sent to the page: one frame of a screen.
FRAME = 1 / 60
HASH_BYTES = 1 << 22

_running: dict[int, Cancel] = {}
_host: Any = None


class PageSource:
    """A pyapp.formats ByteSource over a JavaScript object with `name`, `size`, `read(offset, length)` and
    `readInto(bytes, offset)`: a File, or a file the browser keeps. `read_into` copies straight into WebAssembly memory.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self.name: str = source.name
        self.size: int = int(source.size)

    def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        data: bytes = self._source.read(offset, length).to_bytes()
        return data

    def read_into(self, offset: int, view: memoryview) -> None:
        check_range(self, offset, len(view))
        if len(view):
            _host.readInto(self._source, view, offset)

    def close(self) -> None:
        """The worker closes it."""


class PageTokenizer:
    """A tokenizer backend over @huggingface/tokenizers. It normalises texts by sentencepiece's table itself, which that
    library does not read.
    """

    def __init__(self, json_text: str) -> None:
        json_text, self._normalize = take_charsmap(json_text)
        self._encode = _host.createEncoder(json_text)

    def encode(self, text: str) -> list[int]:
        text = self._normalize(text) if self._normalize else text
        if not text:
            return []
        ids: list[int] = self._encode(text).to_py().tolist()
        return ids


class PageCancel(Cancel):
    """A Cancel that also checks memory shared with the page, so that no message is needed."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def is_set(self) -> bool:
        return super().is_set() or _host.isStopped(self._number)

    def check(self) -> None:
        if self.is_set():
            raise Cancelled("stopped")


def install(host: Any) -> None:
    """Stores the worker's functions: `createEncoder(json)`, `readInto(source, view, offset)` and `isStopped(number)`.
    Models compute on its `pool`, where there is one.
    """
    global _host
    _host = host
    set_backend_factory(PageTokenizer)
    library.load()
    threads = getattr(host, "pool", None)
    if threads is not None:
        pool.connect(threads)
        keeper.device = "pool"
    defer_linalg()


def import_tasks() -> None:
    """Imports the modules that tasks import when they run, so that the memory snapshot contains them."""
    import pyapp.audio.overview
    import pyapp.audio.reader
    import pyapp.audio.transcribe
    import pyapp.models.llama2c
    import pyapp.models.whisper.files
    import pyapp.text.generate
    import pyapp.text.whisper_tokenizer  # noqa: F401


class Channel:
    """Sends events to the page: the first token at once, then the events of each frame; the last event flushes."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._waiting: list[dict[str, Any]] = []
        self._due = 0.0

    def put(self, event: Event) -> None:
        if isinstance(event, Partial) and self._waiting and self._waiting[-1]["type"] == "partial":
            self._waiting.pop()  # it was not sent yet
        self._waiting.append(event.to_dict())
        if not isinstance(event, (Token, Thought, Partial)) or time.perf_counter() >= self._due:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._send(json.dumps(self._waiting))
            self._waiting = []
        self._due = time.perf_counter() + FRAME


async def run(number: int, method: str, params: Any, send: Callable[[str], None]) -> None:
    """Runs one task and sends its events, as JSON lists; `cancel(number)` ends it. The last event is Done or Error."""
    cancel = _running[number] = PageCancel(number)
    channel = Channel(send)
    try:
        async for event in start(method, params, cancel):
            channel.put(event)
    finally:
        del _running[number]
        channel.flush()


def start(method: str, params: Any, cancel: Cancel) -> tasks.Events:
    """Starts the task `method`. `params`: `sources` (by role), `key`, and the arguments of the task."""
    if method in OTHER_TASKS:
        return OTHER_TASKS[method](params, cancel)
    model = PageSource(params.sources.model)
    if method == "inspect":
        return tasks.inspect(model)
    tokenizer = PageSource(params.sources.tokenizer)
    if method == "load":
        return tasks.load(model, tokenizer=tokenizer, key=params.key, cancel=cancel)
    options = params.options.to_py()
    return tasks.generate(model, params.prompt, options, tokenizer=tokenizer, key=params.key, cancel=cancel)


def sources_of(params: Any) -> dict[str, PageSource]:
    """A model's files by role."""
    return {role: PageSource(source) for role, source in params.sources.object_entries()}


def named_files(params: Any) -> dict[str, PageSource]:
    """A language model's files by name."""
    return {source.name: source for source in sources_of(params).values()}


def load_chat(params: Any, cancel: Cancel) -> tasks.Events:
    return tasks.load_chat(named_files(params), key=params.key, cancel=cancel)


def chat(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `messages` and `options` of tasks.chat."""
    values = json.loads(params.json)
    return tasks.chat(
        named_files(params), values["messages"], values["options"], plain=True,
        key=params.key, cancel=cancel,
    )  # fmt: skip


def transcribe(params: Any, cancel: Cancel) -> tasks.Events:
    """`audio` is a source of a WAVE file, `options` JSON."""
    audio, options = PageSource(params.audio), json.loads(params.options)
    return tasks.transcribe(audio, options, model=sources_of(params), key=params.key, cancel=cancel)


def listen(params: Any, cancel: Cancel) -> tasks.Events:
    """`inlet.take()` is a promise of the next samples at 16 kHz, or of nothing at the end."""
    options = json.loads(params.options)
    return tasks.listen(heard(params.inlet), options, model=sources_of(params), key=params.key, cancel=cancel)


async def heard(inlet: Any) -> AsyncGenerator[Any, None]:
    """float32 blocks (samples,)."""
    while (samples := await inlet.take()) is not None:
        yield np.frombuffer(samples.to_bytes(), np.float32)


@tasks.task
async def load_speech(params: Any, cancel: Cancel) -> tasks.Events:
    """Done carries the results of tasks.load, `languages` (the codes of the model) and `translates`."""
    fresh = False
    async with aclosing(keeper.get("transcribe", sources_of(params), None, params.key, cancel)) as events:
        async for event in events:
            if not isinstance(event, Result):
                fresh |= isinstance(event, Metric)  # fraction of the time of reading
                yield event
                continue
            loaded = event.value
            if fresh:
                loaded.model.encoder.warm_up()
            several = loaded.tokenizer.multilingual
            languages = list(loaded.tokenizer.all_language_codes) if several else ["en"]
            known = {"name": loaded.name, "config": loaded.config, "languages": languages, "translates": several}
            yield Done("complete", known)
            import numpy  # noqa: F401  while the page shows the model: the first sound needs it


@tasks.task
async def overview(params: Any, cancel: Cancel) -> tasks.Events:
    """The overview of `audio`, a source of a WAVE file: Done carries the fields of pyapp.audio.overview.Overview."""
    from pyapp.audio.overview import Overview, read_overview

    breath = tasks.Breath()
    for item in read_overview(PageSource(params.audio), int(params.bins)):
        cancel.check()
        yield Done("complete", item.to_dict()) if isinstance(item, Overview) else item
        await breath.take()


@tasks.task
async def export(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `segments` of events (their text may have been edited), `format`, `language`, `duration`, `task`. Done
    carries `text`, the content of the file.
    """
    from pyapp.audio.transcript import Transcript
    from pyapp.audio.transcript_writers import format_transcript

    values = json.loads(params.json)
    yield Done("complete", {"text": format_transcript(Transcript.from_dict(values), values["format"])})


OTHER_TASKS: dict[str, Callable[[Any, Cancel], tasks.Events]] = {
    "chat": chat,
    "chat.load": load_chat,
    "export": export,
    "listen": listen,
    "overview": overview,
    "speech.load": load_speech,
    "transcribe": transcribe,
}


def cancel(number: int) -> None:
    """Ends a running task at its next step; no effect if it has ended."""
    if number in _running:
        _running[number].set()


async def sha256(source: Any, cancelled: Callable[[], bool]) -> str:
    """The SHA-256 of a JavaScript source in hexadecimal; the browser's function needs the whole source in memory.

    "" if `cancelled()` became true.
    """
    digest = hashlib.sha256()
    for offset in range(0, int(source.size), HASH_BYTES):
        if cancelled():
            return ""
        digest.update(source.read(offset, min(HASH_BYTES, int(source.size) - offset)).to_bytes())
        await asyncio.sleep(0)
    return digest.hexdigest()
