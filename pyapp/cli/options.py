"""The options that many commands share: the device, threads, types, adapters, a server."""

from __future__ import annotations

import os
import re

import click

from pyapp import tasks
from pyapp.cli.grouped import F
from pyapp.engine.device import as_device


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
