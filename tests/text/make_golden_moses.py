"""Makes golden_moses.json with transformers and sacremoses (pip install sacremoses):

    PYTHONPATH=. python tests/text/make_golden_moses.py

The file has the ids of texts by the tokenizers of XLM, FlauBERT and FSMT with a small vocabulary, and what sacremoses
made of each text on the way, which the tests give in its place.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import sacremoses
import transformers

from tests.text.moses_vocabulary import CASES, DASHED, MERGES, PAIR, SENTENCE, TARGET, TEXTS, VOCABULARY

FILE = Path(__file__).with_name("golden_moses.json")
METHODS = {
    "MosesPunctNormalizer": "normalize", "MosesTokenizer": "tokenize", "MosesDetokenizer": "detokenize"
}  # fmt: skip


def recorded(found: dict[str, Any], name: str, method: str) -> None:
    """Has a class of sacremoses write down what it makes of texts."""
    kind = getattr(sacremoses, name)
    own = getattr(kind, method)

    def write(self: Any, text: Any, **options: Any) -> Any:
        made = own(self, text, **options)
        how = " escaped" if options.get("escape") else ""
        found[f"{method} {self.lang}{how}: {text}"] = made
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
        target = Path(place) / "vocab-tgt.json"
        target.write_text(json.dumps(TARGET))
        files = {"src_vocab_file": str(vocabulary), "tgt_vocab_file": str(target), "merges_file": str(merges)}
        both = transformers.FSMTTokenizer(langs=PAIR["langs"], **files)
        pair = [both(text)["input_ids"] for text in (*TEXTS, DASHED)]
        written = both.decode([TARGET[piece] for piece in SENTENCE], skip_special_tokens=True)
    text = json.dumps(
        {"ids": ids, "pair": pair, "written": written, "made": made}, ensure_ascii=False, separators=(",", ":")
    )
    FILE.write_text(text + "\n")
    print(len(text))
