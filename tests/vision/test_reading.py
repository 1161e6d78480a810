"""Pictures from files: Pillow's modes, orientation, transparency, and files that are damaged or hostile."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.errors import FileFormatError, OptionError
from pyapp.vision import read_image

pytestmark = pytest.mark.native_only
Image = pytest.importorskip("PIL.Image")


def saved(picture: Any, kind: str = "PNG", **settings: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **settings)
    return file.getvalue()


def pixels(source: Any, mode: str = "RGB") -> Any:
    return read_image(source, mode).numpy()


def test_modes_become_red_green_and_blue(tmp_path: Path) -> None:
    """A palette, grey, one bit, 16 bits, CMYK, and transparent pixels on white; as a path and as bytes."""
    colours = np.random.default_rng(3).integers(0, 256, (5, 7, 3), dtype="uint8")
    picture = Image.fromarray(colours)
    (tmp_path / "a.png").write_bytes(saved(picture))
    assert (pixels(tmp_path / "a.png") == colours).all() and (pixels(saved(picture, "BMP")) == colours).all()
    grey = np.asarray(picture.convert("L"))
    assert (pixels(saved(picture), "L")[:, :, 0] == grey).all()
    assert (pixels(saved(picture.convert("L"))) == grey[:, :, None]).all()
    indexed = picture.convert("P", palette=Image.Palette.ADAPTIVE)
    assert (pixels(saved(indexed)) == np.asarray(indexed.convert("RGB"))).all()
    assert set(pixels(saved(picture.convert("1"))).reshape(-1)) == {0, 255}
    wide = Image.fromarray(np.array([[0, 257, 32768, 65535]], "uint16"))
    for kind in ("PNG", "TIFF"):
        assert pixels(saved(wide, kind))[0, :, 0].tolist() == [0, 1, 128, 255]
    cyan = Image.new("CMYK", (2, 2), (255, 0, 0, 0))
    assert pixels(saved(cyan, "TIFF"))[0, 0].tolist() == [0, 255, 255]
    clear = Image.fromarray(np.array([[[10, 20, 30, 0], [10, 20, 30, 255], [0, 0, 0, 128]]], "uint8"))
    assert pixels(saved(clear))[0].tolist() == [[255] * 3, [10, 20, 30], [127] * 3]
    assert pixels(saved(clear), "RGBA")[0, 0].tolist() == [10, 20, 30, 0]
    hidden = Image.new("P", (1, 1), 1)
    hidden.putpalette([0, 0, 0, 9, 9, 9])
    assert pixels(saved(hidden, transparency=1)).tolist() == [[[255] * 3]]


def test_orientation_and_the_first_frame() -> None:
    picture = Image.fromarray(np.arange(18, dtype="uint8").reshape(2, 3, 3))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn to the right
    assert (pixels(saved(picture, exif=exif)) == np.rot90(np.asarray(picture), -1)).all()
    frames = [Image.new("RGB", (4, 3), colour) for colour in ("red", "blue")]
    animated = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert pixels(animated).shape == (3, 4, 3) and pixels(animated)[0, 0].tolist() == [255, 0, 0]


def png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def test_damaged_and_hostile_files_are_refused(tmp_path: Path) -> None:
    whole = saved(Image.effect_noise((40, 30), 50).convert("RGB"), "JPEG")
    for data, message in (
        (b"", "empty"), (b"hello, no picture", "not a picture"), (whole[: len(whole) // 2], "ends too early"),
        (png(30_000, 30_000, b""), "900,000,000 pixels, at most"), (png(50_000, 3_000, b"\0" * 99), "at most"),
        (png(0, 0, b""), "no(t a picture| pixels)"), (png(9, 9, b"\0" * 20), "ends too early"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
    ):  # fmt: skip
        with pytest.raises(FileFormatError, match=message):
            read_image(data)
    for kind in ("PNG", "GIF", "BMP", "WEBP", "TIFF"):
        data = saved(Image.effect_noise((20, 20), 50).convert("RGB"), kind)
        for cut in range(1, len(data), max(1, len(data) // 25)):
            try:
                found = read_image(data[:cut])
            except FileFormatError:
                continue
            assert found.shape == (20, 20, 3), (kind, cut)  # a trailer alone is missing
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "missing.png")
    with pytest.raises(OptionError, match="RGB"):
        read_image(whole, "HSV")
