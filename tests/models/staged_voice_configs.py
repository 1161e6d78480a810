"""Small configurations of models that speak in stages, in the form of config.json and generation_config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.codec_configs import CONFIGS as CODECS

_PART = {"block_size": 64, "num_layers": 2, "num_heads": 2, "hidden_size": 24, "bias": False}
CONFIGS: dict[str, dict[str, Any]] = {
    "bark": {
        "model_type": "bark", "codec_config": CODECS["encodec"],
        "semantic_config": _PART | {"model_type": "semantic", "input_vocab_size": 100, "output_vocab_size": 24},
        "coarse_acoustics_config": _PART
        | {"model_type": "coarse_acoustics", "input_vocab_size": 60, "output_vocab_size": 60},
        "fine_acoustics_config": _PART
        | {"model_type": "fine_acoustics", "input_vocab_size": 18, "output_vocab_size": 18, "n_codes_total": 4},
    },
}  # fmt: skip
GENERATION: dict[str, Any] = {
    "codebook_size": 16, "sample_rate": 1600,
    "semantic_config": {
        "eos_token_id": 20, "max_new_tokens": 14, "text_encoding_offset": 30, "text_pad_token": 96,
        "semantic_infer_token": 97, "semantic_vocab_size": 20, "max_input_semantic_length": 12, "min_eos_p": 0.2,
    },
    "coarse_acoustics_config": {
        "coarse_semantic_pad_token": 55, "coarse_infer_token": 56, "max_coarse_input_length": 12,
        "max_coarse_history": 24, "sliding_window_len": 8,
    },
    "fine_acoustics_config": {"max_fine_history_length": 12, "max_fine_input_length": 24, "n_fine_codebooks": 4},
}  # fmt: skip
IDS = [5, 9, 33, 17, 2]  # of a text


def history() -> dict[str, np.ndarray]:
    """What a voice said before."""
    return {
        "semantic_prompt": np.arange(13) * 7 % 20, "coarse_prompt": np.arange(36).reshape(2, 18) * 5 % 16,
        "fine_prompt": np.arange(72).reshape(4, 18) * 3 % 16,
    }  # fmt: skip


# Those that the tests run with their weights in block types.
QUANTISED = ["bark"]
