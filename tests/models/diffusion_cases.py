"""Small configurations of Stable Diffusion's parts, as config.json has them, and cases of its schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_UNET = {
    "sample_size": 8, "in_channels": 4, "out_channels": 4, "block_out_channels": [8, 16], "norm_num_groups": 4,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
    "cross_attention_dim": 12,
}  # fmt: skip
UNETS: dict[str, dict[str, Any]] = {
    "one": _UNET | {"layers_per_block": 2, "attention_head_dim": 4},
    "two": _UNET | {
        "layers_per_block": 1, "attention_head_dim": [2, 4], "use_linear_projection": True,
        "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
    },
    "xl": _UNET | {
        "block_out_channels": [8, 8, 16], "layers_per_block": 2, "attention_head_dim": [2, 2, 4],
        "use_linear_projection": True, "transformer_layers_per_block": [1, 1, 2],
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
        "addition_embed_type": "text_time", "addition_time_embed_dim": 4, "projection_class_embeddings_input_dim": 34,
    },
    "lcm": _UNET | {"layers_per_block": 1, "attention_head_dim": 4, "time_cond_proj_dim": 6},
    "fills": _UNET | {"layers_per_block": 1, "attention_head_dim": 4, "in_channels": 9},
}  # fmt: skip
AUTOENCODERS: dict[str, dict[str, Any]] = {
    "plain": {
        "block_out_channels": [8, 16], "layers_per_block": 1, "latent_channels": 4, "norm_num_groups": 4,
        "down_block_types": ["DownEncoderBlock2D"] * 2, "up_block_types": ["UpDecoderBlock2D"] * 2,
    },
    "three": {
        "block_out_channels": [4, 8, 8], "layers_per_block": 2, "latent_channels": 3, "norm_num_groups": 2,
        "down_block_types": ["DownEncoderBlock2D"] * 3, "up_block_types": ["UpDecoderBlock2D"] * 3,
        "use_quant_conv": False, "use_post_quant_conv": False, "shift_factor": 0.1, "scaling_factor": 1.5,
    },
}  # fmt: skip
EIGHT = {  # an autoencoder of 8 pixels a latent
    "block_out_channels": [4, 4, 4, 4], "layers_per_block": 1, "latent_channels": 4, "norm_num_groups": 2,
    "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4,
}  # fmt: skip
CONTROL = {"conditioning_embedding_out_channels": [4, 4, 6, 8]}  # what a ControlNet has besides its U-Net
CONTROLLED, CONTROL_SCALE = ("one", "xl"), 0.8  # models
TINY = {  # AutoencoderTiny
    "encoder_block_out_channels": [8, 8], "decoder_block_out_channels": [6, 6], "num_encoder_blocks": [1, 2],
    "num_decoder_blocks": [2, 1], "latent_channels": 4, "scaling_factor": 1.1,
}  # fmt: skip
_STABLE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
# (class of diffusers, its settings, steps)
SCHEDULES: list[tuple[str, dict[str, Any], int]] = [
    ("DDIMScheduler", _STABLE | {"clip_sample": False, "set_alpha_to_one": False, "steps_offset": 1}, 5),
    (
        "DDIMScheduler",
        _STABLE | {"prediction_type": "v_prediction", "timestep_spacing": "trailing", "clip_sample": False}, 7,
    ),
    ("DDIMScheduler", _STABLE | {"beta_schedule": "linear", "timestep_spacing": "linspace", "clip_sample": True}, 4),
    ("EulerDiscreteScheduler", _STABLE | {"timestep_spacing": "leading", "steps_offset": 1}, 6),
    ("EulerDiscreteScheduler", _STABLE | {"prediction_type": "v_prediction"}, 5),
    ("EulerAncestralDiscreteScheduler", _STABLE | {"timestep_spacing": "trailing"}, 4),
    ("EulerAncestralDiscreteScheduler", _STABLE | {"timestep_spacing": "trailing"}, 1),
    ("LCMScheduler", _STABLE | {"original_inference_steps": 50}, 4),
    ("LCMScheduler", _STABLE | {"original_inference_steps": 50, "clip_sample": True}, 3),
    ("DDPMScheduler", _STABLE | {"clip_sample": True, "clip_sample_range": 2.0, "steps_offset": 1}, 4),
    ("PNDMScheduler", _STABLE | {"skip_prk_steps": True, "steps_offset": 1, "set_alpha_to_one": False}, 7),
    ("PNDMScheduler", _STABLE | {"skip_prk_steps": True, "prediction_type": "v_prediction"}, 3),
    (
        "DDIMScheduler",
        _STABLE | {
            "rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing",
            "clip_sample": False,
        }, 3,
    ),
    ("EulerDiscreteScheduler", _STABLE | {"use_karras_sigmas": True, "timestep_spacing": "leading"}, 4),
    ("EulerDiscreteScheduler", _STABLE | {"use_exponential_sigmas": True, "final_sigmas_type": "sigma_min"}, 4),
    ("EulerDiscreteScheduler", _STABLE | {"interpolation_type": "log_linear"}, 4),
    (
        "EulerDiscreteScheduler",
        _STABLE | {
            "rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing",
        }, 3,
    ),
    ("HeunDiscreteScheduler", _STABLE, 4),
    ("HeunDiscreteScheduler", _STABLE | {"use_karras_sigmas": True, "prediction_type": "v_prediction"}, 3),
    ("LMSDiscreteScheduler", _STABLE, 7),
    ("DPMSolverMultistepScheduler", _STABLE, 6),
    ("DPMSolverMultistepScheduler", _STABLE | {"use_karras_sigmas": True, "timestep_spacing": "leading"}, 6),
    ("DPMSolverMultistepScheduler", _STABLE | {"solver_order": 3, "final_sigmas_type": "sigma_min"}, 6),
    ("DPMSolverMultistepScheduler", _STABLE | {"solver_type": "heun", "prediction_type": "sample"}, 5),
    ("DPMSolverMultistepScheduler", _STABLE | {"algorithm_type": "sde-dpmsolver++", "steps_offset": 1}, 4),
    (
        "DPMSolverMultistepScheduler",
        _STABLE | {"algorithm_type": "sde-dpmsolver++", "solver_type": "heun", "use_karras_sigmas": True}, 4,
    ),
    ("DPMSolverMultistepScheduler", _STABLE | {"use_karras_sigmas": True, "final_sigmas_type": "sigma_min"}, 16),
    ("UniPCMultistepScheduler", _STABLE, 6),
    (
        "UniPCMultistepScheduler",
        _STABLE | {"solver_order": 3, "solver_type": "bh1", "final_sigmas_type": "sigma_min"}, 7,
    ),
    ("UniPCMultistepScheduler", _STABLE | {"solver_order": 3, "disable_corrector": [0]}, 7),
    (
        "UniPCMultistepScheduler",
        _STABLE | {"use_karras_sigmas": True, "timestep_spacing": "trailing", "prediction_type": "v_prediction"}, 5,
    ),
    ("DDIMScheduler", _STABLE | {"beta_schedule": "squaredcos_cap_v2", "clip_sample": False}, 4),
    ("KDPM2DiscreteScheduler", _STABLE, 5),
    ("KDPM2DiscreteScheduler", _STABLE | {"use_karras_sigmas": True, "prediction_type": "v_prediction"}, 4),
    ("KDPM2AncestralDiscreteScheduler", _STABLE | {"timestep_spacing": "leading", "steps_offset": 1}, 5),
    ("DPMSolverSinglestepScheduler", _STABLE | {"lower_order_final": True}, 6),
    ("DPMSolverSinglestepScheduler", _STABLE | {"solver_order": 3, "lower_order_final": True}, 8),
    (
        "DPMSolverSinglestepScheduler",
        _STABLE | {"solver_order": 3, "solver_type": "heun", "final_sigmas_type": "sigma_min"}, 9,
    ),
    ("DPMSolverSinglestepScheduler", _STABLE | {"solver_type": "heun", "use_karras_sigmas": True}, 5),
    ("DPMSolverSinglestepScheduler", _STABLE | {"algorithm_type": "sde-dpmsolver++", "lower_order_final": True}, 4),
    ("DEISMultistepScheduler", _STABLE, 6),
    ("DEISMultistepScheduler", _STABLE | {"solver_order": 3, "prediction_type": "v_prediction"}, 17),
    ("TCDScheduler", _STABLE, 4),
    ("TCDScheduler", _STABLE | {"prediction_type": "v_prediction"}, 1),
]  # fmt: skip


def numbers(salt: int, *shape: int) -> np.ndarray:
    """Normal float32 numbers."""
    generator = np.random.Generator(np.random.Philox(key=1000 + salt))
    return generator.standard_normal(shape).astype(np.float32)


def network(x: Any, time: float) -> Any:
    """What a network could find in x (array or tensor) at a time."""
    return x * 0.4 + (time / 1000 - 0.3)


def inputs(name: str) -> dict[str, np.ndarray]:
    """What a U-Net of UNETS reads, by the names of pyapp's arguments."""
    config = UNETS[name]
    sides = (7, 9) if name == "two" else (8, 12)
    found = {
        "latents": numbers(1, 2, config["in_channels"], *sides), "time": np.array([731.0], np.float32),
        "text": numbers(2, 2, 5, config["cross_attention_dim"]),
    }  # fmt: skip
    if "addition_embed_type" in config:
        found |= {"pooled": numbers(3, 2, 10), "sizes": np.array([[64, 96, 0, 0, 64, 96]] * 2, np.float32)}
    if "time_cond_proj_dim" in config:
        found["guidance"] = numbers(4, 2, 6)
    return found


