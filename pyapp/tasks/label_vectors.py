"""The vectors of texts and labels, by models that compare them with those of pictures or sounds (CLIP, CLAP …)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.ops import cat
from pyapp.errors import OptionError
from pyapp.events import Event, Item

from .text_batches import checked_texts, encoded

TEXTS = 32  # of a batch


def vectors_of_texts(loaded: Any, texts: Sequence[str]) -> Generator[Event | None, None, Tensor]:
    """The vectors (N, P) of texts by a model of pictures, or recordings, and texts; returns them."""
    model = loaded.model
    encodings = yield from encoded(loaded, texts, None, model.most)
    found = []
    for first in range(0, len(encodings), TEXTS):
        rows = [encoding.ids for encoding in encodings[first : first + TEXTS]]
        length = model.most if model.fixed_length else max(map(len, rows))
        own = getattr(model, "padding", None)
        fill = (loaded.tokenizer.pad_id or 0) if own is None else own
        ids = int32_tensor([i for row in rows for i in (*row, *[fill] * (length - len(row)))], model.device)
        masks = {}
        if model.masks_texts:
            seen = int32_tensor([int(i < len(row)) for row in rows for i in range(length)], model.device)
            masks = {"attention_mask": seen.reshape(len(rows), length)}
        with no_grad():
            found.append(model.text_features(ids.reshape(len(rows), length), **masks))
        yield None
    return cat(found)


def vectors_of_labels(
    loaded: Any, labels: Sequence[str], template: str | None
) -> Generator[Event | None, None, Tensor]:
    """The vectors (N, P) of the texts that `template` (None: the model's) makes of labels. Errors: texts_of_labels'."""
    return (yield from vectors_of_texts(loaded, texts_of_labels(loaded, labels, template)))


def prompt_of_labels(loaded: Any, labels: Sequence[str], template: str | None) -> Tensor:
    """The token ids (1, T) of the one text that a model such as Grounding DINO reads of all labels. OptionError for
    labels that are not phrases of their own and for more than the model reads, and those of texts_of_labels.
    """
    model = loaded.model
    ids = loaded.tokenizer.encode(model.prompt_of(texts_of_labels(loaded, labels, template)), parse_special=False)
    if len(ids) > model.most:
        raise OptionError(
            f"the labels have {len(ids):,} tokens, the model reads {model.most:,}", where="labels",
            hint="Give fewer labels at once",
        )  # fmt: skip
    if {*model.labels_in(ids)} != {-1, *range(len(labels))}:
        raise OptionError(
            f"the model does not read {', '.join(labels)!r:.80} as {len(labels):,} phrases", where="labels",
            hint="Give labels of words, without full stops, and the tokenizer that belongs to the model",
        )  # fmt: skip
    return int32_tensor(ids, model.device).reshape(1, len(ids))


def texts_of_labels(loaded: Any, labels: Sequence[str], template: str | None) -> list[str]:
    """The texts that `template` (None: the model's) makes of labels. OptionError for no label, empty ones, and a
    template without a place for one.
    """
    labels, template = checked_texts(labels), loaded.model.template if template is None else template
    if not labels or not all(label.strip() for label in labels):
        raise OptionError("at least one label is needed, and none may be empty", where="labels")
    if "{}" not in template:
        raise OptionError(f"{template!r:.60} has no place for a label", where="template", hint="Write {} there")
    return [template.replace("{}", label) for label in labels]


def embedding_items(first: int, x: Tensor) -> Iterator[Item]:
    """Items from index `first` on with `embedding`: the vectors x (N, P) brought to the length 1, as lists."""
    from pyapp.models.sentences.embedding import normalized

    for i, row in enumerate(normalized(x).to("float32").tolist()):
        yield Item(first + i, {"embedding": row})
