"""`pyapp serve`: models over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pyapp.cli.grouped import SERVERS, command, option
from pyapp.cli.options import device_of, threads_option
from pyapp.cli.together import run_together, tensor_parallel_option
from pyapp.errors import PyappError
from pyapp.serve.settings import Settings
from pyapp.text.generation.options import CACHE_TYPES

NETWORK, MODELS, LIMITS = "Network", "Models", "Limits"
MIB = 1 << 20


@command()
@click.argument("models", metavar="[MODEL]...", nargs=-1)
@option(NETWORK, "--host", default=Settings.host, show_default=True,
        help='The address to listen on; 0.0.0.0: all of IPv4, "::": all.')  # fmt: skip
@option(NETWORK, "--port", type=click.IntRange(0, 65535), default=Settings.port, show_default=True,
        help="The port; 0: any free one.")  # fmt: skip
@option(NETWORK, "--api-key-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="Requests must have one of these keys, one a line.")  # fmt: skip
@option(NETWORK, "--cors", multiple=True, metavar="ORIGIN",
        help='A site whose pages may send requests; "*": all. Repeatable.')  # fmt: skip
@option(NETWORK, "--page", type=click.Path(exists=True, file_okay=False), metavar="FOLDER",
        help="Give browsers this built page (dist/ of make site) at /.")  # fmt: skip
@option(NETWORK, "--tls-certificate", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="Serve HTTPS with this certificate.")  # fmt: skip
@option(NETWORK, "--tls-key", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="The certificate's private key.")  # fmt: skip
@option(MODELS, "--device", metavar="DEVICE", callback=device_of, help="Where the models compute. [default: cpu]")
@option(MODELS, "-t", "--type", "dtype", metavar="TYPE", help="Convert models while they load: q8_0, q4_0, float16 …")
@option(MODELS, "--projector", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="The vision projector (mmproj-….gguf) of the one language model, if it is not beside it.")  # fmt: skip
@option(MODELS, "--context", type=click.IntRange(min=1), metavar="N",
        help="Tokens of prompt and text. [default: what the model reads and the cache's memory holds, at most "
        "8192]")  # fmt: skip
@option(MODELS, "--parallel", "rows", type=click.IntRange(1, 256), default=Settings.rows, show_default=True,
        metavar="N", help="How many texts a model writes at once.")  # fmt: skip
@option(MODELS, "--cache-type", type=click.Choice(list(CACHE_TYPES)), default=Settings.cache_type, show_default=True,
        help="Type of the cache's keys and values.")  # fmt: skip
@option(MODELS, "--cache-memory", type=click.IntRange(min=1), default=Settings.cache_bytes // MIB, show_default=True,
        metavar="MIB", help="Memory of the keys and values of a model.")  # fmt: skip
@option(MODELS, "--lookup", type=click.IntRange(0, 64), default=Settings.lookup, show_default=True, metavar="N",
        help="Guess up to N tokens of a text in a step, where it repeats itself or its prompt; the tokens stay the "
        "same.")  # fmt: skip
@option(MODELS, "--memory", type=click.IntRange(min=0), default=Settings.memory_bytes // MIB, metavar="MIB",
        help="Memory of all models together, their keys and values included: models that nobody uses are unloaded for "
        "others. [default: no limit]")  # fmt: skip
@option(MODELS, "--vad", metavar="NAME", help="What finds speech in recordings: energy, silero or a network.")
@option(MODELS, "--speaker-model", metavar="NAME", help="The network that tells speakers apart, for requests that ask.")
@option(
    MODELS, "--preload/--no-preload", default=Settings.preload, help="Load the models at the start.  [default: preload]"
)
@option(MODELS, "--idle", type=click.FloatRange(min=0), default=Settings.idle, metavar="SECONDS",
        help="Unload a model after this time without a request. [default: never]")  # fmt: skip
@option(LIMITS, "--queue", type=click.IntRange(min=1), default=Settings.queue, show_default=True, metavar="N",
        help="Requests that wait or run; more are refused with status 429.")  # fmt: skip
@option(LIMITS, "--queue-tokens", type=click.IntRange(min=1), default=Settings.queue_tokens, show_default=True,
        metavar="TOKENS", help="Tokens of the prompts that wait or run; more are refused with status 429.")  # fmt: skip
@option(LIMITS, "--response-memory", type=click.IntRange(min=0), default=Settings.response_bytes // MIB,
        show_default=True, metavar="MIB",
        help="Memory of the answers of /v1/responses that are kept for later requests; 0: none.")  # fmt: skip
@option(LIMITS, "--connections", type=click.IntRange(min=1), default=Settings.connections, show_default=True,
        metavar="N", help="Open connections; more are refused with status 503.")  # fmt: skip
@option(LIMITS, "--body-limit", type=click.IntRange(min=1), default=Settings.body_bytes // MIB, show_default=True,
        metavar="MIB", help="The largest size of a request.")  # fmt: skip
@option(LIMITS, "--prompt-limit", type=click.IntRange(min=1), default=Settings.prompt_characters, show_default=True,
        metavar="CHARACTERS", help="The most characters of the texts of a request.")  # fmt: skip
@option(LIMITS, "--output-limit", type=click.IntRange(min=1), default=Settings.output_tokens, show_default=True,
        metavar="TOKENS", help="The most tokens of an answer.")  # fmt: skip
@option(LIMITS, "--body-timeout", type=click.FloatRange(min=0.01), default=Settings.read_seconds, show_default=True,
        metavar="SECONDS", help="Time in which a request must arrive.")  # fmt: skip
@option(LIMITS, "--timeout", type=click.FloatRange(min=0.01), default=Settings.seconds, show_default=True,
        metavar="SECONDS", help="Time in which an answer must be complete.")  # fmt: skip
@option(LIMITS, "--grace", type=click.FloatRange(min=0), default=Settings.grace, show_default=True, metavar="SECONDS",
        help="Time that running requests have to end after SIGTERM.")  # fmt: skip
@threads_option
@tensor_parallel_option
@click.pass_context
def serve(
    command: click.Context, models: tuple[str, ...], api_key_file: str | None, cors: tuple[str, ...],
    tls_certificate: str | None, tls_key: str | None, cache_memory: int, memory: int, response_memory: int,
    body_limit: int, prompt_limit: int, output_limit: int, body_timeout: float, timeout: float,
    processes: int, **given: Any,
) -> int:  # fmt: skip
    """Serve models over HTTP, in OpenAI's interface.

    MODEL is a name, a file or a folder, as for generate, embed and transcribe; by default the embedded models are
    served. NAME=MODEL gives it another name; TASK:MODEL says what it is for (generate, embed, rerank,
    transcribe, detect …) where its files do not. The log is JSON lines on stderr. docs/serving.md has all tasks and the
    routes.
    """
    try:
        from pyapp.serve.server import run
    except ImportError as error:
        raise PyappError(
            f"the Python package {error.name!r} is missing", where="serve",
            hint="pip install 'pyapp[server]'",
        ) from error  # fmt: skip
    settings = Settings(
        models=models, keys=read_keys(api_key_file), origins=cors, cache_bytes=cache_memory * MIB,
        memory_bytes=memory * MIB, response_bytes=response_memory * MIB,
        body_bytes=body_limit * MIB, prompt_characters=prompt_limit, output_tokens=output_limit,
        read_seconds=body_timeout, seconds=timeout, **given,
    )  # fmt: skip
    verbose = bool(command.parent and command.parent.params.get("verbose"))
    return run_together(
        processes,
        lambda leader: run(settings, certificate=tls_certificate, private_key=tls_key, verbose=verbose, leader=leader),
    )


def read_keys(name: str | None) -> tuple[str, ...]:
    """The keys of a file: a line each, without empty lines and comments (#)."""
    if name is None:
        return ()
    try:
        lines = [line.strip() for line in Path(name).read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        what = f"it is not UTF-8 text ({error.reason} at byte {error.start})"
        raise PyappError(what, where=name, hint="Write one key a line") from None
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise PyappError("it has no key", where=name, hint="Write one key a line")
    return keys


__commands__ = {SERVERS: (serve,)}
