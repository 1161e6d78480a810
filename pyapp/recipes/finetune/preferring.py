"""The trainings on answers that people have judged: pairs of which one is better, and single ones with labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from math import isnan, nan
from pathlib import Path
from typing import Any

from pyapp.adapters import disabled_adapters
from pyapp.engine import Tensor, no_grad, ops
from pyapp.events import Cancel, Event, Metric, Progress
from pyapp.models.load import LoadedModel
from pyapp.train.preferences import (
    OF_MEANS,
    REFERENCE_FREE_LOSSES,
    dpo_loss,
    kto_loss,
    reference_free_loss,
)
from pyapp.train.token_rows import IGNORED, padded, predicted_log_probs, predicted_loss

from .examples import Examples, Judged, Pair, Row
from .steps import Shuffled
from .training import BATCH, FinetuneSettings, FinetuneTraining

PREFERENCE_SHARE = 0.05  # of the usual rates: large steps forget how to speak


class AnswerTraining(FinetuneTraining):
    """Base: trains on answers that people have judged. The reference is the model as it was: without the adapter."""

    title = "Loss of the preferences"
    rate_share = PREFERENCE_SHARE
    compares = True  # with a reference

    def __init__(
        self, folder: Path, settings: FinetuneSettings, loaded: LoadedModel, examples: Examples,
        held_out: Sequence[Any],
    ) -> None:  # fmt: skip
        super().__init__(folder, settings, loaded, examples, held_out)
        self.accuracy = nan  # the share of held-out examples that the model judges as people do

    def _add_reference(self, examples: Sequence[Any]) -> None:
        """Computes what the reference says of examples of which that is not known."""
        raise NotImplementedError

    def prepared(self, cancel: Cancel) -> Iterator[Event]:
        """With `full`, what the reference says of all examples."""
        examples, size = [*self.examples.rows, *self.held_out_rows], self.settings.rows
        for first in range(0, len(examples) if self.settings.full and self.compares else 0, size):
            cancel.check()
            self._add_reference(examples[first : first + size])
            yield Progress("asking the reference", min(first + size, len(examples)), len(examples), "examples")

    def _train(self, steps: int, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
        trainer = self.trainer
        if trainer.ranks.shard and self.compares and not self.settings.full:
            # Now, as all processes must call a model that they divide equally often.
            trainer.ranks.run(trainer.model, self._add_reference, [*self.examples.rows, *self.held_out_rows])
        yield from super()._train(steps, evaluate_every, save_every, cancel)

    def _log_probs(self, rows: Sequence[Row]) -> Tensor:
        """log p of the answers in rows (B,)."""
        with self._region():
            return predicted_log_probs(self.model, *self._states(rows))

    def _values(self, rows: Sequence[Row], *, reference: bool = False) -> list[float]:
        """log p of the answers in rows, without gradients, by the model as it is or by the reference. With `full`, the
        reference is asked before the first step: later the weights are others.
        """
        training, size = self.model.training, 2 * self.settings.rows
        found: list[float] = []
        self.model.eval()
        try:
            with no_grad(), disabled_adapters(self.model) if reference and not self.settings.full else nullcontext():
                for first in range(0, len(rows), size):
                    found += self._log_probs(rows[first : first + size]).tolist()
        finally:
            self.model.train(training)
        return found

    def evaluated(self, cancel: Cancel) -> Iterator[Event]:
        """A sample, and the share of held-out examples that the model judges as people do."""
        if self.judges():
            yield Metric("held_out_accuracy", self.accuracy, "", self.trainer.step_count)
        yield from super().evaluated(cancel)

    def results(self) -> dict[str, Any]:
        if self.judges() and isnan(self.accuracy):  # a run that continues after its last step
            self.held_out_loss()
        more = {"held_out_accuracy": self.accuracy} if self.judges() else {}
        return super().results() | {"unit": self.unit} | more


class PreferenceTraining(AnswerTraining):
    """Trains on pairs of answers, by direct preference optimisation. What the reference says of a pair is computed
    once. A held-out pair is judged rightly if its preferred answer gained more than the other one.
    """

    unit = "nats/pair"

    def __init__(
        self, folder: Path, settings: FinetuneSettings, loaded: LoadedModel, examples: Examples,
        held_out: Sequence[Pair],
    ) -> None:  # fmt: skip
        super().__init__(folder, settings, loaded, examples, held_out)
        self._reference: dict[Pair, tuple[float, float]] = {}

    def _add_reference(self, pairs: Sequence[Pair]) -> None:
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._reference]
        found = self._values([row for pair in missing for row in (pair.chosen, pair.rejected)], reference=True)
        self._reference |= dict(zip(missing, zip(found[::2], found[1::2], strict=True), strict=True))

    def _log_ratios(self, pairs: Sequence[Pair]) -> tuple[Tensor, ...]:
        """log p of the preferred and of the other answers, of the model and of the reference: (B,) each."""
        self._add_reference(pairs)
        found = self._log_probs([pair.chosen for pair in pairs] + [pair.rejected for pair in pairs])  # (2 B,)
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
        loss = self._pair_loss(rows, self._log_ratios(rows))
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
                    found = self._log_ratios(batch)
                    total += float(self._pair_loss(batch, found).item()) * len(batch)
                    better += int((found[0] - found[2] > found[1] - found[3]).sum().item())
        finally:
            self.model.train()
        self.accuracy = better / len(pairs)
        return total / len(pairs)


class ReferenceFreeTraining(PreferenceTraining):
    """Trains on pairs of answers by a loss that needs no reference."""

    compares = False

    def _log_ratios(self, pairs: Sequence[Pair]) -> tuple[Tensor, ...]:
        """log p, or its mean over tokens, of the preferred and of the other answers (B,); 0, twice; and a scalar: the
        mean negative log p of the tokens that are learnt.
        """
        rows, kind, count = [pair.chosen for pair in pairs], self.settings.preference, len(pairs)
        with self._region():
            states, targets = self._states([*rows, *(pair.rejected for pair in pairs)])  # (2 B, T, D), (2 B, T)
            found = predicted_log_probs(self.model, states, targets)  # (2 B,)
            learnt = found.new_zeros(())
            if kind == "orpo":  # as trl, of the prompts' tokens, too
                texts = padded([row.ids[1:] for row in rows], IGNORED)  # (B, longest - 1)
                learnt = predicted_loss(self.model, states[:count, : texts.shape[1]], texts)
        lengths = (targets != IGNORED).sum(1).to(found.device)  # (2 B,)
        if kind == "cpo":
            learnt = -found[:count].sum() / lengths[:count].sum()
        chosen, rejected = (found / lengths if kind in OF_MEANS else found).split(count)
        none = found.new_zeros(count)
        return chosen, rejected, none, none, learnt

    def _pair_loss(self, pairs: Sequence[Pair], log_ratios: Sequence[Tensor]) -> Tensor:
        chosen, rejected, *_, learnt = log_ratios
        settings = self.settings
        return learnt + reference_free_loss(
            chosen, rejected, settings.preference, settings.beta, settings.gamma, settings.label_smoothing
        )


class UnpairedTraining(AnswerTraining):
    """Trains on single answers with labels, by Kahneman-Tversky optimisation. How far the model is from the reference
    is estimated in each batch, by prompts with the answers to others. A held-out answer is judged rightly if it gained
    more than that and is desirable, or less and is not.
    """

    unit = "per answer"

    def __init__(
        self, folder: Path, settings: FinetuneSettings, loaded: LoadedModel, examples: Examples,
        held_out: Sequence[Judged],
    ) -> None:  # fmt: skip
        super().__init__(folder, settings, loaded, examples, held_out)
        self._reference: dict[Judged, float] = {}
        self._mismatched: dict[tuple[Judged, Judged], float] = {}  # log p by the reference, with `full`

    def prepared(self, cancel: Cancel) -> Iterator[Event]:
        """With `full`, what the reference says of all examples, and of the prompts with the answers to others."""
        yield from super().prepared(cancel)
        if not self.settings.full or self.settings.preference != "kto":
            return
        count = self.settings.steps * self.settings.accumulate
        ahead = Shuffled(self.examples.rows, self.settings.rows, self.settings.seed)  # the batches of the training
        for done, batch in enumerate(chain([self.held_out_rows], (ahead.batch() for _ in range(count)))):
            cancel.check()
            missing = [pair for pair in self._mismatches(batch) if pair not in self._mismatched]
            values = self._values(self._rows_of(missing), reference=True)
            self._mismatched |= dict(zip(missing, values, strict=True))
            yield Progress("asking the reference", done, count, "batches")

    def _mismatches(self, answers: Sequence[Judged]) -> list[tuple[Judged, Judged]]:
        """(whose prompt, whose answer): each prompt gets the answer before its own, the first one gets the last. None
        where the loss does not need them, or there is only one answer.
        """
        needed = self.settings.preference == "kto" and len(answers) > 1
        return list(zip(answers, [answers[-1], *answers[:-1]], strict=True)) if needed else []

    def _rows_of(self, mismatches: Sequence[tuple[Judged, Judged]]) -> list[Row]:
        return [one.row.answered_as(other.row).cut(self.settings.length + 1) for one, other in mismatches]

    def _divergence(self, answers: Sequence[Judged]) -> float:
        """The estimate of KL(model ‖ reference) in nats that trl takes: the mean of log p less that of the reference,
        of prompts with the answers to others, at least 0.
        """
        mismatches = self._mismatches(answers)
        if not mismatches:
            return 0.0
        rows, full = self._rows_of(mismatches), self.settings.full
        before = [self._mismatched[one] for one in mismatches] if full else self._values(rows, reference=True)
        return max(0.0, (sum(self._values(rows)) - sum(before)) / len(rows))

    def _add_reference(self, answers: Sequence[Judged]) -> None:
        missing = [answer for answer in dict.fromkeys(answers) if answer not in self._reference]
        found = self._values([answer.row for answer in missing], reference=True)
        self._reference |= dict(zip(missing, found, strict=True))

    def _answer_loss(self, answers: Sequence[Judged], log_probs: Tensor, divergence: float) -> Tensor:
        settings, device = self.settings, log_probs.device
        return kto_loss(
            log_probs, ops.tensor([self._reference[answer] for answer in answers], device=device),
            ops.tensor([answer.good for answer in answers], device=device), divergence, settings.beta,
            settings.desirable_weight, settings.undesirable_weight,
        )  # fmt: skip

    def _loss(self, model: Any, rows: Sequence[Any]) -> tuple[Tensor, float]:
        divergence = self._divergence(rows)
        self._add_reference(rows)
        loss = self._answer_loss(rows, self._log_probs([answer.row for answer in rows]), divergence)
        return loss, float(loss.item())

    def held_out_loss(self) -> float:
        """The mean loss of the held-out answers, which are one batch to estimate the divergence."""
        answers: Sequence[Any] = self.held_out_rows
        self._add_reference(answers)
        divergence, found = self._divergence(answers), self._values([answer.row for answer in answers])
        margins = [value - self._reference[answer] - divergence for answer, value in zip(answers, found, strict=True)]
        right = [margin > 0 if answer.good else margin < 0 for answer, margin in zip(answers, margins, strict=True)]
        self.accuracy = sum(right) / len(answers)
        return float(self._answer_loss(answers, ops.tensor(found, device=self.model.device), divergence).item())


def training_for(examples: Examples, settings: FinetuneSettings) -> type[FinetuneTraining]:
    """The training for examples of a kind."""
    if examples.kind is Judged:
        return UnpairedTraining
    if examples.kind is Pair:
        return ReferenceFreeTraining if settings.preference in REFERENCE_FREE_LOSSES else PreferenceTraining
    return FinetuneTraining


__all__ = ["PreferenceTraining", "ReferenceFreeTraining", "UnpairedTraining", "training_for"]
