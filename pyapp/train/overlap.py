"""Metrics of how well areas of classes overlap: intersection over union."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, no_grad, ops
from .floats import floatx
from .metrics import Metric, as_tensors, weights_like

__all__ = ["BinaryIoU", "IoU", "MeanIoU", "OneHotIoU", "OneHotMeanIoU"]


class IoU(Metric):
    """The mean over the classes `target_class_ids` of intersection / union of labels and predictions. They are class
    numbers, or, if they are not sparse, have a number for each class along `axis`. `ignore_class` and numbers outside
    of the classes do not count.
    """

    def __init__(
        self, num_classes: int, target_class_ids: Any, name: str | None = None, dtype: Any = None,
        ignore_class: int | None = None, sparse_y_true: bool = True, sparse_y_pred: bool = True, axis: int = -1,
    ) -> None:  # fmt: skip
        super().__init__(name, dtype or "int32")
        self.num_classes, self.target_class_ids = num_classes, [int(k) for k in target_class_ids]
        if not self.target_class_ids or not 0 <= min(self.target_class_ids) <= max(self.target_class_ids) < num_classes:
            raise ValueError(
                f"{type(self).__name__}: target_class_ids are 0 … {num_classes - 1}, got {self.target_class_ids}"
            )
        self.ignore_class, self.axis = ignore_class, axis
        self.sparse_y_true, self.sparse_y_pred = sparse_y_true, sparse_y_pred

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        truth, found = as_tensors(y_true, y_pred)
        with no_grad():
            truth = truth if self.sparse_y_true else truth.argmax(self.axis)
            found = found if self.sparse_y_pred else found.detach().argmax(self.axis)
            self.add_pairs(truth, found, sample_weight)

    def add_pairs(self, truth: Tensor, found: Tensor, sample_weight: Any) -> None:
        """Counts pairs of class numbers, tensors of any one size."""
        if truth.numel() != found.numel():
            raise ValueError(f"{self.name}: {truth.shape} labels and {found.shape} predictions differ in number")
        weights = weights_like(found.float(), sample_weight).reshape(-1, 1)  # (N, 1)
        truth, found = truth.reshape(-1, 1).to("int64"), found.reshape(-1, 1).to("int64")
        if self.ignore_class is not None:
            weights = weights * (truth != self.ignore_class).float()
        kinds = ops.arange(self.num_classes, device=found.device)
        self.add("total_confusion_matrix", ((truth == kinds).float() * weights).T @ (found == kinds).float())  # (C, C)

    def result(self) -> Tensor:
        """The mean so far: a float, where `dtype` is that of the counts in Keras."""
        return ops.tensor(self.read(), dtype=floatx(), device="cpu")

    def read(self) -> float:
        if not self._state:
            return 0.0
        table = self._state["total_confusion_matrix"].tolist()
        ratios = []
        for k in self.target_class_ids:
            union = sum(table[k]) + sum(row[k] for row in table) - table[k][k]
            if union:
                ratios.append(table[k][k] / union)
        return sum(ratios) / len(ratios) if ratios else 0.0

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(), "num_classes": self.num_classes, "target_class_ids": self.target_class_ids,
            "ignore_class": self.ignore_class, "sparse_y_true": self.sparse_y_true,
            "sparse_y_pred": self.sparse_y_pred, "axis": self.axis,
        }  # fmt: skip


class BinaryIoU(IoU):
    """IoU of two classes: predictions of at least `threshold` are of class 1."""

    def __init__(
        self, target_class_ids: Any = (0, 1), threshold: float = 0.5, name: str | None = None, dtype: Any = None
    ) -> None:
        super().__init__(2, target_class_ids, name, dtype)
        self.threshold = threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        truth, found = as_tensors(y_true, y_pred)
        with no_grad():
            self.add_pairs(truth, found.detach() >= self.threshold, sample_weight)

    def get_config(self) -> dict[str, Any]:
        shared = {"name": self.name, "dtype": self.dtype}
        return {**shared, "target_class_ids": self.target_class_ids, "threshold": self.threshold}


class MeanIoU(IoU):
    """IoU of all classes."""

    def __init__(
        self, num_classes: int, name: str | None = None, dtype: Any = None, ignore_class: int | None = None,
        sparse_y_true: bool = True, sparse_y_pred: bool = True, axis: int = -1,
    ) -> None:  # fmt: skip
        every = range(num_classes)
        super().__init__(num_classes, every, name, dtype, ignore_class, sparse_y_true, sparse_y_pred, axis)

    def get_config(self) -> dict[str, Any]:
        return {name: value for name, value in super().get_config().items() if name != "target_class_ids"}


class OneHotIoU(IoU):
    """IoU of labels with a number for each class."""

    def __init__(
        self, num_classes: int, target_class_ids: Any, name: str | None = None, dtype: Any = None,
        ignore_class: int | None = None, sparse_y_pred: bool = False, axis: int = -1,
    ) -> None:  # fmt: skip
        super().__init__(num_classes, target_class_ids, name, dtype, ignore_class, False, sparse_y_pred, axis)

    def get_config(self) -> dict[str, Any]:
        return {name: value for name, value in super().get_config().items() if name != "sparse_y_true"}


class OneHotMeanIoU(MeanIoU):
    """IoU of all classes, of labels with a number for each class."""

    def __init__(
        self, num_classes: int, name: str | None = None, dtype: Any = None, ignore_class: int | None = None,
        sparse_y_pred: bool = False, axis: int = -1,
    ) -> None:  # fmt: skip
        super().__init__(num_classes, name, dtype, ignore_class, False, sparse_y_pred, axis)

    def get_config(self) -> dict[str, Any]:
        return {name: value for name, value in super().get_config().items() if name != "sparse_y_true"}
