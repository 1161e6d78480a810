"""Resolve a model's name to its files on disk.

A name is, in this order: a name of the registry (`stories`, `whisper-tiny`, `openai/whisper-tiny`), a file, a folder,
or a name on the hub: `owner/repo:file`, `owner/repo`, either with a revision as in `owner/repo@main:file`. Write
`./stories` for a file or folder with the name of a model of the registry.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from pyapp.dataclass import dataclass
from pyapp.errors import ModelNotFoundError
from pyapp.events import Cancel, Event
from pyapp.formats.part_names import INDICES, part_names
from pyapp.formats.source import open_regular

from .download import fetch, list_files
from .registry import ModelEntry, ModelFile, embedded_path, models

HUB_NAME = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(@(?P<revision>[\w./-]+?))?(:(?P<file>[^:\\]+))?")
# The address of a repository, or of a file in it, as a browser shows it or as llama.cpp and fsspec write it.
HUB_ADDRESS = re.compile(
    r"(https?://)?(www\.)?(huggingface\.co|hf\.co)/(?P<web>[\w.-]+/[\w.-]+)(/(blob|resolve|tree|raw)/(?P<revision>[^/?#]+)(/(?P<file>[^?#]+))?)?/?([?#].*)?"
    r"|hf://(?P<short>[\w.-]+/[\w.-]+)/?"
)
# Files of a model folder with a suffix of weights that are not weights.
_NOT_WEIGHTS = re.compile(
    r"voices/.*|tok.*|.*tokenizer\.bin|(.*[-._])?mmproj.*\.gguf|training_args\.bin|(optimizer|scheduler|scaler|rng_state.*)\.\w+|.*-of-\d+\.\w+",
    re.I,
)
USUAL = ("model.safetensors", "open_clip_model.safetensors")  # the preferred first
RARE = ".ckpt"  # of training, as a rule: it counts where there is nothing else
WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", RARE)
# Hugging Face's files beside the weights, by role, and the model of characters beside a reader's.
COMPANIONS = (
    {"open_clip_config.json": "config"}
    | {
        f"{role}.json": role
        for role in (
            "config",
            "generation_config",
            "preprocessor_config",
            "processor_config",
            "video_preprocessor_config",
            "tokenizer_config",
        )
    }
    | {"language.safetensors": "language"}
)

# Vision projectors, beside language models in GGUF files, and the part of their names that says the type.
PROJECTOR = re.compile(r"(.*[-._])?mmproj.*\.gguf", re.I)
TYPE = re.compile(r"[-._](f16|bf16|f32|i?q\d[\w.]*)(?=\.gguf$)", re.I)
TYPES = ("f16", "bf16", "q8_0", "f32")  # of several, the preferred first

Report = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a name by role ("model", "tokenizer", "config", "generation_config", "preprocessor_config",
    "processor_config", "video_preprocessor_config", "tokenizer_config", "language", "projector"; all but the model are
    optional), and the registry's entry, if any.
    """

    name: str
    files: Mapping[str, Path]
    entry: ModelEntry | None = None

    @property
    def model(self) -> Path:
        return self.files["model"]

    @property
    def tokenizer(self) -> Path | None:
        return self.files.get("tokenizer")


@dataclass(frozen=True, slots=True)
class NameIn:
    """A model's name and the folder that is used in place of the hub's cache: it has the files, as NAME or NAME.pt, or
    they are downloaded to it.
    """

    name: str
    folder: Path

    @property
    def here(self) -> Path | None:
        """The folder or file with that name in the folder."""
        if not self.name:
            return None
        places = (self.folder / self.name, self.folder / f"{self.name}.pt")
        return next((place for place in places if place.exists()), None)

    def __fspath__(self) -> str:
        return str(self.here or self.folder / self.name)


