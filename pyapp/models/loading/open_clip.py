"""OpenCLIP's repositories: open_clip_config.json, whose form is that of its `model_configs`, beside
open_clip_model.safetensors. Models that see by OpenCLIP's Vision Transformer are read, and by timm's FastViT:
MobileCLIP and MobileCLIP2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from pyapp.errors import ModelError
from pyapp.nn.vision.towers import OLDER_END

from .config import object_of, require
from .timm import RESAMPLING, family_of

MODEL_TYPE = "mobileclip"
PREPARATION = "preprocess_cfg"
NETWORK = re.compile(r"fastvit_mci[0-4]")
HINT = "Vision Transformers and MobileCLIP S0 to S4 are read so; of other models take one in transformers' form"
TRANSFORMER = "clip"  # the model_type of those with a Vision Transformer
CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
# What a part may say besides its sizes, and the only values that are known.
VISION_TRANSFORMER = {
    "pool_type": ("tok",), "ls_init_value": (None,), "global_average_pool": (False,), "attentional_pool": (False,),
    "no_ln_pre": (False,), "input_patchnorm": (False,), "final_ln_after_pool": (False,), "output_tokens": (False,),
    "pos_embed_type": ("learnable",), "timm_model_name": (None,),
}  # fmt: skip
VISION_SIZES = ("image_size", "layers", "width", "head_width", "mlp_ratio", "patch_size", "patch_dropout")
VISION = {
    "timm_pool": ("avg",), "timm_proj": ("", None), "timm_proj_bias": (False,), "timm_model_pretrained": (False, True)
}  # fmt: skip
TEXT = {"pool_type": ("argmax",), "proj_type": ("linear",), "proj_bias": (False,), "embed_cls": (False,),
        "ls_init_value": (None,),
        "no_ln_final": (False,), "output_tokens": (False,), "eos_id": (2,), "pad_id": (0,)}  # fmt: skip
SIZES = ("context_length", "vocab_size", "width", "heads", "layers", "mlp_ratio", "no_causal_mask")


def is_open_clips(settings: Mapping[str, Any]) -> bool:
    """Whether an object is that of an open_clip_config.json."""
    return isinstance(settings.get("model_cfg"), dict) and "model_type" not in settings


def settings_of(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of a config.json that pyapp reads, of an open_clip_config.json. ModelError for models that are not
    known.
    """
    try:
        return _settings(config)
    except ModelError as error:
        raise ModelError(error.what, where=error.where or where, hint=error.hint) from error


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    own = config["model_cfg"]
    vision, text = own.get("vision_cfg"), own.get("text_cfg")
    require(isinstance(vision, dict) and isinstance(text, dict), "model_cfg has no vision_cfg, or no text_cfg")
    name = vision.get("timm_model_name")
    if name is None and type(vision.get("layers")) is int:
        return _transformers(config, vision, text)
    if not isinstance(name, str) or not NETWORK.fullmatch(name):
        raise ModelError(
            f"OpenCLIP's models that see by {name or 'a network of its own'!s:.60} are not known", hint=HINT
        )
    _check(vision, VISION)
    _check(text, TEXT, SIZES)
    family = family_of(name)
    assert family is not None
    match = re.fullmatch(family.pattern, name)
    assert match is not None
    width, ratio = text.get("width", 512), text.get("mlp_ratio", 4.0)
    require(type(width) is int and type(ratio) in (int, float), f"width is {width!r:.40}, mlp_ratio {ratio!r:.40}")
    return {
        "model_type": MODEL_TYPE, "embed_dim": own.get("embed_dim"), "image_size": vision.get("image_size", 224),
        "vision_config": family.settings(match, {}),
        "text_config": {
            "vocab_size": text.get("vocab_size", 49408), "hidden_size": width, "intermediate_size": int(width * ratio),
            "num_hidden_layers": text.get("layers", 12), "num_attention_heads": text.get("heads", 8),
            "max_position_embeddings": text.get("context_length", 77), "causal": not text.get("no_causal_mask", False),
            "hidden_act": "quick_gelu" if own.get("quick_gelu") else "gelu",
        },
        PREPARATION: config.get(PREPARATION) or {},
    }  # fmt: skip


def _check(part: Mapping[str, Any], known: Mapping[str, tuple[Any, ...]], sizes: Collection[str] | None = None) -> None:
    """ModelError for values that are not known; with `sizes`, for other fields too."""
    for field, values in known.items():
        given = part.get(field, values[0])
        require(given in values, f"{field} is {given!r:.60}, expected {values[0]!r}")
    more = [field for field in part if field not in known and sizes is not None and field not in sizes]
    require(not more, f"it has {', '.join(more)!s:.60}, which is not known")


def _transformers(config: Mapping[str, Any], vision: Mapping[str, Any], text: Mapping[str, Any]) -> dict[str, Any]:
    """As `_settings`, of a model that sees by a Vision Transformer: CLIP's fields."""
    own = config["model_cfg"]
    _check(vision, VISION_TRANSFORMER, VISION_SIZES)
    _check(text, TEXT | {"no_causal_mask": (False,)}, SIZES)
    sizes = {"vision": (vision, 768), "text": (text, 512)}
    parts: dict[str, dict[str, Any]] = {}
    for name, (part, usual) in sizes.items():
        width, ratio, head = part.get("width", usual), part.get("mlp_ratio", 4.0), part.get("head_width", 64)
        plausible = type(width) is int and type(ratio) in (int, float) and type(head) is int and head > 0
        require(plausible, f"{name}_cfg has width {width!r:.40}, mlp_ratio {ratio!r:.40}, head_width {head!r:.40}")
        parts[name] = {
            "hidden_size": width, "intermediate_size": int(width * ratio), "num_hidden_layers": part.get("layers", 12),
            "num_attention_heads": part.get("heads", 8) if name == "text" else max(1, width // head),
            "hidden_act": "quick_gelu" if own.get("quick_gelu") else "gelu",
        }  # fmt: skip
    side = vision.get("image_size", 224)
    return {
        "model_type": TRANSFORMER, "projection_dim": own.get("embed_dim"), "image_size": side,
        "vision_config": parts["vision"] | {"image_size": side, "patch_size": vision.get("patch_size", 16)},
        "text_config": parts["text"] | {
            "vocab_size": text.get("vocab_size", 49408), "max_position_embeddings": text.get("context_length", 77),
            "eos_token_id": OLDER_END,
        },
        PREPARATION: config.get(PREPARATION) or {},
    }  # fmt: skip


def processor_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The preprocessor_config.json of a model's preprocess_cfg. ModelError for pictures that are not cropped."""
    given, side = object_of(settings, PREPARATION), settings["image_size"]
    mode, filter_ = given.get("resize_mode", "shortest"), given.get("interpolation", "bicubic")
    require(mode == "shortest", f"resize_mode is {mode!r:.60}, expected 'shortest'")
    require(filter_ in RESAMPLING, f"interpolation is {filter_!r:.60}")
    return {
        "image_processor_type": "TimmWrapperImageProcessor", "size": {"shortest_edge": side},
        "crop_size": {"height": side, "width": side}, "resample": RESAMPLING[filter_],
        "image_mean": given.get("mean", CLIP[0]), "image_std": given.get("std", CLIP[1]),
    }  # fmt: skip
