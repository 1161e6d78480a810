"""Language models as ONNX files: a prompt, then a token at a time, beside whole texts."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import pyapp
from pyapp import no_grad
from pyapp.models._index import MODEL_TYPES
from pyapp.nn.recurrent.continued import kept_parts
from pyapp.tasks.onnx_forms import of_writer
from tests.models.decoder_configs import CONFIGS

# (file) → what computes the outputs of inputs by name, of which it takes those that the file has.
Opened = Callable[[Path], Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]]
TEXTS, LENGTH, PROMPT, PADDED = 3, 14, 6, 2


def small_model(name: str) -> Any:
    """The model of a configuration, with random weights that are large enough for answers to differ."""
    module = importlib.import_module(f"pyapp.models.{MODEL_TYPES[CONFIGS[name]['model_type']]}")
    model = module.TASKS["causal-lm"](module.Config.from_dict(CONFIGS[name])).eval()
    pyapp.manual_seed(0)
    with no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and not parameter.dtype.is_quantized:
                parameter.copy_(pyapp.randn(*parameter.shape) * 0.2)
    return model


def step_difference(model: Any, folder: Path, opened: Opened) -> float | None:
    """How far the file's logits (B, T, V) are from the model's, relative to the largest; the first text is padded at
    the left. None for a model that the file runs on whole texts alone.
    """
    kept = kept_parts(model)
    if kept is None:
        return None
    form = of_writer(model)
    form.write(folder, None)
    run, attends = opened(folder / form.name), any(part.of_tokens for part in kept)
    ids = pyapp.randint(3, 20, (TEXTS, LENGTH))
    mask = np.ones(ids.shape, "int64")
    mask[0, :PADDED] = 0
    places = np.maximum(mask.cumsum(1) - 1, 0)
    with no_grad():
        wanted = model(ids).numpy().copy()
        wanted[0, PADDED:] = model(ids[:1, PADDED:]).numpy()[0]
    past = {part.past: np.zeros([TEXTS, *(size or 0 for size in part.sizes)], "float32") for part in kept}
    found, at = [], 0
    for count in (PROMPT, *[1] * (LENGTH - PROMPT)):
        own = slice(at, at + count)
        seen = mask[:, : at + count] if attends else mask[:, own]
        given = {"input_ids": ids.numpy()[:, own], "attention_mask": seen, "position_ids": places[:, own]}
        logits, *present = run(given | past)
        past, at = dict(zip(past, present, strict=True)), at + count
        found.append(logits)
    off = np.abs(np.concatenate(found, 1) - wanted) * mask[:, :, None]
    return float(off.max() / max(1, np.abs(wanted).max()))
