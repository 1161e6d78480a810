"""nanochat (Karpathy 2025, https://github.com/karpathy/nanochat): norms without weights, also of the embeddings and of
rotated queries and keys, which turn backward, squared ReLU, and a soft cap of the logits.
"""

from __future__ import annotations

from functools import partial

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, RotaryTable, Text, soft_capped
from pyapp.nn.decoders.decoder_blocks import LateNormAttention, PreNormBlock
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.config import DecoderConfig, check_positive

MODEL_TYPES = ("nanochat",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "nanochat"
    defaults = {"max_position_embeddings": 2048, "final_logit_softcapping": 15.0}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "relu2"
    attention_bias: bool = False
    final_logit_softcapping: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "final_logit_softcapping")

    def norm(self) -> RMSNorm:
        """A norm of the hidden states."""
        return RMSNorm(self.hidden_size, self.rms_norm_eps, elementwise_affine=False)


class Attention(LateNormAttention):
    """Self-attention with normalised queries and keys."""

    norms = "q_norm", "k_norm"


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size = config.hidden_size
        attention = Attention(
            layer, size, config.heads(), rotary, config.rms_norm_eps, bias=config.attention_bias,
            norm=partial(RMSNorm, elementwise_affine=False),
        )  # fmt: skip
        feed_forward = FeedForward(size, config.intermediate_size, config.hidden_act, bias=False)
        super().__init__(attention, feed_forward, config.norm(), config.norm())


class NanoChatStack(DecoderStack):
    """The decoder, whose embeddings are normalised."""

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        x: Tensor = self.norm(self.embed_tokens(tokens))
        return x


class NanoChatForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict(), backward=True)
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, NanoChatStack(config.vocab_size, config.hidden_size, blocks, config.norm()))

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V), softly capped."""
        return soft_capped(super().head(x), self.config.final_logit_softcapping)


TASKS = {"causal-lm": NanoChatForCausalLM}
