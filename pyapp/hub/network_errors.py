"""Explain errors of network libraries."""

from __future__ import annotations

import os
import re

from pyapp.errors import DownloadError, ModelNotFoundError, PyappError

HUB = "https://huggingface.co"
STRANGE_HINT = "Check HF_ENDPOINT, and that no login page of your network stands in between"
ELSEWHERE = "or download the file elsewhere and give its path"


def endpoint() -> str | None:
    """The address of the hub, read at each call; the library reads it only once."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None


def explain(
    error: Exception, repo: str, path: str | None = None, revision: str = "main"
) -> DownloadError | ModelNotFoundError:
    """The error to raise for one of huggingface-hub's, its HTTP client's or the system's."""
    from huggingface_hub import errors

    host = endpoint() or HUB
    page = f"{host}/{repo}"
    if isinstance(error, (DownloadError, ModelNotFoundError)):
        return error
    if isinstance(error, errors.HFValidationError):
        return ModelNotFoundError(f"{repo!r} is not the name of a repository", where=repo, hint="Write owner/repo:file")
    if isinstance(error, errors.GatedRepoError):
        hint = f"Accept its conditions at {page}, then log in with `hf auth login` or set HF_TOKEN"
        return DownloadError("the repository is only for people who accepted its conditions", where=repo, hint=hint)
    if isinstance(error, errors.RepositoryNotFoundError):
        hint = "Check the name; for a private repository log in with `hf auth login` or set HF_TOKEN"
        return ModelNotFoundError("the repository does not exist, or is private", where=repo, hint=hint)
    if isinstance(error, errors.RevisionNotFoundError):
        return ModelNotFoundError(
            f"the repository has no revision {revision!r}", where=repo, hint=f"Look at {page}/commits"
        )
    if isinstance(error, errors.EntryNotFoundError):
        return ModelNotFoundError(
            f"the repository has no file {path!r}", where=repo, hint=f"Look at {page}/tree/{revision}"
        )
    if isinstance(error, errors.OfflineModeIsEnabled):
        hint = f"Unset HF_HUB_OFFLINE, {ELSEWHERE}"
        return DownloadError(f"{path or repo} is not in the cache, and offline mode is on", where=repo, hint=hint)
    if isinstance(error, errors.HfHubHTTPError):
        return _of_status(error.response.status_code, repo, host)
    return _of_connection(error, host)


def _of_status(status: int, repo: str, host: str) -> DownloadError | ModelNotFoundError:
    if status in (401, 403):
        hint = "Log in with `hf auth login`, or set HF_TOKEN to a token that may read it"
        return DownloadError(f"access was refused (status {status})", where=repo, hint=hint)
    if status == 404:
        return ModelNotFoundError("the hub does not know it (status 404)", where=repo, hint="Check the name")
    if status == 429:
        return DownloadError(
            "the hub is asked too often (status 429)", where=host,
            hint="Wait some minutes, then try again; with a token (HF_TOKEN) it may be asked more often",
        )  # fmt: skip
    hint = "Try again later" if status >= 500 else f"Check HF_ENDPOINT, {ELSEWHERE}"
    return DownloadError(f"the hub answered with status {status}", where=host, hint=hint)


def _of_connection(error: Exception, host: str) -> DownloadError:
    import httpx2

    text = re.sub(r"\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
    network = f"Check your connection; behind a proxy set HTTPS_PROXY, for a mirror set HF_ENDPOINT, {ELSEWHERE}"
    if isinstance(error, httpx2.ProxyError):
        proxies = ", ".join(name for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY") if os.environ.get(name))
        return DownloadError(f"the proxy refused: {text}", where=host, hint=f"Check {proxies or 'the proxy settings'}")
    if isinstance(error, ValueError) and "proxy" in text.lower():
        return DownloadError(f"the proxy settings are not usable: {text}", where=host, hint="Check HTTPS_PROXY")
    if isinstance(error, (httpx2.InvalidURL, UnicodeError)):
        return DownloadError(f"this is not the address of a server: {text}", where=host, hint="Check HF_ENDPOINT")
    if "CERTIFICATE" in text.upper():
        hint = "If your network inspects connections, set SSL_CERT_FILE to its certificates"
        return DownloadError(f"its certificate is not trusted: {text}", where=host, hint=hint)
    if isinstance(error, httpx2.TooManyRedirects):
        return DownloadError("the server redirects again and again", where=host, hint="Check HF_ENDPOINT")
    if isinstance(error, httpx2.TimeoutException):
        return DownloadError("it did not answer in time", where=host, hint=network)
    if isinstance(error, (httpx2.HTTPError, OSError)):
        return DownloadError(f"it cannot be reached: {text}", where=host, hint=network)
    if isinstance(error, PyappError):
        raise error
    return DownloadError(f"unexpected {type(error).__name__}: {text}", where=host, hint=network)
