"""The registry of named models, pyapp/registry.json, which the page reads too, except its `names`: short names of
repositories, whose files the hub lists.

The four hub models were trained with Llama 2's tokenizer of 32,000 pieces (stories260K has another), which is not in
their repository. A public repository has the same vocabulary as tokenizer.json, which both tokenizer libraries read.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import DownloadError
from pyapp.formats.sink import open_sink

PACKAGE = Path(__file__).resolve().parents[1]

_fetch_embedded: Callable[[str], bytes] | None = None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a model. `role` is "model" (the weights), "tokenizer", "config", "generation_config" or
    "preprocessor_config"; `path` is inside the repository, or inside the site for embedded models; `size` in bytes and
    `sha256` (hexadecimal) are None if unknown, and then the hub's values are used.
    """

    role: str
    path: str
    size: int | None
    sha256: str | None
    repo: str
    revision: str


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model of the registry; `kind` is "embedded" or "hub", `task` is "generate" (text), "transcribe" (speech) or
    "read" (pictures). `aliases` are its other names. Without files, it is what `repo` has.
    """

    id: str
    title: str
    description: str
    kind: str
    license: str
    files: tuple[ModelFile, ...]
    task: str = "generate"
    aliases: tuple[str, ...] = ()
    repo: str = ""

    def file(self, role: str) -> ModelFile | None:
        return next((file for file in self.files if file.role == role), None)

    def to_dict(self) -> dict[str, Any]:
        """JSON values: the fields without `files`, the repository, and the sum of the known sizes in bytes (None if
        that of the weights is unknown).
        """
        model = self.file("model")
        sizes = {file.role: file.size or embedded_size(file) for file in self.files}
        return {
            "id": self.id,
            "title": self.title,
            "description": self.description,
            "kind": self.kind,
            "task": self.task,
            "license": self.license,
            "bytes": sum(size or 0 for size in sizes.values()) if sizes.get("model") else None,
            "source": f"{model.repo}:{model.path}" if model and model.repo else self.repo or None,
        }


def models(task: str | None = None) -> tuple[ModelEntry, ...]:
    """The models of the registry for a task, or all of them, the embedded ones first."""
    return tuple(entry for entry in _read() if task in (None, entry.task))


def networks() -> dict[str, str]:
    """The repositories of ONNX networks beside speech models: "silero" finds speech, "speakers" tells voices apart."""
    return dict(_data()["networks"])


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(resources.files("pyapp").joinpath("registry.json").read_text(encoding="utf-8"))
    return data


@functools.cache
def _read() -> tuple[ModelEntry, ...]:
    named = ({"kind": "hub", "files": ()} | item for item in _data()["names"])
    return tuple(sorted(map(_entry, (*_data()["models"], *named)), key=lambda entry: entry.kind != "embedded"))


def _entry(item: dict[str, Any]) -> ModelEntry:
    files = tuple(
        ModelFile(
            role=file["role"],
            path=file["path"],
            size=file["size"],
            sha256=file["sha256"],
            repo=file.get("repo", item.get("repo", "")),
            revision=file.get("revision", item.get("revision", "")),
        )
        for file in item["files"]
    )
    return ModelEntry(
        item["id"], item["title"], item["description"], item["kind"], item["license"], files,
        item["task"], tuple(item.get("aliases", ())), item.get("repo", ""),
    )  # fmt: skip


def embedded_path(file: ModelFile) -> Path | None:
    """The path of an embedded file: inside the installed package, or in web/ of a checkout. None if it is missing.

    The page's wheel has no models: there the file is fetched from the site (`fetch_embedded_by`), once.
    """
    installed = PACKAGE / "embedded" / file.path
    for place in (installed, PACKAGE.parent / "web" / file.path):
        if place.is_file():
            return place
    if _fetch_embedded is None or not file.sha256:
        return None
    data = _fetch_embedded(file.path)
    if sha256(data).hexdigest() != file.sha256:
        raise DownloadError("the file is damaged, or of another version", where=file.path, hint="Reload the page")
    installed.parent.mkdir(parents=True, exist_ok=True)
    with open_sink(installed) as sink:  # an interruption must not leave a half, which would be taken for the file
        sink.write(data)
    return installed


def fetch_embedded_by(fetch: Callable[[str], bytes] | None) -> None:
    """Sets what fetches embedded files by their paths in the site, where the package does not have them."""
    global _fetch_embedded
    _fetch_embedded = fetch


def embedded_size(file: ModelFile) -> int | None:
    place = None if file.repo else embedded_path(file)
    return place.stat().st_size if place else None
