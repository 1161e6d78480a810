"""Vectors of voices: x-vectors (Snyder et al. 2018, https://doi.org/10.1109/ICASSP.2018.8461375) over an encoder of
sound. Two recordings of one speaker have vectors of nearly one direction.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ...errors import InputError
from ..encoders.encoders import until
from ..layers.containers import ModuleList
from ..layers.linear import Linear
from ..module import Module
from ..parameter import new_parameter
from .sound import SoundHead, summed_states


class TimeDelay(Module):
    """A linear layer over `count` moments, `apart` from one another."""

    def __init__(self, inputs: int, outputs: int, count: int, apart: int) -> None:
        super().__init__()
        self.count, self.apart = count, apart
        self.kernel = Linear(inputs * count, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, inputs) → (B, T - (count - 1) * apart, outputs)."""
        left = x.shape[1] - (self.count - 1) * self.apart
        parts = [x.narrow(1, i * self.apart, left) for i in range(self.count)]
        return ops.relu(self.kernel(ops.cat(parts, 2) if len(parts) > 1 else x))


class SpeakerEncoder(SoundHead):
    """The vector of a recording's voice, from the means and the deviations of its moments behind layers of time delays.
    `config` has the fields of SpeakerConfig.
    """

    unread = r"(classifier|objective)\..*"  # of files: what training compared vectors with

    def __init__(self, name: str, encoder: Any) -> None:
        super().__init__(name, encoder)
        config = self.config
        widths = [config.tdnn_dim[0], *config.tdnn_dim]
        self.layer_weights = None
        if config.use_weighted_layer_sum:
            self.layer_weights = new_parameter(ops.ones, config.num_hidden_layers + 1)
        self.projector = Linear(config.hidden_size, widths[0])
        self.tdnn = ModuleList(
            TimeDelay(widths[i], widths[i + 1], count, apart)
            for i, (count, apart) in enumerate(zip(config.tdnn_kernel, config.tdnn_dilation, strict=True))
        )
        self.feature_extractor = Linear(2 * widths[-1], config.xvector_output_dim)

    @property
    def least(self) -> int:
        """The moments that a recording needs: two behind all layers."""
        sizes = zip(self.config.tdnn_kernel, self.config.tdnn_dilation, strict=True)
        return 2 + sum((count - 1) * apart for count, apart in sizes)

    def forward(self, input_values: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_values (B, N), attention_mask (B, N) → vectors (B, xvector_output_dim). InputError for recordings that
        are too short.
        """
        x = summed_states(self.encoder, self.layer_weights, input_values, attention_mask)  # (B, T, D)
        if x.shape[1] < self.least:
            raise InputError(
                f"{type(self).__name__}: a recording of {input_values.shape[1]:,} samples is too short for a vector"
            )
        x = self.projector(x)
        for layer in self.tdnn:
            x = layer(x)
        shares = self._shares(attention_mask, x)  # (B, T', 1)
        count = shares.sum(1)  # (B, 1)
        mean = (x * shares).sum(1) / count
        squares = ((x - mean.unsqueeze(1)).square() * shares).sum(1)
        return self.feature_extractor(ops.cat([mean, (squares / (count - 1)).sqrt()], 1))

    def _shares(self, attention_mask: Tensor | None, x: Tensor) -> Tensor:
        """1 for the moments of x (B, T, D) that are read, 0 for others, as transformers counts them: by the layers'
        sizes alone, whatever is between their moments.
        """
        if attention_mask is None:
            return ops.ones(1, x.shape[1], 1, dtype=x.dtype, device=x.device)
        lost = sum(count - 1 for count in self.config.tdnn_kernel)
        ends = [self.encoder.counted(int(n)) - lost for n in attention_mask.to("int32").sum(1).tolist()]
        if min(ends) < 2:
            raise InputError(f"{type(self).__name__}: a recording of the batch is too short for a vector")
        return until(ends, x.shape[1], x.device).to(x.dtype).unsqueeze(2)

    def sound_features(self, input_values: Tensor) -> Tensor:
        """input_values (B, N) → vectors (B, xvector_output_dim), as models of recordings and texts give them."""
        return self(input_values)
