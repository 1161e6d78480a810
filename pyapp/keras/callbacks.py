"""Callbacks by Keras' names."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib import request
from urllib.parse import urlencode

from ..engine import no_grad
from ..train.backups import BackupAndRestore
from ..train.callbacks import (
    Callback,
    CSVLogger,
    EarlyStopping,
    History,
    LambdaCallback,
    LearningRateScheduler,
    ModelCheckpoint,
    ReduceLROnPlateau,
    TensorBoard,
    TerminateOnNaN,
)
from ..train.callbacks import CallbackList as Listeners
from ..train.progress import ProgressBar, say
from .not_there import lacking
from .structures import flatten

__all__ = [
    "BackupAndRestore", "CSVLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback",
    "LearningRateScheduler", "ModelCheckpoint", "ProgbarLogger", "ReduceLROnPlateau", "RemoteMonitor",
    "SwapEMAWeights", "TensorBoard", "TerminateOnNaN",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The error for names that are not there, which says what to use instead of those of Keras."""
    raise lacking(__name__, name)


class ProgbarLogger(Callback):
    """Prints how far a pass over the data is, with the numbers of its logs, as `fit`, `evaluate` and `predict` do by
    themselves: for loops of one's own, whose `params` have "verbose", "epochs" and "steps". Given to `fit`, it
    draws in place of the line there.
    """

    draws_progress = True

    def __init__(self) -> None:
        self.verbose, self.epochs = 1, 1
        self.target: int | None = None
        self.seen = 0
        self._fits = False  # the evaluations of a training are not shown
        self._bar: ProgressBar | None = None

    def set_params(self, params: Any) -> None:
        super().set_params(params)
        verbose = params.get("verbose", 1)
        self.verbose = 1 if verbose == "auto" else int(verbose)
        self.epochs, self.target = params.get("epochs") or 1, params.get("steps")

    def _begin(self) -> None:
        self.seen, self._bar = 0, ProgressBar(self.target, self.verbose)

    def _step(self, batch: int, logs: Any) -> None:
        self.seen = batch + 1
        if self._bar is not None:
            self._bar.update(self.seen, logs or {})

    def _end(self, logs: Any) -> None:
        self.target = self.seen if self.target is None else self.target
        if self._bar is not None:
            self._bar.target = self.target
            self._bar.update(self.target, logs or {}, finished=True)
        self._bar = None

    def on_train_begin(self, logs: Any = None) -> None:
        self._fits = True

    def on_train_end(self, logs: Any = None) -> None:
        self._fits = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begin()
        if self.verbose and self.epochs > 1:
            say(f"Epoch {epoch + 1}/{self.epochs}")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._step(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._end(logs)

    def on_test_begin(self, logs: Any = None) -> None:
        if not self._fits:
            self._begin()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._fits:
            self._step(batch, logs)

    def on_test_end(self, logs: Any = None) -> None:
        if not self._fits:
            self._end(logs)

    def on_predict_begin(self, logs: Any = None) -> None:
        self._begin()

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        self._step(batch, None)  # the logs are the predictions

    def on_predict_end(self, logs: Any = None) -> None:
        self._end(None)


class CallbackList(Callback):
    """Several callbacks as one, for loops of one's own: each event goes on to all of them. `add_history` adds a
    History, which becomes `model.history`, and `add_progbar` a ProgbarLogger; other arguments are their `params`."""

    def __init__(
        self, callbacks: Any = None, add_history: bool = False, add_progbar: bool = False, model: Any = None,
        **params: Any,
    ) -> None:  # fmt: skip
        self.callbacks = flatten(callbacks) if callbacks else []
        if add_progbar and not any(isinstance(one, ProgbarLogger) for one in self.callbacks):
            self.callbacks.append(ProgbarLogger())
        if add_history and not any(isinstance(one, History) for one in self.callbacks):
            self.callbacks.append(History())
        self._listeners = Listeners(self.callbacks, model, params)
        self.set_model(model)
        self.params = params

    def set_params(self, params: Any) -> None:
        self.params = params
        for callback in self.callbacks:
            callback.set_params(params)

    def set_model(self, model: Any) -> None:
        self.model = model
        for callback in self.callbacks:
            callback.set_model(model)
            if isinstance(callback, History) and model is not None:
                model.history = callback

    def append(self, callback: Callback) -> None:
        """Adds a callback."""
        self.callbacks.append(callback)
        self._listeners = Listeners(self.callbacks, self.model, self.params)


def _told(event: str) -> Any:
    def tell(self: CallbackList, *args: Any, **logs: Any) -> None:
        self._listeners.tell(event, *args, *logs.values())

    tell.__name__, tell.__doc__ = event, f"Calls `{event}` of all callbacks."
    return tell


for _event in (name for name in dir(Callback) if name.startswith("on_")):
    setattr(CallbackList, _event, _told(_event))


class SwapEMAWeights(Callback):
    """Evaluates, and predicts, with the averages of the weights that an optimiser with `use_ema` keeps. With
    `swap_on_epoch` they are in the model at the end of each epoch as well, for callbacks that save it."""

    def __init__(self, swap_on_epoch: bool = False) -> None:
        self.swap_on_epoch, self._in_model = swap_on_epoch, False

    def _optimizers(self) -> list[Any]:
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        found = [one for one in getattr(optimizer, "optimizers", [optimizer]) if one.use_ema]
        if not found:
            raise ValueError("SwapEMAWeights: the optimiser keeps no averages; give it use_ema=True")
        return found

    def _swap(self, averages_in: bool) -> None:
        if self._in_model is averages_in:
            return
        with no_grad():
            for optimizer in self._optimizers():
                for weight, average in optimizer.averages():
                    kept = weight.detach().clone()
                    weight.copy_(average)
                    average.copy_(kept)
        self._in_model = averages_in

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.swap_on_epoch:
            self._swap(False)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not self.swap_on_epoch:
            return
        self._swap(True)
        if epoch == self.params["epochs"] - 1:  # at the end of fit the optimiser writes its averages into the weights
            with no_grad():
                for optimizer in self._optimizers():
                    for weight, average in optimizer.averages():
                        average.copy_(weight)

    def on_test_begin(self, logs: Any = None) -> None:
        self._swap(True)

    def on_test_end(self, logs: Any = None) -> None:
        self._swap(False)

    def on_predict_begin(self, logs: Any = None) -> None:
        self._swap(True)

    def on_predict_end(self, logs: Any = None) -> None:
        self._swap(False)


class RemoteMonitor(Callback):
    """Sends the numbers of each epoch to a web server, by POST to `root` + `path`: as the field `field` of a form that
    has JSON, or with `send_as_json` as JSON alone. A server that does not answer within ten seconds gets a warning.
    """

    def __init__(
        self, root: str = "http://localhost:9000", path: str = "/publish/epoch/end/", field: str = "data",
        headers: Mapping[str, str] | None = None, send_as_json: bool = False,
    ) -> None:  # fmt: skip
        if not root.startswith(("http://", "https://")):
            raise ValueError(f"RemoteMonitor: root is the address of a server, such as http://host:9000, not {root!r}")
        self.root, self.path, self.field, self.headers = root, path, field, headers
        self.send_as_json = send_as_json

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        numbers = {name: value.item() if hasattr(value, "item") else value for name, value in (logs or {}).items()}
        text = json.dumps({"epoch": epoch, **numbers})
        body = text if self.send_as_json else urlencode({self.field: text})
        kind = "application/json" if self.send_as_json else "application/x-www-form-urlencoded"
        headers = {"Content-Type": kind, **(self.headers or {})}
        try:
            with request.urlopen(request.Request(self.root + self.path, body.encode(), headers), timeout=10):
                pass
        except (OSError, HTTPException) as error:
            warnings.warn(f"RemoteMonitor: {self.root} cannot be reached ({error})", stacklevel=2)
