"""One process of a run: `mpirun -n 2 python -m pyapp.distributed.process SCRIPT.py …`. It gives the script torchrun's
environment, and ends all processes when the script fails in this one.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path

from .launch import REPORTS

# torchrun's names, and those of mpirun (Open MPI; MPICH).
_NAMES = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
}


def main() -> None:
    script, *_ = sys.argv[1:]
    for name, theirs in _NAMES.items():
        found = next((os.environ[other] for other in theirs if other in os.environ), None)
        if found is not None:
            os.environ[name] = found
    sys.argv[:] = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as left:
        if left.code in (None, 0):
            return
        code = left.code if isinstance(left.code, int) else 1
        if code != left.code:
            print(left.code, file=sys.stderr)
        _fail(code, f"ended with exit code {code}")
    except BaseException as error:
        traceback.print_exc()
        told = f"{type(error).__name__}: {error}".split("\n")[0]
        _fail(130 if isinstance(error, KeyboardInterrupt) else 1, f"failed with {told[:200]}")


def _fail(code: int, what: str) -> None:
    """Reports how this process ended, and ends all."""
    rank, folder = os.environ.get("RANK", "0"), os.environ.get(REPORTS)
    if folder is not None and os.path.isdir(folder):
        unfinished = Path(folder, f".rank-{rank}")
        unfinished.write_text(f"{rank}\n{code}\n{what}", encoding="utf-8")
        unfinished.rename(Path(folder, f"rank-{rank}"))
    sys.stdout.flush()
    sys.stderr.flush()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(code)
    os._exit(code)


if __name__ == "__main__":
    main()
