"""Tasks over videos: labels of each.

A video is a file (a path, bytes, a ByteSource), a folder of frames, a list of pictures, or a tensor uint8 (frames,
height, width, 3).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.errors import ArgumentError, OptionError
from pyapp.events import Done, Event, Item, Notice, Progress
from pyapp.vision.videos import check_video, read_frames

from .given_files import listed
from .text_batches import Work
from .texts import check_top, ranked_labels, stream_of


def check_videos(videos: Any, *_: Any, **more: Any) -> None:
    """OSError for a video whose file is not there."""
    for video in listed(videos):
        check_video(video)


def _frames(loaded: Any, video: Any) -> Generator[Event | None, None, Tensor]:
    """Progress while a video is read; returns what the model sees of it (1, frames, 3, H, W). A Notice says that it
    has fewer frames than the model sees.
    """
    wanted = loaded.model.frames
    where = os.fspath(video) if isinstance(video, str | os.PathLike) else None
    reading = read_frames(video, wanted)
    while True:
        try:
            step = next(reading)
        except StopIteration as end:
            frames, count = end.value
            break
        yield None if step is None else Progress("frames", *step, "frames")
    if count < wanted:
        yield Notice(f"it has {count} frames, the model sees {wanted}: some are seen several times", where=where)
    try:
        prepared = loaded.processor(frames, loaded.model.device)
    except ArgumentError as error:  # such as very narrow frames
        hint = "Crop it, or take another video"
        raise OptionError(error.what, where=where or "videos", hint=hint) from error
    return prepared.pixel_values.unsqueeze(0)


def label_videos(loaded: Any, videos: Sequence[Any], *, top: int | None = 5) -> Work:
    """Items with `labels`: the names and probabilities of a video's labels, the most probable first, at most `top` of
    them (None: all). The model sees so many frames at equal distances, from the first on.

    `videos` is a list of videos, or one that is not a list.
    """
    check_top(top)
    videos = listed(videos)
    for index, video in enumerate(videos):
        pixels = yield from _frames(loaded, video)
        yield None
        with no_grad():
            [scores] = loaded.model(pixels).to("float32").tolist()
        yield Item(index, {"labels": ranked_labels(loaded, scores, top)})
        yield Progress("videos", index + 1, len(videos), "videos")
    yield Done("complete", {"count": len(videos)})


classify_videos = stream_of("classify-video", label_videos, remote=False, check=check_videos)
