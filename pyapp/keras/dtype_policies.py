"""keras.dtype_policies: in which dtype layers keep their weights, and in which they compute.

A policy is a dtype for both, "mixed_bfloat16" or "mixed_float16": weights in float32, inputs, outputs and what is
computed between them in short floats (Micikevicius et al. 2018, arXiv 1710.03740). "int8_from_float32" and such names
are those of quantised layers (see `keras.quantizers`), with the policy that they had before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from ..engine import DType, Tensor, as_dtype
from ..engine import ops as engine_ops
from ..train.floats import floatx
from .not_there import lacking
from .settings import SETTINGS
from .symbolic_tensors import KerasTensor

__all__ = [
    "DTypePolicy", "DTypePolicyMap", "FloatDTypePolicy", "Int4DTypePolicy", "QuantizedDTypePolicy",
    "QuantizedFloat8DTypePolicy", "deserialize", "get", "serialize",
]  # fmt: skip

_MIXED = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
QUANTIZATION_MODES = ("int8", "int4", "float8")
_CALIBRATED = ("gptq", "awq")  # Keras' modes that are not here
_BETWEEN = "_from_"  # the mode and the policy before it in the name of a quantised policy


class DTypePolicy:
    """The dtypes of a layer: a dtype's name, "mixed_bfloat16" or "mixed_float16". None: the session's policy."""

    keras_module = "keras"

    quantization_mode: str | None = None

    def __init__(self, name: str | None = None) -> None:
        name = (SETTINGS.dtype_policy or floatx()) if name is None else name
        if not isinstance(name, str):
            raise TypeError(f"DTypePolicy: takes a name such as 'mixed_bfloat16', not {name!r:.60}")
        try:
            compute, variable = as_dtype(_MIXED.get(name, name)), as_dtype("float32" if name in _MIXED else name)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"DTypePolicy: {name!r:.60} is not a policy; there are mixed_bfloat16, mixed_float16, and the names of "
                "dtypes, such as float32"
            ) from error
        self.name = name if name in _MIXED else compute.name
        self._compute, self._variable = compute, variable

    @property
    def compute_dtype(self) -> str:
        """The dtype of inputs, outputs and computation."""
        return self._compute.name

    @property
    def variable_dtype(self) -> str:
        """The dtype of weights."""
        return self._variable.name

    def convert_input(self, x: Any, autocast: bool, dtype: Any) -> Any:
        """An input as a tensor; a floating-point one in `dtype`, if `autocast`."""
        if isinstance(x, KerasTensor) or not (isinstance(x, Tensor) or hasattr(x, "__array__")):
            return x
        x, wanted = engine_ops.as_tensor(x), as_dtype(dtype)
        return x.to(wanted) if autocast and x.dtype.is_floating_point and x.dtype is not wanted else x

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"name": self.name}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """The policy of `get_config`."""
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypePolicy) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f'<DTypePolicy "{self.name}">'


class FloatDTypePolicy(DTypePolicy):
    """Another name of DTypePolicy."""


class QuantizedDTypePolicy(DTypePolicy):
    """The policy of a quantised layer: the mode ("int8", "int4" or "float8") and the name of the policy for everything
    but its quantised weight (None: the session's)."""

    keras_module = "keras.dtype_policies"

    def __init__(self, mode: str, source_name: str | None = None) -> None:
        kind = type(self).__name__
        if not isinstance(mode, str):
            raise TypeError(f"{kind}: the mode is a name such as 'int8', not {mode!r:.60}")
        base = mode.partition("/")[0]
        if base in _CALIBRATED:
            raise NotImplementedError(f"{kind}: {base!r} needs data to calibrate it, and is not there; use 'int8'")
        if base not in QUANTIZATION_MODES or (mode != base and base != "int4"):
            raise ValueError(f"{kind}: {mode!r:.60} is not a mode; there are {', '.join(QUANTIZATION_MODES)}")
        super().__init__(source_name)
        self.source_name = self.name
        if base == "int8" and self.compute_dtype == "float16":
            raise ValueError(f"{kind}: int8 does not go with float16: its sums are too large; use mixed_bfloat16")
        self.quantization_mode, self.mode = base, mode
        self.name = f"{mode}{_BETWEEN}{self.source_name}"

    def get_config(self) -> dict[str, Any]:
        return {"mode": self.mode, "source_name": self.source_name}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, QuantizedDTypePolicy):
            return False
        return other.get_config() == self.get_config()

    __hash__ = DTypePolicy.__hash__

    def __repr__(self) -> str:
        return f'<{type(self).__name__} "{self.name}">'


class Int4DTypePolicy(QuantizedDTypePolicy):
    """The policy of a layer in int4: `mode` is "int4/SIZE", where SIZE numbers share a scale; -1: all of a column."""

    def __init__(self, mode: str, source_name: str | None = None) -> None:
        found = re.fullmatch(r"int4/(-1|[1-9]\d*)", mode) if isinstance(mode, str) else None
        if found is None:
            raise ValueError(f"Int4DTypePolicy: a mode has the form 'int4/128' or 'int4/-1', not {mode!r:.60}")
        super().__init__(mode, source_name)
        self.block_size = int(found[1])


