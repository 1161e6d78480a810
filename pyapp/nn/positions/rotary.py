"""Frequencies of rotary positions (Su et al. 2021, arXiv 2104.09864), with the scalings that models of long contexts
use.

`rotary_frequencies` reads a configuration of Hugging Face's transformers. `RotaryFrequencies.table` makes the table for
`ops.rope` and the caches.

The scalings: "linear" (Chen et al. 2023, arXiv 2306.15595), "dynamic" (NTK-aware, of the length of the text), "yarn"
(Peng et al. 2023, arXiv 2309.00071), "longrope" (Ding et al. 2024, arXiv 2402.13753), "llama3" (Llama 3.1) and
"proportional" (Gemma 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, isfinite, log, pi, sqrt
from sys import float_info
from typing import Any

from pyapp.dataclass import dataclass

from ...engine import Device, Tensor
from ...engine.device import cpu
from ...engine.ops import cat, stack, tensor
from ...engine.ops.rotary import rotation_table
from ...errors import ModelError

__all__ = ["RotaryFrequencies", "grid_rotations", "rotary_frequencies"]

HINT = "Load the model with its original configuration"
LARGEST_HEAD = 1 << 16


@dataclass(frozen=True)
class RotaryFrequencies:
    """The angles of rotary positions: pair i of a head turns by `per_position[i]` radians for each position. cos and
    sin are multiplied by `attention_factor`.
    """

    per_position: tuple[float, ...]
    attention_factor: float = 1.0
    longest: float | None = None  # the tokens of the longest text that turns so, where longer ones turn otherwise

    def table(self, positions: int, device: Device | str = cpu) -> Tensor:
        """cos and sin for the positions 0 .. positions - 1: float32 (positions, R / 2, 2), for `ops.rope`."""
        return rotation_table(positions, self.per_position, self.attention_factor).to(device)

    def rotations(self, places: Tensor) -> Tensor:
        """cos and sin at places (N,): float32 (N, R / 2, 2), by ops. The angles are float32, so far from the first
        place they are less exact than those of `table`.
        """
        angles = places.to("float32").unsqueeze(-1) * tensor(self.per_position, device=places.device)  # (N, R / 2)
        return stack([angles.cos(), angles.sin()], -1) * self.attention_factor


def rotary_frequencies(
    config: Mapping[str, Any], *, length: int | None = None, layer_type: str | None = None
) -> RotaryFrequencies:
    """The frequencies that a configuration of transformers asks for, old (`rope_theta`, `rope_scaling`) or new
    (`rope_parameters`).

    `layer_type` chooses among the parameters of a model that has several, such as "sliding_attention". `length` is the
    number of positions that will be used: "dynamic" and "longrope" depend on it; by default the longest that needs no
    scaling. The size of a head is `head_dim`, or hidden_size / num_attention_heads. ModelError for an unknown scaling
    and for numbers that mean nothing.
    """
    parameters = _parameters(config, layer_type)
    dims = _rotated(config, parameters)
    theta = _number(parameters, "rope_theta", 10000.0)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    scaling = _SCALINGS.get(kind if isinstance(kind, str) else "")
    if scaling is None:
        known = ", ".join(name for name in _SCALINGS)
        raise ModelError(f"rotary positions of the type {kind!r:.60} are unknown", hint=f"The known types are {known}")
    try:
        found = scaling(dims, theta, parameters, config, length)
        finite = all(isfinite(step) for step in (*found.per_position, found.attention_factor))
    except ModelError:
        raise
    except (ArithmeticError, ValueError):  # a ValueError of log
        finite = False
    if not finite:
        raise ModelError(f"the rotary positions have no finite frequencies by {parameters!r:.200}", hint=HINT)
    return found


def _parameters(config: Mapping[str, Any], layer_type: str | None) -> dict[str, Any]:
    """The parameters of the rotary positions, in transformers' present form."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(given, Mapping):
        raise ModelError(f"rope_parameters is {given!r:.60}, expected a dictionary", hint=HINT)
    if given and all(isinstance(value, Mapping) or value is None for value in given.values()):
        if layer_type not in given:
            raise ModelError(f"rope_parameters has no layer type {layer_type!r}, only {', '.join(given)}", hint=HINT)
        given = given[layer_type] or {}
    parameters = {key: value for key, value in given.items() if value is not None}
    for name, others in (("rope_theta", ("rotary_emb_base",)), ("partial_rotary_factor", ("rotary_pct",))):
        for key in (name, *others):
            if config.get(key) is not None:
                parameters.setdefault(name, config[key])
    if config.get("original_max_position_embeddings") is not None:
        parameters["original_max_position_embeddings"] = config["original_max_position_embeddings"]
    return parameters


