"""The plots: each a skeleton with alternatives, and variants whose cause, clue and ending belong together."""

from __future__ import annotations

from pyapp.train.plots.forest import FOREST
from pyapp.train.plots.friends import FRIENDS
from pyapp.train.plots.home import HOME
from pyapp.train.plots.meadow import MEADOW
from pyapp.train.plots.outdoors import OUTDOORS
from pyapp.train.plots.plot import Plot
from pyapp.train.plots.wonder import WONDER

__all__ = ["PLOTS", "Plot"]

PLOTS: tuple[Plot, ...] = HOME + OUTDOORS + FRIENDS + FOREST + MEADOW + WONDER
