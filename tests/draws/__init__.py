"""Drawn calls of ops over operands in drawn memory layouts, compared with the same calls on dense copies in float64:
python -m tests.draws [SEED] [COUNT] [DEVICE] [FAMILY ...]. They find kernels that read or write wrong places for some
layout, dtype or shape. No suite runs them.

A call is drawn from its seed and the families alone, so the seed that a report names draws it again: python -m
tests.draws SEED 1.
"""
