"""/v1/realtime: live speech over a websocket, as OpenAI's Realtime interface for transcription.

The client sends `input_audio_buffer.append` with base64 of 16-bit samples at 24 kHz, mono, little-endian. Final words
come at once as `conversation.item.input_audio_transcription.delta`. An item ends with a pause in the speech
(`turn_detection`), or with `input_audio_buffer.commit` if that is null; then `…completed` has its whole text. Both
forms of sessions are read: `session.update` with `audio.input`, and the older `transcription_session.update`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from pyapp.audio.activity import find_speech
from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.live import hears_live, live_options, live_transcriber
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.resampling import Resampler
from pyapp.audio.streaming import LiveOptions
from pyapp.dataclass import dataclass
from pyapp.errors import OptionError, PyappError
from pyapp.events import Cancel, Event, Segment

from .context import Context
from .fields import Fields, parse_object
from .problems import Problem, of_exception
from .served import ServedModel

RATE = 24_000  # samples a second that clients send
MOST_WAITING = 30 * SAMPLE_RATE  # samples that wait for the engine; then the client is not read
PAUSES = (0.2, 5.0)  # seconds of silence that may end an item
UPDATES = ("session.update", "transcription_session.update")
FORMATS = ("pcm16", "audio/pcm")


@dataclass(frozen=True)
class Heard:
    """What the engine answers to sound: events, whether speech goes on, and the seconds so far. `committed`: the item
    ends here; `error`: nothing more comes.
    """

    events: Sequence[Event]
    speaking: bool
    seconds: float
    committed: bool = False
    error: Exception | None = None


class Listener:
    """Live speech on the engine's thread: a transcriber that gets its sound in turns. `ends`: pauses end items."""

    def __init__(
        self, model: Any, options: TranscribeOptions, live: LiveOptions, ends: bool,
        emit: Callable[[Listener, Heard], None],
    ) -> None:  # fmt: skip
        self.cancel = Cancel()
        self._transcriber: Any = None  # as live_transcriber makes it
        self._arguments = model, options, live
        self._ends, self._emit = ends, emit
        self._waiting: deque[Any] = deque()  # samples; None: make all words final
        self.waiting = 0  # samples

    def add(self, samples: Any) -> None:
        """float32 (samples,) at 16 kHz; None ends the item."""
        self._waiting.append(samples)
        self.waiting += 0 if samples is None else len(samples)

    def turn(self) -> bool:
        """What has arrived, up to the end of an item: to the first pause, where sound comes faster than it is said."""
        if self.cancel.is_set():
            return False
        if self._transcriber is None:
            model, options, live = self._arguments
            self._transcriber = live_transcriber(model, options, live, self.cancel)
        blocks: list[Any] = []
        committed = False
        while self._waiting and not committed:
            block = self._waiting.popleft()
            committed = block is None
            if block is not None:
                blocks.append(block)
        events: list[Event] = []
        if blocks:
            sound = np.concatenate(blocks)
            live = self._arguments[2]
            if self._ends and (end := first_pause(sound, live)) < len(sound):
                self._waiting.extendleft([None, sound[end:]] if committed else [sound[end:]])
                sound, committed = sound[:end], False
            self.waiting -= len(sound)
            events += self._transcriber.push(sound)
        if committed:
            events += self._transcriber.finish()
        self._emit(self, Heard(events, self._transcriber.speaking, self._transcriber.seconds, committed))
        return bool(self._waiting)

    def fail(self, error: Exception) -> None:
        self.cancel.set()
        self._emit(self, Heard((), False, 0.0, error=error))


def first_pause(sound: Any, live: LiveOptions) -> int:
    """The samples of `sound` up to where its first pause has lasted long enough to end what was said, at least those
    that are heard at once; all of them without such a pause.
    """
    if len(sound) <= (live.interval + live.pause) * SAMPLE_RATE:
        return len(sound)
    for span, following in pairwise(find_speech(sound)):
        end = max(span.end + live.pause, live.interval)
        if end <= following.start:
            return min(len(sound), math.ceil(end * SAMPLE_RATE))
    return len(sound)


