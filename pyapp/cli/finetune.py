"""`pyapp finetune` and `pyapp merge`: training a model further, and writing one with its adapter inside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pyapp import tasks
from pyapp.cli.grouped import MODELS, TRAINING, command, option
from pyapp.cli.options import device_of, json_option, threads_option
from pyapp.cli.running import forward
from pyapp.cli.together import hosts_option, processes_option, shard_option, train_together
from pyapp.cli.views import JsonView, QuantizeView, SilentView, TrainView, View, plain, size
from pyapp.events import Done, Event, Item
from pyapp.text.generation.options import SEEDS

TRAINED, STEPS, SOUND = "What is trained", "Steps", "Recordings"
PAIRS, MEMORY = "Judged answers", "Memory"

# By the task of a model that is trained whole, or the unit of a loss of preferences.
RIGHT = {
    "nats/pair": "pairs, {:.0%} are the right way round", "per answer": "answers, {:.0%} are judged rightly",
    "sequence-classification": "texts, {:.0%} are right", "token-classification": "words, {:.0%} are right",
    "features": "texts, {:.0%} find their own", "image-classification": "pictures, {:.0%} are right",
    "speech-recognition": "tokens, {:.0%} are right", "audio-classification": "recordings, {:.0%} are right",
}  # fmt: skip
TRIES = {
    "sequence-classification": "pyapp classify TEXTS -m {}", "token-classification": "pyapp label TEXTS -m {}",
    "features": "pyapp embed TEXTS -m {}", "image-classification": "pyapp classify-image PICTURES -m {}",
    "speech-recognition": "pyapp transcribe RECORDING --model {}",
    "audio-classification": "pyapp classify-sound RECORDINGS -m {}",
}  # fmt: skip


class FinetuneView(TrainView):
    """The bar with losses, samples, and how to use the result."""

    def __init__(self, model: str, folder: Path) -> None:
        super().__init__()
        self._model, self._folder = model, folder

    def show(self, event: Event) -> None:
        if isinstance(event, Item):
            self.close()
            text = f"{event.values['prompt'].strip()} → {event.values['text'].strip()}"
            click.secho(plain(f"step {event.index}: {' '.join(text.split())}"), dim=True, err=True)
            return
        super().show(event)

    def done(self, event: Done) -> None:
        super().done(event)
        if event.reason == "cancelled" and "step" in event.results:
            click.echo(f"{self._folder} keeps the state of this step", err=True)

    def results(self, results: Mapping[str, Any]) -> None:
        steps = f"{results['steps']:,} step{'s' * (results['steps'] != 1)}"
        click.echo(f"{results['folder']}: {results['parameters']:,} trained parameters, {steps}")
        if "held_out_loss" in results:
            before, after = results["held_out_loss_before"], results["held_out_loss"]
            unit = results.get("unit", "nats/token").replace("/", " per ")
            click.echo(f"held-out loss {after:.4f} {unit}, {before:.4f} before")
        if "best_step" in results:
            click.echo(f"the weights are those of step {results['best_step']:,}, whose held-out loss was the lowest")
        task = results.get("task")
        if "held_out_accuracy" in results:
            what = next((RIGHT[key] for key in (task, results.get("unit")) if key in RIGHT), "{:.0%} are right")
            click.echo(f"of the held-out {what.format(results['held_out_accuracy'])}")
        if "held_out_character_error_rate" in results:
            characters, words = (results[f"held_out_{what}_error_rate"] for what in ("character", "word"))
            count = results.get("transcribed_recordings")
            what = "the held-out texts" if count is None else f"{count:,} held-out recording{'s' * (count != 1)}"
            click.echo(f"of {what}, {characters:.1%} of the characters, {words:.1%} of the words are wrong")
        if "held_out_correlation" in results:
            click.echo(f"correlation with the held-out scores {results['held_out_correlation']:.3f}")
        if results["adapter"]:
            click.echo(f"try it:   pyapp generate {self._model} --adapter {self._folder} -p …")
            click.echo(f"write it: pyapp merge {self._model} {self._folder} MERGED")
        else:
            click.echo(f"try it: {TRIES[task] if task in TRIES else 'pyapp generate {} -p …'}".format(self._folder))


@command(short_help="Train a model on your own texts, pictures or recordings.")
@click.argument("model")
@click.argument("data", type=click.Path(exists=True))
@click.option("-o", "--out-dir", "--output-dir", required=True, type=click.Path(file_okay=False, path_type=Path),
              help="The folder for the adapter (or the model), the loss curve and the checkpoint.")  # fmt: skip
@click.option("--eval", "held_out_data", type=click.Path(exists=True),
              help="Examples to judge by. [default: a share of DATA, --held-out]")  # fmt: skip
@click.option("--held-out", type=click.FloatRange(0, 0.9), help="Share of DATA to judge by. [default: 0.05]")
@click.option("--tokenizer", metavar="FILE", help="The model's tokenizer, if it is not beside the model.")
@click.option("--device", callback=device_of, help="Where to train. [default: cpu]")
@click.option("--resume/--no-resume", default=True, help="Continue a run that was interrupted. [default: resume]")
@processes_option
@hosts_option
@shard_option
@threads_option
@json_option
@option(TRAINED, "--lora", "rank", type=click.IntRange(min=1), help="Rank of the adapter. [default: 8]")
@option(TRAINED, "--alpha", type=click.FloatRange(0), help="The adapter's factor is alpha / rank. [default: 2 ranks]")
@option(TRAINED, "--dropout", type=click.FloatRange(0, 1, max_open=True),
        help="Dropout of the adapter's inputs. [default: 0]")  # fmt: skip
@option(TRAINED, "--targets", metavar="NAMES", help='Layers, as "q_proj,v_proj". [default: all-linear]')
@option(TRAINED, "--dora", is_flag=True, help="Train the lengths of rows too (DoRA).")
@option(TRAINED, "--rslora", is_flag=True, help="The adapter's factor is alpha / sqrt(rank).")
@option(
    TRAINED, "--whole", metavar="NAMES", help='Train these layers whole, beside the adapter: "lm_head,embed_tokens".'
)
@option(TRAINED, "--full", is_flag=True, help="Train all weights, without an adapter; writes a whole model.")
@option(STEPS, "--epochs", type=click.FloatRange(0, min_open=True), help="Passes over the examples. [default: 3]")
@option(STEPS, "--steps", type=click.IntRange(min=1), help="Optimiser steps, instead of --epochs.")
@option(STEPS, "--rate", type=click.FloatRange(0, 1),
        help="Learning rate. [default: 2e-4, with --full, and of other models, 2e-5; of judged answers 1e-5, 1e-6; "
        "of models that name characters 1e-4]")  # fmt: skip
@option(STEPS, "--weight-decay", type=click.FloatRange(0, 1),
        help="Share of the rate by which weights shrink in a step, except norms and biases. [default: 0]")  # fmt: skip
@option(STEPS, "--batch", "rows", type=click.IntRange(min=1),
        help="Examples at a time. [default: 4; of other models 16, of recordings 8]")  # fmt: skip
@option(STEPS, "--accumulate", type=click.IntRange(min=1),
        help="Batches whose gradients are added up for a step. [default: 1]")  # fmt: skip
@option(
    STEPS, "--length", type=click.IntRange(min=2), help="The most tokens of an example. [default: 512, or the model's]"
)
@option(STEPS, "--evaluate-every", type=click.IntRange(min=1),
        help="Steps between two evaluations. [default: ten evaluations in all]")  # fmt: skip
@option(STEPS, "--patience", type=click.IntRange(min=1),
        help="End after this many evaluations without a lower held-out loss, and keep the best weights. [default: "
        "never]")  # fmt: skip
@option(STEPS, "--seed", type=click.IntRange(0, SEEDS - 1), help="The same seed gives the same result.")
@option(SOUND, "--language", help="Language of the recordings, unless their lines say it. [default: en]")
@option(SOUND, "--timestamp-probability", type=click.FloatRange(0, 1),
        help="How often Whisper learns to write the times of segments. [default: 1]")  # fmt: skip
@option(SOUND, "--condition-on-prev-probability", type=click.FloatRange(0, 1),
        help="How often Whisper gets the text before a window of a long recording. [default: 0.5]")  # fmt: skip
@option(SOUND, "--error-rate-recordings", metavar="COUNT", type=click.IntRange(0),
        help="Held-out recordings that a Whisper transcribes at each evaluation, to compute its error rates. "
        "[default: 16]")  # fmt: skip
@option(SOUND, "--spec-augment/--no-spec-augment", default=None,
        help="Hide stretches of time and frequencies at random. [default: as the model's config.json "
        "says]")  # fmt: skip
@option(SOUND, "--mask-time-prob", type=click.FloatRange(0, 1), help="Share of the time to hide.")
@option(SOUND, "--mask-time-length", type=click.IntRange(min=1), help="Frames of a hidden stretch.")
@option(SOUND, "--mask-feature-prob", type=click.FloatRange(0, 1), help="Share of the features to hide.")
@option(SOUND, "--mask-feature-length", type=click.IntRange(min=1), help="Features of a hidden stretch.")
@option(SOUND, "--new-vocabulary", is_flag=True, help="Name the texts' characters, not the model's own.")
@option(SOUND, "--ignored-characters", metavar="TEXT", help='Left out of texts, as ",.?!".')
@option(SOUND, "--freeze-feature-encoder/--no-freeze-feature-encoder", default=None,
        help="Keep the convolutions over samples as they are. [default: keep them]")  # fmt: skip
@option(SOUND, "--ctc-loss-reduction", type=click.Choice(["mean", "sum"]),
        help="How the losses of recordings are added up. [default: mean]")  # fmt: skip
@option(SOUND, "--ctc-zero-infinity", is_flag=True, help="An infinite loss counts as 0.")
@option(PAIRS, "--beta", type=click.FloatRange(0, min_open=True),
        help="How strongly the model is kept near the old one. [default: 0.1]")  # fmt: skip
@option(PAIRS, "--preference", metavar="LOSS",
        help="sigmoid, ipo, orpo, simpo, cpo, robust …; kto of answers with labels. [default: sigmoid]")  # fmt: skip
@option(PAIRS, "--gamma", type=click.FloatRange(0), help="The margin of simpo. [default: 0.5]")
@option(PAIRS, "--label-smoothing", type=click.FloatRange(0, 0.5, max_open=True),
        help="Share of pairs that are judged wrongly (robust).")  # fmt: skip
@option(PAIRS, "--desirable-weight", type=click.FloatRange(0, 1000),
        help="Weight of the good answers, for kto. [default: 1]")  # fmt: skip
@option(PAIRS, "--undesirable-weight", type=click.FloatRange(0, 1000),
        help="Weight of the other answers, for kto. [default: 1]")  # fmt: skip
@option(MEMORY, "--quantized", metavar="TYPE", help="Convert the base model while it loads: q8_0, q4_0, Q4_K_M …")
@option(MEMORY, "--checkpointing", is_flag=True, help="Compute blocks again in backward, instead of keeping them.")
@option(MEMORY, "--bfloat16", is_flag=True, help="Compute matrix products in bfloat16 (autocast).")
@option(MEMORY, "--eight-bits", is_flag=True, help="Keep AdamW's state in 8 bits.")
def finetune(
    model: str,
    data: str,
    out_dir: Path,
    resume: bool,
    processes: int,
    hosts: str | None,
    shard: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Train a model further: a language model on your own texts or conversations, others on labelled texts, pictures or
    recordings.

    MODEL is any language model that pyapp loads. DATA is a .jsonl file with {"messages": […]}, {"prompt": …,
    "completion": …} or {"text": …} in each line, or a text file. Of conversations and completions only the answers are
    learnt. Lines with {"prompt": …, "chosen": …, "rejected": …} train by preferences (DPO), those with {"prompt": …,
    "completion": …, "label": true or false} with --preference kto. By default an adapter (LoRA) is trained, the model
    stays as it is, and may be quantised; its files are those of peft.

    If MODEL is an encoder (BERT, ModernBERT …), DATA is a .jsonl, .csv or .tsv file, and all weights are trained: a
    classifier of {"text": …, "label": …}, a reranker of {"text": …, "text_pair": …, "score": …}, a tagger of {"tokens":
    […], "tags": […]}, an embedder of {"anchor": …, "positive": …} or {"sentence1": …, "sentence2": …, "score": …}.

    If MODEL classifies pictures (ViT, ConvNeXt, ResNet …), DATA is a folder with a folder of pictures for each class.

    If MODEL classifies sounds or gives features of them (wav2vec 2.0, HuBERT, WavLM …), DATA is a folder with a folder
    of recordings for each class; or, as for a Whisper, a .jsonl, .csv or .tsv file with {"audio": a path, "text": …} in
    each line: the model learns to write what is said. Recordings longer than 30 s need {"audio": …, "segments":
    [{"start": seconds, "end": …, "text": …}, …]}.

    Ctrl-C keeps the state; the same command continues from it. The same seed gives the same result.
    """
    source = click.get_current_context().get_parameter_source
    given = {name: value for name, value in settings.items() if source(name) is not ParameterSource.DEFAULT}
    device = given.pop("device", None)

    def run(ranks: Any, device: str | None) -> int:
        view: View = SilentView()
        if ranks is None or ranks.first:
            view = JsonView() if as_json else FinetuneView(model, out_dir)
        more = {"device": device} if device is not None else {}
        more |= {"ranks": ranks} if ranks is not None else {}
        return forward(
            lambda cancel: tasks.finetune(model, data, out_dir, resume=resume, cancel=cancel, **given, **more), view,
            keeps_state=True,
        )  # fmt: skip

    return train_together(processes, hosts, shard, device, run)


class MergeView(QuantizeView):
    """Says what was written."""

    def done(self, event: Done) -> None:
        if event.reason == "complete":
            results = event.results
            click.echo(f"{results['file']}: {size(results['size'])}, {results['layers']} layers with the adapter")


@command(short_help="Write a model with an adapter in its weights.")
@click.argument("model")
@click.argument("adapter", type=click.Path(exists=True, file_okay=False))
@click.argument("out", type=click.Path(file_okay=False))
@click.option("--tokenizer", metavar="FILE", help="The model's tokenizer, if it is not beside the model.")
@click.option(
    "-t", "--type", "dtype", metavar="TYPE", help="Convert the model while it loads: float32, float16, q8_0 …"
)
@json_option
def merge(model: str, adapter: str, out: str, tokenizer: str | None, dtype: str | None, as_json: bool) -> int:
    """Write MODEL with a LoRA ADAPTER in its weights into the folder OUT, as a model of its own."""
    view: View = JsonView() if as_json else MergeView()
    return forward(
        lambda cancel: tasks.merge(model, adapter, out, tokenizer=tokenizer, dtype=dtype, cancel=cancel), view
    )


__commands__ = {TRAINING: (finetune,), MODELS: (merge,)}
