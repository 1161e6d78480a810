"""Commands and options of the command line in groups, and the options of generation, which several commands share."""

from __future__ import annotations

import difflib
import functools
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from pyapp.text.generation.options import CACHE_TYPES, SEEDS, SamplingOptions

DEFAULTS = SamplingOptions()
FILE_LIMIT = 16 << 20  # bytes
F = TypeVar("F", bound=Callable[..., Any])
# What commands are about, in the order of the help. A module says it of its commands in `__commands__`.
SUBJECTS = TEXTS, PICTURES, PAGES, SOUNDS, NUMBERS, MODELS, TRAINING, SERVERS = (
    "Texts", "Pictures and videos", "Pages of documents", "Speech, sound and music", "Numbers", "Models and files",
    "Training", "Servers",
)  # fmt: skip


class GroupedOption(click.Option):
    """An option that the help shows under the heading `group`."""

    def __init__(self, *names: Any, group: str = "Options", **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.group = group


NUMBER = r"-?[\d.]+"
RANGE = rf"(?:({NUMBER})(<=?))?x(?:([<>]=?)({NUMBER}))?"  # as click writes it
IN_HELP = re.compile(rf"(?<=[\[ ]){RANGE}(?=\]$)")
OUTSIDE = re.compile(rf"(\S+) is not in the range {RANGE}\.$")
LARGEST = 1e18  # bounds above say nothing to a reader
BRACKETS = re.compile(r"\[default: \(([^()]*)\)")  # as click puts them around a default in words
ENDS = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}


def range_in_words(low: str | None, open_low: str, sign: str | None, bound: str | None) -> str:
    """The groups of RANGE in words, such as "at least 1"."""
    if bound is not None and float(bound) >= LARGEST:
        sign = bound = None
    if low is None:
        return f"{ENDS[str(sign)]} {bound}"
    if open_low == "<=" and sign == "<=":
        return f"from {low} to {bound}"
    start = f"{ENDS['>' if open_low == '<' else '>=']} {low}"
    return start if bound is None else f"{start} and {ENDS[str(sign)]} {bound}"


def in_words(record: tuple[str, str]) -> tuple[str, str]:
    """An option's line of the help, with the kind, the range and the default of its number in words."""
    names, text = record
    text = IN_HELP.sub(lambda found: range_in_words(*found.groups()), text)
    return re.sub("(INTEGER|FLOAT)( RANGE)?", "NUMBER", names), BRACKETS.sub(r"[default: \1", text)


class GroupedCommand(click.Command):
    """A command whose help shows the options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                groups.setdefault(getattr(parameter, "group", "Options"), []).append(in_words(record))
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


class CommandGroup(click.Group):
    """Commands with such a help, which the group's own help shows by subjects. A command's module is imported when the
    command is asked for: `index` says by subject which module of pyapp.cli has it, and under which name.
    """

    command_class = GroupedCommand

    def __init__(self, *arguments: Any, index: Mapping[str, Mapping[str, str]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.index = index

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for names in self.index.values() for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for names in self.index.values():
            if cmd_name in names and cmd_name not in self.commands:
                module, _, attribute = names[cmd_name].partition(".")
                self.add_command(getattr(importlib.import_module(f"pyapp.cli.{module}"), attribute))
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), 1)
            if not near or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(ctx)))
        limit = formatter.width - 6 - width
        for subject, names in self.index.items():
            found = [self.get_command(ctx, name) for name in names]
            with formatter.section(subject):
                formatter.write_dl(
                    [(str(one.name).ljust(width), one.get_short_help_str(limit)) for one in found if one is not None]
                )


command = functools.partial(click.command, cls=GroupedCommand)


def option(group: str, *names: str, **settings: Any) -> Callable[[F], F]:
    return click.option(*names, cls=GroupedOption, group=group, **settings)


def combined(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; the help shows them in this order."""
    return lambda function: functools.reduce(lambda decorated, option: option(decorated), reversed(options), function)


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
