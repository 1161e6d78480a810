"""`pyapp run -n 2 SCRIPT.py`: a script in several processes."""

from __future__ import annotations

from collections.abc import Sequence

import click

from pyapp.cli.grouped import TRAINING, command


@command("run", short_help="Run a script in several processes.", context_settings={"allow_interspersed_args": False})
@click.option("-n", "--processes", type=click.IntRange(1, 1 << 16), default=2, show_default=True,
              help="How many processes.")  # fmt: skip
@click.option("--hosts", metavar="ONE:4,TWO:4", help="The machines, with the number of processes of each.")
@click.argument("script", type=click.Path(dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(processes: int, hosts: str | None, script: str, arguments: Sequence[str]) -> int:
    """Run SCRIPT with its ARGUMENTS in several processes, which find one another by pyapp.distributed.

    When one fails, the others are ended, and the last line names it. Needs MPI: pip install 'pyapp[distributed]'.
    """
    from pyapp.distributed import launch

    return launch.run(script, arguments, processes, hosts, lambda line: click.echo(line, err=True))


__commands__ = {TRAINING: (run,)}
