"""Tasks over pictures: labels of each, its vector, the text in it, and how far all is."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.ops import interpolate
from pyapp.errors import OptionError
from pyapp.events import Done, Item, Progress
from pyapp.formats.png import encode_png

from .detection import detect_objects
from .given_files import check_files, listed
from .label_vectors import embedding_items, vectors_of_labels, vectors_of_texts
from .picture_batches import BATCH_SIZE, in_batches, looking, together
from .segmentation import cut_out_objects, segment_images
from .text_batches import Work, checked_texts
from .texts import check_top, ranked, ranked_labels, stream_of

FONTS, FONT = "ybelkada/fonts", "Arial.TTF"  # with which models were trained


def label_images(loaded: Any, images: Sequence[Any], *, top: int | None = 5, batch_size: int = BATCH_SIZE) -> Work:
    """Items with `labels`: the names and probabilities of a picture's labels, the most probable first, at most `top` of
    them (None: all).
    """
    check_top(top)
    images = listed(images)
    for chosen, prepared in in_batches(loaded, images, batch_size):
        yield None
        with looking(images, chosen):
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
    for chosen, prepared in in_batches(loaded, images, together(loaded, batch_size)):
        yield None
        asked = int32_tensor(ids * len(chosen), model.device).reshape(len(chosen), len(ids))
        with looking(images, chosen):
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
    for chosen, prepared in in_batches(loaded, images, together(loaded, batch_size)):
        yield None
        with looking(images, chosen):
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

    for chosen, prepared in in_batches(loaded, images, together(loaded, batch_size)):
        yield None
        with looking(images, chosen):
            found = loaded.model.image_features(prepared.pixel_values)
            yield from embedding_items(chosen.start, found)
        width = found.shape[1]
        yield Progress("pictures", chosen.stop, len(images), "pictures")
    if texts:
        found = yield from vectors_of_texts(loaded, texts)
        width = found.shape[1]
        yield from embedding_items(len(images), found)
    yield Done("complete", {"count": len(images) + len(texts), "dimensions": width})


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
        with looking(images, chosen):
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
    for chosen, prepared in in_batches(loaded, images, together(loaded, batch_size)):
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


classify_images = stream_of("classify-image", label_images, remote=False, check=check_files)
answer_images = stream_of("answer-image", answers_about, remote=False, check=check_files)
match_images = stream_of("match-image", match_labels, remote=False, check=check_files)
estimate_depth = stream_of("depth", depths_of, remote=False, check=check_files)
embed_images = stream_of("embed-image", vectors_of_images, remote=False, check=check_files)
read_images = stream_of("image-to-text", texts_of_images, remote=False, check=check_files)

# By the task of a model: what it does with pictures, for callers that get the task as a text.
LOOKS = {
    "classify-image": classify_images, "cut-out": cut_out_objects, "depth": estimate_depth, "detect": detect_objects,
    "image-to-text": read_images, "match-image": match_images, "segment": segment_images,
}  # fmt: skip
