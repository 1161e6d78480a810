"""Small configurations of transformers that draw, as config.json has them, and cases of their schedule."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.diffusion_cases import AUTOENCODERS, numbers, text_config
from tests.models.seeded import picture_weights
from tests.text.tokenizer_documents import document, numbered, template, whole_words

_FLUX = {
    "in_channels": 16, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2,
    "joint_attention_dim": 12, "pooled_projection_dim": 8, "axes_dims_rope": [4, 6, 6],
}  # fmt: skip
_SD3 = {
    "sample_size": 8, "patch_size": 2, "in_channels": 4, "out_channels": 4, "num_layers": 2, "attention_head_dim": 8,
    "num_attention_heads": 4, "joint_attention_dim": 12, "caption_projection_dim": 32, "pooled_projection_dim": 15,
    "pos_embed_max_size": 7,
}  # fmt: skip
NETWORKS: dict[str, dict[str, Any]] = {
    "dev": _FLUX | {"guidance_embeds": True},
    "schnell": _FLUX | {"guidance_embeds": False},
    "fill": _FLUX | {"guidance_embeds": True, "in_channels": 48, "out_channels": 16},
    "kontext": _FLUX | {"guidance_embeds": True},
    "sd3": _SD3,
    "sd35": _SD3 | {"qk_norm": "rms_norm", "dual_attention_layers": [0]},
    "zimage": {
        "in_channels": 4,
        "dim": 32,
        "n_layers": 1,
        "n_refiner_layers": 1,
        "n_heads": 2,
        "n_kv_heads": 2,
        "cap_feat_dim": 12,
        "axes_dims": [4, 6, 6],
        "axes_lens": [96, 8, 8],
    },
    "klein": {
        "in_channels": 16, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2,
        "joint_attention_dim": 12, "axes_dims_rope": [4, 4, 4, 4], "guidance_embeds": False,
    },
    "qwen": {
        "in_channels": 16, "out_channels": 4, "num_layers": 2, "attention_head_dim": 16, "num_attention_heads": 2,
        "joint_attention_dim": 12, "axes_dims_rope": [4, 6, 6],
    },
}  # fmt: skip
_CROSSED = {"num_layers": 1, "cross_attention_dim": 32, "caption_channels": 12, "in_channels": 4}
NETWORKS["pixart"] = _CROSSED | {
    "num_attention_heads": 2, "attention_head_dim": 16, "out_channels": 8, "sample_size": 8,
    "use_additional_conditions": False, "interpolation_scale": 2,
}  # fmt: skip
NETWORKS["sana"] = _CROSSED | {
    "out_channels": 4, "num_attention_heads": 4, "attention_head_dim": 8, "num_cross_attention_heads": 2,
    "cross_attention_head_dim": 12, "sample_size": 4, "qk_norm": "rms_norm_across_heads",
}  # fmt: skip
NETWORKS["sana4k"] = NETWORKS["sana"] | {
    "patch_size": 2, "interpolation_scale": 0.5, "out_channels": 8, "qk_norm": None, "attention_bias": True,
    "timestep_scale": 2.0, "mlp_ratio": 1.5,
}  # fmt: skip
NETWORKS["flux2"] = NETWORKS["klein"] | {"guidance_embeds": True}
NETWORKS["edit"], NETWORKS["edit_plus"] = NETWORKS["qwen"], NETWORKS["qwen"] | {"zero_cond_t": True}
TESTED = ("dev", "sd3", "sd35", "zimage", "flux2", "qwen", "pixart", "sana", "sana4k")  # alone, without the other parts
PACKED = ("Flux", "Qwen")  # the beginnings of classes that read latents as a sequence of places
LANGUAGE = {
    "model_type": "qwen3", "vocab_size": 20, "hidden_size": 12, "intermediate_size": 16, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 64,
}  # fmt: skip
LANGUAGES = {  # with enough layers for those that are read, and one that sees pictures
    "zimage": LANGUAGE,
    "klein": LANGUAGE | {
        "hidden_size": 4, "intermediate_size": 8, "head_dim": 2, "num_hidden_layers": 28,
        "max_position_embeddings": 512,
    },
    "flux2": {
        "model_type": "mistral3", "image_token_index": 19, "spatial_merge_size": 2,
        "text_config": {
            "model_type": "mistral", "vocab_size": 20, "hidden_size": 4, "intermediate_size": 8,
            "num_hidden_layers": 31, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2,
            "max_position_embeddings": 512,
        },
        "vision_config": {
            "model_type": "pixtral", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
            "num_attention_heads": 2, "head_dim": 4, "image_size": 16, "patch_size": 2,
        },
    },
    "sana": {
        "model_type": "gemma2", "vocab_size": 20, "hidden_size": 12, "intermediate_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 6, "query_pre_attn_scalar": 6,
        "max_position_embeddings": 512,
    },
    "qwen": {
        "model_type": "qwen2_5_vl", "image_token_id": 19,
        "text_config": {
            "model_type": "qwen2_5_vl_text", "vocab_size": 20, "hidden_size": 12, "intermediate_size": 16,
            "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [1, 1, 1]},
        },
        "vision_config": {
            "model_type": "qwen2_5_vl", "depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 2,
            "out_hidden_size": 12, "patch_size": 2, "window_size": 16, "fullatt_block_indexes": [0],
        },
    },
}  # fmt: skip
LANGUAGES["edit"] = LANGUAGES["edit_plus"] = LANGUAGES["qwen"] | {
    "text_config": LANGUAGES["qwen"]["text_config"] | {"max_position_embeddings": 512},
}  # fmt: skip
EDITS = {"edit": "Edit", "edit_plus": "EditPlus"}  # models that see the picture that they change, in pipelines' names
# What prepares pictures for these, and the sizes (width, height) of the picture that they change and of what they see
# of it.
SEEING = {"patch_size": 2, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 16, "max_pixels": 400}
EDIT_SIZES = {"edit": ((16, 20), (16, 20)), "edit_plus": ((16, 20), (8, 12))}
CHAT = (
    "{% for message in messages %}on {{ message['content'] }} !{% endfor %}"
    "{% if add_generation_prompt %} A{% endif %}{% if enable_thinking %} cat{% else %} red red{% endif %}"
)
# Of prompts that are lists of parts, and the side on which texts are filled up.
PARTS_CHAT = (
    "{% for message in messages %}on {% for part in message['content'] %}{{ part['text'] }} {% endfor %}!{% endfor %}"
    "{% if add_generation_prompt %} A{% endif %}"
)
CHATS = {"flux2": {"chat_template": PARTS_CHAT, "padding_side": "left"}}
CLASSES = {
    "dev": "FluxTransformer2DModel", "schnell": "FluxTransformer2DModel", "fill": "FluxTransformer2DModel",
    "kontext": "FluxTransformer2DModel",
    "sd3": "SD3Transformer2DModel", "sd35": "SD3Transformer2DModel",
    "zimage": "ZImageTransformer2DModel", "klein": "Flux2Transformer2DModel", "flux2": "Flux2Transformer2DModel",
    "qwen": "QwenImageTransformer2DModel", "pixart": "PixArtTransformer2DModel", "sana": "SanaTransformer2DModel",
    "sana4k": "SanaTransformer2DModel", "edit": "QwenImageTransformer2DModel",
    "edit_plus": "QwenImageTransformer2DModel",
}  # fmt: skip
T5 = {
    "model_type": "t5", "vocab_size": 20, "d_model": 12, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2,
    "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20,
    "tie_word_embeddings": False,
}  # fmt: skip
CLIPS = {"flux": [text_config(8)], "sd3": [text_config(4, 5), text_config(6, 10)]}
AUTOENCODER = AUTOENCODERS["plain"] | {
    "use_quant_conv": False,
    "use_post_quant_conv": False,
    "shift_factor": 0.1,
    "scaling_factor": 0.7,
}
_DEEP = {
    "latent_channels": 4, "attention_head_dim": 4, "decoder_block_types": ["ResBlock", "EfficientViTBlock"],
    "encoder_block_out_channels": [8, 16], "decoder_block_out_channels": [8, 16], "scaling_factor": 0.41,
    "encoder_qkv_multiscales": [[], [3]], "decoder_qkv_multiscales": [[], [5]],
}  # fmt: skip
# By model, the class of another autoencoder and its configuration.
OTHER_AUTOENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "klein": (
        "AutoencoderKLFlux2",
        AUTOENCODERS["plain"] | {"use_quant_conv": True, "batch_norm_eps": 0.01, "decoder_block_out_channels": [4, 8]},
    ),
    "sana": (
        "AutoencoderDC",
        _DEEP | {"encoder_block_types": ["ResBlock", "EfficientViTBlock"], "encoder_layers_per_block": [1, 1],
                 "decoder_layers_per_block": [1, 1], "upsample_block_type": "interpolate",
                 "downsample_block_type": "Conv"},
    ),
    "deep": (
        "AutoencoderDC",
        _DEEP | {"encoder_layers_per_block": [0, 1], "decoder_layers_per_block": [0, 2],
                 "decoder_act_fns": ["relu", "silu"], "decoder_conv_act_fn": "silu"},
    ),
    "qwen": (
        "AutoencoderKLQwenImage",
        {
            "base_dim": 4, "z_dim": 4, "dim_mult": [1, 2], "num_res_blocks": 1, "temperal_downsample": [True],
            "latents_mean": [0.1, -0.2, 0.3, 0.0], "latents_std": [1.5, 0.7, 1.0, 2.0],
        },
    ),
}  # fmt: skip
# Models with the autoencoder of another one.
SHARED_AUTOENCODERS = {"flux2": "klein", "edit": "qwen", "edit_plus": "qwen"}
_PLACES = {"base_image_seq_len": 4, "max_image_seq_len": 64}
_DYNAMIC = {"use_dynamic_shifting": True, "shift": 3.0, **_PLACES}
PLACES = 20
# (settings, steps, whether the deviations are even before they are shifted)
SCHEDULES: list[tuple[dict[str, Any], int, bool]] = [
    ({"shift": 3.0}, 5, False), ({"shift": 1.0}, 4, True), (_DYNAMIC, 4, True), (_DYNAMIC, 3, False),
    (_DYNAMIC | {"time_shift_type": "linear", "shift_terminal": 0.1}, 4, True),
    ({"shift": 3.0, "use_karras_sigmas": True}, 4, False), ({"use_exponential_sigmas": True}, 4, True),
]  # fmt: skip
# name: (schedule, steps, guidance, whether T5 is there)
MODELS: dict[str, tuple[dict[str, Any], int, float, bool]] = {
    "dev": (_DYNAMIC, 3, 3.5, True), "schnell": ({"shift": 1.0}, 2, 0.0, True),
    "sd3": ({"shift": 3.0}, 3, 2.0, True), "sd35": ({"shift": 3.0}, 2, 2.0, False),
    "zimage": ({"shift": 3.0}, 2, 1.5, False), "fill": (_DYNAMIC, 3, 30.0, True), "kontext": (_DYNAMIC, 2, 2.5, True),
    "klein": (_DYNAMIC, 2, 2.0, False), "flux2": (_DYNAMIC, 2, 0.03, False),
    "qwen": (_DYNAMIC | {"shift_terminal": 0.02}, 2, 3.0, False), "edit": (_DYNAMIC, 2, 3.0, False),
    "edit_plus": (_DYNAMIC, 2, 3.0, False),
    "pixart": ({"beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear"}, 3, 2.0, True),
    "sana": ({"use_flow_sigmas": True, "flow_shift": 3.0, "prediction_type": "flow_prediction"}, 4, 2.0, False),
}  # fmt: skip
OTHER_SCHEDULES = dict.fromkeys(("pixart", "sana"), "DPMSolverMultistepScheduler")
# Pictures that are changed: (model, steps, strength, whether there is a mask). Kontext has no strength.
CHANGES: list[tuple[str, int, float | None, bool]] = [
    ("zimage", 4, 0.6, False), ("sd3", 4, 0.6, False), ("dev", 3, 0.7, True), ("schnell", 3, 1.0, True),
    ("fill", 3, 0.7, True), ("kontext", 2, None, False), ("klein", 2, None, False), ("qwen", 4, 0.6, True),
    ("edit", 2, None, False), ("edit_plus", 2, None, False),
]  # fmt: skip
TRUE_CFG_SCALE, REFERENCES = 2.0, ((16, 12), (12, 16))  # of Kontext


def autoencoder_weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As picture_weights, also for filters of frames."""
    values = picture_weights(name, shape)
    if len(shape) == 5:
        values = values * np.float32((shape[-1] / np.prod(shape[1:])) ** 0.5)
    return values


