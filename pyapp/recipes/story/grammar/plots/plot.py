"""The type of a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from pyapp.dataclass import dataclass


@dataclass(frozen=True)
class Plot:
    """A pattern for stories. `text` is a template (see stories.py); a blank line starts a new paragraph.

    cast: role -> kind, e.g. {"a": "child", "b": "family"}; "animal:fox,bear" narrows the species.
    picks: slot -> the values to choose from. variants: sets of slots that belong together; one set is chosen.
    Slots may use the roles and the slots before them.
    """

    name: str
    cast: Mapping[str, str]
    text: str
    picks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    variants: Sequence[Mapping[str, str]] = ({},)
