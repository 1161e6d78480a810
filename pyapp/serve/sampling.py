"""The settings of generation in OpenAI's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError
from pyapp.text.generation.generation_config import with_model_settings
from pyapp.text.generation.options import SEEDS, SamplingOptions
from pyapp.text.tokenization.tokenizer import Tokenizer

from .fields import Fields
from .served import ServedModel
from .settings import Settings

MOST_TEXTS = 64  # of one request
MOST_STOPS = 16
NO_LIMIT = -1
# What OpenAI's clients may send and what has no effect here.
WITHOUT_EFFECT = (
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "verbosity",
    "modalities", "prompt_cache_retention", "prediction",
)  # fmt: skip
# pyapp's names of settings and OpenAI's.
NAMES = {
    "max_new_tokens": "max_tokens", "json_schema": "response_format", "samples": "n", "prompt": "prompt",
    "chat template": "messages", "min_new_tokens": "min_tokens", "stop_tokens": "stop_token_ids",
}  # fmt: skip


@dataclass(frozen=True)
class Interface:
    """What routes call things: `names` of pyapp's settings, `lengths`: the fields for the length of a text, `messages`:
    the field with the conversation. `flat`: forms and tools have their parts in themselves, not in an object.
    `counted`: each entry of `messages` is one message, so that errors may give its number. `parameters`: where a tool
    has the schema of its arguments.
    """

    names: Mapping[str, str]
    lengths: tuple[str, ...]
    messages: str
    flat: bool = False
    counted: bool = True
    parameters: str = "function.parameters"

    def names_in_conversation(self, where: str | None) -> dict[str, str]:
        """`names`, for the error of a conversation at `where`."""
        found = {**self.names, "prompt": self.messages}
        if where is not None and where.startswith("messages[") and not self.counted:
            found[where] = self.messages
        return found


COMPLETIONS = Interface(NAMES, ("max_completion_tokens", "max_tokens"), "messages")  # the newer name counts
RESPONSES = Interface(
    {
        **NAMES, "max_new_tokens": "max_output_tokens", "json_schema": "text.format", "prompt": "input",
        "chat template": "input",
    },
    ("max_output_tokens",), "input", flat=True, counted=False, parameters="parameters",
)  # fmt: skip
_OF_PARAMETERS = (
    "max_new_tokens", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "frequency_penalty", "seed",
    "stop",
)  # fmt: skip
TGI = Interface(
    {name: f"parameters.{name}" for name in _OF_PARAMETERS} | {
        "json_schema": "parameters.grammar", "regex": "parameters.grammar", "logprobs": "parameters.top_n_tokens",
        "prompt": "inputs",
    },
    ("max_new_tokens",), "inputs",
)  # fmt: skip
COHERE = Interface(NAMES | {"top_p": "p", "top_k": "k", "stop": "stop_sequences"}, ("max_tokens",), "messages")
ANTHROPIC = Interface(
    NAMES | {"stop": "stop_sequences", "json_schema": "output_config.format"}, ("max_tokens",), "messages", flat=True,
    counted=False, parameters="input_schema",
)  # fmt: skip
LLAMA_CPP = Interface(
    {
        **NAMES, "max_new_tokens": "n_predict", "json_schema": "json_schema", "repetition_penalty": "repeat_penalty",
        "suffix": "input_suffix",
    },
    ("n_predict", "max_tokens"), "messages",
)  # fmt: skip
OLLAMA = Interface(
    {
        **NAMES, "max_new_tokens": "options.num_predict", "json_schema": "format",
        "repetition_penalty": "repeat_penalty",
    },
    ("num_predict",), "messages",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """The settings of a request. `given`: those that it has itself; `ignore_eos`: the tokenizer's tokens that end texts
    do not.
    """

    options: SamplingOptions
    given: tuple[str, ...] = ()
    ignore_eos: bool = False

    def of(self, model: ServedModel, settings: Settings) -> SamplingOptions:
        """The settings with those of the model's generation_config.json, where the request has none."""
        found = with_model_settings(self.options, getattr(model.loaded, "generation", {}), self.given)
        most = settings.output_tokens
        return replace(found, max_new_tokens=most) if (found.max_new_tokens or 0) > most else found

    def stops(self, tokenizer: Tokenizer) -> frozenset[int]:
        """The tokens that end a text."""
        own = self.options.stop_tokens
        return frozenset(own) if self.ignore_eos else tokenizer.stop_ids.union(own)


