"""Folders of transformers' models whose weights are drawn by their names, for the scripts that make golden files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file


def load_seeded(
    model: Any, folder: Path, weights: Callable[..., Any], drawn: Callable[[str], bool] = lambda key: True
) -> tuple[Any, dict[str, torch.Tensor]]:
    """A model of transformers that is saved in a folder, whose floats become weights(name, shape) where drawn(name),
    and that is loaded again, for inference and with plain attention; and its tensors by their names in the file.
    """
    model.float().save_pretrained(folder)
    stored = load_file(folder / "model.safetensors")
    for key, value in stored.items():
        if value.is_floating_point() and drawn(key):
            stored[key] = torch.from_numpy(weights(key, tuple(value.shape)))
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    return type(model).from_pretrained(folder, attn_implementation="eager").float().eval(), stored
