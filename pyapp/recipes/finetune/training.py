"""`pyapp finetune`: trains a language model further on the user's texts or conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from typing import Any

from pyapp.adapters import LoraConfig, add_adapter, disabled_adapters, save_adapter
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, autocast, no_grad, ops
from pyapp.engine.dtype import bfloat16
from pyapp.engine.ops.random import default_generator
from pyapp.errors import OptionError
from pyapp.events import Cancel, Event, Item, Metric, Notice, Progress, Token
from pyapp.models import load_model
from pyapp.models.load import LoadedModel
from pyapp.models.loading.writing_folder import write_model
from pyapp.nn import checkpoint_blocks
from pyapp.nn import functional as F
from pyapp.text.generate import generate_from
from pyapp.text.options import SamplingOptions, check_number
from pyapp.text.session import Session
from pyapp.train.preferences import (
    OF_MEANS,
    REFERENCE_FREE_LOSSES,
    check_preference,
    completion_log_probs,
    dpo_loss,
    reference_free_loss,
)
from pyapp.train.resumable import ResumableTraining
from pyapp.train.token_rows import IGNORED, padded, predicted_loss

from .examples import Example, Examples, Pair, Row, digest_of, read_examples
from .steps import TOO_FEW, Request, StepSettings, Trained, divided, make_trainable, trainer_of

BATCH = 4  # held-out rows at a time
SAMPLE_TOKENS = 48
LORA_RATE, FULL_RATE = 2e-4, 2e-5
PREFERENCE_SHARE = 0.05  # of these rates, for pairs of answers: large steps forget how to speak


@dataclass(frozen=True)
class FinetuneSettings(StepSettings):
    """As StepSettings, and these. rank, alpha, dropout, targets, dora: of the adapter (adapters.LoraConfig; alpha 0:
    twice the rank; targets: names separated by commas, or "all-linear"); full: all weights are trained, without an
    adapter. quantized: the block type of the base model's matrices. rate 0: 2e-4, or 2e-5 with `full`. whole: names of
    modules that are trained whole beside the adapter ("lm_head", "embed_tokens"), by commas. checkpointing: blocks are
    computed again. rslora: the adapter's factor is alpha / sqrt(rank). Of pairs of answers: beta, preference (the loss,
    one of train.preferences.PREFERENCE_LOSSES), gamma and label_smoothing; their rates are a twentieth.
    """

    rank: int = 8
    alpha: float = 0.0
    dropout: float = 0.0
    targets: str = "all-linear"
    dora: bool = False
    whole: str = ""
    full: bool = False
    quantized: str = ""
    checkpointing: bool = False
    rslora: bool = False
    beta: float = 0.1
    preference: str = "sigmoid"
    gamma: float = 0.5
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("length", self.length, 2, 1 << 20, whole=True)
        if self.full and self.quantized:
            raise OptionError(
                "block-quantised weights have no gradients", where="quantized", hint="Train an adapter, without full"
            )
        check_preference(self.beta, self.preference, self.label_smoothing, self.gamma)
        self.lora()  # what is wrong is told before the model is loaded

    def lora(self) -> LoraConfig:
        """The settings of the adapter."""
        targets = self.targets if self.targets == "all-linear" else _names(self.targets)
        return LoraConfig(
            r=self.rank, lora_alpha=self.alpha or 2 * self.rank, lora_dropout=self.dropout, target_modules=targets,
            use_dora=self.dora, use_rslora=self.rslora, modules_to_save=_names(self.whole) or None,
            base_model_name_or_path=self.model,
        )  # fmt: skip


def _names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


class FinetuneTraining(ResumableTraining):
    """Trains an adapter of a model, or all its weights, in a folder, which gets the checkpoint, and the adapter or the
    model.
    """

    title = "Loss of the fine-tuning"
    rate_share = 1.0  # of the usual rates

    def __init__(
        self, folder: Path, settings: FinetuneSettings, loaded: LoadedModel, examples: Examples,
        held_out: Sequence[Any],
    ) -> None:  # fmt: skip
        super().__init__(folder, settings)
        self.loaded, self.examples, self.held_out_rows = loaded, examples, list(held_out)
        model: Any = loaded.model
        self.model = model
        prepare(self.model, settings)
        trained = Trained(self.model)
        self.parameters = sum(parameter.numel() for parameter in trained.parameters())
        rate = settings.rate or (FULL_RATE if settings.full else LORA_RATE) * self.rate_share
        self.trainer = trainer_of(
            trained, examples.rows, self._loss, settings, rate, lambda rows: sum(row.targets for row in rows)
        )
        self.model.train()

    def _region(self) -> Any:
        return autocast.region(bfloat16, self.model.device) if self.settings.bfloat16 else nullcontext()

    def _logits(self, model: Any, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """(logits (B, T, V), targets (B, T)) of rows; the models are causal, so padding behind changes nothing."""
        inputs, targets = batch_of(rows)
        device = self.model.device
        with self._region():
            return model(inputs.to(device)), targets.to(device)

    def _loss(self, model: Any, rows: Sequence[Row]) -> tuple[Tensor, float]:
        with self._region():
            loss = predicted_loss(self.model, *batch_of(rows))
        return loss, float(loss.item())

    def _train(self, steps: int, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
        """The remaining steps; before the first one, the held-out loss of the model as it was."""
        if not self.trainer.step_count:
            yield from self._judge()
        yield from super()._train(steps, evaluate_every, save_every, cancel)

    def judges(self) -> bool:
        return bool(self.held_out_rows)

    def held_out_loss(self) -> float:
        """The mean loss in nats per token of the held-out rows."""
        total, count = 0.0, 0
        self.model.eval()
        try:
            with no_grad():
                for first in range(0, len(self.held_out_rows), BATCH):
                    rows = self.held_out_rows[first : first + BATCH]
                    predicted = sum(row.targets for row in rows)
                    total += self._loss(self.model, rows)[1] * predicted
                    count += predicted
        finally:
            self.model.train()
        return total / count

    def evaluated(self, cancel: Cancel) -> Iterator[Event]:
        """A sample: how the model goes on with the beginning of an example."""
        if not self.examples.prompts or cancel.is_set():
            return
        step = self.trainer.step_count
        prompt, ids = self.examples.prompts[step % len(self.examples.prompts)]
        self.model.eval()
        try:
            with no_grad():
                capacity = min(self.model.config.max_seq_len, len(ids) + SAMPLE_TOKENS)
                session = Session(self.model, capacity)
                options = SamplingOptions(max_new_tokens=SAMPLE_TOKENS, temperature=0.0, seed=0)
                text = "".join(
                    event.text
                    for event in generate_from(session, self.loaded.tokenizer, ids, options, cancel)
                    if isinstance(event, Token)
                )
        finally:
            self.model.train()
        yield Item(step, {"prompt": prompt, "text": text})

    def _save(self) -> None:
        super()._save()
        if not self.settings.full:
            self.export()  # small; so an interrupted training can be tried

    def export(self) -> None:
        """The adapter, or with `full` the model's folder."""
        if not self.settings.full:
            save_adapter(self.model, self.folder)
            return
        self.model.requires_grad_(False)
        write_model(self.loaded, self.folder)

    def results(self) -> dict[str, Any]:
        """What was trained, and the held-out losses before and after."""
        found: dict[str, Any] = {
            "parameters": self.parameters,
            "examples": len(self.examples.rows),
            "adapter": not self.settings.full,
            "loss": self.trainer.losses[-1],
        }
        if self.trainer.held_out:
            found |= {"held_out_rows": len(self.held_out_rows), "held_out_loss": self.kept_loss()}
            found["held_out_loss_before"] = self.trainer.held_out[0][1]
        return found

    def speed(self, steps_per_second: float) -> tuple[float, str]:
        rows = self.examples.rows
        mean = sum(len(row.ids) for row in rows) / len(rows)
        return steps_per_second * mean * self.settings.rows * self.settings.accumulate, "tokens/s"


