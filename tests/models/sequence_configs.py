"""Small configurations of every model with an encoder and a decoder, by name, and the options of their searches."""

from __future__ import annotations

from typing import Any

_SIZES = {
    "vocab_size": 40, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20, "max_position_embeddings": 40,
}  # fmt: skip
_BERT = {
    "model_type": "bert", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 24, "max_position_embeddings": 42, "pad_token_id": 1,
}  # fmt: skip
_DECODES = {"is_decoder": True, "add_cross_attention": True}
_ENDS = {"model_type": "encoder-decoder", "decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
_T5 = {
    "model_type": "t5", "vocab_size": 40, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 4,
    "decoder_start_token_id": 0,
}  # fmt: skip
_GEMMA = {
    "vocab_size": 40, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 6, "sliding_window": 3,
    "max_position_embeddings": 40, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0,
}  # fmt: skip
_GEMMA3 = _GEMMA | {
    "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4, "query_pre_attn_scalar": 10,
    "attn_logit_softcapping": None, "rms_norm_eps": 1e-3, "final_logit_softcapping": 40.0,
}  # fmt: skip
_EYES = {  # which no text needs
    "model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "image_size": 8, "patch_size": 4,
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "t5": _T5,
    "flan_t5": _T5 | {"feed_forward_proj": "gated-gelu", "num_decoder_layers": 1, "tie_word_embeddings": False},
    "mt5": _T5 | {"model_type": "mt5"},
    "umt5": _T5 | {"model_type": "umt5", "relative_attention_num_buckets": 16},
    "longt5": _T5 | {"model_type": "longt5", "local_radius": 1, "feed_forward_proj": "gated-gelu"},
    "longt5_global": _T5 | {
        "model_type": "longt5", "local_radius": 2, "global_block_size": 2, "tie_word_embeddings": False,
        "encoder_attention_type": "transient-global",
    },
    "switch_transformers": _T5 | {
        "model_type": "switch_transformers", "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 2,
        "num_decoder_layers": 2, "num_experts": 3, "expert_capacity": 2, "router_bias": True,
    },
    "t5gemma": {
        "model_type": "t5gemma", "vocab_size": 40, "decoder": _GEMMA,
        "encoder": _GEMMA | {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1},
    },
    "t5gemma2": {
        "model_type": "t5gemma2", "decoder": _GEMMA3, "eoi_token_index": 30,
        "encoder": {"text_config": _GEMMA3 | {"intermediate_size": 20}, "vision_config": _EYES, "eoi_token_index": 30},
    },
    "bart": {"model_type": "bart", **_SIZES},
    "plbart": {"model_type": "plbart", **_SIZES, "bos_token_id": 0, "decoder_start_token_id": 4},
    "mvp": {"model_type": "mvp", **_SIZES, "decoder_start_token_id": 2},
    "blenderbot_small": {"model_type": "blenderbot-small", **_SIZES, "scale_embedding": True},
    "mbart": {"model_type": "mbart", **_SIZES, "scale_embedding": True, "decoder_start_token_id": 2},
    "m2m_100": {"model_type": "m2m_100", **_SIZES, "pad_token_id": 33},
    "pegasus": {"model_type": "pegasus", **_SIZES, "decoder_start_token_id": 5},
    "blenderbot": {"model_type": "blenderbot", **_SIZES, "scale_embedding": True, "encoder_no_repeat_ngram_size": 0},
    "bigbird_pegasus": {
        "model_type": "bigbird_pegasus", **_SIZES, "block_size": 1, "num_random_blocks": 1, "pad_token_id": 1,
        "eos_token_id": 2,
    },
    "bigbird_pegasus_biases": {
        "model_type": "bigbird_pegasus", **_SIZES, "use_bias": True, "attention_type": "original_full",
        "pad_token_id": 1, "eos_token_id": 2, "scale_embedding": False,
    },
    "pegasus_x": {
        "model_type": "pegasus_x", **_SIZES, "block_size": 4, "num_global_tokens": 3, "pad_token_id": 1,
        "eos_token_id": 2, "decoder_start_token_id": 2,
    },
    "led": {
        "model_type": "led", **_SIZES, "attention_window": [4, 8], "max_encoder_position_embeddings": 20,
        "max_decoder_position_embeddings": 40, "scale_embedding": True,
    },
    "bert2bert": _ENDS | {
        "encoder": _BERT, "decoder": _BERT | {"hidden_size": 12, "num_attention_heads": 3} | _DECODES,
    },
    "roberta2gpt2": _ENDS | {
        "encoder": _BERT | {"model_type": "roberta", "type_vocab_size": 1},
        "decoder": {
            "model_type": "gpt2", "vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40,
            "scale_attn_by_inverse_layer_idx": True, **_DECODES,
        },
    },
    "bert2roberta": _ENDS | {
        "encoder": _BERT, "decoder": _BERT | {"model_type": "roberta", "tie_word_embeddings": False} | _DECODES,
    },
    "bert_generation": _ENDS | {
        "encoder": _BERT | {"model_type": "bert-generation"},
        "decoder": _BERT | {"model_type": "bert-generation"} | _DECODES,
    },
    "fsmt": {
        "model_type": "fsmt", **{key: value for key, value in _SIZES.items() if key != "vocab_size"},
        "src_vocab_size": 36, "tgt_vocab_size": 40, "num_beams": 1,
    },
    "prophetnet": {
        "model_type": "prophetnet", "vocab_size": 40, "hidden_size": 16, "num_encoder_layers": 2,
        "num_encoder_attention_heads": 4, "encoder_ffn_dim": 24, "num_decoder_layers": 2, "decoder_ffn_dim": 20,
        "num_decoder_attention_heads": 2, "max_position_embeddings": 64, "num_buckets": 8, "relative_max_distance": 12,
        "pad_token_id": 0, "ngram": 2, "decoder_start_token_id": 2,
    },
    "marian": {
        "model_type": "marian", **_SIZES, "pad_token_id": 39, "decoder_start_token_id": 39, "scale_embedding": True,
        "activation_function": "swish",
    },
    "marian_two_vocabularies": {
        "model_type": "marian", **_SIZES, "pad_token_id": 33, "decoder_start_token_id": 33,
        "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 34,
    },
}  # fmt: skip
# With weights in block types.
QUANTISED = (
    "t5",
    "umt5",
    "longt5_global",
    "switch_transformers",
    "t5gemma",
    "t5gemma2",
    "bart",
    "blenderbot_small",
    "mbart",
    "m2m_100",
    "pegasus",
    "marian",
    "fsmt",
    "prophetnet",
    "led",
    "bigbird_pegasus",
    "pegasus_x",
)
OTHER_DEVICE = QUANTISED  # run on another device
# Run as GGUF files, with these fields.
IN_GGUF = dict.fromkeys(("t5", "flan_t5", "umt5"), {"d_model": 32, "d_kv": 8, "d_ff": 64})
IDS = [[5, 17, 30, 8, 21, 12, 3], [9, 26, 14, 31, 1, 1, 1]]
MASK = [[1] * 7, [1] * 4 + [0] * 3]
# The heads over BART, PLBART and T5: tokens of two texts with an end token after each part, the second with padding.
HEADS = (
    ("bart", "sequence-classification"), ("bart", "question-answering"), ("plbart", "sequence-classification"),
    *(("t5", f"{task}-classification") for task in ("sequence", "token")), ("mt5", "sequence-classification"),
    *((name, "question-answering") for name in ("t5", "umt5")),
)  # fmt: skip
HEAD_IDS = [[0, 5, 17, 2, 8, 12, 2], [0, 26, 2, 31, 2, 1, 1]]
HEAD_TOKENS = {"eos_token_id": 2, "pad_token_id": 1}
HEAD_MASK = [[1] * 7, [1] * 5 + [0] * 2]
TEXTS = [[3, 11, 27, 6, 19], [3, 30, 8, 15, 2]]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "greedy without repeats": {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
    "beams": {"num_beams": 4},
    "long texts": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True, "no_repeat_ngram_size": 2},
    "never early": {"num_beams": 3, "length_penalty": 0.5, "early_stopping": "never", "repetition_penalty": 1.2},
    "forced": {
        "num_beams": 2, "forced_bos_token_id": 5, "forced_eos_token_id": 2, "bad_words_ids": [[7], [8, 9]],
        "min_new_tokens": 4,
    },
}  # fmt: skip
MOST = 12  # new tokens
