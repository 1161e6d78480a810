"""Objects followed through a video, by a model such as Segment Anything 2.

A video is a folder of frames, a list of pictures, or a tensor uint8 (frames, height, width, 3).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.lazy import np
from pyapp.engine.ops import interpolate, tensor
from pyapp.errors import OptionError
from pyapp.events import Done, Event, Item, Progress
from pyapp.nn.vision.mask_memory import RememberingMasks, Track
from pyapp.text.generation.options import check_number
from pyapp.vision.videos import MOST, all_frames, check_video

from .picture_batches import in_batches
from .segmentation import checked_kinds, runs_of
from .text_batches import Work
from .texts import stream_of

PROMPT = ("points", "labels", "box")
OBJECTS = 256  # at most


def follow(
    loaded: Any, video: Any, *, points: Sequence[Sequence[float]] = (), labels: Sequence[int] | None = None,
    box: Sequence[float] | None = None, objects: Sequence[Mapping[str, Any]] | None = None, frame: int = 0,
) -> Work:  # fmt: skip
    """Items with `segments`, `size` [height, width] and `runs` of each frame of a video, by a model such as SAM 2:
    where an object is that points and a box show in one frame. The item of frame i has the index i; those from the
    given frame on come first, then those before it, the last one first.

    points: [x, y] in pixels; labels: 1 where a point is of the object, 0 where it is not (None: all 1); box: left, top,
    right, bottom in pixels. objects: several such objects in place of one, each with "points", "labels" and "box" of
    its own. A segment is an object that is in the frame: `label` "object", its `number` from 1, its `share` of the
    picture, and how probably it is there, `score`. A pixel of several objects is of the one that the model is most
    sure of.
    """
    given = [{"points": points, "labels": labels, "box": box}] if objects is None else [*objects]
    if objects is not None and (len(points) or labels is not None or box is not None):
        raise OptionError("give objects, or the points and the box of one", where="objects")
    if not 0 < len(given) <= OBJECTS:
        raise OptionError(f"{len(given):,} objects, expected 1 to {OBJECTS}", where="objects")
    shown = []
    for one in given:
        if not isinstance(one, Mapping) or not {*one} <= {*PROMPT}:
            raise OptionError(f"{one!r:.60} is not an object", where="objects", hint=f"Known: {', '.join(PROMPT)}")
        places = one.get("points") or ()
        shown.append((places, checked_kinds(places, one.get("labels"), one.get("box")), one.get("box")))
    check_number("frame", frame, 0, MOST, whole=True)
    model = loaded.model
    if not isinstance(model, RememberingMasks):
        raise OptionError(
            "this model follows nothing", where="model", hint="Choose one such as facebook/sam2.1-hiera-tiny"
        )
    frames = yield from _frames(video)
    if frame >= len(frames):
        raise OptionError(f"the video has {len(frames):,} frames, numbered from 0", where="frame")
    tracks = [Track(frame, len(frames)) for _ in shown]
    order = [*range(frame, len(frames)), *range(frame - 1, -1, -1)]
    for done, number in enumerate(order):
        yield None
        ((_, prepared),) = in_batches(loaded, [frames[number]], 1)
        size = prepared.sizes[0]
        area = loaded.processor.seen(*size)  # the frame's size in the model's input
        with no_grad():
            seen, *finer = model.seen(prepared.pixel_values)
            found, scores = [], []
            for track, (places, kinds, around) in zip(tracks, shown, strict=True):
                yield None
                marks: dict[str, Any] = {"backward": number < frame}
                if number == frame:
                    marks["prompts"] = _prompts(model, places, kinds, around, size, area)
                    marks["points"] = len(places) + (0 if around is None else 2)
                mask, score = model.followed(seen, finer, track, number, **marks)
                mask = interpolate(mask, size=model.pixels, mode="bilinear", align_corners=False)
                mask = mask[:, :, : area[0], : area[1]]
                found.append(interpolate(mask, size=size, mode="bilinear", align_corners=False))
                scores.append(float(score.sigmoid().item()))
        yield Item(number, _values([mask.cpu().numpy()[0, 0] for mask in found], scores, size))
        yield Progress("frames", done + 1, len(order), "frames")
    yield Done("complete", {"count": len(order)})


def _frames(video: Any) -> Generator[Event | None, None, list[Tensor]]:
    """Progress while a video is read; returns its frames."""
    reading = all_frames(video)
    while True:
        try:
            step = next(reading)
        except StopIteration as end:
            found: list[Tensor] = end.value[0]
            return found
        yield None if step is None else Progress("reading", *step, "frames")


def _prompts(
    model: RememberingMasks, places: Any, kinds: list[int], box: Any, size: Sequence[int], area: Sequence[int]
) -> Tensor:
    """What the model reads of points and a box in pixels of a frame."""
    scale, device = tensor([area[1] / size[1], area[0] / size[0]]), model.device
    points = marks = corners = None
    if len(places):
        points = (tensor(places, dtype="float32") * scale).reshape(1, -1, 2).to(device)
        marks = tensor(kinds).reshape(1, -1).to(device)
    if box is not None:
        corners = (tensor(box, dtype="float32").reshape(2, 2) * scale).reshape(1, 4).to(device)
    return model.prompts_of(points, marks, corners)


def _values(masks: list[Any], scores: list[float], size: Sequence[int]) -> dict[str, Any]:
    """The values of an item, of masks (H, W), above 0 inside."""
    whole = np.stack(masks)  # (N, H, W)
    numbers = np.where(whole.max(0) > 0, whole.argmax(0) + 1, 0).reshape(-1).astype("int64")
    segments = []
    for i, mask in enumerate(masks):
        share = float((mask > 0).mean())
        if share:
            segments.append({"label": "object", "number": i + 1, "share": share, "score": scores[i]})
    return {"segments": segments, "size": [int(side) for side in size], "runs": runs_of(numbers)}


def _check(video: Any, *_: Any, **more: Any) -> None:
    """OSError for a video whose file is not there."""
    check_video(video)


follow_objects = stream_of("follow", follow, remote=False, check=_check)
