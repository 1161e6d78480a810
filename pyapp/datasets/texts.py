"""Texts: lines of files, windows of tokens, stories, and film reviews with their sentiment."""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError, OptionError
from pyapp.hub.address import hub_dataset_address
from pyapp.utils.data import Dataset, IterableDataset, get_worker_info

from .archives import members
from .files import AnyFolder, DataFile, obtain

LINE_LIMIT = 1 << 26  # bytes of one line
STORY_LIMIT = 1 << 26  # characters of one text
REVIEW_LIMIT = 1 << 20  # bytes of one review
STORY_END = "<|endoftext|>"
IMDB = DataFile(
    "aclImdb_v1.tar.gz", ("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",), 84125825,
    "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
)  # fmt: skip

AnyPaths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def _paths(given: AnyPaths, what: str) -> list[Path]:
    paths = [Path(p) for p in ([given] if isinstance(given, (str, os.PathLike)) else given)]
    if not paths:
        raise OptionError(f"{what}: takes the path of a file, or several")
    return paths


class TextLines(Dataset[str]):
    """The lines of text files (UTF-8), without their ends, by number. Only where lines begin is held in memory.

    FileNotFoundError for a missing file, FileFormatError for a line that is not UTF-8 or has more than 64 MiB.
    """

    def __init__(self, paths: AnyPaths) -> None:
        self.paths = _paths(paths, "TextLines")
        self._starts: list[array[int]] = []  # of each file: where its lines begin, and its end
        for path in self.paths:
            starts, at = array("q", [0]), 0
            with open(path, "rb") as file:
                while chunk := file.read(1 << 20):
                    starts.extend(at + match.end() for match in re.finditer(b"\n", chunk))
                    at += len(chunk)
            if starts[-1] != at:
                starts.append(at)
            self._starts.append(starts)
        self._ends = list(accumulate(len(starts) - 1 for starts in self._starts))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> str:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"TextLines: {index} is outside of {len(self):,} lines")
        which = bisect_right(self._ends, at)
        starts, path = self._starts[which], self.paths[which]
        line = at - (self._ends[which - 1] if which else 0)
        count = starts[line + 1] - starts[line]
        where = f"{path}, line {line + 1:,}"
        if count > LINE_LIMIT:
            raise FileFormatError(f"the line has {count:,} bytes, at most {LINE_LIMIT:,}", where=where)
        with open(path, "rb") as file:
            file.seek(starts[line])
            data = file.read(count)
        try:
            return data.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise FileFormatError(f"the line is not UTF-8 ({error.reason})", where=where) from error


class TokenWindows(Dataset[tuple[Tensor, Tensor]]):
    """Windows of a long row of token ids, for models that predict the next one: (ids, the ids that follow), both
    int64 (length,). Windows begin every `stride` tokens (default: `length`). A tail that is too short is left out.

    ids: a sequence, a tensor (T,), an array, or the path of a file of uint16 or uint32 (`dtype`), which is mapped into
    memory. OptionError if there are too few for one window.
    """

    def __init__(self, ids: Any, length: int, stride: int | None = None, dtype: str = "uint16") -> None:
        if isinstance(ids, (str, os.PathLike)):
            if dtype not in ("uint16", "uint32"):
                raise OptionError(f"TokenWindows: dtype is 'uint16' or 'uint32', not {dtype!r}")
            from numpy import memmap

            if Path(ids).stat().st_size % (2 if dtype == "uint16" else 4):
                raise FileFormatError(f"the size is not a multiple of {dtype}'s", where=str(ids))
            ids = memmap(ids, dtype, "r") if Path(ids).stat().st_size else []
        self.ids, self.length, self.stride = ids, length, length if stride is None else stride
        if length < 1 or self.stride < 1:
            raise OptionError(f"TokenWindows: length and stride are positive, not {length} and {stride}")
        if len(ids) <= length:
            raise OptionError(f"TokenWindows: windows of {length:,} need {length + 1:,} tokens, there are {len(ids):,}")

    def __len__(self) -> int:
        return (len(self.ids) - 1 - self.length) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"TokenWindows: {index} is outside of {len(self):,} windows")
        part = self.ids[at * self.stride : at * self.stride + self.length + 1]
        try:
            values = array("q", part.tolist() if hasattr(part, "tolist") else part)
        except (TypeError, OverflowError) as error:
            raise OptionError(f"TokenWindows: ids are whole numbers ({error})") from error
        ids = Tensor.from_buffer(values.tobytes(), (len(values),), "int64")  # (length + 1,)
        return ids[:-1], ids[1:]


