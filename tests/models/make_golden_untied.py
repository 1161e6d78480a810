"""Makes golden_untied.json with transformers: models whose head has weights of its own (`tie_word_embeddings: false`):

    PYTHONPATH=. python tests/models/make_golden_untied.py

For each model the file has the shapes of the tensors that transformers saves, and the logits of a batch with padding
(its first and last tokens). The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from tests.goldens import write_json
from tests.models.encoder_configs import CONFIGS as ENCODERS
from tests.models.encoder_configs import batch
from tests.models.make_golden_encoders import rounded
from tests.models.seeded import draw
from tests.models.sequence_configs import CONFIGS as SEQUENCES
from tests.models.sequence_configs import IDS, MASK, TEXTS

NAMES = ("bert", "roberta", "mpnet", "deberta_v3", "bart", "mbart", "marian")
COMPUTED = "embed_positions.weight"  # of Marian, which its files do not have


def golden(name: str) -> dict[str, Any]:
    config = dict((ENCODERS | SEQUENCES)[name]) | {"tie_word_embeddings": False}
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    made._attn_implementation = "eager"
    kind = transformers.AutoModelForMaskedLM if name in ENCODERS else transformers.AutoModelForSeq2SeqLM
    model = kind.from_config(made).float().eval()
    tensors = {
        key: value for key, value in model.state_dict().items() if not (name == "marian" and key.endswith(COMPUTED))
    }
    with torch.no_grad():
        for key, value in tensors.items():
            value.copy_(torch.from_numpy(draw(key, tuple(value.shape))))
        if name in ENCODERS:
            ids, mask, types = batch(ENCODERS[name])
            given = {"input_ids": ids, "attention_mask": mask} | ({} if types is None else {"token_type_ids": types})
        else:
            given = {"input_ids": IDS, "attention_mask": MASK, "decoder_input_ids": TEXTS}
        logits = model(**{key: torch.tensor(value) for key, value in given.items()}).logits
    shapes = {key: list(value.shape) for key, value in tensors.items()}
    return {"shapes": shapes, "logits": rounded(logits[[0, 0, 1], [0, -1, 0]])}


if __name__ == "__main__":
    found = {name: golden(name) for name in NAMES}
    print(write_json(Path(__file__).with_name("golden_untied.json"), found, separators=(",", ":")))
