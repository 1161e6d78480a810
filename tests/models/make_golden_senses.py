"""Makes golden_senses/NAME.json with transformers, one for each configuration of sense_configs.py:

    PYTHONPATH=. python tests/models/make_golden_senses.py [NAME …]

A file has the names and shapes of the parameters as files have them, logits of a text with two recordings and a picture
and the 24 tokens that are written greedily after it, and logits of two texts with a recording each, of which the second
is padded. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.goldens import write_each
from tests.models.make_golden_picture_texts import patches
from tests.models.seeded import picture, rounded, shown, sound_weights
from tests.models.seeded_folders import configuration, load_seeded
from tests.models.sense_configs import CONFIGS, FPS, GRID, SAMPLES, SETTINGS, TIMES, heard, mixed, watched
from tests.models.sound_configs import recording

CLASSES = {
    "qwen2_5_omni_thinker": "Qwen2_5OmniThinkerForConditionalGeneration",
    "qwen3_omni_moe_thinker": "Qwen3OmniMoeThinkerForConditionalGeneration",
}


def of_frames(frames: torch.Tensor) -> torch.Tensor:
    """Frames (2 N, 3, H, W) → (patches, numbers of a patch), as transformers' processors make them of each two."""
    count, _, high, wide = frames.shape
    x = frames.reshape(count // 2, 2, 3, high // 8, 2, 4, wide // 8, 2, 4).permute(0, 3, 6, 4, 7, 2, 1, 5, 8)
    return x.reshape(count // 2 * high * wide // 16, -1)


def golden(name: str) -> dict[str, Any]:
    made = configuration(CONFIGS[name])
    kind = getattr(transformers, CLASSES[name])
    model, stored = load_seeded(kind(made), sound_weights)
    found = transformers.WhisperFeatureExtractor(**SETTINGS)(
        [recording(count) for count in SAMPLES], sampling_rate=16000, padding="max_length", truncation=False,
        return_tensors="pt", return_attention_mask=True,
    )  # fmt: skip
    sounds = {"input_features": found.input_features, "feature_attention_mask": found.attention_mask}
    high, wide = (8 * n for n in GRID)
    seen = {
        "pixel_values": patches(torch.from_numpy(picture(1, high, wide))),
        "image_grid_thw": torch.tensor([[1, high // 4, wide // 4]]),
    }
    ids, two = torch.tensor([mixed(name)]), torch.tensor(heard(name))
    mask = (two != 0).long()
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **sounds, **seen).logits
        both = model(input_ids=two, attention_mask=mask, **sounds).logits * mask.unsqueeze(-1)
        written = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, eos_token_id=None,
            pad_token_id=0, **sounds, **seen,
        )[0, ids.shape[1] :].tolist()  # fmt: skip
        frames = picture(2 * TIMES, high, wide)
        row = torch.tensor([watched()])
        watched_logits = model(
            input_ids=row, attention_mask=torch.ones_like(row), pixel_values_videos=of_frames(torch.from_numpy(frames)),
            video_grid_thw=torch.tensor([[TIMES, high // 4, wide // 4]]),
            video_second_per_grid=torch.tensor([2 / FPS]),
        ).logits  # fmt: skip
    return {
        "watched": rounded(shown(watched_logits.numpy(), 96)),
        "parameters": {key: list(value.shape) for key, value in stored.items()},
        "logits": rounded(shown(logits.numpy(), 96)), "heard": rounded(shown(both.numpy(), 96)), "tokens": written,
    }  # fmt: skip


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
