"""The fields of config.json that ModernBERT's encoder and decoder read alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .config import FULL, SLIDING, as_object, require

THETA = {FULL: 160_000.0, SLIDING: 10_000.0}


def layers_and_angles(values: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The kind of each layer, and the rotary parameters of each kind; also of files that say
    global_attn_every_n_layers, global_rope_theta and local_rope_theta. ModelError for wrong ones.
    """
    layers, every = values.get("num_hidden_layers"), values.get("global_attn_every_n_layers", 3)
    require(type(every) is int and every > 0, f"global_attn_every_n_layers is {every!r:.40}, expected 1 or more")
    count = layers if type(layers) is int and 0 < layers <= 1 << 10 else 0
    types = values.get("layer_types") or [SLIDING if i % every else FULL for i in range(count)]
    given = as_object(values.get("rope_parameters") or {}, "rope_parameters")
    rotary = {}
    for kind, old in ((FULL, "global_rope_theta"), (SLIDING, "local_rope_theta")):
        own = as_object(given.get(kind) or {}, f"rope_parameters of {kind}")
        rotary[kind] = {"rope_type": "default", "rope_theta": values.get(old) or THETA[kind]} | own
    return types, rotary


def check_layers(config: Any) -> None:
    """ModelError unless layer_types has a known kind for each layer."""
    require(
        len(config.layer_types) == config.num_hidden_layers and {*config.layer_types} <= {FULL, SLIDING},
        f"layer_types does not say {FULL} or {SLIDING} for each of {config.num_hidden_layers} layers",
    )
