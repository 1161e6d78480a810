"""Mistral's tekken.json (https://github.com/mistralai/mistral-common, mistral_common/tokens/tokenizers/tekken.py): the
pieces of a vocabulary in the order of their merges after the special tokens, and the pattern of words.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from pyapp.errors import FileFormatError
from pyapp.text.tokenization.post_processor import LARGEST_ID
from pyapp.text.tokenization.vocabulary_files import tiktoken_document
from pyapp.text.tokenization.word_patterns import TEKKEN, WordPattern

# The special tokens of files that do not list them.
USUAL = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # fmt: skip
OTHER = "<SPECIAL_{}>"
BEGIN, END = "<s>", "</s>"
AUDIO = "[BEGIN_AUDIO]"
# The form of conversations of version 7, as mistral_common's InstructTokenizerV7 writes it. Recordings stand before
# what is asked of them.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'system' %}"
    "[SYSTEM_PROMPT]{{ message.content }}[/SYSTEM_PROMPT]{% elif message.role == 'user' %}[INST]"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'audio' %}[BEGIN_AUDIO][AUDIO]{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "[/INST]{% else %}{{ message.content }}{% if not loop.last or not continue_final_message %}{{ eos_token }}"
    "{% endif %}{% endif %}{% endfor %}"
)


def is_tekken(whole: Mapping[str, Any]) -> bool:
    """Whether a JSON object is such a file."""
    config = whole.get("config")
    return isinstance(config, Mapping) and "pattern" in config and isinstance(whole.get("vocab"), list)


def tekken_document(
    whole: Mapping[str, Any], settings: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tokenizer.json of the object of a tekken.json, and the settings with its special tokens, and where they have
    no chat template and the file has tokens of recordings, one of its own. FileFormatError for a damaged file.
    """
    config, hint = whole["config"], "Download the file again"
    reserved, total = (config.get(f"default_{name}") for name in ("num_special_tokens", "vocab_size"))
    if type(reserved) is not int or type(total) is not int or not 3 <= reserved < total < LARGEST_ID:
        raise FileFormatError(f"it has {total!r:.40} tokens, {reserved!r:.40} of them special", where=where, hint=hint)
    if not isinstance(config["pattern"], str):
        raise FileFormatError("its pattern is not text", where=where, hint=hint)
    listed = whole.get("special_tokens")
    try:
        names = dict(enumerate(USUAL)) if listed is None else {int(e["rank"]): str(e["token_str"]) for e in listed}
        pieces = [base64.b64decode(entry["token_bytes"], validate=True) for entry in whole["vocab"][: total - reserved]]
    except (TypeError, KeyError, ValueError, OverflowError, binascii.Error) as error:
        raise FileFormatError(f"a token cannot be read ({error!s:.80})", where=where, hint=hint) from error
    if any(not 0 <= number < reserved for number in names) or len({*names.values()}) != len(names):
        raise FileFormatError("its special tokens have no distinct numbers and names", where=where, hint=hint)
    own = {number: names.get(number, OTHER.format(number)) for number in range(reserved)}
    tokens = {str(number): {"content": name, "special": True} for number, name in own.items()}
    more = dict(settings)
    more["added_tokens_decoder"] = tokens
    more |= {"bos_token": BEGIN, "eos_token": END} if {BEGIN, END} <= {*own.values()} else {}
    if AUDIO in own.values():
        more.setdefault("chat_template", CHAT_TEMPLATE)
    pattern = config["pattern"]
    words = WordPattern((TEKKEN if pattern == TEKKEN else pattern,), ignore_merges=True)
    front = [(name, number) for number, name in own.items() if name == BEGIN]
    return tiktoken_document(pieces, words=words, settings=more, where=where, first=reserved, front=front), more
