"""Fill in the middle: the text between two others, by models whose tokenizer has tokens for it (Bavarian et al., 2022,
"Efficient Training of Language Models to Fill in the Middle", https://arxiv.org/abs/2207.14255).
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError
from pyapp.text.tokenization.tokenizer import Tokenizer

# The tokens before the first text, before the last text and before the middle; then those that end the middle.
FAMILIES = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",  # Qwen2.5-Coder, CodeGemma
     "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>", "<|endoftext|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>",  # StarCoder, Granite
     "<fim_pad>", "<file_sep>", "<repo_name>", "<|endoftext|>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>", "<fim-pad>", "<|endoftext|>"),  # SantaCoder
    ("▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"),  # Code Llama
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "<｜end▁of▁sentence｜>"),  # DeepSeek-Coder
)  # fmt: skip


@dataclass(frozen=True)
class Gap:
    """The tokens that a model continues with the middle, and those that end it."""

    ids: list[int]
    stops: frozenset[int]


def between(tokenizer: Tokenizer, before: str, after: str) -> Gap:
    """The gap between two texts, whose names of control tokens stay plain text. OptionError where the tokenizer has no
    tokens for it.
    """
    for names in FAMILIES:
        known = [_id_of(tokenizer, name) for name in names]
        first, last, middle = known[:3]
        if first is not None and last is not None and middle is not None:
            parts = [tokenizer.encode(text, bos=False, eos=False, parse_special=False) for text in (before, after)]
            ids = [*tokenizer.encode("", eos=False), first, *parts[0], last, *parts[1], middle]
            return Gap(ids, frozenset(id for id in known if id is not None))
    raise OptionError(
        "the model's tokenizer has no tokens to fill in the middle", where="suffix",
        hint="Use a model that was trained for it, such as Qwen2.5-Coder or StarCoder2, or leave the suffix out",
    )  # fmt: skip


def _id_of(tokenizer: Tokenizer, name: str) -> int | None:
    ids = tokenizer.encode(name, bos=False, eos=False)
    return ids[0] if len(ids) == 1 and tokenizer.piece(ids[0]) == name else None
