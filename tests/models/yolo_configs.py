"""Small YOLOs by name: the layers of Ultralytics' YAML files (what a layer reads, repeats, kind, arguments), and what
the head is for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LABELS = ("no", "perhaps", "yes")
SIZE = (64, 96)  # pixels (height, width) of the pictures whose outputs are compared
POINTS = [5, 3]


def _eighth(kind: str, head: list[Any]) -> dict[str, Any]:
    """Version 8, with another version's blocks if they are named."""
    split = [2, "C2f", [16, True]]
    backbone = [
        [-1, 1, "Conv", [8, 3, 2]], [-1, 1, "Conv", [12, 3, 2]], [-1, *split], [-1, 1, "Conv", [16, 3, 2]],
        [-1, *split], [-1, 1, "Conv", [16, 3, 2]], [-1, 1, "C2f", [24, True]], [-1, 1, "Conv", [24, 3, 2]],
        [-1, 1, "C2f", [24, True]],
    ]  # fmt: skip
    if kind == "classify":
        return {"nc": len(LABELS), "backbone": backbone, "head": [[-1, 1, *head]]}
    up, join = [-1, 1, "nn.Upsample", [None, 2, "nearest"]], "Concat"
    neck = [
        up, [[-1, 6], 1, join, [1]], [-1, 1, "C2f", [16]], up, [[-1, 4], 1, join, [1]], [-1, 2, "C2f", [12]],
        [-1, 1, "Conv", [12, 3, 2]], [[-1, 12], 1, join, [1]], [-1, 1, "C2f", [16]],
        [-1, 1, "Conv", [16, 3, 2]], [[-1, 9], 1, join, [1]], [-1, 1, "C2f", [24]],
        [[15, 18, 21], 1, *head],
    ]  # fmt: skip
    return {"nc": len(LABELS), "backbone": [*backbone, [-1, 1, "SPPF", [24, 5]]], "head": neck}


def _eleventh(head: list[Any]) -> dict[str, Any]:
    """Version 11, whose last layer of the backbone is wide enough for two heads of attention."""
    backbone = [
        [-1, 1, "Conv", [8, 3, 2]], [-1, 1, "Conv", [12, 3, 2]], [-1, 1, "C3k2", [16, False, 0.25]],
        [-1, 1, "Conv", [16, 3, 2]], [-1, 2, "C3k2", [24, False, 0.25]], [-1, 1, "Conv", [16, 3, 2]],
        [-1, 1, "C3k2", [16, True]], [-1, 1, "Conv", [16, 3, 2]], [-1, 1, "C3k2", [24, True]],
        [-1, 1, "SPPF", [256, 5]], [-1, 1, "C2PSA", [256]],
    ]  # fmt: skip
    up, join = [-1, 1, "nn.Upsample", [None, 2, "nearest"]], "Concat"
    neck = [
        up, [[-1, 6], 1, join, [1]], [-1, 1, "C3k2", [16, False]], up, [[-1, 4], 1, join, [1]],
        [-1, 1, "C3k2", [12, False]], [-1, 1, "Conv", [12, 3, 2]], [[-1, 13], 1, join, [1]],
        [-1, 1, "C3k2", [16, False]], [-1, 1, "Conv", [16, 3, 2]], [[-1, 10], 1, join, [1]],
        [-1, 1, "C3k2", [24, True]], [[16, 19, 22], 1, *head],
    ]  # fmt: skip
    return {"nc": len(LABELS), "backbone": backbone, "head": neck}


def _third(head: list[Any]) -> dict[str, Any]:
    """Version 3."""

    def filters(width: int, size: int, stride: int, reads: int = -1) -> list[Any]:
        return [reads, 1, "Conv", [width, size, stride]]

    def bottlenecks(width: int, times: int = 1, adds: bool = True) -> list[Any]:
        return [-1, times, "Bottleneck", [width] if adds else [width, False]]

    up, join = [-1, 1, "nn.Upsample", [None, 2, "nearest"]], "Concat"
    backbone = [
        filters(8, 3, 1), filters(8, 3, 2), bottlenecks(8), filters(8, 3, 2), bottlenecks(8, 2), filters(16, 3, 2),
        bottlenecks(16), filters(16, 3, 2), bottlenecks(16), filters(24, 3, 2), bottlenecks(24),
    ]  # fmt: skip
    neck = [
        bottlenecks(24, 1, False), filters(16, 1, 1), filters(24, 3, 1), filters(16, 1, 1), filters(24, 3, 1),
        filters(8, 1, 1, -2), up, [[-1, 8], 1, join, [1]], bottlenecks(16, 1, False), bottlenecks(16, 1, False),
        filters(8, 1, 1), filters(16, 3, 1), filters(8, 1, 1, -2), up, [[-1, 6], 1, join, [1]],
        bottlenecks(16, 1, False), bottlenecks(16, 2, False), [[27, 22, 15], 1, *head],
    ]  # fmt: skip
    return {"nc": len(LABELS), "backbone": backbone, "head": neck}


CONFIGS: dict[str, dict[str, Any]] = {
    "yolov8": {"model_type": "yolo", "task": "detect", "yaml": _eighth("detect", ["Detect", ["nc"]])},
    "yolo11": {"model_type": "yolo", "task": "detect", "yaml": _eleventh(["Detect", ["nc"]])},
    "yolo11_segment": {
        "model_type": "yolo", "task": "segment", "yaml": _eleventh(["Segment", ["nc", 6, 8]]),
    },
    "yolov8_pose": {
        "model_type": "yolo", "task": "pose",
        "yaml": _eighth("pose", ["Pose", ["nc", POINTS]]) | {"kpt_shape": POINTS},
    },
    "yolov3": {"model_type": "yolo", "task": "detect", "yaml": _third(["Detect", ["nc"]])},
    "yolov8_obb": {"model_type": "yolo", "task": "obb", "yaml": _eighth("obb", ["OBB", ["nc", 1]])},
    "yolov8_classify": {"model_type": "yolo", "task": "classify", "yaml": _eighth("classify", ["Classify", ["nc"]])},
}  # fmt: skip
PICKLED = ("yolov8_pose",)  # whose .pt file is in the golden file, without its weights
OTHER_DEVICE = ("yolo11_segment",)


def seen_picture(height: int, width: int) -> np.ndarray:
    """(height, width, 3) uint8, of smooth colours."""
    down, along = np.mgrid[0:height, 0:width]
    waves = [np.sin(down / a + along / b + c) for a, b, c in ((7, 11, 0), (5, -9, 1), (13, 6, 2))]
    return (127 + 110 * np.stack(waves, -1)).astype(np.uint8)


# The sizes (height, width) of pictures that are framed: smaller than the frame, as large, larger, and narrow.
FRAMED = ((20, 33), (100, 128), (250, 197), (9, 400))
SEEN = (100, 128)  # of the picture whose objects are compared
THRESHOLD = 0.48  # of their probabilities