@dataclass(frozen=True)
class Session:
    """The settings of a session. `pause`: seconds of silence that end an item; None: the client ends them."""

    model: str | None = None
    language: str | None = None
    prompt: str | None = None
    pause: float | None = 0.5

    def updated(self, message: Fields) -> Session:
        """The session after an update in either form. Problem for what is not known."""
        session = message.needed_object("session")
        session.text("type", choices=("transcription",))
        audio = session.object("audio")
        given = audio.object("input") if audio is not None else session
        if given is None:
            return self
        old = given is session
        kind = given.text("input_audio_format", choices=FORMATS) if old else given.object("format")
        if isinstance(kind, Fields):
            kind.text("type", choices=FORMATS)
            if kind.whole("rate", RATE) != RATE:
                raise kind.wrong("rate", f"must be {RATE}")
            kind.end()
        found = self._heard(given.object("input_audio_transcription" if old else "transcription"))
        given.any("noise_reduction" if not old else "input_audio_noise_reduction")  # without effect here
        if given.has("turn_detection"):
            found = replace(found, pause=_pause_of(given.object("turn_detection")))
        session.end(("include", "id", "object", "modalities"))
        if audio is not None:
            given.end()
            audio.end()
        message.end(("type", "event_id"))
        return found

    def _heard(self, wanted: Fields | None) -> Session:
        if wanted is None:
            return self
        names = ("model", "language", "prompt")
        values = {name: wanted.text(name) for name in names}
        wanted.end()
        return replace(self, **{name: value or None for name, value in values.items() if value is not None})

    @property
    def options(self) -> TranscribeOptions:
        try:
            return TranscribeOptions(temperature=0.0, language=self.language, initial_prompt=self.prompt)
        except OptionError as error:
            raise Problem(f"{error.where}: {error.what}", param=error.where) from None

    def live(self, usual: LiveOptions) -> LiveOptions:
        """The usual options of a model, with the session's pause."""
        return usual if self.pause is None else replace(usual, pause=self.pause)

    def described(self, id: str, model: str) -> dict[str, Any]:
        detection = {"type": "server_vad", "silence_duration_ms": round(1000 * self.pause)} if self.pause else None
        heard = {"model": model, "language": self.language, "prompt": self.prompt}
        sound = {"format": {"type": "audio/pcm", "rate": RATE}, "transcription": heard, "turn_detection": detection}
        return {"id": id, "object": "realtime.session", "type": "transcription", "audio": {"input": sound}}


def _pause_of(detection: Fields | None) -> float | None:
    if detection is None:
        return None
    detection.needed_text("type", ("server_vad", "semantic_vad"))
    seconds = detection.number("silence_duration_ms", 500, 1000 * PAUSES[0], 1000 * PAUSES[1]) / 1000
    detection.end(("threshold", "prefix_padding_ms", "eagerness", "create_response", "interrupt_response"))
    return float(seconds)


