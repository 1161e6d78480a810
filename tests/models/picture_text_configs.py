"""Small configurations of every language model that sees pictures, by name, as config.json has them."""

from __future__ import annotations

from typing import Any

IMAGE = 90  # the token of a picture's vectors
LOWEST = -99.0  # of the logits that are compared: those that Chameleon never writes are float32's smallest number
_TEXT = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 192, "pad_token_id": 0,
}  # fmt: skip
_TOWER = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16,
    "patch_size": 4,
}  # fmt: skip
_LLAMA = {"model_type": "llama", **_TEXT}

_QWEN = {
    **_TEXT, "bos_token_id": None, "eos_token_id": None,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]},
}  # fmt: skip

_GEMMA4 = {
    "model_type": "gemma4_text", **_TEXT, "head_dim": 8, "num_hidden_layers": 3, "sliding_window": 8,
    "hidden_size_per_layer_input": 0, "global_head_dim": 16, "final_logit_softcapping": 30.0,
    "layer_types": ["sliding_attention", "full_attention", "full_attention"],
}  # fmt: skip
_GEMMA4_TOWER = {
    "model_type": "gemma4_vision", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "patch_size": 4, "pooling_kernel_size": 2,
    "position_embedding_size": 12,
}  # fmt: skip
_QWEN35 = {
    **_QWEN, "model_type": "qwen3_5_text", "num_hidden_layers": 2, "head_dim": 32, "full_attention_interval": 2,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1], "mrope_interleaved": True,
        "partial_rotary_factor": 0.25,
    },
}  # fmt: skip
_QWEN35_TOWER = {
    "depth": 2, "hidden_size": 16, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 24, "patch_size": 4,
    "num_position_embeddings": 16,
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "idefics3": {
        "model_type": "idefics3", "text_config": _LLAMA, "vision_config": {"model_type": "idefics3_vision", **_TOWER},
        "scale_factor": 2, "image_token_id": IMAGE,
    },
    "smolvlm": {
        "model_type": "smolvlm", "text_config": _LLAMA | {"tie_word_embeddings": True}, "tie_word_embeddings": True,
        "vision_config": {"model_type": "smolvlm_vision", **_TOWER, "image_size": 18, "patch_size": 3},
        "scale_factor": 3, "image_token_id": IMAGE,
    },
    "llava": {
        "model_type": "llava", "text_config": _LLAMA,
        "vision_config": {"model_type": "clip_vision_model", "projection_dim": 16, **_TOWER},
        "image_token_index": IMAGE,
    },
    "llava_full": {
        "model_type": "llava", "text_config": {"model_type": "mistral", "sliding_window": 12, **_TEXT, "head_dim": 8},
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, **_TOWER},
        "image_token_index": IMAGE, "vision_feature_layer": [-1, 1], "vision_feature_select_strategy": "full",
        "projector_hidden_act": "relu", "multimodal_projector_bias": False,
    },
    "video_llava": {
        "model_type": "video_llava", "text_config": _LLAMA, "image_token_index": IMAGE, "video_token_index": 91,
        "vision_config": {"model_type": "clip_vision_model", "projection_dim": 16, **_TOWER},
    },
    "kosmos2": {
        "model_type": "kosmos-2", "latent_query_num": 5, "image_token_id": IMAGE,
        "text_config": {
            "model_type": "kosmos_2_text_model", "vocab_size": 96, "embed_dim": 32, "layers": 2, "ffn_dim": 48,
            "attention_heads": 4, "max_position_embeddings": 192, "pad_token_id": 0,
        },
        "vision_config": {"model_type": "kosmos_2_vision_model", **_TOWER},
    },
    "fast_vlm": {
        "model_type": "fast_vlm", "text_config": {"model_type": "qwen2", **_TEXT}, "image_token_index": IMAGE,
        "vision_config": {
            "model_type": "timm_wrapper", "architecture": "fastvit_mci3", "hidden_size": 64, "image_size": 128,
            "do_pooling": True, "model_args": {
                "inference_mode": True, "layers": [1, 1, 1, 1, 1], "embed_dims": [4, 4, 4, 32, 32],
                "mlp_ratios": [1, 1, 1, 1, 1], "cls_ratio": 2.0,
            },
        },
    },
    "vipllava": {
        "model_type": "vipllava", "text_config": _LLAMA,
        "vision_config": {"model_type": "clip_vision_model", "projection_dim": 16, **_TOWER},
        "image_token_index": IMAGE, "vision_feature_layer": [-2, 0, 1],
    },
    "janus": {
        "model_type": "janus", "text_config": _LLAMA, "image_token_id": IMAGE, "tie_word_embeddings": False,
        "vision_config": {
            "model_type": "janus_vision_model", **_TOWER, "mlp_ratio": 1.75, "projection_dim": 32, "depth": 3,
            "num_image_tokens": 16,
        },
        "vq_config": {
            "embed_dim": 4, "num_embeddings": 8, "base_channels": 32, "channel_multiplier": [1], "num_res_blocks": 1,
            "image_token_embed_dim": 32, "projection_dim": 32, "hidden_size": 32, "latent_channels": 32,
        },
    },
    "deepseek_vl": {
        "model_type": "deepseek_vl", "text_config": _LLAMA | {"tie_word_embeddings": True}, "image_token_id": IMAGE,
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, **_TOWER},
    },
    "qwen2_vl": {
        "model_type": "qwen2_vl", "image_token_id": IMAGE, "vision_start_token_id": 91, "vision_end_token_id": 92,
        "video_token_id": 93, "text_config": _QWEN,
        "vision_config": {
            "depth": 2, "embed_dim": 24, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2, "patch_size": 4,
        },
    },
    "qwen2_5_vl": {
        "model_type": "qwen2_5_vl", "image_token_id": IMAGE, "vision_start_token_id": 91, "vision_end_token_id": 92,
        "video_token_id": 93, "text_config": _QWEN | {"tie_word_embeddings": True}, "tie_word_embeddings": True,
        "vision_config": {
            "depth": 3, "hidden_size": 24, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 40,
            "patch_size": 4, "window_size": 16, "fullatt_block_indexes": [1],
        },
    },
    "fuyu": {
        "model_type": "fuyu", "image_token_id": IMAGE, "patch_size": 8,
        "text_config": _TEXT | {"model_type": "persimmon", "rope_parameters": {
            "rope_type": "default", "rope_theta": 25000.0, "partial_rotary_factor": 0.5,
        }},
    },
    "chameleon": {
        "model_type": "chameleon", **_TEXT, "rms_norm_eps": 1e-4, "vocabulary_map": {"<image>": IMAGE} | {
            f"IMGIMG{letter}Z": 20 + i for i, letter in enumerate("BADCEFHG")
        },
        "vq_config": {
            "embed_dim": 4, "num_embeddings": 8, "base_channels": 32, "channel_multiplier": [1, 2, 1],
            "num_res_blocks": 2, "latent_channels": 6, "resolution": 16,
        },
    },
    "chameleon_swin": {
        "model_type": "chameleon", **_TEXT, "swin_norm": True, "attention_bias": True, "mlp_bias": True,
        "vocabulary_map": {"<image>": IMAGE} | {f"IMGIMGB{letter}Z": 20 + i for i, letter in enumerate("ABCD")} | {
            f"IMGIMG{letter}Z": 30 + i for i, letter in enumerate("ABCDEFGHIJ")
        },
        "vq_config": {
            "embed_dim": 4, "num_embeddings": 14, "base_channels": 32, "channel_multiplier": [1, 1],
            "num_res_blocks": 1, "latent_channels": 6, "resolution": 8, "attn_type": "none",
        },
    },
    "ovis2": {
        "model_type": "ovis2", "text_config": {"model_type": "qwen2", **_TEXT, "tie_word_embeddings": True},
        "vision_config": {
            "model_type": "ovis2_vision", **_TOWER, "hidden_stride": 2, "vocab_size": 21,
            "num_visual_indicator_tokens": 5,
        },
        "image_token_id": IMAGE, "visual_indicator_token_ids": [5, 7, 8, 91, 92], "hidden_size": 32, "vocab_size": 96,
    },
    "ovis2_sure": {
        "model_type": "ovis2", "text_config": {"model_type": "qwen2", **_TEXT}, "tie_word_embeddings": False,
        "vision_config": {
            "model_type": "ovis2_vision", **_TOWER, "vocab_size": 21, "num_visual_indicator_tokens": 4,
            "tokenize_function": "st_argmax", "qkv_bias": True, "mlp_bias": True,
        },
        "image_token_id": IMAGE, "visual_indicator_token_ids": [6, 93, 91, 92], "hidden_size": 32, "vocab_size": 96,
    },
    "aria": {
        "model_type": "aria", "image_token_index": IMAGE, "projector_patch_to_query_dict": {"16": 3, "25": 6},
        "text_config": {
            "model_type": "aria_text", **_TEXT, "intermediate_size": 20, "moe_num_experts": 4, "moe_topk": 2,
        },
        "vision_config": {"model_type": "idefics3_vision", **_TOWER, "image_size": 28},
    },
    "exaone4_5": {
        "model_type": "exaone4_5", "image_token_id": IMAGE, "video_token_id": 93, "text_config": _TEXT | {
            "model_type": "exaone4", "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"],
        },
        "vision_config": {
            "depth": 2, "hidden_size": 24, "out_hidden_size": 32, "num_heads": 2, "num_key_value_heads": 1,
            "intermediate_size": 40, "patch_size": 4, "window_size": 16, "fullatt_block_indexes": [1],
        },
    },
    "qwen3_vl": {
        "model_type": "qwen3_vl", "image_token_id": IMAGE, "vision_start_token_id": 91, "vision_end_token_id": 92,
        "video_token_id": 93, "text_config": _QWEN | {"head_dim": 16, "num_hidden_layers": 3, "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2], "mrope_interleaved": True,
        }},
        "vision_config": {
            "depth": 3, "hidden_size": 24, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 40,
            "patch_size": 4, "num_position_embeddings": 49, "deepstack_visual_indexes": [2, 0],
        },
    },
    "qwen3_vl_moe": {
        "model_type": "qwen3_vl_moe", "image_token_id": IMAGE, "vision_start_token_id": 91, "vision_end_token_id": 92,
        "video_token_id": 93, "text_config": _QWEN | {
            "model_type": "qwen3_vl_moe_text", "head_dim": 8, "moe_intermediate_size": 12, "num_experts": 4,
            "num_experts_per_tok": 2,
        },
        "vision_config": {
            "depth": 2, "hidden_size": 16, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 24,
            "patch_size": 4, "num_position_embeddings": 16, "deepstack_visual_indexes": [1, 0],
        },
    },
    "qwen3_5": {
        "model_type": "qwen3_5", "image_token_id": IMAGE, "vision_start_token_id": 91, "vision_end_token_id": 92,
        "video_token_id": 93, "text_config": _QWEN35, "vision_config": _QWEN35_TOWER,
    },
    "qwen3_5_moe": {
        "model_type": "qwen3_5_moe", "image_token_id": IMAGE, "vision_start_token_id": 91, "vision_end_token_id": 92,
        "video_token_id": 93, "vision_config": {**_QWEN35_TOWER, "depth": 1}, "text_config": _QWEN35 | {
            "model_type": "qwen3_5_moe_text", "moe_intermediate_size": 12, "shared_expert_intermediate_size": 16,
            "num_experts": 4, "num_experts_per_tok": 2,
        },
    },
    "glm4v": {
        "model_type": "glm4v", "image_token_id": IMAGE, "text_config": _TEXT | {"rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 2, 1],
        }},
        "vision_config": {
            "depth": 2, "hidden_size": 24, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 20,
            "patch_size": 4, "image_size": 28,
        },
    },
    "glm4v_moe": {
        "model_type": "glm4v_moe", "image_token_id": IMAGE, "text_config": _TEXT | {
            "head_dim": 16, "moe_intermediate_size": 12, "n_routed_experts": 4, "num_experts_per_tok": 2,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 2, 1], "partial_rotary_factor": 0.5,
            },
        },
        "vision_config": {
            "depth": 1, "hidden_size": 16, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 20,
            "patch_size": 4, "image_size": 16, "attention_bias": True,
        },
    },
    "glm46v": {
        "model_type": "glm46v", "image_token_id": IMAGE, "text_config": _TEXT | {
            "model_type": "glm4v_moe_text", "head_dim": 16, "moe_intermediate_size": 12, "n_routed_experts": 4,
            "num_experts_per_tok": 2, "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 2, 1], "partial_rotary_factor": 0.5,
            },
        },
        "vision_config": {
            "depth": 1, "hidden_size": 16, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 20,
            "patch_size": 4, "image_size": 16,
        },
    },
    "glm_ocr": {
        "model_type": "glm_ocr", "image_token_id": IMAGE, "text_config": _TEXT | {"head_dim": 12, "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 3, 2],
        }},
        "vision_config": {
            "depth": 2, "hidden_size": 24, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 20,
            "patch_size": 4, "image_size": 28,
        },
    },
    "paligemma": {
        "model_type": "paligemma", "text_config": {"model_type": "gemma", **_TEXT, "head_dim": 8},
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, **_TOWER},
        "image_token_index": IMAGE, "projection_dim": 32,
    },
    "paligemma2": {
        "model_type": "paligemma", "text_config": {
            "model_type": "gemma2", **_TEXT, "head_dim": 8, "sliding_window": 8, "query_pre_attn_scalar": 8,
        },
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, **_TOWER},
        "image_token_index": IMAGE, "projection_dim": 32,
    },
    "mistral3": {
        "model_type": "mistral3",
        "text_config": {"model_type": "mistral", "sliding_window": None, **_TEXT, "head_dim": 8},
        "vision_config": {"model_type": "pixtral", **_TOWER, "hidden_size": 16, "image_size": 64, "head_dim": 8,
                          "rope_parameters": {"rope_theta": 10000.0, "rope_type": "axial"}},
        "image_token_index": IMAGE, "tie_word_embeddings": False, "spatial_merge_size": 2,
    },
    "lighton_ocr": {
        "model_type": "lighton_ocr",
        "text_config": {"model_type": "qwen3", **_TEXT, "head_dim": 8, "tie_word_embeddings": True},
        "vision_config": {"model_type": "pixtral", **_TOWER, "hidden_size": 16, "image_size": 64, "head_dim": 8,
                          "rope_parameters": {"rope_theta": 10000.0, "rope_type": "axial"}},
        "image_token_id": IMAGE, "spatial_merge_size": 2,
    },
    "pixtral": {
        "model_type": "llava", "text_config": {"model_type": "mistral", "sliding_window": None, **_TEXT, "head_dim": 8},
        "vision_config": {"model_type": "pixtral", **_TOWER, "hidden_size": 16, "image_size": 64, "head_dim": 8,
                          "patch_size": 8},
        "image_token_index": IMAGE, "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
    },
    "blip2": {
        "model_type": "blip-2", "num_query_tokens": 5, "image_token_index": IMAGE,
        "vision_config": {"model_type": "blip_2_vision_model", **_TOWER, "initializer_range": 0.02},
        "qformer_config": {
            "model_type": "blip_2_qformer", "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4,
            "intermediate_size": 20, "vocab_size": 8, "max_position_embeddings": 8,
        },
        "text_config": {
            "model_type": "opt", "vocab_size": 96, "hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 192, "pad_token_id": 0,
        },
    },
    "llava_next": {
        "model_type": "llava_next", "text_config": _LLAMA,
        "vision_config": {"model_type": "clip_vision_model", "projection_dim": 16, **_TOWER},
        "image_token_index": IMAGE, "image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]],
    },
    "llava_next_video": {
        "model_type": "llava_next_video", "text_config": _LLAMA | {"num_hidden_layers": 1},
        "vision_config": {"model_type": "clip_vision_model", "projection_dim": 16, **_TOWER},
        "image_token_index": IMAGE, "video_token_index": 91, "image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]],
    },
    "llava_onevision": {
        "model_type": "llava_onevision", "text_config": {"model_type": "qwen2", **_TEXT},
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, **_TOWER},
        "image_token_index": IMAGE, "image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]],
        "vision_aspect_ratio": "anyres_max_1",
    },
    "aya_vision": {
        "model_type": "aya_vision",
        "text_config": {"model_type": "cohere2", **_TEXT, "head_dim": 8, "sliding_window": 8},
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, **_TOWER},
        "image_token_index": IMAGE, "alignment_intermediate_size": 28, "adapter_layer_norm_eps": 1e-5,
    },
    "cohere2_vision": {
        "model_type": "cohere2_vision",
        "text_config": {"model_type": "cohere2", **_TEXT, "head_dim": 8, "sliding_window": 8},
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, **_TOWER},
        "image_token_id": IMAGE, "alignment_intermediate_size": 28,
    },
    "internvl": {
        "model_type": "internvl", "text_config": {"model_type": "qwen2", **_TEXT},
        "vision_config": {"model_type": "internvl_vision", **_TOWER, "attention_bias": True},
        "image_token_id": IMAGE, "tie_word_embeddings": False, "image_seq_length": 4,
    },
    "internvl_large": {
        "model_type": "internvl", "text_config": {"model_type": "qwen3", **_TEXT, "head_dim": 8},
        "vision_config": {"model_type": "internvl_vision", **_TOWER, "norm_type": "rms_norm", "use_qk_norm": True,
                          "use_mean_pooling": False},
        "image_token_id": IMAGE, "tie_word_embeddings": True, "image_seq_length": 4,
    },
    "paddleocr_vl": {
        "model_type": "paddleocr_vl", "image_token_id": IMAGE, "vision_start_token_id": 91, "vision_end_token_id": 92,
        "video_token_id": 93, "tie_word_embeddings": False,
        "text_config": _QWEN | {"head_dim": 8, "use_bias": True, "tie_word_embeddings": False},
        "vision_config": {"model_type": "paddleocr_vl_vision", **_TOWER, "hidden_size": 16},
    },
    "got_ocr2": {
        "model_type": "got_ocr2", "text_config": {"model_type": "qwen2", **_TEXT}, "image_token_index": IMAGE,
        "vision_config": {
            "model_type": "got_ocr2_vision", **_TOWER, "image_size": 24, "output_channels": 6, "window_size": 4,
            "global_attn_indexes": [1], "mlp_dim": 20,
        },
    },
    "idefics2": {
        "model_type": "idefics2", "image_token_id": IMAGE, "vision_config": _TOWER,
        "text_config": {"model_type": "mistral", "sliding_window": None, **_TEXT, "head_dim": 8},
        "perceiver_config": {
            "hidden_size": 32, "resampler_n_latents": 5, "resampler_depth": 2, "resampler_n_heads": 4,
            "resampler_head_dim": 6, "num_key_value_heads": 2,
        },
    },
    "lfm2_vl": {
        "model_type": "lfm2_vl",
        "text_config": {
            "model_type": "lfm2", **_TEXT, "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"],
        },
        "vision_config": {
            "model_type": "siglip2_vision_model", "vision_use_head": False, **_TOWER, "num_patches": 49,
        },
        "image_token_id": IMAGE, "projector_hidden_size": 20,
    },
    "llama4": {
        "model_type": "llama4",
        "text_config": {
            "model_type": "llama4_text", **_TEXT, "head_dim": 8, "intermediate_size": 20, "intermediate_size_mlp": 40,
            "num_local_experts": 3, "interleave_moe_layer_step": 2, "no_rope_layers": [1, 0],
        },
        "vision_config": {
            "model_type": "llama4_vision_model", **_TOWER, "hidden_size": 16, "intermediate_size": 64,
            "projector_input_dim": 20, "projector_output_dim": 20, "vision_output_dim": 20,
        },
        "image_token_index": IMAGE,
    },
    "mllama": {
        "model_type": "mllama", "image_token_index": IMAGE,
        "text_config": {
            "model_type": "mllama_text_model", **_TEXT, "num_hidden_layers": 4, "cross_attention_layers": [1, 3],
        },
        "vision_config": {
            "model_type": "mllama_vision_model", "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2,
            "num_global_layers": 1, "attention_heads": 2, "image_size": 16, "patch_size": 4, "max_num_tiles": 2,
            "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]], "intermediate_layers_indices": [0, 1],
            "vision_output_dim": 48,
        },
    },
    "gemma4": {
        "model_type": "gemma4", "image_token_id": IMAGE, "audio_config": None, "text_config": _GEMMA4 | {
            "hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": 96, "num_kv_shared_layers": 1,
        },
        "vision_config": _GEMMA4_TOWER | {"use_clipped_linears": True},
    },
    "gemma4_large": {
        "model_type": "gemma4", "image_token_id": IMAGE, "audio_config": None,
        "text_config": _GEMMA4 | {"use_bidirectional_attention": "vision"},
        "vision_config": _GEMMA4_TOWER | {"standardize": True},
    },
    "gemma4_unified": {
        "model_type": "gemma4_unified", "image_token_id": IMAGE, "audio_config": None,
        "text_config": _GEMMA4 | {"model_type": "gemma4_unified_text", "use_bidirectional_attention": "vision"},
        "vision_config": {
            "model_type": "gemma4_unified_vision", "patch_size": 4, "pooling_kernel_size": 2, "mm_embed_dim": 12,
            "mm_posemb_size": 16, "output_proj_dims": 12,
        },
    },
    "gemma3": {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text", **_TEXT, "head_dim": 8, "num_hidden_layers": 3, "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "query_pre_attn_scalar": 8,
        },
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, **_TOWER, "image_size": 24},
        "image_token_index": IMAGE, "mm_tokens_per_image": 9, "boi_token_index": 91, "eoi_token_index": 92,
    },
}  # fmt: skip
# Some may choose other experts, and small ones of Gemma 4 have larger errors.
QUANTISED = tuple(
    name for name in CONFIGS
    if not name.endswith(("_moe", "46v", "video_llava", "exaone4_5", "aria")) and "gemma4" not in name
)  # fmt: skip
OTHER_DEVICE = (
    "smolvlm", "llava", "gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "mistral3", "llava_next",
    "internvl_large", "blip2", "paligemma2", "mllama",
)  # fmt: skip
# The rows and columns of a picture's vectors, of eight pixels each.
GRIDS = dict.fromkeys(
    (
        "qwen2_vl",
        "qwen2_5_vl",
        "exaone4_5",
        "fuyu",
        "qwen3_vl",
        "qwen3_vl_moe",
        "qwen3_5",
        "qwen3_5_moe",
        "mistral3",
        "lighton_ocr",
        "pixtral",
        "paddleocr_vl",
        "glm4v",
        "glm4v_moe",
        "glm46v",
        "glm_ocr",
        "lfm2_vl",
        "gemma4",
        "gemma4_large",
        "gemma4_unified",
    ),
    (5, 3),
)

ANY_SIZE = {"idefics2": (22, 29), "aria": (12, 20)}  # of a picture, where the tower takes any

# The rows and columns of tiles, beside the whole, and the size of a picture.
TILED = {
    "llava_next": ((1, 2), (14, 40)),
    "llava_next_video": ((1, 2), (14, 40)),
    "llava_onevision": ((2, 2), (30, 32)),
}

# The sizes of the two pictures of each text, of models in which a picture is one token.
TOGETHER = {"mllama": ((20, 16), (12, 14))}


def tokens(name: str, count: int) -> tuple[list[list[int]], int]:
    """(two texts with `count` vectors of a picture in each, pictures): padding, if any, is at the end of the second."""
    first = [5, 6, 7, *[IMAGE] * count, 8, 9, 10, 11, 12]
    second = [5, 6, *[IMAGE] * count, 8, 13, 14]
    return [first, second + [0] * (len(first) - len(second))], 2