class Stories(IterableDataset[str]):
    """Texts of one file with `end` between them, one after another. Each worker process takes its share.
    FileFormatError for a text of more than 64 Mi characters.
    """

    def __init__(self, path: str | os.PathLike[str], end: str = STORY_END) -> None:
        self.path, self.end = Path(path), end

    def __iter__(self) -> Iterator[str]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        lines: list[str] = []
        number = length = 0
        with open(self.path, encoding="utf-8", errors="replace") as file:
            while line := file.readline(STORY_LIMIT + 1):
                *ended, rest = line.split(self.end)
                for text in ended:
                    number = yield from self._one([*lines, text], number, first, step)
                    lines, length = [], 0
                lines.append(rest)
                length += len(rest)
                if length > STORY_LIMIT:
                    raise FileFormatError(
                        f"text {number + 1:,} has more than {STORY_LIMIT:,} characters", where=str(self.path),
                        hint=f"Put {self.end!r:.40} between texts, or give the end= that is there",
                    )  # fmt: skip
        yield from self._one(lines, number, first, step)

    @staticmethod
    def _one(lines: list[str], number: int, first: int, step: int) -> Any:
        """Yields the text if it is this worker's turn; returns the next number."""
        text = "".join(lines).strip()
        if not text:
            return number
        if number % step == first:
            yield text
        return number + 1


def tiny_stories(split: str = "train", *, folder: AnyFolder = None) -> Stories:
    """TinyStories (Eldan and Li 2023): 2.1 million short stories ("train", 1.9 GB) or 22,000 ("validation", 19 MB),
    from the hub, verified by its SHA-256. OptionError, DownloadError, StorageFullError.
    """
    if split not in ("train", "validation"):
        raise OptionError(f"split is 'train' or 'validation', not {split!r}", where="tiny_stories")
    name = "TinyStories-train.txt" if split == "train" else "TinyStories-valid.txt"
    file = DataFile(name, (hub_dataset_address("roneneldan/TinyStories", name),))
    return Stories(obtain("tiny-stories", file, folder))


class Reviews(Dataset[tuple[Any, int]]):
    """Texts with a class: (text or what `transform` makes of it, 0 or 1)."""

    classes = ("negative", "positive")

    def __init__(
        self, texts: Sequence[str], labels: Sequence[int], transform: Callable[[str], Any] | None = None
    ) -> None:
        self.texts, self.labels, self.transform = list(texts), list(labels), transform

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        text = self.texts[index]
        return (text if self.transform is None else self.transform(text)), self.labels[index]


def imdb(split: str = "train", *, transform: Callable[[str], Any] | None = None, folder: AnyFolder = None) -> Reviews:
    """Film reviews (Maas and others 2011): 25,000 for "train" or "test", half of them positive (1), in the order of
    their numbers, 84 MB. The archive is read without unpacking it to disk.
    """
    if split not in ("train", "test"):
        raise OptionError(f"split is 'train' or 'test', not {split!r}", where="imdb")
    path = obtain("imdb", IMDB, folder)
    pattern = re.compile(rf"aclImdb/{split}/(neg|pos)/(\d{{1,9}})_\d{{1,2}}\.txt")
    found: list[tuple[int, int, str]] = []
    for name, data in members(path, lambda name: pattern.fullmatch(name.removeprefix("./")) is not None, REVIEW_LIMIT):
        kind, number = pattern.fullmatch(name.removeprefix("./")).groups()  # type: ignore[union-attr]
        found.append((int(kind == "pos"), int(number), data.decode("utf-8", "replace")))
    if not found:
        raise FileFormatError(f"the archive has no reviews of {split!r}", where=str(path), hint="Download it again")
    found.sort()
    return Reviews([text for *_, text in found], [label for label, *_ in found], transform)
