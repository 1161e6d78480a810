"""One process of a run: `mpirun -n 2 python -m pyapp.distributed.process SCRIPT.py …`, or `… -m MODULE …`. It gives
the script torchrun's environment, and ends all processes when the script fails in this one.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path

from .launch import LED, REPORTS

# torchrun's names, and those of mpirun (Open MPI; MPICH).
_NAMES = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
}


def main() -> None:
    """Runs the script or module of the command line, as `python` would, with torchrun's variables set."""
    for name, theirs in _NAMES.items():
        found = next((os.environ[other] for other in theirs if other in os.environ), None)
        if found is not None:
            os.environ[name] = found
    _report("pid", str(os.getpid()))
    if LED in os.environ and os.environ.get("RANK", "0") == "0":
        _take_stdin(os.environ[LED])
    script, *arguments = sys.argv[1:]
    try:
        if script == "-m":
            sys.argv[:] = arguments
            sys.path[0] = ""
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = [script, *arguments]
            sys.path[0] = str(Path(script).resolve().parent)
            runpy.run_path(script, run_name="__main__")
    except SystemExit as left:
        if left.code in (None, 0):
            return
        if LED in os.environ and isinstance(left.code, int) and not _running():
            _report("code", str(left.code))  # a command that ended in all processes, and told its error
            return
        code = left.code if isinstance(left.code, int) else 1
        if code != left.code:
            print(left.code, file=sys.stderr)
        _fail(code, f"ended with exit code {code}")
    except KeyboardInterrupt as stopped:
        if not str(stopped):  # that of a run (pyapp.train.script) says how to go on
            traceback.print_exc()
        _fail(130, str(stopped) or "was stopped")
    except BaseException as error:
        traceback.print_exc()
        told = f"{type(error).__name__}: {error}".split("\n")[0]
        _fail(1, f"failed with {told[:200]}")


def _take_stdin(process: str) -> None:
    """Reads from the stdin of another process of this machine, if it has one."""
    try:
        file = os.open(f"/proc/{int(process)}/fd/0", os.O_RDONLY)
    except (OSError, ValueError):
        return
    os.dup2(file, 0)
    os.close(file)


def _report(kind: str, text: str) -> None:
    """Tells the process that started this one something, by a file of this rank."""
    rank, folder = os.environ.get("RANK", "0"), os.environ.get(REPORTS)
    if folder is not None and os.path.isdir(folder):
        unfinished = Path(folder, f".{kind}-{rank}")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.rename(Path(folder, f"{kind}-{rank}"))


def _running() -> bool:
    """Whether this process is in a group that has not ended."""
    group = sys.modules.get("pyapp.engine.processes.group")
    return group is not None and group.is_initialized()


def _fail(code: int, what: str) -> None:
    """Reports how this process ended, and ends all."""
    _report("rank", f"{os.environ.get('RANK', '0')}\n{code}\n{what}")
    sys.stdout.flush()
    sys.stderr.flush()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(code)
    os._exit(code)


if __name__ == "__main__":
    main()
