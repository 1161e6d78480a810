"""Speech to text, from recordings and while somebody speaks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyapp.events import Cancel, Done, Event, Progress

from .core import Breath, Events, Result, task
from .keeper import keeper

if TYPE_CHECKING:
    from pyapp.audio import AudioReader
    from pyapp.audio.options import TranscribeOptions

# Recordings up to this length are read before the first window is decoded: their loudest moment scales the spectrogram
# of all windows, as openai-whisper has it. Longer ones, whose samples would need much memory, are read as they go.
READ_FIRST_SECONDS = 30 * 60.0


@task
async def load_speech(model: Any = None, *, key: object = None, cancel: Cancel | None = None) -> Events:
    """Loads a model (as for `transcribe`) ahead of its first use. Done carries `name` and `config`."""
    async with aclosing(loaded_model(model, key, cancel or Cancel())) as events:
        async for event in events:
            if isinstance(event, Result):
                yield Done("complete", {"name": event.value.name, "config": event.value.config})
            else:
                yield event


@task
async def transcribe(
    audio: Any,
    options: TranscribeOptions | Mapping[str, Any] | None = None,
    *,
    model: Any = None,
    key: object = None,
    cancel: Cancel | None = None,
) -> Events:
    """Writes down what is said in a recording: Progress and the Metric load_time while the model is loaded, then the
    events of pyapp.audio.transcribe.transcribe_events; before Done, a Notice for what is wrong with the sound.

    `audio` is what pyapp.audio.open_audio takes (a path, bytes, a ByteSource, a binary stream, float samples at 16 kHz)
    or an AudioReader. `model` is a name, a path, a mapping of roles to ByteSources or a LoadedSpeechModel; None: the
    embedded one. `key` tells models apart that have no name; the model used last is kept. `options` may be a dict of
    JSON values. Two hours need no more memory than half an hour.
    """
    from pyapp.audio import AudioReader, open_audio
    from pyapp.audio.transcribe import transcribe_events

    cancel, chosen = cancel or Cancel(), as_options(options)
    with audio if isinstance(audio, AudioReader) else open_audio(audio) as reader:
        async with aclosing(loaded_model(model, key, cancel)) as loading:
            async for event in loading:
                if isinstance(event, Result):
                    loaded = event.value
                else:
                    yield event
        breath = Breath()
        await breath.take()
        sound: Any = reader
        async with aclosing(read_first(reader, cancel, breath)) as reading:
            async for event in reading:
                if isinstance(event, Result):
                    sound = event.value
                else:
                    yield event
        for event in transcribe_events(loaded, sound, chosen, cancel):
            if isinstance(event, Done):
                for notice in reader.notices:
                    yield notice
            elif isinstance(event, Progress) and event.total is None:
                event = replace(event, total=reader.duration)
            yield event
            await breath.take()


def as_options(options: TranscribeOptions | Mapping[str, Any] | None) -> TranscribeOptions:
    """Options from JSON values, or as they are. OptionError names the setting that is wrong."""
    from pyapp.audio.options import TranscribeOptions

    return options if isinstance(options, TranscribeOptions) else TranscribeOptions.from_dict(options or {})


async def loaded_model(model: Any, key: object, cancel: Cancel) -> AsyncGenerator[Event | Result[Any], None]:
    """The events of loading, and the model; a model that is loaded already is itself."""
    if hasattr(model, "tokenizer"):
        yield Result(model)
        return
    async with aclosing(keeper.get("transcribe", model, None, key, cancel)) as events:
        async for event in events:
            yield event


async def read_first(reader: AudioReader, cancel: Cancel, breath: Breath) -> AsyncGenerator[Event | Result[Any], None]:
    """The samples of a recording that is not too long, float32 (samples,), else what gives its blocks."""
    if reader.duration is None or reader.duration > READ_FIRST_SECONDS:
        yield Result(reader)
        return
    from pyapp.engine.lazy import np

    blocks = []
    for block in reader:
        cancel.check()
        blocks.append(block)
        if reader.seconds > READ_FIRST_SECONDS + 60:  # its header is wrong
            rest: Iterable[Any] = chain(blocks, reader)
            yield Result(iter(rest))
            return
        yield Progress("reading the recording", reader.seconds, reader.duration, "seconds")
        await breath.take()
    yield Result(np.concatenate(blocks))
