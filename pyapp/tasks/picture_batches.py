"""Batches of pictures for a model.

A picture is a file (a path, bytes, a ByteSource) or a tensor uint8 (height, width, 3). It is read when its batch comes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.errors import ArgumentError, OptionError
from pyapp.vision.processors import Prepared

BATCH_SIZE = 4  # pictures
LARGEST = 1 << 20  # a place in a picture, in pixels


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
            raise not_taken(chosen, error) from error
        yield range(first, first + len(chosen)), prepared


def not_taken(images: Sequence[Any], error: ArgumentError) -> OptionError:
    """The error for pictures of the user's that a model or its processor does not take."""
    names = [str(image) if isinstance(image, str | os.PathLike) else "the picture" for image in images]
    return OptionError(error.what, where=", ".join(names), hint="Crop it, or take another picture")


@contextmanager
def looking(images: Sequence[Any], chosen: range) -> Iterator[None]:
    """Around what a model makes of the `chosen` ones of the pictures, without gradients. OptionError where they have,
    prepared, another size than it takes.
    """
    try:
        with no_grad():
            yield
    except ArgumentError as error:
        raise not_taken(images[chosen.start : chosen.stop], error) from error


def together(loaded: Any, batch_size: int) -> int:
    """The pictures of a batch: one, where each keeps its shape."""
    return batch_size if loaded.processor.fixed_size is not None else min(batch_size, 1)


def check_box(box: Any) -> None:
    """OptionError for what is not a box with an area."""
    plausible = isinstance(box, list | tuple) and len(box) == 4
    plausible = plausible and all(type(side) in (int, float) and abs(side) <= LARGEST for side in box)
    if not plausible or box[2] <= box[0] or box[3] <= box[1]:
        raise OptionError(
            f"{box!r:.80} is not a box: left, top, right, bottom in pixels", where="boxes", hint="Give such 4 numbers"
        )
