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
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from pyapp import __version__, tasks
from pyapp.cli import forecasting, pages, pictures, sounds, texts
from pyapp.cli.chat import chat
from pyapp.cli.finetune import finetune, merge
from pyapp.cli.grouped import DEFAULTS, CommandGroup, combined, command, generation_options, settings_of
from pyapp.cli.imagine import imagine
from pyapp.cli.onnx import export_onnx, run_onnx
from pyapp.cli.processes import run as run_processes
from pyapp.cli.read import read
from pyapp.cli.running import (
    READER_LEFT,
    WORDS,
    adapter_option,
    device_option,
    forward,
    json_option,
    model_or_server,
    open_closed_streams,
    output_error,
    projector_option,
    server_option,
    show_text_only,
    silence,
    threads_option,
)
from pyapp.cli.serve import serve
from pyapp.cli.speak import speak
from pyapp.cli.together import run_together, tensor_parallel_option
from pyapp.cli.train_script import TrainGroup
from pyapp.cli.transcribe import transcribe
from pyapp.cli.views import (
    InspectView,
    JsonView,
    ModelsView,
    QuantizeView,
    ReaderTrainView,
    SeveralView,
    SpeechTrainView,
    StoryView,
    TrainView,
    View,
)
from pyapp.events import Event
from pyapp.interrupts import STOPPED, raise_again
from pyapp.text.generation.options import SEEDS

PROMPT_LIMIT = 16 << 20  # bytes


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
    color = False if os.environ.get("NO_COLOR") else None  # None: where someone watches
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


