"""Checkpoints of a training: one safetensors file with everything that determines the next step.

It has the weights, the optimiser's state, the number of the step, the position of the batches and the state of the
random generator. So the same seed gives the same weights, interrupted or not, with any number of threads, on the same
kind of processor.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.dtype import as_dtype
from pyapp.engine.ops.random import default_generator
from pyapp.errors import FileFormatError, ModelError, PyappError
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.formats.safe_json import parse_json
from pyapp.formats.sink import Deferred, plain
from pyapp.nn.part import kept_of, whole_of

from .trainer import Trainer

FILE_NAME = "checkpoint.safetensors"  # in the folder of a training
BEST = "best.safetensors"  # the weights with the lowest held-out loss
START_ANEW = "Delete this file to start the training again, or choose another folder"


def save(path: Path, trainer: Trainer, settings: Mapping[str, Any]) -> None:
    """Writes the checkpoint; it gets its name only when it is complete. `settings` are JSON values. Of several
    processes the first writes it; where they divide the parameters, all call this, and each tensor is put together when
    it is written.

    Raises StorageFullError, or another OSError.
    """
    if not (trainer.ranks.first or trainer.ranks.shard):
        return
    tensors = _tensors(trainer)
    numbers = {
        str(index): {name: value for name, value in entry.items() if not isinstance(value, Tensor)}
        for index, entry in trainer.optimizer.state_dict()["state"].items()
    }
    more = {
        "position": trainer.batches.position,
        "losses": trainer.losses,
        "held_out": trainer.held_out,
        "optimizer": numbers,
        "schedule": trainer.schedule.state_dict(),
        "random": [default_generator.initial_seed(), default_generator.offset],
    }
    texts = {"settings": json.dumps(settings), "training": json.dumps(more)}
    write_safetensors(path if trainer.ranks.first else os.devnull, tensors, texts)  # one of them writes


def size_of(trainer: Trainer) -> int:
    """The bytes of the tensors that `save` writes."""
    return sum(
        prod(value.shape) * as_dtype(value.dtype).itemsize if isinstance(value, Deferred) else value.nbytes
        for value in _tensors(trainer).values()
    )


def _tensors(trainer: Trainer) -> dict[str, Any]:
    """The tensors of a checkpoint by name, whole ones: the model's, then the optimiser's."""
    state, parameters = trainer.model.state_dict(keep_vars=True), _parameters(trainer)
    tensors = {f"model.{name}": _whole(value, value) for name, value in state.items()}
    for index, entry in trainer.optimizer.state_dict()["state"].items():
        tensors |= {
            f"optimizer.{index}.{name}": _whole(value, parameters[index])
            for name, value in entry.items()
            if isinstance(value, Tensor)
        }
    return tensors


def _parameters(trainer: Trainer) -> list[Tensor]:
    """The optimiser's parameters, by their numbers in its state."""
    return [parameter for group in trainer.optimizer.param_groups for parameter in group["params"]]


def _whole(value: Tensor, parameter: Tensor) -> Any:
    """A tensor of the state as it is written: the whole, where processes have parts of it."""
    part, groups = parameter.part, parameter.shard_groups
    value = value.detach()
    if part is None or value.shape != parameter.shape:
        return value

    def pieces() -> Iterator[memoryview]:
        yield plain("", whole_of(value, part, groups))[2]

    return Deferred(value.dtype.name, part.whole_shape, pieces)


def restore(path: Path, trainer: Trainer) -> None:
    """Restores the state of `save`, of which each process keeps its parts. FileFormatError if the file is damaged or of
    another training.
    """
    with _opened(path) as checkpoint:
        try:
            state = parse_json(checkpoint.metadata["training"])
            entries: dict[int, dict[str, Any]] = {int(index): dict(kept) for index, kept in state["optimizer"].items()}
            model: dict[str, Tensor] = {}
            own, parameters = trainer.model.state_dict(keep_vars=True), _parameters(trainer)
            for name in checkpoint.tensors:
                kind, _, rest = name.partition(".")
                if kind == "model":
                    model[rest] = kept_of(checkpoint.read(name), own[rest])
                else:
                    index, _, rest = rest.partition(".")
                    entries[int(index)][rest] = kept_of(checkpoint.read(name), parameters[int(index)])
            trainer.model.load_state_dict(model)
            trainer.optimizer.load_state_dict({**trainer.optimizer.state_dict(), "state": entries})
            trainer.schedule.load_state_dict(state["schedule"])
            trainer.losses = [float(value) for value in state["losses"]]
            trainer.held_out = [(int(step), float(value)) for step, value in state["held_out"]]
            trainer.batches.position = int(state["position"])
            seed, offset = state["random"]
            default_generator.manual_seed(seed).offset = int(offset)
        except FileFormatError:  # a tensor could not be read
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise FileFormatError(
                f"this checkpoint does not continue this training ({error})", where=str(path), hint=START_ANEW
            ) from error


def save_weights(path: Path, trainer: Trainer) -> None:
    """Writes the weights alone. Raises StorageFullError, or another OSError."""
    write_safetensors(path, dict(trainer.model.state_dict()))


def restore_weights(path: Path, trainer: Trainer) -> None:
    """Restores what `save_weights` wrote. PyappError if the file is missing, damaged or of another training."""
    if not path.exists():
        hint = f"Delete {FILE_NAME} beside it to start the training again, or choose another folder"
        raise PyappError("the weights with the lowest held-out loss are missing", where=str(path), hint=hint)
    with _opened(path) as checkpoint:
        try:
            trainer.model.load_state_dict({name: checkpoint.read(name) for name in checkpoint.tensors})
        except KeyError as error:
            raise FileFormatError(
                f"these weights are not of this training ({error})", where=str(path), hint=START_ANEW
            ) from error


def check_settings(path: Path, wanted: Mapping[str, Any], usual: Mapping[str, Any] | None = None) -> None:
    """PyappError unless the checkpoint at `path` was saved with the settings `wanted`; FileFormatError if it is
    damaged. A setting that the checkpoint lacks, as it is newer, had its `usual` value.
    """
    with _opened(path) as checkpoint:
        try:
            found = {**(usual or {}), **parse_json(checkpoint.metadata["settings"])}
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                "this file is not the checkpoint of a training", where=str(path), hint=START_ANEW
            ) from error
    wanted = json.loads(json.dumps(wanted))
    different = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    if different:
        pairs = ", ".join(
            f"other {name}"
            if _is_digest(found.get(name))
            else f"{name} {found.get(name)} there, {wanted.get(name)} here"
            for name in different
        )
        raise PyappError(
            f"a training with other settings was begun here: {pairs}", where=str(path),
            hint="Give the same settings to continue it, or another folder to start again",
        )  # fmt: skip


def _is_digest(value: Any) -> bool:
    """Whether a setting is the SHA-256 of something, such as of the examples: it says nothing to a reader."""
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Opens the file. Errors of pyapp.formats become errors about the training."""
    try:
        with open_checkpoint(path) as checkpoint:
            yield checkpoint
    except (FileFormatError, ModelError) as error:
        if error.hint == START_ANEW:
            raise
        raise FileFormatError(
            f"the checkpoint of this training is damaged: {error.what}", where=str(path), hint=START_ANEW
        ) from error
