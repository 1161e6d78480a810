"""Tables of names by module, as generated indexes hold them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping


def table(name: str, names: Mapping[str, Iterable[str]]) -> str:
    """The source of a dict of texts: by module, its names with spaces between them."""
    lines = [f"{name} = {{"]
    for module, found in sorted(names.items()):
        text = textwrap.fill(" ".join(sorted(found)), 112, break_on_hyphens=False)
        lines += [f'    "{module}": """', textwrap.indent(text, "        "), '    """,']
    return "\n".join([*lines, "}"])
