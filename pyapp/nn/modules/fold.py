"""torch.nn.modules.fold."""

from ..layers.convolution import Fold, Unfold

__all__ = ["Fold", "Unfold"]
