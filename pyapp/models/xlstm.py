"""xLSTM 7B (Beck et al. 2025, arXiv 2503.13427): a language model of layers with a matrix memory and exponential gates
(mLSTM, arXiv 2405.04517) and gated feed-forward parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, soft_capped
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.recurrent.mlstm import MatrixMemory, MatrixMemorySettings
from pyapp.nn.recurrent.recurrent import RecurrentLanguageModel

from .loading.config import LIMITS, check_fields, read_config, require

MODEL_TYPES = ("xlstm",)
LONGEST = 1 << 20  # tokens of a text: states know no limit


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json. The sizes of queries, of values and inside feed-forward parts are factors of
    hidden_size.
    """

    model_type: str = "xlstm"
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_heads: int = 8
    norm_eps: float = 1e-6
    eps: float = 1e-6
    qk_dim_factor: float = 0.5
    v_dim_factor: float = 1.0
    ffn_proj_factor: float = 2.667
    ffn_round_up_to_multiple_of: int = 64
    gate_soft_cap: float | None = 15.0
    output_logit_soft_cap: float | None = 30.0
    tie_word_embeddings: bool = False
    use_bias: bool = False
    weight_mode: str = "single"

    def __post_init__(self) -> None:
        check_fields(self)
        require(not self.use_bias, "xLSTM with biases (use_bias) is not supported")
        require(self.weight_mode == "single", f"weight_mode is {self.weight_mode!r:.40}, and only 'single' is known")
        for name in ("qk_dim_factor", "v_dim_factor", "ffn_proj_factor"):
            require(0 < getattr(self, name) <= 64, f"{name} is {getattr(self, name)!r:.40}, expected a number up to 64")
        for name in ("gate_soft_cap", "output_logit_soft_cap"):
            cap = getattr(self, name)
            require(cap is None or cap > 0, f"{name} is {cap!r:.40}, expected a number > 0")
        for name, size in (
            ("qk_dim_factor", self._wide(self.qk_dim_factor)),
            ("v_dim_factor", self._wide(self.v_dim_factor)),
        ):
            fits = size >= self.num_heads and size % self.num_heads == 0
            require(fits, f"num_heads {self.num_heads} does not divide the {size} features of {name}")
        require(self.inner_size <= LIMITS["intermediate_size"], f"{self.inner_size:,} features in feed-forward parts")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json, also of one that says embedding_dim and num_blocks."""
        older = {"hidden_size": values.get("embedding_dim"), "num_hidden_layers": values.get("num_blocks")}
        return read_config(cls, {**values, **{name: values.get(name) or own for name, own in older.items()}})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    def _wide(self, factor: float) -> int:
        return int(self.hidden_size * factor)

    @property
    def inner_size(self) -> int:
        """Features inside a feed-forward part."""
        multiple = self.ffn_round_up_to_multiple_of
        return int((self.hidden_size * self.ffn_proj_factor + multiple - 1) // multiple * multiple)

    @property
    def memory(self) -> MatrixMemorySettings:
        """The sizes of a layer's memory."""
        keys, values = (self._wide(factor) // self.num_heads for factor in (self.qk_dim_factor, self.v_dim_factor))
        return MatrixMemorySettings(self.num_heads, keys, values, self.norm_eps, self.eps, self.gate_soft_cap)

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read."""
        return LONGEST


class Block(Module):
    """A memory and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.norm_mlstm = RMSNorm(size, config.norm_eps)
        self.mlstm_layer = MatrixMemory(size, config.memory, layer)
        self.norm_ffn = RMSNorm(size, config.norm_eps)
        self.ffn = GatedFeedForward(size, config.inner_size, names=("proj_up_gate", "proj_up", "proj_down"))

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.mlstm_layer(self.norm_mlstm(x), text, x)
        y: Tensor = self.ffn(self.norm_ffn(x), x)
        return y


class XLSTMStack(DecoderStack):
    """The decoder of such blocks."""

    tokens, blocks, last_norm = "embeddings", "blocks", "out_norm"


class XLSTMForCausalLM(RecurrentLanguageModel):
    """The language model."""

    base_model_prefix = "backbone"

    def __init__(self, config: Config) -> None:
        layers = range(config.num_hidden_layers)
        norm = RMSNorm(config.hidden_size, config.norm_eps)
        blocks = (Block(config, layer) for layer in layers)
        super().__init__(config, XLSTMStack(config.vocab_size, config.hidden_size, blocks, norm))
        self.state_shapes = [config.memory.states for _ in layers]

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size), the stack's output → logits (..., V)."""
        return soft_capped(super().head(x), self.config.output_logit_soft_cap)


TASKS = {"causal-lm": XLSTMForCausalLM}
