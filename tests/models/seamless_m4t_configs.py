"""Small configurations of SeamlessM4T, in the form of config.json."""

from __future__ import annotations

from typing import Any

CONFIGS: dict[str, dict[str, Any]] = {
    "seamless_m4t_v2": {
        "model_type": "seamless_m4t_v2", "vocab_size": 60, "hidden_size": 32, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 40,
        "max_position_embeddings": 64, "speech_encoder_layers": 2, "speech_encoder_attention_heads": 2,
        "speech_encoder_intermediate_size": 28, "feature_projection_input_dim": 16, "adaptor_kernel_size": 4,
        "adaptor_stride": 4, "conv_depthwise_kernel_size": 5, "left_max_position_embeddings": 6,
        "right_max_position_embeddings": 3, "tie_word_embeddings": True, "decoder_start_token_id": 3, "eos_token_id": 3,
        "pad_token_id": 0, "bos_token_id": 2, "t2u_encoder_layers": 1, "t2u_decoder_layers": 1, "t2u_vocab_size": 30,
        "t2u_encoder_ffn_dim": 8, "t2u_decoder_ffn_dim": 8, "t2u_encoder_attention_heads": 2, "char_vocab_size": 20,
        "t2u_decoder_attention_heads": 2,
    },
}  # fmt: skip
CONFIGS["seamless_m4t"] = CONFIGS["seamless_m4t_v2"] | {"model_type": "seamless_m4t"}  # the first version
IDS = [[5, 9, 33, 17, 41, 3], [5, 20, 7, 3, 0, 0]]  # two texts, the second with padding
TEXT = [3, 8, 17, 5, 33]
SAMPLES = (9000, 5300)
BANKS = {"num_mel_bins": 8, "feature_size": 8, "stride": 2}
MOST = 16  # new tokens
