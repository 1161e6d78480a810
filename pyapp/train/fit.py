"""The loops of training, evaluation and prediction over batches, for any model that has steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

from .batches import Batch, Batches, class_weighted
from .callbacks import Callback, CallbackList, History
from .progress import ProgressBar, say

Logs = dict[str, Any]


class Trainable(Protocol):
    """What the loops need of a model."""

    stop_training: bool

    def train_batch(self, x: Any, y: Any, sample_weight: Any) -> None:
        """A step of the training. It may leave its numbers on the device."""

    def test_batch(self, x: Any, y: Any, sample_weight: Any) -> None:
        """Losses and metrics of a batch."""

    def logs(self) -> Logs:
        """Losses and metrics since the last reset."""

    def reset_metrics(self) -> None: ...


class _Passes:
    """Passes over a source, cut into epochs of `limit` batches, or one pass each. As in Keras, an epoch that comes to
    the end of a pass ends there, and the next one begins another.
    """

    def __init__(self, batches: Batches, limit: int | None) -> None:
        self._batches, self._limit = batches, limit
        self._source: Iterator[Batch] | None = None
        self._given = 0  # batches of this pass

    def epoch(self) -> Iterator[Batch]:
        """The batches of the next epoch."""
        if self._limit is None:
            yield from self._batches
            return
        given = 0
        while given == 0:
            begins = self._source is None
            source = self._source = iter(self._batches) if self._source is None else self._source
            for batch in islice(source, self._limit):
                given, self._given = given + 1, self._given + 1
                yield batch
            if given < self._limit or self._given == self._batches.count():
                self._source, self._given = None, 0
            if begins:
                return


def fit(
    model: Trainable, batches: Batches, *, epochs: int = 1, callbacks: Iterable[Any] = (),
    validation: Batches | None = None, class_weight: Mapping[int, float] | None = None, initial_epoch: int = 0,
    steps_per_epoch: int | None = None, validation_steps: int | None = None, validation_freq: Any = 1, verbose: int = 1,
    finish: Callable[[], None] = lambda: None,
) -> History:  # fmt: skip
    """Trains for epochs `initial_epoch` .. `epochs`; the History has the numbers of each. `finish` is called after the
    last epoch, before the callbacks' end."""
    for name, value, least in (("epochs", epochs, 0), ("initial_epoch", initial_epoch, 0)):
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is a whole number from {least} on, not {value!r:.40}")
    for name, steps in (("steps_per_epoch", steps_per_epoch), ("validation_steps", validation_steps)):
        if steps is not None and (not isinstance(steps, int) or steps < 1):
            raise ValueError(f"{name} is a positive integer or None, not {steps!r:.40}")
    history = History()
    total = steps_per_epoch or batches.count()
    params = {"verbose": verbose, "epochs": epochs, "steps": total}
    listeners = CallbackList([*callbacks, history], model, params)
    model.stop_training = False
    listeners.tell("on_train_begin", {})
    initial_epoch = max(initial_epoch, vars(model).pop("resume_epoch", 0))  # BackupAndRestore sets it
    logs: Logs = {}
    passes = _Passes(batches, steps_per_epoch)
    try:
        for epoch in range(initial_epoch, epochs):
            model.reset_metrics()
            listeners.tell("on_epoch_begin", epoch, {})
            if verbose and epochs > 1 and not listeners.draws_progress:
                say(f"Epoch {epoch + 1}/{epochs}")
            bar = ProgressBar(total, 0 if listeners.draws_progress else verbose)
            step = 0
            for step, batch in enumerate(passes.epoch(), 1):
                listeners.tell("on_train_batch_begin", step - 1, {})
                model.train_batch(*(class_weighted(batch, class_weight) if class_weight else batch))
                if listeners.reads_batches or bar.due():
                    logs = model.logs()
                    bar.update(step, logs)
                listeners.tell("on_train_batch_end", step - 1, logs)
                if model.stop_training:
                    break
            if not step and epoch > initial_epoch and steps_per_epoch is not None:
                break  # it has been told
            if not step and epoch > initial_epoch:
                raise ValueError(
                    f"the data ended with epoch {epoch}: the source of batches cannot begin anew; give "
                    "steps_per_epoch, or a source that can be iterated over again and again"
                )
            if not step:
                raise ValueError(_NO_DATA)
            if steps_per_epoch is not None and step < steps_per_epoch and not model.stop_training:
                print(f"The data ended after {step} of {steps_per_epoch} steps: the epoch ends here.")
            total = total if total is not None else step
            logs = model.logs()
            if validation is not None and _is_due(epoch + 1, validation_freq):
                values = evaluate(model, validation, listeners, validation_steps)  # the same batches each time
                logs = dict(sorted({**logs, **{f"val_{name}": value for name, value in values.items()}}.items()))
            bar.target = total if bar.target is None else bar.target
            ended = dict(logs)  # callbacks may add numbers for those that follow, and for the line
            listeners.tell("on_epoch_end", epoch, ended)
            bar.update(step, ended, finished=True)
            if model.stop_training:
                break
        finish()
    finally:
        listeners.tell("on_train_end", logs)
    return history


_NO_DATA = (
    "there is no data: the source of batches gave none; a generator that has ended gives no more: take one without an "
    "end and a number of steps, or a dataset"
)


def _is_due(epoch: int, frequency: Any) -> bool:
    return epoch % frequency == 0 if isinstance(frequency, int) else epoch in frequency


def evaluate(
    model: Trainable, batches: Batches, listeners: CallbackList, steps: int | None = None, verbose: int = 0
) -> Logs:
    """Losses and metrics of the batches, or of the first `steps` of them."""
    model.reset_metrics()
    listeners.tell("on_test_begin", {})
    parts = _Passes(batches, steps).epoch()
    bar = ProgressBar(steps or batches.count(), 0 if listeners.draws_progress else verbose)
    step = 0
    for step, batch in enumerate(parts, 1):
        listeners.tell("on_test_batch_begin", step - 1, {})
        model.test_batch(*batch)
        logs: Logs = {}
        if listeners.reads_test_batches or bar.due():
            logs = model.logs()
            bar.update(step, logs)
        listeners.tell("on_test_batch_end", step - 1, logs)
    if not step:
        raise ValueError(_NO_DATA)
    logs = model.logs()
    bar.update(step, logs, finished=True)
    listeners.tell("on_test_end", logs)
    return logs


__all__ = ["Callback", "Trainable", "evaluate", "fit"]
