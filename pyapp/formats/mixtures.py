"""Mixtures of block types: the type of each tensor of a language model, by the rules of llama.cpp's quantize.

Source of the rules: llama_tensor_get_type in src/llama-quant.cpp of https://github.com/ggml-org/llama.cpp. A mixture is
named after its main type and a size, "Q4_K_M". Some tensors get more bits than the main type, because errors in them
cost more: the output matrix (or the embedding if there is no output matrix), and attn_v and ffn_down, above all in the
first and the last layers. llama.cpp's special rules for Falcon are not implemented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

# The main type of a mixture, and llama.cpp's number for it (general.file_type).
MIXTURES: dict[str, tuple[str, int]] = {
    "Q2_K_S": ("q2_K", 21), "Q3_K_S": ("q3_K", 11), "Q3_K_M": ("q3_K", 12), "Q3_K_L": ("q3_K", 13),
    "Q4_K_S": ("q4_K", 14), "Q4_K_M": ("q4_K", 15), "Q5_K_S": ("q5_K", 16), "Q5_K_M": ("q5_K", 17),
}  # fmt: skip

# The role of a tensor by its name in GGUF files, in llama2.c's and Meta's files, and in Hugging Face's.
_ROLES = (
    ("output", re.compile(r"(output|lm_head)\.weight")),
    ("embedding", re.compile(r"(token_embd|tok_embeddings|(model\.)?embed_tokens)\.weight")),
    ("attn_v", re.compile(r".*(attn_v|attention\.wv|self_attn\.v_proj)\.weight")),
    ("attn_k", re.compile(r".*(attn_k|attention\.wk|self_attn\.k_proj)\.weight")),
    ("attn_output", re.compile(r".*(attn_output|attention\.wo|self_attn\.o_proj)\.weight")),
    ("attn_qkv", re.compile(r".*(attn_qkv|self_attn\.qkv_proj)\.weight")),
    ("ffn_down", re.compile(r".*(ffn_down(_exps)?|feed_forward\.w2|mlp\.down_proj)\.weight")),
)
_LAYER = re.compile(r"(?:^|\.)(?:blk|layers|h)\.(\d{1,6})\.")
# Names of the numbers of heads, of key and value heads, and of experts in GGUF, Hugging Face and llama2.c files.
_HEADS = ("attention.head_count", "num_attention_heads", "n_heads")
_KV_HEADS = ("attention.head_count_kv", "num_key_value_heads", "n_kv_heads")
_EXPERTS = ("expert_count", "num_local_experts")
LARGE_LAYERS = 80  # of the 70B model, whose value matrix is small compared to the others


def role_of(name: str) -> str:
    """The role of a tensor ("attn_v", "ffn_down" …); "" if no rule uses it."""
    return next((role for role, pattern in _ROLES if pattern.fullmatch(name)), "")


def _layer_of(name: str) -> int:
    found = _LAYER.search(name)
    return int(found[1]) if found else 0


def _number(config: Mapping[str, Any], names: Iterable[str], default: int) -> int:
    return next((value for name in names if type(value := config.get(name)) is int and value > 0), default)


class Mixture:
    """The types of one model's tensors. `names` are those of its matrices; `config` has its numbers of heads and
    experts, under the names of GGUF, Hugging Face or llama2.c.
    """

    def __init__(self, mixture: str, names: Iterable[str], config: Mapping[str, Any]) -> None:
        names = list(names)
        self.mixture = mixture
        self._places: dict[str, tuple[int, int]] = {}  # index of a tensor among those of its role, and their number
        for role, _ in _ROLES:
            found = sorted((name for name in names if role_of(name) == role), key=_layer_of)
            self._places |= {name: (index, len(found)) for index, name in enumerate(found)}
        heads = _number(config, _HEADS, 1)
        self._sharing = heads // _number(config, _KV_HEADS, heads)  # number of heads that share keys and values
        self._eight_experts = _number(config, _EXPERTS, 1) == 8
        self._has_output = any(role_of(name) == "output" for name in names)
        self._layers = len({_layer_of(name) for name in names if _LAYER.search(name)})

    def type_of(self, name: str) -> str:
        """The block type of a matrix."""
        main = MIXTURES[self.mixture][0]
        role = role_of(name)
        if role == "output" or (role == "embedding" and not self._has_output):
            return "q6_K"
        if role in ("", "embedding"):
            return main
        index, count = self._places[name]
        rules = {
            "attn_v": self._attn_v,
            "attn_k": self._attn_k,
            "attn_output": self._attn_output,
            "attn_qkv": self._attn_qkv,
            "ffn_down": self._ffn_down,
        }
        return rules[role](main, index, count) or main

    def _attn_v(self, main: str, index: int, count: int) -> str:
        kind = {
            "Q2_K_S": "q4_K" if self._sharing >= 4 else "",
            "Q3_K_M": "q5_K" if index < 2 else "q4_K",
            "Q3_K_L": "q5_K",
            "Q4_K_M": "q6_K" if _more_bits(index, count) else "",
            "Q5_K_M": "q6_K" if _more_bits(index, count) else "",
            "Q4_K_S": "q5_K" if index < 4 else "",
        }.get(self.mixture, "")
        if self._layers == LARGE_LAYERS and self._sharing > 1 and (kind or main) in ("q3_K", "q4_K"):
            kind = "q5_K"
        return "q8_0" if self._eight_experts else kind

    def _attn_k(self, main: str, index: int, count: int) -> str:
        return "q8_0" if self._eight_experts else ""

    def _attn_output(self, main: str, index: int, count: int) -> str:
        if self._eight_experts:
            return "q5_K" if self.mixture in ("Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M") else ""
        return {"Q3_K_M": "q4_K", "Q3_K_L": "q5_K"}.get(self.mixture, "")

    def _attn_qkv(self, main: str, index: int, count: int) -> str:
        return {"Q3_K_M": "q4_K", "Q3_K_L": "q4_K", "Q4_K_M": "q5_K", "Q5_K_M": "q6_K"}.get(self.mixture, "")

    def _ffn_down(self, main: str, index: int, count: int) -> str:
        return {
            "Q2_K_S": "q4_K" if index < count // 8 else "",
            "Q3_K_M": "q5_K" if index < count // 16 else "q4_K",
            "Q3_K_L": "q5_K",
            "Q4_K_S": "q5_K" if index < count // 8 else "",
            "Q4_K_M": "q6_K" if _more_bits(index, count) else "",
            "Q5_K_M": "q6_K" if _more_bits(index, count) else "",
        }.get(self.mixture, "")


def _more_bits(index: int, count: int) -> bool:
    """Whether a layer gets more bits: the first and the last eighth of the layers, and every third layer between."""
    return index < count // 8 or index >= 7 * count // 8 or (index - count // 8) % 3 == 2
