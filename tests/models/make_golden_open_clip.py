"""Makes golden_open_clip.json with OpenCLIP (pip install open_clip_torch), for OPEN_CLIP of picture_configs.py:

    PYTHONPATH=. python tests/models/make_golden_open_clip.py

The file has the names and shapes of the tensors, and the scores of two pictures and two texts. The weights are not
stored: seeded.py makes them here and in the test.
"""

from __future__ import annotations

from pathlib import Path

import torch
from open_clip.model import CLIP

from tests.goldens import write_json
from tests.models.picture_configs import OPEN_CLIP, TOKENS
from tests.models.seeded import picture, picture_weights, rounded

if __name__ == "__main__":
    own = OPEN_CLIP["model_cfg"]
    model = CLIP(own["embed_dim"], own["vision_cfg"], own["text_cfg"], quick_gelu=own["quick_gelu"]).float().eval()
    tensors = {name: list(value.shape) for name, value in model.state_dict().items()}
    with torch.no_grad():
        for name, value in model.state_dict().items():
            value.copy_(torch.from_numpy(picture_weights(name, tuple(value.shape))))
        side, words = own["vision_cfg"]["image_size"], torch.tensor([[*row, 0, 0, 0] for row in TOKENS])
        seen, read, scale = model(torch.from_numpy(picture(2, side, side)), words)[:3]
        scores = scale * seen @ read.T
    path = Path(__file__).with_name("golden_open_clip.json")
    write_json(path, {"tensors": tensors, "scores": rounded(scores)}, separators=(",", ":"))