# -- whole models: a folder as diffusers writes it, with seeded weights

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MERGES = [("c", "a"), ("ca", "t</w>"), ("r", "e"), ("re", "d</w>"), ("o", "n</w>")]
PROMPTS = ["A red  cat", "red on cat\u0301!"]
NEGATIVE = "cat"
ENDS = {"<|startoftext|>": 62, "<|endoftext|>": 63}


def vocabulary() -> dict[str, int]:
    """A small vocabulary of CLIP's kind."""
    words = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), "!", "!</w>"]
    words += [left + right for left, right in MERGES][: 62 - len(words)]
    return {word: i for i, word in enumerate([*words, *(f"<{i}>" for i in range(62 - len(words)))])} | ENDS


def text_config(width: int, projection: int | None = None) -> dict[str, Any]:
    """The config.json of an encoder of texts."""
    config = {
        "vocab_size": 64, "hidden_size": width, "intermediate_size": 20, "num_hidden_layers": 3,
        "num_attention_heads": 2, "max_position_embeddings": 16, "eos_token_id": 63, "bos_token_id": 62,
        "pad_token_id": 63, "hidden_act": "quick_gelu",
    }  # fmt: skip
    return config if projection is None else config | {"projection_dim": projection, "hidden_act": "gelu"}


# name: (U-Net, encoders, schedule, guidance, steps)
MODELS: dict[str, tuple[str, list[dict[str, Any]], tuple[str, dict[str, Any]], float, int]] = {
    "one": ("one", [text_config(12)], (SCHEDULES[0][0], SCHEDULES[0][1]), 5.0, 3),
    "xl": ("xl", [text_config(4), text_config(8, 10)], (SCHEDULES[3][0], SCHEDULES[3][1]), 4.0, 3),
    "lcm": ("lcm", [text_config(12)], (SCHEDULES[7][0], SCHEDULES[7][1]), 6.0, 2),
    "fills": ("fills", [text_config(12)], (SCHEDULES[0][0], SCHEDULES[0][1]), 5.0, 3),
}
LATENTS = 7  # the salt of the first latents
# Pictures that are changed: (model, schedule, steps, strength, whether there is a mask)
CHANGES: list[tuple[str, str, int, float, bool]] = [
    ("one", "DDIMScheduler", 4, 0.6, False), ("one", "HeunDiscreteScheduler", 5, 0.5, False),
    ("one", "EulerAncestralDiscreteScheduler", 4, 0.8, False), ("one", "DPMSolverMultistepScheduler", 5, 0.7, False),
    ("one", "PNDMScheduler", 5, 0.9, False), ("xl", "EulerDiscreteScheduler", 4, 0.6, False),
    ("one", "DDIMScheduler", 4, 0.6, True), ("one", "UniPCMultistepScheduler", 4, 1.0, True),
    ("fills", "EulerDiscreteScheduler", 3, 1.0, True), ("fills", "DDIMScheduler", 4, 0.75, True),
]  # fmt: skip


