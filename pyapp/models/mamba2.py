"""Mamba 2 (Dao and Gu 2024, arXiv 2405.21060): a state space model with heads, whose states decay as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.recurrent.mamba2 import Mamba2Mixer, Mamba2Settings
from pyapp.nn.recurrent.state_space import StateSpaceLanguageModel

from .loading.config import check_divides, check_fields, read_config, require, step_limits
from .loading.gguf import MAMBA_KEYS, MAMBA_NAMES, Gguf, mamba2_forms, mamba2_names

MODEL_TYPES = ("mamba2",)
LONGEST = 1 << 20  # tokens of a text, as llama.cpp says: states know no limit


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json. The steps are at least `shortest_step` and at most `longest_step`, None: without a
    limit (time_step_limit).
    """

    model_type: str = "mamba2"
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_heads: int
    head_dim: int = 64
    state_size: int = 128
    n_groups: int = 8
    conv_kernel: int = 4
    layer_norm_epsilon: float = 1e-5
    hidden_act: str = "silu"
    use_bias: bool = False
    use_conv_bias: bool = True
    tie_word_embeddings: bool = False
    shortest_step: float = 0.0
    longest_step: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.conv_kernel > 1, f"conv_kernel is {self.conv_kernel}, expected 2 or more")
        check_divides(self, "n_groups", "num_heads")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        return read_config(cls, {**values, **step_limits(values)})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @property
    def inner_size(self) -> int:
        """The channels of all heads."""
        return self.num_heads * self.head_dim

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read."""
        return LONGEST


class Mamba2ForCausalLM(StateSpaceLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        settings = Mamba2Settings(
            config.num_heads, config.head_dim, config.state_size, config.n_groups, config.conv_kernel,
            config.layer_norm_epsilon, config.hidden_act, config.use_bias, config.use_bias, config.use_conv_bias,
            (config.shortest_step, config.longest_step),
        )  # fmt: skip
        mixers = (Mamba2Mixer(config.hidden_size, settings, layer) for layer in range(config.num_hidden_layers))
        super().__init__(config, mixers, [settings.states] * config.num_hidden_layers)


def renamed(name: str) -> str:
    """The parameter of a file's tensor: the first files call the embeddings by another name."""
    return name.replace("backbone.embedding.", "backbone.embeddings.")


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    tensors, inner, heads = values["tensors"], values.get("ssm.inner_size"), found.get("num_heads")
    if type(inner) is int and type(heads) is int and heads > 0:
        found = found | {"head_dim": inner // heads}
    return found | {
        "use_bias": "blk.0.ssm_in.bias" in tensors, "use_conv_bias": "blk.0.ssm_conv1d.bias" in tensors,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    return {
        "ssm.inner_size": config.inner_size, "context_length": LONGEST, "feed_forward_length": 0,
        "attention.head_count": 0,
    }  # fmt: skip


GGUF = Gguf(
    "mamba2", names=MAMBA_NAMES | mamba2_names("backbone.layers.{}.mixer"),
    keys=MAMBA_KEYS | {"num_heads": "ssm.time_step_rank", "n_groups": "ssm.group_count"},
    forms=mamba2_forms("mixer", lambda config: config.n_groups), read=_from_gguf, write=_to_gguf,
)  # fmt: skip

TASKS = {"causal-lm": Mamba2ForCausalLM}
