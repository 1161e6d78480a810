"""The routes of llama.cpp's server that are its own: /completion, /infill, /embedding, /tokenize, /detokenize,
/apply-template, /props, /slots, /lora-adapters; in the form of https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md.

Settings that a request does not have are as in the other interfaces, not as llama.cpp's.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from time import perf_counter
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp import __version__
from pyapp.events import Done, Event, Token
from pyapp.text.chat.chat_template import sources
from pyapp.text.pictures import sees

from .answers import data_line
from .chat import chat_prompt, messages_of, named_logprobs, texts_of_messages
from .context import Context
from .fields import Fields
from .generation import Choice, RunningTexts, collect, submit
from .openai_text import completion_prompts, prompts_of
from .problems import Problem
from .running import stream_of
from .sampling import LLAMA_CPP, Asked, asked_of
from .served import ServedModel
from .tool_calls import Tools
from .vectors import MOST_INPUTS, embedded, embeddings

# llama.cpp's fields for its memory, for what it tells, and for details of methods that are not here.
WITHOUT_EFFECT = (
    "cache_prompt", "id_slot", "n_keep", "n_discard", "n_cache_reuse", "repeat_last_n", "t_max_predict_ms",
    "t_max_prompt_ms", "samplers", "min_keep", "penalize_nl", "post_sampling_probs", "timings_per_token",
    "return_progress", "response_fields", "dynatemp_exponent", "mirostat_tau", "mirostat_eta", "xtc_threshold",
    "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers",
)  # fmt: skip
# Methods that are not here, and the values that say so.
METHODS = {
    "mirostat": 0, "dynatemp_range": 0, "xtc_probability": 0, "dry_multiplier": 0, "n_indent": 0, "top_n_sigma": -1,
}  # fmt: skip
REFUSED = {
    "grammar": "GBNF is not read here: give json_schema, or regex", "lora": "name a model instead",
    "image_data": "send pictures in messages of /v1/chat/completions",
}  # fmt: skip
STOPPED = {"stop": "eos", "stop_string": "word", "length": "limit", "context": "limit"}
SNIPPET = "\n\n--- snippet ---\n\n"  # what llama.cpp writes between texts beside the one to fill in
Value = dict[str, Any]


def settings_of(fields: Fields, context: Context) -> tuple[Asked, int | None]:
    """The settings of a request, and how many of the likeliest tokens it wants to see."""
    for name, off in METHODS.items():
        if fields.any(name, off) != off:
            raise fields.wrong(name, f"must be {off}: pyapp does not draw tokens by this method")
    for name, why in REFUSED.items():
        if fields.any(name):
            raise fields.wrong(name, why, "unsupported_parameter")
    if fields.any("n_predict") == -2:  # until the context is full
        fields.put("n_predict", -1)
    if fields.any("seed") == -1:  # any
        fields.put("seed", None)
    fields.put("logit_bias", bias_of(fields))
    schema, form = fields.mapping("json_schema"), None
    if schema:
        form = Fields({"type": "json_schema", "json_schema": {"schema": schema}}, "json_schema")
    top = fields.whole("n_probs", 0, 0, 20) or None
    return asked_of(fields, context.settings, top, form, least=0, interface=LLAMA_CPP), top


def bias_of(fields: Fields) -> Any:
    """`logit_bias` as OpenAI has it: llama.cpp also takes pairs of a token and a bias, in which false forbids it."""
    given = fields.any("logit_bias")
    if not isinstance(given, list):
        return given
    found = {}
    for index, pair in enumerate(given):
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) is not int:
            raise fields.wrong(f"logit_bias[{index}]", "must be a token's number and a bias", "invalid_type")
        found[str(pair[0])] = -100 if pair[1] is False else pair[1]
    return found


class Texts:
    """The texts of a request: what comes of them, as pieces of a stream and as a whole."""

    def __init__(
        self, request: Request, model: ServedModel, running: RunningTexts, prompts: Sequence[Any], top: int | None,
        tokens: bool, alone: bool,
    ) -> None:  # fmt: skip
        """`tokens`: their numbers are wanted; `alone`: the answer is of one text, and no array."""
        self._request, self._model, self._running = request, model, running
        self._prompts, self._top, self._tokens, self._alone = prompts, top, tokens, alone
        self._choices = [Choice(index) for index in range(len(prompts))]
        self._ids: list[list[int]] = [[] for _ in prompts]
        self._began, self._first = perf_counter(), 0.0

    def take(self, index: int, event: Event) -> None:
        self._choices[index].take(self._request, event)
        if isinstance(event, Token):
            self._first = self._first or perf_counter()
            if event.id is not None:
                self._ids[index].append(event.id)

    def _scores(self, tokens: Sequence[Token]) -> Value:
        """`completion_probabilities`, where they are wanted."""
        if self._top is None:
            return {}
        known = [token for token in tokens if token.id is not None]
        scores = named_logprobs(self._model, known)
        return {
            "completion_probabilities": [
                {"id": token.id, **score, "top_logprobs": [
                    {"id": entry["id"], **named}
                    for entry, named in zip(token.top_logprobs or (), score["top_logprobs"], strict=True)
                ]}
                for token, score in zip(known, scores, strict=True)
            ]
        }  # fmt: skip

    def _end(self, choice: Choice) -> Value:
        """What is reported of a complete text."""
        end = perf_counter()
        first = self._first or end
        reading, writing = (first - self._began) * 1000, (end - first) * 1000
        new = choice.prompt_tokens - choice.reused
        return {
            "id_slot": -1, "stop": True, "model": self._model.name, "tokens_predicted": choice.tokens,
            "tokens_evaluated": choice.prompt_tokens, "tokens_cached": choice.prompt_tokens + choice.tokens,
            "prompt": self._prompts[choice.index], "has_new_line": "\n" in choice.text, "truncated": False,
            "stop_type": STOPPED.get(choice.ended, "none"), "stopping_word": choice.stop or "",
            "timings": {
                "cache_n": choice.reused, "prompt_n": new, "prompt_ms": reading, "predicted_n": choice.tokens,
                "predicted_ms": writing, "predicted_per_second": choice.tokens / max(writing, 1e-3) * 1000,
            },
        }  # fmt: skip

    async def chunks(self) -> AsyncGenerator[str, None]:
        async with aclosing(self._running.events()) as events:
            async for index, event in events:
                self.take(index, event)
                choice = self._choices[index]
                if isinstance(event, Token):
                    so_far = {"tokens_predicted": len(self._ids[index])}
                    ids = [] if event.id is None or not self._tokens else [event.id]
                    piece = {"index": index, "content": event.text, "tokens": ids, "stop": False, **so_far}
                    yield data_line(piece | self._scores([event]))
                elif isinstance(event, Done):
                    yield data_line({"index": index, "content": "", "tokens": [], **self._end(choice)})

    def whole(self) -> Any:
        """The complete answer."""
        found = [
            {"index": choice.index, "content": choice.text, "tokens": ids if self._tokens else [],
             **self._end(choice), **self._scores(choice.logprobs)}
            for choice, ids in zip(self._choices, self._ids, strict=True)
        ]  # fmt: skip
        return found[0] if self._alone else found


async def completion(request: Request, context: Context) -> Response:
    """/completion: texts go on."""
    fields = Fields(await context.json(request))
    alone = not isinstance(fields.any("prompt"), list) or all(type(one) is int for one in fields.any("prompt"))
    return await _written(request, context, fields, prompts_of(fields), None, "", alone)


async def infill(request: Request, context: Context) -> Response:
    """/infill: the text between two others; `prompt` is the end of the first, and other texts may stand before it."""
    fields = Fields(await context.json(request))
    before, after, begun = (fields.text(name) or "" for name in ("input_prefix", "input_suffix", "prompt"))
    extra = fields.array("input_extra", [])
    for index, one in enumerate(extra):
        if not isinstance(one, dict) or not isinstance(one.get("text"), str):
            raise fields.wrong(f"input_extra[{index}]", "must be an object with a text", "invalid_type")
    if not fields.has("input_prefix") and not fields.has("input_suffix"):
        raise fields.missing("input_prefix")
    other = "".join(SNIPPET + one["text"] for one in extra)
    return await _written(request, context, fields, [before + begun], after, other, True)


async def _written(
    request: Request, context: Context, fields: Fields, prompts: list[str | list[int]], after: str | None, extra: str,
    alone: bool,
) -> Response:  # fmt: skip
    """The answer with the texts of prompts. `extra` stands before a text to fill in."""
    name, stream, tokens = fields.text("model"), fields.flag("stream"), fields.flag("return_tokens")
    asked, top = settings_of(fields, context)
    fields.end(WITHOUT_EFFECT)
    context.check_length([after or "", extra, *(one for one in prompts if isinstance(one, str))], "prompt")
    model = await context.model(request, name, "generate")
    options = asked.of(model, context.settings)

    def ready() -> list[Any]:
        found = completion_prompts(model, prompts, options, asked, after, LLAMA_CPP.names)
        if not extra:
            return found
        tokenizer = model.loaded.tokenizer
        start = len(tokenizer.encode("", eos=False))
        more = tokenizer.encode(extra, bos=False, eos=False, parse_special=False)
        return [replace(one, ids=[*one.ids[:start], *more, *one.ids[start:]]) for one in found]

    running = await submit(context, model, await context.aside(ready), 1, "prompt", interface=LLAMA_CPP)
    texts = Texts(request, model, running, prompts, top, tokens, alone)
    if stream:
        return stream_of(context, running, texts.chunks())
    await collect(request, running, texts.take)
    return JSONResponse(texts.whole())


# -- vectors

NORMS: dict[int, Callable[[list[float]], float]] = {
    -1: lambda vector: 1.0, 0: lambda vector: max(map(abs, vector)) / 32760, 1: lambda vector: sum(map(abs, vector)),
    2: lambda vector: math.hypot(*vector),
}  # fmt: skip


async def embedding(request: Request, context: Context) -> Response:
    """/embedding and /embeddings: the vectors of a `content`, a text or texts, each in an array of its own; `input` is
    answered in OpenAI's form. `embd_normalize`: -1 leaves a vector as the model gives it, 0 makes its largest number
    32760, 1 the sum of all, 2 its length 1.
    """
    given = await context.json(request)
    if "input" in given:
        return await embeddings(request, context, given)
    fields = Fields(given)
    name, texts = fields.text("model"), fields.needed_texts("content", MOST_INPUTS)
    norm = NORMS[fields.whole("embd_normalize", 2, min(NORMS), max(NORMS))]
    fields.end()
    context.check_length(texts, "content")
    model = await context.model(request, name, "embed")
    vectors = await embedded(request, context, model, texts)
    sizes = [norm(vector) or 1.0 for vector in vectors]
    return JSONResponse(
        [
            {"index": index, "embedding": [[x / size for x in vector]]}
            for index, (vector, size) in enumerate(zip(vectors, sizes, strict=True))
        ]
    )


# -- tokens and the template


async def tokenize(request: Request, context: Context, given: Value) -> Response:
    """/tokenize of a `content`. `given`: the body."""
    fields = Fields(given)
    content, name = fields.needed_text("content"), fields.text("model")
    special, parse = fields.flag("add_special"), fields.flag("parse_special", True)
    pieces = fields.flag("with_pieces")
    fields.end()
    context.check_length([content], "content")
    model = await context.model(request, name, "generate")
    tokenizer = model.loaded.tokenizer
    ids = await context.aside(lambda: tokenizer.encode(content, bos=special, eos=False, parse_special=parse))
    if not pieces:
        return JSONResponse({"tokens": ids})
    return JSONResponse({"tokens": [{"id": id, "piece": piece_of(tokenizer.token_bytes(id))} for id in ids]})


def piece_of(data: bytes) -> str | list[int]:
    """The text of a token, or its bytes where these are a part of a character."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return [*data]


