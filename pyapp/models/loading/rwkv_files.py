"""The files (.pth) of RWKV's author, https://github.com/BlinkDL/RWKV-LM: they have no config.json, because their
tensors say the sizes, and other names than folders of Hugging Face's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .config import LIMITS, require

# A tensor by which a file is known, of newer versions first: the versions have more and more tensors in common.
VERSIONS = {
    "blocks.0.att.r_k": "rwkv7", "blocks.0.att.time_maa_x": "rwkv6", "blocks.0.att.time_faaaa": "rwkv5",
    "blocks.0.att.time_first": "rwkv",
}  # fmt: skip
# What versions 4 to 6 call the parts.
NAMES = {
    "emb.": "rwkv.embeddings.", "ln_out.": "rwkv.ln_out.", "blocks.": "rwkv.blocks.", ".ln0.": ".pre_ln.",
    ".att.": ".attention.", ".ffn.": ".feed_forward.", "time_mix_k": "time_mix_key", "time_mix_v": "time_mix_value",
    "time_mix_r": "time_mix_receptance", "time_mix_g": "time_mix_gate",
}  # fmt: skip
LAYERS = re.compile(r"blocks\.(\d{1,4})\.")


def version_of(tensors: Mapping[str, Any]) -> str | None:
    """The model_type of a file of the author's, by the names of its tensors; None: it is no such file."""
    return next((version for name, version in VERSIONS.items() if name in tensors), None)


def renamed(name: str) -> str:
    """The parameter of a tensor of the author's files of versions 4 to 6; other names stay."""
    if not name.startswith(("emb.", "ln_out.", "blocks.")):
        return name
    for own, ours in NAMES.items():
        found = name.startswith(own) or (own[0] in ".t" and own in name)
        # time_mix_k is a whole name, not the beginning of time_mix_key
        if found and (not own.startswith("time_") or name.endswith(own)):
            name = name.replace(own, ours, 1)
    return name


def with_sizes(values: Mapping[str, Any], inner: Callable[[int], int]) -> dict[str, Any]:
    """The object of a config.json with the sizes that it leaves out; `inner` makes that of the feed-forward part of
    hidden_size.
    """
    given = {name: value for name, value in values.items() if value is not None}
    hidden: Any = given.get("hidden_size")
    plausible = type(hidden) is int and 1 <= hidden <= LIMITS["hidden_size"]
    require(plausible, f"hidden_size is {hidden!r:.60}, expected a whole number from 1 to {LIMITS['hidden_size']:,}")
    return {"attention_hidden_size": hidden, "intermediate_size": inner(hidden)} | given


def sizes_of(tensors: Mapping[str, Any], sizes: Mapping[str, tuple[str, int]]) -> dict[str, int]:
    """The layers of a file of the author's, and the sizes that its tensors say: each the size of a dim of one."""
    layers = [int(found[1]) for found in map(LAYERS.match, tensors) if found]
    found = {"num_hidden_layers": max(layers, default=-1) + 1}
    for field, (name, dim) in sizes.items():
        shape = tuple(tensors[name].shape) if name in tensors else ()
        if len(shape) == 2:
            found[field] = shape[dim]
    return found
