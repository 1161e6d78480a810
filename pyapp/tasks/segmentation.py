"""Areas of pictures: the labels of their pixels, and objects that points and boxes show."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.lazy import np
from pyapp.engine.ops import interpolate, sigmoid, tensor
from pyapp.errors import OptionError
from pyapp.events import Done, Item, Progress
from pyapp.text.generation.options import check_number

from .given_files import check_files, listed
from .label_vectors import vectors_of_labels
from .picture_batches import LARGEST, in_batches, looking
from .text_batches import Work, checked_texts
from .texts import stream_of


def label_areas(loaded: Any, images: Sequence[Any]) -> Work:
    """Items with `segments`, `size` [height, width] and `runs`: the labels of a picture's pixels. Each segment has
    `label`, its `number` and its `share` of the picture, the largest first; the runs are [number, pixels], row by row.

    Pictures are computed one by one, because they may have several sizes.
    """
    images = listed(images)
    names = loaded.model.config.labels
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        with looking(images, chosen):
            logits = loaded.model(prepared.pixel_values).to("float32")  # (parts, labels, h, w)
            logits = loaded.processor.whole_map(logits, *prepared.sizes[0])  # (1, labels, h', w')
            logits = interpolate(logits, size=prepared.sizes[0], mode="bilinear", align_corners=False)
        numbers = logits.cpu().numpy()[0].argmax(0).reshape(-1)  # (H * W,)
        segments = _segments(numbers, names)
        yield Item(chosen.start, {"segments": segments, "size": list(prepared.sizes[0]), "runs": runs_of(numbers)})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def find_areas(
    loaded: Any, images: Sequence[Any], labels: Sequence[str], *, template: str | None = None, threshold: float = 0.5
) -> Work:
    """As label_areas, with the given labels, by a model such as CLIPSeg: a pixel has the label that is the most
    probable there, if it is more so than the threshold; labels are numbered from 1, and 0 is of pixels without one.
    `template` makes a text of a label, which takes the place of {}; by default that of the model.
    """
    check_number("threshold", threshold, 0, 1)
    images, labels = listed(images), checked_texts(labels)
    texts = yield from vectors_of_labels(loaded, labels, template)
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        with looking(images, chosen):
            chances = sigmoid(loaded.model.found(prepared.pixel_values, texts).to("float32"))  # (N, h, w)
            chances = interpolate(chances.unsqueeze(0), size=prepared.sizes[0], mode="bilinear", align_corners=False)
        rows = chances.cpu().numpy()[0].reshape(len(labels), -1)  # (N, H * W)
        numbers = np.where(rows.max(0) > threshold, rows.argmax(0) + 1, 0)
        segments = _segments(numbers, [None, *labels])
        yield Item(chosen.start, {"segments": segments, "size": list(prepared.sizes[0]), "runs": runs_of(numbers)})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def _segments(numbers: Any, names: Sequence[str | None]) -> list[dict[str, Any]]:
    """The labels of pixels' numbers (H * W,), the largest first; those whose name is None are left out."""
    counts = np.bincount(numbers, minlength=len(names)).tolist()
    return [
        {"label": names[i], "number": i, "share": counts[i] / numbers.size}
        for i in sorted(range(len(names)), key=lambda i: -counts[i]) if counts[i] and names[i] is not None
    ]  # fmt: skip