class PreferenceTraining(FinetuneTraining):
    """Trains on pairs of answers, by direct preference optimisation. The reference is the model as it was: without the
    adapter. What it says of a pair is computed once.
    """

    title = "Loss of the preferences"
    unit = "nats/pair"
    rate_share = PREFERENCE_SHARE
    compares = True  # with a reference

    def __init__(
        self, folder: Path, settings: FinetuneSettings, loaded: LoadedModel, examples: Examples,
        held_out: Sequence[Pair],
    ) -> None:  # fmt: skip
        super().__init__(folder, settings, loaded, examples, held_out)
        self._reference: dict[Pair, tuple[float, float]] = {}
        self.accuracy = nan  # the share of held-out pairs whose preferred answer gained more
        if settings.full and self.compares:  # later the weights are others
            pairs = [*examples.rows, *held_out]
            for first in range(0, len(pairs), settings.rows):
                self._add_reference(pairs[first : first + settings.rows])

    def _log_probs(self, model: Any, pairs: Sequence[Pair]) -> Tensor:
        """log p of the answers (2 B,): the preferred ones first."""
        rows = [pair.chosen for pair in pairs] + [pair.rejected for pair in pairs]
        logits, targets = self._logits(model, rows)  # (2 B, T, V), (2 B, T)
        return completion_log_probs(logits.float(), targets)

    def _add_reference(self, pairs: Sequence[Pair]) -> None:
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._reference]
        if not missing:
            return
        training = self.model.training
        self.model.eval()
        try:
            with no_grad(), nullcontext() if self.settings.full else disabled_adapters(self.model):
                found = self._log_probs(self.model, missing).tolist()
        finally:
            self.model.train(training)
        count = len(missing)
        self._reference |= dict(zip(missing, zip(found[:count], found[count:], strict=True), strict=True))

    def _log_ratios(self, model: Any, pairs: Sequence[Pair]) -> tuple[Tensor, ...]:
        """log p of the preferred and of the other answers, of the model and of the reference: (B,) each."""
        self._add_reference(pairs)
        found = self._log_probs(model, pairs)  # (2 B,)
        chosen, rejected = found.split(len(pairs))
        reference = ops.tensor([self._reference[pair] for pair in pairs], device=found.device)  # (B, 2)
        return chosen, rejected, reference[:, 0], reference[:, 1]

    def _pair_loss(self, pairs: Sequence[Pair], log_ratios: Sequence[Tensor]) -> Tensor:
        lengths = [[pair.chosen.targets for pair in pairs], [pair.rejected.targets for pair in pairs]]
        chosen, rejected, *reference = log_ratios
        device = chosen.device
        settings = self.settings
        return dpo_loss(
            chosen, rejected, reference[0], reference[1], settings.beta, settings.preference, settings.label_smoothing,
            (ops.tensor(lengths[0], device=device), ops.tensor(lengths[1], device=device)),
        )  # fmt: skip

    def _loss(self, model: Any, rows: Sequence[Any]) -> tuple[Tensor, float]:
        loss = self._pair_loss(rows, self._log_ratios(model, rows))
        return loss, float(loss.item())

    def held_out_loss(self) -> float:
        """The mean loss of the held-out pairs."""
        pairs: Sequence[Any] = self.held_out_rows
        total, better = 0.0, 0
        self.model.eval()
        try:
            with no_grad():
                for first in range(0, len(pairs), BATCH):
                    batch = pairs[first : first + BATCH]
                    found = self._log_ratios(self.model, batch)
                    total += float(self._pair_loss(batch, found).item()) * len(batch)
                    better += int((found[0] - found[2] > found[1] - found[3]).sum().item())
        finally:
            self.model.train()
        self.accuracy = better / len(pairs)
        return total / len(pairs)

    def evaluated(self, cancel: Cancel) -> Iterator[Event]:
        """A sample, and the share of held-out pairs whose preferred answer gained more than the other one."""
        if self.judges():
            yield Metric("held_out_accuracy", self.accuracy, "", self.trainer.step_count)
        yield from super().evaluated(cancel)

    def results(self) -> dict[str, Any]:
        if self.judges() and isnan(self.accuracy):  # a run that continues after its last step
            self.held_out_loss()
        more = {"held_out_accuracy": self.accuracy} if self.judges() else {}
        return super().results() | {"unit": self.unit} | more


