"""Chronos-2 (Ansari et al. 2025, arXiv 2510.15821; the package chronos-forecasting): an encoder over the patches of
series, whose layers attend along time and among the series of a group. Patches of the future, which are empty or have
values that are known in advance, become the quantiles of the values that follow.

Files have T5's `model_type`, with a `chronos_config` in config.json.
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
from pyapp.nn import Embedding, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.forecasting import Forecaster, ResidualBlock, Wanted, between_levels
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.linear import ResidualLinear

from .loading.config import check_heads, require
from .loading.forecasting_config import LONGEST, MOST_PATCHES, check_count, check_levels
from .loading.t5_config import T5Config

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL_TYPES = ("chronos2",)  # "t5" in config.json
BASE = ""
LAYERS = ("hidden_layer", "output_layer", "residual_layer")
SMALLEST = 1e-5  # the scale of a series that does not change
REGISTER = 1  # the word that stands between the past and the future
PATHS = tuple(i / 10 for i in range(1, 10))  # the quantiles with which the model goes on


@dataclass(frozen=True)
class Config(T5Config):
    """The fields of T5's encoder, and `chronos_config`: patches and quantiles."""

    rope_theta: float = 10000.0
    chronos_config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        own = self.chronos_config
        for name in ("context_length", "input_patch_size", "output_patch_size", "input_patch_stride"):
            check_count(f"chronos_config.{name}", own.get(name), LONGEST)
        size = own["input_patch_size"]
        require(
            own["output_patch_size"] == own["input_patch_stride"] == size,
            f"chronos_config has patches of {size}, {own['output_patch_size']} and {own['input_patch_stride']} values, "
            "expected one size",
        )
        check_count("chronos_config.max_output_patches", own.get("max_output_patches", 1), LONGEST // size)
        require(own["context_length"] // size < MOST_PATCHES, f"more than {MOST_PATCHES:,} patches")
        scale = own.get("time_encoding_scale")
        if scale is not None:
            check_count("chronos_config.time_encoding_scale", scale, 1 << 24)
        check_levels(own.get("quantiles"))
        require(0.5 in own["quantiles"], f"chronos_config.quantiles is {own['quantiles']!r:.60}, expected 0.5 in it")
        require(own.get("use_reg_token") is True, "chronos_config.use_reg_token is not true")
        require(type(own.get("use_arcsinh", False)) is bool, "chronos_config.use_arcsinh is not true or false")
        require(not self.gated, f"feed_forward_proj {self.feed_forward_proj!r:.40} is not known in Chronos-2")
        check_heads(self.num_heads * self.d_kv, self.num_heads, self.num_heads, self.d_kv, LONGEST)
        require(self.rope_theta > 0, f"rope_theta is {self.rope_theta}, expected a positive number")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "vocab_size": 2, "pad_token_id": 0})


class Projections(Module):
    """The projections of attention, without biases or a scale."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.size = config.num_heads, config.d_kv
        inner = self.heads * self.size
        self.q, self.k, self.v = (Linear(config.d_model, inner, bias=False) for _ in range(3))
        self.o = ResidualLinear(inner, config.d_model, bias=False)

    def attend(self, x: Tensor, mask: Tensor, residual: Tensor, table: Tensor | None = None) -> Tensor:
        """x and residual (B, T, d_model), mask (B, 1, T or 1, T) → (B, T, d_model). table: of rotary positions."""
        q, k, v = (part(x).reshape(*x.shape[:2], self.heads, self.size) for part in (self.q, self.k, self.v))
        if table is not None:
            q, k = (ops.rope(part, table, interleaved=False) for part in (q, k))
        y = ops.attention(q, k, v, False, 1.0, mask=mask)  # (B, T, H, D)
        return self.o(y.reshape(*x.shape[:2], self.heads * self.size), residual)


class Attention(Module):
    """A norm and attention, among the patches of a series or among the series of a group."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.self_attention = Projections(config)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def along(self, x: Tensor, mask: Tensor, table: Tensor) -> Tensor:
        """Among the patches: x (B, N, d_model), mask (B, 1, 1, N) → (B, N, d_model)."""
        return self.self_attention.attend(self.layer_norm(x), mask, x, table)

    def across(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Among the series: x (B, N, d_model), mask (N, 1, B, B), None: each is alone → (B, N, d_model)."""
        own = self.self_attention
        if mask is None:  # the weight of the one key is 1
            return own.o(own.v(self.layer_norm(x)), x)
        x = x.transpose(0, 1).contiguous()
        return own.attend(self.layer_norm(x), mask, x).transpose(0, 1).contiguous()


class FeedForward(Module):
    """A norm, two layers and the residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.mlp = Module()
        self.mlp.wi = Linear(config.d_model, config.d_ff, bias=False)
        self.mlp.wo = ResidualLinear(config.d_ff, config.d_model, bias=False)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)
        self.activation = activation_named(config.activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, N, d_model) → (B, N, d_model)."""
        return self.mlp.wo(self.activation(self.mlp.wi(self.layer_norm(x))), x)


class Block(Module):
    """Attention along time, attention among series and a feed-forward part, in a list as the files have them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layer = ModuleList([Attention(config), Attention(config), FeedForward(config)])

    def forward(self, x: Tensor, mask: Tensor, groups: Tensor | None, table: Tensor) -> Tensor:
        """x (B, N, d_model) → (B, N, d_model)."""
        time, group, feed_forward = self.layer
        return feed_forward(group.across(time.along(x, mask, table), groups))


