"""Training the embedded models, and fine-tuning any language model, as streams of events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyapp.errors import PyappError
from pyapp.events import Cancel, Event

from .core import Breath, Events, Result, done_with, reported, task


@task
def train_story(
    out: str | os.PathLike[str], *, resume: bool = True, cancel: Cancel | None = None, **settings: Any
) -> Events:
    """Trains the story model in the folder `out`: the events of pyapp.recipes.story.train_story.

    `settings` are those of train_story. Without `resume`, the checkpoint of an earlier run in `out` is renamed and
    training starts again.
    """
    with needs_recipes():
        from pyapp.recipes.story import train_story as train
    return _trained(train, out, resume, cancel, settings)


@task
def train_speech(
    out: str | os.PathLike[str], *, resume: bool = True, cancel: Cancel | None = None, **settings: Any
) -> Events:
    """Trains the speech model in the folder `out`: the events of pyapp.recipes.speech.train_speech. See train_story."""
    with needs_recipes():
        from pyapp.recipes.speech import train_speech as train
    return _trained(train, out, resume, cancel, settings)


@task
def train_reader(
    out: str | os.PathLike[str], *, resume: bool = True, cancel: Cancel | None = None, **settings: Any
) -> Events:
    """Trains the reader of printed lines in the folder `out`: the events of pyapp.recipes.reader.train_reader. See
    train_story.
    """
    with needs_recipes():
        from pyapp.recipes.reader import train_reader as train
    return _trained(train, out, resume, cancel, settings)


@task
async def finetune(
    model: str | os.PathLike[str], data: str | os.PathLike[str], out: str | os.PathLike[str], *, resume: bool = True,
    cancel: Cancel | None = None, **settings: Any,
) -> Events:  # fmt: skip
    """Trains a language model or an encoder further on the file `data`, in the folder `out`: the events of
    pyapp.recipes.finetune.finetune. See train_story.
    """
    with needs_recipes():
        from pyapp.recipes.finetune import finetune as train
    from pyapp import hub
    from pyapp.models.loading.task_files import MORE_FILES

    cancel = cancel or Cancel()
    fetch = partial(hub.resolve, model, cancel=cancel, also=MORE_FILES)  # a download takes minutes
    async with aclosing(reported(lambda report: fetch(report=report), cancel)) as downloading:
        async for found in downloading:
            if not isinstance(found, Result):
                yield found
    async with aclosing(_trained(partial(train, model, data), out, resume, cancel, settings)) as events:
        async for event in events:
            yield event


@task
def merge(
    model: str | os.PathLike[str], adapter: str | os.PathLike[str], out: str | os.PathLike[str], *,
    tokenizer: Any = None, dtype: str | None = None, cancel: Cancel | None = None,
) -> Events:  # fmt: skip
    """Writes a model with an adapter in its weights into the folder `out`: Progress; Done carries `file`, `size` and
    `layers`. `dtype` as for generate.
    """
    from pyapp.adapters import load_adapter, merge_and_unload
    from pyapp.models import load_model
    from pyapp.models.loading.writing_folder import write_model

    cancel = cancel or Cancel()

    def work(report: Callable[[Event], None]) -> dict[str, Any]:
        loaded: Any = load_model(model, tokenizer, dtype=dtype, report=report, cancel=cancel, pictures=False)
        layers = load_adapter(loaded.model, adapter)
        merge_and_unload(loaded.model)
        file = write_model(loaded, out)
        return {"file": str(file), "size": file.stat().st_size, "layers": len(layers)}

    return done_with(work, cancel)


@contextmanager
def needs_recipes() -> Iterator[None]:
    """A context manager around imports from pyapp.recipes. PyappError if the package is missing, as in the page's
    wheel.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pyapp.recipes"):
            raise
        raise PyappError(
            "this build of pyapp cannot train its embedded models: it has no pyapp.recipes",
            hint="Train them with pyapp on a computer: the wheel for browsers leaves the recipes out",
        ) from error


async def _trained(
    train: Callable[..., Iterator[Event]], out: str | os.PathLike[str], resume: bool, cancel: Cancel | None,
    settings: Mapping[str, Any],
) -> Events:  # fmt: skip
    from pyapp.train.checkpoints import FILE_NAME
    from pyapp.train.folders import used_alone

    checkpoint = Path(out) / FILE_NAME
    ranks = settings.get("ranks")
    if not resume:
        if ranks is None or ranks.first:
            with suppress(FileNotFoundError), used_alone(Path(out)):
                checkpoint.replace(checkpoint.with_suffix(".previous"))
        if ranks is not None:
            ranks.told(None)  # the others look for the file after that
    breath = Breath()
    for event in train(out, cancel=cancel or Cancel(), **settings):
        yield event
        await breath.take()
