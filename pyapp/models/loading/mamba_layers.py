"""The fields of config.json that decoders with layers of Mamba 2 beside attention share (Bamba's names)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.recurrent.mamba2 import Mamba2Settings

from .config import LARGEST, LIMITS, check_divides, require, step_limits

# The keys of GGUF files.
MAMBA_FIELD_KEYS = {
    "mamba_n_heads": "ssm.time_step_rank", "mamba_d_state": "ssm.state_size", "mamba_n_groups": "ssm.group_count",
    "mamba_d_conv": "ssm.conv_kernel",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MambaFields:
    """The fields of config.json; `mamba_d_head` None: what the heads share of `inner`."""

    mamba_n_heads: int = 128
    mamba_d_head: int
    mamba_d_state: int = 256
    mamba_n_groups: int = 1
    mamba_d_conv: int = 4
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    shortest_step: float = 0.0
    longest_step: float | None = None

    def check_mamba(self) -> None:
        """ModelError for sizes that do not fit one another."""
        heads, groups, kernel = self.mamba_n_heads, self.mamba_n_groups, self.mamba_d_conv
        check_divides(self, "mamba_n_groups", "mamba_n_heads")
        require(2 <= kernel <= LIMITS["conv_kernel"], f"mamba_d_conv is {kernel}, expected 2 to 256")
        widest = max(heads * self.mamba_d_head, groups * self.mamba_d_state)
        require(widest <= LIMITS["hidden_size"], f"{widest:,} features of a state are too many")

    def mamba_settings(self, epsilon: float, activation: str, **settings: Any) -> Mamba2Settings:
        """The sizes of a layer's mixer."""
        return Mamba2Settings(
            self.mamba_n_heads, self.mamba_d_head, self.mamba_d_state, self.mamba_n_groups, self.mamba_d_conv, epsilon,
            activation, self.mamba_proj_bias, convolution_bias=self.mamba_conv_bias,
            limits=(self.shortest_step, self.longest_step), **settings,
        )  # fmt: skip


def from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that follow from others in GGUF files, and from the tensors there are."""
    inner, heads = values.get("ssm.inner_size"), found.get("mamba_n_heads")
    if type(inner) is int and type(heads) is int and heads > 0:
        found = found | {"mamba_d_head": inner // heads}
    parts = {name.partition(".")[2].partition(".")[2] for name in values["tensors"]}  # without blk.0.
    return found | {
        "attention_bias": "attn_q.bias" in parts, "mamba_conv_bias": "ssm_conv1d.bias" in parts,
        "mamba_proj_bias": "ssm_in.bias" in parts,
    }  # fmt: skip


def inner_size(config: MambaFields) -> dict[str, Any]:
    """The key of the channels of all heads."""
    return {"ssm.inner_size": config.mamba_n_heads * config.mamba_d_head}


def mamba_fields(values: dict[str, Any], inner: Any = None) -> dict[str, Any]:
    """The fields of a config.json: mamba_d_head may be "auto", a share of `inner` features (mamba_expand times
    hidden_size, by default).
    """
    heads, size = values.get("mamba_n_heads", 128), values.get("mamba_d_head")
    if type(size) is int:
        return step_limits(values)
    if inner is None:
        expand, hidden = values.get("mamba_expand", 2), values.get("hidden_size")
        whole = type(expand) is int and type(hidden) is int and 1 <= expand <= 1 << 8
        require(whole, f"mamba_expand is {expand!r:.40}, expected a whole number from 1 to 256")
        inner = expand * hidden
    whole = type(heads) is int and type(inner) is int and 1 <= heads <= inner <= LARGEST and inner % heads == 0
    require(whole, f"mamba_n_heads {heads!r:.40} does not divide the {inner!r:.40} features of the layer")
    return {"mamba_d_head": inner // heads} | step_limits(values)
