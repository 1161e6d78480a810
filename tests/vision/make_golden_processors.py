"""Makes golden_processors.json with transformers' image processors (those that compute with Pillow):

    PYTHONPATH=. python tests/vision/make_golden_processors.py [CASE …]

Pillow must be older than 13, which takes another order of the two passes for some sizes. The file has, for each case of
processor_cases.py and each batch, the shape, some of the numbers, and the mask's sum.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import transformers
from PIL import Image

from tests.goldens import write_json
from tests.models.seeded import shown
from tests.vision.processor_cases import CASES, TOGETHER, pictures


def whole(patches: np.ndarray, rows: int, columns: int, side: int) -> np.ndarray:
    """The picture (1, 3, H, W) of Qwen2-VL's patches, which have it twice."""
    if patches.ndim == 4:  # PaddleOCR-VL's, row by row
        x = patches.reshape(rows, columns, 3, side, side).transpose(2, 0, 3, 1, 4)
        return x.reshape(1, 3, rows * side, columns * side)
    x = patches.reshape(rows // 2, columns // 2, 2, 2, 3, 2, side, side)[:, :, :, :, :, 0]
    return x.transpose(4, 0, 2, 5, 1, 3, 6).reshape(1, 3, rows * side, columns * side)


def golden(name: str) -> list[Any]:
    kind, settings = CASES[name]
    made = getattr(transformers, f"{kind}ImageProcessorPil", None)  # some have only that of torchvision
    processor = (made or getattr(transformers, f"{kind}ImageProcessor"))(**settings)
    images = [Image.fromarray(picture) for picture in pictures(name)]
    rows = []
    for batch in [images] if name in TOGETHER else [[image] for image in images]:
        found = processor(batch, return_tensors="np" if made else "pt")
        if kind == "Fuyu":  # the whole patches that its processor takes of what is padded to the size
            side = processor.patch_size["height"]
            sides = [found[f"image_unpadded_{name}"][0][0] for name in ("heights", "widths")]
            high, wide = (-(-int(n) // side) * side for n in sides)
            found = {"pixel_values": np.asarray(found["images"][0][0])[None, :, :high, :wide]}
        if kind == "Aria":  # a square, and which pixels of it are the picture's
            high, wide = (int(seen.sum()) for seen in (found["pixel_mask"][0][:, 0], found["pixel_mask"][0][0]))
            high, wide = high + -high % 14, wide + -wide % 14
            found = {"pixel_values": found["pixel_values"][:, :, :high, :wide]}
        found = {key: value if made else value.float().numpy() for key, value in found.items()}
        if kind == "Pix2Struct":  # patches, each after its row and column
            patches, side = found["flattened_patches"][0], processor.patch_size["height"]
            high, wide = patches[:, :2].max(0).astype(int)
            one = patches[: high * wide, 2:].reshape(1, high, wide, side, side, 3).transpose(0, 5, 1, 3, 2, 4)
            found["pixel_values"] = one.reshape(1, 3, high * side, wide * side)
        values, mask = np.asarray(found["pixel_values"], np.float64), found.get("pixel_mask")
        if kind == "Mllama":  # of each picture all tiles that it may have
            values = values[0, 0, : found["num_tiles"][0][0]]
        values = values[0] if values.ndim == 5 else values  # the tiles of one picture
        if kind == "Idefics2":  # quarters, and the whole, of several sizes
            seen = np.asarray(found["pixel_attention_mask"])[0]
            sizes = [(int(m[:, 0].sum()), int(m[0].sum())) for m in seen]
            flat = [one[:, :high, :wide].reshape(-1) for one, (high, wide) in zip(values, sizes, strict=True)]
            rows.append([[len(flat)], [float(f"{v:.6g}") for v in shown(np.concatenate(flat), 96)], None])
            continue
        if kind == "Lfm2Vl":  # tiles, and the whole of another size: all numbers of (3, H, W) of each
            side, flat = processor.encoder_patch_size, []
            for rows_of, (high, wide) in zip(values, found["spatial_shapes"].astype(int), strict=True):
                one = rows_of[: high * wide].reshape(high, wide, side, side, 3).transpose(4, 0, 2, 1, 3)
                flat.append(one.reshape(-1))
            rows.append([[len(flat)], [float(f"{v:.6g}") for v in shown(np.concatenate(flat), 96)], None])
            continue
        if "spatial_shapes" in found:  # of SigLIP 2
            (high, wide), side = found["spatial_shapes"][0], processor.patch_size
            values = values[0, : high * wide].reshape(high, wide, side, side, 3).transpose(4, 0, 2, 1, 3)
            values = values.reshape(1, 3, high * side, wide * side)
        if kind == "Gemma4":  # after the patches of a picture is padding
            wide, high = found["image_position_ids"][0].max(0).astype(int) + 1
            one = values[0, : high * wide].reshape(high, wide, *[processor.patch_size] * 2, 3)
            values = one.transpose(4, 0, 2, 1, 3).reshape(1, 3, *(n * processor.patch_size for n in (high, wide)))
        if "image_grid_thw" in found:
            values = whole(values, *found["image_grid_thw"][0][1:], processor.patch_size)
        numbers = [float(f"{value:.6g}") for value in shown(values, 96)]
        rows.append([list(values.shape), numbers, None if mask is None else int(np.asarray(mask).sum())])
    return rows


if __name__ == "__main__":
    assert int(PIL.__version__.partition(".")[0]) < 13, f"needs Pillow before 13, got {PIL.__version__}"
    target = Path(__file__).with_name("golden_processors.json")
    made = {name: golden(name) for name in sys.argv[1:] or CASES}
    made = (json.loads(target.read_text()) if sys.argv[1:] else {}) | made
    write_json(target, made, separators=(",", ":"))
