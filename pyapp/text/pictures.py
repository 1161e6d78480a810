"""Pictures and recordings in conversations: what stands for them in a prompt, and a session that reads them.

A picture becomes vectors, each of which takes the place of a token. Their ids, which no vocabulary has, are drawn from
the picture's pixels, so that texts with the same ids have the same pictures; what has read one need not read it again.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b, shake_256
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.ops import cat, pad
from pyapp.errors import ArgumentError, ModelError, OptionError, PyappError
from pyapp.formats import ByteSource, BytesSource
from pyapp.nn import Module, ModuleList
from pyapp.nn.vision_language.picture_text import RotaryPosition, Seen, grid_positions, last_seen
from pyapp.text.chat.chat_template import PROBE, ChatTemplate
from pyapp.text.generation.session import Session

FIRST_ID = 1 << 62  # from here on ids stand for vectors of pictures
TILES = 1 if sys.platform == "emscripten" else 4  # that the tower sees at once; in a tab each takes seconds
AUDIO_HINT = 'Give {"type": "audio", "audio": a path, bytes or samples}'
VIDEO_HINT = 'Give {"type": "video", "video": a list of pictures, a folder or a tensor, "fps": frames a second}'
PICTURE = str | os.PathLike | bytes | bytearray | memoryview | ByteSource | Tensor  # what a picture is given as
FPS, MOST_FPS = 2.0, 1000  # frames of a second of a video that does not say it; the most
URL_LIMIT = 1 << 28  # characters of a data: URL
ROOM_HINT = "Give fewer pictures, or smaller ones, or choose a larger `context`"


class SoundSource:
    """A recording of a message: a file, or float samples (N,) at 16 kHz."""

    def __init__(self, source: Any) -> None:
        self.source = source


class VideoSource:
    """A video of a message: its frames (pyapp.vision.videos.all_frames), and how many of them are a second."""

    def __init__(self, source: Any, fps: float) -> None:
        self.source, self.fps = source, fps


class Picture:
    """A picture uint8 (height, width, 3) as a model reads it, one of `count` of a text. `text` stands for it in a
    prompt, and `ids` for its vectors, whose tokens the text has. OptionError for one that the model's processor
    does not take, such as a very narrow one, and for one of more than `room` tokens, before it is prepared.
    """

    def __init__(self, loaded: Any, pixels: Tensor, room: int, count: int = 1) -> None:
        model, processor = loaded.model, loaded.model.prepared_for(loaded.processor, count)
        empty = pixels.ndim != 3 or 0 in pixels.shape
        size = (1, 1) if empty else (int(pixels.shape[0]), int(pixels.shape[1]))
        rows, columns = (0, 0) if empty else of_user(lambda: processor.tiles(*size))
        size = of_user(lambda: processor.told(*size))
        self.rows, self.columns, self.size = rows, columns, size
        tokens, (vectors, seen) = model.tokens_in(rows, columns, size), model.vectors_in(rows, columns, size)
        if max(tokens, seen) > room:
            raise OptionError(
                f"a picture of {pixels.shape[1]:,} x {pixels.shape[0]:,} pixels takes {max(tokens, seen):,} tokens: "
                f"there is room for {room:,}", where="messages", hint=ROOM_HINT,
            )  # fmt: skip
        values = of_user(lambda: processor.by_size(pixels))  # (tiles, 3, H, W) each
        head = repr((*pixels.shape, rows, columns)).encode()
        data = head + bytes(pixels.contiguous().data_view())
        self.begin(model, model.picture_text(rows, columns, size), tokens, data, values)
        self.counts = vectors, seen

    def begin(self, model: Any, text: str, count: int, data: bytes, values: Sequence[Tensor]) -> None:
        """Sets what stands for the picture: `text`, and as many ids, drawn from `data`; and `values`, its tiles (N, …)
        for the tower, those of one size together.
        """
        drawn = shake_256(blake2b(data).digest()).digest(8 * count)
        self.text: str = text
        tiles = model.whole_pictures and model.picture_tokens > 1  # of one size; else all of it stands together
        self.block: int = model.picture_tokens if tiles else count  # vectors that stand together
        self.counts = count, count  # its vectors, and those that later tokens see
        self.ids = [FIRST_ID | int.from_bytes(drawn[i : i + 8]) >> 2 for i in range(0, 8 * count, 8)]
        self._model: Any = model
        self.sees: str = model.sees
        self.times: Sequence[int] = (0,)  # of the frames of a video, in rotary positions
        self.group = count  # its vectors that stand together
        self.placeholder: str = model.placeholder  # what stands for it in a chat template or a prompt
        self.around: tuple[str, str] = model.around
        together = max(TILES, model.tiles_together)
        self._left: list[Tensor] = [part for tiles in values for part in tiles.split(together)]  # what is to be seen
        self._found: list[Tensor] = []
        self._alike = len(values) == 1
        self.nbytes = sum(tiles.nbytes for tiles in values)  # what is held of it until it was seen

    @property
    def seen(self) -> bool:
        """Whether the tower has seen all of it."""
        return not self._left

    @property
    def left(self) -> int:
        """How many tiles the tower has still to see; the whole picture, small, is one too."""
        return sum(part.shape[0] for part in self._left)

    def look(self, check: Callable[[], None] = lambda: None) -> None:
        """Has the tower see the next TILES tiles. ModelError and ArgumentError for what it does not take. `check` is
        called before each of its layers: what it raises ends this, and these tiles are still to be seen.
        """
        part = self._left[0].to(self._model.device)
        with no_grad(), calling(self._model.tower, check):
            found = self._see(part)  # (tiles, T, D)
            self._found.append(found if self._alike else found.flatten(0, 1).unsqueeze(0))
            if len(self._left) == 1:
                every = cat(self._found, 0 if self._alike else 1)
                found = self._model.arranged(every, self.rows, self.columns, self.size)
                self._found = [found]
                if found.shape[0] != self.counts[0]:
                    raise ModelError(
                        f"a picture became {found.shape[0]} vectors, expected {self.counts[0]}",
                        hint="Give the preprocessor_config.json that belongs to the weights",
                    )  # fmt: skip
        del self._left[0]

    def _see(self, part: Tensor) -> Tensor:
        """What the model makes of the next tiles."""
        found: Tensor = self._model.features_of(part, self.rows, self.columns)
        return found

    def vectors(self) -> Tensor:
        """(N, D): one for each of the ids; of a picture that is one token, all of its vectors."""
        while not self.seen:
            self.look()
        return self._found[0]


class Recording(Picture):
    """A recording float32 (N,) at 16 kHz as a model hears it (nn.audio.sound_text), whose stretches are what a
    picture's tiles are. OptionError for one of more than `room` tokens.
    """

    def __init__(self, loaded: Any, samples: Any, room: int) -> None:
        self.rows = self.columns = 0
        model, processor = loaded.model.ears, getattr(loaded, "hearing", None) or loaded.processor
        self.size = processor.size(len(samples))
        count = model.tokens_in(0, 0, self.size)
        if count > room:
            raise OptionError(
                f"a recording takes {count:,} tokens: there is room for {room:,}", where="messages",
                hint="Give a part of it, or choose a larger `context`",
            )  # fmt: skip
        self.begin(model, model.picture_text(0, 0, self.size), count, samples.tobytes(), [processor(samples)])

    def _see(self, part: Tensor) -> Tensor:
        frames = self._model.stretches(self.size[1])[-self.left :][: part.shape[0]]
        found: Tensor = self._model.picture_features(part, frames)
        return found


@contextmanager
def calling(tower: Module, check: Callable[[], None]) -> Iterator[None]:
    """Calls `check` before each layer of a tower."""
    layers = (layer for found in tower.modules() if isinstance(found, ModuleList) for layer in found)
    hooks = [layer.register_forward_pre_hook(lambda *_: check()) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def of_user(work: Callable[[], Any]) -> Any:
    """What `work` makes of a picture. OptionError where it does not take it: the picture is the user's."""
    try:
        return work()
    except ArgumentError as error:
        raise OptionError(str(error), where="messages", hint="Crop it, or take another picture") from error


