"""Small configurations of every decoder, in the form of config.json."""

from __future__ import annotations

from typing import Any

SMALL = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": False, "bos_token_id": 1,
    "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip

LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.5, 2.0, 3.0], "long_factor": [1.0, 2.0, 4.0, 8.0]}
FALCON = {
    "model_type": "falcon", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 128, "ffn_hidden_size": 48,
}  # fmt: skip
GPT2 = {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "n_inner": 48}
MAMBA = {
    "model_type": "mamba", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8,
    "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK = SMALL | {
    "model_type": "deepseek_v2", "num_key_value_heads": 4, "moe_intermediate_size": 24, "n_routed_experts": 8,
    "n_shared_experts": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "q_lora_rank": 20, "kv_lora_rank": 12,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6,
}  # fmt: skip
RWKV = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "head_size": 8, "intermediate_size": 48}
OPT = {
    "model_type": "opt", "vocab_size": 96, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 128,
}  # fmt: skip
BLOOM = {
    "model_type": "bloom", "vocab_size": 96, "hidden_size": 32, "n_layer": 2, "n_head": 4, "tie_word_embeddings": False,
}  # fmt: skip
MPT = {"model_type": "mpt", "vocab_size": 96, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 128}
GRANITE = {
    "embedding_multiplier": 3.0, "logits_scaling": 0.7, "residual_multiplier": 0.6, "attention_multiplier": 0.3,
}  # fmt: skip
GPT_OSS = SMALL | {
    "model_type": "gpt_oss", "head_dim": 12, "sliding_window": 6, "num_local_experts": 4, "num_experts_per_tok": 2,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}

