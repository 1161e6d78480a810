"""Attention by two warpgroups of a block (native/cuda/attention_pairs.cu), in the emulator, against the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.engine.device import Device
from pyapp.nn import functional as F

from . import emulated

pytestmark = [pytest.mark.native_only, pytest.mark.skipif(emulated.REAL, reason="looks into the emulator")]
DEVICE = emulated.DEVICE
NAME = "masked_attention_pairs"


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that were launched, of a card that has a block of rows for each multiprocessor at once."""
    backend: Any = Device(DEVICE).backend
    monkeypatch.setattr(backend, "attention_pairs", 1)
    found: list[str] = []
    monkeypatch.setattr(backend.card, "launched", found)
    return found


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    """(B, H, T, 128) float32 that bfloat16 and float16 hold."""
    random = np.random.default_rng(1)
    return [pyapp.from_numpy(random.integers(-16, 17, shape).astype(np.float32) / 8) for shape in shapes]


def both(
    inputs: list[Tensor], dtype: str, launched: list[str], **options: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The result and the gradients of q, k and v: on the card, and in float32 on the CPU."""
    found = []
    for device, kind in ((DEVICE, dtype), ("cpu", "float32")):
        own = [x.to(device).to(kind).requires_grad_() for x in inputs]
        y = F.scaled_dot_product_attention(*own, **options)
        weights = pyapp.arange(128, dtype="float32").to(device).sin().to(kind)
        (y.nan_to_num(0, 0, 0) * weights).sum().backward()
        found.append([x.detach().cpu().float().numpy() for x in (y, *(x.grad for x in own if x.grad is not None))])
    assert launched.count(NAME) == 1
    emulated.check()
    return found[0], found[1]


def test_gradients_read_what_it_keeps(launched: list[str]) -> None:
    inputs = drawn((1, 2, 70, 128), (1, 1, 70, 128), (1, 1, 70, 128))
    for found, expected in zip(*both(inputs, "float16", launched, is_causal=True, enable_gqa=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=4e-3 * abs(expected).max())


def test_what_is_not_finite_stays_with_the_rows_that_see_it(launched: list[str]) -> None:
    """Rows from 40 on see the infinite value of key 40, those from 45 on the NaN of key 45, in its column alone."""
    q, k, v = drawn((1, 1, 90, 128), (1, 1, 90, 128), (1, 1, 90, 128))
    v = v.clone()
    v[0, 0, 40, 3], v[0, 0, 45, 7] = float("inf"), float("nan")
    (y, *_), (expected, *_) = both([q, k, v], "bfloat16", launched, is_causal=True)
    assert np.isfinite(y[0, 0, :40]).all() and (y[0, 0, 40:, 3] == np.inf).all() and np.isnan(y[0, 0, 45:, 7]).all()
    others = np.delete(np.arange(128), [3, 7])
    np.testing.assert_allclose(y[..., others], expected[..., others], rtol=0, atol=3e-2)


def test_who_takes_it(monkeypatch: pytest.MonkeyPatch, launched: list[str]) -> None:
    """Only heads of 128 in 16 bits, aligned, without a mask, with enough rows."""
    q = drawn((1, 2, 5, 136))[0].to(DEVICE).to("bfloat16")
    mask = pyapp.zeros(5, 5, device=DEVICE, dtype="bfloat16")
    for x, options in (
        (q[..., :64], {}),
        (q[..., 1:129], {}),
        (q[..., :128].float(), {}),
        (q[..., :128], {"attn_mask": mask}),
    ):
        F.scaled_dot_product_attention(x, x, x, **options)
    assert NAME not in launched
    F.scaled_dot_product_attention(q[..., :128], q[..., 8:], q[..., :128])
    assert launched.count(NAME) == 1
    backend: Any = Device(DEVICE).backend
    monkeypatch.setattr(backend, "attention_pairs", 3)  # blocks; here there are two
    F.scaled_dot_product_attention(q[..., :128], q[..., 8:], q[..., :128])
    assert launched.count(NAME) == 1
