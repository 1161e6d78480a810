"""What watches a training: a `Callback` is called at its beginning and end, and at those of each epoch and each
batch, with the losses and metrics so far as `logs`.
"""

from __future__ import annotations

import csv
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..engine.lazy import np
from ..formats.sink import full_disk_named
from ..formats.tfevents import EventWriter

__all__ = [
    "CSVLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback",
    "LearningRateScheduler", "ModelCheckpoint", "ReduceLROnPlateau", "TensorBoard", "TerminateOnNaN",
]  # fmt: skip

Logs = Mapping[str, Any]


class Callback:
    """Base: override the events that you want to see. `self.model` is the model, `self.params` a dict with the numbers
    of epochs and steps. `self.model.stop_training = True` ends the training after the batch. `backed_up` names the
    attributes that BackupAndRestore keeps: numbers, None, and lists of arrays.
    """

    backed_up: tuple[str, ...] = ()
    draws_progress = False  # whether it draws in place of the line of fit, evaluate and predict
    model: Any = None
    params: Mapping[str, Any] = {}

    def set_params(self, params: Mapping[str, Any]) -> None:
        self.params = params

    def set_model(self, model: Any) -> None:
        self.model = model

    def on_train_begin(self, logs: Logs | None = None) -> None: ...
    def on_train_end(self, logs: Logs | None = None) -> None: ...
    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None: ...
    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None: ...
    def on_batch_begin(self, batch: int, logs: Logs | None = None) -> None: ...
    def on_batch_end(self, batch: int, logs: Logs | None = None) -> None: ...

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.on_batch_end(batch, logs)

    def on_test_begin(self, logs: Logs | None = None) -> None: ...
    def on_test_end(self, logs: Logs | None = None) -> None: ...
    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> None: ...
    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None: ...
    def on_predict_begin(self, logs: Logs | None = None) -> None: ...
    def on_predict_end(self, logs: Logs | None = None) -> None: ...
    def on_predict_batch_begin(self, batch: int, logs: Logs | None = None) -> None: ...
    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None: ...


class CallbackList:
    """Several callbacks; calls only those that listen to an event, and those last that keep what the `others` have done
    (`keeps_others`). `reads_batches` says whether one of them wants the numbers after each batch,
    `draws_progress` whether one draws the line."""

    def __init__(self, callbacks: Iterable[Any], model: Any, params: Mapping[str, Any]) -> None:
        self.callbacks = sorted(callbacks, key=lambda one: getattr(one, "keeps_others", False))
        self._listeners: dict[str, list[Any]] = {}  # of each event that was told
        for callback in self.callbacks:
            for method in ("set_model", "set_params", "on_epoch_end"):
                if isinstance(callback, type) or not hasattr(callback, method):
                    raise TypeError(f"a callback is an object of a subclass of Callback, not {callback!r:.60}")
            callback.set_params(params)
            callback.set_model(model)
            if getattr(callback, "keeps_others", False):
                callback.others = [other for other in self.callbacks if other is not callback]
        self.draws_progress = any(getattr(one, "draws_progress", False) for one in self.callbacks)
        self.reads_batches = any(self._listens(c, "on_train_batch_end") for c in self.callbacks)
        self.reads_test_batches = any(self._listens(c, "on_test_batch_end") for c in self.callbacks)

    @staticmethod
    def _listens(callback: Any, event: str) -> bool:
        names = (event, event.replace("_train_", "_")) if "_train_batch_" in event else (event,)
        return any(
            getattr(type(callback), name, None) is not getattr(Callback, name) or name in vars(callback)
            for name in names
        )

    def tell(self, event: str, *args: Any) -> None:
        """Calls `event` of each callback that has it."""
        listeners = self._listeners.get(event)
        if listeners is None:
            listeners = self._listeners[event] = [one for one in self.callbacks if self._listens(one, event)]
        for callback in listeners:
            try:
                getattr(callback, event)(*args)
            except Exception as error:
                error.add_note(f"in the callback {type(callback).__name__}.{event}")
                raise


class History(Callback):
    """The numbers of each epoch: `history["loss"]` is a list, `epoch` the numbers of the epochs."""

    def __init__(self) -> None:
        self.history: dict[str, list[Any]] = {}
        self.epoch: list[int] = []

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.history, self.epoch = {}, []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class LambdaCallback(Callback):
    """Functions as a callback: LambdaCallback(on_epoch_end=lambda epoch, logs: …). Other names become attributes."""

    def __init__(self, **functions: Callable[..., Any] | None) -> None:
        for name, function in functions.items():
            if name.startswith("on_") and not hasattr(Callback, name):
                raise TypeError(f"LambdaCallback: there is no event {name!r}")
            if function is not None:
                setattr(self, name, function)