def _number(values: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """A positive finite number."""
    value = values.get(name)
    if value is None:
        value = default
    if value is None:
        raise ModelError(f"the configuration does not say {name}, which its rotary positions need", hint=HINT)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= float_info.max:
        raise ModelError(f"{name} is {value!r:.60}, expected a positive number", hint=HINT)
    return float(value)


def _rotated(config: Mapping[str, Any], parameters: Mapping[str, Any]) -> int:
    """How many columns of a head are rotated."""
    if config.get("head_dim") is not None:
        head_dim = _number(config, "head_dim")
    else:
        head_dim = _number(config, "hidden_size") // _number(config, "num_attention_heads")
    dims = int(min(head_dim * _number(parameters, "partial_rotary_factor", 1.0), 2 * LARGEST_HEAD))
    if dims < 2 or dims % 2 or dims > min(head_dim, LARGEST_HEAD):
        raise ModelError(f"{dims:,} columns of heads of {head_dim:,.0f} cannot be rotated in pairs", hint=HINT)
    return dims


def _plain(dims: int, theta: float) -> list[float]:
    return [theta ** (-i / dims) for i in range(0, dims, 2)]


def _default(dims: int, theta: float, *_: Any) -> RotaryFrequencies:
    return RotaryFrequencies(tuple(_plain(dims, theta)))


def _linear(dims: int, theta: float, parameters: Mapping[str, Any], *_: Any) -> RotaryFrequencies:
    factor = _number(parameters, "factor")
    return RotaryFrequencies(tuple(step / factor for step in _plain(dims, theta)))


def _dynamic(
    dims: int, theta: float, parameters: Mapping[str, Any], config: Mapping[str, Any], length: int | None
) -> RotaryFrequencies:
    if parameters.get("alpha") is not None and dims > 2:  # Hunyuan's: the same for every length
        return RotaryFrequencies(tuple(_plain(dims, theta * _number(parameters, "alpha") ** (dims / (dims - 2)))))
    factor, usual = _number(parameters, "factor"), _number(config, "max_position_embeddings")
    stretch = factor * max(length or 0, usual) / usual - (factor - 1)
    if dims == 2:
        raise ModelError("rotary positions of the type 'dynamic' need heads of more than 2 columns", hint=HINT)
    return RotaryFrequencies(tuple(_plain(dims, theta * stretch ** (dims / (dims - 2)))))


def _original(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> float:
    """The length of the texts of the first training."""
    name = "original_max_position_embeddings"
    return _number(parameters if name in parameters else {name: config.get("max_position_embeddings")}, name)


def _factor(parameters: Mapping[str, Any], config: Mapping[str, Any], original: float) -> float:
    """How much longer the context became."""
    if "factor" in parameters:
        return _number(parameters, "factor")
    return _number(config, "max_position_embeddings") / original


def _growth(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * log(factor) + 1.0


def _yarn(
    dims: int, theta: float, parameters: Mapping[str, Any], config: Mapping[str, Any], _: int | None
) -> RotaryFrequencies:
    original = _original(parameters, config)
    factor = _factor(parameters, config, original)
    if "attention_factor" in parameters:
        attention_factor = _number(parameters, "attention_factor")
    elif parameters.get("mscale") and parameters.get("mscale_all_dim"):
        scales = (_number(parameters, name) for name in ("mscale", "mscale_all_dim"))
        attention_factor = _growth(factor, next(scales)) / _growth(factor, next(scales))
    else:
        attention_factor = _growth(factor)

    def pair_that_turns(times: float) -> float:
        """The pair, as a fraction, that turns so often within the original length."""
        return dims * log(original / (times * 2 * pi)) / (2 * log(theta))

    if theta == 1:
        raise ModelError("rotary positions of the type 'yarn' need a rope_theta other than 1", hint=HINT)
    low = pair_that_turns(_number(parameters, "beta_fast", 32.0))
    high = pair_that_turns(_number(parameters, "beta_slow", 1.0))
    if parameters.get("truncate", True):
        low, high = floor(low), ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    width = high - low if high != low else 0.001
    steps = []
    for i, step in enumerate(_plain(dims, theta)):
        ramp = min(max((i - low) / width, 0.0), 1.0)  # 0: the pair turns fast and stays; 1: it is stretched
        steps.append(step / factor * ramp + step * (1 - ramp))
    return RotaryFrequencies(tuple(steps), attention_factor)


def _longrope(
    dims: int, theta: float, parameters: Mapping[str, Any], config: Mapping[str, Any], length: int | None
) -> RotaryFrequencies:
    original = _original(parameters, config)
    factor = _factor(parameters, config, original)
    if "attention_factor" in parameters:
        attention_factor = _number(parameters, "attention_factor")
    else:
        attention_factor = 1.0 if factor <= 1 else sqrt(1 + log(factor) / log(original))
    reach = "long" if length is not None and length > original else "short"
    if f"{reach}_mscale" in parameters:  # Phi-3.5-MoE's
        attention_factor = _number(parameters, f"{reach}_mscale")
    name = f"{reach}_factor"
    factors = _divisors(parameters.get(name), dims, name)
    steps = [step / divisor for step, divisor in zip(_plain(dims, theta), factors, strict=True)]
    return RotaryFrequencies(tuple(steps), attention_factor, original if reach == "short" else None)


def _divisors(values: Any, dims: int, name: str) -> list[float]:
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != dims // 2:
        count = len(values) if isinstance(values, Sequence) else "no"
        raise ModelError(f"{name} has {count} numbers, expected {dims // 2}, one for each pair of columns", hint=HINT)
    return [_number({name: value}, name) for value in values]


def _llama3(
    dims: int, theta: float, parameters: Mapping[str, Any], config: Mapping[str, Any], _: int | None
) -> RotaryFrequencies:
    factor, original = _number(parameters, "factor"), _original(parameters, config)
    low, high = _number(parameters, "low_freq_factor"), _number(parameters, "high_freq_factor")
    if low == high:
        raise ModelError(f"low_freq_factor and high_freq_factor are both {low:g}", hint=HINT)
    steps = []
    for step in _plain(dims, theta):
        turns = original * step / (2 * pi)  # within the original length
        share = min(max((turns - low) / (high - low), 0.0), 1.0)  # 1: the pair turns fast and stays
        steps.append((1 - share) * step / factor + share * step)
    return RotaryFrequencies(tuple(steps))


def _proportional(
    dims: int, theta: float, parameters: Mapping[str, Any], config: Mapping[str, Any], _: int | None
) -> RotaryFrequencies:
    """The first pairs turn as if all did, the others do not (Gemma 4)."""
    whole, factor = _rotated(config, {}), _number(parameters, "factor", 1.0)
    turning = [theta ** (-i / whole) / factor for i in range(0, dims, 2)]
    return RotaryFrequencies((*turning, *[0.0] * (whole // 2 - len(turning))))


_SCALINGS = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,  # the first name of longrope in Phi-3
    "llama3": _llama3,
    "proportional": _proportional,
}


def grid_rotations(rows: int, columns: int, by_row: Sequence[float], by_column: Sequence[float]) -> Tensor:
    """The angles (rows * columns, R + C, 2) of the patches of a picture, for `ops.rope`: R pairs turn by the row times
    `by_row`, C pairs by the column times `by_column` (Heo et al. 2024, arXiv 2403.13298).
    """
    down = rotation_table(rows, by_row, 1.0)  # (rows, R, 2)
    across = rotation_table(columns, by_column, 1.0)  # (columns, C, 2)
    down = down.unsqueeze(1).expand(rows, columns, len(by_row), 2)
    across = across.unsqueeze(0).expand(rows, columns, len(by_column), 2)
    return cat([down, across], 2).reshape(rows * columns, len(by_row) + len(by_column), 2)