Known = Mapping[int, tuple[Picture, int]]  # by the id of a vector: its picture, and the vector's number


def known_ids(pictures: Sequence[Picture]) -> dict[int, tuple[Picture, int]]:
    """The picture of each vector and the vector's number there, by the vector's id."""
    return {id: (picture, number) for picture in pictures for number, id in enumerate(picture.ids)}


def unseen(ids: Sequence[int], known: Known) -> Picture | None:
    """The first picture in a part of a text that the tower has not seen."""
    return next((picture for id in ids if id >= FIRST_ID and not (picture := known[id][0]).seen), None)


def plain_ids(ids: Sequence[int], token: int) -> list[int]:
    """The ids, with `token` for each vector of a picture."""
    return [token if id >= FIRST_ID else id for id in ids]


def rotary_positions_of(ids: Sequence[int], known: Known) -> list[RotaryPosition]:
    """The rotary positions of a text's tokens up to its last whole picture, for models where those of pictures are of
    their own (nn.vision_language.picture_text.grid_positions); after that they are the places.
    """
    pictures, end = [], 0
    for place, id in enumerate(ids):
        picture, number = known[id] if id >= FIRST_ID else (None, 0)
        if picture is None or not picture.rows or number % picture.group:
            continue
        last = picture.group - 1
        if [*ids[place + last : place + last + 1]] == picture.ids[number + last : number + last + 1]:
            pictures.append((place, picture.rows, picture.columns, picture.times))
            end = place + picture.group
    return grid_positions(end, pictures)


