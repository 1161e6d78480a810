"""HTTPS with a certificate that signs itself, and OpenAI's client."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyapp import cli
from tests.serve.conftest import Process

pytestmark = pytest.mark.native_only


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a certificate, of its key, and of another key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    found = {name: str(folder / f"{name}.pem") for name in ("certificate", "key", "other")}
    common = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    for key, out in (("key", found["certificate"]), ("other", str(folder / "unused.pem"))):
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run([*common, *names, "-keyout", found[key], "-out", out], check=True, capture_output=True)
    found["locked"] = str(folder / "locked.pem")
    lock = ["openssl", "rsa", "-aes128", "-passout", "pass:secret", "-in", found["key"], "-out", found["locked"]]
    subprocess.run(lock, check=True, capture_output=True)
    return found


@pytest.fixture(scope="module")
def server(model_folders: dict[str, Path], certificate: dict[str, str]) -> Iterator[Process]:
    files = ["--tls-certificate", certificate["certificate"], "--tls-key", certificate["key"]]
    with Process(f"chat={model_folders['chat']}", *files) as found:
        yield found


def test_openais_client_over_https(server: Process, certificate: dict[str, str]) -> None:
    openai = pytest.importorskip("openai")
    url = server.wait_for("listening")["url"]
    assert url.startswith("https://")

    def client(trusted: Any) -> Any:
        http = openai.DefaultHttpxClient(verify=trusted)
        return openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, http_client=http)

    trusted = client(ssl.create_default_context(cafile=certificate["certificate"]))
    ask: dict[str, Any] = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
    whole = trusted.chat.completions.create(**ask, temperature=0).choices[0].message.content
    parts = trusted.chat.completions.create(**ask, temperature=0, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == whole
    with pytest.raises(openai.APIConnectionError):
        client(True).models.list()  # a certificate that nobody knows is not trusted
    plain = openai.OpenAI(base_url=f"{url.replace('https', 'http')}/v1", api_key="unused", max_retries=0)
    with pytest.raises(openai.OpenAIError):
        plain.models.list()
    assert trusted.models.list().data[0].id == "chat"  # and the others go on


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["--tls-certificate", "certificate", "--tls-key", "locked"], "has a password"),
        (["--tls-certificate", "certificate", "--tls-key", "other"], "do not belong together"),
        (["--tls-certificate", "key", "--tls-key", "key"], "no certificate"),
        (["--tls-key", "key"], "--tls-certificate"),
        (["--tls-certificate", "certificate"], "--tls-key"),
        (["--cors", "example.org"], "example.org: no page has this origin"),
        (["--cors", "https://example.org/"], "https://example.org/: no page has this origin"),
        (["--cors", "http://localhost:3000", "--cors", "HTTPS://Example.org"], "HTTPS://Example.org: no page"),
    ],
)
def test_settings_that_do_not_fit_are_told(
    certificate: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    files: list[str],
    says: str,
) -> None:
    monkeypatch.setattr("pyapp.serve.server.Server.serve", lambda server: pytest.fail("it serves"))
    code = cli.run(["serve", "--port", "0", "--no-preload", *(certificate.get(part, part) for part in files)])
    assert code != 0
    assert says in capsys.readouterr().err


def test_a_file_of_keys(tmp_path: Path) -> None:
    """One key a line; a file that is not text is told by name."""
    from pyapp.cli.serve import read_keys
    from pyapp.errors import PyappError

    (tmp_path / "keys").write_text("# ours\n a \n\nb\n")
    assert read_keys(str(tmp_path / "keys")) == ("a", "b") and read_keys(None) == ()
    for data, what in ((b"a\xff", "not UTF-8 text"), (b"# none\n", "no key")):
        (tmp_path / "keys").write_bytes(data)
        with pytest.raises(PyappError, match=what):
            read_keys(str(tmp_path / "keys"))
