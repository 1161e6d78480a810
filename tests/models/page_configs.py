"""Small folders of models that give vectors of the parts of pages, by name: the config.json, and that of the image
processor.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyapp.formats import write_safetensors
from tests.models.seeded import picture_weights
from tests.text.picture_chat_model import PROCESSORS, byte_tokenizer, config_of

CONFIGS: dict[str, dict[str, Any]] = {
    "colpali": {"model_type": "colpali", "vlm_config": config_of("paligemma"), "embedding_dim": 12},
    "colqwen2": {"model_type": "colqwen2", "vlm_config": config_of("qwen2_vl"), "embedding_dim": 12},
}
QUANTISED = OTHER_DEVICE = ("colqwen2",)
CLASSES = {"colpali": "ColPaliForRetrieval", "colqwen2": "ColQwen2ForRetrieval"}
QUERY = "Who has the fox?"
PAGES = ((30, 41), (12, 28))  # sizes


def write_page_folder(folder: Path, name: str, shapes: dict[str, list[int]]) -> Path:
    """A folder with seeded random weights: those of the names and shapes of files."""
    settings = {"bos_token": "<bos>", "pad_token": "<s>", "eos_token": "</s>"}
    files = {"config": CONFIGS[name] | {"architectures": [CLASSES[name]]}, "tokenizer": byte_tokenizer(False)}
    files |= {"tokenizer_config": settings | {"tokenizer_class": "PreTrainedTokenizerFast"}}
    if name == "colpali":  # as newer files have it
        files["processor_config"] = {"query_prefix": "Find: ", "image_processor": PROCESSORS["paligemma"]}
    else:
        files["preprocessor_config"] = PROCESSORS["qwen2_vl"]
    folder.mkdir(parents=True, exist_ok=True)
    for kind, value in files.items():
        (folder / f"{kind}.json").write_text(json.dumps(value))
    tensors = {key: picture_weights(key, tuple(shape)) for key, shape in shapes.items()}
    write_safetensors(folder / "model.safetensors", tensors)
    return folder
