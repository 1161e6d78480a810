"""The tasks of pyapp, computed by a server: `pyapp serve`, or another one with OpenAI's interface.

    server = Server("http://localhost:8000")
    async for event in tasks.chat(server, messages): ...

It needs none of the packages of the extra `server`.

The events are those of a model in this process, except what a server does not tell: Tokens have no ids.
"""

from __future__ import annotations

import asyncio
import base64
import bisect
import json
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.sound_files import encoded
from pyapp.audio.speaking import pieces
from pyapp.audio.wav import as_pcm, read_wav
from pyapp.audio.windows import checked
from pyapp.engine import Tensor
from pyapp.errors import Cancelled, ModelNotFoundError, OptionError, PyappError, ServerError
from pyapp.events import Cancel, Done, Event, Item, Language, Metric, Progress, Segment, Sound, Thought, Token
from pyapp.formats.png import encode_png
from pyapp.formats.safe_json import parse_json
from pyapp.formats.source import ByteSource, opened_source
from pyapp.formats.source import read_whole as read_whole_source
from pyapp.tasks.core import Events, Remote
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.pictures import SoundSource, VideoSource, taken

from .settings import Settings
from .tool_calls import joined

if TYPE_CHECKING:
    import httpx2

    from pyapp.audio.options import TranscribeOptions
    from pyapp.audio.speaking import SpeakOptions