def read_prompt(prompt: str) -> str:
    """The prompt as text; "-" reads it from stdin, without its last line break."""
    if prompt == "-":
        if sys.stdin is None:
            raise click.BadParameter("stdin is closed: pipe the prompt in.", param_hint="--prompt")
        try:
            data = sys.stdin.buffer.read(PROMPT_LIMIT + 1)
            if len(data) > PROMPT_LIMIT:
                raise click.BadParameter(f"stdin has more than {PROMPT_LIMIT:,} bytes.", param_hint="--prompt")
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise click.BadParameter(
                f"stdin is not UTF-8 text ({error.reason} at byte {error.start}).", param_hint="--prompt"
            ) from None
        return text.removesuffix("\n").removesuffix("\r")
    return prompt


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pyapp")
@click.option("-v", "--verbose", is_flag=True, help="Show tracebacks and log messages.")
def cli(verbose: bool) -> None:
    """Models of texts, pictures, speech and numbers: run, convert, train and serve them."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, format="%(name)s: %(message)s")


@command()
@click.argument("model", required=False)
@click.option("-p", "--prompt", default="", type=WORDS, help='How the text begins; "-" reads it from stdin.')
@click.option("--tokenizer", metavar="FILE", help="The model's tokenizer, if it is not beside the model.")
@click.option("--type", "dtype", metavar="TYPE", help="Convert the model while it loads: q8_0, q4_0, Q4_K_M, float16 …")
@click.option("--image", "images", type=click.Path(exists=True, dir_okay=False), multiple=True,
              help="A picture for a model that sees: it stands where the prompt has the model's placeholder "
              "(<image> …), else before the prompt; may be given again.")  # fmt: skip
@adapter_option
@projector_option
@server_option
@click.option("--echo/--no-echo", default=True, help="Print the prompt before its continuation.  [default: echo]")
@click.option("--eager", is_flag=True, help="Run op by op, without the recorded graph.")
@device_option
@threads_option
@tensor_parallel_option
@json_option
@generation_options(DEFAULTS.max_new_tokens)
def generate(
    model: str | None,
    prompt: str,
    tokenizer: str | None,
    dtype: str | None,
    images: tuple[str, ...],
    adapter: str | None,
    projector: str | None,
    server: str | None,
    echo: bool,
    eager: bool,
    draft: str | None,
    processes: int,
    as_json: bool,
    **settings: Any,
) -> int:
    """Write a text, token by token.

    MODEL is an embedded model's name, a file, a folder, or a name on the hub such as
    karpathy/tinyllamas:stories15M.bin; by default the embedded story model.
    """
    from pyapp.tasks.keeper import known

    if server is not None and processes > 1:
        raise click.UsageError("--tensor-parallel and --server exclude each other.")
    options = settings_of(settings)

    def write(leader: Any) -> int:
        text = read_prompt(prompt)
        several = max(options.get("samples", 1), options.get("beams", 1)) > 1
        plain: View = SeveralView(text if echo else "") if several else StoryView(text if echo else "")
        chosen = model_or_server(model, server)
        more = {"tokenizer": tokenizer, "dtype": dtype, "adapter": adapter, "projector": projector}
        if leader is not None:
            chosen, more = leader.load(known(model, "generate"), **more), {}
        return forward(
            lambda cancel: tasks.generate(
                chosen, text, options, draft=draft, eager=eager, pictures=images, cancel=cancel, **more
            ),
            JsonView() if as_json else plain,
        )

    return run_together(processes, write)


@command(short_help="List the named models and the known architectures.")
@json_option
def models(as_json: bool) -> int:
    """List the named models, and the architectures that can be loaded from folders and from the hub."""
    return forward(lambda cancel: tasks.models(), JsonView() if as_json else ModelsView())


@command(short_help="Print what a model file or folder has in it.")
@click.argument("file", metavar="MODEL", type=click.Path())
@json_option
def inspect(file: str, as_json: bool) -> int:
    """Print the content of a model file, a folder or a named model: its configuration, metadata, and tensors."""
    return forward(lambda cancel: tasks.inspect(file, cancel=cancel), JsonView() if as_json else InspectView())


@command()
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("target", metavar="OUT", type=click.Path(dir_okay=False))
@click.option("-t", "--type", "kind", required=True, metavar="TYPE",
              help="q8_0, q4_K …, f16, bf16, f32, or a mixture of llama.cpp: Q4_K_M, Q5_K_M, Q2_K, Q4_0 …")  # fmt: skip
@click.option(
    "--imatrix", type=click.Path(), help="How much each column counts: a file that llama.cpp's llama-imatrix made."
)
@click.option("--keep", metavar="REGEX", help="Do not convert tensors whose names match this.")
@json_option
def quantize(source: str, target: str, kind: str, imatrix: str | None, keep: str | None, as_json: bool) -> int:
    """Convert the model file IN to another type.

    IN may be a folder, the name of a model, safetensors, GGUF, llama2.c, NumPy or PyTorch; a language model with its
    config.json becomes a GGUF file that llama.cpp reads. OUT ends in .gguf or .safetensors (whose blocks only pyapp
    reads). A mixture gives some matrices more bits, as in llama.cpp. Norms, biases and other small tensors are not
    converted.
    """
    return forward(
        lambda cancel: tasks.quantize(source, target, kind, imatrix=imatrix, keep=keep, cancel=cancel),
        JsonView() if as_json else QuantizeView(),
    )


@click.group(cls=TrainGroup)
def train() -> None:
    """Train a model: a named one, or by your own script.

    `pyapp train SCRIPT.py [ARGUMENTS]` runs a script; `pyapp train SETTINGS.toml` runs a command with the settings of a
    file. `pyapp finetune` trains a language model further.
    """


def training_options(
    folder: str, parts: str = "the model, its tokenizer, the loss curve and the checkpoint"
) -> Callable[[Any], Any]:
    """The options of the commands that train a model from scratch, in a folder of runs/."""
    return combined(
        click.option("-o", "--out-dir", type=click.Path(file_okay=False, path_type=Path), default=Path("runs") / folder,
                     show_default=True, help=f"The folder for {parts}."),
        click.option("--steps", type=click.IntRange(min=1),
                     help="Optimiser steps. [default: those of the embedded model]"),
        click.option("--seed", type=click.IntRange(0, SEEDS - 1), help="The same seed gives the same model."),
        click.option("--resume/--no-resume", default=True,
                     help="Continue a run that was interrupted. [default: resume]"),
        threads_option, json_option,
    )  # fmt: skip


def run_training(
    task: Callable[..., AsyncIterator[Event]], view: View, out_dir: Path, resume: bool,
    as_json: bool, **settings: Any,
) -> int:  # fmt: skip
    """Trains a model from scratch, with the values of `training_options`."""
    given = {name: value for name, value in settings.items() if value is not None}
    train = lambda cancel: task(out_dir, resume=resume, cancel=cancel, **given)  # noqa: E731
    return forward(train, JsonView() if as_json else view, keeps_state=True)


@train.command(short_help="Train the small story model from scratch.")
@training_options("story")
def story(**settings: Any) -> int:
    """Train the small story model from scratch: makes its stories, its tokenizer and its weights.

    Ctrl-C writes a checkpoint; the same command continues from it. The same seed gives the same model.
    """
    return run_training(tasks.train_story, TrainView(), **settings)


@train.command(short_help="Train the small speech model from scratch.")
@training_options("speech")
def speech(**settings: Any) -> int:
    """Train the small speech model from scratch: makes its sentences, speaks them with espeak-ng, trains its weights.

    Needs the program espeak-ng. Ctrl-C writes a checkpoint; the same command continues from it. The same seed gives
    the same model with the same version of espeak-ng.
    """
    return run_training(tasks.train_speech, SpeechTrainView(), **settings)


@train.command("reader", short_help="Train the small reader of printed lines from scratch.")
@training_options("reader", "the model, the loss curve and the checkpoint")
def train_reader(**settings: Any) -> int:
    """Train the small reader of printed lines from scratch: writes texts, prints them with the installed fonts, trains
    its weights.

    Needs fontconfig, fonts and word lists (docs/reader.md lists Debian's packages). Ctrl-C writes a checkpoint; the
    same command continues from it. The same seed gives the same model with the same fonts.
    """
    return run_training(tasks.train_reader, ReaderTrainView(), **settings)


cli.add("Texts", generate, chat, *texts.COMMANDS)
cli.add("Pictures and videos", imagine, *pictures.COMMANDS)
cli.add("Pages of documents", read, *pages.COMMANDS)
cli.add("Speech, sound and music", transcribe, speak, *sounds.COMMANDS)
cli.add("Numbers", *forecasting.COMMANDS, run_onnx)
cli.add("Models and files", models, inspect, quantize, merge, export_onnx)
cli.add("Training", finetune, train, run_processes)
cli.add("Servers", serve)
