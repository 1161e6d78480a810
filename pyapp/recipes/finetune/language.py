"""`pyapp finetune`: trains a language model further on the user's texts, conversations or preferences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from pyapp.errors import FileFormatError, ModelError, OptionError
from pyapp.events import Event, Notice, Progress
from pyapp.models import load_model
from pyapp.models.load import LoadedModel
from pyapp.nn.layers.joined import separate_layers
from pyapp.train.preferences import UNPAIRED_LOSSES

from .examples import Example, Examples, Judged, Pair, Row, digest_of, read_examples
from .preferring import training_for
from .steps import TOO_FEW, Request, divided
from .training import FinetuneSettings


def finetune_language_model(request: Request) -> Iterator[Event]:
    """Trains a language model further on a file, with the settings of FinetuneSettings: Progress, Metric, an Item with
    a sample at each evaluation, and finally Done. Leaves the adapter (adapter_config.json, adapter_model.safetensors),
    or with `full` the model's folder.
    """
    chosen = request.settings_as(FinetuneSettings)
    yield Progress("loading the model", 0, 1)
    device = None if request.ranks.shard else request.device  # a card gets what its process keeps
    with separate_layers() if chosen.full or request.ranks.shard else nullcontext():
        loaded = load_model(
            request.model, request.tokenizer, dtype=chosen.quantized or None, device=device, cancel=request.cancel,
            pictures=False,
        )  # fmt: skip
    if hasattr(loaded.model, "denoising"):
        raise ModelError("a model that writes by masked diffusion is not trained further here", where=loaded.name)
    longest, length = loaded.model.config.max_seq_len, chosen.length
    if length > longest:
        if "length" in request.settings:
            raise OptionError(f"the model reads up to {longest} tokens, not {length}", where="length")
        length = longest
    yield Progress("reading the examples", 0, 1)
    examples = _examples(request.data, loaded, length, chosen.preference)
    more = {"length": length, "data": digest_of(request.data)}
    if request.held_out_data is not None:
        judged = _examples(request.held_out_data, loaded, length, chosen.preference)
        if judged.kind is not examples.kind:
            raise OptionError("only one of the two files has pairs of answers", where="held_out_data")
        held_out = judged.rows
        more["held_out_data"] = digest_of(request.held_out_data)
    else:
        rows, held_out = divided(examples.rows, chosen.held_out, chosen.seed)
        examples = replace(examples, rows=rows)
    settings = request.settings_as(FinetuneSettings, **more).for_examples(len(examples.rows))
    yield from _notices(loaded, examples, held_out, settings)
    kind = training_for(examples, settings)
    yield from request.run(kind(request.out, settings, loaded, examples, held_out))


def _examples(path: Path, loaded: LoadedModel, length: int, preference: str) -> Examples:
    """The examples of a file, as the loss reads them. FileFormatError if they are not for it."""
    found = read_examples(path, loaded.tokenizer, length)
    unpaired = preference in UNPAIRED_LOSSES
    if unpaired and found.kind is Pair:
        return replace(found, rows=[answer for pair in found.rows for answer in pair.apart()], kind=Judged)
    if unpaired and found.kind is Row:
        raise FileFormatError(
            "the file has no answers with labels", where=str(path),
            hint=f'The loss {preference} learns {{"prompt": …, "completion": …, "label": true}} (or false)',
        )  # fmt: skip
    if not unpaired and found.kind is Judged:
        raise FileFormatError(
            f"its answers have labels, which the loss {preference} does not read", where=str(path),
            hint="Train with --preference kto; or leave out the labels, and all answers are learnt",
        )  # fmt: skip
    return found


def _notices(
    loaded: LoadedModel, examples: Examples, held_out: Sequence[Example], settings: FinetuneSettings
) -> Iterator[Notice]:
    if examples.chats and not loaded.tokenizer.settings.get("chat_template"):
        yield Notice("the model has no chat template", hint='It learns lines that begin with "User:" and "Assistant:"')
    if examples.cut:
        what = f"{examples.cut} examples were longer than {settings.length} tokens and were cut"
        yield Notice(what, hint="Raise --length")
    if examples.without_answer:
        yield Notice(f"{examples.without_answer} examples had nothing to learn and were left out")
    if not held_out and settings.held_out:
        yield Notice(TOO_FEW, hint="Give more, or a file of its own: --eval")
    if examples.kind is Judged:
        yield from _balance(examples.rows, settings)


def _balance(answers: Sequence[Judged], settings: FinetuneSettings) -> Iterator[Notice]:
    """A Notice if desirable and undesirable answers do not weigh about the same: the bounds are those of Ethayarajh et
    al. 2024, equation 8, as trl rounds them.
    """
    good = sum(answer.good for answer in answers)
    bad = len(answers) - good
    ratio = max(bad, 1) * settings.undesirable_weight / max(good, 1)
    other = max(good, 1) * settings.desirable_weight / max(bad, 1)
    desirable, undesirable = (round(ratio, 2), round(ratio * 1.33, 2)), (round(other / 1.33, 2), round(other, 2))
    inside = desirable[0] <= settings.desirable_weight <= desirable[1]
    if good == bad or inside or undesirable[0] <= settings.undesirable_weight <= undesirable[1]:
        return
    yield Notice(
        f"{good:,} answers are desirable, {bad:,} are not, and the more frequent kind weighs more",
        hint=f"Give --desirable-weight from {desirable[0]:g} to {desirable[1]:g}, or --undesirable-weight from "
        f"{undesirable[0]:g} to {undesirable[1]:g}",
    )


__all__ = ["finetune_language_model"]
