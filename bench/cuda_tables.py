"""The table of a card's speed in docs/cuda.md, from what `python -m bench.cuda` has written:
python -m bench.cuda_tables [bench/output/cuda.json] [--write]

Prints it; `--write` puts it between the two marks in docs/cuda.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "cuda.md"
BEGIN, END = "<!-- bench.cuda_tables: begin -->", "<!-- bench.cuda_tables: end -->"


def table_of(result: dict[str, Any]) -> str:
    """Markdown: what was measured, a row for each figure with a column for each peer, and what failed."""
    about, rows = result["about"], result["rows"]
    peers = list(dict.fromkeys(who for row in rows for who in [*row["peers"], *row.get("problems", {})]))
    lines = [", ".join(f"{key} {value}" for key, value in about.items()), ""]
    lines += [f"| | pyapp | {' | '.join(peers)} |" if peers else "| | pyapp |"]
    lines += ["| --- | --- |" + " --- |" * len(peers)]
    for row in rows:
        share = f", {row['GB/s']:,.0f} GB/s" if "GB/s" in row else ""
        cells = [row["name"].removeprefix("cuda/"), f"{_number(row['median'])} {row['unit']}{share}"]
        for who in peers:
            found, failed = row["peers"].get(who), row.get("problems", {}).get(who)
            cells.append(f"{_number(found['median'])} ({found['ratio']:.2f})" if found else "failed" if failed else "")
        lines.append(f"| {' | '.join(cells)} |")
    failed = result["problems"] | {
        f"{row['name']}, {who}": told for row in rows for who, told in row.get("problems", {}).items()
    }
    if failed:
        lines += ["", "What failed:", "", *(f"- {name}: {told}" for name, told in failed.items())]
    return "\n".join(lines)


def _number(x: float) -> str:
    """Four digits, and whole numbers as they are."""
    return f"{x:,.0f}" if x >= 1000 else f"{x:.4g}"


def written(page: str, table: str) -> str:
    """The page with the table between its marks. ValueError where it has none."""
    begin, end = page.find(BEGIN), page.find(END)
    if not 0 <= begin < end:
        raise ValueError(f"the page has no lines {BEGIN} and {END}")
    return f"{page[: begin + len(BEGIN)]}\n{table}\n{page[end:]}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path, nargs="?", default=Path("bench/output/cuda.json"))
    parser.add_argument("--write", action="store_true", help="into docs/cuda.md")
    options = parser.parse_args(arguments)
    if not options.result.is_file():
        print(f"{options.result} is not there: `make bench-cuda` writes it, on a card", file=sys.stderr)
        return 2
    try:
        table = table_of(json.loads(options.result.read_text()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"{options.result} is not what `make bench-cuda` writes: {error!r}", file=sys.stderr)
        return 2
    if options.write:
        PAGE.write_text(written(PAGE.read_text(), table))
    else:
        print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
