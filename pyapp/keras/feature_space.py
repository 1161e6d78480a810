"""keras.utils.FeatureSpace: columns of a table as vectors or numbers, by a layer for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..engine import Tensor, ops
from ..engine.lazy import np
from ..train.names import unique_name
from .core import Layer, restored
from .layers import (
    CategoryEncoding,
    Concatenate,
    Discretization,
    HashedCrossing,
    Hashing,
    Identity,
    IntegerLookup,
    Normalization,
    Rescaling,
    StringLookup,
    TextVectorization,
)  # fmt: skip
from .lookup import Configured, as_json
from .saving import save_model
from .symbolic_tensors import Input, KerasTensor

__all__ = ["Cross", "Feature", "FeatureSpace", "TFDIdentity"]

_MODES = ("one_hot", "int", "float")


class Feature(Configured):
    """A column: its dtype ("string" for texts), the layer that prepares it, and what is made of the layer's outputs:
    "one_hot" vectors of its numbers, or "int" and "float", its outputs as they are."""

    keras_module = "keras.src.layers.preprocessing.feature_space"

    def __init__(self, dtype: str, preprocessor: Any, output_mode: str) -> None:
        if output_mode not in _MODES:
            raise ValueError(
                f"FeatureSpace: output_mode of a feature is one of {', '.join(_MODES)}, not {output_mode!r}"
            )
        self.dtype, self.preprocessor, self.output_mode = dtype, restored(preprocessor), output_mode

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with what the layer has learned."""
        return {"dtype": self.dtype, "preprocessor": as_json(self.preprocessor), "output_mode": self.output_mode}


class Cross(Configured):
    """Combinations of columns as numbers of `crossing_dim`."""

    keras_module = Feature.keras_module

    def __init__(self, feature_names: Any, crossing_dim: int, output_mode: str = "one_hot") -> None:
        if output_mode not in _MODES[:2]:
            raise ValueError(f"FeatureSpace: output_mode of a cross is one_hot or int, not {output_mode!r}")
        self.feature_names, self.crossing_dim, self.output_mode = tuple(feature_names), crossing_dim, output_mode
        self.name = "_X_".join(self.feature_names)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {
            "feature_names": list(self.feature_names), "crossing_dim": self.crossing_dim,
            "output_mode": self.output_mode,
        }  # fmt: skip


class TFDIdentity(Identity):
    """A column as it is. It has Keras' name, which files have."""

    keras_module = Feature.keras_module


def _named(name: str | None, kind: str) -> str:
    return f"{name or unique_name(kind)}_preprocessor"


