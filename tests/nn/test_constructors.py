"""Constructors with wrong arguments: the error names the layer, what is wrong and the call. Layers alike with torch."""

from __future__ import annotations

from typing import Any

import pytest

import pyapp
from pyapp import nn
from pyapp.errors import OperationError
from tests.together import check_each


class Block(nn.Module):
    """A user's module: its error is that of the layer in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3, groups=2)


CASES: list[tuple[Any, str]] = [
    (lambda: nn.Linear(-1, 3), "Linear: a tensor cannot have the shape (3, -1)"),
    (lambda: nn.Linear("x", 3), "Linear: a size is an integer: (3, 'x') is not a shape; in Linear('x', 3)"),
    (lambda: nn.Linear(3), "Linear: missing 1 required positional argument: 'out_features'; in Linear(3)"),
    (lambda: nn.Linear(2, 3, bogus=1), "Linear: got an unexpected keyword argument 'bogus'"),
    (lambda: nn.Linear(2**40, 2**40), "Linear: cannot allocate 4,835,703,278,458,516,698,824,704 bytes"),
    (lambda: nn.Transformer(d_model=2**40), "in Transformer(d_model=1099511627776)"),  # not the layer inside
    (lambda: nn.Transformer(num_encoder_layers=-1), "Transformer: num_layers is from 0 on, not -1"),
    (lambda: nn.LSTM(0.5, 2), "; in LSTM(0.5, 2)"),  # not that of the base class
    (Block, "Conv2d: 3 and 4 channels do not make 2 groups; in Conv2d(3, 4, 3, groups=2)"),
    (lambda: nn.BCELoss(weight=(1, 2)), "BCELoss: weight is a tensor or None, not (1, 2)"),
    (lambda: nn.LazyInstanceNorm1d(bogus=1), "LazyInstanceNorm1d.__init__() got an unexpected keyword argument"),
    (lambda: nn.LayerNorm(1)(pyapp.ones(3, 2)), "float32[1] on cpu does not fit the last dim of float32[3, 2]"),
    (lambda: nn.ReflectionPad1d(9)(pyapp.ones(1, 2)), "pad: 9 and 9 are too wide"),
]


def test_wrong_arguments_are_told_with_the_layer() -> None:
    def check(number: int, make: Any, says: str) -> None:
        with pytest.raises((OperationError, MemoryError, TypeError)) as caught:
            make()
        assert says in str(caught.value), caught.value

    check_each(check, [(number, *case) for number, case in enumerate(CASES)])
