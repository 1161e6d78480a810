"""The commands over pictures and videos: answer-image, caption, classify-image, classify-video, depth, detect,
embed-image, follow, key-points, match-points, pose, segment, upscale. Results on stdout in the order of the
pictures, everything else on stderr.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from pyapp import tasks, vision
from pyapp.cli.drawn import drawer, drawing, folder_option, made_files, png_writer, target_option
from pyapp.cli.grouped import PICTURES, command
from pyapp.cli.items import (
    beams_option,
    files_argument,
    label_lines,
    label_options,
    model_option,
    own_labels,
    texts_option,
    tokens_option,
    top_answers,
    top_labels,
    vector,
)
from pyapp.cli.options import WORDS, usual_options
from pyapp.cli.running import forward, forward_items
from pyapp.cli.views import View
from pyapp.engine.lazy import np

images_argument = files_argument("IMAGE…")


@command("classify-image", short_help="Label pictures.")
@images_argument
@model_option("timm/mobilenetv3_small_100.lamb_in1k")
@label_options("Labels to choose from, with a model such as CLIP: a cat,a dog", '"This is a photo of {}."')
@top_labels
@usual_options
def classify_image(
    files: tuple[str, ...], labels: str | None, template: str | None, as_json: bool, **settings: Any
) -> int:  # fmt: skip
    """Label each IMAGE with a model such as ViT: its labels with their probabilities, then its name. With --labels, any
    labels: a model such as CLIP or SigLIP says how well each fits.
    """
    chosen = own_labels(labels, template)
    look = partial(tasks.classify_images, list(files), **settings)
    if chosen is not None:
        look = partial(tasks.match_images, list(files), chosen, template=template, **settings)
    return forward_items(look, as_json, label_lines(files))


@command("answer-image", short_help="Answer a question about pictures.")
@click.argument("question", type=WORDS)
@images_argument
@model_option("dandelin/vilt-b32-finetuned-vqa")
@top_answers
@usual_options
def answer_image(question: str, files: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Answer QUESTION about each IMAGE with a model such as ViLT (dandelin/vilt-b32-finetuned-vqa), which chooses among
    the answers that it knows: these with their probabilities, then the picture's name. Models that write their answers
    are asked with caption --prompt, and in a chat.
    """
    return forward_items(partial(tasks.answer_images, list(files), question, **settings), as_json, label_lines(files))


@command("classify-video", short_help="Label videos.")
@files_argument("VIDEO…")
@model_option("MCG-NJU/videomae-base-finetuned-kinetics")
@top_labels
@usual_options
def classify_video(files: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Label each VIDEO with a model such as VideoMAE: its labels with their probabilities, then its name. A VIDEO is a
    file (MP4, WebM … with pip install 'pyapp[media]'; a moving GIF), or a folder of its frames.
    """
    return forward_items(partial(tasks.classify_videos, list(files), **settings), as_json, label_lines(files))


@command("embed-image", short_help="Turn pictures and texts into vectors.")
@files_argument("IMAGE…", required=False)
@model_option("openai/clip-vit-base-patch32")
@texts_option
@usual_options
def embed_image(files: tuple[str, ...], texts: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Compute the vector of each IMAGE, then of each --text, with a model such as CLIP: a JSON array per line."""
    if not files and not texts:
        raise click.UsageError("Give pictures, or texts with --text.")
    return forward_items(partial(tasks.embed_images, list(files), texts, **settings), as_json, vector)


def numbers_of(names: str) -> Callable[[Any, Any, Any], Any]:
    """A callback that reads numbers with commas between them, such as `names`."""
    count = names.count(",") + 1

    def read(context: Any, parameter: Any, value: Any) -> Any:
        found = []
        for text in value if isinstance(value, tuple) else (value,) if value is not None else ():
            try:
                numbers = [float(part) for part in text.split(",")]
            except ValueError:
                numbers = []
            if len(numbers) != count:
                raise click.BadParameter(f"{text!r} is not {names}, numbers of pixels with commas between them.")
            found.append(numbers)
        return found if isinstance(value, tuple) else found[0] if found else None

    return read


@command(short_help="Find objects in pictures.")
@images_argument
@model_option("hustvl/yolos-tiny")
@label_options("What to find, with a model such as OWLv2: cat,red ball", 'the model\'s, of OWLv2 "a photo of a {}"')
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    help="Only objects with at least this probability.  [default: 0.5, with --labels 0.1, of Grounding DINO 0.25]",
)
@click.option(
    "--box",
    "boxes",
    multiple=True,
    metavar="X0,Y0,X1,Y1",
    callback=numbers_of("X0,Y0,X1,Y1"),
    help="With SAM 3 and one picture: a box in pixels that shows what to find; may be given again.",
)
@click.option("--not-box", "others", multiple=True, metavar="X0,Y0,X1,Y1", callback=numbers_of("X0,Y0,X1,Y1"),
              help="As --box, for what is not meant.")  # fmt: skip
