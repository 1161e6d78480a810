"""Small configurations of models that speak, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

SMALL = {
    "model_type": "vits", "vocab_size": 12, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "ffn_dim": 24, "flow_size": 8, "spectrogram_bins": 9, "upsample_initial_channel": 16, "upsample_rates": [4, 2],
    "upsample_kernel_sizes": [8, 4], "resblock_kernel_sizes": [3, 5], "resblock_dilation_sizes": [[1, 3], [1, 2]],
    "duration_predictor_filter_channels": 12, "duration_predictor_flow_bins": 6, "prior_encoder_num_flows": 2,
    "prior_encoder_num_wavenet_layers": 2, "posterior_encoder_num_wavenet_layers": 2,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "vits": SMALL,
    "vits-speakers": SMALL | {
        "num_speakers": 5, "speaker_embedding_size": 6, "ffn_kernel_size": 4, "wavenet_dilation_rate": 2,
        "duration_predictor_kernel_size": 5, "depth_separable_num_layers": 2, "window_size": 2,
        "num_attention_heads": 4, "sampling_rate": 22050, "speaking_rate": 0.8,
    },
    "vits-plain-durations": SMALL | {
        "use_stochastic_duration_prediction": False, "use_bias": False, "hidden_act": "gelu", "leaky_relu_slope": 0.2,
        "num_speakers": 3, "speaker_embedding_size": 4,
    },
    # The shape of facebook/mms-tts-*.
    "vits-mms": {"model_type": "vits"},
}  # fmt: skip
# Those that the tests run with their weights in block types, and on another device.
QUANTISED = ["vits-mms"]
OTHER_DEVICE = ["vits", "vits-speakers", "vits-plain-durations"]
TEXTS = ([3, 0, 5, 0, 7, 0, 2, 0, 11], [4, 0, 6, 0, 1])  # a batch
SPEAKER = 2
VOCABULARY = {"_": 0, "e": 1, "t": 2, "a": 3, "o": 4, "n": 5, "i": 6, "h": 7, "s": 8, "r": 9, " ": 10, "'": 11}


def noise(shape: tuple[int, ...]) -> np.ndarray:
    """float32 normal numbers of a shape."""
    generator = np.random.Generator(np.random.Philox(key=[len(shape), *shape][1] * 7919 + shape[-1]))
    return generator.standard_normal(shape).astype(np.float32)
