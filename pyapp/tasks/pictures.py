"""Tasks over pictures: labels of each, its vector, and the text in it.

A picture is a file (a path, bytes, a ByteSource) or a tensor uint8 (height, width, 3). It is read when its batch comes.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import cat, interpolate, sigmoid, tensor
from pyapp.errors import ArgumentError, ModelError, OptionError, check_settings
from pyapp.events import Done, Item, Progress
from pyapp.formats.png import encode_png
from pyapp.text.generation.options import check_number
from pyapp.vision.processors import Prepared

from .given_files import check_files, listed
from .matching import embedding_items, prompt_of_labels, vectors_of_labels, vectors_of_texts
from .text_batches import Work, checked_texts
from .texts import check_top, ranked, ranked_labels, stream_of

BATCH_SIZE = 4  # pictures
LARGEST = 1 << 20  # a place in a picture, in pixels
FONTS, FONT = "ybelkada/fonts", "Arial.TTF"  # with which models were trained
TILE, MARGIN = 128, 32  # pixels of a side of the parts of pictures that are made larger, and around them
MOST_PIXELS = 1 << 28  # of a picture that was made larger
SHOWN, MOST_SHOWN = "visual", 1024  # the text beside boxes that show what to find, as in SAM 3's training; boxes


def in_batches(loaded: Any, images: Sequence[Any], batch_size: int) -> Iterator[tuple[range, Prepared]]:
    """The numbers of the pictures of each batch, and what the model reads of them."""
    from pyapp.vision.reading import read_image

    if type(batch_size) is not int or batch_size < 1:
        raise OptionError(f"{batch_size!r} is not a number of pictures from 1", where="batch_size")
    for first in range(0, len(images), batch_size):
        chosen = images[first : first + batch_size]
        pictures = [image if isinstance(image, Tensor) else read_image(image) for image in chosen]
        try:
            prepared = loaded.processor(pictures, loaded.model.device)
        except ArgumentError as error:  # such as a very narrow picture
            raise _not_taken(chosen, error) from error
        yield range(first, first + len(chosen)), prepared


def _not_taken(images: Sequence[Any], error: ArgumentError) -> OptionError:
    """The error for pictures of the user's that a model or its processor does not take."""
    names = [str(image) if isinstance(image, str | os.PathLike) else "the picture" for image in images]
    return OptionError(error.what, where=", ".join(names), hint="Crop it, or take another picture")


@contextmanager
def _looking(images: Sequence[Any], chosen: range) -> Iterator[None]:
    """Around what a model makes of the `chosen` ones of the pictures, without gradients. OptionError where they have,
    prepared, another size than it takes.
    """
    try:
        with no_grad():
            yield
    except ArgumentError as error:
        raise _not_taken(images[chosen.start : chosen.stop], error) from error


def _together(loaded: Any, batch_size: int) -> int:
    """The pictures of a batch: one, where each keeps its shape."""
    return batch_size if loaded.processor.fixed_size is not None else min(batch_size, 1)