async def detokenize(request: Request, context: Context) -> Response:
    """/detokenize: the text of tokens."""
    fields = Fields(await context.json(request))
    ids, name = fields.needed("tokens", fields.array("tokens")), fields.text("model")
    fields.end()
    model = await context.model(request, name, "generate")
    size = model.runner.vocab_size
    if not all(type(id) is int and 0 <= id < size for id in ids):
        raise fields.wrong("tokens", f"must be numbers from 0 to {size - 1}")
    tokenizer = model.loaded.tokenizer
    data = await context.aside(lambda: b"".join(map(tokenizer.token_bytes, ids)))
    return JSONResponse({"content": data.decode("utf-8", "replace")})


async def apply_template(request: Request, context: Context) -> Response:
    """/apply-template: the prompt that a conversation becomes."""
    fields = Fields(await context.json(request))
    name, messages, tools = fields.text("model"), messages_of(fields), Tools(fields)
    variables = fields.mapping("chat_template_kwargs") or {}
    fields.end()
    context.check_length(texts_of_messages(messages), "messages")
    model = await context.model(request, name, "generate")
    asked = asked_of(Fields({}, "settings"), context.settings, None, None)
    prompt = await context.aside(lambda: chat_prompt(model, messages, asked, asked.options, tools, variables))
    return JSONResponse({"prompt": prompt.rendered})


