"""GGUF files in several parts, NAME-00001-of-00003.gguf, as llama.cpp's gguf-split and the gguf package write them.

Source of the format: https://github.com/ggml-org/llama.cpp/blob/master/tools/gguf-split. The first part has the
metadata; each has `split.no` (from 0), `split.count` and `split.tensors.count` (of all parts), and tensors of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from pyapp.errors import FileFormatError

from .checkpoint import Checkpoint
from .first_among_files import FirstAmongFiles
from .gguf import GgufFile
from .part_names import part_names
from .several_files import SeveralFiles
from .source import AnySource, ByteSource, FileSource

KEYS = ("split.no", "split.count", "split.tensors.count")
# What tells one model from another. Parts after the first need not have it.
OF_THE_MODEL = ("general.architecture", "general.name", "general.uuid", KEYS[2])
HINT = "Put all parts of the model into one folder, with the names that they were published under"


def open_gguf(source: ByteSource) -> Checkpoint:
    """A GGUF file; if it is a part of one in several, all of them. FileFormatError if one is not beside it."""
    among = source if isinstance(source, FirstAmongFiles) else None
    file = GgufFile(source if among is None else among.file)
    if _split(file, "split.count", 1) <= 1:
        return file
    return ShardedGguf(file, None if among is None else among.beside)


def _split(file: GgufFile, key: str, default: int) -> int:
    value = file.values.get(key, default)
    return value if type(value) is int else default


class ShardedGguf(SeveralFiles):
    """All tensors of a model in several parts, and the metadata of its first part (without `split.…`), as in GgufFile.

    `first` is one of the parts, opened. `parts(name)` opens another one by its name; by default the file beside it.
    """

    WORD = "part"

    def __init__(self, first: GgufFile, parts: Callable[[str], AnySource] | None = None) -> None:
        super().__init__(first.source)
        count = _split(first, "split.count", 1)
        own = re.split(r"[/\\]", first.source.name)[-1]
        names = part_names(own)
        if len(names) != count:
            number = _split(first, "split.no", 0) + 1
            what = f"this is part {number:,} of {count:,} of a model, but its name does not say so"
            self._broken(what, "Name the parts NAME-00001-of-00003.gguf and so on")
        opened: list[GgufFile] = []
        try:
            for number, name in enumerate(names):
                opened.append(first if name == own else self._open(name, parts or self._beside, GgufFile))
                self._check(opened[-1], name, number, count)
            self._merge(opened)
        except BaseException:
            self._close_others()
            raise
        self.format = f"{first.format} in {count} parts"

    def _broken(self, what: str, hint: str = HINT) -> NoReturn:
        raise FileFormatError(what, where=self.source.name, hint=hint)

    def _beside(self, name: str) -> AnySource:
        if not isinstance(self.source, FileSource):
            self._broken("this is one part of a model in several; the others are not there", "Choose all of its parts")
        return self.source.path.with_name(name)

    def _check(self, part: GgufFile, name: str, number: int, count: int) -> None:
        found = tuple(_split(part, key, -1) for key in KEYS[:2])
        if found != (number, count):
            wanted = f"expected part {number + 1:,} of {count:,}"
            self._broken(f"{name!r} is part {found[0] + 1:,} of {found[1]:,}, {wanted}")

    def _merge(self, parts: Sequence[GgufFile]) -> None:
        first = parts[0]
        for part in parts:
            for key in OF_THE_MODEL:
                here, there = first.values.get(key), part.values.get(key)
                if None not in (here, there) and here != there:
                    own = re.split(r"[/\\]", part.source.name)[-1]
                    self._broken(f"{own!r} is a part of another model: its {key} is {there!r:.60}, not {here!r:.60}")
            for name, info in part.tensors.items():
                if name in self.tensors:
                    self._broken(f"the tensor {name[:100]!r} is in two parts")
                self.tensors[name], self._file_of[name] = info, part
        total = _split(first, KEYS[2], len(self.tensors))
        if total != len(self.tensors):
            self._broken(f"the parts have {len(self.tensors):,} tensors, expected {total:,}")
        self.version, self.alignment, self.config = first.version, first.alignment, first.config
        self.values: dict[str, Any] = {key: value for key, value in first.values.items() if key not in KEYS}
        self.types: dict[str, str] = {key: kind for key, kind in first.types.items() if key not in KEYS}
        self.metadata = {key: text for key, text in first.metadata.items() if key not in KEYS}
