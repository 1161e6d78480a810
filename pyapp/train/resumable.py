"""Training in a folder that can be interrupted at any time and continued."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import MISSING, asdict, fields
from math import inf, isnan
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pyapp.engine import get_num_threads, instruction_set
from pyapp.engine.ops.random import default_generator
from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Event, Metric, Notice, Progress

from . import checkpoints, curves
from .folders import check_room, prepare_folder, used_alone
from .trainer import Trainer

SAVE_SECONDS = 300.0  # after which a training is saved, whatever its steps are
SAVE_SHARE = 0.05  # of the time that may go into these checkpoints

S = TypeVar("S")


def settings_of(kind: type[S], given: Mapping[str, Any]) -> S:
    """The settings `given` as a dataclass of type `kind`. OptionError for an unknown name."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    other = next((name for name in given if name not in known), None)
    if other is not None:
        raise OptionError("unknown setting of this training", where=other, hint=f"It has {', '.join(known)}")
    try:
        return kind(**given)
    except TypeError as error:
        raise OptionError(f"unknown setting: {error}") from error


class ResumableTraining(ABC):
    """Base of training in a folder: the events, the checkpoints, the loss curve, the results.

    A subclass calls this constructor first, sets `trainer`, and defines the evaluation and export of the model.
    `settings` is a dataclass of JSON values with the fields `steps` and `seed`: everything that determines the result.
    With a field `patience` above 0, the training ends after so many evaluations in a row whose held-out loss was not
    below the lowest one, and the weights become those of the lowest.
    """

    title: ClassVar[str]
    """Stands above the loss curve."""
    unit: ClassVar[str] = "nats/token"
    """Of the losses."""
    smoothing: ClassVar[int] = 10
    """The loss curve shows the running mean of so many steps."""

    trainer: Trainer

    def __init__(self, folder: Path, settings: Any) -> None:
        """Makes the folder. PyappError if it cannot be written to, or has another or a damaged training."""
        self.folder = folder
        self.settings = settings
        self.patience: int = getattr(settings, "patience", 0)
        self.checkpoint = folder / checkpoints.FILE_NAME
        self.best = folder / checkpoints.BEST
        self._save_at = 0.0  # the time of the next checkpoint, at the latest
        prepare_folder(folder)
        if self.checkpoint.exists():
            usual = {field.name: field.default for field in fields(settings) if field.default is not MISSING}
            checkpoints.check_settings(self.checkpoint, asdict(settings), usual)

    @abstractmethod
    def held_out_loss(self) -> float:
        """The loss on held-out data during training."""

    def judges(self) -> bool:
        """Whether there are held-out data."""
        return True

    def evaluated(self, cancel: Cancel) -> Iterator[Event]:
        """More events at each evaluation."""
        yield from ()

    @abstractmethod
    def export(self) -> None:
        """Writes the trained model into the folder."""

    @abstractmethod
    def results(self) -> dict[str, Any]:
        """The results in Done besides the number of steps and the folder. Called after `export`."""

    def levels(self, results: Mapping[str, Any]) -> Mapping[str, float]:
        """Losses to compare with, by name: horizontal lines in the loss curve."""
        return {}

    def final_metrics(self, results: Mapping[str, Any]) -> Iterator[Metric]:
        """Metrics to report before Done."""
        yield from ()

    def speed(self, steps_per_second: float) -> tuple[float, str]:
        """The speed of the training, and its unit."""
        return steps_per_second, "steps/s"

    def close(self) -> None:  # noqa: B027  most have nothing to release
        """Releases resources that only the steps need."""

    def run(self, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
        """Trains until all steps are done, continuing an interrupted run; yields Progress, Metric and finally Done.

        Saves a checkpoint every `save_every` steps, at the latest after SAVE_SECONDS, and when it is cancelled.
        PyappError if another training uses the folder. Without Pillow there is no loss curve; a Notice says so before
        the first step.
        """
        if evaluate_every < 1 or save_every < 1:
            raise OptionError("evaluate_every and save_every must be at least 1")
        with used_alone(self.folder) if self.trainer.ranks.first else nullcontext():
            yield from self._until_done(evaluate_every, save_every, cancel)

    def _until_done(self, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
        steps: int = self.settings.steps
        default_generator.manual_seed(self.settings.seed)  # for layers that draw random numbers, such as dropout
        ranks = self.trainer.ranks
        self.trainer.begin()
        if self.checkpoint.exists():
            with ranks.together():
                checkpoints.restore(self.checkpoint, self.trainer)
        drawing = curves.can_draw()
        if not drawing:
            yield Notice(
                "no loss curve will be drawn: the Python package Pillow is missing",
                hint="pip install 'pyapp[train]', and run the same command again, even after the last step",
            )
        try:
            yield from self._train(steps, evaluate_every, save_every, cancel)
        finally:
            self.close()
        trainer = self.trainer
        if trainer.step_count < steps and not self._is_over():
            place = {"step": trainer.step_count, "folder": str(self.folder)}
            yield Done("cancelled", {**place, "resume": "run the same command again"})
            return
        results: dict[str, Any] = {}
        with ranks.whole(trainer.model):
            if ranks.first:
                yield Progress("evaluating", 0, 1)
                if self.patience:
                    checkpoints.restore_weights(self.best, trainer)
                    self.held_out_loss()  # its qualities are results
                    results["best_step"] = trainer.held_out[self._best()][0]
                self.export()
                results = {**self.results(), **results}
                if drawing:
                    self._draw(self.levels(results))
                yield from self.final_metrics(results)
            ranks.told(None)  # the others wait until the first process has written the result
        yield Done("complete", {**results, "steps": trainer.step_count, "folder": str(self.folder)})

    def _train(self, steps: int, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
        """The remaining steps, until cancelled."""
        trainer = self.trainer
        start, first = time.perf_counter(), trainer.step_count
        self._save_at = start + SAVE_SECONDS
        yield Metric("threads", get_num_threads(), instruction_set())
        while trainer.step_count < steps and not self._is_over():
            stopped, late = trainer.ranks.told((cancel.is_set(), time.perf_counter() > self._save_at))
            if stopped:
                break
            if late:
                self._save()
            loss = trainer.step()
            step = trainer.step_count
            if step == first + 1 and trainer.ranks.first:  # now the optimiser has its state
                check_room(self.folder, checkpoints.size_of(trainer))
            yield Progress("training", step, steps, "steps")
            yield Metric("loss", loss, self.unit, step)
            if step % evaluate_every == 0 or step == steps:
                yield from self._evaluate(cancel)
            if step % 10 == 0:
                seconds = (time.perf_counter() - start) / (step - first)
                yield Metric("speed", *self.speed(1 / seconds), step)
                yield Metric("time_left", seconds * (steps - step), "s", step)
            if step % save_every == 0 or step == steps:
                self._save()
        if trainer.step_count < steps:
            self._save()

    def _evaluate(self, cancel: Cancel, more: bool = True) -> Iterator[Event]:
        """The held-out loss, where there are held-out data, and with `more` what else is told of an evaluation."""
        ranks = self.trainer.ranks
        with ranks.whole(self.trainer.model):
            if self.judges():
                step = self.trainer.step_count
                loss = ranks.told(self.held_out_loss() if ranks.first else 0.0)
                self.trainer.held_out.append((step, loss))
                yield Metric("held_out_loss", loss, self.unit, step)
                if ranks.first and self.patience and self._best() == len(self.trainer.held_out) - 1:
                    checkpoints.save_weights(self.best, self.trainer)
            if more and ranks.first:
                yield from self.evaluated(cancel)

    def _best(self) -> int:
        """The number of the evaluation with the lowest held-out loss."""
        losses = [inf if isnan(loss) else loss for _, loss in self.trainer.held_out]
        return min(range(len(losses)), key=losses.__getitem__)

    def _is_over(self) -> bool:
        """Whether the held-out loss has not fallen for as long as `patience` allows."""
        held_out = self.trainer.held_out
        return bool(self.patience and held_out) and len(held_out) - 1 - self._best() >= self.patience

    def kept_loss(self) -> float:
        """The held-out loss of the weights that are kept: the last ones, or with `patience` the best ones."""
        return self.trainer.held_out[self._best() if self.patience else -1][1]

    def _save(self) -> None:
        self.trainer.check_gradients()  # a checkpoint with NaN weights would replace a good one
        start = time.perf_counter()
        checkpoints.save(self.checkpoint, self.trainer, asdict(self.settings))
        end = time.perf_counter()
        self._save_at = end + max(SAVE_SECONDS, (end - start) / SAVE_SHARE)

    def _draw(self, levels: Mapping[str, float]) -> None:
        """loss.png: the running mean of the training loss, the held-out loss, and horizontal lines at `levels`."""
        means = curves.running_means(self.trainer.losses, self.smoothing)
        shown = {"training": [(step, mean) for step, mean in enumerate(means, 1)]}
        if self.trainer.held_out:
            shown["held out"] = self.trainer.held_out
        curves.loss_curve(self.folder / "loss.png", shown, levels, self.title)
