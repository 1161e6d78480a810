"""Objects and poses in pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import cat, tensor
from pyapp.errors import OptionError
from pyapp.events import Done, Item, Progress
from pyapp.text.generation.options import check_number
from pyapp.vision.processors import Prepared

from .given_files import check_files, listed
from .label_vectors import prompt_of_labels, vectors_of_labels
from .picture_batches import check_box, in_batches, looking
from .text_batches import Work, checked_texts
from .texts import stream_of

SHOWN, MOST_SHOWN = "visual", 1024  # the text beside boxes that show what to find, as in SAM 3's training; boxes


def find_objects(loaded: Any, images: Sequence[Any], *, threshold: float = 0.5) -> Work:
    """Items with `objects` and `size` [height, width]: the objects of a picture that are more probable than the
    threshold, the most probable first. Each has `label`, `score` and `box`: left, top, right, bottom in pixels. Models
    of poses add `points`, each [x, y, how surely it is visible] in pixels, those of turned boxes `corners`, four [x, y]
    around which `box` lies, those of outlines `runs`: the pixels of the
    picture row by row, as lengths of runs outside of the object and in it by turns.

    Pictures are computed one by one, because padding would change them.
    """
    check_number("threshold", threshold, 0, 1)
    return objects_of(
        loaded, listed(images), lambda prepared: loaded.model.objects(loaded.model(prepared.pixel_values), threshold)[0]
    )


def find_labels(
    loaded: Any, images: Sequence[Any], labels: Sequence[str], *, template: str | None = None,
    threshold: float | None = None, text_threshold: float | None = None,
    boxes: Sequence[Sequence[float]] | None = None, box_labels: Sequence[int] | None = None,
) -> Work:  # fmt: skip
    """As find_objects, for objects of the given labels, by a model such as OWLv2, Grounding DINO or SAM 3, which adds
    `runs`. `template` makes a text of a label, which takes the place of {}; by default that of the model. threshold:
    None, that of the model (0.1; of Grounding DINO 0.25, of SAM 3 0.3).

    Grounding DINO reads all labels as one text; "a cat. a dog." is two. `label` is the one that an object fits best,
    `text` what it fits of that text: the tokens more probable than text_threshold (None: 0.25), as transformers'
    post_process_grounded_object_detection gives it, without the tokenizer's special tokens.

    boxes: of SAM 3, left, top, right and bottom in pixels of the only picture: also what is like they show is found;
    box_labels: 1 for each that is wanted, 0 for each that is not (None: all are). Without labels the boxes alone say
    what to find.
    """
    labels, model = checked_texts(labels), loaded.model
    images, shown = listed(images), None
    if boxes is not None:
        shown = _shown(loaded, images, boxes, box_labels)
        labels = labels or [SHOWN]
    least = model.usual_threshold if threshold is None else threshold
    check_number("threshold", least, 0, 1)
    more: dict[str, Any] = {}
    read = hasattr(model, "prompt_of")
    if text_threshold is not None:
        if not read:
            raise OptionError("this model takes none", where="text_threshold", hint="Leave it out")
        check_number("text_threshold", text_threshold, 0, 1)
        more["text_threshold"] = text_threshold
    if read:
        labels = [phrase.strip() for label in labels for phrase in label.removesuffix(".").split(".")]
        texts = prompt_of_labels(loaded, labels, template)
    else:
        texts = yield from vectors_of_labels(loaded, labels, template)

    def look(prepared: Prepared) -> list[dict[str, Any]]:
        pixels, found = prepared.pixel_values, ()
        if shown is None:
            found = model.found(pixels, texts)
        else:
            found = model.found(pixels, texts, *_in_parts(*shown, *prepared.sizes[0], pixels.device))
        found = model.objects(found, least, labels, **more)[0]
        for entry in found:
            if "tokens" in entry:
                entry["text"] = loaded.tokenizer.decode(entry.pop("tokens"))
        return list(found)

    yield from objects_of(loaded, images, look)


def _shown(
    loaded: Any, images: Sequence[Any], boxes: Sequence[Sequence[float]], kinds: Sequence[int] | None
) -> tuple[Any, list[int]]:  # fmt: skip
    """Boxes that show what to find, and whether each is wanted. OptionError for what cannot be."""
    if not getattr(loaded.model, "reads_boxes", False):
        raise OptionError("this model takes none", where="boxes", hint="Leave them out, or take SAM 3")
    if len(images) != 1:
        raise OptionError(f"they are of one picture, not of {len(images):,}", where="boxes", hint="Give one picture")
    if not 0 < len(boxes) <= MOST_SHOWN:
        raise OptionError(f"{len(boxes):,} boxes, expected 1 to {MOST_SHOWN}", where="boxes")
    for box in boxes:
        check_box(box)
    kinds = [1] * len(boxes) if kinds is None else [*kinds]
    if len(kinds) != len(boxes) or not {*kinds} <= {0, 1}:
        raise OptionError(f"{kinds!r:.60} is not 0 or 1 for each box", where="box_labels")
    return boxes, kinds


def _in_parts(
    boxes: Sequence[Sequence[float]], kinds: Sequence[int], height: int, width: int, device: Any
) -> tuple[Tensor, Tensor]:
    """Boxes (1, K, 4) of centre, width and height, as parts of a picture's sides, and kinds (1, K)."""
    sides = tensor([[float(side) for side in box] for box in boxes], dtype="float32")
    sides = sides / tensor([width, height, width, height], dtype="float32")
    first, last = sides.narrow(1, 0, 2), sides.narrow(1, 2, 2)
    both = cat([(first + last) / 2, last - first], 1).unsqueeze(0)
    return both.to(device), int32_tensor([*kinds], device).unsqueeze(0)


