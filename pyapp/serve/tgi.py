"""The interface of text-generation-inference: /generate, /generate_stream, /info, /tokenize."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp import __version__
from pyapp.dataclass import dataclass
from pyapp.errors import OptionError
from pyapp.events import Done, Event, Token
from pyapp.text.generation.generation_config import with_model_settings
from pyapp.text.generation.options import SEEDS, SamplingOptions

from . import composing, drawing, llama_cpp
from .answers import data_line
from .context import Context
from .fields import Fields
from .file_tasks import FILE_TASKS, of_file
from .forecasting import forecast
from .generation import Choice, RunningTexts, collect, submit
from .openai_text import completion_prompt
from .running import stream_of
from .sampling import MOST_STOPS, MOST_TEXTS, TGI
from .served import TASKS, ServedModel
from .speaking import of_inputs
from .speech import OF_GENERATION, of_coded_sound, of_sound
from .text_tasks import ANSWERS, TEXT_TASKS, is_zero_shot, of_text, with_given_labels
from .vectors import MOST_INPUTS, embed, predict, refuse_prompt, rerank, similarity


@dataclass(frozen=True)
class Parameters:
    """The `parameters` of a request. `full`: the answer begins with the prompt; `prefill`: the details have the
    prompt's tokens; `truncate`: only so many last tokens of the prompt are read; `best`: the best of so many texts.
    """

    options: SamplingOptions
    details: bool
    full: bool
    prefill: bool
    truncate: int | None
    best: int


def parameters_of(fields: Fields | None, context: Context, stream: bool) -> Parameters:
    fields = fields or Fields({})
    most = context.settings.output_tokens
    seed = fields.whole("seed", None, 0, SEEDS - 1)
    draws = fields.flag("do_sample", seed is not None)
    temperature = fields.number("temperature", None, 0.0001, 100)
    draws = draws or temperature is not None
    grammar, form = fields.object("grammar"), {}
    if grammar is not None:
        kind, value = grammar.text("type", choices=("json", "regex")), grammar.any("value")
        if kind is None or value is None:
            raise grammar.missing("type" if kind is None else "value")
        form = {"json_schema": value} if kind == "json" else {"regex": value}
        grammar.end()
    details, full = fields.flag("details"), fields.flag("return_full_text")
    top = fields.whole("top_n_tokens", None, 0, 20)
    values: dict[str, Any] = {
        "max_new_tokens": fields.whole("max_new_tokens", min(100, most), 1, most),
        "temperature": (1.0 if temperature is None else temperature) if draws else 0.0,
        "top_k": fields.whole("top_k", 0, 0, 1 << 31), "top_p": fields.number("top_p", 1.0, 0, 1),
        "typical_p": fields.number("typical_p", 1.0, 0, 1),
        "repetition_penalty": fields.number("repetition_penalty", 1.0, 0.01, 100),
        "frequency_penalty": fields.number("frequency_penalty", 0.0, -2, 2), "seed": seed,
        "stop": tuple(fields.texts("stop", MOST_STOPS) or ()), "logprobs": top or 0,
    }  # fmt: skip
    prefill, truncate = fields.flag("decoder_input_details"), fields.whole("truncate", None, 1)
    best = fields.whole("best_of", 1, 1, MOST_TEXTS)
    if stream and (best > 1 or prefill):
        raise fields.wrong("best_of" if best > 1 else "decoder_input_details", "cannot be streamed")
    if best > 1 and not draws:
        raise fields.wrong("best_of", "needs do_sample: without it all texts are the same")
    if fields.flag("watermark"):
        raise fields.wrong("watermark", "is not supported", "unsupported_parameter")
    if fields.text("adapter_id"):
        raise fields.wrong("adapter_id", "is not supported: name a model instead", "unsupported_parameter")
    fields.end()
    try:
        return Parameters(SamplingOptions(**values, **form), details, full, prefill, truncate, best)
    except OptionError as error:
        raise fields.wrong(error.where or "", error.what) from None


def detail_of(model: ServedModel, event: Token) -> dict[str, Any]:
    text = "" if event.id is None else model.loaded.tokenizer.token_bytes(event.id).decode("utf-8", "replace")
    return {"id": event.id, "text": text, "logprob": event.logprob, "special": False}


def finish_of(done: Done, options: SamplingOptions) -> dict[str, Any]:
    reason = done.reason
    named = {"stop": "eos_token", "stop_string": "stop_sequence"}.get(reason, "length")
    seed = None if options.greedy else done.results.get("seed")
    return {"finish_reason": named, "generated_tokens": done.results["new_tokens"], "seed": seed}


class Generated:
    """The texts of a request: what comes of them, as pieces of a stream and as a whole."""

    def __init__(
        self, request: Request, model: ServedModel, running: RunningTexts, asked: Parameters, options: SamplingOptions,
        start: str,
    ) -> None:  # fmt: skip
        """`start`: what the texts begin with."""
        self._request, self._model, self._running = request, model, running
        self._asked, self._options = asked, options
        self._choices = [Choice(index, start) for index in range(asked.best)]
        self._ends: dict[int, Done] = {}  # by choice

    def take(self, index: int, event: Event) -> None:
        self._choices[index].take(self._request, event)
        if isinstance(event, Done):
            self._ends[index] = event

    async def chunks(self) -> AsyncGenerator[str, None]:
        held: dict[str, Any] | None = None  # the last token comes with the whole text
        async with aclosing(self._running.events()) as events:
            async for index, event in events:
                self.take(index, event)
                if isinstance(event, Token):
                    if held is not None:
                        yield self._chunk(held)
                    held = {**detail_of(self._model, event), "text": event.text}
                elif isinstance(event, Done):
                    token = held or {"id": 0, "text": "", "logprob": None, "special": True}
                    yield self._chunk(token, event)

    def _chunk(self, token: dict[str, Any], done: Done | None = None) -> str:
        choice = self._choices[0]
        more = {
            "generated_text": choice.text if done else None,
            "details": finish_of(done, self._options) if done else None,
        }
        return data_line({"index": len(choice.logprobs), "token": token, **more})

    def whole(self) -> dict[str, Any]:
        """The complete answer: the best text, with the others in its details."""
        first, *others = sorted(self._choices, key=lambda choice: -choice.mean_logprob)
        found: dict[str, Any] = {"generated_text": first.text}
        if self._asked.details or self._asked.prefill:
            found["details"] = self._details(first)
            if others:
                found["details"]["best_of_sequences"] = [
                    {"generated_text": choice.text, **self._details(choice)} for choice in others
                ]
        return found

    def _details(self, choice: Choice) -> dict[str, Any]:
        return {
            **finish_of(self._ends[choice.index], self._options),
            "prefill": [detail_of(self._model, token) for token in choice.prompt],
            "tokens": [detail_of(self._model, token) for token in choice.logprobs],
            "top_tokens": [
                [{**entry, "special": False} for entry in token.top_logprobs or ()] for token in choice.logprobs
            ],
        }


async def generate(
    request: Request, context: Context, stream: bool | None = None, given: dict[str, Any] | None = None
) -> Response:
    """/generate. `given`: the body, if it has been read."""
    fields = Fields(await context.json(request) if given is None else given)
    prompt = fields.needed_text("inputs")
    streamed = fields.flag("stream")
    stream = streamed if stream is None else stream
    asked = parameters_of(fields.object("parameters"), context, stream)
    fields.end(("model", "options"))
    context.check_length([prompt], "inputs")
    model = await context.model(request, None, "generate")
    options = with_model_settings(asked.options, model.loaded.generation)
    stops = model.loaded.tokenizer.stop_ids
    ready = await context.aside(lambda: completion_prompt(model, prompt, options, stops))
    if asked.truncate is not None:
        ready = replace(ready, ids=ready.ids[-asked.truncate :])
    running = await submit(
        context, model, [ready], asked.best, "inputs", scored=0 if asked.prefill else None, interface=TGI
    )
    texts = Generated(request, model, running, asked, options, prompt if asked.full else "")
    if stream:
        return stream_of(context, running, texts.chunks())
    await collect(request, running, texts.take)
    return JSONResponse(texts.whole())


async def generate_stream(request: Request, context: Context) -> Response:
    return await generate(request, context, stream=True)


async def of_model(request: Request, context: Context) -> Response:
    """/models/NAME, as Hugging Face's inference API: what the named model does with the body."""
    name = request.path_params["name"]
    return await either(request, context, {context.models.find(name, TASKS).task})


