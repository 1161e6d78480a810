"""Keep the last used model, so that the next text or recording starts at once."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, Metric

from .core import Result, Step, reported

Loader = Callable[..., Any]  # (source, tokenizer, report, cancel, settings)


def load_text(source: Any, tokenizer: Any, report: Callable[[Event], None], cancel: Cancel, **settings: Any) -> Any:
    if isinstance(source, Mapping):
        from pyapp.models.picked_files import load_files

        return load_files(source, report, cancel, **settings)
    from pyapp.models import load_model

    return load_model(source, tokenizer, report=report, cancel=cancel, **settings)


def loader(module: str, function: str, *arguments: Any, **settings: Any) -> Loader:
    """What loads models by a function of a module, which is imported when a model needs it. It calls it
    with the source, `arguments` and `settings`.
    """

    def load(source: Any, tokenizer: Any, report: Callable[[Event], None], cancel: Cancel, **options: Any) -> Any:
        found = getattr(import_module(module), function)
        return found(source, *arguments, report=report, cancel=cancel, **settings, **options)

    return load


def load_for(task: str) -> Loader:
    """The loader of models for a task of pyapp.models.loading.by_task."""
    return loader("pyapp.models.loading.by_task", "load_task_model", task)


def load_picture_model_for(task: str) -> Loader:
    """The loader of models for a task of pyapp.models.loading.pictures."""
    return loader("pyapp.models.loading.pictures", "load_image_model", task)


# By the registry's task of a model: its loader; its description, and the command that uses it.
LOADERS: Mapping[str, Loader] = {
    "generate": load_text,
    "transcribe": loader("pyapp.models", "load_speech_model"),
    "embed": load_for("features"),
    "classify": load_for("sequence-classification"),
    "rerank": load_for("ranking"),
    "fill-mask": load_for("masked-lm"),
    "translate": load_for("seq2seq-lm"),
    "token-classification": load_for("token-classification"),
    "question-answering": load_for("question-answering"),
    "answer-table": load_for("table-question-answering"),
    "classify-image": load_picture_model_for("image-classification"),
    "match-image": load_picture_model_for("zero-shot-image-classification"),
    "key-points": load_picture_model_for("keypoint-detection"),
    "match-points": load_picture_model_for("keypoint-matching"),
    "answer-image": load_picture_model_for("visual-question-answering"),
    "rank-pages": load_picture_model_for("visual-document-retrieval"),
    "detect": load_picture_model_for("object-detection"),
    "detect-labels": load_picture_model_for("zero-shot-object-detection"),
    "segment": load_picture_model_for("semantic-segmentation"),
    "segment-labels": load_picture_model_for("zero-shot-semantic-segmentation"),
    "depth": load_picture_model_for("depth-estimation"),
    "pose": load_picture_model_for("pose-estimation"),
    "upscale": load_picture_model_for("image-to-image"),
    "imagine": loader("pyapp.models.diffusion.load", "load_diffusion"),
    "cut-out": load_picture_model_for("mask-generation"),
    "follow": load_picture_model_for("mask-tracking"),
    "image-to-text": load_picture_model_for("image-to-text"),
    "read": loader("pyapp.models.loading.text_readers", "load_reading_model"),
    "speak": loader("pyapp.models.loading.voice", "load_voice"),
    "classify-sound": loader("pyapp.models.loading.sound_labels", "load_sound_classifier"),
    "label-sound": loader("pyapp.models.loading.sound_labels", "load_sound_classifier", moments=True),
    "match-sound": loader("pyapp.models.loading.sound_labels", "load_sound_matcher"),
    "embed-sound": loader("pyapp.models.loading.sound_labels", "load_sound_embedder"),
    "compose": load_for("text-to-audio"),
    "forecast": loader("pyapp.models.loading.forecasting", "load_forecaster"),
    "classify-video": loader("pyapp.models.loading.videos", "load_video_model"),
}
KINDS = {
    "generate": ("writes text", "pyapp generate"),
    "chat": ("answers in a conversation", "pyapp chat"),
    "transcribe": ("hears speech", "pyapp transcribe --model"),
    "embed": ("turns texts into vectors", "pyapp embed --model"),
    "read": ("reads text in pictures", "pyapp read --model"),
}
# The registry's tasks of models that do the work of another one too.
ALSO = {"generate": ("chat",), "rerank": ("classify", "embed")}


class Keeper:
    """Keeps one model of any kind: two at once may not fit in memory. `device` is the name of the device on which
    models compute; None: the CPU. `devices`: by task, where it is another one.
    """

    def __init__(self) -> None:
        self.device: str | None = None
        self.devices: dict[str, str] = {}
        self._key: object = None
        self._model: Any = None
        self._session: Any = None

    @property
    def loaded(self) -> Any:
        """The model that is kept; None where there is none."""
        return self._model

    def drop(self) -> None:
        self._key = self._model = self._session = None

    def session_of(self, model: Any, capacity: int | None = None, cache_type: str = "auto") -> Any:
        """The session of the last conversation with a language model, which has read its messages; else a new one.
        `capacity` None: any. `cache_type` is that of SamplingOptions.
        """
        from pyapp.text.generation.session import Session

        last = self._session
        asked = model, cache_type, capacity or getattr(last, "capacity", None)
        if last is None or (last.model, last.cache_type, last.capacity) != asked:
            self._session = last = None  # before the new one needs the memory
            kind: Any = Session
            if hasattr(model, "sees"):
                from pyapp.text.pictures import PictureSession as kind
            self._session = kind(model, capacity, cache_type=cache_type)
        return self._session

    async def get(
        self, task: str, source: Any, tokenizer: Any, key: object, cancel: Cancel, **settings: Any
    ) -> AsyncGenerator[Event | Result[Any], None]:
        """The events of loading, if needed, and the model; without source, the first of hub.models(task). A loaded
        model is returned unchanged. `settings` are those of the task's loader.
        """
        if hasattr(source, "tokenizer"):
            yield Result(source)
            return
        source = known(source, task)
        key = identity(source, tokenizer) if key is None else key
        device = self.devices.get(task, self.device)
        if key is not None:
            key = (task, key, device, *settings, *map(_marked, settings.values()))
        model = self._model
        if model is None or key is None or key != self._key:
            model = None
            self.drop()  # before the new one needs the memory
            start = time.perf_counter()

            def work(report: Callable[[Event], None]) -> Any:
                where = {} if device is None else {"device": device}
                return LOADERS[task](source, tokenizer, report, cancel, **where, **settings)

            async with Step(reported(work, cancel)) as events:
                async for event in events:
                    yield event
            self._key, self._model = key, model = key, events.value
            yield Metric("load_time", time.perf_counter() - start, "s")
        yield Result(model)


def known(source: Any, task: str) -> Any:
    """The source; a name becomes the registry's name."""
    if source is None or isinstance(source, str):
        return known_name(source, task)
    if not isinstance(source, os.PathLike):
        return source
    from pyapp.hub import NameIn

    if isinstance(source, NameIn) and not source.here:
        return NameIn(known_name(source.name, task), source.folder)
    return source


