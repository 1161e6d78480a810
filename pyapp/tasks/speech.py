"""Speech to text, from recordings and from live speech."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np
from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Event, Language, Metric, Progress, Segment

from .core import Breath, Events, Remote, Result, Step, given, only_here, task
from .keeper import keeper

if TYPE_CHECKING:
    from pyapp.audio import AudioReader
    from pyapp.audio.encoding import WindowEncoder
    from pyapp.audio.options import TranscribeOptions

# Recordings up to this length are read before the first window is decoded: their loudest moment scales the spectrogram
# of all windows, as in openai-whisper. Longer ones need much memory and are therefore read by blocks.
READ_FIRST_SECONDS = 30 * 60.0
POLL = 0.1  # seconds between two checks of Cancel while no sound arrives
MICROPHONE = "microphone"


@task
async def load_speech(model: Any = None, *, key: object = None, cancel: Cancel | None = None) -> Events:
    """Loads a model (as for `transcribe`) ahead of its first use. Done carries `name` and `config`."""
    async with aclosing(keeper.get("transcribe", model, None, key, cancel or Cancel())) as events:
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
    vad: Any = None,
    speaker_model: Any = None,
    encoder: WindowEncoder | None = None,
    key: object = None,
    cancel: Cancel | None = None,
) -> Events:
    """Transcribes a recording: Progress and the Metric load_time while the model is loaded, then the events of
    pyapp.audio.transcribe.transcribe_events; before Done, a Notice for each problem of the sound.

    `audio` is what pyapp.audio.open_audio takes (a path, bytes, a ByteSource, a binary stream, float samples at 16 kHz)
    or an AudioReader. `model` is a name, a path, a mapping of roles to ByteSources or a LoadedSpeechModel; None: the
    embedded one. `key` identifies models without a name; the last used model is kept. `options` may be a dict of JSON
    values. Two hours take no more memory than half an hour. An async iterable of blocks is passed to `listen`.

    `vad` says what finds speech, so that windows begin there: "energy" (the default of `skip_silence`), "silero", or a
    network of Silero's kind: what pyapp.audio.networks.load_network takes. With `options.speakers` the speakers are
    told apart first, with the network `speaker_model`: segments and words have their names. A pipe is then read to its
    end. `encoder` is the loaded model's, shared with other recordings (pyapp.audio.transcribe.encoder_of).
    """
    from pyapp.audio import AudioReader, open_audio
    from pyapp.audio.transcribe import transcribe_events

    if isinstance(audio, AsyncIterable):
        only_recordings(vad=vad, speaker_model=speaker_model, encoder=encoder)
        async with aclosing(listen(audio, options, model=model, key=key, cancel=cancel)) as live:
            async for heard in live:
                yield heard
        return
    cancel, chosen = cancel or Cancel(), as_options(options)
    if isinstance(model, Remote):
        only_here(vad=vad, speaker_model=speaker_model, encoder=encoder)
        async with aclosing(model.transcribe(audio, chosen, cancel)) as forwarded:
            async for sent in forwarded:
                yield sent
        return
    with audio if isinstance(audio, AudioReader) else open_audio(audio) as reader:
        async with Step(keeper.get("transcribe", model, None, key, cancel)) as loading:
            async for event in loading:
                yield event
        loaded = loading.value
        detector = finder = turns = None
        if vad is not None or chosen.speakers is not None:  # else nothing of it is imported
            from .speech_networks import found_turns, loaded_detector, loaded_finder

            async with Step(loaded_detector(vad, cancel)) as detecting:
                async for event in detecting:
                    yield event
            detector = detecting.value
            if chosen.speakers is not None:
                async with Step(loaded_finder(speaker_model, chosen, cancel)) as telling_apart:
                    async for event in telling_apart:
                        yield event
                finder = telling_apart.value
        breath = Breath()
        await breath.take()
        sound: Any = reader
        async with Step(read_first(reader, cancel, breath)) as reading:
            async for event in reading:
                yield event
        sound = reading.value
        if finder is not None:
            assert detector is not None
            async with Step(found_turns(finder, detector, audio, sound, reader.duration, cancel)) as finding:
                async for event in finding:
                    yield event
            turns, sound = finding.value
        skipping = None if vad is None else detector  # the options decide about silence where no detector is chosen
        yield Progress("transcribing", 0, reader.duration, "seconds")
        hearing = transcribe_events(
            loaded, sound, chosen, cancel, detector=skipping, turns=turns, encoder=encoder
        )  # fmt: skip
        for event in of_recording(hearing, reader):
            yield event
            await breath.take()


def of_recording(events: Iterable[Event], reader: AudioReader) -> Iterator[Event]:
    """The events of a transcription with what is known of its recording: its length, and the problems of its sound."""
    for event in events:
        if isinstance(event, Done):
            yield from reader.notices
        elif isinstance(event, Progress) and event.total is None:
            event = replace(event, total=reader.duration)
        elif isinstance(event, Segment) and reader.duration is not None:
            event = until(event, reader.duration)
        yield event


@task
async def listen(
    audio: AsyncIterable[Any],
    options: TranscribeOptions | Mapping[str, Any] | None = None,
    *,
    model: Any = None,
    key: object = None,
    cancel: Cancel | None = None,
) -> Events:
    """Transcribes live speech: Language, Segment for final words, Partial for words that may change; at the end the
    Metric window_time (seconds that the last window took: how long another pass over the whole recording would take),
    Doubt if the text may be a guess, and Done with `text language duration task`.

    `audio` yields float32 (samples,) at 16 kHz from the microphone, and ends with the speech. The event loop runs
    between its blocks. `model`, `key` and `options` as for `transcribe`, but temperatures above 0 are tried only if
    given, and words of Whisper's models always have times. An hour takes no more memory than a minute.
    """
    from pyapp.audio.live import live_transcriber
    from pyapp.audio.quality import Quality

    chosen = as_options(options if not isinstance(options, Mapping | None) else {"temperature": 0.0, **(options or {})})
    several = chosen.language_detection_segments
    only_recordings(
        speakers=chosen.speakers, multilingual=chosen.multilingual or None,
        language_detection_segments=several if several > 1 else None,
    )  # fmt: skip
    cancel, quality = cancel or Cancel(), Quality()
    async with Step(keeper.get("transcribe", model, None, key, cancel)) as loading:
        async for event in loading:
            yield event
    transcriber = live_transcriber(loading.value, chosen, cancel=cancel)
    results: dict[str, Any] = {"text": "", "language": chosen.language, "task": chosen.task}
    breath = Breath()
    async with aclosing(blocks_of(audio, cancel)) as blocks:
        async for block in blocks:
            quality.add(block)
            for event in transcriber.push(block):
                note(event, results)
                yield event
            await breath.take()
    for event in transcriber.finish():
        note(event, results)
        yield event
    yield Metric("window_time", transcriber.cost, "s")
    for notice in quality.notices(MICROPHONE):
        yield notice
    if (doubt := transcriber.doubt()) is not None:
        yield doubt
        results["guess"] = doubt.share
    yield Done("complete", results | {"duration": transcriber.seconds})


def only_recordings(**settings: Any) -> None:
    """OptionError for a setting that is given, of live speech."""
    if names := list(given(**settings)):
        raise OptionError("needs a whole recording, not live speech", where=names[0])


def until(segment: Segment, end: float) -> Segment:
    """The segment with times limited to the recording's end, because the last window is longer than the sound."""
    if segment.end <= end:
        return segment
    words = segment.words and tuple(
        {**word, "start": min(word["start"], end), "end": min(word["end"], end)} for word in segment.words
    )
    return replace(segment, start=min(segment.start, end), end=end, words=words)


