"""Makes golden_parallel_voices/NAME.json with transformers, one for each configuration of parallel_voice_configs.py:

    PYTHONPATH=. python tests/models/make_golden_parallel_voices.py [NAME …]

A file has the names and shapes of the tensors, the frames of each phoneme of a text, its spectrogram and its sound. The
weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.goldens import write_each
from tests.models.parallel_voice_configs import CONFIGS, SPEAKER, TEXT, weights
from tests.models.seeded import rounded, shown
from tests.models.seeded_folders import load_seeded


def golden(name: str) -> dict[str, Any]:
    config = {key: value for key, value in CONFIGS[name].items() if key != "model_type"}
    made = transformers.FastSpeech2ConformerWithHifiGanConfig(**config)
    model, stored = load_seeded(transformers.FastSpeech2ConformerWithHifiGan(made), weights)
    speaker = torch.tensor([[SPEAKER]]) if made.model_config.num_speakers else None
    with torch.no_grad():
        found = model(torch.tensor([TEXT]), speaker_ids=speaker, return_dict=True)
    return {
        "tensors": {key: list(value.shape) for key, value in stored.items() if value.is_floating_point()},
        "frames": found.duration_outputs[0].tolist(), "spectrogram": rounded(shown(found.spectrogram.numpy(), 96)),
        "sound": rounded(shown(found.waveform.numpy(), 120)),
    }  # fmt: skip


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