class _Monitor(Callback):
    """Base of what follows one number: whether it became better."""

    def __init__(self, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"{type(self).__name__}: mode is auto, min or max, not {mode!r}")
        self.monitor, self.min_delta = monitor, abs(min_delta)
        rising = any(word in monitor for word in ("acc", "auc", "precision", "recall", "f1", "r2", "iou", "cosine"))
        self.rises = mode == "max" or (mode == "auto" and rising)
        self._warned = False

    @property
    def worst(self) -> float:
        return -math.inf if self.rises else math.inf

    def is_better(self, value: float, best: float) -> bool:
        """Whether `value` is better than `best` by more than `min_delta`; the first one is, also NaN."""
        if best == self.worst:
            return True
        return value - self.min_delta > best if self.rises else value + self.min_delta < best

    @property
    def monitor_op(self) -> Callable[[Any, Any], Any]:
        """`np.greater` where the number is to rise, else `np.less`."""
        return np.greater if self.rises else np.less

    def get_monitor_value(self, logs: Logs | None) -> float | None:
        """The number, or None where the logs do not have it: Keras' name of `value`."""
        return self.value(logs)

    def value(self, logs: Logs | None) -> float | None:
        """The number, or None, with one warning, where the logs do not have it."""
        found = (logs or {}).get(self.monitor)
        if found is None and not self._warned:
            self._warned = True
            names = ", ".join(logs or {}) or "nothing"
            what = f"{type(self).__name__}: there is no {self.monitor!r} to follow"
            warnings.warn(f"{what}; Available metrics are: {names}", stacklevel=3)
        return None if found is None else float(found)


