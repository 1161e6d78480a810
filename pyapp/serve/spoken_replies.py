"""Answers of /v1/chat/completions that are spoken, too: OpenAI's `modalities` with "audio". A voice that is served for
"speak" speaks what the language model writes: in a stream each sentence as soon as it is written.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from pyapp.audio.replies import SentencesInParts
from pyapp.audio.resampling import Resampler
from pyapp.audio.sound_files import FORMATS, at_rate, check_format, encoded
from pyapp.audio.speaking import SpeakOptions
from pyapp.audio.wav import as_pcm
from pyapp.errors import OptionError
from pyapp.events import Done, Sound

from .answers import DONE, cancelled_by_leaving
from .context import Context
from .fields import Fields
from .served import ServedModel
from .speaking import PCM_RATE, AskedVoice, Speaking, samples_of

if TYPE_CHECKING:
    from .openai_text import ChatAnswer

RAW = "pcm16"  # OpenAI's name of raw samples in conversations
FORMS = (*(name for name in FORMATS if name != "pcm"), RAW)
KINDS = ("text", "audio")


class AskedSpeech:
    """The fields `modalities` and `audio` of a request; `wanted`: whether its answer is spoken."""

    def __init__(self, fields: Fields, stream: bool, count: int) -> None:
        kinds = fields.array("modalities", ("text",))
        if not kinds or not all(kind in KINDS for kind in kinds) or "text" not in kinds:
            raise fields.wrong("modalities", 'must be ["text"] or ["text", "audio"]', "unsupported_value")
        self.wanted, audio = "audio" in kinds, fields.object("audio")
        if not self.wanted:
            if audio is not None:
                raise fields.wrong("audio", 'goes together with modalities ["text", "audio"]')
            return
        if audio is None:
            raise fields.missing("audio")
        if count > 1:
            raise fields.wrong("n", "must be 1 where answers are spoken")
        self.model = audio.text("model")
        self.form: str = audio.text("format", RAW if stream else "wav", FORMS)
        if stream and self.form != RAW:
            raise audio.wrong("format", f"must be {RAW} in a stream", "unsupported_value")
        try:
            check_format("pcm" if self.form == RAW else self.form)
        except OptionError as error:
            raise audio.wrong("format", f"{error.what}. {error.hint}", "unsupported_value") from None
        self.voice = AskedVoice(audio)
        audio.end()

    async def begin(self, request: Request, context: Context, messages: Sequence[Mapping[str, Any]]) -> SpokenReply:
        """The reply to a conversation, which nobody has written yet. Problem where no model here speaks."""
        log = request.scope["pyapp.log"]
        model = await context.model(request, self.model, "speak")
        log["voice"] = model.name
        context.admit()
        return SpokenReply(context, model, self.voice.options(model.loaded), self.form, messages)


class SpokenReply:
    """The speech of a reply. `id` is that of OpenAI's `audio`. writer: the loaded model that writes it."""

    writer: Any = None

    def __init__(
        self, context: Context, model: ServedModel, options: SpeakOptions, form: str,
        reply_to: Sequence[Mapping[str, Any]],
    ) -> None:  # fmt: skip
        self._context, self._model, self._options, self._form = context, model, options, form
        self._reply_to = reply_to
        self._speaking: Speaking | None = None
        self._sentences = 0
        self._resampler: Resampler | None = None
        self.id = f"audio_{secrets.token_hex(12)}"

    @property
    def at_once(self) -> bool:
        """Whether the voice speaks a reply as a whole, and so begins when all is written."""
        return hasattr(self._model.loaded.model, "asked_in")

    def close(self) -> None:
        """Stops it."""
        if self._speaking is not None:
            self._speaking.close()

    async def sounds(self, text: str, options: SpeakOptions) -> AsyncGenerator[Sound, None]:
        """The speech of a text of the reply."""
        self._speaking = Speaking(self._context, self._model, text, options, "wav", self._reply_to, self.writer)
        try:
            async with aclosing(self._speaking.events()) as events:
                async for event in events:
                    if isinstance(event, Sound):
                        yield event
        finally:
            self._speaking.close()

    async def whole(self, request: Request, text: str) -> dict[str, Any]:
        """OpenAI's `audio` of a message."""
        pcm, rate = bytearray(), self._model.loaded.model.sample_rate
        async with cancelled_by_leaving(request, self.close, self._context.settings.seconds):
            async with aclosing(self.sounds(text, self._options)) as sounds:
                async for sound in sounds:
                    pcm += sound.pcm

        def file() -> bytes:
            if self._form == RAW:
                return bytes(pcm if rate == PCM_RATE else at_rate(pcm, rate, PCM_RATE))
            return encoded(pcm, rate, self._form)

        data = base64.b64encode(await self._context.aside(file)).decode()
        return {"id": self.id, "data": data, "transcript": text, "expires_at": self.kept(text)}

    def kept(self, text: str) -> int:
        """Keeps the text for later requests; when it is forgotten."""
        return self._context.spoken_texts.add(self.id, text)

    async def parts(self, text: str) -> AsyncGenerator[bytes, None]:
        """Raw samples of the next sentences, after a pause."""
        options, number = self._options, self._sentences
        options = replace(options, seed=options.seed_of(number))
        self._sentences += 1
        pause = number > 0
        async with aclosing(self.sounds(text, options)) as sounds:
            async for sound in sounds:
                pcm = (options.silence(sound.rate) if pause else b"") + sound.pcm
                pause = False
                if sound.rate != PCM_RATE:
                    if self._resampler is None:
                        self._resampler = Resampler(sound.rate, PCM_RATE)
                    pcm = as_pcm(self._resampler.process(samples_of(pcm)))
                if pcm:
                    yield pcm

    def rest(self) -> bytes:
        """The last samples."""
        return b"" if self._resampler is None else as_pcm(self._resampler.finish())


