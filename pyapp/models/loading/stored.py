"""How files store the parameters of a model: under other names, in parts, in another form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor

# Buffers of older files, which models compute themselves.
IGNORED = re.compile(
    r"(.*\.)?(rotary_emb\.inv_freq|rotary_emb\.(cos|sin)_cached|attn\.(bias|masked_bias)|attention\.(bias|masked_bias)"
    r"|position_ids|rope_freqs\.weight|rope_factors_(short|long)\.weight)"
)
# What files put before the names of a language model's tensors, and what they leave out.
PREFIXES = ("model.language_model.", "language_model.", "model.", "module.", "_orig_mod.")
SHOWN = 8  # names in an error


def ignored_by(module: Any, usual: re.Pattern[str] = IGNORED) -> re.Pattern[str]:
    """Names of files that are not parameters: the usual ones, and those of an architecture's module."""
    return re.compile(f"{usual.pattern}|{module.IGNORED}") if hasattr(module, "IGNORED") else usual


@dataclass(frozen=True)
class Stored:
    """How a file stores a parameter: under `name`, or in parts whose rows follow one another; with its rows in another
    order, or its values changed.

    rows: a function that brings the rows of the file's matrix, as (rows, bytes of a row) uint8, into the model's order.
    values: a function of the tensor as the file has it (its rows in order) that gives the parameter. join: a function
    of all parts that gives the parameter, where their rows do not follow one another. block: the values of a row that
    stay together in what it gives.
    """

    names: tuple[str, ...]
    rows: Callable[[Tensor], Tensor] | None = None
    values: Callable[[Tensor], Tensor] | None = None
    join: Callable[[Sequence[Tensor]], Tensor] | None = None
    block: int = 1


def renaming(parts: Mapping[str, str]) -> Callable[[str], str]:
    """The parameter of a file's tensor, whose names have other parts: by the parts of the file's names, in order."""

    def renamed(name: str) -> str:
        for theirs, ours in parts.items():
            name = name.replace(theirs, ours)
        return name

    return renamed


def base_of(module: Any, settings: Mapping[str, Any]) -> str:
    """The name that files of a model_type give to what is below the head: the module's BASE, which may be one for each
    model_type.
    """
    found: str = module.BASE if isinstance(module.BASE, str) else module.BASE[settings["model_type"]]
    return found


def rows_of(value: Tensor, first: int, count: int) -> Tensor:
    """`count` rows of a matrix, or as many elements of a vector, from `first` on."""
    return value.narrow(0, first, count).contiguous()


def cut_apart(source: str, parts: Sequence[str], rows: int) -> dict[str, Stored]:
    """The parameters `parts`, of `rows` rows each, which a file has in one matrix or vector, `source`."""
    return {
        part: Stored((source,), values=partial(rows_of, first=i * rows, count=rows)) for i, part in enumerate(parts)
    }


def listed(names: Sequence[str]) -> str:
    """The first names of files or parameters, for an error."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(name[:100] for name in names[:SHOWN]) + more