def resolve(
    name: str | os.PathLike[str],
    *,
    report: Report | None = None,
    cancel: Cancel | None = None,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    check: Callable[[Mapping[str, Path]], None] | None = None,
    also: re.Pattern[str] | None = None,
) -> ModelFiles:
    """The files of a model, downloaded if they are not in the cache. Blocks; `report` receives Progress events in
    bytes. `check` is called with the paths of the small files by role before the weights are downloaded; it may raise,
    so that nothing large is downloaded in vain. Further files of a folder or a repository whose paths match `also`, and
    which are at most one folder deeper than the model, are in the result under these paths.

    Raises ModelNotFoundError for an unknown name, DownloadError, StorageFullError, and Cancelled when `cancel` is set:
    the data so far is kept, and a later call continues. `offline` uses only the cache.
    """

    def get(file: ModelFile) -> Path:
        return fetch(
            file.repo, file.path, file.revision, size=file.size, sha256=file.sha256,
            report=report, cancel=cancel, offline=offline, cache_dir=cache_dir,
        )  # fmt: skip

    if isinstance(name, NameIn):
        cache_dir, name = name.folder, name.here or name.name
    text = os.fspath(name)
    entry = find_entry(text) if isinstance(name, str) else None
    if entry is not None and entry.files:
        return _of_entry(entry, get)
    text = text if entry is None else entry.repo
    if not text:
        raise _unknown(text)
    path = Path(text).expanduser()
    if path.is_dir():
        return _of_folder(text, path, also)
    if path.is_file():
        return _of_file(text, path, also)
    if path.exists():
        open_regular(path).close()  # a pipe or a device: opening it raises FileFormatError
    match = HUB_NAME.fullmatch(text)
    if not match:
        raise _unknown(text)
    repo, revision, file = match["repo"], match["revision"] or "main", match["file"]
    names = list_files(repo, revision, cancel=cancel, offline=offline, cache_dir=cache_dir)
    chosen = _file_of(names, file) if file else choose_model(names, f"{repo}@{revision}")
    chosen = next(iter(part_names(chosen)), chosen)
    if chosen not in names:
        raise ModelNotFoundError(
            f"the repository has no file {chosen!r}; it has {_listed(sorted(map(str, _weights(names))))}",
            where=repo,
            hint=_similar(chosen, names) or "Look at its files on the hub",
        )
    small = {role: path for role, path in choose_files(names, chosen).items() if role != "model"}
    found = {role: get(ModelFile(role, path, None, None, repo, revision)) for role, path in small.items()}
    if check is not None:
        check(found)
    found["model"] = get(ModelFile("model", chosen, None, None, repo, revision))
    for part in part_names(chosen)[1:]:  # they are placed beside the first
        get(ModelFile("part", part, None, None, repo, revision))
    for more in () if also is None else filter(also.fullmatch, names):
        found[more] = get(ModelFile(more, more, None, None, repo, revision))
    if PurePosixPath(chosen).name in INDICES:
        for shard in _shards(found["model"]):  # they are placed beside their index
            get(ModelFile("shard", str(PurePosixPath(chosen).with_name(shard)), None, None, repo, revision))
    return ModelFiles(text, found, entry)


def check_source(name: str) -> None:
    """ModelNotFoundError, with what to write instead, for what is neither a model of the registry nor a file or folder,
    and cannot be a name on the hub. Nothing is downloaded.
    """
    known = any(name in (entry.id, *entry.aliases) for entry in models()) or find_entry(name) is not None
    if not (name and (known or Path(name).expanduser().exists() or HUB_NAME.fullmatch(name))):
        raise _unknown(name)


def is_name(source: str | os.PathLike[str]) -> bool:
    """Whether it is a model's folder, or a name that no file has and that does not end as files do."""
    if not os.fspath(source):  # Path makes the present folder of it
        return False
    path = Path(source).expanduser()
    return path.is_dir() or (not path.exists() and path.suffix.lower() not in (*WEIGHTS, ".npz", ".npy", ".onnx"))


