"""The fields of config.json that decoders with multi-head latent attention share."""

from __future__ import annotations

from collections.abc import Mapping
from math import log, sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat

from .config import DecoderConfig, require
from .gguf import GgufForm


@dataclass(frozen=True, kw_only=True)
class LatentConfig(DecoderConfig):
    """The fields of config.json. `num_key_value_heads` and `head_dim` are those of the cache, which holds the latent
    vectors: one head of kv_lora_rank + qk_rope_head_dim features.
    """

    q_lora_rank: int | None = None
    kv_lora_rank: int = 512
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int = 128
    attention_bias: bool = False

    def saved(self) -> dict[str, Any]:
        """The fields with the heads as transformers counts them, not as the cache does."""
        values = self.to_dict()
        del values["head_dim"]
        return values | {"num_key_value_heads": self.num_attention_heads}

    @property
    def growth(self) -> tuple[float, int]:
        """How queries grow with their positions (0: not), and the positions until they do."""
        return 0.0, 1

    @property
    def score_scale(self) -> float:
        """What the scores of attention are multiplied by; more in texts that YaRN makes longer."""
        scale, parameters = 1 / sqrt(self.qk_nope_head_dim + self.qk_rope_head_dim), self.rope_parameters
        more, factor = parameters.get("mscale_all_dim"), parameters.get("factor", 1)
        if parameters["rope_type"] == "default" or not more or factor <= 1:
            return scale
        return scale * (0.1 * more * log(factor) + 1) ** 2


def latent_sizes(values: dict[str, Any]) -> dict[str, Any]:
    """The sizes of the cache."""
    rank, rotated = (values.get(name, size) for name, size in (("kv_lora_rank", 512), ("qk_rope_head_dim", 64)))
    for name, value in (("kv_lora_rank", rank), ("qk_rope_head_dim", rotated)):
        require(type(value) is int and value >= 1, f"{name} is {value!r:.60}, expected a whole number from 1")
    return {"num_key_value_heads": 1, "head_dim": rank + rotated}


def latent_heads(found: dict[str, Any], values: Mapping[str, Any], rotated: int, whole: Any) -> dict[str, Any]:
    """The fields that a GGUF file says, with the sizes of heads: `rotated` features where it names no number of them,
    of `whole` ones.
    """
    size = values.get("rope.dimension_count", rotated)
    parameters = {key: value for key, value in found["rope_parameters"].items() if key != "partial_rotary_factor"}
    if type(whole) is int and type(size) is int:
        found = found | {"qk_nope_head_dim": whole - size}
    return found | {"qk_rope_head_dim": size, "rope_parameters": parameters}


def latent_keys(config: Any) -> dict[str, Any]:
    """The keys of a GGUF file that say the sizes of heads, as those without a latent cache have them."""
    return {
        "attention.head_count_kv": config.num_attention_heads, "rope.dimension_count": config.qk_rope_head_dim,
        "attention.key_length": config.qk_nope_head_dim + config.qk_rope_head_dim,
        "attention.value_length": config.v_head_dim,
    }  # fmt: skip


# -- GGUF files have the keys' part of kv_b_proj and that of the values apart, by head, and the keys' transposed


def _latent_keys(config: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return config.num_attention_heads, config.kv_lora_rank, config.qk_nope_head_dim


def _latent_values(config: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return config.num_attention_heads, config.v_head_dim, config.kv_lora_rank


def _by_head(config: Any, value: Tensor) -> Tensor:
    return value.reshape(config.num_attention_heads, -1, config.kv_lora_rank)


def _write_keys(config: Any, value: Tensor) -> Tensor:
    return _by_head(config, value).narrow(1, 0, config.qk_nope_head_dim).transpose(1, 2)


def _write_values(config: Any, value: Tensor) -> Tensor:
    return _by_head(config, value).narrow(1, config.qk_nope_head_dim, config.v_head_dim)


def _read_both(config: Any, keys: Tensor, values: Tensor) -> Tensor:
    by_head = keys.reshape(_latent_keys(config, ())).transpose(1, 2), values.reshape(_latent_values(config, ()))
    return cat(by_head, 1)


LATENT_FORM = GgufForm(
    read=_read_both,
    parts=(GgufForm(False, _latent_keys, _write_keys), GgufForm(False, _latent_values, _write_values)),
)