# LoRA files: (model, form of the names, matrices)
LORAS: list[tuple[str, str, list[str]]] = [
    ("one", "peft", ["unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q",
                     "unet.mid_block.attentions.0.transformer_blocks.0.ff.net.0.proj",
                     "unet.up_blocks.1.resnets.1.conv1", "text_encoder.text_model.encoder.layers.0.self_attn.v_proj"]),
    ("one", "old", ["unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.processor.to_k",
                    "unet.mid_block.attentions.0.transformer_blocks.0.attn2.processor.to_out"]),
    ("one", "kohya", ["lora_unet_down_blocks_0_attentions_1_transformer_blocks_0_attn2_to_v",
                      "lora_unet_mid_block_attentions_0_proj_in",
                      "lora_te_text_model_encoder_layers_1_mlp_fc2"]),
    ("xl", "kohya", ["lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q",
                     "lora_unet_input_blocks_5_0_emb_layers_1", "lora_unet_output_blocks_3_0_skip_connection",
                     "lora_unet_output_blocks_2_1_proj_out", "lora_unet_middle_block_1_proj_in",
                     "lora_unet_output_blocks_5_2_conv", "lora_unet_input_blocks_3_0_op",
                     "lora_te2_text_model_encoder_layers_0_self_attn_out_proj",
                     "lora_te1_text_model_encoder_layers_1_self_attn_out_proj"]),
]  # fmt: skip
LORA_SCALE = 0.7
ADAPTED, ADAPTER_SCALE = ("one", "xl"), 0.6  # models: the first with a plain IP-Adapter, the other with "plus"
CLIP_SEES = {  # the CLIP of IP-Adapters
    "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 16,
    "patch_size": 8, "projection_dim": 10, "hidden_act": "gelu",
}  # fmt: skip