def resolve_files(
    name: str | os.PathLike[str],
    choose: Callable[[Sequence[str]], Sequence[str]],
    *,
    report: Report | None = None,
    cancel: Cancel | None = None,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> dict[str, Path]:
    """The files of a folder, or of a repository on the hub, whose paths `choose` picks among all, by these paths: for
    models of several parts. Errors are those of `resolve`.
    """
    text = os.fspath(name)
    folder = Path(text).expanduser()
    if folder.is_dir():
        names = sorted(path.relative_to(folder).as_posix() for path in folder.glob("**/*") if path.is_file())
        return {path: folder / path for path in choose(names)}
    match = HUB_NAME.fullmatch(text)
    if not match or match["file"] or folder.exists():
        raise _unknown(text)
    repo, revision = match["repo"], match["revision"] or "main"
    names = list_files(repo, revision, cancel=cancel, offline=offline, cache_dir=cache_dir)
    return {
        path: fetch(
            repo, path, revision, size=None, sha256=None, report=report, cancel=cancel, offline=offline,
            cache_dir=cache_dir,
        )
        for path in choose(sorted(names))
    }  # fmt: skip


def find_entry(name: str, task: str | None = None) -> ModelEntry | None:
    """The registry's entry with the name `name`, or with the model file `owner/repo:file` (its path, or its last part),
    or the only entry of the repository `owner/repo`. With a `task`, aliases ("turbo") are found too.
    """
    repo, _, file = name.partition(":")
    of_repo = []
    for entry in models():
        model = entry.file("model")
        if name == entry.id or (task == entry.task and name in entry.aliases):
            return entry
        if name == entry.repo and not entry.files:
            return entry
        if model and repo and model.repo == repo:
            of_repo.append(entry)
            if file and file in (model.path, PurePosixPath(model.path).name):
                return entry
    return of_repo[0] if len(of_repo) == 1 and not file else None


def _of_entry(entry: ModelEntry, get: Callable[[ModelFile], Path]) -> ModelFiles:
    found: dict[str, Path] = {}
    for file in sorted(entry.files, key=lambda file: file.size or 0):
        if entry.kind == "embedded":
            place = embedded_path(file)
            if place is None:
                raise ModelNotFoundError(
                    f"the embedded model is not installed: {file.path} is missing",
                    where=entry.id,
                    hint="Install the package again, or give the path of a model file",
                )
            found[file.role] = place
        else:
            found[file.role] = get(file)
    return ModelFiles(entry.id, found, entry)


def _of_folder(name: str, folder: Path, also: re.Pattern[str] | None) -> ModelFiles:
    names = _names_in(folder)
    if also is not None and not _weights(names):
        names += filter(also.fullmatch, _deeper_in(folder))
    return _in_folder(name, folder, choose_files(names, choose_model(names, str(folder))), also)


def _of_file(name: str, path: Path, also: re.Pattern[str] | None) -> ModelFiles:
    names = _names_in(path.parent)
    first = next((part for part in part_names(path.name)[:1] if part in names), path.name)
    return _in_folder(name, path.parent, choose_files(names, first), also)


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file()]


def _deeper_in(folder: Path) -> list[str]:
    """The files of a folder's folders, by their paths in it."""
    return [path.relative_to(folder).as_posix() for path in folder.glob("*/*") if path.is_file()]


def _in_folder(name: str, folder: Path, chosen: dict[str, str], also: re.Pattern[str] | None) -> ModelFiles:
    """The chosen files of a folder, and those that match `also`, by their paths in it."""
    if also is not None:
        chosen = chosen | {path: path for path in (*_names_in(folder), *_deeper_in(folder)) if also.fullmatch(path)}
    return ModelFiles(name, {role: folder / file for role, file in chosen.items()})


def _shards(index: Path) -> list[str]:
    from pyapp.formats.sharded import shard_names
    from pyapp.formats.source import FileSource

    with FileSource(index) as source:
        return shard_names(source)


def choose_files(names: Iterable[str], model: str) -> dict[str, str]:
    """The files that belong to the weights `model`, by role: those in the same folder."""
    names = list(names)
    folder = PurePosixPath(model).parent
    beside = {PurePosixPath(n).name: n for n in names if PurePosixPath(n).parent == folder}
    chosen = {"model": model} | {role: beside[file] for file, role in COMPANIONS.items() if file in beside}
    tokenizer, projector = choose_tokenizer(names, model), choose_projector(beside, model)
    chosen |= {"tokenizer": tokenizer} if tokenizer else {}
    return chosen | {"projector": beside[projector]} if projector else chosen


def _weights(names: Iterable[str]) -> list[str]:
    """The files of weights; of a GGUF file in several parts, the first."""
    found = [n for n in names if n.lower().endswith(WEIGHTS)]
    return [n for n in found if part_names(n)[:1] == [n] or not _is_other(n)]


def _file_of(names: Sequence[str], wanted: str) -> str:
    """The only GGUF file that is quantised as `wanted`, such as Q4_K_M, as llama.cpp and Ollama name it; without one,
    or where a file has that name, `wanted`.
    """
    quantised = re.compile(rf"(.*[-._])?{re.escape(wanted)}(-00001-of-\d+)?\.gguf", re.I)
    found = [name for name in _weights(names) if quantised.fullmatch(PurePosixPath(name).name)]
    return found[0] if len(found) == 1 and wanted not in names else wanted


def _is_other(name: str) -> bool:
    """Whether a file with a suffix of weights has something else, such as the vectors of a voice."""
    path = PurePosixPath(name)
    return any(_NOT_WEIGHTS.fullmatch(part) for part in (path.name, "/".join(path.parts[-2:])))


