"""Tasks over pictures: labels of each, and the text in each.

A picture is a file (a path, bytes, a ByteSource) or a tensor uint8 (height, width, 3). It is read when its batch comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.errors import OptionError
from pyapp.events import Done, Item, Progress

from .text_batches import Work
from .texts import check_top, ranked_labels, stream_of

BATCH_SIZE = 4  # pictures


def _batches(loaded: Any, images: Sequence[Any], batch_size: int) -> Iterator[tuple[range, Tensor]]:
    """The numbers of the pictures of each batch, and what the model reads of them (B, 3, H, W)."""
    from pyapp.vision.reading import read_image

    if type(batch_size) is not int or batch_size < 1:
        raise OptionError(f"{batch_size!r} is no number of pictures from 1", where="batch_size")
    for first in range(0, len(images), batch_size):
        chosen = images[first : first + batch_size]
        pictures = [image if isinstance(image, Tensor) else read_image(image) for image in chosen]
        prepared = loaded.processor(pictures, loaded.model.device)
        yield range(first, first + len(chosen)), prepared.pixel_values


def _listed(images: Any) -> list[Any]:
    """One picture, or several, as a list."""
    return list(images) if isinstance(images, list | tuple) else [images]


def label_images(loaded: Any, images: Sequence[Any], *, top: int | None = 5, batch_size: int = BATCH_SIZE) -> Work:
    """Items with `labels`: the names and probabilities of a picture's labels, the most probable first, at most `top` of
    them (None: all).
    """
    check_top(top)
    images = _listed(images)
    for chosen, pixel_values in _batches(loaded, images, batch_size):
        yield None
        with no_grad():
            rows = loaded.model(pixel_values).to("float32").tolist()  # (B, labels)
        for index, scores in zip(chosen, rows, strict=True):
            yield Item(index, {"labels": ranked_labels(loaded, scores, top)})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


def texts_of_images(loaded: Any, images: Sequence[Any], *, batch_size: int = BATCH_SIZE, **options: Any) -> Work:
    """Items with `text`: what the model reads in each picture. TrOCR reads one line of text.

    The options are those of text.sequence_to_sequence.SearchOptions, by default those of the model's files.
    """
    from pyapp.text.sequence_to_sequence import SearchOptions, search

    decoder = loaded.settings.get("decoder") or {}
    own = {name: value for name, value in loaded.settings.items() if value is not None}
    settings = SearchOptions.from_files({**decoder, **own}, loaded.generation, options)
    images = _listed(images)
    for chosen, pixel_values in _batches(loaded, images, batch_size):
        written: list[list[int]] = []
        for state in search(loaded.model, pixel_values, None, settings):
            written = state or []
            yield None
        for index, ids in zip(chosen, written, strict=True):
            yield Item(index, {"text": loaded.tokenizer.decode(ids).strip()})
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


classify_images = stream_of("classify-image", label_images, remote=False)
read_images = stream_of("read", texts_of_images, remote=False)
