"""A small model that writes a text for a text, as models of translation do, in a folder of Hugging Face's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyapp.formats import write_safetensors
from tests.models.sequence_configs import CONFIGS
from tests.models.test_sequences import make
from tests.tasks.test_texts import tokenizer_json

GENERATION = {"max_new_tokens": 5, "eos_token_id": 3, "pad_token_id": 0, "decoder_start_token_id": 2}
LANGUAGES = {"deu_Latn": 30, "eng_Latn": 31, "fra_Latn": 32}


def write_writer(path: Path, languages: bool = False) -> Path:
    """A small BART, whose tokenizer has a name for each of its tokens. languages: it puts one of LANGUAGES before a
    text, English by itself.
    """
    config = CONFIGS["bart"] | {"architectures": ["BartForConditionalGeneration"], "is_encoder_decoder": True}
    path.mkdir()
    write_safetensors(path / "model.safetensors", dict(make("bart").state_dict()))
    document: dict[str, Any] = json.loads(tokenizer_json())
    vocabulary = document["model"]["vocab"]
    vocabulary |= {f"w{id}": id for id in range(len(vocabulary), config["vocab_size"])}
    if languages:
        for name, id in LANGUAGES.items():
            del vocabulary[f"w{id}"]
            vocabulary[name] = id
            document["added_tokens"].append(document["added_tokens"][0] | {"id": id, "content": name})
        template = document["post_processor"]
        template["single"][0] = {"SpecialToken": {"id": "eng_Latn", "type_id": 0}}
        template["special_tokens"]["eng_Latn"] = {"id": "eng_Latn", "ids": [31], "tokens": ["eng_Latn"]}
    for name, value in (("config", config), ("tokenizer", document), ("generation_config", GENERATION)):
        (path / f"{name}.json").write_text(json.dumps(value))
    return path
