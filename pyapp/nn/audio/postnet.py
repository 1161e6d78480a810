"""What writes the frames of a spectrogram and refines them with convolutions (Shen et al. 2018, arXiv 1712.05884)."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..layers.channel_normalization import BatchNorm1d
from ..layers.containers import ModuleList
from ..layers.convolution import Conv1d
from ..layers.linear import Linear
from ..module import Module


class NormedConvolution(Module):
    """A convolution, a norm of batches, and a hyperbolic tangent, but for the last one."""

    def __init__(self, inputs: int, outputs: int, kernel: int, last: bool) -> None:
        super().__init__()
        self.conv = Conv1d(inputs, outputs, kernel, padding=(kernel - 1) // 2, bias=False)
        self.batch_norm = BatchNorm1d(outputs)
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, F) → (B, C', F)."""
        x = self.batch_norm(self.conv(x))
        return x if self.last else ops.tanh(x)


class Postnet(Module):
    """`config` has hidden_size, num_mel_bins, reduction_factor (r: the frames of a vector), and of the convolutions
    speech_decoder_postnet_layers, _units and _kernel.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        bins, units = config.num_mel_bins, config.speech_decoder_postnet_units
        self.bins, last = bins, config.speech_decoder_postnet_layers - 1
        self.feat_out = Linear(config.hidden_size, bins * config.reduction_factor)
        self.layers = ModuleList(
            NormedConvolution(
                units if i else bins, bins if i == last else units, config.speech_decoder_postnet_kernel, i == last
            )
            for i in range(last + 1)
        )  # fmt: skip

    def plain(self, x: Tensor) -> Tensor:
        """x (B, T, D) → frames (B, T * r, bins), which are not refined."""
        return self.feat_out(x).reshape(x.shape[0], -1, self.bins)

    def refined(self, frames: Tensor) -> Tensor:
        """frames (B, F, bins) → (B, F, bins)."""
        x = frames.transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return frames + x.transpose(1, 2)