@folder_option
@usual_options
def detect(
    files: tuple[str, ...], labels: str | None, template: str | None, threshold: float | None,
    boxes: list[list[float]], others: list[list[float]], folder: str | None, as_json: bool, **settings: Any,
) -> int:  # fmt: skip
    """Find the objects in each IMAGE with a model such as YOLOS; with --labels, objects of any names; with --box, those
    like what a box shows. A line for each object: label, probability, box (left, top, right, bottom in pixels) and the
    picture's name.
    """
    chosen = own_labels(labels, template)
    if boxes or others:
        chosen = chosen or []
        settings |= {"boxes": [*boxes, *others], "box_labels": [1] * len(boxes) + [0] * len(others)}
    threshold = 0.5 if threshold is None and chosen is None else threshold
    draw = drawer(files, folder, lambda image, values: vision.draw_boxes(image, values["objects"]))

    def lines(index: int, values: Any) -> list[str]:
        rows = []
        for found in values["objects"]:
            box = " ".join(f"{side:.1f}" for side in found["box"])
            rows.append(f"{found['label']}\t{found['score']:.4f}\t{box}\t{files[index]}")
        if not rows:
            least = "the model's threshold" if threshold is None else threshold
            click.echo(f"note: {files[index]}: no object is more probable than {least}", err=True)
        return rows

    look = partial(tasks.detect_objects, list(files), threshold=threshold, **settings)
    if chosen is not None:
        look = partial(tasks.detect_labels, list(files), chosen, template=template, threshold=threshold, **settings)
    return forward_items(drawing(look, draw), as_json, lines)


@command(short_help="Estimate how far the pixels are.")
@images_argument
@model_option("depth-anything/Depth-Anything-V2-Small-hf")
@target_option
@usual_options
def depth(files: tuple[str, ...], target: str | None, as_json: bool, **settings: Any) -> int:
    """Write how far the pixels of each IMAGE are with a model such as Depth Anything, as a picture of 16 bits of grey:
    a line with the numbers of black and white, and the picture's name. Metric models have metres, others nearness,
    where white is near.
    """
    if target is None and not as_json:
        raise click.UsageError("Say where the pictures of depth go: --output FOLDER (or take them from --json).")
    targets = made_files(files, target)

    def lines(index: int, values: Any) -> list[str]:
        return [f"{values['least']:.6g} {values['most']:.6g}\t{targets[index]}"]

    look = partial(tasks.estimate_depth, list(files), **settings)
    return forward_items(drawing(look, png_writer(targets)), as_json, lines)


