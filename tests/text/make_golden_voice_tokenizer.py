"""Makes golden_voice_tokenizer.json with transformers: the numbers of the texts of voice_vocabularies.py.

    PYTHONPATH=. python tests/text/make_golden_voice_tokenizer.py

Phonemes are given as they are (phonemize and normalize are off). Characters that a vocabulary lacks are left out of
them before: transformers gives them a number that the models lack.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from transformers import VitsTokenizer

from tests.text.voice_vocabularies import CASES

TARGET = Path(__file__).with_name("golden_voice_tokenizer.json")


def main() -> None:
    found = {}
    for name, (vocabulary, settings, texts) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "vocab.json").write_text(json.dumps(vocabulary))
            Path(folder, "tokenizer_config.json").write_text(
                json.dumps(settings | {"tokenizer_class": "VitsTokenizer"})
            )
            given = {"phonemize": False, "normalize": False} if settings["phonemize"] else {}
            tokenizer = VitsTokenizer.from_pretrained(folder, **given)
        kept = ["".join(c for c in text if not given or c in vocabulary) for text in texts]
        found[name] = [tokenizer(text).input_ids for text in kept]
    TARGET.write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
