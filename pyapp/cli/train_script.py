"""`pyapp train SCRIPT.py` and `pyapp train SETTINGS.toml`: the user's scripts, and commands with settings of a file."""

from __future__ import annotations

import runpy
import sys
import tomllib
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from pyapp.cli.finetune import finetune
from pyapp.cli.grouped import GroupedCommand, command
from pyapp.cli.options import device_of, threads_option
from pyapp.cli.streams import output_of_scripts
from pyapp.cli.views import View
from pyapp.errors import FileFormatError, PyappError
from pyapp.interrupts import STOPPED
from pyapp.text.generation.options import SEEDS

FILE_LIMIT = 1 << 20  # bytes of a file of settings


class TrainGroup(click.Group):
    """Commands by name, and scripts and files of settings by path."""

    command_class = GroupedCommand

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name.endswith(".toml"):
            return _settings_command(Path(cmd_name), ctx)
        if cmd_name.endswith(".py"):
            return _script_command(Path(cmd_name))
        found = super().get_command(ctx, cmd_name)
        if found is None and Path(cmd_name).exists():
            raise click.UsageError(
                f"{cmd_name} is neither a script (.py) nor settings (.toml); `pyapp finetune MODEL {cmd_name} -o OUT` "
                "trains a model on your own data", ctx,
            )  # fmt: skip
        if found is None and not cmd_name.startswith("-"):
            known = ", ".join(sorted(self.commands))
            raise click.UsageError(f"{cmd_name} is no model that can be trained: give {known}, a script (.py) or "
                                   "settings (.toml).", ctx)  # fmt: skip
        return found

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "COMMAND | SCRIPT.py | SETTINGS.toml [OPTIONS]")


def _script_command(path: Path) -> click.Command:
    @command(
        path.name,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
        help=f"Run {path}, with the options as its run (pyapp.train.script.current_run) and the ARGUMENTS as its own.",
    )
    @click.option("-o", "--out-dir", "--output-dir",
                  type=click.Path(file_okay=False, path_type=Path), default=Path("runs") / path.stem,
                  show_default=True, help="The folder for checkpoint, loss curve and results.")  # fmt: skip
    @click.option("--resume/--no-resume", default=True, help="Continue a run that was interrupted. [default: resume]")
    @click.option("--device", default="cpu", callback=device_of, show_default=True,
                  help="Where to train: run.device of the script.")  # fmt: skip
    @click.option("--seed", type=click.IntRange(0, SEEDS - 1), default=1, show_default=True)
    @threads_option
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def script(out_dir: Path, resume: bool, device: str, seed: int, arguments: Sequence[str]) -> int:
        return run_script(path, arguments, out_dir, resume, device, seed)

    return script


def run_script(path: Path, arguments: Sequence[str], folder: Path, resume: bool, device: str, seed: int) -> int:
    """Runs a script; returns the exit code: 0, its own, 1 for an error, 130 after Ctrl-C."""
    from pyapp.train.script import Run, running

    if not path.is_file():
        raise click.UsageError(f"There is no file {path}.")
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:0] = [str(path), *arguments], [str(path.resolve().parent)]
    run = Run(folder, resume=resume, device=device, seed=seed)
    try:
        with running(run), redirect_stdout(output_of_scripts()):
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        click.echo(left.code, err=True)
        return 1
    except KeyboardInterrupt:
        click.echo(f"stopped{run.advice()}", err=True)
        return STOPPED
    except PyappError as error:
        from pyapp.tasks import error_event

        View().show(error_event(error))
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _settings_command(path: Path, ctx: click.Context) -> click.Command:
    """The command that a file of settings names, which gets its settings before the options of the command line."""
    command, settings = read_settings(path, ctx)

    @click.command(path.name, context_settings={"ignore_unknown_options": True}, add_help_option=False)
    @click.argument("options", nargs=-1, type=click.UNPROCESSED)
    def run(options: Sequence[str]) -> Any:
        given = [*settings, *options]
        with command.make_context(command.name, given, parent=ctx) as inner:
            return command.invoke(inner)

    return run


def read_settings(path: Path, ctx: click.Context) -> tuple[click.Command, list[str]]:
    """The command of a file of settings, and its arguments. FileFormatError for a file that is not valid."""
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise FileFormatError(f"the file has more than {FILE_LIMIT:,} bytes", where=str(path))
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise click.UsageError(f"There is no file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"not valid TOML: {error}", where=str(path)) from None
    name = values.pop("command", None)
    command = _named(name, path, ctx) if isinstance(name, str) else None
    if command is None:
        raise FileFormatError(
            "it does not say which command to run", where=str(path),
            hint='Write command = "finetune", "story", "speech" or the path of a script',
        )  # fmt: skip
    return command, _arguments(command, values, path)


def _named(name: str, path: Path, ctx: click.Context) -> click.Command | None:
    if name.endswith(".py"):
        return _script_command(path.parent / name)
    if name == finetune.name:
        return finetune
    group = ctx.command
    return group.commands.get(name) if isinstance(group, click.Group) else None


def _arguments(command: click.Command, values: dict[str, Any], path: Path) -> list[str]:
    """The values as the arguments of a command line. FileFormatError for a name that the command does not have."""
    options: list[str] = []
    arguments: list[str] = []
    known = {name.lstrip("-"): (p, name) for p in command.params for name in (*p.opts, *p.secondary_opts)}
    order = [parameter.name for parameter in command.params if isinstance(parameter, click.Argument)]
    positional: dict[str, list[str]] = {}
    for name, value in values.items():
        spelled = name.replace("_", "-")
        parameter, written = known.get(spelled) or known.get(name) or (None, "")
        if parameter is None:
            names = sorted(name for name in known if len(name) > 1 and name != "help")
            raise FileFormatError(f"unknown setting {name!r}", where=str(path), hint=f"Known: {', '.join(names)}")
        if isinstance(parameter, click.Argument):
            positional[str(parameter.name)] = [str(v) for v in value] if isinstance(value, list) else [str(value)]
        elif isinstance(value, bool):
            options += [written] if value else [f"--no-{spelled}"] if parameter.secondary_opts else []
        else:
            options += [written, ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    for wanted in order:
        arguments += positional.get(str(wanted), [])
    return [*options, *arguments]