def asked_of(
    fields: Fields, settings: Settings, logprobs: int | None, form: Fields | None, most: int | None = None,
    least: int = 1, interface: Interface = COMPLETIONS,
) -> Asked:  # fmt: skip
    """The settings of a request: OpenAI's fields; those of vLLM that OpenAI has not: min_tokens, stop_token_ids,
    ignore_eos; and pyapp's: top_k, min_p, typical_p, repetition_penalty, no_repeat_ngram, suppress_tokens,
    begin_suppress_tokens, bad_words_ids, denoising, regex, choice. `form`: the object with the form of the text.
    `most`: tokens by default; None: as the model says, or until the context is full. `least`: the smallest number of
    tokens.
    """
    given = [name for name in interface.lengths if fields.given(name)]
    limits = [_limit(fields, name, least, settings) for name in interface.lengths]
    asked = next((limit for limit in limits if limit is not None), most)
    tokens = settings.output_tokens if asked is None else asked
    if tokens > settings.output_tokens:
        raise fields.wrong(given[0], f"must be at most {settings.output_tokens:,}, not {tokens:,}")
    named = lambda name: interface.names.get(name, name)  # noqa: E731
    seed = fields.whole("seed", low=-SEEDS, high=SEEDS - 1)
    values: dict[str, Any] = {
        "temperature": fields.number("temperature", 1.0, 0, 100), "top_p": fields.number(named("top_p"), 1.0, 0, 1),
        "max_new_tokens": tokens, "seed": None if seed is None else seed % SEEDS, "logprobs": logprobs,
        "stop": tuple(fields.texts(named("stop"), MOST_STOPS) or ()),
        "frequency_penalty": fields.number("frequency_penalty", 0.0, -2, 2),
        "presence_penalty": fields.number("presence_penalty", 0.0, -2, 2),
        "logit_bias": fields.mapping("logit_bias") or {},
        "top_k": fields.whole(named("top_k"), 0, 0, 1 << 31), "min_p": fields.number("min_p", 0.0, 0, 1),
        "typical_p": fields.number("typical_p", 1.0, 0, 1),
        "repetition_penalty": fields.number(named("repetition_penalty"), 1.0, 0.01, 100),
        "no_repeat_ngram": fields.whole("no_repeat_ngram", 0, 0, 1000),
        "min_new_tokens": fields.whole("min_tokens", 0, 0, tokens), "stop_tokens": fields.array("stop_token_ids", ()),
        "suppress_tokens": fields.array("suppress_tokens", ()), "bad_words_ids": fields.array("bad_words_ids", ()),
        "begin_suppress_tokens": fields.array("begin_suppress_tokens", ()),
        "denoising": fields.mapping("denoising"),
        "regex": fields.text("regex"), "choice": tuple(fields.texts("choice", 1000) or ()),
    }  # fmt: skip
    if form is not None:
        form_of(form, values, interface.flat)
    if not all(values["stop"]):
        raise fields.wrong(named("stop"), "an empty text ends nothing")
    own = [name for name in values if fields.given(named(name))]
    own += ["max_new_tokens"] if asked is not None else []
    own += ["min_length"] if fields.given("min_tokens") else []
    try:
        return Asked(SamplingOptions(**values), tuple(own), fields.flag("ignore_eos"))
    except OptionError as error:
        raise fields.wrong(named(error.where or ""), error.what) from None


def _limit(fields: Fields, name: str, least: int, settings: Settings) -> int | None:
    """The tokens that a field allows; -1 means as many as the server does, as in llama.cpp."""
    if fields.any(name) == NO_LIMIT:
        return settings.output_tokens
    found: int | None = fields.whole(name, low=least)
    return found


def form_of(fields: Fields, values: dict[str, Any], flat: bool = False) -> None:
    """Writes the form that a `response_format` asks for into the settings: OpenAI's kinds, and those of
    text-generation-inference, whose `value` is a schema or a regular expression. `flat`: as in Interface.
    """
    kind = fields.needed_text("type", ("text", "json_object", "json_schema", "json", "regex"))
    if kind == "regex":
        if values["regex"] is not None:
            raise fields.wrong("type", "excludes regex")
        values["regex"] = fields.needed_text("value")
    elif kind != "text":
        values["json_schema"] = schema_of(fields, kind, flat)
    fields.end(("name", "strict", "description") if flat else ())


def schema_of(fields: Fields, kind: str, flat: bool = False) -> Any:
    """The JSON Schema of a `response_format`."""
    inner, name = fields, "value"
    if kind == "json_schema" and flat:
        name = "schema"
    elif kind == "json_schema":
        within = "json_schema" if fields.given("json_schema") else "value"
        inner, name = fields.needed("json_schema", fields.object(within)), "schema"
    schema = inner.any(name, {"type": "object"})
    if not isinstance(schema, dict | bool):
        raise inner.wrong(name, "must be an object", "invalid_type")
    if inner is not fields:
        inner.end(("name", "strict", "description"))
    return schema


def reason_of(reason: str) -> str:
    """OpenAI's finish_reason of the reason of Done."""
    return "length" if reason in ("length", "context") else "stop"
