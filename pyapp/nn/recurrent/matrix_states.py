"""States that are matrices (B, H, K, V) and change with every token: rules that take a text in chunks, whose tokens are
products with one another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

from ...engine import Tensor
from ...engine.grad_mode import STATE
from ...engine.op import op
from ...engine.ops import cat

# A state (B, H, K, V) and inputs (B, H, T, ·) of all tokens → the outputs (B, H, T, V) and the state after them.
Rule: TypeAlias = Callable[..., tuple[Tensor, Tensor]]


def in_chunks(chunk: Rule, most: int, state: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """A rule for texts of any length from one for at most `most` tokens."""
    found, tokens = [], inputs[0].shape[2]
    for start in range(0, tokens, most):
        count = min(most, tokens - start)
        y, state = chunk(state, *(x.narrow(2, start, count) for x in inputs))
        found.append(y)
    return found[0] if len(found) == 1 else cat(found, 2), state


def matrix_rule(rule: Rule) -> Rule:
    """A rule that is an op where a call is traced, so that it can be written down as a loop over the tokens: the number
    of its chunks, and the products within them, are those of one length. The op gives the outputs and the state
    together, (B, H, T + K, V).
    """

    @op()
    @wraps(rule)
    def joined(state: Tensor, *inputs: Tensor) -> Tensor:
        return cat(list(rule(state, *inputs)), 2)

    @wraps(rule)
    def run(state: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        if not STATE.traced:
            return rule(state, *inputs)
        both = joined(state, *inputs)
        tokens = inputs[0].shape[2]
        return both.narrow(2, 0, tokens), both.narrow(2, tokens, state.shape[2])

    return run
