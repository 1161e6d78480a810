"""Switch Transformers (Fedus et al. 2021, arXiv 2101.03961): T5 with experts in some layers, of which each token has
one. An expert reads at most `expert_capacity` tokens of a text; those after them pass the layer by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, Module, RMSNorm
from pyapp.nn.layers.experts import Experts, Router
from pyapp.nn.sequence_to_sequence.t5 import T5, Dense, Stack, T5Encoder

from .loading.config import LIMITS, require
from .loading.stored import Stored
from .loading.stored_experts import experts_apart
from .loading.t5_config import T5Config, t5_adapted

MODEL_TYPES = ("switch_transformers",)
BASE = "transformer"  # what some files put before the names
PARTS = {"up_proj": "wi", "down_proj": "wo"}  # the stacks of experts, and what files call a matrix of theirs
adapted = t5_adapted


@dataclass(frozen=True)
class Config(T5Config):
    """The fields of config.json."""

    num_sparse_encoder_layers: int = 0
    num_sparse_decoder_layers: int = 0
    num_experts: int = 8
    expert_capacity: int = 64
    router_bias: bool = False
    kind: str = "switch_transformers"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.gated, "is_gated_act is true, expected experts without gates")
        require(
            self.num_experts <= LIMITS["num_experts"], f"num_experts is {self.num_experts:,}, expected 4,096 or less"
        )

    def sparse(self, layer: int, decoder: bool) -> bool:
        """Whether a layer has experts: one in every few layers does."""
        layers = self.decoder_layers if decoder else self.num_layers
        chosen = self.num_sparse_decoder_layers if decoder else self.num_sparse_encoder_layers
        every = layers // chosen if chosen else layers
        return every > 0 and (every == 1 or layer % every == 1)


class MixtureOfExperts(Module):
    """The expert that a router chooses for each token, times its probability."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.capacity, size = config.expert_capacity, config.d_model
        self.router = Module()
        self.router.classifier = Router(size, config.num_experts, 1, normalized=False, bias=config.router_bias)
        self.experts = Experts(size, config.d_ff, config.num_experts, config.activation, ungated=True)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, T, d_model) → (B, T, d_model)."""
        flat, tokens = x.reshape(-1, x.shape[2]), x.shape[1]  # (B T, d_model)
        shares, chosen = self.router.classifier(flat)  # (B T, 1)
        if tokens > self.capacity:
            places = chosen.reshape(-1, tokens, 1)
            mine = places == ops.arange(self.experts.count, dtype="int64", device=x.device)  # (B, T, E)
            turn = mine.to("int32").cumsum(1).gather(2, places)  # (B, T, 1): the tokens of the expert so far
            shares = ops.where(turn.reshape(-1, 1) <= self.capacity, shares, 0.0)
        return residual + self.experts(flat, shares, chosen).reshape(x.shape)


class FeedForward(Module):
    """The feed-forward part, with experts or without, after a norm."""

    def __init__(self, config: Config, layer: int, decoder: bool) -> None:
        super().__init__()
        self.mlp: Module = MixtureOfExperts(config) if config.sparse(layer, decoder) else Dense(config)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, d_model) → (B, T, d_model)."""
        y: Tensor = self.mlp(self.layer_norm(x), x)
        return y


def stack(config: Config, table: Embedding, decoder: bool) -> Stack:
    """The encoder or the decoder."""
    layers = config.decoder_layers if decoder else config.num_layers
    return Stack(config, table, layers, decoder, feed_forward=partial(FeedForward, decoder=decoder))


class SwitchTransformers(T5):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, partial(stack, decoder=False), partial(stack, decoder=True))

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of the parameters, such as their values or gradients, as Hugging Face's files have them:
        each matrix of an expert by itself. Those in blocks stay as they are.
        """
        found: dict[str, Tensor] = {}
        for name, value in tensors.items():
            path, _, part = name.rpartition(".")
            if path.endswith("mlp.experts") and value.ndim == 3:
                each = enumerate(value.unbind(0))
                found |= {f"{path}.expert_{e}.{PARTS[part]}.weight": matrix for e, matrix in each}
            else:
                found[name] = value
        return found


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the experts: each matrix by itself."""
    found: dict[str, Stored] = {}
    for part, place, layers in (("encoder", 1, config.num_layers), ("decoder", 2, config.decoder_layers)):
        stacks = f"layer.{place}.mlp.experts"
        found |= experts_apart(
            tensors, f"{stacks}.expert_{{}}", (*PARTS.values(),), config.num_experts, layers, stacks, f"{part}.block"
        )
    return found


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "seq2seq-lm": SwitchTransformers, "features": partial(T5Encoder, encoder=partial(stack, decoder=False)),
}  # fmt: skip
