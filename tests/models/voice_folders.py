"""Folders of models that speak, as Hugging Face's, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.formats import write_safetensors

Values = Callable[[str, tuple[int, ...]], Any]


def drawn(tensors: Mapping[str, Sequence[int]], values: Values) -> dict[str, pyapp.Tensor]:
    """The tensors that values(name, shape) gives for names and their shapes."""
    return {name: pyapp.from_numpy(np.asarray(values(name, tuple(shape)))) for name, shape in tensors.items()}


def write_folder(
    folder: Path, tensors: Mapping[str, pyapp.Tensor], config: Mapping[str, Any], **files: Any
) -> Path:  # fmt: skip
    """A folder with weights and a config.json; `files`: others by their names without .json, the text of one, or what
    JSON writes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors)
    for name, contents in {"config": config, **files}.items():
        (folder / f"{name}.json").write_text(contents if isinstance(contents, str) else json.dumps(contents))
    return folder


def voice_case(
    configs: Iterable[str], write: Callable[..., Path], golden: Callable[[str], Any], load: Callable[[Path], Any]
) -> Any:  # fmt: skip
    """A fixture for each configuration: its name, its golden values, what load(folder) gives of the folder that
    write(folder, name) makes, and the folder.
    """

    @pytest.fixture(scope="module", params=configs)
    def case(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> tuple[str, dict[str, Any], Any, Path]:
        folder = write(tmp_path_factory.mktemp("model"), request.param)
        return request.param, golden(request.param), load(folder), folder

    return case
