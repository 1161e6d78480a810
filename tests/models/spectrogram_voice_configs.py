"""A small configuration of a model that writes spectrograms, and of its vocoder, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import draw, sound_weights

CONFIGS: dict[str, dict[str, Any]] = {
    "speecht5": {
        "model_type": "speecht5", "vocab_size": 14, "hidden_size": 16, "encoder_layers": 2,
        "encoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_layers": 2, "decoder_ffn_dim": 20,
        "decoder_attention_heads": 4, "num_mel_bins": 6, "speech_decoder_prenet_units": 10,
        "speaker_embedding_dim": 5, "speech_decoder_postnet_layers": 2, "speech_decoder_postnet_units": 8,
        "speech_decoder_postnet_kernel": 3, "max_speech_positions": 120, "max_text_positions": 40,
        "encoder_max_relative_position": 3,
    },
    "vocoder": {
        "model_type": "speecht5_hifigan", "model_in_dim": 6, "upsample_initial_channel": 8, "upsample_rates": [4, 2],
        "upsample_kernel_sizes": [8, 4], "resblock_kernel_sizes": [3, 5], "resblock_dilation_sizes": [[1, 3], [1, 2]],
    },
}  # fmt: skip
LETTERS = ["<s>", "<pad>", "</s>", "<unk>", "▁", *"etaoni.H"]
TEXT, OTHER = [4, 12, 5, 6, 4, 7, 11, 9, 2], [4, 7, 6, 2]
STEPS = 5  # of the frames that are given


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `sound_weights`; positions count, and the speech ends after some steps."""
    if name.endswith(("alpha", "scale")):
        return np.asarray(1 + draw(name, shape), np.float32)
    found = sound_weights(name, shape)
    if name.endswith("prob_out.bias"):
        return found - np.float32(3.8)
    return found * np.float32(2 if name.startswith("conv_post") else 6 if name.endswith("prob_out.weight") else 1)


def voices() -> np.ndarray:
    """float32 (2, 5): the vectors of two voices."""
    return np.random.Generator(np.random.Philox(key=5)).standard_normal((2, 5)).astype(np.float32)


def frames() -> np.ndarray:
    """float32 (2, STEPS, 6)"""
    return np.random.Generator(np.random.Philox(key=6)).standard_normal((2, STEPS, 6)).astype(np.float32)


def kept(shape: tuple[int, ...]) -> np.ndarray:
    """Which numbers of the prenet are kept: the same at all places."""
    return np.broadcast_to((np.arange(shape[-1]) * 3 % 5 != 0).astype(np.float32), shape)