def seen_in(
    ids: Sequence[int], known: Known, first: int = 0, rotary_positions: Sequence[RotaryPosition] = (), prompt: int = 0
) -> Seen | None:
    """What of pictures is in a part of a text that begins at position `first`; None: nothing. `rotary_positions`: those
    of its tokens, where they are not the places. `prompt`: the tokens of the whole prompt, where they attend to each
    other.
    """
    places: list[int] = []
    vectors, spans, counts, at = [], [], [], 0
    while at < len(ids):
        if ids[at] < FIRST_ID:
            at += 1
            continue
        picture, number = known[ids[at]]
        count = 1
        while ids[at + count : at + count + 1] == picture.ids[number + count : number + count + 1] != []:
            count += 1
        apart = picture.counts[0] != len(picture.ids)  # its vectors do not stand in the text
        vectors.append(picture.vectors() if apart else picture.vectors().narrow(0, number, count))
        counts.append(picture.counts)
        start = first + at - number % picture.block
        spans.append((start, start + picture.block))
        places += range(at, at + count)
        at += count
    if not places and not rotary_positions and not prompt:
        return None
    spans = [(0, prompt)] if prompt else spans
    widest = max((part.shape[1] for part in vectors), default=0)  # recordings add nothing to the first layers' outputs
    even = [part if part.shape[1] == widest else pad(part, (0, widest - part.shape[1])) for part in vectors]
    return Seen(cat(even) if places else None, places, spans, rotary_positions, counts)


def positions_within(rotary_positions: Sequence[RotaryPosition], first: int, count: int) -> list[RotaryPosition]:
    """The rotary positions of `count` tokens from `first` on; none, where they are the places."""
    if first >= len(rotary_positions):
        return []
    found = list(rotary_positions[first : first + count])
    return [*found, *((place,) * 3 for place in range(first + len(found), first + count))]


def whole(ids: Sequence[int], end: int, known: Known) -> int:
    """The end of a pass over `ids` from `end` on that is not within a picture."""
    if 0 < end < len(ids) and (found := known.get(ids[end])) is not None:
        return end + -found[1] % found[0].block
    return end


def behind_pictures(ids: Sequence[int]) -> int:
    """The place after the last vector of a picture in a text; 0 where there is none."""
    return max((place for place, id in enumerate(ids) if id >= FIRST_ID), default=-1) + 1


def check_room(ids: Sequence[int], known: Known, capacity: int) -> None:
    """OptionError where the pictures that the end of a text sees have more vectors than its cache has places, in models
    where a picture is one token.
    """
    found = [(place, *known[id][0].counts) for place, id in enumerate(ids) if id >= FIRST_ID]
    seen = last_seen(found)
    if seen > capacity:
        raise OptionError(
            f"pictures that stand side by side take {seen:,} places: there is room for {capacity:,}", where="messages",
            hint=ROOM_HINT,
        )  # fmt: skip


