"""The plots: each is a text with alternatives, and variants whose cause, clue and ending belong together."""

from __future__ import annotations

from pyapp.recipes.story.grammar.plots.forest import FOREST
from pyapp.recipes.story.grammar.plots.friends import FRIENDS
from pyapp.recipes.story.grammar.plots.home import HOME
from pyapp.recipes.story.grammar.plots.meadow import MEADOW
from pyapp.recipes.story.grammar.plots.outdoors import OUTDOORS
from pyapp.recipes.story.grammar.plots.plot import Plot
from pyapp.recipes.story.grammar.plots.wonder import WONDER

__all__ = ["PLOTS", "Plot"]

PLOTS: tuple[Plot, ...] = HOME + OUTDOORS + FRIENDS + FOREST + MEADOW + WONDER
