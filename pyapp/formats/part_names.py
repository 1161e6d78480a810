"""The names that models in several files have: the index beside the files, and the parts of a GGUF file,
NAME-00001-of-00003.gguf. The hub needs these names without the readers.
"""

from __future__ import annotations

import re

INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")  # the preferred first
PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE | re.DOTALL)
PARTS_LIMIT = 4096


def part_names(name: str) -> list[str]:
    """The names of all parts of a model, the first first, from the name of one; [] if this is not a part's name."""
    match = PART.fullmatch(name)
    count = 0 if match is None else int(match["count"])
    if match is None or not 1 <= count <= PARTS_LIMIT or not 1 <= int(match["number"]) <= count:
        return []
    return [f"{match['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
