"""The tokenizers of ByT5 (Xue et al. 2021, arXiv 2105.13626) and Perceiver (Jaegle et al. 2021, arXiv 2107.14795) as a
tokenizer.json: each byte of UTF-8 is a token, after three or six special ones; further tokens of ByT5 stand for spans
that are left out. They have no files of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import ModelError
from pyapp.text.documents import DECODE_STEPS, added_token, bpe_model, document, template
from pyapp.text.tokenization.pieces import byte_of_character

SPECIAL = ("<pad>", "</s>", "<unk>")
PERCEIVER = ("[PAD]", "[BOS]", "[EOS]", "[MASK]", "[CLS]", "[SEP]")
SPANS = 125  # tokens of spans, where the settings say nothing
MOST_SPANS = 1 << 16


def byte_document(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The tokenizer.json. `settings` is tokenizer_config.json: extra_ids is the number of tokens of spans. ModelError
    for an implausible one.
    """
    spans = settings.get("extra_ids", SPANS)
    if type(spans) is not int or not 0 <= spans <= MOST_SPANS:
        raise ModelError(f"extra_ids is {spans!r:.40}, expected a number up to {MOST_SPANS:,}", where=where)
    more = {name: number for number, name in enumerate(SPECIAL)}
    more |= {f"<extra_id_{span}>": len(SPECIAL) + 256 + span for span in range(spans)}
    return _document(len(SPECIAL), more, [], [(SPECIAL[1], more[SPECIAL[1]])])


def perceiver_document() -> dict[str, Any]:
    """The tokenizer.json of Perceiver's bytes: between [CLS] and [SEP]."""
    more = {name: number for number, name in enumerate(PERCEIVER)}
    begin, end = (((name, more[name]),) for name in PERCEIVER[4:])
    return _document(len(PERCEIVER), more, [*begin], [*end])


def _document(
    first: int, more: Mapping[str, int], begin: Sequence[tuple[str, int]], end: Sequence[tuple[str, int]]
) -> dict[str, Any]:
    """The tokenizer.json of bytes from token `first` on, with `more` tokens, of which some stand around texts."""
    vocabulary = {character: first + byte for character, byte in byte_of_character().items()}
    return document(
        bpe_model(vocabulary | dict(more), []),
        added_tokens=[added_token(number, name) for name, number in more.items()],
        pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        post_processor=template(begin, end),
        decoder=DECODE_STEPS["byte_level"],
    )