T = TypeVar("T")
# By the beginnings of their files; other servers read this type.
KINDS_OF_PICTURES = {b"\x89PNG": "image/png", b"\xff\xd8": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
EXAMPLE = "Give one such as http://localhost:8000"
KEY_VARIABLE = "PYAPP_API_KEY"
CONNECT_SECONDS = 10.0
ANSWER_BYTES = 1 << 30  # of one answer
LINE_CHARACTERS = 16 << 20  # of one event of a stream
BATCH = 256  # texts of one request
POLL = 0.05  # seconds between two looks at Cancel while the server is silent
# Names of settings that differ in OpenAI's interface.
NAMES = {
    "max_new_tokens": "max_tokens", "samples": "n", "min_new_tokens": "min_tokens", "stop_tokens": "stop_token_ids",
}  # fmt: skip
# Settings of the process that computes, which a request cannot change.
OF_THE_SERVER = ("context", "cache_type", "rolling", "keep", "lookup", "beams", "length_penalty", "early_stopping",
                 "min_length", "forced_eos_token_id")  # fmt: skip
# Settings of a transcription that a request has.
SENT = ("language", "initial_prompt", "word_timestamps", "task", "speakers")
# The defaults of OpenAI's interface; what differs from them is sent, and nothing else, for servers that know no more.
DEFAULTS = {field.name: field.default for field in fields(SamplingOptions)} | {
    "temperature": 1.0, "top_p": 1.0, "max_new_tokens": None,
}  # fmt: skip


class Server(Remote):
    """A server at an address such as "http://localhost:8000", instead of a model: tasks.generate, chat, embed, rerank,
    classify, speak and transcribe take it as `model`.

    `model` is the name that requests give; None: the server's first one for the task. `key` is sent as bearer token
    (None: the environment variable PYAPP_API_KEY). `seconds` is the longest silence of the server. OptionError for an
    address that is none.
    """

    def __init__(self, url: str, *, model: str | None = None, key: str | None = None, seconds: float = 600.0) -> None:
        import httpx2

        try:
            address = httpx2.URL(url)
        except (httpx2.InvalidURL, TypeError, UnicodeError) as error:
            raise OptionError(f"is not an address: {error}", where="server", hint=EXAMPLE) from None
        if address.scheme not in ("http", "https") or not address.host:
            raise OptionError(f"{url!r:.100} is not an address of a server", where="server", hint=EXAMPLE)
        self.url = str(address).rstrip("/").removesuffix("/v1")
        self.model, self.seconds = model, seconds
        self._key = os.environ.get(KEY_VARIABLE) if key is None else key

    def __repr__(self) -> str:
        return f"Server({self.url!r}, model={self.model!r})"

    # -- requests

    @asynccontextmanager
    async def _open(self, method: str, path: str, **more: Any) -> AsyncGenerator[httpx2.Response, None]:
        """The answer to a request, whose body is not yet read. PyappError with the server's words if it refuses."""
        import httpx2

        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx2.Timeout(self.seconds, connect=CONNECT_SECONDS)
        try:
            async with (
                httpx2.AsyncClient(timeout=limits, headers=headers) as client,
                client.stream(method, self.url + path, **more) as answer,
            ):
                if answer.status_code >= 400:
                    raise refusal(answer, await read_whole(answer), self.url + path)
                yield answer
        except httpx2.TimeoutException:
            raise ServerError(
                f"the server did not answer within {self.seconds:g} s", where=self.url, hint="Is it busy? Try again"
            ) from None
        except httpx2.HTTPError as error:
            raise ServerError(
                f"no server answers here ({str(error) or type(error).__name__})", where=self.url,
                hint="Check the address, and that `pyapp serve` runs there",
            ) from error  # fmt: skip

    async def _json(self, path: str, body: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """The JSON of an answer: GET without a body, POST with one."""
        if body is not None:
            more["json"] = {**self._named(), **body}
        async with self._open("POST" if more else "GET", path, **more) as answer:
            return parsed(await read_whole(answer), self.url + path)

    def _named(self) -> dict[str, str]:
        return {} if self.model is None else {"model": self.model}

    async def _stream(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a stream (server-sent events, WHATWG HTML 9.2), each a JSON object."""
        asked = {**self._named(), **body, "stream": True, "stream_options": {"include_usage": True}}
        where = self.url + path
        async with self._open("POST", path, json=asked) as answer:
            async for line in lines_of(answer, where):
                kind, _, data = line.partition(":")
                data = data.strip()
                if kind != "data" or not data:
                    continue
                if data == "[DONE]":
                    return
                event = parsed(data.encode(), where)
                if not isinstance(event, dict):
                    raise ServerError("the server sent an event that is not an object", where=where)
                if "error" in event:
                    raise of_error(event["error"], where)
                yield event
        raise ServerError("the server ended the text in the middle", where=where, hint="Its log may say why")

    # -- tasks

    async def models(self, cancel: Cancel | None = None) -> list[str]:
        """The names of the server's models."""
        found = await until_cancelled(self._json("/v1/models"), cancel or Cancel())
        entries = found.get("data") if isinstance(found, dict) else None
        return [str(entry.get("id")) for entry in entries or () if isinstance(entry, dict)]

    async def load(self, cancel: Cancel) -> Events:
        """Asks for the models, so that a wrong address, key or name is known before the first text."""
        names = await self.models(cancel)
        if self.model is not None and self.model not in names:
            raise ModelNotFoundError(
                f"the server has no model {self.model!r:.100}", where=self.url, hint=f"It has {', '.join(names)}"
            )
        yield Done("complete", {"name": self.model or (names[0] if names else self.url), "server": self.url})

    async def generate(
        self, prompt: str, options: SamplingOptions, cancel: Cancel, given: Collection[str] | None = None
    ) -> Events:  # fmt: skip
        """The events of tasks.generate."""
        body = {"prompt": prompt, **request_of(options, given)}
        if options.logprobs is not None:
            body["logprobs"] = options.logprobs
        async with aclosing(self._text("/v1/completions", body, options, cancel)) as events:
            async for event in events:
                yield event

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], options: SamplingOptions,
        tools: Sequence[Mapping[str, Any]] | None, variables: Mapping[str, Any] | None, cancel: Cancel,
        given: Collection[str] | None = None,
    ) -> Events:  # fmt: skip
        """The events of tasks.chat; Done carries `calls` if the model calls tools."""
        body: dict[str, Any] = {"messages": [with_addresses(message) for message in messages]}
        body |= request_of(options, given)
        if options.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": options.logprobs}
        if tools:
            body["tools"] = [dict(tool) for tool in tools]
        if variables:
            body["chat_template_kwargs"] = dict(variables)
        async with aclosing(self._text("/v1/chat/completions", body, options, cancel)) as events:
            async for event in events:
                yield event

    async def _text(self, path: str, body: Mapping[str, Any], options: SamplingOptions, cancel: Cancel) -> Events:
        """Token, Thought, Metric and Done of the texts of a stream."""
        reader = TextReader(path, self.url + path, options.samples > 1)
        chunks: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

        async def receive() -> None:  # in one task: a connection must be closed by the task that opened it
            try:
                async with aclosing(self._stream(path, body)) as stream:
                    async for chunk in stream:
                        chunks.put_nowait(chunk)
            finally:
                chunks.put_nowait(None)

        receiving = asyncio.ensure_future(receive())
        try:
            while (chunk := await until_cancelled(chunks.get(), cancel)) is not None:
                for event in reader.read(chunk):
                    yield event
            await receiving
        except Cancelled:
            pass
        finally:
            receiving.cancel()
            await asyncio.wait({receiving})
        for event in reader.finish(cancel.is_set()):
            yield event

    async def of_texts(self, name: str, arguments: Sequence[Any], options: Mapping[str, Any], cancel: Cancel) -> Events:
        """The events of a task over texts: embed, rerank or classify."""
        tasks: dict[str, Callable[..., Events]] = {
            "embed": self.embed,
            "rerank": self.rerank,
            "classify": self.classify,
        }
        if name not in tasks:
            raise OptionError(
                f"a server does not do the task {name}", where="model", hint="Use a model on this machine"
            )
        chosen = {key: value for key, value in options.items() if value is not None}
        if unknown := [key for key in chosen if key != "top" or name == "embed"]:
            raise OptionError("is not a setting of a server's model", where=unknown[0])
        async with aclosing(tasks[name](*arguments, **chosen, cancel=cancel)) as events:
            async for event in events:
                yield event

    async def embed(self, texts: Sequence[str], *, cancel: Cancel) -> Events:
        """The events of tasks.embed."""
        dimensions = 0
        for first in range(0, len(texts), BATCH):
            part = list(texts[first : first + BATCH])
            answer = await until_cancelled(self._json("/v1/embeddings", {"input": part}), cancel)
            for index, entry in enumerate(entries_of(answer, "data", len(part), self.url)):
                vector = entry.get("embedding")
                if not isinstance(vector, list):
                    raise ServerError("the server sent no vectors", where=self.url)
                dimensions = len(vector)
                yield Item(first + index, {"embedding": vector})
        yield Done("complete", {"count": len(texts), "dimensions": dimensions})

    async def rerank(self, query: str, texts: Sequence[str], *, top: int | None = None, cancel: Cancel) -> Events:
        """The events of tasks.rerank."""
        asked = {"query": query, "documents": list(texts)}
        answer = await until_cancelled(self._json("/v1/rerank", asked), cancel)
        found = entries_of(answer, "results", len(texts), self.url)
        scores = {entry.get("index"): float(entry.get("relevance_score", 0.0)) for entry in found}
        if set(scores) != set(range(len(texts))):
            raise ServerError("the server did not rank every text", where=self.url)
        for index in range(len(texts)):
            yield Item(index, {"score": scores[index]})
        yield Done("complete", {"count": len(texts), "order": sorted(scores, key=lambda i: -scores[i])[:top]})

    async def classify(self, texts: Sequence[str], *, top: int | None = None, cancel: Cancel) -> Events:
        """The events of tasks.classify."""
        for first in range(0, len(texts), BATCH):
            part = list(texts[first : first + BATCH])
            found = await until_cancelled(self._json("/predict", json={"inputs": part}), cancel)
            if not isinstance(found, list) or len(found) != len(part):
                raise ServerError("the server did not label every text", where=self.url)
            for index, labels in enumerate(found):
                yield Item(first + index, {"labels": labels[:top]})
        yield Done("complete", {"count": len(texts)})

    async def speak(self, text: str, options: SpeakOptions, cancel: Cancel) -> Events:
        """The events of tasks.speak: each sentence is a request."""
        unsent = [name for name in ("noise", "noise_duration") if getattr(options, name) is not None]
        if unsent:
            raise OptionError("is not a setting of a server's model", where=unsent[0])
        asked: dict[str, Any] = {"voice": options.voice or str(options.speaker), "response_format": "wav"}
        asked |= {"speed": options.rate} if options.rate != 1 else {}
        asked |= {"phonemes": True} if options.phonemes else {}
        asked |= {} if options.description is None else {"instructions": options.description}
        parts = [part for part in pieces(text) if any(map(str.isalnum, part))]
        done, samples, rate = 0, 0, 0
        for number, part in enumerate(parts):
            if seed := options.seed_of(number):
                asked["seed"] = seed
            sound = await until_cancelled(self._sound({**asked, "input": part}), cancel)
            found, rate = read_wav(sound)
            pcm = as_pcm(found[:, 0]) + (options.silence(rate) if number < len(parts) - 1 else b"")
            start, samples, done = samples, samples + len(pcm) // 2, done + len(part)
            yield Sound(part, start / rate, samples / rate, rate, pcm)
            yield Progress("speaking", done, sum(map(len, parts)), "characters")
        if not parts:
            raise OptionError("there is nothing to say", where="text")
        yield Done("complete", {"duration": samples / rate, "rate": rate, "sentences": len(parts)})

    async def _sound(self, body: Mapping[str, Any]) -> bytes:
        """A file of speech."""
        async with self._open("POST", "/v1/audio/speech", json={**self._named(), **body}) as answer:
            return await read_whole(answer)

    async def transcribe(self, audio: Any, options: TranscribeOptions, cancel: Cancel) -> Events:
        """The events of tasks.transcribe for a path or bytes. The segments come together, at the end."""
        if not isinstance(audio, (str, os.PathLike, bytes)):
            raise OptionError("a server takes a path or bytes", where="audio")
        unsent = [
            field.name
            for field in fields(options)
            if field.name not in SENT and getattr(options, field.name) != field.default
        ]
        if unsent:
            raise OptionError("is not a setting of a server's model", where=unsent[0])
        name = "audio" if isinstance(audio, bytes) else Path(audio).name
        data = audio if isinstance(audio, bytes) else Path(audio).read_bytes()
        asked: dict[str, Any] = {**self._named(), "response_format": "verbose_json"}
        asked |= {} if options.language is None else {"language": options.language}
        asked |= {} if not options.initial_prompt else {"prompt": options.initial_prompt}
        asked |= {} if options.speakers is None else {"speakers": str(options.speakers)}
        if options.word_timestamps:
            asked["timestamp_granularities[]"] = ["word", "segment"]
        kind = "translations" if options.task == "translate" else "transcriptions"
        start = time.perf_counter()
        files = {"file": (name, data)}
        found = await until_cancelled(self._json(f"/v1/audio/{kind}", data=asked, files=files), cancel)
        if not isinstance(found, dict) or not isinstance(found.get("segments"), list):
            raise ServerError("the server sent no segments", where=self.url)
        if found.get("language"):
            yield Language(str(found["language"]))
        segments = segments_of(found)
        for segment in segments:
            yield segment
        yield Metric("transcribe_time", time.perf_counter() - start, "s")
        yield Done("complete", found | {"segments": [segment.to_dict() for segment in segments]})


def request_of(options: SamplingOptions, given: Collection[str] | None = None) -> dict[str, Any]:
    """The settings in the interface's names: those `given` and the length; None: those that differ from the interface's
    defaults. For the others the server's model decides. OptionError for those that a server does not take from a
    request.
    """
    found: dict[str, Any] = {}
    usual = SamplingOptions()
    for name, default in DEFAULTS.items():
        value = getattr(options, name)
        if name in OF_THE_SERVER:
            if value != getattr(usual, name):
                if hasattr(Settings, name):
                    option = f"--{name.replace('_', '-')}"
                    raise OptionError(
                        "is a setting of the server, not of a request",
                        where=name,
                        hint=f"Start pyapp serve with {option}",
                    )
                raise OptionError("no server does this", where=name, hint="Leave it out, or compute here")
        elif name == "logprobs" or value is None:
            continue
        elif value != default if given is None or name == "max_new_tokens" else name in given:
            found[NAMES.get(name, name)] = value
    if "logit_bias" in found:
        found["logit_bias"] = {str(token): bias for token, bias in options.logit_bias}
    if options.json_schema is not None:
        schema = {"name": "answer", "schema": found.pop("json_schema")}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    return found


class TextReader:
    """Turns the chunks of a stream of texts into events."""

    def __init__(self, path: str, where: str, several: bool) -> None:
        self._chat = path.endswith("/chat/completions")
        self._where, self._several = where, several
        self._start, self._first, self._last = time.perf_counter(), 0.0, 0.0
        self._count = 0
        self._texts: dict[int, str] = {}
        self._thoughts = ""
        self._calls: list[Any] = []
        self._reason = ""
        self._usage: Mapping[str, Any] = {}

    def read(self, chunk: Mapping[str, Any]) -> list[Event]:
        """The events of one chunk."""
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        found: list[Event] = []
        for choice in entries_of(chunk, "choices", None, self._where):
            delta = choice.get("delta") if self._chat else choice
            delta = delta if isinstance(delta, dict) else {}
            self._reason = choice.get("finish_reason") or self._reason
            if thought := delta.get("reasoning_content"):
                self._thoughts += thought
                found.append(Thought(thought))
            joined(self._calls, delta.get("tool_calls") or ())
            text = delta.get("content" if self._chat else "text")
            if text or choice.get("logprobs"):
                found.append(self._token(choice, text or ""))
        return found

    def _token(self, choice: Mapping[str, Any], text: str) -> Token:
        now, sample = time.perf_counter(), int(choice.get("index", 0))
        self._first, self._last = self._first or now, now
        self._texts[sample] = self._texts.get(sample, "") + text
        self._count += 1
        logprob, others = scores_of(choice.get("logprobs"))
        return Token(text, None, self._count - 1, logprob, others, sample if self._several else None)

    def finish(self, cancelled: bool) -> list[Event]:
        """The last events. The number of tokens is the server's, or that of the pieces."""
        usage, new = self._usage, int(self._usage.get("completion_tokens", self._count))
        details = usage.get("prompt_tokens_details")
        reused = details.get("cached_tokens", 0) if isinstance(details, dict) else 0
        found: list[Event] = []
        if self._count:
            found.append(Metric("time_to_first_token", self._first - self._start, "s"))
        if new > 1 and self._last > self._first:
            found.append(Metric("decode_speed", (new - 1) / (self._last - self._first), "tokens/s"))
        results: dict[str, Any] = {"prompt_tokens": int(usage.get("prompt_tokens", 0)), "new_tokens": new}
        results |= {"reused_tokens": reused} if reused else {}
        if self._several:
            results["texts"] = [self._texts[index] for index in sorted(self._texts)]
        else:
            results["text"] = self._texts.get(0, "")
        results |= {"thoughts": self._thoughts} if self._chat else {}
        results |= {"calls": self._calls} if self._calls else {}
        return [*found, Done("cancelled" if cancelled else self._reason or "stop", results)]


def scores_of(logprobs: Any) -> tuple[float | None, tuple[dict[str, Any], ...] | None]:
    """(log-probability of the token, the likeliest tokens) of a chunk, in the form of chat or of completions."""
    if not isinstance(logprobs, dict):
        return None, None
    if content := logprobs.get("content"):
        entry = content[0]
        others = tuple({"text": other["token"], "logprob": other["logprob"]} for other in entry.get("top_logprobs", ()))
        return float(entry["logprob"]), others
    if values := logprobs.get("token_logprobs"):
        top = (logprobs.get("top_logprobs") or [None])[0] or {}
        return values[0], tuple({"text": text, "logprob": value} for text, value in top.items())
    return None, None


def segments_of(found: Mapping[str, Any]) -> list[Segment]:
    """The segments of a verbose answer. A word belongs to the last segment that begins before the word's middle."""
    names = {field.name for field in fields(Segment)}
    entries = [entry for entry in found["segments"] if isinstance(entry, dict)]
    starts = [float(entry.get("start", 0.0)) for entry in entries]
    words: list[list[dict[str, Any]]] = [[] for _ in entries]
    for word in found.get("words") or ():
        middle = (word["start"] + word["end"]) / 2
        words[max(bisect.bisect(starts, middle) - 1, 0)].append({**word, "word": f" {word['word']}"})
    segments: list[Segment] = []
    for entry, inside in zip(entries, words, strict=True):
        values = {name: value for name, value in entry.items() if name in names and value is not None}
        values |= {"tokens": tuple(values.get("tokens", ()))}
        segments.append(Segment(**values, words=tuple(inside) if found.get("words") is not None else None))
    return segments


# -- requests


def with_addresses(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message with its pictures as data: URLs and its recordings in base64, as OpenAI's interface has them."""
    [plain], pictures = taken([message])
    if any(isinstance(picture, VideoSource) for picture in pictures):
        raise OptionError("a server takes no videos in messages", where="messages", hint="Load the model here")
    content = plain.get("content")
    if pictures and isinstance(content, list):
        following = iter(pictures)
        plain["content"] = [part if part["type"] == "text" else _as_address(next(following)) for part in content]
    return plain


def _whole(file: Any) -> bytes:
    """The bytes of a path, of bytes or of a ByteSource."""
    with opened_source(file) as source:
        return bytes(read_whole_source(source))


def _as_sound(sound: Any) -> dict[str, Any]:
    """A recording: its file, or samples at 16 kHz as a WAVE file."""
    if isinstance(sound, str | os.PathLike | bytes | ByteSource):
        data = _whole(sound)
    else:
        data = encoded(as_pcm(checked(sound)), SAMPLE_RATE, "wav")
    form = "mp3" if data[:3] == b"ID3" or data[:2] in (b"\xff\xfb", b"\xff\xf3") else "wav"
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": form}}


def _as_address(picture: Any) -> dict[str, Any]:
    if isinstance(picture, SoundSource):
        return _as_sound(picture.source)
    data = encode_png(picture.numpy()) if isinstance(picture, Tensor) else None
    if data is None:
        data = _whole(picture)
    kind = next((kind for start, kind in KINDS_OF_PICTURES.items() if data.startswith(start)), "image/png")
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


# -- answers


async def until_cancelled(work: Awaitable[T], cancel: Cancel) -> T:
    """The result of `work`. Raises Cancelled, and ends the work, soon after `cancel` is set."""
    running = asyncio.ensure_future(work)
    try:
        while not running.done():
            cancel.check()
            await asyncio.wait({running}, timeout=POLL)
        return running.result()
    finally:
        running.cancel()


async def read_whole(answer: httpx2.Response) -> bytes:
    """The body. ServerError for one that does not end."""
    found = bytearray()
    async for part in answer.aiter_bytes():
        found += part
        if len(found) > ANSWER_BYTES:
            raise ServerError(f"the answer has more than {ANSWER_BYTES:,} bytes", where=str(answer.url))
    return bytes(found)


async def lines_of(answer: httpx2.Response, where: str) -> AsyncGenerator[str, None]:
    """The lines of a stream, as they come. ServerError for one that does not end."""
    rest = ""
    async for part in answer.aiter_text():
        *lines, rest = (rest + part).split("\n")
        if len(rest) > LINE_CHARACTERS:
            raise ServerError(f"an event has more than {LINE_CHARACTERS:,} characters", where=where)
        for line in lines:
            yield line.rstrip("\r")


def parsed(data: bytes, where: str) -> Any:
    try:
        return parse_json(data.decode())
    except ValueError:
        raise ServerError(
            "the server's answer is not JSON", where=where, hint="Is this the address of `pyapp serve`?"
        ) from None


def entries_of(found: Any, name: str, count: int | None, where: str) -> list[dict[str, Any]]:
    """The objects in the array `name` of an answer, `count` of them."""
    entries = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ServerError(f"the server's answer has no {name}", where=where)
    if count is not None and len(entries) != count:
        raise ServerError(f"the server's answer has {len(entries)} {name} for {count} texts", where=where)
    return entries


def refusal(answer: httpx2.Response, body: bytes, where: str) -> PyappError:
    """The error of a request that a server refuses, in its words."""
    try:
        found = parse_json(body[:LINE_CHARACTERS].decode("utf-8", "replace"))
    except ValueError:
        found = None
    inner = found.get("error") if isinstance(found, dict) else None
    if inner is None:
        hint = "Is this the address of `pyapp serve`?" if answer.status_code == 404 else None
        return ServerError(f"the server answers {answer.status_code} {answer.reason_phrase}", where=where, hint=hint)
    return of_error(inner, where, answer.status_code)


def of_error(error: Any, where: str, status: int = 400) -> PyappError:
    """An error in OpenAI's form."""
    message = error.get("message") if isinstance(error, dict) else None
    what = str(message or json.dumps(error))[:1000]
    if status == 401:
        return ServerError(what, where=where, hint=f"Put the key into the environment variable {KEY_VARIABLE}")
    if status == 429:
        return ServerError(what, where=where, hint="Try again in a moment")
    return ServerError(what, where=where)
