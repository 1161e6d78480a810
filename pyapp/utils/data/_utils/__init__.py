"""torch.utils.data._utils: `collate`, which other code imports from there."""

from . import collate

__all__ = ["collate"]
