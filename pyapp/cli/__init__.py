"""The command line: forwards the events of pyapp.tasks to a terminal, or as JSON lines.

Exit codes: 0 done, 1 an error (printed on stderr), 2 wrong usage, 130 stopped with Ctrl-C, 141 the reader of the
output closed the pipe.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from pyapp import __version__
from pyapp.cli._index import COMMANDS
from pyapp.cli.grouped import OUTSIDE, SOUNDS, CommandGroup, range_in_words
from pyapp.cli.running import READER_LEFT
from pyapp.cli.streams import open_closed_streams, output_error, quiet_libraries, show_text_only, silence
from pyapp.cli.views import View
from pyapp.interrupts import STOPPED, raise_again


def main() -> None:
    """The entry point `pyapp`."""
    warnings.formatwarning = plain_warning
    sys.exit(run(sys.argv[1:]))


_formatted = warnings.formatwarning


def plain_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning of pyapp's as a note; one of a user's script with its place and line, as Python shows it."""
    if Path(filename).is_relative_to(Path(__file__).parents[1]):
        return f"note: {message}\n"
    return _formatted(message, category, filename, lineno, line)


def run(arguments: Sequence[str]) -> int:
    """Runs one command; returns its exit code."""
    open_closed_streams()
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"  # such a terminal shows the codes of colours
    color = False if plain else None  # None: where someone watches
    with click.Context(cli, color=color):
        code = _run(arguments, color)
    try:
        sys.stderr.flush()
    except OSError:  # a full disk, for which Python would end with 120
        silence(sys.stderr)
    return code


def _run(arguments: Sequence[str], color: bool | None) -> int:
    output = sys.stdout
    try:
        raise_again()
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # characters outside the locale become "?"
                whole = sys.platform == "win32" and not stream.isatty()  # its pipes and files would be in a code page
                stream.reconfigure(errors="replace", encoding="utf-8" if whole else None)
        show_text_only()
        output = sys.stdout
        code = cli.main(args=list(arguments), prog_name="pyapp", standalone_mode=False, color=color)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        shown = explained(error) if isinstance(error, click.UsageError) else error
        with suppress(OSError):  # of a full disk behind standard error
            shown.show()
        return error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        return STOPPED
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and sys.stdout is output:
            raise  # else the reader of click's own help has left, and click has wrapped the stream
        silence(output)
        return READER_LEFT
    except Exception as error:  # before a task could make it an event
        from pyapp.tasks import error_event

        logging.getLogger("pyapp").debug("failed", exc_info=True)
        with suppress(OSError):
            View().show(error_event(output_error(error, output)))
        return 1


def explained(error: click.UsageError) -> click.UsageError:
    """The error in plain words where click names its types, and with the place where what was given belongs."""
    text = original = error.format_message()
    for kind, wanted in (("float", "number"), ("integer", "whole number")):
        text = re.sub(rf"is not a valid {kind}( range)?\.$", f"is not a {wanted}.", text)
    text = OUTSIDE.sub(lambda found: f"it must be {range_in_words(*found.groups()[1:])}, not {found[1]}.", text)
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option):
        text = f"{text.rstrip('.')}: {error.param.help}"
    if error.ctx is not None:
        command = error.ctx.command
        arguments = {parameter.name for parameter in command.params if isinstance(parameter, click.Argument)}
        if getattr(error, "option_name", "") in ("-m", "--model") and arguments & {"model", "models"}:
            text = (
                text.partition(" Did you mean")[0] + f" The model follows the command: {error.ctx.command_path} MODEL."
            )
        elif text.startswith("Got unexpected extra argument") and any("-p" in p.opts for p in command.params):
            text += ": the prompt follows -p."
    return error if text == original else click.UsageError(text, error.ctx)


@click.group(
    cls=CommandGroup, index=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="pyapp")
@click.option("-v", "--verbose", is_flag=True, help="Show tracebacks and log messages.")
def cli(verbose: bool) -> None:
    """Models of texts, pictures, speech and numbers: run, convert, train and serve them."""
    context = click.get_current_context()
    if not verbose and context.invoked_subcommand in COMMANDS[SOUNDS]:
        context.with_resource(quiet_libraries())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, format="%(name)s: %(message)s")