@command(short_help="Make pictures larger, or cleaner.")
@images_argument
@model_option("caidas/swin2SR-classical-sr-x2-64")
@target_option
@click.option(
    "--tile", type=click.IntRange(min=0), default=128, show_default=True,
    help="Pixels of a side of the parts in which a picture is computed; smaller ones take less memory. 0: as a whole.",
)  # fmt: skip
@usual_options
def upscale(files: tuple[str, ...], target: str | None, as_json: bool, **settings: Any) -> int:
    """Make each IMAGE larger with a model such as Swin2SR (caidas/swin2SR-classical-sr-x2-64), as many times as the
    model does it, or cleaner: a line with the new width and height, and the file.
    """
    if target is None and not as_json:
        raise click.UsageError("Say where the pictures go: --output NAME.png or FOLDER (or take them from --json).")
    targets = made_files(files, target)

    def lines(index: int, values: Any) -> list[str]:
        return [f"{values['size'][1]} x {values['size'][0]}\t{targets[index]}"]

    work = partial(tasks.upscale_images, list(files), **settings)
    return forward_items(drawing(work, png_writer(targets)), as_json, lines)


@command(short_help="Find the poses of persons.")
@images_argument
@model_option("usyd-community/vitpose-base-simple")
@click.option("--detector", metavar="MODEL", help="A model such as YOLOS that finds the persons first.")
@click.option("--threshold", type=click.FloatRange(0, 1), default=0.5, show_default=True,
              help="With --detector: only persons with at least this probability.")  # fmt: skip
@click.option(
    "--box", "boxes", multiple=True, metavar="X0,Y0,X1,Y1", callback=numbers_of("X0,Y0,X1,Y1"),
    help="A person's box in pixels, of one picture; may be given again.",
)  # fmt: skip
@folder_option
@usual_options
def pose(
    files: tuple[str, ...], detector: str | None, threshold: float, boxes: list[list[float]], folder: str | None,
    as_json: bool, **settings: Any,
) -> int:  # fmt: skip
    """Find the points of the bodies of persons in each IMAGE with a model such as ViTPose: a line for each point, with
    the person's number, the point's name, how likely it is there, x and y in pixels, and the picture's name. Without
    --box and --detector, a person fills the picture.
    """
    if boxes and (detector or len(files) > 1):
        raise click.UsageError("--box is of one picture, and does not go with --detector.")
    draw = drawer(files, folder, lambda image, values: vision.draw_boxes(image, values["objects"]))
    persons: list[Any] = [[] for _ in files]

    def keep(index: int, values: Any) -> None:
        persons[index] = [entry["box"] for entry in values["objects"] if entry["label"].lower() == "person"]

    def lines(index: int, values: Any) -> list[str]:
        return [
            f"{number}\t{name}\t{likely:.4f}\t{x:.1f} {y:.1f}\t{files[index]}"
            for number, found in enumerate(values["objects"], 1)
            for name, (x, y, likely) in zip(values["points"], found["points"], strict=True)
        ]

    given: Any = [boxes] if boxes else None
    if detector is not None:
        given = persons
        find = partial(tasks.detect_objects, list(files), model=detector, threshold=threshold)
        if code := forward(drawing(find, keep), View()):
            return code
    look = partial(tasks.estimate_poses, list(files), boxes=given, **settings)
    return forward_items(drawing(look, draw), as_json, lines)


@command("key-points", short_help="Find points that are easily found again.")
@images_argument
@model_option("magic-leap-community/superpoint")
@click.option("--top", type=click.IntRange(min=1), help="How many points, the surest first. [default: all]")
@folder_option
@usual_options
def key_points(files: tuple[str, ...], folder: str | None, as_json: bool, **settings: Any) -> int:
    """Find the points of each IMAGE that are easily found again from elsewhere, with a model such as SuperPoint
    (magic-leap-community/superpoint): a line for each point, with x and y in pixels, how surely there is one, and the
    picture's name. --json has what the points look like too.
    """
    draw = drawer(files, folder, lambda image, values: vision.draw_points(image, values["points"]))

    def lines(index: int, values: Any) -> list[str]:
        return [f"{x:.1f} {y:.1f}\t{sure:.4f}\t{files[index]}" for x, y, sure in values["points"]]

    look = partial(tasks.detect_points, list(files), descriptors=as_json, **settings)
    return forward_items(drawing(look, draw), as_json, lines)


