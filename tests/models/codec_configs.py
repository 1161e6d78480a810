"""Small configurations of codecs of sound, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

SMALL = {
    "model_type": "encodec", "sampling_rate": 1600, "target_bandwidths": [0.8, 1.6, 3.2], "hidden_size": 12,
    "num_filters": 4, "upsampling_ratios": [4, 2], "codebook_size": 16,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "encodec": SMALL,
    # As facebook/encodec_48khz.
    "encodec-chunks": SMALL | {
        "audio_channels": 2, "normalize": True, "chunk_length_s": 0.2, "overlap": 0.1, "norm_type": "time_group_norm",
        "use_causal_conv": False,
    },
    "encodec-plain": SMALL | {
        "num_residual_layers": 2, "dilation_growth_rate": 3, "residual_kernel_size": 5, "kernel_size": 5, "compress": 4,
        "num_lstm_layers": 1, "pad_mode": "constant", "use_conv_shortcut": False, "trim_right_ratio": 0.5,
        "upsampling_ratios": [5, 2],
    },
    "dac": {
        "model_type": "dac", "sampling_rate": 1600, "encoder_hidden_size": 4, "downsampling_ratios": [2, 4],
        "decoder_hidden_size": 24, "n_codebooks": 3, "codebook_size": 16, "codebook_dim": 5,
    },
    # As hubertsiuzdak/snac_24khz.
    "snac": {
        "model_type": "snac", "sampling_rate": 1600, "encoder_dim": 4, "encoder_rates": [2, 3], "decoder_dim": 24,
        "decoder_rates": [3, 2], "attn_window_size": None, "codebook_size": 16, "codebook_dim": 5,
        "vq_strides": [4, 2, 1],
    },
    # As hubertsiuzdak/snac_32khz.
    "snac-attention": {
        "model_type": "snac", "sampling_rate": 1600, "encoder_dim": 16, "encoder_rates": [2, 4], "decoder_dim": 128,
        "decoder_rates": [4, 2], "attn_window_size": 8, "codebook_size": 16, "codebook_dim": 5, "vq_strides": [2, 1],
        "noise": False, "depthwise": False,
    },
    # As kyutai/mimi.
    "mimi": {
        "model_type": "mimi", "sampling_rate": 1600, "hidden_size": 16, "num_filters": 4, "upsampling_ratios": [4, 2],
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 24,
        "codebook_size": 16, "codebook_dim": 6, "vector_quantization_hidden_dimension": 6, "num_quantizers": 4,
        "upsample_groups": 16, "sliding_window": 20, "frame_rate": 100.0,
    },
    "mimi-plain": {
        "model_type": "mimi", "sampling_rate": 1600, "hidden_size": 12, "num_filters": 4, "upsampling_ratios": [4, 2],
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 24,
        "codebook_size": 16, "codebook_dim": 12, "vector_quantization_hidden_dimension": 12, "num_quantizers": 3,
        "upsample_groups": 4, "attention_bias": True, "use_conv_shortcut": True, "head_dim": 8,
    },
}  # fmt: skip
OTHER_DEVICE = ["encodec", "encodec-chunks", "dac", "snac", "mimi"]
SAMPLES = 901


def sound(channels: int, count: int = SAMPLES) -> np.ndarray:
    """float32 (2, channels, count): tones and noise; the second recording ends with silence."""
    generator = np.random.Generator(np.random.Philox(key=channels * 10000 + count))
    times = np.arange(count) / 1600
    tones = np.sin(2 * np.pi * 90 * times * (1 + times)) + 0.4 * generator.standard_normal((2, channels, count))
    return (0.5 * tones).astype(np.float32)


def noise(shape: tuple[int, ...]) -> np.ndarray:
    """float32 of the shape."""
    generator = np.random.Generator(np.random.Philox(key=shape[-1]))
    return generator.standard_normal(shape).astype(np.float32)


def mask(channels: int, count: int = SAMPLES) -> np.ndarray:
    """int32 (2, channels, count)."""
    found = np.ones((2, channels, count), np.int32)
    found[1, :, count * 2 // 3 :] = 0
    return found
