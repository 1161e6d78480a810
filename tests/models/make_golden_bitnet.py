"""Makes golden_bitnet.json with transformers: logits of BitNet's models in the forms of published files.

PYTHONPATH=. TORCHDYNAMO_DISABLE=1 python tests/models/make_golden_bitnet.py

The packed matrices are made of the seeded weights of "bitnet" of decoder_configs.py, and transformers packs them.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.bitnet import AutoBitLinear, pack_weights, replace_with_bitnet_linear
from transformers.utils.quantization_config import BitNetQuantConfig

from tests.goldens import write_json
from tests.models.decoder_configs import CONFIGS
from tests.models.seeded import draw

TEXT = [3, 17, 5, 60, 8, 44, 2, 9, 71, 30, 12, 1]
FORMS = {"factor": ("autobitlinear", "offline"), "inverse": ("bitlinear", "offline"),
         "rounded": ("autobitlinear", "online")}  # fmt: skip
FACTOR = 0.125


def logits(kind: str, mode: str) -> list[float]:
    config = dict(CONFIGS["bitnet"])
    made = AutoConfig.for_model(config.pop("model_type"), **config)
    model = AutoModelForCausalLM.from_config(made).float().eval()
    drawn = {key: torch.from_numpy(draw(key, tuple(x.shape), 0)) for key, x in model.named_parameters()}
    replace_with_bitnet_linear(model, ["lm_head"], BitNetQuantConfig(linear_class=kind, quantization_mode=mode))
    for path, module in model.named_modules():
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            key = f"{path}.{name}"
            if tensor is None or (key not in drawn and name != "weight_scale"):
                continue
            if name == "weight_scale":
                value = torch.tensor([FACTOR if kind == "autobitlinear" else 1 / FACTOR])
            elif mode == "offline" and "_proj." in key:
                value = (drawn[key] / drawn[key].abs().mean()).round().clamp(-1, 1)
                value = value if isinstance(module, AutoBitLinear) else pack_weights(value)
            else:
                value = drawn[key]
            (module._parameters if name in module._parameters else module._buffers)[name] = (
                torch.nn.Parameter(value) if name in module._parameters else value
            )
    with torch.no_grad():
        found = model(torch.tensor([TEXT])).logits[0, [0, -1]]
    return [float(f"{value:.6g}") for value in found.reshape(-1)]


if __name__ == "__main__":
    made = {form: logits(*modes) for form, modes in FORMS.items()}
    write_json(Path(__file__).with_name("golden_bitnet.json"), made, separators=(",", ":"))
