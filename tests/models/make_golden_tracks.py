"""Makes golden_tracks.json with transformers: PYTHONPATH=. python tests/models/make_golden_tracks.py

It has, for each configuration of track_cases.py and each object, some logits of the mask in each frame, from the first
one on, then backward, and how surely the object is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.sam2_video.modeling_sam2_video import Sam2VideoInferenceSession

from tests.goldens import write_json
from tests.models.make_golden_diffusion import drawn
from tests.models.seeded import picture_weights, rounded, shown
from tests.models.track_cases import CASES, FIRST, OBJECTS, RAISED, video


def tracks(name: str) -> dict[str, Any]:
    model = drawn(transformers.Sam2VideoModel(transformers.Sam2VideoConfig(**CASES[name])))
    for own, buffer in model.named_buffers():
        if own in model.state_dict():
            buffer.copy_(torch.from_numpy(picture_weights(own, tuple(buffer.shape))))
    with torch.no_grad():
        model.mask_decoder.pred_obj_score_head.proj_out.bias += RAISED
    frames = torch.from_numpy(video())
    session = Sam2VideoInferenceSession(video=frames, video_height=32, video_width=32, dtype=torch.float32)
    for number, (points, labels, box) in enumerate(OBJECTS):
        corners = [] if box is None else [box[:2], box[2:]]
        given = {
            "point_coords": torch.tensor([[[*corners, *points]]], dtype=torch.float32),
            "point_labels": torch.tensor([[[*[2, 3][: len(corners)], *labels]]], dtype=torch.int32),
        }
        session.add_point_inputs(session.obj_id_to_idx(number), FIRST, given)
    session.obj_with_new_inputs = [*range(len(OBJECTS))]
    with torch.no_grad():
        found = [model(session, frame_idx=FIRST)]
        found += [*model.propagate_in_video_iterator(session)][1:]
        found += [*model.propagate_in_video_iterator(session, start_frame_idx=FIRST, reverse=True)][1:]
    return {
        "parameters": {key: list(value.shape) for key, value in model.state_dict().items()},
        "frames": [int(one.frame_idx) for one in found],
        "masks": [[rounded(shown(mask.numpy())) for mask in one.pred_masks] for one in found],
        "scores": [rounded(one.object_score_logits.numpy().reshape(-1)) for one in found],
    }  # fmt: skip


if __name__ == "__main__":
    path = Path(__file__).with_name("golden_tracks.json")
    write_json(path, {name: tracks(name) for name in CASES}, separators=(",", ":"))
    print(path.name, path.stat().st_size)
