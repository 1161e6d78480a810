"""All objects of a picture, by a model that cuts out what points show: a grid of points, of which the masks stay that
are good, stable and not the same as a better one (Kirillov et al. 2023, arXiv 2304.02643, appendix B; transformers'
pipeline "mask-generation").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.lazy import np
from pyapp.engine.ops import interpolate, ones, tensor
from pyapp.errors import OptionError
from pyapp.events import Done, Item, Progress
from pyapp.nn.vision.boxes import non_max_suppression
from pyapp.text.generation.options import check_number

from .given_files import check_files, listed
from .segmentation import runs_of, seen_by
from .text_batches import Work
from .texts import stream_of

POINTS_AT_ONCE, MASKS_AT_ONCE = 16, 8
MOST_POINTS = 256  # of a side
OFFSET = 1.0  # by which scores of pixels move to see whether a mask is stable


def cut_out_all(
    loaded: Any, images: Sequence[Any], *, points_per_side: int = 32, score: float = 0.88, stability: float = 0.95,
    overlap: float = 0.7,
) -> Work:  # fmt: skip
    """Items with `segments`, the best first, `size` [height, width] and `runs`: the objects of each picture, by a model
    such as SAM. A segment has `label` "object", its `number`, its `share` of the picture, its `score`, its `box` (left,
    top, right, bottom in pixels) and its own `runs`: the pixels row by row, as lengths of runs outside of it and in it
    by turns. The `runs` of the item say of each pixel the number of the smallest segment there.

    points_per_side: of the grid of points that are asked for. Of what is there, masks stay whose score is above `score`
    and whose area changes little with the threshold (`stability`: the part of it that is sure), 0: all, and whose box
    has no more than `overlap` in common with that of a better one.
    """
    check_number("points_per_side", points_per_side, 1, MOST_POINTS, whole=True)
    for name, value in (("score", score), ("stability", stability), ("overlap", overlap)):
        check_number(name, value, 0, 1)
    images = listed(images)
    if not hasattr(loaded.model, "masks"):
        raise OptionError("this model cuts nothing out", where="model", hint="Choose one such as facebook/sam-vit-base")
    for index, image in enumerate(images):
        features, size = yield from seen_by(loaded, image, None)
        places, found = _grid(points_per_side), list[tuple[float, list[int], Any]]()
        for first in range(0, len(places), POINTS_AT_ONCE):
            found += _good(loaded, features, size, places[first : first + POINTS_AT_ONCE], score, stability)
            yield Progress("points", min(first + POINTS_AT_ONCE, len(places)), len(places), "points")
        yield Item(index, _as_values(found, size, overlap))
        yield Progress("pictures", index + 1, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def _grid(side: int) -> Any:
    """The places (side², 2) of a grid in the middle of its cells, x and y as parts of the sides, row by row."""
    along = (np.arange(side, dtype="float32") + np.float32(0.5)) / np.float32(side)
    return np.stack(np.meshgrid(along, along), -1).reshape(-1, 2)


def _good(
    loaded: Any, features: Any, size: tuple[int, int], places: Any, score: float, stability: float
) -> Iterator[tuple[float, list[int], Any]]:
    """Score, box (left, top, right and bottom pixel) and pixels (H * W,) bool of the masks of points that are good."""
    model, seen = loaded.model, loaded.processor.seen(*size)  # the picture's size in the model's input
    points = tensor((places * np.array([seen[1], seen[0]], "float32")).tolist()).reshape(1, -1, 1, 2).to(model.device)
    with no_grad():
        masks, scores = model.masks(features, points, ones(*points.shape[:3], dtype="int64").to(model.device))
        values = scores.reshape(-1).cpu().numpy()
        chosen = np.flatnonzero((values > score) | (score == 0)).tolist()
        low: Tensor = masks.reshape(-1, 1, *masks.shape[3:])
        for first in range(0, len(chosen), MASKS_AT_ONCE):
            own = chosen[first : first + MASKS_AT_ONCE]
            part = low.index_select(0, tensor(own, dtype="int64").to(low.device))
            part = interpolate(part, size=model.pixels, mode="bilinear", align_corners=False)
            part = part[:, :, : seen[0], : seen[1]]
            part = interpolate(part, size=size, mode="bilinear", align_corners=False)
            for number, logits in zip(own, part.cpu().numpy()[:, 0], strict=True):
                sure, all_of_it = (logits > OFFSET).sum(), (logits > -OFFSET).sum()
                if stability > 0 and not sure > stability * all_of_it:
                    continue
                inside = logits > 0
                rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
                if len(rows):
                    box = [int(n) for n in (columns[0], rows[0], columns[-1], rows[-1])]
                    yield float(values[number]), box, inside.reshape(-1)


def _as_values(found: Sequence[tuple[float, list[int], Any]], size: tuple[int, int], overlap: float) -> dict[str, Any]:
    """The values of an item."""
    boxes = np.array([box for _, box, _ in found], "float64").reshape(-1, 4)
    kept = non_max_suppression(boxes, np.array([score for score, _, _ in found]), overlap, len(found))
    segments: list[dict[str, Any]] = []
    numbers = np.zeros(size[0] * size[1], "int64")
    for number, i in enumerate(kept, 1):
        score, (left, top, right, bottom), inside = found[i]
        segments.append({
            "label": "object", "number": number, "share": float(inside.mean()), "score": score,
            "box": [left, top, right + 1, bottom + 1], "runs": _lengths(inside),
        })  # fmt: skip
    largest_first = sorted(zip(segments, kept, strict=True), key=lambda pair: pair[0]["share"], reverse=True)
    for segment, i in largest_first:
        numbers[found[i][2]] = segment["number"]
    return {"segments": segments, "size": list(size), "runs": runs_of(numbers)}


def _lengths(inside: Any) -> list[int]:
    """The lengths of runs of False and True by turns, of a bool array (N,)."""
    ends = np.flatnonzero(np.diff(inside, prepend=False))
    found: list[int] = np.diff(ends, prepend=0, append=inside.size).tolist()
    return found


cut_out_everything = stream_of("cut-out", cut_out_all, remote=False, check=check_files)
