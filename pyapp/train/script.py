"""The run of a user's training script: steps that can be interrupted and continued, a loss curve, seed and device.

    from pyapp.train.script import current_run

    run = current_run()
    for step in run.steps(1000, model=model, optimizer=optimizer):
        …
        run.log(loss=loss)

`pyapp train SCRIPT.py --resume --seed 3` gives the run its settings; `python SCRIPT.py` runs it with the defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.device import as_device
from pyapp.engine.ops.random import default_generator
from pyapp.errors import FileFormatError, OptionError
from pyapp.events import Cancel
from pyapp.formats.torch_files import load, save

from . import curves
from .folders import prepare_folder

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

    def steps(self, total: int, *, save_every: int = 100, **parts: Any) -> Iterator[int]:
        """The numbers of the remaining steps, 1 … total. `parts` are what must be kept: anything with state_dict() and
        load_state_dict(), as models, optimisers, schedules.

        A checkpoint is written every `save_every` steps, after the last one, and at Ctrl-C, SIGTERM or SIGHUP, after
        the step in progress; then the script ends with KeyboardInterrupt. A second Ctrl-C ends it at once.
        FileFormatError for a checkpoint of another script.
        """
        if total < 0 or save_every < 1:
            raise OptionError("steps takes a number of steps from 0, and save_every from 1")
        prepare_folder(self.folder)
        self._parts = parts
        if self.checkpoint.exists():
            if self.resume:
                self._restore()
            else:
                self.checkpoint.replace(self.checkpoint.with_suffix(".previous"))
        cancel = Cancel()
        with cancel.set_by_interrupt(keeps_state=True):
            while self.step < total:
                yield self.step + 1
                self.step += 1
                stopped = cancel.is_set()
                if stopped or self.step == total or self.step % save_every == 0:
                    self.save()
                if stopped and self.step < total:
                    raise KeyboardInterrupt
        self.draw()

    def log(self, **values: Any) -> None:
        """Keeps numbers of the present step for the curve in loss.png: loss=0.3, held_out=tensor …"""
        for name, value in values.items():
            number = float(value.item()) if isinstance(value, Tensor) else float(value)
            self.values.setdefault(name, []).append((self.step + 1, number))

    def save(self) -> None:
        """Writes the checkpoint: the parts, the step, the logged numbers and the random state."""
        state = {
            "step": self.step,
            "values": self.values,
            "random": [default_generator.initial_seed(), default_generator.offset],
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
        }
        save(state, self.checkpoint)
        self._saved = True

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
                str(name): [(int(step), float(value)) for step, value in points]
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
