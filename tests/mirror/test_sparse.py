"""Sparse tensors on a device whose memory the host cannot see: what the CPU computes, bit by bit."""

from __future__ import annotations

from typing import Any

import pytest

import pyapp
from tests.engine import cases_sparse
from tests.together import check_each, fewer_in_browser

from . import device as _device  # noqa: F401 (registers the mirror)

# The others make further tensors, on the CPU.
MADE = {"index_select", "index_select of a dense dim", "spdiags", "csr of parts", "values of a leaf"}
CASES = [(name, call) for name, call in cases_sparse.CASES.items() if name not in MADE][::2]


@pytest.mark.filterwarnings("error")
def test_sparse_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    on_cpu = cases_sparse.inputs

    def there(t: Any) -> dict[str, Any]:
        return {name: leaf.detach().to("mirror").requires_grad_() for name, leaf in on_cpu(t).items()}

    def check(name: str, call: Any) -> None:
        wanted = cases_sparse.told(pyapp, call)
        with monkeypatch.context() as patch:
            patch.setattr(cases_sparse, "inputs", there)
            assert cases_sparse.told(pyapp, call) == wanted

    check_each(check, fewer_in_browser(CASES))
