"""Makes golden_perceivers/CLASS.json with transformers, for each class of perceiver_configs.py:

    PYTHONPATH=. python tests/models/make_golden_perceivers.py [CLASS …]

A file has the names and shapes of the parameters, and the outputs for two texts or pictures. seeded.py makes the
weights here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.goldens import write_each
from tests.models.perceiver_configs import CONFIGS, IDS, PICTURES
from tests.models.seeded import picture, picture_weights, rounded, shown


def golden(kind: str) -> dict[str, Any]:
    config = {key: value for key, value in CONFIGS[kind].items() if key != "model_type"}
    model = getattr(transformers, f"PerceiverFor{kind}")(transformers.PerceiverConfig(**config)).float().eval()
    with torch.no_grad():
        for key, value in (*model.named_parameters(), *model.named_buffers()):
            if value.is_floating_point():
                value.copy_(torch.from_numpy(picture_weights(key, tuple(value.shape))))
        if kind in PICTURES:
            found = model(torch.from_numpy(picture(2, *PICTURES[kind]))).logits
        else:
            ids = torch.tensor(IDS)
            found = model(ids, attention_mask=(ids != 0).long()).logits[:, : ids.shape[1]]
    shapes = {key: list(value.shape) for key, value in model.named_parameters()}
    return {"parameters": shapes, "outputs": rounded(shown(found.numpy()))}


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
