"""Mamba (Gu and Dao 2023, arXiv 2312.00752) and Falcon Mamba (Zuo et al. 2024, arXiv 2410.05355), which normalises what
the states take in and give out: state space models, without attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn.recurrent.mamba import MambaMixer, MambaSettings
from pyapp.nn.recurrent.state_space import StateSpaceLanguageModel

from .loading.config import check_fields, read_config, require
from .loading.gguf import MAMBA_FORMS, MAMBA_KEYS, MAMBA_NAMES, Gguf

MODEL_TYPES = ("mamba", "falcon_mamba")
LONGEST = 1 << 20  # tokens of a text, as llama.cpp says: states know no limit
LARGEST_EXPANSION = 1 << 10


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json. `mixer_rms_eps`: None without the norms of Falcon Mamba."""

    model_type: str = "mamba"
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    intermediate_size: int
    state_size: int = 16
    conv_kernel: int = 4
    time_step_rank: int
    layer_norm_epsilon: float = 1e-5
    hidden_act: str = "silu"
    use_bias: bool = False
    use_conv_bias: bool = True
    tie_word_embeddings: bool = True
    mixer_rms_eps: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.conv_kernel > 1, f"conv_kernel is {self.conv_kernel}, expected 2 or more")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        given = dict(values)
        hidden, rank = given.get("hidden_size"), given.get("time_step_rank", "auto")
        require(isinstance(hidden, int) and hidden >= 1, f"hidden_size is {hidden!r:.60}, expected a whole number")
        assert isinstance(hidden, int)
        given["time_step_rank"] = -(-hidden // 16) if rank == "auto" else rank
        if given.get("intermediate_size") is None:
            expand = given.get("expand", 2)
            plausible = type(expand) in (int, float) and 0 < expand <= LARGEST_EXPANSION
            require(plausible, f"expand is {expand!r:.60}, expected a number up to {LARGEST_EXPANSION}")
            given["intermediate_size"] = int(expand * hidden)
        if given.get("model_type") == "falcon_mamba":
            given.setdefault("mixer_rms_eps", 1e-6)
        return read_config(cls, given)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @property
    def mixer(self) -> MambaSettings:
        """The sizes of a layer's mixer."""
        return MambaSettings(
            self.intermediate_size, self.state_size, self.conv_kernel, self.time_step_rank, self.hidden_act,
            self.use_bias, self.use_conv_bias,
        )  # fmt: skip

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read."""
        return LONGEST


class Mixer(MambaMixer):
    """Mamba's mixer. Falcon Mamba's normalises what the states take in and give out, without weights."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(config.hidden_size, config.mixer, layer)
        self.epsilon = config.mixer_rms_eps

    def normalized(self, part: int, x: Tensor) -> Tensor:
        return x if self.epsilon is None else x * (x.square().mean(-1, True) + self.epsilon).rsqrt()


class MambaForCausalLM(StateSpaceLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        mixers = (Mixer(config, layer) for layer in range(config.num_hidden_layers))
        super().__init__(config, mixers, [config.mixer.states] * config.num_hidden_layers)


def renamed(name: str) -> str:
    """The parameter of a file's tensor: the first files call the embeddings by another name."""
    return name.replace("backbone.embedding.", "backbone.embeddings.")


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp's one architecture for both: Falcon Mamba's norms have the epsilon of the others there."""
    tensors = values["tensors"]
    given: dict[str, Any] = {
        "use_bias": "blk.0.ssm_in.bias" in tensors,
        "use_conv_bias": "blk.0.ssm_conv1d.bias" in tensors,
    }
    if values.get("ssm.dt_b_c_rms"):
        given |= {"model_type": "falcon_mamba", "mixer_rms_eps": found.get("layer_norm_epsilon")}
    return found | given


def _to_gguf(config: Config) -> dict[str, Any]:
    normalized = {"ssm.dt_b_c_rms": True} if config.mixer_rms_eps is not None else {}
    return {"context_length": LONGEST, "feed_forward_length": 0, "attention.head_count": 0} | normalized


GGUF = Gguf(
    "mamba",
    names=MAMBA_NAMES | {
        "backbone.layers.{}.mixer.x_proj": "blk.{}.ssm_x", "backbone.layers.{}.mixer.dt_proj": "blk.{}.ssm_dt",
    },
    keys=MAMBA_KEYS | {"time_step_rank": "ssm.time_step_rank", "intermediate_size": "ssm.inner_size"},
    forms=MAMBA_FORMS, read=_from_gguf, write=_to_gguf, unsaid=("mixer_rms_eps",),  # nearly what it is
)  # fmt: skip

TASKS = {"causal-lm": MambaForCausalLM}
