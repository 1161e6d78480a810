"""Dream (Ye et al. 2025, arXiv 2508.15487): Qwen2's blocks without a causal mask, trained further to fill masked places
from the token before each. DiffuCoder (Gong et al. 2025, arXiv 2506.20639) has this form.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock
from pyapp.nn.encoders.masked_diffusion import Denoising, MaskedDiffusionModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import check_token, require
from .loading.gguf import BOTH_WAYS, WINDOWS, Gguf, diffusion_keys, with_mask
from .loading.qwen_config import QwenConfig

MODEL_TYPES = ("Dream",)


@dataclass(frozen=True, kw_only=True)
class Config(QwenConfig):
    """The fields of config.json."""

    model_type = "Dream"
    defaults = {"max_position_embeddings": 32768, "mask_token_id": 151_666}

    mask_token_id: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_token("mask_token_id", self.mask_token_id, self.vocab_size)
        windows = {self.window(layer) for layer in range(self.num_hidden_layers)} - {None}
        require(not windows, f"sliding_window is {windows}, and only texts that see all of themselves are known")


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=True, output_bias=False)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class DreamModel(MaskedDiffusionModel):
    """The language model."""

    usual_settings = {"temperature": 0.2, "top_p": 0.95}

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))
        self.denoising = Denoising(config.mask_token_id, shifted=True, remasking="entropy", least_time=1e-3)


GGUF = Gguf("dream", read=with_mask, write=lambda config: BOTH_WAYS, unsaid=WINDOWS, whole_keys=diffusion_keys(True))
TASKS = {"text-diffusion": DreamModel}
