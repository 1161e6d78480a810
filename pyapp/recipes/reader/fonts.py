"""The fonts that print the lines: those of Debian's packages, found by fontconfig's program fc-list.

Some families are kept for the test: training never sees them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import field
from functools import cache, lru_cache
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import PyappError

PROGRAM = "fc-list"
SEEN = (
    "Accanthis ADF Std", "Aerial", "Agave", "Allerta", "Andika", "Anonymous Pro", "Arapey", "Arimo", "Averia Sans GWF",
    "Averia Serif GWF", "Baskervald ADF Std", "Berenis ADF Pro", "Beteckna", "C059", "CMU Bright", "CMU Concrete",
    "CMU Sans Serif", "CMU Serif", "CMU Typewriter Text", "Cantarell", "Century Catalogue", "Charis SIL", "Comfortaa",
    "Cousine", "DejaVu Sans", "DejaVu Sans Mono", "DejaVu Serif", "Dosis", "Doulos SIL", "EB Garamond", "Essays1743",
    "Fantasque Sans Mono", "Fanwood", "Fira Code", "FreeMono", "FreeSans", "FreeSerif", "GFS Artemisia", "GFS Didot",
    "GFS Neohellenic", "GNUTypewriter", "Gillius ADF", "Go", "Go Mono", "Goudy Bookletter 1911", "Hack", "Hermit",
    "Ikarius ADF Std", "Inter", "JetBrains Mono", "Junction", "Jura", "Latin Modern Mono", "Latin Modern Roman",
    "Latin Modern Sans", "League Mono", "Liberation Mono", "Liberation Sans", "Liberation Sans Narrow",
    "Liberation Serif", "Libris ADF Std", "Linden Hill", "Linux Libertine O", "Linux Biolinum O", "Lobster Two",
    "Manrope", "Monoid", "National Park", "Nimbus Mono PS", "Nimbus Roman", "Nimbus Sans", "Nimbus Sans Narrow",
    "Noto Mono", "Noto Sans", "Noto Sans Display", "Noto Sans Mono", "Noto Serif", "Noto Serif Display", "OCR B",
    "OSP-DIN", "Old Standard TT", "Open Sans", "Open Sans Condensed", "OpenDyslexic", "Oxygen Mono", "Oxygen-Sans",
    "P052", "PT Mono", "Play", "Prociono", "Quicksand", "Rasa", "Roboto", "Roboto Condensed", "Roboto Slab",
    "Romande ADF Std", "STIX", "STIXGeneral", "Sora", "Spleen 32x64", "Switzera ADF", "TeX Gyre Adventor",
    "TeX Gyre Bonum", "TeX Gyre Chorus", "TeX Gyre Cursor", "TeX Gyre Heros", "TeX Gyre Heros Cn", "TeX Gyre Pagella",
    "TeX Gyre Schola", "TeX Gyre Termes", "Tinos", "Tiresias Infofont", "Tiresias PCfont", "Tlwg Typewriter",
    "Tribun ADF Std", "Tuffy", "Tymes", "URW Bookman", "URW Gothic", "Universalis ADF Std", "Verana", "Veranda",
    "Yanone Kaffeesatz", "Yrsa", "mononoki", "osifont",
)  # fmt: skip
UNSEEN = (
    "B612", "Cabin", "Caladea", "Carlito", "Clear Sans", "Comic Neue", "Courier Prime", "Gentium Basic", "Gentium Plus",
    "Inconsolata", "Karla", "Lato", "PT Sans", "PT Serif", "Quattrocento", "Vollkorn",
)  # fmt: skip
"""Families of the test."""

COMMON = (
    "Liberation Sans", "Liberation Serif", "DejaVu Sans", "Roboto", "Open Sans", "Noto Sans", "Noto Serif", "Inter",
    "TeX Gyre Termes", "Latin Modern Roman", "Nimbus Roman", "Nimbus Sans", "Liberation Mono", "Verana", "C059", "P052",
)  # fmt: skip
"""Families like those that most papers and screens have: chosen more often."""

COMMON_SHARE = 0.3
ODD = ("Initials", "Caps", "Math", "Ornament", "Swash", "Outline", "Shadow", "Dunhill", "Smallcaps", "SC", "Hairline")
NEEDED = set(range(0x21, 0x7F))  # characters that a font must have
KEPT = 256  # open fonts


@dataclass(frozen=True)
class Font:
    """A face in a font's file and the code points that it has."""

    file: str
    index: int
    family: str
    style: str
    characters: frozenset[int] = field(repr=False, compare=False, hash=False)

    def has(self, text: str) -> bool:
        return all(ord(character) in self.characters for character in text if character != " ")


@cache
def installed() -> dict[str, Sequence[Font]]:
    """The faces of each family of SEEN and UNSEEN that is installed, in the order of their files.

    PyappError without fontconfig, or with fewer than a third of the families.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise PyappError(f"the program {PROGRAM} is missing", hint="Install the package fontconfig")
    form = "%{file}\t%{index}\t%{family[0]}\t%{style[0]}\t%{charset}\n"
    listed = subprocess.run([program, "--format", form], capture_output=True, text=True, timeout=60, check=True).stdout
    wanted = {*SEEN, *UNSEEN}
    found: dict[str, list[Font]] = {}
    for fields in sorted(line.split("\t") for line in listed.split("\n")):
        if len(fields) != 5:  # the last line, and names with line breaks
            continue
        file, index, family, style, charset = fields
        # Faces of variable fonts have a number of the instance above bit 16, which FreeType's face number lacks here.
        if family not in wanted or int(index) >= 1 << 16 or any(word in style.split() for word in ODD):
            continue
        characters = _characters(charset)
        if characters >= NEEDED:
            font = Font(file, int(index), family, style, frozenset(c for c in characters if c < 0x2200))
            found.setdefault(family, []).append(font)
    if len(found) < (len(SEEN) + len(UNSEEN)) / 3 or not any(family in found for family in UNSEEN):
        raise PyappError(
            f"only {len(found)} of {len(wanted)} families of fonts are installed",
            hint="docs/reader.md lists Debian's packages that have them",
        )
    return dict(found)


def _characters(charset: str) -> set[int]:
    """fontconfig's ranges of hexadecimal code points."""
    found: set[int] = set()
    for part in charset.split():
        first, _, last = part.partition("-")
        found.update(range(int(first, 16), int(last or first, 16) + 1))
    return found


@lru_cache(KEPT)
def opened(file: str, index: int, size: int, ligatures: bool) -> Any:
    """Pillow's font of a size in pixels per em; with `ligatures`, if Pillow has the library Raqm."""
    from PIL import ImageFont, features

    layout = ImageFont.Layout.RAQM if ligatures and features.check("raqm") else ImageFont.Layout.BASIC
    return ImageFont.truetype(file, size, index, layout_engine=layout)