def runs_of(numbers: Any) -> list[list[int]]:
    """An array of pixels' numbers (H * W,) as [number, pixels] of each run of equal ones."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    found: list[list[int]] = np.stack([numbers[starts], np.diff(starts, append=numbers.size)], 1).tolist()
    return found


def seen_by(
    loaded: Any, image: Any, picture: str | None
) -> Generator[Progress | None, None, tuple[Tensor, tuple[int, int]]]:
    """What a model such as SAM sees of a picture, and its size (height, width): Progress while it looks, unless it
    remembers the picture of this name.
    """
    if picture is None or picture not in loaded.seen:
        ((_, prepared),) = in_batches(loaded, [image], 1)
        yield None
        loaded.seen.clear()  # it remembers one picture
        with no_grad():
            steps = loaded.model.features_in_steps(prepared.pixel_values)
            while True:
                try:
                    done, total = next(steps)
                except StopIteration as end:
                    found = end.value, prepared.sizes[0]
                    break
                yield Progress("seeing", done, total, "layers")
        if picture is None:
            return found
        loaded.seen[picture] = found
    known: tuple[Tensor, tuple[int, int]] = loaded.seen[picture]
    return known


def checked_kinds(points: Any, labels: Any, box: Any) -> list[int]:
    """The kinds of points, 1 of the object and 0 not of it. OptionError for points and a box that show nothing."""
    for name, given in (("points", points), ("labels", labels), ("box", box)):
        if given is not None and not isinstance(given, list | tuple):
            raise OptionError(f"{given!r:.60}: expected a list", where=name)
    kinds = [1] * len(points) if labels is None else list(labels)
    if not points and box is None:
        raise OptionError("points or a box are needed", where="points", hint="Say where the object is, in pixels")
    if len(kinds) != len(points) or any(kind not in (0, 1) for kind in kinds):
        raise OptionError(f"{kinds!r:.60}: expected 1 or 0 for each of {len(points)} points", where="labels")
    for name, places, count in (("points", points, 2), ("box", [] if box is None else [box], 4)):
        for place in places:
            if not isinstance(place, list | tuple) or len(place) != count:
                raise OptionError(f"{place!r:.60}: expected {count} numbers", where=name)
            for number in place:
                check_number(name, number, -LARGEST, LARGEST)
    return kinds


def cut_out(
    loaded: Any, images: Sequence[Any], *, points: Sequence[Sequence[float]] = (),
    labels: Sequence[int] | None = None, box: Sequence[float] | None = None, picture: str | None = None,
) -> Work:  # fmt: skip
    """Items with `segments`, `size` [height, width] and `runs`: what points and a box show in each picture, by a model
    such as SAM. points: [x, y] in pixels; labels: 1 where a point is of the object, 0 where it is not (None: all 1);
    box: left, top, right, bottom in pixels. The one segment is the mask of the best score: `label` "object", number 1,
    its `share` of the picture and its `score`.

    The model looks at a picture once, if `picture` is a name of it, of one image: other points and boxes in the picture
    of the same name are then answered at once, and the image is not read again (None may stand in its place).
    """
    kinds = checked_kinds(points, labels, box)
    images = listed(images)
    if picture is not None and len(images) != 1:
        raise OptionError(f"it is a name of one image, and there are {len(images)}", where="picture")
    for index, image in enumerate(images):
        features, (height, width) = yield from seen_by(loaded, image, picture)
        seen = loaded.processor.seen(height, width)  # the picture's size in the model's input
        scale = tensor([seen[1] / width, seen[0] / height])
        found_points = found_labels = found_box = None
        if points:
            found_points = (tensor(points, dtype="float32") * scale).reshape(1, 1, -1, 2).to(loaded.model.device)
            found_labels = tensor(kinds).reshape(1, 1, -1).to(loaded.model.device)
        if box is not None:
            corners = tensor(box, dtype="float32").reshape(2, 2) * scale
            found_box = corners.reshape(1, 1, 4).to(loaded.model.device)
        several = box is None and len(points) == 1  # only one point can have several meanings
        with no_grad():
            masks, scores = loaded.model.masks(features, found_points, found_labels, found_box, several=several)
            best = int(scores.reshape(-1).argmax())
            mask = masks.reshape(1, -1, *masks.shape[3:]).narrow(1, best, 1)  # (1, 1, h, w)
            mask = interpolate(mask, size=loaded.model.pixels, mode="bilinear", align_corners=False)
            mask = mask[:, :, : seen[0], : seen[1]]
            mask = interpolate(mask, size=(height, width), mode="bilinear", align_corners=False)
        inside = (mask.cpu().numpy()[0, 0] > 0).reshape(-1).astype("int64")
        segment = {
            "label": "object", "number": 1, "share": float(inside.mean()), "score": float(scores.reshape(-1)[best]),
        }  # fmt: skip
        yield Item(index, {"segments": [segment], "size": [height, width], "runs": runs_of(inside)})
        yield Progress("pictures", index + 1, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


segment_images = stream_of("segment", label_areas, remote=False, check=check_files)
segment_labels = stream_of("segment-labels", find_areas, remote=False, check=check_files)
cut_out_objects = stream_of("cut-out", cut_out, remote=False, check=check_files)