class EarlyStopping(_Monitor):
    """Ends the training when a number has not become better by `min_delta` for `patience` epochs."""

    backed_up = ("wait", "stopped_epoch", "best", "best_epoch", "best_weights")

    def __init__(
        self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0, verbose: int = 0, mode: str = "auto",
        baseline: float | None = None, restore_best_weights: bool = False, start_from_epoch: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.wait, self.stopped_epoch, self.best, self.best_epoch = 0, 0, self.worst, 0
        self.best_weights: Any = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        value = self.value(logs)
        if value is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights = self.model.get_weights()
            self.best_epoch = epoch
        self.wait += 1
        if self.is_better(value, self.best):
            self.best, self.best_epoch = value, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self.is_better(value, self.baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.stopped_epoch and self.verbose:
            print(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.restore_best_weights and self.best_weights is not None:
            if self.verbose:
                print(f"Restoring model weights from the end of the best epoch: {self.best_epoch + 1}.")
            self.model.set_weights(self.best_weights)


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor` when a number has not become better for `patience` epochs."""

    backed_up = ("best", "wait", "cooldown_counter")

    def __init__(
        self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0, mode: str = "auto",
        min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(monitor, mode, min_delta)
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau: factor is below 1")
        self.factor, self.patience, self.verbose, self.cooldown, self.min_lr = (
            factor,
            patience,
            verbose,
            cooldown,
            min_lr,
        )

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.best, self.wait, self.cooldown_counter = self.worst, 0, 0

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if isinstance(logs, dict):
            logs["learning_rate"] = float(self.model.optimizer.learning_rate)
        value = self.value(logs)
        if value is None:
            return
        if self.cooldown_counter:
            self.cooldown_counter -= 1
            self.wait = 0
        if self.is_better(value, self.best):
            self.best, self.wait = value, 0
        elif not self.cooldown_counter:
            self.wait += 1
            rate = float(self.model.optimizer.learning_rate)
            if self.wait >= self.patience and rate > self.min_lr:
                self.model.optimizer.learning_rate = max(rate * self.factor, self.min_lr)
                if self.verbose:
                    new = self.model.optimizer.learning_rate
                    print(f"\nEpoch {epoch + 1}: ReduceLROnPlateau reducing learning rate to {float(new)}.")
                self.cooldown_counter, self.wait = self.cooldown, 0

    def in_cooldown(self) -> bool:
        """Whether the epochs after a change still pass."""
        return self.cooldown_counter > 0


class LearningRateScheduler(Callback):
    """Sets the learning rate of each epoch to schedule(epoch, rate)."""

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        before = float(self.model.optimizer.learning_rate)
        try:
            rate = self.schedule(epoch, before)
        except TypeError:
            rate = self.schedule(epoch)
        if isinstance(rate, str) or not hasattr(rate, "__float__"):
            raise ValueError(f"LearningRateScheduler: the schedule gives a number, not {rate!r:.60}")
        self.model.optimizer.learning_rate = float(rate)
        if self.verbose:
            print(f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {rate}.")

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if isinstance(logs, dict):
            logs["learning_rate"] = float(self.model.optimizer.learning_rate)


class TerminateOnNaN(Callback):
    """Ends the training when the loss is not a finite number, and says where the first such number is. With
    `raise_error` it raises a RuntimeError."""

    def __init__(self, raise_error: bool = False) -> None:
        self.raise_error = raise_error

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            where = getattr(self.model, "where_not_finite", lambda: None)()
            why = f"Batch {batch}: Invalid loss, terminating training" + (f": {where}" if where else "")
            if self.raise_error:
                raise RuntimeError(why)
            print(why)
            self.model.stop_training = True


class CSVLogger(Callback):
    """A line of the numbers of each epoch in a file."""

    def __init__(self, filename: str | Path, separator: str = ",", append: bool = False) -> None:
        self.filename, self.separator, self.append = Path(filename), separator, append
        self._file: Any = None
        self._writer: Any = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        header = self.append and self.filename.exists() and self.filename.stat().st_size > 0
        self._needs_header = not header
        self._file = self.filename.open("a" if self.append else "w", newline="", encoding="utf-8")
        self._writer = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        row = {
            "epoch": epoch,
            **{k: "[" + ", ".join(map(str, v)) + "]" if isinstance(v, list) else v for k, v in (logs or {}).items()},
        }
        if self._writer is None:
            numbers = sorted(row.keys() - {"epoch"})
            if not any(name.startswith("val_") for name in numbers):  # a later epoch may have them, as Keras thinks
                numbers += [f"val_{name}" for name in numbers]
            names = ["epoch", *numbers]
            self._writer = csv.DictWriter(
                self._file, names, delimiter=self.separator, extrasaction="ignore", restval="NA"
            )
            if self._needs_header:
                self._writer.writeheader()
        with full_disk_named(self.filename):
            self._writer.writerow(row)
            self._file.flush()

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with full_disk_named(self.filename):
                file.close()


class ModelCheckpoint(_Monitor):
    """Saves the model (or its weights) after each epoch, or after `save_freq` batches; with `save_best_only` only when
    a number became better, or is not there. `filepath` may have {epoch:02d}, {batch:04d} and {val_loss:.2f}.
    """

    backed_up = ("best", "_seen")

    def __init__(
        self, filepath: str | Path, monitor: str = "val_loss", verbose: int = 0, save_best_only: bool = False,
        save_weights_only: bool = False, mode: str = "auto", save_freq: str | int = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(monitor, mode)
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise ValueError(f"ModelCheckpoint: save_freq is 'epoch' or a number of batches, not {save_freq!r}")
        endings = (".weights.h5", ".safetensors") if save_weights_only else (".keras", ".h5", ".hdf5", ".safetensors")
        if not str(filepath).endswith(endings):  # rather than after an epoch
            kind = "weights alone" if save_weights_only else "whole models"
            raise ValueError(
                f"The filepath provided must end in `{endings[0]}`. Received: filepath={filepath}; ModelCheckpoint: "
                f"files of {kind} end in {', '.join(endings)}"
            )
        self.filepath, self.verbose = str(filepath), verbose
        self.save_best_only, self.save_weights_only, self.save_freq = save_best_only, save_weights_only, save_freq
        self.best = self.worst if initial_value_threshold is None else initial_value_threshold
        self._seen, self._epoch = 0, 0
        if save_freq != "epoch":  # else `fit` need not read the numbers after each batch
            self.on_train_batch_end = self._after_batch  # type: ignore[method-assign]

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._epoch = epoch

    def _after_batch(self, batch: int, logs: Logs | None = None) -> None:
        self._seen += 1
        if self._seen % int(self.save_freq) == 0:
            self._save(self._epoch, {"batch": batch + 1, **(logs or {})})

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_freq == "epoch":
            self._save(epoch, logs or {})

    def _save(self, epoch: int, logs: Logs) -> None:
        value = self.value(logs) if self.save_best_only else None
        best = "None" if self.best == self.worst else f"{self.best:.5f}"
        if value is not None and not self.is_better(value, self.best):
            if self.verbose:
                print(f"\nEpoch {epoch + 1}: {self.monitor} did not improve from {best}")
            return
        try:
            path = self.filepath.format(epoch=epoch + 1, **logs)
        except KeyError as error:
            raise KeyError(
                f"ModelCheckpoint: the path {self.filepath!r} names {error}, which is not among {', '.join(logs)}"
            ) from None
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if self.verbose:
            why = "" if value is None else f"{self.monitor} improved from {best} to {value:.5f}, "
            print(f"\nEpoch {epoch + 1}: {why}saving model to {path}")
        self.best = self.best if value is None else value
        if self.save_weights_only:
            self.model.save_weights(path)
        else:
            self.model.save(path)
        if self.verbose:
            print(f"\nEpoch {epoch + 1}: finished saving model to {path}")


class TensorBoard(Callback):
    """Writes losses, metrics and the learning rate of each epoch for TensorBoard: to the folders train and validation
    of `log_dir`. `update_freq`: "epoch", or also the losses after each batch ("batch"), or after so many.

    histogram_freq: every so many epochs, the distribution of each weight is written, by the weight's path.
    write_images: then each weight is a picture, too. write_steps_per_second: the speed of each epoch. Graphs, profiles
    and embeddings are not written: ValueError where one is asked for, but for `write_graph`, which is Keras' default.
    """

    def __init__(
        self, log_dir: str | Path = "logs", histogram_freq: int = 0, write_graph: bool = True,
        write_images: bool = False, write_steps_per_second: bool = False, update_freq: str | int = "epoch",
        profile_batch: Any = 0, embeddings_freq: int = 0, embeddings_metadata: Any = None,
    ) -> None:  # fmt: skip
        unknown = {"profile_batch": profile_batch, "embeddings_freq": embeddings_freq}
        if any(unknown.values()):
            names = ", ".join(name for name, value in unknown.items() if value)
            raise ValueError(f"TensorBoard: writes numbers, histograms and images only, so {names} is not supported")
        if update_freq not in ("epoch", "batch") and not (isinstance(update_freq, int) and update_freq > 0):
            raise ValueError(
                f"TensorBoard: update_freq is 'epoch', 'batch' or a number of batches, not {update_freq!r}"
            )
        if not isinstance(histogram_freq, int) or histogram_freq < 0:
            raise ValueError(f"TensorBoard: histogram_freq is a number of epochs, or 0, not {histogram_freq!r}")
        self.log_dir = Path(log_dir)
        self.histogram_freq, self.write_images = histogram_freq, write_images
        self.write_steps_per_second = write_steps_per_second
        self._every = 0 if update_freq == "epoch" else 1 if update_freq == "batch" else int(update_freq)
        self._writers: dict[str, EventWriter] = {}
        self._step = 0
        if self._every:  # else `fit` need not read the numbers after each batch
            self.on_train_batch_end = self._after_batch  # type: ignore[method-assign]

    def _writer(self, folder: str) -> EventWriter:
        if folder not in self._writers:
            self._writers[folder] = EventWriter(self.log_dir / folder)
        return self._writers[folder]

    def _write(self, folder: str, step: int, values: dict[str, float]) -> None:
        if values:
            self._writer(folder).write(step, values)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._step = 0

    def _after_batch(self, batch: int, logs: Logs | None = None) -> None:
        self._step += 1
        if self._step % self._every == 0:
            self._write("train", self._step, {f"batch_{name}": float(v) for name, v in (logs or {}).items()})

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        if self.write_steps_per_second:
            self._began = time.perf_counter(), self._steps()

    def _steps(self) -> int:
        return int(getattr(getattr(self.model, "optimizer", None), "iterations", 0))

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        numbers = {name: float(value) for name, value in (logs or {}).items() if isinstance(value, (int, float))}
        held_out = {name: value for name, value in numbers.items() if name.startswith("val_")}
        train = {f"epoch_{name}": value for name, value in numbers.items() if name not in held_out}
        rate = getattr(getattr(self.model, "optimizer", None), "learning_rate", None)
        if isinstance(rate, (int, float)):
            train["epoch_learning_rate"] = float(rate)
        if self.write_steps_per_second:
            began, steps = self._began
            train["epoch_steps_per_second"] = (self._steps() - steps) / max(time.perf_counter() - began, 1e-9)
        self._write("train", epoch, train)
        self._write("validation", epoch, {f"epoch_{n.removeprefix('val_')}": v for n, v in held_out.items()})
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._write_weights(epoch)

    def _write_weights(self, epoch: int) -> None:
        writer = self._writer("train")
        for layer in self.model.layers:
            for name, weight in layer.weight_paths():
                values = weight.detach().numpy()
                writer.write_histogram(epoch, f"{name}/histogram", values)
                if self.write_images and (pictures := weight_pictures(values)) is not None:
                    writer.write_pictures(epoch, f"{name}/image", pictures)

    def on_train_end(self, logs: Logs | None = None) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers = {}


def weight_pictures(values: Any) -> Any:
    """A weight as pictures (N, H, W, C) as Keras draws it: a vector is a row, a matrix lies, of kernels of convolutions
    with one dimension (K, in, out) each output has a picture. None where there is no such form.
    """
    values = values.squeeze()
    shape = values.shape
    if values.ndim == 1:
        return values.reshape(1, shape[0], 1, 1)
    if values.ndim == 2:
        values = values.T if shape[0] > shape[1] else values
        return values[None, :, :, None]
    if values.ndim == 3:
        return values.transpose(2, 0, 1)[..., None]
    return values if values.ndim == 4 and shape[-1] in (1, 3, 4) else None
