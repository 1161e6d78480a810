"""Makes golden_hearing.json with transformers:

    PYTHONPATH=. python -m tests.recipes.finetune.make_golden_hearing

It has the vocabulary of TEXTS, as transformers' recipe makes it (examples/pytorch/speech-recognition,
run_speech_recognition_ctc.py: `remove_special_characters` and `create_vocabulary_from_data`), and the labels of the
texts by Wav2Vec2CTCTokenizer.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from transformers import Wav2Vec2CTCTokenizer

from tests.recipes.finetune.hearing_cases import IGNORED, TEXTS


def characters() -> dict[str, Any]:
    texts = [re.sub(f"[{''.join(IGNORED)}]", "", text).lower() + " " for text in TEXTS]
    vocabulary = {v: k for k, v in enumerate(sorted(set(" ".join(texts))))}
    vocabulary["|"] = vocabulary[" "]
    del vocabulary[" "]
    vocabulary["[UNK]"] = len(vocabulary)
    vocabulary["[PAD]"] = len(vocabulary)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(vocabulary))
        file.flush()
        tokenizer = Wav2Vec2CTCTokenizer(file.name, unk_token="[UNK]", pad_token="[PAD]", word_delimiter_token="|")
    labels = [tokenizer(" ".join(text.split())).input_ids for text in texts]
    return {"vocabulary": vocabulary, "labels": labels}


if __name__ == "__main__":
    found = characters()
    Path(__file__).with_name("golden_hearing.json").write_text(json.dumps(found, ensure_ascii=False) + "\n")
    print(found)
