"""PDFs for the tests of the read view."""

from __future__ import annotations


def pdf(*texts: str, locked: bool = False) -> bytes:
    """A PDF of pages with a line of text each, in a font that is not in the file; `locked` with some password."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in texts:
        content = f"BT /F 20 Tf 40 60 Td ({text}) Tj ET"
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 360 120] /Resources << /Font << /F 3 0 R >> >>"
            f" /Contents {len(objects) + 2} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    data, places = "%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{text}\nendobj\n"
    key = "<< /Filter /Standard /V 1 /R 2 /P -4 /O <" + "5a" * 32 + "> /U <" + "a5" * 32 + "> >>"
    more = f" /Encrypt {key} /ID [<00> <00>]" if locked else ""
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"trailer\n<< /Size {size} /Root 1 0 R{more} >>\nstartxref\n{len(data)}\n%%EOF\n"
    return f"{data}xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode("latin-1")
