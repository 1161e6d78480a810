"""PDFs for the tests of the reader: in a font that is not in the file, locked with a password, with Japanese codes."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from io import BytesIO

from PIL import ImageFont

PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")  # ISO 32000-1, 7.6.3.3
KEY_BYTES = 5
OWNER = bytes([0x5A]) * 32
PERMISSIONS = struct.pack("<i", -4)
FILE_ID = b"\0"
HALF_WIDTH = 231  # the CID of a half-width space in Adobe-Japan1; the other characters of ASCII follow


def pdf(*texts: str, password: str | None = None) -> bytes:
    """A PDF of pages with a line of text each, in a font that is not in the file; `password` opens it."""
    return _file(texts, [b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"], password)


def japanese_pdf(*texts: str) -> bytes:
    """As `pdf`, of texts in ASCII, as many Japanese programs write them: codes of Shift JIS, of which a reader has to
    know the CMap, and a font in the file, whose characters have the numbers (CIDs) of Adobe-Japan1.
    """
    font = ImageFont.load_default(20)
    assert isinstance(font.path, BytesIO)  # the font that is in Pillow
    data = font.path.getvalue()
    glyphs = b"".join(struct.pack(">H", glyph) for glyph in [0] * HALF_WIDTH + _glyphs_of_ascii(data))
    widths = " ".join(str(round(font.getlength(chr(code)) * 50)) for code in range(32, 127))
    fonts = [
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Aileron /Encoding /90ms-RKSJ-H /DescendantFonts [4 0 R] >>",
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Aileron /FontDescriptor 5 0 R /CIDToGIDMap 6 0 R"
        b" /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >>"
        b" /DW 1000 /W [%d [%s]] >>" % (HALF_WIDTH, widths.encode()),
        b"<< /Type /FontDescriptor /FontName /Aileron /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0"
        b" /Ascent 900 /Descent -200 /CapHeight 700 /StemV 80 /FontFile2 7 0 R >>",
        _stream(glyphs),
        _stream(data),
    ]
    return _file(texts, fonts, None)


def _glyphs_of_ascii(font: bytes) -> list[int]:
    """The numbers of the glyphs of ASCII's 95 characters, by the font's table cmap of format 4."""
    heads = (struct.unpack_from(">4s4xI", font, 12 + 16 * i) for i in range(struct.unpack_from(">H", font, 4)[0]))
    base = dict(heads)[b"cmap"]
    for i in range(struct.unpack_from(">H", font, base + 2)[0]):
        at = base + struct.unpack_from(">I", font, base + 8 + 8 * i)[0]
        if struct.unpack_from(">H", font, at)[0] == 4:
            break
    count = struct.unpack_from(">H", font, at + 6)[0] // 2
    ends, starts, deltas, offsets = (
        struct.unpack_from(f">{count}H", font, at + 14 + part * 2 * count + (2 if part else 0)) for part in range(4)
    )
    found = []
    for code in range(32, 127):
        i = next(i for i in range(count) if ends[i] >= code)
        glyph = code if starts[i] <= code else 0
        if glyph and offsets[i]:
            place = at + 16 + 6 * count + 2 * i + offsets[i] + 2 * (code - starts[i])
            glyph = struct.unpack_from(">H", font, place)[0]
        found.append((glyph + deltas[i]) % 65536 if glyph else 0)
    return found


def _stream(data: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(data), data)


def _file(texts: Sequence[str], fonts: Sequence[bytes], password: str | None) -> bytes:
    """A PDF whose object 3 is the font of all pages."""
    key = None if password is None else _file_key(password)
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", *fonts]
    kids = []
    for text in texts:
        content = f"BT /F 20 Tf 40 60 Td ({text}) Tj ET".encode("latin-1")
        kids.append(len(objects) + 1)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 360 120] /Resources << /Font << /F 3 0 R >> >>"
            b" /Contents %d 0 R >>" % (len(objects) + 2)
        )
        objects.append(_stream(content if key is None else rc4(_object_key(key, len(objects) + 1), content)))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(b"%d 0 R" % kid for kid in kids), len(kids))
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    size = len(objects) + 1
    more = "" if key is None else (
        f" /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{OWNER.hex()}> /U <{rc4(key, PADDING).hex()}> >>"
        f" /ID [<{FILE_ID.hex()}> <{FILE_ID.hex()}>]"
    )  # fmt: skip
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer\n<< /Size {size} /Root 1 0 R{more} >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + f"xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


def _file_key(password: str) -> bytes:
    """The key of a file that its user's password opens (ISO 32000-1, 7.6.3.3, revision 2)."""
    padded = (password.encode("latin-1") + PADDING)[:32]
    return hashlib.md5(padded + OWNER + PERMISSIONS + FILE_ID).digest()[:KEY_BYTES]


def _object_key(key: bytes, number: int) -> bytes:
    return hashlib.md5(key + struct.pack("<I", number)[:3] + b"\0\0").digest()[: KEY_BYTES + 5]


def rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
