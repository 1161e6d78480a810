"""Tasks over pictures: labels of each, its vector, and the text in it.

A picture is a file (a path, bytes, a ByteSource) or a tensor uint8 (height, width, 3). It is read when its batch comes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import cat, interpolate
from pyapp.errors import OptionError
from pyapp.events import Done, Event, Item, Progress
from pyapp.text.options import check_number
from pyapp.vision.processors import Prepared

from .text_batches import Work, checked_texts, encoded
from .texts import check_top, ranked, ranked_labels, stream_of

BATCH_SIZE = 4  # pictures
TEXTS = 32  # of a batch


def _batches(loaded: Any, images: Sequence[Any], batch_size: int) -> Iterator[tuple[range, Prepared]]:
    """The numbers of the pictures of each batch, and what the model reads of them."""
    from pyapp.vision.reading import read_image

    if type(batch_size) is not int or batch_size < 1:
        raise OptionError(f"{batch_size!r} is no number of pictures from 1", where="batch_size")
    for first in range(0, len(images), batch_size):
        chosen = images[first : first + batch_size]
        pictures = [image if isinstance(image, Tensor) else read_image(image) for image in chosen]
        yield range(first, first + len(chosen)), loaded.processor(pictures, loaded.model.device)


def _listed(images: Any) -> list[Any]:
    """One picture, or several, as a list."""
    return list(images) if isinstance(images, list | tuple) else [images]


def label_images(loaded: Any, images: Sequence[Any], *, top: int | None = 5, batch_size: int = BATCH_SIZE) -> Work:
    """Items with `labels`: the names and probabilities of a picture's labels, the most probable first, at most `top` of
    them (None: all).
    """
    check_top(top)
    images = _listed(images)
    for chosen, prepared in _batches(loaded, images, batch_size):
        yield None
        with no_grad():
            rows = loaded.model(prepared.pixel_values).to("float32").tolist()  # (B, labels)
        for index, scores in zip(chosen, rows, strict=True):
            yield Item(index, {"labels": ranked_labels(loaded, scores, top)})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def _vectors_of_texts(loaded: Any, texts: Sequence[str]) -> Generator[Event | None, None, Tensor]:
    """The vectors (N, P) of texts by a model of pictures and texts; returns them."""
    model = loaded.model
    encodings = yield from encoded(loaded, texts, None, model.most)
    found = []
    for first in range(0, len(encodings), TEXTS):
        rows = [encoding.ids for encoding in encodings[first : first + TEXTS]]
        length = model.most if model.fixed_length else max(map(len, rows))
        fill = loaded.tokenizer.pad_id or 0
        ids = int32_tensor([i for row in rows for i in (*row, *[fill] * (length - len(row)))], model.device)
        with no_grad():
            found.append(model.text_features(ids.reshape(len(rows), length)))
        yield None
    return cat(found)


def match_labels(
    loaded: Any, images: Sequence[Any], labels: Sequence[str], *, template: str | None = None, top: int | None = None,
    batch_size: int = BATCH_SIZE,
) -> Work:  # fmt: skip
    """Items with `labels`: how probably each of the given labels says what a picture shows, the most probable first, at
    most `top` of them. CLIP's probabilities add up to 1, SigLIP's do not.

    `template` makes a text of a label, which takes the place of {}; by default that of the model.
    """
    check_top(top)
    images, labels = _listed(images), checked_texts(labels)
    template = loaded.model.template if template is None else template
    if not labels or not all(label.strip() for label in labels):
        raise OptionError("at least one label is needed, and none may be empty", where="labels")
    if "{}" not in template:
        raise OptionError(f"{template!r:.60} has no place for a label", where="template", hint="Write {} there")
    texts = yield from _vectors_of_texts(loaded, [template.replace("{}", label) for label in labels])
    for chosen, prepared in _batches(loaded, images, batch_size):
        yield None
        with no_grad():
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
    from pyapp.models.sentences import normalized

    images, texts, width = _listed(images), checked_texts(texts), 0

    def items(first: int, x: Tensor) -> Iterator[Item]:
        for i, row in enumerate(normalized(x).to("float32").tolist()):
            yield Item(first + i, {"embedding": row})

    for chosen, prepared in _batches(loaded, images, batch_size):
        yield None
        with no_grad():
            found = loaded.model.image_features(prepared.pixel_values)
            yield from items(chosen.start, found)
        width = found.shape[1]
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    if texts:
        found = yield from _vectors_of_texts(loaded, texts)
        width = found.shape[1]
        yield from items(len(images), found)
    yield Done("complete", {"count": len(images) + len(texts), "dimensions": width})


def find_objects(loaded: Any, images: Sequence[Any], *, threshold: float = 0.5) -> Work:
    """Items with `objects` and `size` [height, width]: the objects of a picture that are more probable than the
    threshold, the most probable first. Each has `label`, `score` and `box`: left, top, right, bottom in pixels.

    Pictures are computed one by one, because padding would change them.
    """
    check_number("threshold", threshold, 0, 1)
    images = _listed(images)
    for chosen, prepared in _batches(loaded, images, 1):
        yield None
        with no_grad():
            found = loaded.model.objects(*loaded.model(prepared.pixel_values), threshold)[0]
        height, width = prepared.sizes[0]
        for entry in found:
            sides = (width, height, width, height)
            entry["box"] = [part * side for part, side in zip(entry["box"], sides, strict=True)]
        yield Item(chosen.start, {"objects": found, "size": [height, width]})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def label_areas(loaded: Any, images: Sequence[Any]) -> Work:
    """Items with `segments`, `size` [height, width] and `runs`: the labels of a picture's pixels. Each segment has
    `label`, its `number` and its `share` of the picture, the largest first; the runs are [number, pixels], row by row.

    Pictures are computed one by one, because they may have several sizes.
    """
    images = _listed(images)
    names = loaded.model.config.labels
    for chosen, prepared in _batches(loaded, images, 1):
        yield None
        with no_grad():
            logits = loaded.model(prepared.pixel_values).to("float32")  # (1, labels, h, w)
            logits = interpolate(logits, size=prepared.sizes[0], mode="bilinear", align_corners=False)
        numbers = logits.cpu().numpy()[0].argmax(0).reshape(-1)  # (H * W,)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        lengths = np.diff(starts, append=numbers.size)
        counts = np.bincount(numbers, minlength=len(names)).tolist()
        segments = [
            {"label": names[i], "number": i, "share": counts[i] / numbers.size}
            for i in sorted(range(len(names)), key=lambda i: -counts[i]) if counts[i]
        ]  # fmt: skip
        runs = np.stack([numbers[starts], lengths], 1).tolist()
        yield Item(chosen.start, {"segments": segments, "size": list(prepared.sizes[0]), "runs": runs})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def texts_of_images(loaded: Any, images: Sequence[Any], *, batch_size: int = BATCH_SIZE, **options: Any) -> Work:
    """Items with `text`: what the model reads in each picture. TrOCR reads one line of text.

    The options are those of text.sequence_to_sequence.SearchOptions, by default those of the model's files.
    """
    from pyapp.text.sequence_to_sequence import SearchOptions, search

    decoder = loaded.settings.get("decoder") or {}
    own = {name: value for name, value in loaded.settings.items() if value is not None}
    generation = {**loaded.generation, **getattr(loaded.model, "generation", {})}
    settings = SearchOptions.from_files({**decoder, **own}, generation, options)
    images = _listed(images)
    for chosen, prepared in _batches(loaded, images, batch_size):
        written: list[list[int]] = []
        for state in search(loaded.model, prepared.pixel_values, None, settings):
            written = state or []
            yield None
        for index, ids in zip(chosen, written, strict=True):
            yield Item(index, {"text": loaded.tokenizer.decode(ids).strip()})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


classify_images = stream_of("classify-image", label_images, remote=False)
match_images = stream_of("match-image", match_labels, remote=False)
detect_objects = stream_of("detect", find_objects, remote=False)
segment_images = stream_of("segment", label_areas, remote=False)
embed_images = stream_of("embed-image", vectors_of_images, remote=False)
read_images = stream_of("read", texts_of_images, remote=False)
