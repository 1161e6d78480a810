"""Music of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyapp.errors import OptionError
from pyapp.events import Cancel, Notice

from .core import Breath, Events, Remote, Step, task
from .keeper import keeper
from .sounds import name_of, samples_of

if TYPE_CHECKING:
    from pyapp.audio.composing import ComposeOptions


@task
async def compose(
    text: str,
    options: ComposeOptions | Mapping[str, Any] | None = None,
    *,
    model: Any,
    melody: Any = None,
    key: object = None,
    dtype: str | None = None,
    cancel: Cancel | None = None,
) -> Events:
    """Makes music of a text: Progress and the Metric load_time while the model is loaded, then the events of
    pyapp.audio.composing.compose_events: Progress, a Sound with all of it, and Done.

    `model` is a folder, a name on the hub such as facebook/musicgen-small, or a loaded model; `key` identifies models
    without a name: the last used model is kept. `melody`: a recording (a path, bytes, or float samples (N,) at 16 kHz)
    whose notes the music follows, with a model such as facebook/musicgen-melody; a Notice tells if it is longer than 30
    seconds, of which the first count. `options` may be a dict of JSON values. `dtype` ("q8_0" …): the type of
    the matrices.
    """
    from pyapp.audio.composing import MOST_SECONDS, ComposeOptions, compose_events

    cancel = cancel or Cancel()
    chosen = options if isinstance(options, ComposeOptions) else ComposeOptions.from_dict(options or {})
    if isinstance(model, Remote):
        raise OptionError("a server's models do not do this", where="model")
    async with Step(keeper.get("compose", model, None, key, cancel, dtype=dtype)) as loading:
        async for event in loading:
            yield event
    loaded = loading.value
    breath, samples = Breath(), None
    await breath.take()
    if melody is not None:
        samples, more = samples_of(melody, MOST_SECONDS, False, loaded.model.sample_rate)
        if more:
            yield Notice(f"only the first {MOST_SECONDS:.0f} seconds are heard", where=name_of(melody))
    for step in compose_events(loaded, text, chosen, cancel, samples):
        yield step
        await breath.take()
