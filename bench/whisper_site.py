"""A site whose hub, on the same server, has a model of whisper-tiny's shape in q8_0, with a merge for each token."""

from __future__ import annotations

import hashlib
import json
from itertools import product
from pathlib import Path
from typing import Any

from e2e.speech_files import byte_letters, write_speech_model
from pyapp.engine import float16, float32
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.recipes.speech.export import as_blocks
from scripts.site_copy import copy_site

ID, TITLE, REPO = "tiny-q8", "Whisper tiny in q8_0", "bench/tiny"
ROLES = ("config", "generation_config", "tokenizer", "model")


def write_whisper_site(dist: Path, folder: Path) -> Path:
    """folder/site with the model in its registry, folder/hub with its files as huggingface.co lays them out."""
    files = folder / "hub" / REPO / "resolve" / "main"
    write_speech_model(files, state=384, layers=4, heads=6, vocabulary=51865)
    _pack(files / "model.safetensors")
    _spell(files / "tokenizer.json")
    registry = json.loads((dist / "registry.json").read_text())
    registry["models"].append({
        "id": ID, "title": TITLE, "description": "For benches.", "kind": "hub", "task": "transcribe", "license": "MIT",
        "repo": REPO, "revision": "main", "files": [_entry(files, role) for role in ROLES],
    })  # fmt: skip
    copy_site(dist, folder / "site", {"registry.json": json.dumps(registry).encode()})
    return folder


def _entry(folder: Path, role: str) -> dict[str, Any]:
    path = folder / ("model.safetensors" if role == "model" else f"{role}.json")
    data = path.read_bytes()
    return {"role": role, "path": path.name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _pack(path: Path) -> None:
    """Every matrix of a product in q8_0, as pyapp.recipes.speech.export writes it."""
    checkpoint = open_checkpoint(path)
    tensors, metadata = {}, {"format": "pt"}
    for name in checkpoint.tensors:
        value = checkpoint.read(name)
        if value.ndim == 2 and "embed_positions" not in name:
            tensors[name], metadata[name] = as_blocks(value.to(float32)), "q8_0"
        else:
            tensors[name] = value.to(float16)
    checkpoint.close()
    write_safetensors(path, tensors, metadata)


def _spell(path: Path) -> None:
    """Real tokenizers have a merge for each token: the fillers become pairs, and pairs of pairs, of letters."""
    document = json.loads(path.read_text())
    vocabulary = document["model"]["vocab"]
    letters = byte_letters()[33:127]
    pairs = [(a, b) for a, b in product(letters, letters) if a + b not in vocabulary]
    longer = ((a + b, c + d) for (a, b), (c, d) in product(pairs, pairs))
    merges = iter((*pairs, *(next(longer) for _ in vocabulary)))
    spelled, used = {}, []
    for text, number in vocabulary.items():
        if text.startswith("~") and text != "~":
            used.append(next(merges))
            text = "".join(used[-1])
        spelled[text] = number
    document["model"] |= {"vocab": spelled, "merges": [" ".join(pair) for pair in used]}
    path.write_text(json.dumps(document))
