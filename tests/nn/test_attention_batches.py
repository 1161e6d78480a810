"""MultiheadAttention refuses queries and keys of several batches, the usual mistake with batch_first."""

from __future__ import annotations

import pytest

import pyapp
from pyapp import nn
from pyapp.nn.attention.bias import causal_lower_right, causal_upper_left


@pytest.mark.parametrize("batch_first", [False, True])
def test_batches_that_differ_are_refused(batch_first: bool) -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first)
    query, key = pyapp.ones(3, 2, 8), pyapp.ones(4, 5, 8)
    with pytest.raises(ValueError, match=f"several batches: with batch_first {batch_first} the batch is dim"):
        layer(query, key, key)
    key = pyapp.ones(3, 5, 8) if batch_first else pyapp.ones(5, 2, 8)
    assert layer(query, key, key)[0].shape == (3, 2, 8)


def test_causal_masks_of_unequal_lengths() -> None:
    """As torch.nn.attention.bias has them."""
    assert causal_upper_left(2, 4).tolist() == [[True, False, False, False], [True, True, False, False]]
    assert causal_lower_right(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]
    assert causal_lower_right(2, 1).tolist() == [[False], [True]]
    with pytest.raises(ValueError, match="the number of queries and that of keys"):
        causal_lower_right(3)
