"""Load the ONNX networks beside a speech model by name: what detects speech, and what tells speakers apart."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from pyapp.errors import ModelNotFoundError
from pyapp.events import Cancel, Event

SUFFIX = ".onnx"
PREFERRED = ("onnx/model.onnx", "model.onnx")
HUB_ADDRESS = re.compile(r"/(?P<repo>[\w.-]+/[\w.-]+)/(?:resolve|blob|raw)/(?P<revision>[^/]+)/(?P<file>.+)")
HUB_FILE = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+(?:@[^:\\]+)?):(?P<file>[^:\\]+)")
HINT = "Give a file, owner/repo or owner/repo:file of the hub, or an address"


def choose_network(names: Sequence[str], where: str) -> list[str]:
    """The network of a folder, with the files of its external data: onnx/model.onnx, model.onnx or the only one."""
    networks = [name for name in names if name.endswith(SUFFIX)]
    chosen = next((name for name in PREFERRED if name in networks), None)
    if chosen is None and len(networks) == 1:
        (chosen,) = networks
    if chosen is None:
        what = f"there are several networks: {', '.join(networks[:8])}" if networks else f"there is no {SUFFIX} file"
        raise ModelNotFoundError(what, where=where, hint="Name one, as in owner/repo:file")
    return with_data(names, chosen)


def with_data(names: Sequence[str], chosen: str) -> list[str]:
    """The file, and those of its external data, which begin with its name."""
    return [chosen, *(name for name in names if name.startswith((f"{chosen}_data", f"{chosen}.data")))]


def find_network(
    name: str,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """The file of a network: a path, a folder, `owner/repo` or `owner/repo:file` on the hub (with a revision:
    owner/repo@revision), or an address. Downloads what is not in the cache (`cache_dir`, or the hub's).
    ModelNotFoundError, DownloadError, StorageFullError, Cancelled.
    """
    from pyapp import hub

    if not name:
        raise ModelNotFoundError("the name of the network is empty", hint=HINT)
    path = Path(name).expanduser()
    if path.is_file():
        return path
    address = urlsplit(name)
    if address.scheme in ("http", "https") and address.netloc:
        found = HUB_ADDRESS.fullmatch(unquote(address.path))
        if found is None or address.netloc not in ("huggingface.co", "hf.co"):
            return fetch_network(name, report, cancel, cache_dir)
        name = f"{found['repo']}@{found['revision']}:{found['file']}"
    file = HUB_FILE.fullmatch(name)
    repo, wanted = (file["repo"], file["file"]) if file else (name, None)
    if not path.is_dir() and not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*(@.+)?", repo):
        raise ModelNotFoundError("there is no such file", where=name or '""', hint=HINT)

    def choose(names: Sequence[str]) -> list[str]:
        if wanted is None:
            return choose_network(names, repo)
        if wanted not in names:
            networks = ", ".join(known for known in names if known.endswith(SUFFIX)) or "none"
            raise ModelNotFoundError(
                f"the repository has no file {wanted!r}; its networks are {networks:.400}", where=repo
            )
        return with_data(names, wanted)

    files = hub.resolve_files(repo, choose, report=report, cancel=cancel, cache_dir=cache_dir)
    return next(iter(files.values()))


def fetch_network(
    url: str,
    report: Callable[[Event], None] | None,
    cancel: Cancel | None,
    cache_dir: str | os.PathLike[str] | None,
) -> Path:
    """The file at an address that is not the hub's, from `cache_dir` or pyapp's own cache. It is not verified."""
    from pyapp import hub

    folder = cache_dir or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pyapp"
    name = PurePosixPath(unquote(urlsplit(url).path)).name.replace("\\", "_") or "network"
    place = f"networks/{hashlib.sha256(url.encode()).hexdigest()[:16]}/{name}"
    return hub.fetch_address([url], place, sha256="", report=report, cancel=cancel, cache_dir=folder)


def load_network(
    source: Any, *, report: Callable[[Event], None] | None = None, cancel: Cancel | None = None
) -> tuple[Any, str]:
    """(the ONNX module, its name) of what `find_network` takes, a hub.NameIn, bytes, or a ByteSource; modules are
    returned as they are. FileFormatError for other files, ModelError for networks that cannot be run, and what
    find_network raises.
    """
    from pyapp import hub, onnx

    if isinstance(source, onnx.OnnxModule):
        return source, "model"
    if isinstance(source, hub.NameIn):
        here = source.here
        found = find_network(source.name if here is None else str(here), report, cancel, source.folder)
        return onnx.load(found), source.name
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        return onnx.load(find_network(name, report, cancel)), name
    return onnx.load(source), getattr(source, "name", "model")
