"""The older form of Phi's files (model_type phi-msft and mixformer-sequential), which Moondream's language model has
too: other names in config.json, and queries, keys and values in one matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from .stored import Stored, rows_of

FIELDS = {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_head_kv": "num_key_value_heads", "n_inner": "intermediate_size", "n_positions": "max_position_embeddings",
    "activation_function": "hidden_act", "layer_norm_epsilon": "layer_norm_eps",
}  # fmt: skip
PARTS = {
    "input_layernorm": "ln", "self_attn.dense": "mixer.out_proj", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2",
}  # fmt: skip


def completed(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object of a config.json by the newer names."""
    if "n_embd" not in values:
        return values
    found = {FIELDS.get(name, name): value for name, value in values.items() if value is not None}
    width, heads, rotary = (found.get(name) for name in ("hidden_size", "num_attention_heads", "rotary_dim"))
    if type(width) is int:
        found.setdefault("intermediate_size", 4 * width)
        if type(heads) is int and type(rotary) is int and width > 0:
            found.setdefault("partial_rotary_factor", rotary * heads / width)
    return found


def stored(config: Any, names: Collection[str], own: str = "", file: str = "") -> dict[str, Stored]:
    """Where the parameters lie in a file of the older form; `own` and `file` stand before the names here and there."""
    layers = config.num_hidden_layers
    if f"{file}transformer.embd.wte.weight" in names:
        words, head = f"{file}transformer.embd.wte", f"{file}lm_head"
        blocks = [f"{file}transformer.h.{i}." for i in range(layers)]
    elif f"{file}layers.0.wte.weight" in names:  # a list, which begins with the embeddings and ends with the head
        words, head = f"{file}layers.0.wte", f"{file}layers.{layers + 1}"
        blocks = [f"{file}layers.{i + 1}." for i in range(layers)]
    else:
        return {}
    found = {f"{own}model.embed_tokens.weight": Stored((f"{words}.weight",))}
    counts = [config.num_attention_heads, config.num_key_value_heads, config.num_key_value_heads]
    for last in ("weight", "bias"):
        found[f"{own}model.final_layernorm.{last}"] = Stored((f"{head}.ln.{last}",))
        found[f"{own}lm_head.{last}"] = Stored((f"{head}.linear.{last}",))
        for i, block in enumerate(blocks):
            layer, first = f"{own}model.layers.{i}.", 0
            for part, older in PARTS.items():
                found[f"{layer}{part}.{last}"] = Stored((f"{block}{older}.{last}",))
            for part, count in zip("qkv", counts, strict=True):
                rows = partial(rows_of, first=first, count=count * config.head_dim)
                found[f"{layer}self_attn.{part}_proj.{last}"] = Stored((f"{block}mixer.Wqkv.{last}",), values=rows)
                first += count * config.head_dim
    return found
