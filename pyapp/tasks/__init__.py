"""The tasks of pyapp as async streams of events; the page, the command line and a server only forward the events.

A task ends with exactly one `Done` or `Error`; it never raises an exception. Closing the generator or setting its
`Cancel` ends it within milliseconds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pyapp.engine import set_num_threads
from pyapp.engine.lazy import late_names
from pyapp.errors import OptionError
from pyapp.events import (
    Cancel,
    Done,
    Draft,
    Error,
    Event,
    Item,
    Language,
    Metric,
    Notice,
    Partial,
    Progress,
    Region,
    Segment,
    Sound,
    TextLine,
    Thought,
    Token,
)  # fmt: skip
from pyapp.text.generation.options import SamplingOptions, check_number

from .chat import chat, load_chat, model_and_drafter, of_the_model
from .core import BREATH, Breath, Events, Remote, Result, Step, done_with, error_event, given, only_here, task
from .keeper import keeper
from .speech import listen, load_speech, transcribe

if TYPE_CHECKING:
    from .composing import compose
    from .detection import detect_labels, detect_objects, estimate_poses
    from .documents import answer_from_pages, classify_pages, label_on_pages
    from .drawing import imagine, upscale_images
    from .following import follow_objects
    from .forecasting import forecast
    from .markup import answer_from_markup
    from .pages import embed_pages, rank_pages
    from .pictures import (
        answer_images,
        classify_images,
        embed_images,
        estimate_depth,
        match_images,
        read_images,
    )
    from .pipelines import pipeline
    from .points import detect_points, match_points
    from .reading import read
    from .segment_everything import cut_out_everything
    from .segmentation import cut_out_objects, segment_images, segment_labels
    from .sounds import classify_sounds, embed_sounds, label_moments, match_sounds
    from .speaking import speak
    from .tables import answer_from_table
    from .texts import (
        answer,
        classify,
        embed,
        embed_every_token,
        embed_sparse,
        fill_mask,
        label,
        rerank,
        translate,
        translate_text,
    )
    from .training import finetune, merge, train_reader, train_speech, train_story
    from .videos import classify_videos

__all__ = [
    "BREATH", "Breath", "Cancel", "Done", "Draft", "Error", "Event", "Events", "Item", "Language", "Metric", "Notice",
    "Partial", "Progress", "Region", "Segment", "Sound", "TextLine", "Thought", "Token", "answer", "answer_from_markup",
    "answer_from_pages", "answer_from_table", "answer_images", "chat", "classify", "classify_images", "classify_pages",
    "classify_sounds", "classify_videos",
    "compose", "cut_out_everything", "cut_out_objects", "detect_labels", "detect_objects", "detect_points", "embed",
    "embed_every_token", "embed_images",
    "embed_pages", "embed_sounds", "embed_sparse", "error_event", "estimate_depth", "estimate_poses", "fill_mask",
    "finetune", "follow_objects", "forecast", "generate", "imagine", "inspect", "label", "label_moments",
    "label_on_pages", "listen",
    "load", "load_chat", "load_speech", "match_images", "match_points", "match_sounds", "merge", "models", "pipeline",
    "quantize", "rank_pages", "read", "read_images", "rerank", "segment_images", "segment_labels",
    "set_threads", "speak", "task", "train_reader", "train_speech", "train_story", "transcribe", "translate",
    "translate_text", "unload", "upscale_images",
]  # fmt: skip

# Modules that are imported on the first use of one of their tasks: the page's first story does without them.
__getattr__ = late_names(
    __name__,
    {
        "composing": "compose",
        "detection": "detect_labels detect_objects estimate_poses",
        "documents": "answer_from_pages classify_pages label_on_pages",
        "drawing": "imagine upscale_images",
        "following": "follow_objects",
        "forecasting": "forecast",
        "markup": "answer_from_markup",
        "pages": "embed_pages rank_pages",
        "pictures": "answer_images classify_images embed_images estimate_depth match_images read_images",
        "pipelines": "pipeline",
        "points": "detect_points match_points",
        "reading": "read",
        "segment_everything": "cut_out_everything",
        "segmentation": "cut_out_objects segment_images segment_labels",
        "sounds": "classify_sounds embed_sounds label_moments match_sounds",
        "speaking": "speak",
        "tables": "answer_from_table",
        "texts": "answer classify embed embed_every_token embed_sparse fill_mask label rerank translate translate_text",
        "training": "finetune merge train_reader train_speech train_story",
        "videos": "classify_videos",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def unload() -> None:
    """Drops the last used model, and the networks beside it, and frees their memory."""
    keeper.drop()
    if (networks := sys.modules.get(f"{__name__}.speech_networks")) is not None:  # else there are none
        networks.unload_networks()


@task
async def load(
    model: Any = None,
    *,
    tokenizer: Any = None,
    key: object = None,
    dtype: str | None = None,
    adapter: str | os.PathLike[str] | None = None,
    projector: Any = None,
    cancel: Cancel | None = None,
) -> Events:
    """Loads a model (as for `generate`) ahead of its first use. Done carries `name` and `config`."""
    chosen = given(dtype=dtype, adapter=adapter, projector=projector)
    if isinstance(model, Remote):
        only_here(tokenizer=tokenizer, **chosen)
        async with aclosing(model.load(cancel or Cancel())) as forwarded:
            async for sent in forwarded:
                yield sent
        return
    async with aclosing(keeper.get("generate", model, tokenizer, key, cancel or Cancel(), **chosen)) as events:
        async for event in events:
            if isinstance(event, Result):
                yield Done("complete", {"name": event.value.name, "config": event.value.config})
            else:
                yield event


@task
async def generate(
    model: Any = None,
    prompt: str = "",
    options: SamplingOptions | Mapping[str, Any] | None = None,
    *,
    tokenizer: Any = None,
    draft: Any = None,
    key: object = None,
    eager: bool = False,
    dtype: str | None = None,
    adapter: str | os.PathLike[str] | None = None,
    projector: Any = None,
    pictures: Sequence[Any] = (),
    cancel: Cancel | None = None,
) -> Events:
    """Continues `prompt`: Progress and the Metric load_time while the model is loaded, then the events of
    pyapp.text.generation.generate.generate, or, for several samples and beams, of
    pyapp.text.generation.several.generate_several.

    `draft` is a smaller model with the same tokenizer, which guesses tokens (pyapp/text/generation/speculation.py).
    `model` is a name, a path, bytes, a ByteSource, a LoadedModel, or a Server (pyapp.serve.client); None: the embedded
    one. `tokenizer` likewise, if it is not beside the model. `key` identifies models without a name; the last used
    model is kept. `options` may be a dict of JSON values; what it does not say is as the model's generation_config.json
    (or the server) says, else by default. `eager` runs without Graph, for reference. `dtype` ("q4_0", "Q4_K_M" …) is
    the type to convert the matrices to while they are read. `adapter`: a folder with a LoRA adapter of the model.
    `projector`: the "mmproj" file of a GGUF model that sees pictures, if it is not beside it. `pictures` (paths, bytes,
    ByteSources, tensors uint8 (height, width, 3)) stand where the prompt has the model's placeholder ("<image>" …), or
    before it.
    """
    from pyapp.text.generation.generate import Session
    from pyapp.text.generation.generate import generate as generate_events

    cancel = cancel or Cancel()
    named = None if isinstance(options, SamplingOptions) else list(options or {})
    if not isinstance(options, SamplingOptions):
        options = SamplingOptions.from_dict(options or {})
    if isinstance(model, Remote):
        only_here(
            tokenizer=tokenizer, draft=draft, dtype=dtype, adapter=adapter, eager=eager or None, projector=projector,
            pictures=pictures or None,
        )  # fmt: skip
        async with aclosing(model.generate(prompt, options, cancel, named)) as forwarded:
            async for sent in forwarded:
                yield sent
        return
    chosen = {"dtype": dtype, "adapter": adapter, "projector": projector}
    async with Step(model_and_drafter(model, draft, tokenizer, key, cancel, **chosen)) as loading:
        async for event in loading:
            yield event
    loaded, drafter = loading.value
    options = of_the_model(options, loaded, named)
    breath = Breath()
    await breath.take()
    if max(options.samples, options.beams) > 1:
        from pyapp.text.generation.several import generate_several

        if drafter is not None or eager or pictures:
            where = "pictures" if pictures else "eager" if eager else "draft"
            raise OptionError("excludes several samples and beams", where=where)
        stream = generate_several(loaded.model, loaded.tokenizer, prompt, options, cancel)
    elif pictures:
        from pyapp.text.generation.generate import generate_from

        from .conversation_media import prompt_with_pictures

        async with Step(prompt_with_pictures(loaded, prompt, pictures, options, cancel)) as seeing:
            async for event in seeing:
                yield event
        known, ids = seeing.value
        stream = generate_from(known, loaded.tokenizer, ids, options, cancel, drafter, bool(prompt))
    else:
        session = Session(loaded.model, options.context, eager, options.cache_type)
        stream = generate_events(session, loaded.tokenizer, prompt, options, cancel, drafter)
    for event in stream:
        yield event
        await breath.take()


@task
async def inspect(source: Any, *, cancel: Cancel | None = None) -> Events:
    """The content of a model file, or of the weights of a model's folder or name, from its header: Done carries `file
    format size config metadata tensors totals classes`, and `quantization` of a folder whose weights a library
    quantised. `config` is that of the file, or else config.json's. Of a name the files are downloaded, with Progress
    in bytes.
    """
    from pyapp import formats, hub

    if not isinstance(source, str | os.PathLike) or not hub.is_name(source):
        yield Done("complete", formats.inspect(source))
        return
    from pyapp.models.load import read_settings
    from pyapp.models.loading.quantised.methods import described

    cancel = cancel or Cancel()

    def work(report: Callable[[Event], None]) -> dict[str, Any]:
        files = hub.resolve(source, report=report, cancel=cancel).files
        found = formats.inspect(files["model"])
        if not found["config"] and "config" in files:
            found["config"] = read_settings(files["config"])
        quantization = described(found["config"])
        return found | ({"quantization": quantization} if quantization else {})

    async with aclosing(done_with(work, cancel)) as events:
        async for event in events:
            yield event


@task
def quantize(
    source: Any,
    target: str | os.PathLike[str],
    kind: str,
    *,
    imatrix: Any = None,
    keep: str | None = None,
    cancel: Cancel | None = None,
) -> Events:
    """Converts a model file, or the model of a folder or a name, to another type (formats.quantize_file): Progress in
    bytes; Done carries `file size types weighted source_size`. A language model or an encoder of Hugging Face's becomes
    a GGUF file of llama.cpp's.
    """
    from pyapp.formats.convert import quantize_file
    from pyapp.models.load import files_to_convert
    from pyapp.models.loading.writing_gguf import floats_view, gguf_view

    cancel = cancel or Cancel()

    def work(report: Callable[[Event], None]) -> dict[str, Any]:
        file, tokenizer = files_to_convert(source, report, cancel)
        view = gguf_view(file, tokenizer) if os.fspath(target).endswith(".gguf") else floats_view(file)
        return quantize_file(file, target, kind, imatrix=imatrix, keep=keep, view=view, report=report, cancel=cancel)

    return done_with(work, cancel)


@task
async def models() -> Events:
    """The named models and the known architectures: Done carries `models`, a list of dicts, and `architectures`, the
    `model_type`s of config.json by task.
    """
    from pyapp import hub
    from pyapp.models.load import architectures

    named = [entry.to_dict() for entry in hub.models()]
    yield Done("complete", {"models": named, "architectures": architectures()})


def set_threads(threads: int) -> None:
    """Sets the number of threads of the kernels, 1 to 64. Raises OptionError."""
    check_number("threads", threads, 1, 64, whole=True)

    set_num_threads(threads)
