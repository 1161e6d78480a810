"""Parts of a tokenizer.json, for the modules that make one from another kind of vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SPACE = "▁"  # U+2581, which sentencepiece writes for a space
# The settings in tokenizer_config.json that name special tokens.
SPECIAL_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
DECODE_STEPS: dict[str, Any] = {
    "byte_level": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "wordpiece": {"type": "WordPiece", "prefix": "##", "cleanup": True},
}


def document(
    model: Mapping[str, Any],
    *,
    added_tokens: Iterable[Mapping[str, Any]] = (),
    normalizer: Mapping[str, Any] | None = None,
    pre_tokenizer: Mapping[str, Any] | None = None,
    post_processor: Mapping[str, Any] | None = None,
    decoder: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A tokenizer.json with all the keys that the libraries expect."""
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": sorted(added_tokens, key=lambda entry: int(entry["id"])),
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": post_processor,
        "decoder": decoder, "model": dict(model),
    }  # fmt: skip


def added_token(number: int, content: str, *, special: bool = True, normalized: bool = False) -> dict[str, Any]:
    """A token that is found in text before the model splits it."""
    return {
        "id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
        "normalized": normalized, "special": special,
    }  # fmt: skip


def bpe_model(vocabulary: Mapping[str, int], merges: Sequence[Any], **settings: Any) -> dict[str, Any]:
    """Byte-pair encoding; `settings` replace the defaults."""
    return {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
        **settings, "vocab": dict(vocabulary), "merges": list(merges),
    }  # fmt: skip


def sequence(kind: str, steps: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A sequence of normalizers, pretokenizers, decoders or processors; a single one is itself, none is None."""
    if len(steps) < 2:
        return dict(steps[0]) if steps else None
    return {"type": "Sequence", kind: [dict(step) for step in steps]}


def template(
    front: Sequence[tuple[str, int]],
    behind: Sequence[tuple[str, int]],
    *,
    between: Sequence[tuple[str, int]] | None = None,
    second_type: int = 1,
) -> dict[str, Any] | None:
    """A post-processor: special tokens (name, id) before and after a text.

    A pair has them around both texts; with `between`, it has `front`, a text, `between`, the other text, `behind`.
    None if there are no tokens.
    """
    if not front and not behind:
        return None

    def special(tokens: Sequence[tuple[str, int]], kind: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": name, "type_id": kind}} for name, _ in tokens]

    def text(name: str, kind: int) -> list[dict[str, Any]]:
        return [{"Sequence": {"id": name, "type_id": kind}}]

    first = [*special(front, 0), *text("A", 0)]
    if between is None:
        middle = [*special(behind, 0), *special(front, second_type)]
    else:
        middle = special(between, 0)
    return {
        "type": "TemplateProcessing",
        "single": [*first, *special(behind, 0)],
        "pair": [*first, *middle, *text("B", second_type), *special(behind, second_type)],
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]}
            for name, number in [*front, *behind, *(between or ())]
        },
    }
