"""Parts of pictures and the points that are found in them, against transformers (make_golden_poses.py)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import pyapp
from pyapp.vision.poses import part_of, points_of
from pyapp.vision.processors import ImageProcessor
from tests.models.seeded import shown
from tests.vision.processor_cases import pictures

BOXES = [[5.0, 3.0, 25.0, 27.0], [-4.0, 10.5, 30.0, 20.0], [2.0, 1.0, 9.5, 29.0]]  # one reaches out of the picture
SIZE = 32, 24


def likelihoods() -> np.ndarray:
    """float32 (boxes, 2 points, 8, 6) with peaks, one of them at the edge."""
    generator = np.random.Generator(np.random.Philox(key=5))
    y, x = np.mgrid[:8, :6]
    peaks = [[(2.3, 3.6), (5.1, 1.4)], [(0.2, 4.7), (3.9, 2.5)], [(6.6, 0.4), (4.4, 3.1)]]
    heat = [[np.exp(-((y - top) ** 2 + (x - left) ** 2) / 3) for top, left in row] for row in peaks]
    return (np.array(heat) + 0.01 * generator.random((3, 2, 8, 6))).astype(np.float32)


def test_poses_are_those_of_transformers() -> None:
    golden = json.loads(Path(__file__).with_name("golden_poses.json").read_text())
    processor = ImageProcessor.from_settings(
        {"image_processor_type": "VitPoseImageProcessor", "size": {"height": SIZE[0], "width": SIZE[1]}}
    )
    image = pyapp.from_numpy(pictures()[0])
    values = processor([part_of(image, box, *SIZE) for box in BOXES]).pixel_values.numpy()
    np.testing.assert_allclose(shown(values, 96), golden["values"], atol=1e-4)
    for heat, box, wanted in zip(likelihoods(), BOXES, golden["points"], strict=True):
        np.testing.assert_allclose(points_of(heat, box, *SIZE), wanted, rtol=1e-3, atol=1e-3)
