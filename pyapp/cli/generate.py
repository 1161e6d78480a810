"""`pyapp generate`: writes a text on."""

from __future__ import annotations

import sys
from typing import Any

import click

from pyapp import tasks
from pyapp.cli.generation_options import DEFAULTS, generation_options, settings_of
from pyapp.cli.grouped import TEXTS, command
from pyapp.cli.options import (
    WORDS,
    adapter_option,
    device_option,
    json_option,
    projector_option,
    server_option,
    threads_option,
)
from pyapp.cli.running import forward, model_or_server, refuse_a_text
from pyapp.cli.together import run_together, tensor_parallel_option
from pyapp.cli.views import JsonView, SeveralView, StoryView, View

PROMPT_LIMIT = 16 << 20  # bytes


def read_prompt(prompt: str) -> str:
    """The prompt as text; "-" reads it from stdin, without its last line break."""
    if prompt == "-":
        if sys.stdin is None:
            raise click.BadParameter("stdin is closed: pipe the prompt in.", param_hint="--prompt")
        try:
            data = sys.stdin.buffer.read(PROMPT_LIMIT + 1)
            if len(data) > PROMPT_LIMIT:
                raise click.BadParameter(f"stdin has more than {PROMPT_LIMIT:,} bytes.", param_hint="--prompt")
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise click.BadParameter(
                f"stdin is not UTF-8 text ({error.reason} at byte {error.start}).", param_hint="--prompt"
            ) from None
        return text.removesuffix("\n").removesuffix("\r")
    return prompt


@command()
@click.argument("model", required=False)
@click.option("-p", "--prompt", default="", type=WORDS, help='How the text begins; "-" reads it from stdin.')
@click.option("--tokenizer", metavar="FILE", help="The model's tokenizer, if it is not beside the model.")
@click.option(
    "-t", "--type", "dtype", metavar="TYPE", help="Convert the model while it loads: q8_0, q4_0, Q4_K_M, float16 …"
)
@click.option("--image", "images", type=click.Path(exists=True, dir_okay=False), multiple=True,
              help="A picture for a model that sees: it stands where the prompt has the model's placeholder "
              "(<image> …), else before the prompt; may be given again.")  # fmt: skip
@adapter_option
@projector_option
@server_option
@click.option("--echo/--no-echo", default=True, help="Print the prompt before its continuation.  [default: echo]")
@click.option("--eager", is_flag=True, help="Run op by op, without the recorded graph.")
@device_option
@threads_option
@tensor_parallel_option
@json_option
@generation_options(DEFAULTS.max_new_tokens)
def generate(
    model: str | None,
    prompt: str,
    tokenizer: str | None,
    dtype: str | None,
    images: tuple[str, ...],
    adapter: str | None,
    projector: str | None,
    server: str | None,
    echo: bool,
    eager: bool,
    draft: str | None,
    processes: int,
    as_json: bool,
    **settings: Any,
) -> int:
    """Write a text, token by token.

    MODEL is an embedded model's name, a file, a folder, or a name on the hub such as
    karpathy/tinyllamas:stories15M.bin; by default the embedded story model.
    """
    from pyapp.tasks.keeper import known

    if server is not None and processes > 1:
        raise click.UsageError("--tensor-parallel and --server exclude each other.")
    refuse_a_text(model, "The prompt follows -p.")
    options = settings_of(settings)

    def write(leader: Any) -> int:
        text = read_prompt(prompt)
        several = max(options.get("samples", 1), options.get("beams", 1)) > 1
        plain: View = SeveralView(text if echo else "") if several else StoryView(text if echo else "")
        chosen = model_or_server(model, server)
        more = {"tokenizer": tokenizer, "dtype": dtype, "adapter": adapter, "projector": projector}
        if leader is not None:
            chosen, more = leader.load(known(model, "generate"), **more), {}
        return forward(
            lambda cancel: tasks.generate(
                chosen, text, options, draft=draft, eager=eager, pictures=images, cancel=cancel, **more
            ),
            JsonView() if as_json else plain,
        )

    return run_together(processes, write)


__commands__ = {TEXTS: (generate,)}
