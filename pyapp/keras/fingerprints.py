"""64-bit hashes of texts, the same as in TensorFlow: FarmHash's Fingerprint64 (Pike and Alakuijala 2014), SipHash-2-4
(Aumasson and Bernstein 2012), and the combination of fingerprints.
"""

from __future__ import annotations

__all__ = ["combined", "fingerprint", "keyed_hash"]

_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_CROSS = 0xC6A4A7935BD1E995


def _fetch(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _turned(x: int, bits: int) -> int:
    """x rotated to the right."""
    x &= _MASK
    return ((x >> bits) | (x << (64 - bits))) & _MASK


def _shifted(x: int) -> int:
    x &= _MASK
    return x ^ (x >> 47)


def _two(u: int, v: int, factor: int) -> int:
    """The hash of two numbers."""
    a = _shifted((u ^ v) * factor)
    return (_shifted((v ^ a) * factor) * factor) & _MASK


def _up_to_16(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    if size >= 8:
        a, b = (_fetch(data, 0) + _K2) & _MASK, _fetch(data, size - 8)
        c = (_turned(b, 37) * factor + a) & _MASK
        d = ((_turned(a, 25) + b) * factor) & _MASK
        return _two(c, d, factor)
    if size >= 4:
        return _two((size + (_fetch(data, 0, 4) << 3)) & _MASK, _fetch(data, size - 4, 4), factor)
    if size:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[-1] << 2)
        return (_shifted(y * _K2 & _MASK ^ z * _K0 & _MASK) * _K2) & _MASK
    return _K2


def _up_to_64(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    a = _fetch(data, 0) * (_K1 if size <= 32 else _K2) & _MASK
    b, c, d = _fetch(data, 8), _fetch(data, size - 8) * factor & _MASK, _fetch(data, size - 16) * _K2 & _MASK
    y = (_turned(a + b, 43) + _turned(c, 30) + d) & _MASK
    z = _two(y, (a + _turned(b + _K2, 18) + c) & _MASK, factor)
    if size <= 32:
        return z
    e, f = _fetch(data, 16) * factor & _MASK, _fetch(data, 24)
    g, h = (y + _fetch(data, size - 32)) * factor & _MASK, (z + _fetch(data, size - 24)) * factor & _MASK
    first, second = _turned(e + f, 43) + _turned(g, 30) + h, e + _turned(f + a, 18) + g
    return _two(first & _MASK, second & _MASK, factor)


def _block(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes mixed with two numbers."""
    w, x, y, z = (_fetch(data, at + 8 * k) for k in range(4))
    a = (a + w) & _MASK
    b = _turned(b + a + z, 21)
    c = a
    a = (a + x + y) & _MASK
    return (a + z) & _MASK, (b + _turned(a, 44) + c) & _MASK


def _round(
    data: bytes, at: int, x: int, y: int, z: int, v: tuple[int, int], w: tuple[int, int], factor: int, last: int
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    """64 bytes of a long text; `last` is 9 for the last of them, else 1."""
    x = _turned(x + y + v[0] + _fetch(data, at + 8), 37) * factor & _MASK
    y = _turned(y + v[1] + _fetch(data, at + 48), 42) * factor & _MASK
    x ^= w[1] * last & _MASK
    y = (y + v[0] * last + _fetch(data, at + 40)) & _MASK
    z = _turned(z + w[0], 33) * factor & _MASK
    v = _block(data, at, v[1] * factor, x + w[0])
    w = _block(data, at + 32, z + w[1], y + _fetch(data, at + 16))
    return z, y, x, v, w


def fingerprint(text: str) -> int:
    """FarmHash's Fingerprint64 of the UTF-8 bytes of a text."""
    data = text.encode()
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 64:
        return _up_to_64(data)
    seed = 81
    x, y = seed, (seed * _K1 + 113) & _MASK
    z = _shifted(y * _K2 + 113) * _K2 & _MASK
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _fetch(data, 0)) & _MASK
    end = (size - 1) // 64 * 64
    for at in range(0, end, 64):
        x, y, z, v, w = _round(data, at, x, y, z, v, w, _K1, 1)
    factor = (_K1 + ((z & 0xFF) << 1)) & _MASK
    first = (w[0] + ((size - 1) & 63)) & _MASK
    v = (v[0] + first) & _MASK, v[1]
    w = (first + v[0]) & _MASK, w[1]
    x, y, z, v, w = _round(data, end + ((size - 1) & 63) - 63, x, y, z, v, w, factor, 9)
    left = _two(v[0], w[0], factor) + _shifted(y) * _K0 + z
    return _two(left & _MASK, (_two(v[1], w[1], factor) + x) & _MASK, factor)


def combined(first: int, second: int) -> int:
    """One fingerprint of two, in this order."""
    found = first ^ _CROSS ^ (_shifted((second & _MASK) * _CROSS) * _CROSS & _MASK)
    return _shifted(_shifted(found * _CROSS) * _CROSS)


def keyed_hash(text: str, key: tuple[int, int]) -> int:
    """SipHash-2-4 of the UTF-8 bytes of a text."""
    data = text.encode()
    k0, k1 = (part & _MASK for part in key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rounds(count: int) -> None:
        a, b, c, d = v
        for _ in range(count):
            a = (a + b) & _MASK
            b = _turned(b, 51) ^ a
            a = _turned(a, 32)
            c = (c + d) & _MASK
            d = _turned(d, 48) ^ c
            a = (a + d) & _MASK
            d = _turned(d, 43) ^ a
            c = (c + b) & _MASK
            b = _turned(b, 47) ^ c
            c = _turned(c, 32)
        v[:] = a, b, c, d

    whole = len(data) // 8 * 8
    rest = data[whole:]
    words = [_fetch(data, at) for at in range(0, whole, 8)]
    for word in (*words, int.from_bytes(rest, "little") | (len(data) & 0xFF) << 56):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]
