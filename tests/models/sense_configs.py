"""Small configurations of language models that see and hear, in the form of config.json."""

from __future__ import annotations

from typing import Any

SOUND, PICTURE = 24, 34  # the tokens of vectors of recordings and of pictures
# The tokens before and after a recording, and a picture.
SOUND_ENDS, PICTURE_ENDS = (25, 26), (27, 28)
_TEXT = {
    "vocab_size": 400, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 192,
}  # fmt: skip
_HEARS = {
    "num_mel_bins": 8, "d_model": 24, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 60,
    "output_dim": 32, "max_source_positions": 100,
}  # fmt: skip
_SEES = {
    "depth": 3, "hidden_size": 24, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 40, "patch_size": 4,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen2_5_omni_thinker": {
        "model_type": "qwen2_5_omni_thinker", "audio_token_index": SOUND, "image_token_index": PICTURE,
        "video_token_index": 35, "audio_start_token_id": SOUND_ENDS[0], "audio_end_token_id": SOUND_ENDS[1],
        "vision_start_token_id": PICTURE_ENDS[0], "vision_end_token_id": PICTURE_ENDS[1],
        "text_config": _TEXT | {
            "model_type": "qwen2_5_omni_text", "max_window_layers": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]},
        },
        "vision_config": _SEES | {"window_size": 16, "fullatt_block_indexes": [1]},
        "audio_config": _HEARS | {"n_window": 20},
    },
    "qwen3_omni_moe_thinker": {
        "model_type": "qwen3_omni_moe_thinker", "audio_token_id": SOUND, "image_token_id": PICTURE,
        "video_token_id": 35,
        "audio_start_token_id": SOUND_ENDS[0], "audio_end_token_id": SOUND_ENDS[1],
        "vision_start_token_id": PICTURE_ENDS[0], "vision_end_token_id": PICTURE_ENDS[1],
        "text_config": _TEXT | {
            "model_type": "qwen3_omni_moe_text", "head_dim": 16, "moe_intermediate_size": 12, "num_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2], "mrope_interleaved": True,
            },
        },
        "vision_config": _SEES | {"num_position_embeddings": 49, "deepstack_visual_indexes": [1, 0]},
        "audio_config": _HEARS | {"n_window_infer": 100, "downsample_hidden_size": 6},
    },
}  # fmt: skip
SETTINGS = {"feature_size": 8, "chunk_length": 2, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400}
SAMPLES = (25000, 8999)  # of two recordings
VECTORS = {"qwen2_5_omni_thinker": (39, 14), "qwen3_omni_moe_thinker": (21, 8)}  # of them
GRID = (5, 3)  # the rows and columns of a picture's vectors, of eight pixels each
TIMES, FPS, VIDEO = 3, 2.0, 35  # pairs of frames of a video, frames of a second, and the token of its vectors
# Those that the tests run with their weights in block types.
QUANTISED = ["qwen2_5_omni_thinker"]


def mixed(name: str) -> list[int]:
    """A text with both recordings and a picture between them."""
    first, second = VECTORS[name]
    (before, after), (above, below) = SOUND_ENDS, PICTURE_ENDS
    seen = [PICTURE] * (GRID[0] * GRID[1])
    return [5, 6, before, *[SOUND] * first, after, 7, above, *seen, below, 8, before, *[SOUND] * second, after, 9, 10]


def heard(name: str) -> list[list[int]]:
    """Two texts with a recording each, of which the second is padded."""
    rows = [[1, 3, SOUND_ENDS[0], *[SOUND] * count, SOUND_ENDS[1], 58, 4] for count in VECTORS[name]]
    return [row + [0] * (len(rows[0]) - len(row)) for row in rows]


def watched() -> list[int]:
    """A text with a video, whose seconds are more positions than it has rows and columns."""
    above, below = PICTURE_ENDS
    return [40, 41, above, *[VIDEO] * (TIMES * GRID[0] * GRID[1]), below, 42, 43, 44]
