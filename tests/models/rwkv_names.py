"""The names and forms of RWKV's tensors in its author's files, for its references and for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def authors(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors of torch or arrays, by the names of folders, as the author's files have them: those of version 7, which
    are flash-linear-attention's, and of versions 4 to 6.
    """
    found = {}
    if "rwkv.embeddings.weight" in tensors:
        for name, value in tensors.items():
            for ours, own in (
                ("rwkv.embeddings", "emb"), ("rwkv.", ""), ("attention", "att"), ("feed_forward", "ffn"),
                ("pre_ln", "ln0"), ("mix_key", "mix_k"), ("mix_value", "mix_v"), ("mix_receptance", "mix_r"),
                ("mix_gate", "mix_g"),
            ):  # fmt: skip
                name = name.replace(ours, own, 1)
            found[name] = value
        return found
    for name, value in tensors.items():
        for ours, own in (
            ("model.embeddings", "emb"), ("model.norm", "ln_out"), ("lm_head", "head"), ("model.layers", "blocks"),
            ("attn.g_norm", "att.ln_x"), ("pre_norm", "ln0"), ("attn_norm", "ln1"), ("ffn_norm", "ln2"),
            ("attn.", "att."), ("r_proj", "receptance"), ("k_proj", "key"), ("v_proj", "value"), ("o_proj", "output"),
        ):  # fmt: skip
            name = name.replace(ours, own, 1)
        for end, number in (("lora.0.weight", 1), ("lora.2.weight", 2), ("lora.2.bias", 0)):
            if name.endswith(end):
                name, value = f"{name.removesuffix(f'_lora.{end}')}{number}", value.T if number else value[None, None]
        found[name] = value[None, None] if name.endswith(("k_k", "k_a", "ffn.x_k")) else value
    return found | {f"blocks.0.att.v{i}": found[f"blocks.0.att.a{i}"] for i in range(3)}
