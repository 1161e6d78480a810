"""Makes golden_perceivers.json with transformers, of each class of perceiver_configs.py:

    PYTHONPATH=. python tests/models/make_golden_perceivers.py

It has the names and shapes of the parameters, and the outputs for two texts or pictures. The weights are not stored:
seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from tests.goldens import write_json
from tests.models.perceiver_configs import CONFIGS, IDS
from tests.models.seeded import picture, picture_weights, rounded, shown


def golden(kind: str) -> dict[str, Any]:
    _, values, size = CONFIGS[kind]
    config = {key: value for key, value in values.items() if key != "model_type"}
    model = getattr(transformers, f"PerceiverFor{kind}")(transformers.PerceiverConfig(**config)).float().eval()
    with torch.no_grad():
        for key, value in (*model.named_parameters(), *model.named_buffers()):
            if value.is_floating_point():
                value.copy_(torch.from_numpy(picture_weights(key, tuple(value.shape))))
        if size[0]:
            found = model(torch.from_numpy(picture(2, *size))).logits
        else:
            ids = torch.tensor(IDS)
            found = model(ids, attention_mask=(ids != 0).long()).logits[:, : ids.shape[1]]
    shapes = {key: list(value.shape) for key, value in model.named_parameters()}
    return {"parameters": shapes, "outputs": rounded(shown(found.numpy()))}


if __name__ == "__main__":
    target = Path(__file__).with_name("golden_perceivers.json")
    print(write_json(target, {kind: golden(kind) for kind in CONFIGS}, separators=(",", ":")))
