"""Pegasus-X (Phang et al. 2022, arXiv 2208.04347): Pegasus for summaries of long texts. In its encoder a token attends
to those of its block and to some learnt global tokens, which attend to everything; in every second layer the blocks
begin half a block earlier.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.block_attention import in_whole_blocks
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.positions.sinusoids import sines_and_cosines
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import BartLanguageModel, Decoder, FixedPositions, TextStack

from .loading.config import require
from .loading.sequence_config import SequenceToSequenceConfig

MODEL_TYPES = ("pegasus_x",)
BASE = "model"  # the name of encoder and decoder in files with a head
MOST = 1 << 16  # tokens of a block, and global tokens


@dataclass(frozen=True, kw_only=True)
class Config(SequenceToSequenceConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    max_position_embeddings: int = 16384
    scale_embedding: bool = True
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int = 0
    num_global_tokens: int = 32
    block_size: int = 512
    stagger_local_blocks: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        width, size = self.d_model, self.block_size
        require(width % 2 == 0 and width > 2, f"d_model is {width}, expected an even number from 4")
        require(
            size <= MOST and not (self.stagger_local_blocks and size % 2),
            f"block_size is {size:,}, expected up to {MOST:,}, and an even number where stagger_local_blocks is true",
        )
        require(self.num_global_tokens <= MOST, f"num_global_tokens is {self.num_global_tokens:,}")


class EncoderLayer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual. `shift`: by how much the blocks
    begin earlier.
    """

    def __init__(self, config: Config, shift: int) -> None:
        super().__init__()
        width, self.heads = config.d_model, config.encoder_attention_heads
        self.size, self.shift, self.globals = config.block_size, shift, config.num_global_tokens
        self.self_attn = Module()
        for name in ("k_proj", "v_proj", "q_proj"):
            self.self_attn.add_module(name, Linear(width, width, bias=False))
        self.self_attn.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")
        self.self_attn.out_proj = ResidualLinear(width, width, bias=False)
        self.self_attn_layer_norm = LayerNorm(width)
        self.global_self_attn_layer_norm = LayerNorm(width)
        self.fc1 = Linear(width, config.encoder_ffn_dim)
        self.fc2 = ResidualLinear(config.encoder_ffn_dim, width)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(config.activation_function)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The global tokens and those of the text x (B, G + T, D), mask (B, 1, 1, T) bool → (B, G + T, D). T is a
        multiple of the block's size.
        """
        count, tokens = self.globals, x.shape[1] - self.globals
        own = self.self_attn_layer_norm(x.narrow(1, count, tokens))
        if self.shift:
            own = ops.pad(own, (0, 0, self.shift, self.shift))
            mask = ops.pad(mask.to("int32"), (self.shift, self.shift)) != 0
        read = ops.cat([self.global_self_attn_layer_norm(x.narrow(1, 0, count)), own], 1)
        seen = self.attend(read, mask)
        if self.shift:
            seen = ops.cat([seen.narrow(1, 0, count), seen.narrow(1, count + self.shift, tokens)], 1)
        x = self.self_attn.out_proj(seen, x)
        return self.fc2(self.activation(self.fc1(self.final_layer_norm(x))), x)

    def attend(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, G + T, D), mask (B, 1, 1, T) → (B, G + T, D)."""
        batch, places, width = x.shape
        count, size, shape = self.globals, self.size, (self.heads, width // self.heads)
        blocks = (places - count) // size
        rows = batch * blocks
        parts = self.self_attn.qkv(self.self_attn, x).reshape(batch, places, 3, *shape)
        q, k, v = (parts.narrow(2, i, 1).squeeze(2) for i in range(3))  # (B, G + T, H, D / H)
        shown = ops.ones(batch, 1, 1, count, dtype="bool", device=x.device)
        everything = attend(q.narrow(1, 0, count), k, v, ops.cat([shown, mask], 3))

        def in_blocks(part: Tensor) -> Tensor:
            return part.narrow(1, count, places - count).reshape(rows, size, *shape)

        def with_globals(part: Tensor) -> Tensor:
            first = part.narrow(1, 0, count).unsqueeze(1).expand(batch, blocks, count, *shape)
            return ops.cat([first.reshape(rows, count, *shape), in_blocks(part)], 1)

        shown = ops.ones(rows, 1, 1, count, dtype="bool", device=x.device)
        near = ops.cat([shown, mask.reshape(rows, 1, 1, size)], 3)
        local = attend(in_blocks(q), with_globals(k), with_globals(v), near)  # (B N, S, D)
        return ops.cat([everything, local.reshape(batch, blocks * size, width)], 1)


class Encoder(TextStack):
    """The encoder, with its global tokens."""

    def __init__(self, config: Config, positions: Module, table: Embedding) -> None:
        super().__init__(config, positions, 0, table, norm_embedding=False, norm_first=True)
        self.size = config.block_size
        self.embed_global = Embedding(config.num_global_tokens, config.d_model)
        shift = config.block_size // 2 if config.stagger_local_blocks else 0
        self.layers = ModuleList(EncoderLayer(config, shift * (i % 2)) for i in range(config.encoder_layers))

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, D)."""
        batch, tokens = ids.shape
        x = self.embed(ids, ops.arange(tokens, dtype="int32", device=ids.device))
        x, mask = in_whole_blocks(x, mask, self.size)
        if mask is None:
            mask = ops.ones(batch, 1, 1, tokens, dtype="bool", device=ids.device)
        own = self.embed_global.weight.to(x.dtype)
        x = ops.cat([own.unsqueeze(0).expand(batch, *own.shape), x], 1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x.narrow(1, own.shape[0], tokens))


class Stacks(Module):
    """Encoder and decoder over one table of words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        places = FixedPositions(partial(sines_and_cosines, config.max_position_embeddings, config.d_model))
        self.shared = table = Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = Encoder(config, places, table)
        self.decoder = Decoder(
            config, places, table=table, norm_embedding=False, norm_first=True, attention_bias=False
        )  # fmt: skip


class PegasusX(BartLanguageModel):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        model = Stacks(config)
        table = model.shared if config.tie_word_embeddings else None
        super().__init__(config, model, config.vocab_size, table, bias=False, base=BASE)


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": PegasusX}