class PictureSession(Session):
    """A session of a model that sees pictures. `known` are the vectors of the text's pictures."""

    known: Known = {}
    _rotary_positions: list[RotaryPosition] = []
    _prompt = 0  # tokens of the prompt, where they attend to each other
    _ahead: list[int] = []  # the pictures of the text, where tokens before them see them

    def see(self, pictures: Sequence[Picture]) -> list[Picture]:
        """The pictures of the text that comes next; returns those that are still to be seen. What was seen of the last
        text is kept.
        """
        last = {picture.ids[0]: picture for picture, number in self.known.values() if number == 0}
        own = {picture.ids[0]: last.get(picture.ids[0], picture) for picture in pictures}
        self.known = known_ids([*own.values()])
        return [picture for picture in own.values() if not picture.seen]

    def plain(self, ids: Sequence[int]) -> Sequence[int]:
        token: int = self.model.config.image_token_id  # type: ignore[attr-defined]
        return plain_ids(ids, min(token, self.vocab_size - 1))

    def reuse(self, ids: Sequence[int]) -> int:
        rotary_positions = rotary_positions_of(ids, self.known) if self.model.sections else []  # type: ignore[attr-defined]
        if rotary_positions[:1] != self._rotary_positions[:1]:  # other pictures after it: all positions have changed
            self.rewind(0)
        self._rotary_positions = rotary_positions
        prompt = len(ids) if self.known and self.model.whole_prompt else 0  # type: ignore[attr-defined]
        if prompt != self._prompt:
            self.rewind(0)
        self._prompt = prompt
        ahead = [id for id in ids if id >= FIRST_ID] if self.model.pictures_ahead else []  # type: ignore[attr-defined]
        if ahead:
            check_room(ids, self.known, self.capacity)
        if ahead != self._ahead:
            self.rewind(0)
        self._ahead = ahead
        found = super().reuse(ids)
        if found < prompt - 1 or (ahead and found < behind_pictures(ids)):  # what comes later has changed all of it
            self.rewind(0)
        return self.position

    def passes(self, ids: Sequence[int]) -> Iterator[Sequence[int]]:
        if not self.model.whole_pictures:  # type: ignore[attr-defined]
            yield from super().passes(ids)
            return
        if self._prompt:
            yield from filter(None, [ids])
            return
        if self.model.pictures_ahead:  # type: ignore[attr-defined]
            first = behind_pictures(ids)
            yield from filter(None, [ids[:first]])
            yield from super().passes(ids[first:])
            return
        for part in super().passes(range(len(ids))):
            start = whole(ids, part[0], self.known)
            end = whole(ids, part[-1] + 1, self.known)
            if start < end:
                yield ids[start:end]

    def _pass(self, ids: Sequence[int]) -> Tensor:
        positions = positions_within(self._rotary_positions, self.position, len(ids))
        seen = seen_in(ids, self.known, self.position, positions, self._prompt)
        tokens = int32_tensor(self.plain(ids), self.device)
        model: Any = self.model
        found: Tensor = model.forward_cached(tokens, self._place, self.cache, seen=seen, first=self.position)
        return found


def senses(model: Any, videos: bool = False) -> list[Any]:
    """What of a model sees or hears: the model itself, its ears where it has both, and with `videos` what sees them."""
    found = [model, getattr(model, "ears", model), getattr(model, "watcher", None) if videos else None]
    return list({sense.sees: sense for sense in found if sense is not None}.values())


def placeholders(model: Any, videos: bool = False) -> re.Pattern[str]:
    """What stands for a picture, a recording or, with `videos`, a video in a chat template or a prompt."""
    return re.compile("|".join(re.escape(sense.placeholder) for sense in senses(model, videos)))


def part_tokens(loaded: Any, videos: bool = False) -> list[int]:
    """The tokens of the vectors of a picture, a recording or, with `videos`, a video. ModelError where the tokenizer
    has none.
    """
    parts = []
    for sense in senses(loaded.model, videos):
        names = {sense.part, sense.placeholder}
        found: list[int] = loaded.tokenizer.encode_guarded(sense.part)
        if len(found) != 1 or not names <= loaded.tokenizer.special_names:
            raise ModelError(f"the tokenizer has no token {sense.part}", where=loaded.name)
        parts += found
    return parts


def placed(ids: Sequence[int], parts: Sequence[int], pictures: Sequence[Picture]) -> list[int]:
    """The ids with those of the vectors of pictures in place of the tokens `parts`. ModelError for another number."""
    wanted = [id for picture in pictures for id in picture.ids]
    ids = plain_ids(ids, parts[0])
    count = sum(id in parts for id in ids)
    if count != len(wanted):
        raise ModelError(f"the text has {count} tokens for {len(wanted)} vectors of pictures")
    following = iter(wanted)
    return [next(following) if id in parts else id for id in ids]