# -- the server


async def props(request: Request, context: Context) -> Response:
    """/props: a model, the first or that of ?model=, and what it can do."""
    model = await context.model(request, request.query_params.get("model"), "generate")
    tokenizer, scheduler = model.loaded.tokenizer, model.runner
    names = {"bos_token": tokenizer.bos_id, "eos_token": min(tokenizer.eos_ids, default=None)}
    return JSONResponse(
        {
            "default_generation_settings": {"n_ctx": scheduler.capacity}, "total_slots": scheduler.most_texts,
            "model_alias": model.name, "chat_template": sources(tokenizer.settings).get("default", ""),
            "modalities": {"vision": sees(model.loaded.model), "audio": False}, "build_info": f"pyapp {__version__}",
            "is_sleeping": False,
            **{name: "" if id is None else tokenizer.piece(id) or "" for name, id in names.items()},
        }
    )  # fmt: skip


async def slots(request: Request, context: Context) -> Response:
    """/slots: the texts that a model can write together; those that are written now come first. 503 where none is free
    and the client asks to be told so.
    """
    model = await context.model(request, request.query_params.get("model"), "generate")
    scheduler = model.runner
    running = scheduler.load.running
    if request.query_params.get("fail_on_no_slot") and running >= scheduler.most_texts:
        raise Problem("no slot is available", status=503, headers={"Retry-After": "1"})
    return JSONResponse(
        [
            {"id": id, "n_ctx": scheduler.capacity, "speculative": False, "is_processing": id < running}
            for id in range(scheduler.most_texts)
        ]
    )


async def lora_adapters(request: Request, context: Context) -> Response:
    """/lora-adapters: none; a model with its adapter is one of the command's models."""
    return JSONResponse([])
