"""Tasks over the key points of pictures: where they are, and which are the same in two pictures.

A picture is a file (a path, bytes, a ByteSource) or a tensor uint8 (height, width, 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyapp.engine import no_grad
from pyapp.errors import OptionError
from pyapp.events import Done, Item, Progress

from .given_files import check_files, listed
from .picture_batches import in_batches
from .text_batches import Work
from .texts import check_top, stream_of


def points_of_images(
    loaded: Any, images: Sequence[Any], *, top: int | None = None, descriptors: bool = False
) -> Work:  # fmt: skip
    """Items with `points`, each [x, y, score] in pixels, the highest score first, at most `top` of them (None: all),
    and `size`, [height, width] of the picture, by a model such as SuperPoint. With `descriptors` each item also has a
    vector of length 1 for each point.
    """
    check_top(top)
    images = listed(images)
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        with no_grad():
            [found] = loaded.model.points(prepared.pixel_values)
        across, down = _scales(prepared)[0]
        rows, scores = found.places.tolist(), found.scores.to("float32").tolist()
        order = sorted(range(len(rows)), key=lambda i: -scores[i])[:top]
        values: dict[str, Any] = {
            "points": [[rows[i][0] * across, rows[i][1] * down, scores[i]] for i in order],
            "size": list(prepared.sizes[0]),
        }
        if descriptors:
            own = found.descriptors.to("float32").tolist()
            values["descriptors"] = [own[i] for i in order]
        yield Item(chosen.start, values)
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def matched_points(loaded: Any, first: Any, images: Sequence[Any], *, top: int | None = None) -> Work:
    """Items with `matches` of each picture with the `first` one, each [x, y, x', y', score]: a point of the first
    picture and the same one in the other, in pixels, the highest score first, at most `top` of them (None: all); and
    `sizes`, [height, width] of both, by a model such as LightGlue or SuperGlue.
    """
    check_top(top)
    images, model = listed(images), loaded.model
    if not images:
        raise OptionError("there is no picture to match the first with", where="images", hint="Give one or more")
    ((_, start),) = in_batches(loaded, [first], 1)
    yield None
    with no_grad():
        [known] = model.keypoint_detector.points(start.pixel_values)
    wanted = tuple(start.pixel_values.shape[2:])
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        size = tuple(prepared.pixel_values.shape[2:])
        if size != wanted:
            raise OptionError(
                f"the image processor makes a picture of {size[0]} x {size[1]} pixels, the first has "
                f"{wanted[0]} x {wanted[1]}",
                where="images", hint="Give the preprocessor_config.json that belongs to the weights",
            )  # fmt: skip
        with no_grad():
            [other] = model.keypoint_detector.points(prepared.pixel_values)
            (numbers, scores), _ = model.matched(known, other, size)
        places, sure = (known.places.tolist(), other.places.tolist()), scores.to("float32").tolist()
        (left, high), (right, low) = _scales(start)[0], _scales(prepared)[0]
        found = []
        for i, number in enumerate(numbers.tolist()):
            if number >= 0:
                (x, y), (u, v) = places[0][i], places[1][number]
                found.append([x * left, y * high, u * right, v * low, sure[i]])
        found.sort(key=lambda match: -match[4])
        sizes = [list(start.sizes[0]), list(prepared.sizes[0])]
        yield Item(chosen.start, {"matches": found[:top], "sizes": sizes})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def _scales(prepared: Any) -> list[tuple[float, float]]:
    """How many pixels of each picture a column and a row of the model's input stand for."""
    high, wide = (int(side) for side in prepared.pixel_values.shape[2:])
    return [(width / wide, height / high) for height, width in prepared.sizes]


def _check_both(first: Any, images: Any, *_: Any, **more: Any) -> None:
    """OSError for a picture whose file is not there."""
    check_files([first, *listed(images)])


detect_points = stream_of("key-points", points_of_images, remote=False, check=check_files)
match_points = stream_of("match-points", matched_points, remote=False, check=_check_both)