class SpokenStream:
    """The pieces of an answer that is spoken while it is written."""

    def __init__(self, answer: ChatAnswer, reply: SpokenReply) -> None:
        self._answer, self._reply = answer, reply
        self._lines: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self._sentences: asyncio.Queue[str | None] = asyncio.Queue()
        self._text = ""

    async def chunks(self) -> AsyncGenerator[str, None]:
        """OpenAI's chunks: what is written as the `transcript` of `audio`, the samples as its `data`."""
        answer = self._answer
        work = [asyncio.ensure_future(self._guarded(part())) for part in (self._write, self._speak)]
        try:
            while (line := await self._lines.get()) is not None:
                if isinstance(line, Exception):
                    raise line
                yield line
        finally:
            self._reply.close()
            for task in work:
                task.cancel()
            for task in work:
                with suppress(asyncio.CancelledError):
                    await task
        if self._text:
            yield answer.piece({"audio": {"id": self._reply.id, "expires_at": self._reply.kept(self._text)}})
        yield answer.piece({}, answer.first.reason)
        for line in answer.usage_lines():
            yield line
        yield DONE

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self._lines.put_nowait(error)

    async def _write(self) -> None:
        answer, put, sentences = self._answer, self._lines.put_nowait, SentencesInParts()
        begun = False
        async with aclosing(answer.events()) as events:
            async for index, event in events:
                if not begun:
                    begun = True
                    put(answer.piece({"role": "assistant", "content": None, "audio": {"id": self._reply.id}}))
                thought, text, calls = answer.take(index, event)
                scores = answer.scores_of(event)
                if thought:
                    put(answer.piece({"reasoning_content": thought}))
                if text or scores:
                    put(answer.piece({"audio": {"id": self._reply.id, "transcript": text}}, logprobs=scores))
                if calls:
                    put(answer.piece({"tool_calls": calls}))
                self._text += text
                if not self._reply.at_once:
                    self._hand_over(sentences.push(text))
                if isinstance(event, Done):
                    self._hand_over([self._text] if self._reply.at_once else sentences.finish())
        self._sentences.put_nowait(None)

    def _hand_over(self, sentences: Sequence[str]) -> None:
        for sentence in sentences:
            self._sentences.put_nowait(sentence)

    async def _speak(self) -> None:
        while (sentence := await self._sentences.get()) is not None:
            async with aclosing(self._reply.parts(sentence)) as parts:
                async for part in parts:
                    self._give(part)
        self._give(self._reply.rest())
        self._lines.put_nowait(None)

    def _give(self, pcm: bytes) -> None:
        if pcm:
            data = base64.b64encode(pcm).decode()
            self._lines.put_nowait(self._answer.piece({"audio": {"id": self._reply.id, "data": data}}))
