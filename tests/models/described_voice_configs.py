"""Small configurations of models that speak in a voice that a text describes, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.codec_configs import CONFIGS as CODECS
from tests.models.seeded import music_weights
from tests.models.sequence_configs import CONFIGS as TEXTS

_DECODER = {
    "model_type": "parler_tts_decoder", "vocab_size": 19, "num_hidden_layers": 2, "num_codebooks": 3,
    "max_position_embeddings": 64, "pad_token_id": 16, "eos_token_id": 16, "bos_token_id": 17,
}  # fmt: skip
# A codec in the form of the library dac, whose config.json does not say its sizes: those here are not the usual ones.
_LIBRARY = {
    "model_type": "dac", "num_codebooks": 3, "model_bitrate": 8, "codebook_size": 16, "latent_dim": 16,
    "frame_rate": 200, "sampling_rate": 1600,
}  # fmt: skip
SIZES = {"encoder_hidden_size": 4, "downsampling_ratios": [2, 4], "decoder_hidden_size": 24, "codebook_dim": 5}
CONFIGS: dict[str, dict[str, Any]] = {
    # As parler-tts/parler-tts-mini-v1.
    "parler_tts": {
        "model_type": "parler_tts", "vocab_size": 40, "text_encoder": TEXTS["flan_t5"],
        "audio_encoder": _LIBRARY | SIZES,
        "decoder": _DECODER | {"hidden_size": 32, "num_attention_heads": 2, "ffn_dim": 64},
    },
    "parler_tts-cross": {
        "model_type": "parler_tts", "vocab_size": 44, "prompt_cross_attention": True, "text_encoder": TEXTS["t5"],
        "audio_encoder": CODECS["dac"],
        "decoder": _DECODER | {
            "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
            "num_cross_attention_key_value_heads": 1, "ffn_dim": 24, "rope_embeddings": True, "rope_theta": 500.0,
            "use_fused_lm_heads": True,
        },
    },
}  # fmt: skip
# Those that the tests run with their weights in block types, and on another device.
QUANTISED = ["parler_tts"]
OTHER_DEVICE = ["parler_tts", "parler_tts-cross"]
DESCRIPTION, PROMPT = [5, 17, 30, 8, 21, 12, 1], [9, 33, 14, 2, 1]
# Two texts with padding: of descriptions at the end, of prompts at the beginning.
DESCRIPTIONS, SHOWN = [DESCRIPTION, [7, 26, 3, 1, 0, 0, 0]], [[1] * 7, [1] * 4 + [0] * 3]
PROMPTS, PROMPTS_SHOWN = [PROMPT, [0, 0, 11, 35, 1]], [[1] * 5, [0, 0, 1, 1, 1]]
CODES = [[17, 3, 9, 15, 0], [17, 17, 7, 2, 11], [17, 17, 17, 4, 8]]  # of the codebooks
GENERATION = {
    "bos_token_id": 17, "decoder_start_token_id": 17, "eos_token_id": 16, "pad_token_id": 16, "max_length": 24,
    "min_new_tokens": 3, "do_sample": True, "guidance_scale": 1,
}  # fmt: skip


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `music_weights`, of a file of transformers or of one with the names of the library dac, whose codec is a part
    of `audio_encoder`: norms of filters are near 1, that of the last one, before a hyperbolic tangent, is small.
    """
    own = name.replace("audio_encoder.model.", "audio_encoder.")
    if own.endswith("original0"):
        return np.asarray((0.02 if shape[0] == 1 else 1) * (1 + 0.1 * music_weights(own, shape)), np.float32)
    return music_weights(own, shape)