def known_name(source: str | None, task: str) -> str:
    """The registry's name of a model; without a name, the embedded model of the task. Other names are returned
    unchanged. ModelError for a model of another task.
    """
    from pyapp import hub

    if source is None:
        embedded = [entry.id for entry in hub.models(task) if entry.kind == "embedded"]
        if not embedded:
            raise ModelError(
                f"no model is chosen, and none for {task} is embedded", hint="Name one: a folder, or owner/repo"
            )
        return embedded[0]
    entry = hub.find_entry(source, task)
    if entry is None:
        return source
    if entry.task not in (task, *ALSO.get(task, ())):
        does, command = KINDS[entry.task]
        raise ModelError(f"this model {does}", where=entry.id, hint=f"Use it with {command} {entry.id}")
    return entry.id


def _status(path: Path) -> os.stat_result:
    """The status of a file; of a link to nowhere, its own."""
    return path.stat() if path.exists() else path.lstat()


def _marked(value: Any) -> object:
    """A setting as a part of a key; files, also in lists, with their status."""
    if isinstance(value, list | tuple):
        return tuple(map(_marked, value))
    return identity(value, None) if isinstance(value, os.PathLike | str) else value


def identity(source: Any, tokenizer: Any) -> object:
    """A key that identifies a model, to find out whether it is loaded already; None if there is none."""
    marks: list[object] = []
    for part in (source, tokenizer):
        if part is None:
            marks.append(None)
        elif isinstance(part, (str, os.PathLike)):
            path = Path(part)
            files = [path, *sorted(path.iterdir())] if path.is_dir() else [path] if path.exists() else []
            marks.append((os.fspath(part), *((status.st_mtime_ns, status.st_size) for status in map(_status, files))))
        else:
            return None
    return tuple(marks)


keeper = Keeper()
