"""Shared by the commands: showing events, Ctrl-C, closed pipes, common options."""

from __future__ import annotations

import asyncio
import io
import os
import re
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

import click

from pyapp import tasks
from pyapp.cli.views import ItemsView, JsonView, View, plain
from pyapp.engine.device import as_device
from pyapp.errors import NO_ROOM, PyappError
from pyapp.events import Cancel
from pyapp.interrupts import STOPPED

READER_LEFT = 141
ASCII = ("ascii", "us-ascii", "ansi_x3.4-1968")
WAIT = 0.1  # seconds between two looks at Ctrl-C while stdin brings nothing


class Words(click.ParamType):
    """A text, no path: in a locale without UTF-8, Python gives its bytes as halves of surrogate pairs."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            data = os.fsencode(value)
            return data.decode()
        except UnicodeDecodeError as error:
            at = len(data[: error.start].decode())
        except UnicodeEncodeError as error:
            at = error.start
        self.fail(f"not valid text at character {at}.", param, ctx)


WORDS = Words()
F = TypeVar("F", bound=Callable[..., Any])
adapter_option = click.option(
    "--adapter", metavar="FOLDER", type=click.Path(exists=True, file_okay=False),
    help="A LoRA adapter of the model, as pyapp finetune and peft write it.",
)  # fmt: skip
projector_option = click.option(
    "--projector", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
    help="The vision projector (mmproj-….gguf) of a model in a GGUF file, if it is not beside the model.",
)  # fmt: skip
server_option = click.option(
    "--server", metavar="URL",
    help="Ask this server, such as pyapp serve, instead of computing here; MODEL is its name there. A key comes from "
    "the variable PYAPP_API_KEY.",
)  # fmt: skip


def device_of(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """The value of an option --device. Wrong usage where there is no such device: it says what is missing."""
    if name is not None:
        try:
            as_device(name)
        except ValueError as error:
            # Of torch's message, which lists devices that pyapp has not, only what there is.
            said = re.sub("^Expected one of .*(?=there is no device)", "", str(error).removeprefix("device: "))
            raise click.BadParameter(said) from error
    return name


def _choose_device(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    from pyapp.tasks.keeper import keeper

    keeper.device = None if device_of(context, parameter, name) == "cpu" else name


WHERE = "Where the model computes: cpu, cuda (NVIDIA's card), cuda:1 … [default: cpu]"
device_option = click.option(
    "--device", metavar="DEVICE", callback=_choose_device, expose_value=False, help=WHERE
)  # fmt: skip


def _set_threads(context: click.Context, parameter: click.Parameter, threads: int | None) -> None:
    if threads is not None:
        tasks.set_threads(threads)


threads_option = click.option(
    "--threads", type=click.IntRange(1, 64), callback=_set_threads, expose_value=False,
    help="Threads that compute. [default: PYAPP_NUM_THREADS, else OMP_NUM_THREADS, else all cores]",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON event per line.")
type_option = click.option("-t", "--type", "dtype", metavar="TYPE", help="Convert the weights: q8_0, q4_0, float16 …")


def usual_options(command: F) -> F:
    """The options --type, --device, --threads and --json."""
    return type_option(device_option(threads_option(json_option(command))))


def open_closed_streams() -> None:
    """Connects standard streams that the caller closed (`>&-`) to the null device. Otherwise the next opened file would
    get the stream's number and be written to. A closed stdin stays None, which commands check; where the locale says
    nothing of its encoding, it is UTF-8, as are pipes and files on Windows.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    unknown = getattr(sys.stdin, "encoding", "").lower() in ASCII
    if isinstance(sys.stdin, io.TextIOWrapper) and (unknown or (sys.platform == "win32" and not sys.stdin.isatty())):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)


class PlainText(io.TextIOWrapper):
    """A terminal that shows text only. Models and files may have any characters in their texts and names, and control
    characters could do anything to a terminal: each is shown as U+FFFD.
    """

    def __init__(self, original: io.TextIOWrapper) -> None:
        super().__init__(original.buffer, original.encoding, "replace", line_buffering=True)
        self.original = original

    def write(self, text: str) -> int:
        return super().write(plain(text))


def show_text_only() -> None:
    """Makes standard output a PlainText where someone watches."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout = PlainText(sys.stdout)


def output_of_scripts() -> Any:
    """Standard output as scripts of the user's own have it: they may colour it."""
    return sys.stdout.original if isinstance(sys.stdout, PlainText) else sys.stdout


