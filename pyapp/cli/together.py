"""`--tensor-parallel N`, `--processes N`: a command that N processes run together. The first one leads, and tells."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from pyapp.errors import OptionError
from pyapp.interrupts import STOPPED

LONGEST = 86_400.0  # seconds that processes wait for the first one, which judges and saves

tensor_parallel_option = click.option(
    "--tensor-parallel", "processes", type=click.IntRange(1, 1 << 10), default=1, metavar="N",
    help="Divide the model among N processes of this machine. Needs MPI: pip install 'pyapp[distributed]'.",
)  # fmt: skip


processes_option = click.option(
    "--processes", type=click.IntRange(1, 1 << 10), default=1, metavar="N",
    help="Divide the batches of a step among N processes, on N cards with --device cuda. Needs MPI: "
    "pip install 'pyapp[distributed]'. [default: 1]",
)  # fmt: skip


hosts_option = click.option(
    "--hosts", metavar="ONE:4,TWO:4",
    help="With --processes: the machines, this one first, with the number of processes of each. All see the same files "
    "under the same paths, and have ssh. [default: this one]",
)  # fmt: skip


shard_option = click.option(
    "--shard", is_flag=True,
    help="With --processes: each keeps a part of the weights, the gradients and the optimiser's state, not the whole.",
)  # fmt: skip


def _is_one_of(processes: int, option: str) -> bool:
    """Whether this process is one of those that this command has started."""
    from pyapp.distributed import launch

    started = launch.led_processes()
    if started not in (None, processes):
        raise OptionError(f"is {processes}, but {started} processes were started", where=option)
    return started is not None


def _start(processes: int, hosts: str | None = None) -> int:
    """Runs this command in as many processes, on these machines; returns its exit code."""
    from pyapp.distributed import launch

    return launch.run_led(sys.argv[1:], processes, lambda line: click.echo(line, err=True), hosts)


def train_together(
    processes: int, hosts: str | None, shard: bool, device: str | None, run: Callable[[Any, str | None], int]
) -> int:  # fmt: skip
    """Runs `run(ranks, device)` in each of several processes on these machines, `device` with the number of its card;
    of one process, `run(None, device)`. With `shard` they divide the parameters. Returns the exit code.
    """
    if processes == 1 and hosts is not None:
        raise OptionError("says where several processes are, and there is one", where="--hosts",
                          hint="Give --processes, the sum of those of all machines")  # fmt: skip
    if processes == 1 and shard:
        raise OptionError(
            "divides a model among processes, and there is one", where="--shard", hint="Give --processes 2"
        )
    if processes == 1:
        return run(None, device)
    if device is not None and ":" in device:
        raise OptionError(
            f"is {device}, but each of {processes} processes has a card of its own", where="--device",
            hint="Give --device cuda; CUDA_VISIBLE_DEVICES chooses the cards",
        )  # fmt: skip
    if not _is_one_of(processes, "--processes"):
        return _start(processes, hosts)
    from pyapp import distributed
    from pyapp.train.ranks import Ranks

    cards = device is not None and device.startswith("cuda")
    device = f"cuda:{os.environ['LOCAL_RANK']}" if cards else device
    ranks = Ranks(distributed.init_process_group("nccl" if cards else "mpi", timeout=LONGEST), shard, device)
    code = run(ranks, device)
    if code and not ranks.begun:
        ranks.fail()  # the others wait there for all
    if code in (0, STOPPED) or ranks.failed:
        distributed.destroy_process_group()
    return code  # with the group in place, the end of this process ends the others


def run_together(processes: int, run: Callable[[Any], int]) -> int:
    """Runs `run(leader)` in the first of several processes, while the others follow; of one process, `run(None)`.
    Returns the exit code.
    """
    if processes == 1:
        return run(None)
    from pyapp.tasks.keeper import keeper

    if keeper.device is not None:
        raise OptionError(f"is {keeper.device!r}, but several processes compute on the CPU here", where="--device",
                          hint="Take one process, or a script with init_process_group('nccl')")  # fmt: skip
    if not _is_one_of(processes, "--tensor-parallel"):
        return _start(processes)
    from pyapp import distributed
    from pyapp.distributed.leading import Leader, OutOfStep, follow
    from pyapp.models.load import load_model

    group = distributed.init_process_group()
    if group.rank():
        follow(group, load_model)
        distributed.destroy_process_group()
        return 0
    leader = Leader(group, load_model)
    try:
        code = run(leader)
    except OutOfStep:  # the others may be anywhere: they cannot be told
        raise
    except BaseException:
        leader.end()
        distributed.destroy_process_group()
        raise
    leader.end()
    distributed.destroy_process_group()
    return code
