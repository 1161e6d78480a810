"""OpenAI's interface for texts that are spoken: /v1/audio/speech."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pyapp import tasks
from pyapp.audio.resampling import Resampler
from pyapp.audio.sound_files import FORMATS, can_write, check_format, encoded
from pyapp.audio.speaking import SEEDS, SpeakOptions
from pyapp.audio.wav import as_pcm, wav_head
from pyapp.engine.lazy import np
from pyapp.errors import OptionError
from pyapp.events import Done, Progress, Sound

from .answers import EventStream, cancelled_by_leaving, data_line
from .context import Context
from .fields import Fields
from .running import RunningTask, stream_of
from .served import ServedModel

PCM_RATE = 24000  # of OpenAI's raw samples
SLOWEST, FASTEST = 0.25, 4.0  # OpenAI's
NAMES = {"text": "input", "speaker": "voice", "rate": "speed", "description": "instructions"}  # in this interface


def form_of(fields: Fields, usual: str) -> str:
    """The form of a sound file, `response_format`. Problem for one that is not known or cannot be written here."""
    form: str = fields.text("response_format", usual, tuple(FORMATS))
    try:
        check_format(form)
    except OptionError as error:
        raise fields.wrong("response_format", f"{error.what}. {error.hint}", "unsupported_value") from None
    return form


class AskedVoice:
    """The fields of a request that say how a text is spoken."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._description = fields.text("instructions") or None
        self._rate, self._seed = fields.number("speed", 1.0, SLOWEST, FASTEST), fields.whole("seed", 0, 0, SEEDS - 1)
        self._voice = _voice(fields)

    def options(self, loaded: Any) -> SpeakOptions:
        """The settings for a model. Problem for those that it cannot follow."""
        fields, voice = self._fields, self._voice
        if self._description is not None and not loaded.described:
            raise fields.wrong("instructions", "the model follows none", "unsupported_parameter")
        named = voice if voice is not None and {*voice.split(",")} <= {*loaded.voices} else None
        speaker = 0 if named else _number(fields, voice, loaded.speakers, loaded.voices)
        try:
            return SpeakOptions(
                speaker=speaker, voice=named, rate=self._rate, seed=self._seed, description=self._description
            )
        except OptionError as error:
            raise fields.wrong(NAMES.get(str(error.where), str(error.where)), error.what) from None


async def speech(request: Request, context: Context) -> Response:
    """The speech of a text: as a whole, sentence by sentence, or as server-sent events."""
    fields = Fields(await context.json(request))
    text, name = fields.needed_text("input"), fields.text("model")
    context.check_length([text], "input")
    form = form_of(fields, "mp3" if can_write("mp3") else "wav")
    sse = fields.text("stream_format", "audio", ("audio", "sse")) == "sse"
    asked, phonemes = AskedVoice(fields), fields.flag("phonemes")
    fields.end()
    model = await context.model(request, name, "speak")
    options = replace(asked.options(model.loaded), phonemes=phonemes)
    return await _spoken(request, context, model, text, options, form, sse)


async def of_inputs(request: Request, context: Context, given: dict[str, Any]) -> Response:
    """A WAVE file of `inputs`, as Hugging Face's clients ask / for it. `given`: the body."""
    fields = Fields(given)
    text, parameters = fields.needed_text("inputs"), fields.parameters
    context.check_length([text], "inputs")
    parameters.end()
    fields.end(("model", "options"))
    model = await context.model(request, None, "speak")
    return await _spoken(request, context, model, text, SpeakOptions(), "wav", False)


async def _spoken(
    request: Request, context: Context, model: ServedModel, text: str, options: SpeakOptions, form: str, sse: bool
) -> Response:
    context.admit()
    request.scope["pyapp.log"]["characters"] = len(text)
    running, settings = Speaking(context, model, text, options, form), context.settings
    if sse:
        return stream_of(context, running, running.lines())
    async with cancelled_by_leaving(request, running.leave, settings.seconds):
        first, is_all = await running.first()
        running.waiting = False
    if is_all:
        running.close()
        return Response(first, media_type=FORMATS[form].media)
    return SoundStream(running.parts(first), running.close, settings.seconds, FORMATS[form].media)


