"""Small configurations of encoders of sound, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

SMALL = {
    "vocab_size": 14, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "conv_dim": [16, 16, 24], "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 2], "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4, "pad_token_id": 0,
}  # fmt: skip
# As the large models are.
LARGE = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True, "num_conv_pos_embeddings": 9}
CONFIGS: dict[str, dict[str, Any]] = {
    "wav2vec2": SMALL | {"model_type": "wav2vec2"},
    "wav2vec2-large": SMALL | LARGE | {"model_type": "wav2vec2", "mask_time_prob": 0.0},
    "wav2vec2-adapters": SMALL | LARGE | {"model_type": "wav2vec2", "adapter_attn_dim": 8},
    "hubert": SMALL | {"model_type": "hubert", "feat_proj_layer_norm": False},
    "hubert-large": SMALL | LARGE | {"model_type": "hubert"},
    "hubert-batch-norm": SMALL | {"model_type": "hubert", "conv_pos_batch_norm": True},
    "unispeech-sat": SMALL | {"model_type": "unispeech-sat"},
    "data2vec": SMALL
    | {
        "model_type": "data2vec-audio",
        "num_conv_pos_embeddings": 2,
        "conv_pos_kernel_size": 4,
    },  # fmt: skip
    "wavlm": SMALL | {"model_type": "wavlm", "num_buckets": 16, "max_bucket_distance": 20},
    "conformer": SMALL | {"model_type": "wav2vec2-conformer", "conv_depthwise_kernel_size": 5},
    "conformer-rotary": SMALL
    | LARGE
    | {
        "model_type": "wav2vec2-conformer",
        "position_embeddings_type": "rotary",
        "conv_depthwise_kernel_size": 3,
        "hidden_act": "swish",
    },
    "sew": SMALL | {"model_type": "sew", "squeeze_factor": 3, "feat_extract_norm": "layer"},
    "wavlm-large": SMALL | LARGE | {"model_type": "wavlm", "num_buckets": 32, "max_bucket_distance": 80},
}
# Those that the tests run with their weights in block types, and on another device.
QUANTISED = ["wav2vec2", "hubert-large", "wavlm"]
OTHER_DEVICE = ["wav2vec2", "hubert-large", "wavlm"]
VOCABULARY = {
    "<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "E": 5, "T": 6, "A": 7, "O": 8, "N": 9, "I": 10, "H": 11,
    "S": 12, "'": 13,
}  # fmt: skip
SAMPLES = (900, 640)  # of the two recordings of a batch
LABELS = [7, 4, 5, 5, 12]


def recording(count: int) -> Any:
    """float32 (count,): tones and noise, louder and louder."""
    generator = np.random.Generator(np.random.Philox(key=count))
    times = np.arange(count) / 16000
    tones = np.sin(2 * np.pi * 440 * times * (1 + times)) + 0.4 * generator.standard_normal(count)
    return (0.05 + 0.2 * times / times[-1] * tones).astype(np.float32)