async def either(request: Request, context: Context, tasks: set[str] | None = None) -> Response:
    """/, as Hugging Face's clients call it: the text of a recording, if the body is one (huggingface_hub gives its
    bytes no type); else what the fields are for: TGI and TEI have this route, and one model each. A client that wants a
    text sends `parameters` or `stream`, and one that wants vectors does not. Where all models read files, it is for the
    first one. `tasks`: those of the models that may answer, if not all.
    """
    kind = request.headers.get("content-type", "application/octet-stream")
    tasks = tasks or {model.task for model in context.models.by_name.values()}
    if tasks <= FILE_TASKS.keys():
        return await of_file(request, context, request.path_params.get("name"))
    if kind.startswith(("audio/", "video/")) or (kind == "application/octet-stream" and "transcribe" in tasks):
        return await of_sound(request, context)
    given = await context.json(request)
    name = request.path_params.get("name")
    if tasks == {"forecast"}:
        return await forecast(request, context, given, name)
    if tasks == {"rank-pages"}:
        return await rerank(request, context, given)
    if tasks <= {*TEXT_TASKS, ANSWERS}:
        return await of_text(request, context, name, given)
    if "classify" in tasks and is_zero_shot(given):
        return await with_given_labels(request, context, name, given)
    if tasks == {"transcribe"} or ("transcribe" in tasks and is_for_sound(given.get("parameters"))):
        return await of_coded_sound(request, context, given)
    if tasks == {"speak"}:
        return await of_inputs(request, context, given)
    if tasks == {"compose"}:
        return await composing.of_inputs(request, context, given)
    if tasks == {"imagine"}:
        return await drawing.of_inputs(request, context, given)
    if isinstance(given.get("inputs"), dict):
        return await similarity(request, context, given)
    if "generate" in tasks and ("embed" not in tasks or not given.keys().isdisjoint(("parameters", "stream"))):
        answer = await generate(request, context, given=given)
        return JSONResponse([json.loads(bytes(answer.body))]) if isinstance(answer, JSONResponse) else answer
    if "classify" in tasks and "embed" not in tasks:
        answer = await predict(request, context, given)
        alone = isinstance(given.get("inputs"), str)
        return JSONResponse([json.loads(bytes(answer.body))]) if alone else answer
    return await embed(request, context, given)


