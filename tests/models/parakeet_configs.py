"""Small configurations of Parakeet, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import sound_weights

ENCODER = {
    "model_type": "parakeet_encoder", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "conv_kernel_size": 5, "subsampling_factor": 4, "subsampling_conv_channels": 6,
    "num_mel_bins": 8,
}  # fmt: skip
# As the multilingual models are: the inputs are not scaled, and the layers have no biases.
PLAIN = ENCODER | {"scale_input": False, "attention_bias": False, "convolution_bias": False, "num_hidden_layers": 1}
HEAD = {"vocab_size": 12, "decoder_hidden_size": 10, "blank_token_id": 11, "pad_token_id": 2, "max_symbols_per_step": 3}
CONFIGS: dict[str, dict[str, Any]] = {
    "ctc": {"model_type": "parakeet_ctc", "vocab_size": 12, "pad_token_id": 11, "encoder_config": ENCODER},
    "rnnt": HEAD | {"model_type": "parakeet_rnnt", "encoder_config": PLAIN},
    "tdt": HEAD | {"model_type": "parakeet_tdt", "encoder_config": PLAIN, "durations": [0, 1, 2]},
}
PIECES = ["<unk>", "▁", "<pad>", "▁so", "on", "es", "▁t", "a", "▁e", "i", "."]  # 11 is the blank
SAMPLES = (7300, 5000)  # of the two recordings of a batch
LARGE = {"encoder_projector.weight": 2, "decoder.decoder_projector.weight": 2, "joint.head.weight": 2,
         "decoder.embedding.weight": 4}  # fmt: skip
# Of the pieces, and of the lengths: each is sometimes the best.
BIASES = [1.4, -1.6, 2.4, 2.3, -1.9, -5.7, -2, 1.5, 2, 2.1, -4.7, 2.2, -1.5, -0.7, -4.8]
WRITTEN = [[11, 3, 4, 8, 9]]  # for the scores of a transducer
LABELS = [3, 5, 8]


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `sound_weights`; larger in transducers, so that what was written and what is heard change what is next."""
    if name == "joint.head.bias":
        return np.float32(BIASES[: shape[0]])
    return sound_weights(name, shape) * np.float32(LARGE.get(name, 3 if "lstm.weight" in name else 1))


def sounds(count: int) -> np.ndarray:
    """float32 (count,): a tone after another, and noise."""
    generator = np.random.Generator(np.random.Philox(key=count))
    tones = np.repeat(2 ** generator.uniform(0, 5, count // 700 + 1), 700)[:count] * 100
    waves = np.sin(2 * np.pi * np.cumsum(tones) / 16000)
    return (0.1 * waves + 0.01 * generator.standard_normal(count)).astype(np.float32)
