"""What a language model sees or hears before it writes: the pictures and recordings of a conversation, and the pictures
of a prompt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from pyapp.engine.tensor import Tensor
from pyapp.errors import OptionError
from pyapp.events import Cancel, Event, Progress
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.pictures import (
    Picture,
    PictureSession,
    PictureTemplate,
    Recording,
    SoundSource,
    VideoSource,
    between,
    check_seeing,
    part_tokens,
    pictures_first,
    placed,
    placeholders,
    taken,
)
from pyapp.text.videos import Video
from pyapp.vision.reading import read_image_async
from pyapp.vision.videos import all_frames

from .core import Breath, Result, Step
from .sounds import samples_of

LONGEST_HEARD = 2400.0  # seconds of a recording: more than Voxtral was trained for


async def with_pictures(
    loaded: Any, session: Any, messages: Any, template: str | None, cancel: Cancel
) -> AsyncGenerator[Event | Result[tuple[Any, Any]], None]:
    """Progress while the model sees the pictures that it has not seen in this conversation; then (the messages without
    them, the template that puts them in their places: None where the model sees none).
    """
    messages, given = taken(messages)
    if given:
        check_seeing(loaded, given, session.capacity)
    if not hasattr(session, "see"):
        yield Result((messages, None))
        return
    async with Step(_looked_at(loaded, session, given, cancel)) as looking:
        async for event in looking:
            yield event
    yield Result((messages, PictureTemplate(loaded, looking.value, template)))


async def prompt_with_pictures(
    loaded: Any, prompt: str, pictures: Sequence[Any], options: SamplingOptions, cancel: Cancel
) -> AsyncGenerator[Event | Result[tuple[PictureSession, list[int]]], None]:
    """Progress while the model sees pictures; then (a session that knows them, the tokens of the prompt with them).

    They stand where the prompt has the model's placeholder ("<image>" …), once for each, or else before it. OptionError
    for another number of placeholders, and for what does not fit the context.
    """
    check_seeing(loaded, pictures, options.context or loaded.model.config.max_seq_len)
    parts = part_tokens(loaded)
    session = PictureSession(loaded.model, options.context, cache_type=options.cache_type)
    async with Step(_looked_at(loaded, session, pictures, cancel)) as looking:
        async for event in looking:
            yield event
    seen, places = looking.value, placeholders(loaded.model)
    first, *others = places.split(prompt)
    if others and len(others) != len(seen):
        raise OptionError(
            f"it has {len(others)} times {loaded.model.placeholder!r}, and {len(seen)} pictures are given",
            where="prompt",
            hint="Write it once for each picture, or leave it out: the pictures then come first",
        )  # fmt: skip
    if not others:
        first, *others = places.split("".join(picture.placeholder.join(picture.around) for picture in seen) + first)
    text = between([first, *others], seen, loaded.model)
    begins = loaded.model.prompt_form is None and not loaded.model.pictures_ahead
    plain = loaded.tokenizer.encode(text, bos=begins, eos=False)
    if loaded.model.prompt_form is not None and text.startswith(loaded.model.part) and parts[0] in plain:
        plain = plain[plain.index(parts[0]) :]  # without the space that sentencepiece puts before a text
    if loaded.model.pictures_ahead:
        plain = pictures_first(plain, loaded.tokenizer.bos_id, parts[0])
    ids = placed(plain, parts, seen)
    if len(ids) > session.capacity:
        raise OptionError(
            f"it has {len(ids):,} tokens with its pictures: there is room for {session.capacity:,}", where="prompt",
            hint="Give fewer pictures, or choose a larger `context`",
        )  # fmt: skip
    yield Result((session, ids))


async def _looked_at(
    loaded: Any, session: Any, sources: Sequence[Any], cancel: Cancel
) -> AsyncGenerator[Event | Result[list[Picture]], None]:
    """Progress, in tiles or stretches, while the model sees those pictures that are new to the session; then all."""
    pictures: list[Picture] = []
    room = session.capacity
    breath = Breath()
    for one in sources:
        await breath.take()
        cancel.check()
        if isinstance(one, SoundSource):
            pictures.append(Recording(loaded, samples_of(one.source, LONGEST_HEARD, True)[0], room))
        elif isinstance(one, VideoSource):
            reading = all_frames(one.source)
            while True:
                await breath.take()
                cancel.check()
                try:
                    step = next(reading)
                except StopIteration as end:
                    frames, _ = end.value
                    break
                if step is not None:
                    yield Progress("frames", *step, "frames")
            pictures.append(Video(loaded, frames, one.fps, room))
        else:
            pixels = one if isinstance(one, Tensor) else await read_image_async(one)
            pictures.append(Picture(loaded, pixels, room, len(sources)))
        room -= len(pictures[-1].ids)
    new = session.see(pictures)
    total = sum(picture.left for picture in new)
    if total:
        what = ("hearing", "stretches") if isinstance(new[0], Recording) else ("seeing", "tiles")
        yield Progress(what[0], 0, total, what[1])
    for picture in new:
        while not picture.seen:
            await breath.take()
            cancel.check()
            picture.look(cancel.check)
            yield Progress(what[0], total - sum(other.left for other in new), total, what[1])
    yield Result(pictures)
