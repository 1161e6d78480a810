"""The page's adapter: answers requests of the worker (web/modules/worker/python.js) with the events of pyapp.tasks.

Runs in Pyodide. Byte sources, the tokenizer library and the channel to the page are JavaScript objects of the worker.
Writing a story does not import NumPy.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import struct
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from pyapp import tasks
from pyapp.engine.device import Backend, as_device, register
from pyapp.engine.devices import pool
from pyapp.engine.lazy import np
from pyapp.engine.native import instruction_set, library
from pyapp.errors import Cancelled, FileFormatError, ModelError
from pyapp.events import Cancel, Done, Event, Item, Metric, Partial, Progress, Thought, Token
from pyapp.formats.safe_json import json_object
from pyapp.formats.source import BytesSource, check_range
from pyapp.late_linalg import defer_linalg
from pyapp.late_parts import find_late_parts
from pyapp.tasks.core import Result, error_event
from pyapp.tasks.keeper import keeper
from pyapp.text.charsmap import take_charsmap
from pyapp.text.tokenizer import set_backend_factory

__all__ = ["cancel", "install", "instruction_set", "run", "sha256"]

# Seconds for which events are collected before they are sent to the page: one frame of a screen.
FRAME = 1 / 60
HASH_BYTES = 1 << 22

# By the page's task of a model: what pyapp.models._index calls it.
MODEL_TASKS = {
    "generate": "causal-lm", "chat": "causal-lm", "embed": "features", "read": "image-to-text",
    "speak": "text-to-speech", "detect": "object-detection", "segment": "semantic-segmentation",
    "cut-out": "mask-generation", "depth": "depth-estimation", "classify-image": "image-classification",
    "match-image": "zero-shot-image-classification", "image-to-text": "image-to-text", "translate": "seq2seq-lm",
}  # fmt: skip

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
        found = self._source.read(offset, length)
        if found is None:
            raise self._gone()
        data: bytes = found.to_bytes()
        return data

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
    Models compute on its `pool`, and imports find its `parts`, where there are any. The device "webgpu" is what its
    `openGraphicsCard()` promises.
    """
    global _host
    _host = host
    set_backend_factory(PageTokenizer)
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
    import pyapp.text.generate
    import pyapp.text.tokenizer_files
    import pyapp.text.whisper_tokenizer  # noqa: F401


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


async def run(number: int, method: str, params: Any, send: Callable[[str], None]) -> None:
    """Runs one task and sends its events, as JSON lists; `cancel(number)` ends it. The last event is Done or Error."""
    cancel = _running[number] = PageCancel(number)
    channel = Channel(send)
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
    return TASKS[method](params, cancel)


# -- models


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
    if "model" in sources and len(sources) <= 2:
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


def inspect(params: Any, cancel: Cancel) -> tasks.Events:
    return tasks.inspect(sources_of(params)["model"])


@tasks.task
async def check_config(params: Any, cancel: Cancel) -> tasks.Events:
    """Refuses the model of a config.json (`json`, its text) that `task` does not know, before any weight is there."""
    from pyapp.models.load import TEXT, hears_samples, module_of, task_of
    from pyapp.models.loading.by_task import completed
    from pyapp.models.loading.reading import LINE_READERS
    from pyapp.models.whisper.files import check_architecture

    settings = completed(json_object(params.json))
    if not settings:
        raise ModelError("this is no configuration: a JSON object is expected", where=params.where)
    if params.task == "transcribe":
        if not hears_samples(settings):
            check_architecture(settings, params.where)
    elif params.task != "read" or settings.get("model_type") not in LINE_READERS:
        task = MODEL_TASKS[params.task]
        module_of(settings, params.where, task_of(settings) if task == TEXT else task)
    yield Done("complete", {"model_type": settings.get("model_type")})


@tasks.task
async def check_header(params: Any, cancel: Cancel) -> tasks.Events:
    """Refuses a GGUF file whose first bytes (`bytes`) name an architecture that no task here knows."""
    from pyapp.formats.gguf_header import architecture_of
    from pyapp.models._index import GGUF_ARCHITECTURES, TASKS

    name = architecture_of(params.bytes.to_bytes(), params.where)
    task = MODEL_TASKS[params.task]
    known = [key for key, module in GGUF_ARCHITECTURES.items() if task in TASKS[module]]
    if name is not None and name not in known and name != "pyapp":
        raise ModelError(
            f"the architecture {name!r:.60} is not known here", where=params.where,
            hint=f"Known in GGUF files: {', '.join(known) or 'none for this task'}",
        )  # fmt: skip
    yield Done("complete", {"architecture": name})


