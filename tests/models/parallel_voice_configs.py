"""Small configurations of models that write all frames of a spectrogram at once, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import draw, sound_weights

_MODEL = {
    "model_type": "fastspeech2_conformer", "vocab_size": 20, "hidden_size": 16, "num_mel_bins": 6,
    "encoder_layers": 1, "encoder_linear_units": 20, "encoder_kernel_size": 5, "decoder_layers": 1,
    "decoder_linear_units": 12, "decoder_kernel_size": 7, "speech_decoder_postnet_layers": 2,
    "speech_decoder_postnet_units": 8, "duration_predictor_channels": 10, "energy_predictor_channels": 9,
    "pitch_predictor_channels": 8, "pitch_predictor_layers": 2,
}  # fmt: skip
_SOUND = {
    "model_type": "hifigan", "model_in_dim": 6, "upsample_initial_channel": 8, "upsample_rates": [4, 2],
    "upsample_kernel_sizes": [8, 4], "resblock_kernel_sizes": [3, 5], "resblock_dilation_sizes": [[1, 3], [1, 2]],
}  # fmt: skip
_BOTH = {"model_type": "fastspeech2_conformer_with_hifigan", "vocoder_config": _SOUND}
CONFIGS: dict[str, dict[str, Any]] = {
    "fastspeech2_conformer": {**_BOTH, "model_config": _MODEL},
    "fastspeech2_conformer-before": {
        **_BOTH,
        "model_config": _MODEL | {
            "encoder_normalize_before": True, "decoder_normalize_before": True, "reduction_factor": 2,
            "use_macaron_style_in_conformer": False, "num_speakers": 3, "speaking_speed": 1.5,
            "convolution_bias": False, "pitch_embed_kernel_size": 3,
        },
    },
}  # fmt: skip
SOUNDS = ["<blank>", "<unk>", "HH", "AH0", "L", "OW1", "T", "IH1", "Z", "S", "AW2", "N", "K", "AE1", "D", "!", ",", "."]
TEXT, SPEAKER = [2, 3, 4, 5, 16, 7, 8, 18], 2  # "HH AH0 L OW1 , IH1 Z" and the end; who speaks, of several


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `sound_weights`; phonemes sound for a few frames, and scales of vocoders are near 1."""
    found = sound_weights(name, shape)
    if name.endswith("duration_predictor.linear.bias"):
        return found + np.float32(1.3)
    if name.endswith(("running_var", "vocoder.scale")):
        return np.abs(1 + draw(name, shape)).astype(np.float32)
    return found * np.float32(0.3 if ".embed." in name else 2 if "conv_post" in name else 1)
