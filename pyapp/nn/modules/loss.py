"""torch.nn.modules.loss: the losses, and the bases of losses of one's own."""

from typing import Any

from ...engine import Tensor
from ..losses.classification import *  # noqa: F403
from ..losses.ctc import *  # noqa: F403
from ..losses.margin import *  # noqa: F403
from ..losses.reduction import read_old_reduction
from ..losses.regression import *  # noqa: F403
from ..module import Module


class _Loss(Module):
    """Keeps `reduction`; the deprecated `size_average` and `reduce` choose it, too. pyapp's own losses are no
    instances.
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        settings: dict[str, Any] = {"size_average": size_average, "reduce": reduce, "reduction": reduction}
        read_old_reduction(type(self).__name__, settings)
        self.reduction: str = settings["reduction"]


class _WeightedLoss(_Loss):
    """The same with a buffer `weight`, or None."""

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
