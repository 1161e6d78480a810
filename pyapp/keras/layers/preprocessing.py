"""Layers that prepare data: scaling, normalising, one-hot classes, texts to numbers."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import log, prod
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.lazy import np
from ...errors import ArgumentError
from ...nn import functional as F
from ..arguments import dim_of
from ..core import Layer
from ..symbolic_tensors import KerasTensor, record
from .lookups import refuse_sparse

__all__ = ["CategoryEncoding", "Normalization", "Rescaling", "TextVectorization"]


class Rescaling(Layer):
    """inputs * scale + offset, as floating-point numbers."""

    supports_masking = True

    def __init__(self, scale: Any, offset: Any = 0.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.scale, self.offset = scale, offset

    def call(self, inputs: Tensor) -> Tensor:
        x = inputs.to(self.compute_dtype)
        return x * ops.as_tensor(self.scale).to(self.compute_dtype) + ops.as_tensor(self.offset).to(self.compute_dtype)


class Normalization(Layer):
    """(x - mean) / deviation along `axis`; `adapt(data)` measures them, unless they are given."""

    supports_masking = True

    def __init__(
        self, axis: Any = -1, mean: Any = None, variance: Any = None, invert: bool = False, **settings: Any
    ) -> None:
        super().__init__(**settings)
        if (mean is None) != (variance is None):
            raise ValueError("Normalization: mean and variance are given together")
        self.axis = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        self.given = None if mean is None else (mean, variance)
        self.has_learned = mean is not None
        self.invert = invert

    def build(self, input_shape: Any) -> None:
        kept = sorted(dim_of(axis, len(input_shape)) for axis in self.axis)
        self.shape = [size if place in kept else 1 for place, size in enumerate(input_shape)]
        sizes = [input_shape[place] for place in kept]
        if self.given is None:
            self.adapt_mean = self.add_weight(sizes, "zeros", name="mean", trainable=False)
            self.adapt_variance = self.add_weight(sizes, "ones", name="variance", trainable=False)
            self.count = self.add_weight((), "zeros", "int32", trainable=False, name="count")  # Keras has it too
            return
        given = [ops.as_tensor(value).to(self.compute_dtype).reshape(-1) for value in self.given]  # no weights
        if all(value.numel() == 1 for value in given):
            self.shape, sizes = [1] * len(input_shape), [1]
        self.adapt_mean, self.adapt_variance = (  # type: ignore[assignment]
            value.expand(prod(sizes)).reshape(sizes) for value in given
        )

    @property
    def mean(self) -> Tensor | None:
        """The mean, in the shape that it has beside inputs: (1, …) with the sizes of `axis`. None before build."""
        return self.adapt_mean.reshape(self.shape) if self.built else None

    @property
    def variance(self) -> Tensor | None:
        """The variance, in the shape of `mean`. None before build."""
        return self.adapt_variance.reshape(self.shape) if self.built else None

    def adapt(self, data: Any) -> None:
        """Measures the mean and variance of an array or tensor (N, …)."""
        if self.given is not None:
            raise ValueError(
                f"layer {self.name} (Normalization) has a mean and a variance: adapt() would change nothing"
            )
        x = ops.as_tensor(data).to(self.compute_dtype)
        if not self.built:
            self._build_for(x)
        kept = {dim_of(axis, x.ndim) for axis in self.axis}
        others = [dim for dim in range(x.ndim) if dim not in kept]
        with no_grad():
            self.adapt_mean.copy_(x.mean(others).reshape(self.adapt_mean.shape))
            self.adapt_variance.copy_(x.var(others, correction=0).reshape(self.adapt_variance.shape))
        self.has_learned = True

    def weights_were_read(self) -> None:
        self.has_learned = True

    def call(self, inputs: Tensor) -> Tensor:
        x = inputs.to(self.compute_dtype)
        if self.given is not None and self.adapt_mean.device is not x.device:  # no weights, which the model would move
            self.adapt_mean, self.adapt_variance = self.adapt_mean.to(x.device), self.adapt_variance.to(x.device)  # type: ignore[assignment]
        mean = self.adapt_mean.reshape(self.shape)
        deviation = self.adapt_variance.reshape(self.shape).sqrt().clamp(min=1e-7)
        return x * deviation + mean if self.invert else (x - mean) / deviation


class CategoryEncoding(Layer):
    """Class numbers as vectors: output_mode one_hot, multi_hot or count. With count, `count_weights` of the numbers'
    shape say how much each counts. Numbers below 0 are not a class; those from num_tokens on are an ArgumentError."""

    def __init__(
        self, num_tokens: int | None = None, output_mode: str = "multi_hot", sparse: bool = False, **settings: Any
    ) -> None:
        super().__init__(**settings)
        if output_mode not in ("one_hot", "multi_hot", "count"):
            raise ValueError(f"CategoryEncoding: output_mode is one_hot, multi_hot or count, not {output_mode!r}")
        if not isinstance(num_tokens, int) or num_tokens < 1:
            raise ValueError(f"CategoryEncoding: num_tokens is a positive integer, not {num_tokens!r}")
        refuse_sparse("CategoryEncoding", sparse)
        self.num_tokens, self.output_mode = num_tokens, output_mode

    def call(self, inputs: Tensor, count_weights: Any = None) -> Tensor:
        if count_weights is not None and self.output_mode != "count":
            raise ValueError(f"count_weights go with output_mode='count', not {self.output_mode!r}")
        ids = inputs.to("int64")
        if self.output_mode == "one_hot" and ids.ndim and ids.shape[-1] == 1:
            ids = ids.squeeze(-1)
        try:
            one_hot = F.one_hot(ids.clamp(min=-1) + 1, self.num_tokens + 1)[..., 1:].to(self.compute_dtype)
        except ValueError:
            raise ArgumentError(
                f"layer {self.name} (CategoryEncoding): class {int(ids.amax())} is not below num_tokens, "
                f"{self.num_tokens}"
            ) from None
        if self.output_mode == "one_hot":
            return one_hot
        if count_weights is not None:
            one_hot = one_hot * ops.as_tensor(count_weights).to(self.compute_dtype).unsqueeze(-1)
        counts = one_hot.sum(-2)
        return counts if self.output_mode == "count" else (counts > 0).to(self.compute_dtype)


def _texts(data: Any, steps: int | None) -> Iterator[Any]:
    """The texts of lists, arrays and batches."""
    given = data.tolist() if hasattr(data, "tolist") else data
    for number, one in enumerate([given] if isinstance(given, (str, bytes)) else given):
        if steps is not None and number == steps:
            return
        one = one.tolist() if hasattr(one, "tolist") else one
        if isinstance(one, (list, tuple)):
            yield from _texts(one, None)
        else:
            yield one


_STRIPPED = re.compile(f"[{re.escape(string.punctuation)}]")


class TextVectorization(Layer):
    """Texts to numbers of words: 0 is padding, 1 an unknown word, then the vocabulary, most frequent first. `adapt`
    learns the vocabulary. `output_mode`: int, multi_hot, count or tf_idf.
    """

    def __init__(
        self, max_tokens: int | None = None, standardize: Any = "lower_and_strip_punctuation",
        split: Any = "whitespace", ngrams: Any = None, output_mode: str = "int",
        output_sequence_length: int | None = None, pad_to_max_tokens: bool = False, vocabulary: Any = None,
        idf_weights: Any = None, sparse: bool = False, ragged: bool = False, encoding: str = "utf-8", **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        if output_mode not in ("int", "multi_hot", "count", "tf_idf"):
            raise ValueError(f"TextVectorization: output_mode is int, multi_hot, count or tf_idf, not {output_mode!r}")
        if sparse or ragged:
            raise NotImplementedError("TextVectorization: there are no sparse and no ragged tensors")
        self.ngrams = (
            None if ngrams is None else tuple(range(1, ngrams + 1)) if isinstance(ngrams, int) else tuple(ngrams)
        )
        if self.ngrams is not None and not all(isinstance(n, int) and n > 0 for n in self.ngrams or (0,)):
            raise ValueError(f"TextVectorization: ngrams is a positive number or several, not {ngrams!r:.40}")
        self.encoding = encoding
        self.max_tokens, self.output_mode = max_tokens, output_mode
        self.standardize, self.split, self.length = standardize, split, output_sequence_length
        self.pad_to_max_tokens = pad_to_max_tokens
        self.words: list[str] = []
        self.weights_of_words: list[float] = []  # inverse document frequencies
        self.built = True
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    def _standard(self, text: str) -> str:
        kind = self.standardize
        if callable(kind):
            return str(kind(text))
        if kind in ("lower", "lower_and_strip_punctuation"):
            text = text.lower()
        return _STRIPPED.sub("", text) if kind in ("strip_punctuation", "lower_and_strip_punctuation") else text

    def _split(self, text: str) -> list[str]:
        split: Callable[[str], Any] | str | None = self.split
        if callable(split):
            words = list(split(text))
        else:
            words = text.split() if split == "whitespace" else list(text) if split == "character" else [text]
        if self.ngrams is None:
            return words
        return [" ".join(words[k : k + n]) for n in self.ngrams for k in range(len(words) - n + 1)]

    def _words_of(self, texts: Iterable[Any]) -> list[list[str]]:
        found = []
        for text in texts:
            while isinstance(text, (list, tuple)) and len(text) == 1:
                (text,) = text
            if isinstance(text, bytes):
                text = text.decode(self.encoding)
            if not isinstance(text, str):
                raise TypeError(f"layer {self.name} (TextVectorization) takes texts, not {type(text).__name__}")
            found.append(self._split(self._standard(text)))
        return found

    def adapt(self, data: Iterable[Any], batch_size: int | None = None, steps: int | None = None) -> None:
        """Learns the vocabulary from texts, or from batches of them; of those the first `steps`."""
        documents = self._words_of(_texts(data, steps))
        counts = Counter(word for words in documents for word in words)
        order = sorted(counts, key=lambda word: (counts[word], word), reverse=True)
        limit = None if self.max_tokens is None else self.max_tokens - (2 if self.output_mode == "int" else 1)
        self.words = order[:limit]
        seen = Counter(word for words in documents for word in set(words))
        self.weights_of_words = [log(1 + len(documents) / (1 + seen[word])) for word in self.words]

    def set_vocabulary(self, vocabulary: Iterable[str], idf_weights: Iterable[float] | None = None) -> None:
        """Sets the words, most frequent first; the padding and the unknown word may stand before them."""
        words = list(vocabulary)
        if words[:2] == ["", "[UNK]"]:
            words = words[2:]
        elif words[:1] == ["[UNK]"]:
            words = words[1:]
        if len(set(words)) < len(words):
            raise ValueError("TextVectorization: a word stands twice in the vocabulary")
        self.words, self.weights_of_words = words, list(idf_weights or [])

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with the words that were learned."""
        weights = list(self.weights_of_words) if self.output_mode == "tf_idf" else []
        learned = {"vocabulary": list(self.words) or None, "idf_weights": weights or None}
        return {**super().get_config(), **learned}

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """The words by their numbers."""
        special = ["", "[UNK]"] if self.output_mode == "int" else ["[UNK]"]
        return (special if include_special_tokens else []) + self.words

    def vocabulary_size(self) -> int:
        return len(self.get_vocabulary())

    def _size(self) -> int:
        """The length of the vectors."""
        if self.pad_to_max_tokens and self.max_tokens:
            return self.max_tokens
        return len(self.words) + 1 if self.words or self.expected_size is None else self.expected_size

    expected_size: int | None = None  # of the vocabulary, while a file is read that has it elsewhere

    def symbolic_outputs(self, inputs: KerasTensor) -> KerasTensor:
        if self.output_mode == "int":
            return KerasTensor((inputs.shape[0], self.length), "int64")
        return KerasTensor((inputs.shape[0], self._size()))

    def read_vocabulary(self, text: str, idf_weights: Any = None) -> None:
        """Sets the vocabulary that a file of Keras has, one word a line; and its weights, with that of the unknown
        word."""
        special = len(self.get_vocabulary()) - len(self.words)
        words = text.split("\n")[special:]
        weights = None if idf_weights is None else np.asarray(idf_weights).tolist()[special:][: len(words)]
        self.set_vocabulary(words, weights)

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        if isinstance(inputs, KerasTensor):
            return record(self, (inputs,), {})
        if isinstance(inputs, str):
            return self.call([inputs])[0]
        return self.call(inputs.tolist() if hasattr(inputs, "tolist") else inputs)

    def call(self, inputs: Any) -> Tensor:
        documents = self._words_of(inputs)
        first = 2 if self.output_mode == "int" else 1
        number = {word: place + first for place, word in enumerate(self.words)}
        ids = [[number.get(word, first - 1) for word in words] for words in documents]
        if self.output_mode == "int":
            length = self.length or max((len(row) for row in ids), default=0)
            return ops.tensor([(row + [0] * length)[:length] for row in ids], dtype="int64")
        size = self._size()
        weights = [sum(self.weights_of_words) / len(self.words), *self.weights_of_words] if self.words else [0.0]
        rows = []
        for row in ids:
            counts = Counter(row)
            values = [float(counts[k]) for k in range(size)]
            if self.output_mode == "multi_hot":
                values = [float(value > 0) for value in values]
            elif self.output_mode == "tf_idf":
                values = [value * (weights[k] if k < len(weights) else 0.0) for k, value in enumerate(values)]
            rows.append(values)
        return ops.tensor(rows)