WORDS = ["<pad>", "</s>", "<unk>", "A", "red", "cat", "on", "!"]
MARK = "<|image_pad|>"


def tokenizer() -> dict[str, Any]:
    """The tokenizer.json of a tokenizer that ends texts as T5's does."""
    parts = {
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": template({"</s>": 1}, "$A </s>", "$A </s> $B </s>"),
    }
    return document(whole_words(WORDS, "<unk>"), numbered(WORDS[:3]), **parts)


def seeing_tokenizer() -> dict[str, Any]:
    """As `tokenizer`, with a token for pictures, and without an end of texts."""
    found = tokenizer() | {"post_processor": None}
    found["model"]["vocab"][MARK] = 19
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    found["added_tokens"].append({"id": 19, "content": MARK, **plain, "special": True})
    return found


def inputs(name: str) -> dict[str, np.ndarray]:
    """What a network of NETWORKS reads, by the names of pyapp's arguments. The time and the guidance are small, because
    float32 rounds the angles of large ones.
    """
    config, time = NETWORKS[name], np.array([23.0], np.float32)
    if name in ("zimage", "qwen", "pixart", "sana", "sana4k"):
        lengths = np.array([35, 4], np.int32)
        return {
            "latents": numbers(1, 2, 4, 8, 6),
            "time": 1000 - time if name == "zimage" else time,
            "text": numbers(2, 2, 35, 12),
            "pooled": lengths,
        }
    found = {
        "latents": numbers(1, 2, 4, 8, 6), "time": time,
        "text": numbers(2, 2, 5, config["joint_attention_dim"]),
    }  # fmt: skip
    if "pooled_projection_dim" in config:
        found["pooled"] = numbers(3, 2, config["pooled_projection_dim"])
    return found | ({"guidance": np.array([0.035], np.float32)} if config.get("guidance_embeds") else {})


