"""GGUF files in several parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pyapp
from pyapp.errors import FileFormatError
from pyapp.formats import open_checkpoint, write_gguf
from pyapp.formats.convert import quantize_file
from pyapp.formats.part_names import part_names

NAMES = [f"m-{number:05d}-of-00003.gguf" for number in (1, 2, 3)]


def write_parts(folder: Path, total: int = 5) -> dict[str, pyapp.Tensor]:
    """Three parts, of which the first has no tensors, as gguf-split --no-tensor-first-split writes them."""
    tensors = {f"t{i}": pyapp.arange(64.0).reshape(2, 32) + i for i in range(5)}
    for number, (name, chosen) in enumerate(zip(NAMES, ((), ("t0", "t1"), ("t2", "t3", "t4")), strict=True)):
        own = {"general.architecture": "llama", "llama.block_count": 1} if number == 0 else {}
        split = {"split.no": number, "split.count": 3, "split.tensors.count": total}
        write_gguf(folder / name, {key: tensors[key] for key in chosen}, own | split)
    return tensors


def test_any_part_opens_the_whole(tmp_path: Path) -> None:
    tensors = write_parts(tmp_path)
    for name in NAMES:
        with open_checkpoint(tmp_path / name) as checkpoint:
            assert checkpoint.values["llama.block_count"] == 1  # type: ignore[attr-defined]
            assert checkpoint.size == sum((tmp_path / part).stat().st_size for part in NAMES)
            assert checkpoint.format == "GGUF v3 in 3 parts" and "split.no" not in checkpoint.metadata
            for key, value in tensors.items():
                np.testing.assert_array_equal(checkpoint.read(key).numpy(), value.numpy())
                assert bytes(checkpoint.read_bytes(key)) == b"".join(map(bytes, checkpoint.read_pieces(key, 100)))
    quantize_file(tmp_path / NAMES[0], tmp_path / "whole.gguf", "q8_0")
    with open_checkpoint(tmp_path / "whole.gguf") as whole:
        assert whole.format == "GGUF v3" and {info.dtype for info in whole.tensors.values()} == {"q8_0"}


def test_parts_that_do_not_fit_are_named(tmp_path: Path) -> None:
    write_parts(tmp_path)
    parts = [(tmp_path / name).read_bytes() for name in NAMES]
    with pytest.raises(FileFormatError, match=r"one part of a model in several|does not say so"):
        open_checkpoint(parts[0])
    (tmp_path / NAMES[1]).write_bytes(parts[2])
    with pytest.raises(FileFormatError, match=r"'m-00002-of-00003.gguf' is part 3 of 3, expected part 2 of 3"):
        open_checkpoint(tmp_path / NAMES[0])
    (tmp_path / NAMES[1]).unlink()
    with pytest.raises(FileFormatError, match=r"the part 'm-00002-of-00003.gguf' is missing.*\n*.*into one folder"):
        open_checkpoint(tmp_path / NAMES[2])
    (tmp_path / "m.gguf").write_bytes(parts[1])
    with pytest.raises(FileFormatError, match="part 2 of 3 of a model, but its name does not say so"):
        open_checkpoint(tmp_path / "m.gguf")
    for key, value, told in (("general.architecture", "qwen2", "'qwen2', not 'llama'"), (
        "split.tensors.count", 6, "6, not 5"
    )):  # fmt: skip
        write_parts(tmp_path)
        split = {"split.no": 1, "split.count": 3, "split.tensors.count": 5}
        write_gguf(tmp_path / NAMES[1], {name: pyapp.ones(2, 32) for name in ("t0", "t1")}, split | {key: value})
        with pytest.raises(FileFormatError, match=f"'m-00002-of-00003.gguf' is a part of another model.*{told}"):
            open_checkpoint(tmp_path / NAMES[0])
    write_parts(tmp_path, total=7)
    with pytest.raises(FileFormatError, match="have 5 tensors, expected 7"):
        open_checkpoint(tmp_path / NAMES[0])


def test_names_of_parts() -> None:
    assert part_names("a/b-00002-of-00002.GGUF") == ["a/b-00001-of-00002.gguf", "a/b-00002-of-00002.gguf"]
    for name in ("m.gguf", "m-00003-of-00002.gguf", "m-00000-of-00002.gguf", "m-00001-of-99999.gguf", "m-1-of-2.gguf"):
        assert part_names(name) == []
