"""LED (Beltagy et al. 2020, arXiv 2004.05150): BART for long texts. The encoder's tokens attend to a window around
them; the first one attends to all others, and all others to it.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.window_attention import WindowAttention
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import BartLanguageModel, Decoder, TextStack

from .loading.config import check_windows
from .loading.sequence_config import SequenceToSequenceConfig

MODEL_TYPES = ("led",)
BASE = "led"  # the name of encoder and decoder in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(SequenceToSequenceConfig):
    """The hyper-parameters, by the names of config.json. attention_window: the tokens that a token sees in each layer
    of the encoder; config.json may have one number for all layers.
    """

    model_type = "led"

    max_encoder_position_embeddings: int = 16384
    max_decoder_position_embeddings: int = 1024
    attention_window: list[int]
    bos_token_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_windows(self.attention_window, self.encoder_layers)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        window, layers = values.get("attention_window", 512), values.get("encoder_layers")
        if type(window) is int and type(layers) is int and 0 < layers <= 1 << 10:
            window = [window] * layers
        return super().from_dict({**values, "attention_window": window, "scale_embedding": False})  # which LED has not


class EncoderLayer(Module):
    """Attention and a feed-forward part, each followed by a residual and a norm."""

    def __init__(self, config: Config, window: int) -> None:
        super().__init__()
        width = config.d_model
        self.self_attn = Module()
        self.self_attn.longformer_self_attn = WindowAttention(width, config.encoder_attention_heads, window)
        self.self_attn.output = ResidualLinear(width, width)
        self.self_attn_layer_norm = LayerNorm(width)
        self.fc1 = Linear(width, config.encoder_ffn_dim)
        self.fc2 = ResidualLinear(config.encoder_ffn_dim, width)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(config.activation_function)

    def forward(self, x: Tensor, mask: Tensor | None, seeing: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        y = self.self_attn.longformer_self_attn(x, mask, seeing)
        x = self.self_attn_layer_norm(self.self_attn.output(y, x))
        return self.final_layer_norm(self.fc2(self.activation(self.fc1(x)), x))


class Encoder(TextStack):
    """The encoder; arguments as TextStack."""

    def __init__(self, config: Config, *args: Any) -> None:
        super().__init__(config, *args)
        self.layers = ModuleList(EncoderLayer(config, window) for window in config.attention_window)

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, D)."""
        places = ops.arange(ids.shape[1], dtype="int32", device=ids.device)
        seeing = (places == 0).to("int32").reshape(1, -1).expand(*ids.shape)
        x = self.embed(ids, places)
        for layer in self.layers:
            x = layer(x, mask, seeing)
        return x


class LedModel(Module):
    """Encoder and decoder over one table of words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.d_model
        self.shared = table = Embedding(config.vocab_size, width, config.pad_token_id)
        self.encoder = Encoder(config, Embedding(config.max_encoder_position_embeddings, width), 0, table)
        self.decoder = Decoder(config, Embedding(config.max_decoder_position_embeddings, width), 0, table)


class Led(BartLanguageModel):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        model = LedModel(config)
        table = model.shared if config.tie_word_embeddings else None
        super().__init__(config, model, config.vocab_size, table, base=BASE)
        self.most = config.max_encoder_position_embeddings
        self.written = config.max_decoder_position_embeddings


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": Led}
