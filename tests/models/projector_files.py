"""Language models that see pictures as folders of Hugging Face's and as llama.cpp's two GGUF files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyapp.formats import open_checkpoint, write_gguf, write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.models import load_model
from pyapp.models.loading.writing_gguf import gguf_view
from tests.text.picture_chat_model import write_picture_chat_model

GOLDEN = Path(__file__).with_name("golden_projectors")
KINDS = ("llava", "idefics3", "gemma3", "qwen2_vl", "qwen2_5_vl")
MORE = ("qwen3_vl_moe", "qwen3_5", "mistral3", "internvl")  # whose files are read in the same ways
PROJECTOR = "mmproj-f16.gguf"


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Changes the metadata and the tensors of a GGUF file."""
    with open_checkpoint(path) as file:
        tensors: dict[str, Any] = {name: file.read(name) for name in file.tensors}
        values, types = dict(file.values), dict(file.types)  # type: ignore[attr-defined]
    before = dict(values)
    change(values, tensors)
    kept = {name: kind for name, kind in types.items() if name in values and values[name] == before[name]}
    write_gguf(path, tensors, values, kept)


def as_qwen_vl(values: dict[str, Any], tensors: dict[str, Any]) -> None:
    own = values["general.architecture"]
    new = {"qwen2": "qwen2vl", "qwen3moe": "qwen3vlmoe"}[own]
    for name in [name for name in values if name.startswith(f"{own}.")]:
        values[name.replace(f"{own}.", f"{new}.")] = values.pop(name)
    values |= {"general.architecture": new, f"{new}.rope.dimension_sections": [2, 1, 1, 0]}


def write_both(place: Path, kind: str) -> tuple[Path, Path]:
    """Writes both forms into `place`: (the folder of Hugging Face's, the one with the language model's GGUF file and
    the one of what sees, which make_golden_projectors.py wrote).
    """
    folder, text, both = write_picture_chat_model(place / "folder", kind), place / "text", place / "gguf"
    if kind == "gemma3":  # llama.cpp's layers without a window are those of published models
        config = json.loads((folder / "config.json").read_text())
        config["text_config"]["layer_types"] = ["sliding_attention"] * 3
        (folder / "config.json").write_text(json.dumps(config))
    language = load_model(folder).model.language_model  # type: ignore[attr-defined]
    text.mkdir()
    write_safetensors(text / "model.safetensors", dict(language.state_dict()))
    (text / "config.json").write_text(json.dumps(language.config.to_dict()))
    for name in ("tokenizer", "tokenizer_config", "chat_template"):
        shutil.copy(folder / f"{name}.json", text)
    both.mkdir()
    quantize_file(text / "model.safetensors", both / "model.gguf", "f32", view=gguf_view(text / "model.safetensors"))
    if kind.startswith("qwen") and kind != "qwen3_5":
        rewritten(both / "model.gguf", as_qwen_vl)
    shutil.copy(GOLDEN / f"mmproj-{kind}.gguf", both / PROJECTOR)
    return folder, both
