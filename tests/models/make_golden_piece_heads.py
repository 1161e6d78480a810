"""Makes golden_piece_heads/NAME.json with transformers, one for each configuration of piece_head_configs.py:

    PYTHONPATH=. python tests/models/make_golden_piece_heads.py [NAME …]

A file has the names and shapes of the tensors as files have them, what the processor makes of two recordings, and
logits of the first and of both with padding. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.goldens import write_each
from tests.models.parakeet_configs import sounds
from tests.models.piece_head_configs import CONFIGS, SAMPLES, SETTINGS
from tests.models.seeded import rounded, shown, sound_weights
from tests.models.seeded_folders import configuration, load_seeded

CLASSES = {"omniasr": ("OmniASRForCTC", "OmniASRFeatureExtractor"), "lasr": ("LasrForCTC", "LasrFeatureExtractor")}


def golden(name: str) -> dict[str, Any]:
    made = configuration(CONFIGS[name])
    kind, extractor = (getattr(transformers, own) for own in CLASSES[name])
    model, stored = load_seeded(kind(made), sound_weights)
    extract = extractor(**SETTINGS[name])
    recordings = [sounds(count) for count in SAMPLES[name]]
    given = {"sampling_rate": 16000, "return_tensors": "pt", "return_attention_mask": True}
    alone, batch = extract(recordings[:1], **given), extract(recordings, padding=True, **given)
    with torch.no_grad():
        logits, both = model(**alone).logits, model(**batch).logits
    return {
        "tensors": {key: list(value.shape) for key, value in stored.items()},
        "input": rounded(shown(batch[extract.model_input_names[0]].numpy())),
        "logits": rounded(shown(logits.numpy(), 96)),
        "padded": rounded(shown(both[:, : both.shape[1] // 2].numpy(), 96)),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
