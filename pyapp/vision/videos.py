"""Read the frames of videos: of folders of pictures, moving GIF, WebP and PNG files by Pillow, other files by the
libraries of FFmpeg, if the package PyAV is installed (https://pyav.basswood-io.com).

So many frames are chosen at equal distances: of n frames, number i of k is i * n // k, as transformers' video
processors sample them.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import ArgumentError, FileFormatError, OptionError
from pyapp.formats.source import opened_source

from .reading import FORMATS, SUFFIXES, check_size, read_image

Frames = Generator["tuple[int, int] | None", None, "tuple[list[Tensor], int]"]  # (frames read, of so many)

MOST = 1 << 20  # frames of a video
MOVING_PIXELS = 1 << 27  # of the frames of a moving picture that are chosen: 400 MB in memory
SEEN_PIXELS = 1 << 32  # of all its frames, which are decoded one after another
FILE_LIMIT = 1 << 32  # bytes of a file that is not read from a disk
# The signature of a kind of file and its place, the kind, and FFmpeg's name of it: it does not guess kinds that would
# name other files or addresses.
CONTAINERS = (
    *((4, name, "an MP4 or QuickTime file", "mp4") for name in (b"ftyp", b"moov", b"mdat", b"wide", b"free")),
    (0, b"\x1aE\xdf\xa3", "a WebM or Matroska file", "matroska"),
    (8, b"AVI ", "an AVI file", "avi"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "a Windows Media file", "asf"),
    (0, b"FLV\1", "a Flash video", "flv"),
    (0, b"OggS", "an Ogg file", "ogg"),
    (0, b"\x00\x00\x01\xba", "an MPEG file", "mpeg"),
    (0, b"\x47\x40", "an MPEG transport stream", "mpegts"),
)
MOVING = ((0, b"GIF8"), (0, b"\x89PNG\r\n\x1a\n"), (8, b"WEBP"), (8, b"avif"), (8, b"avis"))


def chosen(count: int, wanted: int) -> list[int]:
    """The numbers of `wanted` of `count` frames, at equal distances from the first on; fewer frames are repeated."""
    return [number * count // wanted for number in range(wanted)]


def read_frames(source: Any, wanted: int) -> Frames:
    """The chosen frames, tensors uint8 (H, W, 3), and how many the video has. `source`: a file (a path, bytes, a
    ByteSource), a folder of pictures in the order of their names, a list of pictures, or a tensor uint8 (T, H, W, 3).
    Yields how many frames are read, of how many; None before it knows.

    FileFormatError for what cannot be read; OSError as open() raises.
    """
    if isinstance(source, Tensor):
        if source.ndim != 4 or source.shape[3] != 3 or source.dtype.name != "uint8" or 0 in source.shape:
            raise ArgumentError(f"a video is uint8 (T, H, W, 3), not {source.dtype.name} {list(source.shape)}")
        return [source[number] for number in chosen(source.shape[0], wanted)], source.shape[0]
    if isinstance(source, list | tuple):
        return (yield from _of_pictures(source, wanted, "the video"))
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        return (yield from _of_pictures(files_in(source), wanted, os.fspath(source)))
    with opened_source(source) as opened:
        head = bytes(opened.read(0, min(opened.size, 16)))
        kind = next((entry for entry in CONTAINERS if head[entry[0] :].startswith(entry[1])), None)
        moving = any(head[place:].startswith(sign) for place, sign in MOVING)
        if moving:
            return (yield from _by_pillow(opened.read(0, opened.size), wanted, opened.name))
        if kind is None:
            raise FileFormatError(
                "this is not a video that is known", where=opened.name,
                hint="Known: MP4, WebM, Matroska, AVI, Windows Media, Flash, Ogg, MPEG, moving GIF, WebP and PNG, "
                "and folders of pictures",
            )  # fmt: skip
        if isinstance(source, str | os.PathLike):
            with open(source, "rb") as file:
                return (yield from _by_av(file, wanted, opened.name, *kind[2:]))
        if opened.size > FILE_LIMIT:
            raise FileFormatError(f"it has {opened.size:,} bytes", where=opened.name, hint="Give the file's path")
        data = io.BytesIO(opened.read(0, opened.size))
        return (yield from _by_av(data, wanted, opened.name, *kind[2:]))


def all_frames(source: Any) -> Frames:
    """As read_frames, all frames: of a folder of pictures, a list of pictures, or a tensor uint8 (T, H, W, 3)."""
    if isinstance(source, Tensor):
        return (yield from read_frames(source, source.shape[0] if source.ndim else 0))
    if isinstance(source, str | os.PathLike):
        if not os.path.isdir(source):
            raise OptionError(
                "this is no folder of frames", where=f"{os.fspath(source):.200}",  # an address may have a whole file
                hint="Write the frames of a file to one: ffmpeg -i FILE -vf fps=2 FOLDER/%05d.png",
            )  # fmt: skip
        source = files_in(source)
    return (yield from _of_pictures(source, len(source), "the video"))


def files_in(folder: str | os.PathLike[str]) -> list[Path]:
    """The pictures of a folder, in the order of their names."""
    return sorted((path for path in Path(folder).iterdir() if path.suffix.lower() in SUFFIXES), key=_by_number)


def _by_number(path: Path) -> list[tuple[int, str]]:
    """What sorts names as people count: frame 9 is before frame 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _check_count(count: int, name: str) -> None:
    if not count:
        raise FileFormatError("it has no frames", where=name, hint="Give a video, or a folder of pictures")
    if count > MOST:
        raise FileFormatError(f"it has more than {MOST:,} frames", where=name, hint="Cut it")


