"""Batches of texts for the tasks over many texts: tokens, padding, and the outputs of a model text by text.

Texts of similar length share a batch, so that little padding is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.errors import ModelError, OptionError
from pyapp.events import Event, Progress
from pyapp.text.tokenization.encoding import Encoding

BATCH_SIZE = 32  # texts
BATCH_TOKENS = 8192  # with padding: longer texts have smaller batches
ENCODED_AT_ONCE = 256  # texts, between two turns of the event loop
MOST_TEXTS = 1 << 24

Work = Generator["Event | None", None, None]  # None: a moment to do other work, or to stop


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list. OptionError for anything else."""
    found = [texts] if isinstance(texts, str) else list(texts)
    if len(found) > MOST_TEXTS:
        raise OptionError(f"{len(found):,} texts are more than {MOST_TEXTS:,}", where="texts")
    for index, text in enumerate(found):
        if not isinstance(text, str):
            raise OptionError(f"number {index} is {type(text).__name__}, not a text", where="texts")
    return found


def prompt_of(loaded: Any, prompt: str | None, name: str | None, usual: str) -> str:
    """What is put before each text: `prompt`, or the model's prompt of a name, else `usual`. OptionError for both, and
    for a name that the model does not have.
    """
    prompts = loaded.model.settings.prompts
    if prompt is not None and name is not None:
        raise OptionError("both a prompt and a prompt's name are given", where="prompt")
    if name is not None and name not in prompts:
        known_names = ", ".join(prompts) or "none"
        raise OptionError(f"the model has no prompt {name!r:.60}", where="prompt_name", hint=f"It has {known_names}")
    found: str = usual if name is None else prompts[name]
    return found if prompt is None else prompt


def encoded(
    loaded: Any, texts: Sequence[str], pairs: Sequence[str] | None, most: int, cut_by_model: bool = True
) -> Generator[Progress, None, list[Encoding]]:
    """Progress while texts are split into tokens; returns their encodings, at most `most` tokens each, and as many as
    the tokenizer's settings say, unless `cut_by_model` is False.
    """
    if pairs is not None and len(pairs) != len(texts):
        raise OptionError(f"there are {len(texts):,} texts and {len(pairs):,} pairs", where="pairs")
    limit = min(most, loaded.tokenizer.max_length or most) if cut_by_model else most
    encoder = getattr(loaded.model, "encoder", None)
    special = getattr(encoder, "adds_special_tokens", True)
    if getattr(getattr(loaded.model, "settings", None), "lower", False):
        texts = [text.lower() for text in texts]
    if getattr(encoder, "adds_end", False):
        end = loaded.tokenizer.piece(min(loaded.tokenizer.eos_ids)) if loaded.tokenizer.eos_ids else ""
        texts = [text + end for text in texts]
    found: list[Encoding] = []
    for at in range(0, len(texts), ENCODED_AT_ONCE):
        more = None if pairs is None else pairs[at : at + ENCODED_AT_ONCE]
        found += loaded.tokenizer.encode_batch(
            texts[at : at + ENCODED_AT_ONCE],
            more,
            truncation=True,
            max_length=limit,
            parse_special=True,
            add_special_tokens=special,
        )
        yield Progress("tokens", len(found), len(texts), "texts")
    return found


Rows = Callable[[str], Tensor]  # a field of the encodings of a batch, padded: (B, T) int32


def grouped(loaded: Any, encodings: Sequence[Encoding], batch_size: int) -> Iterator[tuple[list[int], Rows]]:
    """The batches, the longest texts first: the indices of the texts, and their padded fields."""
    if type(batch_size) is not int or batch_size < 1:
        raise OptionError(f"{batch_size!r} is not a number of texts from 1", where="batch_size")
    config, device = loaded.model.config, loaded.model.device
    padding = getattr(config, "pad_token_id", None)
    fill = {"ids": padding if padding is not None else loaded.tokenizer.pad_id or 0}
    known = {"ids": getattr(config, "vocab_size", None), "type_ids": getattr(config, "type_vocab_size", None)}
    order = sorted(range(len(encodings)), key=lambda i: -len(encodings[i]))
    alike = not getattr(getattr(loaded.model, "encoder", None), "hides_padding", True)  # only texts of one length
    done = 0
    while done < len(order):
        length = max(len(encodings[order[done]]), 1)
        chosen = order[done : done + min(batch_size, max(BATCH_TOKENS // length, 1))]
        if alike:
            chosen = [i for i in chosen if len(encodings[i]) == len(encodings[chosen[0]])]

        def padded(field: str, chosen: list[int] = chosen, length: int = length) -> Tensor:
            rows = [getattr(encodings[i], field) for i in chosen]
            flat = [value for row in rows for value in (*row, *[fill.get(field, 0)] * (length - len(row)))]
            most = known.get(field)
            if most and max(flat, default=0) >= most:  # of a template in tokenizer.json that is another model's
                what = f"the tokenizer's {field} are up to {max(flat):,}, the model has {most:,}"
                raise ModelError(what, where=loaded.name, hint="Give the tokenizer that belongs to the model")
            return int32_tensor(flat, device).reshape(len(rows), length)

        yield chosen, padded
        done += len(chosen)


def batches(
    loaded: Any, encodings: Sequence[Encoding], run: Callable[[Tensor, Tensor, Tensor], Tensor], batch_size: int
) -> Iterator[tuple[int, Any]]:
    """(index, values of the output) of each text, and (-1, Progress) after each batch.

    run(ids, attention mask, type ids), all (B, T) int32 → (B, …).
    """
    done = 0
    for chosen, rows in grouped(loaded, encodings, batch_size):
        with no_grad():
            found = run(rows("ids"), rows("attention_mask"), rows("type_ids")).tolist()
        for index, values in zip(chosen, found, strict=True):
            if _has_nan(values):
                raise ModelError("the model computes NaN", where=loaded.name, hint="Its weights may be damaged")
            yield index, values
        done += len(chosen)
        yield -1, Progress("texts", done, len(encodings), "texts")


def _has_nan(values: Any) -> bool:
    first = values
    while isinstance(first, list):
        first = first[0] if first else 0.0
    return math.isnan(first)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