class ReferenceFreeTraining(PreferenceTraining):
    """Trains on pairs of answers by a loss that needs no reference."""

    compares = False

    def _log_ratios(self, model: Any, pairs: Sequence[Pair]) -> tuple[Tensor, ...]:
        """log p, or its mean over tokens, of the preferred and of the other answers (B,); 0, twice; and a scalar: the
        mean negative log p of the tokens that are learnt.
        """
        rows, kind, count = [pair.chosen for pair in pairs], self.settings.preference, len(pairs)
        logits, targets = self._logits(model, [*rows, *(pair.rejected for pair in pairs)])  # (2 B, T, V), (2 B, T)
        logits = logits.float()
        found = completion_log_probs(logits, targets)  # (2 B,)
        lengths = (targets != IGNORED).sum(1)  # (2 B,)
        if kind == "orpo":  # as trl, of the prompts' tokens, too
            texts = padded([row.ids[1:] for row in rows], IGNORED).to(logits.device)  # (B, longest - 1)
            seen = logits[:count, : texts.shape[1]].flatten(0, 1)
            learnt = F.cross_entropy(seen, texts.flatten().long(), ignore_index=IGNORED)
        else:
            learnt = -found[:count].sum() / lengths[:count].sum() if kind == "cpo" else found.new_zeros(())
        chosen, rejected = (found / lengths if kind in OF_MEANS else found).split(count)
        none = found.new_zeros(count)
        return chosen, rejected, none, none, learnt

    def _pair_loss(self, pairs: Sequence[Pair], log_ratios: Sequence[Tensor]) -> Tensor:
        chosen, rejected, *_, learnt = log_ratios
        settings = self.settings
        return learnt + reference_free_loss(
            chosen, rejected, settings.preference, settings.beta, settings.gamma, settings.label_smoothing
        )


