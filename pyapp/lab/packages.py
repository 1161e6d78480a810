"""Packages for the cells of the page: wheels of pure Python from this site, or from hosts that the visitor allows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from pyapp.errors import OptionError


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
    in Python's package index, if its host and that of its files are among these. Only wheels of pure Python work.
    Without the index, wheels are installed without what they depend on. OptionError if a host is not allowed, or
    outside the page.
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
        if not wheel and index not in hosts:
            raise OptionError(
                "names of packages are looked up in an index, which cells may not reach", where=package,
                hint="Give the address of a wheel on this site; or add the host of the index and the host of its files "
                f"to those that cells may reach, in the Lab's settings, and restart Python. This index: {index}",
            )  # fmt: skip
        if wheel and parts.scheme not in ("http", "https"):
            raise OptionError("the address of a wheel begins with https:", where=package)
        if wheel and parts[:2] != urlsplit(site)[:2] and parts.netloc not in hosts:
            raise OptionError(
                f"the host {parts.netloc} is not allowed", where=package,
                hint="Add it to the hosts that cells may reach, in the Lab's settings, and restart Python",
            )  # fmt: skip
        wanted.append(address)
    return wanted
