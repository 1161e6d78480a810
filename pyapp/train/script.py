"""The run of a user's training script: steps that can be interrupted and continued, a loss curve, seed and device.

    from pyapp.train.script import current_run

    run = current_run()
    for step in run.steps(1000, model=model, optimizer=optimizer):
        …
        run.log(loss=loss)

`pyapp train SCRIPT.py --resume --seed 3` gives the run its settings; `python SCRIPT.py` runs it with the defaults.
Where the script runs in several processes, the first one writes, and all stop after the same step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.device import as_device
from pyapp.engine.ops import as_tensor, tensor
from pyapp.engine.ops.random import default_generator
from pyapp.engine.processes.group import is_initialized, world
from pyapp.errors import FileFormatError, OptionError
from pyapp.events import Cancel
from pyapp.formats.torch_files import load, save
from pyapp.nn import Module

from . import curves
from .folders import prepare_folder, used_alone
from .ranks import Ranks
from .resumable import SAVE_SECONDS, SAVE_SHARE

FILE_NAME = "checkpoint.pt"
_current: list[Run] = []


class Run:
    """A run in a folder. `seed` seeds the default generator; `resume` says whether to continue from the checkpoint;
    `device` is where the script is to put its model.
    """

    def __init__(
        self, folder: Path | str = "runs/script", *, resume: bool = True, device: str = "cpu", seed: int = 1
    ) -> None:
        self.folder, self.resume, self.device, self.seed = Path(folder), resume, device, seed
        self.checkpoint = self.folder / FILE_NAME
        self.step = 0
        self.values: dict[str, list[tuple[float, float]]] = {}
        self._parts: dict[str, Any] = {}
        self._saved = False
        self._save_at = 0.0  # the time of the next checkpoint, at the latest
        self._ranks = Ranks()

    def steps(self, total: int, *, save_every: int = 100, **parts: Any) -> Iterator[int]:
        """The numbers of the remaining steps, 1 … total. `parts` are what must be kept: anything with state_dict() and
        load_state_dict(), as models, optimisers, schedules.

        A checkpoint is written every `save_every` steps, at the latest after five minutes, after the last step, and at
        Ctrl-C, SIGTERM or SIGHUP, after the step in progress; then KeyboardInterrupt, which says how to go on, ends the
        script. A second Ctrl-C ends it at once. FileFormatError for a checkpoint of another script; PyappError if
        another run uses the folder.

        After init_process_group all processes call this: the first one writes the checkpoint and draws, all continue
        from that one file. OptionError for parameters that processes divide: each has only some of their rows.
        """
        if total < 0 or save_every < 1:
            raise OptionError("steps takes a number of steps from 0, and save_every from 1")
        self._ranks = Ranks(world() if is_initialized() else None)
        _check_whole(parts)
        prepare_folder(self.folder)
        self._parts = parts
        with used_alone(self.folder) if self._ranks.first else nullcontext():
            yield from self._steps(total, save_every)

    def _steps(self, total: int, save_every: int) -> Iterator[int]:
        if not self.resume and self._ranks.first and self.checkpoint.exists():
            self.checkpoint.replace(self.checkpoint.with_suffix(".previous"))
        if self._ranks.told(self.checkpoint.exists()):
            self._restore()
        cancel = Cancel()
        self._save_at = time.perf_counter() + SAVE_SECONDS
        with cancel.set_by_interrupt(keeps_state=True):
            while self.step < total:
                yield self.step + 1
                self.step += 1
                stopped, late = self._ranks.any(cancel.is_set(), time.perf_counter() > self._save_at)
                if stopped or late or self.step == total or self.step % save_every == 0:
                    self.save()
                if stopped and self.step < total:
                    raise KeyboardInterrupt(f"stopped{self.advice()}")
        if self._ranks.first:
            self.draw()

    def log(self, **values: Any) -> None:
        """Keeps numbers of the present step for the curve in loss.png: loss=0.3, held_out=tensor …"""
        for name, value in values.items():
            number = float(value.item()) if isinstance(value, Tensor) else float(value)
            self.values.setdefault(name, []).append((self.step + 1, number))

    def save(self) -> None:
        """Writes the checkpoint: the parts, the step, the logged numbers, the random state. All processes call it."""
        start = time.perf_counter()
        state = {
            "step": self.step,
            "values": {name: tensor(points, dtype="float64") for name, points in self.values.items()},  # (N, 2) each
            "random": [default_generator.initial_seed(), default_generator.offset],
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
        }
        if self._ranks.first:
            save(state, self.checkpoint)
        self._ranks.told(None)  # the others go on, or end, when it is written
        self._saved = True
        end = time.perf_counter()
        self._save_at = end + max(SAVE_SECONDS, (end - start) / SAVE_SHARE)

    def _restore(self) -> None:
        hint = "Give --no-resume to start anew, or another folder"
        try:
            state = load(self.checkpoint)
            if state["parts"].keys() != self._parts.keys():
                raise KeyError(f"it has {', '.join(state['parts']) or 'no parts'}")
            for name, part in self._parts.items():
                part.load_state_dict(state["parts"][name])
            seed, offset = state["random"]
            default_generator.manual_seed(int(seed)).offset = int(offset)
            self.step = int(state["step"])
            if self.step < 0:
                raise ValueError(f"it is at step {self.step}")
            self.values = {
                str(name): [(int(step), float(value)) for step, value in as_tensor(points).tolist()]
                for name, points in state["values"].items()
            }
        except FileFormatError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            what = f"this checkpoint does not continue this script ({error})"
            raise FileFormatError(what, where=str(self.checkpoint), hint=hint) from error

    def draw(self) -> None:
        """loss.png with the logged numbers, if there are any and Pillow is installed."""
        if any(self.values.values()) and curves.can_draw():
            curves.loss_curve(self.folder / "loss.png", self.values, {}, self.folder.name)

    def advice(self) -> str:
        """How to go on after an interruption."""
        if not self._saved:
            return ""
        return f" at step {self.step}; {self.checkpoint} has the state, the same command continues"


def _check_whole(parts: dict[str, Any]) -> None:
    """OptionError for a model with parameters of which each process has a part."""
    for name, part in parts.items():
        parameters = part.parameters() if isinstance(part, Module) else ()
        if any(value.part is not None or not value.dense for value in parameters):
            raise OptionError(
                "has parameters that several processes divide, and this checkpoint is one file of whole ones",
                where=name, hint="Keep it with pyapp.distributed.checkpoint.save and load (docs/distributed.md)",
            )  # fmt: skip


@contextmanager
def running(run: Run) -> Iterator[Run]:
    """A context in which current_run() is `run`; seeds the default generator. OptionError for an unknown device."""
    try:
        as_device(run.device)
    except ValueError as error:
        raise OptionError(str(error), where="device") from None
    default_generator.manual_seed(run.seed)
    _current.append(run)
    try:
        yield run
    finally:
        _current.pop()


def current_run() -> Run:
    """The run that `pyapp train` started; of a script that Python runs, one with the defaults in runs/NAME."""
    if not _current:
        name = Path(sys.argv[0] or "script").stem
        _current.append(Run(Path("runs") / name))
        default_generator.manual_seed(_current[0].seed)
    return _current[-1]


__all__ = ["Run", "current_run"]
