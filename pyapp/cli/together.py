"""`--tensor-parallel N`: a command that N processes run together. The first one leads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from pyapp.errors import OptionError

tensor_parallel_option = click.option(
    "--tensor-parallel", "processes", type=click.IntRange(1, 1 << 10), default=1, metavar="N",
    help="Divide the model among N processes of this machine. Needs MPI: pip install 'pyapp[distributed]'.",
)  # fmt: skip


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
    from pyapp.distributed import launch

    started = launch.led_processes()
    if started is None:
        return launch.run_led(sys.argv[1:], processes, lambda line: click.echo(line, err=True))
    if started != processes:
        raise OptionError(f"is {processes}, but {started} processes were started", where="--tensor-parallel")
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
