"""Chameleon (Chameleon Team 2024, arXiv 2405.09818): a VQ-GAN's encoder (Gafni et al. 2022, arXiv 2203.13131) makes
tokens of a picture, which stand in the text as words do. It writes text; tokens of pictures are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, Module, RMSNorm
from pyapp.nn.decoders.decoder import CausalLanguageModel, GroupedQueryAttention, RotaryTable, Text, normalized_heads
from pyapp.nn.decoders.decoder_blocks import HeadNorm, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.vision.latent_maps import FilteredPlaceAttention, MapEncoder
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size

from .loading import picture_text
from .loading.config import FLOAT_LIMIT, DecoderConfig, FileConfig, object_of, require
from .loading.picture_text import PictureTextConfig

MODEL_TYPES = ("chameleon",)
IMAGE_PROCESSOR = "Chameleon"  # of files that name none
IGNORED = r"(model\.)?vqmodel\.(post_quant_conv|decoder)\..*"  # which draw
GROUPS = 32  # of the norms of maps
HEAD_EPSILON = 1e-5
PICTURE = re.compile(r"IMGIMG([A-J]+).?")  # the name of a picture's token: its number, in letters
# The names of the encoder's parts, and those of the modules here.
NAMES = (
    (r"encoder\.down\.(\d+)\.block\.", r"encoder.down_blocks.\1.resnets."),
    (r"encoder\.down\.(\d+)\.downsample\.", r"encoder.down_blocks.\1.downsamplers.0."),
    (r"encoder\.mid\.block_1\.", "encoder.mid_block.resnets.0."),
    (r"encoder\.mid\.block_2\.", "encoder.mid_block.resnets.1."),
    (r"encoder\.mid\.attn_1\.norm\.", "encoder.mid_block.attentions.0.group_norm."),
    (r"encoder\.mid\.attn_1\.([qkv])\.", r"encoder.mid_block.attentions.0.to_\1."),
    (r"encoder\.mid\.attn_1\.proj_out\.", "encoder.mid_block.attentions.0.to_out.0."),
    (r"encoder\.norm_out\.", "encoder.conv_norm_out."),
    (r"\.nin_shortcut\.", ".conv_shortcut."),
)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(FileConfig):
    """The fields of vq_config."""

    model_type = "chameleon_vqgan"

    embed_dim: int = 256
    num_embeddings: int = 8192
    double_latent: bool = False
    latent_channels: int = 256
    resolution: int = 512
    in_channels: int = 3
    base_channels: int = 128
    channel_multiplier: tuple[int, ...] = (1, 1, 2, 2, 4)
    num_res_blocks: int = 2
    attn_resolutions: list[int] | None = None
    attn_type: str | None = "vanilla"

    def __post_init__(self) -> None:
        super().__post_init__()
        levels, most = self.channel_multiplier, 1 << 10
        require(1 <= len(levels) <= 8, f"channel_multiplier is {levels!r:.60}, expected at most 8 levels")
        for times in levels:
            require(type(times) is int and 1 <= times <= 64, f"channel_multiplier is {levels!r:.60}")
        base, side = self.base_channels, self.resolution
        require(base % GROUPS == 0 and base <= most, f"base_channels is {base}, expected a multiple of {GROUPS}")
        require(self.latent_channels <= most, f"latent_channels is {self.latent_channels:,}, expected at most {most}")
        require(self.num_embeddings <= 1 << 22, f"num_embeddings is {self.num_embeddings:,}")
        require(self.num_res_blocks <= 64, f"num_res_blocks is {self.num_res_blocks}, expected at most 64")
        require(side <= 4096 and side % self.scale == 0, f"resolution is {side}, expected a multiple of {self.scale}")
        require(self.in_channels == 3, f"in_channels is {self.in_channels:,}, expected 3")
        require(not self.double_latent, "double_latent is true, expected false")
        require(not self.attn_resolutions, f"attn_resolutions is {self.attn_resolutions!r:.60}, expected none")

    @property
    def scale(self) -> int:
        """The pixels of a side of what becomes one token."""
        return 1 << (len(self.channel_multiplier) - 1)


@dataclass(frozen=True, kw_only=True)
class TextConfig(DecoderConfig):
    """The fields of the text."""

    model_type = "chameleon"
    defaults = {
        "vocab_size": 65536, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "max_position_embeddings": 4096,
    }  # fmt: skip

    intermediate_size: int = 11008
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    swin_norm: bool = False


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json, whose fields of the text have no object of their own.

    picture_ids: the tokens of the VQ-GAN's entries.
    """

    model_type = "chameleon"
    token = ("image_token_id", 8711)

    picture_ids: Sequence[int] = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        text = TextConfig.from_dict({name: value for name, value in values.items() if name != "head_dim"})
        sees = EncoderConfig.from_dict(object_of(values, "vq_config"))
        names = object_of(values, "vocabulary_map")
        entries = {}
        for name, number in names.items():
            found = PICTURE.fullmatch(name)
            if found is not None and len(found[1]) <= 9:
                entry = int("".join(str(ord(letter) - ord("A")) for letter in found[1]))
                plausible = type(number) is int and 0 <= number < text.vocab_size
                require(plausible, f"vocabulary_map says {number!r:.40} of {name}, expected a token")
                entries[entry] = number
        missing = next((entry for entry in range(sees.num_embeddings) if entry not in entries), None)
        require(missing is None, f"vocabulary_map has no token of the picture's entry {missing}")
        ids = tuple(entries[entry] for entry in range(sees.num_embeddings))
        given = {"image_token_id": names["<image>"]} if "<image>" in names else {}
        made = cls(text, {**values, **given}, sees, ids)
        made.check_token()
        return made

    def language_model(self) -> CausalLanguageModel:
        return ChameleonText(self.text_config, self.picture_ids)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, **self.text_config.to_dict(), "vq_config": self.vision_config.to_dict()}