def pictures_first(ids: Sequence[int], first: int | None, part: int) -> list[int]:
    """The ids of a prompt, with the token `first` that begins texts, if they lack it, after the pictures with which
    the prompt begins.
    """
    if first is None or first in ids:
        return list(ids)
    count = next((place for place, id in enumerate(ids) if id != part), len(ids))
    return [*ids[:count], first, *ids[count:]]


def between(parts: Sequence[str], pictures: Sequence[Picture], model: Any) -> str:
    """The text of a prompt: the parts of it, with the text of a picture between each two."""
    first, *others = parts
    if others and model.prompt_form is not None:
        behind, end = model.prompt_form
        others[-1] = f"{behind}{others[-1]}{end}"
    if others:
        others[-1] += model.prompt_end
    others = [model.behind + other if other[:1].strip("<") and not other[0].isspace() else other for other in others]
    return first + "".join(picture.text + other for picture, other in zip(pictures, others, strict=True))


class PictureTemplate(ChatTemplate):
    """The chat template of a model that sees pictures, for a conversation with these."""

    def __init__(self, loaded: Any, pictures: Sequence[Picture], source: str | None = None) -> None:
        super().__init__(loaded.tokenizer, source=source)
        self.pictures, self._model = pictures, loaded.model
        self._videos = any(picture.sees == "video" for picture in pictures)
        self._lists = self._joins = False
        self._lists = PROBE not in self.render([{"role": "user", "content": PROBE}])
        self._joins = bool(pictures) and not self._lists and not self._has_places()
        self.parts = part_tokens(loaded, self._videos)

    def _has_places(self) -> bool:
        """Whether the template has a place for a picture in a list of parts."""
        found = senses(self._model, self._videos)
        kinds = [{"type": sense.sees} for sense in found]
        parts = [*kinds, {"type": "text", "text": PROBE}]
        try:
            told = self.render([{"role": "user", "content": parts}])
            return all(sense.placeholder in told for sense in found)
        except PyappError:  # it joins texts
            return False

    def render(self, messages: Any, tools: Any = None, **options: Any) -> str:
        if self._joins:  # the template reads texts only
            places = {sense.sees: sense.placeholder for sense in senses(self._model, self._videos)}
            messages = [
                {**message, "content": "".join(
                    places[part["type"]] if part["type"] in places else part["text"] for part in message["content"]
                )}
                if isinstance(message.get("content"), list) else message
                for message in messages
            ]  # fmt: skip
        if self._lists:  # the template reads lists of parts only
            messages = [
                {**message, "content": [{"type": "text", "text": message["content"]}]}
                if isinstance(message.get("content"), str) else message
                for message in messages
            ]  # fmt: skip
        return super().render(messages, tools, **options)

    def render_guarded(self, messages: Any, tools: Any = None, **options: Any) -> str:
        """As ChatTemplate.render_guarded, with the text of each picture."""
        parts = placeholders(self._model, self._videos).split(super().render_guarded(messages, tools, **options))
        if len(parts) != len(self.pictures) + 1:
            raise OptionError(
                f"the chat template has places for {len(parts) - 1} of {len(self.pictures)} pictures", where="messages",
                hint="Put pictures into messages of the user",
            )  # fmt: skip
        return between(parts, self.pictures, self._model)

    def encode_guarded(self, text: str) -> list[int]:
        """As ChatTemplate.encode_guarded; as in transformers after what a tokenizer puts before a text, if the template
        does not.
        """
        before, found = self.tokenizer.encode("", eos=False), super().encode_guarded(text)
        if self.pictures and self._model.prompt_form is not None:
            return found
        return found if found[: len(before)] == before else [*before, *found]

    def placed(self, ids: Sequence[int]) -> list[int]:
        return placed(ids, self.parts, self.pictures)


# -- pictures in messages