class FeatureSpace(Layer):
    """Prepares columns of a table, each by its own layer. `features` has a kind for the name of each column: what the
    methods of this class make, or their names: "float", "float_normalized", "float_rescaled", "float_discretized",
    "integer_categorical", "string_categorical", "integer_hashed", "string_hashed". `crosses`: tuples of names, or
    `FeatureSpace.cross(…)`.

    `adapt(data)` learns vocabularies, means and boundaries. Called with a dict of columns (B,) or (B, 1), or with one
    row, it gives float32 (B, size), the parts in the order of their names, or with output_mode="dict" a part by name.
    """

    keras_module = "keras.utils"
    graph = optimizer = _first_inputs = None  # for files: it is no model
    compiled = False

    def __init__(
        self, features: Mapping[str, Any], output_mode: str = "concat", crosses: Any = None, crossing_dim: int = 32,
        hashing_dim: int = 32, num_discretization_bins: int = 32, name: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(name=name, **settings)
        if not features:
            raise ValueError("FeatureSpace: there are no features")
        if output_mode not in ("concat", "dict"):
            raise ValueError(f"FeatureSpace: output_mode is concat or dict, not {output_mode!r}")
        self.output_mode, self.crossing_dim, self.hashing_dim = output_mode, crossing_dim, hashing_dim
        self.num_discretization_bins = num_discretization_bins
        made = {key: self._feature(key, value) for key, value in features.items()}
        crossed = [self._cross(one) for one in crosses or ()]
        for one in crossed:
            unknown = set(one.feature_names) - set(made)
            if unknown:
                raise ValueError(f"FeatureSpace: the cross {one.name} has {min(unknown)!r}, which is not a feature")
        self._parts: dict[str, Feature | Cross] = {}  # in the order of the vectors
        self._parts |= {key: made[key] for key in sorted(made)}
        self._parts |= {one.name: one for one in sorted(crossed, key=lambda one: one.name)}
        object.__setattr__(self, "features", made)
        object.__setattr__(self, "crosses", crossed)
        self.preprocessors = {key: feature.preprocessor for key, feature in made.items()}
        for layer in self.preprocessors.values():
            if isinstance(layer, Normalization) and not layer.built:
                layer.build((None, 1))
        self.crossers = {one.name: HashedCrossing(one.crossing_dim, name=one.name) for one in crossed}
        self.one_hot_encoders: dict[str, CategoryEncoding] = {}
        self.concat = Concatenate(axis=-1)
        self._symbolic: tuple[dict[str, KerasTensor], Any] | None = None
        self.built = True

    # -- kinds of features

    @classmethod
    def cross(cls, feature_names: Any, crossing_dim: int, output_mode: str = "one_hot") -> Cross:
        """Combinations of columns, hashed into `crossing_dim` numbers."""
        return Cross(feature_names, crossing_dim, output_mode)

    @classmethod
    def feature(cls, dtype: str, preprocessor: Layer, output_mode: str) -> Feature:
        """A column that a layer of one's own prepares."""
        return Feature(dtype, preprocessor, output_mode)

    @classmethod
    def float(cls, name: str | None = None) -> Feature:  # type: ignore[override]
        """Numbers as they are."""
        return Feature("float32", TFDIdentity(dtype="float32", name=_named(name, "float")), "float")

    @classmethod
    def float_rescaled(cls, scale: Any = 1.0, offset: Any = 0.0, name: str | None = None) -> Feature:
        """x * scale + offset."""
        return Feature("float32", Rescaling(scale, offset, name=_named(name, "float_rescaled")), "float")

    @classmethod
    def float_normalized(cls, name: str | None = None) -> Feature:
        """Numbers less their mean, divided by their deviation."""
        return Feature("float32", Normalization(axis=-1, name=_named(name, "float_normalized")), "float")

    @classmethod
    def float_discretized(
        cls, num_bins: int, bin_boundaries: Any = None, output_mode: str = "one_hot", name: str | None = None
    ) -> Feature:
        """The ranges that numbers are in: between `bin_boundaries`, or `num_bins` of equal content."""
        bins = num_bins if bin_boundaries is None else None
        layer = Discretization(bin_boundaries, bins, name=_named(name, "float_discretized"))
        return Feature("float32", layer, output_mode)

    @classmethod
    def integer_categorical(
        cls, max_tokens: int | None = None, num_oov_indices: int = 1, output_mode: str = "one_hot",
        name: str | None = None,
    ) -> Feature:  # fmt: skip
        """Places of whole numbers in a vocabulary."""
        layer = IntegerLookup(max_tokens, num_oov_indices, name=_named(name, "integer_categorical"))
        return Feature("int32", layer, output_mode)

    @classmethod
    def string_categorical(
        cls, max_tokens: int | None = None, num_oov_indices: int = 1, output_mode: str = "one_hot",
        name: str | None = None,
    ) -> Feature:  # fmt: skip
        """Places of texts in a vocabulary."""
        layer = StringLookup(max_tokens, num_oov_indices, name=_named(name, "string_categorical"))
        return Feature("string", layer, output_mode)

    @classmethod
    def string_hashed(cls, num_bins: int, output_mode: str = "one_hot", name: str | None = None) -> Feature:
        """Texts, hashed into `num_bins` numbers."""
        return Feature("string", Hashing(num_bins, name=_named(name, "string_hashed")), output_mode)

    @classmethod
    def integer_hashed(cls, num_bins: int, output_mode: str = "one_hot", name: str | None = None) -> Feature:
        """Whole numbers, hashed into `num_bins` numbers."""
        return Feature("int32", Hashing(num_bins, name=_named(name, "integer_hashed")), output_mode)

    def _feature(self, name: str, given: Any) -> Feature:
        if isinstance(given, Feature):
            return given
        if isinstance(given, Mapping):
            return Feature(**given["config"])
        more = {
            "float_discretized": (self.num_discretization_bins,), "integer_hashed": (self.hashing_dim,),
            "string_hashed": (self.hashing_dim,),
        }  # fmt: skip
        kinds = ("float", "float_rescaled", "float_normalized", "integer_categorical", "string_categorical", *more)
        if given not in kinds:
            raise ValueError(f"FeatureSpace: {name!r} is one of {', '.join(kinds)}, or a Feature, not {given!r:.60}")
        found: Feature = getattr(self, given)(*more.get(given, ()), name=name)
        return found

    def _cross(self, given: Any) -> Cross:
        if isinstance(given, Cross):
            return given
        return Cross(**given["config"]) if isinstance(given, Mapping) else Cross(given, self.crossing_dim)

    # -- learning

    def _waiting(self) -> list[str]:
        """The features whose layers learn from data."""
        return [key for key, layer in self.preprocessors.items() if hasattr(layer, "adapt") and not _is_given(layer)]

    def adapt(self, dataset: Any) -> None:
        """Learns what the layers need from columns: a dict of arrays or lists, or an iterable of such dicts, of batches
        or of rows (labels beside them are left out)."""
        columns = dataset if isinstance(dataset, Mapping) else _gathered(dataset)
        for key in self._waiting():
            if key not in columns:
                raise ValueError(f"adapt: there is no column {key!r}; there are {', '.join(columns)}")
            values = _values(columns[key])
            self.preprocessors[key].adapt(values.reshape(-1, 1) if values.ndim < 2 else values)
        self._symbolic, self.one_hot_encoders = None, {}
        self._parts_of(self.get_inputs())

    def _check_adapted(self) -> None:
        for key in self._waiting():
            if not _has_learned(self.preprocessors[key]):
                raise ValueError(f"FeatureSpace: call adapt(data) first; {key!r} needs it")

    # -- calls

    def get_inputs(self) -> dict[str, KerasTensor]:
        """The symbolic columns, for `keras.Model`; of texts with the dtype "string"."""
        self._check_adapted()
        if self._symbolic is None:
            inputs = {key: Input((1,), dtype=one.dtype, name=key) for key, one in self.features.items()}
            self._symbolic = inputs, None
        return self._symbolic[0]

    def get_encoded_features(self) -> Any:
        """What is made of the symbolic columns."""
        inputs = self.get_inputs()
        if self._symbolic is None or self._symbolic[1] is None:
            self._symbolic = inputs, self._parts_of(inputs)
        return self._symbolic[1]

    def __call__(self, data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise ValueError(f"FeatureSpace: takes a dict of columns, not {type(data).__name__}")
        self._check_adapted()
        missing = [key for key in self.features if key not in data]
        if missing:
            raise ValueError(f"FeatureSpace: there is no column {missing[0]!r}; there are {', '.join(data)}")
        columns = {key: _values(data[key]) for key in self.features}
        single = all(column.ndim == 0 for column in columns.values())
        columns = {key: v.reshape(-1, 1) if v.ndim < 2 else v for key, v in columns.items()}  # (B, 1)
        found = self._parts_of(
            {key: ops.as_tensor(v) if self.features[key].dtype != "string" else v for key, v in columns.items()}
        )
        if not single:
            return found
        return {key: v.squeeze(0) for key, v in found.items()} if isinstance(found, dict) else found.squeeze(0)

    def _parts_of(self, columns: Mapping[str, Any]) -> Any:
        prepared = {key: self.preprocessors[key](columns[key]) for key in self.features}
        prepared |= {one.name: self.crossers[one.name]([prepared[key] for key in one.feature_names])
                     for one in self.crosses}  # fmt: skip
        found: dict[str, Any] = {}
        for name, part in self._parts.items():
            value = prepared[name]
            if part.output_mode == "one_hot":
                value = self._encoder(name, value)(value)
            if self.output_mode == "concat" and not _is_floating(value):
                raise ValueError(
                    f"FeatureSpace: {name!r} gives {value.dtype}, which cannot stand in one vector with the others: "
                    "take output_mode='dict'"
                )
            found[name] = value
        if self.output_mode == "dict":
            return found
        return self.concat(list(found.values())) if len(found) > 1 else next(iter(found.values()))

    def _encoder(self, name: str, value: Any) -> CategoryEncoding:
        if name in self.one_hot_encoders:
            return self.one_hot_encoders[name]
        layer = self.crossers[name] if name in self.crossers else self.preprocessors[name]
        count = None
        if isinstance(layer, (StringLookup, IntegerLookup)):
            count = layer.vocabulary_size()
        elif isinstance(layer, Discretization):
            count = len(layer.bin_boundaries or ()) + 1
        elif isinstance(layer, CategoryEncoding):
            count = layer.num_tokens
        elif isinstance(layer, (Hashing, HashedCrossing)):
            count = layer.num_bins
        if count is None or _is_floating(value):
            raise ValueError(
                f"FeatureSpace: {name!r} has output_mode='one_hot', but it is not known how many numbers "
                f"{type(layer).__name__} gives: take output_mode='int'"
            )
        found = self.one_hot_encoders[name] = CategoryEncoding(count, "multi_hot")
        return found

    # -- files

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with what the layers have learned."""
        return {
            "features": {key: as_json(feature) for key, feature in self.features.items()},
            "output_mode": self.output_mode, "crosses": [as_json(one) for one in self.crosses],
            "crossing_dim": self.crossing_dim, "hashing_dim": self.hashing_dim,
            "num_discretization_bins": self.num_discretization_bins, "name": self.name,
        }  # fmt: skip

    def get_build_config(self) -> dict[str, Any]:
        """The shapes that the layers of the columns are built for."""
        return {key: {"input_shape": [None, 1]} for key in self.features}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """A feature space of `get_config`."""
        return cls(**config)

    def save(self, filepath: str | Path) -> None:
        """Writes it to a file, for `keras.models.load_model`."""
        save_model(self, filepath)  # type: ignore[arg-type]


def _is_floating(value: Any) -> bool:
    return str(getattr(value.dtype, "name", value.dtype)).startswith(("float", "bfloat"))


def _is_given(layer: Any) -> bool:
    """Whether a layer was made with what it would learn."""
    if isinstance(layer, Normalization):
        return layer.given is not None
    return isinstance(layer, Discretization) and layer.num_bins is None


def _has_learned(layer: Any) -> bool:
    if isinstance(layer, Normalization):
        return layer.has_learned
    if isinstance(layer, Discretization):
        return layer.bin_boundaries is not None
    return bool(layer.words) if isinstance(layer, (StringLookup, IntegerLookup, TextVectorization)) else True


def _values(column: Any) -> Any:
    """A column as an array."""
    if isinstance(column, Tensor):
        return column.detach().numpy()
    return column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)


def _gathered(dataset: Iterable[Any]) -> dict[str, Any]:
    """The columns of many dicts, of batches or of rows, one after the other."""
    found: dict[str, list[Any]] = {}
    for one in dataset:
        part = one[0] if isinstance(one, (tuple, list)) and one else one
        if not isinstance(part, Mapping):
            raise ValueError(f"adapt: takes a dict of columns, or an iterable of dicts, not of {type(part).__name__}")
        for key, value in part.items():
            found.setdefault(key, []).append(np.atleast_1d(_values(value)))
    if not found:
        raise ValueError("adapt: there is no data")
    return {key: np.concatenate(parts) for key, parts in found.items()}