def note(event: Event, results: dict[str, Any]) -> None:
    """Collects the results for Done."""
    if isinstance(event, Segment):
        results["text"] += event.text
    elif isinstance(event, Language):
        results["language"] = event.code


async def blocks_of(audio: AsyncIterable[Any], cancel: Cancel) -> AsyncGenerator[Any, None]:
    """The blocks as they arrive; checks Cancel while waiting."""
    iterator = aiter(audio)
    waiting: asyncio.Future[Any] | None = None
    try:
        while True:
            waiting = asyncio.ensure_future(anext(iterator, None))
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=POLL)
                cancel.check()
            block = waiting.result()
            if block is None:
                return
            yield block
    finally:
        if waiting is not None and not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
        if hasattr(iterator, "aclose"):
            await iterator.aclose()


def as_options(options: TranscribeOptions | Mapping[str, Any] | None) -> TranscribeOptions:
    """Options from JSON values; options are returned unchanged. OptionError names the wrong setting."""
    from pyapp.audio.options import TranscribeOptions

    return options if isinstance(options, TranscribeOptions) else TranscribeOptions.from_dict(options or {})


async def read_first(reader: AudioReader, cancel: Cancel, breath: Breath) -> AsyncGenerator[Event | Result[Any], None]:
    """The samples of a recording, float32 (samples,), if it is not too long; else an iterator of its blocks."""
    if reader.arrives or reader.duration is None or reader.duration > READ_FIRST_SECONDS:
        yield Result(reader)
        return
    from pyapp.audio import SAMPLE_RATE

    samples, count = np.empty(int((1.1 * reader.duration + 10) * SAMPLE_RATE), np.float32), 0
    for block in reader:
        cancel.check()
        if count + len(block) > len(samples):  # its header is wrong: it may have any length
            yield Result(chain([samples[:count], block], reader))
            return
        samples[count : count + len(block)] = block
        count += len(block)
        yield Progress("reading the recording", reader.seconds, reader.duration, "seconds")
        await breath.take()
    yield Result(samples[:count])