def label_images(loaded: Any, images: Sequence[Any], *, top: int | None = 5, batch_size: int = BATCH_SIZE) -> Work:
    """Items with `labels`: the names and probabilities of a picture's labels, the most probable first, at most `top` of
    them (None: all).
    """
    check_top(top)
    images = listed(images)
    for chosen, prepared in in_batches(loaded, images, batch_size):
        yield None
        with _looking(images, chosen):
            rows = loaded.model(prepared.pixel_values).to("float32").tolist()  # (B, labels)
        for index, scores in zip(chosen, rows, strict=True):
            yield Item(index, {"labels": ranked_labels(loaded, scores, top)})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def answers_about(
    loaded: Any, images: Sequence[Any], question: str, *, top: int | None = 5, batch_size: int = BATCH_SIZE
) -> Work:  # fmt: skip
    """Items with `labels`: the answers to a question about each picture, by a model such as ViLT that chooses among the
    answers that it knows, with their probabilities, of each by itself; the most probable first, at most `top` of them
    (None: all).
    """
    check_top(top)
    images, model = listed(images), loaded.model
    [question] = checked_texts([question])
    if not question.strip():
        raise OptionError("is empty", where="question", hint="Write what you want to know of the picture")
    ids = loaded.tokenizer.encode(question, parse_special=False)
    if len(ids) > model.most:
        raise OptionError(
            f"it has {len(ids):,} tokens, the model reads {model.most:,}", where="question", hint="Ask in fewer words"
        )
    names = model.config.labels
    for chosen, prepared in in_batches(loaded, images, _together(loaded, batch_size)):
        yield None
        asked = int32_tensor(ids * len(chosen), model.device).reshape(len(chosen), len(ids))
        with _looking(images, chosen):
            rows = model(prepared.pixel_values, asked).to("float32").tolist()  # (B, answers)
        for index, scores in zip(chosen, rows, strict=True):
            yield Item(index, {"labels": ranked(names, scores, True, top)})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def match_labels(
    loaded: Any, images: Sequence[Any], labels: Sequence[str], *, template: str | None = None, top: int | None = None,
    batch_size: int = BATCH_SIZE,
) -> Work:  # fmt: skip
    """Items with `labels`: how probably each of the given labels says what a picture shows, the most probable first, at
    most `top` of them. CLIP's probabilities add up to 1, SigLIP's do not.

    `template` makes a text of a label, which takes the place of {}; by default that of the model.
    """
    check_top(top)
    images = listed(images)
    texts = yield from vectors_of_labels(loaded, labels, template)
    for chosen, prepared in in_batches(loaded, images, _together(loaded, batch_size)):
        yield None
        with _looking(images, chosen):
            rows = loaded.model.scores(loaded.model.image_features(prepared.pixel_values), texts).to("float32").tolist()
        for index, scores in zip(chosen, rows, strict=True):
            yield Item(index, {"labels": ranked(labels, scores, loaded.model.independent, top)})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def vectors_of_images(
    loaded: Any, images: Sequence[Any], texts: Sequence[str] = (), *, batch_size: int = BATCH_SIZE
) -> Work:
    """Items with `embedding`, a list of floats of length 1: those of the pictures, then those of the texts, which are
    near one another where a text says what a picture shows. Done with `dimensions`.
    """
    images, texts, width = listed(images), checked_texts(texts), 0

    for chosen, prepared in in_batches(loaded, images, _together(loaded, batch_size)):
        yield None
        with _looking(images, chosen):
            found = loaded.model.image_features(prepared.pixel_values)
            yield from embedding_items(chosen.start, found)
        width = found.shape[1]
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    if texts:
        found = yield from vectors_of_texts(loaded, texts)
        width = found.shape[1]
        yield from embedding_items(len(images), found)
    yield Done("complete", {"count": len(images) + len(texts), "dimensions": width})