class Attention(GroupedQueryAttention):
    """Self-attention whose queries and keys are normalised, with a weight for each feature of each head."""

    def __init__(self, config: TextConfig, layer: int, rotary: RotaryTable) -> None:
        heads = config.heads()
        super().__init__(layer, config.hidden_size, heads, rotary, bias=config.attention_bias)
        self.q_norm = HeadNorm(heads.heads, heads.head_dim, HEAD_EPSILON, bias=True)
        self.k_norm = HeadNorm(heads.kv_heads, heads.head_dim, HEAD_EPSILON, bias=True)

    def normalized(self, qkv: Tensor) -> Tensor:
        return normalized_heads(qkv, self.heads, self.q_norm, self.k_norm)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it, or with `swin_norm` after it."""

    def __init__(self, config: TextConfig, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        attention = Attention(config, layer, rotary)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))
        self.late = config.swin_norm

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        if not self.late:
            return super().forward(x, text)
        x = x + self.input_layernorm(self.self_attn(x, text))
        return x + self.post_attention_layernorm(self.mlp(x))


class ChameleonText(RotaryLanguageModel):
    """The language model, which writes no tokens of pictures."""

    def __init__(self, config: TextConfig, picture_ids: Sequence[int]) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))
        drawn = set(picture_ids)
        unwritten = ops.tensor([number in drawn for number in range(config.vocab_size)])  # (V,)
        self.register_buffer("unwritten", unwritten, persistent=False)

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return super().head(x).masked_fill(self.unwritten, -FLOAT_LIMIT)


class PictureTokens(Module):
    """The VQ-GAN's encoder: which entry of a table is the nearest to each square of a picture."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        widths = [config.base_channels * times for times in (1, *config.channel_multiplier)]
        attention = FilteredPlaceAttention if config.attn_type == "vanilla" else None
        self.encoder = MapEncoder(
            config.in_channels, widths, config.latent_channels, config.num_res_blocks, GROUPS, attention
        )
        self.quant_conv = BlockConv2d(config.latent_channels, config.embed_dim, 1)
        self.quantize = Module()
        self.quantize.embedding = Embedding(config.num_embeddings, config.embed_dim)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → the entries (B, rows * columns) int64, row by row."""
        x = self.quant_conv(self.encoder(pixel_values)).flatten(2).transpose(1, 2)  # (B, rows * columns, embed_dim)
        table = self.quantize.embedding.weight  # (N, embed_dim)
        distances = table.square().sum(1) - 2 * (x @ table.T)  # (B, rows * columns, N), but for what all entries have
        return distances.argmin(-1)


class ChameleonForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    prompt_end = "<reserved08706>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = PictureTokens(config.vision_config)
        self.register_buffer("picture_ids", ops.tensor(list(config.picture_ids), dtype="int64"), persistent=False)

    @property
    def pixels(self) -> tuple[int, int]:
        side = self.config.vision_config.resolution
        return side, side

    @property
    def picture_tokens(self) -> int:
        seen = self.config.vision_config
        return int(seen.resolution // seen.scale) ** 2

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return f"<racm3:break>{super().picture_text(rows, columns, size)}<eoss>"

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        entries = self.vision_tower(pixel_values)  # (B, T)
        found: Tensor = self.language_model.stack.embedding(self.picture_ids[entries])
        return found


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    name = re.sub(r"^(model\.)?vqmodel\.", "vision_tower.", name)
    if name.startswith("vision_tower."):
        for old, new in NAMES:
            name = re.sub(old, new, name)
        return name
    return picture_text.renamed(name)


TASKS: Mapping[str, Any] = {picture_text.TASK: ChameleonForConditionalGeneration}
