"""Apertus (Swiss AI Initiative 2025, arXiv 2509.14233): Llama's blocks with normalised queries and keys, and
feed-forward parts without gates, whose activation is trained. Of Apertus 1.5 (2026), which also sees and hears, this is
the language model: it reads tokens of pictures and sounds that it does not write.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import expm1, log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops import full, where
from pyapp.nn import Embedding, Linear, Module, Parameter, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, RotaryLanguageModel
from pyapp.nn.layers.gated import activation_named

from .loading.config import DecoderConfig, require
from .loading.gguf import HEAD_NORMS, NAMES, TENSOR_SCALINGS, Gguf, key_lengths
from .loading.stored import Stored

MODEL_TYPES = ("apertus", "apertus1p5", "apertus1p5_text")
IGNORED = r"(model\.)?(vision|audio)_tokenizer\..*"  # of Apertus 1.5
TRAINED = "xielu"  # the activation that has parameters
STEEPNESS, SLOPE, EDGE = 0.8, 0.5, -1e-6  # of a new one


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. vocab_size: of the tokens that the model writes; input_vocab_size: of those that it
    reads (None: the same).
    """

    model_type = "apertus"
    defaults = {
        "max_position_embeddings": 65536, "rope_theta": 12000000.0,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    }  # fmt: skip

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = TRAINED
    attention_bias: bool = False
    input_vocab_size: int | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; of a model that also sees and hears, its `text_config`."""
        own = values.get("text_config")
        given = dict(own) if isinstance(own, dict) else dict(values)
        if (written := given.get("output_vocab_size")) is not None:
            given |= {"vocab_size": written, "input_vocab_size": given.get("vocab_size")}
        return super().from_dict(given)

    def __post_init__(self) -> None:
        super().__post_init__()
        read, written = self.tokens_read, self.vocab_size
        require(written <= read, f"output_vocab_size is {written:,}, of {read:,} tokens")
        tied = self.tie_word_embeddings and read != written
        require(not tied, "tie_word_embeddings is true, and the tokens written are not those read")

    @property
    def tokens_read(self) -> int:
        """The tokens that the model can read."""
        return self.input_vocab_size or self.vocab_size

    def saved(self) -> dict[str, Any]:
        """The object of a config.json that transformers reads too."""
        values = self.to_dict()
        if values.pop("input_vocab_size") is None:
            return values
        kind = {"model_type": "apertus1p5_text", "vocab_size": self.tokens_read}
        return values | kind | {"output_vocab_size": self.vocab_size}


class XIELU(Module):
    """x², and below 0 exp(x) - 1 - x, each times a trained factor, plus a constant times x (Huang and Schlag 2024,
    arXiv 2411.13010).
    """

    def __init__(self) -> None:
        super().__init__()
        self.alpha_p = Parameter(full((1,), log(expm1(STEEPNESS))))
        self.alpha_n = Parameter(full((1,), log(expm1(STEEPNESS - SLOPE))))
        self.beta = Parameter(ops.tensor(SLOPE), requires_grad=False)
        self.eps = Parameter(ops.tensor(EDGE), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape."""
        slope, edge = self.beta.detach(), self.eps.detach()
        rising, falling = self.alpha_p.softplus(), self.alpha_n.softplus() + slope
        return where(x > 0, rising * x * x, (x.minimum(edge).expm1() - x) * falling) + slope * x


class FeedForward(Module):
    """Two linear layers with an activation between them."""

    tensor_parallel = {"up_proj": ("outputs", "inner"), "down_proj": ("inputs", "inner"), "act_fn": ("between",)}

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.up_proj = Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = ResidualLinear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn: Any = XIELU() if config.hidden_act == TRAINED else activation_named(config.hidden_act)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., hidden_size) → residual + feed-forward (..., hidden_size)."""
        return self.down_proj(self.act_fn(self.up_proj(x)), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon, bias = config.hidden_size, config.rms_norm_eps, config.attention_bias
        self.self_attn = HeadNormAttention(layer, size, config.heads(), rotary, epsilon, bias=bias)
        self.mlp = FeedForward(config)
        self.attention_layernorm = RMSNorm(size, epsilon)
        self.feedforward_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.attention_layernorm(x), text, x)
        return self.mlp(self.feedforward_layernorm(x), x)


class ApertusForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))
        if config.tokens_read != config.vocab_size:
            self.model.embed_tokens = Embedding(config.tokens_read, config.hidden_size)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """As the model has them. ModelError for a trained activation beside the name of another one."""
    trained = config.hidden_act == TRAINED or not any(".act_fn." in name for name in tensors)
    require(
        trained, f"hidden_act is {config.hidden_act!r:.40}, and the file has the weights of {TRAINED}",
        f"Set hidden_act to {TRAINED!r} in config.json, or leave it out",
    )  # fmt: skip
    return {}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.input_vocab_size is None, "GGUF has one vocabulary, and this model reads more tokens than it writes")
    require(config.hidden_act == TRAINED, f"llama.cpp has no {config.hidden_act!r:.40} in this architecture")
    return key_lengths(config)


_PARTS = {"attention_layernorm": "attn_norm", "feedforward_layernorm": "ffn_norm"}
GGUF = Gguf(
    "apertus", scalings=TENSOR_SCALINGS, write=_to_gguf,
    read=lambda found, values: found | {"attention_bias": "blk.0.attn_q.bias" in values["tensors"]},
    names=NAMES | HEAD_NORMS | {f"model.layers.{{}}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
    in_keys={f".act_fn.{name}": f"xielu.{name}" for name in ("alpha_p", "alpha_n", "beta", "eps")},
)  # fmt: skip
TASKS = {"causal-lm": ApertusForCausalLM}
