"""Commands and options of the command line in groups, as the help shows them."""

from __future__ import annotations

import difflib
import functools
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

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
