"""Makes golden_gguf_names.json and golden_gguf_encoder_names.json with the gguf package: what llama.cpp calls each
parameter of the decoders' first layer, and of encoders.

PYTHONPATH=. python tests/models/make_golden_gguf_names.py
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import gguf

from pyapp.models._index import MODEL_TYPES
from tests.models import test_gguf_encoders
from tests.models.decoder_configs import CONFIGS, IN_GGUF

TARGET = Path(__file__).with_name("golden_gguf_names.json")
ENCODERS = Path(__file__).with_name("golden_gguf_encoder_names.json")
# The names of Nomic BERT's parameters in its own files, which the gguf package knows.
OLDER = {"layers.": "encoder.layers.", "mlp.up_proj": "mlp.fc11", "mlp.gate_proj": "mlp.fc12",
         "mlp.down_proj": "mlp.fc2", "self_attn.o_proj": "attn.out_proj", "post_attention_layernorm": "norm1",
         "post_mlp_layernorm": "norm2"}  # fmt: skip
# Those of Jina Embeddings 3 in its own files.
FLASH = {"layers.": "encoder.layers.", "self_attn.o_proj": "mixer.out_proj", "post_attention_layernorm": "norm1",
         "post_mlp_layernorm": "norm2"}  # fmt: skip
EXPERTS = {
    "mlp.router": "mlp.router.layer", "mlp.experts.up_proj": "mlp.experts.mlp.w1.weight",
    "mlp.experts.down_proj": "mlp.experts.mlp.w2.weight", "mlp.up_proj": "mlp.fc1",
}  # fmt: skip


def encoder_names(name: str) -> dict[str, str]:
    """GGUF's name of each parameter of a configuration of test_gguf_encoders."""
    settings = test_gguf_encoders.CONFIGS[name]
    module = importlib.import_module(f"pyapp.models.{MODEL_TYPES[settings['model_type']]}")
    model = next(iter(module.TASKS.values()))(module.Config.from_dict(settings))
    form = module.GGUF.of(module.Config.from_dict(settings))
    known = gguf.get_tensor_name_map({n: i for i, n in gguf.MODEL_ARCH_NAMES.items()}[form.architecture], 2)
    found = {}
    for key in (key for key, _ in model.named_parameters()):
        older = key
        if name == "jina_embeddings_v3":
            for new, old in FLASH.items():
                older = older.replace(new, old, 1)
        if name.startswith("nomic"):
            for new, old in (EXPERTS if name == "nomic_moe" else {}).items():
                older = older.replace(new, old, 1)
            for new, old in OLDER.items():
                older = older.replace(new, old, 1)
        found[key] = known.get_name(older, (".weight", ".bias"))
    return {key: value for key, value in found.items() if value}


if __name__ == "__main__":
    found: dict[str, dict[str, str]] = {}
    architectures = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    for name in IN_GGUF:
        module = importlib.import_module(f"pyapp.models.{MODEL_TYPES[CONFIGS[name]['model_type']]}")
        form = module.GGUF.of(module.Config.from_dict(CONFIGS[name] | IN_GGUF[name]))
        names = gguf.get_tensor_name_map(architectures[form.architecture], 2)
        parameters = json.loads((TARGET.parent / "golden_decoders" / f"{name}.json").read_text())["parameters"]
        bare = ("sinks", "time_", "correct_output_scale")  # which llama.cpp's tool calls "….weight"
        called = {key: f"{key}.weight" if key.rpartition(".")[2].startswith(bare) else key for key in parameters}
        own = {key: names.get_name(name, (".weight", ".bias")) for key, name in called.items()}
        found.setdefault(form.architecture, {}).update(
            {key: value for key, value in own.items() if value and ".1." not in key and ".experts." not in key}
        )
    TARGET.write_text(json.dumps(found, indent=0) + "\n")
    ENCODERS.write_text(json.dumps({name: encoder_names(name) for name in test_gguf_encoders.CASES}, indent=0) + "\n")
