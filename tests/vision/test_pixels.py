"""Pixels that the page hands over."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import pyapp
from pyapp.errors import FileFormatError, OptionError
from pyapp.formats.png import encode_png
from pyapp.vision import from_pixels, read_image


def test_pixels_of_a_canvas() -> None:
    rgba = np.array([[[10, 20, 30, 255], [10, 20, 30, 0]], [[0, 0, 0, 128], [200, 100, 50, 255]]], "uint8")
    white = [[[10, 20, 30], [255] * 3], [[127] * 3, [200, 100, 50]]]
    assert from_pixels(rgba.tobytes(), 2, 2).tolist() == white
    assert from_pixels(rgba.tobytes(), 2, 2, "RGBA").tolist() == rgba.tolist()
    assert from_pixels(rgba[1:, 1:].tobytes(), 1, 1, "L").tolist() == [[[124]]]
    for height, width, message in ((2, 3, "not 3 x 2 pixels"), (0, 0, "no pixels"), (1 << 20, 1 << 20, "at most")):
        with pytest.raises(FileFormatError, match=message):
            from_pixels(rgba.tobytes(), height, width)
    with pytest.raises(OptionError):
        from_pixels(rgba.tobytes(), 2, 2, "CMYK")


def test_files_are_read_here_too() -> None:
    """In the page by the browser, where it lets Python wait for its decoder."""
    colours = np.random.default_rng(3).integers(0, 256, (5, 7, 3), dtype="uint8")
    if sys.platform == "emscripten":
        from pyodide.ffi import can_run_sync

        if not can_run_sync():
            with pytest.raises(FileFormatError, match="asynchronously"):
                read_image(encode_png(colours))
            return
    else:
        pytest.importorskip("PIL.Image")
    found = read_image(encode_png(colours))
    assert found.dtype is pyapp.uint8 and found.tolist() == colours.tolist()
    with pytest.raises(FileFormatError):
        read_image(b"no picture")
