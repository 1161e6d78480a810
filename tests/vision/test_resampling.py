"""Resampling against Pillow, pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp.errors import ArgumentError
from pyapp.vision import resize
from pyapp.vision.resampling import NUMBERED

pytestmark = pytest.mark.native_only
Image = pytest.importorskip("PIL.Image")

SIZES = [((30, 41), (17, 64)), ((64, 50), (7, 50)), ((9, 120), (40, 33)), ((1, 1), (3, 2)), ((37, 23), (37, 23))]


@pytest.mark.parametrize("number", NUMBERED)
def test_every_filter_is_pillows(number: int) -> None:
    for source, target in SIZES:
        colours = np.random.default_rng(source[0]).integers(0, 256, (*source, 3), dtype="uint8")
        colours[: source[0] // 2] = np.where(
            colours[: source[0] // 2] > 127, 255, 0
        )  # beyond 0 and 255 with some filters
        expected = np.asarray(Image.fromarray(colours).resize(target[::-1], number))
        found = resize(pyapp.from_numpy(colours), *target, NUMBERED[number])
        assert found.dtype is pyapp.uint8 and (found.numpy() == expected).all(), (source, target)
    grey = pyapp.from_numpy(np.arange(12, dtype="uint8").reshape(3, 4, 1))
    assert resize(grey, 6, 2, NUMBERED[number]).shape == (6, 2, 1)


def test_other_tensors_and_sizes_are_refused() -> None:
    picture = pyapp.zeros(4, 4, 3, dtype="uint8")
    for wrong, size, method in (
        (picture.float(), (2, 2), "box"), (picture[0], (2, 2), "box"), (picture[:0], (2, 2), "box"),
        (picture, (0, 2), "box"), (picture, (1 << 20, 1 << 20), "box"), (picture, (2, 2), "cubic"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="resize"):
            resize(wrong, *size, method)