MAMBA_LAYERS = {
    "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_chunk_size": 4,
}  # fmt: skip
QWEN_LINEAR = SMALL | {
    "num_hidden_layers": 3, "head_dim": 16, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_key_head_dim": 12, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "shared_expert_intermediate_size": 24,
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "modernbert_decoder": SMALL
    | {
        "model_type": "modernbert-decoder",
        "local_attention": 8,
        "tie_word_embeddings": True,
        "layer_types": ["full_attention", "sliding_attention"],
        "norm_bias": True,
    },
    "llama": SMALL | {"model_type": "llama"},
    "llama-tied": SMALL | {"model_type": "llama", "tie_word_embeddings": True, "attention_bias": True, "head_dim": 12},
    "llama3": SMALL
    | {
        "model_type": "llama",
        "rope_theta": 500.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "mistral": SMALL | {"model_type": "mistral", "sliding_window": 6},
    "qwen2": SMALL
    | {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "sliding_window": 6,
        "max_window_layers": 1,
    },
    "qwen3": SMALL | {"model_type": "qwen3", "head_dim": 12},
    "gemma": SMALL | {"model_type": "gemma", "head_dim": 12, "tie_word_embeddings": True},
    "gemma2": SMALL
    | {
        "model_type": "gemma2",
        "head_dim": 12,
        "tie_word_embeddings": True,
        "sliding_window": 6,
        "query_pre_attn_scalar": 10,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": None,
    },
    "gemma3": SMALL
    | {
        "model_type": "gemma3_text",
        "head_dim": 12,
        "tie_word_embeddings": True,
        "sliding_window": 6,
        "query_pre_attn_scalar": 10,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 5.0,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
        },
    },
    "gemma3n": SMALL
    | {
        "model_type": "gemma3n_text",
        "head_dim": 12,
        "num_hidden_layers": 4,
        "hidden_size": 24,
        "tie_word_embeddings": True,
        "sliding_window": 6,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "activation_sparsity_pattern": [0.7, 0.0, 0.0, 0.0],
        "vocab_size_per_layer_input": 90,
        "hidden_size_per_layer_input": 8,
        "altup_num_inputs": 3,
        "laurel_rank": 6,
        "final_logit_softcapping": 5.0,
    },
    "phi3": SMALL
    | {
        "model_type": "phi3",
        "sliding_window": 20,
        "original_max_position_embeddings": 80,
        "rope_scaling": LONGROPE,
    },
    "phi3-long": SMALL | {"model_type": "phi3", "original_max_position_embeddings": 8, "rope_scaling": LONGROPE},
    "phi": SMALL | {"model_type": "phi", "partial_rotary_factor": 0.5},
    "phi-norms": SMALL | {"model_type": "phi", "partial_rotary_factor": 0.5, "qk_layernorm": True},
    "smollm3": SMALL | {"model_type": "smollm3", "no_rope_layers": [1, 0]},
    "zamba2": SMALL
    | {
        "model_type": "zamba2",
        "tie_word_embeddings": True,
        "num_hidden_layers": 4,
        "num_key_value_heads": 4,
        "layers_block_type": ["mamba", "hybrid", "hybrid", "hybrid"],
        "rms_norm_eps": 1.0,  # without it, differences of the last bit grow from layer to layer
        "num_mem_blocks": 2,
        "use_shared_attention_adapter": True,
        "adapter_rank": 3,
        "use_mem_rope": True,
        "add_bias_linear": True,
        "n_mamba_heads": 4,
        "mamba_d_state": 8,
        "mamba_ngroups": 2,
        "chunk_size": 4,
    },
    "jetmoe": SMALL
    | {
        "model_type": "jetmoe",
        "kv_channels": 8,
        "num_local_experts": 4,
        "num_experts_per_tok": 3,
        "rms_norm_eps": 1e-3,
    },
    "afmoe": SMALL
    | EXPERTS
    | {
        "model_type": "afmoe",
        "head_dim": 12,
        "sliding_window": 6,
        "global_attn_every_n_layers": 2,
        "num_shared_experts": 2,
        "route_scale": 1.5,
        "mup_enabled": True,
    },
    "granite": SMALL | GRANITE | {"model_type": "granite", "attention_bias": True},
    "granitemoe": SMALL | GRANITE | {"model_type": "granitemoe", "num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoe-shared": SMALL
    | GRANITE
    | {"model_type": "granitemoeshared", "num_local_experts": 4, "shared_intermediate_size": 24, "rms_norm_eps": 1e-5},
    "olmo": SMALL | {"model_type": "olmo"},
    "olmo-clip": SMALL | {"model_type": "olmo", "clip_qkv": 0.7},
    "olmo2": SMALL | {"model_type": "olmo2"},
    "stablelm": SMALL | {"model_type": "stablelm", "use_qkv_bias": True, "partial_rotary_factor": 0.5},
    "stablelm-parallel": SMALL
    | {
        "model_type": "stablelm",
        "partial_rotary_factor": 0.25,
        "qk_layernorm": True,
        "use_parallel_residual": True,
    },
    "starcoder2": SMALL | {"model_type": "starcoder2", "sliding_window": 6},
    "falcon": FALCON | {"multi_query": True},
    "falcon-new": FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True},
    "falcon-alibi": FALCON | {"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True},
    "gpt2": GPT2 | {"model_type": "gpt2"},
    "openai-gpt": {key: value for key, value in GPT2.items() if key != "n_inner"} | {"model_type": "openai-gpt"},
    "ctrl": {key: value for key, value in GPT2.items() if key != "n_inner"}
    | {"model_type": "ctrl", "dff": 48, "tie_word_embeddings": False},
    "gpt_bigcode": GPT2 | {"model_type": "gpt_bigcode"},
    "gpt_bigcode-heads": GPT2 | {"model_type": "gpt_bigcode", "multi_query": False},
    "gpt_neox": SMALL | {"model_type": "gpt_neox", "rotary_pct": 0.25},
    "gpt_neox-serial": SMALL | {"model_type": "gpt_neox", "rotary_pct": 0.5, "use_parallel_residual": False},
    "olmoe": SMALL | {"model_type": "olmoe", "num_experts": 6, "num_experts_per_tok": 2, "clip_qkv": 1.5},
    "glm": SMALL | {"model_type": "glm", "head_dim": 12, "attention_bias": False, "rms_norm_eps": 1e-5},
    "glm4": SMALL | {"model_type": "glm4", "head_dim": 8, "attention_bias": True, "rms_norm_eps": 1e-5},
    "deepseek_v2": DEEPSEEK
    | {"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.6},
    "deepseek_v2-lite": DEEPSEEK | {"q_lora_rank": None, "first_k_dense_replace": 0},
    "deepseek_v3": DEEPSEEK
    | {
        "model_type": "deepseek_v3",
        "n_group": 4,
        "topk_group": 2,
        "norm_topk_prob": True,
        "rope_scaling": {
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "mscale": 1.0,
            "mscale_all_dim": 0.7,
        },
    },
    "mamba": MAMBA | {"time_step_rank": 5},
    "mamba-gelu": MAMBA | {"hidden_act": "gelu"},
    "mamba-biases": MAMBA | {"use_bias": True, "use_conv_bias": False, "expand": 3, "conv_kernel": 3},
    "falcon_mamba": MAMBA | {"model_type": "falcon_mamba", "mixer_rms_eps": 1e-3},
    "mamba2": MAMBA
    | {"model_type": "mamba2", "num_heads": 4, "head_dim": 16, "n_groups": 2, "state_size": 16, "chunk_size": 4},
    "rwkv": {
        "model_type": "rwkv",
        "vocab_size": 96,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "intermediate_size": 48,
        "context_length": 128,
        "layer_norm_epsilon": 1e-4,
    },
    "rwkv7": {
        "model_type": "rwkv7",
        "vocab_size": 96,
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "head_dim": 64,
        "intermediate_size": 48,
        "decay_low_rank_dim": 6,
        "a_low_rank_dim": 5,
        "v_low_rank_dim": 4,
        "gate_low_rank_dim": 7,
    },
    "exaone": SMALL | {"model_type": "exaone", "rope_scaling": None},
    "internlm3": SMALL | {"model_type": "internlm3", "head_dim": 12, "attention_bias": True, "mlp_bias": True},
    "iquestcoder": SMALL | {"model_type": "iquestcoder", "head_dim": 12},
    "cwm": SMALL | {"model_type": "cwm", "head_dim": 12, "sliding_window": 6, "mlp_bias": True},
    "jais2": SMALL | {"model_type": "jais2", "layer_norm_eps": 1e-4},
    "youtu": DEEPSEEK | {"model_type": "youtu"},
    "mistral4": DEEPSEEK
    | {
        "model_type": "mistral4",
        "n_shared_experts": 1,
        "routed_scaling_factor": 1.5,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 8,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.3,
        },
    },
    "exaone_moe": SMALL
    | EXPERTS
    | {
        "model_type": "exaone_moe",
        "head_dim": 12,
        "sliding_window": 6,
        "sliding_window_pattern": 2,
        "num_hidden_layers": 3,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
    },
    "solar_open": SMALL
    | EXPERTS
    | {"model_type": "solar_open", "head_dim": 12, "n_routed_experts": 4, "n_shared_experts": 1},
    "dbrx": {
        "model_type": "dbrx",
        "vocab_size": 96,
        "d_model": 32,
        "n_heads": 4,
        "n_layers": 2,
        "max_seq_len": 128,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 1.5, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "hyperclovax": SMALL
    | {"model_type": "hyperclovax", "embedding_multiplier": 2.0, "residual_multiplier": 0.5, "logits_scaling": 1.5},
    "rwkv5": RWKV | {"model_type": "rwkv5"},
    "rwkv6": RWKV | {"model_type": "rwkv6", "time_mix_extra_dim": 3, "time_decay_extra_dim": 5},
    "opt": OPT,
    "opt-350m": OPT | {"do_layer_norm_before": False, "word_embed_proj_dim": 20},
    "opt-galactica": OPT
    | {"enable_bias": False, "activation_function": "gelu", "layer_norm_elementwise_affine": False},
    "bloom": BLOOM,
    "bloom-post": BLOOM | {"n_head": 6, "hidden_size": 48, "apply_residual_connection_post_layernorm": True},
    "mpt": MPT,
    "mpt-clip": MPT | {"n_heads": 6, "d_model": 48, "attn_config": {"clip_qkv": 1.5}},
    "gptj": GPT2 | {"model_type": "gptj", "rotary_dim": 4, "tie_word_embeddings": False},
    "codegen": GPT2 | {"model_type": "codegen", "n_head": 8, "n_embd": 64, "rotary_dim": 4, "n_inner": None},
    "cohere": SMALL | {"model_type": "cohere", "tie_word_embeddings": True, "logit_scale": 0.4},
    "cohere-norms": SMALL | {"model_type": "cohere", "use_qk_norm": True, "attention_bias": True, "logit_scale": 0.5},
    "cohere2": SMALL
    | {
        "model_type": "cohere2",
        "num_hidden_layers": 4,
        "tie_word_embeddings": True,
        "sliding_window": 6,
        "sliding_window_pattern": 2,
        "logit_scale": 0.5,
    },
    "nemotron": SMALL | {"model_type": "nemotron", "head_dim": 12, "mlp_bias": True},
    "gpt_oss": GPT_OSS,
    "gpt_oss-yarn": GPT_OSS
    | {
        "attention_bias": False,
        "swiglu_limit": 0.8,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "beta_fast": 8.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 32,
        },
    },
    "lfm2": SMALL
    | {
        "model_type": "lfm2",
        "num_hidden_layers": 3,
        "tie_word_embeddings": True,
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "full_attention", "conv"],
    },
    "lfm2-bias": SMALL
    | {
        "model_type": "lfm2",
        "conv_bias": True,
        "conv_L_cache": 4,
        "block_ffn_dim_multiplier": 1.5,
        "block_multiple_of": 8,
        "full_attn_idxs": [0],
    },
    "recurrent_gemma": SMALL
    | {
        "model_type": "recurrent_gemma",
        "num_hidden_layers": 3,
        "tie_word_embeddings": True,
        "attention_window_size": 6,
        "logits_soft_cap": 5.0,
    },
    "recurrent_gemma-wide": SMALL
    | {
        "model_type": "recurrent_gemma",
        "tie_word_embeddings": True,
        "num_key_value_heads": 1,
        "attention_bias": True,
        "conv1d_width": 3,
        "block_types": ["recurrent", "attention"],
    },
    "olmo3": SMALL
    | {
        "model_type": "olmo3",
        "num_hidden_layers": 4,
        "sliding_window": 6,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "attention_factor": 1.2,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
        },
    },
    "exaone4": SMALL
    | {"model_type": "exaone4", "sliding_window": None, "rms_norm_eps": 1e-4, "layer_types": ["full_attention"] * 2},
    "exaone4-windows": SMALL
    | {
        "model_type": "exaone4",
        "num_hidden_layers": 3,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
    "seed_oss": SMALL | {"model_type": "seed_oss", "head_dim": 12},
    "seed_oss-biases": SMALL
    | {"model_type": "seed_oss", "head_dim": 8, "attention_out_bias": True, "mlp_bias": True, "attention_bias": False},
    "ernie4_5": SMALL | {"model_type": "ernie4_5", "head_dim": 12, "use_bias": True},
    "helium": SMALL | {"model_type": "helium", "head_dim": 8, "attention_bias": True, "mlp_bias": True},
    "aria_text": SMALL
    | {"model_type": "aria_text", "intermediate_size": 20, "moe_num_experts": 4, "moe_num_shared_experts": 1},
    "arcee": SMALL | {"model_type": "arcee", "mlp_bias": True},
    "mixtral": SMALL | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": SMALL
    | EXPERTS
    | {
        "model_type": "qwen2_moe",
        "shared_expert_intermediate_size": 24,
        "mlp_only_layers": [0],
        "use_sliding_window": True,
        "sliding_window": 6,
        "max_window_layers": 2,
    },
    "qwen3_moe": SMALL
    | EXPERTS
    | {
        "model_type": "qwen3_moe",
        "head_dim": 12,
        "norm_topk_prob": True,
        "use_sliding_window": True,
        "sliding_window": 6,
        "max_window_layers": 1,
    },
    "qwen3_next": QWEN_LINEAR | EXPERTS | {"model_type": "qwen3_next", "mlp_only_layers": [1]},
    "qwen3_5": QWEN_LINEAR | {"model_type": "qwen3_5_text", "tie_word_embeddings": True},
    "qwen3_5_moe": QWEN_LINEAR
    | EXPERTS
    | {"model_type": "qwen3_5_moe_text", "linear_num_key_heads": 4, "linear_conv_kernel_dim": 3},
    "granitemoehybrid": SMALL
    | GRANITE
    | MAMBA_LAYERS
    | {
        "model_type": "granitemoehybrid",
        "num_hidden_layers": 3,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "num_local_experts": 4,
        "shared_intermediate_size": 24,
    },
    "granitemoehybrid-dense": SMALL
    | GRANITE
    | MAMBA_LAYERS
    | {
        "model_type": "granitemoehybrid",
        "layer_types": ["full_attention", "linear_attention"],
        "num_local_experts": 0,
        "shared_intermediate_size": 24,
        "position_embedding_type": "rope",
        "mamba_d_head": "auto",
        "mamba_proj_bias": True,
    },
    "falcon_h1": SMALL
    | MAMBA_LAYERS
    | {
        "model_type": "falcon_h1",
        "mamba_d_ssm": 64,
        "projectors_bias": True,
        "mlp_multipliers": [0.7, 0.9],
        "ssm_multipliers": [0.9, 0.8, 1.1, 1.2, 0.7],
        "key_multiplier": 0.6,
        "embedding_multiplier": 1.5,
        "lm_head_multiplier": 0.8,
        "attention_in_multiplier": 1.2,
        "attention_out_multiplier": 0.9,
        "ssm_in_multiplier": 1.25,
        "ssm_out_multiplier": 0.75,
    },
    "falcon_h1-norm": SMALL | MAMBA_LAYERS | {"model_type": "falcon_h1", "mamba_d_ssm": 64, "mamba_rms_norm": True},
    "bamba": SMALL | MAMBA_LAYERS | {"model_type": "bamba", "attn_layer_indices": [1], "attention_bias": True},
    "jamba": SMALL
    | {
        "model_type": "jamba",
        "num_hidden_layers": 3,
        "num_experts": 4,
        "attn_layer_period": 3,
        "attn_layer_offset": 1,
        "mamba_d_state": 8,
        "mamba_proj_bias": True,
    },
    "nemotron_h": SMALL
    | {
        "model_type": "nemotron_h",
        "head_dim": 12,
        "num_hidden_layers": 4,
        "hybrid_override_pattern": "ME*-",
        "mamba_num_heads": 4,
        "mamba_head_dim": 8,
        "n_groups": 2,
        "ssm_state_size": 8,
        "chunk_size": 4,
        "n_routed_experts": 4,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": 20,
        "moe_latent_size": 16,
        "routed_scaling_factor": 1.6,
    },
    "phimoe": SMALL
    | {
        "model_type": "phimoe",
        "num_local_experts": 4,
        "router_jitter_noise": 0.2,
        "attention_bias": True,
        "lm_head_bias": True,
        "original_max_position_embeddings": 96,
        "rope_scaling": LONGROPE | {"short_mscale": 1.2, "long_mscale": 1.3},
    },
    "hunyuan": SMALL
    | {
        "model_type": "hunyuan_v1_dense",
        "head_dim": 12,
        "attention_bias": True,
        "rope_scaling": {"type": "dynamic", "alpha": 100.0, "factor": 1.0},
    },
    "hunyuan-moe": SMALL | {"model_type": "hunyuan_v1_moe", "head_dim": 8, "num_experts": 4, "moe_topk": [2, 1]},
    "ernie4_5_moe": SMALL
    | {
        "model_type": "ernie4_5_moe",
        "use_bias": True,
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_intermediate_size": 24,
    },
    "persimmon": SMALL | {"model_type": "persimmon", "num_key_value_heads": 4},
    "apertus": SMALL | {"model_type": "apertus", "head_dim": 12},
    "minicpm3": SMALL
    | {
        "model_type": "minicpm3",
        "num_key_value_heads": 4,
        "q_lora_rank": 20,
        "kv_lora_rank": 12,
        "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 8,
        "scale_emb": 3.0,
        "scale_depth": 1.2,
        "dim_model_base": 24,
        "original_max_position_embeddings": 96,
        "rope_scaling": LONGROPE,
    },
    "ministral": SMALL
    | {
        "model_type": "ministral",
        "head_dim": 12,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "ministral3": SMALL
    | {
        "model_type": "ministral3",
        "head_dim": 12,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "original_max_position_embeddings": 5,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.2,
        },
    },
    "llama4": SMALL
    | {
        "model_type": "llama4_text",
        "head_dim": 8,
        "intermediate_size": 24,
        "intermediate_size_mlp": 40,
        "num_hidden_layers": 3,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "moe_layers": [0, 2],
        "no_rope_layers": [1, 0, 1],
        "attention_chunk_size": 5,
        "floor_scale": 4,
        "attn_scale": 0.3,
    },
    "glm4_moe": SMALL
    | {
        "model_type": "glm4_moe",
        "head_dim": 16,
        "moe_intermediate_size": 24,
        "n_routed_experts": 8,
        "num_experts_per_tok": 3,
        "n_group": 4,
        "topk_group": 2,
        "routed_scaling_factor": 1.6,
        "use_qk_norm": True,
        "attention_bias": True,
        "rms_norm_eps": 1e-4,
    },
    "gemma4": SMALL
    | {
        "model_type": "gemma4_text",
        "head_dim": 8,
        "global_head_dim": 16,
        "num_hidden_layers": 4,
        "tie_word_embeddings": True,
        "sliding_window": 6,
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "vocab_size_per_layer_input": 96,
        "hidden_size_per_layer_input": 8,
        "final_logit_softcapping": 5.0,
    },
    "gemma4-experts": SMALL
    | {
        "model_type": "gemma4_text",
        "head_dim": 8,
        "global_head_dim": 16,
        "tie_word_embeddings": True,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention"],
        "hidden_size_per_layer_input": 0,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "enable_moe_block": True,
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 24,
    },
    "bitnet": SMALL | {"model_type": "bitnet", "hidden_act": "relu2"},
    "gpt_neo": {
        "model_type": "gpt_neo",
        "vocab_size": 96,
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "max_position_embeddings": 128,
        "intermediate_size": 48,
        "window_size": 6,
        "attention_types": [[["global", "local"], 1]],
    },
    "biogpt": SMALL | {"model_type": "biogpt", "num_key_value_heads": 4},
    "xglm": {
        "model_type": "xglm",
        "vocab_size": 96,
        "d_model": 32,
        "ffn_dim": 48,
        "num_layers": 2,
        "attention_heads": 4,
        "tie_word_embeddings": False,
        "max_position_embeddings": 128,
    },
    "nanochat": SMALL | {"model_type": "nanochat", "final_logit_softcapping": 5.0},
    "vaultgemma": SMALL
    | {
        "model_type": "vaultgemma",
        "head_dim": 12,
        "sliding_window": 6,
        "query_pre_attn_scalar": 10,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": None,
    },
    "flex_olmo": SMALL | {"model_type": "flex_olmo", "num_experts": 4, "num_experts_per_tok": 2},
    "kimi_linear": {
        "model_type": "kimi_linear",
        "vocab_size": 96,
        "hidden_size": 32,
        "intermediate_size": 48,
        "moe_intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "num_experts": 4,
        "num_experts_per_token": 2,
        "kv_lora_rank": 12,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 6,
        "layer_types": ["linear_attention", "full_attention"],
        "mlp_layer_types": ["dense", "sparse"],
        "linear_head_dim": 8,
        "linear_num_heads": 2,
        "model_max_length": 128,
        "pad_token_id": 0,
    },
    "bailing_hybrid": SMALL
    | {
        "model_type": "bailing_hybrid",
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "head_dim": 8,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
        "moe_intermediate_size": 24,
        "first_k_dense_replace": 1,
        "layer_group_size": 2,
        "kv_lora_rank": 12,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 6,
        "rms_norm_eps": 1e-2,
    },
    "deepseek_v4": {name: value for name, value in SMALL.items() if name != "intermediate_size"}
    | {
        "model_type": "deepseek_v4",
        "num_hidden_layers": 4,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "partial_rotary_factor": 0.25,
        "q_lora_rank": 20,
        "moe_intermediate_size": 24,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "layer_types": [
            "sliding_attention",
            "compressed_sparse_attention",
            "heavily_compressed_attention",
            "compressed_sparse_attention",
        ],
        "mlp_layer_types": ["hash_moe", "moe", "moe", "moe"],
        "compress_rates": {"compressed_sparse_attention": 2, "heavily_compressed_attention": 4},
        "sliding_window": 4,
        "swiglu_limit": 0.8,
        "o_groups": 2,
        "o_lora_rank": 10,
        "index_n_heads": 8,
        "index_head_dim": 8,
        "index_topk": 2,
        "hc_mult": 3,
        "hc_sinkhorn_iters": 5,
    },
    "dots1": SMALL
    | {
        "model_type": "dots1",
        "head_dim": 12,
        "moe_intermediate_size": 24,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "sliding_window": 6,
        "max_window_layers": 1,
        "attention_bias": True,
    },
    "mimo_v2_flash": SMALL
    | {
        "model_type": "mimo_v2_flash",
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        "head_dim": 12,
        "v_head_dim": 8,
        "sliding_window": 6,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "moe_intermediate_size": 24,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
    },
    "laguna": SMALL
    | {
        "model_type": "laguna",
        "num_hidden_layers": 3,
        "head_dim": 8,
        "num_attention_heads_per_layer": [4, 6, 6],
        "sliding_window": 6,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "shared_expert_intermediate_size": 20,
        "moe_routed_scaling_factor": 2.5,
    }
    | EXPERTS,
    "laguna-wide": SMALL
    | {
        "model_type": "laguna",
        "head_dim": 8,
        "gating": "per-element",
        "sliding_window": 6,
        "shared_expert_intermediate_size": 24,
        "moe_router_logit_softcapping": 2.0,
    }
    | EXPERTS,
    "deepseek_v32-sparse": DEEPSEEK
    | {
        "model_type": "deepseek_v32",
        "n_group": 4,
        "topk_group": 2,
        "n_shared_experts": 1,
        "index_topk": 4,
        "index_n_heads": 8,
        "index_head_dim": 8,
    },
    "glm_moe_dsa": DEEPSEEK
    | {
        "model_type": "glm_moe_dsa",
        "n_shared_experts": 1,
        "index_topk": 128,
        "index_n_heads": 8,
        "index_head_dim": 8,
        "num_hidden_layers": 3,
        "index_topk_pattern": "FSF",
    },
    "glm_moe_dsa-sparse": DEEPSEEK
    | {
        "model_type": "glm_moe_dsa",
        "n_shared_experts": 1,
        "index_topk": 4,
        "index_n_heads": 8,
        "index_head_dim": 8,
        "num_hidden_layers": 3,
        "index_topk_pattern": "FSF",
    },
    "axk1": DEEPSEEK
    | {
        "model_type": "axk1",
        "n_group": 4,
        "topk_group": 2,
        "n_shared_experts": 1,
        "mlp_layer_types": ["dense", "sparse"],
    },
    "sarvam_mla": DEEPSEEK | {"model_type": "sarvam_mla", "q_lora_rank": None, "num_key_value_heads": None},
    "sarvam_moe": SMALL
    | {
        "model_type": "sarvam_moe",
        "head_dim": 12,
        "moe_intermediate_size": 24,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "num_hidden_layers": 3,
    },
    "cohere2_moe": SMALL
    | {
        "model_type": "cohere2_moe",
        "head_dim": 8,
        "num_hidden_layers": 3,
        "sliding_window": 6,
        "num_experts": 4,
        "num_shared_experts": 1,
        "first_k_dense_replace": 1,
        "sliding_window_pattern": 2,
        "logit_scale": 0.5,
        "prefix_dense_intermediate_size": 40,
        "tie_word_embeddings": True,
    },
    "cohere2_moe-sigmoid": SMALL
    | {
        "model_type": "cohere2_moe",
        "head_dim": 8,
        "num_experts": 4,
        "num_shared_experts": 1,
        "logit_scale": 0.5,
        "sliding_window": 6,
        "shared_expert_combination_strategy": "sum",
        "expert_selection_fn": "sigmoid",
        "rms_norm_eps": 1e-6,
        "norm_topk_prob": False,
        "tie_word_embeddings": True,
    },
    "mellum": SMALL
    | EXPERTS
    | {
        "model_type": "mellum",
        "head_dim": 12,
        "num_hidden_layers": 3,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "mlp_layer_types": ["sparse", "dense", "sparse"],
    },
    "hy_v3": SMALL | EXPERTS | {"model_type": "hy_v3", "head_dim": 12, "num_hidden_layers": 3, "num_shared_experts": 2},
    "glm4_moe_lite": DEEPSEEK
    | {
        "model_type": "glm4_moe_lite",
        "n_shared_experts": 1,
        "mlp_layer_types": ["dense", "sparse"],
        "norm_topk_prob": True,
    },
    "minimax": SMALL
    | {
        "model_type": "minimax",
        "num_hidden_layers": 3,
        "num_local_experts": 4,
        "block_size": 4,
        # transformers counts positions by the first layer's keys.
        "layer_types": ["full_attention", "linear_attention", "linear_attention"],
        "full_attn_alpha_factor": 1.4,
        "linear_attn_alpha_factor": 1.3,
        "mlp_alpha_factor": 1.2,
        "mlp_beta_factor": 0.9,
    },
    "minimax_m2": SMALL
    | {
        "model_type": "minimax_m2",
        "head_dim": 12,
        "rotary_dim": 6,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "lfm2_moe": SMALL
    | EXPERTS
    | {
        "model_type": "lfm2_moe",
        "layer_types": ["conv", "full_attention"],
        "num_dense_layers": 1,
    },
    "olmo_hybrid": SMALL
    | {
        "model_type": "olmo_hybrid",
        "num_hidden_layers": 3,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 12,
        "linear_value_head_dim": 16,
    },
    "olmo_hybrid-bare": SMALL
    | {
        "model_type": "olmo_hybrid",
        "num_hidden_layers": 2,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_allow_neg_eigval": False,
        "rope_parameters": {"rope_theta": None, "rope_type": "default"},
    },
    "granite_swa": SMALL
    | GRANITE
    | {
        "model_type": "granite_swa",
        "num_hidden_layers": 3,
        "sliding_window": 6,
        "layer_rope_theta": [0, 500.0, 10000.0],
    },
    "granitemoe_swa": SMALL
    | GRANITE
    | {
        "model_type": "granitemoe_swa",
        "num_hidden_layers": 2,
        "sliding_window": 6,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 24,
    },
    "based": SMALL
    | {
        "model_type": "based",
        "num_hidden_layers": 3,
        "num_key_value_heads": SMALL["num_attention_heads"],
        "alt_mixer_layers": [1],
        "alt_mixer_2_layers": [2],
        "feature_dim": 3,
        "feature_heads": 2,
        "window_size": 12,
        "conv_width": 3,
        "expand": 4,
        "tie_word_embeddings": True,
    },
    "lfm3": SMALL
    | {
        "model_type": "lfm3",
        "num_hidden_layers": 4,
        "head_dim": 16,
        "sliding_window": 6,
        "conv_L_cache": 4,
        "layer_types": ["conv", "sliding_attention", "full_attention", "conv"],
        "tie_word_embeddings": True,
    },
    "kolibri1": {name: value for name, value in SMALL.items() if name != "intermediate_size"}
    | EXPERTS
    | {
        "model_type": "kolibri1",
        "head_dim": 12,
        "sliding_window": 6,
        "shared_expert_intermediate_size": 20,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "flint": SMALL
    | EXPERTS
    | {
        "model_type": "flint",
        "head_dim": 12,
        "sliding_window": 6,
        "shared_expert_intermediate_size": 20,
        "layer_types": ["sliding_attention", "full_attention"],
        "mlp_only_layers": [0],
    },
    "diffllama": SMALL | {"model_type": "diffllama"},
    "doge": SMALL | {"model_type": "doge"},
    "apertus1p5": SMALL | {"model_type": "apertus1p5_text", "vocab_size": 100, "output_vocab_size": 96},
    "gpt_neox_japanese": {
        "model_type": "gpt_neox_japanese",
        "vocab_size": 96,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_multiple_size": 2,
        "max_position_embeddings": 128,
    },
    "lara_mini": {name: value for name, value in SMALL.items() if name != "intermediate_size"}
    | EXPERTS
    | {
        "model_type": "lara_mini",
        "num_hidden_layers": 3,
        "head_dim": 12,
        "layer_types": ["linear_attention", "sliding_attention", "full_attention"],
        "sliding_window": 6,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 12,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "shared_expert_intermediate_size": 20,
    },
    "dory": SMALL
    | {
        "model_type": "dory",
        "num_hidden_layers": 4,
        "n_input_layers": 1,
        "n_output_layers": 1,
        "n_recurrent_loops": 2,
        "head_dim": 12,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "initializer_range": 0.5,
    },
    "hrm_text": SMALL
    | {
        "model_type": "hrm_text",
        "num_key_value_heads": 4,
        "head_dim": 12,
        "L_cycles": 2,
        "initializer_range": 0.2,
        "rms_norm_eps": 1e-4,
    },
    "zaya": {name: value for name, value in SMALL.items() if name != "intermediate_size"}
    | {
        "model_type": "zaya",
        "num_hidden_layers": 3,
        "head_dim": 8,
        "num_experts": 4,
        "moe_intermediate_size": 24,
        "router_hidden_size": 10,
        "cca_time0": 3,
        "attention_bias": True,
        "sliding_window": 6,
        "layer_types": ["hybrid", "hybrid_sliding", "hybrid"],
    },
    "zamba": SMALL
    | {
        "model_type": "zamba",
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
        "attention_head_dim": 16,
        "mamba_d_state": 8,
        "mamba_dt_rank": 5,
        "tie_word_embeddings": True,
    },
    "xlstm": {
        "model_type": "xlstm",
        "vocab_size": 96,
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_heads": 4,
        "ffn_proj_factor": 0.5,
        "chunk_size": 16,
    },
}

# Those that GGUF files can say, with the fields that must be others for that.
IN_GGUF: dict[str, dict[str, Any]] = {
    **dict.fromkeys([
        "llama", "llama-tied", "llama3", "qwen3", "gemma", "phi3", "phi", "granite", "olmo2", "stablelm", "falcon",
        "falcon-new", "gpt2", "gpt_bigcode", "gpt_bigcode-heads", "gpt_neox", "mixtral",
    ], {}),
    "mistral": {}, "qwen2": {"use_sliding_window": False}, "qwen3_moe": {"use_sliding_window": False},
    "qwen2_moe": {"mlp_only_layers": [], "use_sliding_window": False, "sliding_window": 0},
    "gemma2": {"query_pre_attn_scalar": 12, "final_logit_softcapping": 5.0},
    "gemma3": {"query_pre_attn_scalar": 12, "layer_types": None},
    "smollm3": {"no_rope_layers": [1, 1]}, "starcoder2": {}, "granite_swa": {"layer_rope_theta": [0, 1e4, 1e4]},
    "granitemoe_swa": {},
    "deepseek_v2-lite": {}, "glm": {}, "glm4": {}, "olmoe": {"clip_qkv": None},
    "deepseek_v3": {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32,
                                     "mscale": 0.7, "mscale_all_dim": 0.7}},
    **dict.fromkeys(["bloom", "mpt", "mpt-clip", "cohere", "nemotron", "olmo",
                     "olmo-clip", "granitemoe", "granitemoe-shared"], {}),
    "cohere-norms": {"tie_word_embeddings": True}, "cohere2": {"sliding_window_pattern": 4},
    **dict.fromkeys(["olmo3", "exaone4", "seed_oss", "ernie4_5", "arcee"], {}),
    "lfm2": {}, "gpt_oss": {}, "gpt_oss-yarn": {"attention_bias": True, "swiglu_limit": 7.0},
    "mamba": {}, "mamba-biases": {}, "mamba2": {}, "rwkv6": {}, "rwkv7": {},
    **dict.fromkeys(["dbrx", "exaone", "internlm3", "jais2"], {}),
    "falcon_mamba": {"mixer_rms_eps": 1e-5}, "glm4_moe": {},
    "dots1": {"sliding_window": None, "attention_bias": False}, "minimax_m2": {},
    "minimax": {"full_attn_alpha_factor": 1.2, "linear_attn_alpha_factor": 1.2, "mlp_beta_factor": 1.0},
    "lfm2_moe": {}, "gemma4": {}, "mimo_v2_flash": {}, "laguna": {},
    "laguna-wide": {"moe_router_logit_softcapping": 0.0},
    "bitnet": {"hidden_act": "silu"}, "qwen3_5_moe": {},
    "gemma4-experts": {},
    "qwen3_next": {"mlp_only_layers": []}, "afmoe": {"global_attn_every_n_layers": 4},
    "youtu": {}, "solar_open": {}, "deepseek_v32-sparse": {}, "glm_moe_dsa-sparse": {}, "mistral4": {},
    "granitemoehybrid": {}, "granitemoehybrid-dense": {"intermediate_size": 24},
    "falcon_h1-norm": {"mamba_norm_before_gate": False},
    "jamba": {"mamba_proj_bias": False}, "minicpm3": {"scale_emb": 12.0, "scale_depth": 1.4, "dim_model_base": 256},
    "phimoe": {"router_jitter_noise": 0.01, "rope_scaling": LONGROPE | {"short_mscale": 1.2, "long_mscale": 1.2}},
    "gemma3n": {"altup_num_inputs": 4, "final_logit_softcapping": 30.0},
}  # fmt: skip
# Those that the tests run with their weights in block types, and on another device.
QUANTISED = list(CONFIGS)
# Weights that change by 0.4 % change the logits of these by 4 to 8 %: their keys are vectors of length 1, or a state
# remembers that another expert was chosen. Gemma 4 does not scale the scores of normalised queries and keys. The blocks
# of Zamba 2 have no residuals. Laguna chooses other experts.
SENSITIVE = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "jamba", "gemma4", "gemma4-experts", "kimi_linear", "zamba2",
             "olmo_hybrid-bare", "minimax", "deepseek_v32-sparse", "glm_moe_dsa-sparse", "laguna",
             "bailing_hybrid", "deepseek_v4")  # fmt: skip
OTHER_DEVICE = [
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi", "phi3", "smollm3", "granite", "olmo2",
    "falcon-alibi", "gpt2", "gpt_bigcode", "gpt_neox", "stablelm-parallel", "starcoder2", "mixtral", "qwen2_moe",
    "qwen3_moe", "deepseek_v2", "deepseek_v3", "glm4", "olmoe", "mamba", "falcon_mamba", "mamba2",
    "opt-350m", "bloom-post", "mpt-clip", "gptj", "codegen", "cohere-norms", "cohere2", "nemotron",
    "gpt_oss", "granitemoe-shared", "olmo-clip", "lfm2", "recurrent_gemma",
    "olmo3", "exaone4-windows", "seed_oss", "ernie4_5", "arcee",
    "glm_moe_dsa-sparse",
    "qwen3_next", "qwen3_5_moe", "granitemoehybrid", "falcon_h1", "rwkv", "rwkv6", "rwkv7", "gemma3n", "jamba",
    "nemotron_h", "apertus",
    "phimoe", "hunyuan-moe", "gemma4", "based", "deepseek_v4", "zaya", "bailing_hybrid", "hrm_text",
]  # fmt: skip