def taken(messages: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """The messages, with {"type": "image"} for each picture in them and {"type": "audio"} for each recording, and
    these: paths, bytes, ByteSources or tensors uint8 (height, width, 3), and Sounds.

    A message's content may be a list of parts: {"type": "text", "text": …}, {"type": "image", "image": …}, {"type":
    "audio", "audio": …} with a path, bytes, a ByteSource or float samples (N,) at 16 kHz, and as OpenAI's interface has
    them {"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}. OptionError for others.
    """
    found: list[dict[str, Any]] = []
    pictures: list[Any] = []
    for index, message in enumerate(messages):
        content = message.get("content")
        if not isinstance(content, list | tuple):
            found.append(dict(message))
            continue
        parts: list[Any] = []
        for number, part in enumerate(content):
            where = f"messages[{index}].content[{number}]"
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind in ("image", "image_url"):
                pictures.append(_source(part, kind, where))
                part = {"type": "image"}
            elif kind == "audio":
                if part.get(kind) is None:
                    raise OptionError("the recording is missing", where=where, hint=AUDIO_HINT)
                pictures.append(SoundSource(part[kind]))
                part = {"type": kind}
            elif kind == "video":
                pictures.append(_video(part, where))
                part = {"type": kind}
            elif kind != "text" or not isinstance(part.get("text"), str):
                raise OptionError(
                    f"a part of type {kind!r:.40} is not known", where=where, hint="Known: text, image, audio, video"
                )
            parts.append(part)
        if all(part["type"] == "text" for part in parts):
            found.append({**message, "content": "".join(part["text"] for part in parts)})
        else:
            found.append({**message, "content": parts})
    return found, pictures


def _source(part: Mapping[str, Any], kind: str, where: str) -> Any:
    """The picture of a part."""
    given = part.get(kind)
    if kind == "image_url":
        given = given.get("url") if isinstance(given, Mapping) else given
        return BytesSource(read_data_url(given, where), "the picture")
    if isinstance(given, PICTURE):
        return given
    raise OptionError("the picture is missing", where=where, hint='Give {"type": "image", "image": a path or bytes}')


def _video(part: Mapping[str, Any], where: str) -> VideoSource:
    """The video of a part."""
    fps = part.get("fps", FPS)
    given = part.get("video")
    if not isinstance(given, str | os.PathLike | list | tuple | Tensor):
        raise OptionError("the video is missing", where=where, hint=VIDEO_HINT)
    if isinstance(given, list | tuple) and not all(isinstance(frame, PICTURE) for frame in given):
        raise OptionError("a frame of the video is no picture", where=where, hint="Give paths, bytes or tensors")
    if type(fps) not in (int, float) or not 0 < fps <= MOST_FPS:
        raise OptionError(f"fps is {fps!r:.40}, expected a number up to {MOST_FPS:,}", where=where, hint=VIDEO_HINT)
    return VideoSource(given, fps)


def read_data_url(url: Any, where: str) -> bytes:
    """The bytes of a data: URL in base64. OptionError for other addresses, which are not fetched."""
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not head[:5].lower() == "data:" or not head.lower().endswith(";base64") or not comma:
        raise OptionError(
            "pictures come as data: URLs in base64; other addresses are not opened", where=where,
            hint="Send data:image/png;base64,…",
        )  # fmt: skip
    if len(data) > URL_LIMIT:
        raise OptionError(f"the picture has more than {URL_LIMIT:,} characters", where=where)
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise OptionError("this is not base64", where=where) from None


def sees(model: Any, kind: str = "image") -> bool:
    """Whether a model sees pictures; with `kind` "audio", whether it hears recordings, with "video", sees videos."""
    return hasattr(model, "sees") and kind in [sense.sees for sense in senses(model, True)]


def check_seeing(loaded: Any, given: Sequence[Any], capacity: int) -> None:
    """ModelError for a model that cannot read the pictures or the recordings (Sounds) that are given, OptionError for
    more than can have room in its context.
    """
    count = len(given)
    kinds = ["audio" if isinstance(one, SoundSource) else "video" if isinstance(one, VideoSource) else "image"
             for one in given]  # fmt: skip
    for kind, name, task in (
        ("image", "pictures", "image-text-to-text"),
        ("audio", "recordings", "audio-text-to-text"),
        ("video", "videos", "Qwen-VL and Qwen-Omni"),
    ):
        if kind in kinds and not sees(loaded.model, kind):
            raise ModelError(
                f"this model reads no {name}", where=loaded.name,
                hint=f"Leave them out, or take a model that does: docs/models.md, {task}",
            )  # fmt: skip
    if loaded.processor is None:
        raise ModelError("its preprocessor_config.json is missing", where=loaded.name, hint="Put it beside the model")
    tokens = count * loaded.model.picture_tokens
    if tokens > capacity:
        what = "recordings" if sees(loaded.model, "audio") else "pictures"
        raise OptionError(
            f"{count} {what} take {tokens:,} tokens or more: there is room for {capacity:,}", where="messages",
            hint=ROOM_HINT,
        )  # fmt: skip
