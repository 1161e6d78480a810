"""The models of a server: their names and tasks, loading when they are first asked for, unloading when idle."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import Any

from pyapp import hub
from pyapp.audio.encoding import WindowEncoder
from pyapp.audio.transcribe import encoder_of
from pyapp.dataclass import dataclass
from pyapp.distributed.leading import Leader
from pyapp.errors import Cancelled, ModelError, OptionError, PyappError
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint
from pyapp.models.diffusion.load import INDEX
from pyapp.models.load import read_settings, settings_of
from pyapp.models.loading import bare_files, segment_anything
from pyapp.models.loading.heads import completed, known_tasks, own_task
from pyapp.models.loading.sentence_folders import parts_in
from pyapp.models.loading.timm import is_timms
from pyapp.models.sentences.embedding import MODULES
from pyapp.tasks.keeper import LOADERS, known
from pyapp.tasks.ranking import is_late
from pyapp.tasks.texts import LOADED_FOR, embed_encoded, encoded_for_embedding

from .answers import wait_for_leaving
from .batching import Batch, Batcher, result_of
from .denoiser import Denoiser
from .engine import Engine
from .problems import Problem
from .scheduler import Scheduler
from .settings import Settings
from .writing import Text

log = logging.getLogger("pyapp.serve")
MIB = 1 << 20
# By the names that models have in pyapp.models; POST /models/NAME serves them.
TASK_OF = {
    "image-classification": "classify-image", "zero-shot-image-classification": "match-image",
    "zero-shot-object-detection": "detect-labels", "object-detection": "detect", "semantic-segmentation": "segment",
    "depth-estimation": "depth", "image-to-text": "image-to-text", "audio-classification": "classify-sound",
    "zero-shot-audio-classification": "match-sound", "zero-shot-semantic-segmentation": "segment-labels",
    "mask-generation": "cut-out", "token-classification": "token-classification",
    "question-answering": "question-answering", "visual-document-retrieval": "rank-pages",
    "time-series-forecasting": "forecast", "video-classification": "classify-video",
    "audio-frame-classification": "label-sound", "visual-question-answering": "answer-image",
    "keypoint-detection": "key-points", "keypoint-matching": "match-points", "pose-estimation": "pose",
    "image-to-image": "upscale", "text-to-audio": "compose", "audio-xvector": "embed-sound",
}  # fmt: skip
# What fills masks is served as an embedder unless its task is given: so are many embedders' files.
TASKS = (
    "generate", "embed", "classify", "rerank", "transcribe", "speak", "imagine", "fill-mask", "translate",
    *TASK_OF.values(), "embed-image", "read",
)  # fmt: skip
ANY = ("default", "dummy", "tgi")  # what clients of one model call it
TURN_SECONDS = 1.0  # that loaded models serve new requests, at least, while another one waits for their memory
ROOM_SECONDS = 60.0  # that a request waits for the memory of others


# The models that a request uses, which stay loaded until it ends, and whether it is one that lasts.
HELD: ContextVar[list[tuple[ServedModel, bool]] | None] = ContextVar("HELD", default=None)


@dataclass(eq=False)
class ServedModel:
    """A model under the name that requests give. `runner` is a Scheduler or a Denoiser for "generate", a Batcher
    for "embed", Beside for "transcribe". `requests` use it now; `lasting` of them have no end of their own."""

    name: str
    source: Any
    task: str
    created: int = field(default_factory=lambda: int(time.time()))
    loaded: Any = None
    runner: Any = None
    error: str | None = None
    used: float = field(default_factory=time.monotonic)
    requests: int = 0
    lasting: int = 0
    nbytes: int = 0  # of its parameters and its texts' keys and values; before it is first loaded, of its files


class Models:
    """The models by name.

    Models that do not fit into the memory together take turns, those first whose request has waited longest. While a
    model waits for the memory of others, these serve their new requests for a while (TURN_SECONDS, or what the last
    loading took if that is longer), then only those that run; new ones wait in their turn. So constant requests for one
    model stop no other one.
    """

    def __init__(self, settings: Settings, engine: Engine, leader: Leader | None = None) -> None:
        self._settings, self._engine, self._leader = settings, engine, leader
        # Who waits for a model that is not loaded, or whose turn has ended; the models in the order of their turns.
        self._line: dict[ServedModel, list[asyncio.Future[None]]] = {}
        self._loader: asyncio.Task[None] | None = None  # serves the line while there is one
        self._loading: tuple[ServedModel, Cancel] | None = None  # the model that is loaded now
        self._next: ServedModel | None = None  # waits for memory: others take no new requests
        self._ended = asyncio.Event()  # a request did, or nobody waits for a model any longer
        self._turn_end = 0.0
        given = settings.models or tuple(
            entry.id for entry in hub.models() if entry.kind == "embedded" and entry.task in TASKS
        )
        self.by_name: dict[str, ServedModel] = {}
        for spec in given:
            model = parse_model(spec)
            if model.task not in TASKS:
                raise OptionError(
                    f"its task is {model.task!r}, for which the server has no route", where=spec,
                    hint=f"Models are served for {', '.join(TASKS)}",
                )  # fmt: skip
            hub.check_source(model.source)
            if model.name in self.by_name:
                raise OptionError(
                    "two models have this name", where=model.name, hint="Name one of them: NAME=MODEL"
                )  # fmt: skip
            self.by_name[model.name] = model
        writing = [model.name for model in self.by_name.values() if model.task == "generate"]
        if settings.projector is not None and len(writing) != 1:
            raise OptionError(
                f"belongs to one language model, and {len(writing)} are served", where="projector",
                hint="Put each projector beside its model: it is found there",
            )  # fmt: skip
        self.ready = not settings.preload  # whether everything that is to be loaded at the start was

    def find(self, name: str | None, tasks: Sequence[str]) -> ServedModel:
        """The model with a name; without one, the first for one of the tasks. Problem if there is none."""
        if name is None or (name in ANY and name not in self.by_name):
            for model in self.by_name.values():
                if model.task in tasks:
                    return model
            raise Problem(
                f"no model here can do this; there are {', '.join(self.by_name)}", status=404, param="model",
                code="model_not_found",
            )  # fmt: skip
        found = self.by_name.get(name)
        if found is None:
            raise Problem(
                f"the model {name!r:.100} does not exist; there are {', '.join(self.by_name)}", status=404,
                param="model", code="model_not_found",
            )  # fmt: skip
        if found.task not in tasks:
            raise Problem(f"the model {name!r} cannot do this: its task is {found.task}", param="model")
        return found

    async def get(
        self, name: str | None, *tasks: str, lasting: bool = False, receive: Callable[[], Awaitable[Any]] | None = None
    ) -> ServedModel:  # fmt: skip
        """As `find`; the model is loaded, and stays so until the request ends (`holding`). `lasting`: nobody knows when
        it will end, so others do not wait for its memory. `receive`: of a request whose body has been read; Problem 499
        if its client leaves before the model is loaded.
        """
        model = self.find(name, tasks)
        held = HELD.get()
        mine = any(other is model for other, _ in held or ())
        if model.loaded is not None and (mine or self._next is None):
            model.requests += 1
        else:
            await self._stand_in_line(model, receive)  # counts the request
        if held is None:
            model.requests -= 1
        else:
            held.append((model, lasting))
            model.lasting += lasting
        return model

    async def _stand_in_line(self, model: ServedModel, receive: Callable[[], Awaitable[Any]] | None) -> None:
        """Waits until a model is loaded and takes requests, of which this is one then. Problem if that cannot be, and
        if the client leaves.
        """
        if sum(map(len, self._line.values())) >= self._settings.queue:
            raise Problem(
                f"{self._settings.queue} requests wait for models to be loaded", status=429, param="model",
                code="rate_limit_exceeded", headers={"Retry-After": "5"},
            )  # fmt: skip
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.setdefault(model, []).append(future)
        if self._loader is None or self._loader.done():
            self._loader = asyncio.ensure_future(self._serve_line())
        leaving = None if receive is None else asyncio.ensure_future(wait_for_leaving(receive))
        try:
            await asyncio.wait({future} if leaving is None else {future, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                raise Problem("the client has left", status=499)
            future.result()
        except (asyncio.CancelledError, Problem):
            if future.done():
                if future.exception() is None:
                    self._release(model)  # its turn came at the same time
            else:
                self._leave_line(model, future)
            raise
        finally:
            if leaving is not None:
                leaving.cancel()

    def _leave_line(self, model: ServedModel, future: asyncio.Future[None]) -> None:
        """A request waits no longer for a model, which is not loaded any further if nobody else does."""
        waiting = self._line[model]
        waiting.remove(future)
        self._ended.set()
        if not waiting and self._loading is not None and self._loading[0] is model:
            self._loading[1].set()

    async def _serve_line(self) -> None:
        """Loads the models for which requests wait, in their order, and lets all who wait for one go on together."""
        while self._line:
            model, waiting = next(iter(self._line.items()))
            failure: BaseException | None = None
            try:
                if waiting and model.loaded is None:
                    await self._load_within_memory(model)
            except Cancelled:
                log.info("loading stopped", extra={"fields": {"model": model.name, "why": "nobody waits for it"}})
                if waiting:  # somebody does again
                    continue
            except BaseException as error:
                failure = error
            self._next = None
            del self._line[model]
            for future in waiting:
                if failure is None:
                    model.requests += 1
                    future.set_result(None)
                else:
                    future.set_exception(failure)
            if failure is not None and not isinstance(failure, Exception):
                raise failure

    def _release(self, model: ServedModel) -> None:
        """A request does not use a model any longer."""
        model.requests -= 1
        model.used = time.monotonic()
        self._ended.set()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """A context in which the models that `get` returns are not unloaded."""
        held: list[tuple[ServedModel, bool]] = []
        before = HELD.set(held)
        try:
            yield
        finally:
            HELD.reset(before)
            for model, lasting in held:
                model.lasting -= lasting
                self._release(model)

    async def load_all(self) -> None:
        """Loads every model, while there is memory; the first that fails raises its error."""
        for name, model in self.by_name.items():
            limit = self._settings.memory_bytes
            if limit and self._resident() and self._resident() + self._expected(model) > limit:
                log.info("model not loaded at the start", extra={"fields": {"model": name, "why": "memory"}})
                continue
            with self.holding():
                await self.get(name, model.task)
        self.ready = True

    async def unload_idle(self) -> None:
        """Drops models that nobody used for `settings.idle` seconds."""
        for model in self.by_name.values():
            if model.loaded is not None and not model.requests:
                if time.monotonic() - model.used > self._settings.idle:
                    await self._drop(model)

    async def _drop(self, model: ServedModel) -> None:
        """Unloads a model. No request can get it after this began; the engine's thread frees its memory."""
        parts = [model.loaded, model.runner]
        model.loaded = model.runner = None
        await asyncio.wrap_future(self._engine.call(parts.clear))
        log.info("model unloaded", extra={"fields": {"model": model.name}})

    def _resident(self) -> int:
        """Bytes of the models that are loaded."""
        return sum(model.nbytes for model in self.by_name.values() if model.loaded is not None)

    @staticmethod
    def _expected(model: ServedModel) -> int:
        """Bytes that a model will need; before it is first loaded, those of its files. 0 for a name on the hub."""
        return model.nbytes or bytes_of_files(known(model.source, model.task))

    async def _load_within_memory(self, model: ServedModel) -> None:
        """Loads a model; unloads others that nobody uses, those first that were used longest ago, where memory for all
        is lacking, and waits for those that are used. Problem if it is lacking all the same.
        """
        await self._make_room(model, self._expected(model))
        start = time.perf_counter()
        cancel = Cancel()
        self._loading = model, cancel
        try:
            parts = await asyncio.wrap_future(self._engine.call(lambda: self._load(model, cancel)))
        except Cancelled:
            raise
        except Exception as error:
            if not self.ready:  # at the start: the server ends with the error
                raise
            log.error("a model cannot be loaded", extra={"fields": {"model": model.name, "why": str(error)}})
            raise Problem(
                f"the model {model.name!r} cannot be loaded: the server's log says why", status=500, param="model",
                code="model_not_loaded",
            ) from error  # fmt: skip
        finally:
            self._loading = None
        loaded, runner = parts
        modules = getattr(loaded, "modules", None) or (getattr(loaded, "model", loaded),)
        parameters: Iterable[Any] = (parameter for module in modules for parameter in module.parameters())
        model.nbytes = sum(parameter.nbytes for parameter in parameters) + getattr(runner, "cache_nbytes", 0)
        del loaded, runner, modules, parameters  # else they would live on in the error
        try:
            await self._make_room(model, model.nbytes, wait=False)
        except Problem as problem:
            await asyncio.wrap_future(self._engine.call(parts.clear))
            if problem.code != "server_busy":
                raise
            await self._load_within_memory(model)  # what it needs is known now: it waits without having it
            return
        model.loaded, model.runner = parts  # only now can other requests find it
        seconds = time.perf_counter() - start
        self._turn_end = time.monotonic() + max(TURN_SECONDS, seconds)
        fields = {"model": model.name, "task": model.task, "seconds": round(seconds, 3)}
        log.info("model loaded", extra={"fields": fields})

    async def _make_room(self, model: ServedModel, needed: int, wait: bool = True) -> None:
        """Unloads others until there is memory for a model. `wait`: for the end of the requests that use them."""
        limit = self._settings.memory_bytes
        if not limit:
            return
        told = f"the model {model.name!r} needs {-(-needed // MIB):,} MiB"
        if needed > limit:
            raise Problem(
                f"{told}, and the server's models may have {limit // MIB:,} MiB together", status=503,
                param="model", code="model_too_large",
            )  # fmt: skip
        end = time.monotonic() + min(ROOM_SECONDS, self._settings.seconds)
        while True:
            # Anew in each round: requests come and go meanwhile.
            others = [other for other in self.by_name.values() if other is not model and other.loaded is not None]
            if needed + sum(other.nbytes for other in others) <= limit:
                self._next = None
                return
            unused = [other for other in others if not other.requests]
            if unused:
                await self._drop(min(unused, key=lambda other: other.used))
                continue
            now = time.monotonic()
            stay = needed + sum(other.nbytes for other in others if other.lasting) > limit
            if not wait or stay or now >= end or not self._line.get(model):
                self._turn_end = now + TURN_SECONDS  # those who waited for the others go first
                raise Problem(
                    f"{told}, and requests that run now use the memory: {', '.join(other.name for other in others)}. "
                    "Try again later", status=503, param="model", code="server_busy", headers={"Retry-After": "5"},
                )  # fmt: skip
            if now >= self._turn_end:
                self._next = model
            self._ended.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(end - now if self._next else min(end, self._turn_end) - now):
                    await self._ended.wait()

    def _load(self, model: ServedModel, cancel: Cancel) -> list[Any]:
        """[loaded, runner] of a model; Cancelled once `cancel` is set. On the engine's thread."""
        cancel.check()
        settings = self._settings
        more: dict[str, Any] = {} if settings.device is None else {"device": settings.device}
        if settings.dtype is not None and model.task != "transcribe":
            more["dtype"] = settings.dtype
        if settings.projector is not None and model.task == "generate":
            more["projector"] = settings.projector
        source = known(model.source, model.task)
        if self._leader is not None and model.task == "generate":
            loaded: Any = self._leader.load(source, **more)
        else:
            loaded = LOADERS[LOADED_FOR.get(model.task, model.task)](source, None, lambda event: None, cancel, **more)
        runner: Any = None
        if model.task == "generate" and hasattr(loaded.model, "denoising"):
            runner = Denoiser(loaded.model, loaded.tokenizer, rows=settings.rows, context=settings.context)
        elif model.task == "generate":
            runner = Scheduler(
                loaded.model, loaded.tokenizer, rows=settings.rows, context=settings.context,
                cache_type=settings.cache_type, cache_bytes=settings.cache_bytes, lookup=settings.lookup,
            )  # fmt: skip
        elif model.task == "embed" and not is_late(loaded):
            _, skipped = result_of(encoded_for_embedding(loaded, []))
            runner = Batcher(lambda encodings: embed_encoded(loaded, encodings, skipped))
        elif model.task == "transcribe":
            runner = Beside.of(settings, loaded)
        return [loaded, runner]

    def submit(self, model: ServedModel, work: Text | Batch) -> None:
        """Gives a Text or a Batch to the model's runner."""
        runner = model.runner

        def start() -> None:
            runner.add(work)
            self._engine.activate(runner, model)

        self._engine.post(start)


