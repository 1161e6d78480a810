"""Chronos-Bolt (Ansari et al. 2024, the package chronos-forecasting): a T5 over patches of a series, whose decoder
reads one token and names the quantiles of the values that follow.

Files are those of T5, with a `chronos_config` in config.json.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Embedding, Module
from pyapp.nn.forecasting import Forecaster, ResidualBlock, Wanted, between_levels
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import WholeMemory
from pyapp.nn.sequence_to_sequence.t5 import decoder_stack, encoder_stack

from .loading.config import require
from .loading.forecasting_config import LONGEST, MOST_PATCHES, check_count, check_levels
from .loading.t5_config import T5Config

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL_TYPES = ("chronos_bolt",)  # "t5" in config.json
BASE = "transformer"
IGNORED = r"lm_head\.weight"
LAYERS = ("hidden_layer", "output_layer", "residual_layer")
SMALLEST = 1e-5  # the scale of a series that does not change
LEVELS_AT_MOST = 32  # whose squares are computed together beyond the horizon


@dataclass(frozen=True)
class Config(T5Config):
    """The fields of T5, and `chronos_config`: patches and quantiles. The words are the start and, perhaps, the token
    that stands after the patches.
    """

    chronos_config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        own = self.chronos_config
        for name in ("context_length", "prediction_length", "input_patch_size", "input_patch_stride"):
            check_count(f"chronos_config.{name}", own.get(name), LONGEST)
        size, stride = own["input_patch_size"], own["input_patch_stride"]
        require(stride <= size, f"chronos_config.input_patch_stride is {stride}, of patches of {size}")
        patches = own["context_length"] // stride + 1
        require(patches <= MOST_PATCHES, f"{patches:,} patches, expected at most {MOST_PATCHES:,}")
        check_levels(own.get("quantiles"))
        require(
            len(own["quantiles"]) <= LEVELS_AT_MOST and 0.5 in own["quantiles"],
            f"chronos_config.quantiles is {own['quantiles']!r:.60}, expected 0.5 and at most {LEVELS_AT_MOST}",
        )
        require(type(own.get("use_reg_token", False)) is bool, "chronos_config.use_reg_token is not true or false")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        own = values.get("chronos_config")
        words = 2 if isinstance(own, dict) and own.get("use_reg_token") else 1
        return super().from_dict({**values, "vocab_size": words, "pad_token_id": 0})


class ChronosBolt(Forecaster):
    """The encoder over patches, and the decoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        own = config.chronos_config
        self.config = config
        self.reads, self.horizon = own["context_length"], own["prediction_length"]
        self.levels: tuple[float, ...] = tuple(own["quantiles"])
        self.size, self.stride = own["input_patch_size"], own["input_patch_stride"]
        self.shared = Embedding(config.vocab_size, config.d_model)
        sizes = (2 * self.size, config.d_ff, config.d_model)
        self.input_patch_embedding = ResidualBlock(*sizes, config.activation, LAYERS)
        self.encoder = encoder_stack(config, self.shared)
        self.decoder = decoder_stack(config, self.shared)
        outputs = len(self.levels) * self.horizon
        self.output_patch_embedding = ResidualBlock(config.d_model, config.d_ff, outputs, config.activation, LAYERS)

    def forward(self, context: Tensor) -> Tensor:
        """context (B, T) → the quantiles (B, levels, prediction_length) of the next values."""
        if context.ndim != 2 or context.shape[0] < 1 or not 1 <= context.shape[1] <= self.reads:
            raise InputError(f"Chronos-Bolt: series are (B, T), T from 1 to {self.reads}, not {describe(context)}")
        place = context.mean(1, keepdim=True)
        scale = (context - place).square().mean(1, keepdim=True).sqrt()
        scale = ops.where(scale == 0, SMALLEST, scale)
        x, known = (context - place) / scale, ops.ones_like(context)
        before = -context.shape[1] % self.size
        x, known = ((ops.pad(part, (before, 0)) if before else part) for part in (x, known))
        x, known = (part.unfold(1, self.size, self.stride) for part in (x, known))  # (B, N, size)
        x = self.input_patch_embedding(ops.cat([x, known], 2))  # (B, N, d_model)
        start = self._token(self.config.decoder_start_token_id, x)
        if self.config.vocab_size > 1:
            x = ops.cat([x, self.shared(self._token(1, x))], 1)
        encoded = self.encoder.encode_vectors(x, None)
        y = self.decoder.decode(start, WholeMemory(encoded, None, 1))  # (B, 1, d_model)
        y = self.output_patch_embedding(y.squeeze(1)) * scale + place
        return y.reshape(y.shape[0], len(self.levels), self.horizon)

    def _token(self, number: int, x: Tensor) -> Tensor:
        """A token (B, 1) int32 for each series."""
        return ops.full((x.shape[0], 1), number, dtype="int32", device=x.device)

    def forecasts(
        self, past: NDArray[np.float32], wanted: Wanted
    ) -> Generator[int, None, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Beyond its horizon the model goes on with each of its quantiles; the quantiles of what it then names are
        those of the next values.
        """
        count = len(self.levels)
        known = past[:, -self.reads :]
        found: Any = self._quantiles(known)  # (levels, horizon)
        last = found
        known = np.repeat(known, count, 0)  # (levels, T)
        while found.shape[1] < wanted.horizon:
            yield found.shape[1]
            known = np.concatenate([known, last.astype(np.float32)], 1)[:, -self.reads :]
            last = np.quantile(self._quantiles(known), np.array(self.levels), axis=0)
            found = np.concatenate([found, last], 1)
        yield wanted.horizon
        found = found[:, : wanted.horizon].T[None]  # (1, H, levels)
        return found[:, :, self.levels.index(0.5)], between_levels(found, self.levels, wanted.quantiles)

    def _quantiles(self, known: NDArray[np.float32]) -> NDArray[np.float64]:
        """The quantiles of series (B, T) → (B * levels, horizon)."""
        y = self(ops.from_numpy(np.ascontiguousarray(known)).to(self.device)).to("float32").cpu().numpy()
        return y.reshape(-1, self.horizon).astype(np.float64)


TASKS: Mapping[str, Callable[[Config], Module]] = {"time-series-forecasting": ChronosBolt}
