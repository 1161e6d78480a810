"""Frames of videos: of tensors, of files that FFmpeg's libraries and Pillow read, of folders; files that are none."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ArgumentError, FileFormatError
from pyapp.formats import BytesSource
from pyapp.formats.png import encode_png
from pyapp.vision import videos
from pyapp.vision.videos import chosen, read_frames


def moving(count: int, height: int = 16, width: int = 24) -> np.ndarray:
    """uint8 (count, height, width, 3): frames of a few colours, each unlike the others."""
    found = np.zeros((count, height, width, 3), np.uint8)
    for number in range(count):
        found[number, :, : number + 3] = (8 * number, 255 - 8 * number, 100)
        found[number, number % height] = (255, 0, 4 * number)
    return found


def read(source: Any, wanted: int) -> tuple[np.ndarray, int]:
    reading = read_frames(source, wanted)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            frames, count = end.value
            return np.stack([frame.numpy() for frame in frames]), count


def encoded(frames: np.ndarray, form: str, codec: str) -> bytes:
    """A video file without losses."""
    av = pytest.importorskip("av")
    file = io.BytesIO()
    with av.open(file, "w", format=form) as container:
        stream = container.add_stream(codec, rate=10)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "bgr0" if codec == "ffv1" else "bgr24" if codec == "rawvideo" else "rgb24"
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


def test_frames_at_equal_distances() -> None:
    """transformers' BaseVideoProcessor.sample_frames: arange(0, n, n / k) as whole numbers."""
    for count, wanted, expected in (
        (16, 4, [0, 4, 8, 12]), (10, 4, [0, 2, 5, 7]), (100, 8, [0, 12, 25, 37, 50, 62, 75, 87]), (4, 4, [0, 1, 2, 3]),
        (300, 16, np.arange(0, 300, 18.75).astype(int).tolist()), (3, 6, [0, 0, 1, 1, 2, 2]), (1, 3, [0, 0, 0]),
    ):  # fmt: skip
        assert chosen(count, wanted) == expected


def test_tensors_and_lists() -> None:
    frames = moving(10)
    found, count = read(pyapp.from_numpy(frames), 4)
    assert count == 10
    np.testing.assert_array_equal(found, frames[[0, 2, 5, 7]])
    found, count = read([pyapp.from_numpy(frame) for frame in frames[:3]], 4)
    np.testing.assert_array_equal(found, frames[[0, 0, 1, 2]])
    for wrong in (pyapp.zeros(3, 4, 4, 3), pyapp.zeros(4, 4, 3, dtype="uint8"), pyapp.zeros(0, 4, 4, 3, dtype="uint8")):
        with pytest.raises(ArgumentError, match="uint8"):
            read(wrong, 2)
    with pytest.raises(FileFormatError, match="no frames"):
        read([], 2)


@pytest.mark.native_only
def test_files_of_containers(tmp_path: Path) -> None:
    """Of AVI and Matroska files the frames are as they were written, whether the file says their number or not."""
    frames = moving(11)
    for form, codec, end in (("matroska", "ffv1", "mkv"), ("avi", "rawvideo", "avi"), ("mov", "png", "mov")):
        data = encoded(frames, form, codec)
        file = tmp_path / f"film.{end}"
        file.write_bytes(data)
        for source in (str(file), file, BytesSource(data, "film"), data):
            found, count = read(source, 4)
            assert count == 11
            np.testing.assert_array_equal(found, frames[chosen(11, 4)])
    cut, count = read(encoded(frames, "avi", "rawvideo")[:-6000], 4)
    assert 4 < count < 11
    np.testing.assert_array_equal(cut, frames[chosen(count, 4)])


@pytest.mark.native_only
def test_moving_pictures_and_folders(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    frames = moving(11)
    pictures = [image.fromarray(frame) for frame in frames]
    for end, more in (("gif", {}), ("png", {}), ("webp", {"lossless": True})):
        file = tmp_path / f"film.{end}"
        pictures[0].save(file, save_all=True, append_images=pictures[1:], duration=100, **more)
        found, count = read(file, 4)
        assert count == 11
        np.testing.assert_array_equal(found, frames[chosen(11, 4)])
    folder = tmp_path / "frames"
    folder.mkdir()
    for number, frame in enumerate(frames):
        (folder / f"frame {number}.png").write_bytes(encode_png(frame))
    (folder / "notes.txt").write_text("nothing")
    found, count = read(folder, 11)
    assert count == 11  # in the order of the numbers, not of the letters
    np.testing.assert_array_equal(found, frames)


@pytest.mark.native_only
def test_moving_pictures_of_many_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may announce frames that fill the memory: all of them, or a later one."""
    image = pytest.importorskip("PIL.Image")
    frames = [image.fromarray(frame) for frame in moving(3)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], optimize=False)
    data = file.getvalue()
    assert read(data, 3)[1] == 3
    second = data.index(b"\x2c", data.index(b"\x2c") + 10)  # the mark of a frame: its place, width and height follow
    large = data[: second + 5] + b"\x00\x2f\x00\x2f" + data[second + 9 :]
    with pytest.raises(FileFormatError, match=r"the picture has 12,0\d\d x 12,0\d\d pixels"):
        read(large, 3)
    for name, message in (("MOVING_PIXELS", "it has 2 frames of 24 x 16 pixels, at most 700 pixels"),
                          ("SEEN_PIXELS", "it has 3 frames of 24 x 16 pixels, at most 1,000 pixels")):  # fmt: skip
        with monkeypatch.context() as patch, pytest.raises(FileFormatError, match=message):
            patch.setattr(videos, name, 700 if name == "MOVING_PIXELS" else 1000)
            read(data, 2)


def test_files_that_are_no_videos(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    data = encoded(moving(5), "matroska", "ffv1")
    sound = io.BytesIO()
    with av.open(sound, "w", format="matroska") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    (tmp_path / "empty").mkdir()
    for source, told in (
        (b"what", "not a video that is known"), (b"", "not a video|empty"), (data[:200], "cannot be read|no frames"),
        (data[:40] + bytes(400), "cannot be read|no pictures|unknown"), (sound.getvalue(), "only sound"),
        (b"GIF89a" + bytes(40), "cannot be read"), (tmp_path / "empty", "no frames"),
        (b"\x00\x00\x00\x18ftypisom" + bytes(200), "cannot be read|no pictures"),
    ):  # fmt: skip
        with pytest.raises(FileFormatError, match=told):
            read(source, 4)
    with pytest.raises(OSError, match=r"none\.mp4"):
        read(tmp_path / "none.mp4", 4)
