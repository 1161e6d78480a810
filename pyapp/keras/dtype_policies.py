"""keras.dtype_policies: in which dtype layers keep their weights, and in which they compute.

A policy is a dtype for both, "mixed_bfloat16" or "mixed_float16": weights in float32, inputs, outputs and what is
computed between them in short floats (Micikevicius et al. 2018, arXiv 1710.03740).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from ..engine import DType, Tensor, as_dtype
from ..engine import ops as engine_ops
from ..train.floats import floatx
from .settings import SETTINGS

__all__ = ["DTypePolicy", "DTypePolicyMap", "FloatDTypePolicy", "deserialize", "get", "serialize"]

_MIXED = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
_QUANTIZED = ("int8", "int4", "float8", "gptq", "awq")


class DTypePolicy:
    """The dtypes of a layer: a dtype's name, "mixed_bfloat16" or "mixed_float16". None: the session's policy."""

    quantization_mode = None

    def __init__(self, name: str | None = None) -> None:
        name = (SETTINGS.dtype_policy or floatx()) if name is None else name
        if not isinstance(name, str):
            raise TypeError(f"DTypePolicy: takes a name such as 'mixed_bfloat16', not {name!r:.60}")
        if re.fullmatch(rf"({'|'.join(_QUANTIZED)})(_.*)?_from_.*", name):
            raise NotImplementedError(
                f"DTypePolicy: {name!r:.60} is a policy of quantised layers; `pyapp quantize` writes quantised weights"
            )
        try:
            compute, variable = as_dtype(_MIXED.get(name, name)), as_dtype("float32" if name in _MIXED else name)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"DTypePolicy: {name!r:.60} is no policy; there are mixed_bfloat16, mixed_float16, and the names of "
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
        if not isinstance(x, Tensor) and not hasattr(x, "__array__"):
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


class DTypePolicyMap(DTypePolicy, MutableMapping[str, DTypePolicy]):
    """Policies by the paths of layers: a path, or a regular expression that fits it as a whole; others have
    `default_policy` (None: the session's)."""

    def __init__(self, default_policy: Any = None, policy_map: Mapping[str, Any] | None = None) -> None:
        if isinstance(default_policy, DTypePolicyMap):
            raise ValueError("DTypePolicyMap: default_policy is a policy, not a map")
        self._default = None if default_policy is None else get(default_policy)
        self._by_path = {path: get(policy) for path, policy in (policy_map or {}).items()}

    @property
    def default_policy(self) -> DTypePolicy:
        """The policy of layers that no entry fits."""
        return DTypePolicy() if self._default is None else self._default

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


def serialize(dtype_policy: DTypePolicy) -> dict[str, Any]:
    """A policy as JSON."""
    kind = type(dtype_policy).__name__
    return {"module": "keras", "class_name": kind, "config": dtype_policy.get_config(), "registered_name": None}


_CLASSES = {kind.__name__: kind for kind in (DTypePolicy, FloatDTypePolicy, DTypePolicyMap)}


def deserialize(config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The policy that `serialize` described. ValueError for another class."""
    name = str(config.get("class_name"))
    kind = (custom_objects or {}).get(name) or _CLASSES.get(name)
    if kind is None:
        raise ValueError(f"there is no dtype policy {name!r:.60}; there are {', '.join(_CLASSES)}")
    return kind.from_config(config.get("config") or {})
