"""Makes golden_poses.json with transformers' VitPoseImageProcessor (needs scipy and torchvision):

    PYTHONPATH=. python tests/vision/make_golden_poses.py

It has, for boxes in the first picture of processor_cases.py, some numbers of the parts that a model sees, and the
points that are found in drawn likelihoods.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from PIL import Image
from transformers import VitPoseImageProcessor

from tests.goldens import write_json
from tests.models.seeded import rounded, shown
from tests.vision.processor_cases import pictures
from tests.vision.test_poses import BOXES, SIZE, likelihoods

if __name__ == "__main__":
    processor = VitPoseImageProcessor(size={"height": SIZE[0], "width": SIZE[1]})
    boxes = np.array([[[left, top, right - left, bottom - top] for left, top, right, bottom in BOXES]])
    values = processor([Image.fromarray(pictures()[0])], boxes=boxes, return_tensors="np")["pixel_values"]
    outputs = SimpleNamespace(heatmaps=torch.from_numpy(likelihoods()))
    [poses] = processor.post_process_pose_estimation(outputs, boxes=boxes)
    golden = {
        "values": rounded(shown(values, 96)),
        "points": [
            [[*rounded(place), *rounded(score)] for place, score in zip(pose["keypoints"], pose["scores"], strict=True)]
            for pose in poses
        ],
    }
    write_json(Path(__file__).with_name("golden_poses.json"), golden, separators=(",", ":"))
