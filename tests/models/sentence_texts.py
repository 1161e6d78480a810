"""The texts and the tokenizer of make_golden_sentences.py and test_sentences.py."""

from __future__ import annotations

import json

from tests.text import embedder

QUERIES = ["the cat sat on the mat", "Cold snow"]
DOCUMENTS = [
    "the old cat slept under the house.", "a red fox ran, and ran!", "We ate bread with fish in the small warm house.",
    "the UNKNOWN sea %",
]  # fmt: skip
# A chat template of a reranker, as sentence-transformers fills it: the roles are system, query and document.
TEMPLATE = (
    "{% for message in messages %}{% if message.role == 'system' %}"
    "{{ message.content }} . {% elif message.role == 'query' %}query : {{ message.content }} "
    "{% else %}passage : {{ message.content }} {% endif %}{% endfor %}?"
)


def word_list() -> list[str]:
    """All words, by their ids."""
    return [*embedder.SPECIAL, *embedder.WORDS, "[unused0]", "[unused1]", "yes", "no", "find"]


def tokenizer_json() -> str:
    """A tokenizer of whole words, as they are written, with BERT's special tokens. [unused0] is not a special token,
    and its parts are unknown words.
    """
    document = json.loads(embedder.tokenizer_json())
    document["model"]["vocab"] = {word: i for i, word in enumerate(word_list())}
    document["normalizer"] = None
    return json.dumps(document)