# -- texts


def load(params: Any, cancel: Cancel) -> tasks.Events:
    model, tokenizer = text_files(params)
    return tasks.load(model, tokenizer=tokenizer, cancel=cancel, **settings_of(params))


def generate(params: Any, cancel: Cancel) -> tasks.Events:
    model, tokenizer = text_files(params)
    options = params.options.to_py()
    return tasks.generate(model, params.prompt, options, tokenizer=tokenizer, cancel=cancel, **settings_of(params))


def load_chat(params: Any, cancel: Cancel) -> tasks.Events:
    model, tokenizer = text_files(params)
    return tasks.load_chat(model, tokenizer=tokenizer, cancel=cancel, **settings_of(params))


def chat(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `messages` and `options` of tasks.chat. The `image` of a part is the number of one of the `pictures`,
    which have a `name` and `bytes`.
    """
    values = json.loads(params.json)
    files = [BytesSource(picture.bytes.to_bytes(), picture.name) for picture in params.pictures]
    parts = (message["content"] for message in values["messages"] if isinstance(message["content"], list))
    for part in (part for content in parts for part in content if part["type"] == "image"):
        part["image"] = files[part["image"]]

    def work(model: Any) -> tasks.Events:
        return tasks.chat(model, values["messages"], values["options"], plain=True, cancel=cancel)

    return with_model("generate", params, cancel, work)


# -- voices


def load_voice(params: Any, cancel: Cancel) -> tasks.Events:
    """Done carries its `name`, its `config`, how many `speakers` it has, and the names of its `voices`, if they have
    such.
    """

    @tasks.task
    async def work(model: Any) -> tasks.Events:
        known = {"speakers": model.speakers, "voices": list(model.voices)}
        yield Done("complete", {"name": model.name, "config": model.config, **known})

    return with_model("speak", params, cancel, work)


def speak(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `text`, and `options` of tasks.speak."""
    values = json.loads(params.json)
    return with_model(
        "speak", params, cancel,
        lambda model: tasks.speak(values["text"], values.get("options"), model=model, cancel=cancel),
    )  # fmt: skip


# -- search


def packed(vector: Sequence[float]) -> str:
    """A vector as base64 of float32 numbers: a fifth of the length of a JSON list."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")


def load_search(params: Any, cancel: Cancel) -> tasks.Events:
    """Done carries what tasks.search.describe_embedder says, `probe` as base64."""

    @tasks.task
    async def work(model: Any) -> tasks.Events:
        from pyapp.tasks.search import describe_embedder

        known = describe_embedder(model)
        yield Done("complete", {**known, "name": model.name, "probe": packed(known["probe"])})

    return with_model("embed", params, cancel, work)


def search(name: str) -> Callable[[Any, Cancel], tasks.Events]:
    """A task of tasks.search by name; `json` has `arguments` and `options`. Embeddings are sent as base64."""

    def start(params: Any, cancel: Cancel) -> tasks.Events:
        values = json.loads(params.json)

        @tasks.task
        async def work(model: Any) -> tasks.Events:
            from pyapp.tasks import search as module

            stream = getattr(module, name)(*values["arguments"], model=model, cancel=cancel, **values["options"])
            async with aclosing(stream) as events:
                async for event in events:
                    if isinstance(event, Item) and "embedding" in event.values:
                        event = Item(event.index, {**event.values, "embedding": packed(event.values["embedding"])})
                    yield event

        return with_model("embed", params, cancel, work)

    return start


# -- translation


def load_translator(params: Any, cancel: Cancel) -> tasks.Events:
    """Done carries its `name`, the `languages` that a text may have and be translated into (none of models for one pair
    of languages), and `prefixes`, texts that tell it what to do, if it has such.
    """

    @tasks.task
    async def work(model: Any) -> tasks.Events:
        from pyapp.tasks.texts import languages_of, prefixes_of

        known = {"languages": languages_of(model.tokenizer), "prefixes": prefixes_of(model.settings)}
        yield Done("complete", {"name": model.name, **known})

    return with_model("translate", params, cancel, work)


def translate(params: Any, cancel: Cancel) -> tasks.Events:
    """tasks.translate_text; `json` has the `text` and the `options`."""
    values = json.loads(params.json)
    return with_model(
        "translate", params, cancel,
        lambda model: tasks.translate_text(values["text"], model=model, cancel=cancel, **values["options"]),
    )  # fmt: skip


# -- pictures


def load_reader(params: Any, cancel: Cancel) -> tasks.Events:
    """Loads a reader before it is needed: Done carries its `name`."""

    @tasks.task
    async def work(model: Any) -> tasks.Events:
        yield Done("complete", {"name": model.name})
        import pyapp.tasks.reading  # noqa: F401  while the page shows the model: the first picture needs it

    return with_model("read", params, cancel, work)


def read(params: Any, cancel: Cancel) -> tasks.Events:
    """Reads a picture: `pixels` of a canvas, row by row, `height`, `width`; `options` of tasks.read as JSON."""
    options = json.loads(params.options)

    def work(model: Any) -> tasks.Events:
        from pyapp.vision.reading import from_pixels

        grey = from_pixels(params.pixels.to_py(), int(params.height), int(params.width), "L", params.name)
        return tasks.read([grey], model=model, cancel=cancel, **options)

    return with_model("read", params, cancel, work)


def load_looker(params: Any, cancel: Cancel) -> tasks.Events:
    """Loads a model for `task`, one of tasks.pictures.LOOKS: Done carries its `name`."""

    @tasks.task
    async def work(model: Any) -> tasks.Events:
        yield Done("complete", {"name": model.name})
        import pyapp.tasks.pictures  # noqa: F401  while the page shows the model: the first picture needs it

    return with_model(params.task, params, cancel, work)


def look(params: Any, cancel: Cancel) -> tasks.Events:
    """Looks at a picture, as `read` gets it, for `task`; `options` of the task as JSON. They may have the name of the
    picture, by which the model remembers it.
    """
    options = json.loads(params.options)

    def work(model: Any) -> tasks.Events:
        from pyapp.tasks.pictures import LOOKS
        from pyapp.vision.reading import from_pixels

        image = None
        if options.get("picture") not in model.seen:
            image = from_pixels(params.pixels.to_py(), int(params.height), int(params.width), "RGB", params.name)
        return LOOKS[params.task]([image], model=model, cancel=cancel, **options)

    return with_model(params.task, params, cancel, work)


@tasks.task
async def export_pages(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `pages` (values of Items of tasks.read; the text of lines and cells may have been edited), their `names`,
    `format` (one of pyapp.vision.page.writers.FORMATS). Done carries `text`, the content of the file.
    """
    from pyapp.vision.page.corrections import corrected
    from pyapp.vision.page.writers import written

    values = json.loads(params.json)
    yield Done("complete", {"text": written(values["format"], list(map(corrected, values["pages"])), values["names"])})


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


@tasks.task
async def export(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `segments` of events (their text may have been edited), `format`, `language`, `duration`, `task`. Done
    carries `text`, the content of the file.
    """
    from pyapp.audio.transcript import Transcript
    from pyapp.audio.transcript_writers import format_transcript

    values = json.loads(params.json)
    yield Done("complete", {"text": format_transcript(Transcript.from_dict(values), values["format"])})


@tasks.task
async def choose_card(params: Any, cancel: Cancel) -> tasks.Events:
    """Language models compute on the graphics card from now on: Done carries its `name`. ModelError without one."""
    from pyapp import webgpu

    if why := webgpu.reason():
        raise ModelError(why)
    card: Any = as_device("webgpu").backend
    card.foresee()
    keeper.devices["generate"] = "webgpu"
    yield Done("complete", {"name": card.name})


TASKS: dict[str, Callable[[Any, Cancel], tasks.Events]] = {
    "card": choose_card,
    "chat": chat,
    "chat.load": load_chat,
    "check.config": check_config,
    "check.header": check_header,
    "export": export,
    "generate": generate,
    "inspect": inspect,
    "listen": listen,
    "load": load,
    "look": look,
    "look.load": load_looker,
    "overview": overview,
    "read": read,
    "read.export": export_pages,
    "read.load": load_reader,
    "search.index": search("index"),
    "search.load": load_search,
    "search.embed": search("vectors"),
    "search.sentences": search("nearest_sentences"),
    "speak": speak,
    "speak.load": load_voice,
    "speech.load": load_speech,
    "transcribe": transcribe,
    "translate": translate,
    "translate.load": load_translator,
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
