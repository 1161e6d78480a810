"""The page's adapter: answers requests of the worker (web/modules/worker/python.js) with the events of pyapp.tasks.

Runs in Pyodide. Byte sources, the tokenizer library and the channel to the page are JavaScript objects of the worker.
Writing a story does not import NumPy.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from pyapp import tasks
from pyapp.browser_models import (
    NetworkSource,
    PageSource,
    bytes_of,
    loaded,
    read_by,
    settings_of,
    text_files,
    with_model,
)
from pyapp.engine.device import Backend, register
from pyapp.engine.devices import pool
from pyapp.engine.lazy import np
from pyapp.engine.native import instruction_set, library
from pyapp.errors import Cancelled
from pyapp.events import Cancel, Done, Event, Metric, Partial, Progress, Thought, Token
from pyapp.late_linalg import defer_linalg
from pyapp.late_parts import find_late_parts
from pyapp.tasks.core import Result, at_once, error_event
from pyapp.tasks.keeper import keeper
from pyapp.text.tokenization.charsmap import take_charsmap
from pyapp.text.tokenization.tokenizer import set_backend_factory

__all__ = ["cancel", "install", "instruction_set", "run", "sha256", "use_tokenizers"]

# Seconds for which events are collected before they are sent to the page: one frame of a screen.
FRAME = 1 / 60
HASH_BYTES = 1 << 22

_running: dict[int, Cancel] = {}
_host: Any = None
_create_encoder: Any = None


class PageTokenizer:
    """A tokenizer backend over @huggingface/tokenizers. It normalises texts by sentencepiece's table itself, which that
    library does not read.
    """

    def __init__(self, json_text: str) -> None:
        json_text, self._normalize = take_charsmap(json_text)
        self._encode = _create_encoder(json_text)

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
    Models compute on its `pool`, and imports find its `parts`, where there are any. The device "webgpu" is what its
    `openGraphicsCard()` promises.
    """
    global _host
    _host = host
    read_by(host)
    use_tokenizers(host.createEncoder)
    library.load()
    threads = getattr(host, "pool", None)
    if threads is not None:
        pool.connect(threads)
        keeper.device = "pool"
    parts = getattr(host, "parts", None)
    if parts is not None:
        find_late_parts(parts)
    register("webgpu", _open_graphics_card)
    defer_linalg()


def use_tokenizers(create_encoder: Callable[[str], Any]) -> None:
    """Tokenizers are JavaScript's from now on: `create_encoder` makes of the text of a tokenizer.json a function, which
    makes of a text a Uint32Array of ids without control tokens. web/tokenizers.js has it for other Pyodides.
    """
    global _create_encoder
    _create_encoder = create_encoder
    set_backend_factory(PageTokenizer)


def _open_graphics_card(index: int | None) -> Backend:
    from pyapp.engine.devices import webgpu  # late: models compute on the threads where nobody chooses the card

    return webgpu.open_with(getattr(_host, "openGraphicsCard", None))


def import_tasks() -> None:
    """Imports the modules that a story and a transcript need: the memory snapshot contains them, and the site has their
    byte code. A module that is imported later is compiled from its source text at each visit.
    """
    import pyapp.audio.overview
    import pyapp.audio.reader
    import pyapp.audio.transcribe
    import pyapp.engine.devices.cpu
    import pyapp.engine.ops.activation
    import pyapp.engine.ops.conv
    import pyapp.engine.ops.elementwise.exponential
    import pyapp.engine.ops.elementwise.trigonometry
    import pyapp.formats.block_tensors
    import pyapp.formats.safetensors
    import pyapp.models.llama2c
    import pyapp.models.loading.precision
    import pyapp.models.whisper.files
    import pyapp.text.generation.generate
    import pyapp.text.tokenization.tokenizer_files
    import pyapp.text.tokenization.whisper_tokenizer  # noqa: F401


class Channel:
    """Sends events to the page: the first token at once, then the events of each frame; the last event flushes.

    Of several reports about the same work within a frame, the page gets the last one.
    """

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._waiting: list[dict[str, Any]] = []
        self._due = 0.0
        self._work: str | None = None

    def put(self, event: Event) -> None:
        last = self._waiting[-1] if self._waiting else None
        if last is not None and isinstance(event, (Partial, Progress)) and last["type"] == event.type:
            if isinstance(event, Partial) or last["what"] == event.what:
                self._waiting.pop()  # it was not sent yet
        self._waiting.append(event.to_dict())
        if not self._can_wait(event) or time.perf_counter() >= self._due:
            self.flush()

    def _can_wait(self, event: Event) -> bool:
        """Whether another event follows soon: work that has just begun or ended may take long to report again."""
        if isinstance(event, Progress):
            begun, self._work = event.what != self._work, event.what
            return not begun and event.done != event.total
        return isinstance(event, (Token, Thought, Partial))

    def flush(self) -> None:
        if self._waiting:
            self._send(json.dumps(self._waiting))
            self._waiting = []
        self._due = time.perf_counter() + FRAME


