"""What the reader of a cell can do about errors that are usual in a browser, or for those who come from Jupyter."""

from __future__ import annotations

import errno
import os
import re
import sys

# Packages whose module has another name.
PACKAGES = {
    "Crypto": "pycryptodome", "PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python",
    "dateutil": "python-dateutil", "docx": "python-docx", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}  # fmt: skip
# What pyapp has in place of a package that is not for browsers, or large.
INSTEAD = {
    "torch": "pyapp has PyTorch's names: import pyapp as torch.",
    "tensorflow": "pyapp has Keras' interface: from pyapp import keras.",
    "keras": "pyapp has Keras' interface: from pyapp import keras.",
    "matplotlib": "For curves and pictures there are lab.plot(x, y) and lab.image(pixels): from pyapp import lab.",
}
COMMAND = re.compile(r"\s*[%!]")
INSTALLATION = re.compile(r"\s*[%!]?\s*(?:python3? -m )?pip3? install\s+(?:-\S+\s+)*([\w.\[\]-]+)")
QUOTES = re.compile(r"invalid character '[\u2018-\u201f\u00ab\u00bb\u2039\u203a\u0060\u00b4]'")
TOO_LARGE = re.compile(r"index-sized integer|array is too big|Maximum allowed (dimension|size) exceeded")
QUESTION = re.compile(r"\s*([\w.]+)\?{1,2}\s*$")


def advice(error: BaseException) -> str | None:
    """A sentence or two about what to do; None for other errors."""
    match error:
        case ModuleNotFoundError(name=str(name)) if "." not in name:
            return _missing(name)
        case SyntaxError(msg=str(said)) if said.startswith("invalid non-printable character"):
            return "This character cannot be seen. It often comes with text that was copied: type the line again."
        case SyntaxError(msg=str(said)) if QUOTES.match(said):
            return "Python takes straight quotation marks only: \" or '. Type these again."
        case SyntaxError(text=str(line)):
            return _command(line)
        case UnboundLocalError():
            return None
        case NameError():
            return "If another cell defines this name, run that cell first: a restart of Python forgets all names."
        case UnicodeDecodeError(encoding="utf-8"):
            likely = "utf-16" if bytes(error.object[:2]) in (b"\xff\xfe", b"\xfe\xff") else "windows-1252"
            return f'A text file that is not in UTF-8 needs its encoding, such as open(name, encoding="{likely}").'
        case FileNotFoundError(filename=str(name)):
            folder = os.path.dirname(name)
            if folder and not os.path.isdir(folder):
                return f'There is no folder of this name. Make it first: os.makedirs("{folder}", exist_ok=True).'
            return "Drop the file on this page, or choose it below Files. Cells then read it by its name."
        case OSError() if unreachable(error):
            return (
                "A browser has no sockets. Fetch data so: from pyodide.http import pyfetch; response = await "
                "pyfetch(address). The host must be named under “Keys and settings”."
            )
        case OSError() if "does not support processes" in str(error):
            return "A browser has no other programs to run. Python itself handles files: os.listdir(), shutil.copy()."
        case OverflowError() | ValueError() if TOO_LARGE.search(str(error)):
            return "This is more than fits in the memory of a browser's tab (at most 4 GB). Use smaller sizes."
        case RuntimeError(args=("can't start new thread",)):
            return "A browser's Python has no threads: call the function itself, or use asyncio."
    return None


def unreachable(error: OSError) -> bool:
    """Whether a socket found no host: in a browser none does. The errors of urllib have that one as their reason."""
    reason = getattr(error, "reason", error)
    return isinstance(reason, OSError) and reason.errno == errno.EHOSTUNREACH


def _missing(module: str) -> str:
    if module in sys.stdlib_module_names:
        return "This module of Python's library does not exist in a browser."
    return INSTEAD.get(module) or _how_to_install(PACKAGES.get(module, module))


def _command(line: str) -> str | None:
    """About a command of Jupyter's."""
    if found := INSTALLATION.match(line):
        return _how_to_install(found[1])
    if COMMAND.match(line):
        return "Lines that begin with % or ! are commands of Jupyter. Cells here are Python only."
    return f"This shows what it is: help({found[1]})." if (found := QUESTION.match(line)) else None


def _how_to_install(package: str) -> str:
    return (
        "The package is not installed here. In a cell before this one, run: from pyapp import lab; "
        f'await lab.install("{package}"). Only packages that run in a browser can be installed.'
    )