def lora_state(case: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The tensors of a LoRA file, by the shapes of the weights that it changes."""
    _, form, names = LORAS[case]
    ends = {"peft": ("lora_A.weight", "lora_B.weight"), "old": ("down.weight", "up.weight"),
            "kohya": ("lora_down.weight", "lora_up.weight")}[form]  # fmt: skip
    found = {}
    for i, name in enumerate(names):
        shape, join = shapes[name], "_lora." if form == "old" else "."
        rest = [1] * (len(shape) - 2)
        found[f"{name}{join}{ends[0]}"] = numbers(100 + i, 2, *shape[1:]) * np.float32(0.4)
        found[f"{name}{join}{ends[1]}"] = numbers(150 + i, shape[0], 2, *rest) * np.float32(0.4)
        if form == "kohya":
            found[f"{name}.alpha"] = np.array(3 if case == 3 else 1 + i, np.float32)  # diffusers mixes up those of XL
    return found


def adapter_shapes(name: str, widths: list[int]) -> dict[str, tuple[int, ...]]:
    """The shapes of an IP-Adapter's tensors, by the widths of the U-Net's attentions to the text."""
    text, seen, inner = UNETS[MODELS[name][0]]["cross_attention_dim"], CLIP_SEES["hidden_size"], 6
    found: dict[str, tuple[int, ...]] = {
        f"ip_adapter.{2 * i + 1}.to_{kind}_ip.weight": (width, text) for i, width in enumerate(widths) for kind in "kv"
    }
    if name == ADAPTED[0]:
        own: dict[str, tuple[int, ...]] = {"proj.weight": (4 * text, 10), "proj.bias": (4 * text,)}
        own |= {f"norm.{kind}": (text,) for kind in ("weight", "bias")}
    else:
        own = {
            "latents": (1, 3, inner), "proj_in.weight": (inner, seen), "proj_in.bias": (inner,),
            "proj_out.weight": (text, inner), "proj_out.bias": (text,),
        }  # fmt: skip
        own |= {f"norm_out.{kind}": (text,) for kind in ("weight", "bias")}
        for i in range(4):  # as many as diffusers reads
            own |= {f"layers.{i}.{part}.{kind}": (inner,) for part in ("0.norm1", "0.norm2", "1.0")
                    for kind in ("weight", "bias")}  # fmt: skip
            own |= {
                f"layers.{i}.0.to_q.weight": (64, inner), f"layers.{i}.0.to_kv.weight": (128, inner),
                f"layers.{i}.0.to_out.weight": (inner, 64), f"layers.{i}.1.1.weight": (4 * inner, inner),
                f"layers.{i}.1.3.weight": (inner, 4 * inner),
            }  # fmt: skip
    return found | {f"image_proj.{key}": shape for key, shape in own.items()}


def start_picture() -> tuple[np.ndarray, np.ndarray]:
    """A picture uint8 (20, 18, 3), whose sides are rounded down, and a mask uint8 (20, 18)."""
    picture = np.clip(128 + 50 * numbers(8, 20, 18, 3), 0, 255).astype(np.uint8)
    mask = np.zeros((20, 18), np.uint8)
    mask[4:13, 6:] = 255
    return picture, mask
