"""The pictures and recordings of a request: in data: URLs and base64 in its messages. No address is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyapp.engine import Tensor
from pyapp.errors import ModelError, OptionError, PyappError
from pyapp.tasks.conversation_media import LONGEST_HEARD
from pyapp.tasks.sounds import samples_of
from pyapp.text.chat.chat_template import sources
from pyapp.text.pictures import Picture, PictureTemplate, Recording, SoundSource, VideoSource, check_seeing, sees, taken
from pyapp.vision.reading import read_image

from .problems import Problem
from .served import ServedModel

PIXELS = 1 << 25  # of a picture: 100 MB in memory


def with_pictures(
    model: ServedModel, messages: Sequence[dict[str, Any]], param: str, counted: bool = True
) -> tuple[list[dict[str, Any]], PictureTemplate | None]:
    """The messages without the pictures and recordings in them, and the template that puts these in their places; None
    where the model sees and hears none. Problem for those that cannot be read, and for more than there is room for;
    `param` is the field with the messages, whose number errors give if they are `counted` as in the request.
    """
    loaded = model.loaded
    try:
        plain, given = taken(messages)
        if given:
            check_seeing(loaded, given, model.runner.capacity)
        if any(isinstance(source, VideoSource) for source in given):
            raise ModelError("videos in messages are not served")
        if not (sees(loaded.model) or sees(loaded.model, "audio")) or not sources(loaded.tokenizer.settings):
            if given:
                raise ModelError("the model has no chat template")
            return plain, None
        pictures: list[Picture] = []
        room = model.runner.capacity
        for source in given:
            if isinstance(source, SoundSource):
                samples, _ = samples_of(source.source, LONGEST_HEARD, True)
                pictures.append(Recording(loaded, samples, room))
            else:
                pictures.append(Picture(loaded, read_image(source, limit=PIXELS), room, len(given)))
            room -= len(pictures[-1].ids)
        return plain, PictureTemplate(loaded, pictures)
    except ModelError as error:  # it may name a place on this machine
        raise Problem(
            f"{param}: {error.what} (the model {model.name!r})", param=param, code="unsupported_content"
        ) from None
    except PyappError as error:
        at = error.where if counted and error.where and error.where.startswith(param) else param
        code = "context_length_exceeded" if isinstance(error, OptionError) and "room for" in error.what else None
        raise Problem(f"{at}: {error.what}. {error.hint}".removesuffix(". None"), param=at, code=code) from None


def picture_in(data: bytes, param: str, mode: str = "RGB") -> Tensor:
    """The picture in a file, which the field `param` gave, as uint8 (H, W, C). Problem for a file that is none."""
    try:
        return read_image(data, mode, PIXELS)
    except PyappError as error:
        raise Problem(f"{param}: {error.what}. {error.hint}", param=param, code="invalid_image") from None
