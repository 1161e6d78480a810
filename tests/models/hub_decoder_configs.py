"""Small configurations of decoders that llama.cpp knows, as their own folders on the hub have them: config.json, and
the names and shapes of the tensors (FILES). In a name {} is the number of a layer, [] that of an expert.
"""

from __future__ import annotations

import re
from typing import Any

V, D, F, E = 96, 32, 48, 24  # words; features of tokens, of feed-forward parts and of experts
Q, KV = 32, 16  # features of all queries (4 heads), and of all keys
SMALL = {
    "vocab_size": V, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": E}
LAYER_COUNTS = ("num_hidden_layers", "num_transformer_layers", "n_layer", "n_layers")
EXPERT_COUNTS = ("num_experts", "n_routed_experts", "moe_num_experts", "moe_num_primary_experts", "num_local_experts")
LAYER = "model.layers.{}."
KEPT_LAYERS = 2  # of whose tensors golden files have something

Shapes = dict[str, tuple[int, ...]]


def attention(queries: int = Q, keys: int = KV, bias: str = "") -> Shapes:
    """Llama's projections of attention; `bias`: of which of them there are biases, such as "qkv"."""
    found: Shapes = {f"{LAYER}self_attn.{part}_proj.weight": (queries if part == "q" else keys, D) for part in "qkv"}
    found[f"{LAYER}self_attn.o_proj.weight"] = (D, queries)
    return found | {
        f"{LAYER}self_attn.{part}_proj.bias": ({"q": queries, "o": D}.get(part, keys),) for part in bias
    }  # fmt: skip


def gated(path: str, inner: int, names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")) -> Shapes:
    """A gated feed-forward part."""
    gate, up, down = (f"{LAYER}{path}.{name}.weight" for name in names)
    return {gate: (inner, D), up: (inner, D), down: (D, inner)}


OUTER: Shapes = {"model.embed_tokens.weight": (V, D), "model.norm.weight": (D,), "lm_head.weight": (V, D)}
NORMS: Shapes = {f"{LAYER}input_layernorm.weight": (D,), f"{LAYER}post_attention_layernorm.weight": (D,)}
BIASES: Shapes = {name.replace(".weight", ".bias"): shape for name, shape in NORMS.items()}
HEAD_NORMS: Shapes = {f"{LAYER}self_attn.q_norm.weight": (8,), f"{LAYER}self_attn.k_norm.weight": (8,)}
LLAMA = OUTER | NORMS | attention() | gated("mlp", F)
MIXTURE = gated("mlp.experts.[]", E) | gated("mlp.shared_experts", E)


def expanded(name: str) -> Shapes:
    """The tensors of a folder."""
    config, found = CONFIGS[name], {}
    layers = next(config[key] for key in LAYER_COUNTS if key in config)
    experts = next((config[key] for key in EXPERT_COUNTS if key in config), 0)
    chosen = ONLY.get(name, {})
    for pattern, shape in FILES[name].items():
        part = next((kept for place, kept in chosen.items() if place in pattern), None)
        for layer in range(layers) if "{}" in pattern else [0]:
            if part is not None and layer not in part:
                continue
            for expert in range(experts) if "[]" in pattern else [0]:
                found[pattern.replace("{}", str(layer)).replace("[]", str(expert))] = shape
    return found


def layer_of(tensor: str) -> int:
    """The number of the layer of a GGUF file's tensor; 0 for those of the whole model."""
    found = re.match(r"blk\.(\d+)\.", tensor)
    return 0 if found is None else int(found[1])


CONFIGS: dict[str, dict[str, Any]] = {
    "nanbeige": SMALL | {"model_type": "nanbeige", "architectures": ["NanbeigeForCausalLM"], "num_loops": 2},
    "step3p5": {name: value for name, value in SMALL.items() if name != "num_key_value_heads"}
    | {
        "model_type": "step3p5",
        "architectures": ["Step3p5ForCausalLM"],
        "num_hidden_layers": 3,
        "num_attention_groups": 2,
        "head_dim": 8,
        "attention_other_setting": {"num_attention_heads": 6, "num_attention_groups": 2, "head_dim": 8},
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "partial_rotary_factors": [0.5, 1.0, 1.0],
        "rope_theta": [50000.0, 10000.0, 10000.0],
        "sliding_window": 6,
        "moe_layers_enum": "1,2",
        "moe_num_experts": 4,
        "moe_top_k": 2,
        "moe_intermediate_size": E,
        "share_expert_dim": E,
        "moe_router_scaling_factor": 1.5,
        "norm_expert_weight": True,
        "swiglu_limits": [0.0, 0.0, 0.05],
        "swiglu_limits_shared": [0.0, 0.1, 0.0],
    },
    "maincoder": SMALL | {"model_type": "maincoder", "architectures": ["MaincoderForCausalLM"], "head_dim": 8},
    "plamo2": SMALL
    | {
        "model_type": "plamo2",
        "architectures": ["Plamo2ForCausalLM"],
        "num_hidden_layers": 3,
        "hidden_size_per_head": 8,
        "mamba_num_heads": 4,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_step": 2,
        "mamba_enabled": True,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
    },
    "plamo3": SMALL
    | {
        "model_type": "plamo3",
        "architectures": ["Plamo3ForCausalLM"],
        "num_hidden_layers": 3,
        "head_dim": 8,
        "window_size": 6,
        "sliding_window_pattern": 2,
        "rope_theta": 1e6,
        "rope_local_theta": 1e4,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
    },
    "glm_moe_dsa": SMALL
    | {
        "model_type": "glm_moe_dsa",
        "architectures": ["GlmMoeDsaForCausalLM"],
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "moe_intermediate_size": E,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 1.5,
        "norm_topk_prob": True,
        "first_k_dense_replace": 1,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "q_lora_rank": 20,
        "kv_lora_rank": 12,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 6,
        "index_topk": 4,
        "index_n_heads": 8,
        "index_head_dim": 64,
        "indexer_types": ["full", "shared", "full"],
        "tie_word_embeddings": False,
    },
    "minimax_text_01": SMALL
    | {
        "model_type": "minimax_text_01",
        "architectures": ["MiniMaxText01ForCausalLM"],
        "num_hidden_layers": 8,
        "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1],
        "head_dim": 8,
        "rotary_dim": 4,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "rms_norm_eps": 1e-6,
        "postnorm": True,
        "shared_intermediate_size": 0,
        **{f"layernorm_{part}_alpha": 1.25 for part in ("full_attention", "linear_attention", "mlp")},
        **{f"layernorm_{part}_beta": 1.0 for part in ("full_attention", "linear_attention", "mlp")},
    },
    "cohere2_moe": {
        **SMALL,
        "model_type": "cohere2_moe",
        "architectures": ["Cohere2MoeForCausalLM"],
        "head_dim": 8,
        "num_hidden_layers": 4,
        "sliding_window": 6,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "num_shared_experts": 1,
        "first_k_dense_replace": 1,
        "prefix_dense_intermediate_size": 40,
        "logit_scale": 0.5,
        "norm_topk_prob": True,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "expert_selection_fn": "sigmoid",
        "tie_word_embeddings": True,
    },
    "mellum": SMALL
    | EXPERTS
    | {
        "model_type": "mellum",
        "architectures": ["MellumForCausalLM"],
        "head_dim": 8,
        "num_hidden_layers": 4,
        "sliding_window": 6,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "norm_topk_prob": True,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    "hy_v3": SMALL
    | EXPERTS
    | {
        "model_type": "hy_v3",
        "architectures": ["HYV3ForCausalLM"],
        "head_dim": 8,
        "num_hidden_layers": 3,
        "num_shared_experts": 1,
        "router_scaling_factor": 1.5,
        "first_k_dense_replace": 1,
    },
    "jais": {
        "model_type": "jais",
        "architectures": ["JAISLMHeadModel"],
        "vocab_size": V,
        "n_embd": D,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 128,
        "n_inner": F,
        "activation_function": "swiglu",
        "layer_norm_epsilon": 1e-5,
        "position_embedding_type": "alibi",
        "scale_attn_weights": True,
        "mup_embeddings_scale": 3.0,
        "mup_output_alpha": 2.0,
        "mup_width_scale": 0.75,
        "mup_scale_qk_dot_by_d": True,
    },
    "llada": {
        "model_type": "llada",
        "architectures": ["LLaDAModelLM"],
        "d_model": D,
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 4,
        "mlp_hidden_size": F,
        "max_sequence_length": 128,
        "vocab_size": V,
        "embedding_size": V,
        "weight_tying": False,
        "rope_theta": 500000.0,
        "rms_norm_eps": 1e-5,
        "activation_type": "silu",
        "block_type": "llama",
        "rope": True,
        "alibi": False,
        "include_bias": False,
        "include_qkv_bias": False,
        "layer_norm_type": "rms",
        "mlp_ratio": 4,
        "multi_query_attention": None,
        "mask_token_id": V - 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    },
    "llada_moe": SMALL
    | {
        "model_type": "llada",
        "architectures": ["LLaDAMoEModelLM"],
        "num_key_value_heads": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "expert_intermediate_size": E,
        "dense_intermediate_size": 2 * F,
        "shared_expert_intermediate_size": None,
        "norm_topk_prob": None,
        "qk_layernorm": True,
        "moe_layer_freq": [1, 1],
        "moe_router_score_function": "softmax",
        "mask_token_id": V - 1,
    },
    "dream": SMALL | {"model_type": "Dream", "architectures": ["DreamModel"], "mask_token_id": V - 1},
    "rnd1": SMALL
    | EXPERTS
    | {"model_type": "rnd1", "architectures": ["RND1"], "head_dim": 8, "norm_topk_prob": True, "mask_token_id": V - 1},
    "internlm2": SMALL
    | {"model_type": "internlm2", "architectures": ["InternLM2ForCausalLM"], "bias": False, "rope_theta": 1e6},
    "xverse": SMALL | {"model_type": "xverse", "architectures": ["XverseForCausalLM"], "num_key_value_heads": 4},
    "orion": SMALL | {"model_type": "orion", "architectures": ["OrionForCausalLM"]},
    "baichuan-7b": SMALL
    | {
        "model_type": "baichuan",
        "architectures": ["BaichuanForCausalLM"],
        "num_key_value_heads": 4,
        "num_hidden_layers": 32,
    },
    "baichuan-13b": SMALL
    | {
        "model_type": "baichuan",
        "architectures": ["BaichuanForCausalLM"],
        "num_key_value_heads": 4,
        "num_hidden_layers": 40,
        "model_max_length": 128,
    },
    "qwen": SMALL
    | {
        "model_type": "qwen",
        "architectures": ["QWenLMHeadModel"],
        "num_key_value_heads": 4,
        "layer_norm_epsilon": 1e-6,
        "rms_norm_eps": 1e-6,
        "seq_length": 128,
        "intermediate_size": 2 * F,
    },
    "minicpm": SMALL
    | {
        "model_type": "minicpm",
        "architectures": ["MiniCPMForCausalLM"],
        "scale_emb": 3,
        "scale_depth": 1.4,
        "dim_model_base": 8,
    },
    "ernie4_5_moe": SMALL
    | {
        "model_type": "ernie4_5_moe",
        "architectures": ["Ernie4_5_MoeForCausalLM"],
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_intermediate_size": 12,
        "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1,
        "moe_layer_end_index": -1,
        "moe_layer_interval": 1,
    },
    "hunyuan_v1_dense": SMALL
    | {
        "model_type": "hunyuan_v1_dense",
        "architectures": ["HunYuanDenseV1ForCausalLM"],
        "head_dim": 8,
        "max_position_embeddings": 32768,
        "rope_scaling": {"type": "dynamic", "alpha": 50.0, "factor": 1.0},
    },
    "hunyuan_v1_moe": SMALL
    | {
        "model_type": "hunyuan_v1_moe",
        "architectures": ["HunYuanMoEV1ForCausalLM"],
        "num_experts": 4,
        "moe_topk": [2, 2],
        "intermediate_size": E,
        "moe_intermediate_size": [E, E],
        "num_shared_expert": [1, 1],
    },
    "bailing_moe": SMALL
    | EXPERTS
    | {
        "model_type": "bailing_moe",
        "architectures": ["BailingMoeForCausalLM"],
        "num_shared_experts": 2,
        "first_k_dense_replace": 0,
        "norm_topk_prob": True,
        "norm_head": True,
        "head_dim": 8,
    },
    "bailing_moe_v2": SMALL
    | EXPERTS
    | {
        "model_type": "bailing_moe_v2",
        "architectures": ["BailingMoeV2ForCausalLM"],
        "num_shared_experts": 1,
        "num_experts": 8,
        "first_k_dense_replace": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "score_function": "sigmoid",
        "n_group": 4,
        "topk_group": 2,
        "partial_rotary_factor": 0.5,
        "use_qk_norm": True,
        "moe_shared_expert_intermediate_size": 20,
    },
    "exaone_moe": SMALL
    | EXPERTS
    | {
        "model_type": "exaone_moe",
        "architectures": ["ExaoneMoEForCausalLM"],
        "num_hidden_layers": 4,
        "num_shared_experts": 1,
        "first_k_dense_replace": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "sliding_window": 6,
        "sliding_window_pattern": "LLLG",
    },
    "nemotron_h": SMALL
    | {
        "model_type": "nemotron_h",
        "architectures": ["NemotronHForCausalLM"],
        "hybrid_override_pattern": "M-*-",
        "num_hidden_layers": 4,
        "head_dim": 8,
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "n_groups": 2,
        "ssm_state_size": 16,
        "conv_kernel": 4,
        "expand": 1,
        "chunk_size": 4,
        "layer_norm_epsilon": 1e-5,
    },
    "nemotron_h_moe": SMALL
    | {
        "model_type": "nemotron_h",
        "architectures": ["NemotronHForCausalLM"],
        "hybrid_override_pattern": "ME*E",
        "num_hidden_layers": 4,
        "head_dim": 8,
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "n_groups": 2,
        "ssm_state_size": 16,
        "conv_kernel": 4,
        "expand": 1,
        "chunk_size": 4,
        "layer_norm_epsilon": 1e-5,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "moe_intermediate_size": E,
        "moe_shared_expert_intermediate_size": 20,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "n_group": 1,
        "topk_group": 1,
    },
    "ministral3": SMALL
    | {
        "model_type": "ministral3",
        "architectures": ["Ministral3ForCausalLM"],
        "head_dim": 12,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 16.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 8,
            "llama_4_scaling_beta": 0.1,
        },
    },
    "nemotron-nas": SMALL
    | {
        "model_type": "nemotron-nas",
        "architectures": ["DeciLMForCausalLM"],
        "num_hidden_layers": 4,
        "num_key_value_heads": None,
        "intermediate_size": None,
        "block_configs": [
            {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 12.0}},
            {"attention": {"n_heads_in_group": None, "replace_with_linear": True}, "ffn": {"ffn_mult": 12.0}},
            {"attention": {"n_heads_in_group": None, "replace_with_linear": False}, "ffn": {"ffn_mult": 18.0}},
            {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 12.0}},
        ],
    },
    "openelm": {
        "model_type": "openelm",
        "architectures": ["OpenELMForCausalLM"],
        "vocab_size": V,
        "model_dim": D,
        "num_transformer_layers": 2,
        "head_dim": 8,
        "num_query_heads": [4, 6],
        "num_kv_heads": [2, 3],
        "ffn_multipliers": [1.0, 2.0],
        "ffn_dim_divisor": 32,
        "max_context_length": 128,
        "rope_freq_constant": 10000,
        "share_input_output_layers": True,
    },
    "smallthinker": SMALL
    | {
        "model_type": "smallthinker",
        "architectures": ["SmallThinkerForCausalLM"],
        "head_dim": 12,
        "moe_ffn_hidden_size": E,
        "moe_num_primary_experts": 4,
        "moe_num_active_primary_experts": 2,
        "moe_primary_router_apply_softmax": False,
        "rope_layout": [0, 1],
        "sliding_window_layout": [0, 1],
        "sliding_window_size": 4096,
    },
    "kimi_linear": SMALL
    | {
        "model_type": "kimi_linear",
        "architectures": ["KimiLinearForCausalLM"],
        "num_key_value_heads": 4,
        "moe_intermediate_size": E,
        "num_experts": 4,
        "num_experts_per_token": 2,
        "num_shared_experts": 1,
        "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid",
        "routed_scaling_factor": 2.446,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 12,
        "q_lora_rank": None,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 6,
        "model_max_length": 128,
        "linear_attn_config": {
            "full_attn_layers": [2],
            "kda_layers": [1],
            "head_dim": 8,
            "num_heads": 4,
            "short_conv_kernel_size": 4,
        },
    },
    "pangu": SMALL | {"model_type": "PanguEmbedded", "architectures": ["PanguEmbeddedForCausalLM"], "bias": True},
    "apertus": SMALL
    | {
        "model_type": "apertus",
        "architectures": ["ApertusForCausalLM"],
        "hidden_act": "xielu",
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "original_max_position_embeddings": 32,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    },
    "llama4": SMALL
    | {
        "model_type": "llama4_text",
        "architectures": ["Llama4ForCausalLM"],
        "num_hidden_layers": 4,
        "head_dim": 8,
        "intermediate_size": E,
        "intermediate_size_mlp": F,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "interleave_moe_layer_step": 2,
        "attention_chunk_size": 8192,
    },
    "deepseek": SMALL
    | {
        "model_type": "deepseek",
        "architectures": ["DeepseekForCausalLM"],
        "moe_intermediate_size": E,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "norm_topk_prob": False,
    },
    "gpt_refact": {
        "model_type": "gpt_refact",
        "architectures": ["GPTRefactForCausalLM"],
        "vocab_size": V,
        "n_embd": D,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 128,
        "layer_norm_epsilon": 1e-5,
    },
    "arctic": SMALL
    | {
        "model_type": "arctic",
        "architectures": ["ArcticForCausalLM"],
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "intermediate_size": E,
    },
    "plm": SMALL
    | {
        "model_type": "plm",
        "architectures": ["PLMForCausalLM"],
        "num_key_value_heads": 4,
        "kv_lora_rank": 12,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 6,
        "hidden_act": "relu2",
        "tie_word_embeddings": True,
    },
    "codeshell": {
        "model_type": "codeshell",
        "architectures": ["CodeShellForCausalLM"],
        "vocab_size": V,
        "n_embd": D,
        "n_layer": 2,
        "n_head": 4,
        "num_query_groups": 2,
        "n_positions": 128,
        "layer_norm_epsilon": 1e-5,
    },
}
_INTERNLM = {
    "model.tok_embeddings.weight": (V, D), "model.norm.weight": (D,), "output.weight": (V, D),
    f"{LAYER}attention_norm.weight": (D,), f"{LAYER}ffn_norm.weight": (D,),
    f"{LAYER}attention.wqkv.weight": (Q + 2 * KV, D), f"{LAYER}attention.wo.weight": (D, Q),
} | gated("feed_forward", F, ("w1", "w3", "w2"))  # fmt: skip
_BAICHUAN = (
    OUTER
    | NORMS
    | gated("mlp", F)
    | {f"{LAYER}self_attn.W_pack.weight": (3 * Q, D), f"{LAYER}self_attn.o_proj.weight": (D, Q)}
)
_BAILING = {
    "model.word_embeddings.weight": (V, D), "model.norm.weight": (D,), "lm_head.weight": (V, D),
    f"{LAYER}attention.query_key_value.weight": (Q + 2 * KV, D), f"{LAYER}attention.dense.weight": (D, Q),
} | NORMS  # fmt: skip
_NEMOTRON = {
    "backbone.embeddings.weight": (V, D), "backbone.norm_f.weight": (D,), "lm_head.weight": (V, D),
    "backbone.layers.{}.norm.weight": (D,),
    "backbone.layers.{}.mixer.in_proj.weight": (2 * 64 + 2 * 2 * 16 + 4, D),
    "backbone.layers.{}.mixer.conv1d.weight": (64 + 2 * 2 * 16, 1, 4),
    "backbone.layers.{}.mixer.conv1d.bias": (64 + 2 * 2 * 16,), "backbone.layers.{}.mixer.A_log": (4,),
    "backbone.layers.{}.mixer.D": (4,), "backbone.layers.{}.mixer.dt_bias": (4,),
    "backbone.layers.{}.mixer.norm.weight": (64,), "backbone.layers.{}.mixer.out_proj.weight": (D, 64),
    "backbone.layers.{}.mixer.q_proj.weight": (Q, D), "backbone.layers.{}.mixer.k_proj.weight": (KV, D),
    "backbone.layers.{}.mixer.v_proj.weight": (KV, D), "backbone.layers.{}.mixer.o_proj.weight": (D, Q),
}  # fmt: skip
_MIXER = ("mixer.in_proj", "mixer.conv1d", "mixer.A_log", "mixer.D", "mixer.dt_bias", "mixer.norm", "mixer.out_proj")
_HEADS = ("mixer.q_proj", "mixer.k_proj", "mixer.v_proj", "mixer.o_proj")
_PLAMO: Shapes = {
    "model.embed_tokens.weight": (V, D),
    "model.norm.weight": (D,),
    "model.layers.layers.{}.mixer.qkv_proj.weight": (Q + 2 * KV, D),
    "model.layers.layers.{}.mixer.o_proj.weight": (D, Q),
    "model.layers.layers.{}.mlp.gate_up_proj.weight": (2 * F, D),
    "model.layers.layers.{}.mlp.down_proj.weight": (D, F),
    **{
        f"model.layers.layers.{{}}.{place}_norm.weight": (D,)
        for place in ("pre_mixer", "post_mixer", "pre_mlp", "post_mlp")
    },
}
FILES: dict[str, Shapes] = {
    "nanbeige": LLAMA,
    "step3p5": OUTER
    | NORMS
    | {
        f"model.layers.{layer}.{name}.weight": shape
        for layer, heads in enumerate((4, 6, 6))
        for name, shape in {
            "self_attn.q_proj": (8 * heads, D),
            "self_attn.k_proj": (KV, D),
            "self_attn.v_proj": (KV, D),
            "self_attn.o_proj": (D, 8 * heads),
            "self_attn.g_proj": (heads, D),
            "self_attn.q_norm": (8,),
            "self_attn.k_norm": (8,),
            **(
                {
                    "moe.gate": (4, D),
                    "moe.gate_proj": (4, E, D),
                    "moe.up_proj": (4, E, D),
                    "moe.down_proj": (4, D, E),
                    "share_expert.gate_proj": (E, D),
                    "share_expert.up_proj": (E, D),
                    "share_expert.down_proj": (D, E),
                }
                if layer
                else {"mlp.gate_proj": (F, D), "mlp.up_proj": (F, D), "mlp.down_proj": (D, F)}
            ),
        }.items()
    }
    | {f"model.layers.{layer}.moe.router_bias": (4,) for layer in (1, 2)},
    "maincoder": LLAMA | HEAD_NORMS,
    "plamo2": _PLAMO
    | {
        "model.layers.layers.{}.mixer.q_weight": (4, 8),
        "model.layers.layers.{}.mixer.k_weight": (2, 8),
        "model.layers.layers.{}.mixer.in_proj.weight": (64, D),
        "model.layers.layers.{}.mixer.conv1d.weight": (32, 1, 4),
        "model.layers.layers.{}.mixer.bcdt_proj.weight": (96, 32),
        "model.layers.layers.{}.mixer.dt_proj.weight": (4, 64),
        "model.layers.layers.{}.mixer.out_proj.weight": (D, 32),
        **{f"model.layers.layers.{{}}.mixer.{part}": (4,) for part in ("dt_bias", "A_log", "D")},
        "model.layers.layers.{}.mixer.dt_norm_weight": (64,),
        "model.layers.layers.{}.mixer.B_norm_weight": (16,),
        "model.layers.layers.{}.mixer.C_norm_weight": (16,),
    },
    "plamo3": _PLAMO
    | {"model.layers.layers.{}.mixer.q_norm.weight": (8,), "model.layers.layers.{}.mixer.k_norm.weight": (8,)},
    "glm_moe_dsa": OUTER
    | NORMS
    | MIXTURE
    | gated("mlp", F)
    | {
        f"{LAYER}mlp.gate.weight": (4, D),
        f"{LAYER}mlp.gate.e_score_correction_bias": (4,),
        f"{LAYER}self_attn.q_a_proj.weight": (20, D),
        f"{LAYER}self_attn.q_a_layernorm.weight": (20,),
        f"{LAYER}self_attn.q_b_proj.weight": (48, 20),
        f"{LAYER}self_attn.kv_a_proj_with_mqa.weight": (16, D),
        f"{LAYER}self_attn.kv_a_layernorm.weight": (12,),
        f"{LAYER}self_attn.kv_b_proj.weight": (56, 12),
        f"{LAYER}self_attn.o_proj.weight": (D, 24),
        f"{LAYER}self_attn.indexer.wq_b.weight": (512, 20),
        f"{LAYER}self_attn.indexer.wk.weight": (64, D),
        f"{LAYER}self_attn.indexer.k_norm.weight": (64,),
        f"{LAYER}self_attn.indexer.k_norm.bias": (64,),
        f"{LAYER}self_attn.indexer.weights_proj.weight": (8, D),
    },
    "cohere2_moe": {name: shape for name, shape in OUTER.items() if name != "lm_head.weight"}
    | {f"{LAYER}input_layernorm.weight": (D,), f"{LAYER}mlp.gate.weight": (4, D)}
    | attention()
    | gated("mlp", 40)
    | gated("mlp.experts.[]", F)
    | gated("mlp.shared_experts", F),
    "jais": {
        "transformer.wte.weight": (V, D),
        "transformer.ln_f.weight": (D,),
        "transformer.ln_f.bias": (D,),
        "lm_head.weight": (V, D),
        **{
            f"transformer.h.{{}}.{name}": shape
            for name, shape in {
                "ln_1.weight": (D,),
                "ln_1.bias": (D,),
                "ln_2.weight": (D,),
                "ln_2.bias": (D,),
                "attn.c_attn.weight": (D, 3 * D),
                "attn.c_attn.bias": (3 * D,),
                "attn.c_proj.weight": (D, D),
                "attn.c_proj.bias": (D,),
                "mlp.c_fc.weight": (D, F),
                "mlp.c_fc.bias": (F,),
                "mlp.c_fc2.weight": (D, F),
                "mlp.c_fc2.bias": (F,),
                "mlp.c_proj.weight": (F, D),
                "mlp.c_proj.bias": (D,),
            }.items()
        },
    },
    "mellum": OUTER
    | NORMS
    | attention()
    | HEAD_NORMS
    | {f"{LAYER}mlp.gate.weight": (4, D)}
    | gated("mlp.experts.[]", E),
    "hy_v3": OUTER
    | NORMS
    | attention()
    | HEAD_NORMS
    | gated("mlp", F)
    | {f"{LAYER}mlp.router.gate.weight": (4, D), f"{LAYER}mlp.expert_bias": (4,)}
    | gated("mlp.experts.[]", E)
    | gated("mlp.shared_mlp", E),
    "minimax_text_01": OUTER
    | NORMS
    | attention()
    | {
        f"{LAYER}self_attn.qkv_proj.weight": (3 * Q, D),
        f"{LAYER}self_attn.out_proj.weight": (D, Q),
        f"{LAYER}self_attn.output_gate.weight": (Q, D),
        f"{LAYER}self_attn.norm.weight": (Q,),
        f"{LAYER}block_sparse_moe.gate.weight": (4, D),
    }
    | gated("block_sparse_moe.experts.[]", F, ("w1", "w3", "w2")),
    "llada": {
        f"model.transformer.{name}": shape
        for name, shape in {
            "wte.weight": (V, D),
            "ln_f.weight": (D,),
            "ff_out.weight": (V, D),
            "blocks.{}.attn_norm.weight": (D,),
            "blocks.{}.ff_norm.weight": (D,),
            **{f"blocks.{{}}.{part}_proj.weight": (Q, D) for part in "qkv"},
            "blocks.{}.attn_out.weight": (D, Q),
            "blocks.{}.ff_proj.weight": (F, D),
            "blocks.{}.up_proj.weight": (F, D),
            "blocks.{}.ff_out.weight": (D, F),
        }.items()
    },
    "llada_moe": OUTER
    | NORMS
    | attention(keys=Q)
    | HEAD_NORMS
    | {f"{LAYER}mlp.gate.weight": (4, D)}
    | gated("mlp.experts.[]", E),
    "dream": OUTER | NORMS | attention(bias="qkv") | gated("mlp", F),
    "rnd1": OUTER | NORMS | attention() | HEAD_NORMS | {f"{LAYER}mlp.gate.weight": (4, D)} | gated("mlp.experts.[]", E),
    "internlm2": _INTERNLM,
    "xverse": OUTER | NORMS | attention(keys=Q) | gated("mlp", F),
    "orion": LLAMA | BIASES | {"model.norm.bias": (D,)},
    "baichuan-7b": _BAICHUAN,
    "baichuan-13b": _BAICHUAN,
    "qwen": {
        "transformer.wte.weight": (V, D),
        "transformer.ln_f.weight": (D,),
        "lm_head.weight": (V, D),
        "transformer.h.{}.ln_1.weight": (D,),
        "transformer.h.{}.ln_2.weight": (D,),
        "transformer.h.{}.attn.c_attn.weight": (3 * Q, D),
        "transformer.h.{}.attn.c_attn.bias": (3 * Q,),
        "transformer.h.{}.attn.c_proj.weight": (D, Q),
        "transformer.h.{}.mlp.w1.weight": (F, D),
        "transformer.h.{}.mlp.w2.weight": (F, D),
        "transformer.h.{}.mlp.c_proj.weight": (D, F),
    },
    "minicpm": LLAMA,
    "ernie4_5_moe": LLAMA
    | gated("mlp.experts.[]", 12)
    | gated("mlp.shared_experts", 24)
    | {f"{LAYER}mlp.gate.weight": (4, D), f"{LAYER}mlp.moe_statics.e_score_correction_bias": (1, 4)},
    "hunyuan_v1_dense": LLAMA
    | {f"{LAYER}self_attn.query_layernorm.weight": (8,), f"{LAYER}self_attn.key_layernorm.weight": (8,)},
    "hunyuan_v1_moe": OUTER
    | NORMS
    | attention()
    | gated("mlp.shared_mlp", E)
    | gated("mlp.experts.[]", E)
    | {
        f"{LAYER}mlp.gate.wg.weight": (4, D),
        f"{LAYER}self_attn.query_layernorm.weight": (8,),
        f"{LAYER}self_attn.key_layernorm.weight": (8,),
    },
    "bailing_moe": _BAILING
    | gated("mlp.experts.[]", E)
    | gated("mlp.shared_experts", 2 * E)
    | {f"{LAYER}mlp.gate.weight": (4, D)},
    "bailing_moe_v2": _BAILING
    | gated("mlp", F)
    | gated("mlp.experts.[]", E)
    | gated("mlp.shared_experts", 20)
    | {
        f"{LAYER}mlp.gate.weight": (8, D),
        f"{LAYER}mlp.gate.expert_bias": (8,),
        f"{LAYER}attention.query_layernorm.weight": (8,),
        f"{LAYER}attention.key_layernorm.weight": (8,),
    },
    "exaone_moe": LLAMA
    | HEAD_NORMS
    | MIXTURE
    | {f"{LAYER}mlp.gate.weight": (4, D), f"{LAYER}mlp.gate.e_score_correction_bias": (4,)},
    "nemotron_h": _NEMOTRON
    | {
        "backbone.layers.{}.mixer.up_proj.weight": (F, D),
        "backbone.layers.{}.mixer.down_proj.weight": (D, F),
    },
    "nemotron_h_moe": _NEMOTRON
    | {
        "backbone.layers.{}.mixer.gate.weight": (4, D),
        "backbone.layers.{}.mixer.gate.e_score_correction_bias": (4,),
        "backbone.layers.{}.mixer.experts.[].up_proj.weight": (E, D),
        "backbone.layers.{}.mixer.experts.[].down_proj.weight": (D, E),
        "backbone.layers.{}.mixer.shared_experts.up_proj.weight": (20, D),
        "backbone.layers.{}.mixer.shared_experts.down_proj.weight": (D, 20),
    },
    "ministral3": OUTER | NORMS | attention(48, 24) | gated("mlp", F),
    "pangu": OUTER | NORMS | attention(bias="qkvo") | gated("mlp", F),
    "apertus": OUTER
    | attention()
    | HEAD_NORMS
    | {
        f"{LAYER}attention_layernorm.weight": (D,),
        f"{LAYER}feedforward_layernorm.weight": (D,),
        f"{LAYER}mlp.up_proj.weight": (F, D),
        f"{LAYER}mlp.down_proj.weight": (D, F),
        f"{LAYER}mlp.act_fn.alpha_p": (1,),
        f"{LAYER}mlp.act_fn.alpha_n": (1,),
        f"{LAYER}mlp.act_fn.beta": (),
        f"{LAYER}mlp.act_fn.eps": (),
    },
    "llama4": OUTER
    | NORMS
    | attention()
    | gated("feed_forward", F)
    | gated("feed_forward.shared_expert", E)
    | {
        f"{LAYER}feed_forward.router.weight": (4, D),
        f"{LAYER}feed_forward.experts.gate_up_proj": (4, D, 2 * E),
        f"{LAYER}feed_forward.experts.down_proj": (4, E, D),
    },
    "deepseek": LLAMA | MIXTURE | {f"{LAYER}mlp.gate.weight": (4, D)},
    "gpt_refact": {
        "transformer.wte.weight": (V, D),
        "ln_f.weight": (D,),
        "lm_head.weight": (V, D),
        "transformer.h.{}.ln_1.weight": (D,),
        "transformer.h.{}.ln_2.weight": (D,),
        "transformer.h.{}.attn.q.weight": (Q, D),
        "transformer.h.{}.attn.kv.weight": (16, D),
        "transformer.h.{}.attn.c_proj.weight": (D, Q),
        "transformer.h.{}.mlp.gate_up_proj.weight": (512, D),
        "transformer.h.{}.mlp.c_proj.weight": (D, 256),
    },
    "arctic": OUTER
    | NORMS
    | attention()
    | gated("residual_mlp", D, ("w1", "w3", "w2"))
    | gated("block_sparse_moe.experts.[]", E, ("w1", "w3", "w2"))
    | {f"{LAYER}block_sparse_moe.gate.weight": (4, D), f"{LAYER}residual_layernorm.weight": (D,)},
    "plm": {
        "model.embed_tokens.weight": (V, D),
        "model.norm.weight": (D,),
        **NORMS,
        f"{LAYER}self_attn.q_proj.weight": (48, D),
        f"{LAYER}self_attn.kv_a_proj_with_mqa.weight": (16, D),
        f"{LAYER}self_attn.kv_a_layernorm.weight": (12,),
        f"{LAYER}self_attn.kv_b_proj.weight": (56, 12),
        f"{LAYER}self_attn.o_proj.weight": (D, 24),
        f"{LAYER}mlp.up_proj.weight": (F, D),
        f"{LAYER}mlp.down_proj.weight": (D, F),
    },
    "codeshell": {
        "transformer.wte.weight": (V, D),
        "lm_head.weight": (V, D),
        **{f"transformer.ln_f.{last}": (D,) for last in ("weight", "bias")},
        **{f"transformer.h.{{}}.ln_{norm}.{last}": (D,) for norm in (1, 2) for last in ("weight", "bias")},
        "transformer.h.{}.attn.c_attn.weight": (Q + 2 * KV, D),
        "transformer.h.{}.attn.c_attn.bias": (Q + 2 * KV,),
        "transformer.h.{}.attn.c_proj.weight": (D, Q),
        "transformer.h.{}.attn.c_proj.bias": (D,),
        "transformer.h.{}.mlp.c_fc.weight": (4 * D, D),
        "transformer.h.{}.mlp.c_fc.bias": (4 * D,),
        "transformer.h.{}.mlp.c_proj.weight": (D, 4 * D),
        "transformer.h.{}.mlp.c_proj.bias": (D,),
    },
    "nemotron-nas": {
        **OUTER,
        **NORMS,
        **attention(),
        f"{LAYER}self_attn.linear_attn.weight": (D, D),
        **{f"model.layers.3.self_attn.{part}_proj.weight": (8, D) for part in "kv"},
        **gated("mlp", 256),
        **{name.replace("{}", "2"): tuple(512 if n == 256 else n for n in s) for name, s in gated("mlp", 256).items()},
    },
    "openelm": {
        "transformer.token_embeddings.weight": (V, D),
        "transformer.norm.weight": (D,),
        "transformer.layers.{}.attn_norm.weight": (D,),
        "transformer.layers.{}.ffn_norm.weight": (D,),
        "transformer.layers.{}.attn.q_norm.weight": (8,),
        "transformer.layers.{}.attn.k_norm.weight": (8,),
        "transformer.layers.0.attn.qkv_proj.weight": (64, D),
        "transformer.layers.1.attn.qkv_proj.weight": (96, D),
        "transformer.layers.0.attn.out_proj.weight": (D, 32),
        "transformer.layers.1.attn.out_proj.weight": (D, 48),
        "transformer.layers.0.ffn.proj_1.weight": (64, D),
        "transformer.layers.1.ffn.proj_1.weight": (128, D),
        "transformer.layers.0.ffn.proj_2.weight": (D, 32),
        "transformer.layers.1.ffn.proj_2.weight": (D, 64),
    },
    "smallthinker": OUTER
    | NORMS
    | attention(48, 24)
    | gated("block_sparse_moe.experts.[]", E, ("gate", "up", "down"))
    | {f"{LAYER}block_sparse_moe.primary_router.weight": (4, D)},
    "kimi_linear": OUTER
    | NORMS
    | gated("mlp", F)
    | gated("block_sparse_moe.experts.[]", E, ("w1", "w3", "w2"))
    | gated("block_sparse_moe.shared_experts", E)
    | {
        f"{LAYER}block_sparse_moe.gate.weight": (4, D),
        f"{LAYER}block_sparse_moe.gate.e_score_correction_bias": (4,),
        **{f"model.layers.0.self_attn.{part}_proj.weight": (32, D) for part in "qkv"},
        **{f"model.layers.0.self_attn.{part}_conv1d.weight": (32, 1, 4) for part in "qkv"},
        "model.layers.0.self_attn.A_log": (1, 1, 4, 1),
        "model.layers.0.self_attn.dt_bias": (32,),
        "model.layers.0.self_attn.f_a_proj.weight": (8, D),
        "model.layers.0.self_attn.f_b_proj.weight": (32, 8),
        "model.layers.0.self_attn.b_proj.weight": (4, D),
        "model.layers.0.self_attn.g_a_proj.weight": (8, D),
        "model.layers.0.self_attn.g_b_proj.weight": (32, 8),
        "model.layers.0.self_attn.o_norm.weight": (8,),
        "model.layers.0.self_attn.o_proj.weight": (D, 32),
        "model.layers.1.self_attn.q_proj.weight": (48, D),
        "model.layers.1.self_attn.kv_a_proj_with_mqa.weight": (16, D),
        "model.layers.1.self_attn.kv_a_layernorm.weight": (12,),
        "model.layers.1.self_attn.kv_b_proj.weight": (56, 12),
        "model.layers.1.self_attn.o_proj.weight": (D, 24),
    },
}
# The layers that have the tensors with a part in their names.
ONLY: dict[str, dict[str, tuple[int, ...]]] = {
    "plamo2": {
        **dict.fromkeys((".qkv_proj.", ".o_proj.", ".q_weight", ".k_weight"), (1,)),
        "_mixer_norm": (0, 1, 2),
        ".mixer.": (0, 2),
    },
    "glm_moe_dsa": {
        ".experts.": (1, 2),
        ".shared_experts.": (1, 2),
        ".gate.": (1, 2),
        ".mlp.": (0,),
        ".indexer.": (0, 2),
    },
    "cohere2_moe": {
        ".experts.": (1, 2, 3),
        ".shared_experts.": (1, 2, 3),
        ".gate.": (1, 2, 3),
        ".mlp.": (0,),
    },
    "hy_v3": {
        ".experts.": (1, 2),
        ".shared_mlp.": (1, 2),
        ".router.": (1, 2),
        ".expert_bias": (1, 2),
        ".mlp.": (0,),
    },
    "minimax_text_01": {
        **dict.fromkeys((".qkv_proj.", ".out_proj.", ".output_gate.", ".self_attn.norm."), tuple(range(7))),
        **dict.fromkeys((".q_proj.", ".k_proj.", ".v_proj.", ".o_proj."), (7,)),
    },
    "ernie4_5_moe": {".experts.": (1,), ".shared_experts.": (1,), ".gate.": (1,), ".moe_statics.": (1,), ".mlp.": (0,)},
    "bailing_moe_v2": {".experts.": (1,), ".shared_experts.": (1,), ".gate.": (1,), ".mlp.": (0,)},
    "exaone_moe": {
        ".experts.": (1, 2, 3),
        ".shared_experts.": (1, 2, 3),
        ".gate.": (1, 2, 3),
        ".mlp.": (0,),
    },
    "nemotron-nas": {
        "{}.self_attn.q": (0, 3),
        "{}.self_attn.k": (0,),
        "{}.self_attn.v": (0,),
        "{}.self_attn.o": (0, 3),
        "self_attn.linear": (1,),
        "input_layernorm": (0, 1, 3),
    },
    "deepseek": {".experts.": (1,), ".shared_experts.": (1,), ".gate.": (1,), ".mlp.": (0,)},
    "llama4": {
        ".experts.": (1, 3),
        ".shared_expert.": (1, 3),
        ".router.": (1, 3),
        ".feed_forward.": (0, 2),
    },
    "kimi_linear": {".block_sparse_moe.": (1,), ".mlp.": (0,)},
    "nemotron_h": dict.fromkeys(_MIXER, (0,)) | dict.fromkeys(_HEADS, (2,)) | {"mixer.": (1, 3)},
    "nemotron_h_moe": dict.fromkeys(_MIXER, (0,)) | dict.fromkeys(_HEADS, (2,)) | {"mixer.": (1, 3)},
}
# llama.cpp rounds GELU to float16.
ROUNDED = {"codeshell": 2e-3}
# Blocks of weights change the logits of these by more: of many layers, one chooses another expert.
SENSITIVE = {"minimax_text_01": 0.3}
# Those that the tests write as GGUF files, and run with weights in block types: all.
IN_GGUF: dict[str, dict[str, Any]] = dict.fromkeys(CONFIGS, {})
QUANTISED = list(CONFIGS)