@command("match-points", short_help="Find the same points in two pictures.")
@click.argument("first", type=click.Path(), metavar="FIRST")
@images_argument
@model_option("ETH-CVG/lightglue_superpoint")
@click.option("--top", type=click.IntRange(min=1), help="How many matches, the surest first. [default: all]")
@folder_option
@usual_options
def match_points(first: str, files: tuple[str, ...], folder: str | None, as_json: bool, **settings: Any) -> int:
    """Find the points of the picture FIRST in each IMAGE, with a model such as LightGlue (ETH-CVG/lightglue_superpoint)
    or SuperGlue: a line for each, with x and y in the first picture and in the other one, in pixels, how sure it is,
    and the other picture's name.
    """
    draw = drawer(
        files, folder,
        lambda image, values: vision.draw_matches(vision.read_image(first), image, values["matches"]),
    )  # fmt: skip

    def lines(index: int, values: Any) -> list[str]:
        return [
            f"{x:.1f} {y:.1f}\t{u:.1f} {v:.1f}\t{sure:.4f}\t{files[index]}" for x, y, u, v, sure in values["matches"]
        ]

    look = partial(tasks.match_points, first, list(files), **settings)
    return forward_items(drawing(look, draw), as_json, lines)


point_option = click.option(
    "--point", "points", multiple=True, metavar="X,Y", callback=numbers_of("X,Y"),
    help="A pixel of the object to cut out, with a model such as SAM; may be given again.",
)  # fmt: skip
other_point_option = click.option(
    "--not-point", "others", multiple=True, metavar="X,Y", callback=numbers_of("X,Y"),
    help="A pixel that is not of the object; may be given again.",
)  # fmt: skip
box_option = click.option(
    "--box", metavar="X0,Y0,X1,Y1", callback=numbers_of("X0,Y0,X1,Y1"), help="A box around the object."
)


def prompts(points: list[list[float]], others: list[list[float]]) -> dict[str, Any]:
    """The points of an object, and those that are not of it, as tasks take them."""
    return {"points": [*points, *others], "labels": [1] * len(points) + [0] * len(others)}


def areas_of(values: Any) -> Any:
    """(H, W): the number of each pixel's area, of an Item with the runs of these numbers."""
    numbers, lengths = zip(*values["runs"], strict=True)
    return np.repeat(np.array(numbers), np.array(lengths)).reshape(values["size"])


@command(short_help="Label the areas of pictures.")
@images_argument
@model_option("nvidia/segformer-b0-finetuned-ade-512-512")
@point_option
@other_point_option
@label_options("What to find, with a model such as CLIPSeg: sky,red car", '"a photo of a {}."')
@click.option("--threshold", type=click.FloatRange(0, 1),
              help="With --labels: only pixels with at least this probability.  [default: 0.5]")  # fmt: skip
@box_option
@click.option("--everything", is_flag=True, help="Cut out all objects, with a model such as SAM.")
@click.option("--points-per-side", type=click.IntRange(1, 256),
              help="With --everything: points on each side of the grid that is asked for.  [default: 32]")  # fmt: skip
