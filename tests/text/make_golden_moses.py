"""Makes golden_moses.json with transformers and sacremoses (pip install sacremoses):

    PYTHONPATH=. python tests/text/make_golden_moses.py

The file has the ids of texts by the tokenizers of XLM and FlauBERT with a small vocabulary, and what sacremoses made of
each text on the way, which the tests give in its place.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import sacremoses
import transformers

from tests.text.moses_vocabulary import CASES, MERGES, TEXTS, VOCABULARY

FILE = Path(__file__).with_name("golden_moses.json")
METHODS = {"MosesPunctNormalizer": "normalize", "MosesTokenizer": "tokenize"}


def recorded(found: dict[str, Any], name: str, method: str) -> None:
    """Has a class of sacremoses write down what it makes of texts."""
    kind = getattr(sacremoses, name)
    own = getattr(kind, method)

    def write(self: Any, text: str, **options: Any) -> Any:
        made = own(self, text, **options)
        found[f"{method} {self.lang}: {text}"] = made
        return made

    before = kind.__init__

    def begin(self: Any, lang: str = "en", **options: Any) -> None:
        before(self, lang=lang, **options)
        self.lang = lang

    kind.__init__ = begin
    setattr(kind, method, write)


if __name__ == "__main__":
    made: dict[str, Any] = {}
    for name, method in METHODS.items():
        recorded(made, name, method)
    with tempfile.TemporaryDirectory() as place:
        vocabulary, merges = Path(place) / "vocab.json", Path(place) / "merges.txt"
        vocabulary.write_text(json.dumps(VOCABULARY))
        merges.write_text(MERGES)
        ids = []
        for settings in CASES:
            kind = getattr(transformers, settings["tokenizer_class"])
            more = {key: value for key, value in settings.items() if key != "tokenizer_class"}
            tokenizer = kind(str(vocabulary), str(merges), **more)
            ids.append([tokenizer(text)["input_ids"] for text in TEXTS])
            ids[-1].append(tokenizer(TEXTS[0], TEXTS[2])["input_ids"])
    text = json.dumps({"ids": ids, "made": made}, ensure_ascii=False, separators=(",", ":"))
    FILE.write_text(text + "\n")
    print(len(text))
