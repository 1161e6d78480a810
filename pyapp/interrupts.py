"""Ctrl-C while the command is still being imported, which takes half a second: it ends quietly, with exit code 130."""

# The built-in module of `signal`, which imports others for so long that it would come too late.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

STOPPED = 130


def is_command() -> bool:
    """Whether this process is the command `pyapp` or `python -m pyapp`, not a program that imports the package."""
    program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    if program == "-m":  # while Python finds the module of -m
        options = sys.orig_argv[1:]
        return "-m" in options and options[options.index("-m") + 1 :][:1] == ["pyapp"]
    return os.path.splitext(program)[0] in ("pyapp", "pyapp-script")


def end_quietly() -> None:
    """Makes Ctrl-C end the process without a traceback, unless another handler is installed."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Undoes end_quietly: Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    os._exit(STOPPED)
