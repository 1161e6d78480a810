"""OpenAI's interface for speech: /v1/audio/transcriptions and /v1/audio/translations."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from pyapp import tasks
from pyapp.audio.options import AUTO, TranscribeOptions
from pyapp.audio.transcript import Transcript
from pyapp.audio.transcript_writers import format_transcript
from pyapp.errors import OptionError
from pyapp.events import Done, Segment

from .answers import DONE, data_line
from .context import Context, upload_of
from .fields import Fields, decoded
from .problems import Problem
from .running import RunningTask, stream_of
from .served import Beside

DIARIZED, CHUNKS = "diarized_json", "chunks"
OF_GENERATION = ("generation_parameters", "generate_kwargs")  # today's name and an older one
FORMATS = ("json", "text", "srt", "verbose_json", "vtt", DIARIZED)
FIELDS = ("speakers", "file", "model", "language", "prompt", "response_format", "temperature", "stream",
          "timestamp_granularities[]", "timestamp_granularities", "chunking_strategy")  # fmt: skip
# OpenAI's fields that are not read here, by the beginning of their names, and why.
REFUSED = {
    "include": "log-probabilities of tokens are not given; verbose_json has those of segments and words",
    "chunking_strategy[": "must be auto: the server's --vad finds speech",
    "known_speaker_": "speakers are told apart, and not known by name",
}


async def transcriptions(request: Request, context: Context) -> Response:
    return await hear(request, context, "transcribe")


async def translations(request: Request, context: Context) -> Response:
    return await hear(request, context, "translate")


def text_field(form: FormData, name: str) -> str | None:
    value = form.get(name)
    if value is not None and not isinstance(value, str):
        raise Problem(f"{name}: must be a text, not a file", param=name, code="invalid_type")
    return value


async def hear(request: Request, context: Context, task: str) -> Response:
    form = await context.form(request)
    try:
        for name in form:
            for beginning, why in REFUSED.items():
                if name.startswith(beginning):
                    raise Problem(f"{name:.80}: {why}", param=name[:80], code="unsupported_parameter")
            if name not in FIELDS:
                raise Problem(f"{name:.80}: there is no such field", param=name[:80], code="unknown_parameter")
        upload = upload_of(form, "file")
        data = await upload.read()
    finally:
        await form.close()
    chosen = text_field(form, "response_format") or "json"
    if chosen not in FORMATS:
        raise Problem(f"response_format: must be one of {', '.join(FORMATS)}", param="response_format")
    if text_field(form, "chunking_strategy") not in (None, "", "auto"):
        raise Problem(
            f"chunking_strategy: {REFUSED['chunking_strategy[']}", param="chunking_strategy",
            code="unsupported_parameter",
        )  # fmt: skip
    stream = (text_field(form, "stream") or "").lower() in ("true", "1")
    if stream and chosen in ("srt", "vtt"):
        raise Problem("stream: goes together with json, text, verbose_json and diarized_json", param="stream")
    options = options_of(form, task, chosen)
    if options.speakers is not None and context.settings.speaker_model is None:
        field = "speakers" if "speakers" in form else "response_format"
        raise Problem(f"{field}: this server cannot tell speakers apart (start it with --speaker-model)", param=field)
    return await heard(request, context, data, options, chosen, stream, text_field(form, "model"))


async def of_sound(request: Request, context: Context) -> Response:
    """The text of a recording that is the whole body, as Hugging Face's clients send it to /."""
    data = await context.body(request)
    return await heard(request, context, data, TranscribeOptions(), "json", False, None)


async def of_coded_sound(request: Request, context: Context, given: dict[str, Any]) -> Response:
    """As `of_sound`, of a recording in base64 beside `parameters`, as huggingface_hub sends them. `given`: the body."""
    fields = Fields(given)
    coded, parameters = fields.needed_text("inputs"), fields.parameters
    times = parameters.any("return_timestamps", False)
    if times not in (True, False, "word"):
        raise parameters.wrong("return_timestamps", 'must be true, false or "word"', "invalid_type")
    values: dict[str, Any] = {"word_timestamps": times == "word"}
    for name in OF_GENERATION:
        generation = parameters.object(name)
        if generation is None:
            continue
        temperature = generation.number("temperature", None, 0, 1)
        beams = generation.whole("num_beams", 1, 1, 64)
        values |= {"temperature": temperature} if temperature else {}  # 0: higher ones are tried where they are needed
        values |= {"beam_size": beams} if beams > 1 else {}
        for setting in ("language", "task"):
            if (value := generation.text(setting)) is not None:
                values[setting] = value
        generation.end()
    parameters.end()
    fields.end(("model", "options"))
    data = decoded(coded, fields, "inputs")
    try:
        options = TranscribeOptions.from_dict(values)
    except OptionError as error:
        raise parameters.wrong(error.where or "", error.what) from None
    return await heard(request, context, data, options, CHUNKS if times else "json", False, None)


async def heard(
    request: Request, context: Context, data: bytes, options: TranscribeOptions, chosen: str, stream: bool,
    name: str | None,
) -> Response:  # fmt: skip
    """The transcript of a recording in the form `chosen`."""
    model = await context.model(request, name, "transcribe")
    beside: Beside = model.runner
    context.admit()
    request.scope["pyapp.log"]["bytes"] = len(data)
    others = {"vad": beside.vad, "speaker_model": beside.speakers, "encoder": beside.encoder}
    running = Hearing(context, model, partial(tasks.transcribe, data, options, **others))
    if stream:
        return stream_of(context, running, running.chunks(chosen, options))
    [done] = await running.all_of(request, Done)
    return formatted(done, chosen, options)


