"""`pyapp models`, `pyapp inspect` and `pyapp quantize`: models and their files."""

from __future__ import annotations

import click

from pyapp import tasks
from pyapp.cli.grouped import MODELS, command
from pyapp.cli.options import json_option
from pyapp.cli.running import forward
from pyapp.cli.views import InspectView, JsonView, ModelsView, QuantizeView


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
    config.json, or of llama2.c, becomes a GGUF file that llama.cpp reads. OUT ends in .gguf or .safetensors (whose
    blocks only pyapp reads). A mixture gives some matrices more bits, as in llama.cpp. Norms, biases and other small
    tensors are not converted.
    """
    return forward(
        lambda cancel: tasks.quantize(source, target, kind, imatrix=imatrix, keep=keep, cancel=cancel),
        JsonView() if as_json else QuantizeView(),
    )


__commands__ = {MODELS: (models, inspect, quantize)}
