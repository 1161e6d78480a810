"""Makes golden_hearing.json with transformers:

    PYTHONPATH=. python -m tests.recipes.finetune.make_golden_hearing

It has the labels of SEGMENTS by WhisperTokenizer, with and without times, and their text as a prompt; the vocabulary of
TEXTS, as transformers' recipe makes it (examples/pytorch/speech-recognition, run_speech_recognition_ctc.py:
`remove_special_characters` and `create_vocabulary_from_data`), and their labels by Wav2Vec2CTCTokenizer; and what
BasicTextNormalizer makes of COMPARED.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from transformers import Wav2Vec2CTCTokenizer, WhisperTokenizer
from transformers.models.whisper.english_normalizer import BasicTextNormalizer

from tests.goldens import write_json
from tests.recipes.finetune.hearing_cases import COMPARED, IGNORED, SEGMENTS, TEXTS


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


def times() -> dict[str, list[int]]:
    tokenizer = WhisperTokenizer.from_pretrained("web/models/speech", predict_timestamps=True)
    assert tokenizer.convert_tokens_to_ids("<|15.00|>") != tokenizer.unk_token_id
    texts = [one["text"].strip() for one in SEGMENTS]
    spelt = "".join(
        f"<|{round(one['start'] * 50) / 50:.2f}|> {text}<|{round(one['end'] * 50) / 50:.2f}|>"
        for one, text in zip(SEGMENTS, texts, strict=True)
    )
    labels = {"with": tokenizer(spelt).input_ids}
    tokenizer.set_prefix_tokens(predict_timestamps=False)
    prompt = [int(token) for token in tokenizer.get_prompt_ids(" ".join(texts))]
    return labels | {"without": tokenizer(" " + " ".join(texts)).input_ids, "prompt": prompt}


if __name__ == "__main__":
    found = characters() | {"whisper": times(), "compared": [BasicTextNormalizer()(text).strip() for text in COMPARED]}
    write_json(Path(__file__).with_name("golden_hearing.json"), found, ensure_ascii=False)
    print(found)