@dataclass(frozen=True)
class Beside:
    """What the requests of a speech model share: its encoder (None: it is not a Whisper), and the networks for speech
    (None: none) and for speakers (None: nobody may ask).
    """

    encoder: WindowEncoder | None
    vad: Any = None
    speakers: Any = None

    @property
    def windows(self) -> int:
        """The windows of recordings that were encoded."""
        return 0 if self.encoder is None else self.encoder.windows

    @property
    def passes(self) -> int:
        """The passes of the encoder over windows together."""
        return 0 if self.encoder is None else self.encoder.passes

    @classmethod
    def of(cls, settings: Settings, loaded: Any) -> Beside:
        encoder = None if getattr(loaded, "processor", None) is not None else encoder_of(loaded)
        if settings.vad is None and settings.speaker_model is None:
            return cls(encoder)
        from pyapp.tasks.speech_networks import load_speakers, load_vad

        speakers = None if settings.speaker_model is None else load_speakers(settings.speaker_model)
        return cls(encoder, settings.vad and (load_vad(settings.vad) or settings.vad), speakers)


def parse_model(spec: str) -> ServedModel:
    """The model that `[NAME=][TASK:]MODEL` names. A path may have "=", too; a name with "/", as those on the hub, is
    one where MODEL is there.
    """
    name, equals, rest = spec.partition("=")
    if not equals or os.path.exists(spec) or (os.sep in name and not os.path.exists(_parted(rest)[1])):
        name, rest = "", spec
    task, source = _parted(rest)
    if not source:
        raise OptionError("names no model", where=spec, hint="Give [NAME=][TASK:]MODEL")
    head, colon, tail = source.partition(":")
    unknown = task is None and len(head) > 1 and colon and not tail.startswith("//") and not os.path.exists(source)
    if unknown and "/" not in head and os.sep not in head:  # those of the hub have a "/", drives one letter
        raise OptionError(f"{head!r} is not a task", where=spec, hint=f"The tasks are {', '.join(TASKS)}")
    name = os.fsencode(name or name_of(source)).decode("utf-8", "replace")  # also in a locale without UTF-8
    return ServedModel(name, source, task or task_of(source))


