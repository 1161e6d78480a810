"""A small configuration of Kokoro, in the form of its config.json. decoder_dim and asr_dim are the features that the
published program has as 1024 and 64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .seeded import draw

VOCABULARY = {";": 1, ".": 2, " ": 3, "a": 4, "ɹ": 5, "ə": 6, "ˈ": 7, "t": 8, "ʃ": 9, "h": 10, "i": 11}
CONFIGS: dict[str, dict[str, Any]] = {
    "kokoro": {
        "model_type": "kokoro", "n_token": 12, "hidden_dim": 16, "style_dim": 6, "n_layer": 2, "max_dur": 5,
        "n_mels": 80, "dropout": 0.2, "text_encoder_kernel_size": 3, "decoder_dim": 24, "asr_dim": 4,
        "vocab": VOCABULARY, "affine_norms": True,
        "plbert": {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 2,
                   "max_position_embeddings": 12, "embedding_size": 8, "dropout": 0.1},
        "istftnet": {"upsample_initial_channel": 16, "upsample_rates": [3, 2], "upsample_kernel_sizes": [5, 4],
                     "resblock_kernel_sizes": [3, 5], "resblock_dilation_sizes": [[1, 3, 5], [1, 2, 3]],
                     "gen_istft_n_fft": 8, "gen_istft_hop_size": 2},
    },
}  # fmt: skip
PHONEMES = "həˈta."
LOUD = {
    "predictor.F0_proj.weight": 12.0, "decoder.generator.conv_post.weight": 0.1,
    "predictor.duration_proj.linear_layer.weight": 8.0,
}  # fmt: skip
STYLES = 10  # lengths of texts for which a voice has a vector


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """float32 weights by the parameters' names: filters have the deviation 1 / sqrt(their inputs), slopes are near 1,
    and some moments have a pitch above, others below that of a voice.
    """
    values = draw(name, shape)
    if ".alpha" in name:
        return np.exp(np.float32(0.3) * values).astype(np.float32)
    if len(shape) == 3:
        inputs = 3.0 if "pool" in name else float(np.prod(shape[1:]))
        values = values * np.float32(shape[-1] ** 0.5 * inputs**-0.5)
    return values * np.float32(LOUD.get(name, 1.0)) + np.float32(20 if name == "predictor.F0_proj.bias" else 0)


def voice(number: int = 0) -> np.ndarray:
    """float32 (STYLES, 1, 12): the vectors of a voice for texts of 1, 2 … phonemes."""
    width = 2 * CONFIGS["kokoro"]["style_dim"]
    return draw(f"voice {number}", (STYLES, 1, width)) * np.float32(width**0.5)


def noise(shape: tuple[int, ...]) -> np.ndarray:
    """float32 normal numbers of a shape."""
    return draw("noise", (*shape, 1))[..., 0]