def _of_pictures(pictures: Sequence[Any], wanted: int, name: str) -> Frames:
    """The chosen frames of pictures: files or tensors."""
    _check_count(len(pictures), name)
    found: dict[int, Tensor] = {}
    numbers = chosen(len(pictures), wanted)
    for number in numbers:
        if number not in found:
            picture = pictures[number]
            found[number] = picture if isinstance(picture, Tensor) else read_image(picture)
            yield len(found), len({*numbers})
    return [found[number] for number in numbers], len(pictures)


def _by_pillow(data: Any, wanted: int, name: str) -> Frames:
    """The chosen frames of a moving picture."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("pictures are read by Pillow, which is not installed: pip install pyapp[vision]") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's limit for warnings is below ours
        Image.init()
        try:
            picture = Image.open(io.BytesIO(data), formats=[form for form in FORMATS if form in Image.OPEN])
        except MemoryError:
            raise
        except Exception as error:
            raise FileFormatError(f"it cannot be read ({error})", where=name, hint="Save it again") from error
        with picture:
            check_size(picture.height, picture.width, name)
            try:
                count = getattr(picture, "n_frames", 1)
                _check_count(count, name)
                found: dict[int, Tensor] = {}
                numbers = chosen(count, wanted)
                for frames, most in ((len({*numbers}), MOVING_PIXELS), (count, SEEN_PIXELS)):
                    if frames * picture.height * picture.width > most:
                        raise FileFormatError(
                            f"it has {frames:,} frames of {picture.width:,} x {picture.height:,} pixels, at most "
                            f"{most:,} pixels are read", where=name, hint="Make it smaller, or cut it",
                        )  # fmt: skip
                at = 0
                for number in sorted({*numbers}):
                    while at < number:  # a frame of a damaged file may be larger than those before
                        at += 1
                        picture.seek(at)
                        check_size(picture.height, picture.width, name, MOVING_PIXELS)
                    whole = Image.new("RGBA", picture.size, "white")
                    whole.alpha_composite(picture.convert("RGBA"))
                    found[number] = from_numpy(np.array(whole.convert("RGB")))
                    yield len(found), len({*numbers})
            except (FileFormatError, MemoryError):
                raise
            except Exception as error:  # decoders raise errors of many kinds for damaged files
                raise FileFormatError(f"it is damaged ({error})", where=name, hint="Save it again") from error
    return [found[number] for number in numbers], count


def _by_av(file: Any, wanted: int, name: str, kind: str, form: str) -> Frames:
    """The chosen frames of a file that FFmpeg reads. A damaged file ends at the damage."""
    try:
        import av  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise FileFormatError(
            f"{kind} needs the package av, which is not installed", where=name,
            hint="Install it with pip install 'pyapp[media]', or give a folder of its frames: "
            f"ffmpeg -i {Path(name).name} FOLDER/%05d.png",
        ) from error  # fmt: skip
    try:
        expected = yield from _counted(av, file, name, form)
        found: dict[int, Tensor] = {}
        for _ in range(2):  # again if there are not as many frames as the file says
            numbers = chosen(expected, wanted)
            found, count = yield from _decoded(av, file, name, form, {*numbers}, expected)
            if count == expected:
                break
            _check_count(count, name)
            if all(number in found for number in chosen(count, wanted)):
                numbers, expected = chosen(count, wanted), count
                break
            expected = count
    except (av.error.FFmpegError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error)
        raise FileFormatError(f"{kind} that cannot be read ({reason})", where=name, hint="Convert it to MP4") from error
    return [found[number] for number in numbers], expected


def _opened(av: Any, file: Any, name: str, form: str) -> Any:
    """The container from its start."""
    file.seek(0)
    container = av.open(file, format=form, metadata_errors="ignore")
    if not container.streams.video:
        container.close()
        raise FileFormatError("it has no pictures, only sound", where=name, hint="Give a video")
    context = container.streams.video[0].codec_context
    if context is None:
        container.close()
        raise FileFormatError("its pictures are in an unknown format", where=name, hint="Convert it to MP4")
    check_size(context.height, context.width, name)
    return container


def _counted(av: Any, file: Any, name: str, form: str) -> Generator[None, None, int]:
    """The number of frames, as the file says, or of its packets."""
    container = _opened(av, file, name, form)
    with container:
        stream = container.streams.video[0]
        count = int(stream.frames or 0)
        if not count:
            for packet in container.demux(stream):
                count += bool(packet.size)
                if not count % 256:
                    yield None
                    _check_count(count or 1, name)
    _check_count(count, name)
    return count


def _decoded(
    av: Any, file: Any, name: str, form: str, numbers: set[int], expected: int
) -> Generator[tuple[int, int], None, tuple[dict[int, Tensor], int]]:
    """The frames of these numbers, and how many were decoded up to the end, or to the damage."""
    found: dict[int, Tensor] = {}
    count = 0
    with _opened(av, file, name, form) as container:
        try:
            for frame in container.decode(container.streams.video[0]):
                if count in numbers:
                    check_size(frame.height, frame.width, name)
                    found[count] = from_numpy(np.ascontiguousarray(frame.to_ndarray(format="rgb24")))
                count += 1
                yield min(count, expected), expected
                if count > MOST:
                    break
        except (av.error.FFmpegError, ValueError):
            if not count:
                raise
    return found, count


def check_video(source: Any) -> None:
    """OSError for a video whose file is not there; OptionError for what is none."""
    if isinstance(source, str | os.PathLike):
        os.stat(source)
    elif not isinstance(source, Tensor | list | tuple | bytes) and not hasattr(source, "read"):
        raise OptionError(f"{type(source).__name__} is not a video", where="videos", hint="Give a file or its frames")
