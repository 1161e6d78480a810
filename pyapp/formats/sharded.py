"""Checkpoints in several files, with model.safetensors.index.json or, of PyTorch's files, pytorch_model.bin.index.json:
read lazily, and written as safetensors.

Source of the format: huggingface_hub/serialization/_torch.py and transformers' save_pretrained. The index is a JSON
object of `metadata` (with `total_size`, the bytes of all tensors) and `weight_map`, from each tensor's name to the
name of its file beside the index: model-00001-of-00002.safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from pyapp.engine import quant
from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError

from .checkpoint import Checkpoint
from .first_among_files import FirstAmongFiles
from .part_names import INDICES
from .pytorch import PyTorchFile
from .safe_json import parse_json
from .safetensors import SafetensorsFile, write_safetensors
from .several_files import SeveralFiles
from .sink import open_sink
from .source import AnySource, ByteSource, FileSource, read_whole

SHARDS_LIMIT = 4096
NAME_LIMIT = 1000
FILE_NAME_LIMIT = 255  # bytes
HINT = "The index is damaged, or does not belong to these files: download all of them again"


def shard_names(source: ByteSource) -> list[str]:
    """The names of the files that an index maps tensors to; they are beside the index. FileFormatError if it
    is broken.
    """
    return _names(source, _index(source))


def _broken(source: ByteSource, what: str) -> NoReturn:
    raise FileFormatError(what, where=source.name, hint=HINT)


def _names(source: ByteSource, index: Mapping[str, Any]) -> list[str]:
    names = sorted(set(index["weight_map"].values()))
    if not names or len(names) > SHARDS_LIMIT:
        _broken(source, f"the index names {len(names):,} shards, expected 1 to {SHARDS_LIMIT:,}")
    return names


def _index(source: ByteSource) -> dict[str, Any]:
    text = read_whole(source)
    try:
        index = parse_json(text)
    except ValueError as error:
        _broken(source, f"the index is not JSON ({str(error)[:100]})")
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict):
        _broken(source, "the index has no weight_map")
    for tensor, name in places.items():
        plain = isinstance(name, str) and name.isprintable() and name not in ("", ".", "..")
        plain = plain and len(name.encode()) <= FILE_NAME_LIMIT
        if len(tensor) > NAME_LIMIT or not plain or any(c in name for c in "/\\:\0"):
            _broken(source, f"the index maps {tensor[:50]!r} to {str(name)[:50]!r}, which is not a file beside it")
    return dict(index)


class ShardedFile(SeveralFiles):
    """All tensors of an index. `shards(name)` opens a shard by its name; by default the file beside the index.

    `metadata` is that of the first shard and of the index. FileFormatError if a shard is missing, or has other tensors
    than those in the index.
    """

    WORD = "shard"

    def __init__(self, source: ByteSource, shards: Callable[[str], AnySource] | None = None) -> None:
        super().__init__(source)
        index = _index(source)
        opened: dict[str, Checkpoint] = {}
        try:
            for name in _names(source, index):
                reader = PyTorchFile if name.endswith(".bin") else SafetensorsFile
                opened[name] = self._open(name, shards or self._beside, reader)
            self._merge(opened, index)
        except BaseException:
            self._close_others()
            raise
        self.format = f"{self._others[0].format} in {len(opened)} shards"

    def _broken(self, what: str) -> NoReturn:
        _broken(self.source, what)

    def _beside(self, name: str) -> AnySource:
        if isinstance(self.source, FirstAmongFiles):
            return self.source.beside(name)
        if not isinstance(self.source, FileSource):
            self._broken("the index is not a file on disk, so its shards cannot be found: give ShardedFile `shards`")
        return self.source.path.with_name(name)

    def _merge(self, opened: Mapping[str, Checkpoint], index: Mapping[str, Any]) -> None:
        for tensor, name in index["weight_map"].items():
            info = opened[name].tensors.get(tensor)
            if info is None:
                self._broken(f"the shard {name!r} has no tensor {tensor[:100]!r}")
            self.tensors[tensor], self._file_of[tensor] = info, opened[name]
        first = self._others[0]
        noted = index.get("metadata")
        self.metadata = dict(first.metadata)
        self.metadata |= {k: str(v)[:NAME_LIMIT] for k, v in (noted if isinstance(noted, dict) else {}).items()}
        self.config = first.config


def write_sharded_safetensors(
    folder: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None, limit: int = 5 << 30
) -> Path:
    """Writes tensors to files of at most `limit` bytes of data each (or with one larger tensor), and the index. Returns
    the index. The index is written last, so its presence means that all files are complete. After an error those that
    are new are gone again.
    """
    if limit < 1:
        raise ValueError(f"write_sharded_safetensors: the limit is {limit} bytes")
    groups: list[dict[str, Tensor]] = [{}]
    filled = total = 0
    for name, tensor in tensors.items():
        size = _stored_bytes(tensor)
        if groups[-1] and filled + size > limit:
            groups.append({})
            filled = 0
        groups[-1][name] = tensor
        filled, total = filled + size, total + size
    index = Path(folder) / INDICES[0]
    files = {f"model-{n:05d}-of-{len(groups):05d}.safetensors": group for n, group in enumerate(groups, 1)}
    new = [path for path in map(Path(folder).joinpath, files) if not path.exists()]
    places = {name: file for file, group in files.items() for name in group}
    try:
        for file, group in files.items():
            write_safetensors(Path(folder) / file, group, metadata)
        text = json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=2) + "\n"
        with open_sink(index) as written:
            written.write(text.encode())
    except BaseException:
        for path in new:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        raise
    return index


def _stored_bytes(tensor: Tensor) -> int:
    """How many bytes of the file the tensor takes."""
    if not tensor.dtype.is_quantized:
        return tensor.nbytes

    return quant.packed_bytes(tensor.shape, tensor.dtype)
