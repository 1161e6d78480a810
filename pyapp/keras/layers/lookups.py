"""Layers that number what a vocabulary has, and numbers by ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from math import log
from typing import Any

from ...engine import Tensor, ops
from ...engine.lazy import np
from ...engine.ops.sorted_search import bucketize
from ..core import Layer
from ..fingerprints import fingerprint
from ..symbolic_tensors import KerasTensor, record

__all__ = ["Discretization", "IntegerLookup", "StringLookup"]

_MODES = ("int", "one_hot", "multi_hot", "count", "tf_idf")


def refuse_sparse(kind: str, sparse: bool) -> None:
    """NotImplementedError where outputs are to be sparse."""
    if sparse:
        raise NotImplementedError(f"{kind}: outputs are dense, as in Keras on torch; leave out sparse=True")


def encoded(ids: Tensor, size: int, mode: str, weights: Tensor | None = None) -> Tensor:
    """Numbers as vectors of `size`: one_hot (..., 1) or (...) -> (..., size); multi_hot, count and tf_idf over the last
    dim, (..., n) -> (..., size)."""
    if mode == "int":
        return ids
    if mode == "one_hot" and ids.ndim > 1 and ids.shape[-1] == 1:
        ids = ids.squeeze(-1)
    one_hot = (ids.unsqueeze(-1) == ops.arange(size, device=ids.device)).to("float32")
    if mode == "one_hot":
        return one_hot
    counts = one_hot.sum(-2) if ids.ndim else one_hot
    if mode == "multi_hot":
        return (counts > 0).to("float32")
    return counts if weights is None else counts * weights


def encoded_shape(shape: Any, size: int, mode: str) -> Any:
    """The shape of `encoded` for numbers of a shape."""
    if mode == "int":
        return shape
    if mode == "one_hot":
        return (*(shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape), size)
    return (*shape[:-1], size)


class _Lookup(Layer):
    """Base: what the vocabulary has by its number. Before it come the mask, if there is one, and the numbers of what is
    unknown. `adapt` learns the vocabulary, most frequent first; `invert` goes back.
    """

    def __init__(
        self, max_tokens: int | None, num_oov_indices: int, mask_token: Any, oov_token: Any, vocabulary: Any,
        idf_weights: Any, invert: bool, output_mode: str, sparse: bool, pad_to_max_tokens: bool, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        kind = type(self).__name__
        refuse_sparse(kind, sparse)
        if output_mode not in _MODES:
            raise ValueError(f"{kind}: output_mode is one of {', '.join(_MODES)}, not {output_mode!r}")
        if invert and output_mode != "int":
            raise ValueError(f"{kind}: invert=True goes with output_mode='int'")
        if num_oov_indices < 0:
            raise ValueError(f"{kind}: num_oov_indices is 0 or more, got {num_oov_indices}")
        self.max_tokens, self.unknown, self.mask_token, self.oov_token = (
            max_tokens, num_oov_indices, mask_token, oov_token
        )  # fmt: skip
        self.invert, self.output_mode, self.pad_to_max_tokens = invert, output_mode, pad_to_max_tokens
        self.words: list[Any] = []
        self.document_weights: list[float] = []
        self.built = True
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with the vocabulary that was learned."""
        weights = list(self.document_weights) if self.output_mode == "tf_idf" else []
        learned = {"vocabulary": list(self.words) or None, "idf_weights": weights or None}
        return {**super().get_config(), **learned}

    def as_token(self, value: Any) -> Any:
        raise NotImplementedError

    def bucket(self, token: Any) -> int:
        """Which of several numbers of unknown tokens one has."""
        raise NotImplementedError

    @property
    def _special(self) -> list[Any]:
        masked = [self.mask_token] if self.mask_token is not None and self.output_mode == "int" else []
        return masked + [self.oov_token] * self.unknown

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """The tokens by their numbers."""
        return (self._special if include_special_tokens else []) + self.words

    def vocabulary_size(self) -> int:
        return len(self._special) + len(self.words)

    def set_vocabulary(self, vocabulary: Iterable[Any], idf_weights: Iterable[float] | None = None) -> None:
        """Sets the tokens by their numbers; the special ones may stand before them."""
        if isinstance(vocabulary, str):
            raise TypeError(f"{type(self).__name__}: the vocabulary is a list of tokens, not the name of a file")
        words = [self.as_token(value) for value in values_of(vocabulary)]
        special = self._special
        if special and words[: len(special)] == special:
            words = words[len(special) :]
        elif words[:1] == [self.oov_token] and self.unknown == 1:
            words = words[1:]
        if len(set(words)) < len(words):
            twice = next(word for word, count in Counter(words).items() if count > 1)
            raise ValueError(f"{type(self).__name__}: {twice!r} stands twice in the vocabulary")
        if self.max_tokens is not None and len(words) + len(special) > self.max_tokens:
            raise ValueError(f"{type(self).__name__}: the vocabulary has more than max_tokens = {self.max_tokens}")
        self.words, self.document_weights = words, [float(w) for w in values_of(idf_weights or ())]
        if self.output_mode == "tf_idf" and len(self.document_weights) != len(words):
            raise ValueError(f"{type(self).__name__}: tf_idf takes one of idf_weights for each of {len(words)} tokens")

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learns the vocabulary from tokens: a list, an array, or lists of lists (documents)."""
        documents = [[self.as_token(token) for token in _flat(row)] for row in values_of(data)]
        counts = Counter(token for row in documents for token in row if token != self.mask_token)
        order = sorted(counts, key=lambda token: (counts[token], token), reverse=True)
        self.words = order[: None if self.max_tokens is None else self.max_tokens - len(self._special)]
        seen = Counter(token for row in documents for token in set(row))
        self.document_weights = [log(1 + len(documents) / (1 + seen[token])) for token in self.words]

    def __call__(self, inputs: Any, **_: Any) -> Any:
        return record(self, (inputs,), {}) if isinstance(inputs, KerasTensor) else self.call(inputs)

    def symbolic_outputs(self, inputs: KerasTensor) -> KerasTensor:
        if self.output_mode == "int":
            return KerasTensor(inputs.shape, "string" if self.invert and self.texts else "int64")
        if self.expected_size is None:
            self._check_adapted()
        return KerasTensor(encoded_shape(inputs.shape, self._size(), self.output_mode))

    def _check_adapted(self) -> None:
        if not self.words:
            raise ValueError(f"layer {self.name} ({type(self).__name__}) has no vocabulary: call adapt() first")

    def _size(self) -> int:
        """The length of the vectors."""
        if self.pad_to_max_tokens and self.max_tokens:
            return self.max_tokens
        return self.vocabulary_size() if self.words or self.expected_size is None else self.expected_size

    texts = False  # whether tokens are texts
    expected_size: int | None = None  # of the vocabulary, while a file is read that has it elsewhere

    def read_vocabulary(self, text: str, idf_weights: Any = None) -> None:
        """Sets the vocabulary that a file of Keras has, one token a line; and its weights, with those of unknown
        tokens."""
        tokens: list[Any] = text.split("\n")
        words = [self.as_token(token) for token in tokens][len(self._special) :]
        weights = None if idf_weights is None else np.asarray(idf_weights).tolist()[len(self._special) :][: len(words)]
        self.set_vocabulary(words, weights)

    def call(self, inputs: Any) -> Any:
        self._check_adapted()
        every = self.get_vocabulary()
        if self.invert:
            places = np.asarray(inputs.numpy() if isinstance(inputs, Tensor) else inputs)
            found = [every[k] if 0 <= k < len(every) else self.oov_token for k in places.reshape(-1).tolist()]
            return np.array(found).reshape(places.shape)
        first = len(self._special)
        known = {word: first + place for place, word in enumerate(self.words)}
        masked = first > self.unknown
        if masked:
            known[self.mask_token] = 0

        def number(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [number(inner) for inner in value]
            token = self.as_token(value)
            place = known.get(token)
            if place is not None:
                return place
            if not self.unknown:
                raise ValueError(f"layer {self.name} ({type(self).__name__}): {token!r} is not in the vocabulary")
            return masked + (self.bucket(token) % self.unknown if self.unknown > 1 else 0)

        ids = ops.tensor(number(values_of(inputs)), dtype="int64")
        size = self._size()
        weights = None
        if self.output_mode == "tf_idf":
            mean = sum(self.document_weights) / len(self.document_weights)
            filled = [*[mean] * first, *self.document_weights]
            weights = ops.tensor(filled + [0.0] * (size - len(filled)))
        return encoded(ids, size, self.output_mode, weights)


class StringLookup(_Lookup):
    """Texts to their numbers in a vocabulary. Of several numbers for unknown texts (`num_oov_indices`), FarmHash
    chooses, as in TensorFlow."""

    texts = True

    def __init__(
        self, max_tokens: int | None = None, num_oov_indices: int = 1, mask_token: str | None = None,
        oov_token: str = "[UNK]", vocabulary: Any = None, idf_weights: Any = None, invert: bool = False,
        output_mode: str = "int", pad_to_max_tokens: bool = False, sparse: bool = False, encoding: str = "utf-8",
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, idf_weights, invert, output_mode, sparse,
            pad_to_max_tokens, **settings,
        )  # fmt: skip

    def as_token(self, value: Any) -> str:
        return value.decode() if isinstance(value, bytes) else str(value)

    def bucket(self, token: str) -> int:
        return fingerprint(token)


class IntegerLookup(_Lookup):
    """Whole numbers to their places in a vocabulary. Of several places for unknown ones, the remainder chooses."""

    def __init__(
        self, max_tokens: int | None = None, num_oov_indices: int = 1, mask_token: int | None = None,
        oov_token: int = -1, vocabulary: Any = None, vocabulary_dtype: str = "int64", idf_weights: Any = None,
        invert: bool = False, output_mode: str = "int", sparse: bool = False, pad_to_max_tokens: bool = False,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, idf_weights, invert, output_mode, sparse,
            pad_to_max_tokens, **settings,
        )  # fmt: skip

    def as_token(self, value: Any) -> int:
        return int(value)

    def bucket(self, token: int) -> int:
        return token


class _Quantiles:
    """The quantiles of numbers that come in batches, by pairs of a value and of how many numbers it stands for.

    Keras' approximation, so that `adapt` chooses the ranges that it chooses there: a batch is told by about
    1 / `epsilon` of its numbers, and so are all batches together. Source: keras.layers.Discretization.
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self._values = self._counts = np.zeros(0, "float32")

    def add(self, batch: Any) -> None:
        """Takes the numbers of an array of any shape."""
        numbers = np.sort(np.asarray(batch, dtype="float32").reshape(-1))
        step = max(len(numbers) * self.epsilon, 1.0)
        values = numbers[int(step - 1) :: int(step)]
        values, counts = np.concatenate([values, self._values]), np.concatenate([values * 0 + step, self._counts])
        order = np.argsort(values)
        self._values, self._counts = self._merged(values[order], counts[order], self.epsilon)

    def edges(self, count: int) -> list[float]:
        """The count - 1 numbers between ranges of equal content."""
        found: list[float] = self._merged(self._values, self._counts, 1.0 / count)[0][:-1].tolist()
        return found

    @staticmethod
    def _merged(values: Any, counts: Any, share: float) -> tuple[Any, Any]:
        """Values, each of which stands for a share of all numbers, and these numbers."""
        if len(values) * share < 1:
            return values, counts
        up_to = counts.cumsum()
        shares = share + np.arange(0.0, 1.0, share)
        chosen, reached = (np.interp(shares, up_to / up_to[-1], y) for y in (values, up_to))
        return chosen.astype("float32"), np.diff(reached, prepend=0.0).astype("float32")


