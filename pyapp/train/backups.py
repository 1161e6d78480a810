"""The callback that keeps a training, so that an interrupted `fit` goes on."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..engine.ops.random import default_generator
from ..errors import FileFormatError
from ..formats import open_checkpoint, write_safetensors
from ..formats.folders import made_folder
from ..formats.safe_json import parse_json
from ..formats.sink import open_sink
from .callbacks import Callback, Logs

__all__ = ["BackupAndRestore"]


class BackupAndRestore(Callback):
    """Keeps the state of a training in a folder after each epoch: weights, optimiser, random numbers, and what the
    other callbacks count (their `backed_up`), such as the best loss so far. `fit` with the same folder goes on after
    the last epoch that was kept; what was done of an epoch that was interrupted is done again, so the result is that of
    one run on arrays. (A `datasets.Pipeline` has a state_dict() of its own.) At the end the files are removed, and the
    folder if it is then empty, unless `delete_checkpoint` is False.

    StorageFullError, or another OSError; FileFormatError for a damaged file.
    """

    keeps_others = True

    def __init__(
        self, backup_dir: str | Path, save_freq: str | int = "epoch", double_checkpoint: bool = False,
        delete_checkpoint: bool = True,
    ) -> None:  # fmt: skip
        if not str(backup_dir):
            raise ValueError("BackupAndRestore: backup_dir is a folder")
        if save_freq != "epoch":
            raise ValueError(f"BackupAndRestore: save_freq is 'epoch', not {save_freq!r}: an epoch is done as a whole")
        self.backup_dir, self.delete_checkpoint = Path(backup_dir), delete_checkpoint
        self._note = self.backup_dir / "training_metadata.json"
        self.others: list[Any] = []  # the callbacks of the same training

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._done = False
        if not self._note.is_file():
            return
        try:
            note = parse_json(self._note.read_bytes())
            epoch, file, random = int(note["epoch"]), str(note["file"]), note["random"]
            default = [int(random[0]), int(random[1])]
            counted = [(str(kind), dict(kept)) for kind, kept in note.get("callbacks", ())]
            arrays = str(note.get("arrays", ""))
            for name in (file, arrays):
                if Path(name).name != name:
                    raise ValueError(f"{name!r} is not a file of the folder")
        except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
            hint = "Delete the folder to start again"
            raise FileFormatError(f"this is not what BackupAndRestore writes ({error})", where=str(self._note),
                                  hint=hint) from error  # fmt: skip
        self.model.restore_training(self.backup_dir / file)
        self._count_on(counted, self.backup_dir / arrays if arrays else None)
        default_generator.set_state((default[0], default[1]))
        self.model.resume_epoch = epoch + 1

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._keep(epoch)
        self._done = epoch + 1 >= self.params.get("epochs", 0) or self.model.stop_training

    def _keep(self, epoch: int) -> None:
        state = default_generator.get_state()
        name = f"training-{uuid.uuid4().hex[:12]}"
        note: dict[str, Any] = {"epoch": epoch, "file": f"{name}.safetensors", "random": list(state)}
        note["callbacks"], arrays = self._counted()
        with made_folder(self.backup_dir):
            before = set(self.backup_dir.glob("training-*.safetensors"))
            self.model.save_training(self.backup_dir / f"{name}.safetensors")
            if arrays:
                note["arrays"] = f"{name}-callbacks.safetensors"
                write_safetensors(self.backup_dir / note["arrays"], arrays)
        with open_sink(self._note) as file:  # from here on the new files count
            file.write(json.dumps(note).encode())
        for path in before:
            path.unlink(missing_ok=True)

    def _counted(self) -> tuple[list[Any], dict[str, Any]]:
        """What the other callbacks have counted: the type and the numbers of each; the arrays of lists, by name."""
        counted: list[Any] = []
        arrays: dict[str, Any] = {}
        for place, other in enumerate(self.others):
            kept = {name: getattr(other, name, None) for name in getattr(other, "backed_up", ())}
            for name, value in list(kept.items()):
                if isinstance(value, list):
                    del kept[name]
                    arrays |= {f"{place}.{name}.{i}": array for i, array in enumerate(value)}
            counted.append([type(other).__name__, kept])
        return counted, arrays

    def _count_on(self, counted: Any, file: Path | None) -> None:
        """Gives the other callbacks what they had counted, if they are those of the training that was kept."""
        if [type(other).__name__ for other in self.others] != [kind for kind, _ in counted]:
            return
        lists: dict[str, list[Any]] = {}  # by the place of the callback and the attribute
        if file is not None:
            with open_checkpoint(file) as arrays:
                for key in sorted(arrays.tensors, key=lambda key: int(key.rpartition(".")[2])):
                    lists.setdefault(key.rpartition(".")[0], []).append(arrays.read(key).numpy())
        for place, (other, (_, kept)) in enumerate(zip(self.others, counted, strict=True)):
            for name in getattr(other, "backed_up", ()):
                if f"{place}.{name}" in lists or name in kept:
                    setattr(other, name, lists.get(f"{place}.{name}", kept.get(name)))

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self._done and self.delete_checkpoint:
            for path in (self._note, *self.backup_dir.glob("training-*.safetensors")):
                path.unlink(missing_ok=True)
            with suppress(OSError):  # files of others, which keep their folder
                self.backup_dir.rmdir()
