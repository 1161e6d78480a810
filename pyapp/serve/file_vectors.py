"""Vectors of pictures, of recordings and of texts beside them: /v1/embeddings, whose `input` then has objects, as in
Jina's interface: {"image": …}, {"audio": …}, {"text": …}, with files in base64 or data: URLs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from pyapp import tasks
from pyapp.formats.source import BytesSource

from .context import Context
from .fields import Fields, decoded
from .items import by_task
from .running import Stream

MOST_FILES = 256  # of one request
# By the task of a model: the key of its files in requests, and the stream of pyapp.tasks.
KINDS: Mapping[str, tuple[str, Stream]] = {
    "embed-image": ("image", tasks.embed_images),
    "match-image": ("image", tasks.embed_images),
    "embed-sound": ("audio", tasks.embed_sounds),
    "match-sound": ("audio", tasks.embed_sounds),
}


def asks_for_files(context: Context, name: str | None, given: Any) -> bool:
    """Whether a request with the input `given` is for a model of pictures or recordings."""
    model = context.models.by_name.get(name or "")
    if model is not None:
        return model.task in KINDS
    return isinstance(given, list) and any(isinstance(entry, dict) for entry in given)


def parted(fields: Fields, given: Any, key: str, most: int) -> tuple[dict[int, bytes], dict[int, str]]:
    """The files and the texts of an `input`, by place. Problem for anything else. `key`: that of a file."""
    entries = given if isinstance(given, list) else [given]
    files: dict[int, bytes] = {}
    texts: dict[int, str] = {}
    for index, entry in enumerate(entries):
        name = f"input[{index}]" if isinstance(given, list) else "input"
        if isinstance(entry, dict) and entry.keys() == {key} and isinstance(entry[key], str):
            files[index] = decoded(entry[key], fields, f"{name}.{key}")
            if not files[index]:
                raise fields.wrong(f"{name}.{key}", "is empty")
            continue
        text = entry["text"] if isinstance(entry, dict) and entry.keys() == {"text"} else entry
        if not isinstance(text, str):
            told = f'must be a string, or an object with "{key}" (a file in base64) or "text"'
            raise fields.wrong(name, told, "invalid_type")
        if not text:
            raise fields.wrong(name, "must not be empty")
        texts[index] = text
    if not entries:
        raise fields.wrong("input", "is empty")
    if len(files) > MOST_FILES or len(texts) > most:
        told = f"has {len(files):,} files and {len(texts):,} texts; {MOST_FILES} and {most:,} are allowed"
        raise fields.wrong("input", told)
    return files, texts


async def vectors_of_files(
    request: Request, context: Context, fields: Fields, name: str | None, given: Any, most: int
) -> tuple[str, list[list[float]], int]:
    """The model's name, the vectors of an `input`, in order, and how many tokens its texts have."""
    key, stream = KINDS[context.models.find(name, tuple(KINDS)).task]
    files, texts = parted(fields, given, key, most)
    context.check_length([*texts.values()], "input")
    model = await context.model(request, name, *KINDS)
    if texts and model.loaded.tokenizer is None:
        raise fields.wrong("input", "this model reads no texts", "unsupported_value")
    sources = [BytesSource(data, f"input[{index}].{key}") for index, data in files.items()]
    rows = await context.aside(lambda: model.loaded.tokenizer.encode_batch([*texts.values()]) if texts else [])
    tokens = sum(len(row.ids) for row in rows)
    context.admit(tokens=tokens)
    request.scope["pyapp.log"] |= {"prompt_tokens": tokens, "bytes": sum(map(len, files.values()))}
    order = [*files, *texts]
    found = await by_task(
        request, context, model, len(order), lambda **more: stream(sources, [*texts.values()], **more),
        {"texts": "input", "images": "input", "sounds": "input"},
    )  # fmt: skip
    vectors = {place: values["embedding"] for place, values in zip(order, found, strict=True)}
    return model.name, [vectors[place] for place in sorted(vectors)], tokens
