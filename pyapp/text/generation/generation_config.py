"""A model's generation_config.json: the settings that its makers chose, as those of SamplingOptions.

Source: https://huggingface.co/docs/transformers/main_classes/text_generation (GenerationConfig). What samples is a
default, which a caller's own settings replace; what forbids or forces tokens belongs to the model, and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pyapp.errors import OptionError
from pyapp.events import Event, Notice
from pyapp.text.generation.options import SamplingOptions

# transformers' names of settings, and those of SamplingOptions.
SAMPLING = {
    "temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "typical_p": "typical_p",
    "repetition_penalty": "repetition_penalty", "no_repeat_ngram_size": "no_repeat_ngram",
    "max_new_tokens": "max_new_tokens",
}  # fmt: skip
RULES = (
    "min_new_tokens", "min_length", "suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "forced_eos_token_id",
)  # fmt: skip
WHOLE = ("top_k", "no_repeat_ngram", "max_new_tokens", "min_new_tokens", "min_length")  # whole numbers


def generation_settings(
    config: Mapping[str, Any], where: str = "generation_config.json", report: Callable[[Event], None] | None = None
) -> dict[str, Any]:
    """The settings of SamplingOptions in a generation_config.json. Values that are out of range are left out, which a
    Notice reports. `"do_sample": false` is a temperature of 0.
    """
    found: dict[str, Any] = {}
    for name, own in (SAMPLING | {rule: rule for rule in RULES}).items():
        value = config.get(name)
        if isinstance(value, list) and name == "forced_eos_token_id":
            value = value[0] if value else None
        if value is None or (name == "top_k" and value == -1):  # all, as vLLM writes it
            continue
        if type(value) is float and value.is_integer() and own in WHOLE:
            value = int(value)
        try:
            SamplingOptions.from_dict({own: value})
        except OptionError as error:
            if report is not None:
                report(Notice(f"{name}: {error.what}", where=where, hint="This setting is left out"))
            continue
        found[own] = value
    if config.get("do_sample") is False:
        found["temperature"] = 0.0
    return found


def with_model_settings(
    options: SamplingOptions, settings: Mapping[str, Any], given: Collection[str] | None = None
) -> SamplingOptions:
    """The options with a model's settings (`generation_settings`) where the caller gave none: `given` are the names of
    those that it gave; None: all, so that only the model's rules are added, where the options have none.
    """
    if not settings:
        return options
    usual = SamplingOptions()
    if given is None:
        given = [name for name in settings if name not in RULES or getattr(options, name) != getattr(usual, name)]
    found = {name: value for name, value in settings.items() if name not in given}
    return replace(options, **found) if found else options
