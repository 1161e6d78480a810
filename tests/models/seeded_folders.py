"""Models of torch whose weights are drawn by their names, for the scripts that make golden files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.models.seeded import direction

Values = Callable[[str, tuple[int, ...]], Any]


def configuration(config: Mapping[str, Any], eager: bool = False, **more: Any) -> Any:
    """The configuration of transformers that a config.json's fields, and `more`, give; eager: with plain attention."""
    made = transformers.AutoConfig.for_model(**config, **more)
    if eager:
        made._attn_implementation = "eager"
    return made


def load_seeded(
    model: Any, weights: Values, drawn: Callable[[str], bool] = lambda key: True, folder: Path | None = None
) -> tuple[Any, dict[str, torch.Tensor]]:
    """A model of transformers that is saved, in a folder if one is given, whose floats become weights(name, shape)
    where drawn(name), and that is loaded again, for inference and with plain attention; and its tensors by their names
    in the file.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as place:
            return load_seeded(model, weights, drawn, Path(place))
    model.float().save_pretrained(folder)
    stored = load_file(folder / "model.safetensors")
    for key, value in stored.items():
        if value.is_floating_point() and drawn(key):
            stored[key] = torch.from_numpy(weights(key, tuple(value.shape)))
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    return type(model).from_pretrained(folder, attn_implementation="eager").float().eval(), stored


def fill(model: Any, weights: Values) -> None:
    """Gives the floats of a model's state the values weights(name, shape)."""
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.from_numpy(np.asarray(weights(key, tuple(value.shape)))))


def along(x: torch.Tensor, name: str) -> torch.Tensor:
    """The product of a tensor with a fixed vector, as a loss."""
    return (x * torch.from_numpy(direction(name, tuple(x.shape))).float()).sum()
