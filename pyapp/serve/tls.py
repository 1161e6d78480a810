"""The files of HTTPS, checked before the server listens."""

from __future__ import annotations

import ssl
from pathlib import Path

from pyapp.errors import OptionError

MARKS = {"--tls-certificate": b"-----BEGIN CERTIFICATE", "--tls-key": b"PRIVATE KEY-----"}


def check_tls(certificate: str | None, private_key: str | None) -> None:
    """OptionError for files that cannot serve HTTPS. Without a `private_key` the certificate's file must have it."""
    if certificate is None:
        if private_key is not None:
            raise OptionError("needs --tls-certificate beside it", where="--tls-key")
        return
    names = {"--tls-certificate": certificate, "--tls-key": private_key or certificate}
    for option, what in (("--tls-certificate", "certificate"), ("--tls-key", "private key")):
        if MARKS[option] not in Path(names[option]).read_bytes():
            hint = "Give files in the form PEM" if private_key else "Give the key's file with --tls-key"
            raise OptionError(f"{option}: has no {what}", where=names[option], hint=hint)

    def refuse() -> str:
        raise OptionError("--tls-key: has a password", where=names["--tls-key"], hint="Give a key without one")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key, refuse)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise OptionError(
                "--tls-key: certificate and key do not belong together", where=names["--tls-key"]
            ) from None  # fmt: skip
        raise OptionError(
            f"--tls-certificate: cannot be read: {error}", where=certificate,
            hint="Give certificates and a key in the form PEM, as they were made, without changes",
        ) from None  # fmt: skip
