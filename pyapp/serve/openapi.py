"""/openapi.json: the routes, their fields and their answers, in OpenAPI 3.1.

The examples are whole requests; a test sends them, and compares the fields here with those that the routes ask for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp import __version__
from pyapp.audio.sound_files import FORMATS
from pyapp.audio.speaking import SEEDS as SOUND_SEEDS
from pyapp.models.diffusion.read_schedule import NAMES as SCHEDULES
from pyapp.models.diffusion.sampling import SEEDS as PICTURE_SEEDS
from pyapp.text.generation.options import SEEDS

from . import anthropic_text, cohere_text, drawing, llama_cpp, ollama, responses
from .sampling import ANTHROPIC, COHERE, LLAMA_CPP, OLLAMA, WITHOUT_EFFECT
from .speaking import FASTEST, SLOWEST
from .spoken_replies import FORMS as FORMS_OF_REPLIES
from .spoken_replies import KINDS
from .vector_forms import FORMS

Schema = dict[str, Any]
NAMED = re.compile(r"\{(\w+)")  # the named parts of a path

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean", "default": False}
OBJECT: Schema = {"type": "object"}
IGNORED: Schema = {"description": "Without effect here."}
TEXTS: Schema = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
TOKENS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
FILE: Schema = {"type": "string", "format": "binary"}
VECTOR: Schema = {"type": "array", "items": {"type": "number"}}


def whole(low: int | None = None, high: int | None = None, **more: Any) -> Schema:
    return {"type": "integer"} | limits(low, high) | more


def number(low: float | None = None, high: float | None = None, **more: Any) -> Schema:
    return {"type": "number"} | limits(low, high) | more


def limits(low: float | None, high: float | None) -> Schema:
    return {name: value for name, value in (("minimum", low), ("maximum", high)) if value is not None}


def one_of(*choices: str, **more: Any) -> Schema:
    return {"type": "string", "enum": list(choices), **more}


def array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def an_object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def ignored(*names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, IGNORED)


MODEL: Schema = {"type": "string", "description": "The name of a model; by default the first for the route."}
SAMPLING: dict[str, Schema] = {
    "max_tokens": whole(-1, description="-1: no limit."), "max_completion_tokens": whole(-1),
    "temperature": number(0, 100, default=1),
    "min_tokens": whole(0, default=0), "ignore_eos": FLAG, "stop_token_ids": TOKENS, "suppress_tokens": TOKENS,
    "begin_suppress_tokens": TOKENS, "bad_words_ids": array(TOKENS),
    "top_p": number(0, 1, default=1), "top_k": whole(0, default=0), "min_p": number(0, 1, default=0),
    "typical_p": number(0, 1, default=1), "seed": whole(-SEEDS, SEEDS - 1), "stop": TEXTS,
    "frequency_penalty": number(-2, 2, default=0), "presence_penalty": number(-2, 2, default=0),
    "repetition_penalty": number(0.01, 100, default=1), "no_repeat_ngram": whole(0, 1000, default=0),
    "denoising": OBJECT,
    "logit_bias": {"type": "object", "additionalProperties": number()}, "n": whole(1, 64, default=1),
    "response_format": an_object(
        type=one_of("text", "json_object", "json_schema", "json", "regex"), json_schema=OBJECT, value={}),
    "regex": {"type": "string", "description": "The whole text must match it."},
    "choice": {**TEXTS, "description": "The whole text must be one of these."},
    "priority": whole(default=0, description="Requests with a lower one go first."),
    "stream": FLAG, "stream_options": an_object(include_usage=FLAG, continuous_usage_stats=FLAG),
    **ignored(*WITHOUT_EFFECT),
}  # fmt: skip
OF_ANSWERS = ("max_completion_tokens", "n", "response_format", "stream", "stream_options", "priority")


def sampling(*without: str, names: Mapping[str, str] = {}) -> dict[str, Schema]:
    """The settings of generation in another interface, which has `names` for some and not all."""
    left_out = (*without, *WITHOUT_EFFECT)
    return {names.get(name, name): schema for name, schema in SAMPLING.items() if name not in left_out}


# Those of /v1/responses.
RESPONSE_FIELDS: dict[str, Schema] = {
    "model": MODEL, "input": {"oneOf": [TEXT, array(OBJECT)], "description": "A text, or items: messages, "
                              "function_call, function_call_output, reasoning, item_reference."},
    "instructions": TEXT, "previous_response_id": TEXT, "max_output_tokens": whole(-1, description="-1: no limit."),
    "text": an_object(format=an_object(type=one_of("text", "json_object", "json_schema"), schema=OBJECT), verbosity={}),
    "tools": array(OBJECT), "tool_choice": {"oneOf": [TEXT, OBJECT]},
    "parallel_tool_calls": FLAG | {"default": True}, "top_logprobs": whole(0, 20), "include": array(TEXT),
    "reasoning": an_object(effort=TEXT, summary=one_of("auto"), generate_summary=one_of("auto")),
    "truncation": one_of("auto", "disabled", default="disabled"), "chat_template_kwargs": OBJECT,
    **{name: {"description": f"Is refused: {why}."} for name, why in responses.REFUSED.items()},
    **sampling("max_tokens", *OF_ANSWERS),
}  # fmt: skip
INFERENCE = an_object(
    max_new_tokens=whole(1, default=100), temperature=number(0.0001, 100), top_k=whole(0), top_p=number(0, 1),
    typical_p=number(0, 1), repetition_penalty=number(0.01, 100), frequency_penalty=number(-2, 2), stop=TEXTS,
    seed=whole(0, SEEDS - 1), do_sample=FLAG, details=FLAG, return_full_text=FLAG, top_n_tokens=whole(0, 20),
    grammar=an_object(type=one_of("json", "regex"), value={}),
    truncate=whole(1), decoder_input_details=FLAG, best_of=whole(1, 64, default=1), watermark=FLAG, adapter_id=TEXT,
)  # fmt: skip
MESSAGES = array(an_object(role=TEXT, content={"oneOf": [TEXT, array(OBJECT), {"type": "null"}]}), minItems=1)
INPUTS = {"inputs": TEXTS}
GENERATION = {**INPUTS, "parameters": INFERENCE, "stream": FLAG, **ignored("model", "options")}
GENERATE = {"inputs": "Once", "parameters": {"max_new_tokens": 4}}
TRUNCATION: dict[str, Schema] = {
    "truncate": FLAG | {"default": True},
    "truncation_direction": one_of("Right", "right", "Left", "left", default="Right"),
}  # fmt: skip
PROMPT_NAME: Schema = {"type": "string", "description": "Of a prompt of the model's, which goes before each text."}
NO_PROMPT: Schema = {"type": "null", "description": "Is read by /embed only."}
ROLE: dict[str, Schema] = dict.fromkeys(
    ("input_type", "task"),
    {**TEXT, "description": "A query, or a document (passage): the model's prompt for it goes before each text."},
)
SCORES = array(an_object(index=whole(0), score=number()))
GENERATED = an_object(generated_text=TEXT, details=OBJECT)
USAGE = an_object(prompt_tokens=whole(0), completion_tokens=whole(0), total_tokens=whole(0))
COMPLETION = an_object(id=TEXT, object=TEXT, created=whole(), model=TEXT, choices=array(OBJECT), usage=USAGE)
VOICE_FIELDS: dict[str, Schema] = {
    "voice": {"oneOf": [TEXT, an_object(id=TEXT)], "description": "The number or name of a voice, of models that have "
              "several; one voice has any name."},
    "speed": number(SLOWEST, FASTEST, default=1), "seed": whole(0, SOUND_SEEDS - 1, default=0),
    "instructions": {**TEXT, "description": "Describes the voice, of models that a text describes."},
}  # fmt: skip
SOUND_FIELDS: dict[str, Schema] = {
    "file": FILE, "model": MODEL, "language": TEXT, "prompt": TEXT,
    "response_format": one_of("json", "text", "srt", "verbose_json", "vtt", "diarized_json", default="json"),
    "speakers": {**TEXT, "description": "auto, or how many there are"},
    "temperature": number(0, 1), "stream": FLAG, "timestamp_granularities[]": array(one_of("word", "segment")),
    "timestamp_granularities": array(one_of("word", "segment")), "chunking_strategy": one_of("auto"),
}  # fmt: skip
TRANSCRIPT = an_object(text=TEXT, language=TEXT, duration=number(), segments=array(OBJECT), words=array(OBJECT))
MODEL_ENTRY = an_object(id=TEXT, object=TEXT, created=whole(), owned_by=TEXT, task=TEXT,
                        loaded={"type": "boolean"}, languages=array(TEXT), translates={"type": "boolean"},
                        voices=whole(1), root=TEXT, parent={"type": "null"}, max_model_len=whole(1), type=TEXT,
                        display_name=TEXT, created_at=TEXT, name=TEXT, endpoints=array(TEXT), finetuned=FLAG,
                        is_deprecated=FLAG, context_length=whole(1))  # fmt: skip
STATUS = an_object(status=TEXT)
COHERE_FIELDS: dict[str, Schema] = {
    **sampling("max_completion_tokens", "n", "stream_options", names=COHERE.names),
    "logprobs": FLAG, "tools": array(OBJECT), "tool_choice": one_of("REQUIRED", "NONE"),
    "parallel_tool_calls": FLAG | {"default": True},
    "thinking": an_object(type=one_of("enabled", "disabled"), token_budget={"description": "Is refused."}),
    **{name: {"description": "Is refused: put texts into messages."} for name in ("documents", "citation_options")},
    **ignored(*cohere_text.WITHOUT_EFFECT),
}  # fmt: skip
# Anthropic's; count_tokens takes the same, but for `stream`.
ANTHROPIC_FIELDS: dict[str, Schema] = {
    "model": MODEL, "messages": MESSAGES, "system": {"oneOf": [TEXT, array(OBJECT)]},
    **sampling(*OF_ANSWERS, names=ANTHROPIC.names),
    "max_tokens": whole(1), "tools": array(OBJECT),
    "tool_choice": an_object(
        type=one_of(*anthropic_text.CHOICES, "tool"), name=TEXT, disable_parallel_tool_use=FLAG),
    "parallel_tool_calls": FLAG | {"default": True},
    "thinking": an_object(type=one_of(*anthropic_text.THINKING), budget_tokens=whole(1), display=IGNORED),
    "output_config": an_object(
        effort=one_of(*anthropic_text.EFFORTS), format=an_object(type=one_of("json_schema"), schema=OBJECT)),
    **{name: {"description": f"Is refused: {why}."} for name, why in anthropic_text.REFUSED.items()},
    **ignored(*anthropic_text.WITHOUT_EFFECT),
}  # fmt: skip
# llama.cpp's.
LLAMA_CPP_FIELDS: dict[str, Schema] = {
    "model": MODEL, "stream": FLAG, "return_tokens": FLAG, "n_predict": whole(-2), "max_tokens": whole(-1),
    **sampling("max_tokens", *OF_ANSWERS, names=LLAMA_CPP.names),
    "logit_bias": {"oneOf": [SAMPLING["logit_bias"], array(array({}))]}, "json_schema": OBJECT, "n_probs": whole(0, 20),
    **{name: {"const": value} for name, value in llama_cpp.METHODS.items()},
    **{name: {"description": f"Is refused: {why}."} for name, why in llama_cpp.REFUSED.items()},
    **ignored(*llama_cpp.WITHOUT_EFFECT),
}  # fmt: skip
LLAMA_CPP_TEXT = an_object(content=TEXT, tokens=array(whole(0)), stop={"type": "boolean"}, stop_type=TEXT,
                           tokens_predicted=whole(0), tokens_evaluated=whole(0), timings=OBJECT)  # fmt: skip
# Ollama's.
OLLAMA_TEXT: dict[str, Schema] = {
    "model": MODEL, "name": MODEL, "stream": FLAG | {"default": True},
    "think": {"oneOf": [FLAG, one_of(*ollama.EFFORTS)]}, "format": {"oneOf": [one_of("json"), OBJECT]},
    "options": an_object(
        num_predict=whole(-2), **sampling("max_tokens", *OF_ANSWERS, names=OLLAMA.names),
        **{name: {"const": value} for name, value in ollama.METHODS.items()}, **ignored(*ollama.WITHOUT_EFFECT)),
    "logprobs": FLAG, "top_logprobs": whole(0, ollama.MOST_TOP), **ignored("keep_alive"),
}  # fmt: skip
OLLAMA_DETAILS = an_object(format=TEXT, family=TEXT, families=array(TEXT), parameter_size=TEXT, quantization_level=TEXT)
OLLAMA_MODELS = an_object(models=array(an_object(
    name=TEXT, model=TEXT, modified_at=TEXT, size=whole(0), digest=TEXT, details=OLLAMA_DETAILS)))  # fmt: skip
RESPONSE = an_object(
    id=TEXT, object=TEXT, created_at=whole(), status=one_of("completed", "incomplete"), model=TEXT,
    output=array(OBJECT),
    usage=an_object(input_tokens=whole(0), output_tokens=whole(0), total_tokens=whole(0)),
)  # fmt: skip
PICTURE_FIELDS: dict[str, Schema] = {
    "model": MODEL, "prompt": TEXT, "n": whole(1, drawing.MOST, default=1),
    "size": {**TEXT, "description": "As 512x512, in multiples of 8; auto: the model's, or the picture's."},
    "response_format": one_of("b64_json", default="b64_json"), "output_format": one_of("png", default="png"),
    "background": one_of("auto", "opaque", default="auto"), "stream": FLAG, "seed": whole(0, PICTURE_SEEDS - 1),
    "steps": whole(1, drawing.STEPS), "guidance": number(0, 100), "negative_prompt": TEXT,
    "true_cfg_scale": number(1, 100), "schedule": one_of(*SCHEDULES), **ignored(*drawing.WITHOUT_EFFECT),
}  # fmt: skip
PICTURES = an_object(
    created=whole(), data=array(an_object(b64_json=TEXT)), background=TEXT, output_format=TEXT, size=TEXT
)
HELLO = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}


class Route:
    """What a route takes and gives. `answer`: the schema of its JSON, or media types. `fields` are those of its JSON
    object (or form), `needed` the ones that must be there; `streams`: its answer may be server-sent events, `lines`: or
    JSON objects, one a line; `query`: what may stand after the path.
    """

    def __init__(
        self, about: str, answer: Schema | str | tuple[str, ...], fields: Mapping[str, Schema] | None = None,
        example: Mapping[str, Any] | None = None, needed: tuple[str, ...] = (), streams: bool = False,
        form: bool = False, query: Mapping[str, Schema] | None = None, lines: bool = False,
    ) -> None:  # fmt: skip
        self.about, self.answer, self.fields, self.example = about, answer, fields, example
        self.needed, self.streams, self.form, self.query = needed, streams, form, query or {}
        self.lines = lines

    def described(self, path: str, method: str) -> Schema:
        """The operation."""
        found: Schema = {
            "operationId": "_".join(re.findall(r"\w+", f"{method.lower()} {path}")), "summary": self.about,
            "responses": {"200": self._response(), "default": {"$ref": "#/components/responses/Error"}},
        }  # fmt: skip
        if self.fields is not None:
            schema: Schema = {"type": "object", "properties": dict(self.fields), "additionalProperties": False}
            if self.needed:
                schema["required"] = list(self.needed)
            media: Schema = {"schema": schema}
            if self.example is not None:
                media["example"] = dict(self.example)
            kind = "multipart/form-data" if self.form else "application/json"
            found["requestBody"] = {"required": True, "content": {kind: media}}
        parameters = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in NAMED.findall(path)]
        parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in self.query.items()]
        if parameters:
            found["parameters"] = parameters
        return found

    def _response(self) -> Schema:
        content: Schema = {}
        if isinstance(self.answer, str | tuple):
            kinds = (self.answer,) if isinstance(self.answer, str) else self.answer
            content |= {kind: {"schema": TEXT} for kind in kinds}
        else:
            content["application/json"] = {"schema": self.answer}
        if self.streams:
            content["text/event-stream"] = {"schema": TEXT}
        if self.lines:
            content["application/x-ndjson"] = {"schema": TEXT}
        if self.form and self.answer is TRANSCRIPT:
            content["text/plain"] = {"schema": TEXT}
        return {"description": "The answer.", "content": content}


EMBEDDINGS = Route(
    "Vectors of texts (OpenAI), and of pictures and recordings, as in Jina's interface: {\"image\": base64}, "
    "{\"audio\": base64}, {\"text\": …}", an_object(object=TEXT, data=array(OBJECT), model=TEXT, usage=USAGE),
    {"model": MODEL, "input": {"oneOf": [TEXT, array({"oneOf": [TEXT, OBJECT]}), TOKENS, array(TOKENS)]},
     "encoding_format": one_of("float", "base64", default="float"), "dimensions": whole(1),
     **dict.fromkeys(("embedding_type", "output_dtype"), one_of(*FORMS)), **ROLE, "late_chunking": {"const": False},
     "normalized": {"const": True}, **TRUNCATION, **ignored("user")},
    {"input": ["the cat", "a boat"]}, ("input",),
)  # fmt: skip
RERANK = Route(
    "How well texts answer a query: `documents` as in Cohere's and Jina's interfaces, or `texts` as in TEI",
    {"oneOf": [an_object(id=TEXT, model=TEXT, results=array(OBJECT)), SCORES]},
    {"model": MODEL, "query": TEXT, "rank_fields": TEXTS,
     "documents": array({"oneOf": [TEXT, an_object(text=TEXT), an_object(image=TEXT)]}),
     "texts": array(TEXT), "top_n": whole(1), "return_documents": FLAG, "return_text": FLAG, "raw_scores": FLAG,
     **TRUNCATION, **ignored("max_tokens_per_doc", "max_chunks_per_doc", "priority")},
    {"query": "cats", "documents": ["the cat", "a boat"]}, ("query",),
)  # fmt: skip
HEALTH = Route("Whether the engine lives", STATUS)
MODELS = Route(
    "The models (OpenAI, Anthropic, Cohere, vLLM)",
    an_object(object=TEXT, data=array(MODEL_ENTRY), has_more=FLAG, first_id=TEXT, last_id=TEXT,
              models=array(MODEL_ENTRY), next_page_token={"type": "null"}),
    query={"endpoint": one_of("chat", "embed", "rerank"), "default_only": FLAG},
)  # fmt: skip
CHAT = Route(
    "An answer in a conversation (OpenAI)", COMPLETION,
    {"model": MODEL, "messages": MESSAGES, **SAMPLING, "logprobs": FLAG, "top_logprobs": whole(0, 20),
     "tools": array(OBJECT), "tool_choice": {"oneOf": [TEXT, OBJECT]},
     "parallel_tool_calls": FLAG | {"default": True}, "chat_template_kwargs": OBJECT, "reasoning_effort": TEXT,
     "modalities": array(one_of(*KINDS)),
     "audio": {**an_object(format=one_of(*FORMS_OF_REPLIES), model=TEXT, **VOICE_FIELDS),
               "description": "How an answer is spoken, if modalities has audio; model: the voice's."}},
    HELLO, ("messages",), streams=True,
)  # fmt: skip
LLAMA_CPP_VECTORS = Route(
    "Vectors of a `content` (llama.cpp); an `input` as /v1/embeddings",
    array(OBJECT),
    {"model": MODEL, "content": TEXTS, "embd_normalize": whole(-1, 2, default=2)},
    {"content": "the cat"},
    ("content",),
)

ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/health"): HEALTH,
    ("GET", "/v1/health"): HEALTH,
    ("GET", "/ready"): Route("Whether the models are loaded and the server does not end", STATUS),
    ("GET", "/"): Route("Whether the server runs (Ollama); the page, if it has one", "text/plain"),
    ("GET", "/metrics"): Route("Figures for Prometheus", "text/plain"),
    ("GET", "/openapi.json"): Route("This description", OBJECT),
    ("GET", "/v1/models"): MODELS,
    ("GET", "/models"): MODELS,
    ("GET", "/v1/models/{name:path}"): Route("A model", MODEL_ENTRY),
    ("POST", "/v1/chat/completions"): CHAT,
    ("POST", "/chat/completions"): CHAT,
    ("POST", "/v1/completions"): Route(
        "The continuation of texts (OpenAI)", COMPLETION,
        {"model": MODEL, "prompt": {"oneOf": [TEXT, array(TEXT), TOKENS, array(TOKENS)]}, **SAMPLING,
         "logprobs": whole(0, 20), "echo": FLAG, "best_of": whole(1, 64), "suffix": TEXT},
        {"prompt": "Once upon a time", "max_tokens": 4}, ("prompt",), streams=True,
    ),
    ("POST", "/v1/responses"): Route(
        "An answer in a conversation (OpenAI's Responses)", RESPONSE,
        {**RESPONSE_FIELDS, "priority": SAMPLING["priority"], "stream": FLAG,
         "stream_options": an_object(include_obfuscation=IGNORED), "store": FLAG | {"default": True},
         "metadata": {"type": "object", "additionalProperties": TEXT}, **ignored(*responses.WITHOUT_EFFECT)},
        {"input": "Hello", "max_output_tokens": 4}, streams=True,
    ),
    ("POST", "/v1/responses/input_tokens"): Route(
        "How many tokens a request has for the model (OpenAI)", an_object(object=TEXT, input_tokens=whole(0)),
        RESPONSE_FIELDS, {"input": "Hello"},
    ),
    ("GET", "/v1/responses/{id}"): Route("A response that is kept (OpenAI)", RESPONSE),
    ("DELETE", "/v1/responses/{id}"): Route(
        "Forgets a response (OpenAI)", an_object(id=TEXT, object=TEXT, deleted={"type": "boolean"}),
    ),
    ("GET", "/v1/responses/{id}/input_items"): Route(
        "What the model read for a response (OpenAI)",
        an_object(object=TEXT, data=array(OBJECT), has_more={"type": "boolean"}, first_id=TEXT, last_id=TEXT),
        query={"order": one_of("desc", "asc", default="desc"), "limit": whole(1, 100, default=20), "after": TEXT},
    ),
    ("POST", "/v1/messages"): Route(
        "An answer in a conversation (Anthropic)",
        an_object(id=TEXT, type=TEXT, role=TEXT, model=TEXT, content=array(OBJECT), stop_reason=TEXT,
                  stop_sequence={"type": ["string", "null"]}, usage=OBJECT),
        {**ANTHROPIC_FIELDS, "stream": FLAG}, {**HELLO}, ("messages", "max_tokens"), streams=True,
    ),
    ("POST", "/v1/messages/count_tokens"): Route(
        "How many tokens a request has for the model (Anthropic)", an_object(input_tokens=whole(0)),
        ANTHROPIC_FIELDS, {"messages": HELLO["messages"]}, ("messages",),
    ),
    ("POST", "/v1/embeddings"): EMBEDDINGS,
    ("POST", "/v2/chat"): Route(
        "An answer in a conversation (Cohere)",
        an_object(id=TEXT, finish_reason=TEXT, message=OBJECT, usage=OBJECT, logprobs=array(OBJECT)),
        {"model": MODEL, "messages": MESSAGES, **COHERE_FIELDS}, {**HELLO}, ("messages",), streams=True,
    ),
    ("POST", "/v2/embed"): Route(
        "Vectors of texts (Cohere)", an_object(id=TEXT, embeddings=OBJECT, texts=array(TEXT), meta=OBJECT),
        {"model": MODEL, "texts": TEXTS, "embedding_types": array(one_of(*FORMS)),
         "output_dimension": whole(1), "truncate": one_of("END", "NONE", "START", default="END"),
         "images": {"description": "Is refused."}, "inputs": {"description": "Is refused."},
         **ROLE, **ignored("max_tokens", "priority")},
        {"texts": ["the cat", "a boat"]}, ("texts",),
    ),
    ("POST", "/v1/rerank"): RERANK,
    ("POST", "/v2/rerank"): RERANK,
    ("POST", "/v1/reranking"): RERANK,
    ("POST", "/reranking"): RERANK,
    ("POST", "/v1/forecast"): Route(
        "The next values of series, with a model such as TimesFM or Chronos",
        an_object(object=TEXT, model=TEXT, data=array(OBJECT)),
        {"model": MODEL, "series": {"oneOf": [VECTOR, array(VECTOR), OBJECT]}, "horizon": whole(1, 4096),
         "quantiles": VECTOR, "samples": whole(1, 1024), "seed": whole(0, default=0),
         "frequency": whole(0, 2, default=0), **ignored("user")},
        {"series": [1.0, 2.0, 1.5, 2.5], "horizon": 2}, ("series",),
    ),
    ("POST", "/infinity/embeddings"): EMBEDDINGS,
    ("POST", "/infinity/rerank"): RERANK,
    ("POST", "/v1/audio/transcriptions"): Route(
        "The text of a recording (OpenAI)", TRANSCRIPT, SOUND_FIELDS, None, ("file",), streams=True, form=True,
    ),
    ("POST", "/v1/audio/translations"): Route(
        "The text of a recording in English (OpenAI)", TRANSCRIPT, SOUND_FIELDS, None, ("file",), streams=True,
        form=True,
    ),
    ("POST", "/v1/audio/speech"): Route(
        "The speech of a text (OpenAI)", tuple(dict.fromkeys(form.media for form in FORMATS.values())),
        {"model": MODEL, "input": TEXT, **VOICE_FIELDS,
         "response_format": one_of(*FORMATS, description="By default mp3, and wav where the server cannot make mp3."),
         "stream_format": one_of("audio", "sse", default="audio"), "phonemes": FLAG},
        {"input": "It is so.", "voice": "alloy", "response_format": "wav"}, ("input",), streams=True,
    ),
    ("POST", "/v1/images/generations"): Route(
        "Pictures of a text (OpenAI)", PICTURES, PICTURE_FIELDS,
        {"prompt": "a red cat", "size": "16x16", "steps": 1}, ("prompt",), streams=True,
    ),
    ("POST", "/v1/images/edits"): Route(
        "A picture that is changed as a text says, or filled in where the mask is transparent (OpenAI)", PICTURES,
        {**PICTURE_FIELDS, "image": FILE, "image[]": FILE, "mask": FILE, "strength": number(0, 1)}, None,
        ("prompt", "image"), streams=True, form=True,
    ),
    ("POST", "/"): Route(
        "What the body asks for: a text, as /generate with an array as the answer, if it has `parameters` or `stream`, "
        "or there is no embedder; else vectors, as /embed; of source_sentence, as /similarity; with a classifier and "
        "neither of them, as /predict; of a recording its text (also in base64 as `inputs`, with "
        "`return_timestamps` or `generation_parameters` in `parameters`)",
        array(GENERATED),
        GENERATION, GENERATE, ("inputs",), streams=True,
    ),
    ("POST", "/models/{name:path}"): Route(
        "What the model does, as Hugging Face's inference API: labels, objects, segments, depths, points, poses, a "
        "vector or a text of a picture, or labels or a vector of a recording, which is the body or in base64 in "
        "`inputs`; answers to a "
        "`question` about an `image`; the same points in two pictures; a larger picture (PNG); masked words, "
        "labelled parts, translations or summaries, and answers to questions, of texts; given labels of texts "
        "(`candidate_labels`); music of a text (a WAVE file); for other models of texts and of speech as /",
        {"oneOf": [array(GENERATED), array(an_object(label=TEXT, score=number())), OBJECT, array({})]},
        GENERATION, GENERATE, ("inputs",), streams=True,
    ),
    ("GET", "/info"): Route("The first model and the limits (TGI, TEI)", OBJECT),
    ("POST", "/generate"): Route(
        "The continuation of a text (TGI)", GENERATED,
        {**GENERATION, "inputs": TEXT}, GENERATE, ("inputs",), streams=True,
    ),
    ("POST", "/generate_stream"): Route(
        "The continuation of a text, token by token (TGI)", "text/event-stream",
        {**GENERATION, "inputs": TEXT}, GENERATE, ("inputs",),
    ),
    ("POST", "/tokenize"): Route(
        "The tokens of texts (TGI, TEI); of a `content` as llama.cpp gives them, with its `add_special`, "
        "`parse_special` and `with_pieces`",
        {"oneOf": [array(OBJECT), an_object(tokens=array({}))]},
        {**INPUTS, "model": MODEL, "add_special_tokens": {**FLAG, "default": True},
         "prompt_name": NO_PROMPT, **ignored("parameters")},
        {"inputs": "Once upon"}, ("inputs",),
    ),
    ("POST", "/embed"): Route(
        "Vectors of texts (TEI)", array(VECTOR),
        {**INPUTS, "normalize": {**FLAG, "default": True}, "dimensions": whole(1), "prompt_name": PROMPT_NAME,
         "encoding_format": one_of("float", default="float"), **TRUNCATION},
        {"inputs": ["the cat", "a boat"]}, ("inputs",),
    ),
    ("POST", "/embed_all"): Route(
        "A vector for each token of texts (TEI)", array(array(VECTOR)),
        {**INPUTS, **TRUNCATION, "prompt_name": NO_PROMPT}, {"inputs": ["the cat"]}, ("inputs",),
    ),
    ("POST", "/rerank"): RERANK,
    ("POST", "/similarity"): Route(
        "The cosine of a sentence and others (TEI)", VECTOR,
        {"inputs": an_object(source_sentence=TEXT, sentences=array(TEXT)), **ignored("parameters")},
        {"inputs": {"source_sentence": "the cat", "sentences": ["a cat", "a boat"]}}, ("inputs",),
    ),
    ("POST", "/predict"): Route(
        "The labels of texts (TEI)", array(an_object(label=TEXT, score=number())),
        {"inputs": {"oneOf": [TEXT, array(TEXT), array(array(TEXT, minItems=1, maxItems=2))]}, "raw_scores": FLAG,
         "parameters": an_object(top_k=whole(1), function_to_apply=one_of("none")), **TRUNCATION},
        {"inputs": "the cat"}, ("inputs",),
    ),
    ("POST", "/v1/score"): Route(
        "How well texts answer texts: each of `text_2` one `text_1`, or the one in its place (vLLM)",
        an_object(id=TEXT, object=TEXT, model=TEXT, data=SCORES),
        {"model": MODEL, "text_1": TEXTS, "text_2": TEXTS, **ignored("priority", "user")},
        {"text_1": "cats", "text_2": ["the cat", "a boat"]}, ("text_1", "text_2"),
    ),
    ("POST", "/classify"): Route(
        "The likeliest label of texts (vLLM)", an_object(id=TEXT, object=TEXT, model=TEXT, data=array(OBJECT)),
        {"model": MODEL, "input": TEXTS, **ignored("priority", "user")}, {"input": "the cat"}, ("input",),
    ),
    ("POST", "/completion"): Route(
        "The continuation of texts (llama.cpp)", {"oneOf": [LLAMA_CPP_TEXT, array(LLAMA_CPP_TEXT)]},
        {"prompt": {"oneOf": [TEXT, array(TEXT), TOKENS, array(TOKENS)]}, **LLAMA_CPP_FIELDS},
        {"prompt": "Once", "n_predict": 4}, ("prompt",), streams=True,
    ),
    ("POST", "/infill"): Route(
        "The text between two others (llama.cpp)", LLAMA_CPP_TEXT,
        {"input_prefix": TEXT, "input_suffix": TEXT, "prompt": TEXT, "input_extra": array(OBJECT), **LLAMA_CPP_FIELDS},
        {"input_prefix": "def ", "input_suffix": "return 1", "n_predict": 4}, streams=True,
    ),
    ("POST", "/embedding"): LLAMA_CPP_VECTORS,
    ("POST", "/embeddings"): LLAMA_CPP_VECTORS,
    ("POST", "/detokenize"): Route(
        "The text of tokens (llama.cpp)", an_object(content=TEXT), {"tokens": array(whole(0)), "model": MODEL},
        {"tokens": [72, 105]}, ("tokens",),
    ),
    ("POST", "/apply-template"): Route(
        "The prompt that a conversation becomes (llama.cpp)", an_object(prompt=TEXT),
        {"model": MODEL, "messages": MESSAGES, "tools": array(OBJECT), "tool_choice": {"oneOf": [TEXT, OBJECT]},
         "parallel_tool_calls": FLAG | {"default": True}, "chat_template_kwargs": OBJECT},
        {"messages": HELLO["messages"]}, ("messages",),
    ),
    ("GET", "/props"): Route("A model and what it can do (llama.cpp)", OBJECT, query={"model": MODEL}),
    ("GET", "/slots"): Route(
        "The texts that a model can write together (llama.cpp)", array(OBJECT),
        query={"model": MODEL, "fail_on_no_slot": FLAG},
    ),
    ("GET", "/lora-adapters"): Route("None: a model with its adapter is a model (llama.cpp)", array(OBJECT)),
    ("GET", "/api/version"): Route("The version (Ollama)", an_object(version=TEXT)),
    ("GET", "/api/tags"): Route("The models (Ollama)", OLLAMA_MODELS),
    ("GET", "/api/ps"): Route("The models that are loaded (Ollama)", OLLAMA_MODELS),
    ("POST", "/api/show"): Route(
        "A model (Ollama)",
        an_object(details=OLLAMA_DETAILS, model_info=OBJECT, template=TEXT, capabilities=array(TEXT)),
        {"model": MODEL, "name": MODEL, **ignored("verbose", "system", "template", "options")}, {"model": "chat"},
    ),
    ("POST", "/api/chat"): Route(
        "An answer in a conversation (Ollama)", OBJECT,
        {"messages": MESSAGES, "tools": array(OBJECT), "tool_choice": {"oneOf": [TEXT, OBJECT]},
         "parallel_tool_calls": FLAG | {"default": True}, **OLLAMA_TEXT},
        {"messages": HELLO["messages"], "options": {"num_predict": 4}, "stream": False}, lines=True,
    ),
    ("POST", "/api/generate"): Route(
        "An answer to a text, or with `raw` its continuation (Ollama)", OBJECT,
        {"prompt": TEXT, "suffix": TEXT, "system": TEXT, "raw": FLAG, "images": array(TEXT),
         "template": {"description": "Is refused."}, **ignored("context"), **OLLAMA_TEXT},
        {"prompt": "Once", "options": {"num_predict": 4}, "stream": False}, lines=True,
    ),
    ("POST", "/api/embed"): Route(
        "Vectors of texts (Ollama)", an_object(model=TEXT, embeddings=array(VECTOR)),
        {"model": MODEL, "name": MODEL, "input": TEXTS, "dimensions": whole(1), "truncate": FLAG | {"default": True},
         **ignored("options", "keep_alive")},
        {"input": ["the cat"]}, ("input",),
    ),
    ("POST", "/api/embeddings"): Route(
        "The vector of a text (Ollama)", an_object(embedding=VECTOR),
        {"model": MODEL, "name": MODEL, "prompt": TEXT, **ignored("options", "keep_alive")},
        {"prompt": "the cat"}, ("prompt",),
    ),
}  # fmt: skip


def description(keys: bool) -> Schema:
    """The whole description. `keys`: requests must have one."""
    error = an_object(message=TEXT, type=TEXT, param={"type": ["string", "null"]}, code={"type": ["string", "null"]})
    answer = {"description": "An error in OpenAI's form.",
              "content": {"application/json": {"schema": an_object(error=error)}}}  # fmt: skip
    components: Schema = {"responses": {"Error": answer}}
    paths: Schema = {}
    for (method, path), route in ROUTES.items():
        paths.setdefault(path.replace("{name:path}", "{name}"), {})[method.lower()] = route.described(path, method)
    found: Schema = {
        "openapi": "3.1.0", "paths": paths, "components": components,
        "info": {
            "title": "pyapp", "version": __version__,
            "description": "Models over HTTP, in the interfaces of OpenAI, text-generation-inference, "
            "text-embeddings-inference, Anthropic, Cohere, llama.cpp and Ollama. /v1/realtime is a websocket, in "
            "the form of OpenAI's Realtime interface.",
        },
    }  # fmt: skip
    if keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"key": []}]
    return found
