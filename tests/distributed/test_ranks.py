"""The processes that train a model together, here threads."""

from __future__ import annotations

import math

import pytest

import pyapp
from pyapp import nn, optim
from pyapp.cli.together import train_together
from pyapp.engine.processes.group import ProcessGroup
from pyapp.errors import OptionError, PyappError
from pyapp.optim.lr_scheduler import LambdaLR
from pyapp.train.ranks import Ranks
from pyapp.train.trainer import Trainer
from tests.distributed.thread_ranks import in_ranks

pytestmark = pytest.mark.native_only


def test_gradients_are_summed_and_those_of_nobody_stay_away() -> None:
    def run(group: ProcessGroup) -> None:
        used, unused = (nn.Parameter(pyapp.ones(2)) for _ in range(2))
        used.grad = None if group.rank() else pyapp.tensor([1.0, 2.0])
        assert Ranks(group).sum_gradients(nn.ParameterList([used, unused]), 1.5) == 3.0
        assert used.grad is not None and used.grad.tolist() == [1, 2] and unused.grad is None

    in_ranks(2, run)


class Numbers:
    """Batches 0, 1, 2 …"""

    def __init__(self) -> None:
        self.next = -1

    def batch(self) -> int:
        self.next += 1
        return self.next


@pytest.mark.parametrize("value", [2e9, math.nan, math.inf])
def test_a_loss_that_diverges_on_one_process_ends_all(value: float) -> None:
    """Also one that is below the limit in the mean."""

    def run(group: ProcessGroup) -> None:
        model = nn.Linear(1, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.0)
        trainer = Trainer(
            model, Numbers(), lambda net, batch: (net.weight.sum(), value if batch == 3 else 1.0), optimizer,
            LambdaLR(optimizer, lambda _: 1.0), accumulate=4,
        )  # fmt: skip
        trainer.ranks = Ranks(group)
        with pytest.raises(PyappError, match="the loss became .* at step 1"):
            trainer.step()

    in_ranks(2, run)


def test_machines_without_processes_are_refused() -> None:
    with pytest.raises(OptionError, match="--hosts: says where several processes are"):
        train_together(1, "one:4,two:4", False, None, lambda ranks, device: 0)
