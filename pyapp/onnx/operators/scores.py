"""ai.onnx.ml: what turns scores into probabilities and labels."""

from __future__ import annotations

from typing import Any

from pyapp.engine import ops
from pyapp.engine.lazy import np

from ..values import ForeignArray, array_of, made_of


def _softmax(scores: Any) -> Any:
    high = np.exp(scores - scores.max(-1, keepdims=True))
    return high / high.sum(-1, keepdims=True)


def _logistic(scores: Any) -> Any:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-scores))


def transformed(scores: Any, how: str) -> Any:
    """Scores (N, C) after "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO" (zeros stay) or "PROBIT"."""
    match how:
        case "NONE":
            return scores
        case "SOFTMAX":
            return _softmax(scores)
        case "LOGISTIC":
            return _logistic(scores)
        case "SOFTMAX_ZERO":
            kept = scores != 0
            high = np.where(kept, np.exp(scores - scores.max(-1, keepdims=True)), 0)
            return high / np.maximum(high.sum(-1, keepdims=True), 1e-30)
        case "PROBIT":
            wide = made_of(np.asarray(2 * scores - 1, np.float64))
            return np.sqrt(2) * array_of(ops.erfinv(wide))
    raise ValueError(f"post_transform is {how!r}")


def labelled(scores: Any, labels: Any, how: str, threshold: float) -> tuple[Any, Any]:
    """(labels (N,), scores (N, classes)). One score for two classes is the second one's; it wins above the
    threshold."""
    if scores.shape[1] == 1 and len(labels) == 2:
        best = (scores[:, 0] > threshold).astype(np.int64)
        if how == "LOGISTIC":
            second = _logistic(scores[:, 0])
            table = np.stack([1 - second, second], 1)
        elif how in ("SOFTMAX", "SOFTMAX_ZERO"):
            table = transformed(np.stack([-scores[:, 0], scores[:, 0]], 1), how)
        elif how == "PROBIT":
            second = transformed(scores[:, 0], how)
            table = np.stack([1 - second, second], 1)
        else:
            first = 1 - scores[:, 0] if threshold == 0.5 else -scores[:, 0]
            table = np.stack([first, scores[:, 0]], 1)
    else:
        best, table = scores.argmax(1), transformed(scores, how)
    if isinstance(labels[0], bytes):
        names = np.array([label.decode() for label in labels], object)
        return ForeignArray("string", names[best]), made_of(table.astype(np.float32))
    return made_of(np.array(labels, np.int64)[best]), made_of(table.astype(np.float32))
