"""Divides NumPy into two archives: what the first recording needs, and the rest, which the page fetches when it is
idle."""

from __future__ import annotations

import zipfile
from pathlib import Path

# `import numpy` reads none of them where pyapp.late_linalg stands in for numpy.linalg.
LATER = tuple(f"numpy/{name}/" for name in ("fft", "linalg", "ma", "polynomial", "random", "testing"))
PACKAGE = "numpy-later"


def split_numpy(wheel: Path, folder: Path) -> list[Path]:
    """Writes `wheel` without LATER into `folder`, and LATER as a wheel of its own."""
    _, version, tags = wheel.name.split("-", 2)
    name = PACKAGE.replace("-", "_")
    first, later = folder / wheel.name, folder / f"{name}-{version}-{tags}"
    with (
        zipfile.ZipFile(wheel) as source, zipfile.ZipFile(first, "w") as start, zipfile.ZipFile(later, "w") as rest,
    ):  # fmt: skip
        members = source.infolist()
        for member in members:
            (rest if member.filename.startswith(LATER) else start).writestr(member, source.read(member))
        metadata = zipfile.ZipInfo(f"{name}-{version}.dist-info/METADATA", members[0].date_time)
        rest.writestr(metadata, f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n")
    return [first, later]