def options_of(form: FormData, task: str, chosen: str) -> TranscribeOptions:
    units = [*form.getlist("timestamp_granularities[]"), *form.getlist("timestamp_granularities")]
    if any(unit not in ("word", "segment") for unit in units):
        raise Problem("timestamp_granularities: must be word or segment", param="timestamp_granularities")
    if units and chosen != "verbose_json":
        raise Problem("timestamp_granularities: goes together with verbose_json", param="timestamp_granularities")
    values: dict[str, Any] = {"task": task, "word_timestamps": "word" in units}
    for name, setting in (("language", "language"), ("prompt", "initial_prompt")):
        if text := text_field(form, name):
            values[setting] = text
    if speakers := text_field(form, "speakers") or (AUTO if chosen == DIARIZED else ""):
        values["speakers"] = speakers
    temperature = text_field(form, "temperature")
    if temperature:
        try:
            values["temperature"] = float(temperature)
        except ValueError:
            raise Problem("temperature: must be a number", param="temperature", code="invalid_type") from None
        if values["temperature"] == 0:
            del values["temperature"]  # OpenAI's 0: higher ones are tried where they are needed
    try:
        return TranscribeOptions.from_dict(values)
    except OptionError as error:
        where = "prompt" if error.where == "initial_prompt" else error.where
        raise Problem(f"{where}: {error.what}", param=where) from None


class Hearing(RunningTask):
    """A recording that is transcribed."""

    names: Mapping[str, str] = {"audio": "file", "<bytes>": "file", "task": "model"}

    def count(self, results: Mapping[str, Any]) -> None:
        self._context.metrics.sound.labels(self._model.name).inc(results.get("duration") or 0)

    async def chunks(self, chosen: str, options: TranscribeOptions) -> AsyncGenerator[str, None]:
        """OpenAI's events of a streamed transcript. With the formats that have times, each segment comes with its own,
        in OpenAI's form of a segment with a speaker (words where they were asked for), and the end is the whole
        answer. The texts of the deltas make the text at the end.
        """
        timed, begun = chosen in ("verbose_json", DIARIZED), False
        async with aclosing(self.events()) as events:
            async for event in events:
                if isinstance(event, Segment):
                    if timed:
                        yield data_line({"type": "transcript.text.segment", **streamed(event)})
                    delta = event.text if begun else event.text.lstrip()
                    begun = begun or bool(delta)
                    yield data_line({"type": "transcript.text.delta", "delta": delta})
                elif isinstance(event, Done):
                    whole = {"text": event.results["text"].strip(), "usage": usage_of(event.results)}
                    if timed:
                        whole = diarized(event.results) if chosen == DIARIZED else verbose(event.results, options)
                    yield data_line({"type": "transcript.text.done", **whole})
        yield DONE


def usage_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's `usage` of a recording: its seconds, rounded up."""
    return {"type": "duration", "seconds": math.ceil(results.get("duration") or 0)}


def streamed(segment: Segment) -> dict[str, Any]:
    """A segment of a stream; its words begin with the spaces before them."""
    found: dict[str, Any] = {
        "id": f"seg_{segment.id + 1:03d}", "start": segment.start, "end": segment.end, "text": segment.text,
    }  # fmt: skip
    if segment.speaker is not None:
        found["speaker"] = segment.speaker
    if segment.words is not None:
        found["words"] = [dict(word) for word in segment.words]
    return found


def formatted(done: Done, chosen: str, options: TranscribeOptions) -> Response:
    results = dict(done.results)
    if chosen == "json":
        return JSONResponse({"text": results["text"].strip(), "usage": usage_of(results)})
    if chosen == "text":
        named = format_transcript(Transcript.from_dict(results), "txt") if options.speakers is not None else None
        return PlainTextResponse(named or results["text"].strip() + "\n")
    if chosen in ("srt", "vtt"):
        return PlainTextResponse(format_transcript(Transcript.from_dict(results), chosen))
    if chosen == DIARIZED:
        return JSONResponse(diarized(results))
    if chosen == CHUNKS:
        return JSONResponse({"text": results["text"].strip(), "chunks": chunks_of(results, options)})
    return JSONResponse(verbose(results, options))


def chunks_of(results: Mapping[str, Any], options: TranscribeOptions) -> list[dict[str, Any]]:
    """The segments, or their words, in the form of Hugging Face's pipelines."""
    parts = results["segments"]
    if options.word_timestamps:
        parts = [{**word, "text": word["word"]} for segment in parts for word in segment.get("words") or ()]
    return [{"text": part["text"], "timestamp": [part["start"], part["end"]]} for part in parts]


def verbose(results: Mapping[str, Any], options: TranscribeOptions) -> dict[str, Any]:
    """OpenAI's verbose_json."""
    segments = [dict(segment) for segment in results["segments"]]
    words = [
        {"word": word["word"].strip(), "start": word["start"], "end": word["end"], "probability": word["probability"]}
        | ({"speaker": word["speaker"]} if "speaker" in word else {})
        for segment in segments for word in segment.pop("words", None) or ()
    ]  # fmt: skip
    found = {name: results.get(name) for name in ("task", "language", "duration")}
    found |= {"text": results["text"].strip(), "segments": segments, "usage": usage_of(results)}
    return found | ({"words": words} if options.word_timestamps else {})


def diarized(results: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's transcript with speakers."""
    segments = [
        {"type": "transcript.text.segment", "id": f"seg_{number:03d}", "start": segment["start"], "end": segment["end"],
         "text": segment["text"].strip(), "speaker": segment.get("speaker")}
        for number, segment in enumerate((one for one in results["segments"] if one["text"].strip()), 1)
    ]  # fmt: skip
    return {
        "task": results["task"], "duration": results.get("duration") or 0, "text": results["text"].strip(),
        "segments": segments, "usage": usage_of(results),
    }  # fmt: skip
