"""A model in memory as a folder that can be loaded: its weights, its configuration and its tokenizer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor
from pyapp.formats import write_llama2c, write_safetensors
from pyapp.formats.folders import made_folder
from pyapp.formats.sink import open_sink
from pyapp.models.load import LoadedModel
from pyapp.nn import Linear, Module
from pyapp.nn.state import all_tensors

SETTINGS = "tokenizer_config.json"
PYTORCH = {"format": "pt"}  # the metadata that transformers asks for


def write_model(loaded: LoadedModel, folder: str | os.PathLike[str]) -> Path:
    """Writes a language model into a folder, which is made if need be; returns the file of weights.

    Models of Hugging Face's become model.safetensors with config.json; block-quantised weights stay so, in a form that
    only pyapp reads. llama2.c's become a model.bin of float32. Both get tokenizer.json, and the chat template in
    tokenizer_config.json. OSError or StorageFullError.
    """
    model: Any = loaded.model
    with made_folder(folder) as place:
        if hasattr(model, "export_tensors"):
            file = place / "model.bin"
            write_llama2c(file, model.config.to_dict(), model.export_tensors(), version=1)
        else:
            file = place / "model.safetensors"
            write_safetensors(file, _tensors(model), PYTORCH)
            write_json(place / "config.json", _settings(model))
        loaded.tokenizer.save(place / "tokenizer.json")
        if loaded.tokenizer.settings:
            write_json(place / SETTINGS, loaded.tokenizer.settings)
    return file


def _settings(model: Any) -> dict[str, Any]:
    """The object of config.json. It says so where a head that shared the embedding's weight has its own by now."""
    found: dict[str, Any] = dict(getattr(model.config, "saved", model.config.to_dict)())
    head = getattr(model, getattr(model, "head_name", ""), None)
    if getattr(model.config, "tie_word_embeddings", False) and isinstance(head, Linear):
        found["tie_word_embeddings"] = head.weight is model.embedding.weight
    return found


def write_folder(
    model: Module, settings: Mapping[str, Any], files: Mapping[str, Path], folder: str | os.PathLike[str]
) -> Path:  # fmt: skip
    """As write_tensors, of all parameters and buffers of a model."""
    return write_tensors({name: value.detach() for name, value in all_tensors(model).items()}, settings, files, folder)


def write_tensors(
    tensors: Mapping[str, Tensor], settings: Mapping[str, Any], files: Mapping[str, Path],
    folder: str | os.PathLike[str],
) -> Path:  # fmt: skip
    """Writes the tensors of a model into a folder, which is made if need be; returns the file of weights. `settings`
    become config.json, `files` are copied to their paths below the folder: those of its tokenizer, its image processor,
    and of sentence-transformers. OSError or StorageFullError.
    """
    with made_folder(folder) as place:
        for name, source in files.items():
            target = place / name
            target.parent.mkdir(exist_ok=True)
            with open_sink(target) as file:
                file.write(source.read_bytes())
        weights = place / "model.safetensors"
        write_safetensors(weights, tensors, PYTORCH)
        write_json(place / "config.json", settings)
    return weights


def _tensors(model: Any) -> dict[str, Any]:
    """The parameters and buffers of a model, a shared one under the first of its names, as a head with the embedding's
    weight.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for name, value in all_tensors(model).items():
        if id(value) not in seen:
            seen.add(id(value))
            found[name] = value.detach()
    return model.exported(found) if hasattr(model, "exported") else found


def write_json(path: Path, value: Any) -> None:
    """Writes a value as indented JSON."""
    with open_sink(path) as file:
        file.write((json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n").encode())
