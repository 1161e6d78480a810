"""The settings of a server."""

from __future__ import annotations

import re

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError
from pyapp.text.generation.options import check_cache_type, check_number

# As browsers write it: scheme, host and port in small letters, no path (RFC 6454, section 6.2); "null" of files.
ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^\sA-Z/?#]+")


@dataclass(frozen=True)
class Settings:
    """The settings of `pyapp serve`. OptionError for a value out of its range.

    - models: names, folders or files, each `[NAME=][TASK:]MODEL`; none: the embedded ones.
    - projector: the "mmproj" file of the language model, of which there must be one.
    - vad, speaker_model: the networks that find speech and tell speakers apart, as for tasks.transcribe; without a
      speaker_model no request may ask for speakers.
    - keys: a request must have one of them (`Authorization: Bearer KEY`); none: everybody may ask.
    - origins: sites whose pages may ask (CORS); "*": all.
    - page: the folder of a built site, which browsers get at "/"; None: no page.
    - rows: texts of a model that are written at once. context: tokens of prompt and text. cache_bytes: of the keys and
      values of one model; cache_type as in SamplingOptions.
    - lookup: how many tokens of a text may be guessed in a step, where it repeats itself or its prompt; 0: none.
    - memory_bytes: of all models that are loaded, with their keys and values. A model that nobody uses is unloaded if
      another one needs its memory. 0: no limit.
    - queue, queue_tokens: requests that wait or run at once, and the tokens of their prompts; more get status 429.
    - response_bytes: of the answers of /v1/responses that are kept; 0: none are.
    - body_bytes, prompt_characters, output_tokens: limits of one request. read_seconds: until its body must be here.
      seconds: until its answer must be complete.
    - grace: seconds that running requests have after SIGTERM. idle: seconds until an unused model is unloaded; 0:
      never.
    """

    models: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    device: str | None = None
    dtype: str | None = None
    projector: str | None = None
    vad: str | None = None
    speaker_model: str | None = None
    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    page: str | None = None
    rows: int = 16
    context: int | None = None
    cache_type: str = "auto"
    cache_bytes: int = 1 << 30
    lookup: int = 0
    memory_bytes: int = 0
    queue: int = 128
    queue_tokens: int = 1_000_000
    connections: int = 1000
    response_bytes: int = 64 << 20
    body_bytes: int = 100 << 20
    prompt_characters: int = 1_000_000
    output_tokens: int = 8192
    read_seconds: float = 60.0
    seconds: float = 600.0
    grace: float = 30.0
    idle: float = 0.0
    preload: bool = True
    ping_seconds: float = 15.0

    def __post_init__(self) -> None:
        check_number("port", self.port, 0, 65535, whole=True)
        for name in (
            "rows",
            "queue",
            "queue_tokens",
            "connections",
            "body_bytes",
            "prompt_characters",
            "output_tokens",
            "cache_bytes",
        ):
            check_number(name, getattr(self, name), 1, 1 << 50, whole=True)
        for name in ("memory_bytes", "response_bytes"):
            check_number(name, getattr(self, name), 0, 1 << 50, whole=True)
        check_number("lookup", self.lookup, 0, 64, whole=True)
        if self.rows > 256:
            raise OptionError(f"must be at most 256, not {self.rows}", where="rows")
        for name in ("read_seconds", "seconds", "ping_seconds"):
            check_number(name, getattr(self, name), 0.01, 1e7)
        for name in ("grace", "idle"):
            check_number(name, getattr(self, name), 0, 1e7)
        check_cache_type(self.cache_type)
        for origin in self.origins:
            if not ORIGIN.fullmatch(origin):
                hint = 'Write it as browsers do, without a path: https://example.org or http://localhost:3000; "*": all'
                raise OptionError("no page has this origin", where=origin, hint=hint)
