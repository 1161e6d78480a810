"""The files of a model for a task: those that are given, or those of a folder or of the hub."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyapp import hub
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event
from pyapp.formats import ByteSource
from pyapp.formats.first_among_files import FirstAmongFiles
from pyapp.formats.part_names import INDICES, part_names
from pyapp.hub.resolver import choose_files, choose_model
from pyapp.models.load import read_settings
from pyapp.text.tokenization.tokenizer_files import MERGES, SETTINGS, TARGET, VOCABULARIES

from .heads import check_new_head, check_task, completed
from .sentence_folders import FILES

SOURCE_PIECES = "source.spm"  # of OPUS-MT, beside vocab.json
TOKENIZER_FILES = (*VOCABULARIES, *SETTINGS, MERGES, TARGET)
# The files of the tokenizer, which may lie in the folder of part 0, and of sentence-transformers.
MORE_FILES = re.compile(
    FILES + r"|(0_\w+/)?(" + "|".join(map(re.escape, (*TOKENIZER_FILES, SOURCE_PIECES))) + ")"
)  # fmt: skip


def files_of(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    check: Callable[[Mapping[str, Path]], None],
    report: Callable[[Event], None],
    cancel: Cancel,
    also: re.Pattern[str] | None = None,
) -> tuple[str, Mapping[str, Any]]:
    """The name of a model, and its files by role: those that are given, or those of a folder or of the hub, which
    `check` sees before the weights are downloaded (pyapp.hub.resolve).
    """
    if isinstance(source, Mapping):
        given = given_files(source, also)
        return given["model"].name, given
    return os.fspath(source), hub.resolve(source, report=report, cancel=cancel, check=check, also=also).files


def task_files(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    task: str | Callable[[Mapping[str, Any]], str],
    report: Callable[[Event], None],
    cancel: Cancel,
    also: re.Pattern[str] | None = None,
    new_head: bool = False,
) -> tuple[str, Mapping[str, Any], dict[str, Any]]:
    """As `files_of`, for a task, and the object of config.json; a model of another task is refused before its weights
    are downloaded, unless it gets a new head. task: or what names the task of such an object.
    """

    def suits(settings: Mapping[str, Any], where: str) -> None:
        wanted = task if isinstance(task, str) else task(settings)
        (check_new_head if new_head else check_task)(settings, where, wanted)

    def check(files: Mapping[str, Path]) -> None:
        if "config" in files:
            suits(completed(read_settings(files["config"])), str(files["config"]))

    name, files = files_of(source, check, report, cancel, also)
    settings = completed(settings_in(files, name))
    suits(settings, name)
    return name, files, settings


def settings_in(files: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object of config.json. ModelError where there is none."""
    if "config" not in files:
        raise ModelError(
            "its config.json is missing", where=name, hint="Give the folder that has it, or the hub's name"
        )
    return read_settings(files["config"])


def given_files(files: Mapping[str, ByteSource], also: re.Pattern[str] | None = None) -> dict[str, ByteSource]:
    """The files of a model by role, as pyapp.hub.resolve gives them, of its files by their paths in its folder."""
    weights = choose_model(files, "files")
    chosen = choose_files(files, weights)
    wanted = [MORE_FILES] if also is None else [MORE_FILES, also]
    chosen |= {path: path for path in files if any(pattern.fullmatch(path) for pattern in wanted)}
    found = {role: files[path] for role, path in chosen.items()}
    in_parts = weights in INDICES or part_names(weights)
    return found | {"model": FirstAmongFiles(weights, files)} if in_parts else found
