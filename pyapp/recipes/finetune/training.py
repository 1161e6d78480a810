"""The training of a language model, by an adapter or as a whole, on rows of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pyapp.adapters import LoraConfig, add_adapter, save_adapter
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, autocast, no_grad
from pyapp.engine.dtype import bfloat16
from pyapp.engine.ops.random import default_generator
from pyapp.errors import OptionError
from pyapp.events import Cancel, Event, Item, Token
from pyapp.models.load import LoadedModel
from pyapp.models.loading.writing_folder import write_model
from pyapp.nn import checkpoint_blocks
from pyapp.text.generation.generate import generate_from
from pyapp.text.generation.options import SamplingOptions, check_number
from pyapp.text.generation.session import Session
from pyapp.train.preferences import check_preference
from pyapp.train.resumable import ResumableTraining
from pyapp.train.token_rows import padded, predicted_loss, total_loss

from .examples import Examples, Row
from .steps import StepSettings, Trained, make_trainable, trainer_of

BATCH = 4  # held-out rows at a time
SAMPLE_TOKENS = 48
LORA_RATE, FULL_RATE = 2e-4, 2e-5


@dataclass(frozen=True)
class FinetuneSettings(StepSettings):
    """As StepSettings, and these. rank, alpha, dropout, targets, dora: of the adapter (adapters.LoraConfig; alpha 0:
    twice the rank; targets: names separated by commas, or "all-linear"); full: all weights are trained, without an
    adapter. quantized: the block type of the base model's matrices. rate 0: 2e-4, or 2e-5 with `full`. whole: names of
    modules that are trained whole beside the adapter ("lm_head", "embed_tokens"), by commas. checkpointing: blocks are
    computed again. rslora: the adapter's factor is alpha / sqrt(rank). Of pairs of answers: beta, preference (the loss,
    one of train.preferences.PREFERENCE_LOSSES), gamma and label_smoothing; of answers with labels beta, preference (one
    of UNPAIRED_LOSSES), desirable_weight and undesirable_weight, of their losses. The rates of both are a twentieth.
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
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("length", self.length, 2, 1 << 20, whole=True)
        if self.full and self.quantized:
            raise OptionError(
                "block-quantised weights have no gradients", where="quantized", hint="Train an adapter, without full"
            )
        check_preference(self.beta, self.preference, self.label_smoothing, self.gamma)
        for name in ("desirable_weight", "undesirable_weight"):
            check_number(name, getattr(self, name), 0, 1000)
        if self.preference == "kto" and self.rows == 1:
            raise OptionError(
                "KTO compares the answers of a batch, which needs at least 2", where="rows", hint="Give --batch 2"
            )
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

    def _states(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """(what the model's head reads (B, T, D), targets (B, T) on the CPU) of rows; the models are causal, so padding
        after changes nothing.
        """
        inputs, targets = batch_of(rows)
        return self.model.hidden(inputs.to(self.model.device)), targets

    def _loss(self, model: Any, rows: Sequence[Row]) -> tuple[Tensor, float]:
        with self._region():
            loss = predicted_loss(self.model, *self._states(rows))
        return loss, float(loss.item())

    def _train(self, steps: int, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
        """The remaining steps; before the first one, the held-out loss of the model as it was."""
        if not self.trainer.step_count:
            yield from self._evaluate(cancel, more=False)
        yield from super()._train(steps, evaluate_every, save_every, cancel)

    def judges(self) -> bool:
        return bool(self.held_out_rows)

    def held_out_loss(self) -> float:
        """The mean loss in nats per token of the held-out rows."""

        def losses() -> Iterator[tuple[Tensor, int]]:
            for first in range(0, len(self.held_out_rows), BATCH):
                rows = self.held_out_rows[first : first + BATCH]
                yield self._loss(self.model, rows)[0], sum(row.targets for row in rows)

        self.model.eval()
        try:
            total, count = total_loss(losses())
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
            with self.trainer.ranks.whole(self.trainer.model):
                if self.trainer.ranks.first:
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
    """Rows as inputs and targets (B, longest - 1), int32; tokens that are not to be learnt are not targets."""
    return padded([row.ids[:-1] for row in rows], 0), padded([row.padded_targets() for row in rows], -100)
