"""Packages for the cells of the page: wheels of pure Python from this site, or from hosts that the visitor allows; and
what to do about an import of a package that is not there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from pyapp.errors import OptionError

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
COMMAND = re.compile(r"\s*[%!](?:\w+)?")
INSTALLATION = re.compile(r"\s*[%!]?\s*(?:python3? -m )?pip3? install\s+(?:-\S+\s+)*([\w.\[\]-]+)")


class Host(Protocol):
    """The worker: the address of the site, the hosts that the visitor allows, and `micropip` of the site."""

    site: str
    allowed: str

    async def micropip(self) -> Any: ...


_host: Host | None = None


def connect(host: Host) -> None:
    global _host
    _host = host


async def install(*packages: str) -> None:
    """Installs packages in the page: `await lab.install("wheels/mine-1.0-py3-none-any.whl")`.

    Each is the address of a wheel, relative to this site or on a host that is allowed in the Lab's settings, or a name
    in Python's package index, if its host is among these. Only wheels of pure Python work. Without the index, wheels
    are installed without what they depend on. OptionError if a host is not allowed, or outside the page.
    """
    if _host is None:
        raise OptionError("packages are installed in the page only", where="lab.install", hint="Use pip here")
    await _host.micropip()
    import micropip

    hosts, index = _host.allowed.split(), urlsplit(micropip.package_index.DEFAULT_INDEX_URLS[0]).netloc
    await micropip.install(addresses(packages, _host.site, hosts, index), deps=index in hosts)


def addresses(packages: Iterable[str], site: str, hosts: list[str], index: str) -> list[str]:
    """What micropip is asked for: addresses of wheels, and names of the packages of the host `index`. OptionError for a
    host that is not in `hosts`.
    """
    wanted = []
    for package in packages:
        wheel = package.endswith(".whl")
        address = urljoin(site, package) if wheel else package
        parts = urlsplit(address)
        host = parts.netloc if wheel else index
        if wheel and parts.scheme not in ("http", "https"):
            raise OptionError("the address of a wheel begins with https:", where=package)
        if (parts.scheme, parts.netloc) != urlsplit(site)[:2] and host not in hosts:
            raise OptionError(
                f"the host {host} is not allowed", where=package,
                hint="Add it to the hosts that cells may reach, in the Lab's settings, and restart Python",
            )  # fmt: skip
        wanted.append(address)
    return wanted


def advice(error: BaseException) -> str | None:
    """What the reader of a cell can do about an import that found no module, a command of Jupyter's in the cell, or a
    file that is not in UTF-8; None for other errors.
    """
    if isinstance(error, UnicodeDecodeError) and error.encoding == "utf-8":
        utf16 = bytes(error.object[:2]) in (b"\xff\xfe", b"\xfe\xff")
        likely = "utf-16" if utf16 else "windows-1252"
        return (
            f'If this is a text file, it is not in UTF-8. Name its encoding, such as open(name, encoding="{likely}").'
        )
    if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name:
        if error.name in sys.stdlib_module_names:
            return "This module of Python's library does not exist in a browser."
        return INSTEAD.get(error.name) or how_to_install(PACKAGES.get(error.name, error.name))
    line = (error.text or "") if isinstance(error, SyntaxError) else ""
    if found := INSTALLATION.match(line):
        return how_to_install(found[1])
    if COMMAND.match(line):
        return "Lines that begin with % or ! are commands of Jupyter. Cells here are Python only."
    return None


def how_to_install(package: str) -> str:
    return (
        "The package is not installed here. In a cell before this one, run: from pyapp import lab; "
        f'await lab.install("{package}"). Only packages that run in a browser can be installed.'
    )