@folder_option
@usual_options
def segment(
    files: tuple[str, ...], points: list[list[float]], others: list[list[float]], box: list[float] | None,
    labels: str | None, template: str | None, threshold: float | None, everything: bool, points_per_side: int | None,
    folder: str | None, as_json: bool, **settings: Any,
) -> int:  # fmt: skip
    """Label each pixel of each IMAGE with a model such as SegFormer: the labels with their shares of the picture, then
    its name. With --point or --box, a model such as SAM cuts out the object there, with --everything all objects; with
    --labels, a model such as CLIPSeg finds what these name.
    """
    words = own_labels(labels, template)
    if words is not None and (points or others or box):
        raise click.UsageError("--labels does not go with --point, --not-point and --box.")
    if threshold is not None and words is None:
        raise click.UsageError("--threshold needs --labels.")
    if everything and (points or others or box or words is not None):
        raise click.UsageError("--everything does not go with --point, --not-point, --box and --labels.")
    if points_per_side is not None and not everything:
        raise click.UsageError("--points-per-side needs --everything.")

    def drawn(image: Any, values: Any) -> Any:
        names = {found["number"]: found["label"] for found in values["segments"]}
        known = [names.get(number, "") for number in range(max(names, default=0) + 1)]
        return vision.draw_areas(image, areas_of(values), known)

    draw = drawer(files, folder, drawn)

    def lines(index: int, values: Any) -> list[str]:
        found = ", ".join(f"{entry['label']} {entry['share']:.4f}" for entry in values["segments"])
        return [f"{found}\t{files[index]}"]

    if threshold is not None:
        settings["threshold"] = threshold
    if points_per_side is not None:
        settings["points_per_side"] = points_per_side
    if words is not None:
        look = partial(tasks.segment_labels, list(files), words, template=template, **settings)
    elif everything:
        look = partial(tasks.cut_out_everything, list(files), **settings)
    elif points or others or box:
        look = partial(tasks.cut_out_objects, list(files), **prompts(points, others), box=box, **settings)
    else:
        look = partial(tasks.segment_images, list(files), **settings)
    return forward_items(drawing(look, draw), as_json, lines)


@command(short_help="Follow an object through a video.")
@click.argument("video", type=click.Path(exists=True, file_okay=False), metavar="FRAMES")
@model_option("facebook/sam2.1-hiera-tiny")
@point_option
@other_point_option
@box_option
@click.option(
    "--frame", type=click.IntRange(min=0), default=0, show_default=True, help="The frame of these points, from 0."
)
@folder_option
@usual_options
def follow(
    video: str, points: list[list[float]], others: list[list[float]], folder: str | None, as_json: bool, **settings: Any
) -> int:  # fmt: skip
    """Cut out of each frame of the folder FRAMES what points or a box show in one of them, with a model such as SAM 2
    (facebook/sam2.1-hiera-tiny): of each frame the part that the object covers and how probably it is there, then the
    frame's name. The frames from that one on come first, then those before it, the last one first.
    """
    from pyapp.vision.videos import files_in

    frames = [str(path) for path in files_in(video)]

    draw = drawer(
        frames, folder, lambda image, values: vision.draw_areas(image, areas_of(values), ["", "object"])
    )  # fmt: skip

    def lines(index: int, values: Any) -> list[str]:
        found = ", ".join(f"{entry['share']:.4f} {entry['score']:.4f}" for entry in values["segments"])
        return [f"{found}\t{Path(frames[index]).name}"]

    look = partial(tasks.follow_objects, video, **prompts(points, others), **settings)
    return forward_items(drawing(look, draw), as_json, lines)


@command(short_help="Say what pictures show.")
@images_argument
@model_option("Salesforce/blip-image-captioning-base")
@beams_option
@tokens_option
@click.option("--prompt", type=WORDS, metavar="TEXT",
              help="A question, for GIT (microsoft/git-base-vqav2), InstructBLIP, BLIP-2 with a T5, Pix2Struct and "
              "DePlot; for "
              "Florence-2: <DETAILED_CAPTION>, <OCR>, <OD> … [default: a caption]")  # fmt: skip
@click.option("--font", type=click.Path(exists=True, dir_okay=False),
              help="The TrueType file in which Pix2Struct's questions are drawn.  [default: Arial, from the "
              "hub]")  # fmt: skip
@usual_options
def caption(files: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Write what each IMAGE shows with a model such as BLIP or Florence-2, or its answer to a --prompt: a line for each
    picture.
    """
    look = partial(tasks.read_images, list(files), **settings)
    return forward_items(look, as_json, lambda index, values: [" ".join(values["text"].split())])


__commands__ = {
    PICTURES: (
        answer_image, caption, classify_image, classify_video, depth, detect, embed_image, follow, key_points,
        match_points, pose, segment, upscale,
    ),
}  # fmt: skip
