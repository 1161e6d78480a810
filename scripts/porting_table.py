"""Writes the table of docs/porting.md: python -m scripts.porting_table. From the names that torch has, which
tests/porting/make_golden.py notes down, and from what pyapp has.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NAMES = ROOT / "tests" / "porting" / "torch_names.json"
TARGET = ROOT / "docs" / "porting.md"
BEGIN, END = "<!-- names: python -m scripts.porting_table -->\n", "<!-- end of names -->"
# What is left out as a whole, and how its names are told.
GROUPS = {
    "sparse, nested and torch's quantised tensors": (
        r"sparse|indices|^(dsmm|hsmm|hspmm|saddmm|smm|spmm|sspaddmm|crow|col|row)|quantiz|^q_|^qu?int|^quint|fake_quant|"
        r"fbgemm|int_repr|qscheme|qparams|moving_avg|nested|^dense_dim$|^values_copy$|SparseAdam|per_(channel|tensor)_"
    ),
    "compiled programs, symbolic sizes, several processes and devices": (
        r"[Ss]ym_|^Sym|Script|JIT|Type$|[Ee]xport|^cond$|^fork$|^wait$|^parse_|import_ir|[Dd]istributed|^DataPar|SyncB|"
        r"Dispatch|Graph|Ir$|^merge_|^unify_|Node$|Value$|^Use$|^Block$|Argument|Schema|Module(s|Serializer)?$|Stream|"
        r"^(Event|Future|Code|Tag|Node|IODescriptor|Capsule|AliasDb|Gradient|CallStack|FileCheck|CompilationUnit)$|"
        r"OperatorInfo|ExecutionPlan|ErrorReport|Logger|Benchmark|Exclude|Disable|Serial|TracingState|PyTorchFile|"
        r"^AVG$|^SUM$|Aggregation|AwaitType|ObjType|List$|Dict$|DictIterator|DictKeyIterator|DeepCopyMemo"
    ),
    "kernels of one library and copies of views": (
        r"cudnn|mkldnn|miopen|^native_|_copy$|^batch_norm_|^(ipu|xpu|mtia|maia|vulkan|xla|hpu|is_(ipu|xpu|mtia|maia|"
        r"vulkan|xla|mkldnn))|to_mkldnn|_autocast|autocast_|has_(lapack|mkl|openmp|spectral)|scaled_mm|grouped_mm|"
        r"warn_always|debug_mode|init_num_threads|^Deserial|anomaly_check|set_anomaly"
    ),
    "dtypes of a few bits": r"^u?int[1-7]$|^complex32$|^chalf$|^bits?\d|^bit$|float4|float8_.*(uz|e8m0)",
    "storages by their elements": r"Storage$|^storage",
}  # fmt: skip


def find(namespace: str, name: str) -> bool:
    """Whether pyapp has a name of torch's."""
    if namespace == "Tensor":
        import pyapp

        return hasattr(pyapp.Tensor, name) or hasattr(pyapp.ones(2, 2), name)
    try:
        return hasattr(importlib.import_module(f"pyapp.{namespace}" if namespace else "pyapp"), name)
    except ImportError:
        return False


def group_of(name: str) -> str | None:
    """The group of names that are left out to which a name of torch's belongs."""
    return next((group for group, pattern in GROUPS.items() if re.search(pattern, name)), None)


def render() -> str:
    """The lines between the markers."""
    names: dict[str, list[str]] = json.loads(NAMES.read_text())
    lines, left = (
        ["| torch | names | here | left out one by one |", "| --- | --- | --- | --- |"],
        dict.fromkeys(GROUPS, 0),
    )
    for namespace, wanted in names.items():
        missing = [name for name in wanted if not find(namespace, name)]
        alone: list[str] = []
        for name in missing:
            group = group_of(name)
            if group is None:
                alone.append(name)
            else:
                left[group] += 1
        counted = [name for name in wanted if name not in missing or name in alone]
        shown = " ".join(f"`{name}`" for name in alone) or "–"
        title = f"torch.{namespace}" if namespace else "torch"
        lines.append(f"| `{title}` | {len(counted)} | {len(counted) - len(alone)} | {shown} |")
    lines += ["", "Not counted above, as they are left out as a whole:", ""]
    lines += [f"- {group} ({count} names)" for group, count in left.items()]
    return "\n".join(lines) + "\n"


def replaced(text: str) -> str:
    """The text of the page with the current table."""
    head, rest = text.split(BEGIN)
    return head + BEGIN + render() + END + rest.split(END)[1]


def main(*_: Any) -> None:
    TARGET.write_text(replaced(TARGET.read_text()))


if __name__ == "__main__":
    main()
