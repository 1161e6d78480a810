"""Pictures that models make: of texts, and of smaller ones."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError, check_settings
from pyapp.events import Done, Item, Progress
from pyapp.formats.png import encode_png
from pyapp.text.generation.options import check_number

from .given_files import check_files, listed
from .picture_batches import LARGEST
from .text_batches import Work, checked_texts
from .texts import stream_of

TILE, MARGIN = 128, 32  # pixels of a side of the parts of pictures that are made larger, and around them
MOST_PIXELS = 1 << 28  # of a picture that was made larger


def check_start(
    prompts: Any, *, image: Any = None, mask: Any = None, control_image: Any = None, adapter_image: Any = None,
    **more: Any,
) -> None:  # fmt: skip
    """OSError for a start picture, and the like, whose file is not there."""
    check_files([given for given in (image, mask, control_image, adapter_image) if given is not None])


def drawn_texts(
    loaded: Any, prompts: Sequence[str], *, image: Any = None, mask: Any = None, control_image: Any = None,
    adapter_image: Any = None, **options: Any,
) -> Work:  # fmt: skip
    """Items with `png`, a picture of each prompt as base64 of a PNG file, `size` [height, width] and `seed`.

    image: a picture that the drawing starts from; mask: a grey picture that is light where all is to be new, and dark
    where the start picture stays; control_image: what a ControlNet reads; adapter_image: what an IP-Adapter reads
    beside the prompts. Options: negative_prompt, steps, guidance,
    true_cfg_scale, height, width, seed, schedule ("ddim", "dpm++", "dpm++-karras" …), strength, control_scale;
    pyapp.models.diffusion.sampling.ImagineOptions says what they mean. For the loader
    (pyapp.models.diffusion.load.load_diffusion): vae, another autoencoder; lora, LoRA files; control, a ControlNet;
    transformer, a file of the transformer of FLUX, Stable Diffusion 3, Z-Image or Qwen-Image; prior, Würstchen's prior;
    adapter, an IP-Adapter, and image_encoder, its CLIP.
    """
    from pyapp.models.diffusion.cascade import begin_drawing
    from pyapp.models.diffusion.sampling import ImagineOptions
    from pyapp.vision.reading import read_image

    check_settings(options, ImagineOptions.__dataclass_fields__)
    prompts = checked_texts(prompts)
    if not prompts:
        raise OptionError("at least one prompt is needed", where="prompts")
    settings = ImagineOptions(**options)
    picture, mask, control, prompt = (
        given if given is None or isinstance(given, Tensor) else read_image(given, mode)
        for given, mode in ((image, "RGB"), (mask, "L"), (control_image, "RGB"), (adapter_image, "RGB"))
    )
    yield None
    drawing = begin_drawing(loaded, prompts, settings, picture=picture, mask=mask, control=control, prompt=prompt)
    for i in range(drawing.steps):
        yield None
        drawing.step(i)
        yield Progress("drawing", i + 1, drawing.steps, "steps")
    for index, pixels in enumerate(drawing.pictures()):
        png = base64.b64encode(encode_png(pixels.numpy())).decode()
        yield Item(index, {"png": png, "size": [drawing.height, drawing.width], "seed": settings.seed})
        yield None
    yield Done("complete", {"count": len(prompts), "steps": drawing.steps})


def larger_pictures(loaded: Any, images: Sequence[Any], *, tile: int = TILE) -> Work:
    """Items with `png`, `size` [height, width] and `scale`: pictures made larger, `scale` times on each side, or made
    cleaner, with the scale 1, by a model such as Swin2SR. The PNG file is base64. Progress in "tiles".

    tile: a large picture is computed in parts of so many pixels a side, each with MARGIN more around it, because memory
    grows with a part's size; 0: each picture as a whole.
    """
    from pyapp.vision.reading import read_image

    check_number("tile", tile, 0, LARGEST, whole=True)
    images, model = listed(images), loaded.model
    scale = model.scale
    if loaded.processor.do_resize or loaded.processor.do_center_crop:
        raise ModelError(
            "its image processor changes the sizes of pictures", where=loaded.name,
            hint="Give the preprocessor_config.json that belongs to the weights",
        )  # fmt: skip
    for index, image in enumerate(images):
        yield None
        picture = image if isinstance(image, Tensor) else read_image(image)
        high, wide = (int(side) for side in picture.shape[:2])
        if high * wide * scale * scale > MOST_PIXELS:
            raise OptionError(
                f"a picture of {high:,} x {wide:,} pixels would have more than {MOST_PIXELS:,}, {scale} times as long",
                where=str(image) if isinstance(image, str | os.PathLike) else "images",
                hint="Crop it, or make it smaller",
            )
        found = np.empty((high * scale, wide * scale, 3), "uint8")
        step = tile or max(high, wide)
        places = [(top, left) for top in range(0, high, step) for left in range(0, wide, step)]
        for number, (top, left) in enumerate(places, 1):
            first = max(top - MARGIN, 0), max(left - MARGIN, 0)
            part = picture[first[0] : top + step + MARGIN, first[1] : left + step + MARGIN]
            with no_grad():
                pixels = model(loaded.processor([part], model.device).pixel_values)[0].to("float32").cpu().numpy()
            bottom, right = min(top + step, high), min(left + step, wide)
            (above, below), (before, behind) = (
                ((start - own) * scale, (end - own) * scale)
                for start, end, own in ((top, bottom, first[0]), (left, right, first[1]))
            )
            inner = (pixels[:, above:below, before:behind].clip(0, 1) * 255).round()  # (3, h, w)
            found[top * scale : bottom * scale, left * scale : right * scale] = inner.transpose(1, 2, 0)
            yield Progress("tiles", number, len(places), "tiles")
        png = base64.b64encode(encode_png(found)).decode()
        yield Item(index, {"png": png, "size": [high * scale, wide * scale], "scale": scale})
        yield Progress("pictures", index + 1, len(images), "pictures")
    yield Done("complete", {"count": len(images)})


imagine = stream_of(
    "imagine",
    drawn_texts,
    remote=False,
    check=check_start,
    loading=("vae", "lora", "control", "transformer", "prior", "adapter", "image_encoder"),
)
upscale_images = stream_of("upscale", larger_pictures, remote=False, check=check_files)