class Conversation:
    """One connection: reads what the client sends, and tells it what is heard."""

    def __init__(self, socket: WebSocket, context: Context, session: Session, model: ServedModel) -> None:
        self._socket, self._context = socket, context
        self._session, self._model = session, model
        self._id = f"sess_{secrets.token_hex(12)}"
        self._heard: asyncio.Queue[tuple[Listener, Heard]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._resampler = Resampler(RATE)
        self._rest = b""  # half a sample
        self._listener: Listener | None = None
        self._item: str | None = None
        self._before: str | None = None  # the last item
        self._text = ""
        self._speaking = False
        self.seconds = 0.0

    # -- the client

    async def run(self) -> None:
        """Runs until the client leaves. Raises Problem where the engine fails."""
        await self._send("session.created", session=self._session.described(self._id, self._model.name))
        telling = asyncio.ensure_future(self._tell())
        reading = asyncio.ensure_future(self._read())
        try:
            done, _ = await asyncio.wait({telling, reading}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (telling, reading):
                task.cancel()
            await asyncio.wait({telling, reading})
            if self._listener is not None:
                self._listener.cancel.set()
                self._context.metrics.sound.labels(self._model.name).inc(self.seconds)

    async def _read(self) -> None:
        while True:
            while self._listener is not None and self._listener.waiting > MOST_WAITING:
                await asyncio.sleep(0.05)
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text, event_id = message.get("text"), None
            try:
                if text is None:
                    raise Problem("messages are texts, not binary", code="invalid_type")
                fields = Fields(parse_object(text.encode("utf-8", "replace")))
                event_id = fields.text("event_id")
                await self._take(fields)
            except (Problem, PyappError) as error:
                problem = of_exception(error)
                if problem.status >= 500:
                    raise
                await self._send("error", error={**problem.body()["error"], "event_id": event_id})

    async def _take(self, fields: Fields) -> None:
        kind = fields.needed_text("type")
        if kind == "input_audio_buffer.append":
            await self._append(fields)
        elif kind == "input_audio_buffer.commit":
            fields.end(("event_id",))
            if self._listener is None:
                raise Problem("the buffer is empty", param="type", code="input_audio_buffer_commit_empty")
            self._give(None)
        elif kind == "input_audio_buffer.clear":
            fields.end(("event_id",))
            self._forget()
            await self._send("input_audio_buffer.cleared")
        elif kind in UPDATES:
            await self._update(fields, kind)
        else:
            raise fields.wrong("type", f"there is no {kind!r:.60} for transcription", "unknown_event")

    async def _update(self, fields: Fields, kind: str) -> None:
        session = self._session.updated(fields)
        _ = session.options  # refused now, not at the first sound
        model = self._model
        if session.model is not None and session.model != model.name:
            model = await self._context.models.get(session.model, "transcribe", lasting=True)
        if self._item is not None:
            raise Problem("the session cannot change within an item: commit or clear it first", param="session")
        self._session, self._model = session, model
        self._forget()
        answer = "session.updated" if kind == UPDATES[0] else "transcription_session.updated"
        await self._send(answer, session=session.described(self._id, model.name))

    async def _append(self, fields: Fields) -> None:
        given = fields.text("audio")
        fields.end(("event_id",))
        if given is None:
            raise fields.missing("audio")
        try:
            data = self._rest + base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            raise fields.wrong("audio", "is not base64") from None
        whole = len(data) // 2 * 2
        self._rest = data[whole:]
        samples = np.frombuffer(data[:whole], "<i2").astype(np.float32) / np.float32(32768)
        if len(samples):
            self._give(self._resampler.process(samples))

    # -- the engine

    def _give(self, samples: Any) -> None:
        if self._listener is None:
            if not hears_live(self._model.loaded):
                raise Problem(f"the model {self._model.name!r:.100} hears whole recordings only", param="model")
            ends = self._session.pause is not None
            live = self._session.live(live_options(self._model.loaded))
            self._listener = Listener(self._model.loaded, self._session.options, live, ends, self._answer)
        listener, engine, model = self._listener, self._context.engine, self._model

        def start() -> None:
            listener.add(samples)
            engine.activate(listener, model)

        engine.post(start)

    def _answer(self, listener: Listener, heard: Heard) -> None:
        """Hands what was heard to the event loop. The engine's thread calls it."""
        self._loop.call_soon_threadsafe(self._heard.put_nowait, (listener, heard))

    def _forget(self) -> None:
        """Drops the sound that has no final words yet."""
        if self._listener is not None:
            self._listener.cancel.set()
        self._listener, self._rest, self._resampler = None, b"", Resampler(RATE)
        self._item, self._text, self._speaking = None, "", False

    async def _tell(self) -> None:
        while True:
            listener, heard = await self._heard.get()
            if listener is not self._listener:
                continue  # the client has cleared that sound
            if heard.error is not None:
                raise heard.error
            await self._hear(heard)

    async def _hear(self, heard: Heard) -> None:
        self.seconds = max(self.seconds, heard.seconds)
        detects = self._session.pause is not None
        parts = [event for event in heard.events if isinstance(event, Segment) and event.text]
        if (parts or heard.speaking) and not self._speaking:
            self._speaking = True
            if detects:
                began = parts[0].start if parts else heard.seconds
                await self._send("input_audio_buffer.speech_started", audio_start_ms=round(1000 * began),
                                 item_id=self._item_id())  # fmt: skip
        for part in parts:
            delta = part.text if self._text else part.text.lstrip()
            self._text += delta
            await self._send("conversation.item.input_audio_transcription.delta", item_id=self._item_id(),
                             content_index=0, delta=delta)  # fmt: skip
        paused = self._speaking and not heard.speaking
        if detects and paused:
            await self._send("input_audio_buffer.speech_stopped", audio_end_ms=round(1000 * heard.seconds),
                             item_id=self._item_id())  # fmt: skip
        self._speaking = heard.speaking
        if heard.committed or (detects and paused):
            await self._complete(heard.seconds)

    def _item_id(self) -> str:
        if self._item is None:
            self._item = f"item_{secrets.token_hex(12)}"
        return self._item

    async def _complete(self, seconds: float) -> None:
        item, text = self._item_id(), self._text
        await self._send("input_audio_buffer.committed", item_id=item, previous_item_id=self._before)
        content = [{"type": "input_audio", "transcript": text}]
        said = {"id": item, "object": "realtime.item", "type": "message", "status": "completed", "role": "user"}
        await self._send("conversation.item.added", previous_item_id=self._before, item={**said, "content": content})
        await self._send("conversation.item.input_audio_transcription.completed", item_id=item, content_index=0,
                         transcript=text, usage={"type": "duration", "seconds": round(seconds, 3)})  # fmt: skip
        self._before, self._item, self._text = item, None, ""

    async def _send(self, kind: str, **more: Any) -> None:
        await self._socket.send_json({"type": kind, "event_id": f"event_{secrets.token_hex(12)}", **more})


async def realtime(socket: WebSocket, context: Context) -> None:
    """The connection, from its beginning to its end."""
    wanted = socket.query_params.get("model")
    if socket.query_params.get("intent", "transcription") != "transcription":
        raise Problem("intent: only transcription is served here", param="intent")
    context.admit()
    model = await context.models.get(wanted, "transcribe", lasting=True)
    socket.scope["pyapp.log"]["model"] = model.name
    offered = socket.scope.get("subprotocols", [])
    await socket.accept(subprotocol="realtime" if "realtime" in offered else None)
    context.in_flight += 1
    conversation = Conversation(socket, context, Session(), model)
    try:
        await conversation.run()
    except WebSocketDisconnect:
        pass
    except Exception as error:
        problem = of_exception(error)
        await conversation._send("error", error={**problem.body()["error"], "event_id": None})
        await socket.close(1011)
    finally:
        context.in_flight -= 1
        socket.scope["pyapp.log"]["seconds_of_sound"] = round(conversation.seconds, 3)
