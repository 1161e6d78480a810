"""The options of text generation, which several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pyapp.cli.grouped import F, combined, option
from pyapp.text.generation.options import CACHE_TYPES, SEEDS, SamplingOptions

DEFAULTS = SamplingOptions()
FILE_LIMIT = 16 << 20  # bytes
CHOICE, REPETITION, ENDING, FORM, SPEED, SEVERAL, DENOISING = (
    "Choice of tokens", "Repetition", "Length and end", "Form of the text", "Speculation", "Several texts",
    "Masked diffusion (LLaDA, Dream)",
)  # fmt: skip
OF_DENOISING = ("steps", "block_length", "remasking", "guidance_scale")  # settings in the setting "denoising"


def own(usual: float) -> str:
    """The default of a setting that a model's generation_config.json may have, in the help."""
    return f"the model's own, else {usual}"


def _of_choice() -> list[Callable[[F], F]]:
    return [
        option(CHOICE, "--temperature", type=click.FloatRange(0, 100), default=DEFAULTS.temperature,
               show_default=own(DEFAULTS.temperature), help="0 takes the most likely token; higher is more random."),
        option(CHOICE, "--top-p", type=click.FloatRange(0, 1), default=DEFAULTS.top_p, show_default=own(DEFAULTS.top_p),
               help="Only the most likely tokens that together have this probability."),
        option(CHOICE, "--top-k", type=click.IntRange(min=0), default=DEFAULTS.top_k,
               help="Only the K most likely tokens. [default: all]"),
        option(CHOICE, "--min-p", type=click.FloatRange(0, 1), default=DEFAULTS.min_p,
               help="Only tokens with this fraction of the highest probability. [default: all]"),
        option(CHOICE, "--typical-p", type=click.FloatRange(0, 1), default=DEFAULTS.typical_p,
               help="Only tokens of typical surprise that together have this probability. [default: all]"),
        option(CHOICE, "--logit-bias", multiple=True, metavar="ID=NUMBER",
               help="Add a number from -100 to 100 to a token's logit; may be given several times."),
        option(CHOICE, "--seed", type=click.IntRange(0, SEEDS - 1),
               help="The same seed gives the same text. [default: random]"),
    ]  # fmt: skip


def _of_repetition() -> list[Callable[[F], F]]:
    return [
        option(REPETITION, "--repetition-penalty", type=click.FloatRange(0.01, 100),
               show_default=own(DEFAULTS.repetition_penalty), default=DEFAULTS.repetition_penalty,
               help="Above 1, tokens that occurred become less likely."),
        option(REPETITION, "--frequency-penalty", type=click.FloatRange(-2, 2), default=DEFAULTS.frequency_penalty,
               show_default=True, help="Lower the logits of tokens of the new text for each time they occurred."),
        option(REPETITION, "--presence-penalty", type=click.FloatRange(-2, 2), default=DEFAULTS.presence_penalty,
               show_default=True, help="Lower the logits of tokens that occurred in the new text."),
        option(REPETITION, "--no-repeat-ngram", "--no-repeat-ngram-size",
               type=click.IntRange(0, 1000), default=DEFAULTS.no_repeat_ngram,
               metavar="N", help="No sequence of N tokens occurs twice. [default: off]"),
    ]  # fmt: skip


def _of_ending(most: int | None) -> list[Callable[[F], F]]:
    return [
        option(ENDING, "-n", "--max-new-tokens", type=click.IntRange(min=1), default=most,
               show_default=most is not None,
               help="The most new tokens." + ("" if most else " [default: until the context is full]")),
        option(ENDING, "--min-new-tokens", type=click.IntRange(min=0), default=0, metavar="N",
               help="Do not end before N tokens. [default: 0]"),
        option(ENDING, "--stop", multiple=True, metavar="TEXT",
               help="End before this text; may be given several times."),
        option(ENDING, "--context", type=click.IntRange(min=1), metavar="N",
               help="Tokens of prompt and text together. [default: the model's, at most 8192]"),
        option(ENDING, "--cache-type", type=click.Choice(list(CACHE_TYPES)), default=DEFAULTS.cache_type,
               show_default=True, help="Type of the cache's keys and values: q8_0 needs a quarter of the memory."),
        option(ENDING, "--rolling", is_flag=True, help="Drop the oldest tokens when the context is full."),
        option(ENDING, "--keep", type=click.IntRange(min=0), default=0, metavar="N",
               help="With --rolling: never drop the first N tokens. [default: 0]"),
    ]  # fmt: skip