def _tensors(layers: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The weights and biases of layers."""
    found = {f"{name}.weight": shape for name, shape in layers.items()}
    return found | {f"{name}.bias": shape[:1] for name, shape in layers.items()}


def _flux_originals() -> dict[str, tuple[int, ...]]:
    layers: dict[str, tuple[int, ...]] = {
        "img_in": (32, 16), "txt_in": (32, 12), "time_in.in_layer": (32, 256), "time_in.out_layer": (32, 32),
        "vector_in.in_layer": (32, 8), "vector_in.out_layer": (32, 32), "guidance_in.in_layer": (32, 256),
        "guidance_in.out_layer": (32, 32), "final_layer.linear": (16, 32), "final_layer.adaLN_modulation.1": (64, 32),
        "single_blocks.0.modulation.lin": (96, 32), "single_blocks.0.linear1": (224, 32),
        "single_blocks.0.linear2": (32, 160),
    }  # fmt: skip
    for stream in ("img", "txt"):
        own = {
            "mod.lin": (192, 32),
            "attn.qkv": (96, 32),
            "attn.proj": (32, 32),
            "mlp.0": (128, 32),
            "mlp.2": (32, 128),
        }
        layers |= {f"double_blocks.0.{stream}_{name}": shape for name, shape in own.items()}
    norms = ("double_blocks.0.img_attn", "double_blocks.0.txt_attn", "single_blocks.0")
    return _tensors(layers) | {f"{at}.norm.{kind}_norm.scale": (16,) for at in norms for kind in ("query", "key")}


def _flux2_originals() -> dict[str, tuple[int, ...]]:
    layers: dict[str, tuple[int, ...]] = {
        "img_in": (32, 16), "txt_in": (32, 12), "time_in.in_layer": (32, 256), "time_in.out_layer": (32, 32),
        "guidance_in.in_layer": (32, 256), "guidance_in.out_layer": (32, 32), "final_layer.linear": (16, 32),
        "final_layer.adaLN_modulation.1": (64, 32), "single_stream_modulation.lin": (96, 32),
        "double_stream_modulation_img.lin": (192, 32), "double_stream_modulation_txt.lin": (192, 32),
        "single_blocks.0.linear1": (288, 32), "single_blocks.0.linear2": (32, 128),
    }  # fmt: skip
    for stream in ("img", "txt"):
        own = {"attn.qkv": (96, 32), "attn.proj": (32, 32), "mlp.0": (192, 32), "mlp.2": (32, 96)}
        layers |= {f"double_blocks.0.{stream}_{name}": shape for name, shape in own.items()}
    norms = ("double_blocks.0.img_attn", "double_blocks.0.txt_attn", "single_blocks.0")
    found = {f"{at}.norm.{kind}_norm.scale": (16,) for at in norms for kind in ("query", "key")}
    return {f"{name}.weight": shape for name, shape in layers.items()} | found


def _sd35_originals() -> dict[str, tuple[int, ...]]:
    layers: dict[str, tuple[int, ...]] = {
        "x_embedder.proj": (32, 4, 2, 2), "context_embedder": (32, 12), "t_embedder.mlp.0": (32, 256),
        "t_embedder.mlp.2": (32, 32), "y_embedder.mlp.0": (32, 15), "y_embedder.mlp.2": (32, 32),
        "final_layer.linear": (16, 32), "final_layer.adaLN_modulation.1": (64, 32),
        "joint_blocks.0.x_block.attn2.qkv": (96, 32), "joint_blocks.0.x_block.attn2.proj": (32, 32),
    }  # fmt: skip
    norms = ["joint_blocks.0.x_block.attn2"]
    own = {"attn.qkv": (96, 32), "attn.proj": (32, 32), "mlp.fc1": (128, 32), "mlp.fc2": (32, 128)}
    for place, chunks in (("0.x", 9), ("0.context", 6), ("1.x", 6), ("1.context", 2)):
        block, count = f"joint_blocks.{place}_block", 1 if chunks == 2 else 4  # nothing reads the text after the last
        layers |= {f"{block}.{name}": shape for name, shape in [*own.items()][:count]}
        layers[f"{block}.adaLN_modulation.1"] = (32 * chunks, 32)
        norms.append(f"{block}.attn")
    found = _tensors(layers) | {f"{place}.ln_{kind}.weight": (8,) for place in norms for kind in "qk"}
    return found | {"pos_embed": (1, 49, 32)}


def _zimage_originals() -> dict[str, tuple[int, ...]]:
    layers: dict[str, tuple[int, ...]] = {
        "x_embedder": (32, 16), "final_layer.linear": (16, 32), "final_layer.adaLN_modulation.1": (32, 32),
        "t_embedder.mlp.0": (1024, 256), "t_embedder.mlp.2": (32, 1024), "cap_embedder.1": (32, 12),
    }  # fmt: skip
    found: dict[str, tuple[int, ...]] = {
        "cap_embedder.0.weight": (12,), "x_pad_token": (1, 32), "cap_pad_token": (1, 32), "norm_final.weight": (32,),
    }  # fmt: skip
    for block in ("noise_refiner.0", "context_refiner.0", "layers.0"):
        if not block.startswith("context"):
            layers[f"{block}.adaLN_modulation.0"] = (128, 32)
        own = {"attention.qkv": (96, 32), "attention.out": (32, 32), "feed_forward.w1": (85, 32),
               "feed_forward.w2": (32, 85), "feed_forward.w3": (85, 32)}  # fmt: skip
        found |= {f"{block}.{name}.weight": shape for name, shape in own.items()}
        norms = ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2")
        found |= {f"{block}.{name}.weight": (32,) for name in norms}
        found |= {f"{block}.attention.{kind}_norm.weight": (16,) for kind in "qk"}
    return _tensors(layers) | found


# By network, the tensors and their shapes under the names of its makers.
ORIGINALS = {
    "dev": _flux_originals(),
    "sd35": _sd35_originals(),
    "zimage": _zimage_originals(),
    "flux2": _flux2_originals(),
}


# LoRA files of "dev": the matrices that they change
LORAS: list[dict[str, tuple[int, int]]] = [
    {
        "transformer.transformer_blocks.0.attn.add_k_proj": (32, 32),
        "transformer.single_transformer_blocks.0.proj_out": (32, 160),
    },
    {
        "lora_unet_double_blocks_0_img_attn_qkv": (96, 32), "lora_unet_double_blocks_0_txt_mlp_2": (32, 128),
        "lora_unet_single_blocks_0_linear1": (224, 32),
    },
]  # fmt: skip
LORA_SCALE = 0.7


def lora_state(case: int) -> dict[str, np.ndarray]:
    """The tensors of a LoRA file, of the rank 2."""
    found, ends = {}, ("lora_down", "lora_up") if case else ("lora_A", "lora_B")
    for i, (name, (rows, columns)) in enumerate(LORAS[case].items()):
        found[f"{name}.{ends[0]}.weight"] = numbers(100 + i, 2, columns) * np.float32(0.2)
        found[f"{name}.{ends[1]}.weight"] = numbers(150 + i, rows, 2) * np.float32(0.2)
        if case:
            found[f"{name}.alpha"] = np.array(1 + i, np.float32)
    return found
