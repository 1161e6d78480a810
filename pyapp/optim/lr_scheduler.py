"""Learning-rate schedules, by torch.optim.lr_scheduler's names."""

from ..nn.lr_scheduler import *  # noqa: F403