def _of_form() -> list[Callable[[F], F]]:
    return [
        option(FORM, "--json-schema", metavar="FILE|JSON", help="Write JSON that fits this schema."),
        option(FORM, "--regex", metavar="REGEX", help="Write a text that matches this from start to end."),
        option(
            FORM, "--choice", multiple=True, metavar="TEXT", help="Write one of these texts; give it several times."
        ),
    ]


def _of_speed() -> list[Callable[[F], F]]:
    return [
        option(SPEED, "--lookup", type=click.IntRange(0, 64), default=DEFAULTS.lookup, metavar="N",
               help="Guess up to N tokens from earlier text: the same text, sooner. [default: off]"),
        option(SPEED, "--draft", metavar="MODEL", help="Guess tokens with this smaller model of the same tokenizer."),
    ]  # fmt: skip


def _of_denoising() -> list[Callable[[F], F]]:
    return [
        option(DENOISING, "--steps", type=click.IntRange(min=1), metavar="N",
               help="Passes of the model; fewer are faster. [default: one for each new token]"),
        option(DENOISING, "--block-length", type=click.IntRange(min=1), metavar="N",
               help="Write in blocks of N tokens. [default: as the model does]"),
        option(DENOISING, "--remasking", metavar="NAME",
               help="Which predictions stay: low_confidence, random, maskgit_plus, topk_margin, entropy or origin. "
               "[default: as the model does]"),
        option(DENOISING, "--guidance-scale", type=click.FloatRange(1, 100), metavar="NUMBER",
               help="Above 1, follow the prompt more closely, in twice the time. [default: 1]"),
    ]  # fmt: skip


def _of_several() -> list[Callable[[F], F]]:
    return [
        option(SEVERAL, "--samples", type=click.IntRange(1, 256), default=DEFAULTS.samples, show_default=True,
               help="The number of texts."),
        option(SEVERAL, "--beams", "--num-beams", type=click.IntRange(1, 256), default=DEFAULTS.beams,
               help="Search for the most likely texts with N beams. [default: off]"),
        option(SEVERAL, "--length-penalty", type=click.FloatRange(-10, 10), default=DEFAULTS.length_penalty,
               show_default=True, help="Above 0, beam search prefers longer texts."),
        option(SEVERAL, "--logprobs", type=click.IntRange(0, 100), metavar="N",
               help="With --json: log-probabilities of each token and of the N likeliest."),
    ]  # fmt: skip


def generation_options(most: int | None, several: bool = True) -> Callable[[F], F]:
    """The options of SamplingOptions; `most` is the default of max_new_tokens."""
    found: list[Callable[[F], F]] = [*_of_ending(most), *_of_choice(), *_of_repetition(), *_of_form(), *_of_speed()]
    found += _of_denoising()
    return combined(*found, *(_of_several() if several else []))


def settings_of(settings: dict[str, Any]) -> dict[str, Any]:
    """The values of generation_options that were given, without `draft`, as SamplingOptions.from_dict takes them: for
    the others the model's own settings may stand.
    """
    source = click.get_current_context().get_parameter_source
    values = {
        name: value
        for name, value in settings.items()
        if name != "draft" and source(name) is not ParameterSource.DEFAULT
    }
    denoising = {name: values.pop(name) for name in OF_DENOISING if name in values}
    if denoising:
        values["denoising"] = denoising
    if "logit_bias" in values:
        values["logit_bias"] = biases(values["logit_bias"])
    if values.get("json_schema") is not None:
        values["json_schema"] = read_schema(values["json_schema"])
    return values


def biases(entries: Sequence[str]) -> dict[str, float]:
    """The numbers of ID=NUMBER by id."""
    try:
        return {token: float(bias) for token, bias in (entry.split("=", 1) for entry in entries)}
    except ValueError:
        raise click.BadParameter("give ID=NUMBER, such as 15=-100.", param_hint="--logit-bias") from None


def read_schema(text: str) -> Any:
    """A JSON schema, given as a text or as the name of a file."""
    try:
        if not text.lstrip().startswith(("{", "true", "false")):
            path = Path(text)
            if path.stat().st_size > FILE_LIMIT:
                raise click.BadParameter(f"{text} has more than {FILE_LIMIT:,} bytes.", param_hint="--json-schema")
            text = path.read_text(encoding="utf-8-sig")
        return json.loads(text)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise click.BadParameter(
            f"{text:.200}: {why}. Give a JSON schema, or its file.", param_hint="--json-schema"
        ) from None
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"no JSON schema: {error!s:.200}", param_hint="--json-schema") from None
