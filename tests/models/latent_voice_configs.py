"""Small configurations of models that write the vectors of a codec, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import codec_weights, draw

CODEC: dict[str, Any] = {
    "model_type": "pocket_tts_audio_tokenizer", "sampling_rate": 1600, "hidden_size": 16, "num_filters": 4,
    "upsampling_ratios": [4, 2], "upsample_groups": 16, "num_hidden_layers": 2, "intermediate_size": 24,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 200, "sliding_window": 9,
    "latent_stride": 2, "latent_dim": 6, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}  # fmt: skip
_MODEL = {
    "model_type": "pocket_tts", "vocab_size": 44, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 128, "latent_dim": 6, "audio_prompt_token_id": 40,
    "audio_latent_token_id": 41, "audio_prompt_bos_token_id": 42, "audio_bos_token_id": 43,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}  # fmt: skip
_FLOW = {
    "hidden_size": 20, "num_hidden_layers": 2, "latent_dim": 6, "condition_dim": 32, "frequency_embedding_size": 8,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "pocket": _MODEL | {"flow_head_config": _FLOW},
    "pocket-drifting": _MODEL | {"flow_head_config": _FLOW | {"flow_type": "drifting"}, "num_key_value_heads": 2},
}
IDS = [5, 17, 30, 8, 21]  # of a text
SAMPLES = 300  # of a voice
GENERATION = {"num_flow_steps": 2, "eos_threshold": -0.3, "min_frames_before_eos": 3, "temperature": 0.7}
AFTER = 2
# Those that the tests run with their weights in block types.
QUANTISED = ["pocket"]


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `draw`; statistics of vectors are near 0 and 1, and the flow goes far."""
    if name == "latent_std":
        return np.asarray(1 + 0.3 * np.abs(draw(name, shape)), np.float32)
    if name.endswith("freqs"):
        return np.exp(-np.log(10000) * np.arange(shape[0]) / shape[0]).astype(np.float32)
    return draw(name, shape) * np.float32(3 if name.startswith("flow_head") and len(shape) == 2 else 1)


def of_codec(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `codec_weights`, by the names that Mimi's files have."""
    for half in ("encoder", "decoder"):
        name = name.replace(f"{half}.{half}_seanet.", f"{half}.")
    return codec_weights(name, shape)
