"""Learning-rate schedules, by torch.optim.lr_scheduler's names."""

from . import cycles, schedules, warmup
from .cycles import *  # noqa: F403
from .schedules import *  # noqa: F403
from .warmup import *  # noqa: F403

__all__ = sorted([*cycles.__all__, *schedules.__all__, *warmup.__all__])
_LRScheduler = LRScheduler  # noqa: F405 (its older name, for classes of one's own)
