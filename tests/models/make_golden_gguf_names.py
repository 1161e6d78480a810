"""Makes golden_gguf_names.json with the gguf package: what llama.cpp calls each parameter of the decoders' first layer.

PYTHONPATH=. python tests/models/make_golden_gguf_names.py
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import gguf

from pyapp.models._index import MODEL_TYPES
from tests.models.decoder_configs import CONFIGS, IN_GGUF

TARGET = Path(__file__).with_name("golden_gguf_names.json")

if __name__ == "__main__":
    found: dict[str, dict[str, str]] = {}
    architectures = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    for name in IN_GGUF:
        form = importlib.import_module(f"pyapp.models.{MODEL_TYPES[CONFIGS[name]['model_type']]}").GGUF
        names = gguf.get_tensor_name_map(architectures[form.architecture], 2)
        parameters = json.loads((TARGET.parent / "golden_decoders" / f"{name}.json").read_text())["parameters"]
        own = {key: names.get_name(key, (".weight", ".bias")) for key in parameters}
        found.setdefault(form.architecture, {}).update(
            {key: value for key, value in own.items() if value and ".1." not in key and ".experts." not in key}
        )
    TARGET.write_text(json.dumps(found, indent=0) + "\n")
