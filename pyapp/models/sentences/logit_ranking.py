"""Language models that rank texts by the logits of "yes" and "no" after a query and a document.

The words and the chat template are those of sentence-transformers' LogitScore; a Qwen3-Reranker (Zhang et al. 2025,
arXiv 2506.05176) without them gets the prompt of its model card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import ModelError
from pyapp.text.chat.chat_template import ChatTemplate, sources
from pyapp.text.tokenization.encoding import Encoding
from pyapp.text.tokenization.tokenizer import Tokenizer

WHERE = "LogitScore"
# https://huggingface.co/Qwen/Qwen3-Reranker-0.6B
QWEN_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
QWEN_TEMPLATE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    "{% for message in messages %}"
    "{% if message.role == 'system' %}<Instruct>: {{ message.content }}\n"
    "{% elif message.role == 'query' %}<Query>: {{ message.content }}\n"
    "{% else %}<Document>: {{ message.content }}{% endif %}{% endfor %}"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>{{ '\\n\\n' }}"
)
# Two documents that have no token in common.
APART = ("a", "1")


def answer_ids(
    tokenizer: Tokenizer, settings: Mapping[str, Any], score: Mapping[str, Any] | None, where: str
) -> tuple[int, int | None]:
    """The ids of the words whose logits are the score: those of a LogitScore's config.json (`score`), else of "yes" and
    "no". ModelError for a language model that was not made to rank.
    """
    if score is not None:
        true, false = score.get("true_token_id"), score.get("false_token_id")
        if any(type(one) is not int or one < 0 for one in (true, 0 if false is None else false)):
            raise ModelError(f"true_token_id is {true!r:.40}, false_token_id {false!r:.40}", where=WHERE)
    else:
        true, false = tokenizer.id_of("yes"), tokenizer.id_of("no")
        if settings.get("model_type") != "qwen3" or true is None or false is None:
            raise ModelError(
                "this language model was not made to rank texts", where=where,
                hint="Choose a reranker: a cross-encoder, a ColBERT, or a folder with a LogitScore in modules.json",
            )  # fmt: skip
    assert isinstance(true, int)
    return true, false


def template_of(tokenizer: Tokenizer, settings: Mapping[str, Any]) -> ChatTemplate | None:
    """The template of queries and documents; None where pairs are read as they are."""
    own = sources(tokenizer.settings)
    if any("query" in source for source in own.values()):
        return ChatTemplate(tokenizer)
    qwen = settings.get("model_type") == "qwen3" and "<|im_start|>" in tokenizer.special_names
    return ChatTemplate(tokenizer, source=QWEN_TEMPLATE) if qwen else None


def pair_encodings(
    tokenizer: Tokenizer, template: ChatTemplate, query: str, texts: Sequence[str], prompt: str | None, most: int
) -> list[Encoding]:
    """The query with each text by a template, at most `most` tokens each: long texts lose their ends, what the template
    writes after them stays. `prompt` is the system's message.
    """
    before = [] if prompt is None else [{"role": "system", "content": prompt}]

    def ids_of(text: str) -> list[int]:
        return template.encode(
            [*before, {"role": "query", "content": query}, {"role": "document", "content": text}],
            add_generation_prompt=False,
        )  # fmt: skip

    ends = [list(reversed(ids_of(text))) for text in APART]
    same = next((i for i, (one, other) in enumerate(zip(*ends, strict=False)) if one != other), 0)
    behind = ends[0][:same][::-1]
    found = []
    for text in texts:
        ids = whole = ids_of(text)
        if len(ids) > most:
            ids = [*ids[: max(most - len(behind), 0)], *behind][:most]
        found.append(Encoding(ids, [0] * len(ids), [1] * len(ids), [0] * len(ids), cut=len(whole) - len(ids)))
    return found
