"""Writes a trained reader as a folder: model.safetensors in float16, and config.json."""

from __future__ import annotations

import json
from pathlib import Path

from pyapp.engine import float16
from pyapp.formats import write_safetensors
from pyapp.formats.sink import open_sink
from pyapp.models.ctc_reader import CtcReader


def export(folder: Path, model: CtcReader) -> None:
    """The model in evaluation, with the norms in the filters."""
    folded = model.folded()
    tensors = {name: value.detach().to(float16) for name, value in folded.named_parameters()}
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    with open_sink(folder / "config.json") as file:
        file.write(json.dumps(folded.config.to_dict(), ensure_ascii=False, indent=1).encode() + b"\n")