class Chronos2(Forecaster):
    """The encoder with both embeddings of patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        own = config.chronos_config
        self.config = config
        self.reads, self.size = own["context_length"], own["input_patch_size"]
        self.patches = own.get("max_output_patches", 1)
        self.horizon = self.size * self.patches
        self.levels: tuple[float, ...] = tuple(own["quantiles"])
        self.arcsinh = own.get("use_arcsinh", False)
        self.moment = own.get("time_encoding_scale") or self.reads
        self.shared = Embedding(config.vocab_size, config.d_model)
        self.input_patch_embedding = ResidualBlock(
            3 * self.size, config.d_ff, config.d_model, config.activation, LAYERS
        )
        self.encoder = Module()
        self.encoder.block = ModuleList(Block(config) for _ in range(config.num_layers))
        self.encoder.final_layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)
        outputs = len(self.levels) * self.size
        self.output_patch_embedding = ResidualBlock(config.d_model, config.d_ff, outputs, config.activation, LAYERS)

    def forward(
        self, context: Tensor, patches: int = 1, groups: Tensor | None = None, future: Tensor | None = None
    ) -> Tensor:
        """context (B, T) → the quantiles (B, levels, patches * size) of the next values; NaN is a value that is not
        known. groups (B,) integers: series of a number are read together; None: each alone. future (B, F): the next
        values of series that are known in advance, NaN where they are not.
        """
        if context.ndim != 2 or context.shape[0] < 1 or not 1 <= context.shape[1] <= self.reads:
            raise InputError(f"Chronos-2: series are (B, T), T from 1 to {self.reads}, not {describe(context)}")
        batch, most = context.shape[0], patches * self.size
        if groups is not None and tuple(groups.shape) != (batch,):
            raise InputError(f"Chronos-2: groups are ({batch},), not {describe(groups)}")
        if future is not None and (future.ndim != 2 or future.shape[0] != batch or not 1 <= future.shape[1] <= most):
            raise InputError(f"Chronos-2: a future is ({batch}, F), F from 1 to {most}, not {describe(future)}")
        place, scale = self._norms(context)
        past, seen = self._patched(context, place, scale, -context.shape[1] % self.size, 0)
        if future is None:
            future = ops.full((batch, most), float("nan"), device=context.device)
        ahead, _ = self._patched(future, place, scale, 0, most - future.shape[1])
        count = past.shape[1]
        register = self.shared(ops.full((batch, 1), REGISTER, dtype="int32", device=past.device))
        x = ops.cat([self._embedded(past, -count), register, self._embedded(ahead, 0)], 1)  # (B, N, d_model)
        mask = ops.cat([seen, ops.ones(batch, 1 + patches, dtype="bool", device=x.device)], 1)  # (B, N)
        along, across = mask.reshape(batch, 1, 1, -1), None
        if groups is not None:
            alike = groups.reshape(-1, 1) == groups  # (B, B)
            itself = ops.arange(batch, device=x.device)
            alone = itself.reshape(-1, 1) == itself
            across = alike.logical_and(mask.transpose(0, 1).unsqueeze(1)).logical_or(alone).unsqueeze(1)
        table = ops.rope_table(x.shape[1], self.config.d_kv, self.config.rope_theta).to(x.device)
        for block in self.encoder.block:
            x = block(x, along, across, table)
        x = self.encoder.final_layer_norm(x.narrow(1, count + 1, patches))
        y = self.output_patch_embedding(x).reshape(batch, patches, len(self.levels), self.size)
        y = y.transpose(1, 2).reshape(batch, len(self.levels), most)
        return (y.sinh() if self.arcsinh else y) * scale.unsqueeze(2) + place.unsqueeze(2)

    def _norms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the deviation (B, 1) of the values (B, T) that are known."""
        known = x.isnan().logical_not()
        count = known.to("float32").sum(1, keepdim=True)
        divisor = count.clamp(min=1.0)
        place = ops.where(known, x, 0.0).sum(1, keepdim=True) / divisor
        scale = (ops.where(known, x - place, 0.0).square().sum(1, keepdim=True) / divisor).sqrt()
        scale = ops.where(scale == 0, SMALLEST, scale)
        return place, ops.where(count == 0, 1.0, scale)

    def _patched(self, x: Tensor, place: Tensor, scale: Tensor, before: int, behind: int) -> tuple[Tensor, Tensor]:
        """x (B, T) with room before and behind it → values and whether they are known (B, N, 2 size), and the patches
        (B, N) bool in which any is.
        """
        known = x.isnan().logical_not()
        x = ops.where(known, (x - place) / scale, 0.0)
        x = x.asinh() if self.arcsinh else x
        parts = [x, known.to("float32")]
        if before or behind:
            parts = [ops.pad(part, (before, behind)) for part in parts]
        parts = [part.reshape(part.shape[0], -1, self.size) for part in parts]
        return ops.cat(parts, 2), parts[1].sum(2) > 0

    def _embedded(self, patches: Tensor, first: int) -> Tensor:
        """Patches (B, N, 2 size), the first of which is so many behind the end of the past → (B, N, d_model)."""
        batch, count = patches.shape[:2]
        times = (ops.arange(count * self.size, device=patches.device) + first * self.size).to("float32") / self.moment
        times = times.reshape(1, count, self.size).expand(batch, count, self.size)
        return self.input_patch_embedding(ops.cat([times, patches], 2))

    def forecasts(
        self, past: NDArray[np.float32], wanted: Wanted
    ) -> Generator[int, None, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Beyond its horizon the model goes on with nine of its quantiles; the quantiles of what it then names, each
        with the share of the future that it stands for, are those of the next values.
        """
        paths = [level for level in PATHS if self.levels[0] <= level <= self.levels[-1]] or [0.5]
        weights = np.outer(_shares(paths), _shares(self.levels)).reshape(-1)
        found: Any = self._quantiles(past, self._count(wanted.horizon))[0]  # (levels, values)
        last, known = found, np.repeat(past, len(paths), 0)
        while found.shape[1] < wanted.horizon:
            yield found.shape[1]
            more = between_levels(last.T, self.levels, paths).T.astype(np.float32)
            known = np.concatenate([known, more], 1)[:, -self.reads :]
            named = self._quantiles(known, self._count(wanted.horizon - found.shape[1]))
            last = _weighed(named.reshape(len(weights), -1), weights, self.levels)
            found = np.concatenate([found, last], 1)
        yield wanted.horizon
        found = found[:, : wanted.horizon].T[None]  # (1, H, levels)
        return found[:, :, self.levels.index(0.5)], between_levels(found, self.levels, wanted.quantiles)

    def _count(self, values: int) -> int:
        """The patches of a pass for so many values."""
        return min(-(-values // self.size), self.patches)

    def _quantiles(self, known: NDArray[np.float32], patches: int) -> NDArray[np.float64]:
        """Series (B, T) → the quantiles (B, levels, patches * size)."""
        y = self(ops.from_numpy(np.ascontiguousarray(known)).to(self.device), patches)
        found: NDArray[np.float64] = y.to("float32").cpu().numpy().astype(np.float64)
        return found


def _shares(levels: Any) -> NDArray[np.float64]:
    """The share of the future that each level stands for: half of what lies between its neighbours."""
    ends = np.concatenate([[0.0], levels, [1.0]])
    shares = (ends[2:] - ends[:-2]) / 2
    found: NDArray[np.float64] = shares / shares.sum()
    return found


def _weighed(
    samples: NDArray[np.float64], weights: NDArray[np.float64], levels: tuple[float, ...]
) -> NDArray[np.float64]:
    """The quantiles (levels, H) of samples (S, H) with weights (S,)."""
    order = np.argsort(samples, 0, kind="stable")
    values, reached = np.take_along_axis(samples, order, 0), np.cumsum(weights[order], 0)
    rows = [np.interp(levels, reached[:, i], values[:, i]) for i in range(samples.shape[1])]
    return np.stack(rows, 1)


TASKS: Mapping[str, Callable[[Config], Module]] = {"time-series-forecasting": Chronos2}