class Discretization(Layer):
    """Numbers to the ranges between `bin_boundaries`, which `adapt` chooses for `num_bins` ranges of equal content.
    Each range has its lower boundary. `output_mode`: int, one_hot, multi_hot or count."""

    unknown_to_keras = ("trainable",)

    def __init__(
        self, bin_boundaries: Any = None, num_bins: int | None = None, epsilon: float = 0.01, output_mode: str = "int",
        sparse: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        refuse_sparse("Discretization", sparse)
        if bin_boundaries is None and num_bins is None:
            raise ValueError("Discretization: takes bin_boundaries, or num_bins and then adapt()")
        if num_bins is not None and num_bins < 1:
            raise ValueError(f"Discretization: num_bins is at least 1, not {num_bins}")
        if not 0 < epsilon <= 1:
            raise ValueError(f"Discretization: epsilon is above 0 and at most 1, not {epsilon}")
        if output_mode not in _MODES[:-1]:
            raise ValueError(f"Discretization: output_mode is one of {', '.join(_MODES[:-1])}, not {output_mode!r}")
        self.bin_boundaries = None if bin_boundaries is None else sorted(float(edge) for edge in bin_boundaries)
        self.num_bins, self.epsilon, self.output_mode = num_bins, epsilon, output_mode
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with the boundaries that were chosen."""
        return {**super().get_config(), "bin_boundaries": self.bin_boundaries}

    def adapt(self, data: Any, steps: int | None = None) -> None:
        """Chooses the boundaries, by quantiles to about `epsilon`. `data`: an array or tensor, or batches, of which
        `steps` are taken. ValueError where the boundaries were given."""
        if self.num_bins is None:
            raise ValueError("Discretization: adapt() goes with num_bins; bin_boundaries are given here")
        quantiles = _Quantiles(self.epsilon)
        is_whole = isinstance(data, Tensor) or hasattr(data, "__array__") or not isinstance(data, Iterable)
        for batch in [data] if is_whole else islice(data, steps):
            quantiles.add(batch.numpy() if isinstance(batch, Tensor) else batch)
        self.bin_boundaries = quantiles.edges(self.num_bins)

    def call(self, inputs: Any) -> Tensor:
        edges = self.bin_boundaries
        if edges is None:
            raise ValueError(f"layer {self.name} (Discretization) has no boundaries: call adapt() first")
        values = ops.as_tensor(inputs).to("float32")
        places = bucketize(values, ops.tensor(edges, device=values.device), out_int32=True, right=True)
        found = encoded(places, len(edges) + 1, self.output_mode)
        return found if self.output_mode == "int" else found.to(self.compute_dtype)


def values_of(given: Any) -> Any:
    """Arrays, tensors and series as lists; one value as it is."""
    if isinstance(given, (str, bytes)):
        return given
    return given.tolist() if hasattr(given, "tolist") else list(given) if isinstance(given, Iterable) else given


def _flat(row: Any) -> list[Any]:
    if isinstance(row, (list, tuple)):
        return [token for inner in row for token in _flat(inner)]
    return [row]