class QuantizedFloat8DTypePolicy(QuantizedDTypePolicy):
    """The policy of a layer that is trained in float8: `amax_history_length` is how many of the last steps its scales
    depend on."""

    default_amax_history_length = 1024

    def __init__(self, mode: str, source_name: str | None = None, amax_history_length: int = 1024) -> None:
        super().__init__(mode, source_name)
        if isinstance(amax_history_length, bool) or not isinstance(amax_history_length, int):
            raise TypeError(f"{type(self).__name__}: amax_history_length is a number, not {amax_history_length!r:.60}")
        if amax_history_length < 1:
            raise ValueError(f"{type(self).__name__}: amax_history_length is {amax_history_length}, not at least 1")
        self.amax_history_length = amax_history_length

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "amax_history_length": self.amax_history_length}


class DTypePolicyMap(DTypePolicy, MutableMapping[str, DTypePolicy]):
    """Policies by the paths of layers: a path, or a regular expression that fits it as a whole; others have
    `default_policy` (None: the session's)."""

    keras_module = "keras.dtype_policies"

    def __init__(self, default_policy: Any = None, policy_map: Mapping[str, Any] | None = None) -> None:
        if isinstance(default_policy, DTypePolicyMap):
            raise ValueError("DTypePolicyMap: default_policy is a policy, not a map")
        self._default = None if default_policy is None else get(default_policy)
        self._by_path = {path: get(policy) for path, policy in (policy_map or {}).items()}

    @property
    def default_policy(self) -> DTypePolicy:
        """The policy of layers that no entry fits."""
        found: DTypePolicy = get(None) if self._default is None else self._default
        return found

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"map_{self.default_policy.name}"

    @property
    def compute_dtype(self) -> str:
        return self.default_policy.compute_dtype

    @property
    def variable_dtype(self) -> str:
        return self.default_policy.variable_dtype

    def __getitem__(self, path: str) -> DTypePolicy:
        if path in self._by_path:
            return self._by_path[path]
        fitting = [pattern for pattern in self._by_path if re.fullmatch(pattern, path)]
        if len(fitting) > 1:
            raise ValueError(f"DTypePolicyMap: several entries fit {path!r}: {', '.join(map(repr, fitting))}")
        return self._by_path[fitting[0]] if fitting else self.default_policy

    def __setitem__(self, path: str, policy: Any) -> None:
        if path in self._by_path:
            raise ValueError(f"DTypePolicyMap: {path!r} has a policy already")
        self._by_path[path] = get(policy)

    def __delitem__(self, path: str) -> None:
        del self._by_path[path]

    def __contains__(self, path: object) -> bool:
        return path in self._by_path

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_path)

    def __len__(self) -> int:
        return len(self._by_path)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        made = {path: serialize(policy) for path, policy in self._by_path.items()}
        return {"default_policy": None if self._default is None else serialize(self._default), "policy_map": made}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypePolicyMap) and other.get_config() == self.get_config()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<DTypePolicyMap default={self.default_policy.name}, {self._by_path}>"


def get(identifier: Any) -> Any:
    """The policy of a name, a dtype, a configuration or a policy; of None the session's."""
    if isinstance(identifier, str) and identifier.startswith((*QUANTIZATION_MODES, *_CALIBRATED)):
        if _BETWEEN in identifier:
            return _quantized(identifier)
    if identifier is None and SETTINGS.dtype_policy is not None:
        return get(SETTINGS.dtype_policy)
    if identifier is None or isinstance(identifier, str):
        return DTypePolicy(identifier)
    if isinstance(identifier, DTypePolicy):
        return identifier
    if isinstance(identifier, Mapping):
        return deserialize(identifier)
    try:
        return DTypePolicy(identifier.name if isinstance(identifier, DType) else as_dtype(identifier).name)
    except TypeError as error:
        raise ValueError(f"takes a dtype or a DTypePolicy, not {identifier!r:.60}") from error


def _quantized(name: str) -> QuantizedDTypePolicy:
    """The policy of a name such as "int8_from_float32"."""
    mode, _, source_name = name.partition(_BETWEEN)
    if mode.startswith("float8"):
        return QuantizedFloat8DTypePolicy(mode, source_name)
    in_blocks = mode.startswith("int4/")
    return Int4DTypePolicy(mode, source_name) if in_blocks else QuantizedDTypePolicy(mode, source_name)


def serialize(dtype_policy: DTypePolicy) -> dict[str, Any]:
    """A policy as JSON."""
    kind = type(dtype_policy).__name__
    module = "keras" if type(dtype_policy) in (DTypePolicy, FloatDTypePolicy) else "keras.dtype_policies"
    return {"module": module, "class_name": kind, "config": dtype_policy.get_config(), "registered_name": None}


_CLASSES = {
    kind.__name__: kind
    for kind in (
        DTypePolicy, FloatDTypePolicy, DTypePolicyMap, QuantizedDTypePolicy, QuantizedFloat8DTypePolicy,
        Int4DTypePolicy,
    )
}  # fmt: skip


def deserialize(config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The policy that `serialize` described. ValueError for another class."""
    name = str(config.get("class_name"))
    kind = (custom_objects or {}).get(name) or _CLASSES.get(name)
    if kind is None:
        raise ValueError(f"there is no dtype policy {name!r:.60}; there are {', '.join(_CLASSES)}")
    return kind.from_config(config.get("config") or {})


def __getattr__(name: str) -> Any:
    """The error for names that are not there, which says what to use instead of those of Keras."""
    raise lacking(__name__, name)
