"""Mixtures of block types: the type of each tensor of a language model, by the rules of llama.cpp's quantize.

Source of the rules: llama_tensor_get_type in src/llama-quant.cpp of https://github.com/ggml-org/llama.cpp. A mixture is
called after its main type, perhaps with a size: "Q4_0", "Q4_K_M". Some tensors get more bits than the main type, since
errors in them cost more: the output matrix (the embedding where there is no output matrix), and, above all in the first
and the last layers, attn_v and ffn_down. Falcon has rules of its own, and so have models with experts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

# The main type of a mixture, and llama.cpp's number for it (general.file_type).
MIXTURES: dict[str, tuple[str, int]] = {
    "Q4_0": ("q4_0", 2), "Q4_1": ("q4_1", 3), "Q8_0": ("q8_0", 7), "Q5_0": ("q5_0", 8), "Q5_1": ("q5_1", 9),
    "Q2_K": ("q2_K", 10), "Q2_K_S": ("q2_K", 21),
    "Q3_K_S": ("q3_K", 11), "Q3_K_M": ("q3_K", 12), "Q3_K_L": ("q3_K", 13),
    "Q4_K_S": ("q4_K", 14), "Q4_K_M": ("q4_K", 15), "Q5_K_S": ("q5_K", 16), "Q5_K_M": ("q5_K", 17),
    "Q6_K": ("q6_K", 18), "IQ4_NL": ("iq4_nl", 25), "IQ4_XS": ("iq4_xs", 30), "MXFP4_MOE": ("mxfp4", 38),
}  # fmt: skip

# What a tensor is for, by its name in GGUF files, in llama2.c's and Meta's, and in Hugging Face's. attn_v: the matrix
# of values, also together with those of queries and keys.
_ROLES = (
    ("output", re.compile(r"(output|(lm_)?head)\.weight")),
    ("embedding", re.compile(
        r"((per_layer_)?token_embd|tok_embeddings|(model\.)?(decoder\.)?embed_tokens(_per_layer)?|gpt_neox\.embed_in"
        r"|(backbone|model|rwkv)\.embeddings|(transformer\.)?(word_embeddings|wte))\.weight")),
    ("attn_v", re.compile(
        r".*(attn_v|attn_qkv|attn_kv_b|attention\.wv|self_attn\.kv_b_proj|attn\.(attention\.)?(v_proj|qkv_proj|in_proj_qkv|Wqkv|c_attn)"
        r"|attention\.query_key_value)\.weight")),
    ("attn_k", re.compile(r".*((?<!indexer\.)attn_k|attention\.wk|attn\.(attention\.)?k_proj)\.weight")),
    ("attn_output", re.compile(
        r".*(attn_output|attention\.(wo|dense)|(?<!linear_)attn\.(attention\.)?(o_proj|out_proj|c_proj|dense))\.weight")),
    ("ffn_down", re.compile(
        r".*(ffn_down(_exps|_shexp)?(\.\d+)?|feed_forward\.w2|shared_mlp\.output_linear|ffn\.down_proj"
        r"|(mlp|block_sparse_moe|feed_forward|mixer)\.(\w+\.)*(experts\.\d+\.)?down_proj|experts\.\d+\.w2|mlp\.(dense_4h_to_h|fc_out|fc2|c_proj)|(en|de)coder\.layers\.\d+\.fc2)\.weight")),
)  # fmt: skip
_LAYER = re.compile(r"(?:^|\.)(?:blk|layers|h|blocks)\.(\d{1,6})\.")
# Names of the numbers of heads, of key and value heads, and of experts in GGUF, Hugging Face and llama2.c files.
_HEADS = ("attention.head_count", "num_attention_heads", "n_heads")
_KV_HEADS = ("attention.head_count_kv", "num_key_value_heads", "num_kv_heads", "n_kv_heads")
_EXPERTS = ("expert_count", "num_local_experts", "num_experts", "n_routed_experts")
_FALCON = ("falcon", "RefinedWeb", "RefinedWebModel")  # model_type
LARGE_LAYERS = 80  # of the 70B model, whose matrix of values is small beside the others


def role_of(name: str) -> str:
    """The role of a tensor ("attn_v", "ffn_down" …); "" if no rule uses it."""
    return next((role for role, pattern in _ROLES if pattern.fullmatch(name)), "")


def _layer_of(name: str) -> int:
    found = _LAYER.search(name)
    return int(found[1]) if found else 0


def _number(config: Mapping[str, Any], names: Iterable[str], default: int) -> int:
    """A positive number of the configuration; of one for each layer the first."""
    found = [config[name] for name in names if name in config]
    found = [value[0] if isinstance(value, list) and value else value for value in found]
    return next((value for value in found if type(value) is int and value > 0), default)


class Mixture:
    """The types of one model's tensors. `names` are those of its matrices, `stacks` those that hold a matrix for each
    expert; `config` has the architecture as `model_type` and the numbers of heads and experts, under the names of GGUF,
    Hugging Face or llama2.c; `weighted`: an imatrix says which columns count."""

    def __init__(
        self, mixture: str, names: Iterable[str], config: Mapping[str, Any], *, stacks: Collection[str] = (),
        weighted: bool = False,
    ) -> None:  # fmt: skip
        names = list(names)
        self.mixture, self._stacks, self._weighted = mixture, stacks, weighted
        self._layers = len({_layer_of(name) for name in names if _LAYER.search(name)})
        experts = _number(config, _EXPERTS, 1)
        self._eight_experts = experts == 8
        self._places: dict[str, tuple[int, int]] = {}  # which of its role a tensor is, by layers, and of how many
        for role in ("attn_v", "ffn_down"):
            found = sorted((name for name in names if role_of(name) == role), key=_layer_of)
            for index, name in enumerate(found):
                by_layer = role == "ffn_down" and experts > 1  # there may be several in a layer
                self._places[name] = (_layer_of(name), self._layers) if by_layer else (index, len(found))
        heads = _number(config, _HEADS, 1)
        self._sharing = heads // _number(config, _KV_HEADS, heads)  # heads that share keys and values
        self._falcon = config.get("model_type") in _FALCON
        self._has_output = any(role_of(name) == "output" for name in names)

    def type_of(self, name: str) -> str:
        """The block type of a matrix."""
        main = MIXTURES[self.mixture][0]
        role = role_of(name)
        is_output = role == "output" or (role == "embedding" and not self._has_output)
        if self.mixture == "MXFP4_MOE":
            return "mxfp4" if name in self._stacks and not is_output else "q8_0"
        if is_output:
            return "q8_0" if self._falcon or main == "q8_0" else "q6_K"
        if role == "attn_k":
            return "q8_0" if self._eight_experts else main
        if role == "attn_output":
            return self._attn_output() or main
        if role == "attn_v":
            return self._attn_v(main, *self._places[name])
        return (role == "ffn_down" and self._ffn_down(*self._places[name])) or main

    def _attn_v(self, main: str, index: int, count: int) -> str:
        if self._eight_experts:
            return "q8_0"
        many = self._sharing >= 4
        more = "q6_K" if _more_bits(index, count) else ""
        kind = {
            "Q2_K": "q4_K" if many else "q3_K",
            "Q2_K_S": "q4_K" if many else "",
            "Q3_K_M": "q5_K" if index < 2 else "q4_K",
            "Q3_K_L": "q5_K",
            "Q4_K_M": more,
            "Q5_K_M": more,
            "Q4_K_S": "q5_K" if index < 4 else "",
            "IQ4_NL": "q5_K" if many else "",
            "IQ4_XS": "q5_K" if many else "",
        }.get(self.mixture) or main
        large = self._layers == LARGE_LAYERS and self._sharing > 1
        return "q5_K" if large and kind in ("q3_K", "q4_K") else kind

    def _attn_output(self) -> str:
        if self._falcon:
            return "q4_K" if self.mixture == "Q3_K_L" else ""
        if self._eight_experts:
            raised = ("Q2_K", "Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M", "IQ4_NL", "IQ4_XS")
            return "q5_K" if self.mixture in raised else ""
        return {"Q2_K": "q3_K", "Q3_K_M": "q4_K", "Q3_K_L": "q5_K"}.get(self.mixture, "")

    def _ffn_down(self, index: int, count: int) -> str:
        first, falcon, more = index < count // 8, self._falcon, _more_bits(index, count)
        begin = index < count // 16
        return {
            "Q2_K": "q3_K",
            "Q2_K_S": "q4_K" if first else "",
            "Q3_K_M": "q5_K" if begin else "q4_K" if more or not falcon else "",
            "Q3_K_L": "q4_K" if falcon else "q5_K",
            "Q4_K_S": "q5_K" if first and not falcon else "",
            "Q4_K_M": ("q6_K" if begin or not falcon else "q5_K") if begin or more else "",
            "Q5_K_M": "q6_K" if more else "",
            "IQ4_NL": "q5_K" if first and not self._weighted else "",
            "IQ4_XS": "q5_K" if first and not self._weighted else "",
            "Q4_0": "q4_1" if first and self._weighted else "",
            "Q5_0": "q5_1" if first and self._weighted else "",
        }.get(self.mixture, "")


def _more_bits(index: int, count: int) -> bool:
    """Whether a layer gets more bits: the first and the last eighth of the layers, and every third layer between."""
    return index < count // 8 or index >= 7 * count // 8 or (index - count // 8) % 3 == 2