def is_for_sound(parameters: Any) -> bool:
    """Whether `parameters` are those of a recording: huggingface_hub sends it in base64 beside them."""
    return isinstance(parameters, dict) and not parameters.keys().isdisjoint(("return_timestamps", *OF_GENERATION))


async def info(request: Request, context: Context) -> Response:
    """/info, with the fields of both text-generation-inference and text-embeddings-inference."""
    models = list(context.models.by_name.values())
    first = next((model for model in models if model.task == "generate"), models[0])
    scheduler = first.runner
    return JSONResponse(
        {
            "model_id": first.name, "model_device_type": context.settings.device or "cpu", "version": __version__,
            "max_concurrent_requests": context.settings.queue,
            "max_input_tokens": scheduler.capacity if first.task == "generate" and scheduler else None,
            "max_total_tokens": scheduler.capacity + 1 if first.task == "generate" and scheduler else None,
            "max_client_batch_size": 1, "router": "pyapp",
        }
    )  # fmt: skip


async def tokenize(request: Request, context: Context) -> Response:
    """/tokenize: the tokens of `inputs` (a text, or texts), with the characters that they stand for where the
    tokenizer knows them. A body with `content` asks as llama.cpp's clients.
    """
    given = await context.json(request)
    if "content" in given:
        return await llama_cpp.tokenize(request, context, given)
    fields = Fields(given)
    alone = isinstance(fields.any("inputs"), str)
    texts = fields.needed_texts("inputs", MOST_INPUTS)
    name, special = fields.text("model"), fields.flag("add_special_tokens", True)
    refuse_prompt(fields)
    fields.end(("parameters",))
    context.check_length(texts, "inputs")
    model = await context.model(request, name, "generate", "embed", "classify", "rerank")
    tokenizer = model.loaded.tokenizer

    def split(text: str) -> list[dict[str, Any]]:
        [row] = tokenizer.encode_batch([text])
        offsets = row.offsets or [(None, None)] * len(row.ids)
        return [
            {"id": id, "text": tokenizer.token_bytes(id).decode("utf-8", "replace"), "start": start, "stop": stop}
            for id, (start, stop), own in zip(row.ids, offsets, row.texts, strict=True)
            if special or own is not None
        ]

    rows = await context.aside(lambda: [split(text) for text in texts])
    return JSONResponse(rows[0] if alone else rows)