def choose_model(names: Iterable[str], where: str) -> str:
    """The file of the weights, or the index of several files; those of USUAL have priority. ModelNotFoundError for
    none, or several models.
    """
    names = list(names)
    candidates = _weights(names)
    for usual in USUAL:
        if usual in candidates:
            return usual
    for index in INDICES:
        if index in names:
            return index
    candidates = [name for name in candidates if not name.lower().endswith(RARE)] or candidates
    firsts = [candidate for candidate in candidates if candidate.startswith("0_")]  # part 0 of sentence-transformers
    if len(candidates) == 1 or len(firsts) == 1:
        return (firsts or candidates)[0]
    if candidates:
        raise ModelNotFoundError(
            f"there are several models: {_listed(sorted(candidates))}",
            where=where,
            hint="Name one, as in owner/repo:file or folder/file",
        )
    raise ModelNotFoundError(
        f"there is no file of weights ({', '.join(WEIGHTS)})",
        where=where,
        hint=f"Of a model in several parts, {INDICES[0]} is needed too",
    )


def choose_tokenizer(names: Iterable[str], model: str) -> str | None:
    """The tokenizer in the folder of `model`: STEM.tokenizer.json or .bin, tokenizer.json, tekken.json, RWKV's
    vocabulary or tokenizer.bin, or the only tok*.bin.
    """
    folder = PurePosixPath(model).parent
    beside = {PurePosixPath(n).name: n for n in names if PurePosixPath(n).parent == folder}
    stem = PurePosixPath(model).stem
    own = f"{stem}.tokenizer.json", f"{stem}.tokenizer.bin"
    for wanted in (*own, "tokenizer.json", "tekken.json", "rwkv_vocab_v20230424.txt", "tokenizer.bin"):
        if wanted in beside:
            return beside[wanted]
    others = [name for short, name in beside.items() if re.fullmatch(r"tok.*\.bin", short)]
    return others[0] if len(others) == 1 else None


def choose_projector(names: Iterable[str], model: str) -> str | None:
    """The vision projector ("mmproj-….gguf") of the GGUF file `model`, among the names in its folder: one that is named
    like the model, or the only one, in any of its types. None if there is none, or several of others.
    """
    own = PurePosixPath(model).name
    found: dict[str, list[str]] = {}  # by the name without its type
    for name in filter(PROJECTOR.fullmatch, names):
        found.setdefault(_plain(TYPE.sub("", name)), []).append(name)
    if PROJECTOR.fullmatch(own) or not own.lower().endswith(".gguf") or not found:
        return None
    near = [known for known in found if known and known in _plain(own)]
    if len(found) > 1 and len(near) != 1:
        return None
    kinds = found[near[0] if len(found) > 1 else next(iter(found))]

    def rank(name: str) -> tuple[int, str]:
        kind = TYPE.search(name)
        known = kind[1].lower() if kind else ""
        return TYPES.index(known) if known in TYPES else len(TYPES), name

    return min(kinds, key=rank)


def _plain(name: str) -> str:
    """A name without what says that it is a projector, its ending and its marks."""
    return re.sub(r"[\W_]|mmproj|\bmodel\b", "", name.lower().removesuffix(".gguf"))


def _listed(names: list[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more or "none that could be a model"


def _similar(name: str, names: Iterable[str]) -> str | None:
    close = difflib.get_close_matches(name, list(names), 1)
    return f"Did you mean {close[0]}?" if close else None


def _name_of_address(match: re.Match[str]) -> str:
    """The name of what a HUB_ADDRESS leads to."""
    revision, file = match["revision"], match["file"]
    named = f"@{revision}" if revision not in (None, "main") else ""
    return f"{match['web'] or match['short']}{named}{f':{file}' if file else ''}"


def _unknown(name: str) -> ModelNotFoundError:
    if address := HUB_ADDRESS.fullmatch(name):
        hint = f"Give its name on the hub: {_name_of_address(address)}"
        return ModelNotFoundError("this is an address, not a name", where=name, hint=hint)
    if "://" in name:
        hint = "Download the file and give its path, or give a name on the hub: owner/repo:file"
        return ModelNotFoundError("addresses are not opened", where=name, hint=hint)
    looks_like_path = name.startswith((".", "/", "~")) or Path(name).suffix.lower() in WEIGHTS or os.sep in name
    if looks_like_path:
        what, known = "there is no such file or folder", "Give a file, a folder or owner/repo:file"
    else:
        what = "no model has this name"
        known = "`pyapp models` lists the names; or give a file, a folder or owner/repo:file"
    close = _similar(name, [entry.id for entry in models()])
    return ModelNotFoundError(what, where=name or '""', hint=f"{close} {known}" if close else known)
