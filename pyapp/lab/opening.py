"""A button below a cell that opens files of the notebook in another view of the page."""

from __future__ import annotations

import os
from pathlib import Path

from pyapp.errors import OptionError

from .output import show

MOST_FILES = 100


def open_in(view: str, *paths: str | os.PathLike[str], label: str | None = None) -> None:
    """Shows a button that opens files in a view of the page: lab.open_in("story", "my-model").

    `view` is the name of the view in its address: "story", "chat", "search", "transcribe". `paths` are files in the
    folder of the notebook, or folders there with all their files: a folder with a model is opened as this model.
    `label` is the button's text. FileNotFoundError for a path that is not there, OptionError for one outside of the
    notebook's folder.
    """
    if not paths:
        raise TypeError("open_in: takes the files to open")
    here = Path.cwd().resolve()
    names: list[str] = []
    folder = None
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"open_in: there is no file or folder {os.fspath(path)!r}")
        if not path.resolve().is_relative_to(here):
            raise OptionError(
                "the page opens files in the folder of the notebook only", where=os.fspath(path),
                hint="Write the file without a path before its name",
            )  # fmt: skip
        inside = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        names += [file.resolve().relative_to(here).as_posix() for file in inside]
        if path.is_dir() and len(paths) == 1:
            folder = path.resolve().relative_to(here).as_posix()
    if not 1 <= len(names) <= MOST_FILES:
        raise OptionError(f"1 to {MOST_FILES} files can be opened, not {len(names):,}", where=os.fspath(paths[0]))
    text = label or f"Open {folder or ', '.join(names)} in the {view.capitalize()} view"
    output = {"kind": "open", "view": view, "files": names, "folder": folder, "label": text}
    show(output, f"[a button in the page: {text}]")
