"""Trains a model further as a classifier of files, pictures or recordings, that lie in a folder for each class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.datasets.folders import ClassFolder
from pyapp.engine.ops.random import default_generator
from pyapp.errors import FileFormatError
from pyapp.events import Event, Progress
from pyapp.models.load import read_settings
from pyapp.models.loading.writing_folder import write_folder

from .examples import digest_of
from .steps import Request
from .whole import LabelTraining, WholeSettings, check_choice, labels_for

PROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True, eq=False)
class Classified:
    """A file, and the number of its label."""

    path: Path
    target: int


class FolderTraining(LabelTraining):
    """Base: files and their labels."""

    kind: str
    """What the files are: "picture"."""
    suffixes: Sequence[str]

    @classmethod
    def load(cls, request: Request, labels: Sequence[str]) -> Any:
        """The model, with a new head for these labels where its own does not fit them."""
        raise NotImplementedError

    @classmethod
    def check(cls, loaded: Any, rows: Sequence[Classified], request: Request) -> Iterator[Event]:
        """Looks at all files before the first step."""
        return iter(())

    def export(self) -> None:
        """Writes the model's folder."""
        beside = {PROCESSOR: self.files["preprocessor_config"]} if "preprocessor_config" in self.files else {}
        write_folder(self.model, self.config(), beside, self.folder)

    @classmethod
    def finetune(cls, request: Request, kind: type[WholeSettings]) -> Iterator[Event]:
        """Trains a model further on a folder with a folder of files for each class: Progress, Metric and finally
        Done."""
        chosen = request.settings_as(kind)
        yield Progress(f"reading the {cls.kind}s", 0, 1)
        data = ClassFolder(request.data, cls.suffixes, cls.kind)
        more = {"data": digest_of_folder(data)}
        yield Progress("loading the model", 0, 1)
        labels = labels_for(tuple(data.classes), read_settings(request.files["config"]), cls.task)
        check_choice(labels, request.data)
        default_generator.manual_seed(chosen.seed)  # of the new layers
        loaded = cls.load(request, labels)
        rows, held_out = rows_of(data, labels), None
        if request.held_out_data is not None:
            judged = ClassFolder(request.held_out_data, cls.suffixes, cls.kind)
            more["held_out_data"] = digest_of_folder(judged)
            held_out = rows_of(judged, labels)
        yield from cls.check(loaded, [*rows, *(held_out or ())], request)
        yield from cls.started(request, request.settings_as(kind, **more), loaded, rows, held_out)


def digest_of_folder(data: ClassFolder) -> str:
    """The SHA-256 of the files' paths and bytes."""
    found = sha256()
    for path, _ in data.samples:
        found.update(f"{path.relative_to(data.folder).as_posix()} {digest_of(path)}\n".encode())
    return found.hexdigest()


def rows_of(data: ClassFolder, labels: Sequence[str]) -> list[Classified]:
    """The files with the numbers of their labels."""
    numbers = {label: number for number, label in enumerate(labels)}
    unknown = next((name for name in data.classes if name not in numbers), None)
    if unknown is not None:
        raise FileFormatError(f"the class {unknown!r:.60} is not among those to train on", where=str(data.folder))
    return [Classified(path, numbers[data.classes[number]]) for path, number in data.samples]
