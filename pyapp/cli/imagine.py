"""`pyapp imagine`: pictures of texts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from pyapp import tasks
from pyapp.cli.drawn import drawing, png_writer
from pyapp.cli.grouped import PICTURES, command
from pyapp.cli.items import model_option
from pyapp.cli.options import WORDS, usual_options
from pyapp.cli.running import check_folder_of, forward_items


def scaled_files(context: Any, parameter: Any, value: tuple[str, ...]) -> list[tuple[str, float]]:
    """FILE[:SCALE], each as a pair."""
    found = []
    for text in value:
        file, _, scale = text.rpartition(":")
        try:
            found.append((file, float(scale)) if file else (text, 1.0))
        except ValueError:  # the colon is part of the name
            found.append((text, 1.0))
    return found


@command(short_help="Draw what a text describes.")
@click.argument("prompts", nargs=-1, required=True, type=WORDS, metavar="PROMPT…")
@model_option("stable-diffusion-v1-5/stable-diffusion-v1-5")
@click.option("-o", "--output", type=click.Path(dir_okay=False), default="imagined.png", show_default=True,
              help="The PNG file; of several prompts, NAME-1.png, NAME-2.png …")  # fmt: skip
@click.option("--negative-prompt", type=WORDS, metavar="TEXT", default="", help="What the pictures should not show.")
@click.option(
    "-s", "--steps", type=click.IntRange(min=1), help="Steps in which noise is removed. [default: what suits the model]"
)
@click.option(
    "--guidance", type=click.FloatRange(0, 100), help="How much the prompt counts. [default: what suits the model]"
)
@click.option("--true-cfg-scale", type=click.FloatRange(1, 100), default=1.0, show_default=True,
              help="How much the prompt counts against the negative one, for models that read the guidance; two "
              "passes a step.")  # fmt: skip
@click.option("--height", type=click.IntRange(min=8), help="Height in pixels. [default: the model's]")
@click.option("--width", type=click.IntRange(min=8), help="Width in pixels. [default: the model's]")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed draws the same pictures."
)
@click.option("--schedule", metavar="NAME",
              help="How noise is removed: ddim, dpm++, dpm++-karras, euler, euler-ancestral, heun, lcm, unipc …  "
              "[default: the model's]")  # fmt: skip
@click.option("--image", type=click.Path(exists=True, dir_okay=False), help="A picture to start from.")
@click.option("--strength", type=click.FloatRange(0, 1, min_open=True),
              help="How much the start picture changes. [default: 0.8; 1 with a mask]")  # fmt: skip
@click.option("--mask", type=click.Path(exists=True, dir_okay=False),
              help="A picture that is white where the start picture is to be drawn anew, and black where it "
              "stays.")  # fmt: skip
@click.option("--lora", metavar="FILE[:SCALE]", multiple=True, callback=scaled_files,
              help="A LoRA file, or a name on the hub, and how much it counts (1); may be given again.")  # fmt: skip
@click.option("--control", metavar="MODEL", help="A folder, or a name on the hub, of a ControlNet.")
@click.option(
    "--control-image", type=click.Path(exists=True, dir_okay=False), help="The picture that the ControlNet reads."
)
@click.option(
    "--control-scale", type=click.FloatRange(0, 10), default=1.0, show_default=True, help="How much it counts."
)
@click.option(
    "--adapter",
    metavar="FILE[:SCALE]",
    callback=lambda context, option, given: scaled_files(context, option, () if given is None else (given,)) or None,
    help="An IP-Adapter of Stable Diffusion 1.5 or XL, such as h94/IP-Adapter:models/ip-adapter_sd15.safetensors, and "
    "how much it counts (1).",
)
@click.option(
    "--adapter-image", type=click.Path(exists=True, dir_okay=False), help="The picture that the IP-Adapter reads."
)
@click.option(
    "--image-encoder", metavar="MODEL", help="The IP-Adapter's CLIP.  [default: image_encoder, in the same folder]"
)
@click.option("--vae", metavar="MODEL", help="A folder, or a name on the hub, of another autoencoder, such as TAESD.")
@click.option("--transformer", metavar="FILE",
              help="The transformer of FLUX, Stable Diffusion 3, Z-Image or Qwen-Image: a GGUF or safetensors file, or "
              "owner/repo:FILE.")  # fmt: skip
@click.option("--prior", metavar="MODEL", help="The prior of Würstchen.  [default: MODEL-prior, or in its folder]")
@usual_options
def imagine(prompts: tuple[str, ...], output: str, as_json: bool, **settings: Any) -> int:
    """Draw a picture of each PROMPT with Stable Diffusion (1.5, 2.1, XL, their turbo, LCM and inpainting forms, 3 and
    3.5), FLUX.1 (also Fill and Kontext), FLUX.2, Z-Image, Qwen-Image (also Edit), PixArt-Sigma, Sana or Würstchen: the
    names of the files that were written. With --image, drawing starts from that picture; with --mask too, only what is
    white there is drawn anew. FLUX.1 Kontext, FLUX.2 and Qwen-Image-Edit change the picture as the prompt says.
    """
    path = Path(output)
    if path.suffix.lower() not in ("", ".png"):
        raise click.BadParameter(
            f"{output}: pictures are written as PNG: name it {path.with_suffix('.png').name}.", param_hint="--output"
        )
    check_folder_of(path, lambda what: click.BadParameter(what, param_hint="--output"))
    several = len(prompts) > 1
    targets = [path.with_stem(f"{path.stem}-{i + 1}") if several else path for i in range(len(prompts))]

    draw = partial(tasks.imagine, list(prompts), **settings)
    return forward_items(
        drawing(draw, png_writer(targets)), as_json, lambda index, values: [str(targets[index])]
    )  # fmt: skip


__commands__ = {PICTURES: (imagine,)}