def objects_of(loaded: Any, images: Sequence[Any], look: Callable[[Prepared], list[dict[str, Any]]]) -> Work:
    """The work of finding objects: `look` finds those of a prepared picture."""
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        with looking(images, chosen):
            found = look(prepared)
        height, width = prepared.sizes[0]
        area = loaded.processor.area(height, width)
        for entry in found:
            _place(entry, area, height, width)
        found = [entry for entry in found if len(entry.get("runs", (0, 0))) > 1]  # those with an outline have pixels
        yield Item(chosen.start, {"objects": found, "size": [height, width]})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def _place(entry: dict[str, Any], area: Sequence[float] | None, height: int, width: int) -> None:
    """Brings an object from parts of the model's input, in which the picture has an area (None: it is all of it), to
    the picture's pixels; in a frame nothing reaches out of the picture.
    """
    left, top, wide, high = area or (0.0, 0.0, 1.0, 1.0)

    def placed(part: float, first: float, share: float, side: int) -> float:
        at = (part - first) / share * side
        return at if area is None else min(max(at, 0.0), float(side))

    x, y, right, bottom = entry["box"]
    across, down = (left, wide, width), (top, high, height)
    if "mask" in entry:
        edges = (left, top, left + wide, top + high) if entry.pop("whole", False) else (x, y, right, bottom)
        entry["runs"] = _inside(entry.pop("mask"), edges, (left, top, wide, high), height, width)
    entry["box"] = [placed(x, *across), placed(y, *down), placed(right, *across), placed(bottom, *down)]
    if "corners" in entry:  # which may lie outside of the picture
        entry["corners"] = [[(x - left) / wide * width, (y - top) / high * height] for x, y in entry["corners"]]
    if "points" in entry:
        entry["points"] = [[placed(x, *across), placed(y, *down), *more] for x, y, *more in entry["points"]]


def _inside(mask: Any, box: Sequence[float], area: Sequence[float], height: int, width: int) -> list[int]:
    """The pixels of a picture in which a mask (H', W') of the model's input is above 0, within a box, as lengths of
    runs outside and inside.
    """
    left, top, wide, high = area
    x, y, right, bottom = box
    found, within = mask, []
    for axis, first, share, side, low, most in ((0, top, high, height, y, bottom), (1, left, wide, width, x, right)):
        pixels, count, shape = np.arange(side), mask.shape[axis], (-1, 1) if axis == 0 else (1, -1)
        # The place of each pixel's centre in the mask, between two of its own places.
        at = np.clip((first + (pixels + 0.5) / side * share) * count - 0.5, 0, count - 1)
        before = np.minimum(at.astype("int64"), max(count - 2, 0))
        part, after = (at - before).reshape(shape), np.minimum(before + 1, count - 1)
        found = found.take(before, axis) * (1 - part) + found.take(after, axis) * part
        low, most = ((edge - first) / share * side for edge in (low, most))
        within.append(((pixels >= low) & (pixels < most)).reshape(shape))
    flat = np.concatenate([[False], ((found > 0) & within[0] & within[1]).reshape(-1)])
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    return np.diff(np.concatenate([[0], changes, [height * width]])).tolist()


def poses_of(loaded: Any, images: Sequence[Any], *, boxes: Sequence[Any] | None = None) -> Work:
    """Items with `objects`, `points` and `size` [height, width]: the poses of persons in a picture. `points` are the
    names of the points of a body; each object has `label`, `box` and `points`: of each point [x, y, how likely it is
    there], in pixels.

    boxes: of each picture the boxes of its persons (left, top, right, bottom in pixels), such as detect_objects finds;
    None: a person fills the picture.
    """
    from pyapp.vision.poses import part_of, points_of
    from pyapp.vision.reading import read_image

    images = listed(images)
    if boxes is not None and (not isinstance(boxes, list | tuple) or len(boxes) != len(images)):
        raise OptionError(f"the boxes are not a list of the boxes of each of {len(images)} pictures", where="boxes")
    height, width = loaded.model.pixels
    names = list(loaded.model.config.labels)
    for index, image in enumerate(images):
        yield None
        picture = image if isinstance(image, Tensor) else read_image(image)
        size = [int(side) for side in picture.shape[:2]]
        own = [[0.0, 0.0, float(size[1]), float(size[0])]] if boxes is None else [*boxes[index]]
        found = []
        for box in own:
            check_box(box)
            prepared = loaded.processor([part_of(picture, box, height, width)], loaded.model.device)
            with no_grad():
                heat = loaded.model(prepared.pixel_values)[0].to("float32").cpu().numpy()  # (points, H, W)
            points = points_of(heat, box, height, width)
            found.append({"label": "person", "box": [float(side) for side in box], "points": points})
            yield None
        yield Item(index, {"objects": found, "points": names, "size": size})
        yield Progress("pictures", index + 1, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


detect_objects = stream_of("detect", find_objects, remote=False, check=check_files)
detect_labels = stream_of("detect-labels", find_labels, remote=False, check=check_files)
estimate_poses = stream_of("pose", poses_of, remote=False, check=check_files)
