"""torch.utils.data._utils.collate."""

from ..collating import default_collate, default_convert

__all__ = ["default_collate", "default_convert"]
