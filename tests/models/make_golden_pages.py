"""Makes golden_pages/NAME.json with transformers, one for each folder of page_configs.py:

    PYTHONPATH=. python tests/models/make_golden_pages.py [NAME …]

A file has the names and shapes of the parameters as files have them, and of two pages and a query, prepared by the
model's processor, the numbers of tokens, some numbers of the vectors, and the scores. Pillow must be older than 13, as
for tests/vision/make_golden_processors.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from safetensors.torch import load_file

from tests.goldens import write_each
from tests.models.page_configs import CLASSES, CONFIGS, PAGES, QUERY, write_page_folder
from tests.models.seeded import rounded, shown
from tests.models.seeded_folders import configuration
from tests.text.picture_chat_model import IDS, PROCESSORS, photo


def processor_of(name: str, folder: Path) -> Any:
    words = {"image_token": "<|image_pad|>" if name == "colqwen2" else "<image>"}
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder, extra_special_tokens=words)
    settings = PROCESSORS["qwen2_vl" if name == "colqwen2" else "paligemma"]
    kept = {key: value for key, value in settings.items() if key not in ("image_processor_type", "image_seq_length")}
    if name == "colqwen2":
        return transformers.ColQwen2Processor(transformers.Qwen2VLImageProcessorPil(**kept), tokenizer)
    images = transformers.SiglipImageProcessorPil(**kept)
    images.image_seq_length = settings["image_seq_length"]
    made = transformers.ColPaliProcessor.__new__(transformers.ColPaliProcessor)  # whose locations no table here has
    made.visual_prompt_prefix, made.query_prefix, made.image_seq_length = "Describe the image.", "Find: ", 16
    made.image_token, made.image_token_id = "<image>", IDS["<image>"]
    made.image_processor, made.tokenizer, made.chat_template = images, tokenizer, None
    return made


def golden(name: str) -> dict[str, Any]:
    made = configuration(CONFIGS[name])
    kind = getattr(transformers, CLASSES[name])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kind(made).float().save_pretrained(folder)
        shapes = {key: list(value.shape) for key, value in load_file(folder / "model.safetensors").items()}
        write_page_folder(folder, name, shapes)
        model = kind.from_pretrained(folder, attn_implementation="eager").float().eval()
        processor = processor_of(name, folder)
        with torch.no_grad():
            found = [model(**processor.process_images([Image.fromarray(photo(*size))])).embeddings[0] for size in PAGES]
            found.append(model(**processor.process_queries([QUERY])).embeddings[0])
        scores = processor.score_retrieval([found[-1]], found[:-1])[0]
    return {
        "shapes": shapes, "tokens": [len(x) for x in found], "vectors": [rounded(shown(x.numpy(), 32)) for x in found],
        "scores": rounded(scores),
    }  # fmt: skip


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
