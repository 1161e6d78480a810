"""The embedded forecaster: the series that it learns from, and the training of a small Chronos-Bolt."""

from __future__ import annotations

from .series import made_series
from .training import ForecastSettings, train_forecast

__all__ = ["ForecastSettings", "made_series", "train_forecast"]
