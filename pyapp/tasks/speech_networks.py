"""The networks beside a speech model: which part of a recording is speech, and who speaks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING, Any

from pyapp.audio.activity import EnergyDetector
from pyapp.audio.reader import AudioReader, open_audio
from pyapp.audio.windows import Samples
from pyapp.engine.lazy import np
from pyapp.events import Cancel, Event, Notice
from pyapp.formats.source import ByteSource
from pyapp.hub import networks

from .core import Breath, Result, Step, reported
from .keeper import identity

if TYPE_CHECKING:
    from pyapp.audio.activity import SpeechDetector
    from pyapp.audio.options import TranscribeOptions
    from pyapp.audio.silero import SileroNetwork
    from pyapp.audio.speakers import SpeakerFinder, SpeakerNetwork
    from pyapp.audio.turns import Turns

ENERGY, SILERO, SPEAKERS = "energy", "silero", "speakers"

Report = Callable[[Event], None]

_loaded: dict[object, tuple[object, Any]] = {}  # by its loader: the key of the last network, and the network


def unload_networks() -> None:
    """Frees the memory of the networks."""
    _loaded.clear()


def load_vad(source: Any, report: Report | None = None, cancel: Cancel | None = None) -> SileroNetwork | None:
    """The network that finds speech: "silero", or what load_network takes; None for "energy", which needs none."""
    from pyapp.audio.networks import load_network
    from pyapp.audio.silero import SileroNetwork

    if isinstance(source, str | None) and source in (None, ENERGY):
        return None
    named = isinstance(source, str) and source == SILERO
    return SileroNetwork(*load_network(networks()[SILERO] if named else source, report=report, cancel=cancel))


def load_speakers(source: Any = None, report: Report | None = None, cancel: Cancel | None = None) -> SpeakerNetwork:
    """The network for speakers: what load_network takes; None: WeSpeaker's."""
    from pyapp.audio.networks import load_network
    from pyapp.audio.speakers import SpeakerNetwork

    return SpeakerNetwork(
        *load_network(networks()[SPEAKERS] if source is None else source, report=report, cancel=cancel)
    )


async def network(load: Callable[..., Any], source: Any, cancel: Cancel) -> AsyncGenerator[Event | Result[Any], None]:
    """The events of loading, if needed, and the network. The last one that `load` has made is kept; a source may have a
    `key` that identifies it.
    """
    key = getattr(source, "key", None) or identity(source, None)
    if key is None or _loaded.get(load, (None,))[0] != key:
        _loaded.pop(load, None)  # before the new one needs the memory
        async with Step(reported(lambda report: load(source, report, cancel), cancel)) as events:
            async for event in events:
                yield event
        _loaded[load] = key, events.value
    yield Result(_loaded[load][1])


async def loaded_detector(vad: Any, cancel: Cancel) -> AsyncGenerator[Event | Result[SpeechDetector], None]:
    """The events of loading, and the detector of one recording. `vad` is what load_vad takes, or gives."""
    if isinstance(vad, str | None) and vad in (None, ENERGY):
        yield Result(EnergyDetector())
        return
    from pyapp.audio.silero import SileroDetector, SileroNetwork

    if isinstance(vad, SileroNetwork):
        yield Result(SileroDetector(vad, cancel=cancel))
        return
    async with aclosing(network(load_vad, vad, cancel)) as events:
        async for event in events:
            yield Result(SileroDetector(event.value, cancel=cancel)) if isinstance(event, Result) else event


async def loaded_finder(
    speaker_model: Any, options: TranscribeOptions, cancel: Cancel
) -> AsyncGenerator[Event | Result[SpeakerFinder], None]:
    """The events of loading, and the finder of one recording. `speaker_model` is what load_speakers takes, or gives."""
    from pyapp.audio.speakers import THRESHOLD, SpeakerFinder, SpeakerNetwork

    wanted = options.speakers if isinstance(options.speakers, int) else None
    threshold = options.speaker_threshold or THRESHOLD
    if isinstance(speaker_model, SpeakerNetwork):
        yield Result(SpeakerFinder(speaker_model, wanted, threshold))
        return
    async with aclosing(network(load_speakers, speaker_model, cancel)) as events:
        async for event in events:
            yield Result(SpeakerFinder(event.value, wanted, threshold)) if isinstance(event, Result) else event


async def found_turns(
    finder: SpeakerFinder, detector: SpeechDetector, audio: Any, sound: Any, total: float | None, cancel: Cancel
) -> AsyncGenerator[Event | Result[tuple[Turns, Any]], None]:
    """Listens to a recording for its turns. `audio` is what the user gave, `sound` its samples, or the blocks that are
    left to read. The result is the turns and what is still to be transcribed.
    """
    with ExitStack() as stack:
        heard = sound
        if not hasattr(sound, "__array__"):
            if hasattr(audio, "read") and not isinstance(audio, ByteSource) or isinstance(audio, AudioReader):
                parts = []
                for block in sound:
                    cancel.check()
                    parts.append(block)
                heard = sound = np.concatenate(parts)
            else:
                heard = stack.enter_context(open_audio(audio))
        breath = Breath()
        for progress in finder.listen(Samples(heard), detector, cancel, total):
            yield progress
            await breath.take()
    turns = finder.turns()
    if not turns.speakers:
        yield Notice("no speech is long enough to tell speakers apart")
    elif finder.wanted is not None and turns.speakers < finder.wanted:
        yield Notice(f"there is speech of {turns.speakers} speakers, not {finder.wanted}")
    yield Result((turns, sound))