def _parted(spec: str) -> tuple[str | None, str]:
    """The parts of `[TASK:]MODEL`."""
    head, colon, tail = spec.partition(":")
    return (head, tail) if colon and head in TASKS else (None, spec)


def bytes_of_files(source: Any) -> int:
    """Bytes of a model's file, or of the largest kind of weights in its folder; 0 for what is not a path."""
    if not isinstance(source, str | os.PathLike) or not os.path.exists(source):
        return 0
    path = Path(source)
    if path.is_file():
        return path.stat().st_size
    kinds = ("*.safetensors", "*.gguf", "*.bin")
    parts = [part for part in path.iterdir() if part.is_dir()] if (path / INDEX).is_file() else [path]
    return sum(max(sum(file.stat().st_size for file in part.glob(kind)) for kind in kinds) for part in parts)


def name_of(source: str) -> str:
    """The name under which a model is served: of a file or a folder, its own."""
    return Path(source).name or source if os.path.exists(source) else source


def task_of(source: str) -> str:
    """What a model is for, by the registry, or by its configuration."""
    entry = hub.find_entry(source)
    if entry is not None:
        return {"chat": "generate"}.get(entry.task, entry.task)
    path = Path(source)
    if not path.exists():
        return "generate"  # a name on the hub; loading says what is wrong with it
    if (path / INDEX).is_file():
        return "imagine"
    try:
        if (path / MODULES).is_file():
            kinds = [part.kind for part in parts_in({MODULES: path / MODULES})]
            if kinds[1:]:
                return "rerank" if "LogitScore" in kinds else "embed"
        config = path / "config.json" if path.is_dir() else path.with_name("config.json")
        if config.is_file():
            return _task_of_settings(read_settings(config))
        if path.is_dir():
            return "generate"  # loading says what it lacks
        with open_checkpoint(path) as checkpoint:
            if segment_anything.is_sams(checkpoint.tensors):
                return "segment"
            return _task_of_settings(settings_of(checkpoint))
    except ModelError:
        raise
    except PyappError:
        if path.suffix == ".pt":
            return _task_of_yolo(path)
        return "transcribe" if path.suffix == ".bin" else "generate"


def _task_of_yolo(path: Path) -> str:
    """The task of a file with a whole model of PyTorch's: YOLO's are read; "generate" for others."""
    try:
        found = bare_files.settings_in(path)
    except PyappError:
        return "generate"
    return "classify-image" if found["head"] == "classify" else "detect"


def _task_of_settings(settings: Any) -> str:
    if is_timms(settings):
        return "classify-image"
    task = own_task(completed(settings))
    if settings.get("model_type") == "whisper" or task == "speech-recognition":
        return "transcribe"
    if task == "text-to-speech":
        return "speak"
    if task in TASK_OF:
        return TASK_OF[task]
    if task == "sequence-classification":
        return "classify"
    if task == "seq2seq-lm":
        return "translate" if settings.get("is_encoder_decoder") is True else "generate"
    return "embed" if "features" in known_tasks(settings) else "generate"