def run(number: int, method: str, params: Any, send: Callable[[str], None]) -> Coroutine[Any, Any, None]:
    """Runs one task and sends its events, as JSON lists; `cancel(number)` ends it, also before the coroutine has begun.
    The last event is Done or Error.
    """
    cancel = _running[number] = PageCancel(number)
    return _run(number, cancel, method, params, send)


async def _run(number: int, cancel: Cancel, method: str, params: Any, send: Callable[[str], None]) -> None:
    channel = Channel(send)
    at_once.set(channel.put)
    try:
        try:
            events = start(method, params, cancel)  # reads the header of a large model
        except Exception as error:
            channel.put(error_event(error))
            return
        async for event in events:
            channel.put(event)
    finally:
        del _running[number]
        channel.flush()


def start(method: str, params: Any, cancel: Cancel) -> tasks.Events:
    """Starts the task `method`. `params`: `sources` (by role), `key`, `precision`, and the arguments of the task."""
    if method not in TASKS:
        from pyapp import browser_tasks  # late: it is in a part that the first story does not need

        return browser_tasks.TASKS[method](params, cancel)
    return TASKS[method](params, cancel)


# -- texts


def load(params: Any, cancel: Cancel) -> tasks.Events:
    model, tokenizer = text_files(params)
    return tasks.load(model, tokenizer=tokenizer, cancel=cancel, **settings_of(params))


def generate(params: Any, cancel: Cancel) -> tasks.Events:
    model, tokenizer = text_files(params)
    options = params.options.to_py()
    return tasks.generate(model, params.prompt, options, tokenizer=tokenizer, cancel=cancel, **settings_of(params))


# -- speech


def transcribe(params: Any, cancel: Cancel) -> tasks.Events:
    """`audio` is a source of a WAVE file, `options` JSON; `vad` and `speaker_model` sources of networks, or nothing."""
    audio, options = PageSource(params.audio), json.loads(params.options)
    networks = (params.vad, params.speaker_model)
    vad, speaker_model = (NetworkSource(source) if source else None for source in networks)

    def work(model: Any) -> tasks.Events:
        return tasks.transcribe(audio, options, model=model, vad=vad, speaker_model=speaker_model, cancel=cancel)

    return with_model("transcribe", params, cancel, work)


def listen(params: Any, cancel: Cancel) -> tasks.Events:
    """`inlet.take()` is a promise of the next samples at 16 kHz, or of nothing at the end."""
    options = json.loads(params.options)
    return with_model(
        "transcribe", params, cancel,
        lambda model: tasks.listen(heard(params.inlet), options, model=model, cancel=cancel),
    )  # fmt: skip


async def heard(inlet: Any) -> AsyncGenerator[Any, None]:
    """float32 blocks (samples,)."""
    while (samples := await inlet.take()) is not None:
        yield np.frombuffer(samples.to_bytes(), np.float32)


@tasks.task
async def load_speech(params: Any, cancel: Cancel) -> tasks.Events:
    """Done carries the results of tasks.load, `languages` (the codes of the model) and `translates`."""
    fresh = False
    async with aclosing(loaded("transcribe", params, cancel)) as events:
        async for event in events:
            if not isinstance(event, Result):
                fresh |= isinstance(event, Metric)  # fraction of the time of reading
                yield event
                continue
            speech = event.value
            if fresh:
                speech.model.encoder.warm_up()
            several = getattr(speech.tokenizer, "multilingual", None)  # None: the model does not tell its language
            languages = list(speech.tokenizer.all_language_codes) if several else ["en"][several is None :]
            known = {"name": speech.name, "config": speech.config, "languages": languages, "translates": bool(several)}
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


TASKS: dict[str, Callable[[Any, Cancel], tasks.Events]] = {
    "generate": generate,
    "listen": listen,
    "load": load,
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
        digest.update(bytes_of(source.read(offset, min(HASH_BYTES, int(source.size) - offset))))
        await asyncio.sleep(0)
    return digest.hexdigest()