def silence(stream: TextIO) -> None:
    """Redirects a stream to the null device, so that flushing its buffer at exit does not fail a second time."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):  # not a file of the system
        pass


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Within it, what C libraries print on standard error, as libsndfile's decoders do about damaged recordings, goes
    to the null device; pyapp says what is wrong in words of its own. Python's standard error is where it was.
    """
    sys.stderr.flush()
    before = sys.stderr
    try:
        own, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # closed, or too many files are open
        yield
        return
    if _number_of(before) == 2:
        sys.stderr = open(own, "w", buffering=1, encoding=before.encoding, errors=before.errors, closefd=False)
    os.dup2(null, 2)
    try:
        yield
    finally:
        if sys.stderr is not before:
            with suppress(OSError):  # of a full disk behind it
                sys.stderr.flush()
            sys.stderr = before
        os.dup2(own, 2)
        os.close(own)
        os.close(null)


def _number_of(stream: Any) -> int | None:
    """The number of the file behind a stream; None: there is none."""
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def output_error(error: Exception, stream: TextIO) -> Exception:
    """The error to show: where `error` is of a write to standard output (`stream`), one that says so. What is left for
    the stream is given up then, so that it does not fail a second time at exit.
    """
    if not isinstance(error, OSError) or error.filename is not None:
        return error
    lost = error if error.errno in NO_ROOM else None  # files have names
    try:
        stream.flush()
    except OSError as failed:
        silence(stream)
        lost = failed
    if lost is None:
        return error
    hint = "Free some space, or send the output to another place"
    return PyappError((lost.strerror or str(lost)).lower(), where="standard output", hint=hint)


class _Stdin(io.RawIOBase):
    """The bytes of stdin. A read that waits ends with Cancelled once `cancel` is set."""

    name = "<stdin>"

    def __init__(self, number: int, cancel: Cancel) -> None:
        self._number, self._cancel = number, cancel

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not select.select([self._number], [], [], WAIT)[0]:
            self._cancel.check()
        data = os.read(self._number, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def stdin_until(cancel: Cancel) -> BinaryIO:
    """Stdin for a task, which reads it in a thread: Ctrl-C ends a read that waits for bytes."""
    try:
        number = sys.stdin.fileno() if os.name == "posix" else None  # elsewhere select takes only sockets
    except (OSError, ValueError):  # not a file of the system
        number = None
    return sys.stdin.buffer if number is None else io.BufferedReader(_Stdin(number, cancel))


def check_folder_of(path: Path, wrong: Callable[[str], Exception]) -> None:
    """Wrong usage before minutes of work whose result could not be written."""
    if not path.parent.is_dir():
        raise wrong(f"there is no folder {str(path.parent)!r} to write to.")
    special = path.exists() and not path.is_file()  # a device or a pipe, which no new file replaces
    if not os.access(path if special else path.parent, os.W_OK):
        raise wrong(f"{str(path)!r} cannot be written to: take another folder, or change its access rights.")


def forward(start: Callable[..., Any], view: View, *, keeps_state: bool = False) -> int:
    """Shows every event of the task start(cancel=…); returns the exit code. keeps_state is set_by_interrupt's."""

    async def show_all() -> None:
        async for event in start(cancel=cancel):
            view.show(event)

    cancel = Cancel()
    try:
        with cancel.set_by_interrupt(keeps_state=keeps_state):
            asyncio.run(show_all())
    except BrokenPipeError:  # click would call this a plain error
        silence(sys.stdout)
        return READER_LEFT
    finally:
        view.close()
    return {"error": 1, "cancelled": STOPPED}.get(view.outcome, 0)


def forward_items(start: Callable[..., Any], as_json: bool, lines: Callable[[int, Any], Sequence[str]]) -> int:
    """As forward, of a task that yields Items: shows the lines of each, by its index and values, or JSON."""
    return forward(start, JsonView() if as_json else ItemsView(lines))


def refuse_a_text(model: str | None, hint: str) -> None:
    """Wrong usage, with a hint, where a text stands in the place of a model's name."""
    if model is not None and len(model.split()) > 1 and not Path(model).exists():
        raise click.UsageError(f"{model!r:.80} is no model's name. {hint}")


def model_or_server(model: str | None, server: str | None) -> Any:
    """What the tasks take as `model`: the name, or the server's model of this name."""
    if server is None:
        return model
    from pyapp.serve.client import Server

    return Server(server, model=model)
