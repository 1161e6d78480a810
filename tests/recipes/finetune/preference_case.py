"""Answers that are judged, and the values of an adapter, that trl's and our training share."""

from __future__ import annotations

KINDS = ("sigmoid", "hinge", "ipo", "robust", "apo_zero", "apo_down")
REFERENCE_FREE = ("orpo", "cpo", "simpo")
UNPAIRED = ("kto", "apo_zero_unpaired")
BETA, SMOOTHING, GAMMA = 0.2, 0.1, 0.3
WEIGHTS = (1.5, 0.75)  # of desirable answers and of others
PAIRS = [
    {"prompt": "the sun is ", "chosen": "yellow and warm", "rejected": "a lamp"},
    {"prompt": "the moon ", "chosen": "white", "rejected": "is made of cheese"},
]
LABELLED = [  # whose mismatched answers gained, so that the divergence is above 0
    {"prompt": "the sun is ", "completion": "sleeps", "label": True},
    {"prompt": "the moon ", "completion": "white", "label": False},
    {"prompt": "a cat ", "completion": "yellow and warm", "label": True},
]
SCORES = ([0.5, -1.25, 2.0], [0.75, -2.0, 0.5], [0.1, 0.2, 0.3])  # preferred, other, margins
