"""What was read in pages as text, JSON, CSV, HTML and hOCR. A page is the values of an Item of tasks.read."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from typing import Any

Values = Mapping[str, Any]
FORMATS = ("text", "json", "csv", "html", "hocr")
BESIDE = "  "  # between parts of a row
TAB = "\t"


def written(form: str, pages: Sequence[Values], names: Sequence[str], only_tables: bool = False) -> str:
    """The content of a file in one of FORMATS; `names` are those of the pages' pictures. only_tables: the rest is left
    out.
    """
    if only_tables:
        pages = [dict(page) | {"regions": tables_of([page]), "text": plain_text(tables_of([page]))} for page in pages]
    if form == "text":
        return "\n\n".join(page["text"] for page in pages) + "\n"
    if form == "json":
        named = [dict(page) | {"name": name} for page, name in zip(pages, names, strict=True)]
        return json.dumps(named, ensure_ascii=False, indent=1) + "\n"
    if form == "csv":
        return as_csv(pages)
    return as_html(pages) if form == "html" else as_hocr(pages, names)


def plain_text(regions: Sequence[Values]) -> str:
    """The text of regions: an empty line between them, tabs between the cells of tables, two spaces between lines that
    stand beside one another.
    """
    return "\n\n".join(_table_text(region) if region["kind"] == "table" else _block_text(region) for region in regions)


def _block_text(region: Values) -> str:
    rows: list[list[Values]] = []
    for line in region["lines"]:
        last = rows[-1][-1] if rows else None
        if last is not None and _same_row(last["corners"], line["corners"]):
            rows[-1].append(line)
        else:
            rows.append([line])
    return "\n".join(BESIDE.join(line["text"] for line in row) for row in rows)


def _same_row(one: Any, other: Any) -> bool:
    """Whether a line stands after another, by their corners."""
    height = one[3][1] - one[0][1]
    return bool(other[0][0] >= one[1][0] and abs(other[0][1] + other[3][1] - one[1][1] - one[2][1]) < height)


def _table_text(region: Values) -> str:
    return "\n".join(TAB.join(row) for row in grid(region))


def grid(table: Values) -> list[list[str]]:
    """The texts of a table's cells, row by row; the text of a cell that spans several is in the first of them."""
    found = [[""] * table["columns"] for _ in range(table["rows"])]
    for cell in table["cells"]:
        found[cell["row"]][cell["column"]] = cell["text"]
    return found


def tables_of(pages: Sequence[Values]) -> list[Values]:
    """The tables of pages in their order."""
    return [region for page in pages for region in page["regions"] if region["kind"] == "table"]


def as_csv(pages: Sequence[Values]) -> str:
    """The tables of pages (RFC 4180), with an empty line between them."""
    parts = []
    for table in tables_of(pages):
        out = StringIO()
        csv.writer(out, lineterminator="\n").writerows(grid(table))
        parts.append(out.getvalue())
    return "\n".join(parts)


def as_html(pages: Sequence[Values]) -> str:
    """A document of paragraphs and tables, in UTF-8."""
    body = []
    for page in pages:
        for region in page["regions"]:
            if region["kind"] == "table":
                body.append(_html_table(region))
            else:
                lines = "<br>\n".join(map(escape, _block_text(region).split("\n")))
                body.append(f"<p>{lines}</p>")
    head = '<!DOCTYPE html>\n<html>\n<head><meta charset="utf-8"><title>Text of pictures</title></head>\n<body>\n'
    return head + "\n".join(body) + "\n</body>\n</html>\n"


def _html_table(table: Values) -> str:
    rows: list[list[str]] = [[] for _ in range(table["rows"])]
    for cell in table["cells"]:
        spans = "".join(
            f' {name}="{cell[key]}"'
            for name, key in (("rowspan", "row_span"), ("colspan", "column_span"))
            if cell[key] > 1
        )
        rows[cell["row"]].append(f"<td{spans}>{escape(cell['text'])}</td>")
    return "<table border>\n" + "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows) + "\n</table>"


def as_hocr(pages: Sequence[Values], names: Sequence[str]) -> str:
    """hOCR 1.2 (https://kba.github.io/hocr-spec/1.2/): pages, areas, lines and words with their boxes and confidence.
    `names` are those of the pictures.
    """
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" '
        '"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">',
        '<html xmlns="http://www.w3.org/1999/xhtml">',
        "<head><title></title>",
        '<meta http-equiv="Content-Type" content="text/html;charset=utf-8"/>',
        '<meta name="ocr-system" content="pyapp"/>',
        '<meta name="ocr-capabilities" content="ocr_page ocr_carea ocr_line ocrx_word"/>',
        "</head>",
        "<body>",
    ]
    for number, (page, name) in enumerate(zip(pages, names, strict=True), 1):
        image = escape(name.replace('"', "'"), quote=True)
        title = f"image &quot;{image}&quot;; bbox 0 0 {page['width']} {page['height']}; ppageno {number - 1}"
        out.append(f'<div class="ocr_page" id="page_{number}" title="{title}">')
        for k, region in enumerate(page["regions"], 1):
            out.append(f'<div class="ocr_carea" id="block_{number}_{k}" title="{_bbox(region["box"])}">')
            for i, line in enumerate(region["lines"], 1):
                out.append(f'<span class="ocr_line" id="line_{number}_{k}_{i}" title="{_bbox(line["box"])}">')
                for j, word in enumerate(line["words"], 1):
                    title = f"{_bbox(word['box'])}; x_wconf {round(100 * word['confidence'])}"
                    out.append(
                        f'<span class="ocrx_word" id="word_{number}_{k}_{i}_{j}" title="{title}">'
                        f"{escape(word['text'])}</span>"
                    )
                out.append("</span>")
            out.append("</div>")
        out.append("</div>")
    return "\n".join([*out, "</body>", "</html>", ""])


def _bbox(box: Sequence[float]) -> str:
    return "bbox " + " ".join(str(max(0, round(side))) for side in box)
