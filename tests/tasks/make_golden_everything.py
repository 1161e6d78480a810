"""Makes golden_everything.json with transformers' pipeline "mask-generation" and the small SAM of
tests/models/picture_configs.py: the masks of all objects of test_everything.py's pictures.

    PYTHONPATH=. python tests/tasks/make_golden_everything.py
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from PIL import Image
from transformers import SamImageProcessorPil, pipeline

from tests.goldens import write_json
from tests.models.make_golden_pictures import model_of
from tests.models.picture_folders import PROCESSORS
from tests.tasks.everything_cases import CASES, FACTOR, SCALED, photos

FILE = Path(__file__).with_name("golden_everything.json")


def golden() -> list[Any]:
    with TemporaryDirectory() as folder:
        model = model_of("sam", "mask-generation", Path(folder))[0].requires_grad_(False)
    for name, parameter in model.named_parameters():
        if re.fullmatch(SCALED, name):
            parameter.mul_(FACTOR)
    own = {name: value for name, value in PROCESSORS["sam"].items() if name != "image_processor_type"}
    segments = pipeline("mask-generation", model=model, image_processor=SamImageProcessorPil(**own), device="cpu")
    found = []
    for photo in photos():
        for case in CASES:
            made = segments(
                Image.fromarray(photo), points_per_crop=case["points_per_side"], pred_iou_thresh=case["score"],
                stability_score_thresh=case["stability"], crops_nms_thresh=case["overlap"],
            )  # fmt: skip
            masks = [mask if isinstance(mask, torch.Tensor) else torch.as_tensor(mask) for mask in made["masks"]]
            found.append({
                "scores": [float(f"{score:.6g}") for score in made["scores"].tolist()],
                "areas": [int(mask.sum()) for mask in masks],
                "places": [int((mask.reshape(-1) * torch.arange(mask.numel())).sum()) for mask in masks],
            })  # fmt: skip
    return found


if __name__ == "__main__":
    print(write_json(FILE, golden(), separators=(",", ":")))
