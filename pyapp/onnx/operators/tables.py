"""ai.onnx.ml: features of tables, linear models and support vectors."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np

from ..registry import MACHINE_LEARNING, operator
from ..values import ForeignArray, array_of, element_of, from_stored, like, made_of, text
from .scores import labelled, transformed


def _floats(x: Any) -> Any:
    return array_of(x).astype(np.float64 if element_of(x) == "float64" else np.float32)


@operator("Scaler", domain=MACHINE_LEARNING)
def scaler(x: Tensor, *, offset: Any = None, scale: Any = None) -> Tensor:
    """(x - offset) · scale of each feature."""
    shift, factor = np.array(offset or [0.0], np.float32), np.array(scale or [1.0], np.float32)
    return made_of(((_floats(x) - shift) * factor).astype(np.float32))


@operator("Binarizer", domain=MACHINE_LEARNING)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return like(x, array_of(x) > threshold)


@operator("Normalizer", domain=MACHINE_LEARNING)
def normalizer(x: Tensor, *, norm: bytes = b"MAX") -> Tensor:
    """Rows over their largest element, sum, or length; rows where that is 0 stay."""
    rows, how = _floats(x), text(norm)
    if how == "MAX":
        size = rows.max(-1, keepdims=True)
    elif how == "L1":
        size = np.abs(rows).sum(-1, keepdims=True)
    elif how == "L2":
        size = np.sqrt(np.square(rows).sum(-1, keepdims=True))
    else:
        raise ValueError(f"norm is {how!r}, expected MAX, L1 or L2")
    return made_of((rows / np.where(size == 0, 1, size)).astype(np.float32))


@operator("Imputer", domain=MACHINE_LEARNING)
def imputer(
    x: Tensor, *, imputed_value_floats: Any = None, imputed_value_int64s: Any = None, replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:  # fmt: skip
    """x with one value, or NaN, replaced: by one number, or by one for each feature."""
    array = array_of(x)
    whole = array.dtype.kind in "iu"
    new = np.array(imputed_value_int64s if whole else imputed_value_floats, array.dtype)
    old = replaced_value_int64 if whole else replaced_value_float
    hit = np.isnan(array) if not whole and np.isnan(old) else array == np.asarray(old, array.dtype)
    return like(x, np.where(hit, new, array))


@operator("OneHotEncoder", domain=MACHINE_LEARNING)
def one_hot_encoder(x: Any, *, cats_int64s: Any = None, cats_strings: Any = None, zeros: int = 1) -> Tensor:
    array = array_of(x)
    known = [text(name) for name in cats_strings] if cats_strings else list(cats_int64s or ())
    array = array if cats_strings else array.astype(np.int64)
    found = np.stack([array == category for category in known], -1).astype(np.float32)
    if not zeros and not found.any(-1).all():
        raise ValueError("a category is not in the list")
    return made_of(found)


@operator("FeatureVectorizer", domain=MACHINE_LEARNING)
def feature_vectorizer(*inputs: Tensor, inputdimensions: Any = None) -> Tensor:
    """The inputs side by side, as floats; each cut or filled up to its width."""
    parts = [np.atleast_2d(array_of(x)).astype(np.float32) for x in inputs]
    if inputdimensions:
        parts = [
            np.pad(p[:, :n], [(0, 0), (0, max(0, n - p.shape[1]))]) for p, n in zip(parts, inputdimensions, strict=True)
        ]
    return made_of(np.concatenate(parts, 1))


@operator("ArrayFeatureExtractor", domain=MACHINE_LEARNING)
def array_feature_extractor(x: Any, y: Tensor) -> Any:
    """Entries of the last dim."""
    index = array_of(y).reshape(-1)
    if index.size and not 0 <= index.min() <= index.max() < x.shape[-1]:
        raise IndexError(f"an index is outside of the {x.shape[-1]} features")
    found = array_of(x)[..., index]
    return like(x, found.reshape(1, -1) if found.ndim == 1 else found)


@operator("LabelEncoder", domain=MACHINE_LEARNING, since=2)
def label_encoder(
    x: Any, *, keys_strings: Any = None, keys_int64s: Any = None, keys_floats: Any = None, keys_tensor: Any = None,
    values_strings: Any = None, values_int64s: Any = None, values_floats: Any = None, values_tensor: Any = None,
    default_string: bytes = b"_Unused", default_int64: int = -1, default_float: float = -0.0,
        default_tensor: Any = None,
) -> Any:  # fmt: skip
    """Elements of x by a table of keys and values; the default for others."""
    keys, _ = _column(keys_strings, keys_int64s, keys_floats, keys_tensor)
    table, element = _column(values_strings, values_int64s, values_floats, values_tensor)
    if len(keys) != len(table):
        raise ValueError(f"{len(keys)} keys and {len(table)} values")
    if default_tensor is not None:
        default = array_of(from_stored(default_tensor)).reshape(-1)[0]
    elif element == "string":
        default = text(default_string)
    else:
        default = default_float if element.startswith("float") else default_int64
    plain = dict(zip(keys, table, strict=True))
    missing = next((v for k, v in zip(keys, table, strict=True) if k != k), default)  # of NaN
    found = [plain.get(v, missing if v != v else default) for v in array_of(x).reshape(-1).tolist()]
    kind = object if element == "string" else element
    return made_of(np.array(found, kind).reshape(x.shape), element)


def _column(strings: Any, whole: Any, floats: Any, stored: Any) -> tuple[list[Any], str]:
    if stored is not None:
        value = from_stored(stored)
        return array_of(value).reshape(-1).tolist(), element_of(value)
    if strings is not None:
        return [text(s) for s in strings], "string"
    if whole is not None:
        return list(whole), "int64"
    if floats is None:
        raise ValueError("it has no keys, or no values")
    return np.array(floats, np.float32).tolist(), "float32"


@operator("LabelEncoder", domain=MACHINE_LEARNING)
def label_encoder_of_classes(
    x: Any, *, classes_strings: list[bytes], default_int64: int = -1, default_string: bytes = b"_Unused"
) -> Any:
    """Texts to their places in a list, or places to texts."""
    return category_mapper(
        x, cats_strings=classes_strings, cats_int64s=list(range(len(classes_strings))), default_int64=default_int64,
        default_string=default_string,
    )  # fmt: skip


@operator("CategoryMapper", domain=MACHINE_LEARNING)
def category_mapper(
    x: Any, *, cats_strings: list[bytes], cats_int64s: list[int], default_int64: int = -1,
    default_string: bytes = b"_Unused",
) -> Any:  # fmt: skip
    """Texts to numbers, or numbers to texts."""
    names = [text(name) for name in cats_strings]
    if isinstance(x, ForeignArray):
        table = dict(zip(names, cats_int64s, strict=True))
        return made_of(np.array([table.get(v, default_int64) for v in x.array.reshape(-1)], np.int64).reshape(x.shape))
    back = dict(zip(cats_int64s, names, strict=True))
    found = [back.get(v, text(default_string)) for v in array_of(x).reshape(-1).tolist()]
    return ForeignArray("string", np.array(found, object).reshape(x.shape))


@operator("DictVectorizer", domain=MACHINE_LEARNING)
def dict_vectorizer(x: dict[Any, Any], *, int64_vocabulary: Any = None, string_vocabulary: Any = None) -> Any:
    """A map as a row (1, V): its values in the order of the vocabulary, 0 where there is none."""
    keys = [text(key) for key in string_vocabulary] if string_vocabulary else list(int64_vocabulary or ())
    if not isinstance(x, dict):
        raise TypeError("expected a map")
    values = [x.get(key, 0) for key in keys]
    if any(isinstance(value, str) for value in values):
        return ForeignArray("string", np.array([[v if isinstance(v, str) else "" for v in values]], object))
    kind = np.int64 if all(isinstance(value, int) for value in values) else np.float32
    return made_of(np.array([values], kind))


@operator("CastMap", domain=MACHINE_LEARNING)
def cast_map(x: dict[Any, Any], *, cast_to: bytes = b"TO_FLOAT", map_form: bytes = b"DENSE", max_map: int = 1) -> Any:
    """A map of int64 keys as a row: its values in the order of the keys, or at their places (SPARSE)."""
    if text(map_form) == "SPARSE":
        if any(not 0 <= key < max_map for key in x):
            raise IndexError(f"a key of the map is outside of 0 .. {max_map - 1}")
        empty: Any = "" if text(cast_to) == "TO_STRING" else 0
        row = [x.get(key, empty) for key in range(max_map)]
    else:
        row = [x[key] for key in sorted(x)]
    if text(cast_to) == "TO_STRING":
        return ForeignArray("string", np.array([[str(value) for value in row]], object))
    kind = np.float32 if text(cast_to) == "TO_FLOAT" else np.int64
    return made_of(np.array([[kind(value) for value in row]], kind))


@operator("ZipMap", domain=MACHINE_LEARNING)
def zip_map(x: Tensor, *, classlabels_int64s: Any = None, classlabels_strings: Any = None) -> list[dict[Any, float]]:
    """Rows (N, C) as maps from labels to numbers."""
    keys = [text(key) for key in classlabels_strings] if classlabels_strings else list(classlabels_int64s or ())
    rows = np.atleast_2d(array_of(x))
    if rows.shape[1] != len(keys):
        raise ValueError(f"{rows.shape[1]} columns and {len(keys)} labels")
    return [dict(zip(keys, row, strict=True)) for row in rows.tolist()]


@operator("LinearRegressor", domain=MACHINE_LEARNING)
def linear_regressor(
    x: Tensor, *, coefficients: list[float], intercepts: Any = None, post_transform: bytes = b"NONE", targets: int = 1
) -> Tensor:
    weights = np.array(coefficients, np.float32).reshape(targets, -1)
    found = _floats(x) @ weights.T + np.array(intercepts or [0.0], np.float32)
    return made_of(transformed(found, text(post_transform)).astype(np.float32))


@operator("LinearClassifier", domain=MACHINE_LEARNING)
def linear_classifier(
    x: Tensor, *, coefficients: list[float], intercepts: Any = None, classlabels_ints: Any = None,
    classlabels_strings: Any = None, multi_class: int = 0, post_transform: bytes = b"NONE",
) -> Any:  # fmt: skip
    rows = _floats(x)
    weights = np.array(coefficients, np.float32).reshape(-1, rows.shape[1])
    scores = rows @ weights.T + np.array(intercepts or [0.0], np.float32)
    labels = classlabels_strings or classlabels_ints or list(range(max(2, scores.shape[1])))
    return labelled(scores, labels, text(post_transform), 0.0)


def _kernel(x: Any, vectors: Any, kind: str, parameters: Any) -> Any:
    """(N, vectors)."""
    gamma, coef0, degree = (list(parameters or []) + [0.0] * 3)[:3]
    if kind == "RBF":
        apart = np.square(x).sum(1)[:, None] + np.square(vectors).sum(1) - 2 * x @ vectors.T
        return np.exp(-gamma * apart)
    inner = x @ vectors.T
    if kind == "LINEAR":
        return inner
    if kind == "POLY":
        return (gamma * inner + coef0) ** degree
    if kind == "SIGMOID":
        return np.tanh(gamma * inner + coef0)
    raise ValueError(f"kernel_type is {kind!r}, expected LINEAR, POLY, RBF or SIGMOID")


@operator("SVMRegressor", domain=MACHINE_LEARNING)
def svm_regressor(
    x: Tensor, *, coefficients: list[float], kernel_params: Any = None, kernel_type: bytes = b"LINEAR",
    n_supports: int = 0, one_class: int = 0, post_transform: bytes = b"NONE", rho: Any = None,
    support_vectors: Any = None,
) -> Tensor:  # fmt: skip
    rows = array_of(x).astype(np.float64)
    weights = np.array(coefficients, np.float64)
    if n_supports:
        vectors = np.array(support_vectors, np.float64).reshape(n_supports, -1)
        found = _kernel(rows, vectors, text(kernel_type), kernel_params) @ weights
    else:
        found = rows @ weights
    found = found + (rho or [0.0])[0]
    found = np.where(found > 0, 1.0, -1.0) if one_class else found
    return made_of(transformed(found[:, None], text(post_transform)).astype(np.float32))


@operator("SVMClassifier", domain=MACHINE_LEARNING)
def svm_classifier(
    x: Tensor, *, coefficients: list[float], classlabels_ints: Any = None, classlabels_strings: Any = None,
    kernel_params: Any = None, kernel_type: bytes = b"LINEAR", post_transform: bytes = b"NONE", prob_a: Any = None,
    prob_b: Any = None, rho: Any = None, support_vectors: Any = None, vectors_per_class: Any = None,
) -> Any:  # fmt: skip
    """Votes of one class against another (libsvm), or a linear score for each class."""
    rows = array_of(x).astype(np.float64)
    labels = classlabels_strings or classlabels_ints or [0, 1]
    count, shift = len(labels), np.array(rho or [0.0], np.float64)
    if not vectors_per_class:
        weights = np.array(coefficients, np.float64).reshape(count, -1)
        return labelled(rows @ weights.T + shift[0], labels, text(post_transform), 0.0)
    total = sum(vectors_per_class)
    vectors = np.array(support_vectors, np.float64).reshape(total, -1)
    weights = np.array(coefficients, np.float64).reshape(count - 1, total)
    seen = _kernel(rows, vectors, text(kernel_type), kernel_params)
    begins = np.concatenate([[0], np.cumsum(vectors_per_class)])
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    scores = np.empty((len(rows), len(pairs)))
    for at, (i, j) in enumerate(pairs):
        a, b = slice(begins[i], begins[i + 1]), slice(begins[j], begins[j + 1])
        scores[:, at] = seen[:, a] @ weights[j - 1, a] + seen[:, b] @ weights[i, b] + shift[at]
    votes = np.zeros((len(rows), count))
    for at, (i, j) in enumerate(pairs):
        votes[:, i] += scores[:, at] > 0
        votes[:, j] += scores[:, at] <= 0
    names = labels
    best = votes.argmax(1)
    if prob_a:
        table = transformed(_coupled(scores, pairs, count, prob_a, prob_b), text(post_transform))
    else:
        table = np.concatenate([-scores, scores], 1) if count == 2 else scores
        table = transformed(table, text(post_transform))
    if isinstance(names[0], bytes):
        found: Any = ForeignArray("string", np.array([text(n) for n in names], object)[best])
    else:
        found = made_of(np.array(names, np.int64)[best])
    return found, made_of(table.astype(np.float32))


def _coupled(scores: Any, pairs: Any, count: int, prob_a: Any, prob_b: Any) -> Any:
    """Probabilities of classes from those of pairs (Wu, Lin & Weng 2004, second method)."""
    found = np.empty((len(scores), count))
    for row, own in enumerate(scores):
        pair = np.zeros((count, count))
        for at, (i, j) in enumerate(pairs):
            chance = np.clip(1 / (1 + np.exp(own[at] * prob_a[at] + prob_b[at])), 1e-7, 1 - 1e-7)
            pair[i, j], pair[j, i] = chance, 1 - chance
        matrix = -pair.T * pair
        np.fill_diagonal(matrix, np.square(pair).sum(0))
        p = np.full(count, 1 / count)
        for _ in range(100):
            product = matrix @ p
            total = p @ product
            if np.abs(product - total).max() < 0.005 / count:
                break
            for k in range(count):
                step = (total - product[k]) / matrix[k, k]
                p[k] += step
                total = (total + step * (step * matrix[k, k] + 2 * product[k])) / (1 + step) ** 2
                product = (product + step * matrix[k]) / (1 + step)
                p /= 1 + step
        found[row] = p
    return found
