"""The tokenizer of ByT5 (Xue et al. 2021, arXiv 2105.13626) as a tokenizer.json: each byte of UTF-8 is a token, after
three special ones; further tokens stand for spans that are left out. It has no file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.errors import ModelError
from pyapp.text.documents import DECODE_STEPS, added_token, bpe_model, document, template
from pyapp.text.tokenization.pieces import byte_of_character

SPECIAL = ("<pad>", "</s>", "<unk>")
SPANS = 125  # tokens of spans, where the settings say nothing
MOST_SPANS = 1 << 16


def byte_document(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The tokenizer.json. `settings` is tokenizer_config.json: extra_ids is the number of tokens of spans. ModelError
    for an implausible one.
    """
    spans = settings.get("extra_ids", SPANS)
    if type(spans) is not int or not 0 <= spans <= MOST_SPANS:
        raise ModelError(f"extra_ids is {spans!r:.40}, expected a number up to {MOST_SPANS:,}", where=where)
    first = len(SPECIAL)
    vocabulary = {character: first + byte for character, byte in byte_of_character().items()}
    more = {name: number for number, name in enumerate(SPECIAL)}
    more |= {f"<extra_id_{span}>": first + 256 + span for span in range(spans)}
    end = (SPECIAL[1], more[SPECIAL[1]])
    return document(
        bpe_model(vocabulary | more, []),
        added_tokens=[added_token(number, name) for name, number in more.items()],
        pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        post_processor=template([], [end]),
        decoder=DECODE_STEPS["byte_level"],
    )