def find_objects(loaded: Any, images: Sequence[Any], *, threshold: float = 0.5) -> Work:
    """Items with `objects` and `size` [height, width]: the objects of a picture that are more probable than the
    threshold, the most probable first. Each has `label`, `score` and `box`: left, top, right, bottom in pixels. Models
    of poses add `points`, each [x, y, how surely it is visible] in pixels, those of turned boxes `corners`, four [x, y]
    around which `box` lies, those of outlines `runs`: the pixels of the
    picture row by row, as lengths of runs outside of the object and in it by turns.

    Pictures are computed one by one, because padding would change them.
    """
    check_number("threshold", threshold, 0, 1)
    return _found(
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

    yield from _found(loaded, images, look)


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
        _check_box(box)
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


def _found(loaded: Any, images: Sequence[Any], look: Callable[[Prepared], list[dict[str, Any]]]) -> Work:
    """The work of finding objects: `look` finds those of a prepared picture."""
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        with _looking(images, chosen):
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


def label_areas(loaded: Any, images: Sequence[Any]) -> Work:
    """Items with `segments`, `size` [height, width] and `runs`: the labels of a picture's pixels. Each segment has
    `label`, its `number` and its `share` of the picture, the largest first; the runs are [number, pixels], row by row.

    Pictures are computed one by one, because they may have several sizes.
    """
    images = listed(images)
    names = loaded.model.config.labels
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        with _looking(images, chosen):
            logits = loaded.model(prepared.pixel_values).to("float32")  # (parts, labels, h, w)
            logits = loaded.processor.whole_map(logits, *prepared.sizes[0])  # (1, labels, h', w')
            logits = interpolate(logits, size=prepared.sizes[0], mode="bilinear", align_corners=False)
        numbers = logits.cpu().numpy()[0].argmax(0).reshape(-1)  # (H * W,)
        counts = np.bincount(numbers, minlength=len(names)).tolist()
        segments = [
            {"label": names[i], "number": i, "share": counts[i] / numbers.size}
            for i in sorted(range(len(names)), key=lambda i: -counts[i]) if counts[i]
        ]  # fmt: skip
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
        with _looking(images, chosen):
            chances = sigmoid(loaded.model.found(prepared.pixel_values, texts).to("float32"))  # (N, h, w)
            chances = interpolate(chances.unsqueeze(0), size=prepared.sizes[0], mode="bilinear", align_corners=False)
        rows = chances.cpu().numpy()[0].reshape(len(labels), -1)  # (N, H * W)
        numbers = np.where(rows.max(0) > threshold, rows.argmax(0) + 1, 0)
        counts = np.bincount(numbers, minlength=len(labels) + 1).tolist()
        segments = [
            {"label": labels[i - 1], "number": i, "share": counts[i] / numbers.size}
            for i in sorted(range(1, len(counts)), key=lambda i: -counts[i]) if counts[i]
        ]  # fmt: skip
        yield Item(chosen.start, {"segments": segments, "size": list(prepared.sizes[0]), "runs": runs_of(numbers)})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def depths_of(loaded: Any, images: Sequence[Any]) -> Work:
    """Items with `png`, `size` [height, width], `least`, `most` and `metric`: how far the pixels of a picture are. The
    PNG file, as base64, has 16 bits of grey for each pixel: 0 for `least`, 65535 for `most`, and between them in
    proportion. `metric`: the depths are metres; else they are nearness, the larger the nearer, in a unit of the
    picture.

    Pictures are computed one by one, because they may have several sizes.
    """
    images, model = listed(images), loaded.model
    distances = getattr(model, "distances", None)  # what makes depths of a model's numbers, where they are not depths
    mode = "bicubic" if distances is None else "bilinear"
    for chosen, prepared in in_batches(loaded, images, 1):
        yield None
        with _looking(images, chosen):
            found = model(prepared.pixel_values).to("float32").unsqueeze(1)  # (1, 1, h, w)
            (height, width), (above, beside) = prepared.sizes[0], loaded.processor.margins(*prepared.sizes[0])
            size = height + 2 * above, width + 2 * beside
            found = interpolate(found, size=size, mode=mode, align_corners=False)
            found = found[:, :, above : above + height, beside : beside + width]
            found = found if distances is None else distances(found)
        depths = found.cpu().numpy()[0, 0]
        least, most = float(depths.min()), float(depths.max())
        grey = (depths - least) * (65535 / (most - least) if most > least else 0.0)
        png = base64.b64encode(encode_png(grey.round().astype("uint16")[:, :, None])).decode()
        values = {"png": png, "least": least, "most": most, "metric": model.config.metric}
        yield Item(chosen.start, values | {"size": list(prepared.sizes[0])})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def larger_pictures(loaded: Any, images: Sequence[Any], *, tile: int = TILE) -> Work:
    """Items with `png`, `size` [height, width] and `scale`: pictures made larger, `scale` times on each side, or made
    cleaner, with the scale 1, by a model such as Swin2SR. The PNG file is base64. Progress in "tiles".

    tile: a large picture is computed in parts of so many pixels a side, each with MARGIN more around it, because memory
    grows with a part's size; 0: each picture as a whole.
    """
    from pyapp.vision.reading import read_image

    check_number("tile", tile, 0, LARGEST, whole=True)
    images, model = listed(images), loaded.model
    scale = model.scale
    if loaded.processor.do_resize or loaded.processor.do_center_crop:
        raise ModelError(
            "its image processor changes the sizes of pictures", where=loaded.name,
            hint="Give the preprocessor_config.json that belongs to the weights",
        )  # fmt: skip
    for index, image in enumerate(images):
        yield None
        picture = image if isinstance(image, Tensor) else read_image(image)
        high, wide = (int(side) for side in picture.shape[:2])
        if high * wide * scale * scale > MOST_PIXELS:
            raise OptionError(
                f"a picture of {high:,} x {wide:,} pixels would have more than {MOST_PIXELS:,}, {scale} times as long",
                where=str(image) if isinstance(image, str | os.PathLike) else "images",
                hint="Crop it, or make it smaller",
            )
        found = np.empty((high * scale, wide * scale, 3), "uint8")
        step = tile or max(high, wide)
        places = [(top, left) for top in range(0, high, step) for left in range(0, wide, step)]
        for number, (top, left) in enumerate(places, 1):
            first = max(top - MARGIN, 0), max(left - MARGIN, 0)
            part = picture[first[0] : top + step + MARGIN, first[1] : left + step + MARGIN]
            with no_grad():
                pixels = model(loaded.processor([part], model.device).pixel_values)[0].to("float32").cpu().numpy()
            bottom, right = min(top + step, high), min(left + step, wide)
            (above, below), (before, behind) = (
                ((start - own) * scale, (end - own) * scale)
                for start, end, own in ((top, bottom, first[0]), (left, right, first[1]))
            )
            inner = (pixels[:, above:below, before:behind].clip(0, 1) * 255).round()  # (3, h, w)
            found[top * scale : bottom * scale, left * scale : right * scale] = inner.transpose(1, 2, 0)
            yield Progress("tiles", number, len(places), "tiles")
        png = base64.b64encode(encode_png(found)).decode()
        yield Item(index, {"png": png, "size": [high * scale, wide * scale], "scale": scale})
        yield Progress("pictures", index + 1, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


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
            _check_box(box)
            prepared = loaded.processor([part_of(picture, box, height, width)], loaded.model.device)
            with no_grad():
                heat = loaded.model(prepared.pixel_values)[0].to("float32").cpu().numpy()  # (points, H, W)
            points = points_of(heat, box, height, width)
            found.append({"label": "person", "box": [float(side) for side in box], "points": points})
            yield None
        yield Item(index, {"objects": found, "points": names, "size": size})
        yield Progress("pictures", index + 1, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def _check_box(box: Any) -> None:
    """OptionError for what is not a box with an area."""
    plausible = isinstance(box, list | tuple) and len(box) == 4
    plausible = plausible and all(type(side) in (int, float) and abs(side) <= LARGEST for side in box)
    if not plausible or box[2] <= box[0] or box[3] <= box[1]:
        raise OptionError(
            f"{box!r:.80} is not a box: left, top, right, bottom in pixels", where="boxes", hint="Give such 4 numbers"
        )


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


def texts_of_images(
    loaded: Any, images: Sequence[Any], *, batch_size: int = BATCH_SIZE, prompt: str | None = None,
    font: Any = None, **options: Any,
) -> Work:  # fmt: skip
    """Items with `text`: what the model reads in each picture. TrOCR reads one line of text. `prompt`: for GIT,
    BLIP-2 and InstructBLIP with a T5, a question or an instruction, unless given one for a caption; for Pix2Struct of
    questions and DePlot, what stands above the picture, in the TrueType file `font` (None: Arial, which the hub's
    ybelkada/fonts has); for Florence-2, the
    name of its task, "<CAPTION>" unless given, "<OCR>", "<OD>" …, or other words. Those of its tasks that find
    something also have `objects`, each with `label` and `box` or `corners` in pixels, and `size` [height, width].

    The other options are those of text.generation.sequence_to_sequence.SearchOptions, by default those of the model's
    files.
    """
    from pyapp.text.generation.sequence_to_sequence import SearchOptions, search

    model, decoder = loaded.model, loaded.settings.get("decoder") or {}
    if getattr(loaded.processor, "is_vqa", False):
        decoder = loaded.settings.get("text_config") or {}
        loaded = replace(loaded, processor=replace(loaded.processor, header=_header(prompt, font)))
    elif hasattr(model, "prompted"):
        wanted = model.usual_prompt if prompt is None else prompt
        model = model.prompted(wanted, lambda words: loaded.tokenizer.encode(words, bos=False, eos=False))
        decoder = loaded.settings.get("text_config") or {}
    elif prompt is not None:
        raise OptionError(
            "this model takes none",
            where="prompt",
            hint="Leave it out, or take InstructBLIP, BLIP-2, GIT or Florence-2",
        )
    else:
        decoder = decoder or loaded.settings.get("text_config") or {}
    own = {name: value for name, value in loaded.settings.items() if value is not None}
    generation = {**loaded.generation, **getattr(model, "generation", {})}
    settings = SearchOptions.from_files({**decoder, **own}, generation, options)
    images = listed(images)
    for chosen, prepared in in_batches(loaded, images, _together(loaded, batch_size)):
        written: list[list[int]] = []
        for state in search(model, prepared.pixel_values, None, settings):
            written = state or []
            yield None
        for index, ids in zip(chosen, written, strict=True):
            if not hasattr(model, "text_of"):
                yield Item(index, {"text": loaded.tokenizer.decode(ids).strip()})
                continue
            text = model.text_of(ids, loaded.tokenizer).strip()
            size = prepared.sizes[index - chosen.start]
            placed = {"objects": model.objects_of(text, size), "size": list(size)} if model.numbers else {}
            yield Item(index, {"text": text} | placed)
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def _header(prompt: str | None, font: Any) -> Callable[[Tensor], Tensor]:
    """What puts a prompt above pictures."""
    from pyapp import hub
    from pyapp.vision.headers import header

    if prompt is None:
        raise OptionError("this model answers questions", where="prompt", hint="Ask what you want to know")
    if font is None:
        [font] = hub.resolve_files(FONTS, lambda names: [name for name in names if name == FONT]).values()
    return header(prompt, font)


def check_start(
    prompts: Any, *, image: Any = None, mask: Any = None, control_image: Any = None, adapter_image: Any = None,
    **more: Any,
) -> None:  # fmt: skip
    """OSError for a start picture, and the like, whose file is not there."""
    check_files([given for given in (image, mask, control_image, adapter_image) if given is not None])


def drawn_texts(
    loaded: Any, prompts: Sequence[str], *, image: Any = None, mask: Any = None, control_image: Any = None,
    adapter_image: Any = None, **options: Any,
) -> Work:  # fmt: skip
    """Items with `png`, a picture of each prompt as base64 of a PNG file, `size` [height, width] and `seed`.

    image: a picture that the drawing starts from; mask: a grey picture that is light where all is to be new, and dark
    where the start picture stays; control_image: what a ControlNet reads; adapter_image: what an IP-Adapter reads
    beside the prompts. Options: negative_prompt, steps, guidance,
    true_cfg_scale, height, width, seed, schedule ("ddim", "dpm++", "dpm++-karras" …), strength, control_scale;
    pyapp.models.diffusion.sampling.ImagineOptions says what they mean. For the loader
    (pyapp.models.diffusion.load.load_diffusion): vae, another autoencoder; lora, LoRA files; control, a ControlNet;
    transformer, a file of the transformer of FLUX, Stable Diffusion 3, Z-Image or Qwen-Image; prior, Würstchen's prior;
    adapter, an IP-Adapter, and image_encoder, its CLIP.
    """
    from pyapp.models.diffusion.cascade import begin_drawing
    from pyapp.models.diffusion.sampling import ImagineOptions
    from pyapp.vision.reading import read_image

    check_settings(options, ImagineOptions.__dataclass_fields__)
    prompts = checked_texts(prompts)
    if not prompts:
        raise OptionError("at least one prompt is needed", where="prompts")
    settings = ImagineOptions(**options)
    picture, mask, control, prompt = (
        given if given is None or isinstance(given, Tensor) else read_image(given, mode)
        for given, mode in ((image, "RGB"), (mask, "L"), (control_image, "RGB"), (adapter_image, "RGB"))
    )
    yield None
    drawing = begin_drawing(loaded, prompts, settings, picture=picture, mask=mask, control=control, prompt=prompt)
    for i in range(drawing.steps):
        yield None
        drawing.step(i)
        yield Progress("drawing", i + 1, drawing.steps, "steps")
    for index, pixels in enumerate(drawing.pictures()):
        png = base64.b64encode(encode_png(pixels.numpy())).decode()
        yield Item(index, {"png": png, "size": [drawing.height, drawing.width], "seed": settings.seed})
        yield None
    yield Done("complete", {"count": len(prompts), "steps": drawing.steps})


classify_images = stream_of("classify-image", label_images, remote=False, check=check_files)
answer_images = stream_of("answer-image", answers_about, remote=False, check=check_files)
match_images = stream_of("match-image", match_labels, remote=False, check=check_files)
imagine = stream_of(
    "imagine",
    drawn_texts,
    remote=False,
    check=check_start,
    loading=("vae", "lora", "control", "transformer", "prior", "adapter", "image_encoder"),
)
detect_objects = stream_of("detect", find_objects, remote=False, check=check_files)
detect_labels = stream_of("detect-labels", find_labels, remote=False, check=check_files)
estimate_depth = stream_of("depth", depths_of, remote=False, check=check_files)
estimate_poses = stream_of("pose", poses_of, remote=False, check=check_files)
upscale_images = stream_of("upscale", larger_pictures, remote=False, check=check_files)
segment_images = stream_of("segment", label_areas, remote=False, check=check_files)
segment_labels = stream_of("segment-labels", find_areas, remote=False, check=check_files)
cut_out_objects = stream_of("cut-out", cut_out, remote=False, check=check_files)
embed_images = stream_of("embed-image", vectors_of_images, remote=False, check=check_files)
read_images = stream_of("image-to-text", texts_of_images, remote=False, check=check_files)

# By the task of a model: what it does with pictures, for callers that get the task as a text.
LOOKS = {
    "classify-image": classify_images, "cut-out": cut_out_objects, "depth": estimate_depth, "detect": detect_objects,
    "image-to-text": read_images, "match-image": match_images, "segment": segment_images,
}  # fmt: skip