def _voice(fields: Fields) -> str | None:
    """The name of the voice, which OpenAI's clients send as a text or as an object with an id."""
    value = fields.any("voice")
    if isinstance(value, dict) and set(value) == {"id"}:
        value = value["id"]
    if value is not None and not isinstance(value, str):
        raise fields.wrong("voice", 'must be a string, or {"id": a string}', "invalid_type")
    return value


def _number(fields: Fields, voice: str | None, count: int, names: tuple[str, ...]) -> int:
    """The number of a voice. A model with one voice has it under every name, because clients must send one."""
    if count == 1 or voice is None:
        return 0
    if not (voice.isascii() and voice.isdecimal() and len(voice) < 10 and int(voice) < count):
        named = f" or its name, such as {names[0]}," if names else ""
        raise fields.wrong("voice", f"must be the number of a voice, from 0 to {count - 1},{named} not {voice!r:.60}")
    return int(voice)


def samples_of(pcm: bytes) -> Any:
    """float32 (N,) of 16-bit samples."""
    return np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)


class Speaking(RunningTask):
    """A text that is spoken, `reply_to` a conversation if that is given, which the loaded model `writer` has written.
    `waiting`: its answer has not begun.
    """

    names: Mapping[str, str] = NAMES

    def __init__(
        self, context: Context, model: ServedModel, text: str, options: SpeakOptions, form: str,
        reply_to: Sequence[Mapping[str, Any]] | None = None, writer: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(context, model, partial(tasks.speak, text, options, reply_to=reply_to, writer=writer))
        self._form = form
        self._events = self.events()
        self._resampler: Resampler | None = None
        self._rate = 0
        self.waiting = True

    def leave(self) -> None:
        """Stops what has not begun to answer."""
        if self.waiting:
            self.close()

    def count(self, results: Mapping[str, Any]) -> None:
        self._context.metrics.spoken.labels(self._model.name).inc(results["duration"])

    @property
    def _whole(self) -> bool:
        """Whether the file is made of all samples together."""
        return FORMATS[self._form].container is not None

    def _part(self, sound: Sound) -> bytes:
        """The samples as the answer has them: those of pcm at OpenAI's rate."""
        self._rate = sound.rate
        if self._form != "pcm" or sound.rate == PCM_RATE:
            return sound.pcm
        if self._resampler is None:
            self._resampler = Resampler(sound.rate, PCM_RATE)
        return as_pcm(self._resampler.process(samples_of(sound.pcm)))

    def _rest(self) -> bytes:
        """The last samples."""
        return b"" if self._resampler is None else as_pcm(self._resampler.finish())

    async def first(self) -> tuple[bytes, bool]:
        """The samples of the first sentence, if there are more and they can be sent by themselves; else the whole file,
        and True.
        """
        found = bytearray()
        async for event in self._events:
            if isinstance(event, Sound):
                found += self._part(event)
            elif isinstance(event, Progress) and not self._whole and event.what == "speaking":
                if event.done != event.total:
                    return bytes(found), False
            elif isinstance(event, Done):
                found += self._rest()
        return await self._context.aside(lambda: encoded(found, self._rate, self._form)), True

    async def parts(self, first: bytes) -> AsyncGenerator[bytes, None]:
        """The parts of a file without a length, sentence by sentence."""
        async with aclosing(self._events) as events:
            yield (wav_head(self._rate) if self._form == "wav" else b"") + first
            async for event in events:
                if isinstance(event, Sound):
                    yield self._part(event)
            if rest := self._rest():
                yield rest

    async def lines(self) -> AsyncGenerator[str, None]:
        """OpenAI's events: the parts in base64. The whole file is one part where it is made of all samples."""
        first, is_all = await self.first()
        if is_all:
            yield _delta(first)
        else:
            async with aclosing(self.parts(first)) as parts:
                async for part in parts:
                    yield _delta(part)
        yield data_line({"type": "speech.audio.done"})


def _delta(data: bytes) -> str:
    return data_line({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})


class SoundStream(EventStream):
    """A file of sound whose parts are sent as they come. After an error the connection is cut, which tells the client
    that the file is not whole.
    """

    comment = None

    def __init__(
        self, source: AsyncGenerator[bytes, None], ended: Callable[[], None], seconds: float, media: str
    ) -> None:
        super().__init__(source, lambda error: None, ended, seconds, seconds)
        self.headers["content-type"] = media
