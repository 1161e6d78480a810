"""What training hides at random: cases of masks, and models of sound_configs.py with their fields of config.json."""

from __future__ import annotations

from typing import Any

# counts of the rows, size, probability, length, least number of stretches, seed
MASKS: list[tuple[list[int], int, float, int, int, int]] = [
    ([100, 80, 61], 100, 0.3, 10, 0, 1),
    ([100, 20], 100, 0.01, 5, 2, 2),  # the least number
    ([30, 12], 30, 0.9, 10, 2, 3),  # as many as fit
    ([12], 12, 0.05, 10, 0, 4),  # rounded to none, by chance
]
HIDDEN: dict[str, Any] = {
    "apply_spec_augment": True, "mask_time_prob": 0.3, "mask_time_length": 4, "mask_feature_prob": 0.2,
    "mask_feature_length": 3, "mask_feature_min_masks": 0,
}  # fmt: skip
# name → fields of its own, and the characters of the two recordings
MODELS: dict[str, tuple[dict[str, Any], list[list[int]]]] = {
    "wav2vec2": ({"ctc_loss_reduction": "mean"}, [[7, 4, 5, 5, 12], [5, 9]]),
    "hubert-large": ({"ctc_loss_reduction": "sum", "mask_feature_prob": 0.0}, [[7, 4, 5, 5, 12], [5, 9]]),
    "wavlm": ({"ctc_loss_reduction": "mean", "mask_time_prob": 0.0}, [[7], [5, 9, 4]]),
    "sew": (  # the second text is longer than its recording
        {"ctc_loss_reduction": "mean", "ctc_zero_infinity": True}, [[7, 4, 5, 5, 12], [5, 9] * 30],
    ),
    "wav2vec2-bert": (
        {"ctc_loss_reduction": "sum", "mask_feature_prob": 0.4, "mask_time_length": 3, "mask_feature_length": 2},
        [[7, 4], [5]],
    ),
}  # fmt: skip
SEED = 5
WHISPER = HIDDEN | {"mask_time_length": 3, "mask_feature_length": 2}
SAMPLES = (2500, 1300)  # of the recordings that a Whisper hears