def prepare(model: Any, settings: FinetuneSettings) -> None:
    """Adds the adapter, or makes all weights trainable."""
    if settings.full:
        make_trainable(model)
    else:
        default_generator.manual_seed(settings.seed)
        add_adapter(model, settings.lora())
    if settings.checkpointing:
        checkpoint_blocks(model)


def batch_of(rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
    """Rows as inputs and targets (B, longest - 1), int32; tokens that are not to be learnt are no targets."""
    return padded([row.ids[:-1] for row in rows], 0), padded([row.padded_targets() for row in rows], -100)


def finetune_language_model(request: Request) -> Iterator[Event]:
    """Trains a language model further on a file, with the settings of FinetuneSettings: Progress, Metric, an Item with
    a sample at each evaluation, and finally Done. Leaves the adapter (adapter_config.json, adapter_model.safetensors),
    or with `full` the model's folder.
    """
    chosen = request.settings_as(FinetuneSettings)
    yield Progress("loading the model", 0, 1)
    loaded = load_model(
        request.model, request.tokenizer, dtype=chosen.quantized or None, device=request.device, cancel=request.cancel,
        pictures=False,
    )  # fmt: skip
    longest, length = loaded.model.config.max_seq_len, chosen.length
    if length > longest:
        if "length" in request.settings:
            raise OptionError(f"the model reads up to {longest} tokens, not {length}", where="length")
        length = longest
    yield Progress("reading the examples", 0, 1)
    examples = read_examples(request.data, loaded.tokenizer, length)
    more = {"length": length, "data": digest_of(request.data)}
    if request.held_out_data is not None:
        judged = read_examples(request.held_out_data, loaded.tokenizer, length)
        if judged.pairs != examples.pairs:
            raise OptionError("only one of the two files has pairs of answers", where="held_out_data")
        held_out = judged.rows
        more["held_out_data"] = digest_of(request.held_out_data)
    else:
        rows, held_out = divided(examples.rows, chosen.held_out, chosen.seed)
        examples = replace(examples, rows=rows)
    yield from _notices(loaded, examples, held_out, length)
    settings = request.settings_as(FinetuneSettings, **more).for_examples(len(examples.rows))
    kind: type[FinetuneTraining] = PreferenceTraining if examples.pairs else FinetuneTraining
    if examples.pairs and chosen.preference in REFERENCE_FREE_LOSSES:
        kind = ReferenceFreeTraining
    yield from request.run(kind(request.out, settings, loaded, examples, held_out))


def _notices(loaded: LoadedModel, examples: Examples, held_out: Sequence[Example], length: int) -> Iterator[Notice]:
    if examples.chats and not loaded.tokenizer.settings.get("chat_template"):
        yield Notice("the model has no chat template", hint='It learns lines that begin with "User:" and "Assistant:"')
    if examples.cut:
        yield Notice(f"{examples.cut} examples were longer than {length} tokens and were cut", hint="Raise --length")
    if examples.without_answer:
        yield Notice(f"{examples.without_answer} examples had nothing to learn and were left out")
    if not held_out:
        yield Notice(TOO_FEW, hint="Give more, or a file of its own: --eval")


__all__ = ["FinetuneSettings", "finetune_language_model"]
