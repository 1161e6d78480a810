"""Makes golden.json with peft and transformers:

    PYTHONPATH=. python -m tests.adapters.make_golden

For each case it has adapter_config.json, the names and shapes of the tensors in adapter_model.safetensors, and logits.
Neither the models' weights nor the adapters' are stored: tests/models/seeded.py makes them here and in the tests.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

from tests.adapters.cases import CASES, TEXT
from tests.goldens import write_json
from tests.models.make_golden_decoders import model_of, rounded
from tests.models.seeded import draw

TARGET = Path(__file__).with_name("golden.json")
WITHOUT = ("peft_version", "revision")


def peft_model(name: str) -> Any:
    """The model of a case with its adapter, both with seeded weights."""
    base, settings = CASES[name]
    model = get_peft_model(model_of(base, 0), LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.requires_grad:
                known = key.replace(".default", "").replace(".modules_to_save", "").removesuffix("_vector.weight")
                known += "_vector" if known.endswith("lora_magnitude") else ""
                parameter.copy_(torch.from_numpy(draw(known, tuple(parameter.shape), 0)))
    return model


def case(name: str) -> dict[str, Any]:
    model = peft_model(name)
    with torch.no_grad():
        logits = model(torch.tensor([TEXT])).logits[0, ::5]
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tensors = load_file(Path(folder) / "adapter_model.safetensors")
        config = json.loads((Path(folder) / "adapter_config.json").read_text())
    if isinstance(config["target_modules"], list):  # a set of peft's, in another order each time
        config["target_modules"].sort()
    for key, value in tensors.items():
        own = key.replace("base_model.model.", "").replace("base_layer.", "") if "base_layer.weight" in key else key
        expected = draw(own, tuple(value.shape), 0)
        assert (value.numpy() == expected).all(), key
    return {
        "config": {key: value for key, value in config.items() if key not in WITHOUT},
        "shapes": {key: list(tensors[key].shape) for key in sorted(tensors)},
        "logits": rounded(logits[:, ::8].numpy()),
    }


if __name__ == "__main__":
    found = {name: case(name) for name in CASES}
    write_json(TARGET, found, separators=(",", ":"))
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")
