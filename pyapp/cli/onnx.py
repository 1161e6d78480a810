"""pyapp run-onnx: runs an ONNX model over files of arrays; pyapp export-onnx: writes a model as ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import click

from pyapp.cli.grouped import MODELS, NUMBERS, command
from pyapp.cli.options import WHERE, device_of, json_option, threads_option
from pyapp.cli.running import forward
from pyapp.cli.views import JsonView, QuantizeView, View, size
from pyapp.events import Done, Event, Item, Metric


class OutputsView(View):
    """A line for each output, then the time."""

    def show(self, event: Event) -> None:
        super().show(event)
        if isinstance(event, Item):
            self._output(event.values)
        elif isinstance(event, Metric):
            click.echo(f"{event.value:.1f} {event.unit}", err=True)

    def _output(self, values: Mapping[str, Any]) -> None:
        shape = " × ".join(map(str, values["shape"])) or "scalar"
        numbers = ", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in values["first"])
        total = prod(values["shape"])
        click.echo(
            f"{values['output']}: {values['dtype']} {shape}: {numbers}{' …' if total > len(values['first']) else ''}"
        )

    def done(self, event: Done) -> None:
        if event.results.get("file"):
            click.echo(f"written to {event.results['file']}", err=True)


@command("run-onnx", short_help="Run an ONNX model over arrays.")
@click.argument("file", type=click.Path())
@click.option("-i", "--input", "inputs", multiple=True, metavar="[NAME=]FILE",
              help="An .npy file, in the order of the inputs or by name; or an .npz file of several.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the outputs to this .npz file.")
@click.option("--repeats", type=click.IntRange(1, 10_000), default=1, show_default=True,
              help="Run several times; the time is that of the fastest run.")  # fmt: skip
@click.option("--device", metavar="DEVICE", callback=device_of, help=WHERE)
@threads_option
@json_option
def run_onnx(
    file: str, inputs: tuple[str, ...], output: str | None, repeats: int, device: str | None, as_json: bool
) -> int:
    """Run the ONNX model FILE over arrays, and print its outputs."""
    from pyapp.tasks import onnx

    plain: list[Any] = []
    named: dict[str, Any] = {}
    for entry in inputs:
        name, sign, path = entry.partition("=")
        if sign:
            named[name] = path
        else:
            plain.append(entry)
    return forward(
        lambda cancel: onnx.run_onnx(
            file, plain, named=named, output=output, repeats=repeats, device=device, cancel=cancel
        ),
        JsonView() if as_json else OutputsView(),
    )


class ExportView(QuantizeView):
    """Says what was written."""

    def done(self, event: Done) -> None:
        if event.reason == "complete":
            results = event.results
            click.echo(f"{', '.join(results['files'])}: {size(results['size'])}, for {results['task']}")


@command("export-onnx", short_help="Write a model as ONNX.")
@click.argument("model")
@click.argument("out", type=click.Path(file_okay=False))
@click.option("--task", metavar="TASK",
              help="features, masked-lm, sequence-classification, token-classification, question-answering, causal-lm, "
                   "seq2seq-lm, speech-recognition, image-classification or image-features. [default: what config.json "
                   "says]")  # fmt: skip
@click.option("--opset", type=click.IntRange(17, 23), help="The opset of ONNX. [default: 20]")
@click.option("-t", "--type", "dtype", metavar="TYPE", default="float32", show_default=True,
              help="Of the weights: float32, float16, bfloat16, or q8_0 or q4_0 for onnxruntime, in blocks of 8 or 4 "
                   "bits.")  # fmt: skip
@json_option
def export_onnx(model: str, out: str, task: str | None, opset: int | None, dtype: str, as_json: bool) -> int:
    """Write MODEL, an encoder, a classifier, a language model, a translator or Whisper, into the folder OUT: as
    model.onnx, or as encoder_model.onnx and decoder_model_merged.onnx, with config.json and the tokenizer. They take
    batches and texts of any size, and each is run beside the model. Optimum, transformers.js and sentence-transformers
    read such folders.
    """
    from pyapp.tasks import onnx

    return forward(
        lambda cancel: onnx.export_onnx(model, out, task=task, dtype=dtype, opset_version=opset, cancel=cancel),
        JsonView() if as_json else ExportView(),
    )


__commands__ = {NUMBERS: (run_onnx,), MODELS: (export_onnx,)}
